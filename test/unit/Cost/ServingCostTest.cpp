//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The serving cost formula against times worked out by hand from figures that are round, and what it refuses.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/GpuKernels.h"
#include "test/unit/Cost/ServingDeployments.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace intarsia;
using namespace deployments;
using llvm::StringRef;

TEST(ServingCost, decodeStreamsWeightsAndCache) {
  ServingEfficiency bare = figures();
  ServingCost cost = create(deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16), &bare);
  StepTime step = cost.decodeStep(4, 1000);
  // 8.030e9 weights less the embedding's 128256 x 4096, 2 bytes, 3350 GB/s; the norms are not counted.
  EXPECT_NEAR(step.streamingMs, (8.030e9 - 128256.0 * 4096) * 2 / 3350e9 * 1e3, 0.002);
  EXPECT_NEAR(step.cacheMs, 4 * 1000 * 131072.0 / 3350e9 * 1e3, 1e-5);
  // Blend 1 adds, and compute is far below streaming: ‖4.48, 0.07‖₄ = 4.48.
  EXPECT_NEAR(step.totalMs, step.streamingMs + step.cacheMs, 1e-4);
  EXPECT_EQ(step.collectiveLatencyMs + step.collectiveTransferMs + step.fixedMs + step.interferenceMs, 0);
}

TEST(ServingCost, largeBatchesAreBoundByCompute) {
  ServingEfficiency bare = figures();
  ServingCost cost = create(deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16), &bare);
  // 2 flops a weight without embedding and head, 989 TFLOP/s.
  double matmuls = 2 * (8.030e9 - 2 * 128256.0 * 4096) * 4096 / 989e12 * 1e3;
  EXPECT_NEAR(cost.decodeStep(4096, 1).computeMs, matmuls, 0.01);
  // Half the time at 8 bits, whose peak is twice as high.
  ServingCost eight = create(deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::FP8), &bare);
  EXPECT_NEAR(eight.decodeStep(4096, 1).computeMs, matmuls / 2, 0.01);
}

TEST(ServingCost, fixedTimesAddUpByKindOfLayer) {
  ServingEfficiency fixed = figures({{"layer_us", 10},
                                     {"expert_layer_us", 5},
                                     {"latent_layer_us", 3},
                                     {"layer_factor.sglang", 2},
                                     {"hopper_factor", 1.5},
                                     {"step_us", 100},
                                     {"sequence_us", 7}});
  Deployment deployment = deploy("deepseek-v3", "nvidia/h200-sxm", NumberFormat::FP8, {8, 1, 1, 1});
  // 61 layers, 58 of them of experts, all latent.
  EXPECT_NEAR(create(deployment, &fixed).decodeStep(4, 100).fixedMs,
              ((61 * 10 + 58 * 5 + 61 * 3) * 1.5 + 100 + 4 * 7) * 1e-3, 1e-9);
  deployment.engine = ServingEngine::SGLang;
  EXPECT_NEAR(create(deployment, &fixed).decodeStep(4, 100).fixedMs,
              ((61 * 10 + 58 * 5 + 61 * 3) * 1.5 * 2 + 100 + 4 * 7) * 1e-3, 1e-9);
}

TEST(ServingCost, collectivesAreAlphaBeta) {
  ServingEfficiency alpha = figures({{"collective_us", 4}, {"network_us", 20}});
  StepTime step =
      create(deploy("llama-3.1-70b", "nvidia/h100-sxm", NumberFormat::FP8, {8, 1, 1, 1}), &alpha).decodeStep(16, 1000);
  EXPECT_NEAR(step.collectiveLatencyMs, 2 * 80 * 4 * 3 * 1e-3, 1e-9); // log2 8 = 3
  // Ring: 2 · 7/8 of 16 tokens of 8192 elements of 2 bytes, twice in each of 80 layers, 450 GB/s one way.
  EXPECT_NEAR(step.collectiveTransferMs, 2 * 7.0 / 8 * 16 * 8192 * 2 * 2 * 80 / 450e9 * 1e3, 1e-6);
  // Two nodes of eight.
  StepTime far =
      create(deploy("llama-3.1-70b", "nvidia/h100-sxm", NumberFormat::FP8, {16, 1, 1, 1}), &alpha).decodeStep(16, 1000);
  EXPECT_NEAR(far.collectiveLatencyMs, 2 * 80 * (4 * 4 + 20 * 1) * 1e-3, 1e-9);
  EXPECT_NEAR(far.collectiveTransferMs, 16 * 8192 * 2 * 2 * 80 * (2 * 15.0 / 16 / 450e9 + 2 * 0.5 / 50e9) * 1e3, 1e-6);
  // One device exchanges nothing.
  StepTime alone = create(deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::FP8), &alpha).decodeStep(16, 1000);
  EXPECT_EQ(alone.collectiveLatencyMs + alone.collectiveTransferMs, 0);
}

