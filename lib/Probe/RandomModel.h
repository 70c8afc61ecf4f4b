//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Hugging Face directories of random weights, whose speed is measured: it does not depend on the values.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PROBE_RANDOMMODEL_H
#define INTARSIA_LIB_PROBE_RANDOMMODEL_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>

namespace intarsia::probe {

/// A Llama. Heads are of hidden / heads elements; the head shares its weights with the embedding.
struct DecoderSize {
  int64_t hidden, width, heads, keyHeads, layers, vocabulary;
};
/// A BERT.
struct EncoderSize {
  int64_t hidden, width, heads, layers, vocabulary;
};

/// Returns the weights that each token is multiplied with in a layer of a decoder.
double layerWeights(const DecoderSize &size);
/// Returns the weights that each token of an encoder is multiplied with.
double multipliedWeights(const EncoderSize &size);

/// Writes config.json and model.safetensors. `stored` is the type of the weights, F32 or BF16.
llvm::Error writeDecoder(const std::string &folder, const DecoderSize &size, llvm::StringRef stored);
llvm::Error writeEncoder(const std::string &folder, const EncoderSize &size, llvm::StringRef stored);

} // namespace intarsia::probe

#endif
