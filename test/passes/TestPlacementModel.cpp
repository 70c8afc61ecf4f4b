//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// --test-placement-model: prints the placement problem of decomposed agents and their fleet, without its bounds on
// times and without headroom, as a mixed-integer program, for tests that solve it by another solver. An edge is a flow
// from the groups of one end to those of the other, which is tight on trees.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Agent/Agent.h"
#include "intarsia/Plan/Plan.h"
#include "lib/Plan/Planner/Parts.h"
#include "lib/Plan/Solver/Program.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "test/passes/TestPasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace llvm;
using namespace intarsia;
using namespace intarsia::plan;

namespace {
/// A program: minimize cost x subject to rows and bounds. At least one column is integer.
struct MixedIntegerProgram {
  struct Column {
    std::string name;
    double cost, lower, upper;
    bool integer;
  };
  struct Entry {
    int column;
    double factor;
  };
  struct LinearRow {
    std::string name;
    std::vector<Entry> entries;
    double lower, upper;
  };
  std::vector<Column> columns;
  std::vector<LinearRow> rows;

  int addColumn(std::string name, double cost, double lower, double upper, bool integer) {
    columns.push_back({std::move(name), cost, lower, upper, integer});
    return int(columns.size()) - 1;
  }
};

/// Returns the program in CPLEX's LP format, which HiGHS, GLPK and others read. Names have only characters that it
/// allows.
std::string lpOf(const MixedIntegerProgram &program) {
  std::string text;
  raw_string_ostream out(text);
  auto term = [&](double factor, int column) {
    out << formatv("{0} {1:e15} {2}\n", factor < 0 ? "-" : "+", std::abs(factor), program.columns[column].name);
  };
  out << "Minimize\n obj:\n";
  for (size_t column = 0; column < program.columns.size(); ++column)
    if (program.columns[column].cost != 0)
      term(program.columns[column].cost, int(column));
  out << "Subject To\n";
  for (auto &row : program.rows) {
    if (row.entries.empty() && row.lower <= 0 && row.upper >= 0)
      continue;
    out << " " << row.name << ":\n";
    for (auto &entry : row.entries)
      term(entry.factor, entry.column);
    bool equal = row.lower == row.upper;
    out << (equal                  ? " = "
            : row.upper < INFINITY ? " <= "
                                   : " >= ")
        << formatv("{0:e15}\n", row.upper < INFINITY ? row.upper : row.lower);
  }
  out << "Bounds\n";
  for (auto &column : program.columns) {
    out << formatv(" {0:e15} <= {1}", column.lower, column.name);
    if (column.upper < INFINITY)
      out << formatv(" <= {0:e15}", column.upper);
    out << "\n";
  }
  out << "Generals\n";
  for (auto &column : program.columns)
    if (column.integer)
      out << " " << column.name << "\n";
  out << "End\n";
  return text;
}

/// A row: sum of terms <= upper.
struct ModelRow {
  std::string name;
  std::vector<std::pair<int, std::vector<double>>> optionTerms; ///< (piece, factors by option)
  std::vector<std::pair<int, std::vector<double>>> pairTerms;   ///< (pair, factors by groups of both ends)
  double upper = 0;
};

std::string plain(StringRef text) {
  std::string result;
  for (char c : text)
    result += isAlnum(c) ? c : '_';
  return result;
}

/// Returns a resource as a row over options and pairs, without what nodes use.
ModelRow rowOf(const Program &program, const Resource &resource) {
  const PlacementProblem &problem = program.problem;
  int which = int(&resource - program.resources.data());
  ModelRow row;
  row.name = resource.kind == Conflict::Kind::PoolDevices
                 ? (resource.ofShares ? "shared_" : "devices_") + problem.pools[resource.index].name
             : resource.kind == Conflict::Kind::LinkBandwidth ? "bandwidth_" + problem.links[resource.index].name
             : resource.kind == Conflict::Kind::Dollars       ? "budget"
             : resource.kind == Conflict::Kind::Watts         ? "power"
                                                              : "carbon";
  row.upper = resource.limit;
  for (auto [piece, all] : enumerate(program.options)) {
    std::vector<double> factors(all.size(), 0.0);
    for (auto [factor, option] : zip(factors, all))
      for (auto [used, amount] : option.uses)
        factor += used == which ? amount : 0;
    row.optionTerms.push_back({int(piece), std::move(factors)});
  }
  for (auto [index, pair] : enumerate(program.pairs))
    for (auto &[used, amounts] : pair.uses)
      if (used == which)
        row.pairTerms.push_back({int(index), amounts});
  return row;
}

/// Returns the rows that bound the number of shared devices from below by each piece alone with its shares rounded up.
/// They keep what the sum over pieces loses: a piece that shares with few others still pays for a whole device.
std::vector<ModelRow> rowsOfShares(const Program &program, const Resource &resource) {
  int which = int(&resource - program.resources.data());
  std::vector<ModelRow> rows;
  for (auto [piece, of] : enumerate(program.options)) {
    std::vector<double> rounded(of.size(), 0.0);
    for (auto [option, up] : zip(of, rounded))
      for (auto [used, amount] : option.uses)
        if (used == which)
          up = std::ceil(amount - 1e-9);
    if (any_of(rounded, [](double up) { return up > 0; }))
      rows.push_back({formatv("shared_{0}_{1}", program.problem.pools[resource.index].name, piece),
                      {{int(piece), std::move(rounded)}},
                      {},
                      0});
  }
  return rows;
}

MixedIntegerProgram modelOf(const Program &program) {
  const PlacementProblem &problem = program.problem;
  MixedIntegerProgram milp;
  std::vector<std::vector<int>> optionColumns, pairColumns;
  auto group = [&](int piece, int wanted) {
    std::vector<int> columns;
    for (auto [option, column] : zip(program.options[piece], optionColumns[piece]))
      if (column >= 0 && option.group == wanted)
        columns.push_back(column);
    return columns;
  };
  for (auto [piece, all] : enumerate(program.options)) {
    optionColumns.emplace_back();
    MixedIntegerProgram::LinearRow one{formatv("one_{0}", piece), {}, 1, 1};
    for (auto [index, option] : enumerate(all)) {
      int column = -1;
      if (program.active[piece][index]) {
        const Choice &choice = problem.pieces[piece].candidates[option.choice];
        column = milp.addColumn(formatv("x{0}_{1}_on_{2}_c{3}_times_{4}", piece, plain(problem.pieces[piece].name),
                                        plain(problem.pools[choice.pool].name), option.choice, option.replicas),
                                option.cost, 0, 1, true);
        one.entries.push_back({column, 1});
      }
      optionColumns.back().push_back(column);
    }
    milp.rows.push_back(std::move(one));
  }
  pairColumns.assign(program.pairs.size(), {});
  for (auto [index, pair] : enumerate(program.pairs)) {
    bool matters = !pair.uses.empty();
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
  std::vector<int> nodeColumns(program.resources.size(), -1);
  for (auto [index, resource] : enumerate(program.resources))
    if (resource.nodeSize)
      nodeColumns[index] =
          milp.addColumn((resource.ofShares ? "shared_" : "nodes_") + plain(problem.pools[resource.index].name),
                         resource.nodeCost, 0, std::floor(resource.limit / resource.nodeSize), true);
  for (auto [agent, weight] : enumerate(program.latencyWeights))
    if (weight > 0)
      milp.addColumn(formatv("latency_{0}", agent), weight, 0, problem.agents[agent].level.endToEndMs, false);
  auto convert = [&](const ModelRow &row, size_t index) {
    MixedIntegerProgram::LinearRow linear{formatv("{0}_{1}", plain(row.name), index), {}, -unlimited, row.upper};
    std::map<int, double> sums;
    for (auto &[piece, factors] : row.optionTerms)
      for (auto [column, factor] : zip(optionColumns[piece], factors))
        if (column >= 0 && factor != 0)
          sums[column] += factor;
    for (auto &[pair, factors] : row.pairTerms)
      for (auto [column, factor] : zip(pairColumns[pair], factors))
        if (column >= 0 && factor != 0)
          sums[column] += factor;
    for (auto [column, factor] : sums)
      linear.entries.push_back({column, factor});
    return linear;
  };
  for (auto [index, resource] : enumerate(program.resources)) {
    if (resource.limit == unlimited)
      continue;
    auto linear = convert(rowOf(program, resource), index);
    if (resource.nodeSize) {
      linear.entries.push_back({nodeColumns[index], -double(resource.nodeSize)});
      linear.upper = 0;
    }
    if (resource.ofShares) {
      for (const ModelRow &row : rowsOfShares(program, resource)) {
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
  return milp;
}

struct TestPlacementModel : mlir::PassWrapper<TestPlacementModel, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPlacementModel)
  StringRef getArgument() const override { return "test-placement-model"; }
  StringRef getDescription() const override { return "Prints a placement problem as a mixed-integer program"; }
  void runOnOperation() override {
    mlir::SymbolTableCollection tables;
    std::vector<workflow::Graph> graphs;
    for (auto graph : getOperation().getOps<agent::GraphOp>()) {
      mlir::FailureOr<workflow::Graph> extracted = extractAgentGraph(graph, tables);
      if (failed(extracted))
        return signalPassFailure();
      graphs.push_back(std::move(*extracted));
    }
    mlir::FailureOr<Fleet> fleet = fleetOf(*getOperation().getOps<fleet::SystemOp>().begin(), "");
    if (failed(fleet))
      return signalPassFailure();
    Expected<BuiltProblem> built = buildProblem(graphs, *fleet, {});
    if (!built) {
      getOperation().emitError() << toString(built.takeError());
      return signalPassFailure();
    }
    Figures figures(built->problem);
    outs() << lpOf(modelOf(Program(figures, /*prune=*/true)));
  }
};
} // namespace

void intarsia::testing::registerPlacementModel() { mlir::PassRegistration<TestPlacementModel>(); }
