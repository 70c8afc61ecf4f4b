//===- ViT.cpp - Vision Transformer ------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ViT, arXiv 2010.11929. Checkpoints have one of two sets of module names: the names up to transformers 4, which it
// still writes, or the names of its classes since version 5.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/ViT.h"
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {

ViT::ViT(const Config &config, int64_t imageSize) : config(config) {
  refuseCommonSettings(config, QuantizedWeights::Checkpoints);
  hidden = config.extent("hidden_size", 768);
  intermediate = config.extent("intermediate_size", 3072);
  channels = config.extent("num_channels", 3);
  poolerFeatures = config.extent("pooler_output_size", hidden.size);
  layers = config.extent("num_hidden_layers", 12);
  heads = config.integer("num_attention_heads", 12);
  headDim = config.integer("head_dim", std::max<int64_t>(hidden.size / heads, 1));
  if (!config.has("head_dim") && hidden.size % heads != 0)
    config.report("hidden_size " + llvm::Twine(hidden.size) + " is not a multiple of num_attention_heads " +
                  llvm::Twine(heads));
  epsilon = config.number("layer_norm_eps", 1e-12, 0, 1);
  queryBias = config.flag("qkv_bias", true);
  activation = readActivation(config, "hidden_act", "gelu");
  poolerActivation = readActivation(config, "pooler_act", "tanh");
  std::tie(imageHeight, imageWidth) = config.integerPair("image_size", imageSize);
  std::tie(patchHeight, patchWidth) = config.integerPair("patch_size", 16);
  if (imageHeight < patchHeight || imageWidth < patchWidth) {
    config.report("image_size is smaller than patch_size");
    imageHeight = patchHeight;
    imageWidth = patchWidth;
  }
  if (imageHeight % patchHeight != 0 || imageWidth % patchWidth != 0)
    config.report("image_size " + llvm::Twine(imageHeight) + " x " + llvm::Twine(imageWidth) +
                  " is not a multiple of patch_size " + llvm::Twine(patchHeight) + " x " + llvm::Twine(patchWidth) +
                  ", which is not supported");
}

llvm::ArrayRef<ModelClass> ViT::classes() const {
  static const ModelClass table[] = {{"ViTModel", Head::Base},
                                     {"ViTForImageClassification", Head::ImageClassification}};
  return table;
}

llvm::SmallVector<Input> ViT::inputs(GraphBuilder &graph) const {
  llvm::SmallVector<Input> result;
  result.push_back(
      {"pixel_values", graph.getActivationType(), {"batch", channels.size, imageHeight, imageWidth}, {}, {}});
  return result;
}

Value ViT::encode(GraphBuilder &graph) {
  Value state = embeddings(graph);
  llvm::StringRef container = graph.spelling({"encoder.layer.", "layers."}, "0.layernorm_before.weight");
  state = graph.layers(state, container, layers, [&](Value input) {
    Value output = layer(graph, input);
    keep(output);
    return output;
  });
  return graph.layerNorm(state, "layernorm", hidden, epsilon);
}

void ViT::baseOutputs(GraphBuilder &graph, Value state) {
  if (!graph.hasWeight("pooler.dense.bias"))
    return;
  Value first = graph.firstToken(state, "pooler", "batch", hidden.size);
  Value pooled = graph.linear(first, "pooler.dense", poolerFeatures, hidden);
  graph.output(graph.activation(pooled, "pooler", poolerActivation), "pooler_output", {"batch", poolerFeatures.size});
}

void ViT::headOutputs(GraphBuilder &graph, Value state, Head, llvm::StringRef) {
  Extent count(readLabels(config).size(), "id2label");
  Value first = graph.firstToken(state, "classifier", "batch", hidden.size);
  graph.output(graph.linear(first, "classifier", count, hidden), "logits", {"batch", count.size});
}

Value ViT::embeddings(GraphBuilder &graph) const {
  GraphBuilder::Scope scope(graph, "embeddings");
  constexpr llvm::StringLiteral projection = "patch_embeddings.projection";
  int64_t rows = imageHeight / patchHeight, columns = imageWidth / patchWidth;
  Value split =
      graph.expandShape(graph.input("pixel_values"), projection,
                        {"batch", channels.size, rows, patchHeight, columns, patchWidth}, {{0}, {1}, {2, 3}, {4, 5}});
  Value gathered = graph.transpose(split, projection, {"batch", rows, columns, channels.size, patchHeight, patchWidth},
                                   {0, 2, 4, 1, 3, 5});
  Value pixels = graph.collapseShape(gathered, projection, {{0}, {1, 2}, {3, 4, 5}});
  Value weight = graph.weight((projection + ".weight").str(),
                              {hidden, channels, Extent(patchHeight, "patch_size"), Extent(patchWidth, "patch_size")});
  Value bias = graph.weight((projection + ".bias").str(), {hidden});
  Value matrix = graph.collapseShape(weight, projection, {{0}, {1, 2, 3}});
  Value patchStates = graph.linear(pixels, projection, matrix, bias);

  Value classToken = graph.collapseShape(graph.weight("cls_token", {1, 1, hidden}), "cls_token", {{0, 1, 2}});
  Type type = graph.getActivationType();
  auto first = [&](OpBuilder &builder, Location at, ValueRange values) -> Value {
    return widened(builder, at, values[0], type);
  };
  Value classStates = graph.elementwise("cls_token", type, {"batch", 1, hidden.size}, {{classToken, {2}}}, first);
  Value sequence = graph.concat({classStates, patchStates}, "", 1);

  Value table = graph.weight("position_embeddings", {1, Extent(patches() + 1, "image_size, patch_size"), hidden});
  Value positions = graph.collapseShape(table, "position_embeddings", {{0, 1}, {2}});
  return graph.elementwise(
      "position_embeddings", type, {"batch", patches() + 1, hidden.size}, {{sequence, {0, 1, 2}}, {positions, {1, 2}}},
      [&](OpBuilder &builder, Location at, ValueRange values) -> Value {
        return arith::AddFOp::create(builder, at, values[0], widened(builder, at, values[1], type));
      });
}

Value ViT::layer(GraphBuilder &graph, Value input) const {
  auto module = [&](llvm::StringRef older, llvm::StringRef newer) { return graph.spelling({older, newer}, ".weight"); };
  Extent projected(heads * headDim, "hidden_size");
  Value normalised = graph.layerNorm(input, "layernorm_before", hidden, epsilon);
  Value query =
      graph.linear(normalised, module("attention.attention.query", "attention.q_proj"), projected, hidden, queryBias);
  Value key =
      graph.linear(normalised, module("attention.attention.key", "attention.k_proj"), projected, hidden, queryBias);
  Value value =
      graph.linear(normalised, module("attention.attention.value", "attention.v_proj"), projected, hidden, queryBias);
  Value context = graph.attention(query, key, value, Value(), "attention", {"batch", patches() + 1}, heads, headDim);
  Value output = graph.linear(context, module("attention.output.dense", "attention.o_proj"), hidden, projected);
  Value attended = graph.add(output, input, "attention");

  Value second = graph.layerNorm(attended, "layernorm_after", hidden, epsilon);
  llvm::StringRef innerName = module("intermediate.dense", "mlp.fc1");
  Value inner = graph.activation(graph.linear(second, innerName, intermediate, hidden), innerName, activation);
  llvm::StringRef outerName = module("output.dense", "mlp.fc2");
  return graph.add(graph.linear(inner, outerName, hidden, intermediate), attended, outerName);
}

std::unique_ptr<Architecture> makeViT(const Config &config, const ImportOptions &) {
  return std::make_unique<ViT>(config);
}

} // namespace intarsia::importer
