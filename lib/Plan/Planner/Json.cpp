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
#include "lib/Plan/Solver/Figures.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Returns null for infinity, which JSON does not have.
static json::Value number(double value) { return std::isfinite(value) ? json::Value(value) : json::Value(nullptr); }

/// Returns what identifies a language model: a directory that is compiled for it has the same.
static json::Value shapeOf(const ModelShape *shape) {
  if (!shape)
    return nullptr;
  return json::Object{{"name", asJson(shape->name)},       {"hidden", shape->hidden},
                      {"layers", shape->layers},           {"vocabulary", shape->vocabulary},
                      {"parameters", shape->parameters()}, {"cached_elements_per_token", shape->cacheBytesPerToken(1)}};
}

static json::Object workOf(const PieceWork &work) {
  return json::Object{{"new_tokens", number(work.newTokens)},
                      {"cached_tokens", number(work.cachedTokens)},
                      {"context_tokens", number(work.contextTokens)},
                      {"written_tokens", number(work.writtenTokens)},
                      {"input_units", number(work.units)}};
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
                                     {"bytes", number(edge.bytes)},
                                     {"milliseconds", number(transfer.ms)}});
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
                                     {"milliseconds", number(taskMs(report, row, int(agent), int(position)))}});
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
      {"pool", row.outside ? json::Value(nullptr) : asJson(row.pool.substr(1))},
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
      {"alone_ms", number(choice.millisecondsAlone.value_or(choice.milliseconds))},
      {"full_ms", number(choice.milliseconds)},
      {"milliseconds", number(row.milliseconds)},
      {"wait_ms", number(row.waitMs)},
      {"token_ms", number(row.tokenMs)},
      {"utilization", number(row.utilization)},
      {"dollars_per_hour", number(row.dollarsPerHour)}};
}

static json::Array poolsOf(const PlanReport &report) {
  json::Array pools;
  for (const Pool &pool : ArrayRef(report.problem->pools).take_front(report.built->fleetPools))
    pools.push_back(json::Object{{"name", asJson(pool.name)},
                                 {"device", asJson(pool.device)},
                                 {"target", pool.target.empty() ? json::Value(nullptr) : asJson(pool.target)},
                                 {"devices", pool.devices},
                                 {"devices_per_node", pool.devicesPerNode}});
  return pools;
}

static json::Object totalsOf(const Evaluation &evaluation) {
  return json::Object{{"dollars_per_request", number(evaluation.dollarsPerRequest)},
                      {"dollars_per_hour", number(evaluation.dollarsPerHour)},
                      {"watts", number(evaluation.watts)},
                      {"peak_watts", number(evaluation.peakWatts)},
                      {"joules_per_request", number(evaluation.joulesPerRequest)},
                      {"grams_per_hour", number(evaluation.gramsPerHour)}};
}

static json::Array agentsOf(const PlanReport &report) {
  json::Array agents;
  const Evaluation &evaluation = report.result.evaluation;
  for (auto [index, agent] : llvm::enumerate(report.problem->agents)) {
    const Evaluation::OfAgent &of = evaluation.agents[index];
    json::Object entry{{"name", asJson(agent.name)},
                       {"requests_per_second", agent.requestsPerSecond},
                       {"percentile", agent.level.percentile.value_or(0.5)},
                       {"end_to_end_ms", number(of.endToEndMs)},
                       {"mean_ms", number(of.meanMs)},
                       {"first_token_ms", number(of.firstOutputMs)},
                       {"next_token_ms", number(of.tokenMs)},
                       {"critical_path", asJson(criticalPath(report, int(index), evaluation))},
                       {"bounds", json::Object{{"end_to_end_ms", number(agent.level.endToEndMs)},
                                               {"first_token_ms", number(agent.level.firstOutputMs)},
                                               {"next_token_ms", number(agent.level.tokenMs)}}}};
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
  auto optional = [](std::optional<double> value) { return value ? number(*value) : json::Value(nullptr); };
  json::Array all;
  for (const Sensitivity &of : report.sensitivity) {
    bool ofAgent = of.kind == Sensitivity::Kind::EndToEnd || of.kind == Sensitivity::Kind::Rate;
    all.push_back(json::Object{{"figure", nameOf(of.kind)},
                               {"of", asJson(ofAgent ? problem.agents[of.index].name : problem.pools[of.index].name)},
                               {"given", number(of.given)},
                               {"below", optional(of.below)},
                               {"above", optional(of.above)},
                               {"below_known", of.belowIsKnown},
                               {"above_known", of.aboveIsKnown},
                               {"moves_below", names(of.piecesBelow)},
                               {"moves_above", names(of.piecesAbove)},
                               {"breaks", of.breaks.empty() ? json::Value(nullptr) : asJson(of.breaks)}});
  }
  return all;
}

void printJson(raw_ostream &out, const PlanReport &report) {
  json::Object root{{"version", 1},
                    {"status", nameOf(report.result.status)},
                    {"objective", nameOf(report.problem->objective)},
                    {"unsure", asJson(unsureOf(report))},
                    {"not_offered", asJson(report.built->notes)}};
  if (report.result.hasPlan()) {
    root["gap"] = number(report.result.gap);
    const Headroom &headroom = report.headroom;
    root["headroom"] = json::Object{{"share", headroom.share ? json::Value(*headroom.share) : json::Value(nullptr)},
                                    {"level", headroom.share ? json::Value(nullptr) : json::Value(usualLevel)},
                                    {"holds", headroom.any && !headroom.left},
                                    {"objective_without", headroom.without ? number(*headroom.without) : nullptr},
                                    {"settled", headroom.settled}};
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
                                      {"used", number(entry.used)},
                                      {"bound", number(entry.bound)},
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
          {"objective", alternative.possible ? number(alternative.objective) : json::Value(nullptr)},
          {"reason", asJson(alternative.reason)}});
    }
    root["why_not"] = std::move(alternatives);
    if (report.replan)
      root["replan"] = replanJson(report);
    if (!report.sensitivity.empty())
      root["sensitivity"] = sensitivityOf(report);
  }
  if (!report.conflicts.empty()) {
    json::Array conflicts;
    for (const Conflict &conflict : report.conflicts) {
      json::Object entry{{"text", asJson(textOf(report, conflict))},
                         {"given", number(conflict.given)},
                         {"would_do", conflict.relaxed ? number(*conflict.relaxed) : json::Value(nullptr)}};
      if (std::optional<Need> need = needOf(report, conflict))
        entry["needs"] = json::Object{{"piece", asJson(need->piece)},
                                      {"choice", asJson(need->choice)},
                                      {"unit", need->demand.isMemory ? "bytes" : "flops"},
                                      {"amount", number(need->demand.amount)},
                                      {"needed_per_second", number(need->neededPerSecond)},
                                      {"has_per_second", number(need->demand.perSecond)}};
      conflicts.push_back(std::move(entry));
    }
    root["conflicts"] = std::move(conflicts);
  }
  if (!report.front.empty()) {
    json::Array front;
    for (const ParetoPoint &point : report.front) {
      json::Object entry = totalsOf(point.evaluation);
      entry["latency_ms"] = number(point.evaluation.latencyMs);
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
  out << formatv("{0:2}", json::Value(std::move(root))) << '\n';
}

} // namespace intarsia::plan
