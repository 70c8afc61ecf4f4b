//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Exact placement of the pieces that agents and edges connect, with prices for the resources that they share with
// others: depth-first branch and bound. The bound is mini-bucket elimination (Dechter and Rish, Journal of the ACM
// 50(2), 2003) of the costs with rows priced, which is exact bucket elimination where scopes are small. Each row also
// has a bound of its own: the least that the remaining pieces add to it.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_COMPONENT_H
#define INTARSIA_PLAN_COMPONENT_H

#include "TimedSearch.h"
#include "llvm/ADT/IntEqClasses.h"
#include <memory>
#include <unordered_map>

namespace intarsia::plan {

/// Compresses `connected` and returns its classes of the first `pieces` pieces, each in ascending order.
std::vector<std::vector<int>> classesOf(llvm::IntEqClasses &connected, size_t pieces);

/// Pieces that a pair or an agent with bounds connects, by component.
std::vector<std::vector<int>> componentsOf(const Program &program);

class Component {
public:
  /// `mostMs`: by agent, times that no better plan exceeds.
  Component(const Program &program, std::vector<int> pieces, llvm::ArrayRef<double> mostMs, Clock::time_point deadline);

  const std::vector<int> &pieces() const { return order; } ///< in the order of positions
  std::vector<int> pairsInside() const;                    ///< of the program

  /// Costs by piece and option, and by pair, of the whole program; infinity: excluded. `perMs` is the cost of a
  /// millisecond of the objective if that is latency.
  void setPrices(const std::vector<std::vector<double>> &optionCosts, const std::vector<std::vector<double>> &pairCosts,
                 const std::vector<std::vector<uint8_t>> &allowed, double perMs);

  using Found = TimedSearch::Found;
  struct Result {
    double bound = 0;         ///< a lower bound of the cost; infinity: nothing is possible, or everything costs at
                              ///< least `below`
    std::vector<Found> found; ///< assignments that satisfy all rows, each better than those before
  };
  /// Returns the cheapest assignment, if it costs less than `below`. Without `exactly`, uses only heuristics, no
  /// search.
  Result minimize(double below, bool exactly = true);
  /// Lets later searches give up later; returns false if they already take as long as they need.
  bool searchLonger();
  /// Marks in `alive` (by position and option) the options that an assignment of a cost below `below` may have.
  void markAlive(double below, std::vector<std::vector<uint8_t>> &alive);
  /// Keeps an assignment (by position) from which heuristics may begin.
  void keep(llvm::ArrayRef<int> options) {
    if (timed)
      timed->keep(options.vec());
  }
  /// Returns the part of the objective that is latency (options by piece of the program).
  double latencyOf(llvm::ArrayRef<int> assignment) { return timed ? timed->latencyOf(assignment) : 0; }

  /// Returns the cost at the present prices.
  double costOf(llvm::ArrayRef<int> options) const;

private:
  struct PairHere {
    int pair, first, second; ///< positions, first < second
    bool swapped;            ///< `second` is the pair's `from`
  };
  /// A lower bound of a piece's cost by the groups of earlier pieces, computed when the piece is eliminated.
  struct Message {
    struct Factor {
      bool isPair; ///< else a message
      int index;
      std::vector<size_t> strides; ///< by scope, then the piece itself
    };
    int from;
    std::vector<int> scope; ///< ascending positions
    std::vector<Factor> factors;
    std::vector<size_t> strides; ///< of its table, by scope
    bool first;                  ///< true for the first message of its piece, which carries the piece's own costs
    size_t size = 1;
  };
  /// The costs, or a row.
  struct Terms {
    std::vector<std::vector<double>> options; ///< by position and option
    std::vector<std::vector<double>> groups;  ///< by position: the least of its options
    std::vector<std::vector<double>> pairs;   ///< by pair here, [first, second]; empty: zero
    std::vector<std::vector<double>> messages;
    double least = 0; ///< minimum over all assignments
  };
  struct RowHere {
    Terms terms;
    double upper, price = 0;
  };
  /// The search state at one position.
  struct Level {
    struct Candidate {
      double bound;
      int option, group;
    };
    std::vector<Candidate> candidates;
    std::vector<double> groupBounds;
    std::vector<std::vector<double>> usages; ///< by group, once asked for, and row
    std::vector<uint8_t> hasUsages;
    std::vector<int> frontier;                                ///< earlier positions that later ones have pairs with
    std::unordered_map<uint64_t, std::vector<double>> labels; ///< by their groups: cost and usages, one after another
  };

  void orderPieces(std::vector<int> pieces);
  /// Adds a row that every plan satisfies.
  void addRow(const Row &row);
  void planMessages();
  std::vector<double> pairTable(const PairHere &pair, const std::vector<double> &table) const;
  void eliminate(Terms &terms) const;
  void updateLive();
  void updateGroups(Terms &terms) const;
  double messageAt(const Terms &terms, int message, llvm::ArrayRef<int> groups) const;
  void priceRows();
  std::vector<int> decode() const;
  /// Returns true if an assignment with this option costs less than `below`, or if that is not known in time. Marks the
  /// options of the assignment in `alive` (by position and option).
  bool exists(int position, int option, double below, std::vector<std::vector<uint8_t>> &alive);
  double usageOf(const RowHere &row, llvm::ArrayRef<int> options) const;
  /// Takes an assignment that satisfies all rows; returns true if it does.
  bool offer(llvm::ArrayRef<int> options, double &below, Result &result);
  double relax(double &below, int rounds, Result &result);
  void search(double &below, bool stopAtFirst, Result &result);
  bool isDominated(Level &level, double bound, llvm::ArrayRef<double> usages);
  void descend(int position, double bound, std::vector<double> &usages, double &below, bool stopAtFirst,
               Result &result);

  const Program &program;
  std::unique_ptr<TimedSearch> timed; ///< set if some agent has a percentile or is in the objective
  std::vector<int> checks;            ///< of the agents inside
  std::vector<int> order, positionOf, groups;
  std::vector<PairHere> pairs;
  std::vector<std::vector<int>> pairsBack; ///< by position: pairs to earlier ones
  std::vector<Message> messages;
  std::vector<std::vector<int>> sent, received; ///< by position: messages from it; those whose scope ends with it
  std::vector<RowHere> rows;
  Terms costs, priced;
  std::vector<std::vector<uint8_t>> allowed; ///< by position and option
  std::vector<std::vector<int>> live;        ///< by position: groups with an option that is allowed
  bool isImpossible = false, isPriced = false;
  std::vector<int> optionsTaken, groupsTaken, assignment;
  std::vector<Level> levels;
  size_t visited = 0, visitLimit = 0, labels;
  bool rowAdded = false;
  double leftOut = 0; ///< least bound among the parts that a search did not visit
};

} // namespace intarsia::plan

#endif
