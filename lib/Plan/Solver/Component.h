//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Exact placement of the pieces that agents and edges connect, with prices for the resources that they share with
// others.
//
// Tables bound what remains: for each step of a TimedChain, the groups that earlier pieces have taken, and an amount
// that may be spent, the largest probability that the remaining steps end within each time. An entry is the maximum
// over all choices of that cost, so one entry may stand for several choices; it bounds each of them. The tables are
// those of a traveller who decides again after each step but never spends more than the amount, which is hardly better
// than deciding at once. A best-first search over the steps, with the exact distribution of what is decided, uses them.
// Where no time counts, the tables are those of a dynamic program over the steps.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_COMPONENT_H
#define INTARSIA_PLAN_COMPONENT_H

#include "LocalSearch.h"
#include "TimedChain.h"
#include <deque>
#include <map>
#include <unordered_map>

namespace intarsia::plan {

/// Pieces that a pair or an agent with bounds connects, by component.
std::vector<std::vector<int>> componentsOf(const Program &program);

class Component {
public:
  /// `mostMs` (by agent): times of no better plan are longer.
  Component(const Program &program, std::vector<int> pieces, llvm::ArrayRef<double> mostMs, Clock::time_point deadline);

  struct Found {
    double cost;
    std::vector<int> options; ///< by position in the pieces
  };
  struct Result {
    double bound = 0;         ///< of the cost, from below; infinity: nothing costs less than `below`
    std::vector<Found> found; ///< assignments, each better than those before
  };
  const std::vector<int> &pieces() const { return order; } ///< in the order of positions
  std::vector<int> pairsInside() const;                    ///< of the program
  bool hasDistributions() const { return !chain->isLinear(); }

  /// Costs of options by piece, and of pairs, of the whole program; infinity: excluded. `perMs` is the cost of a
  /// millisecond of latency times the agent's weight in the objective.
  void setPrices(const std::vector<std::vector<double>> &optionCosts, const std::vector<std::vector<double>> &pairCosts,
                 const std::vector<std::vector<uint8_t>> &allowed, double perMs);
  /// Returns the cheapest assignment, if it costs less than `below`. Without `exactly`, uses only moves, no search,
  /// where times count.
  Result minimize(double below, bool exactly = true);
  /// Lets later searches give up later; returns false if they already take as long as they need.
  bool searchLonger();
  /// Keeps an assignment (by position) from which moves may begin.
  void keep(std::vector<int> options) { plans.push_back(std::move(options)); }
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
    double ms;                ///< of a linear chain
    int kind;                 ///< its groups
    int dominator;            ///< one that costs no more and is no later on the grid; -1: none
  };
  /// Least cost at the present price of time, and the time of what has it.
  struct Least {
    double cost = unlimited, ms = 0;
  };
  struct Entry {
    double cost;
    std::vector<float> function;
  };
  /// From a state by groups of a step to a state of the next one.
  struct Way {
    double cost, ms; ///< of the links, ms of a linear chain
    int next;
  };
  struct StepHere {
    std::vector<Link> links;
    std::vector<int> compared; ///< earlier pieces that this or a later step has pairs with
    std::vector<int> frontier; ///< those of them that tables distinguish
    std::vector<int> strides;
    int states = 1;
    std::vector<Combination> combinations;
    std::vector<std::vector<float>> functions; ///< of the combinations
    std::vector<std::vector<int>> kinds;       ///< groups by piece of the step that some combination has
    std::vector<Way> ways;                     ///< by state and kind
    std::vector<std::vector<Entry>> entries;   ///< by state, by cost
    /// Distribution functions of a combination and what remains after it: by combination, state of the next step and
    /// entry of that; empty where nothing asked for them.
    std::vector<std::vector<std::vector<std::vector<float>>>> sums;
  };
  /// The density of a label before a fork, to go on from once more of the transfers around the fork is known.
  struct BeforeFork {
    int step;
    std::vector<float> density;
    std::shared_ptr<const BeforeFork> earlier;
  };
  struct Label {
    double bound, cost, ms;
    int step;
    std::vector<int> options; ///< by position
    std::vector<float> density;
    std::vector<int> known; ///< of the comparisons: this label and those that it continues
    std::shared_ptr<const BeforeFork> forks;
  };
  /// A label that another one makes unnecessary, without its density.
  struct Aside {
    Label label;
    std::vector<float> function;
  };
  struct Known {
    double cost, ms;
    std::vector<float> function;
    std::vector<Aside> aside;
    bool misleads; ///< a plan of this label did not keep what the chain said
  };
  /// Labels are compared in the same groups: another one that costs no more and is never later leaves at least as much
  /// to what remains. That is so in the chain, which is only a lower bound: transfers around forks, other paths and
  /// other agents may take longer, and the grid rounds. Labels are therefore set aside until a plan of the other one
  /// takes longer than the chain says.
  struct Comparisons {
    std::deque<Known> known;
    std::map<std::pair<int, std::vector<int>>, std::vector<int>> alike; ///< known ones by step and groups
  };

