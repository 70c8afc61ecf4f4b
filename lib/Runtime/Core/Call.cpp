//===- Call.cpp - One call in flight ------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Call.h"

#include "lib/Formats/FloatFormats.h"
#include "lib/Runtime/Core/HostApi.h"
#include "lib/Runtime/Core/Profile.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace intarsia::runtime {

// ---- Inputs -----------------------------------------------------------------------------------------------

std::string sizeNames(const FunctionInfo &function, const ValueInfo &value) {
  std::vector<std::string> names;
  for (size_t i = 0; i < value.shape.size(); ++i)
    names.push_back(value.symbols[i] >= 0          ? function.sizes[value.symbols[i]].name
                    : value.expressions[i].empty() ? std::to_string(value.shape[i])
                                                   : value.expressions[i]);
  return "[" + join(names) + "]";
}

/// Checks element type, rank and sizes of one input, and sets the symbols that occur in it first. boundBy[s] is the
/// input that set symbol s, or -1.
static Status checkShape(const FunctionInfo &function, size_t index, const Tensor &tensor,
                         std::vector<int64_t> &symbols, std::vector<int32_t> &boundBy) {
  const ValueInfo &info = function.inputs[index];
  const char *name = info.name.c_str();
  if (tensor.dtype != info.dtype)
    return error(ITX_INVALID_ARGUMENT, "input '%s' is %s, function '%s' takes %s", name, dtypeInfo(tensor.dtype)->name,
                 function.name.c_str(), dtypeInfo(info.dtype)->name);
  if (tensor.shape.size() != info.shape.size())
    return error(ITX_INVALID_ARGUMENT, "input '%s' has rank %zu (%s), function '%s' takes rank %zu (%s)", name,
                 tensor.shape.size(), shapeText(tensor.shape).c_str(), function.name.c_str(), info.shape.size(),
                 sizeNames(function, info).c_str());
  for (size_t i = 0; i < info.shape.size(); ++i) {
    int64_t size = tensor.shape[i];
    int32_t symbol = info.symbols[i];
    if (symbol < 0) {
      if (size != info.shape[i])
        return error(ITX_INVALID_ARGUMENT, "input '%s' is %s: dimension %zu must be %lld (%s)", name,
                     shapeText(tensor.shape).c_str(), i, (long long)info.shape[i], sizeNames(function, info).c_str());
      continue;
    }
    const SizeInfo &limits = function.sizes[symbol];
    if (boundBy[symbol] < 0) {
      if (size < 1 && !limits.mayBeEmpty && function.continues.empty()) // sizes that a call computes may be zero
        return error(ITX_INVALID_ARGUMENT, "%s is %lld (dimension %zu of input '%s'), it must be at least 1",
                     limits.name.c_str(), (long long)size, i, name);
      if (limits.maximum >= 0 && size > limits.maximum)
        return error(ITX_INVALID_ARGUMENT, "%s is %lld, the model's maximum is %lld (dimension %zu of input '%s')",
                     limits.name.c_str(), (long long)size, (long long)limits.maximum, i, name);
      symbols[symbol] = size;
      boundBy[symbol] = int32_t(index);
    } else if (symbols[symbol] != size) {
      return error(ITX_INVALID_ARGUMENT, "%s is %lld in input '%s', but %lld in input '%s': both must be the same",
                   limits.name.c_str(), (long long)symbols[symbol], function.inputs[boundBy[symbol]].name.c_str(),
                   (long long)size, name);
    }
  }
  return Status::success();
}

/// Elements wherever the caller has them: addresses of inputs may be no multiples of their bytes.
template <typename T> struct __attribute__((packed)) Anywhere {
  T value;
};

/// True if a value lies outside of [low, last]. A loop without an exit is vectorized, if there are instructions for
/// what it computes.
template <typename T> static bool anyOutside(const Anywhere<T> *values, int64_t count, int64_t low, int64_t last) {
  if (sizeof(T) == 8 && low >= 0) {
    // x86-64 has instructions that compare 64 bits only from SSE4.2 on. The sign is set of a value below 0, and for
    // others of a difference that is below 0.
    uint64_t signs = 0;
    for (int64_t i = 0; i < count; ++i) {
      auto value = uint64_t(values[i].value);
      signs |= value | (value - uint64_t(low)) | (uint64_t(last) - value);
    }
    return int64_t(signs) < 0;
  }
  using Limits = std::numeric_limits<T>;
  T least = T(std::max<int64_t>(low, Limits::min())), most = T(std::min<int64_t>(last, Limits::max()));
  bool outside = false;
  for (int64_t i = 0; i < count; ++i)
    outside |= (values[i].value < least) | (values[i].value > most);
  return outside;
}

