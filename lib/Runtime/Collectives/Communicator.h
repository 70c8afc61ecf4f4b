//===- Communicator.h - A group of ranks -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_COMMUNICATOR_H
#define INTARSIA_RUNTIME_COLLECTIVES_COMMUNICATOR_H

#include "lib/Runtime/Collectives/HostLinks.h"
#include "lib/Runtime/Collectives/Rounds.h"

namespace intarsia::runtime {

/// Ranks that exchange data: those of one host through its memory, those of different hosts by connections.
class Communicator {
public:
  /// The members on one host, by their places in the group, ascending. The first one speaks for the others.
  using Host = std::vector<size_t>;

  /// Returns the bytes of a host's shared memory for a group, a multiple of the page size. `hosts` is the number of
  /// each rank's host.
  static uint64_t bytesFor(const std::vector<int32_t> &ranks, const std::vector<int32_t> &hosts, int32_t ownRank);

  /// `ranks`: the members in the group's order. The memory at `offset` of the file is zero before the first use.
  Status open(WorldState &world, HostLinks &links, const std::vector<int32_t> &hosts, const SharedFile &file,
              uint64_t offset, std::vector<int32_t> ranks);

  size_t size() const { return ranks_.size(); }
  /// Returns this rank's place in the group, -1 if it is no member.
  int32_t index() const { return index_; }
  const std::vector<int32_t> &ranks() const { return ranks_; }
  WorldState &world() const { return *world_; }

  /// In the order of their first members.
  const std::vector<Host> &hosts() const { return hosts_; }
  size_t ownHost() const { return ownHost_; }
  bool isOnOneHost() const { return hosts_.size() == 1; }
  /// True for the rank that speaks for its host.
  bool isFirstHere() const { return hosts_[ownHost_].front() == size_t(index_); }
  /// Returns the rank that speaks for a host.
  int32_t firstOf(size_t host) const { return ranks_[hosts_[host].front()]; }
  /// The members on this host. Not open where that is this rank alone among several hosts.
  Rounds &here() { return here_; }
  HostLinks &links() const { return *links_; }

  /// Says what is exchanged next.
  void begin(const Exchange &operation) {
    here_.begin(operation);
    links_->begin(operation);
  }

private:
  WorldState *world_ = nullptr;
  HostLinks *links_ = nullptr;
  std::vector<int32_t> ranks_;
  int32_t index_ = -1;
  std::vector<Host> hosts_;
  size_t ownHost_ = 0;
  Rounds here_;
};

} // namespace intarsia::runtime

#endif
