//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Confidence of a plan: the cost model's own measured errors are sampled, to find how often a plan holds and to search
// for plans that hold often enough.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_CONFIDENCE_H
#define INTARSIA_PLAN_CONFIDENCE_H

#include "intarsia/Plan/Placement.h"
#include <limits>

namespace intarsia::plan {

/// Out-of-sample ratios of measured to predicted times for one kind of piece.
struct TimeErrors {
  std::string kind;
  /// Quantiles of ln(measured / predicted), ascending, at the levels 1/(n+1), 2/(n+1) … n/(n+1); linear between.
  std::vector<double> quantiles;
  double spread = 0; ///< standard deviation; beyond the first and last quantile the tail is normal

  /// Returns measured over predicted at a level in (0, 1).
  double factorAt(double level) const;
};

/// Uncertainty of a problem's times. A model errs for a deployment, not for a request: pieces of equal kind and subject
/// on one pool share one draw, all others are independent.
struct ErrorModel {
  struct OfPiece {
    int kind = -1;    ///< index in `kinds`; -1: no error
    int subject = -1; ///< index of its model, or a number of its own
  };
  std::vector<TimeErrors> kinds;
  std::vector<OfPiece> pieces;
};

struct ConfidenceOptions {
  int trials = 400;
  uint64_t seed = 1;
  /// Time limit; at least one trial runs.
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
    /// Shares of the trials that violate this bound. saturated: a piece of the agent cannot sustain its load; such
    /// trials do not count for the other bounds.
    double endToEnd = 0, firstOutput = 0, token = 0, saturated = 0;
  };
  Estimate holds; ///< estimate for all agents together
  std::vector<OfAgent> agents;
  int trials = 0;
};

/// Returns "0.920 ± 0.014": three digits, or as many as the requested probability has.
std::string textOf(const Confidence::Estimate &estimate, double asked);

/// Limit of the requested probability. Above it a search would need more trials than it has time for, and tails in
/// which no error was measured.
constexpr double highestConfidence = 0.999;
/// Returns the number of trials for a requested probability, at least the default of ConfidenceOptions. An event with a
/// probability of 3 / n is missed in n trials once in twenty times (Hanley and Lippman-Hand 1983).
int trialsFor(double probability);

/// Estimates the probability that the agents' service levels hold. In each trial every kind of piece takes a factor on
/// all its times; percentiles are those of evaluate(). Draws depend on seed, trial and piece alone, so plans are
/// compared under the same errors. Fails if the error model does not match the problem.
llvm::Expected<Confidence> confidenceOf(const PlacementProblem &problem, const Placements &placements,
                                        const ErrorModel &errors, const ConfidenceOptions &options = {});

/// Returns the problem in which each piece takes the time that it does not exceed with probability `level`.
PlacementProblem slowedTo(const PlacementProblem &problem, const ErrorModel &errors, double level);

/// Result of a search for a plan that holds with a probability.
struct ConfidentPlan {
  SolveResult result;       ///< solved for `problem`
  PlacementProblem problem; ///< the problem with the times that the plan was made for
  Confidence confidence;    ///< confidence of the plan in the given problem
  bool holds = false;       ///< the plan holds with the requested probability; otherwise it is the most probable plan
                            ///< found
  bool settled = true;      ///< every round ended with the best plan for its times
  std::vector<std::string> rounds;
  std::vector<Conflict> limits; ///< constraints that conflict, if no plan holds under slower times
};
/// Searches from `first`, a plan of `problem`. If it does not hold with the requested probability, makes plans for
/// slower times (by bisection over slowedTo's level), and keeps the cheapest plan by the objective that does. The time
/// limit covers all rounds with their trials and the explanation of conflicts; `rounds` lists what stays open. Fails if
/// the trials are too few to show the probability.
llvm::Expected<ConfidentPlan> planWithConfidence(const PlacementProblem &problem, const SolveResult &first,
                                                 const ErrorModel &errors, double probability,
                                                 const SolveOptions &solveOptions = {},
                                                 const ConfidenceOptions &options = {});

} // namespace intarsia::plan

#endif
