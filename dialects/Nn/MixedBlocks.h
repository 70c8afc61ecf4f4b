//===- MixedBlocks.h - Blocks of 8 and of 4 bits in one tensor ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_MIXEDBLOCKS_H
#define INTARSIA_DIALECTS_NN_MIXEDBLOCKS_H

#include <cstdint>

namespace intarsia::nn {

/// Features of a block where some blocks have 8 bits and others 4 (FMPQ: COMET, arXiv 2410.12168).
inline constexpr int64_t mixedBlock = 128;

/// What the largest magnitude of a block of 8 and of 4 bits becomes. -8 is left out, as -128 is: the sign of a scale
/// would have to be found for each token.
inline constexpr float largestOfWideBlock = 127.0f, largestOfNarrowBlock = 7.0f;

} // namespace intarsia::nn

#endif
