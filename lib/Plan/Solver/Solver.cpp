//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Solver::Solver(const PlacementProblem &problem, const SolveOptions &options,
               ArrayRef<std::pair<int, int>> forbiddenChoices)
    : problem(problem), options(options), figures(problem), program(figures, options.prune, forbiddenChoices),
      deadline(begin + std::chrono::microseconds(int64_t(std::min(options.timeLimitSeconds, 1e7) * 1e6))) {
  for (auto &check : program.checks)
    hasPercentiles |= !check.nominal;
  statistics.options = program.optionsBeforePruning;
  for (auto &all : program.options)
    statistics.optionsAfterPruning += int(all.size());
  infeasible = program.impossiblePiece >= 0;
}

double Solver::secondsLeft() const { return std::chrono::duration<double>(deadline - Clock::now()).count(); }

double Solver::gap() const {
  if (bestObjective == unlimited)
    return unlimited;
  return std::max(0.0, (bestObjective - lowerBound) / std::max(std::abs(bestObjective), 1e-12));
}

bool Solver::offer(ArrayRef<int> assignment) {
  Evaluation evaluation = evaluate(figures, program.placementsOf(assignment));
  if (!evaluation.feasible())
    return false;
  if (evaluation.objective < bestObjective) {
    bestObjective = evaluation.objective;
    best.assign(assignment.begin(), assignment.end());
    bestEvaluation = std::move(evaluation);
  }
  return true;
}

void Solver::suggest(const Placements &placements) {
  if (infeasible)
    return;
  std::vector<int> assignment = program.assignmentOf(placements);
  if (!is_contained(assignment, -1))
    offer(assignment);
}

void Solver::addRow(Row row) {
  if (lagrangian)
    lagrangian->addRow(row);
  rows.push_back(std::move(row));
  ++statistics.latencyRows;
}

void Solver::addPathRow(const LatencyCheck &check, ArrayRef<int> assignment) {
  PathTerms terms;
  program.latency(check, assignment, &terms);
  Row row = program.rowOf(check, terms);
  if (check.limit < unlimited)
    addRow(row);
  if (check.inObjective) {
    row.latencyOf = check.agent;
    row.upper = 0;
    addRow(std::move(row));
  }
}

//===----------------------------------------------------------------------------------------------------------===//
// Heuristic and bound
//===----------------------------------------------------------------------------------------------------------===//

void Solver::heuristic(double share) {
  Clock::time_point started = Clock::now();
  Clock::time_point until = std::min(
      deadline, started + std::chrono::microseconds(int64_t(std::min(options.timeLimitSeconds, 1e6) * share * 1e6)));
  auto search = [&](std::vector<int> assignment) {
    std::vector<double> tightening(problem.agents.size(), 1.0);
    // What only bounds a percentile from below is tightened until the percentile itself holds.
    for (int round = 0; round < (hasPercentiles ? 12 : 1); ++round) {
      LocalSearch local(program, tightening);
      local.run(assignment, until);
      if (local.violation() > 0 && round == 0)
        return;
      Evaluation evaluation = evaluate(figures, program.placementsOf(assignment));
      bool held = evaluation.feasible();
      if (held)
        offer(assignment);
      if (held || Clock::now() >= until)
        return;
      for (auto [index, agent] : enumerate(problem.agents)) {
        auto &of = evaluation.agents[index];
        double excess = std::max(of.endToEndMs / agent.level.endToEndMs, of.firstOutputMs / agent.level.firstOutputMs);
        if (excess > 1)
          tightening[index] /= 1 + (excess - 1) * (1 + 0.25 * round) + 1e-3;
      }
    }
  };
  // Cheapest for themselves, fastest, and what the Lagrangian says at first.
  std::vector<int> cheapest, fastest;
  for (auto [piece, all] : enumerate(program.options)) {
    auto cheap = llvm::min_element(all, [&](const Option &a, const Option &b) {
      return program.relaxedCost(a, int(piece)) < program.relaxedCost(b, int(piece));
    });
    auto fast = llvm::min_element(all, [&](const Option &a, const Option &b) {
      return a.stage.waitMs() + a.stage.firstMs + a.stage.restMs < b.stage.waitMs() + b.stage.firstMs + b.stage.restMs;
    });
    cheapest.push_back(int(cheap - all.begin()));
    fastest.push_back(int(fast - all.begin()));
  }
  for (auto &check : program.checks) {
    addPathRow(check, cheapest);
    addPathRow(check, fastest);
  }
  Lagrangian::Step step = lagrangian->evaluate();
  if (step.bound == unlimited) {
    infeasible = true;
    return;
  }
  lowerBound = std::max(lowerBound, step.bound);
  search(step.assignment);
  search(fastest);
  if (bestObjective == unlimited)
    search(cheapest);
  statistics.heuristicObjective = bestObjective;
  statistics.heuristicSeconds += secondsSince(started);
}

