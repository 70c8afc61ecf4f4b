//===- Devices.cpp - The devices of this process ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/CpuDevice.h"
#include "lib/Runtime/Reference/ReferenceDevice.h"

namespace intarsia::runtime {

const std::vector<Device *> &devices() {
  static const std::vector<Device *> all = {&cpuDevice(), &referenceDevice()};
  return all;
}

} // namespace intarsia::runtime
