//===- ReferenceDevice.cpp - A device that every machine has ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/ReferenceDevice.h"

#include "lib/Formats/DLPack.h"
#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Runtime/Reference/KernelObject.h"
#include "lib/Support/Json.h"

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

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

namespace {

/// An operand of a kernel in the device's memory.
struct Operand {
  void *address = nullptr;
  uint64_t bytes = 0; ///< 0 if the manifest does not say them
};

/// A launch, with arrays of its own.
struct KernelCommand {
  const char *name;
  const char *label;
  ReferenceKernel kernel;
  std::vector<Operand> operands;
  std::vector<int64_t> sizes;

  std::string text() const { return format("kernel '%s' (%s)", name, label); }
  /// Finds the memory of the operands.
  Status resolve(const ReferenceMemory &memory, std::vector<void *> &buffers) const;
};

/// One side of a copy.
struct Side {
  const char *name; // "destination", "source"
  void *address;
  MemoryKind kind;

  /// Finds the side's memory.
  Status resolve(const ReferenceMemory &memory, uint64_t bytes, void *&found) const;
};

/// Records the work of a queue from its beginning to its end, if a profile is being recorded.
class Recording {
public:
  Recording(uint32_t queue) : queue_(queue), recorded_(isProfiling()), beginNs_(recorded_ ? profileClockNs() : 0) {}
  void end(const char *category, const char *name, std::string label) {
    if (!recorded_)
      return;
    ProfileEvent event{category, name, std::move(label)};
    event.beginNs = beginNs_;
    event.endNs = profileClockNs();
    event.device = "reference";
    event.queue = queue_;
    recordEvent(std::move(event));
  }

private:
  uint32_t queue_;
  bool recorded_;
  int64_t beginNs_;
};

} // namespace

Status KernelCommand::resolve(const ReferenceMemory &memory, std::vector<void *> &buffers) const {
  buffers.clear();
  for (const Operand &operand : operands) {
    void *found = nullptr;
    if (!memory.resolve(operand.address, operand.bytes, found))
      return error(ITX_INTERNAL, "%s: operand %zu %s", text().c_str(), buffers.size(),
                   memory.explain(operand.address, operand.bytes).c_str());
    buffers.push_back(found);
  }
  return Status::success();
}

Status Side::resolve(const ReferenceMemory &memory, uint64_t bytes, void *&found) const {
  if (kind == MemoryKind::Host) {
    found = address;
    if (!memory.overlaps(address, bytes))
      return Status::success();
    return error(ITX_INTERNAL,
                 "copy of %llu bytes: its %s %p is an address of the reference device's memory, but is said to be the "
                 "host's",
                 (unsigned long long)bytes, name, address);
  }
  if (memory.resolve(address, bytes, found))
    return Status::success();
  return error(ITX_INTERNAL, "copy of %llu bytes: its %s %s", (unsigned long long)bytes, name,
               memory.explain(address, bytes).c_str());
}

// ---- Life ------------------------------------------------------------------------------------------------------

ReferenceDevice::ReferenceDevice() {
  settingsStatus_ = readReferenceSettings(settings_);
  if (settings_.memoryBytes == 0)
    settings_.memoryBytes = defaultReferenceMemoryBytes();
  health_.failAt(settings_.fault, settings_.faultCommand);
}

ReferenceDevice::ReferenceDevice(const ReferenceSettings &settings) : settings_(settings) {
  if (settings_.memoryBytes == 0)
    settings_.memoryBytes = defaultReferenceMemoryBytes();
  if (settings_.queues == 0)
    settings_.queues = 1;
  health_.failAt(settings_.fault, settings_.faultCommand);
}

ReferenceDevice::~ReferenceDevice() {
  if (health_.isForked()) // threads of the parent cannot be joined, nor their locks be taken
    (void)queues_.release();
}

/// Returns an error if the device is lost or cannot be started. Everything that touches memory or queues comes after
/// it.
Status ReferenceDevice::start() {
  health_.bindToProcess(); // before a lock is taken: a child must not wait for a lock of its parent
  ITX_RETURN_IF_ERROR(health_.status());
  std::lock_guard lock(startMutex_);
  ITX_RETURN_IF_ERROR(settingsStatus_);
  if (!memory_)
    ITX_RETURN_IF_ERROR(ReferenceMemory::reserve(settings_.memoryBytes, memory_));
  return queues_ ? Status::success() : CommandQueues::start(settings_, queues_);
}

Status ReferenceDevice::setDelay(uint64_t microseconds, uint64_t seed) {
  ITX_RETURN_IF_ERROR(start());
  queues_->setDelay(microseconds, seed);
  return Status::success();
}

std::string ReferenceDevice::info() const {
  Json json = {{"name", name()},
               {"description", "reference device: a second address space of this machine's memory, asynchronous "
                               "queues, exact kernels; for tests"},
               {"threads", threads()},
               {"features", Json::array()},
               {"memory_bytes", settings_.memoryBytes},
               {"queues", settings_.queues}};
  return jsonText(json);
}

Status ReferenceDevice::checkEnvironment() const {
  ReferenceSettings ignored;
  return readReferenceSettings(ignored);
}

Device &referenceDevice() {
  // Never destroyed: its threads and buffers may outlive static objects.
  static ReferenceDevice *device = new ReferenceDevice;
  return *device;
}

// ---- Memory and code -------------------------------------------------------------------------------------------

Status ReferenceDevice::allocate(uint64_t bytes, void *&address) {
  address = nullptr;
  ITX_RETURN_IF_ERROR(start());
  return memory_->allocate(bytes, address);
}

