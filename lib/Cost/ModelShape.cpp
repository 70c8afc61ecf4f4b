//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ModelShape.h"
#include "intarsia/Cost/Catalogue.h"
#include "lib/Support/Nesting.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

using namespace llvm;
using namespace intarsia;

using Kind = AttentionLayers::Kind;

double AttentionLayers::parameters(int hidden) const {
  double h = hidden;
  double indexer = 0;
  if (indexHeads) // queries from the compressed query, one key, a weight a head (DeepSeek-V3.2, section 2.1)
    indexer = double(queryRank) * indexHeads * indexDim + h * indexDim + h * indexHeads;
  switch (kind) {
  case Kind::Grouped: {
    double queries = h * heads * keyDim * (outputGate ? 2 : 1);
    double values = valuesAreKeys ? 0 : h * keyHeads * valueDim;
    return queries + h * keyHeads * keyDim + values + double(heads) * valueDim * h + indexer;
  }
  case Kind::Latent: // DeepSeek-V2, section 2.1
    return h * queryRank + double(queryRank) * heads * (keyDim + rotaryDim) + h * (cacheRank + rotaryDim) +
           double(cacheRank) * heads * (keyDim + valueDim) + double(heads) * valueDim * h + indexer;
  case Kind::Linear: {
    double keys = double(keyHeads) * keyDim, values = double(heads) * valueDim;
    // Queries, keys, values and the gate of the output; two rates a head; the output.
    return h * (2 * keys + 2 * values) + h * 2 * heads + values * h;
  }
  }
  llvm_unreachable("all kinds are listed");
}

double AttentionLayers::cachedElementsPerToken() const {
  switch (kind) {
  case Kind::Grouped:
    return double(keyHeads) * (keyDim + valueDim) + indexDim;
  case Kind::Latent:
    return cacheRank + rotaryDim + indexDim;
  case Kind::Linear:
    return 0;
  }
  llvm_unreachable("all kinds are listed");
}

double AttentionLayers::stateBytes() const { return kind == Kind::Linear ? 4.0 * heads * keyDim * valueDim : 0; }

double AttentionLayers::visible(double context) const {
  if (kind == Kind::Linear)
    return 0;
  if (window)
    context = std::min(context, double(window));
  if (selectedTokens)
    context = std::min(context, double(selectedTokens));
  return context;
}

double AttentionLayers::visibleOfPrompt(double tokens) const {
  double most = visible(tokens);
  // The token at position i sees min(i, most).
  return tokens > 0 ? most - most * most / (2 * tokens) : 0;
}

double AttentionLayers::scoreFlops(double tokens, bool prefill) const {
  switch (kind) {
  case Kind::Grouped:
    return 2.0 * heads * (keyDim + valueDim) * tokens;
  case Kind::Latent: // decode works on the compressed vector itself ("absorbed")
    return prefill ? 2.0 * heads * (keyDim + rotaryDim + valueDim) * tokens
                   : 2.0 * heads * (2 * cacheRank + rotaryDim) * tokens;
  case Kind::Linear: // decay, two multiplications by the state, the update
    return 8.0 * heads * keyDim * valueDim;
  }
  llvm_unreachable("all kinds are listed");
}

double AttentionLayers::indexFlops(double context) const { return 2.0 * indexHeads * indexDim * context; }

double ModelShape::attentionParameters() const {
  double sum = 0;
  for (const AttentionLayers &group : attention)
    sum += group.layers * group.parameters(hidden);
  return sum;
}

double ModelShape::denseParameters() const {
  double h = hidden;
  return feedForwardMatrices * h * (double(denseLayers) * denseWidth + expertLayers * sharedWidth) +
         h * experts * expertLayers;
}

double ModelShape::expertParameters() const { return double(feedForwardMatrices) * hidden * expertWidth; }

double ModelShape::parameters() const {
  return embeddingParameters() + (tiedEmbeddings ? 0 : headParameters()) + attentionParameters() + denseParameters() +
         allExpertParameters();
}

double ModelShape::multipliedParameters() const {
  return attentionParameters() + denseParameters() + expertParameters() * expertsPerToken * expertLayers;
}

