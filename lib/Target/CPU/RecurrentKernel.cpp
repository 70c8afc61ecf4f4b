//===- RecurrentKernel.cpp - Recurrent layers -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "lib/Target/CPU/TileEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

using namespace kernel;

namespace {
// Slots of the launch.
enum { kRowsOfTile = ITX_PLAN_PRIVATE, kRowBlocks };
/// Register tiles of a tile: its rows pass over the weights together.
constexpr int64_t kRowTiles = 4;
/// Sums in flight that hide the latency of a fused multiply-add: two units of four cycles.
constexpr int64_t kSumsInFlight = 8;
/// Sequences that are few: their products wait for the weights alone.
constexpr int64_t kFewRows = 2;

/// A tile is some sequences in one direction. In each step their states are multiplied by the panels of the direction;
/// then the gates of each sequence are computed, vector by vector of the hidden state. States are f32 in scratch.
class RecurrentKernel final : public KernelEmitter {
public:
  RecurrentKernel(rt::KernelOp kernel, nn::RecurrentOp root, const TileConfig &config)
      : KernelEmitter(kernel, config), root(root), hidden(root.getHiddenSize()), gates(root.getGateCount()),
        directions(root.getDirectionCount()) {}

private:
  /// A sequence in a step.
  struct Sequence {
    Value row;      ///< of the tile
    Value index;    ///< in the batch
    Value position; ///< in the sequence
  };
  /// Elements of the hidden state.
  struct Part {
    Sequence sequence;
    Value first;
    int64_t width;
  };
  using PartFn = llvm::function_ref<LogicalResult(const Part &part)>;

  LogicalResult analyze() override;
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void launch() override;

  /// True if GRU's new state is of products with a state that is reset first, which takes two passes a step.
  bool isInTwoPasses() { return root.getKind() == nn::RecurrentKind::Gru && !root.getLinearBeforeReset(); }
  /// True if both directions have the same activations.
  bool hasEqualFunctions();
  /// Panels that the rows of a direction lie in, at most.
  int64_t panelsOfDirection() const { return llvm::divideCeil(gates * hidden, kPanelWidth) + (startsInside() ? 1 : 0); }
  /// True if the rows of a direction may begin inside of a panel.
  bool startsInside() const { return directions > 1 && gates * hidden % kPanelWidth != 0; }
  int64_t sumsOfRow() const { return panelsOfDirection() * kPanelWidth; }

  LogicalResult runTile(Value tile);
  LogicalResult beginTile();
  LogicalResult runSteps();
  LogicalResult endTile();
  void packPanels();
  /// Emits the sums over a state of the gates in the order from `first` on, of all panels that they lie in.
  void multiply(Value state, int64_t firstBlock, int64_t endBlock);
  void multiplyFew(Value state, int64_t rows, Value firstPanel, Value endPanel);
  TileOperands operandsOf(Value state, Value panel);
  /// Emits `body` for the vectors of the hidden state of all sequences that have not ended before a step.
  LogicalResult eachPart(Value step, PartFn body);
  LogicalResult lstm(const Part &part);
  LogicalResult gru(const Part &part);
  LogicalResult resetOfGru(const Part &part);
  LogicalResult rnn(const Part &part);
  void storeHidden(const Part &part, Value value);

  Element evaluateVector(Value vector, Value first, const Part &part);
  /// Returns what the activation of a gate is applied to, without peepholes.
  Element gateOf(const Part &part, int64_t gate);
  Element inputOf(const Part &part, int64_t gate);
  Element biasOf(const Part &part, int64_t gate);
  Value productOf(const Part &part, int64_t gate);
  Element peephole(const Part &part, int64_t number, Value cell, Value sum);
  Value activate(int64_t number, Value x, int64_t width);
  Value firstOfGate(int64_t gate) {
    return add(mul(direction, constant(gates * hidden)), constant(root.getBlockOf(gate) * hidden));
  }
  Value loadState(Value state, const Part &part) {
    return memory.load(state, add(mul(part.sequence.row, constant(hidden)), part.first), b.getF32Type(), part.width);
  }
  void storeState(Value value, Value state, const Part &part) {
    memory.store(value, state, add(mul(part.sequence.row, constant(hidden)), part.first), b.getF32Type(), part.width);
  }
  /// Returns where elements of the first result are.
  Indices resultIndices(const Part &part);
  Value lengthOf(Value row) {
    return root.getLengths() ? memory.load(lengths, row, b.getI64Type(), 1) : function.sizeOf(root.getGates(), inTime);
  }

