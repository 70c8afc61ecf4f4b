//===- MicrosoftGroupedAttention.cpp - Attention whose heads share keys -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definition: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md, GroupQueryAttention.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/MicrosoftAttention.h"

#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

Value indexOf(OpBuilder &b, Location at, OpFoldResult size) { return getValueOrCreateConstantIndexOp(b, at, size); }

/// Returns rows of a cache [batch, heads, rows, features] after a call: those of the past, and from `begin` [batch] on
/// the new ones; zeros behind them.
Value merged(NodeContext &node, Value past, Value added, Value begin, const Size &rows, DataType type) {
  Shape ofPast = node.graph.shapeOf(node.at, past), ofAdded = node.graph.shapeOf(node.at, added);
  Shape shape{ofAdded[0], ofAdded[1], rows, ofAdded[3]};
  OpFoldResult before = node.ir().size(ofPast[2]), count = node.ir().size(ofAdded[2]);
  Type element = node.irType(type);
  bool hasPast = ofPast[2].isDynamic() || ofPast[2].value != 0;
  // A call may have no past, of which nothing can be read: then both are read as one.
  Value both = added;
  if (ofPast[2].isDynamic()) {
    std::optional<Value> joined = node.joined({past, added}, 2);
    if (!joined)
      return added;
    both = *joined;
  }
  Value result = node.ir().elementwise(
      node.at, element, shape, {{begin, {0}}}, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        auto clamped = [&](Value index, OpFoldResult size) -> Value {
          Value zero = arith::ConstantIndexOp::create(b, at, 0), one = arith::ConstantIndexOp::create(b, at, 1);
          Value last = arith::SubIOp::create(b, at, indexOf(b, at, size), one);
          return arith::MaxSIOp::create(b, at, arith::MinSIOp::create(b, at, index, last), zero);
        };
        auto compare = [&](arith::CmpIPredicate predicate, Value left, Value right) -> Value {
          return arith::CmpIOp::create(b, at, predicate, left, right);
        };
        llvm::SmallVector<Value> position;
        for (unsigned dimension = 0; dimension < 4; ++dimension)
          position.push_back(linalg::IndexOp::create(b, at, dimension));
        Value row = position[2], first = arith::IndexCastOp::create(b, at, b.getIndexType(), v[0]);
        Value number = arith::SubIOp::create(b, at, row, first);
        Value isOld = compare(arith::CmpIPredicate::slt, row, first);
        Value isNew = compare(arith::CmpIPredicate::slt, number, indexOf(b, at, count));
        Value zero = importer::floatConstant(b, at, element, 0);
        if (both != added) {
          Value ofAdded = arith::AddIOp::create(b, at, indexOf(b, at, before), number);
          position[2] = clamped(arith::SelectOp::create(b, at, isOld, row, ofAdded), node.ir().size(rows));
          Value own = tensor::ExtractOp::create(b, at, both, position);
          return arith::SelectOp::create(b, at, arith::OrIOp::create(b, at, isOld, isNew), own, zero);
        }
        position[2] = clamped(number, count);
        Value newElement = tensor::ExtractOp::create(b, at, added, position);
        Value result = arith::SelectOp::create(b, at, isNew, newElement, zero);
        if (!hasPast)
          return result;
        position[2] = clamped(row, before);
        Value oldElement = tensor::ExtractOp::create(b, at, past, position);
        return arith::SelectOp::create(b, at, isOld, oldElement, result);
      });
  node.graph.setShape(result, shape);
  return result;
}

/// What a call adds to a cache: where its first token lies, and how many tokens each sequence has then, i64 [batch].
struct Lengths {
  Value begin, total;
};

