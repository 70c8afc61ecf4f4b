//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Draws a request over time, dollars against latency, and the utilization of devices.
//===----------------------------------------------------------------------------------------------------------===//
#include "Html.h"
#include "intarsia/Plan/Schedule.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
namespace wf = intarsia::workflow;

namespace intarsia::plan::html {

//===-- A request over time -----------------------------------------------------------------------------------===//

namespace {
class Gantt {
public:
  Gantt(const PlanReport &report, int agent)
      : report(report), graph((*report.graphs)[agent]), agent(report.problem->agents[agent]),
        schedule(scheduleOf(*report.problem, report.result.placements, agent)) {
    for (const Execution &execution : schedule.executions)
      if (taskOf(execution.region) >= 0)
        byRegion[execution.region].push_back(execution);
  }

  void write(raw_ostream &page) {
    Svg svg;
    double bottom = axis + double(byRegion.size()) * rowHeight + 4;
    for (double tick : ticks(0, schedule.endMs, 6)) {
      svg.line(xOf(tick), axis - 4, xOf(tick), bottom, "grid");
      if (xOf(tick) < xOf(schedule.endMs) - 58)
        svg.text(xOf(tick), axis - 10, duration(tick), "small", "middle");
    }
    svg.line(xOf(schedule.endMs), axis - 4, xOf(schedule.endMs), bottom, "end");
    svg.text(xOf(schedule.endMs), axis - 10, duration(schedule.endMs), "small strong", "middle");
    double y = axis;
    for (auto &[region, executions] : byRegion) {
      drawRow(svg, region, executions, y);
      y += rowHeight;
    }
    svg.write(page, left + chart + right, bottom + 4, "One nominal request of " + graph.name + " over time");
    page
        << "<p class=\"legend\"><span class=\"key transfer\"></span>transfer <span class=\"key waiting\"></span>in the "
           "queue <span class=\"key serving\"></span>in service <span class=\"key critical\"></span>critical "
           "path</p>\n";
    std::vector<std::string> absent;
    for (auto [index, region] : enumerate(graph.regions))
      if (region.task >= 0 && !byRegion.count(int(index)))
        absent.push_back(graph.tasks[region.task].name);
    if (!absent.empty())
      page << "<p class=\"note\">Not in this request, but in others: " << escaped(join(absent, ", ")) << ".</p>\n";
    if (schedule.notListed > 0)
      page << "<p class=\"note\">" << schedule.notListed << " executions after these are not drawn.</p>\n";
    writeTable(page);
  }

private:
  static constexpr double left = 236, chart = 590, right = 190, axis = 30, rowHeight = 28;
  const PlanReport &report;
  const wf::Graph &graph;
  const Agent &agent;
  Schedule schedule;
  MapVector<int, std::vector<Execution>> byRegion; ///< by region of the agent; in the order of their first execution

  /// Returns the task of the graph's region; regions added for the agent have none.
  int taskOf(int region) const { return region < int(graph.regions.size()) ? graph.regions[region].task : -1; }
  double xOf(double milliseconds) const {
    return left + (schedule.endMs > 0 ? milliseconds / schedule.endMs * (chart - 30) : 0);
  }
  int poolOf(int region) const {
    int piece = agent.regions[region].piece;
    return report.problem->pieces[piece].candidates[report.result.placements[piece].choice].pool;
  }

  void drawRow(Svg &svg, int region, const std::vector<Execution> &executions, double y) {
    const std::string &name = graph.tasks[taskOf(region)].name;
    svg.beginGroup(name, poolClass(report, poolOf(region)));
    svg.text(left - 12, y + 18, wrapped(name, 12, left - 16, 1).front(), "label", "end");
    svg.line(left, y + rowHeight, left + chart + right - 4, y + rowHeight, "grid");
    for (const Execution &execution : executions) {
      double sent = xOf(execution.sentMs), arrived = xOf(execution.arrivedMs), served = xOf(execution.servedMs);
      double end = std::max(xOf(execution.endMs), served + 1.5);
      svg.beginGroup(tipOf(execution));
      if (arrived - sent > 0.2)
        svg.line(sent, y + 14, arrived, y + 14, "transfer");
      if (served - arrived > 0.2)
        svg.rectangle(arrived, y + 7, served - arrived, 14, "waiting");
      // A gap separates consecutive executions.
      svg.rectangle(served, y + 7, std::max(1.0, end - served - 0.8), 14, "serving", end - served > 5 ? 2 : 0);
      double first = xOf(execution.firstMs);
      if (first > served + 2 && first < end - 2)
        svg.line(first, y + 7, first, y + 21, "first");
      if (execution.critical)
        svg.rectangle(sent, y + 23, end - sent, 3, "critical");
      svg.endGroup();
    }
    double served = 0;
    for (const Execution &execution : executions)
      served += execution.endMs - execution.servedMs;
    std::string text = duration(served / double(executions.size()));
    if (executions.size() > 1)
      text = std::to_string(executions.size()) + " × " + text;
    if (executions.front().copies > 1)
      text += ", " + std::to_string(executions.front().copies) + " at once";
    svg.text(left + chart + 6, y + 18, text, "small");
    svg.endGroup();
  }

