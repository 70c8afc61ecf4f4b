//===- CudaDevices.cpp - The NVIDIA GPUs of this machine --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CUDA/CudaDevices.h"

#include "lib/Runtime/CUDA/CudaDriver.h"

#include <memory>

namespace intarsia::runtime {

static FoundGpus findCudaDevices() {
  cuda::Api api;
  if (Status status = cuda::Api::find(api); !status.ok())
    return {{}, status.message()};
  auto driver = std::make_unique<cuda::CudaDriver>(api);
  if (Status status = driver->init(); !status.ok())
    return {{}, status.message()};
  return makeGpuDevices(*driver.release()); // devices of the process use it until its end
}

const FoundGpus &cudaDevices() {
  static const FoundGpus found = findCudaDevices();
  return found;
}

} // namespace intarsia::runtime
