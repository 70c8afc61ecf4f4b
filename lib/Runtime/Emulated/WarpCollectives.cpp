//===- WarpCollectives.cpp - What a warp computes together -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/BlockRunner.h"
#include "lib/Runtime/Emulated/MatrixMultiply.h"
#include "lib/Runtime/Emulated/WarpgroupMultiply.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime {

std::string operationText(Operation operation, uint64_t variant) {
  switch (operation) {
  case Operation::Barrier:
    return "barrier";
  case Operation::WarpBarrier:
    return format("warp_barrier (mask 0x%llx)", (unsigned long long)variant);
  case Operation::ShuffleIdx:
    return "shuffle_idx";
  case Operation::ShuffleUp:
    return "shuffle_up";
  case Operation::ShuffleDown:
    return "shuffle_down";
  case Operation::ShuffleXor:
    return "shuffle_xor";
  case Operation::VoteBallot:
    return "vote_ballot";
  case Operation::VoteAny:
    return "vote_any";
  case Operation::VoteAll:
    return "vote_all";
  case Operation::LoadMatrix:
    return format("ldmatrix (%llu matrices%s)", (unsigned long long)(variant >> 1), variant & 1 ? ", transposed" : "");
  case Operation::MatrixMultiply:
    return format("mma (%s)", findMatrixKind(int32_t(uint32_t(variant)))->name);
  case Operation::MbarrierWait:
    return format("mbarrier_wait (offset %llu, parity %d)", (unsigned long long)(variant >> 1), int(variant & 1));
  case Operation::SetRegisters:
    return format("set_registers (%llu)", (unsigned long long)variant);
  case Operation::WarpgroupMultiply:
    return format("wgmma (m64n%llu, %s%s)", (unsigned long long)(variant >> 2), variant & 2 ? "bf16" : "f16",
                  variant & 1 ? ", transposed" : "");
  }
  __builtin_unreachable();
}

/// Returns the lane whose value a lane gets, or itself if that lane is out of range. PTX ISA, "shfl.sync".
static uint32_t shuffledLane(Operation operation, uint32_t lane, int32_t operand, uint32_t width, uint32_t warpSize) {
  uint32_t offset = uint32_t(operand) & (warpSize - 1);
  uint32_t first = lane & ~(width - 1), last = first + width - 1;
  switch (operation) {
  case Operation::ShuffleUp:
    return lane >= first + offset ? lane - offset : lane;
  case Operation::ShuffleDown:
    return lane + offset <= last ? lane + offset : lane;
  case Operation::ShuffleXor:
    // Segments before the lane's own can be reached.
    return (lane ^ offset) <= last ? lane ^ offset : lane;
  default:
    return first | (offset & (width - 1));
  }
}

static void shuffle(Warp &warp) {
  for (uint32_t lane = 0; lane < warp.size; ++lane) {
    uint32_t other = shuffledLane(warp.operation, lane, warp.operands[lane], uint32_t(warp.widths[lane]), warp.size);
    bool isThere = warp.waiting >> other & 1;
    warp.answers[lane] = uint32_t(warp.values[isThere ? other : lane]);
  }
}

static void vote(Warp &warp) {
  uint64_t ballot = 0;
  for (uint32_t lane = 0; lane < warp.size; ++lane)
    ballot |= uint64_t(warp.values[lane] & 1) << lane;
  ballot &= warp.waiting;
  uint64_t answer = warp.operation == Operation::VoteBallot ? ballot
                    : warp.operation == Operation::VoteAny  ? ballot != 0
                                                            : ballot == warp.waiting;
  warp.answers.fill(answer);
}

/// Returns an error unless all lanes of a full warp wait.
static Status checkFull(const Warp &warp) {
  if (warp.waiting == warp.full())
    return Status::success();
  std::vector<std::string> missing;
  for (uint32_t lane = 0; lane < warp.size; ++lane)
    if (!(warp.waiting >> lane & 1))
      missing.push_back(std::to_string(lane));
  return error(ITX_INTERNAL,
               "warp %u executes %s without its lanes %s, which have returned or are no threads of the block",
               warp.index, operationText(warp.operation, warp.variant).c_str(), join(missing).c_str());
}

