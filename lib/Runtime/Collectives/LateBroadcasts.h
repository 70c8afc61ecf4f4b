//===- LateBroadcasts.h - Results that ranks get after the call that they belong to -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In a pipeline of S stages several calls may be under way at the same time. The last stage broadcasts the results of a
// call when it has computed them. The others take part later, since the last stage computes while they begin the next
// calls: stage s does so after it has computed the (S - 1 - s)th call behind it, before it sends what it has computed.
// With t = i + s for what stage s does in its ith call, the exchanges of all ranks are then in the order of t, and
// those of one t in the same order on all ranks: first the broadcast, of call t - (S - 1), then what one stage sends to
// the next. No rank waits for another one that waits for it, whether or not there is room for data on their way.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_LATEBROADCASTS_H
#define INTARSIA_RUNTIME_COLLECTIVES_LATEBROADCASTS_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <unistd.h>
#include <utility>

namespace intarsia::runtime {

/// The broadcasts that this rank has not taken part in yet, in the order of their calls.
class LateBroadcasts {
public:
  void add(uint64_t call, std::function<Status()> broadcast) { waiting_.emplace_back(call, std::move(broadcast)); }

  /// Takes part in those of calls up to this one. After an error there are none any more: the world has ended.
  Status finish(uint64_t call = ~uint64_t(0)) {
    if (process_ != getpid()) // a child of a fork is no rank
      waiting_.clear();
    while (!waiting_.empty() && waiting_.front().first <= call) {
      std::function<Status()> broadcast = std::move(waiting_.front().second);
      waiting_.pop_front();
      if (Status status = broadcast(); !status.ok()) {
        waiting_.clear();
        return status;
      }
    }
    return Status::success();
  }

private:
  pid_t process_ = getpid();
  std::deque<std::pair<uint64_t, std::function<Status()>>> waiting_;
};

} // namespace intarsia::runtime

#endif
