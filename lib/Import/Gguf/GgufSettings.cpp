//===- GgufSettings.cpp - The metadata of a GGUF file as settings of a Hugging Face model -------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys: class Keys of the `gguf` package. Their meaning: llama.cpp's convert_hf_to_gguf.py, which writes them.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Gguf/GgufSettings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include <array>
#include <cmath>

namespace intarsia::importer {
namespace {

/// A setting by both names; the key is without the architecture's prefix.
struct SettingNames {
  llvm::StringRef key, setting;
  llvm::StringRef only = ""; // the only architecture with this name; such rows come before rows for all
};
constexpr SettingNames settingNames[] = {
    {"embedding_length", "n_embd", "gpt2"},
    {"feed_forward_length", "n_inner", "gpt2"},
    {"block_count", "n_layer", "gpt2"},
    {"attention.head_count", "n_head", "gpt2"},
    {"context_length", "n_positions", "gpt2"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", "gpt2"},
    {"expert_count", "num_local_experts", "gpt-oss"},
    {"expert_count", "num_local_experts", "llama"},
    {"expert_count", "num_experts", "qwen3moe"},
    {"expert_used_count", "num_experts_per_tok", "gpt-oss"},
    {"expert_used_count", "num_experts_per_tok", "llama"},
    {"expert_used_count", "num_experts_per_tok", "qwen3moe"},
    {"expert_feed_forward_length", "intermediate_size", "gpt-oss"},
    {"expert_feed_forward_length", "moe_intermediate_size", "qwen3moe"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"block_count", "num_hidden_layers"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.sliding_window_pattern", "sliding_window_pattern", "gemma3"},
    {"attn_logit_softcapping", "attn_logit_softcapping", "gemma2"},
    {"final_logit_softcapping", "final_logit_softcapping", "gemma2"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_local_base_freq", "gemma3"},
    {"rope.scaling.factor", "factor"},
    {"rope.scaling.original_context_length", "original_max_position_embeddings"},
    {"rope.scaling.yarn_beta_fast", "beta_fast"},
    {"rope.scaling.yarn_beta_slow", "beta_slow"},
    {"rope.dimension_count", "rope_dimensions"},
    {"vocab_size", "vocab_size"},
};

/// Returns the row with one of the names; null if the architecture has none.
const SettingNames *findSetting(llvm::StringRef SettingNames::*by, llvm::StringRef name,
                                const GgufArchitecture &architecture) {
  for (const SettingNames &row : settingNames)
    if (row.*by == name && (row.only.empty() || row.only == architecture.name))
      return &row;
  return nullptr;
}

/// A key that changes results and is refused if the architecture has no setting for it. Zero and false mean "no", and
/// so does one in factors.
struct RefusedKey {
  llvm::StringLiteral key;
  bool isFactor = false;
};
constexpr RefusedKey refusedKeys[] = {{"expert_count"},
                                      {"expert_feed_forward_length"},
                                      {"expert_shared_count"},
                                      {"expert_shared_feed_forward_length"},
                                      {"expert_group_count"},
                                      {"expert_weights_scale", true},
                                      {"leading_dense_block_count"},
                                      {"swiglu_clamp_exp"},
                                      {"logit_scale", true},
                                      {"residual_scale", true},
                                      {"embedding_scale", true},
                                      {"use_parallel_residual"},
                                      {"attn_logit_softcapping"},
                                      {"final_logit_softcapping"},
                                      {"router_logit_softcapping"},
                                      {"attention.scale"},
                                      {"attention.output_scale"},
                                      {"attention.clamp_kqv"},
                                      {"attention.max_alibi_bias"},
                                      {"attention.shared_kv_layers"},
                                      {"attention.sliding_window_pattern"},
                                      {"attention.temperature_scale"},
                                      {"attention.temperature_length"},
                                      {"attention.key_length_swa"},
                                      {"attention.value_length_swa"},
                                      {"rope.dimension_sections"},
                                      {"rope.dimension_count_swa"},
                                      {"rope.freq_base_swa"},
                                      {"rope.scaling.alpha"},
                                      {"rope.scaling.yarn_log_multiplier"}};

class SettingsReader {
public:
  SettingsReader(const GgufArchive &archive, const GgufArchitecture &architecture, Errors &errors)
      : archive(archive), architecture(architecture), errors(errors) {}

  llvm::json::Object read();

private:
  std::string fullName(llvm::StringRef key) const { return (architecture.name + "." + key).str(); }
  const gguf::Value *find(llvm::StringRef key) const { return archive.first().metadata(fullName(key)); }
  void report(llvm::StringRef key, const llvm::Twine &what) {
    errors.report(archive.name() + ": key '" + fullName(key) + "' " + what);
  }
  std::optional<int64_t> integer(llvm::StringRef key, bool isNeeded = false);
  std::optional<double> number(llvm::StringRef key);
  void refuse();
  void readHeads();
  void readBiases();
  void readExperts();
  void readWindow();
  void readGemma();
  void readRope();
  void readLongRope();
  void checkYarn();
  /// Stores a value under the builder's name of the key.
  void set(llvm::StringRef key, llvm::json::Value value) {
    settings[findSetting(&SettingNames::key, key, architecture)->setting] = std::move(value);
  }
  std::optional<llvm::json::Array> readFactors(llvm::StringRef tensor, double scale);
  bool hasTensor(llvm::StringRef name) const { return archive.findStored(name) != nullptr; }

  const GgufArchive &archive;
  const GgufArchitecture &architecture;
  Errors &errors;
  llvm::json::Object settings;
  int64_t headDim = 0;
};

/// Reads one integer. If the key has one for each layer, all must be equal.
std::optional<int64_t> SettingsReader::integer(llvm::StringRef key, bool isNeeded) {
  const gguf::Value *value = find(key);
  if (!value) {
    if (isNeeded)
      report(key, "is missing; was the file made by an older converter? convert the model again");
    return std::nullopt;
  }
  std::optional<std::vector<int64_t>> all = value->integers();
  if (!all || all->empty())
    report(key, "is no integer");
  else if (!llvm::all_equal(*all))
    report(key, "differs between layers, which is not supported");
  else
    return all->front();
  return std::nullopt;
}

std::optional<double> SettingsReader::number(llvm::StringRef key) {
  const gguf::Value *value = find(key);
  if (!value)
    return std::nullopt;
  std::optional<double> number = value->number();
  if (number && std::isfinite(*number))
    return number;
  report(key, "is not a number");
  return std::nullopt;
}

void SettingsReader::refuse() {
  for (const auto &[key, isFactor] : refusedKeys)
    if (const gguf::Value *value = find(key); value && !findSetting(&SettingNames::key, key, architecture)) {
      double number = value->isArray ? NAN : value->number().value_or(value->boolean().value_or(true));
      if (number != 0 && !(isFactor && number == 1))
        report(key, "is not supported for models of architecture " + architecture.name);
    }
  if (const gguf::Value *causal = find("attention.causal"); causal && !causal->boolean().value_or(false))
    report("attention.causal", "is false: only language models that continue a text are imported");
}

void SettingsReader::readHeads() {
  std::optional<int64_t> heads = integer("attention.head_count", /*isNeeded=*/true);
  std::optional<int64_t> width = integer("embedding_length", /*isNeeded=*/true);
  if (!heads || !width || *heads <= 0)
    return errors.report(archive.name() + ": key '" + fullName("attention.head_count") + "' is not positive");
  headDim = *width / *heads;
  if (std::optional<int64_t> keyLength = integer("attention.key_length")) {
    headDim = *keyLength;
    settings["head_dim"] = headDim;
  }
  std::optional<int64_t> valueLength = integer("attention.value_length");
  if (valueLength && *valueLength != headDim)
    report("attention.value_length", "is " + llvm::Twine(*valueLength) + ", heads of keys have " +
                                         llvm::Twine(headDim) +
                                         " features: keys and values of different sizes are not supported");
}

/// Derives from the tensors whether there are biases and whether the embeddings are tied: no key says it.
void SettingsReader::readBiases() {
  bool always = architecture.modelType == "qwen2"; // has biases for query, key and value, but not for the output
  settings["attention_bias"] = hasTensor("blk.0.attn_output.bias") || (!always && hasTensor("blk.0.attn_q.bias"));
  settings["mlp_bias"] = hasTensor("blk.0.ffn_up.bias");
  settings["tie_word_embeddings"] = !hasTensor("output.weight");
  const gguf::Tensor *table = archive.findStored("token_embd.weight");
  if (!table || table->shape.size() != 2)
    return errors.report(archive.name() +
                         ": has no matrix 'token_embd.weight': is it a part of a model, or an adapter?");
  settings["vocab_size"] = integer("vocab_size").value_or(table->shape.front());
}

/// Reads the settings of experts. Without a key the weights are a softmax over the logits of the chosen experts, as in
/// the three architectures whose files do not say it.
void SettingsReader::readExperts() {
  if (!findSetting(&SettingNames::key, "expert_count", architecture))
    return; // refusedKeys refuses models with experts
  bool mayBeDense = architecture.name == "llama";
  int64_t count = integer("expert_count", /*isNeeded=*/!mayBeDense).value_or(0);
  if (count == 0 && mayBeDense)
    return;
  set("expert_count", count);
  if (std::optional<int64_t> used = integer("expert_used_count", /*isNeeded=*/true))
    set("expert_used_count", *used);
  constexpr llvm::StringLiteral width = "expert_feed_forward_length";
  if (findSetting(&SettingNames::key, width, architecture))
    if (std::optional<int64_t> value = integer(width, /*isNeeded=*/true))
      set(width, *value);
  settings["norm_topk_prob"] = true;
  constexpr int64_t softmax = 1, softmaxOfChosen = 3; // ExpertGatingFuncType in the `gguf` package
  if (std::optional<int64_t> function = integer("expert_gating_func");
      function && *function != softmax && *function != softmaxOfChosen)
    report("expert_gating_func", "is " + llvm::Twine(*function) + ": only a softmax (1, 3) is supported");
  if (const gguf::Value *norm = find("expert_weights_norm"); norm && !norm->boolean().value_or(false))
    report("expert_weights_norm", "is false: only experts whose weights add up to one are supported");
}

/// Reads the divisor of each frequency, times `scale`; returns nullopt if there is no such tensor.
std::optional<llvm::json::Array> SettingsReader::readFactors(llvm::StringRef name, double scale) {
  const gguf::Tensor *tensor = archive.findStored(name);
  if (!tensor)
    return std::nullopt;
  llvm::json::Array factors;
  if (tensor->type->name != "F32" || tensor->shape.size() != 1) {
    errors.report(archive.name() + ": tensor '" + name + "' is no list of F32");
    return factors;
  }
  const auto *data = static_cast<const char *>(tensor->raw.data);
  for (int64_t i = 0; i < tensor->shape[0] && i < 1 << 16; ++i)
    factors.push_back(double(llvm::bit_cast<float>(llvm::support::endian::read32le(data + 4 * i))) * scale);
  for (const llvm::json::Value &factor : factors)
    if (!std::isfinite(*factor.getAsNumber()) || *factor.getAsNumber() <= 0) {
      errors.report(archive.name() + ": tensor '" + name + "' has an element that is not a positive number");
      break;
    }
  return factors;
}

/// Reads Phi-3's factors for short and for long texts.
void SettingsReader::readLongRope() {
  llvm::json::Object scaling;
  scaling["rope_type"] = "longrope";
  for (const auto &[tensor, setting] :
       {std::pair<llvm::StringRef, llvm::StringRef>{"rope_factors_short", "short_factor"},
        {"rope_factors_long", "long_factor"}}) {
    std::optional<llvm::json::Array> factors = readFactors((tensor + ".weight").str(), 1.0);
    if (!factors)
      return errors.report(archive.name() + ": has no tensor '" + tensor + ".weight', but the one beside it");
    scaling[setting] = std::move(*factors);
  }
  if (std::optional<int64_t> original = integer("rope.scaling.original_context_length", /*isNeeded=*/true))
    scaling["original_max_position_embeddings"] = *original;
  scaling["attention_factor"] = number("rope.scaling.attn_factor").value_or(1.0);
  settings["rope_scaling"] = std::move(scaling);
}

/// Refuses other values than the usual ones of keys that llama.cpp reads for Grok alone: for the architectures here it
/// computes with the usual ones, whatever the file says.
void SettingsReader::checkYarn() {
  const gguf::Value *type = find("rope.scaling.type");
  bool isYarn = type && type->string() == "yarn";
  auto check = [&](llvm::StringRef key, double usual, llvm::StringRef why) {
    std::optional<double> value = number(key);
    if (value && *value != usual)
      report(key, llvm::formatv("is {0:f3}; {1} is supported{2}", *value, int(usual), why).str());
  };
  constexpr llvm::StringLiteral extrapolation = "rope.scaling.yarn_ext_factor";
  if (std::optional<double> factor = number(extrapolation); factor && *factor >= 0) // a negative one is unset
    check(extrapolation, isYarn, isYarn ? " with YaRN" : " without YaRN");
  check("rope.scaling.yarn_attn_factor", 1, "; rope.scaling.attn_factor is what scales the rotated values");
}

void SettingsReader::readRope() {
  settings["rope_interleaved"] = architecture.interleavedRope;
  settings["rope_theta"] = number("rope.freq_base").value_or(10000.0);
  if (std::optional<int64_t> dimensions = integer("rope.dimension_count"); dimensions && *dimensions != headDim) {
    settings["rope_dimensions"] = *dimensions;
    if (*dimensions <= 0 || *dimensions > headDim)
      report("rope.dimension_count",
             "is " + llvm::Twine(*dimensions) + ", heads have " + llvm::Twine(headDim) + " features");
  }
  checkYarn();
  if (hasTensor("rope_factors_long.weight") || hasTensor("rope_factors_short.weight"))
    return readLongRope();
  // Without a type a factor is linear: llama-model.cpp, where rope_scaling begins as "linear".
  double factor = number("rope.scaling.factor").value_or(number("rope.scale_linear").value_or(0.0));
  const gguf::Value *value = find("rope.scaling.type");
  std::string kind = value ? std::string(value->string().value_or("?")) : factor != 0 ? "linear" : "none";
  if (kind != "none" && kind != "linear" && kind != "yarn")
    return report("rope.scaling.type", "'" + kind + "' is not supported; supported: none, linear, yarn");
  bool isLinear = kind == "linear" && factor != 0;
  std::optional<llvm::json::Array> factors = readFactors("rope_freqs.weight", isLinear ? factor : 1.0);
  double attention = number("rope.scaling.attn_factor").value_or(1.0);
  if (factors && kind == "yarn")
    return report("rope.scaling.type",
                  "is yarn, and tensor 'rope_freqs.weight' gives factors too: that is not supported");
  if (kind != "yarn" && attention != 1.0)
    return report("rope.scaling.attn_factor", "is supported with rope.scaling.type 'yarn' only");
  llvm::json::Object scaling;
  if (factors) {
    scaling["rope_type"] = "factors";
    scaling["factors"] = std::move(*factors);
  } else if (isLinear) {
    scaling["rope_type"] = "linear";
    scaling["factor"] = factor;
  } else if (kind == "yarn") {
    scaling["rope_type"] = "yarn";
    scaling["factor"] = factor;
    if (std::optional<int64_t> original = integer("rope.scaling.original_context_length"))
      scaling["original_max_position_embeddings"] = *original;
    else
      scaling["original_max_position_embeddings"] = integer("context_length").value_or(1);
    for (const auto &[key, setting] :
         {std::pair<llvm::StringRef, llvm::StringRef>{"yarn_beta_fast", "beta_fast"}, {"yarn_beta_slow", "beta_slow"}})
      if (std::optional<double> turns = number(("rope.scaling." + key).str()))
        scaling[setting] = *turns;
    if (attention != 1.0 && factor >= 1)
      scaling["attention_factor"] = attention * (1.0 + 0.1 * std::log(factor));
    if (architecture.name == "gpt-oss") // its blend of frequencies begins and ends at fractional indices
      scaling["truncate"] = false;
  }
  if (scaling.empty()) // not what the configuration class would choose
    scaling["rope_type"] = "default";
  settings["rope_scaling"] = std::move(scaling);
}

/// Reads the window and the layers that have it.
void SettingsReader::readWindow() {
  std::optional<int64_t> window = integer("attention.sliding_window");
  // Without the key there is no window, whatever the configuration class's default is.
  settings["sliding_window"] = window && *window ? llvm::json::Value(*window) : llvm::json::Value(nullptr);
  if (architecture.modelType.starts_with("qwen") && settings.getInteger("sliding_window"))
    report("attention.sliding_window", "is not supported for models of architecture " + architecture.name);
  constexpr llvm::StringLiteral key = "attention.sliding_window_pattern";
  const gguf::Value *value = findSetting(&SettingNames::key, key, architecture) ? find(key) : nullptr;
  if (!value)
    return;
  if (std::optional<int64_t> period = value->integer()) {
    settings["sliding_window_pattern"] = *period;
    return;
  }
  std::optional<std::vector<bool>> layers = value->booleans();
  if (!layers)
    return report(key, "is neither a number of layers nor a flag for each");
  llvm::json::Array types;
  for (bool slides : *layers)
    types.push_back(slides ? "sliding_attention" : "full_attention");
  settings["layer_types"] = std::move(types);
}

/// Sets what files of Gemma do not say, as in llama-model.cpp.
void SettingsReader::readGemma() {
  settings["whole_norm_weights"] = true;      // converters add the 1
  constexpr int64_t layersOf27B[] = {46, 62}; // Gemma 2 and 3: the sizes whose attention scale is not that of a head
  std::optional<int64_t> width = integer("embedding_length"), heads = integer("attention.head_count");
  bool isLarge = llvm::is_contained(layersOf27B, integer("block_count").value_or(0));
  settings["query_pre_attn_scalar"] = isLarge && heads && *heads > 0 ? width.value_or(0) / *heads : headDim;
  settings["rope_local_base_freq"] = number("rope.freq_base_swa").value_or(10000.0);
  for (llvm::StringRef key : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (std::optional<double> cap = number(key); cap && findSetting(&SettingNames::key, key, architecture))
      settings[key] = *cap != 0 ? llvm::json::Value(*cap) : llvm::json::Value(nullptr);
}

llvm::json::Object SettingsReader::read() {
  refuse();
  readHeads();
  for (llvm::StringRef key :
       {"embedding_length", "feed_forward_length", "block_count", "attention.head_count", "context_length"})
    if (std::optional<int64_t> value = integer(key, /*isNeeded=*/true))
      set(key, *value);
  if (std::optional<int64_t> heads = integer("attention.head_count_kv"))
    set("attention.head_count_kv", *heads);
  bool isRms = architecture.name != "gpt2";
  llvm::StringRef epsilonKey = isRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  if (std::optional<double> epsilon = number(epsilonKey))
    set(epsilonKey, *epsilon);
  else
    report(epsilonKey, "is missing; was the file made by an older converter? convert the model again");
  readWindow();
  if (architecture.name.starts_with("gemma"))
    readGemma();
  readBiases();
  readExperts();
  if (architecture.name == "gpt2")
    settings["linear_weights"] = true;
  else
    readRope();
  return std::move(settings);
}

} // namespace

llvm::json::Object readGgufSettings(const GgufArchive &archive, const GgufArchitecture &architecture, Errors &errors) {
  return SettingsReader(archive, architecture, errors).read();
}

std::string inTermsOfGguf(llvm::StringRef message, const GgufArchitecture &architecture) {
  auto isPartOfWord = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; };
  std::string result;
  while (!message.empty()) {
    llvm::StringRef word = message.take_while(isPartOfWord);
    message = message.drop_front(word.size());
    const SettingNames *names = findSetting(&SettingNames::setting, word, architecture);
    std::string tensor = storedNameOf(word, architecture);
    if (word == "config.json")
      result += "the metadata";
    else if (names)
      result += (architecture.name + "." + names->key).str();
    else
      result += tensor.empty() ? word.str() : tensor;
    llvm::StringRef between = message.take_until(isPartOfWord);
    result += between;
    message = message.drop_front(between.size());
  }
  return result;
}

namespace {

/// Spellings of tokens that end an answer, whatever the keys say: special_eog_ids in llama-vocab.cpp of llama.cpp.
/// Files often name the end of a text alone, while answers end with that of a turn.
constexpr llvm::StringLiteral spellingsOfEnds[] = {"<|eot_id|>",
                                                   "<|im_end|>",
                                                   "<|end|>",
                                                   "<|return|>",
                                                   "<|call|>",
                                                   "<|flush|>",
                                                   "<|calls|>",
                                                   "<end_of_turn>",
                                                   "<|endoftext|>",
                                                   "</s>",
                                                   "<|eom_id|>",
                                                   "<EOT>",
                                                   "_<EOT>",
                                                   "[EOT]",
                                                   "[EOS]",
                                                   "<|end_of_text|>",
                                                   "<end_of_utterance>",
                                                   "<eos>",
                                                   "<turn|>",
                                                   "<|tool_response>",
                                                   "<｜end▁of▁sentence｜>",
                                                   "[e~["};

/// Tokens of code completion that end an answer, by key; by their spellings where a file lacks the key.
struct CompletionToken {
  llvm::StringLiteral key;
  std::array<llvm::StringLiteral, 5> spellings;
};
constexpr CompletionToken completionTokens[] = {
    {"fim_pad", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"fim_rep", {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"fim_sep", {"<|file_sep|>", "", "", "", ""}}};

/// Returns the spelling of each token. llama.cpp does not ask what type an end has: some files say that it is a word.
std::vector<llvm::StringRef> readSpellings(const gguf::File &file) {
  std::vector<llvm::StringRef> tokens;
  const gguf::Value *texts = file.metadata("tokenizer.ggml.tokens");
  if (texts && texts->isArray)
    texts->forEach([&](const gguf::Value &text) { tokens.push_back(text.string().value_or("")); });
  return tokens;
}

/// Removes ends that are none in the models that have certain others, as llama.cpp does: "<|end|>" ends only a part of
/// an answer in the format of gpt-oss, "</s>" is a tag in Gemma's vocabulary.
void removeFalseEnds(llvm::SmallVector<int64_t> &ends, llvm::ArrayRef<llvm::StringRef> tokens) {
  auto spelling = [&](int64_t end) { return uint64_t(end) < tokens.size() ? tokens[end] : ""; };
  auto has = [&](llvm::StringRef text) { return llvm::is_contained(llvm::map_range(ends, spelling), text); };
  bool hasCalls = has("<|call|>") || has("<|calls|>");
  bool isHarmony = hasCalls && (has("<|return|>") || has("<|flush|>"));
  bool hasTags = has("<|tool_response>") || has("<|plamo:eos|>");
  llvm::erase_if(ends, [&](int64_t end) {
    return (isHarmony && spelling(end) == "<|end|>") || (hasTags && spelling(end) == "</s>");
  });
}

} // namespace

GgufTokens readGgufTokens(const GgufArchive &archive, Errors &errors) {
  GgufTokens tokens;
  auto read = [&](llvm::StringRef name) -> std::optional<int64_t> {
    std::string key = ("tokenizer.ggml." + name + "_token_id").str();
    const gguf::Value *value = archive.first().metadata(key);
    std::optional<int64_t> id = value ? value->integer() : std::nullopt;
    if (value && !id)
      errors.report(archive.name() + ": key '" + key + "' is no token id");
    else if (id && *id < 0)
      errors.report(archive.name() + ": key '" + key + "' is " + std::to_string(*id) + ", token ids are not negative");
    return id;
  };
  auto add = [&](int64_t id) {
    if (!llvm::is_contained(tokens.ends, id))
      tokens.ends.push_back(id);
  };
  for (llvm::StringRef name : {"eos", "eot", "eom"}) // the ends of a text, of a turn and of a message
    if (std::optional<int64_t> id = read(name))
      add(*id);
  llvm::SmallVector<llvm::StringRef> spellings(std::begin(spellingsOfEnds), std::end(spellingsOfEnds));
  for (const CompletionToken &token : completionTokens)
    if (std::optional<int64_t> id = read(token.key))
      add(*id);
    else
      llvm::append_range(spellings, token.spellings);
  size_t named = tokens.ends.size();
  std::vector<llvm::StringRef> texts = readSpellings(archive.first());
  for (auto [id, text] : llvm::enumerate(texts))
    if (!text.empty() && llvm::is_contained(spellings, text))
      add(id);
  llvm::SmallVector<int64_t> unnamed(llvm::ArrayRef(tokens.ends).drop_front(named));
  removeFalseEnds(tokens.ends, texts);
  llvm::raw_string_ostream list(tokens.unnamed);
  for (int64_t id : unnamed)
    if (llvm::is_contained(tokens.ends, id))
      list << (tokens.unnamed.empty() ? "" : ", ") << texts[id] << " (" << id << ")";
  tokens.begin = read("bos");
  return tokens;
}

} // namespace intarsia::importer
