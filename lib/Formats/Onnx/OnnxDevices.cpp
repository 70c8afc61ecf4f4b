//===- OnnxDevices.cpp - Messages of ONNX files about devices -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/OnnxDevices.h"

namespace intarsia::onnx {

void readConfiguration(Message message, Budget &budget, DeviceConfiguration &configuration) {
  while (message.next())
    switch (message.field()) {
    case 1:
      configuration.name = message.text();
      break;
    case 2:
      configuration.count = message.integer();
      break;
    case 3:
      budget.addText(message, configuration.devices);
      break;
    default:
      message.skip();
    }
}

/// Reads a SimpleShardedDimProto: into how many parts a dimension is divided.
static int64_t readShardCount(Message message) {
  int64_t count = 0;
  while (message.next()) {
    if (message.field() == 3)
      count = message.integer();
    else
      message.skip();
  }
  return count;
}

static void readDimension(Message message, Budget &budget, ShardingSpec::Dimension &dimension) {
  while (message.next())
    switch (message.field()) {
    case 1:
      dimension.axis = message.integer();
      break;
    case 2:
      budget.add(dimension.shardCounts) = readShardCount(message.message());
      break;
    default:
      message.skip();
    }
}

static void readGroup(Message message, Budget &budget, std::pair<int64_t, std::vector<int64_t>> &group) {
  while (message.next())
    switch (message.field()) {
    case 1:
      group.first = message.integer();
      break;
    case 2:
      budget.addIntegers(message, group.second);
      break;
    default:
      message.skip();
    }
}

static void readSpec(Message message, Budget &budget, ShardingSpec &spec) {
  while (message.next())
    switch (message.field()) {
    case 1:
      spec.tensor = message.text();
      break;
    case 2:
      budget.addIntegers(message, spec.devices);
      break;
    case 3:
      readGroup(message.message(), budget, budget.add(spec.groups));
      break;
    case 4:
      readDimension(message.message(), budget, budget.add(spec.dimensions));
      break;
    default:
      message.skip();
    }
}

void readDevices(Message message, Budget &budget, NodeDevices &devices) {
  while (message.next())
    switch (message.field()) {
    case 1:
      devices.configuration = message.text();
      break;
    case 2:
      readSpec(message.message(), budget, budget.add(devices.specs));
      break;
    case 3:
      devices.stage = message.integer();
      break;
    default:
      message.skip();
    }
}

} // namespace intarsia::onnx
