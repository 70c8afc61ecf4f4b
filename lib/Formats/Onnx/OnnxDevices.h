//===- OnnxDevices.h - Messages of ONNX files about devices -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ONNX_ONNXDEVICES_H
#define INTARSIA_LIB_FORMATS_ONNX_ONNXDEVICES_H

#include "lib/Formats/Onnx/Wire.h"

namespace intarsia::onnx {

/// Reads a DeviceConfigurationProto. Throws Malformed, as all that reads messages.
void readConfiguration(Message message, Budget &budget, DeviceConfiguration &configuration);

/// Reads a NodeDeviceConfigurationProto.
void readDevices(Message message, Budget &budget, NodeDevices &devices);

} // namespace intarsia::onnx

#endif
