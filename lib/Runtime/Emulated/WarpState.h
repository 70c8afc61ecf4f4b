//===- WarpState.h - Warps, lanes, and what they wait for ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_WARPSTATE_H
#define INTARSIA_RUNTIME_EMULATED_WARPSTATE_H

#include "lib/Runtime/Emulated/AsyncCopies.h"
#include "lib/Runtime/Emulated/Fiber.h"
#include "lib/Runtime/Emulated/WarpgroupMultiply.h"

#include <array>
#include <cstdint>
#include <string>

namespace intarsia::runtime {

class BlockRunner;
struct Warp;

/// Most threads of a warp.
inline constexpr uint32_t largestWarp = 64;

/// An operation that threads wait for together.
enum class Operation : uint8_t {
  Barrier,
  WarpBarrier,
  ShuffleIdx,
  ShuffleUp,
  ShuffleDown,
  ShuffleXor,
  VoteBallot,
  VoteAny,
  VoteAll,
  LoadMatrix,
  MatrixMultiply,
  MbarrierWait, ///< each thread by itself
  SetRegisters,
  WarpgroupMultiply
};

/// Returns the name of an operation, as kernels import it, with what it was called with: "mma (m16n8k16_f32_f16)".
std::string operationText(Operation operation, uint64_t variant);

/// A thread of a block.
struct Lane {
  BlockRunner *block = nullptr;
  Warp *warp = nullptr;
  uint32_t index = 0; ///< in the warp
  std::array<uint32_t, 3> thread = {};
  AsyncCopies copies;
};

/// A warp. Sets of lanes are masks. What lanes say when they begin to wait lies in arrays by lane, one for each fact,
/// because the last lane reads them all.
struct Warp {
  uint32_t size = 0;    ///< threads of a full warp
  uint32_t index = 0;   ///< in the block
  uint64_t exists = 0;  ///< lanes of threads of the block: the last warp may have fewer
  uint64_t ready = 0;   ///< lanes that can go on
  uint64_t waiting = 0; ///< lanes that wait; those that are neither have returned

  // The operation that the waiting lanes wait for, if it is one.
  Operation operation = Operation::Barrier;
  uint64_t variant = 0;
  bool mixed = false;    ///< they wait for several
  int32_t registers = 0; ///< of a thread, as it was set last; 0 if it was not

  std::array<Lane, largestWarp> lanes;
  std::array<Fiber, largestWarp> fibers;
  std::array<Operation, largestWarp> operations = {};
  std::array<uint64_t, largestWarp> variants = {};  ///< calls that differ in it cannot be answered together
  std::array<const void *, largestWarp> sites = {}; ///< where in the kernel the call is
  std::array<int32_t, largestWarp> values = {};
  std::array<int32_t, largestWarp> operands = {};
  std::array<int32_t, largestWarp> widths = {};
  std::array<void *, largestWarp> results = {};
  std::array<std::array<const void *, largestWarp>, 3> pointers = {};
  std::array<uint64_t, largestWarp> descriptors = {};
  PendingProducts products;
  std::array<uint64_t, largestWarp> answers = {};

  /// Returns the mask of all lanes of a full warp.
  uint64_t full() const { return size == largestWarp ? ~uint64_t(0) : (uint64_t(1) << size) - 1; }
  /// True if all threads that have not returned wait for the barrier of the block.
  bool isAtBarrier() const { return ready == 0 && waiting != 0 && !mixed && operation == Operation::Barrier; }
};

/// Answers the operation that all waiting lanes of a warp wait for, other than a barrier of the block. An error names
/// the lane that is wrong.
Status answerWarp(Warp &warp);

} // namespace intarsia::runtime

#endif
