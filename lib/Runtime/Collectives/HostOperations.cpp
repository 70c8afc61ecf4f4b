//===- HostOperations.cpp - Exchanges between hosts --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/HostOperations.h"

#include "lib/Runtime/Collectives/Int8Messages.h"

namespace intarsia::runtime::across {

using Incoming = HostLinks::Incoming;

/// Up to so many bytes hosts send each other everything that they add up: one message's latency instead of two.
static constexpr uint64_t mostBytesAtOnce = 65536;
/// Bytes of a piece that are added up while the next ones are on their way.
static constexpr uint64_t stripBytes = 131072;

static bool hasOthersHere(const Communicator &group) { return group.hosts()[group.ownHost()].size() > 1; }

/// Sends the same to the first rank of each other host.
static void sendToHosts(Communicator &group, const void *data, uint64_t bytes) {
  for (size_t host = 0; host < group.hosts().size(); ++host)
    if (host != group.ownHost())
      group.links().send(group.firstOf(host), data, bytes);
}

// ---- Sums -------------------------------------------------------------------------------------------------

/// Each host sends everything to all others, and adds up everything.
static Status reduceAtOnce(Communicator &group, const Reducer &reducer, void *destination, const void *source,
                           uint64_t elements) {
  uint64_t bytes = elements * reducer.elementBytes;
  uint8_t *scratch = group.links().scratch(bytes * group.hosts().size());
  sendToHosts(group, source, bytes);
  std::vector<const void *> sources;
  std::vector<Incoming> parts;
  for (size_t host = 0; host < group.hosts().size(); ++host) {
    bool isOwn = host == group.ownHost();
    sources.push_back(isOwn ? source : scratch + host * bytes);
    if (!isOwn)
      parts.push_back({group.firstOf(host), scratch + host * bytes, bytes, bytes});
  }
  ITX_RETURN_IF_ERROR(group.links().receive(std::move(parts)));
  ITX_RETURN_IF_ERROR(group.links().finish()); // the destination may be the source
  reducer.function(destination, sources.data(), sources.size(), elements);
  return Status::success();
}

/// Each host adds up a piece, and sends the sum to all others. Strips of a sum are sent while others are added up.
static Status reduceByPieces(Communicator &group, const Reducer &reducer, void *destination, const void *source,
                             uint64_t elements) {
  size_t hosts = group.hosts().size(), own = group.ownHost();
  uint64_t size = reducer.elementBytes, room = chunksOf(elements, hosts), strip = stripBytes / size;
  auto begin = [&](size_t host) { return std::min(host * room, elements); };
  auto length = [&](size_t host) { return std::min(room, elements - begin(host)); };
  auto at = [&](size_t host, uint64_t i) { return bytesOf(destination) + (begin(host) + i) * size; };
  HostLinks &links = group.links();
  uint8_t *scratch = links.scratch(hosts * stripBytes);
  for (size_t host = 0; host < hosts; ++host)
    if (host != own)
      links.send(group.firstOf(host), bytesOf(source) + begin(host) * size, length(host) * size);
  for (uint64_t i = 0; i < length(own); i += strip) {
    uint64_t count = std::min(strip, length(own) - i);
    std::vector<const void *> sources;
    std::vector<Incoming> parts;
    for (size_t host = 0; host < hosts; ++host) {
      bool isOwn = host == own;
      sources.push_back(isOwn ? bytesOf(source) + (begin(own) + i) * size : scratch + host * stripBytes);
      if (!isOwn)
        parts.push_back({group.firstOf(host), scratch + host * stripBytes, count * size, length(own) * size});
    }
    ITX_RETURN_IF_ERROR(links.receive(std::move(parts)));
    reducer.function(at(own, i), sources.data(), hosts, count);
    sendToHosts(group, at(own, i), count * size);
  }
  // Where the destination is the source: a host has received what it sends the sum of.
  std::vector<Incoming> sums;
  for (size_t host = 0; host < hosts; ++host) {
    if (host != own && length(own) == 0) // an empty message in place of a piece
      sums.push_back({group.firstOf(host), nullptr, 0, 0});
    for (uint64_t i = 0; host != own && i < length(host); i += strip) {
      uint64_t bytes = std::min(strip, length(host) - i) * size;
      sums.push_back({group.firstOf(host), at(host, i), bytes, bytes});
    }
  }
  ITX_RETURN_IF_ERROR(links.receive(std::move(sums)));
  return links.finish();
}

// ---- Sums whose messages are rounded ----------------------------------------------------------------------

/// reduceAtOnce with rounded messages. A host adds up what it has sent too, so that all have the same sum.
static Status reduceAtOnceInt8(Communicator &group, const Reducer &reducer, float *destination, const float *source,
                               uint64_t elements) {
  size_t hosts = group.hosts().size();
  uint64_t bytes = int8MessageBytes(elements);
  auto *values = reinterpret_cast<float *>(group.links().scratch(hosts * (bytes + elements * sizeof(float))));
  auto *messages = reinterpret_cast<uint8_t *>(values + hosts * elements);
  std::vector<const void *> sources;
  std::vector<Incoming> parts;
  encodeInt8(&messages[group.ownHost() * bytes], source, elements);
  sendToHosts(group, &messages[group.ownHost() * bytes], bytes);
  for (size_t host = 0; host < hosts; ++host)
    if (host != group.ownHost())
      parts.push_back({group.firstOf(host), &messages[host * bytes], bytes, bytes});
  ITX_RETURN_IF_ERROR(group.links().receive(std::move(parts)));
  for (size_t host = 0; host < hosts; ++host) {
    decodeInt8(&values[host * elements], &messages[host * bytes], elements);
    sources.push_back(&values[host * elements]);
  }
  reducer.function(destination, sources.data(), hosts, elements);
  return group.links().finish();
}

/// reduceByPieces with rounded messages: each strip of a piece, and of a sum, is one.
static Status reduceByPiecesInt8(Communicator &group, const Reducer &reducer, float *destination, const float *source,
                                 uint64_t elements) {
  constexpr uint64_t strip = stripBytes / sizeof(float);
  const uint64_t stripMessage = int8MessageBytes(strip);
  size_t hosts = group.hosts().size(), own = group.ownHost();
  uint64_t room = chunksOf(elements, hosts);
  HostLinks &links = group.links();
  auto begin = [&](size_t host) { return std::min(host * room, elements); };
  auto length = [&](size_t host) { return std::min(room, elements - begin(host)); };
  auto strips = [&](size_t host) { return chunksOf(length(host), strip); };
  auto count = [&](size_t host, uint64_t i) { return std::min(strip, length(host) - i * strip); };
  // A message for each strip of each piece: those that this host sends, and the sums that it receives.
  std::vector<uint64_t> firsts = {0};
  for (size_t host = 0; host < hosts; ++host)
    firsts.push_back(firsts.back() + strips(host));
  uint64_t allBytes = firsts.back() * stripMessage, valueBytes = hosts * strip * sizeof(float);
  uint8_t *scratch = links.scratch(valueBytes + 2 * allBytes + hosts * stripMessage);
  auto *values = reinterpret_cast<float *>(scratch);
  uint8_t *messages = scratch + valueBytes, *sums = messages + allBytes, *incoming = sums + allBytes;
  auto message = [&](size_t host, uint64_t i) { return &messages[(firsts[host] + i) * stripMessage]; };
  for (size_t host = 0; host < hosts; ++host)
    for (uint64_t i = 0; host != own && i < strips(host); ++i) {
      encodeInt8(message(host, i), source + begin(host) + i * strip, count(host, i));
      links.send(group.firstOf(host), message(host, i), int8MessageBytes(count(host, i)));
    }
  for (uint64_t i = 0; i < strips(own); ++i) {
    std::vector<const void *> sources;
    std::vector<Incoming> parts;
    uint64_t bytes = int8MessageBytes(count(own, i));
    for (size_t host = 0; host < hosts; ++host)
      if (host != own)
        parts.push_back({group.firstOf(host), &incoming[host * stripMessage], bytes, bytes});
    ITX_RETURN_IF_ERROR(links.receive(std::move(parts)));
    float *to = destination + begin(own) + i * strip;
    for (size_t host = 0; host < hosts; ++host) {
      if (host != own)
        decodeInt8(&values[host * strip], &incoming[host * stripMessage], count(own, i));
      sources.push_back(host == own ? source + begin(own) + i * strip : &values[host * strip]);
    }
    reducer.function(to, sources.data(), hosts, count(own, i));
    encodeInt8(message(own, i), to, count(own, i));
    decodeInt8(to, message(own, i), count(own, i)); // what the others get
    sendToHosts(group, message(own, i), bytes);
  }
  std::vector<Incoming> parts;
  for (size_t host = 0; host < hosts; ++host)
    for (uint64_t i = 0; host != own && i < strips(host); ++i) {
      uint64_t bytes = int8MessageBytes(count(host, i));
      parts.push_back({group.firstOf(host), &sums[(firsts[host] + i) * stripMessage], bytes, bytes});
    }
  ITX_RETURN_IF_ERROR(links.receive(std::move(parts)));
  for (size_t host = 0; host < hosts; ++host)
    for (uint64_t i = 0; host != own && i < strips(host); ++i)
      decodeInt8(destination + begin(host) + i * strip, &sums[(firsts[host] + i) * stripMessage], count(host, i));
  return links.finish();
}

/// Adds up what the hosts have.
static Status reduceHosts(Communicator &group, const Reducer &reducer, void *destination, const void *source,
                          uint64_t elements) {
  bool atOnce = elements * reducer.elementBytes <= mostBytesAtOnce;
  if (reducer.roundsMessages) {
    auto *to = static_cast<float *>(destination);
    auto *from = static_cast<const float *>(source);
    return atOnce ? reduceAtOnceInt8(group, reducer, to, from, elements)
                  : reduceByPiecesInt8(group, reducer, to, from, elements);
  }
  return atOnce ? reduceAtOnce(group, reducer, destination, source, elements)
                : reduceByPieces(group, reducer, destination, source, elements);
}

Status allReduce(Communicator &group, const Reducer &reducer, void *destination, const void *source,
                 uint64_t elements) {
  if (elements == 0)
    return Status::success();
  uint64_t bytes = elements * reducer.elementBytes;
  if (hasOthersHere(group)) {
    ITX_RETURN_IF_ERROR(shared::allReduce(group.here(), reducer, destination, source, elements));
    source = destination;
  }
  if (group.isFirstHere())
    ITX_RETURN_IF_ERROR(reduceHosts(group, reducer, destination, source, elements));
  return hasOthersHere(group) ? shared::broadcast(group.here(), 0, destination, bytes) : Status::success();
}

/// Adds up what the hosts have of the rows of this one's members. `blocks` has room for that of each host; the sum is
/// in the first one.
static Status reduceRowsOfHosts(Communicator &group, const Reducer &reducer, uint8_t *blocks, const void *source,
                                const RowShares &shares, uint64_t rowElements) {
  size_t hosts = group.hosts().size(), own = group.ownHost();
  HostLinks &links = group.links();
  auto elementsOf = [&](size_t member) { return shares.count(member) * rowElements; };
  auto from = [&](size_t member) {
    return bytesOf(source) + shares.begin(member) * rowElements * reducer.elementBytes;
  };
  uint64_t elements = 0;
  for (size_t member : group.hosts()[own])
    elements += elementsOf(member);
  uint64_t block = elements * reducer.elementBytes;
  std::deque<std::vector<uint8_t>> sent, received; // messages that are rounded
  std::vector<Incoming> parts;
  for (size_t host = 0; host < hosts; ++host) {
    for (size_t member : group.hosts()[host]) {
      if (host == own)
        continue;
      uint64_t bytes = elementsOf(member) * reducer.elementBytes;
      const uint8_t *data = from(member);
      if (reducer.roundsMessages) {
        bytes = int8MessageBytes(elementsOf(member));
        encodeInt8(sent.emplace_back(bytes).data(), reinterpret_cast<const float *>(data), elementsOf(member));
        data = sent.back().data();
      }
      links.send(group.firstOf(host), data, bytes);
    }
    uint8_t *to = blocks + host * block;
    for (size_t member : group.hosts()[own]) {
      uint64_t bytes = elementsOf(member) * reducer.elementBytes;
      if (host == own) {
        std::memcpy(to, from(member), bytes);
      } else if (reducer.roundsMessages) {
        uint64_t length = int8MessageBytes(elementsOf(member));
        parts.push_back({group.firstOf(host), received.emplace_back(length).data(), length, length});
      } else {
        parts.push_back({group.firstOf(host), to, bytes, bytes});
      }
      to += bytes;
    }
  }
  ITX_RETURN_IF_ERROR(links.receive(std::move(parts)));
  ITX_RETURN_IF_ERROR(links.finish());
  std::vector<const void *> sources;
  for (size_t host = 0, next = 0; host < hosts; ++host) {
    sources.push_back(blocks + host * block);
    auto *to = reinterpret_cast<float *>(blocks + host * block);
    for (size_t member : group.hosts()[own])
      if (reducer.roundsMessages && host != own) {
        decodeInt8(to, received[next++].data(), elementsOf(member));
        to += elementsOf(member);
      }
  }
  reducer.function(blocks, sources.data(), hosts, elements);
  return Status::success();
}

Status reduceScatterRows(Communicator &group, const Reducer &reducer, void *destination, const void *source,
                         const RowShares &shares, uint64_t rowElements) {
  uint64_t rowBytes = rowElements * reducer.elementBytes, ownRows = 0;
  if (rowBytes == 0)
    return Status::success();
  size_t hosts = group.hosts().size();
  const Communicator::Host &beside = group.hosts()[group.ownHost()];
  for (size_t member : beside)
    ownRows += shares.count(member);
  uint64_t block = ownRows * rowBytes, all = hasOthersHere(group) ? shares.rows * rowBytes : 0;
  HostLinks &links = group.links();
  // The sums of this host, then what the hosts have of the rows of this one's members.
  uint8_t *sums = links.scratch(all + hosts * block), *blocks = sums + all;
  if (hasOthersHere(group)) {
    ITX_RETURN_IF_ERROR(shared::allReduce(group.here(), reducer, sums, source, shares.rows * rowElements));
    source = sums;
  }
  if (group.isFirstHere())
    ITX_RETURN_IF_ERROR(reduceRowsOfHosts(group, reducer, blocks, source, shares, rowElements));
  if (hasOthersHere(group))
    ITX_RETURN_IF_ERROR(shared::broadcast(group.here(), 0, blocks, block));
  const uint8_t *from = blocks;
  for (size_t member : beside) {
    if (int32_t(member) == group.index())
      std::memcpy(destination, from, shares.count(member) * rowBytes);
    from += shares.count(member) * rowBytes;
  }
  shares.repeatLast(size_t(group.index()), destination, rowBytes);
  return Status::success();
}

// ---- Copies -----------------------------------------------------------------------------------------------

Status allGather(Communicator &group, uint64_t elementBytes, void *destination, const void *source,
                 const std::vector<uint64_t> &counts) {
  // Parts lie by hosts on their way.
  std::vector<uint64_t> offsets, hostBegins = {0}, ownCounts;
  uint64_t total = 0;
  for (uint64_t count : counts) {
    offsets.push_back(total);
    total += count * elementBytes;
  }
  bool isInOrder = true;
  uint64_t next = 0;
  for (const Communicator::Host &host : group.hosts()) {
    for (size_t member : host) {
      isInOrder &= offsets[member] == next;
      next += counts[member] * elementBytes;
    }
    hostBegins.push_back(next);
  }
  size_t own = group.ownHost();
  for (size_t member : group.hosts()[own])
    ownCounts.push_back(counts[member]);
  HostLinks &links = group.links();
  uint8_t *all = isInOrder ? bytesOf(destination) : links.scratch(total);
  uint64_t ownElements = counts[size_t(group.index())];
  if (hasOthersHere(group))
    ITX_RETURN_IF_ERROR(
        shared::allGather(group.here(), elementBytes, all + hostBegins[own], source, ownElements, ownCounts.data()));
  else
    copyBytes(all + hostBegins[own], source, ownElements * elementBytes);
  if (group.isFirstHere()) {
    sendToHosts(group, all + hostBegins[own], hostBegins[own + 1] - hostBegins[own]);
    std::vector<Incoming> parts;
    for (size_t host = 0; host < group.hosts().size(); ++host)
      if (uint64_t bytes = hostBegins[host + 1] - hostBegins[host]; host != own)
        parts.push_back({group.firstOf(host), all + hostBegins[host], bytes, bytes});
    ITX_RETURN_IF_ERROR(links.receive(std::move(parts)));
    ITX_RETURN_IF_ERROR(links.finish());
  }
  if (hasOthersHere(group)) {
    ITX_RETURN_IF_ERROR(shared::broadcast(group.here(), 0, all, hostBegins[own]));
    ITX_RETURN_IF_ERROR(shared::broadcast(group.here(), 0, all + hostBegins[own + 1], total - hostBegins[own + 1]));
  }
  if (isInOrder)
    return Status::success();
  const uint8_t *from = all;
  for (const Communicator::Host &host : group.hosts())
    for (size_t member : host) {
      std::memcpy(bytesOf(destination) + offsets[member], from, counts[member] * elementBytes);
      from += counts[member] * elementBytes;
    }
  return Status::success();
}

Status exchangeParts(Communicator &group, void *destination, const void *source, uint64_t longest, const Parts &sent,
                     const Parts &received) {
  std::vector<Incoming> parts;
  Parts sentHere, receivedHere;
  for (size_t host = 0; host < group.hosts().size(); ++host)
    for (size_t member : group.hosts()[host]) {
      if (host == group.ownHost()) {
        sentHere.offsets.push_back(sent.offsets[member]);
        sentHere.bytes.push_back(sent.bytes[member]);
        receivedHere.offsets.push_back(received.offsets[member]);
        receivedHere.bytes.push_back(received.bytes[member]);
        continue;
      }
      int32_t rank = group.ranks()[member];
      group.links().send(rank, bytesOf(source) + sent.offsets[member], sent.bytes[member]);
      parts.push_back(
          {rank, bytesOf(destination) + received.offsets[member], received.bytes[member], received.bytes[member]});
    }
  if (hasOthersHere(group))
    ITX_RETURN_IF_ERROR(shared::exchangeParts(group.here(), destination, source, longest, sentHere, receivedHere));
  else
    copyBytes(bytesOf(destination) + receivedHere.offsets[0], bytesOf(source) + sentHere.offsets[0], sentHere.bytes[0]);
  ITX_RETURN_IF_ERROR(group.links().receive(std::move(parts)));
  return group.links().finish();
}

Status broadcast(Communicator &group, size_t root, void *data, uint64_t bytes) {
  if (bytes == 0)
    return Status::success();
  const Communicator::Host &beside = group.hosts()[group.ownHost()];
  auto rootHere = std::find(beside.begin(), beside.end(), root);
  bool isOfThisHost = rootHere != beside.end();
  if (int32_t(root) == group.index())
    sendToHosts(group, data, bytes);
  else if (!isOfThisHost && group.isFirstHere())
    ITX_RETURN_IF_ERROR(group.links().receive({{group.ranks()[root], data, bytes, bytes}}));
  if (hasOthersHere(group))
    ITX_RETURN_IF_ERROR(
        shared::broadcast(group.here(), isOfThisHost ? size_t(rootHere - beside.begin()) : 0, data, bytes));
  return group.links().finish();
}

Status send(Communicator &group, const void *source, uint64_t bytes) {
  if (bytes == 0)
    return Status::success();
  group.links().send(group.ranks()[size_t(1 - group.index())], source, bytes);
  return group.links().finish();
}

Status receive(Communicator &group, void *destination, uint64_t bytes) {
  if (bytes == 0)
    return Status::success();
  return group.links().receive({{group.ranks()[size_t(1 - group.index())], destination, bytes, bytes}});
}

Status barrier(Communicator &group) {
  if (hasOthersHere(group))
    ITX_RETURN_IF_ERROR(shared::barrier(group.here()));
  if (group.isFirstHere()) {
    sendToHosts(group, nullptr, 0);
    std::vector<Incoming> parts;
    for (size_t host = 0; host < group.hosts().size(); ++host)
      if (host != group.ownHost())
        parts.push_back({group.firstOf(host), nullptr, 0, 0});
    ITX_RETURN_IF_ERROR(group.links().receive(std::move(parts)));
    ITX_RETURN_IF_ERROR(group.links().finish());
  }
  return hasOthersHere(group) ? shared::barrier(group.here()) : Status::success();
}

} // namespace intarsia::runtime::across
