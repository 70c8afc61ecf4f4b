//===- ModuleBuilder.h - Emits nn IR of any kind of model ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_BUILDER_MODULEBUILDER_H
#define INTARSIA_IMPORT_BUILDER_MODULEBUILDER_H

#include "dialects/Nn/Nn.h"
#include "lib/Import/Builder/Errors.h"
#include "lib/Import/Builder/WeightArchive.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

namespace intarsia::importer {

/// A dimension of a tensor: a number, the name of a size that the caller chooses, or an index that the function
/// computes from such sizes (ModuleBuilder::compute).
struct Size {
  Size(int64_t value) : value(value) {}
  Size(llvm::StringRef symbol) : symbol(symbol) {}
  template <size_t length> Size(const char (&symbol)[length]) : symbol(symbol) {}
  explicit Size(mlir::Value index) : index(index) {}
  bool isDynamic() const { return value == mlir::ShapedType::kDynamic; }

  int64_t value = mlir::ShapedType::kDynamic;
  llvm::StringRef symbol;
  mlir::Value index;
};
using Shape = llvm::SmallVector<Size, 4>;

/// What sizes are computed from one another by. Divisions round towards 0 and up.
enum class SizeOp { Add, Subtract, Multiply, Divide, DivideUp, Remainder };

/// An argument of a function, by its name in the model.
struct Input {
  llvm::StringRef name;
  mlir::Type element;
  Shape shape;
  std::optional<int64_t> byDefault;                 // value of an input that the caller omits
  std::optional<std::pair<int64_t, int64_t>> range; // [low, high), checked at run time
  bool isState = false;                             // true if the function updates it in place
  bool isUnsigned = false;                          // true if its integers have no sign for the caller
};

/// An input of an elementwise op or a reduction: its dimension i is dimension `dims[i]` of the iteration.
struct Operand {
  mlir::Value value;
  llvm::SmallVector<unsigned, 4> dims;
};

/// The tensors that nn.dequantize reads; those that a format does not have are null.
struct QuantizedParts {
  mlir::Value values, scales = {}, zeroPoints = {}, tensorScale = {}, groupIndices = {}, codebook = {};
};

/// Activations, named by their formulas.
enum class Activation {
  Identity,
  GeluErf,
  GeluTanh,
  QuickGelu,
  Silu,
  Relu,
  Relu6,
  ReluSquared,
  Tanh,
  Sigmoid,
  HardSigmoid, ///< relu6(x + 3) / 6
  HardSwish    ///< x * HardSigmoid(x)
};

/// Where the windows of a convolution or a pool lie in an image, an entry for each spatial dimension. Strides and
/// dilations are 1 and pads 0 where there are none.
struct Windows {
  /// Returns windows that are as high as wide.
  static Windows square(int64_t size, int64_t stride = 1, int64_t pad = 0) {
    return {{size, size}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}};
  }

  llvm::SmallVector<int64_t, 3> window, strides, dilations, padsLow, padsHigh;
  llvm::SmallVector<int64_t, 3> outputPads; // of a transposed convolution: positions behind its result
  int64_t groups = 1;                       // of the channels of a convolution
  bool isTransposed = false;                // true if a convolution spreads its windows
};

/// A recurrent layer as nn.recurrent has it, of which the input is [batch, sequence, features], or with `sequenceFirst`
/// [sequence, batch, features]. Weights are one for each direction, or one of all directions after one another.
struct RecurrentLayer {
  nn::RecurrentKind kind;
  nn::Direction direction = nn::Direction::Forward;
  llvm::SmallVector<mlir::Value, 2> inputWeights;     // [gates * hidden, features]
  llvm::SmallVector<mlir::Value, 2> inputBiases;      // [gates * hidden], or none
  llvm::SmallVector<mlir::Value, 2> recurrentWeights; // [gates * hidden, hidden]
  llvm::SmallVector<mlir::Value, 2> recurrentBiases;  // [gates * hidden], or none
  llvm::SmallVector<mlir::Value, 2> peepholes;        // [3 * hidden], or none
  llvm::SmallVector<int64_t, 4> gateOrder;            // empty: that of ONNX
  /// Of all directions; empty: the usual ones.
  llvm::SmallVector<nn::RecurrentActivation, 6> activations;
  llvm::SmallVector<float, 6> alphas, betas;
  std::optional<float> clip;
  bool isCoupled = false, linearBeforeReset = false, sequenceFirst = false;
  mlir::Value initialHidden, initialCell; // [directions, batch, hidden], or null
  mlir::Value lengths;                    // [batch], or null
};

