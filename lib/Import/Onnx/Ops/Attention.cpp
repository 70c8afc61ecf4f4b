//===- Attention.cpp - Attention, rotary positions, what language models are made of -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://onnx.ai/onnx/operators/onnx__Attention.html (versions 23 to 25) and onnx__RotaryEmbedding.html.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// Returns rows [batch, sequence, heads * features] as [batch, heads, sequence, features].
Value headsFirst(NodeContext &node, Value rows, int64_t heads) {
  Shape shape = node.graph.shapeOf(node.at, rows);
  if (shape.size() == 4)
    return rows;
  if (!requireMultiple(node, {shape[2], "the number of features"}, {heads, "the number of heads"}))
    return rows;
  Size features = node.compute(importer::SizeOp::Divide, shape[2], heads);
  return node.transposed(node.reshaped(rows, {shape[0], shape[1], heads, features}), {0, 2, 1, 3});
}

/// Returns [batch, heads, …] with `wanted` heads: each head is repeated, and stands beside its copies. Refuses the node
/// if `wanted` is not a multiple of the number of heads.
std::optional<Value> repeatedHeads(NodeContext &node, Value heads, const Size &wanted) {
  Shape shape = node.graph.shapeOf(node.at, heads);
  if (node.graph.areEqual(shape[1], wanted))
    return heads;
  if (!requireMultiple(node, {wanted, "the number of heads of input 'Q'"}, {shape[1], "that of input 'K'"}))
    return std::nullopt;
  if (!wanted.isDynamic() && !shape[1].isDynamic()) {
    int64_t times = wanted.value / shape[1].value;
    Shape split{shape[0], shape[1], times, shape[2], shape[3]};
    Value repeated = node.broadcastTo(node.reshaped(heads, {shape[0], shape[1], 1, shape[2], shape[3]}), split);
    return node.reshaped(repeated, {shape[0], wanted, shape[2], shape[3]});
  }
  OpFoldResult own = node.ir().size(shape[1]), all = node.ir().size(wanted);
  shape[1] = wanted;
  Value result = node.ir().elementwise(
      node.at, tensorType(heads).getElementType(), shape, {}, [&](OpBuilder &b, Location at, ValueRange) -> Value {
        llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
        Value product = arith::MulIOp::create(b, at, position[1], getValueOrCreateConstantIndexOp(b, at, own));
        Value head = arith::DivUIOp::create(b, at, product, getValueOrCreateConstantIndexOp(b, at, all));
        position[1] = clampedTo(b, at, head, own);
        return tensor::ExtractOp::create(b, at, heads, position);
      });
  node.graph.setShape(result, shape);
  return result;
}

/// Multiplies scores by a scale, or by 1 / sqrt(features) if none is given.
Value scaled(NodeContext &node, Value scores, DataType type, std::optional<double> scale, const Size &features) {
  if (!scale && !features.isDynamic())
    scale = 1 / std::sqrt(double(features.value));
  OpFoldResult count = node.ir().size(features);
  return unary(node, scores, type, [&](Scalars &s, Value x) -> Value {
    if (scale)
      return arith::MulFOp::create(s.builder, s.at, x, s.number(*scale));
    Value size = getValueOrCreateConstantIndexOp(s.builder, s.at, count);
    size = arith::IndexCastOp::create(s.builder, s.at, s.builder.getI64Type(), size);
    Value root = math::SqrtOp::create(s.builder, s.at, arith::SIToFPOp::create(s.builder, s.at, s.element, size));
    return arith::DivFOp::create(s.builder, s.at, x, root);
  });
}

/// Which keys a query may read.
struct Visibility {
  bool isCausal = false;
  int64_t left = -1, right = -1; ///< positions that a window reaches over, -1 without limit
  Size past = 0;                 ///< keys before the first query, where each batch has as many
  bool isLengthGiven = false;    ///< the numbers of keys are an input
};

