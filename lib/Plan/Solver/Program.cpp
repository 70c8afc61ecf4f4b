//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Program.h"
#include "Dominance.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace intarsia::plan {

Program::Program(const Figures &figures, bool prune, ArrayRef<std::pair<int, int>> forbiddenChoices)
    : figures(figures), problem(figures.problem) {
  latencyWeights.assign(problem.agents.size(), 0.0);
  if (problem.objective == Objective::Latency)
    latencyWeights = figures.latencyWeights;
  for (auto [index, pool] : enumerate(problem.pools)) {
    Resource resource{Conflict::Kind::PoolDevices, int(index), double(pool.devices)};
    if (pool.wholeNodes) {
      resource.nodeSize = pool.devicesPerNode;
      resource.limit = double(pool.devices / pool.devicesPerNode * pool.devicesPerNode);
      resource.nodeCost = figures.billOfHeld(pool, resource.nodeSize).of(problem.objective);
    }
    resources.push_back(std::move(resource));
  }
  for (auto [index, pool] : enumerate(problem.pools)) {
    auto shares = [pool = int(index)](const Choice &choice) { return choice.pool == pool && choice.deviceShare < 1; };
    if (pool.wholeNodes ||
        llvm::none_of(problem.pieces, [&](const Piece &piece) { return any_of(piece.candidates, shares); }))
      continue;
    resources.push_back({.kind = Conflict::Kind::PoolDevices,
                         .index = int(index),
                         .limit = double(pool.devices),
                         .ofShares = true,
                         .nodeSize = 1,
                         .nodeCost = figures.billOfHeld(pool, 1).of(problem.objective),
                         .nodeUses = {{int(index), 1.0}}});
  }
  auto addCap = [&](Conflict::Kind kind, double limit, double Bill::*part) {
    if (limit == unlimited)
      return;
    for (auto &resource : resources)
      if (resource.nodeSize)
        resource.nodeUses.push_back(
            {int(resources.size()), figures.billOfHeld(problem.pools[resource.index], resource.nodeSize).*part});
    resources.push_back({kind, -1, limit});
  };
  addCap(Conflict::Kind::Dollars, problem.dollarsPerHourCap, &Bill::dollarsPerHour);
  addCap(Conflict::Kind::Watts, problem.wattsCap, &Bill::peakWatts);
  addCap(Conflict::Kind::Grams, problem.gramsPerHourCap, &Bill::gramsPerHour);
  for (auto [index, link] : enumerate(problem.links))
    resources.push_back({Conflict::Kind::LinkBandwidth, int(index), link.gigabytesPerSecond});
  buildOptions(prune, forbiddenChoices);
  buildPairs();
  buildChecks();
}

static double amountOf(const Bill &bill, Conflict::Kind kind) {
  switch (kind) {
  case Conflict::Kind::Dollars:
    return bill.dollarsPerHour;
  case Conflict::Kind::Watts:
    return bill.peakWatts;
  case Conflict::Kind::Grams:
    return bill.gramsPerHour;
  default:
    return 0;
  }
}

/// Returns, by piece, classes of choices that no edge distinguishes: those of one pool and of equal kinds.
static std::vector<std::vector<int>> kindsOfChoices(const PlacementProblem &problem) {
  using Traits = std::vector<std::tuple<int, bool, int>>; // edge, its end, kind
  std::vector<std::vector<Traits>> traits(problem.pieces.size());
  for (auto [piece, of] : zip(problem.pieces, traits))
    of.resize(piece.candidates.size());
  for (auto [index, edge] : enumerate(problem.edges)) {
    for (auto [choice, kind] : enumerate(edge.fromKinds))
      traits[edge.from][choice].push_back({int(index), true, kind});
    for (auto [choice, kind] : enumerate(edge.toKinds))
      traits[edge.to][choice].push_back({int(index), false, kind});
  }
  std::vector<std::vector<int>> kinds(problem.pieces.size());
  for (auto [index, piece] : enumerate(problem.pieces)) {
    std::map<std::pair<int, Traits>, int> known;
    for (auto [choice, of] : zip(piece.candidates, traits[index]))
      kinds[index].push_back(known.try_emplace({choice.pool, std::move(of)}, int(known.size())).first->second);
  }
  return kinds;
}

