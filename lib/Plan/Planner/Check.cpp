//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Simulates a plan, samples the cost model's errors, plans again on request, and reports the results.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

//===-- Errors of the cost model ------------------------------------------------------------------------------===//

ErrorModel errorModelOf(const std::vector<workflow::Graph> &graphs, const BuiltProblem &built, ServingEngine engine) {
  enum { Decode, FirstToken };
  ErrorModel model;
  for (const char *kind : {"decode", "first_token"}) {
    TimeErrors errors{kind};
    if (const ServingResiduals *residuals = ServingEfficiency::of(engine).residualsOf(kind)) {
      // The file has predicted over measured; this inverts it.
      for (double quantile : llvm::reverse(residuals->quantiles))
        errors.quantiles.push_back(-quantile);
      errors.spread = std::hypot(residuals->groupSpread, residuals->rowSpread);
    }
    model.kinds.push_back(std::move(errors));
  }
  model.pieces.resize(built.problem.pieces.size());
  std::map<std::string, int> subjects;
  for (auto [graph, pieces] : llvm::zip(graphs, built.pieceOfTask))
    for (auto [task, piece] : llvm::zip(graph.tasks, pieces)) {
      if (piece < 0 || built.meanings[piece].front().outside)
        continue;
      bool reads = task.kind == workflow::Kind::Decode || task.kind == workflow::Kind::Search;
      std::string subject = task.model >= 0   ? graph.models[task.model].name
                            : task.index >= 0 ? "index " + graph.indexes[task.index].name
                                              : "task " + task.name;
      model.pieces[piece].kind = reads ? Decode : FirstToken;
      model.pieces[piece].subject = subjects.try_emplace(subject, subjects.size()).first->second;
    }
  return model;
}

//===-- Checks ------------------------------------------------------------------------------------------------===//

Expected<std::optional<SimulationOptions>> simulationOf(const PlannerOptions &options, const PlacementProblem &problem,
                                                        size_t fleetPools) {
  if (options.simulatedRequests == 0)
    return std::nullopt;
  SimulationOptions simulation;
  simulation.requests = options.simulatedRequests;
  if (!options.arrivals.empty()) {
    auto buffer = MemoryBuffer::getFile(options.arrivals);
    if (!buffer)
      return createStringError("cannot read '" + options.arrivals + "': " + buffer.getError().message());
    std::vector<std::string> names;
    for (const Agent &agent : problem.agents)
      names.push_back(agent.name);
    auto arrivals = readArrivals((*buffer)->getBuffer(), options.arrivals, names);
    if (!arrivals)
      return arrivals.takeError();
    simulation.arrivals = std::move(*arrivals);
  }
  if (!options.deviceFailures.empty()) {
    auto [between, repair] = StringRef(options.deviceFailures).split(':');
    DeviceFailures failures;
    if (between.getAsDouble(failures.hoursBetween) || !(failures.hoursBetween > 0) ||
        (!repair.empty() && (repair.getAsDouble(failures.hoursToRepair) || !(failures.hoursToRepair > 0) ||
                             !std::isfinite(failures.hoursToRepair))))
      return createStringError(
          "--failures=" + options.deviceFailures +
          ": hours above zero are expected: --failures=5000, or --failures=5000:0.5 where a device "
          "is back after half an hour");
    simulation.deviceFailures.resize(problem.pools.size());
    std::fill_n(simulation.deviceFailures.begin(), fleetPools, failures);
  }
  return simulation;
}

/// Trials of every plan, and their limit: fewer than --confidence takes, so that plans come soon.
constexpr int trialsOfProbability = 200;
constexpr double secondsOfProbability = 2;

