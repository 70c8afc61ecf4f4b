//===- RemoteRanks.cpp - What ranks of other hosts say of themselves ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/RemoteRanks.h"

#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace intarsia::runtime {

/// After so much silence the system probes whether the other host answers; the least that it offers.
static constexpr int probeAfterS = 1;
/// A host is lost if it has acknowledged nothing for so long although it was probed. The bar is 2 s. A stopped or busy
/// process does not matter: its system answers.
static constexpr uint32_t lostAfterMs = 1500;

void prepareConnection(int socket) {
  auto set = [&](int level, int name, int value) { (void)setsockopt(socket, level, name, &value, sizeof(value)); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, probeAfterS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, probeAfterS);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5); // a rank that waits notices earlier
}

/// True if the other host does not answer.
static bool isUnreachable(int socket) {
  tcp_info information = {};
  socklen_t length = sizeof(information);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &information, &length) != 0)
    return false;
  uint32_t silentMs = std::min(information.tcpi_last_ack_recv, information.tcpi_last_data_recv);
  return silentMs >= lostAfterMs && (information.tcpi_probes > 0 || information.tcpi_retransmits > 1);
}

void RemoteRanks::open(std::vector<Socket> controls, std::vector<std::string> names) {
  states_.resize(controls.size());
  names_ = std::move(names);
  for (size_t rank = 0; rank < controls.size(); ++rank)
    if (controls[rank].isOpen()) {
      states_[rank].isRemote = true;
      peers_.push_back({int32_t(rank), std::move(controls[rank]), {}});
    }
}

/// Takes a note that is complete.
void RemoteRanks::take(Peer &peer, Status &failure) {
  State &state = states_[size_t(peer.rank)];
  peer.note.text[sizeof(peer.note.text) - 1] = '\0';
  switch (peer.note.kind) {
  case Note::Failure:
    if (failure.ok())
      failure = {itx_status(peer.note.status), peer.note.text};
    break;
  case Note::Left:
    state.hasLeft = true;
    break;
  case Note::Abandoned:
    state.reason = peer.note.text;
    state.abandonedCall = peer.note.number;
    break;
  case Note::EndsAfter:
    state.endsAfter = peer.note.number;
    break;
  default:
    state.waitsFor = int32_t(peer.note.number);
  }
}

void RemoteRanks::receive(Peer &peer, Status &failure) {
  while (!peer.hasEnded) {
    auto *at = reinterpret_cast<uint8_t *>(&peer.note) + peer.received;
    ssize_t count = recv(peer.socket.get(), at, sizeof(Note) - peer.received, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && errno == EAGAIN)
      return;
    if (count <= 0) {
      peer.hasEnded = true;
      return;
    }
    peer.received += size_t(count);
    if (peer.received == sizeof(Note)) {
      take(peer, failure);
      peer.received = 0;
    }
  }
}

Status RemoteRanks::read() {
  Status failure;
  for (Peer &peer : peers_)
    receive(peer, failure);
  // A rank that has ended because the world had failed has told that before.
  for (const Peer &peer : peers_) {
    if (!failure.ok())
      return failure;
    if (states_[size_t(peer.rank)].hasLeft)
      continue;
    if (peer.hasEnded)
      failure = error(ITX_RANK_LOST, "%s of the world of %zu has ended: no other rank can go on",
                      nameOf(peer.rank).c_str(), states_.size());
    else if (isUnreachable(peer.socket.get()))
      failure = error(ITX_RANK_LOST,
                      "%s of the world of %zu cannot be reached any more: its host has answered nothing for %g s",
                      nameOf(peer.rank).c_str(), states_.size(), lostAfterMs * 1e-3);
  }
  return failure;
}

void RemoteRanks::tell(Note::Kind kind, uint64_t number, const Status &status) {
  Note note;
  note.kind = kind;
  note.number = number;
  note.status = status.code();
  status.message().copy(note.text, sizeof(note.text) - 1);
  for (Peer &peer : peers_)
    if (!peer.hasEnded)
      (void)::send(peer.socket.get(), &note, sizeof(note), MSG_NOSIGNAL | MSG_DONTWAIT);
}

} // namespace intarsia::runtime
