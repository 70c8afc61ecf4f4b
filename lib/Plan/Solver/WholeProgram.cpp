//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The whole problem as one mixed-integer program. Rows are added until its solution satisfies all latencies.
//===----------------------------------------------------------------------------------------------------------===//
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

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
        const Choice &choice = problem.pieces[piece].candidates[option.choice];
        // Names serve readers of the exported model; writing tens of thousands of them takes a third of a second.
        std::string name;
        if (!options.exportLp.empty())
          name = formatv("x{0}_{1}_on_{2}_c{3}_times_{4}", piece, plain(problem.pieces[piece].name),
                         plain(problem.pools[choice.pool].name), option.choice, option.replicas);
        column = milp.addColumn(std::move(name), option.cost, 0, 1, true);
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
          columns[at] = milp.addColumn(options.exportLp.empty() ? "" : formatv("y{0}_{1}_{2}", index, a, b).str(),
                                       pair.cost[at], 0, 1, false);
      }
    // Flow conservation: the flow of a group at one end equals the sum over the groups of the other end.
    auto addFlows = [&](const char *name, ArrayRef<std::vector<int>> own, int others, auto columnOf) {
      for (auto [group, options] : enumerate(own)) {
        if (options.empty())
          continue;
        MixedIntegerProgram::LinearRow flow{formatv("{0}_{1}_{2}", name, index, group), {}, 0, 0};
        for (int column : options)
          flow.entries.push_back({column, -1});
        for (int other = 0; other < others; ++other)
          if (int column = columnOf(int(group), other); column >= 0)
            flow.entries.push_back({column, 1});
        milp.rows.push_back(std::move(flow));
      }
    };
    addFlows("from", from, pair.toGroups, [&](int a, int b) { return columns[size_t(a) * pair.toGroups + b]; });
    addFlows("to", to, pair.fromGroups, [&](int b, int a) { return columns[size_t(a) * pair.toGroups + b]; });
  }
  nodeColumns.assign(program.resources.size(), -1);
  for (auto [index, resource] : enumerate(program.resources))
    if (resource.nodeSize)
      nodeColumns[index] =
          milp.addColumn((resource.ofShares ? "shared_" : "nodes_") + plain(problem.pools[resource.index].name),
                         resource.nodeCost, 0, std::floor(resource.limit / resource.nodeSize), true);
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
    if (resource.ofShares) {
      // Skips the first row, the sum over all pieces: it is added above.
      std::vector<Row> shares = program.rowsOfShares(resource, -1);
      for (Row &row : drop_begin(shares)) {
        auto shared = convert(row, index);
        shared.entries.push_back({nodeColumns[index], -1});
        milp.rows.push_back(std::move(shared));
      }
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
    if (nodeColumns[index] >= 0) {
      double amount = 0;
      for (auto [piece, option] : enumerate(best))
        for (auto [used, uses] : program.options[piece][option].uses)
          amount += used == int(index) ? uses : 0;
      start[nodeColumns[index]] = std::ceil(amount / double(resource.nodeSize) - 1e-9);
    }
  for (auto [agent, column] : enumerate(latencyColumns))
    if (column >= 0)
      start[column] = bestEvaluation.agents[agent].endToEndMs;
  return start;
}

void Solver::milp() {
  Clock::time_point started = Clock::now();
  for (int round = 0; round < options.percentileRounds; ++round) {
    if (secondsLeft() <= 0)
      break;
    std::vector<std::vector<int>> optionColumns, pairColumns;
    std::vector<int> nodeColumns, latencyColumns;
    MixedIntegerProgram program = build(optionColumns, pairColumns, nodeColumns, latencyColumns);
    std::vector<double> start = startOf(program, optionColumns, pairColumns, nodeColumns, latencyColumns);
    double left = secondsLeft();
    if (left <= 0)
      break;
    MixedIntegerResult result = solveMixedInteger(program, left, options.relativeGap, start);
    ++statistics.milpSolves;
    if (result.infeasible) {
      // There is no (better) plan left.
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
    // Repairs the plan: one with violations is near a good one.
    if (!evaluation.feasible() && !hasPercentiles) {
      LocalSearch local(this->program, std::vector<double>(problem.agents.size(), 1.0));
      local.run(assignment, std::min(deadline, Clock::now() + std::chrono::milliseconds(500)));
      if (local.violation() == 0)
        offer(assignment);
    }
  }
  statistics.milpSeconds = secondsSince(started);
}

} // namespace intarsia::plan
