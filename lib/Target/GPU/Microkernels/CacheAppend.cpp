//===- CacheAppend.cpp - Rows into paged caches: as they are, quantized, into tails ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "CachedAttention.h"

namespace {

/// What a call of nn.cache_append has in common for all of its warps.
struct CacheAppend {
  Pages cache;
  TokenRows rows;
  Global tail;
  int64_t tailKind;
  Global positions, sequences, pageTable;
  int64_t indexKind, tableEntries, tokens;

  int64_t position(int64_t token) const { return loadInteger(positions, token, indexKind); }
  int64_t sequence(int64_t token) const { return loadInteger(sequences, token, indexKind); }
  int64_t physicalPage(int64_t token) const {
    return loadInteger(pageTable, sequence(token) * tableEntries + position(token) / cache.page, indexKind);
  }
  /// True if `row` is the row of this call for a position of a sequence.
  bool isRowOf(int64_t row, int64_t sequenceIndex, int64_t positionOfRow) const {
    return row >= 0 && row < tokens && sequence(row) == sequenceIndex && position(row) == positionOfRow;
  }
  int64_t inPage(int64_t slot, int64_t feature) const {
    return cache.isTransposed ? feature * cache.page + slot : slot * cache.features + feature;
  }
  Global tailOf(int64_t sequenceIndex, int64_t head) const {
    int64_t elements = (sequenceIndex * cache.heads + head) * cache.page * cache.features;
    return tail + elements * (tailKind == ElementKind::F32 ? 4 : 2);
  }
};

#define ITX_CACHE_APPEND_ARGUMENTS                                                                                     \
  Global cache, Global parameters, int64_t kind, int64_t transposed, int64_t heads, int64_t page, int64_t features,    \
      Global tail, int64_t tailKind, Global rows, int64_t rowsKind, int64_t rowsTokenStride, int64_t rowsHeadStride,   \
      int64_t rowsFeatureStride, Global positions, Global sequences, Global pageTable, int64_t indexKind,              \
      int64_t tableEntries, int64_t tokens, int64_t warps

#define ITX_CACHE_APPEND                                                                                               \
  CacheAppend {                                                                                                        \
    {cache, parameters, kind, transposed != 0, heads, page, features},                                                 \
        {rows, rowsKind, rowsTokenStride, rowsHeadStride, rowsFeatureStride}, tail, tailKind, positions, sequences,    \
        pageTable, indexKind, tableEntries, tokens                                                                     \
  }

/// The row of a token and head that a warp writes.
struct WarpRow {
  int64_t lane, token, head;
  WarpRow(int64_t warps, int64_t heads) {
    int64_t number = blockIndex() * warps + threadIndex() / warpSize;
    lane = threadIndex() % warpSize;
    token = number / heads;
    head = number % heads;
  }
};

/// What the values of a group are quantized by.
struct GroupScale {
  uint8_t scaleByte;
  float scale, zero;
};

float roundToEven(float x) { return __builtin_roundevenf(x); }
/// Brings a number into a range; NaN becomes its lower limit.
float clamp(float x, float low, float high) { return smaller(larger(x, low), high); }

/// Computes the scale and the zero of a group by the formulas of #nn.cache_format.
GroupScale scaleOfGroup(float low, float high, int64_t kind) {
  bool isFour = kind == ElementKind::UI4;
  if (!isFour) {
    low = smaller(low, 0);
    high = larger(high, 0);
  }
  float least = (high - low) / (isFour ? 15.0f : 255.0f);
  if (isFour)
    least = larger(least, larger(__builtin_fabsf(low), __builtin_fabsf(high)) / 127.0f);
  int raw = (f16OfFloat(least) + (1 << scaleShift) - 1) >> scaleShift;
  raw = raw < 1 ? 1 : raw > largestScale ? largestScale : raw;
  GroupScale result;
  result.scaleByte = uint8_t(raw);
  result.scale = floatOfScale(result.scaleByte);
  float firstZero = isFour ? -128 : 0;
  result.zero = clamp(roundToEven(-low / result.scale), firstZero, firstZero + 255);
  return result;
}

uint8_t quantize(float x, const GroupScale &group, int64_t kind) {
  float largest = kind == ElementKind::UI4 ? 15 : 255;
  return uint8_t(int(clamp(roundToEven(x / group.scale) + group.zero, 0, largest)));
}

uint8_t byteOfZero(const GroupScale &group) { return uint8_t(int(group.zero)); }

} // namespace

/// Stores rows as the cache's elements.
ITX_MICROKERNEL void itx_cache_append(ITX_CACHE_APPEND_ARGUMENTS) {
  CacheAppend call = ITX_CACHE_APPEND;
  WarpRow to(warps, heads);
  if (to.token >= tokens)
    return;
  Global at = call.cache.at(call.physicalPage(to.token), to.head);
  int64_t slot = call.position(to.token) % page;
  for (int64_t feature = to.lane; feature < features; feature += warpSize)
    storeFloat(at, call.inPage(slot, feature), kind, call.rows.at(to.token, to.head, feature));
}

