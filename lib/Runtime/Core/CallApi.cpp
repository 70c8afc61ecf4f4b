//===- CallApi.cpp - The C interface of calls ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Core/Pending.h"

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;

static const FunctionInfo &infoOf(const Callee &callee) { return *callee.module->functions()[callee.index].info; }

/// Returns the part of the function that gives its results.
static const FunctionInfo &resultsOf(const Callee &callee) { return callee.module->lastPart(callee.index); }

static Status checkOutputArguments(const FunctionInfo &function, itx_tensor **outputs, size_t count) {
  if (count != function.givenOutputs)
    return error(ITX_INVALID_ARGUMENT, "room for %zu outputs given, function '%s' has %zu", count,
                 function.name.c_str(), function.givenOutputs);
  if (count != 0)
    ITX_REQUIRE(outputs);
  return Status::success();
}

/// Gives the memory that each output is wanted in, nothing if all are wanted in that of the host, and how the caller is
/// asked whether to go on.
static Status readOptions(const FunctionInfo &function, const itx_invoke_options *given,
                          std::vector<Device *> &memories, std::function<bool()> &isCancelled) {
  if (!given)
    return Status::success();
  itx_invoke_options options = {};
  if (given->struct_bytes < sizeof(given->struct_bytes))
    return error(ITX_INVALID_ARGUMENT,
                 "struct_bytes of the call's options is %zu: set it to sizeof(itx_invoke_options)",
                 given->struct_bytes);
  std::memcpy(&options, given, std::min(given->struct_bytes, sizeof(options)));
  if (options.cancelled)
    isCancelled = [cancelled = options.cancelled, data = options.cancelled_data] { return cancelled(data) != 0; };
  if (!options.output_devices)
    return Status::success();
  if (options.output_device_count != function.givenOutputs)
    return error(ITX_INVALID_ARGUMENT, "devices for %zu outputs given, function '%s' has %zu outputs",
                 options.output_device_count, function.name.c_str(), function.givenOutputs);
  for (size_t i = 0; i < options.output_device_count; ++i)
    memories.push_back(options.output_devices[i] ? ownMemoryOf(*deviceOf(options.output_devices[i])) : nullptr);
  return Status::success();
}

/// Finds the function, and prepares a call of it.
static Status prepare(const Callee &callee, const itx_invoke_options *options, itx_tensor *const *inputs,
                      size_t inputCount, std::unique_ptr<itx_call> &call) {
  if (inputCount != 0)
    ITX_REQUIRE(inputs);
  if (int64_t stages = infoOf(callee).turn.count; stages > 1)
    return error(ITX_UNSUPPORTED,
                 "function '%s' is one of the %lld stages that each rank has, between which come those of other ranks: "
                 "make a cache (itx_cache_create), whose steps compute all of them",
                 infoOf(callee).name.c_str(), (long long)stages);
  std::vector<Device *> memories;
  std::function<bool()> isCancelled;
  ITX_RETURN_IF_ERROR(readOptions(resultsOf(callee), options, memories, isCancelled));
  call = callee.module->takeCall();
  Status status = prepareCall(*callee.module, callee.index, inputs, inputCount, *call);
  if (!status.ok()) {
    callee.module->giveCall(std::move(call));
    return status;
  }
  call->outputMemories = std::move(memories);
  call->isCancelled = std::move(isCancelled);
  return status;
}

itx_status itx_invoke_with(const itx_function *function, const itx_invoke_options *options, itx_tensor *const *inputs,
                           size_t input_count, itx_tensor **outputs, size_t output_count) {
  return guarded([&]() -> Status {
    Callee callee;
    ITX_RETURN_IF_ERROR(calleeOf(function, callee));
    ITX_RETURN_IF_ERROR(checkOutputArguments(resultsOf(callee), outputs, output_count));
    std::unique_ptr<itx_call> call;
    ITX_RETURN_IF_ERROR(prepare(callee, options, inputs, input_count, call));
    Status status = runParts(*call);
    if (status.ok())
      giveTensors(call->outputs, outputs);
    callee.module->giveCall(std::move(call));
    return status;
  });
}

// ---- Sessions ----------------------------------------------------------------------------------------------

