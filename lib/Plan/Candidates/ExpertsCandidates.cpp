//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Candidates of decodes whose attention is on one pool and whose experts are on another, or on other devices of the
// same pool.
//===----------------------------------------------------------------------------------------------------------===//
#include "Candidates.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Largest number of devices of a replica of experts, as for whole decodes.
constexpr int mostDevices = 64;
/// Tokens of a forward step of a replica of experts: the measured batches, by fours.
constexpr int batchesOfExperts[] = {8, 32, 128, 512};
/// Largest number of tokens of a forward step of a replica of attention.
constexpr int largestMicroBatch = 512;

namespace {
/// A connection between two sets of devices.
struct Way {
  double gigabytesPerSecond = 0, microseconds = 0;
};

/// Experts on `devices` of a pool, with `batch` tokens in a forward step.
struct Experts {
  int pool, devices, batch;
  double stepMs, aloneMs;
  ServingCost cost;
  std::string label; ///< label of the choice
  double msPerToken() const { return stepMs / batch; }
};

/// A split, with attention on a pool.
struct Split {
  const Experts *experts;
  Choice choice;
  ChoiceMeaning meaning;
  double stepMs, attentionMsPerToken;
};

class ExpertsCandidates {
public:
  ExpertsCandidates(const DecoderWork &work, const Fleet &fleet, const CandidateOptions &options)
      : work(work), fleet(fleet), options(options) {}

  SplitCandidates run() {
    SplitCandidates result;
    for (int q = 0; q < int(fleet.pools.size()); ++q)
      for (const std::string &precision : precisionsOf(work, fleet.pools[q].device)) {
        std::vector<Experts> all = expertsOn(q, precision);
        for (int p = 0; p < int(fleet.pools.size()); ++p)
          for (Split &split : splitsOf(p, precision, all)) {
            result.decode.add(split.choice, split.meaning, fleet.pools[p].name);
            if (!llvm::any_of(result.experts.choices,
                              [&](const Choice &known) { return known.label == split.experts->label; }))
              addExperts(result.experts, *split.experts, precision);
          }
      }
    return result;
  }

private:
  const DecoderWork &work;
  const Fleet &fleet;
  const CandidateOptions &options;

  double steps() const { return std::max(work.writtenTokens - 1, 1.0); }

  static ChoiceMeaning meaningOf(const Experts &experts, const std::string &precision) {
    ChoiceMeaning meaning;
    meaning.precision = precision;
    meaning.expert = meaning.data = experts.devices;
    meaning.batch = experts.batch;
    ExpertExchange exchange = experts.cost.expertExchange(1);
    meaning.dispatchBytes = exchange.dispatchBytes, meaning.combineBytes = exchange.combineBytes;
    return meaning;
  }

  Choice choiceOf(const Experts &experts) const {
    Choice choice;
    choice.pool = experts.pool;
    choice.devicesPerReplica = experts.devices;
    choice.milliseconds = experts.stepMs * steps();
    choice.millisecondsAlone = std::min(experts.aloneMs, experts.stepMs) * steps();
    choice.slots = experts.batch;
    return choice;
  }

  void addExperts(Candidates &candidates, const Experts &experts, const std::string &precision) const {
    candidates.add(choiceOf(experts), meaningOf(experts, precision), fleet.pools[experts.pool].name);
  }

  /// Returns nothing if the device cannot compute in this format, or lacks a figure: the candidate set of whole decodes
  /// reports it.
  std::optional<ServingCost> costOf(int pool, const std::string &precision, ModelPart part,
                                    const ParallelDegrees &degrees) const {
    Expected<ServingCost> cost = partCost(work, fleet.pools[pool], options, precision, part, degrees);
    if (cost)
      return std::move(*cost);
    consumeError(cost.takeError());
    return std::nullopt;
  }

  std::vector<Experts> expertsOn(int index, const std::string &precision) const {
    std::vector<Experts> all;
    const FleetPool &pool = fleet.pools[index];
    int64_t most = std::min({pool.count, int64_t(mostDevices), int64_t(work.shape->experts)});
    for (int devices = 1; devices <= most; devices *= 2) {
      std::optional<ServingCost> cost = costOf(index, precision, ModelPart::Experts, {1, devices, devices, 1});
      if (!cost)
        continue;
      if (Expected<double> room = cost->largestBatch(1); !room) {
        consumeError(room.takeError());
        continue;
      }
      for (int batch : batchesOfExperts) {
        Experts experts{index, devices, batch, cost->decodeStep(batch, 1).totalMs, cost->decodeStep(1, 1).totalMs,
                        *cost, ""};
        Candidates one;
        addExperts(one, experts, precision);
        experts.label = one.choices.front().label;
        all.push_back(std::move(experts));
      }
    }
    std::vector<Experts> kept;
    for (const Experts &other : all)
      if (llvm::none_of(all, [&](const Experts &one) {
            return &one != &other && one.devices <= other.devices && one.stepMs <= other.stepMs &&
                   one.msPerToken() <= other.msPerToken() &&
                   one.devices * one.msPerToken() < other.devices * other.msPerToken();
          }))
        kept.push_back(other);
    return kept;
  }

