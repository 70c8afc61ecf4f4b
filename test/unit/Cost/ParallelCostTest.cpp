//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The formula of parallel configurations against what the papers print: counts, volumes, bubbles, memory.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelCost.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace intarsia;
using llvm::StringRef;

namespace {

ModelShape gpt(int layers, int hidden, int heads, int vocabulary = 51200) {
  ModelShape shape;
  shape.hidden = hidden;
  shape.layers = shape.denseLayers = layers;
  shape.vocabulary = vocabulary;
  shape.tiedEmbeddings = true;
  AttentionLayers attention;
  attention.layers = layers;
  attention.heads = attention.keyHeads = heads;
  attention.keyDim = attention.valueDim = hidden / heads;
  shape.attention = {attention};
  shape.feedForwardMatrices = 2;
  shape.denseWidth = 4 * hidden;
  return shape;
}

/// Figures with which only the volume counts: nothing is fixed, links deliver what they promise.
ParallelFigures plain() {
  ParallelFigures figures;
  figures.linkUs = figures.networkUs = figures.layerUs = figures.stepUs = 1e-9;
  figures.link = figures.network = 1;
  return figures;
}

/// DGX A100.
Cluster dgx(int devices) { return {312, 80, 2039, 300, 25, 8, devices}; }

TrainingRun runOf(const ModelShape &shape, double batch, double microBatch = 1) {
  TrainingRun run;
  run.shape = &shape;
  run.sequence = 2048;
  run.globalBatch = batch;
  run.microBatch = microBatch;
  run.overlapsData = false;
  return run;
}

ParallelMapping degrees(int tensor, int pipeline, int data) {
  ParallelMapping mapping;
  mapping.tensor = tensor;
  mapping.pipeline = pipeline;
  mapping.data = data;
  return mapping;
}

std::string messageOf(llvm::Expected<ParallelFigures> read) { return read ? "" : llvm::toString(read.takeError()); }

} // namespace

TEST(ParallelCost, parametersAreThoseOfMegatron) {
  // arXiv 2104.04473, Table 1: layers, hidden size, heads, billions of parameters. Positions, norms and biases are what
  // the counts lack.
  struct Model {
    int layers, hidden, heads;
    double billions;
  };
  for (const Model &model :
       {Model{24, 2304, 24, 1.7}, Model{30, 3072, 32, 3.6}, Model{36, 4096, 32, 7.5}, Model{40, 6144, 48, 18.4},
        Model{48, 8192, 64, 39.1}, Model{60, 10240, 80, 76.1}, Model{80, 12288, 96, 145.6},
        Model{96, 16384, 128, 310.1}, Model{105, 20480, 128, 529.6}, Model{128, 25600, 160, 1008.0}})
    EXPECT_NEAR(gpt(model.layers, model.hidden, model.heads).parameters() / 1e9, model.billions,
                0.05 + 0.01 * model.billions);
}

TEST(ParallelCost, flopsAreThoseOfMegatron) {
  // Equation 3 with 72 for 96, because nothing is recomputed here; the paper counts the head three times, as we do.
  double b = 512, s = 2048, l = 24, h = 2304, v = 51200;
  double expected = 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  EXPECT_NEAR(modelFlops(gpt(24, 2304, 24), s, b, false), expected, 1e-9 * expected);
}

TEST(ParallelCost, tensorVolume) {
  // Section 3.2: 8 b s h (t - 1) / t elements of two bytes a layer and micro-batch, recomputation aside.
  ModelShape shape = gpt(40, 6144, 48);
  TrainingRun run = runOf(shape, 4, 4);
  for (int t : {2, 4, 8}) {
    StepTime time = trainingStep(run, dgx(t), degrees(t, 1, 1), plain());
    double bytes = 2 * 8 * 4.0 * 2048 * 6144 * (t - 1) / t * 40;
    double head = 2.0 * 2 * 4 * 2048 * 6144 * (t - 1) / t;
    EXPECT_NEAR(time.tensorMs, (bytes + head) / 300e9 * 1e3, 1e-3 * time.tensorMs) << t;
  }
}

TEST(ParallelCost, recomputationIsAThirdMore) {
  ModelShape shape = gpt(40, 6144, 48);
  TrainingRun run = runOf(shape, 8);
  StepTime once = trainingStep(run, dgx(1), degrees(1, 1, 1), plain());
  run.recompute = Recompute::Full;
  StepTime again = trainingStep(run, dgx(1), degrees(1, 1, 1), plain());
  EXPECT_GT(again.linearMs / once.linearMs, 1.3); // the head is not recomputed
  EXPECT_LT(again.linearMs / once.linearMs, 4 / 3.0);
}

