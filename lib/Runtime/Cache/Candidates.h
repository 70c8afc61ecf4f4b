//===- Candidates.h - The likeliest next tokens, where logits are ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_CANDIDATES_H
#define INTARSIA_RUNTIME_CACHE_CANDIDATES_H

#include "lib/Runtime/Core/Module.h"
#include "lib/Runtime/Core/Tensor.h"

#include <array>

namespace intarsia::runtime {

/// The function that finds the likeliest tokens of a step function's logits on the device that computed them.
struct CandidatesFunction {
  size_t index = 0;
  int64_t count = 0;        // tokens of a row; 0: there is no such function
  Device *memory = nullptr; // the device in whose own memory logits are
};

/// Values and tokens [rows, count] and sums [rows, 2], as nn.candidates defines them.
using Candidates = std::array<Tensor, 3>;

/// Finds the function; none if the logits of the step function are in memory of the host, or if the compiler has not
/// added it. An error says what a function of its name lacks.
Status findCandidates(const Module &module, size_t step, CandidatesFunction &function);

/// Computes the candidates of rows of logits, each at a temperature.
Status computeCandidates(Module &module, const CandidatesFunction &function, const Tensor &logits,
                         const float *temperatures, Candidates &candidates);

} // namespace intarsia::runtime

#endif
