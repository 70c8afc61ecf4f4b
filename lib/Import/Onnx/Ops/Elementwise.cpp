//===- Elementwise.cpp - Arithmetic, comparisons, conversions of elements -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

//===-- Two operands ------------------------------------------------------------------------------------------===//

using Binary = Value (*)(Scalars &, Value, Value);

template <typename FloatOp, typename IntegerOp> Value arithmetic(Scalars &s, Value left, Value right) {
  if (isFloat(s.type))
    return FloatOp::create(s.builder, s.at, left, right);
  return IntegerOp::create(s.builder, s.at, left, right);
}

Value divide(Scalars &s, Value left, Value right) {
  if (isFloat(s.type))
    return arith::DivFOp::create(s.builder, s.at, left, right);
  if (isUnsigned(s.type))
    return arith::DivUIOp::create(s.builder, s.at, left, right);
  return arith::DivSIOp::create(s.builder, s.at, left, right);
}

/// What elements an op is defined for.
enum class Domain { Numbers, Integers, Bools, Floats, All };

bool isIn(NodeContext &node, Domain domain) {
  switch (domain) {
  case Domain::Numbers:
    return node.isOf(0, isNumber, "numbers");
  case Domain::Integers:
    return node.isOf(0, isInteger, "integers");
  case Domain::Bools:
    return node.isOf(0, isBool, "bool");
  case Domain::Floats:
    return node.isOf(0, isFloat, "floats");
  case Domain::All:
    return true;
  }
  llvm_unreachable("all domains are handled");
}

/// Returns the second input of an op of two. Versions before 7 say which dimension of the first one its first stands
/// at, by the attribute 'axis'; without it they broadcast as others do.
Value secondInput(NodeContext &node) {
  Value tensor = node.tensor(1);
  if (node.version >= 7 || node.isRefused() || !node.hasAttribute("axis"))
    return tensor;
  Shape shape = node.graph.shapeOf(node.at, tensor);
  int64_t rank = node.rankOf(0), axis = node.axis(node.integer("axis", 0), rank);
  if (node.isRefused())
    return tensor;
  if (axis + int64_t(shape.size()) > rank) {
    node.refuse("attribute 'axis' is " + llvm::Twine(axis) + ", inputs have " + llvm::Twine(rank) + " and " +
                llvm::Twine(shape.size()) + " dimensions");
    return tensor;
  }
  shape.append(rank - axis - shape.size(), Size(1));
  return node.reshaped(tensor, shape);
}

template <Binary compute, Domain domain = Domain::Numbers> void binary(NodeContext &node) {
  if (!isIn(node, domain) || !node.areOneType({0, 1}))
    return;
  Value left = node.tensor(0), right = secondInput(node);
  if (!node.isRefused())
    node.result(combine(node, {left, right}, node.typeOf(0), compute));
}

llvm::SmallVector<size_t> allInputs(NodeContext &node) {
  return llvm::to_vector(llvm::seq<size_t>(0, node.inputCount()));
}

/// Max, Min, Sum: of any number of inputs.
template <Binary compute> void variadic(NodeContext &node) {
  if (node.inputCount() == 0)
    return node.refuse("has no inputs");
  if (!isIn(node, Domain::Numbers) || !node.areOneType(allInputs(node)))
    return;
  Value result = node.tensor(0);
  for (size_t number = 1; number < node.inputCount() && !node.isRefused(); ++number)
    result = combine(node, {result, node.tensor(number)}, node.typeOf(0), compute);
  node.result(result);
}

void mean(NodeContext &node) {
  if (node.inputCount() == 0)
    return node.refuse("has no inputs");
  if (!isIn(node, Domain::Floats) || !node.areOneType(allInputs(node)))
    return;
  Value sum = node.tensor(0);
  for (size_t number = 1; number < node.inputCount() && !node.isRefused(); ++number)
    sum = combine(node, {sum, node.tensor(number)}, node.typeOf(0), arithmetic<arith::AddFOp, arith::AddIOp>);
  double count = double(node.inputCount());
  node.result(unary(node, sum, node.typeOf(0), [&](Scalars &s, Value x) -> Value {
    return arith::DivFOp::create(s.builder, s.at, x, s.number(count));
  }));
}

