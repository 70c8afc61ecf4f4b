//===- ScheduleTest.cpp - Which requests are computed when ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With a simulated model, whose steps take as long as they are told to.
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/engine.h"
#include "lib/Runtime/Engine/StepTimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace intarsia::runtime;

namespace {

struct FreeEngine {
  void operator()(itx_engine *engine) const { itx_engine_free(engine); }
};
using EnginePointer = std::unique_ptr<itx_engine, FreeEngine>;

struct Options {
  int64_t sequences = 4, pages = 1000, stepTokens = 0;
  double stepSeconds = 0, tokenSeconds = 0, target = 0;
  int64_t stopToken = -1;
};

EnginePointer makeEngine(const Options &options) {
  itx_cache_options cache = {sizeof(cache), options.sequences, options.pages, 0, nullptr, 0, 0};
  itx_engine_options engine = {};
  engine.struct_bytes = sizeof(engine);
  engine.cache = &cache;
  engine.step_tokens = options.stepTokens;
  engine.token_seconds = options.target;
  itx_mock_options mock = {sizeof(mock), 64, 4096, 16, options.stopToken, options.stepSeconds, options.tokenSeconds, 7};
  itx_engine *made = nullptr;
  EXPECT_EQ(itx_engine_create_mock(&mock, &engine, &made), ITX_OK) << itx_last_error();
  return EnginePointer(made);
}

struct Asked {
  int64_t prompt = 16, tokens = 4;
  int32_t priority = 0;
  const char *key = nullptr;
  double deadline = 0;
  int64_t first = 1; // token of the prompt
};

uint64_t submit(const EnginePointer &engine, const Asked &asked) {
  std::vector<int64_t> prompt(size_t(asked.prompt), 5);
  prompt[0] = asked.first;
  itx_request request = {};
  request.struct_bytes = sizeof(request);
  request.prompt = prompt.data();
  request.prompt_count = prompt.size();
  request.max_tokens = asked.tokens;
  request.priority = asked.priority;
  request.key = asked.key;
  request.deadline_seconds = asked.deadline;
  uint64_t number = 0;
  EXPECT_EQ(itx_engine_submit(engine.get(), &request, &number), ITX_OK) << itx_last_error();
  return number;
}

/// Takes events until so many requests have ended; returns all.
std::vector<itx_engine_event> collect(const EnginePointer &engine, size_t requests) {
  std::vector<itx_engine_event> all;
  while (requests > 0) {
    itx_engine_event event;
    size_t count = 0;
    EXPECT_EQ(itx_engine_poll(engine.get(), 20, &event, 1, &count), ITX_OK);
    if (count == 0) {
      ADD_FAILURE() << "no event in 20 s";
      break;
    }
    requests -= event.kind == ITX_EVENT_FINISHED;
    all.push_back(event);
  }
  return all;
}

/// Adds a request, and waits until it runs.
uint64_t run(const EnginePointer &engine, const Asked &asked) {
  uint64_t number = submit(engine, asked);
  itx_engine_event event;
  size_t count = 0;
  EXPECT_EQ(itx_engine_poll(engine.get(), 20, &event, 1, &count), ITX_OK);
  EXPECT_EQ(count, 1u);
  return number;
}

/// Returns the order in which requests got their first tokens.
std::vector<uint64_t> beginnings(const std::vector<itx_engine_event> &events) {
  std::vector<uint64_t> order;
  for (const itx_engine_event &event : events)
    if (std::find(order.begin(), order.end(), event.request) == order.end())
      order.push_back(event.request);
  return order;
}

} // namespace

TEST(Schedule, TheHighestPriorityIsFirst) {
  EnginePointer engine = makeEngine({.sequences = 1, .stepSeconds = 0.002});
  uint64_t running = run(engine, {.tokens = 20, .first = 1});
  uint64_t low = submit(engine, {.priority = -1, .first = 2}), usual = submit(engine, {.first = 3});
  uint64_t high = submit(engine, {.priority = 3, .first = 4});
  EXPECT_EQ(beginnings(collect(engine, 4)), (std::vector<uint64_t>{running, high, usual, low}));
}

