//===- HostApi.cpp - The functions that a module calls ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A module's events say which of its devices they are of: its index plus one in the highest 8 bits, the device's own
// number in the others. The host waits for events of other devices before it starts work on a device; a device waits
// for its own.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/HostApi.h"

#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Core/CallCollective.h"
#include "lib/Runtime/Core/VerifyKernels.h"

#include <algorithm>
#include <optional>

namespace intarsia::runtime {

/// Makes the memory that the function writes a result to: that of the result's tensor, or memory of the call if the
/// caller wants the result elsewhere.
static Status makeOutput(::itx_call &call, size_t index, const int64_t *sizes, void *&output) {
  const ValueInfo &info = call.function->outputs[index];
  Device *written = call.module->memoryOf(info.device);
  Device *wanted = index < call.outputMemories.size() ? call.outputMemories[index] : nullptr;
  Tensor &tensor = call.outputs[index];
  ITX_RETURN_IF_ERROR(makeTensorOn(wanted, info.dtype, sizes, info.shape.size(), tensor));
  output = tensor.data.get();
  if (written == wanted)
    return Status::success();
  if (written) {
    call.deviceResults.resize(std::max(call.deviceResults.size(), index + 1));
    ITX_RETURN_IF_ERROR(call.deviceResults[index].reserve(*written, tensor.bytes));
    output = call.deviceResults[index].address();
  } else {
    call.hostResults.resize(std::max(call.hostResults.size(), index + 1));
    if (!call.hostResults[index])
      call.hostResults[index] = std::make_unique<ScratchBuffer>();
    output = call.hostResults[index]->reserve(tensor.bytes);
    if (!output)
      return error(ITX_OUT_OF_MEMORY, "no memory of the host for %llu bytes", (unsigned long long)tensor.bytes);
  }
  call.fromFunction.push_back({{wanted, tensor.data.get()}, {written, output}, tensor.bytes});
  return Status::success();
}

static Status makeOutputs(::itx_call &call, const int64_t *sizes, void **outputs) {
  const std::vector<ValueInfo> &infos = call.function->outputs;
  call.outputs.resize(infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    size_t rank = infos[i].shape.size();
    if (Status status = makeOutput(call, i, sizes, outputs[i]); !status.ok())
      return error(status.code(), "output '%s' of function '%s' would be %s: %s", infos[i].name.c_str(),
                   call.function->name.c_str(), shapeText(std::vector<int64_t>(sizes, sizes + rank)).c_str(),
                   status.message().c_str());
    sizes += rank;
  }
  return Status::success();
}

/// Returns the sizes of the call: "batch is 2, sequence is 128".
static std::string sizesText(const ::itx_call &call) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < call.symbols.size(); ++i)
    texts.push_back(call.function->sizes[i].name + " is " + std::to_string(call.symbols[i]));
  return join(texts);
}

/// Runs an action and keeps its exception: nothing may be thrown through a module's frames.
template <typename Action> static Status caught(Action action) {
  try {
    return action();
  } catch (const std::bad_alloc &) {
    return {ITX_OUT_OF_MEMORY, "out of memory"};
  } catch (const std::exception &exception) {
    return {ITX_INTERNAL, exception.what()};
  }
}

/// Runs an action unless the call has failed.
template <typename Action> static bool attempt(::itx_call &call, Action action) {
  if (!call.status.ok())
    return false;
  call.status = caught(action);
  return call.status.ok();
}

/// Fails if the caller has cancelled the call.
static Status checkCancelled(const ::itx_call &call) {
  if (!call.isCancelled || !call.isCancelled())
    return Status::success();
  return error(ITX_CANCELLED, "function '%s' was cancelled by its caller", call.function->name.c_str());
}

// ---- Events -----------------------------------------------------------------------------------------------

static constexpr unsigned deviceShift = 56;
static_assert(maximumDevices < 1 << (64 - deviceShift));

static itx_event eventOf(uint32_t device, itx_event event) {
  return event == 0 ? 0 : itx_event(device + 1) << deviceShift | event;
}
static uint32_t deviceOf(itx_event event) { return uint32_t(event >> deviceShift) - 1; }
static itx_event numberOf(itx_event event) { return event & ((itx_event(1) << deviceShift) - 1); }

