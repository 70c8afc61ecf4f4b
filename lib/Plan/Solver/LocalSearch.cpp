//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "LocalSearch.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace llvm;

namespace intarsia::plan {

/// Number of options taken from each group by cost, and again by time.
constexpr size_t candidatesOfGroup = 2;
/// Number of options of a pair by cost, and again by time. Where nothing excludes options there are as many as products
/// of groups.
constexpr size_t candidatesOfPair = 2000;
/// Number of blocks up to which two of them are moved together.
constexpr size_t mostPairedBlocks = 40;

LocalSearch::LocalSearch(const Program &program)
    : program(program), checksOf(program.problem.agents.size()), agentsOf(program.options.size()) {
  for (auto [index, check] : enumerate(program.checks))
    checksOf[check.agent].push_back(int(index));
  for (auto [index, agent] : enumerate(program.problem.agents)) {
    if (checksOf[index].empty())
      continue;
    for (int piece : program.piecesOf(int(index)))
      agentsOf[piece].push_back(int(index));
  }
  for (auto [piece, all] : enumerate(program.options)) {
    std::vector<std::vector<int>> groups(program.groups[piece]);
    for (auto [index, option] : enumerate(all))
      groups[option.group].push_back(int(index));
    std::set<int> chosen;
    auto choose = [&](std::vector<int> &group, auto figure) {
      size_t count = std::min(candidatesOfGroup, group.size());
      std::partial_sort(group.begin(), group.begin() + count, group.end(),
                        [&](int a, int b) { return figure(all[a]) < figure(all[b]); });
      chosen.insert(group.begin(), group.begin() + count);
    };
    for (std::vector<int> &group : groups) {
      choose(group, [&](const Option &option) { return program.relaxedCost(option, int(piece)); });
      choose(group, [](const Option &o) { return o.stage.meanMs(); });
    }
    candidates.emplace_back(chosen.begin(), chosen.end());
  }
  for (const Pair &pair : program.pairs) {
    candidatesOfPairs.emplace_back();
    for (int from : candidates[pair.from])
      for (int to : candidates[pair.to])
        if (pair.cost[size_t(program.options[pair.from][from].group) * pair.toGroups +
                      program.options[pair.to][to].group] < unlimited &&
            poolOf(pair.from, from) == poolOf(pair.to, to))
          candidatesOfPairs.back().push_back({from, to});
    auto &all = candidatesOfPairs.back();
    if (all.size() <= 2 * candidatesOfPair)
      continue;
    auto byCost = [&](auto &options) {
      return program.relaxedCost(program.options[pair.from][options.first], pair.from) +
             program.relaxedCost(program.options[pair.to][options.second], pair.to);
    };
    auto byTime = [&](auto &options) {
      return program.options[pair.from][options.first].stage.meanMs() +
             program.options[pair.to][options.second].stage.meanMs();
    };
    std::nth_element(all.begin(), all.begin() + candidatesOfPair, all.end(),
                     [&](auto &a, auto &b) { return byCost(a) < byCost(b); });
    std::nth_element(all.begin() + candidatesOfPair, all.begin() + 2 * candidatesOfPair, all.end(),
                     [&](auto &a, auto &b) { return byTime(a) < byTime(b); });
    all.resize(2 * candidatesOfPair);
    llvm::sort(all);
  }
  findBlocks();
}

void LocalSearch::findBlocks() {
  size_t pieces = program.options.size(), pools = program.problem.pools.size();
  IntEqClasses classes(pieces);
  for (const Edge &edge : program.problem.edges)
    if (!edge.fromKinds.empty())
      classes.join(edge.from, edge.to);
  for (auto &group : program.problem.together)
    for (int piece : group)
      classes.join(group.front(), piece);
  classes.compress();
  blocks.resize(classes.getNumClasses());
  for (size_t piece = 0; piece < pieces; ++piece) {
    blockOf.push_back(int(classes[piece]));
    blocks[blockOf.back()].pieces.push_back(int(piece));
  }
  auto costOf = [&](int piece, int option) { return program.relaxedCost(program.options[piece][option], piece); };
  auto msOf = [&](int piece, int option) { return program.options[piece][option].stage.meanMs(); };
  for (Block &block : blocks) {
    block.there.resize(pools);
    for (size_t pool = 0; pool < pools; ++pool)
      for (bool cheapest : {true, false}) {
        auto figureOf = [&](int piece, int option) { return cheapest ? costOf(piece, option) : msOf(piece, option); };
        // By position in the block: options there, the best of each group, best first.
        std::vector<std::vector<int>> options;
        for (int piece : block.pieces) {
          std::map<int, int> best;
          for (int option : candidates[piece]) {
            if (poolOf(piece, option) != int(pool))
              continue;
            auto [known, inserted] = best.try_emplace(program.options[piece][option].group, option);
            if (!inserted && figureOf(piece, option) < figureOf(piece, known->second))
              known->second = option;
          }
          options.emplace_back();
          for (auto &[group, option] : best)
            options.back().push_back(option);
          llvm::sort(options.back(), [&](int a, int b) { return figureOf(piece, a) < figureOf(piece, b); });
        }
        // For each option of the first piece, of each other one the best that goes with those before it.
        std::vector<int> best;
        double least = unlimited;
        for (int first : options.front()) {
          std::vector<int> taken{first};
          double sum = figureOf(block.pieces.front(), first);
          for (size_t position = 1; position < options.size() && taken.size() == position && sum < least; ++position) {
            int piece = block.pieces[position];
            auto goes = [&](int option) {
              return all_of(program.pairsOf[piece], [&](int index) {
                const Pair &pair = program.pairs[index];
                int other = pair.from == piece ? pair.to : pair.from;
                auto at = size_t(find(block.pieces, other) - block.pieces.begin());
                if (at >= position)
                  return true;
                int own = program.options[piece][option].group, theirs = program.options[other][taken[at]].group;
                return pair.cost[pair.from == piece ? size_t(own) * pair.toGroups + theirs
                                                    : size_t(theirs) * pair.toGroups + own] < unlimited;
              });
            };
            if (auto option = find_if(options[position], goes); option != options[position].end()) {
              taken.push_back(*option);
              sum += figureOf(piece, *option);
            }
          }
          if (taken.size() == options.size() && sum < least)
            least = sum, best = std::move(taken);
        }
        if (!best.empty() && !is_contained(block.there[pool], best))
          block.there[pool].push_back(std::move(best));
      }
  }
}

bool LocalSearch::moveTo(ArrayRef<int> moved, int pool) {
  bool any = false;
  for (size_t way : {0, 1}) { // cheapest, fastest
    std::vector<Change> changes;
    bool differs = way == 0;
    for (int index : moved) {
      const Block &block = blocks[index];
      const auto &there = block.there[pool];
      if (there.empty())
        continue;
      differs |= there.size() > way;
      for (auto [piece, option] : zip(block.pieces, there[std::min(way, there.size() - 1)]))
        if (option != current[piece])
          changes.push_back({piece, option});
    }
    bool isActive =
        all_of(changes, [&](const Change &change) { return program.active[change.piece][change.option] != 0; });
    if (differs && changes.size() > 1 && isActive)
      any |= attempt(changes);
  }
  return any;
}

bool LocalSearch::moveBlocks(Clock::time_point deadline) {
  bool any = false;
  int pools = int(program.problem.pools.size());
  auto isOn = [&](int block, int pool) {
    return any_of(blocks[block].pieces, [&](int piece) { return poolOf(piece, current[piece]) == pool; });
  };
  auto tryPools = [&](ArrayRef<int> moved) {
    for (int pool = 0; pool < pools && Clock::now() < deadline; ++pool)
      any |= moveTo(moved, pool);
  };
  std::set<std::pair<int, int>> pairs;
  auto pair = [&](int one, int other) {
    if (one != other)
      pairs.insert(std::minmax(one, other));
  };
  std::vector<int> mobile; // blocks that may be on several pools
  for (int block = 0; block < int(blocks.size()); ++block)
    if (count_if(blocks[block].there, [](auto &there) { return !there.empty(); }) > 1)
      mobile.push_back(block);
  for (int block : mobile)
    tryPools({block});
  for (int pool = 0; pool < pools; ++pool) {
    std::vector<int> here;
    copy_if(mobile, std::back_inserter(here), [&](int block) { return isOn(block, pool); });
    if (here.size() > 1)
      tryPools(here);
    for (int one : here)
      for (int other : here)
        pair(one, other);
  }
  if (mobile.size() > mostPairedBlocks)
    return any;
  for (const Edge &edge : program.problem.edges)
    if (int one = blockOf[edge.from], other = blockOf[edge.to];
        is_contained(mobile, one) && is_contained(mobile, other))
      pair(one, other);
  for (auto [one, other] : pairs)
    tryPools({one, other});
  return any;
}

double LocalSearch::latencyViolation(int agent, double &objective) const {
  double violation = 0;
  objective = 0;
  for (int index : checksOf[agent]) {
    const LatencyCheck &check = program.checks[index];
    double ms = program.nominalMs(agent, check.measure, current);
    if (check.inObjective)
      objective = std::max(objective, ms * program.latencyWeights[agent]);
    double limit = check.limit * tightening[agent];
    if (exceeds(ms, limit))
      violation += limit > 0 ? std::min(ms / limit - 1, 1e6) + 1e-3 : 1e6;
  }
  return violation;
}

std::pair<double, double> LocalSearch::totals() const {
  double cost = linearCost, violation = 0;
  SmallVector<double, 32> extra(usage.size(), 0.0);
  for (auto [index, resource] : enumerate(program.resources))
    if (resource.nodeSize && usage[index] > 0) {
      double nodes = std::ceil(usage[index] / resource.nodeSize - 1e-9);
      cost += nodes * resource.nodeCost;
      for (auto [used, amount] : resource.nodeUses)
        extra[used] += nodes * amount;
    }
  for (auto [index, resource] : enumerate(program.resources))
    if (double used = usage[index] + extra[index]; exceeds(used, resource.limit))
      violation += resource.limit > 0 ? used / resource.limit - 1 + 1e-3 : used;
  return {cost, violation};
}

void LocalSearch::apply(ArrayRef<Change> changes) {
  auto account = [&](int piece, double sign) {
    const Option &option = program.options[piece][current[piece]];
    linearCost += sign * option.cost;
    for (auto [resource, amount] : option.uses)
      usage[resource] += sign * amount;
  };
  auto accountPair = [&](int index, double sign) {
    const Pair &pair = program.pairs[index];
    size_t at = size_t(program.options[pair.from][current[pair.from]].group) * pair.toGroups +
                program.options[pair.to][current[pair.to]].group;
    // An excluded pair is a violation with a price that no plan outweighs.
    linearCost += sign * std::min(pair.cost[at], 1e3 * unit);
    for (auto &[resource, amounts] : pair.uses)
      usage[resource] += sign * amounts[at];
  };
  for (double sign : {-1.0, 1.0}) {
    SmallVector<int, 16> done;
    for (auto &change : changes) {
      account(change.piece, sign);
      for (int pair : program.pairsOf[change.piece])
        if (!is_contained(done, pair)) {
          done.push_back(pair);
          accountPair(pair, sign);
        }
    }
    if (sign < 0)
      for (auto &change : changes)
        current[change.piece] = change.option;
  }
}

void LocalSearch::reset(ArrayRef<int> assignment) {
  current.assign(assignment.begin(), assignment.end());
  linearCost = 0;
  unit = 0;
  usage.assign(program.resources.size(), 0.0);
  for (auto [piece, option] : enumerate(current)) {
    const Option &taken = program.options[piece][option];
    linearCost += taken.cost;
    for (auto [resource, amount] : taken.uses)
      usage[resource] += amount;
    unit += program.relaxedCost(taken, int(piece));
  }
  agentViolation.assign(program.problem.agents.size(), 0.0);
  agentObjective.assign(program.problem.agents.size(), 0.0);
  double latency = 0, violated = 0;
  for (size_t agent = 0; agent < agentViolation.size(); ++agent) {
    agentViolation[agent] = latencyViolation(int(agent), agentObjective[agent]);
    latency += agentObjective[agent], violated += agentViolation[agent];
  }
  unit = std::max(unit + latency, 1e-12);
  for (auto &pair : program.pairs) {
    size_t at = size_t(program.options[pair.from][current[pair.from]].group) * pair.toGroups +
                program.options[pair.to][current[pair.to]].group;
    linearCost += std::min(pair.cost[at], 1e3 * unit);
    for (auto &[resource, amounts] : pair.uses)
      usage[resource] += amounts[at];
  }
  auto [cost, violation] = totals();
  currentCost = cost + latency;
  currentViolation = violation + violated;
}

bool LocalSearch::attempt(ArrayRef<Change> changes) {
  SmallVector<Change, 2> back;
  for (auto &change : changes)
    back.push_back({change.piece, current[change.piece]});
  double costBefore = linearCost;
  SmallVector<double, 32> usageBefore(usage.begin(), usage.end());
  apply(changes);
  auto undo = [&] {
    for (auto &change : back)
      current[change.piece] = change.option;
    linearCost = costBefore;
    usage.assign(usageBefore.begin(), usageBefore.end());
    return false;
  };
  SmallVector<int, 4> agents;
  double otherViolation = 0, otherObjective = 0;
  for (auto &change : changes)
    for (int agent : agentsOf[change.piece])
      if (!is_contained(agents, agent))
        agents.push_back(agent);
  for (size_t agent = 0; agent < agentViolation.size(); ++agent)
    if (!is_contained(agents, int(agent)))
      otherViolation += agentViolation[agent], otherObjective += agentObjective[agent];
  auto [cost, violation] = totals();
  cost += otherObjective, violation += otherViolation;
  double goal = currentCost + penalty * currentViolation - 1e-10 * unit;
  // Latencies can only raise the total.
  if (cost + penalty * violation >= goal)
    return undo();
  SmallVector<std::pair<double, double>, 4> of;
  for (int agent : agents) {
    double objective;
    double violated = latencyViolation(agent, objective);
    of.push_back({violated, objective});
    violation += violated, cost += objective;
    if (cost + penalty * violation >= goal)
      return undo();
  }
  for (auto [agent, figures] : zip(agents, of))
    std::tie(agentViolation[agent], agentObjective[agent]) = figures;
  currentCost = cost, currentViolation = violation;
  return true;
}

void LocalSearch::run(std::vector<int> &assignment, ArrayRef<double> tightened, Clock::time_point deadline) {
  tightening.assign(tightened.begin(), tightened.end());
  reset(assignment);
  std::vector<uint8_t> settled(program.options.size());
  // Prices of violations rise until there are none.
  for (double factor : {1.0, 10.0, 100.0}) {
    penalty = factor * unit;
    llvm::fill(settled, 0);
    for (bool moved = true; moved && Clock::now() < deadline;) {
      moved = false;
      for (size_t piece = 0; piece < current.size(); ++piece) {
        if (settled[piece] && currentViolation == 0)
          continue;
        bool here = false;
        auto &all = program.options[piece];
        for (size_t option = 0; option < all.size(); ++option)
          if (int(option) != current[piece] && program.active[piece][option])
            here |= attempt({{int(piece), int(option)}});
        for (int index : program.pairsOf[piece]) {
          const Pair &pair = program.pairs[index];
          for (auto [from, to] : candidatesOfPairs[index])
            if (program.active[pair.from][from] && program.active[pair.to][to] &&
                (current[pair.from] != from || current[pair.to] != to))
              here |= attempt({{pair.from, from}, {pair.to, to}});
        }
        settled[piece] = !here;
        moved |= here;
        if ((piece & 15) == 0 && Clock::now() >= deadline)
          break;
      }
      // Pieces that share a node or a device, and those that send each other much, cost more where only one has moved.
      if (!moved && moveBlocks(deadline)) {
        moved = true;
        llvm::fill(settled, 0);
      }
    }
    if (currentViolation == 0)
      break;
  }
  assignment = current;
}

} // namespace intarsia::plan
