//===- HostRendezvous.h - How processes of several hosts meet ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_HOSTRENDEZVOUS_H
#define INTARSIA_RUNTIME_COLLECTIVES_HOSTRENDEZVOUS_H

#include "lib/Runtime/Collectives/Rendezvous.h"

namespace intarsia::runtime {

/// Waits until all ranks of a world at tcp:HOST:PORT have come. Rank 0 listens there; each other rank proves that it
/// knows the token, and learns where the others are. Ranks of one host get memory together, of as many bytes as
/// `bytesFor` says for the ranks' hosts; those of different hosts get two connections. Errors name who is missing, or
/// who does not belong here; all that have come get the same one.
Status meetHosts(const WorldSettings &settings, uint64_t (*bytesFor)(const std::vector<int32_t> &hosts, int32_t rank),
                 Meeting &meeting);

} // namespace intarsia::runtime

#endif
