//===- BoundDevice.cpp - The devices that a module runs on --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/BoundDevice.h"

#include "lib/Support/Json.h"

#include <algorithm>

namespace intarsia::runtime {

// ---- Which devices ----------------------------------------------------------------------------------------

/// Returns "a, b and c"; a name that occurs several times is followed by their number: "a and b (2)".
static std::string enumerated(const std::vector<std::string> &all) {
  std::vector<std::string> names;
  for (const std::string &name : all)
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    auto count = std::count(all.begin(), all.end(), names[i]);
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    text += count > 1 ? " (" + std::to_string(count) + ")" : "";
  }
  return text;
}

static std::string namesText(const std::vector<Device *> &devices) {
  std::vector<std::string> names;
  for (Device *device : devices)
    names.push_back(device->name());
  return enumerated(names);
}

static bool needsKind(const Manifest &manifest, const std::string &kind) {
  return std::any_of(manifest.devices.begin(), manifest.devices.end(),
                     [&](const DeviceInfo &device) { return device.kind == kind; });
}

/// Returns true if a function is for a rank.
static bool isOfRank(const FunctionInfo &function, int32_t rank) { return function.rank < 0 || function.rank == rank; }

/// Returns the kinds of the devices that a function needs, for each alternative: "the device cuda or the devices cpu
/// and reference".
static std::string needsText(const Manifest &manifest, const std::string &function, int32_t rank) {
  std::string text;
  for (const FunctionInfo &alternative : manifest.functions) {
    if (alternative.name != function || !isOfRank(alternative, rank))
      continue;
    std::vector<std::string> kinds;
    for (uint32_t device : alternative.devices)
      kinds.push_back(manifest.devices[device].kind);
    text += (text.empty() ? "the device" : " or the device") + std::string(kinds.size() == 1 ? " " : "s ");
    text += enumerated(kinds);
  }
  return text;
}

/// Returns why the kinds of an artifact that this machine lacks are missing.
static std::string missingText(const Manifest &manifest, const std::vector<Device *> &present) {
  std::string text;
  for (const DeviceInfo &info : manifest.devices)
    if (std::none_of(present.begin(), present.end(), [&](Device *device) { return device->kind() == info.kind; }))
      if (std::string reason = whyMissing(info.kind); text.find(reason) == std::string::npos)
        text += reason;
  return text;
}

/// Finds the devices of the given names; all if there are none.
static Status findAllowed(const Manifest &manifest, const std::string &name, const std::vector<std::string> &names,
                          const std::vector<Device *> &present, std::vector<Device *> &allowed) {
  const char *where = name.c_str();
  if (names.empty())
    allowed = present;
  for (const std::string &wanted : names) {
    auto found = std::find_if(present.begin(), present.end(), [&](Device *device) { return device->name() == wanted; });
    if (found == present.end())
      return error(ITX_NOT_FOUND, "%s: may use the device '%s', which is not here: this machine has %s%s", where,
                   wanted.c_str(), namesText(present).c_str(), whyMissing(wanted).c_str());
    if (std::find(allowed.begin(), allowed.end(), *found) != allowed.end())
      return error(ITX_INVALID_ARGUMENT, "%s: the device '%s' is named twice: name each device that it may use once",
                   where, wanted.c_str());
    if (!needsKind(manifest, (*found)->kind())) {
      std::vector<std::string> kinds;
      for (const DeviceInfo &device : manifest.devices)
        kinds.push_back(device.kind);
      return error(ITX_INVALID_ARGUMENT,
                   "%s: may use the device '%s', but has no code for the kind %s: it has code for "
                   "%s",
                   where, wanted.c_str(), (*found)->kind(), enumerated(kinds).c_str());
    }
    allowed.push_back(*found);
  }
  return Status::success();
}

/// Returns, for each device of an artifact, the first allowed device of its kind that is not one of those before it.
static std::vector<Device *> matchKinds(const Manifest &manifest, std::vector<Device *> allowed) {
  std::vector<Device *> matched;
  for (const DeviceInfo &info : manifest.devices) {
    auto found =
        std::find_if(allowed.begin(), allowed.end(), [&](Device *device) { return device->kind() == info.kind; });
    matched.push_back(found == allowed.end() ? nullptr : *found);
    if (found != allowed.end())
      allowed.erase(found);
  }
  return matched;
}

void orderForRank(const Manifest &manifest, size_t number, std::vector<Device *> &present) {
  for (auto begin = present.begin(), end = begin; begin != present.end(); begin = end) {
    std::string_view kind = (*begin)->kind();
    end = std::find_if(begin, present.end(), [&](Device *device) { return device->kind() != kind; });
    auto wanted = std::count_if(manifest.devices.begin(), manifest.devices.end(),
                                [&](const DeviceInfo &info) { return info.kind == kind; });
    if (!(*begin)->usesHostMemory())
      std::rotate(begin, begin + ptrdiff_t(number) * wanted % (end - begin), end);
  }
}

