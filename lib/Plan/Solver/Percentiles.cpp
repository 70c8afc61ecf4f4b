//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Cuts from plans whose percentile is too high: something must be faster than in them.
//===----------------------------------------------------------------------------------------------------------===//
#include "Dominance.h"
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace intarsia::plan {

/// Time limit for strengthening a cut: a weak one is valid, too.
constexpr std::chrono::milliseconds timeOfCut(3000);
/// Rounds of plans with bounded means; each plan is within this gap of the best one.
constexpr int roundsOfMeans = 12, roundsThatLoosen = 2;
constexpr double gapOfMeans = 2e-3;

double Solver::percentileOf(int agentIndex, Measure measure, ArrayRef<Stage> stages, ArrayRef<double> edgeMs) const {
  const Agent &agent = problem.agents[agentIndex];
  bool exact = true;
  return figures.latencies[agentIndex]
      .distribution(
          measure,
          [&](int index, bool later, ExecutionPart part) {
            const Region &region = agent.regions[index];
            return durationOf(stages[region.piece], problem.pieces[region.piece].shape,
                              region.timeScale * (later ? region.laterTurnScale : 1), part);
          },
          [&](int edge) { return edgeMs[edge]; }, exact)
      .quantile(*agent.level.percentile);
}

void Solver::boundMeans(double share) {
  Clock::time_point started = Clock::now();
  double seconds = std::min(options.timeLimitSeconds, 1e6) * share;
  // A first plan is worth more than the steps that follow.
  if (bestObjective == unlimited)
    seconds = std::max(seconds, firstPlanSeconds);
  seconds = std::min(seconds, secondsLeft());
  PlacementProblem nominal = problem;
  std::vector<double> factors(problem.agents.size(), 1.0);
  for (int round = 0; round < roundsOfMeans && secondsSince(started) < seconds && gap() > options.relativeGap;
       ++round) {
    for (auto [agent, original, factor] : zip(nominal.agents, problem.agents, factors)) {
      if (!original.level.percentile)
        continue;
      agent.level.percentile.reset();
      agent.level.endToEndMs = original.level.endToEndMs * factor;
      agent.level.firstOutputMs = original.level.firstOutputMs * factor;
    }
    SolveOptions inner = options;
    inner.exportLp.clear();
    inner.timeLimitSeconds = (seconds - secondsSince(started)) / 2;
    inner.relativeGap = std::max(options.relativeGap, gapOfMeans);
    SolveResult result = Solver(nominal, inner).run();
    if (!result.hasPlan()) {
      // The bounds are too strict, as spreads differ between choices. If no bound is stricter than asked for, nothing
      // is left to try, and the remaining time is for a proof.
      if (llvm::all_of(factors, [](double factor) { return factor >= 1; }))
        break;
      for (double &factor : factors)
        factor = (factor + 1) / 2;
      continue;
    }
    if (std::vector<int> assignment = program.assignmentOf(result.placements); !is_contained(assignment, -1))
      offer(assignment);
    Evaluation evaluation = evaluate(figures, result.placements);
    if (evaluation.feasible() && round >= roundsThatLoosen)
      break;
    for (auto [agent, of, mean, factor] : zip(problem.agents, evaluation.agents, result.evaluation.agents, factors))
      if (agent.level.percentile) {
        double end = of.endToEndMs / agent.level.endToEndMs, first = of.firstOutputMs / agent.level.firstOutputMs;
        double excess = std::max(end, first);
        // The mean may be far below its bound, which then must go below the mean to have an effect.
        double share =
            end >= first ? mean.endToEndMs / agent.level.endToEndMs : mean.firstOutputMs / agent.level.firstOutputMs;
        // Later rounds only tighten: plans change in jumps, and bounds that follow them never hold for all agents.
        if (excess > 1 && excess < unlimited)
          factor = std::min(factor, share) / (excess + 2e-3);
        else if (excess > 0 && excess <= 1 && round < roundsThatLoosen)
          factor /= 1 - (1 - excess) * 0.5;
      }
  }
}

/// Returns the stages of pieces and the times of edges.
static std::pair<std::vector<Stage>, std::vector<double>> timesOf(const Program &program, ArrayRef<int> assignment) {
  std::vector<Stage> stages;
  std::vector<double> edgeMs;
  for (auto [piece, option] : enumerate(assignment))
    stages.push_back(program.options[piece][option].stage);
  auto groupOf = [&](int piece) { return program.options[piece][assignment[piece]].group; };
  for (auto [index, edge] : enumerate(program.problem.edges))
    edgeMs.push_back(program.edgeMs(int(index), groupOf(edge.from), groupOf(edge.to)));
  return {std::move(stages), std::move(edgeMs)};
}

std::optional<Row> Solver::brokenPercentile(int agentIndex, ArrayRef<int> assignment) {
  const ServiceLevel &level = problem.agents[agentIndex].level;
  if (!level.percentile)
    return std::nullopt;
  auto [stages, edgeMs] = timesOf(program, assignment);
  for (auto [measure, bound] :
       {std::make_pair(Measure::EndToEnd, level.endToEndMs), std::make_pair(Measure::FirstOutput, level.firstOutputMs)})
    if (bound < unlimited && exceeds(percentileOf(agentIndex, measure, stages, edgeMs), bound))
      return speedCut(agentIndex, measure, assignment, bound, false);
  return std::nullopt;
}

Row Solver::speedCut(int agentIndex, Measure measure, ArrayRef<int> assignment, double level, bool objective) {
  const Agent &agent = problem.agents[agentIndex];
  auto [stages, edgeMs] = timesOf(program, assignment);
  Clock::time_point until = std::min(deadline, Clock::now() + Clock::duration(timeOfCut));
  auto stillTooSlow = [&] {
    double value = percentileOf(agentIndex, measure, stages, edgeMs);
    return objective ? value >= level - 1e-9 * std::abs(level) : exceeds(value, level);
  };
  std::vector<int> pieces, edges;
  auto note = [](std::vector<int> &list, ArrayRef<int> values) {
    for (int value : values)
      if (!is_contained(list, value))
        list.push_back(value);
  };
  for (auto &region : agent.regions) {
    if (region.kind == Region::Kind::Piece)
      note(pieces, region.piece);
    note(edges, region.entryEdges);
    note(edges, region.backEdges);
    for (auto &arc : region.arcs)
      note(edges, arc.edges);
  }
  // Makes the reference as fast as possible while it is still too slow: it then excludes more plans.
  for (int edge : edges) {
    if (Clock::now() >= until)
      break;
    std::vector<double> values{0.0};
    for (int a = 0; a < program.groups[problem.edges[edge].from]; ++a)
      for (int b = 0; b < program.groups[problem.edges[edge].to]; ++b)
        if (double ms = program.edgeMs(edge, a, b); ms < edgeMs[edge])
          values.push_back(ms);
    llvm::sort(values);
    double own = edgeMs[edge];
    auto holds = [&](double value) {
      edgeMs[edge] = value;
      return stillTooSlow();
    };
    size_t low = 0, high = values.size();
    while (low < high && Clock::now() < until) {
      size_t middle = (low + high) / 2;
      if (holds(values[middle]))
        high = middle;
      else
        low = middle + 1;
    }
    // After the deadline this is the last value that was still too slow.
    edgeMs[edge] = high < values.size() ? values[high] : own;
  }
  auto faster = [](const Stage &a, const Stage &b) {
    Stage stage = a;
    stage.waitProbability = std::min(a.waitProbability, b.waitProbability);
    stage.waitIfPositiveMs = std::min(a.waitIfPositiveMs, b.waitIfPositiveMs);
    stage.firstMs = std::min(a.firstMs, b.firstMs);
    stage.restMs = std::min(a.restMs, b.restMs);
    return stage;
  };
  for (int piece : pieces) {
    bool spreads = problem.pieces[piece].shape.kind != Shape::Kind::Deterministic;
    auto &all = program.options[piece];
    bool sameKind = !spreads || llvm::all_of(all, [&](const Option &option) {
      return (option.stage.restMs > 0) == (stages[piece].restMs > 0);
    });
    if (!sameKind || Clock::now() >= until)
      continue;
    Stage own = stages[piece];
    for (auto &option : all)
      stages[piece] = faster(stages[piece], option.stage);
    if (stillTooSlow())
      continue;
    stages[piece] = own;
    std::vector<const Option *> sorted;
    for (auto &option : all)
      sorted.push_back(&option);
    llvm::stable_sort(sorted, [](const Option *a, const Option *b) {
      return a->stage.waitMs() + a->stage.firstMs + a->stage.restMs >
             b->stage.waitMs() + b->stage.firstMs + b->stage.restMs;
    });
    for (const Option *option : sorted) {
      if (noSlower(stages[piece], option->stage, spreads))
        continue;
      if (Clock::now() >= until)
        break;
      Stage kept = stages[piece];
      stages[piece] = faster(kept, option->stage);
      if (!stillTooSlow())
        stages[piece] = kept;
    }
  }
  Row row;
  row.name = "percentile_" + agent.name;
  row.upper = -1;
  double factor = -1;
  if (objective) {
    // The row: latency >= level unless something is faster, and never below the latency with everything at its fastest.
    std::vector<Stage> fastest = stages;
    std::vector<double> fastestEdges(edgeMs.size(), 0.0);
    for (int piece : pieces)
      for (auto &option : program.options[piece])
        fastest[piece] = faster(fastest[piece], option.stage);
    double least = 0;
    bool mixed = false;
    for (int piece : pieces)
      for (auto &option : program.options[piece])
        mixed |= problem.pieces[piece].shape.kind != Shape::Kind::Deterministic &&
                 (option.stage.restMs > 0) != (stages[piece].restMs > 0);
    if (!mixed)
      least = percentileOf(agentIndex, measure, fastest, fastestEdges) * (1 - 1e-9);
    row.latencyOf = agentIndex;
    factor = -(level - least);
    row.upper = -level;
  }
  for (int piece : pieces) {
    bool spreads = problem.pieces[piece].shape.kind != Shape::Kind::Deterministic;
    Row::OptionTerm term{piece, {}};
    for (auto &option : program.options[piece])
      term.factors.push_back(noSlower(stages[piece], option.stage, spreads) ? 0.0 : factor);
    if (llvm::any_of(term.factors, [](double value) { return value != 0; }))
      row.optionTerms.push_back(std::move(term));
  }
  // One term per pair, however many of its edges may be faster: one is enough, and sums only weaken the row.
  for (int edge : edges) {
    int from = problem.edges[edge].from, to = problem.edges[edge].to;
    if (from == to) {
      Row::OptionTerm term{from, {}};
      for (auto &option : program.options[from])
        term.factors.push_back(program.edgeMs(edge, option.group, option.group) < edgeMs[edge] ? factor : 0.0);
      if (llvm::any_of(term.factors, [](double value) { return value != 0; }))
        row.optionTerms.push_back(std::move(term));
      continue;
    }
    for (auto [index, pair] : enumerate(program.pairs)) {
      if (pair.from != std::min(from, to) || pair.to != std::max(from, to))
        continue;
      Row::PairTerm term{int(index), std::vector<double>(pair.cost.size(), 0.0)};
      bool any = false;
      for (int a = 0; a < pair.fromGroups; ++a)
        for (int b = 0; b < pair.toGroups; ++b)
          if (program.edgeMs(edge, from < to ? a : b, from < to ? b : a) < edgeMs[edge]) {
            term.factors[size_t(a) * pair.toGroups + b] = factor;
            any = true;
          }
      if (any)
        row.pairTerms.push_back(std::move(term));
    }
  }
  ++statistics.percentileCuts;
  return row;
}

} // namespace intarsia::plan
