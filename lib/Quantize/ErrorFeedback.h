//===- ErrorFeedback.h - Quantizes a weight so that its errors cancel in its outputs -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPTQ (Frantar et al. 2023, arXiv 2210.17323) in the form of Babai's nearest plane (Chen et al. 2025, arXiv
// 2507.18553), which gives the same values and needs one Cholesky factor instead of two and an inverse.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_QUANTIZE_ERRORFEEDBACK_H
#define INTARSIA_LIB_QUANTIZE_ERRORFEEDBACK_H

#include "lib/Quantize/BlockCodec.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ThreadPool.h"
#include <memory>

namespace intarsia {

/// The second moments of a linear's inputs, which weigh errors of its weight: with H the mean of x xᵀ over tokens x, an
/// error e of a row adds e H eᵀ to the mean square of that output. Features are sorted by their mean squares, and
/// `H = L Lᵀ` with L lower triangular. Weights are rounded from the last feature, which has the largest mean square, to
/// the first.
class InputMoments {
public:
  /// Takes sums or means of products, [features, features], row by row and symmetric. One hundredth of the mean of the
  /// diagonal is added to it (the paper's section 3.3), so that features which are seldom seen keep their weights. An
  /// error names the first feature whose moments are not finite, or says that all are zero.
  static llvm::Expected<InputMoments> create(llvm::ArrayRef<float> moments, int64_t features,
                                             llvm::ThreadPoolInterface &pool);

  int64_t features() const { return int64_t(order.size()); }
  /// Mean square of each feature, as given.
  llvm::ArrayRef<float> meanSquares() const { return diagonal; }

private:
  friend class ErrorFeedback;
  InputMoments() = default;

  std::vector<float> diagonal; // by feature
  std::vector<int32_t> order;  // feature at each place
  /// L[j, k] / L[k, k] for places k < j: [blocks of places j, from the last][features k][places of a block].
  std::vector<float> directions;
  std::vector<float> lengths; // L[k, k]
};

/// Rounds rows of a weight to a block format one feature after another, and lets later features make up for the errors
/// of earlier ones. Scales are chosen before, block by block, from a grid of multiples of `nn.quantize`'s: the one with
/// the least error, weighted by the features' mean squares. Calls on one object may run at the same time.
class ErrorFeedback {
public:
  /// `moments` outlives the object.
  ErrorFeedback(nn::BlockFormatAttr format, const InputMoments &moments);

  /// Most rows of one call: their sums stay in the cache of a core.
  static constexpr size_t kMostRows = 64;

  /// Encodes `rows` rows [rows, features], at most kMostRows: quantized values [rows, features], scales
  /// [rows, blocks * scaleBytes] and, in formats that have them (haveZeroPoints), zero points [rows, blocks].
  /// `tensorScale` is read if the format has one. Returns the index, within the rows, of the first value that cannot be
  /// quantized.
  [[nodiscard]] std::optional<size_t> encodeRows(llvm::ArrayRef<float> weights, size_t rows, float tensorScale,
                                                 llvm::MutableArrayRef<uint8_t> quantized,
                                                 llvm::MutableArrayRef<uint8_t> scales,
                                                 llvm::MutableArrayRef<uint8_t> zeroPoints = {}) const;

  /// Returns e H eᵀ summed over rows, for the difference of two matrices of rows.
  double outputError(llvm::ArrayRef<float> left, llvm::ArrayRef<float> right, size_t rows) const;

private:
  nn::BlockFormatAttr format;
  BlockCodec codec;
  const InputMoments &moments;
};

/// Rounds rows to the nearest values of their blocks, with the scales that leave the least squared errors, of the same
/// grid: what ErrorFeedback does with features that are independent and equally large. Parameters and result are those
/// of its encodeRows.
[[nodiscard]] std::optional<size_t> encodeWithBestScales(nn::BlockFormatAttr format, llvm::ArrayRef<float> weights,
                                                         size_t rows, float tensorScale,
                                                         llvm::MutableArrayRef<uint8_t> quantized,
                                                         llvm::MutableArrayRef<uint8_t> scales,
                                                         llvm::MutableArrayRef<uint8_t> zeroPoints = {});

} // namespace intarsia

#endif
