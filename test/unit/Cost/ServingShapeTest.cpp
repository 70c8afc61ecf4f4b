//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Shapes of models against what their authors publish: parameters, active parameters, bytes of cache.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ModelShape.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace intarsia;
using llvm::StringRef;

namespace {

const ModelShape &shape(StringRef name) { return *llvm::cantFail(findShape(name)); }

std::string refusal(StringRef json) {
  llvm::Expected<ModelShape> parsed = ModelShape::parse(json, "m");
  return parsed ? "" : llvm::toString(parsed.takeError());
}

} // namespace

// Model cards and technical reports, in billions. Norms and biases are not counted: within 0.1 %, where the card is
// exact; cards that round, and Llama 4's, which counts its vision encoder, are given their slack.
TEST(ServingShape, parametersAreThosePublished) {
  struct Published {
    const char *name;
    double total, tolerance;
  } published[] = {{"llama-3.1-8b", 8.030, 0.001},     {"llama-3.1-70b", 70.55, 0.001}, {"llama2-70b", 68.98, 0.001},
                   {"bloom-176b", 176.25, 0.001},      {"mixtral-8x7b", 46.70, 0.001},  {"deepseek-v3", 671.0, 0.001},
                   {"qwen3-1.7b", 1.72, 0.002},        {"qwen3-32b", 32.76, 0.001},     {"qwen3-30b-a3b", 30.53, 0.001},
                   {"qwen3-235b-a22b", 235.09, 0.001}, {"gpt-oss-120b", 116.83, 0.001}, {"kimi-k2.5", 1026, 0.001},
                   {"gemma-4-26b-a4b", 25.2, 0.003},   {"glm-5", 744, 0.001},           {"minimax-m2.5", 228.7, 0.001},
                   {"qwen3.5-397b-a17b", 397, 0.003},  {"llama-4-scout", 109, 0.02}};
  for (const Published &model : published)
    EXPECT_NEAR(shape(model.name).parameters() / 1e9, model.total, model.total * model.tolerance) << model.name;
}

TEST(ServingShape, activeParametersAreThosePublished) {
  struct Published {
    const char *name;
    double active, tolerance;
  } published[] = {{"deepseek-v3", 37, 0.02},    {"mixtral-8x7b", 12.9, 0.005},  {"qwen3-235b-a22b", 22, 0.01},
                   {"qwen3-30b-a3b", 3.3, 0.02}, {"gemma-4-26b-a4b", 3.8, 0.01}, {"kimi-k2.5", 32.6, 0.01},
                   {"llama-4-scout", 17, 0.02},  {"qwen3.5-397b-a17b", 17, 0.03}};
  for (const Published &model : published)
    EXPECT_NEAR(shape(model.name).activeParameters() / 1e9, model.active, model.active * model.tolerance) << model.name;
  // Its card leaves out the embedding.
  const ModelShape &oss = shape("gpt-oss-120b");
  EXPECT_NEAR((oss.activeParameters() - oss.embeddingParameters()) / 1e9, 5.13, 0.02);
}

TEST(ServingShape, cachesAreThosePublished) {
  EXPECT_EQ(shape("llama-3.1-70b").cacheBytesPerToken(2), 327680);
  EXPECT_EQ(shape("llama-3.1-8b").cacheBytesPerToken(2), 131072);
  // 70 KB a token, against 516 KB for Llama 3.1 405B ("Insights into DeepSeek-V3", table 1).
  EXPECT_EQ(shape("deepseek-v3").cacheBytesPerToken(2), 70272);
  EXPECT_EQ(shape("bloom-176b").cacheBytesPerToken(2), 2.0 * 2 * 70 * 14336);
  // Twelve times as many bytes without grouped heads.
  EXPECT_EQ(shape("llama2-70b").cacheBytesPerToken(2) * 8, 2.0 * 2 * 80 * 8192);
}

TEST(ServingShape, windowsBoundTheCache) {
  const ModelShape &oss = shape("gpt-oss-120b"); // 18 layers see 128 tokens, 18 all; 8 heads of 64, keys and values
  EXPECT_EQ(oss.cachedElements(100), 36 * 1024.0 * 100);
  EXPECT_EQ(oss.cachedElements(10000), 18 * 1024.0 * (128 + 10000));
  const ModelShape &glm = shape("glm-5");
  EXPECT_EQ(glm.attention[0].visible(10000), 2048); // selected, though all are cached
  EXPECT_EQ(glm.cachedElements(10000), 78 * (576.0 + 128) * 10000);
  const ModelShape &qwen = shape("qwen3.5-397b-a17b"); // 45 of 60 layers keep a state: 64 heads of 128 x 128, f32
  EXPECT_EQ(qwen.stateBytes(), 45 * 64.0 * 128 * 128 * 4);
  EXPECT_EQ(qwen.cachedElements(1000), 15 * 2.0 * 2 * 256 * 1000);
}

