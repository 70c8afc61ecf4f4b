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

/// Returns the host's CPU as a whole. It lives until the process ends.
Device &cpuDevice();

/// Makes a part of the host's CPU, with threads of its own. ITX_INVALID_ARGUMENT if the number of threads is not
/// possible, or if the process may not run on one of the processors.
Status makeCpuDevice(const DeviceSettings &settings, std::shared_ptr<Device> &device);

} // namespace intarsia::runtime

#endif
