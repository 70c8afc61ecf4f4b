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

static Value both(ScalarBuilder &b, Value x, Value y) { return arith::AndIOp::create(b, x, y); }
static Value either(ScalarBuilder &b, Value x, Value y) { return arith::OrIOp::create(b, x, y); }
static Value isLess(ScalarBuilder &b, Value x, Value y) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
}

namespace {
/// A logit and its index in the row, as f64.
struct Place {
  Value logit, index;
};
} // namespace

/// Returns true if a place comes before another one: its logit is larger, or equal and its index lower.
static Value comesBefore(ScalarBuilder &b, const Place &one, const Place &other) {
  Value isNan = b.isNan(one.logit), isOtherNan = b.isNan(other.logit);
  Value isNumber = arith::XOrIOp::create(b, isOtherNan, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  Value isLarger = either(b, isLess(b, other.logit, one.logit), both(b, isNan, isNumber));
  Value isEqual = either(b, b.isEqual(one.logit, other.logit), both(b, isNan, isOtherNan));
  return either(b, isLarger, both(b, isEqual, isLess(b, one.index, other.index)));
}

/// Returns the logit at an index of the loop's row.
static Place placeAt(ScalarBuilder &b, Value logits, Value index) {
  // No index is -1, which reads the first logit.
  Value integer = arith::FPToSIOp::create(b, b.getI64Type(), b.max(index, b.f64(0)));
  Value position = arith::IndexCastOp::create(b, b.getIndexType(), integer);
  Value logit = tensor::ExtractOp::create(b, logits, ValueRange{linalg::IndexOp::create(b, 0), position});
  return {b.exact(logit), index};
}

SmallVector<Value> CandidatesOp::buildReference(ReferenceBuilder &builder) {
  Value logits = getLogits();
  MixedSizes rows = {builder.sizesOf(logits)[0]};
  // Each candidate is the first of all logits behind the one before; -1 is none.
  SmallVector<std::pair<Value, AffineMap>> found;
  for (int64_t k = 0; k != int64_t(getCount()); ++k) {
    SmallVector<std::pair<Value, AffineMap>> inputs = {{logits, builder.identity(2)}};
    if (k != 0)
      inputs.push_back({found.back().first, builder.leading(2, 1)});
    Value next = builder.reduce(rows, 1, -1.0, inputs, [&](ScalarBuilder &b, ValueRange v) {
      Value column = arith::IndexCastOp::create(b, b.getI64Type(), linalg::IndexOp::create(b, 1));
      Place here = {b.exact(v[0]), arith::SIToFPOp::create(b, b.getF64Type(), column)};
      Value best = v.back();
      Value isBetter = either(b, isLess(b, best, b.f64(0)), comesBefore(b, here, placeAt(b, logits, best)));
      if (k != 0)
        isBetter = both(b, isBetter, comesBefore(b, placeAt(b, logits, v[1]), here));
      return b.select(isBetter, here.index, best);
    });
    found.push_back({next, builder.leading(2, 1)});
  }
  MixedSizes chosen = {rows[0], builder.getIndexAttr(getCount())};
  Value tokens = builder.parallel(chosen, builder.getI32Type(), found, [](ScalarBuilder &b, ValueRange v) -> Value {
    Value k = linalg::IndexOp::create(b, 1), token = v[0];
    for (size_t i = 1; i + 1 < v.size(); ++i)
      token = b.select(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, k, b.index(int64_t(i))), v[i], token);
    return arith::FPToSIOp::create(b, b.getI32Type(), token);
  });
  Value values = builder.parallel(
      chosen, builder.getF32Type(), {{tokens, builder.identity(2)}}, [&](ScalarBuilder &b, ValueRange v) -> Value {
        Value token = arith::IndexCastOp::create(b, b.getIndexType(), v[0]);
        return tensor::ExtractOp::create(b, logits, ValueRange{linalg::IndexOp::create(b, 0), token});
      });
  AffineMap firstOfRow =
      AffineMap::get(3, 0, {builder.getAffineDimExpr(0), builder.getAffineConstantExpr(0)}, builder.getContext());
  // Dimensions are row, temperature, logit.
  Value sums = builder.reduce(
      builder.sizesOf(getTemperatures()), 1, 0.0,
      {{logits, builder.map(3, {0, 2})}, {getTemperatures(), builder.map(3, {0, 1})}, {values, firstOfRow}},
      [](ScalarBuilder &b, ValueRange v) {
        Value largest = b.exact(v[2]);
        Value exponent = b.div(b.sub(b.exact(v[0]), largest), b.exact(v[1]));
        // -inf minus -inf would be NaN.
        Value isNone = b.isEqual(largest, b.f64(-std::numeric_limits<double>::infinity()));
        return b.add(v[3], b.select(isNone, b.f64(0), b.exp(exponent)));
      });
  return {values, tokens, buildNarrow(builder, sums, builder.getF32Type())};
}
