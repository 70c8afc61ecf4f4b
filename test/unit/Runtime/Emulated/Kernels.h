//===- Kernels.h - Launches of kernels that a test is written with ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_EMULATED_KERNELS_H
#define INTARSIA_TEST_UNIT_RUNTIME_EMULATED_KERNELS_H

#include "intarsia/emulated_abi.h"
#include "lib/Runtime/Emulated/WarpMachine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace intarsia::testing {

inline constexpr runtime::Schedule allSchedules[] = {runtime::Schedule::Lockstep, runtime::Schedule::Greedy,
                                                     runtime::Schedule::GreedyReversed};

inline uint64_t word(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
inline uint64_t word(int64_t integer) { return uint64_t(integer); }

/// Makes a launch of one block of a kernel whose parameters are pointers and 64-bit integers.
template <typename... Parameters, typename... Arguments>
runtime::GridLaunch launchOf(void (*kernel)(Parameters...), uint32_t threads, Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  static_assert(((sizeof(Parameters) == 8) && ...));
  runtime::GridLaunch launch;
  launch.text = "kernel 'k' (layer.3)";
  launch.function = reinterpret_cast<void (*)()>(kernel);
  launch.arguments = {word(arguments)...};
  launch.block = {threads, 1, 1};
  return launch;
}

/// Runs a launch on a machine of its own.
inline Status runOn(const runtime::GridLaunch &launch, runtime::Schedule schedule = runtime::Schedule::Lockstep) {
  runtime::MachineSettings settings;
  settings.schedule = schedule;
  runtime::WarpMachine machine(settings);
  return machine.run(launch);
}

} // namespace intarsia::testing

#endif
