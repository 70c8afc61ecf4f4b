//===- ModuleBuilder.cpp - Emits nn IR of any kind of model -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;

namespace intarsia::importer {

Value widened(OpBuilder &builder, Location location, Value value, Type type) {
  return value.getType() == type ? value : Value(arith::ExtFOp::create(builder, location, type, value));
}

Value floatConstant(OpBuilder &builder, Location location, Type type, double value) {
  return arith::ConstantOp::create(builder, location, builder.getFloatAttr(type, value));
}

ModuleBuilder::ModuleBuilder(ModuleOp module, Errors &errors)
    : module(module), builder(module.getContext()), errors(errors) {}

//===-- Functions ---------------------------------------------------------------------------------------------===//

ArrayAttr ModuleBuilder::sizeNames(const Shape &shape) {
  llvm::SmallVector<llvm::StringRef> names;
  for (const Size &size : shape)
    names.push_back(size.symbol);
  return builder.getStrArrayAttr(names);
}

void ModuleBuilder::beginFunction(llvm::StringRef name, llvm::ArrayRef<Input> arguments) {
  inputs.clear();
  symbolSizes.clear();
  weights.clear();
  outputs.clear();
  outputAttributes.clear();
  llvm::SmallVector<Type> types;
  for (const Input &argument : arguments)
    types.push_back(tensorType(argument.shape, argument.element));
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, module.getLoc(), name, builder.getFunctionType(types, {}));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  // Setting the attributes of one argument makes a list of those of all: they are set together.
  llvm::SmallVector<DictionaryAttr> attributes;
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    Value value = entry->getArgument(index);
    value.setLoc(nodeLocation(argument.name));
    inputs[argument.name] = value;
    NamedAttrList given;
    given.set("nn.name", builder.getStringAttr(argument.name));
    given.set("nn.sizes", sizeNames(argument.shape));
    if (argument.byDefault)
      given.set("nn.default", builder.getI64IntegerAttr(*argument.byDefault));
    if (argument.range)
      given.set("nn.range", builder.getDenseI64ArrayAttr({argument.range->first, argument.range->second}));
    if (argument.isUnsigned)
      given.set("nn.unsigned", builder.getUnitAttr());
    if (argument.isState)
      given.set("nn.state", builder.getUnitAttr());
    attributes.push_back(given.getDictionary(builder.getContext()));
    for (auto [dimension, size] : llvm::enumerate(argument.shape))
      if (size.isDynamic() && !symbolSizes.contains(size.symbol))
        symbolSizes[size.symbol] = tensor::DimOp::create(builder, nodeLocation(size.symbol), value, dimension);
  }
  function.setAllArgAttrs(attributes);
}

Value ModuleBuilder::input(llvm::StringRef name) const { return inputs.lookup(name); }

void ModuleBuilder::output(Value value, llvm::StringRef name, const Shape &shape, bool isUnsigned) {
  outputs.push_back(value);
  llvm::SmallVector<NamedAttribute> attributes = {builder.getNamedAttr("nn.name", builder.getStringAttr(name)),
                                                  builder.getNamedAttr("nn.sizes", sizeNames(shape))};
  if (isUnsigned)
    attributes.push_back(builder.getNamedAttr("nn.unsigned", builder.getUnitAttr()));
  outputAttributes.push_back(builder.getDictionaryAttr(attributes));
}

void ModuleBuilder::outputState(Value value, llvm::StringRef name) {
  auto argument = cast<BlockArgument>(inputs.lookup(name));
  outputs.push_back(value);
  outputAttributes.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("nn.name", builder.getStringAttr(name)),
       builder.getNamedAttr("nn.state", builder.getI64IntegerAttr(argument.getArgNumber()))}));
}

bool ModuleBuilder::hasState() const {
  func::FuncOp op = function;
  return llvm::any_of(llvm::seq<unsigned>(op.getNumArguments()),
                      [&](unsigned argument) { return op.getArgAttr(argument, "nn.state") != nullptr; });
}

