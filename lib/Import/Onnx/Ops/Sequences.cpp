//===- Sequences.cpp - Sequences and optional values --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The number of tensors of a sequence is the same in all calls. Import follows each of them, so that the IR has no
// sequences. An optional value is the value that it has, or none.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// The most tensors of a sequence.
constexpr int64_t mostParts = 4096;

using Parts = std::vector<GraphValue>;

void give(NodeContext &node, size_t output, DataType type, Parts parts) {
  if (int64_t(parts.size()) > mostParts)
    return node.refuse("a sequence has " + llvm::Twine(parts.size()) + " tensors, of at most " +
                       llvm::Twine(mostParts));
  GraphValue value;
  value.type = type;
  value.sequence = std::make_shared<Parts>(std::move(parts));
  node.result(output, std::move(value));
}

/// Returns the sequence that an input is; null, and the node refused, if it is none.
const Parts *sequenceOf(NodeContext &node, size_t input) {
  if (node.has(input) && node.input(input).sequence)
    return node.input(input).sequence.get();
  node.refuse("input " + llvm::Twine(input) + " is no sequence");
  return nullptr;
}

/// Returns the place in a sequence that an input gives, which counts from the end if it is negative. Without the input
/// it is `byDefault`.
std::optional<int64_t> placeOf(NodeContext &node, size_t input, int64_t length, int64_t byDefault, int64_t last) {
  if (!node.has(input) && byDefault >= 0)
    return byDefault;
  auto given = node.integers(input, "position");
  if (!given)
    return std::nullopt;
  if (given->size() != 1 || given->front() < -length || given->front() > last) {
    node.refuse("'position' is " + (given->size() == 1 ? std::to_string(given->front()) : std::string("no number")) +
                ", of a sequence of " + llvm::Twine(length) + " tensors");
    return std::nullopt;
  }
  return given->front() < 0 ? given->front() + length : given->front();
}

void construct(NodeContext &node) {
  Parts parts;
  for (size_t number = 0; number < node.inputCount(); ++number) {
    if (!node.has(number) || node.typeOf(number) == DataType::Undefined)
      return node.refuse("has no input " + llvm::Twine(number));
    parts.push_back(node.input(number));
  }
  if (parts.empty())
    return node.refuse("has no inputs");
  if (node.areOneType(llvm::to_vector(llvm::seq<size_t>(0, parts.size()))))
    give(node, 0, parts.front().type, std::move(parts));
}

void empty(NodeContext &node) {
  auto type = DataType(node.integer("dtype", int64_t(DataType::Float)));
  if (factsOf(type).name.empty() || type == DataType::Undefined)
    node.refuse("attribute 'dtype' is " + nameOf(type));
  give(node, 0, type, {});
}

void at(NodeContext &node) {
  const Parts *parts = sequenceOf(node, 0);
  if (!parts)
    return;
  int64_t length = parts->size();
  if (auto place = placeOf(node, 1, length, /*byDefault=*/-1, length - 1))
    node.result(0, (*parts)[*place]);
}

void insert(NodeContext &node) {
  const Parts *parts = sequenceOf(node, 0);
  if (!parts)
    return;
  GraphValue &tensor = node.input(1);
  if (!node.has(1) || !tensor.isTensor())
    return node.refuse("input 1 is no tensor");
  if (tensor.type != node.typeOf(0))
    return node.refuse("a tensor of " + nameOf(tensor.type) + " is put into a sequence of " + nameOf(node.typeOf(0)));
  int64_t length = parts->size();
  auto place = placeOf(node, 2, length, length, length);
  if (!place)
    return;
  Parts longer(*parts);
  longer.insert(longer.begin() + *place, tensor);
  give(node, 0, node.typeOf(0), std::move(longer));
}

void erase(NodeContext &node) {
  const Parts *parts = sequenceOf(node, 0);
  if (!parts)
    return;
  int64_t length = parts->size();
  if (length == 0)
    return node.refuse("the sequence has no tensors");
  auto place = placeOf(node, 1, length, length - 1, length - 1);
  if (!place)
    return;
  Parts shorter(*parts);
  shorter.erase(shorter.begin() + *place);
  give(node, 0, node.typeOf(0), std::move(shorter));
}

void length(NodeContext &node) {
  if (const Parts *parts = sequenceOf(node, 0))
    node.result(DataType::Int64, Elements{{}, {int64_t(parts->size())}});
}

/// SplitToSequence: parts of one size, of a size each, or of one element each without their dimension.
void split(NodeContext &node) {
  Value data = node.tensor(0);
  Shape shape = node.graph.shapeOf(node.at, data);
  int64_t axis = node.axis(node.integer("axis", 0), shape.size());
  bool keepsDimension = node.integer("keepdims", 1) != 0 || node.has(1);
  std::optional<llvm::SmallVector<int64_t>> given;
  if (node.has(1))
    given = node.integers(1, "split");
  if (node.isRefused())
    return;
  const Size &whole = shape[axis];
  bool isList = given && !node.graph.elementsOf(node.input(1))->shape.empty();
  if (!isList && whole.isDynamic())
    return node.refuse("how many parts there are depends on a size of the call");
  llvm::SmallVector<int64_t> sizes;
  if (isList) {
    sizes = *given;
  } else {
    int64_t size = given ? given->front() : 1;
    if (size < 1 || llvm::divideCeil(uint64_t(whole.value), uint64_t(size)) > uint64_t(mostParts))
      return node.refuse("'split' is " + llvm::Twine(size) + ", of a dimension of " + llvm::Twine(whole.value));
    for (int64_t rest = whole.value; rest > 0; rest -= size)
      sizes.push_back(std::min(size, rest));
  }
  int64_t sum = 0;
  bool isDivision = true;
  for (int64_t size : sizes)
    isDivision &= size >= 0 && !llvm::AddOverflow(sum, size, sum);
  if (!isDivision)
    return node.refuse("'split' is no division of dimension " + llvm::Twine(axis));
  if (!requireEqual(node, dimensionOf("input", axis, shape), {sum, "the sum of 'split'"}))
    return;
  Parts parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    GraphValue part;
    part.type = node.typeOf(0);
    part.tensor = node.sliced(data, axis, begin, size);
    if (!keepsDimension) {
      Shape without = shape;
      without.erase(without.begin() + axis);
      part.tensor = node.reshaped(part.tensor, without);
    }
    parts.push_back(std::move(part));
    begin += size;
  }
  give(node, 0, node.typeOf(0), std::move(parts));
}

