//===- TileConfig.h - Tile shapes of a microarchitecture ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_TILECONFIG_H
#define INTARSIA_LIB_TARGET_CPU_TILECONFIG_H

#include "dialects/Rt/BlockPanels.h"
#include "lib/Kernel/VectorInstructions.h"
#include <cstdint>

namespace intarsia::cpu {

/// Width in columns of every panel that matmuls read, prepacked or not.
inline constexpr int64_t kPanelWidth = BlockPanels::rows;

/// Instructions that add four products of bytes, unsigned by signed, to a 32-bit sum.
enum class ByteDot {
  Plain,   ///< widened and multiplied
  Maddubs, ///< pmaddubsw and pmaddwd, or the latter alone on widened factors
  Vnni,    ///< vpdpbusd
  Sdot,    ///< sdot of AArch64, whose factors are both signed
  Usdot,   ///< usdot of AArch64
};
/// Returns what the instructions are called in IR.
llvm::StringRef nameOf(ByteDot dot);
/// Returns true if one instruction multiplies any unsigned bytes by signed ones exactly.
inline bool multipliesUnsigned(ByteDot dot) { return dot == ByteDot::Vnni || dot == ByteDot::Usdot; }
/// Returns true if the instruction multiplies by four bytes of a vector, for all columns.
inline bool multipliesByLane(ByteDot dot) { return dot == ByteDot::Sdot || dot == ByteDot::Usdot; }

/// Tile shapes of one microarchitecture. One table (TileConfig.cpp) holds every figure with its origin.
struct TileConfig {
  int64_t lanes;             ///< f32 elements of a vector register
  int64_t rows;              ///< rows of the register tile of a matmul
  int64_t columnVectors;     ///< vectors in a row of that tile; columnVectors * lanes divides kPanelWidth
  int64_t blockBytes;        ///< how much of the left operand a task keeps in the core's private cache
  int64_t keyBlock;          ///< keys that attention handles before it rescales its sums
  bool convertsF16 = true;   ///< has instructions between f16 and f32
  bool convertsBf16 = false; ///< has instructions from f32 to bf16
  bool rounds = true;        ///< has instructions that round a float to an integer
  bool gathers = false;      ///< has instructions that read each lane at an address of its own
  bool bf16Dot = false;      ///< bf16 dot products by vdpbf16ps, where that is faster than widening to f32
  ByteDot byteDot = ByteDot::Plain;
  int64_t quantizedBlockBytes =
      1280 << 10;               ///< how much of the left operand a task passes over for each quantized panel
  int64_t quantizedRows = 2;    ///< rows of the register tile of quantized matmuls
  int64_t quantizedVectors = 2; ///< vectors in a row of that tile
  int64_t tokenRows = 4;        ///< rows of the register tile where a row has few scales
  int64_t unpackedSteps = 64;   ///< steps of 32 k's of a panel that are unpacked at a time
  int64_t decodeRows = 2;       ///< the most rows for which weights are unpacked in registers, 1, 2, 4 or 8
  int64_t inOrderRows = 0; ///< the most rows for which weights are loaded in order of addresses instead of prefetched

  kernel::VectorInstructions instructions() const { return {lanes, convertsF16, convertsBf16, rounds, gathers}; }
};

} // namespace intarsia::cpu

#endif