template <typename T> static int64_t firstOutside(const void *data, int64_t count, int64_t low, int64_t high) {
  const auto *values = static_cast<const Anywhere<T> *>(data);
  if (low >= high || low > std::numeric_limits<T>::max() || high <= std::numeric_limits<T>::min())
    return count == 0 ? -1 : 0;
  // Checks block by block: the block is still in cache for the search.
  constexpr int64_t block = 1024;
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t end = begin + block < count ? begin + block : count;
    if (anyOutside(values + begin, end - begin, low, high - 1))
      for (int64_t i = begin; i < end; ++i)
        if (int64_t(values[i].value) < low || int64_t(values[i].value) >= high)
          return i;
  }
  return -1;
}

int64_t findOutside(itx_dtype dtype, const void *data, int64_t count, int64_t low, int64_t high, int64_t &value) {
  int64_t index = -1;
#define ITX_FIND(dtype, type)                                                                                          \
  case dtype:                                                                                                          \
    index = firstOutside<type>(data, count, low, high);                                                                \
    value = index >= 0 ? int64_t(static_cast<const Anywhere<type> *>(data)[index].value) : 0;                          \
    break
  switch (dtype) {
    ITX_FIND(ITX_I64, int64_t);
    ITX_FIND(ITX_I32, int32_t);
    ITX_FIND(ITX_I16, int16_t);
    ITX_FIND(ITX_I8, int8_t);
    ITX_FIND(ITX_U8, uint8_t);
    ITX_FIND(ITX_BOOL, uint8_t);
    ITX_FIND(ITX_U16, uint16_t);
    ITX_FIND(ITX_U32, uint32_t);
  case ITX_U64: // those that i64 does not hold are below 0 as i64
    return findOutside(ITX_I64, data, count, std::max<int64_t>(low, 0), high, value);
  default:
    break;
  }
#undef ITX_FIND
  return index;
}

static Status checkRange(const FunctionInfo &function, const std::vector<int64_t> &symbols, const ValueInfo &info,
                         const Tensor &tensor) {
  const void *data = tensor.data.get();
  int64_t high = info.rangeHigh;
  bool bySize = info.belowSize >= 0 && symbols[info.belowSize] < high / info.belowFactor;
  if (bySize)
    high = symbols[info.belowSize] * info.belowFactor;
  int64_t count = 1, value = 0;
  for (int64_t size : tensor.shape)
    count *= size;
  int64_t index = findOutside(info.dtype, data, count, info.rangeLow, high, value);
  if (index < 0)
    return Status::success();
  std::vector<int64_t> position(tensor.shape.size());
  int64_t rest = index;
  for (size_t i = position.size(); i-- > 0; rest /= tensor.shape[i])
    position[i] = rest % tensor.shape[i];
  std::string why =
      bySize ? ": " + function.sizes[info.belowSize].name + " is " + std::to_string(symbols[info.belowSize]) : "";
  return error(ITX_INVALID_ARGUMENT, "input '%s' is %lld at %s: values must be in [%lld, %lld)%s", info.name.c_str(),
               (long long)value, shapeText(position).c_str(), (long long)info.rangeLow, (long long)high, why.c_str());
}

/// Names the memory of a device; null means the host.
static std::string memoryText(const Device *device) {
  return device ? "the memory of the device '" + std::string(device->name()) + "'" : "the memory of the host";
}

/// Checks that an input lies in memory of the host or in that which the function reads it in.
static Status checkMemory(const Module &module, const ValueInfo &info, const Tensor &tensor) {
  const Device *wanted = module.memoryOf(info.device);
  if (!tensor.device || tensor.device == wanted)
    return Status::success();
  return error(ITX_INVALID_ARGUMENT, "input '%s' is in %s, it must be in %s%s: copy it there first", info.name.c_str(),
               memoryText(tensor.device).c_str(), memoryText(wanted).c_str(),
               wanted ? " or the memory of the host" : "");
}

