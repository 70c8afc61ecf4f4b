//===- Proof.h - Both ends of a connection prove that they know the token ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The token never crosses the network: each end signs what the other one has made up. The caller signs first, so that
// nobody who finds the port gets something to guess the token with.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_PROOF_H
#define INTARSIA_RUNTIME_COLLECTIVES_PROOF_H

#include "lib/Runtime/Collectives/Connection.h"
#include "lib/Runtime/Collectives/Sha256.h"

#include <list>
#include <optional>
#include <type_traits>
#include <vector>

namespace intarsia::runtime {

/// What both ends send first.
struct ProofOpening {
  uint64_t magic;
  uint32_t version;
  uint32_t unused; // zero: all bytes that are sent have a meaning
  uint32_t madeUp[8];
};
static_assert(std::has_unique_object_representations_v<ProofOpening>);

/// Proves the token to the end that was called, which then proves it too. ITX_NOT_FOUND if that is no rank,
/// ITX_VERSION_MISMATCH or ITX_INVALID_ARGUMENT if it is one of another version or token.
Status proveToken(const Socket &socket, const std::string &token, const Patience &patience);

/// Those who have called a socket and have yet to prove that they are ranks. All are listened to at once, so that
/// nobody waits for one who is silent. One who is no rank, or of another version or token, is dropped; others may still
/// come.
class Callers {
public:
  /// One who has proven the token, with the message that followed.
  struct Caller {
    Socket socket;
    std::string address;
    std::vector<uint8_t> message;
  };

  /// Callers send a message of `messageBytes` behind their proof.
  Callers(std::string token, size_t messageBytes) : token_(std::move(token)), messageBytes_(messageBytes) {}

  /// Waits for at most so long, and returns one whose message has come.
  std::optional<Caller> next(const Socket &listener, double seconds);
  /// Says why the last one was dropped that could have been a rank; empty if there was none.
  const std::string &problem() const { return problem_; }

private:
  struct Pending {
    Caller caller;
    ProofOpening own, other;
    Digest proof;
    size_t received = 0; // bytes of `other`, of `proof` and of the message
    std::chrono::steady_clock::time_point begin;
  };
  enum class Step { Waits, Ends, IsReady };

  void accept(const Socket &listener);
  Step receive(Pending &pending);
  /// Checks what has come so far.
  Step check(Pending &pending);

  std::string token_;
  size_t messageBytes_;
  std::list<Pending> pending_;
  std::string problem_;
};

} // namespace intarsia::runtime

#endif
