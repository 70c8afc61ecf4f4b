//===- ExpertsKernel.cpp - Products of each expert with its tokens ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/VectorMath.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/module_abi.h"
#include "lib/Target/CPU/CodeNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// Slots of the plan.
enum { kPerTile = ITX_PLAN_PRIVATE, kPerFinishTile };
/// Tiles per thread, so that a thread that is held up does not hold up the others. More would gather the rows of all
/// experts more often, which costs nothing where there are few of them.
constexpr int64_t kTilesPerThread = 4, kTilesPerThreadOfFew = 16;

/// One of the two weights: matrices [rows, depth].
struct Matrices {
  Value value;
  int64_t rows, depth;
  std::optional<BlockPanels> codes; ///< how they are stored, if as codes
  bool isRounded;                   ///< the left operand is records
  int64_t group = 1;                ///< steps of it that share a scale
  std::optional<Storage> stored;
  bool packed = false;
  Type type; ///< of elements as they are multiplied

  int64_t panels() const { return llvm::divideCeil(rows, kPanelWidth); }
  /// Bytes of a row of the left operand.
  int64_t bytesOfRow() const { return isRounded ? rowBytes(*codes) : std::max<int64_t>(depth, 1) * 4; }
};

/// Rows, pairs of a token and one of its experts, are sorted by expert. A tile owns some panels of the first products
/// and goes through all experts: it gathers the rows of one, multiplies them by the panels of gate and up, and writes
/// the activations to the scratch of the launch, in the order of the rows. A finishing tile owns some panels of the
/// second product, so that it alone adds to those columns of the result, expert after expert. All sums are in an order
/// that neither threads nor the other rows change. Every call sorts anew: it costs two steps a row, where the products
/// cost millions.
///
/// If the input is quantized to 8 bits, records of its rows are gathered (CodeRecords.cpp). If the intermediate rows
/// are, each panel of the first products makes one record of each row: its columns are a block.
class ExpertsKernel final : public KernelEmitter {
public:
  ExpertsKernel(rt::KernelOp kernel, nn::ExpertsOp root, const TileConfig &config);

private:
  LogicalResult run() override;
  LogicalResult plan() override;

  LogicalResult findOperands();
  LogicalResult findMatrices(Matrices &matrices);
  void countTokens();
  void makeRoom();
  void makeRoomForPanels();
  int64_t blockRows(const Matrices &matrices) const;
  /// Rows that are read and written beyond the last: register tiles take as many as they are made for.
  int64_t roomForRows() const { return std::max(config.codeRows, config.decodeRows); }

  // Rows by expert.
  void sortByExpert();
  void forRows(function_ref<void(Value row, Value bucket)> body);
  void forBlocks(int64_t rowsOfBlock, function_ref<void(Value expert, Value first, Value count)> body);
  void forColumns(Value panel, int64_t features, function_ref<void(Value column, int64_t width)> body);

  // Products by panels.
  Value panelOf(const Matrices &matrices, Value matrix, Value panel);
  void emitProduct(const Matrices &matrices, Value a, Value right, Value count, Value out);
  void emitCodePanel(const Matrices &matrices, Value records, Value panel, Value count, Value out);
  void multiplyUnpacked(const Matrices &matrices, Value records, Value panel, Value count, Value out);
  Value sumAt(const Matrices &matrices, Value from, Value c, Value panel, int64_t width);

  // Tiles of the first products.
  void gather(Value first, Value count);
  void emitInnerPanel(Value expert, Value first, Value count, Value panel);
  Value activationsAt(Value expert, Value column, ArrayRef<Value> panels, Value from, Value c, int64_t width);
  Value activate(Value gate, Value up, int64_t width);
  void writeActivations(Value first, Value r, Value panel);

  // Finishing tiles.
  void emitFinishTile(Value firstPanel, Value endPanel);
  void fill(Value token, Value firstColumn, Value columns, double value);
  void addToResult(Value expert, Value first, Value count, Value panel, Value right);

  Value numbers(double value, int64_t width) { return floatConstant(value, b.getF32Type(), width); }

