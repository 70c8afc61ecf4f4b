//===- EventQueueTest.cpp - Events of some requests ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Engine/Engines.h"

#include <poll.h>
#include <thread>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {

class EventQueues : public Engines {};
INSTANTIATE_TEST_SUITE_P(Models, EventQueues, decoderFunctions, functionName);

struct FreeQueue {
  void operator()(itx_event_queue *queue) const { itx_event_queue_free(queue); }
};
using QueuePointer = std::unique_ptr<itx_event_queue, FreeQueue>;

QueuePointer makeQueue(const EnginePointer &engine) {
  itx_event_queue *queue = nullptr;
  EXPECT_EQ(itx_event_queue_create(engine.get(), &queue), ITX_OK);
  return QueuePointer(queue);
}

/// Takes the tokens of a queue's only request.
Tokens tokensOf(itx_event_queue *queue) {
  Tokens tokens;
  while (true) {
    itx_engine_event event;
    size_t count = 0;
    EXPECT_EQ(itx_event_queue_poll(queue, 20, &event, 1, &count), ITX_OK);
    if (count == 0)
      ADD_FAILURE() << "no event in 20 s";
    if (count == 0 || event.kind == ITX_EVENT_FINISHED)
      return tokens;
    tokens.push_back(event.token);
  }
}

} // namespace

TEST_P(EventQueues, QueuesTakeTheEventsOfTheirRequests) {
  EnginePointer engine = makeEngine(2, 20);
  std::vector<Tokens> prompts = somePrompts(6, 9), texts(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < prompts.size(); ++i)
    threads.emplace_back([&, i] {
      QueuePointer queue = makeQueue(engine);
      Asked asked(prompts[i], 7);
      asked.request.queue = queue.get();
      uint64_t number = 0;
      ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK);
      pollfd readable = {itx_event_queue_descriptor(queue.get()), POLLIN, 0};
      EXPECT_EQ(poll(&readable, 1, 20000), 1);
      texts[i] = tokensOf(queue.get());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(texts[i], expectedText(prompts[i], 7));
  itx_engine_event event;
  size_t count = 0;
  ASSERT_EQ(itx_engine_poll(engine.get(), 0, &event, 1, &count), ITX_OK);
  EXPECT_EQ(count, 0u) << "an event of a queue came to the engine's own";
}

TEST_P(EventQueues, RequestsEndWithTheirQueue) {
  EnginePointer engine = makeEngine(1, 20), other = makeEngine(1, 20);
  QueuePointer queue = makeQueue(engine);
  Asked asked({1, 2, 3});
  asked.request.queue = queue.get();
  uint64_t number = 0;
  for (int i = 0; i < 300; ++i)
    ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK);
  EXPECT_EQ(asked.submit(other.get(), number), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("another engine"));
  queue.reset();
  EXPECT_EQ(runAlone(engine.get(), Asked({1, 2, 3}, 4)).tokens, expectedText({1, 2, 3}, 4));
  EXPECT_GT(stats(engine).finished[ITX_FINISH_CANCELLED], 0);
  EXPECT_EQ(stats(engine).running, 0);
  EXPECT_EQ(stats(engine).waiting, 0);
  EXPECT_EQ(stats(engine).free_pages, 20);
  // The engine may be freed before the queue.
  queue = makeQueue(engine);
  asked.request.queue = queue.get();
  ASSERT_EQ(asked.submit(engine.get(), number), ITX_OK);
  engine.reset();
  tokensOf(queue.get());
}
