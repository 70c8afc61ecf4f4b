//===- GraphBuilder.cpp - Emits nn IR under the module paths of a model ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/GraphBuilder.h"

#include "lib/Support/Status.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

using namespace mlir;

namespace intarsia::importer {

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
                                                                 {"relu6", Activation::Relu6},
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
    : ModuleBuilder(module, errors), archive(&archive), dataType(dataType), activationType(activationType) {}

void GraphBuilder::beginFunction(llvm::StringRef name, llvm::ArrayRef<Input> inputs) {
  quantizedWeights.clear();
  ModuleBuilder::beginFunction(name, inputs);
}

void GraphBuilder::endFunction(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> sizeLimits,
                               DictionaryAttr metadata) {
  // Caches of one artifact may be handed over to another of the same model.
  if (hasState()) {
    NamedAttrList entries(metadata);
    entries.set("model_hash", builder.getStringAttr(archive->sampledHash()));
    metadata = entries.getDictionary(builder.getContext());
  }
  ModuleBuilder::endFunction(sizeLimits, metadata);
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

bool GraphBuilder::hasWeight(llvm::StringRef name) const { return archive->find(path(name)).has_value(); }

bool GraphBuilder::differ(llvm::StringRef first, llvm::StringRef second) const {
  auto one = archive->find(path(first)), other = archive->find(path(second));
  if (!one || !other)
    return false;
  const ArchiveTensor &a = *one->entry, &b = *other->entry;
  return a.dtype != b.dtype || a.shape != b.shape || std::memcmp(a.data, b.data, a.bytes()) != 0;
}

llvm::StringRef GraphBuilder::spelling(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef suffix) const {
  for (llvm::StringRef name : names)
    if (hasWeight((name + suffix).str()))
      return name;
  return names.front();
}

//===-- Weights -----------------------------------------------------------------------------------------------===//

/// Compares the stored shape with the shape that the settings imply. Reports the settings of dimensions that differ,
/// and returns false.
static bool checkShape(const WeightArchive::Tensor &tensor, llvm::ArrayRef<Extent> implied, Errors &errors) {
  llvm::ArrayRef<int64_t> stored = tensor.shape();
  llvm::SmallVector<int64_t> sizes;
  for (const Extent &extent : implied)
    sizes.push_back(extent.size);
  if (stored == llvm::ArrayRef<int64_t>(sizes))
    return true;
  llvm::SmallVector<llvm::StringRef> settings;
  for (auto [index, extent] : llvm::enumerate(implied))
    if (!extent.setting.empty() && !llvm::is_contained(settings, extent.setting) &&
        (stored.size() != implied.size() || stored[index] != extent.size))
      settings.push_back(extent.setting);
  std::string why = settings.empty() ? "" : " (" + llvm::join(settings, ", ") + ")";
  errors.report(tensor.file->name + ": tensor '" + tensor.entry->name + "' is " + shapeText(stored) +
                ", config.json implies " + shapeText(sizes) + why + "; is config.json from another model?");
  return false;
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

static llvm::SmallVector<int64_t> sizesOf(llvm::ArrayRef<Extent> shape) {
  llvm::SmallVector<int64_t> sizes;
  for (const Extent &extent : shape)
    sizes.push_back(extent.size);
  return sizes;
}

Value GraphBuilder::weight(llvm::StringRef name, llvm::ArrayRef<Extent> shape) {
  std::string key = path(name);
  Value &matrix = quantizedWeights[key];
  if (!matrix)
    matrix = quantizedWeight(name, shape);
  if (matrix)
    return matrix;
  auto implied = RankedTensorType::get(sizesOf(shape), dataType);
  std::optional<WeightArchive::Tensor> tensor = archive->find(key);
  if (!tensor) {
    errors.report(archive->missing(key) + ", which config.json implies; is config.json from another model?");
    return missingWeight(location(name), key, implied);
  }
  bool areBlocks = tensor->gguf && !tensor->gguf->isPlain();
  bool isFloat = areBlocks ? tensor->gguf->type->isDecoded : bool(floatType(tensor->entry->dtype, module.getContext()));
  if (!checkShape(*tensor, shape, errors))
    return missingWeight(location(name), key, implied);
  if (isFloat)
    return ModuleBuilder::weight(location(name), *tensor);
  errors.report(tensor->file->name + ": tensor '" + key + "' is of dtype " +
                (tensor->gguf ? llvm::StringRef(tensor->gguf->type->name) : tensor->entry->dtype) + ", expected " +
                supportedTypes(*tensor));
  return missingWeight(location(name), key, implied);
}

Value GraphBuilder::mxfp4Weight(llvm::StringRef name, llvm::ArrayRef<Extent> shape) {
  constexpr int64_t block = 32; // elements that share a scale, two in a byte
  llvm::SmallVector<int64_t> sizes = sizesOf(shape);
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
    if (!tensor)
      errors.report(archive->missing(key) + ", which config.json implies");
    else if (tensor->entry->dtype != "U8")
      errors.report(tensor->file->name + ": tensor '" + key + "' is of dtype " + tensor->entry->dtype +
                    ", MXFP4 is stored as U8");
    else
      checkShape(*tensor, extents, errors);
    parts.push_back(tensor ? rawWeight(location(name), *tensor, type) : missingWeight(location(name), key, type));
  }
  return dequantize(location(name), {parts[0], parts[1]}, RankedTensorType::get(sizes, builder.getBF16Type()), format);
}

//===-- Layers ------------------------------------------------------------------------------------------------===//

Value GraphBuilder::linear(Value input, llvm::StringRef name, Extent outputs, Extent inputs, bool bias) {
  Value weightValue = weight((name + ".weight").str(), {outputs, inputs});
  Value biasValue = bias ? weight((name + ".bias").str(), {outputs}) : Value();
  return linear(input, name, weightValue, biasValue);
}

Value GraphBuilder::layerNorm(Value input, llvm::StringRef name, Extent features, double epsilon) {
  auto parameter = [&](llvm::StringRef now, llvm::StringRef tensorFlow) {
    std::string current = (name + "." + now).str(), older = (name + "." + tensorFlow).str();
    return weight(spelling({current, older}), {features});
  };
  Value scale = parameter("weight", "gamma");
  Value bias = parameter("bias", "beta");
  return ModuleBuilder::layerNorm(location(name), input, scale, bias, epsilon);
}

Value GraphBuilder::rmsNorm(Value input, llvm::StringRef name, Extent features, double epsilon) {
  return ModuleBuilder::rmsNorm(location(name), input, weight((name + ".weight").str(), {features}), epsilon);
}

Value GraphBuilder::conv(Value images, llvm::StringRef name, Extent outputs, Extent inputs, const Windows &windows,
                         bool bias, llvm::StringRef windowSetting) {
  llvm::SmallVector<Extent> shape{outputs, Extent(inputs.size / windows.groups, inputs.setting)};
  if (windows.isTransposed)
    std::swap(shape[0], shape[1]);
  for (int64_t size : windows.window)
    shape.push_back(Extent(size, windowSetting));
  Value weightValue = weight((name + ".weight").str(), shape);
  Value biasValue = bias ? weight((name + ".bias").str(), {outputs}) : Value();
  return ModuleBuilder::conv(location(name), images, convWeight(location(name), weightValue, windows.isTransposed),
                             biasValue, windows);
}

Value GraphBuilder::batchNorm(Value images, llvm::StringRef name, Extent channels, double epsilon) {
  auto vector = [&](llvm::StringRef parameter) { return weight((name + "." + parameter).str(), {channels}); };
  BatchNorm norm{vector("weight"), vector("bias"), vector("running_mean"), vector("running_var"), epsilon};
  return ModuleBuilder::batchNorm(location(name), images, norm);
}

Value GraphBuilder::pointLinear(Value rows, llvm::StringRef name, Extent outputs, Extent inputs) {
  Value matrix = convWeight(location(name), weight((name + ".weight").str(), {outputs, inputs, 1, 1}));
  return linear(rows, name, matrix, weight((name + ".bias").str(), {outputs}));
}

Value GraphBuilder::squeezeExcite(Value images, const SqueezeExcite &modules, Extent channels, Extent reduced) {
  Value squeezed = pointLinear(spatialMean(images, modules.reduce), modules.reduce, reduced, channels);
  squeezed = activation(squeezed, modules.reduce, modules.activation);
  Value factors = activation(pointLinear(squeezed, modules.expand, channels, reduced), modules.expand, modules.gate);
  return scaleChannels(images, factors, modules.expand);
}

Value GraphBuilder::embedding(Value indices, llvm::StringRef name, Extent rows, Extent features) {
  return ModuleBuilder::embedding(location(name), weight((name + ".weight").str(), {rows, features}), indices,
                                  activationType);
}

Value GraphBuilder::rowsAt(Value input, Value indices, llvm::StringRef name) {
  return ModuleBuilder::embedding(location(name), input, indices,
                                  cast<RankedTensorType>(input.getType()).getElementType());
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

} // namespace intarsia::importer
