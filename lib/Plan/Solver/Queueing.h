//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// How long executions wait for a free slot, and how long they then take, when a piece serves a Poisson stream.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_QUEUEING_H
#define INTARSIA_PLAN_QUEUEING_H

#include "Latency.h"

namespace intarsia::plan {

/// What a piece is asked for: executions a second, and how their times scale (Region::timeScale).
struct Load {
  double perSecond = 0;
  double meanScale = 1;
  double meanSquaredScale = 1;
};

/// One choice in so many replicas under a load. Times are of an execution of scale 1.
struct Stage {
  double firstMs = 0, restMs = 0, tokenMs = 0;
  double waitProbability = 0, waitIfPositiveMs = 0;
  double utilization = 0; ///< of what the replicas sustain
  /// Of the time, how long a replica executes anything: its devices then draw their busy power, however full they are.
  double busyShare = 0;
  double waitMs() const { return waitProbability * waitIfPositiveMs; }
};

/// Executions a second of scale 1 that one replica sustains.
double sustainedPerSecond(const Choice &choice);

/// The smallest number of replicas that the load does not saturate; 1 without load, 0 if a replica has no devices
/// and saturation cannot happen (an outside service).
int64_t smallestReplicas(const Choice &choice, const Load &load);

/// A birth-death chain over the executions in service: all replicas share one queue, an execution among b in its
/// replica takes a time that is linear in b between `millisecondsAlone` and `milliseconds`. For constant times this is
/// Erlang's C formula; a limit on the rate of a replica is a longer time. Times that are not exponential scale the wait
/// by (1 + c²)/2 (Allen and Cunneen; exact for one slot by Pollaczek and Khinchine). The wait, if there is one, is
/// taken as exponential (exact for M/M/c). Replicas that the load saturates have an infinite one with probability 1.
Stage stageUnderLoad(const Choice &choice, const Shape &shape, int64_t replicas, const Load &load, bool queueing);

/// Part of an execution of scale `scale`.
Distribution durationOf(const Stage &stage, const Shape &shape, double scale, LeafPart part);

} // namespace intarsia::plan

#endif
