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

/// Takes away what negative amounts say, then puts elements of the value around the rest.
static Value buildConstant(ReferenceBuilder &builder, PadOp op) {
  Value tensor = op.getInput();
  SmallVector<int64_t> low(op.getLow()), high(op.getHigh());
  MixedSizes sizes = builder.sizesOf(tensor), offsets, all;
  for (auto [d, size] : llvm::enumerate(sizes)) {
    int64_t before = std::min<int64_t>(low[d], 0), behind = std::min<int64_t>(high[d], 0);
    offsets.push_back(builder.getIndexAttr(-before));
    all.push_back(builder.scaled(size, 1, 1, low[d] + high[d]));
    size = builder.scaled(size, 1, 1, before + behind);
    low[d] -= before;
    high[d] -= behind;
  }
  TypedAttr value = op.getValue() ? *op.getValue() : cast<TypedAttr>(builder.getZeroAttr(elementOf(tensor)));
  auto isEmpty = [](Value of) { return llvm::is_contained(cast<RankedTensorType>(of.getType()).getShape(), 0); };
  if (isEmpty(tensor) || isEmpty(op.getResult()))
    return builder.filled(all, value);
  auto isNegative = [](int64_t amount) { return amount < 0; };
  if (llvm::any_of(op.getLow(), isNegative) || llvm::any_of(op.getHigh(), isNegative))
    tensor = tensor::ExtractSliceOp::create(builder, tensor, offsets, sizes,
                                            SmallVector<OpFoldResult>(sizes.size(), builder.getIndexAttr(1)));
  return buildPadded(builder, tensor, low, high, value);
}

/// The position of the input that one of the result reads, which may lie outside.
static Value insideOf(ScalarBuilder &b, PadKind kind, Value position, Value size) {
  Value zero = b.index(int64_t(0)), one = b.index(int64_t(1));
  Value last = arith::SubIOp::create(b, size, one);
  if (kind == PadKind::Edge)
    return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, position, last), zero);
  // A reflection comes again after it went to the last element and back; of one element at once.
  Value period = size;
  if (kind == PadKind::Reflect)
    period = arith::MaxSIOp::create(b, arith::AddIOp::create(b, last, last), one);
  Value remainder = arith::RemSIOp::create(b, position, period);
  Value isNegative = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, remainder, zero);
  Value inside = b.select(isNegative, arith::AddIOp::create(b, remainder, period), remainder);
  if (kind == PadKind::Wrap)
    return inside;
  return arith::MinSIOp::create(b, inside, arith::SubIOp::create(b, period, inside));
}

SmallVector<Value> PadOp::buildReference(ReferenceBuilder &builder) {
  if (getKind() == PadKind::Constant)
    return {buildConstant(builder, *this)};
  Value input = getInput();
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  SmallVector<std::pair<Value, AffineMap>> tables;
  SmallVector<unsigned> padded;
  for (unsigned d = 0; d < rank; ++d) {
    int64_t low = getLow()[d], high = getHigh()[d];
    if (low == 0 && high == 0)
      continue;
    Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), sizes[d]);
    sizes[d] = builder.scaled(sizes[d], 1, 1, low + high);
    Value table = builder.parallel({sizes[d]}, builder.getI64Type(), {}, [&](ScalarBuilder &b, ValueRange) -> Value {
      Value position = b.indexOf(0) - low;
      return arith::IndexCastOp::create(b, b.getI64Type(), insideOf(b, getKind(), position, size));
    });
    tables.push_back({table, builder.map(rank, {d})});
    padded.push_back(d);
  }
  return {builder.parallel(sizes, elementOf(input), tables, [&](ScalarBuilder &b, ValueRange v) -> Value {
    SmallVector<Value> at;
    for (unsigned d = 0; d < rank; ++d)
      at.push_back(b.indexOf(d));
    for (auto [d, position] : llvm::zip_equal(padded, v.take_front(padded.size())))
      at[d] = b.toIndex(position);
    return tensor::ExtractOp::create(b, input, at);
  })};
}
