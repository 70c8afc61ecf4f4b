//===- OnlineSoftmax.h - Softmax of scores that come in parts ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores are logarithms to base 2. Sums are relative to the power of the largest score so far (arXiv 2205.14135,
// algorithm 1).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ONLINESOFTMAX_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ONLINESOFTMAX_H

#include "Device.h"

/// Returns what is subtracted from scores whose maximum is given: of a row that has seen no key 0, so that its powers
/// are 0 and not NaN.
inline float shiftOf(float maximum) { return maximum == lowest ? 0 : maximum; }

/// Adds a score with the value zero.
inline void addSink(float &maximum, float &total, float &factor, float sink) {
  float next = larger(maximum, sink), shift = shiftOf(next);
  factor = exp2(maximum - shift);
  total = total * factor + exp2(sink - shift);
  maximum = next;
}

/// Returns what sums are multiplied by at the end: rows that have seen no key are zero.
inline float inverseOf(float total) { return total == 0 ? 0 : 1 / total; }

#endif
