//===- Operations.cpp - Collective operations of a group ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the arguments, and says how the members exchange data: in memory or between hosts.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Operations.h"

#include "intarsia/module_abi.h"
#include "lib/Formats/Dtype.h"
#include "lib/Runtime/Collectives/HostOperations.h"
#include "lib/Runtime/Collectives/SharedOperations.h"

namespace intarsia::runtime {

/// Checks what all operations need, and begins one.
static Status begin(Communicator &group, const Exchange &operation) {
  if (group.index() < 0)
    return error(ITX_INVALID_ARGUMENT, "rank %d is not in the group of ranks %s", group.world().rank(),
                 shapeText(group.ranks()).c_str());
  if (operation.elements >= uint64_t(1) << 50)
    return error(ITX_INVALID_ARGUMENT, "an exchange of %llu elements is too large",
                 (unsigned long long)operation.elements);
  if (!dtypeInfo(operation.element))
    return error(ITX_INVALID_ARGUMENT, "an exchange of the unknown dtype %d", int(operation.element));
  ITX_RETURN_IF_ERROR(group.world().failure());
  group.begin(operation);
  return Status::success();
}

static Status findReducer(Reduction reduction, itx_dtype dtype, Reducer &reducer) {
  const DtypeInfo *info = dtypeInfo(dtype);
  reducer.function = info ? reduceFunction(reduction, dtype) : nullptr;
  reducer.elementBytes = info ? info->bytes : 0;
  reducer.roundsMessages = reduction == Reduction::SumInt8;
  if (reducer.roundsMessages && info && dtype != ITX_F32)
    return error(ITX_UNSUPPORTED, "a sum with messages in INT8 is of f32, not of %s", info->name);
  if (reducer.function)
    return Status::success();
  return error(ITX_UNSUPPORTED, "ranks cannot reduce %s: f32, f64, f16, bf16, i32 and i64 are possible",
               info ? info->name : "an unknown dtype");
}

/// True if sums of hosts would be rounded before they are added.
static bool needsWideSums(const Communicator &group, Reduction reduction, itx_dtype dtype) {
  return reduction == Reduction::Sum && (dtype == ITX_F16 || dtype == ITX_BF16) && !group.isOnOneHost() &&
         group.hosts().size() < group.size();
}

Status allReduce(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination, const void *source,
                 uint64_t elements) {
  Reducer reducer;
  ITX_RETURN_IF_ERROR(findReducer(reduction, dtype, reducer));
  static constexpr uint32_t kinds[] = {ITX_COLLECTIVE_ALL_REDUCE, ITX_COLLECTIVE_ALL_REDUCE_MAX,
                                       ITX_COLLECTIVE_ALL_REDUCE_INT8};
  ITX_RETURN_IF_ERROR(begin(group, {kinds[uint32_t(reduction)], dtype, 0, elements}));
  if (group.isOnOneHost())
    return shared::allReduce(group.here(), reducer, destination, source, elements);
  if (!needsWideSums(group, reduction, dtype))
    return across::allReduce(group, reducer, destination, source, elements);
  std::vector<float> values(elements);
  widenElements(dtype, values.data(), source, elements);
  ITX_RETURN_IF_ERROR(findReducer(reduction, ITX_F32, reducer));
  ITX_RETURN_IF_ERROR(across::allReduce(group, reducer, values.data(), values.data(), elements));
  narrowElements(dtype, destination, values.data(), elements);
  return Status::success();
}

Status reduceScatterRows(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination,
                         const void *source, uint64_t rows, uint64_t rowElements) {
  RowShares shares(rows, group.size());
  if (shares.each == rows) // one row, or none: each member gets all
    return allReduce(group, reduction, dtype, destination, source, rows * rowElements);
  Reducer reducer;
  ITX_RETURN_IF_ERROR(findReducer(reduction, dtype, reducer));
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_REDUCE_SCATTER, dtype, uint32_t(reduction), rows * rowElements}));
  if (group.isOnOneHost())
    return shared::reduceScatterRows(group.here(), reducer, destination, source, shares, rowElements);
  if (!needsWideSums(group, reduction, dtype))
    return across::reduceScatterRows(group, reducer, destination, source, shares, rowElements);
  std::vector<float> values(rows * rowElements), own(shares.each * rowElements);
  widenElements(dtype, values.data(), source, values.size());
  ITX_RETURN_IF_ERROR(findReducer(reduction, ITX_F32, reducer));
  ITX_RETURN_IF_ERROR(across::reduceScatterRows(group, reducer, own.data(), values.data(), shares, rowElements));
  narrowElements(dtype, destination, own.data(), own.size());
  return Status::success();
}

Status reduceScatter(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination, const void *source,
                     uint64_t elements) {
  size_t members = group.size();
  if (elements % members != 0)
    return error(ITX_INVALID_ARGUMENT, "%llu elements cannot be scattered to %zu ranks in equal parts",
                 (unsigned long long)elements, members);
  return reduceScatterRows(group, reduction, dtype, destination, source, members, elements / members);
}

Status allGather(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t elements,
                 const uint64_t *counts) {
  std::vector<uint64_t> all(group.size(), 1);
  if (group.isOnOneHost()) {
    ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_ALL_GATHER, dtype, 0, elements, /*hasOwnElements=*/true}));
    return shared::allGather(group.here(), dtypeInfo(dtype)->bytes, destination, source, elements, counts);
  }
  if (counts) {
    all.assign(counts, counts + group.size());
  } else {
    // The others learn how many there are.
    std::vector<uint64_t> ones = all;
    ITX_RETURN_IF_ERROR(allGather(group, ITX_I64, all.data(), &elements, 1, ones.data()));
  }
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_ALL_GATHER, dtype, 0, elements, /*hasOwnElements=*/true}));
  if (all[size_t(group.index())] != elements)
    return error(ITX_INVALID_ARGUMENT,
                 "rank %d gives %llu elements to an all-gather in which it expects %llu of itself",
                 group.world().rank(), (unsigned long long)elements, (unsigned long long)all[size_t(group.index())]);
  return across::allGather(group, dtypeInfo(dtype)->bytes, destination, source, all);
}

