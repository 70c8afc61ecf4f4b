//===- NodeContext.cpp - A node that is imported, and its operands ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/NodeContext.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace intarsia::onnx {

static llvm::StringRef textOf(std::string_view text) { return {text.data(), text.size()}; }

RankedTensorType tensorType(Value tensor) { return cast<RankedTensorType>(tensor.getType()); }

void NodeContext::refuse(const llvm::Twine &reason) {
  if (whole)
    whole->refuse(reason);
  else if (!refused)
    graph.getRefusals().add(node, version, reason);
  refused = true;
}

bool NodeContext::isOf(size_t number, bool (*holds)(DataType), llvm::StringRef what) {
  DataType type = typeOf(number);
  if (type != DataType::Undefined && !holds(type))
    refuse("elements are of type " + nameOf(type) + ", must be " + what);
  return !refused;
}

bool NodeContext::isCounted(llvm::ArrayRef<Size> shape) {
  if (isTooLarge(shape))
    refuse("a tensor has more elements than memory can hold");
  return !refused;
}

bool NodeContext::areOneType(llvm::ArrayRef<size_t> inputs) {
  DataType type = typeOf(inputs.front());
  for (size_t number : inputs.drop_front())
    if (DataType other = typeOf(number); has(number) && other != type)
      refuse("inputs have elements of " + nameOf(type) + " and " + nameOf(other));
  return !refused;
}

bool NodeContext::has(size_t number) const {
  return number < node.inputs.size() && !node.inputs[number].empty() && graph.find(textOf(node.inputs[number]));
}

GraphValue &NodeContext::input(size_t number) {
  return has(number) ? *graph.find(textOf(node.inputs[number])) : missing = GraphValue();
}

Value NodeContext::tensor(size_t number) {
  GraphValue &value = input(number);
  Value tensor;
  if (value.type == DataType::Undefined)
    refuse("has no input " + llvm::Twine(number));
  else if (!(tensor = graph.tensorOf(at, value)))
    refuse("input " + llvm::Twine(number) + " has elements of type " + nameOf(value.type) +
           ", which are not computed with");
  if (tensor)
    return tensor;
  return filled({}, ops().getF32FloatAttr(0));
}

/// Returns how an input that the call itself gives becomes one that the compiler knows.
std::string NodeContext::advice(size_t number) {
  auto argument = dyn_cast_if_present<BlockArgument>(input(number).tensor);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  auto name = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name") : StringAttr();
  return name ? ": --set=" + printable(std::string_view(name.getValue())) + "=… makes it a constant" : "";
}

const Elements *NodeContext::elements(size_t number, llvm::StringRef name) {
  const Elements *elements = has(number) ? graph.elementsOf(input(number)) : nullptr;
  if (!elements)
    refuse("input '" + name + "' is computed by the call, and must be known to the compiler" + advice(number));
  return elements;
}

std::optional<llvm::SmallVector<int64_t>> NodeContext::integers(size_t number, llvm::StringRef name) {
  const Elements *known = elements(number, name);
  if (!known || !isOf(number, isInteger, "integers"))
    return std::nullopt;
  llvm::SmallVector<int64_t> result;
  for (const Element &each : known->values) {
    if (!each.isInteger()) {
      refuse("input '" + name + "' depends on sizes of the call, and must be known to the compiler");
      return std::nullopt;
    }
    result.push_back(each.integer);
  }
  return result;
}

std::optional<int64_t> NodeContext::knownNumber(GraphValue &value) {
  const Elements *elements = graph.elementsOf(value);
  if (!elements || elements->values.size() != 1 || !elements->values[0].isInteger())
    return std::nullopt;
  return elements->values[0].integer;
}

//===-- Attributes --------------------------------------------------------------------------------------------===//

const Attribute *NodeContext::attribute(llvm::StringRef name) const {
  return graph.resolve(node.find(std::string_view(name)));
}

