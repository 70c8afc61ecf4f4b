//===- GraphBuilder.h - Emits IR of the graphs of an ONNX model ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_GRAPHBUILDER_H
#define INTARSIA_IMPORT_ONNX_GRAPHBUILDER_H

#include "lib/Formats/Onnx/OnnxFile.h"
#include "lib/Import/Onnx/GivenInputs.h"
#include "lib/Import/Onnx/GraphValue.h"
#include "lib/Import/Onnx/Refusals.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <tuple>

namespace intarsia::onnx {

/// The tensors of a file by their keys.
class OnnxWeights : public importer::WeightArchive {
public:
  explicit OnnxWeights(const onnx::File &source) : file{source.name(), "weights"} {
    displayName = source.name();
    for (const auto &[key, entry] : source.archived())
      tensors.try_emplace(key, Tensor{&file, &entry});
  }

private:
  importer::WeightArchive::File file;
};

/// Emits the main graph as a function. Ops are built one after the other by the functions of the table of ops
/// (OpTable); what is not imported is refused, and its results with what is computed from them, so that one run finds
/// all that is missing.
class GraphBuilder {
public:
  GraphBuilder(importer::ModuleBuilder &builder, const File &file, const GivenInputs &given, Refusals &refusals);

  void build();

  importer::ModuleBuilder &ir() { return builder; }
  mlir::OpBuilder &ops() { return builder.getBuilder(); }
  mlir::MLIRContext *context() { return ops().getContext(); }
  Refusals &getRefusals() { return refusals; }
  const OnnxWeights &archive() const { return weights; }

  //===-- Values ---------------------------------------------------------------------------------------------===//

  /// Returns a value as a tensor of the IR. Null if its type is none of the IR's.
  mlir::Value tensorOf(mlir::Location at, GraphValue &value);
  /// Returns the elements of a value that import knows; null if it does not.
  const Elements *elementsOf(GraphValue &value);
  /// Returns the sizes of a value, which may be a tensor that no op has read yet.
  Shape shapeOf(mlir::Location at, const GraphValue &value);
  /// Returns the sizes of a tensor in terms of sizes that are known to be equal to others.
  Shape shapeOf(mlir::Location at, mlir::Value tensor);
  /// Remembers the sizes of a tensor.
  void setShape(mlir::Value tensor, const Shape &shape);
  /// How many nodes are refused, and which errors are reported, at some time of the import.
  struct Problems {
    size_t refusals;
    importer::Errors errors;
  };
  Problems problems() const { return {refusals.count(), builder.sink()}; }
  /// Forgets what was refused and reported since then, and what is known of the tensors of a region that is erased.
  void forget(mlir::Region &region, const Problems &before);
  /// Counts elements of folded tensors, so that a file takes no more memory than a limit for them. Returns false if it
  /// is reached: then kernels compute them.
  bool mayFold(uint64_t elements);
  /// Lets calls give no elements along a dimension of a tensor, if it is one of their sizes: the first call of a
  /// decoder has no past.
  void allowEmpty(mlir::Value tensor, unsigned dimension);
  /// True if two sizes are the same number, or the same size of a call.
  bool areEqual(const Size &one, const Size &other) const;

  GraphValue *find(llvm::StringRef name);
  void define(llvm::StringRef name, GraphValue value);

  /// Returns the attribute that a node has, or that the call of its function has for it; null if none.
  const Attribute *resolve(const Attribute *attribute) const;

  //===-- Graphs ---------------------------------------------------------------------------------------------===//

  /// Emits the nodes of a graph where the builder stands. Returns the values of its outputs.
  llvm::SmallVector<GraphValue> buildNested(const Graph &graph, llvm::ArrayRef<GraphValue> inputs);

private:
  void declareInputs(const Graph &graph);
  void buildNodes(llvm::ArrayRef<Node> nodes);
  void buildNode(const Node &node);
  void buildFunction(const Node &node, const Function &function);
  /// Defines the tensors that a graph has, but for those of inputs that the user has set.
  void defineInitializers(const Graph &graph, bool isMain = false);
  int64_t versionOf(llvm::StringRef domain) const;
  bool isMissing(llvm::StringRef name) const;
  void outputs(const Graph &graph);
  mlir::DictionaryAttr metadata();

  importer::ModuleBuilder &builder;
  const File &file;
  const GivenInputs &given;
  Refusals &refusals;
  OnnxWeights weights;
  /// The functions of the model by their domains, names and overloads.
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const Function *> functions;
  unsigned depth = 0;                          ///< of functions and graphs that are being built
  llvm::SetVector<mlir::Attribute> emptySizes; ///< names of sizes that calls may have as 0
  std::vector<llvm::StringMap<GraphValue>> scopes;
  size_t firstScope = 0;                                        ///< outermost one that names are looked for in
  std::vector<std::pair<const Node *, const Function *>> calls; ///< of functions, which are being inlined
  llvm::ArrayRef<OperatorSet> operatorSets;                     ///< of the model, or of the function that is inlined
  llvm::DenseMap<mlir::Value, Shape> shapes;
  uint64_t nodesBuilt = 0;
  uint64_t elementsFolded = 0;
};

} // namespace intarsia::onnx

#endif
