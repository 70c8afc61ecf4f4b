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

SmallVector<Value> CumulateOp::buildReference(ReferenceBuilder &builder) {
  Value input = getInput();
  unsigned rank = rankOf(input);
  Type element = elementOf(input), exact = isa<FloatType>(element) ? Type(builder.getF64Type()) : element;
  Value init = builder.filled(builder.sizesOf(input), neutralElement(getKind(), exact));
  // Loops are those of the result, then those over the elements that each one combines.
  SmallVector<unsigned> combined(rank);
  std::iota(combined.begin(), combined.end(), 0);
  combined.back() = rank;
  Value result =
      builder.fold(init, 1, {{input, builder.map(rank + 1, combined)}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
        using P = arith::CmpIPredicate;
        P order = getReverse() ? (getExclusive() ? P::ugt : P::uge) : (getExclusive() ? P::ult : P::ule);
        Value isCombined =
            arith::CmpIOp::create(b, order, linalg::IndexOp::create(b, rank), linalg::IndexOp::create(b, rank - 1));
        Value x = isa<FloatType>(element) ? b.exact(v[0]) : v[0];
        return b.select(isCombined, vector::makeArithReduction(b, b.getLoc(), getKind(), v[1], x), v[1]);
      });
  return {isa<FloatType>(element) ? buildNarrow(builder, result, element) : result};
}
