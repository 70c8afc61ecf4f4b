//===- CachedAttentionDecode.cpp - Attention of single tokens over paged caches ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A unit of work is a token, some of the query heads that share a head of keys, and a part of the keys that the token
// sees: few tokens are split into as many parts as blocks have room for. A warp takes a page after the other. Teams of
// its lanes take the slots of the page in turn; a lane has eight features of the queries, of the key and of the sums.
//===----------------------------------------------------------------------------------------------------------===//
#include "CachedAttention.h"

namespace {

/// The most query heads of a unit, and chunks of features of a lane.
constexpr int maximalRows = 8, maximalChunks = 2;
/// Keys of a team whose loads are under way at the same time: as many as registers suffice for.
#if defined(__GFX11__) || defined(__GFX12__)
constexpr int keysAtOnce = 2;
#else
constexpr int keysAtOnce = 4;
#endif

/// How the work of a call is cut, by sizes that all blocks know.
struct Units {
  int64_t rows;   ///< query heads of a unit
  int64_t parts;  ///< of the heads of a head of keys
  int64_t items;  ///< tokens times heads of keys times parts
  int64_t splits; ///< of the keys of an item

  Units(const CachedAttention &call, int64_t rows, int64_t blocks)
      : rows(rows), parts(ceilDivide(call.headsOfKey(), rows)), items(call.tokens * call.keys.heads * parts),
        splits(items == 0 ? 1 : larger(blocks / items, int64_t(1))) {}
};

/// What a lane has summed up for the rows of a unit.
struct Sums {
  float maximum[maximalRows], total[maximalRows], value[maximalRows][maximalChunks][chunkElements];
};

struct Unit {
  const CachedAttention &call;
  int64_t rows, chunks, lanesOfTeam;
  int64_t token, keyHead, firstHead, heads; ///< the first of `heads` query heads
  int64_t position, sequence;
  int64_t lane; ///< of the team

