//===- Linear.cpp - Products of matrices --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Einsum.h"
#include "lib/Import/Onnx/Ops/QuantizedProducts.h"
#include "lib/Import/Onnx/Ops/Scalars.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Sums products over the last dimension of one tensor and the one before the last of the other, for elements of any
/// type: [batch…, m, k] and [batch…, k, n].
Value productOfAny(NodeContext &node, Value left, Value right, DataType type, const Shape &shape, const Size &depth) {
  unsigned rank = shape.size();
  Shape loops = shape;
  loops.push_back(depth);
  auto kept = llvm::to_vector<4>(llvm::seq<unsigned>(0, rank));
  llvm::SmallVector<unsigned, 4> rows(kept), columns(kept);
  rows.back() = rank;
  columns[rank - 2] = rank;
  auto zero = cast<TypedAttr>(node.ops().getZeroAttr(node.irType(type)));
  Value result = node.ir().reduce(node.at, zero, loops, kept, {{left, rows}, {right, columns}},
                                  [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                    if (isFloat(type)) {
                                      Value product = arith::MulFOp::create(b, loc, v[0], v[1]);
                                      return arith::AddFOp::create(b, loc, product, v[2]);
                                    }
                                    Value product = arith::MulIOp::create(b, loc, v[0], v[1]);
                                    return arith::AddIOp::create(b, loc, product, v[2]);
                                  });
  node.graph.setShape(result, shape);
  return result;
}

} // namespace

std::optional<Value> matrixProduct(NodeContext &node, Value left, Value right, DataType type) {
  Shape rows = node.graph.shapeOf(node.at, left), columns = node.graph.shapeOf(node.at, right);
  if (rows.empty() || columns.empty()) {
    node.refuse("an input has no dimensions");
    return std::nullopt;
  }
  const Size depth = rows.back(), other = columns[columns.size() == 1 ? 0 : columns.size() - 2];
  if (!depth.isDynamic() && !other.isDynamic() && depth.value != other.value) {
    node.refuse("inputs have " + llvm::Twine(depth.value) + " columns and " + llvm::Twine(other.value) + " rows");
    return std::nullopt;
  }
  // A matrix of weights stays one where it lies: rows of the left are multiplied by its columns.
  bool isWeight = isConstant(right);
  if (isComputedByNn(type) && columns.size() == 2 && isWeight) {
    Value result = node.ir().linear(node.at, left, node.transposed(right, {1, 0}), /*bias=*/{});
    Shape shape = rows;
    shape.back() = columns.back();
    node.graph.setShape(result, shape);
    return result;
  }
  // Rows of several matrices are multiplied by one matrix as those of one.
  if (columns.size() == 2 && rows.size() > 2) {
    Shape flat{node.product(llvm::ArrayRef(rows).drop_back()), depth}, shape = rows;
    shape.back() = columns.back();
    std::optional<Value> product = matrixProduct(node, node.reshaped(left, flat), right, type);
    return product ? std::optional(node.reshaped(*product, shape)) : std::nullopt;
  }
  // Vectors are matrices of one row or column.
  bool isRow = rows.size() == 1, isColumn = columns.size() == 1;
  if (isRow) {
    rows.insert(rows.begin(), 1);
    left = node.reshaped(left, rows);
  }
  if (isColumn) {
    columns.push_back(1);
    right = node.reshaped(right, columns);
  }
  std::optional<Shape> batch =
      node.broadcastShape({Shape(rows.begin(), rows.end() - 2), Shape(columns.begin(), columns.end() - 2)});
  if (!batch)
    return std::nullopt;
  auto withBatch = [&](Value tensor, const Shape &own) {
    Shape shape = *batch;
    shape.append(own.end() - 2, own.end());
    return node.broadcastTo(tensor, shape);
  };
  left = withBatch(left, rows);
  right = withBatch(right, columns);
  Shape shape = *batch;
  shape.push_back(rows[rows.size() - 2]);
  shape.push_back(columns.back());
  Value result;
  if (isComputedByNn(type)) {
    result = nn::MatmulOp::create(node.ops(), node.at, node.ir().tensorType(shape, node.irType(type)), left, right,
                                  UnitAttr(), UnitAttr(), TypeAttr());
    node.graph.setShape(result, shape);
  } else {
    result = productOfAny(node, left, right, type, shape, depth);
  }
  if (isColumn)
    shape.pop_back();
  if (isRow)
    shape.erase(shape.end() - (isColumn ? 1 : 2));
  return node.reshaped(result, shape);
}

