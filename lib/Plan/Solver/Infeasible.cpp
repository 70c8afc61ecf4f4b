//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Explains why there is no plan: a minimal set of constraints by the deletion filter (Chinneck and Dravnieks, 1991),
// each step of which is a proof by the solver, and a bound for each that would make a plan possible.
//===----------------------------------------------------------------------------------------------------------===//
#include "LeastTimes.h"
#include "Solver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia::plan {

using Kind = Conflict::Kind;

static constexpr int64_t plentyOfDevices = 1000000;
/// Bandwidth that is no limit. Links of it cannot conflict.
static constexpr double plentyOfGBps = 1e6;
static constexpr int plentyOfCalls = 1000000;
/// Limit of the question what would do where a promise alone is impossible.
static constexpr double secondsOfImpossible = 3;

/// Returns the pools that a piece has a candidate on.
static std::set<int> poolsOf(const Piece &piece) {
  std::set<int> pools;
  for (const Choice &choice : piece.candidates)
    pools.insert(choice.pool);
  return pools;
}

/// Returns the pairs of pools between which the candidates of some edge's ends may send each other data.
static std::set<std::pair<int, int>> waysOf(const PlacementProblem &p) {
  std::set<std::pair<int, int>> ways;
  for (const Edge &edge : p.edges)
    for (int from : poolsOf(p.pieces[edge.from]))
      for (int to : poolsOf(p.pieces[edge.to]))
        ways.insert({from, to});
  return ways;
}

static std::vector<Conflict> allConstraints(const PlacementProblem &p) {
  std::vector<Conflict> all;
  auto add = [&](Kind kind, int index, double given, std::string text) {
    all.push_back({kind, index, std::move(text), given, std::nullopt});
  };
  // The filter drops what it can in this order: the constraints that people change last come last.
  std::set<int> usedPools;
  for (const Piece &piece : p.pieces)
    for (const Choice &choice : piece.candidates)
      if (choice.devicesPerReplica > 0)
        usedPools.insert(choice.pool);
  for (auto [index, pool] : enumerate(p.pools))
    if (usedPools.count(int(index)) && !pool.isService)
      add(Kind::PoolDevices, int(index), double(pool.devices),
          formatv("pool '{0}' has {1} devices", pool.name, pool.devices));
  for (auto [index, piece] : enumerate(p.pieces))
    if (p.pools[piece.candidates.front().pool].isService)
      add(Kind::Calls, int(index), piece.candidates.front().slots,
          formatv("'{0}' takes {1} calls at once at most",
                  StringRef(p.pools[piece.candidates.front().pool].name).rsplit(':').second,
                  piece.candidates.front().slots));
  std::set<std::pair<int, int>> ways = waysOf(p);
  auto isWay = [&](std::pair<int, int> pair) { return ways.count(pair) > 0; };
  for (auto [index, link] : enumerate(p.links))
    if (link.gigabytesPerSecond < plentyOfGBps && any_of(link.pairs, isWay))
      add(Kind::LinkBandwidth, int(index), link.gigabytesPerSecond,
          formatv("link '{0}' has {1:f3} GB/s", link.name, link.gigabytesPerSecond));
  std::set<std::pair<int, int>> routes;
  for (auto &link : p.links)
    routes.insert(link.pairs.begin(), link.pairs.end());
  if (any_of(ways, [&](auto way) { return way.first != way.second && !routes.count(way); }))
    add(Kind::Route, -1, 0, "some pools are not linked");
  auto namesOf = [&](ArrayRef<int> group) {
    std::string names;
    for (auto [position, piece] : enumerate(group)) {
      bool last = position + 1 == group.size();
      names += (position == 0 ? "'" : last ? " and '" : ", '") + p.pieces[piece].name + "'";
    }
    return names;
  };
  for (auto [index, group] : enumerate(p.together))
    if (group.size() > 1)
      add(Kind::Together, int(index), 0, namesOf(group) + " must share a pool");
  for (auto [index, group] : enumerate(p.apart))
    if (group.size() > 1)
      add(Kind::Apart, int(index), 0, namesOf(group) + " must not share a pool");
  for (auto [index, edge] : enumerate(p.edges))
    if (!edge.fromKinds.empty())
      add(Kind::Kinds, int(index), 0,
          formatv("{0}: both ends must be alike (one precision, or the same replicas)", edge.name));
  for (auto [index, piece] : enumerate(p.pieces)) {
    std::vector<std::string> to;
    if (piece.pinnedPool)
      to.push_back("pool '" + p.pools[*piece.pinnedPool].name + "'");
    if (piece.pinnedReplicas)
      to.push_back(formatv("{0} replicas", *piece.pinnedReplicas));
    if (!to.empty())
      add(Kind::Pin, int(index), 0, formatv("'{0}' is pinned to {1}", piece.name, join(to, ", ")));
  }
  double headroom = 0;
  for (const Piece &piece : p.pieces)
    headroom = std::max(headroom, piece.headroom);
  if (headroom > 0)
    add(Kind::Busy, -1, 1 - headroom,
        formatv("replicas are busy for {0:P1} of what they sustain at most", 1 - headroom));
  if (p.gramsPerHourCap < unlimited)
    add(Kind::Grams, -1, p.gramsPerHourCap, formatv("{0:f3} g of CO2 an hour at most", p.gramsPerHourCap));
  if (p.wattsCap < unlimited)
    add(Kind::Watts, -1, p.wattsCap, formatv("{0:f2} W at most", p.wattsCap));
  if (p.dollarsPerHourCap < unlimited)
    add(Kind::Dollars, -1, p.dollarsPerHourCap, formatv("${0:f4} an hour at most", p.dollarsPerHourCap));
  for (auto [index, agent] : enumerate(p.agents)) {
    if (agent.level.tokenMs < unlimited)
      add(Kind::Token, int(index), agent.level.tokenMs,
          formatv("agent '{0}': {1:f3} ms between tokens at most", agent.name, agent.level.tokenMs));
    if (agent.level.firstOutputMs < unlimited)
      add(Kind::FirstOutput, int(index), agent.level.firstOutputMs,
          formatv("agent '{0}': first output after {1:f3} ms at most", agent.name, agent.level.firstOutputMs));
    if (agent.level.endToEndMs < unlimited)
      add(Kind::EndToEnd, int(index), agent.level.endToEndMs,
          formatv("agent '{0}': end-to-end in {1:f3} ms at most", agent.name, agent.level.endToEndMs));
  }
  return all;
}

