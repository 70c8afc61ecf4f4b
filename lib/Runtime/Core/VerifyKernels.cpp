//===- VerifyKernels.cpp - Every kernel a second time, on another device ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands are copied before the launch, results too: a kernel may update them in place, or write a part of them alone.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/VerifyKernels.h"

#include "lib/Runtime/Core/BoundDevice.h"

#include <algorithm>
#include <numeric>
#include <unistd.h>

namespace intarsia::runtime {

/// Memory of one or several operands of a launch, which overlap.
struct KernelVerifier::Part {
  uint8_t *address = nullptr; ///< in the memory that the launch's own device uses
  uint64_t bytes = 0;
  bool isWritten = false;
  uint8_t *copy = nullptr; ///< in the memory of the verifying device
  Buffer buffer;           ///< the copy, unless it is kept elsewhere
};

// ---- Loading ----------------------------------------------------------------------------------------------

/// Returns the kinds that the artifact must be compiled for to be verified: "cpu,reference".
static std::string targetWithVerifier(const Manifest &manifest) {
  std::vector<std::string> kinds;
  for (const DeviceInfo &device : manifest.devices)
    if (std::find(kinds.begin(), kinds.end(), device.kind) == kinds.end())
      kinds.push_back(device.kind);
  std::string text;
  for (const std::string &kind : kinds)
    text += kind + ",";
  return text + "reference";
}

/// Finds a device of a kind, preferably one of the given names.
static Device *findOfKind(const std::string &kind, const std::vector<std::string> &names) {
  Device *first = nullptr;
  for (Device *device : devices()) {
    if (device->kind() != kind)
      continue;
    if (std::find(names.begin(), names.end(), device->name()) != names.end())
      return device;
    first = first ? first : device;
  }
  return first;
}

Status KernelVerifier::create(const Manifest &manifest, const std::string &name,
                              const itx_module_descriptor &descriptor, const std::vector<std::string> &names,
                              double tolerance, std::unique_ptr<KernelVerifier> &verifier) {
  const char *where = name.c_str();
  auto info = std::find_if(manifest.devices.begin(), manifest.devices.end(),
                           [](const DeviceInfo &device) { return device.verifies; });
  if (info == manifest.devices.end())
    return error(ITX_INVALID_ARGUMENT, "%s: has no code that verifies kernels: compile it with --target=%s", where,
                 targetWithVerifier(manifest).c_str());
  if (manifest.operands.size() != manifest.kernels.size() || !manifest.hasOperandTypes)
    return error(ITX_CORRUPT,
                 "%s: has code that verifies kernels, but its manifest does not describe their operands ('operands' "
                 "and 'operand_types'): compile it again",
                 where);
  Device *device = findOfKind(info->kind, names);
  if (!device)
    return error(ITX_UNSUPPORTED,
                 "%s: its kernels are verified on a device of kind %s, which this machine does not have", where,
                 info->kind.c_str());
  ITX_RETURN_IF_ERROR(device->checkEnvironment());
  const itx_object *object = nullptr;
  ITX_RETURN_IF_ERROR(findObject(*info, name, descriptor, *device, object));
  std::vector<uint32_t> all(manifest.kernels.size());
  std::iota(all.begin(), all.end(), 0);
  std::unique_ptr<KernelVerifier> result(new KernelVerifier(*device, tolerance));
  ITX_RETURN_IF_ERROR(
      device->load({name, object->data, object->bytes, &manifest.kernels, std::move(all)}, result->executable_));
  result->process_ = getpid();
  result->isVerified_.resize(manifest.kernels.size());
  verifier = std::move(result);
  return Status::success();
}

void KernelVerifier::addWeight(Device *memory, const void *address, uint64_t bytes) {
  // A tensor may be listed several times.
  Weight &weight = weights_[{memory, static_cast<const uint8_t *>(address)}];
  weight.bytes = std::max(weight.bytes, bytes);
}

VerifiedKernels KernelVerifier::verified() const {
  std::lock_guard lock(mutex_);
  return verified_;
}

// ---- Copies -----------------------------------------------------------------------------------------------

/// Copies and waits.
static Status copyNow(Device &device, void *to, MemoryKind toKind, const void *from, MemoryKind fromKind,
                      uint64_t bytes) {
  if (bytes == 0)
    return Status::success();
  itx_event event = 0;
  ITX_RETURN_IF_ERROR(device.copy(0, to, toKind, from, fromKind, bytes, nullptr, 0, event));
  return device.wait(event);
}

/// Copies a part to the verifying device.
Status KernelVerifier::copyHere(Device &own, const Part &part, void *to) {
  if (own.usesHostMemory() || &own == &device_)
    return copyNow(device_, to, MemoryKind::Device, part.address,
                   own.usesHostMemory() ? MemoryKind::Host : MemoryKind::Device, part.bytes);
  std::vector<uint8_t> between(part.bytes);
  ITX_RETURN_IF_ERROR(copyNow(own, between.data(), MemoryKind::Host, part.address, MemoryKind::Device, part.bytes));
  return copyNow(device_, to, MemoryKind::Device, between.data(), MemoryKind::Host, part.bytes);
}

/// Finds the copy of the weight that a part is in, and makes it if it is needed for the first time. Leaves the part as
/// it is if it is not in a weight.
Status KernelVerifier::findWeight(Device &own, Part &part) {
  Device *memory = own.usesHostMemory() ? nullptr : &own;
  auto found = weights_.upper_bound({memory, part.address});
  if (found == weights_.begin())
    return Status::success();
  --found;
  const auto &[weightMemory, address] = found->first;
  Weight &weight = found->second;
  uint64_t offset = uint64_t(part.address - address);
  if (weightMemory != memory || offset > weight.bytes || part.bytes > weight.bytes - offset)
    return Status::success();
  if (!weight.copy.address()) {
    Buffer copy;
    Part whole;
    whole.address = const_cast<uint8_t *>(address);
    whole.bytes = weight.bytes;
    ITX_RETURN_IF_ERROR(Buffer::make(device_, weight.bytes, copy));
    ITX_RETURN_IF_ERROR(copyHere(own, whole, copy.address()));
    weight.copy = std::move(copy);
  }
  part.copy = static_cast<uint8_t *>(weight.copy.address()) + offset;
  return Status::success();
}

/// Finds the distinct parts of memory among the operands of a launch, and the part of each operand; copies the parts.
Status KernelVerifier::makeParts(Device &own, const Launch &launch, std::vector<Part> &parts,
                                 std::vector<size_t> &partOf) {
  const std::vector<OperandInfo> &operands = *launch.operands;
  std::vector<uint64_t> bytes;
  for (uint32_t i = 0; i < launch.bufferCount; ++i) {
    std::optional<uint64_t> known = operands[i].bytesIn(launch.sizes, launch.sizeCount);
    if (!known)
      return error(ITX_INTERNAL, "the bytes of operand %u cannot be computed from the sizes of the launch", i);
    bytes.push_back(*known);
  }
  std::vector<uint32_t> order(launch.bufferCount);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return launch.buffers[a] < launch.buffers[b]; });
  partOf.resize(launch.bufferCount);
  for (uint32_t operand : order) {
    auto *address = static_cast<uint8_t *>(launch.buffers[operand]);
    if (parts.empty() || (address != parts.back().address && address >= parts.back().address + parts.back().bytes)) {
      parts.emplace_back();
      parts.back().address = address;
    }
    Part &part = parts.back();
    part.bytes = std::max(part.bytes, uint64_t(address - part.address) + bytes[operand]);
    part.isWritten |= operands[operand].isOutput;
    partOf[operand] = parts.size() - 1;
  }
  for (Part &part : parts) {
    if (!part.isWritten && &own == &device_)
      part.copy = part.address;
    else if (!part.isWritten)
      ITX_RETURN_IF_ERROR(findWeight(own, part));
    if (part.copy)
      continue;
    ITX_RETURN_IF_ERROR(Buffer::make(device_, part.bytes, part.buffer));
    part.copy = static_cast<uint8_t *>(part.buffer.address());
    ITX_RETURN_IF_ERROR(copyHere(own, part, part.copy));
  }
  return Status::success();
}

