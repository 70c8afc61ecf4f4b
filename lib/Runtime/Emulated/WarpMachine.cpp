//===- WarpMachine.cpp - A GPU's grids of threads, run on the host ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/WarpMachine.h"

#include "intarsia/emulated_abi.h"
#include "lib/Runtime/Emulated/BlockRunner.h"

#include <atomic>

namespace intarsia::runtime {

WarpMachine::WarpMachine(const MachineSettings &settings) : settings_(settings) {}

WarpMachine::~WarpMachine() = default;

/// Returns an error if a launch is not one that a GPU could start; else the number of its blocks.
static Status checkLaunch(const GridLaunch &launch, int64_t &blocks) {
  if (!launch.function)
    return error(ITX_INTERNAL, "%s has no function", launch.text.c_str());
  if (launch.arguments.size() > ITX_EMULATED_ARGUMENTS)
    return error(ITX_UNSUPPORTED, "%s takes %zu arguments, functions of the emulated device take at most %d",
                 launch.text.c_str(), launch.arguments.size(), ITX_EMULATED_ARGUMENTS);
  if (launch.warpSize != 32 && launch.warpSize != 64)
    return error(ITX_INTERNAL, "%s has warps of %u threads, GPUs have 32 or 64", launch.text.c_str(), launch.warpSize);
  uint64_t threads = 1;
  for (uint32_t size : launch.block)
    threads = size == 0 || size > WarpMachine::largestBlock ? 0 : threads * size;
  if (threads == 0 || threads > WarpMachine::largestBlock)
    return error(ITX_INTERNAL, "%s has blocks of %s threads, a block has 1 to %u", launch.text.c_str(),
                 shapeText(launch.block).c_str(), WarpMachine::largestBlock);
  blocks = 1;
  for (uint32_t size : launch.grid)
    if (__builtin_mul_overflow(blocks, int64_t(size), &blocks))
      return error(ITX_INTERNAL, "%s has a grid of %s blocks, which is more than 64 bits count", launch.text.c_str(),
                   shapeText(launch.grid).c_str());
  return Status::success();
}

std::unique_ptr<BlockRunner> WarpMachine::takeRunner() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<BlockRunner> runner = std::move(idle_.back());
      idle_.pop_back();
      return runner;
    }
  }
  return std::make_unique<BlockRunner>(settings_);
}

void WarpMachine::giveBack(std::unique_ptr<BlockRunner> runner) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(runner));
}

Status WarpMachine::run(const GridLaunch &launch) {
  return run(launch, [](int64_t blocks, const std::function<void(int64_t, int64_t)> &run) { run(0, blocks); });
}

Status WarpMachine::run(const GridLaunch &launch, const ForEachBlock &forEachBlock) {
  int64_t blocks = 0;
  ITX_RETURN_IF_ERROR(checkLaunch(launch, blocks));
  if (blocks == 0)
    return Status::success();
  std::mutex mutex;
  Status first;
  std::atomic<bool> hasFailed{false};
  forEachBlock(blocks, [&](int64_t begin, int64_t end) {
    std::unique_ptr<BlockRunner> runner = takeRunner();
    for (int64_t i = begin; i < end && !hasFailed.load(std::memory_order_relaxed); ++i) {
      uint64_t number = settings_.schedule == Schedule::GreedyReversed ? blocks - 1 - i : i;
      std::array<uint32_t, 3> block = {uint32_t(number % launch.grid[0]),
                                       uint32_t(number / launch.grid[0] % launch.grid[1]),
                                       uint32_t(number / launch.grid[0] / launch.grid[1])};
      Status status = runner->run(launch, block);
      if (status.ok())
        continue;
      hasFailed.store(true, std::memory_order_relaxed);
      std::lock_guard lock(mutex);
      if (first.ok())
        first = std::move(status);
    }
    giveBack(std::move(runner));
  });
  return first;
}

} // namespace intarsia::runtime