void Program::buildOptions(bool prune, ArrayRef<std::pair<int, int>> forbiddenChoices) {
  options.resize(problem.pieces.size());
  groups.resize(problem.pieces.size());
  std::vector<bool> timed(problem.pieces.size());
  for (const Agent &agent : problem.agents) {
    std::set<int> pieces;
    for (const Region &region : agent.regions)
      if (region.kind == Region::Kind::Piece)
        pieces.insert(region.piece);
    agentPieces.emplace_back(pieces.begin(), pieces.end());
  }
  DenseSet<std::pair<int, int>> forbidden(forbiddenChoices.begin(), forbiddenChoices.end());
  std::vector<std::vector<int>> kinds = kindsOfChoices(problem);
  for (auto [agent, pieces] : zip(problem.agents, agentPieces))
    if (agent.level.endToEndMs != unlimited || agent.level.firstOutputMs != unlimited ||
        problem.objective == Objective::Latency)
      for (int piece : pieces)
        timed[piece] = true;
  for (auto [index, piece] : enumerate(problem.pieces)) {
    auto &all = options[index];
    std::map<int, int> groupOf;
    for (auto [choiceIndex, choice] : enumerate(piece.candidates)) {
      const Load &load = figures.loads[index];
      if ((piece.pinnedPool && choice.pool != *piece.pinnedPool) || forbidden.contains({int(index), int(choiceIndex)}))
        continue;
      int64_t least = smallestReplicas(choice, load);
      // Without queues, or without load, more replicas change nothing.
      bool queues = problem.queueing && load.perSecond > 0 && timed[index] &&
                    (choice.devicesPerReplica > 0 || choice.executionsPerSecond);
      double footprint = figures.footprint(choice);
      bool shares = choice.deviceShare < 1 && !problem.pools[choice.pool].wholeNodes;
      int64_t most = least + (queues ? piece.extraReplicas : 0);
      if (piece.pinnedReplicas) {
        if (*piece.pinnedReplicas < least)
          continue;
        least = most = *piece.pinnedReplicas;
      }
      for (int64_t replicas = least; replicas <= most; ++replicas) {
        if (footprint * replicas > problem.pools[choice.pool].devices)
          break;
        Stage stage = figures.stage(int(index), int(choiceIndex), replicas);
        if (exceeds(stage.tokenMs, figures.tokenMsLimits[index]))
          continue;
        Bill bill = figures.bill(int(index), choice, stage, replicas);
        Option option{int(choiceIndex), replicas, stage, bill.of(problem.objective), 0, footprint * replicas, {}};
        if (!problem.previous.empty() && problem.previous[index].choice >= 0 &&
            problem.previous[index].choice != int(choiceIndex))
          option.cost += problem.moveCost;
        option.group = groupOf.try_emplace(kinds[index][choiceIndex], int(groupOf.size())).first->second;
        for (auto [resourceIndex, resource] : enumerate(resources)) {
          double amount = resource.kind == Conflict::Kind::PoolDevices
                              ? (resource.index == choice.pool && resource.ofShares == shares ? option.devices : 0.0)
                              : amountOf(bill, resource.kind);
          if (amount > 0)
            option.uses.push_back({int(resourceIndex), amount});
        }
        all.push_back(std::move(option));
      }
    }
    optionsBeforePruning += int(all.size());
    if (prune)
      dropDominated(all, piece, timed[index], resources.size());
    // Groups without options would be empty rows.
    std::map<int, int> renumbered;
    for (auto &option : all)
      option.group = renumbered.try_emplace(option.group, int(renumbered.size())).first->second;
    groups[index] = int(renumbered.size());
    active.push_back(std::vector<uint8_t>(all.size(), 1));
    if (all.empty())
      impossiblePiece = int(index);
  }
}

