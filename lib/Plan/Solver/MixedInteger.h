//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Mixed-integer programs, which CBC solves.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_MIXEDINTEGER_H
#define INTARSIA_PLAN_MIXEDINTEGER_H

#include "intarsia/Plan/Placement.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <limits>
#include <string>
#include <vector>

namespace intarsia::plan {

/// A program: minimize cost x subject to rows and bounds. At least one column is integer; without any, use
/// `LinearProgram`.
struct MixedIntegerProgram {
  struct Column {
    std::string name;
    double cost, lower, upper;
    bool integer;
  };
  struct Entry {
    int column;
    double factor;
  };
  struct LinearRow {
    std::string name;
    std::vector<Entry> entries;
    double lower, upper;
  };
  std::vector<Column> columns;
  std::vector<LinearRow> rows;

  int addColumn(std::string name, double cost, double lower, double upper, bool integer) {
    columns.push_back({std::move(name), cost, lower, upper, integer});
    return int(columns.size()) - 1;
  }
};

struct MixedIntegerResult {
  bool found = false;      ///< `values` is a solution
  bool proven = false;     ///< the solution is optimal up to the gap, or there is proof that none exists
  bool infeasible = false; ///< there is proof that none exists; an unbounded program is neither found nor infeasible
  double objective = 0, bound = -std::numeric_limits<double>::infinity();
  std::vector<double> values;
};

/// A scaled copy of a program. Solvers' tolerances are absolute, and dollars per request may be 1e-6: the largest cost
/// is 1000 here, the largest factor of each row 1.
struct ScaledProgram {
  std::vector<double> costs, lower, upper, rowLower, rowUpper;
  std::vector<int> integer;      ///< by column; 0 or 1
  std::vector<int> starts, rows; ///< first entry of each column; row of each entry
  std::vector<double> factors;
};
struct ScaledOutcome {
  bool optimal = false, infeasible = false;
  std::vector<double> values; ///< the best solution; unset if none was found
  bool found = false;
  double bound = -std::numeric_limits<double>::infinity(); ///< bound of the scaled objective
};
ScaledOutcome solveByCbc(const ScaledProgram &program, double timeLimitSeconds, double relativeGap,
                         llvm::ArrayRef<double> start);

/// Solves a program on one thread, in a process of its own; several threads may call. `relativeGap` is a share of the
/// objective. `start` is an initial solution (by column; empty: none). It is the result if the solver gives up, or is
/// stopped because it exceeds the time limit by a tenth (CBC does not always look at the clock); nothing is proven
/// then. `solver` is another one in tests.
MixedIntegerResult solveMixedInteger(const MixedIntegerProgram &program, double timeLimitSeconds, double relativeGap,
                                     llvm::ArrayRef<double> start, decltype(solveByCbc) *solver = solveByCbc);

/// Writes a program in CPLEX's LP format, atomically; the path "-" is standard output.
llvm::Error writeLp(const MixedIntegerProgram &program, llvm::StringRef path);

} // namespace intarsia::plan

#endif
