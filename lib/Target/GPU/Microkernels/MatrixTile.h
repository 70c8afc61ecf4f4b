//===- MatrixTile.h - Attention of a tile of rows by matrix instructions -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of four warps has 64 or 128 rows, a warp 16 or 32. Queries are in registers if these suffice. While scores of
// a block of keys are computed its values are on their way to shared memory, and the next keys while values are added
// up. Keys and values are of 16 bits, or become it on the way. Queries of 32 bits that may not be rounded are two
// summands of f16 each, and so are powers of scores then: products are computed for both, so that results are those of
// f32 up to the order of sums. The larger summand has 11 bits, the smaller the next ones down to 2^-24 of the row's
// largest query.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_MATRIXTILE_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_MATRIXTILE_H

#include "Matrices.h"
#include "OnlineSoftmax.h"
#include "SwizzledPanels.h"

constexpr int warpsOfMatrixTile = 4, edge = 16;
constexpr int maximalRowBlocks = 2, maximalParts = 2, maximalKeyBlocks = 4, maximalValueBlocks = 8;
constexpr int maximalSlots = maximalRowBlocks * laneRows, maximalSteps = 128 / matrixDepth;
/// Sums that are a left matrix.
constexpr int blocksOfStep = matrixDepth / edge;
/// Elements behind a row in shared memory: rows begin at multiples of 16 bytes, and 8 of them use different banks.
constexpr int64_t padding16 = 8;

/// The sizes of a tile. All but the pointer are constants of a kernel.
struct MatrixShape {
  int64_t rowBlocks; ///< 16 rows each, of a warp
  int64_t keys;      ///< of a block, at most 64
  int64_t keyFeatures, valueFeatures;
  int64_t kind;       ///< of keys and values: f16 or bf16
  int64_t parts;      ///< summands of queries and powers
  bool keepsQueries;  ///< in shared memory
  bool scalesQueries; ///< a row's by a power of two, so that f16 has their range
  Shared16 shared;
  int64_t warps = warpsOfMatrixTile;

  int64_t threads() const { return warps * warpSize; }
  int64_t warpRows() const { return rowBlocks * edge; }
  int64_t rows() const { return warps * warpRows(); }
  int64_t keyBlocks() const { return keys / edge; }
  int64_t valueBlocks() const { return ceilDivide(valueFeatures, edge); }
  int64_t steps() const { return ceilDivide(keyFeatures, matrixDepth); }
  int64_t depth() const { return steps() * matrixDepth; }
  int64_t keyStride() const { return depth() + padding16; }
  int64_t valueStride() const { return (transposesValues ? keys : valueBlocks() * edge) + padding16; }
  // Parts of shared memory: keys and values take the place of queries that are in registers.
  int64_t queryStride() const { return depth() + (keepsQueries ? padding16 : 0); }
  Shared16 queries(int64_t part) const { return shared + part * rows() * queryStride(); }
  Shared16 keyBlock() const { return keepsQueries ? queries(parts) : shared; }
  Shared16 valueBlock() const { return keyBlock() + keys * keyStride(); }
};

struct MatrixSums {
  LeftMatrix query[maximalRowBlocks][maximalParts][maximalSteps];
  float scale[maximalSlots];                  ///< of products
  int begin[maximalSlots], end[maximalSlots]; ///< the keys that each row of the lane sees in this pass
  float maximum[maximalSlots];                ///< of scores; of products where scores are those times the scale
  float total[maximalSlots];                  ///< of the lane's keys
  SumMatrix value[maximalRowBlocks][maximalValueBlocks];
};

inline int warpIndex() { return threadIndex() / warpSize; }
/// Returns the row of the tile that an element of a lane's sums is in.
inline int64_t tileRowOf(const MatrixShape &shape, int rowBlock, int element) {
  return warpIndex() * shape.warpRows() + rowBlock * edge + rowOf(element);
}
/// Returns an element of the row `slot` of a lane.
inline int elementOfSlot(int slot) { return slot * 2; }

inline int64_t rowsOfThread(const MatrixShape &shape) { return shape.rowBlocks * laneRows; }
inline int64_t rowOfThread(const MatrixShape &shape, int slot) {
  return tileRowOf(shape, slot / laneRows, elementOfSlot(slot % laneRows));
}

