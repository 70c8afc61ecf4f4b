//===- Decoder.h - Serve sequences with the sample language model ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// modules/decoder.c computes logits from every token of a sequence: a wrong page, slot or order changes them.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_RUNTIMEDECODER_H
#define INTARSIA_TEST_UNIT_RUNTIMEDECODER_H

#include "test/unit/Runtime/Modules.h"

namespace intarsia::testing {

using Tokens = std::vector<int64_t>;

struct FreeCache {
  void operator()(itx_cache *cache) const { itx_cache_free(cache); }
};
struct FreeSequence {
  void operator()(itx_sequence *sequence) const { itx_sequence_free(sequence); }
};
using CachePointer = std::unique_ptr<itx_cache, FreeCache>;
using SequencePointer = std::unique_ptr<itx_sequence, FreeSequence>;

inline const char *decoderManifest() {
  return R"({"format":1,"producer":"test 1.0","flags":[],
 "target":{"triple":"test","variants":[{"name":"plain","cpu":"x","features":[]}]},"kernels":["step"],"labels":[""],
 "functions":[
  {"name":"step","page_tokens":4,"sizes":[{"name":"tokens"},{"name":"sequences"},{"name":"pages_of_a_sequence"},{"name":"outputs"},
                          {"name":"pages"}],
   "checks":[{"relation":"equal","left":"tokens","right":"0","why":"'failing' needs it"}],
   "inputs":[{"name":"input_ids","dtype":"i64","shape":["tokens"],"range":[0,16]},
             {"name":"positions","dtype":"i64","shape":["tokens"],"range":[0,22],
              "below":{"size":"pages_of_a_sequence","factor":4}},
             {"name":"sequences","dtype":"i64","shape":["tokens"],"range":[0,99],
              "below":{"size":"sequences","factor":1}},
             {"name":"page_table","dtype":"i64","shape":["sequences","pages_of_a_sequence"],"range":[0,99],
              "below":{"size":"pages","factor":1}},
             {"name":"output_tokens","dtype":"i64","shape":["outputs"],"range":[0,99],
              "below":{"size":"tokens","factor":1}},
             {"name":"keys","dtype":"i64","shape":["pages",4],"state":true}],
   "outputs":[{"name":"logits","dtype":"f32","shape":["outputs",16]}]},
  {"name":"tailed","page_tokens":4,"sizes":[{"name":"tokens"},{"name":"sequences"},{"name":"pages_of_a_sequence"},{"name":"outputs"},
                            {"name":"pages"}],
   "checks":[{"relation":"equal","left":"tokens","right":"0","why":"'failing' needs it"}],
   "inputs":[{"name":"tail","dtype":"f32","shape":["sequences",4],"state":true},
             {"name":"packed","dtype":"i16","shape":["pages",2,4],"state":true},
             {"name":"input_ids","dtype":"i64","shape":["tokens"],"range":[0,16]},
             {"name":"positions","dtype":"i64","shape":["tokens"],"range":[0,22],
              "below":{"size":"pages_of_a_sequence","factor":4}},
             {"name":"sequences","dtype":"i64","shape":["tokens"],"range":[0,99],
              "below":{"size":"sequences","factor":1}},
             {"name":"page_table","dtype":"i64","shape":["sequences","pages_of_a_sequence"],"range":[0,99],
              "below":{"size":"pages","factor":1}},
             {"name":"output_tokens","dtype":"i64","shape":["outputs"],"range":[0,99],
              "below":{"size":"tokens","factor":1}},
             {"name":"keys","dtype":"i64","shape":["pages",4],"state":true}],
   "outputs":[{"name":"logits","dtype":"f32","shape":["outputs",16]}]}]})";
}

/// Returns the manifest of modules/decoder_device.c: kernels and state are on the second device.
inline std::string deviceDecoderManifest() {
  std::string manifest = replaced(
      decoderManifest(), R"("kernels":["step"])",
      R"("devices":[{"name":"cpu","kind":"cpu"},{"name":"reference","kind":"reference","objects":[{"variant":")" +
          hostVariant() + R"(","object":0}]}],"kernel_devices":[1,1],"kernels":["step","tailed"])");
  const std::string state = R"("state":true)", placed = R"("state":true,"device":1)";
  for (size_t at = 0; (at = manifest.find(state, at)) != std::string::npos; at += placed.size())
    manifest.replace(at, state.size(), placed);
  return manifest;
}