/// The remainder of f64, which no kernel has, with the sign of the dividend. A quotient that was rounded up to a whole
/// number leaves a rest of the other sign. It is exact where the quotient is below 2^53.
Value remainderOfDoubles(Scalars &s, Value left, Value right) {
  OpBuilder &b = s.builder;
  auto is = [&](arith::CmpFPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpFOp::create(b, s.at, predicate, x, y);
  };
  Value dividend = math::AbsFOp::create(b, s.at, left), divisor = math::AbsFOp::create(b, s.at, right);
  Value quotient = math::TruncOp::create(b, s.at, arith::DivFOp::create(b, s.at, dividend, divisor));
  Value minus = arith::NegFOp::create(b, s.at, quotient);
  Value rest = math::FmaOp::create(b, s.at, minus, divisor, dividend);
  Value more = arith::AddFOp::create(b, s.at, rest, divisor);
  rest = arith::SelectOp::create(b, s.at, is(arith::CmpFPredicate::OLT, rest, s.number(0)), more, rest);
  // What is below the divisor, of infinity too, is the rest; NaN stays.
  rest = arith::SelectOp::create(b, s.at, is(arith::CmpFPredicate::OLT, dividend, divisor), dividend, rest);
  return math::CopySignOp::create(b, s.at, rest, left);
}

Value remainder(Scalars &s, Value left, Value right, bool hasSignOfDividend) {
  if (isFloat(s.type)) {
    Value rest;
    if (s.element.isF64()) {
      rest = remainderOfDoubles(s, left, right);
    } else {
      rest = arith::RemFOp::create(s.builder, s.at, left, right);
    }
    if (hasSignOfDividend)
      return rest;
    Value zero = s.number(0);
    auto isBelow = [&](Value x) -> Value {
      return arith::CmpFOp::create(s.builder, s.at, arith::CmpFPredicate::OLT, x, zero);
    };
    Value isSome = arith::CmpFOp::create(s.builder, s.at, arith::CmpFPredicate::ONE, rest, zero);
    Value differ = arith::XOrIOp::create(s.builder, s.at, isBelow(rest), isBelow(right));
    Value isMoved = arith::AndIOp::create(s.builder, s.at, isSome, differ);
    Value moved = arith::AddFOp::create(s.builder, s.at, rest, right);
    return arith::SelectOp::create(s.builder, s.at, isMoved, moved, rest);
  }
  if (isUnsigned(s.type))
    return arith::RemUIOp::create(s.builder, s.at, left, right);
  Value rest = arith::RemSIOp::create(s.builder, s.at, left, right);
  if (hasSignOfDividend)
    return rest;
  Value zero = s.number(0);
  Value isSome = arith::CmpIOp::create(s.builder, s.at, arith::CmpIPredicate::ne, rest, zero);
  Value signs = arith::XOrIOp::create(s.builder, s.at, rest, right);
  Value differ = arith::CmpIOp::create(s.builder, s.at, arith::CmpIPredicate::slt, signs, zero);
  Value isMoved = arith::AndIOp::create(s.builder, s.at, isSome, differ);
  Value moved = arith::AddIOp::create(s.builder, s.at, rest, right);
  return arith::SelectOp::create(s.builder, s.at, isMoved, moved, rest);
}

void mod(NodeContext &node) {
  bool hasSignOfDividend = node.integer("fmod", 0) != 0;
  if (!isIn(node, Domain::Numbers) || !node.areOneType({0, 1}))
    return;
  if (isFloat(node.typeOf(0)) && !hasSignOfDividend && node.version < 28)
    return node.refuse("attribute 'fmod' must be 1 for floats");
  Value left = node.tensor(0), right = node.tensor(1);
  if (!node.isRefused())
    node.result(combine(node, {left, right}, node.typeOf(0), [&](Scalars &s, Value one, Value other) {
      return remainder(s, one, other, hasSignOfDividend);
    }));
}

