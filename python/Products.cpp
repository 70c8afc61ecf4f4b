//===- Products.cpp - Products of rows, summed over tokens ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Second moments of what linears multiply take as long as the linears themselves. Their factors are rounded to bf16,
// which processors with AVX512_BF16 multiply at twice the rate of f32: the sums are the exact moments of rounded rows,
// so they have no negative eigenvalues, and the rounding (2^-9 of an element) is far below the damping that GPTQ adds.
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Products.h"

#include "intarsia/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <optional>
#include <thread>
#include <vector>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace nb = nanobind;

namespace intarsia::python {
namespace {

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Sums = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// Columns of a panel: the lanes of a vector. A tile is 8 rows by 3 panels: 24 of 32 registers are sums.
constexpr int64_t kLanes = 16, kTileRows = 8, kTilePanels = 3;
/// Tokens whose products are summed in registers: a panel of them is 32 KiB, so that those of a tile stay in a core's
/// second cache.
constexpr int64_t kTokens = 1024;

#ifdef __x86_64__
#define INTARSIA_BF16 __attribute__((target("avx512f,avx512bf16,avx512vl")))

/// Tokens in pairs, [panels][pairs][kLanes][2] of bf16; tokens and columns that are missing are zero.
class Panels {
public:
  INTARSIA_BF16 Panels(const float *rows, int64_t tokens, int64_t columns)
      : pairs((tokens + 1) / 2), count((columns + kLanes - 1) / kLanes), values(count * pairs * kLanes) {
    for (int64_t panel = 0; panel < count; ++panel) {
      int64_t width = std::min(kLanes, columns - panel * kLanes);
      auto mask = __mmask16((1u << width) - 1);
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const float *first = rows + 2 * pair * columns + panel * kLanes;
        __m512i low = halves(_mm512_maskz_loadu_ps(mask, first)), high = _mm512_setzero_si512();
        if (2 * pair + 1 < tokens)
          high = halves(_mm512_maskz_loadu_ps(mask, first + columns));
        _mm512_storeu_si512(values.data() + (panel * pairs + pair) * kLanes,
                            _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
      }
    }
  }
  const uint32_t *panel(int64_t number) const { return values.data() + number * pairs * kLanes; }

  const int64_t pairs, count;

private:
  /// Returns the nearest bf16 of each lane, in its lower half.
  INTARSIA_BF16 static __m512i halves(__m512 value) {
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(value));
  }

  std::vector<uint32_t> values;
};

/// Writes the sums of a tile, [kTileRows][kTilePanels * kLanes]: rows are columns `firstRow` … of `left`, columns those
/// of `panels` panels of `right`.
template <int64_t panels>
INTARSIA_BF16 void sumTile(const Panels &left, int64_t firstRow, const Panels &right, int64_t firstPanel, float *tile) {
  const uint32_t *rows = left.panel(firstRow / kLanes) + firstRow % kLanes;
  const uint32_t *columns = right.panel(firstPanel);
  __m512 sums[kTileRows][panels];
#pragma unroll
  for (int64_t row = 0; row < kTileRows; ++row)
#pragma unroll
    for (int64_t panel = 0; panel < panels; ++panel)
      sums[row][panel] = _mm512_setzero_ps();
  for (int64_t pair = 0; pair < left.pairs; ++pair) {
    __m512bh factors[panels];
#pragma unroll
    for (int64_t panel = 0; panel < panels; ++panel)
      factors[panel] = (__m512bh)_mm512_loadu_si512(columns + (panel * right.pairs + pair) * kLanes);
#pragma unroll
    for (int64_t row = 0; row < kTileRows; ++row) {
      auto factor = (__m512bh)_mm512_set1_epi32(int32_t(rows[pair * kLanes + row]));
#pragma unroll
      for (int64_t panel = 0; panel < panels; ++panel)
        sums[row][panel] = _mm512_dpbf16_ps(sums[row][panel], factor, factors[panel]);
    }
  }
#pragma unroll
  for (int64_t row = 0; row < kTileRows; ++row)
#pragma unroll
    for (int64_t panel = 0; panel < panels; ++panel)
      _mm512_storeu_ps(tile + (row * kTilePanels + panel) * kLanes, sums[row][panel]);
}

/// Adds leftᵀ right to sums [rows, columns]; of a symmetric product only what lies left of the diagonal or in a tile
/// that it passes.
class Products {
public:
  Products(const Panels &left, const Panels &right, bool isSymmetric, float *sums, int64_t rows, int64_t columns)
      : left(left), right(right), isSymmetric(isSymmetric), sums(sums), rows(rows), columns(columns) {}

