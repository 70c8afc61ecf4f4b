//===- MicrosoftAttention.cpp - Attention and rotary positions of com.microsoft -----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Inputs are brought into the
// forms that attention of the standard has: [batch, heads, sequence, features], and a mask that is added to scores.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/MicrosoftAttention.h"

#include "lib/Import/Onnx/Ops/ExactProducts.h"
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

using namespace mlir;

namespace intarsia::onnx {
Value headsFirst(NodeContext &node, Value rows, int64_t heads) {
  Shape shape = node.graph.shapeOf(node.at, rows);
  if (shape.size() != 3 || shape[2].isDynamic() || heads < 1 || shape[2].value % heads != 0) {
    node.refuse("an input of " + llvm::Twine(shape.size()) + " dimensions is not one of " + llvm::Twine(heads) +
                " heads in each row");
    return rows;
  }
  Value split = node.reshaped(rows, {shape[0], shape[1], heads, shape[2].value / heads});
  return node.transposed(split, {0, 2, 1, 3});
}

Value rowsOf(NodeContext &node, Value heads) {
  Shape shape = node.graph.shapeOf(node.at, heads);
  return node.reshaped(node.transposed(heads, {0, 2, 1, 3}), {shape[0], shape[2], node.product({shape[1], shape[3]})});
}

Value partOf(NodeContext &node, Value tensor, int64_t axis, int64_t begin, int64_t count) {
  Shape shape = node.graph.shapeOf(node.at, tensor);
  if (axis >= int64_t(shape.size()) || shape[axis].isDynamic() || begin + count > shape[axis].value) {
    node.refuse("an input has fewer than " + llvm::Twine(begin + count) + " elements in dimension " +
                llvm::Twine(axis));
    return tensor;
  }
  return node.sliced(tensor, axis, begin, count);
}

/// Returns a part of packed heads [batch, sequence, heads, parts, features].
static Value unpackedHeads(NodeContext &node, Value packed, int64_t part) {
  Value one = partOf(node, packed, 3, part, 1);
  Shape shape = node.graph.shapeOf(node.at, one);
  if (node.isRefused())
    return packed;
  return node.transposed(node.reshaped(one, {shape[0], shape[1], shape[2], shape[4]}), {0, 2, 1, 3});
}

/// Returns [batch, heads, sequence, …] with the heads that share one of `count` behind one another in the sequence.
static Value sharing(NodeContext &node, Value tensor, int64_t count) {
  Shape shape = node.graph.shapeOf(node.at, tensor);
  shape[2] = node.product({Size(shape[1].value / count), shape[2]});
  shape[1] = count;
  return node.reshaped(tensor, shape);
}

Attended attended(NodeContext &node, const Heads &heads, DataType type, const AttentionOptions &options) {
  Shape ofQuery = node.graph.shapeOf(node.at, heads.query), ofKey = node.graph.shapeOf(node.at, heads.key);
  Value query = heads.query, mask = options.mask;
  // Queries whose heads share keys are queries of one head: keys are not repeated.
  bool isShared = ofQuery[1].value != ofKey[1].value;
  if (isShared && (ofKey[1].value < 1 || ofQuery[1].value % ofKey[1].value != 0)) {
    node.refuse("there are " + llvm::Twine(ofQuery[1].value) + " heads, and " + llvm::Twine(ofKey[1].value) +
                " of keys");
    return {};
  }
  if (isShared) {
    query = sharing(node, query, ofKey[1].value);
    bool isOneQuery = !ofQuery[2].isDynamic() && ofQuery[2].value == 1;
    Shape ofMask = mask ? node.graph.shapeOf(node.at, mask) : Shape();
    if (mask && !(isOneQuery && !ofMask[1].isDynamic() && ofMask[1].value == 1)) {
      bool isOfAllHeads = !ofMask[1].isDynamic() && ofMask[1].value == 1;
      ofMask[1] = isOfAllHeads ? Size(ofQuery[1].value / ofKey[1].value) : ofQuery[1];
      ofMask[2] = ofQuery[2];
      mask = sharing(node, node.broadcastTo(mask, ofMask), isOfAllHeads ? 1 : ofKey[1].value);
    }
  }
  Part part(node, "Attention", 25);
  part.with(query, type).with(heads.key, type).with(heads.value, type);
  if (mask)
    part.with(mask, type);
  else
    part.without();
  if (options.pastKey)
    part.with(options.pastKey, type).with(options.pastValue, type);
  if (double scale = node.number("scale", 0); scale != 0)
    part.set("scale", scale);
  if (options.softcap > 0)
    part.set("softcap", options.softcap);
  if (options.isCausal)
    part.set("is_causal", 1);
  llvm::SmallVector<Value, 3> results = part.build({true, true, true});
  Value result = results[0];
  if (node.isRefused())
    return {};
  if (isShared) {
    Shape ofResult = node.graph.shapeOf(node.at, result);
    result = node.reshaped(result, {ofQuery[0], ofQuery[1], ofQuery[2], ofResult[3]});
  }
  return {rowsOf(node, result), results[1], results[2]};
}

namespace {

//===-- Masks -------------------------------------------------------------------------------------------------===//

/// Returns what is added to scores, [batch, 1, queries or 1, keys], for an input of integers that says which keys are
/// read. It has one of these forms: the number of keys of each sequence, [batch]; where the keys of each sequence end,
/// and behind these where they begin, [2 * batch]; or 1 for each key that is read and 0 for others, [batch, keys] or
/// [batch, queries, keys].
Value maskOf(NodeContext &node, size_t input, DataType type, const Size &batch, const Size &keys) {
  double hidden = node.number("mask_filter_value", -10000.0f);
  Value given = node.tensor(input);
  if (!node.isOf(input, isInt32, "int32"))
    return {};
  Shape shape = node.graph.shapeOf(node.at, given);
  Type element = node.irType(type);
  auto select = [&](OpBuilder &b, Location at, Value isRead) -> Value {
    Value zero = importer::floatConstant(b, at, element, 0), least = importer::floatConstant(b, at, element, hidden);
    return arith::SelectOp::create(b, at, isRead, zero, least);
  };
  if (shape.size() == 2 || shape.size() == 3) {
    Shape wide = shape.size() == 2 ? Shape{shape[0], 1, 1, shape[1]} : Shape{shape[0], 1, shape[1], shape[2]};
    return node.broadcast({node.reshaped(given, wide)}, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
      Value zero = arith::ConstantOp::create(b, at, b.getI32IntegerAttr(0));
      return select(b, at, arith::CmpIOp::create(b, at, arith::CmpIPredicate::sgt, v[0], zero));
    });
  }
  bool areLengths = shape.size() == 1 && node.graph.areEqual(shape[0], batch);
  bool areRanges =
      shape.size() == 1 && !shape[0].isDynamic() && !batch.isDynamic() && shape[0].value == 2 * batch.value;
  if (!areLengths && !areRanges) {
    node.refuse("a mask of " + llvm::Twine(shape.size()) +
                " dimensions is not one for each sequence, nor [batch, keys] "
                "or [batch, queries, keys]");
    return {};
  }
  Value ends = areRanges ? node.sliced(given, 0, 0, batch) : given;
  Value begins =
      areRanges ? node.sliced(given, 0, batch, batch) : node.filled({batch}, node.ops().getI32IntegerAttr(0));
  Value mask =
      node.ir().elementwise(node.at, element, {batch, keys}, {{ends, {0}}, {begins, {0}}},
                            [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                              Value key =
                                  arith::IndexCastOp::create(b, at, b.getI32Type(), linalg::IndexOp::create(b, at, 1));
                              Value isBefore = arith::CmpIOp::create(b, at, arith::CmpIPredicate::slt, key, v[0]);
                              Value isBehind = arith::CmpIOp::create(b, at, arith::CmpIPredicate::sge, key, v[1]);
                              return select(b, at, arith::AndIOp::create(b, at, isBefore, isBehind));
                            });
  node.graph.setShape(mask, {batch, keys});
  return node.reshaped(mask, {batch, 1, 1, keys});
}

} // namespace

