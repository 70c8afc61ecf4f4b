//===- HipArchitecture.h - Which code an AMD GPU runs -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HIP_HIPARCHITECTURE_H
#define INTARSIA_RUNTIME_HIP_HIPARCHITECTURE_H

#include "lib/Formats/GpuObject.h"

#include <optional>
#include <string>

namespace intarsia::runtime::hip {

/// Returns how well code for an architecture ("gfx942", "gfx11-generic") runs on a device ("gfx942"): 0 if it was
/// compiled for it, 1 if for its family; none if it does not run. https://llvm.org/docs/AMDGPUUsage.html (generic
/// processors)
std::optional<int> rankCode(GpuCodeKind kind, const std::string &code, const std::string &device);

} // namespace intarsia::runtime::hip

#endif
