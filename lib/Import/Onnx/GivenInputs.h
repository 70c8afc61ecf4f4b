//===- GivenInputs.h - What the user says of the inputs of an ONNX model ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_GIVENINPUTS_H
#define INTARSIA_IMPORT_ONNX_GIVENINPUTS_H

#include "intarsia/Import/Import.h"
#include "lib/Import/Onnx/GraphValue.h"
#include "lib/Support/File.h"
#include <deque>

namespace intarsia::onnx {

/// The inputs of a graph with what `--shape` and `--set` say of them: shapes with other sizes, and inputs that are
/// constants. A size that has a name is one size, so that what is said of it by one input holds for all.
class GivenInputs {
public:
  /// Reports an input that the graph does not have, and what contradicts its type.
  GivenInputs(const importer::ImportOptions &options, const Graph &graph, importer::Errors &errors);
  GivenInputs(const GivenInputs &) = delete;
  GivenInputs &operator=(const GivenInputs &) = delete;

  /// Returns the type of an input of the graph.
  ValueType typeOf(const ValueInfo &input) const;
  /// Returns the value of an input that is a constant; null if the call gives it.
  const GraphValue *valueOf(llvm::StringRef input) const;

private:
  struct Shape {
    const ValueInfo *input;
    std::vector<ValueType::Dimension> dims;
    std::string text;
  };

  const ValueInfo *find(llvm::StringRef text, llvm::StringRef option, llvm::StringRef &rest);
  void parseShape(llvm::StringRef text);
  void nameSizes(const Shape &shape);
  void fixSizes(const ValueInfo &input, llvm::ArrayRef<ValueType::Dimension> dims, const llvm::Twine &option);
  void setValue(llvm::StringRef text);
  std::optional<Elements> parseElements(const ValueInfo &input, llvm::StringRef text, const llvm::Twine &option);
  bool readArray(const ValueInfo &input, llvm::StringRef path, const llvm::Twine &option, GraphValue &value);
  std::string_view keep(llvm::StringRef text);

  const Graph &graph;
  importer::Errors &errors;
  std::deque<std::string> texts;                 ///< names that dimensions refer to
  std::deque<Shape> shapes;                      ///< of --shape
  llvm::StringMap<std::string_view> renamed;     ///< names of sizes in the file, and those that they get
  llvm::StringMap<int64_t> fixed;                ///< sizes that are numbers, by the names that they got
  llvm::StringMap<const Shape *> shapeOf;        ///< by inputs
  llvm::StringMap<GraphValue> values;            ///< of --set
  std::deque<Tensor> tensors;                    ///< those of them that were read from files
  std::deque<std::unique_ptr<MappedFile>> files; ///< that these lie in
};

} // namespace intarsia::onnx

#endif
