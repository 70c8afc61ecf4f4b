//===- TensorOps.cpp - Ops whose name matters to a decision, as loops ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Reference/OpReferences.h"

#include <limits>
#include <numbers>
#include <numeric>

using namespace mlir;

namespace intarsia::reference {

static constexpr double minusInfinity = -std::numeric_limits<double>::infinity();

static Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }
static int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

/// The map of a tensor whose dimensions are the first ones of the iteration space, but for the last.
static AffineMap rowMap(ReferenceBuilder &builder, unsigned dimensions, unsigned rank, unsigned last) {
  SmallVector<unsigned> targets(rank);
  std::iota(targets.begin(), targets.end(), 0);
  targets.back() = last;
  return builder.map(dimensions, targets);
}

static Value buildContraction(ReferenceBuilder &builder, ArrayRef<OpFoldResult> sizes, Value lhs, AffineMap lhsMap,
                              Value rhs, AffineMap rhsMap) {
  return builder.reduce(sizes, 1, 0.0, {{lhs, lhsMap}, {rhs, rhsMap}}, [](ScalarBuilder &b, ValueRange v) {
    return b.add(v[2], b.mul(b.exact(v[0]), b.exact(v[1])));
  });
}

Value buildNarrow(ReferenceBuilder &builder, Value value, Type element) {
  if (element == elementOf(value))
    return value;
  return builder.parallel(builder.sizesOf(value), element, {{value, builder.identity(rankOf(value))}},
                          [&](ScalarBuilder &b, ValueRange v) { return b.narrow(v[0], element); });
}

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

Value buildSoftmax(ReferenceBuilder &builder, Value input, Type element) {
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  AffineMap all = builder.identity(rank), row = builder.leading(rank, rank - 1);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  Value largest = builder.reduce(outer, 1, minusInfinity, {{input, all}},
                                 [](ScalarBuilder &b, ValueRange v) { return b.max(b.exact(v[0]), v[1]); });
  Value powers =
      builder.parallel(sizes, builder.getF64Type(), {{input, all}, {largest, row}}, [](ScalarBuilder &b, ValueRange v) {
        // -inf minus -inf would be NaN.
        Value isHidden = b.isEqual(v[1], b.f64(minusInfinity));
        return b.select(isHidden, b.f64(0), b.exp(b.sub(b.exact(v[0]), v[1])));
      });
  Value sum =
      builder.reduce(outer, 1, 0.0, {{powers, all}}, [](ScalarBuilder &b, ValueRange v) { return b.add(v[0], v[1]); });
  return builder.parallel(sizes, element, {{powers, all}, {sum, row}}, [&](ScalarBuilder &b, ValueRange v) {
    return b.narrow(b.select(b.isEqual(v[1], b.f64(0)), b.f64(0), b.div(v[0], v[1])), element);
  });
}

Value buildReference(ReferenceBuilder &builder, nn::SoftmaxOp op) {
  return buildSoftmax(builder, op.getInput(), elementOf(op.getInput()));
}

Value buildReference(ReferenceBuilder &builder, nn::AttentionOp op) {
  MixedSizes query = builder.sizesOf(op.getQuery()), key = builder.sizesOf(op.getKey());
  MixedSizes value = builder.sizesOf(op.getValue());
  int64_t group = op.getQuery().getType().getDimSize(2) / op.getKey().getType().getDimSize(2);
  MLIRContext *context = builder.getContext();
  auto dim = [&](unsigned position) { return getAffineDimExpr(position, context); };

  // scores[b, h, i, j], summed over d.
  AffineMap queryMap = builder.map(5, {0, 2, 1, 4});
  AffineMap keyMap = AffineMap::get(5, 0, {dim(0), dim(3), dim(1).floorDiv(group), dim(4)}, context);
  MixedSizes scoreSizes = {query[0], query[2], query[1], key[1]};
  Value scores = buildContraction(builder, scoreSizes, op.getQuery(), queryMap, op.getKey(), keyMap);

  SmallVector<std::pair<Value, AffineMap>> inputs = {{scores, builder.identity(4)}};
  if (Value mask = op.getMask()) {
    SmallVector<AffineExpr> exprs;
    for (auto [position, size] : llvm::enumerate(cast<RankedTensorType>(mask.getType()).getShape()))
      exprs.push_back(size == 1 && position != 3 ? getAffineConstantExpr(0, context) : dim(position));
    inputs.push_back({mask, AffineMap::get(4, 0, exprs, context)});
  }
  float scale = op.getScale().convertToFloat();
  Value hidden = builder.parallel(scoreSizes, builder.getF64Type(), inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value score = b.mul(v[0], b.f64(scale));
    if (op.getMask())
      score = v[1].getType().isInteger(1) ? b.select(v[1], score, b.f64(minusInfinity)) : b.add(score, b.exact(v[1]));
    if (!op.getCausal())
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
      buildContraction(builder, {query[0], query[1], query[2], value[3]}, weights, weightMap, op.getValue(), valueMap);
  return buildNarrow(builder, result, elementOf(op.getQuery()));
}

//===-- Rows --------------------------------------------------------------------------------------------------===//

static Value buildRowSize(ReferenceBuilder &builder, Value input) {
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), builder.sizesOf(input).back());
  Value integer = arith::IndexCastOp::create(builder, builder.getI64Type(), size);
  return arith::SIToFPOp::create(builder, builder.getF64Type(), integer);
}