/// Reads how many tokens, minus 1, each sequence has after the call. The cache has `rows` for each.
Lengths lengthsOf(NodeContext &node, Value given, const Size &batch, const Size &sequence, const Size &rows) {
  Value last = node.reshaped(given, {batch});
  OpFoldResult count = node.ir().size(sequence), most = node.ir().size(rows);
  Type i64 = node.ops().getI64Type();
  auto computed = [&](llvm::function_ref<Value(OpBuilder &, Location, Value)> body) {
    Value result =
        node.ir().elementwise(node.at, i64, {batch}, {{last, {0}}}, [&](OpBuilder &b, Location at, ValueRange v) {
          Value one = arith::ConstantOp::create(b, at, b.getI64IntegerAttr(1));
          Value total = arith::AddIOp::create(b, at, arith::ExtSIOp::create(b, at, i64, v[0]).getResult(), one);
          return body(b, at, total);
        });
    node.graph.setShape(result, {batch});
    return result;
  };
  // A prompt that is shorter than others begins at 0 too: what is behind it is padding.
  Value begin = computed([&](OpBuilder &b, Location at, Value total) -> Value {
    // A cache that is a buffer has no place for more tokens than its rows, and these would be lost.
    Value room = arith::IndexCastOp::create(b, at, i64, indexOf(b, at, most));
    Value fits = arith::CmpIOp::create(b, at, arith::CmpIPredicate::sle, total, room);
    cf::AssertOp::create(b, at, fits, "'seqlens_k' has more tokens than the cache has rows");
    Value length = arith::IndexCastOp::create(b, at, i64, indexOf(b, at, count));
    Value zero = arith::ConstantOp::create(b, at, b.getI64IntegerAttr(0));
    return arith::MaxSIOp::create(b, at, arith::SubIOp::create(b, at, total, length), zero);
  });
  return {begin, computed([](OpBuilder &, Location, Value total) { return total; })};
}

/// Returns what is added to scores [batch, 1, queries, keys]: -inf for keys that a query does not read.
Value lengthMask(NodeContext &node, DataType type, const Lengths &lengths, const Shape &shape, bool isCausal,
                 int64_t window) {
  Type element = node.irType(type);
  Value mask = node.ir().elementwise(
      node.at, element, shape, {{lengths.begin, {0}}, {lengths.total, {0}}},
      [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        auto index = [&](unsigned dimension) -> Value {
          return arith::IndexCastOp::create(b, at, b.getI64Type(), linalg::IndexOp::create(b, at, dimension));
        };
        auto compare = [&](arith::CmpIPredicate predicate, Value left, Value right) -> Value {
          return arith::CmpIOp::create(b, at, predicate, left, right);
        };
        Value key = index(2), position = arith::AddIOp::create(b, at, v[0], index(1));
        Value isSeen = isCausal ? compare(arith::CmpIPredicate::sle, key, position)
                                : compare(arith::CmpIPredicate::slt, key, v[1]);
        if (window > 0) {
          Value reach = arith::ConstantOp::create(b, at, b.getI64IntegerAttr(window));
          Value first = arith::SubIOp::create(b, at, position, reach);
          isSeen = arith::AndIOp::create(b, at, isSeen, compare(arith::CmpIPredicate::sgt, key, first));
        }
        Value least = importer::floatConstant(b, at, element, -std::numeric_limits<double>::infinity());
        return arith::SelectOp::create(b, at, isSeen, importer::floatConstant(b, at, element, 0), least);
      });
  node.graph.setShape(mask, shape);
  return node.reshaped(mask, {shape[0], 1, shape[1], shape[2]});
}

/// Adds a key that all queries read with a score of its own, and whose value is zero: it takes a part of the softmax.
/// `sink` is [heads], or null for scores of 0.
Value withSink(NodeContext &node, Heads &heads, Value mask, Value sink, DataType type, int64_t count) {
  auto zeroOf = [&](Value tensor) {
    Shape shape = node.graph.shapeOf(node.at, tensor);
    shape[2] = 1;
    return node.filled(shape, node.numberAttribute(type, 0));
  };
  std::optional<Value> key = node.joined({heads.key, zeroOf(heads.key)}, 2);
  std::optional<Value> value = node.joined({heads.value, zeroOf(heads.value)}, 2);
  Shape shape = node.graph.shapeOf(node.at, mask);
  shape[1] = count;
  Value whole = node.broadcastTo(mask, shape);
  shape[3] = 1;
  Value own = sink ? node.broadcastTo(node.reshaped(sink, {1, count, 1, 1}), shape)
                   : node.filled(shape, node.numberAttribute(type, 0));
  std::optional<Value> both = node.joined({whole, own}, 3);
  if (!key || !value || !both)
    return mask;
  heads.key = *key;
  heads.value = *value;
  return *both;
}

} // namespace

