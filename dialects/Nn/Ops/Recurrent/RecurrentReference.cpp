//===- RecurrentReference.cpp - Reference of recurrent layers -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/References.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

namespace {
/// A loop over steps. In step `s` a forward direction is at position `s`, a reverse one at `length - 1 - s`. States are
/// [directions, batch, hidden], in the type of sums. Devices run the loop as one of the host, whose kernels take
/// tensors only: the step is a tensor too, and the states of all steps are one that each step copies.
class RecurrentLoops {
public:
  RecurrentLoops(ReferenceBuilder &builder, RecurrentOp op)
      : builder(builder), op(op), hidden(op.getHiddenSize()), directions(op.getDirectionCount()) {
    MixedSizes sizes = builder.sizesOf(op.getGates());
    batch = sizes[op.getBatchDimension()];
    sequence = sizes[op.getSequenceDimension()];
    state = {builder.getIndexAttr(directions), batch, builder.getIndexAttr(hidden)};
  }

  SmallVector<Value> build();

private:
  using Inputs = SmallVector<std::pair<Value, AffineMap>>;

  /// Splits a dimension of static size, from which on all are static.
  Value split(Value tensor, int64_t dimension, ArrayRef<int64_t> into);
  Value initialState(Value given);
  /// Products of a state with the rows of the gates from `first` on: [directions, batch, gates, hidden].
  Value multiply(Value with, int64_t first, int64_t gates);
  /// Builds a tensor like a state. The body gets the elements of `inputs`, then those of `old`, which stay where a
  /// sequence has ended. It may ask for gates.
  Value update(Inputs inputs, Value old, ReferenceBuilder::Body body);
  /// Returns the input of a gate plus its bias, to which the product of the state is added before the activation.
  Value gateOf(ScalarBuilder &b, int64_t gate) {
    Value input = inputOf(b, gate);
    return bias ? b.add(input, biasOf(b, gate)) : input;
  }
  Value inputOf(ScalarBuilder &b, int64_t gate);
  Value biasOf(ScalarBuilder &b, int64_t gate);
  Value peephole(ScalarBuilder &b, int64_t number, Value cell);
  Value activate(ScalarBuilder &b, int64_t number, Value x);
  Value activate(ScalarBuilder &b, RecurrentFunction function, Value x);
  Integer lengthOf(ScalarBuilder &b, Value sequenceNumber);
  Integer mirrored(ScalarBuilder &b, Integer position, Integer length, Integer direction);
  /// Reads a block of products [directions, batch, blocks, hidden].
  AffineMap ofBlock(int64_t block);
  AffineMap ofGate(int64_t gate) { return ofBlock(op.getBlockOf(gate)); }
  std::pair<Value, Value> lstm(Value h, Value c);
  Value gru(Value h);
  Value rnn(Value h);
  /// The states of all steps as the first result.
  Value inOrder(Value steps);

  ReferenceBuilder &builder;
  RecurrentOp op;
  int64_t hidden, directions;
  OpFoldResult batch, sequence;
  MixedSizes state;
  Value gates, recurrent, bias, peepholes;
  Value step; ///< a tensor
  Value here; ///< the same as an index, in the body of `update`
};
} // namespace

static Value constant(ScalarBuilder &b, double value) {
  return arith::ConstantOp::create(b, b.getFloatAttr(b.sumType, value));
}

Value RecurrentLoops::split(Value tensor, int64_t dimension, ArrayRef<int64_t> into) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape(type.getShape().take_front(dimension));
  MixedSizes sizes = builder.sizesOf(tensor), expanded(ArrayRef(sizes).take_front(dimension));
  SmallVector<ReassociationIndices> groups;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    groups.emplace_back();
    ArrayRef<int64_t> parts = d == dimension ? into : type.getShape().slice(d, 1);
    for (int64_t part = 0; part < int64_t(parts.size()); ++part)
      groups.back().push_back(d <= dimension ? d + part : d + int64_t(into.size()) - 1);
    if (d >= dimension)
      for (int64_t part : parts) {
        shape.push_back(part);
        expanded.push_back(builder.getIndexAttr(part));
      }
  }
  return tensor::ExpandShapeOp::create(builder, RankedTensorType::get(shape, type.getElementType()), tensor, groups,
                                       expanded);
}

