//===- HipDevices.h - The AMD GPUs of this machine --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HIP_HIPDEVICES_H
#define INTARSIA_RUNTIME_HIP_HIPDEVICES_H

#include "lib/Runtime/GPU/GpuDevice.h"

namespace intarsia::runtime {

/// Returns the devices of kind "hip". The first call looks for the driver and starts it.
const FoundGpus &hipDevices();

} // namespace intarsia::runtime

#endif