void ModuleBuilder::endFunction(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizeLimits,
                                DictionaryAttr metadata) {
  func::ReturnOp::create(builder, module.getLoc(), outputs);
  llvm::SmallVector<Type> types;
  for (Value value : outputs)
    types.push_back(value.getType());
  function.setFunctionType(builder.getFunctionType(function.getFunctionType().getInputs(), types));
  function.setAllResultAttrs(outputAttributes);
  llvm::SmallVector<NamedAttribute> limits;
  for (const auto &[symbol, limit] : sizeLimits)
    limits.push_back(builder.getNamedAttr(symbol, builder.getI64IntegerAttr(limit)));
  if (!limits.empty())
    function->setAttr("nn.size_limits", builder.getDictionaryAttr(limits));
  function->setAttr("nn.metadata", metadata);
}

//===-- Locations and sizes -----------------------------------------------------------------------------------===//

Location ModuleBuilder::nodeLocation(llvm::StringRef node) const {
  return node.empty() ? module->getLoc() : NameLoc::get(StringAttr::get(builder.getContext(), node));
}

Location ModuleBuilder::nodeLocation(llvm::StringRef node, llvm::StringRef file, unsigned line) const {
  Location where = FileLineColLoc::get(builder.getContext(), file, line, /*column=*/0);
  return node.empty() ? where : NameLoc::get(StringAttr::get(builder.getContext(), node), where);
}

llvm::StringRef ModuleBuilder::sizeName(llvm::StringRef given) {
  std::string &name = namesOfSizes[given];
  if (!name.empty())
    return name;
  for (char c : given)
    name += llvm::isAlnum(c) || c == '.' ? c : '_';
  if (name.empty() || (!llvm::isAlpha(name.front()) && name.front() != '_'))
    name.insert(0, "_");
  auto [taken, isNew] = takenSizeNames.try_emplace(name, 1);
  if (isNew)
    return name;
  unsigned &next = taken->second; // entries stay where they are
  std::string numbered;
  do
    numbered = name + "_" + std::to_string(next++);
  while (!takenSizeNames.try_emplace(numbered, 1).second);
  return name = numbered;
}

RankedTensorType ModuleBuilder::tensorType(const Shape &shape, Type element) const {
  llvm::SmallVector<int64_t> sizes;
  for (const Size &size : shape)
    sizes.push_back(size.value);
  return RankedTensorType::get(sizes, element);
}

OpFoldResult ModuleBuilder::size(const Size &size) const {
  if (!size.isDynamic())
    return IntegerAttr::get(IndexType::get(builder.getContext()), size.value);
  return size.index ? size.index : symbolSizes.lookup(size.symbol);
}

llvm::SmallVector<OpFoldResult> ModuleBuilder::sizes(const Shape &shape) const {
  llvm::SmallVector<OpFoldResult> result;
  for (const Size &dimension : shape)
    result.push_back(size(dimension));
  return result;
}

Size ModuleBuilder::sizeOf(Location at, Value tensor, int64_t dimension) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dimension))
    return type.getDimSize(dimension);
  return Size(tensor::DimOp::create(builder, at, tensor, dimension).getResult());
}

Shape ModuleBuilder::shapeOf(Location at, Value tensor) {
  Shape shape;
  for (int64_t dimension : llvm::seq<int64_t>(0, cast<RankedTensorType>(tensor.getType()).getRank()))
    shape.push_back(sizeOf(at, tensor, dimension));
  return shape;
}

Value ModuleBuilder::indexOf(Location at, const Size &size) {
  OpFoldResult value = this->size(size);
  if (auto attribute = dyn_cast<Attribute>(value))
    return arith::ConstantOp::create(builder, at, cast<TypedAttr>(attribute));
  return cast<Value>(value);
}

