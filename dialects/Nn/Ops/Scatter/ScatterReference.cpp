//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

/// The value so far combined with an update, both of a type that sums are computed in.
static Value combined(ScalarBuilder &b, ScatterKind kind, Value soFar, Value update) {
  bool isFloat = isa<FloatType>(soFar.getType());
  switch (kind) {
  case ScatterKind::Set:
    return update;
  case ScatterKind::Add:
    return isFloat ? b.add(soFar, update) : arith::AddIOp::create(b, soFar, update).getResult();
  case ScatterKind::Mul:
    return isFloat ? b.mul(soFar, update) : arith::MulIOp::create(b, soFar, update).getResult();
  case ScatterKind::Min:
    return isFloat ? b.min(soFar, update) : arith::MinSIOp::create(b, soFar, update).getResult();
  case ScatterKind::Max:
    return isFloat ? b.max(soFar, update) : arith::MaxSIOp::create(b, soFar, update).getResult();
  }
  llvm_unreachable("all kinds are above");
}

/// The type in which updates of a kind are combined.
static Type typeOfSums(ReferenceBuilder &builder, ScatterKind kind, Type element) {
  auto type = dyn_cast<FloatType>(element);
  bool isSum = kind == ScatterKind::Add || kind == ScatterKind::Mul;
  bool isWide = type && type.getWidth() >= builder.sumType.getIntOrFloatBitWidth();
  return type && isSum && !isWide ? builder.sumType : element;
}

/// Folds updates over the last loop, from the elements of the input. `isHit` says of the operands behind the updates
/// whether an update is for the element.
static Value buildFold(ReferenceBuilder &builder, Value input, ScatterKind kind,
                       ArrayRef<std::pair<Value, AffineMap>> operands,
                       llvm::function_ref<Value(ScalarBuilder &, ValueRange)> isHit) {
  Type element = elementOf(input), sum = typeOfSums(builder, kind, element);
  auto widened = [&](ScalarBuilder &b, Value value) {
    return value.getType() == sum ? value : arith::ExtFOp::create(b, sum, value).getResult();
  };
  // The loops write into a tensor of their own.
  Value start = builder.parallel(builder.sizesOf(input), sum, {{input, builder.identity(rankOf(input))}},
                                 [&](ScalarBuilder &b, ValueRange v) { return widened(b, v[0]); });
  Value result = builder.fold(start, 1, operands, [&](ScalarBuilder &b, ValueRange v) {
    Value update = combined(b, kind, v.back(), widened(b, v[0]));
    return b.select(isHit(b, v.drop_front()), update, v.back());
  });
  return sum == element ? result : buildNarrow(builder, result, element);
}

static Value isSame(ScalarBuilder &b, Value index, unsigned loop) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, b.toIndex(index), b.indexOf(loop));
}

SmallVector<Value> ScatterOp::buildReference(ReferenceBuilder &builder) {
  auto rank = unsigned(rankOf(getInput())), axis = unsigned(getAxis());
  SmallVector<unsigned> read;
  for (unsigned d = 0; d < rank; ++d)
    read.push_back(d == axis ? rank : d);
  AffineMap map = builder.map(rank + 1, read);
  return {buildFold(builder, getInput(), getKind(), {{getUpdates(), map}, {getIndices(), map}},
                    [&](ScalarBuilder &b, ValueRange v) { return isSame(b, v[0], axis); })};
}

/// True if an update is for the slice at the first loops.
static Value isSameSlice(ScalarBuilder &b, ValueRange indices) {
  Value same;
  for (auto [loop, index] : llvm::enumerate(indices)) {
    Value here = isSame(b, index, loop);
    same = same ? arith::AndIOp::create(b, same, here).getResult() : here;
  }
  return same;
}

/// Finds the last update of each slice, then reads it.
static Value buildSet(ReferenceBuilder &builder, ScatterNdOp op) {
  Value input = op.getInput();
  unsigned rank = rankOf(input), columns = op.getIndices().size();
  MixedSizes slices(ArrayRef(builder.sizesOf(input)).take_front(columns));
  SmallVector<std::pair<Value, AffineMap>> indices;
  for (Value column : op.getIndices())
    indices.push_back({column, builder.map(columns + 1, {columns})});
  Value last = builder.fold(builder.filled(slices, builder.getI64IntegerAttr(-1)), 1, indices,
                            [&](ScalarBuilder &b, ValueRange v) {
                              Value update = arith::IndexCastOp::create(b, b.getI64Type(), b.indexOf(columns));
                              return b.select(isSameSlice(b, v.take_front(columns)), update, v.back());
                            });
  return builder.parallel(builder.sizesOf(input), elementOf(input),
                          {{input, builder.identity(rank)}, {last, builder.leading(rank, columns)}},
                          [&](ScalarBuilder &b, ValueRange v) -> Value {
                            Value none = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
                            Value isNone = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, v[1], none);
                            SmallVector<Value> at = {b.toIndex(b.select(isNone, none, v[1]))};
                            for (unsigned d = columns; d < rank; ++d)
                              at.push_back(b.indexOf(d));
                            return b.select(isNone, v[0], tensor::ExtractOp::create(b, op.getUpdates(), at));
                          });
}

SmallVector<Value> ScatterNdOp::buildReference(ReferenceBuilder &builder) {
  if (getKind() == ScatterKind::Set && cast<RankedTensorType>(getUpdates().getType()).getDimSize(0) != 0)
    return {buildSet(builder, *this)};
  unsigned rank = rankOf(getInput()), columns = getIndices().size();
  SmallVector<unsigned> read = {rank};
  for (unsigned d = columns; d < rank; ++d)
    read.push_back(d);
  SmallVector<std::pair<Value, AffineMap>> operands = {{getUpdates(), builder.map(rank + 1, read)}};
  for (Value column : getIndices())
    operands.push_back({column, builder.map(rank + 1, {rank})});
  return {buildFold(builder, getInput(), getKind(), operands,
                    [&](ScalarBuilder &b, ValueRange v) { return isSameSlice(b, v.take_front(columns)); })};
}
