//===- Ptxas.h - PTX to machine code of NVIDIA GPUs --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_PTXAS_H
#define INTARSIA_LIB_TARGET_GPU_PTXAS_H

#include "lib/Formats/GpuObject.h"
#include "llvm/Support/Error.h"

namespace intarsia::gpu {

/// NVIDIA's assembler, which is looked for in PATH.
inline constexpr llvm::StringLiteral ptxasName = "ptxas";

/// Returns the machine code of PTX by `ptxas`; empty if that is not there: the driver then compiles the PTX when it is
/// loaded. Appends what it says of each function: registers, spilled bytes, local and shared memory. An error has the
/// program's own message, and what to do where it is too old for the architecture.
llvm::Expected<std::vector<char>> assemblePtx(llvm::StringRef ptx, llvm::StringRef architecture,
                                              std::vector<GpuFunction> &functions);

/// Appends the kernels of a report that `ptxas -v` has printed. The local memory of a kernel includes that of the
/// functions which it calls.
void readPtxasReport(llvm::StringRef report, std::vector<GpuFunction> &functions);

} // namespace intarsia::gpu

#endif
