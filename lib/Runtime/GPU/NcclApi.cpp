//===- NcclApi.cpp - The functions of NCCL and RCCL that are used -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/NcclApi.h"

#include "lib/Runtime/GPU/GpuLibrary.h"

namespace intarsia::runtime::nccl {

/// Returns a version as people write it (nccl.h, NCCL_VERSION: the minor version has one digit before 2.9).
static std::string versionText(int version) {
  int scale = version < 10000 ? 1000 : 10000;
  return format("%d.%d.%d", version / scale, version % scale / 100, version % 100);
}

Status Api::find(const std::vector<std::string> &names, const std::string &what, Api &api) {
  GpuLibrary library;
  ITX_RETURN_IF_ERROR(GpuLibrary::open(names, what, library));
  Api found;
#define INTARSIA_NCCL_FUNCTION(name, symbol, arguments) library.bind(#symbol, found.name, /*isRequired=*/true);
#include "lib/Runtime/GPU/NcclFunctions.def"
  library.bind("ncclGetErrorString", found.errorText, /*isRequired=*/true);
  ITX_RETURN_IF_ERROR(library.check());
  int version = 0;
  if (Result result = found.version(&version); result != 0)
    return error(ITX_UNSUPPORTED, "%s does not say its version: %s", what.c_str(), found.errorText(result));
  found.text = what + " " + versionText(version);
  api = found;
  return Status::success();
}

} // namespace intarsia::runtime::nccl
