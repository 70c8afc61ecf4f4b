//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Reasons, fronts and changes of plans against enumeration, and errors of bad problems.
//===----------------------------------------------------------------------------------------------------------===//
#include "test/unit/Checked.h"
#include "test/unit/Plan/Solver/Instances.h"

using namespace intarsia::plan;

namespace {

/// Returns the least objective by enumeration; infinity if there is no plan.
double enumerated(const PlacementProblem &problem, const std::function<bool(const Placements &)> &wanted = nullptr) {
  oracle::Oracle oracle(problem);
  double best = unlimited;
  oracle.forAll([&](const Placements &plan) {
    if (wanted && !wanted(plan))
      return;
    auto verdict = oracle.judge(plan, best);
    if (verdict.objective < best && oracle.holds(verdict))
      best = verdict.objective;
  });
  return best;
}

/// Says whether there is a plan, by enumeration that ends with the first.
bool isPossible(const PlacementProblem &problem) {
  oracle::Oracle oracle(problem);
  bool found = false;
  oracle.forAll([&](const Placements &plan) {
    if (found)
      return;
    auto verdict = oracle.judge(plan, unlimited);
    found = verdict.objective < unlimited && oracle.holds(verdict);
  });
  return found;
}

/// Removes a constraint; written here a second time, independent of the solver.
PlacementProblem without(PlacementProblem p, const Conflict &conflict) {
  using Kind = Conflict::Kind;
  switch (conflict.kind) {
  case Kind::EndToEnd:
    p.agents[conflict.index].level.endToEndMs = unlimited;
    break;
  case Kind::FirstOutput:
    p.agents[conflict.index].level.firstOutputMs = unlimited;
    break;
  case Kind::Token:
    p.agents[conflict.index].level.tokenMs = unlimited;
    break;
  case Kind::PoolDevices:
    p.pools[conflict.index].devices = 1000000 * p.pools[conflict.index].devicesPerNode;
    break;
  case Kind::Dollars:
    p.dollarsPerHourCap = unlimited;
    break;
  case Kind::Watts:
    p.wattsCap = unlimited;
    break;
  case Kind::Grams:
    p.gramsPerHourCap = unlimited;
    break;
  case Kind::LinkBandwidth:
    p.links[conflict.index].gigabytesPerSecond = 1e6;
    break;
  case Kind::Calls:
    p.pieces[conflict.index].candidates.front().slots = 1000000;
    break;
  case Kind::Busy:
    for (Piece &piece : p.pieces)
      piece.headroom = 0;
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
  case Kind::Route:
    for (int a = 0; a < int(p.pools.size()); ++a)
      for (int b = 0; b < int(p.pools.size()); ++b) {
        bool linked = a == b;
        for (auto &link : p.links)
          linked |= std::count(link.pairs.begin(), link.pairs.end(), std::make_pair(a, b)) > 0;
        if (!linked)
          p.links.push_back({"new", {{a, b}}, 1e6});
      }
    break;
  }
  return p;
}

/// Removes all constraints but those of a conflict. `withLinks` leaves the bandwidths of links as they are.
PlacementProblem onlyWith(const PlacementProblem &problem, const std::vector<Conflict> &conflicts,
                          bool withLinks = false) {
  using Kind = Conflict::Kind;
  PlacementProblem only = problem;
  auto consider = [&](Kind kind, int index) {
    for (auto &conflict : conflicts)
      if (conflict.kind == kind && conflict.index == index)
        return;
    only = without(only, {kind, index});
  };
  for (int i = 0; i < int(problem.pools.size()); ++i)
    consider(Kind::PoolDevices, i);
  for (int i = 0; i < int(problem.links.size()) && !withLinks; ++i)
    consider(Kind::LinkBandwidth, i);
  for (int i = 0; i < int(problem.pieces.size()); ++i)
    consider(Kind::Pin, i);
  for (int i = 0; i < int(problem.together.size()); ++i)
    consider(Kind::Together, i);
  for (int i = 0; i < int(problem.apart.size()); ++i)
    consider(Kind::Apart, i);
  // Kinds are in the set only if nothing else conflicts; otherwise they stay as they are.
  bool ofKinds = std::any_of(conflicts.begin(), conflicts.end(),
                             [](const Conflict &conflict) { return conflict.kind == Kind::Kinds; });
  for (int i = 0; i < int(problem.edges.size()); ++i)
    if (ofKinds && !problem.edges[i].fromKinds.empty())
      consider(Kind::Kinds, i);
  for (int i = 0; i < int(problem.agents.size()); ++i)
    for (Kind kind : {Kind::EndToEnd, Kind::FirstOutput, Kind::Token})
      consider(kind, i);
  for (Kind kind : {Kind::Dollars, Kind::Watts, Kind::Grams, Kind::Busy, Kind::Route})
    consider(kind, -1);
  return only;
}

TEST(PlanInfeasible, setsAreMinimalByEnumeration) {
  constexpr int wanted = 60;
  using Kind = Conflict::Kind;
  int seen = 0, several = 0, relaxed = 0;
  for (uint64_t seed = 0; seed < 400 && seen < wanted; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(1500);
    if (isPossible(problem))
      continue;
    ++seen;
    std::vector<Conflict> conflicts = checked(explainInfeasibility(problem));
    ASSERT_FALSE(conflicts.empty()) << "seed " << seed;
    several += conflicts.size() > 1;
    // Each is needed: with all constraints outside of the set gone the problem is impossible, and possible as soon as
    // one of the set goes too.
    PlacementProblem only = onlyWith(problem, conflicts);
    EXPECT_FALSE(isPossible(only)) << "seed " << seed;
    for (auto &conflict : conflicts) {
      EXPECT_TRUE(isPossible(without(only, conflict))) << "seed " << seed << ": " << conflict.text;
      if (!conflict.relaxed || (conflict.kind != Kind::EndToEnd && conflict.kind != Kind::PoolDevices))
        continue;
      // The value that would be enough is, and a little less is not.
      ++relaxed;
      for (double factor : {1.0, -1.0}) {
        PlacementProblem changed = problem;
        if (conflict.kind == Kind::EndToEnd)
          changed.agents[conflict.index].level.endToEndMs = *conflict.relaxed * (1 + factor * 1e-5);
        else
          changed.pools[conflict.index].devices = std::llround(*conflict.relaxed) - (factor < 0);
        EXPECT_EQ(isPossible(changed), factor > 0) << "seed " << seed << ": " << conflict.text;
      }
    }
  }
  EXPECT_EQ(seen, wanted);
  EXPECT_GT(several, wanted / 6);
  EXPECT_GT(relaxed, wanted / 6);
}

TEST(PlanInfeasible, setsAreTrueWhereTimeEnds) {
  // Limits from no time at all to about what a set takes: questions stay open in other places on other machines, and
  // what conflicts is impossible in all of them.
  int seen = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(1000);
    if (isPossible(problem))
      continue;
    ++seen;
    for (double seconds : {0.0, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 0.0256}) {
      SolveOptions options;
      options.timeLimitSeconds = seconds;
      std::vector<Conflict> conflicts = checked(explainInfeasibility(problem, options));
      ASSERT_FALSE(conflicts.empty()) << "seed " << seed << ", " << seconds << " s";
      EXPECT_FALSE(isPossible(onlyWith(problem, conflicts, /*withLinks=*/true)))
          << "seed " << seed << ", " << seconds << " s";
    }
  }
  EXPECT_GT(seen, 20);
}

