//===- Bert.h - BERT and what derives from it --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_BERT_H
#define INTARSIA_IMPORT_HUGGINGFACE_BERT_H

#include "lib/Import/HuggingFace/Architectures/TextEncoder.h"

namespace intarsia::importer {

/// BERT, arXiv 1810.04805. RoBERTa overrides positions and heads.
class Bert : public TextEncoder {
public:
  explicit Bert(const Config &config, int64_t vocabularyByDefault = 30522);

  llvm::ArrayRef<ModelClass> classes() const override;
  llvm::StringRef prefix() const override { return "bert"; }
  llvm::StringRef anchor() const override { return "embeddings.word_embeddings.weight"; }
  mlir::Value encode(GraphBuilder &graph) override;
  void baseOutputs(GraphBuilder &graph, mlir::Value hidden) override;
  void headOutputs(GraphBuilder &graph, mlir::Value hidden, Head head, llvm::StringRef encoder) override;

protected:
  /// Returns position embeddings: [sequence, features] or [batch, sequence, features]. The scope is the encoder's.
  virtual mlir::Value positions(GraphBuilder &graph) const;

  /// Returns tanh(dense(first token)), the "pooler".
  mlir::Value pooler(GraphBuilder &graph, mlir::Value hidden) const;
};

} // namespace intarsia::importer

#endif
