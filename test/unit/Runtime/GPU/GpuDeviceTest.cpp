//===- GpuDeviceTest.cpp - Kernels, copies, errors and loss of GPUs --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything but the calls of a vendor's driver: FakeDriver stands in for that.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuDevice.h"
#include "lib/Runtime/Core/BoundDevice.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Support/Json.h"
#include "test/unit/Runtime/GPU/FakeDriver.h"
#include "test/unit/Testing.h"

#include <future>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

using Numbers = std::vector<int64_t>;

GpuProperties propertiesOf(FakeDriver &driver) {
  GpuProperties properties;
  EXPECT_TRUE(driver.readProperties(0, properties).ok());
  return properties;
}

/// Adds a number to each element: arguments are an input, an output, the count, the scratch.
bool addOne(FakeDriver &driver, const GpuGrid &, const FakeArguments &arguments) {
  int64_t n = int64_t(arguments[2]);
  auto *in = static_cast<int64_t *>(driver.resolve(arguments[0], 8 * n));
  auto *out = static_cast<int64_t *>(driver.resolve(arguments[1], 8 * n));
  for (int64_t i = 0; in && out && i < n; ++i)
    out[i] = in[i] + 1;
  return in && out;
}

/// Writes twice the input to the scratch.
bool doubleToScratch(FakeDriver &driver, const GpuGrid &grid, const FakeArguments &arguments) {
  int64_t n = int64_t(arguments[2]);
  auto *in = static_cast<int64_t *>(driver.resolve(arguments[0], 8 * n));
  auto *scratch = static_cast<int64_t *>(driver.resolve(arguments[3], 8 * n));
  for (int64_t i = 0; in && scratch && i < n; ++i)
    scratch[i] = 2 * in[i];
  return in && scratch && grid.sharedBytes == 65536;
}

/// Copies the scratch to the output.
bool copyScratch(FakeDriver &driver, const GpuGrid &grid, const FakeArguments &arguments) {
  int64_t n = int64_t(arguments[2]);
  auto *scratch = static_cast<int64_t *>(driver.resolve(arguments[3], 8 * n));
  auto *out = static_cast<int64_t *>(driver.resolve(arguments[1], 8 * n));
  for (int64_t i = 0; scratch && out && i < n; ++i)
    out[i] = scratch[i];
  return scratch && out && int64_t(grid.blocks[0]) == (n + 31) / 32 && grid.threads[0] == 32;
}

bool fault(FakeDriver &, const GpuGrid &, const FakeArguments &) { return false; }

GpuLaunch launchOf(const char *function, const char *blocks = "s0 32 ceildiv", const char *shared = "0") {
  return {function,
          {parseSizeExpression(blocks), parseSizeExpression("1"), parseSizeExpression("1")},
          {32, 1, 1},
          parseSizeExpression(shared)};
}

/// The kernels of the object: 0 adds one, 1 doubles by way of the scratch, 2 faults, 3 has limits.
GpuObject sampleObject() {
  GpuObject object;
  object.architecture = "fake_10";
  object.code = {{GpuCodeKind::Cubin, "fake_20", 0, {}}};
  object.kernels.push_back({0, 2, 1, parseSizeExpression("0"), {launchOf("add_one")}});
  object.kernels.push_back({1,
                            2,
                            1,
                            parseSizeExpression("s0 8 *"),
                            {launchOf("double_to_scratch", "1", "65536"), launchOf("copy_scratch")}});
  object.kernels.push_back({2, 2, 1, parseSizeExpression("0"), {launchOf("fault", "1")}});
  object.kernels.push_back({3, 2, 1, parseSizeExpression("0"), {launchOf("add_one", "s0 32 ceildiv", "s0")}});
  object.kernels[3].launches[0].grid[1] = parseSizeExpression("s0 16 *");
  object.kernels.push_back({4, 2, 1, parseSizeExpression("s0 8 *"), {launchOf("double_to_scratch", "1", "65536")}});
  return object;
}

