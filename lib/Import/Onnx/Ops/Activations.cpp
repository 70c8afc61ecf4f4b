//===- Activations.cpp - Activations and softmax ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: https://onnx.ai/onnx/operators.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Scalars.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

Value add(Scalars &s, Value x, Value y) { return arith::AddFOp::create(s.builder, s.at, x, y); }
Value subtract(Scalars &s, Value x, Value y) { return arith::SubFOp::create(s.builder, s.at, x, y); }
Value multiply(Scalars &s, Value x, Value y) { return arith::MulFOp::create(s.builder, s.at, x, y); }
Value divide(Scalars &s, Value x, Value y) { return arith::DivFOp::create(s.builder, s.at, x, y); }
Value larger(Scalars &s, Value x, Value y) { return arith::MaximumFOp::create(s.builder, s.at, x, y); }
Value smaller(Scalars &s, Value x, Value y) { return arith::MinimumFOp::create(s.builder, s.at, x, y); }
Value exponential(Scalars &s, Value x) { return s.inSingle<math::ExpOp>(x); }
Value isAbove(Scalars &s, Value x, Value y) {
  return arith::CmpFOp::create(s.builder, s.at, arith::CmpFPredicate::OGT, x, y);
}
Value isBelow(Scalars &s, Value x, Value y) {
  return arith::CmpFOp::create(s.builder, s.at, arith::CmpFPredicate::OLT, x, y);
}
Value choose(Scalars &s, Value condition, Value x, Value y) {
  return arith::SelectOp::create(s.builder, s.at, condition, x, y);
}

template <typename Compute> void activate(NodeContext &node, Compute compute) {
  Value x = node.tensor(0);
  if (!isFloat(node.typeOf(0)))
    return node.refuse("elements are of type " + nameOf(node.typeOf(0)) + ", must be floats");
  if (!node.isRefused())
    node.result(unary(node, x, node.typeOf(0), compute));
}

template <importer::Activation activation> bool byName(NodeContext &node) {
  if (!isComputedByNn(node.typeOf(0)))
    return false;
  Value x = node.tensor(0);
  if (node.isRefused())
    return true;
  Shape shape = node.graph.shapeOf(node.at, x);
  Value result = node.ir().activation(node.at, x, activation);
  node.graph.setShape(result, shape);
  node.result(result);
  return true;
}

void relu(NodeContext &node) {
  if (byName<importer::Activation::Relu>(node))
    return;
  if (isInteger(node.typeOf(0))) {
    Value x = node.tensor(0);
    return node.result(unary(node, x, node.typeOf(0), [](Scalars &s, Value v) -> Value {
      return arith::MaxSIOp::create(s.builder, s.at, v, s.number(0));
    }));
  }
  activate(node, [](Scalars &s, Value x) { return larger(s, x, s.number(0)); });
}

Value sigmoidOf(Scalars &s, Value x) {
  Value negative = arith::NegFOp::create(s.builder, s.at, x);
  return divide(s, s.number(1), add(s, s.number(1), exponential(s, negative)));
}

void sigmoid(NodeContext &node) {
  if (!byName<importer::Activation::Sigmoid>(node))
    activate(node, sigmoidOf);
}

void tanh(NodeContext &node) {
  if (!byName<importer::Activation::Tanh>(node))
    activate(node, [](Scalars &s, Value x) { return s.inSingle<math::TanhOp>(x); });
}

void gelu(NodeContext &node) {
  llvm::StringRef form = node.text("approximate", "none");
  if (form != "none" && form != "tanh")
    return node.refuse("attribute 'approximate' is '" + form + "', must be none or tanh");
  bool isBuilt =
      form == "none" ? byName<importer::Activation::GeluErf>(node) : byName<importer::Activation::GeluTanh>(node);
  if (!isBuilt)
    node.refuse("elements are of type " + nameOf(node.typeOf(0)));
}

void leakyRelu(NodeContext &node) {
  double alpha = node.number("alpha", 0.01f);
  activate(node, [&](Scalars &s, Value x) {
    return choose(s, isBelow(s, x, s.number(0)), multiply(s, x, s.number(alpha)), x);
  });
}

