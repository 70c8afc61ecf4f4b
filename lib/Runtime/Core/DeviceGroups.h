//===- DeviceGroups.h - Ranks whose devices exchange data themselves ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_DEVICEGROUPS_H
#define INTARSIA_RUNTIME_CORE_DEVICEGROUPS_H

#include "lib/Runtime/Collectives/World.h"
#include "lib/Runtime/Core/Device.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace intarsia::runtime {

/// Which groups of a module's ranks exchange data in the memories of their devices. A thread watches the ranks while
/// such exchanges are running: a device that waits for a rank which has ended would wait for ever. The caller holds the
/// world's mutex.
class DeviceGroups {
public:
  /// Tells the ranks of the world of each other's devices. All of them call it. `device` runs all functions of this
  /// rank; null: there are several, or it computes in memory of the host.
  static Status open(World &world, Device *device, std::unique_ptr<DeviceGroups> &groups);
  /// Waits until the other ranks of each group have come here too, unless the world has failed.
  ~DeviceGroups();

  /// Finds the devices' group of a communicator, which they join when they first need it: all of its ranks call this.
  /// Null: they exchange data by way of the host's memory. An error says what to do where a library is missing.
  Status find(Communicator &communicator, DeviceGroup *&group);
  /// Begins to watch the ranks of a communicator, whose devices have an exchange to make in the current call.
  void beginExchange(const Communicator &communicator);
  /// Ends it: no exchange of the call is running. Returns the world's failure, if it has one.
  Status endCall();

private:
  struct Peer;
  DeviceGroups(World &world, Device *device);
  Status decide(const Communicator &communicator, bool &areAble) const;
  Status join(Communicator &communicator, std::unique_ptr<DeviceGroup> &group);
  void watch();
  Status look();

  World &world_;
  Device *device_;
  std::vector<Peer> peers_; // by rank
  struct Entry {
    Communicator *communicator;
    std::unique_ptr<DeviceGroup> group; // null: by way of the host
  };

  std::mutex mutex_; // of all that follows
  std::vector<Entry> entries_;
  std::vector<int32_t> watched_; // ranks
  std::chrono::steady_clock::time_point begin_;
  bool isExchanging_ = false; // in the current call
  bool isEnding_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

} // namespace intarsia::runtime

#endif
