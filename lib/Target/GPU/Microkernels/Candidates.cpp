//===- Candidates.cpp - The largest logits of rows, and the denominators of their softmax ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row is divided into parts, each of which a block reads once: there are few rows, and they are long. A warp sorts
// the logits that it has in its registers, 64 at a time, and keeps the 64 largest by bitonic merges: the larger ones of
// a descending and an ascending list are the largest of both, in an order that six more comparisons sort (Shanbhag,
// Pirk and Madden 2018, "Efficient Top-K Query Processing on GPUs"). A second launch merges the lists of the parts.
// Nothing depends on the values, and no order but that of the lists on the warps.
//===----------------------------------------------------------------------------------------------------------===//
#include "CandidateList.h"
#include "Elements.h"
#include "OnlineSoftmax.h"

namespace {

/// The sums of a part of a row, relative to the powers of its largest logit that is a number.
struct PartSums {
  float maximum;
  float sum[mostTemperatures];
};

/// Begins sums. An initializer would be a constant in memory.
inline void clear(PartSums &sums, int64_t count) {
  sums.maximum = lowest;
#pragma unroll
  for (int j = 0; j < count; ++j)
    sums.sum[j] = 0;
}

using SharedFloats = Shared;
using GlobalFloats = ITX_GLOBAL float *;

template <typename Floats> inline void storeSums(const PartSums &sums, int64_t count, Floats to) {
  to[0] = sums.maximum;
#pragma unroll
  for (int j = 0; j < count; ++j)
    to[1 + j] = sums.sum[j];
}
template <typename Floats> inline PartSums loadSums(int64_t count, Floats from) {
  PartSums sums;
  sums.maximum = from[0];
#pragma unroll
  for (int j = 0; j < count; ++j)
    sums.sum[j] = from[1 + j];
  return sums;
}

/// The factors of differences of logits in powers of two, at each temperature.
struct Factors {
  float factor[mostTemperatures];

  Factors(Global temperatures, int64_t kind, int64_t rowStride, int64_t stride, int64_t count, int64_t row) {
#pragma unroll
    for (int j = 0; j < count; ++j)
      factor[j] = log2e / loadFloat(temperatures, row * rowStride + j * stride, kind);
  }
};

/// Brings sums to a larger maximum.
inline void rescale(PartSums &sums, float maximum, const Factors &factors, int64_t count) {
  float shift = shiftOf(maximum);
#pragma unroll
  for (int j = 0; j < count; ++j)
    sums.sum[j] *= exp2((sums.maximum - shift) * factors.factor[j]);
  sums.maximum = maximum;
}

/// Adds up the sums of all lanes of the warp.
inline void combineLanes(PartSums &sums, const Factors &factors, int64_t count) {
  rescale(sums, maximumOfLanes(sums.maximum, 1, warpSize), factors, count);
#pragma unroll
  for (int j = 0; j < count; ++j)
    sums.sum[j] = sumLanes(sums.sum[j], 1, warpSize);
}

/// Adds up so many sums that lie in memory one behind the other, with all lanes of the warp.
template <typename Floats>
inline PartSums combineAll(int64_t size, const Factors &factors, int64_t count, Floats from) {
  PartSums sums;
  clear(sums, count);
#pragma unroll 1
  for (int64_t i = laneIndex(); i < size; i += warpSize) {
    PartSums next = loadSums(count, from + i * floatsOfPartSums);
    float maximum = larger(sums.maximum, next.maximum);
    rescale(sums, maximum, factors, count);
    rescale(next, maximum, factors, count);
#pragma unroll
    for (int j = 0; j < count; ++j)
      sums.sum[j] += next.sum[j];
  }
  combineLanes(sums, factors, count);
  return sums;
}

/// Merges the lists of the warps of a block; the first warp has the result.
inline void mergeWarps(CandidateList &list, SharedEntries shared, int warp) {
#pragma unroll
  for (int half = warpsOfBlock / 2; half != 0; half /= 2) {
    if (warp >= half && warp < 2 * half)
      storeList(list, shared + warp * listSize);
    blockBarrier();
    if (warp < half)
      mergeAscending(list, loadReversed(shared + (warp + half) * listSize));
  }
}

} // namespace