Value RecurrentLoops::initialState(Value given) {
  if (!given)
    return builder.filled(state, builder.getFloatAttr(builder.sumType, 0));
  return builder.parallel(state, builder.sumType, {{given, builder.identity(3)}},
                          [](ScalarBuilder &b, ValueRange v) { return b.exact(v[0]); });
}

Value RecurrentLoops::multiply(Value with, int64_t first, int64_t gates) {
  MixedSizes sizes{state[0], batch, builder.getIndexAttr(gates), state[2]};
  Value rowsOfGates = recurrent;
  if (gates != op.getGateCount()) {
    MixedSizes offsets(4, builder.getIndexAttr(0)), strides(4, builder.getIndexAttr(1));
    offsets[1] = builder.getIndexAttr(first);
    MixedSizes part{state[0], builder.getIndexAttr(gates), state[2], state[2]};
    rowsOfGates = tensor::ExtractSliceOp::create(builder, recurrent, offsets, part, strides);
  }
  return builder.reduce(sizes, 1, 0.0, {{rowsOfGates, builder.map(5, {0, 2, 3, 4})}, {with, builder.map(5, {0, 1, 4})}},
                        [](ScalarBuilder &b, ValueRange v) { return b.add(v[2], b.mul(b.exact(v[0]), v[1])); });
}

Value RecurrentLoops::update(Inputs inputs, Value old, ReferenceBuilder::Body body) {
  inputs.push_back({old, builder.identity(3)});
  inputs.push_back({step, AffineMap::get(3, 0, builder.getContext())});
  return builder.parallel(state, builder.sumType, inputs, [&](ScalarBuilder &b, ValueRange v) {
    here = b.toIndex(v[inputs.size() - 1]);
    Value updated = body(b, v);
    return b.select(Integer(b, here) < lengthOf(b, b.indexOf(1)), updated, v[inputs.size() - 2]);
  });
}

Integer RecurrentLoops::lengthOf(ScalarBuilder &b, Value sequenceNumber) {
  Integer whole(b, b.index(sequence));
  if (!op.getLengths())
    return whole;
  Value given = b.toIndex(tensor::ExtractOp::create(b, op.getLengths(), sequenceNumber));
  Value positive = arith::MaxSIOp::create(b, given, b.index(int64_t(0)));
  return smaller({b, positive}, whole);
}

/// Returns the position of a step, or the step of a position. Behind the end of a sequence it is some position whose
/// value is not used.
Integer RecurrentLoops::mirrored(ScalarBuilder &b, Integer position, Integer length, Integer direction) {
  if (!op.isReverse(0) && directions == 1)
    return position;
  Integer back = choose(position < length, length - 1 - position, 0);
  return op.isReverse(0) ? back : choose(direction == 0, position, back);
}

/// Loops are those of a state.
Value RecurrentLoops::inputOf(ScalarBuilder &b, int64_t gate) {
  Integer sequenceNumber = b.indexOf(1), direction = b.indexOf(0);
  SmallVector<Value> at{sequenceNumber, mirrored(b, {b, here}, lengthOf(b, sequenceNumber), direction)};
  if (op.getSequenceFirst())
    std::swap(at[0], at[1]);
  at.append({direction, b.index(op.getBlockOf(gate)), b.indexOf(2)});
  return b.exact(tensor::ExtractOp::create(b, gates, at));
}

Value RecurrentLoops::biasOf(ScalarBuilder &b, int64_t gate) {
  SmallVector<Value> at{b.indexOf(0), b.index(op.getBlockOf(gate)), b.indexOf(2)};
  return b.exact(tensor::ExtractOp::create(b, bias, at));
}

Value RecurrentLoops::peephole(ScalarBuilder &b, int64_t number, Value cell) {
  SmallVector<Value> at{b.indexOf(0), b.index(number), b.indexOf(2)};
  return b.mul(b.exact(tensor::ExtractOp::create(b, peepholes, at)), cell);
}

Value RecurrentLoops::activate(ScalarBuilder &b, int64_t number, Value x) {
  if (std::optional<APFloat> clip = op.getClip(); clip && number != 2)
    x = b.max(b.min(x, constant(b, clip->convertToFloat())), constant(b, -clip->convertToFloat()));
  RecurrentFunction first = op.getFunction(0, number);
  Value result = activate(b, first, x);
  if (directions == 1)
    return result;
  RecurrentFunction second = op.getFunction(1, number);
  if (second.kind == first.kind && second.alpha == first.alpha && second.beta == first.beta)
    return result;
  return b.select(b.indexOf(0) == 0, result, activate(b, second, x));
}

