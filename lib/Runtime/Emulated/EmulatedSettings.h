//===- EmulatedSettings.h - What the environment says about the emulated GPU -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_EMULATEDSETTINGS_H
#define INTARSIA_RUNTIME_EMULATED_EMULATEDSETTINGS_H

#include "lib/Runtime/Emulated/WarpMachine.h"

namespace intarsia::runtime {

/// Reads ITX_EMULATED_SCHEDULE ("lockstep", "greedy" or "greedy-reversed"), ITX_EMULATED_STACK_BYTES, and
/// ITX_EMULATED_UNWRITTEN ("refuse" or "allow"). Variables that are not set or invalid leave their setting as it is;
/// the error is of the first invalid one.
Status readMachineSettings(MachineSettings &settings);

} // namespace intarsia::runtime

#endif