  int64_t firstFeature(int64_t chunk) const { return (chunk * lanesOfTeam + lane) * chunkElements; }
};

void loadQueries(const Unit &unit, float (&queries)[maximalRows][maximalChunks][chunkElements]) {
  float scale = unit.call.queryScale();
#pragma unroll
  for (int row = 0; row < unit.rows; ++row)
#pragma unroll
    for (int chunk = 0; chunk < unit.chunks; ++chunk)
#pragma unroll
      for (int i = 0; i < chunkElements; ++i) {
        int64_t feature = unit.firstFeature(chunk) + i;
        bool isInside = row < unit.heads && feature < unit.call.keys.features;
        queries[row][chunk][i] = isInside ? unit.call.query.at(unit.token, unit.firstHead + row, feature) * scale : 0;
      }
}

/// Multiplies queries by the scales of a page of keys, and loads its zeros.
void scaleQueries(const Unit &unit, int64_t physical, const float (&queries)[maximalRows][maximalChunks][chunkElements],
                  float (&scaled)[maximalRows][maximalChunks][chunkElements],
                  float (&zeros)[maximalChunks][chunkElements]) {
  const Pages &keys = unit.call.keys;
  Global parameters = keys.parametersAt(physical, unit.keyHead, keys.features);
#pragma unroll
  for (int chunk = 0; chunk < unit.chunks; ++chunk)
#pragma unroll
    for (int i = 0; i < chunkElements; ++i) {
      int64_t feature = unit.firstFeature(chunk) + i;
      bool isInside = feature < keys.features;
      float scale = isInside ? floatOfScale(parameters[feature]) : 0;
      zeros[chunk][i] = isInside ? magic + floatOfZero(parameters[keys.features + feature], keys.kind) : magic;
#pragma unroll
      for (int row = 0; row < unit.rows; ++row)
        scaled[row][chunk][i] = queries[row][chunk][i] * scale;
    }
}

/// Adds the slots [begin, end) of a page to the sums; the lane's team takes every `teams`-th.
void addPage(const Unit &unit, int64_t pageIndex, int64_t physical, int64_t begin, int64_t end, int64_t team,
             int64_t teams, const float (&queries)[maximalRows][maximalChunks][chunkElements], bool isNew, Sums &sums) {
  const CachedAttention &call = unit.call;
  Global pageOfKeys = call.keys.at(physical, unit.keyHead), pageOfValues = call.values.at(physical, unit.keyHead);
  float scaled[maximalRows][maximalChunks][chunkElements], zeros[maximalChunks][chunkElements];
  bool readsQuantized = isQuantized(call.keys.kind) && !isNew;
  if (readsQuantized)
    scaleQueries(unit, physical, queries, scaled, zeros);
  Global parameters = nullptr;
  if (isQuantized(call.values.kind))
    parameters = call.values.parametersAt(physical, unit.keyHead, call.values.page);

  // Several keys are loaded at a time as it is.
#pragma unroll 1
  for (int64_t first = begin; first < end; first += teams * keysAtOnce) {
    float scores[maximalRows][keysAtOnce];
#pragma unroll
    for (int key = 0; key < keysAtOnce; ++key) {
      int64_t slot = first + team + key * teams;
#pragma unroll
      for (int row = 0; row < unit.rows; ++row)
        scores[row][key] = 0;
#pragma unroll
      for (int chunk = 0; chunk < unit.chunks; ++chunk) {
        float x[chunkElements];
#pragma unroll
        for (int i = 0; i < chunkElements; ++i)
          x[i] = 0;
        if (slot < end) {
          if (isNew) {
            int64_t position = pageIndex * call.keys.page + slot;
            call.loadNewKey(x, unit.token - (unit.position - position), unit.sequence, position, unit.keyHead,
                            unit.firstFeature(chunk));
          } else {
            loadFeatures(x, call.keys, pageOfKeys, slot, unit.firstFeature(chunk));
            if (readsQuantized)
#pragma unroll
              for (int i = 0; i < chunkElements; ++i)
                x[i] -= zeros[chunk][i];
          }
        }
#pragma unroll
        for (int row = 0; row < unit.rows; ++row)
#pragma unroll
          for (int i = 0; i < chunkElements; ++i)
            scores[row][key] =
                fma(readsQuantized ? scaled[row][chunk][i] : queries[row][chunk][i], x[i], scores[row][key]);
      }
    }
#pragma unroll
    for (int row = 0; row < unit.rows; ++row) {
      float largest = sums.maximum[row];
#pragma unroll
      for (int key = 0; key < keysAtOnce; ++key) {
        float score = call.scoreOf(sumLanes(scores[row][key], 1, unit.lanesOfTeam));
        scores[row][key] = first + team + key * teams < end ? score : lowest;
        largest = larger(largest, scores[row][key]);
      }
      float shift = shiftOf(largest), factor = exp2(sums.maximum[row] - shift);
      sums.maximum[row] = largest;
      sums.total[row] *= factor;
#pragma unroll
      for (int key = 0; key < keysAtOnce; ++key) {
        scores[row][key] = exp2(scores[row][key] - shift);
        sums.total[row] += scores[row][key];
      }
#pragma unroll
      for (int chunk = 0; chunk < unit.chunks; ++chunk)
#pragma unroll
        for (int i = 0; i < chunkElements; ++i)
          sums.value[row][chunk][i] *= factor;
    }
#pragma unroll
    for (int key = 0; key < keysAtOnce; ++key) {
      int64_t slot = first + team + key * teams;
      if (slot >= end)
        continue;
      float scale = 1, zero = 0;
      if (isQuantized(call.values.kind)) {
        scale = floatOfScale(parameters[slot]);
        zero = magic + floatOfZero(parameters[call.values.page + slot], call.values.kind);
      }
#pragma unroll
      for (int chunk = 0; chunk < unit.chunks; ++chunk) {
        float x[chunkElements];
        loadFeatures(x, call.values, pageOfValues, slot, unit.firstFeature(chunk));
#pragma unroll
        for (int i = 0; i < chunkElements; ++i)
          if (isQuantized(call.values.kind))
            x[i] = (x[i] - zero) * scale;
#pragma unroll
        for (int row = 0; row < unit.rows; ++row)
#pragma unroll
          for (int i = 0; i < chunkElements; ++i)
            sums.value[row][chunk][i] = fma(scores[row][key], x[i], sums.value[row][chunk][i]);
      }
    }
  }
}

/// Adds up the sums of the teams of a warp: each lane then has those of all teams for its features.
void mergeTeams(const Unit &unit, Sums &sums) {
#pragma unroll
  for (int row = 0; row < unit.rows; ++row) {
    float largest = maximumOfLanes(sums.maximum[row], unit.lanesOfTeam, warpSize);
    float factor = exp2(sums.maximum[row] - shiftOf(largest));
    sums.maximum[row] = largest;
    sums.total[row] = sumLanes(sums.total[row] * factor, unit.lanesOfTeam, warpSize);
#pragma unroll
    for (int chunk = 0; chunk < unit.chunks; ++chunk)
#pragma unroll
      for (int i = 0; i < chunkElements; ++i)
        sums.value[row][chunk][i] = sumLanes(sums.value[row][chunk][i] * factor, unit.lanesOfTeam, warpSize);
  }
}

/// Writes the sums of a warp to shared memory: maximum and total of each row, then the values of each.
void publish(const Unit &unit, const Sums &sums, Shared of) {
  int64_t features = unit.call.values.features;
#pragma unroll
  for (int row = 0; row < unit.rows; ++row) {
    if (unit.lane == 0) {
      of[2 * row] = sums.maximum[row];
      of[2 * row + 1] = sums.total[row];
    }
#pragma unroll
    for (int chunk = 0; chunk < unit.chunks; ++chunk)
#pragma unroll
      for (int i = 0; i < chunkElements; ++i) {
        int64_t feature = unit.firstFeature(chunk) + i;
        if (feature < features)
          of[2 * unit.rows + row * features + feature] = sums.value[row][chunk][i];
      }
  }
}

} // namespace

