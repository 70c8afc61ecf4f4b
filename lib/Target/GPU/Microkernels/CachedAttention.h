//===- CachedAttention.h - Operands of attention over paged caches -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_CACHEDATTENTION_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_CACHEDATTENTION_H

#include "Elements.h"
#include "OnlineSoftmax.h"

/// A tensor [tokens, heads, features] of floats, by its strides in elements.
struct TokenRows {
  Global data;
  int64_t kind, tokenStride, headStride, featureStride;

  int64_t offsetOf(int64_t token, int64_t head) const { return token * tokenStride + head * headStride; }
  int64_t bytes() const { return kind == ElementKind::F32 ? 4 : 2; }
  /// True if every row begins at a multiple of 16 bytes, and its elements are neighbours.
  bool hasAlignedRows() const {
    return (uint64_t(data) | uint64_t(tokenStride | headStride) * bytes()) % 16 == 0 && featureStride == 1;
  }
  float at(int64_t token, int64_t head, int64_t feature) const {
    return loadFloat(data, offsetOf(token, head) + feature * featureStride, kind);
  }
};

/// What a call of nn.cached_attention has in common for all of its blocks.
struct CachedAttention {
  TokenRows query;
  Pages keys, values;
  Global tail;      ///< of quantized keys, [sequences, heads, page, features] or transposed
  int64_t tailKind; ///< of its elements
  TokenRows newKeys;
  bool hasTail;
  Global positions, sequences, pageTable;
  int64_t indexKind, tableEntries; ///< integers of all three; pages of a sequence
  Global sinks;
  int64_t sinkKind;
  bool hasSinks;
  Global result;
  int64_t resultKind;
  int64_t tokens, queryHeads;
  int64_t window; ///< 0: none
  float scale, softCap;

  int64_t headsOfKey() const { return queryHeads / keys.heads; }
  int64_t position(int64_t token) const { return loadInteger(positions, token, indexKind); }
  int64_t sequence(int64_t token) const { return loadInteger(sequences, token, indexKind); }
  int64_t physicalPage(int64_t sequence, int64_t page) const {
    return loadInteger(pageTable, sequence * tableEntries + page, indexKind);
  }
  /// Returns the first position that a token at `position` sees.
  int64_t firstVisible(int64_t position) const { return window ? larger(position - window + 1, int64_t(0)) : 0; }

  /// Queries are multiplied by it, so that scores are logarithms to base 2, or arguments of tanh.
  float queryScale() const { return softCap != 0 ? scale / softCap : scale * log2e; }
  float scoreOf(float product) const { return softCap != 0 ? softCap * log2e * tanh(product) : product; }

  /// Loads features of the key at `position` of a sequence, from the rows of the call if `row` is it, else from the
  /// sequence's tail.
  void loadNewKey(float (&x)[chunkElements], int64_t row, int64_t sequenceIndex, int64_t positionOfKey, int64_t head,
                  int64_t first) const {
    bool isRow = row >= 0 && row < tokens;
    if (isRow)
      isRow = sequence(row) == sequenceIndex && position(row) == positionOfKey;
    int64_t slot = positionOfKey % keys.page;
#pragma unroll
    for (int i = 0; i < chunkElements; ++i) {
      int64_t feature = first + i;
      x[i] = 0;
      if (feature >= keys.features)
        continue;
      if (isRow) {
        x[i] = roundTo(newKeys.at(row, head, feature), tailKind);
      } else {
        int64_t inPage = keys.isTransposed ? feature * keys.page + slot : slot * keys.features + feature;
        x[i] = loadFloat(tail, (sequenceIndex * keys.heads + head) * keys.page * keys.features + inPage, tailKind);
      }
    }
  }

  void storeResult(int64_t token, int64_t head, int64_t feature, float x) const {
    storeFloat(result, (token * queryHeads + head) * values.features + feature, resultKind, x);
  }
  /// Stores neighbouring features of a result; those behind the row's end are left out.
  template <int count> void storeResults(int64_t token, int64_t head, int64_t feature, const float (&x)[count]) const {
    storeRun(result, (token * queryHeads + head) * values.features + feature, resultKind, x, values.features - feature,
             values.features % count == 0);
  }
  /// Returns a head's sink, to base 2.
  float sinkOf(int64_t head) const { return loadFloat(sinks, head, sinkKind) * log2e; }
};

/// Arguments of the microkernels of nn.cached_attention, in their order.
#define ITX_CACHED_ATTENTION_ARGUMENTS                                                                                 \
  Global query, int64_t queryKind, int64_t queryTokenStride, int64_t queryHeadStride, int64_t queryFeatureStride,      \
      Global keys, Global keyParameters, int64_t keyKind, int64_t keysTransposed, int64_t keyHeads, int64_t page,      \
      int64_t keyFeatures, Global values, Global valueParameters, int64_t valueKind, int64_t valuesTransposed,         \
      int64_t valueFeatures, int64_t hasTail, Global tail, int64_t tailKind, Global newKeys, int64_t newKeysKind,      \
      int64_t newKeysTokenStride, int64_t newKeysHeadStride, int64_t newKeysFeatureStride, Global positions,           \
      Global sequences, Global pageTable, int64_t indexKind, int64_t tableEntries, int64_t hasSinks, Global sinks,     \
      int64_t sinkKind, Global result, int64_t resultKind, int64_t tokens, int64_t queryHeads, int64_t sequenceCount,  \
      int64_t window, float scale, float softCap

#define ITX_CACHED_ATTENTION                                                                                           \
  CachedAttention {                                                                                                    \
    {query, queryKind, queryTokenStride, queryHeadStride, queryFeatureStride},                                         \
        {keys, keyParameters, keyKind, keysTransposed != 0, keyHeads, page, keyFeatures},                              \
        {values, valueParameters, valueKind, valuesTransposed != 0, keyHeads, page, valueFeatures}, tail, tailKind,    \
        {newKeys, newKeysKind, newKeysTokenStride, newKeysHeadStride, newKeysFeatureStride}, hasTail != 0, positions,  \
        sequences, pageTable, indexKind, tableEntries, sinks, sinkKind, hasSinks != 0, result, resultKind, tokens,     \
        queryHeads, window, scale, softCap                                                                             \
  }

/// Tokens of a sequence in a call, from which on blocks compute tiles of them: fewer are spread over the GPU each by
/// itself.
constexpr int64_t tokensOfTiles = 4;
inline bool computesTiles(int64_t tokens, int64_t sequenceCount) { return tokens > tokensOfTiles * sequenceCount; }

#endif
