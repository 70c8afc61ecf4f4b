//===- DiffusionBlocks.h - What networks of diffusers are made of ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_DIFFUSIONBLOCKS_H
#define INTARSIA_IMPORT_HUGGINGFACE_DIFFUSIONBLOCKS_H

#include "lib/Import/HuggingFace/GraphBuilder.h"

namespace intarsia::importer {

/// The embedding of time steps [batch, size], activated; null where there is none.
struct TimeEmbedding {
  mlir::Value state;
  Extent size = 1;
};

/// Builds the modules that the networks of diffusers share, with the names of their weights. Images are [batch, height,
/// width, channels].
class DiffusionBlocks {
public:
  /// Reads `norm_num_groups`, `act_fn` and `block_out_channels`.
  explicit DiffusionBlocks(const Config &config);

  /// Returns the number of stages, each of another size of images.
  size_t stages() const { return channels.size(); }
  Extent sizeOf(size_t stage) const { return Extent(channels[stage], "block_out_channels"); }

  mlir::Value convolution(GraphBuilder &graph, mlir::Value images, llvm::StringRef module, Extent outputs,
                          Extent inputs) const;
  mlir::Value groupNorm(GraphBuilder &graph, mlir::Value images, llvm::StringRef module, Extent size,
                        double epsilon) const;
  mlir::Value activate(GraphBuilder &graph, mlir::Value value, llvm::StringRef module) const {
    return graph.activation(value, module, activation);
  }

  /// Builds a ResnetBlock2D.
  mlir::Value residual(GraphBuilder &graph, mlir::Value input, const llvm::Twine &module, Extent outputs, Extent inputs,
                       double epsilon, const TimeEmbedding &time = {}) const;
  /// Builds attention of all positions to each other with one head, after a norm and added to its input.
  mlir::Value attention(GraphBuilder &graph, mlir::Value input, const llvm::Twine &module, Extent size,
                        double epsilon) const;
  /// Builds a convolution of images of twice the height and width, whose positions are repeated; with 4 of 9 products.
  mlir::Value upsample(GraphBuilder &graph, mlir::Value images, Extent size) const;
  /// Builds a convolution that halves height and width. With `pad` 0 there is one row and column of zeros behind.
  mlir::Value downsample(GraphBuilder &graph, mlir::Value images, Extent size, int64_t pad) const;

private:
  std::vector<int64_t> channels;
  int64_t groups = 32;
  Activation activation = Activation::Silu;
};

/// Refuses kinds of blocks other than `supported`, and lists that have not one for each stage.
void refuseOtherBlocks(const Config &config, llvm::StringRef setting, size_t stages, llvm::StringRef byDefault,
                       llvm::ArrayRef<llvm::StringRef> supported);

} // namespace intarsia::importer

#endif
