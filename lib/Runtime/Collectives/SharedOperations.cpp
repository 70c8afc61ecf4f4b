//===- SharedOperations.cpp - Exchanges of ranks of one host -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/SharedOperations.h"

#include "lib/Runtime/Collectives/PublishCopy.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime::shared {

/// Alignment of the parts of a round: a cache line, so that no two members write to one.
static constexpr uint64_t partAlignment = 64;

static constexpr uint64_t mostOfARound = Rounds::chunkBytes;

/// Runs rounds: `publish(i)` fills and publishes the i-th round, `read(i)` reads what all have published in it. A round
/// is published after the one two before it was read, or after round neededBy(i), so that ranks seldom wait.
template <typename Publish, typename Read, typename Needed>
static Status runRounds(Rounds &group, uint64_t count, Publish publish, Read read, Needed neededBy) {
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
static Status runRounds(Rounds &group, uint64_t count, Publish publish, Read read) {
  return runRounds(group, count, publish, read, [](uint64_t) { return uint64_t(0); });
}

// ---- All-reduce -------------------------------------------------------------------------------------------

namespace {

/// What the parts of a reduction have in common.
struct Reducing {
  Rounds &group;
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

Status allReduce(Rounds &group, const Reducer &reducer, void *destination, const void *source, uint64_t elements) {
  Reducing all = {group, reducer.function, reducer.elementBytes, bytesOf(destination), bytesOf(source), elements};
  if (group.size() == 1) {
    copyBytes(destination, source, elements * all.elementBytes);
    return Status::success();
  }
  bool byPieces = group.size() > 2 && elements * all.elementBytes >= piecesFromBytes;
  return byPieces ? allReduceByPieces(all) : allReduceDirectly(all);
}

Status reduceScatterRows(Rounds &group, const Reducer &reducer, void *destination, const void *source,
                         const RowShares &shares, uint64_t rowElements) {
  size_t members = group.size(), own = size_t(group.index());
  Reducing all = {group,           reducer.function,         reducer.elementBytes, bytesOf(destination),
                  bytesOf(source), shares.rows * rowElements};
  uint64_t size = all.elementBytes, first = group.next();
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
  shares.repeatLast(own, destination, rowElements * size);
  return Status::success();
}

// ---- Copies -----------------------------------------------------------------------------------------------

Status allGather(Rounds &group, uint64_t elementBytes, void *destination, const void *source, uint64_t elements,
                 const uint64_t *counts) {
  size_t members = group.size(), own = size_t(group.index());
  uint64_t size = elementBytes, first = group.next();
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
  copyBytes(bytesOf(destination) + offsets[own], source, elements * size);
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

Status exchangeParts(Rounds &group, void *destination, const void *source, uint64_t longest, const Parts &sent,
                     const Parts &received) {
  size_t members = group.size(), own = size_t(group.index());
  uint64_t room = mostOfARound / members / partAlignment * partAlignment, first = group.next();
  copyBytes(bytesOf(destination) + received.offsets[own], bytesOf(source) + sent.offsets[own], sent.bytes[own]);
  return runRounds(
      group, chunksOf(longest, room),
      [&](uint64_t i) -> Status {
        uint8_t *data;
        ITX_RETURN_IF_ERROR(group.prepare(mostOfARound, data));
        for (size_t member = 0; member < members; ++member)
          if (uint64_t begin = i * room; member != own && begin < sent.bytes[member])
            publishCopy(data + member * room, bytesOf(source) + sent.offsets[member] + begin,
                        std::min(room, sent.bytes[member] - begin));
        return Status::success();
      },
      [&](uint64_t i) {
        for (size_t member = 0; member < members; ++member)
          if (uint64_t begin = i * room; member != own && begin < received.bytes[member])
            std::memcpy(bytesOf(destination) + received.offsets[member] + begin,
                        group.published(member, first + i, mostOfARound) + own * room,
                        std::min(room, received.bytes[member] - begin));
      });
}

Status broadcast(Rounds &group, size_t root, void *destination, uint64_t bytes) {
  bool isRoot = int32_t(root) == group.index();
  uint64_t first = group.next();
  auto length = [&](uint64_t i) { return std::min(mostOfARound, bytes - i * mostOfARound); };
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

Status send(Rounds &group, const void *source, uint64_t bytes) {
  for (uint64_t begin = 0; begin < bytes; begin += mostOfARound) {
    uint64_t length = std::min(mostOfARound, bytes - begin);
    uint8_t *data;
    ITX_RETURN_IF_ERROR(group.prepare(length, data));
    publishCopy(data, bytesOf(source) + begin, length);
    group.publish();
  }
  return Status::success();
}

Status receive(Rounds &group, void *destination, uint64_t bytes) {
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

Status barrier(Rounds &group) {
  uint64_t round = group.next();
  uint8_t *unused;
  ITX_RETURN_IF_ERROR(group.prepare(0, unused));
  group.publish();
  return group.await(round);
}

} // namespace intarsia::runtime::shared
