//===- MixtureOfExperts.cpp - Feed-forward layers of which a router chooses some for each token -------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/MixtureOfExperts.h"

using namespace mlir;

namespace intarsia::importer {

MixtureOfExperts::MixtureOfExperts(const Config &config, ExpertStorage storage, Extent hidden)
    : storage(storage), hidden(hidden) {
  bool isQwen = storage == ExpertStorage::Qwen3Moe;
  // Models use either name.
  auto counted = [&](llvm::StringRef usual, llvm::StringRef other, int64_t byDefault) {
    return config.extent(config.spelling(usual, other), byDefault);
  };
  if (isQwen)
    experts = counted("num_experts", "num_local_experts", 128);
  else
    experts = counted("num_local_experts", "num_experts", storage == ExpertStorage::Mixtral ? 8 : 128);
  chosen = config.integer("num_experts_per_tok", isQwen ? 8 : storage == ExpertStorage::Mixtral ? 2 : 4);
  if (chosen > experts.size)
    config.report("num_experts_per_tok is " + llvm::Twine(chosen) + ", " + experts.setting + " is " +
                  llvm::Twine(experts.size));
  intermediate = isQwen ? config.extent("moe_intermediate_size", 768) : config.extent("intermediate_size", 14336);
  if (readActivation(config, "hidden_act", "silu") != Activation::Silu)
    config.refuse("hidden_act", config.string("hidden_act", "silu"), {"silu", "swish"});
  if (storage == ExpertStorage::GptOss) {
    alpha = config.number("swiglu_alpha", alpha, -1e9, 1e9);
    limit = config.number("swiglu_limit", limit, 1e-9, 1e9);
  }
  if (!isQwen)
    return;
  normalize = config.flag("norm_topk_prob", false);
  step = config.integer("decoder_sparse_step", 1);
  const llvm::json::Value *dense = config.find("mlp_only_layers");
  const llvm::json::Array *layers = dense ? dense->getAsArray() : nullptr;
  if (dense && !layers)
    config.report("mlp_only_layers is no list");
  for (const llvm::json::Value &layer : layers ? *layers : llvm::json::Array()) {
    if (std::optional<int64_t> number = layer.getAsInteger())
      denseLayers.push_back(*number);
    else
      config.report("mlp_only_layers is no list of numbers");
  }
}

bool MixtureOfExperts::isIn(int64_t layer) const {
  return (layer + 1) % step == 0 && !llvm::is_contained(denseLayers, layer);
}

/// Concatenates the matrices of the experts to one tensor: for each expert the matrices of all names. Returns null
/// after an error, so that a model with too many experts is not built.
Value MixtureOfExperts::weightOfEach(GraphBuilder &graph, llvm::ArrayRef<llvm::StringRef> names, Extent outputs,
                                     Extent inputs, const Shape &shape) const {
  llvm::SmallVector<Value> parts;
  for (int64_t expert = 0; expert < experts.size && !graph.sink().any(); ++expert) {
    GraphBuilder::Scope scope(graph, "experts." + llvm::Twine(expert));
    for (llvm::StringRef name : names)
      parts.push_back(graph.weight((name + ".weight").str(), {outputs, inputs}));
  }
  auto hasOtherType = [&](Value part) { return getElementTypeOrSelf(part) != getElementTypeOrSelf(parts.front()); };
  if (!graph.sink().any() && llvm::any_of(parts, hasOtherType))
    graph.sink().report("'" + cast<NameLoc>(graph.location("experts")).getName().getValue() +
                        "' have weights of several types, or some are quantized and others not: that is not supported; "
                        "store the experts of a layer in one type");
  if (graph.sink().any())
    return {};
  ReassociationIndices rows;
  for (int64_t dimension = 0; dimension + 1 < static_cast<int64_t>(shape.size()); ++dimension)
    rows.push_back(dimension);
  Value concatenated = parts.size() == 1 ? parts.front() : graph.concat(parts, "experts", 0);
  return graph.expandShape(concatenated, "experts", shape, {rows, {static_cast<int64_t>(shape.size()) - 1}});
}

/// Reads weights that are stored as one tensor for all experts (GGUF).
MixtureOfExperts::Weights MixtureOfExperts::concatenatedWeights(GraphBuilder &graph, llvm::StringRef gate,
                                                                llvm::StringRef up, llvm::StringRef down) const {
  bool hasBias = storage == ExpertStorage::GptOss;
  GraphBuilder::Scope scope(graph, "experts");
  /// Returns gate and up as [experts, 2, …].
  auto both = [&](llvm::StringRef suffix, llvm::ArrayRef<Extent> shape) -> Value {
    Value parts[] = {graph.weight((gate + suffix).str(), shape), graph.weight((up + suffix).str(), shape)};
    auto typeOf = [](Value value) { return getElementTypeOrSelf(value.getType()); };
    if (!graph.sink().any() && typeOf(parts[0]) != typeOf(parts[1]))
      graph.sink().report("the experts' " + gate.str() + suffix.str() + " and " + up.str() + suffix.str() +
                          " have elements of two types, or one of them is stored in blocks: that is not supported; "
                          "convert the model again with one type for both");
    if (graph.sink().any())
      return {};
    llvm::StringRef name = "experts";
    Value concatenated = graph.concat(parts, name, 0);
    int64_t rank = shape.size();
    Shape apart{2}, result{experts.size, 2};
    llvm::SmallVector<ReassociationIndices> groups{{0, 1}};
    llvm::SmallVector<int64_t> order{1, 0};
    for (const Extent &extent : shape)
      apart.push_back(extent.size);
    for (int64_t dimension = 1; dimension < rank; ++dimension) {
      result.push_back(shape[dimension].size);
      groups.push_back({dimension + 1});
      order.push_back(dimension + 1);
    }
    return graph.transpose(graph.expandShape(concatenated, name, apart, groups), name, result, order);
  };
  Weights weights;
  weights.gateUp = both(".weight", {experts, intermediate, hidden});
  weights.down = graph.weight((down + ".weight").str(), {experts, hidden, intermediate});
  if (!hasBias)
    return weights;
  weights.gateUpBias = both(".bias", {experts, intermediate});
  weights.downBias = graph.weight((down + ".bias").str(), {experts, hidden});
  return weights;
}

/// Reads the weights of gpt-oss: gate and up are the even and odd columns of transposed matrices.
MixtureOfExperts::Weights MixtureOfExperts::gptOssWeights(GraphBuilder &graph) const {
  Weights weights;
  int64_t count = experts.size, inner = intermediate.size;
  GraphBuilder::Scope scope(graph, "experts");
  Extent both(2 * inner, intermediate.setting);
  Shape gateUpShape = {count, 2, inner, hidden.size};
  if (graph.hasWeight("gate_up_proj_blocks")) {
    // MXFP4 weights are stored by rows: even rows are gate, odd rows are up.
    Value rows = graph.mxfp4Weight("gate_up_proj", {experts, both, hidden});
    rows = graph.expandShape(rows, "gate_up_proj", {count, inner, 2, hidden.size}, {{0}, {1, 2}, {3}});
    weights.gateUp = graph.transpose(rows, "gate_up_proj", gateUpShape, {0, 2, 1, 3});
    weights.down = graph.mxfp4Weight("down_proj", {experts, hidden, intermediate});
  } else {
    Value columns = graph.weight("gate_up_proj", {experts, hidden, both});
    columns = graph.expandShape(columns, "gate_up_proj", {count, hidden.size, inner, 2}, {{0}, {1}, {2, 3}});
    weights.gateUp = graph.transpose(columns, "gate_up_proj", gateUpShape, {0, 3, 2, 1});
    weights.down = graph.transpose(graph.weight("down_proj", {experts, intermediate, hidden}), "down_proj",
                                   {count, hidden.size, inner}, {0, 2, 1});
  }
  Value bias = graph.weight("gate_up_proj_bias", {experts, both});
  bias = graph.expandShape(bias, "gate_up_proj_bias", {count, inner, 2}, {{0}, {1, 2}});
  weights.gateUpBias = graph.transpose(bias, "gate_up_proj_bias", {count, 2, inner}, {0, 2, 1});
  weights.downBias = graph.weight("down_proj_bias", {experts, hidden});
  return weights;
}

Value MixtureOfExperts::build(GraphBuilder &graph, Value input) const {
  OpBuilder &builder = graph.getBuilder();
  bool isGptOss = storage == ExpertStorage::GptOss, isMixtral = storage == ExpertStorage::Mixtral;
  GraphBuilder::Scope scope(graph, isMixtral ? "block_sparse_moe" : "mlp");
  llvm::StringRef router = isGptOss ? "router" : "gate";
  Value logits = graph.linear(input, router, experts, hidden, /*bias=*/isGptOss);
  auto route = nn::RouteOp::create(builder, graph.location(router), logits, builder.getI64IntegerAttr(chosen),
                                   normalize ? builder.getUnitAttr() : UnitAttr());

  llvm::StringRef gateAndUp[] = {isMixtral ? "w1" : "gate_proj", isMixtral ? "w3" : "up_proj"};
  llvm::StringRef down = isMixtral ? "w2" : "down_proj";
  Weights weights;
  if (graph.hasWeight(("experts." + gateAndUp[0] + ".weight").str())) {
    weights = concatenatedWeights(graph, gateAndUp[0], gateAndUp[1], down);
  } else if (isGptOss) {
    weights = gptOssWeights(graph);
  } else {
    int64_t count = experts.size, inner = intermediate.size;
    weights.gateUp = weightOfEach(graph, gateAndUp, intermediate, hidden, {count, 2, inner, hidden.size});
    if (weights.gateUp)
      weights.down = weightOfEach(graph, down, hidden, intermediate, {count, hidden.size, inner});
  }
  if (graph.sink().any())
    return input;
  auto activation = isGptOss ? nn::GatedActivation::ClampedSwiglu : nn::GatedActivation::Silu;
  return nn::ExpertsOp::create(builder, graph.location("experts"), input.getType(), input, route.getIndices(),
                               route.getWeights(), weights.gateUp, weights.down, weights.gateUpBias, weights.downBias,
                               nn::GatedActivationAttr::get(builder.getContext(), activation),
                               builder.getF32FloatAttr(alpha), builder.getF32FloatAttr(limit),
                               /*intermediate_format=*/nn::BlockFormatAttr(), /*precision=*/TypeAttr());
}

} // namespace intarsia::importer
