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

Value reference::buildSoftmax(ReferenceBuilder &builder, Value input, Type element) {
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  AffineMap all = builder.identity(rank), row = builder.leading(rank, rank - 1);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  Value largest = builder.reduce(outer, 1, minusInfinity, {{input, all}},
                                 [](ScalarBuilder &b, ValueRange v) { return b.max(b.exact(v[0]), v[1]); });
  Value powers =
      builder.parallel(sizes, builder.getF64Type(), {{input, all}, {largest, row}}, [](ScalarBuilder &b, ValueRange v) {
        // -inf minus -inf would be NaN.
        Value isHidden = b.isEqual(v[1], b.f64(minusInfinity));
        return b.select(isHidden, b.f64(0), b.exp(b.sub(b.exact(v[0]), v[1])));
      });
  Value sum =
      builder.reduce(outer, 1, 0.0, {{powers, all}}, [](ScalarBuilder &b, ValueRange v) { return b.add(v[0], v[1]); });
  return builder.parallel(sizes, element, {{powers, all}, {sum, row}}, [&](ScalarBuilder &b, ValueRange v) {
    return b.narrow(b.select(b.isEqual(v[1], b.f64(0)), b.f64(0), b.div(v[0], v[1])), element);
  });
}

SmallVector<Value> SoftmaxOp::buildReference(ReferenceBuilder &builder) {
  return {buildSoftmax(builder, getInput(), elementOf(getInput()))};
}
