//===- Recurrent.cpp - Recurrent layers, and sequences of different lengths ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"
#include "lib/Import/Onnx/Ops/CallChecks.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// An activation of a layer. Numbers that the model does not give are those of the op of its name; NaN if that has
/// none.
struct ActivationRow {
  llvm::StringLiteral name;
  nn::RecurrentActivation activation;
  bool hasAlpha = false, hasBeta = false;
  float alpha = 0, beta = 0;
};

const ActivationRow *findActivation(llvm::StringRef name) {
  using A = nn::RecurrentActivation;
  static const ActivationRow rows[] = {
      {"Sigmoid", A::Sigmoid},
      {"Tanh", A::Tanh},
      {"Relu", A::Relu},
      {"Affine", A::Affine, true, true, 1, 0},
      {"ScaledTanh", A::ScaledTanh, true, true, NAN, NAN},
      {"Softplus", A::Softplus},
      {"Softsign", A::Softsign},
      {"LeakyRelu", A::LeakyRelu, true, false, 0.01f},
      {"ThresholdedRelu", A::ThresholdedRelu, true, false, 1},
      {"HardSigmoid", A::HardSigmoid, true, true, 0.2f, 0.5f},
      {"Elu", A::Elu, true, false, 1},
  };
  const auto *row = llvm::find_if(rows, [&](const ActivationRow &row) { return name.equals_insensitive(row.name); });
  return row == std::end(rows) ? nullptr : row;
}

/// Returns the numbers of an attribute, none without it.
llvm::ArrayRef<float> numbersOf(NodeContext &node, llvm::StringRef name) {
  const Attribute *given = node.attribute(name);
  if (given && given->type != AttributeType::Floats)
    node.refuse("attribute '" + name + "' is no list of numbers");
  return given ? llvm::ArrayRef(given->numbers) : llvm::ArrayRef<float>();
}

/// Reads the activations of all directions. Numbers are those of the activations that have some, in their order.
void readActivations(NodeContext &node, importer::RecurrentLayer &layer, size_t count) {
  llvm::ArrayRef<float> alphas = numbersOf(node, "activation_alpha"), betas = numbersOf(node, "activation_beta");
  const Attribute *given = node.attribute("activations");
  if (!given || (given->type == AttributeType::Strings && given->texts.empty()))
    return;
  if (given->type != AttributeType::Strings)
    return node.refuse("attribute 'activations' is no list of texts");
  if (given->texts.size() < count)
    return node.refuse("attribute 'activations' names " + llvm::Twine(given->texts.size()) + ", the layer has " +
                       llvm::Twine(count));
  bool hasNumbers = false;
  for (std::string_view text : llvm::ArrayRef(given->texts).take_front(count)) {
    llvm::StringRef name(text.data(), text.size());
    const ActivationRow *row = findActivation(name);
    if (!row)
      return node.refuse("attribute 'activations' names '" + name + "', which is none");
    auto next = [&](llvm::ArrayRef<float> &numbers, bool takes, float byDefault) {
      float number = byDefault;
      if (takes && !numbers.empty()) {
        number = numbers.front();
        numbers = numbers.drop_front();
      }
      if (!std::isfinite(number))
        node.refuse("activation '" + name + "' has no finite 'activation_alpha' and 'activation_beta'");
      return number;
    };
    layer.activations.push_back(row->activation);
    layer.alphas.push_back(next(alphas, row->hasAlpha, row->alpha));
    layer.betas.push_back(next(betas, row->hasBeta, row->beta));
    hasNumbers |= row->hasAlpha;
  }
  if (!hasNumbers) {
    layer.alphas.clear();
    layer.betas.clear();
  }
}

/// Checks the shape of an input. Sizes of the call among those that are wanted are the batch.
bool hasShape(NodeContext &node, size_t input, llvm::StringRef name, const Shape &wanted) {
  Shape shape = node.shapeOf(input);
  if (shape.size() != wanted.size()) {
    node.refuse("input '" + name + "' has " + llvm::Twine(shape.size()) + " dimensions, must have " +
                llvm::Twine(wanted.size()));
    return false;
  }
  for (auto [dimension, size] : llvm::enumerate(wanted))
    if (!requireEqual(node, dimensionOf(name, dimension, shape),
                      {size, size.isDynamic() ? "the size of the batch" : ""}))
      return false;
  return true;
}

