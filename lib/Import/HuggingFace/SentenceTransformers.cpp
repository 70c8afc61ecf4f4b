//===- SentenceTransformers.cpp - From modules.json to the function embed ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Semantics: sentence-transformers 6.2, modules Pooling, Dense, LayerNorm and Normalize (https://sbert.net).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/SentenceTransformers.h"

#include "dialects/Nn/FileNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <limits>

using namespace mlir;

namespace intarsia::importer {

namespace {
struct PoolingName {
  llvm::StringLiteral name;
  llvm::StringLiteral flag; // the setting of directories written before sentence-transformers 5.5
  PoolingMode mode;
};
} // namespace

/// The names of pooling modes, in the order in which flags are concatenated.
static constexpr PoolingName poolingNames[] = {
    {"cls", "pooling_mode_cls_token", PoolingMode::FirstToken},
    {"max", "pooling_mode_max_tokens", PoolingMode::Maximum},
    {"mean", "pooling_mode_mean_tokens", PoolingMode::Mean},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", PoolingMode::MeanSqrtLength},
    {"weightedmean", "pooling_mode_weightedmean_tokens", PoolingMode::WeightedMean},
    {"lasttoken", "pooling_mode_lasttoken", PoolingMode::LastToken}};

static std::string below(llvm::StringRef directory, llvm::StringRef file) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, file);
  return std::string(path);
}

void SentencePipeline::readPooling(llvm::StringRef directory, Module &module, Errors &errors) {
  std::optional<Config> config = Config::read(directory, below(module.folder, "config.json"), errors);
  if (!config)
    return;
  module.poolingFeatures = config->integer(config->spelling("embedding_dimension", "word_embedding_dimension"), 0);
  if (!config->flag("include_prompt", true))
    config->report("include_prompt false is not supported: the length of the prompt is not an input");
  llvm::SmallVector<llvm::StringRef> known;
  for (const PoolingName &entry : poolingNames)
    known.push_back(entry.name);
  llvm::SmallVector<PoolingMode> flagged;
  for (const PoolingName &entry : poolingNames)
    if (config->flag(entry.flag, false))
      flagged.push_back(entry.mode);
  if (const llvm::json::Object *object = config->value().getAsObject())
    for (const auto &[key, value] : *object) {
      llvm::StringRef setting = key;
      if (setting.starts_with("pooling_mode_") && value.getAsBoolean().value_or(true) &&
          llvm::none_of(poolingNames, [&](const PoolingName &entry) { return entry.flag == setting; }))
        config->refuse("pooling mode", setting, known);
    }
  for (const std::string &name : config->strings("pooling_mode")) {
    const auto *found = llvm::find_if(poolingNames, [&](const PoolingName &entry) { return entry.name == name; });
    if (found == std::end(poolingNames))
      config->refuse("pooling_mode", name, known);
    else
      module.modes.push_back(found->mode);
  }
  if (module.modes.empty())
    module.modes = flagged;
  else if (!flagged.empty() && (flagged.size() != module.modes.size() || !llvm::all_of(flagged, [&](PoolingMode mode) {
                                  return llvm::is_contained(module.modes, mode);
                                })))
    config->report(
        "pooling_mode and the settings pooling_mode_… name different poolings: remove the ones that are wrong");
  if (module.modes.empty())
    module.modes.push_back(PoolingMode::Mean);
}

void SentencePipeline::readDense(llvm::StringRef directory, Module &module, Errors &errors) {
  std::optional<Config> config = Config::read(directory, below(module.folder, "config.json"), errors);
  if (!config)
    return;
  for (llvm::StringRef setting : {"in_features", "out_features"})
    if (!config->has(setting))
      config->report(setting + " is missing");
  module.inputs = config->integer("in_features", 1);
  module.outputs = config->integer("out_features", 1);
  module.bias = config->flag("bias", true);
  module.residual = config->flag("use_residual", false);
  for (llvm::StringRef setting : {"module_input_name", "module_output_name"})
    if (std::string name = config->string(setting, "sentence_embedding"); name != "sentence_embedding")
      config->refuse(setting, name, {"sentence_embedding"});
  static const std::pair<llvm::StringRef, Activation> table[] = {
      {"torch.nn.modules.activation.Tanh", Activation::Tanh},
      {"torch.nn.modules.linear.Identity", Activation::Identity},
      {"torch.nn.modules.activation.ReLU", Activation::Relu},
      {"torch.nn.modules.activation.GELU", Activation::GeluErf},
      {"torch.nn.modules.activation.SiLU", Activation::Silu},
      {"torch.nn.modules.activation.Sigmoid", Activation::Sigmoid}};
  std::string name = config->string("activation_function", table[0].first);
  llvm::SmallVector<llvm::StringRef> known;
  bool found = false;
  for (const auto &[spelled, activation] : table) {
    known.push_back(spelled);
    if (spelled == name) {
      module.activation = activation;
      found = true;
    }
  }
  if (!found)
    config->refuse("activation_function", name, known);
  if (!errors.any())
    module.weights = SafetensorsArchive::open(directory, module.folder, errors);
}

