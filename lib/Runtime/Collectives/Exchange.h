//===- Exchange.h - What all ranks of a group do together --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_COLLECTIVES_EXCHANGE_H
#define INTARSIA_RUNTIME_COLLECTIVES_EXCHANGE_H

#include "lib/Support/Status.h"

#include <cstdint>

namespace intarsia::runtime {

class WorldState;

/// Describes an exchange; ranks compare these to find out whether all of a group do the same.
struct Exchange {
  uint32_t kind = 0; ///< one of ITX_COLLECTIVE_*, or one of the two below
  itx_dtype element = ITX_U8;
  uint32_t root = 0; ///< member that sends; 0 where all do
  uint64_t elements = 0;
  bool hasOwnElements = false; ///< each rank has another number of elements
};
inline constexpr uint32_t barrierKind = 100, exchangeKind = 101;

/// Fails if another rank of the world does something else than this one.
Status compareExchanges(WorldState &world, int32_t otherRank, const Exchange &other, const Exchange &own);

} // namespace intarsia::runtime

#endif
