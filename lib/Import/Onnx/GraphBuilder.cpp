//===- GraphBuilder.cpp - Emits IR of the graphs of an ONNX model -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/GraphBuilder.h"

#include "dialects/Interfaces/ScalarBuilder.h"
#include "lib/Import/Onnx/OpTable.h"
#include "lib/Import/Onnx/SmallTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace intarsia::onnx {

/// Nodes of functions and nested graphs that are written out, counted for each call: functions that call others twice
/// may be few and stand for any number.
static constexpr uint64_t mostNodes = 1 << 17;
/// Functions and graphs that are built inside of one another.
static constexpr unsigned deepest = 64;
static constexpr llvm::StringLiteral tooDeep = "functions and nested graphs are more than 64 deep";
/// Bytes of metadata that an artifact keeps; a file with more has none there.
static constexpr size_t mostMetadata = 1 << 20;
/// Bytes of a constant that is a weight instead, so that its elements stay in the file.
static constexpr uint64_t leastWeight = 1024;

static llvm::StringRef textOf(std::string_view text) { return {text.data(), text.size()}; }

GraphBuilder::GraphBuilder(importer::ModuleBuilder &builder, const File &file, const GivenInputs &given,
                           Refusals &refusals)
    : builder(builder), file(file), given(given), refusals(refusals), weights(file),
      operatorSets(file.model().operatorSets) {
  for (const Function &function : file.model().functions)
    functions.try_emplace({function.domain, function.name, function.overload}, &function);
}

//===-- Values ------------------------------------------------------------------------------------------------===//

/// Returns the constant of elements that are all numbers.
static Value constantOf(OpBuilder &builder, Location at, const Elements &elements, RankedTensorType type) {
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    llvm::SmallVector<llvm::APFloat> values;
    for (const Element &each : elements.values) {
      llvm::APFloat value(each.number());
      bool isLossy;
      value.convert(element.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &isLossy);
      values.push_back(value);
    }
    return arith::ConstantOp::create(builder, at, DenseElementsAttr::get(type, values));
  }
  llvm::SmallVector<llvm::APInt> values;
  for (const Element &each : elements.values)
    values.push_back(llvm::APInt(64, uint64_t(each.integer)).trunc(type.getElementTypeBitWidth()));
  return arith::ConstantOp::create(builder, at, DenseElementsAttr::get(type, values));
}

/// Returns the elements of fewer than 8 bits of a tensor of the file, a byte each, from its bytes.
static Value unpacked(importer::ModuleBuilder &builder, Location at, Value bytes, const Tensor &tensor) {
  int64_t bits = bitsOf(tensor.type), count = tensor.elements(), last = int64_t(tensor.bytes) - 1;
  Type byte = builder.getBuilder().getI8Type();
  Value flat = builder.elementwise(at, byte, {count}, {}, [&](OpBuilder &b, Location loc, ValueRange) -> Value {
    ScalarBuilder s(loc, b);
    auto byteAt = [&](Integer index) {
      Value value = tensor::ExtractOp::create(s, bytes, ValueRange{index});
      return Integer(s, arith::ExtUIOp::create(s, s.getI32Type(), value));
    };
    Integer begin = s.indexOf(0) * bits;
    Integer read = byteAt(begin / 8);
    if (8 % bits != 0) // an element may end in the next byte
      read = read | (byteAt(smaller(begin / 8 + 1, last)) << 8);
    Integer shift(s, arith::IndexCastOp::create(s, s.getI32Type(), begin % 8));
    Value element = arith::TruncIOp::create(s, byte, (read >> shift) & ((1 << bits) - 1));
    return isSmallInteger(tensor.type) ? wrapSmallInteger(b, loc, element, tensor.type) : element;
  });
  return builder.reshape(at, flat, tensor.dims);
}