/// Adds a mask to scores [batch, heads, queries, keys], and makes those of keys that a query may not read -inf.
Value masked(NodeContext &node, Value scores, Value mask, DataType ofMask, Value lengths, const Visibility &visible) {
  DataType type = node.typeOf(0);
  llvm::SmallVector<Value> operands{scores};
  if (mask)
    operands.push_back(mask);
  if (lengths)
    operands.push_back(lengths);
  bool isAnyHidden = visible.isCausal || visible.left >= 0 || visible.right >= 0 || lengths;
  if (operands.size() == 1 && !isAnyHidden)
    return scores;
  OpFoldResult past = node.ir().size(visible.past), queries = node.ir().size(node.graph.shapeOf(node.at, scores)[2]);
  Type element = node.irType(type);
  return node.broadcast(operands, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
    auto indexOf = [&](OpFoldResult size) { return getValueOrCreateConstantIndexOp(b, at, size); };
    auto both = [&](Value one, Value other) -> Value {
      return one ? Value(arith::AndIOp::create(b, at, one, other)) : other;
    };
    auto compare = [&](arith::CmpIPredicate predicate, Value one, Value other) -> Value {
      return arith::CmpIOp::create(b, at, predicate, one, other);
    };
    Value score = v[0], isSeen;
    if (mask && ofMask == DataType::Bool)
      isSeen = v[1];
    else if (mask)
      score = arith::AddFOp::create(b, at, score, v[1]);
    Value key = linalg::IndexOp::create(b, at, 3), query = linalg::IndexOp::create(b, at, 2), offset = indexOf(past);
    if (lengths) {
      Value length = arith::IndexCastOp::create(b, at, b.getIndexType(), v[operands.size() - 1]);
      isSeen = both(isSeen, compare(arith::CmpIPredicate::slt, key, length));
      offset = arith::SubIOp::create(b, at, length, indexOf(queries));
    }
    Value position = arith::AddIOp::create(b, at, query, offset);
    if (visible.isCausal)
      isSeen = both(isSeen, compare(arith::CmpIPredicate::sle, key, position));
    auto moved = [&](int64_t by) -> Value {
      return arith::AddIOp::create(b, at, position, arith::ConstantIndexOp::create(b, at, by));
    };
    if (visible.left >= 0)
      isSeen = both(isSeen, compare(arith::CmpIPredicate::sge, key, moved(-visible.left)));
    if (visible.right >= 0)
      isSeen = both(isSeen, compare(arith::CmpIPredicate::sle, key, moved(visible.right)));
    if (!isSeen)
      return score;
    Value least = importer::floatConstant(b, at, element, -std::numeric_limits<double>::infinity());
    return arith::SelectOp::create(b, at, isSeen, score, least);
  });
}

/// Returns a mask whose sizes the call decides, repeated along dimensions of one element; keys behind its last one are
/// not read.
Value maskOfCall(NodeContext &node, Value mask, DataType type, const Shape &scores) {
  Shape own = node.graph.shapeOf(node.at, mask), shape(scores.end() - own.size(), scores.end());
  bool isKnown = true;
  llvm::SmallVector<OpFoldResult> sizes;
  llvm::SmallVector<bool> isOfCall;
  for (auto [number, pair] : llvm::enumerate(llvm::zip_equal(own, shape))) {
    auto &[size, wanted] = pair;
    // The last dimension of a mask may have fewer keys than the scores. The others have the size of the scores, or 1.
    bool isOne = !size.isDynamic() && size.value == 1, isLast = number + 1 == own.size();
    isOfCall.push_back(!isOne && (size.isDynamic() || isLast) && !node.graph.areEqual(size, wanted));
    isKnown &= !isOfCall.back();
    NamedSize given = dimensionOf("attn_mask", number, own), there{wanted, "that of the scores"};
    bool isPossible =
        isOne || (isLast ? requireAtMost(node, given, there) : requireEither(node, given, {1, ""}, there));
    if (!isPossible)
      return mask;
    sizes.push_back(node.ir().size(size));
    if (!size.isDynamic() && size.value == 1)
      wanted = 1;
  }
  if (isKnown)
    return mask;
  double hidden = type == DataType::Bool ? 0 : -std::numeric_limits<double>::infinity();
  Value result = node.ir().elementwise(
      node.at, tensorType(mask).getElementType(), shape, {}, [&](OpBuilder &b, Location at, ValueRange) -> Value {
        llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
        Value last = getValueOrCreateConstantIndexOp(b, at, sizes.back()),
              one = arith::ConstantIndexOp::create(b, at, 1);
        Value isRepeated = arith::CmpIOp::create(b, at, arith::CmpIPredicate::eq, last, one);
        Value isSeen = arith::OrIOp::create(b, at, isRepeated, isIn(b, at, position.back(), sizes.back()));
        for (auto [index, size, isClamped] : llvm::zip_equal(position, sizes, isOfCall))
          index = isClamped ? clampedTo(b, at, index, size) : index;
        Value element = tensor::ExtractOp::create(b, at, mask, position);
        Value outside = arith::ConstantOp::create(b, at, node.numberAttribute(type, hidden));
        return arith::SelectOp::create(b, at, isSeen, element, outside);
      });
  node.graph.setShape(result, shape);
  return result;
}

