//===- HostedDevice.cpp - What devices that compute on the host share ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/HostedDevice.h"

#include "lib/Formats/DLPack.h"
#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Support/Json.h"

#include <cstring>
#include <optional>
#include <utility>

namespace intarsia::runtime {

namespace {

/// A launch, with arrays of its own.
struct KernelCommand {
  const char *name;
  const char *label;
  std::string text;
  std::vector<HostedOperand> operands;
  std::vector<int64_t> sizes;

  /// Finds the memory of the operands.
  Status resolve(const HostedMemory &memory, std::vector<void *> &buffers) const;
};

/// One side of a copy.
struct Side {
  const char *name; // "destination", "source"
  void *address;
  MemoryKind kind;

  /// Finds the side's memory.
  Status resolve(const HostedNames &names, const HostedMemory &memory, uint64_t bytes, void *&found) const;
};

/// Records the work of a queue from its beginning to its end, if a profile is being recorded.
class Recording {
public:
  Recording(const char *device, uint32_t queue)
      : device_(device), queue_(queue), recorded_(isProfiling()), beginNs_(recorded_ ? profileClockNs() : 0) {}
  void end(const char *category, const char *name, std::string label) {
    if (!recorded_)
      return;
    ProfileEvent event{category, name, std::move(label)};
    event.beginNs = beginNs_;
    event.endNs = profileClockNs();
    event.device = device_;
    event.queue = queue_;
    recordEvent(std::move(event));
  }

private:
  const char *device_;
  uint32_t queue_;
  bool recorded_;
  int64_t beginNs_;
};

} // namespace

Status KernelCommand::resolve(const HostedMemory &memory, std::vector<void *> &buffers) const {
  buffers.clear();
  for (const HostedOperand &operand : operands) {
    void *found = nullptr;
    uint64_t bytes = operand.bytes.value_or(0);
    if (!memory.resolve(operand.address, bytes, found))
      return error(ITX_INTERNAL, "%s: operand %zu %s", text.c_str(), buffers.size(),
                   memory.explain(operand.address, bytes).c_str());
    buffers.push_back(found);
  }
  return Status::success();
}

Status Side::resolve(const HostedNames &names, const HostedMemory &memory, uint64_t bytes, void *&found) const {
  if (kind == MemoryKind::Host) {
    found = address;
    if (!memory.overlaps(address, bytes))
      return Status::success();
    return error(ITX_INTERNAL,
                 "copy of %llu bytes: its %s %p is an address of %s's memory, but is said to be the host's",
                 (unsigned long long)bytes, name, address, names.text);
  }
  if (memory.resolve(address, bytes, found))
    return Status::success();
  return error(ITX_INTERNAL, "copy of %llu bytes: its %s %s", (unsigned long long)bytes, name,
               memory.explain(address, bytes).c_str());
}

// ---- Life ------------------------------------------------------------------------------------------------------

HostedDevice::HostedDevice(const HostedNames &names) : names_(names), health_(names.text) {
  settingsStatus_ = readHostedSettings(names_, settings_);
  if (settings_.memoryBytes == 0)
    settings_.memoryBytes = defaultHostedMemoryBytes();
  health_.failAt(settings_.fault, settings_.faultCommand);
}

HostedDevice::HostedDevice(const HostedNames &names, const HostedSettings &settings)
    : names_(names), settings_(settings), health_(names.text) {
  if (settings_.memoryBytes == 0)
    settings_.memoryBytes = defaultHostedMemoryBytes();
  if (settings_.queues == 0)
    settings_.queues = 1;
  health_.failAt(settings_.fault, settings_.faultCommand);
}

HostedDevice::~HostedDevice() { finish(); }

void HostedDevice::refuse(Status status) {
  if (settingsStatus_.ok())
    settingsStatus_ = std::move(status);
}

void HostedDevice::finish() {
  if (health_.isForked()) // threads of the parent cannot be joined, nor their locks be taken
    (void)queues_.release();
  queues_.reset();
}

/// Returns an error if the device is lost or cannot be started. Everything that touches memory or queues comes after
/// it.
Status HostedDevice::start() {
  health_.bindToProcess(); // before a lock is taken: a child must not wait for a lock of its parent
  ITX_RETURN_IF_ERROR(health_.status());
  std::lock_guard lock(startMutex_);
  ITX_RETURN_IF_ERROR(settingsStatus_);
  if (!memory_)
    ITX_RETURN_IF_ERROR(HostedMemory::reserve(names_, settings_.memoryBytes, memory_));
  return queues_ ? Status::success() : CommandQueues::start(names_, settings_, queues_);
}

Status HostedDevice::setDelay(uint64_t microseconds, uint64_t seed) {
  ITX_RETURN_IF_ERROR(start());
  queues_->setDelay(microseconds, seed);
  return Status::success();
}

std::string HostedDevice::info() const {
  Json json = {{"name", name()},
               {"description", description()},
               {"threads", threads()},
               {"features", Json::array()},
               {"memory_bytes", settings_.memoryBytes},
               {"queues", settings_.queues}};
  return jsonText(json);
}

Status HostedDevice::checkEnvironment() const {
  HostedSettings ignored;
  return readHostedSettings(names_, ignored);
}

// ---- Memory and code -------------------------------------------------------------------------------------------

Status HostedDevice::allocate(uint64_t bytes, void *&address) {
  address = nullptr;
  ITX_RETURN_IF_ERROR(start());
  return memory_->allocate(bytes, address);
}

void HostedDevice::release(void *address) {
  if (!address || health_.isForked())
    return;
  bool isReleased = false;
  {
    std::lock_guard lock(startMutex_);
    isReleased = memory_ && memory_->release(address);
  }
  if (!isReleased)
    health_.lose(format("memory at %p was freed, where nothing is allocated", address));
}

int32_t HostedDevice::dlpackType() const { return kDLExtDev; }

bool HostedDevice::owns(const void *address, uint64_t bytes) const {
  if (health_.isForked()) // a lock may be held for ever
    return false;
  std::lock_guard lock(startMutex_);
  void *found = nullptr;
  return memory_ && memory_->resolve(address, bytes, found);
}

Status HostedDevice::load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  ITX_RETURN_IF_ERROR(start());
  return loadObject(source, executable);
}

