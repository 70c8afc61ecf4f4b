//===- Decoder.cpp - Language models that continue a text ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Decoder.h"

using namespace mlir;

namespace intarsia::importer {

/// Tokens of a page: one panel of the CPU target's products.
static constexpr int64_t pageTokens = 32;

Decoder::Decoder(const Config &config, const ImportOptions &options)
    : config(config), cacheType(options.cacheType.value_or("f16")) {
  if (cacheType != "f32" && cacheType != "f16" && cacheType != "bf16")
    config.sink().report("--kv=" + cacheType + ": caches can be f32, f16 and bf16");
}

llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> Decoder::sizeLimits() const { return {}; }

void Decoder::build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) {
  OpBuilder &builder = graph.getBuilder();
  Type i64 = builder.getI64Type();
  Type cached = cacheType == "f32"   ? Type(builder.getF32Type())
                : cacheType == "f16" ? Type(builder.getF16Type())
                                     : Type(builder.getBF16Type());
  llvm::SmallVector<std::string> names;
  for (int64_t i = 0; i < layers.size; ++i) {
    names.push_back("cache." + std::to_string(i) + ".keys");
    names.push_back("cache." + std::to_string(i) + ".values");
  }
  llvm::SmallVector<Input> inputs;
  inputs.push_back({"input_ids", i64, {"tokens"}, std::nullopt, std::pair<int64_t, int64_t>(0, vocabulary.size)});
  inputs.push_back({"positions", i64, {"tokens"}, std::nullopt, std::pair<int64_t, int64_t>(0, context)});
  inputs.push_back({"sequences", i64, {"tokens"}, std::nullopt, std::nullopt});
  inputs.push_back({"page_table", i64, {"sequences", "pages_of_a_sequence"}, std::nullopt, std::nullopt});
  inputs.push_back({"output_tokens", i64, {"outputs"}, std::nullopt, std::nullopt});
  for (int64_t i = 0; i < layers.size; ++i) {
    inputs.push_back(
        {names[2 * i], cached, {"pages", keyValueHeads, headDim, pageTokens}, std::nullopt, std::nullopt, true});
    inputs.push_back(
        {names[2 * i + 1], cached, {"pages", keyValueHeads, pageTokens, headDim}, std::nullopt, std::nullopt, true});
  }
  graph.beginFunction("step", inputs);
  for (int64_t i = 0; i < layers.size; ++i)
    caches.emplace_back(graph.input(names[2 * i]), graph.input(names[2 * i + 1]));

  Value last;
  {
    GraphBuilder::Scope scope(graph, base);
    int64_t number = 0;
    Value state =
        graph.layers(embed(graph), "layers.", layers, [&](Value input) { return layer(graph, input, number++); });
    // Rows are picked before the final norm: it and the product with the vocabulary are for those alone.
    Value chosen = graph.rowsAt(state, graph.input("output_tokens"), "norm", "outputs");
    last = finalNorm(graph, chosen);
  }
  graph.output(logits(graph, last, base), "logits", {"outputs", vocabulary.size});
  for (int64_t i = 0; i < layers.size; ++i) {
    graph.outputState(caches[i].first, names[2 * i]);
    graph.outputState(caches[i].second, names[2 * i + 1]);
  }
  graph.endFunction(sizeLimits(), metadata(builder));
}

Value Decoder::cachedAttention(GraphBuilder &graph, Value query, Value key, Value value, int64_t number, int64_t window,
                               Value sinks) {
  OpBuilder &builder = graph.getBuilder();
  Location at = graph.location("");
  Value positions = graph.input("positions"), sequences = graph.input("sequences"), pages = graph.input("page_table");
  auto &[keys, values] = caches[number];
  keys = nn::CacheAppendOp::create(builder, at, keys.getType(), keys, key, positions, sequences, pages, true);
  values = nn::CacheAppendOp::create(builder, at, values.getType(), values, value, positions, sequences, pages, false);
  return nn::CachedAttentionOp::create(builder, at, query.getType(), query, keys, values, positions, sequences, pages,
                                       sinks, builder.getF32FloatAttr(scale),
                                       window ? builder.getI64IntegerAttr(window) : IntegerAttr(), FloatAttr());
}

} // namespace intarsia::importer
