//===- VectorInstructions.h - What processors compute vectors with ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_VECTORINSTRUCTIONS_H
#define INTARSIA_LIB_KERNEL_VECTORINSTRUCTIONS_H

#include <cstdint>

namespace intarsia::kernel {

/// The instructions of a device for elements that are computed together.
struct VectorInstructions {
  int64_t lanes;             ///< f32 elements that one instruction of a thread computes
  bool convertsF16 = true;   ///< has instructions between f16 and f32
  bool convertsBf16 = false; ///< has instructions from f32 to bf16
  bool rounds = true;        ///< has instructions that round a float to an integer
  bool gathers = false;      ///< has instructions that read each lane at an address of its own
  /// Bytes that buffers begin at multiples of, for a device that reads and writes a vector by one instruction only
  /// where its address is known to be a multiple of its size; 0 for others.
  int64_t bufferAlignment = 0;
};

} // namespace intarsia::kernel

#endif
