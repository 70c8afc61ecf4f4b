//===- GpuDevice.cpp - A GPU behind the interface of devices ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuDevice.h"

#include "lib/Runtime/GPU/GpuGroup.h"
#include "lib/Support/Json.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace intarsia::runtime {

static constexpr const char *synchronousVariable = "ITX_GPU_SYNCHRONOUS";

/// Reads whether each launch is waited for, so that a fault is known to be its own.
static Status readSynchronous(bool &isSynchronous) {
  const char *text = std::getenv(synchronousVariable);
  std::string_view value = text ? text : "";
  isSynchronous = value == "1";
  if (value.empty() || value == "0" || value == "1")
    return Status::success();
  return error(ITX_INVALID_ARGUMENT,
               "the environment variable %s is '%s', 0 or 1 is wanted (1: wait for each launch of a "
               "GPU, so that a fault names its kernel)",
               synchronousVariable, text);
}

// ---- Life -----------------------------------------------------------------------------------------------------

GpuDevice::GpuDevice(GpuDriver &driver, int number, GpuProperties properties)
    : driver_(driver), number_(number), name_(number == 0 ? driver.kind() : format("%s:%d", driver.kind(), number)),
      properties_(std::move(properties)), state_(driver, name_), memory_(driver, state_, name_),
      queues_(driver, state_, memory_, name_.c_str()) {}

GpuDevice::~GpuDevice() {
  if (!isStarted_ || state_.isForked())
    return;
  EnteredGpu entered(driver_, number_);
  if (entered.result().ok())
    queues_.finish();
}

/// Returns an error if the device is lost or cannot be opened. Everything that touches it comes after this.
Status GpuDevice::start() {
  ITX_RETURN_IF_ERROR(state_.status()); // before a lock is taken: a child must not wait for a lock of its parent
  if (isStarted_.load(std::memory_order_acquire))
    return Status::success();
  std::lock_guard lock(startMutex_);
  if (isStarted_)
    return Status::success();
  ITX_RETURN_IF_ERROR(readSynchronous(isSynchronous_));
  ITX_RETURN_IF_ERROR(state_.check(driver_.open(number_), "be opened"));
  EnteredGpu entered(driver_, number_);
  ITX_RETURN_IF_ERROR(state_.check(entered.result(), "be used by this thread"));
  ITX_RETURN_IF_ERROR(memory_.start(number_, properties_.memoryBytes));
  ITX_RETURN_IF_ERROR(queues_.start(number_, queues));
  isStarted_.store(true, std::memory_order_release);
  return Status::success();
}

// This makes text for people, so that less code is better than faster code.
__attribute__((cold)) std::string GpuDevice::info() const {
  std::string description = properties_.name;
  for (const std::string &detail : properties_.details)
    description += ", " + detail;
  Json json = {{"name", name_},
               {"description", description + ", " + driver_.version()},
               {"threads", threads()},
               {"features", Json::array({properties_.architecture})},
               {"memory_bytes", properties_.memoryBytes},
               {"queues", queues},
               {"variant", properties_.architecture},
               {"processors", properties_.processors},
               {"warp_threads", properties_.warpThreads},
               {"shared_bytes", properties_.sharedBytes},
               {"pci_bus", properties_.pciBus},
               {"driver", driver_.version()}};
  return jsonText(json);
}

Status GpuDevice::checkEnvironment() const {
  bool ignored;
  return readSynchronous(ignored);
}

// ---- Memory and code ------------------------------------------------------------------------------------------

Status GpuDevice::allocate(uint64_t bytes, void *&address) {
  address = nullptr;
  ITX_RETURN_IF_ERROR(start());
  EnteredGpu entered(driver_, number_);
  ITX_RETURN_IF_ERROR(state_.check(entered.result(), "be used by this thread"));
  return memory_.allocate(bytes, address);
}

void GpuDevice::release(void *address) {
  if (!address || state_.isForked())
    return;
  EnteredGpu entered(driver_, number_);
  if (!memory_.release(address))
    state_.lose(format("memory at %p was freed, where nothing is allocated", address));
}

bool GpuDevice::owns(const void *address, uint64_t bytes) const {
  return !state_.isForked() && memory_.owns(address, bytes); // in a child a lock may be held for ever
}

bool GpuDevice::supports(const std::string &variant) const {
  for (GpuCodeKind kind : {GpuCodeKind::Cubin, GpuCodeKind::Ptx, GpuCodeKind::Hsaco, GpuCodeKind::Host})
    if (driver_.rank(kind, variant, properties_.architecture))
      return true;
  return false;
}

