//===- ErrorFeedback.cpp - Quantizes a weight so that its errors cancel in its outputs ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lanes of vectors are different rows or columns and never added up, and products are rounded before they are added, so
// that all processors and any number of threads give the same bits.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/ErrorFeedback.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Support/InstructionSets.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#pragma STDC FP_CONTRACT OFF

using llvm::ArrayRef;
using llvm::MutableArrayRef;

namespace intarsia {
namespace {

using Doubles = double __attribute__((ext_vector_type(8)));
using Floats = float __attribute__((ext_vector_type(16)));

constexpr size_t kRows = ErrorFeedback::kMostRows;
/// Columns of a panel of the Cholesky factor, and places whose errors are added to later ones together.
constexpr int64_t kPanel = 64, kPlaces = 64;

//===-- Cholesky factor ------------------------------------------------------------------------------------------===//

/// A symmetric matrix whose lower triangle becomes its Cholesky factor, panel by panel from the left. Rows have room
/// for whole tiles.
class Factor {
public:
  /// A tile's sums, a row of the panel and one factor are the 16 registers of AVX2.
  static constexpr int64_t tileRows = 6, tileColumns = 8;
  static_assert(kPanel % tileColumns == 0, "tiles begin where a panel ends");

  explicit Factor(int64_t size)
      : size(size), stride(llvm::alignTo(size, tileColumns)), values((size + tileRows) * stride) {}
  double *row(int64_t number) { return values.data() + number * stride; }

  void compute(llvm::ThreadPoolInterface &pool) {
    std::vector<double> panel(kPanel * stride);
    for (int64_t begin = 0; begin < size; begin += kPanel) {
      int64_t end = std::min(begin + kPanel, size);
      for (int64_t number = begin; number < end; ++number)
        solveRow(number, begin, number + 1);
      forRows(pool, end, [&](int64_t number) { solveRow(number, begin, end); });
      for (int64_t number = end; number < size; ++number)
        for (int64_t column = begin; column < end; ++column)
          panel[(number / tileColumns * kPanel + column - begin) * tileColumns + number % tileColumns] =
              row(number)[column];
      llvm::ThreadPoolTaskGroup tasks(pool);
      for (int64_t first = end; first < size; first += 8 * tileRows)
        tasks.async([&, first] {
          for (int64_t number = first; number < std::min(first + 8 * tileRows, size); number += tileRows)
            update(number, begin, end, panel);
        });
      tasks.wait();
    }
  }

private:
  void forRows(llvm::ThreadPoolInterface &pool, int64_t begin, llvm::function_ref<void(int64_t)> work) {
    llvm::ThreadPoolTaskGroup tasks(pool);
    constexpr int64_t together = 64;
    for (int64_t first = begin; first < size; first += together)
      tasks.async([&, first] {
        for (int64_t number = first; number < std::min(first + together, size); ++number)
          work(number);
      });
    tasks.wait();
  }

  /// Columns [begin, end) of a row of the factor, where those before `begin` have been taken away already.
  void solveRow(int64_t number, int64_t begin, int64_t end) {
    double *here = row(number);
    for (int64_t column = begin; column < end; ++column) {
      const double *other = row(column);
      double sum = here[column];
      for (int64_t k = begin; k < column; ++k)
        sum -= here[k] * other[k];
      // Damping keeps what is under the root positive but for roundings.
      here[column] =
          column == number ? std::sqrt(std::max(sum, std::numeric_limits<double>::min())) : sum / other[column];
    }
  }

  void update(int64_t number, int64_t begin, int64_t end, ArrayRef<double> panel);

