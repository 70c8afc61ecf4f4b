//===- DeviceConfigurations.h - Devices that a model's author had in mind -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_DEVICECONFIGURATIONS_H
#define INTARSIA_DIALECTS_RT_DEVICECONFIGURATIONS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringRef.h"

namespace intarsia::rt {

/// On an imported module, until the partition phase: an array with one dictionary for each configuration of the model.
/// - `name`: a string
/// - `count`: how many devices the configuration has, an i64
/// - `devices`: the names of these devices, an array of strings, which may be empty
/// - `nodes`: an array with one dictionary for each node that the configuration places:
///   - `node`: the name of the node in locations
///   - `devices`: the numbers of the devices that it runs on, array<i64>
///   - `axes`: the axes along which its tensors are divided, array<i64>
///   - `stage`: its stage of a pipeline, an i64; absent if it has none
inline constexpr llvm::StringLiteral deviceConfigurationsAttr = "rt.device_configurations";

/// Verifies the value of `rt.device_configurations` on an op, which must be a module.
llvm::LogicalResult verifyDeviceConfigurations(mlir::Operation *op, mlir::Attribute value);

/// On an op: the stage of a pipeline that the model has it in, an i64.
inline constexpr llvm::StringLiteral wantedStageAttr = "rt.wanted_stage";

/// On a module whose model has stages of a pipeline: why they were not followed, or "" if they were.
inline constexpr llvm::StringLiteral stagesOverruledAttr = "rt.stages_overruled";

} // namespace intarsia::rt

#endif
