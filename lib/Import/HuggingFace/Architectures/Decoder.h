//===- Decoder.h - Language models that continue a text -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_DECODER_H
#define INTARSIA_IMPORT_HUGGINGFACE_DECODER_H

#include "lib/Import/HuggingFace/Architectures/KeyValueCache.h"
#include "lib/Import/HuggingFace/Architectures/RotaryFrequencies.h"
#include "lib/Import/HuggingFace/Registry.h"

namespace intarsia::importer {

/// Builds the function "step" of a decoder over a paged cache. Its inputs are some tokens of several sequences, in any
/// mixture of prefill and decoding; its result is the logits of the requested tokens. docs/decisions/0008 says why.
///
///   input_ids, positions, sequences [tokens]      ids of tokens, their positions, and their rows of page_table
///   page_table [sequences, pages_of_a_sequence]   pages of each sequence, in order
///   output_tokens [outputs]                       indices of the tokens whose logits are wanted
///   cache.N.…                                     state, see KeyValueCache.h
///   → logits [outputs, vocabulary], f32
///
/// Activations are f32 for any type of weights.
class Decoder : public Architecture {
public:
  llvm::StringRef prefix() const override { return "model"; }
  llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizeLimits() const override;
  void build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) override;

protected:
  Decoder(const Config &config, const ImportOptions &options);

  /// Builds one layer: [tokens, hidden] → [tokens, hidden]. The scope is the layer's.
  virtual mlir::Value layer(GraphBuilder &graph, mlir::Value input, int64_t number) = 0;
  virtual mlir::Value embed(GraphBuilder &graph) const = 0;
  virtual mlir::Value finalNorm(GraphBuilder &graph, mlir::Value input) const = 0;
  virtual mlir::Value logits(GraphBuilder &graph, mlir::Value hidden, llvm::StringRef base) const = 0;

  /// These return the prefix before the number of a layer, and the module of the norm after the last layer.
  virtual llvm::StringRef layerContainer() const { return "layers."; }
  virtual llvm::StringRef finalNormName() const { return "norm"; }

  /// Reads the number of layers.
  Extent readLayers(llvm::StringRef setting, int64_t byDefault) const;
  /// Returns the maximal tokens of a text: --context, otherwise `byDefault`; at most `maximum`, which `setting` says.
  int64_t readContext(llvm::StringRef setting, int64_t maximum, int64_t byDefault);
  /// Returns for each layer true if it attends to a window: from layer_types if it is given, otherwise `byDefault`.
  std::vector<bool> readSlidingLayers(const Config &config, llvm::function_ref<bool(int64_t)> byDefault) const;

  /// Appends rows of new keys and values [tokens, key_value_heads, head_dim] to the caches of a layer, and attends.
  /// `window` of 0: no window; `softCap` of 0: no cap on scores; `sinks` [heads] may be null.
  mlir::Value cachedAttention(GraphBuilder &graph, mlir::Value query, mlir::Value key, mlir::Value value,
                              int64_t number, int64_t window, double softCap = 0.0, mlir::Value sinks = nullptr);
  /// Applies nn.rope to rows [tokens, heads, head_dim] at their positions.
  mlir::Value rotate(GraphBuilder &graph, mlir::Value input, const RotaryFrequencies &rotary) const;
  /// Multiplies by the vocabulary matrix: lm_head, or with `tied` the embedding `table` of the base model.
  mlir::Value languageModelHead(GraphBuilder &graph, mlir::Value hidden, llvm::StringRef base, llvm::StringRef table,
                                bool tied) const;

  Config config;
  std::optional<int64_t> contextAsked;
  Extent vocabulary = 1, hidden = 1, intermediate = 1, layers = 1;
  int64_t heads = 1, keyValueHeads = 1, headDim = 1, context = 1;
  double scale = 1.0;

private:
  KeyValueCache cache;
};

} // namespace intarsia::importer

#endif
