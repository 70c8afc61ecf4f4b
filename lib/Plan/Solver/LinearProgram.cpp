//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "LinearProgram.h"
#include <coin/Clp_C_Interface.h>

using namespace llvm;

namespace intarsia::plan {

struct LinearProgram::Model {
  Clp_Simplex *clp = Clp_newModel();
  ~Model() { Clp_deleteModel(clp); }
};

LinearProgram::LinearProgram(ArrayRef<std::pair<double, double>> rowBounds) : model(std::make_unique<Model>()) {
  std::vector<double> lower, upper;
  for (auto [low, high] : rowBounds) {
    lower.push_back(low);
    upper.push_back(high);
  }
  Clp_setLogLevel(model->clp, 0);
  std::vector<int> starts(rowBounds.size() + 1, 0);
  Clp_addRows(model->clp, int(rowBounds.size()), lower.data(), upper.data(), starts.data(), nullptr, nullptr);
}

LinearProgram::~LinearProgram() = default;

int LinearProgram::addColumn(double cost, double lower, double upper, ArrayRef<Entry> entries) {
  std::vector<int> rows;
  std::vector<double> factors;
  for (auto [row, factor] : entries) {
    rows.push_back(row);
    factors.push_back(factor);
  }
  int starts[] = {0, int(rows.size())};
  Clp_addColumns(model->clp, 1, &lower, &upper, &cost, starts, rows.data(), factors.data());
  costs.push_back(cost);
  lowers.push_back(lower);
  uppers.push_back(upper);
  values.push_back(0);
  return int(lowers.size()) - 1;
}

void LinearProgram::setBounds(int column, double lower, double upper) {
  lowers[column] = lower;
  uppers[column] = upper;
}

void LinearProgram::setCost(int column, double cost) { costs[column] = cost; }

bool LinearProgram::solve() {
  Clp_chgObjCoefficients(model->clp, costs.data());
  Clp_chgColumnLower(model->clp, lowers.data());
  Clp_chgColumnUpper(model->clp, uppers.data());
  // The basis is still primal feasible after new columns and dual feasible after new bounds; primal simplex repairs
  // either.
  if (Clp_primal(model->clp, 0) < 0 || Clp_status(model->clp) != 0)
    return false;
  value = Clp_objectiveValue(model->clp);
  const double *columns = Clp_primalColumnSolution(model->clp), *rows = Clp_dualRowSolution(model->clp);
  values.assign(columns, columns + lowers.size());
  duals.assign(rows, rows + Clp_numberRows(model->clp));
  return true;
}

} // namespace intarsia::plan