  nn::ExpertsOp root;
  nn::QuantizeOp roundedInput;
  int64_t experts, inner, hidden;
  Matrices gateUp, down;
  int64_t gatherRows = 0, finishRows = 0; ///< rows of an expert that are multiplied at a time
  int64_t partBytes = 0;                  ///< of `sums`, one for the gate and one for up
  Value tokens, topK;
  /// Rows sorted by expert, i64: those of expert e are order[begins[e]] … order[begins[e + 1] - 1], those whose index
  /// is outside of the experts come last. A row is token * top_k + k; begins has experts + 3 elements.
  Value begins, order;
  Value gathered, sums;
  Value packedPanel, codes,
      scales;        ///< a panel as it is multiplied: numbers, or config.codeSteps steps' codes and scales
  Value activations; ///< a row's columns of a panel before they are rounded, or null
};
} // namespace

ExpertsKernel::ExpertsKernel(rt::KernelOp kernel, nn::ExpertsOp root, const TileConfig &config)
    : KernelEmitter(kernel, config), root(root), roundedInput(quantizedInput(root.getInput())) {
  auto gateUpType = cast<RankedTensorType>(root.getGateUp().getType());
  experts = gateUpType.getDimSize(0);
  inner = gateUpType.getDimSize(2);
  hidden = gateUpType.getDimSize(3);
  gateUp = {root.getGateUp(), inner, hidden, panelsOf(root.getGateUp()), roundedInput != nullptr};
  down = {root.getDown(), hidden, inner, panelsOf(root.getDown()), root.getIntermediateFormatAttr() != nullptr};
  if (roundedInput)
    gateUp.group = stepsOfScale(roundedInput);
}

Emitter makeExpertsKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<ExpertsKernel>(kernel, cast<nn::ExpertsOp>(root), config);
}

void ExpertsKernel::countTokens() {
  ArrayRef<AffineExpr> indexSizes = sizes.of(root.getIndices());
  tokens = size(indexSizes[0]);
  topK = size(indexSizes[1]);
}

LogicalResult ExpertsKernel::plan() {
  countTokens();
  Value isFew = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, mul(tokens, topK),
                                      constant(kDecodePasses * config.decodeRows));
  Value perThread = arith::SelectOp::create(b, loc, isFew, constant(kTilesPerThreadOfFew), constant(kTilesPerThread));
  auto evenly = [&](int64_t panels) { return max(ceilDiv(constant(panels), mul(threads, perThread)), constant(1)); };
  Value perTile = evenly(gateUp.panels()), perFinishTile = evenly(down.panels());
  setPlan(kPerTile, perTile);
  setPlan(kPerFinishTile, perFinishTile);
  setPlan(ITX_PLAN_TILES, ceilDiv(constant(gateUp.panels()), perTile));
  setPlan(ITX_PLAN_FINISH_TILES, ceilDiv(constant(down.panels()), perFinishTile));
  Value rows = mul(tokens, topK);
  Value shared = down.isRounded ? mul(add(rows, constant(roomForRows())), constant(rowBytes(*down.codes)))
                                : mul(rows, constant(inner * 4));
  setPlan(ITX_PLAN_SHARED_BYTES, shared);
  // No tile writes the records of steps beyond the last column.
  if (down.isRounded && down.codes->steps() != gateUp.panels())
    setPlan(ITX_PLAN_ZEROED_BYTES, shared);
  return success();
}

LogicalResult ExpertsKernel::run() {
  countTokens();
  if (failed(findOperands()))
    return failure();
  makeRoom();
  sortByExpert();
  Value tiles = planValue(ITX_PLAN_TILES);
  Value perTile = planValue(kPerTile), perFinishTile = planValue(kPerFinishTile);
  forLoop(tileBegin, min(tileEnd, tiles), constant(1), [&](Value tile) {
    Value firstPanel = mul(tile, perTile), endPanel = min(add(firstPanel, perTile), constant(gateUp.panels()));
    forBlocks(gatherRows, [&](Value expert, Value first, Value count) {
      gather(first, count);
      forLoop(firstPanel, endPanel, constant(1), [&](Value panel) { emitInnerPanel(expert, first, count, panel); });
    });
  });
  forLoop(max(sub(tileBegin, tiles), constant(0)), sub(tileEnd, tiles), constant(1), [&](Value tile) {
    Value firstPanel = mul(tile, perFinishTile);
    emitFinishTile(firstPanel, min(add(firstPanel, perFinishTile), constant(down.panels())));
  });
  return success();
}

