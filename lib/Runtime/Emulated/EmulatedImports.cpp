//===- EmulatedImports.cpp - Functions that kernels of the emulated GPU call -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
// They run on the fiber of the calling thread. What a collective operation needs is noted in the warp before the thread
// begins to wait.
#include "intarsia/emulated_abi.h"
#include "lib/Runtime/Emulated/BlockRunner.h"
#include "lib/Runtime/Emulated/MatrixMultiply.h"
#include "lib/Runtime/Emulated/WarpgroupMultiply.h"

#include <bit>

using namespace intarsia;
using namespace intarsia::runtime;

/// Where the kernel calls the function that this is used in.
#define ITX_CALL_SITE __builtin_return_address(0)

/// Returns the number of the calling thread in its block.
static uint32_t threadNumber(const Lane &lane) { return lane.warp->index * lane.warp->size + lane.index; }

// ---- Where a thread is -----------------------------------------------------------------------------------------

/// Returns the dimension, if it is one.
static uint32_t checkDimension(int32_t dimension) {
  if (dimension < 0 || dimension > 2)
    currentLane->block->fail(*currentLane,
                             error(ITX_INTERNAL, "asks for dimension %d, dimensions are 0 to 2", dimension));
  return uint32_t(dimension);
}

int32_t itx_emulated_thread_id(int32_t dimension) { return int32_t(currentLane->thread[checkDimension(dimension)]); }
int32_t itx_emulated_block_id(int32_t dimension) {
  return int32_t(currentLane->block->block()[checkDimension(dimension)]);
}
int32_t itx_emulated_block_dim(int32_t dimension) {
  return int32_t(currentLane->block->launch().block[checkDimension(dimension)]);
}
int32_t itx_emulated_grid_dim(int32_t dimension) {
  return int32_t(currentLane->block->launch().grid[checkDimension(dimension)]);
}
int32_t itx_emulated_lane_id() { return int32_t(currentLane->index); }
int32_t itx_emulated_warp_size() { return int32_t(currentLane->warp->size); }

void itx_emulated_trap() { currentLane->block->fail(*currentLane, error(ITX_INTERNAL, "the kernel executes a trap")); }

// ---- Memory ----------------------------------------------------------------------------------------------------

void *itx_emulated_shared() { return currentLane->block->shared().address(); }

/// Returns the error of an access that the calling thread may not make.
static Status accessError(const char *verb, bool isStore, const void *address, int64_t bytes, int32_t space) {
  return error(ITX_INTERNAL, "%s %lld bytes at %s", verb, (long long)bytes,
               currentLane->block->explainAccess(isStore, address, bytes, space).c_str());
}

/// Ends the kernel unless the calling thread may do what `verb` says with bytes of an address space.
static void checkAccess(const char *verb, bool isStore, const void *address, int64_t bytes, int32_t space) {
  Lane &lane = *currentLane;
  if (!lane.block->mayAccess(lane, isStore, address, bytes, space))
    lane.block->fail(lane, accessError(verb, isStore, address, bytes, space));
}

/// Ends the kernel if the calling thread reads bytes of shared memory that are not written.
static void checkWritten(const void *address, uint64_t bytes) {
  Lane &lane = *currentLane;
  SharedMemory &shared = lane.block->shared();
  if (!shared.areWritten(address, bytes))
    lane.block->fail(lane, error(ITX_INTERNAL,
                                 "loads %llu bytes at offset %llu of shared memory, where nothing has been written to "
                                 "offset %llu; is a barrier or a wait for asynchronous copies missing?",
                                 (unsigned long long)bytes, (unsigned long long)shared.offsetOf(address),
                                 (unsigned long long)shared.firstUnwritten(address, bytes)));
}

