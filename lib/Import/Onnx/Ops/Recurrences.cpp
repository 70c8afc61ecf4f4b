//===- Recurrences.cpp - Linear attention, convolutions with a state, and caches that are written ----------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://onnx.ai/onnx/operators/onnx__LinearAttention.html, onnx__CausalConvWithState.html
// and onnx__TensorScatter.html.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/HostLoops.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>

using namespace mlir;
using intarsia::importer::SizeOp;

namespace intarsia::onnx {
namespace {

/// Each token changes a state [batch, heads, keys, values] to decay * state + key * (value - what the state has for the
/// key), which its query then reads; all in f32. Several heads of queries share one head of keys.
class LinearAttention {
public:
  LinearAttention(NodeContext &node) : node(node), ops(node.ops()), at(node.at) {}

  void build();

private:
  enum Input { Query, Key, ValueInput, Past, Decay, Beta };

  bool check();
  bool readInputs();
  LoopStep step(Value state, llvm::function_ref<Value(Value)> tokenOf);
  Value heads(Input input, const Size &count);
  Value sumOverKeys(const Shape &shape, llvm::ArrayRef<unsigned> kept, llvm::ArrayRef<importer::Operand> operands);
  Value write(Value state, Value key, Value change);

  NodeContext &node;
  OpBuilder &ops;
  Location at;
  int64_t queryHeads = 0, keyHeads = 0;
  bool isGated = false, isDelta = false;
  Value query, key, value, decay, beta, state; ///< [batch, tokens, heads, features], [batch, heads, keys, values]
  Size batch = 1, tokens = 1, keys = 1, values = 1;
  double scale = 0; ///< 0: by the number of keys
};

bool LinearAttention::check() {
  llvm::StringRef rule = node.text("update_rule", "gated_delta");
  if (!llvm::is_contained({"linear", "gated", "delta", "gated_delta"}, rule))
    node.refuse("attribute 'update_rule' is '" + rule + "', must be linear, gated, delta or gated_delta");
  isGated = rule.starts_with("gated");
  isDelta = rule.ends_with("delta");
  queryHeads = node.integer("q_num_heads", 0);
  keyHeads = node.integer("kv_num_heads", 0);
  if (keyHeads < 1 || queryHeads < keyHeads || queryHeads % keyHeads != 0)
    node.refuse("attributes 'q_num_heads' and 'kv_num_heads' are " + llvm::Twine(queryHeads) + " and " +
                llvm::Twine(keyHeads) + "; the first must be a multiple of the second");
  if (node.has(Decay) != isGated)
    node.refuse("the rule '" + rule + (isGated ? "' needs the input 'decay'" : "' has no input 'decay'"));
  if (node.has(Beta) != isDelta)
    node.refuse("the rule '" + rule + (isDelta ? "' needs the input 'beta'" : "' has no input 'beta'"));
  scale = node.number("scale", 0);
  return node.isComputed(Query) && node.areOneType({0, 1, 2, 4, 5}) && (!node.has(Past) || node.isComputed(Past));
}

/// Returns rows [batch, tokens, heads * features] of an input as [batch, tokens, heads, features] in f32.
Value LinearAttention::heads(Input input, const Size &count) {
  Value rows = node.tensor(input);
  Shape shape = node.graph.shapeOf(at, rows);
  if (shape.size() != 3) {
    node.refuse("input " + llvm::Twine(unsigned(input)) + " has " + llvm::Twine(shape.size()) +
                " dimensions, must have 3");
    return rows;
  }
  bool isKnown = !shape[2].isDynamic() && !count.isDynamic();
  if (isKnown && shape[2].value % count.value != 0) {
    node.refuse("input " + llvm::Twine(unsigned(input)) + " has " + llvm::Twine(shape[2].value) + " features, of " +
                llvm::Twine(count.value) + " heads");
    return rows;
  }
  Size features = node.compute(SizeOp::Divide, shape[2], count);
  Value wide = node.cast(rows, node.typeOf(input), DataType::Float);
  return node.reshaped(wide, {shape[0], shape[1], count, features});
}

bool LinearAttention::readInputs() {
  query = heads(Query, queryHeads);
  key = heads(Key, keyHeads);
  value = heads(ValueInput, keyHeads);
  if (node.isRefused())
    return false;
  Shape ofQuery = node.graph.shapeOf(at, query), ofKey = node.graph.shapeOf(at, key),
        ofValue = node.graph.shapeOf(at, value);
  batch = ofQuery[0], tokens = ofQuery[1], keys = ofQuery[3], values = ofValue[3];
  // All inputs have as many tokens of as many sequences as the queries.
  auto haveTokens = [&](llvm::StringRef name, const Shape &shape) {
    return requireEqual(node, dimensionOf(name, 0, shape), dimensionOf("query", 0, ofQuery)) &&
           requireEqual(node, dimensionOf(name, 1, shape), dimensionOf("query", 1, ofQuery));
  };
  if (!haveTokens("key", ofKey) || !haveTokens("value", ofValue) ||
      !requireEqual(node, {ofKey[3], "the size of a head of 'key'"}, {keys, "that of 'query'"}))
    return false;
  if (keys.isDynamic())
    keys = ofKey[3];
  if (isGated) {
    decay = heads(Decay, keyHeads);
    Shape shape = node.graph.shapeOf(at, decay);
    if (node.isRefused() || !haveTokens("decay", shape) ||
        !requireEither(node, {shape[3], "the number of elements of 'decay' for a head"}, {1, ""},
                       {keys, "one for each key"}))
      return false;
  }
  if (isDelta) {
    Shape shape = node.shapeOf(Beta);
    if (shape.size() != 3)
      return node.refuse("input 'beta' has " + llvm::Twine(shape.size()) + " dimensions, must have 3"), false;
    if (!haveTokens("beta", shape) ||
        !requireEither(node, dimensionOf("beta", 2, shape), {1, ""}, {keyHeads, "one for each head"}))
      return false;
    beta = heads(Beta, shape[2]);
  }
  if (node.isRefused())
    return false;
  Shape ofState{batch, keyHeads, keys, values};
  if (node.has(Past)) {
    Shape past = node.shapeOf(Past);
    if (past.size() != 4)
      return node.refuse("input 'past_state' has " + llvm::Twine(past.size()) + " dimensions, must have 4"), false;
    static constexpr llvm::StringLiteral names[] = {"the batch of 'query'", "'kv_num_heads'",
                                                    "the size of a head of 'key'", "the size of a head of 'value'"};
    for (auto [dimension, name] : llvm::enumerate(names))
      if (!requireEqual(node, dimensionOf("past_state", dimension, past), {ofState[dimension], name.str()}))
        return false;
    state = node.cast(node.tensor(Past), node.typeOf(Past), DataType::Float);
    state = node.reshaped(state, ofState);
  } else {
    state = node.filled(ofState, ops.getF32FloatAttr(0));
  }
  return !node.isRefused();
}

/// Sums products of two operands over one dimension.
Value LinearAttention::sumOverKeys(const Shape &shape, llvm::ArrayRef<unsigned> kept,
                                   llvm::ArrayRef<importer::Operand> operands) {
  Value sum = node.ir().reduce(at, ops.getF32FloatAttr(0), shape, kept, operands,
                               [](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                 return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, v[0], v[1]), v[2]);
                               });
  Shape result;
  for (unsigned dimension : kept)
    result.push_back(shape[dimension]);
  node.graph.setShape(sum, result);
  return sum;
}

