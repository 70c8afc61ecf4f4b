//===- EmulatedDeviceTest.cpp - Objects of GPUs on the emulated device -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/EmulatedDevice.h"

#include "lib/Runtime/Emulated/EmulatedSettings.h"
#include "lib/Support/Json.h"
#include "test/unit/Testing.h"

#include <cmath>
#include <elf.h>
#include <numeric>

using namespace intarsia;
using namespace intarsia::runtime;
using intarsia::testing::readFile;
using intarsia::testing::replaced;
using intarsia::testing::ScopedVariable;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

const std::vector<std::string> kernelNames = {"add", "elsewhere", "sum", "describe", "race", "undefined"};
constexpr uint32_t addKernel = 0, sumKernel = 2, describeKernel = 3, raceKernel = 4, undefinedKernel = 5;

std::array<SizeExpression, 3> grid(const char *x) {
  return {parseSizeExpression(x), parseSizeExpression("1"), parseSizeExpression("1")};
}

/// The object of the kernels in object.c.
GpuObject describeObject(const std::string &architecture = "sm_80") {
  GpuObject object;
  object.architecture = architecture;
  object.code = {{GpuCodeKind::Host, architecture, 0, {}}};
  object.kernels = {
      {addKernel, 3, 1, parseSizeExpression("0"), {{"add", grid("s0 64 ceildiv"), {64, 1, 1}}}},
      {sumKernel,
       2,
       1,
       parseSizeExpression("s0 64 ceildiv 4 *"),
       {{"sum_blocks", grid("s0 64 ceildiv"), {64, 1, 1}, parseSizeExpression("128")},
        {"sum_sums", grid("1"), {1, 1, 1}}}},
      {describeKernel,
       1,
       1,
       parseSizeExpression("64"),
       {{"describe", grid("1"), {1, 1, 1}, parseSizeExpression("s0 4 *")}}},
      {raceKernel, 1, 1, parseSizeExpression("0"), {{"race", grid("1"), {128, 1, 1}, parseSizeExpression("s0 4 *")}}},
      {undefinedKernel, 1, 1, parseSizeExpression("0"), {{"race", grid("s0 100 floordiv -1 *"), {1, 1, 1}}}},
  };
  object.functions = {{"sum_blocks", 20, 0, 128}, {"describe", {}, {}, {}}};
  return object;
}

