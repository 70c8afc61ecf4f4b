//===- DriverTest.cpp - What every driver must do --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conformance suite of Core/Driver.h, run against every driver of the build.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Driver.h"
#include "lib/Support/Json.h"

#include "gtest/gtest.h"
#include <cstring>
#include <set>
#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;

namespace {

class DriverConformance : public ::testing::TestWithParam<size_t> {
protected:
  Driver &driver() { return *drivers()[GetParam()]; }

  Status launch(const itx_kernel_entry &kernel, std::vector<void *> buffers, std::vector<int64_t> sizes,
                std::vector<itx_event> after, itx_event &event) {
    Launch launch;
    launch.kernel = &kernel;
    launch.name = "kernel";
    launch.buffers = buffers.data();
    launch.sizes = sizes.data();
    launch.shared = &shared;
    Status status = driver().dispatch(0, launch, after.data(), uint32_t(after.size()), event);
    // Arguments live until the event here, as they do in a host function.
    return status.ok() ? driver().wait(event) : status;
  }

  ScratchBuffer shared;
};

// Every kernel has sizes[0] tiles (before any finishing ones).
void tilesPlan(const int64_t *sizes, int64_t threads, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0];
  plan[ITX_PLAN_PRIVATE] = threads;
}
void count(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *) {
  auto *counts = static_cast<int32_t *>(arguments->buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    __atomic_add_fetch(&counts[i], 1, __ATOMIC_RELAXED);
}
constexpr itx_kernel_entry countKernel = {tilesPlan, count};

void scratchPlan(const int64_t *sizes, int64_t, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0];
  plan[ITX_PLAN_WORKSPACE_BYTES] = sizes[1];
  plan[ITX_PLAN_SHARED_BYTES] = 64;
  plan[ITX_PLAN_ZEROED_BYTES] = 16;
}
/// Fills the workspace with the tile's number, checks that no other tile wrote to it, and counts in shared memory. The
/// last tile writes the count, or -1 after an error.
void scratch(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *workspace) {
  auto *result = static_cast<int64_t *>(arguments->buffers[0]);
  auto *done = static_cast<int64_t *>(arguments->shared), *bad = done + 1;
  int64_t bytes = arguments->sizes[1];
  for (int64_t i = begin; i < end; ++i) {
    std::memset(workspace, int(i & 127), bytes);
    bool good = reinterpret_cast<uintptr_t>(workspace) % ITX_BUFFER_ALIGNMENT == 0 &&
                reinterpret_cast<uintptr_t>(arguments->shared) % ITX_BUFFER_ALIGNMENT == 0;
    for (int64_t b = 0; b < bytes; ++b)
      good = good && static_cast<char *>(workspace)[b] == char(i & 127);
    if (!good)
      __atomic_store_n(bad, 1, __ATOMIC_RELEASE);
    if (__atomic_add_fetch(done, 1, __ATOMIC_ACQ_REL) == arguments->sizes[0])
      *result = __atomic_load_n(bad, __ATOMIC_ACQUIRE) ? -1 : arguments->sizes[0];
  }
}
constexpr itx_kernel_entry scratchKernel = {scratchPlan, scratch};

void finishPlan(const int64_t *sizes, int64_t, int64_t *plan) {
  plan[ITX_PLAN_TILES] = sizes[0];
  plan[ITX_PLAN_FINISH_TILES] = sizes[1];
  plan[ITX_PLAN_SHARED_BYTES] = 64;
  plan[ITX_PLAN_ZEROED_BYTES] = 8;
}
/// Counts tiles in shared memory; a finishing tile writes 1 to its place if it finds all others done, else -1.
void finish(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *) {
  auto *result = static_cast<int64_t *>(arguments->buffers[0]), *done = static_cast<int64_t *>(arguments->shared);
  int64_t tiles = arguments->sizes[0];
  bool mixed = begin < tiles && end > tiles;
  for (int64_t i = begin; i < end; ++i)
    if (i < tiles)
      __atomic_add_fetch(done, 1, __ATOMIC_RELAXED);
    else
      result[i - tiles] = !mixed && __atomic_load_n(done, __ATOMIC_RELAXED) == tiles ? 1 : -1;
}
constexpr itx_kernel_entry finishKernel = {finishPlan, finish};
void negativeFinishPlan(const int64_t *, int64_t, int64_t *plan) { plan[ITX_PLAN_FINISH_TILES] = -1; }

void addPlan(const int64_t *sizes, int64_t, int64_t *plan) { plan[ITX_PLAN_TILES] = sizes[0]; }
void addOne(const itx_kernel_arguments *arguments, int64_t begin, int64_t end, void *) {
  auto *in = static_cast<const int64_t *>(arguments->buffers[0]);
  auto *out = static_cast<int64_t *>(arguments->buffers[1]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = in[i] + 1;
}
constexpr itx_kernel_entry addKernel = {addPlan, addOne};

void zeroesBeyondPlan(const int64_t *, int64_t, int64_t *plan) {
  plan[ITX_PLAN_SHARED_BYTES] = 64;
  plan[ITX_PLAN_ZEROED_BYTES] = 128;
}

void negativePlan(const int64_t *, int64_t, int64_t *plan) { plan[ITX_PLAN_WORKSPACE_BYTES] = -1; }
void greedyPlan(const int64_t *, int64_t, int64_t *plan) {
  plan[ITX_PLAN_TILES] = 4;
  plan[ITX_PLAN_WORKSPACE_BYTES] = int64_t(1) << 60;
}
void nothingToRun(const itx_kernel_arguments *, int64_t, int64_t, void *) {}

} // namespace

