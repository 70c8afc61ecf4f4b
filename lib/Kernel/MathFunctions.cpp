//===- MathFunctions.cpp - The math dialect's functions as arithmetic -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/MathFunctions.h"
#include "lib/Kernel/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::kernel {

namespace {
using Unary = Value (*)(OpBuilder &, Location, Value);

Unary unaryFunction(Operation *op) {
  return llvm::TypeSwitch<Operation *, Unary>(op)
      .Case([](math::AcosOp) { return emitAcos; })
      .Case([](math::AcoshOp) { return emitAcosh; })
      .Case([](math::AsinOp) { return emitAsin; })
      .Case([](math::AsinhOp) { return emitAsinh; })
      .Case([](math::AtanOp) { return emitAtan; })
      .Case([](math::AtanhOp) { return emitAtanh; })
      .Case([](math::CbrtOp) { return emitCbrt; })
      .Case([](math::CosOp) { return emitCos; })
      .Case([](math::CoshOp) { return emitCosh; })
      .Case([](math::ErfOp) { return emitErf; })
      .Case([](math::ErfcOp) { return emitErfc; })
      .Case([](math::ExpOp) { return emitExp; })
      .Case([](math::Exp2Op) { return emitExp2; })
      .Case([](math::ExpM1Op) { return emitExpm1; })
      .Case([](math::LogOp) { return emitLog; })
      .Case([](math::Log10Op) { return emitLog10; })
      .Case([](math::Log1pOp) { return emitLog1p; })
      .Case([](math::Log2Op) { return emitLog2; })
      .Case([](math::RsqrtOp) { return emitRsqrt; })
      .Case([](math::SinOp) { return emitSin; })
      .Case([](math::SinhOp) { return emitSinh; })
      .Case([](math::TanOp) { return emitTan; })
      .Case([](math::TanhOp) { return emitTanh; })
      .Default([](Operation *) -> Unary { return nullptr; });
}

Value constantLike(OpBuilder &builder, Location location, Value like, TypedAttr scalar) {
  TypedAttr value = scalar;
  if (auto vector = dyn_cast<VectorType>(like.getType()))
    value = DenseElementsAttr::get(vector.clone(scalar.getType()), Attribute(scalar));
  return arith::ConstantOp::create(builder, location, value);
}

Value floatLike(OpBuilder &builder, Location location, Value like, double value) {
  return constantLike(builder, location, like, builder.getFloatAttr(getElementTypeOrSelf(like.getType()), value));
}

double doubleOf(APFloat value) {
  bool losesInfo = false;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToDouble();
}

/// Returns the least number that a type rounds to infinity: half a unit above its largest one.
double leastOverflow(FloatType type) {
  if (type.getWidth() >= 32)
    return std::numeric_limits<double>::infinity();
  APFloat largest = APFloat::getLargest(type.getFloatSemantics()), previous = largest;
  previous.next(/*nextDown=*/true);
  double most = doubleOf(largest);
  return most + (most - doubleOf(previous)) / 2;
}

/// Emits isnan, isinf, isfinite and isnormal. Numbers of narrow types are computed in f32, and may be ones that would
/// be rounded to infinity: limits are those of the op's type.
Value emitClass(OpBuilder &builder, Location location, Operation *op, Value x) {
  auto compare = [&](arith::CmpFPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpFOp::create(builder, location, predicate, a, b);
  };
  if (isa<math::IsNaNOp>(op))
    return compare(arith::CmpFPredicate::UNO, x, x);
  Value magnitude = math::AbsFOp::create(builder, location, x);
  auto type = cast<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType()));
  Value overflow = floatLike(builder, location, x, leastOverflow(type));
  if (isa<math::IsInfOp>(op))
    return compare(arith::CmpFPredicate::OGE, magnitude, overflow);
  Value isFinite = compare(arith::CmpFPredicate::OLT, magnitude, overflow);
  if (isa<math::IsFiniteOp>(op))
    return isFinite;
  double smallest = doubleOf(APFloat::getSmallestNormalized(type.getFloatSemantics()));
  Value isNormal = compare(arith::CmpFPredicate::OGE, magnitude, floatLike(builder, location, x, smallest));
  return arith::AndIOp::create(builder, location, isFinite, isNormal);
}

