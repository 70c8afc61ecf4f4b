//===- Continue.cpp - Continue token ids with a language model ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Continue.h"

#include "lib/Support/Json.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace intarsia::run {

static CacheHandle makeCache(const itx_module *module, const itx_function *step, int64_t pages, itx_cache_info &info) {
  itx_cache_options options = {sizeof(options), /*sequences=*/1, pages, /*bytes=*/0};
  itx_cache *cache = nullptr;
  check(itx_cache_create(module, itx_function_name(step), &options, &cache));
  CacheHandle handle(cache);
  info = {};
  info.struct_bytes = sizeof(info);
  check(itx_cache_get_info(cache, &info));
  return handle;
}

static void checkIds(const std::vector<int64_t> &ids, const itx_cache_info &info) {
  if (int64_t(ids.size()) > info.context)
    throw Failure{format("--ids has %zu tokens, the model's context is %lld: give fewer, or compile the model with a "
                         "larger --context if it was trained for one",
                         ids.size(), (long long)info.context)};
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= info.vocabulary)
      throw Failure{format("--ids has %lld at position %zu, the model's vocabulary is 0 to %lld: are they of another "
                           "model's tokenizer?",
                           (long long)ids[i], i, (long long)info.vocabulary - 1)};
}

/// Returns the tokens that end a text.
static std::vector<int64_t> endsOf(const itx_function *step) {
  Json metadata;
  // Cannot fail: the manifest was parsed when the module was loaded.
  (void)parseJson(itx_function_metadata(step), "metadata", metadata);
  std::vector<int64_t> ends;
  if (auto found = metadata.find("eos_token_ids"); metadata.is_object() && found != metadata.end() && found->is_array())
    for (const Json &end : *found)
      if (end.is_number_integer())
        ends.push_back(end.get<int64_t>());
  return ends;
}

/// A line of output that is ended even after an error.
struct Line {
  bool isBegun = false;
  ~Line() {
    if (isBegun)
      std::printf("\n");
  }
};

/// Appends tokens; returns the logits after the last `outputs` of them, null for none.
static TensorHandle append(itx_cache *cache, itx_sequence *sequence, const int64_t *tokens, int64_t count,
                           int64_t outputs, bool onDevice) {
  itx_chunk chunk = {sequence, tokens, count, outputs};
  itx_tensor *logits = nullptr;
  auto step = onDevice ? itx_cache_step_on_device : itx_cache_step;
  check(step(cache, &chunk, 1, outputs ? &logits : nullptr));
  return TensorHandle(logits);
}

/// Returns the likeliest token by the last row of logits, found on the device that has them or in memory of the host.
static int64_t likeliest(itx_cache *cache, const itx_tensor *logits, int64_t vocabulary) {
  int64_t last = itx_tensor_shape(logits)[0] - 1;
  if (!itx_tensor_device(logits)) {
    const float *row = static_cast<const float *>(itx_tensor_data(logits)) + last * vocabulary;
    return std::max_element(row, row + vocabulary) - row;
  }
  itx_tensor *row = nullptr, *values = nullptr, *tokens = nullptr, *sums = nullptr;
  check(itx_tensor_rows(logits, last, 1, &row));
  TensorHandle lastRow(row);
  const float temperature = 1;
  check(itx_cache_candidates(cache, row, &temperature, &values, &tokens, &sums));
  TensorHandle candidates[] = {TensorHandle(values), TensorHandle(tokens), TensorHandle(sums)};
  return static_cast<const int32_t *>(itx_tensor_data(tokens))[0];
}

TensorHandle continueIds(const itx_module *module, const itx_function *step, const Options &options, bool withLogits,
                         StepCalls &calls) {
  const std::vector<int64_t> &ids = options.ids;
  int64_t count = int64_t(ids.size());
  itx_cache_info info;
  CacheHandle cache = makeCache(module, step, 1, info); // gives the tokens of a page
  checkIds(ids, info);
  // The last generated token does not go into the cache.
  int64_t length = std::min(info.context, count + std::max<int64_t>(options.maxTokens - 1, 0));
  cache = makeCache(module, step, (length + info.page_tokens - 1) / info.page_tokens, info);
  itx_sequence *made = nullptr;
  check(itx_sequence_create(cache.get(), &made));
  SequenceHandle sequence(made);

  // Logits that are saved are needed on the host.
  bool onDevice = !withLogits && info.candidates > 0;
  TensorHandle all, logits;
  if (withLogits) {
    int64_t shape[] = {count, info.vocabulary};
    itx_tensor *tensor = nullptr;
    check(itx_tensor_create(ITX_F32, 2, shape, nullptr, &tensor));
    all.reset(tensor);
  }
  int64_t part = itx_cache_prefill_tokens(cache.get(), count);
  for (int64_t begin = 0; begin < count; begin += part) {
    int64_t tokens = std::min(part, count - begin);
    logits = append(cache.get(), sequence.get(), &ids[begin], tokens,
                    withLogits                ? tokens
                    : begin + tokens == count ? 1
                                              : 0,
                    onDevice);
    ++calls.promptCalls;
    if (withLogits)
      std::memcpy(static_cast<float *>(itx_tensor_data(all.get())) + begin * info.vocabulary,
                  itx_tensor_data(logits.get()), itx_tensor_bytes(logits.get()));
  }

  calls.promptTokens = count;
  std::vector<int64_t> ends = endsOf(step);
  Line line;
  for (int64_t number = 0; number < options.maxTokens; ++number) {
    int64_t token = likeliest(cache.get(), logits.get(), info.vocabulary);
    if (std::find(ends.begin(), ends.end(), token) != ends.end())
      break;
    std::printf("%s%lld", number ? " " : "", (long long)token);
    std::fflush(stdout);
    line.isBegun = true;
    if (number + 1 == options.maxTokens || itx_sequence_length(sequence.get()) == info.context)
      break;
    logits = append(cache.get(), sequence.get(), &token, 1, 1, onDevice);
    ++calls.decodeCalls;
  }
  line.isBegun |= options.maxTokens > 0;
  return all;
}

} // namespace intarsia::run
