//===- EmitExperts.cpp - Routing, and products of each expert with its tokens -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"
#include "lib/Target/CPU/VectorMath.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/module_abi.h"
#include "lib/Target/CPU/CodeNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// Slots of the plan of nn.experts. nn.route has the first, as tokens.
enum { kPerTile = ITX_PLAN_PRIVATE, kPerFinishTile };
/// A tile routes at least this many tokens: some microseconds of work.
constexpr int64_t kRoutedTokens = 16;
/// Tiles per thread, so that a thread that is held up does not hold up the others. More would gather the rows of all
/// experts more often, which costs nothing where there are few of them.
constexpr int64_t kTilesPerThread = 4, kTilesPerThreadOfFew = 16;
} // namespace

//===-- Routing -----------------------------------------------------------------------------------------------===//

// Logits become integers in the same order, NaN above all. The largest is taken top_k times, its place marked by the
// least integer, which no logit has.
void KernelEmitter::emitRoute(nn::RouteOp root) {
  int64_t experts = cast<RankedTensorType>(root.getLogits().getType()).getDimSize(1), topK = root.getTopK();
  int64_t lanes = config.lanes, padded = llvm::alignTo(experts, lanes);
  Value tokens = size(sizes.of(root.getLogits())[0]);
  if (planning) {
    Value perTile = max(ceilDiv(tokens, mul(threads, constant(kTilesPerThread))), constant(kRoutedTokens));
    setPlan(kPerTile, perTile);
    setPlan(ITX_PLAN_TILES, ceilDiv(tokens, perTile));
    return;
  }
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    if (yielded(i).getDefiningOp() != root) {
      unsupported(root, "an op stands between it and the kernel's result");
      return;
    }
  Type f32 = b.getF32Type(), i32 = b.getI32Type(), i64 = b.getI64Type();
  auto integers = [&](int32_t value, int64_t width) {
    return splat(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value)), width);
  };
  constexpr int32_t least = std::numeric_limits<int32_t>::min(), largest = std::numeric_limits<int32_t>::max();
  double infinity = std::numeric_limits<double>::infinity();
  Value keys = scratch(padded * 4), logits = scratch(padded * 4), chosen = scratch(topK * 4);
  SmallVector<int32_t> iotaValues = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  Value iota = arith::ConstantOp::create(b, loc, b.getI32VectorAttr(iotaValues));
  Value perTile = planValue(kPerTile);

  forLoop(mul(tileBegin, perTile), min(mul(tileEnd, perTile), tokens), constant(1), [&](Value token) {
    vectorLoop(constant(experts), [&](Value expert, int64_t width) {
      Value logit = evaluate(root.getLogits(), {Index{token}, Index{expert, true}}, width);
      storeAt(logit, logits, expert, f32, width);
      // Adding zero makes -0 equal to 0.
      Value sum = arith::AddFOp::create(b, loc, logit, floatConstant(0.0, f32, width));
      Value bits = arith::BitcastOp::create(b, loc, vectorOf(i32, width), sum);
      Value sign = arith::ShRSIOp::create(b, loc, bits, integers(31, width));
      Value key = arith::XOrIOp::create(b, loc, bits, arith::AndIOp::create(b, loc, sign, integers(largest, width)));
      Value isNaN = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, logit, logit);
      storeAt(arith::SelectOp::create(b, loc, isNaN, integers(largest, width), key), keys, expert, i32, width);
    });
    for (int64_t pad = experts; pad < padded; ++pad) {
      storeAt(integers(least, 1), keys, constant(pad), i32, 1);
      storeAt(floatConstant(-infinity, f32, 1), logits, constant(pad), f32, 1);
    }
    forLoop(constant(0), constant(topK), constant(1), [&](Value k) {
      Value best = forLoop(constant(0), constant(padded), constant(lanes), {integers(least, lanes)},
                           [&](Value expert, ValueRange running) {
                             Value key = loadAt(keys, expert, i32, lanes);
                             return SmallVector<Value>{arith::MaxSIOp::create(b, loc, running[0], key)};
                           })[0];
      best = splat(vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXSI, best), lanes);
      Value first = forLoop(constant(0), constant(padded), constant(lanes), {integers(largest, lanes)},
                            [&](Value expert, ValueRange running) {
                              Value key = loadAt(keys, expert, i32, lanes);
                              Value isBest = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, key, best);
                              Value number = splat(arith::TruncIOp::create(b, loc, i32, expert), lanes);
                              number = arith::AddIOp::create(b, loc, iota, number);
                              number = arith::SelectOp::create(b, loc, isBest, number, integers(largest, lanes));
                              return SmallVector<Value>{arith::MinSIOp::create(b, loc, running[0], number)};
                            })[0];
      Value number = vector::ReductionOp::create(b, loc, vector::CombiningKind::MINSI, first);
      Value place = arith::ExtSIOp::create(b, loc, i64, number);
      storeAt(loadAt(logits, place, f32, 1), chosen, k, f32, 1);
      storeAt(integers(least, 1), keys, place, i32, 1);
      for (unsigned i = 0; i < outputs.size(); ++i)
        if (yielded(i) == root.getIndices())
          store(number, outputs[i], {Index{token}, Index{k}}, 1);
    });
    Value maximum = loadAt(chosen, constant(0), f32, 1);
    // Logits of -inf alone: subtracting 0 instead keeps their exponentials at zero.
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, floatConstant(-infinity, f32, 1));
    Value shift = arith::SelectOp::create(b, loc, none, floatConstant(0.0, f32, 1), maximum);
    auto power = [&](Value logit, int64_t width) {
      return emitExpNonPositive(b, loc, arith::SubFOp::create(b, loc, logit, splat(shift, width)));
    };
    auto sumOf = [&](Value values, int64_t count, int64_t width) {
      return forLoop(constant(0), constant(count), constant(width), {floatConstant(0.0, f32, width)},
                     [&](Value i, ValueRange running) {
                       Value e = power(loadAt(values, i, f32, width), width);
                       return SmallVector<Value>{arith::AddFOp::create(b, loc, running[0], e)};
                     })[0];
    };
    Value total = root.getNormalize() ? sumOf(chosen, topK, 1) : sumOf(logits, padded, lanes);
    if (!root.getNormalize())
      total = vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, total, arith::FastMathFlags::reassoc);
    Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, total, floatConstant(0.0, f32, 1));
    total = arith::SelectOp::create(b, loc, isZero, floatConstant(1.0, f32, 1), total);
    for (unsigned i = 0; i < outputs.size(); ++i)
      if (yielded(i) == root.getWeights())
        forLoop(constant(0), constant(topK), constant(1), [&](Value k) {
          Value weight = arith::DivFOp::create(b, loc, power(loadAt(chosen, k, f32, 1), 1), total);
          store(weight, outputs[i], {Index{token}, Index{k}}, 1);
        });
  });
}

