//===- ExactProducts.cpp - Sums of products of bytes --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of f32 are fast on every device, and exact for integers while no partial sum exceeds 2^24.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/ExactProducts.h"

#include "lib/Import/Onnx/Ops/QuantizedProducts.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

constexpr int64_t exactInSingle = int64_t(1) << 24;

/// Ways to divide an integer of 9 bits with its sign into digits; the last one keeps the sign.
struct Division {
  unsigned bits, digits;

  int64_t digit(int64_t value, unsigned number) const {
    int64_t moved = value >> (bits * number);
    return number + 1 == digits ? moved : moved & ((int64_t(1) << bits) - 1);
  }
};
constexpr Division divisions[] = {{9, 1}, {4, 2}, {3, 3}, {2, 4}, {1, 9}};

/// Returns the largest magnitude that an operand may have.
int64_t largestOf(NodeContext &node, const ByteOperand &operand) {
  bool hasNoSign = isUnsigned(operand.type);
  int64_t low = hasNoSign ? 0 : -128, high = hasNoSign ? 255 : 127;
  if (!operand.zero)
    return std::max(-low, high);
  const Elements *zeros = operand.zeros ? node.graph.elementsOf(*operand.zeros) : nullptr;
  if (!zeros || zeros->values.empty())
    return 255;
  int64_t largest = 0;
  for (const Element &zero : zeros->values)
    largest = std::max({largest, std::abs(low - zero.integer), std::abs(high - zero.integer)});
  return largest;
}

/// Returns the largest sum of the magnitudes of a digit over the elements of one sum.
int64_t largestSum(NodeContext &node, const ByteOperand &operand, SumOf sumOf, int64_t depth,
                   const Division &division) {
  const Tensor *stored = operand.known ? operand.known->stored : nullptr;
  const Elements *zeros = operand.zeros ? node.graph.elementsOf(*operand.zeros) : nullptr;
  int64_t elements = stored ? stored->elements() : 0;
  // Zero points of columns are those of one matrix: stacked ones may have others.
  bool areOfColumns = !operand.zero || !zeros || zeros->values.size() == 1 || sumOf == SumOf::Rows ||
                      int64_t(zeros->values.size()) == (stored && !stored->dims.empty() ? stored->dims.back() : 0);
  bool isRead = areOfColumns && stored && isByte(stored->type) && !stored->dims.empty() && elements > 0 &&
                uint64_t(elements) == stored->bytes && (!operand.zero || (zeros && !zeros->values.empty()));
  int64_t largest = 0;
  if (!isRead) {
    for (int64_t value = -255; value <= 255; ++value)
      for (unsigned number = 0; number < division.digits; ++number)
        largest = std::max(largest, std::abs(division.digit(value, number)));
    int64_t sum = 0;
    return llvm::MulOverflow(largest, depth, sum) ? std::numeric_limits<int64_t>::max() : sum;
  }
  auto magnitude = [&](int64_t at, int64_t column, unsigned number) {
    int64_t zero = operand.zero ? zeros->values[column % zeros->values.size()].integer : 0;
    int64_t value = isUnsigned(operand.type) ? int64_t(stored->data[at]) : int64_t(int8_t(stored->data[at]));
    return std::abs(division.digit(value - zero, number));
  };
  int64_t rows = sumOf == SumOf::Rows ? stored->dims.front() : elements / stored->dims.back();
  int64_t columns = elements / rows;
  std::vector<int64_t> sums(columns);
  for (unsigned number = 0; number < division.digits; ++number)
    for (int64_t row = 0; row < rows; ++row) {
      if (sumOf == SumOf::Rows) {
        int64_t sum = 0;
        for (int64_t column = 0; column < columns; ++column)
          sum += magnitude(row * columns + column, row, number);
        largest = std::max(largest, sum);
        continue;
      }
      if (row % std::max<int64_t>(depth, 1) == 0)
        std::fill(sums.begin(), sums.end(), 0);
      for (int64_t column = 0; column < columns; ++column) {
        sums[column] += magnitude(row * columns + column, column, number);
        largest = std::max(largest, sums[column]);
      }
    }
  return largest;
}