/// Returns the constant of a tensor that is too large to be followed, and that is in no archive.
static Value constantOf(OpBuilder &builder, Location at, const Tensor &tensor, Type element) {
  auto type = RankedTensorType::get(tensor.dims, element);
  // Bits lie in bytes in tensors.
  if (element.isInteger(1))
    return arith::ConstantOp::create(
        builder, at,
        DenseElementsAttr::get(type, llvm::ArrayRef(reinterpret_cast<const bool *>(tensor.data), tensor.bytes)));
  llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(tensor.data), tensor.bytes);
  return arith::ConstantOp::create(builder, at, DenseElementsAttr::getFromRawBuffer(type, bytes));
}

Value GraphBuilder::tensorOf(Location at, GraphValue &value) {
  if (value.tensor)
    return value.tensor;
  Type element = elementType(value.type, context());
  if (!element)
    return {};
  OpBuilder::InsertionGuard guard(ops());
  bool isConstant = value.stored || llvm::all_of(value.elements->values, [](const Element &e) { return e.isNumber(); });
  // What branches read too stands before all of them.
  Block *block = ops().getInsertionBlock();
  bool isNested = !isa<func::FuncOp>(block->getParentOp());
  while (!isa<func::FuncOp>(block->getParentOp()))
    block = block->getParentOp()->getBlock();
  if (isConstant)
    ops().setInsertionPointToStart(block);
  if (value.stored && value.stored->bytes >= leastWeight && !value.stored->key.empty()) {
    Value weight = builder.weight(at, weights, value.stored->key);
    return value.tensor = bitsOf(value.type) < 8 ? unpacked(builder, at, weight, *value.stored) : weight;
  }
  const Elements *elements = elementsOf(value);
  if (!elements && value.stored && bitsOf(value.type) >= 8)
    return value.tensor = constantOf(ops(), at, *value.stored, element);
  if (!elements)
    return {};
  auto type = RankedTensorType::get(elements->shape, element);
  if (isConstant)
    return value.tensor = constantOf(ops(), at, *elements, type);
  llvm::SmallVector<Value> values;
  for (const Element &each : elements->values) {
    if (each.isNumber()) {
      values.push_back(arith::ConstantOp::create(ops(), at, ops().getIntegerAttr(element, each.integer)));
      continue;
    }
    Value size = cast<Value>(builder.size(each.size));
    if (value.type == DataType::Bool) {
      // Of one bit, 1 is below 0.
      Value zero = arith::ConstantIndexOp::create(ops(), at, 0);
      values.push_back(arith::CmpIOp::create(ops(), at, arith::CmpIPredicate::ne, size, zero));
      continue;
    }
    values.push_back(arith::IndexCastOp::create(ops(), at, element, size));
  }
  Value flat =
      tensor::FromElementsOp::create(ops(), at, RankedTensorType::get({int64_t(values.size())}, element), values);
  Value tensor = builder.reshape(at, flat, elements->shape);
  if (!isNested)
    value.tensor = tensor;
  return tensor;
}

const Elements *GraphBuilder::elementsOf(GraphValue &value) {
  if (!value.elements && value.stored)
    if (std::optional<Elements> read = readElements(*value.stored))
      value.elements = std::make_shared<Elements>(std::move(*read));
  return value.elements.get();
}

Shape GraphBuilder::shapeOf(Location at, const GraphValue &value) {
  if (value.tensor)
    return shapeOf(at, value.tensor);
  if (value.stored)
    return Shape(value.stored->dims.begin(), value.stored->dims.end());
  return value.elements ? Shape(value.elements->shape.begin(), value.elements->shape.end()) : Shape();
}

Shape GraphBuilder::shapeOf(Location at, Value tensor) {
  auto known = shapes.find(tensor);
  Shape shape;
  for (auto [dimension, size] : llvm::enumerate(cast<RankedTensorType>(tensor.getType()).getShape())) {
    if (!ShapedType::isDynamic(size))
      shape.push_back(size);
    else
      shape.push_back(known != shapes.end() ? known->second[dimension] : builder.sizeOf(at, tensor, dimension));
  }
  // A size that a branch asks for is none of what stands outside of it.
  if (known == shapes.end() && isa<func::FuncOp>(ops().getInsertionBlock()->getParentOp()))
    shapes[tensor] = shape;
  return shape;
}

