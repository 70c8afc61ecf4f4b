//===- DecomposeFft.cpp - Fourier transforms as products of matrices ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A transform of n = f * m elements is m transforms of f, factors between, and f transforms of m (Cooley and Tukey, DOI
// 10.1090/S0025-5718-1965-0178586-1). One of few elements is a product with a matrix of cosines and sines, where
// complex numbers are two columns: as many multiplications as of complex numbers. A large prime becomes a convolution,
// which transforms of a power of 2 compute (Bluestein, DOI 10.1109/TAU.1970.1162132). All constants are computed in f64
// and rounded once.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Decompose.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <complex>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::reference;

using Complex = std::complex<double>;

namespace {
/// A matrix of more factors takes longer than two of them.
constexpr int64_t largestMatrix = 64;
/// Of a prime below it the matrix is faster than the three transforms of a convolution.
constexpr int64_t largestPrimeMatrix = 128;

/// exp(2πi * numerator / denominator)
Complex turned(int64_t numerator, int64_t denominator) {
  double angle = 2 * M_PI * double(numerator % denominator) / double(denominator);
  return {std::cos(angle), std::sin(angle)};
}

int64_t leastPrimeOf(int64_t number) {
  for (int64_t factor = 2; factor * factor <= number; ++factor)
    if (number % factor == 0)
      return factor;
  return number;
}

/// The number of elements of the first transforms that a transform of `number` is split into; `number` itself if it is
/// not split. Factors are as equal as can be, so that there are few.
int64_t firstFactor(int64_t number) {
  if (number <= largestMatrix)
    return number;
  double steps = std::ceil(std::log(double(number)) / std::log(double(largestMatrix)) - 1e-9);
  auto wanted = int64_t(std::ceil(std::pow(double(number), 1 / steps) - 1e-9));
  int64_t best = 1;
  for (int64_t factor = 2; factor <= largestMatrix; ++factor)
    if (number % factor == 0 && (best < wanted || factor < best))
      best = factor;
  return best == 1 ? leastPrimeOf(number) : best;
}

/// Transforms a power of 2 of elements, in place.
void transform(std::vector<Complex> &values) {
  size_t size = values.size();
  for (size_t i = 1, j = 0; i < size; ++i) { // the order of reversed bits
    size_t bit = size >> 1;
    for (; j & bit; bit >>= 1)
      j ^= bit;
    j ^= bit;
    if (i < j)
      std::swap(values[i], values[j]);
  }
  for (size_t length = 2; length <= size; length *= 2)
    for (size_t i = 0; i != length / 2; ++i) {
      Complex factor = std::conj(turned(int64_t(i), int64_t(length)));
      for (size_t start = i; start < size; start += length) {
        Complex first = values[start], second = values[start + length / 2] * factor;
        values[start] = first + second;
        values[start + length / 2] = first - second;
      }
    }
}

/// Rows [rows, n, 2], or [rows, n, 1] of real numbers, in f32.
class FftBuilder {
public:
  FftBuilder(ReferenceBuilder &builder, bool isInverse) : builder(builder), isInverse(isInverse) {}

  /// The transforms of rows of n elements, times `scale`: [rows, n, 2].
  Value transformed(Value rows, int64_t n, double scale) {
    int64_t factor = firstFactor(n);
    if (factor != n)
      return splitTransform(rows, factor, n / factor, scale);
    return n <= largestPrimeMatrix ? product(rows, n, scale) : convolved(rows, n, scale);
  }

private:
  Value product(Value rows, int64_t n, double scale);
  Value splitTransform(Value rows, int64_t factor, int64_t rest, double scale);
  Value convolved(Value rows, int64_t n, double scale);