TEST(ServingCost, expertsAreReadAsTokensTouchThem) {
  ServingEfficiency bare = figures({{"expert_dispersion", 0.5}});
  ServingCost cost = create(deploy("mixtral-8x7b", "nvidia/h200-sxm", NumberFormat::BF16), &bare);
  const ModelShape &mixtral = *cost.deployment().shape;
  double one = cost.decodeStep(1, 1).streamingMs, many = cost.decodeStep(64, 1).streamingMs;
  EXPECT_NEAR(many - one,
              mixtral.allExpertParameters() * 2 * (mixtral.expertsTouched(64, 0.5) - mixtral.expertsTouched(1, 0.5)) /
                  4800e9 * 1e3,
              1e-6);
}

TEST(ServingCost, sharedPoolsCarryPrompts) {
  ServingEfficiency bare = figures({{"interference.vllm", 0.5}});
  ServingCost cost = create(deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16), &bare);
  StepTime alone = cost.decodeStep(9, 1024 + 64), shared = cost.sharedStep(9, 1024, 128);
  // Eight others start a prompt every 128 steps.
  EXPECT_NEAR(shared.interferenceMs, 8.0 / 128 * cost.prefillBusyMs(1024) * 0.5, 1e-9);
  EXPECT_NEAR(shared.totalMs, alone.totalMs + shared.interferenceMs, 1e-9);
  EXPECT_NEAR(cost.sharedStep(9, 1024, 128, true).interferenceMs, shared.interferenceMs / 2, 1e-9);
  EXPECT_EQ(cost.sharedStep(1, 1024, 128).interferenceMs, 0);
  // A prompt: 2 flops a weight and token, and scores over half the prompt on average.
  EXPECT_NEAR(cost.prefillBusyMs(1024), cost.deployment().shape->prefillFlops(1024) / 989e12 * 1e3, 1e-6);
}

TEST(ServingCost, firstTokensTakeLayersAndMatmuls) {
  ServingEfficiency first = figures({{"first.overhead_us", 10000},
                                     {"first.overhead_factor.sglang", 2},
                                     {"first.layer_us", 100},
                                     {"first.wait", 0.25},
                                     {"first.one_phase_us", 5000},
                                     {"first.power_cap_factor", 1.5}});
  Deployment deployment = deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16);
  deployment.engine = ServingEngine::SGLang;
  ServingCost cost = create(deployment, &first);
  // 4096 tokens are bound by matmuls, to which streaming adds 4e-7 of them in the 4-norm; 32 layers take 3.2 ms.
  double own = cost.deployment().shape->prefillFlops(4096) / 989e12 * 1e3 + 3.2;
  EXPECT_NEAR(cost.firstToken(4096).totalMs, 20 + own, 0.01);
  // Each of three others adds a quarter; over three workers a third of that; a burst half of each.
  EXPECT_NEAR(cost.firstToken(4096, 1, 4).totalMs, 20 + own * 1.75, 0.01);
  EXPECT_NEAR(cost.firstToken(4096, 1, 4, 3).totalMs, 20 + own * 1.25, 0.01);
  EXPECT_NEAR(cost.firstToken(4096, 1, 4, 1, true).totalMs, 20 + own * 2.5, 0.01);
  // Two prompts together: twice the matmuls, the same layers.
  EXPECT_NEAR(cost.firstToken(4096, 2).totalMs, 20 + (own - 3.2) * 2 + 3.2, 0.01);
  deployment.onePhase = deployment.powerCapped = true;
  EXPECT_NEAR(create(deployment, &first).firstToken(4096).totalMs, 20 + own * 1.5 + 5, 0.01);
  // Long prompts: 1 + slowdown · t²/(t² + tokens²), half of the slowdown at `tokens`.
  ServingEfficiency slower = figures({{"first.long_slowdown", 0.6}, {"first.long_tokens", 4096}});
  deployment.onePhase = deployment.powerCapped = false;
  EXPECT_NEAR(create(deployment, &slower).firstToken(4096).totalMs, (own - 3.2) * 1.3, 0.01);
  // What is fixed is by engine, layer and device.
  ServingEfficiency slowHosts = figures({{"first.overhead_us", 10000},
                                         {"first.layer_us", 100},
                                         {"first.layer_factor.sglang", 3},
                                         {"first.hopper_factor", 1.5}});
  EXPECT_NEAR(create(deployment, &slowHosts).firstToken(4096).fixedMs, (10 + 3.2 * 3) * 1.5, 1e-9);
  Deployment newer = deploy("llama-3.1-8b", "nvidia/b200-sxm", NumberFormat::BF16);
  EXPECT_NEAR(create(newer, &slowHosts).firstToken(4096).fixedMs, 10 + 3.2, 1e-9);
}