inline float floatOf16(uint16_t bits, int64_t kind) {
  return kind == ElementKind::F16 ? floatOfF16(bits) : floatOfBf16(bits);
}

//===-- From global to shared memory ---------------------------------------------------------------------------===//

/// Eight elements of 16 bits.
using Chunk = Vector<uint32_t, 4>;
/// What a thread copies of a block of keys or values.
constexpr int maximalChunks = 8;
struct Chunks {
  Chunk chunk[maximalChunks];
};

/// Where a block goes.
struct BlockCopy {
  Shared16 to;
  int64_t rows, features, stride;
  bool transposes; ///< to [feature, depthOfSum(row)]
  int64_t kind;
  int64_t threads;
  bool swizzles = false; ///< rows are those of SwizzledPanels

  int64_t chunksOfRow() const { return features / chunkElements; }
  int64_t count() const { return ceilDivide(rows * chunksOfRow(), threads); }
  // The i-th chunk of a thread. If rows are transposed, two in turn are of neighbouring rows.
  int64_t numberOf(int64_t i) const { return threadIndex() + (transposes ? i / 2 : i) * threads; }
  int64_t rowOf(int64_t i) const {
    return transposes ? numberOf(i) % (rows / 2) * 2 + i % 2 : numberOf(i) / chunksOfRow();
  }
  int64_t featureOf(int64_t i) const {
    return (transposes ? numberOf(i) / (rows / 2) : numberOf(i) % chunksOfRow()) * chunkElements;
  }
  bool has(int64_t i) const { return numberOf(i) < (transposes ? rows / 2 : rows) * chunksOfRow(); }
  int64_t chunks() const { return transposes ? ceilDivide(count(), 2) * 2 : count(); }
  /// Returns where the i-th chunk, which begins at a feature, of a row that is not transposed goes.
  Shared16 target(int64_t i, int64_t feature) const {
    if (swizzles)
      return to + SwizzledPanels{rows, features}.offsetOf(rowOf(i), feature);
    return to + rowOf(i) * stride + feature;
  }
};
inline BlockCopy keyCopy(const MatrixShape &shape) {
  return {shape.keyBlock(), shape.keys, shape.depth(), shape.keyStride(), false, shape.kind, shape.threads()};
}
inline BlockCopy valueCopy(const MatrixShape &shape) {
  return {shape.valueBlock(), shape.keys,     shape.valueBlocks() * edge, shape.valueStride(), transposesValues,
          shape.kind,         shape.threads()};
}

inline Chunk roundChunk(const float (&x)[chunkElements], int64_t kind) {
  Chunk result;
#pragma unroll
  for (int i = 0; i < chunkElements / 2; ++i)
    result[i] = roundPair(x[2 * i], x[2 * i + 1], kind);
  return result;
}

/// Returns the elements [first, first + 8) of a row. A source has
///   bool isStored(kind)          rows are in memory as elements of this kind, eight of them at multiples of 16 bytes
///   Global at(row, first)        where they are, if so
///   int64_t features
///   void load(x, row, first)     otherwise
/// and, if elements may be of 8 bits or fewer,
///   bool hasBytesInRows()        they are, and eight neighbours become f16 together
///   Chunk loadHalves(row, first) those, if so
template <typename Source> inline Chunk loadChunk16(const Source &source, int64_t row, int64_t first, int64_t kind) {
  if (source.isStored(kind)) {
    // As one number: LLVM makes loads of single elements of a vector.
    auto bits = loadAs<unsigned __int128>(source.at(row, first), 0);
    return __builtin_bit_cast(Chunk, bits);
  }
  if constexpr (requires { source.loadHalves(row, first); })
    if (kind == ElementKind::F16 && source.hasBytesInRows())
      return source.loadHalves(row, first);
  float x[chunkElements];
  source.load(x, row, first);
  return roundChunk(x, kind);
}

template <typename Source> inline bool isAsynchronous(const BlockCopy &copy, const Source &source) {
  return copiesAsynchronously && source.isStored(copy.kind);
}