/// Sets the bound of a constraint; infinity removes it.
static void setBound(PlacementProblem &p, const Conflict &conflict, double value) {
  switch (conflict.kind) {
  case Kind::EndToEnd:
    p.agents[conflict.index].level.endToEndMs = value;
    break;
  case Kind::FirstOutput:
    p.agents[conflict.index].level.firstOutputMs = value;
    break;
  case Kind::Token:
    p.agents[conflict.index].level.tokenMs = value;
    break;
  case Kind::PoolDevices:
    p.pools[conflict.index].devices =
        value == unlimited ? plentyOfDevices * p.pools[conflict.index].devicesPerNode : int64_t(std::llround(value));
    break;
  case Kind::Dollars:
    p.dollarsPerHourCap = value;
    break;
  case Kind::Watts:
    p.wattsCap = value;
    break;
  case Kind::Grams:
    p.gramsPerHourCap = value;
    break;
  case Kind::Busy:
    for (Piece &piece : p.pieces)
      if (piece.headroom > 0) // stays above zero, to tell these pieces from those without headroom
        piece.headroom = std::max(1e-12, 1 - value);
    break;
  case Kind::LinkBandwidth:
    p.links[conflict.index].gigabytesPerSecond = std::min(value, plentyOfGBps);
    break;
  case Kind::Calls:
    p.pieces[conflict.index].candidates.front().slots = value == unlimited ? plentyOfCalls : int(std::llround(value));
    break;
  case Kind::Pin:
    p.pieces[conflict.index].pinnedPool.reset();
    p.pieces[conflict.index].pinnedReplicas.reset();
    break;
  case Kind::Together:
    p.together[conflict.index].clear();
    break;
  case Kind::Apart:
    p.apart[conflict.index].clear();
    break;
  case Kind::Kinds:
    p.edges[conflict.index].mixesKinds = true;
    break;
  case Kind::Route: {
    Link link{"missing", {}, plentyOfGBps};
    std::set<std::pair<int, int>> routes;
    for (auto &known : p.links)
      routes.insert(known.pairs.begin(), known.pairs.end());
    for (int a = 0; a < int(p.pools.size()); ++a)
      for (int b = 0; b < int(p.pools.size()); ++b)
        if (a != b && !routes.count({a, b}))
          link.pairs.push_back({a, b});
    p.links.push_back(std::move(link));
    break;
  }
  }
}