TEST_P(DriverConformance, DescribesItself) {
  EXPECT_STRNE(driver().name(), "");
  Json json;
  Status status = parseJson(driver().info(), "info", json);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(json["name"], driver().name());
  for (const char *key : {"description", "threads", "features", "memory_bytes"})
    EXPECT_TRUE(json.contains(key)) << key;
}

TEST_P(DriverConformance, AllocatesAlignedMemory) {
  std::set<void *> all;
  for (uint64_t bytes : {0, 1, 63, 64, 65, 4096, 1 << 20, (2 << 20) + 1}) {
    void *data = driver().allocate(bytes);
    ASSERT_NE(data, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % ITX_BUFFER_ALIGNMENT, 0u) << bytes;
    EXPECT_TRUE(all.insert(data).second) << "two live buffers at one address";
  }
  for (void *data : all)
    driver().release(data);
  driver().release(nullptr);
}

TEST_P(DriverConformance, LackOfMemoryIsNull) { EXPECT_EQ(driver().allocate(uint64_t(1) << 62), nullptr); }

TEST_P(DriverConformance, RunsEveryTileOnce) {
  for (int64_t tiles : {0, 1, 2, 5, 1000}) {
    auto *counts = static_cast<int32_t *>(driver().allocate(4 * tiles));
    std::memset(counts, 0, 4 * tiles);
    itx_event event = 0;
    Status status = launch(countKernel, {counts}, {tiles}, {}, event);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < tiles; ++i)
      EXPECT_EQ(counts[i], 1) << i;
    driver().release(counts);
  }
}

TEST_P(DriverConformance, WorkspaceIsPrivateAndSharedStartsAtZero) {
  auto *result = static_cast<int64_t *>(driver().allocate(8));
  for (int64_t bytes : {1, 64, 1000, 100000, 1})
    for (int64_t tiles : {1, 7, 40}) {
      *result = 0;
      itx_event event = 0;
      Status status = launch(scratchKernel, {result}, {tiles, bytes}, {}, event);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(*result, tiles) << bytes;
    }
  driver().release(result);
}

TEST_P(DriverConformance, FinishingTilesRunWhenAllOthersAreDone) {
  auto *result = static_cast<int64_t *>(driver().allocate(8 * 64));
  for (int64_t tiles : {0, 1, 2, 7, 1000})
    for (int64_t finishing : {0, 1, 2, 64}) {
      std::memset(result, 0, 8 * 64);
      itx_event event = 0;
      Status status = launch(finishKernel, {result}, {tiles, finishing}, {}, event);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int64_t i = 0; i < 64; ++i)
        EXPECT_EQ(result[i], i < finishing) << tiles << " tiles, finishing tile " << i << " of " << finishing;
    }
  driver().release(result);
}

TEST_P(DriverConformance, EventsOrderLaunchesAndCopies) {
  constexpr int64_t n = 1000;
  auto *a = static_cast<int64_t *>(driver().allocate(8 * n)), *b = static_cast<int64_t *>(driver().allocate(8 * n));
  std::memset(a, 0, 8 * n);
  for (int round = 0; round < 20; ++round) {
    itx_event first = 0, second = 0;
    ASSERT_TRUE(launch(addKernel, {a, b}, {n}, {second}, first).ok());
    ASSERT_TRUE(driver().copy(0, a, b, 8 * n, &first, 1, second).ok());
    ASSERT_TRUE(driver().wait(second).ok());
  }
  for (int64_t i = 0; i < n; ++i)
    EXPECT_EQ(a[i], 20);
  itx_event event = 0;
  EXPECT_TRUE(driver().copy(0, a, b, 0, nullptr, 0, event).ok());
  driver().release(a);
  driver().release(b);
}

TEST_P(DriverConformance, EventZeroHasHappened) { EXPECT_TRUE(driver().wait(0).ok()); }

TEST_P(DriverConformance, BadPlansAreErrors) {
  itx_kernel_entry negative = {negativePlan, nothingToRun}, greedy = {greedyPlan, nothingToRun};
  itx_kernel_entry negativeFinish = {negativeFinishPlan, nothingToRun};
  itx_kernel_entry zeroesBeyond = {zeroesBeyondPlan, nothingToRun};
  itx_event event = 0;
  EXPECT_EQ(launch(negative, {}, {1}, {}, event).code(), ITX_INVALID_ARGUMENT) << "a size that does not fit";
  EXPECT_EQ(launch(negativeFinish, {}, {1}, {}, event).code(), ITX_INTERNAL);
  EXPECT_EQ(launch(zeroesBeyond, {}, {1}, {}, event).code(), ITX_INTERNAL);
  EXPECT_EQ(launch(greedy, {}, {1}, {}, event).code(), ITX_OUT_OF_MEMORY);
  EXPECT_TRUE(launch(countKernel, {nullptr}, {0}, {}, event).ok()) << "an error must not stay";
}

TEST_P(DriverConformance, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      ScratchBuffer shared;
      auto *result = static_cast<int64_t *>(driver().allocate(8));
      for (int round = 0; round < 100; ++round) {
        void *buffers[] = {result};
        int64_t sizes[] = {1 + round % 13, 500};
        Launch launch;
        launch.kernel = &scratchKernel;
        launch.buffers = buffers;
        launch.sizes = sizes;
        launch.shared = &shared;
        itx_event event = 0;
        bool good = driver().dispatch(uint32_t(round), launch, nullptr, 0, event).ok() && driver().wait(event).ok();
        failures += !good || *result != sizes[0];
      }
      driver().release(result);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverConformance, ::testing::Range(size_t(0), drivers().size()),
                         [](const ::testing::TestParamInfo<size_t> &info) {
                           return std::string(drivers()[info.param]->name());
                         });
