//===- EventQueue.h - Events on their way to the user -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_EVENTQUEUE_H
#define INTARSIA_RUNTIME_ENGINE_EVENTQUEUE_H

#include "intarsia/engine.h"
#include "lib/Support/Status.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace intarsia::runtime {

class EventQueue;

/// An event with what its pointers point to.
struct StoredEvent {
  itx_engine_event event = {};
  std::vector<itx_logprob> top;
  std::string message;
  std::shared_ptr<EventQueue> queue = {}; // null: the engine's own
};

/// Events of an engine, or of some of its requests, and a descriptor that is readable while there are some.
class EventQueue {
public:
  EventQueue() = default;
  ~EventQueue();
  EventQueue(const EventQueue &) = delete;

  /// Adds events that belong together; takes them.
  void add(std::vector<StoredEvent> &events);
  /// As itx_engine_poll.
  size_t take(double timeoutSeconds, itx_engine_event *events, size_t capacity);
  /// Gives the descriptor, which is made when it is first asked for.
  Status descriptor(int &descriptor);

  /// Expects the last events of so many samples.
  void open(int64_t samples);
  /// Waits until these have come.
  void waitUntilEnded();

private:
  std::mutex mutex_;
  std::condition_variable added_;
  int descriptor_ = -1;
  int64_t open_ = 0;
  std::deque<StoredEvent> waiting_;
  std::vector<StoredEvent> taken_; // what the last caller's events point to
};

} // namespace intarsia::runtime

#endif