/// The time limit shared by all questions of an explanation.
class Questions {
public:
  explicit Questions(const SolveOptions &options)
      : options(options), end(after(options.timeLimitSeconds)), deadline(end) {}

  /// Limits the following questions to `part` of the time left, and each of them to `ofQuestion` of the rest.
  void share(double part, double ofQuestion) {
    deadline = after(std::chrono::duration<double>(end - Clock::now()).count() * part);
    shareOfQuestion = ofQuestion;
  }
  bool timeIsOver() const { return Clock::now() >= deadline; }

  /// Returns the best plan; nothing if the time is over.
  std::optional<SolveResult> solve(const PlacementProblem &problem, double relativeGap) const {
    double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0)
      return std::nullopt;
    SolveOptions limited = options;
    limited.relativeGap = relativeGap;
    limited.timeLimitSeconds = left * shareOfQuestion;
    return Solver(problem, limited).run();
  }
  std::optional<SolveResult> best(const PlacementProblem &problem) const { return solve(problem, options.relativeGap); }

  /// Returns whether there is a feasible plan; nothing if that is not settled in time.
  std::optional<bool> isPossible(const PlacementProblem &problem, Evaluation *found = nullptr) const {
    std::optional<SolveResult> result = solve(problem, 1e9);
    if (!result || result->status == SolveResult::Status::NoPlanInTime)
      return std::nullopt;
    if (result->hasPlan() && found)
      *found = result->evaluation;
    return result->hasPlan();
  }

private:
  static Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::microseconds(int64_t(std::clamp(seconds, 0.0, 1e7) * 1e6));
  }
  SolveOptions options;
  Clock::time_point end, deadline;
  double shareOfQuestion = 1; ///< below 1, so that an unsettled question leaves time for the others
};

/// Returns the amount of a constraint that a plan takes.
static double takenBy(const Evaluation &evaluation, const PlacementProblem &p, const Conflict &conflict) {
  switch (conflict.kind) {
  case Kind::EndToEnd:
    return evaluation.agents[conflict.index].endToEndMs;
  case Kind::FirstOutput:
    return evaluation.agents[conflict.index].firstOutputMs;
  case Kind::Token:
    return evaluation.agents[conflict.index].tokenMs;
  case Kind::PoolDevices:
    return double(p.pools[conflict.index].wholeNodes
                      ? evaluation.nodes[conflict.index] * p.pools[conflict.index].devicesPerNode
                      : evaluation.devices[conflict.index]);
  case Kind::Dollars:
    return evaluation.dollarsPerHour;
  case Kind::Watts:
    return evaluation.peakWatts;
  case Kind::Grams:
    return evaluation.gramsPerHour;
  case Kind::Busy: {
    double busiest = 0;
    for (auto [piece, utilization] : zip(p.pieces, evaluation.utilization))
      if (piece.headroom > 0)
        busiest = std::max(busiest, utilization);
    return busiest;
  }
  case Kind::LinkBandwidth:
    return evaluation.linkGBps[conflict.index];
  case Kind::Calls: {
    // Calls under way, and room for their spread: by the square-root rule of staffing few of them wait.
    double underWay = evaluation.utilization[conflict.index] * p.pieces[conflict.index].candidates.front().slots;
    return std::ceil(underWay + 4 * std::sqrt(underWay) + 1);
  }
  default:
    return 0;
  }
}

