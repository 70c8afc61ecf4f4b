//===- ExpertsKernel.cpp - Layers of experts: each multiplies its tokens ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/CPU/ExpertsEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/RecordEmitter.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/module_abi.h"
#include "lib/Target/CPU/QuantizedPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

namespace {
/// Slots of the launch.
enum { kPerTile = ITX_PLAN_PRIVATE, kPerFinishTile };
/// Tiles per thread, so that a thread that is held up does not hold up the others. More would gather the rows of all
/// experts more often, which costs nothing where there are few of them.
constexpr int64_t kTilesPerThread = 4, kTilesPerThreadOfFew = 16;

/// Rows, pairs of a token and one of its experts, are sorted by expert. A tile owns some panels of the first matmuls
/// and goes through all experts: it gathers the rows of one, multiplies them by the panels of gate and up, and writes
/// the activations to the scratch of the launch, in the order of the rows. A finishing tile owns some panels of the
/// second matmul, so that it alone adds to those columns of the result, expert after expert. All sums are in an order
/// that neither threads nor the other rows change. Every call sorts anew: it costs two operations a row, where the
/// matmuls cost millions.
///
/// If the input is quantized to 8 bits, records of its rows are gathered (RecordEmitter.cpp). If the intermediate rows
/// are, each panel of the first matmuls makes one record of each row: its columns are a block.
class ExpertsKernel final : public KernelEmitter {
public:
  ExpertsKernel(rt::KernelOp kernel, nn::ExpertsOp root, const TileConfig &config);

private:
  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  void countTokens();
  void makeRoom();

  // Rows by expert.
  LogicalResult sortByExpert();
  LogicalResult forRows(function_ref<void(Value row, Value bucket)> body);
  LogicalResult forBlocks(int64_t rowsOfBlock,
                          function_ref<LogicalResult(Value expert, Value first, Value count)> body);

  // Tiles of the first matmuls.
  LogicalResult gather(Value first, Value count);
  LogicalResult emitInnerPanel(Value expert, Value first, Value count, Value panel);
  Element activationsAt(Value expert, Value column, ArrayRef<Value> panels, Value from, Value c, int64_t width);
  Value activate(Value gate, Value up, int64_t width);
  void writeActivations(Value first, Value r, Value panel);

  // Finishing tiles.
  LogicalResult emitFinishTile(Value firstPanel, Value endPanel);
  void fill(Value token, Value firstColumn, Value columns, double value);
  LogicalResult addToResult(Value expert, Value first, Value count, Value panel, Value right);

  Value floats(double value, int64_t width) { return floatConstant(value, b.getF32Type(), width); }

  nn::ExpertsOp root;
  ExpertsEmitter matmuls{function, tensors, root};
  PanelEmitter weights{function};
  RecordEmitter quantizer{function, tensors};
  nn::QuantizeOp inputQuantize;
  int64_t experts, inner, hidden;
  Matrices gateUp, down;
  int64_t gatherRows = 0, finishRows = 0; ///< rows of an expert that are multiplied at a time
  int64_t partBytes = 0;                  ///< of `sums`, one for the gate and one for up
  Value tokens, topK;
  /// Rows sorted by expert, i64: those of expert e are order[begins[e]] … order[begins[e + 1] - 1]. Behind them come
  /// those whose index is outside of the experts, then those that choose none. A row is token * top_k + k; begins has
  /// experts + 4 elements.
  Value begins, order;
  Value gathered;
  Value activations; ///< a row's columns of a panel before they are quantized, or null
};
} // namespace

ExpertsKernel::ExpertsKernel(rt::KernelOp kernel, nn::ExpertsOp root, const TileConfig &config)
    : KernelEmitter(kernel, config), root(root), inputQuantize(kernel::quantizedInput(root.getInput())) {
  auto gateUpType = cast<RankedTensorType>(root.getGateUp().getType());
  experts = gateUpType.getDimSize(0);
  inner = gateUpType.getDimSize(2);
  hidden = gateUpType.getDimSize(3);
  gateUp = {root.getGateUp(), inner, hidden, weights.panelsOf(root.getGateUp()), inputQuantize != nullptr};
  down = {root.getDown(), hidden, inner, weights.panelsOf(root.getDown()), root.getIntermediateFormatAttr() != nullptr};
  if (inputQuantize)
    gateUp.group = quantizer.stepsOfScale(inputQuantize);
}

