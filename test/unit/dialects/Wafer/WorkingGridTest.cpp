//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Grids beside cores that do not work, against trying every one.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Wafer/WorkingGrid.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace intarsia::wafer;

namespace {

/// Returns whether each core of a grid works, and each core whose router its messages pass.
bool works(const WaferCores &wafer, const WorkingGrid &grid) {
  for (size_t i = 0; i < wafer.defects.size(); i += 2) {
    int64_t x = wafer.defects[i], y = wafer.defects[i + 1];
    auto has = [](const std::vector<int64_t> &all, int64_t one) { return std::count(all.begin(), all.end(), one) > 0; };
    auto spans = [](const std::vector<int64_t> &all, int64_t one) { return one >= all.front() && one <= all.back(); };
    if ((has(grid.columns, x) && spans(grid.rows, y)) || (has(grid.rows, y) && spans(grid.columns, x)))
      return false;
  }
  return true;
}

/// Returns the fewest columns and rows that a square grid leaves out, from all choices of columns and rows; -1: none is
/// possible.
int64_t fewestSkipped(const WaferCores &wafer, int64_t side) {
  int64_t best = -1;
  for (unsigned columns = 0; columns < 1u << wafer.columns; ++columns)
    for (unsigned rows = 0; rows < 1u << wafer.rows; ++rows) {
      if (__builtin_popcount(columns) != side || __builtin_popcount(rows) != side)
        continue;
      WorkingGrid grid;
      for (int64_t i = 0; i < 8; ++i) {
        if (columns >> i & 1)
          grid.columns.push_back(i);
        if (rows >> i & 1)
          grid.rows.push_back(i);
      }
      if (works(wafer, grid) && (best < 0 || grid.skipped() < best))
        best = grid.skipped();
    }
  return best;
}

TEST(WaferWorkingGrid, leavesOutAsLittleAsPossible) {
  std::mt19937 random(81);
  auto draw = [&](int64_t low, int64_t high) { return low + int64_t(random() % unsigned(high - low + 1)); };
  int withGaps = 0, impossible = 0;
  for (int trial = 0; trial < 400; ++trial) {
    int64_t columns = draw(4, 7), rows = draw(4, 7);
    std::vector<int64_t> defects;
    for (int64_t i = draw(0, 3); i > 0; --i) {
      defects.push_back(draw(0, columns - 1));
      defects.push_back(draw(0, rows - 1));
    }
    WaferCores wafer{columns, rows, defects};
    int64_t largest = 0;
    for (int64_t side = 1; side <= std::min(columns, rows); ++side) {
      int64_t fewest = fewestSkipped(wafer, side);
      std::optional<WorkingGrid> grid = findWorkingGrid(wafer, side);
      ASSERT_EQ(grid.has_value(), fewest >= 0) << "trial " << trial << ", side " << side;
      if (!grid) {
        ++impossible;
        continue;
      }
      largest = side;
      ASSERT_EQ(int64_t(grid->columns.size()), side);
      ASSERT_EQ(int64_t(grid->rows.size()), side);
      ASSERT_TRUE(grid->columns.back() < columns && grid->rows.back() < rows);
      ASSERT_TRUE(works(wafer, *grid)) << "trial " << trial << ", side " << side;
      ASSERT_EQ(grid->skipped(), fewest) << "trial " << trial << ", side " << side;
      withGaps += fewest > 0;
      // A program says only where its grid begins.
      std::optional<WorkingGrid> again = workingGridFrom(wafer, grid->columns.front(), grid->rows.front(), side, side);
      ASSERT_TRUE(again && again->columns == grid->columns && again->rows == grid->rows);
    }
    ASSERT_EQ(largestWorkingGrid(wafer), largest);
  }
  EXPECT_GT(withGaps, 20);
  EXPECT_GT(impossible, 20);
}

TEST(WaferWorkingGrid, ofALargeWafer) {
  std::mt19937 random(1);
  std::vector<int64_t> defects;
  for (int i = 0; i < 100; ++i) {
    defects.push_back(int64_t(random() % 750));
    defects.push_back(int64_t(random() % 994));
  }
  WaferCores wafer{750, 994, defects};
  int64_t largest = largestWorkingGrid(wafer);
  EXPECT_GE(largest, 650); // a hundred columns and rows fewer at most
  EXPECT_TRUE(works(wafer, *findWorkingGrid(wafer, largest)));
  EXPECT_FALSE(findWorkingGrid(wafer, largest + 1));
}

} // namespace