std::string objectBytes(const GpuObject &object, const std::vector<std::string_view> &code) {
  std::string bytes;
  Status status = writeGpuObject(object, code, bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

const std::string &hostCode() {
  static const std::string code = readFile(ITX_TEST_EMULATED_OBJECT);
  return code;
}
const std::string &checkedCode() {
  static const std::string code = readFile(ITX_TEST_EMULATED_CHECKED_OBJECT);
  return code;
}

Status load(const std::string &bytes, std::unique_ptr<Executable> &executable,
            std::vector<uint32_t> wanted = {addKernel, sumKernel, describeKernel, raceKernel, undefinedKernel}) {
  ExecutableSource source;
  source.name = "model.itx";
  source.object = bytes.data();
  source.bytes = bytes.size();
  source.kernels = &kernelNames;
  source.wanted = std::move(wanted);
  return EmulatedObject::load(source, {}, executable);
}

class EmulatedDeviceTest : public ::testing::Test {
protected:
  static HostedSettings settings() {
    HostedSettings result;
    result.memoryBytes = 64 << 20;
    return result;
  }
  static MachineSettings machine(Schedule schedule) {
    MachineSettings result;
    result.schedule = schedule;
    return result;
  }

  /// Loads the kernels on a device.
  void use(const std::string &code = hostCode(), const std::string &architecture = "sm_80",
           Schedule schedule = Schedule::Lockstep) {
    executable.reset();
    device = std::make_unique<EmulatedDevice>(settings(), machine(schedule));
    std::string bytes = objectBytes(describeObject(architecture), {code});
    ExecutableSource source = {"model.itx", bytes.data(), bytes.size(), &kernelNames, {}};
    source.wanted = {addKernel, sumKernel, describeKernel, raceKernel, undefinedKernel};
    Status status = device->load(source, executable);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Status finish(Status status, itx_event event) { return status.ok() ? device->wait(event) : status; }

  Buffer upload(const std::vector<float> &values) {
    Buffer buffer;
    EXPECT_TRUE(Buffer::make(*device, values.size() * 4, buffer).ok());
    itx_event event = 0;
    Status status = device->copy(0, buffer.address(), MemoryKind::Device, values.data(), MemoryKind::Host,
                                 values.size() * 4, nullptr, 0, event);
    EXPECT_TRUE(finish(status, event).ok());
    return buffer;
  }
  std::vector<float> download(const Buffer &buffer) {
    std::vector<float> values(buffer.bytes() / 4);
    itx_event event = 0;
    Status status = device->copy(0, values.data(), MemoryKind::Host, buffer.address(), MemoryKind::Device,
                                 buffer.bytes(), nullptr, 0, event);
    EXPECT_TRUE(finish(status, event).ok());
    return values;
  }

  /// Runs a kernel and waits for it.
  Status run(uint32_t kernel, const std::vector<const Buffer *> &operands, std::vector<int64_t> sizes,
             uint32_t queue = 0) {
    std::vector<void *> buffers;
    for (const Buffer *operand : operands)
      buffers.push_back(operand->address());
    Launch launch;
    launch.executable = executable.get();
    launch.kernel = kernel;
    launch.name = kernelNames[kernel].c_str();
    launch.label = "layer.3";
    launch.buffers = buffers.data();
    launch.bufferCount = uint32_t(buffers.size());
    launch.sizes = sizes.data();
    launch.sizeCount = uint32_t(sizes.size());
    itx_event event = 0;
    return finish(device->dispatch(queue, launch, nullptr, 0, event), event);
  }

  std::unique_ptr<Executable> executable;
  std::unique_ptr<EmulatedDevice> device;
};

TEST_F(EmulatedDeviceTest, KernelsComputeOnAllSizes) {
  for (const std::string *code : {&hostCode(), &checkedCode()})
    for (Schedule schedule : {Schedule::Lockstep, Schedule::Greedy, Schedule::GreedyReversed}) {
      use(*code, "sm_80", schedule);
      for (int64_t n : {1, 63, 64, 65, 1000, 10000}) {
        std::vector<float> x(n), y(n), expected(n);
        float sum = 0;
        for (int64_t i = 0; i < n; ++i) {
          x[i] = float(i % 100), y[i] = float(3 * i), expected[i] = std::cbrt(x[i]) + y[i];
          sum += x[i];
        }
        Buffer left = upload(x), right = upload(y), result = upload(std::vector<float>(n, -1)), total = upload({-1});
        Status status = run(addKernel, {&left, &right, &result}, {n});
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(download(result), expected) << n;
        status = run(sumKernel, {&left, &total}, {n}, uint32_t(n));
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(download(total), std::vector<float>{sum}) << n;
      }
    }
}

TEST_F(EmulatedDeviceTest, NothingIsLaunchedForNoBlocks) {
  use();
  Buffer x = upload({1}), y = upload({2}), z = upload({3});
  EXPECT_TRUE(run(addKernel, {&x, &y, &z}, {0}).ok());
  EXPECT_EQ(download(z), std::vector<float>{3});
}

TEST_F(EmulatedDeviceTest, ArchitecturesHaveTheirWarps) {
  for (auto [architecture, warp] :
       {std::pair("sm_80", 32), {"sm_90a", 32}, {"gfx942", 64}, {"gfx90a", 64}, {"gfx1100", 32}, {"gfx1201", 32}}) {
    use(hostCode(), architecture);
    EXPECT_TRUE(device->supports(architecture));
    Buffer out = upload({0, 0, 0, 0});
    for (int round = 0; round < 2; ++round) {
      Status status = run(describeKernel, {&out}, {100});
      ASSERT_TRUE(status.ok()) << status.message();
      std::vector<float> facts = download(out);
      EXPECT_EQ(facts[0], float(warp)) << architecture;
      for (int i : {1, 2, 3})
        EXPECT_TRUE(std::isnan(facts[i])) << "scratch and shared memory start with NaN: " << i;
    }
  }
  for (const char *other : {"", "sm_", "gfx", "gfx9", "gfx803", "znver5", "x86_64-unknown-linux-gnu"})
    EXPECT_FALSE(device->supports(other)) << other;
}

TEST_F(EmulatedDeviceTest, SchedulesShowMissingBarriers) {
  int right = 0;
  for (Schedule schedule : {Schedule::Greedy, Schedule::GreedyReversed}) {
    use(hostCode(), "sm_80", schedule);
    Buffer out = upload(std::vector<float>(128, -1));
    Status status = run(raceKernel, {&out}, {128});
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> expected(128);
    std::iota(expected.rbegin(), expected.rend(), 0.0f);
    right += download(out) == expected;
  }
  EXPECT_EQ(right, 0);
}

TEST_F(EmulatedDeviceTest, AccessesOutOfBoundsNameTheOperand) {
  use(checkedCode());
  Buffer x = upload(std::vector<float>(100)), y = upload(std::vector<float>(100)), z = upload(std::vector<float>(80));
  Status status = run(addKernel, {&x, &y, &z}, {100});
  EXPECT_EQ(status.code(), ITX_INTERNAL);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel 'add' (layer.3), block [1, 0, 0], thread [16, 0, 0]: stores 4 "
                                                "bytes at"),
                                      HasSubstr("operand 2, at offset 320 of its 320 bytes")));
  EXPECT_TRUE(run(addKernel, {&x, &y, &z}, {80}).ok()) << "an error must not stay";
}

