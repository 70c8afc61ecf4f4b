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
  double work = load.perSecond * load.meanScale, capacity = sustainedPerSecond(choice) * (1 - load.headroom);
  if (work <= 0 || !std::isfinite(capacity))
    return 1;
  // Stays below saturation: a queue of utilization 1 is unstable.
  return std::max<int64_t>(1, int64_t(std::floor(work / capacity * (1 + 1e-9))) + 1);
}

namespace {

/// Executions in service and waiting at replicas that share one queue, as a birth-death chain.
class Chain {
public:
  Chain(const Choice &choice, int64_t replicas, const Load &load)
      : slotsOfReplica(choice.slots), replicas(replicas), slots(replicas * choice.slots),
        arrivalsPerMs(load.perSecond / 1000),
        capacityPerMs(sustainedPerSecond(choice) * double(replicas) / load.meanScale / 1000),
        fullMs(choice.milliseconds * load.meanScale),
        aloneMs(choice.millisecondsAlone.value_or(choice.milliseconds) * load.meanScale) {
    addTerms();
    double ratio = std::min(arrivalsPerMs / rate(slots), 1 - 1e-9), beyond = atFull * ratio / (1 - ratio);
    add(slots, beyond);
    waiting = (atFull + beyond) / sum;
  }

  double fullRate() const { return rate(slots); }
  double waitProbability() const { return waiting; }
  double meanInService() const { return busySum / sum; }
  double busyReplicas() const { return replicaSum / sum; }

private:
  /// Terms less than this times the largest are left out: beside it they are lost in rounding.
  static constexpr double negligible = 1e-18;

  /// Executions that end in a millisecond while so many are in service.
  double rate(int64_t busy) const {
    double occupancy = std::max(1.0, double(busy) / double(replicas));
    double ms = slotsOfReplica == 1 ? fullMs : aloneMs + slope() * (occupancy - 1);
    return std::min(double(busy) / ms, capacityPerMs);
  }
  /// Milliseconds that one more execution in its replica adds to one.
  double slope() const { return (fullMs - aloneMs) / double(slotsOfReplica - 1); }

  void add(int64_t busy, double term) {
    sum += term;
    busySum += term * double(busy);
    replicaSum += term * double(std::min(busy, replicas)); // executions go to the replica that has fewest
  }

  /// Adds the probabilities of 0 to all slots busy, relative to that of the number where the sums begin.
  void addTerms() {
    int64_t begin = likeliest();
    double term = 1;
    add(begin, term);
    for (int64_t busy = begin; busy > 0 && term > negligible; --busy)
      add(busy - 1, term *= rate(busy) / arrivalsPerMs);
    term = 1;
    int64_t busy = begin;
    for (; busy < slots && term > negligible * sum; ++busy) {
      term *= arrivalsPerMs / rate(busy + 1);
      add(busy + 1, term);
      if (term > 1e200) // where the sums begin at 0
        for (double *value : {&term, &sum, &busySum, &replicaSum})
          *value *= 1e-200;
    }
    atFull = busy == slots ? term : 0;
  }

  /// Returns the number of executions in service that is most probable. Up to it more come than end, as the rate rises
  /// with each. Where it does not, as one more slows the others down too much, 0: sums begin there.
  int64_t likeliest() const {
    if (slotsOfReplica > 1 && slope() > aloneMs)
      return 0;
    int64_t low = 0, high = slots;
    while (low < high) {
      int64_t middle = high - (high - low) / 2;
      if (rate(middle) <= arrivalsPerMs)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  int64_t slotsOfReplica, replicas, slots;
  double arrivalsPerMs, capacityPerMs, fullMs, aloneMs;
  double sum = 0, busySum = 0, replicaSum = 0, atFull = 0, waiting = 0;
};

} // namespace

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
    Chain chain(choice, replicas, load);
    double perMs = load.perSecond / 1000, fullRate = chain.fullRate();
    stage.busyShare = chain.busyReplicas() / double(replicas);
    // By Little's law the time in service is the mean number in service over the rate.
    double slowest = std::max(full, choice.slots * 1000.0 / sustainedPerSecond(choice));
    if (alone != slowest)
      service =
          std::clamp(chain.meanInService() / (perMs * load.meanScale), std::min(alone, full), std::max(alone, slowest));
    double scaleVariation = load.meanSquaredScale / (load.meanScale * load.meanScale);
    double restShare = choice.milliseconds > 0 ? 1 - first / choice.milliseconds : 0;
    double variation = shape.squaredVariation() * (restShare > 0 ? restShare * restShare : 1);
    double squaredVariation = scaleVariation * (1 + variation) - 1;
    // An unstable queue has no mean wait.
    bool saturated = perMs >= fullRate;
    stage.waitProbability = saturated ? 1 : chain.waitProbability();
    stage.waitIfPositiveMs = saturated ? unlimited : (1 + squaredVariation) / 2 / (fullRate - perMs);
  }
  if (queueing && choice.turnProbability > 0) {
    double busy = std::min(choice.turnProbability, work * choice.turnMs / 1000 / double(replicas));
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