TEST(PlanInfeasible, saysNothingOfAPossibleProblem) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(500);
    if (enumerated(problem) < unlimited)
      EXPECT_TRUE(checked(explainInfeasibility(problem)).empty());
  }
}

TEST(PlanWhyNot, equalsEnumerationWithoutTheChoice) {
  int alternatives = 0, impossible = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(1000);
    SolveResult result = checked(solve(problem));
    if (!result.hasPlan())
      continue;
    for (auto &alternative : checked(explainChoices(problem, result, true))) {
      double expected = enumerated(problem, [&](const Placements &plan) {
        int choice = plan[alternative.piece].choice;
        return alternative.pool ? problem.pieces[alternative.piece].candidates[choice].pool == *alternative.pool
                                : choice != result.placements[alternative.piece].choice;
      });
      EXPECT_TRUE(alternative.exact);
      EXPECT_EQ(alternative.possible, expected < unlimited) << "seed " << seed << " " << alternative.reason;
      if (alternative.possible)
        EXPECT_NEAR(alternative.objective, expected, 2e-6 * expected) << "seed " << seed;
      EXPECT_FALSE(alternative.reason.empty());
      ++alternatives, impossible += !alternative.possible;
    }
  }
  EXPECT_GT(alternatives, 200);
  EXPECT_GT(impossible, 20);
}

