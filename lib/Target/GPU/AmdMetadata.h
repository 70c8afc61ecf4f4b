//===- AmdMetadata.h - What machine code of AMD GPUs says of its kernels ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_AMDMETADATA_H
#define INTARSIA_LIB_TARGET_GPU_AMDMETADATA_H

#include "lib/Formats/GpuObject.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace intarsia::gpu {

/// Appends the registers, spills and memory of each kernel of a code object (hsaco), which its metadata note lists
/// (LLVM, "User Guide for AMDGPU Backend", code object V5 metadata). An error says what is wrong with the object.
llvm::Error readAmdMetadata(llvm::StringRef codeObject, std::vector<GpuFunction> &functions);

} // namespace intarsia::gpu

#endif