TEST(Schedule, NobodyWaitsForAStep) {
  // Event loops submit requests, and look at figures, while steps are computed.
  EnginePointer engine = makeEngine({.pages = 77, .stepSeconds = 0.2});
  itx_engine_stats stats = {sizeof(stats)};
  EXPECT_EQ(itx_engine_get_stats(engine.get(), &stats), ITX_OK);
  EXPECT_EQ(stats.pages, 77);
  EXPECT_EQ(stats.free_pages, 77);
  run(engine, {.tokens = 50, .first = 1});
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    uint64_t number = submit(engine, {.first = 2 + i});
    EXPECT_EQ(itx_engine_get_stats(engine.get(), &stats), ITX_OK);
    itx_engine_cancel(engine.get(), number);
  }
  std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(passed.count(), 0.4) << "ten calls wait for steps of 0.2 s";
}

TEST(Schedule, KeysGetTheSameShare) {
  EnginePointer engine = makeEngine({.sequences = 1, .stepSeconds = 0.001});
  std::vector<uint64_t> many = {run(engine, {.tokens = 20, .key = "many", .first = 9})}, few;
  for (int i = 0; i < 7; ++i)
    many.push_back(submit(engine, {.key = "many", .first = 10 + i}));
  for (int i = 0; i < 2; ++i)
    few.push_back(submit(engine, {.key = "few", .first = 20 + i}));
  std::vector<uint64_t> order = beginnings(collect(engine, 10));
  auto place = [&](uint64_t number) { return std::find(order.begin(), order.end(), number) - order.begin(); };
  EXPECT_LE(place(few[0]), 2) << "it does not wait for all of the other key";
  EXPECT_LE(place(few[1]), 4);
  EXPECT_LT(place(many[0]), place(many[1]));
}

TEST(Schedule, DeadlinesEndRequests) {
  EnginePointer engine = makeEngine({.sequences = 1, .stepSeconds = 0.01});
  uint64_t running = run(engine, {.tokens = 1000, .deadline = 0.2, .first = 1});
  uint64_t waiting = submit(engine, {.tokens = 1000, .deadline = 0.05, .first = 2});
  std::map<uint64_t, itx_engine_event> ends;
  for (const itx_engine_event &event : collect(engine, 2))
    if (event.kind == ITX_EVENT_FINISHED)
      ends[event.request] = event;
  EXPECT_EQ(ends[running].finish, ITX_FINISH_DEADLINE);
  EXPECT_GT(ends[running].tokens, 0);
  EXPECT_EQ(ends[waiting].finish, ITX_FINISH_DEADLINE);
  EXPECT_EQ(ends[waiting].tokens, 0);
}

TEST(Schedule, PromptsLeaveTheTimeBetweenTokens) {
  // A token of a prompt takes 0.1 ms, a step 5 ms: a target of 20 ms leaves room for 130 tokens of a prompt.
  EnginePointer engine =
      makeEngine({.sequences = 4, .stepTokens = 2048, .stepSeconds = 0.005, .tokenSeconds = 0.0001, .target = 0.02});
  run(engine, {.tokens = 60, .first = 1});
  submit(engine, {.prompt = 2000, .tokens = 2, .first = 2});
  std::map<uint64_t, std::vector<uint64_t>> steps;
  for (const itx_engine_event &event : collect(engine, 2))
    steps[event.request].push_back(event.step);
  // Without a target the second prompt would be computed in one step.
  EXPECT_GE(steps[2].front(), 4u);
  EXPECT_LE(steps[2].front(), 140u) << "prompts get some tokens of each step";
}

