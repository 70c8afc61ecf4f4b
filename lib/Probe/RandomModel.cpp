//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "RandomModel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>
#include <vector>

using namespace llvm;

namespace intarsia::probe {
namespace {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    return count;
  }
};

/// Returns values of a uniform distribution around 0 as bytes of the type (xorshift64, Marsaglia, 2003).
std::vector<char> randomBlock(size_t elements, bool isF32) {
  std::vector<char> bytes(elements * (isF32 ? 4 : 2));
  uint64_t state = 0x9E3779B97F4A7C15;
  for (size_t i = 0; i < elements; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    float value = (float(state >> 40) / float(1 << 24) - 0.5f) * 0.08f;
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    uint16_t high = uint16_t(bits >> 16); // bf16
    std::memcpy(bytes.data() + i * (isF32 ? 4 : 2), isF32 ? static_cast<void *>(&bits) : &high, isF32 ? 4 : 2);
  }
  return bytes;
}

Error writeModel(const std::string &folder, json::Object config, ArrayRef<Tensor> tensors, StringRef stored) {
  auto fail = [&](const Twine &file, std::error_code error) {
    return createStringError(error, file + ": cannot be written: " + error.message());
  };
  std::error_code error = sys::fs::create_directories(folder);
  if (error)
    return fail(folder, error);
  std::string path = folder + "/config.json";
  {
    raw_fd_ostream out(path, error);
    if (!error)
      out << json::Value(std::move(config));
    out.close();
    if (error || out.has_error()) {
      error = error ? error : out.error();
      out.clear_error();
      return fail(path, error);
    }
  }
  bool isF32 = stored == "F32";
  int64_t offset = 0;
  json::Object header;
  for (const Tensor &tensor : tensors) {
    int64_t end = offset + tensor.elements() * (isF32 ? 4 : 2);
    header[tensor.name] = json::Object{
        {"dtype", stored}, {"shape", json::Array(tensor.shape)}, {"data_offsets", json::Array{offset, end}}};
    offset = end;
  }
  std::string text = formatv("{0}", json::Value(std::move(header)));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  path = folder + "/model.safetensors";
  raw_fd_ostream out(path, error);
  if (error)
    return fail(path, error);
  out.write(reinterpret_cast<const char *>(&length), sizeof(length));
  out << text;
  std::vector<char> block = randomBlock(size_t(1) << 20, isF32);
  for (int64_t left = offset; left > 0 && !out.has_error(); left -= int64_t(block.size()))
    out.write(block.data(), size_t(std::min<int64_t>(left, int64_t(block.size()))));
  out.close();
  if (out.has_error()) {
    error = out.error();
    out.clear_error();
    return fail(path, error);
  }
  return Error::success();
}

} // namespace

double layerWeights(const DecoderSize &size) {
  int64_t keys = size.hidden / size.heads * size.keyHeads;
  return double(size.hidden * (2 * size.hidden + 2 * keys + 3 * size.width));
}

double multipliedWeights(const EncoderSize &size) {
  return double(size.layers) * double(4 * size.hidden * size.hidden + 2 * size.hidden * size.width);
}

Error writeDecoder(const std::string &folder, const DecoderSize &size, StringRef stored) {
  int64_t hidden = size.hidden, keys = hidden / size.heads * size.keyHeads;
  std::vector<Tensor> tensors{{"model.embed_tokens.weight", {size.vocabulary, hidden}},
                              {"model.norm.weight", {hidden}}};
  for (int64_t layer = 0; layer < size.layers; ++layer) {
    std::string prefix = formatv("model.layers.{0}.", layer);
    for (auto &[name, shape] :
         std::initializer_list<std::pair<const char *, std::vector<int64_t>>>{{"input_layernorm", {hidden}},
                                                                              {"post_attention_layernorm", {hidden}},
                                                                              {"self_attn.q_proj", {hidden, hidden}},
                                                                              {"self_attn.k_proj", {keys, hidden}},
                                                                              {"self_attn.v_proj", {keys, hidden}},
                                                                              {"self_attn.o_proj", {hidden, hidden}},
                                                                              {"mlp.gate_proj", {size.width, hidden}},
                                                                              {"mlp.up_proj", {size.width, hidden}},
                                                                              {"mlp.down_proj", {hidden, size.width}}})
      tensors.push_back({prefix + name + ".weight", shape});
  }
  json::Object config{{"architectures", json::Array{"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"hidden_act", "silu"},
                      {"hidden_size", hidden},
                      {"intermediate_size", size.width},
                      {"num_attention_heads", size.heads},
                      {"num_key_value_heads", size.keyHeads},
                      {"num_hidden_layers", size.layers},
                      {"vocab_size", size.vocabulary},
                      {"max_position_embeddings", 2048},
                      {"rms_norm_eps", 1e-5},
                      {"rope_theta", 10000.0},
                      {"tie_word_embeddings", true},
                      {"torch_dtype", stored == "F32" ? "float32" : "bfloat16"}};
  return writeModel(folder, std::move(config), tensors, stored);
}

Error writeEncoder(const std::string &folder, const EncoderSize &size, StringRef stored) {
  int64_t hidden = size.hidden;
  constexpr int64_t positions = 512;
  std::vector<Tensor> tensors{{"embeddings.word_embeddings.weight", {size.vocabulary, hidden}},
                              {"embeddings.position_embeddings.weight", {positions, hidden}},
                              {"embeddings.token_type_embeddings.weight", {2, hidden}},
                              {"embeddings.LayerNorm.weight", {hidden}},
                              {"embeddings.LayerNorm.bias", {hidden}},
                              {"pooler.dense.weight", {hidden, hidden}},
                              {"pooler.dense.bias", {hidden}}};
  for (int64_t layer = 0; layer < size.layers; ++layer) {
    std::string prefix = formatv("encoder.layer.{0}.", layer);
    auto linear = [&](const char *name, int64_t outputs, int64_t inputs) {
      tensors.push_back({prefix + name + ".weight", {outputs, inputs}});
      tensors.push_back({prefix + name + ".bias", {outputs}});
    };
    for (const char *name :
         {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"})
      linear(name, hidden, hidden);
    linear("intermediate.dense", size.width, hidden);
    linear("output.dense", hidden, size.width);
    for (const char *name : {"attention.output.LayerNorm", "output.LayerNorm"}) {
      tensors.push_back({prefix + name + ".weight", {hidden}});
      tensors.push_back({prefix + name + ".bias", {hidden}});
    }
  }
  json::Object config{{"architectures", json::Array{"BertModel"}},
                      {"model_type", "bert"},
                      {"hidden_act", "gelu"},
                      {"hidden_size", hidden},
                      {"intermediate_size", size.width},
                      {"num_attention_heads", size.heads},
                      {"num_hidden_layers", size.layers},
                      {"vocab_size", size.vocabulary},
                      {"max_position_embeddings", positions},
                      {"type_vocab_size", 2},
                      {"layer_norm_eps", 1e-12},
                      {"torch_dtype", stored == "F32" ? "float32" : "bfloat16"}};
  return writeModel(folder, std::move(config), tensors, stored);
}

} // namespace intarsia::probe