/// Rounds halves away from zero.
Value emitRound(OpBuilder &builder, Location location, Value x) {
  // The largest number below 1/2; adding 1/2 itself would round its predecessor up to 1.
  double half = getElementTypeOrSelf(x.getType()).isF64() ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2;
  Value step = math::CopySignOp::create(builder, location, floatLike(builder, location, x, half), x);
  return math::TruncOp::create(builder, location, arith::AddFOp::create(builder, location, x, step));
}

/// x^n of integers, by squares. Negative powers are 0, except of 1 and -1.
Value emitPowerOfIntegers(OpBuilder &builder, Location location, Value x, Value n) {
  Type element = getElementTypeOrSelf(x.getType());
  auto integer = [&](int64_t value) {
    return constantLike(builder, location, x, builder.getIntegerAttr(element, value));
  };
  Value zero = integer(0), one = integer(1);
  auto isEqual = [&](Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, a, b);
  };
  auto select = [&](Value condition, Value a, Value b) -> Value {
    return arith::SelectOp::create(builder, location, condition, a, b);
  };
  auto isOdd = [&](Value value) -> Value {
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne,
                                 arith::AndIOp::create(builder, location, value, one), zero);
  };
  auto index = [&](int64_t value) {
    return arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(value)).getResult();
  };
  auto loop =
      scf::ForOp::create(builder, location, index(0), index(element.getIntOrFloatBitWidth()), index(1),
                         ValueRange{one, x, n}, [&](OpBuilder &inner, Location at, Value, ValueRange carried) {
                           Value factor = arith::SelectOp::create(
                               inner, at,
                               arith::CmpIOp::create(inner, at, arith::CmpIPredicate::ne,
                                                     arith::AndIOp::create(inner, at, carried[2], one), zero),
                               carried[1], one);
                           scf::YieldOp::create(inner, at,
                                                ValueRange{arith::MulIOp::create(inner, at, carried[0], factor),
                                                           arith::MulIOp::create(inner, at, carried[1], carried[1]),
                                                           arith::ShRUIOp::create(inner, at, carried[2], one)});
                         });
  Value minusOne = integer(-1);
  Value ofMinusOne = select(isOdd(n), minusOne, one);
  Value inverse = select(isEqual(x, one), one, select(isEqual(x, minusOne), ofMinusOne, zero));
  Value isNegative = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, n, zero);
  return select(isNegative, inverse, loop.getResult(0));
}
} // namespace

MathKind mathKind(Operation *op) {
  if (unaryFunction(op) || isa<math::Atan2Op, math::FPowIOp, math::PowFOp>(op))
    return MathKind::Polynomial;
  if (isa<math::ClampFOp, math::IPowIOp, math::IsFiniteOp, math::IsInfOp, math::IsNaNOp, math::IsNormalOp>(op))
    return MathKind::Arithmetic;
  if (isa<math::AbsFOp, math::AbsIOp, math::CopySignOp, math::CountLeadingZerosOp, math::CountTrailingZerosOp,
          math::CtPopOp, math::FmaOp, math::SqrtOp>(op))
    return MathKind::Instruction;
  if (isa<math::CeilOp, math::FloorOp, math::RoundEvenOp, math::RoundOp, math::TruncOp>(op))
    return MathKind::Rounding;
  return MathKind::None;
}

Value emitMathFunction(OpBuilder &builder, Location location, Operation *op, ValueRange operands) {
  if (Unary function = unaryFunction(op))
    return function(builder, location, operands[0]);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::Atan2Op) { return emitAtan2(builder, location, operands[0], operands[1]); })
      .Case([&](math::PowFOp) { return emitPow(builder, location, operands[0], operands[1]); })
      .Case([&](math::FPowIOp) { return emitIntegerPower(builder, location, operands[0], operands[1]); })
      .Case([&](math::IPowIOp) { return emitPowerOfIntegers(builder, location, operands[0], operands[1]); })
      .Case([&](math::RoundOp) { return emitRound(builder, location, operands[0]); })
      .Case<math::IsFiniteOp, math::IsInfOp, math::IsNaNOp, math::IsNormalOp>(
          [&](auto) { return emitClass(builder, location, op, operands[0]); })
      .Case([&](math::ClampFOp) -> Value {
        Value most = arith::MinimumFOp::create(builder, location, operands[0], operands[2]);
        return arith::MaximumFOp::create(builder, location, most, operands[1]);
      })
      .Default(Value());
}

} // namespace intarsia::kernel
