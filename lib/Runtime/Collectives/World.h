//===- World.h - Processes that run one model together -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_WORLD_H
#define INTARSIA_RUNTIME_COLLECTIVES_WORLD_H

#include "lib/Runtime/Collectives/Communicator.h"
#include "lib/Runtime/Collectives/LateBroadcasts.h"
#include "lib/Runtime/Collectives/WorldSettings.h"
#include "lib/Support/Hash.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace intarsia::runtime {

/// A world of ranks, as one of its processes sees it. The process leaves it when this object is destroyed.
class World {
public:
  /// Waits until all ranks have joined. A process is in one world at a time: if it is in one already, that is given if
  /// it has the same settings. Errors name the ranks that are missing.
  static Status join(const WorldSettings &settings, std::shared_ptr<World> &world);
  /// Gives the world that this process is in; else joins that of its environment. Null if there is neither.
  static Status ofProcess(std::shared_ptr<World> &world);

  int32_t rank() const { return state_.rank(); }
  int32_t size() const { return state_.size(); }
  /// The number of each rank's host.
  const std::vector<int32_t> &hosts() const { return hosts_; }
  /// The number of this rank among those of its host.
  size_t rankOnHost() const;
  /// All ranks, in their order.
  Communicator &all() { return *all_; }
  WorldState &state() { return state_; }
  /// Calls and operations of the world happen one after another, in the same order on all ranks.
  std::mutex &mutex() { return mutex_; }

  // The caller of the functions below holds the mutex; all ranks call them in the same order.

  /// Broadcasts of results that are still to come. They come before exchanges other than those of a pipeline's calls.
  LateBroadcasts &late() { return late_; }

  /// Gives the communicator of a group, which lives as long as the world. All ranks of the world ask for it, whether
  /// they are in the group or not.
  Status group(const std::vector<int32_t> &ranks, Communicator *&communicator);
  /// Makes a communicator of two ranks for messages of one kind, whose order among other exchanges is free. All ranks
  /// of the world call this.
  Status makeChannel(int32_t first, int32_t second, Communicator *&communicator);
  /// Fails unless all ranks come with the same hash. The message says that `what` differs, and what to do.
  Status agree(const Hash128 &hash, const std::string &what, const std::string &advice);

private:
  World() = default;
  Status makeCommunicator(const std::vector<int32_t> &ranks, std::unique_ptr<Communicator> &made);
  static Status make(const WorldSettings &settings, std::shared_ptr<World> &world);

  WorldSettings settings_;
  std::vector<int32_t> hosts_; // number of each rank's host
  SharedFile file_;
  uint64_t fileBytes_ = 0; // that are given to communicators
  WorldState state_;
  HostLinks links_;
  LateBroadcasts late_;
  Communicator *all_ = nullptr;
  std::map<std::vector<int32_t>, std::unique_ptr<Communicator>> groups_;
  std::vector<std::unique_ptr<Communicator>> channels_;
  std::mutex mutex_;
};

} // namespace intarsia::runtime

#endif
