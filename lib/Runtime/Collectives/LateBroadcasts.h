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

namespace intarsia::runtime {

/// The broadcasts that this rank has not taken part in yet, in the order of their calls.
class LateBroadcasts {
public:
  /// `owner` is whose memory the broadcast needs.
  void add(uint64_t call, const void *owner, std::function<Status()> broadcast) {
    waiting_.push_back({call, owner, std::move(broadcast)});
  }

  /// Returns the last call that an owner has one of; 0: none.
  uint64_t lastOf(const void *owner) const {
    uint64_t last = 0;
    for (const Entry &entry : waiting_)
      last = entry.owner == owner ? entry.call : last;
    return last;
  }

  /// Takes part in those of calls up to this one. After an error there are none any more: the world has ended.
  Status finish(uint64_t call = ~uint64_t(0)) {
    if (process_ != getpid()) // a child of a fork is no rank
      waiting_.clear();
    while (!waiting_.empty() && waiting_.front().call <= call) {
      std::function<Status()> broadcast = std::move(waiting_.front().broadcast);
      waiting_.pop_front();
      if (Status status = broadcast(); !status.ok()) {
        waiting_.clear();
        return status;
      }
    }
    return Status::success();
  }

private:
  struct Entry {
    uint64_t call;
    const void *owner;
    std::function<Status()> broadcast;
  };
  pid_t process_ = getpid();
  std::deque<Entry> waiting_;
};

} // namespace intarsia::runtime

#endif
