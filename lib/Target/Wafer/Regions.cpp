//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/Regions.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace intarsia::wafer {
namespace {

/// An append has the memory of the cache that attention reads, and is where that is.
bool appends(const KernelFunction &function) { return function.cache && function.cache->appends; }

} // namespace

RegionSplit splitOverRegions(const std::vector<int> &calls, const std::vector<KernelFunction> &functions,
                             const std::vector<int64_t> &residents, int64_t regions) {
  std::vector<int64_t> pieces; // launches that are not parted
  int64_t sum = 0, largest = 0;
  for (int kernel : calls) {
    if (appends(functions[size_t(kernel)]))
      continue;
    pieces.push_back(residents[size_t(kernel)]);
    sum += pieces.back();
    largest = std::max(largest, pieces.back());
  }
  // Fills one region after another; returns the number of the last one.
  auto fill = [&](int64_t bytes, function_ref<void(int64_t region)> place) {
    int64_t region = 0, used = 0;
    for (int64_t piece : pieces) {
      if (used + piece > bytes)
        ++region, used = 0;
      used += piece;
      place(region);
    }
    return region;
  };
  for (int64_t least = largest; least < sum;) { // the smallest that regions suffice for
    int64_t middle = (least + sum) / 2;
    if (fill(middle, [](int64_t) {}) < regions)
      sum = middle;
    else
      least = middle + 1;
  }
  RegionSplit split;
  split.bytes = sum;
  std::vector<int64_t> regionOf;
  fill(sum, [&](int64_t region) { regionOf.push_back(region); });
  auto next = regionOf.begin();
  for (int kernel : calls)
    if (appends(functions[size_t(kernel)]))
      split.regionOf.push_back(next == regionOf.end() ? regionOf.empty() ? 0 : regionOf.back() : *next);
    else
      split.regionOf.push_back(*next++);
  return split;
}

std::vector<double> handOverCycles(const Mesh &mesh, const RegionSplit &split, const std::vector<int> &calls,
                                   const std::vector<double> &rowBytes, int64_t grid, int64_t rows,
                                   bool onlyBetweenWafers) {
  auto figure = [&](const char *name) { return mesh.wafer.figures.at(name).value; };
  const int64_t ofWafer = mesh.regionsOfWafer(grid);
  std::vector<double> cycles(rowBytes.size());
  std::vector<int64_t> launches(rowBytes.size());
  double left = 0; // bytes of a row that the last launch has left; an append leaves none
  for (size_t i = 0; i < calls.size(); ++i) {
    auto kernel = size_t(calls[i]);
    ++launches[kernel];
    int64_t region = split.regionOf[i], before = i > 0 ? split.regionOf[i - 1] : region;
    double bytes = left * double(rows), links = figure("link_bytes") * double(grid);
    double start = 2 * figure("stage_cycles") + 2 * figure("ramp_cycles");
    if (region / ofWafer != before / ofWafer)
      cycles[kernel] += start + figure("hop_cycles") * figure("columns") +
                        figure("clock_ghz") * (1e3 * figure("system_us") + bytes / figure("system_gbps"));
    else if (region != before && !onlyBetweenWafers)
      cycles[kernel] += start + figure("hop_cycles") * double(grid) + std::ceil(bytes / links);
    if (rowBytes[kernel] > 0)
      left = rowBytes[kernel];
  }
  for (auto [sum, count] : zip_equal(cycles, launches))
    sum /= double(std::max<int64_t>(count, 1));
  return cycles;
}

} // namespace intarsia::wafer