/// The vectors [channels] of a normalisation with statistics of the training data.
struct BatchNorm {
  mlir::Value scale, bias, mean, variance;
  double epsilon;
};

/// Emits the functions of one module. It knows nothing of a kind of model: importers say where in the user's model an
/// op comes from, by its location, and which tensors of which archive are its weights. Errors are reported to the sink;
/// the graph after an error is well-formed but not used.
class ModuleBuilder {
public:
  ModuleBuilder(mlir::ModuleOp module, Errors &errors);
  ModuleBuilder(const ModuleBuilder &) = delete;
  ModuleBuilder &operator=(const ModuleBuilder &) = delete;

  //===-- Functions ------------------------------------------------------------------------------------------===//

  void beginFunction(llvm::StringRef name, llvm::ArrayRef<Input> inputs);
  mlir::Value input(llvm::StringRef name) const;
  /// Adds a result. Its dimensions that have names are checked to be those sizes.
  void output(mlir::Value value, llvm::StringRef name, const Shape &shape, bool isUnsigned = false);
  /// Adds a result that is the state `name` after the call.
  void outputState(mlir::Value value, llvm::StringRef name);
  /// True if an argument of the function is a state.
  bool hasState() const;
  void endFunction(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizeLimits, mlir::DictionaryAttr metadata);

  //===-- Locations and sizes --------------------------------------------------------------------------------===//

  /// Returns the location of a node of the user's model; of the module if it has no name.
  mlir::Location nodeLocation(llvm::StringRef node) const;
  /// Returns the location of a node that a line of a source file describes.
  mlir::Location nodeLocation(llvm::StringRef node, llvm::StringRef file, unsigned line) const;

  /// Returns the name in IR of a size that a model calls `given`, which may be any text: letters, digits, '_' and '.',
  /// the same for equal texts only.
  llvm::StringRef sizeName(llvm::StringRef given);
  /// Returns a dimension of a tensor: a number, or what it is at run time.
  Size sizeOf(mlir::Location at, mlir::Value tensor, int64_t dimension);
  Shape shapeOf(mlir::Location at, mlir::Value tensor);
  /// Computes a size from two others, now if both are numbers. Reports a number that is divided by 0 and one that 64
  /// bits do not hold.
  Size compute(mlir::Location at, SizeOp op, const Size &left, const Size &right);
  mlir::OpFoldResult size(const Size &size) const;
  mlir::RankedTensorType tensorType(const Shape &shape, mlir::Type element) const;

  //===-- Weights (Weights.cpp) ------------------------------------------------------------------------------===//

  /// Returns the tensor that an archive has under a key, as it is stored; blocks of GGUF files are dequantized to f32.
  /// A tensor that is asked for twice is one op. Reports a key that the archive does not have, and types that IR does
  /// not have.
  mlir::Value weight(mlir::Location at, const WeightArchive &archive, llvm::StringRef key);
  mlir::Value weight(mlir::Location at, const WeightArchive::Tensor &tensor);
  /// Returns a tensor whose bits mean something else than its type in the archive says: `type` has as many bits.
  mlir::Value rawWeight(mlir::Location at, const WeightArchive::Tensor &tensor, mlir::RankedTensorType type);
  /// Returns a weight of no archive, with which import goes on after a reported error, so that all errors are found.
  mlir::Value missingWeight(mlir::Location at, llvm::StringRef key, mlir::RankedTensorType type);
  mlir::Value dequantize(mlir::Location at, const QuantizedParts &parts, mlir::RankedTensorType type,
                         BlockFormatAttrInterface format);

  // Views of tensors of static shape. Chains of them over a weight cost nothing at run time: elements are read where
  // they lie when weights are packed.

  mlir::Value reshape(mlir::Location at, mlir::Value tensor, llvm::ArrayRef<int64_t> shape);
  mlir::Value permute(mlir::Location at, mlir::Value tensor, llvm::ArrayRef<int64_t> permutation);
  mlir::Value slice(mlir::Location at, mlir::Value tensor, llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> sizes);
  /// Returns elements of a tensor [elements] as a tensor of `sizes`: the element at (i, j, …) is number `offset` + i *
  /// strides[0] + j * strides[1] + …. Reports views that reach outside of the tensor, and such as slices, transposes
  /// and reshapes of a tensor never make; `name` is that of the tensor in messages.
  mlir::Value stridedView(mlir::Location at, llvm::StringRef name, mlir::Value tensor, int64_t offset,
                          llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides);

