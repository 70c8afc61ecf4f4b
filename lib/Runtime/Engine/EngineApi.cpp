//===- EngineApi.cpp - The C interface of engines -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/World.h"
#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Engine/Engine.h"
#include "lib/Runtime/Engine/SimulatedModel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;

/// Copies a structure of a caller, which may be of an older version; what that lacks is zero.
template <typename Structure> static Status readStructure(const Structure *given, const char *name, Structure &result) {
  result = {};
  if (!given)
    return Status::success();
  if (given->struct_bytes < sizeof(given->struct_bytes))
    return error(ITX_INVALID_ARGUMENT, "struct_bytes of %s is %zu: set it to its size", name, given->struct_bytes);
  std::memcpy(&result, given, std::min(given->struct_bytes, sizeof(result)));
  return Status::success();
}

/// Options of an engine, and of its cache.
struct ReadOptions {
  itx_engine_options given;
  Engine::Options engine;
  Cache::Options cache;
};

static Status readOptions(const itx_engine_options *options, ReadOptions &result) {
  ITX_RETURN_IF_ERROR(readStructure(options, "the engine's options", result.given));
  const itx_engine_options &given = result.given;
  itx_cache_options cache;
  ITX_RETURN_IF_ERROR(readStructure(given.cache, "the cache's options", cache));
  result.cache = {cache.sequences,
                  cache.pages,
                  cache.bytes,
                  {cache.spill_folder ? cache.spill_folder : "", cache.spill_memory_bytes, cache.spill_file_bytes}};
  // Here a negative number is any number.
  int64_t kept = given.kept_tokens == 0 ? -1 : std::max<int64_t>(given.kept_tokens, 0);
  result.engine = {cache.sequences,          given.waiting, given.step_tokens, given.token_seconds, kept,
                   given.has_followers != 0, given.mask,    given.mask_user};
  return Status::success();
}

/// Makes the cache of an engine: with places for ended texts, and as many pages on each rank.
static Status makeCache(const std::shared_ptr<Module> &module, const char *function, Cache::Options options,
                        std::shared_ptr<Cache> &cache) {
  size_t index = 0;
  ITX_RETURN_IF_ERROR(findFunction(*module, function ? function : "step", index));
  int64_t running = options.sequences;
  options.sequences = std::max<int64_t>(running, 1);
  bool hasSlots = false;
  ITX_RETURN_IF_ERROR(Cache::hasSlots(*module, index, hasSlots));
  // Ended texts have places of their own, and the pages that those which run leave.
  options.longSequences = Engine::runningSequences(running);
  options.sequences = Engine::sequencesOfCache(running, hasSlots);
  ITX_RETURN_IF_ERROR(Cache::create(module, index, options, cache));
  World *world = module->world();
  if (!world || world->size() < 2)
    return Status::success();
  RankLink link(*world);
  int64_t pages = cache->info().pages, least = pages;
  ITX_RETURN_IF_ERROR(link.least(least));
  if (least == pages)
    return Status::success();
  options.pages = least;
  cache.reset(); // before the new one takes memory
  return Cache::create(module, index, options, cache);
}

itx_status itx_engine_create(const itx_module *module, const itx_engine_options *options, itx_engine **engine) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(module);
    ITX_REQUIRE(engine);
    ReadOptions read;
    ITX_RETURN_IF_ERROR(readOptions(options, read));
    std::shared_ptr<Cache> cache, draft;
    ITX_RETURN_IF_ERROR(makeCache(moduleOf(module), read.given.function, read.cache, cache));
    auto handle = std::make_unique<itx_engine>();
    handle->draftOptions.sequences = read.cache.sequences;
    handle->draftOptions.bytes = read.cache.bytes;
    if (read.given.draft)
      ITX_RETURN_IF_ERROR(makeCache(moduleOf(read.given.draft), nullptr, handle->draftOptions, draft));
    ITX_RETURN_IF_ERROR(Engine::create(std::move(cache), std::move(draft), read.engine, handle->engine));
    *engine = handle.release();
    return Status::success();
  });
}

