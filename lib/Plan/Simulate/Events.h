//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Future events, and executions that wait.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SIMULATE_EVENTS_H
#define INTARSIA_PLAN_SIMULATE_EVENTS_H

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace intarsia::plan {

enum class What : uint8_t { Arrival, Enter, First, Done, Replica, Start, FinishToken, Failure, Repair };

struct Event {
  double time;
  uint32_t sequence; ///< orders equal times by creation
  int32_t request;   ///< or agent, or replica
  int32_t node;      ///< or version
  What what;
  bool operator>(const Event &other) const {
    return time != other.time ? time > other.time : int32_t(sequence - other.sequence) > 0;
  }
};

class EventQueue {
public:
  bool empty() const { return events.empty(); }
  void push(double time, What what, int request, int node) { events.push({time, next++, request, node, what}); }
  Event pop() {
    Event first = events.top();
    events.pop();
    return first;
  }

private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  uint32_t next = 0;
};

/// An execution in the queue of its piece.
struct Waiting {
  double since; ///< milliseconds
  double drawn; ///< size of the execution over the mean
  int32_t request, node;
  int32_t starts = 0; ///< starts that failures of devices undid
};

} // namespace intarsia::plan

#endif
