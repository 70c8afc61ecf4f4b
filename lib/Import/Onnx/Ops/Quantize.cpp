//===- Quantize.cpp - QuantizeLinear and DequantizeLinear ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A quantized element q means (q - zero point) * scale. Numbers are rounded half to even, and clamped to the type.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// True for what QuantizeLinear gives: integers of up to 16 bits, and small types but powers of two.
bool isQuantized(DataType type) {
  bool isByte = type == DataType::Int8 || type == DataType::Uint8;
  bool isShort = type == DataType::Int16 || type == DataType::Uint16;
  return isByte || isShort || (isSmall(type) && type != DataType::Float8E8M0);
}

bool isDequantized(DataType type) { return isQuantized(type) || type == DataType::Int32; }
bool isScale(DataType type) { return isComputedByNn(type) || type == DataType::Float8E8M0; }
bool isQuantizedFrom(DataType type) { return isComputedByNn(type) || type == DataType::Int32; }
bool isDivisor(DataType type) { return isScale(type) || type == DataType::Int32; }

/// Returns scales or zero points in a shape that is broadcast to that of the tensor: one for all, one for each index of
/// an axis, or one for each block along it.
std::optional<Value> spreadOver(NodeContext &node, Value numbers, const Shape &shape, int64_t axis, int64_t block) {
  Shape own = node.graph.shapeOf(node.at, numbers);
  bool isOne = llvm::all_of(own, [](const Size &size) { return !size.isDynamic() && size.value == 1; });
  if (isOne)
    return node.reshaped(numbers, {});
  axis = node.axis(axis, shape.size());
  if (node.isRefused())
    return std::nullopt;
  if (block > 0 && own.size() == shape.size()) {
    if (own[axis].isDynamic() || shape[axis].isDynamic()) {
      node.refuse("the number of blocks depends on sizes of the call");
      return std::nullopt;
    }
    // The last block may have fewer elements than the others.
    int64_t reach = 0, size = shape[axis].value;
    if (own[axis].value < 1 || llvm::MulOverflow(own[axis].value, block, reach) || reach - block >= size ||
        size > reach) {
      node.refuse(llvm::Twine(own[axis].value) + " blocks of " + llvm::Twine(block) + " do not go with " +
                  llvm::Twine(size) + " elements");
      return std::nullopt;
    }
    // Each number is that of the elements of its block.
    Shape split(own), whole(own);
    split.insert(split.begin() + axis + 1, 1);
    Shape repeated = split;
    repeated[axis + 1] = block;
    whole[axis] = reach;
    Value result = node.reshaped(node.broadcastTo(node.reshaped(numbers, split), repeated), whole);
    return whole[axis].value == shape[axis].value ? result : node.sliced(result, axis, 0, shape[axis]);
  }
  if (own.size() != 1 || block != 0) {
    node.refuse("scales have " + llvm::Twine(own.size()) + " dimensions");
    return std::nullopt;
  }
  if (!own[0].isDynamic() && !shape[axis].isDynamic() && own[0].value != shape[axis].value) {
    node.refuse(llvm::Twine(own[0].value) + " scales or zero points do not go with dimension " + llvm::Twine(axis) +
                " of " + llvm::Twine(shape[axis].value) + " elements");
    return std::nullopt;
  }
  Shape wide(shape.size() - axis, 1);
  wide[0] = own[0];
  return node.reshaped(numbers, wide);
}

/// Returns an element of a quantized type as an f32 if it is a float, as an i32 if it is an integer.
Value numberOf(OpBuilder &b, Location at, Value element, DataType type) {
  if (isSmallFloat(type))
    return decodeSmallFloat(b, at, element, type);
  if (isSmallInteger(type))
    element = wrapSmallInteger(b, at, element, type);
  if (element.getType() == b.getI32Type())
    return element;
  return isUnsigned(type) ? Value(arith::ExtUIOp::create(b, at, b.getI32Type(), element))
                          : Value(arith::ExtSIOp::create(b, at, b.getI32Type(), element));
}

/// Returns a number, a scale or a zero point as a float of a type that holds it.
Value asFloat(OpBuilder &b, Location at, Value value, DataType type, Type wide) {
  if (isComputedByNn(type))
    return importer::widened(b, at, value, wide);
  value = numberOf(b, at, value, type);
  return isSmallFloat(type) ? importer::widened(b, at, value, wide)
                            : Value(arith::SIToFPOp::create(b, at, wide, value));
}

/// Returns a float rounded to the precision of a type.
Value roundedTo(OpBuilder &b, Location at, Value value, Type precision) {
  if (precision.getIntOrFloatBitWidth() >= value.getType().getIntOrFloatBitWidth())
    return value;
  Value rounded = arith::TruncFOp::create(b, at, precision, value);
  return arith::ExtFOp::create(b, at, value.getType(), rounded);
}

/// Inputs: the tensor, the scale, the zero point. Scale and zero point in a shape that is broadcast to that of the
/// tensor.
struct Operands {
  llvm::SmallVector<Value, 3> values;
  bool hasZero() const { return values.size() == 3; }
};

