//===- MixedInputs.h - Inputs of linears in blocks of 8 and of 4 bits -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_MIXEDINPUTS_H
#define INTARSIA_QUANTIZE_MIXEDINPUTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace intarsia {

/// Name of inputs in blocks of 8 and of 4 bits, which a calibration text has chosen (FMPQ: COMET, arXiv 2410.12168).
inline constexpr llvm::StringLiteral mixedActivations = "fmpq";

/// The input of linears: the order of its features, and how many of its blocks of 128 have 8 bits.
struct MixedInput {
  std::vector<std::string> weights; ///< keys of the matrices that it is multiplied by
  std::vector<int32_t> channels;    ///< a permutation of the features
  int64_t wideBlocks = 0;           ///< the first so many blocks have 8 bits, the others 4

  /// Returns the input as options of passes have it: `WIDE/CHANNEL-CHANNEL-…/KEY+KEY`.
  std::string option() const;
  /// Returns an error unless there are weights, channels are a permutation and there are so many blocks.
  llvm::Error check() const;
};

/// Returns inputs by the texts that option() gives. An error names what in a text is wrong, or a weight of two inputs.
llvm::Expected<std::vector<MixedInput>> parseMixedInputs(llvm::ArrayRef<std::string> texts);

} // namespace intarsia

#endif
