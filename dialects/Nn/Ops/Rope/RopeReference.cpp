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

SmallVector<Value> RopeOp::buildReference(ReferenceBuilder &builder) {
  int64_t half = getFrequencies().getType().getDimSize(0);
  Type element = elementOf(getInput());
  float factor = getAttentionFactor().convertToFloat();
  unsigned rank = getInput().getType().getRank();
  SmallVector<unsigned> leading = llvm::to_vector(llvm::seq<unsigned>(0, rank - 2));
  return {builder.parallel(
      builder.sizesOf(getInput()), element,
      {{getInput(), builder.identity(rank)}, {getPositions(), builder.map(rank, leading)}},
      [&](ScalarBuilder &b, ValueRange v) {
        SmallVector<Value> indices;
        for (unsigned dimension = 0; dimension != rank; ++dimension)
          indices.push_back(linalg::IndexOp::create(b, dimension));
        Value feature = indices.back();
        auto isLess = [&](Value x, Value y) -> Value {
          return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, y);
        };
        Value isRotated = isLess(feature, b.index(2 * half));
        // The pair of a feature beyond the rotated ones is not used, but it is read: any index inside will do.
        Value inside = b.select(isRotated, feature, b.index(0));
        Value step = b.index(getInterleaved() ? 1 : half);
        Value parity = getInterleaved() ? arith::RemUIOp::create(b, inside, b.index(2)).getResult()
                                        : arith::DivUIOp::create(b, inside, b.index(half)).getResult();
        Value pair = getInterleaved() ? arith::DivUIOp::create(b, inside, b.index(2)).getResult()
                                      : arith::RemUIOp::create(b, inside, b.index(half)).getResult();
        Value isFirst = isLess(parity, b.index(1));
        indices.back() =
            b.select(isFirst, arith::AddIOp::create(b, inside, step), arith::SubIOp::create(b, inside, step));
        Value partner = b.exact(tensor::ExtractOp::create(b, getInput(), indices));
        Value frequency = b.widen(tensor::ExtractOp::create(b, getFrequencies(), pair));
        // Models are trained with angles that are rounded to f32.
        Value angle = b.exact(b.mul(arith::SIToFPOp::create(b, b.getF32Type(), v[1]), frequency));
        Value cosine = b.mul(math::CosOp::create(b, angle), b.f64(factor));
        Value sine = b.mul(math::SinOp::create(b, angle), b.f64(factor));
        Value across = b.mul(partner, sine), along = b.mul(b.exact(v[0]), cosine);
        Value rotated = b.narrow(b.select(isFirst, b.sub(along, across), b.add(along, across)), element);
        return b.select(isRotated, rotated, v[0]);
      })};
}
