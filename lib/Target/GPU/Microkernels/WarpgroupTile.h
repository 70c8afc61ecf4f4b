//===- WarpgroupTile.h - Attention of a tile of rows by matrix instructions of four warps ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups of four warps have 64 rows each, and share the keys and values that a block reads: the more rows read a block
// of keys, the less L2 has to deliver. Queries and powers are registers. Keys are in two buffers of shared memory,
// values in three. While powers are made of the scores of a block of keys, the values of the block before are added up
// (arXiv 2407.08608, section 3.2), and the keys after it and its values are on their way.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_MICROKERNELS_WARPGROUPTILE_H
#define INTARSIA_LIB_TARGET_GPU_MICROKERNELS_WARPGROUPTILE_H

#include "MatrixTile.h"
#include "WarpgroupMatrices.h"

/// Buffers of keys, and of values: when those of a block begin to arrive, the other group of warps may still add up the
/// values of two blocks before.
constexpr int keyBuffers = 2, valueBuffers = 3;

/// The sizes of a tile. Shared memory holds queries at first, as that of MatrixShape does.
struct WarpgroupShape : MatrixShape {
  SwizzledPanels keyPanels() const { return {keys, depth()}; }
  SwizzledPanels valuePanels() const { return {keys, valueBlocks() * edge}; }
  Shared16 keyBlock(int buffer) const { return shared + buffer * keys * depth(); }
  Shared16 valueBlock(int buffer) const { return keyBlock(keyBuffers) + buffer * keys * valueBlocks() * edge; }
  BlockCopy keyCopy(int buffer) const { return copyTo(keyBlock(buffer), depth()); }
  BlockCopy valueCopy(int buffer) const { return copyTo(valueBlock(buffer), valueBlocks() * edge); }

private:
  BlockCopy copyTo(Shared16 to, int64_t features) const {
    return {to, keys, features, /*stride=*/0, /*transposes=*/false, kind, threads(), /*swizzles=*/true};
  }
};

/// Powers of a block of keys, as left matrices.
using Powers = LeftMatrix[scoreBlocks][maximalParts];

/// Begins to multiply queries by the keys of a buffer.
inline void beginProducts(const WarpgroupShape &shape, const MatrixSums &sums, int buffer, Scores &scores) {
  SwizzledPanels panels = shape.keyPanels();
  uint64_t keys = descriptorOf(panels, shape.keyBlock(buffer));
#pragma unroll
  for (int step = 0; step < shape.steps(); ++step)
#pragma unroll
    for (int part = 0; part < shape.parts; ++part)
      beginScores(scores[0], sums.query[0][part][step], advance(keys, panels.offsetOf(0, step * matrixDepth)),
                  shape.kind, step == 0 && part == 0);
  commitProducts();
}

/// Begins to add up the values of a buffer.
inline void beginValues(const WarpgroupShape &shape, const Powers &powers, int buffer, MatrixSums &sums) {
  SwizzledPanels panels = shape.valuePanels();
  uint64_t values = descriptorOf(panels, shape.valueBlock(buffer));
#pragma unroll
  for (int step = 0; step < shape.keyBlocks(); ++step)
#pragma unroll
    for (int part = 0; part < shape.parts; ++part)
      beginSums(sums.value[0], shape.valueBlocks(), powers[step][part],
                advance(values, step * matrixDepth * panels.width()), shape.kind);
  commitProducts();
}

inline void roundPowers(const WarpgroupShape &shape, Scores &scores, Powers &powers) {
#pragma unroll
  for (int step = 0; step < shape.keyBlocks(); ++step)
#pragma unroll
    for (int part = 0; part < shape.parts; ++part)
      powers[step][part] = takePart(scores[0], step, shape);
}

/// Waits until what all threads copied or stored is in shared memory, and matrix instructions see it.
inline void meet() {
  fenceSharedWrites();
  blockBarrier();
}

/// Adds the keys [begin, end) to the sums of the rows that see them, as addKeys() of MatrixTile.h does.
template <typename Keys, typename Values, typename Score>
inline void addKeys(const WarpgroupShape &shape, int64_t begin, int64_t end, float scale, MatrixSums &sums,
                    const Keys &keys, const Values &values, const Score &score) {
  if (begin >= end)
    return;
  int first = int(begin), last = int(end), step = int(shape.keys);
  // The buffers of the keys from `first` on, and of the values of the keys before them.
  int keyBuffer = 0, valueBuffer = valueBuffers - 1;
  Chunks keyChunks, valueChunks;
  Scores scores;
  Powers powers;
  SumMatrix factors;
  auto nextBuffer = [&] { return valueBuffer == valueBuffers - 1 ? 0 : valueBuffer + 1; };
  // Brings the next keys, and the values of these.
  auto beginCopies = [&] {
    if (first + step < last)
      beginCopy(shape.keyCopy(1 - keyBuffer), keys, first + step, last, keyChunks);
    beginCopy(shape.valueCopy(nextBuffer()), values, first, last, valueChunks);
  };
  auto makePowers = [&] {
    scoreProducts(shape, first, scale, sums, score, scores);
    exponentiate(shape, scalesInExponent(scale, score), scores, sums,
                 [&](int, const SumMatrix &ofRows) { factors = ofRows; });
  };
  // Waits for the values that were multiplied by the powers before.
  auto takePowers = [&] {
    waitForSums(sums.value[0], shape.valueBlocks());
    useScoresFromHere(scores[0]);
    roundPowers(shape, scores, powers);
  };
  beginCopy(shape.keyCopy(keyBuffer), keys, first, last, keyChunks);
  endCopy(shape.keyCopy(keyBuffer), keys, keyChunks);
  meet();
  beginCopies();
  fenceRegisters();
  beginProducts(shape, sums, keyBuffer, scores);
  waitForScores(scores[0], /*othersGoOn=*/false);
  makePowers();
#pragma unroll 1
  for (first += step; first < last; first += step) {
    keyBuffer = 1 - keyBuffer;
    valueBuffer = nextBuffer();
    endCopy(shape.keyCopy(keyBuffer), keys, keyChunks);
    endCopy(shape.valueCopy(valueBuffer), values, valueChunks);
    meet();
    // Not before: ptxas moves a wait up to the last barrier, and values would not be added up beside makePowers().
    takePowers();
    beginCopies();
    fenceRegisters();
    beginProducts(shape, sums, keyBuffer, scores);
    multiplySums(shape, 0, factors, sums);
    fenceRegisters();
    beginValues(shape, powers, valueBuffer, sums);
    waitForScores(scores[0], /*othersGoOn=*/true);
    makePowers();
  }
  valueBuffer = nextBuffer();
  endCopy(shape.valueCopy(valueBuffer), values, valueChunks);
  meet();
  takePowers();
  multiplySums(shape, 0, factors, sums);
  fenceRegisters();
  beginValues(shape, powers, valueBuffer, sums);
  waitForSums(sums.value[0], shape.valueBlocks());
}

#endif
