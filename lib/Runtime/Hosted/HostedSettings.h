//===- HostedSettings.h - What the environment says about a device on the host ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_HOSTEDSETTINGS_H
#define INTARSIA_RUNTIME_HOSTED_HOSTEDSETTINGS_H

#include "lib/Runtime/Hosted/HostedNames.h"
#include "lib/Support/Status.h"

#include <cstdint>
#include <optional>

namespace intarsia::runtime {

/// What goes wrong at a chosen command.
enum class Fault {
  None,
  DeviceLost, ///< this command and everything after it fails
  OutOfMemory ///< this command alone fails
};

struct HostedSettings {
  uint64_t memoryBytes = 0; ///< 0: half of this machine's memory
  uint64_t queues = 2;
  uint64_t delayMicroseconds = 0; ///< largest random delay before a command
  uint64_t seed = 1;              ///< of the delays
  Fault fault = Fault::None;
  uint64_t faultCommand = 0; ///< number of the command that fails, from 1 on, over all queues
};

/// Reads the environment variables whose names are `names.variables` and _MEMORY_BYTES, _QUEUES, _DELAY_MICROSECONDS,
/// _SEED, or _FAIL ("lost:N" or "memory:N"). Variables that are not set or invalid leave their setting as it is; the
/// error is of the first invalid one.
Status readHostedSettings(const HostedNames &names, HostedSettings &settings);

/// Returns the number that a text consists of; nothing if it is not one from `low` to `high`.
std::optional<uint64_t> parseSetting(const char *text, uint64_t low, uint64_t high);

/// Returns half of this machine's memory, or of the limit of the process's cgroup.
uint64_t defaultHostedMemoryBytes();

} // namespace intarsia::runtime

#endif