LogicalResult ExpertsKernel::findOperands() {
  if (roundedInput && !gateUp.codes)
    return unsupported(root, "its input is rounded to 8 bits, gate_up is not stored as codes");
  auto isBlockOf32 = [](nn::BlockFormatAttr format) {
    return format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
           format.getBlock() == BlockPanels::stepDepth;
  };
  if (down.isRounded && !(down.codes && isBlockOf32(root.getIntermediateFormatAttr())))
    return unsupported(
        root, "its intermediate rows are rounded, which needs 8 bits in blocks of 32 and down stored as codes");
  if (kernel.getResultTypes().size() != 1 || yielded(0) != root.getResult())
    return unsupported(root, "an op stands between it and the kernel's result");
  return failure(failed(findMatrices(gateUp)) || failed(findMatrices(down)));
}

LogicalResult ExpertsKernel::findMatrices(Matrices &matrices) {
  matrices.stored = view(matrices.value);
  matrices.type = b.getF32Type();
  rt::LayoutAttr layout;
  if (auto argument = dyn_cast<BlockArgument>(matrices.value))
    layout = kernel.getArgAttrOfType<rt::LayoutAttr>(argument.getArgNumber(), "rt.layout");
  matrices.packed = layout && layout.getKind() == rt::LayoutKind::Panels;
  if (!matrices.stored || (matrices.packed && layout.getWidth() != kPanelWidth))
    return unsupported(root, "its weights are neither packed in panels of 32 nor tensors in memory");
  if (matrices.packed && !matrices.codes)
    matrices.type = matrices.stored->elementType;
  return success();
}

/// Returns how many rows of an expert are multiplied at a time.
int64_t ExpertsKernel::blockRows(const Matrices &matrices) const {
  int64_t tileRows = matrices.isRounded ? config.codeRows : config.rows, most = matrices.isRounded ? 48 : 16;
  int64_t rows = config.blockBytes / matrices.bytesOfRow();
  return std::clamp<int64_t>(rows, 2 * tileRows, most * tileRows) / tileRows * tileRows;
}

void ExpertsKernel::makeRoom() {
  ArrayRef<AffineExpr> indexSizes = sizes.of(root.getIndices());
  gatherRows = blockRows(gateUp);
  finishRows = blockRows(down);
  begins = scratch((experts + 3) * 8);
  order = scratch(indexSizes[0] * indexSizes[1] * 8);
  gathered = scratch((gatherRows + roomForRows()) * gateUp.bytesOfRow());
  partBytes = (std::max(gatherRows, finishRows) + roomForRows()) * kPanelWidth * 4;
  sums = scratch(2 * partBytes);
  makeRoomForPanels();
  activations = down.isRounded ? scratch(kPanelWidth * 4) : Value();
}

void ExpertsKernel::makeRoomForPanels() {
  int64_t numberBytes = 0, unpackedSteps = 0, unpackedScales = 0;
  for (const Matrices &matrices : {gateUp, down}) {
    int64_t depth = matrices.codes ? matrices.codes->steps() * BlockPanels::stepDepth : matrices.depth;
    if (!matrices.isRounded && (matrices.codes || !matrices.packed))
      numberBytes = std::max(numberBytes, kPanelWidth * depth * 4);
    if (!matrices.isRounded)
      continue;
    int64_t steps = std::min(config.codeSteps, matrices.codes->steps());
    unpackedSteps = std::max(unpackedSteps, steps);
    unpackedScales = std::max(unpackedScales, steps * blocksOfStep(*matrices.codes) * scaleRows(*matrices.codes));
  }
  packedPanel = numberBytes ? scratch(numberBytes) : Value();
  codes = unpackedSteps ? scratch(unpackedSteps * BlockPanels::stepDepth * kPanelWidth) : Value();
  scales = unpackedSteps ? scratch(unpackedScales * 4) : Value();
}

//===-- Rows by expert ----------------------------------------------------------------------------------------===//

