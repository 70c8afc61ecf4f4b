//===- WarpgroupMultiply.cpp - Matrix instructions of four warps ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/WarpgroupMultiply.h"

#include "intarsia/emulated_abi.h"
#include "lib/Formats/FloatFormats.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace intarsia::runtime {

/// The bytes of a row that wgmma multiplies: 16 elements of 16 bits, or 32 of 8; those that stay together.
static constexpr uint32_t productBytes = 32, bytesOfChunk = 16;
/// The same in elements of 16 bits, and the most elements.
static constexpr uint32_t depth16 = productBytes / 2, ofChunk16 = bytesOfChunk / 2, deepest = productBytes;
/// Bits of an address in a descriptor, which counts in units of 16 bytes.
static constexpr uint64_t addressMask = 0x3FFFF, fieldMask = 0x3FFF;

uint64_t SharedMatrix::offsetOf(uint32_t row, uint32_t byte) const {
  uint64_t at = offset + row / 8 * groupBytes + row % 8 * rowBytes + byte;
  if (transposed) {
    uint64_t ofPanel = rowBytes / 2, k = byte / 2;
    at = offset + row / ofPanel * panelBytes + k / 8 * groupBytes + k % 8 * rowBytes + row % ofPanel * 2;
  }
  // Chunks of 16 bytes change places by the bits of the address above the row's.
  uint64_t chunks = rowBytes / 16;
  return at ^ ((at >> 7 & (chunks - 1)) << 4);
}

Status readDescriptor(uint64_t descriptor, bool transposed, const SharedMemory &shared, SharedMatrix &matrix) {
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
  matrix.panelBytes = (descriptor >> 16 & fieldMask) * 16;
  matrix.transposed = transposed;
  return Status::success();
}

static float decode(uint16_t bits, int32_t element) {
  return element == ITX_EMULATED_WGMMA_BF16 ? decodeBf16(bits) : decodeF16(bits);
}

/// Reads the elements of a chunk, 8 of 16 bits or 16 of 8.
static Status readChunk(const SharedMemory &shared, uint64_t offset, int32_t element, float *values) {
  const uint8_t *address = shared.address() + offset;
  uint16_t bits[ofChunk16];
  if (!shared.contains(address, sizeof(bits)))
    return error(ITX_INTERNAL, "multiplies 16 bytes at offset %llu of shared memory, which has %llu bytes",
                 (unsigned long long)offset, (unsigned long long)shared.bytes());
  if (!shared.areWritten(address, sizeof(bits)))
    return error(ITX_INTERNAL,
                 "multiplies 16 bytes at offset %llu of shared memory, where nothing has been written to offset %llu; "
                 "is a barrier or a wait for asynchronous copies missing?",
                 (unsigned long long)offset, (unsigned long long)shared.firstUnwritten(address, sizeof(bits)));
  std::memcpy(bits, address, sizeof(bits));
  // A loop for each type: they become vector instructions, and this is most of what many products take.
  if (element == ITX_EMULATED_WGMMA_BF16)
    for (uint32_t i = 0; i < ofChunk16; ++i)
      values[i] = decodeBf16(bits[i]);
  else if (element == ITX_EMULATED_WGMMA_F16)
    for (uint32_t i = 0; i < ofChunk16; ++i)
      values[i] = decodeF16(bits[i]);
  else
    for (uint32_t i = 0; i < bytesOfChunk; ++i)
      values[i] = decodeFloat(floatE4M3, address[i]);
  return Status::success();
}

/// Reads the elements of a row that is not transposed.
static Status readRow(const SharedMemory &shared, const SharedMatrix &matrix, uint32_t row, int32_t element,
                      float (&values)[deepest]) {
  uint32_t ofChunk = element == ITX_EMULATED_WGMMA_E4M3 ? bytesOfChunk : ofChunk16;
  for (uint32_t chunk = 0; chunk < productBytes / bytesOfChunk; ++chunk)
    ITX_RETURN_IF_ERROR(
        readChunk(shared, matrix.offsetOf(row, chunk * bytesOfChunk), element, values + chunk * ofChunk));
  return Status::success();
}

/// Reads eight rows of elements of 16 bits.
static Status readRows(const SharedMemory &shared, const SharedMatrix &matrix, uint32_t firstRow, int32_t element,
                       float (&values)[ofChunk16][deepest]) {
  if (!matrix.transposed) {
    for (uint32_t i = 0; i < ofChunk16; ++i)
      ITX_RETURN_IF_ERROR(readRow(shared, matrix, firstRow + i, element, values[i]));
    return Status::success();
  }
  for (uint32_t k = 0; k < depth16; ++k) {
    float chunk[ofChunk16];
    ITX_RETURN_IF_ERROR(readChunk(shared, matrix.offsetOf(firstRow, 2 * k), element, chunk));
    for (uint32_t i = 0; i < ofChunk16; ++i)
      values[i][k] = chunk[i];
  }
  return Status::success();
}