  /// exp(∓2πi * numerator / denominator), of the direction of the transform.
  Complex root(int64_t numerator, int64_t denominator) const {
    Complex value = turned(numerator, denominator);
    return isInverse ? value : std::conj(value);
  }
  Value constant(ArrayRef<int64_t> shape, ArrayRef<float> values) {
    return arith::ConstantOp::create(
        builder, DenseElementsAttr::get(RankedTensorType::get(shape, builder.getF32Type()), values));
  }
  MixedSizes sizes(OpFoldResult rows, ArrayRef<int64_t> others) {
    MixedSizes result = {rows};
    for (int64_t other : others)
      result.push_back(builder.getIndexAttr(other));
    return result;
  }
  /// Each complex number times a factor: that at loops `place` of the last loops before the part. `read` are the loops
  /// that a number of `values` is at; of a real one the imaginary part is 0.
  Value multiplied(Value values, ArrayRef<unsigned> read, const MixedSizes &result, ArrayRef<Complex> factors,
                   ArrayRef<int64_t> factorShape);

  ReferenceBuilder &builder;
  bool isInverse;
};
} // namespace

static int64_t lastOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape().back(); }

static OpFoldResult rowsOf(ReferenceBuilder &builder, Value tensor) { return builder.sizesOf(tensor)[0]; }

static Value reshaped(ReferenceBuilder &builder, Value tensor, const MixedSizes &sizes,
                      ArrayRef<ReassociationIndices> groups) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (int64_t(sizes.size()) < type.getRank())
    return tensor::CollapseShapeOp::create(builder, tensor, groups);
  SmallVector<int64_t> shape;
  for (OpFoldResult size : sizes)
    shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  return tensor::ExpandShapeOp::create(builder, RankedTensorType::get(shape, type.getElementType()), tensor, groups,
                                       sizes);
}

/// A tensor with its dimensions in another order.
static Value permuted(ReferenceBuilder &builder, Value tensor, ArrayRef<unsigned> order) {
  MixedSizes sizes = builder.sizesOf(tensor), result;
  SmallVector<unsigned> read(order.size());
  for (auto [to, from] : llvm::enumerate(order)) {
    result.push_back(sizes[from]);
    read[from] = to;
  }
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return builder.parallel(result, element, {{tensor, builder.map(order.size(), read)}},
                          [](ScalarBuilder &, ValueRange v) { return v[0]; });
}

Value FftBuilder::multiplied(Value values, ArrayRef<unsigned> read, const MixedSizes &result, ArrayRef<Complex> factors,
                             ArrayRef<int64_t> factorShape) {
  // Part c of a product is that of two terms: the real part times (re, im), the imaginary one times (-im, re).
  std::vector<float> ofReal, ofImaginary;
  for (Complex factor : factors) {
    ofReal.insert(ofReal.end(), {float(factor.real()), float(factor.imag())});
    ofImaginary.insert(ofImaginary.end(), {float(-factor.imag()), float(factor.real())});
  }
  SmallVector<int64_t> shape(factorShape);
  shape.push_back(2);
  unsigned loops = result.size();
  auto part = [&](int64_t which) {
    SmallVector<AffineExpr> at;
    for (unsigned loop : read)
      at.push_back(builder.getAffineDimExpr(loop));
    at.push_back(builder.getAffineConstantExpr(which));
    return AffineMap::get(loops, 0, at, builder.getContext());
  };
  AffineMap last = builder.identity(loops).getMinorSubMap(shape.size());
  SmallVector<std::pair<Value, AffineMap>> inputs = {{values, part(0)}, {constant(shape, ofReal), last}};
  if (lastOf(values) == 2)
    inputs.append({{values, part(1)}, {constant(shape, ofImaginary), last}});
  return builder.parallel(result, builder.getF32Type(), inputs, [](ScalarBuilder &b, ValueRange v) {
    Value first = b.mul(v[0], v[1]);
    return v.size() == 3 ? first : b.add(first, b.mul(v[2], v[3]));
  });
}

