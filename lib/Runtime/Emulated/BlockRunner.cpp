//===- BlockRunner.cpp - The threads of a block take turns -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/BlockRunner.h"

#include "intarsia/emulated_abi.h"

#include <algorithm>
#include <bit>
#include <dlfcn.h>
#include <utility>

namespace intarsia::runtime {

constinit thread_local Lane *currentLane = nullptr;

// Stacks are a multiple of pages apart. If all began at the same offset in a page, the frames of a warp would fall into
// the same few sets of the first-level cache.
static constexpr uint32_t stackColors = 16;
static constexpr uint32_t stackColorBytes = 192;

/// Threads that wait for each other for ever are listed by what they wait for, up to so many groups.
static constexpr size_t largestListing = 24;

// ---- Threads ---------------------------------------------------------------------------------------------------

/// Calls a function of as many arguments. Functions of fewer ignore the others: arguments are 64-bit integers and
/// pointers, and callers remove them, on all hosts.
template <size_t... index>
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
static void callWith(void (*function)(), const uint64_t *arguments, std::index_sequence<index...>) {
  reinterpret_cast<void (*)(decltype(uint64_t(index))...)>(function)(arguments[index]...);
}

static void callKernel(const GridLaunch &launch) {
  size_t count = launch.arguments.size();
  uint64_t padded[ITX_EMULATED_ARGUMENTS] = {};
  std::copy(launch.arguments.begin(), launch.arguments.end(), padded);
  if (count <= 6)
    return callWith(launch.function, padded, std::make_index_sequence<6>());
  if (count <= 16)
    return callWith(launch.function, padded, std::make_index_sequence<16>());
  if (count <= 48)
    return callWith(launch.function, padded, std::make_index_sequence<48>());
  callWith(launch.function, padded, std::make_index_sequence<ITX_EMULATED_ARGUMENTS>());
}

void BlockRunner::enterThread() {
  Fiber::enter();
  Lane &lane = *currentLane;
  callKernel(*lane.block->launch_);
  Warp &warp = *lane.warp;
  lane.copies.clear();
  warp.ready &= ~(uint64_t(1) << lane.index);
  Fiber::finish(warp.fibers[lane.index], lane.block->nextOf(warp));
}

BlockRunner::BlockRunner(const MachineSettings &settings) : settings_(settings), stacks_(settings.stackBytes) {}

void BlockRunner::prepareWarp(Warp &warp, uint32_t begin, uint32_t end) {
  warp.size = launch_->warpSize;
  warp.index = begin / warp.size;
  warp.exists = end - begin == largestWarp ? ~uint64_t(0) : (uint64_t(1) << (end - begin)) - 1;
  warp.ready = warp.exists;
  warp.waiting = 0;
  warp.registers = 0;
  warp.products.clear();
  for (uint32_t thread = begin; thread < end; ++thread) {
    uint32_t index = thread - begin;
    Lane &lane = warp.lanes[index];
    lane.block = this;
    lane.warp = &warp;
    lane.index = index;
    lane.thread = {thread % launch_->block[0], thread / launch_->block[0] % launch_->block[1],
                   thread / launch_->block[0] / launch_->block[1]};
    lane.copies.clear();
    warp.fibers[index].prepare(stacks_.bottom(thread), stacks_.bytes(), index % stackColors * stackColorBytes,
                               enterThread);
  }
}

Status BlockRunner::prepare(const GridLaunch &launch, std::array<uint32_t, 3> block) {
  launch_ = &launch;
  block_ = block;
  lastRange_ = 0;
  failure_ = Status::success();
  uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  warpCount_ = (threads + launch.warpSize - 1) / launch.warpSize;
  ITX_RETURN_IF_ERROR(stacks_.reserve(threads));
  mbarriers_.clear();
  ITX_RETURN_IF_ERROR(proxyWrites_.reset(launch.sharedBytes, threads));
  ITX_RETURN_IF_ERROR(shared_.reset(launch.sharedBytes, launch.checked && settings_.refusesUnwritten));
  while (warps_.size() < warpCount_)
    warps_.push_back(std::make_unique<Warp>());
  for (uint32_t i = 0; i < warpCount_; ++i)
    prepareWarp(*warps_[i], i * launch.warpSize, std::min((i + 1) * launch.warpSize, threads));
  return Status::success();
}

// ---- Turns -----------------------------------------------------------------------------------------------------

Status BlockRunner::run(const GridLaunch &launch, std::array<uint32_t, 3> block) {
  ITX_RETURN_IF_ERROR(prepare(launch, block));
  Status status = runWarps();
  currentLane = nullptr;
  return status;
}

Status BlockRunner::runWarps() {
  for (;;) {
    bool ran = runReadyWarps();
    ITX_RETURN_IF_ERROR(failure_);
    if (ran)
      continue;
    bool hasEnded = true, isAtBarrier = true;
    for (uint32_t i = 0; i < warpCount_; ++i) {
      bool waits = warps_[i]->waiting != 0;
      hasEnded &= !waits;
      isAtBarrier &= !waits || warps_[i]->isAtBarrier();
    }
    if (hasEnded)
      return checkRegisters();
    if (!isAtBarrier)
      return deadlock();
    releaseBarrier();
  }
}

/// Gives each warp that can go on a turn. Returns false if none can.
bool BlockRunner::runReadyWarps() {
  bool ran = false;
  for (uint32_t i = 0; i < warpCount_; ++i) {
    Warp &warp = *warps_[settings_.schedule == Schedule::GreedyReversed ? warpCount_ - 1 - i : i];
    if (warp.ready == 0 && !answerMbarriers(warp))
      continue;
    ran = true;
    uint32_t lane = firstOf(warp.ready);
    currentLane = &warp.lanes[lane];
    Fiber::switchTo(scheduler_, warp.fibers[lane]);
    if (!failure_.ok())
      break;
  }
  return ran;
}

void BlockRunner::releaseBarrier() {
  for (uint32_t i = 0; i < warpCount_; ++i) {
    warps_[i]->ready = warps_[i]->waiting;
    warps_[i]->waiting = 0;
  }
}

/// Returns the lane of a set whose turn is first.
uint32_t BlockRunner::firstOf(uint64_t lanes) const {
  return settings_.schedule == Schedule::GreedyReversed ? 63 - std::countl_zero(lanes) : std::countr_zero(lanes);
}

/// Returns what the thread of the host goes on with: a lane of the warp, or the scheduler.
Fiber &BlockRunner::nextOf(Warp &warp) {
  if (warp.ready == 0) {
    bool answered = answer(warp);
    if (!answered || settings_.schedule == Schedule::Lockstep)
      return scheduler_;
  }
  uint32_t lane = firstOf(warp.ready);
  currentLane = &warp.lanes[lane];
  return warp.fibers[lane];
}

uint64_t BlockRunner::rendezvous(Lane &lane, Operation operation, uint64_t variant, const void *site) {
  Warp &warp = *lane.warp;
  uint32_t index = lane.index;
  warp.operations[index] = operation;
  warp.variants[index] = variant;
  warp.sites[index] = site;
  if (warp.waiting == 0) {
    warp.operation = operation;
    warp.variant = variant;
    warp.mixed = false;
  } else if (warp.operation != operation || warp.variant != variant) {
    warp.mixed = true;
  }
  uint64_t bit = uint64_t(1) << index;
  warp.waiting |= bit;
  warp.ready &= ~bit;
  Fiber &own = warp.fibers[index], &next = nextOf(warp);
  if (&own != &next)
    Fiber::switchTo(own, next);
  return warp.answers[index];
}

/// Answers what the lanes of a warp wait for, now that none is ready. Returns false if they go on waiting.
bool BlockRunner::answer(Warp &warp) {
  if (warp.waiting == 0)
    return false;
  if (answerMbarriers(warp))
    return true;
  if (warp.mixed)
    return answerWarpBarriers(warp);
  if (warp.operation == Operation::Barrier || warp.operation == Operation::MbarrierWait)
    return false;
  if (warp.operation != Operation::WarpBarrier)
    if (Status status = answerWarp(warp); !status.ok()) {
      note(nullptr, status);
      return false;
    }
  warp.ready = warp.waiting;
  warp.waiting = 0;
  return true;
}

/// Releases the warp barriers whose lanes wait for them, while other lanes wait for something else.
bool BlockRunner::answerWarpBarriers(Warp &warp) {
  uint64_t released = 0;
  for (uint32_t i = 0; i < warp.size; ++i) {
    uint64_t members = warp.variants[i] & warp.waiting;
    bool isComplete = (warp.waiting >> i & 1) && warp.operations[i] == Operation::WarpBarrier;
    for (uint32_t other = 0; other < warp.size && isComplete; ++other)
      if (members >> other & 1)
        isComplete = warp.operations[other] == Operation::WarpBarrier && warp.variants[other] == warp.variants[i];
    if (isComplete)
      released |= members;
  }
  release(warp, released);
  return released != 0;
}

/// Releases the lanes of a warp that wait for phases of mbarriers which have ended. Returns false if there are none.
bool BlockRunner::answerMbarriers(Warp &warp) {
  if (warp.waiting == 0 || (!warp.mixed && warp.operation != Operation::MbarrierWait))
    return false;
  uint64_t released = 0;
  for (uint32_t i = 0; i < warp.size; ++i)
    if ((warp.waiting >> i & 1) && warp.operations[i] == Operation::MbarrierWait &&
        mbarriers_.isPast(warp.variants[i] >> 1, warp.variants[i] & 1))
      released |= uint64_t(1) << i;
  if (released != 0)
    release(warp, released);
  return released != 0;
}

/// Lets some of the waiting lanes of a warp, of which none is ready, go on.
void BlockRunner::release(Warp &warp, uint64_t lanes) {
  warp.ready = lanes;
  warp.waiting &= ~lanes;
  if (warp.waiting == 0)
    return;
  uint32_t first = std::countr_zero(warp.waiting);
  warp.operation = warp.operations[first];
  warp.variant = warp.variants[first];
  warp.mixed = false;
  for (uint32_t i = 0; i < warp.size; ++i)
    if (warp.waiting >> i & 1)
      warp.mixed |= warp.operations[i] != warp.operation || warp.variants[i] != warp.variant;
}

/// Returns an error if warps of a group of four have set different numbers of registers, or all of them more than a
/// multiprocessor has (PTX ISA, "setmaxnreg"; CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
Status BlockRunner::checkRegisters() const {
  constexpr uint32_t warpsOfGroup = 4, registersOfMultiprocessor = 64 << 10;
  uint64_t all = 0;
  for (uint32_t i = 0; i < warpCount_; ++i) {
    const Warp &warp = *warps_[i], &first = *warps_[i / warpsOfGroup * warpsOfGroup];
    if (warp.registers != first.registers)
      return error(ITX_INTERNAL, "%s: warp %u sets %d registers, and warp %u of its group %d; all four set as many",
                   where(nullptr).c_str(), warp.index, warp.registers, first.index, first.registers);
    all += uint64_t(warp.registers) * warp.size;
  }
  if (all > registersOfMultiprocessor)
    return error(ITX_INTERNAL, "%s: its warps set %llu registers, a multiprocessor has %u", where(nullptr).c_str(),
                 (unsigned long long)all, registersOfMultiprocessor);
  return Status::success();
}

// ---- Errors ----------------------------------------------------------------------------------------------------

/// Returns where an error is: the kernel, the block, and the thread if it is known.
std::string BlockRunner::where(const Lane *lane) const {
  std::string text = launch_->text + ", block " + shapeText(block_);
  return lane ? text + ", thread " + shapeText(lane->thread) : text;
}

/// Keeps the error that ends the block.
void BlockRunner::note(const Lane *lane, const Status &reason) {
  failure_ = Status(reason.code(), where(lane) + ": " + reason.message());
}

void BlockRunner::fail(const Lane &lane, Status &&reason) {
  {
    Status taken = std::move(reason);
    note(&lane, taken);
  }
  Fiber::finish(lane.warp->fibers[lane.index], scheduler_);
}

/// Returns where a call in a kernel is: its function and the offset there.
static std::string siteText(const void *site) {
  Dl_info info = {};
  if (!dladdr(site, &info) || !info.dli_sname)
    return format("%p", site);
  return format("%s+0x%llx", info.dli_sname,
                (unsigned long long)(static_cast<const char *>(site) - static_cast<const char *>(info.dli_saddr)));
}

/// Returns what a lane does while the threads of its block wait for each other.
static std::string stateText(const Warp &warp, uint32_t lane) {
  uint64_t bit = uint64_t(1) << lane;
  if (warp.ready & bit)
    return "can go on";
  if (!(warp.waiting & bit))
    return "returned";
  return "wait at " + operationText(warp.operations[lane], warp.variants[lane]) + " (" + siteText(warp.sites[lane]) +
         ")";
}

/// Returns the error of a block in which no thread can go on.
Status BlockRunner::deadlock() const {
  struct Group {
    uint32_t first, last;
    std::string state;
  };
  std::vector<Group> groups;
  for (uint32_t w = 0; w < warpCount_; ++w) {
    const Warp &warp = *warps_[w];
    for (uint32_t lane = 0; lane < warp.size && (warp.exists >> lane & 1); ++lane) {
      uint32_t thread = w * warp.size + lane;
      std::string state = stateText(warp, lane);
      if (!groups.empty() && groups.back().state == state)
        groups.back().last = thread;
      else
        groups.push_back({thread, thread, state});
    }
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < groups.size() && i < largestListing; ++i)
    texts.push_back(groups[i].first == groups[i].last
                        ? format("thread %u %s", groups[i].first, groups[i].state.c_str())
                        : format("threads %u to %u %s", groups[i].first, groups[i].last, groups[i].state.c_str()));
  if (groups.size() > largestListing)
    texts.push_back(format("and %zu more groups of threads", groups.size() - largestListing));
  std::string lacking = mbarriers_.text();
  return error(ITX_INTERNAL,
               "%s: its threads wait for each other for ever: %s; each operation of a warp needs all of its threads "
               "that have not returned, and a barrier all of the block's%s%s",
               where(nullptr).c_str(), join(texts).c_str(), lacking.empty() ? "" : "; ", lacking.c_str());
}

// ---- Accesses --------------------------------------------------------------------------------------------------

/// Returns true if one range has all the bytes.
bool BlockRunner::isGlobal(bool isStore, const void *address, uint64_t bytes) {
  if (isInLastRange(isStore, address, bytes))
    return true;
  const std::vector<MemoryRange> &ranges = launch_->ranges;
  for (size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].contains(address, bytes) && !(isStore && ranges[i].loadsOnly)) {
      lastRange_ = i;
      return true;
    }
  return false;
}

