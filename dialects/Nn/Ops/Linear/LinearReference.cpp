//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

using namespace mlir;

namespace intarsia::reference {

Value buildReference(ReferenceBuilder &builder, nn::LinearOp op) {
  unsigned rank = rankOf(op.getInput());
  MixedSizes sizes = builder.sizesOf(op.getInput());
  sizes.back() = tensor::getMixedSize(builder, builder.getLoc(), op.getWeight(), 0);
  Value sum = buildContraction(builder, sizes, op.getInput(), rowMap(builder, rank + 1, rank, rank), op.getWeight(),
                               builder.map(rank + 1, {rank - 1, rank}));
  Type element = elementOf(op.getInput());
  if (!op.getBias())
    return buildNarrow(builder, sum, element);
  return builder.parallel(
      sizes, element, {{sum, builder.identity(rank)}, {op.getBias(), builder.map(rank, {rank - 1})}},
      [&](ScalarBuilder &b, ValueRange v) { return b.narrow(b.add(v[0], b.exact(v[1])), element); });
}

} // namespace intarsia::reference
