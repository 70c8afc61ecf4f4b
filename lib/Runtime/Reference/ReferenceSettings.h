//===- ReferenceSettings.h - What the environment says about the reference device -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_REFERENCE_REFERENCESETTINGS_H
#define INTARSIA_RUNTIME_REFERENCE_REFERENCESETTINGS_H

#include "lib/Support/Status.h"

#include <cstdint>

namespace intarsia::runtime {

/// What goes wrong at a chosen command.
enum class Fault {
  None,
  DeviceLost, ///< this command and everything after it fails
  OutOfMemory ///< this command alone fails
};

struct ReferenceSettings {
  uint64_t memoryBytes = 0; ///< 0: half of this machine's memory
  uint64_t queues = 2;
  uint64_t delayMicroseconds = 0; ///< largest random delay before a command
  uint64_t seed = 1;              ///< of the delays
  Fault fault = Fault::None;
  uint64_t faultCommand = 0; ///< number of the command that fails, from 1 on, over all queues
};

/// Reads ITX_REFERENCE_MEMORY_BYTES, ITX_REFERENCE_QUEUES, ITX_REFERENCE_DELAY_MICROSECONDS, ITX_REFERENCE_SEED, and
/// ITX_REFERENCE_FAIL ("lost:N" or "memory:N"). Variables that are not set or invalid leave their setting as it is; the
/// error is of the first invalid one.
Status readReferenceSettings(ReferenceSettings &settings);

/// Returns half of this machine's memory, or of the limit of the process's cgroup.
uint64_t defaultReferenceMemoryBytes();

} // namespace intarsia::runtime

#endif
