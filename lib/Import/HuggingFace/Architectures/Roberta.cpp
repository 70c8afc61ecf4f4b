//===- Roberta.cpp - RoBERTa and XLM-RoBERTa ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// arXiv 1907.11692 and 1911.02116: BERT with positions that skip padding, and other heads.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/Bert.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

class Roberta : public Bert {
public:
  Roberta(const Config &config, int64_t vocabularyByDefault, llvm::ArrayRef<ModelClass> modelClasses)
      : Bert(config, vocabularyByDefault), modelClasses(modelClasses), paddingId(config.integer("pad_token_id", 1, 0)) {
    // Rows up to and including the padding id belong to no token: positions start at paddingId + 1.
    longestSequence = positionRows.size - paddingId - 1;
    if (longestSequence < 1) {
      config.report("max_position_embeddings " + llvm::Twine(positionRows.size) +
                    " leaves no position after pad_token_id " + llvm::Twine(paddingId));
      longestSequence = 1;
    }
  }

  llvm::ArrayRef<ModelClass> classes() const override { return modelClasses; }
  llvm::StringRef prefix() const override { return "roberta"; }
  void headOutputs(GraphBuilder &graph, Value state, Head head, llvm::StringRef encoder) override;

protected:
  Value positions(GraphBuilder &graph) const override;

private:
  llvm::ArrayRef<ModelClass> modelClasses;
  int64_t paddingId;
};

/// Returns position[b, i] = paddingId + |{j <= i : id[b, j] is not padding}| if id[b, i] is not padding, else
/// paddingId: transformers' create_position_ids_from_input_ids. Iterates over [batch, i, j], since linalg has no prefix
/// sum.
Value Roberta::positions(GraphBuilder &graph) const {
  OpBuilder &builder = graph.getBuilder();
  Value ids = graph.input("input_ids");
  Value positionIds = graph.reduce(
      "embeddings.position_ids", builder.getI64IntegerAttr(paddingId), {"batch", "sequence", "sequence"}, {0, 1},
      {{ids, {0, 1}}, {ids, {0, 2}}}, [&](OpBuilder &inner, Location at, ValueRange values) -> Value {
        Value padding = arith::ConstantOp::create(inner, at, inner.getI64IntegerAttr(paddingId));
        Value own = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::ne, values[0], padding);
        Value other = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::ne, values[1], padding);
        Value i = linalg::IndexOp::create(inner, at, 1), j = linalg::IndexOp::create(inner, at, 2);
        Value before = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::ule, j, i);
        Value counts = arith::AndIOp::create(inner, at, arith::AndIOp::create(inner, at, own, other), before);
        Value one = arith::ExtUIOp::create(inner, at, inner.getI64Type(), counts);
        return arith::AddIOp::create(inner, at, values[2], one);
      });
  return graph.embedding(positionIds, "embeddings.position_embeddings", positionRows, hidden);
}

void Roberta::headOutputs(GraphBuilder &graph, Value state, Head head, llvm::StringRef encoder) {
  switch (head) {
  case Head::SequenceClassification: {
    Extent count = labels();
    Value first = graph.firstToken(state, "classifier", "batch", hidden.size);
    Value dense = graph.linear(first, "classifier.dense", hidden, hidden);
    Value active = graph.activation(dense, "classifier", Activation::Tanh);
    graph.output(graph.linear(active, "classifier.out_proj", count, hidden), "logits", {"batch", count.size});
    return;
  }
  case Head::MaskedLanguageModel:
    // RobertaLMHead always uses gelu, whatever hidden_act says.
    graph.output(maskedLanguageModel(graph, state, encoder, "lm_head.dense", Activation::GeluErf, "lm_head.layer_norm",
                                     "lm_head.decoder", "lm_head.bias"),
                 "logits", tokens({vocabulary.size}));
    return;
  default:
    Bert::headOutputs(graph, state, head, encoder);
  }
}

} // namespace

std::unique_ptr<Architecture> makeRoberta(const Config &config, const ImportOptions &) {
  static const ModelClass classes[] = {{"RobertaModel", Head::Base},
                                       {"RobertaForSequenceClassification", Head::SequenceClassification},
                                       {"RobertaForTokenClassification", Head::TokenClassification},
                                       {"RobertaForMaskedLM", Head::MaskedLanguageModel}};
  return std::make_unique<Roberta>(config, 50265, classes);
}

std::unique_ptr<Architecture> makeXlmRoberta(const Config &config, const ImportOptions &) {
  static const ModelClass classes[] = {{"XLMRobertaModel", Head::Base},
                                       {"XLMRobertaForSequenceClassification", Head::SequenceClassification},
                                       {"XLMRobertaForTokenClassification", Head::TokenClassification},
                                       {"XLMRobertaForMaskedLM", Head::MaskedLanguageModel}};
  return std::make_unique<Roberta>(config, 30522, classes);
}

} // namespace intarsia::importer