Status allGatherRows(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t rows,
                     uint64_t rowElements) {
  RowShares shares(rows, group.size());
  if (shares.each == rows) {
    ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_ALL_GATHER, dtype, 0, rows * rowElements, true}));
    copyBytes(destination, source, rows * rowElements * dtypeInfo(dtype)->bytes);
    return Status::success();
  }
  std::vector<uint64_t> counts;
  for (size_t member = 0; member < group.size(); ++member)
    counts.push_back(shares.ownCount(member) * rowElements);
  uint64_t own = group.index() < 0 ? 0 : counts[size_t(group.index())];
  return allGather(group, dtype, destination, source, own, counts.data());
}

static Status exchangeParts(Communicator &group, void *destination, const void *source, uint64_t longest,
                            const Parts &sent, const Parts &received) {
  return group.isOnOneHost() ? shared::exchangeParts(group.here(), destination, source, longest, sent, received)
                             : across::exchangeParts(group, destination, source, longest, sent, received);
}

Status allToAll(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t elements) {
  size_t members = group.size();
  if (elements % members != 0)
    return error(ITX_INVALID_ARGUMENT, "%llu elements cannot be sent to %zu ranks in equal parts",
                 (unsigned long long)elements, members);
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_ALL_TO_ALL, dtype, 0, elements}));
  uint64_t part = elements / members * dtypeInfo(dtype)->bytes;
  Parts parts(std::vector<uint64_t>(members, part));
  return exchangeParts(group, destination, source, part, parts, parts);
}

Status allToAllUnequal(Communicator &group, itx_dtype dtype, void *destination, const void *source,
                       const uint64_t *sendCounts, const uint64_t *receiveCounts) {
  size_t members = group.size();
  // Each tells the others what it sends to whom.
  std::vector<uint64_t> counts(members * members), own(sendCounts, sendCounts + members), each(members, members);
  ITX_RETURN_IF_ERROR(allGather(group, ITX_I64, counts.data(), own.data(), members, each.data()));
  ITX_RETURN_IF_ERROR(begin(group, {exchangeKind, dtype, 0, 0}));
  uint64_t size = dtypeInfo(dtype)->bytes, longest = 0;
  for (uint64_t count : counts)
    longest = std::max(longest, count * size);
  std::vector<uint64_t> sendBytes, receiveBytes;
  for (size_t member = 0; member < members; ++member) {
    uint64_t sent = counts[member * members + size_t(group.index())];
    if (sent != receiveCounts[member])
      return group.world().fail(error(
          ITX_INVALID_ARGUMENT, "rank %d sends %llu elements to rank %d, which expects %llu", group.ranks()[member],
          (unsigned long long)sent, group.world().rank(), (unsigned long long)receiveCounts[member]));
    sendBytes.push_back(sendCounts[member] * size);
    receiveBytes.push_back(sent * size);
  }
  return exchangeParts(group, destination, source, longest, Parts(sendBytes), Parts(receiveBytes));
}

Status broadcast(Communicator &group, itx_dtype dtype, size_t root, void *destination, const void *source,
                 uint64_t elements) {
  if (root >= group.size())
    return error(ITX_INVALID_ARGUMENT, "a broadcast from rank %zu of a group of %zu", root, group.size());
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_BROADCAST, dtype, uint32_t(root), elements}));
  uint64_t bytes = elements * dtypeInfo(dtype)->bytes;
  if (int32_t(root) == group.index())
    copyBytes(destination, source, bytes);
  return group.isOnOneHost() ? shared::broadcast(group.here(), root, destination, bytes)
                             : across::broadcast(group, root, destination, bytes);
}

/// Begins a transfer in a group of two; `sender` is the member that sends.
static Status beginTransfer(Communicator &group, itx_dtype dtype, bool sends, uint64_t elements) {
  if (group.size() != 2)
    return error(ITX_INVALID_ARGUMENT, "a transfer in a group of %zu ranks; it needs a group of two", group.size());
  uint32_t sender = uint32_t(sends ? group.index() : 1 - group.index());
  return begin(group, {ITX_COLLECTIVE_SEND, dtype, sender, elements});
}

Status send(Communicator &group, itx_dtype dtype, const void *source, uint64_t elements) {
  ITX_RETURN_IF_ERROR(beginTransfer(group, dtype, /*sends=*/true, elements));
  uint64_t bytes = elements * dtypeInfo(dtype)->bytes;
  return group.isOnOneHost() ? shared::send(group.here(), source, bytes) : across::send(group, source, bytes);
}

Status receive(Communicator &group, itx_dtype dtype, void *destination, uint64_t elements) {
  ITX_RETURN_IF_ERROR(beginTransfer(group, dtype, /*sends=*/false, elements));
  uint64_t bytes = elements * dtypeInfo(dtype)->bytes;
  return group.isOnOneHost() ? shared::receive(group.here(), destination, bytes)
                             : across::receive(group, destination, bytes);
}

Status barrier(Communicator &group) {
  ITX_RETURN_IF_ERROR(begin(group, {barrierKind, ITX_U8}));
  return group.isOnOneHost() ? shared::barrier(group.here()) : across::barrier(group);
}

} // namespace intarsia::runtime