void SentencePipeline::readLayerNorm(llvm::StringRef directory, Module &module, Errors &errors) {
  std::optional<Config> config = Config::read(directory, below(module.folder, "config.json"), errors);
  if (!config)
    return;
  if (!config->has("dimension"))
    config->report("dimension is missing");
  module.inputs = module.outputs = config->integer("dimension", 1);
  if (!errors.any())
    module.weights = SafetensorsArchive::open(directory, module.folder, errors);
}

llvm::SmallVector<const SafetensorsArchive *> SentencePipeline::archives() const {
  llvm::SmallVector<const SafetensorsArchive *> result;
  for (const Module &module : modules)
    if (module.weights)
      result.push_back(module.weights.get());
  return result;
}

std::unique_ptr<SentencePipeline> SentencePipeline::read(llvm::StringRef directory, Errors &errors) {
  std::optional<Config> file = Config::read(directory, "modules.json", errors);
  if (!file)
    return nullptr;
  const llvm::json::Array *list = file->value().getAsArray();
  if (!list || list->empty()) {
    file->report("is not a list of modules");
    return nullptr;
  }
  auto pipeline = std::make_unique<SentencePipeline>();
  for (const auto &[position, item] : llvm::enumerate(*list)) {
    const llvm::json::Object *object = item.getAsObject();
    std::optional<llvm::StringRef> type = object ? object->getString("type") : std::nullopt;
    std::optional<llvm::StringRef> folder = object ? object->getString("path") : std::nullopt;
    if (!type || !folder || !nn::isBelowDirectory(*folder)) {
      file->report("module " + llvm::Twine(position) + " lacks a type, or a path below the model's directory");
      return nullptr;
    }
    // "sentence_transformers.models.Pooling", or since version 5.5 "sentence_transformers.….modules.pooling.Pooling".
    llvm::StringRef kind = type->starts_with("sentence_transformers.") ? type->rsplit('.').second : "";
    if ((kind == "Transformer") != (position == 0)) {
      file->report("module " + llvm::Twine(position) + " is '" + *type +
                   "'; supported is one Transformer, and after it Pooling, Dense, LayerNorm and Normalize");
      return nullptr;
    }
    if (position == 0) {
      pipeline->transformer = folder->str();
      continue;
    }
    Module module;
    module.folder = folder->str();
    if (kind == "Pooling" && position == 1) {
      module.kind = Module::Pooling;
      pipeline->readPooling(directory, module, errors);
    } else if (kind == "Dense" && position > 1) {
      module.kind = Module::Dense;
      pipeline->readDense(directory, module, errors);
    } else if (kind == "LayerNorm" && position > 1) {
      module.kind = Module::LayerNorm;
      pipeline->readLayerNorm(directory, module, errors);
    } else if (kind == "Normalize" && position > 1) {
      module.kind = Module::Normalize;
    } else {
      file->report("module " + llvm::Twine(position) + " of type '" + *type +
                   "' is not supported; supported is one Transformer, one Pooling, and after them Dense, LayerNorm and "
                   "Normalize");
    }
    if (errors.any())
      return nullptr;
    pipeline->modules.push_back(std::move(module));
  }
  if (pipeline->modules.empty()) {
    file->report("has no Pooling: token embeddings alone are what the function main gives");
    return nullptr;
  }
  for (llvm::StringRef name : {"sentence_bert_config.json", "sentence_roberta_config.json",
                               "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json"}) {
    std::string path = below(pipeline->transformer, name);
    if (!hasFile(directory, path, errors))
      continue;
    std::optional<Config> settings = Config::read(directory, path, errors);
    if (!settings)
      return nullptr;
    if (settings->has("max_seq_length"))
      pipeline->longestSequence = settings->integer("max_seq_length", 1);
    if (std::string task = settings->string("transformer_task", "feature-extraction"); task != "feature-extraction")
      settings->refuse("transformer_task", task, {"feature-extraction"});
    break;
  }
  return pipeline;
}