/// Returns state + key * change.
Value LinearAttention::write(Value before, Value oneKey, Value change) {
  Shape shape{batch, keyHeads, keys, values};
  Value result = node.ir().elementwise(at, ops.getF32Type(), shape,
                                       {{before, {0, 1, 2, 3}}, {oneKey, {0, 1, 2}}, {change, {0, 1, 3}}},
                                       [](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                         Value product = arith::MulFOp::create(b, loc, v[1], v[2]);
                                         return arith::AddFOp::create(b, loc, v[0], product);
                                       });
  node.graph.setShape(result, shape);
  return result;
}

/// Computes one token. `tokenOf` returns the part [batch, heads, features] of a tensor that belongs to it.
LoopStep LinearAttention::step(Value now, llvm::function_ref<Value(Value)> tokenOf) {
  Value oneKey = tokenOf(key), oneValue = tokenOf(value);
  Shape shape{batch, keyHeads, keys, values};
  Type single = ops.getF32Type();
  if (isGated) {
    Value gate = repeatedInCall(node, tokenOf(decay), {batch, keyHeads, keys}); // [batch, heads, keys or 1]
    Shape ofGate = node.graph.shapeOf(at, gate);
    Value factor = node.broadcast({gate}, single, [](OpBuilder &b, Location loc, ValueRange v) -> Value {
      return math::ExpOp::create(b, loc, v[0]);
    });
    ofGate.push_back(1);
    now = node.broadcast(
        {now, node.reshaped(factor, ofGate)}, single,
        [](OpBuilder &b, Location loc, ValueRange v) -> Value { return arith::MulFOp::create(b, loc, v[0], v[1]); });
  }
  if (isDelta) {
    Value known = sumOverKeys(shape, {0, 1, 3}, {{now, {0, 1, 2, 3}}, {oneKey, {0, 1, 2}}});
    Value rate = repeatedInCall(node, tokenOf(beta), {batch, keyHeads, 1});
    oneValue = node.broadcast({oneValue, known, rate}, single, [](OpBuilder &b, Location loc, ValueRange v) -> Value {
      return arith::MulFOp::create(b, loc, v[2], arith::SubFOp::create(b, loc, v[0], v[1]));
    });
  }
  now = write(now, oneKey, oneValue);
  // Each group of heads of queries reads one state.
  int64_t group = queryHeads / keyHeads;
  Value oneQuery = node.reshaped(tokenOf(query), {batch, keyHeads, group, keys});
  Value read = sumOverKeys({batch, keyHeads, group, keys, values}, {0, 1, 2, 4},
                           {{oneQuery, {0, 1, 2, 3}}, {now, {0, 1, 3, 4}}});
  return {{now}, {read}, {}};
}

