//===- GraphBuilder.h - Emits nn IR under the module paths of a model --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_GRAPHBUILDER_H
#define INTARSIA_IMPORT_HUGGINGFACE_GRAPHBUILDER_H

#include "lib/Import/Builder/ModuleBuilder.h"
#include "lib/Import/HuggingFace/Config.h"
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

namespace intarsia::importer {

/// Reads `setting` ("gelu", "gelu_new", "swish", …); reports names that are not implemented.
Activation readActivation(const Config &config, llvm::StringRef setting, llvm::StringRef byDefault);

/// The modules that weigh the channels of an image by what the whole image shows (arXiv 1709.01507).
struct SqueezeExcite {
  llvm::StringRef reduce, expand;
  Activation activation;                 ///< between both
  Activation gate = Activation::Sigmoid; ///< makes factors of what the second computes
};

/// A ModuleBuilder for modules of Hugging Face models. Module arguments of its methods are paths below the current
/// scope; they name the weights and the location.
class GraphBuilder : public ModuleBuilder {
public:
  /// `dataType` is the element type of the table of embeddings; other weights may have others. Activations have
  /// `activationType`, which holds the values of all weights.
  GraphBuilder(mlir::ModuleOp module, const WeightArchive &archive, mlir::Type dataType, mlir::Type activationType,
               Errors &errors);
  /// Sets the checkpoint that says which matrices of the archive are quantized; null if none are.
  void setQuantized(QuantizedCheckpoint *checkpoint) { quantized = checkpoint; }

  void beginFunction(llvm::StringRef name, llvm::ArrayRef<Input> inputs);
  /// Ends the function; one that updates states gets a hash of the model's weights.
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
  mlir::Location location(llvm::StringRef module) const { return nodeLocation(path(module)); }

  //===-- Layers ---------------------------------------------------------------------------------------------===//

  /// Builds nn.linear with `module`.weight [outputs, inputs] and, with `bias`, `module`.bias [outputs].
  mlir::Value linear(mlir::Value input, llvm::StringRef module, Extent outputs, Extent inputs, bool bias = true);
  mlir::Value linear(mlir::Value input, llvm::StringRef module, mlir::Value weight, mlir::Value bias) {
    return ModuleBuilder::linear(location(module), input, weight, bias);
  }
  /// Builds nn.layer_norm with `module`.weight and `module`.bias (TensorFlow's names gamma and beta are found too).
  mlir::Value layerNorm(mlir::Value input, llvm::StringRef module, Extent features, double epsilon);
  mlir::Value rmsNorm(mlir::Value input, llvm::StringRef module, Extent features, double epsilon);
  /// Builds nn.conv over `windows` of images [batch, height, width, inputs] with `module`.weight [outputs, inputs /
  /// groups, height, width] (transposed: [inputs, outputs, height, width]) and, with `bias`, `module`.bias [outputs].
  /// `windowSetting` is what says how large windows are.
  mlir::Value conv(mlir::Value images, llvm::StringRef module, Extent outputs, Extent inputs, const Windows &windows,
                   bool bias = true, llvm::StringRef windowSetting = "");
  /// Builds a normalisation of channels with `module`.weight, .bias, .running_mean and .running_var.
  mlir::Value batchNorm(mlir::Value images, llvm::StringRef module, Extent channels, double epsilon);
  /// Multiplies rows of channels by a convolution of one position, `module`.weight [outputs, inputs, 1, 1] and .bias.
  mlir::Value pointLinear(mlir::Value rows, llvm::StringRef module, Extent outputs, Extent inputs);
  /// Multiplies each channel by the gate of what two convolutions of one position make of the means of all.
  mlir::Value squeezeExcite(mlir::Value images, const SqueezeExcite &modules, Extent channels, Extent reduced);
  mlir::Value embedding(mlir::Value indices, llvm::StringRef module, Extent rows, Extent features);
  /// Applies `layer` `count` times, each in a scope `container` + its number ("encoder.layer.0"). Reports weights of
  /// further layers, which the model would ignore.
  mlir::Value layers(mlir::Value state, llvm::StringRef container, Extent count,
                     llvm::function_ref<mlir::Value(mlir::Value)> layer);