namespace {
/// A bound that makes a plan possible, or none.
struct Relaxation {
  std::optional<double> bound;
  bool settled = true; ///< true if it is proven that no stricter bound does (if unset: that no bound does)
};
} // namespace

/// Returns the least relaxation, by bisection; each plan found moves the bound to its own figure.
static Relaxation relax(const PlacementProblem &problem, const Conflict &conflict, const Questions &questions) {
  PlacementProblem p = problem;
  setBound(p, conflict, unlimited);
  if (conflict.kind == Kind::EndToEnd || conflict.kind == Kind::Dollars) {
    p.objective = conflict.kind == Kind::Dollars ? Objective::DollarsPerHour : Objective::Latency;
    p.latencyAgent = conflict.kind == Kind::Dollars ? -1 : conflict.index;
    p.previous.clear();
    std::optional<SolveResult> result = questions.best(p);
    if (!result || !result->hasPlan())
      return {std::nullopt, result && result->status == SolveResult::Status::Infeasible};
    return {takenBy(result->evaluation, p, conflict), result->status == SolveResult::Status::Optimal};
  }
  Evaluation found;
  std::optional<bool> possible = questions.isPossible(p, &found);
  if (!possible.value_or(false))
    return {std::nullopt, possible.has_value()};
  bool whole = conflict.kind == Kind::PoolDevices || conflict.kind == Kind::Calls, settled = true;
  double low = conflict.given, high = takenBy(found, p, conflict);
  if (conflict.kind == Kind::LinkBandwidth)
    high = std::max(high, plentyOfGBps); // times depend on it too
  while (whole ? high - low > 1 : high - low > 1e-4 * high) {
    double middle = whole                                                    ? std::floor((low + high) / 2)
                    : conflict.kind == Kind::LinkBandwidth && high > 4 * low ? std::sqrt(low * high)
                                                                             : (low + high) / 2;
    PlacementProblem tried = problem;
    setBound(tried, conflict, middle);
    possible = questions.isPossible(tried, &found);
    settled &= possible.has_value();
    if (possible.value_or(false))
      high = conflict.kind == Kind::LinkBandwidth || conflict.kind == Kind::Calls
                 ? middle
                 : std::min(middle, takenBy(found, tried, conflict));
    else if (questions.timeIsOver()) {
      settled = false;
      break;
    } else
      low = middle;
  }
  return {high, settled};
}

/// Rounds a bound up to the digits that allConstraints prints: the printed bound must suffice.
static double shownBound(Kind kind, double value) {
  double perUnit = kind == Kind::PoolDevices || kind == Kind::Calls ? 1
                   : kind == Kind::Dollars                          ? 1e4
                   : kind == Kind::Watts                            ? 1e2
                                                                    : 1e3;
  return std::ceil(value * perUnit) / perUnit;
}

/// Returns the bound with its unit.
static std::string textOfBound(Kind kind, double value) {
  double shown = shownBound(kind, value);
  switch (kind) {
  case Kind::PoolDevices:
    return formatv("{0} devices", int64_t(shown));
  case Kind::Calls:
    return formatv("{0} calls at once", int64_t(shown));
  case Kind::LinkBandwidth:
    return formatv("{0:f3} GB/s", shown);
  case Kind::Dollars:
    return formatv("${0:f4} an hour", shown);
  case Kind::Watts:
    return formatv("{0:f2} W", shown);
  case Kind::Grams:
    return formatv("{0:f3} g an hour", shown);
  case Kind::Busy:
    return formatv("{0:P1}", shown);
  default:
    return formatv("{0:f3} ms", shown);
  }
}

