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

SmallVector<Value> EmbeddingOp::buildReference(ReferenceBuilder &builder) {
  MixedSizes sizes = builder.sizesOf(getIndices());
  unsigned rank = sizes.size();
  sizes.push_back(tensor::getMixedSize(builder, builder.getLoc(), getTable(), 1));
  FloatType element = cast<FloatType>(elementOf(getTable()));
  Value rows = getValueOrCreateConstantIndexOp(builder, builder.getLoc(),
                                               tensor::getMixedSize(builder, builder.getLoc(), getTable(), 0));
  return {builder.parallel(
      sizes, element, {{getIndices(), builder.leading(rank + 1, rank)}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
        Value row = arith::IndexCastOp::create(b, b.getIndexType(), v[0]);
        Value column = linalg::IndexOp::create(b, rank);
        Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, rows);
        Value inside = arith::SelectOp::create(b, isInside, row, arith::ConstantIndexOp::create(b, 0));
        Value value = tensor::ExtractOp::create(b, getTable(), ValueRange{inside, column});
        Value outside =
            arith::ConstantOp::create(b, b.getFloatAttr(element, APFloat::getNaN(element.getFloatSemantics())));
        return arith::SelectOp::create(b, isInside, value, outside);
      })};
}
