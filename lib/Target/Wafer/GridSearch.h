//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Searches the grid of the fastest programs without making those of every grid.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_GRIDSEARCH_H
#define INTARSIA_LIB_TARGET_WAFER_GRIDSEARCH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace intarsia::wafer {

/// A grid that may be the fastest, and the sizes that decide how long its programs take.
struct GridCandidate {
  int64_t grid = 0;
  std::vector<int64_t> tiles;
};

/// Calls `cyclesOn` with grids, of `candidates` in ascending order, until there is none left that is expected to be
/// faster than the fastest one; infinity is a grid that does not fit after all.
llvm::Error searchGrids(llvm::ArrayRef<GridCandidate> candidates,
                        llvm::function_ref<llvm::Expected<double>(int64_t grid)> cyclesOn);

} // namespace intarsia::wafer

#endif
