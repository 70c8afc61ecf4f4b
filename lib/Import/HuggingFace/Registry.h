//===- Registry.h - Model types and their architectures ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_REGISTRY_H
#define INTARSIA_IMPORT_HUGGINGFACE_REGISTRY_H

#include "intarsia/Import/Import.h"
#include "lib/Import/HuggingFace/GraphBuilder.h"
#include <memory>

namespace intarsia::importer {

/// The part that a model class adds to the base model.
enum class Head {
  Base,
  SequenceClassification,
  TokenClassification,
  MaskedLanguageModel,
  ImageClassification,
  SemanticSegmentation,
  DepthEstimation,
  CausalLanguageModel
};

/// A class of transformers as config.json's "architectures" names it.
struct ModelClass {
  llvm::StringRef name;
  Head head;
};

class Encoder;

/// The import of one model type. An object belongs to one model; its constructor reads the settings.
class Architecture {
public:
  /// Makes the metadata of a function of this model in the manifest.
  using Metadata = llvm::function_ref<mlir::DictionaryAttr(mlir::OpBuilder &)>;

  virtual ~Architecture() = default;

  /// Returns the classes; a directory that names no class is opened as the first.
  virtual llvm::ArrayRef<ModelClass> classes() const = 0;
  /// Returns the prefix of the base model's weights in the archive of a class with a head: "bert".
  virtual llvm::StringRef prefix() const = 0;
  /// Returns all prefixes, if several are in use; the first that the archive has counts.
  virtual llvm::SmallVector<llvm::StringRef> prefixes() const { return {prefix()}; }
  /// Returns a weight that every model of this type has, without prefix; it decides prefix and data type.
  virtual llvm::StringRef anchor() const = 0;
  virtual llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> sizeLimits() const = 0;
  /// Emits the model's functions. The scope of `graph` is the whole model's; `base` is the base model's ("bert" or "").
  virtual void build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) = 0;
  virtual Encoder *asEncoder() { return nullptr; }
  /// Returns remarks about the import for the user.
  llvm::ArrayRef<std::string> remarks() const { return remarkTexts; }

protected:
  llvm::SmallVector<std::string> remarkTexts;
};

struct RegisteredArchitecture {
  llvm::StringRef modelType;
  std::unique_ptr<Architecture> (*make)(const Config &config, const ImportOptions &options);
};

/// Returns all architectures, sorted by model type.
llvm::ArrayRef<RegisteredArchitecture> registeredArchitectures();

/// Returns the values of "model_type" in config.json that are imported, sorted.
std::vector<std::string> knownModelTypes();

/// Returns "id2label" in the order of ids, or LABEL_0 … for "num_labels" (2 if it is absent), as transformers does.
llvm::SmallVector<std::string> readLabels(const Config &config);

/// The quantized weights ("quantization_config") that an architecture imports: none, experts in MXFP4, or those of any
/// QuantizedCheckpoint.
enum class QuantizedWeights { None, Mxfp4Experts, Checkpoints };

/// Refuses settings that no architecture implements and that would change results.
void refuseCommonSettings(const Config &config, QuantizedWeights quantized = QuantizedWeights::None);

} // namespace intarsia::importer

#endif
