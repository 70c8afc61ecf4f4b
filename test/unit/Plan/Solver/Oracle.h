//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Plans by plain enumeration. Nothing of the planner but its input is used: loads, latencies, queues, costs and
// constraints are written here a second time, in another way: percentiles by going through every outcome.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_PLANORACLE_H
#define INTARSIA_TEST_PLANORACLE_H

#include "intarsia/Plan/Placement.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace oracle {
using namespace intarsia::plan;

/// Replays a random experiment for all its outcomes: `draw` returns the alternative that is taken this time.
class Outcomes {
public:
  template <typename Experiment> void forAll(Experiment &&experiment) {
    path.clear();
    do {
      at = 0, weight = 1;
      experiment();
    } while (next());
  }
  template <typename Alternatives> int draw(const Alternatives &probabilities) {
    if (at == path.size())
      path.push_back({0, int(probabilities.size())});
    int taken = path[at++].first;
    weight *= probabilities[taken];
    return taken;
  }
  double probability() const { return weight; }

private:
  bool next() {
    while (!path.empty() && path.back().first + 1 == path.back().second)
      path.pop_back();
    if (path.empty())
      return false;
    ++path.back().first;
    return true;
  }
  std::vector<std::pair<int, int>> path;
  size_t at = 0;
  double weight = 1;
};

struct Replica {
  double wait = 0, first = 0, rest = 0, token = 0, busy = 0;
};

class Oracle {
public:
  explicit Oracle(const PlacementProblem &problem) : p(problem) {
    rate.assign(p.pieces.size(), 0.0);
    work.assign(p.pieces.size(), 0.0);
    squares.assign(p.pieces.size(), 0.0);
    perRequest.assign(p.pieces.size(), 0.0);
    edgeRate.assign(p.edges.size(), 0.0);
    edgePerRequest.assign(p.edges.size(), 0.0);
    for (auto &agent : p.agents)
      total += agent.requestsPerSecond;
    for (auto &agent : p.agents) {
      share.push_back(total > 0 ? agent.requestsPerSecond / total : 1.0 / p.agents.size());
      count(agent, agent.root, agent.requestsPerSecond, share.back(), 1, 0);
    }
  }

  static double meanCount(const Region &region) {
    double mean = 0;
    for (auto [n, probability] : region.counts)
      mean += n * probability;
    return mean;
  }
  static double someCount(const Region &region) {
    double some = 0;
    for (auto [n, probability] : region.counts)
      some += n > 0 ? probability : 0;
    return some;
  }

  void count(const Agent &agent, int index, double perSecond, double perMean, double first, double later) {
    // `first` and `later`: how many of the executions are in first turns and in others of the innermost loop.
    const Region &region = agent.regions[index];
    auto edges = [&](const std::vector<int> &list, double factor) {
      for (int edge : list)
        edgeRate[edge] += perSecond * factor, edgePerRequest[edge] += perMean * factor;
    };
    switch (region.kind) {
    case Region::Kind::Piece: {
      double scale = region.timeScale * (first + later * region.laterTurnScale);
      double both = first + later;
      rate[region.piece] += perSecond;
      work[region.piece] += perSecond * scale / both;
      squares[region.piece] += perSecond * region.timeScale * region.timeScale *
                               (first + later * region.laterTurnScale * region.laterTurnScale) / both;
      perRequest[region.piece] += perMean * scale / both;
      edges(region.entryEdges, 1);
      break;
    }
    case Region::Kind::Dag:
      for (auto &arc : region.arcs)
        edges(arc.edges, 1);
      for (int child : region.children)
        count(agent, child, perSecond, perMean, first, later);
      break;
    case Region::Kind::Branch:
      for (size_t i = 0; i < region.children.size(); ++i)
        if (region.probabilities[i] > 0)
          count(agent, region.children[i], perSecond * region.probabilities[i], perMean * region.probabilities[i],
                first, later);
      break;
    case Region::Kind::Loop: {
      double mean = meanCount(region), some = someCount(region);
      edges(region.backEdges, mean - some);
      if (mean > 0)
        count(agent, region.children[0], perSecond * mean, perMean * mean, some, mean - some);
      break;
    }
    case Region::Kind::Map:
      if (double mean = meanCount(region))
        count(agent, region.children[0], perSecond * mean, perMean * mean, first, later);
      break;
    }
  }

