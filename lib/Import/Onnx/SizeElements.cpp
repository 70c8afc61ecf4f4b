//===- SizeElements.cpp - What elements that are sizes of the call are combined to --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/SizeElements.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {
namespace {

/// Sizes as numbers that are computed with.
struct Arithmetic {
  NodeContext &node;

  Size add(const Size &one, const Size &other) const { return node.compute(SizeOp::Add, one, other); }
  Size subtract(const Size &one, const Size &other) const { return node.compute(SizeOp::Subtract, one, other); }
  Size multiply(const Size &one, const Size &other) const {
    auto is = [](const Size &size, int64_t number) { return !size.isDynamic() && size.value == number; };
    if (is(one, 0) || is(other, 0))
      return 0;
    return is(one, 1) ? other : is(other, 1) ? one : node.compute(SizeOp::Multiply, one, other);
  }
  /// 1 / (1 + (a - b)²) is 1 where they are equal, and rounded to 0 elsewhere.
  Size areEqual(const Size &one, const Size &other) const {
    Size difference = subtract(one, other);
    return node.compute(SizeOp::Divide, 1, add(multiply(difference, difference), 1));
  }
};

bool is(const Element &element, int64_t number) { return element.isInteger() && element.integer == number; }

} // namespace

Element negated(NodeContext &node, const Element &element) {
  return Element::of(Arithmetic{node}.subtract(1, element.asSize()), /*isCount=*/true);
}

std::optional<Element> chosen(NodeContext &node, const Element &condition, const Element &yes, const Element &no) {
  if (yes.isReal() || no.isReal())
    return std::nullopt;
  Arithmetic sizes{node};
  Size difference = sizes.subtract(yes.asSize(), no.asSize());
  return Element::of(sizes.add(no.asSize(), sizes.multiply(condition.asSize(), difference)),
                     yes.isCount() && no.isCount());
}

std::optional<Element> combineSizes(NodeContext &node, llvm::StringRef op, const Element &left, const Element &right) {
  if (left.isReal() || right.isReal())
    return std::nullopt;
  Arithmetic sizes{node};
  Size one = left.asSize(), other = right.asSize();
  bool areSame = left.isSize() && right.isSize() && node.graph.areEqual(one, other);
  if (op == "And")
    return Element::of(sizes.multiply(one, other), /*isCount=*/true);
  if (op == "Or")
    return Element::of(sizes.subtract(sizes.add(one, other), sizes.multiply(one, other)), /*isCount=*/true);
  if (op == "Xor")
    return Element::of(sizes.subtract(sizes.add(one, other), sizes.multiply(2, sizes.multiply(one, other))),
                       /*isCount=*/true);
  if (op == "Equal") {
    auto isNegative = [](const Element &element) { return element.isInteger() && element.integer < 0; };
    if ((isNegative(left) && right.isCount()) || (isNegative(right) && left.isCount()))
      return Element(0);
    return areSame ? Element(1) : Element::of(sizes.areEqual(one, other), /*isCount=*/true);
  }
  std::optional<SizeOp> sizeOp = llvm::StringSwitch<std::optional<SizeOp>>(op)
                                     .Case("Add", SizeOp::Add)
                                     .Case("Sub", SizeOp::Subtract)
                                     .Case("Mul", SizeOp::Multiply)
                                     .Case("Div", SizeOp::Divide)
                                     .Case("Mod", SizeOp::Remainder)
                                     .Default(std::nullopt);
  if (!sizeOp)
    return std::nullopt;
  if ((is(right, 1) && (op == "Mul" || op == "Div")) || (is(right, 0) && (op == "Add" || op == "Sub")))
    return left;
  if ((is(left, 1) && op == "Mul") || (is(left, 0) && op == "Add"))
    return right;
  if (op == "Sub" && areSame)
    return Element(0);
  if (op == "Div" || op == "Mod") {
    // Sizes are divided rounding down, and ONNX rounds quotients towards 0.
    if (!left.isCount() || !right.isCount() || is(right, 0))
      return std::nullopt;
    // Sizes are not 0 where a model divides by them: a call of which one is has an error.
    if (areSame)
      return Element(int64_t(op == "Div"));
  }
  return Element::of(node.compute(*sizeOp, one, other), op != "Sub" && left.isCount() && right.isCount());
}

} // namespace intarsia::onnx