Status GpuDevice::load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  ITX_RETURN_IF_ERROR(start());
  EnteredGpu entered(driver_, number_);
  ITX_RETURN_IF_ERROR(state_.check(entered.result(), "be used by this thread"));
  return GpuExecutable::load({driver_, state_, number_, name_.c_str(), properties_}, source, executable);
}

// ---- Work -----------------------------------------------------------------------------------------------------

Status GpuDevice::checkOwned(const char *what, const void *address, uint64_t bytes) const {
  if (memory_.owns(address, bytes))
    return Status::success();
  return error(ITX_INTERNAL, "%s has %llu bytes at %p, which are not in one allocation of the device '%s'", what,
               (unsigned long long)bytes, address, name_.c_str());
}

Status GpuDevice::describeTensors(const GpuLaunch &shape, const Launch &launch, std::vector<uint64_t> &tensors) {
  for (const GpuTensorMap &map : shape.tensorMaps) {
    GpuTensorBox box;
    ITX_RETURN_IF_ERROR(computeTensorBox(map, launch, box));
    GpuTensorDescriptor descriptor = {};
    GpuResult result = driver_.describeTensor(launch.buffers[map.buffer], box, descriptor);
    tensors.insert(tensors.end(), descriptor.begin(), descriptor.end());
    if (result.failure == GpuFailure::Unsupported)
      return error(ITX_UNSUPPORTED,
                   "%s: function '%s' copies by tensor maps, which the driver, %s, cannot make: update it",
                   launchText(launch).c_str(), shape.function.c_str(), driver_.version().c_str());
    if (!result.ok())
      return state_.fail(result,
                         format("make a tensor map of operand %u of %s", map.buffer, launchText(launch).c_str()));
  }
  return Status::success();
}

/// Starts the launches of a kernel one after another. `begun` is set as soon as the stream has one.
Status GpuDevice::launchAll(GpuQueues::Submission &work, GpuExecutable &executable, const GpuExecutable::Kernel &kernel,
                            const Launch &launch, bool &begun) {
  std::optional<int64_t> scratchBytes = evaluate(kernel.kernel->scratch, launch.sizes, launch.sizeCount);
  if (!scratchBytes || *scratchBytes < 0)
    return error(ITX_INVALID_ARGUMENT, "%s: its scratch, %s bytes, does not fit in 64 bits", launchText(launch).c_str(),
                 sizeExpressionText(kernel.kernel->scratch).c_str());
  struct Start {
    const GpuExecutable::Bound *bound;
    GpuGrid grid;
    std::vector<uint64_t> tensors;
  };
  std::vector<Start> starts;
  for (const GpuExecutable::Bound &bound : kernel.launches) {
    bool isEmpty = false;
    Start start = {&bound, {}, {}};
    ITX_RETURN_IF_ERROR(computeGrid(*bound.launch, launch, properties_, start.grid, isEmpty));
    if (isEmpty)
      continue;
    ITX_RETURN_IF_ERROR(describeTensors(*bound.launch, launch, start.tensors));
    starts.push_back(std::move(start));
  }
  begun = true; // even without launches its event follows those that it waits for
  if (starts.empty())
    return Status::success();
  void *scratch = nullptr;
  ITX_RETURN_IF_ERROR(work.scratch(uint64_t(*scratchBytes), launch, scratch));
  std::vector<uint64_t> arguments;
  for (uint32_t i = 0; i < launch.bufferCount; ++i)
    arguments.push_back(reinterpret_cast<uintptr_t>(launch.buffers[i]));
  for (uint32_t i = 0; i < launch.sizeCount; ++i)
    arguments.push_back(uint64_t(launch.sizes[i]));
  arguments.push_back(reinterpret_cast<uintptr_t>(scratch));
  work.note(launch.name, launch.label, &executable);
  work.begin("kernel", launch.name, launch.label);
  for (const Start &start : starts) {
    if (GpuResult result = executable.allowShared(*start.bound, start.grid.sharedBytes); !result.ok())
      return state_.fail(
          result, format("give %s %u bytes of shared memory", launchText(launch).c_str(), start.grid.sharedBytes));
    ITX_RETURN_IF_ERROR(work.launch({start.bound->function, start.grid, arguments, start.tensors, 0, launch.name,
                                     launch.label, start.bound->launch->function.c_str()}));
  }
  return Status::success();
}

