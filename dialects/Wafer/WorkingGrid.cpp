//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Wafer/WorkingGrid.h"

#include <algorithm>
#include <set>

namespace intarsia::wafer {
namespace {

/// The columns and rows that a grid leaves out.
struct LeftOut {
  std::set<int64_t> columns, rows;
};

/// Returns what a grid of `columns` by `rows` cores from a core on leaves out; nothing if it leaves the wafer, or
/// leaves out more than `most` columns and rows. What is left out makes the grid longer, so that it may meet further
/// cores: the smallest extent that holds the grid is found from below.
std::optional<LeftOut> leftOutFrom(const WaferCores &wafer, int64_t column, int64_t row, int64_t columns, int64_t rows,
                                   int64_t most) {
  LeftOut out;
  for (bool grows = true; grows;) {
    int64_t width = columns + int64_t(out.columns.size()), height = rows + int64_t(out.rows.size());
    if (column + width > wafer.columns || row + height > wafer.rows ||
        int64_t(out.columns.size() + out.rows.size()) > most)
      return std::nullopt;
    grows = false;
    for (size_t i = 0; i < wafer.defects.size(); i += 2) {
      int64_t x = wafer.defects[i], y = wafer.defects[i + 1];
      if (x >= column && x < column + width && y >= row && y < row + height)
        grows |= int(out.columns.insert(x).second) + int(out.rows.insert(y).second) > 0;
    }
  }
  return out;
}

std::vector<int64_t> positions(int64_t first, int64_t count, const std::set<int64_t> &leftOut) {
  std::vector<int64_t> result;
  for (int64_t position = first; int64_t(result.size()) < count; ++position)
    if (leftOut.count(position) == 0)
      result.push_back(position);
  return result;
}

/// Returns 0 and what follows each defect along an axis: a grid that begins elsewhere can begin one earlier, and then
/// meets no further core that does not work.
std::set<int64_t> beginnings(const WaferCores &wafer, size_t axis) {
  std::set<int64_t> result{0};
  for (size_t i = axis; i < wafer.defects.size(); i += 2)
    result.insert(wafer.defects[i] + 1);
  return result;
}

} // namespace

int64_t WorkingGrid::skipped() const {
  auto between = [](const std::vector<int64_t> &all) { return all.back() - all.front() + 1 - int64_t(all.size()); };
  return between(columns) + between(rows);
}

std::optional<WorkingGrid> workingGridFrom(const WaferCores &wafer, int64_t column, int64_t row, int64_t columns,
                                           int64_t rows) {
  if (column < 0 || row < 0)
    return std::nullopt;
  std::optional<LeftOut> out = leftOutFrom(wafer, column, row, columns, rows, wafer.columns + wafer.rows);
  if (!out)
    return std::nullopt;
  return WorkingGrid{positions(column, columns, out->columns), positions(row, rows, out->rows)};
}

std::optional<WorkingGrid> findWorkingGrid(const WaferCores &wafer, int64_t side) {
  std::optional<WorkingGrid> best;
  std::set<int64_t> firstColumns = beginnings(wafer, 0);
  for (int64_t row : beginnings(wafer, 1))
    for (int64_t column : firstColumns) {
      int64_t most = best ? best->skipped() - 1 : wafer.columns + wafer.rows;
      if (most < 0)
        return best;
      if (std::optional<LeftOut> out = leftOutFrom(wafer, column, row, side, side, most)) {
        WorkingGrid found{positions(column, side, out->columns), positions(row, side, out->rows)};
        if (!best || found.skipped() < best->skipped())
          best = std::move(found);
      }
    }
  return best;
}

int64_t largestWorkingGrid(const WaferCores &wafer) {
  int64_t fits = 0, tooLarge = std::min(wafer.columns, wafer.rows) + 1;
  while (fits + 1 < tooLarge) {
    int64_t side = (fits + tooLarge) / 2;
    (findWorkingGrid(wafer, side) ? fits : tooLarge) = side;
  }
  return fits;
}

} // namespace intarsia::wafer
