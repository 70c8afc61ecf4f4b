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

FleetModel FleetModel::of(const ModelShape &shape, double bits) {
  double bytes = bits / 8 / shape.layers;
  FleetModel model;
  model.layers = shape.layers;
  model.layerBytes = shape.parameters() * bytes;
  model.hidden = shape.hidden;
  double oneExpert = shape.expertParameters() * shape.expertLayers;
  model.expertBytes = oneExpert * shape.experts * bytes;
  model.chosenBytes = oneExpert * shape.expertsPerToken * bytes;
  model.layerFlops = 2 * (shape.multipliedParameters() + shape.headParameters()) / shape.layers;
  return model;
}

/// Returns microseconds of layers that are read from one memory and computed beside it.
static double layersUs(double layers, const FleetModel &model, double gigabytesPerSecond, double tflops) {
  double reading = layers * model.readBytes() / gigabytesPerSecond * 1e-3;
  return tflops > 0 ? std::max(reading, layers * model.layerFlops / tflops * 1e-6) : reading;
}

/// Returns the bytes of layers in the host's memory that a token reads from the disk.
static double missedBytes(double layers, const FleetModel &model, double heldBytes) {
  if (layers * model.layerBytes <= heldBytes)
    return 0;
  double beside = heldBytes - layers * (model.layerBytes - model.expertBytes);
  if (beside < layers * model.chosenBytes || model.expertBytes <= 0)
    return layers * model.readBytes();
  // What every token reads stays, as it was always read lately. Of the experts as many stay as fit beside it.
  return layers * model.chosenBytes * (1 - beside / (layers * model.expertBytes));
}

/// Returns microseconds of layers on a device, and of those that its accelerator holds.
static double readUs(const FleetDevice &device, const FleetModel &model, double onAccelerator, double onHost,
                     const FleetFigures &figures) {
  double time = 0;
  if (onAccelerator > 0)
    time += layersUs(onAccelerator, model, device.acceleratorGBps * figures.accelerator, device.acceleratorTflops);
  if (onHost <= 0)
    return time;
  if (device.hostGBps <= 0)
    return never;
  time += layersUs(onHost, model, device.hostGBps * figures.host, device.hostTflops);
  double missed = missedBytes(onHost, model, device.hostBytes * figures.resident);
  if (missed <= 0)
    return time;
  return device.diskGBps > 0 ? time + missed / (device.diskGBps * figures.disk) * 1e-3 : never;
}

double intarsia::deviceUs(const FleetDevice &device, const FleetModel &model, int layers, const FleetFigures &figures) {
  double held = device.acceleratorGBps > 0 ? std::floor(device.acceleratorBytes / model.layerBytes) : 0;
  double onAccelerator = std::min(double(layers), held);
  return readUs(device, model, onAccelerator, layers - onAccelerator, figures);
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
  double own = double(model.layers) / devices.size(), slowest = 0;
  for (const FleetDevice &device : devices) {
    double onAccelerator = device.acceleratorGBps > 0 ? std::min(own, device.acceleratorBytes / model.layerBytes) : 0;
    slowest = std::max(slowest, readUs(device, model, onAccelerator, own - onAccelerator, figures));
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
