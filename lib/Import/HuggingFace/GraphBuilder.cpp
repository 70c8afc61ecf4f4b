//===- GraphBuilder.cpp - Emits nn IR under the module paths of a model ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/GraphBuilder.h"

#include "lib/Support/Status.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <cstring>

using namespace mlir;

namespace intarsia::importer {

Type floatType(llvm::StringRef dtype, MLIRContext *context) {
  if (dtype == "F32")
    return Float32Type::get(context);
  if (dtype == "BF16")
    return BFloat16Type::get(context);
  if (dtype == "F16")
    return Float16Type::get(context);
  return {};
}

Value widened(OpBuilder &builder, Location location, Value value, Type type) {
  return value.getType() == type ? value : Value(arith::ExtFOp::create(builder, location, type, value));
}

Value floatConstant(OpBuilder &builder, Location location, Type type, double value) {
  return arith::ConstantOp::create(builder, location, builder.getFloatAttr(type, value));
}

Activation readActivation(const Config &config, llvm::StringRef setting, llvm::StringRef byDefault) {
  // The names of transformers' ACT2FN. gelu_fast and gelu_accurate write the same tanh formula with the constant
  // rounded.
  static const std::pair<llvm::StringRef, Activation> table[] = {{"gelu", Activation::GeluErf},
                                                                 {"gelu_python", Activation::GeluErf},
                                                                 {"gelu_new", Activation::GeluTanh},
                                                                 {"gelu_pytorch_tanh", Activation::GeluTanh},
                                                                 {"gelu_fast", Activation::GeluTanh},
                                                                 {"gelu_python_tanh", Activation::GeluTanh},
                                                                 {"gelu_accurate", Activation::GeluTanh},
                                                                 {"quick_gelu", Activation::QuickGelu},
                                                                 {"silu", Activation::Silu},
                                                                 {"swish", Activation::Silu},
                                                                 {"relu", Activation::Relu},
                                                                 {"relu2", Activation::ReluSquared},
                                                                 {"tanh", Activation::Tanh},
                                                                 {"sigmoid", Activation::Sigmoid},
                                                                 {"linear", Activation::Identity}};
  std::string name = config.string(setting, byDefault);
  llvm::SmallVector<llvm::StringRef> known;
  for (const auto &[spelled, activation] : table) {
    if (spelled == name)
      return activation;
    known.push_back(spelled);
  }
  config.refuse(setting, name, known);
  return Activation::Identity;
}

GraphBuilder::GraphBuilder(ModuleOp module, const WeightArchive &archive, Type dataType, Type activationType,
                           Errors &errors)
    : module(module), builder(module.getContext()), archive(&archive), dataType(dataType),
      activationType(activationType), errors(errors) {}

//===-- Functions ---------------------------------------------------------------------------------------------===//

static ArrayAttr sizeNames(OpBuilder &builder, const Shape &shape) {
  llvm::SmallVector<llvm::StringRef> names;
  for (const Size &size : shape)
    names.push_back(size.symbol);
  return builder.getStrArrayAttr(names);
}

void GraphBuilder::beginFunction(llvm::StringRef name, llvm::ArrayRef<Input> arguments) {
  inputs.clear();
  symbolSizes.clear();
  weights.clear();
  quantizedWeights.clear();
  outputs.clear();
  outputAttributes.clear();
  llvm::SmallVector<Type> types;
  for (const Input &argument : arguments)
    types.push_back(tensorType(argument.shape, argument.element));
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, module.getLoc(), name, builder.getFunctionType(types, {}));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    Value value = entry->getArgument(index);
    value.setLoc(location(argument.name));
    inputs[argument.name] = value;
    function.setArgAttr(index, "nn.name", builder.getStringAttr(argument.name));
    function.setArgAttr(index, "nn.sizes", sizeNames(builder, argument.shape));
    if (argument.byDefault)
      function.setArgAttr(index, "nn.default", builder.getI64IntegerAttr(*argument.byDefault));
    if (argument.range)
      function.setArgAttr(index, "nn.range",
                          builder.getDenseI64ArrayAttr({argument.range->first, argument.range->second}));
    if (argument.isState)
      function.setArgAttr(index, "nn.state", builder.getUnitAttr());
    for (auto [dimension, size] : llvm::enumerate(argument.shape))
      if (size.isDynamic() && !symbolSizes.contains(size.symbol))
        symbolSizes[size.symbol] = tensor::DimOp::create(builder, location(size.symbol), value, dimension);
  }
}