/// Floats that a warp, or a split, has for `rows` heads.
#define ITX_PARTIAL(rows, features) ((rows) * ((features) + 2))

/// Computes the units of a block. `shared` has a partial result for each warp; `partials`, in global memory, one for
/// each of `blocks` units, which are all if an item is split.
ITX_MICROKERNEL void itx_cached_attention_decode(ITX_CACHED_ATTENTION_ARGUMENTS, int64_t rows, int64_t lanesOfTeam,
                                                 int64_t chunks, int64_t warps, int64_t blocks, Shared shared,
                                                 Global partials) {
  if (computesTiles(tokens, sequenceCount))
    return;
  CachedAttention call = ITX_CACHED_ATTENTION;
  Units units(call, rows, blocks);
  int64_t thread = threadIndex(), warp = thread / warpSize, laneOfWarp = thread % warpSize;
  int64_t team = laneOfWarp / lanesOfTeam, teams = warpSize / lanesOfTeam;
  int64_t ofPartial = ITX_PARTIAL(rows, valueFeatures);
  for (int64_t number = blockIndex(); number < units.items * units.splits; number += blocks) {
    int64_t split = number % units.splits, item = number / units.splits;
    int64_t part = item % units.parts, keyHead = item / units.parts % keyHeads, token = item / units.parts / keyHeads;
    int64_t headsBefore = part * rows;
    Unit unit{call,
              rows,
              chunks,
              lanesOfTeam,
              token,
              keyHead,
              keyHead * call.headsOfKey() + headsBefore,
              smaller(call.headsOfKey() - headsBefore, rows),
              call.position(token),
              call.sequence(token),
              laneOfWarp % lanesOfTeam};
    float queries[maximalRows][maximalChunks][chunkElements];
    loadQueries(unit, queries);
    Sums sums;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      sums.maximum[row] = lowest;
      sums.total[row] = 0;
#pragma unroll
      for (int chunk = 0; chunk < chunks; ++chunk)
#pragma unroll
        for (int i = 0; i < chunkElements; ++i)
          sums.value[row][chunk][i] = 0;
    }
    int64_t firstKey = call.firstVisible(unit.position), endKey = unit.position + 1;
    int64_t firstPage = firstKey / page, endPage = ceilDivide(endKey, page);
    int64_t pagesOfSplit = ceilDivide(endPage - firstPage, units.splits);
    int64_t beginOfSplit = firstPage + split * pagesOfSplit;
    int64_t endOfSplit = smaller(beginOfSplit + pagesOfSplit, endPage);
    for (int64_t index = beginOfSplit + warp; index < endOfSplit; index += warps) {
      int64_t physical = call.physicalPage(unit.sequence, index);
      int64_t begin = larger(firstKey - index * page, int64_t(0)), end = smaller(endKey - index * page, page);
      if (call.hasTail && index == unit.position / page)
        addPage(unit, index, physical, begin, end, team, teams, queries, /*isNew=*/true, sums);
      else
        addPage(unit, index, physical, begin, end, team, teams, queries, /*isNew=*/false, sums);
    }
    mergeTeams(unit, sums);
    if (team == 0)
      publish(unit, sums, shared + warp * ofPartial);
    blockBarrier();
    for (int64_t i = thread; i < rows * valueFeatures; i += warps * warpSize) {
      int64_t row = i / valueFeatures, feature = i % valueFeatures;
      float maximum = lowest, total = 0, value = 0, factor;
      for (int64_t other = 0; other < warps; ++other)
        maximum = larger(maximum, shared[other * ofPartial + 2 * row]);
      for (int64_t other = 0; other < warps; ++other) {
        Shared of = shared + other * ofPartial;
        factor = exp2(of[2 * row] - shiftOf(maximum));
        total = fma(of[2 * row + 1], factor, total);
        value = fma(of[2 * rows + i], factor, value);
      }
      if (row >= unit.heads)
        continue;
      if (units.splits > 1) {
        Global to = partials + number * ofPartial * int64_t(sizeof(float));
        if (feature == 0) {
          storeAs(to, 2 * row, maximum);
          storeAs(to, 2 * row + 1, total);
        }
        storeAs(to, 2 * rows + i, value);
        continue;
      }
      int64_t head = unit.firstHead + row;
      if (call.hasSinks) {
        addSink(maximum, total, factor, call.sinkOf(head));
        value *= factor;
      }
      call.storeResult(token, head, feature, value * inverseOf(total));
    }
    blockBarrier();
  }
}

