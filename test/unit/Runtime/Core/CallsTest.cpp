//===- CallsTest.cpp - Calls: inputs, results, threads, forks, profiles ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Modules.h"

#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Call.h"
#include "lib/Support/Json.h"

#include <limits>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {
class Calls : public ModuleTest {};
} // namespace

TEST_F(Calls, CallsAtAnySize) {
  ModulePointer module = load(writeSample(folder));
  for (int64_t batch : {1, 3})
    for (int64_t sequence : {1, 2, 17, 512}) {
      TensorPointer ids = idsOf(batch, sequence), output;
      ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
      EXPECT_TRUE(isRight(ids, output));
      ASSERT_EQ(itx_tensor_rank(output.get()), 3u);
      EXPECT_EQ(itx_tensor_shape(output.get())[1], sequence);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(itx_tensor_data(output.get())) % 64, 0u);
    }
}

/// Finds the first value outside of [low, high) one by one.
template <typename T> static int64_t firstOneOutside(const std::vector<T> &values, int64_t low, int64_t high) {
  for (size_t i = 0; i != values.size(); ++i)
    if (int64_t(values[i]) < low || int64_t(values[i]) >= high)
      return int64_t(i);
  return -1;
}

template <typename T> static void testRangesOf(itx_dtype dtype) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> limits{least, -129, -128, -1, 0, 1, 2, 127, 128, 255, 256, most - 1, most};
  for (int64_t low : limits)
    for (int64_t high : limits)
      for (int64_t value : limits) {
        // The value in question is not the first one of its block.
        std::vector<T> values(1500, T(std::max<int64_t>(low, 0)));
        values[1200] = T(value);
        int64_t found = 0, index = runtime::findOutside(dtype, values.data(), int64_t(values.size()), low, high, found);
        ASSERT_EQ(index, firstOneOutside(values, low, high)) << low << " " << high << " " << value;
        if (index >= 0)
          ASSERT_EQ(found, int64_t(values[index]));
      }
}

TEST(Ranges, OfAllIntegers) {
  testRangesOf<int64_t>(ITX_I64);
  testRangesOf<int32_t>(ITX_I32);
  testRangesOf<int16_t>(ITX_I16);
  testRangesOf<int8_t>(ITX_I8);
  testRangesOf<uint8_t>(ITX_U8);
}

TEST_F(Calls, SizesThatTheModuleChecks) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *total = find(module, "total");
  TensorPointer many = idsOf(9, 512), one = idsOf(1, 1);
  EXPECT_THAT(refusal(total, {many.get()}),
              HasSubstr("batch * sequence is 4608, must be at most 4096: 'sum' needs it"));
  EXPECT_THAT(refusal(total, {one.get()}), HasSubstr("batch * sequence is 1, must be at least 2"));
  ModulePointer equal = load(writeSample(folder, replaced(filledManifest(), "\"at_most\"", "\"equal\"")));
  TensorPointer two = idsOf(2, 3);
  EXPECT_THAT(refusal(find(equal, "total"), {two.get()}), HasSubstr("batch * sequence is 6, must be 4096: 'sum'"));
}

TEST_F(Calls, WorkspaceCopyAndSharedScratch) {
  ModulePointer module = load(writeSample(folder));
  for (int round = 0; round < 20; ++round) {
    int64_t sequence = 1 + round * 25 % 500;
    TensorPointer ids = idsOf(3, sequence, 3 + round), output;
    ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK) << itx_last_error();
    ASSERT_EQ(itx_tensor_elements(output.get()), 3);
    for (int64_t b = 0; b < 3; ++b) {
      float sum = 0; // exact: small multiples of 1/2
      for (int64_t s = 0; s < sequence; ++s)
        for (int64_t k = 0; k < 4; ++k)
          sum += expected(ids, b * sequence + s, k);
      EXPECT_EQ(static_cast<float *>(itx_tensor_data(output.get()))[b], sum);
    }
  }
}

TEST_F(Calls, GivenInputsReplaceDefaults) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(1, 4), output;
  TensorPointer mask = tensorOf<int64_t>(ITX_I64, {1, 4}, {1, 0, 1, 0});
  TensorPointer scale = tensorOf<float>(ITX_F32, {4}, {1, 10, 100, 1000});
  ASSERT_EQ(invoke(find(module, "main"), {ids.get(), mask.get(), scale.get()}, output), ITX_OK) << itx_last_error();
  const auto *values = static_cast<float *>(itx_tensor_data(output.get()));
  EXPECT_EQ(values[1 * 4 + 3], 0);
  EXPECT_EQ(values[2 * 4 + 3], (14 + 0.75f) * 1000);
}