//===-- Times of measured operators ---------------------------------------------------------------------------===//

/// Returns microseconds of a linear in bf16 with weights that are not in the cache.
static double linearUs(const GpuCosts &costs, double rows, double columns, double depth) {
  GpuKernelShape shape;
  shape.rows = rows;
  shape.columns = columns;
  shape.depth = depth;
  return costs.microseconds(shape, "bf16");
}

TEST(ServingCost, operatorsAreThoseOfTheLayers) {
  ServingEfficiency bare = figures({}, /*operators=*/true);
  ServingCost cost = create(deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16), &bare);
  GpuCosts costs = llvm::cantFail(GpuCosts::create(*cost.deployment().device));
  // 32 heads and 8 of keys of 128 features, hidden 4096, feed-forward parts of 14336 with a gate.
  auto layer = [&](double rows) {
    return linearUs(costs, rows, (32 + 2 * 8) * 128, 4096) + linearUs(costs, rows, 4096, 4096) +
           linearUs(costs, rows, 2 * 14336, 4096) + linearUs(costs, rows, 4096, 14336);
  };
  GpuKernelShape attention;
  attention.kind = GpuKernelKind::Decode;
  attention.batch = 4;
  attention.columns = 1000;
  attention.depth = 128;
  attention.heads = 32;
  attention.keyHeads = 8;
  StepTime step = cost.decodeStep(4, 1000);
  EXPECT_NEAR(step.streamingMs, (32 * layer(4) + linearUs(costs, 4, 128256, 4096)) * 1e-3, 1e-9);
  EXPECT_NEAR(step.cacheMs, 32 * costs.microseconds(attention, "bf16") * 1e-3, 1e-9);
  EXPECT_NEAR(step.totalMs, step.streamingMs + step.cacheMs, 1e-9);
  // A prompt of 4096 tokens, whose last row alone passes the head.
  attention.kind = GpuKernelKind::Prefill;
  attention.batch = 1;
  attention.rows = attention.columns = 4096;
  EXPECT_NEAR(cost.firstToken(4096).totalMs,
              (32 * (layer(4096) + costs.microseconds(attention, "bf16")) + linearUs(costs, 1, 128256, 4096)) * 1e-3,
              1e-9);
  EXPECT_NEAR(cost.prefillBusyMs(4096), cost.firstToken(4096).totalMs, 1e-9);
}

TEST(ServingCost, stepsThatHoldPromptsTakeLonger) {
  Deployment deployment = deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16);
  ServingEfficiency bare = figures({}, /*operators=*/true);
  ServingEfficiency slower = figures({{"prefill_layer_us", 50}}, /*operators=*/true);
  ServingCost without = create(deployment, &bare), with = create(deployment, &slower);
  double layers = 32 * 50e-3;
  auto interference = [](const ServingCost &cost, double batch, double prompt, double output) {
    return cost.sharedStep(batch, prompt, output).interferenceMs;
  };
  // One prompt in every second step; of 8192 tokens, in two steps.
  EXPECT_NEAR(interference(with, 2, 1024, 2) - interference(without, 2, 1024, 2), layers / 2, 1e-9);
  EXPECT_NEAR(interference(with, 2, 8192, 2) - interference(without, 2, 8192, 2), 2 * layers / 2, 1e-9);
  // Four prompts of 1024 tokens fill a step, and eight take two.
  EXPECT_NEAR(interference(with, 9, 1024, 2) - interference(without, 9, 1024, 2), layers, 1e-9);
  EXPECT_NEAR(interference(with, 9, 1024, 1) - interference(without, 9, 1024, 1), 2 * layers, 1e-9);
  EXPECT_NEAR(with.prefillBusyMs(1024) - without.prefillBusyMs(1024), layers / 4, 1e-9);
  EXPECT_NEAR(with.prefillBusyMs(8192) - without.prefillBusyMs(8192), 2 * layers, 1e-9);
}

