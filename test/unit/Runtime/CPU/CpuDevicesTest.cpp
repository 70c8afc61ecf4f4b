//===- CpuDevicesTest.cpp - Modules that divide the host's CPU -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Modules.h"

#include "lib/Support/Json.h"
#include "lib/Support/MachineLimits.h"

#include <fstream>
#include <map>
#include <sched.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

struct FreeDevice {
  void operator()(itx_device *device) const { itx_device_free(device); }
};
using DevicePointer = std::unique_ptr<itx_device, FreeDevice>;

DevicePointer cpu(int32_t threads, const std::vector<int32_t> &processors = {}) {
  itx_device_options options = {sizeof(options), threads, processors.data(), processors.size()};
  itx_device *device = nullptr;
  EXPECT_EQ(itx_device_create("cpu", &options, &device), ITX_OK) << itx_last_error();
  return DevicePointer(device);
}

/// Returns the threads of this process whose names begin with a text.
std::vector<pid_t> threadsNamed(const std::string &beginning) {
  std::vector<pid_t> found;
  std::error_code gone; // a thread may end meanwhile
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.starts_with(beginning))
      found.push_back(pid_t(std::stol(task.path().filename())));
  }
  return found;
}

/// Returns the number of such threads; waits for a while if it is not the expected one, because a thread names itself
/// when it first runs.
size_t countThreads(const std::string &beginning, size_t expected) {
  size_t count = threadsNamed(beginning).size();
  for (int attempt = 0; attempt < 500 && count != expected; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    count = threadsNamed(beginning).size();
  }
  return count;
}

std::string workersOf(const DevicePointer &device) {
  return "itx-" + std::string(itx_device_get_name(device.get())) + "-";
}

Json infoOf(const DevicePointer &device) {
  Json info;
  EXPECT_TRUE(parseJson(itx_device_get_info(device.get()), "info", info).ok());
  return info;
}

class CpuDevices : public ModuleTest {
protected:
  ModulePointer loadOn(const DevicePointer &device) {
    itx_device *handles[] = {device.get()};
    itx_load_options options = {};
    options.device_handles = handles;
    options.device_handle_count = 1;
    return load(writeSample(folder), options);
  }

  static bool isCalled(const ModulePointer &module, int64_t rows) {
    TensorPointer ids = idsOf(1, rows), output;
    return invoke(find(module, "main"), {ids.get()}, output) == ITX_OK && isRight(ids, output);
  }
};

} // namespace

TEST_F(CpuDevices, HaveNamesAndThreadsOfTheirOwn) {
  DevicePointer two = cpu(2), three = cpu(3), usual = cpu(0);
  EXPECT_STRNE(itx_device_get_name(two.get()), itx_device_get_name(three.get()));
  EXPECT_THAT(itx_device_get_name(two.get()), HasSubstr("cpu"));
  EXPECT_EQ(infoOf(two)["threads"], 2);
  EXPECT_EQ(infoOf(three)["threads"], 3);
  EXPECT_EQ(infoOf(usual)["threads"], Json::parse(itx_device_info(0))["threads"]);
  EXPECT_EQ(infoOf(two)["name"], itx_device_get_name(two.get()));
  EXPECT_EQ(itx_device_count(), 4u) << "devices that are made are not the machine's";
}