/// Returns an element of 8 bits as one of 32.
Value widen(OpBuilder &b, Location at, Value value, DataType type) {
  if (isUnsigned(type))
    return arith::ExtUIOp::create(b, at, b.getI32Type(), value);
  return arith::ExtSIOp::create(b, at, b.getI32Type(), value);
}

Value integer(OpBuilder &b, Location at, int64_t value) {
  return arith::ConstantOp::create(b, at, b.getI32IntegerAttr(int32_t(value)));
}

/// Refuses numbers that go with sums, or other integers, but have more dimensions or elements than these.
bool areOf(NodeContext &node, Value integers, llvm::ArrayRef<std::pair<Value, llvm::StringRef>> numbers) {
  Shape shape = node.graph.shapeOf(node.at, integers);
  return llvm::all_of(
      numbers, [&](const auto &each) { return !each.first || node.isBroadcastTo(each.first, shape, each.second); });
}

/// Returns an operand minus its zero points as integers of 32 bits.
Value moved(NodeContext &node, const ByteOperand &operand) {
  llvm::SmallVector<Value> operands{operand.tensor};
  if (operand.zero && areOf(node, operand.tensor, {{operand.zero, "zero_point"}}))
    operands.push_back(operand.zero);
  bool hasZero = operands.size() > 1;
  return node.broadcast(operands, node.ops().getI32Type(), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value value = widen(b, at, v[0], operand.type);
    return hasZero ? Value(arith::SubIOp::create(b, at, value, widen(b, at, v[1], operand.type))) : value;
  });
}

/// Returns a digit of an operand in f32.
Value digitOf(NodeContext &node, const ByteOperand &operand, const Division &division, unsigned number) {
  return node.broadcast({moved(node, operand)}, node.ops().getF32Type(),
                        [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                          Value value = v[0];
                          if (number > 0)
                            value = arith::ShRSIOp::create(b, at, value, integer(b, at, division.bits * number));
                          if (number + 1 < division.digits)
                            value = arith::AndIOp::create(b, at, value, integer(b, at, (1 << division.bits) - 1));
                          return arith::SIToFPOp::create(b, at, b.getF32Type(), value);
                        });
}

/// True if sums of products of signed bytes with the right operand are exact in f32.
bool areExact(NodeContext &node, const ByteOperand &right, SumOf sumOf, int64_t depth) {
  return largestSum(node, right, sumOf, depth, divisions[0]) <= exactInSingle / 128;
}

/// Returns bytes, or zero points of such, as whole numbers in f32 from -128 to 127: 128 less where they have no sign.
Value signedNumbers(NodeContext &node, Value bytes, DataType type) {
  return node.broadcast({bytes}, node.ops().getF32Type(), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value number = widen(b, at, v[0], type);
    if (isUnsigned(type))
      number = arith::SubIOp::create(b, at, number, integer(b, at, 128));
    return arith::SIToFPOp::create(b, at, b.getF32Type(), number);
  });
}

/// Returns the tensor of the file that an operand is, if it has no zero points.
const Tensor *storedWeight(NodeContext &node, const ByteOperand &operand) {
  const Tensor *stored = operand.known ? operand.known->stored : nullptr;
  const Elements *zeros = operand.zeros ? node.graph.elementsOf(*operand.zeros) : nullptr;
  auto isZero = [](const Element &zero) { return zero.isInteger() && zero.integer == 0; };
  bool hasZero = operand.zero && (!zeros || !llvm::all_of(zeros->values, isZero));
  return hasZero ? nullptr : stored;
}

/// Returns sum((a - z) * w) in 32 bits, of the sums of a * w and of w. f32 holds both terms, but not always their
/// difference. Returns null if the zero points are refused.
Value withoutZeros(NodeContext &node, const ByteOperand &left, const ByteSums &product) {
  Value zero = left.zero ? signedNumbers(node, left.zero, left.type)
                         : node.filled({}, node.ops().getF32FloatAttr(isUnsigned(left.type) ? -128 : 0));
  if (left.zero && !areOf(node, product.sums, {{left.zero, "zero_point"}}))
    return {};
  return node.broadcast({product.sums, zero, product.ofWeight}, node.ops().getI32Type(),
                        [](OpBuilder &b, Location at, ValueRange v) -> Value {
                          Value moved = arith::MulFOp::create(b, at, v[1], v[2]);
                          Value sum = arith::FPToSIOp::create(b, at, b.getI32Type(), v[0]);
                          return arith::SubIOp::create(b, at, sum,
                                                       arith::FPToSIOp::create(b, at, b.getI32Type(), moved));
                        });
}

} // namespace

