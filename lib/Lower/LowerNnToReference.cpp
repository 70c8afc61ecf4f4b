//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// The slow, exact road of every nn op, which tests compare fast kernels with.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/Passes.h"
#include "lib/Lower/ReferenceBuilder.h"

#include "mlir/IR/PatternMatch.h"
#include <limits>
#include <numeric>

using namespace mlir;

namespace intarsia::lower {
#define GEN_PASS_DEF_LOWERNNTOREFERENCE
#include "lib/Lower/Passes.h.inc"

namespace {
constexpr float minusInfinity = -std::numeric_limits<float>::infinity();

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }
int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

/// The map of a tensor whose dimensions are the first ones of the iteration space, but for the last.
AffineMap rowMap(ReferenceBuilder &builder, unsigned dimensions, unsigned rank, unsigned last) {
  SmallVector<unsigned> targets(rank);
  std::iota(targets.begin(), targets.end(), 0);
  targets.back() = last;
  return builder.map(dimensions, targets);
}

Value buildProduct(ReferenceBuilder &builder, ArrayRef<OpFoldResult> sizes, Value lhs, AffineMap lhsMap, Value rhs,
                   AffineMap rhsMap) {
  return builder.reduce(sizes, 1, 0.0f, {{lhs, lhsMap}, {rhs, rhsMap}}, [](ScalarBuilder &b, ValueRange v) {
    return b.add(v[2], b.mul(b.widen(v[0]), b.widen(v[1])));
  });
}

/// An f32 tensor as the element type of the op's result.
Value buildNarrow(ReferenceBuilder &builder, Value value, Type element) {
  if (element.isF32())
    return value;
  return builder.parallel(builder.sizesOf(value), element, {{value, builder.identity(rankOf(value))}},
                          [&](ScalarBuilder &b, ValueRange v) { return b.narrow(v[0], element); });
}

Value buildReference(ReferenceBuilder &builder, nn::LinearOp op) {
  unsigned rank = rankOf(op.getInput());
  MixedSizes sizes = builder.sizesOf(op.getInput());
  sizes.back() = tensor::getMixedSize(builder, builder.getLoc(), op.getWeight(), 0);
  Value sum = buildProduct(builder, sizes, op.getInput(), rowMap(builder, rank + 1, rank, rank), op.getWeight(),
                           builder.map(rank + 1, {rank - 1, rank}));
  Type element = elementOf(op.getInput());
  if (!op.getBias())
    return buildNarrow(builder, sum, element);
  return builder.parallel(
      sizes, element, {{sum, builder.identity(rank)}, {op.getBias(), builder.map(rank, {rank - 1})}},
      [&](ScalarBuilder &b, ValueRange v) { return b.narrow(b.add(v[0], b.widen(v[1])), element); });
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
  Value sum =
      buildProduct(builder, sizes, op.getLhs(), builder.map(rank + 1, lhs), op.getRhs(), builder.map(rank + 1, rhs));
  return buildNarrow(builder, sum, elementOf(op.getLhs()));
}

} // namespace

Value buildSoftmax(ReferenceBuilder &builder, Value input, Type element) {
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  AffineMap all = builder.identity(rank), row = builder.leading(rank, rank - 1);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  Value largest = builder.reduce(outer, 1, minusInfinity, {{input, all}},
                                 [](ScalarBuilder &b, ValueRange v) { return b.max(b.widen(v[0]), v[1]); });
  Value powers =
      builder.parallel(sizes, builder.getF32Type(), {{input, all}, {largest, row}}, [](ScalarBuilder &b, ValueRange v) {
        // -inf minus -inf would be NaN.
        Value isHidden = b.isEqual(v[1], b.f32(minusInfinity));
        return b.select(isHidden, b.f32(0), b.exp(b.sub(b.widen(v[0]), v[1])));
      });
  Value sum =
      builder.reduce(outer, 1, 0.0f, {{powers, all}}, [](ScalarBuilder &b, ValueRange v) { return b.add(v[0], v[1]); });
  return builder.parallel(sizes, element, {{powers, all}, {sum, row}}, [&](ScalarBuilder &b, ValueRange v) {
    return b.narrow(b.select(b.isEqual(v[1], b.f32(0)), b.f32(0), b.div(v[0], v[1])), element);
  });
}

