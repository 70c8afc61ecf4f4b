//===- Loops.cpp - Loop and Scan ----------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops of few iterations are written out: the values that they carry may then change their shapes and be sequences,
// and values that depend on the number of the iteration are known. Other loops are loops of the host (HostLoops).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/HostLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

/// The most iterations of a loop that is written out.
constexpr int64_t mostIterations = 256;

/// For each result of a body that is not carried, its values in all iterations.
using Scans = std::vector<llvm::SmallVector<GraphValue>>;

bool areRefused(NodeContext &node, llvm::ArrayRef<GraphValue> values) {
  return node.ir().sink().any() || llvm::any_of(values, [](const GraphValue &value) { return value.isRefused; });
}

/// Returns a value as a tensor; null, and the node refused, if it is none.
Value tensorOf(NodeContext &node, GraphValue &value) {
  if (!value.isTensor()) {
    node.refuse("its iterations pass on a sequence or an empty optional value, so that their number must be known to "
                "the compiler");
    return {};
  }
  Value tensor = node.graph.tensorOf(node.at, value);
  if (!tensor)
    node.refuse("a result has elements of type " + nameOf(value.type) + ", which are not computed with");
  return tensor;
}

/// Takes the results of an iteration: values that are carried, which must have the `types` that the loop began with,
/// and parts, whose types are added to `scanTypes`. Returns false, and the node is refused, if a type differs.
bool takeResults(NodeContext &node, llvm::MutableArrayRef<GraphValue> results, llvm::ArrayRef<DataType> types,
                 LoopStep &step, llvm::SmallVectorImpl<DataType> &scanTypes) {
  for (auto [number, value] : llvm::enumerate(results)) {
    bool isCarried = number < types.size();
    if (!isCarried && !node.isWanted(number))
      continue;
    Value tensor = tensorOf(node, value);
    if (!tensor)
      return false;
    if (isCarried && value.type != types[number]) {
      node.refuse("carries a value of " + nameOf(types[number]) + " and goes on with one of " + nameOf(value.type));
      return false;
    }
    if (!isCarried)
      scanTypes.push_back(value.type);
    (isCarried ? step.carried : step.parts).push_back(tensor);
  }
  return true;
}

/// Joins the results of all iterations along a new axis.
std::optional<GraphValue> joined(NodeContext &node, llvm::MutableArrayRef<GraphValue> values, int64_t axis,
                                 bool isReverse) {
  if (values.empty()) {
    node.refuse("a loop without iterations has a result of no known shape");
    return std::nullopt;
  }
  llvm::SmallVector<Value> parts;
  for (GraphValue &value : values) {
    Value tensor = tensorOf(node, value);
    if (!tensor)
      return std::nullopt;
    Shape shape = node.graph.shapeOf(node.at, tensor);
    int64_t at = node.axis(axis, shape.size() + 1, "scan_output_axes");
    shape.insert(shape.begin() + at, 1);
    parts.push_back(node.reshaped(tensor, shape));
    axis = at;
  }
  if (isReverse)
    std::reverse(parts.begin(), parts.end());
  for (Value part : llvm::ArrayRef(parts).drop_front())
    if (part.getType() != parts.front().getType()) {
      node.refuse("iterations have results of " + describe(parts.front()) + " and " + describe(part));
      return std::nullopt;
    }
  Shape shape = node.graph.shapeOf(node.at, parts.front());
  shape[axis] = int64_t(parts.size());
  GraphValue whole = values.front();
  whole.tensor = parts.size() == 1 ? parts.front() : node.ir().concat(node.at, parts, axis);
  whole.elements = nullptr;
  whole.stored = nullptr;
  node.graph.setShape(whole.tensor, shape);
  return whole;
}

bool joinScans(NodeContext &node, size_t output, llvm::MutableArrayRef<GraphValue> values, int64_t axis,
               bool isReverse) {
  std::optional<GraphValue> whole = joined(node, values, axis, isReverse);
  if (whole)
    node.result(output, whole->tensor, whole->type);
  return whole.has_value();
}

GraphValue scalarOf(DataType type, int64_t value) {
  GraphValue result;
  result.type = type;
  result.elements = std::make_shared<Elements>(Elements{{}, {value}});
  return result;
}

GraphValue valueOf(Value tensor, DataType type) {
  GraphValue result;
  result.type = type;
  result.tensor = tensor;
  return result;
}

