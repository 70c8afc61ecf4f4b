//===- PendingTest.cpp - Calls in the background ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Mixed.h"

#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {

class PendingCalls : public ModuleTest {
protected:
  static itx_pending *start(const itx_function *function, std::vector<itx_tensor *> inputs) {
    itx_pending *pending = nullptr;
    EXPECT_EQ(itx_invoke_start(function, inputs.data(), inputs.size(), &pending), ITX_OK) << itx_last_error();
    return pending;
  }

  static TensorPointer waitFor(itx_pending *pending) {
    itx_tensor *made = nullptr;
    EXPECT_EQ(itx_pending_wait(pending, &made, 1), ITX_OK) << itx_last_error();
    return TensorPointer(made);
  }

  /// Waits for at most 20 s until a condition holds.
  template <typename Condition> static bool eventually(Condition condition) {
    for (int i = 0; i < 20000 && !condition(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
  }
};

} // namespace

TEST_F(PendingCalls, ManyAtOnceEndInAnyOrder) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *main = find(module, "main");
  constexpr int calls = 12;
  std::vector<std::unique_ptr<HeldMask>> masks;
  std::vector<TensorPointer> ids;
  std::vector<itx_pending *> pending;
  for (int i = 0; i < calls; ++i) {
    masks.push_back(std::make_unique<HeldMask>(5 + i));
    ids.push_back(idsOf(1, 5 + i, i + 1));
    pending.push_back(start(main, {ids.back().get(), masks.back()->get()}));
  }
  for (const std::unique_ptr<HeldMask> &mask : masks)
    EXPECT_TRUE(eventually([&] { return mask->hasArrived(); })) << "each call has a thread";
  for (int i = calls; i-- > 0;) { // the last one started ends first
    EXPECT_EQ(itx_pending_done(pending[i]), 0);
    EXPECT_EQ(itx_pending_done_within(pending[i], 1000), 0);
    masks[i]->release();
    EXPECT_NE(itx_pending_done_within(pending[i], 20000000), 0);
    EXPECT_NE(itx_pending_done(pending[i]), 0);
  }
  for (int i = 0; i < calls; ++i)
    EXPECT_TRUE(isRight(ids[i], waitFor(pending[i]))) << i;
  EXPECT_NE(itx_pending_done_within(nullptr, UINT64_MAX), 0);
}

TEST_F(PendingCalls, GoOnWithoutTheirHandle) {
  ModulePointer module = load(writeSample(folder));
  HeldMask mask(5);
  std::vector<int64_t> values = {1, 2, 3, 4, 5};
  alignas(64) static int64_t memory[8];
  std::copy(values.begin(), values.end(), memory);
  std::atomic<bool> isReleased{false};
  auto release = [](void *context) { static_cast<std::atomic<bool> *>(context)->store(true); };
  int64_t shape[] = {1, 5};
  itx_tensor *ids = nullptr;
  ASSERT_EQ(itx_tensor_wrap(memory, ITX_I64, 2, shape, release, &isReleased, &ids), ITX_OK);
  itx_pending *pending = start(find(module, "main"), {ids, mask.get()});
  itx_tensor_free(ids);
  module.reset();
  EXPECT_TRUE(eventually([&] { return mask.hasArrived(); }));
  itx_pending_free(pending);
  EXPECT_FALSE(isReleased) << "the call still reads it";
  mask.release();
  EXPECT_TRUE(eventually([&] { return isReleased.load(); }));
  itx_pending_free(nullptr);
}

