//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The wafers that a variant of the target names, and the grids that are asked for.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_MESH_H
#define INTARSIA_LIB_TARGET_WAFER_MESH_H

#include "dialects/Wafer/WorkingGrid.h"
#include "intarsia/Cost/WaferCatalogue.h"
#include "llvm/Support/Error.h"

namespace intarsia::wafer {

/// Wafers of one kind, and the sides of the square grids that are asked for; none where the compiler chooses them.
struct Mesh {
  CatalogueWafer wafer;
  std::string source;              ///< its name in the catalogue, or the user's file
  std::optional<int64_t> grid;     ///< of programs for one row, and of caches
  std::optional<int64_t> regions;  ///< with a grid: how many of it share the layers, one if it is not said
  std::optional<int64_t> rowsGrid; ///< with a grid: of products for many rows; `grid` if it is not said
  int64_t wafers = 1;              ///< that share the layers

  int64_t figure(const char *name) const { return int64_t(wafer.figures.at(name).value); }
  int64_t largestGrid() const { return largestWorkingGrid({figure("columns"), figure("rows"), wafer.defects}); }
  /// Returns how many grids lie side by side on a wafer; one beside cores that do not work.
  int64_t regionsOfWafer(int64_t side) const {
    return wafer.defects.empty() ? figure("columns") / side * (figure("rows") / side) : 1;
  }
  /// The same on all wafers.
  int64_t mostRegions(int64_t side) const { return wafers * regionsOfWafer(side); }
  /// Returns the side of the smallest square of cores, at a corner of a wafer, that holds so many grids side by side.
  int64_t reachOf(int64_t side, int64_t regions) const;
  /// Returns the options of the variant, without what the name is: "+grid=8+regions=2".
  std::string options() const;
};

/// The most wafers of one artifact: systems are sold in clusters of up to 192.
constexpr int64_t mostWafers = 192;

/// Parses a variant of the target: a wafer's name or file, then `+grid=N`, `+regions=N`, `+prefill=N` and `+wafers=N`.
llvm::Expected<Mesh> meshOf(llvm::StringRef variant);

} // namespace intarsia::wafer

#endif