Value RecurrentLoops::activate(ScalarBuilder &b, RecurrentFunction function, Value x) {
  Value zero = constant(b, 0), one = constant(b, 1), alpha = constant(b, function.alpha);
  Value beta = constant(b, function.beta);
  auto isLess = [&](Value left, Value right) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, left, right);
  };
  switch (function.kind) {
  case RecurrentActivation::Sigmoid:
    return b.div(one, b.add(one, b.exp(b.sub(zero, x))));
  case RecurrentActivation::Tanh:
    return math::TanhOp::create(b, x);
  case RecurrentActivation::Relu:
    return b.max(x, zero);
  case RecurrentActivation::Affine:
    return b.add(b.mul(alpha, x), beta);
  case RecurrentActivation::LeakyRelu:
    return b.select(isLess(x, zero), b.mul(alpha, x), x);
  case RecurrentActivation::ThresholdedRelu:
    return b.select(isLess(x, alpha), zero, x);
  case RecurrentActivation::ScaledTanh:
    return b.mul(alpha, math::TanhOp::create(b, b.mul(beta, x)));
  case RecurrentActivation::HardSigmoid:
    return b.min(b.max(b.add(b.mul(alpha, x), beta), zero), one);
  case RecurrentActivation::Elu:
    return b.select(isLess(x, zero), b.mul(alpha, math::ExpM1Op::create(b, x)), x);
  case RecurrentActivation::Softsign:
    return b.div(x, b.add(one, b.abs(x)));
  case RecurrentActivation::Softplus:
    // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), whose exponential does not overflow for large x.
    return b.add(b.max(x, zero), math::Log1pOp::create(b, b.exp(b.sub(zero, b.abs(x)))));
  }
  llvm_unreachable("unknown activation");
}

AffineMap RecurrentLoops::ofBlock(int64_t block) {
  return AffineMap::get(3, 0,
                        {builder.getAffineDimExpr(0), builder.getAffineDimExpr(1), builder.getAffineConstantExpr(block),
                         builder.getAffineDimExpr(2)},
                        builder.getContext());
}

std::pair<Value, Value> RecurrentLoops::lstm(Value h, Value c) {
  enum { I, O, F, C };
  Value products = multiply(h, 0, 4);
  Value newCell = update({{products, ofGate(I)}, {products, ofGate(F)}, {products, ofGate(C)}}, c,
                         [&](ScalarBuilder &b, ValueRange v) {
                           auto gate = [&](int64_t number, Value product, int64_t peepholeNumber) {
                             Value sum = b.add(gateOf(b, number), product);
                             return activate(b, 0, peepholes ? b.add(sum, peephole(b, peepholeNumber, v[3])) : sum);
                           };
                           Value i = gate(I, v[0], 0);
                           Value f = op.getCoupled() ? b.sub(constant(b, 1), i) : gate(F, v[1], 2);
                           return b.add(b.mul(f, v[3]), b.mul(i, activate(b, 1, b.add(gateOf(b, C), v[2]))));
                         });
  Value newHidden =
      update({{products, ofGate(O)}, {newCell, builder.identity(3)}}, h, [&](ScalarBuilder &b, ValueRange v) {
        Value sum = b.add(gateOf(b, O), v[0]);
        return b.mul(activate(b, 0, peepholes ? b.add(sum, peephole(b, 1, v[1])) : sum), activate(b, 2, v[1]));
      });
  return {newHidden, newCell};
}

Value RecurrentLoops::gru(Value h) {
  enum { Z, R, H };
  bool resetsProducts = op.getLinearBeforeReset();
  Value products = multiply(h, 0, 3), ofHidden = products;
  AffineMap mapOfHidden = ofGate(H);
  if (!resetsProducts) {
    Value reset = update({{products, ofGate(R)}}, h, [&](ScalarBuilder &b, ValueRange v) {
      return b.mul(activate(b, 0, b.add(gateOf(b, R), v[0])), v[1]);
    });
    ofHidden = multiply(reset, op.getBlockOf(H), 1);
    mapOfHidden = ofBlock(0);
  }
  return update({{products, ofGate(Z)}, {products, ofGate(R)}, {ofHidden, mapOfHidden}}, h,
                [&](ScalarBuilder &b, ValueRange v) {
                  Value z = activate(b, 0, b.add(gateOf(b, Z), v[0]));
                  Value product = bias ? b.add(v[2], biasOf(b, H)) : v[2];
                  if (resetsProducts)
                    product = b.mul(activate(b, 0, b.add(gateOf(b, R), v[1])), product);
                  Value n = activate(b, 1, b.add(inputOf(b, H), product));
                  return b.add(b.mul(b.sub(constant(b, 1), z), n), b.mul(z, v[3]));
                });
}

