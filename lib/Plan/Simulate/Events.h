//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The queue of future events, and the queue of a piece.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SIMULATE_EVENTS_H
#define INTARSIA_PLAN_SIMULATE_EVENTS_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace intarsia::plan {

enum class What : uint8_t { Arrival, Enter, First, Done, Replica, Start, FinishToken, Failure, Repair, Turn };

struct Event {
  double time;
  uint32_t sequence; ///< orders equal times by creation
  int32_t request;   ///< or agent, or replica
  int32_t node;      ///< or version
  What what;
  bool operator<(const Event &other) const {
    return time != other.time ? time < other.time : int32_t(sequence - other.sequence) < 0;
  }
};

/// A heap of degree four in one array.
class EventQueue {
public:
  bool empty() const { return heap.empty(); }
  void push(double time, What what, int request, int node) {
    Event event{time, next++, request, node, what};
    size_t at = heap.size();
    heap.push_back(event);
    while (at > 0) {
      size_t parent = (at - 1) / 4;
      if (!(event < heap[parent]))
        break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = event;
  }
  Event pop() {
    Event top = heap.front(), last = heap.back();
    heap.pop_back();
    if (!heap.empty()) {
      size_t at = 0, size = heap.size();
      for (;;) {
        size_t first = 4 * at + 1;
        if (first >= size)
          break;
        size_t least = first, end = std::min(first + 4, size);
        for (size_t child = first + 1; child < end; ++child)
          if (heap[child] < heap[least])
            least = child;
        if (!(heap[least] < last))
          break;
        heap[at] = heap[least];
        at = least;
      }
      heap[at] = last;
    }
    return top;
  }

private:
  std::vector<Event> heap;
  uint32_t next = 0;
};

/// First in, first out, in one array that grows by doubling.
class Waiting {
public:
  struct Entry {
    double since; ///< milliseconds
    double drawn; ///< size of the execution over the mean
    int32_t request, node;
    int32_t starts = 0; ///< starts that failures of devices undid
  };
  bool empty() const { return head == tail; }
  void push(Entry entry) {
    if (tail - head == entries.size()) {
      std::vector<Entry> larger(std::max<size_t>(16, entries.size() * 2));
      for (size_t i = head; i < tail; ++i)
        larger[i - head] = entries[i & (entries.size() - 1)];
      tail -= head, head = 0;
      entries.swap(larger);
    }
    entries[tail++ & (entries.size() - 1)] = entry;
  }
  const Entry &front() const { return entries[head & (entries.size() - 1)]; }
  Entry pop() { return entries[head++ & (entries.size() - 1)]; }

private:
  std::vector<Entry> entries;
  size_t head = 0, tail = 0;
};

} // namespace intarsia::plan

#endif