Emitter makeExpertsKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<ExpertsKernel>(kernel, cast<nn::ExpertsOp>(root), config);
}

void ExpertsKernel::countTokens() {
  ArrayRef<AffineExpr> indexSizes = function.sizes.of(root.getIndices());
  tokens = function.size(indexSizes[0]);
  topK = function.size(indexSizes[1]);
}

void ExpertsKernel::launch() {
  countTokens();
  Value isFew =
      make<arith::CmpIOp>(arith::CmpIPredicate::sle, mul(tokens, topK), constant(kDecodePasses * config.decodeRows));
  Value perThread = select(isFew, constant(kTilesPerThreadOfFew), constant(kTilesPerThread));
  auto evenly = [&](int64_t panels) {
    return max(ceilDiv(constant(panels), mul(function.threads, perThread)), constant(1));
  };
  Value perTile = evenly(gateUp.panels()), perFinishTile = evenly(down.panels());
  function.setSlot(kPerTile, perTile);
  function.setSlot(kPerFinishTile, perFinishTile);
  function.setSlot(ITX_PLAN_TILES, ceilDiv(constant(gateUp.panels()), perTile));
  function.setSlot(ITX_PLAN_FINISH_TILES, ceilDiv(constant(down.panels()), perFinishTile));
  Value rows = mul(tokens, topK);
  Value shared = down.isInputQuantized
                     ? mul(add(rows, constant(matmuls.roomForRows())), constant(rowBytes(*down.quantized)))
                     : mul(rows, constant(inner * 4));
  function.setSlot(ITX_PLAN_SHARED_BYTES, shared);
  // No tile writes the records of steps beyond the last column.
  if (down.isInputQuantized && down.quantized->steps() != gateUp.panels())
    function.setSlot(ITX_PLAN_ZEROED_BYTES, shared);
}

LogicalResult ExpertsKernel::run() {
  countTokens();
  if (failed(matmuls.findMatrices(gateUp)) || failed(matmuls.findMatrices(down)))
    return failure();
  makeRoom();
  if (failed(sortByExpert()))
    return failure();
  Value tiles = function.slot(ITX_PLAN_TILES);
  Value perTile = function.slot(kPerTile), perFinishTile = function.slot(kPerFinishTile);
  LogicalResult emitted = forLoop(function.tileBegin, min(function.tileEnd, tiles), constant(1), [&](Value tile) {
    Value firstPanel = mul(tile, perTile), endPanel = min(add(firstPanel, perTile), constant(gateUp.panels()));
    return forBlocks(gatherRows, [&](Value expert, Value first, Value count) -> LogicalResult {
      if (failed(gather(first, count)))
        return failure();
      return forLoop(firstPanel, endPanel, constant(1),
                     [&](Value panel) { return emitInnerPanel(expert, first, count, panel); });
    });
  });
  if (failed(emitted))
    return failure();
  Value begin = max(sub(function.tileBegin, tiles), constant(0));
  return forLoop(begin, sub(function.tileEnd, tiles), constant(1), [&](Value tile) {
    Value firstPanel = mul(tile, perFinishTile);
    return emitFinishTile(firstPanel, min(add(firstPanel, perFinishTile), constant(down.panels())));
  });
}

LogicalResult ExpertsKernel::analyze() {
  if (inputQuantize && !gateUp.quantized)
    return function.refuse(root, "its input is quantized to 8 bits, gate_up is not stored quantized");
  for (const Matrices *matrices : {&gateUp, &down})
    if (matrices->isInputQuantized && matrices->quantized && matrices->quantized->isE4M3)
      return function.refuse(root, "rows are quantized to integers of 8 bits, a weight to floats of as many");
  auto isBlockOf32 = [](nn::BlockFormatAttr format) {
    return format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
           format.getBlock() == BlockPanels::stepDepth;
  };
  if (down.isInputQuantized && !(down.quantized && isBlockOf32(root.getIntermediateFormatAttr())))
    return function.refuse(
        root, "its intermediate rows are quantized, which needs 8 bits in blocks of 32 and down stored quantized");
  if (kernel.getResultTypes().size() != 1 || function.yielded(0) != root.getResult())
    return function.refuse(root, "an op stands between it and the kernel's result");
  return success();
}

void ExpertsKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "experts");
  if (gateUp.isInputQuantized || down.isInputQuantized)
    shape.part("bytes", [&](KernelShape &tile) { chooseByteTile(tile, config, config.quantizedRows); });
  if (!gateUp.isInputQuantized || !down.isInputQuantized)
    shape.part("floats", [&](KernelShape &tile) { chooseRegisterTile(tile, config); });
  gatherRows = matmuls.blockRows(gateUp);
  shape.choose("block_rows", gatherRows, {1, kMostBlockRows});
  finishRows = matmuls.blockRows(down);
  shape.choose("block_rows_down", finishRows, {1, kMostBlockRows});
  shape.state("input", inputQuantize ? "gathered, quantized" : "gathered");
}

void ExpertsKernel::makeRoom() {
  ArrayRef<AffineExpr> indexSizes = function.sizes.of(root.getIndices());
  begins = function.scratch((experts + 4) * 8);
  order = function.scratch(indexSizes[0] * indexSizes[1] * 8);
  gathered = function.scratch((gatherRows + matmuls.roomForRows()) * gateUp.bytesOfRow());
  partBytes = (std::max(gatherRows, finishRows) + matmuls.roomForRows()) * kPanelWidth * 4;
  matmuls.sums = function.scratch(2 * partBytes);
  matmuls.makeRoomForPanels({&gateUp, &down});
  activations = down.isInputQuantized ? function.scratch(kPanelWidth * 4) : Value();
}

//===-- Rows by expert ----------------------------------------------------------------------------------------===//

/// Emits `body` for all rows, with the index of their expert, or of one of the two buckets behind the last expert.
LogicalResult ExpertsKernel::forRows(function_ref<void(Value row, Value bucket)> body) {
  return forLoop(constant(0), tokens, constant(1), [&](Value token) {
    return forLoop(constant(0), topK, constant(1), [&](Value k) -> LogicalResult {
      Element expert = tensors.integerAt(root.getIndices(), {Index{token}, Index{k}});
      if (failed(expert))
        return failure();
      Value isInside = make<arith::CmpIOp>(arith::CmpIPredicate::ult, *expert, constant(experts));
      Value isNone = equal(*expert, constant(-1));
      Value other = select(isNone, constant(experts + 1), constant(experts));
      body(add(mul(token, topK), k), select(isInside, *expert, other));
      return success();
    });
  });
}

/// Sorts the rows by expert, stably.
LogicalResult ExpertsKernel::sortByExpert() {
  Type i64 = b.getI64Type();
  // While rows are counted and sorted, what belongs to an expert lies two and one slots further on.
  forLoop(constant(0), constant(experts + 4), constant(1),
          [&](Value i) { memory.store(constant(0), begins, i, i64, 1); });
  LogicalResult counted = forRows([&](Value, Value bucket) {
    Value slot = add(bucket, constant(2));
    memory.store(add(memory.load(begins, slot, i64, 1), constant(1)), begins, slot, i64, 1);
  });
  if (failed(counted))
    return failure();
  forLoop(constant(2), constant(experts + 4), constant(1), [&](Value i) {
    memory.store(add(memory.load(begins, i, i64, 1), memory.load(begins, sub(i, constant(1)), i64, 1)), begins, i, i64,
                 1);
  });
  return forRows([&](Value row, Value bucket) {
    Value slot = add(bucket, constant(1)), next = memory.load(begins, slot, i64, 1);
    memory.store(row, order, next, i64, 1);
    memory.store(add(next, constant(1)), begins, slot, i64, 1);
  });
}

/// Emits `body` for blocks of the rows of each expert.
LogicalResult ExpertsKernel::forBlocks(int64_t rowsOfBlock, function_ref<LogicalResult(Value, Value, Value)> body) {
  Type i64 = b.getI64Type();
  return forLoop(constant(0), constant(experts), constant(1), [&](Value expert) {
    Value end = memory.load(begins, add(expert, constant(1)), i64, 1);
    return forLoop(memory.load(begins, expert, i64, 1), end, constant(rowsOfBlock),
                   [&](Value first) { return body(expert, first, min(sub(end, first), constant(rowsOfBlock))); });
  });
}

//===-- First matmuls -----------------------------------------------------------------------------------------===//

