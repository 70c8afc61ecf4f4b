//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times of passes on a machine that others use too.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PROBE_TURNS_H
#define INTARSIA_LIB_PROBE_TURNS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <vector>

namespace intarsia::probe {

/// Something to time. `reset` comes after each round and is not timed.
struct Pass {
  std::function<llvm::Error()> round;
  std::function<llvm::Error()> reset = [] { return llvm::Error::success(); };
  /// Index of a pass that does all of what this one does, and more: a longer time than that one's contradicts it.
  int more = -1;
};

/// Passes that are compared with each other take turns: shared machines become slower for some time, and that then
/// affects all of them alike. In a turn a pass runs once, or as often as `turnSeconds` allow, and the median of these
/// rounds is the time of the turn. Rounds of `warmSeconds` come before and do not count: the first ones find
/// caches with what another pass has read, and a step takes up to twice its time in them. A round of `longSeconds`
/// counts at once, since that is a small part of it. The lower quartile of the turns is the time of the pass, since
/// other work on the machine only adds to times. A pass that has taken `enoughSeconds` has no more turns after
/// `fewest`.
struct TurnOptions {
  int fewest = 3, most = 5;
  int again = 3; ///< more turns that passes get as long as their times contradict each other
  double turnSeconds = 0.02, warmSeconds = 0.1, longSeconds = 0.2, enoughSeconds = 0.3;
  std::function<double()> clock; ///< seconds since any moment
  /// Returns how many times as long as at its best a fixed work takes now; asked between turns. A turn with a value
  /// above `mostSlowdown` before or after it is dropped and taken again, as long as patience lasts.
  std::function<double()> slowdown = [] { return 1.0; };
  double mostSlowdown = 1.25;
};

/// What turns share: how long others may still be waited for, and what was measured beside them all the same.
struct Patience {
  double seconds = 0;
  int disturbedTurns = 0, turns = 0;
};

/// Returns the times of the passes in microseconds. Passes whose times contradict each other are measured again; what
/// still contradicts then takes the time of the pass that does more, since what disturbs only adds to times.
llvm::Expected<std::vector<double>> timeInTurns(llvm::ArrayRef<Pass> passes, const TurnOptions &options,
                                                Patience &patience);

} // namespace intarsia::probe

#endif