  //===-- Ops ------------------------------------------------------------------------------------------------===//

  mlir::Value linear(mlir::Location at, mlir::Value input, mlir::Value weight, mlir::Value bias);
  mlir::Value layerNorm(mlir::Location at, mlir::Value input, mlir::Value scale, mlir::Value bias, double epsilon);
  mlir::Value rmsNorm(mlir::Location at, mlir::Value input, mlir::Value scale, double epsilon);
  /// Normalises each group of the channels of images [batch, spatial…, channels], whose sizes are `shape`, by mean and
  /// deviation of its elements at all positions (arXiv 1803.08494); then scales and shifts each channel, by tensors
  /// [channels] that may be null. With as many groups as channels it is an instance norm. `groups` divides the
  /// channels, which are the last dimension, or `axis` of images of any rank.
  mlir::Value imageNorm(mlir::Location at, mlir::Value input, const Shape &shape, mlir::Value scale, mlir::Value bias,
                        int64_t groups, double epsilon, std::optional<unsigned> axis = std::nullopt);
  /// Divides each element by (bias + alpha / size * sum)^beta, where `sum` is that of the squares of `size` elements
  /// around it along `axis`, of which (size - 1) / 2 are before it: a local response norm (`LRN` of ONNX 13;
  /// section 3.3 of "ImageNet Classification with Deep Convolutional Neural Networks", DOI 10.1145/3065386).
  mlir::Value responseNorm(mlir::Location at, mlir::Value input, unsigned axis, int64_t size, double alpha, double beta,
                           double bias);
  /// Picks rows of a table [rows, features] by indices […]: […, features], widened to the type `element`.
  mlir::Value embedding(mlir::Location at, mlir::Value table, mlir::Value indices, mlir::Type element);
  mlir::Value activation(mlir::Location at, mlir::Value input, Activation activation);
  mlir::Value add(mlir::Location at, mlir::Value lhs, mlir::Value rhs);
  mlir::Value multiply(mlir::Location at, mlir::Value lhs, mlir::Value rhs);
  /// Builds multi-head attention over query, key and value of shape [leading…, heads * head_dim]; the result has the
  /// same shape.
  mlir::Value attention(mlir::Location at, mlir::Value query, mlir::Value key, mlir::Value value, mlir::Value mask,
                        const Shape &leading, int64_t heads, int64_t headDim);
  /// Builds it for keys and values [keyLeading…, heads * head_dim] of another sequence.
  mlir::Value attention(mlir::Location at, mlir::Value query, mlir::Value key, mlir::Value value, mlir::Value mask,
                        const Shape &leading, const Shape &keyLeading, int64_t heads, int64_t headDim);

  /// Builds a recurrent layer: the products of the whole input as one nn.linear, then nn.recurrent. Returns its
  /// results.
  llvm::SmallVector<mlir::Value> recurrent(mlir::Location at, mlir::Value input, const RecurrentLayer &layer);

  //===-- Images (Images.cpp) --------------------------------------------------------------------------------===//

  // Images are [batch, spatial…, channels].

  /// Returns images [batch, channels, spatial…] as [batch, spatial…, channels].
  mlir::Value channelsLast(mlir::Location at, mlir::Value images);
  /// Returns images as [batch, channels, spatial…].
  mlir::Value channelsFirst(mlir::Location at, mlir::Value images);
  /// Returns the weight [out, in / groups, window…] of a convolution, or [in, out, window…] of one that is transposed
  /// and has no groups, as the matrix that nn.conv multiplies by.
  mlir::Value convWeight(mlir::Location at, mlir::Value weight, bool isTransposed = false);
  /// Builds nn.conv with a weight of convWeight. Reports images that are smaller than a window.
  mlir::Value conv(mlir::Location at, mlir::Value images, mlir::Value weight, mlir::Value bias, const Windows &windows);
  mlir::Value pool(mlir::Location at, mlir::Value images, nn::PoolKind kind, const Windows &windows);
  /// Multiplies each channel by scale / sqrt(variance + epsilon) and adds bias - mean * that factor: two vectors that
  /// are computed from weights alone. Channels are the last dimension, or `axis`.
  mlir::Value batchNorm(mlir::Location at, mlir::Value images, const BatchNorm &norm,
                        std::optional<unsigned> axis = std::nullopt);
  /// Returns the mean of each channel over all positions: [batch, channels].
  mlir::Value spatialMean(mlir::Location at, mlir::Value images);
  /// Returns the largest value of each channel: [batch, channels].
  mlir::Value spatialMaximum(mlir::Location at, mlir::Value images);
  /// Returns images [batch, height, width, channels] at another size, each element interpolated between four
  /// (`interpolate` of PyTorch with mode "bilinear"). With `alignsCorners` the corners are those of the images.
  mlir::Value resizeBilinear(mlir::Location at, mlir::Value images, const Size &height, const Size &width,
                             bool alignsCorners = false);
  /// Multiplies each channel by a factor of `factors`: [channels], or [batch, channels].
  mlir::Value scaleChannels(mlir::Location at, mlir::Value images, mlir::Value factors);

