//===- CachedAttentionTiles.cpp - Attention of many tokens over paged caches -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tile is some tokens and some of the query heads that share a head of keys. Tokens that follow one another in the
// same sequence form a run, which passes over the keys of its sequence; rows of other runs see none of them.
//===----------------------------------------------------------------------------------------------------------===//
#include "AttentionTile.h"
#include "CachedAttention.h"
#include "MatrixTile.h"
#if defined(__NVPTX__)
#include "WarpgroupTile.h"
#endif

namespace {

/// A tile: rows are tokens times heads, the heads of a token side by side.
struct CachedTile {
  const CachedAttention &call;
  int64_t heads;              ///< of a row's token in the tile
  int64_t keyHead, firstHead; ///< the first query head
  int64_t headCount;          ///< query heads that there are; the others are computed for nothing
  int64_t firstToken, tokens; ///< of the tile

  int64_t tokenOf(int64_t row) const { return firstToken + row / heads; }
  int64_t headOf(int64_t row) const { return firstHead + row % heads; }
  bool has(int64_t row) const { return row / heads < tokens && row % heads < headCount; }
};

/// The queries of a tile.
struct QueryRows {
  const CachedTile &tile;
  int64_t features;

  const TokenRows &queries() const { return tile.call.query; }
  bool has(int64_t row) const { return tile.has(row); }
  bool isStored(int64_t kind) const {
    return kind == queries().kind && queries().hasAlignedRows() && features % chunkElements == 0;
  }
  Global at(int64_t row, int64_t first) const {
    return queries().data + (queries().offsetOf(tile.tokenOf(row), tile.headOf(row)) + first) * queries().bytes();
  }
  void load(float (&x)[chunkElements], int64_t row, int64_t first) const {
    if (queries().hasAlignedRows()) {
      loadChunk(x, at(row, 0), first, features, queries().kind, true);
      return;
    }
#pragma unroll
    for (int i = 0; i < chunkElements; ++i)
      x[i] = first + i < features ? queries().at(tile.tokenOf(row), tile.headOf(row), first + i) : 0;
  }
};

/// The rows of a sequence's pages, by their positions.
template <bool isKey> struct PageRows {
  const CachedAttention &call;
  int64_t sequence, head, features;

  const Pages &pages() const { return isKey ? call.keys : call.values; }
  bool isStored(int64_t kind) const {
    return kind == pages().kind && !pages().isTransposed && features % chunkElements == 0;
  }
  Global at(int64_t position, int64_t first) const {
    int64_t physical = call.physicalPage(sequence, position / pages().page);
    return pages().at(physical, head) + pages().bytesOf(position % pages().page * features + first);
  }
  void load(float (&x)[chunkElements], int64_t position, int64_t first) const {
    int64_t physical = call.physicalPage(sequence, position / pages().page), slot = position % pages().page;
    loadFeatures(x, pages(), pages().at(physical, head), slot, first);
    if (isQuantized(pages().kind))
      scaleFeatures(x, physical, slot, first);
  }
  bool hasBytesInRows() const {
    bool hasBytes = isQuantized(pages().kind) || pages().kind == ElementKind::E4M3;
    return hasBytes && !pages().isTransposed && features % chunkElements == 0;
  }
  Chunk loadHalves(int64_t position, int64_t first) const {
    int64_t physical = call.physicalPage(sequence, position / pages().page), slot = position % pages().page;
    uint64_t bytes = loadBytes(pages().at(physical, head) + slot * pages().bytesOf(features), first, pages().kind);
    if (pages().kind == ElementKind::E4M3)
      return halvesOfE4M3(bytes);
    // Zeros of 4 bits have a sign: they and the elements are 128 larger instead.
    bool hasSign = pages().kind == ElementKind::UI4;
    if (hasSign)
      bytes |= 0x8080808080808080;
    if constexpr (isKey) {
      Global parameters = pages().parametersAt(physical, head, features) + first;
      uint64_t scales = loadAs<uint64_t>(parameters, 0), zeros = loadAs<uint64_t>(parameters + features, 0);
      return dequantizeBytes(bytes, spreadBytes(hasSign ? zeros ^ 0x8080808080808080 : zeros, upperOf1024),
                             spreadBytes(scales, 0) << scaleShift);
    } else {
      Global parameters = pages().parametersAt(physical, head, pages().page) + slot;
      uint32_t scale = parameters[0], zero = parameters[pages().page];
      // The same in both halves of a word.
      Chunk scales = (scale | scale << 16) << scaleShift, zeros = (zero | zero << 16) | (upperOf1024 & 0xff00ff00);
      return dequantizeBytes(bytes, hasSign ? zeros ^ 0x00800080 : zeros, scales);
    }
  }

private:
  /// Keys have parameters for each feature, values for each position of a page.
  void scaleFeatures(float (&x)[chunkElements], int64_t physical, int64_t slot, int64_t first) const {
    int64_t groups = isKey ? features : pages().page;
    Global parameters = pages().parametersAt(physical, head, groups);
    bool isWhole = isKey && features % chunkElements == 0, hasChunk = isWhole && first < features;
    uint64_t scales = hasChunk ? loadAs<uint64_t>(parameters + first, 0) : 0;
    uint64_t zeros = hasChunk ? loadAs<uint64_t>(parameters + groups + first, 0) : 0;
#pragma unroll
    for (int i = 0; i < chunkElements; ++i) {
      int64_t group = isKey ? first + i : slot;
      bool isInside = !isWhole && group < groups;
      uint8_t scale = isInside ? parameters[group] : uint8_t(scales >> 8 * i);
      uint8_t zero = isInside ? parameters[groups + group] : uint8_t(zeros >> 8 * i);
      x[i] = (x[i] - (magic + floatOfZero(zero, pages().kind))) * floatOfScale(scale);
    }
  }
};

/// Keys of the page that each token of a run is in, by their positions: of this call, or of the sequence's tail.
struct NewKeyRows {
  const CachedAttention &call;
  int64_t sequence, head, features, firstToken, firstPosition;

