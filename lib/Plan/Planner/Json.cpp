//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Prints a plan as JSON; docs/plan.md and docs/plan.schema.json describe it.
//===----------------------------------------------------------------------------------------------------------===//
#include "llvm/Support/JSON.h"
#include "Parts.h"
#include "Text.h"
#include "intarsia/Plan/Schedule.h"
#include "lib/Plan/Solver/Figures.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Returns null for infinity, which JSON does not have.
static json::Value figure(double value) { return std::isfinite(value) ? json::Value(value) : json::Value(nullptr); }

/// Returns what identifies a language model: a directory that is compiled for it has the same.
static json::Value shapeOf(const ModelShape *shape) {
  if (!shape)
    return nullptr;
  return json::Object{{"name", asJson(shape->name)},       {"hidden", shape->hidden},
                      {"layers", shape->layers},           {"vocabulary", shape->vocabulary},
                      {"parameters", shape->parameters()}, {"cached_elements_per_token", shape->cacheBytesPerToken(1)}};
}

static json::Object workOf(const PieceWork &work) {
  return json::Object{{"new_tokens", figure(work.newTokens)},
                      {"cached_tokens", figure(work.cachedTokens)},
                      {"context_tokens", figure(work.contextTokens)},
                      {"written_tokens", figure(work.writtenTokens)},
                      {"input_units", figure(work.units)}};
}

/// Lists what flows from one pool to another.
static json::Array transfersOf(const PlanReport &report) {
  json::Array transfers;
  const PlacementProblem &problem = *report.problem;
  Figures figures(problem);
  for (auto [index, edge] : llvm::enumerate(problem.edges)) {
    int from = report.result.placements[edge.from].choice, to = report.result.placements[edge.to].choice;
    Transfer transfer = figures.transfer(int(index), from, to);
    if (transfer.link < 0 || transfer.forbidden)
      continue;
    auto poolOf = [&](int piece, int choice) {
      return asJson(problem.pools[problem.pieces[piece].candidates[choice].pool].name);
    };
    transfers.push_back(json::Object{{"name", asJson(edge.name)},
                                     {"from", asJson(problem.pieces[edge.from].name)},
                                     {"to", asJson(problem.pieces[edge.to].name)},
                                     {"from_pool", poolOf(edge.from, from)},
                                     {"to_pool", poolOf(edge.to, to)},
                                     {"bytes", figure(edge.bytes)},
                                     {"milliseconds", figure(transfer.ms)}});
  }
  return transfers;
}

static json::Object piecesOf(const PlanReport &report, const PieceRow &row, size_t index) {
  json::Array tasks;
  const workflow::Task *first = nullptr; // those of a piece demand the same
  const workflow::Model *model = nullptr;
  for (auto [agent, graph] : llvm::enumerate(*report.graphs))
    for (auto [position, task] : llvm::enumerate(graph.tasks))
      if (report.built->pieceOfTask[agent][position] == int(index)) {
        tasks.push_back(json::Object{{"graph", asJson(graph.name)},
                                     {"task", asJson(task.name)},
                                     {"location", asJson(task.location)},
                                     {"executions", figure(task.executions)},
                                     {"milliseconds", figure(taskMs(report, row, int(agent), int(position)))}});
        first = &task;
        model = task.model >= 0 ? &graph.models[task.model] : nullptr;
      }
  const ChoiceMeaning &meaning = report.built->meanings[index][report.result.placements[index].choice];
  const Piece &piece = report.problem->pieces[index];
  const Choice &choice = piece.candidates[report.result.placements[index].choice];
  const PieceWork &work = report.built->works[index];
  return json::Object{
      {"name", asJson(row.name)},
      {"tasks", std::move(tasks)},
      {"kind", first ? json::Value(workflow::nameOf(first->kind)) : json::Value(nullptr)},
      {"model", model ? asJson(model->name) : json::Value(nullptr)},
      {"outside", row.outside},
      {"choice", asJson(choice.label)},
      {"pool", row.outside ? json::Value(nullptr) : asJson(row.pool.substr(1))},
      {"service", row.outside ? asJson(poolName(report, choice.pool)) : json::Value(nullptr)},
      {"cache", model && work.shape ? asJson(model->cache.empty() ? "bf16" : model->cache) : json::Value(nullptr)},
      {"most_context_tokens",
       model && model->contextTokens ? json::Value(*model->contextTokens) : json::Value(nullptr)},
      {"precision", row.precision.empty() ? json::Value(nullptr) : asJson(row.precision)},
      {"tensor", meaning.tensor},
      {"pipeline", meaning.pipeline},
      {"expert", meaning.expert},
      {"data", meaning.data},
      {"parts", meaning.parts},
      {"aggregated", meaning.aggregate > 0},
      {"batch", row.batch},
      {"replicas", row.replicas},
      {"devices", row.devices},
      {"headroom", piece.headroom},
      {"shape", shapeOf(work.shape)},
      {"work", workOf(work)},
      {"alone_ms", figure(choice.millisecondsAlone.value_or(choice.milliseconds))},
      {"full_ms", figure(choice.milliseconds)},
      {"milliseconds", figure(row.milliseconds)},
      {"wait_ms", figure(row.waitMs)},
      {"token_ms", figure(row.tokenMs)},
      {"utilization", figure(row.utilization)},
      {"dollars_per_hour", figure(row.dollarsPerHour)}};
}