Status GpuDevice::dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                           itx_event &event) {
  event = 0;
  ITX_RETURN_IF_ERROR(start());
  auto executable = dynamic_cast<GpuExecutable *>(const_cast<Executable *>(launch.executable));
  const GpuExecutable::Kernel *kernel = executable ? executable->kernel(launch.kernel) : nullptr;
  if (!kernel)
    return error(ITX_INTERNAL, "%s is not among the kernels that the device '%s' has loaded for it",
                 launchText(launch).c_str(), name());
  if (kernel->kernel->buffers != launch.bufferCount || kernel->kernel->sizes != launch.sizeCount)
    return error(ITX_CORRUPT, "%s is started with %u buffers and %u sizes, its object says %u and %u",
                 launchText(launch).c_str(), launch.bufferCount, launch.sizeCount, kernel->kernel->buffers,
                 kernel->kernel->sizes);
  {
    GpuQueues::Submission work(queues_, queue % queues);
    ITX_RETURN_IF_ERROR(work.status());
    ITX_RETURN_IF_ERROR(work.waitFor(after, afterCount));
    bool begun = false;
    Status status = launchAll(work, *executable, *kernel, launch, begun);
    event = work.end(begun);
    ITX_RETURN_IF_ERROR(status);
  }
  return isSynchronous_ ? wait(event) : Status::success();
}

/// Starts a copy in the stream of `work`.
Status GpuDevice::copyBetween(GpuQueues::Submission &work, void *destination, MemoryKind destinationKind,
                              const void *source, MemoryKind sourceKind, uint64_t bytes, bool &begun) {
  if (bytes == 0) {
    begun = true;
    return Status::success();
  }
  if (destinationKind == MemoryKind::Host)
    return work.staging().copyToHost(work.stream(), destination, source, bytes, begun);
  if (sourceKind == MemoryKind::Host)
    return work.staging().copyToDevice(work.stream(), destination, source, bytes, begun);
  ITX_RETURN_IF_ERROR(state_.check(driver_.copyOnDevice(destination, source, bytes, work.stream()), "copy its memory"));
  begun = true;
  return Status::success();
}

Status GpuDevice::copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source,
                       MemoryKind sourceKind, uint64_t bytes, const itx_event *after, uint32_t afterCount,
                       itx_event &event) {
  event = 0;
  ITX_RETURN_IF_ERROR(start());
  if (destinationKind == MemoryKind::Device)
    ITX_RETURN_IF_ERROR(checkOwned("the destination of a copy", destination, bytes));
  if (sourceKind == MemoryKind::Device)
    ITX_RETURN_IF_ERROR(checkOwned("the source of a copy", source, bytes));
  if (destinationKind == MemoryKind::Host && sourceKind == MemoryKind::Host) {
    for (uint32_t i = 0; i < afterCount; ++i)
      ITX_RETURN_IF_ERROR(wait(after[i]));
    if (bytes != 0)
      std::memmove(destination, source, bytes);
    return Status::success();
  }
  GpuQueues::Submission work(queues_, queue % queues);
  ITX_RETURN_IF_ERROR(work.status());
  ITX_RETURN_IF_ERROR(work.waitFor(after, afterCount));
  ITX_RETURN_IF_ERROR(work.flush());
  work.begin("copy", "copy", std::to_string(bytes) + " bytes");
  bool begun = false;
  Status status = copyBetween(work, destination, destinationKind, source, sourceKind, bytes, begun);
  event = work.end(begun);
  return status;
}

Status GpuDevice::copyTo(Device &other, void *destination, const void *source, uint64_t bytes, itx_event &event) {
  auto *peer = dynamic_cast<GpuDevice *>(&other);
  if (!peer || &peer->driver_ != &driver_)
    return Device::copyTo(other, destination, source, bytes, event);
  event = 0;
  ITX_RETURN_IF_ERROR(start());
  ITX_RETURN_IF_ERROR(peer->start());
  ITX_RETURN_IF_ERROR(checkOwned("the source of a copy", source, bytes));
  ITX_RETURN_IF_ERROR(peer->checkOwned("the destination of a copy", destination, bytes));
  GpuQueues::Submission work(queues_, 0);
  ITX_RETURN_IF_ERROR(work.status());
  ITX_RETURN_IF_ERROR(work.flush());
  work.begin("copy", "copy to " + peer->name_, std::to_string(bytes) + " bytes");
  Status status;
  if (bytes != 0)
    status = state_.check(driver_.copyToPeer(destination, peer->number_, source, number_, bytes, work.stream()),
                          "copy its memory to another device");
  event = work.end(status.ok());
  return status;
}