void LinearAttention::build() {
  if (!check() || !readInputs())
    return;
  Value result, last; // result: [batch, tokens, heads, group, values]
  int64_t group = queryHeads / keyHeads;
  if (!tokens.isDynamic() && tokens.value == 1) {
    LoopStep one = step(state, [&](Value tensor) {
      Shape shape = node.graph.shapeOf(at, tensor);
      return node.reshaped(tensor, {shape[0], shape[2], shape[3]});
    });
    last = one.carried.front();
    result = node.reshaped(one.parts.front(), {batch, 1, keyHeads, group, values});
  } else {
    HostLoop loop;
    loop.count = tokens;
    loop.carried = {state};
    auto body = [&](Value number, llvm::ArrayRef<Value> now) -> std::optional<LoopStep> {
      return step(now.front(), [&](Value tensor) { return partAt(node, tensor, 1, number); });
    };
    std::optional<LoopResults> results = buildLoop(node, loop, body);
    if (!results)
      return;
    last = results->carried.front();
    result = node.transposed(results->parts.front(), {1, 0, 2, 3, 4});
  }
  DataType type = node.typeOf(Query), ofState = node.has(Past) ? node.typeOf(Past) : type;
  // The scale is applied to all tokens at once.
  OpFoldResult count = node.ir().size(keys);
  Value scaled = node.broadcast({result}, ops.getF32Type(), [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
    Value factor;
    if (scale != 0 || !keys.isDynamic()) {
      factor = importer::floatConstant(b, loc, b.getF32Type(), scale != 0 ? scale : 1 / std::sqrt(double(keys.value)));
    } else {
      Value size = arith::IndexCastOp::create(b, loc, b.getI64Type(), getValueOrCreateConstantIndexOp(b, loc, count));
      factor = math::RsqrtOp::create(b, loc, arith::SIToFPOp::create(b, loc, b.getF32Type(), size));
    }
    return arith::MulFOp::create(b, loc, v[0], factor);
  });
  Size features = node.product({Size(queryHeads), values});
  node.result(0, node.cast(node.reshaped(scaled, {batch, tokens, features}), DataType::Float, type), type);
  node.result(1, node.cast(last, DataType::Float, ofState), ofState);
}