void Solver::bound() {
  Clock::time_point started = Clock::now();
  double share = std::min(options.timeLimitSeconds, 1e6) * 0.5;
  double agility = 1;
  int stalled = 0, sinceSearch = 0;
  double bestSeen = -unlimited;
  for (int iteration = 0; iteration < 1500 && secondsSince(started) < share; ++iteration) {
    Lagrangian::Step step = lagrangian->evaluate();
    if (step.bound == unlimited) {
      infeasible = bestObjective == unlimited;
      lowerBound = bestObjective;
      break;
    }
    if (step.bound > bestSeen + 1e-6 * std::abs(bestSeen) || iteration == 0)
      stalled = 0;
    else
      ++stalled;
    if (step.bound > bestSeen) {
      bestSeen = step.bound;
      lagrangian->keepBest();
    }
    lowerBound = std::max(lowerBound, step.bound);
    // Options that no better plan takes.
    if (bestObjective < unlimited) {
      double room = bestObjective - step.bound + 1e-9 * std::abs(bestObjective);
      for (auto [piece, rises] : enumerate(lagrangian->rises()))
        for (auto [option, rise] : enumerate(rises))
          if (rise > room && program.active[piece][option] && best[piece] != int(option))
            program.active[piece][option] = 0;
    }
    if (gap() <= options.relativeGap)
      break;
    // Paths that became critical.
    if (iteration % 5 == 0)
      for (auto &check : program.checks) {
        double limit = check.limit;
        if (!check.inObjective && !exceeds(program.latency(check, step.assignment), limit))
          continue;
        if (rows.size() < 40 + 30 * program.checks.size() && iteration < 300) {
          PathTerms terms;
          program.latency(check, step.assignment, &terms);
          Row row = program.rowOf(check, terms);
          bool known = llvm::any_of(rows, [&](const Row &other) {
            if (other.name != row.name || other.optionTerms.size() != row.optionTerms.size() ||
                other.pairTerms.size() != row.pairTerms.size())
              return false;
            for (auto [a, b] : zip(other.optionTerms, row.optionTerms))
              if (a.piece != b.piece || a.factors != b.factors)
                return false;
            for (auto [a, b] : zip(other.pairTerms, row.pairTerms))
              if (a.pair != b.pair || a.factors != b.factors)
                return false;
            return true;
          });
          if (!known)
            addPathRow(check, step.assignment);
        }
      }
    if (++sinceSearch >= 100 || (bestObjective == unlimited && sinceSearch >= 20)) {
      sinceSearch = 0;
      LocalSearch local(program, std::vector<double>(problem.agents.size(), 1.0));
      std::vector<int> assignment = step.assignment;
      local.run(assignment, std::min(deadline, Clock::now() + std::chrono::microseconds(int64_t(share * 0.1e6))));
      if (local.violation() == 0)
        offer(assignment);
    }
    if (stalled > 15) {
      agility /= 2;
      stalled = 0;
      lagrangian->restoreBest();
      if (agility < 1e-3)
        break;
    }
    double target = bestObjective < unlimited ? bestObjective : step.bound + std::max(0.1 * std::abs(step.bound), 1e-9);
    lagrangian->move(step, target, agility);
  }
  statistics.lagrangianBound = bestSeen;
  statistics.boundSeconds = secondsSince(started);
}

