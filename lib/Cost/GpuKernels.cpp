//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/GpuKernels.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;
using namespace intarsia;

namespace {

/// Tiles of matmuls that vendors' libraries have, rows × columns.
constexpr double matmulTiles[][2] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64},  {32, 64},
                                     {64, 32},   {16, 64},   {64, 16},   {32, 128}, {128, 32}, {16, 128}, {128, 16}};
/// Into how many parts the depth of a tile is split.
constexpr double matmulSplits[] = {1, 2, 4, 8, 16};
/// Queries of a tile of attention.
constexpr double queryTiles[] = {128, 64, 16};
/// The most parts that the keys of a sequence are split into, and the fewest queries of a matrix instruction.
constexpr double largestKeySplit = 128, leastQueries = 16;
/// Bytes of a partial sum, which is written and read once more.
constexpr double bytesOfPartial = 2 * sizeof(float);
/// Bytes of an activation between two kernels of experts.
constexpr double bytesOfHidden = 2;

/// Experts that the same number of rows is sent to.
struct RowGroup {
  double rows, count;
};

/// Figures and rates of one call.
class Kernel {
public:
  Kernel(const GpuRates &rates, const GpuKernelFigures &figures) : rates(rates), figures(figures) {}

  double linear(const GpuKernelShape &shape) const {
    return matmul({{shape.rows, shape.batch}}, shape.columns, shape.depth, shape, shape.outputBytes);
  }

  double tiled(const GpuKernelShape &shape, const GpuTiling &tiling) const {
    double tiles = shape.batch * std::ceil(shape.rows / tiling.rows) * std::ceil(shape.columns / tiling.columns);
    double rows = shape.batch * shape.rows;
    double memoryUs = matmulBytesUs(rows, shape.batch, shape.columns, shape.depth, shape, shape.outputBytes);
    return tilesUs(tiling, tiles, shape.depth, shape, memoryUs) + splitUs(rows * shape.columns, tiling.parts);
  }

  double shared(const GpuKernelShape &shape, const GpuShare &share) const {
    double memoryUs = matmulBytesUs(shape.rows, 1, shape.columns, shape.depth, shape, shape.outputBytes);
    double sumUs = share.partials > 0 ? partialsUs(share.rows * share.columns * share.partials) : 0;
    return blend(blockUs(share, shape), memoryUs) + sumUs;
  }

  /// Tokens spread over the experts as evenly as whole numbers can.
  double experts(const GpuKernelShape &shape) const {
    double sent = std::max(1.0, shape.rows * shape.perToken), each = std::floor(sent / shape.experts);
    double more = sent - each * shape.experts;
    SmallVector<RowGroup, 2> groups;
    if (each > 0)
      groups.push_back({each, shape.experts - more});
    if (more > 0)
      groups.push_back({each + 1, more});
    // Rows are gathered for the experts and summed behind them: each is read and written, and read and written.
    double moved = 4 * sent * shape.depth * bytesOfHidden / (bytesPerUs() * figures.memory);
    return matmul(groups, 2 * shape.columns, shape.depth, shape, bytesOfHidden) +
           matmul(groups, shape.depth, shape.columns, shape, shape.outputBytes) + moved +
           figures.expertUs * shape.experts;
  }

  double prefill(const GpuKernelShape &shape) const {
    double memoryUs = attentionBytesUs(shape, shape.columns), best = std::numeric_limits<double>::infinity();
    for (bool packed : {false, true}) {
      // The queries of all heads that share keys may fill one tile.
      double share = packed ? shape.heads / shape.keyHeads : 1;
      for (double tile : queryTiles) {
        double perSequence = std::ceil(shape.rows * share / tile), queries = tile / share;
        double waves = rounded(shape.batch * shape.heads / share * perSequence / rates.multiprocessors);
        auto [mean, most] = visibleKeys(shape, perSequence, queries);
        double computeUs = blend(waves * attentionTileUs(shape, tile, mean), attentionTileUs(shape, tile, most));
        best = std::min(best, blend(computeUs, memoryUs));
      }
    }
    return best;
  }