/// The exponent may be of another type than the base, whose type the result has.
void power(NodeContext &node) {
  Value base = node.tensor(0), exponent = secondInput(node);
  DataType type = node.typeOf(0), by = node.typeOf(1);
  if (node.isRefused() || !isIn(node, Domain::Numbers) || !node.isOf(1, isNumber, "numbers"))
    return;
  // A number that is known is a few products, or a root.
  const Elements *known = node.graph.elementsOf(node.input(1));
  if (isFloat(type) && known && known->values.size() == 1 && known->shape.empty()) {
    double number = known->values[0].number();
    if (number == 2 || number == 0.5 || number == -0.5 || number == 3)
      return node.result(unary(node, base, type, [&](Scalars &s, Value x) -> Value {
        if (number == 0.5)
          return math::SqrtOp::create(s.builder, s.at, x);
        if (number == -0.5 && s.element.isF64()) // which kernels have no rsqrt of
          return arith::DivFOp::create(s.builder, s.at, s.number(1), math::SqrtOp::create(s.builder, s.at, x));
        if (number == -0.5)
          return math::RsqrtOp::create(s.builder, s.at, x);
        Value square = arith::MulFOp::create(s.builder, s.at, x, x);
        return number == 2 ? square : Value(arith::MulFOp::create(s.builder, s.at, square, x));
      }));
  }
  auto isWhole = [](const Element &each) {
    return each.isReal() && each.real >= 0 && each.real <= 64 && each.real == std::floor(each.real);
  };
  // Powers of integers by whole numbers are exact.
  bool isExact = known && llvm::all_of(known->values, isWhole);
  if (isFloat(type) || (isFloat(by) && !isExact)) {
    DataType wide = isFloat(type) ? type : DataType::Float;
    Value result = combine(node, {node.cast(base, type, wide), node.cast(exponent, by, wide)}, wide,
                           [](Scalars &s, Value x, Value y) -> Value { return s.inSingle<math::PowFOp>(x, y); });
    return node.result(node.cast(result, wide, type));
  }
  Value result = combine(node, {base, node.cast(exponent, by, type)}, type, [](Scalars &s, Value x, Value y) -> Value {
    return math::IPowIOp::create(s.builder, s.at, x, y);
  });
  node.result(result);
}

//===-- Comparisons and logic ---------------------------------------------------------------------------------===//

template <arith::CmpFPredicate ofFloats, arith::CmpIPredicate ofSigned, arith::CmpIPredicate ofUnsigned>
void compare(NodeContext &node) {
  DataType type = node.typeOf(0);
  Value left = node.tensor(0), right = secondInput(node);
  if (node.isRefused() || !node.areOneType({0, 1}))
    return;
  node.result(0,
              node.broadcast({left, right}, node.ops().getI1Type(),
                             [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                               if (isFloat(type))
                                 return arith::CmpFOp::create(b, loc, ofFloats, v[0], v[1]);
                               return arith::CmpIOp::create(b, loc, isUnsigned(type) ? ofUnsigned : ofSigned, v[0],
                                                            v[1]);
                             }),
              DataType::Bool);
}

template <typename Op> Value bitwise(Scalars &s, Value left, Value right) {
  return Op::create(s.builder, s.at, left, right);
}

template <Domain domain> void inverted(NodeContext &node) {
  Value x = node.tensor(0);
  if (node.isRefused() || !isIn(node, domain))
    return;
  node.result(node.broadcast({x}, node.irType(node.typeOf(0)), [](OpBuilder &b, Location loc, ValueRange v) -> Value {
    Value ones = arith::ConstantOp::create(b, loc, b.getIntegerAttr(v[0].getType(), -1));
    return arith::XOrIOp::create(b, loc, v[0], ones);
  }));
}

