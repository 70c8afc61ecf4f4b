//===- Timing.cpp - What simulated devices took, from a profile ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Timing.h"

#include "lib/Support/Json.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace intarsia::run {
namespace {

/// Launches that are counted together.
struct Sum {
  int64_t launches = 0, rows = 0;
  double cycles = 0, microseconds = 0, joules = 0;

  void add(const Sum &other) {
    launches += other.launches;
    rows += other.rows;
    cycles += other.cycles;
    microseconds += other.microseconds;
    joules += other.joules;
  }
};

struct NamedSum {
  std::string name;
  Sum sum;
};

/// Returns the launches on simulated devices, in their order; what is no launch has no rows, and belongs to the next
/// one.
std::vector<NamedSum> readLaunches(const std::string &profile) {
  Json trace;
  check(parseJson(profile, "profile", trace));
  std::vector<NamedSum> launches;
  for (const Json &event : trace.at("traceEvents"))
    if (event.value("cat", "") == "simulated")
      launches.push_back({event.at("name").get<std::string>(),
                          {event.at("args").at("rows").get<int64_t>() > 0, event.at("args").at("rows").get<int64_t>(),
                           event.at("args").at("cycles").get<double>(), event.at("dur").get<double>(),
                           event.at("args").value("joules", 0.0)}});
  return launches;
}

std::string line(const std::string &name, const Sum &sum, double all) {
  return format("  %-44s %8lld %8lld %14.0f %12.2f %6.1f\n", name.c_str(), (long long)sum.launches, (long long)sum.rows,
                sum.cycles, sum.microseconds, 100 * sum.cycles / all);
}

/// Returns ", at most 1.2 J", or nothing if the power is not known.
std::string energy(double joules) { return joules > 0 ? format(", at most %.4g J", joules) : ""; }

} // namespace

std::string simulatedTimes(const std::string &profile, const StepCalls &calls) {
  std::vector<NamedSum> launches = readLaunches(profile);
  if (launches.empty())
    throw Failure{"--timing shows the time of simulated wafers, and nothing of this call ran on one: compile the model "
                  "with --target=cpu,wafer and --place='PATTERN=@wafer' (docs/wafers.md)"};
  std::map<std::string, Sum> byName;
  Sum all;
  for (const NamedSum &launch : launches) {
    byName[launch.name].add(launch.sum);
    all.add(launch.sum);
  }
  std::vector<NamedSum> kernels;
  for (const auto &[name, sum] : byName)
    kernels.push_back({name, sum});
  std::sort(kernels.begin(), kernels.end(), [](const NamedSum &a, const NamedSum &b) {
    return std::tie(b.sum.cycles, a.name) < std::tie(a.sum.cycles, b.name);
  });
  std::string text = format("Simulated wafer at %.2f GHz; copies and other devices are not counted\n  %-44s %8s %8s "
                            "%14s %12s %6s\n",
                            all.cycles / all.microseconds * 1e-3, "kernel", "launches", "rows", "cycles", "us", "%");
  for (const NamedSum &kernel : kernels)
    text += line(kernel.name, kernel.sum, all.cycles);
  text += line("all", all, all.cycles);
  if (all.joules > 0)
    text += format("  energy   at most %.4g J: the wafer's system draws %.0f W at most\n", all.joules,
                   all.joules / all.microseconds * 1e6);
  // Each call launches the same kernels.
  int64_t count = all.launches, callCount = calls.promptCalls + calls.decodeCalls;
  if (calls.decodeCalls == 0 || count % callCount != 0)
    return text;
  Sum prompt, decode;
  for (const NamedSum &launch : launches)
    (prompt.launches + decode.launches < count / callCount * calls.promptCalls ? prompt : decode).add(launch.sum);
  double step = decode.microseconds / double(calls.decodeCalls);
  text += format("  prompt   %lld tokens in %.0f cycles (%.2f us), %.0f tokens a second%s\n",
                 (long long)calls.promptTokens, prompt.cycles, prompt.microseconds,
                 double(calls.promptTokens) * 1e6 / prompt.microseconds, energy(prompt.joules).c_str());
  text += format("  decode   a token in %.0f cycles (%.2f us), %.0f tokens a second%s\n",
                 decode.cycles / double(calls.decodeCalls), step, 1e6 / step,
                 energy(decode.joules / double(calls.decodeCalls)).c_str());
  return text;
}

} // namespace intarsia::run
