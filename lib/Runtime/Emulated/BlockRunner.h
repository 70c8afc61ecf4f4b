//===- BlockRunner.h - The threads of a block take turns -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_BLOCKRUNNER_H
#define INTARSIA_RUNTIME_EMULATED_BLOCKRUNNER_H

#include "lib/Runtime/Emulated/FiberStacks.h"
#include "lib/Runtime/Emulated/ProxyWrites.h"
#include "lib/Runtime/Emulated/WarpMachine.h"
#include "lib/Runtime/Emulated/WarpState.h"

namespace intarsia::runtime {

/// Runs one block after the other on the calling thread of the host. Each thread of the block is a fiber. A lane that
/// begins to wait continues the next lane of its warp; the last one answers for all, and the scheduler is asked only
/// when none of a warp can go on.
class BlockRunner {
public:
  explicit BlockRunner(const MachineSettings &settings);

  /// Runs a block to its end.
  Status run(const GridLaunch &launch, std::array<uint32_t, 3> block);

  // Kernels call these functions, on the fiber of a lane.

  /// Waits with the other lanes and returns the lane's answer. What the operation needs has been noted in the warp.
  uint64_t rendezvous(Lane &lane, Operation operation, uint64_t variant, const void *site);
  /// Ends the block with an error, of which the message has what the lane did. The lane's frames are dropped without
  /// their destructors: they must hold nothing but `reason`.
  [[noreturn]] void fail(const Lane &lane, Status &&reason);
  /// Returns true if bytes are in the range of the access before, where most are.
  bool isInLastRange(bool isStore, const void *address, uint64_t bytes) const {
    if (lastRange_ >= launch_->ranges.size())
      return false;
    const MemoryRange &range = launch_->ranges[lastRange_];
    return range.contains(address, bytes) && !(isStore && range.loadsOnly);
  }
  /// Returns true if the lane may load, or store, bytes of an address space.
  bool mayAccess(const Lane &lane, bool isStore, const void *address, int64_t bytes, int32_t space);
  /// Returns where an access is that mayAccess() refused: "0x10, which is …".
  std::string explainAccess(bool isStore, const void *address, int64_t bytes, int32_t space) const;
  const GridLaunch &launch() const { return *launch_; }
  const std::array<uint32_t, 3> &block() const { return block_; }
  SharedMemory &shared() { return shared_; }
  Mbarriers &mbarriers() { return mbarriers_; }
  ProxyWrites &proxyWrites() { return proxyWrites_; }

private:
  static void enterThread();
  Status prepare(const GridLaunch &launch, std::array<uint32_t, 3> block);
  void prepareWarp(Warp &warp, uint32_t begin, uint32_t end);
  Status runWarps();
  bool runReadyWarps();
  void releaseBarrier();
  uint32_t firstOf(uint64_t lanes) const;
  Fiber &nextOf(Warp &warp);
  bool answer(Warp &warp);
  bool answerWarpBarriers(Warp &warp);
  bool answerMbarriers(Warp &warp);
  static void release(Warp &warp, uint64_t lanes);
  Status checkRegisters() const;
  void note(const Lane *lane, const Status &reason);
  std::string where(const Lane *lane) const;
  Status deadlock() const;
  bool isGlobal(bool isStore, const void *address, uint64_t bytes);

  const MachineSettings settings_;
  FiberStacks stacks_;
  SharedMemory shared_;
  Mbarriers mbarriers_{shared_};
  ProxyWrites proxyWrites_;
  std::vector<std::unique_ptr<Warp>> warps_;
  uint32_t warpCount_ = 0;
  Fiber scheduler_;
  const GridLaunch *launch_ = nullptr;
  size_t lastRange_ = 0; ///< of the launch, that an access was in
  std::array<uint32_t, 3> block_ = {};
  Status failure_; ///< of the block that runs
};

/// The lane whose fiber the thread of the host runs. A fiber stays on its thread. The model of its address makes
/// reading it one instruction in a shared library too.
extern constinit thread_local Lane *currentLane __attribute__((tls_model("initial-exec")));

} // namespace intarsia::runtime

#endif
