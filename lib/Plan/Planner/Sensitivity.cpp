//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Describes sensitivities in words.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace intarsia::plan {

static std::string moved(const PlanReport &report, const std::vector<int> &pieces) {
  std::vector<std::string> names;
  for (int piece : pieces)
    names.push_back(report.problem->pieces[piece].name);
  // Only the replicas may change.
  return names.empty() ? "another number of replicas is better"
                       : join(names, ", ") + (names.size() == 1 ? " moves" : " move");
}

/// "above $2.93: answer.decode moves".
static std::string aboveOf(const PlanReport &report, const Sensitivity &of, const std::string &value, StringRef end) {
  if (!of.above)
    return of.aboveIsKnown ? "no change" + end.str() : "not settled in time";
  return "above " + value + ": " + (of.breaks.empty() ? moved(report, of.piecesAbove) : of.breaks);
}

static SensitivityRow rowOf(const PlanReport &report, const Sensitivity &of) {
  using Kind = Sensitivity::Kind;
  const PlacementProblem &problem = *report.problem;
  switch (of.kind) {
  case Kind::Price: {
    auto dollars = [](double value) { return "$" + number(value); };
    SensitivityRow row{"price of " + poolName(report, of.index), dollars(of.given) + "/h"};
    if (of.below)
      row.below = "below " + dollars(*of.below) + ": " + moved(report, of.piecesBelow);
    else
      row.below = of.belowIsKnown ? "no change down to " + dollars(of.given / 10) : "not settled in time";
    bool isUsed = report.result.evaluation.devices[of.index] > 0;
    row.above = isUsed ? aboveOf(report, of, of.above ? dollars(*of.above) : "", " up to " + dollars(of.given * 10))
                       : "not used";
    return row;
  }
  case Kind::EndToEnd: {
    SensitivityRow row{"end-to-end bound of @" + problem.agents[of.index].name, duration(of.given)};
    if (of.below)
      row.below = "below " + duration(*of.below) + ": this plan breaks it";
    // The saving of a looser bound is computed only for objectives in dollars.
    if (dependsOnPrices(problem))
      row.above = aboveOf(report, of, of.above ? duration(*of.above) : "", "");
    return row;
  }
  case Kind::Slowness:
    return {"times on " + poolName(report, of.index), "as figured", "",
            aboveOf(report, of, of.above ? number(*of.above) + " times as long" : "", " up to 10 times as long")};
  case Kind::Rate:
    return {"requests of @" + problem.agents[of.index].name, number(of.given) + "/s", "",
            aboveOf(report, of, of.above ? number(*of.above) + "/s" : "", " up to " + number(of.given * 10) + "/s")};
  }
  return {};
}

std::vector<SensitivityRow> sensitivityRows(const PlanReport &report) {
  std::vector<SensitivityRow> rows;
  for (const Sensitivity &of : report.sensitivity)
    rows.push_back(rowOf(report, of));
  return rows;
}

std::string notAskedText(const PlanReport &report) {
  if (report.problem->objective != Objective::DollarsPerRequest || dependsOnPrices(*report.problem))
    return "";
  return "prices are not asked for: no agent has requests per second, so what an hour costs is in no request";
}

void printSensitivity(raw_ostream &out, const PlanReport &report) {
  out << "\nwhat would change the plan:\n";
  if (std::string text = notAskedText(report); !text.empty())
    out << "  " << text << '\n';
  for (const SensitivityRow &row : sensitivityRows(report)) {
    out << "  " << row.figure << ", " << row.given << ": " << row.below;
    out << (row.below.empty() || row.above.empty() ? "" : "; ") << row.above << '\n';
  }
}

} // namespace intarsia::plan
