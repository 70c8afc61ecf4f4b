//===- GpuQueues.cpp - Work of a GPU in order, and when it is done ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuQueues.h"

#include "lib/Runtime/GPU/GpuExecutable.h"

#include <algorithm>

namespace intarsia::runtime {

static constexpr int workIndexBits = 48;

Status GpuQueues::start(int device, uint32_t queues) {
  device_ = device;
  std::vector<Queue> made(queues);
  for (Queue &queue : made) {
    queue.awaited.assign(queues, 0);
    queue.graphs = std::make_unique<GpuGraphs>(driver_, state_);
    ITX_RETURN_IF_ERROR(state_.check(driver_.createStream(queue.stream), "make a stream"));
  }
  queues_ = std::move(made);
  return Status::success();
}

/// Finds the queue of an event and the index of its work; an error if no such event has been given out.
Status GpuQueues::find(itx_event event, uint32_t &queue, uint64_t &index) const {
  queue = uint32_t(event >> workIndexBits);
  index = event & ((uint64_t(1) << workIndexBits) - 1);
  if (event >> workIndexBits < queues_.size() && index != 0 && index <= queues_[queue].issued)
    return Status::success();
  return error(ITX_INTERNAL, "0x%llx is no event of the %s device; is it another device's?", (unsigned long long)event,
               driver_.kind());
}

/// Returns a mark that is reached when the work of an index is done. A mark may lie behind other work that was put on
/// the queue since.
Status GpuQueues::markAfter(Queue &queue, uint64_t index, Marked &marked) {
  auto found = std::lower_bound(queue.marks.begin(), queue.marks.end(), index,
                                [](const Marked &one, uint64_t wanted) { return one.index < wanted; });
  if (found != queue.marks.end()) {
    marked = *found;
    return Status::success();
  }
  ITX_RETURN_IF_ERROR(queue.graphs->flush(queue.stream));
  ITX_RETURN_IF_ERROR(queue.graphs->failureOf(index));
  marked.index = queue.issued;
  ITX_RETURN_IF_ERROR(state_.check(marks_.record(queue.stream, marked.mark), "mark the end of its work"));
  queue.marks.push_back(marked);
  return Status::success();
}

Status GpuQueues::wait(itx_event event) {
  uint32_t number = 0;
  uint64_t index = 0;
  Marked marked;
  {
    std::lock_guard lock(mutex_);
    ITX_RETURN_IF_ERROR(find(event, number, index));
    ITX_RETURN_IF_ERROR(queues_[number].graphs->failureOf(index));
    if (index <= queues_[number].done)
      return Status::success();
  }
  ITX_RETURN_IF_ERROR(state_.status());
  EnteredGpu entered(driver_, device_);
  ITX_RETURN_IF_ERROR(state_.check(entered.result(), "be used by this thread"));
  {
    std::lock_guard lock(mutex_);
    ITX_RETURN_IF_ERROR(markAfter(queues_[number], index, marked));
  }
  // Without the lock, so that other threads can put work on the queues meanwhile.
  GpuResult result = driver_.synchronizeEvent(marked.mark.get());
  std::lock_guard lock(mutex_);
  ITX_RETURN_IF_ERROR(state_.check(result, "finish its work"));
  Queue &queue = queues_[number];
  // Copies to the host first: whoever finds the work done may read what they have written.
  ITX_RETURN_IF_ERROR(staging_.deliver());
  queue.done = std::max(queue.done, marked.index);
  while (!queue.marks.empty() && queue.marks.front().index <= queue.done)
    queue.marks.pop_front();
  state_.history().finish(number, queue.done);
  timings_.collect();
  return Status::success();
}

void GpuQueues::finish() {
  std::lock_guard lock(mutex_);
  for (Queue &queue : queues_) {
    Marked last;
    (void)queue.graphs->flush(queue.stream);
    if (queue.done != queue.issued && marks_.record(queue.stream, last.mark).ok())
      (void)driver_.synchronizeEvent(last.mark.get());
    if (queue.scratch)
      (void)memory_.releaseAfter(queue.stream, queue.scratch);
    queue.scratch = nullptr;
    queue.marks.clear();
    queue.graphs->clear();
  }
  (void)staging_.deliver();
  marks_.clear();
}

// ---- Submissions ----------------------------------------------------------------------------------------------

Status GpuQueues::Submission::waitFor(const itx_event *after, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (after[i] == 0)
      continue;
    uint32_t other = 0;
    uint64_t index = 0;
    ITX_RETURN_IF_ERROR(queues_.find(after[i], other, index));
    // The work of one stream is done in order.
    if (other == number_ || index <= queues_.queues_[other].done || index <= queue_.awaited[other])
      continue;
    Marked marked;
    ITX_RETURN_IF_ERROR(flush());
    ITX_RETURN_IF_ERROR(queues_.markAfter(queues_.queues_[other], index, marked));
    ITX_RETURN_IF_ERROR(
        queues_.state_.check(queues_.driver_.streamWait(queue_.stream, marked.mark.get()), "let a queue wait"));
    queue_.awaited[other] = marked.index;
  }
  return Status::success();
}

Status GpuQueues::Submission::scratch(uint64_t bytes, const Launch &launch, void *&address) {
  address = nullptr;
  if (bytes == 0)
    return Status::success();
  if (bytes > queue_.scratchBytes) {
    ITX_RETURN_IF_ERROR(flush());
    // The old memory goes first, so that both need not fit; launches that use it are done before it is freed.
    if (queue_.scratch)
      ITX_RETURN_IF_ERROR(queues_.memory_.releaseAfter(queue_.stream, queue_.scratch));
    queue_.scratch = nullptr;
    queue_.scratchBytes = 0;
    ITX_RETURN_IF_ERROR(
        queues_.memory_.allocateFor(queue_.stream, bytes, "the scratch of " + launchText(launch), queue_.scratch));
    queue_.scratchBytes = bytes;
  }
  address = queue_.scratch;
  return Status::success();
}

itx_event GpuQueues::Submission::end(bool begun) {
  if (!begun) {
    queues_.timings_.cancel();
    return 0;
  }
  ++queue_.issued;
  queues_.timings_.end(queue_.stream);
  return uint64_t(number_) << workIndexBits | queue_.issued;
}

} // namespace intarsia::runtime
