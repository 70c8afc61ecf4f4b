//===- MatrixTile.h - Attention of a tile of rows by matrix instructions -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of four warps has 64 rows, a warp 16. Keys and values are of 16 bits. Queries of 32 bits are two summands of
// f16 each, and so are powers of scores then: products are computed for both, so that results are those of f32 up to
// the order of sums. The larger summand has 11 bits, the smaller the next ones down to 2^-24 of the row's largest
// query.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_MATRIXTILE_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_MATRIXTILE_H

#include "Matrices.h"
#include "OnlineSoftmax.h"

constexpr int warpsOfMatrixTile = 4, matrixRows = 64, edge = 16;
constexpr int maximalParts = 2, maximalKeyBlocks = 4, maximalValueBlocks = 8;
/// Elements behind a row in shared memory: rows begin at multiples of 16 bytes, and 8 of them use different banks.
constexpr int64_t padding16 = 8;

/// The sizes of a tile. All but the pointer are constants of a kernel.
struct MatrixShape {
  int64_t keys; ///< of a block, at most 64
  int64_t keyFeatures, valueFeatures;
  int64_t kind;  ///< of keys and values: f16 or bf16
  int64_t parts; ///< summands of queries and powers
  Shared16 shared;

  int64_t keyBlocks() const { return keys / edge; }
  int64_t valueBlocks() const { return ceilDivide(valueFeatures, edge); }
  int64_t depth() const { return ceilDivide(keyFeatures, edge) * edge; }
  int64_t keyStride() const { return depth() + padding16; }
  int64_t valueStride() const { return (transposesValues ? keys : valueBlocks() * edge) + padding16; }
  int64_t powerStride() const { return keys + padding16; }
  // Parts of shared memory.
  Shared16 queries(int64_t part) const { return shared + part * matrixRows * keyStride(); }
  Shared16 keyBlock() const { return queries(parts); }
  Shared16 valueBlock() const { return keyBlock() + keys * keyStride(); }
  Shared factors() const {
    return (Shared)(valueBlock() + (transposesValues ? valueBlocks() * edge : keys) * valueStride());
  }
  Shared16 powers(int64_t warp, int64_t part) const {
    return (Shared16)(factors() + matrixRows) + (warp * parts + part) * edge * powerStride();
  }
};

struct MatrixSums {
  int64_t begin[laneRows], end[laneRows]; ///< the keys that each row of the lane sees in this pass
  float maximum[laneRows];
  float total[laneRows]; ///< of the lane's keys
  SumMatrix value[maximalValueBlocks];
};

inline int warpIndex() { return threadIndex() / warpSize; }
/// Returns the row of the tile that an element of a lane's sums is in.
inline int tileRowOf(int element) { return warpIndex() * edge + rowOf(element); }
/// Returns an element of the row `slot` of a lane.
inline int elementOfSlot(int slot) { return laneRows == sumElements ? slot : slot * 2; }

inline int64_t rowsOfThread(const MatrixShape &) { return laneRows; }
inline int64_t rowOfThread(const MatrixShape &, int slot) { return tileRowOf(elementOfSlot(slot)); }

inline uint16_t roundTo16(float x, int64_t kind) { return kind == ElementKind::F16 ? f16OfFloat(x) : bf16OfFloat(x); }
inline float floatOf16(uint16_t bits, int64_t kind) {
  return kind == ElementKind::F16 ? floatOfF16(bits) : floatOfBf16(bits);
}

/// Copies rows by load(x, row, first feature), rounded to 16 bits, eight features a thread.
template <typename Load>
inline void copyMatrix(Shared16 to, int64_t rows, int64_t features, int64_t stride, bool transposes, int64_t kind,
                       Load load) {
  int64_t chunks = features / chunkElements;
  for (int64_t i = threadIndex(); i < rows * chunks; i += warpsOfMatrixTile * warpSize) {
    // Neighbouring threads store to neighbouring elements.
    int64_t row = transposes ? i % rows : i / chunks, first = (transposes ? i / rows : i % chunks) * chunkElements;
    float x[chunkElements];
    load(x, row, first);
    if (transposes) {
#pragma unroll
      for (int j = 0; j < chunkElements; ++j)
        to[(first + j) * stride + row] = roundTo16(x[j], kind);
      continue;
    }
    Vector<uint16_t, chunkElements> bits;
#pragma unroll
    for (int j = 0; j < chunkElements; ++j)
      bits[j] = roundTo16(x[j], kind);
    *(ITX_SHARED Vector<uint16_t, chunkElements> *)(to + row * stride + first) = bits;
  }
}