  static int64_t counted(const Choice &choice, const Pool &pool) {
    int64_t devices = choice.devicesPerReplica;
    if (!devices)
      return 0;
    if (devices >= pool.devicesPerNode)
      return int64_t(std::ceil(double(devices) / pool.devicesPerNode)) * pool.devicesPerNode;
    for (int64_t divisor = devices;; ++divisor)
      if (pool.devicesPerNode % divisor == 0)
        return divisor;
  }

  /// Devices that hold all of these parts of one, each part on one of them: the largest first, wherever there is room.
  static double packed(std::vector<double> parts) {
    std::sort(parts.rbegin(), parts.rend());
    std::vector<double> room;
    for (double part : parts) {
      auto fits = std::find_if(room.begin(), room.end(), [&](double left) { return left >= part - 1e-9; });
      if (fits == room.end())
        fits = room.insert(room.end(), 1.0);
      *fits -= part;
    }
    return double(room.size());
  }

  static double capacity(const Choice &choice) {
    return choice.executionsPerSecond ? *choice.executionsPerSecond
           : choice.milliseconds > 0  ? 1000 * choice.slots / choice.milliseconds
                                      : 1e300;
  }

  int64_t leastReplicas(int piece, const Choice &choice) const {
    if (!choice.devicesPerReplica && !choice.executionsPerSecond)
      return 1;
    double free = p.pieces[piece].pinnedReplicas ? 0 : p.pieces[piece].headroom;
    int64_t n = 1;
    while (work[piece] * (1 + 1e-9) >= n * capacity(choice) * (1 - free))
      ++n;
    return n;
  }

  /// M/M/c through Erlang's B formula; `millisecondsAlone` is not used by the instances that queue.
  Replica serve(int piece, const Choice &choice, int64_t replicas) const {
    Replica replica;
    double first = choice.firstOutputMs.value_or(choice.milliseconds);
    replica.first = first, replica.rest = choice.milliseconds - first, replica.token = choice.tokenMs;
    bool outside = !choice.devicesPerReplica && !choice.executionsPerSecond;
    if (outside || work[piece] <= 0 || choice.milliseconds <= 0)
      return replica;
    replica.busy = work[piece] / (capacity(choice) * replicas);
    if (!p.queueing)
      return replica;
    double servers = double(replicas) * choice.slots, scale = work[piece] / rate[piece];
    double load = rate[piece] * choice.milliseconds * scale / 1000, blocked = 1;
    for (int i = 1; i <= servers; ++i)
      blocked = load * blocked / (i + load * blocked);
    // Mean share of replicas with one execution or more, which take what comes in turns.
    double all = 0, some = 0, weight = 1;
    for (int i = 0; i <= servers; weight *= load / ++i) {
      double here = i < servers ? weight : weight / (1 - load / servers);
      all += here, some += here * std::min<double>(i, double(replicas));
    }
    replica.busy = some / all / double(replicas);
    double waits = servers * blocked / (servers - load * (1 - blocked));
    double variation = choice.firstOutputMs && first < choice.milliseconds
                           ? variationOf(p.pieces[piece].shape) * std::pow(1 - first / choice.milliseconds, 2)
                           : variationOf(p.pieces[piece].shape);
    // The second moment of a service time over its squared mean, less one: spread times different scales.
    variation = (1 + variation) * (squares[piece] / rate[piece]) / (scale * scale) - 1;
    replica.wait = waits * choice.milliseconds * scale / (servers - load) * (1 + variation) / 2;
    return replica;
  }