TEST(ServingShape, flopsAreTwoAParameterAndTheScores) {
  const ModelShape &llama = shape("llama-3.1-8b");
  double matmuls = 2 * (llama.parameters() - llama.embeddingParameters());
  // Scores: queries times keys and weights times values, 2 flops each, 32 heads of 128.
  EXPECT_DOUBLE_EQ(llama.decodeFlops(1000), matmuls + 32 * 4.0 * 4096 * 1000);
  double head = 2 * llama.headParameters();
  EXPECT_DOUBLE_EQ(llama.prefillFlops(1000), 1000 * (matmuls - head + 32 * 4.0 * 4096 * 500));
  // A window of w sees w - w^2/(2n) on average: far less than n/2.
  AttentionLayers sliding = shape("gpt-oss-120b").attention[0];
  EXPECT_EQ(sliding.window, 128);
  double sum = 0;
  for (int i = 0; i < 1000; ++i)
    sum += std::min(i + 0.5, 128.0);
  EXPECT_NEAR(sliding.visibleOfPrompt(1000), sum / 1000, 1e-3);
}

TEST(ServingShape, batchesTouchMoreExperts) {
  const ModelShape &mixtral = shape("mixtral-8x7b");
  EXPECT_NEAR(mixtral.expertsTouched(1, 0), 0.25, 1e-12); // two of eight
  EXPECT_NEAR(mixtral.expertsTouched(2, 0), 1 - 0.75 * 0.75, 1e-12);
  // Uneven popularity touches fewer, and none tends to even popularity (Poisson against binomial: a little fewer).
  EXPECT_LT(mixtral.expertsTouched(16, 0.5), mixtral.expertsTouched(16, 0));
  EXPECT_NEAR(mixtral.expertsTouched(16, 1e-5), 1 - std::exp(-4.0), 1e-4);
  EXPECT_NEAR(mixtral.expertsTouched(1e9, 0.5), 1, 1e-6);
  EXPECT_EQ(shape("llama-3.1-8b").expertsTouched(16, 0.5), 0);
}

TEST(ServingShape, refusesWhatItCannotExpress) {
  EXPECT_EQ(refusal("{"), "m: config.json is not JSON: [1:1, byte=1]: Expected object key");
  EXPECT_EQ(refusal("[1]"), "m: config.json is not an object");
  EXPECT_EQ(refusal(std::string(100, '[')), "m: config.json is nested deeper than 64 levels");
  EXPECT_EQ(refusal(R"({"x": ")" + std::string(1000, ']') + R"(", "y": )" + std::string(1000, '[')),
            "m: config.json is nested deeper than 64 levels");
  EXPECT_EQ(refusal("{}"), "m: config.json lacks 'hidden_size'");
  std::string common = R"("hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100, "num_attention_heads": 4,)";
  EXPECT_EQ(refusal("{" + common + R"("num_key_value_heads": 8, "intermediate_size": 96})"),
            "m: config.json 'num_key_value_heads' 8 is above 'num_attention_heads' 4");
  EXPECT_EQ(refusal("{" + common + R"("intermediate_size": -1})"),
            "m: config.json 'intermediate_size' is not a whole number between 0 and 2^28");
  EXPECT_EQ(refusal("{" + common + R"("intermediate_size": 96, "layer_types": ["full_attention", "mamba"]})"),
            "m: config.json 'layer_types' holds 'mamba', which the shape cannot express");
  EXPECT_EQ(refusal("{" + common + R"("intermediate_size": 96, "layer_types": ["full_attention"]})"),
            "m: config.json 'layer_types' lists 1 layers, 'num_hidden_layers' is 2");
  EXPECT_EQ(refusal("{" + common + R"("intermediate_size": 96, "num_experts": 4, "num_experts_per_tok": 8})"),
            "m: config.json a token takes 8 of 4 experts");
  EXPECT_EQ(refusal("{" + common + R"("intermediate_size": 96, "num_experts": 4, "decoder_sparse_step": 2})"),
            "m: config.json 'decoder_sparse_step' is not 1: layers that take turns are not expressed by the shape");
  EXPECT_EQ(refusal("{" + common + R"("intermediate_size": 96})"), "");
}

TEST(ServingShape, namesTheNearestShapes) {
  EXPECT_EQ(llvm::toString(findShape("llama-3-70b").takeError()),
            "the catalogue has no model 'llama-3-70b'; did you mean 'llama-3.1-70b', 'llama2-70b'?");
}
