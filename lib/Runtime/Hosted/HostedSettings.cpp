//===- HostedSettings.cpp - What the environment says about a device on the host -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/HostedSettings.h"

#include "lib/Support/MachineLimits.h"

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

namespace intarsia::runtime {

namespace {
/// A number in an environment variable; an empty variable counts as not set.
struct NumberVariable {
  const char *suffix;
  const char *what;
  uint64_t low, high;
  uint64_t HostedSettings::*setting;
};
} // namespace

static constexpr NumberVariable variables[] = {
    {"_MEMORY_BYTES", "memory of", 1, uint64_t(1) << 40, &HostedSettings::memoryBytes},
    {"_QUEUES", "queues of", 1, 64, &HostedSettings::queues},
    {"_DELAY_MICROSECONDS", "largest random delay of the commands of", 0, 1000000, &HostedSettings::delayMicroseconds},
    {"_SEED", "seed of the delays of", 0, INT64_MAX, &HostedSettings::seed},
};

std::optional<uint64_t> parseSetting(const char *text, uint64_t low, uint64_t high) {
  if (*text < '0' || *text > '9')
    return std::nullopt;
  char *end;
  errno = 0;
  uint64_t number = std::strtoull(text, &end, 10);
  if (*end != '\0' || errno != 0 || number < low || number > high)
    return std::nullopt;
  return number;
}

static Status readNumber(const HostedNames &names, const NumberVariable &variable, HostedSettings &settings) {
  std::string name = std::string(names.variables) + variable.suffix;
  const char *text = std::getenv(name.c_str());
  if (!text || !*text)
    return Status::success();
  std::optional<uint64_t> number = parseSetting(text, variable.low, variable.high);
  if (!number)
    return error(ITX_INVALID_ARGUMENT,
                 "the environment variable %s is '%s', a number from %llu to %llu is wanted (%s "
                 "%s)",
                 name.c_str(), text, (unsigned long long)variable.low, (unsigned long long)variable.high, variable.what,
                 names.text);
  settings.*variable.setting = *number;
  return Status::success();
}

static Status readFault(const HostedNames &names, HostedSettings &settings) {
  std::string name = std::string(names.variables) + "_FAIL";
  const char *text = std::getenv(name.c_str());
  if (!text || !*text)
    return Status::success();
  static constexpr std::pair<std::string_view, Fault> faults[] = {{"lost:", Fault::DeviceLost},
                                                                  {"memory:", Fault::OutOfMemory}};
  for (auto [prefix, fault] : faults)
    if (std::string_view(text).starts_with(prefix))
      if (std::optional<uint64_t> number = parseSetting(text + prefix.size(), 1, INT64_MAX)) {
        settings.fault = fault;
        settings.faultCommand = *number;
        return Status::success();
      }
  return error(
      ITX_INVALID_ARGUMENT,
      "the environment variable %s is '%s', 'lost:N' or 'memory:N' is wanted (the number, from 1 on, of %s's command "
      "at which it is lost or has no memory)",
      name.c_str(), text, names.text);
}

Status readHostedSettings(const HostedNames &names, HostedSettings &settings) {
  Status first;
  auto keepFirst = [&](Status status) {
    if (first.ok())
      first = std::move(status);
  };
  for (const NumberVariable &variable : variables)
    keepFirst(readNumber(names, variable, settings));
  keepFirst(readFault(names, settings));
  return first;
}

uint64_t defaultHostedMemoryBytes() {
  uint64_t total = totalMemoryBytes();
  return total == 0 ? uint64_t(1) << 30 : total / 2; // a system that does not say has at least 2 GiB
}

} // namespace intarsia::runtime
