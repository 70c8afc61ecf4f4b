//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ParallelCost.h"

#include "lib/Cost/ParallelLayer.h"
#include "llvm/ADT/STLExtras.h"
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
  if (is_contained({"fp8", "fp4", "int8", "int4"}, elementType)) {
    Expected<double> sixteen = device.peak("bf16");
    if (!sixteen)
      return sixteen.takeError();
    cluster.sixteenBitTflops = *sixteen;
  }
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
  return {{figures.linkUs, linkGBps * figures.link},
          {figures.networkUs, networkGBps * figures.network},
          nodeDevices,
          ringAdapters};
}

double intarsia::modelFlops(const ModelShape &shape, double sequence, double sequences, bool causal) {
  double perToken = 2 * (shape.multipliedParameters() + shape.headParameters());
  for (const AttentionLayers &layers : shape.attention)
    perToken += layers.layers * layers.scoreFlops(causal ? layers.visibleOfPrompt(sequence) : sequence, true);
  return 3 * perToken * sequence * sequences;
}

std::vector<Stage> intarsia::stagesOf(const ModelShape &shape, const ParallelMapping &mapping) {
  std::vector<Stage> stages;
  double dense = shape.denseLayers, all = shape.layers;
  for (int number = 0; number < mapping.pipeline; ++number) {
    Stage stage;
    stage.isFirst = number == 0;
    stage.isLast = number == mapping.pipeline - 1;
    if (mapping.stageLayers.empty()) {
      double layers = all / mapping.pipeline;
      if (!stage.isLast)
        layers = std::ceil(layers);
      stage.expertLayers = layers * shape.expertLayers / all;
      stage.denseLayers = layers - stage.expertLayers;
    } else { // dense layers come first, as in DeepSeek's models
      stage.denseLayers = std::min<double>(dense, mapping.stageLayers[number]);
      stage.expertLayers = mapping.stageLayers[number] - stage.denseLayers;
      dense -= stage.denseLayers;
    }
    stages.push_back(stage);
  }
  return stages;
}

StepCost::StepCost(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping,
                   const ParallelFigures &figures)
    : run(run), cluster(cluster), mapping(mapping), figures(figures), links(cluster.links(figures)),
      layer(run, cluster, mapping, figures), microBatches(run.globalBatch / run.microBatch / mapping.data) {}

double StepCost::hidden(double communicationUs, double computationUs, double overlap) const {
  return std::max(0.0, communicationUs - (run.overlapsData ? overlap * computationUs : 0));
}

double StepCost::exchangedUs(const Stage &stage) const {
  double time = 0;
  for (const ReplicaGroup &part : replicaGroups(run, mapping, stage)) {
    double weights = links.allGatherUs(part.group, 2 * part.parameters);
    if (mapping.zero >= 3) // weights before both passes, gradients as many bytes, each layer for itself
      time += 3 * part.gathers * links.allGatherUs(part.group, 2 * part.parameters / part.gathers);
    else if (mapping.zero == 0)
      time += links.allReduceUs(part.group, run.gradientBytes * part.parameters);
    else
      time += links.allGatherUs(part.group, run.gradientBytes * part.parameters) + weights;
  }
  return time;
}

double StepCost::dataUs(double exchangedUs, double meanUs) const {
  // The reduction runs beside the backward pass of the last micro-batch, the gather of weights beside the first forward
  // pass, both of the last chunk.
  if (mapping.zero < 3)
    return hidden(exchangedUs, meanUs / mapping.chunks, figures.overlap);
  // Breadth-first gathers a chunk once for all micro-batches (arXiv 2211.05953, section 4).
  bool isOnce = mapping.order == PipelineOrder::BreadthFirst && mapping.pipeline > 1;
  double times = isOnce ? 1 : microBatches;
  return times * hidden(exchangedUs, meanUs * microBatches / times, figures.gatherOverlap);
}

double StepCost::optimizerUs(const Stage &stage, const TrainingMemory &memory, double meanUs) const {
  // Adam reads and writes its states and reads gradients, once a step.
  double bytes = 2 * memory.states + memory.gradients + memory.weights;
  double time = run.offloadsStates ? (memory.states + memory.gradients) / figures.hostGBps * 1e-3
                                   : bytes / (cluster.memoryGBps * figures.memory) * 1e-3;
  double layers = stage.denseLayers + stage.expertLayers;
  double moved = (run.offloadsActivations ? 2 * layer.checkpointBytes() * layers : 0) +
                 (run.offloadsWeights ? 2 * memory.weights : 0);
  return time + microBatches * std::max(0.0, moved / figures.hostGBps * 1e-3 - figures.overlap * meanUs);
}

/// Each chunk passes its results on, forward and backward.
double StepCost::sendUs() const {
  if (mapping.pipeline == 1)
    return 0;
  double stride = double(mapping.tensor) * mapping.context * mapping.data;
  double bytes = layer.residualBytes() / mapping.tensor;
  double time = 2 * links.sendUs({double(mapping.pipeline), stride}, bytes);
  if (mapping.tensor > 1) // tensor groups gather the parts again (scatter/gather, arXiv 2104.04473, section 4.1)
    time += 2 * links.allGatherUs({double(mapping.tensor), 1}, layer.residualBytes());
  return time * mapping.chunks * (microBatches + mapping.pipeline - 1);
}

StepTime StepCost::time() const {
  StepTime result; // microseconds until the end
  StageTime slowest;
  double sum = 0, exchanged = 0;
  std::vector<Stage> stages = stagesOf(*run.shape, mapping);
  for (const Stage &stage : stages) {
    StageTime time = layer.ofStage(stage);
    sum += time.total();
    if (time.total() > slowest.total())
      slowest = time;
    exchanged = std::max(exchanged, exchangedUs(stage));
  }
  double mean = sum / mapping.pipeline;
  for (auto [number, stage] : enumerate(stages))
    result.optimizerMs =
        std::max(result.optimizerMs, optimizerUs(stage, stageMemory(run, mapping, stage, int(number)), mean));
  result.optimizerMs += figures.stepUs;
  result.linearMs = slowest.linear * microBatches;
  result.attentionMs = slowest.attention * microBatches;
  result.elementwiseMs = slowest.elementwise * microBatches;
  result.launchMs = slowest.launch * microBatches;
  result.tensorMs = slowest.tensor * microBatches;
  result.contextMs = slowest.context * microBatches;
  result.expertMs = slowest.expert * microBatches;
  result.bubbleMs = (sum - slowest.total()) / mapping.chunks;
  result.sendMs = sendUs();
  result.dataMs = dataUs(exchanged, mean);
  for (double *part :
       {&result.linearMs, &result.attentionMs, &result.elementwiseMs, &result.launchMs, &result.tensorMs,
        &result.contextMs, &result.expertMs, &result.sendMs, &result.dataMs, &result.bubbleMs, &result.optimizerMs})
    result.totalMs += *part *= 1e-3;
  return result;
}

StepTime intarsia::trainingStep(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping,
                                const ParallelFigures &figures) {
  return StepCost(run, cluster, mapping, figures).time();
}
