//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelCost.h"
#include "lib/Cost/ParallelLayer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace intarsia;

/// Bytes of activations that a layer keeps for the backward pass (arXiv 2205.05198, equations 1, 2, 4 and table 2).
static double keptBytes(const TrainingRun &run, const ParallelMapping &mapping, bool hasExperts) {
  const ModelShape &shape = *run.shape;
  double tokens = run.microBatch * run.sequence / mapping.context;
  double elements = tokens * shape.hidden;
  double split = mapping.sequence ? mapping.tensor : 1;
  if (run.recompute == Recompute::Full)
    return run.offloadsActivations ? 0 : 2 * elements / split;
  // 10 bytes outside of what tensor parallelism splits; 8 of attention and 4 a feature of the widened part inside,
  // which with a width of 4 h makes the paper's 24. A token passes all of its experts.
  double width =
      hasExperts ? shape.sharedWidth + double(shape.expertWidth) * shape.expertsPerToken : double(shape.denseWidth);
  double bytes =
      10 * elements / split + (8 * elements + 4 * tokens * width * (shape.feedForwardMatrices - 1)) / mapping.tensor;
  if (!run.fusedAttention && run.recompute == Recompute::None)
    bytes += 5 * shape.attention.front().heads * run.sequence * tokens / mapping.tensor;
  return bytes;
}

TrainingMemory intarsia::stageMemory(const TrainingRun &run, const ParallelMapping &mapping, const Stage &stage,
                                     int number) {
  TrainingMemory memory;
  for (const ReplicaGroup &part : replicaGroups(run, mapping, stage)) {
    double replicas = part.group.devices;
    memory.weights += 2 * part.parameters / (mapping.zero >= 3 ? replicas : 1);
    memory.gradients += run.gradientBytes * part.parameters / (mapping.zero >= 2 ? replicas : 1);
    // Adam in mixed precision: weights, momentum and variance in f32 (arXiv 1910.02054, section 3.1).
    memory.states += 12 * part.parameters / (mapping.zero >= 1 ? replicas : 1);
  }
  double microBatches = std::ceil(run.globalBatch / run.microBatch / mapping.data);
  double p = mapping.pipeline, v = mapping.chunks;
  // A stage has as many micro-batches under way as there are stages from it to the last one; interleaved, (p - 1) / v
  // more (arXiv 2205.05198, appendix C), and all of them breadth-first.
  double underWay = std::min(v > 1 ? p + (p - 1) / v : p - number, microBatches);
  if (mapping.order == PipelineOrder::BreadthFirst)
    underWay = microBatches;
  double kept[2] = {keptBytes(run, mapping, false), keptBytes(run, mapping, true)};
  memory.activations = underWay * (stage.denseLayers * kept[0] + stage.expertLayers * kept[1]);
  if (run.recompute == Recompute::Full) { // one layer at a time is computed again
    TrainingRun once = run;
    once.recompute = Recompute::None;
    memory.activations += keptBytes(once, mapping, stage.expertLayers > 0);
  }
  return memory;
}

TrainingMemory intarsia::trainingMemory(const TrainingRun &run, const ParallelMapping &mapping) {
  TrainingMemory fullest;
  for (const auto &[number, stage] : enumerate(stagesOf(*run.shape, mapping)))
    if (TrainingMemory memory = stageMemory(run, mapping, stage, int(number)); memory.total() > fullest.total())
      fullest = memory;
  return fullest;
}

std::string intarsia::whyNotMapped(const TrainingRun &run, const ParallelMapping &mapping, int devices) {
  const ModelShape &shape = *run.shape;
  auto largest = [](int most, auto isFine) {
    int degree = most;
    while (degree > 1 && !isFine(degree))
      --degree;
    return degree;
  };
  int heads = shape.attention.front().heads;
  for (const AttentionLayers &layers : shape.attention)
    heads = std::min(heads, layers.heads);
  if (mapping.devices() != devices)
    return formatv("degrees {0} x {1} x {2} x {3} (tensor, context, pipeline, data) make {4} devices, there are {5}",
                   mapping.tensor, mapping.context, mapping.pipeline, mapping.data, mapping.devices(), devices);
  if (heads % mapping.tensor)
    return formatv("tensor degree {0}: {1} heads are not divided by it; {2} is the largest that works", mapping.tensor,
                   heads, largest(mapping.tensor, [&](int degree) { return heads % degree == 0; }));
  if (mapping.contextKind == ContextKind::Ulysses && heads / mapping.tensor % mapping.context)
    return formatv("context degree {0}: Ulysses gives each device whole heads, of which there are {1}; {2} is the "
                   "largest that works",
                   mapping.context, heads / mapping.tensor,
                   largest(mapping.context, [&](int degree) { return heads / mapping.tensor % degree == 0; }));
  if (!mapping.stageLayers.empty() &&
      (int(mapping.stageLayers.size()) != mapping.pipeline || mapping.chunks > 1 ||
       sum_of(mapping.stageLayers) != shape.layers || is_contained(mapping.stageLayers, 0)))
    return formatv("stage_layers: {0} stages of one chunk with a layer or more, {1} layers in all, are needed",
                   mapping.pipeline, shape.layers);
  if (int64_t(mapping.pipeline) * mapping.chunks > shape.layers)
    return formatv("{0} stages of {1} chunks: the model has {2} layers", mapping.pipeline, mapping.chunks,
                   shape.layers);
  if (mapping.expert > 1 && (!shape.experts || shape.experts % mapping.expert))
    return formatv(
        "expert degree {0}: the model has {1} experts; {2} is the largest that works", mapping.expert, shape.experts,
        shape.experts ? largest(mapping.expert, [&](int degree) { return shape.experts % degree == 0; }) : 1);
  int stage = devices / mapping.pipeline;
  if (shape.experts && stage % (int64_t(mapping.expert) * mapping.expertTensor))
    return formatv("expert degree {0} by {1}: a stage has {2} devices, which are not divided by it", mapping.expert,
                   mapping.expertTensor, stage);
  double microBatches = run.globalBatch / run.microBatch / mapping.data;
  if (microBatches < 1 || microBatches != std::floor(microBatches))
    return formatv("data degree {0}: a batch of {1} is not divided into micro-batches of {2} on each", mapping.data,
                   int64_t(run.globalBatch), int64_t(run.microBatch));
  if (mapping.chunks > 1 && mapping.order == PipelineOrder::Interleaved &&
      std::fmod(microBatches, mapping.pipeline) != 0)
    return formatv("{0} micro-batches: an interleaved order of {1} stages needs a multiple of {1}",
                   int64_t(microBatches), mapping.pipeline);
  return "";
}
