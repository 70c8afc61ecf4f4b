//===- ControlFlow.cpp - Branches ---------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/HostLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Returns the type that tensors of both types can be cast to; null if they have other elements or ranks, or sizes that
/// are never equal.
RankedTensorType commonType(RankedTensorType one, RankedTensorType other) {
  if (one.getElementType() != other.getElementType() || one.getRank() != other.getRank())
    return {};
  llvm::SmallVector<int64_t> shape;
  for (auto [size, second] : llvm::zip_equal(one.getShape(), other.getShape())) {
    bool isKnown = !ShapedType::isDynamic(size) && !ShapedType::isDynamic(second);
    if (isKnown && size != second)
      return {};
    shape.push_back(isKnown ? size : ShapedType::kDynamic);
  }
  return RankedTensorType::get(shape, one.getElementType());
}

/// What a branch computes in its block.
struct Branch {
  llvm::SmallVector<GraphValue> values;
  llvm::SmallVector<Value> tensors; ///< null for those that are none of IR
  bool isRefused = false;           ///< a result is computed by a node that is not imported
};

Branch buildBranch(NodeContext &node, const Graph &graph, Region &region) {
  OpBuilder::InsertionGuard guard(node.ops());
  Block &block = region.front();
  block.clear(); // of a terminator
  node.ops().setInsertionPointToEnd(&block);
  Branch branch;
  branch.values = node.graph.buildNested(graph, {});
  for (GraphValue &value : branch.values) {
    branch.isRefused |= value.isRefused || (value.isTensor() && value.type == DataType::Undefined);
    bool isTensor = !branch.isRefused && value.isTensor();
    branch.tensors.push_back(isTensor ? node.graph.tensorOf(node.at, value) : Value());
  }
  return branch;
}

/// Returns the types of what both branches yield; null, with the reason, if they have none.
std::optional<llvm::SmallVector<Type>> commonTypes(const Branch &yes, const Branch &no, size_t wanted,
                                                   std::string &reason) {
  if (yes.tensors.size() != no.tensors.size() || yes.tensors.size() < wanted) {
    reason = "branches have different numbers of results";
    return std::nullopt;
  }
  llvm::SmallVector<Type> types;
  for (auto [number, one, other] : llvm::enumerate(yes.tensors, no.tensors)) {
    const GraphValue &first = yes.values[number], &second = no.values[number];
    if (!first.isTensor() || !second.isTensor()) {
      reason = "a branch gives a sequence or nothing, so that the condition must be known to the compiler";
      return std::nullopt;
    }
    if (!one || !other) {
      reason = "a result has elements of type " + nameOf((one ? no : yes).values[number].type) +
               ", which are not computed with";
      return std::nullopt;
    }
    RankedTensorType type = commonType(tensorType(one), tensorType(other));
    if (!type || first.type != second.type) {
      reason = "branches have results of " + (type ? nameOf(first.type) : describe(one)) + " and " +
               (type ? nameOf(second.type) : describe(other)) + ", so that the condition must be known to the compiler";
      return std::nullopt;
    }
    types.push_back(type);
  }
  return types;
}

/// Returns the condition of a branch as an i1.
Value conditionOf(NodeContext &node, const std::optional<SizeCondition> &ofSizes) {
  OpBuilder &ops = node.ops();
  auto index = [&](int64_t number) { return arith::ConstantIndexOp::create(ops, node.at, number); };
  if (ofSizes)
    return arith::CmpIOp::create(ops, node.at, ofSizes->isNegated ? arith::CmpIPredicate::ne : arith::CmpIPredicate::eq,
                                 cast<Value>(node.ir().size(ofSizes->size)), index(ofSizes->number));
  Value condition = node.tensor(0);
  std::optional<Value> one = node.isRefused() ? std::nullopt : scalarOf(node, condition);
  if (!one)
    return node.refuse("the condition is not one element"), Value();
  return tensor::ExtractOp::create(ops, node.at, *one, ValueRange());
}