  nn::RecurrentOp root;
  int64_t hidden, gates, directions;
  unsigned inBatch = root.getBatchDimension(), inTime = root.getSequenceDimension();
  TileEmitter registerTiles{function};
  int64_t mostRows = 0;
  bool hasPanels = false;

  std::optional<Storage> weight;
  Value packed, states, cells, sums, lengths;
  Value updates, resets; ///< GRU in two passes: z, and the state times r
  // The tile that is being emitted.
  Value direction, firstRow, rows, firstPanel, lead, longest;
  int64_t functions = 0; ///< the direction whose activations are emitted
};
} // namespace

Emitter makeRecurrentKernel(rt::KernelOp kernel, Operation *root, const TileConfig &config) {
  return std::make_unique<RecurrentKernel>(kernel, cast<nn::RecurrentOp>(root), config);
}

bool RecurrentKernel::hasEqualFunctions() {
  int64_t count = root.getKind() == nn::RecurrentKind::Lstm ? 3 : root.getKind() == nn::RecurrentKind::Gru ? 2 : 1;
  return directions == 1 || llvm::all_of(llvm::seq<int64_t>(0, count), [&](int64_t number) {
           nn::RecurrentFunction one = root.getFunction(0, number), other = root.getFunction(1, number);
           return one.kind == other.kind && one.alpha == other.alpha && one.beta == other.beta;
         });
}

LogicalResult RecurrentKernel::analyze() {
  auto argument = dyn_cast<BlockArgument>(root.getRecurrent());
  auto panels =
      argument ? kernel.getArgAttrOfType<rt::PanelsAttr>(argument.getArgNumber(), "rt.layout") : rt::PanelsAttr();
  if (panels && panels.getFormat())
    return function.refuse(root, "its recurrent weights are quantized");
  hasPanels = bool(panels);
  return function.storesOnly(root);
}

void RecurrentKernel::chooseShape(KernelShape &shape) {
  shape.state("kernel", "recurrent");
  chooseRegisterTile(shape, config);
  mostRows = kRowTiles * config.rows;
  if (int64_t batch = root.getGates().getType().getDimSize(inBatch); !ShapedType::isDynamic(batch))
    mostRows = std::clamp<int64_t>(batch, 1, mostRows);
  shape.choose("block_rows", mostRows, {1, kMostBlockRows, 1});
  shape.state("recurrent", hasPanels ? "panels" : "packed by tile");
}

void RecurrentKernel::launch() {
  Value batch = function.sizeOf(root.getGates(), inBatch);
  Value shares = ceilDiv(function.threads, constant(directions));
  Value rowsOfTile = min(max(ceilDiv(batch, shares), constant(1)), constant(mostRows));
  Value blocks = ceilDiv(batch, rowsOfTile);
  function.setSlot(ITX_PLAN_TILES, mul(blocks, constant(directions)));
  function.setSlot(kRowsOfTile, rowsOfTile);
  function.setSlot(kRowBlocks, blocks);
}

LogicalResult RecurrentKernel::run() {
  weight = tensors.view(root.getRecurrent());
  if (!weight)
    return function.refuse(root, "its recurrent weights are neither packed in panels of 32 nor a tensor in memory");
  packed = hasPanels ? Value() : function.scratch(panelsOfDirection() * kPanelWidth * hidden * 4);
  states = function.scratch(mostRows * hidden * 4);
  cells = root.getKind() == nn::RecurrentKind::Lstm ? function.scratch(mostRows * hidden * 4) : Value();
  updates = isInTwoPasses() ? function.scratch(mostRows * hidden * 4) : Value();
  resets = isInTwoPasses() ? function.scratch(mostRows * hidden * 4) : Value();
  sums = function.scratch(mostRows * sumsOfRow() * 4);
  lengths = root.getLengths() ? function.scratch(mostRows * 8) : Value();
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) { return runTile(tile); });
}

LogicalResult RecurrentKernel::runTile(Value tile) {
  direction = rem(tile, constant(directions));
  firstRow = mul(div(tile, constant(directions)), function.slot(kRowsOfTile));
  rows = min(sub(function.sizeOf(root.getGates(), inBatch), firstRow), function.slot(kRowsOfTile));
  Value firstOfWeight = mul(direction, constant(gates * hidden));
  firstPanel = div(firstOfWeight, constant(kPanelWidth));
  lead = startsInside() ? rem(firstOfWeight, constant(kPanelWidth)) : constant(0);
  if (!hasPanels)
    packPanels();
  auto emitSteps = [&](int64_t which) -> LogicalResult {
    functions = which;
    return runSteps();
  };
  if (failed(beginTile()))
    return failure();
  if (hasEqualFunctions()
          ? failed(emitSteps(0))
          : failed(ifThen(equal(direction, constant(0)), [&] { return emitSteps(0); }, [&] { return emitSteps(1); })))
    return failure();
  return endTile();
}

