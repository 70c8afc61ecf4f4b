//===- HostLinks.cpp - Data between ranks of different hosts -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/HostLinks.h"

#include <algorithm>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>

namespace intarsia::runtime {

using LinkClock = std::chrono::steady_clock;

/// How long a rank looks again and again before it sleeps: a message between hosts takes some 20 µs. Sleeping and
/// waking takes as long.
static constexpr auto linkSpin = std::chrono::microseconds(50);
/// How long it sleeps before it looks after the others.
static constexpr int linkSleepMs = 50;
/// How long a rank whose connection has ended has time to say why.
static constexpr int partingMs = 300;

void HostLinks::open(WorldState &world, std::vector<Socket> connections) {
  world_ = &world;
  links_.resize(connections.size());
  for (size_t rank = 0; rank < connections.size(); ++rank)
    links_[rank].socket = std::move(connections[rank]);
}

void HostLinks::send(int32_t rank, const void *data, uint64_t bytes) {
  Header header = {operation_.kind, uint32_t(operation_.element), operation_.root, 0, operation_.elements, bytes};
  Link &link = links_[size_t(rank)];
  link.outgoing.push_back({header, static_cast<const uint8_t *>(data)});
  if (link.outgoing.size() == 1)
    sending_.push_back(rank);
}

/// Fails because a connection has ended. Its rank has said why, or it is dead.
Status HostLinks::lost(int32_t rank, int code) {
  auto begin = LinkClock::now();
  while (LinkClock::now() - begin < std::chrono::milliseconds(partingMs)) {
    ITX_RETURN_IF_ERROR(world_->checkPeer(rank, begin));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return world_->fail(error(ITX_RANK_LOST, "rank %d of the world of %d has lost its connection with rank %d%s%s",
                            world_->rank(), world_->size(), rank, code ? ": " : "", code ? std::strerror(code) : ""));
}

/// Sends what the system takes at once.
Status HostLinks::push(int32_t rank, bool &moved) {
  Link &link = links_[size_t(rank)];
  while (!link.outgoing.empty()) {
    Outgoing &first = link.outgoing.front();
    iovec parts[2] = {{&first.header, sizeof(Header)}, {const_cast<uint8_t *>(first.data), first.header.bytes}};
    for (uint64_t skipped = first.done; iovec &part : parts) {
      uint64_t of = std::min<uint64_t>(skipped, part.iov_len);
      part.iov_base = static_cast<uint8_t *>(part.iov_base) + of;
      part.iov_len -= of;
      skipped -= of;
    }
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    ssize_t sent = sendmsg(link.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN)
      return Status::success();
    if (sent < 0)
      return lost(rank, errno);
    moved = true;
    first.done += uint64_t(sent);
    if (first.done == sizeof(Header) + first.header.bytes)
      link.outgoing.pop_front();
  }
  return Status::success();
}

/// Reads the header of a part's message and compares it with what is expected.
Status HostLinks::readHeader(const Incoming &part, bool &moved) {
  Link &link = links_[size_t(part.rank)];
  while (link.headerBytes < sizeof(Header)) {
    auto *at = reinterpret_cast<uint8_t *>(&link.header) + link.headerBytes;
    ssize_t count = recv(link.socket.get(), at, sizeof(Header) - link.headerBytes, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && errno == EAGAIN)
      return Status::success();
    if (count <= 0)
      return lost(part.rank, count < 0 ? errno : 0);
    moved = true;
    link.headerBytes += uint64_t(count);
  }
  const Header &header = link.header;
  ITX_RETURN_IF_ERROR(compareExchanges(
      *world_, part.rank, {header.kind, itx_dtype(header.element), header.root, header.elements}, operation_));
  if (header.bytes != part.messageBytes)
    return world_->fail(
        error(ITX_INVALID_ARGUMENT,
              "rank %d sends %llu bytes in an exchange in which rank %d expects %llu: do all ranks give "
              "the same sizes?",
              part.rank, (unsigned long long)header.bytes, world_->rank(), (unsigned long long)part.messageBytes));
  link.restBytes = header.bytes;
  return Status::success();
}

/// Receives what has come of a part.
Status HostLinks::take(Incoming &part, bool &moved) {
  Link &link = links_[size_t(part.rank)];
  if (link.headerBytes < sizeof(Header))
    ITX_RETURN_IF_ERROR(readHeader(part, moved));
  if (link.headerBytes < sizeof(Header))
    return Status::success();
  while (part.received < part.bytes) {
    ssize_t count = recv(link.socket.get(), static_cast<uint8_t *>(part.data) + part.received,
                         part.bytes - part.received, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && errno == EAGAIN)
      return Status::success();
    if (count <= 0)
      return lost(part.rank, count < 0 ? errno : 0);
    moved = true;
    part.received += uint64_t(count);
    link.restBytes -= uint64_t(count);
  }
  part.isDone = true;
  if (link.restBytes == 0)
    link.headerBytes = 0;
  return Status::success();
}

/// Sleeps until something can be sent or received, and looks after a rank that this one waits for.
Status HostLinks::sleep(const std::vector<Incoming> &parts, LinkClock::time_point begin) {
  std::vector<pollfd> events;
  int32_t awaited = sending_.empty() ? -1 : sending_.front();
  for (int32_t rank : sending_)
    events.push_back({links_[size_t(rank)].socket.get(), POLLOUT, 0});
  for (const Incoming &part : parts)
    if (!part.isDone) {
      events.push_back({links_[size_t(part.rank)].socket.get(), POLLIN, 0});
      awaited = part.rank;
    }
  std::atomic<int32_t> &waitsFor = world_->state(world_->rank()).waitsFor;
  waitsFor.store(awaited + 1, std::memory_order_relaxed);
  int ready = poll(events.data(), events.size(), linkSleepMs);
  waitsFor.store(0, std::memory_order_relaxed);
  return ready > 0 ? Status::success() : world_->checkPeer(awaited, begin);
}

Status HostLinks::receive(std::vector<Incoming> parts) {
  auto begin = LinkClock::now();
  for (;;) {
    bool moved = false;
    for (size_t i = 0; i < sending_.size();) {
      ITX_RETURN_IF_ERROR(push(sending_[i], moved));
      if (links_[size_t(sending_[i])].outgoing.empty())
        sending_.erase(sending_.begin() + long(i));
      else
        ++i;
    }
    bool isOpen = parts.empty() && !sending_.empty();
    for (Incoming &part : parts) {
      // Parts of one rank come one after another.
      auto isBefore = [&](const Incoming &other) { return other.rank == part.rank && !other.isDone; };
      if (!part.isDone && std::none_of(parts.data(), &part, isBefore))
        ITX_RETURN_IF_ERROR(take(part, moved));
      isOpen |= !part.isDone;
    }
    if (!isOpen)
      break;
    auto now = LinkClock::now();
    if (moved)
      begin = now;
    else if (now - begin > linkSpin)
      ITX_RETURN_IF_ERROR(sleep(parts, begin));
  }
  world_->endWait();
  return Status::success();
}

} // namespace intarsia::runtime