TEST(Schedule, PromptsThatComeTogetherGoTwoByTwo) {
  // A stream waits for 8 prompts of 512 tokens in 4 or 5 steps: the first may begin before the others are there.
  EnginePointer engine = makeEngine({.sequences = 9, .stepSeconds = 0.15});
  run(engine, {.tokens = 12, .first = 60});
  for (int i = 0; i < 8; ++i)
    submit(engine, {.prompt = 512, .tokens = 2, .first = i + 1});
  std::map<uint64_t, uint64_t> first;
  for (const itx_engine_event &event : collect(engine, 9))
    first.try_emplace(event.request, event.step);
  std::set<uint64_t> steps;
  for (auto [request, step] : first)
    if (request != 1)
      steps.insert(step);
  EXPECT_GE(steps.size(), 4u) << "no more than 1,024 tokens are computed in a step";
  EXPECT_LE(steps.size(), 5u);
  // A single prompt is computed in parts of 512 tokens.
  itx_engine_stats before = {}, after = {};
  before.struct_bytes = after.struct_bytes = sizeof(before);
  ASSERT_EQ(itx_engine_get_stats(engine.get(), &before), ITX_OK);
  submit(engine, {.prompt = 2048, .tokens = 1, .first = 50});
  collect(engine, 1);
  ASSERT_EQ(itx_engine_get_stats(engine.get(), &after), ITX_OK);
  EXPECT_EQ(after.steps - before.steps, 4);
}

TEST(Schedule, PagesThatAreExpectedAreReserved) {
  // 16 requests of 16 + 48 tokens need 64 pages in all; 32 are there, and nothing has to leave the cache.
  EnginePointer engine = makeEngine({.sequences = 16, .pages = 32});
  for (int i = 0; i < 16; ++i)
    submit(engine, {.tokens = 48, .first = i});
  collect(engine, 16);
  itx_engine_stats stats = {};
  stats.struct_bytes = sizeof(stats);
  ASSERT_EQ(itx_engine_get_stats(engine.get(), &stats), ITX_OK);
  EXPECT_EQ(stats.finished[ITX_FINISH_LENGTH], 16);
  EXPECT_EQ(stats.recomputed_sequences, 0);
  EXPECT_EQ(stats.free_pages, 32);
}

static int64_t stepsOf(const EnginePointer &engine) {
  itx_engine_stats stats = {};
  stats.struct_bytes = sizeof(stats);
  EXPECT_EQ(itx_engine_get_stats(engine.get(), &stats), ITX_OK);
  return stats.steps;
}

static void waitForSteps(const EnginePointer &engine, int64_t steps) {
  for (int i = 0; i < 10000 && stepsOf(engine) < steps; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Schedule, RequestsAreCancelledWithinAStep) {
  // Prompts are computed in parts of 16 tokens: one that decodes, one between its parts, one that waits.
  EnginePointer engine = makeEngine({.sequences = 2, .pages = 200, .stepTokens = 16, .stepSeconds = 0.005});
  uint64_t decodes = run(engine, {.tokens = 1000, .first = 1});
  uint64_t prompt = submit(engine, {.prompt = 2000, .tokens = 4, .first = 2});
  uint64_t waits = submit(engine, {.tokens = 4, .first = 3});
  waitForSteps(engine, 6);
  itx_engine_cancel(engine.get(), waits);
  itx_engine_cancel(engine.get(), prompt);
  int64_t before = stepsOf(engine);
  std::map<uint64_t, itx_engine_event> ends;
  while (ends.size() < 2) {
    for (const itx_engine_event &event : collect(engine, 1))
      if (event.kind == ITX_EVENT_FINISHED)
        ends[event.request] = event;
  }
  for (uint64_t number : {prompt, waits}) {
    EXPECT_EQ(ends[number].finish, ITX_FINISH_CANCELLED);
    EXPECT_EQ(ends[number].tokens, 0);
    EXPECT_LE(int64_t(ends[number].step), before + 2) << "the step that was under way, and one that had begun since";
  }
  // The one that decodes is cancelled while another one's prompt is computed, and that one goes on.
  uint64_t other = submit(engine, {.prompt = 320, .tokens = 4, .first = 4});
  waitForSteps(engine, before + 6);
  itx_engine_cancel(engine.get(), decodes);
  ends.clear();
  for (const itx_engine_event &event : collect(engine, 2))
    if (event.kind == ITX_EVENT_FINISHED)
      ends[event.request] = event;
  EXPECT_EQ(ends[decodes].finish, ITX_FINISH_CANCELLED);
  EXPECT_EQ(ends[other].finish, ITX_FINISH_LENGTH);
  EXPECT_EQ(ends[other].tokens, 4);
  itx_engine_stats stats = {};
  stats.struct_bytes = sizeof(stats);
  ASSERT_EQ(itx_engine_get_stats(engine.get(), &stats), ITX_OK);
  EXPECT_EQ(stats.free_pages, 200);
}

TEST(Schedule, TextsEndAtTheStopToken) {
  EnginePointer engine = makeEngine({.stopToken = 3});
  std::vector<int64_t> prompt = {1, 2};
  const int64_t stop = 3;
  itx_request request = {};
  request.struct_bytes = sizeof(request);
  request.prompt = prompt.data();
  request.prompt_count = prompt.size();
  request.stop_tokens = &stop;
  request.stop_count = 1;
  uint64_t number = 0;
  ASSERT_EQ(itx_engine_submit(engine.get(), &request, &number), ITX_OK) << itx_last_error();
  itx_engine_event last = collect(engine, 1).back();
  EXPECT_EQ(last.finish, ITX_FINISH_END);
  EXPECT_EQ(last.token, 3);
  EXPECT_LT(last.tokens, 1000);
}

TEST(Schedule, WrongMocks) {
  itx_engine *engine = nullptr;
  itx_mock_options mock = {sizeof(mock), 1, 64, 16, -1, 0, 0, 0};
  EXPECT_EQ(itx_engine_create_mock(&mock, nullptr, &engine), ITX_INVALID_ARGUMENT);
  mock = {sizeof(mock), 64, 64, 16, 64, 0, 0, 0};
  EXPECT_EQ(itx_engine_create_mock(&mock, nullptr, &engine), ITX_INVALID_ARGUMENT);
  mock = {sizeof(mock), 64, 64, 16, -1, -1, 0, 0};
  EXPECT_EQ(itx_engine_create_mock(&mock, nullptr, &engine), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), ::testing::HasSubstr("cannot be negative"));
}