//===-- Experts -----------------------------------------------------------------------------------------------===//

void KernelEmitter::sortByExpert(nn::ExpertsOp root, Value begins, Value order) {
  int64_t experts = cast<RankedTensorType>(root.getGateUp().getType()).getDimSize(0);
  Type i64 = b.getI64Type();
  Value tokens = size(sizes.of(root.getIndices())[0]), topK = size(sizes.of(root.getIndices())[1]);
  auto forRows = [&](function_ref<void(Value row, Value bucket)> body) {
    forLoop(constant(0), tokens, constant(1), [&](Value token) {
      forLoop(constant(0), topK, constant(1), [&](Value k) {
        Value expert = integerAt(root.getIndices(), {Index{token}, Index{k}});
        Value isInside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, expert, constant(experts));
        body(add(mul(token, topK), k), arith::SelectOp::create(b, loc, isInside, expert, constant(experts)));
      });
    });
  };
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

void KernelEmitter::emitCodePanel(const BlockPanels &panels, int64_t group, Value records, Value panel, Value count,
                                  Value sums, Value codes, Value scales) {
  int64_t tileRows = config.codeRows;
  Type i8 = b.getI8Type(), f32 = b.getF32Type();
  auto recordsOf = [&](Value row) { return offsetPointer(records, mul(row, constant(rowBytes(panels))), i8); };
  auto sumsOf = [&](Value row) { return offsetPointer(sums, mul(row, constant(kPanelWidth)), f32); };
  auto emitFew = [&] { emitDecodeRows(panels, group, count, panel, records, sums); };
  auto emitMany = [&] {
    Value tiles = ceilDiv(count, constant(tileRows)), allSteps = constant(panels.steps());
    int64_t bytesOfStep = panels.unitBytes * BlockPanels::stepDepth / panels.unitDepth;
    Value bytesAhead = max(ceilDiv(constant(bytesOfStep), tiles), constant(kLeastAhead));
    forLoop(constant(0), allSteps, constant(config.codeSteps), [&](Value step) {
      Value end = min(add(step, constant(config.codeSteps)), allSteps), steps = sub(end, step);
      Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, step, constant(0));
      unpackPanel(panels, panel, step, end, codes, scales);
      // What follows these steps comes into the second-level cache meanwhile: the next ones, or the next panel.
      Value next = offsetPointer(panel, add(constant(panels.headBytes), mul(end, constant(bytesOfStep))), i8);
      forLoop(constant(0), count, constant(tileRows), [&](Value m) {
        Value part = mul(mul(div(m, constant(tileRows)), steps), bytesAhead);
        emitCodeTile(panels, group, codes, scales,
                     offsetPointer(recordsOf(m), mul(step, constant(recordBytes(panels))), i8), steps, sumsOf(m),
                     isFirst, offsetPointer(next, part, i8), bytesAhead);
      });
    });
  };
  ifThen(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, count, constant(kDecodePasses * config.decodeRows)),
         emitFew, emitMany);
}

