//===- StaticInputs.h - Inputs of linears with scales that a text has shown --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_STATICINPUTS_H
#define INTARSIA_QUANTIZE_STATICINPUTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace intarsia {

/// Name of inputs in integers of 8 bits whose scales a calibration text has shown.
inline constexpr llvm::StringLiteral staticScales = "8-static";

/// The input of linears: feature k becomes the integer that is nearest to it over `factors[k]`, and what it is
/// multiplied by in the weights is multiplied by `factors[k]` before it is rounded (SmoothQuant: arXiv 2211.10438,
/// equation 3).
struct StaticInput {
  std::vector<std::string> weights; ///< keys of the matrices that it is multiplied by
  std::vector<float> factors;

  /// Returns the input as options of passes have it: `BITS-BITS-…/KEY+KEY`, with the bits of factors in hexadecimal.
  std::string option() const;
  /// Returns an error unless there are weights, and factors whose reciprocals are finite and above zero as they are.
  llvm::Error check() const;
};

/// Returns inputs by the texts that option() gives. An error names what in a text is wrong, or a weight of two inputs.
llvm::Expected<std::vector<StaticInput>> parseStaticInputs(llvm::ArrayRef<std::string> texts);

} // namespace intarsia

#endif
