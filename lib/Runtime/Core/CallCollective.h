//===- CallCollective.h - Exchanges of a call with other ranks ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_CALLCOLLECTIVE_H
#define INTARSIA_RUNTIME_CORE_CALLCOLLECTIVE_H

#include "intarsia/module_abi.h"
#include "lib/Support/Status.h"

namespace intarsia::runtime {

/// The arguments of itx_host_api::collective.
struct CollectiveCall {
  uint32_t kind, element, group, label;
  void *destination;
  const void *source;
  int64_t elements, rows;
};

/// Exchanges data with the other ranks of a group. Messages name the op that the label says.
Status runCollective(::itx_call &call, const CollectiveCall &collective);

} // namespace intarsia::runtime

#endif