// ---- Commands --------------------------------------------------------------------------------------------------

Status HostedDevice::submit(uint32_t queue, CommandQueues::Work work, const itx_event *after, uint32_t afterCount,
                            itx_event &event) {
  std::lock_guard lock(submitMutex_);
  DeviceHealth::Numbered numbered = health_.countCommand();
  auto command = [this, numbered, work = std::move(work)]() -> Status {
    if (numbered.fault == Fault::DeviceLost)
      health_.lose(format("a fault was injected at its command %llu", (unsigned long long)numbered.number));
    ITX_RETURN_IF_ERROR(health_.status());
    if (numbered.fault == Fault::OutOfMemory)
      return error(ITX_OUT_OF_MEMORY, "%s has no memory for its command %llu (an injected fault)", names_.text,
                   (unsigned long long)numbered.number);
    return work();
  };
  return queues_->submit(queue, std::move(command), after, afterCount, event);
}

/// Notes the addresses of a launch's operands, and their bytes if the manifest says them.
static Status readOperands(const Launch &launch, KernelCommand &command) {
  if (launch.operands && launch.operands->size() != launch.bufferCount)
    return error(ITX_INTERNAL, "%s is started with %u operands, the manifest lists %zu", command.text.c_str(),
                 launch.bufferCount, launch.operands->size());
  for (uint32_t i = 0; i < launch.bufferCount; ++i) {
    std::optional<uint64_t> bytes;
    if (launch.operands)
      bytes = (*launch.operands)[i].bytesIn(launch.sizes, launch.sizeCount);
    if (launch.operands && !bytes)
      return error(ITX_INTERNAL, "%s: the bytes of operand %u cannot be computed from the sizes of the launch",
                   command.text.c_str(), i);
    command.operands.push_back({launch.buffers[i], bytes});
  }
  return Status::success();
}