Status GpuDevice::fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
                       uint32_t afterCount, itx_event &event) {
  event = 0;
  ITX_RETURN_IF_ERROR(start());
  ITX_RETURN_IF_ERROR(checkOwned("the destination of a fill", destination, bytes));
  GpuQueues::Submission work(queues_, queue % queues);
  ITX_RETURN_IF_ERROR(work.status());
  ITX_RETURN_IF_ERROR(work.waitFor(after, afterCount));
  ITX_RETURN_IF_ERROR(work.flush());
  work.begin("copy", "fill", std::to_string(bytes) + " bytes");
  Status status;
  if (bytes != 0)
    status = state_.check(driver_.fill(destination, value, bytes, work.stream()), "fill its memory");
  event = work.end(status.ok());
  return status;
}

Status GpuDevice::wait(itx_event event) {
  if (event == 0)
    return Status::success();
  if (state_.isForked())
    return state_.status();
  return queues_.wait(event);
}

// ---- Other ranks ----------------------------------------------------------------------------------------------

DeviceLinks GpuDevice::links() {
  DeviceLinks links;
  if (const nccl::Api *api = driver_.exchangeLibrary(links.problem))
    links.library = api->text;
  links.unit = properties_.pciBus;
  return links;
}

Status GpuDevice::makeGroupId(DeviceGroupId &id) {
  std::string problem;
  const nccl::Api *api = driver_.exchangeLibrary(problem);
  if (!api)
    return error(ITX_NOT_FOUND, "%s", problem.c_str());
  nccl::UniqueId made;
  if (nccl::Result result = api->makeId(&made); result != 0)
    return error(ITX_DEVICE_LOST, "%s of %s failed: %s", nccl::Symbols::makeId, api->text.c_str(),
                 api->errorText(result));
  std::memcpy(id.data(), made.bytes, id.size());
  return Status::success();
}

Status GpuDevice::joinGroup(const DeviceGroupId &id, size_t index, size_t size, std::unique_ptr<DeviceGroup> &group) {
  ITX_RETURN_IF_ERROR(start());
  std::string problem;
  const nccl::Api *api = driver_.exchangeLibrary(problem);
  if (!api)
    return error(ITX_NOT_FOUND, "%s", problem.c_str());
  EnteredGpu entered(driver_, number_);
  ITX_RETURN_IF_ERROR(state_.check(entered.result(), "be used by this thread"));
  return GpuGroup::join(*api, *this, id, index, size, group);
}

Status GpuDevice::submit(uint32_t queue, const char *category, const char *work, const char *label,
                         const itx_event *after, uint32_t afterCount, itx_event &event,
                         const std::function<Status(void *stream)> &put) {
  event = 0;
  ITX_RETURN_IF_ERROR(start());
  GpuQueues::Submission submission(queues_, queue % queues);
  ITX_RETURN_IF_ERROR(submission.status());
  ITX_RETURN_IF_ERROR(submission.waitFor(after, afterCount));
  ITX_RETURN_IF_ERROR(submission.flush());
  submission.begin(category, work, label);
  Status status = put(submission.stream());
  event = submission.end(); // a part of it may have begun
  return status;
}

Status GpuDevice::copyInStream(void *destination, const void *source, uint64_t bytes, void *stream) {
  return state_.check(driver_.copyOnDevice(destination, source, bytes, stream), "copy its memory");
}

void GpuDevice::useFor(const std::function<void()> &action) {
  if (state_.isForked())
    return;
  EnteredGpu entered(driver_, number_);
  if (entered.result().ok())
    action();
}

FoundGpus makeGpuDevices(GpuDriver &driver) {
  FoundGpus found;
  int count = 0;
  if (GpuResult counted = driver.countDevices(count); !counted.ok()) {
    found.problem = driver.explain(counted);
    return found;
  }
  for (int number = 0; number < count; ++number) {
    GpuProperties properties;
    if (GpuResult read = driver.readProperties(number, properties); read.ok())
      found.devices.push_back(new GpuDevice(driver, number, std::move(properties)));
    else
      found.problem += format("%sdevice %d of kind %s does not say what it is: %s", found.problem.empty() ? "" : "; ",
                              number, driver.kind(), driver.explain(read).c_str());
  }
  return found;
}

} // namespace intarsia::runtime