/// Joins tensors along an axis. The result has the sizes `shape`, which the caller knows.
Value joinedAs(NodeContext &node, llvm::ArrayRef<Value> tensors, int64_t axis, const Shape &shape) {
  Value whole = node.ir().concat(node.at, tensors, axis);
  node.graph.setShape(whole, shape);
  return whole;
}

/// Returns a mask with as many keys as there are. Keys behind the last one that the mask has are not read.
Value withAllKeys(NodeContext &node, Value mask, DataType type, const Size &keys) {
  Shape shape = node.graph.shapeOf(node.at, mask);
  Size has = shape.empty() ? Size(1) : shape.back();
  if (has.isDynamic() || keys.isDynamic() || has.value >= keys.value || has.value == 1)
    return mask;
  shape.back() = keys.value - has.value;
  double hidden = type == DataType::Bool ? 0 : -std::numeric_limits<double>::infinity();
  Value rest = node.filled(shape, node.numberAttribute(type, hidden));
  shape.back() = keys;
  return joinedAs(node, {mask, rest}, shape.size() - 1, shape);
}

/// Checks that keys and values [batch, heads, sequence, features] go with queries.
bool areAttended(NodeContext &node, const Shape &query, const Shape &key, const Shape &value) {
  auto sizeOf = [](llvm::StringRef what, llvm::StringRef input, const Size &size) {
    return NamedSize{size, ("the " + what + " of input '" + input + "'").str()};
  };
  return requireEqual(node, sizeOf("batch", "K", key[0]), sizeOf("batch", "Q", query[0])) &&
         requireEqual(node, sizeOf("batch", "V", value[0]), sizeOf("batch", "Q", query[0])) &&
         requireEqual(node, sizeOf("number of heads", "V", value[1]), sizeOf("number of heads", "K", key[1])) &&
         requireEqual(node, sizeOf("length", "V", value[2]), sizeOf("length", "K", key[2])) &&
         requireEqual(node, sizeOf("size of a head", "K", key[3]), sizeOf("size of a head", "Q", query[3]));
}

/// Returns the type in which the softmax is computed. Refuses the node if the attribute names no float type.
DataType softmaxPrecision(NodeContext &node, DataType byDefault) {
  // Exporters write 0 for no type.
  int64_t given = node.integer("softmax_precision", 0);
  auto precision = given == 0 ? byDefault : DataType(given);
  if (!isComputedByNn(precision) && precision != DataType::Double)
    node.refuse("attribute 'softmax_precision' is " + nameOf(precision) + ", must be a float of 16 bits or more");
  return precision;
}