void GraphBuilder::setShape(Value tensor, const Shape &shape) { shapes[tensor] = shape; }

void GraphBuilder::forget(Region &region, const Problems &before) {
  region.walk([&](Operation *op) {
    for (Value result : op->getResults())
      shapes.erase(result);
    for (Region &inner : op->getRegions())
      for (Value argument : inner.getArguments())
        shapes.erase(argument);
  });
  refusals.forgetSince(before.refusals);
  builder.sink() = before.errors;
}

bool GraphBuilder::mayFold(uint64_t elements) {
  constexpr uint64_t most = 1 << 18; // 72 bytes each
  if (elementsFolded + elements > most)
    return false;
  elementsFolded += elements;
  return true;
}

void GraphBuilder::allowEmpty(Value tensor, unsigned dimension) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  auto names = function ? function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), "nn.sizes") : ArrayAttr();
  if (!names || dimension >= names.size() || cast<StringAttr>(names[dimension]).empty())
    return;
  emptySizes.insert(names[dimension]);
}

bool GraphBuilder::areEqual(const Size &one, const Size &other) const {
  if (!one.isDynamic() || !other.isDynamic())
    return one.value == other.value;
  return builder.size(one) == builder.size(other);
}

GraphValue *GraphBuilder::find(llvm::StringRef name) {
  for (auto &scope : llvm::reverse(scopes)) {
    if (auto found = scope.find(name); found != scope.end())
      return &found->second;
    if (&scope == &scopes[firstScope])
      break;
  }
  return nullptr;
}

void GraphBuilder::define(llvm::StringRef name, GraphValue value) {
  if (!name.empty() && !scopes.back().try_emplace(name, std::move(value)).second)
    builder.sink().report("the value '" + name + "' is defined twice");
}

//===-- Graphs ------------------------------------------------------------------------------------------------===//

/// True for what IR keeps as integers and calls pass as those without a sign.
static bool hasNoSign(DataType type) { return isSmallFloat(type) || (isUnsigned(type) && type != DataType::Bool); }

/// The most inputs, and outputs, that a function has.
static constexpr size_t mostValues = size_t(1) << 14;

void GraphBuilder::declareInputs(const Graph &graph) {
  llvm::StringSet<> stored;
  for (const Tensor &tensor : graph.initializers)
    stored.insert(textOf(tensor.name));
  // Names of sizes that the file has are not given to others.
  llvm::StringSet<> symbols;
  for (const ValueInfo &info : graph.inputs)
    for (const ValueType::Dimension &dimension : given.typeOf(info).dims)
      symbols.insert(textOf(dimension.name));
  auto ownName = [&](llvm::StringRef name, size_t number) {
    std::string own = (name + "." + llvm::Twine(number)).str();
    while (!symbols.insert(own).second)
      own += ".0";
    return own;
  };
  std::vector<importer::Input> inputs;
  std::vector<DataType> types;
  for (const ValueInfo &info : graph.inputs) {
    llvm::StringRef name = textOf(info.name);
    // Files before IR version 4 list what they store among the inputs.
    if (stored.contains(name) || given.valueOf(name))
      continue;
    ValueType type = given.typeOf(info);
    auto report = [&](const llvm::Twine &what) { builder.sink().report("input '" + name + "' " + what); };
    if (name.empty())
      return builder.sink().report("an input has no name");
    if (!type.isTensor)
      return report("is no tensor; sequences, optional values and maps are not passed");
    if (!elementType(type.element, context()))
      return report("has elements of type " + nameOf(type.element) + ", which calls do not pass");
    if (!type.hasShape)
      return report("has no shape; its number of dimensions must be known, give it by --shape=" + name + "=1x3xHxW");
    importer::Input &input = inputs.emplace_back();
    input.name = name;
    input.element = elementType(type.element, context());
    input.isUnsigned = hasNoSign(type.element);
    types.push_back(type.element);
    for (auto [number, dimension] : llvm::enumerate(type.dims)) {
      llvm::StringRef symbol = textOf(dimension.name);
      if (dimension.value && *dimension.value >= 0)
        input.shape.push_back(*dimension.value);
      else
        input.shape.push_back(builder.sizeName(symbol.empty() || symbol == "?" ? ownName(name, number) : symbol.str()));
    }
    if (isTooLarge(input.shape))
      return report("has more elements than memory can hold");
  }
  for (auto [count, what] : {std::pair(inputs.size(), "inputs"), std::pair(graph.outputs.size(), "outputs")})
    if (count > mostValues)
      return builder.sink().report("the graph has " + llvm::Twine(count) + " " + what + ", at most " +
                                   llvm::Twine(mostValues) + " are possible");
  builder.beginFunction("main", inputs);
  for (auto [input, type] : llvm::zip_equal(inputs, types)) {
    GraphValue value;
    value.type = type;
    value.tensor = builder.input(input.name);
    if (!value.tensor)
      return;
    setShape(value.tensor, input.shape);
    define(input.name, std::move(value));
  }
  for (const ValueInfo &info : graph.inputs)
    if (const GraphValue *value = given.valueOf(textOf(info.name)))
      define(textOf(info.name), *value);
}