const std::vector<std::string> kernelNames = {"add_one", "double", "fault", "limited", "unfinished"};

/// A device of a driver of its own, with the kernels of an object.
class GpuTest : public ::testing::Test {
protected:
  void make(FakeDriver::Settings settings = {}) {
    TearDown();
    driver = std::make_unique<FakeDriver>(settings);
    driver->addFunction("add_one", 4, addOne);
    driver->addFunction("double_to_scratch", 4, doubleToScratch);
    driver->addFunction("copy_scratch", 4, copyScratch);
    driver->addFunction("fault", 4, fault);
    device = std::make_unique<GpuDevice>(*driver, 0, propertiesOf(*driver));
  }
  void SetUp() override { make(); }
  void TearDown() override {
    executable.reset();
    device.reset();
  }

  Status loadObject(const GpuObject &object, const std::vector<std::string_view> &code,
                    std::vector<uint32_t> wanted = {0, 1, 2, 3, 4}) {
    std::string bytes;
    Status status = writeGpuObject(object, code, bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    return device->load({"m.itx", bytes.data(), bytes.size(), &kernelNames, std::move(wanted)}, executable);
  }
  void load() {
    Status status = loadObject(sampleObject(), {"code"});
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Status launch(uint32_t kernel, const Buffer &in, const Buffer &out, int64_t n, itx_event after, itx_event &event,
                uint32_t queue = 0) {
    void *buffers[] = {in.address(), out.address()};
    Launch launch;
    launch.executable = executable.get();
    launch.kernel = kernel;
    launch.name = kernelNames[kernel].c_str();
    launch.label = "layer.0";
    launch.buffers = buffers;
    launch.bufferCount = 2;
    launch.sizes = &n;
    launch.sizeCount = 1;
    return device->dispatch(queue, launch, &after, 1, event);
  }

  Buffer buffer(const Numbers &numbers) {
    Buffer result;
    Status status = Buffer::make(*device, 8 * numbers.size(), result);
    EXPECT_TRUE(status.ok()) << status.message();
    itx_event event = 0;
    status = device->copy(1, result.address(), MemoryKind::Device, numbers.data(), MemoryKind::Host, 8 * numbers.size(),
                          nullptr, 0, event);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(device->wait(event).ok());
    return result;
  }
  Numbers numbersOf(const Buffer &from, itx_event after = 0) {
    Numbers result(from.bytes() / 8, -1);
    itx_event event = 0;
    Status status = device->copy(1, result.data(), MemoryKind::Host, from.address(), MemoryKind::Device, from.bytes(),
                                 &after, 1, event);
    EXPECT_TRUE(status.ok()) << status.message();
    status = device->wait(event);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  std::unique_ptr<FakeDriver> driver;
  std::unique_ptr<GpuDevice> device;
  std::unique_ptr<Executable> executable;
};

Numbers counted(int64_t n) {
  Numbers numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

} // namespace

// ---- Kernels --------------------------------------------------------------------------------------------------

TEST_F(GpuTest, RunsLaunchesInOrderWithScratch) {
  make({.delayMicroseconds = 200});
  load();
  // Sizes grow and shrink: so does the scratch that is needed.
  for (int64_t n : {10, 1000, 33, 100000}) {
    Buffer in = buffer(counted(n)), out = buffer(Numbers(n, -1));
    itx_event event = 0;
    Status status = launch(1, in, out, n, 0, event);
    ASSERT_TRUE(status.ok()) << status.message();
    Numbers result = numbersOf(out, event);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(result[i], 2 * i) << n;
  }
  EXPECT_EQ(driver->calls("allowShared"), 1) << "once allowed, it stays so";
}

TEST_F(GpuTest, QueuesWaitForEachOther) {
  make({.delayMicroseconds = 300});
  load();
  Buffer a = buffer(Numbers(100, 0)), b = buffer(Numbers(100, 0));
  itx_event event = 0;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(launch(0, a, b, 100, event, event, uint32_t(round % 3)).ok());
    std::swap(a, b);
  }
  EXPECT_EQ(numbersOf(a, event), Numbers(100, 20));
}

TEST_F(GpuTest, LeavesOutLaunchesWithoutBlocks) {
  load();
  Buffer in = buffer({1}), out = buffer({5});
  int before = driver->calls("launch");
  itx_event event = 0;
  ASSERT_TRUE(launch(0, in, out, 0, 0, event).ok());
  EXPECT_NE(event, 0u);
  EXPECT_TRUE(device->wait(event).ok());
  EXPECT_EQ(driver->calls("launch"), before);
  EXPECT_EQ(numbersOf(out), Numbers{5});
}

TEST_F(GpuTest, RefusesSizesBeyondItsLimits) {
  load();
  Buffer in = buffer({1}), out = buffer({5});
  itx_event event = 0;
  Status status = launch(3, in, out, 4097, 0, event);
  EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel 'limited' (layer.0)"), HasSubstr("65552 blocks in dimension 1"),
                                      HasSubstr("[4097]"), HasSubstr("65535")));
  EXPECT_EQ(event, 0u);
  status = launch(3, in, out, -1, 0, event);
  EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT);
  status = launch(1, in, out, INT64_MAX, 0, event);
  EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("s0 8 *"));
  EXPECT_TRUE(launch(0, in, out, 1, 0, event).ok()) << "an error must not stay";
  EXPECT_EQ(numbersOf(out, event), Numbers{2});
}

