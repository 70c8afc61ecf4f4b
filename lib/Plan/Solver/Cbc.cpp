//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "MixedInteger.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <coin/Cbc_C_Interface.h>
#include <numeric>

using namespace llvm;

namespace intarsia::plan {

constexpr double secondsToPreprocess = 2;

/// CBC gets no cutoff: with one, 2.10.8 with preprocessing calls solutions optimal that are not.
ScaledOutcome solveByCbc(const ScaledProgram &program, double timeLimitSeconds, double relativeGap,
                         ArrayRef<double> start) {
  Cbc_Model *model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  Cbc_loadProblem(model, int(program.costs.size()), int(program.rowLower.size()), program.starts.data(),
                  program.rows.data(), program.factors.data(), program.lower.data(), program.upper.data(),
                  program.costs.data(), program.rowLower.data(), program.rowUpper.data());
  for (size_t column = 0; column < program.integer.size(); ++column)
    if (program.integer[column])
      Cbc_setInteger(model, int(column));
  auto set = [&](const char *name, double value) {
    Cbc_setParameter(model, name, formatv("{0:e12}", value).str().c_str());
  };
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "timeMode", "elapsed");
  set("sec", timeLimitSeconds);
  set("ratio", relativeGap);
  // CBC 2.10.8 crashes if its time ends while it preprocesses.
  if (timeLimitSeconds < secondsToPreprocess)
    Cbc_setParameter(model, "preprocess", "off");
  if (!start.empty()) {
    std::vector<int> indices(start.size());
    std::iota(indices.begin(), indices.end(), 0);
    Cbc_setMIPStartI(model, int(start.size()), indices.data(), start.data());
  }
  Cbc_solve(model);
  ScaledOutcome outcome;
  outcome.optimal = Cbc_isProvenOptimal(model);
  outcome.infeasible = Cbc_isProvenInfeasible(model) || Cbc_isInitialSolveProvenPrimalInfeasible(model);
  if (const double *best = Cbc_bestSolution(model)) {
    outcome.found = true;
    outcome.values.assign(best, best + program.costs.size());
  }
  outcome.bound = Cbc_getBestPossibleObjValue(model);
  // After proving optimality CBC still reports a stale bound.
  if (outcome.optimal && outcome.found) {
    double objective = std::inner_product(program.costs.begin(), program.costs.end(), outcome.values.begin(), 0.0);
    outcome.bound = std::max(outcome.bound, objective - relativeGap * std::abs(objective));
  }
  Cbc_deleteModel(model);
  return outcome;
}

} // namespace intarsia::plan
