//===- FftReference.cpp - Reference of nn.fft -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include <cmath>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

SmallVector<Value> FftOp::buildReference(ReferenceBuilder &builder) {
  Value input = getInput();
  unsigned rank = rankOf(input), axis = getAxis();
  auto type = cast<RankedTensorType>(input.getType());
  bool isRealInput = type.getShape().back() == 1, isRealResult = getInverse() && getOnesided();
  MixedSizes sizes = builder.sizesOf(input);
  OpFoldResult read = sizes[axis], number = read;
  if (isRealResult)
    number = getLength() ? OpFoldResult(builder.getIndexAttr(*getLength())) : builder.scaled(read, 1, 2, -2);
  if (isRealResult)
    sizes[axis] = number;
  else if (getOnesided())
    sizes[axis] = builder.scaled(number, 2, 1, 1);
  sizes.back() = builder.getIndexAttr(isRealResult ? 1 : 2);

  // Loops are those of the result, then that of the sum.
  auto part = [&](int64_t which) {
    SmallVector<AffineExpr> results;
    for (unsigned d = 0; d + 1 < rank; ++d)
      results.push_back(builder.getAffineDimExpr(d == axis ? rank : d));
    results.push_back(builder.getAffineConstantExpr(which));
    return AffineMap::get(rank + 1, 0, results, builder.getContext());
  };
  SmallVector<std::pair<Value, AffineMap>> inputs = {{input, part(0)}};
  if (!isRealInput)
    inputs.push_back({input, part(1)});
  Value count = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), number);
  Type sum = builder.sumType;
  auto floatOf = [&](ScalarBuilder &b, Integer integer) -> Value {
    Value wide = arith::IndexCastOp::create(b, b.getI64Type(), Value(integer));
    return arith::SIToFPOp::create(b, sum, wide);
  };
  auto numberOf = [&](ScalarBuilder &b, double value) -> Value {
    return arith::ConstantOp::create(b, b.getFloatAttr(sum, value));
  };
  Value sums = builder.reduce(sizes, 1, 0, inputs, [&](ScalarBuilder &b, ValueRange v) {
    Integer n(b, count), j = b.indexOf(rank), turned = j * b.indexOf(axis) % n;
    // Angles between -π and π, of which functions are exact.
    Integer isBehind = n < turned * 2;
    Value distance = floatOf(b, choose(isBehind, n - turned, turned));
    Value angle = b.div(b.mul(distance, numberOf(b, 2 * M_PI)), floatOf(b, n));
    Value cosine = math::CosOp::create(b, angle), sine = math::SinOp::create(b, angle);
    // exp(∓iφ) = cosine ∓ i * sine
    bool isNegative = !getInverse();
    Value opposite = arith::NegFOp::create(b, sine);
    sine = b.select(isBehind, isNegative ? sine : opposite, isNegative ? opposite : sine);
    Value real = b.exact(v[0]);
    Value imaginary = isRealInput ? Value() : b.exact(v[1]);
    if (isRealResult) {
      // Elements between the first and that in the middle stand for their conjugates too.
      Integer isAlone = (j == Integer(0)) | (j * 2 == n);
      Value once = b.mul(real, cosine);
      Value both = b.sub(once, b.mul(imaginary, sine));
      return b.add(v.back(), b.select(isAlone, once, b.mul(both, numberOf(b, 2))));
    }
    Value first = b.mul(real, cosine), second = b.mul(real, sine);
    if (!isRealInput) {
      first = b.sub(first, b.mul(imaginary, sine));
      second = b.add(second, b.mul(imaginary, cosine));
    }
    return b.add(v.back(), b.select(b.indexOf(rank - 1) == Integer(0), first, second));
  });
  Type element = elementOf(input);
  return {builder.parallel(sizes, element, {{sums, builder.identity(rank)}}, [&](ScalarBuilder &b, ValueRange v) {
    return b.narrow(getInverse() ? b.div(v[0], floatOf(b, {b, count})) : v[0], element);
  })};
}