/// Inputs are read where they lie, as NumPy places them at multiples of 16 bytes, unless elements are not aligned.
TEST_F(Calls, InputsOutsideOfCacheLines) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(2, 9), output;
  std::vector<char> memory(2 * 9 * 8 + 128);
  char *line = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  int64_t shape[] = {2, 9};
  for (int offset : {0, 8, 16, 4, 1}) {
    char *data = line + offset;
    std::memcpy(data, itx_tensor_data(ids.get()), 2 * 9 * 8);
    int released = 0;
    auto release = [](void *count) { ++*static_cast<int *>(count); };
    itx_tensor *wrapped = nullptr;
    ASSERT_EQ(itx_tensor_wrap(data, ITX_I64, 2, shape, release, &released, &wrapped), ITX_OK);
    EXPECT_EQ(itx_tensor_data(wrapped), data);
    ASSERT_EQ(invoke(find(module, "main"), {wrapped}, output), ITX_OK) << itx_last_error();
    EXPECT_TRUE(isRight(ids, output)) << offset;

    std::shared_ptr<runtime::Module> loaded = runtime::moduleOf(module.get());
    std::unique_ptr<itx_call> call = loaded->takeCall();
    ASSERT_TRUE(runtime::prepareCall(*loaded, 0, &wrapped, 1, *call).ok());
    EXPECT_EQ(call->inputs[0] == data, offset % 8 == 0) << offset;
    loaded->giveCall(std::move(call));

    EXPECT_EQ(released, 0);
    itx_tensor_free(wrapped);
    EXPECT_EQ(released, 1);
  }
}

TEST_F(Calls, WrongInputs) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *main = find(module, "main");
  TensorPointer ids = idsOf(2, 8), scale = tensorOf<float>(ITX_F32, {4}, {1, 1, 1, 1});
  itx_tensor *good = ids.get();

  EXPECT_THAT(refusal(main, {}), HasSubstr("input 'ids' of function 'main' is missing"));
  EXPECT_THAT(refusal(main, {good, nullptr, nullptr, good}), AllOf(HasSubstr("4 inputs"), HasSubstr("takes 3")));
  EXPECT_THAT(refusal(main, {scale.get()}), AllOf(HasSubstr("'ids' is f32"), HasSubstr("takes i64")));
  TensorPointer flat = tensorOf<int64_t>(ITX_I64, {3}, {1, 2, 3});
  EXPECT_THAT(refusal(main, {flat.get()}),
              AllOf(HasSubstr("rank 1"), HasSubstr("rank 2"), HasSubstr("[batch, sequence]")));
  TensorPointer five = tensorOf<float>(ITX_F32, {5}, {1, 1, 1, 1, 1});
  EXPECT_THAT(refusal(main, {good, nullptr, five.get()}), AllOf(HasSubstr("'scale' is [5]"), HasSubstr("must be 4")));
  TensorPointer tooLong = idsOf(1, 600);
  EXPECT_THAT(refusal(main, {tooLong.get()}), HasSubstr("sequence is 600, the model's maximum is 512"));
  TensorPointer mask = idsOf(2, 7);
  EXPECT_THAT(refusal(main, {good, mask.get()}),
              AllOf(HasSubstr("sequence is 8 in input 'ids'"), HasSubstr("7 in input 'mask'")));
  TensorPointer empty = tensorOf<int64_t>(ITX_I64, {0, 4}, {});
  EXPECT_THAT(refusal(main, {empty.get()}), HasSubstr("batch is 0"));

  TensorPointer high = idsOf(2, 8), low = idsOf(2, 8);
  static_cast<int64_t *>(itx_tensor_data(high.get()))[11] = 100;
  EXPECT_THAT(refusal(main, {high.get()}), AllOf(HasSubstr("'ids' is 100 at [1, 3]"), HasSubstr("[0, 100)")));
  static_cast<int64_t *>(itx_tensor_data(low.get()))[0] = -1;
  EXPECT_THAT(refusal(main, {low.get()}), HasSubstr("'ids' is -1 at [0, 0]"));

  itx_tensor *outputs[2] = {};
  EXPECT_EQ(itx_invoke(main, &good, 1, outputs, 2), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("2 outputs"));
  EXPECT_EQ(itx_invoke(nullptr, &good, 1, outputs, 1), ITX_INVALID_ARGUMENT);
}