//===-- Loop --------------------------------------------------------------------------------------------------===//

/// A Loop, which is written out iteration by iteration until the compiler does not know whether there is another.
class Loop {
public:
  Loop(NodeContext &node, const Graph &body) : node(node), body(body) {}

  void build();

private:
  void buildRest(int64_t first);
  void finish();
  bool setLimit(HostLoop &loop);

  NodeContext &node;
  const Graph &body;
  std::optional<int64_t> most;   ///< the most iterations, if that number is known
  std::optional<int64_t> goesOn; ///< whether there is another iteration, if that is known
  GraphValue condition;          ///< the value that says whether there is another iteration
  llvm::SmallVector<GraphValue> carried;
  Scans scans;
};

void Loop::build() {
  size_t carriedCount = node.inputCount() > 2 ? node.inputCount() - 2 : 0;
  if (body.inputs.size() != carriedCount + 2 || body.outputs.size() < carriedCount + 1)
    return node.refuse("attribute 'body' does not have an input for each value that the loop carries");
  most = node.has(0) ? node.knownNumber(node.input(0)) : std::nullopt;
  goesOn = node.has(1) ? node.knownNumber(node.input(1)) : std::optional<int64_t>(1);
  if (node.has(1))
    condition = node.input(1);
  for (size_t number = 0; number < carriedCount; ++number) {
    if (!node.has(number + 2))
      return node.refuse("carries a value that is left out");
    carried.push_back(node.input(number + 2));
  }
  scans.resize(body.outputs.size() - carriedCount - 1);
  bool isWrittenOut = goesOn && (!node.has(0) || (most && *most <= mostIterations));
  if (!isWrittenOut)
    return buildRest(0);
  for (int64_t iteration = 0; *goesOn && (!most || iteration < *most); ++iteration) {
    if (iteration == mostIterations)
      return node.refuse("has more than " + llvm::Twine(mostIterations) + " iterations");
    llvm::SmallVector<GraphValue> inputs{scalarOf(DataType::Int64, iteration), scalarOf(DataType::Bool, *goesOn)};
    inputs.append(carried);
    llvm::SmallVector<GraphValue> results = node.graph.buildNested(body, inputs);
    if (areRefused(node, results))
      return node.leaveOut();
    condition = results[0];
    goesOn = condition.isTensor() ? node.knownNumber(condition) : std::nullopt;
    carried.assign(results.begin() + 1, results.begin() + 1 + carriedCount);
    for (size_t number = 0; number < scans.size(); ++number)
      scans[number].push_back(results[1 + carriedCount + number]);
    if (!goesOn)
      return buildRest(iteration + 1);
  }
  finish();
}

/// Sets the results of a loop that is written out.
void Loop::finish() {
  for (auto [number, value] : llvm::enumerate(carried))
    node.result(number, value);
  for (auto [number, values] : llvm::enumerate(scans))
    if (node.isWanted(carried.size() + number) && !joinScans(node, carried.size() + number, values, 0, false))
      return;
}

/// Sets the number of iterations: a number, a size of the call, or an element that the call computes.
bool Loop::setLimit(HostLoop &loop) {
  if (most) {
    loop.count = std::max<int64_t>(*most, 0);
    return true;
  }
  const Elements *known = node.graph.elementsOf(node.input(0));
  if (known && known->values.size() == 1 && known->values.front().isSize()) {
    loop.count = known->values.front().size;
    return true;
  }
  if (!node.isOf(0, isIndex, "int64"))
    return false;
  Value given = node.tensor(0);
  std::optional<Value> one = node.isRefused() ? std::nullopt : onnx::scalarOf(node, given);
  if (!one)
    return node.refuse("the number of iterations is not one element"), false;
  OpBuilder &ops = node.ops();
  Value count = tensor::ExtractOp::create(ops, node.at, *one, ValueRange());
  Value index = arith::IndexCastOp::create(ops, node.at, ops.getIndexType(), count);
  Value zero = arith::ConstantIndexOp::create(ops, node.at, 0);
  loop.count = Size(arith::MaxSIOp::create(ops, node.at, index, zero).getResult());
  loop.isComputed = true;
  return true;
}

