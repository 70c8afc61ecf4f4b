//===- NcclApi.h - The functions of NCCL and RCCL that are used -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_GPU_NCCLAPI_H
#define INTARSIA_RUNTIME_GPU_NCCLAPI_H

#include "lib/Support/Status.h"

#include <cstddef>
#include <string>
#include <vector>

// The prototypes are those of NVIDIA's library, and AMD's has the same ones, so that no header of either is needed;
// test/unit/Runtime/GPU/NcclHeaderTest.cpp compares them with nccl.h where there is one.
namespace intarsia::runtime::nccl {

/// ncclResult_t: 0, or the number of an error.
using Result = int;
/// ncclComm_t and cudaStream_t or hipStream_t: what they point to is the library's and the driver's.
using Handle = void *;
using Stream = void *;

/// ncclResult_t
enum : Result { inProgress = 7 };

/// ncclUniqueId
struct UniqueId {
  char bytes[128];
};

/// ncclDataType_t
enum Element : int {
  elementInt8 = 0,
  elementUint8 = 1,
  elementInt32 = 2,
  elementUint32 = 3,
  elementInt64 = 4,
  elementUint64 = 5,
  elementFloat16 = 6,
  elementFloat32 = 7,
  elementFloat64 = 8,
  elementBfloat16 = 9,
};

/// ncclRedOp_t
enum Operation : int { operationSum = 0, operationMaximum = 2 };

/// The functions of a library that was found.
struct Api {
#define INTARSIA_NCCL_FUNCTION(name, symbol, arguments) Result(*name) arguments = nullptr;
#include "lib/Runtime/GPU/NcclFunctions.def"
  const char *(*errorText)(Result result) = nullptr; ///< ncclGetErrorString
  std::string text;                                  ///< name and version: "NCCL 2.27.3"

  /// Finds the first library of the names that there is; `what` is what it is called.
  static Status find(const std::vector<std::string> &names, const std::string &what, Api &api);
};

/// The symbols of the functions, by their names here, for messages.
struct Symbols {
#define INTARSIA_NCCL_FUNCTION(name, symbol, arguments) static constexpr const char *name = #symbol;
#include "lib/Runtime/GPU/NcclFunctions.def"
};

} // namespace intarsia::runtime::nccl

#endif