TEST_F(CpuDevices, DivideTheMachineBetweenModules) {
  DevicePointer small = cpu(2), large = cpu(4);
  ModulePointer first = loadOn(small), second = loadOn(large);
  size_t others = threadsNamed("itx-").size();
  EXPECT_TRUE(threadsNamed(workersOf(small)).empty()) << "no call has needed them";
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (const ModulePointer *module : {&first, &second})
    callers.emplace_back([&, module] {
      for (int64_t round = 0; round < 200; ++round)
        failures += !isCalled(*module, 100 + round);
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(failures.load(), 0);
  EXPECT_EQ(countThreads(workersOf(small), 1), 1u) << "the caller is the other thread";
  EXPECT_EQ(countThreads(workersOf(large), 3), 3u);
  EXPECT_EQ(countThreads("itx-", others + 4), others + 4) << "the threads of other devices had nothing to do";
}

TEST_F(CpuDevices, TakeTheirThreadsIntoEachLaunch) {
  DevicePointer device = cpu(3);
  ModulePointer module = loadOn(device);
  ASSERT_EQ(itx_set_threads(1), ITX_OK) << "which is about another device";
  ASSERT_EQ(itx_profile_start(), ITX_OK);
  EXPECT_TRUE(isCalled(module, 50));
  ASSERT_EQ(itx_profile_stop((folder / "t.json").c_str()), ITX_OK) << itx_last_error();
  ASSERT_EQ(itx_set_threads(0), ITX_OK);
  size_t kernels = 0;
  Json profile = Json::parse(readFile(folder / "t.json"));
  for (const Json &event : profile["traceEvents"])
    if (event.value("cat", "") == "kernel") {
      EXPECT_EQ(event["args"]["threads"], 3);
      ++kernels;
    }
  EXPECT_GT(kernels, 0u);
}

TEST_F(CpuDevices, LiveAsLongAsAModuleUsesThem) {
  DevicePointer device = cpu(3);
  std::string threads = "itx-" + std::string(itx_device_get_name(device.get())) + "-";
  ModulePointer module = loadOn(device), other = loadOn(device);
  device.reset();
  EXPECT_TRUE(isCalled(module, 100));
  EXPECT_EQ(countThreads(threads, 2), 2u);
  module.reset();
  EXPECT_TRUE(isCalled(other, 100));
  EXPECT_EQ(countThreads(threads, 2), 2u) << "both modules use the same threads";

  // A call in flight keeps its module, and that the device.
  HeldMask mask(100);
  TensorPointer ids = idsOf(1, 100);
  itx_tensor *inputs[] = {ids.get(), mask.get()}, *made = nullptr;
  itx_pending *pending = nullptr;
  ASSERT_EQ(itx_invoke_start(find(other, "main"), inputs, 2, &pending), ITX_OK) << itx_last_error();
  other.reset();
  mask.release();
  ASSERT_EQ(itx_pending_wait(pending, &made, 1), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isRight(ids, TensorPointer(made)));
  EXPECT_EQ(countThreads(threads, 0), 0u) << "the last user is gone";
}

TEST_F(CpuDevices, RunTheirThreadsOnTheProcessorsTheyGet) {
  std::vector<int> allowed = allowedProcessors();
  DevicePointer device = cpu(3, {allowed.back()});
  EXPECT_EQ(infoOf(device)["processors"], Json({allowed.back()}));
  ModulePointer module = loadOn(device);
  EXPECT_TRUE(isCalled(module, 100));
  ASSERT_EQ(countThreads(workersOf(device), 2), 2u);
  for (pid_t worker : threadsNamed(workersOf(device))) {
    // A worker names itself first; it may still be about to move.
    cpu_set_t set;
    for (int attempt = 0; attempt < 100; ++attempt) {
      ASSERT_EQ(sched_getaffinity(worker, sizeof(set), &set), 0);
      if (CPU_COUNT(&set) == 1)
        break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(allowed.back(), &set));
  }
  EXPECT_EQ(allowedProcessors(), allowed) << "the caller stays where it is";
  EXPECT_EQ(infoOf(cpu(0, {allowed.back()}))["threads"], 1) << "one for each processor";
}

TEST_F(CpuDevices, WorkInAFork) {
  DevicePointer device = cpu(3);
  ModulePointer module = loadOn(device);
  EXPECT_TRUE(isCalled(module, 100));
  pid_t child = fork();
  if (child == 0) {
    alarm(40); // ends a child that hangs
    std::string workers = workersOf(device);
    bool isRight = isCalled(module, 100), hasWorkers = countThreads(workers, 2) == 2;
    module.reset();
    device.reset();
    _exit(!isRight ? 1 : !hasWorkers ? 2 : countThreads(workers, 0) != 0 ? 3 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(isCalled(module, 100));
}

TEST_F(CpuDevices, RefusedSettings) {
  auto refused = [](const char *kind, itx_device_options options, itx_status expected) {
    itx_device *device = nullptr;
    EXPECT_EQ(itx_device_create(kind, &options, &device), expected);
    EXPECT_EQ(device, nullptr);
    return std::string(itx_last_error());
  };
  itx_device_options good = {};
  good.struct_bytes = sizeof(good);
  EXPECT_THAT(refused(nullptr, good, ITX_INVALID_ARGUMENT), HasSubstr("'kind' is null"));
  EXPECT_THAT(refused("gpu", good, ITX_NOT_FOUND), HasSubstr("no kind of device 'gpu'; the kinds are cpu, reference"));
  EXPECT_THAT(refused("reference", good, ITX_UNSUPPORTED),
              HasSubstr("devices of kind reference cannot be made, only those of kind cpu"));
  itx_device_options bad = good;
  bad.struct_bytes = 4;
  EXPECT_THAT(refused("cpu", bad, ITX_INVALID_ARGUMENT), HasSubstr("sizeof(itx_device_options)"));
  for (int32_t threads : {-1, 1025}) {
    bad = good;
    bad.threads = threads;
    EXPECT_THAT(refused("cpu", bad, ITX_INVALID_ARGUMENT), HasSubstr("1 to 1024 are possible"));
  }
  int32_t processors[] = {int32_t(allowedProcessors().front()), 1000000};
  bad = good;
  bad.processor_count = 2;
  EXPECT_THAT(refused("cpu", bad, ITX_INVALID_ARGUMENT), HasSubstr("'options.processors' is null"));
  bad.processors = processors;
  EXPECT_THAT(refused("cpu", bad, ITX_INVALID_ARGUMENT), HasSubstr("may not run on processor 1000000: its processors"));
  processors[1] = processors[0];
  EXPECT_THAT(refused("cpu", bad, ITX_INVALID_ARGUMENT), HasSubstr("is named twice"));
  {
    ScopedVariable variable("ITX_THREADS", "many");
    EXPECT_THAT(refused("cpu", good, ITX_INVALID_ARGUMENT), HasSubstr("ITX_THREADS is 'many'"));
  }
  EXPECT_EQ(itx_device_create("cpu", nullptr, nullptr), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_device_get_name(nullptr), nullptr);
  EXPECT_EQ(itx_device_get_info(nullptr), nullptr);
  itx_device_free(nullptr);
}

TEST_F(CpuDevices, RefusedInLoads) {
  std::string path = writeSample(folder);
  DevicePointer device = cpu(2);
  itx_device *handles[] = {device.get(), nullptr};
  itx_load_options options = {};
  options.device_handle_count = 2;
  EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT, options), HasSubstr("'options.device_handles' is null"));
  options.device_handles = handles;
  EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT, options),
              HasSubstr("device handle 1 in the load options is null"));
  handles[1] = handles[0];
  EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT, options), HasSubstr("is named twice"));
  const char *names[] = {"cpu"};
  options.devices = names;
  options.device_count = 1;
  options.device_handle_count = 1;
  EXPECT_NE(load(path, options), nullptr) << "it takes one of the two";
}
