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
using namespace intarsia::nn;
using namespace intarsia::reference;

SmallVector<Value> MatmulOp::buildReference(ReferenceBuilder &builder) {
  unsigned rank = rankOf(getLhs());
  unsigned row = rank - 2, column = rank - 1, inner = rank;
  MixedSizes sizes = builder.sizesOf(getLhs()), rhsSizes = builder.sizesOf(getRhs());
  sizes[row] = sizes[getTransposeLhs() ? rank - 1 : rank - 2];
  sizes[column] = rhsSizes[getTransposeRhs() ? rank - 2 : rank - 1];
  SmallVector<unsigned> lhs(rank), rhs(rank);
  std::iota(lhs.begin(), lhs.end(), 0);
  std::iota(rhs.begin(), rhs.end(), 0);
  lhs[rank - 2] = getTransposeLhs() ? inner : row;
  lhs[rank - 1] = getTransposeLhs() ? row : inner;
  rhs[rank - 2] = getTransposeRhs() ? column : inner;
  rhs[rank - 1] = getTransposeRhs() ? inner : column;
  Value sum =
      buildContraction(builder, sizes, getLhs(), builder.map(rank + 1, lhs), getRhs(), builder.map(rank + 1, rhs));
  return {buildNarrow(builder, sum, elementOf(getLhs()))};
}
