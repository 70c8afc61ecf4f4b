//===- HostApi.h - The functions that a module calls --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_HOSTAPI_H
#define INTARSIA_RUNTIME_CORE_HOSTAPI_H

#include "intarsia/module_abi.h"

namespace intarsia::runtime {

/// The table that host functions get. Errors become the status of the call.
extern const itx_host_api hostApi;

/// Starts the copies of inputs to the devices that read them; work on these devices waits for them.
void startInputs(::itx_call &call);

/// Waits until no work of a call is running on any device. An error of such work becomes the status of the call if that
/// has none.
void finishWork(::itx_call &call);

} // namespace intarsia::runtime

#endif