Value withBias(NodeContext &node, Value mask, size_t input, DataType type) {
  if (!node.has(input))
    return mask;
  Value bias = node.tensor(input);
  if (node.typeOf(input) != type)
    node.refuse("input " + llvm::Twine(input) + " has elements of " + nameOf(node.typeOf(input)));
  else if (tensorType(bias).getRank() != 4)
    node.refuse("input " + llvm::Twine(input) + " has " + llvm::Twine(tensorType(bias).getRank()) +
                " dimensions, must have 4");
  return node.isRefused() ? mask : sumOf(node, {mask, bias}, type);
}

namespace {

//===-- MultiHeadAttention ------------------------------------------------------------------------------------===//

/// Splits inputs into heads and adds their parts of a bias.
std::optional<Heads> splitHeads(NodeContext &node, int64_t heads) {
  DataType type = node.typeOf(0);
  Value query = node.tensor(0), key = node.has(1) ? node.tensor(1) : Value(),
        value = node.has(2) ? node.tensor(2) : Value();
  if (node.isRefused())
    return std::nullopt;
  int64_t rank = tensorType(query).getRank(), ofKey = key ? tensorType(key).getRank() : 0;
  Heads result;
  if (rank == 5 && !key && !value) {
    result = {unpackedHeads(node, query, 0), unpackedHeads(node, query, 1), unpackedHeads(node, query, 2)};
  } else if (ofKey == 5 && !value) {
    result = {headsFirst(node, query, heads), unpackedHeads(node, key, 0), unpackedHeads(node, key, 1)};
  } else if (key && value && ofKey == 4 && tensorType(value).getRank() == 4) {
    result = {headsFirst(node, query, heads), key, value};
  } else if (key && value) {
    result = {headsFirst(node, query, heads), headsFirst(node, key, heads), headsFirst(node, value, heads)};
  } else {
    node.refuse("inputs are neither queries, keys and values nor packed ones");
  }
  if (node.isRefused())
    return std::nullopt;
  for (Value each : {result.query, result.key, result.value})
    if (Shape shape = node.graph.shapeOf(node.at, each);
        shape[1].isDynamic() || shape[1].value != heads || shape[3].isDynamic())
      node.refuse("an input does not have " + llvm::Twine(heads) + " heads of a known number of features");
  if (node.isRefused() || !node.has(3))
    return node.isRefused() ? std::nullopt : std::optional(result);
  Value bias = node.tensor(3);
  if (tensorType(bias).getRank() != 1) {
    node.refuse("input 'bias' has " + llvm::Twine(tensorType(bias).getRank()) + " dimensions, must have one");
    return std::nullopt;
  }
  int64_t begin = 0;
  auto added = [&](Value part) {
    int64_t features = tensorType(part).getDimSize(3);
    Value own = partOf(node, bias, 0, begin, heads * features);
    begin += heads * features;
    return node.isRefused() ? part : sumOf(node, {part, node.reshaped(own, {heads, 1, features})}, type);
  };
  // Keys and values of an earlier call have their bias.
  result.query = added(result.query);
  if (ofKey != 4) {
    result.key = added(result.key);
    result.value = added(result.value);
  }
  return node.isRefused() ? std::nullopt : std::optional(result);
}

void multiHeadAttention(NodeContext &node) {
  int64_t heads = node.integer("num_heads", 0);
  DataType type = node.typeOf(0);
  if (heads < 1)
    node.refuse("attribute 'num_heads' is " + llvm::Twine(heads));
  for (size_t input : {8, 9})
    if (node.has(input))
      node.refuse("input " + llvm::Twine(input) + " is not imported: caches of calls are inputs and outputs");
  if (node.isWanted(3))
    node.refuse("output 3 is not imported");
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2, 3, 6, 7}))
    return;
  std::optional<Heads> split = splitHeads(node, heads);
  if (!split)
    return;
  if (node.has(6) != node.has(7))
    return node.refuse("past keys or past values are missing");
  AttentionOptions options;
  options.isCausal = node.integer("unidirectional", 0) != 0;
  Shape ofQuery = node.graph.shapeOf(node.at, split->query), ofKey = node.graph.shapeOf(node.at, split->key);
  Size keys = ofKey[2];
  if (node.has(6)) {
    options.pastKey = node.tensor(6);
    options.pastValue = node.tensor(7);
    for (Value past : {options.pastKey, options.pastValue})
      if (tensorType(past).getRank() != 4)
        return node.refuse("past keys and values must have 4 dimensions");
    keys = node.compute(importer::SizeOp::Add, node.graph.shapeOf(node.at, options.pastKey)[2], keys);
  }
  options.mask = node.has(4) ? maskOf(node, 4, type, ofQuery[0], keys) : Value();
  options.mask = node.isRefused() ? options.mask : withBias(node, options.mask, 5, type);
  if (node.isRefused())
    return;
  Attended result = attended(node, *split, type, options);
  if (node.isRefused())
    return;
  node.result(0, result.rows, type);
  node.result(1, result.key, type);
  node.result(2, result.value, type);
}