/// Dimensions of a tensor of `rank`, the last one in two.
static SmallVector<ReassociationIndices> lastTwo(int64_t rank) {
  SmallVector<ReassociationIndices> dimensions;
  for (int64_t dimension = 0; dimension != rank; ++dimension)
    dimensions.push_back({dimension});
  dimensions.back().push_back(rank);
  return dimensions;
}

/// Splits the last dimension, [… , features] to [… , groups, features / groups].
static Value splitLast(ReferenceBuilder &builder, Value tensor, int64_t groups) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape(type.getShape());
  MixedSizes sizes = builder.sizesOf(tensor);
  shape.back() /= groups;
  shape.insert(shape.end() - 1, groups);
  sizes.back() = builder.getIndexAttr(shape.back());
  sizes.insert(sizes.end() - 1, builder.getIndexAttr(groups));
  return tensor::ExpandShapeOp::create(builder, RankedTensorType::get(shape, type.getElementType()), tensor,
                                       lastTwo(type.getRank()), sizes);
}

Value buildReference(ReferenceBuilder &builder, NormOpInterface op) {
  NormStatistics statistics = op.getStatistics();
  bool isSplit = statistics.groups != 1;
  auto splitIfGrouped = [&](Value tensor) { return isSplit ? splitLast(builder, tensor, statistics.groups) : tensor; };
  Value input = splitIfGrouped(op.getInput());
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  AffineMap all = builder.identity(rank), row = builder.leading(rank, rank - 1),
            feature = isSplit ? builder.map(rank, {rank - 2, rank - 1}) : builder.map(rank, {rank - 1});
  Value features = buildRowSize(builder, input);
  SmallVector<std::pair<Value, AffineMap>> inputs = {{input, all}};
  if (statistics.isCentred) {
    Value sum = builder.reduce(outer, 1, 0.0, inputs,
                               [](ScalarBuilder &b, ValueRange v) { return b.add(v[1], b.exact(v[0])); });
    inputs.push_back({sum, row});
  }
  auto centre = [&](ScalarBuilder &b, ValueRange v) {
    Value x = b.exact(v[0]);
    return statistics.isCentred ? b.sub(x, b.div(v[1], features)) : x;
  };
  Value squares = builder.reduce(outer, 1, 0.0, inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value centred = centre(b, v);
    return b.add(v.back(), b.mul(centred, centred));
  });
  unsigned squaresAt = inputs.size();
  inputs.append({{squares, row}, {splitIfGrouped(op.getScale()), feature}});
  if (op.getBias())
    inputs.push_back({splitIfGrouped(op.getBias()), feature});
  Type element = elementOf(input);
  Value result = builder.parallel(sizes, element, inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value variance = b.add(b.div(v[squaresAt], features), b.f64(statistics.epsilon));
    Value normal = b.div(centre(b, v), math::SqrtOp::create(b, variance));
    Value scaled = b.mul(normal, b.exact(v[squaresAt + 1]));
    return b.narrow(op.getBias() ? b.add(scaled, b.exact(v[squaresAt + 2])) : scaled, element);
  });
  if (!isSplit)
    return result;
  return tensor::CollapseShapeOp::create(builder, op.getInput().getType(), result, lastTwo(rank - 1));
}

//===-- Elementwise -------------------------------------------------------------------------------------------===//

/// Builds the op's formula without its sums 1 + erf(y) and 1 + tanh(y), in which digits cancel where y is far below 0:
/// they are erfc(-y) and 2 / (1 + exp(-2 y)).
static Value buildScalar(ScalarBuilder &b, nn::GeluOp op, Value x) {
  using namespace std::numbers;
  if (op.getForm() == nn::GeluForm::Erf)
    return b.mul(b.mul(x, b.f64(0.5)), math::ErfcOp::create(b, b.mul(x, b.f64(-sqrt2 / 2))));
  Value cubic = b.add(x, b.mul(b.f64(0.044715), b.mul(x, b.mul(x, x))));
  return b.div(x, b.add(b.f64(1), b.exp(b.mul(b.f64(-2 * sqrt2 * inv_sqrtpi), cubic))));
}
static Value buildScalar(ScalarBuilder &b, nn::SigmoidOp, Value x) {
  return b.div(b.f64(1), b.add(b.f64(1), b.exp(arith::NegFOp::create(b, x))));
}
static Value buildScalar(ScalarBuilder &b, nn::SiluOp, Value x) {
  return b.div(x, b.add(b.f64(1), b.exp(arith::NegFOp::create(b, x))));
}
static Value buildScalar(ScalarBuilder &b, nn::ReluOp, Value x) { return b.max(x, b.f64(0)); }
static Value buildScalar(ScalarBuilder &b, nn::TanhOp, Value x) { return math::TanhOp::create(b, x); }

