//===- CallChecks.cpp - Sizes that inputs of a node must have -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {

NamedSize dimensionOf(llvm::StringRef input, unsigned dimension, const Shape &shape) {
  return {shape[dimension], ("dimension " + llvm::Twine(dimension) + " of input '" + input + "'").str()};
}

/// Returns "2, dimension 0 of input 'query'", or what only one of both says.
static std::string describe(const NamedSize &size) {
  if (size.size.isDynamic())
    return size.name;
  std::string number = std::to_string(size.size.value);
  return size.name.empty() ? number : number + ", " + size.name;
}

/// Refuses the node with what a size is and what it must be.
static bool refuse(NodeContext &node, const NamedSize &size, const llvm::Twine &wanted) {
  std::string what = size.name;
  if (!size.size.isDynamic())
    what += " is " + std::to_string(size.size.value) + ",";
  node.refuse(what + " must be " + wanted);
  return false;
}

namespace {
/// Compares sizes in the call.
struct Comparison {
  NodeContext &node;

  Value operator()(arith::CmpIPredicate predicate, const Size &left, const Size &right) const {
    return arith::CmpIOp::create(node.ops(), node.at, predicate, indexOf(left), indexOf(right));
  }
  Value indexOf(const Size &size) const {
    return getValueOrCreateConstantIndexOp(node.ops(), node.at, node.ir().size(size));
  }
  bool require(Value isMet, const llvm::Twine &message) const {
    cf::AssertOp::create(node.ops(), node.at, isMet, message.str());
    return true;
  }
};
} // namespace

bool requireEqual(NodeContext &node, const NamedSize &size, const NamedSize &wanted) {
  if (node.isRefused())
    return false;
  if (node.graph.areEqual(size.size, wanted.size))
    return true;
  if (!size.size.isDynamic() && !wanted.size.isDynamic())
    return refuse(node, size, describe(wanted));
  Comparison compare{node};
  Value isMet = compare(arith::CmpIPredicate::eq, size.size, wanted.size);
  return compare.require(isMet,
                         size.name + (wanted.size.isDynamic() ? " must be equal to " : " must be ") + describe(wanted));
}

static bool requireOrder(NodeContext &node, const NamedSize &size, const NamedSize &limit, bool isUpper) {
  if (node.isRefused())
    return false;
  if (node.graph.areEqual(size.size, limit.size))
    return true;
  std::string wanted = (isUpper ? "at most " : "at least ") + describe(limit);
  if (!size.size.isDynamic() && !limit.size.isDynamic()) {
    bool isMet = isUpper ? size.size.value < limit.size.value : size.size.value > limit.size.value;
    return isMet || refuse(node, size, wanted);
  }
  Comparison compare{node};
  auto predicate = isUpper ? arith::CmpIPredicate::sle : arith::CmpIPredicate::sge;
  return compare.require(compare(predicate, size.size, limit.size), size.name + " must be " + wanted);
}

bool requireAtMost(NodeContext &node, const NamedSize &size, const NamedSize &limit) {
  return requireOrder(node, size, limit, /*isUpper=*/true);
}

bool requireAtLeast(NodeContext &node, const NamedSize &size, const NamedSize &limit) {
  return requireOrder(node, size, limit, /*isUpper=*/false);
}

bool requireEither(NodeContext &node, const NamedSize &size, const NamedSize &one, const NamedSize &other) {
  if (node.isRefused())
    return false;
  if (node.graph.areEqual(size.size, one.size) || node.graph.areEqual(size.size, other.size))
    return true;
  std::string both = describe(one) + " or " + describe(other);
  if (!size.size.isDynamic() && !one.size.isDynamic() && !other.size.isDynamic())
    return refuse(node, size, both);
  Comparison compare{node};
  Value isOne = compare(arith::CmpIPredicate::eq, size.size, one.size),
        isOther = compare(arith::CmpIPredicate::eq, size.size, other.size);
  Value isMet = arith::OrIOp::create(node.ops(), node.at, isOne, isOther);
  return compare.require(isMet, size.name + " must be " + both);
}

bool requireMultiple(NodeContext &node, const NamedSize &size, const NamedSize &divisor) {
  if (node.isRefused())
    return false;
  if (node.graph.areEqual(size.size, divisor.size))
    return true;
  bool areKnown = !size.size.isDynamic() && !divisor.size.isDynamic();
  if (!divisor.size.isDynamic() && (divisor.size.value < 1 || (areKnown && size.size.value % divisor.size.value != 0)))
    return refuse(node, size, "a multiple of " + describe(divisor));
  if (areKnown)
    return true;
  Comparison compare{node};
  Size rest = node.compute(SizeOp::Remainder, size.size, divisor.size);
  return compare.require(compare(arith::CmpIPredicate::eq, rest, 0),
                         size.name + " must be a multiple of " + describe(divisor));
}

} // namespace intarsia::onnx
