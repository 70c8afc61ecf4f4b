//===- TextEncoder.cpp - What encoders of token sequences have in common -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/TextEncoder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::importer {

llvm::SmallVector<Input> TextEncoder::inputs(GraphBuilder &graph) const {
  Type i64 = graph.getBuilder().getI64Type();
  llvm::SmallVector<Input> result;
  result.push_back({"input_ids", i64, tokens(), std::nullopt, std::pair<int64_t, int64_t>(0, vocabulary.size)});
  result.push_back({"attention_mask", i64, tokens(), 1, std::nullopt});
  if (tokenTypes.size > 0)
    result.push_back({"token_type_ids", i64, tokens(), 0, std::pair<int64_t, int64_t>(0, tokenTypes.size)});
  return result;
}

llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> TextEncoder::sizeLimits() const {
  return {{"sequence", longestSequence}};
}

Shape TextEncoder::tokens(llvm::ArrayRef<int64_t> more) const {
  Shape shape = {"batch", "sequence"};
  for (int64_t size : more)
    shape.push_back(size);
  return shape;
}

void TextEncoder::checkHeads(llvm::StringRef headsSetting) const {
  if (hidden.size % heads != 0)
    config.report(hidden.setting + " " + llvm::Twine(hidden.size) + " is not a multiple of " + headsSetting + " " +
                  llvm::Twine(heads));
}

Value TextEncoder::attentionMask(GraphBuilder &graph) const {
  Shape shape = {"batch", 1, 1, "sequence"};
  return graph.elementwise("attention_mask", graph.getBuilder().getI1Type(), shape,
                           {{graph.input("attention_mask"), {0, 3}}},
                           [](OpBuilder &builder, Location at, ValueRange values) -> Value {
                             Value zero = arith::ConstantOp::create(builder, at, builder.getI64IntegerAttr(0));
                             return arith::CmpIOp::create(builder, at, arith::CmpIPredicate::ne, values[0], zero);
                           });
}

Value TextEncoder::embeddings(GraphBuilder &graph, Value positions) const {
  GraphBuilder::Scope scope(graph, "embeddings");
  llvm::SmallVector<Operand> parts;
  parts.push_back({graph.embedding(graph.input("input_ids"), "word_embeddings", vocabulary, hidden), {0, 1, 2}});
  if (tokenTypes.size > 0)
    parts.push_back(
        {graph.embedding(graph.input("token_type_ids"), "token_type_embeddings", tokenTypes, hidden), {0, 1, 2}});
  if (cast<RankedTensorType>(positions.getType()).getRank() == 2)
    parts.push_back({positions, {1, 2}});
  else
    parts.push_back({positions, {0, 1, 2}});
  // One op computes the whole sum, reads each table once and writes once. It adds in the order of transformers.
  Type type = graph.getActivationType();
  Value sum = graph.elementwise("", type, tokens({hidden.size}), parts,
                                [&](OpBuilder &builder, Location at, ValueRange values) {
                                  Value total = widened(builder, at, values[0], type);
                                  for (Value term : values.slice(1, parts.size() - 1))
                                    total = arith::AddFOp::create(builder, at, total, widened(builder, at, term, type));
                                  return total;
                                });
  return graph.layerNorm(sum, "LayerNorm", hidden, epsilon);
}

Value TextEncoder::layer(GraphBuilder &graph, Value input, Value mask, const LayerNames &names) const {
  Value query = graph.linear(input, names.query, hidden, hidden);
  Value key = graph.linear(input, names.key, hidden, hidden);
  Value value = graph.linear(input, names.value, hidden, hidden);
  Value context = graph.attention(query, key, value, mask, names.attention, tokens(), heads, hidden.size / heads);
  Value projected = graph.linear(context, names.attentionOutput, hidden, hidden);
  Value attended =
      graph.layerNorm(graph.add(projected, input, names.attentionSum), names.attentionNorm, hidden, epsilon);
  Value inner =
      graph.activation(graph.linear(attended, names.inner, intermediate, hidden), names.activation, activation);
  Value outer = graph.linear(inner, names.outer, hidden, intermediate);
  return graph.layerNorm(graph.add(outer, attended, names.outerSum), names.outerNorm, hidden, epsilon);
}

Value TextEncoder::maskedLanguageModel(GraphBuilder &graph, Value hiddenState, llvm::StringRef encoder,
                                       llvm::StringRef dense, Activation activation, llvm::StringRef norm,
                                       llvm::StringRef decoder, llvm::StringRef tiedBias) const {
  Value transformed = graph.activation(graph.linear(hiddenState, dense, hidden, hidden), dense, activation);
  Value normalised = graph.layerNorm(transformed, norm, hidden, epsilon);
  std::string ownWeight = (decoder + ".weight").str(), ownBias = (decoder + ".bias").str();
  if (!config.flag("tie_word_embeddings", true)) {
    Value weight = graph.weight(ownWeight, {vocabulary, hidden});
    return graph.linear(normalised, decoder, weight, graph.weight(graph.spelling({ownBias, tiedBias}), {vocabulary}));
  }
  Value weight;
  {
    GraphBuilder::Scope scope(graph, encoder);
    weight = graph.weight("embeddings.word_embeddings.weight", {vocabulary, hidden});
  }
  // An archive may hold either one of two tied parameters.
  return graph.linear(normalised, decoder, weight, graph.weight(graph.spelling({tiedBias, ownBias}), {vocabulary}));
}

Extent TextEncoder::labels() const { return Extent(readLabels(config).size(), "id2label"); }

} // namespace intarsia::importer
