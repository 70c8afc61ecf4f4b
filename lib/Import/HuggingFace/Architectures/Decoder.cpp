//===- Decoder.cpp - Language models that continue a text ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Decoder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {

Decoder::Decoder(const Config &config, const ImportOptions &options) : config(config), contextAsked(options.context) {}

llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> Decoder::sizeLimits() const { return {}; }

Extent Decoder::readLayers(llvm::StringRef setting, int64_t byDefault) const {
  constexpr int64_t most = 1 << 14; // limits the work: state is named layer by layer before any weight is looked up
  return Extent(config.integer(setting, byDefault, 1, most), setting);
}

int64_t Decoder::readContext(llvm::StringRef setting, int64_t maximum, int64_t byDefault) {
  if (!contextAsked)
    return byDefault;
  if (*contextAsked < 1 || *contextAsked > maximum) {
    config.sink().report("--context=" + llvm::Twine(*contextAsked) + ": " + config.name() + " says that " + setting +
                         " is " + llvm::Twine(maximum) + "; ask for 1 to " + llvm::Twine(maximum) + " tokens");
    return byDefault;
  }
  return *contextAsked;
}

std::vector<bool> Decoder::readSlidingLayers(const Config &config, llvm::function_ref<bool(int64_t)> byDefault) const {
  std::vector<bool> result;
  if (!config.has("layer_types")) {
    for (int64_t i = 0; i < layers.size; ++i)
      result.push_back(byDefault(i));
    return result;
  }
  for (const std::string &type : config.strings("layer_types")) {
    if (type != "full_attention" && type != "sliding_attention")
      config.refuse("layer_types", type, {"full_attention", "sliding_attention"});
    result.push_back(type == "sliding_attention");
  }
  if (static_cast<int64_t>(result.size()) != layers.size)
    config.report("layer_types names " + llvm::Twine(result.size()) + " layers, " + layers.setting + " is " +
                  llvm::Twine(layers.size));
  result.resize(layers.size);
  return result;
}

void Decoder::build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) {
  OpBuilder &builder = graph.getBuilder();
  Type i64 = builder.getI64Type();
  llvm::SmallVector<Input> inputs;
  inputs.push_back({"input_ids", i64, {"tokens"}, std::nullopt, std::pair<int64_t, int64_t>(0, vocabulary.size)});
  inputs.push_back({"positions", i64, {"tokens"}, std::nullopt, std::pair<int64_t, int64_t>(0, context)});
  inputs.push_back({"sequences", i64, {"tokens"}, std::nullopt, std::nullopt});
  inputs.push_back({"page_table", i64, {"sequences", "pages_of_a_sequence"}, std::nullopt, std::nullopt});
  inputs.push_back({"output_tokens", i64, {"outputs"}, std::nullopt, std::nullopt});
  cache.declare(inputs, builder, layers.size, keyValueHeads, headDim);
  graph.beginFunction("step", inputs);
  cache.begin(graph);

  Value last;
  {
    GraphBuilder::Scope scope(graph, base);
    int64_t number = 0;
    Value state = graph.layers(embed(graph), layerContainer(), layers,
                               [&](Value input) { return layer(graph, input, number++); });
    // Rows are picked before the final norm: only these need it and the matmul with the vocabulary.
    Value chosen = graph.rowsAt(state, graph.input("output_tokens"), finalNormName());
    last = finalNorm(graph, chosen);
  }
  graph.output(logits(graph, last, base), "logits", {"outputs", vocabulary.size});
  cache.end(graph);
  graph.endFunction(sizeLimits(), metadata(builder));
}

Value Decoder::cachedAttention(GraphBuilder &graph, Value query, Value key, Value value, int64_t number, int64_t window,
                               double softCap, Value sinks) {
  return cache.attend(graph, query, key, value, number, scale, window, softCap, sinks);
}

Value Decoder::rotate(GraphBuilder &graph, Value input, const RotaryFrequencies &rotary) const {
  OpBuilder &builder = graph.getBuilder();
  Location at = graph.location("rotary_emb");
  auto type = RankedTensorType::get({static_cast<int64_t>(rotary.frequencies.size())}, builder.getF32Type());
  Value frequencies =
      arith::ConstantOp::create(builder, at, DenseElementsAttr::get(type, llvm::ArrayRef<float>(rotary.frequencies)));
  return nn::RopeOp::create(builder, at, input.getType(), input, graph.input("positions"), frequencies,
                            rotary.interleaved, llvm::APFloat(rotary.attentionFactor));
}

Value Decoder::languageModelHead(GraphBuilder &graph, Value hiddenState, llvm::StringRef base, llvm::StringRef table,
                                 bool tied) const {
  // If an archive has two weights that differ, they are not tied, whatever the setting says; transformers' tie_weights
  // does the same.
  std::string embedding = (base.empty() ? table : base + "." + table).str() + ".weight";
  if (tied && graph.differ("lm_head.weight", embedding)) {
    emitRemark(graph.location("lm_head")) << "tie_word_embeddings is set, but 'lm_head.weight' is not equal to '"
                                          << embedding << "': each is used as it is stored";
    tied = false;
  }
  if (!tied)
    return graph.linear(hiddenState, "lm_head", vocabulary, hidden, /*bias=*/false);
  Value weight;
  {
    GraphBuilder::Scope scope(graph, base);
    weight = graph.weight((table + ".weight").str(), {vocabulary, hidden});
  }
  return graph.linear(hiddenState, "lm_head", weight, Value());
}

} // namespace intarsia::importer
