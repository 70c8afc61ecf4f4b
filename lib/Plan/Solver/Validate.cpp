//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Checks of a placement problem before anything is computed with it.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Placement.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>
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

class Validator {
public:
  explicit Validator(const PlacementProblem &problem) : problem(problem) {}

  Error run() {
    pools();
    links();
    pieces();
    edges();
    agents();
    groups("together", problem.together);
    groups("apart", problem.apart);
    bound("the budget in dollars per hour", problem.dollarsPerHourCap);
    bound("the power cap in watts", problem.wattsCap);
    bound("the carbon cap in grams per hour", problem.gramsPerHourCap);
    figure("the cost of a move", "", problem.moveCost, 0, unlimited, "");
    previous();
    if (problem.latencyAgent != -1)
      index("the objective", "agent", problem.latencyAgent, problem.agents.size());
    if (message.empty())
      return Error::success();
    return createStringError(message);
  }

private:
  const PlacementProblem &problem;
  std::string message; ///< the first error found

  void fail(const Twine &text) {
    if (message.empty())
      message = text.str();
  }

  /// Returns a number without superfluous digits: 3, 0.25, 1e+09.
  static std::string plain(double value) {
    std::string text;
    raw_string_ostream(text) << format(std::abs(value) < 1e15 && value == std::round(value) ? "%.0f" : "%.6g", value);
    return text;
  }

  /// Checks a figure's range; `hint` names the usual reason for a figure above `most`.
  bool figure(const Twine &owner, StringRef what, double value, double least, double most, StringRef hint) {
    if (std::isfinite(value) && value >= least && value <= most)
      return true;
    std::string name = what.empty() ? owner.str() : (owner + ": " + what).str();
    if (std::isnan(value))
      fail(name + " is not a number");
    else if (value < 0)
      fail(formatv("{0} is {1}, it cannot be negative", name, plain(value)));
    else if (value < least)
      fail(formatv("{0} is {1}, it must be at least {2}", name, plain(value), plain(least)));
    else if (!std::isfinite(value))
      fail(name + " is infinite");
    else
      fail(formatv("{0} is {1}, more than any real one has ({2}){3}{4}", name, plain(value), plain(most),
                   hint.empty() ? "" : ": ", hint));
    return false;
  }

  void above(const Twine &owner, StringRef what, double value, double most, StringRef hint) {
    if (figure(owner, what, value, 0, most, hint) && value <= 0)
      fail(owner + ": " + what + " must be above zero");
  }

  void bound(const Twine &what, double value) {
    if (std::isnan(value))
      fail(what + " is not a number");
    else if (value < 0)
      fail(formatv("{0} is {1}, it cannot be negative", what.str(), plain(value)));
  }

  bool index(const Twine &owner, StringRef what, int64_t value, size_t size) {
    if (value >= 0 && value < int64_t(size))
      return true;
    fail(formatv("{0}: {1} {2} does not exist (there are {3})", owner.str(), what, value, size));
    return false;
  }

  void pools() {
    if (problem.pools.empty())
      return fail("the fleet is empty: list at least one pool");
    std::set<std::string> names;
    for (auto &pool : problem.pools) {
      std::string owner = "pool '" + pool.name + "'";
      if (!names.insert(pool.name).second)
        fail(owner + " is listed twice");
      if (pool.devices < 0)
        fail(formatv("{0}: {1} devices, it cannot be negative", owner, pool.devices));
      if (pool.devicesPerNode < 1)
        fail(formatv("{0}: {1} devices in a node, at least 1 is needed", owner, pool.devicesPerNode));
      figure(owner, "devices", double(pool.devices), 0, 1e7, "");
      figure(owner, "devices in a node", double(pool.devicesPerNode), 0, 1e5, "");
      figure(owner, "dollars per device-hour", pool.dollarsPerDeviceHour, 0, 1e4,
             "is it of the whole fleet, or of a year?");
      figure(owner, "idle watts", pool.idleWatts, 0, 1e5, "is it in milliwatts?");
      figure(owner, "busy watts", pool.busyWatts, 0, 1e5, "is it in milliwatts?");
      figure(owner, "grams of CO2 per kWh", pool.gramsPerKilowattHour, 0, 1e4, "is it per MWh?");
      if (pool.busyWatts < pool.idleWatts)
        fail(formatv("{0}: draws {1} W busy, less than {2} W idle", owner, pool.busyWatts, pool.idleWatts));
    }
    if (llvm::all_of(problem.pools, [](const Pool &pool) { return pool.devices == 0; }) &&
        llvm::any_of(problem.pieces, [](const Piece &piece) {
          return llvm::all_of(piece.candidates, [](const Choice &choice) { return choice.devicesPerReplica > 0; });
        }))
      fail("the fleet is empty: no pool has a device");
  }

