//===- MicrosoftExperts.cpp - Mixtures of experts of com.microsoft ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Experts whose activation
// nn.experts has become that op. Other experts are all computed for each token, and the results of those that it did
// not choose are left out of its sum.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"
#include "lib/Import/Onnx/Ops/MicrosoftBlocks.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Matrices [experts, outputs, inputs] and their biases [experts, outputs], in f32; null where there are none.
struct Layer {
  Value weight, bias;
};

/// Layers of all experts: the third is multiplied by the first, after its activation.
struct Experts {
  int64_t count = 0, hidden = 0, intermediate = 0;
  Layer first, second, third;
};

/// Which experts each token goes through, and with which weights: [tokens, k].
struct Routes {
  Value indices, weights;
};

std::optional<Routes> routesOf(NodeContext &node, Value logits, size_t routerWeights, int64_t experts) {
  int64_t count = node.integer("k", 1);
  bool normalizes = node.integer("normalize_routing_weights", 0) != 0;
  if (node.integer("use_sparse_mixer", 0) != 0)
    node.refuse("attribute 'use_sparse_mixer' must be 0");
  Shape shape = node.graph.shapeOf(node.at, logits);
  if (shape.size() != 2 || shape[1].isDynamic() || shape[1].value != experts)
    node.refuse("input 'router_probs' is not one number for each of " + llvm::Twine(experts) + " experts");
  if (count < 1 || count > experts)
    node.refuse("attribute 'k' is " + llvm::Twine(count) + ", of " + llvm::Twine(experts) + " experts");
  if (node.isRefused())
    return std::nullopt;
  OpBuilder &ops = node.ops();
  Shape chosen{shape[0], count};
  auto route = nn::RouteOp::create(ops, node.at, node.ir().tensorType(chosen, ops.getI32Type()),
                                   node.ir().tensorType(chosen, ops.getF32Type()), logits, ops.getI64IntegerAttr(count),
                                   normalizes && !node.has(routerWeights) ? ops.getUnitAttr() : UnitAttr());
  Routes routes{route.getIndices(), route.getWeights()};
  node.graph.setShape(routes.indices, chosen);
  node.graph.setShape(routes.weights, chosen);
  if (!node.has(routerWeights))
    return routes;
  Value given = node.cast(node.tensor(routerWeights), node.typeOf(routerWeights), DataType::Float);
  if (tensorType(given).getRank() != 2 || tensorType(given).getDimSize(1) != experts) {
    node.refuse("input 'router_weights' is not one number for each expert");
    return std::nullopt;
  }
  routes.weights = node.ir().elementwise(node.at, ops.getF32Type(), chosen, {{routes.indices, {0, 1}}},
                                         [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                                           Value expert = arith::IndexCastOp::create(b, at, b.getIndexType(), v[0]);
                                           return tensor::ExtractOp::create(
                                               b, at, given, ValueRange{linalg::IndexOp::create(b, at, 0), expert});
                                         });
  node.graph.setShape(routes.weights, chosen);
  if (normalizes) {
    Value sum = node.ir().reduce(
        node.at, ops.getF32FloatAttr(0), chosen, {0}, {{routes.weights, {0, 1}}},
        [](OpBuilder &b, Location at, ValueRange v) -> Value { return arith::AddFOp::create(b, at, v[0], v[1]); });
    node.graph.setShape(sum, {shape[0]});
    routes.weights =
        combine(node, {routes.weights, node.reshaped(sum, {shape[0], 1})}, DataType::Float,
                [](Scalars &s, Value x, Value y) -> Value { return arith::DivFOp::create(s.builder, s.at, x, y); });
  }
  return routes;
}

/// Returns rows of gates and of what they gate as [experts, 2, intermediate, …].
Value gatesFirst(NodeContext &node, Value fused, bool isInterleaved) {
  Shape shape = node.graph.shapeOf(node.at, fused), split(shape);
  int64_t size = shape[1].value / 2;
  split[1] = isInterleaved ? size : 2;
  split.insert(split.begin() + 2, isInterleaved ? 2 : size);
  Value result = node.reshaped(fused, split);
  if (!isInterleaved)
    return result;
  llvm::SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, split.size()));
  std::swap(permutation[1], permutation[2]);
  return node.transposed(result, permutation);
}

/// What follows the first layer.
struct Activation {
  llvm::StringRef name;
  int64_t fusion = 0;
  double alpha = 1, beta = 0;
  std::optional<double> limit;

  bool isSwiGlu() const { return name == "swiglu"; }
};

