//===- EmulatedDevice.cpp - A GPU whose threads take turns on the host -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/EmulatedDevice.h"

#include "lib/Runtime/Emulated/EmulatedSettings.h"
#include "lib/Runtime/Emulated/SharedMemory.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime {

/// Threads of the host that run blocks, unless the program asks for more. Each has up to 1024 stacks, each of which is
/// two mappings, and Linux gives a process 65530 of them.
static constexpr int32_t mostDefaultThreads = 16;

static int32_t ownThreads() { return std::min(defaultThreads(), mostDefaultThreads); }

EmulatedDevice::EmulatedDevice() : HostedDevice(emulatedNames), pool_(ownThreads(), "itx-emulated", {}) {
  MachineSettings ignored;
  refuse(readMachineSettings(ignored));
  scratch_.resize(queueCount());
}

EmulatedDevice::EmulatedDevice(const HostedSettings &settings, const MachineSettings &machine)
    : HostedDevice(emulatedNames, settings), machine_(machine), pool_(ownThreads(), "itx-emulated", {}),
      scratch_(queueCount()) {}

EmulatedDevice::~EmulatedDevice() { finish(); }

Device &emulatedDevice() {
  // Never destroyed: its threads and buffers may outlive static objects.
  static EmulatedDevice *device = new EmulatedDevice;
  return *device;
}

const char *EmulatedDevice::description() const {
  return "emulated GPU: threads of kernels take turns on the host, which finds missing barriers, reads of memory that "
         "is not written, and accesses out of bounds; for tests";
}

Status EmulatedDevice::checkEnvironment() const {
  ITX_RETURN_IF_ERROR(HostedDevice::checkEnvironment());
  MachineSettings ignored;
  return readMachineSettings(ignored);
}

Status EmulatedDevice::setThreads(int32_t threads) {
  ITX_RETURN_IF_ERROR(checkThreads(threads));
  pool_.get().setThreads(threads == 0 ? ownThreads() : threads);
  return Status::success();
}

// ---- Kernels ---------------------------------------------------------------------------------------------------

Status EmulatedDevice::loadObject(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  MachineSettings settings;
  if (machine_)
    settings = *machine_;
  else
    ITX_RETURN_IF_ERROR(readMachineSettings(settings));
  return EmulatedObject::load(source, settings, executable);
}

WarpMachine &EmulatedDevice::machineWith(const MachineSettings &settings) {
  std::lock_guard lock(mutex_);
  for (const std::unique_ptr<WarpMachine> &machine : machines_)
    if (machine->settings() == settings)
      return *machine;
  return *machines_.emplace_back(std::make_unique<WarpMachine>(settings));
}

Status EmulatedDevice::bind(const Launch &launch, const std::string &text, Body &body) {
  auto object = dynamic_cast<const EmulatedObject *>(launch.executable);
  const GpuKernel *kernel = object ? object->kernel(launch.kernel) : nullptr;
  if (!kernel)
    return error(ITX_INTERNAL, "%s is not among the kernels that the emulated device has loaded for it", text.c_str());
  if (launch.bufferCount != kernel->buffers || launch.sizeCount != kernel->sizes)
    return error(ITX_INTERNAL, "%s is started with %u buffers and %u sizes, its object says %u and %u", text.c_str(),
                 launch.bufferCount, launch.sizeCount, kernel->buffers, kernel->sizes);
  body = [this, object, kernel](const HostedLaunch &launch) { return runKernel(*object, *kernel, launch); };
  return Status::success();
}

/// Returns memory of at least `bytes` for the kernel that a queue runs; null for none. It holds NaN, so that a kernel
/// that relies on what it has not written is found.
Status EmulatedDevice::prepareScratch(uint32_t queue, uint64_t bytes, void *&found) {
  found = nullptr;
  if (bytes == 0)
    return Status::success();
  Scratch &scratch = scratch_[queue];
  if (scratch.bytes < bytes) {
    if (scratch.address)
      memory()->release(scratch.address);
    scratch = {};
    ITX_RETURN_IF_ERROR(memory()->allocate(bytes, scratch.address));
    scratch.bytes = bytes;
  }
  memory()->resolve(scratch.address, bytes, found);
  std::memset(found, SharedMemory::pattern, bytes);
  return Status::success();
}

/// Computes a number of a launch; an error unless it is from 0 to `largest`.
static Status evaluateSize(const char *what, const SizeExpression &expression, const HostedLaunch &launch,
                           int64_t largest, int64_t &value) {
  std::optional<int64_t> result = evaluate(expression, launch.sizes.data(), launch.sizes.size());
  if (!result || *result < 0 || *result > largest)
    return error(ITX_INTERNAL, "%s: its %s, '%s', is %s for the sizes %s; it must be from 0 to %lld",
                 launch.text.c_str(), what, sizeExpressionText(expression).c_str(),
                 result ? std::to_string(*result).c_str() : "not defined", shapeText(launch.sizes).c_str(),
                 (long long)largest);
  value = *result;
  return Status::success();
}

