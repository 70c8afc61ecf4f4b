//===- CacheApi.cpp - The C interface of caches and sequences -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/Cache.h"
#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Call.h"

#include <algorithm>
#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;

/// Reads a step function and the options of its cache.
static Status readArguments(const itx_module *module, const char *function, const itx_cache_options *given,
                            std::shared_ptr<Module> &loaded, size_t &index, Cache::Options &result) {
  ITX_REQUIRE(module);
  itx_cache_options options = {};
  if (given && given->struct_bytes < sizeof(given->struct_bytes))
    return error(ITX_INVALID_ARGUMENT, "struct_bytes of the cache options is %zu: set it to sizeof(itx_cache_options)",
                 given->struct_bytes);
  if (given)
    std::memcpy(&options, given, std::min(given->struct_bytes, sizeof(options)));
  result = {options.sequences ? options.sequences : 1,
            options.pages,
            options.bytes,
            {options.spill_folder ? options.spill_folder : "", options.spill_memory_bytes, options.spill_file_bytes}};
  loaded = moduleOf(module);
  return findFunction(*loaded, function ? function : "step", index);
}

itx_status itx_cache_bytes_needed(const itx_module *module, const char *function, const itx_cache_options *options,
                                  uint64_t *bytes) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(bytes);
    std::shared_ptr<Module> loaded;
    size_t index = 0;
    Cache::Options parsed;
    ITX_RETURN_IF_ERROR(readArguments(module, function, options, loaded, index, parsed));
    return Cache::bytesNeeded(*loaded, index, parsed, *bytes);
  });
}

itx_status itx_cache_create(const itx_module *module, const char *function, const itx_cache_options *options,
                            itx_cache **cache) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    std::shared_ptr<Module> loaded;
    size_t index = 0;
    Cache::Options parsed;
    ITX_RETURN_IF_ERROR(readArguments(module, function, options, loaded, index, parsed));
    auto handle = std::make_unique<itx_cache>();
    ITX_RETURN_IF_ERROR(Cache::create(std::move(loaded), index, parsed, handle->cache));
    *cache = handle.release();
    return Status::success();
  });
}

void itx_cache_free(itx_cache *cache) { delete cache; }

itx_status itx_cache_get_info(const itx_cache *cache, itx_cache_info *info) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    ITX_REQUIRE(info);
    size_t bytes = info->struct_bytes;
    if (bytes < sizeof(info->struct_bytes))
      return error(ITX_INVALID_ARGUMENT, "struct_bytes of the cache info is %zu: set it to sizeof(itx_cache_info)",
                   bytes);
    itx_cache_info result = cache->cache->info();
    result.struct_bytes = bytes;
    std::memcpy(info, &result, std::min(bytes, sizeof(result)));
    return Status::success();
  });
}

int64_t itx_cache_prefill_tokens(const itx_cache *cache, int64_t prompt_tokens) {
  return cache ? cache->cache->prefillTokens(prompt_tokens) : 0;
}

itx_status itx_cache_spill_status(const itx_cache *cache) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    return cache->cache->spillStatus();
  });
}

/// `make(sequence)` gives the new sequence of a handle.
template <typename Make>
static Status makeHandle(const std::shared_ptr<Cache> &cache, itx_sequence **result, Make make) {
  auto handle = std::make_unique<itx_sequence>();
  handle->cache = cache;
  ITX_RETURN_IF_ERROR(make(handle->sequence));
  *result = handle.release();
  return Status::success();
}

itx_status itx_sequence_create(itx_cache *cache, itx_sequence **sequence) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    ITX_REQUIRE(sequence);
    return makeHandle(cache->cache, sequence, [&](Sequence *&made) { return cache->cache->createSequence(made); });
  });
}

void itx_sequence_free(itx_sequence *sequence) {
  if (!sequence)
    return;
  sequence->cache->freeSequence(*sequence->sequence);
  delete sequence;
}

int64_t itx_sequence_length(const itx_sequence *sequence) {
  return sequence ? sequence->cache->length(*sequence->sequence) : 0;
}

int32_t itx_sequence_is_evicted(const itx_sequence *sequence) {
  return sequence && sequence->cache->isEvicted(*sequence->sequence);
}

itx_status itx_sequence_tokens(const itx_sequence *sequence, int64_t *tokens, size_t capacity, size_t *count) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(sequence);
    ITX_REQUIRE(count);
    if (capacity != 0)
      ITX_REQUIRE(tokens);
    std::vector<int64_t> all = sequence->cache->tokens(*sequence->sequence);
    *count = all.size();
    std::copy_n(all.begin(), std::min(capacity, all.size()), tokens);
    return Status::success();
  });
}

itx_status itx_sequence_fork(const itx_sequence *sequence, itx_sequence **child) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(sequence);
    ITX_REQUIRE(child);
    return makeHandle(sequence->cache, child,
                      [&](Sequence *&made) { return sequence->cache->fork(*sequence->sequence, made); });
  });
}

itx_status itx_sequence_truncate(itx_sequence *sequence, int64_t length, int64_t *kept) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(sequence);
    return sequence->cache->truncate(*sequence->sequence, length, kept);
  });
}

itx_status itx_sequence_evict(itx_sequence *sequence) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(sequence);
    sequence->cache->evict(*sequence->sequence);
    return Status::success();
  });
}

itx_status itx_sequence_set_evictable(itx_sequence *sequence, int32_t evictable) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(sequence);
    sequence->cache->setEvictable(*sequence->sequence, evictable != 0);
    return Status::success();
  });
}

