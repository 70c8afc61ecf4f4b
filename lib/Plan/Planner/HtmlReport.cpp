//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The report as one page: its sections and their order.
//===----------------------------------------------------------------------------------------------------------===//
#include "Html.h"
#include "intarsia/Version.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace intarsia::plan {
using namespace html;

namespace {
class Page {
public:
  Page(raw_ostream &out, const PlanReport &report) : out(out), report(report) {
    if (report.result.hasPlan())
      rows = rowsOf(report, report.result.placements);
  }

  void write() {
    std::vector<std::string> names;
    for (const Agent &agent : report.problem->agents)
      names.push_back(agent.name);
    std::string title = "Plan of " + join(names, ", ");
    out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<meta name=\"generator\" content=\"intarsia-plan " INTARSIA_VERSION "\">\n<title>"
        << escaped(title) << "</title>\n<style>" << style() << "</style>\n</head>\n<body>\n"
        << "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs><marker id=\"head\" "
           "viewBox=\"0 0 8 8\" refX=\"4\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path "
           "d=\"M0,0 L8,4 L0,8 z\" class=\"head\"/></marker></defs></svg>\n"
        << "<h1>" << escaped(title) << "</h1>\n";
    writeStatus();
    if (report.result.hasPlan())
      writePlan();
    else if (!report.conflicts.empty())
      writeConflicts();
    writeNotes();
    out << "</body>\n</html>\n";
  }

private:
  raw_ostream &out;
  const PlanReport &report;
  std::vector<PieceRow> rows;

  void begin(StringRef id, StringRef title, StringRef explanation = "") {
    out << "<section id=\"" << id << "\">\n<h2>" << escaped(title) << "</h2>\n";
    if (!explanation.empty())
      out << "<p class=\"note\">" << explanation << "</p>\n";
  }
  void end() { out << "</section>\n"; }

  void head(ArrayRef<StringRef> columns) {
    out << "<table><thead><tr>";
    for (StringRef column : columns)
      if (column.consume_front("#"))
        out << "<th class=\"n\">" << escaped(column) << "</th>";
      else
        out << "<th>" << escaped(column) << "</th>";
    out << "</tr></thead><tbody>\n";
  }
  void foot() { out << "</tbody></table>\n"; }
  void cell(const Twine &text, StringRef classes = "") {
    out << "<td" << (classes.empty() ? "" : " class=\"") << classes << (classes.empty() ? ">" : "\">")
        << escaped(text.str()) << "</td>";
  }
  void figure(const Twine &text) { cell(text, "n"); }

  void writeStatus() {
    StringRef made = nameOf(report.problem->objective);
    out << "<p class=\"status\">";
    switch (report.result.status) {
    case SolveResult::Status::Optimal:
      out << "<span class=\"good\">Optimal:</span> no plan of these candidates is better in " << escaped(made)
          << (report.hardened ? " for the stricter bounds or slower times it was made for." : ".");
      break;
    case SolveResult::Status::TimeLimit:
      out << "<span class=\"bad\">Time limit:</span> the best plan that was found; another may be better by up to "
          << percent(report.result.gap) << " in " << escaped(made) << ".";
      break;
    case SolveResult::Status::Infeasible:
      out << "<span class=\"bad\">Infeasible:</span> nothing holds all that is asked.";
      break;
    case SolveResult::Status::NoPlanInTime:
      out << "<span class=\"bad\">Out of time:</span> no plan was found; give more with --time-limit.";
    }
    out << "</p>\n";
  }

  void writePlan() {
    std::vector<std::pair<StringRef, StringRef>> parts{{"summary", "Summary"},
                                                       {"placements", "Placements"},
                                                       {"graph", "Graph"},
                                                       {"request", "A request"},
                                                       {"utilization", "Utilisation"}};
    if (report.replan)
      parts.insert(parts.begin() + 2, {"changes", "Changes"});
    if (report.checks.confidence || report.checks.simulation)
      parts.push_back({"checks", "Checks"});
    if (!report.front.empty())
      parts.push_back({"pareto", "Cost and latency"});
    if (!report.alternatives.empty())
      parts.push_back({"why-not", "Why not"});
    if (!report.sensitivity.empty())
      parts.push_back({"sensitivity", "Sensitivity"});
    parts.push_back({"notes", "Notes"});
    out << "<nav>";
    for (auto [id, name] : parts)
      out << "<a href=\"#" << id << "\">" << name << "</a>";
    out << "</nav>\n";
    writeSummary();
    writePlacements();
    writeChanges();
    writeGraphs();
    writeRequests();
    begin("utilization", "Utilisation");
    writeUtilization(out, report, rows);
    writeBounds();
    end();
    writeChecks();
    if (!report.front.empty()) {
      begin("pareto", "Cost and latency",
            "Plans none of which is better in both. Each is the cheapest for all bounds from its latency up to the "
            "next.");
      writeFront(out, report, Batch::of(report.result.evaluation.dollarsPerRequest));
      end();
    }
    writeWhyNot();
    writeSensitivity();
  }

