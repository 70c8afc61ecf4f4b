//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/FleetPlacement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace intarsia;
using llvm::ArrayRef, llvm::StringRef;

static constexpr double never = std::numeric_limits<double>::infinity();

ArrayRef<StringRef> FleetFigures::names() {
  static const std::array<StringRef, 5> names = {"accelerator", "host", "resident", "disk", "message_us"};
  return names;
}

double &FleetFigures::at(size_t index) {
  double *members[] = {&accelerator, &host, &resident, &disk, &messageUs};
  return *members[index];
}

/// Returns microseconds for bytes of a device that are read once, and what of them the accelerator holds.
static double readUs(const FleetDevice &device, double acceleratorBytes, double hostBytes,
                     const FleetFigures &figures) {
  double time = 0;
  if (acceleratorBytes > 0)
    time += acceleratorBytes / (device.acceleratorGBps * figures.accelerator) * 1e-3;
  if (hostBytes <= 0)
    return time;
  if (device.hostGBps <= 0)
    return never;
  time += hostBytes / (device.hostGBps * figures.host) * 1e-3;
  if (hostBytes <= device.hostBytes * figures.resident)
    return time;
  return device.diskGBps > 0 ? time + hostBytes / (device.diskGBps * figures.disk) * 1e-3 : never;
}

double intarsia::deviceUs(const FleetDevice &device, const FleetModel &model, int layers, const FleetFigures &figures) {
  double held = device.acceleratorGBps > 0 ? std::floor(device.acceleratorBytes / model.layerBytes) : 0;
  double onAccelerator = std::min(double(layers), held);
  return readUs(device, onAccelerator * model.layerBytes, (layers - onAccelerator) * model.layerBytes, figures);
}

double intarsia::tokenUs(ArrayRef<FleetDevice> devices, const FleetModel &model, ArrayRef<int> layers,
                         const FleetFigures &figures) {
  double time = 0;
  int used = 0;
  for (size_t i = 0; i < devices.size(); ++i)
    if (layers[i] > 0) {
      time += deviceUs(devices[i], model, layers[i], figures);
      ++used;
    }
  return time + (used > 1 ? used * figures.messageUs : 0);
}

double intarsia::tensorTokenUs(ArrayRef<FleetDevice> devices, const FleetModel &model, const Link &link,
                               const FleetFigures &figures) {
  double own = model.layers * model.layerBytes / devices.size(), slowest = 0;
  for (const FleetDevice &device : devices) {
    double onAccelerator = device.acceleratorGBps > 0 ? std::min(own, device.acceleratorBytes) : 0;
    slowest = std::max(slowest, readUs(device, onAccelerator, own - onAccelerator, figures));
  }
  double bytes = model.hidden * model.activationBytes;
  return slowest + 2 * model.layers * allReduceUs(AllReduce::Star, double(devices.size()), bytes, link);
}

std::vector<int> intarsia::placeLayers(ArrayRef<FleetDevice> devices, const FleetModel &model, FleetObjective objective,
                                       const FleetFigures &figures) {
  size_t count = devices.size(), layers = size_t(model.layers);
  bool isLatency = objective == FleetObjective::Latency;
  // best[n]: of the devices so far with n layers. A message a device is counted even if it is the only one.
  std::vector<double> best(layers + 1, never);
  best[0] = 0;
  std::vector<std::vector<int>> taken(count, std::vector<int>(layers + 1, 0));
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> next(layers + 1, never);
    std::vector<double> times(layers + 1, 0);
    for (size_t own = 1; own <= layers; ++own)
      times[own] = deviceUs(devices[i], model, int(own), figures) + figures.messageUs;
    for (size_t all = 0; all <= layers; ++all)
      for (size_t own = 0; own <= all; ++own) {
        double time = isLatency ? best[all - own] + times[own] : std::max(best[all - own], times[own]);
        if (time < next[all]) {
          next[all] = time;
          taken[i][all] = int(own);
        }
      }
    best = std::move(next);
  }
  double shortest = best[layers];
  std::vector<int> result(count, 0);
  if (shortest < never)
    for (size_t i = count, all = layers; i-- > 0;) {
      result[i] = taken[i][all];
      all -= size_t(result[i]);
    }
  // One device alone sends no message.
  for (size_t i = 0; i < count; ++i) {
    double alone = deviceUs(devices[i], model, model.layers, figures);
    if (alone < shortest) {
      shortest = alone;
      result.assign(count, 0);
      result[i] = model.layers;
    }
  }
  return shortest < never ? result : std::vector<int>();
}