  static double variationOf(const Shape &shape) {
    if (shape.kind == Shape::Kind::Exponential)
      return 1;
    if (shape.kind != Shape::Kind::Atoms)
      return 0;
    double mean = 0, square = 0;
    for (auto [value, probability] : shape.atoms)
      mean += value * probability, square += value * value * probability;
    return square / (mean * mean) - 1;
  }

  struct Way {
    double ms = 0, dollars = 0, joules = 0, gigabytes = 0;
    int link = -1;
    bool possible = true;
  };
  Way way(const Edge &edge, const Placements &plan) const {
    int from = plan[edge.from].choice, to = plan[edge.to].choice;
    int fromPool = p.pieces[edge.from].candidates[from].pool, toPool = p.pieces[edge.to].candidates[to].pool;
    Way result;
    for (size_t l = 0; l < p.links.size(); ++l)
      for (auto pair : p.links[l].pairs)
        if (pair == std::make_pair(fromPool, toPool))
          result.link = int(l);
    if (!edge.fromKinds.empty()) {
      bool alike = edge.fromKinds.at(from) == edge.toKinds.at(to);
      if (!alike && !edge.mixesKinds) {
        result.possible = false;
        return result;
      }
      for (int kind : edge.sameReplicas)
        if (alike && kind == edge.fromKinds.at(from)) {
          result.link = -1;
          return result;
        }
    }
    if (result.link < 0) {
      result.possible = fromPool == toPool;
      return result;
    }
    const Link &link = p.links[result.link];
    result.ms = link.microseconds * 1e-3 + edge.bytes / (link.gigabytesPerSecond * 1e6);
    result.dollars = edge.bytes * 1e-9 * link.dollarsPerGigabyte;
    result.joules = edge.bytes * 1e-9 * link.joulesPerGigabyte;
    return result;
  }

  struct Verdict {
    std::vector<double> endToEnd, firstOutput; ///< by agent
    std::vector<double> linkUse;
    std::vector<double> poolUse; ///< devices that are held
    bool shares = false;         ///< true if any device is shared
    std::vector<double> tokens;  ///< by piece
    double dollarsPerHour = 0, peak = 0, grams = 0, objective = 0;
    bool structureHolds = true; ///< pins, apart, together, routes, pools
  };

  /// (first output, end) of one run of a region; random parts drawn, or expected if `outcomes` is null.
  struct Times {
    double first, end;
  };