std::optional<Operands> read(NodeContext &node) {
  Operands operands{{node.tensor(0)}};
  Shape shape = node.graph.shapeOf(node.at, operands.values[0]);
  int64_t axis = node.integer("axis", 1), block = node.integer("block_size", 0);
  for (size_t input : {1, 2}) {
    if (input == 2 && !node.has(2))
      continue;
    Value numbers = node.tensor(input);
    std::optional<Value> spread = node.isRefused() ? std::nullopt : spreadOver(node, numbers, shape, axis, block);
    if (!spread)
      return std::nullopt;
    operands.values.push_back(*spread);
  }
  return operands;
}

/// One known scale and zero point. A uint8 is read as a number with a sign, 128 less, and so is its zero point.
struct KnownScale {
  float scale;
  int64_t zero;
};

std::optional<KnownScale> knownScale(NodeContext &node, DataType type) {
  if ((type != DataType::Int8 && type != DataType::Uint8) || node.typeOf(1) != DataType::Float)
    return std::nullopt;
  const Elements *scales = node.graph.elementsOf(node.input(1));
  const Elements *zeros = node.has(2) ? node.graph.elementsOf(node.input(2)) : nullptr;
  if (!scales || scales->values.size() != 1 || !scales->values[0].isReal() || (node.has(2) && !zeros) ||
      (zeros && (zeros->values.size() != 1 || !zeros->values[0].isInteger())))
    return std::nullopt;
  auto scale = float(scales->values[0].real);
  if (!std::isnormal(scale))
    return std::nullopt;
  return KnownScale{scale, (zeros ? zeros->values[0].integer : 0) - (type == DataType::Uint8 ? 128 : 0)};
}

/// Returns the number that one known integer means; nullopt for more than one, and for those that are not known.
std::optional<Elements> dequantizedNumber(NodeContext &node, DataType type) {
  auto one = [&](size_t input) -> const Element * {
    const Elements *elements = node.graph.elementsOf(node.input(input));
    return elements && elements->values.size() == 1 && elements->values[0].isNumber() ? &elements->values[0] : nullptr;
  };
  const Element *integer = one(0), *scale = one(1), *zero = node.has(2) ? one(2) : nullptr;
  if (!isInteger(type) || node.typeOf(1) != DataType::Float || !integer || !scale || (node.has(2) && !zero))
    return std::nullopt;
  auto moved = float(integer->integer - (zero ? zero->integer : 0));
  return Elements{node.graph.elementsOf(node.input(0))->shape, {Element::ofReal(moved * float(scale->number()))}};
}

/// Returns integers of the file that are dequantized without zero points.
std::shared_ptr<const StoredIntegers> storedIntegers(NodeContext &node) {
  GraphValue &values = node.input(0), &scales = node.input(1);
  if (values.type != DataType::Int8 || !values.stored || !scales.stored || scales.type != DataType::Float ||
      node.integer("block_size", 0) != 0)
    return nullptr;
  const Elements *zeros = node.has(2) ? node.graph.elementsOf(node.input(2)) : nullptr;
  if (node.has(2) && (!zeros || !llvm::all_of(zeros->values, [](const Element &zero) {
        return zero.isInteger() && zero.integer == 0;
      })))
    return nullptr;
  return std::make_shared<StoredIntegers>(StoredIntegers{values.stored, scales.stored, node.integer("axis", 1)});
}

/// Returns the type that an attribute names, or one that it is by default.
DataType typeOf(NodeContext &node, llvm::StringRef attribute, DataType byDefault) {
  auto type = DataType(node.integer(attribute, 0));
  return type == DataType::Undefined ? byDefault : type;
}

void dequantizeLinear(NodeContext &node) {
  std::optional<Operands> operands = read(node);
  DataType type = node.typeOf(0), ofScale = node.typeOf(1), to = typeOf(node, "output_dtype", ofScale);
  if (!operands || !node.isOf(0, isDequantized, "integers of up to 16 bits, int32, or floats of 8 bits and fewer") ||
      !node.isOf(1, isScale, "floats of 16 or 32 bits, or float8e8m0") || !node.areOneType({0, 2}))
    return;
  if (!isComputedByNn(to))
    return node.refuse("results are of type " + nameOf(to) +
                       ", must be floats of 16 or 32 bits, by attribute 'output_dtype' or the scale");
  Type element = node.irType(to), f32 = node.ops().getF32Type();
  GraphValue dequantized;
  dequantized.type = to;
  std::optional<KnownScale> known = to == DataType::Float ? knownScale(node, type) : std::nullopt;
  if (auto whole = node.input(0).quantizedIntegers; whole && known) {
    dequantized.quantizedIntegers =
        std::make_shared<QuantizedIntegers>(QuantizedIntegers{whole->integers, known->scale, known->zero});
    dequantized.tensor = unary(node, whole->integers, to, [&](Scalars &s, Value number) -> Value {
      if (known->zero != 0)
        number = arith::SubFOp::create(s.builder, s.at, number, s.number(double(known->zero)));
      return arith::MulFOp::create(s.builder, s.at, number, s.number(known->scale));
    });
    return node.result(0, std::move(dequantized));
  }
  if (to == DataType::Float) {
    if (std::optional<Elements> number = dequantizedNumber(node, type))
      return node.result(to, std::move(*number));
    dequantized.storedIntegers = storedIntegers(node);
  }
  dequantized.tensor = node.broadcast(operands->values, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value moved = numberOf(b, at, v[0], type);
    if (operands->hasZero()) {
      Value zero = numberOf(b, at, v[2], type);
      moved = isSmallFloat(type) ? Value(arith::SubFOp::create(b, at, moved, zero))
                                 : Value(arith::SubIOp::create(b, at, moved, zero));
    }
    Value number = isSmallFloat(type) ? moved : Value(arith::SIToFPOp::create(b, at, f32, moved));
    Value product = arith::MulFOp::create(b, at, number, asFloat(b, at, v[1], ofScale, f32));
    return element == f32 ? product : Value(arith::TruncFOp::create(b, at, element, product));
  });
  node.result(0, std::move(dequantized));
}

