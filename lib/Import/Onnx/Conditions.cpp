//===- Conditions.cpp - What conditions say of sizes of the call --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exporters write If with conditions such as "the last dimension is 1", whose branches have results of different
// ranks.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"

using namespace mlir;

namespace intarsia::onnx {

/// Returns what Equal says of its inputs, if these are a size and a number.
static std::optional<SizeCondition> conditionOfEqual(NodeContext &node) {
  const Elements *left = node.has(0) ? node.graph.elementsOf(node.input(0)) : nullptr;
  const Elements *right = node.has(1) ? node.graph.elementsOf(node.input(1)) : nullptr;
  if (!left || !right || left->values.size() != 1 || right->values.size() != 1)
    return std::nullopt;
  const Element *size = &left->values[0], *number = &right->values[0];
  if (!size->isSize())
    std::swap(size, number);
  if (!size->isSize() || !number->isInteger())
    return std::nullopt;
  return SizeCondition{size->size, number->integer};
}

void followCondition(NodeContext &node) {
  llvm::StringRef op(node.node.op.data(), node.node.op.size());
  if (!node.node.domain.empty() || node.outputCount() != 1 || !node.has(0))
    return;
  std::optional<SizeCondition> condition;
  if (op == "Equal")
    condition = conditionOfEqual(node);
  else if (llvm::is_contained({"Not", "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze"}, op))
    condition = node.input(0).condition;
  llvm::StringRef name(node.node.outputs[0].data(), node.node.outputs[0].size());
  GraphValue *result = condition ? node.graph.find(name) : nullptr;
  if (!result || !isBool(result->type))
    return;
  condition->isNegated ^= op == "Not";
  result->condition = condition;
}

} // namespace intarsia::onnx
