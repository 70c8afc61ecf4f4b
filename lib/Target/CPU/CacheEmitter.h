//===- CacheEmitter.h - Paged caches: pages, tokens, quantized values -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_CACHEEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_CACHEEMITTER_H

#include "intarsia/module_abi.h"
#include "lib/Target/CPU/FunctionEmitter.h"

namespace intarsia::cpu {

/// The slots of the tokens of a call.
struct TokenIndices {
  mlir::Value positions, sequences; ///< tensors [tokens]
  mlir::Value tokens;               ///< how many, i64
};

/// The slot of one token.
struct TokenIndex {
  mlir::Value position, sequence; ///< i64
};

/// How keys of a page are turned with their positions: cosines and sines [pairs, page] of f32 for slots, [pairs] for
/// the first position of a page. No `cosines`: not at all.
struct PageTurn {
  mlir::Value cosines, sines, firstCosines, firstSines, frequencies;
  int64_t pairs = 0;
  bool interleaved = false;
};

/// What kernels around a cache share. Quantized values are laid out as #nn.cache_format says.
class CacheEmitter : public LoopEmitter {
public:
  CacheEmitter(FunctionEmitter &function, TensorEmitter &tensors)
      : LoopEmitter(function), config(function.config), function(function), memory(function), tensors(tensors) {}

  /// Slot of all launches: how many tokens a tile handles.
  enum { kTokensPerTile = ITX_PLAN_PRIVATE };
  /// Tiles per thread, so that a thread that is held up does not hold up the others.
  static constexpr int64_t kTilesPerThread = 4;

  mlir::FailureOr<TokenIndex> indexOfToken(mlir::Value positions, mlir::Value sequences, mlir::Value token);

  /// Cuts the tokens of an append, the first dimension of `rows`, into tiles.
  void cutTokens(mlir::Value rows);
  /// Emits `body` for each token of the tiles of an append.
  mlir::LogicalResult forTokens(mlir::Value rows, llvm::function_ref<mlir::LogicalResult(mlir::Value token)> body);
  /// Returns where the rows of one head of a page begin; `pageIndex` is the index of the page in its sequence.
  Element pageOf(const Storage &cache, mlir::Value pageTable, mlir::Value sequence, mlir::Value pageIndex,
                 mlir::Value head);
  /// True if `row` is a row of this call that holds the token at `position` of `sequence`.
  Element isTokenAt(const TokenIndices &indices, mlir::Value row, mlir::Value sequence, mlir::Value position);
  /// Writes rows[row, head, :], rounded to a type, to a slot of a panel [features, page].
  mlir::LogicalResult storeColumn(mlir::Value rows, mlir::Value row, mlir::Value head, mlir::Value panel, int64_t page,
                                  mlir::Value slot, mlir::Type rounded, mlir::Type stored);
  /// Gathers the keys of the first `slots` tokens of a page as an f32 panel [features, page]: rows of this call where
  /// it has them, the tail's otherwise. `base` is the position of slot 0, `firstRow` the index that its row has or
  /// would have.
  mlir::LogicalResult gatherPage(mlir::Value panel, const Storage &tail, mlir::Value rows, const TokenIndices &indices,
                                 mlir::Value sequence, mlir::Value head, mlir::Value base, mlir::Value firstRow,
                                 mlir::Value slots);
  /// Computes what keys are turned by, once for all tiles. `frequencies` may be null: keys are not turned.
  mlir::FailureOr<PageTurn> makeTurn(mlir::Value frequencies, bool interleaved);
  /// Turns the keys of a panel [features, page] of f32, the first of which has the position `base`, or turns them
  /// `back`.
  mlir::LogicalResult turnPage(mlir::Value panel, const PageTurn &turn, mlir::Value base, bool back);
  /// Returns bytes of scales as f32.
  mlir::Value scaleOf(mlir::Value bytes, int64_t width);
  /// Loads scale and zero of `count` groups as f32; those from `known` on have a scale of zero.
  void loadParameters(mlir::Value pointer, int64_t count, int64_t bits, mlir::Value known, mlir::Value scales,
                      mlir::Value zeros);
  /// Quantizes `count` f32 at `source` to `target`, and stores their scale and zero at the two offsets from
  /// `parameters`.
  void quantizeGroup(mlir::Value source, int64_t count, int64_t bits, mlir::Value target, mlir::Value parameters,
                     mlir::Value scaleOffset, mlir::Value zeroOffset);

private:
  struct GroupScale {
    mlir::Value scale, zero;
  };
  GroupScale scaleOfGroup(mlir::Value source, int64_t count, int64_t bits, mlir::Value parameters,
                          mlir::Value scaleOffset, mlir::Value zeroOffset);
  mlir::Value quantizedAt(mlir::Value source, mlir::Value i, int64_t width, int64_t bits, const GroupScale &scale);
  mlir::Value larger(mlir::Value x, mlir::Value y);
  mlir::Value smaller(mlir::Value x, mlir::Value y);
  mlir::Value roundToEven(mlir::Value x, int64_t width);

  const TileConfig &config;
  FunctionEmitter &function;
  MemoryEmitter memory;
  TensorEmitter &tensors;
};

} // namespace intarsia::cpu

#endif