template <typename Op> static Value buildElementwise(ReferenceBuilder &builder, Op op) {
  Type element = elementOf(op.getInput());
  return builder.parallel(
      builder.sizesOf(op.getInput()), element, {{op.getInput(), builder.identity(rankOf(op.getInput()))}},
      [&](ScalarBuilder &b, ValueRange v) { return b.narrow(buildScalar(b, op, b.exact(v[0])), element); });
}

Value buildReference(ReferenceBuilder &builder, nn::GeluOp op) { return buildElementwise(builder, op); }
Value buildReference(ReferenceBuilder &builder, nn::SiluOp op) { return buildElementwise(builder, op); }
Value buildReference(ReferenceBuilder &builder, nn::ReluOp op) { return buildElementwise(builder, op); }
Value buildReference(ReferenceBuilder &builder, nn::TanhOp op) { return buildElementwise(builder, op); }
Value buildReference(ReferenceBuilder &builder, nn::SigmoidOp op) { return buildElementwise(builder, op); }

//===-- Positions and tables ----------------------------------------------------------------------------------===//

Value buildReference(ReferenceBuilder &builder, nn::EmbeddingOp op) {
  MixedSizes sizes = builder.sizesOf(op.getIndices());
  unsigned rank = sizes.size();
  sizes.push_back(tensor::getMixedSize(builder, builder.getLoc(), op.getTable(), 1));
  FloatType element = cast<FloatType>(elementOf(op.getTable()));
  Value rows = getValueOrCreateConstantIndexOp(builder, builder.getLoc(),
                                               tensor::getMixedSize(builder, builder.getLoc(), op.getTable(), 0));
  return builder.parallel(sizes, element, {{op.getIndices(), builder.leading(rank + 1, rank)}},
                          [&](ScalarBuilder &b, ValueRange v) -> Value {
                            Value row = arith::IndexCastOp::create(b, b.getIndexType(), v[0]);
                            Value column = linalg::IndexOp::create(b, rank);
                            Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, rows);
                            Value inside =
                                arith::SelectOp::create(b, isInside, row, arith::ConstantIndexOp::create(b, 0));
                            Value value = tensor::ExtractOp::create(b, op.getTable(), ValueRange{inside, column});
                            Value outside = arith::ConstantOp::create(
                                b, b.getFloatAttr(element, APFloat::getNaN(element.getFloatSemantics())));
                            return arith::SelectOp::create(b, isInside, value, outside);
                          });
}

Value buildReference(ReferenceBuilder &builder, nn::RopeOp op) {
  int64_t half = op.getFrequencies().getType().getDimSize(0);
  Type element = elementOf(op.getInput());
  float factor = op.getAttentionFactor().convertToFloat();
  unsigned rank = op.getInput().getType().getRank();
  SmallVector<unsigned> leading = llvm::to_vector(llvm::seq<unsigned>(0, rank - 2));
  return builder.parallel(
      builder.sizesOf(op.getInput()), element,
      {{op.getInput(), builder.identity(rank)}, {op.getPositions(), builder.map(rank, leading)}},
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
        Value step = b.index(op.getInterleaved() ? 1 : half);
        Value parity = op.getInterleaved() ? arith::RemUIOp::create(b, inside, b.index(2)).getResult()
                                           : arith::DivUIOp::create(b, inside, b.index(half)).getResult();
        Value pair = op.getInterleaved() ? arith::DivUIOp::create(b, inside, b.index(2)).getResult()
                                         : arith::RemUIOp::create(b, inside, b.index(half)).getResult();
        Value isFirst = isLess(parity, b.index(1));
        indices.back() =
            b.select(isFirst, arith::AddIOp::create(b, inside, step), arith::SubIOp::create(b, inside, step));
        Value partner = b.exact(tensor::ExtractOp::create(b, op.getInput(), indices));
        Value frequency = b.widen(tensor::ExtractOp::create(b, op.getFrequencies(), pair));
        // Models are trained with angles that are rounded to f32.
        Value angle = b.exact(b.mul(arith::SIToFPOp::create(b, b.getF32Type(), v[1]), frequency));
        Value cosine = b.mul(math::CosOp::create(b, angle), b.f64(factor));
        Value sine = b.mul(math::SinOp::create(b, angle), b.f64(factor));
        Value across = b.mul(partner, sine), along = b.mul(b.exact(v[0]), cosine);
        Value rotated = b.narrow(b.select(isFirst, b.sub(along, across), b.add(along, across)), element);
        return b.select(isRotated, rotated, v[0]);
      });
}

} // namespace intarsia::reference