TEST_F(GpuTest, RefusesLaunchesThatDoNotFitTheObject) {
  load();
  Buffer in = buffer({1});
  void *buffers[] = {in.address()};
  int64_t n = 1;
  Launch launch;
  launch.name = "add_one";
  launch.buffers = buffers;
  launch.bufferCount = 1;
  launch.sizes = &n;
  launch.sizeCount = 1;
  itx_event event = 0;
  Status status = device->dispatch(0, launch, nullptr, 0, event);
  EXPECT_EQ(status.code(), ITX_INTERNAL);
  EXPECT_THAT(status.message(), HasSubstr("is not among the kernels"));
  launch.executable = executable.get();
  status = device->dispatch(0, launch, nullptr, 0, event);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("1 buffers and 1 sizes, its object says 2 and 1"));
}

// ---- Code -----------------------------------------------------------------------------------------------------

TEST_F(GpuTest, LoadsTheBestCode) {
  GpuObject object = sampleObject();
  object.code = {{GpuCodeKind::Ptx, "fake_10", 0, {}},
                 {GpuCodeKind::Hsaco, "gfx942", 0, {}},
                 {GpuCodeKind::Cubin, "fake_10", 0, {}}};
  // Machine code of the family comes before text that the driver must compile.
  Status status = loadObject(object, {"damaged", "damaged", "family"});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(device->supports("fake_20"));
  EXPECT_TRUE(device->supports("fake_10"));
  EXPECT_FALSE(device->supports("gfx942"));
}

TEST_F(GpuTest, GoesOnWithTextWhereMachineCodeIsTooNew) {
  GpuObject object = sampleObject();
  object.code = {{GpuCodeKind::Cubin, "fake_20", 0, {}}, {GpuCodeKind::Ptx, "fake_10", 0, {}}};
  EXPECT_TRUE(loadObject(object, {"for another driver", ".version 8.0"}).ok());
  Status status = loadObject(object, {"for another driver", "damaged"});
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("cubin code for fake_20 on Fake GPU 0 (fake_20)"))
      << "the first error counts";
}