Status multiplyOfWarpgroup(const SharedMemory &shared, const SharedMatrix &a, const SharedMatrix &b, uint32_t warp,
                           uint32_t lane, uint32_t columns, int32_t element, float *sums) {
  // A lane has two rows, and of each eight columns two neighbouring ones (PTX ISA, "Register fragments for
  // wgmma.mma_async").
  uint32_t depth = element == ITX_EMULATED_WGMMA_E4M3 ? productBytes : depth16;
  float left[2][deepest], right[2][deepest];
  for (uint32_t i = 0; i < 2; ++i)
    ITX_RETURN_IF_ERROR(readRow(shared, a, warp % 4 * 16 + lane / 4 + 8 * i, element, left[i]));
  for (uint32_t eight = 0; eight < columns / 8; ++eight) {
    for (uint32_t j = 0; j < 2; ++j)
      ITX_RETURN_IF_ERROR(readRow(shared, b, eight * 8 + lane % 4 * 2 + j, element, right[j]));
    // The additions of one sum depend on each other. Those of four sums overlap.
    float part[4];
    std::memcpy(part, sums + eight * 4, sizeof(part));
    for (uint32_t k = 0; k < depth; ++k)
      for (uint32_t i = 0; i < 4; ++i)
        part[i] += left[i / 2][k] * right[i % 2][k];
    std::memcpy(sums + eight * 4, part, sizeof(part));
  }
  return Status::success();
}

Status multiplyRegistersOfWarpgroup(const SharedMemory &shared, const void *const *a, const SharedMatrix &b,
                                    uint32_t columns, bool isBf16, void *const *sums) {
  // A lane has two rows, and of each eight columns two neighbouring ones (PTX ISA, "Register fragments for
  // wgmma.mma_async"); of A pairs of the depth, those of both rows first.
  constexpr uint32_t lanes = 32, rows = 16;
  int32_t element = isBf16 ? ITX_EMULATED_WGMMA_BF16 : ITX_EMULATED_WGMMA_F16;
  float left[rows][depth16], right[ofChunk16][deepest];
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint16_t bits[8];
    std::memcpy(bits, a[lane], sizeof(bits));
    for (uint32_t i = 0; i < 8; ++i)
      left[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] = decode(bits[i], element);
  }
  for (uint32_t eight = 0; eight < columns / 8; ++eight) {
    ITX_RETURN_IF_ERROR(readRows(shared, b, eight * 8, element, right));
    for (uint32_t lane = 0; lane < lanes; ++lane)
      for (uint32_t i = 0; i < 4; ++i) {
        float &sum = static_cast<float *>(sums[lane])[eight * 4 + i];
        for (uint32_t k = 0; k < depth16; ++k)
          sum += left[lane / 4 + i / 2 * 8][k] * right[lane % 4 * 2 + i % 2][k];
      }
  }
  return Status::success();
}

void PendingProducts::clear() {
  chunks_.clear();
  ends_.clear();
}

Status PendingProducts::add(const SharedMatrix &matrix, uint32_t firstRow, uint32_t rows, SharedMemory &shared,
                            const ProxyWrites &writes) {
  // A chunk of a transposed matrix holds eight rows at one element of the depth.
  uint32_t rowStep = matrix.transposed ? ofChunk16 : 1, step = matrix.transposed ? 2 : bytesOfChunk;
  try {
    for (uint32_t row = firstRow; row < firstRow + rows; row += rowStep)
      for (uint32_t byte = 0; byte < productBytes; byte += step) {
        uint64_t offset = matrix.offsetOf(row, byte);
        if (std::optional<uint32_t> thread = writes.unfenced(offset, 1))
          return error(ITX_INTERNAL,
                       "multiplies what lies at offset %llu of shared memory, which thread %u has written without "
                       "fence.proxy.async behind it: matrix instructions may not see it",
                       (unsigned long long)offset, *thread);
        chunks_.push_back(offset);
        shared.beginRead(offset);
      }
    return Status::success();
  } catch (const std::bad_alloc &) {
    return error(ITX_OUT_OF_MEMORY, "out of memory for a product of matrices");
  }
}

bool PendingProducts::commit() {
  try {
    ends_.push_back(chunks_.size());
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
}

void PendingProducts::end(uint64_t groups, SharedMemory &shared) {
  if (ends_.size() <= groups)
    return;
  size_t ending = ends_.size() - groups, end = ends_[ending - 1];
  for (size_t i = 0; i < end; ++i)
    shared.endRead(chunks_[i]);
  chunks_.erase(chunks_.begin(), chunks_.begin() + ptrdiff_t(end));
  ends_.erase(ends_.begin(), ends_.begin() + ptrdiff_t(ending));
  for (size_t &left : ends_)
    left -= end;
}

} // namespace intarsia::runtime