void concat(NodeContext &node) {
  const Parts *parts = sequenceOf(node, 0);
  if (!parts)
    return;
  if (parts->empty())
    return node.refuse("the sequence has no tensors");
  bool isNew = node.integer("new_axis", 0) != 0;
  if (!node.hasAttribute("axis"))
    node.refuse("attribute 'axis' is missing");
  llvm::SmallVector<Value> tensors;
  int64_t axis = 0;
  for (GraphValue part : *parts) {
    Value tensor = node.graph.tensorOf(node.at, part);
    if (!tensor)
      return node.refuse("tensors have elements of type " + nameOf(part.type) + ", which are not computed with");
    Shape shape = node.graph.shapeOf(node.at, tensor);
    axis = node.axis(node.integer("axis", 0), shape.size() + isNew);
    if (node.isRefused())
      return;
    if (isNew) {
      shape.insert(shape.begin() + axis, 1);
      tensor = node.reshaped(tensor, shape);
    }
    tensors.push_back(tensor);
  }
  std::optional<Value> whole = tensors.size() == 1 ? tensors.front() : node.joined(tensors, axis);
  if (whole)
    node.result(0, *whole, node.typeOf(0));
}

/// SequenceMap: builds a graph for each tensor of the first sequence, which reads other sequences at the same place.
void map(NodeContext &node) {
  const Graph *body = node.subgraph("body");
  const Parts *first = sequenceOf(node, 0);
  if (!body || !first)
    return;
  if (body->inputs.size() != node.inputCount() || body->outputs.size() < node.outputCount())
    return node.refuse("attribute 'body' has " + llvm::Twine(body->inputs.size()) + " inputs, the node " +
                       llvm::Twine(node.inputCount()));
  for (size_t input = 0; input < node.inputCount(); ++input) {
    if (!node.has(input))
      return node.refuse("has no input " + llvm::Twine(input));
    auto &sequence = node.input(input).sequence;
    if (sequence && sequence->size() != first->size())
      return node.refuse("sequences have " + llvm::Twine(first->size()) + " and " + llvm::Twine(sequence->size()) +
                         " tensors");
  }
  std::vector<Parts> results(node.outputCount());
  for (size_t place = 0; place < first->size(); ++place) {
    llvm::SmallVector<GraphValue> inputs;
    for (size_t input = 0; input < node.inputCount(); ++input) {
      GraphValue &value = node.input(input);
      inputs.push_back(value.sequence ? (*value.sequence)[place] : value);
    }
    llvm::SmallVector<GraphValue> made = node.graph.buildNested(*body, inputs);
    if (node.ir().sink().any() || llvm::any_of(made, [](const GraphValue &value) { return value.isRefused; }))
      return node.leaveOut();
    for (auto [number, parts] : llvm::enumerate(results))
      parts.push_back(made[number]);
  }
  for (auto [number, parts] : llvm::enumerate(results)) {
    DataType type = parts.empty() ? body->outputs[number].type.element : parts.front().type;
    give(node, number, type, std::move(parts));
  }
}

//===-- Optional values ---------------------------------------------------------------------------------------===//

bool hasElement(NodeContext &node) { return node.has(0) && !node.input(0).isNothing; }

void optional(NodeContext &node) {
  GraphValue value;
  value.isNothing = !hasElement(node);
  node.result(0, value.isNothing ? value : node.input(0));
}

void optionalHasElement(NodeContext &node) { node.result(DataType::Bool, Elements{{}, {int64_t(hasElement(node))}}); }

void optionalGetElement(NodeContext &node) {
  if (!hasElement(node))
    return node.refuse("the optional value has no element");
  node.result(0, node.input(0));
}

} // namespace

llvm::ArrayRef<OpRow> sequenceOps() {
  static const OpRow rows[] = {
      {"", "SequenceConstruct", 11, construct},
      {"", "SequenceEmpty", 11, empty},
      {"", "SequenceAt", 11, at, Takes::Sequences},
      {"", "SequenceInsert", 11, insert, Takes::Sequences},
      {"", "SequenceErase", 11, erase, Takes::Sequences},
      {"", "SequenceLength", 11, length, Takes::Sequences},
      {"", "SplitToSequence", 11, split},
      {"", "ConcatFromSequence", 11, concat, Takes::Sequences},
      {"", "SequenceMap", 17, map, Takes::Sequences},
      {"", "Optional", 15, optional, Takes::Sequences},
      {"", "OptionalHasElement", 15, optionalHasElement, Takes::Sequences},
      {"", "OptionalGetElement", 15, optionalGetElement, Takes::Sequences},
  };
  return rows;
}

} // namespace intarsia::onnx