TEST(ParallelCost, bubbles) {
  // Sections 2.2.1 and 2.2.2: (p - 1) / m of the ideal time, (p - 1) / (m v) interleaved. Exact for equal stages, so
  // without a head: a vocabulary of one word.
  ModelShape shape = gpt(96, 4096, 32, 1);
  TrainingRun run = runOf(shape, 64);
  for (int p : {2, 4, 8})
    for (int v : {1, 2, 3}) {
      ParallelMapping mapping = degrees(1, p, 1);
      mapping.chunks = v;
      mapping.order = v > 1 ? PipelineOrder::Interleaved : PipelineOrder::OneForwardOneBackward;
      StepTime time = trainingStep(run, dgx(p), mapping, plain());
      double ideal = time.linearMs + time.attentionMs + time.elementwiseMs + time.launchMs;
      EXPECT_NEAR(time.bubbleMs / ideal, (p - 1) / (64.0 * v), 1e-3 * (p - 1) / (64.0 * v)) << p << " " << v;
    }
}

TEST(ParallelCost, gatheredWeightsPassThreeTimes) {
  // arXiv 1910.02054, section 7: ZeRO 3 moves 3 times the parameters, the others twice as many.
  ModelShape shape = gpt(24, 4096, 32);
  TrainingRun run = runOf(shape, 8);
  run.gradientBytes = 2;
  ParallelMapping mapping = degrees(1, 1, 8);
  double times[4];
  for (int zero : {0, 1, 2, 3}) {
    mapping.zero = zero;
    times[zero] = trainingStep(run, dgx(8), mapping, plain()).dataMs;
  }
  EXPECT_NEAR(times[1], times[0], 1e-6 * times[0]);
  EXPECT_NEAR(times[3], 1.5 * times[0], 1e-6 * times[0]);
}

TEST(ParallelCost, statesAreThoseOfZero) {
  // arXiv 1910.02054, figure 1: 7.5 billion parameters on 64 devices need 120, 31.4, 16.6 and 1.9 GB, with gradients in
  // 16 bits. The shape has 7.5 billion less its embeddings' rest, so the figures are taken a parameter.
  ModelShape shape = gpt(36, 4096, 32);
  TrainingRun run = runOf(shape, 64);
  run.gradientBytes = 2;
  ParallelMapping mapping = degrees(1, 1, 64);
  const double expected[] = {120, 31.4, 16.6, 1.9};
  for (int zero : {0, 1, 2, 3}) {
    mapping.zero = zero;
    TrainingMemory memory = trainingMemory(run, mapping);
    double gigabytes = (memory.weights + memory.gradients + memory.states) / shape.parameters() * 7.5;
    EXPECT_NEAR(gigabytes, expected[zero], 0.05) << zero;
  }
}

TEST(ParallelCost, shardedWeightsOverManyDevicesAreSlowerThanThreeDimensions) {
  // arXiv 2104.04473, Table 2: teraflops a second and device, by equation 3, of ZeRO 3 without model parallelism and of
  // tensor by pipeline parallelism (8 x 12 and 8 x 35). No figure is fitted to it.
  struct Run {
    int layers, hidden, heads;
    double batch;
    int devices, microBatch;
    double sharded, threeDimensions;
    int pipeline;
  };
  for (const Run &row :
       {Run{96, 12288, 96, 1536, 384, 4, 144, 153, 12}, Run{96, 12288, 96, 1536, 768, 2, 88, 149, 12},
        Run{96, 12288, 96, 1536, 1536, 1, 44, 141, 12}, Run{105, 20480, 128, 2240, 1120, 2, 98, 167, 35},
        Run{105, 20480, 128, 2240, 2240, 1, 48, 159, 35}}) {
    ModelShape shape = gpt(row.layers, row.hidden, row.heads);
    double h = row.hidden, l = row.layers;
    double flops = 96 * row.batch * 2048 * l * h * h * (1 + 2048 / (6 * h) + 51200 / (16 * l * h));
    TrainingRun run = runOf(shape, row.batch, row.microBatch);
    run.recompute = Recompute::Full;
    run.fusedAttention = false;
    run.gradientBytes = 2;
    run.overlapsData = true;
    ParallelMapping sharded = degrees(1, 1, row.devices);
    sharded.zero = 3;
    auto seconds = [&](const TrainingRun &of, const ParallelMapping &mapping) {
      return trainingStep(of, dgx(row.devices), mapping, ParallelFigures::get()).totalMs / 1e3;
    };
    auto measured = [&](double teraflops) { return flops / row.devices / teraflops / 1e12; };
    double predicted = seconds(run, sharded);
    EXPECT_GT(predicted, measured(row.sharded) / 1.4) << row.devices;
    EXPECT_LT(predicted, measured(row.sharded) * 1.4) << row.devices;
    run.microBatch = 1;
    run.overlapsData = false;
    double other = seconds(run, degrees(8, row.pipeline, row.devices / 8 / row.pipeline));
    EXPECT_NEAR(other, measured(row.threeDimensions), 0.2 * measured(row.threeDimensions)) << row.devices;
    EXPECT_GT(predicted, other) << row.devices;
    if (row.microBatch == 1) // a third of the speed, as measured
      EXPECT_GT(predicted, 2 * other) << row.devices;
  }
}