TEST_F(Calls, ErrorsBelongToTheirThread) {
  loadFailure("/does/not/exist.itx", ITX_NOT_FOUND);
  std::thread([] { EXPECT_STREQ(itx_last_error(), ""); }).join();
  EXPECT_THAT(itx_last_error(), HasSubstr("exist.itx"));
}

TEST_F(Calls, AsynchronousCalls) {
  ModulePointer module = load(writeSample(folder));
  std::vector<TensorPointer> all;
  std::vector<itx_pending *> pending;
  for (int64_t i = 0; i < 20; ++i) {
    all.push_back(idsOf(1 + i % 3, 40 + i));
    itx_tensor *inputs[] = {all.back().get()};
    pending.push_back(nullptr);
    ASSERT_EQ(itx_invoke_start(find(module, "main"), inputs, 1, &pending.back()), ITX_OK) << itx_last_error();
  }
  module.reset(); // calls in flight keep it
  for (size_t i = 0; i < pending.size(); ++i) {
    itx_tensor *made = nullptr;
    ASSERT_EQ(itx_pending_wait(pending[i], &made, 1), ITX_OK) << itx_last_error();
    TensorPointer output(made);
    EXPECT_TRUE(isRight(all[i], output));
  }
}

TEST_F(Calls, AsynchronousErrorsAndDrops) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer tooLong = idsOf(1, 600), good = idsOf(1, 6);
  itx_tensor *inputs[] = {tooLong.get()};
  itx_pending *pending = nullptr;
  EXPECT_EQ(itx_invoke_start(find(module, "main"), inputs, 1, &pending), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(pending, nullptr);
  inputs[0] = good.get();
  ASSERT_EQ(itx_invoke_start(find(module, "main"), inputs, 1, &pending), ITX_OK);
  good.reset(); // the call holds the memory
  while (!itx_pending_done(pending))
    std::this_thread::yield();
  EXPECT_EQ(itx_pending_wait(pending, nullptr, 0), ITX_OK);
}

TEST_F(Calls, ModuleIsFreedWhileOneComputes) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(1, 6), output;
  HeldMask mask(6);
  const itx_function *function = find(module, "main");
  itx_status status = ITX_INTERNAL;
  std::thread caller([&] { status = invoke(function, {ids.get(), mask.get()}, output); });
  while (!mask.hasArrived())
    std::this_thread::yield();
  module.reset();
  mask.release();
  caller.join();
  ASSERT_EQ(status, ITX_OK);
  EXPECT_TRUE(isRight(ids, output));
}

TEST_F(Calls, NullArgumentsAreNamed) {
  ModulePointer module = load(writeSample(folder));
  EXPECT_EQ(itx_invoke(nullptr, nullptr, 0, nullptr, 0), ITX_INVALID_ARGUMENT);
  EXPECT_STREQ(itx_last_error(), "the argument 'function' is null");
  TensorPointer ids = idsOf(1, 6);
  itx_tensor *inputs[] = {ids.get()};
  EXPECT_EQ(itx_invoke(find(module, "main"), inputs, 1, nullptr, 1), ITX_INVALID_ARGUMENT);
  EXPECT_STREQ(itx_last_error(), "the argument 'outputs' is null");
}

TEST_F(Calls, SeveralThreadsAndModules) {
  std::string path = writeSample(folder);
  ModulePointer first = load(path), second = load(path);
  itx_set_threads(3);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const itx_function *function = find(t % 2 ? first : second, "main");
      for (int round = 0; round < 50; ++round) {
        TensorPointer ids = idsOf(1 + t, 1 + round * 7 % 100), output;
        failures += invoke(function, {ids.get()}, output) != ITX_OK || !isRight(ids, output);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  itx_set_threads(0);
  EXPECT_EQ(failures.load(), 0);
}

TEST_F(Calls, ForkWhileCallsRun) {
  ModulePointer module = load(writeSample(folder));
  itx_set_threads(3);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    TensorPointer ids = idsOf(4, 300), output;
    while (!stop)
      invoke(find(module, "main"), {ids.get()}, output);
  });
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      TensorPointer ids = idsOf(2, 50), output;
      bool good = invoke(find(module, "main"), {ids.get()}, output) == ITX_OK && isRight(ids, output);
      itx_tensor *inputs[] = {ids.get()}, *made = nullptr;
      itx_pending *pending = nullptr;
      good = good && itx_invoke_start(find(module, "main"), inputs, 1, &pending) == ITX_OK &&
             itx_pending_wait(pending, &made, 1) == ITX_OK;
      TensorPointer again(made);
      _exit(good && isRight(ids, again) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  busy.join();
  itx_set_threads(0);
}

