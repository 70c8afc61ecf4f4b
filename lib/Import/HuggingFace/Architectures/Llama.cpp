//===- Llama.cpp - Llama and the models that are built like it ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Architectures/Architectures.h"
#include "lib/Import/HuggingFace/Architectures/Decoder.h"
#include "lib/Import/HuggingFace/Architectures/MixtureOfExperts.h"

#include <cmath>

using namespace mlir;

namespace intarsia::importer {
namespace {

/// The differences between models of this family.
struct Variant {
  llvm::StringRef causalClass;
  bool queryKeyValueBias = false; // Qwen2, whatever attention_bias says
  bool queryKeyNorm = false;      // Qwen3: an RMS norm of each head of query and key
  bool slidingWindow = false;     // Mistral, Phi-3: attention sees the last sliding_window tokens, if that is set
  bool slidingLayers = false;     // Qwen2, Qwen3: the same in some layers, with use_sliding_window
  bool concatenated = false;      // Phi-3: query, key and value are one matrix, gate and up another
  bool subNorms = false;          // BitNet: RMS norms before the last linears of attention and feed-forward
  std::optional<ExpertStorage> experts = std::nullopt; // Mixtral, Qwen3-MoE, gpt-oss
  bool sinks = false;                                  // gpt-oss; every other layer of it attends to a window
  int64_t windowByDefault = 0;
  double theta = 10000.0, epsilon = 1e-6;
  RotatedFeatures rotated = RotatedFeatures::All;
  llvm::StringRef activation = "silu";
};

/// Embedding, layers of RMS norm, rotary attention, RMS norm and gated feed-forward, each with a residual (arXiv
/// 2302.13971, section 2).
class Llama : public Decoder {
public:
  Llama(const Config &config, const ImportOptions &options, const Variant &variant)
      : Decoder(config, options), variant(variant) {
    refuseCommonSettings(config, variant.experts == ExpertStorage::GptOss ? QuantizedWeights::Mxfp4Experts
                                                                          : QuantizedWeights::Checkpoints);
    vocabulary = config.extent("vocab_size", 32000);
    hidden = config.extent("hidden_size", 4096);
    intermediate = config.extent("intermediate_size", 11008);
    layers = readLayers("num_hidden_layers", 32);
    heads = config.integer("num_attention_heads", 32);
    keyValueHeads = config.integer("num_key_value_heads", heads);
    if (!config.has("head_dim") && hidden.size % heads != 0)
      config.report("hidden_size " + llvm::Twine(hidden.size) + " is not a multiple of num_attention_heads " +
                    llvm::Twine(heads));
    headDim = config.integer("head_dim", std::max<int64_t>(hidden.size / heads, 1));
    if (heads % keyValueHeads != 0)
      config.report("num_attention_heads " + llvm::Twine(heads) + " is not a multiple of num_key_value_heads " +
                    llvm::Twine(keyValueHeads));
    readPositions();
    scale = 1.0 / std::sqrt(static_cast<double>(headDim));
    epsilon = config.number("rms_norm_eps", variant.epsilon, 0.0, 1.0);
    activation = readActivation(config, "hidden_act", variant.activation);
    attentionBias = config.flag("attention_bias", variant.sinks);
    feedForwardBias = config.flag("mlp_bias", false);
    tied = config.flag("tie_word_embeddings", false);
    readWindow();
    if (variant.experts)
      experts.emplace(config, *variant.experts, hidden);
    classTable[0] = {variant.causalClass, Head::CausalLanguageModel};
  }

  llvm::ArrayRef<ModelClass> classes() const override { return classTable; }
  llvm::StringRef anchor() const override { return "embed_tokens.weight"; }

protected:
  Value embed(GraphBuilder &graph) const override {
    return graph.embedding(graph.input("input_ids"), "embed_tokens", vocabulary, hidden);
  }

  Value finalNorm(GraphBuilder &graph, Value input) const override {
    return graph.rmsNorm(input, "norm", hidden, epsilon);
  }

  Value logits(GraphBuilder &graph, Value state, llvm::StringRef base) const override {
    return languageModelHead(graph, state, base, "embed_tokens", tied);
  }

