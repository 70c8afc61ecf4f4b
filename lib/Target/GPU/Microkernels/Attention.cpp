//===- Attention.cpp - Attention over keys and values that are whole tensors -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "AttentionTile.h"
#include "MatrixTile.h"
#if defined(__NVPTX__)
#include "WarpgroupTile.h"
#endif

namespace {

/// A tensor [batch, tokens, heads, features], or a mask [batch, heads, queries, keys], by its strides in elements.
struct Strided {
  Global data;
  int64_t kind, outerStride, middleStride, innerStride, lastStride;

  int64_t offsetOf(int64_t outer, int64_t middle, int64_t inner) const {
    return outer * outerStride + middle * middleStride + inner * innerStride;
  }
  int64_t bytes() const {
    return kind == ElementKind::F32 || kind == ElementKind::I32 ? 4 : kind == ElementKind::I1 ? 1 : 2;
  }
  /// True if every row begins at a multiple of 16 bytes, and its elements are neighbours.
  bool hasAlignedRows() const {
    uint64_t bits = uint64_t(data) | uint64_t(outerStride | middleStride | innerStride) * bytes();
    return bits % 16 == 0 && lastStride == 1;
  }
};

/// The rows of a head, from one of its tokens on.
struct HeadRows {
  const Strided &tensor;
  int64_t outer, firstToken, tokens, head, features;

  bool has(int64_t row) const { return firstToken + row < tokens; }
  bool isStored(int64_t kind) const {
    return kind == tensor.kind && tensor.hasAlignedRows() && features % chunkElements == 0;
  }
  Global at(int64_t row, int64_t first) const {
    return tensor.data + (tensor.offsetOf(outer, firstToken + row, head) + first) * tensor.bytes();
  }
  /// Loads the elements [first, first + 8) of a row.
  void load(float (&x)[chunkElements], int64_t row, int64_t first) const {
    if (tensor.hasAlignedRows()) {
      loadChunk(x, at(row, 0), first, features, tensor.kind, true);
      return;
    }
    int64_t begin = tensor.offsetOf(outer, firstToken + row, head);
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = first + i < features ? loadFloat(tensor.data, begin + (first + i) * tensor.lastStride, tensor.kind) : 0;
  }
};

/// A call of nn.attention.
struct Attention {
  Strided queries, keys, values, mask;
  bool hasMask, isCausal;
  Global result;
  int64_t resultKind, queryCount, keyCount, heads, keyHeads, keyFeatures, valueFeatures;
  float scale;
};

/// What a product of a query and a key counts, in a tile whose first query is given.
struct Score {
  const Attention &call;
  int64_t batch, head, firstQuery;

  bool isProduct() const { return !call.hasMask; }
  float operator()(float product, int64_t row, int64_t key) const {
    if (!call.hasMask)
      return product;
    int64_t at = call.mask.offsetOf(batch, head, firstQuery + row) + key * call.mask.lastStride;
    if (call.mask.kind == ElementKind::I1)
      return loadAs<uint8_t>(call.mask.data, at) ? product : lowest;
    return fma(loadFloat(call.mask.data, at, call.mask.kind), log2e, product);
  }
};

/// Computes the block's tile: `tileRows` queries of a head. Keys that are after a query by more than
/// `keyCount - queryCount` are hidden if the call is causal.
template <typename Shape, typename Sums>
void computeTile(const Attention &call, const Shape &shape, int64_t tileRows, Sums &sums) {
  int64_t tiles = ceilDivide(call.queryCount, tileRows), number = blockIndex();
  // The last queries see most keys: they come first.
  int64_t firstQuery = (tiles - 1 - number % tiles) * tileRows, head = number / tiles % call.heads;
  int64_t batch = number / tiles / call.heads, keyHead = head / (call.heads / call.keyHeads);
  float scale = call.scale * log2e;
  begin(shape, scale, HeadRows{call.queries, batch, firstQuery, call.queryCount, head, call.keyFeatures}, sums);
  int64_t ahead = call.keyCount - call.queryCount;
#pragma unroll
  for (int i = 0; i < rowsOfThread(shape); ++i) {
    int64_t index = firstQuery + rowOfThread(shape, i);
    sums.begin[i] = 0;
    sums.end[i] = index >= call.queryCount ? 0
                  : call.isCausal          ? smaller(call.keyCount, index + ahead + 1)
                                           : call.keyCount;
  }
  int64_t lastQuery = smaller(firstQuery + tileRows, call.queryCount) - 1;
  int64_t endKey = call.isCausal ? smaller(call.keyCount, lastQuery + ahead + 1) : call.keyCount;
  Score score{call, batch, head, firstQuery};
  addKeys(shape, 0, endKey, scale, sums, HeadRows{call.keys, batch, 0, call.keyCount, keyHead, call.keyFeatures},
          HeadRows{call.values, batch, 0, call.keyCount, keyHead, call.valueFeatures}, score);
  storeSums(
      shape, scale, score, sums, [](int64_t) { return lowest; },
      [&]<int count>(int64_t row, int64_t feature, const float (&x)[count]) {
        int64_t index = (batch * call.queryCount + firstQuery + row) * call.heads + head;
        if (firstQuery + row < call.queryCount)
          storeRun(call.result, index * call.valueFeatures + feature, call.resultKind, x, call.valueFeatures - feature,
                   call.valueFeatures % count == 0);
      });
}

} // namespace

