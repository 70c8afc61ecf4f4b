//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Attention and experts of a mixture of experts apart: against published counts, times worked out by hand, and the
// whole.
//===----------------------------------------------------------------------------------------------------------===//
#include "test/unit/Cost/ServingDeployments.h"
#include <cmath>

using namespace intarsia;
using namespace deployments;
using llvm::StringRef;

namespace {

Deployment part(Deployment deployment, ModelPart part, ParallelDegrees degrees) {
  deployment.part = part;
  deployment.degrees = degrees;
  deployment.onePhase = true;
  return deployment;
}

/// A whole on n devices with tensor and expert degree n, and its parts on n devices each.
struct Split {
  ServingCost whole, attention, experts;
  explicit Split(const Deployment &from, int n = 1, const ServingEfficiency *efficiency = nullptr)
      : whole(create(part(from, ModelPart::Whole, {n, 1, n, 1}), efficiency)),
        attention(create(part(from, ModelPart::Attention, {n, 1, 1, 1}), efficiency)),
        experts(create(part(from, ModelPart::Experts, {1, n, n, 1}), efficiency)) {}
};

/// Every mixture of the catalogue on devices of several makers and generations, in 16, 8 and 4 bits.
template <typename Check> void forEachMixture(llvm::ArrayRef<int> devices, Check check) {
  int mixtures = 0;
  for (const ModelShape &shape : catalogueShapes()) {
    if (!shape.experts)
      continue;
    ++mixtures;
    for (const char *device : {"nvidia/h100-sxm", "nvidia/b200-sxm", "amd/mi300x", "intel/gaudi3"})
      for (NumberFormat format : {NumberFormat::BF16, NumberFormat::FP8, NumberFormat::FP4})
        for (int n : devices) {
          SCOPED_TRACE(shape.name + " on " + std::to_string(n) + " " + device);
          check(Split(deploy(shape.name, device, format), n));
        }
  }
  EXPECT_GE(mixtures, 12);
}

void expectSum(double whole, double a, double b) { EXPECT_NEAR(a + b, whole, 1e-12 * whole); }

} // namespace

TEST(ServingParts, weightsAreThosePublished) {
  // gpt-oss's model card: 114.71 billion in "MLP" (experts, with routers and biases), 0.96 of attention, 1.16 of both
  // embeddings. Mixtral: 8 experts of three 4096 x 14336 matrices in 32 layers.
  Split oss(deploy("gpt-oss-120b", "nvidia/h200-sxm", NumberFormat::BF16));
  EXPECT_NEAR(oss.experts.weightBytesPerDevice() / 2e9, 114.71, 0.06);
  EXPECT_NEAR(oss.attention.weightBytesPerDevice() / 2e9, 0.96 + 1.16, 0.02);
  Split mixtral(deploy("mixtral-8x7b", "nvidia/h200-sxm", NumberFormat::BF16), 4);
  EXPECT_EQ(mixtral.experts.weightBytesPerDevice(), 2 * 8 * 3.0 * 4096 * 14336 * 32 / 4);
}

TEST(ServingParts, addUpToTheWhole) {
  forEachMixture({1, 4, 8}, [](const Split &split) {
    const auto &[whole, attention, experts] = split;
    EXPECT_GT(attention.weightBytesPerDevice(), 0);
    EXPECT_GT(experts.weightBytesPerDevice(), 0);
    expectSum(whole.weightBytesPerDevice(), attention.weightBytesPerDevice(), experts.weightBytesPerDevice());
    expectSum(whole.cacheBytesPerDevice(3000), attention.cacheBytesPerDevice(3000), experts.cacheBytesPerDevice(3000));
    expectSum(whole.promptFlopsPerDevice(700, 300), attention.promptFlopsPerDevice(700, 300),
              experts.promptFlopsPerDevice(700, 300));
    EXPECT_NEAR(whole.matmulFlopsPerSecond(), attention.matmulFlopsPerSecond(), 1e3);
    EXPECT_NEAR(whole.matmulFlopsPerSecond(), experts.matmulFlopsPerSecond(), 1e3);
    for (double batch : {1.0, 37.0, 500.0}) {
      expectSum(whole.stepBytesPerDevice(batch, 2000), attention.stepBytesPerDevice(batch, 2000),
                experts.stepBytesPerDevice(batch, 2000));
      StepTime all = whole.decodeStep(batch, 2000), a = attention.decodeStep(batch, 2000),
               e = experts.decodeStep(batch, 2000);
      expectSum(all.fixedMs, a.fixedMs, e.fixedMs);
      expectSum(all.streamingMs, a.streamingMs, e.streamingMs);
      expectSum(all.computeMs, a.computeMs, e.computeMs);
      expectSum(all.cacheMs, a.cacheMs, e.cacheMs);
      EXPECT_EQ(e.cacheMs + e.collectiveLatencyMs + e.collectiveTransferMs, 0);
      EXPECT_LE(a.collectiveTransferMs, all.collectiveTransferMs);
      EXPECT_EQ(e.totalMs, experts.decodeStep(batch, 1).totalMs) << "experts see no context";
    }
  });
}

