//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// NVIDIA's GPUs through the driver, which is loaded at run time if it exists: the build needs no header or library of
// CUDA. Names and types of its functions: the CUDA driver API and NVML reference manuals.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Probe/Probe.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <cstdint>
#include <dlfcn.h>

using namespace llvm;

namespace intarsia {
namespace {

constexpr const char *driverName = "libcuda.so.1", *managementName = "libnvidia-ml.so.1";

class Library {
public:
  explicit Library(const char *name) : handle(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle)
      error = dlerror();
  }
  explicit operator bool() const { return handle; }

  /// Returns a function of the library; null, and records its name, if there is none.
  template <typename Function> Function *find(const char *name) {
    void *found = dlsym(handle, name);
    if (!found)
      error = std::string("it has no function ") + name;
    return reinterpret_cast<Function *>(found);
  }

  std::string error;

private:
  void *handle; ///< never closed: unloading a driver is unsafe
};

using Result = int; ///< CUresult, nvmlReturn_t: 0 is success

struct Driver {
  Library library{driverName};
#define INTARSIA_CUDA(NAME, SYMBOL, ...) Result (*NAME)(__VA_ARGS__) = find<Result(__VA_ARGS__)>(SYMBOL)
  INTARSIA_CUDA(init, "cuInit", unsigned);
  INTARSIA_CUDA(count, "cuDeviceGetCount", int *);
  INTARSIA_CUDA(get, "cuDeviceGet", int *, int);
  INTARSIA_CUDA(name, "cuDeviceGetName", char *, int, int);
  INTARSIA_CUDA(memory, "cuDeviceTotalMem_v2", size_t *, int);
  INTARSIA_CUDA(attribute, "cuDeviceGetAttribute", int *, int, int);
  INTARSIA_CUDA(retain, "cuDevicePrimaryCtxRetain", void **, int);
  INTARSIA_CUDA(release, "cuDevicePrimaryCtxRelease_v2", int);
  INTARSIA_CUDA(makeCurrent, "cuCtxSetCurrent", void *);
  INTARSIA_CUDA(synchronize, "cuCtxSynchronize", void);
  INTARSIA_CUDA(allocate, "cuMemAlloc_v2", uint64_t *, size_t);
  INTARSIA_CUDA(freeMemory, "cuMemFree_v2", uint64_t);
  INTARSIA_CUDA(fill, "cuMemsetD8_v2", uint64_t, unsigned char, size_t);
  INTARSIA_CUDA(copy, "cuMemcpyDtoDAsync_v2", uint64_t, uint64_t, size_t, void *);
  INTARSIA_CUDA(load, "cuModuleLoadData", void **, const void *);
  INTARSIA_CUDA(function, "cuModuleGetFunction", void **, void *, const char *);
  INTARSIA_CUDA(launch, "cuLaunchKernel", void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void *, void **, void **);
#undef INTARSIA_CUDA

private:
  template <typename Function> Function *find(const char *name) {
    return library ? library.find<Function>(name) : nullptr;
  }
};

enum Attribute { Multiprocessors = 16, CapabilityMajor = 75, CapabilityMinor = 76 };

std::string generationOf(int major, int minor) {
  switch (major) {
  case 7:
    return minor >= 5 ? "turing" : "volta";
  case 8:
    return minor >= 9 ? "ada" : "ampere";
  case 9:
    return "hopper";
  case 10:
  case 12:
    return "blackwell";
  default:
    return formatv("sm_{0}{1}", major, minor);
  }
}

constexpr int sumsOfThread = 8, unrolled = 16, threadsOfBlock = 256, blocksOfMultiprocessor = 8;

/// Returns a kernel of fused multiply-adds over registers, `turns` times sumsOfThread · unrolled of them a thread.
std::string multiplyAddsKernel() {
  std::string text = ".version 6.0\n.target sm_50\n.address_size 64\n"
                     ".visible .entry multiply_adds(.param .u64 out, .param .u32 turns) {\n"
                     ".reg .pred %more;\n.reg .u32 %left;\n.reg .u64 %address;\n"
                     ".reg .f32 %a, %b, %sum<8>;\n"
                     "ld.param.u64 %address, [out];\nld.param.u32 %left, [turns];\n"
                     "cvta.to.global.u64 %address, %address;\n"
                     "mov.f32 %a, 0f3F333333;\nmov.f32 %b, 0f3A83126F;\n"; // 0.7, 0.001
  for (int i = 0; i < sumsOfThread; ++i)
    text += formatv("mov.f32 %sum{0}, 0f00000000;\n", i);
  text += "again:\n";
  for (int turn = 0; turn < unrolled; ++turn)
    for (int i = 0; i < sumsOfThread; ++i)
      text += formatv("fma.rn.f32 %sum{0}, %sum{0}, %a, %b;\n", i);
  text += "sub.u32 %left, %left, 1;\nsetp.ne.u32 %more, %left, 0;\n@%more bra again;\n";
  for (int i = 1; i < sumsOfThread; ++i)
    text += formatv("add.f32 %sum0, %sum0, %sum{0};\n", i);
  return text + "st.global.f32 [%address], %sum0;\nret;\n}\n";
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Gpu {
public:
  Gpu(Driver &driver, int device, const ProbeOptions &options) : driver(driver), device(device), options(options) {}
  ~Gpu() {
    if (context)
      driver.release(device);
  }

  Expected<ProbedDevice> run() {
    char name[256] = {};
    size_t bytes = 0;
    int major = 0, minor = 0, multiprocessors = 0;
    if (Error error = firstError({{driver.name(name, sizeof(name) - 1, device), "cuDeviceGetName"},
                                  {driver.memory(&bytes, device), "cuDeviceTotalMem"},
                                  {driver.attribute(&major, CapabilityMajor, device), "cuDeviceGetAttribute"},
                                  {driver.attribute(&minor, CapabilityMinor, device), "cuDeviceGetAttribute"},
                                  {driver.attribute(&multiprocessors, Multiprocessors, device), "cuDeviceGetAttribute"},
                                  {driver.retain(&context, device), "cuDevicePrimaryCtxRetain"},
                                  {driver.makeCurrent(context), "cuCtxSetCurrent"}}))
      return std::move(error);
    ProbedDevice probed;
    probed.device.name = "here/";
    for (char c : StringRef(name).lower())
      probed.device.name += isAlnum(c) ? c : '-';
    probed.device.set = "measured";
    probed.device.generation = generationOf(major, minor);
    probed.device.memoryGB = figure(bytes * 1e-9, "what the driver says");
    Expected<double> bandwidth = copyRate(std::min<size_t>(size_t(1) << 30, bytes / 8));
    if (!bandwidth)
      return bandwidth.takeError();
    probed.device.memoryGBps = figure(*bandwidth * 1e-9, "copies inside its memory, bytes read and written");
    Expected<double> rate = multiplyAddRate(multiprocessors);
    if (!rate)
      return rate.takeError();
    probed.device.peakTflops["f32"] = figure(*rate * 1e-12, "fused multiply-adds");
    for (const char *element : {"bf16", "fp8", "int8"})
      probed.unmeasured.push_back(std::string("peak_tflops.") + element +
                                  ": tensor cores are not measured; a data sheet's entry of the catalogue has them");
    return probed;
  }

private:
  Driver &driver;
  int device;
  const ProbeOptions &options;
  void *context = nullptr;

  static Figure figure(double value, const Twine &what) {
    return Figure{value, ("measured by intarsia-plan --probe: " + what).str(), "", false};
  }

  static Error firstError(std::initializer_list<std::pair<Result, const char *>> calls) {
    for (auto [result, name] : calls)
      if (result)
        return createStringError(formatv("{0} returned {1}", name, result));
    return Error::success();
  }

  /// Returns the best of several rounds, each of which queues `work` as often as fills a round.
  template <typename Work> Expected<double> bestSeconds(Work work) {
    int times = 1;
    double best = 1e9;
    for (int round = -1; round < options.rounds; ++round) {
      auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i)
        if (Result result = work())
          return createStringError(formatv("the driver returned {0} while its speed was measured", result));
      if (Result result = driver.synchronize())
        return createStringError(formatv("cuCtxSynchronize returned {0}", result));
      double seconds = secondsSince(start) / times;
      if (round >= 0)
        best = std::min(best, seconds);
      else // the first also loads and warms up
        times = std::max(1, int(options.secondsOfRound / std::max(seconds, 1e-6)));
    }
    return best;
  }

  Expected<double> copyRate(size_t bytes) {
    uint64_t from = 0, to = 0;
    Expected<double> seconds = [&]() -> Expected<double> {
      if (Error error = firstError({{driver.allocate(&from, bytes), "cuMemAlloc"},
                                    {driver.allocate(&to, bytes), "cuMemAlloc"},
                                    {driver.fill(from, 1, bytes), "cuMemsetD8"}}))
        return std::move(error);
      return bestSeconds([&] { return driver.copy(to, from, bytes, nullptr); });
    }();
    for (uint64_t memory : {from, to})
      if (memory)
        driver.freeMemory(memory);
    if (!seconds)
      return seconds.takeError();
    return 2.0 * double(bytes) / *seconds;
  }

  Expected<double> multiplyAddRate(int multiprocessors) {
    void *module = nullptr, *function = nullptr;
    uint64_t out = 0;
    std::string kernel = multiplyAddsKernel();
    if (Error error = firstError({{driver.load(&module, kernel.c_str()), "cuModuleLoadData"},
                                  {driver.function(&function, module, "multiply_adds"), "cuModuleGetFunction"},
                                  {driver.allocate(&out, 4), "cuMemAlloc"}}))
      return std::move(error);
    unsigned turns = 2000, blocks = unsigned(multiprocessors) * blocksOfMultiprocessor;
    void *arguments[] = {&out, &turns};
    Expected<double> seconds = bestSeconds(
        [&] { return driver.launch(function, blocks, 1, 1, threadsOfBlock, 1, 1, 0, nullptr, arguments, nullptr); });
    driver.freeMemory(out);
    if (!seconds)
      return seconds.takeError();
    return 2.0 * sumsOfThread * unrolled * turns * blocks * threadsOfBlock / *seconds;
  }
};

/// Returns the board's power limit in watts; the error gives the reason if there is none.
Expected<double> wattsOf(int index) {
  Library management(managementName);
  if (!management)
    return createStringError(management.error);
  auto *init = management.find<Result()>("nvmlInit_v2");
  auto *handleOf = management.find<Result(unsigned, void **)>("nvmlDeviceGetHandleByIndex_v2");
  auto *limitOf = management.find<Result(void *, unsigned *)>("nvmlDeviceGetPowerManagementLimit");
  if (!init || !handleOf || !limitOf)
    return createStringError(management.error);
  void *handle = nullptr;
  unsigned milliwatts = 0;
  if (init() || handleOf(unsigned(index), &handle) || limitOf(handle, &milliwatts))
    return createStringError("NVML does not say");
  return milliwatts * 1e-3;
}

} // namespace