/// Loads initial states and lengths.
LogicalResult RecurrentKernel::beginTile() {
  longest = function.sizeOf(root.getGates(), inTime);
  if (root.getLengths()) {
    Value whole = longest;
    FailureOr<SmallVector<Value>> most =
        forLoop(constant(0), rows, constant(1), ValueRange{constant(0)},
                [&](Value row, ValueRange running) -> FailureOr<SmallVector<Value>> {
                  Element given = tensors.integerAt(root.getLengths(), {Index{add(firstRow, row)}});
                  if (failed(given))
                    return failure();
                  Value length = min(max(*given, constant(0)), whole);
                  memory.store(length, lengths, row, b.getI64Type(), 1);
                  return SmallVector<Value>{max(running[0], length)};
                });
    if (failed(most))
      return failure();
    longest = (*most)[0];
  }
  return forLoop(constant(0), rows, constant(1), [&](Value row) {
    return vectorLoop(constant(hidden), [&](Value first, int64_t width) -> LogicalResult {
      Part part{{row, add(firstRow, row), Value()}, first, width};
      auto load = [&](Value initial, Value state) -> LogicalResult {
        if (!state)
          return success();
        Element value = floatConstant(0.0, b.getF32Type(), width);
        if (initial)
          value =
              tensors.evaluate(initial, {Index{direction}, Index{part.sequence.index}, Index{part.first, true}}, width);
        if (failed(value))
          return failure();
        storeState(*value, state, part);
        return success();
      };
      return success(succeeded(load(root.getInitialHidden(), states)) && succeeded(load(root.getInitialCell(), cells)));
    });
  });
}

LogicalResult RecurrentKernel::runSteps() {
  return forLoop(constant(0), longest, constant(1), [&](Value step) -> LogicalResult {
    if (root.getKind() == nn::RecurrentKind::Lstm) {
      multiply(states, 0, gates);
      return eachPart(step, [&](const Part &part) { return lstm(part); });
    }
    if (root.getKind() == nn::RecurrentKind::Rnn) {
      multiply(states, 0, gates);
      return eachPart(step, [&](const Part &part) { return rnn(part); });
    }
    if (isInTwoPasses()) {
      int64_t first = std::min(root.getBlockOf(0), root.getBlockOf(1));
      multiply(states, first, std::max(root.getBlockOf(0), root.getBlockOf(1)) + 1);
      if (failed(eachPart(step, [&](const Part &part) { return resetOfGru(part); })))
        return failure();
      multiply(resets, root.getBlockOf(2), root.getBlockOf(2) + 1);
    } else {
      multiply(states, 0, gates);
    }
    return eachPart(step, [&](const Part &part) { return gru(part); });
  });
}

/// Stores zeros behind the ends of sequences, and the last states.
LogicalResult RecurrentKernel::endTile() {
  return forLoop(constant(0), rows, constant(1), [&](Value row) -> LogicalResult {
    Value index = add(firstRow, row);
    if (root.getLengths())
      forLoop(lengthOf(row), function.sizeOf(root.getGates(), inTime), constant(1), [&](Value position) {
        vectorLoop(constant(hidden), [&](Value first, int64_t width) {
          Part part{{row, index, position}, first, width};
          tensors.storeResult(floatConstant(0.0, b.getF32Type(), width), root.getResult(), resultIndices(part), width);
        });
      });
    vectorLoop(constant(hidden), [&](Value first, int64_t width) {
      Part part{{row, index, Value()}, first, width};
      Indices at{Index{direction}, Index{index}, Index{first, true}};
      tensors.storeResult(loadState(states, part), root.getFinalHidden(), at, width);
      if (cells)
        tensors.storeResult(loadState(cells, part), root.getFinalCell(), at, width);
    });
    return success();
  });
}

//===-- Products of states ----------------------------------------------------------------------------------------===//

