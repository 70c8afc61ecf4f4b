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
#include <functional>
#include <set>

using namespace llvm;

namespace intarsia::plan {

using Kind = Conflict::Kind;

static constexpr int64_t plentyOfDevices = 1000000;
/// Bandwidth that is no limit. Links of it cannot conflict.
static constexpr double plentyOfGBps = 1e6;
static constexpr int plentyOfCalls = 1000000;
/// Relative precision of percentiles that would do.
static constexpr double gapOfPercentiles = 1e-3;
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

namespace {
/// A constraint of a problem, and how it is changed.
struct Constraint {
  Conflict conflict;
  std::function<void(PlacementProblem &, double)> set; ///< sets the bound; infinity removes the constraint
  /// Returns the amount of it that a plan takes; unset: it has no bound that could be looser.
  std::function<double(const PlacementProblem &, const Evaluation &)> taken;
  const char *unit = ""; ///< the bound in words
  double perUnit = 1e3;  ///< bounds are printed in multiples of one over this

  /// Returns the bound rounded up to the digits that are printed: the printed bound must suffice.
  double shown(double bound) const { return std::ceil(bound * perUnit) / perUnit; }
};
} // namespace

/// Returns whether a constraint limits a sum over pieces and nothing else. Proofs name those that they need.
static bool isSum(const Constraint &constraint) {
  return is_contained({Kind::PoolDevices, Kind::Dollars, Kind::Watts, Kind::Grams}, constraint.conflict.kind);
}

/// Returns the pairs of pools that no link connects.
static std::vector<std::pair<int, int>> missingRoutes(const PlacementProblem &p) {
  std::set<std::pair<int, int>> routes;
  for (auto &link : p.links)
    routes.insert(link.pairs.begin(), link.pairs.end());
  std::vector<std::pair<int, int>> missing;
  for (int a = 0; a < int(p.pools.size()); ++a)
    for (int b = 0; b < int(p.pools.size()); ++b)
      if (a != b && !routes.count({a, b}))
        missing.push_back({a, b});
  return missing;
}

/// Returns all constraints. The filter drops what it can in this order: those that people change last come last.
static std::vector<Constraint> constraintsOf(const PlacementProblem &p) {
  std::vector<Constraint> all;
  auto bound = [&](Kind kind, int index, double given, std::string text, const char *unit, double perUnit, auto set,
                   auto taken) {
    all.push_back({{kind, index, std::move(text), given, std::nullopt}, set, taken, unit, perUnit});
  };
  auto rule = [&](Kind kind, int index, std::string text, auto remove) {
    all.push_back({{kind, index, std::move(text), 0, std::nullopt}, [=](auto &problem, double) { remove(problem); }});
  };
  std::set<int> usedPools;
  for (const Piece &piece : p.pieces)
    for (const Choice &choice : piece.candidates)
      if (choice.devicesPerReplica > 0)
        usedPools.insert(choice.pool);
  for (auto [index, pool] : enumerate(p.pools))
    if (usedPools.count(int(index)) && !pool.isService)
      bound(
          Kind::PoolDevices, int(index), double(pool.devices),
          formatv("pool '{0}' has {1} devices", pool.name, pool.devices), "{0:f0} devices", 1,
          [=](PlacementProblem &to, double value) {
            Pool &of = to.pools[index];
            of.devices = value == unlimited ? plentyOfDevices * of.devicesPerNode : int64_t(std::llround(value));
          },
          [=](const PlacementProblem &of, const Evaluation &evaluation) {
            const Pool &pool = of.pools[index];
            return double(pool.wholeNodes ? evaluation.nodes[index] * pool.devicesPerNode : evaluation.devices[index]);
          });
  for (auto [index, piece] : enumerate(p.pieces)) {
    const Choice &service = piece.candidates.front();
    if (!p.pools[service.pool].isService)
      continue;
    bound(
        Kind::Calls, int(index), service.slots,
        formatv("'{0}' takes {1} calls at once at most", StringRef(p.pools[service.pool].name).rsplit(':').second,
                service.slots),
        "{0:f0} calls at once", 1,
        [=](PlacementProblem &to, double value) {
          to.pieces[index].candidates.front().slots = value == unlimited ? plentyOfCalls : int(std::llround(value));
        },
        [=](const PlacementProblem &of, const Evaluation &evaluation) {
          // Calls under way, and room for their spread: by the square-root rule of staffing few of them wait.
          double underWay = evaluation.utilization[index] * of.pieces[index].candidates.front().slots;
          return std::ceil(underWay + 4 * std::sqrt(underWay) + 1);
        });
  }
  std::set<std::pair<int, int>> ways = waysOf(p);
  auto isWay = [&](std::pair<int, int> pair) { return ways.count(pair) > 0; };
  for (auto [index, link] : enumerate(p.links))
    if (link.gigabytesPerSecond < plentyOfGBps && any_of(link.pairs, isWay))
      bound(
          Kind::LinkBandwidth, int(index), link.gigabytesPerSecond,
          formatv("link '{0}' has {1:f3} GB/s", link.name, link.gigabytesPerSecond), "{0:f3} GB/s", 1e3,
          [=](PlacementProblem &to, double value) {
            to.links[index].gigabytesPerSecond = std::min(value, plentyOfGBps);
          },
          [=](const PlacementProblem &, const Evaluation &evaluation) { return evaluation.linkGBps[index]; });
  if (any_of(missingRoutes(p), isWay))
    rule(Kind::Route, -1, "some pools are not linked",
         [](PlacementProblem &to) { to.links.push_back({"missing", missingRoutes(to), plentyOfGBps}); });
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
      rule(Kind::Together, int(index), namesOf(group) + " must share a pool",
           [=](PlacementProblem &to) { to.together[index].clear(); });
  for (auto [index, group] : enumerate(p.apart))
    if (group.size() > 1)
      rule(Kind::Apart, int(index), namesOf(group) + " must not share a pool",
           [=](PlacementProblem &to) { to.apart[index].clear(); });
  for (auto [index, edge] : enumerate(p.edges))
    if (!edge.fromKinds.empty())
      rule(Kind::Kinds, int(index),
           formatv("{0}: both ends must be alike (one precision, or the same replicas)", edge.name),
           [=](PlacementProblem &to) { to.edges[index].mixesKinds = true; });
  for (auto [index, piece] : enumerate(p.pieces)) {
    std::vector<std::string> to;
    if (piece.pinnedPool)
      to.push_back("pool '" + p.pools[*piece.pinnedPool].name + "'");
    if (piece.pinnedReplicas)
      to.push_back(formatv("{0} replicas", *piece.pinnedReplicas));
    if (!to.empty())
      rule(Kind::Pin, int(index), formatv("'{0}' is pinned to {1}", piece.name, join(to, ", ")),
           [=](PlacementProblem &of) {
             of.pieces[index].pinnedPool.reset();
             of.pieces[index].pinnedReplicas.reset();
           });
  }
  double headroom = 0;
  for (const Piece &piece : p.pieces)
    headroom = std::max(headroom, piece.headroom);
  if (headroom > 0)
    bound(
        Kind::Busy, -1, 1 - headroom,
        formatv("replicas are busy for {0:P1} of what they sustain at most", 1 - headroom), "{0:P1}", 1e3,
        [](PlacementProblem &to, double value) {
          for (Piece &piece : to.pieces)
            if (piece.headroom > 0) // stays above zero, to tell these pieces from those without headroom
              piece.headroom = std::max(1e-12, 1 - value);
        },
        [](const PlacementProblem &of, const Evaluation &evaluation) {
          double busiest = 0;
          for (auto [piece, utilization] : zip(of.pieces, evaluation.utilization))
            if (piece.headroom > 0)
              busiest = std::max(busiest, utilization);
          return busiest;
        });
  auto cap = [&](Kind kind, double PlacementProblem::*limit, double Evaluation::*figure, const char *text,
                 const char *unit, double perUnit) {
    if (p.*limit < unlimited)
      bound(
          kind, -1, p.*limit, formatv(text, p.*limit), unit, perUnit,
          [=](PlacementProblem &to, double value) { to.*limit = value; },
          [=](const PlacementProblem &, const Evaluation &evaluation) { return evaluation.*figure; });
  };
  cap(Kind::Grams, &PlacementProblem::gramsPerHourCap, &Evaluation::gramsPerHour, "{0:f3} g of CO2 an hour at most",
      "{0:f3} g an hour", 1e3);
  cap(Kind::Watts, &PlacementProblem::wattsCap, &Evaluation::peakWatts, "{0:f2} W at most", "{0:f2} W", 1e2);
  cap(Kind::Dollars, &PlacementProblem::dollarsPerHourCap, &Evaluation::dollarsPerHour, "${0:f4} an hour at most",
      "${0:f4} an hour", 1e4);
  auto promise = [&](size_t agent, Kind kind, double ServiceLevel::*limit, double Evaluation::OfAgent::*figure,
                     const char *text) {
    if (double given = p.agents[agent].level.*limit; given < unlimited)
      bound(
          kind, int(agent), given, formatv(text, p.agents[agent].name, given), "{0:f3} ms", 1e3,
          [=](PlacementProblem &to, double value) { to.agents[agent].level.*limit = value; },
          [=](const PlacementProblem &, const Evaluation &evaluation) { return evaluation.agents[agent].*figure; });
  };
  for (size_t agent = 0; agent < p.agents.size(); ++agent) {
    promise(agent, Kind::Token, &ServiceLevel::tokenMs, &Evaluation::OfAgent::tokenMs,
            "agent '{0}': {1:f3} ms between tokens at most");
    promise(agent, Kind::FirstOutput, &ServiceLevel::firstOutputMs, &Evaluation::OfAgent::firstOutputMs,
            "agent '{0}': first output after {1:f3} ms at most");
    promise(agent, Kind::EndToEnd, &ServiceLevel::endToEndMs, &Evaluation::OfAgent::endToEndMs,
            "agent '{0}': end-to-end in {1:f3} ms at most");
  }
  return all;
}

using Scarce = std::vector<std::pair<Kind, int>>;

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
  std::optional<SolveResult> best(const PlacementProblem &problem, double relativeGap) const {
    return solve(problem, std::max(options.relativeGap, relativeGap));
  }