void thresholdedRelu(NodeContext &node) {
  double alpha = node.number("alpha", 1);
  activate(node, [&](Scalars &s, Value x) { return choose(s, isAbove(s, x, s.number(alpha)), x, s.number(0)); });
}

/// Builds x above 0, and scale * (exp(x / divisor) - 1) below.
void exponentialBelow(NodeContext &node, double above, double scale, double divisor) {
  activate(node, [&](Scalars &s, Value x) {
    Value divided = divisor == 1 ? x : divide(s, x, s.number(divisor));
    Value grown = s.inSingle<math::ExpM1Op>(divided);
    Value scaled = multiply(s, grown, s.number(scale));
    Value kept = above == 1 ? x : multiply(s, x, s.number(above));
    return choose(s, isBelow(s, x, s.number(0)), scaled, kept);
  });
}

void elu(NodeContext &node) { exponentialBelow(node, 1, node.number("alpha", 1), 1); }

void selu(NodeContext &node) {
  double alpha = node.number("alpha", 1.67326319217681884765625f),
         gamma = node.number("gamma", 1.05070102214813232421875f);
  exponentialBelow(node, gamma, gamma * alpha, 1);
}

void celu(NodeContext &node) {
  double alpha = node.number("alpha", 1);
  exponentialBelow(node, 1, alpha, alpha);
}

/// max(0, min(1, alpha * x + beta))
Value hardSigmoidOf(Scalars &s, Value x, double alpha, double beta) {
  Value line = add(s, multiply(s, x, s.number(alpha)), s.number(beta));
  return larger(s, s.number(0), smaller(s, s.number(1), line));
}

void hardSigmoid(NodeContext &node) {
  double alpha = node.number("alpha", 0.2f), beta = node.number("beta", 0.5);
  activate(node, [&](Scalars &s, Value x) { return hardSigmoidOf(s, x, alpha, beta); });
}

void hardSwish(NodeContext &node) {
  activate(node, [](Scalars &s, Value x) { return multiply(s, x, hardSigmoidOf(s, x, 1.0 / 6, 0.5)); });
}

/// log(1 + exp(x)), without what exp cannot hold: max(x, 0) + log1p(exp(-|x|)).
Value softplusOf(Scalars &s, Value x) {
  Value size = math::AbsFOp::create(s.builder, s.at, x);
  Value small = exponential(s, arith::NegFOp::create(s.builder, s.at, size));
  return add(s, larger(s, x, s.number(0)), s.inSingle<math::Log1pOp>(small));
}

void softplus(NodeContext &node) { activate(node, softplusOf); }

void softsign(NodeContext &node) {
  activate(node, [](Scalars &s, Value x) {
    Value size = math::AbsFOp::create(s.builder, s.at, x);
    return divide(s, x, add(s, s.number(1), size));
  });
}

void mish(NodeContext &node) {
  activate(node, [](Scalars &s, Value x) { return multiply(s, x, s.inSingle<math::TanhOp>(softplusOf(s, x))); });
}

void swish(NodeContext &node) {
  double alpha = node.number("alpha", 1);
  if (alpha == 1 && byName<importer::Activation::Silu>(node))
    return;
  activate(node, [&](Scalars &s, Value x) { return multiply(s, x, sigmoidOf(s, multiply(s, x, s.number(alpha)))); });
}

void shrink(NodeContext &node) {
  double bias = node.number("bias", 0), lambda = node.number("lambd", 0.5);
  Value x = node.tensor(0);
  if (node.isRefused() || !node.isOf(0, isNumber, "numbers"))
    return;
  // Integers are compared and moved as numbers that need not be whole.
  DataType type = node.typeOf(0), computed = isFloat(type) ? type : DataType::Double;
  Value result = unary(node, node.cast(x, type, computed), computed, [&](Scalars &s, Value v) {
    Value below = choose(s, isBelow(s, v, s.number(-lambda)), add(s, v, s.number(bias)), s.number(0));
    return choose(s, isAbove(s, v, s.number(lambda)), subtract(s, v, s.number(bias)), below);
  });
  node.result(node.cast(result, computed, type));
}