/// Widens narrower data: sums and divisions are in f32, as in torch.
static Value toFloat32(OpBuilder &builder, Location at, Value value) {
  if (isa<IntegerType>(value.getType()))
    return arith::SIToFPOp::create(builder, at, builder.getF32Type(), value);
  if (value.getType().isF32())
    return value;
  return arith::ExtFOp::create(builder, at, builder.getF32Type(), value);
}

static Value fromFloat32(OpBuilder &builder, Location at, Value value, Type type) {
  return type.isF32() ? value : Value(arith::TruncFOp::create(builder, at, type, value));
}

static Value isNonZero(OpBuilder &builder, Location at, Value mask) {
  Value zero = arith::ConstantOp::create(builder, at, builder.getI64IntegerAttr(0));
  return arith::CmpIOp::create(builder, at, arith::CmpIPredicate::ne, mask, zero);
}

namespace {

/// Emits the poolings of one hidden state; values that several of them need are emitted once.
class Pooler {
public:
  Pooler(GraphBuilder &graph, Value hidden, Value mask, int64_t features)
      : graph(graph), builder(graph.getBuilder()), hidden(hidden), mask(mask), features(features) {}

  Value pool(PoolingMode mode) {
    switch (mode) {
    case PoolingMode::FirstToken:
      return tokenAt(firstToken());
    case PoolingMode::LastToken:
      return tokenAt(lastToken());
    case PoolingMode::Maximum:
      return maximum();
    case PoolingMode::Mean:
    case PoolingMode::MeanSqrtLength:
      return mean(mode == PoolingMode::MeanSqrtLength);
    case PoolingMode::WeightedMean:
      return weightedMean();
    }
    llvm_unreachable("all modes are handled");
  }

private:
  Shape states() const { return {"batch", "sequence", features}; }
  Shape positions() const { return {"batch", "sequence"}; }
  TypedAttr number(double value) { return builder.getF32FloatAttr(value); }
  TypedAttr integer(int64_t value) { return builder.getI64IntegerAttr(value); }

  /// These return the smallest and largest position that is not masked [batch]; if all are masked, -1 or a huge number,
  /// which match no position.
  Value firstToken() {
    if (!first)
      first = extremeToken(std::numeric_limits<int64_t>::max(), [](OpBuilder &inner, Location at, Value a, Value b) {
        return Value(arith::MinSIOp::create(inner, at, a, b));
      });
    return first;
  }
  Value lastToken() {
    if (!last)
      last = extremeToken(-1, [](OpBuilder &inner, Location at, Value a, Value b) {
        return Value(arith::MaxSIOp::create(inner, at, a, b));
      });
    return last;
  }
  Value extremeToken(int64_t none, llvm::function_ref<Value(OpBuilder &, Location, Value, Value)> choose) {
    return graph.reduce(
        "", integer(none), positions(), {0}, {{mask, {0, 1}}}, [&](OpBuilder &inner, Location at, ValueRange values) {
          Value index = linalg::IndexOp::create(inner, at, 1);
          Value position = arith::IndexCastOp::create(inner, at, inner.getI64Type(), index);
          Value other = choose(inner, at, position, values[1]);
          return Value(arith::SelectOp::create(inner, at, isNonZero(inner, at, values[0]), other, values[1]));
        });
  }

  /// Gathers by position, written as a sum of one term; returns zeros for a sequence without a token.
  Value tokenAt(Value position) {
    Type element = graph.getActivationType();
    return graph.reduce("", builder.getFloatAttr(element, 0.0), states(), {0, 2},
                        {{hidden, {0, 1, 2}}, {position, {0}}}, [&](OpBuilder &inner, Location at, ValueRange values) {
                          Value index = linalg::IndexOp::create(inner, at, 1);
                          Value here = arith::IndexCastOp::create(inner, at, inner.getI64Type(), index);
                          Value match = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::eq, here, values[1]);
                          return Value(arith::SelectOp::create(inner, at, match, values[0], values[2]));
                        });
  }

  Value maximum() {
    Type element = graph.getActivationType();
    double lowest = -std::numeric_limits<double>::infinity();
    return graph.reduce("", builder.getFloatAttr(element, lowest), states(), {0, 2},
                        {{hidden, {0, 1, 2}}, {mask, {0, 1}}}, [&](OpBuilder &inner, Location at, ValueRange values) {
                          Value larger = arith::MaximumFOp::create(inner, at, values[0], values[2]);
                          return Value(
                              arith::SelectOp::create(inner, at, isNonZero(inner, at, values[1]), larger, values[2]));
                        });
  }

