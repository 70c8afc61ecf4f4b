//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Mixed-integer programs by CBC.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_MIXEDINTEGER_H
#define INTARSIA_PLAN_MIXEDINTEGER_H

#include "llvm/ADT/StringRef.h"
#include <limits>
#include <string>
#include <vector>

namespace intarsia::plan {

/// minimize cost x, rows, bounds.
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
  bool infeasible = false; ///< proven that there is none
  double objective = 0, bound = -std::numeric_limits<double>::infinity();
  std::vector<double> values;
};

/// `start`: a solution to begin with (by column; empty: none). CBC gets no cutoff: 2.10.8 with preprocessing calls
/// solutions optimal that are not when it has one.
MixedIntegerResult solveMixedInteger(const MixedIntegerProgram &program, double timeLimitSeconds, double relativeGap,
                                     const std::vector<double> &start);
/// Writes CPLEX's LP format.
void writeLp(const MixedIntegerProgram &program, llvm::StringRef path);

} // namespace intarsia::plan

#endif
