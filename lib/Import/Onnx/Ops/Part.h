//===- Part.h - Ops of the standard that a node is made of --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_PART_H
#define INTARSIA_IMPORT_ONNX_OPS_PART_H

#include "lib/Import/Onnx/OpTable.h"
#include <deque>

namespace intarsia::onnx {

/// An op of the standard that a node of another domain computes as a part of what it does. What is refused of it is
/// refused of the node.
class Part {
public:
  Part(NodeContext &whole, llvm::StringLiteral op, int64_t version = newestVersion);

  // Inputs, in their order; `without` leaves one out.
  Part &with(GraphValue value);
  Part &with(mlir::Value tensor, DataType type);
  Part &without();

  /// Takes all inputs and attributes over from the node, with `inSingle` inputs of f64 as f32.
  Part &likeTheNode(bool inSingle = false);
  /// Takes these attributes over from the node, where it has them.
  Part &keep(llvm::ArrayRef<llvm::StringLiteral> names);
  Part &set(llvm::StringLiteral name, int64_t integer);
  Part &set(llvm::StringLiteral name, int integer) { return set(name, int64_t(integer)); }
  Part &set(llvm::StringLiteral name, double number);
  Part &set(llvm::StringLiteral name, llvm::StringLiteral text);
  Part &set(llvm::StringLiteral name, llvm::ArrayRef<int64_t> integers);

  /// Builds the op. Returns its first output as a tensor; null, and the node is refused, if it is not imported.
  mlir::Value build() { return build(true).front(); }
  /// The same with those of its outputs that are wanted; null for the others.
  llvm::SmallVector<mlir::Value, 3> build(llvm::ArrayRef<bool> wanted);

private:
  std::string_view nameOf(llvm::StringRef what);
  Attribute &add(llvm::StringLiteral name, AttributeType type);

  NodeContext &whole;
  llvm::StringLiteral op;
  int64_t version;
  Node node;
  std::deque<std::string> names;
};

} // namespace intarsia::onnx

#endif
