//===- Pending.cpp - Work in the background, as the C interface shows it ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Pending.h"

#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Executor.h"

using namespace intarsia;
using namespace intarsia::runtime;

struct itx_pending {
  std::shared_ptr<Pending> work;
  std::shared_ptr<std::atomic<bool>> cancelled;
};

namespace intarsia::runtime {

void Pending::run(Work work) noexcept {
  std::vector<Tensor> results;
  Status status;
  try {
    status = work(results);
  } catch (const std::bad_alloc &) {
    status = {ITX_OUT_OF_MEMORY, "out of memory"};
  } catch (const std::exception &exception) {
    status = {ITX_INTERNAL, exception.what()};
  }
  work = nullptr;
  std::lock_guard lock(mutex_);
  status_ = std::move(status);
  results_ = std::move(results);
  done_ = true;
  changed_.notify_all();
}

bool Pending::waitFor(std::chrono::microseconds time) {
  if (isForeign()) // in a child of a fork nobody would unlock a mutex that was locked
    return done_;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return done_.load(); });
}

Status Pending::take(std::vector<Tensor> &results) {
  if (!isForeign()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.load(); });
  }
  results = std::move(results_);
  return std::move(status_);
}

void startPending(std::string name, size_t resultCount, Pending::Work work, itx_pending **pending,
                  std::shared_ptr<std::atomic<bool>> cancelled) {
  auto handle = std::make_unique<itx_pending>();
  handle->work = std::make_shared<Pending>(std::move(name), resultCount);
  handle->cancelled = std::move(cancelled);
  runInBackground([state = handle->work, work = std::move(work)]() mutable { state->run(std::move(work)); });
  *pending = handle.release();
}

void giveTensors(std::vector<Tensor> &from, itx_tensor **to) {
  std::vector<std::unique_ptr<itx_tensor>> handles;
  for (Tensor &tensor : from)
    handles.push_back(std::make_unique<itx_tensor>(std::move(tensor)));
  for (size_t i = 0; i < handles.size(); ++i)
    to[i] = handles[i].release();
}

} // namespace intarsia::runtime

int32_t itx_pending_done(const itx_pending *pending) {
  return !pending || pending->work->isDone() || pending->work->isForeign();
}

int32_t itx_pending_done_within(const itx_pending *pending, uint64_t microseconds) {
  constexpr uint64_t year = uint64_t(365) * 86400 * 1000000; // longer times could overflow a clock
  return itx_pending_done(pending) || pending->work->waitFor(std::chrono::microseconds(std::min(microseconds, year)));
}

/// Frees a handle. In a child of a fork the state of work that was not done is kept: its thread may have been in the
/// middle of a change.
static void freeHandle(itx_pending *pending) {
  if (pending && pending->work->isForeign() && !pending->work->isDone())
    (void)new std::shared_ptr<Pending>(pending->work);
  delete pending;
}

void itx_pending_free(itx_pending *pending) { freeHandle(pending); }

void itx_pending_cancel(itx_pending *pending) {
  if (pending && pending->cancelled && !pending->work->isForeign())
    *pending->cancelled = true;
}

itx_status itx_pending_wait(itx_pending *pending, itx_tensor **outputs, size_t output_count) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(pending);
    std::unique_ptr<itx_pending, void (*)(itx_pending *)> handle(pending, freeHandle);
    Pending &work = *pending->work;
    if (work.isForeign() && !work.isDone())
      return error(ITX_INVALID_ARGUMENT,
                   "the call was started by process %d and was not done when this process (%d) was forked: wait for it "
                   "before the fork, or start it anew here",
                   int(work.process()), int(getpid()));
    std::vector<Tensor> results;
    ITX_RETURN_IF_ERROR(work.take(results));
    if (!outputs)
      return Status::success();
    if (output_count != work.resultCount())
      return error(ITX_INVALID_ARGUMENT, "room for %zu outputs given, %s has %zu", output_count, work.name().c_str(),
                   work.resultCount());
    giveTensors(results, outputs);
    return Status::success();
  });
}
