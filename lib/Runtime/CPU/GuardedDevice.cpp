//===- GuardedDevice.cpp - The host's CPU, with kernels that touch their operands alone ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For builds with INTARSIA_GUARD. A launch runs twice, on copies of its operands: once with guard pages at their
// beginnings, once at their ends. Operands that are only read are write-protected. Before the two runs, results and the
// bytes beside operands are filled with different values; if the results differ, the kernel has read uninitialised
// memory.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/GuardedDevice.h"

#include "lib/Formats/Manifest.h"
#include "lib/Runtime/CPU/GuardedMemory.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <mutex>
#include <unistd.h>

namespace intarsia::runtime {

namespace {

/// The memory of one or several operands of a launch.
struct Part {
  uint8_t *original = nullptr;
  uint64_t bytes = 0;
  bool isRead = false, isWritten = false;
};

/// The launch that runs now, which the handler of faults names.
struct Running {
  std::mutex mutex; // one launch at a time
  const Launch *launch = nullptr;
  const std::vector<GuardedMemory> *memory = nullptr;
};

Running &running() {
  static Running *running = new Running;
  return *running;
}

void explainFault(int signal, siginfo_t *info, void *) {
  const Running &now = running();
  char text[512] = "guard: a fault outside of kernels\n";
  if (now.launch && now.memory) {
    std::snprintf(text, sizeof(text), "guard: kernel '%s' (%s) touched memory that is none of its operands\n",
                  now.launch->name, now.launch->label);
    for (const GuardedMemory &memory : *now.memory)
      if (memory.isNear(info->si_addr))
        std::snprintf(text, sizeof(text), "guard: kernel '%s' (%s) touched byte %lld of an operand of %llu bytes\n",
                      now.launch->name, now.launch->label,
                      (long long)(static_cast<const uint8_t *>(info->si_addr) - memory.data()),
                      (unsigned long long)memory.bytes());
  }
  (void)!write(STDERR_FILENO, text, std::strlen(text));
  std::signal(signal, SIG_DFL);
}

class GuardedDevice final : public Device {
public:
  explicit GuardedDevice(std::shared_ptr<Device> device) : owner_(std::move(device)), device_(*owner_) {
    struct sigaction action = {};
    action.sa_sigaction = explainFault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }

  const char *kind() const override { return device_.kind(); }
  const char *name() const override { return device_.name(); }
  std::string info() const override { return device_.info(); }
  Status checkEnvironment() const override { return device_.checkEnvironment(); }
  bool usesHostMemory() const override { return device_.usesHostMemory(); }
  Status allocate(uint64_t bytes, void *&address) override { return device_.allocate(bytes, address); }
  void release(void *address) override { device_.release(address); }
  int32_t dlpackType() const override { return device_.dlpackType(); }
  bool owns(const void *address, uint64_t bytes) const override { return device_.owns(address, bytes); }
  bool supports(const std::string &variant) const override { return device_.supports(variant); }
  Status load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) override {
    return device_.load(source, executable);
  }
  uint32_t queueCount() const override { return device_.queueCount(); }
  Status dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                  itx_event &event) override;
  Status copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source, MemoryKind sourceKind,
              uint64_t bytes, const itx_event *after, uint32_t afterCount, itx_event &event) override {
    return device_.copy(queue, destination, destinationKind, source, sourceKind, bytes, after, afterCount, event);
  }
  Status fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
              uint32_t afterCount, itx_event &event) override {
    return device_.fill(queue, destination, value, bytes, after, afterCount, event);
  }
  Status wait(itx_event event) override { return device_.wait(event); }
  Status setThreads(int32_t threads) override { return device_.setThreads(threads); }
  int32_t threads() const override { return device_.threads(); }

private:
  Status run(const Launch &launch, const std::vector<Part> &parts, const std::vector<size_t> &partOf, GuardSide side,
             std::vector<GuardedMemory> &memory);

  std::shared_ptr<Device> owner_;
  Device &device_;
};