void attention(NodeContext &node) {
  Value query = node.tensor(0), key = node.tensor(1), value = node.tensor(2);
  DataType type = node.typeOf(0);
  if ((type != DataType::Double && !node.isComputed(0)) || !node.areOneType({0, 1, 2}))
    return;
  int64_t rank = tensorType(query).getRank();
  int64_t queryHeads = node.integer("q_num_heads", 0), keyHeads = node.integer("kv_num_heads", 0);
  if ((rank != 3 && rank != 4) || tensorType(key).getRank() != rank || tensorType(value).getRank() != rank ||
      (rank == 3 && (queryHeads < 1 || keyHeads < 1)))
    return node.refuse("inputs are of " + llvm::Twine(rank) +
                       " dimensions, must have 4, or 3 and both numbers of heads");
  query = headsFirst(node, query, queryHeads);
  key = headsFirst(node, key, keyHeads);
  value = headsFirst(node, value, keyHeads);
  if (node.isRefused())
    return;
  Visibility visible;
  visible.isCausal = node.integer("is_causal", 0) != 0;
  visible.left = node.integer("left_window_size", -1);
  visible.right = node.integer("right_window_size", -1);
  if (node.has(4) != node.has(5))
    node.refuse(node.has(4) ? "has the input 'past_key' and no 'past_value'"
                            : "has the input 'past_value' and no 'past_key'");
  if (node.isRefused() || !areAttended(node, node.graph.shapeOf(node.at, query), node.graph.shapeOf(node.at, key),
                                       node.graph.shapeOf(node.at, value)))
    return;
  auto withPast = [&](size_t input, Value current) {
    if (!node.has(input))
      return current;
    Value past = node.tensor(input);
    if (!node.areOneType({0, input}))
      return current;
    Shape shape = node.graph.shapeOf(node.at, past), now = node.graph.shapeOf(node.at, current);
    llvm::StringRef name = input == 4 ? "past_key" : "past_value";
    if (shape.size() != 4) {
      node.refuse("input '" + name + "' has " + llvm::Twine(shape.size()) + " dimensions, must have 4");
      return current;
    }
    for (unsigned dimension : {0, 1, 3})
      if (!requireEqual(node, dimensionOf(name, dimension, shape), dimensionOf(input == 4 ? "K" : "V", dimension, now)))
        return current;
    std::optional<Value> whole = node.joined({past, current}, 2);
    if (!whole)
      return current;
    visible.past = node.graph.shapeOf(node.at, past)[2];
    return *whole;
  };
  key = withPast(4, key);
  value = withPast(5, value);
  node.result(1, key, type);
  node.result(2, value, type);
  Shape ofQuery = node.graph.shapeOf(node.at, query), ofKey = node.graph.shapeOf(node.at, key),
        ofValue = node.graph.shapeOf(node.at, value);
  if (node.isRefused() ||
      !requireEqual(node, {ofValue[2], "the length of 'past_value' and 'V'"}, {ofKey[2], "that of 'past_key' and 'K'"}))
    return;
  std::optional<Value> allKeys = repeatedHeads(node, key, ofQuery[1]),
                       allValues = repeatedHeads(node, value, ofQuery[1]);
  if (!allKeys || !allValues)
    return;
  key = *allKeys, value = *allValues;
  OpBuilder &ops = node.ops();
  auto product = [&](Value left, Value right, bool isTurned, Shape shape) {
    if (type == DataType::Double)
      return matrixProduct(node, left, isTurned ? node.transposed(right, {0, 1, 3, 2}) : right, type).value_or(left);
    Value result = nn::MatmulOp::create(ops, node.at, node.ir().tensorType(shape, node.irType(type)), left, right,
                                        UnitAttr(), isTurned ? ops.getUnitAttr() : UnitAttr(), TypeAttr());
    node.graph.setShape(result, shape);
    return result;
  };
  double softcap = node.number("softcap", 0);
  std::optional<double> scale;
  if (node.hasAttribute("scale"))
    scale = node.number("scale", 0);
  Value scores = product(query, key, true, {ofQuery[0], ofQuery[1], ofQuery[2], ofKey[2]});
  scores = scaled(node, scores, type, scale, ofQuery[3]);
  int64_t shown = node.integer("qk_matmul_output_mode", 0);
  if (shown < 0 || shown > 3)
    return node.refuse("attribute 'qk_matmul_output_mode' is " + llvm::Twine(shown) + ", must be 0 to 3");
  if (shown == 0)
    node.result(3, scores, type);
  if (softcap > 0)
    scores = unary(node, scores, type, [&](Scalars &s, Value x) -> Value {
      Value divided = arith::DivFOp::create(s.builder, s.at, x, s.number(softcap));
      return arith::MulFOp::create(s.builder, s.at, s.inSingle<math::TanhOp>(divided), s.number(softcap));
    });
  if (shown == 1)
    node.result(3, scores, type);
  Value lengths;
  if (node.has(6)) {
    Value given = node.tensor(6);
    Shape batch = node.graph.shapeOf(node.at, given);
    if (!isIndex(node.typeOf(6)) || batch.size() != 1)
      return node.refuse("input 'nonpad_kv_seqlen' is " + nameOf(node.typeOf(6)) + " of " + llvm::Twine(batch.size()) +
                         " dimensions, must be int64 of 1");
    if (!requireEqual(node, dimensionOf("nonpad_kv_seqlen", 0, batch), dimensionOf("Q", 0, ofQuery)))
      return;
    lengths = node.reshaped(given, {ofQuery[0], 1, 1, 1});
  }
  Value mask;
  DataType ofMask = node.has(3) ? node.typeOf(3) : type;
  if (node.has(3)) {
    mask = node.tensor(3);
    if (int64_t dimensions = tensorType(mask).getRank(); dimensions > 4)
      return node.refuse("input 'attn_mask' has " + llvm::Twine(dimensions) + " dimensions, must have at most 4");
    // Numbers of any type are added to scores.
    if (!isBool(ofMask)) {
      mask = node.cast(mask, ofMask, type);
      ofMask = type;
    }
    mask = withAllKeys(node, mask, ofMask, ofKey[2]);
    if (tensorType(mask).getRank() > 0 && !node.isRefused())
      mask = maskOfCall(node, mask, ofMask, node.graph.shapeOf(node.at, scores));
  }
  DataType precision = softmaxPrecision(node, type);
  if (node.isRefused())
    return;
  scores = masked(node, scores, mask, ofMask, lengths, visible);
  if (shown == 2)
    node.result(3, scores, type);
  // Softmax is computed in f32 at most. Scores are widened if the node says so, and never narrowed.
  if (precision == DataType::Double || type == DataType::Double)
    precision = DataType::Float;
  else if (precision != DataType::Float)
    precision = type;
  Value wide = node.cast(scores, type, precision);
  Shape shape = node.graph.shapeOf(node.at, wide);
  Value weights = nn::SoftmaxOp::create(ops, node.at, wide.getType(), wide);
  node.graph.setShape(weights, shape);
  weights = node.cast(weights, precision, type);
  if (shown == 3)
    node.result(3, weights, type);
  Value result = product(weights, value, false, {ofQuery[0], ofQuery[1], ofQuery[2], ofValue[3]});
  if (rank == 3)
    result = node.reshaped(node.transposed(result, {0, 2, 1, 3}),
                           {ofQuery[0], ofQuery[2], node.product({ofQuery[1], ofValue[3]})});
  node.result(0, result, type);
}

