//===- GpuFaultsTest.cpp - Lack of memory, faults of kernels and loss of GPUs ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/GPU/GpuTest.h"

#include <future>
#include <sys/wait.h>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using GpuFaultsTest = GpuTest;

// ---- Lack of memory --------------------------------------------------------------------------------------------

TEST_F(GpuFaultsTest, SaysHowMuchMemoryThereIs) {
  for (bool hasPools : {true, false}) {
    make({.hasPools = hasPools, .memoryBytes = 1 << 20});
    void *first = nullptr, *second = nullptr;
    ASSERT_TRUE(device->allocate(700000, first).ok());
    Status status = device->allocate(500000, second);
    EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
    EXPECT_EQ(second, nullptr);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("500000 bytes"), HasSubstr("348576 of its 1048576 are free"),
                                        HasSubstr("700000 are in use")));
    EXPECT_EQ(driver->calls("trimPool"), hasPools ? 1 : 0);
    device->release(first);
    EXPECT_TRUE(device->allocate(1000000, second).ok()) << "what was freed can be had again";
    device->release(second);
  }
}

TEST_F(GpuFaultsTest, TellsMemoryOfOtherProcessesFromItsOwn) {
  make({.memoryBytes = 1 << 20, .otherProcessBytes = 600000});
  void *first = nullptr, *second = nullptr;
  ASSERT_TRUE(device->allocate(100000, first).ok());
  Status status = device->allocate(400000, second);
  EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("no 400000 bytes left"), HasSubstr("348576 of its 1048576 are free"),
                                      HasSubstr("100000 are in use by this process's tensors and weights"),
                                      HasSubstr("also of other processes")));
  ASSERT_TRUE(device->allocate(300000, second).ok()) << "what the other process leaves can be had";
  device->release(first);
  device->release(second);
}

TEST_F(GpuFaultsTest, LackOfMemoryAtEachCallIsAnError) {
  // Whatever call fails first, nothing is lost, and the same work succeeds afterwards.
  for (const char *call : {"open", "createStream", "createEvent", "createPool", "allocate", "allocateHost",
                           "copyToDevice", "recordEvent", "loadModule", "findFunction", "allowShared", "launch"}) {
    for (int n = 1; n <= 6; ++n) {
      make();
      driver->failAt(call, n, GpuFailure::OutOfMemory);
      // A pool is trimmed and asked again, which hides one failure.
      if (std::string(call) == "allocate")
        driver->failAt("trimPool", 1, GpuFailure::Other);
      Numbers numbers = counted(100), result(100, -1);
      auto work = [&]() -> Status {
        Buffer in, out;
        ITX_RETURN_IF_ERROR(Buffer::make(*device, 800, in));
        ITX_RETURN_IF_ERROR(Buffer::make(*device, 800, out));
        if (!executable) {
          std::string bytes;
          ITX_RETURN_IF_ERROR(writeGpuObject(sampleObject(), {"code"}, bytes));
          ITX_RETURN_IF_ERROR(device->load({"m.itx", bytes.data(), bytes.size(), &kernelNames, {0, 1}}, executable));
        }
        itx_event up = 0, done = 0, down = 0;
        Status status =
            device->copy(0, in.address(), MemoryKind::Device, numbers.data(), MemoryKind::Host, 800, nullptr, 0, up);
        if (status.ok())
          status = launch(1, in, out, 100, up, done, 1);
        if (status.ok())
          status =
              device->copy(0, result.data(), MemoryKind::Host, out.address(), MemoryKind::Device, 800, &done, 1, down);
        for (itx_event event : {up, done, down})
          if (Status waited = device->wait(event); status.ok())
            status = waited;
        return status;
      };
      Status status = work();
      EXPECT_TRUE(status.ok() || status.code() == ITX_OUT_OF_MEMORY) << call << " " << n << ": " << status.message();
      if (n == 1)
        EXPECT_EQ(status.code(), ITX_OUT_OF_MEMORY) << call;
      driver->clearFaults();
      status = work();
      EXPECT_TRUE(status.ok()) << call << " " << n << ", again: " << status.message();
      for (int64_t i = 0; i < 100; ++i)
        ASSERT_EQ(result[i], 2 * i) << call << " " << n;
      TearDown();
    }
  }
}

// ---- Loss ------------------------------------------------------------------------------------------------------

TEST_F(GpuFaultsTest, AFaultNamesItsKernel) {
  load();
  Buffer in = buffer({1}), out = buffer({2});
  itx_event event = 0;
  ASSERT_TRUE(launch(0, in, out, 1, 0, event).ok());
  ASSERT_TRUE(device->wait(event).ok()) << "known to be good";
  ASSERT_TRUE(launch(2, in, out, 1, 0, event).ok()) << "a fault shows later";
  Status status = device->wait(event);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("the device 'fake' is lost"), HasSubstr("FAKE_ERROR_"),
                                      HasSubstr("kernel 'fault' (layer.0) was running"), Not(HasSubstr("add_one"))));
  // It stays lost, and says the same; nothing else breaks.
  void *address = nullptr;
  itx_event none = 0;
  for (Status later : {device->allocate(8, address), launch(0, in, out, 1, 0, none), device->wait(event)})
    EXPECT_EQ(later.message(), status.message());
  EXPECT_TRUE(device->wait(0).ok());
  EXPECT_EQ(loadObject(sampleObject(), {"code"}).code(), ITX_DEVICE_LOST);
}

