//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Evaluates a plan: its costs and its latencies.
//===----------------------------------------------------------------------------------------------------------===//
#include "Evaluate.h"
#include "Figures.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using llvm::formatv;

namespace intarsia::plan {

/// Tolerance for sums, which the MILP solver keeps only up to its own tolerance.
constexpr double slack = 1e-7;

bool exceeds(double value, double bound) { return value > bound + slack * std::max(1.0, std::abs(bound)); }

static Distribution distributionOf(const AgentLatency &latency, const PlacementProblem &problem, Measure measure,
                                   const std::vector<Stage> &stages, AgentLatency::EdgeTime edgeMs, bool &exact) {
  return latency.distribution(
      measure,
      [&](int index, bool later, ExecutionPart part) {
        const Region &region = latency.agent.regions[index];
        double scale = region.timeScale * (later ? region.laterTurnScale : 1);
        return durationOf(stages[region.piece], problem.pieces[region.piece].shape, scale, part);
      },
      edgeMs, exact);
}

double timeOf(const Figures &figures, int agent, Measure measure, std::optional<double> percentile,
              const std::vector<Stage> &stages, AgentLatency::EdgeTime edgeMs) {
  const AgentLatency &latency = figures.latencies[agent];
  if (bool exact = true; percentile)
    return distributionOf(latency, figures.problem, measure, stages, edgeMs, exact).quantile(*percentile);
  return latency.linear(
      measure, {},
      [&](int index, bool later) {
        const Region &region = latency.agent.regions[index];
        return executionTimeOf(region, stages[region.piece], later);
      },
      edgeMs);
}

ExecutionTime executionTimeOf(const Region &region, const Stage &stage, bool later) {
  double scale = region.timeScale * (later ? region.laterTurnScale : 1);
  return {stage.waitMs(), stage.firstMs * scale, stage.restMs * scale};
}

/// Largest distance from a percentile at which a jump is looked for, its share of the rest beyond the percentile, and
/// by what factor the time there is longer: durations of one kind of requests differ by less.
constexpr double mostBesideLevel = 0.005, shareBesideLevel = 0.1, factorOfJump = 1.5;

static std::optional<Evaluation::OfAgent::Jump> jumpAt(const Distribution &time, double level) {
  double beside = std::min(mostBesideLevel, shareBesideLevel * std::min(level, 1 - level));
  Evaluation::OfAgent::Jump jump{level - beside, level + beside, time.quantile(level - beside),
                                 time.quantile(level + beside)};
  return jump.above > factorOfJump * jump.below ? std::optional(jump) : std::nullopt;
}

/// Returns true if a request may wait in an unstable queue.
static bool waitsForever(const PlacementProblem &problem, const Agent &agent, const std::vector<Stage> &stages) {
  if (llvm::none_of(stages, [](const Stage &stage) { return std::isinf(stage.waitIfPositiveMs); }))
    return false;
  Work work = expectedWork(problem, agent);
  return llvm::any_of(llvm::zip(work.pieces, stages), [](const auto &of) {
    return std::get<0>(of).executions > 0 && std::isinf(std::get<1>(of).waitIfPositiveMs);
  });
}

Evaluation evaluate(const PlacementProblem &problem, const Placements &placements) {
  return evaluate(Figures(problem), placements);
}

Evaluation evaluate(const Figures &figures, const Placements &placements, bool onlyPromised) {
  const PlacementProblem &problem = figures.problem;
  Evaluation result;
  auto violated = [&](const llvm::Twine &text) { result.violations.push_back(text.str()); };
  Bill total;
  std::vector<Stage> stages;
  result.devices.resize(problem.pools.size());
  result.nodes.resize(problem.pools.size());
  std::vector<double> whole(problem.pools.size()), shared(problem.pools.size());
  for (auto [index, piece] : llvm::enumerate(problem.pieces)) {
    auto [choiceIndex, replicas] = placements[index];
    const Choice &choice = piece.candidates[choiceIndex];
    Stage stage = figures.stage(int(index), choiceIndex, replicas);
    if (const Load &load = figures.loads[index]; replicas < smallestReplicas(choice, load))
      violated(formatv(
          "piece '{0}': {1} replicas sustain {2:f2} executions/s, {3:f2} are asked for{4}", piece.name, replicas,
          replicas * sustainedPerSecond(choice), load.perSecond * load.meanScale,
          load.headroom > 0 ? formatv(", and {0:P0} of what they sustain is to stay free", load.headroom).str() : ""));
    if (piece.pinnedPool && choice.pool != *piece.pinnedPool)
      violated(formatv("piece '{0}' is pinned to pool '{1}'", piece.name, problem.pools[*piece.pinnedPool].name));
    if (piece.pinnedReplicas && replicas != *piece.pinnedReplicas)
      violated(
          formatv("piece '{0}' is pinned to {1} replicas, there are {2}", piece.name, *piece.pinnedReplicas, replicas));
    if (exceeds(stage.tokenMs, figures.tokenMsLimits[index]))
      violated(formatv("piece '{0}': {1:f3} ms between tokens, {2:f3} are allowed", piece.name, stage.tokenMs,
                       figures.tokenMsLimits[index]));
    (choice.deviceShare < 1 ? shared : whole)[choice.pool] += figures.footprint(choice) * double(replicas);
    total += figures.bill(int(index), choice, stage, replicas);
    result.waitMs.push_back(stage.waitMs());
    result.utilization.push_back(stage.utilization);
    stages.push_back(stage);
    if (!problem.previous.empty() && problem.previous[index].choice >= 0 &&
        problem.previous[index].choice != choiceIndex)
      ++result.moves;
  }
  for (auto [index, pool] : llvm::enumerate(problem.pools)) {
    // Shares are powers of 1/2, whose sums are exact.
    int64_t devicesShared = int64_t(std::ceil(shared[index]));
    result.devices[index] = int64_t(whole[index]) + devicesShared;
    result.nodes[index] = (result.devices[index] + pool.devicesPerNode - 1) / pool.devicesPerNode;
    int64_t held = pool.wholeNodes ? result.nodes[index] * pool.devicesPerNode : result.devices[index];
    if (held > pool.devices)
      violated(formatv("pool '{0}': {1} devices are needed, {2} exist", pool.name, held, pool.devices));
    total += pool.wholeNodes ? figures.billOfHeld(pool, pool.devicesPerNode).scaled(double(result.nodes[index]))
                             : figures.billOfHeld(pool, devicesShared);
  }
  result.linkGBps.resize(problem.links.size());
  for (auto [index, edge] : llvm::enumerate(problem.edges)) {
    Transfer transfer = figures.transfer(int(index), placements[edge.from].choice, placements[edge.to].choice);
    if (transfer.forbidden)
      violated(formatv("{0}: no way between {1} and {2}", edge.name,
                       problem.pieces[edge.from].candidates[placements[edge.from].choice].label,
                       problem.pieces[edge.to].candidates[placements[edge.to].choice].label));
    total += figures.bill(int(index), transfer);
    if (transfer.link >= 0)
      result.linkGBps[transfer.link] += figures.gigabytesPerSecond(int(index));
  }
  for (auto [index, link] : llvm::enumerate(problem.links))
    if (exceeds(result.linkGBps[index], link.gigabytesPerSecond))
      violated(formatv("link '{0}': {1:f3} GB/s are needed, it has {2:f3}", link.name, result.linkGBps[index],
                       link.gigabytesPerSecond));
  auto poolOf = [&](int piece) { return problem.pieces[piece].candidates[placements[piece].choice].pool; };
  for (auto &group : problem.together)
    for (int piece : group)
      if (poolOf(piece) != poolOf(group[0]))
        violated(
            formatv("'{0}' and '{1}' must share a pool", problem.pieces[group[0]].name, problem.pieces[piece].name));
  for (auto &group : problem.apart)
    for (size_t i = 0; i < group.size(); ++i)
      for (size_t j = i + 1; j < group.size(); ++j)
        if (poolOf(group[i]) == poolOf(group[j]))
          violated(formatv("'{0}' and '{1}' must not share a pool", problem.pieces[group[i]].name,
                           problem.pieces[group[j]].name));

  for (auto [index, agent] : llvm::enumerate(problem.agents)) {
    Evaluation::OfAgent of;
    const AgentLatency &latency = figures.latencies[index];
    auto executionTimes = [&](int region, bool later) {
      return executionTimeOf(agent.regions[region], stages[agent.regions[region].piece], later);
    };
    auto edgeTime = [&](int edge) {
      return figures
          .transfer(edge, placements[problem.edges[edge].from].choice, placements[problem.edges[edge].to].choice)
          .ms;
    };
    for (auto &region : agent.regions)
      if (region.kind == Region::Kind::Piece)
        of.tokenMs = std::max(of.tokenMs, stages[region.piece].tokenMs);
    bool endless = waitsForever(problem, agent, stages);
    if (endless) {
      of.meanMs = of.endToEndMs = of.firstOutputMs = unlimited;
    } else {
      PathTerms terms;
      of.meanMs = of.endToEndMs = latency.linear(Measure::EndToEnd, {}, executionTimes, edgeTime, &terms);
      of.firstOutputMs = latency.linear(Measure::FirstOutput, {}, executionTimes, edgeTime);
      std::set<int> critical;
      for (auto &execution : terms.executions)
        critical.insert(execution.region);
      of.criticalRegions.assign(critical.begin(), critical.end());
      auto counts = [&](double bound) { return agent.level.percentile && (!onlyPromised || bound < unlimited); };
      if (counts(agent.level.endToEndMs)) {
        Distribution end = distributionOf(latency, problem, Measure::EndToEnd, stages, edgeTime, of.exact);
        of.endToEndMs = end.quantile(*agent.level.percentile);
        of.meanMs = end.mean();
        of.endToEndJump = jumpAt(end, *agent.level.percentile);
      }
      if (counts(agent.level.firstOutputMs)) {
        Distribution first = distributionOf(latency, problem, Measure::FirstOutput, stages, edgeTime, of.exact);
        of.firstOutputMs = first.quantile(*agent.level.percentile);
        of.firstOutputJump = jumpAt(first, *agent.level.percentile);
      }
      // Percentiles lie on grids of their own.
      if (counts(agent.level.endToEndMs) && counts(agent.level.firstOutputMs))
        of.firstOutputMs = std::min(of.firstOutputMs, of.endToEndMs);
    }
    std::string which =
        agent.level.percentile ? formatv("p{0}", llvm::format("%g", *agent.level.percentile * 100)).str() : "nominal";
    // For an unstable queue a violation already names the piece.
    if (!endless && exceeds(of.endToEndMs, agent.level.endToEndMs))
      violated(formatv("agent '{0}': {1} end-to-end {2:f3} ms, {3:f3} are allowed", agent.name, which, of.endToEndMs,
                       agent.level.endToEndMs));
    if (!endless && exceeds(of.firstOutputMs, agent.level.firstOutputMs))
      violated(formatv("agent '{0}': {1} first output after {2:f3} ms, {3:f3} are allowed", agent.name, which,
                       of.firstOutputMs, agent.level.firstOutputMs));
    if (figures.latencyWeights[index] > 0)
      result.latencyMs += figures.latencyWeights[index] * of.endToEndMs;
    result.agents.push_back(std::move(of));
  }
  result.dollarsPerHour = total.dollarsPerHour, result.watts = total.watts, result.gramsPerHour = total.gramsPerHour;
  result.peakWatts = total.peakWatts, result.dollarsPerRequest = total.dollarsPerRequest;
  result.joulesPerRequest = total.joulesPerRequest, result.gramsPerRequest = total.gramsPerRequest;
  result.objective = (problem.objective == Objective::Latency ? result.latencyMs : total.of(problem.objective)) +
                     problem.moveCost * result.moves;
  if (exceeds(result.dollarsPerHour, problem.dollarsPerHourCap))
    violated(formatv("${0:f4} an hour, the budget is ${1:f4}", result.dollarsPerHour, problem.dollarsPerHourCap));
  if (exceeds(result.peakWatts, problem.wattsCap))
    violated(formatv("{0:f2} W if all are busy, the cap is {1:f2} W", result.peakWatts, problem.wattsCap));
  if (exceeds(result.gramsPerHour, problem.gramsPerHourCap))
    violated(formatv("{0:f3} g of CO2 an hour, the cap is {1:f3} g", result.gramsPerHour, problem.gramsPerHourCap));
  return result;
}

} // namespace intarsia::plan
