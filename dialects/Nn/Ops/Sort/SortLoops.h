//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// How nn.sort and nn.top_k sort. Each element has a place: an integer that says where it was and, of elements of at
// most 32 bits, in its high half what it is, so that places are compared as integers. Wider elements are compared by
// tables. Blocks are sorted by ranks: how many places of the block come before each. Then in each step two sorted runs
// become one. A place of the new run finds by binary search how many of those before it come from the first of the two
// runs
// ("Merge path", arXiv 1406.2628), so that all places of a step are computed beside each other.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_OPS_SORT_SORTLOOPS_H
#define INTARSIA_DIALECTS_NN_OPS_SORT_SORTLOOPS_H

#include "dialects/Nn/Ops/References.h"

namespace intarsia::reference {

class SortLoops {
public:
  SortLoops(ReferenceBuilder &builder, mlir::Value input, int64_t axis, bool isDescending);

  /// Returns where the first `count` elements in order are: [sizes, but `count` along the axis], i64. Where the size is
  /// dynamic each element is compared with each other.
  mlir::Value order(mlir::OpFoldResult count);
  /// Returns the same by as many steps as a dynamic size needs: a loop that the host runs. The size must be below 2^31.
  mlir::Value orderInSteps(mlir::OpFoldResult count);
  /// Returns the elements that an order says.
  mlir::Value take(mlir::Value order);

private:
  /// A place, and the key of its element if places do not hold it.
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
  mlir::Value keys;      ///< of wide elements, those of all places before they were sorted
};

} // namespace intarsia::reference

#endif