void bitShift(NodeContext &node) {
  llvm::StringRef direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return node.refuse("attribute 'direction' is '" + direction + "', must be LEFT or RIGHT");
  Value left = node.tensor(0), right = node.tensor(1);
  if (node.isRefused() || !isIn(node, Domain::Integers) || !node.areOneType({0, 1}))
    return;
  // A shift by as many bits as there are, or more, leaves nothing but the sign.
  node.result(combine(node, {left, right}, node.typeOf(0), [&](Scalars &s, Value x, Value by) -> Value {
    unsigned bits = x.getType().getIntOrFloatBitWidth();
    if (direction == "RIGHT" && !isUnsigned(s.type)) {
      Value most = arith::MinUIOp::create(s.builder, s.at, by, s.number(bits - 1));
      return arith::ShRSIOp::create(s.builder, s.at, x, most);
    }
    Value shifted = direction == "LEFT" ? Value(arith::ShLIOp::create(s.builder, s.at, x, by))
                                        : Value(arith::ShRUIOp::create(s.builder, s.at, x, by));
    Value isInside = arith::CmpIOp::create(s.builder, s.at, arith::CmpIPredicate::ult, by, s.number(bits));
    return arith::SelectOp::create(s.builder, s.at, isInside, shifted, s.number(0));
  }));
}

void where(NodeContext &node) {
  Value condition = node.tensor(0), yes = node.tensor(1), no = node.tensor(2);
  if (node.isRefused() || !isIn(node, Domain::Bools) || !node.areOneType({1, 2}))
    return;
  node.result(0,
              node.broadcast({condition, yes, no}, node.irType(node.typeOf(1)),
                             [](OpBuilder &b, Location loc, ValueRange v) -> Value {
                               return arith::SelectOp::create(b, loc, v[0], v[1], v[2]);
                             }),
              node.typeOf(1));
}

/// Returns input 0, which must be floats; small ones as f32.
Value floats(NodeContext &node) {
  Value x = node.tensor(0);
  if (node.isRefused() || isSmallFloat(node.typeOf(0)))
    return node.isRefused() ? x : node.cast(x, node.typeOf(0), DataType::Float);
  isIn(node, Domain::Floats);
  return x;
}

void isNan(NodeContext &node) {
  Value x = floats(node);
  if (!node.isRefused())
    node.result(0,
                node.broadcast({x}, node.ops().getI1Type(),
                               [](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                 return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, v[0], v[0]);
                               }),
                DataType::Bool);
}

void isInf(NodeContext &node) {
  bool positive = node.integer("detect_positive", 1) != 0, negative = node.integer("detect_negative", 1) != 0;
  Value x = floats(node);
  if (node.isRefused())
    return;
  node.result(0,
              node.broadcast({x}, node.ops().getI1Type(),
                             [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                               double infinity = std::numeric_limits<double>::infinity();
                               auto is = [&](double number) -> Value {
                                 Value limit = importer::floatConstant(b, loc, v[0].getType(), number);
                                 return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, v[0], limit);
                               };
                               Value result = arith::ConstantOp::create(b, loc, b.getBoolAttr(false));
                               if (positive)
                                 result = is(infinity);
                               if (negative)
                                 result = arith::OrIOp::create(b, loc, result, is(-infinity));
                               return result;
                             }),
              DataType::Bool);
}

//===-- One operand -------------------------------------------------------------------------------------------===//

using Unary = Value (*)(Scalars &, Value);

template <Unary compute, Domain domain = Domain::Floats> void unaryOp(NodeContext &node) {
  Value x = node.tensor(0);
  if (!node.isRefused() && isIn(node, domain))
    node.result(unary(node, x, node.typeOf(0), compute));
}

/// A function of math, which is computed in 32 bits.
template <typename Op> Value function(Scalars &s, Value x) { return s.inSingle<Op>(x); }
/// A function that is an instruction, in f64 too.
template <typename Op> Value instruction(Scalars &s, Value x) { return Op::create(s.builder, s.at, x); }

Value absolute(Scalars &s, Value x) {
  if (isFloat(s.type))
    return math::AbsFOp::create(s.builder, s.at, x);
  return isUnsigned(s.type) ? x : Value(math::AbsIOp::create(s.builder, s.at, x));
}

