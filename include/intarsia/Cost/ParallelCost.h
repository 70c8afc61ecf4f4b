//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Time of a training step, and the memory of a device, of a transformer that many devices share. The formula is only
// here; figures that are fitted (ParallelFigures) live in catalogue/efficiency/parallel.yaml, which
// bench/fit_parallel.py fits to published measurements by calling this code.
//
// One micro-batch of b sequences of s tokens in one layer on t devices (tensor) of a context group of c: T = b s / c
// tokens.
//
//   linear       2 m n k / (peak · linear_compute) · (1 + linear_half · (1/m + 1/n + 1/k)), m = T, n or k divided by t
//   attention    fused: 4 d heads / t · T s / 2 / (peak · attention_compute); backward 2.5 times as long, because
//   scores
//                are computed again. Unfused: no half; scores pass through the memory 13 bytes each (written, scaled
//                and normalised, dropped out, read: arXiv 2205.05198, section 4.1)
//   elementwise  bytes of norms, residuals and activations over the memory's bandwidth (the same section)
//   tensor       two all-reduces of 2 b s h bytes forward and two backward, or the same as gathers and scatters of
//                sequence parallelism: 8 b s h (t - 1) / t elements (arXiv 2104.04473, section 3.2)
//   context      ring: (c - 1) messages of keys and values, which pass while scores are computed, twice as many
//   backward
//                (arXiv 2310.01889). Ulysses: all-to-alls of queries, keys, values and results, 4 T h / c elements a
//                device (arXiv 2309.14509)
//   experts      tokens · chosen experts · h · (e - 1) / e elements a direction, twice forward and twice backward. If
//                experts are split too, the group that shares one gathers its tokens and scatters the results
//                (arXiv 2504.14960)
//   launch       host time of a layer's kernels, hidden behind the devices' time: ‖device, host‖₄
//
// Recomputation: the forward pass once more (full), or the scores only (selective). A pipeline of p stages with v
// chunks each and m micro-batches, with the time t_i of stage i: m max t_i + (Σ t_i − max t_i) / v (arXiv 2104.04473,
// sections 2.2.1 and 2.2.2); each chunk sends b s h / t elements to the next one, each direction, v times as much in
// all. Breadth-first (arXiv 2211.05953) has the bubble of the interleaved order; weights that are sharded are gathered
// once a chunk and batch, and all micro-batches' activations are kept.
//
// Data parallelism of degree d: ring all-reduce of the gradients once a step; ZeRO 1 and 2: reduce-scatter of gradients
// and all-gather of weights, as many bytes; ZeRO 3: weights are gathered before the forward and the backward pass of
// each micro-batch and gradients are scattered, three times the weights' bytes (arXiv 1910.02054), in rings of their
// own for each layer, since a device holds one layer whole at a time: each starts anew. Where it overlaps, what is
// hidden is the share `overlap` of the computation that it runs beside; of the gathers of ZeRO 3 the share
// `gather_overlap`, as the next layer is fetched while one is computed.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_PARALLELCOST_H
#define INTARSIA_COST_PARALLELCOST_H

#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Cost/Collectives.h"
#include "intarsia/Cost/FleetPlacement.h"
#include "intarsia/Cost/ModelShape.h"
#include <string>
#include <vector>

namespace intarsia {

/// Figures that are fitted, in the order of names().
struct ParallelFigures {
  double linearCompute = 0.75;   ///< share of the peak that a large matrix product reaches
  double linearHalf = 300;       ///< size of a product at which its time doubles
  double attentionCompute = 0.5; ///< share of the peak that fused attention reaches
  double unfusedCompute = 0.4;   ///< the same of products of scores that pass through the memory
  double expertCompute = 0.75;   ///< of products of experts, against those of linears
  double memory = 0.75;          ///< share of the memory's bandwidth that elementwise kernels reach
  double expertPasses = 10;      ///< times that a routed token passes through the memory: permuted, gated, summed
  double link = 0.7;             ///< share of the link's bandwidth
  double network = 0.7;          ///< share of the network's bandwidth
  double linkUs = 10;            ///< start of a message in a node
  double networkUs = 25;         ///< start of a message between nodes
  double overlap = 0.6;          ///< share of computation behind which collectives of data parallelism hide
  double gatherOverlap = 0.9;    ///< the same of the gathers and scatters of ZeRO 3
  double layerUs = 300;          ///< host time for the kernels of a layer's forward pass
  double expertLayerUs = 400;    ///< the same for layers of experts: counts of tokens come to the host
  double stepUs = 30000;         ///< once a step: data, clipping, logging
  double hostGBps = 15;          ///< to the host's memory and through its optimizer, a device

  /// Processes of one host that exchange through its memory: measured on one machine (docs/benchmarks-collectives.md).
  Link sharedMemory = {1.5, 8};
  FleetFigures fleet; ///< of a few weak devices

