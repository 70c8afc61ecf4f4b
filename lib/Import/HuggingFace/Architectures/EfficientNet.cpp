//===- EfficientNet.cpp - EfficientNet ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// EfficientNet, arXiv 1905.11946: inverted residuals whose channels are weighted by what the whole image shows.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"
#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

class EfficientNet : public ImageModel {
public:
  explicit EfficientNet(const Config &config) : ImageModel(config) {
    readImageSize(600);
    widthCoefficient = config.number("width_coefficient", 2.0, 1e-6, 1e3);
    depthCoefficient = config.number("depth_coefficient", 3.1, 1e-6, 1e3);
    divisor = config.integer("depth_divisor", 8);
    kernelSizes = perStage("kernel_sizes", {3, 3, 5, 3, 5, 5, 3});
    inChannels = perStage("in_channels", {32, 16, 24, 40, 80, 112, 192});
    outChannels = perStage("out_channels", {16, 24, 40, 80, 112, 192, 320});
    strides = perStage("strides", {1, 2, 2, 2, 1, 2, 1});
    repeats = perStage("num_block_repeats", {1, 2, 2, 3, 3, 4, 1});
    expandRatios = perStage("expand_ratios", {1, 6, 6, 6, 6, 6, 6});
    if (const llvm::json::Value *value = config.find("depthwise_padding");
        value && !(value->getAsArray() && value->getAsArray()->empty()))
      evenPads = config.integers("depthwise_padding", {}, 0);
    squeezeRatio = config.number("squeeze_expansion_ratio", 0.25, 0, 1e3);
    activation = readActivation(config, "hidden_act", "swish");
    hidden = config.extent("hidden_dim", 2560);
    std::string pooling = config.string("pooling_type", "mean");
    if (pooling != "mean" && pooling != "max")
      config.refuse("pooling_type", pooling, {"mean", "max"});
    poolsLargest = pooling == "max";
    epsilon = config.number("batch_norm_eps", 0.001, 0, 1);
    for (int64_t stride : strides)
      if (stride > 2)
        config.report("strides has " + llvm::Twine(stride) + ", supported are 1 and 2");
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"EfficientNetModel", Head::Base},
                                       {"EfficientNetForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "efficientnet"; }
  llvm::StringRef anchor() const override { return "embeddings.convolution.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    images = stem(graph, images);
    std::vector<Block> blocks = listBlocks();
    size_t number = 0;
    images = graph.layers(images, "encoder.blocks.", Extent(blocks.size(), "num_block_repeats, depth_coefficient"),
                          [&](Value state) { return block(graph, state, blocks[number++]); });
    Extent depth = blocks.back().outputs, top = round(1280);
    if (top.size != hidden.size)
      config.report("hidden_dim is " + llvm::Twine(hidden.size) +
                    ", but width_coefficient makes the last convolution " + llvm::Twine(top.size) +
                    " channels; is one of them from another model?");
    images = graph.conv(images, "encoder.top_conv", top, depth, Windows::square(1), /*bias=*/false);
    images = graph.batchNorm(images, "encoder.top_bn", hidden, epsilon);
    return graph.activation(images, "encoder.top_activation", activation);
  }

private:
  struct Block {
    Extent inputs, outputs;
    int64_t size, stride, expandRatio;
    bool addsInput, hasEvenPads;
  };

  std::vector<int64_t> perStage(llvm::StringRef setting, llvm::ArrayRef<int64_t> byDefault) {
    std::vector<int64_t> list = config.integers(setting, byDefault);
    if (!kernelSizes.empty() && list.size() != kernelSizes.size()) {
      config.report(setting + " has " + llvm::Twine(list.size()) + " entries, kernel_sizes has " +
                    llvm::Twine(kernelSizes.size()) + ": both have one for each stage");
      list.resize(kernelSizes.size(), 1);
    }
    return list;
  }

  Extent round(int64_t depth) const {
    return Extent(makeDivisible(depth * widthCoefficient, divisor, divisor), "width_coefficient");
  }

  std::vector<Block> listBlocks() const {
    std::vector<Block> blocks;
    for (size_t stage = 0; stage < kernelSizes.size(); ++stage) {
      Extent inputs = round(inChannels[stage]), outputs = round(outChannels[stage]);
      int64_t count = int64_t(std::ceil(depthCoefficient * repeats[stage])), stride = strides[stage];
      for (int64_t repeat = 0; repeat < count; ++repeat) {
        bool hasEvenPads = llvm::is_contained(evenPads, int64_t(blocks.size()));
        blocks.push_back({inputs, outputs, kernelSizes[stage], stride, expandRatios[stage],
                          /*addsInput=*/stride == 1 && repeat > 0, hasEvenPads});
        inputs = outputs;
        stride = 1;
      }
    }
    return blocks;
  }

  Value stem(GraphBuilder &graph, Value images) const {
    GraphBuilder::Scope scope(graph, "embeddings");
    Windows windows = Windows::square(3, 2);
    windows.padsHigh = {1, 1};
    images = graph.conv(images, "convolution", round(32), channels, windows, /*bias=*/false);
    return graph.activation(graph.batchNorm(images, "batchnorm", round(32), epsilon), "activation", activation);
  }

  Value block(GraphBuilder &graph, Value input, const Block &block) const {
    Value images = input;
    Extent depth(block.inputs.size * block.expandRatio, "expand_ratios, width_coefficient");
    if (block.expandRatio != 1) {
      images = graph.conv(images, "expansion.expand_conv", depth, block.inputs, Windows::square(1), /*bias=*/false);
      images = graph.batchNorm(images, "expansion.expand_bn", depth, epsilon);
      images = graph.activation(images, "expansion.expand_act", activation);
    }
    // A convolution of stride 1 has as many positions as the image. One of stride 2 has pads of its own: as TensorFlow
    // has them for images of even sizes, or the same on both sides.
    Windows windows = Windows::square(block.size, block.stride);
    int64_t half = block.size / 2, both = block.size - 1;
    int64_t low = block.stride == 1 ? both / 2 : block.hasEvenPads ? half : half - 1;
    int64_t high = block.stride == 1 ? both - both / 2 : half;
    windows.padsLow = {low, low};
    windows.padsHigh = {high, high};
    windows.groups = depth.size;
    images = graph.conv(images, "depthwise_conv.depthwise_conv", depth, depth, windows, /*bias=*/false, "kernel_sizes");
    images = graph.batchNorm(images, "depthwise_conv.depthwise_norm", depth, epsilon);
    images = graph.activation(images, "depthwise_conv.depthwise_act", activation);
    Extent squeezed(std::max<int64_t>(1, int64_t(block.inputs.size * squeezeRatio)), "squeeze_expansion_ratio");
    images =
        graph.squeezeExcite(images, {"squeeze_excite.reduce", "squeeze_excite.expand", activation}, depth, squeezed);
    images = graph.conv(images, "projection.project_conv", block.outputs, depth, Windows::square(1), /*bias=*/false);
    images = graph.batchNorm(images, "projection.project_bn", block.outputs, epsilon);
    return block.addsInput ? graph.add(images, input, "") : images;
  }

  Extent features() const override { return hidden; }
  Value pool(GraphBuilder &graph, Value images) override {
    // transformers pools windows of hidden_dim positions, of which there has to be one.
    for (int64_t size : cast<RankedTensorType>(images.getType()).getShape().slice(1, 2))
      if (size > hidden.size)
        config.report("image_size leaves " + llvm::Twine(size) + " positions, hidden_dim " + llvm::Twine(hidden.size) +
                      " pools that many at most");
    return poolsLargest ? graph.spatialMaximum(images, "pooler") : graph.spatialMean(images, "pooler");
  }

  double widthCoefficient = 2, depthCoefficient = 3.1, squeezeRatio = 0.25, epsilon = 0.001;
  int64_t divisor = 8;
  std::vector<int64_t> kernelSizes, inChannels, outChannels, strides, repeats, expandRatios, evenPads;
  Activation activation = Activation::Silu;
  Extent hidden = 1;
  bool poolsLargest = false;
};

} // namespace

std::unique_ptr<Architecture> makeEfficientNet(const Config &config, const ImportOptions &) {
  return std::make_unique<EfficientNet>(config);
}

} // namespace intarsia::importer