/// Adds up the partial results of the splits; a warp has a head of a token.
ITX_MICROKERNEL void itx_cached_attention_combine(ITX_CACHED_ATTENTION_ARGUMENTS, int64_t rows, int64_t warps,
                                                  int64_t blocks, Global partials) {
  if (computesTiles(tokens, sequenceCount))
    return;
  CachedAttention call = ITX_CACHED_ATTENTION;
  Units units(call, rows, blocks);
  if (units.splits == 1)
    return;
  int64_t lane = threadIndex() % warpSize, warp = threadIndex() / warpSize;
  int64_t ofPartial = ITX_PARTIAL(rows, valueFeatures);
  for (int64_t number = blockIndex() * warps + warp; number < tokens * queryHeads; number += blocks * warps) {
    int64_t head = number % queryHeads, token = number / queryHeads;
    int64_t keyHead = head / call.headsOfKey(), inGroup = head % call.headsOfKey();
    int64_t item = (token * keyHeads + keyHead) * units.parts + inGroup / rows, row = inGroup % rows;
    Global from = partials + item * units.splits * ofPartial * int64_t(sizeof(float));
    float maximum = lowest;
    for (int64_t split = lane; split < units.splits; split += warpSize)
      maximum = larger(maximum, loadAs<float>(from, split * ofPartial + 2 * row));
    maximum = maximumOfLanes(maximum, 1, warpSize);
    float total = 0;
    for (int64_t split = lane; split < units.splits; split += warpSize)
      total = fma(loadAs<float>(from, split * ofPartial + 2 * row + 1),
                  exp2(loadAs<float>(from, split * ofPartial + 2 * row) - shiftOf(maximum)), total);
    total = sumLanes(total, 1, warpSize);
    float shift = shiftOf(maximum), factor = 1;
    if (call.hasSinks)
      addSink(maximum, total, factor, call.sinkOf(head));
    factor *= inverseOf(total);
    for (int64_t feature = lane; feature < valueFeatures; feature += warpSize) {
      float value = 0;
      for (int64_t split = 0; split < units.splits; ++split)
        value = fma(loadAs<float>(from, split * ofPartial + 2 * rows + row * valueFeatures + feature),
                    exp2(loadAs<float>(from, split * ofPartial + 2 * row) - shift), value);
      call.storeResult(token, head, feature, value * factor);
    }
  }
}