/// Builds a graph that changes the elements of a tensor: of one input and one output, of the same type and shape.
std::optional<Value> modified(NodeContext &node, llvm::StringRef name, Value tensor, DataType type) {
  if (!node.hasAttribute(name))
    return tensor;
  const Graph *graph = node.subgraph(name);
  if (!graph)
    return std::nullopt;
  if (graph->inputs.size() != 1 || graph->outputs.size() != 1) {
    node.refuse("attribute '" + name + "' is no graph of one input and one output");
    return std::nullopt;
  }
  GraphValue given;
  given.type = type;
  given.tensor = tensor;
  GraphValue made = node.graph.buildNested(*graph, given).front();
  if (node.ir().sink().any() || made.isRefused) {
    node.leaveOut();
    return std::nullopt;
  }
  Value result = made.isTensor() && made.type == type ? node.graph.tensorOf(node.at, made) : Value();
  if (!result || tensorType(result).getRank() != tensorType(tensor).getRank()) {
    node.refuse("attribute '" + name + "' gives a tensor of other elements or dimensions than it gets");
    return std::nullopt;
  }
  // A score may be the same for all queries.
  Shape shape = node.graph.shapeOf(node.at, tensor);
  if (std::optional<Shape> whole = node.broadcastShape({shape, node.graph.shapeOf(node.at, result)}))
    return node.broadcastTo(result, *whole);
  return std::nullopt;
}