double ModelShape::activeParameters() const {
  return multipliedParameters() + embeddingParameters() + (tiedEmbeddings ? 0 : headParameters());
}

double ModelShape::cachedElements(double context) const {
  double sum = 0;
  for (const AttentionLayers &group : attention) {
    double kept = group.window ? std::min(context, double(group.window)) : context;
    sum += group.layers * group.cachedElementsPerToken() * kept;
  }
  return sum;
}

double ModelShape::cacheBytesPerToken(double bytesPerElement) const {
  double sum = 0;
  for (const AttentionLayers &group : attention)
    sum += group.layers * group.cachedElementsPerToken();
  return sum * bytesPerElement;
}

double ModelShape::stateBytes() const {
  double sum = 0;
  for (const AttentionLayers &group : attention)
    sum += group.layers * group.stateBytes();
  return sum;
}

double ModelShape::prefillFlops(double tokens) const {
  double sum = 2 * multipliedParameters() * tokens;
  for (const AttentionLayers &group : attention)
    sum +=
        group.layers * tokens * (group.scoreFlops(group.visibleOfPrompt(tokens), true) + group.indexFlops(tokens / 2));
  return sum;
}

double ModelShape::decodeFlops(double context) const {
  double sum = 2 * (multipliedParameters() + headParameters());
  for (const AttentionLayers &group : attention)
    sum += group.layers * (group.scoreFlops(group.visible(context), false) + group.indexFlops(context));
  return sum;
}

double ModelShape::expertsTouched(double tokens, double dispersion) const {
  if (!experts)
    return 0;
  double expected = tokens * expertsPerToken / experts;
  if (dispersion < 1e-6)
    return 1 - std::pow(1 - double(expertsPerToken) / experts, tokens);
  return 1 - std::pow(1 + expected * dispersion, -1 / dispersion);
}

namespace {

/// Settings of a config.json, by name; keeps the first error.
class Settings {
public:
  Settings(const json::Object &object, StringRef model) : object(object), model(model) {}