itx_status itx_sequence_save(const itx_sequence *sequence, const char *path) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(sequence);
    ITX_REQUIRE(path);
    return sequence->cache->save(*sequence->sequence, path);
  });
}

itx_status itx_sequence_restore(itx_cache *cache, const char *path, itx_sequence **sequence) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    ITX_REQUIRE(path);
    ITX_REQUIRE(sequence);
    return makeHandle(cache->cache, sequence, [&](Sequence *&made) { return cache->cache->restore(path, made); });
  });
}

itx_status itx_sequence_send(const itx_sequence *sequence, int32_t socket, double timeout_s) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(sequence);
    return sequence->cache->send(*sequence->sequence, socket, timeout_s);
  });
}

itx_status itx_sequence_receive(itx_cache *cache, int32_t socket, double timeout_s, itx_sequence **sequence) {
  return itx_sequence_receive_parts(cache, &socket, 1, timeout_s, sequence);
}

itx_status itx_sequence_receive_parts(itx_cache *cache, const int32_t *sockets, size_t count, double timeout_s,
                                      itx_sequence **sequence) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    ITX_REQUIRE(sequence);
    if (count == 0)
      return error(ITX_INVALID_ARGUMENT, "a sequence is received in parts from no process at all");
    ITX_REQUIRE(sockets);
    std::vector<int> all(sockets, sockets + count);
    return makeHandle(cache->cache, sequence,
                      [&](Sequence *&made) { return cache->cache->receive(all, timeout_s, made); });
  });
}

static Status readChunks(const itx_cache &cache, const itx_chunk *chunks, size_t count, std::vector<Chunk> &parsed) {
  if (count != 0)
    ITX_REQUIRE(chunks);
  for (size_t i = 0; i < count; ++i) {
    const itx_chunk &chunk = chunks[i];
    if (!chunk.sequence || (!chunk.tokens && chunk.token_count != 0))
      return error(ITX_INVALID_ARGUMENT, "the %s of chunk %zu are null", chunk.sequence ? "tokens" : "sequence", i);
    if (chunk.sequence->cache != cache.cache)
      return error(ITX_INVALID_ARGUMENT, "the sequence of chunk %zu is of another cache", i);
    parsed.push_back({chunk.sequence->sequence, chunk.tokens, chunk.token_count, chunk.output_count});
  }
  return Status::success();
}

/// Gives the logits of a step, null if it has none.
static void giveLogits(StepResults &results, itx_tensor **logits) {
  if (logits)
    *logits = results.logits.data ? new itx_tensor(std::move(results.logits)) : nullptr;
}

static Status step(itx_cache *cache, const itx_chunk *chunks, size_t count, LogitsWanted wanted, itx_tensor **logits) {
  ITX_REQUIRE(cache);
  std::vector<Chunk> parsed;
  ITX_RETURN_IF_ERROR(readChunks(*cache, chunks, count, parsed));
  if (std::any_of(parsed.begin(), parsed.end(), [](const Chunk &chunk) { return chunk.outputs > 0; }))
    ITX_REQUIRE(logits);
  StepResults results;
  ITX_RETURN_IF_ERROR(cache->cache->step(parsed, wanted, results));
  giveLogits(results, logits);
  return Status::success();
}

itx_status itx_cache_step(itx_cache *cache, const itx_chunk *chunks, size_t count, itx_tensor **logits) {
  return guarded([&] { return step(cache, chunks, count, LogitsWanted::OnHost, logits); });
}

itx_status itx_cache_step_on_device(itx_cache *cache, const itx_chunk *chunks, size_t count, itx_tensor **logits) {
  return guarded([&] { return step(cache, chunks, count, LogitsWanted::OnDevice, logits); });
}

itx_status itx_cache_step_start(itx_cache *cache, const itx_chunk *chunks, size_t count, itx_step **started) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    ITX_REQUIRE(started);
    std::vector<Chunk> parsed;
    ITX_RETURN_IF_ERROR(readChunks(*cache, chunks, count, parsed));
    auto handle = std::make_unique<itx_step>();
    handle->module = cache->cache->module();
    ITX_RETURN_IF_ERROR(cache->cache->step(parsed, LogitsWanted::Later, handle->results));
    *started = handle.release();
    return Status::success();
  });
}

itx_status itx_step_wait(itx_step *started, itx_tensor **logits) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(started);
    std::unique_ptr<itx_step> handle(started);
    ITX_RETURN_IF_ERROR(finishLateResults(*handle->module, handle->results.call));
    giveLogits(handle->results, logits);
    return Status::success();
  });
}

void itx_step_free(itx_step *started) { delete started; }

itx_status itx_cache_candidates(itx_cache *cache, const itx_tensor *logits, const float *temperatures,
                                itx_tensor **values, itx_tensor **tokens, itx_tensor **sums) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(cache);
    ITX_REQUIRE(logits);
    ITX_REQUIRE(temperatures);
    ITX_REQUIRE(values);
    ITX_REQUIRE(tokens);
    ITX_REQUIRE(sums);
    Candidates found;
    ITX_RETURN_IF_ERROR(cache->cache->candidates(*logits, temperatures, found));
    std::unique_ptr<itx_tensor> handles[3];
    for (size_t i = 0; i < found.size(); ++i)
      handles[i] = std::make_unique<itx_tensor>(std::move(found[i]));
    *values = handles[0].release();
    *tokens = handles[1].release();
    *sums = handles[2].release();
    return Status::success();
  });
}