TEST(PlanPareto, isTheFrontThatEnumerationFinds) {
  int fronts = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(800);
    problem.objective = Objective::DollarsPerRequest;
    problem.previous.clear();
    if (problem.agents.size() > 1 || enumerated(problem) == unlimited)
      continue;
    std::vector<ParetoPoint> front = checked(paretoFront(problem, 6));
    ASSERT_FALSE(front.empty());
    oracle::Oracle oracle(problem);
    std::vector<std::pair<double, double>> points;
    oracle.forAll([&](const Placements &plan) {
      auto verdict = oracle.judge(plan);
      if (oracle.holds(verdict))
        points.push_back({verdict.objective, verdict.endToEnd[0]});
    });
    double fastest = unlimited, cheapest = unlimited;
    for (auto [dollars, ms] : points)
      fastest = std::min(fastest, ms), cheapest = std::min(cheapest, dollars);
    EXPECT_NEAR(front.front().evaluation.dollarsPerRequest, cheapest, 2e-6 * cheapest) << "seed " << seed;
    EXPECT_NEAR(front.back().evaluation.latencyMs, fastest, 1e-5 * fastest) << "seed " << seed;
    for (auto &point : front)
      for (auto [dollars, ms] : points)
        EXPECT_FALSE(dollars < point.evaluation.dollarsPerRequest * (1 - 1e-5) &&
                     ms < point.evaluation.latencyMs * (1 - 1e-5))
            << "seed " << seed << ": " << dollars << " " << ms;
    fronts += front.size() > 1;
  }
  EXPECT_GT(fronts, 10);
}

TEST(PlanSensitivity, plansChangeWhereItSays) {
  int prices = 0, bounds = 0, known = 0, unknown = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(400);
    problem.objective = Objective::DollarsPerHour;
    problem.previous.clear();
    for (auto &agent : problem.agents)
      agent.requestsPerSecond = std::max(agent.requestsPerSecond, 1.0);
    SolveResult result = checked(solve(problem));
    if (!result.hasPlan() || result.evaluation.dollarsPerHour <= 0)
      continue;
    SolveOptions quick;
    quick.timeLimitSeconds = 2;
    auto all = checked(explainSensitivity(problem, result, quick));
    for (size_t i = 0; i < all.size(); ++i) {
      ++(all[i].aboveIsKnown ? known : unknown);
      if (all[i].kind != Sensitivity::Kind::Price && all[i].kind != Sensitivity::Kind::EndToEnd)
        continue;
      for (auto [value, outwards] : {std::pair{all[i].below, -1.0}, std::pair{all[i].above, 1.0}}) {
        if (!value)
          continue;
        // Just before it the plan is still the best, just beyond it is not.
        for (double side : {-1.0, 1.0}) {
          PlacementProblem changed = problem;
          double figure = *value * (1 + side * outwards * 2e-5);
          bool price = all[i].kind == Sensitivity::Kind::Price;
          if (price)
            changed.pools[all[i].index].dollarsPerDeviceHour = figure;
          else
            changed.agents[all[i].index].level.endToEndMs = figure;
          double best = enumerated(changed);
          oracle::Oracle oracle(changed);
          auto verdict = oracle.judge(result.placements);
          bool stays = oracle.holds(verdict) && verdict.objective <= best * (1 + 1e-9);
          if (side < 0 && (figure - all[i].given) * outwards >= 0)
            EXPECT_TRUE(verdict.objective <= best * (1 + 2e-5))
                << "seed " << seed << " " << all[i].text << " " << figure;
          if (side > 0)
            EXPECT_FALSE(stays) << "seed " << seed << " " << all[i].text << " " << figure;
          ++(price ? prices : bounds);
        }
      }
    }
  }
  EXPECT_LT(unknown, known / 20);
  EXPECT_GT(prices, 20);
  EXPECT_GT(bounds, 20);
}