  /// Latencies are left out where the structure does not hold, or other costs reach `worthBelow`.
  Verdict judge(const Placements &plan, double worthBelow = 1e300) const {
    Verdict verdict;
    std::vector<Replica> replicas;
    double perHour = 0, watts = 0, grams = 0, dollarsEach = 0, joulesEach = 0, gramsEach = 0;
    verdict.poolUse.assign(p.pools.size(), 0.0);
    std::vector<std::vector<double>> parts(p.pools.size());
    int moves = 0;
    for (size_t i = 0; i < p.pieces.size(); ++i) {
      const Choice &choice = p.pieces[i].candidates[plan[i].choice];
      const Pool &pool = p.pools[choice.pool];
      Replica replica = serve(int(i), choice, plan[i].replicas);
      replicas.push_back(replica);
      verdict.tokens.push_back(replica.token);
      double devices = double(counted(choice, pool) * plan[i].replicas), own = pool.wholeNodes ? 0 : devices;
      if (choice.deviceShare < 1) {
        parts[choice.pool].insert(parts[choice.pool].end(), size_t(plan[i].replicas), choice.deviceShare);
        devices *= choice.deviceShare, own = 0;
        verdict.shares = true;
      } else {
        verdict.poolUse[choice.pool] += devices;
      }
      double power = own * pool.idleWatts + devices * (pool.busyWatts - pool.idleWatts) * replica.busy +
                     work[i] * choice.joulesPerExecution;
      perHour += own * pool.dollarsPerDeviceHour + work[i] * 3600 * choice.dollarsPerExecution;
      watts += power, grams += power * pool.gramsPerKilowattHour / 1000;
      verdict.peak +=
          own * pool.idleWatts + devices * (pool.busyWatts - pool.idleWatts) + work[i] * choice.joulesPerExecution;
      dollarsEach += perRequest[i] * choice.dollarsPerExecution;
      joulesEach += perRequest[i] * choice.joulesPerExecution;
      gramsEach += perRequest[i] * choice.joulesPerExecution / 3.6e6 * pool.gramsPerKilowattHour;
      if (p.pieces[i].pinnedPool && *p.pieces[i].pinnedPool != choice.pool)
        verdict.structureHolds = false;
      if (p.pieces[i].pinnedReplicas && *p.pieces[i].pinnedReplicas != plan[i].replicas)
        verdict.structureHolds = false;
      if (!p.previous.empty() && p.previous[i].choice >= 0 && p.previous[i].choice != plan[i].choice)
        ++moves;
    }
    for (size_t k = 0; k < p.pools.size(); ++k) {
      const Pool &pool = p.pools[k];
      double together = packed(parts[k]);
      verdict.poolUse[k] += together;
      if (pool.wholeNodes)
        together = verdict.poolUse[k] = std::ceil(verdict.poolUse[k] / pool.devicesPerNode) * pool.devicesPerNode;
      perHour += together * pool.dollarsPerDeviceHour;
      double idle = together * pool.idleWatts;
      watts += idle, grams += idle * pool.gramsPerKilowattHour / 1000, verdict.peak += idle;
      if (verdict.poolUse[k] > pool.devices)
        verdict.structureHolds = false;
    }
    std::vector<Way> ways;
    verdict.linkUse.assign(p.links.size(), 0.0);
    for (size_t e = 0; e < p.edges.size(); ++e) {
      Way taken = way(p.edges[e], plan);
      if (!taken.possible)
        verdict.structureHolds = false;
      perHour += edgeRate[e] * taken.dollars * 3600;
      watts += edgeRate[e] * taken.joules, verdict.peak += edgeRate[e] * taken.joules;
      dollarsEach += edgePerRequest[e] * taken.dollars, joulesEach += edgePerRequest[e] * taken.joules;
      if (taken.link >= 0)
        verdict.linkUse[taken.link] += edgeRate[e] * p.edges[e].bytes / 1e9;
      ways.push_back(taken);
    }
    for (size_t l = 0; l < p.links.size(); ++l)
      if (verdict.linkUse[l] > p.links[l].gigabytesPerSecond * (1 + 1e-9))
        verdict.structureHolds = false;
    auto pool = [&](int piece) { return p.pieces[piece].candidates[plan[piece].choice].pool; };
    for (auto &group : p.together) {
      std::set<int> pools;
      for (int piece : group)
        pools.insert(pool(piece));
      verdict.structureHolds &= pools.size() <= 1;
    }
    for (auto &group : p.apart) {
      std::set<int> pools, members(group.begin(), group.end());
      for (int piece : members)
        pools.insert(pool(piece));
      verdict.structureHolds &= pools.size() == members.size();
    }
    verdict.dollarsPerHour = perHour, verdict.grams = grams;
    switch (p.objective) {
    case Objective::DollarsPerHour:
      verdict.objective = perHour;
      break;
    case Objective::DollarsPerRequest:
      verdict.objective = total > 0 ? perHour / 3600 / total : dollarsEach;
      break;
    case Objective::JoulesPerRequest:
      verdict.objective = total > 0 ? watts / total : joulesEach;
      break;
    case Objective::GramsPerRequest:
      verdict.objective = total > 0 ? grams / 3600 / total : gramsEach;
      break;
    case Objective::Latency:
      break;
    }
    verdict.objective += moves * p.moveCost;
    if (!verdict.structureHolds || verdict.objective >= worthBelow) {
      verdict.structureHolds = false;
      return verdict;
    }
    for (size_t a = 0; a < p.agents.size(); ++a) {
      auto [first, end] = latency(p.agents[a], replicas, ways);
      verdict.firstOutput.push_back(first), verdict.endToEnd.push_back(end);
      if (p.objective == Objective::Latency)
        verdict.objective += share[a] * end;
    }
    return verdict;
  }

