//===- PlannedModel.cpp - What of a plan the compiler compiles ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/PlannedModel.h"
#include "lib/Support/PlanPrecision.h"

namespace intarsia {

std::string whyNotCompiled(const PlannedModel &model) {
  if (model.target.empty())
    return "is on @" + model.pool + ", whose device " + model.device +
           " nothing can be compiled for: intarsia-compile --list-targets shows what there is";
  if (model.expert != 1 || model.data != 1)
    return "divides experts or copies of attention over devices: the compiler splits a model by tensor and pipeline "
           "degrees";
  if (model.tensor * model.pipeline > 1 && !model.target.starts_with("cpu"))
    return "is split over several devices of @" + model.pool + " (" + model.device +
           "): ranks of one model exchange data in memory of the host, so that only CPUs can share one";
  if (findPlanPrecision(model.precision))
    return "";
  std::string known;
  for (const PlanPrecision &each : planPrecisions)
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  return "has the precision '" + model.precision + "', which nothing is compiled to; known are " + known;
}

} // namespace intarsia