  double decode(const GpuKernelShape &shape) const {
    double keys = shape.window > 0 ? std::min(shape.columns, shape.window) : shape.columns;
    double memoryUs = attentionBytesUs(shape, keys), best = std::numeric_limits<double>::infinity();
    double queries = std::ceil(shape.rows * shape.heads / shape.keyHeads / leastQueries) * leastQueries;
    for (double parts = 1; parts <= largestKeySplit; parts *= 2) {
      double waves = std::max(1.0, rounded(shape.batch * shape.keyHeads * parts / rates.multiprocessors));
      double us = blend(waves * attentionTileUs(shape, queries, keys / parts), memoryUs);
      best = std::min(best, us + splitUs(shape.batch * shape.rows * shape.heads * shape.depth, parts));
    }
    return best;
  }

private:
  double bytesPerUs() const { return rates.memoryGBps * 1e3; }
  double flopsPerUs() const { return rates.peakTflops * 1e6 / rates.multiprocessors * figures.compute; }
  double loadedPerUs() const { return bytesPerUs() / rates.multiprocessors * figures.processor; }

  double blend(double a, double b) const {
    double larger = std::max(a, b), smaller = std::min(a, b), power = 1 + figures.blend;
    return larger > 0 ? larger * std::pow(1 + std::pow(smaller / larger, power), 1 / power) : 0;
  }

  /// A share above 1 would make more tiles faster.
  double rounded(double waves) const {
    return waves + std::min(1.0, figures.quantization) * (std::ceil(waves) - waves);
  }

  /// Time of bytes that are read or written once, a part of which the last cache may hold.
  double bytesUs(double warm, double cold = 0) const {
    double kept = std::min(1.0, figures.resident * rates.cacheMB * 1e6 / std::max(warm + cold, 1.0));
    double hit = warm * kept * kept;
    return (hit / figures.cache + warm + cold - hit) / (bytesPerUs() * figures.memory);
  }

  double matmulBytesUs(double rows, double matrices, double columns, double depth, const GpuKernelShape &shape,
                       double outputBytes) const {
    double weights = matrices * columns * depth * shape.weightBytes;
    double activations = rows * (depth * shape.inputBytes + columns * outputBytes);
    return bytesUs(activations + weights * shape.warmWeights, weights * (1 - shape.warmWeights));
  }

  /// Sum of what `parts` computed of each element.
  double splitUs(double elements, double parts) const { return parts > 1 ? partialsUs(elements * parts) : 0; }

  double partialsUs(double partials) const {
    return figures.splitUs + bytesOfPartial * partials / (bytesPerUs() * figures.cache);
  }

  double matmul(ArrayRef<RowGroup> groups, double columns, double depth, const GpuKernelShape &shape,
                double outputBytes) const {
    double rows = 0, matrices = 0;
    for (const RowGroup &group : groups) {
      rows += group.rows * group.count;
      matrices += group.count;
    }
    double memoryUs = matmulBytesUs(rows, matrices, columns, depth, shape, outputBytes);
    double best = std::numeric_limits<double>::infinity();
    for (auto [tileRows, tileColumns] : matmulTiles) {
      double tiles = 0;
      for (const RowGroup &group : groups)
        tiles += group.count * std::ceil(group.rows / tileRows);
      tiles *= std::ceil(columns / tileColumns);
      for (double parts : matmulSplits) {
        // A blend is at least its larger part: most tiles are too slow without asking for its powers.
        double sumUs = splitUs(rows * columns, parts);
        GpuTiling tiling{tileRows, tileColumns, parts};
        if (std::max(memoryUs, wavesUs(tiling, tiles, depth, shape)) + sumUs < best)
          best = std::min(best, tilesUs(tiling, tiles, depth, shape, memoryUs) + sumUs);
      }
    }
    // Elements narrower than 16 bits are made of such in a pass of its own.
    if (shape.inputBytes < bytesOfHidden)
      best += figures.input * bytesUs(rows * depth * (bytesOfHidden + shape.inputBytes));
    return best;
  }

  /// Time of tiles of a depth, if the memory delivers what they load.
  double wavesUs(const GpuTiling &tiling, double tiles, double depth, const GpuKernelShape &shape) const {
    double waves = std::max(1.0, rounded(tiles * tiling.parts / rates.multiprocessors));
    return waves * blockUs({tiling.rows, tiling.columns, /*tiles=*/1, depth / tiling.parts}, shape);
  }

  /// The same beside the time of the bytes from memory, without the sum over parts.
  double tilesUs(const GpuTiling &tiling, double tiles, double depth, const GpuKernelShape &shape,
                 double memoryUs) const {
    return blend(wavesUs(tiling, tiles, depth, shape), memoryUs);
  }