/// Stores the queries of a warp's rows, which load(x, row, first feature) gives, in parts, and what the products of
/// each row are multiplied by.
template <typename Load> inline void copyQueries(const MatrixShape &shape, float scale, Load load) {
  int64_t chunks = shape.depth() / chunkElements;
  for (int64_t row = warpIndex() * edge; row < warpIndex() * edge + edge; ++row) {
    float x[chunkElements], largest = 0;
    // Rows have at most 128 features: a chunk of them for each of 16 lanes.
    int64_t first = laneIndex() * chunkElements;
    bool has = laneIndex() < chunks;
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = 0;
    if (has)
      load(x, row, first);
    float factor = 1;
    if (shape.parts > 1) {
#pragma unroll
      for (int i = 0; i < chunkElements; ++i)
        largest = larger(largest, __builtin_fabsf(x[i]));
      // The power of two at or below the largest; rows of zeros and of what is no number stay as they are.
      largest = maximumOfLanes(largest, 1, warpSize);
      uint32_t exponent = __builtin_bit_cast(uint32_t, largest) & 0x7f800000;
      bool isUsual = exponent > 0x08000000 && exponent < 0x77000000;
      factor = isUsual ? __builtin_bit_cast(float, exponent) : 1;
    }
    if (laneIndex() == 0)
      shape.factors()[row] = factor * scale;
    if (!has)
      continue;
    float inverse = 1 / factor;
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] *= inverse;
#pragma unroll
    for (int part = 0; part < shape.parts; ++part) {
      Vector<uint16_t, chunkElements> bits;
#pragma unroll
      for (int i = 0; i < chunkElements; ++i) {
        bits[i] = roundTo16(x[i], shape.kind);
        x[i] -= floatOf16(bits[i], shape.kind);
      }
      *(ITX_SHARED Vector<uint16_t, chunkElements> *)(shape.queries(part) + row * shape.keyStride() + first) = bits;
    }
  }
}

inline void clear(const MatrixShape &shape, MatrixSums &sums) {
#pragma unroll
  for (int slot = 0; slot < laneRows; ++slot) {
    sums.maximum[slot] = lowest;
    sums.total[slot] = 0;
  }
#pragma unroll
  for (int block = 0; block < shape.valueBlocks(); ++block)
#pragma unroll
    for (int i = 0; i < sumElements; ++i)
      sums.value[block].element[i] = 0;
}

inline void multiplyKeys(const MatrixShape &shape, SumMatrix (&scores)[maximalKeyBlocks]) {
#pragma unroll
  for (int block = 0; block < shape.keyBlocks(); ++block)
#pragma unroll
    for (int i = 0; i < sumElements; ++i)
      scores[block].element[i] = 0;
#pragma unroll
  for (int64_t k = 0; k < shape.depth(); k += edge) {
    LeftMatrix left[maximalParts];
#pragma unroll
    for (int part = 0; part < shape.parts; ++part)
      left[part] = loadLeft(shape.queries(part) + warpIndex() * edge * shape.keyStride() + k, shape.keyStride());
#pragma unroll
    for (int block = 0; block < shape.keyBlocks(); ++block) {
      RightMatrix right = loadRight(shape.keyBlock() + block * edge * shape.keyStride() + k, shape.keyStride());
#pragma unroll
      for (int part = 0; part < shape.parts; ++part)
        multiplyAdd(scores[block], left[part], right, shape.kind);
    }
  }
}

/// Makes powers of the scores of a block of keys, and brings sums up to date.
inline void exponentiate(const MatrixShape &shape, SumMatrix (&scores)[maximalKeyBlocks], MatrixSums &sums) {
  float largest[laneRows], shift[laneRows], factor[laneRows];
#pragma unroll
  for (int slot = 0; slot < laneRows; ++slot)
    largest[slot] = lowest;
#pragma unroll
  for (int block = 0; block < shape.keyBlocks(); ++block)
#pragma unroll
    for (int i = 0; i < sumElements; ++i)
      largest[slotOf(i)] = larger(largest[slotOf(i)], scores[block].element[i]);
#pragma unroll
  for (int slot = 0; slot < laneRows; ++slot) {
    largest[slot] = larger(sums.maximum[slot], maximumOfLanes(largest[slot], 1, lanesOfRow));
    shift[slot] = shiftOf(largest[slot]);
    factor[slot] = exp2(sums.maximum[slot] - shift[slot]);
    sums.maximum[slot] = largest[slot];
    sums.total[slot] *= factor[slot];
  }
#pragma unroll
  for (int block = 0; block < shape.keyBlocks(); ++block)
#pragma unroll
    for (int i = 0; i < sumElements; ++i) {
      float power = exp2(scores[block].element[i] - shift[slotOf(i)]);
      scores[block].element[i] = power;
      sums.total[slotOf(i)] += power;
    }
#pragma unroll
  for (int block = 0; block < shape.valueBlocks(); ++block)
#pragma unroll
    for (int i = 0; i < sumElements; ++i)
      sums.value[block].element[i] *= factor[slotOf(i)];
}