/// Emits `body` for all rows, with the number of their expert, or of the bucket behind the last expert.
void ExpertsKernel::forRows(function_ref<void(Value row, Value bucket)> body) {
  forLoop(constant(0), tokens, constant(1), [&](Value token) {
    forLoop(constant(0), topK, constant(1), [&](Value k) {
      Value expert = integerAt(root.getIndices(), {Index{token}, Index{k}});
      Value isInside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, expert, constant(experts));
      body(add(mul(token, topK), k), arith::SelectOp::create(b, loc, isInside, expert, constant(experts)));
    });
  });
}

/// Sorts the rows by expert, stably.
void ExpertsKernel::sortByExpert() {
  Type i64 = b.getI64Type();
  // While rows are counted and placed, what belongs to an expert lies two and one places further on.
  forLoop(constant(0), constant(experts + 3), constant(1), [&](Value i) { storeAt(constant(0), begins, i, i64, 1); });
  forRows([&](Value, Value bucket) {
    Value place = add(bucket, constant(2));
    storeAt(add(loadAt(begins, place, i64, 1), constant(1)), begins, place, i64, 1);
  });
  forLoop(constant(2), constant(experts + 3), constant(1), [&](Value i) {
    storeAt(add(loadAt(begins, i, i64, 1), loadAt(begins, sub(i, constant(1)), i64, 1)), begins, i, i64, 1);
  });
  forRows([&](Value row, Value bucket) {
    Value place = add(bucket, constant(1)), next = loadAt(begins, place, i64, 1);
    storeAt(row, order, next, i64, 1);
    storeAt(add(next, constant(1)), begins, place, i64, 1);
  });
}

/// Emits `body` for blocks of the rows of each expert.
void ExpertsKernel::forBlocks(int64_t rowsOfBlock, function_ref<void(Value, Value, Value)> body) {
  Type i64 = b.getI64Type();
  forLoop(constant(0), constant(experts), constant(1), [&](Value expert) {
    Value end = loadAt(begins, add(expert, constant(1)), i64, 1);
    forLoop(loadAt(begins, expert, i64, 1), end, constant(rowsOfBlock),
            [&](Value first) { body(expert, first, min(sub(end, first), constant(rowsOfBlock))); });
  });
}

/// Emits `body` for the columns of a panel that are features.
void ExpertsKernel::forColumns(Value panel, int64_t features, function_ref<void(Value, int64_t)> body) {
  Value columns = min(sub(constant(features), mul(panel, constant(kPanelWidth))), constant(kPanelWidth));
  vectorLoop(features % kPanelWidth ? columns : constant(kPanelWidth), body);
}

//===-- Products ----------------------------------------------------------------------------------------------===//

/// Returns the right operand of a product: where it lies, or where it is put.
Value ExpertsKernel::panelOf(const Matrices &matrices, Value matrix, Value panel) {
  if (matrices.codes) {
    Value number = add(mul(matrix, constant(matrices.panels())), panel);
    Value place = mul(number, constant(matrices.codes->panelBytes()));
    Value stored = offsetPointer(matrices.stored->pointer, place, b.getI8Type());
    if (matrices.isRounded)
      return stored;
    decodePanel(*matrices.codes, stored, packedPanel);
    return packedPanel;
  }
  if (matrices.packed) {
    Value number = add(mul(matrix, constant(matrices.panels())), panel);
    return offsetPointer(matrices.stored->pointer, mul(number, constant(kPanelWidth * matrices.depth)), matrices.type);
  }
  Value row = mul(panel, constant(kPanelWidth)), depth = constant(matrices.depth);
  Value first = mul(add(mul(matrix, constant(matrices.rows)), row), depth);
  packTransposed(packedPanel, offsetPointer(matrices.stored->pointer, first, matrices.stored->elementType), depth,
                 matrices.stored->elementType, depth, min(sub(constant(matrices.rows), row), constant(kPanelWidth)),
                 Value());
  return packedPanel;
}

