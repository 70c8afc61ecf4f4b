//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Waiting times and service times of a piece that serves a Poisson stream.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_QUEUEING_H
#define INTARSIA_PLAN_QUEUEING_H

#include "Latency.h"

namespace intarsia::plan {

/// Load of a piece: executions a second, and how their times scale (Region::timeScale).
struct Load {
  double perSecond = 0;
  double meanScale = 1;
  double meanSquaredScale = 1;
  double headroom = 0; ///< see Piece::headroom
};

/// One choice in so many replicas under a load. Times are those of an execution of scale 1.
struct Stage {
  double firstMs = 0, restMs = 0, tokenMs = 0;
  double waitProbability = 0, waitIfPositiveMs = 0;
  double utilization = 0; ///< share of the rate that the replicas sustain
  /// Share of the time in which a replica executes anything. Its devices then draw their busy power, however full they
  /// are.
  double busyShare = 0;
  double waitMs() const { return waitProbability * waitIfPositiveMs; }
  double meanMs() const { return waitMs() + firstMs + restMs; }
};

/// Returns the executions of scale 1 that one replica sustains a second.
double sustainedPerSecond(const Choice &choice);

/// Returns the smallest number of replicas that the load does not saturate and that have its headroom; 1 without load,
/// 0 if a replica has no devices and cannot be saturated (an outside service).
int64_t smallestReplicas(const Choice &choice, const Load &load);

/// Returns the stage of a choice under a load, from a birth-death chain over the executions in service. All replicas
/// share one queue; an execution among b in its replica takes a time that is linear in b between `millisecondsAlone`
/// and `milliseconds`. For constant times this is Erlang's C formula. A limit on the rate of a replica becomes a longer
/// time. Times that are not exponential scale the wait by (1 + c²)/2 (Allen and Cunneen; exact for one slot by
/// Pollaczek and Khinchine). A positive wait is taken as exponential (exact for M/M/c). Replicas that the load
/// saturates have an infinite wait with probability 1. Turns (`Choice::turnMs`) wait for those in their own replica,
/// which they come to at random: M/G/1, with the `replicas` of the piece that they are in.
Stage stageUnderLoad(const Choice &choice, const Shape &shape, int64_t replicas, const Load &load, bool queueing);

/// Returns the distribution of part of an execution of the given scale.
Distribution durationOf(const Stage &stage, const Shape &shape, double scale, ExecutionPart part);

} // namespace intarsia::plan

#endif
