//===- KeyValueCache.cpp - State that attention of a decoder reads ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/KeyValueCache.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace intarsia::importer {

/// Tokens of a page: one panel of the CPU target's products.
static constexpr int64_t pageTokens = 32;

KeyValueCache::KeyValueCache(llvm::StringRef kind, Errors &errors) : kind(kind) {
  constexpr llvm::StringLiteral known[] = {"f32", "f16", "bf16", "fp8", "int8", "int4"};
  if (!llvm::is_contained(known, kind))
    errors.report("--kv=" + kind + ": caches can be f32, f16, bf16, fp8, int8 and int4");
  codeBits = kind == "int8" ? 8 : kind == "int4" ? 4 : 0;
}

void KeyValueCache::declare(llvm::SmallVectorImpl<Input> &inputs, OpBuilder &builder, int64_t count, int64_t heads,
                            int64_t headDim, Errors &errors) {
  if (codeBits == 4 && headDim % 32 != 0) {
    errors.report("--kv=int4: heads of " + llvm::Twine(headDim) +
                  " features are no multiple of 32, which 4-bit codes come in; try --kv=int8");
    codeBits = 8;
  }
  Type element = llvm::StringSwitch<Type>(kind)
                     .Case("f32", builder.getF32Type())
                     .Case("f16", builder.getF16Type())
                     .Case("bf16", builder.getBF16Type())
                     .Default(builder.getI8Type());
  auto stored = [&](int64_t elements) { return codeBits ? elements * codeBits / 8 : elements; };
  layers.resize(count);
  for (auto [number, layer] : llvm::enumerate(layers)) {
    auto declareState = [&](State &state, llvm::StringRef name, Type type, Shape shape) {
      state.name = ("cache." + llvm::Twine(number) + "." + name).str();
      states.push_back(&state);
      inputs.push_back({state.name, type, std::move(shape), std::nullopt, std::nullopt, true});
    };
    declareState(layer.keys, "keys", element, {"pages", heads, headDim, stored(pageTokens)});
    declareState(layer.values, "values", element, {"pages", heads, pageTokens, stored(headDim)});
    if (!codeBits)
      continue;
    declareState(layer.keyParameters, "key_parameters", element, {"pages", heads, 2, headDim});
    declareState(layer.valueParameters, "value_parameters", element, {"pages", heads, 2, pageTokens});
    declareState(layer.keyTail, "key_tail", builder.getF16Type(), {"sequences", heads, headDim, pageTokens});
  }
}

void KeyValueCache::begin(GraphBuilder &graph) {
  for (State *state : states)
    state->value = graph.input(state->name);
}

void KeyValueCache::end(GraphBuilder &graph) {
  for (State *state : states)
    graph.outputState(state->value, state->name);
}

Value KeyValueCache::attend(GraphBuilder &graph, Value query, Value key, Value value, int64_t number, double scale,
                            int64_t window, double softCap, Value sinks) {
  OpBuilder &builder = graph.getBuilder();
  Location at = graph.location("");
  Value positions = graph.input("positions"), sequences = graph.input("sequences"), pages = graph.input("page_table");
  Layer &layer = layers[number];
  if (codeBits) {
    auto append = [&](Value &codes, Value &parameters, Value rows, Value tail) {
      auto op = nn::CacheAppendQuantizedOp::create(builder, at, TypeRange{codes.getType(), parameters.getType()}, codes,
                                                   parameters, rows, positions, sequences, pages, tail);
      codes = op.getNewCodes();
      parameters = op.getNewParameters();
    };
    append(layer.keys.value, layer.keyParameters.value, key, layer.keyTail.value);
    append(layer.values.value, layer.valueParameters.value, value, Value());
  } else {
    auto append = [&](Value &cache, Value rows, bool transposed) {
      cache =
          nn::CacheAppendOp::create(builder, at, cache.getType(), cache, rows, positions, sequences, pages, transposed);
    };
    append(layer.keys.value, key, true);
    append(layer.values.value, value, false);
  }
  Value attended = nn::CachedAttentionOp::create(
      builder, at, query.getType(), query, layer.keys.value, layer.values.value, positions, sequences, pages, sinks,
      layer.keyParameters.value, layer.valueParameters.value, codeBits ? key : Value(), layer.keyTail.value,
      builder.getF32FloatAttr(scale), window ? builder.getI64IntegerAttr(window) : IntegerAttr(),
      softCap != 0.0 ? builder.getF32FloatAttr(softCap) : FloatAttr());
  if (codeBits)
    layer.keyTail.value = nn::TailAppendOp::create(builder, at, layer.keyTail.value.getType(), layer.keyTail.value, key,
                                                   positions, sequences);
  return attended;
}

} // namespace intarsia::importer
