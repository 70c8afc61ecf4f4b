//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The schedule of one request of an agent under a plan, execution by execution: the content of a Gantt chart.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SCHEDULE_H
#define INTARSIA_PLAN_SCHEDULE_H

#include "intarsia/Plan/Placement.h"

namespace intarsia::plan {

/// An execution of a piece. Times are milliseconds after the request came.
struct Execution {
  int region = -1;      ///< its region in the agent
  int turn = 0;         ///< turn of the innermost loop around it
  int copies = 1;       ///< simultaneous copies, by the maps around it
  double sentMs = 0;    ///< start of the transfer that it waits for longest
  double arrivedMs = 0; ///< all inputs have arrived: it is in the queue
  double servedMs = 0;  ///< service begins
  double firstMs = 0;   ///< first output
  double endMs = 0;     ///< not before the end of what streams into it
  bool critical = false;
};

struct Schedule {
  std::vector<Execution> executions; ///< in the order of arrival: loops turn by turn, parallel parts one after another
  double endMs = 0;
  int64_t notListed = 0; ///< executions beyond the first 2000; turns of their loops count as long as the turn before
};

/// Returns the schedule of a nominal request: each execution takes its mean time and the mean wait under the plan's
/// load (Queueing.h), a loop its mean number of turns and a map its mean number of copies, rounded. A branch that is
/// reached n times takes each case as often as n times its probability, to within one: each time the case that is
/// furthest behind. The end is therefore near the mean over requests, but not equal to it. The problem must be valid,
/// and every placement must name a choice of its piece.
Schedule scheduleOf(const PlacementProblem &problem, const Placements &placements, int agent);

} // namespace intarsia::plan

#endif
