//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include <numeric>

using namespace mlir;

namespace intarsia::reference {

Value buildReference(ReferenceBuilder &builder, nn::MatmulOp op) {
  unsigned rank = rankOf(op.getLhs());
  unsigned row = rank - 2, column = rank - 1, inner = rank;
  MixedSizes sizes = builder.sizesOf(op.getLhs()), rhsSizes = builder.sizesOf(op.getRhs());
  sizes[row] = sizes[op.getTransposeLhs() ? rank - 1 : rank - 2];
  sizes[column] = rhsSizes[op.getTransposeRhs() ? rank - 2 : rank - 1];
  SmallVector<unsigned> lhs(rank), rhs(rank);
  std::iota(lhs.begin(), lhs.end(), 0);
  std::iota(rhs.begin(), rhs.end(), 0);
  lhs[rank - 2] = op.getTransposeLhs() ? inner : row;
  lhs[rank - 1] = op.getTransposeLhs() ? row : inner;
  rhs[rank - 2] = op.getTransposeRhs() ? column : inner;
  rhs[rank - 1] = op.getTransposeRhs() ? inner : column;
  Value sum = buildContraction(builder, sizes, op.getLhs(), builder.map(rank + 1, lhs), op.getRhs(),
                               builder.map(rank + 1, rhs));
  return buildNarrow(builder, sum, elementOf(op.getLhs()));
}

} // namespace intarsia::reference