namespace {

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
  Value scores = buildProduct(builder, scoreSizes, op.getQuery(), queryMap, op.getKey(), keyMap);

  SmallVector<std::pair<Value, AffineMap>> inputs = {{scores, builder.identity(4)}};
  if (Value mask = op.getMask()) {
    SmallVector<AffineExpr> exprs;
    for (auto [position, size] : llvm::enumerate(cast<RankedTensorType>(mask.getType()).getShape()))
      exprs.push_back(size == 1 && position != 3 ? getAffineConstantExpr(0, context) : dim(position));
    inputs.push_back({mask, AffineMap::get(4, 0, exprs, context)});
  }
  float scale = op.getScale().convertToFloat();
  Value hidden = builder.parallel(scoreSizes, builder.getF32Type(), inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value score = b.mul(v[0], b.f32(scale));
    if (op.getMask())
      score = v[1].getType().isInteger(1) ? b.select(v[1], score, b.f32(minusInfinity)) : b.add(score, b.widen(v[1]));
    if (!op.getCausal())
      return score;
    Value last = arith::AddIOp::create(b, linalg::IndexOp::create(b, 2),
                                       arith::SubIOp::create(b, b.index(key[1]), b.index(query[1])));
    Value isSeen = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, linalg::IndexOp::create(b, 3), last);
    return b.select(isSeen, score, b.f32(minusInfinity));
  });
  Value weights = buildSoftmax(builder, hidden, builder.getF32Type());

  // result[b, i, h, d], summed over j.
  AffineMap weightMap = builder.map(5, {0, 2, 1, 4});
  AffineMap valueMap = AffineMap::get(5, 0, {dim(0), dim(4), dim(2).floorDiv(group), dim(3)}, context);
  Value result =
      buildProduct(builder, {query[0], query[1], query[2], value[3]}, weights, weightMap, op.getValue(), valueMap);
  return buildNarrow(builder, result, elementOf(op.getQuery()));
}

//===-- Rows --------------------------------------------------------------------------------------------------===//

Value buildRowSize(ReferenceBuilder &builder, Value input) {
  Value size = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), builder.sizesOf(input).back());
  Value integer = arith::IndexCastOp::create(builder, builder.getI64Type(), size);
  return arith::SIToFPOp::create(builder, builder.getF32Type(), integer);
}

Value buildReference(ReferenceBuilder &builder, nn::LayerNormOp op) {
  Value input = op.getInput();
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  ArrayRef<OpFoldResult> outer = ArrayRef(sizes).drop_back();
  AffineMap all = builder.identity(rank), row = builder.leading(rank, rank - 1),
            feature = builder.map(rank, {rank - 1});
  Value features = buildRowSize(builder, input);
  Value sum = builder.reduce(outer, 1, 0.0f, {{input, all}},
                             [](ScalarBuilder &b, ValueRange v) { return b.add(v[1], b.widen(v[0])); });
  auto centre = [&](ScalarBuilder &b, Value x, Value total) { return b.sub(b.widen(x), b.div(total, features)); };
  Value squares = builder.reduce(outer, 1, 0.0f, {{input, all}, {sum, row}}, [&](ScalarBuilder &b, ValueRange v) {
    Value centred = centre(b, v[0], v[1]);
    return b.add(v[2], b.mul(centred, centred));
  });
  SmallVector<std::pair<Value, AffineMap>> inputs = {
      {input, all}, {sum, row}, {squares, row}, {op.getScale(), feature}};
  if (op.getBias())
    inputs.push_back({op.getBias(), feature});
  Type element = elementOf(input);
  return builder.parallel(sizes, element, inputs, [&](ScalarBuilder &b, ValueRange v) {
    Value variance = b.add(b.div(v[2], features), b.f32(op.getEpsilon().convertToFloat()));
    Value scaled = b.mul(b.div(centre(b, v[0], v[1]), math::SqrtOp::create(b, variance)), b.widen(v[3]));
    return b.narrow(op.getBias() ? b.add(scaled, b.widen(v[4])) : scaled, element);
  });
}