/// Builds the iterations from number `first` on as a loop of the host.
void Loop::buildRest(int64_t first) {
  HostLoop loop;
  loop.first = first;
  if (goesOn == 0)
    loop.count = Size(0);
  else if (node.has(0) && !setLimit(loop))
    return;
  if (!goesOn) {
    Value given = tensorOf(node, condition);
    std::optional<Value> one = given ? onnx::scalarOf(node, given) : std::nullopt;
    if (!isBool(condition.type) || !one)
      return node.refuse("whether it goes on is not one element of bool");
    loop.goesOn = *one;
  }
  llvm::SmallVector<DataType> types, scanTypes;
  for (GraphValue &value : carried) {
    Value tensor = tensorOf(node, value);
    if (!tensor)
      return;
    loop.carried.push_back(tensor);
    types.push_back(value.type);
  }
  auto step = [&](Value number, llvm::ArrayRef<Value> now) -> std::optional<LoopStep> {
    // The condition holds at the beginning of each iteration.
    llvm::SmallVector<GraphValue> inputs{valueOf(number, DataType::Int64), scalarOf(DataType::Bool, 1)};
    for (auto [tensor, type] : llvm::zip_equal(now, types))
      inputs.push_back(valueOf(tensor, type));
    llvm::SmallVector<GraphValue> results = node.graph.buildNested(body, inputs);
    if (areRefused(node, results))
      return std::nullopt;
    LoopStep made;
    bool isKnown = results[0].isTensor() && node.knownNumber(results[0]).has_value();
    if (isKnown && *node.knownNumber(results[0]) == 0) {
      node.refuse("never goes on after an iteration");
      return std::nullopt;
    }
    if (!isKnown && !(isBool(results[0].type) && (made.goesOn = tensorOf(node, results[0])))) {
      node.refuse("whether it goes on is not one element of bool");
      return std::nullopt;
    }
    if (!takeResults(node, llvm::MutableArrayRef(results).drop_front(), types, made, scanTypes))
      return std::nullopt;
    return made;
  };
  std::optional<LoopResults> results = buildLoop(node, loop, step);
  if (!results)
    return;
  for (auto [number, tensor] : llvm::enumerate(results->carried))
    node.result(number, tensor, types[number]);
  size_t next = 0;
  for (size_t number = 0; number < scans.size(); ++number)
    if (node.isWanted(carried.size() + number)) {
      node.result(carried.size() + number, results->parts[next], scanTypes[next]);
      ++next;
    }
}

void loop(NodeContext &node) {
  if (const Graph *body = node.subgraph("body"))
    Loop(node, *body).build();
}

//===-- Scan --------------------------------------------------------------------------------------------------===//

/// A Scan: a loop over an axis of its last inputs.
class Scan {
public:
  Scan(NodeContext &node, const Graph &body) : node(node), body(body) {}

  void build();

private:
  llvm::SmallVector<int64_t> list(llvm::StringRef name, int64_t count);
  bool readAttributes();
  void writeOut();
  void buildLoopOfHost();

  NodeContext &node;
  const Graph &body;
  int64_t stateCount = 0, scanInputs = 0, scanOutputs = 0;
  llvm::SmallVector<int64_t> axes, reversed, outputAxes, outputReversed;
  llvm::SmallVector<Value> sources;
  Size count = 1;
};

llvm::SmallVector<int64_t> Scan::list(llvm::StringRef name, int64_t count) {
  auto given = node.integers(name).value_or(llvm::SmallVector<int64_t>(count, 0));
  if (int64_t(given.size()) != count)
    node.refuse("attribute '" + name + "' has " + llvm::Twine(given.size()) + " numbers, must have " +
                llvm::Twine(count));
  given.resize(count, 0);
  return given;
}

bool Scan::readAttributes() {
  scanInputs = node.integer("num_scan_inputs", 0);
  auto inputCount = int64_t(node.inputCount());
  stateCount = scanInputs < 1 || scanInputs > inputCount ? -1 : inputCount - scanInputs;
  scanOutputs = int64_t(body.outputs.size()) - stateCount;
  if (stateCount < 0 || scanOutputs < 0 || body.inputs.size() != node.inputCount())
    node.refuse("attributes 'num_scan_inputs' and 'body' do not go with the inputs");
  if (node.isRefused())
    return false;
  axes = list("scan_input_axes", scanInputs);
  reversed = list("scan_input_directions", scanInputs);
  outputAxes = list("scan_output_axes", scanOutputs);
  outputReversed = list("scan_output_directions", scanOutputs);
  return !node.isRefused();
}

