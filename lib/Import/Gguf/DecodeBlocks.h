//===- DecodeBlocks.h - The numbers that blocks of GGUF files mean ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_GGUF_DECODEBLOCKS_H
#define INTARSIA_IMPORT_GGUF_DECODEBLOCKS_H

#include "intarsia/GgmlTypes.h"

namespace intarsia::gguf {

/// Decodes `count` blocks of a type that `isDecoded` into `values`, type.elements each. The operations and their order
/// are those of quants.dequantize in the `gguf` package, so that every number is equal to its.
void decodeBlocks(const GgmlType &type, const void *blocks, uint64_t count, float *values);

/// Elements [first, first + count) of a tensor whose blocks begin at `blocks`; they need not be whole blocks.
void decodeElements(const GgmlType &type, const void *blocks, uint64_t first, uint64_t count, float *values);

} // namespace intarsia::gguf

#endif
