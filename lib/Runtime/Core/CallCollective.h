//===- CallCollective.h - Exchanges of a call with other ranks ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_CALLCOLLECTIVE_H
#define INTARSIA_RUNTIME_CORE_CALLCOLLECTIVE_H

#include "intarsia/module_abi.h"
#include "lib/Runtime/Core/Module.h"

namespace intarsia::runtime {

/// The arguments of itx_host_api::collective.
struct CollectiveCall {
  Device *device; ///< in whose own memory source and destination are; null: in the host's
  uint32_t queue;
  uint32_t kind, element, group, label;
  void *destination;
  const void *source;
  int64_t elements, rows;
};

/// Exchanges data with the other ranks of a group, after `call.after`, events of the device that the caller has put
/// there. Messages name the op that the label says. `event` receives the device's event of an exchange that its ranks'
/// devices do themselves; 0: it is done.
Status runCollective(::itx_call &call, const CollectiveCall &collective, itx_event &event);

/// The same of an exchange that no earlier one comes before.
Status exchangeInMemory(::itx_call &call, const CollectiveCall &collective, itx_event &event);

/// Runs an operation in memory of the host for a function, whenever the call of it was, and notes its time and its
/// name.
Status exchangeNow(const Module &module, const FunctionInfo &function, const CollectiveCall &given);

} // namespace intarsia::runtime

#endif
