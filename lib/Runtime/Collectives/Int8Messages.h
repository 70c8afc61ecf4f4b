//===- Int8Messages.h - Floats that are rounded to 8 bits on their way between hosts -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A message has a scale in f32 for each 32 elements, then a byte for each element: 36 bytes instead of 128. An element
// is off by at most the largest of its 32, divided by 254. A block that has an infinity or a NaN becomes NaN.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_INT8MESSAGES_H
#define INTARSIA_RUNTIME_COLLECTIVES_INT8MESSAGES_H

#include <cstdint>

namespace intarsia::runtime {

inline constexpr uint64_t int8BlockElements = 32;

/// Returns the bytes of a message.
inline uint64_t int8MessageBytes(uint64_t elements) {
  return (elements + int8BlockElements - 1) / int8BlockElements * sizeof(float) + elements;
}

/// `message` begins at any address.
void encodeInt8(uint8_t *message, const float *source, uint64_t elements);
void decodeInt8(float *destination, const uint8_t *message, uint64_t elements);

} // namespace intarsia::runtime

#endif