// On one device a step is ‖F, ‖S, P‖₄ + C‖_q of sums over the parts. A norm of sums is at most the sum of norms; and
// x + y <= 2^(1 - 1/q) ‖x, y‖_q, for the inner norm too.
TEST(ServingParts, stepsAreNotFasterApartNorMuchSlower) {
  forEachMixture({1}, [](const Split &split) {
    double q = split.whole.efficiency().figures.blend;
    ASSERT_GE(q, 1);
    double most = std::pow(2, 1 - 1 / q + 0.75);
    for (double batch : {1.0, 16.0, 256.0, 4096.0})
      for (double context : {1.0, 8000.0}) {
        double whole = split.whole.decodeStep(batch, context).totalMs;
        double sum =
            split.attention.decodeStep(batch, context).totalMs + split.experts.decodeStep(batch, context).totalMs;
        EXPECT_GE(sum, whole * (1 - 1e-12)) << batch << " " << context;
        EXPECT_LE(sum, whole * most) << batch << " " << context;
      }
  });
  // Without a blend, and where matmuls are far below streaming, nothing is lost.
  ServingEfficiency bare = figures({{"layer_us", 10}, {"expert_layer_us", 5}});
  Split split(deploy("deepseek-v3", "nvidia/h200-sxm", NumberFormat::FP8), 1, &bare);
  double whole = split.whole.decodeStep(1, 1000).totalMs;
  EXPECT_NEAR(split.attention.decodeStep(1, 1000).totalMs + split.experts.decodeStep(1, 1000).totalMs, whole,
              1e-6 * whole);
}

TEST(ServingParts, growWithTheBatch) {
  forEachMixture({1, 8}, [](const Split &split) {
    for (const ServingCost *cost : {&split.attention, &split.experts})
      for (double batch = 1; batch < 2000; batch *= 2) {
        // Two batches may take the same waves of tiles.
        EXPECT_LE(cost->decodeStep(batch, 2000).totalMs, cost->decodeStep(2 * batch, 2000).totalMs);
        EXPECT_LT(cost->stepBytesPerDevice(batch, 2000), cost->stepBytesPerDevice(2 * batch, 2000));
      }
    EXPECT_NEAR(split.experts.expertExchange(64).dispatchBytes, 64 * split.experts.expertExchange(1).dispatchBytes, 1);
  });
}

TEST(ServingParts, fixedTimesAreOfTheirLayers) {
  ServingEfficiency fixed = figures({{"layer_us", 10},
                                     {"expert_layer_us", 5},
                                     {"latent_layer_us", 3},
                                     {"hopper_factor", 1.5},
                                     {"step_us", 100},
                                     {"sequence_us", 7}});
  Split split(deploy("deepseek-v3", "nvidia/h200-sxm", NumberFormat::FP8), 8, &fixed);
  // 61 layers, 58 of them of experts, all latent.
  EXPECT_NEAR(split.attention.decodeStep(4, 100).fixedMs, (61 * 13 * 1.5 + 100 + 4 * 7) * 1e-3, 1e-9);
  EXPECT_NEAR(split.experts.decodeStep(4, 100).fixedMs, 58 * 5 * 1.5 * 1e-3, 1e-9);
}

