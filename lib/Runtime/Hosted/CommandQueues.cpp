//===- CommandQueues.cpp - Work in order, on threads of its own -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/CommandQueues.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <deque>
#include <mutex>
#include <new>
#include <pthread.h>
#include <random>
#include <system_error>
#include <thread>

namespace intarsia::runtime {

static constexpr int indexBits = 48;

struct CommandQueues::Queue {
  struct Failure {
    uint64_t index;
    Status status;
  };

  std::mutex mutex;
  std::condition_variable submitted; ///< a command was submitted, or the queue ends
  std::condition_variable happened;  ///< a command is done
  std::deque<Command> commands;
  uint64_t issued = 0; ///< index of the last command
  uint64_t done = 0;   ///< index of the last command that is done
  std::deque<Failure> failures;
  bool ends = false;
  std::mt19937_64 random;
  std::thread thread;
};

CommandQueues::CommandQueues(const HostedNames &names) : names_(names) {}

Status CommandQueues::start(const HostedNames &names, const HostedSettings &settings,
                            std::unique_ptr<CommandQueues> &queues) {
  std::unique_ptr<CommandQueues> result(new CommandQueues(names));
  for (uint32_t i = 0; i < settings.queues; ++i)
    result->queues_.push_back(std::make_unique<Queue>());
  result->setDelay(settings.delayMicroseconds, settings.seed);
  // Signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    for (uint32_t i = 0; i < settings.queues; ++i) {
      Queue &queue = *result->queues_[i];
      queue.thread = std::thread([self = result.get(), &queue] { self->runCommands(queue); });
      char name[16];
      std::snprintf(name, sizeof(name), "itx-%.9s-%u", names.kind, i % 10);
      pthread_setname_np(queue.thread.native_handle(), name);
    }
  } catch (const std::system_error &failure) {
    status =
        error(ITX_OUT_OF_MEMORY, "%s cannot start its %llu threads: %s; may the process have more threads (ulimit -u)?",
              names.text, (unsigned long long)settings.queues, failure.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ITX_RETURN_IF_ERROR(status);
  queues = std::move(result);
  return Status::success();
}

CommandQueues::~CommandQueues() {
  for (std::unique_ptr<Queue> &queue : queues_) {
    std::lock_guard lock(queue->mutex);
    queue->ends = true;
    queue->submitted.notify_all();
  }
  for (std::unique_ptr<Queue> &queue : queues_)
    if (queue->thread.joinable())
      queue->thread.join();
}

void CommandQueues::setDelay(uint64_t microseconds, uint64_t seed) {
  for (size_t i = 0; i < queues_.size(); ++i) {
    std::lock_guard lock(queues_[i]->mutex);
    queues_[i]->random.seed(seed + i);
  }
  delayMicroseconds_.store(microseconds);
}

/// Finds the queue of an event and the index of its command there; an error if no such event has been given out.
Status CommandQueues::find(itx_event event, Queue *&queue, uint64_t &index) {
  uint64_t queueIndex = event >> indexBits;
  index = event & ((uint64_t(1) << indexBits) - 1);
  if (queueIndex < queues_.size() && index != 0) {
    queue = queues_[queueIndex].get();
    std::lock_guard lock(queue->mutex);
    if (index <= queue->issued)
      return Status::success();
  }
  return error(ITX_INTERNAL, "0x%llx is no event of %s; is it another device's?", (unsigned long long)event,
               names_.text);
}

Status CommandQueues::submit(uint32_t queue, Work work, const itx_event *after, uint32_t afterCount, itx_event &event) {
  event = 0;
  Command command = {std::move(work), {}};
  for (uint32_t i = 0; i < afterCount; ++i) {
    if (after[i] == 0)
      continue;
    Queue *other;
    uint64_t index;
    ITX_RETURN_IF_ERROR(find(after[i], other, index));
    command.after.push_back(after[i]);
  }
  Queue &target = *queues_[queue];
  std::unique_lock lock(target.mutex);
  target.happened.wait(lock, [&] { return target.issued - target.done < largestBacklog; });
  target.commands.push_back(std::move(command));
  event = uint64_t(queue) << indexBits | ++target.issued;
  target.submitted.notify_one();
  return Status::success();
}

Status CommandQueues::wait(itx_event event) {
  if (event == 0)
    return Status::success();
  Queue *queue;
  uint64_t index;
  ITX_RETURN_IF_ERROR(find(event, queue, index));
  std::unique_lock lock(queue->mutex);
  queue->happened.wait(lock, [&] { return queue->done >= index; });
  auto failure = std::lower_bound(queue->failures.begin(), queue->failures.end(), index,
                                  [](const Queue::Failure &failure, uint64_t index) { return failure.index < index; });
  return failure != queue->failures.end() && failure->index == index ? failure->status : Status::success();
}

Status CommandQueues::runCommand(Queue &queue, const Command &command) {
  // Events only refer to commands that were submitted before, so queues cannot wait for each other in a circle.
  Status first;
  for (itx_event event : command.after)
    if (Status status = wait(event); first.ok())
      first = std::move(status);
  ITX_RETURN_IF_ERROR(first);
  if (uint64_t largest = delayMicroseconds_.load()) {
    uint64_t delay;
    {
      std::lock_guard lock(queue.mutex);
      delay = std::uniform_int_distribution<uint64_t>(0, largest)(queue.random);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
  }
  try {
    return command.work();
  } catch (const std::bad_alloc &) {
    return error(ITX_OUT_OF_MEMORY, "out of memory in a thread of %s", names_.text);
  }
}

void CommandQueues::runCommands(Queue &queue) {
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.submitted.wait(lock, [&] { return queue.ends || !queue.commands.empty(); });
    if (queue.commands.empty())
      return;
    Command command = std::move(queue.commands.front());
    queue.commands.pop_front();
    lock.unlock();
    Status status = runCommand(queue, command);
    command = {};
    lock.lock();
    ++queue.done;
    if (!status.ok()) {
      queue.failures.push_back({queue.done, std::move(status)});
      if (queue.failures.size() > keptFailures)
        queue.failures.pop_front();
    }
    queue.happened.notify_all();
  }
}

} // namespace intarsia::runtime
