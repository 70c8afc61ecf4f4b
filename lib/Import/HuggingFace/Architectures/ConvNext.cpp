//===- ConvNext.cpp - ConvNeXt -----------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ConvNeXt, arXiv 2201.03545: convolutions of single channels, and layer norms over the channels of a position.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

class ConvNext : public ImageModel {
public:
  explicit ConvNext(const Config &config) : ImageModel(config) {
    readImageSize(224);
    std::tie(patchHeight, patchWidth) = config.integerPair("patch_size", 4);
    hiddenSizes = config.integers("hidden_sizes", {96, 192, 384, 768});
    depths = config.integers("depths", {3, 3, 9, 3});
    stages = config.extent(config.spelling("num_stages", "num_hidden_layers"), 4);
    activation = readActivation(config, "hidden_act", "gelu");
    epsilon = config.number("layer_norm_eps", 1e-12, 0, 1);
    hasLayerScale = config.number("layer_scale_init_value", 1e-6, -1e6, 1e6) > 0;
    if (int64_t(hiddenSizes.size()) != stages.size || int64_t(depths.size()) != stages.size) {
      config.report("hidden_sizes has " + llvm::Twine(hiddenSizes.size()) + " entries, depths has " +
                    llvm::Twine(depths.size()) + ": both have one for each of the " + llvm::Twine(stages.size) +
                    " stages (num_stages)");
      stages.size = 1;
    }
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"ConvNextModel", Head::Base},
                                       {"ConvNextForImageClassification", Head::ImageClassification}};
    return table;
  }
  llvm::StringRef prefix() const override { return "convnext"; }
  llvm::StringRef anchor() const override { return "embeddings.patch_embeddings.weight"; }

  Value encode(GraphBuilder &graph, Value images) override {
    Windows patches{{patchHeight, patchWidth}, {patchHeight, patchWidth}, {}, {}, {}};
    Extent inputs = sizeOf(0);
    images = graph.conv(images, "embeddings.patch_embeddings", inputs, channels, patches, /*bias=*/true, "patch_size");
    images = graph.layerNorm(images, "embeddings.layernorm", inputs, kInnerEpsilon);
    size_t stage = 0;
    return graph.layers(images, "encoder.stages.", stages, [&](Value state) {
      Extent outputs = sizeOf(stage);
      if (stage > 0) {
        state = graph.layerNorm(state, "downsampling_layer.0", inputs, kInnerEpsilon);
        state = graph.conv(state, "downsampling_layer.1", outputs, inputs, Windows::square(2, 2));
      }
      inputs = outputs;
      return graph.layers(state, "layers.", Extent(depths[stage++], "depths"),
                          [&](Value input) { return layer(graph, input, outputs); });
    });
  }

private:
  /// Of all norms but the last, whose epsilon is `layer_norm_eps`.
  static constexpr double kInnerEpsilon = 1e-6;

  Extent sizeOf(size_t stage) const { return Extent(hiddenSizes[stage], "hidden_sizes"); }
  Extent features() const override { return Extent(hiddenSizes.back(), "hidden_sizes"); }

  Value layer(GraphBuilder &graph, Value input, Extent size) const {
    Windows windows = Windows::square(7, 1, 3);
    windows.groups = size.size;
    Extent inner(4 * size.size, "hidden_sizes");
    Value images = graph.conv(input, "dwconv", size, size, windows);
    images = graph.layerNorm(images, "layernorm", size, kInnerEpsilon);
    images = graph.activation(graph.linear(images, "pwconv1", inner, size), "act", activation);
    images = graph.linear(images, "pwconv2", size, inner);
    if (hasLayerScale)
      images = graph.scaleChannels(images, graph.weight("layer_scale_parameter", {size}), "layer_scale_parameter");
    return graph.add(images, input, "");
  }

  Value pool(GraphBuilder &graph, Value images) override {
    return graph.layerNorm(graph.spatialMean(images, "pooler"), "layernorm", features(), epsilon);
  }

  int64_t patchHeight = 4, patchWidth = 4;
  std::vector<int64_t> hiddenSizes, depths;
  Extent stages = 1;
  Activation activation = Activation::GeluErf;
  double epsilon = 1e-12;
  bool hasLayerScale = true;
};

} // namespace

std::unique_ptr<Architecture> makeConvNext(const Config &config, const ImportOptions &) {
  return std::make_unique<ConvNext>(config);
}

} // namespace intarsia::importer
