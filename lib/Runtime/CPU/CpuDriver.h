//===- CpuDriver.h - The host's CPU as a device -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_CPU_CPUDRIVER_H
#define INTARSIA_LIB_RUNTIME_CPU_CPUDRIVER_H

#include "lib/Runtime/Core/Driver.h"

namespace intarsia::runtime {

/// The one driver of the host's CPU. Lives until the process ends.
Driver &cpuDriver();

} // namespace intarsia::runtime

#endif