Value negate(Scalars &s, Value x) {
  if (isFloat(s.type))
    return arith::NegFOp::create(s.builder, s.at, x);
  return arith::SubIOp::create(s.builder, s.at, s.number(0), x);
}

Value reciprocal(Scalars &s, Value x) { return arith::DivFOp::create(s.builder, s.at, s.number(1), x); }

/// -1, 0 or 1; NaN of NaN.
Value sign(Scalars &s, Value x) {
  Value zero = s.number(0), one = s.number(1), minus = s.number(-1);
  auto is = [&](arith::CmpFPredicate ofFloats, arith::CmpIPredicate ofIntegers) -> Value {
    if (isFloat(s.type))
      return arith::CmpFOp::create(s.builder, s.at, ofFloats, x, zero);
    return arith::CmpIOp::create(s.builder, s.at, ofIntegers, x, zero);
  };
  Value isMore =
      is(arith::CmpFPredicate::OGT, isUnsigned(s.type) ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt);
  if (isUnsigned(s.type))
    return arith::SelectOp::create(s.builder, s.at, isMore, one, zero);
  Value isLess = is(arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt);
  Value rest = arith::SelectOp::create(s.builder, s.at, isLess, minus, isFloat(s.type) ? x : zero);
  return arith::SelectOp::create(s.builder, s.at, isMore, one, rest);
}

void identity(NodeContext &node) {
  if (node.has(0))
    node.result(0, node.input(0));
  else
    node.refuse("has no input");
}

/// Clip: limits are inputs that may be missing, before version 11 attributes.
void clip(NodeContext &node) {
  Value x = node.tensor(0);
  DataType type = node.typeOf(0);
  if (node.isRefused() || !isIn(node, Domain::Numbers) || !node.areOneType({0, 1}) || !node.areOneType({0, 2}))
    return;
  auto limited = [&](size_t number, llvm::StringRef name, Binary compute) {
    Value limit;
    if (node.version >= 11 && node.has(number))
      limit = node.tensor(number);
    else if (node.version < 11 && node.hasAttribute(name))
      limit = node.filled({}, node.numberAttribute(type, node.number(name, 0)));
    // A limit of one element is a scalar to ONNX Runtime, also for an input that is one.
    if (limit && tensorType(limit).hasStaticShape() && tensorType(limit).getNumElements() == 1)
      limit = node.reshaped(limit, {});
    if (limit && node.isBroadcastTo(limit, node.shapeOf(0), name))
      x = combine(node, {x, limit}, type, compute);
  };
  limited(1, "min", largest);
  limited(2, "max", smallest);
  node.result(x);
}

/// Dropout that drops nothing: the input, and a mask that is true.
void dropout(NodeContext &node) {
  // Before version 12 the ratio is an attribute, and a model is never trained.
  bool isTraining = node.version >= 12 && node.has(2) && node.knownNumber(node.input(2)) != 0;
  const Elements *ratio = node.has(1) ? node.graph.elementsOf(node.input(1)) : nullptr;
  if (isTraining && !(ratio && ratio->values.size() == 1 && ratio->values[0].isReal() && ratio->values[0].real == 0))
    return node.refuse("drops elements at random, unless input 'training_mode' is false or 'ratio' is 0, which must be "
                       "known to the compiler");
  node.result(0, node.input(0));
  if (!node.isWanted(1))
    return;
  DataType type = node.version >= 10 ? DataType::Bool : node.typeOf(0);
  if (!node.irType(type))
    return node.refuse("elements of type " + nameOf(type) + " are not computed");
  node.result(1, node.filled(node.shapeOf(0), node.numberAttribute(type, 1)), type);
}

} // namespace

