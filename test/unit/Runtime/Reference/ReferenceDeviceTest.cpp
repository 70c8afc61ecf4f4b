//===- ReferenceDeviceTest.cpp - The reference device's commands, checks and faults -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/ReferenceDevice.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Support/Json.h"
#include "test/unit/Testing.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::readFile;
using ::testing::HasSubstr;

namespace {

const std::vector<std::string> kernelNames = {"add", "elsewhere", "exp", "temporaries", "foreign", "count", "affine"};
constexpr uint32_t addKernel = 0, expKernel = 2, temporariesKernel = 3, affineKernel = 6;

class ReferenceDeviceTest : public ::testing::Test {
protected:
  static HostedSettings settings() {
    HostedSettings result;
    result.memoryBytes = 64 << 20;
    return result;
  }

  ReferenceDeviceTest() : device(settings()) {}
  Buffer make(uint64_t bytes) {
    Buffer buffer;
    Status status = Buffer::make(device, bytes, buffer);
    EXPECT_TRUE(status.ok()) << status.message();
    return buffer;
  }
  template <typename T> Buffer makeOf(const std::vector<T> &values) {
    Buffer buffer = make(values.size() * sizeof(T));
    expectGood(upload(buffer.address(), values.data(), values.size() * sizeof(T)));
    return buffer;
  }
  Status finish(Status status, itx_event event) { return status.ok() ? device.wait(event) : status; }
  Status upload(void *to, const void *from, uint64_t bytes) {
    itx_event event = 0;
    return finish(device.copy(0, to, MemoryKind::Device, from, MemoryKind::Host, bytes, nullptr, 0, event), event);
  }
  Status download(void *to, const void *from, uint64_t bytes) {
    itx_event event = 0;
    return finish(device.copy(1, to, MemoryKind::Host, from, MemoryKind::Device, bytes, nullptr, 0, event), event);
  }
  template <typename T> std::vector<T> contents(const Buffer &buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    expectGood(download(values.data(), buffer.address(), buffer.bytes()));
    return values;
  }
  Status loadKernels(std::unique_ptr<Executable> &executable) {
    std::string bytes = readFile(ITX_TEST_REFERENCE_OBJECT);
    ExecutableSource source;
    source.name = "model.itx";
    source.object = bytes.data();
    source.bytes = bytes.size();
    source.kernels = &kernelNames;
    source.wanted = {0, 2, 3, 4, 5, 6};
    return device.load(source, executable);
  }
  /// Starts a kernel; the arrays are gone when this returns.
  Status start(uint32_t kernel, std::vector<void *> buffers, std::vector<int64_t> sizes, itx_event &event,
               uint32_t queue = 0, std::vector<itx_event> after = {}) {
    if (!kernels)
      expectGood(loadKernels(kernels));
    Launch launch;
    launch.executable = kernels.get();
    launch.kernel = kernel;
    launch.name = kernelNames[kernel].c_str();
    launch.label = "layer.3";
    launch.buffers = buffers.data();
    launch.bufferCount = uint32_t(buffers.size());
    launch.sizes = sizes.data();
    launch.sizeCount = uint32_t(sizes.size());
    return device.dispatch(queue, launch, after.data(), uint32_t(after.size()), event);
  }
  Status run(uint32_t kernel, std::vector<void *> buffers, std::vector<int64_t> sizes) {
    itx_event event = 0;
    Status status = start(kernel, std::move(buffers), std::move(sizes), event);
    return finish(status, event);
  }
  static void expectGood(const Status &status) { EXPECT_TRUE(status.ok()) << status.message(); }

