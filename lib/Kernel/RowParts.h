//===- RowParts.h - How the elements of a kernel's results are walked over --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_ROWPARTS_H
#define INTARSIA_LIB_KERNEL_ROWPARTS_H

#include "lib/Kernel/KernelBody.h"
#include "lib/Kernel/Reads.h"

namespace intarsia::kernel {

/// How the elements of results are walked over.
enum class Walk {
  Rows,     ///< rows one by one, with what their elements share
  Columns,  ///< rows in pieces of neighbouring elements, which share nothing
  Elements, ///< one by one: the lanes run along what is reduced
  Blocks,   ///< squares of elements, whose inputs lie in columns
  Tiles,    ///< pieces of several rows at a time, which share inputs that are reduced
};

/// What a device walks over well.
struct WalkLimits {
  int64_t lanes;               ///< of a row: vectors on CPUs, warps on GPUs
  int64_t fewRows;             ///< fewer are cut into columns
  int64_t columns;             ///< of a piece
  int64_t reducedColumns;      ///< of a piece where outer dimensions are reduced, of any number of rows; 0: none
  int64_t tileRows = 0;        ///< of a tile; 0: none
  int64_t tileColumns = 0;     ///< f32 elements of a row of a tile
  bool hasBlocks = false;      ///< swaps rows and columns
  bool findsPositions = false; ///< by lanes
  bool hasHalves = false;      ///< has vectors of fewer lanes for what is left of rows
};

/// Outputs whose rows are the same rows.
struct RowPart {
  Sizes leading;
  llvm::SmallVector<unsigned> outputs;
  Walk walk = Walk::Rows;
  Sizes merged;             ///< dimensions at the end that are walked as one; none if the output is a scalar
  int64_t columns = 0;      ///< of a piece; 0 if it is a whole row
  mlir::AffineExpr reduced; ///< elements that an element is computed from
  unsigned across = 0;      ///< dimension: along which inputs of blocks are neighbours, which rows of a tile are of
  int64_t rows = 1;         ///< of a tile
  Reads reads;              ///< of blocks
};

/// Returns the outputs of a kernel by their rows, each scalar by itself, and how their elements are walked over.
std::vector<RowPart> findRowParts(KernelBody &body, const WalkLimits &limits);

/// Returns what the shape of a kernel says of a part.
mlir::Attribute describe(const RowPart &part, mlir::MLIRContext *context);
template <typename Parts> mlir::Attribute describe(const Parts &parts, mlir::MLIRContext *context) {
  llvm::SmallVector<mlir::Attribute> all;
  for (const RowPart &part : parts)
    all.push_back(describe(part, context));
  return mlir::ArrayAttr::get(context, all);
}

} // namespace intarsia::kernel

#endif