/// Begins to copy the rows [begin, begin + copy.rows) of a source. In place of those from `end` on, which count
/// nothing, it copies the last one; features behind a row's end are zero.
template <typename Source>
inline void beginCopy(const BlockCopy &copy, const Source &source, int begin, int end, Chunks &chunks) {
#pragma unroll
  for (int i = 0; i < copy.chunks(); ++i) {
    int row = begin + int(copy.rowOf(i)), first = int(copy.featureOf(i));
    row = row < end ? row : end - 1;
    if (!copy.has(i))
      continue;
    bool isInside = copy.features == source.features || first < source.features;
    if (isAsynchronous(copy, source)) {
      // Nothing is read where no byte is asked for.
      beginCopy(copy.target(i, first), source.at(row, isInside ? first : 0), isInside ? 16 : 0);
    } else {
      chunks.chunk[i] = isInside ? loadChunk16(source, row, first, copy.kind) : Chunk{0, 0, 0, 0};
    }
  }
}

/// Ends it: what this thread copied is in shared memory.
template <typename Source> inline void endCopy(const BlockCopy &copy, const Source &source, const Chunks &chunks) {
  if (isAsynchronous(copy, source)) {
    endCopies();
    return;
  }
  int step = copy.transposes ? 2 : 1;
#pragma unroll
  for (int i = 0; i < copy.chunks(); i += step) {
    if (!copy.has(i))
      continue;
    if (!copy.transposes) {
      *(ITX_SHARED Chunk *)copy.target(i, copy.featureOf(i)) = chunks.chunk[i];
      continue;
    }
    Shared16 to = copy.to + copy.featureOf(i) * copy.stride + depthOfSum(copy.rowOf(i));
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      uint32_t even = chunks.chunk[i][word], odd = chunks.chunk[i + 1][word];
      *(ITX_SHARED uint32_t *)(to + 2 * word * copy.stride) = (even & 0xffff) | odd << 16;
      *(ITX_SHARED uint32_t *)(to + (2 * word + 1) * copy.stride) = even >> 16 | (odd & 0xffff0000);
    }
  }
}

/// Stores queries that are a row's power of two times one or two summands each, a row after the other. What the
/// products of a row are multiplied by is kept by the lanes that have its sums.
template <typename Source>
inline void splitQueries(const MatrixShape &shape, float scale, const Source &source, MatrixSums &sums) {
  for (int64_t row = warpIndex() * shape.warpRows(); row < (warpIndex() + 1) * shape.warpRows(); ++row) {
    float x[chunkElements], largest = 0;
    // Rows have at most 128 features: a chunk of them for each of 16 lanes.
    int64_t first = laneIndex() * chunkElements;
    bool has = first < shape.depth();
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = 0;
    if (has && source.has(row) && first < source.features)
      source.load(x, row, first);
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      largest = larger(largest, __builtin_fabsf(x[i]));
    // The power of two at or below the largest; rows of zeros and of what is no number stay as they are.
    largest = maximumOfLanes(largest, 1, warpSize);
    uint32_t exponent = __builtin_bit_cast(uint32_t, largest) & 0x7f800000;
    bool isUsual = exponent > 0x08000000 && exponent < 0x77000000;
    float factor = isUsual ? __builtin_bit_cast(float, exponent) : 1;
#pragma unroll
    for (int slot = 0; slot < rowsOfThread(shape); ++slot)
      sums.scale[slot] = rowOfThread(shape, slot) == row ? factor * scale : sums.scale[slot];
    if (!has)
      continue;
    float inverse = 1 / factor;
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] *= inverse;
#pragma unroll
    for (int part = 0; part < shape.parts; ++part) {
      Chunk bits = roundChunk(x, shape.kind);
#pragma unroll
      for (int i = 0; i < chunkElements; ++i)
        x[i] -= floatOf16(uint16_t(bits[i / 2] >> i % 2 * 16), shape.kind);
      *(ITX_SHARED Chunk *)(shape.queries(part) + row * shape.queryStride() + first) = bits;
    }
  }
}

inline LeftMatrix loadQueries(const MatrixShape &shape, int rowBlock, int part, int step) {
  int64_t row = warpIndex() * shape.warpRows() + rowBlock * edge;
  return loadLeft(shape.queries(part) + row * shape.queryStride() + step * matrixDepth, shape.queryStride());
}