/// Ends the kernel if the calling thread writes to bytes of shared memory that matrix instructions may still read.
static void checkNotBeingRead(const char *verb, const void *address, uint64_t bytes) {
  Lane &lane = *currentLane;
  SharedMemory &shared = lane.block->shared();
  if (shared.areBeingRead(address, bytes))
    lane.block->fail(lane, error(ITX_INTERNAL,
                                 "%s %llu bytes at offset %llu of shared memory, which a matrix instruction of four "
                                 "warps may still read; is a wait for it missing, or a barrier behind the wait?",
                                 verb, (unsigned long long)bytes, (unsigned long long)shared.offsetOf(address)));
}

/// Returns true if bytes are in shared memory, and an access of this address space may be one to it.
static bool isShared(const SharedMemory &shared, const void *address, int64_t bytes, int32_t space) {
  return (space == ITX_EMULATED_SHARED || space == ITX_EMULATED_GENERIC) && shared.contains(address, bytes);
}

void itx_emulated_load_check(const void *address, int64_t bytes, int32_t space) {
  BlockRunner &block = *currentLane->block;
  if (space == ITX_EMULATED_GLOBAL && block.isInLastRange(false, address, bytes))
    return;
  if (isShared(block.shared(), address, bytes, space))
    return checkWritten(address, bytes);
  checkAccess("loads", false, address, bytes, space);
}

void itx_emulated_store_check(void *address, int64_t bytes, int32_t space) {
  BlockRunner &block = *currentLane->block;
  if (space == ITX_EMULATED_GLOBAL && block.isInLastRange(true, address, bytes))
    return;
  if (isShared(block.shared(), address, bytes, space)) {
    checkNotBeingRead("stores", address, uint64_t(bytes));
    block.proxyWrites().write(threadNumber(*currentLane), block.shared().offsetOf(address), uint64_t(bytes));
    return block.shared().noteWritten(address, bytes);
  }
  checkAccess("stores", true, address, bytes, space);
}

/// Ends the kernel unless an address is aligned for an access of so many bytes.
static void checkAlignment(const char *what, const void *address, uint32_t alignment) {
  Lane &lane = *currentLane;
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
    lane.block->fail(lane, error(ITX_INTERNAL, "%s %p is not aligned to %u bytes", what, address, alignment));
}

/// Makes shared memory ready for a copy, which nothing may read any more: what threads have written there is gone.
static void prepareTarget(const void *address, uint64_t bytes) {
  BlockRunner &block = *currentLane->block;
  checkNotBeingRead("copies to", address, bytes);
  block.proxyWrites().clear(block.shared().offsetOf(address), bytes);
}

void itx_emulated_async_copy(void *destination, const void *source, int32_t bytes, int32_t sourceBytes) {
  Lane &lane = *currentLane;
  bool isSize = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 12 || bytes == 16;
  if (!isSize || sourceBytes < 0 || sourceBytes > bytes)
    lane.block->fail(lane,
                     error(ITX_INTERNAL, "copies %d bytes asynchronously, of which %d from the source; no GPU does",
                           bytes, sourceBytes));
  uint32_t alignment = bytes & -bytes;
  checkAlignment("the destination of an asynchronous copy,", destination, alignment);
  checkAccess("copies asynchronously to", true, destination, bytes, ITX_EMULATED_SHARED);
  if (sourceBytes != 0) {
    checkAlignment("the source of an asynchronous copy,", source, alignment);
    checkAccess("copies asynchronously from", false, source, sourceBytes, ITX_EMULATED_GLOBAL);
  }
  prepareTarget(destination, bytes);
  lane.block->shared().forget(destination, bytes);
  if (!lane.copies.add(destination, source, bytes, sourceBytes))
    lane.block->fail(lane, error(ITX_OUT_OF_MEMORY, "out of memory for an asynchronous copy"));
}

void itx_emulated_async_commit() {
  Lane &lane = *currentLane;
  if (!lane.copies.commit())
    lane.block->fail(lane, error(ITX_OUT_OF_MEMORY, "out of memory for a group of asynchronous copies"));
}