/// Appends the tensor maps of a function to its arguments, for a launch that has blocks.
static Status addTensorMaps(const GpuLaunch &step, const HostedLaunch &launch, GridLaunch &grid) {
  grid.tensorMaps.clear();
  if (std::find(grid.grid.begin(), grid.grid.end(), 0u) != grid.grid.end())
    return Status::success();
  for (const GpuTensorMap &map : step.tensorMaps) {
    constexpr int64_t most = int64_t(1) << 32; // CUDA driver API, cuTensorMapEncodeTiled()
    int64_t rows = 0, columns = 0;
    ITX_RETURN_IF_ERROR(evaluateSize("rows of a tensor map", map.rows, launch, most, rows));
    ITX_RETURN_IF_ERROR(evaluateSize("columns of a tensor map", map.columns, launch, most, columns));
    const MemoryRange &operand = grid.ranges[map.buffer];
    uint64_t rowBytes = uint64_t(columns) * map.elementBytes;
    if (rowBytes % 16 != 0 || reinterpret_cast<uintptr_t>(operand.begin) % 16 != 0)
      return error(ITX_INTERNAL, "%s: %s at %p has rows of %llu bytes; tensor maps need both in multiples of 16",
                   launch.text.c_str(), operand.name.c_str(), operand.begin, (unsigned long long)rowBytes);
    if (uint64_t(rows) * rowBytes > operand.bytes)
      return error(ITX_INTERNAL, "%s: %s has %llu bytes, its tensor map %llu", launch.text.c_str(),
                   operand.name.c_str(), (unsigned long long)operand.bytes,
                   (unsigned long long)(uint64_t(rows) * rowBytes));
    grid.tensorMaps.push_back({static_cast<const uint8_t *>(operand.begin), uint64_t(rows), uint64_t(columns),
                               map.elementBytes, map.boxRows, map.boxColumns, map.swizzleBytes});
  }
  for (const TensorMap &map : grid.tensorMaps)
    grid.arguments.push_back(reinterpret_cast<uintptr_t>(&map));
  return Status::success();
}

Status EmulatedDevice::runKernel(const EmulatedObject &object, const GpuKernel &kernel, const HostedLaunch &launch) {
  int64_t scratchBytes = 0;
  ITX_RETURN_IF_ERROR(evaluateSize("scratch", kernel.scratch, launch, INT64_MAX, scratchBytes));
  void *scratch = nullptr;
  ITX_RETURN_IF_ERROR(prepareScratch(launch.queue, uint64_t(scratchBytes), scratch));
  GridLaunch grid;
  grid.text = launch.text;
  grid.warpSize = object.warpSize();
  grid.checked = object.isChecked();
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const HostedOperand &operand = launch.operands[i];
    uint64_t bytes = operand.bytes ? *operand.bytes : memory()->bytesFrom(operand.address);
    grid.arguments.push_back(reinterpret_cast<uintptr_t>(launch.buffers[i]));
    grid.ranges.push_back({launch.buffers[i], bytes, format("operand %zu", i)});
  }
  for (int64_t size : launch.sizes)
    grid.arguments.push_back(uint64_t(size));
  grid.arguments.push_back(reinterpret_cast<uintptr_t>(scratch));
  if (scratch)
    grid.ranges.push_back({scratch, uint64_t(scratchBytes), "the scratch"});
  MemoryRange constants = {nullptr, 0, "the object", /*loadsOnly=*/true};
  constants.begin = object.begin(constants.bytes);
  grid.ranges.push_back(constants);
  size_t argumentsOfKernel = grid.arguments.size();
  auto forEachBlock = [this](int64_t blocks, const std::function<void(int64_t, int64_t)> &run) {
    pool_.get().forEach(blocks, run);
  };
  WarpMachine &machine = machineWith(object.settings());
  for (const GpuLaunch &step : kernel.launches) {
    const EmulatedObject::Function &function = object.function(step);
    int64_t sizes[3], sharedBytes = 0;
    for (int i = 0; i < 3; ++i) {
      ITX_RETURN_IF_ERROR(evaluateSize("grid", step.grid[i], launch, INT32_MAX, sizes[i]));
      grid.grid[i] = uint32_t(sizes[i]);
    }
    ITX_RETURN_IF_ERROR(evaluateSize("shared memory", step.shared, launch, INT32_MAX, sharedBytes));
    grid.arguments.resize(argumentsOfKernel);
    ITX_RETURN_IF_ERROR(addTensorMaps(step, launch, grid));
    grid.function = function.address;
    grid.block = step.block;
    grid.sharedBytes = function.sharedBytes + uint64_t(sharedBytes);
    ITX_RETURN_IF_ERROR(machine.run(grid, forEachBlock));
  }
  return Status::success();
}

} // namespace intarsia::runtime