  bool isStored(int64_t) const { return false; }
  Global at(int64_t, int64_t) const { return call.tail; }
  void load(float (&x)[chunkElements], int64_t position, int64_t first) const {
    call.loadNewKey(x, firstToken + (position - firstPosition), sequence, position, head, first);
  }
};

struct CachedScore {
  const CachedAttention &call;

  bool isProduct() const { return call.softCap == 0; }
  float operator()(float product, int64_t, int64_t) const { return call.scoreOf(product); }
};

/// Returns how many tokens from `first` on are a run. Those that read keys of this call have successive positions.
int64_t countRun(const CachedTile &tile, int64_t first) {
  const CachedAttention &call = tile.call;
  int64_t sequence = call.sequence(first), position = call.position(first), count = 1;
  while (first + count < tile.firstToken + tile.tokens && call.sequence(first + count) == sequence &&
         (!call.hasTail || call.position(first + count) == position + count))
    ++count;
  return count;
}

/// Adds what the tokens [first, first + count) see. With `isNew` that is the keys of the page that each is in, else, if
/// there is a tail, those of the pages before it.
template <typename Shape, typename Sums>
void addRun(const CachedTile &tile, const Shape &shape, int64_t first, int64_t count, bool isNew, Sums &sums) {
  const CachedAttention &call = tile.call;
  int64_t page = call.keys.page, sequence = call.sequence(first), firstPosition = call.position(first);
  auto beginOf = [&](int64_t position) {
    int64_t begin = call.firstVisible(position);
    return isNew ? larger(begin, position / page * page) : begin;
  };
  auto endOf = [&](int64_t position) { return call.hasTail && !isNew ? position / page * page : position + 1; };
  int64_t begin = beginOf(firstPosition), end = endOf(firstPosition);
  for (int64_t token = first + 1; token < first + count; ++token) {
    begin = smaller(begin, beginOf(call.position(token)));
    end = larger(end, endOf(call.position(token)));
  }
#pragma unroll
  for (int i = 0; i < rowsOfThread(shape); ++i) {
    int64_t row = rowOfThread(shape, i), token = tile.tokenOf(row);
    bool isHere = tile.has(row) && token >= first && token < first + count;
    int64_t position = isHere ? call.position(token) : 0;
    sums.begin[i] = beginOf(position);
    sums.end[i] = isHere ? endOf(position) : 0;
  }
  PageRows<false> values{call, sequence, tile.keyHead, call.values.features};
  if (isNew) {
    NewKeyRows keys{call, sequence, tile.keyHead, call.keys.features, first, firstPosition};
    addKeys(shape, begin, end, call.queryScale(), sums, keys, values, CachedScore{call});
  } else {
    PageRows<true> keys{call, sequence, tile.keyHead, call.keys.features};
    addKeys(shape, begin, end, call.queryScale(), sums, keys, values, CachedScore{call});
  }
}

/// Computes the block's tile, of `tileRows` rows, `headsOfTile` of them for each token.
template <typename Shape, typename Sums>
void computeTile(const CachedAttention &call, const Shape &shape, int64_t tileRows, int64_t headsOfTile, Sums &sums) {
  int64_t tokensOfTile = tileRows / headsOfTile, parts = ceilDivide(call.headsOfKey(), headsOfTile);
  int64_t number = blockIndex(), part = number % parts, keyHead = number / parts % call.keys.heads;
  // The last tokens see most keys: they come first.
  int64_t before = number / parts / call.keys.heads;
  int64_t firstToken = (ceilDivide(call.tokens, tokensOfTile) - 1 - before) * tokensOfTile;
  CachedTile tile{call,
                  headsOfTile,
                  keyHead,
                  keyHead * call.headsOfKey() + part * headsOfTile,
                  smaller(call.headsOfKey() - part * headsOfTile, headsOfTile),
                  firstToken,
                  smaller(call.tokens - firstToken, tokensOfTile)};
  begin(shape, call.queryScale(), QueryRows{tile, call.keys.features}, sums);
  for (int64_t first = firstToken, count; first < firstToken + tile.tokens; first += count) {
    count = countRun(tile, first);
    addRun(tile, shape, first, count, /*isNew=*/false, sums);
    if (call.hasTail)
      addRun(tile, shape, first, count, /*isNew=*/true, sums);
  }
  storeSums(
      shape, call.queryScale(), CachedScore{call}, sums,
      [&](int64_t row) { return call.hasSinks && tile.has(row) ? call.sinkOf(tile.headOf(row)) : lowest; },
      [&]<int count>(int64_t row, int64_t feature, const float (&x)[count]) {
        if (tile.has(row))
          call.storeResults(tile.tokenOf(row), tile.headOf(row), feature, x);
      });
}

} // namespace

