//===- SwizzledPanels.h - Rows in shared memory as matrix instructions of four warps read them -------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of features of 16 bits are cut into panels of 64, 32 or 16 features, a panel after the other, each with its rows
// side by side. In a panel chunks of 16 bytes change places, so that eight rows have a chunk in different banks (PTX
// ISA, "Shared memory matrix layout": swizzles of 128, 64 and 32 bytes). Panels begin at multiples of 1024 bytes, or of
// eight of their rows.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_SWIZZLEDPANELS_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_SWIZZLEDPANELS_H

#include "Elements.h"

struct SwizzledPanels {
  int64_t rows, features; ///< features are a multiple of 16

  /// Features of a panel: as many as divide those of a row.
  int64_t width() const { return features % 64 == 0 ? 64 : features % 32 == 0 ? 32 : 16; }
  int64_t elementsOfPanel() const { return rows * width(); }
  /// Returns where, in elements, a chunk of eight features of a row begins.
  int64_t offsetOf(int64_t row, int64_t feature) const {
    int64_t chunks = width() / chunkElements, chunk = feature % width() / chunkElements;
    // The bits of the address from 128 on, as many as number the chunks of a row.
    int64_t swizzle = row * width() * 2 / 128 % chunks;
    return feature / width() * elementsOfPanel() + row * width() + (chunk ^ swizzle) * chunkElements;
  }
};

#endif