TEST(ParallelCost, scoresAndHeadStayInSixteenBits) {
  ModelShape shape = gpt(24, 4096, 32);
  TrainingRun run = runOf(shape, 8);
  Cluster cluster = dgx(8);
  StepTime before = trainingStep(run, cluster, degrees(1, 1, 8), plain());
  cluster.sixteenBitTflops = cluster.peakTflops;
  cluster.peakTflops *= 4;
  StepTime after = trainingStep(run, cluster, degrees(1, 1, 8), plain());
  EXPECT_EQ(after.attentionMs, before.attentionMs);
  EXPECT_LT(after.linearMs, before.linearMs);
  double head = 3 * 2.0 * 2048 * 51200 * 4096 / (312e12 * plain().linearCompute) * 1e3;
  EXPECT_GT(after.linearMs, before.linearMs / 4 + head * 3 / 4 * 0.99);
  const CatalogueDevice &device = *llvm::cantFail(findDevice("nvidia/b200-sxm"));
  Cluster four = llvm::cantFail(Cluster::of(device, "fp4", 8)),
          sixteen = llvm::cantFail(Cluster::of(device, "bf16", 8));
  EXPECT_GT(four.peakTflops, 2 * sixteen.peakTflops);
  EXPECT_EQ(four.scoresTflops(), sixteen.peakTflops);
  EXPECT_EQ(sixteen.scoresTflops(), sixteen.peakTflops);
}

TEST(ParallelCost, activationsAreThoseOfKorthikanti) {
  // arXiv 2205.05198, equations 1, 2 and 4: s b h (34 + 5 a s / h) a layer, tensor parallel s b h (10 + 24 / t + 5 a s
  // / (h t)), with sequence parallelism s b h (34 + 5 a s / h) / t. Attention's 11 s b h and the widened part's 19 are
  // counted as 8 and 16 inside and the norms' and masks' rest outside.
  ModelShape shape = gpt(1, 6144, 48);
  TrainingRun run = runOf(shape, 1);
  run.fusedAttention = false;
  double sbh = 2048.0 * 6144, scores = 5 * 48 * 2048.0 / 6144;
  EXPECT_NEAR(trainingMemory(run, degrees(1, 1, 1)).activations, sbh * (34 + scores), 1);
  EXPECT_NEAR(trainingMemory(run, degrees(8, 1, 1)).activations, sbh * (10 + 24 / 8.0 + scores / 8), 1);
  ParallelMapping mapping = degrees(8, 1, 1);
  mapping.sequence = true;
  EXPECT_NEAR(trainingMemory(run, mapping).activations, sbh * (34 + scores) / 8, 1);
}

TEST(ParallelCost, mixturesHaveTheirPublishedParameters) {
  // Published: 141 and 39 billion, 57 and 14 billion (model cards of Mixtral-8x22B and Qwen2-57B-A14B).
  ModelShape mixtral = gpt(56, 6144, 48, 32768);
  mixtral.tiedEmbeddings = false;
  mixtral.attention[0].keyHeads = 8;
  mixtral.feedForwardMatrices = 3;
  mixtral.denseLayers = 0;
  mixtral.expertLayers = 56;
  mixtral.experts = 8;
  mixtral.expertsPerToken = 2;
  mixtral.expertWidth = 16384;
  EXPECT_NEAR(mixtral.parameters() / 1e9, 141, 1);
  EXPECT_NEAR(mixtral.activeParameters() / 1e9, 39, 0.5);
}

TEST(ParallelCost, refusesDegreesThatDoNotDivide) {
  ModelShape shape = gpt(24, 2304, 24);
  TrainingRun run = runOf(shape, 64);
  auto why = [&](ParallelMapping mapping, int devices) { return whyNotMapped(run, mapping, devices); };
  EXPECT_EQ(why(degrees(8, 1, 2), 16), "");
  EXPECT_EQ(why(degrees(16, 1, 1), 16),
            "tensor degree 16: 24 heads are not divided by it; 12 is the largest that works");
  EXPECT_EQ(why(degrees(1, 32, 1), 32), "32 stages of 1 chunks: the model has 24 layers");
  EXPECT_EQ(why(degrees(1, 1, 3), 3), "data degree 3: a batch of 64 is not divided into micro-batches of 1 on each");
  EXPECT_EQ(why(degrees(2, 1, 1), 4),
            "degrees 2 x 1 x 1 x 1 (tensor, context, pipeline, data) make 2 devices, there are 4");
  ParallelMapping experts = degrees(1, 1, 4);
  experts.expert = 4;
  EXPECT_EQ(why(experts, 4), "expert degree 4: the model has 0 experts; 1 is the largest that works");
}

TEST(ParallelFigures, filesAreChecked) {
  EXPECT_EQ(messageOf(ParallelFigures::parse("figures:\n  memory: 2\n", "f.yaml")),
            "f.yaml:2: missing required key 'linear_compute'");
  std::string whole = "figures:\n";
  for (StringRef name : ParallelFigures::names())
    whole += ("  " + name + (name == "memory" ? ": 2\n" : ": 0.5\n")).str();
  EXPECT_EQ(messageOf(ParallelFigures::parse(whole, "f.yaml")),
            "f.yaml:7: memory 2: is a share, above 0 and at most 1");
}