/// Gathers the inputs of `count` rows from `first` on, as f32 or records.
LogicalResult ExpertsKernel::gather(Value first, Value count) {
  return forLoop(constant(0), count, constant(1), [&](Value r) -> LogicalResult {
    Value token = div(memory.load(order, add(first, r), b.getI64Type(), 1), topK), to = mul(r, constant(hidden));
    if (inputQuantize)
      return quantizer.quantizeRow(inputQuantize, *gateUp.quantized,
                                   tensors.makeRow(token, function.sizes.of(root.getInput()).drop_back()),
                                   memory.at(gathered, mul(r, constant(gateUp.bytesOfRow())), b.getI8Type()));
    return vectorLoop(constant(hidden), [&](Value k, int64_t width) -> LogicalResult {
      Element x = tensors.evaluate(root.getInput(), {Index{token}, Index{k, true}}, width);
      if (succeeded(x))
        memory.store(*x, gathered, add(to, k), b.getF32Type(), width);
      return x;
    });
  });
}

/// Multiplies the gathered rows by a panel of gate and up, and writes the activations.
LogicalResult ExpertsKernel::emitInnerPanel(Value expert, Value first, Value count, Value panel) {
  Type f32 = b.getF32Type();
  auto matrixOf = [&](Value part) { return add(mul(expert, constant(2)), part); };
  forLoop(constant(0), constant(2), constant(1), [&](Value part) {
    Value right = matmuls.panelOf(gateUp, matrixOf(part), panel);
    matmuls.multiplyByPanel(gateUp, gathered, right, count,
                            memory.at(matmuls.sums, mul(part, constant(partBytes)), b.getI8Type()));
  });
  Value panels[2];
  if (gateUp.isInputQuantized)
    for (int64_t part : {0, 1})
      panels[part] = matmuls.panelOf(gateUp, matrixOf(constant(part)), panel);
  Value column = mul(panel, constant(kPanelWidth));
  if (activations && inner % kPanelWidth)
    vectorLoop(constant(kPanelWidth),
               [&](Value c, int64_t width) { memory.store(floats(0.0, width), activations, c, f32, width); });
  return forLoop(constant(0), count, constant(1), [&](Value r) -> LogicalResult {
    Value from = mul(r, constant(kPanelWidth)), to = mul(add(first, r), constant(inner));
    LogicalResult activated = matmuls.forColumns(panel, inner, [&](Value c, int64_t width) -> LogicalResult {
      Element value = activationsAt(expert, column, panels, from, c, width);
      if (failed(value))
        return failure();
      if (activations)
        memory.store(*value, activations, c, f32, width);
      else
        memory.store(*value, function.sharedPointer, add(to, add(column, c)), f32, width);
      return success();
    });
    if (succeeded(activated) && activations)
      writeActivations(first, r, panel);
    return activated;
  });
}

/// Returns activations from the sums of gate and up, from column `c` of a panel on, which begins at `column`.
Element ExpertsKernel::activationsAt(Value expert, Value column, ArrayRef<Value> panels, Value from, Value c,
                                     int64_t width) {
  Value parts[2];
  for (int64_t part : {0, 1}) {
    parts[part] = matmuls.sumAt(gateUp, add(constant(part * partBytes / 4), from), c, panels[part], width);
    if (!root.getGateUpBias())
      continue;
    Element bias = tensors.evaluate(root.getGateUpBias(),
                                    {Index{expert}, Index{constant(part)}, Index{add(column, c), true}}, width);
    if (failed(bias))
      return failure();
    parts[part] = make<arith::AddFOp>(parts[part], *bias);
  }
  return activate(parts[0], parts[1], width);
}

Value ExpertsKernel::activate(Value gate, Value up, int64_t width) {
  if (root.getActivation() == nn::GatedActivation::Silu)
    return make<arith::MulFOp>(emitSilu(b, loc, gate), up);
  double limit = root.getLimit().convertToDouble();
  gate = make<arith::MinimumFOp>(gate, floats(limit, width));
  up = make<arith::MinimumFOp>(up, floats(limit, width));
  up = make<arith::MaximumFOp>(up, floats(-limit, width));
  Value alpha = floats(root.getAlpha().convertToDouble(), width);
  Value glu = make<arith::MulFOp>(gate, emitSigmoid(b, loc, make<arith::MulFOp>(gate, alpha)));
  return make<arith::MulFOp>(make<arith::AddFOp>(up, floats(1.0, width)), glu);
}