Value buildReference(ReferenceBuilder &builder, nn::RmsNormOp op) {
  Value input = op.getInput();
  unsigned rank = rankOf(input);
  MixedSizes sizes = builder.sizesOf(input);
  AffineMap all = builder.identity(rank), row = builder.leading(rank, rank - 1),
            feature = builder.map(rank, {rank - 1});
  Value features = buildRowSize(builder, input);
  Value squares =
      builder.reduce(ArrayRef(sizes).drop_back(), 1, 0.0f, {{input, all}}, [](ScalarBuilder &b, ValueRange v) {
        Value x = b.widen(v[0]);
        return b.add(v[1], b.mul(x, x));
      });
  Type element = elementOf(input);
  return builder.parallel(sizes, element, {{input, all}, {squares, row}, {op.getScale(), feature}},
                          [&](ScalarBuilder &b, ValueRange v) {
                            Value mean = b.add(b.div(v[1], features), b.f32(op.getEpsilon().convertToFloat()));
                            Value normal = b.div(b.widen(v[0]), math::SqrtOp::create(b, mean));
                            return b.narrow(b.mul(normal, b.widen(v[2])), element);
                          });
}

//===-- Elementwise -------------------------------------------------------------------------------------------===//

Value buildScalar(ScalarBuilder &b, nn::GeluOp op, Value x) {
  if (op.getForm() == nn::GeluForm::Erf)
    return b.mul(b.mul(x, b.f32(0.5f)), b.add(b.f32(1), math::ErfOp::create(b, b.mul(x, b.f32(0.70710678f)))));
  // sqrt(2 / pi)
  Value cubic = b.add(x, b.mul(b.f32(0.044715f), b.mul(x, b.mul(x, x))));
  return b.mul(b.mul(x, b.f32(0.5f)), b.add(b.f32(1), math::TanhOp::create(b, b.mul(b.f32(0.79788456f), cubic))));
}
Value buildScalar(ScalarBuilder &b, nn::SigmoidOp, Value x) {
  return b.div(b.f32(1), b.add(b.f32(1), b.exp(arith::NegFOp::create(b, x))));
}
Value buildScalar(ScalarBuilder &b, nn::SiluOp, Value x) {
  return b.div(x, b.add(b.f32(1), b.exp(arith::NegFOp::create(b, x))));
}
Value buildScalar(ScalarBuilder &b, nn::ReluOp, Value x) { return b.max(x, b.f32(0)); }
Value buildScalar(ScalarBuilder &b, nn::TanhOp, Value x) { return math::TanhOp::create(b, x); }