ProbedGpus probeGpus(const ProbeOptions &options) {
  ProbedGpus gpus;
  Driver driver;
  if (!driver.library || !driver.library.error.empty()) {
    gpus.none = driver.library.error;
    return gpus;
  }
  int count = 0;
  Result result = driver.init(0);
  if (!result)
    result = driver.count(&count);
  if (result || !count) {
    gpus.none = result ? formatv("{0} is there, but returned {1}", driverName, result).str() : "the driver has none";
    return gpus;
  }
  for (int index = 0; index < count; ++index) {
    int device = 0;
    Expected<ProbedDevice> probed =
        driver.get(&device, index) ? createStringError("cuDeviceGet failed") : Gpu(driver, device, options).run();
    if (!probed) {
      gpus.none += formatv("{0}GPU {1}: {2}", gpus.none.empty() ? "" : "; ", index, toString(probed.takeError()));
      continue;
    }
    // NVML numbers GPUs by bus, CUDA only if CUDA_DEVICE_ORDER says so: with one kind of GPU that makes no difference.
    if (Expected<double> watts = wattsOf(index))
      probed->device.watts =
          Figure{*watts, "measured by intarsia-plan --probe: the board's power limit (NVML)", "", false};
    else
      probed->unmeasured.push_back("watts: " + toString(watts.takeError()));
    gpus.devices.push_back(std::move(*probed));
  }
  return gpus;
}

} // namespace intarsia
