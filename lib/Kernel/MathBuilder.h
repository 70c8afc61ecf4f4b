//===- MathBuilder.h - Arithmetic that elementary functions are made of ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_MATHBUILDER_H
#define INTARSIA_LIB_KERNEL_MATHBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>
#include <optional>

namespace intarsia::kernel {

inline constexpr float log2E = 1.44269504f;
/// ln 2 as a sum of f32 numbers (Cody and Waite, Software Manual for the Elementary Functions, 1980). With fused
/// multiply-adds the parts need no trailing zeros.
inline constexpr float ln2High = 0.693147182f, ln2Low = -1.90465421e-09f;

/// 1.5·2^23: adding it rounds a number below 2^22 to an integer and leaves that integer in the low bits of the sum.
inline constexpr float roundingMagic = 12582912.0f;
/// 1.5·2^52, the same for f64.
inline constexpr double roundingMagicF64 = 6755399441055744.0;

/// Builds arithmetic on f32 or vectors of it; integers and f64 take the shape of the argument. Each
/// method builds one op, or a few that belong together.
class MathBuilder {
public:
  MathBuilder(mlir::OpBuilder &builder, mlir::Location location, mlir::Value like)
      : builder(builder), location(location), vector(mlir::dyn_cast<mlir::VectorType>(like.getType())) {
    assert(mlir::getElementTypeOrSelf(like.getType()).isF32() && "vector math is f32");
  }

  mlir::Type shaped(mlir::Type element) {
    return vector ? mlir::Type(mlir::VectorType(vector).clone(element)) : element;
  }
  mlir::Value splat(mlir::TypedAttr scalar) {
    mlir::TypedAttr value = scalar;
    if (vector)
      value =
          mlir::DenseElementsAttr::get(mlir::cast<mlir::ShapedType>(shaped(scalar.getType())), mlir::Attribute(scalar));
    return mlir::arith::ConstantOp::create(builder, location, value);
  }
  mlir::Value f32(float value) { return splat(builder.getF32FloatAttr(value)); }
  mlir::Value f64(double value) { return splat(builder.getF64FloatAttr(value)); }
  mlir::Value i32(uint32_t value) { return splat(builder.getI32IntegerAttr(static_cast<int32_t>(value))); }

