//===- AttentionTile.h - Attention of a tile of rows in f32 ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of 128 threads has the queries of a tile in shared memory and passes over the keys in blocks (arXiv
// 2205.14135, algorithm 1): keys go to shared memory, a thread multiplies some rows by some keys, powers go to shared
// memory, values take the place of the keys, and a thread adds up some rows by some features. Eight neighbouring
// threads have the same rows.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ATTENTIONTILE_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_ATTENTIONTILE_H

#include "Elements.h"
#include "OnlineSoftmax.h"

constexpr int threadsOfTile = 128, threadsOfRow = 8, rowGroups = threadsOfTile / threadsOfRow;
/// The most rows and keys of a thread, and groups of four features, each 32 features behind the one before.
constexpr int maximalThreadRows = 4, maximalThreadKeys = 4, maximalThreadFeatures = 16;
/// Floats behind a row in shared memory, so that threads that read a column use different banks.
constexpr int64_t rowPadding = 4;

/// The sizes of a tile. All but the pointer are constants of a kernel.
struct TileShape {
  int64_t rows, keys;                 ///< 16 and 8 times those of a thread
  int64_t keyFeatures, valueFeatures; ///< of a head
  Shared shared;

  int64_t threadRows() const { return rows / rowGroups; }
  int64_t threadKeys() const { return keys / threadsOfRow; }
  int64_t threadFeatures() const { return ceilDivide(valueFeatures, 4 * threadsOfRow); }
  int64_t paddedKeyFeatures() const { return ceilDivide(keyFeatures, chunkElements) * chunkElements; }
  int64_t paddedValueFeatures() const { return threadFeatures() * 4 * threadsOfRow; }
  int64_t keyStride() const { return paddedKeyFeatures() + rowPadding; }
  int64_t valueStride() const { return paddedValueFeatures() + rowPadding; }
  int64_t powerStride() const { return keys + rowPadding; }
  // Parts of shared memory.
  Shared queries() const { return shared; }
  Shared block() const { return shared + rows * keyStride(); }
  Shared powers() const { return block() + keys * (keyStride() > valueStride() ? keyStride() : valueStride()); }
};

/// The rows of a thread: the keys [begin, end) that each sees in this pass, and its sums.
struct TileSums {
  int64_t begin[maximalThreadRows], end[maximalThreadRows];
  float maximum[maximalThreadRows];
  float total[maximalThreadRows]; ///< of the thread's keys
  Vector<float, 4> value[maximalThreadRows][maximalThreadFeatures];
};

inline int64_t firstRowOfThread(const TileShape &shape) { return threadIndex() / threadsOfRow * shape.threadRows(); }
inline int64_t rowsOfThread(const TileShape &shape) { return shape.threadRows(); }
inline int64_t rowOfThread(const TileShape &shape, int slot) { return firstRowOfThread(shape) + slot; }
inline int64_t columnOfThread() { return threadIndex() % threadsOfRow; }

/// Begins sums.
inline void clear(const TileShape &shape, TileSums &sums) {
#pragma unroll
  for (int row = 0; row < shape.threadRows(); ++row) {
    sums.maximum[row] = lowest;
    sums.total[row] = 0;
#pragma unroll
    for (int part = 0; part < shape.threadFeatures(); ++part)
      sums.value[row][part] = 0;
  }
}

inline Vector<float, 4> loadFour(Shared at) { return *(ITX_SHARED const Vector<float, 4> *)at; }
inline void storeFour(Shared at, Vector<float, 4> x) { *(ITX_SHARED Vector<float, 4> *)at = x; }

/// Copies rows [begin, begin + rows) to shared memory, eight features a thread. A source has `features` and
/// load(x, row, first feature); rows for which has(row) is not true are zero.
template <typename Source, typename Has>
inline void copyRows(Shared to, int64_t begin, int64_t rows, int64_t features, int64_t stride, float scale,
                     const Source &source, Has has) {
  int64_t chunks = features / chunkElements;
  // The loop's turns would take registers from those of the sums.
#pragma unroll 1
  for (int64_t i = threadIndex(); i < rows * chunks; i += threadsOfTile) {
    int64_t row = i / chunks, first = i % chunks * chunkElements;
    float x[chunkElements];
#pragma unroll
    for (int j = 0; j < chunkElements; ++j)
      x[j] = 0;
    if (has(begin + row) && first < source.features)
      source.load(x, begin + row, first);
    Shared at = to + row * stride + first;
    storeFour(at, Vector<float, 4>{x[0], x[1], x[2], x[3]} * scale);
    storeFour(at + 4, Vector<float, 4>{x[4], x[5], x[6], x[7]} * scale);
  }
}

/// Brings queries to shared memory, and begins sums.
template <typename Source>
inline void begin(const TileShape &shape, float scale, const Source &source, TileSums &sums) {
  copyRows(shape.queries(), 0, shape.rows, shape.paddedKeyFeatures(), shape.keyStride(), scale, source,
           [&](int64_t row) { return source.has(row); });
  clear(shape, sums);
}