void ReferenceDevice::release(void *address) {
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

int32_t ReferenceDevice::dlpackType() const { return kDLExtDev; }

bool ReferenceDevice::owns(const void *address, uint64_t bytes) const {
  if (health_.isForked()) // a lock may be held for ever
    return false;
  std::lock_guard lock(startMutex_);
  void *found = nullptr;
  return memory_ && memory_->resolve(address, bytes, found);
}

bool ReferenceDevice::supports(const std::string &variant) const {
  return !hostArchitecture.empty() && variant.substr(0, variant.find('-')) == hostArchitecture;
}

Status ReferenceDevice::load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  ITX_RETURN_IF_ERROR(start());
  return KernelObject::load(source, executable);
}

// ---- Commands --------------------------------------------------------------------------------------------------

Status ReferenceDevice::submit(uint32_t queue, CommandQueues::Work work, const itx_event *after, uint32_t afterCount,
                               itx_event &event) {
  DeviceHealth::Numbered numbered = health_.countCommand();
  auto command = [this, numbered, work = std::move(work)]() -> Status {
    if (numbered.fault == Fault::DeviceLost)
      health_.lose(format("a fault was injected at its command %llu", (unsigned long long)numbered.number));
    ITX_RETURN_IF_ERROR(health_.status());
    if (numbered.fault == Fault::OutOfMemory)
      return error(ITX_OUT_OF_MEMORY, "the reference device has no memory for its command %llu (an injected fault)",
                   (unsigned long long)numbered.number);
    return work();
  };
  return queues_->submit(queue, std::move(command), after, afterCount, event);
}

/// Notes the addresses of a launch's operands, and their bytes if the manifest says them.
static Status readOperands(const Launch &launch, KernelCommand &command) {
  if (launch.operands && launch.operands->size() != launch.bufferCount)
    return error(ITX_INTERNAL, "%s is started with %u operands, the manifest lists %zu", command.text().c_str(),
                 launch.bufferCount, launch.operands->size());
  for (uint32_t i = 0; i < launch.bufferCount; ++i) {
    std::optional<uint64_t> bytes = 0;
    if (launch.operands)
      bytes = (*launch.operands)[i].bytesIn(launch.sizes, launch.sizeCount);
    if (!bytes)
      return error(ITX_INTERNAL, "%s: the bytes of operand %u cannot be computed from the sizes of the launch",
                   command.text().c_str(), i);
    command.operands.push_back({launch.buffers[i], *bytes});
  }
  return Status::success();
}

Status ReferenceDevice::dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                                 itx_event &event) {
  event = 0;
  queue %= queueCount();
  ITX_RETURN_IF_ERROR(start());
  auto object = dynamic_cast<const KernelObject *>(launch.executable);
  KernelCommand command = {launch.name, launch.label, object ? object->kernel(launch.kernel) : nullptr, {}, {}};
  if (!command.kernel)
    return error(ITX_INTERNAL, "%s is not among the kernels that the reference device has loaded for it",
                 command.text().c_str());
  ITX_RETURN_IF_ERROR(readOperands(launch, command));
  command.sizes.assign(launch.sizes, launch.sizes + launch.sizeCount);
  std::vector<void *> buffers;
  ITX_RETURN_IF_ERROR(command.resolve(*memory_, buffers));
  auto work = [this, queue, command = std::move(command)]() -> Status {
    std::vector<void *> buffers;
    ITX_RETURN_IF_ERROR(command.resolve(*memory_, buffers));
    Recording recording(queue);
    Status status =
        runKernel(command.kernel, buffers.data(), command.sizes.data(), settings_.memoryBytes, command.text());
    recording.end("kernel", command.name, command.label);
    return status;
  };
  return submit(queue, std::move(work), after, afterCount, event);
}

Status ReferenceDevice::copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source,
                             MemoryKind sourceKind, uint64_t bytes, const itx_event *after, uint32_t afterCount,
                             itx_event &event) {
  event = 0;
  queue %= queueCount();
  ITX_RETURN_IF_ERROR(start());
  Side to = {"destination", destination, destinationKind};
  Side from = {"source", const_cast<void *>(source), sourceKind};
  void *target = nullptr, *origin = nullptr;
  ITX_RETURN_IF_ERROR(to.resolve(*memory_, bytes, target));
  ITX_RETURN_IF_ERROR(from.resolve(*memory_, bytes, origin));
  auto work = [this, queue, to, from, bytes]() -> Status {
    void *target = nullptr, *origin = nullptr;
    ITX_RETURN_IF_ERROR(to.resolve(*memory_, bytes, target));
    ITX_RETURN_IF_ERROR(from.resolve(*memory_, bytes, origin));
    Recording recording(queue);
    if (bytes != 0)
      std::memmove(target, origin, bytes);
    recording.end("copy", "copy", std::to_string(bytes) + " bytes");
    return Status::success();
  };
  return submit(queue, std::move(work), after, afterCount, event);
}

Status ReferenceDevice::fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
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
  auto work = [queue, resolve, value, bytes]() -> Status {
    void *memory = nullptr;
    ITX_RETURN_IF_ERROR(resolve(memory));
    Recording recording(queue);
    if (bytes != 0)
      std::memset(memory, value, bytes);
    recording.end("copy", "fill", std::to_string(bytes) + " bytes");
    return Status::success();
  };
  return submit(queue, std::move(work), after, afterCount, event);
}

Status ReferenceDevice::wait(itx_event event) {
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
    return error(ITX_INTERNAL, "0x%llx is no event of the reference device, which has not had any work yet",
                 (unsigned long long)event);
  return queues->wait(event);
}

} // namespace intarsia::runtime
