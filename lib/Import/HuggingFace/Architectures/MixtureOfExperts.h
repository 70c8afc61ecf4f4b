//===- MixtureOfExperts.h - Feed-forward layers of which a router chooses some for each token ---------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_MIXTUREOFEXPERTS_H
#define INTARSIA_IMPORT_HUGGINGFACE_MIXTUREOFEXPERTS_H

#include "lib/Import/HuggingFace/GraphBuilder.h"

namespace intarsia::importer {

/// The ways in which models name and store a mixture of experts.
enum class ExpertStorage { Mixtral, Qwen3Moe, GptOss };

/// The mixture of experts that replaces the feed-forward part of some layers.
class MixtureOfExperts {
public:
  MixtureOfExperts(const Config &config, ExpertStorage storage, Extent hidden);

  /// Returns true if a layer has experts; the others have an ordinary feed-forward part.
  bool isIn(int64_t layer) const;
  /// Builds the part: [tokens, hidden] → [tokens, hidden]. The scope is the layer's.
  mlir::Value build(GraphBuilder &graph, mlir::Value input) const;

private:
  struct Weights {
    mlir::Value gateUp, down, gateUpBias, downBias;
  };
  Weights concatenatedWeights(GraphBuilder &graph, llvm::StringRef gate, llvm::StringRef up,
                              llvm::StringRef down) const;
  Weights gptOssWeights(GraphBuilder &graph) const;
  mlir::Value weightOfEach(GraphBuilder &graph, llvm::ArrayRef<llvm::StringRef> names, Extent outputs, Extent inputs,
                           const Shape &shape) const;

  ExpertStorage storage;
  Extent hidden, intermediate = 1, experts = 1;
  int64_t chosen = 1, step = 1;
  llvm::SmallVector<int64_t> denseLayers;
  bool normalize = true;
  double alpha = 1.702, limit = 7.0;
};

} // namespace intarsia::importer

#endif