/// Multiplies rows [a, a + count) by a panel, into rows of `out`.
void ExpertsKernel::emitProduct(const Matrices &matrices, Value a, Value right, Value count, Value out) {
  if (matrices.isRounded) {
    emitCodePanel(matrices, a, right, count, out);
    return;
  }
  Type f32 = b.getF32Type();
  Value lines =
      ceilDiv(constant(kPanelWidth * matrices.type.getIntOrFloatBitWidth() / 8), ceilDiv(count, constant(config.rows)));
  forLoop(constant(0), count, constant(config.rows), [&](Value m) {
    TileOperands operands;
    operands.a = offsetPointer(a, mul(m, constant(matrices.depth)), f32);
    operands.aRow = constant(matrices.depth);
    operands.aColumn = constant(1);
    operands.aType = f32;
    operands.b = right;
    operands.bRow = constant(kPanelWidth);
    operands.bType = matrices.type;
    operands.depth = constant(matrices.depth);
    operands.out = offsetPointer(out, mul(m, constant(kPanelWidth)), f32);
    operands.outRow = constant(kPanelWidth);
    operands.ordered = true;
    if (matrices.packed && !matrices.codes) {
      // The panel that follows comes into the second-level cache meanwhile.
      Value next = offsetPointer(right, constant(matrices.depth * kPanelWidth), matrices.type);
      Value part = mul(mul(div(m, constant(config.rows)), lines), constant(matrices.depth));
      operands.prefetch = offsetPointer(next, part, b.getI8Type());
      operands.prefetchStep = lines;
    }
    emitTileRows(operands, min(sub(count, m), constant(config.rows)), kPanelWidth);
  });
}

/// Multiplies the records of `count` rows by a panel of codes: `out` [rows][32] f32. Rows of sums and of records that a
/// register tile has beyond the last are read and written too.
void ExpertsKernel::emitCodePanel(const Matrices &matrices, Value records, Value panel, Value count, Value out) {
  Value isFew =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, count, constant(kDecodePasses * config.decodeRows));
  ifThen(
      isFew, [&] { emitDecodeRows(*matrices.codes, matrices.group, count, panel, records, out); },
      [&] { multiplyUnpacked(matrices, records, panel, count, out); });
}

/// Multiplies many rows: some steps of the panel are unpacked, all rows pass over them, and so on.
void ExpertsKernel::multiplyUnpacked(const Matrices &matrices, Value records, Value panel, Value count, Value out) {
  const BlockPanels &panels = *matrices.codes;
  int64_t tileRows = config.codeRows;
  Type i8 = b.getI8Type();
  Value tiles = ceilDiv(count, constant(tileRows)), allSteps = constant(panels.steps());
  int64_t bytesOfStep = panels.unitBytes * BlockPanels::stepDepth / panels.unitDepth;
  Value bytesAhead = max(ceilDiv(constant(bytesOfStep), tiles), constant(kLeastAhead));
  forLoop(constant(0), allSteps, constant(config.codeSteps), [&](Value step) {
    Value end = min(add(step, constant(config.codeSteps)), allSteps), steps = sub(end, step);
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, step, constant(0));
    unpackPanel(panels, panel, step, end, codes, scales);
    // The bytes after these steps, of this panel or the next, are prefetched into the second-level cache meanwhile.
    Value next = offsetPointer(panel, add(constant(panels.headBytes), mul(end, constant(bytesOfStep))), i8);
    forLoop(constant(0), count, constant(tileRows), [&](Value m) {
      Value part = mul(mul(div(m, constant(tileRows)), steps), bytesAhead);
      Value recordsOfRow = offsetPointer(records, mul(m, constant(rowBytes(panels))), i8);
      Value recordsOfStep = offsetPointer(recordsOfRow, mul(step, constant(recordBytes(panels))), i8);
      Value sumsOfRow = offsetPointer(out, mul(m, constant(kPanelWidth)), b.getF32Type());
      emitCodeTile(panels, matrices.group, codes, scales, recordsOfStep, steps, sumsOfRow, isFirst,
                   offsetPointer(next, part, i8), bytesAhead);
    });
  });
}

