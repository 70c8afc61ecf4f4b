//===- WarpgroupMultiply.h - Matrix instructions of four warps --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_EMULATED_WARPGROUPMULTIPLY_H
#define INTARSIA_LIB_RUNTIME_EMULATED_WARPGROUPMULTIPLY_H

#include "lib/Runtime/Emulated/ProxyWrites.h"
#include "lib/Runtime/Emulated/SharedMemory.h"

#include <vector>

namespace intarsia::runtime {

/// A matrix in shared memory as wgmma's descriptors give it (PTX ISA, "Matrix descriptor format"): its rows lie along
/// the depth or, transposed, its columns do, in panels of `rowBytes`. 8 of what lies in memory side by side follow each
/// other, with `groupBytes` from one group of 8 to the next.
struct SharedMatrix {
  uint64_t offset = 0;     ///< of its first element in shared memory
  uint64_t groupBytes = 0; ///< the stride dimension byte offset
  uint64_t panelBytes = 0; ///< the leading dimension byte offset, which only transposed matrices have
  uint64_t rowBytes = 0;   ///< 32, 64 or 128: the swizzle
  bool transposed = false;

  /// Returns the offset of a byte of a row.
  uint64_t offsetOf(uint32_t row, uint32_t byte) const;
};

/// Reads a descriptor. Returns an error for one without a swizzle, or with a base offset.
Status readDescriptor(uint64_t descriptor, bool transposed, const SharedMemory &shared, SharedMatrix &matrix);

/// Adds a lane's part of A * B to its sums. `element` is one of ITX_EMULATED_WGMMA_…. Returns an error if an element is
/// outside of shared memory, or not written.
Status multiplyOfWarpgroup(const SharedMemory &shared, const SharedMatrix &a, const SharedMatrix &b, uint32_t warp,
                           uint32_t lane, uint32_t columns, int32_t element, float *sums);
/// The same for elements of 16 bits with the rows of A in the registers of a warp: for each of its lanes four words,
/// and the sums. Sums are those so far, or zeros.
Status multiplyRegistersOfWarpgroup(const SharedMemory &shared, const void *const *a, const SharedMatrix &b,
                                    uint32_t columns, bool isBf16, void *const *sums);

/// The products of a warp that may not be done, in groups: what they read of shared memory must not change.
class PendingProducts {
public:
  /// Drops all products, with shared memory.
  void clear();
  /// Notes a product that reads rows of a matrix. Returns an error if a thread has written some of them without a fence
  /// behind it, or if the host has no memory left to note it.
  Status add(const SharedMatrix &matrix, uint32_t firstRow, uint32_t rows, SharedMemory &shared,
             const ProxyWrites &writes);
  /// Makes a group of the products since the last one.
  [[nodiscard]] bool commit();
  /// Ends the oldest groups until `groups` are left.
  void end(uint64_t groups, SharedMemory &shared);

private:
  std::vector<uint64_t> chunks_; ///< offsets of those that are read, in the order of products
  std::vector<size_t> ends_;     ///< of each group, in chunks_
};

} // namespace intarsia::runtime

#endif
