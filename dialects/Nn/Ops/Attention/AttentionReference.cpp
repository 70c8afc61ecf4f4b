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

SmallVector<Value> AttentionOp::buildReference(ReferenceBuilder &builder) {
  MixedSizes query = builder.sizesOf(getQuery()), key = builder.sizesOf(getKey());
  MixedSizes value = builder.sizesOf(getValue());
  int64_t group = getQuery().getType().getDimSize(2) / getKey().getType().getDimSize(2);
  MLIRContext *context = getContext();
  auto dim = [&](unsigned position) { return getAffineDimExpr(position, context); };

  // scores[b, h, i, j], summed over d.
  AffineMap queryMap = builder.map(5, {0, 2, 1, 4});
  AffineMap keyMap = AffineMap::get(5, 0, {dim(0), dim(3), dim(1).floorDiv(group), dim(4)}, context);
  MixedSizes scoreSizes = {query[0], query[2], query[1], key[1]};
  Value scores = buildContraction(builder, scoreSizes, getQuery(), queryMap, getKey(), keyMap);

  SmallVector<std::pair<Value, AffineMap>> inputs = {{scores, builder.identity(4)}};
  if (Value mask = getMask()) {
    SmallVector<AffineExpr> exprs;
    for (auto [position, size] : llvm::enumerate(cast<RankedTensorType>(mask.getType()).getShape()))
      exprs.push_back(size == 1 && position != 3 ? getAffineConstantExpr(0, context) : dim(position));
    inputs.push_back({mask, AffineMap::get(4, 0, exprs, context)});
  }
  float scale = getScale().convertToFloat();
  Value hidden = builder.parallel(scoreSizes, builder.getF64Type(), inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value score = b.mul(v[0], b.f64(scale));
    if (getMask())
      score = v[1].getType().isInteger(1) ? b.select(v[1], score, b.f64(minusInfinity)) : b.add(score, b.exact(v[1]));
    if (!getCausal())
      return score;
    Value last = arith::AddIOp::create(b, linalg::IndexOp::create(b, 2),
                                       arith::SubIOp::create(b, b.index(key[1]), b.index(query[1])));
    Value isSeen = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, linalg::IndexOp::create(b, 3), last);
    return b.select(isSeen, score, b.f64(minusInfinity));
  });
  Value weights = buildSoftmax(builder, hidden, builder.getF64Type());

  // result[b, i, h, d], summed over j.
  AffineMap weightMap = builder.map(5, {0, 2, 1, 4});
  AffineMap valueMap = AffineMap::get(5, 0, {dim(0), dim(4), dim(2).floorDiv(group), dim(3)}, context);
  Value result =
      buildContraction(builder, {query[0], query[1], query[2], value[3]}, weights, weightMap, getValue(), valueMap);
  return {buildNarrow(builder, result, elementOf(getQuery()))};
}