itx_status itx_engine_create_mock(const itx_mock_options *mock, const itx_engine_options *options,
                                  itx_engine **engine) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(mock);
    ITX_REQUIRE(engine);
    itx_mock_options model;
    ITX_RETURN_IF_ERROR(readStructure(mock, "the simulated model's options", model));
    ReadOptions read;
    ITX_RETURN_IF_ERROR(readOptions(options, read));
    if (read.given.draft)
      return error(ITX_INVALID_ARGUMENT, "a simulated model has no draft");
    read.cache.longSequences = Engine::runningSequences(read.cache.sequences);
    read.cache.sequences = Engine::sequencesOfCache(read.cache.sequences, /*hasSlots=*/false);
    std::shared_ptr<Cache> cache;
    ITX_RETURN_IF_ERROR(createSimulatedCache(model, read.cache, cache));
    auto handle = std::make_unique<itx_engine>();
    ITX_RETURN_IF_ERROR(Engine::create(std::move(cache), nullptr, read.engine, handle->engine));
    *engine = handle.release();
    return Status::success();
  });
}

void itx_engine_free(itx_engine *engine) {
  if (!engine)
    return;
  engine->engine->close();
  delete engine;
}

/// A number that is 1 where it is not given.
static double orOne(double value) { return value == 0 ? 1 : value; }

itx_status itx_engine_submit(itx_engine *engine, const itx_request *request, uint64_t *number) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    ITX_REQUIRE(request);
    ITX_REQUIRE(number);
    itx_request given;
    ITX_RETURN_IF_ERROR(readStructure(request, "the request", given));
    if (given.prompt_count != 0)
      ITX_REQUIRE(given.prompt);
    if (given.stop_count != 0)
      ITX_REQUIRE(given.stop_tokens);
    if (given.bias_count != 0) {
      ITX_REQUIRE(given.bias_tokens);
      ITX_REQUIRE(given.bias_values);
    }
    int64_t vocabulary = engine->engine->cache()->layout().vocabulary;
    Request made;
    made.submitted = Clock::now();
    made.prompt.assign(given.prompt, given.prompt + given.prompt_count);
    made.maxTokens = given.max_tokens;
    made.minTokens = given.min_tokens;
    made.stopTokens.assign(given.stop_tokens, given.stop_tokens + given.stop_count);
    for (int64_t token : made.stopTokens)
      if (token < 0 || token >= vocabulary)
        return error(ITX_INVALID_ARGUMENT, "the stop token %lld, tokens are in [0, %lld)", (long long)token,
                     (long long)vocabulary);
    SamplingRules &rules = made.rules;
    for (size_t i = 0; i < given.bias_count; ++i)
      rules.bias.push_back({given.bias_tokens[i], given.bias_values[i]});
    rules.repetitionPenalty = orOne(given.repetition_penalty);
    rules.presencePenalty = given.presence_penalty;
    rules.frequencyPenalty = given.frequency_penalty;
    rules.temperature = given.temperature;
    rules.topK = given.top_k;
    rules.topP = orOne(given.top_p);
    rules.minP = given.min_p;
    made.seed = given.has_seed ? uint64_t(given.seed) : drawSeed();
    made.spawn = given.seed_spawn;
    made.samples = given.samples == 0 ? 1 : given.samples;
    made.logprobs = given.logprobs;
    made.promptLogprobs = given.prompt_logprobs;
    made.draftTokens = given.draft_tokens;
    made.hasMask = given.has_mask != 0;
    made.priority = given.priority;
    if (!(given.deadline_seconds >= 0))
      return error(ITX_INVALID_ARGUMENT, "a deadline in %g seconds; it must be positive, 0 means none",
                   given.deadline_seconds);
    constexpr double mostSeconds = 1e8; // longer times overflow the clock
    if (given.deadline_seconds > 0)
      made.deadline = made.submitted + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                           std::min(given.deadline_seconds, mostSeconds)));
    made.key = given.key ? given.key : "";
    made.salt = given.salt ? given.salt : "";
    if (given.queue && given.queue->engine != engine->engine)
      return error(ITX_INVALID_ARGUMENT, "the queue is for events of another engine");
    made.queue = given.queue ? given.queue->queue : nullptr;
    return engine->engine->submit(std::move(made), *number);
  });
}

void itx_engine_cancel(itx_engine *engine, uint64_t request) {
  if (engine)
    engine->engine->cancel(request);
}