  bool holds(const Verdict &verdict) const {
    if (!verdict.structureHolds || verdict.dollarsPerHour > p.dollarsPerHourCap || verdict.peak > p.wattsCap ||
        verdict.grams > p.gramsPerHourCap)
      return false;
    for (size_t a = 0; a < p.agents.size(); ++a) {
      auto &level = p.agents[a].level;
      if (verdict.endToEnd[a] > level.endToEndMs || verdict.firstOutput[a] > level.firstOutputMs)
        return false;
      for (auto &region : p.agents[a].regions)
        if (region.kind == Region::Kind::Piece && verdict.tokens[region.piece] > level.tokenMs)
          return false;
    }
    return true;
  }

  /// All placements that are worth looking at: replicas from the smallest number on.
  void forAll(const std::function<void(const Placements &)> &visit) const {
    std::vector<Placements> candidateSets;
    for (size_t i = 0; i < p.pieces.size(); ++i) {
      candidateSets.emplace_back();
      for (size_t c = 0; c < p.pieces[i].candidates.size(); ++c) {
        const Choice &choice = p.pieces[i].candidates[c];
        int64_t least = leastReplicas(int(i), choice);
        bool queues = p.queueing && rate[i] > 0 && (choice.devicesPerReplica || choice.executionsPerSecond);
        if (auto asked = p.pieces[i].pinnedReplicas) {
          if (*asked >= least)
            candidateSets.back().push_back({int(c), *asked});
          continue;
        }
        for (int64_t n = least; n <= least + (queues ? p.pieces[i].extraReplicas : 0); ++n)
          candidateSets.back().push_back({int(c), n});
      }
    }
    Placements plan(p.pieces.size());
    std::function<void(size_t)> recurse = [&](size_t i) {
      if (i == candidateSets.size())
        return visit(plan);
      for (auto &placed : candidateSets[i]) {
        plan[i] = placed;
        recurse(i + 1);
      }
    };
    recurse(0);
  }

  std::pair<double, double> latency(const Agent &agent, const std::vector<Replica> &replicas,
                                    const std::vector<Way> &ways) const {
    if (!agent.level.percentile) {
      Times times = run(agent, agent.root, false, replicas, ways, nullptr);
      return {times.first, times.end};
    }
    std::map<double, double> firsts, ends;
    Outcomes outcomes;
    outcomes.forAll([&] {
      Times times = run(agent, agent.root, false, replicas, ways, &outcomes);
      // Sums in another order differ in their last bits.
      firsts[std::round(times.first * 1e7) / 1e7] += outcomes.probability();
      ends[std::round(times.end * 1e7) / 1e7] += outcomes.probability();
    });
    auto percentile = [&](const std::map<double, double> &mass) {
      double sum = 0;
      for (auto [value, probability] : mass)
        if ((sum += probability) >= *agent.level.percentile - 1e-12)
          return value;
      return mass.rbegin()->first;
    };
    return {percentile(firsts), percentile(ends)};
  }

  std::vector<double> rate, work, squares, perRequest, edgeRate, edgePerRequest, share;
  double total = 0;

private:
  double arrival(const std::vector<int> &edges, const std::vector<Way> &ways) const {
    double last = 0;
    for (int edge : edges)
      last = std::max(last, ways[edge].ms);
    return last;
  }

  /// Returns the time to the first output of an execution, without the wait.
  double ownFirst(const Agent &agent, int index, bool later, const std::vector<Replica> &replicas) const {
    const Region &region = agent.regions[index];
    return replicas[region.piece].first * region.timeScale * (later ? region.laterTurnScale : 1);
  }