// ---- Launches ---------------------------------------------------------------------------------------------

static Status runNow(Device &device, uint32_t queue, const Launch &launch, const std::vector<itx_event> &after) {
  itx_event event = 0;
  Status status = device.dispatch(queue, launch, after.data(), uint32_t(after.size()), event);
  Status end = device.wait(event);
  return status.ok() ? end : status;
}

static std::string launchText(const Launch &launch, const Device &own) {
  return format("kernel '%s' (%s) on %s", launch.name, launch.label, own.name());
}

/// Says in front of an error of verifying which launch it is about.
static Status verifyingFailed(const Launch &launch, const Device &own, const Status &status) {
  return error(status.code(), "%s: cannot be verified: %s", launchText(launch, own).c_str(), status.message().c_str());
}

Status KernelVerifier::dispatch(Device &own, uint32_t queue, const Launch &launch,
                                const std::vector<itx_event> &after) {
  if (process_ != getpid()) // nobody unlocks a mutex that was locked at the fork
    return error(ITX_DEVICE_LOST,
                 "%s: cannot be verified in a child of a fork, where the verifying device '%s' does not work: load the "
                 "module in the child",
                 launchText(launch, own).c_str(), device_.name());
  if (launch.operands->size() != launch.bufferCount)
    return error(ITX_INTERNAL, "%s: is started with %u operands, the manifest lists %zu",
                 launchText(launch, own).c_str(), launch.bufferCount, launch.operands->size());
  std::lock_guard lock(mutex_);
  for (itx_event event : after)
    ITX_RETURN_IF_ERROR(own.wait(event));
  std::vector<Part> parts;
  std::vector<size_t> partOf;
  if (Status status = makeParts(own, launch, parts, partOf); !status.ok())
    return verifyingFailed(launch, own, status);
  Contents before;
  if (Status status = readBefore(launch, parts, partOf, before); !status.ok())
    return verifyingFailed(launch, own, status);
  ITX_RETURN_IF_ERROR(runNow(own, queue, launch, {}));

  std::vector<void *> buffers;
  for (uint32_t i = 0; i < launch.bufferCount; ++i) {
    const Part &part = parts[partOf[i]];
    buffers.push_back(part.copy + (static_cast<uint8_t *>(launch.buffers[i]) - part.address));
  }
  Launch second = launch;
  second.executable = executable_.get();
  second.buffers = buffers.data();
  if (Status status = runNow(device_, 0, second, {}); !status.ok())
    return verifyingFailed(launch, own, status);
  ITX_RETURN_IF_ERROR(compare(own, launch, parts, partOf, before));
  ++verified_.launches;
  if (!isVerified_[launch.kernel])
    ++verified_.kernels;
  isVerified_[launch.kernel] = true;
  return Status::success();
}