/// Brings queries to where they stay, and begins sums.
template <typename Source>
inline void begin(const MatrixShape &shape, float scale, const Source &source, MatrixSums &sums) {
#pragma unroll
  for (int slot = 0; slot < rowsOfThread(shape); ++slot)
    sums.scale[slot] = scale;
  if (shape.scalesQueries) {
    splitQueries(shape, scale, source, sums);
  } else {
    int64_t chunks = shape.depth() / chunkElements;
    for (int64_t i = threadIndex(); i < shape.rows() * chunks; i += shape.threads()) {
      int64_t row = i / chunks, first = i % chunks * chunkElements;
      bool isInside = source.has(row) && first < source.features;
      *(ITX_SHARED Chunk *)(shape.queries(0) + row * shape.queryStride() + first) =
          isInside ? loadChunk16(source, row, first, shape.kind) : Chunk{0, 0, 0, 0};
    }
  }
  blockBarrier();
#pragma unroll
  for (int rows = 0; rows < shape.rowBlocks; ++rows) {
    if (!shape.keepsQueries)
#pragma unroll
      for (int part = 0; part < shape.parts; ++part)
#pragma unroll
        for (int step = 0; step < shape.steps(); ++step)
          sums.query[rows][part][step] = loadQueries(shape, rows, part, step);
#pragma unroll
    for (int block = 0; block < shape.valueBlocks(); ++block)
      sums.value[rows][block] = 0;
  }
#pragma unroll
  for (int slot = 0; slot < rowsOfThread(shape); ++slot) {
    sums.maximum[slot] = lowest;
    sums.total[slot] = 0;
  }
  // Nobody reads queries from shared memory any more.
  blockBarrier();
}

//===-- Scores and sums ----------------------------------------------------------------------------------------===//

using Scores = SumMatrix[maximalRowBlocks][maximalKeyBlocks];

inline void multiplyKeys(const MatrixShape &shape, const MatrixSums &sums, Scores &scores) {
#pragma unroll
  for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
    for (int block = 0; block < shape.keyBlocks(); ++block)
      scores[rows][block] = 0;
  auto multiplyStep = [&](int step) {
    LeftMatrix query[maximalRowBlocks][maximalParts];
#pragma unroll
    for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
      for (int part = 0; part < shape.parts; ++part)
        query[rows][part] = shape.keepsQueries ? loadQueries(shape, rows, part, step) : sums.query[rows][part][step];
#pragma unroll
    for (int block = 0; block < shape.keyBlocks(); ++block) {
      RightMatrix right =
          loadRight(shape.keyBlock() + block * edge * shape.keyStride() + step * matrixDepth, shape.keyStride());
#pragma unroll
      for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
        for (int part = 0; part < shape.parts; ++part)
          multiplyAdd(scores[rows][block], query[rows][part], right, shape.kind);
    }
  };
  if (shape.keepsQueries) {
    // Unrolled, LLVM would load the queries of all steps first.
#pragma unroll 1
    for (int step = 0; step < shape.steps(); ++step)
      multiplyStep(step);
  } else {
#pragma unroll
    for (int step = 0; step < shape.steps(); ++step)
      multiplyStep(step);
  }
}

/// True if scores are products times a positive scale, which is then left to the exponent.
template <typename Score> inline bool scalesInExponent(float scale, const Score &score) {
  return score.isProduct() && scale > 0;
}

/// Makes scores of the products of the block of keys from `first` on; those of keys that a row does not see are the
/// lowest.
template <typename Score>
inline void scoreProducts(const MatrixShape &shape, int first, float scale, const MatrixSums &sums, const Score &score,
                          Scores &scores) {
  if (!scalesInExponent(scale, score)) {
#pragma unroll
    for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
      for (int block = 0; block < shape.keyBlocks(); ++block)
#pragma unroll
        for (int i = 0; i < sumElements; ++i) {
          int key = first + block * edge + columnOf(i), slot = rows * laneRows + slotOf(i);
          // Scores may read what is there for visible keys only.
          bool isVisible = key >= sums.begin[slot] && key < sums.end[slot];
          float x = scores[rows][block][i] * sums.scale[slot];
          scores[rows][block][i] = isVisible ? score(x, tileRowOf(shape, rows, i), key) : lowest;
        }
    return;
  }
  bool seesAll = true;
#pragma unroll
  for (int slot = 0; slot < rowsOfThread(shape); ++slot)
    seesAll &= first >= sums.begin[slot] && first + int(shape.keys) <= sums.end[slot];
  if (seesAll)
    return;
#pragma unroll
  for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
    for (int block = 0; block < shape.keyBlocks(); ++block)
#pragma unroll
      for (int i = 0; i < sumElements; ++i) {
        int key = first + block * edge + columnOf(i), slot = rows * laneRows + slotOf(i);
        bool isVisible = key >= sums.begin[slot] && key < sums.end[slot];
        scores[rows][block][i] = isVisible ? scores[rows][block][i] : lowest;
      }
}

