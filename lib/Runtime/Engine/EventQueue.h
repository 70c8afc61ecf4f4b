//===- EventQueue.h - Events on their way to the user -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_ENGINE_EVENTQUEUE_H
#define INTARSIA_RUNTIME_ENGINE_EVENTQUEUE_H

#include "lib/Support/Status.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace intarsia::runtime {

/// An event with what its pointers point to.
struct StoredEvent {
  itx_engine_event event = {};
  std::vector<itx_logprob> top;
  std::string message;
};

/// Events of an engine, and a descriptor that is readable while there are some.
class EventQueue {
public:
  static Status create(std::unique_ptr<EventQueue> &queue);
  ~EventQueue();
  EventQueue(const EventQueue &) = delete;

  /// Adds events that belong together; takes them.
  void add(std::vector<StoredEvent> &events);
  /// As itx_engine_poll.
  size_t take(double timeoutSeconds, itx_engine_event *events, size_t capacity);
  int descriptor() const { return descriptor_; }

private:
  explicit EventQueue(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<StoredEvent> waiting_;
  std::vector<StoredEvent> taken_; // what the last caller's events point to
};

} // namespace intarsia::runtime

#endif
