//===- MobileNetV3.cpp - MobileNetV3 -----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MobileNetV3, arXiv 1905.02244, as timm has it (timm/models/mobilenetv3.py): the directories of its models name an
// `architecture`, not settings, and transformers opens them with its class TimmWrapperForImageClassification.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

constexpr llvm::StringLiteral kArchitecture = "architecture";

/// A row of the tables 1 and 2 of the paper. The first rows of both do not expand channels, and have no convolution for
/// it.
struct Row {
  int64_t stage, window, stride;
  double expansion;
  int64_t channels;
  bool isSqueezed;
  Activation activation;
};

constexpr Activation kRelu = Activation::Relu, kHardSwish = Activation::HardSwish;

constexpr Row kLarge[] = {
    {0, 3, 1, 1, 16, false, kRelu},        {1, 3, 2, 4, 24, false, kRelu},        {1, 3, 1, 3, 24, false, kRelu},
    {2, 5, 2, 3, 40, true, kRelu},         {2, 5, 1, 3, 40, true, kRelu},         {2, 5, 1, 3, 40, true, kRelu},
    {3, 3, 2, 6, 80, false, kHardSwish},   {3, 3, 1, 2.5, 80, false, kHardSwish}, {3, 3, 1, 2.3, 80, false, kHardSwish},
    {3, 3, 1, 2.3, 80, false, kHardSwish}, {4, 3, 1, 6, 112, true, kHardSwish},   {4, 3, 1, 6, 112, true, kHardSwish},
    {5, 5, 2, 6, 160, true, kHardSwish},   {5, 5, 1, 6, 160, true, kHardSwish},   {5, 5, 1, 6, 160, true, kHardSwish},
};

constexpr Row kSmall[] = {
    {0, 3, 2, 1, 16, true, kRelu},      {1, 3, 2, 4.5, 24, false, kRelu},   {1, 3, 1, 3.67, 24, false, kRelu},
    {2, 5, 2, 4, 40, true, kHardSwish}, {2, 5, 1, 6, 40, true, kHardSwish}, {2, 5, 1, 6, 40, true, kHardSwish},
    {3, 5, 1, 3, 48, true, kHardSwish}, {3, 5, 1, 3, 48, true, kHardSwish}, {4, 5, 2, 6, 96, true, kHardSwish},
    {4, 5, 1, 6, 96, true, kHardSwish}, {4, 5, 1, 6, 96, true, kHardSwish},
};

/// An `architecture` of timm.
struct Variant {
  llvm::StringRef name;
  llvm::ArrayRef<Row> rows;
  double multiplier;
  int64_t last, head; ///< channels of the last convolution of positions, and of what follows the mean of all
};

constexpr Variant kVariants[] = {
    {"mobilenetv3_large_075", kLarge, 0.75, 960, 1280}, {"mobilenetv3_large_100", kLarge, 1.0, 960, 1280},
    {"mobilenetv3_small_050", kSmall, 0.5, 576, 1024},  {"mobilenetv3_small_075", kSmall, 0.75, 576, 1024},
    {"mobilenetv3_small_100", kSmall, 1.0, 576, 1024},
};