ByteOperand byteOperand(NodeContext &node, size_t input, size_t zero) {
  ByteOperand operand{node.tensor(input), node.typeOf(input), {}};
  node.isOf(input, isByte, "int8 or uint8");
  if (node.has(zero) && node.areOneType({input, zero}))
    operand.zero = node.tensor(zero);
  if (node.has(input))
    operand.known = &node.input(input);
  if (node.has(zero))
    operand.zeros = &node.input(zero);
  return operand;
}

Value exactSums(NodeContext &node, const ByteOperand &left, const ByteOperand &right, SumOf sumOf, int64_t depth,
                llvm::function_ref<Value(Value, Value)> multiply) {
  int64_t largest = largestOf(node, left);
  const Division *chosen = nullptr;
  for (const Division &division : divisions)
    if (!chosen && largestSum(node, right, sumOf, depth, division) <= exactInSingle / largest)
      chosen = &division;
  if (!chosen) {
    node.refuse("sums of " + llvm::Twine(depth) + " products may be larger than 32 bits hold");
    return {};
  }
  Value whole = digitOf(node, left, divisions[0], 0);
  llvm::SmallVector<Value> sums;
  for (unsigned number = 0; number < chosen->digits && !node.isRefused(); ++number) {
    Value sum = multiply(whole, digitOf(node, right, *chosen, number));
    if (!sum)
      return {};
    sums.push_back(sum);
  }
  if (node.isRefused())
    return {};
  return node.broadcast(sums, node.ops().getI32Type(), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value result;
    for (unsigned number = 0; number < chosen->digits; ++number) {
      Value digit = arith::FPToSIOp::create(b, at, b.getI32Type(), v[number]);
      if (number > 0)
        digit = arith::ShLIOp::create(b, at, digit, integer(b, at, chosen->bits * number));
      result = result ? arith::AddIOp::create(b, at, result, digit) : digit;
    }
    return result;
  });
}

Value exactMatrixProduct(NodeContext &node, ByteOperand left, ByteOperand right, bool isTurned) {
  if (node.isRefused())
    return {};
  Shape rows = node.graph.shapeOf(node.at, left.tensor), columns = node.graph.shapeOf(node.at, right.tensor);
  if (rows.empty() || columns.empty()) {
    node.refuse("an input has no dimensions");
    return {};
  }
  // Rows of the left matrix have a zero point each.
  if (left.zero)
    if (Shape own = node.graph.shapeOf(node.at, left.zero); own.size() == 1)
      left.zero = node.reshaped(left.zero, own[0].isDynamic() || own[0].value != 1 ? Shape{own[0], 1} : Shape{});
  if (right.zero && isTurned)
    if (Shape own = node.graph.shapeOf(node.at, right.zero); own.size() == 1)
      right.zero = node.reshaped(right.zero, own[0].isDynamic() || own[0].value != 1 ? Shape{own[0], 1} : Shape{});
  Size depth = rows.back().isDynamic()
                   ? columns[columns.size() < 2 || isTurned ? columns.size() - 1 : columns.size() - 2]
                   : rows.back();
  // How large sums are is not known for a depth of the call: they are of 32 bits then.
  if (depth.isDynamic()) {
    Value one = moved(node, left), other = moved(node, right);
    if (node.isRefused())
      return {};
    return matrixProduct(node, one, isTurned ? node.transposed(other, {1, 0}) : other, DataType::Int32)
        .value_or(Value());
  }
  SumOf sumOf = isTurned || columns.size() == 1 ? SumOf::Rows : SumOf::Columns;
  if (columns.size() == 1)
    right.known = nullptr;
  // Kernels of bytes multiply a matrix of the file as it is.
  const Tensor *stored = columns.size() == 2 ? storedWeight(node, right) : nullptr;
  if (stored && areExact(node, right, sumOf, depth.value))
    if (auto product = byteSums(node, signedNumbers(node, left.tensor, left.type), *stored, isTurned))
      return withoutZeros(node, left, *product);
  return exactSums(node, left, right, sumOf, depth.value, [&](Value one, Value other) -> Value {
    return matrixProduct(node, one, isTurned ? node.transposed(other, {1, 0}) : other, DataType::Float)
        .value_or(Value());
  });
}