  /// Divides the sum over tokens of state * mask by that of mask (or its square root), in f32.
  Value mean(bool bySquareRoot) {
    if (!sum) {
      sum = graph.reduce("", number(0.0), states(), {0, 2}, {{hidden, {0, 1, 2}}, {mask, {0, 1}}},
                         [](OpBuilder &inner, Location at, ValueRange values) {
                           Value state = toFloat32(inner, at, values[0]), weight = toFloat32(inner, at, values[1]);
                           Value term = arith::MulFOp::create(inner, at, state, weight);
                           return Value(arith::AddFOp::create(inner, at, values[2], term));
                         });
      count = graph.reduce("", number(0.0), positions(), {0}, {{mask, {0, 1}}},
                           [](OpBuilder &inner, Location at, ValueRange values) {
                             Value weight = toFloat32(inner, at, values[0]);
                             return Value(arith::AddFOp::create(inner, at, values[1], weight));
                           });
    }
    return quotient(sum, count, bySquareRoot);
  }

  /// Computes a mean with weights 1, 2, … from the first token that is not masked (arXiv 2202.08904, section 3.1).
  Value weightedMean() {
    Value start = firstToken();
    auto weightOf = [](OpBuilder &inner, Location at, Value maskValue, Value startValue) {
      Value index = linalg::IndexOp::create(inner, at, 1);
      Value here = arith::IndexCastOp::create(inner, at, inner.getI64Type(), index);
      Value one = arith::ConstantOp::create(inner, at, inner.getI64IntegerAttr(1));
      Value distance = arith::AddIOp::create(inner, at, arith::SubIOp::create(inner, at, here, startValue), one);
      Value weight = toFloat32(inner, at, distance);
      return Value(arith::MulFOp::create(inner, at, weight, toFloat32(inner, at, maskValue)));
    };
    Value weightedSum =
        graph.reduce("", number(0.0), states(), {0, 2}, {{hidden, {0, 1, 2}}, {mask, {0, 1}}, {start, {0}}},
                     [&](OpBuilder &inner, Location at, ValueRange values) {
                       Value weight = weightOf(inner, at, values[1], values[2]);
                       Value state = toFloat32(inner, at, values[0]);
                       Value term = arith::MulFOp::create(inner, at, state, weight);
                       return Value(arith::AddFOp::create(inner, at, values[3], term));
                     });
    Value weights = graph.reduce("", number(0.0), positions(), {0}, {{mask, {0, 1}}, {start, {0}}},
                                 [&](OpBuilder &inner, Location at, ValueRange values) {
                                   Value weight = weightOf(inner, at, values[0], values[1]);
                                   return Value(arith::AddFOp::create(inner, at, values[2], weight));
                                 });
    return quotient(weightedSum, weights, /*bySquareRoot=*/false);
  }

  Value quotient(Value numerator, Value denominator, bool bySquareRoot) {
    Type element = graph.getActivationType();
    return graph.elementwise("", element, {"batch", features}, {{numerator, {0, 1}}, {denominator, {0}}},
                             [&](OpBuilder &inner, Location at, ValueRange values) {
                               // Avoids a division by zero for a sequence without tokens; the value is torch's clamp.
                               Value least = floatConstant(inner, at, inner.getF32Type(), 1e-9);
                               Value divisor = arith::MaximumFOp::create(inner, at, values[1], least);
                               if (bySquareRoot)
                                 divisor = math::SqrtOp::create(inner, at, divisor);
                               Value result = arith::DivFOp::create(inner, at, values[0], divisor);
                               return fromFloat32(inner, at, result, element);
                             });
  }

  GraphBuilder &graph;
  OpBuilder &builder;
  Value hidden, mask;
  int64_t features;
  Value first, last, sum, count;
};

} // namespace