void quantizeLinear(NodeContext &node) {
  std::optional<Operands> operands = read(node);
  DataType type = node.typeOf(0), ofScale = node.typeOf(1);
  DataType to = node.has(2) ? node.typeOf(2) : typeOf(node, "output_dtype", DataType::Uint8);
  if (!operands || !node.isOf(0, isQuantizedFrom, "floats of 16 or 32 bits, or int32") ||
      !node.isOf(1, isDivisor, "floats of 16 or 32 bits, int32 or float8e8m0"))
    return;
  if (!isQuantized(to) || to != typeOf(node, "output_dtype", to))
    return node.refuse("results are of type " + nameOf(to) +
                       ", must be integers of up to 16 bits or floats of 8 bits "
                       "and fewer, and what attribute 'output_dtype' says");
  DataType byDefault = isComputedByNn(ofScale)      ? ofScale
                       : ofScale == DataType::Int32 ? DataType::Double
                                                    : DataType::Float;
  DataType precision = typeOf(node, "precision", byDefault);
  if (!isFloat(precision))
    return node.refuse("attribute 'precision' is " + nameOf(precision) + ", must be a float of 16, 32 or 64 bits");
  SmallRounding rounding{node.integer("saturate", 1) != 0};
  Type element = node.irType(to), divided = node.irType(precision);
  Type wide = precision == DataType::Double ? divided : node.ops().getF32Type();
  GraphValue quantized;
  quantized.type = to;
  std::optional<KnownScale> known =
      type == DataType::Float && precision == DataType::Float ? knownScale(node, to) : std::nullopt;
  if (known) {
    Value whole = unary(node, operands->values[0], type, [&](Scalars &s, Value number) -> Value {
      Value quotient = arith::DivFOp::create(s.builder, s.at, number, s.number(known->scale));
      Value moved = math::RoundEvenOp::create(s.builder, s.at, quotient);
      if (known->zero != 0)
        moved = arith::AddFOp::create(s.builder, s.at, moved, s.number(double(known->zero)));
      Value above = arith::MaxNumFOp::create(s.builder, s.at, moved, s.number(-128)); // NaN becomes the least number
      return arith::MinNumFOp::create(s.builder, s.at, above, s.number(127));
    });
    quantized.quantizedIntegers =
        std::make_shared<QuantizedIntegers>(QuantizedIntegers{whole, known->scale, known->zero});
    quantized.tensor = node.broadcast({whole}, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
      Value integer = arith::FPToSIOp::create(b, at, b.getI32Type(), v[0]);
      if (isUnsigned(to))
        integer = arith::AddIOp::create(b, at, integer, arith::ConstantIntOp::create(b, at, b.getI32Type(), 128));
      return arith::TruncIOp::create(b, at, element, integer);
    });
    return node.result(0, std::move(quantized));
  }
  Value result = node.broadcast(operands->values, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value number = roundedTo(b, at, asFloat(b, at, v[0], type, wide), divided);
    Value scale = roundedTo(b, at, asFloat(b, at, v[1], ofScale, wide), divided);
    Value quotient = roundedTo(b, at, arith::DivFOp::create(b, at, number, scale), divided);
    if (!isSmallFloat(to))
      quotient = math::RoundEvenOp::create(b, at, quotient);
    if (operands->hasZero())
      quotient = arith::AddFOp::create(b, at, quotient, asFloat(b, at, v[2], to, wide));
    if (isSmallFloat(to)) {
      Value single = wide.isF64() ? narrowToOdd(b, at, quotient) : quotient;
      return encodeSmallFloat(b, at, single, to, rounding);
    }
    return clampedInteger(b, at, quotient, to, element);
  });
  node.result(0, result, to);
}

} // namespace

llvm::ArrayRef<OpRow> quantizeOps() {
  static const OpRow rows[] = {
      {"", "DequantizeLinear", 10, dequantizeLinear, Takes::Elements},
      {"", "QuantizeLinear", 10, quantizeLinear, Takes::Elements},
  };
  return rows;
}

} // namespace intarsia::onnx
