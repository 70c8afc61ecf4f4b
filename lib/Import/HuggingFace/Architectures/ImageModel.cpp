//===- ImageModel.cpp - Models of images, from pixels to features and labels -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/ImageModel.h"

using namespace mlir;

namespace intarsia::importer {

ImageModel::ImageModel(const Config &config) : config(config) {
  refuseCommonSettings(config);
  channels = config.extent("num_channels", 3);
  if (config.has("image_size"))
    readImageSize(1);
}

void ImageModel::readImageSize(int64_t byDefault) {
  std::tie(height, width) = config.integerPair("image_size", byDefault);
}

int64_t ImageModel::makeDivisible(double channels, int64_t divisor, int64_t smallest) {
  int64_t multiple = int64_t(channels + divisor / 2.0) / divisor * divisor, result = std::max(smallest, multiple);
  return result < 0.9 * channels ? result + divisor : result;
}

Value ImageModel::block(GraphBuilder &graph, Value images, llvm::StringRef module, Extent outputs, Extent inputs,
                        const Windows &windows, double epsilon, Activation activation) {
  GraphBuilder::Scope scope(graph, module);
  images = graph.conv(images, "convolution", outputs, inputs, windows, /*bias=*/false);
  images = graph.batchNorm(images, "normalization", outputs, epsilon);
  return graph.activation(images, "activation", activation);
}

void ImageModel::outputFeatures(GraphBuilder &graph, Value images, llvm::StringRef name) {
  Location at = graph.location(name);
  images = graph.channelsFirst(at, images);
  graph.output(images, name, graph.shapeOf(at, images));
}

void ImageModel::baseOutputs(GraphBuilder &graph, Value images) {
  outputFeatures(graph, images, "last_hidden_state");
  Value pooled = pool(graph, images);
  Shape shape{"batch", features().size};
  if (poolsToImages()) {
    shape.append({1, 1});
    pooled = graph.expandShape(pooled, "pooler", shape, {{0}, {1, 2, 3}});
  }
  graph.output(pooled, "pooler_output", shape);
}

void ImageModel::headOutputs(GraphBuilder &graph, Value images, Head, llvm::StringRef base) {
  Value pooled;
  {
    GraphBuilder::Scope scope(graph, base);
    pooled = pool(graph, images);
  }
  Extent labels(readLabels(config).size(), "id2label");
  graph.output(graph.linear(pooled, classifier(), labels, features()), "logits", {"batch", labels.size});
}

void ImageModel::build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) {
  Input pixels{"pixel_values", graph.getActivationType(), {"batch", channels.size, height, width}, {}, {}};
  graph.beginFunction("main", pixels);
  Value images;
  {
    GraphBuilder::Scope scope(graph, base);
    images = graph.channelsLast(graph.location("pixel_values"), graph.input("pixel_values"));
    images = encode(graph, images);
    if (modelClass.head == Head::Base && !graph.sink().any())
      baseOutputs(graph, images);
  }
  if (modelClass.head != Head::Base && !graph.sink().any())
    headOutputs(graph, images, modelClass.head, base);
  graph.endFunction(sizeLimits(), metadata(graph.getBuilder()));
}

} // namespace intarsia::importer