TEST(PlanSensitivity, breaksWhereItSays) {
  int slow = 0, busy = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(200);
    problem.objective = Objective::JoulesPerRequest; // no prices to ask about
    SolveOptions quick;
    quick.timeLimitSeconds = 0.5;
    SolveResult result = checked(solve(problem, quick)); // any plan will do
    if (!result.hasPlan())
      continue;
    for (const Sensitivity &of : checked(explainSensitivity(problem, result))) {
      bool rate = of.kind == Sensitivity::Kind::Rate;
      if (!rate && of.kind != Sensitivity::Kind::Slowness)
        continue;
      EXPECT_EQ(of.above.has_value(), !of.breaks.empty());
      auto holdsAt = [&](double factor) {
        PlacementProblem changed = problem;
        for (Piece &piece : changed.pieces)
          piece.headroom = 0; // it is there for slower times and more requests
        if (rate)
          changed.agents[of.index].requestsPerSecond *= factor;
        else
          for (size_t index = 0; index < changed.pieces.size(); ++index) {
            Choice &choice = changed.pieces[index].candidates[result.placements[index].choice];
            double whole = choice.milliseconds, own = choice.pool == of.index ? factor : 1;
            if (choice.millisecondsAlone)
              *choice.millisecondsAlone *= own;
            choice.milliseconds *= own;
            double share = whole > 0 ? choice.milliseconds / whole : 1;
            choice.tokenMs *= share;
            if (choice.firstOutputMs)
              *choice.firstOutputMs *= share;
            if (choice.executionsPerSecond)
              *choice.executionsPerSecond /= share;
          }
        oracle::Oracle oracle(changed);
        for (size_t piece = 0; piece < changed.pieces.size(); ++piece)
          if (oracle.leastReplicas(int(piece), changed.pieces[piece].candidates[result.placements[piece].choice]) >
              result.placements[piece].replicas)
            return false;
        return oracle.holds(oracle.judge(result.placements));
      };
      if (!of.above) {
        EXPECT_TRUE(holdsAt(9.99)) << "seed " << seed << " " << of.text;
        continue;
      }
      // A small bound may be exceeded by what the planner takes for rounding, 1e-7 of its unit.
      EXPECT_TRUE(holdsAt(*of.above / of.given * (1 - 2e-3)))
          << "seed " << seed << " " << of.text << " " << *of.above << ": " << of.breaks;
      EXPECT_FALSE(holdsAt(*of.above / of.given * (1 + 3e-3))) << "seed " << seed << " " << of.text << *of.above;
      ++(rate ? busy : slow);
    }
  }
  EXPECT_GT(slow, 30);
  EXPECT_GT(busy, 30);
}

TEST(PlanSensitivity, saysWhatTimeLeftOpen) {
  PlacementProblem problem = instances::Generator(3).make(400);
  problem.objective = Objective::DollarsPerHour;
  SolveResult result = checked(solve(problem));
  ASSERT_TRUE(result.hasPlan());
  SolveOptions none;
  none.timeLimitSeconds = 0;
  int prices = 0;
  for (const Sensitivity &of : checked(explainSensitivity(problem, result, none)))
    if (of.kind == Sensitivity::Kind::Price) {
      ++prices;
      EXPECT_FALSE(of.belowIsKnown) << of.text;
      EXPECT_FALSE(of.below) << of.text;
    }
  EXPECT_GT(prices, 0);
}

/// A dag with an arc, whose second piece gets 20 requests a second and takes 100 ms: one replica of one slot has 10.
TEST(PlanSaturated, hasNoTimesAndSaysWhy) {
  for (bool percentile : {false, true}) {
    PlacementProblem p;
    p.pools.push_back({"pool", 8, 1, false, 3.6});
    for (auto [name, milliseconds] : {std::pair("quick", 10.0), {"slow", 100.0}}) {
      Piece piece;
      piece.name = name;
      Choice choice;
      choice.label = name;
      choice.devicesPerReplica = 1;
      choice.milliseconds = milliseconds;
      piece.candidates = {choice};
      p.pieces.push_back(piece);
    }
    p.edges.push_back({"edge", 0, 1, 0});
    Agent agent{"agent", 20};
    agent.regions = {Region::dag({1, 2}, {{0, 1, {0}}}), Region::execution(0), Region::execution(1)};
    agent.level.endToEndMs = 1000;
    if (percentile)
      agent.level.percentile = 0.95;
    Agent other{"other", 1};
    other.regions = {Region::execution(0)};
    p.agents = {agent, other};
    ASSERT_FALSE(bool(p.validate()));
    // One replica is far beyond what it sustains, two are exactly at it.
    for (int64_t replicas : {1, 2}) {
      Evaluation evaluation = evaluate(p, {{0, 1}, {0, replicas}});
      EXPECT_EQ(evaluation.agents[0].endToEndMs, unlimited);
      EXPECT_EQ(evaluation.agents[0].firstOutputMs, unlimited);
      EXPECT_EQ(evaluation.agents[0].meanMs, unlimited);
      EXPECT_EQ(evaluation.waitMs[1], unlimited);
      EXPECT_EQ(evaluation.utilization[1], 2.0 / replicas);
      ASSERT_EQ(evaluation.violations.size(), 1u);
      EXPECT_NE(evaluation.violations[0].find("piece 'slow'"), std::string::npos) << evaluation.violations[0];
      EXPECT_NE(evaluation.violations[0].find("20.00 are asked for"), std::string::npos) << evaluation.violations[0];
      // An hour has 3600 times 21 requests and pays for the devices all the same; who does not need the piece has
      // times.
      EXPECT_NEAR(evaluation.dollarsPerRequest, 3.6 * (1 + replicas) / 3600 / 21, 1e-12);
      EXPECT_TRUE(evaluation.agents[1].endToEndMs >= 10 && evaluation.agents[1].endToEndMs < 1000);
    }
    EXPECT_TRUE(evaluate(p, {{0, 1}, {0, 4}}).feasible());
  }
}