itx_status itx_session_create(const itx_module *module, itx_session **session) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(module);
    ITX_REQUIRE(session);
    std::shared_ptr<Module> loaded = moduleOf(module);
    *session = new itx_session{loaded, std::make_shared<Session>(loaded)};
    return Status::success();
  });
}

void itx_session_free(itx_session *session) { delete session; }

size_t itx_module_state_count(const itx_module *module) { return module ? moduleOf(module)->states().size() : 0; }

const char *itx_module_state_name(const itx_module *module, size_t index) {
  return index < itx_module_state_count(module) ? moduleOf(module)->states()[index].c_str() : nullptr;
}

itx_status itx_session_invoke(itx_session *session, const itx_function *function, const itx_invoke_options *options,
                              itx_tensor *const *inputs, size_t input_count, itx_tensor **outputs,
                              size_t output_count) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(session);
    Callee callee;
    ITX_RETURN_IF_ERROR(calleeOf(function, callee));
    if (callee.module != session->module)
      return error(ITX_INVALID_ARGUMENT, "function '%s' is of another module than the session",
                   infoOf(callee).name.c_str());
    ITX_RETURN_IF_ERROR(checkOutputArguments(resultsOf(callee), outputs, output_count));
    if (input_count != 0)
      ITX_REQUIRE(inputs);
    std::vector<Device *> memories;
    std::unique_ptr<itx_call> call = callee.module->takeCall();
    Status status = readOptions(resultsOf(callee), options, memories, call->isCancelled);
    std::shared_ptr<Session> kept = session->session; // another thread may free the handle
    if (status.ok())
      status = kept->run(callee.index, inputs, input_count, std::move(memories), *call);
    if (status.ok())
      giveTensors(call->outputs, outputs);
    callee.module->giveCall(std::move(call));
    return status;
  });
}

itx_status itx_session_reset(itx_session *session) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(session);
    session->session->reset();
    return Status::success();
  });
}

itx_status itx_session_read(itx_session *session, const char *state, itx_tensor **tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(session);
    ITX_REQUIRE(state);
    ITX_REQUIRE(tensor);
    std::vector<Tensor> read(1);
    ITX_RETURN_IF_ERROR(session->session->read(state, read[0]));
    giveTensors(read, tensor);
    return Status::success();
  });
}

itx_status itx_session_write(itx_session *session, const char *state, const itx_tensor *tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(session);
    ITX_REQUIRE(state);
    ITX_REQUIRE(tensor);
    return session->session->write(state, *tensor);
  });
}

itx_status itx_invoke(const itx_function *function, itx_tensor *const *inputs, size_t input_count, itx_tensor **outputs,
                      size_t output_count) {
  return itx_invoke_with(function, nullptr, inputs, input_count, outputs, output_count);
}

itx_status itx_invoke_start_with(const itx_function *function, const itx_invoke_options *options,
                                 itx_tensor *const *inputs, size_t input_count, itx_pending **pending) {
  return guarded([&]() -> Status {
    Callee callee;
    ITX_RETURN_IF_ERROR(calleeOf(function, callee));
    ITX_REQUIRE(pending);
    std::unique_ptr<itx_call> call;
    ITX_RETURN_IF_ERROR(prepare(callee, options, inputs, input_count, call));
    const FunctionInfo &info = infoOf(callee);
    // Either of the two ways to cancel.
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    call->isCancelled = [cancelled, asked = std::move(call->isCancelled)] { return *cancelled || (asked && asked()); };
    // std::function wants what can be copied.
    auto shared = std::make_shared<std::unique_ptr<itx_call>>(std::move(call));
    auto work = [callee, shared](std::vector<Tensor> &results) -> Status {
      Status status = runParts(**shared);
      if (status.ok())
        results = std::move((*shared)->outputs);
      callee.module->giveCall(std::move(*shared));
      return status;
    };
    startPending("function '" + info.name + "'", resultsOf(callee).givenOutputs, std::move(work), pending,
                 std::move(cancelled));
    return Status::success();
  });
}

itx_status itx_invoke_start(const itx_function *function, itx_tensor *const *inputs, size_t input_count,
                            itx_pending **pending) {
  return itx_invoke_start_with(function, nullptr, inputs, input_count, pending);
}