/// If: a condition that is known chooses now, so that branches may have results of different shapes. So does one that
/// asks whether a size of the call is a number, if branches have such results or one of them cannot be built: a call is
/// held to that number.
void branch(NodeContext &node) {
  const Graph *yes = node.subgraph("then_branch"), *no = node.subgraph("else_branch");
  if (!yes || !no || !node.isOf(0, isBool, "bool"))
    return;
  auto define = [&](llvm::ArrayRef<GraphValue> values) {
    for (auto [number, value] : llvm::enumerate(values))
      node.result(number, value);
  };
  if (std::optional<int64_t> known = node.knownNumber(node.input(0)))
    return define(node.graph.buildNested(*known ? *yes : *no, {}));
  std::optional<SizeCondition> ofSizes = node.input(0).condition;
  Value chosen = conditionOf(node, ofSizes);
  if (!chosen)
    return;
  OpBuilder &ops = node.ops();
  // The types of the results follow from what both regions hold.
  auto holder = scf::IfOp::create(ops, node.at, TypeRange{}, chosen, /*addThenBlock=*/true, /*addElseBlock=*/true);
  // Of conditions on sizes, the branch in which the size is known is built first.
  bool isThenFirst = !ofSizes || !ofSizes->isNegated;
  Region &thenRegion = holder.getThenRegion(), &elseRegion = holder.getElseRegion();
  Branch first = buildBranch(node, isThenFirst ? *yes : *no, isThenFirst ? thenRegion : elseRegion);
  if (first.isRefused)
    return node.leaveOut();
  GraphBuilder::Problems before = node.graph.problems();
  Branch second = buildBranch(node, isThenFirst ? *no : *yes, isThenFirst ? elseRegion : thenRegion);
  std::string reason;
  std::optional<llvm::SmallVector<Type>> types;
  if (!second.isRefused)
    types = commonTypes(isThenFirst ? first : second, isThenFirst ? second : first, node.outputCount(), reason);
  if (!types && ofSizes) {
    node.graph.forget(isThenFirst ? elseRegion : thenRegion, before);
    std::string message =
        "a size must be " + std::to_string(ofSizes->number) + ", for which alone the model is imported";
    Value isMet = chosen;
    if (ofSizes->isNegated)
      isMet = arith::XOrIOp::create(ops, node.at, chosen, arith::ConstantIntOp::create(ops, node.at, 1, 1));
    cf::AssertOp::create(ops, node.at, isMet, message);
    Block &kept = (isThenFirst ? thenRegion : elseRegion).front();
    holder->getBlock()->getOperations().splice(holder->getIterator(), kept.getOperations());
    holder.erase();
    return define(first.values);
  }
  if (second.isRefused)
    return node.leaveOut();
  if (!types)
    return node.refuse(reason);
  auto finish = [&](Block &block, llvm::ArrayRef<Value> tensors) {
    OpBuilder::InsertionGuard guard(ops);
    ops.setInsertionPointToEnd(&block);
    llvm::SmallVector<Value> results;
    for (auto [tensor, type] : llvm::zip_equal(tensors, *types))
      results.push_back(tensor.getType() == type ? tensor : Value(tensor::CastOp::create(ops, node.at, type, tensor)));
    scf::YieldOp::create(ops, node.at, results);
  };
  auto result = scf::IfOp::create(ops, node.at, *types, chosen, /*addThenBlock=*/false, /*addElseBlock=*/false);
  result.getThenRegion().takeBody(thenRegion);
  result.getElseRegion().takeBody(elseRegion);
  holder.erase();
  finish(result.getThenRegion().front(), isThenFirst ? first.tensors : second.tensors);
  finish(result.getElseRegion().front(), isThenFirst ? second.tensors : first.tensors);
  for (auto [number, value] : llvm::enumerate(result.getResults()))
    node.result(number, value, first.values[number].type);
}

} // namespace

llvm::ArrayRef<OpRow> controlFlowOps() {
  static const OpRow rows[] = {
      {"", "If", 1, branch, Takes::Sequences},
  };
  return rows;
}

} // namespace intarsia::onnx