llvm::ArrayRef<OpRow> elementwiseOps() {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  static const OpRow rows[] = {
      {"", "Add", 1, binary<arithmetic<arith::AddFOp, arith::AddIOp>>},
      {"", "Sub", 1, binary<arithmetic<arith::SubFOp, arith::SubIOp>>},
      {"", "Mul", 1, binary<arithmetic<arith::MulFOp, arith::MulIOp>>},
      {"", "Div", 1, binary<divide>},
      {"", "Mod", 10, mod},
      {"", "Pow", 1, power},
      {"", "Max", 6, variadic<largest>},
      {"", "Min", 6, variadic<smallest>},
      {"", "Sum", 6, variadic<arithmetic<arith::AddFOp, arith::AddIOp>>},
      {"", "Mean", 6, mean},
      {"", "Equal", 1, compare<F::OEQ, I::eq, I::eq>},
      {"", "Greater", 1, compare<F::OGT, I::sgt, I::ugt>},
      {"", "GreaterOrEqual", 12, compare<F::OGE, I::sge, I::uge>},
      {"", "Less", 1, compare<F::OLT, I::slt, I::ult>},
      {"", "LessOrEqual", 12, compare<F::OLE, I::sle, I::ule>},
      {"", "And", 1, binary<bitwise<arith::AndIOp>, Domain::Bools>},
      {"", "Or", 1, binary<bitwise<arith::OrIOp>, Domain::Bools>},
      {"", "Xor", 1, binary<bitwise<arith::XOrIOp>, Domain::Bools>},
      {"", "BitwiseAnd", 18, binary<bitwise<arith::AndIOp>, Domain::Integers>},
      {"", "BitwiseOr", 18, binary<bitwise<arith::OrIOp>, Domain::Integers>},
      {"", "BitwiseXor", 18, binary<bitwise<arith::XOrIOp>, Domain::Integers>},
      {"", "BitwiseNot", 18, inverted<Domain::Integers>},
      {"", "BitShift", 11, bitShift},
      {"", "Not", 1, inverted<Domain::Bools>},
      {"", "Where", 9, where},
      {"", "IsNaN", 9, isNan, Takes::Elements},
      {"", "IsInf", 10, isInf, Takes::Elements},
      {"", "Abs", 6, unaryOp<absolute, Domain::Numbers>},
      {"", "Neg", 6, unaryOp<negate, Domain::Numbers>},
      {"", "Sign", 9, unaryOp<sign, Domain::Numbers>},
      {"", "Reciprocal", 6, unaryOp<reciprocal>},
      {"", "Sqrt", 6, unaryOp<instruction<math::SqrtOp>>},
      {"", "Floor", 6, unaryOp<instruction<math::FloorOp>>},
      {"", "Ceil", 6, unaryOp<instruction<math::CeilOp>>},
      {"", "Round", 11, unaryOp<instruction<math::RoundEvenOp>>},
      {"", "Exp", 6, unaryOp<function<math::ExpOp>>},
      {"", "Log", 6, unaryOp<function<math::LogOp>>},
      {"", "Erf", 9, unaryOp<function<math::ErfOp>>},
      {"", "Sin", 7, unaryOp<function<math::SinOp>>},
      {"", "Cos", 7, unaryOp<function<math::CosOp>>},
      {"", "Tan", 7, unaryOp<function<math::TanOp>>},
      {"", "Asin", 7, unaryOp<function<math::AsinOp>>},
      {"", "Acos", 7, unaryOp<function<math::AcosOp>>},
      {"", "Atan", 7, unaryOp<function<math::AtanOp>>},
      {"", "Sinh", 9, unaryOp<function<math::SinhOp>>},
      {"", "Cosh", 9, unaryOp<function<math::CoshOp>>},
      {"", "Asinh", 9, unaryOp<function<math::AsinhOp>>},
      {"", "Acosh", 9, unaryOp<function<math::AcoshOp>>},
      {"", "Atanh", 9, unaryOp<function<math::AtanhOp>>},
      {"", "Identity", 1, identity, Takes::Sequences},
      {"", "Clip", 6, clip},
      {"", "Dropout", 7, dropout, Takes::Elements},
  };
  return rows;
}

} // namespace intarsia::onnx
