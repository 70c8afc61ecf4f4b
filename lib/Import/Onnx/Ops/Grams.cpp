//===- Grams.cpp - Counts of sequences of numbers -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ReferenceBuilder.h"
#include "lib/Import/Onnx/OpTable.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// The sequences of numbers that a TfIdfVectorizer counts, of one length.
struct Grams {
  int64_t length;
  llvm::ArrayRef<int64_t> numbers; ///< those of one after the other
  llvm::ArrayRef<int64_t> places;  ///< where the result has the count of each
  size_t first;                    ///< number of the first one among those of all lengths
};

/// Reads the sequences of the lengths that are counted; refuses lists that do not go together.
std::optional<llvm::SmallVector<Grams>> readGrams(NodeContext &node, llvm::ArrayRef<int64_t> pool,
                                                  llvm::ArrayRef<int64_t> begins, llvm::ArrayRef<int64_t> places) {
  int64_t shortest = node.integer("min_gram_length", 1), longest = node.integer("max_gram_length", 1);
  if (shortest < 1 || longest < shortest)
    node.refuse("attribute 'min_gram_length' is " + llvm::Twine(shortest) + ", 'max_gram_length' is " +
                llvm::Twine(longest));
  llvm::SmallVector<Grams> result;
  size_t first = 0;
  for (auto [number, begin] : llvm::enumerate(begins)) {
    auto length = int64_t(number + 1), end = number + 1 < begins.size() ? begins[number + 1] : int64_t(pool.size());
    if (begin < 0 || end < begin || end > int64_t(pool.size()) || (end - begin) % length != 0) {
      node.refuse("attribute 'ngram_counts' does not divide 'pool_int64s'");
      return std::nullopt;
    }
    int64_t count = (end - begin) / length;
    if (first + count > places.size())
      break;
    if (length >= shortest && length <= longest && count > 0)
      result.push_back({length, pool.slice(begin, end - begin), places.slice(first, count), first});
    first += count;
  }
  if (first != places.size())
    node.refuse("attribute 'ngram_indexes' has " + llvm::Twine(places.size()) + " numbers, of another number of grams");
  return node.isRefused() ? std::nullopt : std::optional(result);
}

/// Counts how often sequences are in rows [rows, columns], with up to `skips` elements left out between any two: f32
/// [rows, sequences].
Value countGrams(NodeContext &node, Value rows, const Grams &grams, int64_t skips) {
  reference::ReferenceBuilder builder(node.at, node.ops());
  auto sizes = builder.sizesOf(rows);
  auto count = int64_t(grams.places.size()), distances = grams.length == 1 ? 1 : skips + 1;
  Type i64 = builder.getI64Type();
  // Loops: row, sequence, where it begins, and how far its elements are apart.
  Value bounds = builder.filled({builder.getIndexAttr(distances)}, builder.getF32FloatAttr(0));
  SmallVector<std::pair<Value, AffineMap>> inputs = {{rows, builder.map(4, {0, 2})}, {bounds, builder.map(4, {3})}};
  for (int64_t element = 0; element < grams.length; ++element) {
    llvm::SmallVector<int64_t> column;
    for (int64_t gram = 0; gram < count; ++gram)
      column.push_back(grams.numbers[gram * grams.length + element]);
    auto type = RankedTensorType::get({count}, i64);
    Value constant = arith::ConstantOp::create(builder, DenseElementsAttr::get(type, llvm::ArrayRef(column)));
    inputs.push_back({constant, builder.map(4, {1})});
  }
  Value columns = getValueOrCreateConstantIndexOp(builder, node.at, sizes[1]);
  return builder.fold(builder.filled({sizes[0], builder.getIndexAttr(count)}, builder.getF32FloatAttr(0)), 2, inputs,
                      [&](reference::ScalarBuilder &b, ValueRange v) -> Value {
                        using reference::Integer;
                        Integer end(b, columns), place = b.indexOf(2), distance = b.indexOf(3) + 1;
                        Integer isThere = place + distance * (grams.length - 1) < end;
                        for (int64_t element = 0; element < grams.length; ++element) {
                          Value read = v[0];
                          if (element > 0) {
                            place = smaller(place + distance, end - 1);
                            read = tensor::ExtractOp::create(b, rows, ValueRange{b.indexOf(0), place});
                          }
                          isThere = isThere & (Integer(b, read) == Integer(b, v[2 + element]));
                        }
                        return b.add(v.back(), b.select(isThere, b.f32(1), b.f32(0)));
                      });
}