//===-- Attention ---------------------------------------------------------------------------------------------===//

void attention(NodeContext &node) {
  DataType type = node.typeOf(0);
  Value input = node.tensor(0), weights = node.tensor(1), bias = node.has(2) ? node.tensor(2) : Value();
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2, 4}))
    return;
  if (node.has(6) || node.integer("past_present_share_buffer", 0) != 0)
    return node.refuse("attribute 'past_present_share_buffer' must be 0: caches of calls are inputs and outputs");
  if (node.isRefused() || tensorType(input).getRank() != 3 || tensorType(weights).getRank() != 2)
    return node.refuse("the input must have 3 dimensions, and the weight 2");
  std::optional<Value> product = matrixProduct(node, input, weights, type);
  if (product && (!bias || node.isBroadcastTo(bias, node.graph.shapeOf(node.at, *product), "bias")))
    attentionOfProjections(node, sumOf(node, {*product, bias}, type), type, {3, 4, 5});
}

//===-- Rotary positions ---------------------------------------------------------------------------------------===//

void rotaryEmbedding(NodeContext &node) {
  DataType type = node.typeOf(0);
  Value input = node.tensor(0), positions = node.tensor(1);
  if (!node.isComputed(0) || !node.areOneType({0, 2, 3}) || !node.isOf(1, isIndex, "int32 or int64"))
    return;
  if (node.number("scale", 1) != 1)
    return node.refuse("attribute 'scale' must be 1");
  if (node.integer("is_packed_batching", 0) != 0)
    return node.refuse("attribute 'is_packed_batching' must be 0");
  bool isInterleaved = node.integer("interleaved", 0) != 0;
  int64_t count = node.integer("num_heads", 0), turned = node.integer("rotary_embedding_dim", 0);
  Shape shape = node.graph.shapeOf(node.at, input), ofTable = node.shapeOf(2),
        ofPositions = node.graph.shapeOf(node.at, positions);
  if ((shape.size() != 3 && shape.size() != 4) || ofTable.size() != 2 || ofTable[1].isDynamic() || ofTable[1].value < 1)
    return node.refuse("the input has " + llvm::Twine(shape.size()) + " dimensions, must have 3 or 4, and tables 2");
  if (turned != 0 && turned != 2 * ofTable[1].value)
    return node.refuse("attribute 'rotary_embedding_dim' is " + llvm::Twine(turned) + ", the tables are for " +
                       llvm::Twine(2 * ofTable[1].value));
  // Without a number of heads, tables are as wide as half of one.
  if (shape.size() == 3 && count == 0 && turned == 0 && !shape[2].isDynamic())
    count = shape[2].value / (2 * ofTable[1].value);
  Value heads = shape.size() == 4 ? input : headsFirst(node, input, count);
  if (node.isRefused())
    return;
  Shape split = node.graph.shapeOf(node.at, heads);
  // One position is that of the first token.
  if (ofPositions.size() == 1 && !ofPositions[0].isDynamic() && ofPositions[0].value == 1) {
    Value begin = node.cast(node.reshaped(positions, {}), node.typeOf(1), DataType::Int64);
    positions = positionsFrom(node, begin, split[0], split[2]);
  } else if (ofPositions.size() != 2) {
    return node.refuse("input 'position_ids' has " + llvm::Twine(ofPositions.size()) +
                       " dimensions, must have 2, or one element");
  }
  Value result = rotated(node, heads, positions, 2, type, isInterleaved);
  if (result)
    node.result(shape.size() == 4 ? result : rowsOf(node, result));
}

} // namespace

