//===- GpuTest.h - A GPU behind a driver that stands in for a vendor's ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIME_GPU_GPUTEST_H
#define INTARSIA_TEST_UNIT_RUNTIME_GPU_GPUTEST_H

#include "lib/Runtime/Core/BoundDevice.h"
#include "lib/Runtime/GPU/GpuDevice.h"
#include "test/unit/Runtime/GPU/FakeDriver.h"
#include "test/unit/Testing.h"

#include <numeric>

namespace intarsia::testing {

using namespace intarsia::runtime;

using Numbers = std::vector<int64_t>;

inline GpuProperties propertiesOf(FakeDriver &driver) {
  GpuProperties properties;
  EXPECT_TRUE(driver.readProperties(0, properties).ok());
  return properties;
}

/// Adds a number to each element: arguments are an input, an output, the count, the scratch.
inline bool addOne(FakeDriver &driver, const GpuGrid &, const FakeArguments &arguments) {
  int64_t n = int64_t(arguments[2]);
  auto *in = static_cast<int64_t *>(driver.resolve(arguments[0], 8 * n));
  auto *out = static_cast<int64_t *>(driver.resolve(arguments[1], 8 * n));
  for (int64_t i = 0; in && out && i < n; ++i)
    out[i] = in[i] + 1;
  return in && out;
}

/// Writes twice the input to the scratch.
inline bool doubleToScratch(FakeDriver &driver, const GpuGrid &grid, const FakeArguments &arguments) {
  int64_t n = int64_t(arguments[2]);
  auto *in = static_cast<int64_t *>(driver.resolve(arguments[0], 8 * n));
  auto *scratch = static_cast<int64_t *>(driver.resolve(arguments[3], 8 * n));
  for (int64_t i = 0; in && scratch && i < n; ++i)
    scratch[i] = 2 * in[i];
  return in && scratch && grid.sharedBytes == 65536;
}

/// Copies the scratch to the output.
inline bool copyScratch(FakeDriver &driver, const GpuGrid &grid, const FakeArguments &arguments) {
  int64_t n = int64_t(arguments[2]);
  auto *scratch = static_cast<int64_t *>(driver.resolve(arguments[3], 8 * n));
  auto *out = static_cast<int64_t *>(driver.resolve(arguments[1], 8 * n));
  for (int64_t i = 0; scratch && out && i < n; ++i)
    out[i] = scratch[i];
  return scratch && out && int64_t(grid.blocks[0]) == (n + 31) / 32 && grid.threads[0] == 32;
}

/// Adds a number to each element of the input that a tensor map describes, behind the scratch: an input, its rows and
/// columns, bytes of an element, rows and columns of a box, and the swizzle.
inline bool addOneByMap(FakeDriver &driver, const GpuGrid &grid, const FakeArguments &arguments) {
  FakeArguments simple(arguments.begin(), arguments.begin() + 4);
  uint64_t rows = arguments[2] / 2;
  FakeArguments map(arguments.begin() + 4, arguments.end());
  if (map != FakeArguments{arguments[0], rows, 4, 4, 8, 32, 128})
    return false;
  return addOne(driver, grid, simple);
}

inline bool fault(FakeDriver &, const GpuGrid &, const FakeArguments &) { return false; }

inline GpuLaunch launchOf(const char *function, const char *blocks = "s0 32 ceildiv", const char *shared = "0") {
  return {function,
          {parseSizeExpression(blocks), parseSizeExpression("1"), parseSizeExpression("1")},
          {32, 1, 1},
          parseSizeExpression(shared)};
}

/// The kernels of the object: 0 adds one, 1 doubles by way of the scratch, 2 faults, 3 has limits, 5 adds one to what a
/// tensor map describes, rows of four words.
inline GpuObject sampleObject() {
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
  object.kernels.push_back({5, 2, 1, parseSizeExpression("0"), {launchOf("add_one_by_map")}});
  object.kernels[5].launches[0].tensorMaps = {
      {0, 4, parseSizeExpression("s0 2 floordiv"), parseSizeExpression("4"), 8, 32, 128}};
  return object;
}

inline const std::vector<std::string> kernelNames = {"add_one", "double",     "fault",
                                                     "limited", "unfinished", "add_one_by_map"};

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
    driver->addFunction("add_one_by_map", 4, addOneByMap, /*tensorMaps=*/1);
    device = std::make_unique<GpuDevice>(*driver, 0, propertiesOf(*driver));
  }
  void SetUp() override { make(); }
  void TearDown() override {
    executable.reset();
    device.reset();
  }

  Status loadObject(const GpuObject &object, const std::vector<std::string_view> &code,
                    std::vector<uint32_t> wanted = {0, 1, 2, 3, 4, 5}) {
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

inline Numbers counted(int64_t n) {
  Numbers numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

} // namespace intarsia::testing

#endif