class MobileNetV3 : public ImageModel {
public:
  explicit MobileNetV3(const Config &config) : ImageModel(config) {
    config.refuseIfSet("model_args", "arguments of timm.create_model change the model");
    if (std::string pooling = config.string("global_pool", "avg"); pooling != "avg")
      config.refuse("global_pool", pooling, {"avg"});
    std::string name = config.string(kArchitecture, "");
    llvm::SmallVector<llvm::StringRef> known;
    for (const Variant &candidate : kVariants) {
      known.push_back(candidate.name);
      if (candidate.name == name)
        variant = &candidate;
    }
    if (variant->name != name)
      config.refuse(kArchitecture, name, known);
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"TimmWrapperForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "timm_model"; }
  llvm::StringRef anchor() const override { return "conv_stem.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    // Narrow models keep all channels of the first convolution.
    constexpr int64_t stem = 16;
    Extent inputs = variant->multiplier < 0.75 ? Extent(stem, kArchitecture) : depthOf(stem);
    images = block(graph, images, "conv_stem", "bn1", inputs, channels, {3, 2}, kHardSwish);
    int64_t number = 0;
    const Row *before = nullptr;
    for (const Row &row : variant->rows) {
      number = before && before->stage == row.stage ? number + 1 : 0;
      GraphBuilder::Scope scope(graph, "blocks." + llvm::Twine(row.stage) + "." + llvm::Twine(number));
      Extent outputs = depthOf(row.channels);
      images = before ? invertedResidual(graph, images, inputs, outputs, row)
                      : separable(graph, images, inputs, outputs, row);
      inputs = outputs;
      before = &row;
    }
    GraphBuilder::Scope scope(graph, "blocks." + llvm::Twine(before->stage + 1) + ".0");
    return block(graph, images, "conv", "bn1", depthOf(variant->last), inputs, {1}, kHardSwish);
  }

private:
  struct Convolution {
    int64_t size, stride = 1, groups = 1;
  };

  Extent depthOf(int64_t depth) const {
    return Extent(makeDivisible(depth * variant->multiplier, 8, 8), kArchitecture);
  }
  Extent features() const override { return Extent(variant->head, kArchitecture); }

  static Value block(GraphBuilder &graph, Value images, llvm::StringRef module, llvm::StringRef norm, Extent outputs,
                     Extent inputs, const Convolution &convolution, Activation activation) {
    Windows windows = Windows::square(convolution.size, convolution.stride, convolution.size / 2);
    windows.groups = convolution.groups;
    images = graph.conv(images, module, outputs, inputs, windows, /*bias=*/false, kArchitecture);
    images = graph.batchNorm(images, norm, outputs, /*epsilon=*/1e-5);
    return graph.activation(images, norm, activation);
  }

  static Value squeezed(GraphBuilder &graph, Value images, Extent size, const Row &row) {
    if (!row.isSqueezed)
      return images;
    Extent reduced(makeDivisible(size.size * 0.25, 8, 8), kArchitecture);
    return graph.squeezeExcite(images, {"se.conv_reduce", "se.conv_expand", kRelu, Activation::HardSigmoid}, size,
                               reduced);
  }

  static Value separable(GraphBuilder &graph, Value input, Extent inputs, Extent outputs, const Row &row) {
    Value images =
        block(graph, input, "conv_dw", "bn1", inputs, inputs, {row.window, row.stride, inputs.size}, row.activation);
    images = squeezed(graph, images, inputs, row);
    images = block(graph, images, "conv_pw", "bn2", outputs, inputs, {1}, Activation::Identity);
    return row.stride == 1 && inputs.size == outputs.size ? graph.add(images, input, "") : images;
  }

  static Value invertedResidual(GraphBuilder &graph, Value input, Extent inputs, Extent outputs, const Row &row) {
    Extent expanded(makeDivisible(inputs.size * row.expansion, 8, 8), kArchitecture);
    Value images = block(graph, input, "conv_pw", "bn1", expanded, inputs, {1}, row.activation);
    images = block(graph, images, "conv_dw", "bn2", expanded, expanded, {row.window, row.stride, expanded.size},
                   row.activation);
    images = squeezed(graph, images, expanded, row);
    images = block(graph, images, "conv_pwl", "bn3", outputs, expanded, {1}, Activation::Identity);
    return row.stride == 1 && inputs.size == outputs.size ? graph.add(images, input, "") : images;
  }

  Value pool(GraphBuilder &graph, Value images) override {
    Value pooled = graph.spatialMean(images, "global_pool");
    pooled = graph.pointLinear(pooled, "conv_head", features(), depthOf(variant->last));
    return graph.activation(pooled, "act2", kHardSwish);
  }

  /// The classifier is a part of timm's model, whose weights have a prefix where transformers saved them.
  void headOutputs(GraphBuilder &graph, Value images, Head, llvm::StringRef base) override {
    GraphBuilder::Scope scope(graph, base);
    Extent labels(readLabels(config).size(), "num_classes");
    graph.output(graph.linear(pool(graph, images), "classifier", labels, features()), "logits", {"batch", labels.size});
  }

  const Variant *variant = &kVariants[0];
};

} // namespace

std::unique_ptr<Architecture> makeTimmWrapper(const Config &config, const ImportOptions &) {
  return std::make_unique<MobileNetV3>(config);
}

} // namespace intarsia::importer