Activation activationOf(NodeContext &node) {
  Activation activation{node.text("activation_type", "relu"), node.integer("swiglu_fusion", 0),
                        node.number("activation_alpha", 1), node.number("activation_beta", 0), std::nullopt};
  if (node.hasAttribute("swiglu_limit"))
    activation.limit = node.number("swiglu_limit", 0);
  if (activation.isSwiGlu() && (activation.fusion < 0 || activation.fusion > 2))
    node.refuse("attribute 'swiglu_fusion' is " + llvm::Twine(activation.fusion) + ", must be 0, 1 or 2");
  if (activation.limit && !(*activation.limit > 0))
    node.refuse("attribute 'swiglu_limit' must be above 0");
  return activation;
}

/// Returns the gate's activation times what it gates.
Value gated(NodeContext &node, Value gate, Value linear, const Activation &activation) {
  return combine(node, {gate, linear}, DataType::Float, [&](Scalars &s, Value g, Value l) -> Value {
    if (activation.limit) {
      Value most = s.number(*activation.limit), least = s.number(-*activation.limit);
      g = smallest(s, g, most);
      l = smallest(s, largest(s, l, least), most);
    }
    Value negative = arith::MulFOp::create(s.builder, s.at, g, s.number(-activation.alpha));
    Value sum = arith::AddFOp::create(s.builder, s.at, s.number(1), math::ExpOp::create(s.builder, s.at, negative));
    Value opened = arith::DivFOp::create(s.builder, s.at, g, sum);
    Value moved = arith::AddFOp::create(s.builder, s.at, l, s.number(activation.beta));
    return arith::MulFOp::create(s.builder, s.at, opened, moved);
  });
}

/// Computes all experts for all tokens, and sums those that are chosen.
Value dense(NodeContext &node, Value rows, const Routes &routes, const Experts &experts, const Activation &activation) {
  OpBuilder &ops = node.ops();
  Type f32 = ops.getF32Type();
  Shape ofRows = node.graph.shapeOf(node.at, rows), ofRoutes = node.graph.shapeOf(node.at, routes.indices);
  const Size tokens = ofRows[0], count = experts.count;
  auto multiplied = [&](Value input, const Layer &layer) -> Value {
    int64_t outputs = tensorType(layer.weight).getDimSize(1);
    Shape shape{count, tokens, outputs};
    Value product = nn::MatmulOp::create(ops, node.at, node.ir().tensorType(shape, f32), input, layer.weight,
                                         UnitAttr(), ops.getUnitAttr(), TypeAttr());
    node.graph.setShape(product, shape);
    return layer.bias ? sumOf(node, {product, node.reshaped(layer.bias, {count, 1, outputs})}, DataType::Float)
                      : product;
  };
  Value all = node.broadcastTo(rows, {count, tokens, experts.hidden});
  Value first = multiplied(all, experts.first), result;
  if (activation.isSwiGlu() && !experts.third.weight) {
    int64_t size = experts.intermediate;
    auto half = [&](int64_t which) {
      return activation.fusion == 1 ? node.sliced(first, 2, which, size, 2) : node.sliced(first, 2, which * size, size);
    };
    result = gated(node, half(0), half(1), activation);
  } else if (activation.isSwiGlu()) {
    result = gated(node, first, multiplied(all, experts.third), activation);
  } else {
    if (activation.name == "relu")
      result = activated(node, first, DataType::Float, "Relu", {});
    else if (activation.name == "gelu")
      result = Part(node, "Gelu").with(first, DataType::Float).set("approximate", "tanh").build();
    else if (activation.name == "silu")
      result = Part(node, "Swish").with(first, DataType::Float).build();
    else if (activation.name == "identity")
      result = first;
    else
      node.refuse("attribute 'activation_type' is '" + activation.name +
                  "', must be relu, gelu, silu, swiglu or identity");
    if (!result || node.isRefused())
      return {};
    if (experts.third.weight)
      result = productOf(node, result, multiplied(all, experts.third), DataType::Float);
  }
  result = multiplied(result, experts.second);
  // The weight of each expert for each token, 0 of those that it did not choose.
  Value shares = node.ir().reduce(node.at, ops.getF32FloatAttr(0), {count, tokens, ofRoutes[1]}, {0, 1},
                                  {{routes.indices, {1, 2}}, {routes.weights, {1, 2}}},
                                  [](OpBuilder &b, Location at, ValueRange v) -> Value {
                                    Value expert = linalg::IndexOp::create(b, at, 0);
                                    Value number = arith::IndexCastOp::create(b, at, b.getI32Type(), expert);
                                    Value isIt = arith::CmpIOp::create(b, at, arith::CmpIPredicate::eq, number, v[0]);
                                    Value zero = importer::floatConstant(b, at, b.getF32Type(), 0);
                                    Value share = arith::SelectOp::create(b, at, isIt, v[1], zero);
                                    return arith::AddFOp::create(b, at, share, v[2]);
                                  });
  node.graph.setShape(shares, {count, tokens});
  Value sum =
      node.ir().reduce(node.at, ops.getF32FloatAttr(0), {count, tokens, experts.hidden}, {1, 2},
                       {{result, {0, 1, 2}}, {shares, {0, 1}}}, [](OpBuilder &b, Location at, ValueRange v) -> Value {
                         // An expert that was not chosen may be infinite.
                         Value zero = importer::floatConstant(b, at, b.getF32Type(), 0);
                         Value isNone = arith::CmpFOp::create(b, at, arith::CmpFPredicate::OEQ, v[1], zero);
                         Value share = arith::MulFOp::create(b, at, v[0], v[1]);
                         share = arith::SelectOp::create(b, at, isNone, zero, share);
                         return arith::AddFOp::create(b, at, share, v[2]);
                       });
  node.graph.setShape(sum, {tokens, experts.hidden});
  return sum;
}