Value GraphBuilder::input(llvm::StringRef name) const { return inputs.lookup(name); }

void GraphBuilder::output(Value value, llvm::StringRef name, const Shape &shape) {
  outputs.push_back(value);
  outputAttributes.push_back(builder.getDictionaryAttr({builder.getNamedAttr("nn.name", builder.getStringAttr(name)),
                                                        builder.getNamedAttr("nn.sizes", sizeNames(builder, shape))}));
}

void GraphBuilder::outputState(Value value, llvm::StringRef name) {
  auto argument = cast<BlockArgument>(inputs.lookup(name));
  outputs.push_back(value);
  outputAttributes.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("nn.name", builder.getStringAttr(name)),
       builder.getNamedAttr("nn.state", builder.getI64IntegerAttr(argument.getArgNumber()))}));
}

void GraphBuilder::endFunction(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizeLimits,
                               DictionaryAttr metadata) {
  func::ReturnOp::create(builder, module.getLoc(), outputs);
  llvm::SmallVector<Type> types;
  for (Value value : outputs)
    types.push_back(value.getType());
  function.setFunctionType(builder.getFunctionType(function.getFunctionType().getInputs(), types));
  for (auto [index, attributes] : llvm::enumerate(outputAttributes))
    function.setResultAttrs(index, attributes);
  llvm::SmallVector<NamedAttribute> limits;
  for (const auto &[symbol, limit] : sizeLimits)
    limits.push_back(builder.getNamedAttr(symbol, builder.getI64IntegerAttr(limit)));
  if (!limits.empty())
    function->setAttr("nn.size_limits", builder.getDictionaryAttr(limits));
  // Caches of one artifact may be handed over to another of the same model.
  bool hasState = llvm::any_of(llvm::seq<unsigned>(function.getNumArguments()),
                               [&](unsigned argument) { return function.getArgAttr(argument, "nn.state"); });
  if (hasState) {
    NamedAttrList entries(metadata);
    entries.set("model_hash", builder.getStringAttr(archive->sampledHash()));
    metadata = entries.getDictionary(builder.getContext());
  }
  function->setAttr("nn.metadata", metadata);
}

//===-- Names -------------------------------------------------------------------------------------------------===//

GraphBuilder::Scope::Scope(GraphBuilder &graph, const llvm::Twine &module, const WeightArchive *archive)
    : graph(graph), length(graph.scopePath.size()), archive(graph.archive) {
  graph.scopePath = graph.path(module.str());
  if (archive)
    graph.archive = archive;
}

GraphBuilder::Scope::~Scope() {
  graph.scopePath.resize(length);
  graph.archive = archive;
}

std::string GraphBuilder::path(llvm::StringRef name) const {
  if (name.empty() || scopePath.empty())
    return scopePath + name.str();
  return scopePath + "." + name.str();
}

Location GraphBuilder::location(llvm::StringRef name) {
  std::string full = path(name);
  if (full.empty())
    return module.getLoc();
  return NameLoc::get(StringAttr::get(module.getContext(), full));
}

bool GraphBuilder::hasWeight(llvm::StringRef name) const { return archive->find(path(name)).has_value(); }