/// Computes a tile of `tileRows` rows in f32.
ITX_MICROKERNEL void itx_cached_attention_tiles(ITX_CACHED_ATTENTION_ARGUMENTS, int64_t headsOfTile, int64_t tileRows,
                                                int64_t tileKeys, Shared shared) {
  if (!computesTiles(tokens, sequenceCount))
    return;
  CachedAttention call = ITX_CACHED_ATTENTION;
  TileShape shape{tileRows, tileKeys, keyFeatures, valueFeatures, shared};
  TileSums sums;
  computeTile(call, shape, tileRows, headsOfTile, sums);
}

/// Computes a tile of 64 rows, times `rowBlocks`, by matrix instructions on elements of `kind`.
ITX_MICROKERNEL void itx_cached_attention_matrix_tiles(ITX_CACHED_ATTENTION_ARGUMENTS, int64_t headsOfTile,
                                                       int64_t rowBlocks, int64_t tileKeys, int64_t kind, int64_t parts,
                                                       int64_t keepsQueries, Shared shared) {
  if (!computesTiles(tokens, sequenceCount))
    return;
  CachedAttention call = ITX_CACHED_ATTENTION;
  bool scalesQueries = kind == ElementKind::F16 && queryKind != ElementKind::F16;
  MatrixShape shape{rowBlocks, tileKeys,          keyFeatures,   valueFeatures,   kind,
                    parts,     keepsQueries != 0, scalesQueries, (Shared16)shared};
  MatrixSums sums;
  computeTile(call, shape, shape.rows(), headsOfTile, sums);
}

#if defined(__NVPTX__)
/// Computes a tile of 16 rows times `warps` by matrix instructions of four warps, which only Hopper has.
ITX_MICROKERNEL void itx_cached_attention_warpgroups(ITX_CACHED_ATTENTION_ARGUMENTS, int64_t headsOfTile, int64_t warps,
                                                     int64_t tileKeys, int64_t kind, int64_t parts, Shared shared) {
  if (!computesTiles(tokens, sequenceCount))
    return;
  CachedAttention call = ITX_CACHED_ATTENTION;
  bool scalesQueries = kind == ElementKind::F16 && queryKind != ElementKind::F16;
  WarpgroupShape shape{{1, tileKeys, keyFeatures, valueFeatures, kind, parts, /*keepsQueries=*/false, scalesQueries,
                        (Shared16)shared, warps}};
  MatrixSums sums;
  computeTile(call, shape, shape.rows(), headsOfTile, sums);
}
#endif
