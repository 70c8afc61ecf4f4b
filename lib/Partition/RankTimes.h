//===- RankTimes.h - What a module that is split over ranks takes ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_RANKTIMES_H
#define INTARSIA_LIB_PARTITION_RANKTIMES_H

#include "intarsia/Cost/Collectives.h"
#include "intarsia/Target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

namespace intarsia::partition {

/// Microseconds of one call of every function at the expected sizes, and bytes of the ranks.
struct RankTimes {
  double us = 0;           ///< until the last rank is done
  double exchangesUs = 0;  ///< of them, the most that a rank spends in exchanges or waiting for them
  double fullestBytes = 0; ///< weights, and caches of one sequence of full length, of the rank that has most
};

/// How ranks reach each other: those of a host through its memory, hosts by an adapter each.
struct RankLinks {
  Link memory, network;
  llvm::SmallVector<int64_t> hosts; ///< the number of each rank's host; empty: all are on one
  bool roundsMessages = false;      ///< sums between hosts send 8 bits an element

  int64_t hostOf(int64_t rank) const { return hosts.empty() ? 0 : hosts[rank]; }
};

/// Follows the ranks of a split module through their functions: each op is a kernel of its own, takes as long as the
/// device's figures say divided by the speed of its rank, and exchanges wait for those who take part.
RankTimes timesOfRanks(mlir::ModuleOp module, const target::Device &device, llvm::ArrayRef<double> speeds,
                       const RankLinks &links);

} // namespace intarsia::partition

#endif
