//===- ViT.h - Vision Transformer ------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_VIT_H
#define INTARSIA_IMPORT_HUGGINGFACE_VIT_H

#include "lib/Import/HuggingFace/Architectures/Encoder.h"

namespace intarsia::importer {

class ViT : public Encoder {
public:
  explicit ViT(const Config &config, int64_t imageSize = 224);

  llvm::ArrayRef<ModelClass> classes() const override;
  llvm::StringRef prefix() const override { return "vit"; }
  llvm::StringRef anchor() const override { return "embeddings.cls_token"; }
  llvm::SmallVector<Input> inputs(GraphBuilder &graph) const override;
  llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizeLimits() const override { return {}; }
  Size sequence() const override { return patches() + 1; }
  int64_t features() const override { return hidden.size; }

  mlir::Value encode(GraphBuilder &graph) override;
  void baseOutputs(GraphBuilder &graph, mlir::Value state) override;
  void headOutputs(GraphBuilder &graph, mlir::Value state, Head head, llvm::StringRef encoder) override;

protected:
  /// Sees the hidden states behind each layer.
  virtual void keep(mlir::Value) {}
  int64_t patches() const { return (imageHeight / patchHeight) * (imageWidth / patchWidth); }

  Config config;
  Extent hidden = 1, intermediate = 1, channels = 1, poolerFeatures = 1, layers = 1;
  int64_t heads = 1, headDim = 1;
  int64_t imageHeight = 1, imageWidth = 1, patchHeight = 1, patchWidth = 1;
  double epsilon = 1e-12;
  bool queryBias = true;
  Activation activation = Activation::GeluErf, poolerActivation = Activation::Tanh;

private:
  /// Builds the convolution of patches, which do not overlap, as a linear over the pixels of each patch.
  mlir::Value embeddings(GraphBuilder &graph) const;
  mlir::Value layer(GraphBuilder &graph, mlir::Value input) const;
};

} // namespace intarsia::importer

#endif