  void links() {
    std::map<std::pair<int, int>, std::string> owners;
    for (auto &link : problem.links) {
      std::string owner = "link '" + link.name + "'";
      above(owner, "GB/s", link.gigabytesPerSecond, 1e6, "is it in MB/s?");
      figure(owner, "latency in microseconds", link.microseconds, 0, 1e7, "is it in nanoseconds?");
      figure(owner, "dollars per GB", link.dollarsPerGigabyte, 0, 1e3, "is it per TB?");
      figure(owner, "joules per GB", link.joulesPerGigabyte, 0, 1e6, "");
      for (auto pair : link.pairs) {
        if (!index(owner, "pool", pair.first, problem.pools.size()) ||
            !index(owner, "pool", pair.second, problem.pools.size()))
          continue;
        auto [known, inserted] = owners.insert({pair, link.name});
        if (!inserted)
          fail(formatv("{0} and link '{1}' both lead from '{2}' to '{3}': keep one", owner, known->second,
                       problem.pools[pair.first].name, problem.pools[pair.second].name));
      }
    }
  }

  void shape(const std::string &owner, const Shape &shape) {
    if (shape.kind == Shape::Kind::Lognormal && !(shape.p95OverMean >= 1 && shape.p95OverMean <= 3.86))
      fail(formatv("{0}: its 95th percentile is {1} times its mean; between 1 and 3.86 is possible for a lognormal",
                   owner, shape.p95OverMean));
    if (shape.kind != Shape::Kind::Atoms)
      return;
    double sum = 0, mean = 0;
    for (auto [value, probability] : shape.atoms) {
      figure(owner, "a value of its distribution", value, 0, 1e9, "");
      if (!(probability > 0 && probability <= 1))
        fail(formatv("{0}: a probability of its distribution is {1}", owner, probability));
      sum += probability, mean += value * probability;
    }
    if (!(std::abs(sum - 1) <= 1e-6))
      fail(formatv("{0}: the probabilities of its distribution sum to {1}, not to 1", owner, sum));
    else if (!(mean > 0))
      fail(owner + ": its distribution has mean zero");
  }

  void share(const Twine &owner, const Choice &choice) {
    if (choice.deviceShare == 1)
      return;
    bool known = false;
    for (int parts = 2; parts <= mostSharesOfDevice; parts *= 2)
      known |= choice.deviceShare * parts == 1;
    if (!known)
      fail(formatv("{0}: takes {1} of a device; a share is 1, 1/2, 1/4 or 1/8, so that shares leave no gap",
                   owner.str(), choice.deviceShare));
    if (choice.devicesPerReplica != 1)
      fail(formatv("{0}: takes {1} of each of {2} devices; what shares is on one device, give it whole devices or one",
                   owner.str(), choice.deviceShare, choice.devicesPerReplica));
  }