Error check(const PlannerOptions &options, const ErrorModel &errors, const std::optional<SimulationOptions> &simulation,
            const SolveOptions &solveOptions, PlacementProblem &problem, SolveResult &result, Checks &checks) {
  const PlacementProblem asked = problem;
  checks.tightens = options.tightens;
  checks.asksConfidence = options.confidence.has_value();
  bool surely = options.confidence.value_or(0) > 0;
  SolveOptions own = solveOptions;
  if (options.tightens && surely)
    own.timeLimitSeconds /= 2;
  if (options.tightens) {
    Expected<TightenedPlan> tightened = tighten(problem, result, *simulation, own);
    if (!tightened)
      return tightened.takeError();
    result = std::move(tightened->result);
    problem = std::move(tightened->problem);
    checks.simulationRounds = std::move(tightened->rounds);
    checks.simulation = std::move(tightened->simulation);
  }
  Placements simulatedPlan = result.placements;
  if (surely) {
    checks.required = *options.confidence;
    Expected<ConfidentPlan> confident =
        planWithConfidence(problem, result, errors, checks.required, own, {.trials = trialsFor(checks.required)});
    if (!confident)
      return confident.takeError();
    result = std::move(confident->result);
    problem = std::move(confident->problem);
    checks.confidence = std::move(confident->confidence);
    checks.sure = confident->holds, checks.settled = confident->settled;
    checks.confidenceRounds = std::move(confident->rounds);
    checks.limits = std::move(confident->limits);
  } else if (options.confidence || own.timeLimitSeconds > secondsOfProbability / 100) {
    ConfidenceOptions sampling{.timeLimitSeconds = own.timeLimitSeconds};
    if (!options.confidence) {
      sampling.trials = trialsOfProbability;
      sampling.timeLimitSeconds = std::min(own.timeLimitSeconds, secondsOfProbability);
    }
    Expected<Confidence> confidence = confidenceOf(problem, result.placements, errors, sampling);
    if (!confidence)
      return confidence.takeError();
    checks.confidence = std::move(*confidence);
  }
  if (!simulation)
    return Error::success();
  if (!checks.simulation || result.placements != simulatedPlan) {
    Expected<SimulationReport> simulated = simulate(asked, result.placements, *simulation);
    if (!simulated)
      return simulated.takeError();
    checks.simulation = std::move(*simulated);
  }
  checks.broken = brokenPromises(asked, *checks.simulation);
  return Error::success();
}

//===-- What came of them -------------------------------------------------------------------------------------===//

static std::string percent(double share) { return formatv("{0:P1}", share); }

static std::string twoDigits(double value) { return value < 100 ? digits(value, 2) : formatv("{0:f0}", value).str(); }

std::vector<std::string> brokenTexts(const PlacementProblem &problem, const Checks &checks) {
  std::vector<std::string> texts;
  for (const BrokenPromise &promise : checks.broken)
    texts.push_back(formatv("@{0} breaks its promise: {1} {2:f1} of {3:f1} ms{4}", problem.agents[promise.agent].name,
                            promise.what, promise.simulated, promise.bound,
                            checks.tightens ? "" : "; --tighten plans until it holds"));
  return texts;
}

std::vector<std::string> failureTexts(const SimulationReport &report) {
  if (!report.expectedFailures)
    return {};
  std::vector<std::string> texts{formatv("{0} failures of replicas in {1:f0} s, {2} expected; {3} executions started "
                                         "again",
                                         report.deviceFailures, report.simulatedSeconds,
                                         twoDigits(*report.expectedFailures), report.interrupted)};
  if (!report.hasTooFewFailures())
    return texts;
  // Rounds up to a little more than needed, in two digits.
  double wanted = report.requestsForFailures * 1.05, unit = std::pow(10, std::floor(std::log10(wanted)) - 1);
  wanted = std::ceil(wanted / unit) * unit;
  std::string text = "the simulated time is too short to tell what failures do";
  if (report.requestsForFailures > 0 && wanted <= mostSimulatedRequests)
    text += formatv(": --simulate={0:f0} would be long enough", wanted);
  else if (report.requestsForFailures > 0)
    text += formatv(", as it would be with {0} requests, the most: let devices fail more often", mostSimulatedRequests);
  else if (*report.expectedFailures > 0)
    text += formatv(": recorded arrivals over {0:f0} s would be long enough",
                    std::ceil(report.simulatedSeconds * fewestFailures / *report.expectedFailures));
  else
    text = "no replica of this plan is on devices that fail";
  texts.push_back(std::move(text));
  return texts;
}

std::string brokenShares(const Confidence::OfAgent &of) {
  std::vector<std::string> broken;
  for (auto [what, share] : {std::pair("end to end", of.endToEnd),
                             {"first token", of.firstOutput},
                             {"next token", of.token},
                             {"more requests than it sustains", of.saturated}})
    if (share > 0)
      broken.push_back(std::string(what) + " " + percent(share));
  return llvm::join(broken, ", ");
}

std::string togetherText(const Checks &checks) {
  const Confidence &confidence = *checks.confidence;
  std::string text = "all together hold with " + textOf(confidence.holds, checks.required);
  if (checks.required > 0 && checks.sure)
    text += ", at least the " + digits(checks.required) + " that was asked for";
  else if (checks.required > 0)
    text += ", " + digits(checks.required - confidence.holds.probability) + " short of the " + digits(checks.required) +
            " that was asked for";
  return text;
}

std::string textOfProbability(const PlanReport &report) {
  const Confidence &confidence = *report.checks.confidence;
  Confidence::OfAgent most;
  for (const Confidence::OfAgent &of : confidence.agents)
    for (double Confidence::OfAgent::*share : {&Confidence::OfAgent::endToEnd, &Confidence::OfAgent::firstOutput,
                                               &Confidence::OfAgent::token, &Confidence::OfAgent::saturated})
      most.*share = std::max(most.*share, of.*share);
  std::string text = "all promises hold with " + textOf(confidence.holds, report.checks.required) +
                     " if times err as they did on systems that the cost model had not seen";
  if (std::string broken = brokenShares(most); !broken.empty())
    text += "; broken: " + broken;
  return text;
}