// Rows, pairs of a token and one of its experts, are sorted by expert. A tile owns some panels of the first products
// and goes through all experts: it gathers the rows of one, multiplies them by the panels of gate and up, and writes
// the activations to the scratch of the launch, in the order of the rows. A finishing tile owns some panels of the
// second product, so that it alone adds to those columns of the result, expert after expert. All sums are in an order
// that neither threads nor the other rows change. Every call sorts anew: it costs two steps a row, where the products
// cost millions.
//
// Where the input is rounded to 8 bits, what is gathered are records of its rows (EmitCodeRecords.cpp). Where the
// intermediate rows are, each panel of the first products makes one record of each row: its columns are a block.
void KernelEmitter::emitExperts(nn::ExpertsOp root) {
  auto gateUpType = cast<RankedTensorType>(root.getGateUp().getType());
  int64_t experts = gateUpType.getDimSize(0), inner = gateUpType.getDimSize(2), hidden = gateUpType.getDimSize(3);
  int64_t innerPanels = llvm::divideCeil(inner, kPanelWidth), hiddenPanels = llvm::divideCeil(hidden, kPanelWidth);
  ArrayRef<AffineExpr> indexSizes = sizes.of(root.getIndices());
  Value tokens = size(indexSizes[0]), topK = size(indexSizes[1]);
  std::optional<BlockPanels> gateUpCodes = panelsOf(root.getGateUp()), downCodes = panelsOf(root.getDown());
  nn::QuantizeOp roundedInput = quantizedInput(root.getInput());
  bool roundsIntermediate = root.getIntermediateFormatAttr() != nullptr;
  // Register tiles read as many rows as they are made for.
  int64_t roomForRows = std::max(config.codeRows, config.decodeRows);
  if (planning) {
    Value isFew = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, mul(tokens, topK),
                                        constant(kDecodePasses * config.decodeRows));
    Value perThread = arith::SelectOp::create(b, loc, isFew, constant(kTilesPerThreadOfFew), constant(kTilesPerThread));
    auto evenly = [&](int64_t panels) { return max(ceilDiv(constant(panels), mul(threads, perThread)), constant(1)); };
    Value perTile = evenly(innerPanels), perFinishTile = evenly(hiddenPanels);
    setPlan(kPerTile, perTile);
    setPlan(kPerFinishTile, perFinishTile);
    setPlan(ITX_PLAN_TILES, ceilDiv(constant(innerPanels), perTile));
    setPlan(ITX_PLAN_FINISH_TILES, ceilDiv(constant(hiddenPanels), perFinishTile));
    Value rows = mul(tokens, topK);
    Value shared = roundsIntermediate ? mul(add(rows, constant(roomForRows)), constant(rowBytes(*downCodes)))
                                      : mul(rows, constant(inner * 4));
    setPlan(ITX_PLAN_SHARED_BYTES, shared);
    // No tile writes the records of steps beyond the last column.
    if (roundsIntermediate && downCodes->steps() != innerPanels)
      setPlan(ITX_PLAN_ZEROED_BYTES, shared);
    return;
  }
  if (roundedInput && !gateUpCodes)
    unsupported(root, "its input is rounded to 8 bits, gate_up is not stored as codes");
  auto isBlockOf32 = [](nn::BlockFormatAttr format) {
    return format.getElement() == nn::BlockElement::I8 && format.getScale() == nn::BlockScale::F32 &&
           format.getBlock() == BlockPanels::stepDepth;
  };
  if (roundsIntermediate && !(downCodes && isBlockOf32(root.getIntermediateFormatAttr())))
    unsupported(root, "its intermediate rows are rounded, which needs 8 bits in blocks of 32 and down stored as codes");
  if (failedAny)
    return;
  if (kernel.getResultTypes().size() != 1 || yielded(0) != root.getResult()) {
    unsupported(root, "an op stands between it and the kernel's result");
    return;
  }
  struct Matrices {
    Value value;
    int64_t rows, depth;
    std::optional<Storage> stored;
    bool packed;
    Type type;
    std::optional<BlockPanels> codes;
    bool isRounded = false; // the left operand is records
    int64_t group = 1;      // steps of it that share a scale
  };
  auto matricesOf = [&](Value value, int64_t rows, int64_t depth, std::optional<BlockPanels> codes, bool isRounded) {
    Matrices result{value, rows, depth, view(value), false, b.getF32Type(), codes, isRounded};
    rt::LayoutAttr layout;
    if (auto argument = dyn_cast<BlockArgument>(value))
      layout = kernel.getArgAttrOfType<rt::LayoutAttr>(argument.getArgNumber(), "rt.layout");
    result.packed = layout && layout.getKind() == rt::LayoutKind::Panels;
    if (!result.stored || (result.packed && layout.getWidth() != kPanelWidth))
      unsupported(root, "its weights are neither packed in panels of 32 nor tensors in memory");
    else if (result.packed && !codes)
      result.type = result.stored->elementType;
    return result;
  };
  Matrices gateUp = matricesOf(root.getGateUp(), inner, hidden, gateUpCodes, roundedInput != nullptr);
  Matrices down = matricesOf(root.getDown(), hidden, inner, downCodes, roundsIntermediate);
  if (failedAny)
    return;
  if (roundedInput)
    gateUp.group = stepsOfScale(roundedInput);

  Type f32 = b.getF32Type(), i64 = b.getI64Type(), i8 = b.getI8Type();
  auto bytesOfRow = [&](const Matrices &matrices) {
    return matrices.isRounded ? rowBytes(*matrices.codes) : std::max<int64_t>(matrices.depth, 1) * 4;
  };
  auto blockRows = [&](const Matrices &matrices) {
    int64_t tileRows = matrices.isRounded ? config.codeRows : config.rows, most = matrices.isRounded ? 48 : 16;
    int64_t rows = config.blockBytes / bytesOfRow(matrices);
    return std::clamp<int64_t>(rows, 2 * tileRows, most * tileRows) / tileRows * tileRows;
  };
  int64_t gatherRows = blockRows(gateUp), finishRows = blockRows(down);
  Value begins = scratch((experts + 3) * 8), order = scratch(indexSizes[0] * indexSizes[1] * 8);
  Value gathered = scratch((gatherRows + roomForRows) * bytesOfRow(gateUp));
  int64_t partBytes = (std::max(gatherRows, finishRows) + roomForRows) * kPanelWidth * 4;
  Value sums = scratch(2 * partBytes);
  // A panel of one of them as it is multiplied: numbers, or some steps' codes and scales.
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
  Value packedPanel = numberBytes ? scratch(numberBytes) : Value();
  Value codes = unpackedSteps ? scratch(unpackedSteps * BlockPanels::stepDepth * kPanelWidth) : Value();
  Value scales = unpackedSteps ? scratch(unpackedScales * 4) : Value();

  /// The right operand of a product: where it lies, or where it is put.
  auto panelOf = [&](const Matrices &matrices, Value matrix, Value panel) -> Value {
    int64_t panels = llvm::divideCeil(matrices.rows, kPanelWidth);
    if (matrices.codes) {
      Value number = add(mul(matrix, constant(panels)), panel);
      Value stored = offsetPointer(matrices.stored->pointer, mul(number, constant(matrices.codes->panelBytes())), i8);
      if (matrices.isRounded)
        return stored;
      decodePanel(*matrices.codes, stored, packedPanel);
      return packedPanel;
    }
    if (matrices.packed)
      return offsetPointer(matrices.stored->pointer,
                           mul(add(mul(matrix, constant(panels)), panel), constant(kPanelWidth * matrices.depth)),
                           matrices.type);
    Value row = mul(panel, constant(kPanelWidth)), depth = constant(matrices.depth);
    Value first = mul(add(mul(matrix, constant(matrices.rows)), row), depth);
    packTransposed(packedPanel, offsetPointer(matrices.stored->pointer, first, matrices.stored->elementType), depth,
                   matrices.stored->elementType, depth, min(sub(constant(matrices.rows), row), constant(kPanelWidth)),
                   Value());
    return packedPanel;
  };
  /// Rows [a, a + count) times a panel, into rows of `out`.
  auto emitProduct = [&](const Matrices &matrices, Value a, Value right, Value count, Value out) {
    if (matrices.isRounded) {
      emitCodePanel(*matrices.codes, matrices.group, a, right, count, out, codes, scales);
      return;
    }
    Value lines = ceilDiv(constant(kPanelWidth * matrices.type.getIntOrFloatBitWidth() / 8),
                          ceilDiv(count, constant(config.rows)));
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
  };
  auto forColumns = [&](Value panel, int64_t features, function_ref<void(Value column, int64_t width)> body) {
    Value columns = min(sub(constant(features), mul(panel, constant(kPanelWidth))), constant(kPanelWidth));
    vectorLoop(features % kPanelWidth ? columns : constant(kPanelWidth), body);
  };
  auto forBlocks = [&](int64_t rows, function_ref<void(Value expert, Value first, Value count)> body) {
    forLoop(constant(0), constant(experts), constant(1), [&](Value expert) {
      Value end = loadAt(begins, add(expert, constant(1)), i64, 1);
      forLoop(loadAt(begins, expert, i64, 1), end, constant(rows),
              [&](Value first) { body(expert, first, min(sub(end, first), constant(rows))); });
    });
  };
  auto constantOf = [&](double value, int64_t width) { return floatConstant(value, f32, width); };
  auto activated = [&](Value gate, Value up, int64_t width) -> Value {
    if (root.getActivation() == nn::GatedActivation::Silu)
      return arith::MulFOp::create(b, loc, emitSilu(b, loc, gate), up);
    double limit = root.getLimit().convertToDouble();
    gate = arith::MinimumFOp::create(b, loc, gate, constantOf(limit, width));
    up = arith::MinimumFOp::create(b, loc, up, constantOf(limit, width));
    up = arith::MaximumFOp::create(b, loc, up, constantOf(-limit, width));
    Value alpha = constantOf(root.getAlpha().convertToDouble(), width);
    Value glu = arith::MulFOp::create(b, loc, gate, emitSigmoid(b, loc, arith::MulFOp::create(b, loc, gate, alpha)));
    return arith::MulFOp::create(b, loc, arith::AddFOp::create(b, loc, up, constantOf(1.0, width)), glu);
  };

  /// Sums of a row by a panel, from column c on.
  auto sumAt = [&](const Matrices &matrices, Value from, Value c, Value panel, int64_t width) -> Value {
    Value sum = loadAt(sums, add(from, c), f32, width);
    if (!matrices.isRounded || !matrices.codes->headBytes)
      return sum;
    // The scale of the whole row of the weight.
    Type type = matrices.codes->block ? f32 : nn::scaleType(matrices.codes->scale, b.getContext());
    return arith::MulFOp::create(b, loc, sum, loadAt(panel, c, type, width));
  };
  Value activations = down.isRounded ? scratch(kPanelWidth * 4) : Value();

  sortByExpert(root, begins, order);
  Value tiles = planValue(ITX_PLAN_TILES);
  Value perTile = planValue(kPerTile), perFinishTile = planValue(kPerFinishTile);

  forLoop(tileBegin, min(tileEnd, tiles), constant(1), [&](Value tile) {
    Value firstPanel = mul(tile, perTile), endPanel = min(add(firstPanel, perTile), constant(innerPanels));
    forBlocks(gatherRows, [&](Value expert, Value first, Value count) {
      forLoop(constant(0), count, constant(1), [&](Value r) {
        Value token = div(loadAt(order, add(first, r), i64, 1), topK), to = mul(r, constant(hidden));
        if (roundedInput) {
          quantizeRow(roundedInput, *gateUp.codes, makeRow(token, sizes.of(root.getInput()).drop_back()),
                      offsetPointer(gathered, mul(r, constant(bytesOfRow(gateUp))), i8));
          return;
        }
        vectorLoop(constant(hidden), [&](Value k, int64_t width) {
          storeAt(evaluate(root.getInput(), {Index{token}, Index{k, true}}, width), gathered, add(to, k), f32, width);
        });
      });
      forLoop(firstPanel, endPanel, constant(1), [&](Value panel) {
        auto matrixOf = [&](Value part) { return add(mul(expert, constant(2)), part); };
        forLoop(constant(0), constant(2), constant(1), [&](Value part) {
          emitProduct(gateUp, gathered, panelOf(gateUp, matrixOf(part), panel), count,
                      offsetPointer(sums, mul(part, constant(partBytes)), i8));
        });
        Value panels[2];
        if (gateUp.isRounded)
          for (int64_t part : {0, 1})
            panels[part] = panelOf(gateUp, matrixOf(constant(part)), panel);
        Value column = mul(panel, constant(kPanelWidth));
        if (activations && inner % kPanelWidth)
          vectorLoop(constant(kPanelWidth),
                     [&](Value c, int64_t width) { storeAt(constantOf(0.0, width), activations, c, f32, width); });
        forLoop(constant(0), count, constant(1), [&](Value r) {
          Value from = mul(r, constant(kPanelWidth)), to = mul(add(first, r), constant(inner));
          forColumns(panel, inner, [&](Value c, int64_t width) {
            Value parts[2];
            for (int64_t part : {0, 1}) {
              parts[part] = sumAt(gateUp, add(constant(part * partBytes / 4), from), c, panels[part], width);
              if (Value bias = root.getGateUpBias())
                parts[part] = arith::AddFOp::create(
                    b, loc, parts[part],
                    evaluate(bias, {Index{expert}, Index{constant(part)}, Index{add(column, c), true}}, width));
            }
            Value value = activated(parts[0], parts[1], width);
            if (activations)
              storeAt(value, activations, c, f32, width);
            else
              storeAt(value, sharedPointer, add(to, add(column, c)), f32, width);
          });
          if (!activations)
            return;
          // Steps beyond the last panel stay zero, as the scratch of the launch begins.
          SmallVector<Value> values;
          for (int64_t k = 0; k < kPanelWidth; k += config.lanes)
            values.push_back(loadAt(activations, constant(k), f32, config.lanes));
          Value place =
              add(mul(add(first, r), constant(bytesOfRow(down))), mul(panel, constant(recordBytes(*down.codes))));
          Value largest = magnitudes(values.front());
          for (Value part : ArrayRef(values).drop_front())
            largest = arith::MaxSIOp::create(b, loc, largest, magnitudes(part));
          writeRecord(*down.codes, values, scaleOfRecord(*down.codes, largest),
                      offsetPointer(sharedPointer, place, i8));
        });
      });
    });
  });

  const Storage &output = outputs[0];
  forLoop(max(sub(tileBegin, tiles), constant(0)), sub(tileEnd, tiles), constant(1), [&](Value tile) {
    Value firstPanel = mul(tile, perFinishTile);
    Value endPanel = min(add(firstPanel, perFinishTile), constant(hiddenPanels));
    Value firstColumn = mul(firstPanel, constant(kPanelWidth));
    Value columns = sub(min(mul(endPanel, constant(kPanelWidth)), constant(hidden)), firstColumn);
    auto fill = [&](Value token, double value) {
      vectorLoop(columns, [&](Value c, int64_t width) {
        store(constantOf(value, width), output, {Index{token}, Index{add(firstColumn, c), true}}, width);
      });
    };
    forLoop(constant(0), tokens, constant(1), [&](Value token) { fill(token, 0.0); });
    forBlocks(finishRows, [&](Value expert, Value first, Value count) {
      forLoop(firstPanel, endPanel, constant(1), [&](Value panel) {
        Value right = panelOf(down, expert, panel);
        emitProduct(down, offsetPointer(sharedPointer, mul(first, constant(bytesOfRow(down))), i8), right, count, sums);
        Value column = mul(panel, constant(kPanelWidth));
        forLoop(constant(0), count, constant(1), [&](Value r) {
          Value row = loadAt(order, add(first, r), i64, 1);
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
      });
    });
    Value end = loadAt(begins, constant(experts + 1), i64, 1);
    forLoop(loadAt(begins, constant(experts), i64, 1), end, constant(1),
            [&](Value i) { fill(div(loadAt(order, i, i64, 1), topK), std::numeric_limits<double>::quiet_NaN()); });
  });
}

} // namespace intarsia::cpu