inline constexpr int64_t failing = 13, vocabulary = 16, context = 22, pageTokens = 4;

/// Returns the logits that modules/decoder.c computes after the last token.
inline float expectedLogit(const Tokens &tokens, int64_t v) {
  int64_t sum = 0;
  for (size_t j = 0; j < tokens.size(); ++j)
    sum += (tokens[j] + 1) * int64_t(j + 1) * int64_t(j + 1);
  return float((v + 1) * sum % 97);
}

inline Tokens operator+(Tokens left, const Tokens &right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// A test with modules/decoder.c, run for its function with state only in pages and for its function that also has
/// state for each sequence; and with modules/decoder_device.c for the same functions, here named "device_…".
class CacheTest : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override { module = load(write(manifest(), "m.itx", artifact())); }

  bool isOnDevice() const { return std::string(GetParam()).starts_with("device_"); }
  const char *function() const { return GetParam() + (isOnDevice() ? std::strlen("device_") : 0); }
  bool hasTail() const { return std::string(function()) == "tailed"; }
  const char *artifact() const { return isOnDevice() ? ITX_TEST_DECODER_DEVICE : ITX_TEST_DECODER; }
  std::string manifest() const { return isOnDevice() ? deviceDecoderManifest() : decoderManifest(); }

  std::string write(const std::string &manifest, const std::string &name, const char *artifact = ITX_TEST_DECODER) {
    std::string elf = sampleElf(manifest, artifact);
    Status status = writeArtifact(folder / name, elf.data(), elf.size());
    EXPECT_TRUE(status.ok()) << status.message();
    return folder / name;
  }

  CachePointer make(int64_t sequences, int64_t pages) {
    itx_cache_options options = {sizeof(options), sequences, pages, 0};
    itx_cache *cache = nullptr;
    EXPECT_EQ(itx_cache_create(module.get(), function(), &options, &cache), ITX_OK) << itx_last_error();
    return CachePointer(cache);
  }

  SequencePointer sequence(const CachePointer &cache) {
    itx_sequence *made = nullptr;
    EXPECT_EQ(itx_sequence_create(cache.get(), &made), ITX_OK) << itx_last_error();
    return SequencePointer(made);
  }

  SequencePointer fork(const SequencePointer &parent) {
    itx_sequence *made = nullptr;
    EXPECT_EQ(itx_sequence_fork(parent.get(), &made), ITX_OK) << itx_last_error();
    return SequencePointer(made);
  }

  itx_cache_info info(const CachePointer &cache) {
    itx_cache_info info = {};
    info.struct_bytes = sizeof(info);
    EXPECT_EQ(itx_cache_get_info(cache.get(), &info), ITX_OK) << itx_last_error();
    return info;
  }

  itx_status append(const CachePointer &cache, const SequencePointer &sequence, const Tokens &tokens) {
    itx_chunk chunk = {sequence.get(), tokens.data(), int64_t(tokens.size()), 0};
    return itx_cache_step(cache.get(), &chunk, 1, nullptr);
  }

  /// Appends tokens and compares every logit with those of the whole text.
  void extend(const CachePointer &cache, const SequencePointer &sequence, const Tokens &tokens, Tokens &text) {
    itx_chunk chunk = {sequence.get(), tokens.data(), int64_t(tokens.size()), int64_t(tokens.size())};
    itx_tensor *made = nullptr;
    ASSERT_EQ(itx_cache_step(cache.get(), &chunk, 1, &made), ITX_OK) << itx_last_error();
    TensorPointer logits(made);
    for (size_t i = 0; i < tokens.size(); ++i) {
      text.push_back(tokens[i]);
      for (int64_t v = 0; v < vocabulary; ++v)
        ASSERT_EQ(static_cast<float *>(itx_tensor_data(made))[int64_t(i) * vocabulary + v], expectedLogit(text, v))
            << text.size() << " tokens, logit " << v;
    }
    EXPECT_EQ(itx_sequence_length(sequence.get()), int64_t(text.size()));
  }

  TemporaryFolder folder;
  ModulePointer module;
};

inline const auto decoderFunctions = ::testing::Values("step", "tailed", "device_step", "device_tailed");
inline std::string functionName(const ::testing::TestParamInfo<const char *> &info) { return info.param; }

} // namespace intarsia::testing

#endif