TEST_F(EmulatedDeviceTest, ImpossibleLaunchesAreRefused) {
  use();
  Buffer x = upload({1});
  EXPECT_THAT(run(addKernel, {&x}, {1}).message(), HasSubstr("with 1 buffers and 1 sizes, its object says 3 and 1"));
  EXPECT_THAT(run(1, {&x}, {1}).message(), HasSubstr("is not among the kernels that the emulated device has loaded"));
  EXPECT_THAT(run(undefinedKernel, {&x}, {250}).message(),
              HasSubstr("kernel 'undefined' (layer.3): its grid, 's0 100 floordiv -1 *', is -2 for the sizes [250]"));
  EXPECT_THAT(run(sumKernel, {&x, &x}, {int64_t(1) << 40}).message(), HasSubstr("has no 68719476736 bytes left"));
  EXPECT_THAT(run(describeKernel, {&x}, {INT64_MAX}).message(),
              HasSubstr("its shared memory, 's0 4 *', is not defined for the sizes [9223372036854775807]"));
}

TEST_F(EmulatedDeviceTest, ThreadsAreThoseOfTheProgram) {
  use();
  EXPECT_GE(device->threads(), 1);
  EXPECT_LE(device->threads(), 16);
  ASSERT_TRUE(device->setThreads(3).ok());
  EXPECT_EQ(device->threads(), 3);
  std::vector<float> x(100000, 1);
  Buffer in = upload(x), total = upload({0});
  ASSERT_TRUE(run(sumKernel, {&in, &total}, {100000}).ok());
  EXPECT_EQ(download(total), std::vector<float>{100000});
  EXPECT_FALSE(device->setThreads(-1).ok());
}

// ---- Objects ---------------------------------------------------------------------------------------------------

TEST(EmulatedObject, MissingPartsAreNamed) {
  std::unique_ptr<Executable> executable;
  GpuObject object = describeObject();
  Status status = load(objectBytes(object, {hostCode()}), executable, {addKernel, 1});
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("model.itx: its code for the emulated device: lacks kernel 'elsewhere'"));
  object.kernels[0].launches[0].function = "subtract";
  status = load(objectBytes(object, {hostCode()}), executable);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("lacks the function 'subtract' of kernel 'add'"));
  EXPECT_FALSE(executable);
}

TEST(EmulatedObject, CodeForTheHostIsWanted) {
  std::unique_ptr<Executable> executable;
  GpuObject object = describeObject("sm_90a");
  object.code = {{GpuCodeKind::Cubin, "sm_90a", 0, {}}, {GpuCodeKind::Ptx, "sm_80", 0, {}}};
  Status status = load(objectBytes(object, {"cubin", ".version 8.0"}), executable);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("has no code for the host, only cubin, ptx: compile the model for the target "
                                          "emulated:sm_90a"));
  std::string foreign = hostCode();
  Elf64_Ehdr header;
  std::memcpy(&header, foreign.data(), sizeof(header));
  header.e_machine = header.e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  std::memcpy(foreign.data(), &header, sizeof(header));
  object.code = {{GpuCodeKind::Host, "sm_90a", 0, {}}};
  status = load(objectBytes(object, {foreign}), executable);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("this machine is"));
  object.code = {{GpuCodeKind::Host, "sm_90a", 0, {}}, {GpuCodeKind::Host, "sm_90a", 0, {}}};
  status = load(objectBytes(object, {foreign, hostCode()}), executable);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(EmulatedObject, WrongOnesAreRefused) {
  std::unique_ptr<Executable> executable;
  std::string bytes = objectBytes(describeObject(), {hostCode()});
  for (size_t size : {size_t(0), size_t(30), bytes.size() / 2, bytes.size() - 1})
    EXPECT_EQ(load(bytes.substr(0, size), executable).code(), ITX_CORRUPT) << size;
  EXPECT_EQ(load(hostCode(), executable).code(), ITX_CORRUPT);
  Status status = load(objectBytes(describeObject("vax"), {hostCode()}), executable);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("is for the architecture 'vax'"));
  std::string code = hostCode();
  for (size_t at; (at = code.find(std::string("cbrtf", 6))) != std::string::npos;)
    code.replace(at, 5, "cbrtq");
  status = load(objectBytes(describeObject(), {code}), executable);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("calls the function 'cbrtq', which the device does not offer"));
}

