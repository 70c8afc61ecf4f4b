//===- RowScales.h - Rows of bytes with scales --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_ROWSCALES_H
#define INTARSIA_DIALECTS_NN_ROWSCALES_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace intarsia::nn {

/// The most features of a row of integers of 8 bits with one scale: sums of their products by weights of 8 bits, of
/// 128 * 128 at most, fit in 32 bits.
inline constexpr int64_t mostFeaturesOfRowScale = ((int64_t(1) << 31) - 1) / (128 * 128);

/// The range of integers of 8 bits with known scales.
inline constexpr float lowestKnown = -128.0f, highestKnown = 127.0f;

/// On an nn.quantize with known scales: what else reads its input may read the integers in its place, a unit attribute.
inline constexpr llvm::StringLiteral replacesInputAttr = "nn.replaces_input";

} // namespace intarsia::nn

#endif