bool isComputed(DataType type) { return isComputedByNn(type) || type == DataType::Double; }

/// Builds LSTM, GRU and RNN. Those of f64 are computed in f32.
void recurrent(NodeContext &node) {
  llvm::StringRef op(node.node.op.data(), node.node.op.size());
  bool isLstm = op == "LSTM", isGru = op == "GRU";
  int64_t gates = isLstm ? 4 : isGru ? 3 : 1;
  importer::RecurrentLayer layer{isLstm  ? nn::RecurrentKind::Lstm
                                 : isGru ? nn::RecurrentKind::Gru
                                         : nn::RecurrentKind::Rnn};
  DataType type = node.typeOf(0), computed = type == DataType::Double ? DataType::Float : type;
  node.tensor(0);
  node.tensor(1);
  node.tensor(2);
  if (node.isRefused() || !node.isOf(0, isComputed, "floats of 16 bits or more") || !node.areOneType({0, 1, 2, 3, 5}) ||
      (isLstm && !node.areOneType({0, 6, 7})))
    return;
  auto direction = llvm::StringSwitch<std::optional<nn::Direction>>(node.text("direction", "forward"))
                       .Case("forward", nn::Direction::Forward)
                       .Case("reverse", nn::Direction::Reverse)
                       .Case("bidirectional", nn::Direction::Bidirectional)
                       .Default(std::nullopt);
  int64_t layout = node.integer("layout", 0);
  if (!direction || layout < 0 || layout > 1)
    return node.refuse(
        "attribute 'direction' is none of forward, reverse and bidirectional, or 'layout' is not 0 or 1");
  layer.direction = *direction;
  int64_t directions = *direction == nn::Direction::Bidirectional ? 2 : 1;
  readActivations(node, layer, directions * (isLstm ? 3 : isGru ? 2 : 1));
  layer.isCoupled = isLstm && node.integer("input_forget", 0) != 0;
  layer.linearBeforeReset = isGru && node.integer("linear_before_reset", 0) != 0;
  layer.sequenceFirst = layout == 0;
  if (node.hasAttribute("clip")) {
    auto clip = float(node.number("clip", 0));
    if (!(clip > 0))
      return node.refuse("attribute 'clip' is not positive");
    if (std::isfinite(clip))
      layer.clip = clip;
  }

  Shape shape = node.shapeOf(0), weight = node.shapeOf(1), recurrence = node.shapeOf(2);
  if (node.isRefused())
    return;
  if (shape.size() != 3 || weight.size() != 3 || recurrence.size() != 3 || !isStatic(weight) || !isStatic(recurrence))
    return node.refuse("input 'X', 'W' or 'R' has not 3 dimensions, or sizes of 'W' and 'R' depend on the call");
  int64_t hidden = recurrence[2].value;
  if (hidden < 1 || hidden > (1 << 24) || weight[2].value < 1)
    return node.refuse("the hidden state has " + llvm::Twine(hidden) + " numbers, of " + llvm::Twine(weight[2].value) +
                       " features");
  if (int64_t stated = node.integer("hidden_size", hidden); stated != hidden)
    return node.refuse("attribute 'hidden_size' is " + llvm::Twine(stated) + ", input 'R' has " + llvm::Twine(hidden));
  const Size batch = shape[layer.sequenceFirst ? 1 : 0], steps = shape[layer.sequenceFirst ? 0 : 1];
  Shape state = layer.sequenceFirst ? Shape{directions, batch, hidden} : Shape{batch, directions, hidden};
  if (!hasShape(node, 0, "X", {shape[0], shape[1], weight[2]}) ||
      !hasShape(node, 1, "W", {directions, gates * hidden, weight[2]}) ||
      !hasShape(node, 2, "R", {directions, gates * hidden, hidden}) ||
      (node.has(3) && !hasShape(node, 3, "B", {directions, 2 * gates * hidden})) ||
      (node.has(4) && !hasShape(node, 4, "sequence_lens", {batch})) ||
      (node.has(5) && !hasShape(node, 5, "initial_h", state)) ||
      (isLstm && node.has(6) && !hasShape(node, 6, "initial_c", state)) ||
      (isLstm && node.has(7) && !hasShape(node, 7, "P", {directions, 3 * hidden})))
    return;
  if (node.has(4) && !node.isOf(4, isIndex, "int32"))
    return;

  // Rows of the second direction lie behind those of the first one, in the file as in the op.
  auto read = [&](size_t input) { return node.cast(node.tensor(input), type, computed); };
  auto rows = [&](size_t input, int64_t columns) {
    return node.reshaped(read(input), {directions * gates * hidden, columns});
  };
  layer.inputWeights = {rows(1, weight[2].value)};
  layer.recurrentWeights = {rows(2, hidden)};
  if (node.has(3)) {
    Value both = node.reshaped(read(3), {directions, 2, gates * hidden});
    auto half = [&](int64_t number) {
      return node.reshaped(node.sliced(both, 1, number, 1), {directions * gates * hidden});
    };
    layer.inputBiases = {half(0)};
    layer.recurrentBiases = {half(1)};
  }
  if (node.has(4))
    layer.lengths = node.tensor(4);
  auto initial = [&](size_t input) {
    return layer.sequenceFirst ? read(input) : node.transposed(read(input), {1, 0, 2});
  };
  if (node.has(5))
    layer.initialHidden = initial(5);
  if (isLstm && node.has(6))
    layer.initialCell = initial(6);
  if (isLstm && node.has(7))
    layer.peepholes = {node.reshaped(read(7), {directions * 3 * hidden})};
  if (node.isRefused())
    return;

  llvm::SmallVector<Value> results = node.ir().recurrent(node.at, read(0), layer);
  auto give = [&](size_t output, Value result) { node.result(output, node.cast(result, computed, type), type); };
  if (node.isWanted(0)) {
    Shape split{shape[0], shape[1], directions, hidden};
    node.graph.setShape(results[0], {shape[0], shape[1], directions * hidden});
    if (!layer.sequenceFirst)
      give(0, node.reshaped(results[0], split));
    else if (directions == 1)
      give(0, node.reshaped(results[0], {steps, 1, batch, hidden}));
    else
      give(0, node.transposed(node.reshaped(results[0], split), {0, 2, 1, 3}));
  }
  for (size_t output = 1; output < results.size(); ++output) {
    if (!node.isWanted(output))
      continue;
    node.graph.setShape(results[output], {directions, batch, hidden});
    give(output, layer.sequenceFirst ? results[output] : node.transposed(results[output], {1, 0, 2}));
  }
}

