//===- LinearEmitter.h - How the columns of a linear's result are stored ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_LINEAREMITTER_H
#define INTARSIA_LIB_TARGET_CPU_LINEAREMITTER_H

#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

/// Columns of a linear's result that are stored alike: all of them; one of the slices that they are read as; or,
/// where ops read several slices together, the same columns of each.
struct LinearSection {
  int64_t begin, columns;                ///< columns of the first slice
  llvm::SmallVector<mlir::Value> slices; ///< the result itself, or slices, each `columns` behind the one before
  llvm::SmallVector<unsigned> outputs;
};

/// The order of the panels of a linear's weight that a tile of sections multiplies: that of a slice is `ofSlice`
/// behind that of the slice before, the next of the same slice `next` behind.
struct PanelOrder {
  int64_t ofSlice, next;
};

/// The results of a kernel around an nn.linear: which columns are stored where.
class LinearEmitter : public LoopEmitter {
public:
  LinearEmitter(FunctionEmitter &function, TensorEmitter &tensors, ContractionOpInterface root)
      : LoopEmitter(function), config(function.config), function(function), tensors(tensors), root(root) {}

  using SectionFn = llvm::function_ref<mlir::LogicalResult(const LinearSection &section, mlir::Value column)>;

  /// Fills `sections` and `panelOrder`. Fails with a message if results of the kernel are no elementwise functions of
  /// sections, or the weight is stored in other slices; with `quantizesResult` some may be quantized values and scales
  /// of such a function, which sections do not list.
  mlir::LogicalResult findSections(bool quantizesResult = false);
  /// Returns how many panels a panel of a tile is: one of each slice.
  int64_t together() const { return sections.front().slices.size(); }
  /// Sizes of the rows of the result.
  llvm::ArrayRef<mlir::AffineExpr> leading() { return function.sizes.of(root->getResult(0)).drop_back(); }
  /// Emits `body` for the section that a panel of a tile belongs to, with the panel's first column in its outputs.
  mlir::LogicalResult inSectionOf(mlir::Value panel, SectionFn body);
  /// Stores the columns of a panel of a linear's row: outputs of a section, whose ops read the sums through
  /// sum(slice, c, width), c counted from the panel's `column`. `also` stores more.
  mlir::LogicalResult
  storeLinearRow(const LinearSection &section, const RowScope &row, mlir::Value column,
                 llvm::function_ref<mlir::Value(int64_t slice, mlir::Value c, int64_t width)> sum,
                 llvm::function_ref<mlir::LogicalResult(llvm::ArrayRef<Index> at, int64_t width)> also = nullptr);

  /// Returns true if what follows the root is a few additions, products and bounds, which are emitted again for each
  /// vector of a register tile.
  bool storesFromRegisters();
  /// Stores a vector of sums of a linear's row, from `column` of the result on, of which `columns` are inside.
  mlir::LogicalResult storeSums(const LinearSection &section, const RowScope &row, mlir::Value column, mlir::Value sums,
                                int64_t columns);
  /// Emits `body` for the number of columns that a panel has inside of the only section.
  mlir::LogicalResult withColumnsOf(mlir::Value panel, llvm::function_ref<mlir::LogicalResult(int64_t)> body);

  llvm::SmallVector<LinearSection> sections; ///< in the order of columns; one that has several slices is the only one
  PanelOrder panelOrder{0, 0};

private:
  bool isQuantized(unsigned output) { return bool(function.yielded(output).getDefiningOp<nn::QuantizeOp>()); }
  llvm::SmallVector<LinearSection> sectionsOfResult();
  mlir::LogicalResult findPanelOrder();
  /// Emits `body` for one of the last sections, from index `first` on.
  mlir::LogicalResult inSectionFrom(unsigned first, mlir::Value panel, SectionFn body);

  const TileConfig &config;
  FunctionEmitter &function;
  TensorEmitter &tensors;
  ContractionOpInterface root;
};

} // namespace intarsia::cpu

#endif
