//===- ImageModel.h - Models of images, from pixels to features and labels ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_IMAGEMODEL_H
#define INTARSIA_IMPORT_HUGGINGFACE_IMAGEMODEL_H

#include "lib/Import/HuggingFace/Registry.h"

namespace intarsia::importer {

/// A convolutional network: the function "main" of pixel_values [batch, channels, height, width], as transformers has
/// them. Inside, images are [batch, height, width, channels].
class ImageModel : public Architecture {
public:
  void build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) override;
  llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizeLimits() const override { return {}; }

protected:
  explicit ImageModel(const Config &config);

  /// Fixes the size of images to that of a setting; without a call it is that of `image_size` where config.json has it,
  /// and otherwise the caller's, in each call.
  void readImageSize(int64_t byDefault);

  /// Rounds a number of channels to a multiple of `divisor` that is at least `smallest` and not 10 % less.
  static int64_t makeDivisible(double channels, int64_t divisor, int64_t smallest);
  /// Builds a convolution without bias, its batch norm and its activation, under the names that most models have.
  static mlir::Value block(GraphBuilder &graph, mlir::Value images, llvm::StringRef module, Extent outputs,
                           Extent inputs, const Windows &windows, double epsilon, Activation activation);

  /// Returns the features of images, [batch, height, width, channels]. The scope of `graph` is the base model's.
  virtual mlir::Value encode(GraphBuilder &graph, mlir::Value images) = 0;
  /// Returns the number of channels of the features.
  virtual Extent features() const = 0;
  /// Emits the outputs of the base class. The scope is the base model's.
  virtual void baseOutputs(GraphBuilder &graph, mlir::Value images);
  /// Emits the outputs of a class with a head. The scope is the whole model's; `base` is the base model's.
  virtual void headOutputs(GraphBuilder &graph, mlir::Value images, Head head, llvm::StringRef base);
  /// Emits the features as transformers has them, [batch, channels, height, width].
  void outputFeatures(GraphBuilder &graph, mlir::Value images, llvm::StringRef name);
  /// Combines the features of all positions: [batch, channels].
  virtual mlir::Value pool(GraphBuilder &graph, mlir::Value images) { return graph.spatialMean(images, "pooler"); }
  /// True if the base class returns what is pooled as [batch, channels, 1, 1].
  virtual bool poolsToImages() const { return false; }
  /// Returns the module of the linear that computes logits.
  virtual llvm::StringRef classifier() const { return "classifier"; }

  Config config;
  Extent channels = 3;
  Size height = "height", width = "width";
};

} // namespace intarsia::importer

#endif
