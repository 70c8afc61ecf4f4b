//===- Rendezvous.h - How the processes of a world meet
//-------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_RENDEZVOUS_H
#define INTARSIA_RUNTIME_COLLECTIVES_RENDEZVOUS_H

#include "lib/Runtime/Collectives/SharedSegment.h"
#include "lib/Runtime/Collectives/WorldSettings.h"

#include <vector>

namespace intarsia::runtime {

/// What each rank has when all have met.
struct Meeting {
  SharedFile file;                ///< with the world's state and its first communicator, all zero
  std::vector<int32_t> processes; ///< ids of the ranks' processes
  uint32_t processors = 0;        ///< that the ranks may use together
};

/// Waits until all ranks of a world have come. Rank 0 listens on the address, makes shared memory of `bytes` bytes and
/// passes it on. Errors name who is missing, or who does not belong here; all that have come get the same one.
Status meet(const WorldSettings &settings, uint64_t bytes, Meeting &meeting);

} // namespace intarsia::runtime

#endif