  int64_t size, stride;
  std::vector<double> values;
};

/// Takes the products of a panel's columns away from a tile of rows, from column `end` to the diagonal. The panel has
/// tiles of columns one after another, [kPanel][tileColumns] each.
INTARSIA_INLINE void updateTileHere(double *values, int64_t stride, int64_t number, int64_t begin, int64_t end,
                                    const double *panel) {
  const int64_t diagonal = std::min(number + Factor::tileRows, stride);
  for (int64_t column = end; column < diagonal; column += Factor::tileColumns) {
    const double *tile = panel + column * kPanel;
    Doubles sums[Factor::tileRows] = {};
    for (int64_t k = 0; k < kPanel; ++k) {
      const Doubles right = load<Doubles>(tile + k * Factor::tileColumns);
#pragma unroll
      for (int64_t row = 0; row < Factor::tileRows; ++row)
        sums[row] += values[(number + row) * stride + begin + k] * right;
    }
#pragma unroll
    for (int64_t row = 0; row < Factor::tileRows; ++row) {
      double *at = values + (number + row) * stride + column;
      store(load<Doubles>(at) - sums[row], at);
    }
  }
}
INTARSIA_FOR_PROCESSORS(void, updateTile,
                        (double *values, int64_t stride, int64_t number, int64_t begin, int64_t end,
                         const double *panel),
                        (values, stride, number, begin, end, panel))

void Factor::update(int64_t number, int64_t begin, int64_t end, ArrayRef<double> panel) {
  updateTile(values.data(), stride, number, begin, end, panel.data());
}

//===-- Sums of errors -------------------------------------------------------------------------------------------===//

/// Values of a tile of rows: [places or features][kRows].
using Tile = std::vector<float>;

/// Adds errors of the places [first, last) of a block to the sums of all places [begin, end) before them. `directions`
/// are those of the block, [features][kPlaces].
INTARSIA_INLINE void spreadHere(const float *errors, const float *directions, int64_t first, int64_t last,
                                int64_t begin, int64_t end, float *sums) {
  for (int64_t place = begin; place < end; ++place) {
    Floats sum[kRows / 16]; // stay in registers where all loops over them are unrolled
#pragma unroll
    for (size_t part = 0; part < kRows / 16; ++part)
      sum[part] = load<Floats>(sums + place * kRows + 16 * part);
    for (int64_t from = last; from-- > first;) {
      const Floats direction = directions[place * kPlaces + from];
#pragma unroll
      for (size_t part = 0; part < kRows / 16; ++part)
        sum[part] += load<Floats>(errors + from * kRows + 16 * part) * direction;
    }
#pragma unroll
    for (size_t part = 0; part < kRows / 16; ++part)
      store(sum[part], sums + place * kRows + 16 * part);
  }
}
INTARSIA_FOR_PROCESSORS(void, spread,
                        (const float *errors, const float *directions, int64_t first, int64_t last, int64_t begin,
                         int64_t end, float *sums),
                        (errors, directions, first, last, begin, end, sums))

/// Visits places from the last to the first. `visit(place, sums, errors)` gives the errors of a place in a tile of rows
/// from what the errors before it ask of it.
void forPlaces(ArrayRef<float> directions, int64_t features,
               llvm::function_ref<void(int64_t, const float *, float *)> visit) {
  Tile sums(features * kRows), errors(kPlaces * kRows);
  const float *block = directions.data();
  for (int64_t last = features; last > 0; last -= std::min(kPlaces, last), block += features * kPlaces) {
    int64_t first = std::max<int64_t>(last - kPlaces, 0);
    for (int64_t place = last; place-- > first;) {
      visit(place, sums.data() + place * kRows, errors.data() + (place - first) * kRows);
      spread(errors.data(), block, place - first, place - first + 1, first, place, sums.data());
    }
    spread(errors.data(), block, 0, last - first, 0, first, sums.data());
  }
}

/// Returns rows as [features][kRows]; rows that are missing are zero.
Tile transposed(ArrayRef<float> rows, size_t count) {
  size_t features = rows.size() / count;
  Tile tile(features * kRows);
  for (size_t row = 0; row < count; ++row)
    for (size_t feature = 0; feature < features; ++feature)
      tile[feature * kRows + row] = rows[row * features + feature];
  return tile;
}

//===-- Scales ---------------------------------------------------------------------------------------------------===//

/// Multiples of `nn.quantize`'s scale that are tried, as parts of 32: from 5/8, which clips what is beyond 5/8 of the
/// largest magnitude. Above 17/16 integers only lose; of floats 3/2 puts the largest magnitude on another element, and
/// ternary values have a scale amid their magnitudes.
constexpr int kPartsOfScale = 32, kSmallestParts = 20, kLargestPartsOfIntegers = 34, kLargestParts = 52;

/// Chooses the scales of blocks: of a grid, that with the least weighted error.
class ScaleSearch {
public:
  ScaleSearch(nn::BlockFormatAttr format, const BlockCodec &codec, float tensorScale)
      : element(format.getElement()), scale(format.getScale()), codec(codec), tensorScale(tensorScale) {}

