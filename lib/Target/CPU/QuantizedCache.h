//===- QuantizedCache.h - How the values of a quantized cache lie in memory -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_QUANTIZEDCACHE_H
#define INTARSIA_LIB_TARGET_CPU_QUANTIZEDCACHE_H

#include <cstdint>

namespace intarsia::cpu {

/// Values of 4 bits come in blocks of 32 in 16 bytes.
inline constexpr int64_t kBlockValues = 32, kBlockBytes = 16;

} // namespace intarsia::cpu

#endif
