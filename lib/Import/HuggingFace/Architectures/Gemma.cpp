//===- Gemma.cpp - Gemma 2 and the text model of Gemma 3 ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/Decoder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

/// The differences between models of this family, and the defaults of their configuration classes.
struct Variant {
  llvm::StringRef causalClass;
  int64_t vocabulary, context;
  int64_t globalEvery;      // every globalEvery-th layer attends to the whole text, the others to a window
  bool queryKeyNorm;        // Gemma 3: a norm of each head of query and key
  bool caps;                // Gemma 2: default caps on scores and logits
  bool frequenciesOfLayers; // Gemma 3: layers with a window have higher frequencies
  double theta;
  bool insideOther = false; // part of a model that takes images: other prefixes
};

/// Layers like Llama's, but with a norm before and after attention and feed-forward, and attention to a window in most
/// layers (arXiv 2408.00118, section 2; arXiv 2503.19786, section 2).
class Gemma : public Decoder {
public:
  /// `config` has the settings of the text model, `whole` those of the model that contains it, or the same.
  Gemma(const Config &config, const Config &whole, const ImportOptions &options, const Variant &variant)
      : Decoder(config, options), variant(variant) {
    refuseCommonSettings(config, QuantizedWeights::Checkpoints);
    config.refuseIfSet("use_bidirectional_attention", "a token of a text that is continued sees those before it");
    vocabulary = config.extent("vocab_size", variant.vocabulary);
    hidden = config.extent("hidden_size", 2304);
    intermediate = config.extent("intermediate_size", 9216);
    layers = readLayers("num_hidden_layers", 26);
    heads = config.integer("num_attention_heads", 8);
    keyValueHeads = config.integer("num_key_value_heads", 4);
    headDim = config.integer("head_dim", 256);
    if (heads % keyValueHeads != 0)
      config.report("num_attention_heads " + llvm::Twine(heads) + " is not a multiple of num_key_value_heads " +
                    llvm::Twine(keyValueHeads));
    int64_t maximum = config.integer("max_position_embeddings", variant.context);
    context = readContext("max_position_embeddings", maximum, maximum);
    scale = 1.0 / std::sqrt(config.number("query_pre_attn_scalar", 256.0, 1e-6, 1e9));
    epsilon = config.number("rms_norm_eps", 1e-6, 0.0, 1.0);
    activation = readActivation(config, "hidden_activation", "gelu_pytorch_tanh");
    attentionBias = config.flag("attention_bias", false);
    tied = whole.flag("tie_word_embeddings", true);
    wholeNorms = config.flag("whole_norm_weights", false);
    scoreCap = readCap("attn_logit_softcapping", 50.0);
    logitCap = readCap("final_logit_softcapping", 30.0);
    if (variant.queryKeyNorm && scoreCap != 0.0)
      config.refuseIfSet("attn_logit_softcapping", "models of this type have a norm of queries and keys instead");
    readWindow();
    readFrequencies();
    classTable[0] = {variant.causalClass, Head::CausalLanguageModel};
    if (variant.insideOther)
      remarkTexts.push_back("the model of texts is imported; images are not taken (vision_tower and "
                            "multi_modal_projector are left out)");
  }

  llvm::ArrayRef<ModelClass> classes() const override { return classTable; }
  llvm::StringRef anchor() const override { return "embed_tokens.weight"; }
  llvm::SmallVector<llvm::StringRef> prefixes() const override {
    if (variant.insideOther) // names in published files, in transformers, and of the text model alone
      return {"language_model.model", "model.language_model", "model"};
    return {prefix()};
  }

protected:
  Value embed(GraphBuilder &graph) const override {
    Value rows = graph.embedding(graph.input("input_ids"), "embed_tokens", vocabulary, hidden);
    // The factor is rounded to the stored type of the weights, since the models were trained so.
    llvm::APFloat factor(static_cast<float>(std::sqrt(static_cast<double>(hidden.size))));
    bool inexact = false;
    factor.convert(cast<FloatType>(graph.getDataType()).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                   &inexact);
    factor.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    return graph.elementwise("embed_tokens", graph.getBuilder().getF32Type(), {"tokens", hidden.size}, {{rows, {0, 1}}},
                             [&](OpBuilder &inner, Location at, ValueRange x) -> Value {
                               Value by = floatConstant(inner, at, inner.getF32Type(), factor.convertToDouble());
                               return arith::MulFOp::create(inner, at, x[0], by);
                             });
  }

  Value finalNorm(GraphBuilder &graph, Value input) const override {
    return norm(graph, input, "norm", {"outputs", hidden.size}, hidden);
  }