namespace {
/// Returns the outcome in a child of a call that its parent started: 0 refused, 1 right results, 2 anything else.
int waitInChild(itx_pending *pending, const TensorPointer &ids) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20); // ends a child that hangs
    itx_tensor *made = nullptr;
    bool done = itx_pending_done(pending) != 0;
    itx_status status = itx_pending_wait(pending, &made, 1);
    TensorPointer output(made);
    bool refused = status == ITX_INVALID_ARGUMENT && !made && strstr(itx_last_error(), "before the fork");
    _exit(!done ? 2 : refused ? 0 : status == ITX_OK && isRight(ids, output) ? 1 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
} // namespace

TEST_F(Calls, ChildOfAForkDoesNotWaitForItsParentsCall) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(1, 6);
  HeldMask mask(6);
  itx_tensor *inputs[] = {ids.get(), mask.get()}, *made = nullptr;
  itx_pending *pending = nullptr;
  ASSERT_EQ(itx_invoke_start(find(module, "main"), inputs, 2, &pending), ITX_OK) << itx_last_error();
  while (!mask.hasArrived())
    std::this_thread::yield();
  EXPECT_EQ(itx_pending_done(pending), 0);
  EXPECT_EQ(waitInChild(pending, ids), 0);
  mask.release();
  while (!itx_pending_done(pending))
    std::this_thread::yield();
  EXPECT_EQ(waitInChild(pending, ids), 1) << "what was done before the fork is the child's too";
  ASSERT_EQ(itx_pending_wait(pending, &made, 1), ITX_OK) << itx_last_error();
  TensorPointer output(made);
  EXPECT_TRUE(isRight(ids, output));
}

TEST_F(Calls, ThreadCount) {
  EXPECT_EQ(itx_set_threads(2), ITX_OK);
  EXPECT_EQ(itx_threads(), 2);
  EXPECT_EQ(itx_set_threads(-1), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_set_threads(0), ITX_OK);
  EXPECT_GE(itx_threads(), 1);
}

TEST_F(Calls, BadThreadVariablesAreErrors) {
  std::string path = writeSample(folder);
  for (const char *value : {"abc", "0", "-4", "2x", "1025", "99999999999999999999"}) {
    ScopedVariable threads("ITX_THREADS", value);
    EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT),
                AllOf(HasSubstr("ITX_THREADS"), HasSubstr(std::string("'") + value + "'"), HasSubstr("1 to 1024")));
    EXPECT_EQ(itx_set_threads(0), ITX_INVALID_ARGUMENT);
    EXPECT_EQ(itx_set_threads(2), ITX_OK);
  }
  {
    ScopedVariable spin("ITX_SPIN_US", "long");
    EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT), AllOf(HasSubstr("ITX_SPIN_US"), HasSubstr("'long'")));
  }
  ScopedVariable empty("ITX_THREADS", "");
  EXPECT_NE(load(path), nullptr) << "empty is as good as not set";
  EXPECT_EQ(itx_set_threads(0), ITX_OK);
}

TEST_F(Calls, SteadyStateReusesMemory) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(8, 512), output;
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);
  void *before = itx_tensor_data(output.get());
  output.reset();
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);
  EXPECT_EQ(itx_tensor_data(output.get()), before);
}

TEST_F(Calls, ProfileIsChromeTraceJson) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(2, 100), output;
  EXPECT_EQ(itx_profile_stop(nullptr), ITX_INVALID_ARGUMENT);
  ASSERT_EQ(itx_profile_start(), ITX_OK);
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);
  ASSERT_EQ(itx_profile_stop((folder / "t.json").c_str()), ITX_OK) << itx_last_error();
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);

  Json json;
  Status status = parseJson(readFile(folder / "t.json"), "t.json", json);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<std::string> names;
  for (const Json &event : json["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    names.push_back(event["name"]);
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_GE(event["ts"].get<double>(), 0);
    if (event["name"] == "rows_kernel") {
      EXPECT_EQ(event["args"]["label"], "layer.rows");
      EXPECT_EQ(event["args"]["tiles"], 200);
      EXPECT_EQ(event["args"]["threads"], itx_threads());
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"rows_kernel", "copy", "total_kernel", "total"}));
}