  int number(StringRef key, std::optional<int> otherwise = std::nullopt) {
    const json::Value *value = object.get(key);
    if (!value || value->kind() == json::Value::Null) {
      if (!otherwise)
        fail("lacks '" + key + "'");
      return otherwise.value_or(1);
    }
    std::optional<int64_t> number = value->getAsInteger();
    if (!number || *number < 0 || *number > (1 << 28)) {
      fail("'" + key + "' is not a whole number between 0 and 2^28");
      return 1;
    }
    return int(*number);
  }
  /// Reads an integer above zero.
  int size(StringRef key, std::optional<int> otherwise = std::nullopt) {
    int value = number(key, otherwise);
    if (value < 1)
      fail("'" + key + "' must be above zero");
    return std::max(value, 1);
  }
  bool flag(StringRef key, bool otherwise = false) const { return object.getBoolean(key).value_or(otherwise); }
  bool has(StringRef key) const {
    const json::Value *value = object.get(key);
    return value && value->kind() != json::Value::Null;
  }
  StringRef word(StringRef key) const { return object.getString(key).value_or(""); }
  const json::Object &json() const { return object; }
  void fail(const Twine &message) {
    if (problem.empty())
      problem = (model + ": config.json " + message).str();
  }
  Error takeError() const {
    return problem.empty() ? Error::success() : createStringError(inconvertibleErrorCode(), problem);
  }

private:
  const json::Object &object;
  std::string model, problem;
};

/// Number of layers of each kind that `layer_types` lists.
struct LayerKinds {
  int full = 0, sliding = 0, linear = 0;
};

LayerKinds layerKinds(Settings &settings, int layers, StringRef type) {
  LayerKinds kinds;
  const json::Array *types = settings.json().getArray("layer_types");
  if (!types) {
    // Llama 4 sees a chunk in three of four layers, everything in the fourth.
    if (type == "llama4_text" && settings.has("attention_chunk_size"))
      return {layers / 4, layers - layers / 4, 0};
    kinds.full = layers;
    return kinds;
  }
  for (const json::Value &value : *types) {
    StringRef kind = value.getAsString().value_or("");
    if (kind == "full_attention")
      ++kinds.full;
    else if (kind == "sliding_attention" || kind == "chunked_attention")
      ++kinds.sliding;
    else if (kind == "linear_attention")
      ++kinds.linear;
    else
      settings.fail("'layer_types' holds '" + kind + "', which the shape cannot express");
  }
  if (kinds.full + kinds.sliding + kinds.linear != layers)
    settings.fail("'layer_types' lists " + Twine(kinds.full + kinds.sliding + kinds.linear) +
                  " layers, 'num_hidden_layers' is " + Twine(layers));
  return kinds;
}

void readAttention(Settings &settings, ModelShape &shape, StringRef type) {
  LayerKinds kinds = layerKinds(settings, shape.layers, type);
  AttentionLayers full;
  full.layers = kinds.full;
  full.heads = settings.size("num_attention_heads");
  if (settings.has("kv_lora_rank")) {
    full.kind = Kind::Latent;
    full.queryRank = settings.size("q_lora_rank");
    full.cacheRank = settings.size("kv_lora_rank");
    full.keyDim = settings.size("qk_nope_head_dim");
    full.rotaryDim = settings.size("qk_rope_head_dim");
    full.valueDim = settings.size("v_head_dim");
    full.selectedTokens = settings.number("index_topk", 0);
    if (full.selectedTokens) {
      full.indexHeads = settings.size("index_n_heads");
      full.indexDim = settings.size("index_head_dim");
    }
  } else {
    full.keyHeads = settings.size("num_key_value_heads", full.heads);
    full.keyDim = full.valueDim = settings.size("head_dim", std::max(1, shape.hidden / full.heads));
    full.outputGate = settings.flag("attn_output_gate");
    full.normsOverHeads =
        settings.flag("use_qk_norm") && settings.has("qk_norm_type") && settings.word("qk_norm_type") == "per_layer";
  }
  if (full.keyHeads > full.heads)
    settings.fail("'num_key_value_heads' " + Twine(full.keyHeads) + " is above 'num_attention_heads' " +
                  Twine(full.heads));
  if (kinds.sliding) {
    AttentionLayers sliding = full;
    sliding.layers = kinds.sliding;
    sliding.window = settings.size(settings.has("sliding_window") ? "sliding_window" : "attention_chunk_size");
    shape.attention.push_back(sliding);
  }
  // Gemma's global layers have heads of their own, and no projection of values.
  full.keyHeads = full.kind == Kind::Grouped ? settings.size("num_global_key_value_heads", full.keyHeads) : 0;
  if (settings.has("global_head_dim"))
    full.keyDim = full.valueDim = settings.size("global_head_dim");
  full.valuesAreKeys = settings.flag("attention_k_eq_v");
  if (kinds.full)
    shape.attention.push_back(full);
  if (kinds.linear) {
    AttentionLayers linear;
    linear.kind = Kind::Linear;
    linear.layers = kinds.linear;
    linear.heads = settings.size("linear_num_value_heads");
    linear.keyHeads = settings.size("linear_num_key_heads");
    linear.keyDim = settings.size("linear_key_head_dim");
    linear.valueDim = settings.size("linear_value_head_dim");
    shape.attention.push_back(linear);
  }
}

void readFeedForward(Settings &settings, ModelShape &shape, StringRef type) {
  if (type == "bloom") {
    shape.feedForwardMatrices = 2;
    shape.hasBiasedLayers = true;
    shape.denseLayers = shape.layers;
    shape.denseWidth = settings.size("intermediate_size", 4 * shape.hidden);
    return;
  }
  for (const char *key : {"n_routed_experts", "num_local_experts", "num_experts"})
    if (!shape.experts)
      shape.experts = settings.number(key, 0);
  int firstDense = shape.experts ? settings.number("first_k_dense_replace", 0) : shape.layers;
  if (firstDense > shape.layers)
    settings.fail("'first_k_dense_replace' " + Twine(firstDense) + " is above 'num_hidden_layers' " +
                  Twine(shape.layers));
  shape.denseLayers = firstDense;
  if (shape.denseLayers || !settings.has("moe_intermediate_size"))
    shape.denseWidth = settings.size("intermediate_size");
  if (!shape.experts)
    return;
  for (const char *key : {"moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step"})
    if (settings.number(key, 1) != 1)
      settings.fail("'" + Twine(key) + "' is not 1: layers that take turns are not expressed by the shape");
  shape.expertLayers = shape.layers - firstDense;
  shape.expertsPerToken = settings.size(settings.has("num_experts_per_tok") ? "num_experts_per_tok" : "top_k_experts");
  if (shape.expertsPerToken > shape.experts)
    settings.fail("a token takes " + Twine(shape.expertsPerToken) + " of " + Twine(shape.experts) + " experts");
  shape.expertWidth =
      settings.size(settings.has("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size");
  shape.sharedWidth = double(settings.number("n_shared_experts", 0)) * shape.expertWidth +
                      settings.number("shared_expert_intermediate_size", 0) +
                      settings.number("shared_intermediate_size", 0);
  if (type == "llama4_text") // one shared expert beside the routed ones
    shape.sharedWidth = shape.expertWidth;
  if (settings.flag("enable_moe_block")) // Gemma 4: a dense part beside the experts in every layer
    shape.sharedWidth = settings.size("intermediate_size");
}

} // namespace

Expected<ModelShape> ModelShape::parse(StringRef text, StringRef name) {
  auto refuse = [&](const Twine &message) {
    return createStringError(inconvertibleErrorCode(), name + ": config.json " + message);
  };
  if (deeperJson(text))
    return refuse("is nested deeper than " + Twine(deepestJson) + " levels");
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return refuse("is not JSON: " + toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object)
    return refuse("is not an object");
  bool tied = object->getBoolean("tie_word_embeddings").value_or(false);
  if (const json::Object *inner = object->getObject("text_config"))
    object = inner;
  Settings settings(*object, name);
  ModelShape shape;
  shape.name = name.str();
  shape.hidden = settings.size("hidden_size");
  shape.layers = settings.size("num_hidden_layers");
  shape.vocabulary = settings.size("vocab_size");
  shape.tiedEmbeddings = settings.flag("tie_word_embeddings", tied);
  if (settings.flag("is_encoder_decoder"))
    settings.fail("'is_encoder_decoder' is set: the shape is one of decoders");
  for (const char *key : {"num_kv_shared_layers", "hidden_size_per_layer_input", "state_size", "mamba_d_state"})
    if (settings.number(key, 0))
      settings.fail("'" + Twine(key) + "' is not 0, which the shape cannot express");
  StringRef type = settings.word("model_type");
  readAttention(settings, shape, type);
  readFeedForward(settings, shape, type);
  if (Error error = settings.takeError())
    return std::move(error);
  return shape;
}

/// Typical proportions of the dense shapes of catalogue/models: hidden size over the number of layers (19 to 128, most
/// about 100), size of a head, and the parameters below which embeddings are tied and vocabularies small.
static constexpr double hiddenOfLayers = 100;
static constexpr int usualHeadDim = 128;
static constexpr double fewParameters = 2e9;
static constexpr int vocabularyOfFew = 32000, vocabularyOfMany = 128256;

Expected<ModelShape> ModelShape::ofParameters(StringRef name, double parameters, double cacheBytesPerToken) {
  ModelShape best;
  double bestScore = std::numeric_limits<double>::infinity();
  for (int layers = 1; layers <= 256; ++layers) {
    double elements = cacheBytesPerToken / 2 / layers; // keys and values of one layer
    if (elements != std::floor(elements) || std::fmod(elements, 2) != 0)
      continue;
    ModelShape shape;
    shape.name = name.str();
    shape.layers = shape.denseLayers = layers;
    // A layer has 12 to 13 times the square of the hidden size.
    double hidden = std::sqrt(parameters / (12.5 * layers));
    shape.hidden = std::max(usualHeadDim, int(std::lround(hidden / usualHeadDim)) * usualHeadDim);
    shape.tiedEmbeddings = parameters < fewParameters;
    shape.vocabulary = shape.tiedEmbeddings ? vocabularyOfFew : vocabularyOfMany;
    for (int keyHeads = 1; keyHeads <= 128; keyHeads *= 2) {
      double dim = elements / 2 / keyHeads;
      if (dim != std::floor(dim) || dim < 16 || dim > 1024)
        continue;
      AttentionLayers attention;
      attention.layers = layers;
      attention.keyHeads = keyHeads;
      attention.keyDim = attention.valueDim = int(dim);
      int perKeyHead = std::max(1, int(std::lround(shape.hidden / dim / keyHeads)));
      attention.heads = keyHeads * perKeyHead;
      shape.attention = {attention};
      shape.denseWidth = 0;
      double rest = parameters - shape.parameters();
      shape.denseWidth = int(std::lround(rest / (3.0 * shape.hidden * layers)));
      double score = std::abs(std::log(shape.hidden / (hiddenOfLayers * layers))) +
                     std::abs(std::log(dim / usualHeadDim)) + std::abs(std::log2(keyHeads / 8.0)) * 0.1;
      if (shape.denseWidth >= shape.hidden && score < bestScore)
        best = shape, bestScore = score;
    }
  }
  if (std::isinf(bestScore))
    return createStringError(
        inconvertibleErrorCode(),
        name + formatv(
                   ": no decoder of {0:e2} parameters has a cache of {1:f0} bytes for a token, in 16 bits: 4 bytes for "
                   "each layer, head of keys and element of a head",
                   parameters, cacheBytesPerToken)
                   .str());
  return best;
}

namespace {
struct EmbeddedFile {
  const char *path, *text;
};
const EmbeddedFile modelFiles[] = {
#include "Models.inc"
};
} // namespace

ArrayRef<ModelShape> intarsia::catalogueShapes() {
  static const std::vector<ModelShape> shapes = [] {
    std::vector<ModelShape> shapes;
    for (const EmbeddedFile &file : modelFiles) {
      Expected<ModelShape> shape = ModelShape::parse(file.text, sys::path::stem(file.path));
      if (!shape)
        report_fatal_error(shape.takeError());
      shapes.push_back(std::move(*shape));
    }
    return shapes;
  }();
  return shapes;
}

/// Reads a user's config.json, once.
static Expected<const ModelShape *> shapeOfFile(StringRef file) {
  static std::mutex mutex;
  static std::map<std::string, ModelShape> shapes;
  std::lock_guard lock(mutex);
  auto known = shapes.find(file.str());
  if (known != shapes.end())
    return &known->second;
  // Refuses pipes: reading one could block forever.
  bool isOther = sys::fs::exists(file) && !sys::fs::is_regular_file(file);
  auto buffer = isOther ? ErrorOr<std::unique_ptr<MemoryBuffer>>(std::make_error_code(std::errc::invalid_argument))
                        : MemoryBuffer::getFile(file);
  if (!buffer)
    return createStringError(buffer.getError(), "shape '" + file + "' cannot be read: " + buffer.getError().message());
  Expected<ModelShape> shape = ModelShape::parse((*buffer)->getBuffer(), file);
  if (!shape)
    return shape.takeError();
  return &shapes.emplace(file.str(), std::move(*shape)).first->second;
}

bool intarsia::isPathOfShape(StringRef name) {
  return name.ends_with(".json") || name.contains('/') || sys::fs::is_directory(name);
}

Expected<const ModelShape *> intarsia::findShape(StringRef name) {
  if (isPathOfShape(name)) {
    SmallString<128> file(name);
    if (!name.ends_with(".json"))
      sys::path::append(file, "config.json");
    return shapeOfFile(file);
  }
  std::vector<std::string> names;
  for (const ModelShape &shape : catalogueShapes()) {
    if (shape.name == name)
      return &shape;
    names.push_back(shape.name);
  }
  std::string near = nearestNames(name, names);
  if (near.empty())
    near = "; it has " + join(names, ", ");
  return createStringError(inconvertibleErrorCode(), "the catalogue has no model '" + name + "'" + near);
}
