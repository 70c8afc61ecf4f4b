//===- Mxfp4.h - Weights that archives hold in MXFP4 --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_MXFP4_H
#define INTARSIA_LIB_ASSEMBLE_MXFP4_H

#include <cstdint>

namespace intarsia::assemble {

/// Elements of a block, which share a scale.
inline constexpr int64_t mxfp4Block = 32;

/// Writes the elements [first, first + count) as bf16, exactly; both are multiples of a block. A byte of `blocks` holds
/// two codes, the first in its lower four bits; scales are E8M0 (OCP Microscaling 1.0, sections 5.3.3 and 5.4.1).
/// Returns a pointer to the written values.
const uint16_t *decodeMxfp4(const void *blocks, const void *scales, int64_t first, int64_t count, uint16_t *bf16);

} // namespace intarsia::assemble

#endif