  void pieces() {
    for (auto &piece : problem.pieces) {
      std::string owner = "piece '" + piece.name + "'" + (piece.location.empty() ? "" : " (" + piece.location + ")");
      if (piece.candidates.empty())
        fail(owner +
             " fits nowhere: it has no candidates; allow another precision, more devices in a replica, or add a pool "
             "with more memory");
      shape(owner, piece.shape);
      if (piece.extraReplicas < 0)
        fail(formatv("{0}: {1} extra replicas", owner, piece.extraReplicas));
      if (piece.pinnedPool)
        index(owner, "pinned pool", *piece.pinnedPool, problem.pools.size());
      if (!(piece.headroom >= 0 && piece.headroom < 1))
        fail(formatv("{0}: a headroom of {1}, it is a share from 0 to below 1", owner, piece.headroom));
      if (piece.pinnedReplicas && *piece.pinnedReplicas < 1)
        fail(formatv("{0}: is pinned to {1} replicas, it needs at least one", owner, *piece.pinnedReplicas));
      for (auto &choice : piece.candidates) {
        std::string what = owner + ", choice '" + choice.label + "'";
        index(what, "pool", choice.pool, problem.pools.size());
        figure(what, "devices in a replica", choice.devicesPerReplica, 0, 1e6, "");
        share(what, choice);
        figure(what, "milliseconds", choice.milliseconds, 0, 1e9, "is it in microseconds?");
        if (choice.slots < 1 || choice.slots > 1000000)
          fail(formatv("{0}: serves {1} executions at once", what, choice.slots));
        if (choice.millisecondsAlone &&
            figure(what, "milliseconds alone", *choice.millisecondsAlone, 0, 1e9, "is it in microseconds?") &&
            *choice.millisecondsAlone > choice.milliseconds)
          fail(formatv("{0}: takes {1} ms alone, more than {2} ms with all slots busy", what, *choice.millisecondsAlone,
                       choice.milliseconds));
        if (choice.executionsPerSecond) {
          above(what, "executions per second", *choice.executionsPerSecond, 1e9, "");
          double possible = choice.milliseconds > 0 ? choice.slots * 1000.0 / choice.milliseconds : unlimited;
          if (*choice.executionsPerSecond > possible * (1 + 1e-6))
            fail(formatv("{0}: {1} executions a second need more than its {2} slots at {3} ms each", what,
                         *choice.executionsPerSecond, choice.slots, choice.milliseconds));
        }
        figure(what, "milliseconds of a turn", choice.turnMs, 0, 1e9, "");
        figure(what, "milliseconds that it waits for its turn", choice.turnWaitMs, 0, 1e9, "");
        figure(what, "the probability that it waits for its turn", choice.turnProbability, 0, 1, "");
        figure(what, "dollars per execution", choice.dollarsPerExecution, 0, 1e5, "is it per million?");
        figure(what, "joules per execution", choice.joulesPerExecution, 0, 1e9, "");
        figure(what, "milliseconds between tokens", choice.tokenMs, 0, 1e6, "is it in microseconds?");
        if (choice.firstOutputMs && figure(what, "milliseconds to first output", *choice.firstOutputMs, 0, 1e9, "") &&
            *choice.firstOutputMs > choice.milliseconds * (1 + 1e-9))
          fail(formatv("{0}: first output after {1} ms, the end after {2} ms", what, *choice.firstOutputMs,
                       choice.milliseconds));
      }
    }
  }

  void edges() {
    for (auto &edge : problem.edges) {
      std::string owner = "edge '" + edge.name + "'";
      if (!index(owner, "piece", edge.from, problem.pieces.size()) ||
          !index(owner, "piece", edge.to, problem.pieces.size()))
        continue;
      figure(owner, "bytes", edge.bytes, 0, 1e16, "");
      size_t from = problem.pieces[edge.from].candidates.size(), to = problem.pieces[edge.to].candidates.size();
      bool hasKinds = !edge.fromKinds.empty() || !edge.toKinds.empty();
      if (hasKinds && (edge.fromKinds.size() != from || edge.toKinds.size() != to))
        fail(formatv("{0}: has kinds of {1} and {2} choices, its ends have {3} and {4}", owner, edge.fromKinds.size(),
                     edge.toKinds.size(), from, to));
      for (const std::vector<int> *kinds : {&edge.fromKinds, &edge.toKinds})
        if (llvm::any_of(*kinds, [](int kind) { return kind < 0; }))
          fail(owner + ": a kind of choice is below zero");
    }
  }

  void edgeList(const std::string &owner, const std::vector<int> &edges) {
    for (int edge : edges)
      index(owner, "edge", edge, problem.edges.size());
  }

  void counts(const std::string &owner, const Region &region, StringRef what) {
    double sum = 0;
    if (region.children.size() != 1)
      return fail(formatv("{0}: a {1} has one child, this has {2}", owner, what, region.children.size()));
    if (region.counts.empty())
      return fail(formatv("{0}: a {1} without a bound; list how often it runs", owner, what));
    for (auto [count, probability] : region.counts) {
      if (count < 0)
        fail(formatv("{0}: a {1} runs {2} times", owner, what, count));
      if (count > largestCount)
        fail(formatv("{0}: a {1} runs {2} times, which no bound allows ({3})", owner, what, count, largestCount));
      if (!(probability >= 0 && probability <= 1))
        fail(formatv("{0}: the probability of {1} runs is {2}", owner, count, probability));
      sum += probability;
    }
    if (!(std::abs(sum - 1) <= 1e-6))
      fail(formatv("{0}: the probabilities of its counts sum to {1}, not to 1", owner, sum));
  }

