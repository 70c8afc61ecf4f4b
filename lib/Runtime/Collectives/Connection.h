//===- Connection.h - Connections between hosts ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is sent is neither encrypted nor signed. Proof.h says how both ends show that they belong to one world.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_CONNECTION_H
#define INTARSIA_RUNTIME_COLLECTIVES_CONNECTION_H

#include "lib/Runtime/Collectives/Socket.h"
#include "lib/Support/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <type_traits>

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
/// Returns an address without its port.
std::string addressText(const sockaddr_storage &address, uint32_t length);
/// Returns that of the other end of a connection.
std::string peerAddress(const Socket &socket);

/// Connects; tries again while the other one does not listen yet. `who` is for messages.
Status connectTo(const std::string &host, const std::string &port, const std::string &who, const Patience &patience,
                 Socket &connected);

/// Sends or receives all bytes; ITX_RANK_LOST if the connection or the patience ends.
Status sendAll(const Socket &socket, const void *data, uint64_t bytes, const Patience &patience);
Status receiveAll(const Socket &socket, void *data, uint64_t bytes, const Patience &patience);
/// Sends an object, all bytes of which have a meaning: none is left over from what lay in its memory before.
template <typename Object> Status sendObject(const Socket &socket, const Object &object, const Patience &patience) {
  static_assert(std::has_unique_object_representations_v<Object>);
  return sendAll(socket, &object, sizeof(object), patience);
}

} // namespace intarsia::runtime

#endif
