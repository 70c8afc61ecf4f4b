//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Cost/ParallelLayer.h"

#include <algorithm>
#include <cmath>

using namespace intarsia;

void StageTime::add(const StageTime &other, double times) {
  linear += other.linear * times;
  attention += other.attention * times;
  elementwise += other.elementwise * times;
  launch += other.launch * times;
  tensor += other.tensor * times;
  context += other.context * times;
  expert += other.expert * times;
}

LayerCost::LayerCost(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping,
                     const ParallelFigures &figures)
    : run(run), cluster(cluster), mapping(mapping), figures(figures), links(cluster.links(figures)),
      tokens(run.microBatch * run.sequence / mapping.context) {}

double LayerCost::productUs(double rows, double columns, double depth, double tflops) const {
  double lost = figures.linearHalf * (1 / rows + 1 / columns + 1 / depth);
  return 2 * rows * columns * depth / (tflops * figures.linearCompute) * 1e-6 * (1 + lost);
}

double LayerCost::linearUs(double rows, double columns, double depth, double factor) const {
  return productUs(rows, columns, depth, cluster.peakTflops * factor);
}

StageTime LayerCost::ofLayer(bool hasExperts) const {
  StageTime time;
  addAttention(time);
  addFeedForward(time, hasExperts);
  addTensor(time);
  // Norms and residuals: two norms (read, written), two residual sums with dropout (two read, one written and a mask of
  // one byte): 22 bytes an element forward (arXiv 2205.05198, section 4.1 counts what is kept of them).
  double elements = tokens * run.shape->hidden / (mapping.sequence ? mapping.tensor : 1);
  time.elementwise += passes() * trafficUs(22 * elements);
  double device = time.linear + time.attention + time.elementwise;
  double host = passes() * (figures.layerUs + (hasExperts ? figures.expertLayerUs : 0));
  time.launch += std::pow(std::pow(device, 4) + std::pow(host, 4), 0.25) - device;
  return time;
}

void LayerCost::addAttention(StageTime &time) const {
  const ModelShape &shape = *run.shape;
  for (const AttentionLayers &layers : shape.attention) {
    double share = double(layers.layers) / shape.layers;
    double inner = double(layers.heads) * layers.valueDim;
    double outer = std::max(layers.parameters(shape.hidden) / shape.hidden - inner, 1.0);
    time.linear += share * passes() *
                   (linearUs(tokens, outer / mapping.tensor, shape.hidden) +
                    linearUs(tokens, shape.hidden, inner / mapping.tensor));
    time.elementwise += share * passes() * trafficUs(4 * tokens * outer / mapping.tensor); // biases, rotations
    addScores(time, layers, share);
  }
}

void LayerCost::addScores(StageTime &time, const AttentionLayers &layers, double share) const {
  double scoresUs;
  if (run.fusedAttention) {
    double flops = tokens * layers.scoreFlops(layers.visibleOfPrompt(run.sequence), true) / mapping.tensor;
    double forward = flops / (cluster.scoresTflops() * figures.attentionCompute) * 1e-6;
    scoresUs = (run.recompute == Recompute::Full ? 2 : 1) * forward + 2.5 * forward;
  } else {
    double flops = tokens * layers.scoreFlops(run.sequence, true) / mapping.tensor;
    double scores = tokens * run.sequence * layers.heads / mapping.tensor;
    double times = run.recompute == Recompute::None ? 3 : 4;
    scoresUs = times * (flops / (cluster.scoresTflops() * figures.unfusedCompute) * 1e-6 + trafficUs(13 * scores));
  }
  time.attention += share * scoresUs;
  addContext(time, layers, share, scoresUs);
}

void LayerCost::addContext(StageTime &time, const AttentionLayers &layers, double share, double scoresUs) const {
  if (mapping.context == 1)
    return;
  DeviceGroup group{double(mapping.context), double(mapping.tensor)};
  double again = run.recompute == Recompute::Full ? 1 : 0;
  double keys = layers.keyHeads * double(layers.keyDim + layers.valueDim);
  if (mapping.contextKind == ContextKind::Ring) {
    double bytes = 2 * tokens * keys / mapping.tensor;
    double message =
        (mapping.context - 1) *
        links.sendUs({group.devices, links.membersInNode(group) < group.devices ? links.nodeDevices : group.stride},
                     bytes);
    time.context += share * std::max(0.0, (3 + again) * message - scoresUs);
    return;
  }
  double bytes = 2 * tokens * (layers.heads * double(layers.keyDim + layers.valueDim) + keys) / mapping.tensor;
  time.context += share * (2 + again) * links.allToAllUs(group, bytes);
}