static Status waitFor(::itx_call &call, itx_event event) {
  if (event == 0)
    return Status::success();
  const std::vector<BoundDevice> &devices = call.module->devices();
  if (deviceOf(event) >= devices.size() || !devices[deviceOf(event)].device)
    return error(ITX_CORRUPT, "function '%s' waits for an event of device %u of %zu", call.function->name.c_str(),
                 deviceOf(event), devices.size());
  return devices[deviceOf(event)].device->wait(numberOf(event));
}

/// Waits for the events of other devices, and puts those of the device into call.after, with those of inputs that are
/// copied there.
static Status waitForOthers(::itx_call &call, uint32_t device, const itx_event *after, uint32_t count) {
  call.after.clear();
  for (const QueueEvent &arrival : call.arrivals)
    if (arrival.device == device)
      call.after.push_back(arrival.event);
  for (uint32_t i = 0; i < count; ++i)
    if (after[i] != 0 && deviceOf(after[i]) == device)
      call.after.push_back(numberOf(after[i]));
    else
      ITX_RETURN_IF_ERROR(waitFor(call, after[i]));
  return Status::success();
}

/// Notes work that a device has started, for finishWork().
static Status noteRunning(::itx_call &call, uint32_t device, uint32_t queue, itx_event event) {
  Device &on = *call.module->devices()[device].device;
  queue %= on.queueCount();
  QueueEvent *end = call.running.data() + call.runningCount;
  QueueEvent *found = std::find_if(call.running.data(), end, [&](const QueueEvent &other) {
    return other.device == device && other.queue == queue;
  });
  Status status;
  if (found == call.running.data() + call.running.size()) {
    // The call has used the first queue longest; its work is the most likely to be done.
    found = call.running.data();
    status = caught([&] { return call.module->devices()[found->device].device->wait(found->event); });
    std::rotate(found, found + 1, end);
    found = end - 1;
  } else if (found == end) {
    ++call.runningCount;
  }
  *found = {device, queue, event};
  return status;
}

void startInputs(::itx_call &call) {
  constexpr uint32_t queue = 1; // that of the compiler's copies, so that kernels of other calls go on
  for (const InputCopy &input : call.toDevices) {
    attempt(call, [&]() -> Status {
      Device &device = *call.module->devices()[input.device].device;
      itx_event started = 0;
      Status status =
          device.copy(queue, input.to, MemoryKind::Device, input.from.address,
                      input.from.device ? MemoryKind::Device : MemoryKind::Host, input.bytes, nullptr, 0, started);
      if (started != 0) {
        call.arrivals.push_back({input.device, queue, started});
        ITX_RETURN_IF_ERROR(noteRunning(call, input.device, queue, started));
      }
      return status;
    });
  }
}

void finishWork(::itx_call &call) {
  for (uint32_t i = 0; i < call.runningCount; ++i) {
    const QueueEvent &last = call.running[i];
    Status status = caught([&] { return call.module->devices()[last.device].device->wait(last.event); });
    if (call.status.ok())
      call.status = std::move(status);
  }
  call.runningCount = 0;
  call.arrivals.clear();
}

// ---- The functions ----------------------------------------------------------------------------------------

static int32_t hostCheck(::itx_call *call, uint32_t number, int64_t left, int64_t right) {
  bool good = attempt(*call, [&]() -> Status {
    const FunctionInfo &function = *call->function;
    if (number >= function.checks.size())
      return error(ITX_CORRUPT, "function '%s' makes check %u of %zu", function.name.c_str(), number,
                   function.checks.size());
    const CheckInfo &check = function.checks[number];
    bool atMost = check.relation == CheckRelation::AtMost;
    if (check.relation == CheckRelation::Below)
      return error(ITX_CORRUPT, "function '%s' compares two sizes by check %u, which is of indices",
                   function.name.c_str(), number);
    if (atMost ? left <= right : left == right)
      return Status::success();
    bool isLeftNumber = check.left == std::to_string(left), isRightNumber = check.right == std::to_string(right);
    std::string needed = (atMost ? "must be at most " : "must be ") + check.right;
    if (!isRightNumber)
      needed += ", which is " + std::to_string(right);
    if (isLeftNumber)
      return error(ITX_INVALID_ARGUMENT, "%s is %lld, must be %s%s: %s", check.right.c_str(), (long long)right,
                   atMost ? "at least " : "", check.left.c_str(), check.why.c_str());
    return error(ITX_INVALID_ARGUMENT, "%s is %lld, %s: %s", check.left.c_str(), (long long)left, needed.c_str(),
                 check.why.c_str());
  });
  return good ? 0 : 1;
}