  ReferenceDevice device;
  std::unique_ptr<Executable> kernels;
};

TEST_F(ReferenceDeviceTest, DescribesItself) {
  Json info;
  expectGood(parseJson(device.info(), "info", info));
  EXPECT_EQ(info["name"], "reference");
  EXPECT_EQ(info["memory_bytes"], 64 << 20);
  EXPECT_EQ(info["queues"], 2);
  EXPECT_EQ(info["threads"], 1);
  EXPECT_TRUE(info["features"].empty());
  EXPECT_STREQ(device.kind(), "reference");
  EXPECT_FALSE(device.usesHostMemory());
  for (int32_t threads : {-1, 0, 1, 1000000})
    expectGood(device.setThreads(threads));
  EXPECT_EQ(device.threads(), 1);
}

TEST_F(ReferenceDeviceTest, SupportsObjectsOfThisMachine) {
#if defined(__x86_64__)
  EXPECT_TRUE(device.supports("x86_64-unknown-linux-gnu"));
  EXPECT_FALSE(device.supports("aarch64-unknown-linux-gnu"));
#elif defined(__aarch64__)
  EXPECT_TRUE(device.supports("aarch64-unknown-linux-gnu"));
  EXPECT_FALSE(device.supports("x86_64-unknown-linux-gnu"));
#endif
  for (const char *variant : {"", "-", "x86", "sm_90", "avx2"})
    EXPECT_FALSE(device.supports(variant)) << variant;
}

TEST_F(ReferenceDeviceTest, CopiesAndFills) {
  std::vector<uint8_t> values(100000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = uint8_t(i * 7 + i / 256);
  Buffer first = makeOf(values), second = make(values.size());
  itx_event copied = 0, filled = 0;
  auto *target = static_cast<uint8_t *>(second.address());
  expectGood(device.copy(0, target, MemoryKind::Device, first.address(), MemoryKind::Device, values.size(), nullptr, 0,
                         copied));
  expectGood(device.fill(1, target + 1000, 0xab, 500, &copied, 1, filled));
  expectGood(device.wait(filled));
  std::vector<uint8_t> expected = values;
  std::fill(expected.begin() + 1000, expected.begin() + 1500, 0xab);
  EXPECT_EQ(contents<uint8_t>(second), expected);
  EXPECT_EQ(contents<uint8_t>(first), values);
  std::vector<uint8_t> host(100, 1), other(100, 2);
  expectGood(finish(
      device.copy(0, host.data(), MemoryKind::Host, other.data(), MemoryKind::Host, 100, nullptr, 0, copied), copied));
  EXPECT_EQ(host, other);
  Buffer empty = make(0);
  expectGood(upload(empty.address(), host.data(), 0));
  expectGood(upload(target + values.size(), host.data(), 0));
}

TEST_F(ReferenceDeviceTest, RunsKernels) {
  Buffer x = makeOf<float>({1, 2, 3, 4}), y = makeOf<float>({10, 20, 30, 40}), z = make(16);
  expectGood(run(addKernel, {x.address(), y.address(), z.address()}, {4}));
  EXPECT_EQ(contents<float>(z), (std::vector<float>{11, 22, 33, 44}));
  expectGood(run(addKernel, {z.address(), y.address(), z.address()}, {4}));
  EXPECT_EQ(contents<float>(z), (std::vector<float>{21, 42, 63, 84}));
  Buffer zero = makeOf<float>({0, 0, 0, 0});
  expectGood(run(expKernel, {zero.address(), static_cast<char *>(z.address()) + 8}, {2}));
  EXPECT_EQ(contents<float>(z), (std::vector<float>{21, 42, 1, 1}));
}

TEST_F(ReferenceDeviceTest, KernelsOfAQueueRunInOrder) {
  expectGood(device.setDelay(30, 5));
  Buffer x = makeOf<uint64_t>({1});
  uint64_t expected = 1;
  itx_event event = 0;
  for (int64_t i = 0; i < 100; ++i) {
    expectGood(start(affineKernel, {x.address()}, {3, i}, event, /*queue=*/3)); // modulo 2
    expected = expected * 3 + uint64_t(i);
  }
  EXPECT_EQ(contents<uint64_t>(x)[0], expected);
}

TEST_F(ReferenceDeviceTest, TemporariesHaveALimit) {
  Buffer count = make(8);
  Status status = run(temporariesKernel, {count.address()}, {40, 32 << 20, 0});
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), HasSubstr("kernel 'temporaries' (layer.3) needs a temporary of 33554432 bytes"));
  EXPECT_EQ(contents<int64_t>(count)[0], 2);
}

