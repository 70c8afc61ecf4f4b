//===- Call.h - One call in flight --------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_CALL_H
#define INTARSIA_RUNTIME_CORE_CALL_H

#include "intarsia/module_abi.h"
#include "lib/Runtime/Core/Copies.h"
#include "lib/Runtime/Core/Memory.h"
#include "lib/Runtime/Core/Module.h"
#include "lib/Runtime/Core/Tensor.h"

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace intarsia::runtime {

class StageCalls;

/// The last event that a queue of a device gave to a call. The events of a queue happen in their order.
struct QueueEvent {
  uint32_t device = 0; // index in the manifest
  uint32_t queue = 0;
  itx_event event = 0; // of the device
};

/// An input that is copied to the device that reads it, before the device's first work for the call. State is copied
/// back after the call.
struct InputCopy {
  uint32_t device = 0; // index in the manifest
  MemoryAddress from;
  void *to = nullptr;
  uint64_t bytes = 0;
  bool isState = false;
};

/// When a caller wants the results of a call; the same on all ranks.
enum class Results : uint8_t {
  WithCall,
  Later, ///< stages of a pipeline may get them after the call: see finishLateResults()
  None,  ///< what is in `outputs` after the call is undefined
};

/// A result that is copied from where the function writes it to the memory that the caller wants it in.
struct ResultCopy {
  MemoryAddress to, from;
  uint64_t bytes = 0;
};

} // namespace intarsia::runtime

/// The opaque `call` of a host function. The module keeps it between calls.
struct itx_call {
  const intarsia::runtime::Module *module = nullptr;
  const intarsia::FunctionInfo *function = nullptr;
  size_t functionIndex = 0;

  std::vector<int64_t> symbols;
  std::vector<std::shared_ptr<void>> inputOwners; // keeps the caller's memory alive during the call
  std::vector<void *> inputs;
  std::vector<intarsia::runtime::Tensor> outputs;
  intarsia::runtime::Results results = intarsia::runtime::Results::WithCall;
  intarsia::runtime::StageCalls *stageCalls = nullptr; // that it is one of
  uint64_t number = 0;                                 // of the world's calls
  std::function<bool()> isCancelled;                   // by the caller, who is asked while it runs; empty: never
  intarsia::Status status;                             // the first error
  std::vector<std::optional<intarsia::runtime::Tensor>> given; // inputs, of functions that another part continues

  std::vector<std::unique_ptr<intarsia::runtime::ScratchBuffer>>
      inputCopies; // defaults, and inputs whose elements are not aligned
  intarsia::runtime::ScratchBuffer workspace;
  intarsia::runtime::ScratchBuffer shared;
  intarsia::runtime::ScratchBuffer exchangeSource, exchangeDestination; // of devices that exchange by way of the host

  intarsia::runtime::WeightPass weightPass; // of modules that read weights while calls run
  intarsia::runtime::WeightUse weightUse;   // of the launch that is being started

  // Work that may be running on devices; a call that uses more queues waits for one of them first.
  std::array<intarsia::runtime::QueueEvent, 16> running;
  uint32_t runningCount = 0;
  std::vector<itx_event> after;                            // what the next work of a device waits for there
  std::vector<intarsia::runtime::Buffer> deviceWorkspaces; // by device; empty for those that use the host's memory

  // These are about inputs and results that are not in the memory where the function reads or writes them; functions of
  // the CPU leave all of them empty.
  std::vector<intarsia::runtime::Device *> outputMemories; // by output, set by the caller; null or missing: the host's
  std::vector<intarsia::runtime::InputCopy> toDevices;
  std::vector<intarsia::runtime::QueueEvent> arrivals; // of toDevices
  std::vector<intarsia::runtime::ResultCopy> fromFunction;
  std::vector<intarsia::runtime::Buffer> deviceInputs;  // by input
  std::vector<intarsia::runtime::Buffer> deviceResults; // by output
  std::vector<std::unique_ptr<intarsia::runtime::ScratchBuffer>> hostResults;

  /// Lets the memory of callers go; the call keeps only its own.
  void clear();
};

namespace intarsia::runtime {

/// Returns the index of the first integer that is not in [low, high), and sets `value` to it; -1 if there is none.
int64_t findOutside(itx_dtype dtype, const void *data, int64_t count, int64_t low, int64_t high, int64_t &value);

/// Checks inputs (null: left out) against the signature, fills in defaults, and finds globals. `states` are those of a
/// session; without it, functions that change states are refused.
Status prepareCall(const Module &module, size_t function, const Tensor *const *inputs, size_t count, ::itx_call &call,
                   Globals *states = nullptr);

/// Returns the sizes of an input or output by their names: "[batch, sequence, 4]".
std::string sizeNames(const FunctionInfo &function, const ValueInfo &value);

/// Ends the world of a module, if it has one: other ranks may have gone on to later calls, and would take what belongs
/// to those for a call that this rank has failed in. Returns the error that all ranks get.
Status endWorld(const Module &module, const Status &status);

/// Runs a prepared call; call.outputs are its results. When it returns, no work of the call is running on any device.
Status runCall(::itx_call &call);

/// Runs a prepared call and the parts that continue it. `states` are those of a session, or null; call.outputMemories
/// are of the last part's results.
Status runParts(::itx_call &call, Globals *states = nullptr);

/// The same as runCall for a caller that holds the mutex of the module's world.
Status runCallOfWorld(::itx_call &call);

/// Gets the results of the world's calls up to this one that are still to come, if the module has a world.
Status finishLateResults(const Module &module, uint64_t call = ~uint64_t(0));

} // namespace intarsia::runtime

#endif