/// Makes the workspaces of the devices that have memory of their own.
static Status makeDeviceWorkspaces(::itx_call &call, const int64_t *bytes, void **workspaces) {
  const std::vector<BoundDevice> &devices = call.module->devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    workspaces[i] = nullptr;
    if (!devices[i].hasOwnMemory && bytes[i] != 0)
      return error(ITX_CORRUPT, "function '%s' wants a workspace of the device '%s', which %s",
                   call.function->name.c_str(), call.module->manifest().devices[i].name.c_str(),
                   devices[i].device ? "uses memory of the host" : "is not among its devices");
    if (!devices[i].hasOwnMemory)
      continue;
    if (call.deviceWorkspaces.empty())
      call.deviceWorkspaces.resize(devices.size());
    Status status = bytes[i] < 0 ? error(ITX_OUT_OF_MEMORY, "that is more than 64 bits hold")
                                 : call.deviceWorkspaces[i].reserve(*devices[i].device, uint64_t(bytes[i]));
    if (!status.ok())
      return error(status.code(), "no memory on the device '%s' for the %lld bytes that function '%s' works in: %s",
                   devices[i].device->name(), (long long)bytes[i], call.function->name.c_str(),
                   status.message().c_str());
    workspaces[i] = call.deviceWorkspaces[i].address();
  }
  return Status::success();
}

static int32_t hostPrepare(::itx_call *call, const int64_t *workspaceBytes, const int64_t *outputSizes, void **outputs,
                           void **workspaces) {
  bool good = attempt(*call, [&]() -> Status {
    ITX_RETURN_IF_ERROR(makeOutputs(*call, outputSizes, outputs));
    workspaces[0] = workspaceBytes[0] >= 0 ? call->workspace.reserve(workspaceBytes[0]) : nullptr;
    if (!workspaces[0])
      return error(ITX_OUT_OF_MEMORY, "no memory for the %lld bytes that function '%s' works in",
                   (long long)workspaceBytes[0], call->function->name.c_str());
    return makeDeviceWorkspaces(*call, workspaceBytes + 1, workspaces + 1);
  });
  return good ? 0 : 1;
}

/// Starts a kernel of a module whose weights may have to be read first, and waits for it: its weights may go then.
static Status dispatchStreamed(::itx_call &call, Device &device, uint32_t queue, Launch &launch) {
  WeightStream &stream = *call.module->stream();
  Status status = stream.acquire(call.weightPass,
                                 {launch.buffers, launch.bufferCount, launch.sizes, launch.sizeCount, launch.operands},
                                 call.weightUse);
  launch.buffers = call.weightUse.buffers.data();
  itx_event started = 0;
  if (status.ok())
    status = device.dispatch(queue, launch, call.after.data(), uint32_t(call.after.size()), started);
  if (status.ok())
    status = device.wait(started);
  stream.release(call.weightUse);
  return status;
}

