//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Finds the cheapest assignment of a component whose agents have percentiles, or whose latency is the objective.
//
// Tables bound what remains: for each step of a TimedChain, the groups that earlier pieces have taken, and an amount
// that may be spent, the largest probability that the remaining steps end within each time. An entry is the maximum
// over all choices of that cost, so one entry may stand for several choices; it bounds each of them. The tables are
// those of a traveller who decides again after each step but never spends more than the amount, which is hardly better
// than deciding at once. A best-first search over the steps, with the exact distribution of what is decided, uses them.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_TIMEDSEARCH_H
#define INTARSIA_PLAN_TIMEDSEARCH_H

#include "LocalSearch.h"
#include "TimedChain.h"
#include <unordered_map>

namespace intarsia::plan {

class TimedSearch {
public:
  /// `mostMs` (by agent): times of no better plan are longer.
  TimedSearch(const Program &program, llvm::ArrayRef<int> pieces, llvm::ArrayRef<int> agents,
              llvm::ArrayRef<double> mostMs, Clock::time_point deadline);

  struct Found {
    double cost;
    std::vector<int> options; ///< by position in the pieces
  };
  struct Result {
    double bound = 0; ///< no assignment that costs less than `below` costs less than this
    std::vector<Found> found;
  };
  /// Costs of options by piece, and of pairs, of the whole program; infinity: excluded. `perMs` is the cost of a
  /// millisecond of latency times the agent's weight in the objective.
  void setPrices(const std::vector<std::vector<double>> &optionCosts, const std::vector<std::vector<double>> &pairCosts,
                 const std::vector<std::vector<uint8_t>> &allowed, double perMs);
  /// Returns an assignment that no move of one or two pieces makes cheaper, if one is found.
  std::optional<Found> improved();
  /// Keeps an assignment to begin with; by position.
  void keep(std::vector<int> options) { plans.push_back(std::move(options)); }
  /// Returns the cheapest assignment that costs less than `below`, after at most `mostLabels` steps of the search.
  Result minimize(double below, size_t mostLabels);
  /// Marks the options (by position in the pieces) that some assignment of a cost below `below` may have.
  void markAlive(double below, std::vector<std::vector<uint8_t>> &alive);

  /// Returns the weighted latency of an assignment (option by piece of the program); infinity if a promise is broken.
  double latencyOf(llvm::ArrayRef<int> assignment);

private:
  struct Link {
    int pair, other, own; ///< own: the piece of this step, other: an earlier one or one of the same step
    bool ownIsFrom;
  };
  struct Combination {
    double cost;
    std::vector<int> options; ///< by piece of the step
    const float *time;        ///< distribution function
    int dominator;            ///< one that costs no more and is no later on the grid; -1: none
  };
  struct Entry {
    double cost;
    std::vector<float> function;
  };
  struct StepHere {
    std::vector<Link> links;
    std::vector<int> frontier; ///< earlier pieces that this or a later step has pairs with, and tables distinguish
    std::vector<int> strides;
    int states = 1;
    std::vector<Combination> combinations;
    std::vector<std::vector<float>> functions; ///< of the combinations
    std::vector<double> leastBefore;           ///< by state: least cost of the steps before
    std::vector<double> leastAfter;            ///< by state: least cost of this step and the later ones
    std::vector<std::vector<Entry>> entries;   ///< by state, by cost
  };
  struct Label {
    double bound, cost;
    int step;
    std::vector<int> options; ///< by position
    std::vector<float> density;
  };

  class Moves;
  /// Entries of a table for one state: finer amounts take time in proportion and raise the bound little.
  static constexpr int mostEntries = 40;
  double costOf(llvm::ArrayRef<int> options) const; ///< at these prices, without latency; options by piece
  void addTransfers(llvm::ArrayRef<int> options, std::vector<double> &ms) const;

  void planSteps();
  void combine(StepHere &step, size_t index);
  /// Sets the groups of the frontier pieces of a state.
  void enter(const StepHere &step, int state);
  int stateOf(const StepHere &step) const;
  /// Returns the least cost of the links of a step at the groups taken; adds their transfers to `ms`, by case.
  double linked(const StepHere &step, std::vector<double> *ms) const;
  void leastCosts();
  /// Fills the tables; returns false if time is over.
  bool completions(double below);
  /// Returns the least cost of completing a label from a state of a step; infinity if nothing cheaper than `below`
  /// does.
  double completed(const std::vector<float> &density, double cost, const StepHere &step, int state, double below) const;
  /// Returns a lower bound of the cost of `assignment`, which infinity says to be no better than `below`. Unlike labels
  /// it has the transfers around forks in full.
  double costOnGrid(double cost, double below) const;
  double probabilityAt(const float *density, const float *function, size_t point) const;

  const Program &program;
  Clock::time_point deadline;
  std::vector<int> pieces, agents, positionOf;
  std::unique_ptr<TimedChain> chain;
  double perMs = 0, weight = 0;
  bool isAlone = false;        ///< the chain's time is all that is bounded
  std::vector<StepHere> steps; ///< the last has no pieces
  std::vector<std::vector<double>> optionCosts, pairCosts;
  std::vector<std::vector<uint8_t>> allowed;
  std::vector<int> groupsTaken;                      ///< by piece of the program; -1: not taken
  std::unordered_map<std::string, double> latencies; ///< of assignments that were evaluated
  std::vector<int> assignment;
  std::vector<std::vector<int>> plans; ///< known assignments, by position
};

} // namespace intarsia::plan

#endif
