//===- WarpgroupMultiply.h - Matrix instructions of four warps --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_EMULATED_WARPGROUPMULTIPLY_H
#define INTARSIA_LIB_RUNTIME_EMULATED_WARPGROUPMULTIPLY_H

#include "lib/Support/Status.h"

namespace intarsia::runtime {

class SharedMemory;

/// A matrix in shared memory as wgmma's descriptors give it (PTX ISA, "Matrix descriptor format"): rows along the
/// depth, with 8 rows after each other and `groupBytes` from one group of 8 to the next.
struct SharedMatrix {
  uint64_t offset;     ///< of its first element in shared memory
  uint64_t groupBytes; ///< the stride dimension byte offset
  uint64_t rowBytes;   ///< 32, 64 or 128: the swizzle

  /// Returns the offset of a byte of a row.
  uint64_t offsetOf(uint32_t row, uint32_t byte) const;
};

/// Reads a descriptor. Returns an error for one without a swizzle, or with a base offset.
Status readDescriptor(uint64_t descriptor, const SharedMemory &shared, SharedMatrix &matrix);

/// Adds a lane's part of A * B to its sums. `element` is one of ITX_EMULATED_WGMMA_…. Returns an error if an element is
/// outside of shared memory, or not written.
Status multiplyOfWarpgroup(const SharedMemory &shared, const SharedMatrix &a, const SharedMatrix &b, uint32_t warp,
                           uint32_t lane, uint32_t columns, int32_t element, float *sums);

} // namespace intarsia::runtime

#endif
