//===- CpuDevice.cpp - The host's CPU as a device -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches run at once on the device's thread pool: every event has happened when dispatch returns.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/CpuDevice.h"
#include "lib/Formats/DLPack.h"
#include "lib/Runtime/CPU/GuardedDevice.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Runtime/Hosted/ThreadPool.h"
#include "lib/Support/CpuFeatures.h"
#include "lib/Support/Json.h"
#include "lib/Support/MachineLimits.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

namespace intarsia::runtime {

namespace {

/// The data that the tiles of a launch need.
struct Tiles {
  itx_kernel_run_fn run;
  itx_kernel_arguments arguments;
  int64_t workspaceBytes;
  int64_t first; ///< number of tile 0
};

class CpuDevice final : public Device {
public:
  /// The whole CPU.
  CpuDevice() : name_("cpu"), pool_(0, "itx", {}) {}
  /// A part of it.
  CpuDevice(const std::string &name, int32_t threads, const std::vector<int> &processors)
      : name_(name), threads_(threads), processors_(processors), pool_(threads, "itx-" + name, processors) {}

  const char *kind() const override { return "cpu"; }
  const char *name() const override { return name_.c_str(); }
  std::string info() const override;
  Status checkEnvironment() const override { return checkThreadVariables(); }
  bool usesHostMemory() const override { return true; }
  Status allocate(uint64_t bytes, void *&address) override;
  void release(void *address) override { freeAligned(address); }
  int32_t dlpackType() const override { return kDLCPU; }
  bool owns(const void *, uint64_t) const override { return true; }
  bool supports(const std::string &) const override { return false; }
  Status load(const ExecutableSource &, std::unique_ptr<Executable> &) override { return Status::success(); }
  uint32_t queueCount() const override { return 1; }
  Status dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                  itx_event &event) override;
  Status copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source, MemoryKind sourceKind,
              uint64_t bytes, const itx_event *after, uint32_t afterCount, itx_event &event) override;
  Status fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
              uint32_t afterCount, itx_event &event) override;
  Status wait(itx_event) override { return Status::success(); }
  Status setThreads(int32_t threads) override;
  int32_t threads() const override { return pool_.get().threads(); }

private:
  int32_t ownThreads() const { return threads_ != 0 ? threads_ : defaultThreads(); }

  const std::string name_;
  const int32_t threads_ = 0;         ///< 0: defaultThreads()
  const std::vector<int> processors_; ///< empty: all that the process may use
  mutable DevicePool pool_;           ///< threads() may be the first to need it
};

} // namespace

std::string CpuDevice::info() const {
  Json json = {{"name", name()},
               {"description", hostDescription()},
               {"threads", ownThreads()},
               {"features", hostFeatures()},
               {"memory_bytes", int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)}};
  if (!processors_.empty())
    json["processors"] = processors_;
  return jsonText(json);
}

Status CpuDevice::allocate(uint64_t bytes, void *&address) {
  address = allocateAligned(bytes);
  if (!address)
    return error(ITX_OUT_OF_MEMORY, "no memory for %llu bytes, %llu are available to this process",
                 (unsigned long long)bytes, (unsigned long long)availableMemoryBytes());
  return Status::success();
}

static void runTiles(void *context, int64_t begin, int64_t end) {
  // Each thread keeps one workspace: it runs one tile at a time, of any module.
  static thread_local ScratchBuffer workspace;
  const Tiles &tiles = *static_cast<const Tiles *>(context);
  void *memory = nullptr;
  if (tiles.workspaceBytes != 0) {
    memory = workspace.reserve(tiles.workspaceBytes);
    if (!memory)
      throw std::bad_alloc();
  }
  tiles.run(&tiles.arguments, tiles.first + begin, tiles.first + end, memory);
}

