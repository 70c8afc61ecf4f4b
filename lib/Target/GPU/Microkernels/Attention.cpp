//===- Attention.cpp - Attention over keys and values that are whole tensors -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "AttentionTile.h"
#include "MatrixTile.h"

namespace {

/// A tensor [batch, tokens, heads, features], or a mask [batch, heads, queries, keys], by its strides in elements.
struct Strided {
  Global data;
  int64_t kind, outerStride, middleStride, innerStride, lastStride;

  int64_t at(int64_t outer, int64_t middle, int64_t inner) const {
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
  /// Loads elements [first, first + 8) of a row of `count`.
  void load(float (&x)[chunkElements], int64_t row, int64_t first, int64_t count, bool isAligned) const {
    if (isAligned) {
      loadChunk(x, data + row * bytes(), first, count, kind, true);
      return;
    }
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = first + i < count ? loadFloat(data, row + (first + i) * lastStride, kind) : 0;
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

/// Computes the block's tile: `tileRows` queries of a head. Keys that are after a query by more than
/// `keyCount - queryCount` are hidden if the call is causal.
template <typename Shape, typename Sums>
void computeTile(const Attention &call, const Shape &shape, int64_t tileRows, Sums &sums) {
  int64_t tiles = ceilDivide(call.queryCount, tileRows), number = blockIndex();
  // The last queries see most keys: they come first.
  int64_t firstQuery = (tiles - 1 - number % tiles) * tileRows, head = number / tiles % call.heads;
  int64_t batch = number / tiles / call.heads, keyHead = head / (call.heads / call.keyHeads);
  bool queriesAligned = call.queries.hasAlignedRows(), keysAligned = call.keys.hasAlignedRows(),
       valuesAligned = call.values.hasAlignedRows();
  copyQueries(shape, call.scale * log2e, [&](float (&x)[chunkElements], int64_t row, int64_t first) {
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = 0;
    if (firstQuery + row < call.queryCount)
      call.queries.load(x, call.queries.at(batch, firstQuery + row, head), first, call.keyFeatures, queriesAligned);
  });
  clear(shape, sums);
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
  addKeys(
      shape, 0, endKey, sums,
      [&](float (&x)[chunkElements], int64_t row, int64_t first) {
        call.keys.load(x, call.keys.at(batch, row, keyHead), first, call.keyFeatures, keysAligned);
      },
      [&](float (&x)[chunkElements], int64_t row, int64_t first) {
        call.values.load(x, call.values.at(batch, row, keyHead), first, call.valueFeatures, valuesAligned);
      },
      [&](float product, int64_t row, int64_t index) {
        if (!call.hasMask)
          return product;
        int64_t at = call.mask.at(batch, head, firstQuery + row) + index * call.mask.lastStride;
        if (call.mask.kind == ElementKind::I1)
          return loadAs<uint8_t>(call.mask.data, at) ? product : lowest;
        return fma(loadFloat(call.mask.data, at, call.mask.kind), log2e, product);
      });
  storeSums(
      shape, sums, [](int64_t) { return lowest; },
      [&](int64_t row, int64_t feature, float x) {
        int64_t index = (batch * call.queryCount + firstQuery + row) * call.heads + head;
        if (firstQuery + row < call.queryCount)
          storeFloat(call.result, index * call.valueFeatures + feature, call.resultKind, x);
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

/// Computes a tile of 64 queries by matrix instructions on elements of `kind`.
ITX_MICROKERNEL void itx_attention_matrix(ITX_ATTENTION_ARGUMENTS, int64_t tileKeys, int64_t kind, int64_t parts,
                                          Shared shared) {
  Attention call = ITX_ATTENTION;
  MatrixShape shape{tileKeys, keyFeatures, valueFeatures, kind, parts, (Shared16)shared};
  MatrixSums sums;
  computeTile(call, shape, matrixRows, sums);
}
