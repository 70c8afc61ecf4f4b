//===- DeviceConfigurations.h - Devices that a model's author had in mind -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_DEVICECONFIGURATIONS_H
#define INTARSIA_DIALECTS_RT_DEVICECONFIGURATIONS_H

#include "llvm/ADT/StringRef.h"

namespace intarsia::rt {

/// On an imported module, until the partition phase: an array with a dictionary for each configuration of the model:
/// `name`, `count` of its devices, their `devices` by names (or none), and `nodes`, an array with a dictionary for each
/// node that it says something of: `node`, which is its name in locations, `devices` that it is on, by their numbers,
/// `axes` along which its tensors are divided, and its `stage` of a pipeline, if it has one.
inline constexpr llvm::StringLiteral deviceConfigurationsAttr = "rt.device_configurations";

/// On an op: the stage of a pipeline that the model has it in.
inline constexpr llvm::StringLiteral wantedStageAttr = "rt.wanted_stage";

/// On a module whose model has stages of a pipeline: why they were not followed, or "" if they were.
inline constexpr llvm::StringLiteral stagesOverruledAttr = "rt.stages_overruled";

} // namespace intarsia::rt

#endif