/// Finds the distinct parts of memory among the operands of a launch, and the part of each operand.
Status findParts(const Launch &launch, std::vector<Part> &parts, std::vector<size_t> &partOf) {
  const std::vector<OperandInfo> &operands = *launch.operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::optional<uint64_t> bytes = operands[i].bytesIn(launch.sizes, launch.sizeCount);
    if (!bytes)
      return error(ITX_INTERNAL, "guard: the size of operand %zu of kernel '%s' is not known", i, launch.name);
    auto *original = static_cast<uint8_t *>(launch.buffers[i]);
    auto found = std::find_if(parts.begin(), parts.end(), [&](const Part &part) { return part.original == original; });
    if (found == parts.end())
      found = parts.insert(parts.end(), {original});
    found->bytes = std::max(found->bytes, *bytes);
    (operands[i].isOutput ? found->isWritten : found->isRead) = true;
    partOf.push_back(found - parts.begin());
  }
  for (const Part &part : parts)
    for (const Part &other : parts)
      if (&part != &other && (part.isWritten || other.isWritten) && part.original < other.original + other.bytes &&
          other.original < part.original + part.bytes)
        return error(ITX_INTERNAL, "guard: a result of kernel '%s' (%s) lies in another operand", launch.name,
                     launch.label);
  return Status::success();
}

Status GuardedDevice::run(const Launch &launch, const std::vector<Part> &parts, const std::vector<size_t> &partOf,
                          GuardSide side, std::vector<GuardedMemory> &memory) {
  for (const Part &part : parts) {
    // 0xff is NaN as a float of any width and an index out of bounds; 0x3c is a small number.
    memory.emplace_back(part.bytes, side, side == GuardSide::Begin ? 0xff : 0x3c);
    if (!memory.back().data())
      return error(ITX_OUT_OF_MEMORY, "guard: no memory for the operands of kernel '%s'", launch.name);
    if (part.isRead && part.bytes != 0)
      std::memcpy(memory.back().data(), part.original, part.bytes);
    if (!part.isWritten)
      memory.back().makeReadOnly();
  }
  std::vector<void *> buffers;
  for (size_t part : partOf)
    buffers.push_back(memory[part].data());
  Launch guarded = launch;
  guarded.buffers = buffers.data();
  running().launch = &launch;
  running().memory = &memory;
  itx_event event = 0;
  Status status = device_.dispatch(0, guarded, nullptr, 0, event);
  if (status.ok())
    status = device_.wait(event);
  running().launch = nullptr;
  ITX_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < memory.size(); ++i)
    if (!memory[i].checkEdges())
      return error(ITX_INTERNAL, "guard: kernel '%s' (%s) wrote beside an operand of %llu bytes", launch.name,
                   launch.label, (unsigned long long)parts[i].bytes);
  return Status::success();
}

Status GuardedDevice::dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                               itx_event &event) {
  if (!launch.operands) // the module is not from our compiler
    return device_.dispatch(queue, launch, after, afterCount, event);
  event = 0;
  for (uint32_t i = 0; i < afterCount; ++i)
    ITX_RETURN_IF_ERROR(device_.wait(after[i]));
  std::vector<Part> parts;
  std::vector<size_t> partOf;
  ITX_RETURN_IF_ERROR(findParts(launch, parts, partOf));
  std::lock_guard lock(running().mutex);
  std::vector<GuardedMemory> atBegin, atEnd;
  ITX_RETURN_IF_ERROR(run(launch, parts, partOf, GuardSide::Begin, atBegin));
  ITX_RETURN_IF_ERROR(run(launch, parts, partOf, GuardSide::End, atEnd));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].isWritten || parts[i].bytes == 0)
      continue;
    const uint8_t *first = atBegin[i].data(), *second = atEnd[i].data();
    if (std::memcmp(first, second, parts[i].bytes) != 0) {
      uint64_t same = std::mismatch(first, first + parts[i].bytes, second).first - first;
      return error(ITX_INTERNAL,
                   "guard: kernel '%s' (%s) gives another byte %llu of a result of %llu bytes when it runs again: it "
                   "read, or left, what nothing has written",
                   launch.name, launch.label, (unsigned long long)same, (unsigned long long)parts[i].bytes);
    }
    std::memcpy(parts[i].original, second, parts[i].bytes);
  }
  return Status::success();
}

} // namespace

std::shared_ptr<Device> guardedDevice(std::shared_ptr<Device> device) {
  return std::make_shared<GuardedDevice>(std::move(device));
}

} // namespace intarsia::runtime
