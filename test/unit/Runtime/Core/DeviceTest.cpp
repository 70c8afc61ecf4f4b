//===- DeviceTest.cpp - What every device must do --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conformance suite of Core/Device.h, run against every device of the build. Kernels here are functions of the
// host, so those tests run with devices that use its memory.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/GPU/GpuDevice.h"
#include "lib/Support/Json.h"
#include "test/unit/Runtime/GPU/FakeDriver.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;
using ::testing::HasSubstr;

namespace {

using Values = std::vector<int64_t>;

/// Returns a GPU whose driver runs on this machine: what it does is what every GPU's does but for the driver's calls.
GpuDevice &fakeGpu() {
  static auto *driver = new intarsia::testing::FakeDriver({.delayMicroseconds = 100});
  static GpuDevice *device = [] {
    GpuProperties properties;
    EXPECT_TRUE(driver->readProperties(0, properties).ok());
    return new GpuDevice(*driver, 0, properties); // as long as the process, like those of the machine
  }();
  return *device;
}

/// The devices of the machine, one that a program makes, and a GPU of a driver for tests.
const std::vector<Device *> &allDevices() {
  static std::shared_ptr<Device> made;
  static const std::vector<Device *> all = [] {
    std::vector<Device *> result = devices();
    Status status = makeDevice("cpu", {.threads = 2, .processors = {}}, made);
    EXPECT_TRUE(status.ok()) << status.message();
    result.push_back(made.get());
    result.push_back(&fakeGpu());
    return result;
  }();
  return all;
}

class DeviceConformance : public ::testing::TestWithParam<size_t> {
protected:
  Device &device() { return *allDevices()[GetParam()]; }

  Buffer make(uint64_t bytes) {
    Buffer buffer;
    Status status = Buffer::make(device(), bytes, buffer);
    EXPECT_TRUE(status.ok()) << status.message();
    return buffer;
  }

