//===- ExpandFloats.cpp - Small floats as integers, which every processor has ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

#include "dialects/Interfaces/ReferenceBuilder.h"

using namespace mlir;

namespace intarsia::reference {
#define GEN_PASS_DEF_REFERENCEEXPANDFLOATS
#include "lib/Reference/Passes.h.inc"

namespace {
/// A float of a sign, an exponent and a mantissa in less than 32 bits.
struct SmallFloat {
  int64_t width, mantissaBits, bias;
  int64_t special;  ///< bit pattern without sign from which on values are not finite
  bool hasInfinity; ///< `special` is infinity; else all such bit patterns are NaN
  int64_t nan;      ///< bit pattern that conversions give for NaN
};

std::optional<SmallFloat> smallFloatOf(Type type) {
  if (type.isF16())
    return SmallFloat{16, 10, 15, 0x7C00, true, 0x7E00};
  if (isa<Float8E4M3FNType>(type))
    return SmallFloat{8, 3, 7, 0x7F, false, 0x7F};
  if (isa<Float8E5M2Type>(type))
    return SmallFloat{8, 2, 15, 0x7C, true, 0x7E};
  return std::nullopt;
}

bool isSmall(Type type) {
  auto element = dyn_cast<FloatType>(type);
  return element && element.getWidth() < 32;
}

/// Scalar arithmetic on the bits of a number.
class BitBuilder : public ScalarBuilder {
public:
  using ScalarBuilder::ScalarBuilder;

  /// Widens a small float to f32, which holds all of its values; null if the type is not known.
  Value widenSmall(Value number) {
    if (number.getType().isBF16())
      return fromBits(smallBits(number) << 16);
    std::optional<SmallFloat> format = smallFloatOf(number.getType());
    if (!format)
      return {};
    // With the exponent shifted to that of f32 the number is too small by the difference of both biases, which a
    // multiplication by a power of two makes good, for subnormal numbers too.
    auto [width, mantissaBits, bias, special, hasInfinity, nan] = *format;
    Integer bits = smallBits(number);
    Integer magnitude = bits & ((1 << (width - 1)) - 1), sign = bits >> (width - 1) << 31;
    Integer shifted = magnitude << (23 - mantissaBits);
    Integer scaled = bitsOf(mul(fromBits(shifted), fromBits(Integer(*this, i32((254 - bias) << 23)))));
    Integer notFinite = hasInfinity ? shifted | 0x7F800000 : Integer(*this, i32(0x7FC00000));
    return fromBits(choose(magnitude < special, scaled, notFinite) | sign);
  }

  /// Rounds f32 or f64 to a small float, to nearest, ties to even; null if the type is not known.
  Value narrowSmall(Value number, Type type) {
    if (number.getType().isF64())
      number = roundToOdd(number);
    if (type.isBF16())
      return narrowBF16(number, cast<FloatType>(type));
    if (std::optional<SmallFloat> format = smallFloatOf(type))
      return narrowTo(*format, number, cast<FloatType>(type));
    return {};
  }

  /// Rounds to an integer, ties to even: adding 2^23 leaves no bit behind the point (2^52 for f64).
  Value roundToEven(Value number) {
    FloatType type = cast<FloatType>(number.getType());
    Value limit = arith::ConstantOp::create(*this, getFloatAttr(type, type.isF32() ? 0x1p23 : 0x1p52));
    Value magnitude = abs(number);
    Value rounded = math::CopySignOp::create(*this, sub(add(magnitude, limit), limit), number);
    Value isBelow = arith::CmpFOp::create(*this, arith::CmpFPredicate::OLT, magnitude, limit);
    return select(isBelow, rounded, number);
  }

private:
  Integer bitsOf(Value number) { return {*this, bits(number)}; }
  /// Returns the bits of a small float as i32.
  Integer smallBits(Value number) {
    Type stored = getIntegerType(number.getType().getIntOrFloatBitWidth());
    return {*this, arith::ExtUIOp::create(*this, getI32Type(), arith::BitcastOp::create(*this, stored, number))};
  }
  Value asSmall(Integer bits, FloatType type) {
    Value stored = arith::TruncIOp::create(*this, getIntegerType(type.getWidth()), bits);
    return arith::BitcastOp::create(*this, type, stored);
  }

  /// Rounds f64 to f32 so that a second rounding to at most 22 bits gives what one rounding would: of the two
  /// neighbours of a number that is no f32 the one whose last bit is 1 (Boldo and Melquiond, Emulation of a FMA and
  /// correctly rounded sums: proved algorithms using rounding to odd, 2008).
  Value roundToOdd(Value number) {
    Value nearest = arith::TruncFOp::create(*this, getF32Type(), number), back = exact(nearest);
    Integer bits = bitsOf(nearest);
    // NaN counts as exact.
    Integer isOdd(*this, arith::CmpFOp::create(*this, arith::CmpFPredicate::UEQ, back, number));
    isOdd = isOdd | ((bits & 1) == 1);
    Integer isAbove(*this, arith::CmpFOp::create(*this, arith::CmpFPredicate::OGT, abs(back), abs(number)));
    return fromBits(choose(isOdd, bits, choose(isAbove, bits - 1, bits + 1)));
  }

