//===- Operations.cpp - Collective operations of a group
//------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Operations.h"

#include "intarsia/module_abi.h"
#include "lib/Formats/Dtype.h"
#include "lib/Runtime/Collectives/PublishCopy.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime {

/// Alignment of the parts of a round: a cache line, so that no two members write to one.
static constexpr uint64_t partAlignment = 64;

static constexpr uint64_t mostOfARound = Communicator::chunkBytes;

static uint8_t *bytesOf(void *data) { return static_cast<uint8_t *>(data); }
static const uint8_t *bytesOf(const void *data) { return static_cast<const uint8_t *>(data); }

static uint64_t chunksOf(uint64_t total, uint64_t chunk) { return (total + chunk - 1) / chunk; }

static void copy(void *destination, const void *source, uint64_t bytes) {
  if (destination != source && bytes != 0)
    std::memmove(destination, source, bytes);
}

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

/// Runs rounds: `publish(i)` fills and publishes the i-th round, `read(i)` reads what all have published in it. A round
/// is published after the one two before it was read, or after round neededBy(i), so that ranks seldom wait.
template <typename Publish, typename Read, typename Needed>
static Status runRounds(Communicator &group, uint64_t count, Publish publish, Read read, Needed neededBy) {
  uint64_t first = group.next(), done = 0;
  auto readUpTo = [&](uint64_t end) -> Status {
    for (; done < end; ++done) {
      ITX_RETURN_IF_ERROR(group.await(first + done));
      read(done);
    }
    return Status::success();
  };
  for (uint64_t i = 0; i < count; ++i) {
    ITX_RETURN_IF_ERROR(readUpTo(std::max(i < 2 ? 0 : i - 1, neededBy(i))));
    ITX_RETURN_IF_ERROR(publish(i));
    group.publish();
  }
  return readUpTo(count);
}

/// The same where no round needs what another one has brought.
template <typename Publish, typename Read>
static Status runRounds(Communicator &group, uint64_t count, Publish publish, Read read) {
  return runRounds(group, count, publish, read, [](uint64_t) { return uint64_t(0); });
}

static Status findReduction(Reduction reduction, itx_dtype dtype, ReduceFunction &function) {
  function = dtypeInfo(dtype) ? reduceFunction(reduction, dtype) : nullptr;
  if (function)
    return Status::success();
  const DtypeInfo *info = dtypeInfo(dtype);
  return error(ITX_UNSUPPORTED, "ranks cannot reduce %s: f32, f64, f16, bf16, i32 and i64 are possible",
               info ? info->name : "an unknown dtype");
}

static uint32_t kindOf(Reduction reduction) {
  return reduction == Reduction::Sum ? ITX_COLLECTIVE_ALL_REDUCE : ITX_COLLECTIVE_ALL_REDUCE_MAX;
}

// ---- All-reduce -------------------------------------------------------------------------------------------

namespace {

/// What the parts of a reduction have in common.
struct Reducing {
  Communicator &group;
  ReduceFunction reduce;
  uint64_t elementBytes;
  uint8_t *destination;
  const uint8_t *source;
  uint64_t elements;
  std::vector<const void *> sources = std::vector<const void *>(group.size());

  /// Reduces a part: `own` is this rank's, those of the others lie at `offset` of what they published in a round.
  void operator()(void *result, const void *own, uint64_t round, uint64_t published, uint64_t offset, uint64_t count) {
    for (size_t member = 0; member < sources.size(); ++member)
      sources[member] = int32_t(member) == group.index() ? own : group.published(member, round, published) + offset;
    reduce(result, sources.data(), sources.size(), count);
  }
};

} // namespace

