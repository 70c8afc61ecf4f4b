//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// CBC on small programs, whose optima are known or enumerated.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Solver/MixedInteger.h"
#include "gtest/gtest.h"
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <thread>

using namespace intarsia::plan;

namespace {

/// Returns a knapsack problem; costs are the negative worths.
MixedIntegerProgram knapsack(const std::vector<double> &worths, const std::vector<double> &weights, double limit) {
  MixedIntegerProgram program;
  MixedIntegerProgram::LinearRow row{"weight", {}, -unlimited, limit};
  for (size_t i = 0; i < worths.size(); ++i)
    row.entries.push_back({program.addColumn("x" + std::to_string(i), -worths[i], 0, 1, true), weights[i]});
  program.rows.push_back(row);
  return program;
}

/// Returns problem P01 (J. Burkardt, data sets of knapsack problems), with optimum 309.
MixedIntegerProgram knownKnapsack(double scale = 1) {
  std::vector<double> worths{92, 57, 49, 68, 60, 43, 67, 84, 87, 72};
  for (double &worth : worths)
    worth *= scale;
  return knapsack(worths, {23, 31, 29, 44, 53, 38, 63, 85, 89, 82}, 165);
}

/// Returns large knapsacks whose worths follow weights: no solver proves their optimum quickly.
MixedIntegerProgram hardKnapsacks(int columns, int rows, uint64_t seed) {
  std::mt19937_64 engine(seed);
  auto unit = [&] { return double(engine() >> 11) * 0x1.0p-53; };
  MixedIntegerProgram program;
  std::vector<double> worths(columns, 0.0);
  for (int row = 0; row < rows; ++row) {
    MixedIntegerProgram::LinearRow limit{"row" + std::to_string(row), {}, -unlimited, 0};
    double sum = 0;
    for (int column = 0; column < columns; ++column) {
      double weight = 1 + std::floor(1000 * unit());
      limit.entries.push_back({column, weight});
      worths[column] += weight / rows;
      sum += weight;
    }
    limit.upper = sum / 2;
    program.rows.push_back(limit);
  }
  for (int column = 0; column < columns; ++column)
    program.addColumn("x" + std::to_string(column), -(worths[column] + 500 * unit()), 0, 1, true);
  return program;
}

bool holds(const MixedIntegerProgram &program, const std::vector<double> &values) {
  for (size_t column = 0; column < program.columns.size(); ++column)
    if (values[column] < program.columns[column].lower - 1e-6 || values[column] > program.columns[column].upper + 1e-6)
      return false;
  for (auto &row : program.rows) {
    double sum = 0, size = 1;
    for (auto &entry : row.entries) {
      sum += entry.factor * values[entry.column];
      size = std::max(size, std::abs(entry.factor));
    }
    if (sum < row.lower - 1e-6 * size || sum > row.upper + 1e-6 * size)
      return false;
  }
  return true;
}

TEST(PlanMixedInteger, findsTheOptimumOfAKnapsack) {
  // Dollars per request are small.
  for (double scale : {1.0, 1e-7, 1e6}) {
    MixedIntegerResult result = solveMixedInteger(knownKnapsack(scale), 10, 1e-9, {});
    ASSERT_TRUE(result.found && result.proven && !result.infeasible);
    EXPECT_EQ(result.values, (std::vector<double>{1, 1, 1, 1, 0, 1, 0, 0, 0, 0}));
    EXPECT_NEAR(result.objective, -309 * scale, 1e-9 * scale);
    EXPECT_NEAR(result.bound, -309 * scale, 1e-5 * scale);
  }
}

TEST(PlanMixedInteger, holdsEqualities) {
  // 3 a + 5 b + 7 c = 37 in whole numbers, at the least a + 2 b + 3.1 c, where b is 1 or more and the half of d.
  MixedIntegerProgram program;
  int a = program.addColumn("a", 1, 0, 9, true), b = program.addColumn("b", 2, 1, 9, true),
      c = program.addColumn("c", 3.1, 0, 9, true), d = program.addColumn("d", 0, 0, unlimited, false);
  program.rows.push_back({"sum", {{a, 3}, {b, 5}, {c, 7}}, 37, 37});
  program.rows.push_back({"half", {{b, 2}, {d, -1}}, 0, 0});
  double least = unlimited;
  for (int x = 0; x <= 9; ++x)
    for (int y = 1; y <= 9; ++y)
      for (int z = 0; z <= 9; ++z)
        if (3 * x + 5 * y + 7 * z == 37)
          least = std::min(least, x + 2 * y + 3.1 * z);
  MixedIntegerResult result = solveMixedInteger(program, 10, 1e-9, {});
  ASSERT_TRUE(result.found && result.proven);
  EXPECT_NEAR(result.objective, least, 1e-9);
  EXPECT_TRUE(holds(program, result.values));
  EXPECT_NEAR(result.values[d], 2 * result.values[b], 1e-6);
}

TEST(PlanMixedInteger, provesThatThereIsNoSolution) {
  // The relaxation has one, 0.5; whole numbers have none.
  MixedIntegerProgram program;
  int x = program.addColumn("x", 1, 0, 5, true);
  program.rows.push_back({"half", {{x, 2}}, 1, 1});
  MixedIntegerResult result = solveMixedInteger(program, 10, 1e-9, {});
  EXPECT_TRUE(result.infeasible && result.proven && !result.found);
  // Nor has the relaxation.
  program.rows.push_back({"far", {{x, 1}}, 7, 8});
  result = solveMixedInteger(program, 10, 1e-9, {});
  EXPECT_TRUE(result.infeasible && result.proven && !result.found);
}

TEST(PlanMixedInteger, doesNotCallUnboundedInfeasible) {
  MixedIntegerProgram program;
  int x = program.addColumn("x", -1, 0, unlimited, true), y = program.addColumn("y", 0, 0, unlimited, false);
  program.rows.push_back({"above", {{x, 1}, {y, -1}}, -unlimited, 3});
  MixedIntegerResult result = solveMixedInteger(program, 10, 1e-9, {});
  EXPECT_FALSE(result.infeasible || result.proven);
  // A row that nothing satisfies makes the program infeasible, however far costs could fall.
  program.rows.push_back({"never", {{x, 1}, {y, 1}}, -unlimited, -1});
  result = solveMixedInteger(program, 10, 1e-9, {});
  EXPECT_TRUE(result.infeasible && result.proven && !result.found);
}

TEST(PlanMixedInteger, keepsTheStartWhereTimeEnds) {
  MixedIntegerProgram program = hardKnapsacks(400, 30, 1);
  std::vector<double> start(400);
  start[3] = start[70] = start[200] = 1;
  ASSERT_TRUE(holds(program, start));
  double objective = 0;
  for (int column : {3, 70, 200})
    objective += program.columns[column].cost;
  auto began = std::chrono::steady_clock::now();
  MixedIntegerResult result = solveMixedInteger(program, 0, 1e-9, start);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  ASSERT_TRUE(result.found);
  EXPECT_FALSE(result.proven || result.infeasible);
  EXPECT_LE(result.objective, objective * (1 - 1e-9));
  EXPECT_TRUE(holds(program, result.values));
  EXPECT_LE(result.bound, result.objective);
  EXPECT_LT(seconds, 2);
}

TEST(PlanMixedInteger, saysNothingOfWhatItHadNoTimeFor) {
  // Every other one of so many columns, in equal sums: no first guess holds it.
  MixedIntegerProgram program = hardKnapsacks(300, 40, 2);
  for (auto &row : program.rows)
    row.lower = row.upper = std::floor(row.upper);
  MixedIntegerResult result = solveMixedInteger(program, 0.05, 1e-9, {});
  EXPECT_FALSE(result.found || result.proven || result.infeasible);
}

/// A quadratic assignment of `size` facilities, made linear with a column for each two assignments (Adams and Johnson
/// 1994): even without integers a simplex method takes long.
MixedIntegerProgram quadraticAssignment(int size, uint64_t seed) {
  std::mt19937_64 engine(seed);
  MixedIntegerProgram program;
  auto one = [&](int facility, int site) { return facility * size + site; };
  for (int column = 0; column < size * size; ++column)
    program.addColumn("x" + std::to_string(column), 0, 0, 1, true);
  for (int facility = 0; facility < size; ++facility) {
    MixedIntegerProgram::LinearRow placed{"placed", {}, 1, 1}, taken{"taken", {}, 1, 1};
    for (int site = 0; site < size; ++site) {
      placed.entries.push_back({one(facility, site), 1});
      taken.entries.push_back({one(site, facility), 1});
    }
    program.rows.insert(program.rows.end(), {placed, taken});
  }
  std::vector<std::vector<int>> both(size * size, std::vector<int>(size * size, -1)); // columns, by two assignments
  for (int i = 0; i < size; ++i)
    for (int k = i + 1; k < size; ++k)
      for (int j = 0; j < size; ++j)
        for (int l = 0; l < size; ++l)
          if (j != l)
            both[one(i, j)][one(k, l)] = both[one(k, l)][one(i, j)] =
                program.addColumn("y", double(engine() % 100), 0, unlimited, false);
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j)
      for (int k = 0; k < size; ++k) {
        MixedIntegerProgram::LinearRow row{"both", {{one(i, j), -1}}, 0, 0};
        for (int l = 0; l < size && k != i; ++l)
          if (l != j)
            row.entries.push_back({both[one(i, j)][one(k, l)], 1});
        if (k != i)
          program.rows.push_back(row);
      }
  return program;
}

