//===- WarpgroupMultiply.cpp - Matrix instructions of four warps ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/WarpgroupMultiply.h"

#include "intarsia/emulated_abi.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Runtime/Emulated/SharedMemory.h"

#include <cstring>

namespace intarsia::runtime {

/// The bytes of a row that wgmma multiplies: 16 elements of 16 bits, or 32 of 8.
static constexpr uint32_t rowBytes = 32, deepest = 32;
/// Bits of an address in a descriptor, which counts in units of 16 bytes.
static constexpr uint64_t addressMask = 0x3FFFF, fieldMask = 0x3FFF;

uint64_t SharedMatrix::offsetOf(uint32_t row, uint32_t byte) const {
  uint64_t at = offset + row / 8 * groupBytes + row % 8 * rowBytes + byte;
  // Chunks of 16 bytes change places by the bits of the address above the row's.
  uint64_t chunks = rowBytes / 16;
  return at ^ ((at >> 7 & (chunks - 1)) << 4);
}

Status readDescriptor(uint64_t descriptor, const SharedMemory &shared, SharedMatrix &matrix) {
  static constexpr uint64_t swizzled[] = {0, 128, 64, 32};
  matrix.rowBytes = swizzled[descriptor >> 62];
  if (matrix.rowBytes == 0)
    return error(ITX_INTERNAL, "the matrix descriptor 0x%llx has no swizzle, which is not emulated",
                 (unsigned long long)descriptor);
  if (descriptor >> 49 & 7)
    return error(ITX_INTERNAL, "the matrix descriptor 0x%llx has a base offset, which is not emulated",
                 (unsigned long long)descriptor);
  uint64_t base = reinterpret_cast<uintptr_t>(shared.address());
  matrix.offset = ((descriptor & fieldMask) * 16 - base) & addressMask;
  matrix.groupBytes = (descriptor >> 32 & fieldMask) * 16;
  return Status::success();
}

/// Reads the elements of a row.
static Status readRow(const SharedMemory &shared, const SharedMatrix &matrix, uint32_t row, int32_t element,
                      float (&values)[deepest]) {
  constexpr uint32_t chunkBytes = 16; // that stay together
  float *value = values;
  for (uint32_t first = 0; first < rowBytes; first += chunkBytes) {
    uint64_t offset = matrix.offsetOf(row, first);
    const uint8_t *address = shared.address() + offset;
    uint16_t bits[chunkBytes / 2];
    if (!shared.contains(address, sizeof(bits)))
      return error(ITX_INTERNAL, "multiplies 16 bytes at offset %llu of shared memory, which has %llu bytes",
                   (unsigned long long)offset, (unsigned long long)shared.bytes());
    if (!shared.areWritten(address, sizeof(bits)))
      return error(
          ITX_INTERNAL,
          "multiplies 16 bytes at offset %llu of shared memory, where nothing has been written to offset %llu; "
          "is a barrier or a wait for asynchronous copies missing?",
          (unsigned long long)offset, (unsigned long long)shared.firstUnwritten(address, sizeof(bits)));
    std::memcpy(bits, address, sizeof(bits));
    for (uint16_t each : bits) {
      if (element == ITX_EMULATED_WGMMA_E4M3) {
        *value++ = decodeFloat(floatE4M3, each & 0xFF);
        *value++ = decodeFloat(floatE4M3, each >> 8);
      } else {
        *value++ = element == ITX_EMULATED_WGMMA_BF16 ? decodeBf16(each) : decodeF16(each);
      }
    }
  }
  return Status::success();
}

Status multiplyOfWarpgroup(const SharedMemory &shared, const SharedMatrix &a, const SharedMatrix &b, uint32_t warp,
                           uint32_t lane, uint32_t columns, int32_t element, float *sums) {
  // A lane has two rows, and of each eight columns two neighbouring ones (PTX ISA, "Register fragments for
  // wgmma.mma_async").
  uint32_t depth = element == ITX_EMULATED_WGMMA_E4M3 ? rowBytes : rowBytes / 2;
  float left[2][deepest], right[deepest];
  for (uint32_t i = 0; i < 2; ++i)
    ITX_RETURN_IF_ERROR(readRow(shared, a, warp % 4 * 16 + lane / 4 + 8 * i, element, left[i]));
  for (uint32_t eight = 0; eight < columns / 8; ++eight)
    for (uint32_t j = 0; j < 2; ++j) {
      ITX_RETURN_IF_ERROR(readRow(shared, b, eight * 8 + lane % 4 * 2 + j, element, right));
      for (uint32_t i = 0; i < 2; ++i) {
        float &sum = sums[eight * 4 + i * 2 + j];
        for (uint32_t k = 0; k < depth; ++k)
          sum += left[i][k] * right[k];
      }
    }
  return Status::success();
}

} // namespace intarsia::runtime