Value FftBuilder::product(Value rows, int64_t n, double scale) {
  int64_t parts = lastOf(rows);
  std::vector<float> matrix;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t k = 0; k < n; ++k) {
        Complex factor = root(j * k, n) * scale * (part == 0 ? Complex(1, 0) : Complex(0, 1));
        matrix.insert(matrix.end(), {float(factor.real()), float(factor.imag())});
      }
  OpFoldResult count = rowsOf(builder, rows);
  Value flat = tensor::CollapseShapeOp::create(builder, rows, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  auto type = cast<RankedTensorType>(flat.getType());
  Value result =
      nn::MatmulOp::create(builder, RankedTensorType::get({type.getDimSize(0), 2 * n}, type.getElementType()), flat,
                           constant({n * parts, 2 * n}, matrix), /*transpose_lhs=*/false,
                           /*transpose_rhs=*/false, /*precision=*/TypeAttr());
  return reshaped(builder, result, sizes(count, {n, 2}), {{0}, {1, 2}});
}

Value FftBuilder::splitTransform(Value rows, int64_t factor, int64_t rest, double scale) {
  int64_t parts = lastOf(rows);
  OpFoldResult count = rowsOf(builder, rows);
  // Element j is j1 * rest + j2, element k of the result k1 + factor * k2.
  Value split = reshaped(builder, rows, sizes(count, {factor, rest, parts}), {{0}, {1, 2}, {3}});
  Value first = permuted(builder, split, {0, 2, 1, 3});
  first = tensor::CollapseShapeOp::create(builder, first, ArrayRef<ReassociationIndices>{{0, 1}, {2}, {3}});
  first = transformed(first, factor, 1);
  first = reshaped(builder, first, sizes(count, {rest, factor, 2}), {{0, 1}, {2}, {3}});
  std::vector<Complex> twiddles;
  for (int64_t k1 = 0; k1 < factor; ++k1)
    for (int64_t j2 = 0; j2 < rest; ++j2)
      twiddles.push_back(root(k1 * j2, factor * rest));
  Value second = multiplied(first, {0, 2, 1}, sizes(count, {factor, rest, 2}), twiddles, {factor, rest});
  second = tensor::CollapseShapeOp::create(builder, second, ArrayRef<ReassociationIndices>{{0, 1}, {2}, {3}});
  second = transformed(second, rest, scale);
  second = reshaped(builder, second, sizes(count, {factor, rest, 2}), {{0, 1}, {2}, {3}});
  return tensor::CollapseShapeOp::create(builder, permuted(builder, second, {0, 2, 1, 3}),
                                         ArrayRef<ReassociationIndices>{{0}, {1, 2}, {3}});
}

/// jk = (j² + k² - (k - j)²) / 2 makes of the sum a convolution with exp(±πi * j² / n).
Value FftBuilder::convolved(Value rows, int64_t n, double scale) {
  auto length = int64_t(llvm::PowerOf2Ceil(2 * n - 1));
  OpFoldResult count = rowsOf(builder, rows);
  std::vector<Complex> chirp, kernel(length);
  for (int64_t j = 0; j < n; ++j) {
    chirp.push_back(root(j * j % (2 * n), 2 * n));
    kernel[j] = kernel[(length - j) % length] = std::conj(chirp.back());
  }
  transform(kernel);
  for (Complex &value : kernel)
    value *= scale / double(length);

  Value turned = multiplied(rows, {0, 1}, sizes(count, {n, 2}), chirp, {n});
  Value padded = nn::PadOp::create(
      builder,
      RankedTensorType::get({cast<RankedTensorType>(turned.getType()).getDimSize(0), length, 2}, builder.getF32Type()),
      turned, nn::PadKind::Constant, ArrayRef<int64_t>{0, 0, 0}, ArrayRef<int64_t>{0, length - n, 0},
      /*value=*/FloatAttr());
  FftBuilder forward(builder, /*isInverse=*/false), back(builder, /*isInverse=*/true);
  Value spectrum = forward.transformed(padded, length, 1);
  spectrum = multiplied(spectrum, {0, 1}, sizes(count, {length, 2}), kernel, {length});
  Value result = back.transformed(spectrum, length, 1);
  SmallVector<OpFoldResult> zeros(3, builder.getIndexAttr(0)), ones(3, builder.getIndexAttr(1));
  result = tensor::ExtractSliceOp::create(builder, result, zeros, sizes(count, {n, 2}), ones);
  return multiplied(result, {0, 1}, sizes(count, {n, 2}), chirp, {n});
}