  /// Writes the scale of a block and returns its value, infinity if it is too large for its type, and the zero point.
  std::pair<float, uint8_t> choose(ArrayRef<float> block, ArrayRef<float> weights, uint8_t *bytes) const {
    return haveZeroPoints(element) ? chooseWithZeroPoint(block, weights, bytes)
                                   : std::pair<float, uint8_t>(chooseScale(block, weights, bytes), 0);
  }

private:
  /// Cuts the range of the block to parts of it. For each part it tries three zero points: the integer that is nearest
  /// to what 0 becomes, and its neighbours. Keeps the pair of the least error.
  std::pair<float, uint8_t> chooseWithZeroPoint(ArrayRef<float> block, ArrayRef<float> weights, uint8_t *bytes) const {
    auto [least, most] = std::minmax_element(block.begin(), block.end());
    const float low = std::min(0.0f, *least), high = std::max(0.0f, *most);
    const float highest = float(nn::getIntegerElement(element)->highest), base = (high - low) / highest;
    std::pair<float, uint8_t> best(codec.encodeScale(base, tensorScale, bytes), 0);
    if (best.first == 0 || !std::isfinite(best.first))
      return best;
    double error = std::numeric_limits<double>::infinity();
    uint8_t candidate[4];
    for (int parts = kSmallestParts; parts <= kLargestPartsOfIntegers; ++parts) {
      float value = codec.encodeScale(base * float(parts) / kPartsOfScale, tensorScale, candidate);
      if (!std::isfinite(value) || value == 0)
        continue;
      float middle = std::nearbyint(-low * float(parts) / kPartsOfScale / value);
      for (float zero = std::max(0.0f, middle - 1); zero <= std::min(highest, middle + 1); ++zero)
        if (double here = errorOf(block, weights, value, zero); here < error) {
          error = here;
          best = {value, static_cast<uint8_t>(zero)};
          std::memcpy(bytes, candidate, codec.scaleBytes());
        }
    }
    return best;
  }

  float chooseScale(ArrayRef<float> block, ArrayRef<float> weights, uint8_t *bytes) const {
    float base = baseScale(block);
    uint8_t candidate[4];
    float best = codec.encodeScale(base, tensorScale, bytes);
    if (best == 0 || !std::isfinite(best))
      return best;
    double least = errorOf(block, weights, best);
    auto tryScale = [&](float wanted) {
      float value = codec.encodeScale(wanted, tensorScale, candidate);
      if (!std::isfinite(value) || value == 0)
        return;
      if (double error = errorOf(block, weights, value); error < least) {
        least = error;
        best = value;
        std::memcpy(bytes, candidate, codec.scaleBytes());
      }
    };
    if (scale == nn::BlockScale::E8M0) {
      tryScale(base / 2);
      tryScale(base * 2);
      return best;
    }
    bool isClipped = !nn::getFloatElement(element) && element != nn::BlockElement::Ternary;
    int largest = isClipped ? kLargestPartsOfIntegers : kLargestParts;
    // Signed integers have one more value below zero than above. With the other sign of the scale the largest magnitude
    // becomes the highest integer instead of the lowest.
    float mirrored = nn::hasSignedScales(element)
                         ? base * nn::quantizedLargest(element) / float(nn::getIntegerElement(element)->highest)
                         : 0;
    for (int parts = kSmallestParts; parts <= largest; ++parts) {
      tryScale(base * float(parts) / kPartsOfScale);
      if (mirrored != 0)
        tryScale(mirrored * float(parts) / kPartsOfScale);
    }
    return best;
  }

  /// Returns the scale that `nn.quantize` begins with.
  float baseScale(ArrayRef<float> block) const {
    if (element == nn::BlockElement::Ternary)
      return nn::ternaryScale(block);
    float magnitude = BlockCodec::largestMagnitude(block);
    if (scale == nn::BlockScale::E8M0)
      return nn::decodeScale(scale, nn::encodeScaleE8M0(element, magnitude));
    return nn::blockScale(element, magnitude, std::min(0.0f, *std::min_element(block.begin(), block.end())));
  }