/// Arguments of the microkernels of nn.attention, in their order.
#define ITX_ATTENTION_ARGUMENTS                                                                                        \
  Global query, int64_t queryKind, int64_t queryStride0, int64_t queryStride1, int64_t queryStride2,                   \
      int64_t queryStride3, Global key, int64_t keyKind, int64_t keyStride0, int64_t keyStride1, int64_t keyStride2,   \
      int64_t keyStride3, Global value, int64_t valueKind, int64_t valueStride0, int64_t valueStride1,                 \
      int64_t valueStride2, int64_t valueStride3, int64_t hasMask, Global mask, int64_t maskKind, int64_t maskStride0, \
      int64_t maskStride1, int64_t maskStride2, int64_t maskStride3, Global result, int64_t resultKind,                \
      int64_t queryCount, int64_t keyCount, int64_t heads, int64_t keyHeads, int64_t keyFeatures,                      \
      int64_t valueFeatures, int64_t causal, float scale

#define ITX_ATTENTION                                                                                                  \
  Attention {                                                                                                          \
    {query, queryKind, queryStride0, queryStride1, queryStride2, queryStride3},                                        \
        {key, keyKind, keyStride0, keyStride1, keyStride2, keyStride3},                                                \
        {value, valueKind, valueStride0, valueStride1, valueStride2, valueStride3},                                    \
        {mask, maskKind, maskStride0, maskStride1, maskStride2, maskStride3}, hasMask != 0, causal != 0, result,       \
        resultKind, queryCount, keyCount, heads, keyHeads, keyFeatures, valueFeatures, scale                           \
  }

/// Computes a tile of `tileRows` queries in f32.
ITX_MICROKERNEL void itx_attention(ITX_ATTENTION_ARGUMENTS, int64_t tileRows, int64_t tileKeys, Shared shared) {
  Attention call = ITX_ATTENTION;
  TileShape shape{tileRows, tileKeys, keyFeatures, valueFeatures, shared};
  TileSums sums;
  computeTile(call, shape, tileRows, sums);
}

/// Computes a tile of 64 queries, times `rowBlocks`, by matrix instructions on elements of `kind`.
ITX_MICROKERNEL void itx_attention_matrix(ITX_ATTENTION_ARGUMENTS, int64_t rowBlocks, int64_t tileKeys, int64_t kind,
                                          int64_t parts, int64_t keepsQueries, Shared shared) {
  Attention call = ITX_ATTENTION;
  MatrixShape shape{
      rowBlocks,       tileKeys, keyFeatures, valueFeatures, kind, parts, keepsQueries != 0, /*scalesQueries=*/false,
      (Shared16)shared};
  MatrixSums sums;
  computeTile(call, shape, shape.rows(), sums);
}

#if defined(__NVPTX__)
/// Computes a tile of 16 queries times `warps` by matrix instructions of four warps, which only Hopper has.
ITX_MICROKERNEL void itx_attention_warpgroups(ITX_ATTENTION_ARGUMENTS, int64_t warps, int64_t tileKeys, int64_t kind,
                                              int64_t parts, Shared shared) {
  Attention call = ITX_ATTENTION;
  WarpgroupShape shape{{1, tileKeys, keyFeatures, valueFeatures, kind, parts, /*keepsQueries=*/false,
                        /*scalesQueries=*/false, (Shared16)shared, warps}};
  MatrixSums sums;
  computeTile(call, shape, shape.rows(), sums);
}
#endif