std::string textOfHeadroom(const PlanReport &report) {
  const Headroom &headroom = report.headroom;
  if (!headroom.any)
    return "";
  std::string slower = formatv("times that one in {0:f0} exceeds ({1})", 1 / (1 - usualLevel), headroom.factors);
  if (headroom.left)
    return "headroom: none, as no plan sustains the load at " + slower;
  std::string text = "headroom: replicas sustain the load at " + slower;
  if (headroom.share)
    text = formatv("headroom: replicas are busy for {0:P0} of what they sustain at most", 1 - *headroom.share);
  if (!headroom.without)
    return text;
  double more = objectiveWithoutMoves(report) - *headroom.without;
  if (more <= 1e-9 * std::abs(*headroom.without))
    return text + (headroom.settled ? ", which costs nothing" : "; what that costs was not settled in time");
  text +=
      formatv(", for {0}{1:e3} more {2}", headroom.settled ? "" : "at least ", more, nameOf(report.problem->objective));
  if (*headroom.without > 0)
    text += formatv(" ({0:P1})", more / *headroom.without);
  return text;
}

/// Returns the time of the last answer, if answers come much later than requests.
static std::string lastAnswer(const SimulationReport &report) {
  return report.simulatedSeconds > 1.1 * report.arrivalSeconds
             ? formatv("the last answer after {0:f0} s, ", report.simulatedSeconds).str()
             : "";
}

static void printSimulation(raw_ostream &out, const PlacementProblem &problem, const Checks &checks) {
  const SimulationReport &report = *checks.simulation;
  if (!checks.simulationRounds.empty()) {
    out << "\nplanned and simulated:\n";
    for (const std::string &round : checks.simulationRounds)
      out << "  " << round << '\n';
  }
  if (report.requestsPerSecond > 0)
    out << formatv("\nsimulated for {0:f0} s of arrivals, {1:f2} requests/s, {2}${3:e2} a request:\n",
                   report.arrivalSeconds, report.requestsPerSecond, lastAnswer(report), report.dollarsPerRequest);
  else
    out << "\nsimulated, with too few requests for a rate and what one costs:\n";
  for (auto [agent, of] : llvm::zip(problem.agents, report.agents)) {
    auto three = [&](const char *what, const SimulationReport::Percentiles &values, int digits) {
      auto number = [&](double value) {
        return digits ? formatv("{0:f1}", value).str() : formatv("{0:f0}", value).str();
      };
      out << what << "p50 " << number(values.p50) << ", p95 " << number(values.p95) << ", p99 " << number(values.p99);
    };
    out << formatv("  @{0}: {1} requests, ", agent.name, of.requests);
    three("", of.endToEndMs, 0);
    three("; first token ", of.firstOutputMs, 0);
    if (of.tokenMs.mean > 0)
      three("; next ", of.tokenMs, 1);
    out << " ms\n";
  }
  std::vector<std::string> taken, busy;
  for (auto [piece, of] : llvm::zip(problem.pieces, report.pieces))
    if (of.utilization > 0)
      taken.push_back(piece.name + " " + percent(of.utilization));
  for (auto [link, share] : llvm::zip(problem.links, report.linkUtilization))
    if (share > 0 && link.name != "outside")
      busy.push_back(link.name + " " + percent(share));
  if (!taken.empty())
    out << "  slots taken: " << llvm::join(taken, ", ") << '\n';
  if (!busy.empty())
    out << "  links busy: " << llvm::join(busy, ", ") << '\n';
  for (const std::string &text : failureTexts(report))
    out << "  " << text << '\n';
  for (const std::string &text : brokenTexts(problem, checks))
    out << "  " << text << '\n';
}

static void printConfidence(raw_ostream &out, const PlacementProblem &problem, const Checks &checks) {
  const Confidence &confidence = *checks.confidence;
  out << formatv("\nif times are as wrong as the cost model was where it had not seen the system ({0} trials):\n",
                 confidence.trials);
  for (const std::string &round : checks.confidenceRounds)
    out << "  " << round << '\n';
  for (auto [agent, of] : llvm::zip(problem.agents, confidence.agents)) {
    out << "  @" << agent.name << " holds with " << textOf(of.holds, checks.required);
    if (std::string broken = brokenShares(of); !broken.empty())
      out << "; broken: " << broken;
    out << '\n';
  }
  out << "  " << togetherText(checks) << '\n';
  if (!checks.limits.empty()) {
    out << "  no plan stands slower times. There these conflict:\n";
    for (const Conflict &conflict : checks.limits)
      out << "    " << conflict.text << '\n';
  }
}