inline void multiplyKeys(const TileShape &shape, float (&scores)[maximalThreadRows][maximalThreadKeys]) {
  Shared queries = shape.queries() + firstRowOfThread(shape) * shape.keyStride();
  Shared keys = shape.block() + columnOfThread() * shape.keyStride();
#pragma unroll
  for (int row = 0; row < shape.threadRows(); ++row)
#pragma unroll
    for (int key = 0; key < shape.threadKeys(); ++key)
      scores[row][key] = 0;
#pragma unroll 2
  for (int64_t feature = 0; feature < shape.paddedKeyFeatures(); feature += 4) {
    Vector<float, 4> q[maximalThreadRows], k[maximalThreadKeys];
#pragma unroll
    for (int row = 0; row < shape.threadRows(); ++row)
      q[row] = loadFour(queries + row * shape.keyStride() + feature);
#pragma unroll
    for (int key = 0; key < shape.threadKeys(); ++key)
      k[key] = loadFour(keys + key * threadsOfRow * shape.keyStride() + feature);
#pragma unroll
    for (int row = 0; row < shape.threadRows(); ++row)
#pragma unroll
      for (int key = 0; key < shape.threadKeys(); ++key)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          scores[row][key] = fma(q[row][i], k[key][i], scores[row][key]);
  }
}

/// Makes powers of the scores of a block of keys, brings sums up to date, and stores powers to shared memory.
inline void exponentiate(const TileShape &shape, float (&scores)[maximalThreadRows][maximalThreadKeys],
                         TileSums &sums) {
#pragma unroll
  for (int row = 0; row < shape.threadRows(); ++row) {
    float largest = lowest;
#pragma unroll
    for (int key = 0; key < shape.threadKeys(); ++key)
      largest = larger(largest, scores[row][key]);
    largest = larger(sums.maximum[row], maximumOfLanes(largest, 1, threadsOfRow));
    float shift = shiftOf(largest), factor = exp2(sums.maximum[row] - shift), total = 0;
    sums.maximum[row] = largest;
    Shared powers = shape.powers() + (firstRowOfThread(shape) + row) * shape.powerStride() + columnOfThread();
#pragma unroll
    for (int key = 0; key < shape.threadKeys(); ++key) {
      float power = exp2(scores[row][key] - shift);
      powers[key * threadsOfRow] = power;
      total += power;
    }
    sums.total[row] = fma(sums.total[row], factor, total);
#pragma unroll
    for (int part = 0; part < shape.threadFeatures(); ++part)
      sums.value[row][part] *= factor;
  }
}

inline void addValues(const TileShape &shape, TileSums &sums) {
  Shared powers = shape.powers() + firstRowOfThread(shape) * shape.powerStride();
  Shared values = shape.block() + columnOfThread() * 4;
  for (int64_t key = 0; key < shape.keys; key += 4) {
    Vector<float, 4> p[maximalThreadRows];
#pragma unroll
    for (int row = 0; row < shape.threadRows(); ++row)
      p[row] = loadFour(powers + row * shape.powerStride() + key);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int part = 0; part < shape.threadFeatures(); ++part) {
        Vector<float, 4> v = loadFour(values + (key + i) * shape.valueStride() + part * 4 * threadsOfRow);
#pragma unroll
        for (int row = 0; row < shape.threadRows(); ++row)
#pragma unroll
          for (int j = 0; j < 4; ++j)
            sums.value[row][part][j] = fma(p[row][i], v[j], sums.value[row][part][j]);
      }
  }
}

/// Adds the keys [begin, end) to the sums of the rows that see them. Keys and values are sources; score(product, row,
/// key) is what a product of a query, which has the scale, and a key counts.
template <typename Keys, typename Values, typename Score>
inline void addKeys(const TileShape &shape, int64_t begin, int64_t end, float, TileSums &sums, const Keys &keys,
                    const Values &values, const Score &score) {
  auto has = [&](int64_t row) { return row < end; };
  for (int64_t first = begin; first < end; first += shape.keys) {
    // Queries are in shared memory, and nobody reads the values of the block before.
    blockBarrier();
    copyRows(shape.block(), first, shape.keys, shape.paddedKeyFeatures(), shape.keyStride(), 1, keys, has);
    blockBarrier();
    float scores[maximalThreadRows][maximalThreadKeys];
    multiplyKeys(shape, scores);
#pragma unroll
    for (int row = 0; row < shape.threadRows(); ++row)
#pragma unroll
      for (int i = 0; i < shape.threadKeys(); ++i) {
        int64_t key = first + columnOfThread() + i * threadsOfRow;
        bool isVisible = key >= sums.begin[row] && key < sums.end[row];
        scores[row][i] = isVisible ? score(scores[row][i], firstRowOfThread(shape) + row, key) : lowest;
      }
    exponentiate(shape, scores, sums);
    blockBarrier();
    copyRows(shape.block(), first, shape.keys, shape.paddedValueFeatures(), shape.valueStride(), 1, values, has);
    blockBarrier();
    addValues(shape, sums);
  }
}

/// Calls store(row, feature, x) with four neighbouring results of a thread's rows. sinkOf(row) is one more score of the
/// row, or `lowest`.
template <typename Score, typename SinkOf, typename Store>
inline void storeSums(const TileShape &shape, float, const Score &, TileSums &sums, SinkOf sinkOf, Store store) {
#pragma unroll
  for (int row = 0; row < shape.threadRows(); ++row) {
    float factor = 1, sink = sinkOf(firstRowOfThread(shape) + row);
    sums.total[row] = sumLanes(sums.total[row], 1, threadsOfRow);
    if (sink != lowest)
      addSink(sums.maximum[row], sums.total[row], factor, sink);
    factor *= inverseOf(sums.total[row]);
#pragma unroll
    for (int part = 0; part < shape.threadFeatures(); ++part) {
      float x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        x[i] = sums.value[row][part][i] * factor;
      store(firstRowOfThread(shape) + row, part * 4 * threadsOfRow + columnOfThread() * 4, x);
    }
  }
}

#endif