TEST(ServingParts, attentionReducesWhatIsComputedThere) {
  ServingEfficiency alpha = figures({{"collective_us", 4}, {"network_us", 20}});
  auto step = [&](const ModelShape &shape, ParallelDegrees degrees) {
    Deployment deployment =
        part(deploy(shape.name, "nvidia/h100-sxm", NumberFormat::FP8), ModelPart::Attention, degrees);
    deployment.shape = &shape;
    return create(deployment, &alpha).decodeStep(16, 1000);
  };
  // Mixtral has experts in all of 32 layers and none that are shared: one all-reduce a layer.
  const ModelShape &mixtral = *llvm::cantFail(findShape("mixtral-8x7b"));
  StepTime one = step(mixtral, {8, 1, 1, 1});
  EXPECT_NEAR(one.collectiveLatencyMs, 32 * 4 * 3 * 1e-3, 1e-9);
  EXPECT_NEAR(one.collectiveTransferMs, 2 * 7.0 / 8 * 16 * 4096 * 2 * 32 / 450e9 * 1e3, 1e-9);
  // DeepSeek shares an expert in 58 layers, the other three are dense: two in each of 61. Without the shared one 61
  // + 3.
  ModelShape deepseek = *llvm::cantFail(findShape("deepseek-v3"));
  EXPECT_NEAR(step(deepseek, {8, 1, 1, 1}).collectiveLatencyMs, 2 * 61 * 4 * 3 * 1e-3, 1e-9);
  deepseek.sharedWidth = 0;
  EXPECT_NEAR(step(deepseek, {8, 1, 1, 1}).collectiveLatencyMs, (61 + 3) * 4 * 3 * 1e-3, 1e-9);
  // Replicas do not reduce with each other, nor over the network: four of two devices, each with four sequences.
  StepTime replicas = step(mixtral, {2, 8, 1, 1});
  EXPECT_NEAR(replicas.collectiveLatencyMs, 32 * 4 * 1 * 1e-3, 1e-9);
  EXPECT_NEAR(replicas.collectiveTransferMs, 2 * 1.0 / 2 * 2 * 4096 * 2 * 32 / 450e9 * 1e3, 1e-9);
}

TEST(ServingParts, imbalanceIsOfExpertsOrOfReplicas) {
  ServingEfficiency bare = figures(),
                    uneven = figures({{"expert_parallel_imbalance", 1.5}, {"data_parallel_imbalance", 1.25}});
  Deployment mixtral = deploy("mixtral-8x7b", "nvidia/h200-sxm", NumberFormat::BF16);
  auto step = [&](ModelPart which, ParallelDegrees degrees, const ServingEfficiency &figures) {
    return create(part(mixtral, which, degrees), &figures).decodeStep(8, 1000).totalMs;
  };
  // Matmuls of 8 tokens are far below streaming.
  EXPECT_NEAR(step(ModelPart::Experts, {1, 8, 8, 1}, uneven), 1.5 * step(ModelPart::Experts, {1, 8, 8, 1}, bare), 1e-5);
  EXPECT_EQ(step(ModelPart::Experts, {1, 1, 1, 1}, uneven), step(ModelPart::Experts, {1, 1, 1, 1}, bare));
  EXPECT_NEAR(step(ModelPart::Attention, {1, 4, 1, 1}, uneven), 1.25 * step(ModelPart::Attention, {1, 4, 1, 1}, bare),
              1e-9);
  EXPECT_EQ(step(ModelPart::Attention, {4, 1, 1, 1}, uneven), step(ModelPart::Attention, {4, 1, 1, 1}, bare));
}

TEST(ServingParts, exchangeIsThereAndBackInEachLayer) {
  Deployment mixtral = deploy("mixtral-8x7b", "nvidia/h100-sxm", NumberFormat::FP8);
  auto exchange = [&](int n, double batch) { return Split(mixtral, n).experts.expertExchange(batch); };
  // Two of eight experts a token: on eight devices it goes to 8 (1 - (7/8)²) = 1.875 of them.
  EXPECT_NEAR(exchange(8, 10).dispatchBytes, 10 * 1.875 * 4096 * 32, 1e-6);
  EXPECT_NEAR(exchange(8, 10).combineBytes, 10 * 1.875 * 4096 * 32 * 2, 1e-6);
  EXPECT_EQ(exchange(8, 10).messages, 64);
  EXPECT_NEAR(exchange(1, 10).dispatchBytes, 10 * 4096.0 * 32, 1e-6);
  // Three of DeepSeek's layers are dense.
  EXPECT_EQ(Split(deploy("deepseek-v3", "nvidia/h100-sxm", NumberFormat::FP8)).experts.expertExchange(1).messages, 116);
  // The same traffic as that of the whole under attention-data, on the same devices at 450 GB/s each.
  ServingEfficiency bare = figures();
  ServingCost whole = create(part(mixtral, ModelPart::Whole, {1, 8, 8, 1}), &bare);
  EXPECT_NEAR(whole.decodeStep(16, 1000).collectiveTransferMs,
              (exchange(8, 16).dispatchBytes + exchange(8, 16).combineBytes) / 8 / 450e9 * 1e3, 1e-12);
  // A drafted token goes too.
  mixtral.tokensPerStep = 1.7;
  EXPECT_NEAR(exchange(8, 10).dispatchBytes, 2 * 10 * 1.875 * 4096 * 32, 1e-6);
}