//===----------------------------------------------------------------------------------------------------------===//
// Percentiles
//===----------------------------------------------------------------------------------------------------------===//

double Solver::percentileOf(int agentIndex, Measure measure, ArrayRef<Stage> stages, ArrayRef<double> edgeMs) const {
  const Agent &agent = problem.agents[agentIndex];
  bool exact = true;
  return figures.latencies[agentIndex]
      .distribution(
          measure,
          [&](int index, bool later, LeafPart part) {
            const Region &region = agent.regions[index];
            return durationOf(stages[region.piece], problem.pieces[region.piece].shape,
                              region.timeScale * (later ? region.laterTurnScale : 1), part);
          },
          [&](int edge) { return edgeMs[edge]; }, exact)
      .quantile(*agent.level.percentile);
}

Row Solver::speedCut(int agentIndex, Measure measure, ArrayRef<int> assignment, double level, bool objective) {
  const Agent &agent = problem.agents[agentIndex];
  std::vector<Stage> stages;
  std::vector<double> edgeMs;
  for (auto [piece, option] : enumerate(assignment))
    stages.push_back(program.options[piece][option].stage);
  auto groupOf = [&](int piece) { return program.options[piece][assignment[piece]].group; };
  for (auto [index, edge] : enumerate(problem.edges))
    edgeMs.push_back(program.edgeMs(int(index), groupOf(edge.from), groupOf(edge.to)));
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
    if (region.kind == Region::Kind::Leaf)
      note(pieces, region.piece);
    note(edges, region.entryEdges);
    note(edges, region.backEdges);
    for (auto &arc : region.arcs)
      note(edges, arc.edges);
  }
  // A faster reference that is still too slow excludes more plans.
  for (int edge : edges) {
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
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (holds(values[middle]))
        high = middle;
      else
        low = middle + 1;
    }
    edgeMs[edge] = low < values.size() ? values[low] : own;
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
    if (!sameKind)
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
    // latency >= level unless something is faster, and never below what all the fastest give.
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
  // Once per pair, however many of its edges may be faster: as it is enough that one is, sums only weaken.
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

//===----------------------------------------------------------------------------------------------------------===//
// The MILP
//===----------------------------------------------------------------------------------------------------------===//

static std::string plain(StringRef text) {
  std::string result;
  for (char c : text)
    result += isAlnum(c) ? c : '_';
  return result;
}

