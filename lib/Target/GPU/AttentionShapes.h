//===- AttentionShapes.h - How attention is cut into units and tiles ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Microkernels rely on these numbers: CachedAttentionDecode.cpp, AttentionTile.h and MatrixTile.h say how.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_ATTENTIONSHAPES_H
#define INTARSIA_LIB_TARGET_GPU_ATTENTIONSHAPES_H

#include "lib/Target/GPU/Architecture.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cstdint>
#include <optional>

namespace intarsia::gpu {

inline constexpr int64_t threadsOfTile = 128;
/// Warps of a tile that is computed by matrix instructions, and rows and columns of what these multiply.
inline constexpr int64_t warpsOfMatrixTile = 4, matrixEdge = 16;
/// The same of two groups of four warps, and the keys of a block, which are the columns of an instruction.
inline constexpr int64_t warpsOfWarpgroups = 8, warpgroupKeys = 64;

/// The tile of a block, and what its microkernel takes before shared memory.
struct AttentionTile {
  int64_t rows, keys, threads, sharedBytes;
  bool byWarpgroups;
  llvm::SmallVector<int64_t, 5> arguments;
};

/// What matrix instructions multiply: a kind of elements, and the summands of 16 bits that queries and powers have.
struct AttentionProducts {
  int64_t kind, parts;
  bool areConverted; ///< keys or values are of another type in memory
  bool byWarpgroups; ///< by instructions of four warps
};

/// The features of a head, and what follows from them.
struct AttentionShape {
  AttentionShape(int64_t keyFeatures, int64_t valueFeatures) : keyFeatures(keyFeatures), valueFeatures(valueFeatures) {}

  /// Returns true if there are microkernels for heads of these sizes.
  bool fits(int64_t warpSize) const {
    return keyFeatures > 0 && valueFeatures > 0 && largest() <= largestFeatures && chunks(warpSize) <= 2;
  }

  // Single tokens: a lane has chunks of eight features.
  int64_t lanesOfTeam(int64_t warpSize) const {
    return std::min<int64_t>(warpSize, llvm::PowerOf2Ceil(llvm::divideCeil(largest(), 8)));
  }
  int64_t chunks(int64_t warpSize) const { return llvm::divideCeil(largest(), 8 * lanesOfTeam(warpSize)); }
  /// Query heads of a unit: a lane has registers for 64 features of queries and as many of sums.
  int64_t decodeRows(int64_t group, int64_t warpSize) const { return std::min(group, 8 / chunks(warpSize)); }

  // Tiles: queries, a block of keys and its powers take at most 51 KiB of shared memory, 36 KiB with up to 64 features
  // and 39 KiB with up to 128, so that a multiprocessor has room for two blocks or more.
  int64_t tileRows() const { return largest() <= 64 ? 64 : largest() <= 128 ? 32 : 16; }
  int64_t tileKeys() const { return largest() <= 128 ? 32 : largest() <= 256 ? 16 : 8; }
  int64_t sharedBytesOfTile() const {
    int64_t keyRow = llvm::alignTo(keyFeatures, 8) + padding, valueRow = llvm::alignTo(valueFeatures, 32) + padding;
    return 4 * (tileRows() * keyRow + tileKeys() * std::max(keyRow, valueRow) + tileRows() * (tileKeys() + padding));
  }

