//===- SentenceTransformers.h - From modules.json to the function embed ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_SENTENCETRANSFORMERS_H
#define INTARSIA_IMPORT_HUGGINGFACE_SENTENCETRANSFORMERS_H

#include "lib/Import/HuggingFace/GraphBuilder.h"
#include "lib/Import/HuggingFace/SafetensorsArchive.h"
#include <vector>

namespace intarsia::importer {

/// The ways to pool token states to one vector, in the order in which sentence-transformers' Pooling concatenates them.
enum class PoolingMode { FirstToken, Maximum, Mean, MeanSqrtLength, WeightedMean, LastToken };

/// The modules of a sentence-transformers directory after its encoder: Pooling, Dense, Normalize, in the order of
/// modules.json. Other modules are refused by name.
class SentencePipeline {
public:
  /// Reads modules.json and the settings and weights of its modules. Reports and returns null on failure.
  static std::unique_ptr<SentencePipeline> read(llvm::StringRef directory, Errors &errors);

  /// Returns the folder of the encoder, relative to the directory: "" or "0_Transformer".
  llvm::StringRef transformerFolder() const { return transformer; }
  /// Returns the archives of the modules behind the encoder.
  llvm::SmallVector<const SafetensorsArchive *> archives() const;
  /// Emits the output `sentence_embedding` [batch, features] from the last hidden state [batch, sequence, features].
  void build(GraphBuilder &graph, mlir::Value hidden, int64_t features) const;
  void addMetadata(mlir::OpBuilder &builder, llvm::SmallVectorImpl<mlir::NamedAttribute> &metadata) const;

private:
  struct Module {
    enum Kind { Pooling, Dense, LayerNorm, Normalize } kind;
    std::string folder;
    llvm::SmallVector<PoolingMode> modes;
    int64_t poolingFeatures = 0;     // 0: not given
    int64_t inputs = 0, outputs = 0; // alike for LayerNorm
    bool bias = true, residual = false;
    Activation activation = Activation::Identity;
    std::unique_ptr<SafetensorsArchive> weights;
  };

  void readPooling(llvm::StringRef directory, Module &module, Errors &errors);
  void readDense(llvm::StringRef directory, Module &module, Errors &errors);
  void readLayerNorm(llvm::StringRef directory, Module &module, Errors &errors);

  std::string transformer;
  std::vector<Module> modules;
  std::optional<int64_t> longestSequence;
};

} // namespace intarsia::importer

#endif