/// ReverseSequence: the first elements of each sequence in the other order, as many as its length says.
void reverseSequence(NodeContext &node) {
  Value data = node.tensor(0), lengths = node.tensor(1);
  Shape shape = node.graph.shapeOf(node.at, data);
  int64_t batch = node.integer("batch_axis", 1), time = node.integer("time_axis", 0);
  if (node.isRefused() || !node.isOf(1, isIndex, "int64"))
    return;
  if (shape.size() < 2 || batch < 0 || batch > 1 || time != 1 - batch)
    return node.refuse("attributes 'batch_axis' and 'time_axis' are not 0 and 1, or the input has less than 2 "
                       "dimensions");
  if (!hasShape(node, 1, "sequence_lens", {shape[batch]}))
    return;
  Value result = node.ir().elementwise(
      node.at, tensorType(data).getElementType(), shape, {{lengths, {unsigned(batch)}}},
      [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        llvm::SmallVector<Value> position;
        for (unsigned dimension = 0; dimension < shape.size(); ++dimension)
          position.push_back(linalg::IndexOp::create(b, at, dimension));
        Value length = arith::IndexCastOp::create(b, at, b.getIndexType(), v[0]);
        Value isInside = arith::CmpIOp::create(b, at, arith::CmpIPredicate::slt, position[time], length);
        Value last = arith::SubIOp::create(b, at, length, arith::ConstantIndexOp::create(b, at, 1));
        Value turned = arith::SubIOp::create(b, at, last, position[time]);
        position[time] = arith::SelectOp::create(b, at, isInside, turned, position[time]);
        return tensor::ExtractOp::create(b, at, data, position);
      });
  node.graph.setShape(result, shape);
  node.result(result);
}

} // namespace

llvm::ArrayRef<OpRow> recurrentOps() {
  static const OpRow rows[] = {
      {"", "LSTM", 7, recurrent},
      {"", "GRU", 7, recurrent},
      {"", "RNN", 7, recurrent},
      {"", "ReverseSequence", 10, reverseSequence},
  };
  return rows;
}

} // namespace intarsia::onnx