/// Each rank publishes everything and reduces everything: one round a chunk.
static Status allReduceDirectly(Reducing &all) {
  uint64_t chunk = mostOfARound / all.elementBytes, first = all.group.next();
  auto length = [&](uint64_t i) { return std::min(chunk, all.elements - i * chunk); };
  return runRounds(
      all.group, chunksOf(all.elements, chunk),
      [&](uint64_t i) -> Status {
        uint8_t *data;
        ITX_RETURN_IF_ERROR(all.group.prepare(length(i) * all.elementBytes, data));
        publishCopy(data, all.source + i * chunk * all.elementBytes, length(i) * all.elementBytes);
        return Status::success();
      },
      [&](uint64_t i) {
        uint64_t begin = i * chunk * all.elementBytes;
        all(all.destination + begin, all.source + begin, first + i, length(i) * all.elementBytes, 0, length(i));
      });
}

/// Each rank reduces its piece of a chunk and publishes the result: two rounds a chunk. The first of the next chunk is
/// published before the second of this one.
static Status allReduceByPieces(Reducing &all) {
  size_t members = all.group.size(), own = size_t(all.group.index());
  uint64_t size = all.elementBytes, first = all.group.next();
  uint64_t chunk = mostOfARound / members / partAlignment * partAlignment / size * members;
  uint64_t chunks = chunksOf(all.elements, chunk);
  // Elements of a piece of a chunk; the last chunk is shared evenly too.
  auto roomOf = [&](uint64_t c) {
    uint64_t unit = partAlignment / size;
    return chunksOf(chunksOf(std::min(chunk, all.elements - c * chunk), members), unit) * unit;
  };
  struct Piece {
    uint64_t begin, length, offset; ///< elements; bytes in what is published
  };
  auto piece = [&](uint64_t c, size_t member) -> Piece {
    uint64_t begin = std::min(c * chunk + member * roomOf(c), all.elements);
    return {begin, std::min(roomOf(c), all.elements - begin), member * roomOf(c) * size};
  };
  // Rounds: scatter 0, scatter 1, gather 0, scatter 2, gather 1, …, gather of the last.
  auto isGather = [&](uint64_t i) { return i + 1 == 2 * chunks || (i > 0 && i % 2 == 0); };
  auto chunkOf = [&](uint64_t i) { return i + 1 == 2 * chunks ? chunks - 1 : isGather(i) ? i / 2 - 1 : (i + 1) / 2; };
  return runRounds(
      all.group, 2 * chunks,
      [&](uint64_t i) -> Status {
        uint64_t c = chunkOf(i);
        uint8_t *data;
        ITX_RETURN_IF_ERROR(all.group.prepare(mostOfARound, data));
        for (size_t member = 0; member < members; ++member)
          if (isGather(i) ? member == own : member != own) {
            auto [begin, length, offset] = piece(c, member);
            const uint8_t *from = isGather(i) ? all.destination : all.source;
            publishCopy(data + offset, from + begin * size, length * size);
          }
        return Status::success();
      },
      [&](uint64_t i) {
        uint64_t c = chunkOf(i);
        if (!isGather(i)) {
          auto [begin, length, offset] = piece(c, own);
          all(all.destination + begin * size, all.source + begin * size, first + i, mostOfARound, offset, length);
          return;
        }
        for (size_t member = 0; member < members; ++member)
          if (member != own) {
            auto [begin, length, offset] = piece(c, member);
            std::memcpy(all.destination + begin * size, all.group.published(member, first + i, mostOfARound) + offset,
                        length * size);
          }
      },
      [&](uint64_t i) { return !isGather(i)      ? 0
                               : chunkOf(i) == 0 ? uint64_t(1)
                                                 : 2 * chunkOf(i); });
}

/// Smallest bytes from which on three and more ranks reduce by pieces: below, the second round costs more than reading
/// the data of all. Measured with 4 ranks on 2 cores (bench/collectives.py).
static constexpr uint64_t piecesFromBytes = 16384;

