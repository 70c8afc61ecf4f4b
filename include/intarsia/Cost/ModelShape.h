//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// What a decoder's published shape says about the cost of serving it: parameters by part, cache, flops. Norms and
// biases are not counted (below 0.1 % of every model here), nor are modules that predict several tokens ahead.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_MODELSHAPE_H
#define INTARSIA_COST_MODELSHAPE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace intarsia {

/// Layers of a model that mix tokens in the same way.
struct AttentionLayers {
  enum class Kind {
    Grouped, ///< heads, with keys and values shared by groups of them
    Latent,  ///< DeepSeek's multi-head latent attention: one compressed vector a token is cached
    Linear,  ///< gated delta rule: a state of fixed size instead of a cache
  };
  Kind kind = Kind::Grouped;
  int layers = 0;
  int heads = 0;
  int keyHeads = 0; ///< Grouped: heads of keys and of values; Linear: heads of queries and of keys
  int keyDim = 0;   ///< of a head; Latent: without the part that positions rotate
  int valueDim = 0;
  int window = 0;                                       ///< tokens that a token sees at most; 0: all before it
  bool outputGate = false;                              ///< a gate as large as the queries multiplies the result
  bool valuesAreKeys = false;                           ///< no projection of values of their own
  int queryRank = 0, cacheRank = 0, rotaryDim = 0;      ///< Latent
  int selectedTokens = 0, indexHeads = 0, indexDim = 0; ///< tokens that an indexer selects; 0: no indexer

  /// Weights of one layer.
  double parameters(int hidden) const;
  /// Numbers that one layer caches for a token, keys of the indexer included.
  double cachedNumbersPerToken() const;
  /// Bytes of one layer's state of a sequence, in f32. 0 unless Linear.
  double stateBytes() const;
  /// Tokens that a token at position `context` reads from the cache: bounded by window and selection.
  double visible(double context) const;
  /// The same, averaged over the tokens of a prompt.
  double visibleOfPrompt(double tokens) const;
  /// Flops of one layer's scores and mixing for one token that sees `tokens` others, cached or (prefill) computed with
  /// expanded keys. Linear: of the state's update, whatever `tokens` is.
  double scoreFlops(double tokens, bool prefill) const;
  /// Flops of the indexer for one token with `context` tokens before it.
  double indexFlops(double context) const;
};

struct ModelShape {
  std::string name;
  int hidden = 0;
  int layers = 0;
  int vocabulary = 0;
  bool tiedEmbeddings = false;
  std::vector<AttentionLayers> attention; ///< covers `layers` together
  int denseLayers = 0;                    ///< whose feed-forward part is dense
  int denseWidth = 0;
  int feedForwardMatrices = 3;  ///< 2 without a gate
  bool hasBiasedLayers = false; ///< every product adds a bias, attention a position bias to every score (BLOOM)
  int expertLayers = 0;         ///< whose feed-forward part is experts
  int experts = 0, expertsPerToken = 0, expertWidth = 0;
  double sharedWidth = 0; ///< of what every token passes beside the experts

  /// Numbers of weights.
  double embeddingParameters() const { return double(vocabulary) * hidden; }
  double headParameters() const { return double(vocabulary) * hidden; }
  double attentionParameters() const;
  double denseParameters() const;  ///< feed-forward of dense layers, what experts share, and routers
  double expertParameters() const; ///< of one expert in one layer
  double allExpertParameters() const { return expertParameters() * experts * expertLayers; }
  /// All, tied embeddings once.
  double parameters() const;
  /// Those that one token passes, the published "active" figure: experts per token, both embeddings.
  double activeParameters() const;
  /// Those that a token is multiplied with, without the head: attention, dense, its experts.
  double multipliedParameters() const;

  /// Numbers cached for a sequence of `context` tokens (windows bound what is kept).
  double cachedNumbers(double context) const;
  /// By which each further token grows the cache while no window is full, times the bytes of a number.
  double cacheBytesPerToken(double bytesPerNumber) const;
  double stateBytes() const;
  /// Flops of a prompt, without the head.
  double prefillFlops(double tokens) const;
  /// Flops of one token with `context` tokens before it, head included.
  double decodeFlops(double context) const;

  /// Expected share of a layer's experts that `tokens` tokens touch: with even popularity 1 − (1 − k/E)^tokens;
  /// popularity that varies between experts (gamma distributed, squared coefficient of variation `dispersion`) gives 1
  /// − (1 + tokens·k/E·dispersion)^(−1/dispersion), the zero class of a negative binomial.
  double expertsTouched(double tokens, double dispersion) const;

  /// Reads a `config.json` as Hugging Face names its settings. Errors name the setting: missing, not a number, or one
  /// that the shape cannot express.
  static llvm::Expected<ModelShape> parse(llvm::StringRef json, llvm::StringRef name);
};

/// Shapes that are part of the program (catalogue/models), by name.
llvm::ArrayRef<ModelShape> catalogueShapes();
/// Looks up a shape; the error lists the nearest names.
llvm::Expected<const ModelShape *> findShape(llvm::StringRef name);

} // namespace intarsia

#endif