/// PTX ISA, "ldmatrix": lane l gets the elements 2 * (l % 4) and the next of row l / 4 of each matrix.
static Status loadMatrix(Warp &warp) {
  ITX_RETURN_IF_ERROR(checkFull(warp));
  if (warp.size != 32)
    return error(ITX_INTERNAL, "ldmatrix needs warps of 32 threads, those of the kernel have %u", warp.size);
  uint32_t count = uint32_t(warp.variant >> 1);
  bool transposed = warp.variant & 1;
  uint16_t matrices[4][8][8];
  for (uint32_t matrix = 0; matrix < count; ++matrix)
    for (uint32_t row = 0; row < 8; ++row)
      std::memcpy(matrices[matrix][row], warp.pointers[0][8 * matrix + row], 16);
  for (uint32_t lane = 0; lane < warp.size; ++lane) {
    uint32_t slow = lane / 4, fast = 2 * (lane % 4);
    for (uint32_t i = 0; i < count; ++i) {
      const auto &matrix = matrices[i];
      uint16_t pair[2] = {transposed ? matrix[fast][slow] : matrix[slow][fast],
                          transposed ? matrix[fast + 1][slow] : matrix[slow][fast + 1]};
      std::memcpy(static_cast<char *>(warp.results[lane]) + 4 * i, pair, 4);
    }
  }
  return Status::success();
}

static Status multiply(Warp &warp) {
  const MatrixKind &kind = *findMatrixKind(int32_t(uint32_t(warp.variant)));
  if (kind.lanes != warp.size)
    return error(ITX_INTERNAL, "the matrix instruction %s needs warps of %u threads, those of the kernel have %u",
                 kind.name, kind.lanes, warp.size);
  ITX_RETURN_IF_ERROR(checkFull(warp));
  // Behind the kind are what lanes say which scales they have.
  MatrixScales scales = {warp.values.data(), warp.operands.data(), uint32_t(warp.variant >> 32 & 0xffff),
                         uint32_t(warp.variant >> 48)};
  return multiplyMatrices(kind, warp.results.data(), warp.pointers[0].data(), warp.pointers[1].data(),
                          warp.pointers[2].data(), scales);
}

static Status setRegisters(Warp &warp) {
  ITX_RETURN_IF_ERROR(checkFull(warp));
  warp.registers = int32_t(warp.variant);
  return Status::success();
}

static Status multiplyByShared(Warp &warp) {
  ITX_RETURN_IF_ERROR(checkFull(warp));
  for (uint32_t lane = 1; lane < warp.size; ++lane)
    if (warp.descriptors[lane] != warp.descriptors[0])
      return error(ITX_INTERNAL, "lanes 0 and %u of warp %u multiply by different matrices, 0x%llx and 0x%llx", lane,
                   warp.index, (unsigned long long)warp.descriptors[0], (unsigned long long)warp.descriptors[lane]);
  SharedMemory &shared = warp.lanes[0].block->shared();
  SharedMatrix right;
  ITX_RETURN_IF_ERROR(readDescriptor(warp.descriptors[0], warp.variant & 1, shared, right));
  uint32_t columns = uint32_t(warp.variant >> 2);
  ITX_RETURN_IF_ERROR(multiplyRegistersOfWarpgroup(shared, warp.pointers[0].data(), right, columns, warp.variant & 2,
                                                   warp.results.data()));
  return warp.products.add(right, 0, columns, shared, warp.lanes[0].block->proxyWrites());
}

Status answerWarp(Warp &warp) {
  switch (warp.operation) {
  case Operation::ShuffleIdx:
  case Operation::ShuffleUp:
  case Operation::ShuffleDown:
  case Operation::ShuffleXor:
    shuffle(warp);
    return Status::success();
  case Operation::VoteBallot:
  case Operation::VoteAny:
  case Operation::VoteAll:
    vote(warp);
    return Status::success();
  case Operation::LoadMatrix:
    return loadMatrix(warp);
  case Operation::MatrixMultiply:
    return multiply(warp);
  case Operation::SetRegisters:
    return setRegisters(warp);
  case Operation::WarpgroupMultiply:
    return multiplyByShared(warp);
  case Operation::Barrier:
  case Operation::WarpBarrier:
  case Operation::MbarrierWait:
    return Status::success(); // nothing but waiting
  }
  __builtin_unreachable();
}

} // namespace intarsia::runtime
