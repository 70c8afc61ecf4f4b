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
};

} // namespace intarsia::kernel

#endif
