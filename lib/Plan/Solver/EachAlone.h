//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Splits a problem into parts that share only resources.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_EACHALONE_H
#define INTARSIA_PLAN_EACHALONE_H

#include "intarsia/Plan/Placement.h"
#include "llvm/ADT/ArrayRef.h"

namespace intarsia::plan {

/// Returns classes of pieces that edges, agents, groups (together or apart) or calls connect, in the order of pieces.
std::vector<std::vector<int>> agentsApart(const PlacementProblem &problem);

/// Returns true if there are several such parts, and their costs add up to the objective.
bool addsUpOverParts(const PlacementProblem &problem);

/// The agents of some pieces as a problem of their own on the whole fleet. Fractions of devices and nodes cost their
/// fraction, so that no plan of the whole problem costs less than the sum of its parts.
struct PartOfProblem {
  /// Builds the part of `pieces`, one class of `agentsApart`. The objective must not be the latency.
  PartOfProblem(const PlacementProblem &whole, llvm::ArrayRef<int> pieces);

  PlacementProblem problem;
  std::vector<int> pieces;
  /// The objective of the whole is at least the sum over parts of weight times the objective of each.
  double weight = 1;

  /// Restricts per-piece data of the whole problem to this part.
  Placements restricted(const Placements &placements) const;
  std::vector<std::pair<int, int>> restricted(llvm::ArrayRef<std::pair<int, int>> choices) const;
};

} // namespace intarsia::plan

#endif
