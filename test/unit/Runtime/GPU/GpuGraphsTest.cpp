//===- GpuGraphsTest.cpp - Steps that repeat are started as graphs --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Copies.h"
#include "test/unit/Runtime/GPU/GpuTest.h"

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

/// A device that computes x + 12 in steps of twelve launches, from one buffer into the other and back.
class GpuGraphsTest : public GpuTest {
protected:
  static constexpr int launches = 12;

  void TearDown() override {
    first.reset();
    second.reset();
    GpuTest::TearDown();
  }
  void prepare(int64_t elements = 40, FakeDriver::Settings settings = {}) {
    make(settings);
    load();
    n = elements;
    first = buffer(counted(n));
    second = buffer(counted(n));
    before = driver->calls("launch");
  }
  /// Starts a step, or its beginning.
  Status step(int64_t size, int count = launches) {
    event = 0;
    for (int i = 0; i < count; ++i)
      ITX_RETURN_IF_ERROR(launch(0, i % 2 ? second : first, i % 2 ? first : second, size, event, event));
    return Status::success();
  }
  void run(int64_t size, int count = launches) {
    Status status = step(size, count);
    ASSERT_TRUE(status.ok()) << status.message();
    status = device->wait(event);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  int started() const { return driver->calls("launch") - before; }
  int replayed() const { return driver->calls("launchGraph"); }
  Numbers plus(int64_t number) const {
    Numbers numbers = counted(n);
    for (int64_t &value : numbers)
      value += number;
    return numbers;
  }

  Buffer first, second;
  int64_t n = 0;
  int before = 0;
  itx_event event = 0;
};

} // namespace

TEST_F(GpuGraphsTest, RepeatedStepsAreOneLaunch) {
  prepare(40, {.delayMicroseconds = 20});
  for (int i = 0; i < 10; ++i)
    run(n);
  EXPECT_EQ(started(), 2 * launches) << "a step that is new, and the one that shows that it repeats";
  EXPECT_EQ(replayed(), 8);
  EXPECT_EQ(driver->calls("setGraphNode"), 0) << "nothing has changed";
  EXPECT_EQ(numbersOf(first), plus(10 * launches));
}

TEST_F(GpuGraphsTest, ChangedArgumentsAreUpdated) {
  prepare();
  for (int i = 0; i < 3; ++i)
    run(n);
  EXPECT_EQ(replayed(), 1);
  // 39 elements need as many blocks as 40, so that only the arguments differ.
  run(n - 1);
  EXPECT_EQ(driver->calls("setGraphNode"), launches);
  EXPECT_EQ(replayed(), 2);
  Numbers expected = plus(4 * launches);
  expected.back() -= launches;
  EXPECT_EQ(numbersOf(first), expected);
  run(n - 1);
  EXPECT_EQ(driver->calls("setGraphNode"), launches) << "they are those of the last step";
  // Another buffer is another argument of two launches alone.
  Buffer other = buffer(counted(n));
  std::swap(first, other);
  run(n - 1);
  EXPECT_EQ(replayed(), 4);
  expected = plus(launches);
  expected.back() -= launches;
  EXPECT_EQ(numbersOf(first), expected);
}

