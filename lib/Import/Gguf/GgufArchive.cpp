//===- GgufArchive.cpp - The weights of a GGUF file by the names of its Hugging Face model ------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Gguf/GgufArchive.h"

namespace intarsia::importer {

llvm::ArrayRef<GgufArchitecture> ggufArchitectures() {
  // Source for interleaved rows: the `permute` of llama.cpp's convert_hf_to_gguf.py, and llama_model_rope_type.
  static const GgufArchitecture table[] = {
      {"gemma2", "gemma2", false},      {"gemma3", "gemma3_text", false},
      {"gpt-oss", "gpt_oss", false},    {"gpt2", "gpt2", false, "transformer.h."},
      {"llama", "llama", true},         {"phi3", "phi3", false},
      {"qwen2", "qwen2", false},        {"qwen3", "qwen3", false},
      {"qwen3moe", "qwen3_moe", false},
  };
  return table;
}

/// Modules by both names: gguf.TENSOR_NAMES and get_tensor_name_map of the `gguf` package.
struct ModuleNames {
  llvm::StringRef stored, name;
  llvm::StringRef only = ""; // prefix of the architecture's name; rows with one come before rows for all
};
static constexpr ModuleNames modelModules[] = {
    {"token_embd", "transformer.wte", "gpt2"},
    {"position_embd", "transformer.wpe", "gpt2"},
    {"output_norm", "transformer.ln_f", "gpt2"},
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
static constexpr ModuleNames layerModules[] = {
    {"attn_norm", "ln_1", "gpt2"},
    {"attn_qkv", "attn.c_attn", "gpt2"},
    {"attn_output", "attn.c_proj", "gpt2"},
    {"ffn_norm", "ln_2", "gpt2"},
    {"ffn_up", "mlp.c_fc", "gpt2"},
    {"ffn_down", "mlp.c_proj", "gpt2"},
    {"post_attention_norm", "post_attention_layernorm", "gemma"},
    {"post_attention_norm", "post_attention_layernorm", "gpt-oss"},
    {"attn_sinks", "self_attn.sinks", "gpt-oss"},
    {"ffn_gate_inp", "mlp.router", "gpt-oss"},
    {"ffn_gate_inp", "block_sparse_moe.gate", "llama"},
    {"ffn_gate_exps", "block_sparse_moe.experts.w1", "llama"},
    {"ffn_up_exps", "block_sparse_moe.experts.w3", "llama"},
    {"ffn_down_exps", "block_sparse_moe.experts.w2", "llama"},
    {"ffn_norm", "pre_feedforward_layernorm", "gemma"},
    {"post_ffw_norm", "post_feedforward_layernorm", "gemma"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.gate_up_proj", "phi3"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
};
static constexpr llvm::StringLiteral storedLayers = "blk.";

/// Returns the row of a module of an architecture, by one of its names.
static const ModuleNames *findModule(llvm::ArrayRef<ModuleNames> rows, llvm::StringRef ModuleNames::*by,
                                     llvm::StringRef module, const GgufArchitecture &architecture) {
  for (const ModuleNames &row : rows)
    if (row.*by == module && architecture.name.starts_with(row.only))
      return &row;
  return nullptr;
}

/// Translates "module.weight" or "layers.N.module.weight"; empty if a part has no translation.
static std::string translate(llvm::StringRef name, llvm::StringRef ModuleNames::*from, llvm::StringRef ModuleNames::*to,
                             llvm::StringRef layersFrom, llvm::StringRef layersTo,
                             const GgufArchitecture &architecture) {
  auto [module, parameter] = name.rsplit('.');
  if (parameter != "weight" && parameter != "bias")
    return "";
  std::string prefix;
  llvm::ArrayRef<ModuleNames> rows = modelModules;
  if (module.consume_front(layersFrom)) {
    auto [number, rest] = module.split('.');
    unsigned layer;
    if (number.getAsInteger(10, layer) || std::to_string(layer) != number)
      return "";
    prefix = (layersTo + number + ".").str();
    module = rest;
    rows = layerModules;
  }
  const ModuleNames *row = findModule(rows, from, module, architecture);
  return row ? (prefix + row->*to + "." + parameter).str() : "";
}

std::string storedNameOf(llvm::StringRef name, const GgufArchitecture &architecture) {
  return translate(name, &ModuleNames::name, &ModuleNames::stored, architecture.layers, storedLayers, architecture);
}

std::unique_ptr<GgufArchive> GgufArchive::open(llvm::StringRef path, Errors &errors) {
  auto archive = std::make_unique<GgufArchive>();
  if (Status status = gguf::openParts(path.str(), archive->parts); !status.ok()) {
    errors.report(status.message());
    return nullptr;
  }
  archive->displayName = archive->first().name();
  for (const auto &[number, part] : llvm::enumerate(archive->parts)) {
    std::string symbol = archive->parts.size() == 1 ? "weights" : "weights_" + std::to_string(number);
    archive->files.push_back(std::make_unique<File>(File{part->name(), symbol}));
  }
  return archive;
}

void GgufArchive::nameTensors(const GgufArchitecture &architecture) {
  for (const auto &[part, file] : llvm::zip_equal(parts, files))
    for (const gguf::Tensor &tensor : part->tensors()) {
      std::string name = translate(tensor.raw.name, &ModuleNames::stored, &ModuleNames::name, storedLayers,
                                   architecture.layers, architecture);
      if (!name.empty())
        tensors.try_emplace(name, Tensor{file.get(), &tensor.raw, &tensor});
    }
}

const gguf::Tensor *GgufArchive::findStored(llvm::StringRef name) const {
  for (const std::unique_ptr<gguf::File> &part : parts)
    if (const gguf::Tensor *tensor = part->find(std::string_view(name.data(), name.size())))
      return tensor;
  return nullptr;
}

std::vector<llvm::StringRef> GgufArchive::storedNames() const {
  std::vector<llvm::StringRef> names;
  for (const std::unique_ptr<gguf::File> &part : parts)
    for (const gguf::Tensor &tensor : part->tensors())
      names.push_back(tensor.raw.name);
  return names;
}

} // namespace intarsia::importer