bool GraphBuilder::differ(llvm::StringRef first, llvm::StringRef second) const {
  auto one = archive->find(path(first)), other = archive->find(path(second));
  if (!one || !other)
    return false;
  const SafetensorsEntry &a = *one->entry, &b = *other->entry;
  return a.dtype != b.dtype || a.shape != b.shape || std::memcmp(a.data, b.data, a.bytes()) != 0;
}

llvm::StringRef GraphBuilder::spelling(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef suffix) const {
  for (llvm::StringRef name : names)
    if (hasWeight((name + suffix).str()))
      return name;
  return names.front();
}

FlatSymbolRefAttr GraphBuilder::archiveSymbol(const WeightArchive::File &file) {
  if (!module.lookupSymbol(file.symbol)) {
    OpBuilder::InsertionGuard guard(builder);
    // Inserts after the existing archives, which come first in the module, in order of use.
    builder.setInsertionPointToStart(module.getBody());
    for (Operation &op : *module.getBody())
      if (isa<nn::ArchiveOp>(op))
        builder.setInsertionPointAfter(&op);
    nn::ArchiveOp::create(builder, module.getLoc(), builder.getStringAttr(file.symbol),
                          builder.getStringAttr(file.name));
  }
  return FlatSymbolRefAttr::get(module.getContext(), file.symbol);
}

/// Compares the stored shape with the shape that the settings imply, and reports the settings of dimensions that
/// differ.
static void checkShape(const WeightArchive::Tensor &tensor, llvm::ArrayRef<Extent> implied, Errors &errors) {
  llvm::ArrayRef<int64_t> stored = tensor.shape();
  llvm::SmallVector<int64_t> sizes;
  for (const Extent &extent : implied)
    sizes.push_back(extent.size);
  if (stored == llvm::ArrayRef<int64_t>(sizes))
    return;
  llvm::SmallVector<llvm::StringRef> settings;
  for (auto [index, extent] : llvm::enumerate(implied))
    if (!extent.setting.empty() && !llvm::is_contained(settings, extent.setting) &&
        (stored.size() != implied.size() || stored[index] != extent.size))
      settings.push_back(extent.setting);
  std::string why = settings.empty() ? "" : " (" + llvm::join(settings, ", ") + ")";
  errors.report(tensor.file->name + ": tensor '" + tensor.entry->name + "' is " + shapeText(stored) +
                ", config.json implies " + shapeText(sizes) + why + "; is config.json from another model?");
}

/// Returns the type of nn.weight: a float type, or bytes of blocks. Null if the stored type is not supported.
static RankedTensorType storedType(const WeightArchive::Tensor &tensor, llvm::ArrayRef<int64_t> shape,
                                   MLIRContext *context) {
  if (tensor.gguf && !tensor.gguf->isPlain())
    return tensor.gguf->type->isDecoded ? RankedTensorType::get(tensor.entry->shape, IntegerType::get(context, 8))
                                        : RankedTensorType();
  Type element = floatType(tensor.entry->dtype, context);
  return element ? RankedTensorType::get(shape, element) : RankedTensorType();
}

/// Returns "F32, BF16 or F16", or the supported types of GGUF files.
static std::string supportedTypes(const WeightArchive::Tensor &tensor) {
  if (!tensor.gguf)
    return "F32, BF16 or F16";
  std::string names;
  for (const GgmlType &type : ggmlTypes)
    if (type.isDecoded)
      names += (names.empty() ? "one of " : ", ") + std::string(type.name);
  return names;
}

