//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A lower bound of one time of an agent as a chain: in each of a few cases (branches taken, turns of loops) the time is
// at least the sum of independent times, one for each step of the chain. Distributions lie on one grid.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_TIMEDCHAIN_H
#define INTARSIA_PLAN_TIMEDCHAIN_H

#include "Program.h"

namespace intarsia::plan {

class TimedChain {
public:
  /// The time that counts: only those up to `most` milliseconds. Without an agent none counts.
  struct Bound {
    int agent = -1;
    Measure measure = Measure::EndToEnd;
    double most = unlimited;
  };
  /// Makes the chain of all `pieces`, in the order in which `agents` run them; those that the time does not depend on
  /// take none. `margin`: error of times that is allowed for, as a part of the bound.
  TimedChain(const Program &program, llvm::ArrayRef<int> pieces, llvm::ArrayRef<int> agents, const Bound &bound,
             double margin);

  /// Pieces of one step; of several the slowest counts (a fork that joins at once).
  struct Step {
    std::vector<int> pieces;
    int copies = 1;            ///< number of times that the slowest of several pieces counts
    std::vector<uint8_t> runs; ///< by case, of a fork: whether it runs
  };
  std::vector<Step> steps;
  std::vector<double> probabilities; ///< by case
  double level = 1;                  ///< the percentile that counts
  size_t points = 0;                 ///< of the grid
  double pointMs = 0;                ///< distance of two points
  double margin;                     ///< error of times that is allowed for, as a part of the bound

  /// True if a time is a sum of numbers, or none counts: there are no distributions then, only `msOf`.
  bool isLinear() const { return linear; }
  bool isSmooth() const { return splits; } ///< many random times are added
  /// Returns the milliseconds by which a time up to the bound may be too long. Splits spread short times more, which
  /// few points lie before, by less than half the distance of two points.
  double mostLate() const { return margin * bound.most + (splits ? pointMs / 2 : 0); }
  size_t size() const { return probabilities.size() * points; } ///< numbers of one distribution, case by case
  /// Returns the distribution function of an option of a piece. Of a piece of a step with several it includes the least
  /// time of transfers from and to the steps around it.
  const float *timeOf(int piece, int option) const { return times[piece].data() + size_t(option) * size(); }
  /// Writes the distribution function of a step with options of its pieces; given an assignment (option by piece of the
  /// program; -1: not known, so that they may be the least), with the transfers around a fork.
  void timeOfStep(int step, llvm::ArrayRef<int> options, float *function, llvm::ArrayRef<int> assignment = {}) const;
  /// Returns the milliseconds of an option of a piece in a linear chain; as in `timeOf` for a piece of a fork.
  double msOf(int piece, int option) const { return milliseconds[piece][option]; }
  /// Returns the milliseconds of a fork of a linear chain, with the transfers around it in an assignment (option by
  /// piece of the program; -1: not known, so that they may be the least).
  double msOfFork(int step, llvm::ArrayRef<int> assignment) const;
  /// Returns the forks up to a step that have transfers from or to its pieces.
  llvm::ArrayRef<int> forksAround(int step) const { return around[step]; }
  /// Returns the first step whose time another option at a step may change, by transfers around forks.
  int restartOf(int step) const { return restarts[step]; }
  /// Returns by how much the steps before one may be too short in a linear chain, as transfers from forks to later
  /// steps may be longer than the least.
  double roomBefore(int step) const { return rooms[step]; }
  /// Returns by how much the transfers around a piece of a fork take longer in an assignment (option by piece of the
  /// program) than `timeOf` includes.
  double moreAround(int piece, llvm::ArrayRef<int> assignment) const;
  /// Returns by case the milliseconds of transfers of a pair by groups of its ends; empty if none counts.
  const std::vector<std::vector<double>> &transfersOf(int pair) const { return transfers[pair]; }
  /// Writes the distribution function of a sum: `density` is that of one summand, `function` belongs to the other.
  void add(const float *density, const float *function, float *sum) const {
    add(density, function, sum, probabilities.size());
  }
  /// Writes a distribution function that begins `ms` later, in one case.
  void shift(const float *function, double ms, float *shifted) const;
  /// Returns the value at a point of a distribution function that begins `ms` later.
  double shiftedAt(size_t point, double ms, llvm::function_ref<double(size_t)> functionAt) const;
  /// Lets a distribution begin later, by milliseconds of each case.
  void shift(llvm::ArrayRef<double> ms, std::vector<float> &function) const;
  void toDensity(const float *function, float *density) const { toDensity(function, density, probabilities.size()); }
  /// Returns the time at the level, given the first point at which the probability reaches the level.
  double timeAt(size_t point, llvm::function_ref<double(size_t)> probabilityAt) const;

  /// Numbers of single precision add up to one with this error.
  static constexpr double roomOfSums = 2e-5;

private:
  /// Part of the time of an execution, so many times.
  struct Term {
    int region;
    bool later;
    ExecutionPart part;
    double copies;
  };
  struct Case {
    std::vector<std::vector<Term>> terms; ///< by piece
    std::vector<std::pair<int, double>> edges;
  };
  void findCases(std::vector<Scenario> &scenarios);
  Case pathOf(const Scenario &scenario) const;
  void findForks(std::vector<Case> &cases);
  void findSteps(llvm::ArrayRef<int> pieces, llvm::ArrayRef<int> agents);
  /// Returns the milliseconds of transfers that a case adds to a piece itself, of options of one group.
  double transfersOfPiece(const Case &one, int piece, int group) const;
  bool isAround(const Step &fork, int piece) const;
  void findAround();
  void addUp(llvm::ArrayRef<Case> cases);
  void discretize(llvm::ArrayRef<Case> cases);
  void putOnGrid(const Distribution &time, float *function) const;
  /// Adds the copies of a term to a time in one case.
  void addTerm(const Term &term, const Stage &stage, float *function) const;
  void add(const float *density, const float *function, float *sum, size_t cases) const;
  void toDensity(const float *function, float *density, size_t cases) const;
  /// Returns the time of the transfers around a piece of a fork: the least over all groups of the other ends, the
  /// longest, or in an assignment as far as it is known.
  double transfersAround(int piece, int group, llvm::ArrayRef<int> assignment = {}, bool longest = false) const;

  const Program &program;
  const Bound bound;
  bool linear;
  const Agent *agent = nullptr;          ///< set if a time counts
  bool splits = false;                   ///< true if values between two points count for both, else for the lower one
  std::vector<std::vector<float>> times; ///< by piece: of all options
  std::vector<double> rooms;             ///< by step of a linear chain
  std::vector<std::vector<int>> around;  ///< forks by step
  std::vector<int> restarts;             ///< by step
  std::vector<std::vector<double>> milliseconds;           ///< by piece and option, of a linear chain
  std::vector<std::vector<std::vector<double>>> transfers; ///< by pair and case
  std::vector<std::vector<int>> edgesAround;               ///< by piece of a fork
  std::vector<std::vector<double>> leastAround;            ///< milliseconds of its transfers at least, by its group
};

} // namespace intarsia::plan

#endif