/// Builds nn.experts, if it has this activation; null otherwise.
Value sparse(NodeContext &node, Value rows, const Routes &routes, const Experts &experts,
             const Activation &activation) {
  bool isFused = activation.isSwiGlu() && !experts.third.weight && activation.fusion != 0;
  bool isSilu = activation.alpha == 1 && activation.beta == 0 && !activation.limit;
  bool isClamped = activation.beta == 1 && activation.limit;
  if (!isFused || (!isSilu && !isClamped))
    return {};
  bool isInterleaved = activation.fusion == 1;
  Value gateUp = gatesFirst(node, experts.first.weight, isInterleaved);
  Value gateUpBias = experts.first.bias ? gatesFirst(node, experts.first.bias, isInterleaved) : Value();
  OpBuilder &ops = node.ops();
  auto kind = isSilu ? nn::GatedActivation::Silu : nn::GatedActivation::ClampedSwiglu;
  Shape shape = node.graph.shapeOf(node.at, rows);
  Value result = nn::ExpertsOp::create(
      ops, node.at, rows.getType(), rows, routes.indices, routes.weights, gateUp, experts.second.weight, gateUpBias,
      experts.second.bias, nn::GatedActivationAttr::get(node.graph.context(), kind),
      ops.getF32FloatAttr(activation.alpha), ops.getF32FloatAttr(activation.limit.value_or(7)), nn::BlockFormatAttr(),
      TypeAttr());
  node.graph.setShape(result, shape);
  return result;
}

/// Checks the sizes of layers; refuses what does not go together.
bool check(NodeContext &node, Experts &experts, const Size &hidden, const Activation &activation) {
  auto sizes = [&](const Layer &layer, int64_t outputs, int64_t inputs, llvm::StringRef name) {
    llvm::ArrayRef<int64_t> weight = tensorType(layer.weight).getShape();
    if (weight.size() != 3 || weight[0] != experts.count || weight[1] != outputs || weight[2] != inputs)
      node.refuse("the weight of '" + name + "' is not [" + llvm::Twine(experts.count) + ", " + llvm::Twine(outputs) +
                  ", " + llvm::Twine(inputs) + "]");
    if (layer.bias && (tensorType(layer.bias).getRank() != 2 || tensorType(layer.bias).getDimSize(0) != experts.count ||
                       tensorType(layer.bias).getDimSize(1) != outputs))
      node.refuse("the bias of '" + name + "' does not go with its weight");
  };
  int64_t factor = activation.isSwiGlu() && !experts.third.weight ? 2 : 1;
  if (factor == 2 && activation.fusion == 0)
    node.refuse("the third layer is missing, or attribute 'swiglu_fusion'");
  if (hidden.isDynamic() || hidden.value != experts.hidden || experts.count < 1 || experts.intermediate < 1)
    node.refuse("rows do not have " + llvm::Twine(experts.hidden) + " features");
  if (node.isRefused())
    return false;
  sizes(experts.first, factor * experts.intermediate, experts.hidden, "fc1");
  sizes(experts.second, experts.hidden, experts.intermediate, "fc2");
  if (experts.third.weight)
    sizes(experts.third, experts.intermediate, experts.hidden, "fc3");
  return !node.isRefused();
}

/// Builds experts from layers, and sets the result.
void build(NodeContext &node, Experts experts, size_t routerWeights) {
  DataType type = node.typeOf(0);
  Activation activation = activationOf(node);
  Shape shape = node.graph.shapeOf(node.at, node.tensor(0));
  if (node.isRefused() || (shape.size() != 2 && shape.size() != 3))
    return node.refuse("rows have " + llvm::Twine(shape.size()) + " dimensions, must have 2 or 3");
  if (!check(node, experts, shape.back(), activation))
    return;
  Shape flat{node.product(llvm::ArrayRef(shape).drop_back()), shape.back()};
  Value rows = node.reshaped(node.cast(node.tensor(0), type, DataType::Float), flat);
  Value logits = node.cast(node.tensor(1), node.typeOf(1), DataType::Float);
  std::optional<Routes> routes = routesOf(node, logits, routerWeights, experts.count);
  if (!routes)
    return;
  Value result = sparse(node, rows, *routes, experts, activation);
  if (!result)
    result = dense(node, rows, *routes, experts, activation);
  if (result && !node.isRefused())
    node.result(node.cast(node.reshaped(result, shape), DataType::Float, type));
}