void itx_emulated_async_wait(int32_t groups) {
  Lane &lane = *currentLane;
  if (groups < 0)
    lane.block->fail(lane, error(ITX_INTERNAL, "waits for all but %d groups of asynchronous copies", groups));
  lane.copies.land(groups, lane.block->shared(), lane.block->proxyWrites(), threadNumber(lane));
}

/// Ends the kernel with an error, unless it is none.
static void failUnless(Status &&status) {
  if (!status.ok())
    currentLane->block->fail(*currentLane, std::move(status));
}

void itx_emulated_mbarrier_init(void *barrier, int32_t count) {
  BlockRunner &block = *currentLane->block;
  failUnless(block.mbarriers().init(block.shared().offsetOf(barrier), count, threadNumber(*currentLane)));
}

void itx_emulated_proxy_fence() {
  BlockRunner &block = *currentLane->block;
  block.mbarriers().fence(threadNumber(*currentLane));
  block.proxyWrites().fence(threadNumber(*currentLane));
}

void itx_emulated_mbarrier_arrive(void *barrier) { itx_emulated_mbarrier_arrive_expect(barrier, 0); }

void itx_emulated_mbarrier_arrive_expect(void *barrier, int32_t bytes) {
  BlockRunner &block = *currentLane->block;
  failUnless(block.mbarriers().arrive(block.shared().offsetOf(barrier), bytes));
}

void itx_emulated_mbarrier_wait(void *barrier, int32_t parity) {
  Lane &lane = *currentLane;
  BlockRunner &block = *lane.block;
  uint64_t offset = block.shared().offsetOf(barrier);
  failUnless(block.mbarriers().check("waits at", offset));
  if (!block.mbarriers().isPast(offset, parity & 1))
    block.rendezvous(lane, Operation::MbarrierWait, offset << 1 | (parity & 1), ITX_CALL_SITE);
}

void itx_emulated_tensor_copy(void *destination, const void *map, int32_t column, int32_t row, void *barrier) {
  BlockRunner &block = *currentLane->block;
  const TensorMap *found = nullptr;
  for (const TensorMap &one : block.launch().tensorMaps)
    if (&one == map)
      found = &one;
  if (!found)
    block.fail(*currentLane,
               error(ITX_INTERNAL, "copies by the tensor map %p, which is no argument of the kernel", map));
  SharedMemory &shared = block.shared();
  prepareTarget(destination, found->boxBytes());
  failUnless(block.mbarriers().copy(shared.offsetOf(barrier), {found, shared.offsetOf(destination), row, column}));
}

// ---- Threads that wait for each other --------------------------------------------------------------------------

void itx_emulated_barrier() { currentLane->block->rendezvous(*currentLane, Operation::Barrier, 0, ITX_CALL_SITE); }

void itx_emulated_warp_barrier(int64_t mask) {
  Lane &lane = *currentLane;
  if (!(uint64_t(mask) >> lane.index & 1))
    lane.block->fail(lane, error(ITX_INTERNAL, "waits at a warp barrier whose mask 0x%llx is without its own lane %u",
                                 (unsigned long long)mask, lane.index));
  // Lanes that the warp does not have make no difference: NVIDIA's mask of all lanes is 32 bits with its sign.
  lane.block->rendezvous(lane, Operation::WarpBarrier, uint64_t(mask) & lane.warp->full(), ITX_CALL_SITE);
}

/// Waits for the shuffle of the warp and returns the value that the calling thread gets.
static int32_t shuffle(Operation operation, int32_t value, int32_t operand, int32_t width, const void *site) {
  Lane &lane = *currentLane;
  Warp &warp = *lane.warp;
  if (width <= 0 || uint32_t(width) > warp.size || !std::has_single_bit(uint32_t(width)))
    lane.block->fail(lane, error(ITX_INTERNAL, "shuffles segments of %d lanes; their width is a power of two up to %u",
                                 width, warp.size));
  warp.values[lane.index] = value;
  warp.operands[lane.index] = operand;
  warp.widths[lane.index] = width;
  return int32_t(lane.block->rendezvous(lane, operation, 0, site));
}