/// Checks an input that the call updates in place, which is never copied.
static Status checkState(const ValueInfo &info, const Tensor &tensor) {
  if (tensor.readOnly)
    return error(ITX_INVALID_ARGUMENT, "input '%s' is updated in place, and is read-only", info.name.c_str());
  if (tensor.isCopy)
    return error(ITX_INVALID_ARGUMENT, "input '%s' is updated in place: its elements must lie side by side in memory",
                 info.name.c_str());
  if (reinterpret_cast<uintptr_t>(tensor.data.get()) % ITX_BUFFER_ALIGNMENT != 0)
    return error(ITX_INVALID_ARGUMENT,
                 "input '%s' is updated in place: its memory must begin at a multiple of %d bytes", info.name.c_str(),
                 ITX_BUFFER_ALIGNMENT);
  return Status::success();
}

/// Notes that an input is to be copied to the device that reads it; `data` becomes the address there.
static Status copyToDevice(::itx_call &call, size_t index, Device *from, uint64_t bytes, void *&data) {
  const ValueInfo &info = call.function->inputs[index];
  Device &device = *call.module->devices()[info.device].device;
  if (call.deviceInputs.size() <= index)
    call.deviceInputs.resize(index + 1);
  Buffer &buffer = call.deviceInputs[index];
  if (Status status = buffer.reserve(device, bytes); !status.ok())
    return error(status.code(), "no memory on the device '%s' for the %llu bytes of input '%s': %s", device.name(),
                 (unsigned long long)bytes, info.name.c_str(), status.message().c_str());
  call.toDevices.push_back({uint32_t(info.device), {from, data}, buffer.address(), bytes, info.state});
  data = buffer.address();
  return Status::success();
}

template <typename T> static void fillWith(void *data, int64_t count, T value) {
  T *values = static_cast<T *>(data);
  for (int64_t i = 0; i < count; ++i)
    values[i] = value;
}

static void fillDefault(const ValueInfo &info, void *data, int64_t count) {
  double value = info.defaultValue;
  switch (info.dtype) {
  case ITX_F32:
    return fillWith(data, count, float(value));
  case ITX_F64:
    return fillWith(data, count, value);
  case ITX_F16:
    return fillWith(data, count, encodeF16(float(value)));
  case ITX_BF16:
    return fillWith(data, count, encodeBf16(float(value)));
  case ITX_I64:
    return fillWith(data, count, int64_t(value));
  case ITX_I32:
    return fillWith(data, count, int32_t(int64_t(value)));
  case ITX_I16:
    return fillWith(data, count, int16_t(int64_t(value)));
  case ITX_I8:
    return fillWith(data, count, int8_t(int64_t(value)));
  case ITX_U8:
    return fillWith(data, count, uint8_t(int64_t(value)));
  case ITX_BOOL:
    return fillWith(data, count, uint8_t(value != 0));
  case ITX_U16:
    return fillWith(data, count, uint16_t(int64_t(value)));
  case ITX_U32:
    return fillWith(data, count, uint32_t(int64_t(value)));
  case ITX_U64:
    return fillWith(data, count, uint64_t(value));
  }
}

/// Returns memory of the call for its index-th input.
static void *inputCopy(::itx_call &call, size_t index, uint64_t bytes) {
  if (call.inputCopies.size() <= index)
    call.inputCopies.resize(index + 1);
  if (!call.inputCopies[index])
    call.inputCopies[index] = std::make_unique<ScratchBuffer>();
  return call.inputCopies[index]->reserve(bytes);
}

static std::vector<std::string> inputNames(const FunctionInfo &function) {
  std::vector<std::string> names;
  for (size_t i = 0; i < function.givenInputs; ++i)
    names.push_back(function.inputs[i].name);
  return names;
}

