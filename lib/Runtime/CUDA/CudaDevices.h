//===- CudaDevices.h - The NVIDIA GPUs of this machine ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CUDA_CUDADEVICES_H
#define INTARSIA_RUNTIME_CUDA_CUDADEVICES_H

#include "lib/Runtime/GPU/GpuDevice.h"

namespace intarsia::runtime {

/// Returns the devices of kind "cuda". The first call looks for the driver and starts it.
const FoundGpus &cudaDevices();

} // namespace intarsia::runtime

#endif