/// FlexAttention: attention in which graphs of the model change the scores and the probabilities.
void flexAttention(NodeContext &node) {
  Value query = node.tensor(0), key = node.tensor(1), value = node.tensor(2);
  DataType type = node.typeOf(0);
  if (!node.isOf(0, isFloat, "floats") || !node.areOneType({0, 1, 2}))
    return;
  for (Value tensor : {query, key, value})
    if (tensorType(tensor).getRank() != 4)
      return node.refuse("inputs are of " + llvm::Twine(tensorType(tensor).getRank()) + " dimensions, must have 4");
  DataType precision = softmaxPrecision(node, isComputedByNn(type) ? DataType::Float : type);
  Shape ofQuery = node.graph.shapeOf(node.at, query);
  if (node.isRefused() ||
      !areAttended(node, ofQuery, node.graph.shapeOf(node.at, key), node.graph.shapeOf(node.at, value)))
    return;
  std::optional<Value> keys = repeatedHeads(node, key, ofQuery[1]), values = repeatedHeads(node, value, ofQuery[1]);
  if (!keys || !values)
    return;
  std::optional<double> scale;
  if (node.hasAttribute("scale"))
    scale = node.number("scale", 1);
  std::optional<Value> scores = matrixProduct(node, query, node.transposed(*keys, {0, 1, 3, 2}), type);
  if (!scores)
    return;
  // Rounded once: the scale is applied in the precision of the softmax.
  scores = scaled(node, node.cast(*scores, type, precision), precision, scale, ofQuery[3]);
  scores = modified(node, "score_mod", *scores, precision);
  if (!scores)
    return;
  DataType computed = precision == DataType::Double ? DataType::Float : precision;
  Value single = node.cast(*scores, precision, computed);
  Shape shape = node.graph.shapeOf(node.at, single);
  Value weights = nn::SoftmaxOp::create(node.ops(), node.at, single.getType(), single);
  node.graph.setShape(weights, shape);
  std::optional<Value> changed = modified(node, "prob_mod", node.cast(weights, computed, precision), precision);
  if (!changed)
    return;
  std::optional<Value> result = matrixProduct(node, *changed, node.cast(*values, type, precision), precision);
  if (result)
    node.result(0, node.cast(*result, precision, type), type);
}

