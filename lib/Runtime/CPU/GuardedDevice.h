//===- GuardedDevice.h - The host's CPU, with kernels that touch their operands alone -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CPU_GUARDEDDEVICE_H
#define INTARSIA_RUNTIME_CPU_GUARDEDDEVICE_H

#include "lib/Runtime/Core/Device.h"

namespace intarsia::runtime {

/// Returns a device that runs the launches of another on guarded copies of their operands, in builds with
/// INTARSIA_GUARD. ITX_INTERNAL names the kernel that wrote beside its operands or whose results depend on
/// uninitialised memory. A kernel that touches a guard page ends the process with a message.
std::shared_ptr<Device> guardedDevice(std::shared_ptr<Device> device);

} // namespace intarsia::runtime

#endif
