//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The processor: its name, memory and power from /proc and /sys, its compute rate and bandwidth by measurement.
//===----------------------------------------------------------------------------------------------------------===//
#include "MultiplyAdds.h"
#include "Reading.h"
#include "intarsia/Probe/Probe.h"
#include "lib/Support/CpuFeatures.h"
#include "lib/Support/MachineLimits.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace intarsia {
namespace {

/// Size of arrays relative to the last caches together, limited to a share of the memory. A virtual machine reports the
/// cache of its host, of which it has only a part.
constexpr double timesCache = 4, shareOfMemory = 0.25;
constexpr double leastBytesRead = 256e6;
constexpr int roundsOfReading = 7;
/// The catalogue's limit of programs that share a device.
constexpr size_t mostClients = 1024;

std::string read(const Twine &path) {
  // The file sizes that /proc and /sys report are unreliable.
  auto buffer = MemoryBuffer::getFileAsStream(path.str());
  return buffer ? (*buffer)->getBuffer().trim().str() : "";
}

/// Returns the text after "key", up to the end of its line.
std::string lineOf(StringRef text, StringRef key) {
  for (StringRef line : split(text, '\n'))
    if (line.consume_front(key)) {
      line = line.ltrim(" \t:");
      if (!line.empty())
        return line.trim().str();
    }
  return "";
}

/// Returns the operations a second of all threads together.
double rateOf(const probe::MultiplyAdds &loop, const std::vector<int> &threads, const ProbeOptions &options) {
  int64_t turns = 1000;
  auto seconds = [&] { return probe::secondsOn(threads, [&](size_t) { loop.run(turns); }).busiest; };
  double best = seconds();
  for (; best < options.secondsOfRound / 4; best = seconds())
    turns *= 4;
  turns = int64_t(turns * options.secondsOfRound / best) + 1;
  best = seconds();
  for (int round = 1; round < options.rounds; ++round)
    best = std::min(best, seconds());
  return loop.operations * double(turns) * double(threads.size()) / best;
}

/// Returns the sum of the last caches, counting each group of threads that shares one once.
double cacheBytes(const std::string &root, const std::vector<int> &threads) {
  StringMap<double> groups;
  for (int thread : threads)
    for (int index = 4; index >= 0; --index) {
      std::string folder = formatv("{0}/sys/devices/system/cpu/cpu{1}/cache/index{2}/", root, thread, index);
      std::string size = read(folder + "size");
      double number = 0;
      StringRef digits = StringRef(size).take_while(isDigit), unit = StringRef(size).drop_front(digits.size());
      if (digits.empty() || digits.getAsDouble(number))
        continue;
      groups[read(folder + "shared_cpu_list")] = number * (unit == "K" ? 1024 : unit == "M" ? 1048576 : 1);
      break;
    }
  double bytes = 0;
  for (const auto &group : groups)
    bytes += group.second;
  return bytes;
}

/// Returns the sum over sockets of their sustained power limits; 0 if the kernel does not report them.
double packageWatts(const std::string &root) {
  double watts = 0;
  std::error_code error;
  for (sys::fs::directory_iterator entry(root + "/sys/class/powercap", error), end; !error && entry != end;
       entry.increment(error)) {
    // intel-rapl:0 is a socket, intel-rapl:0:0 a part of it; intel-rapl-mmio:0 repeats the socket.
    StringRef name = sys::path::filename(entry->path());
    if (!name.consume_front("intel-rapl:") || name.contains(':'))
      continue;
    double microwatts = 0;
    if (!StringRef(read(entry->path() + "/constraint_0_power_limit_uw")).getAsDouble(microwatts))
      watts += microwatts * 1e-6;
  }
  return watts;
}

std::string nameOf(StringRef model) {
  std::string name = "here/", words = model.split(" @").first.lower();
  for (const char *mark : {"(r)", "(tm)"})
    for (size_t at; (at = words.find(mark)) != std::string::npos;)
      words.erase(at, StringRef(mark).size());
  for (char c : words)
    if (isAlnum(c))
      name += c;
    else if (name.back() != '-' && name.back() != '/')
      name += '-';
  return StringRef(name).rtrim('-').str();
}

} // namespace

ProbedDevice probeProcessor(const ProbeOptions &options) {
  ProbedDevice probed;
  CatalogueDevice &device = probed.device;
  std::vector<int> threads = probe::threadsAllowed(options.root);
  std::string information = read(options.root + "/proc/cpuinfo"), model = lineOf(information, "model name");
  if (model.empty())
    model = "cpu " + hostProcessorName(); // ARM's /proc/cpuinfo has only numbers
  device.name = nameOf(model);
  device.set = "measured";
  device.generation = Triple(sys::getProcessTriple()).getArchName().str();
  device.target = "cpu:" + hostProcessorName();
  auto measured = [&](double value, const Twine &what) {
    return Figure{value, ("measured by intarsia-plan --probe: " + what).str(), "", false};
  };
  std::string onThreads = formatv("on {0} {1}", threads.size(), threads.size() == 1 ? "thread" : "threads");

  const std::vector<std::string> &features = hostFeatures();
  for (const probe::MultiplyAdds &loop : probe::multiplyAdds()) {
    if (device.peakTflops.count(loop.element))
      continue;
    bool has = all_of(loop.needs, [&](const char *feature) { return is_contained(features, feature); });
    bool tiles = is_contained(loop.needs, StringRef("amx-tile"));
    if (has && (!tiles || probe::allowTiles()))
      device.peakTflops[loop.element] =
          measured(rateOf(loop, threads, options) * 1e-12, Twine(loop.instructions) + " " + onThreads);
  }
  for (const char *element : {"f16", "bf16", "int8"})
    if (!device.peakTflops.count(element))
      probed.unmeasured.push_back(std::string("peak_tflops.") + element +
                                  ": no multiply-add instruction for it is known here");

  double memory = double(totalMemoryBytes(options.root));
  if (memory > 0)
    device.memoryGB = measured(memory * 1e-9, "what the kernel or the control group allows");
  else
    probed.unmeasured.push_back("memory_gb: /proc/meminfo has no MemTotal");
  double caches = cacheBytes(options.root, threads);
  double wanted = std::max(leastBytesRead, timesCache * caches);
  if (memory > 0)
    wanted = std::min(wanted, memory * shareOfMemory);
  probe::Reading reading(threads, wanted);
  double seconds = reading.seconds();
  for (int round = 1; round < roundsOfReading; ++round)
    seconds = std::min(seconds, reading.seconds());
  device.memoryGBps =
      measured(reading.bytes() / seconds * 1e-9, formatv("read {0:F1} GB {1}, the best of {2} rounds",
                                                         reading.bytes() * 1e-9, onThreads, roundsOfReading));
  if (caches <= 0 || reading.bytes() < 2 * caches)
    device.memoryGBps->unsure = true; // caches may have held a part

  device.clients =
      measured(double(std::min(threads.size(), mostClients)), "threads, of which each program has one or more");

  double watts = packageWatts(options.root);
  if (watts > 0)
    device.watts = measured(watts, "the long-term power limit of the sockets (powercap)");
  else
    probed.unmeasured.push_back("watts: /sys/class/powercap has no intel-rapl zone that can be read");
  probed.unmeasured.push_back("price: give the pool one, price #fleet.rental<dollars_per_hour = …>");
  return probed;
}

} // namespace intarsia
