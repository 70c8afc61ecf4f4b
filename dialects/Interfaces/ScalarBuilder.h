//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Arithmetic of one element inside of a loop: references of ops and layouts of weights are written in it.
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_INTERFACES_SCALARBUILDER_H
#define INTARSIA_DIALECTS_INTERFACES_SCALARBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace intarsia {

/// Returns the element of a type that changes nothing when others are combined with it: 0 of sums, 1 of products, NaN
/// of the maxima that leave NaN out.
mlir::TypedAttr neutralElement(mlir::vector::CombiningKind kind, mlir::Type type);

class Integer;

/// Scalar arithmetic inside a loop body: in f64 what an op computes, in f32 what a format defines by its roundings.
class ScalarBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using mlir::ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  mlir::Value f32(float value) { return mlir::arith::ConstantOp::create(*this, getF32FloatAttr(value)); }
  mlir::Value f64(double value) { return mlir::arith::ConstantOp::create(*this, getF64FloatAttr(value)); }
  mlir::Value i32(int32_t value) { return mlir::arith::ConstantOp::create(*this, getI32IntegerAttr(value)); }
  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(*this, value); }
  mlir::Value index(mlir::OpFoldResult value) { return mlir::getValueOrCreateConstantIndexOp(*this, getLoc(), value); }

  mlir::Value add(mlir::Value a, mlir::Value b) { return mlir::arith::AddFOp::create(*this, a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return mlir::arith::SubFOp::create(*this, a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return mlir::arith::MulFOp::create(*this, a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return mlir::arith::DivFOp::create(*this, a, b); }
  mlir::Value max(mlir::Value a, mlir::Value b) { return mlir::arith::MaximumFOp::create(*this, a, b); }
  mlir::Value min(mlir::Value a, mlir::Value b) { return mlir::arith::MinimumFOp::create(*this, a, b); }
  mlir::Value abs(mlir::Value a) { return mlir::math::AbsFOp::create(*this, a); }
  mlir::Value exp(mlir::Value a) { return mlir::math::ExpOp::create(*this, a); }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(*this, condition, a, b);
  }
  mlir::Value isEqual(mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpFOp::create(*this, mlir::arith::CmpFPredicate::OEQ, a, b);
  }
  mlir::Value isNan(mlir::Value a) { return mlir::arith::CmpFOp::create(*this, mlir::arith::CmpFPredicate::UNO, a, a); }
  mlir::Value bits(mlir::Value a) { return mlir::arith::BitcastOp::create(*this, getI32Type(), a); }
  mlir::Value fromBits(mlir::Value a) { return mlir::arith::BitcastOp::create(*this, getF32Type(), a); }

  /// The type of sums: f64 in references, so that results are rounded once.
  mlir::Type sumType = getF64Type();
  /// Returns a float of at most its width as a `sumType`.
  mlir::Value exact(mlir::Value value) {
    return value.getType() == sumType ? value : mlir::arith::ExtFOp::create(*this, sumType, value).getResult();
  }
  /// Returns a float of at most 32 bits as f32.
  mlir::Value widen(mlir::Value value) {
    return value.getType().isF32() ? value : mlir::arith::ExtFOp::create(*this, getF32Type(), value).getResult();
  }
  /// Returns a float rounded to `type`, ties to even.
  mlir::Value narrow(mlir::Value value, mlir::Type type) {
    return value.getType() == type ? value : mlir::arith::TruncFOp::create(*this, type, value).getResult();
  }

  /// The index of the loop in a dimension.
  Integer indexOf(unsigned dimension);
  /// A signed integer of any width as an index.
  Integer toIndex(mlir::Value value);
  /// An integer of any width, taken without sign, as an index.
  Integer toIndexUnsigned(mlir::Value value);
  /// A signed integer as f32: exact below 2^24.
  mlir::Value toFloat(Integer value);
  /// The value of the 16 bits of an f16, as f32; higher bits are ignored.
  mlir::Value halfToFloat(Integer bits);
  /// A tensor [values] of constants, for `lookUp`; it stands before the loop whose body reads it.
  mlir::Value table(mlir::ArrayRef<float> values);
  /// The value at `index` of a table of 2^n values; higher bits of the index are ignored.
  mlir::Value lookUp(mlir::Value table, Integer index);

  /// Builds `condition ? body() : otherwise`. The body runs only where the condition holds, so it may read what is
  /// there only then. It cannot ask for `indexOf`.
  mlir::Value runIf(mlir::Value condition, mlir::Value otherwise, llvm::function_ref<mlir::Value()> body);
  /// Builds the sum in f64 of body(i) over i from `begin` on and before `end`. The body cannot ask for `indexOf`.
  mlir::Value sum(Integer begin, Integer end, llvm::function_ref<mlir::Value(Integer)> body);
};

/// An integer of a loop body, in the notation of C++. Division, remainder, right shift and order take their operands as
/// unsigned integers. Comparisons give i1. A literal has the type of the other operand.
class Integer {
public:
  Integer(int64_t literal) : literal(literal) {}
  Integer(ScalarBuilder &builder, mlir::Value value) : builder(&builder), value(value) {}
  operator mlir::Value() const {
    assert(value && "a literal is no value of the loop");
    return value;
  }

  friend Integer operator+(Integer x, Integer y) { return create<mlir::arith::AddIOp>(x, y); }
  friend Integer operator-(Integer x, Integer y) { return create<mlir::arith::SubIOp>(x, y); }
  friend Integer operator*(Integer x, Integer y) { return create<mlir::arith::MulIOp>(x, y); }
  friend Integer operator/(Integer x, Integer y) { return create<mlir::arith::DivUIOp>(x, y); }
  friend Integer operator%(Integer x, Integer y) { return create<mlir::arith::RemUIOp>(x, y); }
  friend Integer operator<<(Integer x, Integer y) { return create<mlir::arith::ShLIOp>(x, y); }
  friend Integer operator>>(Integer x, Integer y) { return create<mlir::arith::ShRUIOp>(x, y); }
  friend Integer operator&(Integer x, Integer y) { return create<mlir::arith::AndIOp>(x, y); }
  friend Integer operator|(Integer x, Integer y) { return create<mlir::arith::OrIOp>(x, y); }
  friend Integer operator^(Integer x, Integer y) { return create<mlir::arith::XOrIOp>(x, y); }
  friend Integer operator==(Integer x, Integer y) { return compare(mlir::arith::CmpIPredicate::eq, x, y); }
  friend Integer operator<(Integer x, Integer y) { return compare(mlir::arith::CmpIPredicate::ult, x, y); }
  friend Integer operator<=(Integer x, Integer y) { return compare(mlir::arith::CmpIPredicate::ule, x, y); }
  /// `condition ? x : y`; not both of these are literals.
  friend Integer choose(Integer condition, Integer x, Integer y) {
    auto [b, left, right] = materialize(x, y);
    return {*b, b->select(condition, left, right)};
  }
  friend Integer smaller(Integer x, Integer y) { return create<mlir::arith::MinUIOp>(x, y); }
  friend Integer larger(Integer x, Integer y) { return create<mlir::arith::MaxUIOp>(x, y); }

private:
  static std::tuple<ScalarBuilder *, mlir::Value, mlir::Value> materialize(Integer x, Integer y) {
    const Integer &some = x.value ? x : y;
    auto valueOf = [&](const Integer &integer) -> mlir::Value {
      if (integer.value)
        return integer.value;
      return mlir::arith::ConstantOp::create(*some.builder,
                                             some.builder->getIntegerAttr(some.value.getType(), integer.literal));
    };
    mlir::Value left = valueOf(x);
    return {some.builder, left, valueOf(y)};
  }
  template <typename Op> static Integer create(Integer x, Integer y) {
    auto [b, left, right] = materialize(x, y);
    return {*b, Op::create(*b, left, right)};
  }
  static Integer compare(mlir::arith::CmpIPredicate predicate, Integer x, Integer y) {
    auto [b, left, right] = materialize(x, y);
    return {*b, mlir::arith::CmpIOp::create(*b, predicate, left, right)};
  }

  ScalarBuilder *builder = nullptr;
  mlir::Value value;
  int64_t literal = 0;
};

inline Integer ScalarBuilder::indexOf(unsigned dimension) {
  return {*this, mlir::linalg::IndexOp::create(*this, dimension)};
}
inline Integer ScalarBuilder::toIndex(mlir::Value value) {
  return {*this, mlir::arith::IndexCastOp::create(*this, getIndexType(), value)};
}
inline Integer ScalarBuilder::toIndexUnsigned(mlir::Value value) {
  return {*this, mlir::arith::IndexCastUIOp::create(*this, getIndexType(), value)};
}
inline mlir::Value ScalarBuilder::toFloat(Integer value) {
  mlir::Value integer = value;
  if (integer.getType().isIndex())
    integer = mlir::arith::IndexCastOp::create(*this, getI64Type(), integer);
  return mlir::arith::SIToFPOp::create(*this, getF32Type(), integer);
}
inline mlir::Value ScalarBuilder::halfToFloat(Integer bits) {
  mlir::Value half = mlir::arith::IndexCastOp::create(*this, getI16Type(), bits);
  return widen(mlir::arith::BitcastOp::create(*this, getF16Type(), half));
}
inline mlir::Value ScalarBuilder::table(mlir::ArrayRef<float> values) {
  auto type = mlir::RankedTensorType::get(values.size(), getF32Type());
  return mlir::arith::ConstantOp::create(*this, mlir::DenseElementsAttr::get(type, values));
}
inline mlir::Value ScalarBuilder::lookUp(mlir::Value table, Integer index) {
  int64_t size = mlir::cast<mlir::RankedTensorType>(table.getType()).getDimSize(0);
  return mlir::tensor::ExtractOp::create(*this, table, mlir::ValueRange{index & (size - 1)});
}

inline mlir::Value ScalarBuilder::runIf(mlir::Value condition, mlir::Value otherwise,
                                        llvm::function_ref<mlir::Value()> body) {
  auto branch = mlir::scf::IfOp::create(*this, mlir::TypeRange{otherwise.getType()}, condition, /*addThenBlock=*/true,
                                        /*addElseBlock=*/true);
  InsertionGuard guard(*this);
  setInsertionPointToStart(branch.thenBlock());
  mlir::scf::YieldOp::create(*this, body());
  setInsertionPointToStart(branch.elseBlock());
  mlir::scf::YieldOp::create(*this, otherwise);
  return branch.getResult(0);
}
inline mlir::Value ScalarBuilder::sum(Integer begin, Integer end, llvm::function_ref<mlir::Value(Integer)> body) {
  auto loop = mlir::scf::ForOp::create(*this, begin, end, index(1), mlir::ValueRange{f64(0)});
  InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  mlir::Value term = body({*this, loop.getInductionVar()});
  mlir::scf::YieldOp::create(*this, add(loop.getRegionIterArg(0), term));
  return loop.getResult(0);
}

} // namespace intarsia

#endif