/// Writes the activations of row `r` from `first` on, of a panel, as a record. Steps beyond the last panel stay zero,
/// as the scratch of the launch begins.
void ExpertsKernel::writeActivations(Value first, Value r, Value panel) {
  SmallVector<Value> values;
  for (int64_t k = 0; k < kPanelWidth; k += config.lanes)
    values.push_back(memory.load(activations, constant(k), b.getF32Type(), config.lanes));
  Value row = add(first, r);
  Value offset = add(mul(row, constant(down.bytesOfRow())), mul(panel, constant(recordBytes(*down.quantized))));
  Value largest = quantizer.magnitudes(values.front());
  for (Value part : ArrayRef(values).drop_front())
    largest = make<arith::MaxSIOp>(largest, quantizer.magnitudes(part));
  RecordScale scale = quantizer.scaleOfRecord(*down.quantized, largest);
  quantizer.writeRecord(*down.quantized, values, scale, memory.at(function.sharedPointer, offset, b.getI8Type()));
}

//===-- Second matmul -----------------------------------------------------------------------------------------===//

/// Multiplies rows by panels [firstPanel, endPanel) and adds them to their columns of the result.
LogicalResult ExpertsKernel::emitFinishTile(Value firstPanel, Value endPanel) {
  Type i64 = b.getI64Type();
  Value firstColumn = mul(firstPanel, constant(kPanelWidth));
  Value columns = sub(min(mul(endPanel, constant(kPanelWidth)), constant(hidden)), firstColumn);
  forLoop(constant(0), tokens, constant(1), [&](Value token) { fill(token, firstColumn, columns, 0.0); });
  LogicalResult added = forBlocks(finishRows, [&](Value expert, Value first, Value count) {
    return forLoop(firstPanel, endPanel, constant(1), [&](Value panel) {
      Value right = matmuls.panelOf(down, expert, panel);
      Value left = memory.at(function.sharedPointer, mul(first, constant(down.bytesOfRow())), b.getI8Type());
      matmuls.multiplyByPanel(down, left, right, count, matmuls.sums);
      return addToResult(expert, first, count, panel, right);
    });
  });
  if (failed(added))
    return failure();
  // Rows whose index is outside of the experts make their tokens NaN.
  Value end = memory.load(begins, constant(experts + 1), i64, 1);
  forLoop(memory.load(begins, constant(experts), i64, 1), end, constant(1), [&](Value i) {
    Value token = div(memory.load(order, i, i64, 1), topK);
    fill(token, firstColumn, columns, std::numeric_limits<double>::quiet_NaN());
  });
  return success();
}

/// Sets the columns of a tile in a row of the result.
void ExpertsKernel::fill(Value token, Value firstColumn, Value columns, double value) {
  vectorLoop(columns, [&](Value c, int64_t width) {
    tensors.store(floats(value, width), function.outputs[0], {Index{token}, Index{add(firstColumn, c), true}}, width);
  });
}

/// Adds the sums of `count` rows by a panel to their tokens, times the weights of the expert.
LogicalResult ExpertsKernel::addToResult(Value expert, Value first, Value count, Value panel, Value right) {
  const Storage &output = function.outputs[0];
  Value column = mul(panel, constant(kPanelWidth));
  return forLoop(constant(0), count, constant(1), [&](Value r) -> LogicalResult {
    Value row = memory.load(order, add(first, r), b.getI64Type(), 1);
    Value token = div(row, topK), from = mul(r, constant(kPanelWidth));
    Element weight = tensors.evaluate(root.getWeights(), {Index{token}, Index{rem(row, topK)}}, 1);
    if (failed(weight))
      return failure();
    return matmuls.forColumns(panel, hidden, [&](Value c, int64_t width) -> LogicalResult {
      Index feature{add(column, c), true};
      Value sum = matmuls.sumAt(down, from, c, right, width);
      if (root.getDownBias()) {
        Element bias = tensors.evaluate(root.getDownBias(), {Index{expert}, feature}, width);
        if (failed(bias))
          return failure();
        sum = make<arith::AddFOp>(sum, *bias);
      }
      sum = make<arith::MulFOp>(sum, splat(*weight, width));
      Indices at{{token}, feature};
      tensors.store(make<arith::AddFOp>(tensors.load(output, at, width), sum), output, at, width);
      return success();
    });
  });
}

} // namespace intarsia::cpu
