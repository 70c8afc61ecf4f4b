//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Which grid of a wafer a set of kernels is on: that of the fastest programs that fit with all weights and caches.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_GRIDCHOICE_H
#define INTARSIA_LIB_TARGET_WAFER_GRIDCHOICE_H

#include "dialects/Wafer/WorkingGrid.h"
#include "intarsia/Cost/WaferCatalogue.h"
#include "lib/Target/Wafer/GridSearch.h"
#include "lib/Target/Wafer/KernelPrograms.h"

#include <functional>

namespace intarsia::wafer {

/// A wafer, and the side of the square grid that is asked for; none if the compiler chooses it.
struct Mesh {
  CatalogueWafer wafer;
  std::string source; ///< its name in the catalogue, or the user's file
  std::optional<int64_t> grid;
  std::optional<int64_t> regions; ///< with a grid: how many of it share the layers, one if it is not said

  int64_t figure(const char *name) const { return int64_t(wafer.figures.at(name).value); }
  int64_t largestGrid() const { return largestWorkingGrid({figure("columns"), figure("rows"), wafer.defects}); }
  /// Returns how many grids lie side by side on the wafer; one beside cores that do not work.
  int64_t mostRegions(int64_t side) const {
    return wafer.defects.empty() ? figure("columns") / side * (figure("rows") / side) : 1;
  }
};

/// Parses a variant of the target: a wafer's name or file, `+grid=N` and `+regions=N`.
llvm::Expected<Mesh> meshOf(llvm::StringRef variant);

/// The programs of all kernels on one grid.
struct GridPlan {
  int64_t grid = 0;
  int64_t regions = 1;             ///< of so many cores; each has some launches of a call, one after another
  int64_t resident = 0, bytes = 0; ///< bytes of a core: of all weights, and of everything
  double cycles = 0;               ///< of all launches, for one row each
  int64_t rows = 1;                ///< of the programs for several rows
  double rowsCycles = 0;           ///< of all launches, for these rows
  /// Programs for several rows have weights on other cores than programs for one row. Moving them takes so many cycles
  /// of `rowsCycles`, and so many bytes of a core are moved.
  double relayoutCycles = 0;
  int64_t relayoutBytes = 0;
  std::vector<WaferKernel> kernels; ///< without what only the artifact has: numbers, and counts of operands
  std::vector<int64_t> launches;    ///< of each kernel in a call
};

/// Kernels that share a wafer.
class GridChooser {
public:
  /// Appends the functions of the kernels to a module; returns false after an error, which was emitted.
  using BuildFunctions = std::function<bool(const FunctionSizes &, mlir::ModuleOp, std::vector<KernelFunction> &)>;

  /// `variant` is for messages. Caches have memory for `context` tokens; `calls` are the launches of a call in their
  /// order, by the numbers of `kernels` kernels.
  GridChooser(mlir::Location location, const Mesh &mesh, std::string variant, int64_t context, size_t kernels,
              std::vector<int> calls, BuildFunctions build);

  /// False if only times are wanted: programs are not verified, and messages advise no flags of intarsia-compile.
  bool isCompiled = true;

  /// Returns the fastest programs for one row that fit on the cores with all weights and caches, and those for many.
  llvm::Expected<GridPlan> choose();
  /// Returns programs of the kernels; null after an error, which was emitted.
  mlir::OwningOpRef<mlir::ModuleOp> lower(const FunctionSizes &sizes, std::vector<KernelFunction> &functions);

private:
  mlir::Location location;
  const Mesh &mesh;
  std::string variant;
  int64_t context;
  std::vector<int> calls;
  std::vector<int64_t> launches; ///< by kernel
  BuildFunctions build;

  /// Functions of all kernels on a grid, and the bytes of a core that their weights and caches need.
  struct Functions {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::vector<KernelFunction> functions;
    std::vector<int64_t> residents; ///< by kernel
    int64_t bytes = 0;              ///< with what the runtime reserves
  };

  llvm::Expected<Functions> functionsOn(const FunctionSizes &sizes);
  llvm::Expected<std::vector<GridCandidate>> candidates(int64_t side);
  int64_t longestContext(int64_t grid);
  int64_t fullestRegion(const std::vector<KernelFunction> &functions, const std::vector<int64_t> &residents,
                        int64_t regions) const;
  llvm::Expected<GridPlan> planOn(const FunctionSizes &sizes, bool verifies = false);
  void addPrograms(GridPlan &plan);
};

} // namespace intarsia::wafer

#endif