Value GraphBuilder::weight(llvm::StringRef name, llvm::ArrayRef<Extent> shape) {
  std::string key = path(name);
  Value &matrix = quantizedWeights[key];
  if (!matrix)
    matrix = quantizedWeight(name, shape);
  if (matrix)
    return matrix;
  llvm::SmallVector<int64_t> sizes;
  for (const Extent &extent : shape)
    sizes.push_back(extent.size);
  auto type = RankedTensorType::get(sizes, dataType);
  std::optional<WeightArchive::Tensor> tensor = archive->find(key);
  FlatSymbolRefAttr symbol;
  if (!tensor) {
    errors.report(archive->missing(key) + ", which config.json implies; is config.json from another model?");
    symbol = FlatSymbolRefAttr::get(module.getContext(), "missing");
  } else {
    checkShape(*tensor, shape, errors);
    if (RankedTensorType stored = storedType(*tensor, sizes, module.getContext()); !stored)
      errors.report(tensor->file->name + ": tensor '" + key + "' is of dtype " +
                    (tensor->gguf ? llvm::StringRef(tensor->gguf->type->name) : tensor->entry->dtype) + ", expected " +
                    supportedTypes(*tensor));
    else
      type = stored;
    symbol = archiveSymbol(*tensor->file);
  }
  Value &value = weights[(symbol.getValue() + "/" + key).str()];
  if (!value) {
    auto stored = builder.getStringAttr(tensor ? tensor->entry->name : key);
    value = nn::WeightOp::create(builder, location(name), type, symbol, stored);
    // A wrong shape of blocks has been reported.
    if (tensor && type.getElementType().isInteger() && !errors.any())
      value = dequantized(name, value, Value(), RankedTensorType::get(sizes, builder.getF32Type()),
                          nn::GgmlTypeAttr::get(module.getContext(), llvm::StringRef(tensor->gguf->type->keyword)));
  }
  return value;
}

Value GraphBuilder::mxfp4Weight(llvm::StringRef name, llvm::ArrayRef<Extent> shape) {
  constexpr int64_t block = 32; // elements that share a scale, two in a byte
  llvm::SmallVector<int64_t> sizes;
  for (const Extent &extent : shape)
    sizes.push_back(extent.size);
  if (sizes.back() % block != 0)
    errors.report(path(name) + "_blocks: " + shape.back().setting + " " + llvm::Twine(sizes.back()) +
                  " is not a multiple of the 32 elements of a block of MXFP4");
  if (errors.any())
    return weight(name, shape);
  llvm::SmallVector<Extent> scaleShape(shape.drop_back());
  scaleShape.push_back(Extent(sizes.back() / block, shape.back().setting));
  llvm::SmallVector<Extent> blockShape(scaleShape);
  blockShape.push_back(Extent(block / 2));
  llvm::SmallVector<int64_t> scaleSizes(llvm::ArrayRef(sizes).drop_back());
  scaleSizes.push_back(sizes.back() / block);
  auto format = nn::BlockFormatAttr::get(module.getContext(), nn::BlockElement::E2M1, nn::BlockScale::E8M0, block,
                                         /*axis=*/sizes.size() - 1);
  llvm::SmallVector<Value> parts;
  for (const auto &[suffix, extents, type] :
       {std::tuple("_blocks", blockShape, RankedTensorType::get(sizes, format.getStorageType())),
        std::tuple("_scales", scaleShape, RankedTensorType::get(scaleSizes, format.getScaleType()))}) {
    std::string key = path(name) + suffix;
    std::optional<WeightArchive::Tensor> tensor = archive->find(key);
    FlatSymbolRefAttr symbol =
        tensor ? archiveSymbol(*tensor->file) : FlatSymbolRefAttr::get(module.getContext(), "missing");
    if (!tensor)
      errors.report(archive->missing(key) + ", which config.json implies");
    else if (tensor->entry->dtype != "U8")
      errors.report(tensor->file->name + ": tensor '" + key + "' is of dtype " + tensor->entry->dtype +
                    ", MXFP4 is stored as U8");
    else
      checkShape(*tensor, extents, errors);
    parts.push_back(nn::WeightOp::create(builder, location(name), type, symbol, builder.getStringAttr(key)));
  }
  return dequantized(name, parts[0], parts[1], RankedTensorType::get(sizes, builder.getBF16Type()), format);
}

