//===- NodeContext.h - A node that is imported, and its operands --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_NODECONTEXT_H
#define INTARSIA_IMPORT_ONNX_NODECONTEXT_H

#include "lib/Import/Onnx/GraphBuilder.h"
#include "lib/Import/Onnx/SmallTypes.h"

namespace intarsia::onnx {

/// Returns a float as an integer of a type of 32 or 64 bits: rounded towards 0 and clamped to the type. NaN is 0.
mlir::Value toInteger(mlir::OpBuilder &b, mlir::Location at, mlir::Value real, mlir::Type integer, bool isUnsigned);

/// Returns a whole number in f32 or f64, clamped to an integer type of up to 16 bits. NaN is the least number of it.
mlir::Value clampedInteger(mlir::OpBuilder &b, mlir::Location at, mlir::Value whole, DataType to, mlir::Type element);

/// What the function of an op builds from: a node with its inputs and attributes. A function that cannot build the node
/// says why by refuse(), and returns; so do the accessors here, whose results are then harmless: a function asks
/// isRefused() before it uses what must be right.
class NodeContext {
public:
  NodeContext(GraphBuilder &graph, const Node &node, int64_t version, mlir::Location at, bool anyElements,
              NodeContext *whole = nullptr)
      : graph(graph), node(node), version(version), at(at), anyElements(anyElements), whole(whole) {}

  GraphBuilder &graph;
  const Node &node;
  const int64_t version; ///< of the operator set of the node's domain
  const mlir::Location at;

  importer::ModuleBuilder &ir() { return graph.ir(); }
  mlir::OpBuilder &ops() { return graph.ops(); }

  void refuse(const llvm::Twine &reason);
  bool isRefused() const { return refused; }
  /// Refuses the node if a shape has too many elements.
  bool isCounted(llvm::ArrayRef<Size> shape);
  /// Leaves the node out without a reason of its own: what it needs is refused.
  void leaveOut() { refused = true; }
  /// Refuses the node unless elements of an input are what is said of them: "floats".
  bool isOf(size_t input, bool (*holds)(DataType), llvm::StringRef what);
  /// Refuses the node unless these inputs have elements of one type.
  bool areOneType(llvm::ArrayRef<size_t> inputs);
  /// Refuses the node unless elements of an input are floats that ops of nn compute with.
  bool isComputed(size_t input) { return isOf(input, isComputedByNn, "floats of 16 or 32 bits"); }
  /// Refuses the node if an input of this name is not broadcast to a shape, or only to a larger one.
  bool isBroadcastTo(mlir::Value tensor, const Shape &shape, llvm::StringRef name);

  //===-- Inputs ---------------------------------------------------------------------------------------------===//

  size_t inputCount() const { return node.inputs.size(); }
  /// True for an input that the node names, and that the call of its function does not leave out.
  bool has(size_t input) const;
  GraphValue &input(size_t number);
  DataType typeOf(size_t input) { return this->input(input).type; }
  /// Returns an input as a tensor; refuses the node if it is missing or of a type that IR does not have.
  mlir::Value tensor(size_t input);
  Shape shapeOf(size_t input) { return graph.shapeOf(at, this->input(input)); }
  int64_t rankOf(size_t input) { return shapeOf(input).size(); }
  /// Returns the elements of an input that the node cannot be built without; null, and refused, if they are not known.
  const Elements *elements(size_t input, llvm::StringRef name);
  /// The same for integers; sizes of a call among them are refused.
  std::optional<llvm::SmallVector<int64_t>> integers(size_t input, llvm::StringRef name);
  /// Returns the only element of a value, if it is an integer that import knows.
  std::optional<int64_t> knownNumber(GraphValue &value);

  //===-- Attributes -----------------------------------------------------------------------------------------===//

