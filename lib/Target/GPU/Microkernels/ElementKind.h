//===- ElementKind.h - Numbers that emitters and microkernels give to types of elements --------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ELEMENTKIND_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ELEMENTKIND_H

namespace intarsia::gpu {

/// Types of elements. Numbers that are not of an enumeration with a scope: they are arguments of microkernels.
struct ElementKind {
  enum : long { F32, F16, BF16, E4M3, UI8, UI4, I32, I64, I1 };
};

} // namespace intarsia::gpu

#endif