/// Calls use(i) for the elements of a sum that are in a row of the lane.
template <typename Use> inline void forElements(int laneRow, Use use) {
#pragma unroll
  for (int i = 0; i < sumElements; ++i)
    if (slotOf(i) == laneRow)
      use(i);
}

/// Makes powers of the scores of a block of keys, and brings all but the sums of values up to date: rescale(rows,
/// factors) is to multiply those of some rows.
template <typename Rescale>
inline void exponentiate(const MatrixShape &shape, bool scalesInExponent, Scores &scores, MatrixSums &sums,
                         Rescale rescale) {
#pragma unroll
  for (int rows = 0; rows < shape.rowBlocks; ++rows) {
    // What each element of a sum is multiplied by, or has added: vectors are computed by fewer instructions where there
    // are such for two elements.
    SumMatrix scales, shifts, factors, totals = 0;
#pragma unroll
    for (int laneRow = 0; laneRow < laneRows; ++laneRow) {
      int slot = rows * laneRows + laneRow;
      float largest = lowest;
#pragma unroll
      for (int block = 0; block < shape.keyBlocks(); ++block)
        forElements(laneRow, [&](int i) { largest = larger(largest, scores[rows][block][i]); });
      largest = larger(sums.maximum[slot], maximumOfLanes(largest, rowLanesBegin, rowLanesEnd));
      float scale = scalesInExponent ? sums.scale[slot] : 1, shift = -shiftOf(largest) * scale;
      float factor = exp2(fma(sums.maximum[slot], scale, shift));
      sums.maximum[slot] = largest;
      sums.total[slot] *= factor;
      forElements(laneRow, [&](int i) {
        scales[i] = scale;
        shifts[i] = shift;
        factors[i] = factor;
      });
    }
#pragma unroll
    for (int block = 0; block < shape.keyBlocks(); ++block) {
      SumMatrix exponents = __builtin_elementwise_fma(scores[rows][block], scales, shifts);
#pragma unroll
      for (int i = 0; i < sumElements; ++i)
        scores[rows][block][i] = exp2(exponents[i]);
      totals += scores[rows][block];
    }
#pragma unroll
    for (int laneRow = 0; laneRow < laneRows; ++laneRow)
      forElements(laneRow, [&](int i) { sums.total[rows * laneRows + laneRow] += totals[i]; });
    rescale(rows, factors);
  }
}

inline void multiplySums(const MatrixShape &shape, int rows, const SumMatrix &factors, MatrixSums &sums) {
#pragma unroll
  for (int block = 0; block < shape.valueBlocks(); ++block)
    sums.value[rows][block] *= factors;
}

/// Returns the left matrix of a summand of the powers of some blocks of keys, and takes it from them.
inline LeftMatrix takePart(SumMatrix (&powers)[maximalKeyBlocks], int firstBlock, const MatrixShape &shape) {
  uint32_t rounded[blocksOfStep * sumElements / 2];
#pragma unroll
  for (int block = 0; block < blocksOfStep; ++block)
#pragma unroll
    for (int i = 0; i < sumElements; i += 2) {
      SumMatrix &x = powers[firstBlock + block];
      uint32_t pair = roundPair(x[i], x[i + 1], shape.kind);
      rounded[(block * sumElements + i) / 2] = pair;
      if (shape.parts > 1) {
        x[i] -= floatOf16(uint16_t(pair), shape.kind);
        x[i + 1] -= floatOf16(uint16_t(pair >> 16), shape.kind);
      }
    }
  return leftOfSums(rounded);
}