TEST_F(ReferenceDeviceTest, WrongAddressesAreNamed) {
  Buffer x = makeOf<float>({1, 2, 3, 4});
  std::vector<float> host(4);
  auto *address = static_cast<char *>(x.address());
  auto expectWrong = [](const Status &status, std::vector<const char *> parts) {
    EXPECT_EQ(status.code(), ITX_INTERNAL);
    for (const char *part : parts)
      EXPECT_THAT(status.message(), HasSubstr(part));
  };
  expectWrong(run(addKernel, {address, host.data(), address}, {4}),
              {"kernel 'add' (layer.3): operand 1 is at", "is it the host's?"});
  expectWrong(run(addKernel, {address, address, nullptr}, {4}), {"operand 2"});
  expectWrong(run(addKernel, {address + 17, address, address}, {4}), {"operand 0", "nothing allocated"});
  expectWrong(upload(host.data(), host.data(), 16), {"copy of 16 bytes: its destination", "is it the host's?"});
  expectWrong(download(host.data(), host.data(), 16), {"copy of 16 bytes: its source", "is it the host's?"});
  expectWrong(upload(address + 4, host.data(), 16), {"its destination has 16 bytes", "ends after 12"});
  expectWrong(upload(address, address, 16), {"its source", "said to be the host's"});
  itx_event event = 0;
  expectWrong(finish(device.fill(0, address + 8, 0, 9, nullptr, 0, event), event),
              {"fill of 9 bytes: its destination"});
  expectWrong(finish(device.fill(0, host.data(), 0, 1, nullptr, 0, event), event), {"is it the host's?"});
  expectWrong(run(1, {address}, {}), {"kernel 'elsewhere' (layer.3) is not among the kernels"});
  EXPECT_EQ(contents<float>(x), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(ReferenceDeviceTest, MemoryThatIsFreedTooEarlyIsFound) {
  Buffer y = make(16);
  itx_event first = 0, second = 0;
  Status status;
  // A busy machine may stop this thread for longer than a delay.
  for (uint64_t seed = 1; seed <= 20 && status.ok(); ++seed) {
    expectGood(device.setDelay(20000, seed));
    Buffer x = make(1 << 20);
    expectGood(device.fill(0, y.address(), 1, 16, nullptr, 0, first));
    expectGood(device.copy(0, x.address(), MemoryKind::Device, y.address(), MemoryKind::Device, 16, &first, 1, second));
    x.reset();
    status = device.wait(second);
  }
  EXPECT_EQ(status.code(), ITX_INTERNAL);
  EXPECT_THAT(status.message(), HasSubstr("was it freed before its work was done?"));
  expectGood(device.setDelay(0, 1));
  device.release(&status);
  EXPECT_THAT(device.wait(second).message(), HasSubstr("was it freed"));
  EXPECT_THAT(upload(y.address(), &status, 1).message(), HasSubstr("is lost (memory at"));
}

TEST_F(ReferenceDeviceTest, FailuresGoToDependentsAlone) {
  Buffer count = make(8), x = makeOf<int64_t>({5});
  itx_event failed = 0, dependent = 0, other = 0;
  expectGood(start(temporariesKernel, {count.address()}, {40, 32 << 20, 0}, failed));
  expectGood(start(affineKernel, {x.address()}, {0, 0}, dependent, 1, {failed}));
  expectGood(start(affineKernel, {x.address()}, {10, 1}, other, 1));
  expectGood(device.wait(other));
  EXPECT_EQ(device.wait(dependent).code(), ITX_OUT_OF_MEMORY);
  EXPECT_EQ(device.wait(dependent).message(), device.wait(failed).message());
  EXPECT_EQ(contents<int64_t>(x)[0], 51);
}

TEST_F(ReferenceDeviceTest, LostDevice) {
  Buffer x = makeOf<int64_t>({5});
  std::unique_ptr<Executable> executable;
  device.health().failAt(Fault::DeviceLost, 3);
  std::array<itx_event, 4> events = {};
  expectGood(device.fill(0, x.address(), 0, 8, nullptr, 0, events[0]));
  expectGood(device.fill(0, x.address(), 0, 8, nullptr, 0, events[1]));
  expectGood(device.fill(0, x.address(), 0, 8, nullptr, 0, events[2]));
  expectGood(device.wait(events[0]));
  expectGood(device.wait(events[1]));
  Status status = device.wait(events[2]);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_EQ(status.message(), "the reference device is lost (a fault was injected at its command 3)");
  EXPECT_EQ(device.fill(1, x.address(), 0, 8, nullptr, 0, events[3]).code(), ITX_DEVICE_LOST);
  void *address = nullptr;
  EXPECT_EQ(device.allocate(1, address).code(), ITX_DEVICE_LOST);
  EXPECT_EQ(loadKernels(executable).code(), ITX_DEVICE_LOST);
  expectGood(device.wait(0));
  expectGood(device.wait(events[0]));
  device.health().restore();
  expectGood(upload(x.address(), &status, 8));
}

TEST_F(ReferenceDeviceTest, CommandsThatWaitAreLostToo) {
  expectGood(device.setDelay(1000, 1));
  Buffer x = make(8);
  device.health().failAt(Fault::DeviceLost, 1);
  std::vector<itx_event> events(50);
  size_t submitted = 0;
  for (itx_event &event : events)
    submitted += device.fill(0, x.address(), 0, 8, nullptr, 0, event).ok();
  EXPECT_GE(submitted, 1u);
  for (size_t i = 0; i < submitted; ++i)
    EXPECT_EQ(device.wait(events[i]).code(), ITX_DEVICE_LOST);
}

TEST_F(ReferenceDeviceTest, InjectedLackOfMemory) {
  Buffer x = make(8);
  device.health().failAt(Fault::OutOfMemory, 2);
  expectGood(upload(x.address(), &x, 8));
  Status status = upload(x.address(), &x, 8);
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_EQ(status.message(), "the reference device has no memory for its command 2 (an injected fault)");
  expectGood(upload(x.address(), &x, 8));
}

TEST_F(ReferenceDeviceTest, FaultsOfSettings) {
  HostedSettings failing = settings();
  failing.fault = Fault::DeviceLost;
  failing.faultCommand = 1;
  ReferenceDevice other(failing);
  Buffer buffer;
  expectGood(Buffer::make(other, 8, buffer));
  itx_event event = 0;
  expectGood(other.fill(0, buffer.address(), 0, 8, nullptr, 0, event));
  EXPECT_EQ(other.wait(event).code(), ITX_DEVICE_LOST);
}

TEST_F(ReferenceDeviceTest, ChildrenOfAFork) {
  ReferenceDevice unused(settings());
  Buffer x = makeOf<int64_t>({5});
  itx_event event = 0;
  expectGood(device.fill(0, x.address(), 0, 8, nullptr, 0, event));
  pid_t child = fork();
  if (child == 0) {
    void *address = nullptr;
    Status status = device.allocate(8, address);
    bool isLost = status.code() == ITX_DEVICE_LOST && status.message().find("forked") != std::string::npos &&
                  device.wait(event).code() == ITX_DEVICE_LOST &&
                  device.fill(0, x.address(), 0, 8, nullptr, 0, event).code() == ITX_DEVICE_LOST && device.wait(0).ok();
    device.release(x.address());
    Buffer own;
    bool works = Buffer::make(unused, 8, own).ok() && unused.fill(0, own.address(), 0, 8, nullptr, 0, event).ok() &&
                 unused.wait(event).ok();
    _exit(isLost && works ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  expectGood(device.wait(event));
  expectGood(upload(x.address(), &status, 4));
}

TEST_F(ReferenceDeviceTest, RecordsProfiles) {
  intarsia::testing::TemporaryFolder folder;
  Buffer x = makeOf<float>({1, 2}), y = make(8);
  startProfile();
  expectGood(run(expKernel, {x.address(), y.address()}, {2}));
  (void)contents<float>(y);
  itx_event event = 0;
  expectGood(finish(device.fill(0, y.address(), 0, 8, nullptr, 0, event), event));
  expectGood(stopProfile(folder / "profile.json"));
  Json profile;
  expectGood(parseJson(readFile(folder / "profile.json"), "profile", profile));
  std::set<std::string> names;
  for (const Json &recorded : profile["traceEvents"])
    if (recorded["ph"] == "X") {
      names.insert(recorded["name"].get<std::string>());
      EXPECT_GE(recorded["dur"].get<double>(), 0);
    }
  EXPECT_EQ(names, (std::set<std::string>{"exp", "copy", "fill"}));
}

TEST_F(ReferenceDeviceTest, SeveralThreadsAtOnce) {
  expectGood(loadKernels(kernels));
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t round = 0; round < 50; ++round) {
        Buffer x;
        failures += !Buffer::make(device, 8 + round * 100, x).ok();
        int64_t value = t, result = 0;
        itx_event event = 0;
        failures += !upload(x.address(), &value, 8).ok();
        failures += !start(affineKernel, {x.address()}, {100, round}, event, t + round).ok();
        failures += !device.wait(event).ok();
        failures += !download(&result, x.address(), 8).ok() || result != t * 100 + round;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures.load(), 0);
}

/// A region of device memory, and the commands that a new one on it must come after.
struct Region {
  itx_event written = 0;
  std::vector<itx_event> read; ///< since it was written
};

/// Runs 1,000 random graphs of copies, fills and kernels on several queues, ordered by events alone, and compares their
/// results with those of the same work done in order on the host.
TEST_F(ReferenceDeviceTest, RandomGraphsLikeInOrderWork) {
  constexpr int regions = 6, words = 16, bytes = words * 8;
  HostedSettings several = settings();
  several.queues = 3;
  ReferenceDevice target(several);
  std::string object = readFile(ITX_TEST_REFERENCE_OBJECT);
  ExecutableSource source = {"model.itx", object.data(), object.size(), &kernelNames, {affineKernel}};
  std::unique_ptr<Executable> executable;
  expectGood(target.load(source, executable));
  Buffer memory;
  expectGood(Buffer::make(target, regions * bytes, memory));
  std::mt19937 random(11);
  for (int graph = 0; graph < 1000; ++graph) {
    expectGood(target.setDelay(graph % 2 ? 40 : 0, graph));
    std::vector<std::array<uint64_t, words>> oracle(regions), results(regions);
    std::vector<Region> state(regions);
    for (int step = 0, steps = regions + int(random() % 24); step < steps; ++step) {
      uint32_t queue = random() % 3;
      int to = step < regions ? step : int(random() % regions), from = int(random() % regions);
      auto *destination = static_cast<uint64_t *>(memory.address()) + to * words;
      auto *origin = static_cast<uint64_t *>(memory.address()) + from * words;
      // The first commands give each region contents.
      uint32_t choice = step < regions ? 0 : random() % 3;
      std::vector<itx_event> after = state[to].read;
      after.push_back(state[to].written);
      if (choice == 1)
        after.push_back(state[from].written);
      std::shuffle(after.begin(), after.end(), random);
      uint32_t count = uint32_t(after.size());
      itx_event event = 0;
      if (choice == 0) {
        uint8_t value = uint8_t(random());
        expectGood(target.fill(queue, destination, value, bytes, after.data(), count, event));
        oracle[to].fill(value * 0x0101010101010101u);
      } else if (choice == 1) {
        expectGood(target.copy(queue, destination, MemoryKind::Device, origin, MemoryKind::Device, bytes, after.data(),
                               count, event));
        oracle[to] = oracle[from];
        state[from].read.push_back(event);
      } else {
        void *buffers[] = {destination};
        int64_t sizes[] = {3, step};
        Launch launch;
        launch.executable = executable.get();
        launch.kernel = affineKernel;
        launch.buffers = buffers;
        launch.bufferCount = 1;
        launch.sizes = sizes;
        launch.sizeCount = 2;
        expectGood(target.dispatch(queue, launch, after.data(), count, event));
        oracle[to][0] = oracle[to][0] * 3 + uint64_t(step);
        sizes[0] = sizes[1] = -1; // the device has copied the arrays
        buffers[0] = nullptr;
      }
      state[to] = {event, {}};
    }
    std::vector<itx_event> events;
    for (int i = 0; i < regions; ++i) {
      itx_event event = 0;
      expectGood(target.copy(random() % 3, results[i].data(), MemoryKind::Host,
                             static_cast<uint64_t *>(memory.address()) + i * words, MemoryKind::Device, bytes,
                             &state[i].written, 1, event));
      events.push_back(event);
      events.insert(events.end(), state[i].read.begin(), state[i].read.end());
    }
    for (itx_event event : events)
      expectGood(target.wait(event));
    ASSERT_EQ(results, oracle) << "graph " << graph;
  }
}

} // namespace