/// The elements of a onesided spectrum [rows, n / 2 + 1, 2] and their conjugates: [rows, n, 2].
static Value withConjugates(ReferenceBuilder &builder, Value spectrum, int64_t n) {
  MixedSizes sizes = builder.sizesOf(spectrum);
  sizes[1] = builder.getIndexAttr(n);
  return builder.parallel(sizes, builder.getF32Type(), {}, [&](ScalarBuilder &b, ValueRange) {
    Integer k = b.indexOf(1), isThere = k < Integer(b, b.index(n / 2 + 1));
    Value isImaginary = b.indexOf(2) == Integer(1);
    Integer at = choose(isThere, k, Integer(b, b.index(n)) - k);
    Value read = tensor::ExtractOp::create(b, spectrum, ValueRange{b.indexOf(0), at, b.indexOf(2)});
    Integer isAlone = (k == Integer(0)) | (k * 2 == Integer(b, b.index(n)));
    Value conjugate = b.select(isThere, read, arith::NegFOp::create(b, read));
    return b.select(isImaginary, b.select(isAlone, b.f32(0), conjugate), read);
  });
}

static Value inType(ReferenceBuilder &builder, Value tensor, Type element) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.getElementType() == element)
    return tensor;
  return builder.parallel(
      builder.sizesOf(tensor), element, {{tensor, builder.identity(type.getRank())}},
      [&](ScalarBuilder &b, ValueRange v) { return element.isF32() ? b.widen(v[0]) : b.narrow(v[0], element); });
}

Value legalize::decomposeFft(ReferenceBuilder &builder, nn::FftOp op) {
  Value input = op.getInput();
  auto type = cast<RankedTensorType>(input.getType());
  unsigned rank = type.getRank(), axis = op.getAxis();
  int64_t n = op.getNumber();
  bool isRealResult = op.hasRealResult();
  // The axis before the last dimension, and the others as one.
  SmallVector<unsigned> order, back(rank);
  for (unsigned d = 0; d + 1 < rank; ++d)
    if (d != axis)
      order.push_back(d);
  order.append({axis, rank - 1});
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = to;
  bool isMoved = axis + 2 != rank;
  Value rows = inType(builder, input, builder.getF32Type());
  if (isMoved)
    rows = permuted(builder, rows, order);
  MixedSizes sizes = builder.sizesOf(rows);
  SmallVector<ReassociationIndices> groups(3);
  for (unsigned d = 0; d + 2 < rank; ++d)
    groups[0].push_back(d);
  groups[1] = {rank - 2};
  groups[2] = {rank - 1};
  if (rank > 3)
    rows = tensor::CollapseShapeOp::create(builder, rows, groups);
  else if (rank == 2)
    rows = reshaped(builder, rows, {builder.getIndexAttr(1), sizes[0], sizes[1]}, {{0, 1}, {2}});

  if (isRealResult)
    rows = withConjugates(builder, rows, n);
  FftBuilder transforms(builder, op.getInverse());
  rows = transforms.transformed(rows, n, op.getInverse() ? 1 / double(n) : 1);
  if (op.getOnesided()) {
    MixedSizes kept = builder.sizesOf(rows);
    kept[isRealResult ? 2 : 1] = builder.getIndexAttr(isRealResult ? 1 : n / 2 + 1);
    SmallVector<OpFoldResult> zeros(3, builder.getIndexAttr(0)), ones(3, builder.getIndexAttr(1));
    rows = tensor::ExtractSliceOp::create(builder, rows, zeros, kept, ones);
  }
  MixedSizes results = builder.sizesOf(rows);
  sizes[rank - 2] = results[1];
  sizes[rank - 1] = results[2];
  if (rank > 3)
    rows = reshaped(builder, rows, sizes, groups);
  else if (rank == 2)
    rows = tensor::CollapseShapeOp::create(builder, rows, ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  if (isMoved)
    rows = permuted(builder, rows, back);
  return inType(builder, rows, type.getElementType());
}
