//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Stages under a load against Erlang's formula, and against the sums of the chain written out.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Solver/Queueing.h"
#include "gtest/gtest.h"
#include <cmath>
#include <vector>

using namespace intarsia::plan;

namespace {

/// Returns a choice of constant or of linear times whose replicas have devices.
Choice choiceOf(int64_t slots, double aloneMs, double fullMs) {
  Choice choice;
  choice.devicesPerReplica = 1;
  choice.slots = slots;
  choice.milliseconds = fullMs;
  choice.millisecondsAlone = aloneMs;
  return choice;
}

/// Returns the probability to wait among `servers`, by the recursion of Erlang's B formula.
double erlangC(int64_t servers, double erlangs) {
  double blocked = 1;
  for (int64_t server = 1; server <= servers; ++server)
    blocked = erlangs * blocked / (double(server) + erlangs * blocked);
  double utilization = erlangs / double(servers);
  return blocked / (1 - utilization * (1 - blocked));
}

TEST(PlanQueueing, ConstantTimesAreErlangsFormula) {
  for (int64_t servers : {1, 2, 10, 1000, 100000})
    for (double utilization : {0.01, 0.3, 0.9, 0.999}) {
      Load load;
      load.perSecond = utilization * double(servers) * 1000 / 20;
      for (bool inOneReplica : {false, true}) {
        Choice choice = choiceOf(inOneReplica ? servers : 1, 20, 20);
        Stage stage = stageUnderLoad(choice, Shape(), inOneReplica ? 1 : servers, load, true);
        EXPECT_NEAR(stage.waitProbability, erlangC(servers, utilization * double(servers)), 1e-9)
            << servers << " " << utilization;
        EXPECT_NEAR(stage.utilization, utilization, 1e-12);
        if (!inOneReplica) {
          EXPECT_NEAR(stage.busyShare, utilization, 1e-9);
        }
      }
    }
}

/// Sums of the chain over all numbers of executions, as logarithms in long double.
struct WrittenOut {
  double waitProbability, busyShare, inService;

  WrittenOut(const Choice &choice, int64_t replicas, const Load &load) {
    int64_t slots = replicas * choice.slots;
    long double perMs = load.perSecond / 1000;
    auto rate = [&](int64_t busy) -> long double {
      long double occupancy = std::max(1.0L, (long double)busy / replicas);
      long double alone = *choice.millisecondsAlone, full = choice.milliseconds;
      long double ms = choice.slots == 1 ? full : alone + (full - alone) * (occupancy - 1) / (choice.slots - 1);
      return std::min(busy / ms, (long double)sustainedPerSecond(choice) * replicas / 1000);
    };
    std::vector<long double> logarithms = {0};
    long double largest = 0;
    for (int64_t busy = 1; busy <= slots; ++busy) {
      logarithms.push_back(logarithms.back() + std::log(perMs / rate(busy)));
      largest = std::max(largest, logarithms.back());
    }
    long double sum = 0, busySum = 0, replicaSum = 0;
    auto add = [&](int64_t busy, long double term) {
      sum += term, busySum += term * busy, replicaSum += term * std::min(busy, replicas);
    };
    for (int64_t busy = 0; busy <= slots; ++busy)
      add(busy, std::exp(logarithms[busy] - largest));
    long double atFull = std::exp(logarithms.back() - largest), ratio = perMs / rate(slots);
    add(slots, atFull * ratio / (1 - ratio));
    waitProbability = double(atFull / (1 - ratio) / sum);
    busyShare = double(replicaSum / sum / replicas);
    inService = double(busySum / sum);
  }
};

TEST(PlanQueueing, LinearTimesAreTheSumsWrittenOut) {
  // Alone 10 ms; with all slots busy as long, a little longer, and so long that more executions end when fewer are in
  // service.
  for (double full : {10.0, 12.0, 60.0, 90.0, 400.0})
    for (int64_t slots : {1, 2, 8})
      for (int64_t replicas : {1, 3, 700})
        for (double utilization : {0.05, 0.5, 0.97}) {
          Choice choice = choiceOf(slots, slots == 1 ? full : 10, full);
          Load load;
          load.perSecond = utilization * sustainedPerSecond(choice) * double(replicas);
          Stage stage = stageUnderLoad(choice, Shape(), replicas, load, true);
          WrittenOut expected(choice, replicas, load);
          auto text = [&] {
            return std::to_string(full) + " ms, " + std::to_string(slots) + " x " + std::to_string(replicas) + ", " +
                   std::to_string(utilization);
          };
          EXPECT_NEAR(stage.waitProbability, expected.waitProbability, 1e-9) << text();
          EXPECT_NEAR(stage.busyShare, expected.busyShare, 1e-9) << text();
          double ms = std::clamp(expected.inService / (load.perSecond / 1000), std::min(10.0, full), full);
          if (slots > 1) {
            EXPECT_NEAR((stage.firstMs + stage.restMs) / ms, 1, 1e-9) << text();
          }
        }
}

TEST(PlanQueueing, SaturatedReplicasWaitForever) {
  Choice choice = choiceOf(4, 10, 40);
  Load load;
  load.perSecond = 4 * 1000 / 40.0;
  Stage stage = stageUnderLoad(choice, Shape(), 1, load, true);
  EXPECT_EQ(stage.waitProbability, 1);
  EXPECT_TRUE(std::isinf(stage.waitIfPositiveMs));
  load.perSecond *= 3;
  EXPECT_EQ(stageUnderLoad(choice, Shape(), 1, load, true).waitProbability, 1);
}

TEST(PlanQueueing, ManySlotsTakeNoTime) {
  // A hundred thousand million slots, of which the sums need a few million at most.
  Choice choice = choiceOf(1000, 20, 30);
  Load load;
  load.perSecond = 0.5 * sustainedPerSecond(choice) * 1e8;
  Stage stage = stageUnderLoad(choice, Shape(), 100'000'000, load, true);
  EXPECT_EQ(stage.waitProbability, 0);
  EXPECT_NEAR(stage.busyShare, 1, 1e-9);
}

} // namespace
