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

/// Returns what identifies a language model: a directory that is compiled for it has the same.
static json::Value shapeOf(const ModelShape *shape) {
  if (!shape)
    return nullptr;
  return json::Object{{"name", asJson(shape->name)},       {"hidden", shape->hidden},
                      {"layers", shape->layers},           {"vocabulary", shape->vocabulary},
                      {"parameters", shape->parameters()}, {"cached_elements_per_token", shape->cacheBytesPerToken(1)}};
}

static json::Object workOf(const PieceWork &work) {
  return json::Object{{"new_tokens", asJson(work.newTokens)},
                      {"cached_tokens", asJson(work.cachedTokens)},
                      {"context_tokens", asJson(work.contextTokens)},
                      {"written_tokens", asJson(work.writtenTokens)},
                      {"input_units", asJson(work.units)}};
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
                                     {"bytes", asJson(edge.bytes)},
                                     {"milliseconds", asJson(transfer.ms)}});
  }
  return transfers;
}

static json::Object pieceOf(const PlanReport &report, const PieceRow &row, size_t index,
                            const std::string &notCompiled) {
  json::Array tasks;
  const workflow::Task *first = nullptr; // those of a piece demand the same
  const workflow::Model *model = nullptr;
  for (auto [agent, position] : tasksOf(report, int(index))) {
    const workflow::Graph &graph = (*report.graphs)[agent];
    const workflow::Task &task = graph.tasks[position];
    tasks.push_back(json::Object{{"graph", asJson(graph.name)},
                                 {"task", asJson(task.name)},
                                 {"location", asJson(task.location)},
                                 {"executions", asJson(task.executions)},
                                 {"milliseconds", asJson(taskMs(report, row, agent, position))}});
    first = &task;
    model = task.model >= 0 ? &graph.models[task.model] : nullptr;
  }
  const ChoiceMeaning &meaning = report.built->meanings[index][report.result.placements[index].choice];
  const Piece &piece = report.problem->pieces[index];
  const Choice &choice = piece.candidates[report.result.placements[index].choice];
  const PieceWork &work = report.built->works[index];
  return json::Object{{"name", asJson(row.name)},
                      {"tasks", std::move(tasks)},
                      {"kind", orNull(first ? workflow::nameOf(first->kind) : "")},
                      {"model", orNull(model ? model->name : "")},
                      {"outside", row.outside},
                      {"choice", asJson(choice.label)},
                      {"pool", orNull(row.outside ? "" : row.pool.substr(1))},
                      {"service", orNull(row.outside ? poolName(report, choice.pool) : "")},
                      {"cache", orNull(!model || !work.shape  ? ""
                                       : model->cache.empty() ? "bf16"
                                                              : model->cache)},
                      {"most_context_tokens", asJson(model ? model->contextTokens : std::nullopt)},
                      {"precision", orNull(row.precision)},
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
                      {"alone_ms", asJson(choice.millisecondsAlone.value_or(choice.milliseconds))},
                      {"full_ms", asJson(choice.milliseconds)},
                      {"milliseconds", asJson(row.milliseconds)},
                      {"wait_ms", asJson(row.waitMs)},
                      {"token_ms", asJson(row.tokenMs)},
                      {"utilization", asJson(row.utilization)},
                      {"dollars_per_hour", asJson(row.dollarsPerHour)},
                      {"not_compiled", orNull(notCompiled)}};
}

static json::Array poolsOf(const PlanReport &report) {
  json::Array pools;
  for (auto [index, pool] : enumerate(ArrayRef(report.problem->pools).take_front(report.built->fleetPools)))
    pools.push_back(json::Object{{"name", asJson(pool.name)},
                                 {"device", asJson(pool.device)},
                                 {"target", orNull(pool.target)},
                                 {"devices", pool.devices},
                                 {"used", report.result.evaluation.devices[index]},
                                 {"devices_per_node", pool.devicesPerNode}});
  return pools;
}

static json::Object totalsOf(const Evaluation &evaluation) {
  return json::Object{{"objective", asJson(evaluation.objective)},
                      {"latency_ms", asJson(evaluation.latencyMs)},
                      {"dollars_per_request", asJson(evaluation.dollarsPerRequest)},
                      {"dollars_per_hour", asJson(evaluation.dollarsPerHour)},
                      {"watts", asJson(evaluation.watts)},
                      {"peak_watts", asJson(evaluation.peakWatts)},
                      {"joules_per_request", asJson(evaluation.joulesPerRequest)},
                      {"grams_per_hour", asJson(evaluation.gramsPerHour)}};
}

