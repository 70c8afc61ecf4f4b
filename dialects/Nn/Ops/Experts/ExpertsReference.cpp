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
static Value negated(ScalarBuilder &b, Value x) {
  return arith::XOrIOp::create(b, x, arith::ConstantOp::create(b, b.getBoolAttr(true)));
}
/// The loop's position in a dimension, as f64.
static Value positionOf(ScalarBuilder &b, unsigned dimension) {
  Value integer = arith::IndexCastOp::create(b, b.getI64Type(), linalg::IndexOp::create(b, dimension));
  return arith::SIToFPOp::create(b, b.getF64Type(), integer);
}

SmallVector<Value> RouteOp::buildReference(ReferenceBuilder &builder) {
  Value logits = getLogits();
  MixedSizes sizes = builder.sizesOf(logits);
  MixedSizes chosenSizes = {sizes[0], builder.getIndexAttr(getTopK())};
  // The number of experts that come before each: dimensions are token, expert, other expert.
  Value rank =
      builder.reduce(sizes, 1, 0.0, {{logits, builder.map(3, {0, 1})}, {logits, builder.map(3, {0, 2})}},
                     [](ScalarBuilder &b, ValueRange v) {
                       Value logit = b.widen(v[0]), other = b.widen(v[1]);
                       Value isLarger = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, other, logit);
                       isLarger = either(b, isLarger, both(b, b.isNan(other), negated(b, b.isNan(logit))));
                       Value isEqual = either(b, b.isEqual(logit, other), both(b, b.isNan(logit), b.isNan(other)));
                       Value isLower = arith::CmpIOp::create(
                           b, arith::CmpIPredicate::ult, linalg::IndexOp::create(b, 2), linalg::IndexOp::create(b, 1));
                       return b.add(v[2], b.select(either(b, isLarger, both(b, isEqual, isLower)), b.f64(1), b.f64(0)));
                     });
  // Dimensions are token, rank, expert.
  AffineMap ofExpert = builder.map(3, {0, 2});
  Value experts = builder.reduce(chosenSizes, 1, 0.0, {{rank, ofExpert}}, [](ScalarBuilder &b, ValueRange v) {
    return b.add(v[1], b.select(b.isEqual(v[0], positionOf(b, 1)), positionOf(b, 2), b.f64(0)));
  });
  Value indices = builder.parallel(
      chosenSizes, builder.getI32Type(), {{experts, builder.identity(2)}},
      [](ScalarBuilder &b, ValueRange v) -> Value { return arith::FPToSIOp::create(b, b.getI32Type(), v[0]); });
  Value all = buildSoftmax(builder, logits, builder.getF64Type());
  Value weights =
      builder.reduce(chosenSizes, 1, 0.0, {{rank, ofExpert}, {all, ofExpert}}, [](ScalarBuilder &b, ValueRange v) {
        return b.add(v[2], b.select(b.isEqual(v[0], positionOf(b, 1)), v[1], b.f64(0)));
      });
  AffineMap chosen = builder.identity(2);
  if (!getNormalize())
    return {indices, buildNarrow(builder, weights, builder.getF32Type())};
  Value sum = builder.reduce({sizes[0]}, 1, 0.0, {{weights, chosen}},
                             [](ScalarBuilder &b, ValueRange v) { return b.add(v[0], v[1]); });
  Value normal = builder.parallel(chosenSizes, builder.getF32Type(), {{weights, chosen}, {sum, builder.leading(2, 1)}},
                                  [](ScalarBuilder &b, ValueRange v) {
                                    Value share = b.select(b.isEqual(v[1], b.f64(0)), b.f64(0), b.div(v[0], v[1]));
                                    return b.narrow(share, b.getF32Type());
                                  });
  return {indices, normal};
}

static Value activated(ScalarBuilder &b, ExpertsOp op, Value gate, Value up) {
  auto sigmoid = [&](Value x) { return b.div(b.f64(1), b.add(b.f64(1), b.exp(arith::NegFOp::create(b, x)))); };
  if (op.getActivation() == GatedActivation::Silu)
    return b.mul(b.mul(gate, sigmoid(gate)), up);
  float limit = op.getLimit().convertToFloat();
  gate = b.min(gate, b.f64(limit));
  up = b.max(b.min(up, b.f64(limit)), b.f64(-limit));
  return b.mul(b.add(up, b.f64(1)), b.mul(gate, sigmoid(b.mul(gate, b.f64(op.getAlpha().convertToFloat())))));
}

