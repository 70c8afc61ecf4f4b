//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Removal of options that no plan needs, because another option of the piece is nowhere worse.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_DOMINANCE_H
#define INTARSIA_PLAN_DOMINANCE_H

#include "Program.h"

namespace intarsia::plan {

/// Returns true if no time of `a` is above that of `b`. `spreads` says that the piece's times are not deterministic.
bool noSlower(const Stage &a, const Stage &b, bool spreads);

/// Removes each option for which another of the same group and pool is nowhere worse: in cost, in its use of the first
/// `resources` resources, and, if an agent's level depends on the piece (`timed`), in time. Among equal options the
/// first stays. The order of the remaining options does not change.
void dropDominated(std::vector<Option> &all, const Piece &piece, bool timed, size_t resources);

} // namespace intarsia::plan

#endif