/// Inputs: rows, logits of experts, then a weight and a bias of each layer.
void mixture(NodeContext &node) {
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2, 3, 4, 5, 6, 7}))
    return;
  DataType type = node.typeOf(0);
  auto tensor = [&](size_t input) {
    return node.has(input) ? node.cast(node.tensor(input), type, DataType::Float) : Value();
  };
  Experts experts;
  experts.first = {node.cast(node.tensor(2), type, DataType::Float), tensor(3)};
  experts.second = {node.cast(node.tensor(4), type, DataType::Float), tensor(5)};
  experts.third = {tensor(6), tensor(7)};
  auto second = tensorType(experts.second.weight);
  if (node.isRefused() || second.getRank() != 3 || !second.hasStaticShape())
    return node.refuse("weights are not [experts, outputs, inputs]");
  experts.count = second.getDimSize(0);
  experts.hidden = second.getDimSize(1);
  experts.intermediate = second.getDimSize(2);
  build(node, experts, std::numeric_limits<size_t>::max());
}

/// Inputs: rows, logits of experts, weight, scales and bias of each layer, zero points of each, and weights of experts
/// that are used in place of what the logits give.
void quantizedMixture(NodeContext &node) {
  if (!node.isComputed(0) || !node.areOneType({0, 1, 4, 7, 10, 14}))
    return;
  if (node.text("quant_type", "int") != "int")
    return node.refuse("attribute 'quant_type' is '" + node.text("quant_type", "int") + "', must be int");
  if (node.integer("weights_prepacked", -1) > 0)
    return node.refuse("attribute 'weights_prepacked' must be 0: other layouts are those of devices");
  int64_t block = node.integer("block_size", 0), bits = node.integer("expert_weight_bits", 4);
  auto layerOf = [&](size_t weight, size_t zeros, llvm::StringRef bitsName) -> Layer {
    Shape shape = node.shapeOf(weight);
    BlockMatrix matrix{0, 0, node.integer(bitsName, bits), std::max<int64_t>(block, 0)};
    if (!node.isOf(weight, isUint8, "uint8") || shape.size() != 3 || !isStatic(shape) || !node.has(weight + 1) ||
        !node.isComputed(weight + 1) || shape[0].value < 1 ||
        llvm::MulOverflow(shape[0].value, shape[1].value, matrix.outputs) || matrix.bits < 1 ||
        llvm::MulOverflow(shape[2].value, 8 / std::min<int64_t>(matrix.bits, 8), matrix.inputs)) {
      node.refuse("a weight is not [experts, outputs, bytes] with scales");
      return {};
    }
    if (node.has(zeros) && (!matrix.block || !node.isOf(zeros, isUint8, "uint8"))) {
      node.refuse("zero points need the attribute 'block_size'");
      return {};
    }
    if (!checkBlocks(node, matrix))
      return {};
    matrix.values = &node.input(weight);
    matrix.scales = &node.input(weight + 1);
    matrix.zeros = node.has(zeros) ? &node.input(zeros) : nullptr;
    if (matrix.block && matrix.inputs % matrix.block != 0) {
      node.refuse("blocks of " + llvm::Twine(matrix.block) + " do not divide " + llvm::Twine(matrix.inputs) +
                  " features");
      return {};
    }
    Value whole = blockMatrix(node, matrix);
    if (!whole)
      return {};
    Value bias = node.has(weight + 2) ? node.cast(node.tensor(weight + 2), node.typeOf(0), DataType::Float) : Value();
    return {node.reshaped(whole, {shape[0], shape[1], matrix.inputs}), bias};
  };
  Experts experts;
  experts.first = layerOf(2, 11, "fc1_expert_weight_bits");
  experts.second = node.isRefused() ? Layer() : layerOf(5, 12, "fc2_expert_weight_bits");
  if (node.has(8) && !node.isRefused())
    experts.third = layerOf(8, 13, "fc3_expert_weight_bits");
  if (node.isRefused())
    return;
  auto second = tensorType(experts.second.weight);
  experts.count = second.getDimSize(0);
  experts.hidden = second.getDimSize(1);
  experts.intermediate = second.getDimSize(2);
  build(node, experts, 14);
}

} // namespace

llvm::ArrayRef<OpRow> microsoftExpertOps() {
  static const OpRow rows[] = {
      {"com.microsoft", "MoE", 1, mixture},
      {"com.microsoft", "QMoE", 1, quantizedMixture},
  };
  return rows;
}

} // namespace intarsia::onnx
