//===- intarsia-plan.cpp - Places agents on a fleet -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Options.h"
#include "intarsia/Plan/Parallel.h"
#include "intarsia/Probe/Probe.h"

#include "llvm/Support/InitLLVM.h"

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  intarsia::PlannerOptions options = intarsia::parsePlannerOptions(argc, argv);
  if (!options.parallel.empty())
    return intarsia::runParallel(options.parallel);
  return options.probes ? intarsia::runProbe(options.probeFile) : intarsia::runPlanner(options);
}
