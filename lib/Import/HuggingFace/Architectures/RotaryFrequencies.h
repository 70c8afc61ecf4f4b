//===- RotaryFrequencies.h - Frequencies of rotary position embeddings --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_ROTARYFREQUENCIES_H
#define INTARSIA_IMPORT_HUGGINGFACE_ROTARYFREQUENCIES_H

#include "lib/Import/HuggingFace/Config.h"
#include <vector>

namespace intarsia::importer {

/// The angles, in radians, that pairs of features turn from one position to the next, and the factor of sine and
/// cosine.
struct RotaryFrequencies {
  std::vector<float> frequencies; ///< [rotary_dim / 2]
  float attentionFactor = 1.0f;
  bool interleaved = false; ///< true if pairs are neighbours, as in GGUF files of Llama
  std::string remark;       ///< what users are told of a setting without effect; may be empty
};

/// Which features of a head models of a type rotate.
enum class RotatedFeatures { All, PartialRotaryFactor };

/// Reads "rope_parameters", or "rope_theta" and "rope_scaling", of a model whose heads have `headDim` features, for
/// texts of up to `context` tokens. Kinds: default (arXiv 2104.09864), linear (arXiv 2306.15595), dynamic (section 3.3
/// of arXiv 2309.00071), llama3 (the Llama 3.1 release), yarn (arXiv 2309.00071), longrope (arXiv 2402.13753),
/// factors (a list of divisors of the frequencies, as in GGUF files). Other kinds are refused by name, and so are two
/// spellings of a setting that differ. `byDefault` are the parameters where config.json has none.
RotaryFrequencies readRotaryFrequencies(const Config &config, int64_t headDim, double thetaByDefault, int64_t context,
                                        RotatedFeatures features, std::optional<Config> byDefault = std::nullopt);

/// Makes the frequencies from settings for some layers: `parameters`, absent for kind default, of which "rope_theta"
/// is an alternative spelling of `thetaSetting` in `config`. "rope_dimensions", which GGUF files have, takes precedence
/// over partial_rotary_factor.
RotaryFrequencies makeRotaryFrequencies(const Config &config, const std::optional<Config> &parameters,
                                        llvm::StringRef thetaSetting, double thetaByDefault, int64_t headDim,
                                        int64_t context, RotatedFeatures features);

/// Returns the maximal tokens of a text for which one set of frequencies is exact. This is
/// original_max_position_embeddings with longrope, whose frequencies depend on the length of the text, otherwise
/// `maximum`.
int64_t exactContext(const Config &config, int64_t maximum);

} // namespace intarsia::importer

#endif