int32_t itx_emulated_shuffle_idx(int32_t value, int32_t lane, int32_t width) {
  return shuffle(Operation::ShuffleIdx, value, lane, width, ITX_CALL_SITE);
}
int32_t itx_emulated_shuffle_up(int32_t value, int32_t offset, int32_t width) {
  return shuffle(Operation::ShuffleUp, value, offset, width, ITX_CALL_SITE);
}
int32_t itx_emulated_shuffle_down(int32_t value, int32_t offset, int32_t width) {
  return shuffle(Operation::ShuffleDown, value, offset, width, ITX_CALL_SITE);
}
int32_t itx_emulated_shuffle_xor(int32_t value, int32_t mask, int32_t width) {
  return shuffle(Operation::ShuffleXor, value, mask, width, ITX_CALL_SITE);
}

/// Waits for the vote of the warp and returns its result.
static uint64_t vote(Operation operation, int32_t predicate, const void *site) {
  Lane &lane = *currentLane;
  lane.warp->values[lane.index] = predicate & 1;
  return lane.block->rendezvous(lane, operation, 0, site);
}

int64_t itx_emulated_vote_ballot(int32_t predicate) {
  return int64_t(vote(Operation::VoteBallot, predicate, ITX_CALL_SITE));
}
int32_t itx_emulated_vote_any(int32_t predicate) { return int32_t(vote(Operation::VoteAny, predicate, ITX_CALL_SITE)); }
int32_t itx_emulated_vote_all(int32_t predicate) { return int32_t(vote(Operation::VoteAll, predicate, ITX_CALL_SITE)); }

int32_t itx_emulated_elect() {
  return uint32_t(std::countr_zero(vote(Operation::VoteBallot, 1, ITX_CALL_SITE))) == currentLane->index;
}

void itx_emulated_set_registers(int32_t count) {
  Lane &lane = *currentLane;
  if (count < 24 || count > 256 || count % 8 != 0)
    lane.block->fail(
        lane, error(ITX_INTERNAL, "sets %d registers of a thread; multiples of 8 from 24 to 256 are possible", count));
  lane.block->rendezvous(lane, Operation::SetRegisters, uint64_t(count), ITX_CALL_SITE);
}

void itx_emulated_ldmatrix(int32_t *result, const void *row, int32_t count, int32_t transposed) {
  Lane &lane = *currentLane;
  if (count != 1 && count != 2 && count != 4)
    lane.block->fail(lane, error(ITX_INTERNAL, "loads %d matrices, ldmatrix loads 1, 2 or 4", count));
  if (lane.index < uint32_t(8 * count)) {
    checkAlignment("the row of ldmatrix,", row, 16);
    checkAccess("loads with ldmatrix", false, row, 16, ITX_EMULATED_SHARED);
    checkWritten(row, 16);
  }
  lane.warp->results[lane.index] = result;
  lane.warp->pointers[0][lane.index] = row;
  lane.block->rendezvous(lane, Operation::LoadMatrix, uint64_t(count) << 1 | (transposed != 0), ITX_CALL_SITE);
}

void itx_emulated_wgmma(float *sums, int64_t a, int64_t b, int32_t columns, int32_t element) {
  Lane &lane = *currentLane;
  SharedMemory &shared = lane.block->shared();
  SharedMatrix left, right;
  Status status = readDescriptor(uint64_t(a), /*transposed=*/false, shared, left);
  if (status.ok())
    status = readDescriptor(uint64_t(b), /*transposed=*/false, shared, right);
  if (status.ok())
    status = multiplyOfWarpgroup(shared, left, right, lane.warp->index, lane.index, uint32_t(columns), element, sums);
  // Lanes of a warp read the same rows.
  PendingProducts &products = lane.warp->products;
  if (status.ok() && lane.index == 0)
    status = products.add(left, lane.warp->index % 4 * 16, 16, shared, lane.block->proxyWrites());
  if (status.ok() && lane.index == 0)
    status = products.add(right, 0, uint32_t(columns), shared, lane.block->proxyWrites());
  failUnless(std::move(status));
}

