//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The search of a grid against trying every grid.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/GridSearch.h"

#include "intarsia/Cost/ModelShape.h"
#include "lib/Target/Wafer/ModelPrograms.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>

using namespace intarsia;
using namespace intarsia::wafer;

namespace {

/// A small decoder.
ModelShape decoderOf(int hidden, int heads, int keyHeads, int inner, int vocabulary, int layers) {
  ModelShape shape;
  shape.name = llvm::formatv("{0}-{1}-{2}-{3}-{4}-{5}", hidden, heads, keyHeads, inner, vocabulary, layers).str();
  shape.hidden = hidden;
  shape.layers = shape.denseLayers = layers;
  shape.vocabulary = vocabulary;
  shape.denseWidth = inner;
  AttentionLayers attention;
  attention.layers = layers;
  attention.heads = heads;
  attention.keyHeads = keyHeads;
  attention.keyDim = attention.valueDim = hidden / heads;
  shape.attention = {attention};
  return shape;
}

/// Returns the milliseconds of a token on the grid that a wafer's variant says; infinity if the model is not on it.
double stepMs(WaferTimes &times, const ModelShape &shape, int bits, const std::string &variant,
              int64_t *grid = nullptr) {
  WaferDecoderRequest request;
  request.wafer = variant;
  request.shape = &shape;
  request.weightBits = bits;
  request.context = 64;
  llvm::Expected<const WaferDecoder *> decoder = times.decoder(request);
  if (!decoder) {
    llvm::consumeError(decoder.takeError());
    return std::numeric_limits<double>::infinity();
  }
  if (grid)
    *grid = (*decoder)->grid;
  return (*decoder)->stepMs;
}

TEST(WaferGridChoice, isTheFastestOfAllGrids) {
  // Sizes that few grids divide; the second needs several regions on small grids.
  for (const auto &[shape, bits] :
       {std::pair(decoderOf(90, 5, 5, 130, 70, 2), 4), std::pair(decoderOf(120, 4, 2, 256, 200, 40), 16)}) {
    auto times = programTimes();
    int64_t chosen = 0;
    double ours = stepMs(*times, shape, bits, "wse-2", &chosen), best = std::numeric_limits<double>::infinity();
    int fitting = 0;
    for (int64_t grid = 2; grid <= 60; ++grid) {
      // The fewest regions that hold the model, of those that its few layers gain from: more pass on more vectors.
      double ms = std::numeric_limits<double>::infinity();
      for (int64_t regions : {1, 2, 3, 4, 6, 8})
        if (!std::isfinite(ms))
          ms = stepMs(*times, shape, bits, llvm::formatv("wse-2+grid={0}+regions={1}", grid, regions).str());
      fitting += std::isfinite(ms);
      best = std::min(best, ms);
    }
    EXPECT_GT(fitting, 20) << shape.name;
    EXPECT_EQ(ours, best) << shape.name << " in " << bits << " bits, on a grid of " << chosen;
  }
}

/// Cycles that jump where a tile becomes smaller or a tree higher, and rise between.
double jagged(int64_t grid, int64_t size) {
  auto tile = double((size + grid - 1) / grid);
  return 4000 + 2 * tile * tile + 300 * std::round(std::sqrt(double(grid))) + 0.4 * double(grid);
}

TEST(WaferGridChoice, searchesFewGrids) {
  for (int64_t size : {1024, 3000, 4096, 9000, 14336}) {
    std::vector<GridCandidate> candidates;
    for (int64_t grid = 50; grid <= 750; ++grid)
      if (grid < 376 || grid > 600) // between them nothing fits
        candidates.push_back({grid, {(size + grid - 1) / grid, int64_t(std::round(std::sqrt(double(grid))))}});
    std::set<int64_t> tried;
    double fastest = std::numeric_limits<double>::infinity(), best = fastest;
    llvm::cantFail(searchGrids(candidates, [&](int64_t grid) -> llvm::Expected<double> {
      EXPECT_TRUE(tried.insert(grid).second) << "grid " << grid << " is timed twice";
      fastest = std::min(fastest, jagged(grid, size));
      return jagged(grid, size);
    }));
    for (const GridCandidate &candidate : candidates)
      best = std::min(best, jagged(candidate.grid, size));
    EXPECT_EQ(fastest, best) << size;
    EXPECT_LT(tried.size(), candidates.size() / 4) << size;
  }
}

TEST(WaferGridChoice, gridsMayNotFitAfterAll) {
  std::vector<GridCandidate> candidates;
  for (int64_t grid = 4; grid <= 40; ++grid)
    candidates.push_back({grid, {100 / grid}});
  double fastest = std::numeric_limits<double>::infinity();
  llvm::cantFail(searchGrids(candidates, [&](int64_t grid) -> llvm::Expected<double> {
    double cycles = grid < 30 ? std::numeric_limits<double>::infinity() : double(grid);
    fastest = std::min(fastest, cycles);
    return cycles;
  }));
  EXPECT_EQ(fastest, 30);
  llvm::cantFail(searchGrids({}, [](int64_t) -> llvm::Expected<double> { return llvm::createStringError("called"); }));
  llvm::Error error =
      searchGrids(candidates, [](int64_t) -> llvm::Expected<double> { return llvm::createStringError("not lowered"); });
  EXPECT_EQ(llvm::toString(std::move(error)), "not lowered");
}

} // namespace
