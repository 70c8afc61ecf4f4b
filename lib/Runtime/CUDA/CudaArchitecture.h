//===- CudaArchitecture.h - Which code an NVIDIA GPU runs -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CUDA_CUDAARCHITECTURE_H
#define INTARSIA_RUNTIME_CUDA_CUDAARCHITECTURE_H

#include "lib/Formats/GpuObject.h"

#include <optional>
#include <string>

namespace intarsia::runtime::cuda {

/// Returns how well code for an architecture ("sm_80", "sm_90a", "sm_100f") runs on a device ("sm_90"): 0 if it was
/// compiled for it, 1 if for an earlier one of its family, 2 if the driver must compile it; none if it does not run.
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capability (5.1, compatibility)
std::optional<int> rankCode(GpuCodeKind kind, const std::string &code, const std::string &device);

/// Returns the newest version of PTX that a driver compiles ("8.7"), by the version of CUDA that it says it has
/// (12080); empty for drivers that are newer than this table or older than CUDA 11.
/// https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes
std::string newestPtx(int driverVersion);

} // namespace intarsia::runtime::cuda

#endif
