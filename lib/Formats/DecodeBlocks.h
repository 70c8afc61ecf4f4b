//===- DecodeBlocks.h - The values that blocks of GGUF files mean -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_DECODEBLOCKS_H
#define INTARSIA_LIB_FORMATS_DECODEBLOCKS_H

#include "lib/Formats/GgmlTypes.h"

namespace intarsia::gguf {

/// The contents of a block. A value is scale * scales[part] * (quantized - offset) - minimum * minima[part], as
/// far as the type has these; q4_1 adds its minimum.
struct BlockParts {
  uint8_t quantized[256];          ///< unsigned; signed values have the offset added
  uint8_t scales[16], minima[16];  ///< integer scales of parts; two's complement in q6_k
  uint16_t scale = 0, minimum = 0; ///< as the block holds them, little-endian: f16, or E8M0 in one byte
};

/// Unpacks a block of q4_0, q4_1, q8_0, q4_k, q5_k, q6_k, tq1_0, tq2_0 or mxfp4; null for other types.
using TakeApart = void (*)(const uint8_t *block, BlockParts &parts);
TakeApart partsOf(const GgmlType &type);

/// Decodes `count` blocks of a type that `isDecoded` into `values`, type.elements each. The operations and their order
/// are those of quants.dequantize in the `gguf` package, so that the results are equal.
void decodeBlocks(const GgmlType &type, const void *blocks, uint64_t count, float *values);

/// Decodes elements [first, first + count) of a tensor whose blocks begin at `blocks`; they need not be whole blocks.
void decodeElements(const GgmlType &type, const void *blocks, uint64_t first, uint64_t count, float *values);

} // namespace intarsia::gguf

#endif
