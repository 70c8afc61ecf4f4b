//===- Connection.h - Connections whose two ends know the same token ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The token never crosses the network: each end signs what the other one has made up. What is sent after that is
// neither encrypted nor signed.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_CONNECTION_H
#define INTARSIA_RUNTIME_COLLECTIVES_CONNECTION_H

#include "lib/Runtime/Collectives/Socket.h"
#include "lib/Support/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace intarsia::runtime {

/// How long a wait may last, and what is looked after meanwhile.
struct Patience {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  double seconds = 0; ///< 0: for ever
  std::function<Status()> check = [] { return Status::success(); };

  bool isOver() const {
    return seconds != 0 && std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds);
  }
};

/// Splits HOST:PORT, or [HOST]:PORT.
Status splitAddress(const std::string &address, std::string &host, std::string &port);

/// Listens at a port: "0" for any that is free. A host that is this one's loopback is reached from here alone.
Status listenAt(const std::string &host, const std::string &port, Socket &listener);
/// Returns the port that a socket listens at.
uint16_t portOf(const Socket &listener);
/// Returns the address of the other end of a connection, without its port.
std::string peerAddress(const Socket &socket);

/// Connects; tries again while the other one does not listen yet. `who` is for messages.
Status connectTo(const std::string &host, const std::string &port, const std::string &who, const Patience &patience,
                 Socket &connected);

/// Sends or receives all bytes; ITX_RANK_LOST if the connection or the patience ends.
Status sendAll(const Socket &socket, const void *data, uint64_t bytes, const Patience &patience);
Status receiveAll(const Socket &socket, void *data, uint64_t bytes, const Patience &patience);

enum class ConnectionSide : char { Caller = 'c', Called = 's' };

/// Proves the token to the other end, which proves it too. ITX_NOT_FOUND if the other end is no rank,
/// ITX_VERSION_MISMATCH or ITX_INVALID_ARGUMENT if it is one of another version or token.
Status proveToken(const Socket &socket, ConnectionSide side, const std::string &token, const Patience &patience);

} // namespace intarsia::runtime

#endif