Status allReduce(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination, const void *source,
                 uint64_t elements) {
  Reducing all = {group, nullptr, 0, bytesOf(destination), bytesOf(source), elements};
  ITX_RETURN_IF_ERROR(findReduction(reduction, dtype, all.reduce));
  ITX_RETURN_IF_ERROR(begin(group, {kindOf(reduction), dtype, 0, elements}));
  all.elementBytes = dtypeInfo(dtype)->bytes;
  if (group.size() == 1) {
    copy(destination, source, elements * all.elementBytes);
    return Status::success();
  }
  bool byPieces = group.size() > 2 && elements * all.elementBytes >= piecesFromBytes;
  return byPieces ? allReduceByPieces(all) : allReduceDirectly(all);
}

namespace {

/// How rows are shared: each of the members has as many, which may go beyond the last row.
struct RowShares {
  uint64_t rows, each;
  RowShares(uint64_t rows, size_t members) : rows(rows), each(chunksOf(rows, members)) {}
  /// The first row of a member; the last of all for one that begins behind it.
  uint64_t begin(size_t member) const { return std::min(member * each, rows - 1); }
  /// Rows of a member that are not repeated.
  uint64_t count(size_t member) const { return std::min(each, rows - begin(member)); }
  /// The same without the last row of all where it is another member's.
  uint64_t ownCount(size_t member) const { return member * each < rows ? count(member) : 0; }
};

} // namespace

Status reduceScatterRows(Communicator &group, Reduction reduction, itx_dtype dtype, void *destination,
                         const void *source, uint64_t rows, uint64_t rowElements) {
  size_t members = group.size();
  RowShares shares(rows, members);
  if (shares.each == rows) // one row, or none: each member gets all
    return allReduce(group, reduction, dtype, destination, source, rows * rowElements);
  Reducing all = {group, nullptr, 0, bytesOf(destination), bytesOf(source), rows * rowElements};
  ITX_RETURN_IF_ERROR(findReduction(reduction, dtype, all.reduce));
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_REDUCE_SCATTER, dtype, uint32_t(reduction), all.elements}));
  size_t own = size_t(group.index());
  uint64_t size = all.elementBytes = dtypeInfo(dtype)->bytes, first = group.next();
  uint64_t room = mostOfARound / members / partAlignment * partAlignment / size;
  auto length = [&](size_t member, uint64_t i) {
    return std::min(room, shares.count(member) * rowElements - std::min(i * room, shares.count(member) * rowElements));
  };
  auto from = [&](size_t member, uint64_t i) {
    return all.source + (shares.begin(member) * rowElements + i * room) * size;
  };
  ITX_RETURN_IF_ERROR(runRounds(
      group, chunksOf(shares.each * rowElements, room),
      [&](uint64_t i) -> Status {
        uint8_t *data;
        ITX_RETURN_IF_ERROR(group.prepare(mostOfARound, data));
        for (size_t member = 0; member < members; ++member)
          if (member != own && length(member, i) != 0)
            publishCopy(data + member * room * size, from(member, i), length(member, i) * size);
        return Status::success();
      },
      [&](uint64_t i) {
        if (uint64_t count = length(own, i))
          all(all.destination + i * room * size, from(own, i), first + i, mostOfARound, own * room * size, count);
      }));
  uint64_t rowBytes = rowElements * size, count = shares.count(own);
  for (uint64_t row = count; row < shares.each; ++row)
    copy(all.destination + row * rowBytes, all.destination + (count - 1) * rowBytes, rowBytes);
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

// ---- Copies -----------------------------------------------------------------------------------------------

