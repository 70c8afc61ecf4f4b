//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Simulator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

static std::string digits(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.4g", value);
  return text;
}

/// Limit of failures: more take minutes, and no percentile gets more certain.
constexpr double mostFailures = 1e8;
/// Limit of executions: more take longer than minutes. Each copy of a map's body is an execution.
constexpr double mostExecutions = 1e9;

/// Refuses devices that fail so often, or are away so long, that the queues before them would be unstable.
static Error checkFailures(const Figures &figures, const Placements &placements, const SimulationOptions &options) {
  if (options.deviceFailures.empty())
    return Error::success();
  double seconds = options.arrivals.empty() ? double(options.requests) / figures.requestsPerSecond
                                            : options.arrivals.back().first / 1000;
  double expected = 0;
  for (auto [index, piece] : enumerate(figures.problem.pieces)) {
    auto [choiceIndex, replicas] = placements[index];
    const Choice &choice = piece.candidates[choiceIndex];
    const Load &load = figures.loads[index];
    if (choice.devicesPerReplica == 0)
      continue;
    // A replica fails when one of its devices does. An execution alone is at its fastest: others only slow it down.
    double between = options.deviceFailures[choice.pool].hoursBetween / choice.devicesPerReplica * 3600;
    double repair = options.deviceFailures[choice.pool].hoursToRepair * 3600;
    if (!std::isfinite(between))
      continue;
    double service = choice.millisecondsAlone.value_or(choice.milliseconds) * load.meanScale / 1000;
    std::string where =
        formatv("piece '{0}' on pool '{1}': a replica of {2} devices fails every {3} s on average", piece.name,
                figures.problem.pools[choice.pool].name, choice.devicesPerReplica, digits(between));
    if (service >= between)
      return createStringError(where + formatv(", an execution takes {0} s or more and starts again each time: hardly "
                                               "any would end; let devices fail less often",
                                               digits(service))
                                           .str());
    expected += double(replicas) * seconds / (between + repair);
    // With lost work and repairs, an execution of length s takes (e^(f s) - 1) (1 / f + R) (Gaver 1962).
    double longer = service > 0 ? std::expm1(service / between) * (between + repair) / service : 1 + repair / between;
    double sustained = double(replicas) * sustainedPerSecond(choice) / longer;
    double asked = load.perSecond * load.meanScale;
    if (options.arrivals.empty() && asked > sustained)
      return createStringError(where + formatv(" and is back after {0} s, so that work takes {1} times as long: {2} "
                                               "replicas then sustain {3} executions/s, {4} are asked for; let devices "
                                               "fail less often or be back sooner",
                                               digits(repair), digits(longer), replicas, digits(sustained),
                                               digits(asked))
                                           .str());
  }
  if (expected > mostFailures)
    return createStringError(formatv("replicas would fail about {0} times in {1} s of arrivals, and a simulation is of "
                                     "{2} failures at most; simulate fewer requests, or let devices fail less often",
                                     digits(expected), digits(seconds), digits(mostFailures)));
  return Error::success();
}

/// Returns the mean number of executions that a request causes, over all agents.
static double executionsPerRequest(const PlacementProblem &problem) {
  double executions = 0, requests = 0;
  for (const Agent &agent : problem.agents) {
    requests += agent.requestsPerSecond;
    for (const Work::OfPiece &of : expectedWork(problem, agent).pieces)
      executions += agent.requestsPerSecond * of.executions;
  }
  return requests > 0 ? executions / requests : 0;
}

Expected<SimulationReport> simulate(const PlacementProblem &problem, const Placements &placements,
                                    const SimulationOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  if (placements.size() != problem.pieces.size())
    return createStringError(
        formatv("the plan places {0} pieces, the problem has {1}", placements.size(), problem.pieces.size()));
  Figures figures(problem);
  for (auto [index, piece] : enumerate(problem.pieces)) {
    auto [choice, replicas] = placements[index];
    if (choice < 0 || choice >= int(piece.candidates.size()))
      return createStringError(formatv("the plan places '{0}' by choice {1}, the number of its candidates is {2}",
                                       piece.name, choice, piece.candidates.size()));
    if (options.arrivals.empty() && replicas < smallestReplicas(piece.candidates[choice], figures.loads[index]))
      return createStringError(formatv("piece '{0}': {1} replicas do not sustain its load; {2} do", piece.name,
                                       replicas, smallestReplicas(piece.candidates[choice], figures.loads[index])));
  }
  for (auto [index, edge] : enumerate(problem.edges))
    if (figures.transfer(int(index), placements[edge.from].choice, placements[edge.to].choice).forbidden)
      return createStringError(formatv("edge '{0}': no way between the placements of its ends", edge.name));
  if (options.arrivals.empty() && figures.requestsPerSecond <= 0)
    return createStringError("no agent has requests per second: give rates or recorded arrivals");
  if (options.requests < 1)
    return createStringError("a simulation of no request");
  double before = 0;
  for (auto [time, agent] : options.arrivals) {
    if (!(time >= before) || !std::isfinite(time))
      return createStringError(formatv("recorded arrivals are not in order: {0} ms after {1} ms", time, before));
    if (agent < 0 || agent >= int(problem.agents.size()))
      return createStringError(
          formatv("a recorded arrival is of agent {0}, there are {1}", agent, problem.agents.size()));
    before = time;
  }
  if (!options.deviceFailures.empty() && options.deviceFailures.size() != problem.pools.size())
    return createStringError(formatv("failures of devices are given for {0} pools, there are {1}",
                                     options.deviceFailures.size(), problem.pools.size()));
  for (auto [pool, failures] : llvm::zip(problem.pools, options.deviceFailures))
    if (!(failures.hoursBetween > 0) || !(failures.hoursToRepair > 0) || !std::isfinite(failures.hoursToRepair))
      return createStringError(
          formatv("devices of pool '{0}' fail every {1} hours and are back after {2}: both must be "
                  "above zero, and the second an end",
                  pool.name, failures.hoursBetween, failures.hoursToRepair));
  if (Error error = checkFailures(figures, placements, options))
    return std::move(error);
  double executions = executionsPerRequest(problem), all = executions * double(options.requests);
  if (options.arrivals.empty() && all > mostExecutions)
    return createStringError(formatv("{0} requests have about {1} executions, {2} each, and a simulation is of {3} at "
                                     "most; simulate fewer requests",
                                     options.requests, digits(all), digits(executions), digits(mostExecutions)));
  return Simulator(problem, placements, options).run();
}

} // namespace intarsia::plan
