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

EventQueue::~EventQueue() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

Status EventQueue::descriptor(int &descriptor) {
  std::lock_guard lock(mutex_);
  if (descriptor_ < 0) {
    descriptor_ = eventfd(waiting_.empty() ? 0 : 1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor_ < 0)
      return error(ITX_IO_ERROR, "no descriptor for the events of an engine: %s", std::strerror(errno));
  }
  descriptor = descriptor_;
  return Status::success();
}

void EventQueue::open(int64_t samples) {
  std::lock_guard lock(mutex_);
  open_ += samples;
}

void EventQueue::waitUntilEnded() {
  std::unique_lock lock(mutex_);
  added_.wait(lock, [this] { return open_ <= 0; });
}

void EventQueue::add(std::vector<StoredEvent> &events) {
  if (events.empty())
    return;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty() && descriptor_ >= 0)
      (void)!eventfd_write(descriptor_, 1);
    for (const StoredEvent &stored : events)
      open_ -= stored.event.kind == ITX_EVENT_FINISHED;
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
  if (count != 0 && waiting_.empty() && descriptor_ >= 0) {
    eventfd_t ignored = 0;
    (void)!eventfd_read(descriptor_, &ignored);
  }
  return count;
}

} // namespace intarsia::runtime
