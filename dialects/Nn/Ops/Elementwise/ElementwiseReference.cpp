//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

#include <numbers>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

/// Builds the op's formula without its sums 1 + erf(y) and 1 + tanh(y), in which digits cancel where y is far below 0:
/// they are erfc(-y) and 2 / (1 + exp(-2 y)).
static Value buildScalar(ScalarBuilder &b, GeluOp op, Value x) {
  using namespace std::numbers;
  if (op.getForm() == GeluForm::Erf)
    return b.mul(b.mul(x, b.f64(0.5)), math::ErfcOp::create(b, b.mul(x, b.f64(-sqrt2 / 2))));
  Value cubic = b.add(x, b.mul(b.f64(0.044715), b.mul(x, b.mul(x, x))));
  return b.div(x, b.add(b.f64(1), b.exp(b.mul(b.f64(-2 * sqrt2 * inv_sqrtpi), cubic))));
}
static Value buildScalar(ScalarBuilder &b, SigmoidOp, Value x) {
  return b.div(b.f64(1), b.add(b.f64(1), b.exp(arith::NegFOp::create(b, x))));
}
static Value buildScalar(ScalarBuilder &b, SiluOp, Value x) {
  return b.div(x, b.add(b.f64(1), b.exp(arith::NegFOp::create(b, x))));
}
static Value buildScalar(ScalarBuilder &b, ReluOp, Value x) { return b.max(x, b.f64(0)); }
static Value buildScalar(ScalarBuilder &b, TanhOp, Value x) { return math::TanhOp::create(b, x); }

template <typename Op> static Value buildElementwise(ReferenceBuilder &builder, Op op) {
  Type element = elementOf(op.getInput());
  return builder.parallel(
      builder.sizesOf(op.getInput()), element, {{op.getInput(), builder.identity(rankOf(op.getInput()))}},
      [&](ScalarBuilder &b, ValueRange v) { return b.narrow(buildScalar(b, op, b.exact(v[0])), element); });
}

SmallVector<Value> GeluOp::buildReference(ReferenceBuilder &builder) { return {buildElementwise(builder, *this)}; }
SmallVector<Value> SiluOp::buildReference(ReferenceBuilder &builder) { return {buildElementwise(builder, *this)}; }
SmallVector<Value> ReluOp::buildReference(ReferenceBuilder &builder) { return {buildElementwise(builder, *this)}; }
SmallVector<Value> TanhOp::buildReference(ReferenceBuilder &builder) { return {buildElementwise(builder, *this)}; }
SmallVector<Value> SigmoidOp::buildReference(ReferenceBuilder &builder) { return {buildElementwise(builder, *this)}; }
