//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "MixedInteger.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <coin/Cbc_C_Interface.h>

using namespace llvm;

namespace intarsia::plan {

constexpr double secondsToPreprocess = 2;

/// CPLEX's LP format, which CBC, HiGHS, GLPK and others read. Names have only characters that it allows.
void writeLp(const MixedIntegerProgram &program, StringRef path) {
  std::error_code error;
  raw_fd_ostream out(path, error);
  if (error)
    return;
  auto term = [&](double factor, int column) {
    out << formatv("{0} {1:e15} {2}\n", factor < 0 ? "-" : "+", std::abs(factor), program.columns[column].name);
  };
  out << "Minimize\n obj:\n";
  for (size_t column = 0; column < program.columns.size(); ++column)
    if (program.columns[column].cost != 0)
      term(program.columns[column].cost, int(column));
  out << "Subject To\n";
  for (auto &row : program.rows) {
    if (row.entries.empty())
      continue;
    out << " " << row.name << ":\n";
    for (auto &entry : row.entries)
      term(entry.factor, entry.column);
    bool equal = row.lower == row.upper;
    out << (equal                  ? " = "
            : row.upper < INFINITY ? " <= "
                                   : " >= ")
        << formatv("{0:e15}\n", row.upper < INFINITY ? row.upper : row.lower);
  }
  out << "Bounds\n";
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
}

MixedIntegerResult solveMixedInteger(const MixedIntegerProgram &program, double timeLimitSeconds, double relativeGap,
                                     const std::vector<double> &start) {
  MixedIntegerResult result;
  // Dollars per request may be 1e-6: tolerances are absolute, so costs and rows are brought to the size of one.
  double largestCost = 0;
  for (auto &column : program.columns)
    largestCost = std::max(largestCost, std::abs(column.cost));
  double costScale = largestCost > 0 ? 1000 / largestCost : 1;
  std::vector<double> rowScales;
  std::vector<int> counts(program.columns.size() + 1);
  for (auto &row : program.rows) {
    double largest = 0;
    for (auto &entry : row.entries) {
      largest = std::max(largest, std::abs(entry.factor));
      ++counts[entry.column + 1];
    }
    rowScales.push_back(largest > 0 ? 1 / largest : 1);
  }
  for (size_t column = 0; column < program.columns.size(); ++column)
    counts[column + 1] += counts[column];
  std::vector<int> starts = counts, next = counts, rowIndices(counts.back());
  std::vector<double> factors(counts.back()), rowLower, rowUpper, lower, upper, costs;
  for (size_t row = 0; row < program.rows.size(); ++row) {
    for (auto &entry : program.rows[row].entries) {
      int at = next[entry.column]++;
      rowIndices[at] = int(row);
      factors[at] = entry.factor * rowScales[row];
    }
    rowLower.push_back(program.rows[row].lower * rowScales[row]);
    rowUpper.push_back(program.rows[row].upper * rowScales[row]);
  }
  for (auto &column : program.columns) {
    lower.push_back(column.lower);
    upper.push_back(column.upper);
    costs.push_back(column.cost * costScale);
  }
  Cbc_Model *model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  Cbc_loadProblem(model, int(program.columns.size()), int(program.rows.size()), starts.data(), rowIndices.data(),
                  factors.data(), lower.data(), upper.data(), costs.data(), rowLower.data(), rowUpper.data());
  for (size_t column = 0; column < program.columns.size(); ++column)
    if (program.columns[column].integer)
      Cbc_setInteger(model, int(column));
  auto set = [&](const char *name, double value) {
    Cbc_setParameter(model, name, formatv("{0:e12}", value).str().c_str());
  };
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "timeMode", "elapsed");
  set("sec", std::max(0.05, timeLimitSeconds));
  set("ratio", relativeGap);
  // CBC 2.10.8 crashes where its time ends while it preprocesses.
  if (timeLimitSeconds < secondsToPreprocess)
    Cbc_setParameter(model, "preprocess", "off");
  if (!start.empty()) {
    std::vector<int> indices(start.size());
    for (size_t i = 0; i < start.size(); ++i)
      indices[i] = int(i);
    Cbc_setMIPStartI(model, int(start.size()), indices.data(), start.data());
  }
  Cbc_solve(model);
  bool optimal = Cbc_isProvenOptimal(model),
       infeasible = Cbc_isProvenInfeasible(model) || Cbc_isInitialSolveProvenPrimalInfeasible(model);
  const double *best = Cbc_bestSolution(model);
  if (best) {
    result.found = true;
    result.values.assign(best, best + program.columns.size());
    // Rounding of integers by CBC's own tolerance must not reach the sums that are made of them.
    for (size_t column = 0; column < program.columns.size(); ++column) {
      if (program.columns[column].integer)
        result.values[column] = std::round(result.values[column]);
      result.objective += program.columns[column].cost * result.values[column];
    }
  }
  result.proven = optimal || infeasible;
  result.infeasible = infeasible && !best;
  result.bound = Cbc_getBestPossibleObjValue(model) / costScale;
  if (optimal && best)
    result.bound = std::max(result.bound, result.objective - relativeGap * std::abs(result.objective));
  Cbc_deleteModel(model);
  return result;
}

} // namespace intarsia::plan
