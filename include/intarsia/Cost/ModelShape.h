//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Cost figures that follow from a decoder's published shape: parameters by part, cache, flops. Norms and biases are not
// counted (below 0.1 % of every model here), nor are modules that predict several tokens ahead.
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
  int keyDim = 0;   ///< per head; Latent: without the rotary part
  int valueDim = 0;
  int window = 0;                                       ///< largest number of tokens that a token sees; 0: all before
                                                        ///< it
  bool outputGate = false;                              ///< a gate as large as the queries multiplies the result
  bool valuesAreKeys = false;                           ///< no separate projection of values
  bool normsOverHeads = false;                          ///< queries and keys are normed over all heads together
  int queryRank = 0, cacheRank = 0, rotaryDim = 0;      ///< Latent
  int selectedTokens = 0, indexHeads = 0, indexDim = 0; ///< tokens that an indexer selects; 0: no indexer

  /// Returns the weights of one layer.
  double parameters(int hidden) const;
  /// Returns the weights of the last projection of one layer.
  double outputParameters(int hidden) const { return double(heads) * valueDim * hidden; }
  /// Returns the elements that one layer caches for a token, including keys of the indexer.
  double cachedElementsPerToken() const;
  /// Returns the bytes of one layer's state of a sequence, in f32. 0 unless Linear.
  double stateBytes() const;
  /// Returns the tokens that a token at position `context` reads from the cache: bounded by window and selection.
  double visible(double context) const;
  /// Returns the same, averaged over the tokens of a prompt.
  double visibleOfPrompt(double tokens) const;
  /// Returns the flops of one layer's scores and mixing for one token that sees `tokens` others, cached or (prefill)
  /// computed with expanded keys. Linear: the flops of the state's update, independent of `tokens`.
  double scoreFlops(double tokens, bool prefill) const;
  /// Returns the flops of the indexer for one token with `context` tokens before it.
  double indexFlops(double context) const;
};

struct ModelShape {
  std::string name;
  int hidden = 0;
  int layers = 0;
  int vocabulary = 0;
  bool tiedEmbeddings = false;
  std::vector<AttentionLayers> attention; ///< covers all `layers`
  int denseLayers = 0;                    ///< number of layers with a dense feed-forward part
  int denseWidth = 0;
  int feedForwardMatrices = 3;  ///< 2 without a gate
  bool hasBiasedLayers = false; ///< every linear adds a bias, attention a position bias to every score (BLOOM)
  int expertLayers = 0;         ///< number of layers with experts
  int experts = 0, expertsPerToken = 0, expertWidth = 0;
  double sharedWidth = 0; ///< width of the part beside the experts that every token passes

  /// Counts of parameters.
  double embeddingParameters() const { return double(vocabulary) * hidden; }
  double headParameters() const { return double(vocabulary) * hidden; }
  double attentionParameters() const;
  double denseParameters() const;  ///< feed-forward parts of dense layers, shared parts beside experts, and routers
  double expertParameters() const; ///< one expert in one layer
  double allExpertParameters() const { return expertParameters() * experts * expertLayers; }
  /// Returns all parameters; tied embeddings count once.
  double parameters() const;
  /// Returns the parameters that one token passes, the published "active" figure: experts per token, both embeddings.
  double activeParameters() const;
  /// Returns the parameters that a token is multiplied with, without the head: attention, dense, its experts.
  double multipliedParameters() const;

  /// Returns the elements cached for a sequence of `context` tokens (windows bound what is kept).
  double cachedElements(double context) const;
  /// Returns the growth of the cache for each further token while no window is full, in bytes.
  double cacheBytesPerToken(double bytesPerElement) const;
  double stateBytes() const;
  /// Returns the flops of a prompt, without the head.
  double prefillFlops(double tokens) const;
  /// Returns the flops of one token with `context` tokens before it, including the head.
  double decodeFlops(double context) const;

  /// Returns the expected share of a layer's experts that `tokens` tokens touch: with even popularity 1 − (1 −
  /// k/E)^tokens; with popularity that varies between experts (gamma distributed, squared coefficient of variation
  /// `dispersion`) 1 − (1 + tokens·k/E·dispersion)^(−1/dispersion), the zero class of a negative binomial.
  double expertsTouched(double tokens, double dispersion) const;

  /// Reads a `config.json` as Hugging Face names its settings. Errors name the setting that is missing, not a number,
  /// or not expressible in the shape.
  static llvm::Expected<ModelShape> parse(llvm::StringRef json, llvm::StringRef name);
  /// Returns a dense decoder with so many parameters and bytes of a 16-bit cache for each token. Its layers are as
  /// many, and as wide for their number, as in published models of its size. Fails if no decoder has such a cache.
  static llvm::Expected<ModelShape> ofParameters(llvm::StringRef name, double parameters, double cacheBytesPerToken);
};

/// Returns the shapes that are part of the program (catalogue/models), by name.
llvm::ArrayRef<ModelShape> catalogueShapes();
/// Looks up a shape; the error lists the nearest names. A name that ends in ".json", has a slash or is a directory is
/// the path of a config.json or of the directory that has it.
llvm::Expected<const ModelShape *> findShape(llvm::StringRef name);
/// Returns true if the name of a shape is a path.
bool isPathOfShape(llvm::StringRef name);

} // namespace intarsia

#endif