Value positionsFrom(NodeContext &node, Value begin, const Size &batch, const Size &sequence) {
  Type i64 = node.ops().getI64Type();
  importer::Operand operand{begin, {}};
  if (tensorType(begin).getRank() == 1)
    operand.dims = {0};
  Value result = node.ir().elementwise(
      node.at, i64, {batch, sequence}, {operand}, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        Value number = arith::IndexCastOp::create(b, at, i64, linalg::IndexOp::create(b, at, 1));
        return arith::AddIOp::create(b, at, v[0], number);
      });
  node.graph.setShape(result, {batch, sequence});
  return result;
}

Value rotated(NodeContext &node, Value heads, Value positions, size_t tables, DataType type, bool isInterleaved) {
  Shape ofTable = node.shapeOf(tables);
  int64_t features = tensorType(heads).getDimSize(3);
  if (ofTable.size() != 2 || ofTable[1].isDynamic() || ofTable[1].value < 1 || 2 * ofTable[1].value > features) {
    node.refuse("tables of cosines do not go with heads of " + llvm::Twine(features) + " features");
    return {};
  }
  return Part(node, "RotaryEmbedding", 23)
      .with(heads, type)
      .with(node.input(tables))
      .with(node.input(tables + 1))
      .with(positions, DataType::Int64)
      .set("interleaved", isInterleaved ? 1 : 0)
      .set("rotary_embedding_dim", 2 * ofTable[1].value)
      .build();
}