  /// A carry out of the mantissa is one into the exponent.
  Value narrowBF16(Value number, FloatType type) {
    Integer bits = bitsOf(number), high = bits >> 16;
    Integer rounded = (bits + 0x7FFF + (high & 1)) >> 16;
    return asSmall(choose(Integer(*this, isNan(number)), high | 0x40, rounded), type);
  }

  Value narrowTo(const SmallFloat &format, Value number, FloatType type) {
    int64_t shift = 23 - format.mantissaBits, biases = 127 - format.bias;
    Integer bits = bitsOf(number), magnitude = bits & 0x7FFFFFFF, sign = bits >> 31 << (format.width - 1);
    // The last bit of `step` is as much as that of the subnormal numbers, so that adding it rounds to these.
    int64_t step = (biases + 1 + shift) << 23;
    Integer stepBits(*this, i32(step));
    Integer subnormal = bitsOf(add(fromBits(magnitude), fromBits(stepBits))) - step;
    int64_t half = (int64_t(1) << (shift - 1)) - 1;
    Integer normal = (magnitude + (half - (biases << 23)) + (magnitude >> shift & 1)) >> shift;
    Integer finite = choose(magnitude < (biases + 1) << 23, subnormal, smaller(normal, format.special));
    return asSmall(choose(Integer(*this, isNan(number)), format.nan, finite) | sign, type);
  }
};

struct ExpandFloats : impl::ReferenceExpandFloatsBase<ExpandFloats> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](Operation *op) { expand(op, rewriter); });
    WalkResult result = getOperation()->walk([](Operation *op) { return check(op); });
    if (result.wasInterrupted())
      return signalPassFailure();
    storeAsIntegers(rewriter);
  }

private:
  static void expand(Operation *op, IRRewriter &rewriter) {
    if (op->getNumResults() != 1 || op->getNumOperands() != 1)
      return;
    rewriter.setInsertionPoint(op);
    BitBuilder b(op->getLoc(), rewriter);
    Value operand = op->getOperand(0), value;
    Type from = operand.getType(), to = op->getResult(0).getType();
    if (isa<arith::ExtFOp, arith::TruncFOp>(op) && (isSmall(from) || isSmall(to))) {
      value = isSmall(from) ? b.widenSmall(operand) : operand;
      if (value)
        value = isSmall(to) ? b.narrowSmall(value, to) : to.isF64() ? b.exact(value) : value;
    } else if (isa<math::RoundEvenOp>(op) && (from.isF32() || from.isF64())) {
      value = b.roundToEven(operand);
    }
    if (value)
      rewriter.replaceOp(op, value);
  }

  /// Refuses arithmetic on small floats: here they may be moved, selected and taken as bits.
  static WalkResult check(Operation *op) {
    if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
        isa<arith::BitcastOp, arith::ConstantOp, arith::SelectOp>(op))
      return WalkResult::advance();
    for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
      for (Type type : types)
        if (isSmall(type)) {
          op->emitOpError() << "on " << type << " has no reference";
          return WalkResult::interrupt();
        }
    return WalkResult::advance();
  }

  /// Gives every small float the type of its bits. A code generator for a processor that lacks the type may keep it as
  /// f32 and convert it wherever it is moved, by functions that no artifact has.
  void storeAsIntegers(IRRewriter &rewriter) {
    AttrTypeReplacer replacer;
    auto bitsOf = [](Type type) { return IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth()); };
    replacer.addReplacement([&](FloatType type) -> std::optional<Type> {
      return isSmall(type) ? std::optional<Type>(bitsOf(type)) : std::nullopt;
    });
    replacer.addReplacement([&](FloatAttr number) -> std::optional<std::pair<Attribute, WalkResult>> {
      if (!isSmall(number.getType()))
        return std::nullopt;
      return {{IntegerAttr::get(bitsOf(number.getType()), number.getValue().bitcastToAPInt()), WalkResult::skip()}};
    });
    replacer.addReplacement([&](DenseElementsAttr elements) -> std::optional<std::pair<Attribute, WalkResult>> {
      if (!isSmall(elements.getElementType()))
        return std::nullopt;
      return {{elements.bitcast(bitsOf(elements.getElementType())), WalkResult::skip()}};
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    getOperation()->walk([&](arith::BitcastOp cast) {
      if (cast.getIn().getType() == cast.getType())
        rewriter.replaceOp(cast, cast.getIn());
    });
  }
};
} // namespace
} // namespace intarsia::reference