  //===-- Shapes and elements --------------------------------------------------------------------------------===//

  mlir::Value empty(mlir::Location at, const Shape &shape, mlir::Type element);
  mlir::Value expandShape(mlir::Location at, mlir::Value input, const Shape &shape,
                          llvm::ArrayRef<mlir::ReassociationIndices> groups);
  mlir::Value collapseShape(mlir::Location at, mlir::Value input, llvm::ArrayRef<mlir::ReassociationIndices> groups);
  /// Returns a part of a tensor: `sizes` elements of each dimension, from `offsets` on. Dimensions that `shape` does
  /// not have are of 1 element.
  mlir::Value part(mlir::Location at, mlir::Value input, const Shape &offsets, const Shape &sizes, const Shape &shape);
  mlir::Value transpose(mlir::Location at, mlir::Value input, const Shape &shape, llvm::ArrayRef<int64_t> permutation);
  mlir::Value concat(mlir::Location at, llvm::ArrayRef<mlir::Value> inputs, int64_t dimension);

  using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

  /// Builds a linalg.generic over `shape`, parallel in all dimensions.
  mlir::Value elementwise(mlir::Location at, mlir::Type element, const Shape &shape, llvm::ArrayRef<Operand> inputs,
                          Body body);
  /// Builds a linalg.generic of each element of one tensor.
  mlir::Value elementOf(mlir::Location at, mlir::Value input, Body body);
  /// Builds a linalg.generic over `shape` that keeps the dimensions `kept`; the body's last argument is the
  /// accumulator, which starts as `initial`.
  mlir::Value reduce(mlir::Location at, mlir::TypedAttr initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                     llvm::ArrayRef<Operand> inputs, Body body);

  mlir::OpBuilder &getBuilder() { return builder; }
  Errors &sink() { return errors; }

private:
  llvm::SmallVector<mlir::OpFoldResult> sizes(const Shape &shape) const;
  mlir::ArrayAttr sizeNames(const Shape &shape);
  mlir::Value indexOf(mlir::Location at, const Size &size);
  mlir::Value generic(mlir::Location at, mlir::Value initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                      llvm::ArrayRef<Operand> inputs, Body body);
  mlir::FlatSymbolRefAttr archiveSymbol(const WeightArchive::File &file);

protected:
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  Errors &errors;

private:
  mlir::func::FuncOp function;
  llvm::StringMap<mlir::Value> inputs;
  llvm::StringMap<mlir::Value> symbolSizes;
  llvm::StringMap<std::string> namesOfSizes; // by what models call them
  llvm::StringMap<unsigned> takenSizeNames;  // all of these, each with the next number for others that are equal
  llvm::StringMap<mlir::Value> weights;      // by archive symbol and key: a weight used twice is one op
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallVector<mlir::DictionaryAttr> outputAttributes;
};

/// Returns f32, bf16 or f16 for a safetensors dtype; null for others.
mlir::Type floatType(llvm::StringRef dtype, mlir::MLIRContext *context);

/// Returns the type of elements of a safetensors dtype, "BOOL" and integers included; null for those that IR does not
/// have.
mlir::Type elementType(llvm::StringRef dtype, mlir::MLIRContext *context);

/// Widens a value inside the body of an elementwise op, unless it has the type.
mlir::Value widened(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value, mlir::Type type);

/// Builds a floating-point constant inside the body of an elementwise op.
mlir::Value floatConstant(mlir::OpBuilder &builder, mlir::Location location, mlir::Type type, double value);

} // namespace intarsia::importer

#endif
