//===- CommandQueues.h - Work in order, on threads of its own ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_COMMANDQUEUES_H
#define INTARSIA_RUNTIME_HOSTED_COMMANDQUEUES_H

#include "intarsia/module_abi.h"
#include "lib/Runtime/Hosted/HostedSettings.h"
#include "lib/Support/Status.h"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace intarsia::runtime {

/// Queues of commands, each with a thread. A command runs after the one before it in its queue, after the events that
/// it waits for, and after a random delay. The event of a command is its queue times 2^48 plus its index in the queue,
/// counted from 1. All members but the destructor may be called from several threads at once.
class CommandQueues {
public:
  using Work = std::function<Status()>;
  /// Commands that wait in a queue or run; who submits another one waits for room.
  static constexpr uint64_t largestBacklog = 1024;
  /// Failed commands of a queue whose errors are kept, the latest ones.
  static constexpr size_t keptFailures = 4096;

  static Status start(const HostedNames &names, const HostedSettings &settings, std::unique_ptr<CommandQueues> &queues);
  /// Waits until all commands are done.
  ~CommandQueues();

  /// Appends a command. It is not run if one of the events has failed, and takes over that event's error.
  Status submit(uint32_t queue, Work work, const itx_event *after, uint32_t afterCount, itx_event &event);
  /// Waits until the event has happened and returns the error of its command.
  Status wait(itx_event event);
  /// Sets the largest delay of commands that have not begun.
  void setDelay(uint64_t microseconds, uint64_t seed);

private:
  struct Command {
    Work work;
    std::vector<itx_event> after;
  };
  struct Queue;

  explicit CommandQueues(const HostedNames &names);
  void runCommands(Queue &queue);
  Status runCommand(Queue &queue, const Command &command);
  Status find(itx_event event, Queue *&queue, uint64_t &index);

  const HostedNames &names_;
  std::atomic<uint64_t> delayMicroseconds_{0};
  std::vector<std::unique_ptr<Queue>> queues_;
};

} // namespace intarsia::runtime

#endif
