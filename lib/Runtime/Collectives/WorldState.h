//===- WorldState.h - What the ranks of a world know of each other -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_WORLDSTATE_H
#define INTARSIA_RUNTIME_COLLECTIVES_WORLDSTATE_H

#include "lib/Runtime/Collectives/RemoteRanks.h"
#include "lib/Runtime/Collectives/SharedSegment.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace intarsia::runtime {

/// What a rank says of itself; the others read it while they wait for it.
struct alignas(64) RankState {
  std::atomic<uint32_t> hasLeft;
  std::atomic<int32_t> waitsFor;       ///< the rank that it waits for, plus 1; 0: none
  std::atomic<uint64_t> abandonedCall; ///< number of the last call that it could not finish; 0: none
  std::atomic<uint64_t> endsAfter;     ///< number plus 1 of its last call, while it waits to free a module; else 0
  char reason[488];                    ///< why it could not, written before the number
};

/// The beginning of a world's shared memory on a host. The states of the ranks follow.
struct alignas(64) WorldHeader {
  std::atomic<uint32_t> failure; ///< 0: none, 1: being written, 2: written
  int32_t failureStatus;
  char message[1016];
};

/// The state of a world in one of its processes: notices ranks that died, left, gave up or hang. The first failure is
/// the last thing that happens in a world: all ranks end with its message.
class WorldState {
public:
  static uint64_t bytesFor(int32_t size) { return sizeof(WorldHeader) + uint64_t(size) * sizeof(RankState); }

  ~WorldState();
  /// Maps the state at the beginning of the file. `processes` are the ids of the ranks' processes, of which those of
  /// this host may use so many `processors` together. `hosts` is the number of each rank's host.
  Status open(const SharedFile &file, int32_t rank, const std::vector<int32_t> &processes,
              const std::vector<int32_t> &hosts, uint32_t processors, double deadlineS);
  /// Connects it with ranks of other hosts: a connection with each of them, and their hosts' names.
  void connect(std::vector<Socket> controls, const std::vector<std::string> &hostNames);

  /// How long a rank waits for another one; 0: for ever.
  double deadlineSeconds() const { return deadlineS_; }
  int32_t rank() const { return rank_; }
  int32_t size() const { return size_; }
  WorldHeader &header() const { return *reinterpret_cast<WorldHeader *>(mapping_.data()); }
  RankState &state(int32_t rank) const {
    return reinterpret_cast<RankState *>(mapping_.data() + sizeof(WorldHeader))[rank];
  }

  /// Returns the world's failure; success if there is none.
  Status failure() const;
  /// Makes this the world's failure unless it has one. Returns the one that it has.
  Status fail(const Status &status);
  /// Returns an error if `rank`, which has been waited for since `begin`, will not come any more.
  Status checkPeer(int32_t rank, std::chrono::steady_clock::time_point begin);
  /// The same of ranks that this rank's device has been waiting for. Of several, one that waits for none itself is
  /// waited for.
  Status checkPeers(const std::vector<int32_t> &ranks, std::chrono::steady_clock::time_point begin);

  /// Gives the number of a call that other ranks make too. While it runs, ranks that abandon it are noticed.
  uint64_t beginCall();
  /// Ends the call; tells the others if it failed.
  void endCall(const Status &status);

  /// Says that this rank makes no call before the others are where it is: they must not wait for it in one.
  void beginEnd();
  /// Says that they are there.
  void finishEnd();

  /// Says that this rank waits for none any more.
  void endWait() {
    if (toldWait_ != 0)
      tellWait(-1);
  }
  /// Says that this rank's device waits for none any more.
  void endWaitOnDevice() {
    state(rank_).waitsFor.store(0, std::memory_order_relaxed);
    endWait();
  }

  /// Microseconds for which a waiting rank stays awake.
  int64_t spinMicroseconds() const { return spinMicroseconds_; }

private:
  bool hasEnded(int32_t rank) const;
  /// Returns the rank that one waits for, plus 1; 0: none.
  int32_t waitOf(int32_t rank) const;
  std::string nameOf(int32_t rank) const;
  Status checkLocal(int32_t rank);
  Status checkEnd(int32_t rank, uint64_t endsAfter);
  Status checkRemote(int32_t rank);
  /// Lets the others know whom this rank waits for, before deadlines end: see lastInChain.
  void tellWait(int32_t rank);
  /// Returns the rank that one waits for, which may itself wait for another one, which …
  int32_t lastInChain(int32_t rank) const;

  SharedMapping mapping_;
  /// Guards `remote_`, which two threads use: one exchanges data, the other looks after ranks that devices wait for.
  mutable std::recursive_mutex remoteMutex_;
  RemoteRanks remote_;
  int32_t rank_ = 0, size_ = 0;
  double deadlineS_ = 0;
  int64_t spinMicroseconds_ = 0;
  std::vector<int32_t> processes_;
  std::vector<int> processDescriptors_; // -1: the system has none
  std::atomic<uint64_t> calls_ = 0;
  std::atomic<bool> isInCall_ = false;
  std::atomic<int32_t> toldWait_ = 0; ///< what other hosts were told: a rank plus 1; 0: nothing
};

} // namespace intarsia::runtime

#endif