static json::Array poolsOf(const PlanReport &report) {
  json::Array pools;
  for (auto [index, pool] : enumerate(ArrayRef(report.problem->pools).take_front(report.built->fleetPools)))
    pools.push_back(json::Object{{"name", asJson(pool.name)},
                                 {"device", asJson(pool.device)},
                                 {"target", pool.target.empty() ? json::Value(nullptr) : asJson(pool.target)},
                                 {"devices", pool.devices},
                                 {"used", report.result.evaluation.devices[index]},
                                 {"devices_per_node", pool.devicesPerNode}});
  return pools;
}

static json::Object totalsOf(const Evaluation &evaluation) {
  return json::Object{{"dollars_per_request", figure(evaluation.dollarsPerRequest)},
                      {"dollars_per_hour", figure(evaluation.dollarsPerHour)},
                      {"watts", figure(evaluation.watts)},
                      {"peak_watts", figure(evaluation.peakWatts)},
                      {"joules_per_request", figure(evaluation.joulesPerRequest)},
                      {"grams_per_hour", figure(evaluation.gramsPerHour)}};
}

/// Returns the tree of an agent's regions, whose leaves name tasks.
static json::Object regionOf(const workflow::Graph &graph, int index) {
  using Kind = workflow::Region::Kind;
  const workflow::Region &region = graph.regions[index];
  if (region.kind == Kind::Task)
    return json::Object{{"kind", "task"}, {"task", asJson(graph.tasks[region.task].name)}};
  json::Array children;
  for (int child : region.children)
    children.push_back(regionOf(graph, child));
  json::Object of{{"name", asJson(region.name)}, {"children", std::move(children)}};
  if (region.kind == Kind::Dag) {
    json::Array arcs;
    for (const workflow::Region::Arc &arc : region.arcs)
      arcs.push_back(json::Object{{"from", arc.from}, {"to", arc.to}, {"streams", arc.streaming}});
    of["kind"] = "dag", of["arcs"] = std::move(arcs);
  } else if (region.kind == Kind::Branch) {
    of["kind"] = "branch", of["probabilities"] = json::Array(region.probabilities);
  } else {
    double mean = 0;
    int64_t most = 0;
    for (auto [count, probability] : region.counts)
      mean += double(count) * probability, most = std::max(most, count);
    of["kind"] = region.kind == Kind::Loop ? "loop" : "map", of["mean"] = figure(mean), of["most"] = most;
    if (region.concurrency)
      of["concurrency"] = *region.concurrency;
  }
  return of;
}

/// Returns one nominal request, execution by execution.
static json::Object requestOf(const PlanReport &report, int agent) {
  const workflow::Graph &graph = (*report.graphs)[agent];
  Schedule schedule = scheduleOf(*report.problem, report.result.placements, agent);
  json::Array executions;
  for (const Execution &of : schedule.executions) {
    // Regions after those of the graph were added for the agent, and run no task.
    if (of.region >= int(graph.regions.size()) || graph.regions[of.region].task < 0)
      continue;
    executions.push_back(json::Object{{"task", asJson(graph.tasks[graph.regions[of.region].task].name)},
                                      {"turn", of.turn},
                                      {"copies", of.copies},
                                      {"sent_ms", figure(of.sentMs)},
                                      {"arrived_ms", figure(of.arrivedMs)},
                                      {"served_ms", figure(of.servedMs)},
                                      {"first_ms", figure(of.firstMs)},
                                      {"end_ms", figure(of.endMs)},
                                      {"critical", of.critical}});
  }
  return json::Object{
      {"end_ms", figure(schedule.endMs)}, {"not_listed", schedule.notListed}, {"executions", std::move(executions)}};
}