void RecurrentKernel::packPanels() {
  int64_t all = directions * gates * hidden;
  forLoop(constant(0), constant(panelsOfDirection()), constant(1), [&](Value panel) {
    Value row = mul(add(firstPanel, panel), constant(kPanelWidth));
    Value columns = min(sub(constant(all), row), constant(kPanelWidth));
    ifThen(less(row, constant(all)), [&] {
      registerTiles.packTransposed(memory.at(packed, mul(panel, constant(kPanelWidth * hidden)), b.getF32Type()),
                                   memory.at(weight->pointer, mul(row, weight->strides[0]), weight->elementType),
                                   weight->strides[0], weight->elementType, constant(hidden), columns, Value());
    });
  });
}

TileOperands RecurrentKernel::operandsOf(Value state, Value panel) {
  TileOperands operands;
  operands.a = state;
  operands.aRow = constant(hidden);
  operands.aColumn = constant(1);
  operands.aType = b.getF32Type();
  operands.bType = hasPanels ? weight->elementType : b.getF32Type();
  operands.b = hasPanels ? memory.at(weight->pointer, mul(add(firstPanel, panel), constant(kPanelWidth * hidden)),
                                     operands.bType)
                         : memory.at(packed, mul(panel, constant(kPanelWidth * hidden)), operands.bType);
  operands.bRow = constant(kPanelWidth);
  operands.depth = constant(hidden);
  operands.out = memory.at(sums, mul(panel, constant(kPanelWidth)), b.getF32Type());
  operands.outRow = constant(sumsOfRow());
  return operands;
}

void RecurrentKernel::multiply(Value state, int64_t firstBlock, int64_t endBlock) {
  Value begin = div(add(lead, constant(firstBlock * hidden)), constant(kPanelWidth));
  Value end = ceilDiv(add(lead, constant(endBlock * hidden)), constant(kPanelWidth));
  std::function<void(int64_t)> choose = [&](int64_t few) {
    if (few == mostRows && few <= kFewRows)
      return multiplyFew(state, few, begin, end);
    if (few <= kFewRows)
      return ifThen(equal(rows, constant(few)), [&] { multiplyFew(state, few, begin, end); }, [&] { choose(few + 1); });
    forLoop(begin, end, constant(1), [&](Value panel) {
      TileOperands operands = operandsOf(state, panel);
      forLoop(constant(0), rows, constant(config.rows), [&](Value row) {
        TileOperands some = operands;
        some.a = memory.at(operands.a, mul(row, operands.aRow), operands.aType);
        some.out = memory.at(operands.out, mul(row, operands.outRow), b.getF32Type());
        registerTiles.emitTileRows(some, min(sub(rows, row), constant(config.rows)), kPanelWidth);
      });
    });
  };
  choose(1);
}

/// Multiplies few rows by several panels at a time, so that enough sums are in flight.
void RecurrentKernel::multiplyFew(Value state, int64_t count, Value begin, Value end) {
  int64_t lanes = config.lanes, vectors = kPanelWidth / lanes;
  int64_t together = std::max<int64_t>(kSumsInFlight / (count * vectors), 1);
  Type f32 = b.getF32Type();
  Value whole = add(begin, mul(div(sub(end, begin), constant(together)), constant(together)));
  forLoop(begin, whole, constant(together), [&](Value panel) {
    TileOperands operands = operandsOf(state, panel);
    SmallVector<Value> initial(together * vectors * count, floatConstant(0.0, f32, lanes));
    SmallVector<Value> result =
        forLoop(constant(0), constant(hidden), constant(1), initial, [&](Value k, ValueRange running) {
          SmallVector<Value> next(running), left;
          for (int64_t row = 0; row < count; ++row)
            left.push_back(splat(memory.load(operands.a, add(k, constant(row * hidden)), f32, 1), lanes));
          for (int64_t column = 0; column < together * vectors; ++column) {
            int64_t at = column / vectors * kPanelWidth * hidden + column % vectors * lanes;
            Value right =
                memory.load(operands.b, add(mul(k, constant(kPanelWidth)), constant(at)), operands.bType, lanes);
            for (int64_t row = 0; row < count; ++row) {
              Value &sum = next[column * count + row];
              sum = make<vector::FMAOp>(left[row], right, sum);
            }
          }
          return next;
        });
    for (auto [index, sum] : llvm::enumerate(result)) {
      int64_t column = index / count, row = index % count;
      memory.store(sum, operands.out, constant(row * sumsOfRow() + column * lanes), f32, lanes);
    }
  });
  if (whole != end)
    forLoop(whole, end, constant(1),
            [&](Value panel) { registerTiles.emitTile(operandsOf(state, panel), count, kPanelWidth); });
}

//===-- Gates -----------------------------------------------------------------------------------------------------===//

