//===- CommandQueuesTest.cpp - Order, events and failures of commands -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/CommandQueues.h"

#include "gtest/gtest.h"
#include <chrono>
#include <csignal>
#include <future>
#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;

namespace {

const HostedNames names = {"reference", "the reference device", "ITX_REFERENCE"};

class CommandQueuesTest : public ::testing::Test {
protected:
  void SetUp() override {
    Status status = CommandQueues::start(names, {}, queues);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  itx_event submit(uint32_t queue, CommandQueues::Work work, std::vector<itx_event> after = {}) {
    itx_event event = 0;
    Status status = queues->submit(queue, std::move(work), after.data(), uint32_t(after.size()), event);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_NE(event, 0u);
    EXPECT_LT(event, uint64_t(1) << 56);
    return event;
  }
  static Status succeed() { return Status::success(); }
  std::unique_ptr<CommandQueues> queues;
};

CommandQueues::Work failWith(std::string message) {
  return [message] { return Status(ITX_INTERNAL, message); };
}

TEST_F(CommandQueuesTest, CommandsOfAQueueRunInOrder) {
  queues->setDelay(50, 3);
  std::vector<int> order; // only one thread writes to it
  itx_event last = 0;
  for (int i = 0; i < 200; ++i)
    last = submit(1, [&order, i] {
      order.push_back(i);
      return Status::success();
    });
  ASSERT_TRUE(queues->wait(last).ok());
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(order.at(i), i);
}

TEST_F(CommandQueuesTest, SubmittingDoesNotWait) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  bool hasRun = false;
  itx_event blocked = submit(0, [opened] {
    opened.wait();
    return Status::success();
  });
  itx_event dependent = submit(1,
                               [&] {
                                 hasRun = true;
                                 return Status::success();
                               },
                               {blocked});
  itx_event behind = submit(0, succeed);
  EXPECT_FALSE(hasRun);
  gate.set_value();
  EXPECT_TRUE(queues->wait(dependent).ok());
  EXPECT_TRUE(hasRun);
  EXPECT_TRUE(queues->wait(behind).ok());
  EXPECT_TRUE(queues->wait(blocked).ok()) << "events can be waited for again";
  EXPECT_TRUE(queues->wait(0).ok());
}

TEST_F(CommandQueuesTest, FailuresGoToDependentsAlone) {
  bool hasRun = false;
  auto note = [&] {
    hasRun = true;
    return Status::success();
  };
  itx_event failed = submit(0, failWith("first"));
  itx_event next = submit(0, succeed);
  itx_event alsoFailed = submit(1, failWith("second"));
  itx_event dependent = submit(1, note, {next, failed, alsoFailed});
  itx_event indirect = submit(0, note, {dependent, alsoFailed});
  itx_event other = submit(1, succeed, {next});
  EXPECT_EQ(queues->wait(failed).message(), "first");
  EXPECT_TRUE(queues->wait(next).ok());
  EXPECT_EQ(queues->wait(alsoFailed).message(), "second");
  EXPECT_EQ(queues->wait(dependent).message(), "first") << "that of the first event that failed";
  EXPECT_EQ(queues->wait(indirect).message(), "first");
  EXPECT_TRUE(queues->wait(other).ok());
  EXPECT_FALSE(hasRun);
  EXPECT_EQ(queues->wait(failed).code(), ITX_INTERNAL);
}

TEST_F(CommandQueuesTest, FailuresAreKeptForAWhile) {
  std::vector<itx_event> events;
  for (size_t i = 0; i < CommandQueues::keptFailures + 10; ++i)
    events.push_back(submit(0, failWith(std::to_string(i))));
  EXPECT_FALSE(queues->wait(events.back()).ok());
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(queues->wait(events[i]).message(), i < 10 ? "" : std::to_string(i));
}

TEST_F(CommandQueuesTest, EventsOfOthersAreRefused) {
  itx_event event = submit(0, succeed);
  for (itx_event wrong : {event + 1, event + (uint64_t(1) << 48), uint64_t(7) << 48 | 1, uint64_t(1) << 48}) {
    EXPECT_EQ(queues->wait(wrong).code(), ITX_INTERNAL) << wrong;
    itx_event none = 5;
    EXPECT_EQ(queues->submit(0, succeed, &wrong, 1, none).code(), ITX_INTERNAL) << wrong;
    EXPECT_EQ(none, 0u);
  }
}

TEST_F(CommandQueuesTest, ThereIsRoomForSoManyCommands) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  for (uint64_t i = 0; i < CommandQueues::largestBacklog; ++i)
    submit(0, [opened] {
      opened.wait();
      return Status::success();
    });
  std::future<itx_event> oneMore = std::async(std::launch::async, [&] { return submit(0, succeed); });
  EXPECT_EQ(oneMore.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_TRUE(queues->wait(submit(1, succeed)).ok()) << "the other queue has room";
  gate.set_value();
  EXPECT_TRUE(queues->wait(oneMore.get()).ok());
}

TEST_F(CommandQueuesTest, ThreadsBlockSignals) {
  sigset_t blocked;
  itx_event event = submit(0, [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return Status::success();
  });
  ASSERT_TRUE(queues->wait(event).ok());
  for (int signal : {SIGINT, SIGTERM, SIGCHLD, SIGPROF})
    EXPECT_TRUE(sigismember(&blocked, signal)) << signal;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGINT));
}

TEST_F(CommandQueuesTest, EndWaitsForCommands) {
  queues->setDelay(200, 1);
  std::atomic<int> count{0};
  for (int i = 0; i < 50; ++i)
    submit(i % 2, [&] {
      ++count;
      return Status::success();
    });
  queues.reset();
  EXPECT_EQ(count.load(), 50);
}

TEST_F(CommandQueuesTest, SeveralThreadsSubmit) {
  std::atomic<int> count{0}, failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      itx_event last = 0;
      for (int i = 0; i < 500; ++i) {
        last = submit((t + i) % 2,
                      [&] {
                        ++count;
                        return Status::success();
                      },
                      {last});
        if (i % 50 == 0)
          failures += !queues->wait(last).ok();
      }
      failures += !queues->wait(last).ok();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(count.load(), 2000);
  EXPECT_EQ(failures.load(), 0);
}

} // namespace