MixedIntegerProgram Solver::build(std::vector<std::vector<int>> &optionColumns,
                                  std::vector<std::vector<int>> &pairColumns, std::vector<int> &nodeColumns,
                                  std::vector<int> &latencyColumns) const {
  MixedIntegerProgram milp;
  auto group = [&](int piece, int wanted) {
    std::vector<int> columns;
    for (auto [option, column] : zip(program.options[piece], optionColumns[piece]))
      if (column >= 0 && option.group == wanted)
        columns.push_back(column);
    return columns;
  };
  optionColumns.clear();
  for (auto [piece, all] : enumerate(program.options)) {
    optionColumns.emplace_back();
    MixedIntegerProgram::LinearRow one{formatv("one_{0}", piece), {}, 1, 1};
    for (auto [index, option] : enumerate(all)) {
      int column = -1;
      if (program.active[piece][index]) {
        const Choice &choice = problem.pieces[piece].menu[option.choice];
        column = milp.addColumn(formatv("x{0}_{1}_on_{2}_c{3}_times_{4}", piece, plain(problem.pieces[piece].name),
                                        plain(problem.pools[choice.pool].name), option.choice, option.replicas),
                                option.cost, 0, 1, true);
        one.entries.push_back({column, 1});
      }
      optionColumns.back().push_back(column);
    }
    milp.rows.push_back(std::move(one));
  }
  std::vector<bool> needed(program.pairs.size());
  for (auto &row : rows)
    for (auto &term : row.pairTerms)
      needed[term.pair] = true;
  pairColumns.assign(program.pairs.size(), {});
  for (auto [index, pair] : enumerate(program.pairs)) {
    bool matters = needed[index] || !pair.uses.empty();
    for (double cost : pair.cost)
      matters |= cost != 0;
    if (!matters)
      continue;
    auto &columns = pairColumns[index];
    columns.assign(pair.cost.size(), -1);
    std::vector<std::vector<int>> from, to;
    for (int a = 0; a < pair.fromGroups; ++a)
      from.push_back(group(pair.from, a));
    for (int b = 0; b < pair.toGroups; ++b)
      to.push_back(group(pair.to, b));
    for (int a = 0; a < pair.fromGroups; ++a)
      for (int b = 0; b < pair.toGroups; ++b) {
        size_t at = size_t(a) * pair.toGroups + b;
        if (pair.cost[at] < unlimited && !from[a].empty() && !to[b].empty())
          columns[at] = milp.addColumn(formatv("y{0}_{1}_{2}", index, a, b), pair.cost[at], 0, 1, false);
      }
    // Flow: what a group of one end takes, goes to the groups of the other.
    for (int a = 0; a < pair.fromGroups; ++a) {
      if (from[a].empty())
        continue;
      MixedIntegerProgram::LinearRow flow{formatv("from_{0}_{1}", index, a), {}, 0, 0};
      for (int column : from[a])
        flow.entries.push_back({column, -1});
      for (int b = 0; b < pair.toGroups; ++b)
        if (int column = columns[size_t(a) * pair.toGroups + b]; column >= 0)
          flow.entries.push_back({column, 1});
      milp.rows.push_back(std::move(flow));
    }
    for (int b = 0; b < pair.toGroups; ++b) {
      if (to[b].empty())
        continue;
      MixedIntegerProgram::LinearRow flow{formatv("to_{0}_{1}", index, b), {}, 0, 0};
      for (int column : to[b])
        flow.entries.push_back({column, -1});
      for (int a = 0; a < pair.fromGroups; ++a)
        if (int column = columns[size_t(a) * pair.toGroups + b]; column >= 0)
          flow.entries.push_back({column, 1});
      milp.rows.push_back(std::move(flow));
    }
  }
  nodeColumns.assign(program.resources.size(), -1);
  for (auto [index, resource] : enumerate(program.resources))
    if (resource.nodeSize)
      nodeColumns[index] = milp.addColumn("nodes_" + plain(problem.pools[resource.index].name), resource.nodeCost, 0,
                                          std::floor(resource.limit / resource.nodeSize), true);
  latencyColumns.assign(problem.agents.size(), -1);
  for (auto [agent, weight] : enumerate(program.latencyWeights))
    if (weight > 0)
      latencyColumns[agent] =
          milp.addColumn(formatv("latency_{0}", agent), weight, 0, problem.agents[agent].level.endToEndMs, false);
  auto convert = [&](const Row &row, size_t index) {
    MixedIntegerProgram::LinearRow linear{formatv("{0}_{1}", plain(row.name), index), {}, -unlimited, row.upper};
    std::map<int, double> sums;
    for (auto &term : row.optionTerms)
      for (auto [column, factor] : zip(optionColumns[term.piece], term.factors))
        if (column >= 0 && factor != 0)
          sums[column] += factor;
    for (auto &term : row.pairTerms)
      for (auto [column, factor] : zip(pairColumns[term.pair], term.factors))
        if (column >= 0 && factor != 0)
          sums[column] += factor;
    if (row.latencyOf >= 0)
      sums[latencyColumns[row.latencyOf]] += row.latencyFactor;
    for (auto [column, factor] : sums)
      linear.entries.push_back({column, factor});
    return linear;
  };
  for (auto [index, resource] : enumerate(program.resources)) {
    if (resource.limit == unlimited)
      continue;
    auto linear = convert(program.rowOf(resource, false), index);
    if (resource.nodeSize) {
      linear.entries.push_back({nodeColumns[index], -double(resource.nodeSize)});
      linear.upper = 0;
    }
    for (auto [pool, other] : enumerate(program.resources))
      for (auto [used, amount] : other.nodeUses)
        if (used == int(index))
          linear.entries.push_back({nodeColumns[pool], amount});
    if (!linear.entries.empty())
      milp.rows.push_back(std::move(linear));
  }
  for (auto [index, row] : enumerate(rows))
    milp.rows.push_back(convert(row, program.resources.size() + index));
  return milp;
}