TEST_F(GpuTest, NamesWhatCodeLacks) {
  GpuObject object = sampleObject();
  object.code[0].architecture = "fake_30";
  Status status = loadObject(object, {"code"});
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("m.itx"), HasSubstr("fake_30 (cubin)"),
                                      HasSubstr("Fake GPU 0 (fake_20)"), HasSubstr("--target=fake:fake_20")));
  object.code[0] = {GpuCodeKind::Ptx, "fake_20", 0, {}};
  status = loadObject(object, {"//\n.version 9.1\n.target fake_20"});
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("PTX 9.1"), HasSubstr("Fake 2.5"), HasSubstr("up to 8.2"),
                                      HasSubstr("update the driver"), HasSubstr("FAKE_ERROR_222")));
  status = loadObject(object, {"damaged"});
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("line 3: this is damaged"));
  object = sampleObject();
  object.kernels[4].launches[0].function = "absent";
  status = loadObject(object, {"code"});
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel 'unfinished'"), HasSubstr("the function 'absent'")));
  object.kernels.pop_back();
  status = loadObject(object, {"code"});
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("lacks the kernel 'unfinished'"));
  EXPECT_TRUE(loadObject(object, {"code"}, {0, 1}).ok()) << "kernels of other devices may be missing";
  EXPECT_EQ(device->load({"m.itx", "bad", 3, &kernelNames, {0}}, executable).code(), ITX_CORRUPT);
}

TEST_F(GpuTest, SaysWhichFlagCompilesForIt) {
  DeviceInfo info = {"gpu", "fake", {{"sm_90a", 0}, {"fake_30", 0}}};
  itx_module_descriptor descriptor = {};
  itx_object objects[1] = {{"x", 1}};
  descriptor.object_count = 1;
  descriptor.objects = objects;
  const itx_object *object = nullptr;
  Status status = findObject(info, "m.itx", descriptor, *device, object);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("has code for 'gpu' in the variants sm_90a, fake_30"),
                                      HasSubstr("with --target=fake:fake_20"), HasSubstr("Fake GPU 0")));
  info.objects.push_back({"fake_10", 0});
  EXPECT_TRUE(findObject(info, "m.itx", descriptor, *device, object).ok());
  EXPECT_EQ(object, objects);
}

// ---- Copies ---------------------------------------------------------------------------------------------------

TEST_F(GpuTest, CopiesMoreThanThePinnedMemoryHolds) {
  make({.delayMicroseconds = 50});
  int64_t n = 3 * int64_t(GpuStaging::capacity) / 8 + 5;
  Numbers numbers = counted(n);
  EXPECT_EQ(numbersOf(buffer(numbers)), numbers);
  EXPECT_EQ(driver->calls("allocateHost"), 1);
}

TEST_F(GpuTest, ReadsAndWritesTheHostInTheOrderOfEvents) {
  make({.delayMicroseconds = 300});
  Buffer a = buffer(Numbers(1000, 1)), b = buffer(Numbers(1000, 2));
  for (int round = 0; round < 20; ++round) {
    Numbers host(1000, 0);
    itx_event down = 0, between = 0, up = 0;
    // The copy to b reads what the copy from a writes; an event of other work lies between them.
    ASSERT_TRUE(
        device->copy(0, host.data(), MemoryKind::Host, a.address(), MemoryKind::Device, 8000, nullptr, 0, down).ok());
    ASSERT_TRUE(device->fill(1, a.address(), 0, 0, &down, 1, between).ok());
    ASSERT_TRUE(
        device->copy(1, b.address(), MemoryKind::Device, host.data(), MemoryKind::Host, 8000, &between, 1, up).ok());
    std::fill(host.begin(), host.end(), 7); // what a copy to the device reads it has read
    EXPECT_EQ(numbersOf(b, up), Numbers(1000, 1));
    EXPECT_EQ(host, Numbers(1000, 7)) << "a copy that is done writes nothing more";
    itx_event filled = 0;
    ASSERT_TRUE(device->fill(0, b.address(), 2, 8000, nullptr, 0, filled).ok());
    ASSERT_TRUE(device->wait(filled).ok());
  }
}