void pRelu(NodeContext &node) {
  Value x = node.tensor(0), slope = node.tensor(1);
  if (node.isRefused() || !node.isOf(0, isNumber, "numbers") || !node.areOneType({0, 1}))
    return;
  DataType type = node.typeOf(0);
  // Before version 7 a vector has a number for each channel.
  int64_t behind = tensorType(x).getRank() - 2;
  if (node.version < 7 && behind > 0 && tensorType(slope).getRank() == 1 && tensorType(slope).getDimSize(0) != 1) {
    Shape shape = node.graph.shapeOf(node.at, slope);
    shape.append(behind, Size(1));
    slope = node.reshaped(slope, shape);
  }
  if (!node.isBroadcastTo(slope, node.graph.shapeOf(node.at, x), "slope"))
    return;
  node.result(combine(node, {x, slope}, type, [](Scalars &s, Value v, Value by) -> Value {
    if (isUnsigned(s.type))
      return v;
    if (isFloat(s.type))
      return choose(s, isBelow(s, v, s.number(0)), multiply(s, v, by), v);
    Value isNegative = arith::CmpIOp::create(s.builder, s.at, arith::CmpIPredicate::slt, v, s.number(0));
    return choose(s, isNegative, arith::MulIOp::create(s.builder, s.at, v, by), v);
  }));
}

//===-- Softmax -----------------------------------------------------------------------------------------------===//

/// Builds a function of rows, along the last dimension: `rows(tensor)`. Before version 13 all dimensions from the axis
/// on are one row. With `inSingle` rows of f64 are computed in f32.
template <typename Rows> void alongAxis(NodeContext &node, bool inSingle, Rows rows) {
  Value x = node.tensor(0);
  DataType type = node.typeOf(0);
  if (!isFloat(type))
    node.refuse("elements are of type " + nameOf(type) + ", must be floats");
  DataType computed = inSingle && type == DataType::Double ? DataType::Float : type;
  x = node.cast(x, type, computed);
  auto finish = [&](Value value) { node.result(node.cast(value, computed, type)); };
  Shape shape = node.graph.shapeOf(node.at, x);
  auto rank = int64_t(shape.size());
  int64_t axis = rank == 0 ? 0 : node.axis(node.integer("axis", node.version >= 13 ? -1 : 1), rank);
  if (node.isRefused())
    return;
  auto shaped = [&](Value value, const Shape &sizes) {
    node.graph.setShape(value, sizes);
    return value;
  };
  if (node.version < 13 || rank == 0) {
    Shape flat(shape.begin(), shape.begin() + axis);
    flat.push_back(node.product(llvm::ArrayRef(shape).drop_front(axis)));
    Value result = shaped(rows(node.reshaped(x, flat)), flat);
    return finish(node.reshaped(result, shape));
  }
  llvm::SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[axis], permutation[rank - 1]);
  Value turned = node.transposed(x, permutation);
  Shape sizes = node.graph.shapeOf(node.at, turned);
  finish(node.transposed(shaped(rows(turned), sizes), permutation));
}

void softmax(NodeContext &node) {
  alongAxis(node, /*inSingle=*/true,
            [&](Value x) -> Value { return nn::SoftmaxOp::create(node.ops(), node.at, x.getType(), x); });
}

