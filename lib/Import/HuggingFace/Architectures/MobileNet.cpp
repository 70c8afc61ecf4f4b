//===- MobileNet.cpp - MobileNetV1 and MobileNetV2 ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MobileNetV1, arXiv 1704.04861; MobileNetV2, arXiv 1801.04381. Convolutions of single channels between those of single
// positions.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"
#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

constexpr llvm::StringLiteral kMultiplier = "depth_multiplier";

class MobileNet : public ImageModel {
protected:
  explicit MobileNet(const Config &config) : ImageModel(config) {
    readImageSize(224);
    multiplier = config.number(kMultiplier, 1.0, 1e-6, 1e3);
    smallestDepth = config.integer("min_depth", 8);
    activation = readActivation(config, "hidden_act", "relu6");
    tensorFlowPads = config.flag("tf_padding", true);
    epsilon = config.number("layer_norm_eps", 0.001, 0, 1);
  }

  struct Block {
    int64_t size, stride = 1, groups = 1, dilation = 1;
    bool isActivated = true;
  };

  /// Builds a convolution with its norm and activation.
  Value block(GraphBuilder &graph, Value images, llvm::StringRef module, Extent outputs, Extent inputs,
              const Block &block) const {
    Windows windows = Windows::square(block.size, block.stride, (block.size - 1) / 2 * block.dilation);
    windows.dilations = {block.dilation, block.dilation};
    windows.groups = block.groups;
    if (tensorFlowPads)
      for (int64_t dimension : {0, 1}) {
        // "SAME": as many windows as strides begin in the image, and one more zero behind it than before it if their
        // number is odd. https://www.tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2
        int64_t rest = cast<RankedTensorType>(images.getType()).getDimSize(dimension + 1) % block.stride;
        int64_t pads = std::max<int64_t>(block.size - (rest == 0 ? block.stride : rest), 0);
        windows.padsLow[dimension] = pads / 2 * block.dilation;
        windows.padsHigh[dimension] = (pads - pads / 2) * block.dilation;
      }
    return ImageModel::block(graph, images, module, outputs, inputs, windows, epsilon,
                             block.isActivated ? activation : Activation::Identity);
  }

  /// Builds a convolution of each channel for itself.
  Value depthwise(GraphBuilder &graph, Value images, llvm::StringRef module, Extent depth, int64_t stride,
                  int64_t dilation = 1) const {
    return block(graph, images, module, depth, depth, {3, stride, depth.size, dilation});
  }

  double multiplier = 1;
  int64_t smallestDepth = 8;
  Activation activation = Activation::Relu6;
  bool tensorFlowPads = true;
  double epsilon = 0.001;
};

class MobileNetV1 : public MobileNet {
public:
  explicit MobileNetV1(const Config &config) : MobileNet(config) {}

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"MobileNetV1Model", Head::Base},
                                       {"MobileNetV1ForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "mobilenet_v1"; }
  llvm::StringRef anchor() const override { return "conv_stem.convolution.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    static constexpr int64_t strides[] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
    int64_t depth = 32;
    Extent inputs = depthOf(depth);
    images = block(graph, images, "conv_stem", inputs, channels, {3, 2});
    for (auto [index, stride] : llvm::enumerate(strides)) {
      if (stride == 2 || index == 0)
        depth *= 2;
      Extent outputs = depthOf(depth);
      images = depthwise(graph, images, "layer." + std::to_string(2 * index), inputs, stride);
      images = block(graph, images, "layer." + std::to_string(2 * index + 1), outputs, inputs, {1});
      inputs = outputs;
    }
    return images;
  }

private:
  Extent depthOf(int64_t depth) const {
    return Extent(std::max(int64_t(depth * multiplier), smallestDepth), kMultiplier);
  }
  Extent features() const override { return depthOf(1024); }
};

class MobileNetV2 : public MobileNet {
public:
  explicit MobileNetV2(const Config &config) : MobileNet(config) {
    divisor = config.integer("depth_divisible_by", 8);
    expandRatio = config.number("expand_ratio", 6.0, 1e-6, 1e3);
    outputStride = config.integer("output_stride", 32);
    firstLayerExpands = config.flag("first_layer_is_expansion", true);
    hasFineOutput = config.flag("finegrained_output", true);
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"MobileNetV2Model", Head::Base},
                                       {"MobileNetV2ForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "mobilenet_v2"; }
  llvm::StringRef anchor() const override { return "conv_stem.first_conv.convolution.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    static constexpr int64_t depths[] = {24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320};
    static constexpr int64_t strides[] = {2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1};
    Extent inputs = depthOf(16);
    images = stem(graph, images, inputs);
    // From the output stride on images do not become smaller: windows spread instead, from the next layer on.
    int64_t reached = 2, dilation = 1;
    for (auto [number, depth] : llvm::enumerate(depths)) {
      GraphBuilder::Scope scope(graph, "layer." + llvm::Twine(number));
      int64_t stride = strides[number], spread = 1;
      if (reached == outputStride) {
        spread = dilation;
        dilation *= stride;
        stride = 1;
      } else {
        reached *= stride;
      }
      Extent outputs = depthOf(depth);
      images = invertedResidual(graph, images, inputs, outputs, stride, spread);
      inputs = outputs;
    }
    return block(graph, images, "conv_1x1", features(), inputs, {1});
  }

private:
  int64_t divisible(int64_t depth) const { return makeDivisible(depth, divisor, smallestDepth); }
  // Python rounds halves to even.
  Extent depthOf(int64_t depth) const {
    return Extent(divisible(int64_t(std::nearbyint(depth * multiplier))), kMultiplier);
  }
  Extent features() const override {
    return hasFineOutput && multiplier < 1 ? Extent(1280, "finegrained_output") : depthOf(1280);
  }

  Value stem(GraphBuilder &graph, Value images, Extent outputs) const {
    GraphBuilder::Scope scope(graph, "conv_stem");
    Extent depth = depthOf(32);
    images = block(graph, images, "first_conv", depth, channels, {3, 2});
    if (!firstLayerExpands)
      images = block(graph, images, "expand_1x1", depth, depth, {1});
    images = depthwise(graph, images, "conv_3x3", depth, 1);
    return block(graph, images, "reduce_1x1", outputs, depth, {1, 1, 1, 1, /*isActivated=*/false});
  }

  Value invertedResidual(GraphBuilder &graph, Value input, Extent inputs, Extent outputs, int64_t stride,
                         int64_t dilation) const {
    Extent expanded(divisible(int64_t(std::nearbyint(inputs.size * expandRatio))), "expand_ratio");
    Value images = block(graph, input, "expand_1x1", expanded, inputs, {1});
    images = depthwise(graph, images, "conv_3x3", expanded, stride, dilation);
    images = block(graph, images, "reduce_1x1", outputs, expanded, {1, 1, 1, 1, /*isActivated=*/false});
    return stride == 1 && inputs.size == outputs.size ? graph.add(images, input, "") : images;
  }

  int64_t divisor = 8, outputStride = 32;
  double expandRatio = 6;
  bool firstLayerExpands = true, hasFineOutput = true;
};

} // namespace

std::unique_ptr<Architecture> makeMobileNetV1(const Config &config, const ImportOptions &) {
  return std::make_unique<MobileNetV1>(config);
}

std::unique_ptr<Architecture> makeMobileNetV2(const Config &config, const ImportOptions &) {
  return std::make_unique<MobileNetV2>(config);
}

} // namespace intarsia::importer
