//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Sums of two independent times on grids: where users wait for the search, it does this. Results have the same bits on
// all processors.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_CONVOLUTION_H
#define INTARSIA_PLAN_CONVOLUTION_H

#include <cstddef>
#include <vector>

namespace intarsia::plan {

/// Writes sum[p] = density[0] function[p] + … + density[p] function[0] for all points p.
void convolve(const float *density, const float *function, float *sum, size_t points);
/// Returns one point of it.
float convolvedAt(const float *density, const float *function, size_t point);

/// Returns the bins of the sum of two densities on grids of the same step: sum[p] is the sum of one[a] other[b] for all
/// a + b = p.
std::vector<double> convolved(const std::vector<double> &one, const std::vector<double> &other);

} // namespace intarsia::plan

#endif
