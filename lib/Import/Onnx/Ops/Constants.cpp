//===- Constants.cpp - Constants, ranges, triangles ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Scalars.h"
#include <cmath>

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {
namespace {

void constant(NodeContext &node) {
  GraphValue value;
  auto ofElements = [&](DataType type, Elements elements) { node.result(type, std::move(elements)); };
  if (const Attribute *tensor = node.attribute("value"); tensor && tensor->tensors.size() == 1) {
    value.type = tensor->tensors.front().type;
    value.stored = &tensor->tensors.front();
    return node.result(0, value);
  }
  if (node.hasAttribute("value_int"))
    return ofElements(DataType::Int64, {{}, {node.integer("value_int", 0)}});
  if (node.hasAttribute("value_float"))
    return ofElements(DataType::Float, {{}, {Element::ofReal(node.number("value_float", 0))}});
  if (const Attribute *list = node.attribute("value_ints"))
    return ofElements(DataType::Int64, {{int64_t(list->integers.size())},
                                        std::vector<Element>(list->integers.begin(), list->integers.end())});
  if (const Attribute *list = node.attribute("value_floats")) {
    Elements elements{{int64_t(list->numbers.size())}, {}};
    for (float number : list->numbers)
      elements.values.push_back(Element::ofReal(number));
    return ofElements(DataType::Float, std::move(elements));
  }
  node.refuse("has no value, or one of texts or sparse tensors");
}

void constantOfShape(NodeContext &node) {
  std::optional<Shape> shape = sizesOf(node, 0, "input");
  if (!shape)
    return;
  const Attribute *value = node.attribute("value");
  if (value && (value->type != AttributeType::Tensor || value->tensors.size() != 1))
    return node.refuse("attribute 'value' is no tensor");
  DataType type = value ? value->tensors.front().type : DataType::Float;
  std::optional<Elements> one = value ? readElements(value->tensors.front()) : Elements{{1}, {Element::ofReal(0)}};
  if (!one || one->values.size() != 1 || !node.irType(type))
    return node.refuse("attribute 'value' is no element of a type that is computed");
  if (llvm::any_of(*shape, [](const Size &size) { return !size.isDynamic() && size.value < 0; }))
    return node.refuse("a dimension is negative");
  const Element &element = one->values.front();
  TypedAttr number = isFloat(type) ? node.numberAttribute(type, element.real)
                                   : TypedAttr(node.ops().getIntegerAttr(node.irType(type), element.integer));
  node.result(0, node.filled(*shape, number), type);
}

/// Range of numbers that the call does not decide but that are too many to follow, or that are no integers.
void range(NodeContext &node) {
  const Elements *start = node.elements(0, "start"), *limit = node.elements(1, "limit"),
                 *step = node.elements(2, "delta");
  if (node.isRefused() || start->values.size() != 1 || limit->values.size() != 1 || step->values.size() != 1)
    return node.refuse("'start', 'limit' and 'delta' are no scalars");
  DataType type = node.typeOf(0);
  if (!node.areOneType({0, 1, 2}))
    return;
  const Element &first = start->values[0], &by = step->values[0], &last = limit->values[0];
  if (!by.isNumber() || by.number() == 0)
    return node.refuse("'delta' depends on sizes of the call, or is 0");
  Size count = 0;
  if (first.isNumber() && last.isNumber()) {
    double number = std::ceil((last.number() - first.number()) / by.number());
    if (!(number < 1e15))
      return node.refuse("has too many elements");
    int64_t whole = integerOf(number), length = 0;
    // f64 does not hold all integers of 64 bits.
    if (first.isInteger() && last.isInteger() && !llvm::SubOverflow(last.integer, first.integer, length))
      whole = length / by.integer + (length % by.integer != 0 && (length < 0) == (by.integer < 0));
    count = std::max<int64_t>(0, whole);
  } else if (first.isReal() || last.isReal() || by.integer < 1) {
    return node.refuse("'delta' must be a positive integer where sizes of the call are the limits");
  } else {
    Size length = node.compute(SizeOp::Subtract, last.asSize(), first.asSize());
    count = by.integer == 1 ? length : node.compute(SizeOp::DivideUp, length, by.integer);
  }
  Value begin = node.tensor(0), delta = node.tensor(2);
  Shape shape{count};
  Value result = node.ir().elementwise(
      node.at, node.irType(type), shape, {{begin, {}}, {delta, {}}},
      [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
        Value index = arith::IndexCastOp::create(b, loc, b.getI64Type(), linalg::IndexOp::create(b, loc, 0));
        if (isFloat(type)) {
          Value number = arith::SIToFPOp::create(b, loc, v[0].getType(), index);
          return arith::AddFOp::create(b, loc, v[0], arith::MulFOp::create(b, loc, number, v[1]));
        }
        if (v[0].getType() != b.getI64Type())
          index = arith::TruncIOp::create(b, loc, v[0].getType(), index);
        return arith::AddIOp::create(b, loc, v[0], arith::MulIOp::create(b, loc, index, v[1]));
      });
  node.graph.setShape(result, shape);
  node.result(0, result, type);
}

/// EyeLike and Trilu: by the coordinates in the last two dimensions.
void eyeLike(NodeContext &node) {
  Shape shape = node.shapeOf(0);
  auto type = DataType(node.integer("dtype", int64_t(node.typeOf(0))));
  int64_t diagonal = node.integer("k", 0);
  if (shape.size() != 2 || !node.irType(type))
    return node.refuse("the input is no matrix, or 'dtype' is not computed");
  Value result = node.ir().elementwise(
      node.at, node.irType(type), shape, {}, [&](OpBuilder &b, Location loc, ValueRange) -> Value {
        Value row = linalg::IndexOp::create(b, loc, 0), column = linalg::IndexOp::create(b, loc, 1);
        Value moved = arith::AddIOp::create(b, loc, row, arith::ConstantIndexOp::create(b, loc, diagonal));
        Value isOn = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, moved, column);
        Value one = arith::ConstantOp::create(b, loc, node.numberAttribute(type, 1));
        Value zero = arith::ConstantOp::create(b, loc, node.numberAttribute(type, 0));
        return arith::SelectOp::create(b, loc, isOn, one, zero);
      });
  node.graph.setShape(result, shape);
  node.result(0, result, type);
}

void trilu(NodeContext &node) {
  Value data = node.tensor(0);
  Shape shape = node.graph.shapeOf(node.at, data);
  int64_t diagonal = 0;
  if (node.has(1))
    if (auto k = node.integers(1, "k"); k && k->size() == 1)
      diagonal = k->front();
  bool isUpper = node.integer("upper", 1) != 0;
  if (shape.size() < 2)
    return node.refuse("the input is no matrix");
  if (node.isRefused())
    return;
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  unsigned rank = shape.size();
  diagonal = std::clamp<int64_t>(diagonal, -(1ll << 40), 1ll << 40);
  Value result = node.ir().elementwise(
      node.at, tensorType(data).getElementType(), shape, {{data, all}},
      [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
        Value row = linalg::IndexOp::create(b, loc, rank - 2), column = linalg::IndexOp::create(b, loc, rank - 1);
        Value moved = arith::AddIOp::create(b, loc, row, arith::ConstantIndexOp::create(b, loc, diagonal));
        Value isKept = arith::CmpIOp::create(b, loc, isUpper ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle,
                                             column, moved);
        Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(v[0].getType()));
        return arith::SelectOp::create(b, loc, isKept, v[0], zero);
      });
  node.graph.setShape(result, shape);
  node.result(result);
}

} // namespace

llvm::ArrayRef<OpRow> constantOps() {
  static const OpRow rows[] = {
      {"", "Constant", 1, constant, Takes::Elements},
      {"", "ConstantOfShape", 9, constantOfShape, Takes::Elements},
      {"", "Range", 11, range},
      {"", "EyeLike", 9, eyeLike},
      {"", "Trilu", 14, trilu},
  };
  return rows;
}

} // namespace intarsia::onnx