  Value layer(GraphBuilder &graph, Value input, int64_t number) override {
    Value attended = graph.add(input, attention(graph, input, number), "self_attn");
    Value normal = graph.rmsNorm(attended, "post_attention_layernorm", hidden, epsilon);
    if (experts && experts->isIn(number))
      return graph.add(attended, experts->build(graph, normal), "");
    GraphBuilder::Scope scope(graph, "mlp");
    Value gate, up;
    if (variant.concatenated) {
      Extent both(2 * intermediate.size, intermediate.setting);
      Value rows = graph.linear(normal, "gate_up_proj", both, hidden, feedForwardBias);
      gate = graph.features(rows, "gate_up_proj", "tokens", 0, intermediate.size);
      up = graph.features(rows, "gate_up_proj", "tokens", intermediate.size, intermediate.size);
    } else {
      gate = graph.linear(normal, "gate_proj", intermediate, hidden, feedForwardBias);
      up = graph.linear(normal, "up_proj", intermediate, hidden, feedForwardBias);
    }
    Value gated = graph.multiply(graph.activation(gate, "act_fn", activation), up, "act_fn");
    if (variant.subNorms)
      gated = graph.rmsNorm(gated, "ffn_sub_norm", intermediate, epsilon);
    return graph.add(attended, graph.linear(gated, "down_proj", hidden, intermediate, feedForwardBias), "");
  }

private:
  void readPositions() {
    int64_t maximum = config.integer("max_position_embeddings", 2048);
    int64_t first = exactContext(config, maximum);
    context = readContext("max_position_embeddings", maximum, first);
    std::optional<Config> parameters;
    if (variant.sinks) // the default of GptOssConfig
      parameters = Config::of(
          llvm::json::Object{
              {"rope_type", "yarn"}, {"factor", 32.0}, {"original_max_position_embeddings", 4096}, {"truncate", false}},
          config.name(), config.sink());
    rotary = readRotaryFrequencies(config, headDim, variant.theta, context, variant.rotated, parameters);
    if (!rotary.remark.empty())
      remarkTexts.push_back(rotary.remark);
    std::string limit = std::to_string(first) + " tokens (original_max_position_embeddings)";
    if (first < maximum && !contextAsked)
      remarkTexts.push_back("longrope: compiled for texts of up to " + limit + ", with short_factor; --context=" +
                            std::to_string(maximum) + " compiles for longer ones, with long_factor");
    else if (context > first)
      remarkTexts.push_back("longrope: compiled with long_factor, which is for texts of more than " + limit +
                            "; compile without --context for shorter ones");
  }

  void readWindow() {
    // A null setting means no window, an absent one the default of the configuration class.
    if (variant.slidingWindow)
      window = config.has("sliding_window")        ? config.integer("sliding_window", 4096)
               : config.mentions("sliding_window") ? 0
                                                   : variant.windowByDefault;
    else if ((variant.slidingLayers || variant.experts == ExpertStorage::Qwen3Moe) &&
             config.flag("use_sliding_window", false))
      window = config.integer("sliding_window", 4096);
    else if (!variant.slidingLayers)
      config.refuseIfSet("use_sliding_window", "models of this type have no layers with a window");
    if (variant.sinks)
      slides = readSlidingLayers(config, [](int64_t number) { return number % 2 == 0; });
    if (!variant.slidingLayers)
      return;
    int64_t firstSliding = config.integer("max_window_layers", 28, 0);
    slides = readSlidingLayers(config, [&](int64_t number) { return window && number >= firstSliding; });
    if (!window && llvm::is_contained(slides, true))
      config.report("layer_types has 'sliding_attention', but use_sliding_window is not true");
  }