  /// Time in which a block computes its share, if the memory delivers what it loads.
  double blockUs(const GpuShare &share, const GpuKernelShape &shape) const {
    double rate = flopsPerUs() / (1 + figures.edge * (1 / share.rows + 1 / share.columns));
    double computeUs = 2 * share.rows * share.columns * (share.depth + share.tiles * figures.prologue) / rate;
    double loadUs = (share.rows * shape.inputBytes + share.columns * shape.weightBytes) * share.depth / loadedPerUs();
    return std::max(computeUs, loadUs) + share.tiles * figures.tileUs;
  }

  /// Compute of heads of this size, relative to 128; other sizes are padded to the next.
  double headFactor(double size) const {
    return size <= 64    ? figures.head64
           : size <= 128 ? 1
           : size <= 192 ? figures.head192
           : size <= 256 ? figures.head256
                         : figures.head512;
  }

  double attentionBytesUs(const GpuKernelShape &shape, double keys) const {
    return bytesUs(shape.batch * shape.depth *
                   (shape.rows * shape.heads * (shape.inputBytes + shape.outputBytes) +
                    keys * shape.keyHeads * cachedFeatures(shape) / shape.depth * shape.weightBytes));
  }

  /// Elements that are cached for a token and a head of keys.
  static double cachedFeatures(const GpuKernelShape &shape) {
    return shape.cachedDepth > 0 ? shape.cachedDepth : 2 * shape.depth;
  }

  /// Time of a tile of queries over some keys: scores, and the sum of values.
  double attentionTileUs(const GpuKernelShape &shape, double queries, double keys) const {
    double factor = headFactor(shape.depth);
    // The edge counts for tiles of prompts; those of decoding all have the fewest queries.
    double edge = shape.kind == GpuKernelKind::Prefill ? 1 + figures.edge / queries : 1;
    double computeUs = 4 * queries * shape.depth * (keys + figures.prologue) / (flopsPerUs() * factor / edge);
    double loadUs = keys * cachedFeatures(shape) * shape.weightBytes / (loadedPerUs() * factor);
    return std::max(computeUs, loadUs) + figures.tileUs;
  }

  /// Returns how many keys a tile of so many queries sees, on average and at most.
  static std::pair<double, double> visibleKeys(const GpuKernelShape &shape, double tiles, double queries) {
    if (!shape.causal)
      return {shape.columns, shape.columns};
    double most = shape.window > 0 ? std::min(shape.columns, shape.window + queries) : shape.columns;
    // Tiles see more and more keys until they see the most. Keys before the first query are seen by all.
    double before = std::max(0.0, shape.columns - shape.rows), step = std::min(queries, most);
    double growing = std::min(tiles, std::ceil(std::max(0.0, most - before) / queries));
    double sum = growing * (std::min(before, most) + (growing + 1) / 2 * step) + (tiles - growing) * most;
    return {std::min(most, sum / tiles), most};
  }

  const GpuRates &rates;
  const GpuKernelFigures &figures;
};

} // namespace

double intarsia::gpuKernelUs(const GpuKernelShape &shape, const GpuRates &rates, const GpuKernelFigures &figures) {
  Kernel kernel(rates, figures);
  switch (shape.kind) {
  case GpuKernelKind::Linear:
    return figures.launchUs + kernel.linear(shape);
  case GpuKernelKind::Prefill:
    return figures.launchUs + kernel.prefill(shape);
  case GpuKernelKind::Decode:
    return figures.launchUs + kernel.decode(shape);
  case GpuKernelKind::Experts:
    return figures.launchUs + kernel.experts(shape);
  }
  llvm_unreachable("a kind of kernel");
}

double intarsia::gpuTiledUs(const GpuKernelShape &shape, const GpuTiling &tiling, const GpuRates &rates,
                            const GpuKernelFigures &figures) {
  return figures.launchUs + Kernel(rates, figures).tiled(shape, tiling);
}

double intarsia::gpuSharedUs(const GpuKernelShape &shape, const GpuShare &share, const GpuRates &rates,
                             const GpuKernelFigures &figures) {
  return figures.launchUs + Kernel(rates, figures).shared(shape, share);
}

