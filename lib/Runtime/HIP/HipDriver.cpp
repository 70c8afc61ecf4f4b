//===- HipDriver.cpp - The HIP runtime --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/HIP/HipDriver.h"

#include "lib/Runtime/GPU/GpuLibrary.h"

#include <cstring>

namespace intarsia::runtime::hip {

Status Api::find(Api &api) {
  GpuLibrary library;
  // ROCm's own folder is not among those of the dynamic linker everywhere.
  std::vector<std::string> names;
  for (const char *version : {"7", "6", "5"})
    for (const char *folder : {"", "/opt/rocm/lib/"})
      names.push_back(format("%slibamdhip64.so.%s", folder, version));
  ITX_RETURN_IF_ERROR(GpuLibrary::open(names, "HIP runtime", library));
  Api found;
#define INTARSIA_HIP_FUNCTION(name, symbol, isRequired, arguments) library.bind(#symbol, found.name, isRequired);
#include "lib/Runtime/HIP/HipFunctions.def"
  library.bind("hipGetErrorName", found.errorName, true);
  library.bind("hipGetErrorString", found.errorText, true);
  library.bind("hipGetDeviceProperties", found.properties5, found.properties6 == nullptr);
  ITX_RETURN_IF_ERROR(library.check());
  api = found;
  return Status::success();
}

std::string HipDriver::explain(const GpuResult &result) const {
  const char *name = api_.errorName(result.code), *text = api_.errorText(result.code);
  return format("%s (%d) at %s: %s", name ? name : "an unknown error", result.code, result.call, text ? text : "");
}

Status HipDriver::init() {
  GpuResult result = start(api_.runtimeVersion, Symbols::runtimeVersion);
  if (result.code == errorNoDevice || result.code == errorInvalidDevice || (result.ok() && count_ == 0))
    return error(ITX_NOT_FOUND, "the HIP runtime sees no GPU (may this user open /dev/kfd and /dev/dri? is "
                                "HIP_VISIBLE_DEVICES set?)");
  if (!result.ok())
    return error(ITX_UNSUPPORTED, "the HIP runtime does not start: %s", explain(result).c_str());
  return Status::success();
}

GpuResult HipDriver::readProperties(int device, GpuProperties &properties) {
  int shared = 0;
  GpuResult result = readFacts(device, properties,
                               {{attributeMaxSharedMemoryPerBlock, shared},
                                {attributeMultiprocessorCount, properties.processors},
                                {attributeWarpSize, properties.warpThreads}});
  // Twice the bytes of the largest structure, in case a later version has made it longer.
  alignas(16) char structure[2 * propertiesOf6.bytes] = "";
  const PropertiesLayout &layout = api_.properties6 ? propertiesOf6 : propertiesOf5;
  if (result.ok())
    result = api_.properties6 ? INTARSIA_GPU_CALL(properties6, structure, device)
                              : INTARSIA_GPU_CALL(properties5, structure, device);
  std::string architecture(structure + layout.architectureName,
                           strnlen(structure + layout.architectureName, 256)); // "gfx942:sramecc+:xnack-"
  if (properties.name.empty())
    properties.name = architecture;
  properties.architecture = architecture.substr(0, architecture.find(':'));
  properties.defaultSharedBytes = properties.sharedBytes = uint64_t(shared);
  properties.details = {architecture, properties.pciBus};
  return result;
}

GpuResult HipDriver::enter(int device, void *&previous) {
  int before = 0;
  GpuResult result = INTARSIA_GPU_CALL(getDevice, &before);
  previous = reinterpret_cast<void *>(intptr_t(before));
  return result.ok() && before != device ? INTARSIA_GPU_CALL(setDevice, device) : result;
}

void HipDriver::leave(int device, void *previous) {
  if (int before = int(reinterpret_cast<intptr_t>(previous)); before != device)
    (void)api_.setDevice(before); // it was the thread's, and can be it again
}

} // namespace intarsia::runtime::hip

const intarsia::runtime::FoundGpus &intarsia::runtime::hipDevices() {
  static const FoundGpus found = gpu::findGpus<hip::HipDriver, hip::Api>();
  return found;
}
