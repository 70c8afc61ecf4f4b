//===- WarpMachine.h - A GPU's grids of threads, run on the host -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_WARPMACHINE_H
#define INTARSIA_RUNTIME_EMULATED_WARPMACHINE_H

#include "lib/Runtime/Emulated/Fiber.h"
#include "lib/Runtime/Emulated/Mbarriers.h"
#include "lib/Support/Status.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace intarsia::runtime {

class BlockRunner;

/// The order in which the threads of a block take turns. A kernel that relies on an order that no barrier makes gives
/// different results, or reads what is not written yet, with one of them.
enum class Schedule {
  Lockstep,      ///< each warp runs until its lanes have met once, then the next warp does
  Greedy,        ///< each warp runs until it waits for the whole block or has ended
  GreedyReversed ///< the same, with the last warp, and the last lane of each warp, first; blocks too
};

/// The stack of a thread of a kernel. AddressSanitizer keeps the fragments of matrix instructions apart on it.
#if ITX_ADDRESS_SANITIZER
inline constexpr uint64_t defaultStackBytes = 512 << 10;
#else
inline constexpr uint64_t defaultStackBytes = 64 << 10;
#endif

struct MachineSettings {
  Schedule schedule = Schedule::Lockstep;
  uint64_t stackBytes = defaultStackBytes; ///< of each thread of a kernel
  /// True if a checked kernel fails that reads shared memory before it is written.
  bool refusesUnwritten = true;

  bool operator==(const MachineSettings &) const = default;
};

/// Memory that a kernel may use, at addresses of the host.
struct MemoryRange {
  const void *begin = nullptr;
  uint64_t bytes = 0;
  std::string name; ///< for messages: "operand 2", "scratch"
  bool loadsOnly = false;

  bool contains(const void *address, uint64_t count) const {
    uint64_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(begin);
    return offset <= bytes && count <= bytes - offset;
  }
};

/// A grid of threads that run one function, which include/intarsia/emulated_abi.h describes.
struct GridLaunch {
  std::string text; ///< for messages: "kernel 'x' (layer.3)"
  void (*function)() = nullptr;
  std::vector<uint64_t> arguments; ///< pointers and integers
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t warpSize = 32;
  uint64_t sharedBytes = 0;
  std::vector<MemoryRange> ranges;   ///< of global memory
  std::vector<TensorMap> tensorMaps; ///< which arguments point to
  bool checked = false;              ///< the function calls load_check and store_check before each access
};

/// Runs grids. All members may be called from several threads at once.
class WarpMachine {
public:
  /// Calls a function for parts of the range from 0 to the number of blocks, on as many threads as it likes, and
  /// returns when all calls have.
  using ForEachBlock = std::function<void(int64_t blocks, const std::function<void(int64_t begin, int64_t end)> &run)>;

  static constexpr uint32_t largestBlock = 1024; ///< threads; the limit of both vendors

  explicit WarpMachine(const MachineSettings &settings);
  ~WarpMachine();

  /// Runs a grid on the calling thread. ITX_INTERNAL says which thread of the kernel did what is not allowed; blocks
  /// that have not begun are then left out.
  Status run(const GridLaunch &launch);
  /// Runs blocks on the threads of the function.
  Status run(const GridLaunch &launch, const ForEachBlock &forEachBlock);

  const MachineSettings &settings() const { return settings_; }

private:
  std::unique_ptr<BlockRunner> takeRunner();
  void giveBack(std::unique_ptr<BlockRunner> runner);

  const MachineSettings settings_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BlockRunner>> idle_; ///< their stacks are kept for the next launch
};

} // namespace intarsia::runtime

#endif
