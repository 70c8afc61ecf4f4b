//===- StageCalls.h - Calls of ranks that have several stages of a pipeline ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step of ranks with several stages each is computed in parts, each of which goes through all ranks once a turn. All
// ranks make their calls in the order of stageOrder(), so that messages go in a circle: from the last rank to the first
// again. A send may wait for its receiver. Ranks that all sent before they received would wait for each other forever,
// and so would the last rank, if it sent what the first one needs much later only.
//
// All exchanges have one order, in which each rank makes its own. Of a part at position x rank r receives at time x +
// r, sends to the next rank at time x + r + 1, and the first rank receives what the last one has sent at time x'.
// Exchanges of one time are made from the last two ranks to the first two, and then from the last rank to the first.
// Stages receive first and send last (Stages.cpp), which is this order for all ranks but the last: it keeps what it
// sends, and sends it at time x', when it has received what belongs to that time. x' is not before it has it:
// StageOrder.h.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_STAGECALLS_H
#define INTARSIA_RUNTIME_CORE_STAGECALLS_H

#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Core/CallCollective.h"
#include "lib/Support/StageOrder.h"

#include <deque>
#include <mutex>
#include <optional>

namespace intarsia::runtime {

/// The calls of one step on this rank. The world is used by nothing else meanwhile.
class StageCalls {
public:
  /// `function` is that of the last turn.
  StageCalls(const Module &module, const FunctionInfo &function);

  /// Takes part in broadcasts of earlier calls, which come first.
  Status begin() { return world_.late().finish(); }
  /// Runs a prepared call of the function of a turn. Results are there on the last rank alone.
  Status run(::itx_call &call, const StageTurn &item);
  /// Sends what is left.
  Status finish() { return sendUpTo(never); }
  /// True for the last rank, which has the results of the calls.
  bool isLast() const { return rank_ + 1 == ranks_; }
  /// Gives the result of all calls together to the other ranks.
  Status broadcastResult(void *data, uint64_t elements);

  /// Makes an exchange of a call, or keeps it for later.
  Status exchange(::itx_call &call, const CollectiveCall &given, itx_event &event);

private:
  static constexpr int64_t never = INT64_MAX;
  /// A message that the last rank keeps, and sends to the first one at the time `due`.
  struct Send {
    int64_t due;
    const FunctionInfo *function;
    CollectiveCall exchange;
    std::unique_ptr<uint8_t[]> data;
  };

  /// Sends what the first rank receives at a time or before it.
  Status sendUpTo(int64_t time);
  Status keep(const ::itx_call &call, const CollectiveCall &given);

  const Module &module_;
  const FunctionInfo &function_;
  World &world_;
  std::unique_lock<std::mutex> lock_;
  int64_t ranks_, rank_; ///< those that a part goes through in a turn, and this one's place among them
  StageTurn item_;       ///< that runs
  int64_t received_ = 0; ///< messages of it
  std::deque<Send> sends_;
  std::optional<CollectiveCall> broadcast_; ///< of the results of a call
};

} // namespace intarsia::runtime

#endif