  Value logits(GraphBuilder &graph, Value state, llvm::StringRef base) const override {
    Value scores;
    if (variant.insideOther && !tied && graph.hasWeight("language_model.lm_head.weight")) {
      GraphBuilder::Scope scope(graph, "language_model");
      scores = languageModelHead(graph, state, base, "embed_tokens", tied);
    } else {
      scores = languageModelHead(graph, state, base, "embed_tokens", tied);
    }
    if (logitCap == 0.0)
      return scores;
    return graph.elementwise("lm_head", graph.getBuilder().getF32Type(), {"outputs", vocabulary.size},
                             {{scores, {0, 1}}}, [&](OpBuilder &inner, Location at, ValueRange x) -> Value {
                               Value cap = floatConstant(inner, at, inner.getF32Type(), logitCap);
                               Value share = arith::DivFOp::create(inner, at, x[0], cap);
                               return arith::MulFOp::create(inner, at, math::TanhOp::create(inner, at, share), cap);
                             });
  }

  Value layer(GraphBuilder &graph, Value input, int64_t number) override {
    Shape rows = {"tokens", hidden.size};
    Value normal = norm(graph, input, "input_layernorm", rows, hidden);
    Value attended = norm(graph, attention(graph, normal, number), "post_attention_layernorm", rows, hidden);
    attended = graph.add(input, attended, "self_attn");
    normal = norm(graph, attended, "pre_feedforward_layernorm", rows, hidden);
    Value result = norm(graph, feedForward(graph, normal), "post_feedforward_layernorm", rows, hidden);
    return graph.add(attended, result, "mlp");
  }

private:
  /// Reads a cap; null, or a result of 0, means no cap.
  double readCap(llvm::StringRef setting, double byDefault) const {
    if (!config.has(setting))
      return variant.caps && !config.mentions(setting) ? byDefault : 0.0;
    return config.number(setting, byDefault, 1e-6, 1e9);
  }

  void readWindow() {
    if (config.has("sliding_window") || !config.mentions("sliding_window"))
      window = config.integer("sliding_window", 4096);
    int64_t globalEvery = config.integer("sliding_window_pattern", variant.globalEvery);
    slides = readSlidingLayers(config, [&](int64_t number) { return (number + 1) % globalEvery != 0; });
    if (!window && llvm::is_contained(slides, true))
      config.report("layers attend to a window (layer_types), but sliding_window is null");
  }

  /// Returns true if all of a rope_scaling is in other parameters too.
  static bool isWithin(const Config &scaling, const Config &parameters) {
    return llvm::all_of(*scaling.value().getAsObject(), [&](const auto &entry) {
      llvm::StringRef setting = entry.first;
      const llvm::json::Value *other = parameters.find(setting == "type" ? "rope_type" : setting);
      return !scaling.has(setting) || (other && *other == entry.second);
    });
  }

  void readFrequencies() {
    constexpr RotatedFeatures all = RotatedFeatures::All;
    if (!variant.frequenciesOfLayers) {
      globalFrequencies = localFrequencies = readRotaryFrequencies(config, headDim, variant.theta, context, all);
    } else {
      // Configurations had "rope_scaling", for layers without a window, before transformers 5.
      std::optional<Config> before = config.section("rope_scaling"), global = before, local;
      if (std::optional<Config> both = config.section("rope_parameters")) {
        if (!both->has("full_attention") && !both->has("sliding_attention"))
          config.report("rope_parameters has neither full_attention nor sliding_attention, the kinds of layers that "
                        "models of this type have");
        if (both->has("full_attention"))
          global = both->section("full_attention");
        if (before && global && !isWithin(*before, *global))
          config.refuseIfDifferent("rope_scaling", *both, "full_attention");
        local = both->section("sliding_attention");
      }
      globalFrequencies = makeRotaryFrequencies(config, global, "rope_theta", variant.theta, headDim, context, all);
      localFrequencies = makeRotaryFrequencies(config, local, "rope_local_base_freq", 10000.0, headDim, context, all);
    }
    for (const std::string &remark : {globalFrequencies.remark, localFrequencies.remark})
      if (!remark.empty() && !llvm::is_contained(remarkTexts, remark))
        remarkTexts.push_back(remark);
  }