  //===-- What is planned -------------------------------------------------------------------------------------===//

  void tile(const Twine &value, StringRef name) {
    out << "<div class=\"tile\"><b>" << escaped(value.str()) << "</b><span>" << escaped(name) << "</span></div>";
  }

  void writeSummary() {
    const Evaluation &evaluation = report.result.evaluation;
    Batch batch = Batch::of(evaluation.dollarsPerRequest);
    begin("summary", "Summary");
    out << "<div class=\"tiles\">";
    tile(batch.dollars(evaluation.dollarsPerRequest), batch.requests > 1 ? "for " + batch.name : batch.name);
    tile("$" + number(evaluation.dollarsPerHour), "an hour");
    tile(number(evaluation.watts) + " W", "at these rates, " + number(evaluation.peakWatts) + " W if all are busy");
    tile(number(evaluation.joulesPerRequest) + " J", "a request");
    if (evaluation.gramsPerHour > 0)
      tile(number(evaluation.gramsPerHour) + " g", "CO₂ an hour");
    int64_t devices = 0;
    for (size_t pool = 0; pool < report.built->fleetPools; ++pool)
      devices += evaluation.devices[pool];
    tile(Twine(devices), devices == 1 ? "device" : "devices");
    out << "</div>\n";
    std::vector<StringRef> columns{"agent", "promise", "#planned", "#allowed", ""};
    if (report.checks.simulation)
      columns.push_back("#simulated");
    out << "<div class=\"bars\">";
    head(columns);
    for (auto [index, agent] : enumerate(report.problem->agents)) {
      const Evaluation::OfAgent &of = evaluation.agents[index];
      std::string which = agent.level.percentile ? "p" + number(100 * *agent.level.percentile) : "nominal";
      const SimulationReport::OfAgent *simulated =
          report.checks.simulation ? &report.checks.simulation->agents[index] : nullptr;
      bool atLevel = simulated && agent.level.percentile;
      std::string name = "@" + agent.name;
      if (agent.requestsPerSecond > 0)
        name += ", " + number(agent.requestsPerSecond) + " requests/s";
      promise(name, which + ", end to end", of.endToEndMs, agent.level.endToEndMs,
              atLevel ? std::optional(simulated->endToEndMs.atLevel) : std::nullopt);
      promise("", "mean, end to end", of.meanMs, unlimited,
              simulated ? std::optional(simulated->endToEndMs.mean) : std::nullopt);
      bool is95 = atLevel && *agent.level.percentile == 0.95;
      promise("", which + ", first token", of.firstOutputMs, agent.level.firstOutputMs,
              is95 ? std::optional(simulated->firstOutputMs.p95) : std::nullopt);
      if (of.tokenMs > 0)
        promise("", "next token", of.tokenMs, agent.level.tokenMs, std::nullopt);
    }
    foot();
    out << "</div>";
    end();
  }

  void promise(StringRef agent, StringRef what, double planned, double allowed, std::optional<double> simulated) {
    out << "<tr>";
    cell(agent);
    cell(what);
    figure(duration(planned));
    figure(std::isfinite(allowed) ? duration(allowed) : "");
    out << "<td>";
    if (std::isfinite(allowed))
      bar(planned / allowed);
    out << "</td>";
    if (report.checks.simulation)
      figure(simulated ? duration(*simulated) : "");
    out << "</tr>\n";
  }

  void bar(double share) {
    out << "<div class=\"bar " << (share > 1 + 1e-6 ? "tight" : "bound")
        << "\"><span style=\"width:" << formatv("{0:f2}", 100 * std::clamp(share, 0.0, 1.0)) << "%\"></span></div>";
  }