template <typename Op> Value buildElementwise(ReferenceBuilder &builder, Op op) {
  Type element = elementOf(op.getInput());
  return builder.parallel(
      builder.sizesOf(op.getInput()), element, {{op.getInput(), builder.identity(rankOf(op.getInput()))}},
      [&](ScalarBuilder &b, ValueRange v) { return b.narrow(buildScalar(b, op, b.widen(v[0])), element); });
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
        // The pair of a feature beyond the rotated ones is not used, but it is read: any place inside will do.
        Value inside = b.select(isRotated, feature, b.index(0));
        Value step = b.index(op.getInterleaved() ? 1 : half);
        Value parity = op.getInterleaved() ? arith::RemUIOp::create(b, inside, b.index(2)).getResult()
                                           : arith::DivUIOp::create(b, inside, b.index(half)).getResult();
        Value pair = op.getInterleaved() ? arith::DivUIOp::create(b, inside, b.index(2)).getResult()
                                         : arith::RemUIOp::create(b, inside, b.index(half)).getResult();
        Value isFirst = isLess(parity, b.index(1));
        indices.back() =
            b.select(isFirst, arith::AddIOp::create(b, inside, step), arith::SubIOp::create(b, inside, step));
        Value partner = b.widen(tensor::ExtractOp::create(b, op.getInput(), indices));
        Value frequency = b.widen(tensor::ExtractOp::create(b, op.getFrequencies(), pair));
        Value angle = b.mul(arith::SIToFPOp::create(b, b.getF32Type(), v[1]), frequency);
        Value cosine = b.mul(math::CosOp::create(b, angle), b.f32(factor));
        Value sine = b.mul(math::SinOp::create(b, angle), b.f32(factor));
        Value across = b.mul(partner, sine), along = b.mul(b.widen(v[0]), cosine);
        Value rotated = b.narrow(b.select(isFirst, b.sub(along, across), b.add(along, across)), element);
        return b.select(isRotated, rotated, v[0]);
      });
}

//===-- The pass -----------------------------------------------------------------------------------------------===//

/// Replaces the op; results whose static sizes are declared differently from what was built are cast.
void replace(IRRewriter &rewriter, Operation *op, ValueRange values) {
  SmallVector<Value> results;
  for (auto [value, result] : llvm::zip_equal(values, op->getResults()))
    results.push_back(value.getType() == result.getType()
                          ? value
                          : tensor::CastOp::create(rewriter, op->getLoc(), result.getType(), value).getResult());
  rewriter.replaceOp(op, results);
}

void inlineGroup(IRRewriter &rewriter, nn::GroupOp group) {
  auto yield = cast<nn::YieldOp>(group.getBodyBlock().getTerminator());
  rewriter.inlineBlockBefore(&group.getBodyBlock(), group, group.getInputs());
  SmallVector<Value> values(yield.getValues());
  rewriter.eraseOp(yield);
  rewriter.replaceOp(group, values);
}

struct LowerNnToReference : impl::LowerNnToReferenceBase<LowerNnToReference> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<nn::GroupOp> groups;
    getOperation()->walk([&](nn::GroupOp group) { groups.push_back(group); });
    for (nn::GroupOp group : groups)
      inlineGroup(rewriter, group);

    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<nn::NnDialect>(op->getDialect()))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      rewriter.setInsertionPoint(op);
      ReferenceBuilder builder(op->getLoc(), rewriter);
      llvm::TypeSwitch<Operation *>(op)
          .Case<nn::LinearOp, nn::MatmulOp, nn::AttentionOp, nn::LayerNormOp, nn::RmsNormOp, nn::SoftmaxOp, nn::GeluOp,
                nn::SiluOp, nn::ReluOp, nn::TanhOp, nn::SigmoidOp, nn::EmbeddingOp, nn::RopeOp, nn::DequantizeOp,
                nn::ExpertsOp, nn::DequantizeBlocksOp, nn::CacheAppendOp, nn::TailAppendOp, nn::CachedAttentionOp>(
              [&](auto tensorOp) { replace(rewriter, op, buildReference(builder, tensorOp)); })
          .Case<nn::QuantizeOp, nn::RouteOp, nn::CacheAppendQuantizedOp>(
              [&](auto tensorOp) { replace(rewriter, op, buildReference(builder, tensorOp)); })
          .Case<nn::ArchiveOp, nn::WeightOp>([](Operation *) {})
          .Default([&](Operation *) {
            op->emitOpError("has no reference lowering; lower-nn-to-reference must learn it");
            signalPassFailure();
          });
    }
  }
};
} // namespace
} // namespace intarsia::lower