Value GraphBuilder::dequantized(llvm::StringRef name, Value values, Value scales, RankedTensorType type,
                                BlockFormatAttrInterface format) {
  return nn::DequantizeOp::create(builder, location(name), type, values, scales, /*zero_points=*/Value(),
                                  /*tensor_scale=*/Value(), /*group_indices=*/Value(), /*codebook=*/Value(), format);
}

//===-- Layers ------------------------------------------------------------------------------------------------===//

Value GraphBuilder::linear(Value input, llvm::StringRef name, Extent outputs, Extent inputs, bool bias) {
  Value weightValue = weight((name + ".weight").str(), {outputs, inputs});
  Value biasValue = bias ? weight((name + ".bias").str(), {outputs}) : Value();
  return linear(input, name, weightValue, biasValue);
}

Value GraphBuilder::linear(Value input, llvm::StringRef name, Value weight, Value bias) {
  return nn::LinearOp::create(builder, location(name), input, weight, bias, /*precision=*/TypeAttr());
}

Value GraphBuilder::layerNorm(Value input, llvm::StringRef name, Extent features, double epsilon) {
  auto parameter = [&](llvm::StringRef now, llvm::StringRef tensorFlow) {
    std::string current = (name + "." + now).str(), older = (name + "." + tensorFlow).str();
    return weight(spelling({current, older}), {features});
  };
  Value scale = parameter("weight", "gamma");
  Value bias = parameter("bias", "beta");
  return nn::LayerNormOp::create(builder, location(name), input.getType(), input, scale, bias,
                                 builder.getF32FloatAttr(epsilon));
}

Value GraphBuilder::layers(Value state, llvm::StringRef container, Extent count,
                           llvm::function_ref<Value(Value)> layer) {
  std::string prefix = path(container);
  for (llvm::StringRef key : archive->keys(prefix)) {
    unsigned number = 0;
    if (!key.drop_front(prefix.size()).consumeInteger(10, number) && number >= count.size)
      errors.report(archive->find(key)->file->name + ": has tensor '" + key + "', but config.json says that " +
                    count.setting + " is " + llvm::Twine(count.size) + "; is config.json from another model?");
  }
  for (int64_t i = 0; i < count.size && !errors.any(); ++i) {
    Scope scope(*this, container + llvm::Twine(i));
    state = layer(state);
  }
  return state;
}

Value GraphBuilder::rmsNorm(Value input, llvm::StringRef name, Extent features, double epsilon) {
  Value scale = weight((name + ".weight").str(), {features});
  return nn::RmsNormOp::create(builder, location(name), input.getType(), input, scale,
                               builder.getF32FloatAttr(epsilon));
}

Value GraphBuilder::embedding(Value indices, llvm::StringRef name, Extent rows, Extent features) {
  Value table = weight((name + ".weight").str(), {rows, features});
  llvm::SmallVector<int64_t> shape(cast<RankedTensorType>(indices.getType()).getShape());
  shape.push_back(features.size);
  Location at = location(name);
  Type stored = cast<RankedTensorType>(table.getType()).getElementType();
  Value result = nn::EmbeddingOp::create(builder, at, RankedTensorType::get(shape, stored), table, indices);
  if (activationType != stored)
    result = arith::ExtFOp::create(builder, at, RankedTensorType::get(shape, activationType), result);
  return result;
}

