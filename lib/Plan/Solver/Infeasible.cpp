//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Why there is no plan: a minimal set of constraints by the deletion filter (Chinneck and Dravnieks, 1991), each step
// of which is a proof by the solver, and what would relax each.
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia::plan {

using Kind = Conflict::Kind;

static constexpr int64_t plentyOfDevices = 1000000;

static std::vector<Conflict> allConstraints(const PlacementProblem &p) {
  std::vector<Conflict> all;
  auto add = [&](Kind kind, int index, double given, std::string text) {
    all.push_back({kind, index, std::move(text), given, std::nullopt});
  };
  // What people change last is asked about last: the filter drops what it can in this order.
  for (auto [index, pool] : enumerate(p.pools))
    add(Kind::PoolDevices, int(index), double(pool.devices),
        formatv("pool '{0}' has {1} devices", pool.name, pool.devices));
  for (auto [index, link] : enumerate(p.links))
    add(Kind::LinkBandwidth, int(index), link.gigabytesPerSecond,
        formatv("link '{0}' has {1:f3} GB/s", link.name, link.gigabytesPerSecond));
  std::set<std::pair<int, int>> routes;
  for (auto &link : p.links)
    routes.insert(link.pairs.begin(), link.pairs.end());
  bool unlinked = false;
  for (int a = 0; a < int(p.pools.size()); ++a)
    for (int b = 0; b < int(p.pools.size()); ++b)
      unlinked |= a != b && !routes.count({a, b});
  if (unlinked && !p.edges.empty())
    add(Kind::Route, -1, 0, "some pools are not linked");
  for (auto [index, group] : enumerate(p.together))
    if (group.size() > 1)
      add(Kind::Together, int(index), 0, formatv("'{0}' and others must share a pool", p.pieces[group[0]].name));
  for (auto [index, group] : enumerate(p.apart))
    if (group.size() > 1)
      add(Kind::Apart, int(index), 0, formatv("'{0}' and others must not share a pool", p.pieces[group[0]].name));
  for (auto [index, edge] : enumerate(p.edges))
    if (!edge.fromKinds.empty())
      add(Kind::Kinds, int(index), 0,
          formatv("{0}: both ends must be alike (one precision, or the same replicas)", edge.name));
  for (auto [index, piece] : enumerate(p.pieces)) {
    if (piece.pinnedPool)
      add(Kind::Pin, int(index), 0,
          formatv("'{0}' is pinned to pool '{1}'", piece.name, p.pools[*piece.pinnedPool].name));
    else if (piece.pinnedLabel)
      add(Kind::Pin, int(index), 0, formatv("'{0}' is pinned to '{1}'", piece.name, *piece.pinnedLabel));
  }
  if (p.gramsPerHourCap < unlimited)
    add(Kind::Grams, -1, p.gramsPerHourCap, formatv("{0:f3} g of CO2 an hour at most", p.gramsPerHourCap));
  if (p.wattsCap < unlimited)
    add(Kind::Watts, -1, p.wattsCap, formatv("{0:f2} W at most", p.wattsCap));
  if (p.dollarsPerHourCap < unlimited)
    add(Kind::Dollars, -1, p.dollarsPerHourCap, formatv("${0:f4} an hour at most", p.dollarsPerHourCap));
  for (auto [index, agent] : enumerate(p.agents)) {
    if (agent.level.tokenMs < unlimited)
      add(Kind::Token, int(index), agent.level.tokenMs,
          formatv("agent '{0}': {1:f3} ms between tokens at most", agent.name, agent.level.tokenMs));
    if (agent.level.firstOutputMs < unlimited)
      add(Kind::FirstOutput, int(index), agent.level.firstOutputMs,
          formatv("agent '{0}': first output after {1:f3} ms at most", agent.name, agent.level.firstOutputMs));
    if (agent.level.endToEndMs < unlimited)
      add(Kind::EndToEnd, int(index), agent.level.endToEndMs,
          formatv("agent '{0}': end-to-end in {1:f3} ms at most", agent.name, agent.level.endToEndMs));
  }
  return all;
}

/// Sets the bound of a constraint; infinity takes it away.
static void setBound(PlacementProblem &p, const Conflict &conflict, double value) {
  switch (conflict.kind) {
  case Kind::EndToEnd:
    p.agents[conflict.index].level.endToEndMs = value;
    break;
  case Kind::FirstOutput:
    p.agents[conflict.index].level.firstOutputMs = value;
    break;
  case Kind::Token:
    p.agents[conflict.index].level.tokenMs = value;
    break;
  case Kind::PoolDevices:
    p.pools[conflict.index].devices =
        value == unlimited ? plentyOfDevices * p.pools[conflict.index].devicesPerNode : int64_t(std::llround(value));
    break;
  case Kind::Dollars:
    p.dollarsPerHourCap = value;
    break;
  case Kind::Watts:
    p.wattsCap = value;
    break;
  case Kind::Grams:
    p.gramsPerHourCap = value;
    break;
  case Kind::LinkBandwidth:
    p.links[conflict.index].gigabytesPerSecond = std::min(value, 1e6);
    break;
  case Kind::Pin:
    p.pieces[conflict.index].pinnedPool.reset();
    p.pieces[conflict.index].pinnedLabel.reset();
    break;
  case Kind::Together:
    p.together[conflict.index].clear();
    break;
  case Kind::Apart:
    p.apart[conflict.index].clear();
    break;
  case Kind::Kinds: {
    // What is free because it stays where it is stays free.
    Edge &edge = p.edges[conflict.index];
    for (auto [from, kind] : enumerate(edge.fromKinds))
      for (auto [to, other] : enumerate(edge.toKinds))
        if (kind == other && is_contained(edge.sameReplicas, kind)) {
          std::erase_if(edge.exceptions,
                        [&](const EdgeException &e) { return e.fromChoice == int(from) && e.toChoice == int(to); });
          edge.exceptions.push_back({int(from), int(to)});
        }
    edge.fromKinds.clear(), edge.toKinds.clear(), edge.sameReplicas.clear();
    break;
  }
  case Kind::Route: {
    Link link{"missing", {}, 1e6};
    std::set<std::pair<int, int>> routes;
    for (auto &known : p.links)
      routes.insert(known.pairs.begin(), known.pairs.end());
    for (int a = 0; a < int(p.pools.size()); ++a)
      for (int b = 0; b < int(p.pools.size()); ++b)
        if (a != b && !routes.count({a, b}))
          link.pairs.push_back({a, b});
    p.links.push_back(std::move(link));
    break;
  }
  }
}

/// A plan that holds everything, if there is one; nothing if that stays open.
static std::optional<bool> isPossible(const PlacementProblem &p, const SolveOptions &options,
                                      Evaluation *found = nullptr) {
  SolveOptions quick = options;
  quick.relativeGap = 1e9;
  quick.exportLp.clear();
  SolveResult result = Solver(p, quick).run();
  if (result.hasPlan() && found)
    *found = result.evaluation;
  if (result.hasPlan())
    return true;
  if (result.status == SolveResult::Status::Infeasible)
    return false;
  return std::nullopt;
}

/// What a plan takes of a constraint.
static double takenBy(const Evaluation &evaluation, const PlacementProblem &p, const Conflict &conflict) {
  switch (conflict.kind) {
  case Kind::EndToEnd:
    return evaluation.agents[conflict.index].endToEndMs;
  case Kind::FirstOutput:
    return evaluation.agents[conflict.index].firstOutputMs;
  case Kind::Token:
    return evaluation.agents[conflict.index].tokenMs;
  case Kind::PoolDevices:
    return double(p.pools[conflict.index].wholeNodes
                      ? evaluation.nodes[conflict.index] * p.pools[conflict.index].devicesPerNode
                      : evaluation.devices[conflict.index]);
  case Kind::Dollars:
    return evaluation.dollarsPerHour;
  case Kind::Watts:
    return evaluation.peakWatts;
  case Kind::Grams:
    return evaluation.gramsPerHour;
  case Kind::LinkBandwidth:
    return evaluation.linkGBps[conflict.index];
  default:
    return 0;
  }
}

/// The smallest bound that makes a plan possible: halving, where each plan found gives its own figure.
static std::optional<double> smallestBound(const PlacementProblem &problem, const Conflict &conflict,
                                           const SolveOptions &options) {
  PlacementProblem p = problem;
  setBound(p, conflict, unlimited);
  if (conflict.kind == Kind::EndToEnd || conflict.kind == Kind::Dollars) {
    p.objective = conflict.kind == Kind::Dollars ? Objective::DollarsPerHour : Objective::Latency;
    p.latencyAgent = conflict.kind == Kind::Dollars ? -1 : conflict.index;
    p.previous.clear();
    SolveResult result = Solver(p, options).run();
    if (result.status != SolveResult::Status::Optimal)
      return std::nullopt;
    return takenBy(result.evaluation, p, conflict);
  }
  Evaluation found;
  if (!isPossible(p, options, &found).value_or(false))
    return std::nullopt;
  bool whole = conflict.kind == Kind::PoolDevices;
  double low = conflict.given, high = takenBy(found, p, conflict);
  if (conflict.kind == Kind::LinkBandwidth)
    high = std::max(high, 1e6); // times depend on it too
  while (whole ? high - low > 1 : high - low > 1e-4 * high) {
    double middle = whole                                                    ? std::floor((low + high) / 2)
                    : conflict.kind == Kind::LinkBandwidth && high > 4 * low ? std::sqrt(low * high)
                                                                             : (low + high) / 2;
    PlacementProblem tried = problem;
    setBound(tried, conflict, middle);
    if (isPossible(tried, options, &found).value_or(false))
      high = conflict.kind == Kind::LinkBandwidth ? middle : std::min(middle, takenBy(found, tried, conflict));
    else
      low = middle;
  }
  return high;
}

Expected<std::vector<Conflict>> explainInfeasibility(const PlacementProblem &problem, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  std::vector<Conflict> kept;
  if (isPossible(problem, options).value_or(true))
    return kept;
  PlacementProblem p = problem;
  std::vector<Conflict> all = allConstraints(problem);
  // Halves first: most constraints have no part in it.
  auto filter = [&](auto &self, ArrayRef<Conflict> group) -> void {
    if (group.empty())
      return;
    PlacementProblem without = p;
    for (auto &conflict : group)
      setBound(without, conflict, unlimited);
    // What stays open counts as possible: the set may then be larger than minimal, never wrong.
    if (isPossible(without, options) == false) {
      p = std::move(without);
      return;
    }
    if (group.size() == 1) {
      kept.push_back(group[0]);
      return;
    }
    self(self, group.take_front(group.size() / 2));
    self(self, group.drop_front(group.size() / 2));
  };
  filter(filter, all);
  for (auto &conflict : kept) {
    bool number = conflict.kind != Kind::Pin && conflict.kind != Kind::Together && conflict.kind != Kind::Apart &&
                  conflict.kind != Kind::Kinds && conflict.kind != Kind::Route;
    if (number)
      conflict.relaxed = smallestBound(problem, conflict, options);
    if (conflict.relaxed)
      conflict.text += formatv("; {0:f3} would do", *conflict.relaxed);
    else if (number)
      conflict.text += "; changing this alone is not enough";
  }
  return kept;
}

} // namespace intarsia::plan