TEST(ServingCost, operatorsOfTensorDevicesReduce) {
  ServingEfficiency bare = figures({{"linear_factor", 1.5}}, /*operators=*/true);
  Deployment deployment = deploy("llama-3.1-70b", "nvidia/h100-sxm", NumberFormat::FP8, {8, 1, 1, 1});
  StepTime step = create(deployment, &bare).decodeStep(16, 1000);
  const AllReduceFigures &figures = GpuKernelTable::get().allReduce(*deployment.device);
  EXPECT_NEAR(step.collectiveLatencyMs, 2 * 80 * allReduceUs(8, 16 * 8192 * 2, 450, figures) * 1e-3, 1e-9);
  EXPECT_EQ(step.collectiveTransferMs, 0);
  ServingEfficiency one = deployments::figures({}, /*operators=*/true);
  EXPECT_NEAR(step.streamingMs, 1.5 * create(deployment, &one).decodeStep(16, 1000).streamingMs, 1e-9);
}

TEST(ServingCost, operatorsOfExpertsAreThoseThatTokensTouch) {
  ServingEfficiency bare = figures({{"expert_dispersion", 0.5}}, /*operators=*/true);
  Deployment deployment = deploy("mixtral-8x7b", "nvidia/h200-sxm", NumberFormat::BF16);
  ServingCost cost = create(deployment, &bare);
  // Two of eight experts for one token, all of them for many: four times the bytes, and less than four times the time.
  double one = cost.decodeStep(1, 1).streamingMs, many = cost.decodeStep(64, 1).streamingMs;
  double bytes = deployment.shape->allExpertParameters() * 2;
  EXPECT_GT(many - one, 0.6 * bytes / 4800e9 * 1e3);
  EXPECT_LT(many - one, 1.5 * bytes / 4800e9 * 1e3);
}

TEST(ServingCost, promptsShareTheStepsOfEnginesThatMixPhases) {
  ServingEfficiency bare = figures({}, /*operators=*/true);
  Deployment deployment = deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16);
  auto extended = [&](ServingEngine engine, double prompt) {
    deployment.engine = engine;
    return create(deployment, &bare).promptsInStepMs(2, prompt, 1); // a prompt in every step
  };
  // A step of its own reads all weights once more, less those of the embedding and of the head (bf16, 3350 GB/s).
  double weights = (8.030e9 - 2 * 128256.0 * 4096) * 2 / 3350e9 * 1e3;
  EXPECT_GT(extended(ServingEngine::SGLang, 16), weights);
  EXPECT_LT(extended(ServingEngine::VLLM, 16), 0.2 * weights);
  EXPECT_EQ(extended(ServingEngine::VLLM, 16), extended(ServingEngine::TensorRTLLM, 16));
  // The arithmetic of a long prompt is saved by nobody.
  EXPECT_GT(extended(ServingEngine::VLLM, 4096), 0.9 * extended(ServingEngine::SGLang, 4096));
  ServingCost cost = create(deployment, &bare);
  EXPECT_EQ(cost.sharedStep(9, 1024, 100).interferenceMs, cost.promptsInStepMs(9, 1024, 100));
}

TEST(ServingCost, aStepWaitsForTheDeviceOfMostExperts) {
  ServingEfficiency bare = figures({{"expert_dispersion", 0.5}}, /*operators=*/true);
  auto experts = [&](int degree, double batch) {
    Deployment deployment = deploy("qwen3-235b-a22b", "nvidia/h200-sxm", NumberFormat::BF16, {8, 1, degree, 1});
    return create(deployment, &bare).decodeStep(batch, 1).streamingMs;
  };
  // Eight parts of every expert are the same work on all devices. Of whole experts, one device has more than its eighth
  // while a part of them is touched, and no more than all of its own in a large batch.
  const ModelShape &shape = *llvm::cantFail(findShape("qwen3-235b-a22b"));
  double each = shape.allExpertParameters() * 2 / 8 / 4800e9 * 1e3, share = shape.expertsTouched(8, 0.5);
  double deviation = std::sqrt(16 * share * (1 - share) * 7 / 8); // of the 16 experts of a device
  // The largest of eight normal values is expected at 1.42 (tables of order statistics).
  EXPECT_NEAR(experts(8, 8) - experts(1, 8), each * 1.42 * deviation / 16, 0.35 * each * 1.42 * deviation / 16);
  EXPECT_LT(experts(8, 4096), 1.1 * experts(1, 4096));
}

