//===- CudaArchitecture.cpp - Which code an NVIDIA GPU runs -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CUDA/CudaDriver.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace intarsia::runtime::cuda {

namespace {

/// An architecture in parts: "sm_90a" has the number 90 and the suffix 'a'.
struct Architecture {
  int number = 0;
  char suffix = 0; ///< 'a': for this one alone; 'f': for its family; 0: for all that follow

  int major() const { return number / 10; }
  int minor() const { return number % 10; }
};

} // namespace

/// Reads the name of an architecture.
static std::optional<Architecture> parse(const std::string &name) {
  static constexpr std::string_view prefix = "sm_";
  if (!name.starts_with(prefix) || name.size() < prefix.size() + 2 || name.size() > prefix.size() + 4)
    return std::nullopt;
  Architecture result;
  size_t at = prefix.size();
  for (; at < name.size() && name[at] >= '0' && name[at] <= '9'; ++at)
    result.number = 10 * result.number + (name[at] - '0');
  if (at < name.size() && (name[at] == 'a' || name[at] == 'f'))
    result.suffix = name[at++];
  return at == name.size() && result.number >= 10 ? std::optional(result) : std::nullopt;
}

/// True for the architectures of systems on a chip, which do not share machine code with the others of their number.
static bool isEmbedded(int number) {
  static constexpr int embedded[] = {53, 62, 72, 87};
  return std::find(std::begin(embedded), std::end(embedded), number) != std::end(embedded);
}

std::optional<int> rankCode(GpuCodeKind kind, const std::string &code, const std::string &device) {
  std::optional<Architecture> made = parse(code), has = parse(device);
  if (!made || !has)
    return std::nullopt;
  bool isSame = made->number == has->number;
  bool isFamily = made->major() == has->major() && made->minor() <= has->minor();
  if (made->suffix == 'a' && !isSame)
    return std::nullopt;
  if (made->suffix == 'f' && !isFamily)
    return std::nullopt;
  if (kind == GpuCodeKind::Ptx)
    return made->number <= has->number ? std::optional(2) : std::nullopt;
  if (kind != GpuCodeKind::Cubin)
    return std::nullopt;
  if (isSame)
    return 0;
  return isFamily && !isEmbedded(made->number) && !isEmbedded(has->number) ? std::optional(1) : std::nullopt;
}

std::string newestPtx(int driverVersion) {
  // From one version to the next PTX has got a new version too, but for 12.6, which has that of 12.5.
  static constexpr struct {
    int driver;
    const char *ptx;
  } versions[] = {{11000, "7.0"}, {11010, "7.1"}, {11020, "7.2"}, {11030, "7.3"}, {11040, "7.4"},
                  {11050, "7.5"}, {11060, "7.6"}, {11070, "7.7"}, {11080, "7.8"}, {12000, "8.0"},
                  {12010, "8.1"}, {12020, "8.2"}, {12030, "8.3"}, {12040, "8.4"}, {12050, "8.5"},
                  {12060, "8.5"}, {12070, "8.6"}, {12080, "8.7"}, {12090, "8.8"}, {13000, "9.0"}};
  for (const auto &version : versions)
    if (version.driver == driverVersion)
      return version.ptx;
  return {};
}

} // namespace intarsia::runtime::cuda