void Program::buildPairs() {
  pairsOf.resize(problem.pieces.size());
  edgeTimes.resize(problem.edges.size());
  if (impossiblePiece >= 0)
    return;
  std::vector<std::vector<int>> representative(problem.pieces.size()); // a choice of each group
  for (auto [piece, all] : enumerate(options)) {
    representative[piece].resize(groups[piece]);
    for (auto &option : all)
      representative[piece][option.group] = option.choice;
  }
  std::map<std::pair<int, int>, int> known;
  auto pairOf = [&](int from, int to) {
    auto [found, inserted] = known.insert({{from, to}, int(pairs.size())});
    if (inserted) {
      pairs.push_back({from, to, groups[from], groups[to], std::vector<double>(groups[from] * groups[to], 0.0), {}});
      pairsOf[from].push_back(found->second);
      pairsOf[to].push_back(found->second);
    }
    return found->second;
  };
  for (auto [index, edge] : enumerate(problem.edges)) {
    int edgeIndex = int(index);
    auto linkResource = [&](int link) {
      for (auto [resource, figures] : enumerate(resources))
        if (figures.kind == Conflict::Kind::LinkBandwidth && figures.index == link)
          return int(resource);
      return -1;
    };
    auto usesOf = [&](const Transfer &transfer) {
      std::vector<std::pair<int, double>> uses;
      Bill bill = figures.bill(edgeIndex, transfer);
      for (auto [resource, of] : enumerate(resources))
        if (double amount = amountOf(bill, of.kind))
          uses.push_back({int(resource), amount});
      if (transfer.link >= 0)
        uses.push_back({linkResource(transfer.link), figures.gigabytesPerSecond(edgeIndex)});
      return uses;
    };
    auto &times = edgeTimes[index];
    if (edge.from == edge.to) {
      // An edge between executions of one piece is part of its options.
      times = {-1, false, groups[edge.from], 1, std::vector<double>(groups[edge.from], 0.0)};
      std::vector<Option> kept;
      for (auto &option : options[edge.from]) {
        Transfer transfer = figures.transfer(edgeIndex, option.choice, option.choice);
        if (transfer.forbidden)
          continue;
        times.ms[option.group] = transfer.ms;
        option.cost += figures.bill(edgeIndex, transfer).of(problem.objective);
        for (auto use : usesOf(transfer))
          option.uses.push_back(use);
        kept.push_back(option);
      }
      options[edge.from] = std::move(kept);
      active[edge.from].assign(options[edge.from].size(), 1);
      if (options[edge.from].empty())
        impossiblePiece = edge.from;
      continue;
    }
    bool swapped = edge.from > edge.to;
    Pair &pair = pairs[times.pair = pairOf(std::min(edge.from, edge.to), std::max(edge.from, edge.to))];
    times.swapped = swapped, times.fromGroups = pair.fromGroups, times.toGroups = pair.toGroups;
    times.ms.assign(pair.cost.size(), 0.0);
    for (int a = 0; a < pair.fromGroups; ++a)
      for (int b = 0; b < pair.toGroups; ++b) {
        int first = representative[pair.from][a], second = representative[pair.to][b];
        Transfer transfer =
            swapped ? figures.transfer(edgeIndex, second, first) : figures.transfer(edgeIndex, first, second);
        size_t at = size_t(a) * pair.toGroups + b;
        times.ms[at] = transfer.ms;
        pair.cost[at] += transfer.forbidden ? unlimited : figures.bill(edgeIndex, transfer).of(problem.objective);
        for (auto [resource, amount] : usesOf(transfer)) {
          if (amount <= 0)
            continue;
          auto found = llvm::find_if(pair.uses, [&](auto &use) { return use.first == resource; });
          if (found == pair.uses.end()) {
            pair.uses.push_back({resource, std::vector<double>(pair.cost.size(), 0.0)});
            found = std::prev(pair.uses.end());
          }
          found->second[at] += amount;
        }
      }
  }
  auto exclude = [&](int one, int other, bool samePool) {
    if (one == other)
      return;
    Pair &pair = pairs[pairOf(std::min(one, other), std::max(one, other))];
    for (int a = 0; a < pair.fromGroups; ++a)
      for (int b = 0; b < pair.toGroups; ++b) {
        int firstPool = problem.pieces[pair.from].candidates[representative[pair.from][a]].pool;
        int secondPool = problem.pieces[pair.to].candidates[representative[pair.to][b]].pool;
        if ((firstPool == secondPool) == samePool)
          pair.cost[size_t(a) * pair.toGroups + b] = unlimited;
      }
  };
  for (auto &group : problem.together)
    for (size_t i = 1; i < group.size(); ++i)
      exclude(group[i - 1], group[i], false);
  for (auto &group : problem.apart)
    for (size_t i = 0; i < group.size(); ++i)
      for (size_t j = i + 1; j < group.size(); ++j)
        exclude(group[i], group[j], true);
}

void Program::buildChecks() {
  for (auto [index, agent] : enumerate(problem.agents)) {
    bool inObjective = latencyWeights[index] > 0;
    if (agent.level.endToEndMs < unlimited || inObjective)
      checks.push_back({int(index), Measure::EndToEnd, agent.level.endToEndMs, inObjective});
    if (agent.level.firstOutputMs < unlimited)
      checks.push_back({int(index), Measure::FirstOutput, agent.level.firstOutputMs});
  }
}

