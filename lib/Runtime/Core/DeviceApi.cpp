//===- DeviceApi.cpp - The C interface of threads and devices -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Device.h"

#include <algorithm>
#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;

// ---- The machine's devices --------------------------------------------------------------------------------

itx_status itx_set_threads(int32_t threads) {
  return guarded([&] { return hostDevice().setThreads(threads); });
}

int32_t itx_threads(void) { return hostDevice().threads(); }

size_t itx_device_count(void) { return devices().size(); }

const char *itx_device_name(size_t index) { return index < devices().size() ? devices()[index]->name() : nullptr; }

const char *itx_device_info(size_t index) {
  static const std::vector<std::string> infos = [] {
    std::vector<std::string> result;
    for (Device *device : devices())
      result.push_back(device->info());
    return result;
  }();
  return index < infos.size() ? infos[index].c_str() : nullptr;
}

// ---- Handles ----------------------------------------------------------------------------------------------

struct itx_device {
  std::shared_ptr<Device> device;
  std::string info;
};

const std::shared_ptr<Device> &intarsia::runtime::deviceOf(const itx_device *device) { return device->device; }

static Status readOptions(const itx_device_options *given, DeviceSettings &settings) {
  itx_device_options options = {};
  if (given && given->struct_bytes < sizeof(given->struct_bytes))
    return error(ITX_INVALID_ARGUMENT,
                 "struct_bytes of the device options is %zu: set it to sizeof(itx_device_options)",
                 given->struct_bytes);
  if (given)
    std::memcpy(&options, given, std::min(given->struct_bytes, sizeof(options)));
  settings.threads = options.threads;
  if (options.processor_count != 0)
    ITX_REQUIRE(options.processors);
  settings.processors.assign(options.processors, options.processors + options.processor_count);
  return Status::success();
}

itx_status itx_device_create(const char *kind, const itx_device_options *options, itx_device **device) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(kind);
    ITX_REQUIRE(device);
    DeviceSettings settings;
    ITX_RETURN_IF_ERROR(readOptions(options, settings));
    auto handle = std::make_unique<itx_device>();
    ITX_RETURN_IF_ERROR(makeDevice(kind, settings, handle->device));
    handle->info = handle->device->info();
    *device = handle.release();
    return Status::success();
  });
}

itx_status itx_device_find(const char *name, itx_device **device) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(name);
    ITX_REQUIRE(device);
    std::vector<std::string> names;
    for (Device *known : devices()) {
      names.push_back(known->name());
      if (names.back() != name)
        continue;
      auto handle = std::make_unique<itx_device>();
      handle->device = std::shared_ptr<Device>(known, [](Device *) {}); // the machine's are never freed
      handle->info = known->info();
      *device = handle.release();
      return Status::success();
    }
    return error(ITX_NOT_FOUND, "this machine has no device '%s'; it has %s%s", name, join(names).c_str(),
                 whyMissing(name).c_str());
  });
}

void itx_device_free(itx_device *device) { delete device; }
const char *itx_device_get_name(const itx_device *device) { return device ? device->device->name() : nullptr; }
const char *itx_device_get_info(const itx_device *device) { return device ? device->info.c_str() : nullptr; }