/// Finds the candidates of parts of rows, and their sums.
ITX_MICROKERNEL void itx_candidates_of_parts(Global logits, int64_t kind, int64_t rowStride, int64_t stride,
                                             int64_t vocabulary, Global temperatures, int64_t temperaturesKind,
                                             int64_t temperaturesRowStride, int64_t temperaturesStride,
                                             int64_t temperatureCount, Global lists, Global sumsOfParts,
                                             Shared shared) {
  int64_t parts = ceilDivide(vocabulary, columnsOfPart), row = blockIndex() / parts, part = blockIndex() % parts;
  int warp = threadIndex() / warpSize;
  float x[elementsOfThread];
  int64_t first = part * columnsOfPart + threadIndex();
  // Which column a logit is of matters to nothing but its entry: lanes read neighbours.
  auto columnOf = [&](int i) { return first + i * threadsOfBlock; };
#pragma unroll
  for (int i = 0; i < elementsOfThread; ++i)
    x[i] = columnOf(i) < vocabulary ? loadFloat(logits, row * rowStride + columnOf(i) * stride, kind) : 0;
  auto entryOf = [&](int i) { return columnOf(i) < vocabulary ? makeEntry(x[i], uint32_t(columnOf(i))) : noEntry; };

  CandidateList list, next;
#pragma unroll
  for (int i = 0; i < elementsOfThread; i += slotsOfList) {
#pragma unroll
    for (int slot = 0; slot < slotsOfList; ++slot)
      next.entry[slot] = entryOf(i + slot);
    if (i == 0) {
      sort</*descending=*/true>(next);
      list = next;
    } else {
      sort</*descending=*/false>(next);
      mergeAscending(list, next);
    }
  }

  Factors factors(temperatures, temperaturesKind, temperaturesRowStride, temperaturesStride, temperatureCount, row);
  PartSums sums;
  clear(sums, temperatureCount);
#pragma unroll
  for (int i = 0; i < elementsOfThread; ++i)
    sums.maximum = columnOf(i) < vocabulary ? larger(sums.maximum, x[i]) : sums.maximum;
  float shift = shiftOf(sums.maximum);
#pragma unroll
  for (int i = 0; i < elementsOfThread; ++i)
#pragma unroll
    for (int j = 0; j < temperatureCount; ++j)
      sums.sum[j] += columnOf(i) < vocabulary ? exp2((x[i] - shift) * factors.factor[j]) : 0;
  combineLanes(sums, factors, temperatureCount);

  auto entries = SharedEntries(shared);
  auto sumsOfWarps = SharedFloats(entries + warpsOfBlock * listSize);
  if (laneIndex() == 0)
    storeSums(sums, temperatureCount, sumsOfWarps + warp * floatsOfPartSums);
  mergeWarps(list, entries, warp);
  if (warp != 0)
    return;
  storeList(list, GlobalEntries(lists) + blockIndex() * listSize);
  sums = combineAll(warpsOfBlock, factors, temperatureCount, sumsOfWarps);
  if (laneIndex() == 0)
    storeSums(sums, temperatureCount, GlobalFloats(sumsOfParts) + blockIndex() * floatsOfPartSums);
}

/// Merges the parts of each row. A result that the kernel does not have is null.
ITX_MICROKERNEL void itx_candidates_of_rows(Global logits, int64_t kind, int64_t rowStride, int64_t stride,
                                            int64_t vocabulary, Global temperatures, int64_t temperaturesKind,
                                            int64_t temperaturesRowStride, int64_t temperaturesStride,
                                            int64_t temperatureCount, Global lists, Global sumsOfParts, Shared shared,
                                            Global values, Global tokens, Global results, int64_t count) {
  int64_t parts = ceilDivide(vocabulary, columnsOfPart), row = blockIndex();
  int warp = threadIndex() / warpSize;
  GlobalEntries listsOfRow = GlobalEntries(lists) + row * parts * listSize;
  CandidateList list;
#pragma unroll
  for (int slot = 0; slot < slotsOfList; ++slot)
    list.entry[slot] = noEntry;
#pragma unroll 1
  for (int64_t part = warp; part < parts; part += warpsOfBlock)
    mergeAscending(list, loadReversed(listsOfRow + part * listSize));
  mergeWarps(list, SharedEntries(shared), warp);
  if (warp != 0)
    return;
#pragma unroll
  for (int slot = 0; slot < slotsOfList; ++slot) {
    int64_t k = slot * warpSize + laneIndex();
    if (k >= count)
      continue;
    uint32_t token = tokenOf(list.entry[slot]);
    if (tokens)
      storeAs(tokens, row * count + k, int32_t(token));
    if (values)
      storeAs(values, row * count + k, loadFloat(logits, row * rowStride + token * stride, kind));
  }
  if (!results)
    return;
  Factors factors(temperatures, temperaturesKind, temperaturesRowStride, temperaturesStride, temperatureCount, row);
  PartSums sums =
      combineAll(parts, factors, temperatureCount, GlobalFloats(sumsOfParts) + row * parts * floatsOfPartSums);
  if (laneIndex() == 0)
#pragma unroll
    for (int j = 0; j < temperatureCount; ++j)
      storeAs(results, row * temperatureCount + j, sums.sum[j]);
}
