//===- MobileViT.cpp - MobileViT ---------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MobileViT, arXiv 2110.02178: inverted residuals as in MobileNetV2, and transformers over the elements that have the
// same place in each patch of an image.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"
#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

class MobileViT : public ImageModel {
public:
  explicit MobileViT(const Config &config) : ImageModel(config) {
    readImageSize(256);
    patch = config.integer("patch_size", 2);
    hiddenSizes = list("hidden_sizes", {144, 192, 240});
    neckSizes = list("neck_hidden_sizes", {16, 32, 64, 96, 128, 160, 640});
    heads = config.integer("num_attention_heads", 4);
    mlpRatio = config.number("mlp_ratio", 2.0, 1e-6, 1e3);
    expandRatio = config.number("expand_ratio", 4.0, 1e-6, 1e3);
    activation = readActivation(config, "hidden_act", "silu");
    kernelSize = config.integer("conv_kernel_size", 3);
    if (kernelSize % 2 == 0)
      config.report("conv_kernel_size is " + llvm::Twine(kernelSize) + ", which has to be odd: images keep their size");
    outputStride = config.integer("output_stride", 32);
    epsilon = config.number("layer_norm_eps", 1e-5, 0, 1);
    queryBias = config.flag("qkv_bias", true);
    for (int64_t size : hiddenSizes)
      if (size % heads != 0)
        config.report("hidden_sizes has " + llvm::Twine(size) + ", which is not a multiple of num_attention_heads " +
                      llvm::Twine(heads));
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"MobileViTModel", Head::Base},
                                       {"MobileViTForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "mobilevit"; }
  llvm::StringRef anchor() const override { return "conv_stem.convolution.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    images = block(graph, images, "conv_stem", neck(0), channels, Windows::square(3, 2, 1), activation);
    images = invertedResidual(graph, images, "encoder.layer.0.layer.0", neck(0), neck(1), 1, 1);
    for (int64_t number : {0, 1, 2}) {
      std::string module = "encoder.layer.1.layer." + std::to_string(number);
      images = invertedResidual(graph, images, module, neck(number == 0 ? 1 : 2), neck(2), number == 0 ? 2 : 1, 1);
    }
    // With an output stride of 16 or 8 the last one or two layers spread their windows and keep the size.
    static constexpr int64_t layers[] = {2, 4, 3};
    int64_t dilation = 1;
    for (int64_t stage : {0, 1, 2}) {
      if ((stage == 1 && outputStride == 8) || (stage == 2 && (outputStride == 8 || outputStride == 16)))
        dilation *= 2;
      GraphBuilder::Scope scope(graph, "encoder.layer." + llvm::Twine(stage + 2));
      images = layer(graph, images, stage, layers[stage], dilation);
    }
    return block(graph, images, "conv_1x1_exp", neck(6), neck(5), Windows::square(1), activation);
  }

private:
  std::vector<int64_t> list(llvm::StringRef setting, llvm::ArrayRef<int64_t> byDefault) {
    std::vector<int64_t> result = config.integers(setting, byDefault);
    if (result.size() == byDefault.size())
      return result;
    config.report(setting + " has " + llvm::Twine(result.size()) + " entries, the model has " +
                  llvm::Twine(byDefault.size()));
    return byDefault;
  }
  Extent neck(int64_t number) const { return Extent(neckSizes[number], "neck_hidden_sizes"); }
  Extent features() const override { return neck(6); }

  static Value block(GraphBuilder &graph, Value images, llvm::StringRef module, Extent outputs, Extent inputs,
                     const Windows &windows, Activation activated) {
    return ImageModel::block(graph, images, module, outputs, inputs, windows, /*epsilon=*/1e-5, activated);
  }

  Value invertedResidual(GraphBuilder &graph, Value input, llvm::StringRef module, Extent inputs, Extent outputs,
                         int64_t stride, int64_t dilation) const {
    GraphBuilder::Scope scope(graph, module);
    Extent expanded(makeDivisible(int64_t(std::nearbyint(inputs.size * expandRatio)), 8, 8), "expand_ratio");
    Value images = block(graph, input, "expand_1x1", expanded, inputs, Windows::square(1), activation);
    Windows windows = Windows::square(3, stride, dilation);
    windows.dilations = {dilation, dilation};
    windows.groups = expanded.size;
    images = block(graph, images, "conv_3x3", expanded, expanded, windows, activation);
    images = block(graph, images, "reduce_1x1", outputs, expanded, Windows::square(1), Activation::Identity);
    return stride == 1 && inputs.size == outputs.size ? graph.add(images, input, "") : images;
  }

  Value layer(GraphBuilder &graph, Value images, int64_t stage, int64_t layers, int64_t dilation) const {
    Extent inputs = neck(2 + stage), size = neck(3 + stage), hidden(hiddenSizes[stage], "hidden_sizes");
    images = invertedResidual(graph, images, "downsampling_layer", inputs, size, dilation == 1 ? 2 : 1,
                              std::max<int64_t>(dilation / 2, 1));
    Value residual = images;
    Windows windows = Windows::square(kernelSize, 1, (kernelSize - 1) / 2);
    images = block(graph, images, "conv_kxk", size, size, windows, activation);
    images = graph.conv(images, "conv_1x1.convolution", hidden, size, Windows::square(1), /*bias=*/false);
    Location at = graph.location("transformer");
    Shape before = graph.shapeOf(at, images);
    Size height = wholePatches(graph, at, before[1]), width = wholePatches(graph, at, before[2]);
    bool isResized = height.value != before[1].value || width.value != before[2].value;
    if (isResized)
      images = graph.resizeBilinear(images, "transformer", height, width);
    Value rows = unfold(graph, images);
    for (int64_t number = 0; number < layers; ++number) {
      GraphBuilder::Scope scope(graph, "transformer.layer." + llvm::Twine(number));
      rows = transformer(graph, rows, hidden);
    }
    rows = graph.layerNorm(rows, "layernorm", hidden, epsilon);
    images = fold(graph, rows, {before[0], height, width, before[3]});
    if (isResized)
      images = graph.resizeBilinear(images, "transformer", before[1], before[2]);
    images = block(graph, images, "conv_projection", size, hidden, Windows::square(1), activation);
    images = graph.concat({residual, images}, "fusion", 3);
    return block(graph, images, "fusion", size, Extent(2 * size.size, "neck_hidden_sizes"), windows, activation);
  }

  Size wholePatches(GraphBuilder &graph, Location at, const Size &size) const {
    return graph.compute(at, SizeOp::Multiply, graph.compute(at, SizeOp::DivideUp, size, patch), patch);
  }

  /// Returns the elements that have the same place in each patch as rows of their own: [batch * places, patches,
  /// channels].
  Value unfold(GraphBuilder &graph, Value images) const {
    constexpr llvm::StringLiteral module = "transformer";
    Shape shape = graph.shapeOf(graph.location(module), images);
    int64_t rows = shape[1].value / patch, columns = shape[2].value / patch;
    Value split = graph.expandShape(images, module, {shape[0], rows, patch, columns, patch, shape[3]},
                                    {{0}, {1, 2}, {3, 4}, {5}});
    Value moved = graph.transpose(split, module, {shape[0], patch, patch, rows, columns, shape[3]}, {0, 2, 4, 1, 3, 5});
    return graph.collapseShape(moved, module, {{0, 1, 2}, {3, 4}, {5}});
  }

  Value fold(GraphBuilder &graph, Value rows, const Shape &shape) const {
    constexpr llvm::StringLiteral module = "transformer";
    int64_t height = shape[1].value / patch, width = shape[2].value / patch;
    Value split =
        graph.expandShape(rows, module, {shape[0], patch, patch, height, width, shape[3]}, {{0, 1, 2}, {3, 4}, {5}});
    Value moved = graph.transpose(split, module, {shape[0], height, patch, width, patch, shape[3]}, {0, 3, 1, 4, 2, 5});
    return graph.collapseShape(moved, module, {{0}, {1, 2}, {3, 4}, {5}});
  }

  Value transformer(GraphBuilder &graph, Value input, Extent hidden) const {
    Extent inner(int64_t(hidden.size * mlpRatio), "mlp_ratio");
    Value normal = graph.layerNorm(input, "layernorm_before", hidden, epsilon);
    auto project = [&](llvm::StringRef name) { return graph.linear(normal, name, hidden, hidden, queryBias); };
    Value query = project("attention.attention.query"), key = project("attention.attention.key");
    Value value = project("attention.attention.value");
    Shape leading = graph.shapeOf(graph.location("attention"), input);
    leading.pop_back();
    Value context = graph.attention(query, key, value, Value(), "attention", leading, heads, hidden.size / heads);
    Value attended = graph.add(graph.linear(context, "attention.output.dense", hidden, hidden), input, "attention");
    normal = graph.layerNorm(attended, "layernorm_after", hidden, epsilon);
    Value wide =
        graph.activation(graph.linear(normal, "intermediate.dense", inner, hidden), "intermediate", activation);
    return graph.add(graph.linear(wide, "output.dense", hidden, inner), attended, "output");
  }

  int64_t patch = 2, heads = 4, kernelSize = 3, outputStride = 32;
  std::vector<int64_t> hiddenSizes, neckSizes;
  double mlpRatio = 2, expandRatio = 4, epsilon = 1e-5;
  Activation activation = Activation::Silu;
  bool queryBias = true;
};

} // namespace

std::unique_ptr<Architecture> makeMobileViT(const Config &config, const ImportOptions &) {
  return std::make_unique<MobileViT>(config);
}

} // namespace intarsia::importer