static json::Array agentsOf(const PlanReport &report) {
  json::Array agents;
  const Evaluation &evaluation = report.result.evaluation;
  for (auto [index, agent] : llvm::enumerate(report.problem->agents)) {
    const Evaluation::OfAgent &of = evaluation.agents[index];
    json::Object entry{{"name", asJson(agent.name)},
                       {"requests_per_second", agent.requestsPerSecond},
                       {"percentile", agent.level.percentile.value_or(0.5)},
                       {"end_to_end_ms", figure(of.endToEndMs)},
                       {"exact", of.exact},
                       {"mean_ms", figure(of.meanMs)},
                       {"first_token_ms", figure(of.firstOutputMs)},
                       {"next_token_ms", figure(of.tokenMs)},
                       {"critical_path", asJson(criticalPath(report, int(index), evaluation))},
                       {"bounds", json::Object{{"end_to_end_ms", figure(agent.level.endToEndMs)},
                                               {"first_token_ms", figure(agent.level.firstOutputMs)},
                                               {"next_token_ms", figure(agent.level.tokenMs)}}},
                       {"graph", regionOf((*report.graphs)[index], (*report.graphs)[index].root)},
                       {"request", requestOf(report, int(index))}};
    if (report.checks.simulation)
      entry["simulated"] = simulatedAgent(report.checks.simulation->agents[index]);
    agents.push_back(std::move(entry));
  }
  return agents;
}

static StringRef nameOf(SolveResult::Status status) {
  switch (status) {
  case SolveResult::Status::Optimal:
    return "optimal";
  case SolveResult::Status::TimeLimit:
    return "time_limit";
  case SolveResult::Status::Infeasible:
    return "infeasible";
  case SolveResult::Status::NoPlanInTime:
    return "no_plan_in_time";
  }
  return "";
}

static StringRef nameOf(Sensitivity::Kind kind) {
  switch (kind) {
  case Sensitivity::Kind::Price:
    return "price";
  case Sensitivity::Kind::EndToEnd:
    return "end_to_end_ms";
  case Sensitivity::Kind::Slowness:
    return "slowness";
  case Sensitivity::Kind::Rate:
    return "requests_per_second";
  }
  return "";
}

static json::Array sensitivityOf(const PlanReport &report) {
  const PlacementProblem &problem = *report.problem;
  auto names = [&](const std::vector<int> &pieces) {
    json::Array array;
    for (int piece : pieces)
      array.push_back(asJson(problem.pieces[piece].name));
    return array;
  };
  auto optional = [](std::optional<double> value) { return value ? figure(*value) : json::Value(nullptr); };
  json::Array all;
  for (auto [of, row] : llvm::zip(report.sensitivity, sensitivityRows(report))) {
    bool ofAgent = of.kind == Sensitivity::Kind::EndToEnd || of.kind == Sensitivity::Kind::Rate;
    all.push_back(json::Object{{"figure", nameOf(of.kind)},
                               {"of", asJson(ofAgent ? problem.agents[of.index].name : problem.pools[of.index].name)},
                               {"given", figure(of.given)},
                               {"below", optional(of.below)},
                               {"above", optional(of.above)},
                               {"below_known", of.belowIsKnown},
                               {"above_known", of.aboveIsKnown},
                               {"moves_below", names(of.piecesBelow)},
                               {"moves_above", names(of.piecesAbove)},
                               {"breaks", of.breaks.empty() ? json::Value(nullptr) : asJson(of.breaks)},
                               {"text", json::Object{{"figure", asJson(row.figure)},
                                                     {"given", asJson(row.given)},
                                                     {"below", asJson(row.below)},
                                                     {"above", asJson(row.above)}}}});
  }
  return all;
}

