//===- MisuseTest.cpp - Handles that are null or stale ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Decoder.h"

#include "lib/Formats/DLPack.h"

#include <thread>

using namespace intarsia::testing;

namespace {
class Misuse : public ModuleTest {};
class CacheMisuse : public CacheTest {};
} // namespace

TEST(NullHandles, HaveNullAndZeroForAnswers) {
  EXPECT_EQ(itx_dtype_name(itx_tensor_dtype(nullptr)), nullptr);
  EXPECT_EQ(itx_tensor_rank(nullptr), 0u);
  EXPECT_EQ(itx_tensor_shape(nullptr), nullptr);
  EXPECT_EQ(itx_tensor_elements(nullptr), 0);
  EXPECT_EQ(itx_tensor_bytes(nullptr), 0u);
  EXPECT_EQ(itx_tensor_data(nullptr), nullptr);
  EXPECT_EQ(itx_module_manifest(nullptr), nullptr);
  EXPECT_EQ(itx_module_variant(nullptr), nullptr);
  EXPECT_EQ(itx_module_file_count(nullptr), 0u);
  EXPECT_EQ(itx_module_file_name(nullptr, 0), nullptr);
  EXPECT_EQ(itx_module_function_count(nullptr), 0u);
  EXPECT_EQ(itx_module_function_at(nullptr, 0), nullptr);
  EXPECT_EQ(itx_function_name(nullptr), nullptr);
  EXPECT_EQ(itx_function_metadata(nullptr), nullptr);
  EXPECT_EQ(itx_function_input_count(nullptr), 0u);
  EXPECT_EQ(itx_function_output_count(nullptr), 0u);
  EXPECT_EQ(itx_function_input(nullptr, 0), nullptr);
  EXPECT_EQ(itx_function_output(nullptr, 0), nullptr);
  EXPECT_NE(itx_pending_done(nullptr), 0);
  EXPECT_EQ(itx_sequence_length(nullptr), 0);
  EXPECT_EQ(itx_sequence_is_evicted(nullptr), 0);
  itx_tensor_free(nullptr);
  itx_module_free(nullptr);
  itx_cache_free(nullptr);
  itx_sequence_free(nullptr);
}

TEST(NullHandles, AreInvalidArguments) {
  itx_status statuses[] = {
      itx_tensor_create(ITX_F32, 0, nullptr, nullptr, nullptr),
      itx_tensor_wrap(nullptr, ITX_F32, 0, nullptr, nullptr, nullptr, nullptr),
      itx_tensor_from_dlpack(nullptr, nullptr),
      itx_tensor_from_dlpack_versioned(nullptr, nullptr),
      itx_tensor_to_dlpack(nullptr, nullptr),
      itx_tensor_to_dlpack_versioned(nullptr, nullptr),
      itx_tensor_load_npy(nullptr, nullptr),
      itx_tensor_save_npy(nullptr, nullptr),
      itx_module_load(nullptr, nullptr, nullptr),
      itx_module_load_memory(nullptr, 0, nullptr, nullptr, nullptr),
      itx_module_load_embedded(nullptr, nullptr, nullptr),
      itx_module_file(nullptr, nullptr, nullptr, nullptr),
      itx_module_function(nullptr, nullptr, nullptr),
      itx_function_input_index(nullptr, nullptr, nullptr),
      itx_function_output_index(nullptr, nullptr, nullptr),
      itx_invoke(nullptr, nullptr, 0, nullptr, 0),
      itx_invoke_start(nullptr, nullptr, 0, nullptr),
      itx_pending_wait(nullptr, nullptr, 0),
      itx_cache_bytes_needed(nullptr, nullptr, nullptr, nullptr),
      itx_cache_create(nullptr, nullptr, nullptr, nullptr),
      itx_cache_get_info(nullptr, nullptr),
      itx_sequence_create(nullptr, nullptr),
      itx_sequence_tokens(nullptr, nullptr, 0, nullptr),
      itx_sequence_fork(nullptr, nullptr),
      itx_sequence_truncate(nullptr, 0, nullptr),
      itx_sequence_evict(nullptr),
      itx_sequence_set_evictable(nullptr, 0),
      itx_sequence_save(nullptr, nullptr),
      itx_sequence_restore(nullptr, nullptr, nullptr),
      itx_cache_step(nullptr, nullptr, 0, nullptr),
      itx_cache_step_start(nullptr, nullptr, 0, nullptr),
      itx_step_wait(nullptr, nullptr),
  };
  for (size_t i = 0; i < std::size(statuses); ++i)
    EXPECT_EQ(statuses[i], ITX_INVALID_ARGUMENT) << "call " << i;
}

