//===- DistilBert.cpp - DistilBERT -------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// arXiv 1910.01108: BERT without token types and pooler.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/TextEncoder.h"

using namespace mlir;

namespace intarsia::importer {
namespace {

constexpr LayerNames layerNames = {
    .query = "attention.q_lin",
    .key = "attention.k_lin",
    .value = "attention.v_lin",
    .attention = "attention",
    .attentionOutput = "attention.out_lin",
    .attentionSum = "sa_layer_norm",
    .attentionNorm = "sa_layer_norm",
    .inner = "ffn.lin1",
    .activation = "ffn.activation",
    .outer = "ffn.lin2",
    .outerSum = "output_layer_norm",
    .outerNorm = "output_layer_norm",
};

class DistilBert : public TextEncoder {
public:
  explicit DistilBert(const Config &config) : TextEncoder(config) {
    refuseCommonSettings(config, QuantizedWeights::Checkpoints);
    vocabulary = config.extent("vocab_size", 30522);
    hidden = config.extent(config.spelling("dim", "hidden_size"), 768);
    intermediate = config.extent("hidden_dim", 3072);
    // With sinusoidal_pos_embds the table is computed once and stored like a trained one.
    positionRows = config.extent("max_position_embeddings", 512);
    layers = config.extent(config.spelling("n_layers", "num_hidden_layers"), 6);
    heads = config.integer(config.spelling("n_heads", "num_attention_heads"), 12);
    activation = readActivation(config, "activation", "gelu");
    longestSequence = positionRows.size;
    checkHeads("n_heads");
  }

  llvm::ArrayRef<ModelClass> classes() const override {
    static const ModelClass table[] = {{"DistilBertModel", Head::Base},
                                       {"DistilBertForSequenceClassification", Head::SequenceClassification},
                                       {"DistilBertForTokenClassification", Head::TokenClassification},
                                       {"DistilBertForMaskedLM", Head::MaskedLanguageModel}};
    return table;
  }
  llvm::StringRef prefix() const override { return "distilbert"; }
  llvm::StringRef anchor() const override { return "embeddings.word_embeddings.weight"; }

  Value encode(GraphBuilder &graph) override {
    Value mask = attentionMask(graph);
    Value table = graph.weight("embeddings.position_embeddings.weight", {positionRows, hidden});
    Value rows = graph.firstRows(table, "embeddings.position_embeddings", "sequence", hidden.size);
    Value state = embeddings(graph, rows);
    return graph.layers(state, "transformer.layer.", layers,
                        [&](Value input) { return layer(graph, input, mask, layerNames); });
  }

  void baseOutputs(GraphBuilder &, Value) override {}

  void headOutputs(GraphBuilder &graph, Value state, Head head, llvm::StringRef encoder) override {
    switch (head) {
    case Head::SequenceClassification: {
      Extent count = labels();
      Value first = graph.firstToken(state, "pre_classifier", "batch", hidden.size);
      Value dense = graph.linear(first, "pre_classifier", hidden, hidden);
      Value active = graph.activation(dense, "pre_classifier", Activation::Relu);
      graph.output(graph.linear(active, "classifier", count, hidden), "logits", {"batch", count.size});
      return;
    }
    case Head::TokenClassification: {
      Extent count = labels();
      graph.output(graph.linear(state, "classifier", count, hidden), "logits", tokens({count.size}));
      return;
    }
    case Head::MaskedLanguageModel:
      graph.output(maskedLanguageModel(graph, state, encoder, "vocab_transform", activation, "vocab_layer_norm",
                                       "vocab_projector", "vocab_projector.bias"),
                   "logits", tokens({vocabulary.size}));
      return;
    default:
      break;
    }
    llvm_unreachable("not a head of this architecture");
  }
};

} // namespace

std::unique_ptr<Architecture> makeDistilBert(const Config &config, const ImportOptions &) {
  return std::make_unique<DistilBert>(config);
}

} // namespace intarsia::importer
