//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Branch and price (Barnhart et al., Operations Research 46(3), 1998). Components share only resources, so a plan is
// one column of each component. The linear program over the known columns gives resources their prices; at these prices
// each component is solved exactly, which gives new columns and a bound (Dantzig and Wolfe, 1960) that is as good as if
// latencies and routes inside components were convex. Branches fix numbers of whole nodes, then where pieces may go.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_BRANCHANDPRICE_H
#define INTARSIA_PLAN_BRANCHANDPRICE_H

#include "Component.h"
#include "LinearProgram.h"
#include "LocalSearch.h"
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <set>

namespace intarsia::plan {

class BranchAndPrice {
public:
  /// Callbacks to the owner of the search.
  struct Owner {
    /// Evaluates an assignment (option by piece) and keeps it if it is the best; true if it is feasible.
    std::function<bool(llvm::ArrayRef<int>)> offer;
    std::function<double()> bestObjective; ///< objective of the best assignment offered; infinity if none is feasible
    std::function<llvm::ArrayRef<int>()> best;
  };
  /// Starts a search, which changes only `program.active`. One for `anyPlan` ends with the first plan: its linear
  /// programs have no costs, and their optimum is by how much resources are exceeded.
  BranchAndPrice(Program &program, Owner owner, Clock::time_point deadline, double relativeGap, bool anyPlan = false);
  ~BranchAndPrice();

  /// Returns a lower bound of all plans' objectives: the objective of the best plan if the search ended in time and in
  /// so many nodes. Of a search for any plan: infinity if there is none.
  double run(int mostNodes = std::numeric_limits<int>::max());

  int nodesSolved = 0;
  double rootBound = -unlimited, rootSeconds = 0;
  std::vector<uint8_t> scarce; ///< by resource: it had a price where nodes were proven to have no plan at all

private:
  static constexpr double integral = 1e-6; ///< largest distance to an integer that counts as integral

  struct Column {
    int component;
    std::vector<int> options; ///< by position in its component
    double cost;
    std::vector<double> uses; ///< by row of resources
    int index;                ///< column in the linear program
  };
  struct Decision {
    int piece;
    std::vector<uint8_t> allowed; ///< by option
  };
  struct Node {
    double bound;
    std::vector<std::pair<double, double>> counts; ///< bounds on the number of whole nodes, by row of resources
    std::vector<Decision> decisions;
    std::vector<double> prices;
  };
  /// Two children of a node: at most or at least a number of whole nodes, outside or inside of a pool or an option.
  struct Branching {
    enum class Kind { Count, Pool, Option } kind;
    double weight;
    double solution; ///< the linear program's, between the children
    int index;       ///< of a row of resources, or of a piece
    int value = 0;   ///< of a pool or an option
  };
  /// A resource that can be scarce or is paid by the node.
  struct Shared {
    int resource;
    double unit = 1; ///< divisor of amounts in the linear program
    double limit = 0, nodeSize = 0, nodeCost = 0;
    std::vector<std::pair<int, double>> nodeUses; ///< (row, amount)
    int countColumn = -1;
    double most = 0; ///< largest number of whole nodes
  };

  double secondsLeft() const;
  /// Returns the bound from which on a node cannot have the plan that is searched for.
  double cutoff() const;
  /// Returns false if the column is known already.
  bool addColumn(int component, llvm::ArrayRef<int> options);
  void addBest();
  bool isAllowed(const Column &column, const std::vector<std::vector<uint8_t>> &allowed) const;
  double priceOf(const Column &column, llvm::ArrayRef<double> prices) const;
  /// `scale`: factor of costs.
  void setPrices(llvm::ArrayRef<double> prices, const std::vector<std::vector<uint8_t>> &allowed, double scale);
  /// Does the work of each component, by index; in parallel where components take long.
  void forComponents(llvm::function_ref<void(size_t)> work);
  /// Returns by component the least cost of usable columns at these prices.
  std::vector<double> leastOf(llvm::ArrayRef<double> prices, llvm::ArrayRef<uint8_t> usable) const;
  std::vector<Component::Result> minimizeAll(llvm::ArrayRef<double> below, bool exactly);
  std::vector<std::vector<uint8_t>> allowedIn(const Node &node) const;
  /// Returns the contribution of limits and whole nodes to the bound at these prices; `costs` is a factor of costs.
  double countsAt(const Node &node, llvm::ArrayRef<double> prices, double costs = 1) const;
  /// Adds columns until the bound equals the optimum of the linear program; in a search for any plan, until that is
  /// zero or the bound is not.
  void solveNode(Node &node, int rounds = 1000);
  /// Adds the columns of the best plan, which so many nodes of a search for any look for where none is known. Returns
  /// false if they prove that there is none.
  bool findAnyPlan(int nodes);
  /// Adds the resources that have a price to those that are scarce.
  void noteScarce(llvm::ArrayRef<double> prices);
  /// Gives the linear program the bounds of a node; returns the columns that it may use.
  std::vector<uint8_t> enter(const Node &node, const std::vector<std::vector<uint8_t>> &allowed);
  /// Returns branchings whose children both exclude the linear program's solution, the most promising first.
  std::vector<Branching> branchings(const Node &node) const;
  /// Returns the children; the last is nearer to the linear program's solution.
  std::array<Node, 2> childrenOf(const Node &node, const Branching &branching) const;
  /// Returns the pool of a piece's option, or the option itself.
  int classOf(Branching::Kind kind, int piece, int option) const;
  /// Returns the pair that raises the bound most, the nearer node last; false if the solution is a plan.
  bool branch(const Node &node, std::vector<Node> &children);
  /// Returns true if the subtree of the node solved last may contain a better plan.
  bool isOpen(const Node &node) const;
  /// Returns the largest column of each component; `isPlan`: they are the whole solution of the linear program.
  std::vector<int> assignmentOfSolution(bool &isPlan) const;
  /// Search for plans: by fixing more and more of the linear program's solution, over all columns, in a neighborhood.
  void dive(Node node);
  void combine(const Node &node, double seconds);
  void improve(std::vector<int> assignment, double seconds);
  /// Removes options that no plan better than the best has.
  void eliminate(const Node &root);

  Program &program;
  Owner owner;
  Clock::time_point deadline;
  double relativeGap;
  bool anyPlan;
  std::vector<Component> components;
  std::vector<Shared> shared;
  std::vector<int> rowOf; ///< by resource; -1 if it cannot be scarce
  std::vector<Column> columns;
  std::vector<std::vector<int>> columnsOf; ///< by component
  std::set<std::pair<int, std::vector<int>>> known;
  std::unique_ptr<LinearProgram> master;
  std::unique_ptr<LocalSearch> local; ///< of `improve`; finds what goes together once
  std::vector<int> artificial;        ///< columns that keep the linear program feasible, at a cost that grows
  double artificialCost;
  double scale = 1; ///< factor of costs in the linear program
  size_t combinedColumns = 0;
};

} // namespace intarsia::plan

#endif