void GraphBuilder::defineInitializers(const Graph &graph, bool isMain) {
  if (graph.hasSparse)
    return builder.sink().report("sparse initializers are not imported");
  for (const Tensor &tensor : graph.initializers) {
    if (isMain && given.valueOf(textOf(tensor.name)))
      continue;
    GraphValue value;
    value.type = tensor.type;
    value.stored = &tensor;
    define(textOf(tensor.name), std::move(value));
  }
}

int64_t GraphBuilder::versionOf(llvm::StringRef domain) const {
  for (const OperatorSet &set : operatorSets)
    if (textOf(set.domain) == domain)
      return set.version;
  return 0;
}

const Attribute *GraphBuilder::resolve(const Attribute *attribute) const {
  for (size_t depth = calls.size(); attribute && !attribute->reference.empty(); --depth) {
    if (depth == 0)
      return nullptr;
    const auto &[node, function] = calls[depth - 1];
    std::string_view name = attribute->reference;
    attribute = node->find(name);
    if (attribute)
      continue;
    for (const Attribute &byDefault : function->defaults)
      if (byDefault.name == name)
        return &byDefault;
    return nullptr;
  }
  return attribute;
}

void GraphBuilder::buildFunction(const Node &node, const Function &function) {
  for (const auto &[caller, called] : calls)
    if (called == &function)
      return refusals.add(node, 0, "the function calls itself");
  if (depth == deepest)
    return refusals.add(node, 0, tooDeep);
  ++depth;
  auto leave = llvm::make_scope_exit([&] { --depth; });
  llvm::StringMap<GraphValue> arguments;
  for (auto [number, name] : llvm::enumerate(function.inputs)) {
    GraphValue *value = number < node.inputs.size() ? find(textOf(node.inputs[number])) : nullptr;
    if (value && !node.inputs[number].empty())
      arguments.try_emplace(textOf(name), *value);
  }
  auto sets = operatorSets;
  size_t before = firstScope;
  operatorSets = function.operatorSets;
  firstScope = scopes.size();
  scopes.push_back(std::move(arguments));
  calls.emplace_back(&node, &function);
  buildNodes(function.nodes);
  llvm::SmallVector<std::optional<GraphValue>> results;
  for (std::string_view name : function.outputs) {
    GraphValue *value = find(textOf(name));
    results.push_back(value ? std::optional(*value) : std::nullopt);
  }
  calls.pop_back();
  scopes.pop_back();
  firstScope = before;
  operatorSets = sets;
  for (auto [number, name] : llvm::enumerate(node.outputs)) {
    if (number >= results.size() || !results[number]) {
      if (!name.empty())
        builder.sink().report("function '" + textOf(function.name) + "' has no result for '" + textOf(name) + "'");
      continue;
    }
    define(textOf(name), std::move(*results[number]));
  }
}

