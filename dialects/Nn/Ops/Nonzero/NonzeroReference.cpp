//===- NonzeroReference.cpp - Reference of nn.nonzero ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Elements are counted in blocks, beside each other; then the element of each row is found by two binary searches, for
// its block and in it. So the work is that of a few passes, however many elements there are.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

static Value isNonzero(ScalarBuilder &b, Value element) {
  if (isa<FloatType>(element.getType())) // NaN is unequal to all
    return arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, element,
                                 arith::ConstantOp::create(b, b.getFloatAttr(element.getType(), 0)));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, element,
                               arith::ConstantOp::create(b, b.getIntegerAttr(element.getType(), 0)));
}

/// The tensor with all dimensions as one.
static Value buildFlat(ReferenceBuilder &builder, Value tensor) {
  if (rankOf(tensor) == 1)
    return tensor;
  ReassociationIndices all(rankOf(tensor));
  std::iota(all.begin(), all.end(), 0);
  return tensor::CollapseShapeOp::create(builder, tensor, ArrayRef{all});
}

static Value buildPrefixSums(ReferenceBuilder &builder, Value tensor) {
  return CumulateOp::create(builder, tensor.getType(), tensor, vector::CombiningKind::ADD, /*exclusive=*/false,
                            /*reverse=*/false);
}

/// The first position before `last` whose count is above `target`, or `last`, in `steps` halvings. Counts never
/// decrease.
static Integer buildSearch(ScalarBuilder &b, Integer last, Value target, unsigned steps,
                           llvm::function_ref<Value(Integer)> countAt) {
  Integer low(b, b.index(int64_t(0))), high = last;
  for (unsigned step = 0; step < steps; ++step) {
    Integer middle = (low + high) / 2;
    Integer isAbove(b, arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, countAt(middle), target));
    high = choose(isAbove, middle, high);
    low = choose(isAbove, low, smaller(middle + 1, last));
  }
  return low;
}

SmallVector<Value> NonzeroOp::buildReference(ReferenceBuilder &builder) {
  Type i64 = builder.getI64Type();
  unsigned rank = rankOf(getInput());
  TypedAttr none = builder.getI64IntegerAttr(0);
  // A dimension of size 0 leaves no element to read, whatever the others are.
  if (llvm::is_contained(cast<RankedTensorType>(getInput().getType()).getShape(), 0))
    return {builder.filled({builder.getIndexAttr(0), builder.getIndexAttr(rank)}, none), builder.filled({}, none)};
  Value flat = buildFlat(builder, getInput());
  OpFoldResult elements = builder.sizesOf(flat)[0];
  std::optional<int64_t> number = getConstantIntValue(elements);

  constexpr int64_t largestBlock = 1024;
  int64_t block = number ? std::min(int64_t(llvm::PowerOf2Ceil(*number)), largestBlock) : largestBlock;
  OpFoldResult blocks = builder.computed(elements, [&](auto size) { return (size + (block - 1)) / block; });
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), elements);
  Value hits = builder.parallel({blocks, builder.getIndexAttr(block)}, builder.getI32Type(), {},
                                [&](ScalarBuilder &b, ValueRange) -> Value {
                                  Integer position = b.indexOf(0) * block + b.indexOf(1), end(b, size);
                                  Value read = tensor::ExtractOp::create(b, flat, Value(smaller(position, end - 1)));
                                  Integer isHit = (position < end) & Integer(b, isNonzero(b, read));
                                  return arith::ExtUIOp::create(b, b.getI32Type(), isHit);
                                });
  Value within = buildPrefixSums(builder, hits);
  AffineMap lastOfBlock = AffineMap::get(1, 0, {builder.getAffineDimExpr(0), builder.getAffineConstantExpr(block - 1)},
                                         builder.getContext());
  Value totals = builder.parallel({blocks}, i64, {{within, lastOfBlock}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
    return arith::ExtUIOp::create(b, i64, v[0]);
  });
  Value ends = buildPrefixSums(builder, totals);
  Value count = builder.fold(
      builder.filled({}, none), 1, {{totals, builder.identity(1)}},
      [](ScalarBuilder &b, ValueRange v) -> Value { return arith::AddIOp::create(b, v[0], v[1]).getResult(); });

  // Sizes of tensors are below 2^42.
  std::optional<int64_t> blockNumber = getConstantIntValue(blocks);
  unsigned steps = blockNumber ? llvm::Log2_64_Ceil(*blockNumber) : 32;
  Value blockCount = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), blocks);
  Value positions =
      builder.parallel({elements}, i64, {{count, builder.map(1, {})}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
        Integer row(b, arith::IndexCastOp::create(b, i64, b.indexOf(0)));
        Integer isThere = row < Integer(b, v[0]);
        row = choose(isThere, row, 0);
        auto endOf = [&](Integer index) -> Value { return tensor::ExtractOp::create(b, ends, Value(index)); };
        Integer at = buildSearch(b, Integer(b, blockCount) - 1, row, steps, endOf);
        Integer total(b, tensor::ExtractOp::create(b, within, ValueRange{at, Integer(b, b.index(block - 1))}));
        Integer first = Integer(b, endOf(at)) - Integer(b, arith::ExtUIOp::create(b, i64, total));
        Value target = arith::TruncIOp::create(b, b.getI32Type(), row - first);
        Integer place = buildSearch(
            b, Integer(b, b.index(block - 1)), target, llvm::Log2_64_Ceil(block),
            [&](Integer index) -> Value { return tensor::ExtractOp::create(b, within, ValueRange{at, index}); });
        Integer position(b, arith::IndexCastOp::create(b, i64, at * block + place));
        return choose(isThere, position, -1);
      });

  MixedSizes sizes = builder.sizesOf(getInput());
  Value indices =
      builder.parallel({elements, builder.getIndexAttr(rank)}, i64, {{positions, builder.leading(2, 1)}},
                       [&](ScalarBuilder &b, ValueRange v) -> Value {
                         Integer isNone(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, v[0],
                                                                 arith::ConstantOp::create(b, b.getI64IntegerAttr(0))));
                         Integer rest = b.toIndex(v[0]), result = rest;
                         for (unsigned d = rank; d-- > 0;) {
                           Integer dimension(b, b.index(sizes[d]));
                           Integer coordinate = d == 0 ? rest : rest % dimension;
                           result = choose(b.indexOf(1) == Integer(b, b.index(int64_t(d))), coordinate, result);
                           rest = rest / dimension;
                         }
                         Integer coordinate(b, arith::IndexCastOp::create(b, i64, Value(result)));
                         return choose(isNone, -1, coordinate);
                       });
  return {indices, count};
}
