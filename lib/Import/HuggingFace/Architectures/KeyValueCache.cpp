//===- KeyValueCache.cpp - State that attention of a decoder reads ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/KeyValueCache.h"

using namespace mlir;

namespace intarsia::importer {

/// Returns the format of a cache whose elements and pages other phases choose.
static nn::CacheFormatAttr formatOf(Builder builder, nn::CacheKind kind) {
  return nn::CacheFormatAttr::get(builder.getContext(), kind, /*decidedElement=*/Type(), /*page=*/0,
                                  /*transposed=*/false, /*unrotated=*/false);
}

void KeyValueCache::declare(llvm::SmallVectorImpl<Input> &inputs, OpBuilder &builder, int64_t count, int64_t heads,
                            int64_t headDim) {
  layers.resize(count);
  for (auto [number, layer] : llvm::enumerate(layers))
    for (auto [state, name] : {std::pair(&layer.keys, ".keys"), std::pair(&layer.values, ".values")}) {
      state->name = "cache." + std::to_string(number) + name;
      inputs.push_back({state->name,
                        builder.getF32Type(),
                        {"pages", heads, "tokens_of_a_page", headDim},
                        std::nullopt,
                        std::nullopt,
                        true});
    }
}

void KeyValueCache::begin(GraphBuilder &graph) {
  for (Layer &layer : layers)
    for (State *state : {&layer.keys, &layer.values})
      state->value = graph.input(state->name);
}

void KeyValueCache::end(GraphBuilder &graph) {
  for (Layer &layer : layers)
    for (State *state : {&layer.keys, &layer.values})
      graph.outputState(state->value, state->name);
}

Value KeyValueCache::attend(GraphBuilder &graph, Value query, Value key, Value value, int64_t number, double scale,
                            int64_t window, double softCap, Value sinks) {
  OpBuilder &builder = graph.getBuilder();
  Location at = graph.location("");
  Value positions = graph.input("positions"), sequences = graph.input("sequences"), pages = graph.input("page_table");
  nn::CacheFormatAttr keyFormat = formatOf(builder, nn::CacheKind::Keys);
  nn::CacheFormatAttr valueFormat = formatOf(builder, nn::CacheKind::Values);
  Layer &layer = layers[number];
  auto append = [&](Value &cache, Value rows, nn::CacheFormatAttr format) {
    cache = nn::CacheAppendOp::create(builder, at, cache.getType(), cache, rows, positions, sequences, pages,
                                      /*frequencies=*/Value(), format)
                .getNewCache()[0];
  };
  append(layer.keys.value, key, keyFormat);
  append(layer.values.value, value, valueFormat);
  return nn::CachedAttentionOp::create(builder, at, query.getType(), query, layer.keys.value, layer.values.value,
                                       positions, sequences, pages, /*rows=*/Value(), sinks, /*frequencies=*/Value(),
                                       keyFormat, valueFormat, builder.getF32FloatAttr(scale),
                                       window ? builder.getI64IntegerAttr(window) : IntegerAttr(),
                                       softCap != 0.0 ? builder.getF32FloatAttr(softCap) : FloatAttr(),
                                       /*precision=*/TypeAttr(), /*interleaved=*/UnitAttr());
}

} // namespace intarsia::importer
