//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A problem in parts that meet in resources alone.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_EACHALONE_H
#define INTARSIA_PLAN_EACHALONE_H

#include "intarsia/Placement.h"
#include "llvm/ADT/ArrayRef.h"

namespace intarsia::plan {

/// The pieces that an edge, an agent, a group that is together or apart, or a call joins, in the order of pieces.
std::vector<std::vector<int>> agentsApart(const PlacementProblem &problem);

/// Whether there are several such parts, and what they cost adds up to the objective.
bool addsUpOverParts(const PlacementProblem &problem);

/// The agents of some pieces as a problem of their own on the whole fleet. Parts of devices and nodes cost their part,
/// so that no plan of the whole costs less than the parts do.
struct PartOfProblem {
  /// `pieces` are one of `agentsApart`. The objective is not the latency.
  PartOfProblem(const PlacementProblem &whole, llvm::ArrayRef<int> pieces);

  PlacementProblem problem;
  std::vector<int> pieces;
  /// The objective of the whole is at least the sum over parts of weight times the objective of each.
  double weight = 1;

  /// Of what is by piece of the whole.
  Placements restricted(const Placements &placements) const;
  std::vector<std::pair<int, int>> restricted(llvm::ArrayRef<std::pair<int, int>> choices) const;
};

} // namespace intarsia::plan

#endif
