//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Cost/ParallelFit.h"
#include "intarsia/Cost/FleetPlacement.h"
#include "intarsia/Cost/ParallelCost.h"
#include <cstring>

using namespace intarsia;

namespace {

struct Row {
  ModelShape shape;
  Cluster cluster;
  ParallelMapping mapping;
  TrainingRun run;

  explicit Row(const itx_training_row &row);
};

Row::Row(const itx_training_row &row) {
  shape.hidden = int(row.hidden);
  shape.layers = int(row.layers);
  shape.vocabulary = int(row.vocabulary);
  AttentionLayers attention;
  attention.layers = shape.layers;
  attention.heads = int(row.heads);
  attention.keyHeads = int(row.key_heads);
  attention.keyDim = attention.valueDim = int(row.head_dim);
  shape.attention = {attention};
  shape.feedForwardMatrices = int(row.matrices);
  shape.experts = int(row.experts);
  shape.expertsPerToken = int(row.experts_per_token);
  shape.expertWidth = int(row.expert_width);
  shape.sharedWidth = row.shared_width;
  (shape.experts ? shape.expertLayers : shape.denseLayers) = shape.layers;
  shape.denseWidth = int(row.width);
  cluster = {row.peak_tflops,  row.memory_gb,    row.memory_gbps, row.link_gbps,
             row.network_gbps, row.node_devices, int(row.devices)};
  cluster.ringAdapters = row.ring_adapters;
  mapping.tensor = int(row.tensor);
  mapping.context = int(row.context);
  mapping.expert = int(row.expert);
  mapping.expertTensor = int(row.expert_tensor);
  mapping.foldsExperts = row.folds_experts != 0;
  mapping.pipeline = int(row.pipeline);
  mapping.chunks = int(row.chunks);
  mapping.data = int(row.data);
  mapping.zero = int(row.zero);
  mapping.sequence = row.sequence_parallel != 0;
  mapping.contextKind = ContextKind(int(row.context_kind));
  mapping.order = PipelineOrder(int(row.order));
  run.sequence = row.sequence;
  run.globalBatch = row.global_batch;
  run.microBatch = row.micro_batch;
  run.recompute = Recompute(int(row.recompute));
  run.fusedAttention = row.fused_attention != 0;
  run.overlapsData = row.overlaps_data != 0;
  run.gradientBytes = row.gradient_bytes;
  run.offloadsStates = row.offloads_states != 0;
  run.offloadsActivations = row.offloads_activations != 0;
  run.offloadsWeights = row.offloads_weights != 0;
}

} // namespace

int32_t itx_parallel_figures(void) { return int32_t(ParallelFigures::names().size()); }

const char *itx_parallel_figure(int32_t index) { return ParallelFigures::names()[index].data(); }

int64_t itx_parallel_predict(const itx_training_row *rows, int64_t count, const double *given, itx_training_time *times,
                             char *message, int64_t size) {
  ParallelFigures figures = given ? ParallelFigures() : ParallelFigures::get();
  if (given)
    for (size_t i = 0; i < ParallelFigures::names().size(); ++i)
      figures.at(i) = given[i];
  for (int64_t i = 0; i < count; ++i) {
    Row row(rows[i]);
    row.run.shape = &row.shape;
    if (std::string why = whyNotMapped(row.run, row.mapping, row.cluster.devices); !why.empty()) {
      std::strncpy(message, why.c_str(), size_t(size - 1));
      message[size - 1] = 0;
      return i;
    }
    StepTime time = trainingStep(row.run, row.cluster, row.mapping, figures);
    times[i] = {time.linearMs,
                time.attentionMs,
                time.elementwiseMs,
                time.launchMs,
                time.tensorMs,
                time.contextMs,
                time.expertMs,
                time.sendMs,
                time.dataMs,
                time.bubbleMs,
                time.optimizerMs,
                time.totalMs,
                trainingMemory(row.run, row.mapping).total(),
                modelFlops(row.shape, row.run.sequence, row.run.globalBatch, false),
                modelFlops(row.shape, row.run.sequence, row.run.globalBatch, true),
                row.shape.parameters()};
  }
  return count;
}

namespace {

struct Fleet {
  std::vector<FleetDevice> devices;
  FleetModel model;
  FleetFigures figures = ParallelFigures::get().fleet;

  Fleet(const itx_fleet_device *given, int64_t count, const itx_fleet_model &shape, const double *own)
      : model{int(shape.layers), shape.layer_bytes, shape.hidden, shape.activation_bytes} {
    for (int64_t i = 0; i < count; ++i)
      devices.push_back({"", given[i].accelerator_gbps, given[i].accelerator_bytes, given[i].host_gbps,
                         given[i].host_bytes, given[i].disk_gbps});
    for (size_t i = 0; own && i < FleetFigures::names().size(); ++i)
      figures.at(i) = own[i];
  }
};

} // namespace

double itx_fleet_token(const itx_fleet_device *devices, int64_t count, const itx_fleet_model *model,
                       const int32_t *layers, int32_t *placed, const double *figures) {
  Fleet fleet(devices, count, *model, figures);
  std::vector<int> own;
  if (layers)
    own.assign(layers, layers + count);
  else
    own = placeLayers(fleet.devices, fleet.model, FleetObjective::Latency, fleet.figures);
  if (own.empty())
    return -1;
  if (placed)
    std::copy(own.begin(), own.end(), placed);
  return tokenUs(fleet.devices, fleet.model, own, fleet.figures) * 1e-3;
}

double itx_fleet_tensor_token(const itx_fleet_device *devices, int64_t count, const itx_fleet_model *model,
                              double link_us, double link_gbps, const double *figures) {
  Fleet fleet(devices, count, *model, figures);
  return tensorTokenUs(fleet.devices, fleet.model, {link_us, link_gbps}, fleet.figures) * 1e-3;
}

int32_t itx_fleet_figures(void) { return int32_t(FleetFigures::names().size()); }

const char *itx_fleet_figure(int32_t index) { return FleetFigures::names()[index].data(); }
