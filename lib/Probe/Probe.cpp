//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Writes the measured figures as files of the catalogue.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Probe/Probe.h"
#include "lib/Support/File.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include <ctime>

using namespace llvm;

namespace intarsia {

static std::string today() {
  std::time_t now = std::time(nullptr);
  std::tm local;
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", localtime_r(&now, &local));
  return text;
}

std::string writeYaml(const ProbedDevice &probed) {
  const CatalogueDevice &device = probed.device;
  std::string text = "# Written by intarsia-plan --probe; a fleet names it by fleet.device @here {file = \"…\"}.\n";
  for (const std::string &line : probed.unmeasured)
    text += "# Not measured: " + line + "\n";
  text += "name: " + device.name + "\nset: " + device.set + "\ngeneration: " + device.generation + "\n";
  if (!device.target.empty())
    text += "target: " + device.target + "\n";
  if (!device.efficiencyOf.empty())
    text += "efficiency_of: " + device.efficiencyOf + "\n";
  auto figure = [&](StringRef indent, StringRef name, const Figure &of) {
    std::string number;
    raw_string_ostream(number) << format("%.4g", of.value);
    text += formatv("{0}{1}: {{value: {2}, source: \"{3}\", date: \"{4}\"{5}}\n", indent, name, number, of.source,
                    of.date.empty() ? today() : of.date, of.unsure ? ", unsure: true" : "");
  };
  text += "peak_tflops:\n";
  for (const auto &[element, of] : device.peakTflops)
    figure("  ", element, of);
  if (device.memoryGB)
    figure("", "memory_gb", *device.memoryGB);
  if (device.memoryGBps)
    figure("", "memory_gbps", *device.memoryGBps);
  if (device.watts)
    figure("", "watts", *device.watts);
  if (device.clients)
    figure("", "clients", *device.clients);
  if (device.serving) {
    MeasuredTimes times = *device.serving;
    if (times.date.empty())
      times.date = today();
    text += times.yaml();
  }
  return text;
}

static Error write(StringRef file, StringRef text) {
  std::error_code error;
  ToolOutputFile out(file, error, sys::fs::OF_Text);
  if (error)
    return createStringError(error, "cannot write '" + file + "': " + error.message());
  out.os() << text;
  out.os().close();
  if (out.os().has_error())
    return createStringError(out.os().error(), "cannot write '" + file + "': " + out.os().error().message());
  out.keep();
  return Error::success();
}

int runProbe(StringRef file, StringRef tools, double seconds) {
  auto fail = [](Error error) {
    WithColor::error(errs(), "intarsia-plan") << toString(std::move(error)) << '\n';
    return 1;
  };
  if (!file.empty())
    if (Status status = checkWritable(file.str()); !status.ok())
      return fail(createStringError(status.message()));
  errs() << "measuring the processor …\n";
  std::vector<ProbedDevice> devices{probeProcessor()};
  if (seconds <= 0) {
    devices.front().unmeasured.push_back("serving: --probe-seconds=0; language models cannot be planned on it");
  } else {
    errs() << "measuring models of random weights …\n";
    SmallString<128> compiler(tools);
    sys::path::append(compiler, "intarsia-compile");
    Expected<MeasuredTimes> serving = probeServing(compiler, seconds);
    if (!serving)
      return fail(serving.takeError());
    devices.front().device.serving = std::move(*serving);
  }
  ProbedGpus gpus = probeGpus();
  if (!gpus.none.empty())
    errs() << "no GPU: " << gpus.none << '\n';
  devices.insert(devices.end(), gpus.devices.begin(), gpus.devices.end());
  StringRef extension = sys::path::extension(file);
  for (size_t i = 0; i < devices.size(); ++i) {
    std::string text = writeYaml(devices[i]);
    SmallString<128> path(file);
    if (i > 0)
      path = formatv("{0}-gpu{1}{2}", file.drop_back(extension.size()), i - 1, extension).str();
    // Checks that the file can be read again before it is written.
    Expected<CatalogueDevice> again =
        CatalogueDevice::parse(text, file.empty() ? StringRef("the measured figures") : StringRef(path));
    if (!again)
      return fail(again.takeError());
    if (file.empty()) {
      outs() << (i > 0 ? "---\n" : "") << text;
      continue;
    }
    if (Error error = write(path, text))
      return fail(std::move(error));
    errs() << "wrote " << path << '\n';
  }
  return 0;
}

} // namespace intarsia