  void agents() {
    if (problem.agents.empty())
      return fail("there is no agent to place");
    for (auto &agent : problem.agents) {
      std::string owner = "agent '" + agent.name + "'";
      figure(owner, "requests per second", agent.requestsPerSecond, 0, 1e9, "");
      bound(owner + ": the end-to-end bound", agent.level.endToEndMs);
      bound(owner + ": the bound on the first output", agent.level.firstOutputMs);
      bound(owner + ": the bound between tokens", agent.level.tokenMs);
      if (agent.level.percentile && !(*agent.level.percentile > 0 && *agent.level.percentile < 1))
        fail(formatv("{0}: percentile {1} is not between 0 and 1{2}", owner, *agent.level.percentile,
                     *agent.level.percentile >= 1 && *agent.level.percentile < 100
                         ? formatv(": did you mean {0}?", *agent.level.percentile / 100).str()
                         : ""));
      if (!index(owner, "region", agent.root, agent.regions.size()))
        continue;
      std::vector<int> parents(agent.regions.size());
      ++parents[agent.root];
      for (auto [position, region] : llvm::enumerate(agent.regions)) {
        std::string here = formatv("{0}, region {1}", owner, position).str();
        for (int child : region.children)
          if (index(here, "region", child, agent.regions.size()))
            ++parents[child];
        edgeList(here, region.entryEdges);
        edgeList(here, region.backEdges);
        switch (region.kind) {
        case Region::Kind::Piece:
          index(here, "piece", region.piece, problem.pieces.size());
          figure(here, "the scale of its time", region.timeScale, 0, 1e6, "");
          figure(here, "the scale in later turns", region.laterTurnScale, 0, 1e6, "");
          if (!region.children.empty())
            fail(here + ": an execution has no children");
          break;
        case Region::Kind::Dag:
          if (region.children.empty())
            fail(here + ": a dag without children");
          for (auto &arc : region.arcs) {
            if (arc.from < 0 || arc.to <= arc.from || arc.to >= int(region.children.size()))
              fail(formatv(
                  "{0}: an arc leads from child {1} to {2}; children are listed before those that need them, and "
                  "cycles belong into a loop",
                  here, arc.from, arc.to));
            edgeList(here, arc.edges);
          }
          break;
        case Region::Kind::Branch: {
          if (region.children.empty() || region.children.size() != region.probabilities.size()) {
            fail(formatv("{0}: a branch has {1} children and {2} probabilities", here, region.children.size(),
                         region.probabilities.size()));
            break;
          }
          double sum = 0;
          for (double probability : region.probabilities) {
            if (!(probability >= 0 && probability <= 1))
              fail(formatv("{0}: a probability is {1}", here, probability));
            sum += probability;
          }
          if (!(std::abs(sum - 1) <= 1e-6))
            fail(formatv("{0}: the probabilities of a branch sum to {1}, not to 1", here, sum));
          break;
        }
        case Region::Kind::Loop:
          counts(here, region, "loop");
          break;
        case Region::Kind::Map:
          counts(here, region, "map");
          break;
        }
      }
      // As each region has one parent, a region that the root does not reach is part of a cycle.
      std::vector<int> reached{agent.root};
      for (size_t i = 0; message.empty() && i < reached.size(); ++i) {
        auto &children = agent.regions[reached[i]].children;
        reached.insert(reached.end(), children.begin(), children.end());
        if (reached.size() > agent.regions.size())
          break;
      }
      for (auto [position, count] : llvm::enumerate(parents))
        if (count != 1)
          fail(formatv("{0}, region {1}: is part of {2} regions; each belongs to one", owner, position, count));
      if (message.empty() && reached.size() != agent.regions.size())
        fail(owner + ": its regions form a cycle");
    }
  }

  void groups(StringRef what, const std::vector<std::vector<int>> &groups) {
    for (auto &group : groups)
      for (int piece : group)
        index(what, "piece", piece, problem.pieces.size());
  }

  void previous() {
    if (problem.previous.empty())
      return;
    if (problem.previous.size() != problem.pieces.size())
      return fail(formatv("the previous plan places {0} pieces, the problem has {1}", problem.previous.size(),
                          problem.pieces.size()));
    for (auto [placed, piece] : llvm::zip(problem.previous, problem.pieces))
      if (placed.choice >= int(piece.candidates.size()))
        fail(formatv("the previous plan places '{0}' by choice {1}, the number of its candidates is {2}", piece.name,
                     placed.choice, piece.candidates.size()));
  }
};
} // namespace

Error PlacementProblem::validate() const { return Validator(*this).run(); }

} // namespace intarsia::plan