TEST(ServingCost, sharedExpertsRunBesideTheOthers) {
  ServingEfficiency bare = figures({{"expert_dispersion", 0.5}}, /*operators=*/true);
  Deployment deployment = deploy("deepseek-v3", "nvidia/h200-sxm", NumberFormat::FP8, {8, 1, 1, 1});
  ModelShape without = *deployment.shape;
  without.sharedWidth = 0;
  double with = create(deployment, &bare).decodeStep(8, 1000).streamingMs;
  deployment.shape = &without;
  // Their weights are read, 2048 columns of three matrices in 58 layers, and nothing is started for them alone.
  double read = 3.0 * 2048 * 7168 / 8 * 58 / 4800e9 * 1e3;
  double added = with - create(deployment, &bare).decodeStep(8, 1000).streamingMs;
  EXPECT_GE(added, read);
  EXPECT_LT(added, 1.5 * read);
}

TEST(ServingCost, normsOverAllHeadsReduce) {
  ServingEfficiency bare = figures({}, /*operators=*/true);
  Deployment deployment = deploy("minimax-m2.5", "nvidia/h200-sxm", NumberFormat::FP8, {4, 1, 1, 1});
  ASSERT_TRUE(deployment.shape->attention.front().normsOverHeads);
  ModelShape byHead = *deployment.shape;
  for (AttentionLayers &layers : byHead.attention)
    layers.normsOverHeads = false;
  double with = create(deployment, &bare).decodeStep(16, 1000).collectiveLatencyMs;
  deployment.shape = &byHead;
  double added = with - create(deployment, &bare).decodeStep(16, 1000).collectiveLatencyMs;
  const AllReduceFigures &figures = GpuKernelTable::get().allReduce(*deployment.device);
  EXPECT_NEAR(added, byHead.layers * allReduceUs(4, 16 * 2 * 4, 450, figures) * 1e-3, 1e-9);
}

TEST(ServingCost, theLastProjectionOfAttentionMayHaveItsOwnFormat) {
  ServingEfficiency bare = figures({}, /*operators=*/true);
  Deployment deployment = deploy("deepseek-v3", "nvidia/b200-sxm", NumberFormat::FP4, {8, 1, 1, 1});
  ServingCost sixteen = create(deployment, &bare);
  deployment.precision.attentionOutput = NumberFormat::FP4;
  ServingCost four = create(deployment, &bare);
  // 128 heads of 128 values, hidden 7168, 61 layers; a scale for each 16 elements.
  EXPECT_NEAR(sixteen.weightBytesPerDevice() - four.weightBytesPerDevice(), 128.0 * 128 * 7168 * 61 / 8 * (2 - 0.5625),
              1);
  EXPECT_LT(four.decodeStep(1, 1000).streamingMs, sixteen.decodeStep(1, 1000).streamingMs);
}

TEST(ServingCost, devicesWithoutTablesTakeThoseOfTheNearest) {
  ServingEfficiency bare = figures({}, /*operators=*/true);
  // The catalogue has no number of multiprocessors of it: an H100's, at its own peak and bandwidth.
  Deployment gaudi = deploy("llama-3.1-8b", "intel/gaudi3", NumberFormat::BF16);
  ASSERT_FALSE(gaudi.device->multiprocessors);
  ServingCost cost = create(gaudi, &bare);
  EXPECT_EQ(cost.carriedOver(), "efficiencies of hopper carried over to gaudi");
  double ratio =
      cost.decodeStep(1, 1000).streamingMs /
      create(deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16), &bare).decodeStep(1, 1000).streamingMs;
  EXPECT_NEAR(ratio, 3350 / *gaudi.device->need(gaudi.device->memoryGBps, "memory_gbps"), 0.05);
}

TEST(ServingCost, processorsHaveNoKernelsOfGpus) {
  // A device of the user that takes the shares of a GPU: no tiles of many rows are padded at its rate.
  ServingEfficiency kernels = figures({{"dense_bandwidth", 0.8}}, /*operators=*/true);
  ServingEfficiency shares = figures({{"dense_bandwidth", 0.8}});
  Deployment deployment = deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16);
  CatalogueDevice processor = *deployment.device;
  processor.target = "cpu:x86-64-v3";
  deployment.device = &processor;
  EXPECT_EQ(create(deployment, &kernels).decodeStep(1, 1000).totalMs,
            create(deployment, &shares).decodeStep(1, 1000).totalMs);
}