void GraphBuilder::buildNode(const Node &node) {
  llvm::StringRef op = textOf(node.op), domain = textOf(node.domain);
  if (depth > 0 && ++nodesBuilt > mostNodes)
    return builder.sink().report("functions and nested graphs written out have more than " + llvm::Twine(mostNodes) +
                                 " nodes");
  // A reason of its own is given for results that are missing although nothing else is.
  auto leaveOut = [&](bool hasReason) {
    for (auto [number, output] : llvm::enumerate(node.outputs))
      if (!output.empty() && !scopes.back().contains(textOf(output))) {
        if (!hasReason && !builder.sink().any())
          refusals.add(node, versionOf(domain), "output " + llvm::Twine(number) + " is not imported");
        GraphValue value;
        value.isRefused = true;
        define(textOf(output), value);
      }
  };
  bool isComputable = true;
  for (std::string_view input : node.inputs) {
    GraphValue *value = input.empty() ? nullptr : find(textOf(input));
    if (!input.empty() && !value && !isMissing(textOf(input)))
      return builder.sink().report("node '" + nameOf(node) + "' (" + op + ") reads '" + textOf(input) +
                                   "', which no node before it computes");
    isComputable &= !value || !value->isRefused;
  }
  if (auto function = functions.find({node.domain, node.op, node.overload}); function != functions.end()) {
    if (isComputable)
      buildFunction(node, *function->second);
    return leaveOut(/*hasReason=*/true);
  }
  int64_t version = versionOf(domain);
  const OpRow *row = findOp(domain, op);
  if (!row)
    refusals.add(node, version, "is not imported");
  else if (version == 0)
    refusals.add(node, version, "the model does not say which version of the domain '" + domain + "' it uses");
  else if (version < row->since)
    refusals.add(node, version, "is imported from version " + llvm::Twine(row->since) + " on");
  bool isBuilt = row && version >= row->since && version != 0 && isComputable;
  if (!isBuilt)
    return leaveOut(/*hasReason=*/true);
  NodeContext context(*this, node, version, builder.nodeLocation(nameOf(node)), row->takes != Takes::Numbers);
  for (size_t number = 0; number < node.inputs.size() && row->takes != Takes::Sequences; ++number) {
    if (context.has(number) && !context.input(number).isTensor())
      context.refuse("input " + llvm::Twine(number) + " is a " +
                     (context.input(number).sequence ? "sequence" : "value that an optional one does not have") +
                     ", must be a tensor");
    if (DataType type = context.typeOf(number); isSmall(type) && row->takes == Takes::Numbers)
      context.refuse("input " + llvm::Twine(number) + " has elements of type " + nameOf(type));
  }
  if (!context.isRefused() && !foldNode(context) && !context.isRefused()) {
    bool inSingle = false;
    for (size_t number = 0; number < node.inputs.size() && row->inSingle; ++number)
      inSingle |= context.typeOf(number) == DataType::Double;
    if (inSingle)
      buildInSingle(context, *row);
    else
      row->build(context);
  }
  if (!context.isRefused())
    followCondition(context);
  leaveOut(context.isRefused());
}

/// Optional inputs that a call of a function leaves out are missing inside of it.
bool GraphBuilder::isMissing(llvm::StringRef name) const {
  return !calls.empty() && llvm::is_contained(calls.back().second->inputs, std::string_view(name));
}

void GraphBuilder::buildNodes(llvm::ArrayRef<Node> nodes) {
  for (const Node &node : nodes) {
    if (builder.sink().any())
      return;
    buildNode(node);
  }
}

