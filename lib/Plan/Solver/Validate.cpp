//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Checks of a placement problem before anything is computed with it: what the other functions index, divide by and
// add up. Units and plausible ranges are those of the dialects and of the catalogue, which name what a user wrote.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Placement.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia::plan {

StringRef nameOf(Objective objective) {
  switch (objective) {
  case Objective::DollarsPerRequest:
    return "dollars per request";
  case Objective::DollarsPerHour:
    return "dollars per hour";
  case Objective::Latency:
    return "latency";
  case Objective::JoulesPerRequest:
    return "joules per request";
  case Objective::GramsPerRequest:
    return "grams of CO2 per request";
  }
  return "";
}

Region Region::execution(int piece, double timeScale, std::vector<int> entryEdges) {
  Region region;
  region.piece = piece, region.timeScale = timeScale, region.entryEdges = std::move(entryEdges);
  return region;
}
Region Region::dag(std::vector<int> children, std::vector<Arc> arcs) {
  Region region;
  region.kind = Kind::Dag, region.children = std::move(children), region.arcs = std::move(arcs);
  return region;
}
Region Region::branch(std::vector<int> children, std::vector<double> probabilities) {
  Region region;
  region.kind = Kind::Branch, region.children = std::move(children), region.probabilities = std::move(probabilities);
  return region;
}
Region Region::loop(int child, std::vector<std::pair<int, double>> counts, std::vector<int> backEdges) {
  Region region;
  region.kind = Kind::Loop, region.children = {child}, region.counts = std::move(counts);
  region.backEdges = std::move(backEdges);
  return region;
}
Region Region::map(int child, std::vector<std::pair<int, double>> counts) {
  Region region;
  region.kind = Kind::Map, region.children = {child}, region.counts = std::move(counts);
  return region;
}

namespace {
/// Counts of turns or copies beyond this are taken for a loop without a bound.
constexpr int largestCount = 100000;
/// Largest distance of a sum of probabilities to 1.
constexpr double roomOfSums = 1e-6;

class Validator {
public:
  explicit Validator(const PlacementProblem &problem) : p(problem) {}

  Error run() {
    require(!p.pools.empty(), "the fleet", "is empty: list at least one pool");
    require(!p.agents.empty(), "there", "is no agent to place");
    for (const Pool &pool : p.pools)
      check(pool);
    for (const Link &link : p.links)
      check(link);
    for (const Piece &piece : p.pieces)
      check(piece);
    for (const Edge &edge : p.edges)
      check(edge);
    for (const Agent &agent : p.agents)
      check(agent);
    for (auto [what, groups] : {std::pair("together", &p.together), {"apart", &p.apart}})
      for (auto &group : *groups)
        index(what, "piece", group, p.pieces.size());
    for (double cap : {p.dollarsPerHourCap, p.wattsCap, p.gramsPerHourCap})
      require(cap >= 0, "a cap", "is below zero or no number");
    figure("the cost of a move", "", p.moveCost);
    require(p.latencyAgent < int(p.agents.size()), "the objective", "names no agent");
    require(p.previous.empty() || p.previous.size() == p.pieces.size(), "the previous plan", "is of other pieces");
    for (auto [placed, piece] : zip(p.previous, p.pieces))
      require(placed.choice < int(piece.candidates.size()), "the previous plan",
              "places '" + piece.name + "' by a choice that it does not have");
    return message.empty() ? Error::success() : createStringError(message);
  }

private:
  const PlacementProblem &p;
  std::string message; ///< the first error found