/// Loads the sums of a row by a panel, from column c on.
Value ExpertsKernel::sumAt(const Matrices &matrices, Value from, Value c, Value panel, int64_t width) {
  Type f32 = b.getF32Type();
  Value sum = loadAt(sums, add(from, c), f32, width);
  if (!matrices.isRounded || !matrices.codes->headBytes)
    return sum;
  // The scale of the whole row of the weight.
  Type type = matrices.codes->block ? f32 : nn::scaleType(matrices.codes->scale, b.getContext());
  return arith::MulFOp::create(b, loc, sum, loadAt(panel, c, type, width));
}

//===-- First products ----------------------------------------------------------------------------------------===//

/// Gathers the inputs of `count` rows from `first` on, as numbers or records.
void ExpertsKernel::gather(Value first, Value count) {
  forLoop(constant(0), count, constant(1), [&](Value r) {
    Value token = div(loadAt(order, add(first, r), b.getI64Type(), 1), topK), to = mul(r, constant(hidden));
    if (roundedInput) {
      quantizeRow(roundedInput, *gateUp.codes, makeRow(token, sizes.of(root.getInput()).drop_back()),
                  offsetPointer(gathered, mul(r, constant(gateUp.bytesOfRow())), b.getI8Type()));
      return;
    }
    vectorLoop(constant(hidden), [&](Value k, int64_t width) {
      storeAt(evaluate(root.getInput(), {Index{token}, Index{k, true}}, width), gathered, add(to, k), b.getF32Type(),
              width);
    });
  });
}

/// Multiplies the gathered rows by a panel of gate and up, and writes the activations.
void ExpertsKernel::emitInnerPanel(Value expert, Value first, Value count, Value panel) {
  Type f32 = b.getF32Type();
  auto matrixOf = [&](Value part) { return add(mul(expert, constant(2)), part); };
  forLoop(constant(0), constant(2), constant(1), [&](Value part) {
    Value right = panelOf(gateUp, matrixOf(part), panel);
    emitProduct(gateUp, gathered, right, count, offsetPointer(sums, mul(part, constant(partBytes)), b.getI8Type()));
  });
  Value panels[2];
  if (gateUp.isRounded)
    for (int64_t part : {0, 1})
      panels[part] = panelOf(gateUp, matrixOf(constant(part)), panel);
  Value column = mul(panel, constant(kPanelWidth));
  if (activations && inner % kPanelWidth)
    vectorLoop(constant(kPanelWidth),
               [&](Value c, int64_t width) { storeAt(numbers(0.0, width), activations, c, f32, width); });
  forLoop(constant(0), count, constant(1), [&](Value r) {
    Value from = mul(r, constant(kPanelWidth)), to = mul(add(first, r), constant(inner));
    forColumns(panel, inner, [&](Value c, int64_t width) {
      Value value = activationsAt(expert, column, panels, from, c, width);
      if (activations)
        storeAt(value, activations, c, f32, width);
      else
        storeAt(value, sharedPointer, add(to, add(column, c)), f32, width);
    });
    if (activations)
      writeActivations(first, r, panel);
  });
}

/// Returns activations from the sums of gate and up, from column `c` of a panel on, which begins at `column`.
Value ExpertsKernel::activationsAt(Value expert, Value column, ArrayRef<Value> panels, Value from, Value c,
                                   int64_t width) {
  Value parts[2];
  for (int64_t part : {0, 1}) {
    parts[part] = sumAt(gateUp, add(constant(part * partBytes / 4), from), c, panels[part], width);
    if (Value bias = root.getGateUpBias())
      parts[part] = arith::AddFOp::create(
          b, loc, parts[part],
          evaluate(bias, {Index{expert}, Index{constant(part)}, Index{add(column, c), true}}, width));
  }
  return activate(parts[0], parts[1], width);
}

Value ExpertsKernel::activate(Value gate, Value up, int64_t width) {
  if (root.getActivation() == nn::GatedActivation::Silu)
    return arith::MulFOp::create(b, loc, emitSilu(b, loc, gate), up);
  double limit = root.getLimit().convertToDouble();
  gate = arith::MinimumFOp::create(b, loc, gate, numbers(limit, width));
  up = arith::MinimumFOp::create(b, loc, up, numbers(limit, width));
  up = arith::MaximumFOp::create(b, loc, up, numbers(-limit, width));
  Value alpha = numbers(root.getAlpha().convertToDouble(), width);
  Value glu = arith::MulFOp::create(b, loc, gate, emitSigmoid(b, loc, arith::MulFOp::create(b, loc, gate, alpha)));
  return arith::MulFOp::create(b, loc, arith::AddFOp::create(b, loc, up, numbers(1.0, width)), glu);
}