namespace {

void matMul(NodeContext &node) {
  Value left = node.tensor(0), right = node.tensor(1);
  DataType type = node.typeOf(0);
  if (node.isRefused() || !node.areOneType({0, 1}) || !node.isOf(0, isNumber, "numbers"))
    return;
  if (Value product = quantizedProduct(node, 0, 1))
    return node.result(product);
  if (std::optional<Value> product = matrixProduct(node, left, right, type))
    node.result(*product);
}

/// alpha * A * B + beta * C
void gemm(NodeContext &node) {
  Value left = node.tensor(0), right = node.tensor(1);
  DataType type = node.typeOf(0);
  double alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  bool turnsLeft = node.integer("transA", 0) != 0, turnsRight = node.integer("transB", 0) != 0;
  if (node.isRefused() || !node.areOneType({0, 1, 2}) || !node.isOf(0, isNumber, "numbers"))
    return;
  if (!isFloat(type) && (alpha != std::floor(alpha) || beta != std::floor(beta)))
    return node.refuse("'alpha' and 'beta' must be whole numbers for elements of type " + nameOf(type));
  if (tensorType(left).getRank() != 2 || tensorType(right).getRank() != 2)
    return node.refuse("inputs are no matrices");
  if (turnsLeft)
    left = node.transposed(left, {1, 0});
  Value bias = node.has(2) ? node.tensor(2) : Value();
  if (node.isRefused())
    return;
  Shape rows = node.graph.shapeOf(node.at, left), columns = node.graph.shapeOf(node.at, right);
  const Size &depth = rows[1], &other = columns[turnsRight ? 1 : 0], &wide = columns[turnsRight ? 0 : 1];
  if (!depth.isDynamic() && !other.isDynamic() && depth.value != other.value)
    return node.refuse("inputs have " + llvm::Twine(depth.value) + " columns and " + llvm::Twine(other.value) +
                       " rows");
  Shape shape{rows[0], wide};
  auto scaled = [&](Value tensor, double factor) {
    return factor == 1 ? tensor : unary(node, tensor, type, [&](Scalars &s, Value x) -> Value {
      if (!isFloat(s.type))
        return arith::MulIOp::create(s.builder, s.at, x, s.number(factor));
      return arith::MulFOp::create(s.builder, s.at, x, s.number(factor));
    });
  };
  Value result;
  bool isVector = bias && tensorType(bias).getRank() == 1 && !wide.isDynamic() &&
                  tensorType(bias).getDimSize(0) == wide.value && isConstant(bias);
  if (Value product = alpha == 1 && !turnsLeft ? quantizedProduct(node, 0, 1, turnsRight) : Value()) {
    result = product;
  } else if (!isComputedByNn(type)) {
    Value matrix = turnsRight ? node.transposed(right, {1, 0}) : right;
    result = scaled(productOfAny(node, left, matrix, type, shape, depth), alpha);
  } else if (isConstant(right)) {
    Value weight = turnsRight ? right : node.transposed(right, {1, 0});
    bool takesBias = isVector && alpha == 1 && beta == 1;
    result = node.ir().linear(node.at, left, weight, takesBias ? bias : Value());
    node.graph.setShape(result, shape);
    bias = takesBias ? Value() : bias;
    result = scaled(result, alpha);
  } else {
    result = nn::MatmulOp::create(node.ops(), node.at, node.ir().tensorType(shape, node.irType(type)), left, right,
                                  UnitAttr(), turnsRight ? node.ops().getUnitAttr() : UnitAttr(), TypeAttr());
    node.graph.setShape(result, shape);
    result = scaled(result, alpha);
  }
  if (bias && !node.isBroadcastTo(bias, shape, "C"))
    return;
  if (bias && beta != 0)
    result = combine(node, {result, scaled(bias, beta)}, type, [](Scalars &s, Value x, Value y) -> Value {
      if (isFloat(s.type))
        return arith::AddFOp::create(s.builder, s.at, x, y);
      return arith::AddIOp::create(s.builder, s.at, x, y);
    });
  node.result(result);
}

void einsum(NodeContext &node) {
  llvm::SmallVector<Value> operands;
  llvm::SmallVector<Shape> shapes;
  llvm::SmallVector<size_t> numbers;
  for (size_t input = 0; input < node.inputCount(); ++input) {
    operands.push_back(node.tensor(input));
    shapes.push_back(node.graph.shapeOf(node.at, operands.back()));
    numbers.push_back(input);
  }
  llvm::StringRef equation = node.text("equation", "");
  if (operands.empty())
    node.refuse("has no inputs");
  if (node.isRefused() || !node.areOneType(numbers) || !node.isOf(0, isNumber, "numbers"))
    return;
  Shape shape;
  Value result = importer::einsum(node.ir(), node.at, equation, operands, shapes, &shape);
  if (node.ir().sink().any())
    return node.refuse(node.ir().sink().take());
  node.graph.setShape(result, shape);
  node.result(result);
}

} // namespace

llvm::ArrayRef<OpRow> linearOps() {
  static const OpRow rows[] = {
      {"", "MatMul", 1, matMul},
      {"", "Gemm", 1, gemm},
      {"", "Einsum", 12, einsum},
  };
  return rows;
}

} // namespace intarsia::onnx