/// Quantizes each row of values.
ITX_MICROKERNEL void itx_cache_append_quantized_rows(ITX_CACHE_APPEND_ARGUMENTS) {
  CacheAppend call = ITX_CACHE_APPEND;
  WarpRow to(warps, heads);
  if (to.token >= tokens)
    return;
  float low = -lowest, high = lowest;
  for (int64_t feature = to.lane; feature < features; feature += warpSize) {
    float x = call.rows.at(to.token, to.head, feature);
    low = smaller(low, x);
    high = larger(high, x);
  }
  low = combineLanes(low, 1, warpSize, [](float a, float b) { return smaller(a, b); });
  high = maximumOfLanes(high, 1, warpSize);
  GroupScale group = scaleOfGroup(low, high, kind);
  int64_t physical = call.physicalPage(to.token), slot = call.position(to.token) % page;
  Global parametersOfPage = call.cache.parametersAt(physical, to.head, page);
  if (to.lane == 0) {
    parametersOfPage[slot] = group.scaleByte;
    parametersOfPage[page + slot] = byteOfZero(group);
  }
  auto quantized = [&](int64_t feature) { return quantize(call.rows.at(to.token, to.head, feature), group, kind); };
  Global row = call.cache.at(physical, to.head) + slot * call.cache.bytesOf(features);
  for (int64_t byte = to.lane; byte < call.cache.bytesOf(features); byte += warpSize) {
    if (kind == ElementKind::UI8) {
      row[byte] = quantized(byte);
    } else {
      int64_t first = byte / packedBytes * packedValues + byte % packedBytes;
      row[byte] = uint8_t(quantized(first) | quantized(first + packedBytes) << 4);
    }
  }
}

/// Quantizes each feature of the pages of keys whose last token is in this call.
ITX_MICROKERNEL void itx_cache_append_quantized_pages(ITX_CACHE_APPEND_ARGUMENTS) {
  CacheAppend call = ITX_CACHE_APPEND;
  WarpRow to(warps, heads);
  if (to.token >= tokens)
    return;
  int64_t position = call.position(to.token), sequence = call.sequence(to.token);
  if (position % page != page - 1)
    return;
  int64_t firstPosition = position - (page - 1), firstRow = to.token - (page - 1);
  Global tailOfHead = call.tailOf(sequence, to.head);
  auto keyAt = [&](int64_t slot, int64_t feature) {
    if (call.isRowOf(firstRow + slot, sequence, firstPosition + slot))
      return roundTo(call.rows.at(firstRow + slot, to.head, feature), tailKind);
    return loadFloat(tailOfHead, call.inPage(slot, feature), tailKind);
  };
  int64_t physical = call.physicalPage(to.token);
  Global elements = call.cache.at(physical, to.head);
  Global parametersOfPage = call.cache.parametersAt(physical, to.head, features);
  auto scaleOf = [&](int64_t feature) {
    float low = -lowest, high = lowest;
    for (int64_t slot = 0; slot < page; ++slot) {
      float x = keyAt(slot, feature);
      low = smaller(low, x);
      high = larger(high, x);
    }
    GroupScale group = scaleOfGroup(low, high, kind);
    parametersOfPage[feature] = group.scaleByte;
    parametersOfPage[features + feature] = byteOfZero(group);
    return group;
  };
  // Bytes hold two slots of a feature, or two features of a slot.
  bool pairsFeatures = kind == ElementKind::UI4 && !transposed;
  for (int64_t i = to.lane; i < (pairsFeatures ? features / 2 : features); i += warpSize) {
    int64_t feature = pairsFeatures ? i / packedBytes * packedValues + i % packedBytes : i;
    GroupScale group = scaleOf(feature), upper = group;
    if (pairsFeatures)
      upper = scaleOf(feature + packedBytes);
    for (int64_t slot = 0; slot < page; ++slot) {
      uint8_t q = quantize(keyAt(slot, feature), group, kind);
      if (kind == ElementKind::UI8) {
        elements[call.inPage(slot, feature)] = q;
      } else if (pairsFeatures) {
        uint8_t other = quantize(keyAt(slot, feature + packedBytes), upper, kind);
        elements[slot * (features / 2) + i] = uint8_t(q | other << 4);
      } else if (slot % packedValues < packedBytes) {
        uint8_t other = quantize(keyAt(slot + packedBytes, feature), group, kind);
        elements[feature * (page / 2) + slot / packedValues * packedBytes + slot % packedBytes] =
            uint8_t(q | other << 4);
      }
    }
  }
}

/// Stores rows into the tails of their sequences, but for those of pages that end in this call.
ITX_MICROKERNEL void itx_cache_append_tail(ITX_CACHE_APPEND_ARGUMENTS) {
  CacheAppend call = ITX_CACHE_APPEND;
  WarpRow to(warps, heads);
  if (to.token >= tokens)
    return;
  int64_t position = call.position(to.token), sequence = call.sequence(to.token), slot = position % page;
  if (call.isRowOf(to.token + page - slot, sequence, position + page - slot))
    return;
  Global at = call.tailOf(sequence, to.head);
  for (int64_t feature = to.lane; feature < features; feature += warpSize)
    storeFloat(at, call.inPage(slot, feature), tailKind, call.rows.at(to.token, to.head, feature));
}