void linearAttention(NodeContext &node) { LinearAttention(node).build(); }

/// TensorScatter: writes the positions of an update along an axis of a cache, from an index of each sequence on. Each
/// position of the result reads the update if it is one of those, and the cache otherwise.
void tensorScatter(NodeContext &node) {
  Value cache = node.tensor(0), update = node.tensor(1);
  Shape shape = node.graph.shapeOf(node.at, cache), ofUpdate = node.graph.shapeOf(node.at, update);
  int64_t axis = node.axis(node.integer("axis", -2), shape.size());
  llvm::StringRef mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    node.refuse("attribute 'mode' is '" + mode + "', must be linear or circular");
  if (node.isRefused() || !node.areOneType({0, 1}) || (node.has(2) && !node.isOf(2, isIndex, "int64")))
    return;
  if (axis == 0 || ofUpdate.size() != shape.size())
    return node.refuse("'axis' is " + llvm::Twine(axis) + ", of tensors of " + llvm::Twine(shape.size()) + " and " +
                       llvm::Twine(ofUpdate.size()) + " dimensions");
  for (unsigned dimension = 0; dimension < shape.size(); ++dimension) {
    NamedSize whole = dimensionOf("past_cache", dimension, shape), part = dimensionOf("update", dimension, ofUpdate);
    if (!(int64_t(dimension) == axis ? requireAtMost(node, part, whole) : requireEqual(node, part, whole)))
      return;
  }
  Value begin = node.has(2) ? node.tensor(2) : Value();
  if (begin && tensorType(begin).getRank() != 1)
    return node.refuse("'write_indices' has " + llvm::Twine(tensorType(begin).getRank()) + " dimensions, must have 1");
  if (begin && !requireEqual(node, dimensionOf("write_indices", 0, node.graph.shapeOf(node.at, begin)),
                             dimensionOf("past_cache", 0, shape)))
    return;
  if (Size length = ofUpdate[axis]; node.isRefused() || (!length.isDynamic() && length.value == 0))
    return node.result(cache);
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  llvm::SmallVector<importer::Operand> operands{{cache, all}};
  if (begin)
    operands.push_back({begin, {0}});
  OpFoldResult room = node.ir().size(shape[axis]), length = node.ir().size(ofUpdate[axis]);
  bool isCircular = mode == "circular";
  Type element = tensorType(cache).getElementType();
  Value result =
      node.ir().elementwise(node.at, element, shape, operands, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        llvm::SmallVector<Value> position = positionOf(b, at, shape.size());
        Value place = position[axis];
        if (begin)
          place = arith::SubIOp::create(b, at, place, arith::IndexCastOp::create(b, at, b.getIndexType(), v[1]));
        if (isCircular) {
          Value size = getValueOrCreateConstantIndexOp(b, at, room);
          Value rest = arith::RemSIOp::create(b, at, place, size);
          Value zero = arith::ConstantIndexOp::create(b, at, 0);
          Value isNegative = arith::CmpIOp::create(b, at, arith::CmpIPredicate::slt, rest, zero);
          place = arith::SelectOp::create(b, at, isNegative, arith::AddIOp::create(b, at, rest, size), rest);
        }
        position[axis] = clampedTo(b, at, place, length);
        auto chosen = scf::IfOp::create(
            b, at, isIn(b, at, place, length),
            [&](OpBuilder &inner, Location loc) {
              scf::YieldOp::create(inner, loc, tensor::ExtractOp::create(inner, loc, update, position).getResult());
            },
            [&](OpBuilder &inner, Location loc) { scf::YieldOp::create(inner, loc, v[0]); });
        return chosen.getResult(0);
      });
  node.graph.setShape(result, shape);
  node.result(result);
}