void groupQueryAttention(NodeContext &node) {
  int64_t queryHeads = node.integer("num_heads", 0), keyHeads = node.integer("kv_num_heads", 0);
  int64_t window = node.integer("local_window_size", -1);
  bool isCausal = node.integer("causal", 1) != 0, isSmooth = node.integer("smooth_softmax", -1) == 1;
  DataType type = node.typeOf(0);
  Value query = node.tensor(0);
  if (queryHeads < 1 || keyHeads < 1 || queryHeads > 65536 || queryHeads % keyHeads != 0)
    node.refuse("there are " + llvm::Twine(queryHeads) + " heads, and " + llvm::Twine(keyHeads) + " of keys");
  for (llvm::StringRef name : {"k_quant_type", "v_quant_type"})
    if (node.text(name, "NONE") != "NONE")
      node.refuse("attribute '" + name + "' must be NONE: --kv says how caches are kept");
  if (node.integer("sliding_window_cache", 0) != 0)
    node.refuse("attribute 'sliding_window_cache' must be 0");
  if (node.isWanted(3))
    node.refuse("output 3 is not imported");
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2, 3, 4, 7, 8, 11, 14, 15}) || !node.isOf(5, isInt32, "int32"))
    return;
  bool isPacked = !node.has(1) && !node.has(2);
  Shape shape = node.graph.shapeOf(node.at, query);
  if (shape.size() != 3 || shape[2].isDynamic() || node.has(1) != node.has(2))
    return node.refuse("queries are not [batch, sequence, features], or keys or values are missing");
  Heads heads;
  if (isPacked) {
    int64_t features = shape[2].value / (queryHeads + 2 * keyHeads);
    heads.query = headsFirst(node, partOf(node, query, 2, 0, queryHeads * features), queryHeads);
    heads.key = headsFirst(node, partOf(node, query, 2, queryHeads * features, keyHeads * features), keyHeads);
    heads.value =
        headsFirst(node, partOf(node, query, 2, (queryHeads + keyHeads) * features, keyHeads * features), keyHeads);
    if (features < 1 || features * (queryHeads + 2 * keyHeads) != shape[2].value)
      return node.refuse("packed rows of " + llvm::Twine(shape[2].value) + " features are not those of all heads");
  } else {
    heads = {headsFirst(node, query, queryHeads), headsFirst(node, node.tensor(1), keyHeads),
             headsFirst(node, node.tensor(2), keyHeads)};
  }
  if (node.isRefused())
    return;
  int64_t features = tensorType(heads.query).getDimSize(3);
  if (tensorType(heads.key).getDimSize(3) != features)
    return node.refuse("keys have " + llvm::Twine(tensorType(heads.key).getDimSize(3)) +
                       " features in each head, and queries " + llvm::Twine(features));
  const Size batch = shape[0], sequence = shape[1];
  if (!sequence.isDynamic() && sequence.value == 0)
    return node.refuse("queries have no tokens");
  for (auto [each, name] : {std::pair(heads.key, "'key'"), {heads.value, "'value'"}}) {
    Shape own = node.graph.shapeOf(node.at, each);
    std::string of = std::string(" of input ") + name;
    if (!requireEqual(node, {own[0], "the batch" + of}, {batch, "that of 'query'"}) ||
        !requireEqual(node, {own[2], "the number of tokens" + of}, {sequence, "that of 'query'"}))
      return;
  }
  Value given = node.tensor(5);
  Shape ofGiven = node.graph.shapeOf(node.at, given);
  if (ofGiven.empty() || ofGiven.size() > 2 ||
      (ofGiven.size() == 2 && (ofGiven[1].isDynamic() || ofGiven[1].value != 1)) ||
      (!ofGiven[0].isDynamic() && !batch.isDynamic() && ofGiven[0].value != batch.value))
    return node.refuse("input 'seqlens_k' does not have one number for each sequence");
  if (!node.graph.areEqual(ofGiven[0], batch) && ofGiven.size() == 2)
    return node.refuse("input 'seqlens_k' does not have one number for each sequence");
  // Rows of the cache after the call. A past whose length no call decides is a buffer, which stays as long as it is.
  if (node.has(3) != node.has(4))
    return node.refuse("past keys or past values are missing");
  Size past = 0, rows = sequence;
  if (node.has(3)) {
    for (auto [input, current] : {std::pair<size_t, Value>(3, heads.key), {4, heads.value}}) {
      Shape own = node.graph.shapeOf(node.at, node.tensor(input));
      if (own.size() != 4 || own[1].isDynamic() || own[1].value != keyHeads || own[3].isDynamic() ||
          own[3].value != tensorType(current).getDimSize(3))
        return node.refuse("input " + llvm::Twine(input) + " is not [batch, heads, positions, features]");
      if (!requireEqual(node, {own[0], "the batch of the past"}, {batch, "that of 'query'"}) ||
          (input == 4 && !requireEqual(node, {own[2], "the number of past values"}, {past, "that of past keys"})))
        return;
      past = own[2];
    }
    std::optional<int64_t> total = node.has(6) ? node.knownNumber(node.input(6)) : std::nullopt;
    if (past.isDynamic() || past.value == 0)
      rows = node.compute(importer::SizeOp::Add, past, sequence);
    else
      rows = std::max(past.value, total.value_or(past.value));
  }
  Lengths lengths = lengthsOf(node, given, ofGiven[0], sequence, rows);
  if (node.has(14) != node.has(15))
    return node.refuse("one of the norms of queries and keys is missing");
  if (node.has(14)) {
    double epsilon = node.number("qk_norm_epsilon", 1e-6f);
    auto normal = [&](Value tokens, size_t input) {
      Value scale = node.tensor(input);
      if (tensorType(scale).getRank() != 1 || tensorType(scale).getDimSize(0) != features) {
        node.refuse("input " + llvm::Twine(input) + " does not have " + llvm::Twine(features) + " elements");
        return tokens;
      }
      Shape sizes = node.graph.shapeOf(node.at, tokens);
      Value result = node.ir().rmsNorm(node.at, tokens, scale, epsilon);
      node.graph.setShape(result, sizes);
      return result;
    };
    heads.query = normal(heads.query, 14);
    heads.key = normal(heads.key, 15);
  }
  if (node.integer("do_rotary", 0) != 0) {
    if (!node.has(7) || !node.has(8))
      return node.refuse("tables of cosines and sines are missing");
    Value positions;
    if (node.has(9)) {
      positions = node.tensor(9);
      if (!node.isOf(9, isIndex, "int32 or int64"))
        return;
    } else {
      positions = positionsFrom(node, lengths.begin, batch, sequence);
    }
    heads.query = rotated(node, heads.query, positions, 7, type, node.integer("rotary_interleaved", 0) != 0);
    heads.key = node.isRefused()
                    ? heads.key
                    : rotated(node, heads.key, positions, 7, type, node.integer("rotary_interleaved", 0) != 0);
    if (node.isRefused())
      return;
  }
  auto whole = [&](size_t input, Value added) {
    Value before = node.has(input) ? node.tensor(input) : added;
    if (node.has(input))
      return merged(node, before, added, lengths.begin, rows, type);
    return added;
  };
  heads.key = whole(3, heads.key);
  heads.value = whole(4, heads.value);
  if (node.isRefused())
    return;
  node.result(1, heads.key, type);
  node.result(2, heads.value, type);
  Value mask = lengthMask(node, type, lengths, {batch, sequence, rows}, isCausal, window);
  mask = withBias(node, mask, 10, type);
  if (node.isRefused())
    return;
  if (node.has(11) || isSmooth) {
    Value sink = node.has(11) ? node.tensor(11) : Value();
    if (sink && (tensorType(sink).getRank() != 1 || tensorType(sink).getDimSize(0) != queryHeads))
      return node.refuse("input 'head_sink' does not have one number for each head");
    mask = withSink(node, heads, mask, sink, type, queryHeads);
  }
  if (node.isRefused())
    return;
  AttentionOptions options;
  options.mask = mask;
  options.softcap = node.number("softcap", 0);
  if (Value rows = attended(node, heads, type, options).rows)
    node.result(0, rows, type);
}

} // namespace intarsia::onnx