TEST(ServingParts, onlyAttentionKeepsCaches) {
  Split split(deploy("mixtral-8x7b", "nvidia/h200-sxm", NumberFormat::BF16));
  double whole = llvm::cantFail(split.whole.largestBatch(4096)),
         attention = llvm::cantFail(split.attention.largestBatch(4096));
  // The experts' memory is free for caches: 32 layers, 8 heads of 128, keys and values, 2 bytes.
  EXPECT_NEAR((attention - whole) * 4096 * 131072.0, 2 * 8 * 3.0 * 4096 * 14336 * 32, 1e3);
  EXPECT_TRUE(std::isinf(llvm::cantFail(split.experts.largestBatch(4096))));
  Split large(deploy("deepseek-v3", "nvidia/h100-sxm", NumberFormat::FP8), 8);
  llvm::Expected<double> none = large.experts.largestBatch(4096);
  ASSERT_FALSE(none);
  // 58 layers of 256 experts of three 7168 x 2048 matrices.
  EXPECT_NE(llvm::toString(none.takeError()).find("weights take 81.7 GB a device, 70.4 of 80 GB are usable"),
            std::string::npos);
}

TEST(ServingParts, refusesWhatAPartIsNot) {
  auto with = [](ModelPart which, ParallelDegrees degrees, StringRef model = "mixtral-8x7b", bool onePhase = true) {
    Deployment deployment = part(deploy(model, "nvidia/h100-sxm", NumberFormat::FP8), which, degrees);
    deployment.onePhase = onePhase;
    std::string message = refusal(deployment);
    size_t colon = message.find(": ");
    return colon == std::string::npos ? message : message.substr(colon + 2);
  };
  EXPECT_EQ(with(ModelPart::Attention, {1, 1, 1, 1}, "llama-3.1-8b"),
            "its attention alone, but the model has no routed experts apart from it");
  EXPECT_EQ(with(ModelPart::Experts, {1, 1, 1, 1}, "llama-3.1-8b"), "its experts alone, but the model has none");
  EXPECT_EQ(with(ModelPart::Attention, {1, 1, 1, 1}, "mixtral-8x7b", false),
            "its attention alone reads no prompts; deploy it as one phase, with prefill elsewhere");
  EXPECT_EQ(with(ModelPart::Experts, {1, 4, 4, 2}),
            "pipeline degree 2 of its experts alone; batches already go back and forth between the parts");
  EXPECT_EQ(with(ModelPart::Attention, {4, 1, 4, 1}), "expert degree 4 of its attention alone, which holds no experts");
  EXPECT_EQ(with(ModelPart::Experts, {4, 1, 4, 1}),
            "tensor degree 4 of its experts alone; each device holds whole experts, say attention-data and expert "
            "degree 4");
  EXPECT_EQ(with(ModelPart::Experts, {1, 4, 2, 1}),
            "expert degree 2 of its experts alone on 4 devices, must be the same");
  EXPECT_EQ(with(ModelPart::Experts, {1, 16, 16, 1}), "expert degree 16, but the model has 8 experts");
  EXPECT_EQ(with(ModelPart::Attention, {4, 2, 1, 1}) + with(ModelPart::Experts, {1, 8, 8, 1}), "");
}

TEST(ServingParts, promptsPassTheWhole) {
  Split split(deploy("mixtral-8x7b", "nvidia/h200-sxm", NumberFormat::BF16));
  EXPECT_DEATH(split.attention.firstToken(100), "attention of mixtral-8x7b alone was asked for a first token");
  EXPECT_DEATH(split.experts.prefillBusyMs(100), "experts of mixtral-8x7b alone was asked for a time of prompts");
  EXPECT_DEATH(split.attention.sharedStep(4, 100, 100), "attention of mixtral-8x7b alone was asked for");
  EXPECT_DEATH(split.attention.expertExchange(4), "attention of mixtral-8x7b: what is exchanged with experts");
  EXPECT_DEATH(split.whole.expertExchange(4), "whole of mixtral-8x7b: what is exchanged with experts");
}