TEST_F(GpuFaultsTest, AFaultAmongManyLaunchesNamesThemAll) {
  // The first launch is done when all are started, so that none of them finds the device lost.
  std::promise<void> areStarted;
  driver->addFunction("add_one", 4, [all = areStarted.get_future().share()](auto &&...) { return all.wait(), true; });
  load();
  Buffer in = buffer({1}), out = buffer({2});
  itx_event event = 0;
  for (uint32_t kernel : {0, 1, 2, 0})
    EXPECT_TRUE(launch(kernel, in, out, 1, 0, event).ok());
  areStarted.set_value();
  Status status = device->wait(event);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("launches that were not known to be done"), HasSubstr("'fault' (layer.0)"),
                    HasSubstr("'add_one' (layer.0)"), HasSubstr("ITX_GPU_SYNCHRONOUS=1")));
}

TEST_F(GpuFaultsTest, LaunchesCanBeWaitedForOneByOne) {
  ScopedVariable variable("ITX_GPU_SYNCHRONOUS", "1");
  load();
  Buffer in = buffer({1}), out = buffer({2});
  itx_event event = 0;
  ASSERT_TRUE(launch(0, in, out, 1, 0, event).ok());
  Status status = launch(2, in, out, 1, 0, event);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_THAT(status.message(), HasSubstr("kernel 'fault' (layer.0) was running"));
}

TEST_F(GpuFaultsTest, ChecksTheEnvironment) {
  EXPECT_TRUE(device->checkEnvironment().ok());
  ScopedVariable variable("ITX_GPU_SYNCHRONOUS", "yes");
  Status status = device->checkEnvironment();
  EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ITX_GPU_SYNCHRONOUS"), HasSubstr("'yes'")));
}

TEST_F(GpuFaultsTest, LossAtEachCallIsAStatus) {
  for (const char *call : {"open", "enter", "createStream", "createPool", "allocate", "copyToDevice", "copyToHost",
                           "recordEvent", "synchronizeEvent", "launch", "fill", "copyOnDevice", "streamWait"}) {
    make();
    load();
    Buffer in = buffer(counted(10)), out = buffer(Numbers(10, 0));
    driver->failAt(call, 1, GpuFailure::Lost);
    Numbers host(10, 5);
    auto work = [&]() -> Status {
      Buffer more;
      ITX_RETURN_IF_ERROR(Buffer::make(*device, 800, more));
      itx_event up = 0, added = 0, filled = 0, copied = 0, down = 0;
      ITX_RETURN_IF_ERROR(
          device->copy(1, in.address(), MemoryKind::Device, host.data(), MemoryKind::Host, 80, nullptr, 0, up));
      ITX_RETURN_IF_ERROR(launch(0, in, out, 10, up, added));
      ITX_RETURN_IF_ERROR(device->fill(1, in.address(), 1, 80, &added, 1, filled));
      ITX_RETURN_IF_ERROR(
          device->copy(1, out.address(), MemoryKind::Device, in.address(), MemoryKind::Device, 80, &filled, 1, copied));
      ITX_RETURN_IF_ERROR(
          device->copy(0, host.data(), MemoryKind::Host, out.address(), MemoryKind::Device, 80, &copied, 1, down));
      return device->wait(down);
    };
    Status status = work();
    bool isOpened =
        std::string(call) == "open" || std::string(call) == "createStream" || std::string(call) == "createPool";
    EXPECT_EQ(status.code(), isOpened ? ITX_OK : ITX_DEVICE_LOST) << call << ": " << status.message();
    in.reset();
    out.reset();
    TearDown();
  }
}

TEST_F(GpuFaultsTest, FreeingWhatIsNotAllocatedLosesTheDevice) {
  Buffer a = buffer({1});
  device->release(static_cast<uint8_t *>(a.address()) + 8);
  void *address = nullptr;
  Status status = device->allocate(8, address);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_THAT(status.message(), HasSubstr("was freed, where nothing is allocated"));
}

TEST_F(GpuFaultsTest, ChildrenOfAForkGetAnError) {
  Buffer a = buffer({1});
  pid_t child = fork();
  if (child == 0) {
    void *address = nullptr;
    itx_event event = 0;
    bool good = device->allocate(8, address).code() == ITX_DEVICE_LOST &&
                device->fill(0, a.address(), 1, 8, nullptr, 0, event).code() == ITX_DEVICE_LOST &&
                device->wait(1).code() == ITX_DEVICE_LOST && !device->owns(a.address(), 8) &&
                device->allocate(8, address).message().find("forked") != std::string::npos;
    device->release(a.address());
    _exit(good ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0);
  EXPECT_EQ(numbersOf(a), Numbers{1}) << "the parent goes on";
}
