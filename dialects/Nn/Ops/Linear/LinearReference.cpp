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

SmallVector<Value> LinearOp::buildReference(ReferenceBuilder &builder) {
  unsigned rank = rankOf(getInput());
  MixedSizes sizes = builder.sizesOf(getInput());
  sizes.back() = tensor::getMixedSize(builder, builder.getLoc(), getWeight(), 0);
  Value sum = buildContraction(builder, sizes, getInput(), rowMap(builder, rank + 1, rank, rank), getWeight(),
                               builder.map(rank + 1, {rank - 1, rank}));
  Type element = elementOf(getInput());
  if (!getBias())
    return {buildNarrow(builder, sum, element)};
  return {
      builder.parallel(sizes, element, {{sum, builder.identity(rank)}, {getBias(), builder.map(rank, {rank - 1})}},
                       [&](ScalarBuilder &b, ValueRange v) { return b.narrow(b.add(v[0], b.exact(v[1])), element); })};
}