inline void addValues(const MatrixShape &shape, Scores &powers, MatrixSums &sums) {
#pragma unroll
  for (int step = 0; step < shape.keyBlocks() / blocksOfStep; ++step) {
    LeftMatrix left[maximalRowBlocks][maximalParts];
#pragma unroll
    for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
      for (int part = 0; part < shape.parts; ++part)
        left[rows][part] = takePart(powers[rows], step * blocksOfStep, shape);
#pragma unroll
    for (int block = 0; block < shape.valueBlocks(); ++block) {
#if defined(__NVPTX__)
      RightMatrix right =
          loadRightRows(shape.valueBlock() + step * edge * shape.valueStride() + block * edge, shape.valueStride());
#else
      RightMatrix right =
          loadRight(shape.valueBlock() + block * edge * shape.valueStride() + step * matrixDepth, shape.valueStride());
#endif
#pragma unroll
      for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
        for (int part = 0; part < shape.parts; ++part)
          multiplyAdd(sums.value[rows][block], left[rows][part], right, shape.kind);
    }
  }
}

/// Adds the keys [begin, end) to the sums of the rows that see them. Keys and values are sources; score(product, row,
/// key) is what a product of a query and a key counts, and score.isProduct() that it counts as it is.
template <typename Keys, typename Values, typename Score>
inline void addKeys(const MatrixShape &shape, int64_t begin, int64_t end, float scale, MatrixSums &sums,
                    const Keys &keys, const Values &values, const Score &score) {
  BlockCopy toKeys = keyCopy(shape), toValues = valueCopy(shape);
  Chunks chunks;
  if (begin < end)
    beginCopy(toKeys, keys, int(begin), int(end), chunks);
  // Positions fit 32 bits: a row of them is in memory.
#pragma unroll 1
  for (int first = int(begin); first < int(end); first += int(shape.keys)) {
    endCopy(toKeys, keys, chunks);
    // Nobody reads the values of the block before.
    blockBarrier();
    beginCopy(toValues, values, first, int(end), chunks);
    Scores scores;
    multiplyKeys(shape, sums, scores);
    scoreProducts(shape, first, scale, sums, score, scores);
    exponentiate(shape, scalesInExponent(scale, score), scores, sums,
                 [&](int rows, const SumMatrix &factors) { multiplySums(shape, rows, factors, sums); });
    endCopy(toValues, values, chunks);
    // Nobody reads the keys any more.
    blockBarrier();
    if (first + int(shape.keys) < int(end))
      beginCopy(toKeys, keys, first + int(shape.keys), int(end), chunks);
    addValues(shape, scores, sums);
  }
}

/// Calls store(row, feature, x) with `runElements` neighbouring results of a lane's rows. sinkOf(row) is one more score
/// of the row, or `lowest`.
template <typename Score, typename SinkOf, typename Store>
inline void storeSums(const MatrixShape &shape, float scale, const Score &score, MatrixSums &sums, SinkOf sinkOf,
                      Store store) {
#pragma unroll
  for (int rows = 0; rows < shape.rowBlocks; ++rows)
#pragma unroll
    for (int laneRow = 0; laneRow < laneRows; ++laneRow) {
      int slot = rows * laneRows + laneRow;
      int64_t row = rowOfThread(shape, slot);
      float factor = 1, sink = sinkOf(row), total = sumLanes(sums.total[slot], rowLanesBegin, rowLanesEnd);
      float maximum = sums.maximum[slot] * (scalesInExponent(scale, score) ? sums.scale[slot] : 1);
      if (sink != lowest)
        addSink(maximum, total, factor, sink);
      factor *= inverseOf(total);
#pragma unroll
      for (int block = 0; block < shape.valueBlocks(); ++block)
#pragma unroll
        for (int i = 0; i < sumElements; i += runElements) {
          if (slotOf(i) != laneRow)
            continue;
          float x[runElements];
#pragma unroll
          for (int j = 0; j < runElements; ++j)
            x[j] = sums.value[rows][block][i + j] * factor;
          store(row, block * edge + columnOf(i), x);
        }
    }
}

#endif
