//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Mixed-integer programs, and what solves them: CBC, or HiGHS where its library is.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_MIXEDINTEGER_H
#define INTARSIA_PLAN_MIXEDINTEGER_H

#include "intarsia/Placement.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace intarsia::plan {

/// minimize cost x, rows, bounds. One column or more is integer; `LinearProgram` is for others.
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
  bool proven = false;     ///< it is optimal up to the gap, or it was proven that there is none
  bool infeasible = false; ///< proven that there is none; an unbounded program is neither found nor infeasible
  double objective = 0, bound = -std::numeric_limits<double>::infinity();
  std::vector<double> values;
};

class MixedIntegerSolver {
public:
  virtual ~MixedIntegerSolver() = default;
  /// With its version: "CBC 2.10.8".
  virtual std::string name() const = 0;
  /// On one thread; several threads may call. `relativeGap`: as a share of the objective. `start`: a solution
  /// to begin with (by column; empty: none), which is the result of a solver that gives up, or has to be stopped: a
  /// tenth of the time later, as solvers do not always look at the clock. Nothing is proven then.
  MixedIntegerResult solve(const MixedIntegerProgram &program, double timeLimitSeconds, double relativeGap,
                           llvm::ArrayRef<double> start) const;

  /// Solvers' tolerances are absolute, and dollars per request may be 1e-6: the largest cost is 1000 here, the largest
  /// factor of each row 1.
  struct Scaled {
    std::vector<double> costs, lower, upper, rowLower, rowUpper;
    std::vector<int> integer;      ///< by column; 0 or 1
    std::vector<int> starts, rows; ///< entries by column: where those of each begin, their rows
    std::vector<double> factors;
  };

protected:
  struct Outcome {
    bool optimal = false, infeasible = false;
    std::vector<double> values; ///< of the best solution; unset where none was found
    bool found = false;
    double bound = -std::numeric_limits<double>::infinity(); ///< of the scaled objective
  };
  /// Called in a process that does nothing else.
  virtual Outcome solveScaled(const Scaled &program, double timeLimitSeconds, double relativeGap,
                              llvm::ArrayRef<double> start) const = 0;

private:
  Outcome solveInTime(const Scaled &program, double timeLimitSeconds, double relativeGap,
                      llvm::ArrayRef<double> start) const;
};

std::shared_ptr<const MixedIntegerSolver> cbcSolver();
/// HiGHS from a shared library; a name without a folder is looked for where the loader looks.
llvm::Expected<std::shared_ptr<const MixedIntegerSolver>> highsSolver(const std::string &library);

/// Writes CPLEX's LP format, to standard output if the path is "-"; a file appears when it is complete.
llvm::Error writeLp(const MixedIntegerProgram &program, llvm::StringRef path);

} // namespace intarsia::plan

#endif