bool BlockRunner::mayAccess(const Lane &lane, bool isStore, const void *address, int64_t bytes, int32_t space) {
  if (bytes < 0)
    return false;
  switch (space) {
  case ITX_EMULATED_PRIVATE:
    return true;
  case ITX_EMULATED_SHARED:
    return shared_.contains(address, bytes);
  case ITX_EMULATED_GENERIC: {
    uint32_t thread = lane.warp->index * lane.warp->size + lane.index;
    uint64_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(stacks_.bottom(thread));
    bool isOwn = offset < stacks_.bytes() && uint64_t(bytes) <= stacks_.bytes() - offset;
    return isOwn || shared_.contains(address, bytes) || isGlobal(isStore, address, bytes);
  }
  case ITX_EMULATED_GLOBAL:
  case ITX_EMULATED_CONSTANT:
    return isGlobal(isStore, address, bytes);
  default:
    return false;
  }
}

std::string BlockRunner::explainAccess(bool isStore, const void *address, int64_t bytes, int32_t space) const {
  if (bytes < 0)
    return format("%p, whose number is negative", address);
  if (space == ITX_EMULATED_SHARED)
    return format("%p, which is offset %lld of the block's %llu bytes of shared memory", address,
                  (long long)shared_.offsetOf(address), (unsigned long long)shared_.bytes());
  if (space != ITX_EMULATED_GENERIC && space != ITX_EMULATED_GLOBAL && space != ITX_EMULATED_CONSTANT)
    return format("%p in address space %d, which does not exist", address, space);
  uintptr_t first = reinterpret_cast<uintptr_t>(address);
  const MemoryRange *nearest = nullptr;
  uint64_t leastDistance = UINT64_MAX;
  for (const MemoryRange &range : launch_->ranges) {
    if (isStore && range.loadsOnly && range.contains(address, bytes))
      return format("%p, which is in %s at offset %lld: kernels only load from there", address, range.name.c_str(),
                    (long long)(first - reinterpret_cast<uintptr_t>(range.begin)));
    uintptr_t begin = reinterpret_cast<uintptr_t>(range.begin), end = begin + range.bytes;
    uint64_t distance = first < begin ? begin - first : first > end ? first - end : 0;
    if (distance < leastDistance) {
      leastDistance = distance;
      nearest = &range;
    }
  }
  if (!nearest)
    return format("%p, but the launch has no global memory", address);
  return format("%p, which is not in global memory of the launch; the nearest is %s, at offset %lld of its %llu bytes",
                address, nearest->name.c_str(), (long long)(first - reinterpret_cast<uintptr_t>(nearest->begin)),
                (unsigned long long)nearest->bytes);
}

} // namespace intarsia::runtime