  /// Builds an RMS norm. The stored weight is the scale minus 1; in GGUF files it is the scale.
  Value norm(GraphBuilder &graph, Value input, llvm::StringRef module, const Shape &shape, Extent features) const {
    if (wholeNorms)
      return graph.rmsNorm(input, module, features, epsilon);
    OpBuilder &builder = graph.getBuilder();
    Location at = graph.location(module);
    Type f32 = builder.getF32Type();
    auto scales = RankedTensorType::get({features.size}, f32);
    Value ones = arith::ConstantOp::create(builder, at, DenseElementsAttr::get(scales, 1.0f));
    Value normal = nn::RmsNormOp::create(builder, at, input.getType(), input, ones, builder.getF32FloatAttr(epsilon));
    Value weight = graph.weight((module + ".weight").str(), {features});
    auto all = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
    return graph.elementwise(module, f32, shape, {{normal, all}, {weight, {all.back()}}},
                             [&](OpBuilder &inner, Location at, ValueRange x) -> Value {
                               Value beyond = x[1];
                               if (beyond.getType() != f32)
                                 beyond = arith::ExtFOp::create(inner, at, f32, beyond);
                               Value one = floatConstant(inner, at, f32, 1.0);
                               return arith::MulFOp::create(inner, at, x[0],
                                                            arith::AddFOp::create(inner, at, one, beyond));
                             });
  }

  Value attention(GraphBuilder &graph, Value input, int64_t number) {
    GraphBuilder::Scope scope(graph, "self_attn");
    auto project = [&](llvm::StringRef name, llvm::StringRef normName, int64_t count) {
      Extent outputs(count * headDim, name == "q_proj" ? "num_attention_heads" : "num_key_value_heads");
      Value rows = graph.linear(input, name, outputs, hidden, attentionBias);
      Value split = graph.expandShape(rows, name, {"tokens", count, headDim}, {{0}, {1, 2}});
      return variant.queryKeyNorm && !normName.empty()
                 ? norm(graph, split, normName, {"tokens", count, headDim}, Extent(headDim, "head_dim"))
                 : split;
    };
    const RotaryFrequencies &rotary = slides[number] ? localFrequencies : globalFrequencies;
    Value query = rotate(graph, project("q_proj", "q_norm", heads), rotary);
    Value key = rotate(graph, project("k_proj", "k_norm", keyValueHeads), rotary);
    Value value = project("v_proj", "", keyValueHeads);
    Value seen = cachedAttention(graph, query, key, value, number, slides[number] ? window : 0, scoreCap);
    return graph.linear(graph.collapseShape(seen, "", {{0}, {1, 2}}), "o_proj", hidden,
                        Extent(heads * headDim, "num_attention_heads"), attentionBias);
  }

  Value feedForward(GraphBuilder &graph, Value input) const {
    GraphBuilder::Scope scope(graph, "mlp");
    Value gate = graph.linear(input, "gate_proj", intermediate, hidden, /*bias=*/false);
    Value up = graph.linear(input, "up_proj", intermediate, hidden, /*bias=*/false);
    Value gated = graph.multiply(graph.activation(gate, "act_fn", activation), up, "act_fn");
    return graph.linear(gated, "down_proj", hidden, intermediate, /*bias=*/false);
  }

  Variant variant;
  ModelClass classTable[1] = {{"", Head::CausalLanguageModel}};
  RotaryFrequencies globalFrequencies, localFrequencies;
  std::vector<bool> slides; // the layers that attend to the window
  int64_t window = 0;
  double epsilon = 1e-6, scoreCap = 0.0, logitCap = 0.0;
  Activation activation = Activation::GeluTanh;
  bool attentionBias = false, tied = true, wholeNorms = false;
};

constexpr Variant gemma3 = {.causalClass = "Gemma3ForCausalLM",
                            .vocabulary = 262208,
                            .context = 131072,
                            .globalEvery = 6,
                            .queryKeyNorm = true,
                            .caps = false,
                            .frequenciesOfLayers = true,
                            .theta = 1e6};

} // namespace

std::unique_ptr<Architecture> makeGemma2(const Config &config, const ImportOptions &options) {
  return std::make_unique<Gemma>(config, config, options,
                                 Variant{.causalClass = "Gemma2ForCausalLM",
                                         .vocabulary = 256000,
                                         .context = 8192,
                                         .globalEvery = 2,
                                         .queryKeyNorm = false,
                                         .caps = true,
                                         .frequenciesOfLayers = false,
                                         .theta = 1e4});
}

std::unique_ptr<Architecture> makeGemma3Text(const Config &config, const ImportOptions &options) {
  return std::make_unique<Gemma>(config, config, options, gemma3);
}

std::unique_ptr<Architecture> makeGemma3(const Config &config, const ImportOptions &options) {
  Variant variant = gemma3;
  variant.causalClass = "Gemma3ForConditionalGeneration";
  variant.insideOther = true;
  std::optional<Config> text = config.section("text_config");
  if (!text)
    config.report("has no text_config, the settings of the model of texts");
  return std::make_unique<Gemma>(text ? *text : config, config, options, variant);
}

} // namespace intarsia::importer
