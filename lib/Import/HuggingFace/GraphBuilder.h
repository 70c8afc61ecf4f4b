//===- GraphBuilder.h - Emits nn IR under the module paths of a model --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_GRAPHBUILDER_H
#define INTARSIA_IMPORT_HUGGINGFACE_GRAPHBUILDER_H

#include "dialects/Nn/Nn.h"
#include "lib/Import/HuggingFace/Config.h"
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"
#include "lib/Import/WeightArchive.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace intarsia::importer {

/// A dimension of an activation: a number, or the name of a size that the caller chooses.
struct Size {
  Size(int64_t value) : value(value) {}
  Size(llvm::StringRef symbol) : symbol(symbol) {}
  Size(const char *symbol) : symbol(symbol) {}
  bool isDynamic() const { return value == mlir::ShapedType::kDynamic; }

  int64_t value = mlir::ShapedType::kDynamic;
  llvm::StringRef symbol;
};
using Shape = llvm::SmallVector<Size, 4>;

/// An argument of a function, by its Hugging Face name.
struct Input {
  llvm::StringRef name;
  mlir::Type element;
  Shape shape;
  std::optional<int64_t> byDefault;                 // value of an input that the caller omits
  std::optional<std::pair<int64_t, int64_t>> range; // [low, high), checked at run time
  bool isState = false;                             // true if the function updates it in place
};

/// An input of an elementwise op or a reduction: its dimension i is dimension `dims[i]` of the iteration.
struct Operand {
  mlir::Value value;
  llvm::SmallVector<unsigned, 4> dims;
};

/// Activations, named by their formulas.
enum class Activation { Identity, GeluErf, GeluTanh, QuickGelu, Silu, Relu, ReluSquared, Tanh, Sigmoid };
/// Reads `setting` ("gelu", "gelu_new", "swish", …); reports names that are not implemented.
Activation readActivation(const Config &config, llvm::StringRef setting, llvm::StringRef byDefault);

/// Emits the functions of one module. Module arguments of its methods are paths below the current scope; they name the
/// weights and the location. Errors are reported to the sink; the graph after an error is well-formed but not used.
class GraphBuilder {
public:
  /// `dataType` is the element type of the table of embeddings; other weights may have others. Activations have
  /// `activationType`, which holds the values of all weights.
  GraphBuilder(mlir::ModuleOp module, const WeightArchive &archive, mlir::Type dataType, mlir::Type activationType,
               Errors &errors);
  /// Sets the checkpoint that says which matrices of the archive are quantized; null if none are.
  void setQuantized(QuantizedCheckpoint *checkpoint) { quantized = checkpoint; }

  //===-- Functions ------------------------------------------------------------------------------------------===//

  void beginFunction(llvm::StringRef name, llvm::ArrayRef<Input> inputs);
  mlir::Value input(llvm::StringRef name) const;
  void output(mlir::Value value, llvm::StringRef name, const Shape &shape);
  /// Adds a result that is the state `name` after the call.
  void outputState(mlir::Value value, llvm::StringRef name);
  void endFunction(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizeLimits, mlir::DictionaryAttr metadata);

  //===-- Names ----------------------------------------------------------------------------------------------===//

  /// Prefixes weights and locations while it lives; may also switch to another folder's weights.
  class Scope {
  public:
    Scope(GraphBuilder &graph, const llvm::Twine &module, const WeightArchive *archive = nullptr);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    GraphBuilder &graph;
    size_t length;
    const WeightArchive *archive;
  };

  bool hasWeight(llvm::StringRef name) const;
  /// Returns true if the archive has both weights and their elements differ. Reads the elements.
  bool differ(llvm::StringRef first, llvm::StringRef second) const;
  /// Returns the first of several names of a weight or module that the archive has: `name` + `suffix` is looked up.
  /// Returns the first name if it has none.
  llvm::StringRef spelling(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef suffix = "") const;
  /// Returns a weight of the shape that the settings imply.
  mlir::Value weight(llvm::StringRef name, llvm::ArrayRef<Extent> shape);
  /// Returns a bf16 weight of the shape that the settings imply, stored in MXFP4 as `name`_blocks and `name`_scales.
  mlir::Value mxfp4Weight(llvm::StringRef name, llvm::ArrayRef<Extent> shape);

  //===-- Layers ---------------------------------------------------------------------------------------------===//