  /// Returns whether there is a feasible plan; nothing if that is not settled in time. Sets `found` to the evaluation
  /// of a plan, and `scarce` to the resources of a proof that there is none.
  std::optional<bool> isPossible(const PlacementProblem &problem, Evaluation *found = nullptr,
                                 Scarce *scarce = nullptr) const {
    std::optional<SolveResult> result = solve(problem, 1e9);
    if (!result || result->status == SolveResult::Status::NoPlanInTime)
      return std::nullopt;
    if (result->hasPlan() && found)
      *found = result->evaluation;
    if (!result->hasPlan() && scarce)
      *scarce = result->scarce;
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

namespace {
/// A bound that makes a plan possible, or none.
struct Relaxation {
  std::optional<double> bound;
  bool settled = true; ///< true if it is proven that no stricter bound does (if unset: that no bound does)
};
} // namespace

/// Returns the least relaxation, by bisection; each plan found moves the bound to its own figure.
static Relaxation relax(const PlacementProblem &problem, const Constraint &constraint, const Questions &questions) {
  const Conflict &conflict = constraint.conflict;
  PlacementProblem p = problem;
  constraint.set(p, unlimited);
  if (conflict.kind == Kind::EndToEnd || conflict.kind == Kind::Dollars) {
    p.objective = conflict.kind == Kind::Dollars ? Objective::DollarsPerHour : Objective::Latency;
    p.latencyAgent = conflict.kind == Kind::Dollars ? -1 : conflict.index;
    p.previous.clear();
    bool isPercentile = conflict.kind == Kind::EndToEnd && p.agents[conflict.index].level.percentile;
    std::optional<SolveResult> result = questions.best(p, isPercentile ? gapOfPercentiles : 0);
    if (!result || !result->hasPlan())
      return {std::nullopt, result && result->status == SolveResult::Status::Infeasible};
    return {constraint.taken(p, result->evaluation), result->status == SolveResult::Status::Optimal};
  }
  Evaluation found;
  std::optional<bool> possible = questions.isPossible(p, &found);
  if (!possible.value_or(false))
    return {std::nullopt, possible.has_value()};
  bool whole = conflict.kind == Kind::PoolDevices || conflict.kind == Kind::Calls, settled = true;
  double low = conflict.given, high = constraint.taken(p, found);
  if (conflict.kind == Kind::LinkBandwidth)
    high = std::max(high, plentyOfGBps); // times depend on it too
  while (whole ? high - low > 1 : high - low > 1e-4 * high) {
    double middle = whole                                                    ? std::floor((low + high) / 2)
                    : conflict.kind == Kind::LinkBandwidth && high > 4 * low ? std::sqrt(low * high)
                                                                             : (low + high) / 2;
    PlacementProblem tried = problem;
    constraint.set(tried, middle);
    possible = questions.isPossible(tried, &found);
    settled &= possible.has_value();
    if (possible.value_or(false))
      high = conflict.kind == Kind::LinkBandwidth || conflict.kind == Kind::Calls
                 ? middle
                 : std::min(middle, constraint.taken(tried, found));
    else if (questions.timeIsOver()) {
      settled = false;
      break;
    } else
      low = middle;
  }
  return {high, settled};
}

/// Raises the bound until the problem with the printed bound has a plan. Percentiles lie on grids, so that at the exact
/// bound a cut may exclude a plan that only just satisfies it.
static Relaxation confirmed(const PlacementProblem &problem, const Constraint &constraint, const Questions &questions,
                            Relaxation relaxation) {
  double first = *relaxation.bound;
  for (double step = 1e-3; step < 0.1; step *= 2) {
    PlacementProblem tried = problem;
    constraint.set(tried, constraint.shown(*relaxation.bound));
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
static std::vector<Conflict> sayWhatWouldDo(const PlacementProblem &problem, ArrayRef<Constraint> kept,
                                            Questions &questions) {
  constexpr const char *unsettled = " (not settled in time whether this is part of it)";
  std::vector<Conflict> conflicts;
  for (auto [position, constraint] : enumerate(kept)) {
    conflicts.push_back(constraint.conflict);
    Conflict &conflict = conflicts.back();
    if (!constraint.taken) {
      conflict.text += conflict.settled ? "" : unsettled;
      continue;
    }
    questions.share(1.0 / double(kept.size() - position), 0.5);
    Relaxation relaxation = relax(problem, constraint, questions);
    if (relaxation.bound)
      relaxation = confirmed(problem, constraint, questions, relaxation);
    conflict.text += conflict.settled || relaxation.bound ? "" : unsettled;
    conflict.relaxed = relaxation.bound, conflict.settled = relaxation.settled;
    conflict.text += "; ";
    if (relaxation.bound)
      conflict.text += formatv(constraint.unit, constraint.shown(*relaxation.bound)).str() + " would do" +
                       (relaxation.settled ? "" : ", perhaps less: not settled in time");
    else
      conflict.text += relaxation.settled ? "changing this alone is not enough: it is not all that conflicts"
                                          : "not settled in time what would do";
  }
  return conflicts;
}

Expected<std::vector<Conflict>> explainInfeasibility(const PlacementProblem &problem, const SolveOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  std::vector<Constraint> all = constraintsOf(problem), kept;
  if (std::optional<Conflict> promise = impossiblePromise(problem)) {
    SolveOptions own = options;
    own.timeLimitSeconds = std::min(own.timeLimitSeconds, secondsOfImpossible);
    Questions questions(own);
    kept.push_back(*find_if(all, [&](const Constraint &constraint) {
      return constraint.conflict.kind == promise->kind && constraint.conflict.index == promise->index;
    }));
    kept.back().conflict = std::move(*promise);
    return sayWhatWouldDo(problem, kept, questions);
  }
  Questions questions(options);
  questions.share(0.5, 0.5);
  Scarce scarce;
  std::optional<bool> isPossible = questions.isPossible(problem, nullptr, &scarce);
  if (isPossible.value_or(false))
    return std::vector<Conflict>();
  PlacementProblem p = problem;
  std::set<std::pair<Kind, int>> dropped;
  auto keyOf = [](const Constraint &constraint) {
    return std::pair(constraint.conflict.kind, constraint.conflict.index);
  };
  // Returns whether a plan is possible without more constraints; if not, they are dropped. An unsettled question counts
  // as possible: the set may then be larger than minimal, but it is never wrong.
  auto without = [&](ArrayRef<Constraint> group) {
    PlacementProblem tried = p;
    for (const Constraint &constraint : group)
      constraint.set(tried, unlimited);
    std::optional<bool> possible = questions.isPossible(tried, nullptr, &scarce);
    if (possible == false) {
      p = std::move(tried);
      for (const Constraint &constraint : group)
        dropped.insert(keyOf(constraint));
    }
    return possible;
  };
  auto leftOf = [&](ArrayRef<Constraint> group) {
    std::vector<Constraint> left;
    for (const Constraint &constraint : group)
      if (!dropped.count(keyOf(constraint)))
        left.push_back(constraint);
    return left;
  };
  // Drops the resources that a proof did without, which leaves few; a new proof may do without more.
  auto dropSpare = [&] {
    while (true) {
      std::vector<Constraint> spare = leftOf(all);
      erase_if(spare, [&](const Constraint &constraint) {
        return !isSum(constraint) || is_contained(scarce, keyOf(constraint));
      });
      if (spare.empty() || without(spare) != std::optional(false))
        return;
    }
  };
  // Tries halves first: most constraints are not part of the conflict.
  auto filter = [&](auto &self, ArrayRef<Constraint> group) -> void {
    std::vector<Constraint> left = leftOf(group);
    if (left.empty())
      return;
    std::optional<bool> possible = without(left);
    bool isLink = left.front().conflict.kind == Kind::LinkBandwidth;
    if (possible == false)
      return dropSpare();
    if (isLink && !possible)
      return; // the rest conflicts with links as they are
    if (left.size() == 1) {
      kept.push_back(left[0]);
      kept.back().conflict.settled = possible.has_value();
      return;
    }
    self(self, ArrayRef(left).take_front(left.size() / 2));
    self(self, ArrayRef(left).drop_front(left.size() / 2));
  };
  questions.share(0.7, 0.3);
  // Kinds are not constraints that somebody asked for: they are reported only if nothing else conflicts.
  std::vector<Constraint> asked = all;
  erase_if(asked, [](const Constraint &constraint) { return constraint.conflict.kind == Kind::Kinds; });
  PlacementProblem free = problem;
  for (const Constraint &constraint : asked)
    constraint.set(free, unlimited);
  if (questions.isPossible(free) == false)
    asked = all;
  if (isPossible == false)
    dropSpare();
  // Links come last: without their limits all times change, and few conflicts need that.
  auto links = std::stable_partition(asked.begin(), asked.end(), [](const Constraint &constraint) {
    return constraint.conflict.kind != Kind::LinkBandwidth;
  });
  size_t others = size_t(links - asked.begin());
  filter(filter, ArrayRef(asked).take_front(others));
  filter(filter, ArrayRef(asked).drop_front(others));
  // What was kept because its question stayed open may have been dropped by a later proof.
  erase_if(kept, [&](const Constraint &constraint) { return dropped.count(keyOf(constraint)) > 0; });
  return sayWhatWouldDo(problem, kept, questions);
}

} // namespace intarsia::plan