TEST(ServingCost, poolsOfOnePhaseHaveAFactor) {
  ServingEfficiency apart = figures({{"one_phase_factor", 0.9}});
  Deployment deployment = deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16);
  double both = create(deployment, &apart).decodeStep(4, 1000).totalMs;
  deployment.onePhase = true;
  EXPECT_NEAR(create(deployment, &apart).decodeStep(4, 1000).totalMs, both * 0.9, 1e-9);
}

TEST(ServingCost, expertsUnderAttentionDataAreDispatched) {
  ServingEfficiency bare = figures();
  StepTime step =
      create(deploy("deepseek-v3", "nvidia/h200-sxm", NumberFormat::FP8, {1, 8, 8, 1}), &bare).decodeStep(64, 1000);
  // 8 tokens a rank of 7168 elements, 1 byte there and 2 back, to 8·(1 − (7/8)^8) devices, in 58 layers.
  double copies = 8 * (1 - std::pow(7.0 / 8, 8));
  EXPECT_NEAR(step.collectiveTransferMs, 8 * 7168 * 3.0 * copies * 58 / 450e9 * 1e3, 1e-6);
}

TEST(ServingCost, draftedTokensShareAStep) {
  ServingEfficiency bare = figures();
  Deployment deployment = deploy("llama-3.1-8b", "nvidia/h100-sxm", NumberFormat::BF16);
  double plain = create(deployment, &bare).decodeStep(1, 1000).totalMs;
  deployment.tokensPerStep = 1.6;
  // Streaming is the same; twice as many positions are far below it.
  EXPECT_NEAR(create(deployment, &bare).decodeStep(1, 1000).totalMs, plain / 1.6, 1e-3);
}

TEST(ServingCost, stagesShareMemoryNotTime) {
  ServingEfficiency bare = figures();
  Deployment one = deploy("llama-3.1-70b", "nvidia/h100-sxm", NumberFormat::FP8, {2, 1, 1, 1});
  Deployment two = deploy("llama-3.1-70b", "nvidia/h100-sxm", NumberFormat::FP8, {2, 1, 1, 2});
  ServingCost single = create(one, &bare), staged = create(two, &bare);
  EXPECT_NEAR(staged.cacheBytesPerDevice(1000) * 2, single.cacheBytesPerDevice(1000), 1e-6);
  EXPECT_LT(staged.weightBytesPerDevice(), single.weightBytesPerDevice() * 0.53);
  // Each token still passes all layers, with half of the batch beside it.
  EXPECT_NEAR(staged.decodeStep(2, 1000).streamingMs, single.decodeStep(1, 1000).streamingMs, 1e-9);
  EXPECT_NEAR(staged.prefillBusyMs(1000) * 2, single.prefillBusyMs(1000), 1e-9);
}

TEST(ServingCost, memoryBoundsTheBatch) {
  ServingCost cost = create(deploy("llama-3.1-70b", "nvidia/h100-sxm", NumberFormat::FP8, {4, 1, 1, 1}));
  // 0.88 · 80 GB less a quarter of 68.45e9 bytes and of two tables in BF16; 327,680 / 4 bytes a token.
  double weights = (70.55e9 - 2 * 128256.0 * 8192) / 4 + 2 * 2 * 128256.0 * 8192 / 4;
  EXPECT_NEAR(cost.weightBytesPerDevice(), weights, 1e7);
  EXPECT_NEAR(llvm::cantFail(cost.largestBatch(2000)), (0.88 * 80e9 - weights) / (327680.0 / 4 * 2000), 0.2);
  ServingCost small = create(deploy("llama-3.1-70b", "nvidia/h100-sxm", NumberFormat::BF16));
  EXPECT_EQ(llvm::toString(small.largestBatch(1).takeError()),
            "llama-3.1-70b on nvidia/h100-sxm: weights take 141.1 GB a device, 70.4 of 80 GB are usable; use more "
            "devices (now 1) or fewer bits");
}