json::Object jsonOf(const PlanReport &report) {
  json::Array graphs;
  for (const Agent &agent : report.problem->agents)
    graphs.push_back(asJson(agent.name));
  json::Object root{{"version", 1},
                    {"graphs", std::move(graphs)},
                    {"status", nameOf(report.result.status)},
                    {"objective", nameOf(report.problem->objective)},
                    {"unsure", asJson(unsureOf(report))},
                    {"not_offered", asJson(report.built->notes)}};
  if (report.result.hasPlan()) {
    root["gap"] = figure(report.result.gap);
    root["value"] = figure(report.result.evaluation.objective);
    root["latency_ms"] = figure(report.result.evaluation.latencyMs);
    root["hardened"] = report.hardened;
    const Headroom &headroom = report.headroom;
    root["headroom"] = json::Object{{"share", headroom.share ? json::Value(*headroom.share) : json::Value(nullptr)},
                                    {"level", headroom.share ? json::Value(nullptr) : json::Value(usualLevel)},
                                    {"holds", headroom.any && !headroom.left},
                                    {"objective_without", headroom.without ? figure(*headroom.without) : nullptr},
                                    {"settled", headroom.settled},
                                    {"text", asJson(textOfHeadroom(report))}};
    root["totals"] = totalsOf(report.result.evaluation);
    root["agents"] = agentsOf(report);
    root["pools"] = poolsOf(report);
    json::Array pieces, tightest, alternatives;
    for (auto [index, row] : llvm::enumerate(rowsOf(report, report.result.placements)))
      pieces.push_back(piecesOf(report, row, index));
    root["pieces"] = std::move(pieces);
    root["transfers"] = transfersOf(report);
    for (const Tightness &entry : tightnessOf(report, report.result.evaluation))
      tightest.push_back(json::Object{{"what", asJson(entry.what)},
                                      {"used", figure(entry.used)},
                                      {"bound", figure(entry.bound)},
                                      {"unit", asJson(entry.unit)}});
    root["constraints"] = std::move(tightest);
    addChecks(root, *report.problem, report.checks);
    for (const Alternative &alternative : report.alternatives) {
      const Piece &piece = report.problem->pieces[alternative.piece];
      alternatives.push_back(json::Object{
          {"piece", asJson(piece.name)},
          {"pool", alternative.pool ? asJson(report.problem->pools[*alternative.pool].name) : json::Value(nullptr)},
          {"choice", alternative.possible
                         ? asJson(piece.candidates[alternative.placements[alternative.piece].choice].label)
                         : json::Value(nullptr)},
          {"objective", alternative.possible ? figure(alternative.objective) : json::Value(nullptr)},
          {"reason", asJson(alternative.reason)}});
    }
    root["why_not"] = std::move(alternatives);
    if (report.replan)
      root["replan"] = replanJson(report);
    if (!report.sensitivity.empty())
      root["sensitivity"] = sensitivityOf(report);
    if (std::string text = notAskedText(report); !report.sensitivity.empty() && !text.empty())
      root["sensitivity_not_asked"] = asJson(text);
  }
  if (!report.conflicts.empty()) {
    json::Array conflicts;
    for (const Conflict &conflict : report.conflicts) {
      json::Object entry{{"text", asJson(textOf(report, conflict))},
                         {"given", figure(conflict.given)},
                         {"would_do", conflict.relaxed ? figure(*conflict.relaxed) : json::Value(nullptr)}};
      if (std::optional<Need> need = needOf(report, conflict))
        entry["needs"] = json::Object{{"piece", asJson(need->piece)},
                                      {"choice", asJson(need->choice)},
                                      {"unit", need->demand.isMemory ? "bytes" : "flops"},
                                      {"amount", figure(need->demand.amount)},
                                      {"needed_per_second", figure(need->neededPerSecond)},
                                      {"has_per_second", figure(need->demand.perSecond)}};
      conflicts.push_back(std::move(entry));
    }
    root["conflicts"] = std::move(conflicts);
  }
  if (!report.front.empty()) {
    json::Array front;
    for (const ParetoPoint &point : report.front) {
      json::Object entry = totalsOf(point.evaluation);
      entry["latency_ms"] = figure(point.evaluation.latencyMs);
      entry["proven"] = point.proven;
      json::Array labels;
      for (auto [index, piece] : llvm::enumerate(report.problem->pieces)) {
        int host = hostOf(*report.problem, point.placements, int(index));
        labels.push_back(json::Object{{"piece", asJson(piece.name)},
                                      {"choice", asJson(piece.candidates[point.placements[index].choice].label)},
                                      {"replicas", point.placements[host].replicas}});
      }
      entry["pieces"] = std::move(labels);
      front.push_back(std::move(entry));
    }
    root["pareto"] = std::move(front);
    root["pareto_complete"] = report.frontIsComplete;
  }
  return root;
}

void printJson(raw_ostream &out, const PlanReport &report) {
  out << formatv("{0:2}", json::Value(jsonOf(report))) << '\n';
}

} // namespace intarsia::plan
