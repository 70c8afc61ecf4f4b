//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "MixedInteger.h"
#include "ChildProcess.h"
#include "WriteFile.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llvm;

namespace intarsia::plan {

constexpr double largestScaledCost = 1000;
/// Least scaled factor, far below solvers' tolerance of rows, 1e-7. Waits of hardly used replicas can be smaller, and
/// CLP aborts on such factors.
constexpr double leastScaledFactor = 1e-11;
/// Limits of a solver's time in seconds: a process starts in a hundredth, and a year has 3e7. The share of the time by
/// which the solver may be late keeps the total within one and a half times the limit of a plan.
constexpr double leastSeconds = 0.05, mostSeconds = 1e7, graceOfSolver = 0.1;

/// Returns the program in CPLEX's LP format, which CBC, HiGHS, GLPK and others read. Names have only characters that it
/// allows.
static std::string lpOf(const MixedIntegerProgram &program) {
  std::string text;
  raw_string_ostream out(text);
  auto term = [&](double factor, int column) {
    out << formatv("{0} {1:e15} {2}\n", factor < 0 ? "-" : "+", std::abs(factor), program.columns[column].name);
  };
  out << "Minimize\n obj:\n";
  for (size_t column = 0; column < program.columns.size(); ++column)
    if (program.columns[column].cost != 0)
      term(program.columns[column].cost, int(column));
  out << "Subject To\n";
  bool isImpossible = false;
  for (auto &row : program.rows) {
    if (row.entries.empty() && row.lower <= 0 && row.upper >= 0)
      continue;
    out << " " << row.name << ":\n";
    // A row without columns, from a piece without a choice, is not allowed in the format.
    if (row.entries.empty()) {
      isImpossible = true;
      out << "+ 1 nothing\n";
    }
    for (auto &entry : row.entries)
      term(entry.factor, entry.column);
    bool equal = row.lower == row.upper;
    out << (equal                  ? " = "
            : row.upper < INFINITY ? " <= "
                                   : " >= ")
        << formatv("{0:e15}\n", row.upper < INFINITY ? row.upper : row.lower);
  }
  out << "Bounds\n";
  if (isImpossible)
    out << " nothing = 0\n";
  for (auto &column : program.columns) {
    out << formatv(" {0:e15} <= {1}", column.lower, column.name);
    if (column.upper < INFINITY)
      out << formatv(" <= {0:e15}", column.upper);
    out << "\n";
  }
  out << "Generals\n";
  for (auto &column : program.columns)
    if (column.integer)
      out << " " << column.name << "\n";
  out << "End\n";
  return text;
}

Error writeLp(const MixedIntegerProgram &program, StringRef path) { return writeFile(path, lpOf(program)); }

static ScaledOutcome solveInTime(const ScaledProgram &program, double timeLimitSeconds, double relativeGap,
                                 ArrayRef<double> start, decltype(solveByCbc) *solver) {
  double seconds = std::clamp(timeLimitSeconds, leastSeconds, mostSeconds);
  auto deadline = std::chrono::steady_clock::now() +
                  std::chrono::microseconds(int64_t((seconds * (1 + graceOfSolver) + leastSeconds) * 1e6));
  // CBC looks at its clock neither within the first linear program nor where it checks a solution, and keeps options in
  // global variables of the library, which several threads would share.
  std::string failure;
  auto work = [&] {
    ScaledOutcome outcome = solver(program, seconds, relativeGap, start);
    double head[] = {double(outcome.optimal), double(outcome.infeasible), double(outcome.found), outcome.bound};
    std::string sent(reinterpret_cast<const char *>(head), sizeof head);
    sent.append(reinterpret_cast<const char *>(outcome.values.data()), outcome.values.size() * sizeof(double));
    return sent;
  };
  std::optional<std::string> bytes = runInChild(deadline, work, failure);
  if (!failure.empty())
    WithColor::warning(errs()) << "CBC " << failure << "; the plan is made without what it would have found\n";
  ScaledOutcome outcome;
  if (!bytes) {
    outcome.found = !start.empty();
    outcome.values = start.vec();
    return outcome;
  }
  std::vector<double> numbers(bytes->size() / sizeof(double));
  std::memcpy(numbers.data(), bytes->data(), numbers.size() * sizeof(double));
  outcome.optimal = numbers[0] != 0, outcome.infeasible = numbers[1] != 0, outcome.found = numbers[2] != 0;
  outcome.bound = numbers[3];
  outcome.values.assign(numbers.begin() + 4, numbers.end());
  return outcome;
}

MixedIntegerResult solveMixedInteger(const MixedIntegerProgram &program, double timeLimitSeconds, double relativeGap,
                                     ArrayRef<double> start, decltype(solveByCbc) *solver) {
  double largestCost = 0;
  for (auto &column : program.columns)
    largestCost = std::max(largestCost, std::abs(column.cost));
  double costScale = largestCost > 0 ? largestScaledCost / largestCost : 1;
  ScaledProgram scaled;
  std::vector<double> rowScales;
  auto counts = [](const MixedIntegerProgram::Entry &entry, double scale) {
    return std::abs(entry.factor) * scale >= leastScaledFactor;
  };
  std::vector<int> &starts = scaled.starts;
  starts.resize(program.columns.size() + 1);
  for (auto &row : program.rows) {
    double largest = 0;
    for (auto &entry : row.entries)
      largest = std::max(largest, std::abs(entry.factor));
    rowScales.push_back(largest > 0 ? 1 / largest : 1);
    for (auto &entry : row.entries)
      starts[entry.column + 1] += counts(entry, rowScales.back());
  }
  for (size_t column = 0; column < program.columns.size(); ++column)
    starts[column + 1] += starts[column];
  std::vector<int> next = starts;
  scaled.rows.resize(starts.back());
  scaled.factors.resize(starts.back());
  for (size_t row = 0; row < program.rows.size(); ++row) {
    for (auto &entry : program.rows[row].entries) {
      if (!counts(entry, rowScales[row]))
        continue;
      int at = next[entry.column]++;
      scaled.rows[at] = int(row);
      scaled.factors[at] = entry.factor * rowScales[row];
    }
    scaled.rowLower.push_back(program.rows[row].lower * rowScales[row]);
    scaled.rowUpper.push_back(program.rows[row].upper * rowScales[row]);
  }
  for (auto &column : program.columns) {
    scaled.lower.push_back(column.lower);
    scaled.upper.push_back(column.upper);
    scaled.costs.push_back(column.cost * costScale);
    scaled.integer.push_back(column.integer);
  }
  ScaledOutcome outcome = solveInTime(scaled, timeLimitSeconds, relativeGap, start, solver);
  MixedIntegerResult result;
  result.found = outcome.found;
  result.proven = outcome.optimal || outcome.infeasible;
  result.infeasible = outcome.infeasible && !outcome.found;
  result.bound = outcome.bound / costScale;
  if (!outcome.found)
    return result;
  result.values = std::move(outcome.values);
  // Rounds integers, so that the solver's tolerance does not reach sums over them.
  for (size_t column = 0; column < program.columns.size(); ++column) {
    if (program.columns[column].integer)
      result.values[column] = std::round(result.values[column]);
    result.objective += program.columns[column].cost * result.values[column];
  }
  return result;
}

} // namespace intarsia::plan