static itx_event hostDispatch(::itx_call *call, uint32_t queue, uint32_t kernel, uint32_t label, void *const *buffers,
                              uint32_t bufferCount, const int64_t *sizes, uint32_t sizeCount, const itx_event *after,
                              uint32_t afterCount) {
  itx_event event = 0;
  attempt(*call, [&]() -> Status {
    const Module &module = *call->module;
    const Manifest &manifest = module.manifest();
    if (kernel >= manifest.kernels.size())
      return error(ITX_CORRUPT, "function '%s' starts kernel %u of %zu", call->function->name.c_str(), kernel,
                   manifest.kernels.size());
    uint32_t device = manifest.kernelDevices[kernel];
    const BoundDevice &bound = module.devices()[device];
    if (!bound.device)
      return error(ITX_CORRUPT, "function '%s' starts kernel '%s' of the device '%s', which is not among its devices",
                   call->function->name.c_str(), manifest.kernels[kernel].c_str(),
                   manifest.devices[device].name.c_str());
    ITX_RETURN_IF_ERROR(checkCancelled(*call));
    ITX_RETURN_IF_ERROR(waitForOthers(*call, device, after, afterCount));
    Launch launch;
    launch.entry = module.kernels() + kernel;
    launch.executable = bound.executable.get();
    launch.kernel = kernel;
    launch.name = manifest.kernels[kernel].c_str();
    launch.label = label < manifest.labels.size() ? manifest.labels[label].c_str() : "";
    launch.buffers = buffers;
    launch.bufferCount = bufferCount;
    launch.sizes = sizes;
    launch.sizeCount = sizeCount;
    launch.operands = manifest.operands.empty() ? nullptr : &manifest.operands[kernel];
    launch.shared = &call->shared;
    itx_event started = 0;
    const std::vector<itx_event> &own = call->after;
    Status status = module.verifier() ? module.verifier()->dispatch(*bound.device, queue, launch, own)
                    : module.stream() && bound.device->usesHostMemory()
                        ? dispatchStreamed(*call, *bound.device, queue, launch)
                        : bound.device->dispatch(queue, launch, own.data(), uint32_t(own.size()), started);
    if (started != 0) {
      event = eventOf(device, started);
      ITX_RETURN_IF_ERROR(noteRunning(*call, device, queue, started));
    }
    if (status.code() != ITX_INVALID_ARGUMENT)
      return status;
    return error(ITX_INVALID_ARGUMENT, "function '%s': %s: %s", call->function->name.c_str(), status.message().c_str(),
                 sizesText(*call).c_str());
  });
  return event;
}

static itx_event hostCopy(::itx_call *call, uint32_t device, uint32_t queue, void *destination, const void *source,
                          int64_t bytes, uint32_t memories, const itx_event *after, uint32_t afterCount) {
  itx_event event = 0;
  attempt(*call, [&]() -> Status {
    const std::vector<BoundDevice> &devices = call->module->devices();
    if (device >= devices.size() || !devices[device].device || bytes < 0 ||
        (memories & ~uint32_t(ITX_COPY_DESTINATION_ON_DEVICE | ITX_COPY_SOURCE_ON_DEVICE)) != 0)
      return error(ITX_CORRUPT, "function '%s' copies %lld bytes on device %u of %zu, between the memories %u",
                   call->function->name.c_str(), (long long)bytes, device, devices.size(), memories);
    ITX_RETURN_IF_ERROR(waitForOthers(*call, device, after, afterCount));
    auto memory = [&](uint32_t side) { return memories & side ? MemoryKind::Device : MemoryKind::Host; };
    itx_event started = 0;
    Status status = devices[device].device->copy(queue, destination, memory(ITX_COPY_DESTINATION_ON_DEVICE), source,
                                                 memory(ITX_COPY_SOURCE_ON_DEVICE), uint64_t(bytes), call->after.data(),
                                                 uint32_t(call->after.size()), started);
    if (started != 0) {
      event = eventOf(device, started);
      ITX_RETURN_IF_ERROR(noteRunning(*call, device, queue, started));
    }
    return status;
  });
  return event;
}

static int32_t hostWait(::itx_call *call, itx_event event) {
  return attempt(*call,
                 [&]() -> Status {
                   ITX_RETURN_IF_ERROR(checkCancelled(*call));
                   return waitFor(*call, event);
                 })
             ? 0
             : 1;
}