/// Reads what results hold that the launch updates in place: those that are operands too.
Status KernelVerifier::readBefore(const Launch &launch, const std::vector<Part> &parts,
                                  const std::vector<size_t> &partOf, Contents &before) {
  const std::vector<OperandInfo> &operands = *launch.operands;
  for (uint32_t i = 0; i < launch.bufferCount; ++i) {
    auto isRead = [&, i](uint32_t other) {
      return !operands[other].isOutput && launch.buffers[other] == launch.buffers[i];
    };
    uint32_t other = 0;
    while (other < launch.bufferCount && !isRead(other))
      ++other;
    if (!operands[i].isOutput || other == launch.bufferCount)
      continue;
    const Part &part = parts[partOf[i]];
    std::vector<uint8_t> &bytes = before[i];
    bytes.resize(*operands[i].bytesIn(launch.sizes, launch.sizeCount));
    const uint8_t *from = part.copy + (static_cast<uint8_t *>(launch.buffers[i]) - part.address);
    ITX_RETURN_IF_ERROR(copyNow(device_, bytes.data(), MemoryKind::Host, from, MemoryKind::Device, bytes.size()));
  }
  return Status::success();
}

/// Compares all results of a launch that ran on both devices.
Status KernelVerifier::compare(Device &own, const Launch &launch, const std::vector<Part> &parts,
                               const std::vector<size_t> &partOf, const Contents &before) {
  for (uint32_t i = 0; i < launch.bufferCount; ++i) {
    const OperandInfo &operand = (*launch.operands)[i];
    if (!operand.isOutput)
      continue;
    const Part &part = parts[partOf[i]];
    uint64_t bytes = *operand.bytesIn(launch.sizes, launch.sizeCount);
    const uint8_t *there = part.copy + (static_cast<uint8_t *>(launch.buffers[i]) - part.address);
    std::vector<uint8_t> expected(bytes);
    if (Status status = copyNow(device_, expected.data(), MemoryKind::Host, there, MemoryKind::Device, bytes);
        !status.ok())
      return verifyingFailed(launch, own, status);
    auto old = before.find(i);
    ITX_RETURN_IF_ERROR(compareOutput(
        own, launch, i,
        {.expected = expected.data(), .count = bytes, .before = old == before.end() ? nullptr : old->second.data()}));
  }
  return Status::success();
}

/// Compares the result that is the given operand with the expected one; `bytes` lacks what was computed.
Status KernelVerifier::compareOutput(Device &own, const Launch &launch, uint32_t operand, ResultBytes bytes) {
  const std::vector<OperandInfo> &operands = *launch.operands;
  std::vector<uint8_t> copied;
  bytes.computed = launch.buffers[operand];
  if (!own.usesHostMemory()) {
    copied.resize(bytes.count);
    if (Status status = copyNow(own, copied.data(), MemoryKind::Host, bytes.computed, MemoryKind::Device, bytes.count);
        !status.ok())
      return verifyingFailed(launch, own, status);
    bytes.computed = copied.data();
  }
  ResultComparison found = compareResults(operands[operand].dtype, bytes, tolerance_);
  if (found.largestDifference > verified_.largestDifference) {
    verified_.largestDifference = found.largestDifference;
    verified_.kernel = launch.name;
    verified_.label = launch.label;
  }
  if (found.agrees)
    return Status::success();
  auto isInput = [](const OperandInfo &info) { return !info.isOutput; };
  size_t output = operand - size_t(std::count_if(operands.begin(), operands.end(), isInput));
  return error(
      ITX_INTERNAL,
      "%s: output %zu is %s at element %llu, %s computes %s (tolerance %g; %llu of %llu elements differ): the "
      "compiler's code for %s is wrong, which please report, unless a larger tolerance is right for this model",
      launchText(launch, own).c_str(), output, found.computed.c_str(), (unsigned long long)found.first, device_.name(),
      found.expected.c_str(), tolerance_, (unsigned long long)found.differing, (unsigned long long)found.elements,
      own.kind());
}

} // namespace intarsia::runtime
