//===- ReferenceSettings.cpp - What the environment says about the reference device -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/ReferenceSettings.h"

#include "lib/Support/MachineLimits.h"

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

namespace intarsia::runtime {

namespace {
/// A number in an environment variable; an empty variable counts as not set.
struct Variable {
  const char *name;
  const char *what;
  uint64_t low, high;
  uint64_t ReferenceSettings::*setting;
};
} // namespace

static constexpr Variable variables[] = {
    {"ITX_REFERENCE_MEMORY_BYTES", "memory of the reference device", 1, uint64_t(1) << 40,
     &ReferenceSettings::memoryBytes},
    {"ITX_REFERENCE_QUEUES", "queues of the reference device", 1, 64, &ReferenceSettings::queues},
    {"ITX_REFERENCE_DELAY_MICROSECONDS", "largest random delay of the reference device's commands", 0, 1000000,
     &ReferenceSettings::delayMicroseconds},
    {"ITX_REFERENCE_SEED", "seed of the reference device's delays", 0, INT64_MAX, &ReferenceSettings::seed},
};
static constexpr const char *failVariable = "ITX_REFERENCE_FAIL";

/// Returns the number that a text consists of; nothing if it is not one from `low` to `high`.
static std::optional<uint64_t> parseNumber(const char *text, uint64_t low, uint64_t high) {
  if (*text < '0' || *text > '9')
    return std::nullopt;
  char *end;
  errno = 0;
  uint64_t number = std::strtoull(text, &end, 10);
  if (*end != '\0' || errno != 0 || number < low || number > high)
    return std::nullopt;
  return number;
}

static Status readNumber(const Variable &variable, ReferenceSettings &settings) {
  const char *text = std::getenv(variable.name);
  if (!text || !*text)
    return Status::success();
  std::optional<uint64_t> number = parseNumber(text, variable.low, variable.high);
  if (!number)
    return error(ITX_INVALID_ARGUMENT, "the environment variable %s is '%s', a number from %llu to %llu is wanted (%s)",
                 variable.name, text, (unsigned long long)variable.low, (unsigned long long)variable.high,
                 variable.what);
  settings.*variable.setting = *number;
  return Status::success();
}

static Status readFault(ReferenceSettings &settings) {
  const char *text = std::getenv(failVariable);
  if (!text || !*text)
    return Status::success();
  static constexpr std::pair<std::string_view, Fault> faults[] = {{"lost:", Fault::DeviceLost},
                                                                  {"memory:", Fault::OutOfMemory}};
  for (auto [prefix, fault] : faults)
    if (std::string_view(text).starts_with(prefix))
      if (std::optional<uint64_t> number = parseNumber(text + prefix.size(), 1, INT64_MAX)) {
        settings.fault = fault;
        settings.faultCommand = *number;
        return Status::success();
      }
  return error(ITX_INVALID_ARGUMENT,
               "the environment variable %s is '%s', 'lost:N' or 'memory:N' is wanted (the number, from 1 on, of the "
               "reference device's command at which it is lost or has no memory)",
               failVariable, text);
}

Status readReferenceSettings(ReferenceSettings &settings) {
  Status first;
  auto keepFirst = [&](Status status) {
    if (first.ok())
      first = std::move(status);
  };
  for (const Variable &variable : variables)
    keepFirst(readNumber(variable, settings));
  keepFirst(readFault(settings));
  return first;
}

uint64_t defaultReferenceMemoryBytes() {
  uint64_t total = totalMemoryBytes();
  return total == 0 ? uint64_t(1) << 30 : total / 2; // a system that does not say has at least 2 GiB
}

} // namespace intarsia::runtime
