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

/// Returns the machine code of PTX by NVIDIA's `ptxas`, which is looked for in PATH; empty if it is not there: the
/// driver then compiles the PTX when it is loaded. Appends what it says of each function: registers, spilled bytes,
/// shared memory. An error has the program's own message.
llvm::Expected<std::vector<char>> assemblePtx(llvm::StringRef ptx, llvm::StringRef architecture,
                                              std::vector<GpuFunction> &functions);

} // namespace intarsia::gpu

#endif