  /// Returns the leading rows of a table [rows, features].
  mlir::Value firstRows(mlir::Value table, llvm::StringRef module, Size rows, int64_t features) {
    return part(location(module), table, {0, 0}, {rows, features}, {rows, features});
  }
  /// Returns features [first, first + count) of a tensor [rows, features].
  mlir::Value features(mlir::Value input, llvm::StringRef module, Size rows, int64_t first, int64_t count) {
    return part(location(module), input, {0, first}, {rows, count}, {rows, count});
  }
  /// Returns rows [count, features] of a tensor [rows, features] by their indices [count].
  mlir::Value rowsAt(mlir::Value input, mlir::Value indices, llvm::StringRef module);
  /// Returns position 0: [batch, sequence, features] → [batch, features].
  mlir::Value firstToken(mlir::Value input, llvm::StringRef module, Size batch, int64_t features) {
    return part(location(module), input, {0, 0, 0}, {batch, 1, features}, {batch, features});
  }

  //===-- Ops of ModuleBuilder, located by module ------------------------------------------------------------===//

  mlir::Value activation(mlir::Value input, llvm::StringRef module, Activation activation) {
    return ModuleBuilder::activation(location(module), input, activation);
  }
  mlir::Value add(mlir::Value lhs, mlir::Value rhs, llvm::StringRef module) {
    return ModuleBuilder::add(location(module), lhs, rhs);
  }
  mlir::Value multiply(mlir::Value lhs, mlir::Value rhs, llvm::StringRef module) {
    return ModuleBuilder::multiply(location(module), lhs, rhs);
  }
  mlir::Value pool(mlir::Value images, llvm::StringRef module, nn::PoolKind kind, const Windows &windows) {
    return ModuleBuilder::pool(location(module), images, kind, windows);
  }
  mlir::Value spatialMean(mlir::Value images, llvm::StringRef module) {
    return ModuleBuilder::spatialMean(location(module), images);
  }
  mlir::Value spatialMaximum(mlir::Value images, llvm::StringRef module) {
    return ModuleBuilder::spatialMaximum(location(module), images);
  }
  mlir::Value scaleChannels(mlir::Value images, mlir::Value factors, llvm::StringRef module) {
    return ModuleBuilder::scaleChannels(location(module), images, factors);
  }
  mlir::Value attention(mlir::Value query, mlir::Value key, mlir::Value value, mlir::Value mask, llvm::StringRef module,
                        const Shape &leading, int64_t heads, int64_t headDim) {
    return ModuleBuilder::attention(location(module), query, key, value, mask, leading, heads, headDim);
  }
  mlir::Value resizeBilinear(mlir::Value images, llvm::StringRef module, const Size &height, const Size &width,
                             bool alignsCorners = false) {
    return ModuleBuilder::resizeBilinear(location(module), images, height, width, alignsCorners);
  }
  mlir::Value expandShape(mlir::Value input, llvm::StringRef module, const Shape &shape,
                          llvm::ArrayRef<mlir::ReassociationIndices> groups) {
    return ModuleBuilder::expandShape(location(module), input, shape, groups);
  }
  mlir::Value collapseShape(mlir::Value input, llvm::StringRef module,
                            llvm::ArrayRef<mlir::ReassociationIndices> groups) {
    return ModuleBuilder::collapseShape(location(module), input, groups);
  }
  mlir::Value transpose(mlir::Value input, llvm::StringRef module, const Shape &shape,
                        llvm::ArrayRef<int64_t> permutation) {
    return ModuleBuilder::transpose(location(module), input, shape, permutation);
  }
  mlir::Value concat(llvm::ArrayRef<mlir::Value> inputs, llvm::StringRef module, int64_t dimension) {
    return ModuleBuilder::concat(location(module), inputs, dimension);
  }
  mlir::Value elementwise(llvm::StringRef module, mlir::Type element, const Shape &shape,
                          llvm::ArrayRef<Operand> inputs, Body body) {
    return ModuleBuilder::elementwise(location(module), element, shape, inputs, body);
  }
  mlir::Value reduce(llvm::StringRef module, mlir::TypedAttr initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                     llvm::ArrayRef<Operand> inputs, Body body) {
    return ModuleBuilder::reduce(location(module), initial, shape, kept, inputs, body);
  }

  mlir::Type getDataType() const { return dataType; }
  mlir::Type getActivationType() const { return activationType; }

private:
  std::string path(llvm::StringRef name) const;
  /// Builds the matrix of a module that the archive holds quantized; null if it does not, or after an error.
  mlir::Value quantizedWeight(llvm::StringRef name, llvm::ArrayRef<Extent> shape);
  mlir::Value dequantized(llvm::StringRef name, const QuantizedMatrix &matrix, llvm::ArrayRef<int64_t> shape);

  const WeightArchive *archive;
  QuantizedCheckpoint *quantized = nullptr;
  mlir::Type dataType, activationType;
  std::string scopePath;
  llvm::StringMap<mlir::Value> quantizedWeights; // by path
};

} // namespace intarsia::importer

#endif