TEST_F(PendingCalls, GiveTheirErrorsToTheWait) {
  ModulePointer module = load(writeMixed(folder));
  const itx_function *main = find(module, "main");
  TensorPointer ids = tensorOf<int64_t>(ITX_I64, {3}, {1, 2, 3});
  itx_tensor *made = nullptr;
  {
    ScopedDelay delayed(1000);
    ScopedFault fault(Fault::OutOfMemory, 2);
    itx_pending *failing = start(main, {ids.get()});
    while (!itx_pending_done(failing))
      std::this_thread::yield();
    EXPECT_EQ(itx_pending_wait(failing, &made, 1), ITX_OUT_OF_MEMORY);
    EXPECT_THAT(itx_last_error(), HasSubstr("an injected fault"));
    EXPECT_EQ(made, nullptr);
  }
  {
    ScopedDelay delayed(1000);
    ScopedFault fault(Fault::DeviceLost, 7);
    std::vector<itx_pending *> pending;
    for (int i = 0; i < 8; ++i)
      pending.push_back(start(main, {ids.get()}));
    int lost = 0;
    for (itx_pending *one : pending) {
      itx_status status = itx_pending_wait(one, &made, 1);
      EXPECT_TRUE(status == ITX_OK || status == ITX_DEVICE_LOST) << itx_status_name(status);
      if (status == ITX_OK)
        itx_tensor_free(made);
      lost += status == ITX_DEVICE_LOST;
    }
    EXPECT_GE(lost, 6) << "a call is three pieces of work: at most two were done before the seventh";
  }
  EXPECT_NE(waitFor(start(main, {ids.get()})), nullptr) << "the device works again";
  itx_pending *pending = start(main, {ids.get()});
  itx_tensor *two[2] = {};
  EXPECT_EQ(itx_pending_wait(pending, two, 2), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("room for 2 outputs given, function 'main' has 1"));
}

TEST_F(PendingCalls, EndWhenTheirCallerCancels) {
  ModulePointer module = load(writeMixed(folder));
  const itx_function *main = find(module, "main");
  TensorPointer ids = tensorOf<int64_t>(ITX_I64, {3}, {1, 2, 3});
  itx_tensor *input = ids.get(), *made = nullptr;
  int asked = 0;
  itx_invoke_options options = {};
  options.struct_bytes = sizeof(options);
  options.cancelled_data = &asked;
  options.cancelled = [](void *data) -> int32_t { return ++*static_cast<int *>(data) == 2; };
  EXPECT_EQ(itx_invoke_with(main, &options, &input, 1, &made, 1), ITX_CANCELLED);
  EXPECT_THAT(itx_last_error(), HasSubstr("function 'main' was cancelled by its caller"));
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(asked, 2) << "nothing is asked of a call that has failed";
  EXPECT_STREQ(itx_status_name(ITX_CANCELLED), "cancelled");
  {
    ScopedDelay delayed(20000);
    itx_pending *pending = start(main, {input});
    itx_pending_cancel(pending);
    EXPECT_EQ(itx_pending_wait(pending, &made, 1), ITX_CANCELLED);
  }
  itx_pending *pending = start(main, {input});
  while (!itx_pending_done(pending))
    std::this_thread::yield();
  itx_pending_cancel(pending);
  EXPECT_NE(waitFor(pending), nullptr) << "it was done before";
  itx_pending_cancel(nullptr);
}

TEST_F(PendingCalls, KeepWhatTheyUse) {
  ModulePointer module = load(writeMixed(folder));
  ScopedDelay delayed(500);
  std::vector<itx_pending *> pending;
  std::vector<int64_t> values(50);
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t &value : values)
      value = (value + i) % 64;
    TensorPointer ids = tensorOf(ITX_I64, {50}, values);
    pending.push_back(start(find(module, "main"), {ids.get()}));
  }
  module.reset();
  for (size_t i = 0; i < pending.size(); ++i) {
    if (i % 2) {
      itx_pending_free(pending[i]);
      continue;
    }
    TensorPointer output = waitFor(pending[i]);
    int64_t id = int64_t(i * (i + 1) / 2) % 64;
    EXPECT_EQ(static_cast<float *>(itx_tensor_data(output.get()))[4 * 49 + 3], mixedResult(id, 3)) << i;
  }
}