llvm::SmallVector<GraphValue> GraphBuilder::buildNested(const Graph &graph, llvm::ArrayRef<GraphValue> inputs) {
  if (depth == deepest) {
    builder.sink().report(tooDeep);
    return llvm::SmallVector<GraphValue>(graph.outputs.size());
  }
  scopes.emplace_back();
  ++depth;
  auto leave = llvm::make_scope_exit([&] {
    scopes.pop_back();
    --depth;
  });
  for (auto [info, value] : llvm::zip(graph.inputs, inputs))
    define(textOf(info.name), value);
  defineInitializers(graph);
  buildNodes(graph.nodes);
  llvm::SmallVector<GraphValue> results;
  for (const ValueInfo &info : graph.outputs) {
    GraphValue *value = find(textOf(info.name));
    if (!value)
      builder.sink().report("the output '" + textOf(info.name) + "' of a nested graph is computed by no node");
    results.push_back(value ? *value : GraphValue());
  }
  return results;
}

void GraphBuilder::outputs(const Graph &graph) {
  if (graph.outputs.empty())
    return builder.sink().report("the graph has no outputs");
  llvm::StringSet<> listed;
  for (const ValueInfo &info : graph.outputs) {
    llvm::StringRef name = textOf(info.name);
    if (!listed.insert(name).second)
      return builder.sink().report("output '" + name + "' is listed twice");
    GraphValue *value = find(name);
    if (!value)
      return builder.sink().report("output '" + name + "' is computed by no node");
    if (value->isRefused) {
      // A result without a value may have been left out without a reason.
      if (!refusals.any())
        return builder.sink().report("output '" + name + "' is not imported");
      continue;
    }
    if (!value->isTensor())
      return builder.sink().report("output '" + name +
                                   "' is no tensor; sequences, optional values and maps are not passed");
    if (!elementType(value->type, context()))
      return builder.sink().report("output '" + name + "' has elements of type " + nameOf(value->type) +
                                   ", which calls do not pass");
    Location at = builder.nodeLocation(name);
    Value tensor = tensorOf(at, *value);
    builder.output(tensor, name, shapeOf(at, tensor), hasNoSign(value->type));
  }
}

/// Returns the metadata of the file, such as names of classes; of two with one key the last.
DictionaryAttr GraphBuilder::metadata() {
  std::map<std::string, StringAttr> last;
  size_t bytes = 0;
  for (const auto &[key, text] : file.model().metadata) {
    bytes += key.size() + text.size();
    if (bytes > mostMetadata)
      return ops().getDictionaryAttr({});
    if (!key.empty())
      last[llvm::json::fixUTF8(textOf(key))] = ops().getStringAttr(llvm::json::fixUTF8(textOf(text)));
  }
  if (last.empty())
    return ops().getDictionaryAttr({});
  llvm::SmallVector<NamedAttribute> sorted;
  for (const auto &[key, text] : last)
    sorted.push_back(ops().getNamedAttr(key, text));
  return ops().getDictionaryAttr(ops().getNamedAttr("onnx", ops().getDictionaryAttr(sorted)));
}

void GraphBuilder::build() {
  scopes.emplace_back();
  const Graph &graph = file.model().graph;
  declareInputs(graph);
  if (builder.sink().any())
    return;
  defineInitializers(graph, /*isMain=*/true);
  buildNodes(graph.nodes);
  if (builder.sink().any())
    return;
  outputs(graph);
  if (builder.sink().any() || refusals.any())
    return;
  // Nothing is read of a tensor that only gives its type or its sizes to others.
  for (const ValueInfo &input : graph.inputs)
    if (GraphValue *value = find(textOf(input.name));
        value && value->tensor && llvm::all_of(value->tensor.getUsers(), llvm::IsaPred<tensor::DimOp>))
      for (unsigned dimension = 0; dimension < input.type.dims.size(); ++dimension)
        allowEmpty(value->tensor, dimension);
  if (!emptySizes.empty())
    ops().getInsertionBlock()->getParentOp()->setAttr("nn.empty_sizes", ops().getArrayAttr(emptySizes.getArrayRef()));
  builder.endFunction({}, metadata());
}

} // namespace intarsia::onnx