TEST(PlanMixedInteger, endsWithTheTimeWithinTheFirstRelaxation) {
  MixedIntegerProgram program = quadraticAssignment(16, 4);
  auto began = std::chrono::steady_clock::now();
  MixedIntegerResult result = solveMixedInteger(program, 0.2, 1e-9, {});
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), 2);
  EXPECT_FALSE(result.proven || result.infeasible);
  EXPECT_LE(result.bound, 0);
}

TEST(PlanMixedInteger, endsAtTheGap) {
  MixedIntegerProgram program = hardKnapsacks(40, 4, 3);
  MixedIntegerResult exact = solveMixedInteger(program, 60, 1e-7, {}), rough = solveMixedInteger(program, 60, 0.2, {});
  ASSERT_TRUE(exact.found && exact.proven && rough.found && rough.proven);
  EXPECT_TRUE(holds(program, exact.values) && holds(program, rough.values));
  EXPECT_LE(exact.objective - exact.bound, 1.1e-7 * std::abs(exact.objective));
  EXPECT_LE(rough.objective - rough.bound, 0.2001 * std::abs(rough.objective));
  // The solver does not prove more than the gap.
  EXPECT_GT(rough.objective - rough.bound, 1e-5 * std::abs(rough.objective));
  EXPECT_LE(rough.bound, exact.objective + 1e-6 * std::abs(exact.objective));
}