  Times run(const Agent &agent, int index, bool later, const std::vector<Replica> &replicas,
            const std::vector<Way> &ways, Outcomes *outcomes) const {
    const Region &region = agent.regions[index];
    switch (region.kind) {
    case Region::Kind::Piece: {
      const Replica &replica = replicas[region.piece];
      double scale = region.timeScale * (later ? region.laterTurnScale : 1), drawn = 1;
      const Shape &shape = p.pieces[region.piece].shape;
      if (outcomes && shape.kind == Shape::Kind::Atoms) {
        std::vector<double> probabilities;
        double mean = 0;
        for (auto [value, probability] : shape.atoms)
          probabilities.push_back(probability), mean += value * probability;
        drawn = shape.atoms[outcomes->draw(probabilities)].first / mean;
      }
      double first = replica.first * scale * (replica.rest > 0 ? 1 : drawn);
      double begin = arrival(region.entryEdges, ways) + replica.wait;
      return {begin + first, begin + first + replica.rest * scale * drawn};
    }
    case Region::Kind::Dag: {
      std::vector<Times> done;
      double end = 0;
      for (size_t child = 0; child < region.children.size(); ++child) {
        double begin = 0, floor = 0;
        for (auto &arc : region.arcs) {
          if (arc.to != int(child))
            continue;
          bool streams = arc.streaming && agent.regions[region.children[arc.from]].kind == Region::Kind::Piece;
          double sent = arrival(arc.edges, ways);
          begin = std::max(begin, (streams ? done[arc.from].first : done[arc.from].end) + sent);
          if (streams)
            floor = std::max(floor, done[arc.from].end + sent +
                                        (agent.regions[region.children[child]].kind == Region::Kind::Piece
                                             ? ownFirst(agent, region.children[child], later, replicas)
                                             : 0));
        }
        Times own = run(agent, region.children[child], later, replicas, ways, outcomes);
        done.push_back({begin + own.first, std::max(begin + own.end, floor)});
        end = std::max(end, done.back().end);
      }
      return {done.back().first, end};
    }
    case Region::Kind::Branch: {
      if (outcomes)
        return run(agent, region.children[outcomes->draw(region.probabilities)], later, replicas, ways, outcomes);
      Times sum{0, 0};
      for (size_t i = 0; i < region.children.size(); ++i) {
        Times one = run(agent, region.children[i], later, replicas, ways, nullptr);
        sum.first += region.probabilities[i] * one.first, sum.end += region.probabilities[i] * one.end;
      }
      return sum;
    }
    case Region::Kind::Loop: {
      double back = arrival(region.backEdges, ways);
      auto turns = [&](int count) {
        Times times{0, 0};
        for (int turn = 0; turn < count; ++turn) {
          double begin = turn ? times.end + back : 0;
          Times one = run(agent, region.children[0], turn > 0, replicas, ways, outcomes);
          times = {begin + one.first, begin + one.end};
        }
        return times;
      };
      if (outcomes)
        return turns(region.counts[outcomes->draw(probabilitiesOf(region))].first);
      Times sum{0, 0};
      for (auto [count, probability] : region.counts) {
        Times one = turns(count);
        sum.first += probability * one.first, sum.end += probability * one.end;
      }
      return sum;
    }
    case Region::Kind::Map: {
      double end = 0;
      if (outcomes) {
        int count = region.counts[outcomes->draw(probabilitiesOf(region))].first;
        for (int copy = 0; copy < count; ++copy)
          end = std::max(end, run(agent, region.children[0], later, replicas, ways, outcomes).end);
      } else {
        end = someCount(region) * run(agent, region.children[0], later, replicas, ways, nullptr).end;
      }
      return {end, end};
    }
    }
    return {0, 0};
  }

  static std::vector<double> probabilitiesOf(const Region &region) {
    std::vector<double> probabilities;
    for (auto [count, probability] : region.counts)
      probabilities.push_back(probability);
    return probabilities;
  }

  const PlacementProblem &p;
};

} // namespace oracle

#endif
