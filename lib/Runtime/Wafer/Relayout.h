//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Which elements a core keeps of the tiles that pass it on the way from one grid to another.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_RELAYOUT_H
#define INTARSIA_LIB_RUNTIME_WAFER_RELAYOUT_H

#include "lib/Runtime/Wafer/Program.h"

namespace intarsia::wafer {

/// Elements side by side: `count` from `from` on of the passing tile, which become those from `to` on of what is kept.
struct CollectedElements {
  int64_t to = 0, from = 0, count = 0;
};

/// Calls `action` with the elements that the core in column x and row y of a program keeps of a tile that has made
/// `steps` steps around a ring of all cores of its axis. A step brings a tile to the place before (`ringPlace`).
template <typename Action>
void forCollected(const RelayoutStep &step, const Program &program, int64_t x, int64_t y, int64_t steps,
                  Action action) {
  auto tileOf = [](int64_t size, int64_t cores) { return (size + cores - 1) / cores; };
  const int64_t sourceRows = tileOf(step.height, step.from), sourceColumns = tileOf(step.width, step.from);
  const int64_t rows = tileOf(step.height, step.to), columns = tileOf(step.width, step.to);
  const bool liesAlongY = step.along == MeshAxis::Y;
  // Tiles travel along the axis of the source's columns first, then along that of its rows.
  const bool travelsAlongX = liesAlongY != step.second;
  const int64_t extent = travelsAlongX ? program.columns : program.rows, here = travelsAlongX ? x : y;
  const int64_t origin = ringPosition((ringPlace(here, extent) + steps) % extent, extent);
  if (origin >= step.from)
    return; // a core without a tile of the source
  if (step.second) {
    if (x >= step.to || y >= step.to)
      return;
    // Columns are those that both have in the end.
    const int64_t tile = (ringPlace(y, step.to) + ringPlace(x, step.to)) % step.to;
    const int64_t first = std::max(tile * rows, origin * sourceRows);
    const int64_t end = std::min({(tile + 1) * rows, (origin + 1) * sourceRows, step.height});
    if (first < end)
      action(CollectedElements{(first - tile * rows) * columns, (first - origin * sourceRows) * columns,
                               (end - first) * columns});
    return;
  }
  const int64_t line = liesAlongY ? y : x, target = liesAlongY ? x : y; // of the source's rows; where columns go
  if (line >= step.from || target >= step.to)
    return;
  const int64_t place = ringPlace(target, step.to);
  for (int64_t r = 0; r < sourceRows && line * sourceRows + r < step.height; ++r) {
    // Along x all rows have the same columns in the end. Along y the skew of MeshGEMM decides.
    const int64_t tile = liesAlongY ? place : ((line * sourceRows + r) / rows % step.to - place + step.to) % step.to;
    const int64_t first = std::max(tile * columns, origin * sourceColumns);
    const int64_t end = std::min({(tile + 1) * columns, (origin + 1) * sourceColumns, step.width});
    if (first < end)
      action(CollectedElements{r * columns + first - tile * columns, r * sourceColumns + first - origin * sourceColumns,
                               end - first});
  }
}

} // namespace intarsia::wafer

#endif