TEST_F(Misuse, NullResultsAreInvalidArguments) {
  std::string path = writeSample(folder), bytes = readFile(path);
  ModulePointer module = load(path);
  const itx_function *function = find(module, "main");
  TensorPointer tensor = idsOf(1, 6);
  size_t index = 0;
  const void *data = nullptr;
  DLManagedTensor managed = {};
  DLManagedTensorVersioned versioned = {};
  itx_status statuses[] = {
      itx_tensor_from_dlpack(&managed, nullptr),
      itx_tensor_from_dlpack_versioned(&versioned, nullptr),
      itx_tensor_to_dlpack(tensor.get(), nullptr),
      itx_tensor_to_dlpack_versioned(tensor.get(), nullptr),
      itx_tensor_load_npy(path.c_str(), nullptr),
      itx_tensor_save_npy(tensor.get(), nullptr),
      itx_module_load(path.c_str(), nullptr, nullptr),
      itx_module_load_memory(bytes.data(), bytes.size(), nullptr, nullptr, nullptr),
      itx_module_file(module.get(), nullptr, &data, &index),
      itx_module_file(module.get(), "tokenizer.json", nullptr, &index),
      itx_module_file(module.get(), "tokenizer.json", &data, nullptr),
      itx_module_function(module.get(), nullptr, nullptr),
      itx_function_input_index(function, nullptr, &index),
      itx_function_input_index(function, "ids", nullptr),
      itx_function_output_index(function, nullptr, &index),
      itx_function_output_index(function, "rows", nullptr),
      itx_invoke(function, nullptr, 1, nullptr, 1),
      itx_invoke_start(function, nullptr, 1, nullptr),
  };
  for (size_t i = 0; i < std::size(statuses); ++i)
    EXPECT_EQ(statuses[i], ITX_INVALID_ARGUMENT) << "call " << i;
}

TEST_P(CacheMisuse, NullResultsAreInvalidArguments) {
  CachePointer cache = make(2, 8);
  SequencePointer one = sequence(cache);
  Tokens tokens = {1, 2};
  ASSERT_EQ(append(cache, one, tokens), ITX_OK) << itx_last_error();
  size_t count = 0;
  int64_t token = 0;
  itx_chunk chunks[] = {{nullptr, &token, 1, 0}, {one.get(), nullptr, 1, 0}, {one.get(), &token, 1, 1}};
  itx_status statuses[] = {
      itx_cache_bytes_needed(module.get(), GetParam(), nullptr, nullptr),
      itx_cache_create(module.get(), GetParam(), nullptr, nullptr),
      itx_cache_get_info(cache.get(), nullptr),
      itx_sequence_create(cache.get(), nullptr),
      itx_sequence_tokens(one.get(), nullptr, 1, &count),
      itx_sequence_tokens(one.get(), &token, 1, nullptr),
      itx_sequence_fork(one.get(), nullptr),
      itx_sequence_save(one.get(), nullptr),
      itx_sequence_restore(cache.get(), nullptr, nullptr),
      itx_cache_step(cache.get(), nullptr, 1, nullptr),
      itx_cache_step(cache.get(), &chunks[0], 1, nullptr),
      itx_cache_step(cache.get(), &chunks[1], 1, nullptr),
      itx_cache_step(cache.get(), &chunks[2], 1, nullptr),
      itx_cache_step_start(cache.get(), &chunks[0], 1, nullptr),
  };
  for (size_t i = 0; i < std::size(statuses); ++i)
    EXPECT_EQ(statuses[i], ITX_INVALID_ARGUMENT) << "call " << i;
  EXPECT_EQ(itx_sequence_length(one.get()), 2);
}

INSTANTIATE_TEST_SUITE_P(NullHandles, CacheMisuse, decoderFunctions, functionName);

TEST_F(Misuse, FunctionsOfAFreedModuleAreRefused) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *main = find(module, "main"), *total = itx_module_function_at(module.get(), 1);
  TensorPointer ids = idsOf(1, 6), output;
  module.reset();
  ModulePointer another = load(writeSample(folder, filledManifest(), "another.itx")); // may take the same memory
  EXPECT_EQ(refusal(main, {ids.get()}), "the module of the function is freed");
  EXPECT_EQ(refusal(total, {ids.get()}), "the module of the function is freed");
  itx_pending *pending = nullptr;
  size_t index = 0;
  EXPECT_EQ(itx_invoke_start(main, nullptr, 0, &pending), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_function_input_index(main, "ids", &index), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_function_output_index(main, "rows", &index), ITX_INVALID_ARGUMENT);
  EXPECT_STREQ(itx_last_error(), "the module of the function is freed");
  EXPECT_EQ(itx_function_name(main), nullptr);
  EXPECT_EQ(itx_function_input_count(main), 0u);
  EXPECT_EQ(itx_function_input(main, 0), nullptr);
  ASSERT_EQ(invoke(find(another, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isRight(ids, output));
}

TEST_F(Misuse, FunctionsOfAFreedModuleAreRefusedWhileOneComputes) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *main = find(module, "main");
  TensorPointer ids = idsOf(1, 6), output;
  HeldMask mask(6);
  std::thread caller([&] { EXPECT_EQ(invoke(main, {ids.get(), mask.get()}, output), ITX_OK); });
  while (!mask.hasArrived())
    std::this_thread::yield();
  module.reset();
  EXPECT_EQ(refusal(main, {ids.get()}), "the module of the function is freed");
  mask.release();
  caller.join();
  EXPECT_TRUE(isRight(ids, output));
}

TEST_F(Misuse, CallsBeginWhileTheModuleIsFreed) {
  std::string path = writeSample(folder);
  TensorPointer ids = idsOf(1, 6);
  for (int round = 0; round < 20; ++round) {
    ModulePointer module = load(path);
    const itx_function *main = find(module, "main");
    std::atomic<bool> hasCalled{false};
    std::thread caller([&] {
      TensorPointer output;
      while (invoke(main, {ids.get()}, output) == ITX_OK) {
        EXPECT_TRUE(isRight(ids, output));
        hasCalled = true;
      }
      EXPECT_STREQ(itx_last_error(), "the module of the function is freed");
    });
    while (!hasCalled)
      std::this_thread::yield();
    module.reset();
    caller.join();
  }
}