inline void addValues(const MatrixShape &shape, const SumMatrix (&powers)[maximalKeyBlocks], MatrixSums &sums) {
#if !defined(__NVPTX__)
  // Lanes have other elements of a left matrix than of a sum: powers go through shared memory.
#pragma unroll
  for (int block = 0; block < shape.keyBlocks(); ++block)
#pragma unroll
    for (int i = 0; i < sumElements; ++i) {
      float x = powers[block].element[i];
#pragma unroll
      for (int part = 0; part < shape.parts; ++part) {
        uint16_t bits = roundTo16(x, shape.kind);
        shape.powers(warpIndex(), part)[rowOf(i) * shape.powerStride() + block * edge + columnOf(i)] = bits;
        x -= floatOf16(bits, shape.kind);
      }
    }
  warpBarrier();
#endif
#pragma unroll
  for (int k = 0; k < shape.keyBlocks(); ++k) {
    LeftMatrix left[maximalParts];
#if defined(__NVPTX__)
    float rest[sumElements];
#pragma unroll
    for (int i = 0; i < sumElements; ++i)
      rest[i] = powers[k].element[i];
#pragma unroll
    for (int part = 0; part < shape.parts; ++part) {
      uint16_t rounded[sumElements];
#pragma unroll
      for (int i = 0; i < sumElements; ++i) {
        rounded[i] = roundTo16(rest[i], shape.kind);
        rest[i] -= floatOf16(rounded[i], shape.kind);
      }
      left[part] = leftOfSum(rounded);
    }
#else
#pragma unroll
    for (int part = 0; part < shape.parts; ++part)
      left[part] = loadLeft(shape.powers(warpIndex(), part) + k * edge, shape.powerStride());
#endif
#pragma unroll
    for (int block = 0; block < shape.valueBlocks(); ++block) {
#if defined(__NVPTX__)
      RightMatrix right =
          loadRightRows(shape.valueBlock() + k * edge * shape.valueStride() + block * edge, shape.valueStride());
#else
      RightMatrix right =
          loadRight(shape.valueBlock() + block * edge * shape.valueStride() + k * edge, shape.valueStride());
#endif
#pragma unroll
      for (int part = 0; part < shape.parts; ++part)
        multiplyAdd(sums.value[block], left[part], right, shape.kind);
    }
  }
}

/// Adds the keys [begin, end) to the sums of the rows that see them. loadKey(x, key, feature) and loadValue give eight
/// features, score(product, row, key) what a product of a query and a key counts.
template <typename LoadKey, typename LoadValue, typename Score>
inline void addKeys(const MatrixShape &shape, int64_t begin, int64_t end, MatrixSums &sums, LoadKey loadKey,
                    LoadValue loadValue, Score score) {
  for (int64_t first = begin; first < end; first += shape.keys) {
    auto loadBlock = [&](auto load) {
      return [&, load](float (&x)[chunkElements], int64_t row, int64_t feature) {
        if (first + row < end) {
          load(x, first + row, feature);
          return;
        }
#pragma unroll
        for (int i = 0; i < chunkElements; ++i)
          x[i] = 0;
      };
    };
    // Queries are in shared memory, and nobody reads the block before.
    blockBarrier();
    copyMatrix(shape.keyBlock(), shape.keys, shape.depth(), shape.keyStride(), false, shape.kind, loadBlock(loadKey));
    copyMatrix(shape.valueBlock(), shape.keys, shape.valueBlocks() * edge, shape.valueStride(), transposesValues,
               shape.kind, loadBlock(loadValue));
    blockBarrier();
    SumMatrix scores[maximalKeyBlocks];
    multiplyKeys(shape, scores);
#pragma unroll
    for (int block = 0; block < shape.keyBlocks(); ++block)
#pragma unroll
      for (int i = 0; i < sumElements; ++i) {
        int key = int(first) + block * edge + columnOf(i), row = tileRowOf(i);
        bool isVisible = key >= sums.begin[slotOf(i)] && key < sums.end[slotOf(i)];
        float product = scores[block].element[i] * shape.factors()[row];
        scores[block].element[i] = isVisible ? score(product, row, key) : lowest;
      }
    exponentiate(shape, scores, sums);
    addValues(shape, scores, sums);
  }
}

/// Calls store(row, feature, x) for the results of a lane's rows. sinkOf(row) is one more score of the row, or
/// `lowest`.
template <typename SinkOf, typename Store>
inline void storeSums(const MatrixShape &shape, MatrixSums &sums, SinkOf sinkOf, Store store) {
#pragma unroll
  for (int slot = 0; slot < laneRows; ++slot) {
    float factor = 1, sink = sinkOf(tileRowOf(elementOfSlot(slot)));
    sums.total[slot] = sumLanes(sums.total[slot], 1, lanesOfRow);
    if (sink != lowest)
      addSink(sums.maximum[slot], sums.total[slot], factor, sink);
    factor *= inverseOf(sums.total[slot]);
#pragma unroll
    for (int block = 0; block < shape.valueBlocks(); ++block)
#pragma unroll
      for (int i = 0; i < sumElements; ++i) {
        int64_t feature = block * edge + columnOf(i);
        if (slotOf(i) == slot && feature < shape.valueFeatures)
          store(tileRowOf(i), feature, sums.value[block].element[i] * factor);
      }
  }
}

#endif