double intarsia::gpuRooflineUs(const GpuKernelShape &shape, const GpuRates &rates) {
  double flops = 0, bytes = 0;
  switch (shape.kind) {
  case GpuKernelKind::Linear:
    flops = 2 * shape.batch * shape.rows * shape.columns * shape.depth;
    bytes = shape.batch * (shape.rows * (shape.depth * shape.inputBytes + shape.columns * shape.outputBytes) +
                           shape.columns * shape.depth * shape.weightBytes);
    break;
  case GpuKernelKind::Prefill:
  case GpuKernelKind::Decode: {
    double keys = shape.window > 0 ? std::min(shape.columns, shape.window) : shape.columns;
    // Half of the keys are masked where each query sees those before it.
    double seen = shape.causal && shape.rows > 1 ? std::min(keys, (shape.columns + 1) / 2) : keys;
    flops = 4 * shape.batch * shape.heads * shape.rows * seen * shape.depth;
    bytes = shape.batch * shape.depth *
            (shape.rows * shape.heads * (shape.inputBytes + shape.outputBytes) +
             (shape.kind == GpuKernelKind::Decode ? keys : shape.columns) * shape.keyHeads *
                 (shape.cachedDepth > 0 ? shape.cachedDepth / shape.depth : 2) * shape.weightBytes);
    break;
  }
  case GpuKernelKind::Experts: {
    double sent = std::max(1.0, shape.rows * shape.perToken);
    flops = 6 * sent * shape.columns * shape.depth;
    bytes = 3 * std::min(sent, shape.experts) * shape.columns * shape.depth * shape.weightBytes +
            shape.rows * shape.depth * (shape.inputBytes + shape.outputBytes);
    break;
  }
  }
  return std::max(flops / (rates.peakTflops * 1e6), bytes / (rates.memoryGBps * 1e3));
}

ArrayRef<StringRef> GpuKernelFigures::names() {
  static const StringRef names[] = {"launch_us", "compute",      "prologue", "edge",     "memory",   "cache",
                                    "processor", "quantization", "blend",    "split_us", "tile_us",  "resident",
                                    "input",     "expert_us",    "head_64",  "head_192", "head_256", "head_512"};
  return names;
}

double &GpuKernelFigures::at(size_t index) {
  double *members[] = {&launchUs, &compute, &prologue, &edge,  &memory,   &cache,  &processor, &quantization, &blend,
                       &splitUs,  &tileUs,  &resident, &input, &expertUs, &head64, &head192,   &head256,      &head512};
  return *members[index];
}

double intarsia::allReduceUs(double devices, double bytes, double linkGBps, const AllReduceFigures &figures) {
  if (devices <= 1)
    return 0;
  double perUs = linkGBps * 1e3;
  double oneShot = (devices - 1) * bytes / (figures.oneShot * perUs);
  double twoShots = figures.secondUs + 2 * (devices - 1) / devices * bytes / (figures.twoShots * perUs);
  return figures.startUs + figures.stageUs * std::log2(devices) + std::min(oneShot, twoShots);
}

/// Returns the figures of a device, and what its link passes on one way; null if it has none.
static const AllReduceFigures *figuresOf(const CatalogueDevice &device, double &linkGBps) {
  Expected<double> link = device.linkOneWayGBps();
  if (!link) {
    consumeError(link.takeError());
    return nullptr;
  }
  linkGBps = *link;
  return &GpuKernelTable::get().allReduce(device);
}

std::optional<double> GpuCosts::allReduceUs(double devices, double bytes) const {
  double linkGBps = 0;
  const AllReduceFigures *figures = figuresOf(*device, linkGBps);
  return figures ? std::optional(intarsia::allReduceUs(devices, bytes, linkGBps, *figures)) : std::nullopt;
}

std::optional<double> GpuCosts::gatherUs(double devices, double bytes) const {
  double linkGBps = 0;
  const AllReduceFigures *figures = figuresOf(*device, linkGBps);
  if (!figures || devices <= 1)
    return figures ? std::optional(0.0) : std::nullopt;
  return figures->startUs + figures->stageUs * std::log2(devices) +
         (devices - 1) / devices * bytes / (figures->twoShots * linkGBps * 1e3);
}

std::optional<double> GpuCosts::messageUs(double bytes) const {
  double linkGBps = 0;
  const AllReduceFigures *figures = figuresOf(*device, linkGBps);
  return figures ? std::optional(figures->startUs + bytes / (figures->twoShots * linkGBps * 1e3)) : std::nullopt;
}

ArrayRef<StringRef> AllReduceFigures::names() {
  static const StringRef names[] = {"start_us", "stage_us", "second_us", "one_shot", "two_shots"};
  return names;
}

double &AllReduceFigures::at(size_t index) {
  double *members[] = {&startUs, &stageUs, &secondUs, &oneShot, &twoShots};
  return *members[index];
}