static void hostRefuse(itx_call *call, uint32_t owner, uint32_t index, int64_t size) {
  attempt(*call, [&]() -> Status {
    const FunctionInfo &function = *call->function;
    const std::vector<std::string> &labels = call->module->manifest().labels;
    std::string what = "the size of its workspace", why;
    if (owner <= ITX_SIZE_OF_RIGHT && index < function.checks.size()) {
      const CheckInfo &check = function.checks[index];
      what = "'" + (owner == ITX_SIZE_OF_LEFT ? check.left : check.right) + "'";
      why = "; " + check.why;
    } else if (owner == ITX_SIZE_OF_OUTPUT && index < function.outputs.size()) {
      what = "a size of output '" + function.outputs[index].name + "' " + sizeNames(function, function.outputs[index]);
    } else if (owner == ITX_SIZE_OF_LAUNCH && index < labels.size()) {
      what = "a size of '" + labels[index] + "'";
    }
    if (owner == ITX_SIZE_OF_WORKSPACE && size >= 0 && size != INT64_MAX)
      return error(ITX_CORRUPT, "function '%s': a buffer ends at byte %lld, outside of its workspace: %s",
                   function.name.c_str(), static_cast<long long>(size), sizesText(*call).c_str());
    std::string amount =
        size < 0 ? "is negative (" + std::to_string(size) + ")" : std::string("cannot be computed with 64 bits");
    return error(ITX_INVALID_ARGUMENT, "function '%s': %s %s: %s%s", function.name.c_str(), what.c_str(),
                 amount.c_str(), sizesText(*call).c_str(), why.c_str());
  });
}

static int32_t hostCheckIndices(::itx_call *call, uint32_t number, const void *indices, uint32_t elementBytes,
                                int64_t count, int64_t limit) {
  bool good = attempt(*call, [&]() -> Status {
    const FunctionInfo &function = *call->function;
    std::optional<itx_dtype> dtype = elementBytes == 8   ? std::optional(ITX_I64)
                                     : elementBytes == 4 ? std::optional(ITX_I32)
                                     : elementBytes == 2 ? std::optional(ITX_I16)
                                     : elementBytes == 1 ? std::optional(ITX_I8)
                                                         : std::nullopt;
    if (number >= function.checks.size() || function.checks[number].relation != CheckRelation::Below || !dtype ||
        count < 0)
      return error(ITX_CORRUPT, "function '%s' checks %lld indices of %u bytes by check %u of %zu",
                   function.name.c_str(), (long long)count, elementBytes, number, function.checks.size());
    const CheckInfo &check = function.checks[number];
    int64_t value = 0, index = findOutside(*dtype, indices, count, 0, limit, value);
    if (index < 0)
      return Status::success();
    bool isNumber = check.right == std::to_string(limit);
    return error(ITX_INVALID_ARGUMENT,
                 "function '%s': element %lld of the computed %s is %lld, must be in [0, %lld)%s: %s",
                 function.name.c_str(), (long long)index, check.left.c_str(), (long long)value, (long long)limit,
                 isNumber ? "" : (", below " + check.right).c_str(), check.why.c_str());
  });
  return good ? 0 : 1;
}

static itx_event hostCollective(itx_call *call, uint32_t device, uint32_t queue, uint32_t kind, uint32_t element,
                                uint32_t group, uint32_t label, void *destination, const void *source, int64_t elements,
                                int64_t rows, const itx_event *after, uint32_t afterCount) {
  itx_event event = 0;
  attempt(*call, [&]() -> Status {
    const std::vector<BoundDevice> &devices = call->module->devices();
    if (device != ITX_NO_DEVICE && (device >= devices.size() || !devices[device].device))
      return error(ITX_CORRUPT, "function '%s' exchanges data on device %u of %zu", call->function->name.c_str(),
                   device, devices.size());
    Device *on = device != ITX_NO_DEVICE && devices[device].hasOwnMemory ? devices[device].device : nullptr;
    if (on)
      ITX_RETURN_IF_ERROR(waitForOthers(*call, device, after, afterCount));
    for (uint32_t i = 0; !on && i < afterCount; ++i)
      ITX_RETURN_IF_ERROR(waitFor(*call, after[i]));
    itx_event started = 0;
    Status status =
        runCollective(*call, {on, queue, kind, element, group, label, destination, source, elements, rows}, started);
    if (started != 0) {
      event = eventOf(device, started);
      ITX_RETURN_IF_ERROR(noteRunning(*call, device, queue, started));
    }
    return status;
  });
  return event;
}

const itx_host_api hostApi = {hostCheck, hostPrepare, hostDispatch,     hostCopy,
                              hostWait,  hostRefuse,  hostCheckIndices, hostCollective};

} // namespace intarsia::runtime
