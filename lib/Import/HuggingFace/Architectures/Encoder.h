//===- Encoder.h - Models that are called once for their whole input --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_ENCODER_H
#define INTARSIA_IMPORT_HUGGINGFACE_ENCODER_H

#include "lib/Import/HuggingFace/Registry.h"

namespace intarsia::importer {

/// A model that is called once for its whole input: the function "main".
class Encoder : public Architecture {
public:
  void build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) override;
  Encoder *asEncoder() override { return this; }

  virtual llvm::SmallVector<Input> inputs(GraphBuilder &graph) const = 0;
  /// Returns the last hidden state [batch, sequence, features]. The scope of `graph` is the encoder's.
  virtual mlir::Value encode(GraphBuilder &graph) = 0;
  /// Emits the outputs of the base class other than the last hidden state. The scope is the encoder's.
  virtual void baseOutputs(GraphBuilder &graph, mlir::Value hidden) = 0;
  /// Emits the outputs of a class with a head. The scope is the whole model's; `encoder` is the encoder's ("bert" or
  /// "").
  virtual void headOutputs(GraphBuilder &graph, mlir::Value hidden, Head head, llvm::StringRef encoder) = 0;

  virtual Size sequence() const = 0;
  virtual int64_t features() const = 0;
};

} // namespace intarsia::importer

#endif
