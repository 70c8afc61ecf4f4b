//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Small random placement problems with every kind of constraint, determined by the seed.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_PLANINSTANCES_H
#define INTARSIA_TEST_PLANINSTANCES_H

#include "test/unit/Plan/Solver/Oracle.h"
#include <random>

namespace instances {
using namespace intarsia::plan;

class Generator {
public:
  explicit Generator(uint64_t seed) : engine(seed) {}

  /// At most 8 pieces on at most 5 pools, at most about `assignments` plans. Bounds are set from what enumeration
  /// finds: end-to-end between 1.1 and 1.5 times the least, capacities and caps such that they couple pieces.
  PlacementProblem make(double assignments = 12000) {
    PlacementProblem p;
    percentile = chance(0.35);
    p.queueing = !percentile && chance(0.4);
    bool rated = chance(0.85), shares = chance(0.4);
    int poolCount = between(2, 5), pieceCount = between(2, 8);
    for (int k = 0; k < poolCount; ++k) {
      Pool pool{"pool" + std::to_string(k)};
      pool.devicesPerNode = pick({1, 1, 2, 4, 8});
      pool.wholeNodes = pool.devicesPerNode > 1 && chance(0.5);
      pool.dollarsPerDeviceHour = real(0.5, 8);
      pool.idleWatts = real(20, 100);
      pool.busyWatts = pool.idleWatts + real(50, 600);
      pool.gramsPerKilowattHour = real(20, 600);
      pool.devices = 1000;
      p.pools.push_back(pool);
    }
    // Links between most pairs; some share one.
    std::vector<std::pair<int, int>> shared;
    for (int a = 0; a < poolCount; ++a)
      for (int b = 0; b < poolCount; ++b) {
        if ((a == b && !chance(0.15)) || chance(0.08))
          continue;
        if (chance(0.2)) {
          shared.push_back({a, b});
          continue;
        }
        p.links.push_back({"link" + std::to_string(a) + std::to_string(b),
                           {{a, b}},
                           real(1, 50),
                           real(5, 3000),
                           chance(0.5) ? real(0, 0.05) : 0,
                           chance(0.3) ? real(0, 20) : 0});
      }
    if (!shared.empty())
      p.links.push_back({"shared", shared, real(1, 20), real(5, 3000), real(0, 0.02), 0});
    for (int i = 0; i < pieceCount; ++i) {
      Piece piece;
      piece.name = "piece" + std::to_string(i);
      piece.extraReplicas = p.queueing ? between(0, 2) : 3;
      bool streams = chance(0.5);
      if (percentile) {
        // Few enough that no distribution has more atoms than are kept exactly.
        if (chance(0.4) && ++spread <= 3)
          piece.shape = Shape::discrete({{real(0.3, 0.9), 0.75}, {real(1.1, 3), 0.25}});
      } else if (p.queueing && chance(0.5)) {
        piece.shape = Shape::exponential();
      }
      for (int k = 0; k < poolCount; ++k)
        for (int variant = 0; variant < (chance(0.25) ? 2 : 1); ++variant) {
          if (!piece.candidates.empty() && chance(0.25))
            continue;
          Choice choice;
          choice.label = variant ? "int8" : "bf16";
          choice.pool = k;
          choice.devicesPerReplica = chance(0.1) ? 0 : pick({1, 1, 2, 3, 4, 8});
          if (shares && chance(0.6))
            choice.devicesPerReplica = 1, choice.deviceShare = pick({0.5, 0.25, 0.25, 0.125});
          choice.milliseconds = between(2, 120);
          choice.slots = pick({1, 1, 2, 8});
          if (streams)
            choice.firstOutputMs = choice.milliseconds * real(0.1, 0.8);
          if (!p.queueing && chance(0.2))
            choice.executionsPerSecond = choice.slots * 1000 / choice.milliseconds * real(0.5, 1);
          choice.dollarsPerExecution = chance(0.6) ? real(0, 0.001) : 0;
          choice.joulesPerExecution = chance(0.4) ? real(0, 50) : 0;
          choice.tokenMs = real(5, 40);
          piece.candidates.push_back(choice);
        }
      p.pieces.push_back(piece);
    }
    std::vector<int> order(pieceCount);
    for (int i = 0; i < pieceCount; ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), engine);
    int agentCount = pieceCount >= 4 && chance(0.3) ? 2 : 1;
    for (int a = 0; a < agentCount; ++a) {
      Agent agent;
      agent.name = "agent" + std::to_string(a);
      agent.requestsPerSecond = rated ? real(1, 40) : 0;
      std::vector<int> mine;
      for (int i = 0; i < pieceCount; ++i)
        if (i * agentCount / pieceCount == a)
          mine.push_back(order[i]);
      // A piece that both run.
      if (a == 1 && chance(0.4))
        mine.push_back(order[0]);
      agent.root = region(p, agent, mine, 0);
      if (percentile && chance(0.8))
        agent.level.percentile = pick({0.5, 0.9, 0.95, 0.99});
      p.agents.push_back(std::move(agent));
    }
    // Numbers that nothing uses: the seeds keep the instances whose percentiles the oracle and the planner's grids have
    // alike, and whose agents share pieces where tests expect exact answers.
    for (auto &edge : p.edges)
      if (chance(0.1))
        for (int n = 0; n < 2; ++n)
          between(0, int(p.pieces[edge.from].candidates.size())), unit(), unit(), unit(), unit();
    p.objective = pick({Objective::DollarsPerRequest, Objective::DollarsPerRequest, Objective::DollarsPerHour,
                        Objective::Latency, Objective::JoulesPerRequest, Objective::GramsPerRequest});
    if (!rated && p.objective == Objective::DollarsPerHour)
      p.objective = Objective::DollarsPerRequest;
    shrink(p, percentile ? assignments / 6 : assignments);
    kinds(p);
    replicas(p);
    headroom(p);
    bounds(p);
    // A fleet without devices is an error, not a problem.
    if (std::ranges::all_of(p.pools, [](const Pool &pool) { return pool.devices == 0; }))
      p.pools[0].devices = 1;
    return p;
  }

private:
  std::mt19937_64 engine;
  bool percentile = false;
  int spread = 0;