/// Returns x / max(|x|, 1e-12): torch.nn.functional.normalize.
static Value normalize(GraphBuilder &graph, Value input, int64_t features) {
  OpBuilder &builder = graph.getBuilder();
  Type element = graph.getActivationType();
  Shape shape = {"batch", features};
  Value squares = graph.reduce("", builder.getF32FloatAttr(0.0), shape, {0}, {{input, {0, 1}}},
                               [](OpBuilder &inner, Location at, ValueRange values) {
                                 Value value = toFloat32(inner, at, values[0]);
                                 Value square = arith::MulFOp::create(inner, at, value, value);
                                 return Value(arith::AddFOp::create(inner, at, values[1], square));
                               });
  return graph.elementwise("", element, shape, {{input, {0, 1}}, {squares, {0}}},
                           [&](OpBuilder &inner, Location at, ValueRange values) {
                             Value norm = math::SqrtOp::create(inner, at, values[1]);
                             Value least = floatConstant(inner, at, inner.getF32Type(), 1e-12);
                             Value divisor = arith::MaximumFOp::create(inner, at, norm, least);
                             Value value = toFloat32(inner, at, values[0]);
                             Value result = arith::DivFOp::create(inner, at, value, divisor);
                             return fromFloat32(inner, at, result, element);
                           });
}

void SentencePipeline::build(GraphBuilder &graph, Value hidden, int64_t features) const {
  Value embedding = hidden;
  for (const Module &module : modules) {
    if (graph.sink().any())
      return;
    std::string settings = below(module.folder, "config.json");
    switch (module.kind) {
    case Module::Pooling: {
      if (module.poolingFeatures != 0 && module.poolingFeatures != features) {
        graph.sink().report(settings + ": embedding dimension is " + llvm::Twine(module.poolingFeatures) +
                            ", the encoder gives " + llvm::Twine(features));
        return;
      }
      Value mask = graph.input("attention_mask");
      if (!mask) {
        graph.sink().report("modules.json: pooling needs a model with an attention_mask");
        return;
      }
      GraphBuilder::Scope scope(graph, module.folder);
      Pooler pooler(graph, hidden, mask, features);
      llvm::SmallVector<Value> pooled;
      for (PoolingMode mode : module.modes)
        pooled.push_back(pooler.pool(mode));
      embedding = pooled.size() == 1 ? pooled.front() : graph.concat(pooled, "", 1);
      features *= static_cast<int64_t>(pooled.size());
      break;
    }
    case Module::Dense: {
      if (module.inputs != features) {
        graph.sink().report(settings + ": in_features is " + llvm::Twine(module.inputs) + ", the module before gives " +
                            llvm::Twine(features));
        return;
      }
      // The module has its own archive, with keys that begin with "linear".
      Extent inputs(module.inputs, "in_features"), outputs(module.outputs, "out_features");
      GraphBuilder::Scope scope(graph, "", module.weights.get());
      Value projected = graph.activation(graph.linear(embedding, "linear", outputs, inputs, module.bias), "linear",
                                         module.activation);
      if (module.residual) {
        Value identity = module.inputs == module.outputs
                             ? embedding
                             : graph.linear(embedding, "residual", outputs, inputs, /*bias=*/false);
        projected = graph.add(projected, identity, "residual");
      }
      embedding = projected;
      features = module.outputs;
      break;
    }
    case Module::LayerNorm: {
      if (module.inputs != features) {
        graph.sink().report(settings + ": dimension is " + llvm::Twine(module.inputs) + ", the module before gives " +
                            llvm::Twine(features));
        return;
      }
      GraphBuilder::Scope scope(graph, "", module.weights.get());
      constexpr double epsilon = 1e-5; // torch's default, which no setting changes
      embedding = graph.layerNorm(embedding, "norm", Extent(module.inputs, "dimension"), epsilon);
      break;
    }
    case Module::Normalize: {
      GraphBuilder::Scope scope(graph, module.folder);
      embedding = normalize(graph, embedding, features);
      break;
    }
    }
  }
  graph.output(embedding, "sentence_embedding", {"batch", features});
}

void SentencePipeline::addMetadata(OpBuilder &builder, llvm::SmallVectorImpl<NamedAttribute> &metadata) const {
  llvm::SmallVector<llvm::StringRef> names;
  bool normalized = false;
  for (const Module &module : modules) {
    for (PoolingMode mode : module.modes)
      for (const PoolingName &entry : poolingNames)
        if (entry.mode == mode)
          names.push_back(entry.name);
    normalized = module.kind == Module::Normalize;
  }
  metadata.push_back(builder.getNamedAttr("pooling", builder.getStrArrayAttr(names)));
  metadata.push_back(builder.getNamedAttr("normalized", builder.getBoolAttr(normalized)));
  if (longestSequence)
    metadata.push_back(builder.getNamedAttr("max_seq_length", builder.getI64IntegerAttr(*longestSequence)));
}

} // namespace intarsia::importer