/// CausalConvWithState: a convolution of each channel over the past positions, which are an input, and those of the
/// input. The last positions are a result: the past of the next call.
void causalConv(NodeContext &node) {
  Value input = node.tensor(0), weight = node.tensor(1), bias = node.has(2) ? node.tensor(2) : Value();
  llvm::StringRef activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    node.refuse("attribute 'activation' is '" + activation + "', must be none, silu or swish");
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2, 3}))
    return;
  DataType type = node.typeOf(0);
  Shape shape = node.graph.shapeOf(node.at, input), ofWeight = node.graph.shapeOf(node.at, weight);
  auto isSame = [](const Size &size, int64_t wanted) { return size.isDynamic() || size.value == wanted; };
  if (shape.size() != 3 || ofWeight.size() != 3 || !isSame(ofWeight[1], 1) ||
      (!shape[1].isDynamic() && !isSame(ofWeight[0], shape[1].value)) ||
      (!ofWeight[2].isDynamic() && ofWeight[2].value < 1))
    return node.refuse("the weight does not have one window for each channel of the input");
  Size channels = shape[1].isDynamic() ? ofWeight[0] : shape[1], window = ofWeight[2];
  if (!requireEqual(node, dimensionOf("weight", 0, ofWeight), dimensionOf("input", 1, shape)))
    return;
  // The number of channels is known from now on, if it is so of the weight.
  shape[1] = channels;
  input = node.reshaped(input, shape);
  if (bias && (tensorType(bias).getRank() != 1 ||
               (!channels.isDynamic() && !isSame(node.graph.shapeOf(node.at, bias)[0], channels.value))))
    return node.refuse("the bias has no element for each channel of the input");
  Value whole = input;
  Size before = node.compute(importer::SizeOp::Subtract, window, 1);
  if (window.isDynamic() || window.value > 1) {
    Value past =
        node.has(3) ? node.tensor(3) : node.filled({shape[0], channels, before}, node.numberAttribute(type, 0));
    // A call whose past has another number of positions ends with an error.
    if (Shape own = node.graph.shapeOf(node.at, past); own.size() == 3 && (before.isDynamic() || own[2].isDynamic()))
      past = node.reshaped(past, {own[0], own[1], before});
    std::optional<Value> both = node.joined({past, input}, 2);
    if (!both)
      return;
    if (Size length = node.graph.shapeOf(node.at, past)[2]; !length.isDynamic() && !isSame(before, length.value))
      return node.refuse("the past has " + llvm::Twine(length.value) + " positions, must have " +
                         llvm::Twine(before.value));
    whole = *both;
  }
  importer::Windows windows;
  if (channels.isDynamic() || window.isDynamic() || ofWeight[1].isDynamic()) {
    windows.strides = windows.dilations = {1};
    windows.padsLow = windows.padsHigh = {0};
    Value result = convInCall(node, whole, weight, channels, windows, {shape[2]});
    if (bias)
      result = combine(node, {result, node.reshaped(bias, {channels, 1})}, type, [](Scalars &s, Value x, Value y) {
        return arith::AddFOp::create(s.builder, s.at, x, y).getResult();
      });
    if (activation != "none")
      result = node.ir().activation(node.at, result, importer::Activation::Silu);
    node.result(0, result, type);
    if (node.isWanted(1))
      node.result(1, node.sliced(whole, 2, shape[2], before), type);
    return;
  }
  windows.window = {window.value};
  windows.groups = channels.value;
  Value last = node.ir().channelsLast(node.at, whole);
  Value result = node.ir().conv(node.at, last, node.ir().convWeight(node.at, weight), bias, windows);
  if (activation != "none")
    result = node.ir().activation(node.at, result, importer::Activation::Silu);
  node.result(0, node.ir().channelsFirst(node.at, result), type);
  if (node.isWanted(1))
    node.result(1, node.sliced(whole, 2, shape[2], before), type);
}

} // namespace

llvm::ArrayRef<OpRow> recurrenceOps() {
  static const OpRow rows[] = {
      {"", "LinearAttention", 27, linearAttention},
      {"", "CausalConvWithState", 27, causalConv},
      {"", "TensorScatter", 24, tensorScatter, Takes::Elements},
  };
  return rows;
}

} // namespace intarsia::onnx