Value GraphBuilder::activation(Value input, llvm::StringRef name, Activation activation) {
  Location at = location(name);
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
    auto tensor = cast<RankedTensorType>(type);
    llvm::SmallVector<OpFoldResult> mixed = tensor::getMixedSizes(builder, at, input);
    Value destination = tensor::EmptyOp::create(builder, at, mixed, tensor.getElementType());
    AffineMap map = builder.getMultiDimIdentityMap(tensor.getRank());
    llvm::SmallVector<utils::IteratorType> iterators(tensor.getRank(), utils::IteratorType::parallel);
    Value scaled = linalg::GenericOp::create(builder, at, type, input, destination, {map, map}, iterators,
                                             [](OpBuilder &inner, Location loc, ValueRange arguments) {
                                               Value factor = floatConstant(inner, loc, arguments[0].getType(), 1.702);
                                               Value product = arith::MulFOp::create(inner, loc, arguments[0], factor);
                                               linalg::YieldOp::create(inner, loc, product);
                                             })
                       .getResult(0);
    return arith::MulFOp::create(builder, at, input, nn::SigmoidOp::create(builder, at, type, scaled));
  }
  case Activation::Silu:
    return nn::SiluOp::create(builder, at, type, input);
  case Activation::Relu:
    return nn::ReluOp::create(builder, at, type, input);
  case Activation::ReluSquared: {
    Value positive = nn::ReluOp::create(builder, at, type, input);
    return arith::MulFOp::create(builder, at, positive, positive);
  }
  case Activation::Tanh:
    return nn::TanhOp::create(builder, at, type, input);
  case Activation::Sigmoid:
    return nn::SigmoidOp::create(builder, at, type, input);
  }
  llvm_unreachable("all activations are handled");
}

Value GraphBuilder::add(Value lhs, Value rhs, llvm::StringRef name) {
  return arith::AddFOp::create(builder, location(name), lhs, rhs);
}

Value GraphBuilder::multiply(Value lhs, Value rhs, llvm::StringRef name) {
  return arith::MulFOp::create(builder, location(name), lhs, rhs);
}

Value GraphBuilder::attention(Value query, Value key, Value value, Value mask, llvm::StringRef name,
                              const Shape &leading, int64_t heads, int64_t headDim) {
  Shape split(leading);
  split.push_back(heads);
  split.push_back(headDim);
  llvm::SmallVector<ReassociationIndices> groups;
  for (unsigned i = 0; i < leading.size(); ++i)
    groups.push_back({i});
  groups.push_back({static_cast<int64_t>(leading.size()), static_cast<int64_t>(leading.size()) + 1});
  Value queryHeads = expandShape(query, name, split, groups);
  Value keyHeads = expandShape(key, name, split, groups);
  Value valueHeads = expandShape(value, name, split, groups);
  double scale = 1.0 / std::sqrt(static_cast<double>(headDim));
  Value result = nn::AttentionOp::create(builder, location(name), queryHeads.getType(), queryHeads, keyHeads,
                                         valueHeads, mask, builder.getF32FloatAttr(scale), /*causal=*/UnitAttr(),
                                         /*precision=*/TypeAttr());
  return collapseShape(result, name, groups);
}

//===-- Shapes ------------------------------------------------------------------------------------------------===//

RankedTensorType GraphBuilder::tensorType(const Shape &shape, Type element) const {
  llvm::SmallVector<int64_t> sizes;
  for (const Size &size : shape)
    sizes.push_back(size.value);
  return RankedTensorType::get(sizes, element);
}

OpFoldResult GraphBuilder::size(const Size &size) {
  if (!size.isDynamic())
    return builder.getIndexAttr(size.value);
  return symbolSizes.lookup(size.symbol);
}

llvm::SmallVector<OpFoldResult> GraphBuilder::sizes(const Shape &shape) {
  llvm::SmallVector<OpFoldResult> result;
  for (const Size &dimension : shape)
    result.push_back(size(dimension));
  return result;
}

Value GraphBuilder::empty(llvm::StringRef name, const Shape &shape, Type element) {
  return tensor::EmptyOp::create(builder, location(name), sizes(shape), element);
}

Value GraphBuilder::expandShape(Value input, llvm::StringRef name, const Shape &shape,
                                llvm::ArrayRef<ReassociationIndices> groups) {
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return tensor::ExpandShapeOp::create(builder, location(name), tensorType(shape, element), input, groups,
                                       sizes(shape));
}

