//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Passes are timed on a clock that they move themselves, beside work that makes them slower for a while.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Probe/Turns.h"
#include "test/unit/Checked.h"

using namespace intarsia::probe;

namespace {

/// A machine on which a pass takes its milliseconds, times how slow the machine is at that time.
struct Machine {
  double now = 0;
  std::function<double(double)> slowness = [](double) { return 1.0; };
  std::vector<Pass> passes;
  std::vector<int> rounds;
  TurnOptions options;
  Patience patience;

  explicit Machine(std::vector<double> milliseconds) : rounds(milliseconds.size()) {
    options.clock = [this] { return now; };
    for (size_t i = 0; i < milliseconds.size(); ++i) {
      Pass &pass = passes.emplace_back();
      pass.round = [this, i, ms = milliseconds[i]] {
        now += ms * 1e-3 * slowness(now);
        ++rounds[i];
        return llvm::Error::success();
      };
      pass.more = i + 1 < milliseconds.size() ? int(i) + 1 : -1;
    }
  }

  std::vector<double> time() { return checked(timeInTurns(passes, options, patience)); }
};

/// Slow by `factor` from the first second to the second one.
std::function<double(double)> slowBetween(double first, double second, double factor) {
  return [=](double now) { return now >= first && now < second ? factor : 1; };
}

} // namespace

TEST(Turns, timesAreThoseOfAQuietMachine) {
  Machine machine({1, 2, 300});
  std::vector<double> us = machine.time();
  EXPECT_NEAR(us[0], 1e3, 1e-6);
  EXPECT_NEAR(us[1], 2e3, 1e-6);
  EXPECT_NEAR(us[2], 3e5, 1e-6);
  // A round of 300 ms counts at once, and no pass that has enough gets more than the fewest turns.
  EXPECT_EQ(machine.rounds[2], 1 + 3);
}

TEST(Turns, pointsThatContradictAreMeasuredAgain) {
  // Slow in the first rows of all turns: 2 rows seem to take longer than 4.
  Machine machine({10, 12, 14});
  machine.options.most = 3;
  machine.options.enoughSeconds = 10;
  int turns = 0;
  machine.passes[0].round = [&, round = machine.passes[0].round] {
    double before = machine.now;
    llvm::Error error = round();
    if (++turns <= 19) // as many rounds as the turns that all passes have
      machine.now = before + 0.020;
    return error;
  };
  std::vector<double> us = machine.time();
  EXPECT_NEAR(us[0], 1e4, 1e-3);
  EXPECT_NEAR(us[1], 12e3, 1e-3);
  // The last pass contradicts nothing and has no turns more than three, of eight warm rounds and two that count.
  EXPECT_GT(machine.rounds[0], 19);
  EXPECT_EQ(machine.rounds[2], 1 + 3 * 10);
}

TEST(Turns, noTimeFallsWithMoreRows) {
  // What stays slow takes the time of the pass that does more; nothing becomes slower.
  Machine machine({30, 12, 14, 13});
  std::vector<double> us = machine.time();
  EXPECT_NEAR(us[0], 12e3, 1e-3);
  EXPECT_NEAR(us[1], 12e3, 1e-3);
  EXPECT_NEAR(us[2], 13e3, 1e-3);
  EXPECT_NEAR(us[3], 13e3, 1e-3);
  // Passes that are not compared keep their times.
  Machine alone({30, 12});
  alone.passes[0].more = -1;
  us = alone.time();
  EXPECT_NEAR(us[0], 30e3, 1e-3);
}

TEST(Turns, turnsBesideOtherWorkAreTakenAgain) {
  auto measure = [](double patience) {
    Machine machine({10, 20});
    machine.slowness = slowBetween(0.05, 3, 2);
    machine.options.slowdown = [&] { return machine.slowness(machine.now); };
    machine.patience.seconds = patience;
    return std::pair(machine.time(), machine.patience);
  };
  auto [quiet, waited] = measure(20);
  EXPECT_NEAR(quiet[0], 1e4, 1e-3);
  EXPECT_NEAR(quiet[1], 2e4, 1e-3);
  EXPECT_EQ(waited.disturbedTurns, 0);
  EXPECT_LT(waited.seconds, 20);
  // Without patience the times are what they are, and it is known that they were disturbed.
  auto [slow, none] = measure(0);
  EXPECT_GT(slow[0], 1.9e4);
  EXPECT_GT(none.disturbedTurns, 0);
  EXPECT_LE(none.disturbedTurns, none.turns);
}

TEST(Turns, errorsOfPassesComeBack) {
  Machine machine({10, 20});
  machine.passes[1].reset = [] { return llvm::createStringError("no memory"); };
  llvm::Expected<std::vector<double>> us = timeInTurns(machine.passes, machine.options, machine.patience);
  ASSERT_FALSE(bool(us));
  EXPECT_EQ(llvm::toString(us.takeError()), "no memory");
}