void printChecks(raw_ostream &out, const PlacementProblem &problem, const Checks &checks) {
  if (checks.simulation)
    printSimulation(out, problem, checks);
  if (checks.confidence && checks.asksConfidence)
    printConfidence(out, problem, checks);
}

//===-- JSON --------------------------------------------------------------------------------------------------===//

json::Object simulatedAgent(const SimulationReport::OfAgent &of) {
  return json::Object{{"requests", of.requests},
                      {"mean_ms", of.endToEndMs.mean},
                      {"level_ms", of.endToEndMs.atLevel},
                      {"p50_ms", of.endToEndMs.p50},
                      {"p95_ms", of.endToEndMs.p95},
                      {"p99_ms", of.endToEndMs.p99},
                      {"first_token_p50_ms", of.firstOutputMs.p50},
                      {"first_token_p95_ms", of.firstOutputMs.p95},
                      {"first_token_p99_ms", of.firstOutputMs.p99},
                      {"next_token_p50_ms", of.tokenMs.p50},
                      {"next_token_p95_ms", of.tokenMs.p95},
                      {"next_token_p99_ms", of.tokenMs.p99}};
}

void addChecks(json::Object &root, const PlacementProblem &problem, const Checks &checks) {
  if (checks.simulation) {
    const SimulationReport &report = *checks.simulation;
    json::Array links;
    for (auto [link, share] : llvm::zip(problem.links, report.linkUtilization))
      if (link.name != "outside")
        links.push_back(json::Object{{"name", asJson(link.name)}, {"utilization", share}});
    // With too few requests the rate is unknown.
    auto known = [&](double value) { return asJson(report.requestsPerSecond > 0 ? value : unlimited); };
    root["simulation"] =
        json::Object{{"seconds", report.simulatedSeconds},
                     {"arrival_seconds", report.arrivalSeconds},
                     {"requests_per_second", known(report.requestsPerSecond)},
                     {"dollars_per_hour", report.dollarsPerHour},
                     {"dollars_per_request", known(report.dollarsPerRequest)},
                     {"failures", report.deviceFailures},
                     {"interrupted", report.interrupted},
                     {"expected_failures", asJson(report.expectedFailures)},
                     {"requests_for_failures",
                      asJson(report.requestsForFailures > 0 ? std::ceil(report.requestsForFailures) : unlimited)},
                     {"failure_texts", asJson(failureTexts(report))},
                     {"pieces", arrayOf(llvm::zip(problem.pieces, report.pieces),
                                        [](auto entry) {
                                          auto &[piece, of] = entry;
                                          return json::Object{{"name", asJson(piece.name)},
                                                              {"executions", of.executions},
                                                              {"milliseconds", of.meanServiceMs},
                                                              {"wait_ms", of.meanWaitMs},
                                                              {"utilization", of.utilization}};
                                        })},
                     {"links", std::move(links)},
                     {"broken", arrayOf(llvm::zip(checks.broken, brokenTexts(problem, checks)),
                                        [&](auto entry) {
                                          auto &[promise, text] = entry;
                                          return json::Object{{"agent", asJson(problem.agents[promise.agent].name)},
                                                              {"what", promise.what},
                                                              {"bound_ms", promise.bound},
                                                              {"simulated_ms", promise.simulated},
                                                              {"text", asJson(text)}};
                                        })},
                     {"rounds", asJson(checks.simulationRounds)}};
  }
  if (checks.confidence) {
    const Confidence &confidence = *checks.confidence;
    auto agentOf = [&](auto entry) {
      auto &[agent, of] = entry;
      return json::Object{{"name", asJson(agent.name)},
                          {"probability", of.holds.probability},
                          {"standard_error", of.holds.standardError},
                          {"text", textOf(of.holds, checks.required)},
                          {"broken_text", brokenShares(of)},
                          {"broken", json::Object{{"end_to_end", of.endToEnd},
                                                  {"first_token", of.firstOutput},
                                                  {"next_token", of.token},
                                                  {"saturated", of.saturated}}}};
    };
    root["confidence"] =
        json::Object{{"probability", confidence.holds.probability},
                     {"standard_error", confidence.holds.standardError},
                     {"required", checks.required},
                     {"holds", checks.sure},
                     {"settled", checks.settled},
                     {"trials", confidence.trials},
                     {"text", asJson(togetherText(checks))},
                     {"agents", arrayOf(llvm::zip(problem.agents, confidence.agents), agentOf)},
                     {"rounds", asJson(checks.confidenceRounds)},
                     {"limits", arrayOf(checks.limits, [](auto &conflict) { return asJson(conflict.text); })}};
  }
}

} // namespace intarsia::plan
