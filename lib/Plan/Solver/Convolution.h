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

namespace intarsia::plan {

/// Writes sum[p] = density[0] function[p] + … + density[p] function[0] for all points p.
void convolve(const float *density, const float *function, float *sum, size_t points);
/// Returns one point of it.
float convolvedAt(const float *density, const float *function, size_t point);

/// Adds to sum[p] what `left` and `right` of an atom give with a density of count + 1 bins that begins and ends with a
/// zero: left dense[p + 1] + right dense[p].
void addSplit(const double *dense, double left, double right, double *sum, size_t count);

} // namespace intarsia::plan

#endif