/// TfIdfVectorizer of integers.
void countSequences(NodeContext &node) {
  Value input = node.tensor(0);
  if (node.isRefused() || !node.isOf(0, isIndex, "int32 or int64"))
    return;
  auto pool = node.integers("pool_int64s"), begins = node.integers("ngram_counts"),
       places = node.integers("ngram_indexes");
  llvm::StringRef mode = node.text("mode", "");
  int64_t skips = node.integer("max_skip_count", 0);
  Shape shape = node.graph.shapeOf(node.at, input);
  if (node.isRefused())
    return;
  if (!pool || !begins || !places || pool->empty() || begins->empty() || places->empty())
    return node.refuse("attributes 'pool_int64s', 'ngram_counts' or 'ngram_indexes' are missing");
  if (shape.empty() || shape.size() > 2 || (mode != "TF" && mode != "IDF" && mode != "TFIDF") || skips < 0 ||
      skips > 1024)
    return node.refuse(
        "the input has not 1 or 2 dimensions, or attributes 'mode' or 'max_skip_count' are not possible");
  constexpr int64_t mostPlaces = 1 << 24;
  int64_t width = *llvm::max_element(*places) + 1;
  if (*llvm::min_element(*places) < 0 || width > mostPlaces)
    return node.refuse("attribute 'ngram_indexes' has numbers that are not possible");
  auto all = readGrams(node, *pool, *begins, *places);
  if (!all)
    return;
  const Attribute *given = node.attribute("weights");
  bool isWeighted = given && !given->numbers.empty() && mode != "TF";
  if (isWeighted && (given->type != AttributeType::Floats || given->numbers.size() != places->size()))
    return node.refuse("attribute 'weights' has not a number for each of 'ngram_indexes'");
  // Which column of the counts each place of the result has, the last one, of zeros, if none, and what it is scaled by.
  std::vector<int64_t> columns(width, -1);
  std::vector<float> weights(width, 1);
  int64_t counted = 0;
  for (const Grams &grams : *all)
    for (auto [number, place] : llvm::enumerate(grams.places)) {
      if (columns[place] >= 0)
        return node.refuse("attribute 'ngram_indexes' has a number twice");
      columns[place] = counted++;
      if (isWeighted)
        weights[place] = given->numbers[grams.first + number];
    }
  std::replace(columns.begin(), columns.end(), int64_t(-1), counted);
  bool isRow = shape.size() == 1;
  if (isRow)
    shape.insert(shape.begin(), 1);
  Value rows = node.cast(node.reshaped(input, shape), node.typeOf(0), DataType::Int64);
  Shape result{shape[0], width};
  if (!node.isCounted(result))
    return;
  llvm::SmallVector<Value> counts;
  for (const Grams &grams : *all)
    if (shape[1].isDynamic() || shape[1].value > 0) {
      counts.push_back(countGrams(node, rows, grams, skips));
      node.graph.setShape(counts.back(), {shape[0], int64_t(grams.places.size())});
    } else {
      counts.push_back(node.filled({shape[0], int64_t(grams.places.size())}, node.ops().getF32FloatAttr(0)));
    }
  counts.push_back(node.filled({shape[0], 1}, node.ops().getF32FloatAttr(0)));
  Value table = node.joined(counts, 1).value_or(counts.front());
  reference::ReferenceBuilder builder(node.at, node.ops());
  auto constant = [&](auto values, Type element) -> Value {
    auto type = RankedTensorType::get({width}, element);
    return arith::ConstantOp::create(builder, DenseElementsAttr::get(type, values));
  };
  Value chosen = constant(llvm::ArrayRef<int64_t>(columns), builder.getI64Type());
  Value factors = constant(llvm::ArrayRef<float>(weights), builder.getF32Type());
  Value scaled = builder.parallel({node.ir().size(shape[0]), builder.getIndexAttr(width)}, builder.getF32Type(),
                                  {{chosen, builder.map(2, {1})}, {factors, builder.map(2, {1})}},
                                  [&](reference::ScalarBuilder &b, ValueRange v) -> Value {
                                    auto column = smaller(b.toIndex(v[0]), counted);
                                    Value count = tensor::ExtractOp::create(b, table, ValueRange{b.indexOf(0), column});
                                    if (mode == "IDF")
                                      count = b.min(count, b.f32(1));
                                    return b.mul(count, v[1]);
                                  });
  node.graph.setShape(scaled, result);
  node.result(0, isRow ? node.reshaped(scaled, {Size(width)}) : scaled, DataType::Float);
}

} // namespace

llvm::ArrayRef<OpRow> gramOps() {
  static const OpRow rows[] = {{"", "TfIdfVectorizer", 9, countSequences}};
  return rows;
}

} // namespace intarsia::onnx
