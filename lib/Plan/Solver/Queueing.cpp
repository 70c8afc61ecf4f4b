//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Queueing.h"
#include <algorithm>
#include <cmath>

namespace intarsia::plan {

double sustainedPerSecond(const Choice &choice) {
  if (choice.executionsPerSecond)
    return *choice.executionsPerSecond;
  return choice.milliseconds > 0 ? choice.slots * 1000.0 / choice.milliseconds : unlimited;
}

int64_t smallestReplicas(const Choice &choice, const Load &load) {
  if (choice.devicesPerReplica == 0 && !choice.executionsPerSecond)
    return 1;
  double work = load.perSecond * load.meanScale, capacity = sustainedPerSecond(choice);
  if (work <= 0 || !std::isfinite(capacity))
    return 1;
  // Stays below saturation: a queue of utilization 1 is unstable.
  return std::max<int64_t>(1, int64_t(std::floor(work / capacity * (1 + 1e-9))) + 1);
}

Stage stageUnderLoad(const Choice &choice, const Shape &shape, int64_t replicas, const Load &load, bool queueing) {
  Stage stage;
  double full = choice.milliseconds, alone = choice.millisecondsAlone.value_or(full);
  double first = choice.firstOutputMs.value_or(full);
  double work = load.perSecond * load.meanScale;
  bool outside = choice.devicesPerReplica == 0 && !choice.executionsPerSecond;
  double service = full;
  if (!outside && work > 0 && full > 0)
    stage.utilization = stage.busyShare = work / (sustainedPerSecond(choice) * replicas);
  if (queueing && stage.utilization > 0) {
    // Probabilities of k executions in service up to all slots busy, relative to each other.
    int64_t slots = replicas * choice.slots;
    double perMs = load.perSecond / 1000, capacityPerMs = sustainedPerSecond(choice) * replicas / load.meanScale / 1000;
    auto rate = [&](int64_t busy) {
      double occupancy = std::max(1.0, double(busy) / replicas);
      double ms = choice.slots == 1 ? full : alone + (full - alone) * (occupancy - 1) / (choice.slots - 1);
      return std::min(busy / (ms * load.meanScale), capacityPerMs);
    };
    // The terms are log-concave; those far from the largest are negligible.
    double logarithm = 0, largest = 0;
    std::vector<double> logarithms{0.0};
    for (int64_t busy = 1; busy <= slots; ++busy) {
      logarithm += std::log(perMs / rate(busy));
      logarithms.push_back(logarithm);
      largest = std::max(largest, logarithm);
      if (logarithm < largest - 40)
        break;
    }
    bool reachesFull = int64_t(logarithms.size()) == slots + 1;
    double fullRate = rate(slots), ratio = std::min(perMs / fullRate, 1 - 1e-9);
    double sum = 0, busySum = 0, replicaSum = 0; // executions go to the replica that has fewest
    for (size_t busy = 0; busy < logarithms.size(); ++busy) {
      double weight = std::exp(logarithms[busy] - largest);
      sum += weight, busySum += weight * busy, replicaSum += weight * std::min(double(busy), double(replicas));
    }
    double waiting = 0;
    if (reachesFull) {
      double atFull = std::exp(logarithms.back() - largest), beyond = atFull * ratio / (1 - ratio);
      sum += beyond, busySum += beyond * slots, replicaSum += beyond * double(replicas);
      waiting = (atFull + beyond) / sum;
    }
    stage.busyShare = replicaSum / sum / double(replicas);
    // By Little's law the time in service is the mean number in service over the rate.
    double slowest = std::max(full, choice.slots * 1000.0 / sustainedPerSecond(choice));
    if (alone != slowest)
      service = std::clamp(busySum / sum / (perMs * load.meanScale), std::min(alone, full), std::max(alone, slowest));
    double scaleVariation = load.meanSquaredScale / (load.meanScale * load.meanScale);
    double restShare = choice.milliseconds > 0 ? 1 - first / choice.milliseconds : 0;
    double variation = shape.squaredVariation() * (restShare > 0 ? restShare * restShare : 1);
    double squaredVariation = scaleVariation * (1 + variation) - 1;
    // An unstable queue has no mean wait.
    bool saturated = perMs >= fullRate;
    stage.waitProbability = saturated ? 1 : waiting;
    stage.waitIfPositiveMs = saturated ? unlimited : (1 + squaredVariation) / 2 / (fullRate - perMs);
  }
  if (queueing && choice.turnProbability > 0) {
    // It is never busier than with all turns in one replica.
    double busy = std::min(choice.turnProbability, work * choice.turnMs / 1000);
    stage.waitProbability = busy;
    stage.waitIfPositiveMs = choice.turnWaitMs / choice.turnProbability * (1 - choice.turnProbability) / (1 - busy);
  }
  double factor = choice.milliseconds > 0 ? service / choice.milliseconds : 1;
  stage.firstMs = first * factor;
  stage.restMs = (choice.milliseconds - first) * factor;
  stage.tokenMs = choice.tokenMs * factor;
  return stage;
}

Distribution durationOf(const Stage &stage, const Shape &shape, double scale, ExecutionPart part) {
  // The shape describes the time after the first output, or the whole time if nothing follows it.
  bool follows = stage.restMs > 0;
  Distribution result;
  if (part != ExecutionPart::Rest)
    result = follows ? Distribution::point(stage.firstMs * scale) : shape.discretized().scaled(stage.firstMs * scale);
  if (follows && (part == ExecutionPart::Rest || part == ExecutionPart::Whole))
    result = result.plus(shape.discretized().scaled(stage.restMs * scale));
  if (part == ExecutionPart::Whole || part == ExecutionPart::WaitAndFirst)
    result = result.plus(Distribution::exponentialTail(stage.waitProbability, stage.waitIfPositiveMs));
  return result;
}

} // namespace intarsia::plan