TEST(StepTimes, ShareOfAStep) {
  StepTimes times;
  EXPECT_EQ(times.promptTokens(0, 0.1, 16, 512), 512) << "nobody waits for a token";
  EXPECT_EQ(times.promptTokens(4, 0, 16, 512), 512) << "no target";
  EXPECT_EQ(times.promptTokens(4, 0.1, 16, 512), 16) << "nothing is known";
  times.observe(4, 0, 0.02);
  times.observe(4, 100, 0.07); // 0.5 ms a token
  EXPECT_NEAR(times.promptRate(), 2000, 1);
  // 0.9 of 0.1 s, without 0.02 s.
  EXPECT_NEAR(double(times.promptTokens(4, 0.1, 16, 512)), 140, 1);
  EXPECT_EQ(times.promptTokens(4, 0.01, 16, 512), 16) << "prompts go on";
  EXPECT_NEAR(times.rowsSeconds(5), 0.02, 1e-9) << "the nearest that was measured";
}

TEST(StepTimes, StepsThatAreLateNowAndThen) {
  // One step in 25 takes twice as long: a target is kept by 99 of 100 steps if they are planned for half of it.
  StepTimes times;
  int late = 0;
  for (int i = 0; i < 4000; ++i) {
    int64_t tokens = i % 2 == 0 ? 0 : times.promptTokens(4, 0.1, 16, 512);
    double seconds = (0.02 + double(tokens) * 0.0005) * (i % 25 == 7 ? 2 : 1);
    late += i >= 2000 && tokens > 0 && seconds > 0.1;
    times.observe(4, tokens, seconds);
  }
  EXPECT_LE(late, 2000 / 100);
  EXPECT_GE(times.promptTokens(4, 0.1, 16, 512), 30) << "no more is left free than is needed";
  // On a machine that has become quiet the room is used again.
  for (int i = 0; i < 4000; ++i)
    times.observe(4, i % 2 * 100, i % 2 ? 0.07 : 0.02);
  EXPECT_NEAR(double(times.promptTokens(4, 0.1, 16, 512)), 140, 1);
}
