//===- Part.cpp - Ops of the standard that a node is made of ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/Part.h"

using namespace mlir;

namespace intarsia::onnx {

static std::string_view viewOf(llvm::StringRef text) { return {text.data(), text.size()}; }

Part::Part(NodeContext &whole, llvm::StringLiteral op, int64_t version) : whole(whole), op(op), version(version) {
  node.name = whole.node.name;
  node.op = viewOf(op);
}

/// Values of a graph have names. These begin with a character that names in files do not begin with, and with what the
/// node computes, which others do not.
std::string_view Part::nameOf(llvm::StringRef what) {
  std::string_view result;
  for (std::string_view output : whole.node.outputs)
    result = result.empty() ? output : result;
  std::string prefix = ("\x01" + llvm::StringRef(result.data(), result.size()) + "." + what + ".").str();
  for (unsigned number = 0;; ++number)
    if (std::string name = prefix + std::to_string(number); !whole.graph.find(name) && !llvm::is_contained(names, name))
      return names.emplace_back(std::move(name));
}

Part &Part::with(GraphValue value) {
  std::string_view name = nameOf("in");
  whole.graph.define({name.data(), name.size()}, std::move(value));
  node.inputs.push_back(name);
  return *this;
}

Part &Part::with(Value tensor, DataType type) {
  GraphValue value;
  value.type = type;
  value.tensor = tensor;
  return with(std::move(value));
}

Part &Part::without() {
  node.inputs.emplace_back();
  return *this;
}

Part &Part::likeTheNode(bool inSingle) {
  for (size_t number = 0; number < whole.inputCount(); ++number) {
    if (inSingle && whole.typeOf(number) == DataType::Double)
      with(whole.cast(whole.tensor(number), DataType::Double, DataType::Float), DataType::Float);
    else
      whole.has(number) ? with(whole.input(number)) : without();
  }
  for (const Attribute &attribute : whole.node.attributes)
    if (const Attribute *given = whole.graph.resolve(&attribute)) {
      Attribute &copy = node.attributes.emplace_back(*given);
      copy.name = attribute.name;
    }
  return *this;
}

Part &Part::keep(llvm::ArrayRef<llvm::StringLiteral> kept) {
  for (llvm::StringLiteral name : kept)
    if (const Attribute *attribute = whole.attribute(name)) {
      Attribute &copy = node.attributes.emplace_back(*attribute);
      copy.name = viewOf(name);
    }
  return *this;
}

Attribute &Part::add(llvm::StringLiteral name, AttributeType type) {
  Attribute &attribute = node.attributes.emplace_back();
  attribute.name = viewOf(name);
  attribute.type = type;
  return attribute;
}

Part &Part::set(llvm::StringLiteral name, int64_t integer) {
  add(name, AttributeType::Int).integer = integer;
  return *this;
}

Part &Part::set(llvm::StringLiteral name, double number) {
  add(name, AttributeType::Float).number = float(number);
  return *this;
}

Part &Part::set(llvm::StringLiteral name, llvm::StringLiteral text) {
  add(name, AttributeType::String).text = viewOf(text);
  return *this;
}

Part &Part::set(llvm::StringLiteral name, llvm::ArrayRef<int64_t> integers) {
  add(name, AttributeType::Ints).integers.assign(integers.begin(), integers.end());
  return *this;
}

llvm::SmallVector<Value, 3> Part::build(llvm::ArrayRef<bool> wanted) {
  llvm::SmallVector<Value, 3> results(wanted.size());
  if (whole.isRefused())
    return results;
  for (bool isWanted : wanted)
    node.outputs.push_back(isWanted ? nameOf("out") : std::string_view());
  const OpRow *row = findOp("", op);
  NodeContext context(whole.graph, node, version, whole.at, row->takes != Takes::Numbers, &whole);
  row->build(context);
  for (auto [name, result] : llvm::zip_equal(node.outputs, results)) {
    GraphValue *value = name.empty() ? nullptr : whole.graph.find({name.data(), name.size()});
    if (value && !context.isRefused())
      result = whole.graph.tensorOf(whole.at, *value);
    if (!name.empty() && !result)
      whole.leaveOut();
  }
  return results;
}

void buildInSingle(NodeContext &node, const OpRow &row) {
  llvm::SmallVector<bool> wanted;
  for (size_t output = 0; output < node.outputCount(); ++output)
    wanted.push_back(node.isWanted(output));
  auto results = Part(node, row.name, node.version).likeTheNode(/*inSingle=*/true).build(wanted);
  for (auto [output, result] : llvm::enumerate(results)) {
    if (!result || node.isRefused())
      continue;
    // Of further results only the statistics of a batch have the type of an input; others are indices, or always f32.
    bool isSingle = tensorType(result).getElementType().isF32();
    DataType held = isSingle ? DataType::Float : DataType::Int64;
    DataType type = isSingle && (output == 0 || row.name == "BatchNormalization") ? DataType::Double : held;
    node.result(output, node.cast(result, held, type), type);
  }
}

} // namespace intarsia::onnx
