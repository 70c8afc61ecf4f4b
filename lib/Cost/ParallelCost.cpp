//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelCost.h"

#include "lib/Cost/ParallelLayer.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace intarsia;

Expected<Cluster> Cluster::of(const CatalogueDevice &device, StringRef elementType, int devices) {
  Cluster cluster;
  Expected<double> peak = device.peak(elementType);
  if (!peak)
    return peak.takeError();
  cluster.peakTflops = *peak;
  for (auto [figure, name, into] : {std::tuple(&device.memoryGB, "memory_gb", &cluster.memoryGB),
                                    std::tuple(&device.memoryGBps, "memory_gbps", &cluster.memoryGBps)}) {
    Expected<double> value = device.need(*figure, name);
    if (!value)
      return value.takeError();
    *into = *value;
  }
  cluster.devices = devices;
  cluster.nodeDevices = device.devicesOnLink();
  if (devices > 1 && cluster.nodeDevices > 1) {
    Expected<double> link = device.linkOneWayGBps();
    if (!link)
      return link.takeError();
    cluster.linkGBps = *link;
  }
  if (devices > cluster.nodeDevices) {
    Expected<double> network = device.need(device.networkGBps, "network_gbps");
    if (!network)
      return network.takeError();
    cluster.networkGBps = *network;
  }
  // Without the other kind of link nothing passes over it, and the model needs a number above zero.
  if (cluster.linkGBps == 0)
    cluster.linkGBps = std::max(cluster.networkGBps, 1.0);
  if (cluster.networkGBps == 0)
    cluster.networkGBps = cluster.linkGBps;
  return cluster;
}

ClusterLinks Cluster::links(const ParallelFigures &figures) const {
  return {{figures.linkUs, linkGBps * figures.link}, {figures.networkUs, networkGBps * figures.network}, nodeDevices};
}

double intarsia::modelFlops(const ModelShape &shape, double sequence, double sequences, bool causal) {
  double perToken = 2 * (shape.multipliedParameters() + shape.headParameters());
  for (const AttentionLayers &layers : shape.attention)
    perToken += layers.layers * layers.scoreFlops(causal ? layers.visibleOfPrompt(sequence) : sequence, true);
  return 3 * perToken * sequence * sequences;
}

namespace {

/// Times of a step, part by part.
class Step {
public:
  Step(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping, const ParallelFigures &figures)
      : run(run), cluster(cluster), mapping(mapping), figures(figures), links(cluster.links(figures)),
        layer(run, cluster, mapping, figures) {}

  StepTime time();

private:
  /// Parts of one micro-batch in one stage, forward, backward and recomputation together.
  StageTime stageOf(double layers, double expertLayers, bool hasHead) const;
  void addSends(double microBatches);
  void addGathers(double microBatches);
  void addGradients();
  void addOptimizer(double microBatches);
  double hidden(double communicationUs, double computationUs) const {
    return std::max(0.0, communicationUs - (run.overlapsData ? figures.overlap * computationUs : 0));
  }

  const TrainingRun &run;
  const Cluster &cluster;
  const ParallelMapping &mapping;
  const ParallelFigures &figures;
  ClusterLinks links;
  LayerCost layer;
  StageTime slowest;
  StepTime result; ///< microseconds until time() returns
};

} // namespace

StageTime Step::stageOf(double layers, double expertLayers, bool hasHead) const {
  StageTime stage;
  if (double dense = layers - expertLayers; dense > 0)
    stage.add(layer.ofLayer(/*hasExperts=*/false), dense);
  if (expertLayers > 0)
    stage.add(layer.ofLayer(/*hasExperts=*/true), expertLayers);
  if (hasHead)
    stage.add(layer.ofHead(), 1);
  return stage;
}

/// Weights that ZeRO 3 shards: what a gather brings is hidden behind the computation of the layer before.
void Step::addGathers(double microBatches) {
  if (mapping.zero < 3)
    return;
  double gathers = 0;
  for (const ReplicaGroup &part : replicaGroups(run, mapping)) {
    double bytes = 2 * part.parameters;
    gathers += 2 * links.allGatherUs(part.group, bytes) + links.allGatherUs(part.group, bytes);
  }
  // Breadth-first gathers a chunk once for all micro-batches (arXiv 2211.05953, section 4).
  bool isOnce = mapping.order == PipelineOrder::BreadthFirst && mapping.pipeline > 1;
  double times = isOnce ? 1 : microBatches;
  result.dataMs += times * hidden(gathers, slowest.total() * microBatches / times);
}

