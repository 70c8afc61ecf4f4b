//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The fastest way to train a model on a cluster under the memory of its devices: degrees, micro-batches, order of the
// pipeline and its chunks, cuts into stages, ZeRO level, recomputation. All combinations of degrees are looked at; what
// cannot be faster than the best of its kind, or does not fit, is left before it is costed whole. Cuts into stages are
// a dynamic programme over layers. The result is exact for the formula of ParallelCost.h and the same in each run.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_PARALLELSEARCH_H
#define INTARSIA_COST_PARALLELSEARCH_H

#include "intarsia/Cost/ParallelCost.h"

namespace intarsia {

struct ParallelSearchOptions {
  double memoryBytes = 0; ///< of a device; 0: the cluster's
  int mostContext = 1;    ///< largest degree of context parallelism
  int mostZero = 3;       ///< highest level of ZeRO
  double mostMicroBatch = 8;
  bool recomputes = true; ///< all three ways of recomputation, otherwise that of the run
  bool sequence = true;   ///< sequence parallelism within tensor groups
};

/// A configuration with what it takes.
struct ParallelChoice {
  ParallelMapping mapping;
  double microBatch = 1;
  Recompute recompute = Recompute::None;
  StepTime time;
  TrainingMemory memory;

  /// Returns the run with the settings of the choice.
  TrainingRun of(TrainingRun run) const;
  /// Returns the degrees: "tensor 8, pipeline 4 (2 chunks), data 16, ZeRO 1, micro-batch 1, full recomputation".
  std::string text() const;
};

/// The best of one kind, that is with the same degrees above 1 ("tensor x pipeline").
struct ParallelAlternative {
  std::string kind;
  bool fits = false;
  ParallelChoice choice; ///< the fastest that fits, or the smallest one
  std::string why;       ///< it lost
};

struct ParallelSearchResult {
  bool found = false;
  ParallelChoice best;                           ///< if found
  ParallelChoice smallest;                       ///< if not found: needs the least memory of all
  std::vector<ParallelAlternative> alternatives; ///< the best first, then by time, then those that do not fit
  int64_t considered = 0, costed = 0;
};

/// Searches; the run's micro-batch is chosen, as is its recomputation if the options say so.
ParallelSearchResult searchParallel(const TrainingRun &run, const Cluster &cluster, const ParallelFigures &figures,
                                    const ParallelSearchOptions &options = {});

} // namespace intarsia

#endif
