//===- ReferenceDevice.cpp - A device that every machine has ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/ReferenceDevice.h"

#include "lib/Runtime/Reference/KernelObject.h"

#include <string_view>

namespace intarsia::runtime {

#if defined(__x86_64__)
static constexpr std::string_view hostArchitecture = "x86_64";
#elif defined(__aarch64__)
static constexpr std::string_view hostArchitecture = "aarch64";
#elif defined(__riscv)
static constexpr std::string_view hostArchitecture = "riscv64";
#else
static constexpr std::string_view hostArchitecture = "";
#endif

Device &referenceDevice() {
  // Never destroyed: its threads and buffers may outlive static objects.
  static ReferenceDevice *device = new ReferenceDevice;
  return *device;
}

const char *ReferenceDevice::description() const {
  return "reference device: a second address space of this machine's memory, asynchronous queues, exact kernels; for "
         "tests";
}

bool ReferenceDevice::supports(const std::string &variant) const {
  return !hostArchitecture.empty() && variant.substr(0, variant.find('-')) == hostArchitecture;
}

Status ReferenceDevice::loadObject(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  return KernelObject::load(source, executable);
}

Status ReferenceDevice::bind(const Launch &launch, const std::string &text, Body &body) {
  auto object = dynamic_cast<const KernelObject *>(launch.executable);
  ReferenceKernel kernel = object ? object->kernel(launch.kernel) : nullptr;
  if (!kernel)
    return error(ITX_INTERNAL, "%s is not among the kernels that the reference device has loaded for it", text.c_str());
  body = [this, kernel](const HostedLaunch &launch) {
    return runKernel(kernel, launch.buffers.data(), launch.sizes.data(), settings().memoryBytes, launch.text);
  };
  return Status::success();
}

} // namespace intarsia::runtime