TEST_F(GpuGraphsTest, ChangedTensorMapsAreUpdated) {
  prepare();
  auto stepByMaps = [&](int64_t size) {
    event = 0;
    for (int i = 0; i < launches; ++i) {
      Status status = launch(5, i % 2 ? second : first, i % 2 ? first : second, size, event, event);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    ASSERT_TRUE(device->wait(event).ok());
  };
  for (int i = 0; i < 3; ++i)
    stepByMaps(n);
  EXPECT_EQ(replayed(), 1);
  EXPECT_EQ(driver->calls("setGraphNode"), 0);
  // The rows of the maps change with the size; the function looks at them.
  stepByMaps(n - 2);
  EXPECT_EQ(replayed(), 2);
  EXPECT_EQ(driver->calls("setGraphNode"), launches);
  Numbers expected = plus(4 * launches);
  for (int64_t i = n - 2; i < n; ++i)
    expected[i] -= launches;
  EXPECT_EQ(numbersOf(first), expected);
}

TEST_F(GpuGraphsTest, OtherShapesAreStartedOneByOne) {
  prepare();
  for (int i = 0; i < 3; ++i)
    run(n);
  int launchedBefore = started();
  run(20); // one block instead of two
  EXPECT_EQ(started(), launchedBefore + launches);
  run(n, launches / 2); // what was kept back is started when somebody waits
  EXPECT_EQ(started(), launchedBefore + launches + launches / 2);
  EXPECT_EQ(replayed(), 1);
  run(n); // the graph is still there
  EXPECT_EQ(replayed(), 2);
  Numbers expected = plus(5 * launches + launches / 2);
  for (int64_t i = 20; i < n; ++i)
    expected[i] -= launches;
  EXPECT_EQ(numbersOf(first), expected);
}

TEST_F(GpuGraphsTest, CopiesAndFillsComeInOrder) {
  prepare();
  for (int i = 0; i < 3; ++i)
    run(n);
  // A fill in the middle of what looks like the step.
  ASSERT_TRUE(step(n, 6).ok());
  itx_event filled = 0;
  ASSERT_TRUE(device->fill(0, first.address(), 0, 8 * n, nullptr, 0, filled).ok());
  ASSERT_TRUE(step(n, 6).ok());
  ASSERT_TRUE(device->wait(event).ok());
  EXPECT_EQ(numbersOf(first), Numbers(n, 6));
  // A copy on the other queue after a launch that is kept back.
  ASSERT_TRUE(step(n, 2).ok());
  EXPECT_EQ(numbersOf(first, event), Numbers(n, 8));
}

TEST_F(GpuGraphsTest, ShortStepsAndDriversWithoutGraphsUseLaunches) {
  prepare();
  for (int i = 0; i < 5; ++i)
    run(n, 4);
  EXPECT_EQ(started(), 20) << "too few launches for a graph";
  EXPECT_EQ(driver->calls("createGraph"), 0);
  prepare(40, {.hasGraphs = false});
  for (int i = 0; i < 5; ++i)
    run(n);
  EXPECT_EQ(started(), 5 * launches);
  EXPECT_EQ(driver->calls("createGraph"), 1) << "asked once";
  EXPECT_EQ(numbersOf(first), plus(5 * launches));
}

TEST_F(GpuGraphsTest, WhateverFailsTheLaunchesAreStarted) {
  for (const char *call : {"createGraph", "addGraphNode", "instantiateGraph", "setGraphNode", "launchGraph"})
    for (GpuFailure failure : {GpuFailure::OutOfMemory, GpuFailure::Other}) {
      prepare();
      driver->failAt(call, 1, failure);
      for (int i = 0; i < 5; ++i)
        run(i == 4 ? n - 1 : n);
      Numbers expected = plus(5 * launches);
      expected.back() -= launches;
      EXPECT_EQ(numbersOf(first), expected) << call;
    }
}

TEST_F(GpuGraphsTest, FailuresOfKeptLaunchesAreToldToWhoWaits) {
  prepare();
  for (int i = 0; i < 3; ++i)
    run(n);
  ASSERT_TRUE(step(n, 5).ok());
  driver->failAt("launch", 3, GpuFailure::OutOfMemory);
  Status status = device->wait(event);
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel 'add_one' (layer.0)"), HasSubstr("2 x 1 x 1 blocks")));
  itx_event failed = event;
  run(n);
  EXPECT_EQ(device->wait(failed).code(), ITX_OUT_OF_MEMORY) << "later work does not hide it";
  EXPECT_EQ(numbersOf(first), plus(4 * launches + 2));
}

TEST_F(GpuGraphsTest, LossesNameTheLaunches) {
  prepare();
  for (int i = 0; i < 3; ++i)
    run(n);
  driver->failAt("launchGraph", 1, GpuFailure::Lost);
  Status status = step(n);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_THAT(status.message(), HasSubstr("kernel 'add_one' (layer.0)"));
}

TEST_F(GpuGraphsTest, UnloadedCodeIsNotReplayed) {
  prepare();
  for (int i = 0; i < 3; ++i)
    run(n);
  EXPECT_EQ(replayed(), 1);
  executable.reset();
  load();
  run(n); // the fake driver's functions have their old addresses, as those of a driver may
  EXPECT_EQ(replayed(), 1);
  EXPECT_EQ(driver->calls("destroyGraph"), 1);
  EXPECT_EQ(numbersOf(first), plus(4 * launches));
}

TEST_F(GpuGraphsTest, FewGraphsAreKept) {
  prepare(32 * 8);
  for (int round = 0; round < 2; ++round)
    for (int64_t blocks = 1; blocks <= 8; ++blocks)
      for (int i = 0; i < 3; ++i)
        run(32 * blocks);
  EXPECT_EQ(replayed(), 2 * 8);
  EXPECT_EQ(driver->calls("createGraph") - driver->calls("destroyGraph"), int(GpuGraphs::kept));
}

// ---- Two devices ----------------------------------------------------------------------------------------------

TEST_F(GpuGraphsTest, DevicesOfOneDriverCopyDirectly) {
  prepare(1000, {.devices = 2, .delayMicroseconds = 50});
  GpuDevice peer(*driver, 1, propertiesOf(*driver));
  Buffer there;
  ASSERT_TRUE(Buffer::make(peer, 8 * n, there).ok());
  int copiesBefore = driver->calls("copyToHost");
  // The copy follows the work that the source's queue has, also what is kept back.
  ASSERT_TRUE(step(n).ok());
  Status status = copyMemory({&peer, there.address()}, {device.get(), first.address()}, 8 * n);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(driver->calls("copyToPeer"), 1);
  EXPECT_EQ(driver->calls("copyToHost"), copiesBefore) << "nothing goes through the host";
  Numbers result(n);
  itx_event copied = 0;
  ASSERT_TRUE(
      peer.copy(0, result.data(), MemoryKind::Host, there.address(), MemoryKind::Device, 8 * n, nullptr, 0, copied)
          .ok());
  ASSERT_TRUE(peer.wait(copied).ok());
  EXPECT_EQ(result, plus(launches));
  // Where the driver cannot, the host does.
  driver->failAt("copyToPeer", 1, GpuFailure::Unsupported);
  ASSERT_TRUE(copyMemory({device.get(), second.address()}, {&peer, there.address()}, 8 * n).ok());
  EXPECT_EQ(driver->calls("copyToHost"), copiesBefore + 2);
  EXPECT_EQ(numbersOf(second), plus(launches));
  // Memory of neither is refused.
  EXPECT_EQ(copyMemory({&peer, first.address()}, {device.get(), second.address()}, 8).code(), ITX_INTERNAL);
  there.reset();
}

TEST_F(GpuGraphsTest, DevicesOfTwoDriversCopyThroughTheHost) {
  prepare(100);
  FakeDriver another;
  GpuDevice peer(another, 0, propertiesOf(another));
  Buffer there;
  ASSERT_TRUE(Buffer::make(peer, 8 * n, there).ok());
  ASSERT_TRUE(copyMemory({&peer, there.address()}, {device.get(), first.address()}, 8 * n).ok());
  ASSERT_TRUE(copyMemory({device.get(), second.address()}, {&peer, there.address()}, 8 * n).ok());
  EXPECT_EQ(driver->calls("copyToPeer") + another.calls("copyToPeer"), 0);
  EXPECT_EQ(numbersOf(second), counted(n));
  there.reset();
}
