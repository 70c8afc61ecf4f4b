//===- HipArchitecture.cpp - Which code an AMD GPU runs ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/HIP/HipDriver.h"

#include <algorithm>
#include <vector>

namespace intarsia::runtime::hip {

/// An architecture whose code runs on several others.
struct Family {
  const char *name;
  std::vector<const char *> members;
};

std::optional<int> rankCode(GpuCodeKind kind, const std::string &code, const std::string &device) {
  static const Family families[] = {
      {"gfx9-generic", {"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"}},
      {"gfx9-4-generic", {"gfx940", "gfx941", "gfx942", "gfx950"}},
      {"gfx10-1-generic", {"gfx1010", "gfx1011", "gfx1012", "gfx1013"}},
      {"gfx10-3-generic", {"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"}},
      {"gfx11-generic", {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}},
      {"gfx12-generic", {"gfx1200", "gfx1201"}}};
  if (kind != GpuCodeKind::Hsaco || device.empty())
    return std::nullopt;
  if (code == device)
    return 0;
  for (const Family &family : families)
    if (code == family.name)
      return std::find(family.members.begin(), family.members.end(), device) == family.members.end() ? std::nullopt
                                                                                                     : std::optional(1);
  return std::nullopt;
}

} // namespace intarsia::runtime::hip