  Value attention(GraphBuilder &graph, Value input, int64_t number) {
    Value normal = graph.rmsNorm(input, "input_layernorm", hidden, epsilon);
    GraphBuilder::Scope scope(graph, "self_attn");
    bool bias = attentionBias || variant.queryKeyValueBias;
    Value all;
    int64_t offset = 0; // of the next part
    if (variant.concatenated)
      all = graph.linear(normal, "qkv_proj", Extent((heads + 2 * keyValueHeads) * headDim, "num_attention_heads"),
                         hidden, bias);
    auto project = [&](llvm::StringRef name, llvm::StringRef norm, int64_t count) {
      Extent outputs(count * headDim, name == "q_proj" ? "num_attention_heads" : "num_key_value_heads");
      Value rows = all ? graph.features(all, name, "tokens", offset, outputs.size)
                       : graph.linear(normal, name, outputs, hidden, bias);
      offset += outputs.size;
      Value split = graph.expandShape(rows, name, {"tokens", count, headDim}, {{0}, {1, 2}});
      return variant.queryKeyNorm && !norm.empty() ? graph.rmsNorm(split, norm, Extent(headDim, "head_dim"), epsilon)
                                                   : split;
    };
    Value query = rotate(graph, project("q_proj", "q_norm", heads), rotary);
    Value key = rotate(graph, project("k_proj", "k_norm", keyValueHeads), rotary);
    Value value = project("v_proj", "", keyValueHeads);
    Value sinks;
    if (variant.sinks) // GGUF files name them with ".weight"
      sinks = graph.weight(graph.spelling({"sinks", "sinks.weight"}), {Extent(heads, "num_attention_heads")});
    bool seesAll = !slides.empty() && !slides[number];
    Value context = cachedAttention(graph, query, key, value, number, seesAll ? 0 : window, /*softCap=*/0.0, sinks);
    Value attended = graph.collapseShape(context, "", {{0}, {1, 2}});
    if (variant.subNorms)
      attended = graph.rmsNorm(attended, "attn_sub_norm", hidden, epsilon);
    return graph.linear(attended, "o_proj", hidden, Extent(heads * headDim, "num_attention_heads"), attentionBias);
  }

  Variant variant;
  ModelClass classTable[1] = {{"", Head::CausalLanguageModel}};
  RotaryFrequencies rotary;
  double epsilon = 1e-6;
  Activation activation = Activation::Silu;
  bool attentionBias = false, feedForwardBias = false, tied = false;
  int64_t window = 0;
  std::vector<bool> slides; // true for layers with the window, if not all have it
  std::optional<MixtureOfExperts> experts;
};

} // namespace

std::unique_ptr<Architecture> makeLlama(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(config, options, Variant{.causalClass = "LlamaForCausalLM"});
}
std::unique_ptr<Architecture> makeBitNet(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(config, options,
                                 Variant{.causalClass = "BitNetForCausalLM",
                                         .subNorms = true,
                                         .theta = 500000.0,
                                         .epsilon = 1e-5,
                                         .activation = "relu2"});
}
std::unique_ptr<Architecture> makeGptOss(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(config, options,
                                 Variant{.causalClass = "GptOssForCausalLM",
                                         .slidingWindow = true,
                                         .experts = ExpertStorage::GptOss,
                                         .sinks = true,
                                         .windowByDefault = 128,
                                         .theta = 150000.0,
                                         .epsilon = 1e-5});
}
std::unique_ptr<Architecture> makeMistral(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(
      config, options, Variant{.causalClass = "MistralForCausalLM", .slidingWindow = true, .windowByDefault = 4096});
}
std::unique_ptr<Architecture> makeMixtral(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(config, options,
                                 Variant{.causalClass = "MixtralForCausalLM",
                                         .slidingWindow = true,
                                         .experts = ExpertStorage::Mixtral,
                                         .theta = 1e6,
                                         .epsilon = 1e-5});
}
std::unique_ptr<Architecture> makePhi3(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(config, options,
                                 Variant{.causalClass = "Phi3ForCausalLM",
                                         .slidingWindow = true,
                                         .concatenated = true,
                                         .epsilon = 1e-5,
                                         .rotated = RotatedFeatures::PartialRotaryFactor});
}
std::unique_ptr<Architecture> makeQwen2(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(
      config, options, Variant{.causalClass = "Qwen2ForCausalLM", .queryKeyValueBias = true, .slidingLayers = true});
}
std::unique_ptr<Architecture> makeQwen3(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(
      config, options, Variant{.causalClass = "Qwen3ForCausalLM", .queryKeyNorm = true, .slidingLayers = true});
}
std::unique_ptr<Architecture> makeQwen3Moe(const Config &config, const ImportOptions &options) {
  return std::make_unique<Llama>(
      config, options,
      Variant{.causalClass = "Qwen3MoeForCausalLM", .queryKeyNorm = true, .experts = ExpertStorage::Qwen3Moe});
}

} // namespace intarsia::importer
