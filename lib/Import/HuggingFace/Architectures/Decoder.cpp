//===- Decoder.cpp - Language models that continue a text ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Decoder.h"

using namespace mlir;

namespace intarsia::importer {

Decoder::Decoder(const Config &config, const ImportOptions &options)
    : config(config), cache(options.cacheType.value_or("f16"), config.sink()) {}

llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> Decoder::sizeLimits() const { return {}; }

void Decoder::build(GraphBuilder &graph, const ModelClass &modelClass, llvm::StringRef base, Metadata metadata) {
  OpBuilder &builder = graph.getBuilder();
  Type i64 = builder.getI64Type();
  llvm::SmallVector<Input> inputs;
  inputs.push_back({"input_ids", i64, {"tokens"}, std::nullopt, std::pair<int64_t, int64_t>(0, vocabulary.size)});
  inputs.push_back({"positions", i64, {"tokens"}, std::nullopt, std::pair<int64_t, int64_t>(0, context)});
  inputs.push_back({"sequences", i64, {"tokens"}, std::nullopt, std::nullopt});
  inputs.push_back({"page_table", i64, {"sequences", "pages_of_a_sequence"}, std::nullopt, std::nullopt});
  inputs.push_back({"output_tokens", i64, {"outputs"}, std::nullopt, std::nullopt});
  cache.declare(inputs, builder, layers.size, keyValueHeads, headDim, config.sink());
  graph.beginFunction("step", inputs);
  cache.begin(graph);

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
  cache.end(graph);
  graph.endFunction(sizeLimits(), metadata(builder));
}

Value Decoder::cachedAttention(GraphBuilder &graph, Value query, Value key, Value value, int64_t number,
                               int64_t window) {
  return cache.attend(graph, query, key, value, number, scale, window);
}

} // namespace intarsia::importer
