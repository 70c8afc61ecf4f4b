//===- Drivers.cpp - The drivers of this build --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/CpuDriver.h"

namespace intarsia::runtime {

const std::vector<Driver *> &drivers() {
  static const std::vector<Driver *> all = {&cpuDriver()};
  return all;
}

} // namespace intarsia::runtime