  bool hasAttribute(llvm::StringRef name) const { return attribute(name) != nullptr; }
  int64_t integer(llvm::StringRef name, int64_t byDefault);
  double number(llvm::StringRef name, double byDefault);
  llvm::StringRef text(llvm::StringRef name, llvm::StringRef byDefault);
  std::optional<llvm::SmallVector<int64_t>> integers(llvm::StringRef name);
  const Attribute *attribute(llvm::StringRef name) const;
  const Graph *subgraph(llvm::StringRef name);
  /// Returns what attributes say of casts to floats of 8 bits.
  SmallRounding rounding();
  /// Returns an axis counted from the front; refuses one that is outside of [-rank, rank).
  int64_t axis(int64_t axis, int64_t rank, llvm::StringRef name = "axis");
  /// Returns axes counted from the front; refuses those that are outside, and an axis that is there twice.
  llvm::SmallVector<int64_t> axes(llvm::ArrayRef<int64_t> given, int64_t rank);

  //===-- Results --------------------------------------------------------------------------------------------===//

  size_t outputCount() const { return node.outputs.size(); }
  bool isWanted(size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
  void result(size_t output, GraphValue value);
  void result(size_t output, mlir::Value tensor, DataType type);
  /// Sets the only result, of the type of input 0.
  void result(mlir::Value tensor) { result(0, tensor, typeOf(0)); }
  void result(DataType type, Elements elements);

  //===-- Helpers --------------------------------------------------------------------------------------------===//

  mlir::Type irType(DataType type) { return elementType(type, graph.context()); }
  using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;
  /// Builds an elementwise op over tensors that are broadcast as NumPy does it.
  mlir::Value broadcast(llvm::ArrayRef<mlir::Value> tensors, mlir::Type element, Body body);
  /// Returns a tensor repeated along dimensions of one element until it has a shape.
  mlir::Value broadcastTo(mlir::Value tensor, const Shape &shape);
  /// Finds the shape that tensors are broadcast to; refuses those of which there is none.
  std::optional<Shape> broadcastShape(llvm::ArrayRef<Shape> shapes);
  /// Returns tensors one behind the other along an axis; refuses those whose other sizes differ.
  std::optional<mlir::Value> joined(llvm::ArrayRef<mlir::Value> tensors, int64_t axis);
  mlir::Value transposed(mlir::Value tensor, llvm::ArrayRef<int64_t> permutation);
  /// Returns a tensor's elements in another shape, which has as many.
  mlir::Value reshaped(mlir::Value tensor, const Shape &shape);
  /// Returns elements from `begin` on in steps of `step` along an axis; the step may be negative.
  mlir::Value sliced(mlir::Value tensor, int64_t axis, const Size &begin, const Size &count, int64_t step = 1);
  mlir::Value cast(mlir::Value tensor, DataType from, DataType to, const SmallRounding &rounding = {});
  /// Returns a tensor of one number everywhere.
  mlir::Value filled(const Shape &shape, mlir::TypedAttr value);
  mlir::TypedAttr numberAttribute(DataType type, double value);
  Size compute(importer::SizeOp op, const Size &left, const Size &right) { return ir().compute(at, op, left, right); }
  Size product(llvm::ArrayRef<Size> sizes);

private:
  std::string advice(size_t input);

  const bool anyElements; ///< of the op: results may have elements of small types
  NodeContext *whole;     ///< the node that this one is a part of, which is refused in its place; null if there is none
  bool refused = false;
  GraphValue missing;
};

/// Returns the sizes that an input lists, which may be sizes of the call; refuses those that are not known.
std::optional<Shape> sizesOf(NodeContext &node, size_t input, llvm::StringRef name);

/// Returns the product of matrices [batch…, m, k] and [batch…, k, n], or vectors, as NumPy's matmul; refuses what has
/// none.
std::optional<mlir::Value> matrixProduct(NodeContext &node, mlir::Value left, mlir::Value right, DataType type);

/// Builds the ops of a node.
using BuildFunction = void (*)(NodeContext &);

mlir::RankedTensorType tensorType(mlir::Value tensor);

/// True for a tensor that calls do not decide: a weight, a constant, or a view of one.
bool isConstant(mlir::Value tensor);

} // namespace intarsia::onnx

#endif
