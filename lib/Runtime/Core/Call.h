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

#include <vector>

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
};

namespace intarsia::runtime {

/// Checks inputs (null: left out) against the signature, fills in defaults.
Status prepareCall(const Module &module, size_t function, const Tensor *const *inputs, size_t count, ::itx_call &call);

/// Runs a prepared call; call.outputs are its results.
Status runCall(::itx_call &call);

} // namespace intarsia::runtime

#endif