bool Solver::addViolatedRows(ArrayRef<int> assignment, const Evaluation &evaluation, double estimatedObjective) {
  bool added = false;
  bool underestimated =
      evaluation.objective > estimatedObjective + 1e-7 * std::max(std::abs(evaluation.objective), 1e-9);
  for (auto &check : program.checks) {
    double ms = program.latency(check, assignment);
    if (exceeds(ms, check.limit) || (check.inObjective && check.nominal && underestimated)) {
      addPathRow(check, assignment);
      added = true;
    }
  }
  for (auto [index, agent] : enumerate(problem.agents)) {
    if (!agent.level.percentile)
      continue;
    auto &of = evaluation.agents[index];
    if (exceeds(of.endToEndMs, agent.level.endToEndMs)) {
      addRow(speedCut(int(index), Measure::EndToEnd, assignment, agent.level.endToEndMs, false));
      added = true;
    } else if (program.latencyWeights[index] > 0 && underestimated) {
      addRow(speedCut(int(index), Measure::EndToEnd, assignment, of.endToEndMs, true));
      added = true;
    }
    if (exceeds(of.firstOutputMs, agent.level.firstOutputMs)) {
      addRow(speedCut(int(index), Measure::FirstOutput, assignment, agent.level.firstOutputMs, false));
      added = true;
    }
  }
  return added;
}

std::vector<int> Solver::assignmentOf(const MixedIntegerResult &result,
                                      const std::vector<std::vector<int>> &optionColumns) const {
  std::vector<int> assignment;
  for (auto &columns : optionColumns) {
    int taken = -1;
    for (auto [option, column] : enumerate(columns))
      if (column >= 0 && result.values[column] > 0.5)
        taken = int(option);
    if (taken < 0)
      return {};
    assignment.push_back(taken);
  }
  return assignment;
}

std::vector<double> Solver::startOf(const MixedIntegerProgram &milp, const std::vector<std::vector<int>> &optionColumns,
                                    const std::vector<std::vector<int>> &pairColumns,
                                    const std::vector<int> &nodeColumns, const std::vector<int> &latencyColumns) const {
  if (bestObjective == unlimited)
    return {};
  std::vector<double> start(milp.columns.size(), 0.0);
  for (auto [piece, option] : enumerate(best))
    start[optionColumns[piece][option]] = 1;
  for (auto [index, pair] : enumerate(program.pairs))
    if (!pairColumns[index].empty())
      start[pairColumns[index][size_t(program.options[pair.from][best[pair.from]].group) * pair.toGroups +
                               program.options[pair.to][best[pair.to]].group]] = 1;
  for (auto [index, resource] : enumerate(program.resources))
    if (nodeColumns[index] >= 0)
      start[nodeColumns[index]] = double(bestEvaluation.nodes[resource.index]);
  for (auto [agent, column] : enumerate(latencyColumns))
    if (column >= 0)
      start[column] = bestEvaluation.agents[agent].endToEndMs;
  return start;
}

void Solver::branchAndPrice() {
  Clock::time_point started = Clock::now();
  BranchAndPrice search(program,
                        {[this](ArrayRef<int> assignment) { return offer(assignment); },
                         [this] { return bestObjective; }, [this] { return ArrayRef<int>(best); }},
                        deadline, options.relativeGap);
  lowerBound = std::max(lowerBound, std::min(search.run(), bestObjective));
  statistics.rootBound = search.rootBound;
  statistics.nodes = search.nodesSolved;
  statistics.rootSeconds = search.rootSeconds;
  statistics.branchAndPriceSeconds = secondsSince(started);
}

