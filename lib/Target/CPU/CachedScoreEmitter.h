//===- CachedScoreEmitter.h - Scores of queries over paged caches -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_CACHEDSCOREEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_CACHEDSCOREEMITTER_H

#include "lib/Target/CPU/CacheEmitter.h"
#include "lib/Target/CPU/KernelEmitter.h"
#include "lib/Target/CPU/TileEmitter.h"

namespace intarsia::cpu {

/// The base of the kernel around nn.cached_attention: its operands, and how the rows of a run are multiplied by pages
/// of keys.
class CachedScoreEmitter : public KernelEmitter {
public:
  CachedScoreEmitter(rt::KernelOp kernel, nn::CachedAttentionOp root, const TileConfig &config);

protected:
  void chooseShape(KernelShape &shape) override;
  mlir::LogicalResult findOperands();
  /// Returns an error if the pages of the caches are not laid out as the kernel reads them.
  mlir::LogicalResult checkLayout();
  void makeRoomForScores();
  mlir::LogicalResult makeRoomForQuantizedKeys();
  /// Returns where a page of the run lies in a cache.
  Element pageAt(const Storage &cache, mlir::Value pageIndex) {
    return caches.pageOf(cache, root.getPageTable(), sequence, pageIndex, head);
  }
  /// Multiplies the queries by page `p` of a block, which the sequence counts as `pageIndex`; keys of the run end at
  /// `endKey`.
  mlir::LogicalResult scorePage(mlir::Value p, mlir::Value pageIndex, mlir::Value endKey);

  CacheEmitter caches{function, tensors};
  TileEmitter registerTiles{function};
  nn::CachedAttentionOp root;
  nn::CacheFormatAttr keyFormat, valueFormat;
  bool quantizedKeys, quantizedValues;
  int64_t keyHeads, group, headDim, valueDim, page;
  int64_t maximalTokens, maximalRows, blockKeys, lanes, paddedDim;
  /// A page of values is read where it lies if its rows are whole vectors, else from a padded copy.
  bool copyValues;
  std::optional<Storage> keys, values, keyParameters, valueParameters, tail;
  TokenIndices indices;
  mlir::Value queries, scores;
  // The run that is being emitted.
  mlir::Value head, first, count, sequence, rows, firstPosition;

private:
  /// Elements of a page of keys, or quantized values of `bits` each.
  struct PageOfKeys {
    mlir::Value pointer;
    mlir::Type type;
    int64_t bits;
  };
  mlir::LogicalResult prefetchPage(const Storage &cache, mlir::Value pageIndex);
  mlir::LogicalResult prefetchPages(mlir::Value pageIndex, mlir::Value endKey);
  mlir::LogicalResult scoreQuantizedPage(mlir::Value p, mlir::Value pageIndex);
  mlir::LogicalResult scoreOwnPage(mlir::Value p, mlir::Value base, mlir::Value own, mlir::Value later);
  mlir::LogicalResult scoreLaterPage(mlir::Value p, mlir::Value pageIndex, mlir::Value later);
  void scaleQueries(mlir::Value row, mlir::Value p);
  void dequantizePage(mlir::Value quantized);
  void score(mlir::Value begin, mlir::Value end, mlir::Value from, const PageOfKeys &pageOfKeys, mlir::Value p);

  /// Scratch for quantized keys: a page of keys that are not quantized yet, or of dequantized ones, queries times the
  /// scales of a page, and scales and zero points of the keys.
  mlir::Value panel, scaledQueries, keyScales, keyZeros;
  PageTurn turn;
};

} // namespace intarsia::cpu

#endif