/// Returns the tree of an agent's regions, whose leaves name tasks.
static json::Object regionOf(const workflow::Graph &graph, int index) {
  using Kind = workflow::Region::Kind;
  const workflow::Region &region = graph.regions[index];
  if (region.kind == Kind::Task)
    return json::Object{{"kind", "task"}, {"task", asJson(graph.tasks[region.task].name)}};
  json::Object of{{"name", asJson(region.name)},
                  {"children", arrayOf(region.children, [&](int child) { return regionOf(graph, child); })}};
  if (region.kind == Kind::Dag) {
    of["kind"] = "dag", of["arcs"] = arrayOf(region.arcs, [](const workflow::Region::Arc &arc) {
                          return json::Object{{"from", arc.from}, {"to", arc.to}, {"streams", arc.streaming}};
                        });
  } else if (region.kind == Kind::Branch) {
    of["kind"] = "branch", of["probabilities"] = json::Array(region.probabilities);
  } else {
    double mean = 0;
    int64_t most = 0;
    for (auto [count, probability] : region.counts)
      mean += double(count) * probability, most = std::max(most, count);
    of["kind"] = region.kind == Kind::Loop ? "loop" : "map", of["mean"] = asJson(mean), of["most"] = most;
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
                                      {"sent_ms", asJson(of.sentMs)},
                                      {"arrived_ms", asJson(of.arrivedMs)},
                                      {"served_ms", asJson(of.servedMs)},
                                      {"first_ms", asJson(of.firstMs)},
                                      {"end_ms", asJson(of.endMs)},
                                      {"critical", of.critical}});
  }
  return json::Object{
      {"end_ms", asJson(schedule.endMs)}, {"not_listed", schedule.notListed}, {"executions", std::move(executions)}};
}

static json::Array agentsOf(const PlanReport &report) {
  json::Array agents;
  const Evaluation &evaluation = report.result.evaluation;
  for (auto [index, agent] : llvm::enumerate(report.problem->agents)) {
    const Evaluation::OfAgent &of = evaluation.agents[index];
    json::Object entry{{"name", asJson(agent.name)},
                       {"requests_per_second", agent.requestsPerSecond},
                       {"percentile", agent.level.percentile.value_or(0.5)},
                       {"end_to_end_ms", asJson(of.endToEndMs)},
                       {"exact", of.exact},
                       {"jumps", asJson(jumpTexts(agent, of))},
                       {"mean_ms", asJson(of.meanMs)},
                       {"first_token_ms", asJson(of.firstOutputMs)},
                       {"next_token_ms", asJson(of.tokenMs)},
                       {"critical_path", asJson(criticalPath(report, int(index), evaluation))},
                       {"bounds", json::Object{{"end_to_end_ms", asJson(agent.level.endToEndMs)},
                                               {"first_token_ms", asJson(agent.level.firstOutputMs)},
                                               {"next_token_ms", asJson(agent.level.tokenMs)}}},
                       {"graph", regionOf((*report.graphs)[index], (*report.graphs)[index].root)},
                       {"request", requestOf(report, int(index))}};
    if (report.checks.simulation)
      entry["simulated"] = simulatedAgent(report.checks.simulation->agents[index]);
    agents.push_back(std::move(entry));
  }
  return agents;
}

static StringRef nameOf(SolveResult::Status status) {
  using Status = SolveResult::Status;
  return status == Status::Optimal      ? "optimal"
         : status == Status::TimeLimit  ? "time_limit"
         : status == Status::Infeasible ? "infeasible"
                                        : "no_plan_in_time";
}

static StringRef nameOf(Sensitivity::Kind kind) {
  using Kind = Sensitivity::Kind;
  return kind == Kind::Price      ? "price"
         : kind == Kind::EndToEnd ? "end_to_end_ms"
         : kind == Kind::Slowness ? "slowness"
                                  : "requests_per_second";
}

static json::Array sensitivityOf(const PlanReport &report) {
  const PlacementProblem &problem = *report.problem;
  auto names = [&](const std::vector<int> &pieces) {
    return arrayOf(pieces, [&](int piece) { return asJson(problem.pieces[piece].name); });
  };
  json::Array all;
  for (auto [of, row] : llvm::zip(report.sensitivity, sensitivityRows(report))) {
    bool ofAgent = of.kind == Sensitivity::Kind::EndToEnd || of.kind == Sensitivity::Kind::Rate;
    all.push_back(json::Object{{"figure", nameOf(of.kind)},
                               {"of", asJson(ofAgent ? problem.agents[of.index].name : problem.pools[of.index].name)},
                               {"given", asJson(of.given)},
                               {"below", asJson(of.below)},
                               {"above", asJson(of.above)},
                               {"below_known", of.belowIsKnown},
                               {"above_known", of.aboveIsKnown},
                               {"moves_below", names(of.piecesBelow)},
                               {"moves_above", names(of.piecesAbove)},
                               {"breaks", orNull(of.breaks)},
                               {"text", json::Object{{"figure", asJson(row.figure)},
                                                     {"given", asJson(row.given)},
                                                     {"below", asJson(row.below)},
                                                     {"above", asJson(row.above)}}}});
  }
  return all;
}