  bool require(bool holds, const Twine &owner, const Twine &what) {
    if (!holds && message.empty())
      message = (owner + " " + what).str();
    return holds;
  }
  void figure(const Twine &owner, StringRef what, double value, double most = std::numeric_limits<double>::max()) {
    if (!(value >= 0 && value <= most))
      require(false, owner,
              formatv("{0} {1}, it must be from 0 to {2}", what, format("%g", value), format("%g", most)).str());
  }
  void index(const Twine &owner, StringRef what, ArrayRef<int> values, size_t size) {
    for (int value : values)
      if (value < 0 || value >= int(size))
        require(false, owner, formatv("{0} {1} does not exist (there are {2})", what, value, size).str());
  }
  void sumsToOne(const Twine &owner, double sum) {
    require(std::abs(sum - 1) <= roomOfSums, owner, formatv("probabilities sum to {0}, not to 1", sum).str());
  }

  void check(const Pool &pool) {
    std::string owner = "pool '" + pool.name + "':";
    require(pool.devices >= 0 && pool.devicesPerNode >= 1, owner, "has no devices, or none in a node");
    figure(owner, "dollars per device-hour", pool.dollarsPerDeviceHour);
    figure(owner, "idle watts, of the busy ones", pool.idleWatts, pool.busyWatts);
    figure(owner, "grams of CO2 per kWh", pool.gramsPerKilowattHour);
  }

  std::set<std::pair<int, int>> linked;
  void check(const Link &link) {
    std::string owner = "link '" + link.name + "':";
    require(link.gigabytesPerSecond > 0, owner, "has no bandwidth");
    for (double value : {link.gigabytesPerSecond, link.microseconds, link.dollarsPerGigabyte, link.joulesPerGigabyte})
      figure(owner, "figure", value);
    for (auto pair : link.pairs) {
      index(owner, "pool", {pair.first, pair.second}, p.pools.size());
      require(linked.insert(pair).second, owner, "leads where another one does");
    }
  }

  void check(const std::string &owner, const Shape &shape) {
    if (shape.kind == Shape::Kind::Lognormal)
      require(shape.p95OverMean >= 1 && shape.p95OverMean <= 3.86, owner,
              "95th percentile over mean: between 1 and 3.86 is possible for a lognormal");
    if (shape.kind != Shape::Kind::Atoms)
      return;
    double sum = 0, mean = 0;
    for (auto [value, probability] : shape.atoms) {
      figure(owner, "value of the distribution", value);
      figure(owner, "probability", probability, 1);
      sum += probability, mean += value * probability;
    }
    sumsToOne(owner, sum);
    require(mean > 0, owner, "the distribution has mean zero");
  }

  void check(const Piece &piece) {
    std::string owner = "piece '" + piece.name + "'" + (piece.location.empty() ? ":" : " (" + piece.location + "):");
    require(!piece.candidates.empty(), owner, "has no candidates");
    check(owner, piece.shape);
    require(piece.extraReplicas >= 0 && piece.pinnedReplicas.value_or(1) >= 1, owner, "replicas are none");
    index(owner, "pinned pool", piece.pinnedPool.value_or(0), p.pools.size());
    require(piece.headroom >= 0 && piece.headroom < 1, owner, "the headroom is no share from 0 to below 1");
    for (const Choice &choice : piece.candidates)
      check(owner + " choice '" + choice.label + "':", choice);
  }

  void check(const std::string &owner, const Choice &choice) {
    index(owner, "pool", choice.pool, p.pools.size());
    require(choice.devicesPerReplica >= 0 && choice.slots >= 1, owner, "has no slots, or devices below zero");
    double parts = 1 / choice.deviceShare;
    require(choice.deviceShare == 1 || (choice.devicesPerReplica == 1 && is_contained({2.0, 4.0, 8.0}, parts)), owner,
            "a share is 1, or 1/2, 1/4 or 1/8 of one device");
    figure(owner, "milliseconds", choice.milliseconds);
    figure(owner, "milliseconds alone", choice.millisecondsAlone.value_or(0), choice.milliseconds);
    figure(owner, "milliseconds to the first output", choice.firstOutputMs.value_or(0),
           choice.milliseconds * (1 + 1e-9));
    if (choice.executionsPerSecond) {
      double most = choice.milliseconds > 0 ? choice.slots * 1000 / choice.milliseconds : unlimited;
      require(*choice.executionsPerSecond > 0 && *choice.executionsPerSecond <= most * (1 + 1e-6), owner,
              "executions a second are none, or need more than its slots");
    }
    for (double value :
         {choice.turnMs, choice.turnWaitMs, choice.dollarsPerExecution, choice.joulesPerExecution, choice.tokenMs})
      figure(owner, "figure", value);
    figure(owner, "probability of a turn", choice.turnProbability, 1);
  }