/// Quantizes and dequantizes rows [tokens, rank, features]; the format is that of rows [row, features].
static Value buildRequantized(ReferenceBuilder &builder, Value rows, BlockFormatAttr format) {
  auto type = cast<RankedTensorType>(rows.getType());
  format = BlockFormatAttr::get(format.getContext(), format.getElement(), format.getScale(), format.getBlock(),
                                type.getRank() - 1);
  SmallVector<int64_t> scales(type.getShape());
  scales.back() = format.getBlockCount(scales.back());
  auto quantize = QuantizeOp::create(builder, builder.getLoc(), type.clone(format.getStorageType()),
                                     RankedTensorType::get(scales, format.getScaleType()), /*zero_points=*/Type(),
                                     /*tensor_scale=*/Type(), rows, /*channels=*/Value(),
                                     /*factors=*/Value(), format, /*wide_blocks=*/IntegerAttr(),
                                     /*unit_scale=*/UnitAttr());
  SmallVector<Value> parts = quantize.buildReference(builder);
  quantize.erase();
  auto dequantize = DequantizeOp::create(builder, builder.getLoc(), type, parts[0], parts[1],
                                         /*zero_points=*/Value(), /*tensor_scale=*/Value(),
                                         /*group_indices=*/Value(), /*codebook=*/Value(), format);
  Value result = dequantize.buildReference(builder).front();
  dequantize.erase();
  return result;
}

SmallVector<Value> ExpertsOp::buildReference(ReferenceBuilder &builder) {
  MixedSizes input = builder.sizesOf(getInput()), indices = builder.sizesOf(getIndices());
  auto gateUpType = cast<RankedTensorType>(getGateUp().getType());
  int64_t experts = gateUpType.getDimSize(0);
  OpFoldResult inner = builder.getIndexAttr(gateUpType.getDimSize(2));
  auto isInside = [&](ScalarBuilder &b, Value expert) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, expert, b.index(experts));
  };
  /// The element of a weight of the expert, at the loop's position in the other dimensions.
  auto weightAt = [&](ScalarBuilder &b, Value weight, Value index, ArrayRef<Value> position) {
    Value expert = arith::IndexCastOp::create(b, b.getIndexType(), index);
    SmallVector<Value> at = {b.select(isInside(b, expert), expert, b.index(0))};
    llvm::append_range(at, position);
    return b.exact(tensor::ExtractOp::create(b, weight, at));
  };

  // Gate and up: dimensions are token, rank, feature, input feature.
  Value parts[2];
  for (int64_t part : {0, 1}) {
    parts[part] = builder.reduce({indices[0], indices[1], inner}, 1, 0.0,
                                 {{getInput(), builder.map(4, {0, 3})}, {getIndices(), builder.map(4, {0, 1})}},
                                 [&](ScalarBuilder &b, ValueRange v) {
                                   Value weight = weightAt(
                                       b, getGateUp(), v[1],
                                       {b.index(part), linalg::IndexOp::create(b, 2), linalg::IndexOp::create(b, 3)});
                                   return b.add(v[2], b.mul(b.exact(v[0]), weight));
                                 });
  }
  AffineMap all = builder.identity(3), row = builder.leading(3, 2);
  // A format quantizes values of f32.
  BlockFormatAttr format = getIntermediateFormatAttr();
  Type hiddenType = format ? builder.getF32Type() : builder.getF64Type();
  Value hidden = builder.parallel(
      {indices[0], indices[1], inner}, hiddenType, {{parts[0], all}, {parts[1], all}, {getIndices(), row}},
      [&](ScalarBuilder &b, ValueRange v) {
        SmallVector<Value> values(v.take_front(2));
        if (Value bias = getGateUpBias())
          for (int64_t part : {0, 1})
            values[part] = b.add(values[part], weightAt(b, bias, v[2], {b.index(part), linalg::IndexOp::create(b, 2)}));
        return b.narrow(activated(b, *this, values[0], values[1]), hiddenType);
      });
  if (format)
    hidden = buildRequantized(builder, hidden, format);
  Value rows = builder.reduce({indices[0], indices[1], input[1]}, 1, 0.0,
                              {{hidden, builder.map(4, {0, 1, 3})}, {getIndices(), builder.map(4, {0, 1})}},
                              [&](ScalarBuilder &b, ValueRange v) {
                                Value weight = weightAt(b, getDown(), v[1],
                                                        {linalg::IndexOp::create(b, 2), linalg::IndexOp::create(b, 3)});
                                return b.add(v[2], b.mul(b.exact(v[0]), weight));
                              });
  // Dimensions are token, feature, rank.
  AffineMap chosen = builder.map(3, {0, 2});
  Value sums =
      builder.reduce(input, 1, 0.0, {{rows, builder.map(3, {0, 2, 1})}, {getWeights(), chosen}, {getIndices(), chosen}},
                     [&](ScalarBuilder &b, ValueRange v) {
                       Value row = v[0];
                       if (Value bias = getDownBias())
                         row = b.add(row, weightAt(b, bias, v[2], {linalg::IndexOp::create(b, 1)}));
                       Value expert = arith::IndexCastOp::create(b, b.getIndexType(), v[2]);
                       Value isNone = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, expert, b.index(-1));
                       Value outside = b.select(isNone, b.f64(0), b.f64(std::numeric_limits<double>::quiet_NaN()));
                       return b.add(v[3], b.select(isInside(b, expert), b.mul(row, b.exact(v[1])), outside));
                     });
  return {buildNarrow(builder, sums, builder.getF32Type())};
}