Status allGather(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t elements,
                 const uint64_t *counts) {
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_ALL_GATHER, dtype, 0, elements, /*hasOwnElements=*/true}));
  size_t members = group.size(), own = size_t(group.index());
  uint64_t size = dtypeInfo(dtype)->bytes, first = group.next();
  auto publish = [&](uint64_t i) -> Status {
    uint64_t begin = std::min(i * mostOfARound, elements * size),
             length = std::min(mostOfARound, elements * size - begin);
    uint8_t *data;
    ITX_RETURN_IF_ERROR(group.prepare(length, data));
    publishCopy(data, bytesOf(source) + begin, length);
    group.publish();
    return Status::success();
  };
  // The first round tells how many there are.
  ITX_RETURN_IF_ERROR(publish(0));
  ITX_RETURN_IF_ERROR(group.await(first));
  std::vector<uint64_t> lengths(members), offsets(members);
  uint64_t longest = 0, offset = 0;
  for (size_t member = 0; member < members; ++member) {
    uint64_t count = member == own ? elements : group.elementsOf(member, first);
    if (counts && counts[member] != count)
      return group.world().fail(error(
          ITX_INVALID_ARGUMENT, "rank %d gives %llu elements to an all-gather in which rank %d expects %llu",
          group.ranks()[member], (unsigned long long)count, group.world().rank(), (unsigned long long)counts[member]));
    lengths[member] = count * size;
    offsets[member] = offset;
    offset += count * size;
    longest = std::max(longest, count * size);
  }
  copy(bytesOf(destination) + offsets[own], source, elements * size);
  uint64_t rounds = std::max<uint64_t>(1, chunksOf(longest, mostOfARound));
  for (uint64_t i = 0; i < rounds; ++i) {
    if (i + 1 < rounds)
      ITX_RETURN_IF_ERROR(publish(i + 1));
    ITX_RETURN_IF_ERROR(group.await(first + i));
    for (size_t member = 0; member < members; ++member) {
      uint64_t begin = std::min(i * mostOfARound, lengths[member]),
               length = std::min(mostOfARound, lengths[member] - begin);
      if (member != own && length != 0)
        std::memcpy(bytesOf(destination) + offsets[member] + begin, group.published(member, first + i, length), length);
    }
  }
  return Status::success();
}

/// Exchanges parts whose bytes all members know: `longest` is the longest of all.
static Status exchange(Communicator &group, uint8_t *destination, const uint8_t *source, uint64_t longest,
                       const std::vector<uint64_t> &sendBytes, const std::vector<uint64_t> &receiveBytes) {
  size_t members = group.size(), own = size_t(group.index());
  uint64_t room = mostOfARound / members / partAlignment * partAlignment, first = group.next();
  std::vector<uint64_t> sendOffsets(members), receiveOffsets(members);
  for (size_t member = 1; member < members; ++member) {
    sendOffsets[member] = sendOffsets[member - 1] + sendBytes[member - 1];
    receiveOffsets[member] = receiveOffsets[member - 1] + receiveBytes[member - 1];
  }
  copy(destination + receiveOffsets[own], source + sendOffsets[own], sendBytes[own]);
  return runRounds(
      group, chunksOf(longest, room),
      [&](uint64_t i) -> Status {
        uint8_t *data;
        ITX_RETURN_IF_ERROR(group.prepare(mostOfARound, data));
        for (size_t member = 0; member < members; ++member)
          if (uint64_t begin = i * room; member != own && begin < sendBytes[member])
            publishCopy(data + member * room, source + sendOffsets[member] + begin,
                        std::min(room, sendBytes[member] - begin));
        return Status::success();
      },
      [&](uint64_t i) {
        for (size_t member = 0; member < members; ++member)
          if (uint64_t begin = i * room; member != own && begin < receiveBytes[member])
            std::memcpy(destination + receiveOffsets[member] + begin,
                        group.published(member, first + i, mostOfARound) + own * room,
                        std::min(room, receiveBytes[member] - begin));
      });
}

Status allGatherRows(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t rows,
                     uint64_t rowElements) {
  RowShares shares(rows, group.size());
  if (shares.each == rows) {
    ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_ALL_GATHER, dtype, 0, rows * rowElements, true}));
    copy(destination, source, rows * rowElements * dtypeInfo(dtype)->bytes);
    return Status::success();
  }
  std::vector<uint64_t> counts;
  for (size_t member = 0; member < group.size(); ++member)
    counts.push_back(shares.ownCount(member) * rowElements);
  uint64_t own = group.index() < 0 ? 0 : counts[size_t(group.index())];
  return allGather(group, dtype, destination, source, own, counts.data());
}