  /// Returns the connection by the fleet's links, or inside a pool by the node's link or the network between nodes.
  std::optional<Way> wayBetween(int from, int to, int devices, const ServingCost &cost) const {
    for (const FleetLink &link : fleet.links)
      if ((link.from == from && link.to == to) || (!link.oneWay && link.from == to && link.to == from)) {
        Way way{link.gigabytesPerSecond, link.microseconds};
        // One wire is as slow as its slowest part.
        for (const FleetLink &other : fleet.links)
          if (!link.shared.empty() && other.shared == link.shared) {
            way.gigabytesPerSecond = std::min(way.gigabytesPerSecond, other.gigabytesPerSecond);
            way.microseconds = std::max(way.microseconds, other.microseconds);
          }
        return way;
      }
    if (from != to)
      return std::nullopt;
    const CatalogueDevice &device = fleet.pools[from].device;
    const ServingFigures &figures = cost.efficiency().figures;
    Expected<double> inside = device.linkOneWayGBps();
    if (inside && devices <= fleet.pools[from].perNode)
      return Way{*inside, figures.collectiveUs};
    if (!inside)
      consumeError(inside.takeError());
    if (device.networkGBps)
      return Way{device.networkGBps->value, figures.networkUs};
    return std::nullopt;
  }

  std::vector<Split> splitsOf(int pool, const std::string &precision, ArrayRef<Experts> all) const {
    std::vector<Split> splits;
    double context = work.contextTokens + work.writtenTokens / 2;
    int64_t inside = std::min({fleet.pools[pool].perNode, fleet.pools[pool].count, int64_t(mostDevices)});
    for (int tensor = 1; tensor <= inside; tensor *= 2) {
      if (!headsDivide(*work.shape, tensor))
        continue;
      std::optional<ServingCost> cost = costOf(pool, precision, ModelPart::Attention, {tensor, 1, 1, 1});
      if (!cost)
        continue;
      Expected<double> room = cost->largestBatch(work.contextTokens + work.writtenTokens);
      if (!room) {
        consumeError(room.takeError());
        continue;
      }
      for (const Experts &experts : all) {
        std::optional<Way> there = wayBetween(pool, experts.pool, tensor + experts.devices, *cost),
                           back = wayBetween(experts.pool, pool, tensor + experts.devices, *cost);
        if (!there || !back)
          continue;
        auto exchangeMs = [&](double tokens) {
          ExpertExchange exchange = experts.cost.expertExchange(tokens);
          return exchange.messages / 2 * (there->microseconds + back->microseconds) / 1000 +
                 exchange.dispatchBytes / (there->gigabytesPerSecond * 1e6) +
                 exchange.combineBytes / (back->gigabytesPerSecond * 1e6);
        };
        double aloneMs = cost->decodeStep(1, context).totalMs + experts.aloneMs + exchangeMs(1);
        for (int micro = 1; micro <= std::min(experts.batch, largestMicroBatch); micro *= 2) {
          double attentionMs = cost->decodeStep(micro, context).totalMs;
          double sum = attentionMs + experts.stepMs + exchangeMs(experts.batch);
          double stages = std::ceil(sum / attentionMs * (1 - 1e-9)), stepMs = stages * attentionMs;
          int batch = int(stages) * micro;
          if (batch > *room || (work.promised && stepMs > work.tokenMsBound))
            continue;
          Split split{&experts, decodeChoice(work, batch, stepMs, aloneMs), {}, stepMs, attentionMs / micro};
          split.choice.pool = pool;
          split.choice.devicesPerReplica = tensor;
          split.choice.cacheTokens = *room * (work.contextTokens + work.writtenTokens);
          split.meaning.precision = precision;
          split.meaning.tensor = tensor;
          split.meaning.batch = batch;
          split.meaning.experts = experts.label;
          split.meaning.demand = {true, cost->stepBytesPerDevice(micro, context), cost->memoryBytesPerSecond()};
          splits.push_back(std::move(split));
        }
      }
    }
    prune(splits);
    return splits;
  }

  /// Demand of a split on each pool for a token and for one replica, and its times: everything that a plan may be short
  /// of.
  struct Figures {
    double attentionMs, expertsMs, stepMs, aloneMs;
    int attentionDevices, expertsDevices;
    bool noWorse(const Figures &other) const {
      return attentionMs <= other.attentionMs && expertsMs <= other.expertsMs && stepMs <= other.stepMs &&
             aloneMs <= other.aloneMs && attentionDevices <= other.attentionDevices &&
             expertsDevices <= other.expertsDevices;
    }
  };
  static Figures figuresOf(const Split &split) {
    return {split.choice.devicesPerReplica * split.attentionMsPerToken,
            split.experts->devices * split.experts->msPerToken(),
            split.stepMs,
            split.choice.millisecondsAlone.value_or(split.choice.milliseconds),
            split.choice.devicesPerReplica,
            split.experts->devices};
  }

  /// Removes dominated splits between the same two pools.
  void prune(std::vector<Split> &splits) const {
    std::vector<Figures> figures;
    for (const Split &split : splits)
      figures.push_back(figuresOf(split));
    std::vector<Split> kept;
    for (size_t b = 0; b < splits.size(); ++b) {
      bool dominated = false;
      for (size_t a = 0; a < splits.size() && !dominated; ++a)
        dominated = a != b && splits[a].experts->pool == splits[b].experts->pool && figures[a].noWorse(figures[b]) &&
                    (!figures[b].noWorse(figures[a]) || a < b);
      if (!dominated)
        kept.push_back(std::move(splits[b]));
    }
    splits = std::move(kept);
  }
};
} // namespace

SplitCandidates splitCandidates(const DecoderWork &decode, const Fleet &fleet, const CandidateOptions &options) {
  return ExpertsCandidates(decode, fleet, options).run();
}

} // namespace intarsia::plan