TEST_F(GpuTest, WritesTheHostBeforeEventsAfterTheCopyHappen) {
  make({.delayMicroseconds = 200});
  Buffer a = buffer(Numbers(1000, 1)), b = buffer(Numbers(1000, 2));
  for (int round = 0; round < 20; ++round) {
    Numbers host(1000, 0);
    itx_event down = 0, last = 0;
    ASSERT_TRUE(
        device->copy(0, host.data(), MemoryKind::Host, a.address(), MemoryKind::Device, 8000, nullptr, 0, down).ok());
    ASSERT_TRUE(device->fill(1, b.address(), 3, 8000, &down, 1, last).ok());
    ASSERT_TRUE(device->wait(last).ok());
    EXPECT_EQ(host, Numbers(1000, 1)) << "only a later event was waited for";
  }
}

TEST_F(GpuTest, RefusesAddressesThatItDoesNotOwn) {
  Buffer a = buffer({1, 2});
  int64_t host[4] = {};
  itx_event event = 0;
  Status status = device->copy(0, a.address(), MemoryKind::Device, host, MemoryKind::Host, 32, nullptr, 0, event);
  EXPECT_EQ(status.code(), ITX_INTERNAL);
  EXPECT_THAT(status.message(), HasSubstr("the destination of a copy has 32 bytes"));
  status = device->copy(0, host, MemoryKind::Host, host, MemoryKind::Device, 8, nullptr, 0, event);
  EXPECT_THAT(status.message(), HasSubstr("the source of a copy"));
  EXPECT_EQ(device->fill(0, host, 1, 8, nullptr, 0, event).code(), ITX_INTERNAL);
  itx_event unknown = 12345;
  EXPECT_EQ(device->fill(0, a.address(), 1, 8, &unknown, 1, event).code(), ITX_INTERNAL);
  EXPECT_EQ(device->wait(unknown).code(), ITX_INTERNAL);
  EXPECT_TRUE(device->owns(a.address(), 16));
  EXPECT_FALSE(device->owns(a.address(), 17));
  EXPECT_FALSE(device->owns(host, 1));
  EXPECT_EQ(device->copy(0, host + 2, MemoryKind::Host, host, MemoryKind::Host, 16, nullptr, 0, event).code(), ITX_OK);
}

// ---- Lack of memory -------------------------------------------------------------------------------------------