/// 1 for the first of the largest elements of a row, and 0 for the others.
void hardmax(NodeContext &node) {
  alongAxis(node, /*inSingle=*/false, [&](Value x) -> Value {
    Shape shape = node.graph.shapeOf(node.at, x);
    auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
    llvm::SmallVector<unsigned, 4> kept(all.begin(), all.end() - 1);
    unsigned last = shape.size() - 1;
    Type element = tensorType(x).getElementType();
    auto smallest = node.ops().getFloatAttr(element, -std::numeric_limits<double>::infinity());
    Value largest = node.ir().reduce(node.at, smallest, shape, kept, {{x, all}},
                                     [](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                       return arith::MaximumFOp::create(b, loc, v[0], v[1]);
                                     });
    auto none = node.ops().getI64IntegerAttr(std::numeric_limits<int64_t>::max());
    auto position = [&](OpBuilder &b, Location loc) -> Value {
      return arith::IndexCastOp::create(b, loc, b.getI64Type(), linalg::IndexOp::create(b, loc, last));
    };
    Value first = node.ir().reduce(node.at, none, shape, kept, {{x, all}, {largest, kept}},
                                   [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                     Value isIt = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UEQ, v[0], v[1]);
                                     Value other = arith::ConstantOp::create(b, loc, none);
                                     Value candidate = arith::SelectOp::create(b, loc, isIt, position(b, loc), other);
                                     return arith::MinSIOp::create(b, loc, candidate, v[2]);
                                   });
    return node.ir().elementwise(
        node.at, element, shape, {{first, kept}}, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
          Value isIt = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, v[0], position(b, loc));
          Value one = importer::floatConstant(b, loc, element, 1);
          Value zero = importer::floatConstant(b, loc, element, 0);
          return arith::SelectOp::create(b, loc, isIt, one, zero);
        });
  });
}

/// x - max - log(sum(exp(x - max)))
void logSoftmax(NodeContext &node) {
  alongAxis(node, /*inSingle=*/true, [&](Value x) -> Value {
    Shape shape = node.graph.shapeOf(node.at, x);
    auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
    llvm::SmallVector<unsigned, 4> kept(all.begin(), all.end() - 1);
    Type f32 = node.ops().getF32Type(), element = tensorType(x).getElementType();
    auto smallest = node.ops().getF32FloatAttr(-std::numeric_limits<float>::infinity());
    Value largest = node.ir().reduce(
        node.at, smallest, shape, kept, {{x, all}}, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
          return arith::MaximumFOp::create(b, loc, importer::widened(b, loc, v[0], f32), v[1]);
        });
    Value sum = node.ir().reduce(node.at, node.ops().getF32FloatAttr(0), shape, kept, {{x, all}, {largest, kept}},
                                 [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                   Value wide = importer::widened(b, loc, v[0], f32);
                                   Value moved = arith::SubFOp::create(b, loc, wide, v[1]);
                                   return arith::AddFOp::create(b, loc, math::ExpOp::create(b, loc, moved), v[2]);
                                 });
    return node.ir().elementwise(
        node.at, element, shape, {{x, all}, {largest, kept}, {sum, kept}},
        [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
          Value wide = importer::widened(b, loc, v[0], f32);
          Value moved = arith::SubFOp::create(b, loc, wide, v[1]);
          Value result = arith::SubFOp::create(b, loc, moved, math::LogOp::create(b, loc, v[2]));
          return element == f32 ? result : Value(arith::TruncFOp::create(b, loc, element, result));
        });
  });
}

} // namespace

llvm::ArrayRef<OpRow> activationOps() {
  static const OpRow rows[] = {
      {"", "Relu", 6, relu},
      {"", "Sigmoid", 6, sigmoid},
      {"", "Tanh", 6, tanh},
      {"", "Gelu", 20, gelu, Takes::Numbers, /*inSingle=*/true},
      {"", "LeakyRelu", 6, leakyRelu},
      {"", "ThresholdedRelu", 10, thresholdedRelu},
      {"", "Elu", 6, elu},
      {"", "Selu", 6, selu},
      {"", "Celu", 12, celu},
      {"", "HardSigmoid", 6, hardSigmoid},
      {"", "HardSwish", 14, hardSwish},
      {"", "Softplus", 1, softplus},
      {"", "Softsign", 1, softsign},
      {"", "Mish", 18, mish},
      {"", "Swish", 24, swish},
      {"", "Shrink", 9, shrink},
      {"", "PRelu", 1, pRelu},
      {"", "Softmax", 1, softmax},
      {"", "LogSoftmax", 1, logSoftmax},
      {"", "Hardmax", 1, hardmax},
  };
  return rows;
}

} // namespace intarsia::onnx