/// Writes the activations of row `r` from `first` on, of a panel, as a record. Steps beyond the last panel stay zero,
/// as the scratch of the launch begins.
void ExpertsKernel::writeActivations(Value first, Value r, Value panel) {
  SmallVector<Value> values;
  for (int64_t k = 0; k < kPanelWidth; k += config.lanes)
    values.push_back(loadAt(activations, constant(k), b.getF32Type(), config.lanes));
  Value row = add(first, r);
  Value place = add(mul(row, constant(down.bytesOfRow())), mul(panel, constant(recordBytes(*down.codes))));
  Value largest = magnitudes(values.front());
  for (Value part : ArrayRef(values).drop_front())
    largest = arith::MaxSIOp::create(b, loc, largest, magnitudes(part));
  RecordScale scale = scaleOfRecord(*down.codes, largest);
  writeRecord(*down.codes, values, scale, offsetPointer(sharedPointer, place, b.getI8Type()));
}

//===-- Second product ----------------------------------------------------------------------------------------===//

/// Adds the products of panels [firstPanel, endPanel) to their columns of the result.
void ExpertsKernel::emitFinishTile(Value firstPanel, Value endPanel) {
  Type i64 = b.getI64Type();
  Value firstColumn = mul(firstPanel, constant(kPanelWidth));
  Value columns = sub(min(mul(endPanel, constant(kPanelWidth)), constant(hidden)), firstColumn);
  forLoop(constant(0), tokens, constant(1), [&](Value token) { fill(token, firstColumn, columns, 0.0); });
  forBlocks(finishRows, [&](Value expert, Value first, Value count) {
    forLoop(firstPanel, endPanel, constant(1), [&](Value panel) {
      Value right = panelOf(down, expert, panel);
      Value left = offsetPointer(sharedPointer, mul(first, constant(down.bytesOfRow())), b.getI8Type());
      emitProduct(down, left, right, count, sums);
      addToResult(expert, first, count, panel, right);
    });
  });
  // Rows of no expert make their tokens NaN.
  Value end = loadAt(begins, constant(experts + 1), i64, 1);
  forLoop(loadAt(begins, constant(experts), i64, 1), end, constant(1), [&](Value i) {
    Value token = div(loadAt(order, i, i64, 1), topK);
    fill(token, firstColumn, columns, std::numeric_limits<double>::quiet_NaN());
  });
}

/// Sets the columns of a tile in a row of the result.
void ExpertsKernel::fill(Value token, Value firstColumn, Value columns, double value) {
  vectorLoop(columns, [&](Value c, int64_t width) {
    store(numbers(value, width), outputs[0], {Index{token}, Index{add(firstColumn, c), true}}, width);
  });
}

/// Adds the sums of `count` rows by a panel to their tokens, times the weights of the expert.
void ExpertsKernel::addToResult(Value expert, Value first, Value count, Value panel, Value right) {
  const Storage &output = outputs[0];
  Value column = mul(panel, constant(kPanelWidth));
  forLoop(constant(0), count, constant(1), [&](Value r) {
    Value row = loadAt(order, add(first, r), b.getI64Type(), 1);
    Value token = div(row, topK), from = mul(r, constant(kPanelWidth));
    Value weight = evaluate(root.getWeights(), {Index{token}, Index{rem(row, topK)}}, 1);
    forColumns(panel, hidden, [&](Value c, int64_t width) {
      Index feature{add(column, c), true};
      Value sum = sumAt(down, from, c, right, width);
      if (Value bias = root.getDownBias())
        sum = arith::AddFOp::create(b, loc, sum, evaluate(bias, {Index{expert}, feature}, width));
      sum = arith::MulFOp::create(b, loc, sum, splat(weight, width));
      Indices at{{token}, feature};
      store(arith::AddFOp::create(b, loc, load(output, at, width), sum), output, at, width);
    });
  });
}

} // namespace intarsia::cpu