  double errorOf(ArrayRef<float> block, ArrayRef<float> weights, float value, float zero = 0) const {
    constexpr size_t together = 64;
    float ratios[together];
    uint8_t patterns[together];
    double error = 0;
    for (size_t begin = 0; begin < block.size(); begin += together) {
      size_t count = std::min(together, block.size() - begin);
      for (size_t at = 0; at < count; ++at)
        ratios[at] = block[begin + at] / value + zero;
      codec.encodeElements({ratios, count}, {patterns, count});
      for (size_t at = 0; at < count; ++at) {
        double difference = block[begin + at] - (codec.elementValue(patterns[at]) - zero) * value;
        error += difference * difference * weights[begin + at];
      }
    }
    return error;
  }

  nn::BlockElement element;
  nn::BlockScale scale;
  const BlockCodec &codec;
  float tensorScale;
};

/// Writes the scale of each block of rows, and gives its value and zero point to `keep(row, block, value, zero)`.
/// Returns the index of the first weight that cannot be quantized.
std::optional<size_t> chooseScales(nn::BlockFormatAttr format, const BlockCodec &codec, ArrayRef<float> weights,
                                   size_t rows, ArrayRef<float> importance, float tensorScale,
                                   MutableArrayRef<uint8_t> scales,
                                   llvm::function_ref<void(size_t, size_t, float, uint8_t)> keep) {
  const size_t features = importance.size(), block = format.getBlock() ? format.getBlock() : features;
  const size_t blocks = codec.blockCount(features);
  ScaleSearch search(format, codec, tensorScale);
  for (size_t row = 0; row < rows; ++row)
    for (size_t number = 0; number < blocks; ++number) {
      size_t begin = number * block, size = std::min(block, features - begin);
      ArrayRef<float> here = weights.slice(row * features + begin, size);
      auto wrong = llvm::find_if(here, [](float value) { return !std::isfinite(value); });
      if (wrong != here.end())
        return row * features + begin + (wrong - here.begin());
      auto [value, zero] = search.choose(here, importance.slice(begin, size),
                                         scales.data() + (row * blocks + number) * codec.scaleBytes());
      if (!std::isfinite(value))
        return row * features + begin;
      keep(row, number, value, zero);
    }
  return std::nullopt;
}

} // namespace

//===-- InputMoments ---------------------------------------------------------------------------------------------===//

llvm::Expected<InputMoments> InputMoments::create(ArrayRef<float> moments, int64_t features,
                                                  llvm::ThreadPoolInterface &pool) {
  assert(moments.size() == size_t(features * features));
  InputMoments result;
  double total = 0;
  for (int64_t feature = 0; feature < features; ++feature) {
    ArrayRef<float> row = moments.slice(feature * features, features);
    float meanSquare = row[feature];
    if (!llvm::all_of(row, [](float value) { return std::isfinite(value); }) || meanSquare < 0)
      return llvm::createStringError(
          llvm::formatv("the moments of feature {0} are not finite, or negative on the diagonal", feature));
    result.diagonal.push_back(meanSquare);
    total += meanSquare;
  }
  if (total == 0)
    return llvm::createStringError("all moments are zero: the model computed nothing on the calibration text");
  result.order.resize(features);
  std::iota(result.order.begin(), result.order.end(), 0);
  llvm::stable_sort(result.order, [&](int32_t a, int32_t b) { return result.diagonal[a] < result.diagonal[b]; });
  constexpr double damping = 0.01;
  Factor factor(features);
  for (int64_t row = 0; row < features; ++row) {
    for (int64_t column = 0; column <= row; ++column)
      factor.row(row)[column] = moments[int64_t(result.order[row]) * features + result.order[column]];
    factor.row(row)[row] += damping * total / double(features);
  }
  factor.compute(pool);
  result.lengths.resize(features);
  result.directions.resize(llvm::alignTo(features, kPlaces) * features);
  for (int64_t row = 0; row < features; ++row)
    result.lengths[row] = float(factor.row(row)[row]);
  llvm::ThreadPoolTaskGroup tasks(pool);
  float *block = result.directions.data();
  for (int64_t last = features; last > 0; last -= std::min(kPlaces, last), block += features * kPlaces)
    tasks.async([&factor, last, block] {
      int64_t first = std::max<int64_t>(last - kPlaces, 0);
      for (int64_t from = first; from < last; ++from)
        for (int64_t place = 0; place < from; ++place)
          block[place * kPlaces + from - first] = float(factor.row(from)[place] / factor.row(place)[place]);
    });
  tasks.wait();
  return result;
}

//===-- ErrorFeedback --------------------------------------------------------------------------------------------===//

ErrorFeedback::ErrorFeedback(nn::BlockFormatAttr format, const InputMoments &moments)
    : format(format), codec(format), moments(moments) {}

std::optional<size_t> ErrorFeedback::encodeRows(ArrayRef<float> weights, size_t rows, float tensorScale,
                                                MutableArrayRef<uint8_t> quantized, MutableArrayRef<uint8_t> scales,
                                                MutableArrayRef<uint8_t> zeroPoints) const {
  assert(rows && rows <= kMostRows && weights.size() == rows * moments.features());
  const size_t features = moments.features(), block = format.getBlock() ? format.getBlock() : features;
  const size_t blocks = codec.blockCount(features);
  Tile values(blocks * kRows), zeros(blocks * kRows), inputs = transposed(weights, rows);
  if (auto wrong = chooseScales(format, codec, weights, rows, moments.diagonal, tensorScale, scales,
                                [&](size_t row, size_t number, float value, uint8_t zero) {
                                  values[number * kRows + row] = value;
                                  zeros[number * kRows + row] = zero;
                                  if (!zeroPoints.empty())
                                    zeroPoints[row * blocks + number] = zero;
                                }))
    return wrong;
  forPlaces(moments.directions, features, [&](int64_t place, const float *sums, float *errors) {
    size_t feature = moments.order[place];
    const float *scale = values.data() + feature / block * kRows, *input = inputs.data() + feature * kRows;
    const float *zero = zeros.data() + feature / block * kRows;
    float ratios[kRows];
    uint8_t patterns[kRows];
    for (size_t row = 0; row < kRows; ++row)
      ratios[row] = scale[row] == 0 ? 0.0f : (input[row] + sums[row]) / scale[row] + zero[row];
    codec.encodeElements(ratios, patterns);
    for (size_t row = 0; row < kRows; ++row)
      errors[row] = input[row] - (codec.elementValue(patterns[row]) - zero[row]) * scale[row];
    for (size_t row = 0; row < rows; ++row)
      quantized[row * features + feature] = patterns[row];
  });
  return std::nullopt;
}

std::optional<size_t> encodeWithBestScales(nn::BlockFormatAttr format, ArrayRef<float> weights, size_t rows,
                                           float tensorScale, MutableArrayRef<uint8_t> quantized,
                                           MutableArrayRef<uint8_t> scales, MutableArrayRef<uint8_t> zeroPoints) {
  BlockCodec codec(format);
  const size_t features = weights.size() / rows, block = format.getBlock() ? format.getBlock() : features;
  const std::vector<float> importance(features, 1.0f);
  std::vector<float> ratios;
  return chooseScales(format, codec, weights, rows, importance, tensorScale, scales,
                      [&](size_t row, size_t number, float value, uint8_t zero) {
                        if (!zeroPoints.empty())
                          zeroPoints[row * codec.blockCount(features) + number] = zero;
                        size_t begin = row * features + number * block;
                        size_t size = std::min(block, features - number * block);
                        ratios.assign(size, 0.0f);
                        for (size_t at = 0; at < size && value != 0; ++at)
                          ratios[at] = weights[begin + at] / value + zero;
                        codec.encodeElements(ratios, quantized.slice(begin, size));
                      });
}

double ErrorFeedback::outputError(ArrayRef<float> left, ArrayRef<float> right, size_t rows) const {
  std::vector<float> differences(left.size());
  for (size_t at = 0; at < left.size(); ++at)
    differences[at] = left[at] - right[at];
  Tile tile = transposed(differences, rows);
  double total = 0;
  forPlaces(moments.directions, moments.features(), [&](int64_t place, const float *sums, float *errors) {
    std::memcpy(errors, tile.data() + size_t(moments.order[place]) * kRows, kRows * sizeof(float));
    for (size_t row = 0; row < rows; ++row) {
      double length = (double(errors[row]) + sums[row]) * moments.lengths[place];
      total += length * length;
    }
  });
  return total;
}

} // namespace intarsia