/// Checks an input, and notes where the function finds it.
static Status takeInput(const Module &module, size_t index, const Tensor &tensor, std::vector<int32_t> &boundBy,
                        ::itx_call &call) {
  const ValueInfo &info = call.function->inputs[index];
  ITX_RETURN_IF_ERROR(checkShape(*call.function, index, tensor, call.symbols, boundBy));
  ITX_RETURN_IF_ERROR(checkMemory(module, info, tensor));
  if (info.state)
    ITX_RETURN_IF_ERROR(checkState(info, tensor));
  void *data = tensor.data.get();
  Device *there = module.memoryOf(info.device);
  uint64_t alignment = tensor.device ? ITX_BUFFER_ALIGNMENT : dtypeInfo(info.dtype)->bytes;
  bool isAligned = reinterpret_cast<uintptr_t>(data) % alignment == 0;
  if (there && !(tensor.device && isAligned)) {
    call.inputOwners[index] = tensor.data;
    ITX_RETURN_IF_ERROR(copyToDevice(call, index, tensor.device, tensor.bytes, data));
  } else if (!isAligned) {
    void *copy = inputCopy(call, index, tensor.bytes);
    if (!copy)
      return error(ITX_OUT_OF_MEMORY, "no memory for an aligned copy of input '%s'", info.name.c_str());
    std::memcpy(copy, data, tensor.bytes);
    data = copy;
  } else {
    call.inputOwners[index] = tensor.data;
  }
  call.inputs[index] = data;
  return Status::success();
}

/// Fills an input that is left out with its default.
static Status fillInput(const Module &module, size_t index, const std::vector<int32_t> &boundBy, ::itx_call &call) {
  const FunctionInfo &function = *call.function;
  const ValueInfo &info = function.inputs[index];
  std::vector<int64_t> shape = info.shape;
  int64_t elements = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (info.symbols[d] >= 0) {
      if (boundBy[info.symbols[d]] < 0)
        return error(ITX_INVALID_ARGUMENT, "%s is not known: no input that carries it was given, and '%s' needs it",
                     function.sizes[info.symbols[d]].name.c_str(), info.name.c_str());
      shape[d] = call.symbols[info.symbols[d]];
    }
    elements *= shape[d];
  }
  uint64_t bytes = 0;
  ITX_RETURN_IF_ERROR(tensorBytes(info.dtype, shape.data(), shape.size(), bytes));
  call.inputs[index] = inputCopy(call, index, bytes);
  if (!call.inputs[index])
    return error(ITX_OUT_OF_MEMORY, "no memory for input '%s'", info.name.c_str());
  fillDefault(info, call.inputs[index], elements);
  return module.memoryOf(info.device) ? copyToDevice(call, index, nullptr, bytes, call.inputs[index])
                                      : Status::success();
}

/// Finds the value of a global: what a session has of it, or else what the module has computed at load.
static Status findGlobal(const Module &module, size_t index, Globals *states, const ::itx_call &call,
                         std::shared_ptr<const Tensor> &tensor) {
  const ValueInfo &info = call.function->inputs[index];
  Device *device = module.memoryOf(info.device);
  if (states)
    ITX_RETURN_IF_ERROR(states->find(info.global, device, tensor));
  if (!tensor)
    ITX_RETURN_IF_ERROR(module.globals().find(info.global, device, tensor));
  if (!tensor)
    return error(ITX_CORRUPT, "%s: no function computes '%s', which function '%s' reads", module.name().c_str(),
                 info.global.c_str(), call.function->name.c_str());
  return Status::success();
}

