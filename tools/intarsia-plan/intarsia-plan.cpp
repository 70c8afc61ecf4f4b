//===- intarsia-plan.cpp - Places agents on a fleet -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Options.h"
#include "intarsia/Plan/Compare.h"
#include "intarsia/Plan/Parallel.h"
#include "intarsia/Probe/Probe.h"
#include "lib/Target/Wafer/ModelPrograms.h"
#include "tools/Limits.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  intarsia::explainLimits();
  intarsia::PlannerOptions options = intarsia::parsePlannerOptions(argc, argv);
  if (!options.parallel.empty())
    return intarsia::runParallel(options.parallel);
  if (!options.compare.empty())
    return intarsia::runCompare(options.input, options.compare);
  if (!options.probes) {
    std::unique_ptr<intarsia::WaferTimes> wafers = intarsia::wafer::programTimes();
    options.wafers = wafers.get();
    return intarsia::runPlanner(options);
  }
  std::string program = llvm::sys::fs::getMainExecutable(argv[0], reinterpret_cast<void *>(&main));
  return intarsia::runProbe(options.probeFile, llvm::sys::path::parent_path(program), options.probeSeconds);
}