void itx_emulated_wgmma_registers(float *sums, const void *a, int64_t b, int32_t columns, int32_t bf16,
                                  int32_t transposed) {
  Lane &lane = *currentLane;
  Warp &warp = *lane.warp;
  if (warp.size != 32 || columns <= 0 || columns > 256 || columns % 8 != 0)
    lane.block->fail(
        lane, error(ITX_INTERNAL, "wgmma of %d columns by warps of %u threads; no GPU does", columns, warp.size));
  warp.results[lane.index] = sums;
  warp.pointers[0][lane.index] = a;
  warp.descriptors[lane.index] = uint64_t(b);
  uint64_t variant = uint64_t(columns) << 2 | uint64_t(bf16 != 0) << 1 | (transposed != 0);
  lane.block->rendezvous(lane, Operation::WarpgroupMultiply, variant, ITX_CALL_SITE);
}

// The first lane of a warp speaks for it.

void itx_emulated_wgmma_commit() {
  Lane &lane = *currentLane;
  if (lane.index == 0 && !lane.warp->products.commit())
    lane.block->fail(lane, error(ITX_OUT_OF_MEMORY, "out of memory for a group of products of matrices"));
}

void itx_emulated_wgmma_wait(int64_t groups) {
  Lane &lane = *currentLane;
  if (groups < 0)
    lane.block->fail(lane,
                     error(ITX_INTERNAL, "waits for all but %lld groups of products of matrices", (long long)groups));
  // Lanes multiply one after the other here: behind the wait all of them have.
  lane.block->rendezvous(lane, Operation::WarpBarrier, lane.warp->full(), ITX_CALL_SITE);
  if (lane.index == 0)
    lane.warp->products.end(uint64_t(groups), lane.block->shared());
}

/// Waits for the matrix instruction of the warp. Selectors of scales are behind its kind in the variant.
static void multiplyMatrices(int32_t kind, void *result, const void *a, const void *b, const void *accumulator,
                             uint64_t selectors, bool isScaled, const void *site) {
  Lane &lane = *currentLane;
  Warp &warp = *lane.warp;
  const MatrixKind *known = findMatrixKind(kind);
  if (!known || (known->scaleBlock != 0) != isScaled)
    lane.block->fail(lane, error(ITX_INTERNAL, "there is no matrix instruction of kind %d%s", kind,
                                 known ? isScaled ? " with scales" : " without scales" : ""));
  warp.results[lane.index] = result;
  warp.pointers[0][lane.index] = a;
  warp.pointers[1][lane.index] = b;
  warp.pointers[2][lane.index] = accumulator;
  lane.block->rendezvous(lane, Operation::MatrixMultiply, uint64_t(uint32_t(kind)) | selectors, site);
}

void itx_emulated_mma(int32_t kind, void *result, const void *a, const void *b, const void *accumulator) {
  multiplyMatrices(kind, result, a, b, accumulator, /*selectors=*/0, /*isScaled=*/false, ITX_CALL_SITE);
}

void itx_emulated_mma_scaled(int32_t kind, void *result, const void *a, const void *b, const void *accumulator,
                             int32_t scales_a, int32_t selector_a, int32_t scales_b, int32_t selector_b) {
  Lane &lane = *currentLane;
  lane.warp->values[lane.index] = scales_a;
  lane.warp->operands[lane.index] = scales_b;
  uint64_t selectors = uint64_t(uint16_t(selector_a)) << 32 | uint64_t(uint16_t(selector_b)) << 48;
  multiplyMatrices(kind, result, a, b, accumulator, selectors, /*isScaled=*/true, ITX_CALL_SITE);
}