Status prepareCall(const Module &module, size_t functionIndex, const Tensor *const *inputs, size_t count,
                   ::itx_call &call, Globals *states) {
  const FunctionInfo &function = *module.functions()[functionIndex].info;
  call.module = &module;
  call.function = &function;
  call.results = Results::WithCall;
  call.functionIndex = functionIndex;
  call.symbols.assign(function.sizes.size(), 0);
  call.inputs.assign(function.inputs.size(), nullptr);
  call.inputOwners.assign(function.inputs.size(), nullptr);
  call.outputs.clear();
  call.outputMemories.clear();
  call.toDevices.clear();
  call.fromFunction.clear();
  call.status = Status::success();
  if (count > function.givenInputs)
    return error(ITX_INVALID_ARGUMENT, "%zu inputs given, function '%s' takes %zu: %s", count, function.name.c_str(),
                 function.givenInputs, join(inputNames(function)).c_str());
  const FunctionInfo &last = module.lastPart(functionIndex);
  if (!states && !function.runsAtLoad && last.outputs.size() != last.givenOutputs)
    return error(ITX_INVALID_ARGUMENT,
                 "function '%s' keeps the state '%s' from call to call: call it with a session (itx_session_invoke)",
                 function.name.c_str(), last.outputs[last.givenOutputs].global.c_str());

  call.given.clear();
  if (module.functions()[functionIndex].next)
    for (size_t i = 0; i < function.givenInputs; ++i)
      call.given.push_back(i < count && inputs[i] ? std::optional(*inputs[i]) : std::nullopt);
  std::vector<int32_t> boundBy(function.sizes.size(), -1);
  std::vector<std::shared_ptr<const Tensor>> globals;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (const Tensor *tensor = i < count ? inputs[i] : nullptr)
      ITX_RETURN_IF_ERROR(takeInput(module, i, *tensor, boundBy, call));
    else if (i >= function.givenInputs) {
      ITX_RETURN_IF_ERROR(findGlobal(module, i, states, call, globals.emplace_back()));
      ITX_RETURN_IF_ERROR(takeInput(module, i, *globals.back(), boundBy, call));
    } else if (!function.inputs[i].optional)
      return error(ITX_INVALID_ARGUMENT, "input '%s' of function '%s' is missing", function.inputs[i].name.c_str(),
                   function.name.c_str());
  }

  // Ranges may depend on sizes, all of which are known by now.
  for (size_t i = 0; i < count; ++i)
    if (inputs[i] && function.inputs[i].hasRange)
      ITX_RETURN_IF_ERROR(checkRange(function, call.symbols, function.inputs[i], *inputs[i]));
  for (size_t i = 0; i < globals.size(); ++i)
    if (const ValueInfo &info = function.inputs[function.givenInputs + i]; info.hasRange)
      ITX_RETURN_IF_ERROR(checkRange(function, call.symbols, info, *globals[i]));

  for (size_t i = 0; i < function.inputs.size(); ++i)
    if (!call.inputs[i])
      ITX_RETURN_IF_ERROR(fillInput(module, i, boundBy, call));
  return Status::success();
}

// ---- The call ---------------------------------------------------------------------------------------------

/// Copies results to where the caller wants them, and state back to where the caller keeps it.
static Status returnResults(::itx_call &call) {
  Copies copies;
  for (const InputCopy &input : call.toDevices)
    if (input.isState)
      ITX_RETURN_IF_ERROR(
          copies.start(input.from, {call.module->devices()[input.device].device, input.to}, input.bytes));
  for (const ResultCopy &result : call.fromFunction)
    ITX_RETURN_IF_ERROR(copies.start(result.to, result.from, result.bytes));
  return copies.finish();
}

/// Runs a prepared call of a module that one process runs alone, or the part of one rank.
static Status runPart(::itx_call &call) {
  bool profiled = isProfiling();
  int64_t beginNs = profiled ? profileClockNs() : 0;
  const Module &module = *call.module;
  ITX_RETURN_IF_ERROR(module.checkWeights());
  if (!call.toDevices.empty())
    startInputs(call);
  if (module.stream() && call.status.ok())
    call.status = module.stream()->begin(call.functionIndex, call.weightPass);
  int32_t result = 1;
  if (call.status.ok())
    result = module.functions()[call.functionIndex].call(&hostApi, &call, call.symbols.data(), call.inputs.data(),
                                                         module.weights());
  if (call.runningCount != 0)
    finishWork(call);
  if (module.stream())
    module.stream()->end(call.weightPass, call.status.ok() && result == 0);
  if (call.status.ok() && result == 0 && !(call.toDevices.empty() && call.fromFunction.empty()))
    call.status = returnResults(call);
  for (std::shared_ptr<void> &owner : call.inputOwners)
    owner.reset();
  if (profiled)
    recordEvent({"call", call.function->name, module.name(), beginNs, profileClockNs(), 0, 0});
  if (!call.status.ok())
    return call.status;
  if (result != 0 || call.outputs.size() != call.function->outputs.size())
    return error(ITX_INTERNAL, "function '%s' of %s did not make its results", call.function->name.c_str(),
                 module.name().c_str());
  return Status::success();
}

Status endWorld(const Module &module, const Status &status) {
  return module.world() ? module.world()->state().fail(status) : status;
}

Status runCallOfWorld(::itx_call &call) {
  WorldState &world = call.module->world()->state();
  call.number = world.beginCall();
  Status status = runPart(call);
  // Devices whose exchanges were ended have no results, and give no error themselves.
  if (DeviceGroups *devices = call.module->deviceGroups())
    if (Status failure = devices->endCall(); !failure.ok())
      status = failure;
  world.endCall(status);
  return status;
}

