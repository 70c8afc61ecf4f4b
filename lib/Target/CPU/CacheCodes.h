//===- CacheCodes.h - How the codes of a quantized cache lie in memory ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_CACHECODES_H
#define INTARSIA_LIB_TARGET_CPU_CACHECODES_H

#include <cstdint>

namespace intarsia::cpu {

/// 4-bit codes come in blocks of 32 in 16 bytes.
inline constexpr int64_t kBlockCodes = 32, kBlockBytes = 16;

} // namespace intarsia::cpu

#endif
