//===- Call.h - One call in flight --------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_CALL_H
#define INTARSIA_RUNTIME_CORE_CALL_H

#include "intarsia/module_abi.h"
#include "lib/Runtime/Core/Memory.h"
#include "lib/Runtime/Core/Module.h"
#include "lib/Runtime/Core/Tensor.h"

#include <array>
#include <vector>

namespace intarsia::runtime {

/// The last event that a queue of a device gave to a call. The events of a queue happen in their order.
struct QueueEvent {
  uint32_t device = 0; // index in the manifest
  uint32_t queue = 0;
  itx_event event = 0; // of the device
};

} // namespace intarsia::runtime

namespace intarsia::runtime {

/// State that a caller keeps in memory of the host and a device updates: copied there before a call and back after it.
struct StateMirror {
  void *host = nullptr;
  uint64_t bytes = 0;
  Buffer buffer;
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
  intarsia::Status status; // the first error

  std::vector<std::unique_ptr<intarsia::runtime::ScratchBuffer>> inputCopies; // defaults, and inputs not aligned
  intarsia::runtime::ScratchBuffer workspace;
  intarsia::runtime::ScratchBuffer shared;

  // Work that may be running on devices; a call that uses more queues waits for one of them first.
  std::array<intarsia::runtime::QueueEvent, 16> running;
  uint32_t runningCount = 0;
  std::vector<itx_event> after; // what the next work of a device waits for there
  std::vector<intarsia::runtime::StateMirror> mirrors;
  std::vector<intarsia::runtime::Buffer> deviceWorkspaces; // by device; empty for those that use the host's memory
};

namespace intarsia::runtime {

/// Checks inputs (null: left out) against the signature, fills in defaults.
Status prepareCall(const Module &module, size_t function, const Tensor *const *inputs, size_t count, ::itx_call &call);

/// Returns the sizes of an input or output by their names: "[batch, sequence, 4]".
std::string sizeNames(const FunctionInfo &function, const ValueInfo &value);

/// Runs a prepared call; call.outputs are its results. When it returns, no work of the call is running on any device.
Status runCall(::itx_call &call);

} // namespace intarsia::runtime

#endif