/// Chooses the first alternative of each function of a rank whose devices are all there. Returns the name of a function
/// that has none, or an empty text.
static std::string chooseFunctions(const Manifest &manifest, const std::vector<Device *> &there, int32_t rank,
                                   std::vector<size_t> &functions) {
  std::vector<std::string> names;
  for (const FunctionInfo &function : manifest.functions) {
    const std::string &name = function.name;
    if (!isOfRank(function, rank) || std::find(names.begin(), names.end(), name) != names.end())
      continue;
    names.push_back(name);
    auto chosen = std::find_if(manifest.functions.begin(), manifest.functions.end(), [&](const FunctionInfo &other) {
      return other.name == name && isOfRank(other, rank) &&
             std::all_of(other.devices.begin(), other.devices.end(),
                         [&](uint32_t device) { return there[device] != nullptr; });
    });
    if (chosen == manifest.functions.end())
      return name;
    functions.push_back(size_t(chosen - manifest.functions.begin()));
  }
  return {};
}

// This runs once for a module, so that less code is better than faster code.
__attribute__((cold)) Status bindDevices(const Manifest &manifest, const std::string &name,
                                         const std::vector<std::string> &names, const std::vector<Device *> &present,
                                         int32_t rank, std::vector<BoundDevice> &bound,
                                         std::vector<size_t> &functions) {
  const char *where = name.c_str();
  if (manifest.devices.size() > maximumDevices)
    return error(ITX_CORRUPT, "%s: runs on %zu devices, at most %zu are possible", where, manifest.devices.size(),
                 maximumDevices);
  std::vector<Device *> allowed;
  ITX_RETURN_IF_ERROR(findAllowed(manifest, name, names, present, allowed));
  std::vector<Device *> there = matchKinds(manifest, allowed);
  std::vector<size_t> chosen;
  if (std::string missing = chooseFunctions(manifest, there, rank, chosen); !missing.empty()) {
    std::string needs = needsText(manifest, missing, rank), has = namesText(present);
    if (names.empty())
      return error(ITX_UNSUPPORTED, "%s: is compiled for %s, this machine has %s: compile it with --target=%s%s", where,
                   needs.c_str(), has.c_str(), hostDevice().kind(), missingText(manifest, present).c_str());
    return error(
        ITX_INVALID_ARGUMENT,
        "%s: is compiled for %s, may use %s (this machine has %s): name the devices that it needs too, or none", where,
        needs.c_str(), namesText(allowed).c_str(), has.c_str());
  }
  // Devices that only other alternatives use get no code and no memory.
  std::vector<BoundDevice> result(manifest.devices.size());
  for (size_t function : chosen)
    for (uint32_t device : manifest.functions[function].devices) {
      result[device].device = there[device];
      result[device].hasOwnMemory = !there[device]->usesHostMemory();
    }
  for (const BoundDevice &device : result)
    if (device.device)
      ITX_RETURN_IF_ERROR(device.device->checkEnvironment());
  bound = std::move(result);
  functions = std::move(chosen);
  return Status::success();
}

// ---- Kernels ----------------------------------------------------------------------------------------------

/// Returns the kernels of a device.
static std::vector<uint32_t> kernelsOf(const Manifest &manifest, size_t device) {
  std::vector<uint32_t> kernels;
  for (size_t i = 0; i < manifest.kernelDevices.size(); ++i)
    if (manifest.kernelDevices[i] == device)
      kernels.push_back(uint32_t(i));
  return kernels;
}

/// Checks that a device without objects runs host code, and that its kernels have some.
static Status checkHostCode(const Manifest &manifest, const std::string &name, const DeviceInfo &info,
                            const BoundDevice &bound, const std::vector<uint32_t> &wanted,
                            const itx_kernel_entry *kernels) {
  if (bound.hasOwnMemory)
    return error(ITX_CORRUPT, "%s: has no code for the device '%s', which kernel '%s' runs on", name.c_str(),
                 info.name.c_str(), manifest.kernels[wanted.front()].c_str());
  for (uint32_t kernel : wanted)
    if (!kernels[kernel].plan || !kernels[kernel].run)
      return error(ITX_CORRUPT, "%s: kernel '%s' of the device '%s' has no host code", name.c_str(),
                   manifest.kernels[kernel].c_str(), info.name.c_str());
  return Status::success();
}

/// Returns the flag that compiles for a device: " --target=cuda:sm_90"; an empty text if it does not say its variant.
static std::string targetFlag(const Device &device) {
  Json info;
  if (!parseJson(device.info(), device.name(), info).ok() || !info.contains("variant"))
    return {};
  return format(" --target=%s:%s", device.kind(), info["variant"].get<std::string>().c_str());
}