TEST(PlanReplan, keepsWhatCanStay) {
  int replanned = 0, kept = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    PlacementProblem problem = instances::Generator(seed).make(800);
    problem.objective = Objective::DollarsPerRequest;
    problem.previous.clear();
    SolveResult result = checked(solve(problem));
    if (!result.hasPlan())
      continue;
    int used = int(std::max_element(result.evaluation.devices.begin(), result.evaluation.devices.end()) -
                   result.evaluation.devices.begin());
    if (result.evaluation.devices[used] == 0)
      continue;
    int64_t lost = problem.pools[used].devices - result.evaluation.devices[used] + 1;
    // A move costs more than anything else: the new plan moves as few pieces as possible.
    PlacementProblem changed = problem;
    changed.pools[used].devices -= lost;
    changed.previous = result.placements;
    changed.moveCost = result.evaluation.objective * 100 + 1;
    SolveResult again = checked(solve(changed));
    int fewest = 1000;
    oracle::Oracle oracle(changed);
    oracle.forAll([&](const Placements &plan) {
      auto verdict = oracle.judge(plan);
      int moves = 0;
      for (size_t i = 0; i < plan.size(); ++i)
        moves += plan[i].choice != result.placements[i].choice;
      if (moves < fewest && oracle.holds(verdict))
        fewest = moves;
    });
    ASSERT_EQ(again.hasPlan(), fewest < 1000) << "seed " << seed;
    if (!again.hasPlan())
      continue;
    EXPECT_EQ(again.evaluation.moves, fewest) << "seed " << seed;
    ++replanned, kept += fewest < int(problem.pieces.size());
  }
  EXPECT_GT(replanned, 15);
  EXPECT_GT(kept, 10);
}