/// Computes a size from two numbers. Returns nullopt for a division by 0 and for results that 64 bits do not hold.
static std::optional<int64_t> computeNumber(SizeOp op, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (op) {
  case SizeOp::Add:
    return llvm::AddOverflow(left, right, result) ? std::nullopt : std::optional(result);
  case SizeOp::Subtract:
    return llvm::SubOverflow(left, right, result) ? std::nullopt : std::optional(result);
  case SizeOp::Multiply:
    return llvm::MulOverflow(left, right, result) ? std::nullopt : std::optional(result);
  case SizeOp::Divide:
  case SizeOp::DivideUp:
  case SizeOp::Remainder:
    break;
  }
  if (right == 0 || (left == std::numeric_limits<int64_t>::min() && right == -1))
    return std::nullopt;
  if (op == SizeOp::Remainder)
    return left % right;
  return op == SizeOp::Divide ? left / right : llvm::divideCeilSigned(left, right);
}

Size ModuleBuilder::compute(Location at, SizeOp op, const Size &left, const Size &right) {
  if (!left.isDynamic() && !right.isDynamic()) {
    std::optional<int64_t> number = computeNumber(op, left.value, right.value);
    // The number that stands for a dynamic dimension is no size.
    if (number && !ShapedType::isDynamic(*number))
      return *number;
    constexpr llvm::StringLiteral signs[] = {"+", "-", "*", "/", "/", "%"};
    auto name = at->findInstanceOf<NameLoc>();
    errors.report((name ? "'" + name.getName().getValue() + "': " : llvm::Twine()) + "the size " +
                  llvm::Twine(left.value) + " " + signs[unsigned(op)] + " " + llvm::Twine(right.value) +
                  " is no number of 64 bits");
    return 1;
  }
  Value first = indexOf(at, left), second = indexOf(at, right);
  switch (op) {
  case SizeOp::Add:
    return Size(arith::AddIOp::create(builder, at, first, second).getResult());
  case SizeOp::Subtract:
    return Size(arith::SubIOp::create(builder, at, first, second).getResult());
  case SizeOp::Multiply:
    return Size(arith::MulIOp::create(builder, at, first, second).getResult());
  case SizeOp::Divide:
    return Size(arith::DivSIOp::create(builder, at, first, second).getResult());
  case SizeOp::DivideUp:
    return Size(arith::CeilDivSIOp::create(builder, at, first, second).getResult());
  case SizeOp::Remainder:
    return Size(arith::RemSIOp::create(builder, at, first, second).getResult());
  }
  llvm_unreachable("all operations are handled");
}

//===-- Layers ------------------------------------------------------------------------------------------------===//

Value ModuleBuilder::linear(Location at, Value input, Value weight, Value bias) {
  return nn::LinearOp::create(builder, at, input, weight, bias, /*precision=*/TypeAttr());
}

Value ModuleBuilder::layerNorm(Location at, Value input, Value scale, Value bias, double epsilon) {
  return nn::LayerNormOp::create(builder, at, input.getType(), input, scale, bias, builder.getF32FloatAttr(epsilon));
}

Value ModuleBuilder::rmsNorm(Location at, Value input, Value scale, double epsilon) {
  return nn::RmsNormOp::create(builder, at, input.getType(), input, scale, builder.getF32FloatAttr(epsilon));
}

Value ModuleBuilder::embedding(Location at, Value table, Value indices, Type element) {
  llvm::SmallVector<int64_t> shape(cast<RankedTensorType>(indices.getType()).getShape());
  auto type = cast<RankedTensorType>(table.getType());
  shape.push_back(type.getShape().back());
  Value result =
      nn::EmbeddingOp::create(builder, at, RankedTensorType::get(shape, type.getElementType()), table, indices);
  return widened(builder, at, result, RankedTensorType::get(shape, element));
}

