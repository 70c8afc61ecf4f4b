//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Prints a plan as a table for a terminal.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "Text.h"
#include "lib/Plan/Solver/Figures.h"
#include "lib/Support/PlannedModel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

using namespace llvm;

namespace intarsia::plan {

int hostOf(const PlacementProblem &problem, const Placements &placements, int piece) {
  auto choiceOf = [&](int of) -> const Choice & { return problem.pieces[of].candidates[placements[of].choice]; };
  if (choiceOf(piece).devicesPerReplica > 0)
    return piece;
  for (const Edge &edge : problem.edges)
    for (auto [own, other, kinds] :
         {std::tuple(edge.from, edge.to, &edge.fromKinds), std::tuple(edge.to, edge.from, &edge.toKinds)})
      if (own == piece && !kinds->empty() && choiceOf(other).devicesPerReplica > 0 &&
          is_contained(edge.sameReplicas, (*kinds)[placements[own].choice]))
        return other;
  return piece;
}

std::vector<PieceRow> rowsOf(const PlanReport &report, const Placements &placements) {
  const PlacementProblem &problem = *report.problem;
  Figures figures(problem);
  // The unused rest of nodes and of shared devices, which is paid for, is split among the pieces that leave it.
  auto splits = [&](const Choice &choice) { return problem.pools[choice.pool].wholeNodes || choice.deviceShare < 1; };
  std::vector<double> taken(problem.pools.size()), paid(problem.pools.size());
  for (auto [piece, placed] : llvm::zip(problem.pieces, placements))
    if (const Choice &choice = piece.candidates[placed.choice]; splits(choice))
      taken[choice.pool] += figures.footprint(choice) * double(placed.replicas);
  for (auto [pool, used, all] : llvm::zip(problem.pools, taken, paid)) {
    double together = pool.wholeNodes ? double(pool.devicesPerNode) : 1;
    all = used > 0 ? std::ceil(used / together) * together / used : 1;
  }
  std::vector<PieceRow> rows;
  for (auto [index, piece] : llvm::enumerate(problem.pieces)) {
    auto [choiceIndex, replicas] = placements[index];
    const Choice &choice = piece.candidates[choiceIndex];
    const ChoiceMeaning &meaning = report.built->meanings[index][choiceIndex];
    Stage stage = figures.stage(int(index), choiceIndex, replicas);
    PieceRow row;
    row.name = piece.name;
    row.outside = meaning.outside;
    row.pool = meaning.outside ? "outside" : "@" + problem.pools[choice.pool].name;
    row.precision = meaning.precision;
    std::vector<std::string> degrees;
    for (auto [name, degree] : {std::pair("tensor ", meaning.tensor),
                                {"pipeline ", meaning.pipeline},
                                {"expert ", meaning.expert},
                                {"data ", meaning.data},
                                {"share 1/", meaning.parts}})
      if (degree > 1)
        degrees.push_back(name + std::to_string(degree));
    if (meaning.aggregate)
      degrees.push_back("aggregated");
    row.degrees = llvm::join(degrees, ", ");
    row.batch = meaning.batch;
    row.replicas = placements[hostOf(problem, placements, int(index))].replicas;
    row.devices = meaning.outside ? 0 : figures.footprint(choice) * double(replicas);
    row.milliseconds = (stage.firstMs + stage.restMs) * figures.loads[index].meanScale;
    row.unscaledMs = stage.firstMs + stage.restMs;
    row.waitMs = stage.waitMs();
    row.tokenMs = stage.tokenMs;
    row.utilization = stage.utilization;
    row.dollarsPerHour =
        row.devices * (splits(choice) ? paid[choice.pool] : 1) * problem.pools[choice.pool].dollarsPerDeviceHour +
        figures.loads[index].perSecond * figures.loads[index].meanScale * 3600 *
            (figures.requestsPerSecond > 0 ? choice.dollarsPerExecution : 0);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> notCompiledOf(const PlanReport &report) {
  const PlacementProblem &problem = *report.problem;
  std::vector<std::string> reasons(problem.pieces.size());
  for (auto [index, piece] : llvm::enumerate(problem.pieces)) {
    int choice = report.result.placements[index].choice;
    const ChoiceMeaning &meaning = report.built->meanings[index][choice];
    bool hasModel = llvm::any_of(tasksOf(report, int(index)),
                                 [&](auto of) { return (*report.graphs)[of.first].tasks[of.second].model >= 0; });
    if (!hasModel || meaning.outside)
      continue;
    const Pool &pool = problem.pools[piece.candidates[choice].pool];
    reasons[index] = whyNotCompiled({pool.name, pool.device, pool.target, meaning.precision, meaning.tensor,
                                     meaning.pipeline, meaning.expert, meaning.data});
  }
  return reasons;
}

std::vector<std::string> notCompiledTexts(const PlanReport &report) {
  std::vector<std::pair<std::string, std::vector<std::string>>> piecesOf; // by reason
  for (auto [piece, reason] : llvm::zip(report.problem->pieces, notCompiledOf(report))) {
    if (reason.empty())
      continue;
    auto known = llvm::find_if(piecesOf, [&, &reason = reason](auto &entry) { return entry.first == reason; });
    std::string name = "'" + piece.name + "'";
    if (known == piecesOf.end())
      piecesOf.push_back({reason, {name}});
    else
      known->second.push_back(name);
  }
  std::vector<std::string> texts;
  for (auto &[reason, pieces] : piecesOf)
    texts.push_back(llvm::join(pieces, ", ") + (pieces.size() > 1 ? ": each " : " ") + reason);
  return texts;
}

std::vector<std::string> jumpTexts(const Agent &agent, const Evaluation::OfAgent &of) {
  std::vector<std::string> texts;
  for (auto [what, jump] : {std::pair("end to end", &of.endToEndJump), {"first token", &of.firstOutputJump}})
    if (*jump)
      texts.push_back(formatv("p{0}, {1}, stands at a jump: of requests {2} % take {3:f0} ms at most, {4} % {5:f0} ms; "
                              "a small error of a probability decides which of the two it is",
                              digits(*agent.level.percentile * 100), what, digits((*jump)->levelBelow * 100),
                              (*jump)->below, digits((*jump)->levelAbove * 100), (*jump)->above));
  return texts;
}

std::vector<Tightness> tightnessOf(const PlanReport &report, const Evaluation &evaluation) {
  const PlacementProblem &problem = *report.problem;
  std::vector<Tightness> list;
  auto add = [&](const Twine &what, double used, double bound, StringRef unit) {
    if (std::isfinite(bound) && bound > 0)
      list.push_back({what.str(), used, bound, unit.str()});
  };
  for (auto [agent, of] : llvm::zip(problem.agents, evaluation.agents)) {
    add("@" + agent.name + ": end to end", of.endToEndMs, agent.level.endToEndMs, "ms");
    add("@" + agent.name + ": first token", of.firstOutputMs, agent.level.firstOutputMs, "ms");
    add("@" + agent.name + ": next token", of.tokenMs, agent.level.tokenMs, "ms");
  }
  for (size_t pool = 0; pool < report.built->fleetPools; ++pool)
    add("devices of @" + problem.pools[pool].name, double(evaluation.devices[pool]),
        double(problem.pools[pool].devices), "");
  // A limited service outside has one replica with as many slots as simultaneous calls.
  for (auto [index, piece] : llvm::enumerate(problem.pieces)) {
    const Choice &choice = piece.candidates[report.result.placements[index].choice];
    if (choice.pool >= int(report.built->fleetPools) && choice.devicesPerReplica > 0)
      add("calls of " + StringRef(problem.pools[choice.pool].name).split(':').second,
          evaluation.utilization[index] * choice.slots, choice.slots, "under way");
  }
  for (auto [link, used] : llvm::zip(problem.links, evaluation.linkGBps))
    if (link.name != "outside")
      add("link " + link.name, used, link.gigabytesPerSecond, "GB/s");
  add("power", evaluation.peakWatts, problem.wattsCap, "W");
  add("budget", evaluation.dollarsPerHour, problem.dollarsPerHourCap, "$/h");
  llvm::stable_sort(list, [](const Tightness &a, const Tightness &b) { return a.share() > b.share(); });
  return list;
}

std::vector<std::string> criticalPath(const PlanReport &report, int agent, const Evaluation &evaluation) {
  std::vector<std::string> names;
  const workflow::Graph &graph = (*report.graphs)[agent];
  for (int region : evaluation.agents[agent].criticalRegions)
    if (region < int(graph.regions.size()) && graph.regions[region].task >= 0)
      names.push_back(graph.tasks[graph.regions[region].task].name);
  return names;
}

std::string criticalPathText(const PlanReport &report, int agent, const Evaluation &evaluation) {
  const workflow::Graph &graph = (*report.graphs)[agent];
  const std::vector<int> &critical = evaluation.agents[agent].criticalRegions;
  auto textOf = [&](auto &self, int index) -> std::string {
    const workflow::Region &region = graph.regions[index];
    if (region.kind == workflow::Region::Kind::Task)
      return is_contained(critical, index) ? graph.tasks[region.task].name : "";
    std::vector<std::string> parts;
    for (int child : region.children)
      if (std::string part = self(self, child); !part.empty())
        parts.push_back(std::move(part));
    bool isChoice = region.kind == workflow::Region::Kind::Branch;
    return isChoice && parts.size() > 1 ? "(" + llvm::join(parts, " | ") + ")" : llvm::join(parts, " > ");
  };
  return textOf(textOf, graph.root);
}

std::vector<std::pair<int, int>> tasksOf(const PlanReport &report, int piece) {
  std::vector<std::pair<int, int>> tasks;
  for (auto [agent, pieces] : llvm::enumerate(report.built->pieceOfTask))
    for (auto [task, of] : llvm::enumerate(pieces))
      if (of == piece)
        tasks.push_back({int(agent), int(task)});
  return tasks;
}

double taskMs(const PlanReport &report, const PieceRow &row, int agent, int task) {
  const workflow::Graph &graph = (*report.graphs)[agent];
  const workflow::Task &of = graph.tasks[task];
  for (auto [from, region] : llvm::zip(graph.regions, report.problem->agents[agent].regions))
    if (from.kind == workflow::Region::Kind::Task && from.task == task) {
      // In a loop the first turn has a scale of its own.
      double turns = std::max(1.0, of.executions / std::max(of.probability, 1e-12));
      return row.unscaledMs * region.timeScale * (1 + (turns - 1) * region.laterTurnScale) / turns;
    }
  return row.milliseconds;
}

std::vector<std::string> unsureOf(const PlanReport &report) {
  std::vector<std::string> unsure = report.built->unsure;
  if (!report.result.hasPlan())
    return unsure;
  std::set<std::string> used, unused;
  for (auto [piece, placed] : llvm::zip(report.problem->pieces, report.result.placements))
    used.insert(report.problem->pools[piece.candidates[placed.choice].pool].device);
  for (const Pool &pool : ArrayRef(report.problem->pools).take_front(report.built->fleetPools))
    if (!used.count(pool.device))
      unused.insert(pool.device + ": ");
  erase_if(unsure, [&](StringRef figure) {
    return any_of(unused, [&](const std::string &device) { return figure.starts_with(device); });
  });
  return unsure;
}

static std::string dollars(double value) {
  return value == 0 ? "0" : value < 0.01 ? formatv("{0:e2}", value).str() : formatv("{0:f4}", value).str();
}

std::string poolName(const PlanReport &report, int pool) {
  StringRef name = report.problem->pools[pool].name;
  if (pool < int(report.built->fleetPools))
    return ("@" + name).str();
  StringRef limited = name.split(':').second;
  return limited.empty() ? name.str() : limited.str();
}

static void printEvaluation(raw_ostream &out, const PlanReport &report, const Evaluation &evaluation) {
  const PlacementProblem &problem = *report.problem;
  out << formatv("${0} a request, ${1:f2} an hour, {2:f0} W ({3:f0} W if all are busy), {4:f1} J a request",
                 dollars(evaluation.dollarsPerRequest), evaluation.dollarsPerHour, evaluation.watts,
                 evaluation.peakWatts, evaluation.joulesPerRequest);
  if (evaluation.gramsPerHour > 0)
    out << formatv(", {0:f1} g CO2 an hour", evaluation.gramsPerHour);
  out << '\n';
  for (auto [index, agent] : llvm::enumerate(problem.agents)) {
    const Evaluation::OfAgent &of = evaluation.agents[index];
    auto against = [](double bound) { return std::isfinite(bound) ? formatv(" of {0:f0}", bound).str() : ""; };
    std::string which = agent.level.percentile ? "p" + digits(*agent.level.percentile * 100) : "mean";
    out << formatv(
        "@{0}: {1} {2:f0}{3} ms (mean {4:f0}), first token {5:f0}{6} ms, next {7:f1}{8} ms, at {9} requests/s\n",
        printable(agent.name), which, of.endToEndMs, against(agent.level.endToEndMs), of.meanMs, of.firstOutputMs,
        against(agent.level.firstOutputMs), of.tokenMs, against(agent.level.tokenMs), digits(agent.requestsPerSecond));
    out << "  critical path: " << printable(criticalPathText(report, int(index), evaluation)) << '\n';
    for (const std::string &text : jumpTexts(agent, of))
      out << "  " << text << '\n';
  }
}

static void printPlan(raw_ostream &out, const PlanReport &report) {
  std::vector<PieceRow> rows = rowsOf(report, report.result.placements);
  double total = 0;
  for (const PieceRow &row : rows)
    total += row.dollarsPerHour;
  std::vector<std::vector<std::string>> table{
      {"task", "pool", "precision", "degrees", "batch", "replicas", "devices", "ms", "wait", "busy", "$/h", "share"}};
  for (auto [index, row] : llvm::enumerate(rows)) {
    table.push_back({row.name, row.pool, row.precision, row.degrees, row.outside ? "" : std::to_string(row.batch),
                     row.outside ? "" : std::to_string(row.replicas), row.outside ? "" : digits(row.devices),
                     formatv("{0:f1}", row.milliseconds), formatv("{0:f1}", row.waitMs),
                     row.outside ? "" : formatv("{0:P0}", row.utilization).str(), formatv("{0:f2}", row.dollarsPerHour),
                     total > 0 ? formatv("{0:P0}", row.dollarsPerHour / total).str() : ""});
    // Tasks that share the row take times of their own.
    if (std::vector<std::pair<int, int>> tasks = tasksOf(report, int(index)); tasks.size() > 1)
      for (auto [agent, task] : tasks) {
        std::vector<std::string> cells(table.front().size());
        cells[0] = "  " + (*report.graphs)[agent].tasks[task].name;
        cells[7] = formatv("{0:f1}", taskMs(report, row, agent, task));
        table.push_back(std::move(cells));
      }
  }
  printTable(out, table, 4);
  out << '\n';
  printEvaluation(out, report, report.result.evaluation);
  std::vector<Tightness> tightness = tightnessOf(report, report.result.evaluation);
  if (!tightness.empty())
    out << formatv("tightest: {0}, {1:f1} of {2:f1}{3} ({4:P0})\n", tightness.front().what, tightness.front().used,
                   tightness.front().bound, tightness.front().unit.empty() ? "" : " " + tightness.front().unit,
                   tightness.front().share());
  // What a plan is worth comes before that no other is better: that is by predicted times.
  if (report.checks.confidence && !report.checks.asksConfidence)
    out << textOfProbability(report) << '\n';
  if (report.result.status == SolveResult::Status::Optimal)
    out << (report.hardened
                ? "no plan of these candidates is better for the stricter bounds or slower times it was made for\n"
            : report.latencyRoom > 0
                ? formatv("no plan of these candidates is faster by more than {0:P1}, and of those none is cheaper\n",
                          report.latencyRoom)
                      .str()
                : "no plan of these candidates is better\n");
  else
    out << formatv("out of time: another plan may be better by {0:P1} at most\n", report.result.gap);
  if (std::string text = textOfHeadroom(report); !text.empty())
    out << text << '\n';
  if (std::vector<std::string> texts = notCompiledTexts(report); !texts.empty()) {
    out << "intarsia-compile --plan refuses this plan; intarsia engines starts other servers with it:\n";
    for (const std::string &text : texts)
      out << "  " << text << '\n';
  }
  if (report.replan)
    printReplan(out, report);
}

StringRef textOfConflicts(const PlanReport &report) {
  // These constraints conflict; more conflicts may exist. Undecided members may be redundant.
  bool isLeast = llvm::all_of(report.conflicts, [](const Conflict &conflict) { return conflict.settled; });
  return report.conflicts.size() == 1 ? "No plan holds this"
         : isLeast ? "No plan holds these together; were nothing else asked, one would hold all but any one of them"
                   : "No plan holds these together; perhaps some of them alone conflict";
}

static void printConflicts(raw_ostream &out, const PlanReport &report) {
  out << "nothing holds all that is asked. " << textOfConflicts(report) << ":\n";
  for (const Conflict &conflict : report.conflicts)
    out << "  " << textOf(report, conflict) << '\n';
}

static void printPlanOrConflicts(raw_ostream &out, const PlanReport &report) {
  if (report.result.hasPlan())
    printPlan(out, report);
  else if (report.result.status == SolveResult::Status::Infeasible)
    printConflicts(out, report);
  else
    out << "no plan was found in time; give more with --time-limit\n";
}

static void printAllExplanations(raw_ostream &out, const PlanReport &report) {
  if (!report.alternatives.empty()) {
    out << "\nwhy not the next best:\n";
    for (const Alternative &alternative : report.alternatives) {
      const Piece &piece = report.problem->pieces[alternative.piece];
      out << "  " << printable(piece.name);
      if (alternative.possible)
        out << ": " << piece.candidates[alternative.placements[alternative.piece].choice].label;
      else if (alternative.pool)
        out << ": @" << report.problem->pools[*alternative.pool].name;
      out << ": " << alternative.reason << '\n';
    }
  }
  if (!report.sensitivity.empty())
    printSensitivity(out, report);
  if (!report.front.empty()) {
    out << "\ncost against latency:\n";
    std::vector<std::vector<std::string>> table{{"$/request", "$/h", "ms", "W", "proven"}};
    for (const ParetoPoint &point : report.front)
      table.push_back({digits(point.evaluation.dollarsPerRequest, 5),
                       formatv("{0:f2}", point.evaluation.dollarsPerHour),
                       formatv("{0:f0}", point.evaluation.latencyMs), formatv("{0:f0}", point.evaluation.watts),
                       point.proven ? "yes" : "no"});
    printTable(out, table, 0);
    if (!report.frontIsComplete)
      out << "out of time: there may be faster plans, and others between these; give more with --time-limit\n";
  }
  printChecks(out, *report.problem, report.checks);
  if (!report.built->notes.empty()) {
    out << "\nnot on offer:\n";
    for (const std::string &note : report.built->notes)
      out << "  " << note << '\n';
  }
  if (std::vector<std::string> unsure = unsureOf(report); !unsure.empty()) {
    out << "\nrests on figures that are unsure:\n";
    for (const std::string &figure : unsure)
      out << "  " << figure << '\n';
  }
}

static void printWith(raw_ostream &out, const PlanReport &report, void (*print)(raw_ostream &, const PlanReport &)) {
  std::string text;
  raw_string_ostream stream(text);
  print(stream, report);
  out << printable(text, /*keepsLines=*/true);
}

void printPlanOf(raw_ostream &out, const PlanReport &report) { printWith(out, report, printPlanOrConflicts); }

void printExplanations(raw_ostream &out, const PlanReport &report) { printWith(out, report, printAllExplanations); }

} // namespace intarsia::plan
