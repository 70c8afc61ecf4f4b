//===- Devices.cpp - The devices of this process ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/CpuDevice.h"
#include "lib/Runtime/CUDA/CudaDriver.h"
#include "lib/Runtime/Emulated/EmulatedDevice.h"
#include "lib/Runtime/HIP/HipDriver.h"
#include "lib/Runtime/Reference/ReferenceDevice.h"
#include "lib/Runtime/WaferDevice/WaferDevice.h"

#include <algorithm>

namespace intarsia::runtime {

/// A kind of devices that only some machines have.
struct FoundKind {
  const char *kind;
  const FoundGpus &(*find)();
};
static constexpr FoundKind foundKinds[] = {{"cuda", cudaDevices}, {"hip", hipDevices}};

const std::vector<Device *> &hostedDevices() {
  static const std::vector<Device *> all = {&cpuDevice(), &referenceDevice(), &emulatedDevice(), &waferDevice()};
  return all;
}

const std::vector<Device *> &devices() {
  static const std::vector<Device *> all = [] {
    std::vector<Device *> result = hostedDevices();
    for (const FoundKind &kind : foundKinds) {
      const std::vector<Device *> &found = kind.find().devices;
      result.insert(result.end(), found.begin(), found.end());
    }
    return result;
  }();
  return all;
}

std::string whyMissing(const std::string &device) {
  std::string kind = device.substr(0, device.find(':'));
  for (const FoundKind &one : foundKinds)
    if (kind == one.kind && !one.find().problem.empty())
      return "; " + one.find().problem;
  return {};
}

Status makeDevice(const std::string &kind, const DeviceSettings &settings, std::shared_ptr<Device> &device) {
  if (kind == cpuDevice().kind())
    return makeCpuDevice(settings, device);
  std::vector<std::string> kinds;
  for (const Device *known : hostedDevices())
    kinds.push_back(known->kind());
  for (const FoundKind &known : foundKinds)
    kinds.push_back(known.kind);
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
    return error(ITX_UNSUPPORTED, "devices of kind %s cannot be made, only those of kind %s: use the machine's",
                 kind.c_str(), cpuDevice().kind());
  return error(ITX_NOT_FOUND, "there is no kind of device '%s'; the kinds are %s", kind.c_str(), join(kinds).c_str());
}

} // namespace intarsia::runtime
