//===- HipDevices.cpp - The AMD GPUs of this machine ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/HIP/HipDevices.h"

#include "lib/Runtime/HIP/HipDriver.h"

#include <memory>

namespace intarsia::runtime {

static FoundGpus findHipDevices() {
  hip::Api api;
  if (Status status = hip::Api::find(api); !status.ok())
    return {{}, status.message()};
  auto driver = std::make_unique<hip::HipDriver>(api);
  if (Status status = driver->init(); !status.ok())
    return {{}, status.message()};
  return makeGpuDevices(*driver.release()); // devices of the process use it until its end
}

const FoundGpus &hipDevices() {
  static const FoundGpus found = findHipDevices();
  return found;
}

} // namespace intarsia::runtime