Status CpuDevice::dispatch(uint32_t, const Launch &launch, const itx_event *, uint32_t, itx_event &event) {
  event = 0;
  ThreadPool &pool = pool_.get();
  bool profiled = isProfiling();
  int64_t beginNs = profiled ? profileClockNs() : 0;
  int64_t plan[ITX_PLAN_LENGTH] = {};
  int32_t threads = pool.threads();
  launch.entry->plan(launch.sizes, threads, plan);

  Tiles tiles = {launch.entry->run, {launch.buffers, launch.sizes, plan, nullptr}, plan[ITX_PLAN_WORKSPACE_BYTES], 0};
  int64_t sharedBytes = plan[ITX_PLAN_SHARED_BYTES], zeroedBytes = plan[ITX_PLAN_ZEROED_BYTES];
  if (tiles.workspaceBytes < 0)
    return error(ITX_INVALID_ARGUMENT, "a size in kernel '%s' is more than 64 bits hold", launch.name);
  if (zeroedBytes < 0 || sharedBytes < zeroedBytes || plan[ITX_PLAN_TILES] < 0 || plan[ITX_PLAN_FINISH_TILES] < 0)
    return error(ITX_INTERNAL, "kernel '%s' returned an invalid launch (a negative number of tiles or bytes)",
                 launch.name);
  if (sharedBytes != 0) {
    tiles.arguments.shared = launch.shared->reserve(sharedBytes);
    if (!tiles.arguments.shared)
      return error(ITX_OUT_OF_MEMORY, "kernel '%s' needs %lld bytes of shared scratch memory", launch.name,
                   (long long)sharedBytes);
    std::memset(tiles.arguments.shared, 0, zeroedBytes);
  }
  try {
    pool.run(plan[ITX_PLAN_TILES], runTiles, &tiles);
    tiles.first = plan[ITX_PLAN_TILES];
    pool.run(plan[ITX_PLAN_FINISH_TILES], runTiles, &tiles);
  } catch (const std::bad_alloc &) {
    return error(ITX_OUT_OF_MEMORY, "kernel '%s' needs %lld bytes of scratch memory on each thread", launch.name,
                 (long long)tiles.workspaceBytes);
  }
  if (profiled)
    recordEvent({"kernel", launch.name, launch.label, beginNs, profileClockNs(), plan[ITX_PLAN_TILES], threads});
  return Status::success();
}

/// Records a copy or a fill that began at `beginNs`.
static void recordTransfer(const char *name, uint64_t bytes, int64_t beginNs) {
  recordEvent({"copy", name, std::to_string(bytes) + " bytes", beginNs, profileClockNs(), 0, 0});
}

Status CpuDevice::copy(uint32_t, void *destination, MemoryKind, const void *source, MemoryKind, uint64_t bytes,
                       const itx_event *, uint32_t, itx_event &event) {
  event = 0;
  bool profiled = isProfiling();
  int64_t beginNs = profiled ? profileClockNs() : 0;
  if (bytes != 0)
    std::memmove(destination, source, bytes);
  if (profiled)
    recordTransfer("copy", bytes, beginNs);
  return Status::success();
}

Status CpuDevice::fill(uint32_t, void *destination, uint8_t value, uint64_t bytes, const itx_event *, uint32_t,
                       itx_event &event) {
  event = 0;
  bool profiled = isProfiling();
  int64_t beginNs = profiled ? profileClockNs() : 0;
  if (bytes != 0)
    std::memset(destination, value, bytes);
  if (profiled)
    recordTransfer("fill", bytes, beginNs);
  return Status::success();
}

Status CpuDevice::setThreads(int32_t threads) {
  ITX_RETURN_IF_ERROR(checkThreads(threads));
  ITX_RETURN_IF_ERROR(threads == 0 ? checkThreadVariables() : Status::success());
  pool_.get().setThreads(threads == 0 ? ownThreads() : threads);
  return Status::success();
}

// ---- Devices -----------------------------------------------------------------------------------------------

/// Returns the device; in builds with INTARSIA_GUARD another one, whose kernels touch their operands alone.
static std::shared_ptr<Device> checked(std::shared_ptr<CpuDevice> device) {
#ifdef INTARSIA_GUARD
  return guardedDevice(std::move(device));
#else
  return device;
#endif
}

Device &cpuDevice() {
  // Never destroyed: calls may go on while static objects are destroyed.
  static auto *device = new std::shared_ptr<Device>(checked(std::make_shared<CpuDevice>()));
  return **device;
}

static Status checkProcessors(const std::vector<int> &processors) {
  std::vector<int> allowed = allowedProcessors();
  std::vector<std::string> names;
  for (int processor : allowed)
    names.push_back(std::to_string(processor));
  for (size_t i = 0; i < processors.size(); ++i) {
    if (std::find(allowed.begin(), allowed.end(), processors[i]) == allowed.end())
      return error(ITX_INVALID_ARGUMENT, "this process may not run on processor %d: its processors are %s",
                   processors[i], join(names).c_str());
    if (std::find(processors.begin(), processors.begin() + i, processors[i]) != processors.begin() + i)
      return error(ITX_INVALID_ARGUMENT, "processor %d is named twice", processors[i]);
  }
  return Status::success();
}

Status makeCpuDevice(const DeviceSettings &settings, std::shared_ptr<Device> &device) {
  static std::atomic<uint32_t> made{0};
  ITX_RETURN_IF_ERROR(checkThreadVariables());
  ITX_RETURN_IF_ERROR(checkThreads(settings.threads));
  ITX_RETURN_IF_ERROR(checkProcessors(settings.processors));
  int32_t threads = settings.threads;
  if (threads == 0 && !settings.processors.empty())
    threads = int32_t(std::min<size_t>(settings.processors.size(), maximumThreads));
  device = checked(std::make_shared<CpuDevice>("cpu" + std::to_string(++made), threads, settings.processors));
  return Status::success();
}

} // namespace intarsia::runtime
