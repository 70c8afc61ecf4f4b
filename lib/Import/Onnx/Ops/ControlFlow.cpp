//===- ControlFlow.cpp - Branches and loops -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Iterations of a loop that are written out.
constexpr int64_t mostIterations = 256;

/// Returns the type that tensors of both types can be cast to; null if they have other elements or ranks.
RankedTensorType commonType(RankedTensorType one, RankedTensorType other) {
  if (one.getElementType() != other.getElementType() || one.getRank() != other.getRank())
    return {};
  llvm::SmallVector<int64_t> shape;
  for (auto [size, second] : llvm::zip_equal(one.getShape(), other.getShape()))
    shape.push_back(size == second ? size : ShapedType::kDynamic);
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
    branch.isRefused |= value.isRefused || value.type == DataType::Undefined;
    branch.tensors.push_back(branch.isRefused ? Value() : node.graph.tensorOf(node.at, value));
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
    if (!one || !other) {
      reason = "a result has elements of type " + nameOf((one ? no : yes).values[number].type) +
               ", which are not computed with";
      return std::nullopt;
    }
    RankedTensorType type = commonType(tensorType(one), tensorType(other));
    if (!type) {
      reason = "branches have results of different types or numbers of dimensions, and the condition is computed by "
               "the call";
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
  if (!node.isRefused() && (!tensorType(condition).hasStaticShape() || tensorType(condition).getNumElements() != 1))
    node.refuse("the condition is not one element");
  if (node.isRefused())
    return {};
  llvm::SmallVector<Value> indices(tensorType(condition).getRank(), index(0));
  return tensor::ExtractOp::create(ops, node.at, condition, indices);
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
  GraphBuilder::Knowledge before = node.graph.knowledge();
  Branch second = buildBranch(node, isThenFirst ? *no : *yes, isThenFirst ? elseRegion : thenRegion);
  std::string reason;
  std::optional<llvm::SmallVector<Type>> types;
  if (!second.isRefused)
    types = commonTypes(isThenFirst ? first : second, isThenFirst ? second : first, node.outputCount(), reason);
  if (!types && ofSizes) {
    node.graph.forgetSince(before);
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

/// Joins the results of all iterations along a new first dimension, or an axis.
bool joinScans(NodeContext &node, size_t output, llvm::MutableArrayRef<GraphValue> values, int64_t axis,
               bool isReverse) {
  if (values.empty()) {
    node.refuse("a loop without iterations has a result of no known shape");
    return false;
  }
  llvm::SmallVector<Value> parts;
  DataType type = values.front().type;
  for (GraphValue &value : values) {
    Value tensor = node.graph.tensorOf(node.at, value);
    if (!tensor) {
      node.refuse("a result has elements of type " + nameOf(value.type) + ", which are not computed with");
      return false;
    }
    Shape shape = node.graph.shapeOf(node.at, tensor);
    int64_t at = node.axis(axis, shape.size() + 1, "scan_output_axes");
    shape.insert(shape.begin() + at, 1);
    parts.push_back(node.reshaped(tensor, shape));
    axis = at;
  }
  if (isReverse)
    std::reverse(parts.begin(), parts.end());
  for (Value part : llvm::ArrayRef(parts).drop_front())
    if (part.getType() != parts.front().getType()) {
      node.refuse("iterations have results of different shapes");
      return false;
    }
  Shape shape = node.graph.shapeOf(node.at, parts.front());
  shape[axis] = int64_t(parts.size());
  Value result = parts.size() == 1 ? parts.front() : node.ir().concat(node.at, parts, axis);
  node.graph.setShape(result, shape);
  node.result(output, result, type);
  return true;
}

/// Loop: written out, iteration by iteration; how many there are must be known.
void loop(NodeContext &node) {
  const Graph *body = node.subgraph("body");
  if (!body)
    return;
  size_t carriedCount = node.inputCount() > 2 ? node.inputCount() - 2 : 0;
  if (body->inputs.size() != carriedCount + 2 || body->outputs.size() < carriedCount + 1)
    return node.refuse("attribute 'body' does not have an input for each value that the loop carries");
  std::optional<int64_t> most = node.has(0) ? node.knownNumber(node.input(0)) : std::nullopt;
  std::optional<int64_t> goesOn = node.has(1) ? node.knownNumber(node.input(1)) : std::optional<int64_t>(1);
  if ((node.has(0) && !most) || !goesOn)
    return node.refuse("the number of iterations is computed by the call, and must be known to the compiler");
  llvm::SmallVector<GraphValue> carried;
  for (size_t number = 0; number < carriedCount; ++number) {
    if (!node.has(number + 2))
      return node.refuse("carries a value that is left out");
    carried.push_back(node.input(number + 2));
  }
  size_t scanCount = body->outputs.size() - carriedCount - 1;
  std::vector<llvm::SmallVector<GraphValue>> scans(scanCount);
  for (int64_t iteration = 0; *goesOn && (!most || iteration < *most); ++iteration) {
    if (iteration == mostIterations)
      return node.refuse("has more than " + llvm::Twine(mostIterations) + " iterations");
    auto scalar = [](DataType type, int64_t value) {
      GraphValue result;
      result.type = type;
      result.elements = std::make_shared<Elements>(Elements{{}, {value}});
      return result;
    };
    llvm::SmallVector<GraphValue> inputs{scalar(DataType::Int64, iteration), scalar(DataType::Bool, *goesOn)};
    inputs.append(carried);
    llvm::SmallVector<GraphValue> results = node.graph.buildNested(*body, inputs);
    if (node.ir().sink().any() || llvm::any_of(results, [](const GraphValue &value) { return value.isRefused; }))
      return node.leaveOut();
    goesOn = node.knownNumber(results[0]);
    if (!goesOn)
      return node.refuse("whether the loop goes on is computed by the call, and must be known to the compiler");
    carried.assign(results.begin() + 1, results.begin() + 1 + carriedCount);
    for (size_t number = 0; number < scanCount; ++number)
      scans[number].push_back(results[1 + carriedCount + number]);
  }
  for (size_t number = 0; number < carriedCount; ++number)
    node.result(number, carried[number]);
  for (size_t number = 0; number < scanCount; ++number)
    if (node.isWanted(carriedCount + number) && !joinScans(node, carriedCount + number, scans[number], 0, false))
      return;
}

/// Scan: a loop over an axis of its last inputs, written out.
void scan(NodeContext &node) {
  const Graph *body = node.subgraph("body");
  int64_t scanInputs = node.integer("num_scan_inputs", 0);
  if (!body)
    return;
  auto inputCount = int64_t(node.inputCount());
  int64_t stateCount = scanInputs < 1 || scanInputs > inputCount ? -1 : inputCount - scanInputs;
  int64_t scanOutputs = int64_t(body->outputs.size()) - stateCount;
  if (stateCount < 0 || scanOutputs < 0 || body->inputs.size() != node.inputCount())
    return node.refuse("attributes 'num_scan_inputs' and 'body' do not go with the inputs");
  auto list = [&](llvm::StringRef name, int64_t count) {
    auto given = node.integers(name).value_or(llvm::SmallVector<int64_t>(count, 0));
    if (int64_t(given.size()) != count)
      node.refuse("attribute '" + name + "' has " + llvm::Twine(given.size()) + " numbers, must have " +
                  llvm::Twine(count));
    given.resize(count, 0);
    return given;
  };
  llvm::SmallVector<int64_t> axes = list("scan_input_axes", scanInputs),
                             reversed = list("scan_input_directions", scanInputs),
                             outputAxes = list("scan_output_axes", scanOutputs),
                             outputReversed = list("scan_output_directions", scanOutputs);
  llvm::SmallVector<Value> sources;
  std::optional<int64_t> count;
  for (int64_t number = 0; number < scanInputs; ++number) {
    Value source = node.tensor(stateCount + number);
    Shape shape = node.graph.shapeOf(node.at, source);
    axes[number] = node.axis(axes[number], shape.size(), "scan_input_axes");
    if (node.isRefused())
      return;
    const Size &length = shape[axes[number]];
    if (length.isDynamic())
      return node.refuse("the number of iterations depends on sizes of the call, and must be known to the compiler");
    if (count && *count != length.value)
      return node.refuse("inputs have " + llvm::Twine(*count) + " and " + llvm::Twine(length.value) + " parts");
    count = length.value;
    sources.push_back(source);
  }
  if (*count > mostIterations)
    return node.refuse("has more than " + llvm::Twine(mostIterations) + " iterations");
  llvm::SmallVector<GraphValue> states;
  for (int64_t number = 0; number < stateCount; ++number)
    states.push_back(node.input(number));
  std::vector<llvm::SmallVector<GraphValue>> scans(scanOutputs);
  for (int64_t iteration = 0; iteration < *count; ++iteration) {
    llvm::SmallVector<GraphValue> inputs(states);
    for (auto [number, source] : llvm::enumerate(sources)) {
      int64_t at = reversed[number] ? *count - 1 - iteration : iteration, axis = axes[number];
      Shape shape = node.graph.shapeOf(node.at, source);
      shape.erase(shape.begin() + axis);
      GraphValue part;
      part.type = node.typeOf(stateCount + number);
      part.tensor = node.reshaped(node.sliced(source, axis, at, 1), shape);
      inputs.push_back(part);
    }
    llvm::SmallVector<GraphValue> results = node.graph.buildNested(*body, inputs);
    if (node.ir().sink().any() || llvm::any_of(results, [](const GraphValue &value) { return value.isRefused; }))
      return node.leaveOut();
    states.assign(results.begin(), results.begin() + stateCount);
    for (int64_t number = 0; number < scanOutputs; ++number)
      scans[number].push_back(results[stateCount + number]);
  }
  for (int64_t number = 0; number < stateCount; ++number)
    node.result(number, states[number]);
  for (int64_t number = 0; number < scanOutputs; ++number)
    if (node.isWanted(stateCount + number) &&
        !joinScans(node, stateCount + number, scans[number], outputAxes[number], outputReversed[number] != 0))
      return;
}

} // namespace

llvm::ArrayRef<OpRow> controlFlowOps() {
  static const OpRow rows[] = {
      {"", "If", 1, branch},
      {"", "Loop", 1, loop},
      {"", "Scan", 9, scan},
  };
  return rows;
}

} // namespace intarsia::onnx