  void add(int threads) {
    std::vector<std::thread> others;
    for (int number = 1; number < threads; ++number)
      others.emplace_back([&] { work(); });
    work();
    for (std::thread &other : others)
      other.join();
  }

private:
  void work() {
    // The last rows have the most columns left of the diagonal.
    for (int64_t at; (at = next.fetch_add(kLanes)) < rows;) {
      int64_t group = (rows - 1 - at) / kLanes * kLanes;
      for (int64_t panel = 0; panel < right.count; panel += kTilePanels)
        for (int64_t row = group; row < std::min(group + kLanes, rows); row += kTileRows)
          if (!isSymmetric || panel * kLanes < row + kTileRows)
            addTile(row, panel);
    }
  }

  void addTile(int64_t row, int64_t panel) {
    float tile[kTileRows * kTilePanels * kLanes];
    switch (right.count - panel) {
    case 1:
      sumTile<1>(left, row, right, panel, tile);
      break;
    case 2:
      sumTile<2>(left, row, right, panel, tile);
      break;
    default:
      sumTile<kTilePanels>(left, row, right, panel, tile);
    }
    int64_t first = panel * kLanes, width = std::min(kTilePanels * kLanes, columns - first);
    for (int64_t number = row; number < std::min(row + kTileRows, rows); ++number)
      for (int64_t column = 0; column < width; ++column)
        sums[number * columns + first + column] += tile[(number - row) * kTilePanels * kLanes + column];
  }

  const Panels &left, &right;
  const bool isSymmetric;
  float *const sums;
  const int64_t rows, columns;
  std::atomic<int64_t> next{0};
};

#endif

bool hasBfloat16Products() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

/// Adds leftᵀ right to sums; without `right` that is leftᵀ left.
void addProducts(const Sums &sums, const Rows &left, const std::optional<Rows> &right) {
  if (!hasBfloat16Products())
    throw nb::value_error("this processor has no products of bf16");
  const Rows &other = right ? *right : left;
  if (left.shape(0) != other.shape(0) || sums.shape(0) != left.shape(1) || sums.shape(1) != other.shape(1))
    throw nb::value_error("sums are [left features, right features] of rows with equal tokens");
#ifdef __x86_64__
  int64_t tokens = int64_t(left.shape(0)), rows = int64_t(left.shape(1)), columns = int64_t(other.shape(1));
  const float *leftRows = left.data(), *rightRows = other.data();
  float *into = sums.data();
  nb::gil_scoped_release unlocked;
  for (int64_t first = 0; first < tokens; first += kTokens) {
    int64_t count = std::min(kTokens, tokens - first);
    Panels leftPanels(leftRows + first * rows, count, rows);
    std::optional<Panels> rightPanels;
    if (right)
      rightPanels.emplace(rightRows + first * columns, count, columns);
    Products(leftPanels, rightPanels ? *rightPanels : leftPanels, !right, into, rows, columns).add(itx_threads());
  }
#endif
}

} // namespace

void bindProducts(nb::module_ &m) {
  m.def("has_products", &hasBfloat16Products);
  m.def("add_products", &addProducts, nb::arg("sums"), nb::arg("left"), nb::arg("right").none());
}

} // namespace intarsia::python
