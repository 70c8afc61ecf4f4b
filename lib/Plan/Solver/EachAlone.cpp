//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Plans agents that share only resources one after the other: first each as if it had the whole fleet, which bounds the
// total cost from below; then, where the plans do not fit side by side, with the resources that the others leave.
//===----------------------------------------------------------------------------------------------------------===//
#include "EachAlone.h"
#include "Component.h"
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace llvm;

namespace intarsia::plan {

std::vector<std::vector<int>> agentsApart(const PlacementProblem &problem) {
  IntEqClasses connected(unsigned(problem.pieces.size()));
  for (const Edge &edge : problem.edges)
    connected.join(edge.from, edge.to);
  for (const Agent &agent : problem.agents) {
    int first = -1;
    for (const Region &region : agent.regions)
      if (region.kind == Region::Kind::Piece)
        connected.join(region.piece, first = first < 0 ? region.piece : first);
  }
  for (auto *groups : {&problem.together, &problem.apart})
    for (auto &group : *groups)
      for (int piece : group)
        connected.join(piece, group[0]);
  return classesOf(connected, problem.pieces.size());
}

PartOfProblem::PartOfProblem(const PlacementProblem &whole, ArrayRef<int> pieces) : pieces(pieces) {
  problem.pools = whole.pools;
  // Each part pays only for its fraction of whole devices and nodes, which other parts share.
  for (Pool &pool : problem.pools)
    pool.paidByPart = true;
  problem.links = whole.links;
  problem.dollarsPerHourCap = whole.dollarsPerHourCap;
  problem.wattsCap = whole.wattsCap;
  problem.gramsPerHourCap = whole.gramsPerHourCap;
  problem.queueing = whole.queueing;
  problem.objective = whole.objective;
  std::vector<int> position(whole.pieces.size(), -1), edgePosition(whole.edges.size(), -1);
  for (auto [index, piece] : enumerate(pieces)) {
    position[piece] = int(index);
    problem.pieces.push_back(whole.pieces[piece]);
    if (!whole.previous.empty())
      problem.previous.push_back(whole.previous[piece]);
  }
  for (auto [index, edge] : enumerate(whole.edges)) {
    if (position[edge.from] < 0)
      continue;
    edgePosition[index] = int(problem.edges.size());
    problem.edges.push_back(edge);
    problem.edges.back().from = position[edge.from];
    problem.edges.back().to = position[edge.to];
  }
  double ownRate = 0, rate = 0;
  for (const Agent &agent : whole.agents) {
    rate += agent.requestsPerSecond;
    auto isHere = [&](const Region &region) {
      return region.kind == Region::Kind::Piece && position[region.piece] >= 0;
    };
    if (none_of(agent.regions, isHere))
      continue;
    ownRate += agent.requestsPerSecond;
    problem.agents.push_back(agent);
    auto renumber = [&](std::vector<int> &edges) {
      for (int &edge : edges)
        edge = edgePosition[edge];
    };
    for (Region &region : problem.agents.back().regions) {
      if (region.kind == Region::Kind::Piece)
        region.piece = position[region.piece];
      renumber(region.entryEdges);
      renumber(region.backEdges);
      for (Region::Arc &arc : region.arcs)
        renumber(arc.edges);
    }
  }
  for (auto [from, to] : {std::pair{&whole.together, &problem.together}, std::pair{&whole.apart, &problem.apart}})
    for (const std::vector<int> &group : *from)
      if (!group.empty() && position[group[0]] >= 0) {
        to->emplace_back();
        for (int piece : group)
          to->back().push_back(position[piece]);
      }
  // Costs per request are divided by the requests of all agents; costs per hour add up as they are.
  if (rate > 0 && (whole.objective == Objective::DollarsPerRequest || whole.objective == Objective::JoulesPerRequest ||
                   whole.objective == Objective::GramsPerRequest))
    weight = ownRate / rate;
  else if (rate == 0 && whole.objective != Objective::DollarsPerHour)
    weight = double(problem.agents.size()) / double(whole.agents.size());
  problem.moveCost = weight > 0 ? whole.moveCost / weight : 0;
}

Placements PartOfProblem::restricted(const Placements &placements) const {
  Placements own;
  for (int piece : pieces)
    own.push_back(placements[piece]);
  return own;
}

std::vector<std::pair<int, int>> PartOfProblem::restricted(ArrayRef<std::pair<int, int>> choices) const {
  std::vector<std::pair<int, int>> own;
  for (auto [piece, choice] : choices)
    if (auto found = llvm::find(pieces, piece); found != pieces.end())
      own.push_back({int(found - pieces.begin()), choice});
  return own;
}

bool addsUpOverParts(const PlacementProblem &problem) {
  // If only some agents have a request rate, one without it has other costs per request alone than in the whole.
  bool some = llvm::any_of(problem.agents, [](const Agent &agent) { return agent.requestsPerSecond > 0; });
  bool all = llvm::all_of(problem.agents, [](const Agent &agent) { return agent.requestsPerSecond > 0; });
  return problem.objective != Objective::Latency && (all || !some || problem.objective == Objective::DollarsPerHour) &&
         agentsApart(problem).size() > 1;
}

void Solver::eachAlone(double share) {
  Clock::time_point started = Clock::now();
  double seconds = std::min(secondsLeft(), 1e6) * share;
  std::vector<PartOfProblem> parts;
  for (auto &pieces : agentsApart(problem))
    parts.emplace_back(problem, pieces);
  statistics.parts = int(parts.size());
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  // Solves small parts first: the time that they leave goes to large ones.
  llvm::stable_sort(order, [&](size_t a, size_t b) { return parts[a].pieces.size() < parts[b].pieces.size(); });

  auto solvePart = [&](const PartOfProblem &part, size_t left) {
    SolveOptions own = options;
    own.exportLp.clear();
    own.timeLimitSeconds = std::max(0.0, seconds - secondsSince(started)) / double(left);
    Solver solver(part.problem, own, part.restricted(forbidden));
    solver.firstPlanSeconds = firstPlanSeconds / double(parts.size());
    if (!best.empty())
      solver.suggest(part.restricted(program.placementsOf(best)));
    SolveResult result = solver.run();
    statistics.percentileCuts += result.statistics.percentileCuts;
    return result;
  };

  std::vector<SolveResult> alone(parts.size());
  double bound = 0;
  bool allHavePlans = true, allAreBest = true;
  for (auto [done, index] : enumerate(order)) {
    alone[index] = solvePart(parts[index], order.size() - done);
    if (alone[index].status == SolveResult::Status::Infeasible) {
      infeasible = true;
      return;
    }
    allHavePlans &= alone[index].hasPlan();
    allAreBest &= alone[index].status == SolveResult::Status::Optimal;
    bound += parts[index].weight * alone[index].bound;
  }
  lowerBound = std::max(lowerBound, bound);
  if (!allHavePlans)
    return;

  Placements together(problem.pieces.size());
  auto offerTogether = [&](ArrayRef<SolveResult> plans) {
    for (auto [part, plan] : zip(parts, plans))
      for (auto [piece, placed] : zip(part.pieces, plan.placements))
        together[piece] = placed;
    std::vector<int> assignment = program.assignmentOf(together);
    return !is_contained(assignment, -1) && offer(assignment);
  };
  if (offerTogether(alone)) {
    if (allAreBest)
      objectiveOfBestAlone = bestObjective;
    return;
  }
  // Plans one after the other, with the resources that earlier ones leave; a part without a plan comes earlier in the
  // next round.
  llvm::stable_sort(order,
                    [&](size_t a, size_t b) { return alone[a].evaluation.peakWatts > alone[b].evaluation.peakWatts; });
  for (size_t round = 0; round < parts.size() && secondsSince(started) < seconds; ++round) {
    std::vector<int64_t> devices;
    for (const Pool &pool : problem.pools)
      devices.push_back(pool.devices);
    double dollars = problem.dollarsPerHourCap, watts = problem.wattsCap, grams = problem.gramsPerHourCap;
    std::vector<SolveResult> plans = alone;
    size_t stuck = parts.size();
    for (size_t index : order) {
      PartOfProblem part = parts[index];
      for (auto [pool, left] : zip(part.problem.pools, devices))
        pool.devices = left;
      part.problem.dollarsPerHourCap = dollars;
      part.problem.wattsCap = watts;
      part.problem.gramsPerHourCap = grams;
      // Keeps the earlier plan where it still fits.
      if (!evaluate(part.problem, plans[index].placements).feasible())
        plans[index] = solvePart(part, parts.size());
      if (!plans[index].hasPlan()) {
        stuck = index;
        break;
      }
      const Evaluation &takes = plans[index].evaluation;
      for (auto [pool, left, used, nodes] : zip(problem.pools, devices, takes.devices, takes.nodes))
        left -= pool.wholeNodes ? nodes * pool.devicesPerNode : used;
      dollars -= takes.dollarsPerHour, watts -= takes.peakWatts, grams -= takes.gramsPerHour;
    }
    if (stuck == parts.size()) {
      offerTogether(plans);
      return;
    }
    auto at = llvm::find(order, stuck);
    if (at == order.begin())
      return;
    std::rotate(order.begin(), at, at + 1);
  }
}

} // namespace intarsia::plan