/// Raises the bound until the problem with the printed bound has a plan. Percentiles lie on grids, so that at the exact
/// bound a cut may exclude a plan that only just satisfies it.
static Relaxation confirmed(const PlacementProblem &problem, const Conflict &conflict, const Questions &questions,
                            Relaxation relaxation) {
  double first = *relaxation.bound;
  for (double step = 1e-3; step < 0.1; step *= 2) {
    PlacementProblem tried = problem;
    setBound(tried, conflict, shownBound(conflict.kind, *relaxation.bound));
    std::optional<bool> possible = questions.isPossible(tried);
    relaxation.settled &= possible.has_value();
    if (possible.value_or(true))
      return relaxation;
    relaxation.bound = first * (1 + step);
  }
  return {std::nullopt, false};
}

/// Adds to each constraint of a conflict what would be enough. On entry `settled` says whether it is known that the
/// constraint is part of the conflict; if another bound for it alone is enough, it is.
static void sayWhatWouldDo(const PlacementProblem &problem, std::vector<Conflict> &kept, Questions &questions) {
  constexpr const char *unsettled = " (not settled in time whether this is part of it)";
  for (auto [position, conflict] : enumerate(kept)) {
    if (conflict.kind == Kind::Pin || conflict.kind == Kind::Together || conflict.kind == Kind::Apart ||
        conflict.kind == Kind::Kinds || conflict.kind == Kind::Route) {
      conflict.text += conflict.settled ? "" : unsettled;
      continue;
    }
    questions.share(1.0 / double(kept.size() - position), 0.5);
    Relaxation relaxation = relax(problem, conflict, questions);
    if (relaxation.bound)
      relaxation = confirmed(problem, conflict, questions, relaxation);
    conflict.text += conflict.settled || relaxation.bound ? "" : unsettled;
    conflict.relaxed = relaxation.bound, conflict.settled = relaxation.settled;
    conflict.text += "; ";
    if (relaxation.bound)
      conflict.text += textOfBound(conflict.kind, *relaxation.bound) + " would do" +
                       (relaxation.settled ? "" : ", perhaps less: not settled in time");
    else
      conflict.text += relaxation.settled ? "changing this alone is not enough: it is not all that conflicts"
                                          : "not settled in time what would do";
  }
}

Expected<std::vector<Conflict>> explainInfeasibility(const PlacementProblem &problem, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  std::vector<Conflict> kept;
  if (std::optional<Conflict> promise = impossiblePromise(problem)) {
    SolveOptions own = options;
    own.timeLimitSeconds = std::min(own.timeLimitSeconds, secondsOfImpossible);
    Questions questions(own);
    kept.push_back(std::move(*promise));
    sayWhatWouldDo(problem, kept, questions);
    return kept;
  }
  Questions questions(options);
  questions.share(0.5, 0.5);
  if (questions.isPossible(problem).value_or(false))
    return kept;
  PlacementProblem p = problem;
  std::vector<Conflict> all = allConstraints(problem);
  // Tries halves first: most constraints are not part of the conflict.
  auto filter = [&](auto &self, ArrayRef<Conflict> group) -> void {
    if (group.empty())
      return;
    PlacementProblem without = p;
    for (auto &conflict : group)
      setBound(without, conflict, unlimited);
    // An unsettled question counts as possible: the set may then be larger than minimal, but it is never wrong.
    std::optional<bool> possible = questions.isPossible(without);
    if (possible == false) {
      p = std::move(without);
      return;
    }
    if (group.size() == 1) {
      kept.push_back(group[0]);
      kept.back().settled = possible.has_value();
      return;
    }
    self(self, group.take_front(group.size() / 2));
    self(self, group.drop_front(group.size() / 2));
  };
  questions.share(0.5, 0.1);
  // Kinds are not constraints that somebody asked for: they are reported only if nothing else conflicts.
  std::vector<Conflict> asked = all;
  erase_if(asked, [](const Conflict &conflict) { return conflict.kind == Kind::Kinds; });
  PlacementProblem free = problem;
  for (const Conflict &conflict : asked)
    setBound(free, conflict, unlimited);
  filter(filter, questions.isPossible(free) == false ? all : asked);
  sayWhatWouldDo(problem, kept, questions);
  return kept;
}

} // namespace intarsia::plan