  void writePlacements() {
    begin("placements", "Placements");
    head({"task", "pool", "precision", "split", "#batch", "#replicas", "#devices", "#in service", "#in the queue",
          "#$/hour"});
    for (auto [index, row] : enumerate(rows)) {
      int pool = report.problem->pieces[index].candidates[report.result.placements[index].choice].pool;
      out << "<tr>";
      cell(row.name);
      out << "<td class=\"nowrap\"><span class=\"dot " << poolClass(report, pool) << "\"></span>"
          << escaped(poolName(report, pool)) << "</td>";
      cell(row.precision);
      cell(row.degrees);
      for (int64_t count : {int64_t(row.batch), row.replicas})
        figure(row.outside ? Twine() : Twine(count));
      figure(row.outside ? "" : plain(row.devices));
      figure(duration(row.milliseconds));
      figure(row.waitMs >= 0.05 ? duration(row.waitMs) : "");
      figure(number(row.dollarsPerHour));
      out << "</tr>\n";
    }
    foot();
    end();
  }

  void writeChanges() {
    if (!report.replan)
      return;
    begin("changes", "Changes");
    std::vector<PieceChange> changes = changesOf(report);
    out << "<p>" << escaped(countOfMoves(report)) << ".";
    if (!changes.empty() || !report.replan->stay)
      out << " The plan of before: " << escaped(textOfStaying(report)) << ".";
    out << "</p>\n";
    if (!changes.empty()) {
      head({"task", "before", "now", "#replicas before", "#now"});
      for (const PieceChange &change : changes) {
        out << "<tr>";
        cell(change.piece);
        cell(change.before);
        cell(change.moves ? change.now : "");
        figure(Twine(change.replicasBefore));
        figure(Twine(change.replicasNow));
        out << "</tr>\n";
      }
      foot();
    }
    list("Not placed before", report.replan->unknown);
    end();
  }

  void writeGraphs() {
    begin("graph", "Graph",
          "Where each task runs. Times are means over all tasks that share the replicas. An arrow that others imply is "
          "left "
          "out, a dotted one streams.");
    for (int agent = 0; agent < int(report.problem->agents.size()); ++agent) {
      if (report.problem->agents.size() > 1)
        out << "<h3>@" << escaped(report.problem->agents[agent].name) << "</h3>\n";
      writeGraph(out, report, rows, agent);
    }
    out << "<p class=\"legend\">";
    for (int pool = 0; pool < int(report.built->fleetPools); ++pool)
      out << "<span><span class=\"dot " << poolClass(report, pool) << "\"></span>" << escaped(poolName(report, pool))
          << "</span>";
    if (any_of(rows, [](const PieceRow &row) { return row.outside; }))
      out << "<span><span class=\"dot outside\"></span>on no device of the fleet</span>";
    out << "</p>\n";
    end();
  }

  void writeRequests() {
    begin(
        "request", "A request",
        "One nominal request: each execution takes its mean time, each loop its mean number of turns and each map its "
        "mean width, both rounded, each branch its cases as often as their probabilities say.");
    for (auto [index, agent] : enumerate(report.problem->agents)) {
      const Evaluation::OfAgent &of = report.result.evaluation.agents[index];
      if (report.problem->agents.size() > 1)
        out << "<h3>@" << escaped(agent.name) << "</h3>\n";
      writeGantt(out, report, int(index));
      out << "<p class=\"note\">Over all requests the mean is " << duration(of.meanMs);
      if (agent.level.percentile)
        out << ", the " << number(100 * *agent.level.percentile) << "th percentile " << duration(of.endToEndMs)
            << (of.exact ? "" : " at most");
      out << ".</p>\n";
    }
    end();
  }

  void writeBounds() {
    std::vector<Tightness> list = tightnessOf(report, report.result.evaluation);
    erase_if(list, [](const Tightness &entry) { return entry.used <= 0; });
    if (list.empty())
      return;
    out << "<h3>Bounds, the tightest first</h3>\n<div class=\"bars\">";
    head({"bound", "#used", "#of", "", "#share"});
    for (const Tightness &entry : list) {
      std::string unit = entry.unit.empty() ? "" : " " + entry.unit;
      out << "<tr>";
      cell(entry.what);
      figure(entry.unit == "ms" ? duration(entry.used) : number(entry.used) + unit);
      figure(entry.unit == "ms" ? duration(entry.bound) : number(entry.bound) + unit);
      out << "<td>";
      bar(entry.share());
      out << "</td>";
      figure(percent(entry.share()));
      out << "</tr>\n";
    }
    foot();
    out << "</div>\n";
  }

  //===-- Why ------------------------------------------------------------------------------------------------===//