Status findObject(const DeviceInfo &info, const std::string &name, const itx_module_descriptor &descriptor,
                  const Device &device, const itx_object *&object) {
  std::vector<std::string> variants;
  for (const ObjectInfo &candidate : info.objects) {
    if (candidate.object >= descriptor.object_count)
      return error(ITX_CORRUPT, "%s: its manifest names object %u of the device '%s', its code has %u objects",
                   name.c_str(), candidate.object, info.name.c_str(), descriptor.object_count);
    variants.push_back(candidate.variant);
    if (!device.supports(candidate.variant))
      continue;
    object = &descriptor.objects[candidate.object];
    if (!object->data && object->bytes != 0)
      return error(ITX_CORRUPT, "%s: its code for the device '%s' is missing", name.c_str(), info.name.c_str());
    return Status::success();
  }
  return error(
      ITX_UNSUPPORTED,
      "%s: has code for '%s' in the variants %s, none of which the device '%s' can load: compile the model for "
      "it%s; it is %s",
      name.c_str(), info.name.c_str(), join(variants).c_str(), device.name(),
      targetFlag(device).empty() ? "" : (", with" + targetFlag(device)).c_str(), device.info().c_str());
}

Status loadKernels(const Manifest &manifest, const std::string &name, const itx_module_descriptor &descriptor,
                   const itx_kernel_entry *kernels, std::vector<BoundDevice> &bound) {
  for (size_t i = 0; i < bound.size(); ++i) {
    const DeviceInfo &info = manifest.devices[i];
    std::vector<uint32_t> wanted = kernelsOf(manifest, i);
    if (!bound[i].device || wanted.empty())
      continue;
    if (info.objects.empty()) {
      ITX_RETURN_IF_ERROR(checkHostCode(manifest, name, info, bound[i], wanted, kernels));
      continue;
    }
    Device &device = *bound[i].device;
    const itx_object *object = nullptr;
    ITX_RETURN_IF_ERROR(findObject(info, name, descriptor, device, object));
    ITX_RETURN_IF_ERROR(
        device.load({name, object->data, object->bytes, &manifest.kernels, std::move(wanted)}, bound[i].executable));
  }
  return Status::success();
}

// ---- Weights ----------------------------------------------------------------------------------------------

/// Copies one tensor after another to a device. The next copy starts while one runs, so that the device does not wait
/// for the host to read the file.
static Status copyTensors(const WeightsInfo &weights, const std::string &where, const std::vector<size_t> &tensors,
                          const std::vector<uint64_t> &offsets, const std::vector<uint64_t> &bytes, BoundDevice &bound,
                          std::vector<void *> &pointers) {
  Device &device = *bound.device;
  itx_event running = 0;
  size_t started = 0;
  Status status;
  auto failed = [&](size_t number) {
    size_t tensor = tensors[number];
    status = error(status.code(), "%s: cannot copy tensor '%s', %llu bytes, to the device '%s': %s", where.c_str(),
                   weights.tensors[tensor].c_str(), (unsigned long long)bytes[tensor], device.name(),
                   status.message().c_str());
  };
  for (; started < tensors.size() && status.ok(); ++started) {
    size_t tensor = tensors[started];
    void *destination = static_cast<uint8_t *>(bound.weights.address()) + offsets[started];
    itx_event event = 0;
    status = device.copy(0, destination, MemoryKind::Device, pointers[tensor], MemoryKind::Host, bytes[tensor], nullptr,
                         0, event);
    if (!status.ok())
      failed(started);
    pointers[tensor] = destination;
    // The copy before this one, also after an error: nothing may run on memory that is given back.
    if (Status before = device.wait(running); !before.ok() && status.ok()) {
      status = before;
      failed(started - 1);
    }
    running = event;
  }
  if (Status last = device.wait(running); !last.ok() && status.ok()) {
    status = last;
    failed(started - 1);
  }
  return status;
}

Status uploadWeights(const WeightsInfo &weights, const std::string &where, const std::vector<uint64_t> &bytes,
                     std::vector<BoundDevice> &bound, std::vector<void *> &pointers) {
  for (size_t d = 0; d < bound.size(); ++d) {
    if (!bound[d].hasOwnMemory)
      continue;
    std::vector<size_t> tensors;
    std::vector<uint64_t> offsets;
    uint64_t total = 0;
    for (size_t i = 0; i < weights.devices.size(); ++i) {
      if (weights.devices[i] != int32_t(d))
        continue;
      tensors.push_back(i);
      offsets.push_back(total);
      // The tensors are parts of a file, each less than 2^63 bytes; one may be listed more often than once.
      uint64_t rounded = (bytes[i] + ITX_BUFFER_ALIGNMENT - 1) / ITX_BUFFER_ALIGNMENT * ITX_BUFFER_ALIGNMENT;
      if (__builtin_add_overflow(total, rounded, &total))
        return error(ITX_CORRUPT, "%s: the tensors of the device '%s' are larger than memory can be", where.c_str(),
                     bound[d].device->name());
    }
    if (tensors.empty())
      continue;
    if (Status status = Buffer::make(*bound[d].device, total, bound[d].weights); !status.ok())
      return error(status.code(), "%s: no memory on the device '%s' for %zu tensors of %llu bytes: %s", where.c_str(),
                   bound[d].device->name(), tensors.size(), (unsigned long long)total, status.message().c_str());
    ITX_RETURN_IF_ERROR(copyTensors(weights, where, tensors, offsets, bytes, bound[d], pointers));
  }
  return Status::success();
}

} // namespace intarsia::runtime
