//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Layers that are split over regions of wafers, one after another, and what it takes to hand vectors from one to the
// next.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_REGIONS_H
#define INTARSIA_LIB_TARGET_WAFER_REGIONS_H

#include "lib/Target/Wafer/KernelPrograms.h"
#include "lib/Target/Wafer/Mesh.h"

namespace intarsia::wafer {

/// Where the launches of a call are.
struct RegionSplit {
  int64_t bytes = 0;             ///< of weights and caches in a core of the region that has most
  std::vector<int64_t> regionOf; ///< by launch of the call
};

/// Splits the launches of a call, by the numbers of their kernels, over `regions` regions, each of which has some one
/// after another, so that the fullest has the fewest bytes. `residents` are bytes of a core by kernel.
RegionSplit splitOverRegions(const std::vector<int> &calls, const std::vector<KernelFunction> &functions,
                             const std::vector<int64_t> &residents, int64_t regions);

/// Returns, by kernel, the cycles in which a launch gets `rows` rows of what the launch before has left in another
/// region: the mean of all launches of the kernel. `rowBytes` are, by kernel, those that it leaves for a row. Regions
/// of a wafer lie side by side and are passed in a snake, so that vectors go to the next one over the links of all its
/// rows of cores, as far as it is wide. Between wafers they cross the wafer and the network of the systems.
/// `onlyBetweenWafers`: the launches of all regions of a wafer are on one grid.
std::vector<double> handOverCycles(const Mesh &mesh, const RegionSplit &split, const std::vector<int> &calls,
                                   const std::vector<double> &rowBytes, int64_t grid, int64_t rows,
                                   bool onlyBetweenWafers);

} // namespace intarsia::wafer

#endif
