//===- EventQueue.cpp - Events on their way to the user -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/EventQueue.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>

namespace intarsia::runtime {

Status EventQueue::create(std::unique_ptr<EventQueue> &queue) {
  int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0)
    return error(ITX_IO_ERROR, "no descriptor for the events of an engine: %s", std::strerror(errno));
  queue.reset(new EventQueue(descriptor));
  return Status::success();
}

EventQueue::~EventQueue() { close(descriptor_); }

void EventQueue::add(std::vector<StoredEvent> &events) {
  if (events.empty())
    return;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty())
      (void)!eventfd_write(descriptor_, 1);
    std::move(events.begin(), events.end(), std::back_inserter(waiting_));
  }
  events.clear();
  added_.notify_all();
}

size_t EventQueue::take(double timeoutSeconds, itx_engine_event *events, size_t capacity) {
  std::unique_lock lock(mutex_);
  auto isReady = [this] { return !waiting_.empty(); };
  // Longer times overflow the clock.
  constexpr double mostSeconds = 1e8;
  if (timeoutSeconds < 0)
    added_.wait(lock, isReady);
  else if (timeoutSeconds > 0)
    added_.wait_for(lock, std::chrono::duration<double>(std::min(timeoutSeconds, mostSeconds)), isReady);
  size_t count = std::min(capacity, waiting_.size());
  taken_.assign(std::make_move_iterator(waiting_.begin()),
                std::make_move_iterator(waiting_.begin() + ptrdiff_t(count)));
  waiting_.erase(waiting_.begin(), waiting_.begin() + ptrdiff_t(count));
  for (size_t i = 0; i < count; ++i) {
    events[i] = taken_[i].event;
    events[i].top = taken_[i].top.empty() ? nullptr : taken_[i].top.data();
    events[i].top_count = taken_[i].top.size();
    events[i].message = taken_[i].message.empty() ? nullptr : taken_[i].message.c_str();
  }
  if (count != 0 && waiting_.empty()) {
    eventfd_t ignored = 0;
    (void)!eventfd_read(descriptor_, &ignored);
  }
  return count;
}

} // namespace intarsia::runtime
