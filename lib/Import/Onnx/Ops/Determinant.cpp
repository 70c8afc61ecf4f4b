//===- Determinant.cpp - Determinants of small matrices -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// The most rows of a matrix, whose elimination is written out.
constexpr int64_t mostRows = 16;

/// Eliminates the rows of a matrix. For each column the row with the largest element there is subtracted from the
/// others.
Value eliminated(Scalars &s, std::vector<llvm::SmallVector<Value>> rows) {
  OpBuilder &b = s.builder;
  auto chosen = [&](Value condition, Value yes, Value no) -> Value {
    return arith::SelectOp::create(b, s.at, condition, yes, no);
  };
  auto times = [&](Value x, Value y) -> Value { return arith::MulFOp::create(b, s.at, x, y); };
  Value result = s.number(1), zero = s.number(0);
  size_t count = rows.size();
  for (size_t column = 0; column < count; ++column) {
    for (size_t row = column + 1; row < count; ++row) {
      Value here = math::AbsFOp::create(b, s.at, rows[column][column]);
      Value there = math::AbsFOp::create(b, s.at, rows[row][column]);
      Value isLarger = arith::CmpFOp::create(b, s.at, arith::CmpFPredicate::OGT, there, here);
      for (size_t i = column; i < count; ++i) {
        Value kept = rows[column][i], other = rows[row][i];
        rows[column][i] = chosen(isLarger, other, kept);
        rows[row][i] = chosen(isLarger, kept, other);
      }
      // Rows that change places change the sign.
      result = chosen(isLarger, arith::NegFOp::create(b, s.at, result), result);
    }
    Value pivot = rows[column][column];
    result = times(result, pivot);
    Value isZero = arith::CmpFOp::create(b, s.at, arith::CmpFPredicate::OEQ, pivot, zero);
    for (size_t row = column + 1; row < count; ++row) {
      Value quotient = arith::DivFOp::create(b, s.at, rows[row][column], chosen(isZero, s.number(1), pivot));
      for (size_t i = column + 1; i < count; ++i)
        rows[row][i] = arith::SubFOp::create(b, s.at, rows[row][i], times(quotient, rows[column][i]));
    }
  }
  return result;
}

void determinant(NodeContext &node) {
  Value matrices = node.tensor(0);
  DataType type = node.typeOf(0);
  if (!node.isOf(
          0, [](DataType of) { return isComputedByNn(of) || of == DataType::Double; }, "floats of 16 to 64 bits"))
    return;
  Shape shape = node.graph.shapeOf(node.at, matrices);
  if (shape.size() < 2)
    return node.refuse("the input has " + llvm::Twine(shape.size()) + " dimensions, must have 2 or more");
  Size columns = shape.pop_back_val(), rows = shape.pop_back_val();
  const Size &known = rows.isDynamic() ? columns : rows;
  if (known.isDynamic() || known.value > mostRows || known.value < 1 ||
      (!rows.isDynamic() && !columns.isDynamic() && rows.value != columns.value))
    return node.refuse("matrices must be square, and their numbers of rows known to the compiler and at most " +
                       llvm::Twine(mostRows));
  if (!requireEqual(node, {rows, "the number of rows of a matrix"}, {columns, "that of its columns"}))
    return;
  Shape square(shape);
  square.append({known, known});
  matrices = node.reshaped(matrices, square);
  Type stored = node.irType(type);
  Value result = node.ir().elementwise(node.at, stored, shape, {}, [&](OpBuilder &b, Location at, ValueRange) -> Value {
    bool isNarrow = stored.getIntOrFloatBitWidth() < 32;
    Scalars scalars{b, at, type, isNarrow ? Type(b.getF32Type()) : stored};
    std::vector<llvm::SmallVector<Value>> elements(known.value);
    for (auto [row, values] : llvm::enumerate(elements))
      for (int64_t column = 0; column < known.value; ++column) {
        llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
        position.push_back(arith::ConstantIndexOp::create(b, at, row));
        position.push_back(arith::ConstantIndexOp::create(b, at, column));
        Value element = tensor::ExtractOp::create(b, at, matrices, position);
        values.push_back(isNarrow ? importer::widened(b, at, element, scalars.element) : element);
      }
    Value whole = eliminated(scalars, std::move(elements));
    return isNarrow ? Value(arith::TruncFOp::create(b, at, stored, whole)) : whole;
  });
  node.graph.setShape(result, shape);
  node.result(0, result, type);
}

} // namespace

llvm::ArrayRef<OpRow> determinantOps() {
  static const OpRow rows[] = {
      {"", "Det", 11, determinant},
  };
  return rows;
}

} // namespace intarsia::onnx