Value ModuleBuilder::activation(Location at, Value input, Activation activation) {
  Type type = input.getType();
  switch (activation) {
  case Activation::Identity:
    return input;
  case Activation::GeluErf:
  case Activation::GeluTanh: {
    auto form = activation == Activation::GeluErf ? nn::GeluForm::Erf : nn::GeluForm::Tanh;
    return nn::GeluOp::create(builder, at, type, input, nn::GeluFormAttr::get(builder.getContext(), form));
  }
  case Activation::QuickGelu: {
    // x * sigmoid(1.702 * x): https://github.com/hendrycks/GELUs
    Value scaled = elementOf(at, input, [](OpBuilder &inner, Location loc, ValueRange arguments) -> Value {
      Value factor = floatConstant(inner, loc, arguments[0].getType(), 1.702);
      return arith::MulFOp::create(inner, loc, arguments[0], factor);
    });
    return arith::MulFOp::create(builder, at, input, nn::SigmoidOp::create(builder, at, type, scaled));
  }
  case Activation::Silu:
    return nn::SiluOp::create(builder, at, type, input);
  case Activation::Relu:
    return nn::ReluOp::create(builder, at, type, input);
  case Activation::Relu6: {
    Value positive = nn::ReluOp::create(builder, at, type, input);
    return elementOf(at, positive, [](OpBuilder &inner, Location loc, ValueRange arguments) -> Value {
      Value largest = floatConstant(inner, loc, arguments[0].getType(), 6.0);
      return arith::MinimumFOp::create(inner, loc, arguments[0], largest);
    });
  }
  case Activation::ReluSquared: {
    Value positive = nn::ReluOp::create(builder, at, type, input);
    return arith::MulFOp::create(builder, at, positive, positive);
  }
  case Activation::Tanh:
    return nn::TanhOp::create(builder, at, type, input);
  case Activation::Sigmoid:
    return nn::SigmoidOp::create(builder, at, type, input);
  case Activation::HardSigmoid:
  case Activation::HardSwish:
    return elementOf(at, input, [&](OpBuilder &inner, Location loc, ValueRange arguments) -> Value {
      Value x = arguments[0];
      auto number = [&](double value) { return floatConstant(inner, loc, x.getType(), value); };
      Value shifted = arith::AddFOp::create(inner, loc, x, number(3));
      Value clamped = arith::MinimumFOp::create(
          inner, loc, arith::MaximumFOp::create(inner, loc, shifted, number(0)).getResult(), number(6));
      Value factor = arith::MulFOp::create(inner, loc, clamped, number(1.0 / 6));
      return activation == Activation::HardSigmoid ? factor : arith::MulFOp::create(inner, loc, x, factor).getResult();
    });
  }
  llvm_unreachable("all activations are handled");
}

Value ModuleBuilder::add(Location at, Value lhs, Value rhs) { return arith::AddFOp::create(builder, at, lhs, rhs); }

Value ModuleBuilder::multiply(Location at, Value lhs, Value rhs) {
  return arith::MulFOp::create(builder, at, lhs, rhs);
}

Value ModuleBuilder::attention(Location at, Value query, Value key, Value value, Value mask, const Shape &leading,
                               int64_t heads, int64_t headDim) {
  return attention(at, query, key, value, mask, leading, leading, heads, headDim);
}

Value ModuleBuilder::attention(Location at, Value query, Value key, Value value, Value mask, const Shape &leading,
                               const Shape &keyLeading, int64_t heads, int64_t headDim) {
  llvm::SmallVector<ReassociationIndices> groups;
  for (unsigned i = 0; i < leading.size(); ++i)
    groups.push_back({i});
  groups.push_back({static_cast<int64_t>(leading.size()), static_cast<int64_t>(leading.size()) + 1});
  auto split = [&](Value rows, Shape shape) {
    shape.push_back(heads);
    shape.push_back(headDim);
    return expandShape(at, rows, shape, groups);
  };
  Value queryHeads = split(query, leading), keyHeads = split(key, keyLeading), valueHeads = split(value, keyLeading);
  double scale = 1.0 / std::sqrt(static_cast<double>(headDim));
  Value result = nn::AttentionOp::create(builder, at, queryHeads.getType(), queryHeads, keyHeads, valueHeads, mask,
                                         builder.getF32FloatAttr(scale), /*causal=*/UnitAttr(),
                                         /*precision=*/TypeAttr());
  return collapseShape(at, result, groups);
}

