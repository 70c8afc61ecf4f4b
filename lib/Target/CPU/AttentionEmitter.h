//===- AttentionEmitter.h - What kernels of attention share --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_ATTENTIONEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_ATTENTIONEMITTER_H

#include "lib/Target/CPU/KernelEmitter.h"

namespace intarsia::cpu {

/// Chooses the block of keys of attention.
void chooseKeys(KernelShape &shape, TileConfig &config);

/// A tile is 32 queries of one head. Scores are kept transposed, keys by queries: softmax runs along keys with a query
/// in each lane, without horizontal reductions. Keys come in blocks, with the running maximum and sum of arXiv
/// 2205.14135, algorithm 1, so that the workspace of a thread does not depend on the sequence.
class AttentionEmitter : public KernelEmitter {
public:
  AttentionEmitter(rt::KernelOp kernel, nn::AttentionOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root),
        headDim(llvm::cast<mlir::RankedTensorType>(root.getQuery().getType()).getDimSize(3)),
        valueDim(llvm::cast<mlir::RankedTensorType>(root.getValue().getType()).getDimSize(3)),
        paddedDim(llvm::divideCeil(valueDim, config.lanes) * config.lanes), vectors(kPanelWidth / config.lanes) {}

protected:
  void launch() override;
  /// Finds the operands in memory, and makes room for scores and sums.
  mlir::LogicalResult prepare();
  mlir::LogicalResult attendTile(mlir::Value tile);

  /// Makes the tile's queries ready to be multiplied.
  virtual void startTile() = 0;
  /// Multiplies a block of keys by the tile's queries.
  virtual void scoreKeys(mlir::Value firstKey, mlir::Value keyCount) = 0;
  /// Makes exponentials of a block's scores, less the largest of each query, and adds them to the totals.
  virtual void exponentiate(llvm::ArrayRef<mlir::Value> largest, mlir::Value keyCount) = 0;
  /// Adds the values of a block of keys, times their exponentials, to the sums, and the earlier ones to these times the
  /// block's factors.
  virtual void addValues(mlir::Value firstKey, mlir::Value keyCount) = 0;
  /// Divides the sums by the totals and stores them.
  virtual void storeRows() = 0;

  void countQueries();
  mlir::Value tileCount();
  mlir::Value base(const Storage &operand, mlir::Value row, mlir::Value headIndex);
  mlir::Value ofVector(int64_t v) { return constant(v * config.lanes); }
  /// Sets sums, totals and the largest scores to those of no key.
  void startSums();
  /// Returns what is subtracted from scores; `largest` become the largest so far, and earlier sums get a factor.
  llvm::SmallVector<mlir::Value> shiftsOf(llvm::ArrayRef<mlir::Value> largest);
  void addTotals(llvm::ArrayRef<mlir::Value> ofBlock);
  /// Returns 1 / total; 1 where no key is seen.
  mlir::Value inverseOfTotal(mlir::Value query, int64_t width);
  void storeRow(mlir::Value query, mlir::Value row, mlir::Value inverse);

  nn::AttentionOp root;
  int64_t headDim, valueDim, paddedDim, vectors;
  std::optional<Storage> query, key, value;
  mlir::Value queries, keys, queryBlocks, headsPerKey, width, lowest, zero;
  mlir::Value ahead; ///< how many keys the first query sees beyond itself, when causal
  mlir::Value scores, sums, maxima, totals, factors;
  bool scoresHaveMask = false; ///< scoreKeys() adds the mask
  // The tile that is being emitted.
  mlir::Value batch, head, keyHead, firstQuery, queryCount;

private:
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> maskScores(mlir::Value firstKey, mlir::Value keyCount);
  Element addMask(mlir::Value score, mlir::Value keyIndex, mlir::Value firstLane);
  mlir::Value hideLaterKeys(mlir::Value score, mlir::Value keyIndex, mlir::Value firstLane);
};

} // namespace intarsia::cpu

#endif