Status runCall(::itx_call &call) {
  World *world = call.module->world();
  if (!world)
    return runPart(call);
  // Ranks exchange data in the order of their calls.
  std::lock_guard lock(world->mutex());
  // Ranks that are no pipeline may exchange data in any direction.
  if (call.function->stages == 1)
    ITX_RETURN_IF_ERROR(world->late().finish());
  Status status = runCallOfWorld(call);
  return status.ok() || call.results == Results::WithCall ? status : endWorld(*call.module, status);
}

/// Says where the results of a part are wanted: sizes in memory of the host, others where the parts behind it read
/// them. If those do so in several memories, each copies it from that of the host.
static std::vector<Device *> memoriesOfParts(const Module &module, const FunctionInfo &part, size_t nextIndex) {
  const FunctionInfo &next = *module.functions()[nextIndex].info;
  std::vector<Device *> memories;
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    auto memoryIn = [&](size_t function) {
      return module.memoryOf(module.functions()[function].info->inputs[part.givenInputs + i].device);
    };
    memories.push_back(memoryIn(nextIndex));
    for (std::optional<size_t> later = module.functions()[nextIndex].next; later;
         later = module.functions()[*later].next)
      if (memoryIn(*later) != memories.back())
        memories.back() = nullptr;
  }
  for (const ValueInfo &input : next.inputs)
    if (input.sizeFrom >= 0)
      memories[input.sizeFrom] = nullptr;
  return memories;
}

/// Makes the inputs of the next part: what the part before was given, its results, and what has the sizes.
static Status passOn(::itx_call &call, const FunctionInfo &next, std::vector<std::optional<Tensor>> &inputs) {
  inputs = std::move(call.given);
  size_t results = inputs.size();
  for (Tensor &result : call.outputs)
    inputs.emplace_back(std::move(result));
  while (inputs.size() < next.givenInputs) {
    const ValueInfo &info = next.inputs[inputs.size()];
    const SizeInfo &limits = next.sizes[info.symbols[0]];
    int64_t size = *static_cast<const int64_t *>(inputs[results + info.sizeFrom]->data.get());
    auto refuse = [&](itx_status code, const std::string &why) {
      return error(code, "function '%s' computes the size %lld ('%s'), which is %s", call.function->name.c_str(),
                   (long long)size, limits.name.c_str(), why.c_str());
    };
    if (size < 0)
      return refuse(ITX_INVALID_ARGUMENT, "negative");
    if (limits.maximum >= 0 && size > limits.maximum)
      return refuse(ITX_INVALID_ARGUMENT, "more than " + std::to_string(limits.maximum));
    // Kernels take it for its size; nothing reads its elements.
    if (Status status = makeTensor(ITX_I8, &size, 1, inputs.emplace_back().emplace()); !status.ok())
      return refuse(status.code(), "too large: " + status.message());
  }
  return Status::success();
}

Status runParts(::itx_call &call, Globals *states) {
  const Module &module = *call.module;
  std::vector<Device *> wanted = std::move(call.outputMemories);
  while (std::optional<size_t> next = module.functions()[call.functionIndex].next) {
    const FunctionInfo &part = *call.function, &rest = *module.functions()[*next].info;
    call.outputMemories = memoriesOfParts(module, part, *next);
    ITX_RETURN_IF_ERROR(runCall(call));
    std::vector<std::optional<Tensor>> inputs;
    ITX_RETURN_IF_ERROR(passOn(call, rest, inputs));
    std::vector<const Tensor *> pointers;
    for (const std::optional<Tensor> &input : inputs)
      pointers.push_back(input ? &*input : nullptr);
    ITX_RETURN_IF_ERROR(prepareCall(module, *next, pointers.data(), pointers.size(), call, states));
  }
  call.outputMemories = std::move(wanted);
  return runCall(call);
}

Status finishLateResults(const Module &module, uint64_t call) {
  World *world = module.world();
  if (!world)
    return Status::success();
  std::lock_guard lock(world->mutex());
  return world->late().finish(call);
}

} // namespace intarsia::runtime

void itx_call::clear() {
  given.clear();
  inputOwners.clear();
  outputs.clear();
  isCancelled = nullptr;
  for (size_t i = 0; i < deviceInputs.size(); ++i)
    if (function && i < function->inputs.size() && function->inputs[i].state)
      deviceInputs[i].reset(); // may be most of a device's memory
}
