//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The sorting algorithm of nn.sort and nn.top_k. The key of an element is an integer with the same order as the
// elements. A place is an integer of 64 bits for an element: its low half is the index along the axis, and its high
// half the key, if that has at most 32 bits, so that places are compared as integers. Wider keys are read from a table.
//
// First, blocks are sorted by rank: the number of places in the block that come before each one. Then each step merges
// pairs of sorted runs. Each position of a merged run finds by binary search how many of the places before it come from
// the first run ("Merge path", arXiv 1406.2628), so that all positions of a step are computed independently.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_OPS_SORT_SORTLOOPS_H
#define INTARSIA_DIALECTS_NN_OPS_SORT_SORTLOOPS_H

#include "dialects/Nn/Ops/References.h"

namespace intarsia::reference {

class SortLoops {
public:
  SortLoops(ReferenceBuilder &builder, mlir::Value input, int64_t axis, bool isDescending);

  /// Returns the indices of the first `count` elements in sorted order: [sizes, but `count` along the axis], i64. If
  /// the size of the axis is dynamic, each element is compared with each other.
  mlir::Value order(mlir::OpFoldResult count);
  /// Returns the same by merging, where the size of the axis is dynamic: the host runs the steps as a loop. The size
  /// must be below 2^31.
  mlir::Value orderInSteps(mlir::OpFoldResult count);
  /// Returns the elements at the indices that order() has returned.
  mlir::Value take(mlir::Value order);

private:
  /// A place, and its key if that is in the table.
  struct Entry {
    mlir::Value place, key;
  };
  /// Two sorted runs beside each other, and how long they and their merged run are, as index values.
  struct Runs {
    Integer first, left, right;
  };

  mlir::Value keyOf(ScalarBuilder &b, mlir::Value element);
  mlir::Value keyNumber(ScalarBuilder &b, const llvm::APInt &value);
  mlir::Value lessThan(ScalarBuilder &b, Entry x, Entry y);
  mlir::Value places(mlir::OpFoldResult padded);
  mlir::Value keysOf(mlir::OpFoldResult padded);
  mlir::Value sortBlocks(mlir::Value places, int64_t blocks, int64_t block);
  /// The entry at `position` of merged runs: searched in `steps` halvings, `last` is the last position that there is.
  mlir::Value merged(ScalarBuilder &b, mlir::Value places, Integer place, Runs runs, Integer last, unsigned steps);
  mlir::Value merge(mlir::Value places, int64_t run, int64_t longest, int64_t runs);
  mlir::Value orderByMerging(int64_t size, int64_t count);
  mlir::Value orderByRanks(mlir::OpFoldResult count);
  /// Where the elements of the first `count` places are.
  mlir::Value indicesOf(mlir::Value places, mlir::OpFoldResult count);
  mlir::Value firstOf(mlir::Value tensor, mlir::OpFoldResult count);
  llvm::SmallVector<mlir::Value> here(ScalarBuilder &b, mlir::Value position);
  MixedSizes with(mlir::OpFoldResult size);
  bool isWide() const { return key.getWidth() == 64; }

  ReferenceBuilder &builder;
  mlir::Value input;
  unsigned axis, rank;
  bool isDescending;
  MixedSizes sizes;
  mlir::IntegerType key; ///< integers that have the order of the elements
  mlir::Value keys;      ///< the table of keys, by index along the axis; null if places hold them
};

} // namespace intarsia::reference

#endif
