//===- PlannedModel.h - What of a plan the compiler compiles -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The planner says of each model what `intarsia-compile --plan` says when it refuses it.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_PLANNEDMODEL_H
#define INTARSIA_LIB_SUPPORT_PLANNEDMODEL_H

#include <cstdint>
#include <string>

namespace intarsia {

/// A model on a pool of a plan.
struct PlannedModel {
  std::string pool, device;
  std::string target; ///< of the compiler; empty: the device has none
  std::string precision;
  int64_t tensor = 1, pipeline = 1, expert = 1, data = 1;
};

/// Returns why the compiler makes no artifact of a model: "is on @gaudi, whose device …"; empty: it makes one.
std::string whyNotCompiled(const PlannedModel &model);

} // namespace intarsia

#endif
