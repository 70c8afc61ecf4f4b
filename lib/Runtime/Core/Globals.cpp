//===- Globals.cpp - Tensors that a module computes once, and states of sessions ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Globals.h"

#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Core/Module.h"

#include <algorithm>

namespace intarsia::runtime {

Status Globals::find(const std::string &name, Device *device, std::shared_ptr<const Tensor> &tensor) {
  std::lock_guard lock(mutex);
  auto found = tensors.find(name);
  if (found == tensors.end())
    return Status::success();
  for (const std::shared_ptr<const Tensor> &copy : found->second)
    if (copy->device == device) {
      tensor = copy;
      return Status::success();
    }
  auto copy = std::make_shared<Tensor>();
  if (Status status = copyTensor(*found->second.front(), device, *copy); !status.ok())
    return error(status.code(), "'%s' cannot be copied to the device that reads it: %s", name.c_str(),
                 status.message().c_str());
  tensor = found->second.emplace_back(std::move(copy));
  return Status::success();
}

void Globals::set(const std::string &name, Tensor tensor) {
  std::lock_guard lock(mutex);
  tensors[name] = {std::make_shared<const Tensor>(std::move(tensor))};
}

Status Session::run(size_t functionIndex, const Tensor *const *inputs, size_t count,
                    std::vector<Device *> outputMemories, ::itx_call &call) {
  std::lock_guard lock(mutex);
  const FunctionInfo &function = module->lastPart(functionIndex);
  ITX_RETURN_IF_ERROR(prepareCall(*module, functionIndex, inputs, count, call, states.get()));
  call.outputMemories = std::move(outputMemories);
  call.outputMemories.resize(function.givenOutputs, nullptr);
  // A state stays where the next call reads it.
  for (size_t i = function.givenOutputs; i < function.outputs.size(); ++i) {
    Device *memory = nullptr;
    for (const ValueInfo &input : function.inputs)
      if (input.global == function.outputs[i].global)
        memory = module->memoryOf(input.device);
    call.outputMemories.push_back(memory);
  }
  ITX_RETURN_IF_ERROR(runParts(call, states.get()));
  for (size_t i = function.givenOutputs; i < function.outputs.size(); ++i)
    states->set(function.outputs[i].global, std::move(call.outputs[i]));
  call.outputs.resize(function.givenOutputs);
  return Status::success();
}

void Session::reset() {
  std::lock_guard lock(mutex);
  states = std::make_unique<Globals>();
}

/// Finds the input that a state is of a function; null if the module has no such state.
static const ValueInfo *findState(const Module &module, const std::string &name, const FunctionInfo *&function) {
  for (const ModuleFunction &candidate : module.functions())
    for (const ValueInfo &input : candidate.info->inputs)
      if (input.global == name &&
          std::find(module.states().begin(), module.states().end(), name) != module.states().end()) {
        function = candidate.info;
        return &input;
      }
  return nullptr;
}

static Status unknownState(const Module &module, const std::string &name) {
  return error(ITX_NOT_FOUND, "%s: has no state '%s'; it has: %s", module.name().c_str(), name.c_str(),
               module.states().empty() ? "none" : join(module.states()).c_str());
}

Status Session::read(const std::string &name, Tensor &tensor) {
  std::lock_guard lock(mutex);
  const FunctionInfo *function = nullptr;
  const ValueInfo *info = findState(*module, name, function);
  if (!info)
    return unknownState(*module, name);
  Device *device = module->memoryOf(info->device);
  std::shared_ptr<const Tensor> value;
  ITX_RETURN_IF_ERROR(states->find(name, device, value));
  if (!value)
    ITX_RETURN_IF_ERROR(module->globals().find(name, device, value));
  if (!value)
    return error(ITX_CORRUPT, "%s: the state '%s' has no initial value", module->name().c_str(), name.c_str());
  return copyTensor(*value, nullptr, tensor);
}

Status Session::write(const std::string &name, const Tensor &tensor) {
  std::lock_guard lock(mutex);
  const FunctionInfo *function = nullptr;
  const ValueInfo *info = findState(*module, name, function);
  if (!info)
    return unknownState(*module, name);
  bool fits = tensor.dtype == info->dtype && tensor.shape.size() == info->shape.size();
  for (size_t i = 0; fits && i < info->shape.size(); ++i)
    fits = info->symbols[i] >= 0 || tensor.shape[i] == info->shape[i];
  if (!fits)
    return error(ITX_INVALID_ARGUMENT, "the state '%s' is %s %s, the tensor is %s %s", name.c_str(),
                 dtypeInfo(info->dtype)->name, sizeNames(*function, *info).c_str(), dtypeInfo(tensor.dtype)->name,
                 shapeText(tensor.shape).c_str());
  Tensor copy;
  ITX_RETURN_IF_ERROR(copyTensor(tensor, module->memoryOf(info->device), copy));
  states->set(name, std::move(copy));
  return Status::success();
}

} // namespace intarsia::runtime