  class Moves;
  /// Returns an assignment that no move of one or two pieces makes cheaper, if one is found.
  std::optional<Found> improved();
  /// Searches for the cheapest assignment that costs less than `below`, in at most `labels` steps.
  Result search(double below);
  /// Continues a density before one step to a distribution function before another, by the pieces' options and groups
  /// taken, with all transfers around forks that are known; the tables have the least ones.
  void takeKnownTransfers(int from, const std::vector<float> &density, int to, std::vector<float> &function) const;
  /// Takes a label, with its distribution function, if a known one makes it unnecessary; else it becomes known itself.
  bool isSetAside(Comparisons &comparisons, Label &label, const std::vector<float> &function) const;
  /// Returns the labels cheaper than `below` that nothing makes unnecessary once `label` and those that it continues
  /// mislead.
  std::vector<Label> reopened(Comparisons &comparisons, const Label &label, double below) const;
  /// Entries of a table for one state: finer amounts take time in proportion and raise the bound little.
  static constexpr int mostEntries = 40;
  double costOf(llvm::ArrayRef<int> options) const; ///< at these prices, without latency; options by piece
  void addTransfers(llvm::ArrayRef<int> options, std::vector<double> &ms) const;

  void planSteps();
  /// Lets the chain allow for what it is later than the exact times of some assignments near the bound.
  void measureMargin();
  /// Returns the chain's time of the assignment; infinity if it is beyond the bound.
  double chainMs();
  void combine(StepHere &step, size_t index);
  /// Sets the groups of the frontier pieces of a state.
  void enter(const StepHere &step, int state);
  int stateOf(const StepHere &step) const;
  /// Returns the least cost of the links of a step at the groups taken; adds their transfers to `ms`, by case.
  double linked(const StepHere &step, std::vector<double> *ms) const;
  /// Takes the groups of a state of a step and of a combination; returns the cost of the links there, and writes the
  /// milliseconds of their transfers, by case.
  double linkedAt(size_t index, int state, const Combination &combination, std::vector<double> &ms);
  void findWays();
  /// Returns by step and state the least of `ofCost` times the cost plus `ofMs` times the milliseconds of a linear
  /// chain: of the steps before, or else of this step and those after it.
  std::vector<std::vector<Least>> leastOf(bool before, double ofCost, double ofMs) const;
  /// Finds the price of time at which the least cost of all assignments is highest, and with it the bound: the lower
  /// envelope of lines, one for each assignment (Handler and Zang, Networks 10(4), 1980).
  void priceTime();
  /// The part of `markAlive` that linear chains take.
  void markCheap(double below, std::vector<std::vector<uint8_t>> &alive);
  /// Fills the tables; returns false if time is over.
  bool completions(double below);
  /// Returns the least cost of completing a label from a state of its step; infinity if nothing cheaper than `below`
  /// does.
  double completed(const Label &label, int state, double below) const;
  /// The same for a label of `cost` before a step, given the probability that it ends up to a point with an entry of
  /// the step's table.
  double completed(double cost, int step, int state, double below,
                   llvm::function_ref<double(size_t entry, size_t point)> probability) const;
  /// The same for a label continued by a combination, to `cost` and `state` and with transfers that take `ms`, without
  /// its distribution.
  double completedThrough(const Label &label, size_t combination, double cost, llvm::ArrayRef<double> ms, int state,
                          double below);
  /// Returns the function of a combination of a step and an entry of the next one. `density` is filled with that of the
  /// combination where it is empty and needed.
  const std::vector<float> &sumOf(size_t step, size_t combination, int state, size_t entry,
                                  std::vector<float> &density);
  void dropSums();
  /// Most floats in the sums that a component keeps: 64 MB.
  static constexpr size_t mostOfSums = size_t(16) << 20;
  double probabilityAt(const float *density, const float *function, size_t point) const;

  const Program &program;
  Clock::time_point deadline;
  std::vector<int> order, agents, positionOf; ///< pieces, agents that have some, position by piece of the program
  std::unique_ptr<TimedChain> chain;
  TimedChain::Bound bound; ///< of the chain's time
  double perMs = 0, weight = 0;
  double price = 0, leastPrice = 0; ///< of a millisecond of a linear chain; leastPrice: as part of the objective
  std::vector<std::vector<Least>> before, after, fastest; ///< by step and state
  bool isMeasured = false;                                ///< the margin of the chain
  bool isAlone = false;                                   ///< the chain's time is all that is bounded
  size_t labels;                                          ///< most steps of a search
  std::vector<StepHere> steps;                            ///< the last has no pieces
  size_t sumsKept = 0;
  std::vector<std::vector<double>> optionCosts, pairCosts;
  std::vector<std::vector<uint8_t>> allowed;
  std::vector<int> groupsTaken;                      ///< by piece of the program; -1: not taken
  std::unordered_map<std::string, double> latencies; ///< of assignments that were evaluated
  std::vector<int> assignment;
  std::vector<std::vector<int>> plans; ///< known assignments, by position
};

} // namespace intarsia::plan

#endif
