//===- QuantizedPanels.h - How kernels multiply the elements of quantized panels ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_QUANTIZEDPANELS_H
#define INTARSIA_LIB_TARGET_CPU_QUANTIZEDPANELS_H

#include "lib/Kernel/PanelEmitter.h"
#include "lib/Target/CPU/TileConfig.h"

namespace intarsia::cpu {

/// Blocks of the weight in a step of 32 k's: two where a block is shorter, else one, which others may share.
inline int64_t blocksOfStep(const BlockPanels &panels) {
  return panels.block && panels.block < BlockPanels::stepDepth ? BlockPanels::stepDepth / panels.block : 1;
}

/// Elements as they are multiplied, bytes, are their values times `multiplier`, plus `offset`.
struct UnpackedEncoding {
  int64_t offset;
  double multiplier;
};
inline UnpackedEncoding encodingOf(const BlockPanels &panels, ByteDot dot) {
  if (panels.isE2M1)
    return {12, 2}; // halves up to 6 become 0 … 24
  // pmaddubsw adds in 16 bits: what is unsigned must stay below 129. sdot takes no byte from 128 on for unsigned.
  if (panels.elementBits == 8 && (dot == ByteDot::Maddubs || dot == ByteDot::Sdot))
    return {0, 1};
  return {panels.integerOffset, 1};
}
using kernel::scaleFactor;

/// Steps that share a scale of activations where their blocks are longer than a step.
inline constexpr int64_t kGroup = 8;
/// Bytes of the record of a step of activations (RecordEmitter.cpp), and of those of a row.
inline int64_t recordBytes(const BlockPanels &panels) { return 4 * blocksOfStep(panels) + 4 + BlockPanels::stepDepth; }
inline int64_t rowBytes(const BlockPanels &panels) { return panels.steps() * recordBytes(panels); }
/// Rows of f32 that a block is scaled by, unpacked.
inline int64_t scaleRows(const BlockPanels &panels) { return BlockPanels::rows * (panels.hasMinima ? 2 : 1); }

/// Up to two passes over a panel that is in the second-level cache unpack it in registers: the second costs less than
/// writing the panel down.
inline constexpr int64_t kDecodePasses = 2;
/// The least that is worth prefetching at a step of many rows: a cache line every eight steps.
inline constexpr int64_t kLeastAhead = 8;

} // namespace intarsia::cpu

#endif
