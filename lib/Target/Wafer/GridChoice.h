//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Which grids of a wafer a set of kernels is on: those of the fastest programs that fit with all weights and caches,
// for one row and for many.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_GRIDCHOICE_H
#define INTARSIA_LIB_TARGET_WAFER_GRIDCHOICE_H

#include "lib/Target/Wafer/GridSearch.h"
#include "lib/Target/Wafer/KernelPrograms.h"
#include "lib/Target/Wafer/Mesh.h"
#include "lib/Target/Wafer/Regions.h"

#include <functional>
#include <map>

namespace intarsia::wafer {

/// The programs of all kernels.
struct GridPlan {
  int64_t grid = 0;                 ///< of programs for one row, of caches, and of weights while they stay
  int64_t rowsGrid = 0;             ///< of products for several rows, to which each launch moves its weights
  int64_t regions = 1;              ///< of so many cores; each has some launches of a call, one after another
  int64_t resident = 0, bytes = 0;  ///< bytes of a core: of all weights, and of everything
  double cycles = 0;                ///< of all launches, for one row each
  double handOverCycles = 0;        ///< of these: from one region to the next
  int64_t rows = 1;                 ///< of a prompt that `rowsCycles` are for; 1 if no program has several rows
  double rowsCycles = 0;            ///< of all launches, for these rows
  double relayoutCycles = 0;        ///< of these: weights move from one grid to the other
  int64_t relayoutBytes = 0;        ///< of a core: of the weights that move
  std::vector<WaferKernel> kernels; ///< without what only the artifact has: numbers, and counts of operands
  std::vector<int64_t> launches;    ///< of each kernel in a call
  RegionSplit split;
  std::vector<double> rowBytes; ///< by kernel: what it leaves for a row
};

/// Kernels that share wafers.
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
  /// Returns programs of the kernels for one row; null after an error, which was emitted.
  mlir::OwningOpRef<mlir::ModuleOp> lower(const GridPlan &plan);

  /// Returns the tokens of the prompt for which the grid of programs for several rows is chosen: half of the context,
  /// as a sequence has a prompt and what follows it.
  int64_t promptRows() const { return context > 1 ? context / 2 : 512; }

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
    std::vector<double> rowBytes;   ///< by kernel: what it leaves for a row
    int64_t bytes = 0;              ///< with what the runtime reserves
  };
  /// Programs for several rows, those with the most first, and the ways of their weights, all by kernel.
  struct RowsPrograms {
    int64_t grid = 0;
    int64_t bytes = 0;
    std::vector<std::vector<RowsProgram>> programs;
    std::vector<std::vector<Relayout>> relayouts;
    std::vector<int64_t> movedBytes;
  };
  /// A weight of a kernel, as the program for one row has it.
  struct Weight {
    size_t kernel = 0;
    int64_t argument = 0, height = 0, width = 0;
    MeshAxis along = MeshAxis::Y;
    CoreBuffer tile;
  };
  std::map<std::string, Relayout> knownRelayouts; ///< by matrix and grids

  int64_t memory() const { return mesh.figure("sram_bytes"); }
  llvm::Expected<Functions> functionsOn(const FunctionSizes &sizes);
  llvm::Expected<std::vector<GridCandidate>> candidates(int64_t side);
  int64_t longestContext(int64_t grid);
  std::string refusal(int64_t grid, int64_t needed);
  int64_t wafersThatHold(int64_t largest);
  llvm::Expected<GridPlan> planOn(const FunctionSizes &sizes, bool verifies = false,
                                  std::optional<int64_t> regions = std::nullopt);

  // RowsPrograms.cpp
  llvm::Expected<GridPlan> withRows(GridPlan plan, int64_t side);
  void addRows(GridPlan &plan, RowsPrograms rows) const;
  std::vector<Weight> weightsOf(const GridPlan &plan) const;
  std::vector<int64_t> promisingGrids(const GridPlan &plan, int64_t side) const;
  double estimate(const GridPlan &plan, llvm::ArrayRef<Weight> weights, int64_t grid) const;
  llvm::Expected<RowsPrograms> rowsOn(const GridPlan &plan, int64_t grid, llvm::ArrayRef<int64_t> tiles);
  std::optional<Program> lowerAlone(mlir::func::FuncOp function);
  llvm::Expected<Relayout> relayoutOf(const GridPlan &plan, const Weight &weight, int64_t grid);
  bool isWhole(const GridPlan &plan, const RowsPrograms &rows) const;
  double promptCycles(const GridPlan &plan, const RowsPrograms &rows) const;
};

/// Returns a program with its predicted cycles; takes the views of the function.
RowsProgram timedProgram(KernelFunction &function, Program program);

} // namespace intarsia::wafer

#endif
