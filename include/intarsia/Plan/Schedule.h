//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// One request of an agent under a plan, execution by execution: what a Gantt chart shows.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SCHEDULE_H
#define INTARSIA_PLAN_SCHEDULE_H

#include "intarsia/Plan/Placement.h"

namespace intarsia::plan {

/// An execution of a leaf. Times are milliseconds after the request came.
struct Execution {
  int region = -1;      ///< of the agent, a leaf
  int turn = 0;         ///< of the innermost loop around it
  int copies = 1;       ///< at once, by the maps around it
  double sentMs = 0;    ///< what it waits for longest begins to be sent
  double arrivedMs = 0; ///< all has arrived: it stands in the queue
  double servedMs = 0;  ///< service begins
  double firstMs = 0;   ///< first output
  double endMs = 0;     ///< not before what streams into it has ended
  bool critical = false;
};

struct Schedule {
  std::vector<Execution> executions; ///< as they are reached: loops turn by turn, parallel parts one after another
  double endMs = 0;
  int64_t notListed = 0; ///< executions beyond the first 2000; turns of their loops count as long as the turn before
};

/// A nominal request: each execution takes its mean time and the mean wait under the plan's load (Queueing.h), a loop
/// its mean number of turns and a map its mean number of copies, rounded. A branch that is reached n times takes each
/// case as often as n times its probability says, to within one: the case that is furthest behind. Its end is therefore
/// not the mean over requests but near it. The problem is valid and every placement names a choice of its piece.
Schedule scheduleOf(const PlacementProblem &problem, const Placements &placements, int agent);

} // namespace intarsia::plan

#endif