  void check(const Edge &edge) {
    std::string owner = "edge '" + edge.name + "':";
    index(owner, "piece", {edge.from, edge.to}, p.pieces.size());
    figure(owner, "bytes", edge.bytes);
    if (!message.empty() || (edge.fromKinds.empty() && edge.toKinds.empty()))
      return;
    require(edge.fromKinds.size() == p.pieces[edge.from].candidates.size() &&
                edge.toKinds.size() == p.pieces[edge.to].candidates.size(),
            owner, "has kinds of another number of choices");
  }

  void check(const Agent &agent) {
    std::string owner = "agent '" + agent.name + "':";
    figure(owner, "requests per second", agent.requestsPerSecond);
    for (double bound : {agent.level.endToEndMs, agent.level.firstOutputMs, agent.level.tokenMs})
      require(bound >= 0, owner, "a bound is below zero or no number");
    double percentile = agent.level.percentile.value_or(0.5);
    require(percentile > 0 && percentile < 1, owner, "the percentile is not between 0 and 1");
    // Each region is reached from the root exactly once.
    index(owner, "region", agent.root, agent.regions.size());
    std::vector<int> reached{agent.root};
    for (size_t at = 0; message.empty() && at < reached.size() && reached.size() <= agent.regions.size(); ++at) {
      const Region &region = agent.regions[reached[at]];
      index(owner, "region", region.children, agent.regions.size());
      append_range(reached, region.children);
      check(formatv("{0} region {1}:", owner, reached[at]), region);
    }
    std::set<int> once(reached.begin(), reached.end());
    require(once.size() == reached.size() && reached.size() == agent.regions.size(), owner,
            "a region is part of none, of several, or of itself");
  }

  void check(const std::string &owner, const Region &region) {
    size_t children = region.children.size();
    index(owner, "edge", region.entryEdges, p.edges.size());
    index(owner, "edge", region.backEdges, p.edges.size());
    figure(owner, "scale", region.timeScale);
    figure(owner, "scale in later turns", region.laterTurnScale);
    double sum = 0;
    switch (region.kind) {
    case Region::Kind::Piece:
      index(owner, "piece", region.piece, p.pieces.size());
      require(children == 0, owner, "an execution has children");
      return;
    case Region::Kind::Dag:
      require(children > 0, owner, "a dag has no children");
      for (const Region::Arc &arc : region.arcs) {
        require(arc.from >= 0 && arc.to > arc.from && arc.to < int(children), owner,
                "an arc leads back; cycles belong into a loop");
        index(owner, "edge", arc.edges, p.edges.size());
      }
      return;
    case Region::Kind::Branch:
      require(children > 0 && children == region.probabilities.size(), owner, "a branch has no probability for a case");
      for (double probability : region.probabilities)
        figure(owner, "probability", probability, 1), sum += probability;
      return sumsToOne(owner, sum);
    case Region::Kind::Loop:
    case Region::Kind::Map:
      require(children == 1 && !region.counts.empty(), owner, "a loop or map without one child or a bound");
      for (auto [count, probability] : region.counts) {
        figure(owner, "number of runs", count, largestCount);
        figure(owner, "probability", probability, 1), sum += probability;
      }
      return sumsToOne(owner, sum);
    }
  }
};
} // namespace

Error PlacementProblem::validate() const { return Validator(*this).run(); }

} // namespace intarsia::plan