Value GraphBuilder::collapseShape(Value input, llvm::StringRef name, llvm::ArrayRef<ReassociationIndices> groups) {
  return tensor::CollapseShapeOp::create(builder, location(name), input, groups);
}

Value GraphBuilder::firstRows(Value table, llvm::StringRef name, Size rows, int64_t features) {
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  Type element = cast<RankedTensorType>(table.getType()).getElementType();
  return tensor::ExtractSliceOp::create(builder, location(name), tensorType({rows, features}, element), table,
                                        llvm::ArrayRef<OpFoldResult>{zero, zero}, sizes({rows, features}),
                                        llvm::ArrayRef<OpFoldResult>{one, one});
}

Value GraphBuilder::features(Value input, llvm::StringRef name, Size rows, int64_t first, int64_t count) {
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return tensor::ExtractSliceOp::create(builder, location(name), tensorType({rows, count}, element), input,
                                        llvm::ArrayRef<OpFoldResult>{zero, builder.getIndexAttr(first)},
                                        sizes({rows, count}), llvm::ArrayRef<OpFoldResult>{one, one});
}

Value GraphBuilder::rowsAt(Value input, Value indices, llvm::StringRef name, Size count) {
  auto type = cast<RankedTensorType>(input.getType());
  return nn::EmbeddingOp::create(builder, location(name),
                                 tensorType({count, type.getDimSize(1)}, type.getElementType()), input, indices);
}

Value GraphBuilder::firstToken(Value input, llvm::StringRef name, Size batch, int64_t features) {
  OpFoldResult zero = builder.getIndexAttr(0), one = builder.getIndexAttr(1);
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return tensor::ExtractSliceOp::create(builder, location(name), tensorType({batch, features}, element), input,
                                        llvm::ArrayRef<OpFoldResult>{zero, zero, zero}, sizes({batch, 1, features}),
                                        llvm::ArrayRef<OpFoldResult>{one, one, one});
}

Value GraphBuilder::transpose(Value input, llvm::StringRef name, const Shape &shape,
                              llvm::ArrayRef<int64_t> permutation) {
  Type element = cast<RankedTensorType>(input.getType()).getElementType();
  return linalg::TransposeOp::create(builder, location(name), input, empty(name, shape, element), permutation)
      ->getResult(0);
}

Value GraphBuilder::concat(llvm::ArrayRef<Value> values, llvm::StringRef name, int64_t dimension) {
  return tensor::ConcatOp::create(builder, location(name), dimension, values);
}

//===-- Elementwise and reductions ----------------------------------------------------------------------------===//

Value GraphBuilder::generic(llvm::StringRef name, Value initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
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
  return linalg::GenericOp::create(builder, location(name), initial.getType(), values, initial, maps, iterators,
                                   [&](OpBuilder &inner, Location at, ValueRange arguments) {
                                     linalg::YieldOp::create(inner, at, body(inner, at, arguments));
                                   })
      .getResult(0);
}

Value GraphBuilder::elementwise(llvm::StringRef name, Type element, const Shape &shape,
                                llvm::ArrayRef<Operand> operands, Body body) {
  llvm::SmallVector<unsigned> all(llvm::to_vector(llvm::seq<unsigned>(0, shape.size())));
  return generic(name, empty(name, shape, element), shape, all, operands, body);
}

Value GraphBuilder::reduce(llvm::StringRef name, TypedAttr initial, const Shape &shape, llvm::ArrayRef<unsigned> kept,
                           llvm::ArrayRef<Operand> operands, Body body) {
  Shape result;
  for (unsigned dim : kept)
    result.push_back(shape[dim]);
  Location at = location(name);
  Value start = arith::ConstantOp::create(builder, at, initial);
  Value filled = linalg::FillOp::create(builder, at, start, empty(name, result, initial.getType())).getResult(0);
  return generic(name, filled, shape, kept, operands, body);
}

} // namespace intarsia::importer
