//===- HostLinks.h - Data between ranks of different hosts -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each two ranks of different hosts have a TCP connection. A message is a header, which says what it is of and how long
// it is, and the data. Messages of two ranks come in the order in which they are sent, which is that of the world's
// exchanges.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_HOSTLINKS_H
#define INTARSIA_RUNTIME_COLLECTIVES_HOSTLINKS_H

#include "lib/Runtime/Collectives/Exchange.h"
#include "lib/Runtime/Collectives/Socket.h"
#include "lib/Runtime/Collectives/WorldState.h"

#include <deque>
#include <memory>
#include <vector>

namespace intarsia::runtime {

class HostLinks {
public:
  /// A part of a message that is to be received.
  struct Incoming {
    int32_t rank;          ///< that sends it
    void *data;            ///< where it goes
    uint64_t bytes;        ///< of this part
    uint64_t messageBytes; ///< of the message that it is of
    bool isDone = false;
    uint64_t received = 0;
  };

  /// `connections`: one with each rank of the world; closed ones are of this host.
  void open(WorldState &world, std::vector<Socket> connections);

  /// Says what the next messages are of.
  void begin(const Exchange &operation) { operation_ = operation; }
  /// Begins to send a message. The data must not change before finish() has returned.
  void send(int32_t rank, const void *data, uint64_t bytes);
  /// Returns when all parts have come. A message is received in parts that follow each other.
  Status receive(std::vector<Incoming> parts);
  /// Returns when the system has taken all that was sent.
  Status finish() { return receive({}); }
  /// Returns memory that holds until the next call of this function.
  uint8_t *scratch(uint64_t bytes) {
    if (scratchBytes_ < bytes) {
      scratch_.reset(new uint8_t[bytes]);
      scratchBytes_ = bytes;
    }
    return scratch_.get();
  }

private:
  struct Header {
    uint32_t kind, element, root, padding;
    uint64_t elements, bytes;
  };
  struct Outgoing {
    Header header;
    const uint8_t *data;
    uint64_t done = 0; ///< bytes of both
  };
  struct Link {
    Socket socket;
    std::deque<Outgoing> outgoing;
    Header header;
    uint64_t headerBytes = 0; ///< of the present message's header that have come
    uint64_t restBytes = 0;   ///< of its data that have not
  };

  Status push(int32_t rank, bool &moved);
  Status take(Incoming &part, bool &moved);
  Status readHeader(const Incoming &part, bool &moved);
  Status lost(int32_t rank, int code);
  Status sleep(const std::vector<Incoming> &parts, std::chrono::steady_clock::time_point begin);

  WorldState *world_ = nullptr;
  std::vector<Link> links_;
  std::vector<int32_t> sending_; ///< ranks that something is sent to
  Exchange operation_;
  std::unique_ptr<uint8_t[]> scratch_;
  uint64_t scratchBytes_ = 0;
};

} // namespace intarsia::runtime

#endif