  /// Builds nn.linear with `module`.weight [outputs, inputs] and, with `bias`, `module`.bias [outputs].
  mlir::Value linear(mlir::Value input, llvm::StringRef module, Extent outputs, Extent inputs, bool bias = true);
  mlir::Value linear(mlir::Value input, llvm::StringRef module, mlir::Value weight, mlir::Value bias);
  /// Builds nn.layer_norm with `module`.weight and `module`.bias (TensorFlow's names gamma and beta are found too).
  mlir::Value layerNorm(mlir::Value input, llvm::StringRef module, Extent features, double epsilon);
  mlir::Value rmsNorm(mlir::Value input, llvm::StringRef module, Extent features, double epsilon);
  mlir::Value embedding(mlir::Value indices, llvm::StringRef module, Extent rows, Extent features);
  mlir::Value activation(mlir::Value input, llvm::StringRef module, Activation activation);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs, llvm::StringRef module);
  mlir::Value multiply(mlir::Value lhs, mlir::Value rhs, llvm::StringRef module);
  /// Builds multi-head attention over query, key and value of shape [leading…, heads * head_dim]; the result has the
  /// same shape.
  mlir::Value attention(mlir::Value query, mlir::Value key, mlir::Value value, mlir::Value mask, llvm::StringRef module,
                        const Shape &leading, int64_t heads, int64_t headDim);

  /// Applies `layer` `count` times, each in a scope `container` + its number ("encoder.layer.0"). Reports weights of
  /// further layers, which the model would ignore.
  mlir::Value layers(mlir::Value state, llvm::StringRef container, Extent count,
                     llvm::function_ref<mlir::Value(mlir::Value)> layer);

  //===-- Shapes ---------------------------------------------------------------------------------------------===//

  mlir::Value expandShape(mlir::Value input, llvm::StringRef module, const Shape &shape,
                          llvm::ArrayRef<mlir::ReassociationIndices> groups);
  mlir::Value collapseShape(mlir::Value input, llvm::StringRef module,
                            llvm::ArrayRef<mlir::ReassociationIndices> groups);
  /// Returns the leading rows of a table [rows, features].
  mlir::Value firstRows(mlir::Value table, llvm::StringRef module, Size rows, int64_t features);
  /// Returns features [first, first + count) of a tensor [rows, features].
  mlir::Value features(mlir::Value input, llvm::StringRef module, Size rows, int64_t first, int64_t count);
  /// Returns rows [count, features] of a tensor [rows, features] by their indices [count].
  mlir::Value rowsAt(mlir::Value input, mlir::Value indices, llvm::StringRef module, Size count);
  /// Returns position 0: [batch, sequence, features] → [batch, features].
  mlir::Value firstToken(mlir::Value input, llvm::StringRef module, Size batch, int64_t features);
  mlir::Value transpose(mlir::Value input, llvm::StringRef module, const Shape &shape,
                        llvm::ArrayRef<int64_t> permutation);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> inputs, llvm::StringRef module, int64_t dimension);

  //===-- Elementwise and reductions -------------------------------------------------------------------------===//

  using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

  /// Builds a linalg.generic over `shape`, parallel in all dimensions.
  mlir::Value elementwise(llvm::StringRef module, mlir::Type element, const Shape &shape,
                          llvm::ArrayRef<Operand> inputs, Body body);
  /// Builds a linalg.generic over `shape` that keeps the dimensions `kept`; the body's last argument is the
  /// accumulator, which starts as `initial`.
  mlir::Value reduce(llvm::StringRef module, mlir::TypedAttr initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                     llvm::ArrayRef<Operand> inputs, Body body);

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Type getDataType() const { return dataType; }
  mlir::Type getActivationType() const { return activationType; }
  Errors &sink() { return errors; }
  mlir::Location location(llvm::StringRef module);
  mlir::RankedTensorType tensorType(const Shape &shape, mlir::Type element) const;

private:
  std::string path(llvm::StringRef name) const;
  mlir::OpFoldResult size(const Size &size);
  llvm::SmallVector<mlir::OpFoldResult> sizes(const Shape &shape);
  mlir::Value empty(llvm::StringRef module, const Shape &shape, mlir::Type element);
  mlir::Value generic(llvm::StringRef module, mlir::Value initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                      llvm::ArrayRef<Operand> inputs, Body body);
  mlir::FlatSymbolRefAttr archiveSymbol(const WeightArchive::File &file);
  /// Builds the matrix of a module that the archive holds quantized; null if it does not, or after an error.
  mlir::Value quantizedWeight(llvm::StringRef name, llvm::ArrayRef<Extent> shape);
  mlir::Value dequantized(llvm::StringRef name, const QuantizedMatrix &matrix, llvm::ArrayRef<int64_t> shape);
  /// Builds nn.dequantize of weights; `scales` is null for formats whose values hold theirs.
  mlir::Value dequantized(llvm::StringRef name, mlir::Value values, mlir::Value scales, mlir::RankedTensorType type,
                          BlockFormatAttrInterface format);

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  const WeightArchive *archive;
  QuantizedCheckpoint *quantized = nullptr;
  mlir::Type dataType, activationType;
  Errors &errors;
  std::string scopePath;

  mlir::func::FuncOp function;
  llvm::StringMap<mlir::Value> inputs;
  llvm::StringMap<mlir::Value> symbolSizes;
  llvm::StringMap<mlir::Value> weights;          // by archive symbol and key: a weight used twice is one op
  llvm::StringMap<mlir::Value> quantizedWeights; // by path
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallVector<mlir::DictionaryAttr> outputAttributes;
};

/// Returns f32, bf16 or f16 for a safetensors dtype; null for others.
mlir::Type floatType(llvm::StringRef dtype, mlir::MLIRContext *context);

/// Widens a value inside the body of an elementwise op, unless it has the type.
mlir::Value widened(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value, mlir::Type type);

/// Builds a floating-point constant inside the body of an elementwise op.
mlir::Value floatConstant(mlir::OpBuilder &builder, mlir::Location location, mlir::Type type, double value);

} // namespace intarsia::importer

#endif
