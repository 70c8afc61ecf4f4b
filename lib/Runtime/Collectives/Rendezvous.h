//===- Rendezvous.h - How the processes of a world meet ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_RENDEZVOUS_H
#define INTARSIA_RUNTIME_COLLECTIVES_RENDEZVOUS_H

#include "lib/Runtime/Collectives/SharedSegment.h"
#include "lib/Runtime/Collectives/Socket.h"
#include "lib/Runtime/Collectives/WorldSettings.h"

#include <vector>

namespace intarsia::runtime {

/// What each rank has when all have met.
struct Meeting {
  SharedFile file;                ///< memory that the ranks of this host share, all zero
  std::vector<int32_t> processes; ///< ids of the ranks' processes
  uint32_t processors = 0;        ///< that the ranks of this host may use together
  std::vector<int32_t> hosts;     ///< number of each rank's host

  // Where there are several hosts:
  std::vector<std::string> hostNames;  ///< of each rank
  std::vector<Socket> controls, links; ///< two connections with each rank of another host
};

/// Waits until all ranks of a world have come. Rank 0 listens on the address, makes shared memory of `bytes` bytes and
/// passes it on. Errors name who is missing, or who does not belong here; all that have come get the same one.
Status meet(const WorldSettings &settings, uint64_t bytes, Meeting &meeting);

} // namespace intarsia::runtime

#endif