TEST(ServingCost, moreLoadIsNeverFaster) {
  for (StringRef model : {"llama-3.1-70b", "deepseek-v3", "qwen3.5-397b-a17b", "gpt-oss-120b", "glm-5"}) {
    ServingCost cost = create(deploy(model, "nvidia/b200-sxm", NumberFormat::FP8,
                                     {8, 1, llvm::cantFail(findShape(model))->experts ? 8 : 1, 1}));
    double last = 0;
    for (double batch : {1, 2, 8, 64, 512}) {
      StepTime step = cost.decodeStep(batch, 2000);
      EXPECT_GT(step.totalMs, last) << model.str();
      EXPECT_TRUE(std::isfinite(step.totalMs));
      last = step.totalMs;
    }
    EXPECT_GT(cost.decodeStep(8, 50000).totalMs, cost.decodeStep(8, 500).totalMs) << model.str();
    EXPECT_GT(cost.firstToken(8000).totalMs, cost.firstToken(1000).totalMs) << model.str();
    EXPECT_GE(cost.firstToken(1000, 1, 8).totalMs, cost.firstToken(1000).totalMs) << model.str();
  }
}

TEST(ServingCost, absurdLoadsGiveFiniteTimes) {
  ServingCost cost = create(deploy("deepseek-v3", "nvidia/h200-sxm", NumberFormat::FP8, {8, 1, 8, 1}));
  for (double load : {double(NAN), -5.0, 0.0})
    for (double tokens : {double(NAN), -1.0, 0.0, 1e7}) {
      EXPECT_TRUE(std::isfinite(cost.decodeStep(load, tokens).totalMs)) << load << " " << tokens;
      EXPECT_TRUE(std::isfinite(cost.firstToken(tokens, load, load, load).totalMs)) << load << " " << tokens;
      EXPECT_TRUE(std::isfinite(cost.sharedStep(load, tokens, load).totalMs)) << load << " " << tokens;
      EXPECT_GT(cost.decodeStep(load, tokens).totalMs, 0);
    }
  EXPECT_EQ(cost.decodeStep(0, 100).totalMs, cost.decodeStep(1, 100).totalMs);
}

TEST(ServingCost, refusesWhatHasNoFigure) {
  EXPECT_EQ(refusal(deploy("llama-3.1-8b", "cerebras/wse-3", NumberFormat::BF16)),
            "llama-3.1-8b on cerebras/wse-3: programs of wafers are not made here");
  Deployment eight = deploy("llama-3.1-8b", "nvidia/a100-sxm", NumberFormat::FP8);
  EXPECT_EQ(eight.precision.compute, NumberFormat::BF16); // weights of 8 bits, matmuls in 16
  eight.precision.compute = NumberFormat::FP8;
  EXPECT_NE(refusal(eight).find("no figure 'peak_tflops.fp8'"), std::string::npos) << refusal(eight);
  EXPECT_NE(refusal(deploy("llama-3.1-70b", "nvidia/h100-pcie", NumberFormat::FP8, {16, 1, 1, 1}))
                .find("no figure 'node.network_gbps'"),
            std::string::npos);
  Deployment splitwise = deploy("llama-3.1-8b", "nvidia/b200-sxm", NumberFormat::BF16);
  splitwise.engine = ServingEngine::Splitwise;
  EXPECT_NE(refusal(splitwise).find("no efficiencies of 'blackwell' were fitted for the engine 'splitwise'"),
            std::string::npos);
}

TEST(ServingCost, refusesDegreesThatDoNotFit) {
  auto with = [](ParallelDegrees degrees, StringRef model = "mixtral-8x7b") {
    return refusal(deploy(model, "nvidia/h100-sxm", NumberFormat::FP8, degrees));
  };
  EXPECT_EQ(with({0, 1, 1, 1}), "mixtral-8x7b on nvidia/h100-sxm: tensor degree 0 is not between 1 and 4096");
  EXPECT_EQ(with({4, 1, 3, 1}),
            "mixtral-8x7b on nvidia/h100-sxm: expert degree 3 does not divide 4 devices (tensor 4 x "
            "attention-data 1)");
  EXPECT_EQ(with({16, 1, 16, 1}), "mixtral-8x7b on nvidia/h100-sxm: expert degree 16, but the model has 8 experts");
  EXPECT_EQ(with({2, 1, 2, 1}, "llama-3.1-8b"),
            "llama-3.1-8b on nvidia/h100-sxm: expert degree 2, but the model has 0 experts");
  EXPECT_EQ(with({1, 1, 1, 33}), "mixtral-8x7b on nvidia/h100-sxm: pipeline degree 33, but the model has 32 layers");
  EXPECT_EQ(with({64, 1, 1, 1}), "mixtral-8x7b on nvidia/h100-sxm: tensor degree 64, but attention has 32 heads");
  EXPECT_EQ(with({2, 1, 1, 1}), "");
}