  // Does not use <random>'s distributions, whose results differ between libraries.
  double unit() { return double(engine() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return unit() < probability; }
  double real(double low, double high) { return low + (high - low) * unit(); }
  int between(int low, int high) { return low + int(unit() * (high - low + 1)); }
  template <typename T> T pick(std::initializer_list<T> values) {
    return *(values.begin() + size_t(unit() * values.size()));
  }

  int edgeBetween(PlacementProblem &p, int from, int to) {
    p.edges.push_back({"edge" + std::to_string(p.edges.size()), from, to, std::pow(10, real(4, 8)), {}});
    return int(p.edges.size()) - 1;
  }

  /// An execution of the tree below a region: its first or last piece, for edges.
  int pieceOf(const Agent &agent, int index, bool last) {
    while (agent.regions[index].kind != Region::Kind::Piece)
      index = last ? agent.regions[index].children.back() : agent.regions[index].children.front();
    return agent.regions[index].piece;
  }

  int add(Agent &agent, Region region) {
    agent.regions.push_back(std::move(region));
    return int(agent.regions.size()) - 1;
  }

  int region(PlacementProblem &p, Agent &agent, std::vector<int> pieces, int depth) {
    if (pieces.size() == 1) {
      int execution = add(agent, Region::execution(pieces[0], chance(0.2) ? real(0.5, 2) : 1));
      if (depth > 0 && depth < 4 && chance(0.15)) {
        if (chance(0.5)) {
          agent.regions[execution].laterTurnScale = chance(0.5) ? real(0.3, 1) : 1;
          std::vector<int> back;
          if (chance(0.3))
            back.push_back(edgeBetween(p, pieces[0], pieces[0]));
          return add(agent, Region::loop(execution, {{1, 0.5}, {2, 0.3}, {3, 0.2}}, back));
        }
        return add(agent, Region::map(execution, {{1, 0.4}, {3, 0.6}}));
      }
      return execution;
    }
    double kind = unit();
    if (kind < 0.15 && depth < 3) {
      size_t cut = 1 + size_t(unit() * (pieces.size() - 1));
      int left = region(p, agent, {pieces.begin(), pieces.begin() + cut}, depth + 1);
      int right = region(p, agent, {pieces.begin() + cut, pieces.end()}, depth + 1);
      double probability = pick({0.03, 0.3, 0.5, 0.8});
      return add(agent, Region::branch({left, right}, {probability, 1 - probability}));
    }
    if (kind < 0.25 && depth < 2) {
      int body = region(p, agent, pieces, depth + 2);
      std::vector<int> back;
      if (chance(0.5) && pieceOf(agent, body, true) != pieceOf(agent, body, false))
        back.push_back(edgeBetween(p, pieceOf(agent, body, true), pieceOf(agent, body, false)));
      return add(agent, Region::loop(body, {{1, 0.6}, {2, 0.4}}, back));
    }
    // A dag of parts: a chain, a fork and a join, or (without percentiles) anything.
    size_t partCount = std::min<size_t>(pieces.size(), size_t(between(2, 4)));
    std::vector<int> parts;
    for (size_t part = 0; part < partCount; ++part) {
      size_t from = pieces.size() * part / partCount, to = pieces.size() * (part + 1) / partCount;
      parts.push_back(region(p, agent, {pieces.begin() + from, pieces.begin() + to}, depth + 1));
    }
    std::vector<Region::Arc> arcs;
    auto connect = [&](int from, int to, bool mayStream) {
      Region::Arc arc{from, to, {}, false};
      if (chance(0.85)) {
        int a = pieceOf(agent, parts[from], true), b = pieceOf(agent, parts[to], false);
        if (a != b)
          arc.edges.push_back(edgeBetween(p, a, b));
      }
      bool fromExecution = agent.regions[parts[from]].kind == Region::Kind::Piece;
      if (mayStream && fromExecution && chance(0.3)) {
        // With percentiles this is possible only if the first output of the consumer is not random.
        bool splits = agent.regions[parts[to]].kind == Region::Kind::Piece &&
                      p.pieces[agent.regions[parts[to]].piece].candidates[0].firstOutputMs;
        arc.streaming = !percentile || splits;
      }
      arcs.push_back(arc);
    };
    double shape = unit();
    int last = int(partCount) - 1;
    if (partCount == 2 || shape < 0.4) {
      for (int i = 0; i < last; ++i)
        connect(i, i + 1, true);
    } else if (shape < 0.75 || percentile) {
      for (int i = 1; i < last; ++i) {
        connect(0, i, false);
        connect(i, last, false);
      }
    } else {
      for (int i = 0; i <= last; ++i)
        for (int j = i + 1; j <= last; ++j)
          if (chance(0.6))
            connect(i, j, true);
    }
    return add(agent, Region::dag(parts, arcs));
  }

  double countPlans(const PlacementProblem &p) {
    oracle::Oracle oracle(p);
    double plans = 1;
    for (size_t i = 0; i < p.pieces.size(); ++i) {
      double own = 0;
      for (auto &choice : p.pieces[i].candidates)
        own += p.queueing && oracle.rate[i] > 0 && (choice.devicesPerReplica || choice.executionsPerSecond)
                   ? p.pieces[i].extraReplicas + 1
                   : 1;
      plans *= own;
    }
    return plans;
  }

  void shrink(PlacementProblem &p, double assignments) {
    while (countPlans(p) > assignments) {
      auto longest = std::max_element(p.pieces.begin(), p.pieces.end(), [](const Piece &a, const Piece &b) {
        return a.candidates.size() * (a.extraReplicas + 1) < b.candidates.size() * (b.extraReplicas + 1);
      });
      if (p.queueing && longest->extraReplicas > 0 && chance(0.5))
        --longest->extraReplicas;
      else if (longest->candidates.size() > 1)
        longest->candidates.pop_back();
      else
        longest->extraReplicas = 0;
    }
  }

  /// Adds choices that combine only with equal ones. They have their own random stream, so the rest does not change.
  void kinds(PlacementProblem &p) {
    std::mt19937_64 own(engine);
    std::bernoulli_distribution hasKinds(0.12), second(0.3), same(0.5);
    for (auto &edge : p.edges) {
      if (!hasKinds(own))
        continue;
      for (auto [kinds, piece] : {std::pair(&edge.fromKinds, edge.from), {&edge.toKinds, edge.to}})
        for (const Choice &choice : p.pieces[piece].candidates)
          kinds->push_back(choice.pool == 0 && second(own));
      if (same(own))
        edge.sameReplicas = {1};
    }
  }

  /// Sets numbers of replicas: as the load needs, more than the planner tries, or less; from their own random stream.
  void replicas(PlacementProblem &p) {
    std::mt19937_64 own(engine);
    own.discard(2000);
    std::bernoulli_distribution pinned(0.1);
    std::discrete_distribution<int> extra({1, 8, 6, 3, 2});
    oracle::Oracle oracle(p);
    for (size_t i = 0; i < p.pieces.size(); ++i)
      if (pinned(own))
        p.pieces[i].pinnedReplicas =
            std::max<int64_t>(1, oracle.leastReplicas(int(i), p.pieces[i].candidates.front()) + extra(own) - 1);
  }

  /// Leaves some replicas partly free; from its own random stream.
  void headroom(PlacementProblem &p) {
    std::mt19937_64 own(engine);
    own.discard(3000);
    std::bernoulli_distribution all(0.3), some(0.7);
    std::uniform_real_distribution<double> share(0.05, 0.6);
    if (all(own))
      for (Piece &piece : p.pieces)
        if (some(own))
          piece.headroom = share(own);
  }

  void bounds(PlacementProblem &p) {
    // Structure first: what is possible at all then sets the bounds.
    if (chance(0.15)) {
      int piece = between(0, int(p.pieces.size()) - 1);
      auto &choice = p.pieces[piece].candidates[between(0, int(p.pieces[piece].candidates.size()) - 1)];
      unit();
      p.pieces[piece].pinnedPool = choice.pool;
    }
    auto some = [&] {
      std::vector<int> group;
      for (size_t i = 0; i < p.pieces.size(); ++i)
        if (chance(0.35))
          group.push_back(int(i));
      if (group.size() > 3)
        group.resize(3);
      return group;
    };
    if (chance(0.15))
      p.together.push_back(some());
    if (chance(0.15))
      p.apart.push_back(some());
    if (chance(0.15)) {
      for (auto &piece : p.pieces)
        p.previous.push_back({between(0, int(piece.candidates.size()) - 1), 1});
    }
    oracle::Oracle oracle(p);
    std::vector<double> least(p.agents.size(), 1e300), leastFirst(p.agents.size(), 1e300), dollars, watts, grams,
        objectives;
    std::vector<std::vector<double>> uses(p.pools.size()), linkUses(p.links.size());
    oracle.forAll([&](const Placements &plan) {
      auto verdict = oracle.judge(plan);
      if (!verdict.structureHolds)
        return;
      for (size_t a = 0; a < p.agents.size(); ++a) {
        least[a] = std::min(least[a], verdict.endToEnd[a]);
        leastFirst[a] = std::min(leastFirst[a], verdict.firstOutput[a]);
      }
      dollars.push_back(verdict.dollarsPerHour), watts.push_back(verdict.peak), grams.push_back(verdict.grams);
      objectives.push_back(verdict.objective);
      for (size_t k = 0; k < uses.size(); ++k)
        uses[k].push_back(verdict.poolUse[k]);
      for (size_t l = 0; l < linkUses.size(); ++l)
        linkUses[l].push_back(verdict.linkUse[l]);
    });
    if (objectives.empty())
      return;
    auto quantile = [](std::vector<double> &values, double level) {
      std::sort(values.begin(), values.end());
      return values[size_t(level * (values.size() - 1))];
    };
    for (size_t a = 0; a < p.agents.size(); ++a) {
      if (chance(0.85))
        p.agents[a].level.endToEndMs = least[a] * real(1.1, 1.5);
      if (chance(0.25))
        p.agents[a].level.firstOutputMs = leastFirst[a] * real(1.1, 1.6);
      if (chance(0.25))
        p.agents[a].level.tokenMs = real(12, 40);
    }
    for (size_t k = 0; k < p.pools.size(); ++k)
      if (chance(0.5))
        p.pools[k].devices = int64_t(quantile(uses[k], real(0.5, 0.98)) * real(0.95, 1.3));
    for (size_t l = 0; l < p.links.size(); ++l)
      if (chance(0.12))
        if (double used = quantile(linkUses[l], real(0.5, 0.95)); used > 0) {
          // Times follow from the bandwidth, so a slower link must not undo the bound above: latency grows instead.
          double before = p.links[l].gigabytesPerSecond;
          p.links[l].gigabytesPerSecond = std::min(before, used * real(0.8, 1.2));
        }
    if (chance(0.2))
      p.dollarsPerHourCap = quantile(dollars, real(0.1, 0.7));
    if (chance(0.2))
      p.wattsCap = quantile(watts, real(0.15, 0.8)) * 1.0000003;
    if (chance(0.1))
      p.gramsPerHourCap = quantile(grams, real(0.15, 0.8)) * 1.0000003;
    p.dollarsPerHourCap *= 1.0000003;
    if (!p.previous.empty())
      p.moveCost = quantile(objectives, 0.5) * real(0.001, 0.1);
  }
};

} // namespace instances

#endif