  std::string tipOf(const Execution &execution) const {
    std::string tip = graph.tasks[taskOf(execution.region)].name;
    if (execution.turn > 0)
      tip += ", turn " + std::to_string(execution.turn + 1);
    return tip + formatv("\nsent {0}, arrived {1}, served from {2} to {3}", duration(execution.sentMs),
                         duration(execution.arrivedMs), duration(execution.servedMs), duration(execution.endMs))
                     .str();
  }

  void writeTable(raw_ostream &page) const {
    page << "<details><summary>In numbers</summary><table><thead><tr><th>task</th><th class=\"n\">turn</th><th "
            "class=\"n\">transfer</th><th class=\"n\">in the queue</th><th class=\"n\">served from</th><th "
            "class=\"n\">first output</th><th class=\"n\">end</th><th>critical</th></tr></thead><tbody>\n";
    for (const Execution &execution : schedule.executions) {
      if (taskOf(execution.region) < 0)
        continue;
      page << "<tr><td>" << escaped(graph.tasks[taskOf(execution.region)].name) << "</td><td class=\"n\">"
           << execution.turn + 1;
      for (double value : {execution.arrivedMs - execution.sentMs, execution.servedMs - execution.arrivedMs,
                           execution.servedMs, execution.firstMs, execution.endMs})
        page << "</td><td class=\"n\">" << duration(value);
      page << "</td><td>" << (execution.critical ? "yes" : "") << "</td></tr>\n";
    }
    page << "</tbody></table></details>\n";
  }
};
} // namespace

void writeGantt(raw_ostream &page, const PlanReport &report, int agent) { Gantt(report, agent).write(page); }

//===-- Dollars against latency -------------------------------------------------------------------------------===//

/// Returns the differences of a plan of the front: "answer.decode: @fast bf16 tensor 4".
static std::string differencesOf(const PlanReport &report, const Placements &other) {
  std::vector<std::string> texts;
  for (auto [piece, own, placed] : zip(report.problem->pieces, report.result.placements, other))
    if (own != placed) {
      std::string text = piece.name + ": " + piece.candidates[placed.choice].label;
      if (own.replicas != placed.replicas)
        text += formatv(" × {0}", placed.replicas);
      texts.push_back(std::move(text));
    }
  return texts.empty() ? "this plan" : join(texts, "; ");
}

void writeFront(raw_ostream &page, const PlanReport &report, const Batch &batch) {
  constexpr double left = 76, width = 640, height = 300, top = 30, below = 44;
  const Evaluation &own = report.result.evaluation;
  double slowest = own.latencyMs, fastest = own.latencyMs, dearest = own.dollarsPerRequest, cheapest = dearest;
  for (const ParetoPoint &point : report.front) {
    slowest = std::max(slowest, point.evaluation.latencyMs), fastest = std::min(fastest, point.evaluation.latencyMs);
    dearest = std::max(dearest, point.evaluation.dollarsPerRequest);
    cheapest = std::min(cheapest, point.evaluation.dollarsPerRequest);
  }
  auto widened = [](double &low, double &high) {
    double margin = std::max((high - low) * 0.1, high * 0.02);
    low = std::max(0.0, low - margin), high += margin;
  };
  widened(fastest, slowest), widened(cheapest, dearest);
  auto xOf = [&](double ms) { return left + (ms - fastest) / std::max(slowest - fastest, 1e-12) * width; };
  auto yOf = [&](double dollars) {
    return top + height - (dollars - cheapest) / std::max(dearest - cheapest, 1e-300) * height;
  };
  Svg svg;
  for (double tick : ticks(fastest, slowest, 6)) {
    svg.line(xOf(tick), top, xOf(tick), top + height, "grid");
    svg.text(xOf(tick), top + height + 18, duration(tick), "small", "middle");
  }
  for (double tick : ticks(cheapest * batch.requests, dearest * batch.requests, 5)) {
    double y = yOf(tick / batch.requests);
    svg.line(left, y, left + width, y, "grid");
    svg.text(left - 8, y + 4, "$" + number(tick), "small", "end");
  }
  svg.text(left - 8, 14, "dollars for " + batch.name, "small");
  svg.text(left + width / 2, top + height + 38, "end-to-end latency", "small", "middle");
  std::string steps; // a plan is the cheapest until the next is fast enough
  for (const ParetoPoint &point : report.front) {
    double x = xOf(point.evaluation.latencyMs), y = yOf(point.evaluation.dollarsPerRequest);
    steps += steps.empty() ? formatv("M{0:f1},{1:f1}", x, y).str() : formatv(" V{1:f1} H{0:f1}", x, y).str();
  }
  svg.path(steps, "steps");
  for (const ParetoPoint &point : report.front) {
    svg.beginGroup(differencesOf(report, point.placements));
    svg.circle(xOf(point.evaluation.latencyMs), yOf(point.evaluation.dollarsPerRequest), 5,
               point.proven ? "point" : "point open");
    svg.endGroup();
  }
  double x = xOf(own.latencyMs), y = yOf(own.dollarsPerRequest);
  svg.beginGroup("this plan");
  svg.circle(x, y, 9, "chosen");
  bool toTheLeft = x > left + width - 90;
  svg.text(toTheLeft ? x - 14 : x + 14, y - 17, "this plan", "small strong", toTheLeft ? "end" : "start");
  svg.endGroup();
  svg.write(page, left + width + 40, top + height + below, "Dollars against latency");
  page << "<p class=\"legend\"><span class=\"key point\"></span>proven: no plan costs less and is as fast <span "
          "class=\"key open\"></span>the best that was found</p>\n";
  page << "<table><thead><tr><th class=\"n\">latency</th><th class=\"n\">$ for " << batch.name
       << "</th><th class=\"n\">$ an hour</th><th class=\"n\">watts</th><th>does "
       << "otherwise than this plan</th></tr></thead><tbody>\n";
  for (const ParetoPoint &point : report.front)
    page << "<tr><td class=\"n\">" << duration(point.evaluation.latencyMs) << "</td><td class=\"n\">"
         << number(point.evaluation.dollarsPerRequest * batch.requests) << "</td><td class=\"n\">"
         << number(point.evaluation.dollarsPerHour) << "</td><td class=\"n\">" << number(point.evaluation.watts)
         << "</td><td class=\"long\">" << escaped(differencesOf(report, point.placements)) << "</td></tr>\n";
  page << "</tbody></table>\n";
}

//===-- How busy all is ---------------------------------------------------------------------------------------===//

/// Draws a bar of a share, with a mark at another one.
static void writeBar(raw_ostream &page, StringRef classes, double share, std::optional<double> mark = {}) {
  auto part = [](double value) { return formatv("{0:f2}%", 100 * std::clamp(value, 0.0, 1.0)).str(); };
  page << "<div class=\"bar " << classes << "\"><span style=\"width:" << part(share) << "\"></span>";
  if (mark)
    page << "<i style=\"left:" << part(*mark) << "\"></i>";
  page << "</div>";
}

void writeUtilization(raw_ostream &page, const PlanReport &report, const std::vector<PieceRow> &rows) {
  const PlacementProblem &problem = *report.problem;
  const Evaluation &evaluation = report.result.evaluation;
  page << "<h3>Devices</h3>\n<table class=\"bars\"><thead><tr><th>pool</th><th class=\"n\">used</th><th></th><th "
          "class=\"n\">busy</th><th></th>"
          "</tr></thead><tbody>\n";
  for (int pool = 0; pool < int(report.built->fleetPools); ++pool) {
    double busy = 0;
    for (auto [row, piece, placed] : zip(rows, problem.pieces, report.result.placements))
      if (piece.candidates[placed.choice].pool == pool)
        busy += row.utilization * double(row.devices);
    int64_t used = evaluation.devices[pool], all = problem.pools[pool].devices;
    std::string color = poolClass(report, pool);
    page << "<tr><td><span class=\"dot " << color << "\"></span>" << escaped(poolName(report, pool))
         << "</td><td class=\"n\">" << used << " of " << all << "</td><td>";
    writeBar(page, color, all > 0 ? double(used) / double(all) : 0);
    page << "</td><td class=\"n\">" << (used > 0 ? percent(busy / double(used)) : "–") << "</td><td>";
    if (used > 0)
      writeBar(page, color, busy / double(used));
    page << "</td></tr>\n";
  }
  page << "</tbody></table>\n<h3>Pieces</h3>\n<table class=\"bars\"><thead><tr><th>task</th><th>pool</th><th "
       << "class=\"n\">busy</th><th></th>" << (report.checks.simulation ? "<th class=\"n\">slots in use</th>" : "")
       << "</tr></thead><tbody>\n";
  for (auto [index, row] : enumerate(rows)) {
    int pool = problem.pieces[index].candidates[report.result.placements[index].choice].pool;
    if (row.outside && row.utilization == 0)
      continue;
    std::optional<double> simulated;
    if (report.checks.simulation)
      simulated = report.checks.simulation->pieces[index].utilization;
    page << "<tr><td>" << escaped(row.name) << "</td><td><span class=\"dot " << poolClass(report, pool) << "\"></span>"
         << escaped(poolName(report, pool)) << "</td><td class=\"n\">" << percent(row.utilization) << "</td><td>";
    writeBar(page, poolClass(report, pool), row.utilization, simulated);
    page << "</td>";
    if (simulated)
      page << "<td class=\"n\">" << percent(*simulated) << "</td>";
    page << "</tr>\n";
  }
  page << "</tbody></table>\n";
  if (report.checks.simulation)
    page << "<p class=\"legend\"><span class=\"key mark\"></span>slots in use, as simulated; busy is the share of what "
            "the "
            "replicas sustain</p>\n";
}

} // namespace intarsia::plan::html
