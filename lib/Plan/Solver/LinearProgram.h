//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Linear programs that grow by columns, solved again from the last basis by CLP.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_LINEARPROGRAM_H
#define INTARSIA_PLAN_LINEARPROGRAM_H

#include "llvm/ADT/ArrayRef.h"
#include <memory>
#include <utility>
#include <vector>

namespace intarsia::plan {

/// minimize cost x under lower <= row <= upper and bounds.
class LinearProgram {
public:
  explicit LinearProgram(llvm::ArrayRef<std::pair<double, double>> rowBounds);
  ~LinearProgram();
  LinearProgram(const LinearProgram &) = delete;
  LinearProgram &operator=(const LinearProgram &) = delete;

  using Entry = std::pair<int, double>; ///< (row, factor)
  int addColumn(double cost, double lower, double upper, llvm::ArrayRef<Entry> entries);
  void setBounds(int column, double lower, double upper);
  void setCost(int column, double cost);
  /// Returns false if there is no solution, or CLP gives up.
  bool solve();
  double objective() const { return value; }
  /// Returns the value of a column in the last solution; 0 for columns added since.
  double solution(int column) const { return values[column]; }
  /// Returns the change of the objective for each unit that the row's bounds rise.
  double dual(int row) const { return duals[row]; }

private:
  struct Model;
  std::unique_ptr<Model> model;
  std::vector<double> costs, lowers, uppers, values, duals;
  double value = 0;
};

} // namespace intarsia::plan

#endif
