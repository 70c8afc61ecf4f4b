//===- CallersTest.cpp - Eight threads call a compiled model ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// INTARSIA_TEST_ARTIFACTS names compiled models, separated by colons: encoders ("main" of token ids) and language
// models ("step"). scripts/sanitize.sh compiles some; the runtime is built without the compiler there.
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Modules.h"

#include <thread>

using namespace intarsia::testing;

namespace {

constexpr int callers = 8, rounds = 6;

std::vector<char> bytesOf(const itx_tensor *tensor) {
  const char *data = static_cast<const char *>(itx_tensor_data(tensor));
  return {data, data + itx_tensor_bytes(tensor)};
}

/// Returns an encoder's output for ids whose shape and values depend on the caller and the round; empty on an error.
std::vector<char> encode(const itx_function *main, int caller, int round) {
  int64_t batch = 1 + round % 2, sequence = 1 + (caller * 5 + round * 3) % 29;
  std::vector<int64_t> values(batch * sequence);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = int64_t(i * 7 + caller) % 50;
  TensorPointer ids = tensorOf(ITX_I64, {batch, sequence}, values);
  size_t count = itx_function_output_count(main);
  std::vector<itx_tensor *> outputs(count);
  itx_tensor *inputs[] = {ids.get()};
  if (itx_invoke(main, inputs, 1, outputs.data(), count) != ITX_OK)
    return {};
  std::vector<char> all;
  for (itx_tensor *output : outputs) {
    std::vector<char> bytes = bytesOf(output);
    all.insert(all.end(), bytes.begin(), bytes.end());
    itx_tensor_free(output);
  }
  return all;
}

/// Returns the logits of a language model after a prompt and after some more tokens; empty on an error.
std::vector<char> generate(const ModulePointer &module, int caller, int round) {
  itx_cache_options options = {sizeof(options), 2, 0, 0};
  itx_cache *cache = nullptr;
  itx_sequence *sequence = nullptr, *fork = nullptr;
  std::vector<char> all;
  bool good = itx_cache_create(module.get(), nullptr, &options, &cache) == ITX_OK &&
              itx_sequence_create(cache, &sequence) == ITX_OK;
  auto append = [&](itx_sequence *to, std::vector<int64_t> tokens) {
    itx_chunk chunk = {to, tokens.data(), int64_t(tokens.size()), 1};
    itx_tensor *logits = nullptr;
    good = good && itx_cache_step(cache, &chunk, 1, &logits) == ITX_OK;
    if (!logits)
      return;
    std::vector<char> bytes = bytesOf(logits);
    all.insert(all.end(), bytes.begin(), bytes.end());
    itx_tensor_free(logits);
  };
  std::vector<int64_t> prompt(1 + (caller * 3 + round) % 11);
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = int64_t(i * 3 + caller) % 50;
  append(sequence, prompt);
  good = good && itx_sequence_fork(sequence, &fork) == ITX_OK;
  append(sequence, {int64_t(caller)});
  append(fork, {int64_t(round)});
  itx_sequence_free(fork);
  itx_sequence_free(sequence);
  itx_cache_free(cache);
  return good ? all : std::vector<char>();
}

TEST(Callers, GetTheAnswersOfOneCaller) {
  const char *paths = getenv("INTARSIA_TEST_ARTIFACTS");
  if (!paths)
    GTEST_SKIP() << "INTARSIA_TEST_ARTIFACTS names no compiled models";
  std::stringstream list(paths);
  itx_set_threads(3);
  for (std::string path; std::getline(list, path, ':');) {
    ModulePointer module = load(path);
    ASSERT_NE(module, nullptr) << path;
    const itx_function *main = nullptr;
    bool isEncoder = itx_module_function(module.get(), "main", &main) == ITX_OK;
    auto answer = [&](int caller, int round) {
      return isEncoder ? encode(main, caller, round) : generate(module, caller, round);
    };
    std::vector<std::vector<char>> expected;
    for (int i = 0; i < callers * rounds; ++i) {
      expected.push_back(answer(i / rounds, i % rounds));
      ASSERT_FALSE(expected.back().empty()) << path << ": " << itx_last_error();
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int caller = 0; caller < callers; ++caller)
      threads.emplace_back([&, caller] {
        for (int round = 0; round < rounds; ++round)
          wrong += answer(caller, round) != expected[caller * rounds + round];
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(wrong.load(), 0) << path;
  }
  itx_set_threads(0);
}

} // namespace