void Scan::build() {
  if (!readAttributes())
    return;
  std::optional<NamedSize> length;
  for (int64_t number = 0; number < scanInputs; ++number) {
    Value source = node.tensor(stateCount + number);
    Shape shape = node.graph.shapeOf(node.at, source);
    axes[number] = node.axis(axes[number], shape.size(), "scan_input_axes");
    if (node.isRefused())
      return;
    NamedSize own = dimensionOf(printable(node.node.inputs[stateCount + number]), axes[number], shape);
    if (!length)
      length = own;
    else if (length->size.isDynamic() && !own.size.isDynamic())
      std::swap(own, *length);
    if (!requireEqual(node, own, *length))
      return;
    sources.push_back(source);
  }
  count = length->size;
  if (count.isDynamic() || count.value > mostIterations)
    buildLoopOfHost();
  else
    writeOut();
}

void Scan::writeOut() {
  llvm::SmallVector<GraphValue> states;
  for (int64_t number = 0; number < stateCount; ++number)
    states.push_back(node.input(number));
  Scans scans(scanOutputs);
  for (int64_t iteration = 0; iteration < count.value; ++iteration) {
    llvm::SmallVector<GraphValue> inputs(states);
    for (auto [number, source] : llvm::enumerate(sources)) {
      int64_t at = reversed[number] ? count.value - 1 - iteration : iteration, axis = axes[number];
      Shape shape = node.graph.shapeOf(node.at, source);
      shape.erase(shape.begin() + axis);
      inputs.push_back(
          valueOf(node.reshaped(node.sliced(source, axis, at, 1), shape), node.typeOf(stateCount + number)));
    }
    llvm::SmallVector<GraphValue> results = node.graph.buildNested(body, inputs);
    if (areRefused(node, results))
      return node.leaveOut();
    states.assign(results.begin(), results.begin() + stateCount);
    for (int64_t number = 0; number < scanOutputs; ++number)
      scans[number].push_back(results[stateCount + number]);
  }
  for (int64_t number = 0; number < stateCount; ++number)
    node.result(number, states[number]);
  for (int64_t number = 0; number < scanOutputs; ++number)
    if (node.isWanted(stateCount + number) &&
        !joinScans(node, stateCount + number, scans[number], outputAxes[number], outputReversed[number] != 0))
      return;
}

void Scan::buildLoopOfHost() {
  HostLoop loop;
  loop.count = count;
  llvm::SmallVector<DataType> types, scanTypes;
  for (int64_t number = 0; number < stateCount; ++number) {
    Value tensor = tensorOf(node, node.input(number));
    if (!tensor)
      return;
    loop.carried.push_back(tensor);
    types.push_back(node.typeOf(number));
  }
  auto step = [&](Value number, llvm::ArrayRef<Value> now) -> std::optional<LoopStep> {
    llvm::SmallVector<GraphValue> inputs;
    for (auto [tensor, type] : llvm::zip_equal(now, types))
      inputs.push_back(valueOf(tensor, type));
    for (auto [scan, source] : llvm::enumerate(sources))
      inputs.push_back(
          valueOf(partAt(node, source, axes[scan], number, reversed[scan] != 0), node.typeOf(stateCount + scan)));
    llvm::SmallVector<GraphValue> results = node.graph.buildNested(body, inputs);
    if (areRefused(node, results))
      return std::nullopt;
    LoopStep made;
    if (!takeResults(node, results, types, made, scanTypes))
      return std::nullopt;
    return made;
  };
  std::optional<LoopResults> results = buildLoop(node, loop, step);
  if (!results)
    return;
  for (auto [number, tensor] : llvm::enumerate(results->carried))
    node.result(number, tensor, types[number]);
  size_t next = 0;
  for (int64_t number = 0; number < scanOutputs; ++number) {
    if (!node.isWanted(stateCount + number))
      continue;
    Value whole = results->parts[next];
    if (outputReversed[number])
      whole = node.sliced(whole, 0, node.compute(importer::SizeOp::Subtract, count, 1), count, -1);
    auto rank = tensorType(whole).getRank();
    int64_t axis = node.axis(outputAxes[number], rank, "scan_output_axes");
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(1, rank));
    permutation.insert(permutation.begin() + axis, 0);
    node.result(stateCount + number, node.transposed(whole, permutation), scanTypes[next]);
    ++next;
  }
}

