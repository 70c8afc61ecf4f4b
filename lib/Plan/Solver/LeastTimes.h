//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_LEASTTIMES_H
#define INTARSIA_PLAN_LEASTTIMES_H

#include "intarsia/Plan/Placement.h"

namespace intarsia::plan {

/// Returns a promise that no plan on any number of devices holds: it is broken even if each piece takes its fastest
/// choice, alone in its replica, nothing waits and nothing is sent. The text names the piece that takes most of the
/// time. The one that is broken by the largest factor, if there are several; nothing if there is none.
std::optional<Conflict> impossiblePromise(const PlacementProblem &problem);

} // namespace intarsia::plan

#endif