void Step::addGradients() {
  if (mapping.zero >= 3)
    return;
  double time = 0;
  for (const ReplicaGroup &part : replicaGroups(run, mapping)) {
    if (mapping.zero == 0)
      time += links.allReduceUs(part.group, run.gradientBytes * part.parameters);
    else
      time += links.allGatherUs(part.group, run.gradientBytes * part.parameters) +
              links.allGatherUs(part.group, 2 * part.parameters);
  }
  // The reduction runs beside the backward pass of the last micro-batch, the gather of weights beside the first
  // forward pass.
  result.dataMs += hidden(time, slowest.total() / (mapping.pipeline > 1 ? mapping.chunks : 1));
}

void Step::addOptimizer(double microBatches) {
  TrainingMemory memory = trainingMemory(run, mapping);
  // Adam reads and writes its states and reads gradients, once a step.
  double bytes = 2 * memory.states + memory.gradients + memory.weights;
  result.optimizerMs += run.offloadsStates ? (memory.states + memory.gradients) / figures.hostGBps * 1e-3
                                           : bytes / (cluster.memoryGBps * figures.memory) * 1e-3;
  double moved = (run.offloadsActivations ? 2 * layer.checkpointBytes() * run.shape->layers / mapping.pipeline : 0) +
                 (run.offloadsWeights ? 2 * memory.weights : 0);
  result.optimizerMs +=
      microBatches * std::max(0.0, moved / figures.hostGBps * 1e-3 - figures.overlap * slowest.total());
  result.optimizerMs += figures.stepUs;
}

/// Each chunk passes its results on, forward and backward.
void Step::addSends(double microBatches) {
  if (mapping.pipeline == 1)
    return;
  double stride = double(mapping.tensor) * mapping.context * mapping.data;
  double bytes = layer.residualBytes() / mapping.tensor;
  double time = 2 * links.sendUs({double(mapping.pipeline), stride}, bytes);
  if (mapping.tensor > 1) // tensor groups gather the parts again (scatter/gather, arXiv 2104.04473, section 4.1)
    time += 2 * links.allGatherUs({double(mapping.tensor), 1}, layer.residualBytes());
  result.sendMs += time * mapping.chunks * (microBatches + mapping.pipeline - 1);
}

StepTime Step::time() {
  double microBatches = run.globalBatch / run.microBatch / mapping.data;
  double p = mapping.pipeline;
  double layers = run.shape->layers / p, expertLayers = run.shape->expertLayers / p;
  StageTime inner = stageOf(std::ceil(layers), std::min(std::ceil(expertLayers), std::ceil(layers)), false);
  StageTime last = stageOf(layers, expertLayers, true);
  slowest = last.total() > inner.total() ? last : inner;
  double sum = inner.total() * (p - 1) + last.total();
  result.linearMs = slowest.linear * microBatches;
  result.attentionMs = slowest.attention * microBatches;
  result.elementwiseMs = slowest.elementwise * microBatches;
  result.launchMs = slowest.launch * microBatches;
  result.tensorMs = slowest.tensor * microBatches;
  result.contextMs = slowest.context * microBatches;
  result.expertMs = slowest.expert * microBatches;
  result.bubbleMs = (sum - slowest.total()) / mapping.chunks;
  addSends(microBatches);
  addGathers(microBatches);
  addGradients();
  addOptimizer(microBatches);
  for (double *part :
       {&result.linearMs, &result.attentionMs, &result.elementwiseMs, &result.launchMs, &result.tensorMs,
        &result.contextMs, &result.expertMs, &result.sendMs, &result.dataMs, &result.bubbleMs, &result.optimizerMs})
    result.totalMs += *part *= 1e-3;
  return result;
}

StepTime intarsia::trainingStep(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping,
                                const ParallelFigures &figures) {
  return Step(run, cluster, mapping, figures).time();
}