/// Scan of version 8: the first dimension of all values is a batch, each part of which is scanned along the next one.
void scanOfBatches(NodeContext &node, const Graph &body) {
  int64_t scanInputs = node.integer("num_scan_inputs", 0), given = int64_t(node.inputCount()) - 1;
  int64_t stateCount = given - scanInputs, scanOutputs = int64_t(body.outputs.size()) - stateCount;
  auto directions = node.integers("directions").value_or(llvm::SmallVector<int64_t>());
  directions.resize(std::max<size_t>(directions.size(), std::clamp<int64_t>(scanInputs, 0, given + 1)), 0);
  if (scanInputs < 1 || stateCount < 0 || scanOutputs < 0 || int64_t(body.inputs.size()) != given)
    return node.refuse("attributes 'num_scan_inputs' and 'body' do not go with the inputs");
  if (node.has(0))
    return node.refuse("input 'sequence_lens' is not imported");
  llvm::SmallVector<Value> sources;
  std::optional<int64_t> batch, count;
  auto isKnown = [](std::optional<int64_t> &known, const Size &size) {
    bool isSame = !size.isDynamic() && known.value_or(size.value) == size.value && size.value <= mostIterations;
    known = size.value;
    return isSame;
  };
  for (int64_t number = 0; number < given; ++number) {
    Value source = node.tensor(1 + number);
    Shape shape = node.graph.shapeOf(node.at, source);
    bool isScanned = number >= stateCount;
    if (shape.size() < (isScanned ? 2u : 1u) || !isKnown(batch, shape[0]) || (isScanned && !isKnown(count, shape[1])))
      return node.refuse("the sizes of batches and sequences must be known to the compiler, equal, and at most " +
                         llvm::Twine(mostIterations));
    sources.push_back(source);
  }
  auto partOf = [&](Value source, int64_t at) {
    Shape shape = node.graph.shapeOf(node.at, source);
    shape.erase(shape.begin());
    return node.reshaped(node.sliced(source, 0, at, 1), shape);
  };
  Scans results(stateCount + scanOutputs);
  for (int64_t number = 0; number < *batch && !node.isRefused(); ++number) {
    llvm::SmallVector<GraphValue> states;
    for (int64_t state = 0; state < stateCount; ++state)
      states.push_back(valueOf(partOf(sources[state], number), node.typeOf(1 + state)));
    Scans scans(scanOutputs);
    for (int64_t iteration = 0; iteration < *count; ++iteration) {
      llvm::SmallVector<GraphValue> inputs(states);
      for (int64_t scan = 0; scan < scanInputs; ++scan) {
        Value sequence = partOf(sources[stateCount + scan], number);
        int64_t at = directions[scan] ? *count - 1 - iteration : iteration;
        inputs.push_back(valueOf(partOf(sequence, at), node.typeOf(1 + stateCount + scan)));
      }
      llvm::SmallVector<GraphValue> made = node.graph.buildNested(body, inputs);
      if (areRefused(node, made))
        return node.leaveOut();
      states.assign(made.begin(), made.begin() + stateCount);
      for (auto [scan, values] : llvm::enumerate(scans))
        values.push_back(made[stateCount + scan]);
    }
    for (auto [state, value] : llvm::enumerate(states))
      results[state].push_back(value);
    for (auto [scan, values] : llvm::enumerate(scans))
      if (auto whole = joined(node, values, 0, /*isReverse=*/false))
        results[stateCount + scan].push_back(*whole);
  }
  for (auto [number, values] : llvm::enumerate(results))
    if (node.isRefused() || (node.isWanted(number) && !joinScans(node, number, values, 0, /*isReverse=*/false)))
      return;
}

void scan(NodeContext &node) {
  const Graph *body = node.subgraph("body");
  if (body && node.version < 9)
    scanOfBatches(node, *body);
  else if (body)
    Scan(node, *body).build();
}

} // namespace

llvm::ArrayRef<OpRow> loopOps() {
  static const OpRow rows[] = {
      {"", "Loop", 1, loop, Takes::Sequences},
      {"", "Scan", 8, scan, Takes::Elements},
  };
  return rows;
}

} // namespace intarsia::onnx