TEST(EmulatedObject, ImportsAreThoseOfTheHeader) {
  for (const char *name :
       {"itx_emulated_barrier", "itx_emulated_mma", "itx_emulated_wgmma", "itx_emulated_trap", "expf", "fma"})
    EXPECT_NE(findEmulatedImport(name), nullptr) << name;
  for (const char *name : {"", "barrier", "itx_emulated_", "itx_emulated_imports", "malloc", "system"})
    EXPECT_EQ(findEmulatedImport(name), nullptr) << name;
  // Each function that the header declares can be imported.
  std::string header = readFile(ITX_TEST_EMULATED_HEADER);
  int declared = 0;
  for (size_t at = 0; (at = header.find("itx_emulated_", at)) != std::string::npos;) {
    size_t end = header.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
    std::string name = header.substr(at, end - at);
    if (header[end] == '(') {
      ++declared;
      EXPECT_NE(findEmulatedImport(name), nullptr) << name;
    }
    at = end;
  }
  EXPECT_EQ(declared, 37);
}

// ---- Settings --------------------------------------------------------------------------------------------------

TEST(EmulatedSettings, AreReadFromTheEnvironment) {
  ScopedVariable schedule("ITX_EMULATED_SCHEDULE", "greedy-reversed"), stack("ITX_EMULATED_STACK_BYTES", "131072"),
      unwritten("ITX_EMULATED_UNWRITTEN", "allow"), memory("ITX_EMULATED_MEMORY_BYTES", "123456");
  MachineSettings settings;
  Status status = readMachineSettings(settings);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(settings.schedule, Schedule::GreedyReversed);
  EXPECT_EQ(settings.stackBytes, 131072u);
  EXPECT_FALSE(settings.refusesUnwritten);
  EXPECT_THAT(EmulatedDevice().info(), HasSubstr("\"memory_bytes\":123456"));
}

TEST(EmulatedSettings, AreThoseOfEachLoading) {
  EmulatedDevice device;
  std::string bytes = objectBytes(describeObject("sm_80"), {hostCode()});
  auto load = [&](std::unique_ptr<Executable> &executable) {
    ExecutableSource source = {"model.itx", bytes.data(), bytes.size(), &kernelNames, {addKernel}};
    return device.load(source, executable);
  };
  auto scheduleOf = [](const std::unique_ptr<Executable> &executable) {
    return dynamic_cast<const EmulatedObject &>(*executable).settings().schedule;
  };
  std::unique_ptr<Executable> first, second, third;
  ASSERT_TRUE(load(first).ok());
  {
    ScopedVariable schedule("ITX_EMULATED_SCHEDULE", "greedy");
    ASSERT_TRUE(load(second).ok());
  }
  EXPECT_EQ(scheduleOf(first), Schedule::Lockstep);
  EXPECT_EQ(scheduleOf(second), Schedule::Greedy);
  ScopedVariable schedule("ITX_EMULATED_SCHEDULE", "random");
  EXPECT_EQ(load(third).code(), ITX_INVALID_ARGUMENT);
}

TEST(EmulatedSettings, InvalidOnesAreNamed) {
  auto check = [](const char *name, const char *value, const char *wanted) {
    ScopedVariable variable(name, value);
    EmulatedDevice device;
    void *address = nullptr;
    for (Status status : {device.checkEnvironment(), device.allocate(1, address)}) {
      EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT) << value;
      EXPECT_THAT(status.message(), HasSubstr(std::string("the environment variable ") + name + " is '" + value + "'"));
      EXPECT_THAT(status.message(), HasSubstr(wanted));
    }
  };
  check("ITX_EMULATED_SCHEDULE", "random", "one of lockstep, greedy, greedy-reversed is wanted");
  check("ITX_EMULATED_UNWRITTEN", "yes", "one of refuse, allow is wanted");
  for (const char *value : {"0", "32767", "x", "67108865"})
    check("ITX_EMULATED_STACK_BYTES", value, "a number from 32768 to 67108864 is wanted");
  check("ITX_EMULATED_QUEUES", "65", "a number from 1 to 64 is wanted");
  check("ITX_EMULATED_FAIL", "fire:1", "the emulated device's command");
}

} // namespace