Value exactConv(NodeContext &node, const ByteOperand &images, const ByteOperand &weight, int64_t depth,
                const importer::Windows &windows) {
  const Tensor *stored = storedWeight(node, weight);
  const Elements *zeros = images.zeros ? node.graph.elementsOf(*images.zeros) : nullptr;
  bool isKnown = !images.zero || (zeros && zeros->values.size() == 1 && zeros->values[0].isInteger());
  if (!stored || !isKnown || !areExact(node, weight, SumOf::Rows, depth))
    return {};
  int64_t zero = (images.zero ? zeros->values[0].integer : 0) - (isUnsigned(images.type) ? 128 : 0);
  auto product = byteConvSums(node, signedNumbers(node, images.tensor, images.type), *stored, windows, zero);
  Value sums = product ? withoutZeros(node, images, *product) : Value();
  return sums ? node.ir().channelsFirst(node.at, sums) : Value();
}

Value oneNumber(NodeContext &node, size_t input, llvm::StringRef name) { return onePerIndex(node, input, 1, 0, name); }

Value onePerIndex(NodeContext &node, size_t input, const Size &count, size_t behind, llvm::StringRef name) {
  Value numbers = node.tensor(input);
  Shape shape = node.graph.shapeOf(node.at, numbers);
  if (llvm::all_of(shape, [](const Size &size) { return !size.isDynamic() && size.value == 1; }))
    return node.reshaped(numbers, {});
  if (shape.size() == 1 && node.graph.areEqual(shape[0], count)) {
    Shape wide(behind + 1, 1);
    wide[0] = count;
    return node.reshaped(numbers, wide);
  }
  bool isOne = !count.isDynamic() && count.value == 1;
  node.refuse("input '" + name + "' is not one number" + (isOne ? "" : ", nor one for each row or channel"));
  return node.filled({}, node.ops().getZeroAttr(tensorType(numbers).getElementType()));
}

Value factorOf(NodeContext &node, Value left, Value right, Value result, double by) {
  llvm::SmallVector<Value> scales{left, right};
  if (result)
    scales.push_back(result);
  return node.broadcast(scales, node.ops().getF32Type(), [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value product = arith::MulFOp::create(b, at, v[0], v[1]);
    if (by != 1)
      product = arith::MulFOp::create(b, at, product, importer::floatConstant(b, at, b.getF32Type(), by));
    return result ? Value(arith::DivFOp::create(b, at, product, v[2])) : product;
  });
}

Value requantized(NodeContext &node, Value sums, Value bias, Value factor, Value zero, DataType to) {
  if (!areOf(node, sums, {{bias, "bias"}, {factor, "scale"}, {zero, "zero_point"}}))
    return sums;
  llvm::SmallVector<Value> operands{sums, factor};
  for (Value each : {bias, zero})
    if (each)
      operands.push_back(each);
  Type element = node.irType(to), f32 = node.ops().getF32Type();
  return node.broadcast(operands, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    Value sum = bias ? Value(arith::AddIOp::create(b, at, v[0], v[2])) : v[0];
    Value product = arith::MulFOp::create(b, at, arith::SIToFPOp::create(b, at, f32, sum), v[1]);
    Value rounded = math::RoundEvenOp::create(b, at, product);
    if (zero) {
      Value offset = isUnsigned(to) ? Value(arith::UIToFPOp::create(b, at, f32, v[operands.size() - 1]))
                                    : Value(arith::SIToFPOp::create(b, at, f32, v[operands.size() - 1]));
      rounded = arith::AddFOp::create(b, at, rounded, offset);
    }
    return clampedInteger(b, at, rounded, to, element);
  });
}

Value scaledSums(NodeContext &node, Value sums, Value factor) {
  Type f32 = node.ops().getF32Type();
  if (!areOf(node, sums, {{factor, "scale"}}))
    return sums;
  return node.broadcast({sums, factor}, f32, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    return arith::MulFOp::create(b, at, arith::SIToFPOp::create(b, at, f32, v[0]), v[1]);
  });
}

} // namespace intarsia::onnx