  // Tiles by matrix instructions. `parts` are the summands of 16 bits that queries and powers have; `areConverted` says
  // that keys or values are of another type in memory than what is multiplied. Of rows a warp has
  // as many as its registers hold queries and sums for; the more, the less is read of shared memory for each. Of keys
  // as many as leave room for two blocks in shared memory of 64 KiB on AMD's GPUs, and for three on NVIDIA's.
  bool fitsMatrices() const { return largest() <= 128; }
  int64_t rowBlocks(const Architecture &architecture, int64_t parts) const {
    return architecture.warpSize == 64 && parts == 1 ? 2 : 1;
  }
  int64_t matrixRows(const Architecture &architecture, int64_t parts) const {
    return warpsOfMatrixTile * matrixEdge * rowBlocks(architecture, parts);
  }
  int64_t matrixKeys(const Architecture &architecture, int64_t parts, bool areConverted) const {
    return architecture.vendor == Vendor::Nvidia && parts == 1 && !fillsRegisters(areConverted) ? 64 : 32;
  }
  /// Returns true if queries stay in shared memory: registers of 32 lanes hold one summand of them.
  bool keepsQueries(const Architecture &architecture, int64_t parts, bool areConverted) const {
    return (architecture.warpSize == 32 && parts > 1) ||
           (architecture.vendor == Vendor::Nvidia && fillsRegisters(areConverted));
  }
  int64_t sharedBytesOfMatrices(const Architecture &architecture, int64_t parts, bool areConverted) const {
    int64_t depth = llvm::alignTo(keyFeatures, architecture.warpSize == 64 ? 32 : 16);
    int64_t rows = matrixRows(architecture, parts), keys = matrixKeys(architecture, parts, areConverted);
    bool keeps = keepsQueries(architecture, parts, areConverted);
    int64_t queries = parts * rows * (depth + (keeps ? padding16 : 0)) * 2;
    int64_t features = llvm::alignTo(valueFeatures, 16);
    int64_t values =
        architecture.vendor == Vendor::Nvidia ? keys * (features + padding16) : features * (keys + padding16);
    int64_t block = (keys * (depth + padding16) + values) * 2;
    return keeps ? queries + block : std::max(queries, block);
  }

  // Tiles by matrix instructions of four warps, of which two groups share a block of keys: its rows then need half of
  // what L2 delivers to those of one group, and registers have room for one block of a multiprocessor anyway. Two
  // buffers of keys and three of values take the place of queries.
  int64_t warpgroupRows() const { return warpsOfWarpgroups * matrixEdge; }
  int64_t sharedBytesOfWarpgroups(int64_t parts) const {
    int64_t depth = llvm::alignTo(keyFeatures, 16), features = llvm::alignTo(valueFeatures, 16);
    int64_t queries = parts * warpgroupRows() * depth * 2;
    return std::max(queries, warpgroupKeys * (2 * depth + 3 * features) * 2);
  }

  /// Returns the tile for products by matrix instructions, or in f32.
  AttentionTile tileFor(const Architecture &architecture, const std::optional<AttentionProducts> &products) const {
    if (!products)
      return {tileRows(), tileKeys(), threadsOfTile, sharedBytesOfTile(), false, {tileRows(), tileKeys()}};
    auto [kind, parts, areConverted, byWarpgroups] = *products;
    if (byWarpgroups)
      return {warpgroupRows(),
              warpgroupKeys,
              warpsOfWarpgroups * architecture.warpSize,
              sharedBytesOfWarpgroups(parts),
              true,
              {warpsOfWarpgroups, warpgroupKeys, kind, parts}};
    int64_t keys = matrixKeys(architecture, parts, areConverted);
    return {matrixRows(architecture, parts),
            keys,
            warpsOfMatrixTile * architecture.warpSize,
            sharedBytesOfMatrices(architecture, parts, areConverted),
            false,
            {rowBlocks(architecture, parts), keys, kind, parts, keepsQueries(architecture, parts, areConverted)}};
  }

  int64_t keyFeatures, valueFeatures;

private:
  static constexpr int64_t padding16 = 8;
  static constexpr int64_t padding = 4, largestFeatures = 512;
  /// True if rows pass through registers on their way to shared memory and have more features than leave room there.
  bool fillsRegisters(bool areConverted) const { return areConverted && largest() > 64; }
  int64_t largest() const { return std::max(keyFeatures, valueFeatures); }
};

} // namespace intarsia::gpu

#endif
