//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Where a grid lies on a wafer some of whose cores do not work.
//
// A grid leaves out each column and each row of the wafer, between its first and its last ones, that has such a core. A
// message passes through the routers of what is left out, but never through that of a core that does not work: along a
// row of the grid it would be in that row, along a column in that column, and neither is part of the grid.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_WAFER_WORKINGGRID_H
#define INTARSIA_DIALECTS_WAFER_WORKINGGRID_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace intarsia::wafer {

/// The cores of a wafer. `defects` are the columns and rows of those that do not work, in turn.
struct WaferCores {
  int64_t columns = 0, rows = 0;
  llvm::ArrayRef<int64_t> defects;
};

/// The columns and rows of a wafer that a grid has, in ascending order.
struct WorkingGrid {
  std::vector<int64_t> columns, rows;

  /// Returns how many columns and rows are left out between the first and the last ones.
  int64_t skipped() const;
};

/// Returns the grid of `columns` by `rows` cores of which no column and no row is before the given ones; nothing if the
/// wafer ends before it does.
std::optional<WorkingGrid> workingGridFrom(const WaferCores &wafer, int64_t column, int64_t row, int64_t columns,
                                           int64_t rows);

/// Returns the square grid that leaves out the fewest columns and rows, the first one by rows; nothing if there is none
/// of this side.
std::optional<WorkingGrid> findWorkingGrid(const WaferCores &wafer, int64_t side);

/// Returns the side of the largest square grid.
int64_t largestWorkingGrid(const WaferCores &wafer);

} // namespace intarsia::wafer

#endif
