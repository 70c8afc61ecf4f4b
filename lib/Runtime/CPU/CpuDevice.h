//===- CpuDevice.h - The host's CPU as a device -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_CPU_CPUDEVICE_H
#define INTARSIA_LIB_RUNTIME_CPU_CPUDEVICE_H

#include "lib/Runtime/Core/Device.h"

namespace intarsia::runtime {

/// Returns the one device of the host's CPU. It lives until the process ends.
Device &cpuDevice();

} // namespace intarsia::runtime

#endif
