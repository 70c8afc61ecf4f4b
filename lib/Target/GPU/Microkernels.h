//===- Microkernels.h - Functions in C++ that kernels of GPUs call -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_H

#include "lib/Target/GPU/Codegen.h"

namespace intarsia::gpu {

/// Links the microkernels that functions of a module call, which has the triple and the data layout of the
/// architecture, and inlines them; for a device, loops over their arguments that are constants are unrolled then. An
/// error names a function that is none.
llvm::Error inlineMicrokernels(llvm::Module &module, const Architecture &architecture, CodeFor codeFor);

} // namespace intarsia::gpu

#endif