  void writeWhyNot() {
    if (report.alternatives.empty())
      return;
    begin("why-not", "Why not",
          "The best plan in which one piece does otherwise than planned, all else being free to change.");
    head({"task", "planned", "instead", "#more", "reason"});
    double own = report.result.evaluation.objective;
    Batch batch = Batch::of(report.result.evaluation.dollarsPerRequest);
    int before = -1;
    for (const Alternative &alternative : report.alternatives) {
      const Piece &piece = report.problem->pieces[alternative.piece];
      bool isFirst = std::exchange(before, alternative.piece) != alternative.piece;
      out << "<tr>";
      cell(isFirst ? piece.name : "");
      cell(isFirst ? piece.candidates[report.result.placements[alternative.piece].choice].label : "");
      if (alternative.possible)
        cell(piece.candidates[alternative.placements[alternative.piece].choice].label);
      else
        cell(alternative.pool ? poolName(report, *alternative.pool) : "any other");
      figure(alternative.possible && own != 0 ? "+" + percent((alternative.objective - own) / std::abs(own)) : "");
      bool inDollars = alternative.possible && report.problem->objective == Objective::DollarsPerRequest;
      cell(inDollars ? batch.dollars(alternative.objective - own) + " more for " + batch.name : alternative.reason,
           "long");
      out << "</tr>\n";
    }
    foot();
    end();
  }

  void writeSensitivity() {
    if (report.sensitivity.empty())
      return;
    begin(
        "sensitivity", "Sensitivity",
        "At which value of one figure, all others as they are, another plan would be better or this one would break.");
    if (std::string text = notAskedText(report); !text.empty())
      out << "<p>" << escaped(StringRef(text).take_front().upper() + text.substr(1)) << ".</p>\n";
    head({"figure", "#given", "below", "above"});
    for (const SensitivityRow &row : sensitivityRows(report)) {
      out << "<tr>";
      cell(row.figure);
      figure(row.given);
      cell(row.below);
      cell(row.above);
      out << "</tr>\n";
    }
    foot();
    end();
  }

  void writeChecks() {
    const Checks &checks = report.checks;
    if (!checks.simulation && !checks.confidence)
      return;
    begin("checks", "Checks");
    if (checks.simulation) {
      std::vector<std::string> broken = brokenTexts(*report.problem, checks);
      out << "<p>Simulated for " << duration(checks.simulation->arrivalSeconds * 1000) << " of arrivals: "
          << (broken.empty() ? "all promises hold." : "<span class=\"bad\">not all promises hold.</span>") << "</p>\n";
      list("Failures", failureTexts(*checks.simulation));
      list("Broken in the simulation", broken);
      list("Planned and simulated, round by round", checks.simulationRounds);
    }
    if (checks.confidence) {
      out << "<p>If times are as wrong as the cost model was where it had not seen the system ("
          << checks.confidence->trials << " trials), " << escaped(togetherText(checks)) << ".</p>\n";
      head({"agent", "#holds with", "broken in"});
      for (auto [agent, of] : zip(report.problem->agents, checks.confidence->agents)) {
        out << "<tr>";
        cell("@" + agent.name);
        figure(textOf(of.holds, checks.required));
        cell(brokenShares(of), "long");
        out << "</tr>\n";
      }
      foot();
      list("Planned for slower times, round by round", checks.confidenceRounds);
      std::vector<std::string> limits;
      for (const Conflict &conflict : checks.limits)
        limits.push_back(conflict.text);
      list("No plan stands slower times: there these conflict", limits);
    }
    end();
  }

  void writeConflicts() {
    begin("conflicts", "What conflicts",
          "A smallest set that no plan holds together: any one of these taken away, the others can be held. What would "
          "do "
          "is the value that makes a plan possible, all else as it is.");
    head({"asked", "#given", "#would do"});
    for (const Conflict &conflict : report.conflicts) {
      out << "<tr>";
      cell(textOf(report, conflict), "long");
      figure(conflict.given > 0 ? number(conflict.given) : "");
      figure(conflict.relaxed ? number(*conflict.relaxed) : "–");
      out << "</tr>\n";
    }
    foot();
    end();
  }

  void list(StringRef title, const std::vector<std::string> &entries) {
    if (entries.empty())
      return;
    out << "<h3>" << title << "</h3>\n<ul>\n";
    for (const std::string &entry : entries)
      out << "<li>" << escaped(entry) << "</li>\n";
    out << "</ul>\n";
  }

  void writeNotes() {
    begin("notes", "Notes");
    list("Rests on figures that are unsure", unsureOf(report));
    list("Not on offer", report.built->notes);
    if (report.built->unsure.empty() && report.built->notes.empty())
      out << "<p>None.</p>\n";
    end();
  }
};
} // namespace

void printHtml(raw_ostream &out, const PlanReport &report) { Page(out, report).write(); }

} // namespace intarsia::plan