double Program::edgeMs(int edge, int fromGroup, int toGroup) const {
  auto &times = edgeTimes[edge];
  if (times.pair < 0)
    return times.ms[fromGroup];
  return times.swapped ? times.ms[size_t(toGroup) * times.toGroups + fromGroup]
                       : times.ms[size_t(fromGroup) * times.toGroups + toGroup];
}

double Program::nominalMs(int agentIndex, Measure measure, ArrayRef<int> assignment) const {
  const Agent &agent = problem.agents[agentIndex];
  auto optionOf = [&](int piece) -> const Option & { return options[piece][assignment[piece]]; };
  return figures.latencies[agentIndex].linear(
      measure, {},
      [&](int region, bool later) {
        const Region &of = agent.regions[region];
        return executionTimeOf(of, optionOf(of.piece).stage, later);
      },
      [&](int edge) {
        return edgeMs(edge, optionOf(problem.edges[edge].from).group, optionOf(problem.edges[edge].to).group);
      });
}

/// Distributions that are kept: 12 KB each.
constexpr size_t mostDurations = 20000;

double Program::msOf(int agentIndex, Measure measure, ArrayRef<int> assignment) const {
  const Agent &agent = problem.agents[agentIndex];
  const AgentLatency &latency = figures.latencies[agentIndex];
  auto stageOf = [&](int region) -> const Stage & {
    int piece = agent.regions[region].piece;
    return options[piece][assignment[piece]].stage;
  };
  auto groupOf = [&](int piece) { return options[piece][assignment[piece]].group; };
  auto edgeTime = [&](int edge) {
    return edgeMs(edge, groupOf(problem.edges[edge].from), groupOf(problem.edges[edge].to));
  };
  if (!agent.level.percentile)
    return nominalMs(agentIndex, measure, assignment);
  bool exact = true;
  return latency
      .distribution(
          measure,
          [&](int index, bool later, ExecutionPart part) {
            const Region &region = agent.regions[index];
            std::tuple key{agentIndex, index, assignment[region.piece], later, part};
            {
              std::lock_guard lock(durationsMutex);
              if (auto known = durations.find(key); known != durations.end())
                return known->second;
            }
            Distribution time = durationOf(stageOf(index), problem.pieces[region.piece].shape,
                                           region.timeScale * (later ? region.laterTurnScale : 1), part);
            std::lock_guard lock(durationsMutex);
            if (durations.size() > mostDurations)
              durations.clear();
            return durations.try_emplace(key, std::move(time)).first->second;
          },
          edgeTime, exact)
      .quantile(*agent.level.percentile);
}

double Program::costOf(ArrayRef<int> assignment) const {
  double cost = 0;
  std::vector<double> usage(resources.size(), 0.0);
  for (auto [all, taken] : zip(options, assignment)) {
    cost += all[taken].cost;
    for (auto [resource, amount] : all[taken].uses)
      usage[resource] += amount;
  }
  for (const Pair &pair : pairs)
    cost += pair.cost[size_t(options[pair.from][assignment[pair.from]].group) * pair.toGroups +
                      options[pair.to][assignment[pair.to]].group];
  for (auto [resource, used] : zip(resources, usage))
    if (resource.nodeSize && used > 0)
      cost += std::ceil(used / double(resource.nodeSize) - 1e-9) * resource.nodeCost;
  return cost;
}

double Program::relaxedCost(const Option &option, int piece) const {
  double cost = option.cost;
  for (auto [used, amount] : option.uses)
    if (resources[used].nodeSize)
      cost += amount / resources[used].nodeSize * resources[used].nodeCost;
  return cost;
}

Placements Program::placementsOf(ArrayRef<int> assignment) const {
  Placements placements;
  for (auto [piece, option] : enumerate(assignment))
    placements.push_back({options[piece][option].choice, options[piece][option].replicas});
  return placements;
}

std::vector<int> Program::assignmentOf(const Placements &placements) const {
  std::vector<int> assignment;
  for (auto [piece, placed] : enumerate(placements)) {
    int found = -1;
    for (auto [index, option] : enumerate(options[piece]))
      if (option.choice == placed.choice && (found < 0 || option.replicas == placed.replicas))
        found = int(index);
    assignment.push_back(found);
  }
  return assignment;
}

} // namespace intarsia::plan
