//===- Bert.cpp - BERT -------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Bert.h"

#include "lib/Import/HuggingFace/Architectures/Architectures.h"

using namespace mlir;

namespace intarsia::importer {

static constexpr LayerNames layerNames = {
    .query = "attention.self.query",
    .key = "attention.self.key",
    .value = "attention.self.value",
    .attention = "attention.self",
    .attentionOutput = "attention.output.dense",
    .attentionSum = "attention.output",
    .attentionNorm = "attention.output.LayerNorm",
    .inner = "intermediate.dense",
    .activation = "intermediate",
    .outer = "output.dense",
    .outerSum = "output",
    .outerNorm = "output.LayerNorm",
};

Bert::Bert(const Config &config, int64_t vocabularyByDefault) : TextEncoder(config) {
  refuseCommonSettings(config, QuantizedWeights::Checkpoints);
  std::string positionType = config.string("position_embedding_type", "absolute");
  if (positionType != "absolute")
    config.refuse("position_embedding_type", positionType, {"absolute"});
  vocabulary = config.extent("vocab_size", vocabularyByDefault);
  hidden = config.extent("hidden_size", 768);
  intermediate = config.extent("intermediate_size", 3072);
  positionRows = config.extent("max_position_embeddings", 512);
  tokenTypes = config.extent("type_vocab_size", 2);
  layers = config.extent("num_hidden_layers", 12);
  heads = config.integer("num_attention_heads", 12);
  epsilon = config.number("layer_norm_eps", 1e-12, 0, 1);
  activation = readActivation(config, "hidden_act", "gelu");
  longestSequence = positionRows.size;
  checkHeads("num_attention_heads");
}

llvm::ArrayRef<ModelClass> Bert::classes() const {
  static const ModelClass table[] = {{"BertModel", Head::Base},
                                     {"BertForSequenceClassification", Head::SequenceClassification},
                                     {"BertForTokenClassification", Head::TokenClassification},
                                     {"BertForMaskedLM", Head::MaskedLanguageModel}};
  return table;
}

Value Bert::positions(GraphBuilder &graph) const {
  Value table = graph.weight("embeddings.position_embeddings.weight", {positionRows, hidden});
  return graph.firstRows(table, "embeddings.position_embeddings", "sequence", hidden.size);
}

Value Bert::encode(GraphBuilder &graph) {
  Value mask = attentionMask(graph);
  Value state = embeddings(graph, positions(graph));
  return graph.layers(state, "encoder.layer.", layers,
                      [&](Value input) { return layer(graph, input, mask, layerNames); });
}

Value Bert::pooler(GraphBuilder &graph, Value state) const {
  Value first = graph.firstToken(state, "pooler", "batch", hidden.size);
  return graph.activation(graph.linear(first, "pooler.dense", hidden, hidden), "pooler", Activation::Tanh);
}

void Bert::baseOutputs(GraphBuilder &graph, Value state) {
  // Many encoders are published without the pooler, which only next-sentence prediction trains.
  if (graph.hasWeight("pooler.dense.bias"))
    graph.output(pooler(graph, state), "pooler_output", {"batch", hidden.size});
}

void Bert::headOutputs(GraphBuilder &graph, Value state, Head head, llvm::StringRef encoder) {
  switch (head) {
  case Head::SequenceClassification: {
    Value pooled;
    {
      GraphBuilder::Scope scope(graph, encoder);
      pooled = pooler(graph, state);
    }
    Extent count = labels();
    graph.output(graph.linear(pooled, "classifier", count, hidden), "logits", {"batch", count.size});
    return;
  }
  case Head::TokenClassification: {
    Extent count = labels();
    graph.output(graph.linear(state, "classifier", count, hidden), "logits", tokens({count.size}));
    return;
  }
  case Head::MaskedLanguageModel:
    graph.output(maskedLanguageModel(graph, state, encoder, "cls.predictions.transform.dense", activation,
                                     "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
                                     "cls.predictions.bias"),
                 "logits", tokens({vocabulary.size}));
    return;
  default:
    break;
  }
  llvm_unreachable("not a head of this architecture");
}

std::unique_ptr<Architecture> makeBert(const Config &config, const ImportOptions &) {
  return std::make_unique<Bert>(config);
}

} // namespace intarsia::importer