LogicalResult RecurrentKernel::eachPart(Value step, PartFn body) {
  return forLoop(constant(0), rows, constant(1), [&](Value row) -> LogicalResult {
    Value length = lengthOf(row);
    auto emit = [&]() -> LogicalResult {
      Value back = sub(sub(length, constant(1)), step);
      Value position =
          directions == 1 ? (root.isReverse(0) ? back : step) : select(equal(direction, constant(0)), step, back);
      Sequence sequence{row, add(firstRow, row), position};
      return vectorLoop(constant(hidden),
                        [&](Value first, int64_t width) { return body(Part{sequence, first, width}); });
    };
    return root.getLengths() ? ifThen(less(step, length), emit) : emit();
  });
}

Indices RecurrentKernel::resultIndices(const Part &part) {
  Index sequence{part.sequence.index}, position{part.sequence.position};
  Index feature{add(mul(direction, constant(hidden)), part.first), true};
  return root.getSequenceFirst() ? Indices{position, sequence, feature} : Indices{sequence, position, feature};
}

Element RecurrentKernel::evaluateVector(Value vector, Value first, const Part &part) {
  return tensors.evaluate(vector, {Index{add(first, part.first), true}}, part.width);
}

Element RecurrentKernel::inputOf(const Part &part, int64_t gate) {
  Index sequence{part.sequence.index}, position{part.sequence.position};
  Index feature{add(firstOfGate(gate), part.first), true};
  Indices at = root.getSequenceFirst() ? Indices{position, sequence, feature} : Indices{sequence, position, feature};
  return tensors.evaluate(root.getGates(), at, part.width);
}

Element RecurrentKernel::biasOf(const Part &part, int64_t gate) {
  return root.getBias() ? evaluateVector(root.getBias(), firstOfGate(gate), part)
                        : Element(floatConstant(0.0, b.getF32Type(), part.width));
}

Value RecurrentKernel::productOf(const Part &part, int64_t gate) {
  Value column = add(add(lead, constant(root.getBlockOf(gate) * hidden)), part.first);
  return memory.load(sums, add(mul(part.sequence.row, constant(sumsOfRow())), column), b.getF32Type(), part.width);
}

Element RecurrentKernel::gateOf(const Part &part, int64_t gate) {
  Element input = inputOf(part, gate), bias = biasOf(part, gate);
  if (failed(input) || failed(bias))
    return failure();
  Value sum = root.getBias() ? make<arith::AddFOp>(*input, *bias).getResult() : *input;
  return make<arith::AddFOp>(sum, productOf(part, gate)).getResult();
}

Element RecurrentKernel::peephole(const Part &part, int64_t number, Value cell, Value sum) {
  if (!root.getPeepholes())
    return sum;
  Value first = add(mul(direction, constant(3 * hidden)), constant(number * hidden));
  Element factor = evaluateVector(root.getPeepholes(), first, part);
  if (failed(factor))
    return failure();
  return make<arith::AddFOp>(make<arith::MulFOp>(*factor, cell), sum).getResult();
}

void RecurrentKernel::storeHidden(const Part &part, Value value) {
  storeState(value, states, part);
  tensors.storeResult(value, root.getResult(), resultIndices(part), part.width);
}

LogicalResult RecurrentKernel::lstm(const Part &part) {
  enum { I, O, F, C };
  int64_t width = part.width;
  Value cell = loadState(cells, part);
  auto gate = [&](int64_t number, int64_t ofPeepholes, Value peeped) -> Element {
    Element sum = gateOf(part, number);
    if (succeeded(sum))
      sum = peephole(part, ofPeepholes, peeped, *sum);
    return failed(sum) ? sum : activate(0, *sum, width);
  };
  Element in = gate(I, 0, cell), added = gateOf(part, C);
  if (failed(in) || failed(added))
    return failure();
  Element forget = root.getCoupled()
                       ? Element(make<arith::SubFOp>(floatConstant(1.0, b.getF32Type(), width), *in).getResult())
                       : gate(F, 2, cell);
  if (failed(forget))
    return failure();
  Value next = make<arith::MulFOp>(*in, activate(1, *added, width));
  next = make<arith::AddFOp>(make<arith::MulFOp>(*forget, cell), next);
  Element out = gate(O, 1, next);
  if (failed(out))
    return failure();
  storeState(next, cells, part);
  storeHidden(part, make<arith::MulFOp>(*out, activate(2, next, width)));
  return success();
}

