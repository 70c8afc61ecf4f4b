//===- RankTimes.h - What a module that is split over ranks takes ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_RANKTIMES_H
#define INTARSIA_LIB_PARTITION_RANKTIMES_H

#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Cost/Collectives.h"
#include "intarsia/Partition/Partition.h"
#include "intarsia/Target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace intarsia::partition {

/// Microseconds of one call of every function at the expected sizes, or of a load, and bytes of the ranks.
struct RankTimes {
  double us = 0;                 ///< until the last rank is done
  double exchangesUs = 0;        ///< of them, the most that a rank spends in exchanges or waiting for them
  double promptsUs = 0;          ///< of them, the prompts of a load
  double tokensUs = 0;           ///< and the tokens that its sequences are continued by
  double fullestBytes = 0;       ///< weights, and caches, of the rank that has most
  llvm::StringSet<> notMeasured; ///< what measured times were asked for and had not (KernelTimes.h)
};

/// How ranks reach each other: those of a host through its memory, or GPUs by a link between them; hosts by an adapter
/// each.
struct RankLinks {
  Link memory, network;
  llvm::SmallVector<int64_t> hosts; ///< the number of each rank's host; empty: all are on one
  bool roundsMessages = false;      ///< sums between hosts send 8 bits an element

  int64_t hostOf(int64_t rank) const { return hosts.empty() ? 0 : hosts[rank]; }
};

/// Follows the ranks of a split module through their functions: each op is a kernel of its own, takes as long as the
/// device's figures or measured times (KernelTimes.h) say divided by the speed of its rank, and exchanges wait for
/// those who take part.
///
/// With a load, ranks are followed through the calls that its sequences take, as the runtime and intarsia.Generator
/// make them. Prompts are given in calls of as many tokens as itx_cache_prefill_tokens says; stages of a pipeline begin
/// the next one without waiting for logits. Sequences are continued in as many parts as there are stages, a call each,
/// whose logits are taken when the calls of the other parts have begun: with as many sequences as stages, a token of
/// each takes as long as the slowest stage takes for all parts. Ranks with several stages each compute the parts of one
/// call in the order of StageOrder.h. Caches have the tokens of the load.
RankTimes timesOfRanks(mlir::ModuleOp module, const target::Device &device, const CatalogueDevice *measured,
                       llvm::ArrayRef<double> speeds, const RankLinks &links, const std::optional<RankLoad> &load);

} // namespace intarsia::partition

#endif