static Status poll(EventQueue &queue, double timeoutSeconds, itx_engine_event *events, size_t capacity, size_t *count) {
  ITX_REQUIRE(count);
  if (capacity != 0)
    ITX_REQUIRE(events);
  if (std::isnan(timeoutSeconds))
    return error(ITX_INVALID_ARGUMENT, "a timeout that is not a number");
  *count = queue.take(timeoutSeconds, events, capacity);
  return Status::success();
}

static int32_t descriptorOf(EventQueue &queue) {
  int descriptor = -1;
  itx_status status = guarded([&] { return queue.descriptor(descriptor); });
  return status == ITX_OK ? descriptor : -1;
}

itx_status itx_engine_poll(itx_engine *engine, double timeoutSeconds, itx_engine_event *events, size_t capacity,
                           size_t *count) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    return poll(engine->engine->events(), timeoutSeconds, events, capacity, count);
  });
}

int32_t itx_engine_descriptor(itx_engine *engine) { return engine ? descriptorOf(engine->engine->events()) : -1; }

itx_status itx_event_queue_create(itx_engine *engine, itx_event_queue **queue) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    ITX_REQUIRE(queue);
    *queue = new itx_event_queue{engine->engine, std::make_shared<EventQueue>()};
    return Status::success();
  });
}

void itx_event_queue_free(itx_event_queue *queue) {
  if (!queue)
    return;
  queue->engine->endQueue(queue->queue);
  delete queue;
}

itx_status itx_event_queue_poll(itx_event_queue *queue, double timeoutSeconds, itx_engine_event *events,
                                size_t capacity, size_t *count) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(queue);
    return poll(*queue->queue, timeoutSeconds, events, capacity, count);
  });
}

int32_t itx_event_queue_descriptor(itx_event_queue *queue) { return queue ? descriptorOf(*queue->queue) : -1; }

itx_status itx_engine_get_stats(const itx_engine *engine, itx_engine_stats *stats) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    ITX_REQUIRE(stats);
    size_t bytes = stats->struct_bytes;
    if (bytes < sizeof(stats->struct_bytes))
      return error(ITX_INVALID_ARGUMENT,
                   "struct_bytes of the engine's stats is %zu: set it to sizeof(itx_engine_stats)", bytes);
    itx_engine_stats result = engine->engine->stats();
    result.struct_bytes = bytes;
    std::memcpy(stats, &result, std::min(bytes, sizeof(result)));
    return Status::success();
  });
}

itx_status itx_engine_cache(itx_engine *engine, itx_cache **cache) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    ITX_REQUIRE(cache);
    auto handle = std::make_unique<itx_cache>();
    handle->cache = engine->engine->cache();
    *cache = handle.release();
    return Status::success();
  });
}

itx_status itx_engine_keep(itx_engine *engine, itx_sequence *sequence, const char *salt) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    ITX_REQUIRE(sequence);
    if (sequence->cache != engine->engine->cache())
      return error(ITX_INVALID_ARGUMENT, "the sequence is of another cache than the engine's");
    ITX_RETURN_IF_ERROR(engine->engine->keep(sequence->sequence, salt ? salt : ""));
    delete sequence; // the handle alone
    return Status::success();
  });
}

itx_status itx_engine_fork(itx_engine *engine, const int64_t *tokens, size_t count, const char *salt,
                           itx_sequence **sequence) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    ITX_REQUIRE(sequence);
    if (count != 0)
      ITX_REQUIRE(tokens);
    auto handle = std::make_unique<itx_sequence>();
    handle->cache = engine->engine->cache();
    ITX_RETURN_IF_ERROR(engine->engine->fork({tokens, tokens + count}, salt ? salt : "", handle->sequence));
    *sequence = handle.release();
    return Status::success();
  });
}

itx_status itx_engine_set_draft(itx_engine *engine, const itx_module *draft) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    std::shared_ptr<Cache> cache;
    if (draft)
      ITX_RETURN_IF_ERROR(makeCache(moduleOf(draft), nullptr, engine->draftOptions, cache));
    engine->engine->setDraft(std::move(cache));
    return Status::success();
  });
}

itx_status itx_engine_follow(itx_engine *engine) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(engine);
    return engine->engine->follow();
  });
}
