//===- Architecture.h - What the compiler knows of each GPU architecture ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_ARCHITECTURE_H
#define INTARSIA_LIB_TARGET_GPU_ARCHITECTURE_H

#include "lib/Target/GPU/MatrixInstructions.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace intarsia::gpu {

enum class Vendor { Nvidia, Amd };

/// Copies from global to shared memory that threads do not wait for.
enum class AsyncCopy {
  None,
  CpAsync,    ///< `cp.async`, 4, 8 or 16 bytes a thread
  Tma,        ///< `cp.async` and tiles by a tensor map (`cp.async.bulk.tensor`)
  BufferToLds ///< `buffer_load … lds`
};

/// One GPU architecture. A new one is a row of the table in Architecture.cpp.
struct Architecture {
  llvm::StringLiteral name; ///< as --target names it, LLVM's name too: "sm_80"
  Vendor vendor;
  llvm::StringLiteral features; ///< LLVM's, for code generation: the PTX version
  int64_t warpSize;             ///< threads that run in lockstep
  int64_t sharedBytes;          ///< the most shared memory of a block
  int64_t multiprocessors;      ///< of `device`
  AsyncCopy asyncCopy;
  MatrixFamily matrixFamily;
  llvm::StringLiteral device; ///< of the catalogue, which has its clock, throughputs and bandwidth
};

/// Returns the architectures of a vendor, the oldest first.
llvm::ArrayRef<Architecture> architectures(Vendor vendor);
/// Returns an architecture by its name; null if there is none.
const Architecture *findArchitecture(Vendor vendor, llvm::StringRef name);

} // namespace intarsia::gpu

#endif
