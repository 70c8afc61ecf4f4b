//===- EmulatedSettings.cpp - What the environment says about the emulated GPU ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/EmulatedSettings.h"

#include "lib/Runtime/Hosted/HostedSettings.h"

#include <cstdlib>
#include <string_view>

namespace intarsia::runtime {

static constexpr uint64_t leastStackBytes = 32 << 10, largestStackBytes = 64 << 20;

namespace {
/// A value of a variable, and what it stands for.
template <typename T> struct Choice {
  std::string_view text;
  T value;
};
} // namespace

/// Reads a variable that is one of several texts; an empty one counts as not set.
template <typename T, size_t count>
static Status readChoice(const char *name, const Choice<T> (&choices)[count], T &setting) {
  const char *text = std::getenv(name);
  if (!text || !*text)
    return Status::success();
  std::vector<std::string> known;
  for (const Choice<T> &choice : choices) {
    if (choice.text == text) {
      setting = choice.value;
      return Status::success();
    }
    known.push_back(std::string(choice.text));
  }
  return error(ITX_INVALID_ARGUMENT, "the environment variable %s is '%s', one of %s is wanted", name, text,
               join(known).c_str());
}

static Status readStackBytes(uint64_t &bytes) {
  const char *name = "ITX_EMULATED_STACK_BYTES", *text = std::getenv(name);
  if (!text || !*text)
    return Status::success();
  std::optional<uint64_t> number = parseSetting(text, leastStackBytes, largestStackBytes);
  if (!number)
    return error(
        ITX_INVALID_ARGUMENT,
        "the environment variable %s is '%s', a number from %llu to %llu is wanted (bytes of the stack of each "
        "thread of a kernel)",
        name, text, (unsigned long long)leastStackBytes, (unsigned long long)largestStackBytes);
  bytes = *number;
  return Status::success();
}

Status readMachineSettings(MachineSettings &settings) {
  static constexpr Choice<Schedule> schedules[] = {
      {"lockstep", Schedule::Lockstep}, {"greedy", Schedule::Greedy}, {"greedy-reversed", Schedule::GreedyReversed}};
  static constexpr Choice<bool> unwritten[] = {{"refuse", true}, {"allow", false}};
  Status first;
  for (Status status :
       {readChoice("ITX_EMULATED_SCHEDULE", schedules, settings.schedule), readStackBytes(settings.stackBytes),
        readChoice("ITX_EMULATED_UNWRITTEN", unwritten, settings.refusesUnwritten)})
    if (first.ok())
      first = std::move(status);
  return first;
}

} // namespace intarsia::runtime