//===-- Shapes ------------------------------------------------------------------------------------------------===//

Value ModuleBuilder::empty(Location at, const Shape &shape, Type element) {
  return tensor::EmptyOp::create(builder, at, sizes(shape), element);
}

Value ModuleBuilder::expandShape(Location at, Value input, const Shape &shape,
                                 llvm::ArrayRef<ReassociationIndices> groups) {
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return tensor::ExpandShapeOp::create(builder, at, tensorType(shape, element), input, groups, sizes(shape));
}

Value ModuleBuilder::collapseShape(Location at, Value input, llvm::ArrayRef<ReassociationIndices> groups) {
  return tensor::CollapseShapeOp::create(builder, at, input, groups);
}

Value ModuleBuilder::part(Location at, Value input, const Shape &offsets, const Shape &counts, const Shape &shape) {
  llvm::SmallVector<OpFoldResult> steps(counts.size(), builder.getIndexAttr(1));
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return tensor::ExtractSliceOp::create(builder, at, tensorType(shape, element), input, sizes(offsets), sizes(counts),
                                        steps);
}

Value ModuleBuilder::transpose(Location at, Value input, const Shape &shape, llvm::ArrayRef<int64_t> permutation) {
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return linalg::TransposeOp::create(builder, at, input, empty(at, shape, element), permutation)->getResult(0);
}

Value ModuleBuilder::concat(Location at, llvm::ArrayRef<Value> values, int64_t dimension) {
  return tensor::ConcatOp::create(builder, at, dimension, values);
}

//===-- Elementwise and reductions ----------------------------------------------------------------------------===//

Value ModuleBuilder::generic(Location at, Value initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                             llvm::ArrayRef<Operand> operands, Body body) {
  auto mapOf = [&](llvm::ArrayRef<unsigned> dims) {
    llvm::SmallVector<AffineExpr> expressions;
    for (unsigned dim : dims)
      expressions.push_back(builder.getAffineDimExpr(dim));
    return AffineMap::get(shape.size(), 0, expressions, builder.getContext());
  };
  llvm::SmallVector<AffineMap> maps;
  llvm::SmallVector<Value> values;
  for (const Operand &operand : operands) {
    values.push_back(operand.value);
    maps.push_back(mapOf(operand.dims));
  }
  maps.push_back(mapOf(kept));
  llvm::SmallVector<utils::IteratorType> iterators(shape.size(), utils::IteratorType::reduction);
  for (unsigned dim : kept)
    iterators[dim] = utils::IteratorType::parallel;
  return linalg::GenericOp::create(builder, at, initial.getType(), values, initial, maps, iterators,
                                   [&](OpBuilder &inner, Location where, ValueRange arguments) {
                                     linalg::YieldOp::create(inner, where, body(inner, where, arguments));
                                   })
      .getResult(0);
}

Value ModuleBuilder::elementwise(Location at, Type element, const Shape &shape, llvm::ArrayRef<Operand> operands,
                                 Body body) {
  llvm::SmallVector<unsigned> all(llvm::to_vector(llvm::seq<unsigned>(0, shape.size())));
  return generic(at, empty(at, shape, element), shape, all, operands, body);
}

Value ModuleBuilder::elementOf(Location at, Value input, Body body) {
  Shape shape = shapeOf(at, input);
  auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return elementwise(at, element, shape, {{input, all}}, body);
}

Value ModuleBuilder::reduce(Location at, TypedAttr initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                            llvm::ArrayRef<Operand> operands, Body body) {
  Shape result;
  for (unsigned dim : kept)
    result.push_back(shape[dim]);
  Value start = arith::ConstantOp::create(builder, at, initial);
  Value filled = linalg::FillOp::create(builder, at, start, empty(at, result, initial.getType())).getResult(0);
  return generic(at, filled, shape, kept, operands, body);
}

} // namespace intarsia::importer