int64_t NodeContext::integer(llvm::StringRef name, int64_t byDefault) {
  const Attribute *found = attribute(name);
  if (found && found->type != AttributeType::Int)
    refuse("attribute '" + name + "' is no integer");
  return found ? found->integer : byDefault;
}

double NodeContext::number(llvm::StringRef name, double byDefault) {
  const Attribute *found = attribute(name);
  if (found && found->type != AttributeType::Float)
    refuse("attribute '" + name + "' is no number");
  return found ? found->number : byDefault;
}

llvm::StringRef NodeContext::text(llvm::StringRef name, llvm::StringRef byDefault) {
  const Attribute *found = attribute(name);
  if (found && found->type != AttributeType::String)
    refuse("attribute '" + name + "' is no text");
  return found ? textOf(found->text) : byDefault;
}

std::optional<llvm::SmallVector<int64_t>> NodeContext::integers(llvm::StringRef name) {
  const Attribute *found = attribute(name);
  if (!found)
    return std::nullopt;
  if (found->type != AttributeType::Ints)
    refuse("attribute '" + name + "' is no list of integers");
  return llvm::SmallVector<int64_t>(found->integers.begin(), found->integers.end());
}

const Graph *NodeContext::subgraph(llvm::StringRef name) {
  const Attribute *found = attribute(name);
  if (found && found->graphs.size() == 1)
    return &found->graphs.front();
  refuse("attribute '" + name + "' is no graph");
  return nullptr;
}

SmallRounding NodeContext::rounding() {
  using Powers = SmallRounding::Powers;
  llvm::StringRef mode = text("round_mode", "up");
  auto powers = llvm::StringSwitch<std::optional<Powers>>(mode)
                    .Case("up", Powers::Up)
                    .Case("down", Powers::Down)
                    .Case("nearest", Powers::Nearest)
                    .Default(std::nullopt);
  if (!powers)
    refuse("attribute 'round_mode' is '" + mode + "', must be up, down or nearest");
  return {integer("saturate", 1) != 0, powers.value_or(Powers::Up)};
}

int64_t NodeContext::axis(int64_t axis, int64_t rank, llvm::StringRef name) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  refuse("'" + name + "' is " + llvm::Twine(axis) + ", of a tensor of " + llvm::Twine(rank) + " dimensions");
  return 0;
}

llvm::SmallVector<int64_t> NodeContext::axes(llvm::ArrayRef<int64_t> given, int64_t rank) {
  llvm::SmallVector<int64_t> result;
  llvm::SmallVector<bool> isTaken(rank, false);
  for (int64_t each : given) {
    int64_t position = axis(each, rank, "axes");
    if (isRefused())
      break;
    if (isTaken[position])
      refuse("'axes' has the axis " + llvm::Twine(position) + " twice");
    isTaken[position] = true;
    result.push_back(position);
  }
  return result;
}

//===-- Results -----------------------------------------------------------------------------------------------===//

void NodeContext::result(size_t output, GraphValue value) {
  if (isSmall(value.type) && !anyElements)
    refuse("results of type " + nameOf(value.type) + " are not computed");
  if (isWanted(output) && !refused)
    graph.define(textOf(node.outputs[output]), std::move(value));
}

void NodeContext::result(size_t output, Value tensor, DataType type) {
  llvm::ArrayRef<int64_t> sizes = tensorType(tensor).getShape();
  if (!isCounted(Shape(sizes.begin(), sizes.end())))
    return;
  GraphValue value;
  value.type = type;
  value.tensor = tensor;
  result(output, std::move(value));
}

void NodeContext::result(DataType type, Elements elements) {
  if (!isCounted(Shape(elements.shape.begin(), elements.shape.end())))
    return;
  GraphValue value;
  value.type = type;
  value.elements = std::make_shared<Elements>(std::move(elements));
  result(0, std::move(value));
}

} // namespace intarsia::onnx
