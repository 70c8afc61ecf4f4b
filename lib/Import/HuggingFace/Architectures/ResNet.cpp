//===- ResNet.cpp - ResNet and RegNet ----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ResNet, arXiv 1512.03385; RegNet, arXiv 2003.13678. Stages of residual layers, each convolution with a batch norm.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"
#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

/// What both have: a stem, stages of layers that add their input, and the mean of the last features.
class ResidualStages : public ImageModel {
public:
  llvm::StringRef anchor() const override { return "embedder.embedder.convolution.weight"; }

protected:
  ResidualStages(const Config &config, int64_t embeddingSize, llvm::ArrayRef<int64_t> sizes,
                 llvm::ArrayRef<int64_t> layers, bool downsamples)
      : ImageModel(config) {
    embedding = config.extent("embedding_size", embeddingSize);
    hiddenSizes = config.integers("hidden_sizes", sizes);
    depths = config.integers("depths", layers);
    activation = readActivation(config, "hidden_act", "relu");
    downsampleInFirstStage = config.flag("downsample_in_first_stage", downsamples);
    if (hiddenSizes.size() != depths.size()) {
      config.report("hidden_sizes has " + llvm::Twine(hiddenSizes.size()) + " entries, depths has " +
                    llvm::Twine(depths.size()) + ": both have one for each stage");
      hiddenSizes.resize(depths.size(), hiddenSizes.back());
    }
  }

  Extent features() const override { return Extent(hiddenSizes.back(), "hidden_sizes"); }
  bool poolsToImages() const override { return true; }
  llvm::StringRef classifier() const override { return "classifier.1"; }

  /// Builds the convolutions of a layer, without the input that is added.
  virtual Value layer(GraphBuilder &graph, Value images, Extent inputs, Extent outputs, int64_t stride) = 0;

  /// Builds a convolution of windows of `size` with its norm and activation.
  static Value block(GraphBuilder &graph, Value images, llvm::StringRef module, Extent outputs, Extent inputs,
                     int64_t size, int64_t stride, Activation activated, int64_t groups = 1) {
    Windows windows = Windows::square(size, stride, size / 2);
    windows.groups = groups;
    return ImageModel::block(graph, images, module, outputs, inputs, windows, /*epsilon=*/1e-5, activated);
  }

  Value stages(GraphBuilder &graph, Value images) {
    size_t stage = 0;
    Extent inputs = embedding;
    return graph.layers(images, "encoder.stages.", Extent(depths.size(), "depths"), [&](Value state) {
      int64_t stride = stage > 0 || downsampleInFirstStage ? 2 : 1;
      Extent outputs(hiddenSizes[stage], "hidden_sizes");
      state = graph.layers(state, "layers.", Extent(depths[stage], "depths"), [&](Value input) {
        Value result = layer(graph, input, inputs, outputs, stride);
        if (stride != 1 || inputs.size != outputs.size)
          input = block(graph, input, "shortcut", outputs, inputs, 1, stride, Activation::Identity);
        inputs = outputs;
        stride = 1;
        return graph.activation(graph.add(result, input, ""), "activation", activation);
      });
      ++stage;
      return state;
    });
  }

  Extent embedding = 1;
  std::vector<int64_t> hiddenSizes, depths;
  Activation activation = Activation::Relu;
  bool downsampleInFirstStage = false;
};

class ResNet : public ResidualStages {
public:
  explicit ResNet(const Config &config)
      : ResidualStages(config, 64, {256, 512, 1024, 2048}, {3, 4, 6, 3}, /*downsamples=*/false) {
    std::string type = config.string("layer_type", "bottleneck");
    if (type != "basic" && type != "bottleneck")
      config.refuse("layer_type", type, {"basic", "bottleneck"});
    isBottleneck = type == "bottleneck";
    downsampleInBottleneck = config.flag("downsample_in_bottleneck", false);
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"ResNetModel", Head::Base},
                                       {"ResNetForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "resnet"; }

  Value encode(GraphBuilder &graph, Value images) override {
    images = block(graph, images, "embedder.embedder", embedding, channels, 7, 2, activation);
    return stages(graph, graph.pool(images, "embedder.pooler", nn::PoolKind::Max, Windows::square(3, 2, 1)));
  }

private:
  // Inside of a layer the activation is always relu; `hidden_act` is the one behind it and in the stem.
  Value layer(GraphBuilder &graph, Value images, Extent inputs, Extent outputs, int64_t stride) override {
    if (!isBottleneck) {
      images = block(graph, images, "layer.0", outputs, inputs, 3, stride, Activation::Relu);
      return block(graph, images, "layer.1", outputs, outputs, 3, 1, Activation::Identity);
    }
    Extent reduced(outputs.size / 4, "hidden_sizes");
    int64_t first = downsampleInBottleneck ? stride : 1;
    images = block(graph, images, "layer.0", reduced, inputs, 1, first, Activation::Relu);
    images = block(graph, images, "layer.1", reduced, reduced, 3, stride / first, Activation::Relu);
    return block(graph, images, "layer.2", outputs, reduced, 1, 1, Activation::Identity);
  }

  bool isBottleneck = true, downsampleInBottleneck = false;
};

class RegNet : public ResidualStages {
public:
  explicit RegNet(const Config &config)
      : ResidualStages(config, 32, {128, 192, 512, 1088}, {2, 6, 12, 2}, /*downsamples=*/true) {
    std::string type = config.string("layer_type", "y");
    if (type != "x" && type != "y")
      config.refuse("layer_type", type, {"x", "y"});
    squeezes = type == "y";
    groupsWidth = config.integer("groups_width", 64);
    for (int64_t size : hiddenSizes)
      if (size % groupsOf(size) != 0)
        config.report("hidden_sizes has " + llvm::Twine(size) + ", which cannot be divided into " +
                      llvm::Twine(groupsOf(size)) + " groups of groups_width " + llvm::Twine(groupsWidth));
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"RegNetModel", Head::Base},
                                       {"RegNetForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "regnet"; }

  Value encode(GraphBuilder &graph, Value images) override {
    return stages(graph, block(graph, images, "embedder.embedder", embedding, channels, 3, 2, activation));
  }

private:
  int64_t groupsOf(int64_t size) const { return std::max<int64_t>(1, size / groupsWidth); }

  Value layer(GraphBuilder &graph, Value images, Extent inputs, Extent outputs, int64_t stride) override {
    images = block(graph, images, "layer.0", outputs, inputs, 1, 1, activation);
    images = block(graph, images, "layer.1", outputs, outputs, 3, stride, activation, groupsOf(outputs.size));
    if (squeezes) {
      // Python rounds halves to even.
      Extent reduced(int64_t(std::nearbyint(double(inputs.size) / 4)), "hidden_sizes");
      SqueezeExcite modules{"layer.2.attention.0", "layer.2.attention.2", Activation::Relu};
      images = graph.squeezeExcite(images, modules, outputs, reduced);
    }
    return block(graph, images, squeezes ? "layer.3" : "layer.2", outputs, outputs, 1, 1, Activation::Identity);
  }

  bool squeezes = true;
  int64_t groupsWidth = 64;
};

} // namespace

std::unique_ptr<Architecture> makeResNet(const Config &config, const ImportOptions &) {
  return std::make_unique<ResNet>(config);
}

std::unique_ptr<Architecture> makeRegNet(const Config &config, const ImportOptions &) {
  return std::make_unique<RegNet>(config);
}

} // namespace intarsia::importer