/// RotaryEmbedding: rotates pairs of features by angles. Their cosines and sines are tables [positions, pairs], or
/// [batch, sequence, pairs].
void rotaryEmbedding(NodeContext &node) {
  Value input = node.tensor(0), cosines = node.tensor(1), sines = node.tensor(2);
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2}) || !node.isOf(3, isIndex, "int32 or int64"))
    return;
  DataType type = node.typeOf(0);
  Shape given = node.graph.shapeOf(node.at, input);
  bool isInterleaved = node.integer("interleaved", 0) != 0;
  int64_t heads = node.integer("num_heads", 0), turned = node.integer("rotary_embedding_dim", 0);
  if ((given.size() != 3 && given.size() != 4) || (given.size() == 3 && heads < 1) ||
      (given.size() == 3 && !given.back().isDynamic() && given.back().value % heads != 0))
    return node.refuse("the input has " + llvm::Twine(given.size()) +
                       " dimensions, must have 4, or 3 and a number of "
                       "heads");
  Value rows =
      given.size() == 4
          ? node.transposed(input, {0, 2, 1, 3})
          : node.reshaped(input, {given[0], given[1], heads, node.compute(importer::SizeOp::Divide, given[2], heads)});
  Shape shape = node.graph.shapeOf(node.at, rows);
  Size features = shape[3];
  if (turned % 2 != 0 || turned < 0 ||
      (!features.isDynamic() && (turned ? turned > features.value : features.value % 2 != 0 || features.value < 2)))
    return node.refuse("attribute 'rotary_embedding_dim' is " + llvm::Twine(turned) + ", of " +
                       (features.isDynamic() ? "any number of" : std::to_string(features.value)) + " features");
  // The reshape below ends a call whose number of features is odd.
  Size half = turned ? Size(turned / 2) : node.compute(importer::SizeOp::Divide, features, 2);
  Size both = turned                 ? Size(turned)
              : features.isDynamic() ? node.compute(importer::SizeOp::Multiply, half, 2)
                                     : features;
  // The angles of each row: [batch, sequence, 1, pairs].
  auto anglesOf = [&](Value table) {
    Shape own = node.graph.shapeOf(node.at, table);
    if (!node.has(3)) {
      if (own.size() == 3)
        return node.reshaped(table, {own[0], own[1], 1, own[2]});
      node.refuse("tables have " + llvm::Twine(own.size()) + " dimensions");
      return table;
    }
    Value positions = node.tensor(3);
    Shape which = node.graph.shapeOf(node.at, positions);
    if (own.size() != 2 || which.size() != 2) {
      node.refuse("tables have " + llvm::Twine(own.size()) + " dimensions");
      return table;
    }
    Value picked = node.ir().embedding(node.at, table, positions, node.irType(type));
    node.graph.setShape(picked, {which[0], which[1], own[1]});
    return node.reshaped(picked, {which[0], which[1], 1, own[1]});
  };
  Value cosine = anglesOf(cosines), sine = anglesOf(sines);
  if (node.isRefused())
    return;
  Value first = isInterleaved ? node.sliced(rows, 3, 0, half, 2) : node.sliced(rows, 3, 0, half);
  Value second = isInterleaved ? node.sliced(rows, 3, 1, half, 2) : node.sliced(rows, 3, half, half);
  auto turn = [&](Value one, Value other, bool isFirst) {
    Type element = node.irType(type);
    return node.broadcast({one, other, cosine, sine}, element, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
      Value kept = arith::MulFOp::create(b, at, v[0], v[2]), moved = arith::MulFOp::create(b, at, v[1], v[3]);
      if (isFirst)
        return arith::SubFOp::create(b, at, kept, moved);
      return arith::AddFOp::create(b, at, kept, moved);
    });
  };
  Value real = turn(first, second, true), imaginary = turn(second, first, false);
  Value result;
  Shape pairs{shape[0], shape[1], shape[2], half, 1}, whole{shape[0], shape[1], shape[2], both};
  if (isInterleaved) {
    Value paired = joinedAs(node, {node.reshaped(real, pairs), node.reshaped(imaginary, pairs)}, 4,
                            {shape[0], shape[1], shape[2], half, 2});
    result = node.reshaped(paired, whole);
  } else {
    result = joinedAs(node, {real, imaginary}, 3, whole);
  }
  if (turned && (features.isDynamic() || turned < features.value)) {
    Value rest = node.sliced(rows, 3, turned, node.compute(importer::SizeOp::Subtract, features, turned));
    result = joinedAs(node, {result, rest}, 3, shape);
  }
  node.result(given.size() == 4 ? node.transposed(result, {0, 2, 1, 3}) : node.reshaped(result, given));
}

/// Computes a * sigmoid(alpha * a) * b.
void swiGlu(NodeContext &node) {
  double alpha = node.number("alpha", 1);
  Value a = node.tensor(0), b = node.tensor(1);
  if (!node.isOf(0, isFloat, "floats") || !node.areOneType({0, 1}))
    return;
  node.result(combine(node, {a, b}, node.typeOf(0), [&](Scalars &s, Value x, Value y) -> Value {
    Value negative = arith::MulFOp::create(s.builder, s.at, x, s.number(-alpha));
    Value sum = arith::AddFOp::create(s.builder, s.at, s.number(1), s.inSingle<math::ExpOp>(negative));
    return arith::MulFOp::create(s.builder, s.at, arith::DivFOp::create(s.builder, s.at, x, sum), y);
  }));
}

} // namespace

llvm::ArrayRef<OpRow> attentionOps() {
  static const OpRow rows[] = {
      {"", "Attention", 23, attention},
      {"", "RotaryEmbedding", 23, rotaryEmbedding},
      {"ai.onnx.preview", "FlexAttention", 1, flexAttention},
      {"", "SwiGLU", 28, swiGlu},
  };
  return rows;
}

} // namespace intarsia::onnx
