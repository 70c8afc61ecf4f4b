//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A file that says which training run to cost on which devices, or on which unlike devices to place a model's layers,
// for intarsia-plan --parallel. See docs/parallel.md.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_PARALLELCONFIG_H
#define INTARSIA_COST_PARALLELCONFIG_H

#include "intarsia/Cost/ParallelSearch.h"

namespace intarsia {

struct ParallelConfig {
  const ModelShape *shape = nullptr;
  Cluster cluster;
  TrainingRun run;
  ParallelSearchOptions search;
  std::vector<ParallelChoice> configurations; ///< to be costed, without times; empty: the search chooses

  std::vector<FleetDevice> fleet; ///< if not empty, layers are placed on it and all of the above but the shape is unset
  FleetModel fleetModel;
  FleetObjective objective = FleetObjective::Latency;

  /// Reads the file. Errors say `file:line: `, the key, and what is allowed.
  static llvm::Expected<ParallelConfig> parse(llvm::StringRef yaml, llvm::StringRef file);
};

} // namespace intarsia

#endif
