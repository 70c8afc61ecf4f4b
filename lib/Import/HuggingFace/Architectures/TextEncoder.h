//===- TextEncoder.h - What encoders of token sequences have in common -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_TEXTENCODER_H
#define INTARSIA_IMPORT_HUGGINGFACE_TEXTENCODER_H

#include "lib/Import/HuggingFace/Architectures/Encoder.h"

namespace intarsia::importer {

/// The module names of one encoder layer: attention, residual and normalisation, feed-forward, residual and
/// normalisation (arXiv 1706.03762, figure 1, with the normalisation after each sum).
struct LayerNames {
  llvm::StringRef query, key, value, attention, attentionOutput, attentionSum, attentionNorm;
  llvm::StringRef inner, activation, outer, outerSum, outerNorm;
};

/// Inputs, mask, embeddings and layers of an encoder of token ids.
class TextEncoder : public Encoder {
public:
  llvm::SmallVector<Input> inputs(GraphBuilder &graph) const override;
  llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizeLimits() const override;
  Size sequence() const override { return "sequence"; }
  int64_t features() const override { return hidden.size; }

protected:
  explicit TextEncoder(const Config &config) : config(config) {}

  /// Reports a hidden size that is not divisible by the number of heads.
  void checkHeads(llvm::StringRef headsSetting) const;
  /// Returns "LayerNorm" of the sum of word, token type (if the model has them) and position embeddings. `positions` is
  /// [sequence, features] or [batch, sequence, features].
  mlir::Value embeddings(GraphBuilder &graph, mlir::Value positions) const;
  mlir::Value layer(GraphBuilder &graph, mlir::Value input, mlir::Value mask, const LayerNames &names) const;
  /// Returns i1 [batch, 1, 1, sequence]: true where attention_mask is not 0.
  mlir::Value attentionMask(GraphBuilder &graph) const;
  /// Returns the shape [batch, sequence, …].
  Shape tokens(llvm::ArrayRef<int64_t> more = {}) const;
  /// Builds linear, activation, normalisation, and a linear `decoder`. If weights are tied, this has the word
  /// embeddings and `tiedBias`, else `decoder`.weight and `decoder`.bias.
  mlir::Value maskedLanguageModel(GraphBuilder &graph, mlir::Value hidden, llvm::StringRef encoder,
                                  llvm::StringRef dense, Activation activation, llvm::StringRef norm,
                                  llvm::StringRef decoder, llvm::StringRef tiedBias) const;
  Extent labels() const;

  Config config;
  Extent vocabulary = 1, hidden = 1, intermediate = 1, positionRows = 1, tokenTypes = 0, layers = 1;
  int64_t heads = 1, longestSequence = 1;
  double epsilon = 1e-12;
  Activation activation = Activation::GeluErf;
};

} // namespace intarsia::importer

#endif