Status allToAll(Communicator &group, itx_dtype dtype, void *destination, const void *source, uint64_t elements) {
  size_t members = group.size();
  if (elements % members != 0)
    return error(ITX_INVALID_ARGUMENT, "%llu elements cannot be sent to %zu ranks in equal parts",
                 (unsigned long long)elements, members);
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_ALL_TO_ALL, dtype, 0, elements}));
  uint64_t part = elements / members * dtypeInfo(dtype)->bytes;
  std::vector<uint64_t> bytes(members, part);
  return exchange(group, bytesOf(destination), bytesOf(source), part, bytes, bytes);
}

Status allToAllUnequal(Communicator &group, itx_dtype dtype, void *destination, const void *source,
                       const uint64_t *sendCounts, const uint64_t *receiveCounts) {
  size_t members = group.size();
  // Each tells the others what it sends to whom.
  std::vector<uint64_t> counts(members * members), own(sendCounts, sendCounts + members);
  ITX_RETURN_IF_ERROR(allGather(group, ITX_I64, counts.data(), own.data(), members));
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
  return exchange(group, bytesOf(destination), bytesOf(source), longest, sendBytes, receiveBytes);
}

Status broadcast(Communicator &group, itx_dtype dtype, size_t root, void *destination, const void *source,
                 uint64_t elements) {
  if (root >= group.size())
    return error(ITX_INVALID_ARGUMENT, "a broadcast from rank %zu of a group of %zu", root, group.size());
  ITX_RETURN_IF_ERROR(begin(group, {ITX_COLLECTIVE_BROADCAST, dtype, uint32_t(root), elements}));
  bool isRoot = int32_t(root) == group.index();
  uint64_t bytes = elements * dtypeInfo(dtype)->bytes, first = group.next();
  auto length = [&](uint64_t i) { return std::min(mostOfARound, bytes - i * mostOfARound); };
  if (isRoot)
    copy(destination, source, bytes);
  return runRounds(
      group, chunksOf(bytes, mostOfARound),
      [&](uint64_t i) -> Status {
        uint8_t *data;
        ITX_RETURN_IF_ERROR(group.prepare(isRoot ? length(i) : 0, data));
        if (isRoot)
          publishCopy(data, bytesOf(destination) + i * mostOfARound, length(i));
        return Status::success();
      },
      [&](uint64_t i) {
        if (!isRoot)
          std::memcpy(bytesOf(destination) + i * mostOfARound, group.published(root, first + i, length(i)), length(i));
      });
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
  for (uint64_t begin = 0; begin < bytes; begin += mostOfARound) {
    uint64_t length = std::min(mostOfARound, bytes - begin);
    uint8_t *data;
    ITX_RETURN_IF_ERROR(group.prepare(length, data));
    publishCopy(data, bytesOf(source) + begin, length);
    group.publish();
  }
  return Status::success();
}

Status receive(Communicator &group, itx_dtype dtype, void *destination, uint64_t elements) {
  ITX_RETURN_IF_ERROR(beginTransfer(group, dtype, /*sends=*/false, elements));
  uint64_t bytes = elements * dtypeInfo(dtype)->bytes;
  for (uint64_t begin = 0; begin < bytes; begin += mostOfARound) {
    uint64_t length = std::min(mostOfARound, bytes - begin), round = group.next();
    uint8_t *unused;
    // The sender waits for this only two rounds later.
    ITX_RETURN_IF_ERROR(group.prepare(0, unused));
    group.publish();
    ITX_RETURN_IF_ERROR(group.await(round));
    std::memcpy(bytesOf(destination) + begin, group.published(1 - size_t(group.index()), round, length), length);
  }
  return Status::success();
}

Status barrier(Communicator &group) {
  ITX_RETURN_IF_ERROR(begin(group, {barrierKind, ITX_U8}));
  uint64_t round = group.next();
  uint8_t *unused;
  ITX_RETURN_IF_ERROR(group.prepare(0, unused));
  group.publish();
  return group.await(round);
}

} // namespace intarsia::runtime