  /// Copies values to a device's memory.
  void upload(void *to, const Values &from) {
    itx_event event = 0;
    Status status =
        device().copy(0, to, MemoryKind::Device, from.data(), MemoryKind::Host, 8 * from.size(), nullptr, 0, event);
    ASSERT_TRUE(status.ok()) << status.message();
    status = device().wait(event);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  /// Returns values from a device's memory, after an event.
  Values download(const void *from, size_t count, itx_event after = 0) {
    Values result(count, -1);
    itx_event event = 0;
    Status status =
        device().copy(1, result.data(), MemoryKind::Host, from, MemoryKind::Device, 8 * count, &after, 1, event);
    EXPECT_TRUE(status.ok()) << status.message();
    status = device().wait(event);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }
};

/// Devices that run functions of the host.
class HostKernels : public DeviceConformance {
protected:
  Status launch(const itx_kernel_entry &kernel, std::vector<void *> buffers, std::vector<int64_t> sizes,
                std::vector<itx_event> after, itx_event &event) {
    Launch launch;
    launch.entry = &kernel;
    launch.name = "kernel";
    launch.buffers = buffers.data();
    launch.bufferCount = uint32_t(buffers.size());
    launch.sizes = sizes.data();
    launch.sizeCount = uint32_t(sizes.size());
    launch.shared = &shared;
    Status status = device().dispatch(0, launch, after.data(), uint32_t(after.size()), event);
    // Arguments live until the event here, as they do in a host function.
    return status.ok() ? device().wait(event) : status;
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
/// Counts tiles in shared memory; a finishing tile writes 1 to its slot if it finds all others done, else -1.
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

// ---- All devices ------------------------------------------------------------------------------------------

TEST_P(DeviceConformance, DescribesItself) {
  std::string kind = device().kind(), name = device().name();
  EXPECT_NE(kind, "");
  EXPECT_EQ(name.substr(0, kind.size()), kind);
  for (Device *other : allDevices())
    EXPECT_EQ(other->name() == name, other == &device()) << "two devices of one name";
  Json json;
  Status status = parseJson(device().info(), "info", json);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(json["name"], name);
  for (const char *key : {"description", "threads", "features", "memory_bytes"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_GE(device().queueCount(), 1u);
  EXPECT_TRUE(device().checkEnvironment().ok());
  EXPECT_FALSE(device().supports("pdp11-unknown-none"));
}

TEST_P(DeviceConformance, AllocatesAlignedMemory) {
  std::set<void *> all;
  for (uint64_t bytes : {0, 1, 63, 64, 65, 4096, 1 << 20, (2 << 20) + 1}) {
    void *data = nullptr;
    Status status = device().allocate(bytes, data);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_NE(data, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % ITX_BUFFER_ALIGNMENT, 0u) << bytes;
    EXPECT_TRUE(all.insert(data).second) << "two live buffers at one address";
  }
  for (void *data : all)
    device().release(data);
  device().release(nullptr);
}

TEST_P(DeviceConformance, LackOfMemoryIsAnError) {
  void *data = nullptr;
  Status status = device().allocate(uint64_t(1) << 62, data);
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_EQ(data, nullptr);
  EXPECT_THAT(status.message(), HasSubstr("4611686018427387904"));
  Buffer buffer = make(64);
  EXPECT_EQ(buffer.reserve(device(), uint64_t(1) << 62).code(), ITX_OUT_OF_MEMORY);
  EXPECT_EQ(buffer.address(), nullptr);
  EXPECT_TRUE(buffer.reserve(device(), 64).ok()) << "an error must not stay";
}

TEST_P(DeviceConformance, BuffersKeepTheirMemory) {
  Buffer buffer = make(1000);
  void *address = buffer.address();
  EXPECT_TRUE(buffer.reserve(device(), 500).ok());
  EXPECT_EQ(buffer.address(), address);
  EXPECT_TRUE(buffer.reserve(device(), 1 << 20).ok());
  EXPECT_EQ(buffer.bytes(), uint64_t(1) << 20);
  Buffer other = std::move(buffer);
  EXPECT_EQ(other.device(), &device());
  EXPECT_EQ(buffer.address(), nullptr);
  EXPECT_NE(other.address(), nullptr);
}

TEST_P(DeviceConformance, CopiesAndFills) {
  constexpr int64_t n = 1000;
  Values values(n);
  for (int64_t i = 0; i < n; ++i)
    values[i] = i * i;
  Buffer a = make(8 * n), b = make(8 * n);
  upload(a.address(), values);
  EXPECT_EQ(download(a.address(), n), values);
  itx_event filled = 0, copied = 0;
  ASSERT_TRUE(device().fill(0, b.address(), 0xff, 8 * n, nullptr, 0, filled).ok());
  // Addresses can be computed with.
  auto *from = static_cast<uint8_t *>(a.address()) + 8 * 10;
  auto *to = static_cast<uint8_t *>(b.address()) + 8 * 100;
  ASSERT_TRUE(device().copy(1, to, MemoryKind::Device, from, MemoryKind::Device, 8 * 5, &filled, 1, copied).ok());
  Values expected(n, -1);
  std::copy_n(values.begin() + 10, 5, expected.begin() + 100);
  EXPECT_EQ(download(b.address(), n, copied), expected);
  EXPECT_EQ(download(a.address(), n), values);
}

TEST_P(DeviceConformance, NothingIsCopiedOrFilled) {
  Buffer a = make(64);
  upload(a.address(), {7});
  itx_event copied = 0, filled = 0;
  EXPECT_TRUE(device().copy(0, a.address(), MemoryKind::Device, nullptr, MemoryKind::Host, 0, nullptr, 0, copied).ok());
  EXPECT_TRUE(device().fill(0, a.address(), 1, 0, &copied, 1, filled).ok());
  EXPECT_TRUE(device().wait(filled).ok());
  EXPECT_EQ(download(a.address(), 1), Values{7});
}

TEST_P(DeviceConformance, EventsOrderWork) {
  // Each round depends on the one before, on whichever queue that was.
  constexpr int64_t n = 500;
  Buffer a = make(8 * n), b = make(8 * n);
  itx_event last = 0;
  for (uint32_t round = 0; round < 20; ++round) {
    itx_event zero = 0, filled = 0, first = 0;
    itx_event after[] = {zero, last, last};
    ASSERT_TRUE(device().fill(round, a.address(), uint8_t(round), 8 * n, after, 3, filled).ok());
    ASSERT_TRUE(
        device()
            .copy(round + 1, b.address(), MemoryKind::Device, a.address(), MemoryKind::Device, 8 * n, &filled, 1, first)
            .ok());
    last = first;
  }
  EXPECT_EQ(download(b.address(), n, last), Values(n, 0x1313131313131313));
}

TEST_P(DeviceConformance, EventsCanBeWaitedForAgain) {
  EXPECT_TRUE(device().wait(0).ok()) << "has happened";
  Buffer a = make(1 << 16);
  itx_event first = 0, second = 0;
  ASSERT_TRUE(device().fill(0, a.address(), 1, 1 << 16, nullptr, 0, first).ok());
  ASSERT_TRUE(device().fill(0, a.address(), 2, 1 << 16, &first, 1, second).ok());
  EXPECT_LT(second, itx_event(1) << 56);
  for (itx_event event : {second, first, second, first})
    EXPECT_TRUE(device().wait(event).ok());
}

TEST_P(DeviceConformance, CopiesFromSeveralThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Buffer buffer;
      bool good = Buffer::make(device(), 8 * 100, buffer).ok();
      for (int64_t round = 0; good && round < 50; ++round) {
        Values values(100, t * 1000 + round), back(100);
        itx_event to = 0, from = 0;
        good = device()
                   .copy(uint32_t(round), buffer.address(), MemoryKind::Device, values.data(), MemoryKind::Host, 800,
                         nullptr, 0, to)
                   .ok() &&
               device()
                   .copy(uint32_t(t), back.data(), MemoryKind::Host, buffer.address(), MemoryKind::Device, 800, &to, 1,
                         from)
                   .ok() &&
               device().wait(from).ok() && back == values;
      }
      failures += !good;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures.load(), 0);
}

// ---- Devices that run functions of the host ---------------------------------------------------------------

TEST_P(HostKernels, HaveNothingToLoad) {
  std::unique_ptr<Executable> executable;
  EXPECT_TRUE(device().load({"m.itx", nullptr, 0, nullptr, {}}, executable).ok());
  EXPECT_EQ(executable, nullptr);
}

TEST_P(HostKernels, RunEveryTileOnce) {
  for (int64_t tiles : {0, 1, 2, 5, 1000}) {
    std::vector<int32_t> counts(tiles, 0);
    itx_event event = 0;
    Status status = launch(countKernel, {counts.data()}, {tiles}, {}, event);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < tiles; ++i)
      EXPECT_EQ(counts[i], 1) << i;
  }
}

TEST_P(HostKernels, WorkspaceIsPrivateAndSharedStartsAtZero) {
  Buffer buffer = make(8);
  auto *result = static_cast<int64_t *>(buffer.address());
  for (int64_t bytes : {1, 64, 1000, 100000, 1})
    for (int64_t tiles : {1, 7, 40}) {
      *result = 0;
      itx_event event = 0;
      Status status = launch(scratchKernel, {result}, {tiles, bytes}, {}, event);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(*result, tiles) << bytes;
    }
}

TEST_P(HostKernels, FinishingTilesRunWhenAllOthersAreDone) {
  Buffer buffer = make(8 * 64);
  auto *result = static_cast<int64_t *>(buffer.address());
  for (int64_t tiles : {0, 1, 2, 7, 1000})
    for (int64_t finishing : {0, 1, 2, 64}) {
      std::memset(result, 0, 8 * 64);
      itx_event event = 0;
      Status status = launch(finishKernel, {result}, {tiles, finishing}, {}, event);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int64_t i = 0; i < 64; ++i)
        EXPECT_EQ(result[i], i < finishing) << tiles << " tiles, finishing tile " << i << " of " << finishing;
    }
}

TEST_P(HostKernels, EventsOrderLaunchesAndCopies) {
  constexpr int64_t n = 1000;
  Buffer first = make(8 * n), second = make(8 * n);
  auto *a = static_cast<int64_t *>(first.address()), *b = static_cast<int64_t *>(second.address());
  std::memset(a, 0, 8 * n);
  for (int round = 0; round < 20; ++round) {
    itx_event launched = 0, copied = 0;
    ASSERT_TRUE(launch(addKernel, {a, b}, {n}, {copied}, launched).ok());
    ASSERT_TRUE(device().copy(0, a, MemoryKind::Device, b, MemoryKind::Host, 8 * n, &launched, 1, copied).ok());
    ASSERT_TRUE(device().wait(copied).ok());
  }
  for (int64_t i = 0; i < n; ++i)
    EXPECT_EQ(a[i], 20);
}

TEST_P(HostKernels, BadPlansAreErrors) {
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

TEST_P(HostKernels, RunFromSeveralThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      ScratchBuffer shared;
      int64_t result = 0;
      for (int round = 0; round < 100; ++round) {
        void *buffers[] = {&result};
        int64_t sizes[] = {1 + round % 13, 500};
        Launch launch;
        launch.entry = &scratchKernel;
        launch.buffers = buffers;
        launch.bufferCount = 1;
        launch.sizes = sizes;
        launch.sizeCount = 2;
        launch.shared = &shared;
        itx_event event = 0;
        bool good = device().dispatch(uint32_t(round), launch, nullptr, 0, event).ok() && device().wait(event).ok();
        failures += !good || result != sizes[0];
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures.load(), 0);
}

static std::string deviceName(const ::testing::TestParamInfo<size_t> &info) { return allDevices()[info.param]->name(); }

static std::vector<size_t> hostDevices() {
  std::vector<size_t> result;
  for (size_t i = 0; i < allDevices().size(); ++i)
    if (allDevices()[i]->usesHostMemory())
      result.push_back(i);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, ::testing::Range(size_t(0), allDevices().size()), deviceName);
INSTANTIATE_TEST_SUITE_P(Devices, HostKernels, ::testing::ValuesIn(hostDevices()), deviceName);