Value RecurrentLoops::rnn(Value h) {
  return update({{multiply(h, 0, 1), ofGate(0)}}, h,
                [&](ScalarBuilder &b, ValueRange v) { return activate(b, 0, b.add(gateOf(b, 0), v[0])); });
}

Value RecurrentLoops::inOrder(Value steps) {
  MixedSizes sizes = builder.sizesOf(op.getGates());
  sizes.back() = state[0];
  sizes.push_back(state[2]);
  Type element = elementOf(op.getGates());
  Value result = builder.parallel(sizes, element, {}, [&](ScalarBuilder &b, ValueRange) {
    Integer sequenceNumber = b.indexOf(op.getBatchDimension()), position = b.indexOf(op.getSequenceDimension());
    Integer direction = b.indexOf(2), length = lengthOf(b, sequenceNumber);
    SmallVector<Value> at{mirrored(b, position, length, direction), direction, sequenceNumber, b.indexOf(3)};
    Value value = tensor::ExtractOp::create(b, steps, at);
    return b.narrow(b.select(position < length, value, constant(b, 0)), element);
  });
  return tensor::CollapseShapeOp::create(builder, result, SmallVector<ReassociationIndices>{{0}, {1}, {2, 3}});
}

SmallVector<Value> RecurrentLoops::build() {
  int64_t gateCount = op.getGateCount();
  gates = split(op.getGates(), 2, {directions, gateCount, hidden});
  recurrent = split(op.getRecurrent(), 0, {directions, gateCount, hidden});
  bias = op.getBias() ? split(op.getBias(), 0, {directions, gateCount, hidden}) : Value();
  peepholes = op.getPeepholes() ? split(op.getPeepholes(), 0, {directions, 3, hidden}) : Value();
  bool isLstm = op.getKind() == RecurrentKind::Lstm;

  MixedSizes ofSteps{sequence, state[0], batch, state[2]};
  SmallVector<Value> carried{builder.filled({}, builder.getI64IntegerAttr(0)),
                             builder.filled(ofSteps, builder.getFloatAttr(builder.sumType, 0)),
                             initialState(op.getInitialHidden())};
  if (isLstm)
    carried.push_back(initialState(op.getInitialCell()));
  Value zero = arith::ConstantIndexOp::create(builder, 0), one = arith::ConstantIndexOp::create(builder, 1);
  Value count = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), sequence);
  auto loop = scf::ForOp::create(builder, zero, count, one, carried);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    ValueRange before = loop.getRegionIterArgs();
    step = before[0];
    SmallVector<Value> computed;
    if (isLstm) {
      auto [h, c] = lstm(before[2], before[3]);
      computed = {h, c};
    } else {
      computed = {op.getKind() == RecurrentKind::Gru ? gru(before[2]) : rnn(before[2])};
    }
    // The new states are written over the old ones only here, after all results of this step have read the old ones.
    AffineMap ofStep = AffineMap::get(4, 0, builder.getContext());
    Value steps = builder.fold(
        before[1], 0, {{computed[0], builder.map(4, {1, 2, 3})}, {step, ofStep}},
        [](ScalarBuilder &b, ValueRange v) { return b.select(b.indexOf(0) == b.toIndex(v[1]), v[0], v[2]); });
    SmallVector<Value> after{Value(), steps};
    for (auto [value, old] : llvm::zip_equal(computed, before.drop_front(2)))
      after.push_back(builder.fold(old, 0, {{value, builder.identity(3)}},
                                   [](ScalarBuilder &b, ValueRange v) -> Value { return v[0]; }));
    after[0] = builder.fold(step, 0, {}, [](ScalarBuilder &b, ValueRange v) -> Value { return Integer(b, v[0]) + 1; });
    scf::YieldOp::create(builder, after);
  }
  SmallVector<Value> results{inOrder(loop.getResult(1))};
  for (Value last : loop.getResults().drop_front(2))
    results.push_back(buildNarrow(builder, last, elementOf(op.getGates())));
  return results;
}

SmallVector<Value> RecurrentOp::buildReference(ReferenceBuilder &builder) {
  return RecurrentLoops(builder, *this).build();
}
