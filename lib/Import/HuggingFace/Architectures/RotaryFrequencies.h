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

/// Radians that a pair of features turns from one position to the next, and what sine and cosine are multiplied by.
struct RotaryFrequencies {
  std::vector<float> frequencies; ///< [rotary_dim / 2]
  float attentionFactor = 1.0f;
};

/// Reads "rope_parameters", or "rope_theta" and "rope_scaling", of a model whose heads have `headDim` features. Kinds:
/// default (arXiv 2104.09864), linear (arXiv 2306.15595), llama3 (the Llama 3.1 release), yarn (arXiv 2309.00071).
/// Others are refused by name.
RotaryFrequencies readRotaryFrequencies(const Config &config, int64_t headDim, double thetaByDefault);

} // namespace intarsia::importer

#endif