  mlir::Value add(mlir::Value a, mlir::Value b) { return mlir::arith::AddFOp::create(builder, location, a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return mlir::arith::SubFOp::create(builder, location, a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return mlir::arith::MulFOp::create(builder, location, a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return mlir::arith::DivFOp::create(builder, location, a, b); }
  mlir::Value neg(mlir::Value a) { return mlir::arith::NegFOp::create(builder, location, a); }
  mlir::Value abs(mlir::Value a) { return mlir::math::AbsFOp::create(builder, location, a); }
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c) {
    return mlir::math::FmaOp::create(builder, location, a, b, c);
  }
  /// An f64 rounded to an integer, ties to even, by additions: not every variant has an instruction for it. 2^52 with
  /// the sign of a has a unit of 1; numbers of that magnitude are integers.
  mlir::Value roundEvenF64(mlir::Value a) {
    mlir::Value magic = f64(0x1p52);
    mlir::Value isSmall = compare(mlir::arith::CmpFPredicate::OLT, abs(a), magic);
    mlir::Value signedMagic = withSign(magic, a);
    return select(isSmall, sub(add(a, signedMagic), signedMagic), a);
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpFOp::create(builder, location, predicate, a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(builder, location, condition, a, b);
  }
  /// The larger (smaller) of a constant and x, x where that is NaN. This form of comparison and selection is exactly
  /// what maxps and minps compute; arith.maximumf and arith.maxnumf take three or more instructions on x86.
  mlir::Value atLeast(mlir::Value bound, mlir::Value x) {
    return select(compare(mlir::arith::CmpFPredicate::OGT, bound, x), bound, x);
  }
  mlir::Value atMost(mlir::Value bound, mlir::Value x) {
    return select(compare(mlir::arith::CmpFPredicate::OLT, bound, x), bound, x);
  }

  mlir::Value bits(mlir::Value a) {
    return mlir::arith::BitcastOp::create(builder, location, shaped(builder.getI32Type()), a);
  }
  mlir::Value fromBits(mlir::Value a) {
    return mlir::arith::BitcastOp::create(builder, location, shaped(builder.getF32Type()), a);
  }
  mlir::Value shiftLeft(mlir::Value a, uint32_t by) {
    return mlir::arith::ShLIOp::create(builder, location, a, i32(by));
  }

  /// Horner's scheme, one fused multiply-add a degree.
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<float> coefficients) {
    mlir::Value y = f32(coefficients.back());
    for (float c : llvm::reverse(coefficients.drop_back()))
      y = fma(y, x, f32(c));
    return y;
  }

  /// The magnitude of a with the sign of b.
  mlir::Value withSign(mlir::Value a, mlir::Value b) { return mlir::math::CopySignOp::create(builder, location, a, b); }

  struct PowerOfTwo {
    mlir::Value n;
    mlir::Value power;
  };
  /// n = round(x·factor), at most `largest`, and 2^(n + more), from the sum with roundingMagic. An exponent of -127
  /// gives 0, 128 inf.
  PowerOfTwo splitPowerOfTwo(mlir::Value x, mlir::Value factor, std::optional<int> largest = std::nullopt,
                             int more = 0) {
    float zero = roundingMagic + static_cast<float>(127 + more);
    mlir::Value magic = f32(zero);
    mlir::Value sum = fma(x, factor, magic);
    if (largest)
      sum = atMost(f32(zero + static_cast<float>(*largest)), sum);
    return {sub(sum, magic), fromBits(shiftLeft(bits(sum), 23))};
  }

  struct Product {
    mlir::Value power;
    mlir::Value fraction;
  };

  /// e^(sign·x) as two factors, for sign·x in [-88, 89]; the first is inf for n = 128, that is above 88.376.
  Product exp(mlir::Value x, float sign, llvm::ArrayRef<float> coefficients,
              std::optional<int> largest = std::nullopt) {
    auto [n, power] = splitPowerOfTwo(x, f32(sign * log2E), largest);
    mlir::Value remainder = fma(n, f32(-sign * ln2High), x);
    remainder = fma(n, f32(-sign * ln2Low), remainder);
    llvm::SmallVector<float> signedCoefficients(coefficients);
    if (sign < 0) // the remainder is that of x, not of -x
      for (size_t i = 1; i < signedCoefficients.size(); i += 2)
        signedCoefficients[i] = -signedCoefficients[i];
    return {power, polynomial(remainder, signedCoefficients)};
  }

  /// 2^(a·slope + exponent) as two factors, |a·slope + exponent| ≤ 128. The product is used unrounded twice, so that
  /// large exponents cost no accuracy.
  Product exp2OfProduct(mlir::Value a, mlir::Value slope, int exponent, llvm::ArrayRef<float> coefficients) {
    mlir::Value magic = f32(roundingMagic + static_cast<float>(127 + exponent));
    mlir::Value sum = fma(slope, a, magic);
    mlir::Value power = fromBits(shiftLeft(bits(sum), 23));
    return {power, polynomial(fma(slope, a, sub(magic, sum)), coefficients)};
  }

  mlir::Value f64Of(mlir::Value a) {
    return mlir::arith::ExtFOp::create(builder, location, shaped(builder.getF64Type()), a);
  }
  mlir::Value f32Of(mlir::Value a) {
    return mlir::arith::TruncFOp::create(builder, location, shaped(builder.getF32Type()), a);
  }
  mlir::Value polynomialF64(mlir::Value x, llvm::ArrayRef<double> coefficients) {
    mlir::Value y = f64(coefficients.back());
    for (double c : llvm::reverse(coefficients.drop_back()))
      y = fma(y, x, f64(c));
    return y;
  }
  /// x/π reduced to [-1, 1] modulo 2, in f64, for any finite x; NaN for others.
  mlir::Value halfTurns(mlir::Value x);

  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::VectorType vector;
};
} // namespace intarsia::kernel

#endif
