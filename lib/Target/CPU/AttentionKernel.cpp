//===- AttentionKernel.cpp - Attention whose scores stay in the cache -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/CPU/AttentionEmitter.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

namespace {
/// Queries, keys, values and exponentials are multiplied in f32: a register tile multiplies rows of the keys, as they
/// lie in memory, by the packed panel of queries.
class AttentionKernel final : public AttentionEmitter {
public:
  using AttentionEmitter::AttentionEmitter;

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void startTile() override;
  void scoreKeys(Value firstKey, Value keyCount) override;
  void exponentiate(ArrayRef<Value> largest, Value keyCount) override;
  void rescaleSums();
  void addValues(Value firstKey, Value keyCount) override;
  void storeRows() override;

  void findMask();
  void packMask(Value firstKey, Value keyCount);

  TileEmitter registerTiles{function};
  std::optional<Storage> mask; ///< an additive mask [.., queries, keys] in memory, to which scores are added
  bool copyValues = false;     ///< values are read from a padded copy of the block as f32
  Value panel, valueBlock;
};
} // namespace

Emitter makeAttentionKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  auto attention = cast<nn::AttentionOp>(root);
  // Bytes of any value may be multiplied by unsigned ones without an overflow of 16 bits in between.
  if (attention.getPrecision() && attention.getPrecision()->isInteger(8) && multipliesUnsigned(config.byteDot))
    return makeQuantizedAttentionKernel(kernel, root, config);
  return std::make_unique<AttentionKernel>(kernel, attention, config);
}

void AttentionKernel::chooseShape(KernelShape &shape) {
  chooseKeys(shape, config);
  chooseRegisterTile(shape, config);
  // Values are read where they lie if a row is a whole number of f32 vectors.
  copyValues = paddedDim != valueDim || !getElementTypeOrSelf(root.getValue()).isF32();
  shape.state("kernel", "attention");
  shape.state("query", "packed by tile");
  shape.state("value", copyValues ? "packed by block" : "in place");
}

LogicalResult AttentionKernel::run() {
  if (failed(prepare()))
    return failure();
  findMask();
  panel = function.scratch(headDim * kPanelWidth * 4);
  valueBlock = copyValues ? function.scratch(config.keyBlock * paddedDim * 4) : Value();
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) { return attendTile(tile); });
}

/// Finds a mask that has a row for each query. Its blocks are transposed as vectors, into the scores that the products
/// are added to: reading an element for each lane took as long as the products do in the windows of a Swin Transformer.
void AttentionKernel::findMask() {
  Value operand = root.getMask();
  if (!operand || !isa<FloatType>(getElementTypeOrSelf(operand)))
    return;
  auto isOne = [&](unsigned d) { return function.sizes.of(operand)[d] == getAffineConstantExpr(1, b.getContext()); };
  if (isOne(2))
    return;
  mask = tensors.view(operand);
  if (!mask || !mask->dense) {
    mask.reset();
    return;
  }
  for (unsigned d : {0, 1})
    if (isOne(d))
      mask->strides[d] = constant(0);
  scoresHaveMask = true;
}

/// Sets scores to the mask.
void AttentionKernel::packMask(Value firstKey, Value keyCount) {
  Value offset = add(add(mul(batch, mask->strides[0]), mul(head, mask->strides[1])),
                     add(mul(firstQuery, mask->strides[2]), firstKey));
  registerTiles.packTransposed(scores, memory.at(mask->pointer, offset, mask->elementType), mask->strides[2],
                               mask->elementType, keyCount, queryCount, Value());
}

void AttentionKernel::startTile() {
  registerTiles.packTransposed(panel, base(*query, firstQuery, head), query->strides[1], query->elementType,
                               constant(headDim), queryCount,
                               floatConstant(root.getScale().convertToDouble(), b.getF32Type(), 1));
  startSums();
}

void AttentionKernel::scoreKeys(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  if (mask)
    packMask(firstKey, keyCount);
  forLoop(constant(0), keyCount, constant(config.rows), [&](Value j) {
    TileOperands operands;
    operands.accumulate = scoresHaveMask;
    operands.a = base(*key, add(firstKey, j), keyHead);
    operands.aRow = key->strides[1];
    operands.aColumn = constant(1);
    operands.aType = key->elementType;
    operands.b = panel;
    operands.bRow = width;
    operands.bType = f32;
    operands.depth = constant(headDim);
    operands.out = memory.at(scores, mul(j, width), f32);
    operands.outRow = width;
    registerTiles.emitTileRows(operands, min(sub(keyCount, j), constant(config.rows)), kPanelWidth);
  });
}

void AttentionKernel::exponentiate(ArrayRef<Value> largest, Value keyCount) {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  SmallVector<Value> shifts = shiftsOf(largest), noSums(vectors, zero);
  SmallVector<Value> blockTotals =
      forLoop(constant(0), keyCount, constant(1), noSums, [&](Value j, ValueRange running) {
        SmallVector<Value> next;
        for (int64_t v = 0; v < vectors; ++v) {
          Value offset = add(mul(j, width), ofVector(v));
          Value shifted = make<arith::SubFOp>(memory.load(scores, offset, f32, lanes), shifts[v]);
          Value e = emitExpNonPositive(b, loc, shifted);
          memory.store(e, scores, offset, f32, lanes);
          next.push_back(make<arith::AddFOp>(running[v], e));
        }
        return next;
      });
  addTotals(blockTotals);
}

/// Multiplies the sums of earlier blocks by the factors of this one.
void AttentionKernel::rescaleSums() {
  Type f32 = b.getF32Type();
  int64_t lanes = config.lanes;
  forLoop(constant(0), queryCount, constant(1), [&](Value q) {
    Value factor = splat(memory.load(factors, q, f32, 1), lanes);
    for (int64_t c = 0; c < paddedDim; c += lanes) {
      Value offset = add(mul(q, constant(paddedDim)), constant(c));
      Value scaled = make<arith::MulFOp>(memory.load(sums, offset, f32, lanes), factor);
      memory.store(scaled, sums, offset, f32, lanes);
    }
  });
}

void AttentionKernel::addValues(Value firstKey, Value keyCount) {
  Type f32 = b.getF32Type();
  // Earlier blocks are rescaled; the first one has none.
  ifThen(less(constant(0), firstKey), [&] { rescaleSums(); });
  Value values = base(*value, firstKey, keyHead), valueStride = value->strides[1];
  if (copyValues) {
    registerTiles.packRows(valueBlock, values, valueStride, value->elementType, keyCount, constant(valueDim),
                           paddedDim);
    values = valueBlock;
    valueStride = constant(paddedDim);
  }
  forLoop(constant(0), queryCount, constant(config.rows), [&](Value q) {
    TileOperands operands;
    operands.a = memory.at(scores, q, f32);
    operands.aRow = constant(1);
    operands.aColumn = width;
    operands.aType = f32;
    operands.b = values;
    operands.bRow = valueStride;
    operands.bType = f32;
    operands.depth = keyCount;
    operands.out = memory.at(sums, mul(q, constant(paddedDim)), f32);
    operands.outRow = constant(paddedDim);
    operands.accumulate = true;
    registerTiles.emitTileRows(operands, min(sub(queryCount, q), constant(config.rows)), paddedDim);
  });
}

void AttentionKernel::storeRows() {
  forLoop(constant(0), queryCount, constant(1), [&](Value q) {
    storeRow(q, memory.at(sums, mul(q, constant(paddedDim)), b.getF32Type()), inverseOfTotal(q, 1));
  });
}

} // namespace intarsia::cpu