TEST(PlanMixedInteger, equalsEnumeration) {
  std::mt19937_64 engine(5);
  auto whole = [&](int low, int high) { return low + int(engine() % uint64_t(high - low + 1)); };
  int feasible = 0;
  for (int instance = 0; instance < 60; ++instance) {
    MixedIntegerProgram program;
    int columns = whole(2, 7);
    for (int i = 0; i < columns; ++i)
      program.addColumn("x" + std::to_string(i), whole(-9, 9) * 1e-3, whole(-1, 0), whole(1, 3), true);
    for (int i = 0, rows = whole(1, 4); i < rows; ++i) {
      MixedIntegerProgram::LinearRow row{"row" + std::to_string(i), {}, -unlimited, double(whole(-4, 8))};
      for (int column = 0; column < columns; ++column)
        if (int factor = whole(-5, 5))
          row.entries.push_back({column, double(factor)});
      if (whole(0, 2) == 0)
        row.lower = row.upper;
      else if (whole(0, 1))
        row.lower = row.upper - whole(0, 6);
      program.rows.push_back(row);
    }
    double least = unlimited;
    std::vector<double> values;
    for (auto &column : program.columns)
      values.push_back(column.lower);
    for (bool more = true; more;) {
      if (holds(program, values)) {
        double objective = 0;
        for (int i = 0; i < columns; ++i)
          objective += program.columns[i].cost * values[i];
        least = std::min(least, objective);
      }
      more = false;
      for (int i = 0; i < columns && !more; ++i) {
        more = values[i] < program.columns[i].upper;
        values[i] = more ? values[i] + 1 : program.columns[i].lower;
      }
    }
    MixedIntegerResult result = solveMixedInteger(program, 10, 1e-9, {});
    ASSERT_TRUE(result.proven) << instance;
    ASSERT_EQ(result.infeasible, least == unlimited) << instance;
    ASSERT_EQ(result.found, least < unlimited) << instance;
    if (!result.found)
      continue;
    ++feasible;
    EXPECT_TRUE(holds(program, result.values)) << instance;
    EXPECT_NEAR(result.objective, least, 1e-9) << instance;
    EXPECT_LE(result.bound, least + 1e-9) << instance;
  }
  EXPECT_GT(feasible, 20);
  EXPECT_LT(feasible, 55);
}

TEST(PlanMixedInteger, solvesOnSeveralThreads) {
  // CBC's own functions, called at once, take options of each other, say so, and may wait for input.
  testing::internal::CaptureStdout();
  double objectives[4];
  std::vector<std::thread> threads;
  for (double &objective : objectives)
    threads.emplace_back([&] {
      for (int again = 0; again < 30; ++again)
        objective = solveMixedInteger(hardKnapsacks(12, 3, 4), 30, 1e-9, {}).objective;
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  double alone = solveMixedInteger(hardKnapsacks(12, 3, 4), 30, 1e-9, {}).objective;
  EXPECT_LT(alone, 0);
  for (double objective : objectives)
    EXPECT_NEAR(objective, alone, 1e-6);
}

/// Looks at no clock.
ScaledOutcome waitForever(const ScaledProgram &, double, double, llvm::ArrayRef<double>) {
  while (true)
    std::this_thread::sleep_for(std::chrono::seconds(1));
}
/// Ends the process that it is in.
ScaledOutcome crash(const ScaledProgram &, double, double, llvm::ArrayRef<double>) { std::abort(); }

TEST(PlanSolverProcess, isStoppedWhereItDoesNotStop) {
  MixedIntegerProgram program = knownKnapsack();
  std::vector<double> start(10);
  start[2] = 1;
  for (auto *solver : {waitForever, crash}) {
    testing::internal::CaptureStderr();
    MixedIntegerResult result = solveMixedInteger(program, 0.2, 1e-9, start, solver);
    std::string warnings = testing::internal::GetCapturedStderr();
    EXPECT_EQ(warnings.find("CBC crashed: ") != std::string::npos, solver == crash) << warnings;
    EXPECT_TRUE(result.found && !result.proven && !result.infeasible);
    EXPECT_EQ(result.values, start);
    EXPECT_EQ(result.objective, -49);
    EXPECT_EQ(result.bound, -unlimited);
    result = solveMixedInteger(program, 0.2, 1e-9, {}, solver);
    EXPECT_FALSE(result.found || result.proven || result.infeasible);
  }
}

} // namespace