void Solver::milp() {
  Clock::time_point started = Clock::now();
  for (int round = 0; round < options.percentileRounds; ++round) {
    double left = secondsLeft();
    if (left <= 0 && !(bestObjective == unlimited && round == 0))
      break;
    std::vector<std::vector<int>> optionColumns, pairColumns;
    std::vector<int> nodeColumns, latencyColumns;
    MixedIntegerProgram program = build(optionColumns, pairColumns, nodeColumns, latencyColumns);
    std::vector<double> start = startOf(program, optionColumns, pairColumns, nodeColumns, latencyColumns);
    MixedIntegerResult result = solveMixedInteger(program, std::max(left, 0.1), options.relativeGap, start);
    ++statistics.milpSolves;
    if (result.infeasible) {
      // Nothing (better) is left.
      if (bestObjective == unlimited)
        infeasible = true;
      lowerBound = std::max(lowerBound, bestObjective);
      break;
    }
    if (!result.found)
      break;
    lowerBound = std::max(lowerBound, std::min(result.bound, bestObjective));
    std::vector<int> assignment = assignmentOf(result, optionColumns);
    if (assignment.empty())
      break;
    Evaluation evaluation = evaluate(figures, this->program.placementsOf(assignment));
    offer(assignment);
    if (!addViolatedRows(assignment, evaluation, result.objective)) {
      if (!result.proven)
        break;
      lowerBound = std::max(lowerBound, std::min(bestObjective, result.bound));
      break;
    }
    if (gap() <= options.relativeGap)
      break;
    // Repair: the plan with its violations is near a good one.
    if (!evaluation.feasible() && !hasPercentiles) {
      LocalSearch local(this->program, std::vector<double>(problem.agents.size(), 1.0));
      local.run(assignment, std::min(deadline, Clock::now() + std::chrono::milliseconds(500)));
      if (local.violation() == 0)
        offer(assignment);
    }
  }
  statistics.milpSeconds = secondsSince(started);
}

SolveResult Solver::finish() {
  SolveResult result;
  if (bestObjective < unlimited) {
    result.placements = program.placementsOf(best);
    result.evaluation = bestEvaluation;
    result.bound = std::min(lowerBound, bestObjective);
    result.gap = gap();
    result.status =
        result.gap <= options.relativeGap * 1.01 + 1e-9 ? SolveResult::Status::Optimal : SolveResult::Status::TimeLimit;
  } else {
    result.status = infeasible ? SolveResult::Status::Infeasible : SolveResult::Status::NoPlanInTime;
    result.bound = lowerBound;
  }
  for (auto &active : program.active)
    statistics.optionsAfterBound += int(llvm::count(active, 1));
  statistics.seconds = secondsSince(begin);
  result.statistics = statistics;
  return result;
}

SolveResult Solver::estimate() {
  if (!infeasible) {
    lagrangian = std::make_unique<Lagrangian>(program);
    heuristic(0.25);
    if (!infeasible && gap() > options.relativeGap)
      bound();
  }
  return finish();
}

SolveResult Solver::run() {
  if (!infeasible && !options.exportLp.empty()) {
    std::vector<std::vector<int>> optionColumns, pairColumns;
    std::vector<int> nodeColumns, latencyColumns;
    writeLp(build(optionColumns, pairColumns, nodeColumns, latencyColumns), options.exportLp);
  }
  if (!infeasible) {
    lagrangian = std::make_unique<Lagrangian>(program);
    // Percentiles and the objective of latencies are no rows of one component.
    bool priced = options.bound && !hasPercentiles && problem.objective != Objective::Latency;
    heuristic(priced ? 0.02 : 0.25);
    if (!infeasible && options.bound && !priced && gap() > options.relativeGap)
      bound();
    if (!infeasible && priced && gap() > options.relativeGap)
      branchAndPrice();
    lagrangian.reset();
    if (!infeasible && gap() > options.relativeGap && (!priced || bestObjective == unlimited))
      milp();
  }
  return finish();
}

Expected<SolveResult> solve(const PlacementProblem &problem, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  Solver solver(problem, options);
  if (!problem.previous.empty() && llvm::all_of(problem.previous, [](const Placed &p) { return p.choice >= 0; }))
    solver.suggest(problem.previous);
  return solver.run();
}

} // namespace intarsia::plan
