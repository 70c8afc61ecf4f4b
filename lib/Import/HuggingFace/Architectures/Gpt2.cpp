//===- Gpt2.cpp - GPT-2 -------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/Decoder.h"

#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

/// Embeddings of tokens and of learned positions, layers of layer norm, attention, layer norm and feed-forward, each
/// with a residual ("Language Models are Unsupervised Multitask Learners", section 2.3).
class Gpt2 : public Decoder {
public:
  Gpt2(const Config &config, const ImportOptions &options) : Decoder(config, options) {
    refuseCommonSettings(config);
    vocabulary = config.extent("vocab_size", 50257);
    hidden = config.extent(config.spelling("n_embd", "hidden_size"), 768);
    layers = readLayers(config.spelling("n_layer", "num_hidden_layers"), 12);
    heads = keyValueHeads = config.integer(config.spelling("n_head", "num_attention_heads"), 12);
    if (hidden.size % heads != 0)
      config.report("n_embd " + llvm::Twine(hidden.size) + " is not a multiple of n_head " + llvm::Twine(heads));
    headDim = std::max<int64_t>(hidden.size / heads, 1);
    intermediate = config.extent("n_inner", 4 * hidden.size);
    positions = config.extent(config.spelling("n_positions", "max_position_embeddings"), 1024);
    context = readContext(positions.setting, positions.size, positions.size);
    epsilon = config.number("layer_norm_epsilon", 1e-5, 0.0, 1.0);
    activation = readActivation(config, "activation_function", "gelu_new");
    tied = config.flag("tie_word_embeddings", true);
    linearWeights = config.flag("linear_weights", false);
    scaledByHeadDim = config.flag("scale_attn_weights", true);
    scaledByLayer = config.flag("scale_attn_by_inverse_layer_idx", false);
  }

  llvm::ArrayRef<ModelClass> classes() const override { return classTable; }
  llvm::StringRef prefix() const override { return "transformer"; }
  llvm::StringRef anchor() const override { return "wte.weight"; }

protected:
  llvm::StringRef layerContainer() const override { return "h."; }
  llvm::StringRef finalNormName() const override { return "ln_f"; }

  Value embed(GraphBuilder &graph) const override {
    Value tokens = graph.embedding(graph.input("input_ids"), "wte", vocabulary, hidden);
    return graph.add(tokens, graph.embedding(graph.input("positions"), "wpe", positions, hidden), "wpe");
  }

  Value finalNorm(GraphBuilder &graph, Value input) const override {
    return graph.layerNorm(input, "ln_f", hidden, epsilon);
  }

  Value logits(GraphBuilder &graph, Value state, llvm::StringRef base) const override {
    return languageModelHead(graph, state, base, "wte", tied);
  }

  Value layer(GraphBuilder &graph, Value input, int64_t number) override {
    Value normal = graph.layerNorm(input, "ln_1", hidden, epsilon);
    Value attended = graph.add(input, attention(graph, normal, number), "attn");
    normal = graph.layerNorm(attended, "ln_2", hidden, epsilon);
    GraphBuilder::Scope scope(graph, "mlp");
    Value inner = graph.activation(convolution(graph, normal, "c_fc", intermediate, hidden), "act", activation);
    return graph.add(attended, convolution(graph, inner, "c_proj", hidden, intermediate), "");
  }

private:
  Value attention(GraphBuilder &graph, Value input, int64_t number) {
    GraphBuilder::Scope scope(graph, "attn");
    Value all = convolution(graph, input, "c_attn", Extent(3 * hidden.size, hidden.setting), hidden);
    auto part = [&](int64_t index) {
      Value rows = graph.features(all, "c_attn", "tokens", index * hidden.size, hidden.size);
      return graph.expandShape(rows, "c_attn", {"tokens", heads, headDim}, {{0}, {1, 2}});
    };
    scale = (scaledByHeadDim ? 1.0 / std::sqrt(static_cast<double>(headDim)) : 1.0) /
            (scaledByLayer ? static_cast<double>(number + 1) : 1.0);
    Value query = part(0), key = part(1), value = part(2);
    Value seen = cachedAttention(graph, query, key, value, number, /*window=*/0);
    return convolution(graph, graph.collapseShape(seen, "", {{0}, {1, 2}}), "c_proj", hidden, hidden);
  }

  /// Builds a Conv1D of transformers: a linear whose weight is stored as [inputs, outputs], except in GGUF files.
  Value convolution(GraphBuilder &graph, Value input, llvm::StringRef module, Extent outputs, Extent inputs) const {
    if (linearWeights)
      return graph.linear(input, module, outputs, inputs);
    Value weight = graph.weight((module + ".weight").str(), {inputs, outputs});
    Value bias = graph.weight((module + ".bias").str(), {outputs});
    return graph.linear(input, module, graph.transpose(weight, module, {outputs.size, inputs.size}, {1, 0}), bias);
  }

  ModelClass classTable[1] = {{"GPT2LMHeadModel", Head::CausalLanguageModel}};
  Extent positions = 1;
  double epsilon = 1e-5;
  Activation activation = Activation::GeluTanh;
  bool tied = true, linearWeights = false, scaledByHeadDim = true, scaledByLayer = false;
};

} // namespace

std::unique_ptr<Architecture> makeGpt2(const Config &config, const ImportOptions &options) {
  return std::make_unique<Gpt2>(config, options);
}

} // namespace intarsia::importer
