//===- RemoteRanks.h - What ranks of other hosts say of themselves -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each two ranks of different hosts have a connection for notes beside the one for data: what ranks of one host find in
// the memory that they share. A rank reads the notes while it waits. Nobody writes to a connection for long, so that
// its keepalive probes tell whether the other host can be reached.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_REMOTERANKS_H
#define INTARSIA_RUNTIME_COLLECTIVES_REMOTERANKS_H

#include "lib/Runtime/Collectives/Socket.h"
#include "lib/Support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace intarsia::runtime {

/// A rank sends this to those of other hosts.
struct Note {
  enum Kind : uint32_t {
    Failure = 1, ///< the world has failed: status and text
    Left,        ///< the rank has left the world
    Abandoned,   ///< it could not finish its call of this number: text
    EndsAfter,   ///< it makes no call after that of this number: State::endsAfter
    WaitsFor     ///< it has waited long for the rank of this number minus 1; 0: no longer
  };
  uint32_t kind = 0;
  int32_t status = 0;
  uint64_t number = 0;
  char text[1008] = {};
};
static_assert(sizeof(Note) == 1024);

class RemoteRanks {
public:
  /// Describes a rank by the notes that it has sent.
  struct State {
    bool isRemote = false;
    bool hasLeft = false;
    int32_t waitsFor = 0;
    uint64_t abandonedCall = 0, endsAfter = 0;
    std::string reason;
  };

  /// `controls`: the connection with each rank of the world; closed ones are of this host. `names` are for messages.
  void open(std::vector<Socket> controls, std::vector<std::string> names);
  bool isEmpty() const { return peers_.empty(); }
  const State &state(int32_t rank) const { return states_[size_t(rank)]; }
  /// Returns "rank 3 (process 77 on node2)".
  const std::string &nameOf(int32_t rank) const { return names_[size_t(rank)]; }

  /// Reads what has come. Returns a failure of the world that another rank has noticed, or that one has ended or cannot
  /// be reached.
  Status read();
  /// Sends a note to all ranks of other hosts.
  void tell(Note::Kind kind, uint64_t number, const Status &status = Status::success());

private:
  struct Peer {
    int32_t rank;
    Socket socket;
    Note note;
    size_t received = 0;
    bool hasEnded = false;
  };
  void receive(Peer &peer, Status &failure);
  void take(Peer &peer, Status &failure);

  std::vector<Peer> peers_;
  std::vector<State> states_;
  std::vector<std::string> names_;
};

/// Sets what connections between ranks need: small messages at once, probes while nothing is sent.
void prepareConnection(int socket);

} // namespace intarsia::runtime

#endif
