//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include <numeric>

using namespace mlir;
using namespace intarsia;

AffineMap reference::rowMap(ReferenceBuilder &builder, unsigned dimensions, unsigned rank, unsigned last) {
  SmallVector<unsigned> targets(rank);
  std::iota(targets.begin(), targets.end(), 0);
  targets.back() = last;
  return builder.map(dimensions, targets);
}

Value reference::buildContraction(ReferenceBuilder &builder, ArrayRef<OpFoldResult> sizes, Value lhs, AffineMap lhsMap,
                                  Value rhs, AffineMap rhsMap) {
  return builder.reduce(sizes, 1, 0.0, {{lhs, lhsMap}, {rhs, rhsMap}}, [](ScalarBuilder &b, ValueRange v) {
    return b.add(v[2], b.mul(b.exact(v[0]), b.exact(v[1])));
  });
}

Value reference::buildNarrow(ReferenceBuilder &builder, Value value, Type element) {
  if (element == elementOf(value))
    return value;
  return builder.parallel(builder.sizesOf(value), element, {{value, builder.identity(rankOf(value))}},
                          [&](ScalarBuilder &b, ValueRange v) { return b.narrow(v[0], element); });
}

std::pair<Value, Value> reference::buildCubic(ScalarBuilder &b, Value distance, float a) {
  // Factors that are zero at 1 and 2 keep all bits there: (a + 2) d³ - (a + 3) d² + 1 and a d³ - 5 a d² + 8 a d - 4 a.
  Value one = b.f32(1), before = b.sub(distance, one), behind = b.sub(distance, b.f32(2));
  Value square = b.sub(b.mul(b.f32(a + 2), b.mul(distance, distance)), b.add(distance, one));
  return {b.mul(before, square), b.mul(b.mul(b.f32(a), before), b.mul(behind, behind))};
}

Value reference::buildPadded(ReferenceBuilder &builder, Value tensor, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                             TypedAttr value) {
  for (int64_t dimension = 0; dimension < rankOf(tensor); ++dimension) {
    SmallVector<Value> parts{tensor};
    auto part = [&](int64_t pad) {
      MixedSizes sizes = builder.sizesOf(tensor);
      sizes[dimension] = builder.getIndexAttr(pad);
      return builder.filled(sizes, value);
    };
    if (low[dimension] != 0)
      parts.insert(parts.begin(), part(low[dimension]));
    if (high[dimension] != 0)
      parts.push_back(part(high[dimension]));
    if (parts.size() > 1)
      tensor = tensor::ConcatOp::create(builder, dimension, parts);
  }
  return tensor;
}
