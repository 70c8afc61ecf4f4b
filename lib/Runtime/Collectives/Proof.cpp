//===- Proof.cpp - Both ends of a connection prove that they know the token --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Proof.h"

#include "intarsia/module_abi.h"
#include "lib/Runtime/Collectives/RemoteRanks.h"

#include <fcntl.h>
#include <random>
#include <sys/socket.h>

namespace intarsia::runtime {

/// Distinguishes a rank from another program that has found the port. It is "itxworld" in ASCII.
static constexpr uint64_t connectionMagic = 0x646C726F77787469;
/// A caller sends three parts: its opening, its proof and its message. Each may take this long. One limit for all three
/// would drop honest callers whenever this process does not run for that long.
static constexpr auto proofTime = std::chrono::seconds(2);
/// Callers that are listened to at once: twice as many as a world has ranks. Then the oldest is dropped.
static constexpr size_t mostPending = 512;

enum class ConnectionSide : char { Caller = 'c', Called = 's' };

static ProofOpening newOpening() {
  ProofOpening opening = {connectionMagic, ITX_MODULE_ABI_VERSION, 0, {}};
  std::random_device random;
  for (uint32_t &word : opening.madeUp)
    word = random();
  return opening;
}

/// Returns what one end signs: which end it is, what the other one has made up, and what it has made up itself.
static Digest sign(const std::string &token, ConnectionSide side, const ProofOpening &other, const ProofOpening &own) {
  std::string text(1, char(side));
  text.append(reinterpret_cast<const char *>(other.madeUp), sizeof(other.madeUp));
  text.append(reinterpret_cast<const char *>(own.madeUp), sizeof(own.madeUp));
  return signWith(token, text);
}

static Status otherVersion(const std::string &address, const ProofOpening &other) {
  return error(ITX_VERSION_MISMATCH,
               "a process on %s is of a runtime with module ABI %u, this one of ABI %u: start all ranks with the same "
               "version of Intarsia",
               address.c_str(), other.version, unsigned(ITX_MODULE_ABI_VERSION));
}

static Status otherToken(const std::string &address) {
  return error(ITX_INVALID_ARGUMENT,
               "a process on %s has another token for the world at this port: give all ranks the same token file",
               address.c_str());
}

Status proveToken(const Socket &socket, const std::string &token, const Patience &patience) {
  std::string address = peerAddress(socket); // of one who may have gone when the message is written
  ProofOpening own = newOpening(), other = {};
  ITX_RETURN_IF_ERROR(sendAll(socket, &own, sizeof(own), patience));
  ITX_RETURN_IF_ERROR(receiveAll(socket, &other, sizeof(other), patience));
  if (other.magic != connectionMagic)
    return error(ITX_NOT_FOUND, "%s is no rank of a world", address.c_str());
  if (other.version != own.version)
    return otherVersion(address, other);
  Digest proof = sign(token, ConnectionSide::Caller, other, own), answer = {};
  ITX_RETURN_IF_ERROR(sendAll(socket, proof.data(), proof.size(), patience));
  ITX_RETURN_IF_ERROR(receiveAll(socket, answer.data(), answer.size(), patience));
  return isSameDigest(answer, sign(token, ConnectionSide::Called, own, other)) ? Status::success()
                                                                               : otherToken(address);
}

void Callers::accept(const Socket &listener) {
  for (size_t taken = 0; taken < mostPending; ++taken) {
    if (pending_.size() == mostPending)
      pending_.pop_front();
    sockaddr_storage from = {};
    socklen_t length = sizeof(from);
    Socket socket(accept4(listener.get(), reinterpret_cast<sockaddr *>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.isOpen()) {
      // Without descriptors the next one would wait at the door for ever.
      if ((errno == EMFILE || errno == ENFILE) && !pending_.empty())
        pending_.pop_front();
      return;
    }
    prepareConnection(socket.get());
    Pending &made = pending_.emplace_back();
    made.caller = {std::move(socket), addressText(from, length), {}};
    made.caller.message.resize(messageBytes_);
    made.own = newOpening();
    made.begin = std::chrono::steady_clock::now();
    if (::send(made.caller.socket.get(), &made.own, sizeof(made.own), MSG_NOSIGNAL) != ssize_t(sizeof(made.own)))
      pending_.pop_back();
    if (!canRead(listener.get(), 0))
      return;
  }
}

Callers::Step Callers::check(Pending &pending) {
  size_t opening = sizeof(pending.other), proof = opening + sizeof(pending.proof);
  if (pending.received == opening && pending.other.magic != connectionMagic)
    return Step::Ends;
  if (pending.received == opening && pending.other.version != ITX_MODULE_ABI_VERSION) {
    problem_ = otherVersion(pending.caller.address, pending.other).message();
    return Step::Ends;
  }
  if (pending.received == proof) {
    bool isSame = isSameDigest(pending.proof, sign(token_, ConnectionSide::Caller, pending.own, pending.other));
    // An answer that is nobody's signature tells a rank which has another token that it has.
    Digest answer = isSame ? sign(token_, ConnectionSide::Called, pending.other, pending.own) : Digest{};
    if (::send(pending.caller.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL) != ssize_t(answer.size()))
      return Step::Ends;
    if (!isSame) {
      problem_ = otherToken(pending.caller.address).message();
      return Step::Ends;
    }
  }
  return pending.received == proof + messageBytes_ ? Step::IsReady : Step::Waits;
}

Callers::Step Callers::receive(Pending &pending) {
  std::pair<uint8_t *, size_t> parts[] = {{reinterpret_cast<uint8_t *>(&pending.other), sizeof(pending.other)},
                                          {pending.proof.data(), pending.proof.size()},
                                          {pending.caller.message.data(), messageBytes_}};
  for (;;) {
    size_t done = pending.received;
    auto [at, bytes] = parts[0];
    for (auto [first, length] : parts) {
      at = first + done;
      bytes = length - done;
      if (done < length)
        break;
      done -= length;
    }
    ssize_t count = recv(pending.caller.socket.get(), at, bytes, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && errno == EAGAIN)
      return Step::Waits;
    if (count <= 0)
      return Step::Ends;
    pending.received += size_t(count);
    if (size_t(count) == bytes)
      pending.begin = std::chrono::steady_clock::now();
    if (Step step = check(pending); step != Step::Waits)
      return step;
  }
}

std::optional<Callers::Caller> Callers::next(const Socket &listener, double seconds) {
  auto begin = std::chrono::steady_clock::now();
  double left = seconds;
  do {
    std::vector<pollfd> events;
    events.push_back({listener.get(), POLLIN, 0});
    for (const Pending &pending : pending_)
      events.push_back({pending.caller.socket.get(), POLLIN, 0});
    (void)poll(events.data(), events.size(), int(left * 1000));
    auto now = std::chrono::steady_clock::now();
    const pollfd *event = events.data();
    for (auto at = pending_.begin(); at != pending_.end();) {
      Step step = (++event)->revents ? receive(*at) : Step::Waits;
      if (step == Step::Waits && now - at->begin <= proofTime) {
        ++at;
        continue;
      }
      Caller caller = std::move(at->caller);
      at = pending_.erase(at);
      if (step != Step::IsReady)
        continue;
      (void)fcntl(caller.socket.get(), F_SETFL, 0);
      return caller; // what else has come is still there the next time
    }
    if (events.front().revents)
      accept(listener);
    left = seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  } while (left > 0);
  return std::nullopt;
}

} // namespace intarsia::runtime