Status HostedDevice::dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                              itx_event &event) {
  event = 0;
  queue %= queueCount();
  ITX_RETURN_IF_ERROR(start());
  KernelCommand command = {launch.name, launch.label, format("kernel '%s' (%s)", launch.name, launch.label), {}, {}};
  Body body;
  ITX_RETURN_IF_ERROR(bind(launch, command.text, body));
  ITX_RETURN_IF_ERROR(readOperands(launch, command));
  command.sizes.assign(launch.sizes, launch.sizes + launch.sizeCount);
  std::vector<void *> buffers;
  ITX_RETURN_IF_ERROR(command.resolve(*memory_, buffers));
  auto work = [this, queue, body = std::move(body), command = std::move(command)]() -> Status {
    std::vector<void *> buffers;
    ITX_RETURN_IF_ERROR(command.resolve(*memory_, buffers));
    Recording recording(names_.kind, queue);
    Status status = body({queue, command.text, command.operands, buffers, command.sizes});
    recording.end("kernel", command.name, command.label);
    return status;
  };
  return submit(queue, std::move(work), after, afterCount, event);
}

Status HostedDevice::copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source,
                          MemoryKind sourceKind, uint64_t bytes, const itx_event *after, uint32_t afterCount,
                          itx_event &event) {
  event = 0;
  queue %= queueCount();
  ITX_RETURN_IF_ERROR(start());
  Side to = {"destination", destination, destinationKind};
  Side from = {"source", const_cast<void *>(source), sourceKind};
  void *target = nullptr, *origin = nullptr;
  ITX_RETURN_IF_ERROR(to.resolve(names_, *memory_, bytes, target));
  ITX_RETURN_IF_ERROR(from.resolve(names_, *memory_, bytes, origin));
  auto work = [this, queue, to, from, bytes]() -> Status {
    void *target = nullptr, *origin = nullptr;
    ITX_RETURN_IF_ERROR(to.resolve(names_, *memory_, bytes, target));
    ITX_RETURN_IF_ERROR(from.resolve(names_, *memory_, bytes, origin));
    Recording recording(names_.kind, queue);
    if (bytes != 0)
      std::memmove(target, origin, bytes);
    recording.end("copy", "copy", std::to_string(bytes) + " bytes");
    return Status::success();
  };
  return submit(queue, std::move(work), after, afterCount, event);
}

Status HostedDevice::fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
                          uint32_t afterCount, itx_event &event) {
  event = 0;
  queue %= queueCount();
  ITX_RETURN_IF_ERROR(start());
  auto resolve = [this, destination, bytes](void *&memory) -> Status {
    if (memory_->resolve(destination, bytes, memory))
      return Status::success();
    return error(ITX_INTERNAL, "fill of %llu bytes: its destination %s", (unsigned long long)bytes,
                 memory_->explain(destination, bytes).c_str());
  };
  void *memory = nullptr;
  ITX_RETURN_IF_ERROR(resolve(memory));
  auto work = [this, queue, resolve, value, bytes]() -> Status {
    void *memory = nullptr;
    ITX_RETURN_IF_ERROR(resolve(memory));
    Recording recording(names_.kind, queue);
    if (bytes != 0)
      std::memset(memory, value, bytes);
    recording.end("copy", "fill", std::to_string(bytes) + " bytes");
    return Status::success();
  };
  return submit(queue, std::move(work), after, afterCount, event);
}

Status HostedDevice::wait(itx_event event) {
  if (event == 0)
    return Status::success();
  if (health_.isForked())
    return health_.status();
  CommandQueues *queues;
  {
    std::lock_guard lock(startMutex_);
    queues = queues_.get();
  }
  if (!queues)
    return error(ITX_INTERNAL, "0x%llx is no event of %s, which has not had any work yet", (unsigned long long)event,
                 names_.text);
  return queues->wait(event);
}

} // namespace intarsia::runtime