void LayerCost::addFeedForward(StageTime &time, bool hasExperts) const {
  const ModelShape &shape = *run.shape;
  double width = hasExperts ? shape.sharedWidth : shape.denseWidth;
  if (width > 0) {
    double into = (shape.feedForwardMatrices - 1) * width / mapping.tensor;
    time.linear +=
        passes() * (linearUs(tokens, into, shape.hidden) + linearUs(tokens, shape.hidden, width / mapping.tensor));
    time.elementwise += passes() * trafficUs(4 * tokens * into);
  }
  if (hasExperts)
    addExperts(time);
}

void LayerCost::addExperts(StageTime &time) const {
  const ModelShape &shape = *run.shape;
  double split = mapping.expertTensor;
  // Tokens of the tensor group are split within it before they are sent, if sequence parallelism or the folded mapping
  // has them split; each group of `split` devices then computes what its members received.
  double own = tokens / mapping.tensor;
  double routed = own * shape.expertsPerToken;
  double received = routed * split;
  double rows = received * mapping.expert / shape.experts;
  double local = double(shape.experts) / mapping.expert;
  double width = shape.expertWidth / split, into = (shape.feedForwardMatrices - 1) * width;
  time.linear += passes() * local *
                 (linearUs(rows, into, shape.hidden, figures.expertCompute) +
                  linearUs(rows, shape.hidden, width, figures.expertCompute));
  time.elementwise += passes() * trafficUs(2 * figures.expertPasses * received * shape.hidden + 4 * received * into);
  double forwards = run.recompute == Recompute::Full ? 2 : 1;
  double bytes = 2 * routed * shape.hidden;
  double stride = mapping.foldsExperts ? split : double(mapping.tensor) * mapping.context;
  if (mapping.expert > 1)
    time.expert += 2 * (forwards + 1) * links.allToAllUs({double(mapping.expert), stride}, bytes);
  if (split > 1)
    time.expert += 2 * (forwards + 1) * links.allGatherUs({split, 1}, bytes * split);
}

/// Two all-reduces (or as many bytes) forward, two backward, and those of recomputation.
void LayerCost::addTensor(StageTime &time) const {
  if (mapping.tensor > 1)
    time.tensor += 2 * (passes() - 1) * links.allReduceUs({double(mapping.tensor), 1}, residualBytes());
}

StageTime LayerCost::ofHead() const {
  const ModelShape &shape = *run.shape;
  StageTime time;
  double columns = double(shape.vocabulary) / mapping.tensor;
  time.linear = 3 * productUs(tokens, columns, shape.hidden, cluster.scoresTflops());
  // Logits in f32: written, read for the maximum, the sum and the loss, and their gradient written and read.
  time.elementwise = trafficUs(6 * 4 * tokens * columns);
  if (mapping.tensor > 1)
    time.tensor = links.allReduceUs({double(mapping.tensor), 1}, residualBytes());
  return time;
}

StageTime LayerCost::ofStage(const Stage &stage) const {
  StageTime time;
  if (stage.denseLayers > 0)
    time.add(ofLayer(/*hasExperts=*/false), stage.denseLayers);
  if (stage.expertLayers > 0)
    time.add(ofLayer(/*hasExperts=*/true), stage.expertLayers);
  if (stage.isLast)
    time.add(ofHead(), 1);
  return time;
}

std::vector<ReplicaGroup> intarsia::replicaGroups(const TrainingRun &run, const ParallelMapping &mapping,
                                                  const Stage &stage) {
  const ModelShape &shape = *run.shape;
  double tables = stage.isFirst + stage.isLast;
  if (stage.isFirst && stage.isLast && shape.tiedEmbeddings)
    tables = 1;
  double routers = double(shape.hidden) * shape.experts;
  double shared = shape.feedForwardMatrices * double(shape.hidden) * shape.sharedWidth;
  double rest = shape.attentionParameters() / shape.layers * (stage.denseLayers + stage.expertLayers) +
                shape.feedForwardMatrices * double(shape.hidden) * shape.denseWidth * stage.denseLayers +
                (shared + routers) * stage.expertLayers;
  std::vector<ReplicaGroup> groups = {{(rest + shape.embeddingParameters() * tables) / mapping.tensor,
                                       std::max(1.0, stage.denseLayers + stage.expertLayers) + tables,
                                       {double(mapping.data) * mapping.context, double(mapping.tensor)}}};
  if (stage.expertLayers > 0) {
    double split = double(mapping.expert) * mapping.expertTensor;
    double replicas = double(mapping.tensor) * mapping.context * mapping.data / split;
    double expertStride = mapping.foldsExperts ? split : double(mapping.tensor) * mapping.context * mapping.expert;
    groups.push_back({shape.expertParameters() * shape.experts * stage.expertLayers / split,
                      std::max(1.0, stage.expertLayers),
                      {std::max(replicas, 1.0), expertStride}});
  }
  return groups;
}
