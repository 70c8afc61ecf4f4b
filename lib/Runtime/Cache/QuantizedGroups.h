//===- QuantizedGroups.h - Groups of quantized values of a cache --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// #nn.cache_format says what the values mean and how they are chosen: `scale * (q - zero)`, with a byte for each of
// scale and zero. Kernels do the same to what they append; this is for caches that come from another process.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_QUANTIZEDGROUPS_H
#define INTARSIA_RUNTIME_CACHE_QUANTIZEDGROUPS_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace intarsia::runtime {

/// The scale that a group's values are multiplied by, and the zero point that is subtracted before.
struct GroupParameters {
  uint8_t scale = 0; ///< bits 14 to 7 of an f16
  uint8_t zero = 0;  ///< a signed byte for 4 bits
};

/// Returns the value of a quantized one. `bits`: 4 or 8.
float groupValue(const GroupParameters &parameters, int bits, uint8_t quantized);

/// Chooses the parameters of a group.
GroupParameters chooseGroup(const std::vector<float> &values, int bits);
/// Quantizes a value.
uint8_t quantizeInGroup(const GroupParameters &parameters, int bits, float value);

/// Reads and writes an element of a matrix whose rows are whole blocks: of 4-bit elements 16 bytes hold 32.
uint8_t readQuantized(const uint8_t *bytes, int bits, size_t element);
void writeQuantized(uint8_t *bytes, int bits, size_t element, uint8_t quantized);

} // namespace intarsia::runtime

#endif
