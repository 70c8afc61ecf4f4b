//===- GpuDeviceTest.cpp - Kernels, code and copies of GPUs ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything but the calls of a vendor's driver: FakeDriver stands in for that.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuDevice.h"

#include "lib/Runtime/Core/Profile.h"
#include "lib/Support/Json.h"
#include "test/unit/Runtime/GPU/GpuTest.h"

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

using GpuDeviceTest = GpuTest;

// ---- Kernels ---------------------------------------------------------------------------------------------------

TEST_F(GpuDeviceTest, RunsLaunchesInOrderWithScratch) {
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

TEST_F(GpuDeviceTest, QueuesWaitForEachOther) {
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

TEST_F(GpuDeviceTest, LeavesOutLaunchesWithoutBlocks) {
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

TEST_F(GpuDeviceTest, FunctionsTakeTensorMaps) {
  load();
  Buffer in = buffer(counted(40)), out = buffer(Numbers(40));
  itx_event event = 0;
  Status status = launch(5, in, out, 40, 0, event);
  ASSERT_TRUE(status.ok()) << status.message();
  Numbers expected = counted(40);
  for (int64_t &value : expected)
    ++value;
  EXPECT_EQ(numbersOf(out, event), expected);
  EXPECT_EQ(driver->calls("describeTensor"), 1);
  // Nothing is described where there are no blocks, and a matrix without rows is none.
  ASSERT_TRUE(launch(5, in, out, 0, 0, event).ok());
  EXPECT_EQ(driver->calls("describeTensor"), 1);
  status = launch(5, in, out, 1, 0, event);
  EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(),
              HasSubstr("operand 0 has s0 2 floordiv rows of 4 elements of 4 bytes for the sizes [1]"));
}

TEST_F(GpuDeviceTest, NamesDriversWithoutTensorMaps) {
  make({.hasTensorMaps = false});
  load();
  Buffer in = buffer(counted(40)), out = buffer(Numbers(40));
  itx_event event = 0;
  Status status = launch(5, in, out, 40, 0, event);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(),
              HasSubstr("kernel 'add_one_by_map' (layer.0): function 'add_one_by_map' copies by tensor "
                        "maps, which the driver, Fake 2.5, cannot make: update it"));
  EXPECT_TRUE(launch(0, in, out, 40, 0, event).ok()) << "other kernels run";
}

TEST_F(GpuDeviceTest, RefusesSizesBeyondItsLimits) {
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

TEST_F(GpuDeviceTest, RefusesLaunchesThatDoNotFitTheObject) {
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

// ---- Code ------------------------------------------------------------------------------------------------------

TEST_F(GpuDeviceTest, LoadsTheBestCode) {
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

TEST_F(GpuDeviceTest, GoesOnWithTextWhereMachineCodeIsTooNew) {
  GpuObject object = sampleObject();
  object.code = {{GpuCodeKind::Cubin, "fake_20", 0, {}}, {GpuCodeKind::Ptx, "fake_10", 0, {}}};
  EXPECT_TRUE(loadObject(object, {"for another driver", ".version 8.0"}).ok());
  Status status = loadObject(object, {"for another driver", "damaged"});
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("cubin code for fake_20 on Fake GPU 0 (fake_20)"))
      << "the first error counts";
}

TEST_F(GpuDeviceTest, NamesWhatCodeLacks) {
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
  object.kernels.erase(object.kernels.begin() + 4);
  status = loadObject(object, {"code"});
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("lacks the kernel 'unfinished'"));
  EXPECT_TRUE(loadObject(object, {"code"}, {0, 1}).ok()) << "kernels of other devices may be missing";
  EXPECT_EQ(device->load({"m.itx", "bad", 3, &kernelNames, {0}}, executable).code(), ITX_CORRUPT);
}

TEST_F(GpuDeviceTest, SaysWhichFlagCompilesForIt) {
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

// ---- Copies ----------------------------------------------------------------------------------------------------

TEST_F(GpuDeviceTest, CopiesMoreThanThePinnedMemoryHolds) {
  make({.delayMicroseconds = 50});
  int64_t n = 3 * int64_t(GpuStaging::capacity) / 8 + 5;
  Numbers numbers = counted(n);
  EXPECT_EQ(numbersOf(buffer(numbers)), numbers);
  EXPECT_EQ(driver->calls("allocateHost"), 1);
}

TEST_F(GpuDeviceTest, ReadsAndWritesTheHostInTheOrderOfEvents) {
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

TEST_F(GpuDeviceTest, WritesTheHostBeforeEventsAfterTheCopyHappen) {
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

TEST_F(GpuDeviceTest, RefusesAddressesThatItDoesNotOwn) {
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

// ---- What it says about itself ---------------------------------------------------------------------------------

TEST_F(GpuDeviceTest, DescribesItself) {
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

TEST_F(GpuDeviceTest, DriversListTheirDevices) {
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

TEST_F(GpuDeviceTest, ProfilesHaveItsWork) {
  make({.delayMicroseconds = 100});
  load();
  Buffer in = buffer(counted(10)), out = buffer(Numbers(10, 0));
  TemporaryFolder folder;
  int64_t begin = profileClockNs(); // before the profile, whose times count from its start
  startProfile();
  itx_event event = 0;
  ASSERT_TRUE(launch(1, in, out, 10, 0, event).ok());
  numbersOf(out, event);
  ASSERT_TRUE(stopProfile(folder / "trace.json").ok());
  int64_t end = profileClockNs();
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