/// Computes z, and the state times r, of a GRU in two passes.
LogicalResult RecurrentKernel::resetOfGru(const Part &part) {
  enum { Z, R };
  Element z = gateOf(part, Z), r = gateOf(part, R);
  if (failed(z) || failed(r))
    return failure();
  storeState(activate(0, *z, part.width), updates, part);
  storeState(make<arith::MulFOp>(activate(0, *r, part.width), loadState(states, part)), resets, part);
  return success();
}

LogicalResult RecurrentKernel::gru(const Part &part) {
  enum { Z, R, H };
  int64_t width = part.width;
  Value update, sum;
  if (isInTwoPasses()) {
    Element all = gateOf(part, H);
    if (failed(all))
      return failure();
    update = loadState(updates, part);
    sum = *all;
  } else {
    Element z = gateOf(part, Z), r = gateOf(part, R), input = inputOf(part, H), bias = biasOf(part, H);
    if (failed(z) || failed(r) || failed(input) || failed(bias))
      return failure();
    update = activate(0, *z, width);
    Value product = make<arith::AddFOp>(productOf(part, H), *bias);
    sum = make<arith::AddFOp>(*input, make<arith::MulFOp>(activate(0, *r, width), product));
  }
  Value one = floatConstant(1.0, b.getF32Type(), width);
  Value fresh = make<arith::MulFOp>(make<arith::SubFOp>(one, update), activate(1, sum, width));
  storeHidden(part, make<arith::AddFOp>(fresh, make<arith::MulFOp>(update, loadState(states, part))));
  return success();
}

LogicalResult RecurrentKernel::rnn(const Part &part) {
  Element sum = gateOf(part, 0);
  if (failed(sum))
    return failure();
  storeHidden(part, activate(0, *sum, part.width));
  return success();
}

/// Applies an activation to x, which is clamped first if it is a sum.
Value RecurrentKernel::activate(int64_t number, Value x, int64_t width) {
  Type f32 = b.getF32Type();
  auto number32 = [&](double value) { return floatConstant(value, f32, width); };
  auto isLess = [&](Value one, Value other) -> Value {
    return make<arith::CmpFOp>(arith::CmpFPredicate::OLT, one, other);
  };
  if (std::optional<APFloat> clip = root.getClip(); clip && number != 2) {
    double limit = clip->convertToFloat();
    x = make<arith::MaximumFOp>(make<arith::MinimumFOp>(x, number32(limit)), number32(-limit));
  }
  nn::RecurrentFunction function = root.getFunction(functions, number);
  Value zero = number32(0), one = number32(1), alpha = number32(function.alpha), beta = number32(function.beta);
  auto affine = [&]() -> Value { return make<arith::AddFOp>(make<arith::MulFOp>(alpha, x), beta); };
  switch (function.kind) {
  case nn::RecurrentActivation::Sigmoid:
    return emitSigmoid(b, loc, x);
  case nn::RecurrentActivation::Tanh:
    return emitTanh(b, loc, x);
  case nn::RecurrentActivation::Relu:
    return make<arith::MaximumFOp>(x, zero);
  case nn::RecurrentActivation::Affine:
    return affine();
  case nn::RecurrentActivation::LeakyRelu:
    return make<arith::SelectOp>(isLess(x, zero), make<arith::MulFOp>(alpha, x), x);
  case nn::RecurrentActivation::ThresholdedRelu:
    return make<arith::SelectOp>(isLess(x, alpha), zero, x);
  case nn::RecurrentActivation::ScaledTanh:
    return make<arith::MulFOp>(alpha, emitTanh(b, loc, make<arith::MulFOp>(beta, x)));
  case nn::RecurrentActivation::HardSigmoid:
    return make<arith::MinimumFOp>(make<arith::MaximumFOp>(affine(), zero), one);
  case nn::RecurrentActivation::Elu:
    return make<arith::SelectOp>(isLess(x, zero), make<arith::MulFOp>(alpha, emitExpm1(b, loc, x)), x);
  case nn::RecurrentActivation::Softsign:
    return make<arith::DivFOp>(x, make<arith::AddFOp>(one, make<math::AbsFOp>(x)));
  case nn::RecurrentActivation::Softplus: {
    // e^x alone would overflow.
    Value negative = make<arith::SubFOp>(zero, make<math::AbsFOp>(x));
    return make<arith::AddFOp>(make<arith::MaximumFOp>(x, zero), emitLog1p(b, loc, emitExp(b, loc, negative)));
  }
  }
  llvm_unreachable("unknown activation");
}

} // namespace intarsia::cpu