TEST(ServingCost, saysWhatItCarriesOver) {
  EXPECT_EQ(create(deploy("llama-3.1-8b", "nvidia/h200-sxm", NumberFormat::FP8)).carriedOver(), "");
  EXPECT_EQ(create(deploy("llama-3.1-8b", "intel/gaudi3", NumberFormat::FP8)).carriedOver(),
            "efficiencies of hopper carried over to gaudi");
  EXPECT_EQ(create(deploy("llama-3.1-8b", "paper/b200", NumberFormat::FP8)).carriedOver(), "");
}

// The paper's experiment asks every pair of its six devices; those without 8-bit matmuls say so.
TEST(ServingCost, answersForThePapersDevices) {
  for (const char *model : {"llama-3.1-8b", "llama-3.1-70b"})
    for (const char *name : {"paper/a40", "paper/a100", "paper/gaudi3", "paper/mi300x", "paper/h100", "paper/b200"})
      for (NumberFormat format : {NumberFormat::BF16, NumberFormat::FP8}) {
        Deployment deployment = deploy(model, name, format, {8, 1, 1, 1});
        bool has = deployment.device->peakTflops.count("fp8") || format == NumberFormat::BF16;
        EXPECT_EQ(deployment.precision.compute, has ? format : NumberFormat::BF16) << name;
        ServingCost cost = create(deployment);
        EXPECT_GT(cost.firstToken(512).totalMs, 0) << name;
        EXPECT_GT(cost.decodeStep(1, 4096).totalMs, 0) << name;
        EXPECT_GT(llvm::cantFail(cost.largestBatch(4608)), 1) << name;
      }
}

TEST(ServingCost, efficiencyFilesAreChecked) {
  auto message = [](StringRef from, StringRef to) {
    std::string text = "engines: [vllm]\ngenerations: [hopper]\nfigures:\n";
    for (const char *name : ServingFigures::names())
      if (!StringRef(name).ends_with(".trtllm") && !StringRef(name).ends_with(".sglang") &&
          !StringRef(name).ends_with(".splitwise"))
        text += "  " + std::string(name) + ": 0.5\n";
    size_t at = text.find(from.str());
    EXPECT_NE(at, std::string::npos);
    text.replace(at, from.size(), to.str());
    llvm::Expected<ServingEfficiency> parsed = ServingEfficiency::parse(text, "s.yaml");
    return parsed ? std::string() : llvm::toString(parsed.takeError());
  };
  EXPECT_EQ(message("  layer_us: 0.5", "  layer_us: 0.5"), "");
  EXPECT_EQ(message("  layer_us: 0.5", "  layer_us: -1"), "s.yaml:4: figures: layer_us -1.00 is not above zero");
  EXPECT_EQ(message("  layer_us: 0.5", "  layer: 0.5"), "s.yaml:4: figures: unknown figure 'layer'");
  EXPECT_EQ(message("  layer_us: 0.5\n", ""), "s.yaml:4: figures: 'layer_us' is missing");
  EXPECT_EQ(message("dense_bandwidth: 0.5", "dense_bandwidth: 1.2"),
            "s.yaml:17: figures: dense_bandwidth 1.20: an efficiency is at most 1");
  EXPECT_EQ(message("[vllm]", "[vlm]"),
            "s.yaml:1: no figures of serving engine 'vlm'; there are trtllm, vllm, sglang, splitwise");
}

TEST(ServingCost, residualsOfTheFitAreKept) {
  for (ServingEngine engine : {ServingEngine::VLLM, ServingEngine::Splitwise})
    for (const char *kind : {"decode", "first_token"}) {
      const ServingResiduals *residuals = ServingEfficiency::of(engine).residualsOf(kind);
      ASSERT_NE(residuals, nullptr);
      EXPECT_GT(residuals->rows, 200);
      EXPECT_EQ(residuals->quantiles.size(), 19u);
      EXPECT_GT(residuals->rowSpread, 0.01);
      EXPECT_LT(std::abs(residuals->quantiles[9]), 0.15) << "the middle prediction is near what is measured";
    }
  EXPECT_EQ(ServingEfficiency::of(ServingEngine::VLLM).residualsOf("tool"), nullptr);
}
