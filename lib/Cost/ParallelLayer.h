//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// One layer of a transformer on a device of a parallel mapping. Times are in microseconds, for one micro-batch.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_COST_PARALLELLAYER_H
#define INTARSIA_LIB_COST_PARALLELLAYER_H

#include "intarsia/Cost/ParallelCost.h"
#include <vector>

namespace intarsia {

/// Forward, backward and recomputation together; communication is what is not hidden.
struct StageTime {
  double linear = 0, attention = 0, elementwise = 0, launch = 0, tensor = 0, context = 0, expert = 0;

  double total() const { return linear + attention + elementwise + launch + tensor + context + expert; }
  void add(const StageTime &other, double times);
};

/// Parameters of a device with the devices that have the same ones.
struct ReplicaGroup {
  double parameters = 0;
  double gathers = 1; ///< parts that ZeRO 3 gathers one by one: layers and tables
  DeviceGroup group;
};

/// Returns the parameters of a device of a stage: those outside of experts and, where there are experts, their own,
/// which fewer devices replicate.
std::vector<ReplicaGroup> replicaGroups(const TrainingRun &run, const ParallelMapping &mapping, const Stage &stage);

class LayerCost {
public:
  LayerCost(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping,
            const ParallelFigures &figures);

  StageTime ofStage(const Stage &stage) const;
  StageTime ofLayer(bool hasExperts) const;
  /// Logits and their loss.
  StageTime ofHead() const;
  /// Bytes of the residual stream of a micro-batch.
  double residualBytes() const { return 2 * tokens * run.shape->hidden; }
  /// Bytes that one layer keeps if it is recomputed.
  double checkpointBytes() const { return residualBytes() / (mapping.sequence ? mapping.tensor : 1); }

private:
  double linearUs(double rows, double columns, double depth, double factor = 1) const;
  double productUs(double rows, double columns, double depth, double tflops) const;
  double trafficUs(double bytes) const { return bytes / (cluster.memoryGBps * figures.memory) * 1e-3; }
  void addAttention(StageTime &time) const;
  void addScores(StageTime &time, const AttentionLayers &layers, double share) const;
  void addFeedForward(StageTime &time, bool hasExperts) const;
  void addExperts(StageTime &time) const;
  void addTensor(StageTime &time) const;
  void addContext(StageTime &time, const AttentionLayers &layers, double share, double scoresUs) const;
  double passes() const { return run.recompute == Recompute::Full ? 4 : 3; } ///< of linears, forward passes

  const TrainingRun &run;
  const Cluster &cluster;
  const ParallelMapping &mapping;
  const ParallelFigures &figures;
  ClusterLinks links;
  double tokens;
};

/// Times of a step, part by part, in microseconds. For a given mapping a step takes no less if the slowest stage, the
/// longest exchange of a stage or the longest optimizer takes longer: the cuts into stages rest on this.
class StepCost {
public:
  StepCost(const TrainingRun &run, const Cluster &cluster, const ParallelMapping &mapping,
           const ParallelFigures &figures);

  StepTime time() const;
  /// Collectives of data parallelism in a stage: once a step, or a micro-batch with ZeRO 3.
  double exchangedUs(const Stage &stage) const;
  /// Returns the part of the longest exchange that the computation of one micro-batch in the mean stage does not hide.
  double dataUs(double exchangedUs, double meanUs) const;
  double optimizerUs(const Stage &stage, const TrainingMemory &memory, double meanUs) const;

private:
  double sendUs() const;
  double hidden(double communicationUs, double computationUs, double overlap) const;

  const TrainingRun &run;
  const Cluster &cluster;
  const ParallelMapping &mapping;
  const ParallelFigures &figures;
  ClusterLinks links;
  LayerCost layer;
  double microBatches;
};

/// Cuts the layers of a mapping with one chunk a stage so that a step is as short as it can be, each stage fits into
/// \p limit bytes and takes at most \p mostUs for a micro-batch. Returns false if there is no such cut.
bool cutIntoStages(ParallelMapping &mapping, const TrainingRun &run, const Cluster &cluster,
                   const ParallelFigures &figures, double limit, double mostUs);
/// Cuts so that the fullest stage is as small as it can be.
void cutIntoSmallestStages(ParallelMapping &mapping, const TrainingRun &run, const Cluster &cluster,
                           const ParallelFigures &figures);

} // namespace intarsia

#endif