static json::Array alternativesOf(const PlanReport &report) {
  return arrayOf(report.alternatives, [&](const Alternative &of) {
    const Piece &piece = report.problem->pieces[of.piece];
    return json::Object{{"piece", asJson(piece.name)},
                        {"pool", orNull(of.pool ? report.problem->pools[*of.pool].name : "")},
                        {"choice", orNull(of.possible ? piece.candidates[of.placements[of.piece].choice].label : "")},
                        {"objective", asJson(of.possible ? of.objective : unlimited)},
                        {"reason", asJson(of.reason)}};
  });
}

static json::Array conflictsOf(const PlanReport &report) {
  return arrayOf(report.conflicts, [&](const Conflict &conflict) {
    json::Object entry{{"text", asJson(textOf(report, conflict))},
                       {"given", asJson(conflict.given)},
                       {"would_do", asJson(conflict.relaxed)}};
    if (std::optional<Need> need = needOf(report, conflict))
      entry["needs"] = json::Object{{"piece", asJson(need->piece)},
                                    {"choice", asJson(need->choice)},
                                    {"unit", need->demand.isMemory ? "bytes" : "flops"},
                                    {"amount", asJson(need->demand.amount)},
                                    {"needed_per_second", asJson(need->neededPerSecond)},
                                    {"has_per_second", asJson(need->demand.perSecond)}};
    return entry;
  });
}

static json::Array frontOf(const PlanReport &report) {
  return arrayOf(report.front, [&](const ParetoPoint &point) {
    json::Object entry = totalsOf(point.evaluation);
    entry["proven"] = point.proven;
    entry["pieces"] = arrayOf(llvm::enumerate(report.problem->pieces), [&](auto of) {
      auto [index, piece] = of;
      int host = hostOf(*report.problem, point.placements, int(index));
      return json::Object{{"piece", asJson(piece.name)},
                          {"choice", asJson(piece.candidates[point.placements[index].choice].label)},
                          {"replicas", point.placements[host].replicas}};
    });
    return entry;
  });
}

/// Adds what is known of a plan.
static void addPlan(json::Object &root, const PlanReport &report) {
  const Evaluation &evaluation = report.result.evaluation;
  const Headroom &headroom = report.headroom;
  root["gap"] = asJson(report.result.gap);
  root["hardened"] = report.hardened;
  root["latency_room"] = report.latencyRoom;
  root["headroom"] = json::Object{{"share", asJson(headroom.share)},
                                  {"level", asJson(headroom.share ? unlimited : usualLevel)},
                                  {"holds", headroom.any && !headroom.left},
                                  {"objective_without", asJson(headroom.without)},
                                  {"settled", headroom.settled},
                                  {"text", asJson(textOfHeadroom(report))}};
  root["totals"] = totalsOf(evaluation);
  root["agents"] = agentsOf(report);
  root["pools"] = poolsOf(report);
  std::vector<std::string> notCompiled = notCompiledOf(report);
  root["pieces"] = arrayOf(llvm::enumerate(rowsOf(report, report.result.placements)),
                           [&](auto of) { return pieceOf(report, of.value(), of.index(), notCompiled[of.index()]); });
  root["not_compiled"] = asJson(notCompiledTexts(report));
  root["transfers"] = transfersOf(report);
  root["constraints"] = arrayOf(tightnessOf(report, evaluation), [](const Tightness &of) {
    return json::Object{
        {"what", asJson(of.what)}, {"used", asJson(of.used)}, {"bound", asJson(of.bound)}, {"unit", asJson(of.unit)}};
  });
  addChecks(root, *report.problem, report.checks);
  root["why_not"] = alternativesOf(report);
  if (report.replan)
    root["replan"] = replanJson(report);
  if (report.sensitivity.empty())
    return;
  root["sensitivity"] = sensitivityOf(report);
  if (std::string text = notAskedText(report); !text.empty())
    root["sensitivity_not_asked"] = asJson(text);
}

json::Object jsonOf(const PlanReport &report) {
  json::Object root{{"version", 1},
                    {"graphs", arrayOf(report.problem->agents, [](const Agent &agent) { return asJson(agent.name); })},
                    {"status", nameOf(report.result.status)},
                    {"objective", nameOf(report.problem->objective)},
                    {"unsure", asJson(unsureOf(report))},
                    {"not_offered", asJson(report.built->notes)}};
  if (report.result.hasPlan())
    addPlan(root, report);
  if (!report.conflicts.empty()) {
    root["conflicts"] = conflictsOf(report);
    root["conflicts_text"] = textOfConflicts(report);
  }
  if (!report.front.empty()) {
    root["pareto"] = frontOf(report);
    root["pareto_complete"] = report.frontIsComplete;
  }
  return root;
}

void printJson(raw_ostream &out, const PlanReport &report) {
  out << formatv("{0:2}", json::Value(jsonOf(report))) << '\n';
}

} // namespace intarsia::plan