void attentionOfProjections(NodeContext &node, Value projections, DataType type, const AttentionInputs &inputs) {
  int64_t heads = node.integer("num_heads", 0);
  if (node.integer("do_rotary", 0) != 0)
    return node.refuse("attribute 'do_rotary' must be 0");
  Shape shape = node.graph.shapeOf(node.at, projections);
  if (node.isRefused() || shape.size() != 3 || shape[2].isDynamic() || heads < 1)
    return node.refuse("the number of heads or of features is not known");
  llvm::SmallVector<int64_t> sizes =
      node.integers("qkv_hidden_sizes").value_or(llvm::SmallVector<int64_t>(3, shape[2].value / 3));
  if (sizes.size() == 3 && llvm::all_of(sizes, [](int64_t size) { return size == 0; }))
    sizes.assign(3, shape[2].value / 3);
  if (sizes.size() != 3 || llvm::any_of(sizes, [&](int64_t size) { return size < 1 || size > shape[2].value; }) ||
      sizes[0] + sizes[1] + sizes[2] != shape[2].value || sizes[0] != sizes[1])
    return node.refuse("attribute 'qkv_hidden_sizes' does not divide " + llvm::Twine(shape[2].value) + " features");
  Heads split{headsFirst(node, node.sliced(projections, 2, 0, sizes[0]), heads),
              headsFirst(node, node.sliced(projections, 2, sizes[0], sizes[1]), heads),
              headsFirst(node, node.sliced(projections, 2, sizes[0] + sizes[1], sizes[2]), heads)};
  if (node.isRefused())
    return;
  AttentionOptions options;
  options.isCausal = node.integer("unidirectional", 0) != 0;
  Shape ofKey = node.graph.shapeOf(node.at, split.key);
  Size keys = ofKey[2];
  if (node.has(inputs.past)) {
    Value before = node.tensor(inputs.past);
    Shape own = node.graph.shapeOf(node.at, before);
    if (own.size() != 5 || own[0].isDynamic() || own[0].value != 2)
      return node.refuse("input 'past' is not [2, batch, heads, positions, features]");
    auto part = [&](int64_t which) {
      return node.reshaped(node.sliced(before, 0, which, 1), {own[1], own[2], own[3], own[4]});
    };
    options.pastKey = part(0);
    options.pastValue = part(1);
    keys = node.compute(importer::SizeOp::Add, own[3], keys);
  }
  options.mask = node.has(inputs.mask) ? maskOf(node, inputs.mask, type, ofKey[0], keys) : Value();
  options.mask = node.isRefused() ? options.mask : withBias(node, options.mask, inputs.bias, type);
  if (node.isRefused())
    return;
  Attended result = attended(node, split, type, options);
  if (node.isRefused())
    return;
  node.result(0, result.rows, type);
  if (!node.isWanted(1))
    return;
  if (sizes[2] != sizes[0])
    return node.refuse("keys and values of different sizes are not one output");
  Shape wide = node.graph.shapeOf(node.at, result.key);
  wide.insert(wide.begin(), 1);
  if (std::optional<Value> both = node.joined({node.reshaped(result.key, wide), node.reshaped(result.value, wide)}, 0))
    node.result(1, *both, type);
}

llvm::ArrayRef<OpRow> microsoftAttentionOps() {
  static const OpRow rows[] = {
      {"com.microsoft", "Attention", 1, attention},
      {"com.microsoft", "MultiHeadAttention", 1, multiHeadAttention},
      {"com.microsoft", "GroupQueryAttention", 1, groupQueryAttention},
      {"com.microsoft", "RotaryEmbedding", 1, rotaryEmbedding},
  };
  return rows;
}

} // namespace intarsia::onnx
