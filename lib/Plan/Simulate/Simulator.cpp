//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Simulator.h"
#include "lib/Plan/Solver/Evaluate.h"
#include "llvm/ADT/STLExtras.h"

namespace intarsia::plan {

Simulator::Simulator(const PlacementProblem &problem, const Placements &placements, const SimulationOptions &options)
    : problem(problem), placements(placements), options(options), figures(problem), random(options.seed) {
  for (size_t piece = 0; piece < problem.pieces.size(); ++piece)
    addStation(piece);
  for (auto [index, edge] : llvm::enumerate(problem.edges)) {
    Transfer transfer = figures.transfer(int(index), placements[edge.from].choice, placements[edge.to].choice);
    transfers.push_back(transfer);
    double occupied = transfer.link < 0 ? 0 : edge.bytes * 1e-6 / problem.links[transfer.link].gigabytesPerSecond;
    occupiedMs.push_back(std::min(occupied, transfer.ms));
  }
  linkFreeAt.assign(problem.links.size(), 0.0);
  linkBusy.assign(problem.links.size(), 0.0);
  for (auto &agent : problem.agents) {
    programs.emplace_back();
    programs.back().root = compile(programs.back(), agent, agent.root, -1, 0);
    largest = std::max(largest, programs.back().nodes.size());
  }
  endToEnd.resize(problem.agents.size());
  firstOutputs.resize(problem.agents.size());
  tokens.resize(problem.agents.size());
}

void Simulator::dispatch(const Event &event) {
  switch (event.what) {
  case What::Arrival:
    return arrive(event.request);
  case What::Enter:
    return enter(event.request, event.node);
  case What::First:
    return firstOutput(event.request, event.node);
  case What::Done:
    return done(event.request, event.node);
  case What::Replica:
    if (replicas[event.request].version == event.node)
      nextIn(event.request);
    return;
  case What::Start:
    if (--pending(event.request, event.node) == 0)
      start(event.request, event.node);
    return;
  case What::FinishToken:
    return finishToken(event.request, event.node);
  case What::Failure:
    return fail(event.request);
  case What::Repair:
    return repair(event.request);
  }
}

llvm::Expected<SimulationReport> Simulator::run() {
  if (options.arrivals.empty()) {
    for (auto [agent, of] : llvm::enumerate(problem.agents))
      if (of.requestsPerSecond > 0)
        events.push(random.exponential() / of.requestsPerSecond * 1000, What::Arrival, int(agent), 0);
  } else {
    events.push(options.arrivals[0].first, What::Arrival, options.arrivals[0].second, 0);
  }
  target = options.arrivals.empty() ? options.requests : int64_t(options.arrivals.size());
  warmup = target / 10;
  SimulationReport report;
  // Device failures continue after the last request has ended, so they do not keep the loop running.
  while (!events.empty() && (arrived < target || active > 0) && endless.empty()) {
    Event event = events.pop();
    now = event.time;
    ++report.events;
    dispatch(event);
  }
  if (!endless.empty())
    return llvm::createStringError(endless);
  tellOf(report);
  return report;
}

static SimulationReport::Percentiles percentilesOf(std::vector<float> &values, double level) {
  SimulationReport::Percentiles result;
  if (values.empty())
    return result;
  double sum = 0;
  for (float value : values)
    sum += value;
  result.mean = sum / values.size();
  std::sort(values.begin(), values.end());
  auto at = [&](double level) {
    return values[std::min(values.size() - 1, size_t(std::ceil(level * values.size())) - 1)];
  };
  result.p50 = at(0.5), result.p90 = at(0.9), result.p95 = at(0.95), result.p99 = at(0.99);
  result.atLevel = level > 0 ? at(level) : result.mean;
  return result;
}

void Simulator::tellOf(SimulationReport &report) {
  double measured = lastArrival - measuredFrom;
  report.simulatedSeconds = now / 1000;
  report.arrivalSeconds = lastArrival / 1000;
  report.requestsPerSecond = measured > 0 ? (target - warmup - 1) / measured * 1000 : 0;
  report.deviceFailures = deviceFailures;
  report.interrupted = interrupted;
  if (!options.deviceFailures.empty()) {
    double perHour = 0;
    for (const Station &station : stations)
      if (const Choice &choice = *station.choice; choice.devicesPerReplica > 0) {
        DeviceFailures of = options.deviceFailures[choice.pool];
        perHour += double(station.replicas) / (of.hoursBetween / choice.devicesPerReplica + of.hoursToRepair);
      }
    report.expectedFailures = perHour * report.simulatedSeconds / 3600;
    if (report.hasTooFewFailures() && perHour > 0 && options.arrivals.empty())
      report.requestsForFailures = fewestFailures / perHour * 3600 * figures.requestsPerSecond;
  }
  for (auto [index, agent] : llvm::enumerate(problem.agents)) {
    SimulationReport::OfAgent of;
    double level = agent.level.percentile.value_or(0);
    of.requests = int64_t(endToEnd[index].size());
    of.endToEndMs = percentilesOf(endToEnd[index], level);
    of.firstOutputMs = percentilesOf(firstOutputs[index], level);
    of.tokenMs = percentilesOf(tokens[index], level);
    report.agents.push_back(of);
  }
  for (auto &station : stations) {
    SimulationReport::OfPiece of;
    of.executions = station.executions;
    if (station.executions) {
      of.meanWaitMs = station.waitSum / station.executions;
      of.meanServiceMs = station.serviceSum / station.executions;
    }
    if (!station.outside)
      of.utilization = station.busySum / (now * station.replicas * station.choice->slots);
    report.pieces.push_back(of);
  }
  for (double busy : linkBusy)
    report.linkUtilization.push_back(busy / now);
  if (now <= 0)
    return;
  report.dollarsPerHour = devicesPerHour() + dollars / now * millisecondsPerHour;
  report.dollarsPerRequest = report.dollarsPerHour * (now / millisecondsPerHour) / double(target);
}

/// Returns the cost of the plan without any request.
double Simulator::devicesPerHour() const {
  double perHour = evaluate(figures, placements).dollarsPerHour;
  for (auto [station, load] : llvm::zip(stations, figures.loads))
    perHour -= load.perSecond * load.meanScale * 3600 * station.choice->dollarsPerExecution;
  for (auto [transfer, perSecond] : llvm::zip(transfers, figures.transfersPerSecond))
    perHour -= perSecond * 3600 * transfer.dollars;
  return perHour;
}

} // namespace intarsia::plan
