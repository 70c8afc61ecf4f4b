//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// How sure a plan is: the cost model's own measured errors drawn again and again, and plans that stand most of them.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_CONFIDENCE_H
#define INTARSIA_PLAN_CONFIDENCE_H

#include "intarsia/Plan/Placement.h"
#include <limits>

namespace intarsia::plan {

/// Measured over predicted times of one kind of piece, out of sample.
struct TimeErrors {
  std::string kind;
  /// Of ln(measured / predicted), ascending, at the levels 1/(n+1), 2/(n+1) … n/(n+1); linear between.
  std::vector<double> quantiles;
  double spread = 0; ///< standard deviation: beyond the first and last quantile the tail is that of a normal

  /// Measured over predicted at a level in (0, 1).
  double factorAt(double level) const;
};

/// What is unsure of a problem's times. A model is wrong for a deployment, not for a request: pieces of equal kind and
/// subject on one pool share one draw, all others are independent.
struct ErrorModel {
  struct OfPiece {
    int kind = -1;    ///< index in `kinds`; -1: its times are taken as they are
    int subject = -1; ///< which model it runs, or a number of its own
  };
  std::vector<TimeErrors> kinds;
  std::vector<OfPiece> pieces;
};

struct ConfidenceOptions {
  int trials = 400;
  uint64_t seed = 1;
  /// Trials end with it; there are as many as there was time for, one at least.
  double timeLimitSeconds = std::numeric_limits<double>::infinity();
};

struct Confidence {
  /// A share of the trials. The standard error is that of (k + 2) among (n + 4) (Agresti and Coull 1998), which does
  /// not vanish where all trials agree.
  struct Estimate {
    double probability = 0, standardError = 0;
  };
  struct OfAgent {
    Estimate holds;
    /// Shares of the trials in which this is broken; saturated: a piece of it cannot sustain its load, and nothing is
    /// said of the others.
    double endToEnd = 0, firstOutput = 0, token = 0, saturated = 0;
  };
  Estimate holds; ///< of all agents together
  std::vector<OfAgent> agents;
  int trials = 0;
};

/// With three digits, or as many as the probability that is asked for has: "0.920 ± 0.014".
std::string textOf(const Confidence::Estimate &estimate, double asked);

/// Above it more trials would be needed than a search has time for, and tails that no error was measured in.
constexpr double highestConfidence = 0.999;
/// What breaks with a probability of 3 / n is not seen in n trials once in twenty times (Hanley and Lippman-Hand 1983):
/// so many, for a plan that breaks as often as it may, and at least as ConfidenceOptions has.
int trialsFor(double probability);

/// Probability that the agents' service levels hold. In each trial every kind of piece takes a factor on all its times;
/// percentiles are those of evaluate(). Draws depend on seed, trial and piece alone, so plans are compared under the
/// same errors. Fails if the error model is not of this problem.
llvm::Expected<Confidence> confidenceOf(const PlacementProblem &problem, const Placements &placements,
                                        const ErrorModel &errors, const ConfidenceOptions &options = {});

/// The problem in which each piece takes the time that it does not exceed with probability `level`.
PlacementProblem slowedTo(const PlacementProblem &problem, const ErrorModel &errors, double level);

/// A search for a plan that holds with a probability.
struct ConfidentPlan {
  SolveResult result;       ///< solved for `problem`
  PlacementProblem problem; ///< with the times that the plan was made for
  Confidence confidence;    ///< of the plan, in the problem as it was given
  bool holds = false;       ///< whether it is sure enough; otherwise the plan is the surest that was found
  bool settled = true;      ///< whether every round ended, with the best plan for its times
  std::vector<std::string> rounds;
  std::vector<Conflict> limits; ///< what conflicts where no plan stands slower times
};
/// `first` is a plan of `problem`. If it is not sure enough, plans are made for times that are exceeded less and less
/// often (by bisection over slowedTo's level), and of those that are sure enough the cheapest by the objective is kept.
/// The time limit is of all rounds together, with their trials and what conflicts; what it leaves open stands in
/// `rounds`. Fails if the trials are too few to show the probability.
llvm::Expected<ConfidentPlan> planWithConfidence(const PlacementProblem &problem, const SolveResult &first,
                                                 const ErrorModel &errors, double probability,
                                                 const SolveOptions &solveOptions = {},
                                                 const ConfidenceOptions &options = {});

} // namespace intarsia::plan

#endif