  static llvm::ArrayRef<llvm::StringRef> names(); ///< of the figures before `sharedMemory`
  double &at(size_t index);
  /// Reads the file; the error says `file:line: ` and the reason.
  static llvm::Expected<ParallelFigures> parse(llvm::StringRef yaml, llvm::StringRef file);
  /// Returns the figures that are part of the program.
  static const ParallelFigures &get();
};

/// Devices of one kind, as many as are used, in nodes.
struct Cluster {
  double peakTflops = 0, memoryGB = 0, memoryGBps = 0;
  double linkGBps = 0, networkGBps = 0; ///< of a device, in one direction
  double nodeDevices = 1;               ///< devices that the link reaches
  int devices = 1;
  double sixteenBitTflops = 0; ///< peak of what is in 16 bits whatever linears are in; 0: linears' own
  double ringAdapters = 1;     ///< network adapters of a node that rings of one group leave by at once

  /// Returns the peak of scores of attention and of the head, which recipes for 8 and 4 bits leave in 16.
  double scoresTflops() const { return sixteenBitTflops > 0 ? sixteenBitTflops : peakTflops; }

  /// Reads the catalogue; the error names the figure that it lacks.
  static llvm::Expected<Cluster> of(const CatalogueDevice &device, llvm::StringRef elementType, int devices);
  ClusterLinks links(const ParallelFigures &figures) const;
};

enum class ContextKind { Ring, Ulysses };
enum class PipelineOrder { OneForwardOneBackward, Interleaved, BreadthFirst };
enum class Recompute { None, Selective, Full };

/// How devices share a model. In the row of devices tensor is innermost, then context, data, pipeline.
struct ParallelMapping {
  int tensor = 1, context = 1, expert = 1, pipeline = 1, data = 1;
  /// Devices that share one expert. Those of `expertTensor` are innermost of the experts' own mapping
  /// (`foldsExperts`), otherwise they are the tensor group and experts are within data.
  int expertTensor = 1;
  bool foldsExperts = false;
  int chunks = 1;        ///< of a stage, with an interleaved or breadth-first order
  int zero = 0;          ///< 0 to 3: what data parallelism does not replicate
  bool sequence = false; ///< norms and residuals are split by tokens within the tensor group
  ContextKind contextKind = ContextKind::Ring;
  PipelineOrder order = PipelineOrder::OneForwardOneBackward;

  std::vector<int> stageLayers; ///< of each stage; empty: as many on each, rounded up on all but the last

  int devices() const { return tensor * context * pipeline * data; }
};

/// The layers of one stage of a pipeline.
struct Stage {
  double denseLayers = 0, expertLayers = 0; ///< fractions where layers are not divided
  bool isFirst = false, isLast = false;     ///< have the embedding and the head
};

struct TrainingRun {
  const ModelShape *shape = nullptr;
  double sequence = 0, globalBatch = 0, microBatch = 1;
  Recompute recompute = Recompute::None;
  bool fusedAttention = true;
  bool overlapsData = true;         ///< collectives of data parallelism run beside the computation
  double gradientBytes = 4;         ///< of an element that is reduced
  bool offloadsStates = false;      ///< optimizer in the host's memory
  bool offloadsActivations = false; ///< checkpoints in the host's memory
  bool offloadsWeights = false;
};

/// Times of one step, in milliseconds of the busiest device; `totalMs` is the sum of the parts.
struct StepTime {
  double linearMs = 0, attentionMs = 0, elementwiseMs = 0, launchMs = 0;
  double tensorMs = 0, contextMs = 0, expertMs = 0, sendMs = 0, dataMs = 0; ///< what is not hidden
  double bubbleMs = 0, optimizerMs = 0;
  double totalMs = 0;
};

/// Bytes of the fullest device.
struct TrainingMemory {
  double weights = 0, gradients = 0, states = 0, activations = 0;
  double total() const { return weights + gradients + states + activations; }
};

/// Returns what is wrong with a mapping for a run, as a sentence with the degree and the largest that works; "" if it
/// can be run.
std::string whyNotMapped(const TrainingRun &run, const ParallelMapping &mapping, int devices);

/// Predicts a step. The mapping fits the run (whyNotMapped).
std::vector<Stage> stagesOf(const ModelShape &shape, const ParallelMapping &mapping);
StepTime trainingStep(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping,
                      const ParallelFigures &figures);
/// Returns the memory of a device of the fullest stage, and of stage \p number.
TrainingMemory trainingMemory(const TrainingRun &run, const ParallelMapping &mapping);
TrainingMemory stageMemory(const TrainingRun &run, const ParallelMapping &mapping, const Stage &stage, int number);
/// Returns the flops of a step that a model's utilisation counts: two a parameter and token forward, twice that
/// backward, and the scores of attention, without recomputation (arXiv 2104.04473, equation 3 with 72 for 96). `causal`
/// counts half of the scores.
double modelFlops(const ModelShape &shape, double sequence, double sequences, bool causal);

} // namespace intarsia

#endif