TEST_F(GpuTest, SaysHowMuchMemoryThereIs) {
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

TEST_F(GpuTest, LackOfMemoryAtEachCallIsAnError) {
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

// ---- Loss -----------------------------------------------------------------------------------------------------

TEST_F(GpuTest, AFaultNamesItsKernel) {
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

TEST_F(GpuTest, AFaultAmongManyLaunchesNamesThemAll) {
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

TEST_F(GpuTest, LaunchesCanBeWaitedForOneByOne) {
  ScopedVariable variable("ITX_GPU_SYNCHRONOUS", "1");
  load();
  Buffer in = buffer({1}), out = buffer({2});
  itx_event event = 0;
  ASSERT_TRUE(launch(0, in, out, 1, 0, event).ok());
  Status status = launch(2, in, out, 1, 0, event);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_THAT(status.message(), HasSubstr("kernel 'fault' (layer.0) was running"));
}

TEST_F(GpuTest, ChecksTheEnvironment) {
  EXPECT_TRUE(device->checkEnvironment().ok());
  ScopedVariable variable("ITX_GPU_SYNCHRONOUS", "yes");
  Status status = device->checkEnvironment();
  EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ITX_GPU_SYNCHRONOUS"), HasSubstr("'yes'")));
}

TEST_F(GpuTest, LossAtEachCallIsAStatus) {
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

TEST_F(GpuTest, FreeingWhatIsNotAllocatedLosesTheDevice) {
  Buffer a = buffer({1});
  device->release(static_cast<uint8_t *>(a.address()) + 8);
  void *address = nullptr;
  Status status = device->allocate(8, address);
  EXPECT_EQ(status.code(), ITX_DEVICE_LOST);
  EXPECT_THAT(status.message(), HasSubstr("was freed, where nothing is allocated"));
}

TEST_F(GpuTest, ChildrenOfAForkGetAnError) {
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

// ---- What it says about itself --------------------------------------------------------------------------------

TEST_F(GpuTest, DescribesItself) {
  Json info;
  ASSERT_TRUE(parseJson(device->info(), "info", info).ok());
  EXPECT_EQ(info["variant"], "fake_20");
  EXPECT_EQ(info["driver"], "Fake 2.5");
  EXPECT_EQ(info["pci_bus"], "0000:00:00.0");
  EXPECT_EQ(driver->calls("open"), 0) << "describing a device costs nothing on it";
  GpuDevice second(*driver, 1, propertiesOf(*driver));
  EXPECT_STREQ(second.name(), "fake:1");
  EXPECT_STREQ(second.kind(), "fake");
}

TEST_F(GpuTest, DriversListTheirDevices) {
  FakeDriver two({.devices = 2});
  FoundGpus found = makeGpuDevices(two);
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_STREQ(found.devices[1]->name(), "fake:1");
  EXPECT_EQ(found.problem, "");
  for (Device *each : found.devices)
    delete each;
  two.failAt("readProperties", 1, GpuFailure::Other);
  found = makeGpuDevices(two);
  ASSERT_EQ(found.devices.size(), 1u);
  EXPECT_STREQ(found.devices[0]->name(), "fake:1") << "the driver's numbers stay";
  EXPECT_THAT(found.problem, HasSubstr("device 0 of kind fake does not say what it is: readProperties"));
  for (Device *each : found.devices)
    delete each;
  two.failAt("countDevices", 1, GpuFailure::Other);
  found = makeGpuDevices(two);
  EXPECT_TRUE(found.devices.empty());
  EXPECT_THAT(found.problem, HasSubstr("countDevices"));
}

TEST_F(GpuTest, ProfilesHaveItsWork) {
  make({.delayMicroseconds = 100});
  load();
  Buffer in = buffer(counted(10)), out = buffer(Numbers(10, 0));
  TemporaryFolder folder;
  startProfile();
  int64_t begin = profileClockNs();
  itx_event event = 0;
  ASSERT_TRUE(launch(1, in, out, 10, 0, event).ok());
  numbersOf(out, event);
  int64_t end = profileClockNs();
  ASSERT_TRUE(stopProfile(folder / "trace.json").ok());
  Json trace;
  ASSERT_TRUE(parseJson(readFile(folder / "trace.json"), "trace", trace).ok());
  std::map<std::string, Json> work;
  for (const Json &one : trace["traceEvents"])
    if (one["ph"] == "X")
      work[one["name"]] = one;
  ASSERT_TRUE(work.contains("double") && work.contains("copy")) << jsonText(trace);
  EXPECT_EQ(work["double"]["args"]["label"], "layer.0");
  EXPECT_EQ(work["double"]["args"]["device"], "fake");
  EXPECT_EQ(work["copy"]["args"]["label"], "80 bytes");
  double span = double(end - begin) / 1e3, slack = 2000; // microseconds; another thread may run between two clocks
  for (const char *name : {"double", "copy"}) {
    EXPECT_GE(work[name]["dur"].get<double>(), 0.0);
    EXPECT_LE(work[name]["ts"].get<double>() + work[name]["dur"].get<double>(), span + slack) << jsonText(trace);
  }
  EXPECT_LE(work["double"]["ts"].get<double>() + work["double"]["dur"].get<double>(),
            work["copy"]["ts"].get<double>() + work["copy"]["dur"].get<double>());
}