/// A valid problem, changed into a bad one, and what it must be told.
TEST(PlanBadInput, isNamed) {
  auto valid = [] {
    PlacementProblem p;
    p.pools = {{.name = "fast", .devices = 8, .dollarsPerDeviceHour = 3}, {.name = "cheap", .devices = 8}};
    p.links = {{"wire", {{0, 1}}, 10, 5}};
    Piece piece{"decode", "chat.py:7"};
    piece.candidates = {{.label = "bf16", .pool = 0, .devicesPerReplica = 1, .milliseconds = 10}};
    p.pieces = {piece};
    Agent agent{.name = "chat", .requestsPerSecond = 1};
    agent.regions = {Region::execution(0)};
    p.agents = {agent};
    return p;
  };
  EXPECT_FALSE(static_cast<bool>(valid().validate()));
  struct {
    std::function<void(PlacementProblem &)> breakIt;
    const char *message;
  } cases[] = {
      {[](auto &p) { p.pools.clear(); }, "the fleet is empty: list at least one pool"},
      {[](auto &p) { p.agents.clear(); }, "there is no agent to place"},
      {[](auto &p) { p.pieces[0].candidates.clear(); }, "piece 'decode' (chat.py:7): has no candidates"},
      {[](auto &p) { p.pools[0].dollarsPerDeviceHour = -1; }, "pool 'fast': dollars per device-hour -1"},
      {[](auto &p) { p.pools[0].dollarsPerDeviceHour = NAN; }, "pool 'fast': dollars per device-hour nan"},
      {[](auto &p) { p.pools[0].idleWatts = 10; }, "pool 'fast': idle watts, of the busy ones 10"},
      {[](auto &p) { p.links[0].gigabytesPerSecond = 0; }, "link 'wire': has no bandwidth"},
      {[](auto &p) { p.links.push_back(p.links[0]); }, "leads where another one does"},
      {[](auto &p) { p.links[0].pairs[0].second = 7; }, "link 'wire': pool 7 does not exist (there are 2)"},
      {[](auto &p) { p.pieces[0].candidates[0].milliseconds = NAN; }, "choice 'bf16': milliseconds nan"},
      {[](auto &p) { p.pieces[0].candidates[0].firstOutputMs = 11; },
       "milliseconds to the first output 11, it must be from 0 to 10"},
      {[](auto &p) { p.pieces[0].candidates[0].executionsPerSecond = 200; }, "need more than its slots"},
      {[](auto &p) { p.pieces[0].candidates[0].deviceShare = 0.3; }, "a share is 1, or 1/2, 1/4 or 1/8 of one device"},
      {[](auto &p) { p.pieces[0].candidates[0].deviceShare = NAN; }, "a share is 1, or 1/2, 1/4 or 1/8 of one device"},
      {[](auto &p) { p.pieces[0].candidates[0].devicesPerReplica = 2, p.pieces[0].candidates[0].deviceShare = 0.5; },
       "a share is 1, or 1/2, 1/4 or 1/8 of one device"},
      {[](auto &p) { p.pieces[0].shape = Shape::lognormal(5); }, "between 1 and 3.86"},
      {[](auto &p) { p.pieces[0].shape = Shape::discrete({{1, 0.5}}); }, "sum to 0.50, not to 1"},
      {[](auto &p) { p.agents[0].level.percentile = 95; }, "the percentile is not between 0 and 1"},
      {[](auto &p) { p.agents[0].level.endToEndMs = NAN; }, "a bound is below zero or no number"},
      {[](auto &p) { p.agents[0].requestsPerSecond = -2; }, "requests per second -2"},
      {[](auto &p) {
         p.agents[0].regions = {Region::execution(0), Region::execution(0), Region::branch({0, 1}, {0.5, 0.6})};
         p.agents[0].root = 2;
       },
       "probabilities sum to 1.10, not to 1"},
      {[](auto &p) {
         p.agents[0].regions = {Region::execution(0), Region::loop(0, {})};
         p.agents[0].root = 1;
       },
       "a loop or map without one child or a bound"},
      {[](auto &p) {
         p.agents[0].regions = {Region::execution(0), Region::loop(0, {{2000000000, 1.0}})};
         p.agents[0].root = 1;
       },
       "number of runs 2e+09"},
      {[](auto &p) {
         p.agents[0].regions = {Region::execution(0), Region::execution(0), Region::dag({0, 1}, {{1, 0, {}}})};
         p.agents[0].root = 2;
       },
       "cycles belong into a loop"},
      {[](auto &p) {
         p.agents[0].regions = {Region::execution(0), Region::dag({0, 0}, {})};
         p.agents[0].root = 1;
       },
       "a region is part of none, of several, or of itself"},
      {[](auto &p) { p.agents[0].regions[0].piece = 3; }, "piece 3 does not exist"},
      {[](auto &p) { p.dollarsPerHourCap = -1; }, "a cap is below zero or no number"},
      {[](auto &p) { p.previous = {{5, 1}}; }, "places 'decode' by a choice that it does not have"},
  };
  for (auto &bad : cases) {
    PlacementProblem problem = valid();
    bad.breakIt(problem);
    auto result = solve(problem);
    ASSERT_FALSE(static_cast<bool>(result)) << bad.message;
    std::string message = toString(result.takeError());
    EXPECT_NE(message.find(bad.message), std::string::npos) << "'" << message << "' lacks '" << bad.message << "'";
  }
}

TEST(PlanBadInput, explainingNoPlanIsAnError) {
  PlacementProblem problem = instances::Generator(0).make(100);
  auto result = explainChoices(problem, SolveResult(), false);
  ASSERT_FALSE(static_cast<bool>(result));
  EXPECT_NE(toString(result.takeError()).find("there is no plan to explain"), std::string::npos);
}

} // namespace
