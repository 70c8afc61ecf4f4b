//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "BranchAndPrice.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Parallel.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace intarsia::plan {

/// Size of the best plan's objective in the linear program, whose tolerances are absolute.
constexpr double objectiveInProgram = 1000;
/// Cost of the columns that keep the linear program feasible: at first, and at most.
constexpr double firstArtificialCost = 100 * objectiveInProgram, mostArtificialCost = 1e6 * objectiveInProgram;
constexpr int nodesBetweenDives = 20;
/// Nodes of a search without costs: of the first, and at most. Each has twice as many as the one before.
constexpr int nodesForAnyPlanAtFirst = 40, mostNodesForAnyPlan = 1 << 20;
constexpr int roundsOfFirstPlan = 2;
constexpr size_t branchingsTried = 12;
/// Share of the largest price by which plans must exceed resources in a proof that there is none.
constexpr double toleranceOfRays = 1e-6;
/// Price of a component without a plan where that of a resource exceeded by its limit is one.
constexpr double priceOfNone = 1000;

BranchAndPrice::BranchAndPrice(Program &program, Owner owner, Clock::time_point deadline, double relativeGap,
                               bool anyPlan)
    : scarce(program.resources.size()), program(program), owner(std::move(owner)), deadline(deadline),
      relativeGap(relativeGap), anyPlan(anyPlan), artificialCost(anyPlan ? 1 : firstArtificialCost) {
  std::vector<double> mostMs;
  for (double weight : program.latencyWeights)
    mostMs.push_back(weight > 0 ? this->owner.bestObjective() / weight : unlimited);
  for (auto &pieces : componentsOf(program))
    components.emplace_back(program, std::move(pieces), mostMs, deadline);
  columnsOf.resize(components.size());

  double best = this->owner.bestObjective();
  if (best == unlimited) {
    best = 0;
    for (auto [piece, all] : enumerate(program.options)) {
      double least = unlimited;
      for (auto &option : all)
        least = std::min(least, std::abs(program.relaxedCost(option, int(piece))));
      best += least;
    }
  }
  scale = anyPlan ? 0 : best > 0 ? objectiveInProgram / best : 1;

  // Resources that can be scarce.
  std::vector<double> most(program.resources.size(), 0.0);
  for (auto &all : program.options) {
    std::vector<double> ofPiece(most.size(), 0.0);
    for (auto &option : all)
      for (auto [resource, amount] : option.uses)
        ofPiece[resource] = std::max(ofPiece[resource], amount);
    for (auto [sum, amount] : zip(most, ofPiece))
      sum += amount;
  }
  for (auto &pair : program.pairs)
    for (auto &[resource, amounts] : pair.uses)
      most[resource] += *std::max_element(amounts.begin(), amounts.end());
  rowOf.assign(program.resources.size(), -1);
  for (auto [index, resource] : enumerate(program.resources))
    for (auto [used, amount] : resource.nodeUses)
      most[used] += amount * std::ceil(most[index] / resource.nodeSize);
  for (auto [index, resource] : enumerate(program.resources)) {
    if (resource.nodeSize == 0 && !(most[index] > resource.limit))
      continue;
    rowOf[index] = int(shared.size());
    Shared row{int(index)};
    // Rounding adds whole nodes, however many there are: the price of a missing part of one must be high.
    row.unit = resource.nodeSize                                  ? double(resource.nodeSize)
               : resource.limit > 0 && resource.limit < unlimited ? resource.limit
                                                                  : 1;
    row.limit = resource.nodeSize ? 0 : resource.limit / row.unit;
    row.nodeSize = double(resource.nodeSize) / row.unit;
    row.nodeCost = resource.nodeCost * scale;
    // No plan needs more, and numbers that are much too large make rounding errors of prices count.
    if (resource.nodeSize)
      row.most = std::min(std::floor(resource.limit / resource.nodeSize + 1e-9),
                          std::ceil(most[index] / resource.nodeSize - 1e-9));
    shared.push_back(row);
  }
  for (auto &row : shared)
    for (auto [used, amount] : program.resources[row.resource].nodeUses)
      if (rowOf[used] >= 0)
        row.nodeUses.push_back({rowOf[used], amount / shared[rowOf[used]].unit});

  std::vector<std::pair<double, double>> bounds(components.size(), {1, 1});
  for (auto &row : shared)
    bounds.push_back({-unlimited, row.limit});
  master = std::make_unique<LinearProgram>(bounds);
  int first = int(components.size());
  for (auto [index, row] : enumerate(shared)) {
    if (row.nodeSize > 0) {
      std::vector<LinearProgram::Entry> entries{{first + int(index), -row.nodeSize}};
      for (auto [used, amount] : row.nodeUses)
        entries.push_back({first + used, amount});
      row.countColumn = master->addColumn(row.nodeCost, 0, row.most, entries);
    }
    artificial.push_back(master->addColumn(artificialCost, 0, unlimited, {{first + int(index), -1.0}}));
  }
  for (size_t component = 0; component < components.size(); ++component)
    artificial.push_back(
        master->addColumn(artificialCost * (anyPlan ? priceOfNone : 1), 0, unlimited, {{int(component), 1.0}}));
}

BranchAndPrice::~BranchAndPrice() = default;

double BranchAndPrice::secondsLeft() const { return std::chrono::duration<double>(deadline - Clock::now()).count(); }

double BranchAndPrice::cutoff() const {
  double best = owner.bestObjective();
  if (anyPlan)
    return best == unlimited ? toleranceOfRays : -unlimited;
  return best == unlimited ? unlimited : best * scale - relativeGap * std::abs(best) * scale;
}

//===----------------------------------------------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------------------------------------------===//

bool BranchAndPrice::addColumn(int index, ArrayRef<int> options) {
  if (!known.insert({index, options.vec()}).second)
    return false;
  Component &component = components[index];
  Column column{index, options.vec(), 0, std::vector<double>(shared.size(), 0.0), -1};
  auto use = [&](int resource, double amount) {
    if (rowOf[resource] >= 0)
      column.uses[rowOf[resource]] += amount / shared[rowOf[resource]].unit;
  };
  std::vector<int> groupOf(program.options.size(), -1), assignment(program.options.size(), 0);
  for (auto [piece, option] : zip(component.pieces(), options)) {
    const Option &taken = program.options[piece][option];
    assignment[piece] = option;
    groupOf[piece] = taken.group;
    column.cost += taken.cost * scale;
    for (auto [resource, amount] : taken.uses)
      use(resource, amount);
  }
  for (int pairIndex : component.pairsInside()) {
    const Pair &pair = program.pairs[pairIndex];
    size_t at = size_t(groupOf[pair.from]) * pair.toGroups + groupOf[pair.to];
    column.cost += pair.cost[at] * scale;
    for (auto &[resource, amounts] : pair.uses)
      use(resource, amounts[at]);
  }
  column.cost += component.latencyOf(assignment) * scale;
  component.keep(options);
  std::vector<LinearProgram::Entry> entries{{index, 1.0}};
  for (auto [row, amount] : enumerate(column.uses))
    if (amount != 0)
      entries.push_back({int(components.size() + row), amount});
  column.index = master->addColumn(column.cost, 0, unlimited, entries);
  columnsOf[index].push_back(int(columns.size()));
  columns.push_back(std::move(column));
  return true;
}

void BranchAndPrice::addBest() {
  ArrayRef<int> best = owner.best();
  if (best.empty())
    return;
  for (auto [index, component] : enumerate(components)) {
    std::vector<int> options;
    for (int piece : component.pieces())
      options.push_back(best[piece]);
    addColumn(int(index), options);
  }
}

bool BranchAndPrice::isAllowed(const Column &column, const std::vector<std::vector<uint8_t>> &allowed) const {
  for (auto [piece, option] : zip(components[column.component].pieces(), column.options))
    if (!allowed[piece][option])
      return false;
  return true;
}

double BranchAndPrice::priceOf(const Column &column, ArrayRef<double> prices) const {
  double sum = column.cost;
  for (auto [price, amount] : zip(prices, column.uses))
    sum += price * amount;
  return sum;
}

void BranchAndPrice::setPrices(ArrayRef<double> prices, const std::vector<std::vector<uint8_t>> &allowed,
                               double scale) {
  std::vector<double> byResource(program.resources.size(), 0.0);
  for (auto [price, row] : zip(prices, shared))
    byResource[row.resource] = price / row.unit;
  std::vector<std::vector<double>> optionCosts(program.options.size()), pairCosts(program.pairs.size());
  for (auto [costs, all] : zip(optionCosts, program.options)) {
    costs.reserve(all.size());
    for (auto &option : all) {
      double cost = option.cost * scale;
      for (auto [resource, amount] : option.uses)
        cost += byResource[resource] * amount;
      costs.push_back(cost);
    }
  }
  for (auto [costs, pair] : zip(pairCosts, program.pairs)) {
    costs = pair.cost;
    for (double &cost : costs)
      cost = cost == unlimited ? cost : cost * scale;
    for (auto &[resource, amounts] : pair.uses)
      if (double price = byResource[resource]; price != 0)
        for (auto [cost, amount] : zip(costs, amounts))
          cost += price * amount;
  }
  forComponents([&](size_t index) { components[index].setPrices(optionCosts, pairCosts, allowed, scale); });
}

void BranchAndPrice::forComponents(function_ref<void(size_t)> work) {
  if (any_of(components, [](const Component &component) { return component.hasDistributions(); }))
    return parallelFor(0, components.size(), work);
  for (size_t index = 0; index < components.size(); ++index)
    work(index);
}

std::vector<double> BranchAndPrice::leastOf(ArrayRef<double> prices, ArrayRef<uint8_t> usable) const {
  std::vector<double> least(components.size(), unlimited);
  for (auto [of, known] : zip(least, columnsOf))
    for (int column : known)
      if (usable[column])
        of = std::min(of, priceOf(columns[column], prices));
  return least;
}

std::vector<Component::Result> BranchAndPrice::minimizeAll(ArrayRef<double> below, bool exactly) {
  std::vector<Component::Result> results(components.size());
  forComponents([&](size_t index) { results[index] = components[index].minimize(below[index], exactly); });
  return results;
}

//===----------------------------------------------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------------------------------------------===//

std::vector<std::vector<uint8_t>> BranchAndPrice::allowedIn(const Node &node) const {
  auto allowed = program.active;
  for (auto &decision : node.decisions)
    for (auto [here, there] : zip(allowed[decision.piece], decision.allowed))
      here &= there;
  return allowed;
}

double BranchAndPrice::countsAt(const Node &node, ArrayRef<double> prices, double costs) const {
  double sum = 0;
  for (auto [index, row] : enumerate(shared)) {
    sum -= prices[index] * row.limit;
    if (row.nodeSize == 0)
      continue;
    double cost = costs * row.nodeCost - prices[index] * row.nodeSize;
    for (auto [used, amount] : row.nodeUses)
      cost += prices[used] * amount;
    sum += cost * (cost > 0 ? node.counts[index].first : node.counts[index].second);
  }
  return sum;
}

void BranchAndPrice::solveNode(Node &node, int rounds) {
  ++nodesSolved;
  auto allowed = allowedIn(node);
  std::vector<uint8_t> usable = enter(node, allowed);
  // Prices heuristically at first, then exactly.
  bool exactly = false, stale = false;
  double best = -unlimited;
  for (int round = 0; round < rounds && secondsLeft() > 0; ++round) {
    if (!master->solve())
      return;
    if (anyPlan && master->objective() < integral) { // plans stay within all resources
      node.bound = std::max(node.bound, 0.0);
      return;
    }
    std::vector<double> prices(shared.size());
    for (auto [row, price] : enumerate(prices))
      price = std::max(0.0, -master->dual(int(components.size() + row)));
    setPrices(prices, allowed, scale);
    stale = false;
    double bound = countsAt(node, prices);
    bool added = false;
    for (auto [index, result] : enumerate(minimizeAll(leastOf(prices, usable), exactly))) {
      bound += result.bound;
      if (result.bound == unlimited) {
        node.bound = unlimited;
        return;
      }
      for (auto &found : result.found)
        if (addColumn(int(index), found.options)) {
          usable.push_back(1);
          added = stale = true;
        }
    }
    if (bound > best) {
      best = bound;
      node.prices = prices;
    }
    node.bound = std::max(node.bound, best);
    if (node.bound >= cutoff()) {
      noteScarce(prices);
      break;
    }
    if (anyPlan) {
      if (!added && exactly)
        break;
      exactly |= !added;
      continue;
    }
    bool isBounded = node.bound > -unlimited;
    // Who asks for any plan at all has a large gap, which says nothing before there is one.
    double tolerance = 0.1 * (owner.bestObjective() == unlimited ? std::min(relativeGap, 1e-6) : relativeGap);
    if ((isBounded && master->objective() - node.bound <= tolerance * std::abs(node.bound)) || (!added && exactly)) {
      if (llvm::all_of(artificial, [&](int column) { return master->solution(column) < integral; }))
        break;
      // The artificial columns may be cheaper than any plan of this node. Where not even plans that cost nothing stay
      // within the resources at these prices, there is none (Farkas).
      setPrices(prices, allowed, 0);
      double missing = countsAt(node, prices, /*costs=*/0);
      bool found = false;
      for (auto [index, result] :
           enumerate(minimizeAll(std::vector<double>(components.size(), unlimited), /*exactly=*/true))) {
        if (result.bound == unlimited && result.found.empty()) {
          node.bound = unlimited;
          return;
        }
        missing += result.bound;
        for (auto &plan : result.found)
          if (addColumn(int(index), plan.options)) {
            usable.push_back(1);
            found = true;
          }
      }
      double largest = prices.empty() ? 0 : *std::max_element(prices.begin(), prices.end());
      if (missing > toleranceOfRays * largest && largest > 0) {
        node.bound = unlimited;
        return;
      }
      if (!found) {
        if (artificialCost >= mostArtificialCost)
          break;
        artificialCost *= 100;
        for (int column : artificial)
          master->setCost(column, artificialCost);
      }
    } else if (!added) {
      exactly = true;
    }
  }
  if (stale)
    master->solve();
}

void BranchAndPrice::noteScarce(ArrayRef<double> prices) {
  for (auto [row, price] : zip(shared, prices))
    scarce[row.resource] |= price > 0;
}

std::vector<uint8_t> BranchAndPrice::enter(const Node &node, const std::vector<std::vector<uint8_t>> &allowed) {
  for (auto [row, count] : zip(shared, node.counts))
    if (row.countColumn >= 0)
      master->setBounds(row.countColumn, count.first, count.second);
  std::vector<uint8_t> usable;
  for (auto &column : columns) {
    usable.push_back(isAllowed(column, allowed));
    master->setBounds(column.index, 0, usable.back() ? unlimited : 0);
  }
  return usable;
}

int BranchAndPrice::classOf(Branching::Kind kind, int piece, int option) const {
  return kind == Branching::Kind::Pool
             ? program.problem.pieces[piece].candidates[program.options[piece][option].choice].pool
             : option;
}

std::vector<BranchAndPrice::Branching> BranchAndPrice::branchings(const Node &node) const {
  using Kind = Branching::Kind;
  std::vector<Branching> found;
  // Branches on whole nodes first: they are what the linear program relaxes most.
  for (auto [index, row] : enumerate(shared)) {
    if (row.countColumn < 0)
      continue;
    double count = master->solution(row.countColumn), away = std::abs(count - std::round(count));
    if (away > integral)
      found.push_back({Kind::Count, away * (row.nodeCost + 1e-6), count, int(index)});
  }
  // Then the pool of a piece, then its option.
  auto allowed = allowedIn(node);
  for (Kind kind : {Kind::Pool, Kind::Option}) {
    if (!found.empty())
      break;
    std::vector<std::vector<double>> shares(program.options.size());
    std::vector<std::vector<int>> counts(program.options.size()); // of allowed options
    for (auto [piece, all] : enumerate(program.options)) {
      size_t classes = kind == Kind::Pool ? program.problem.pools.size() : all.size();
      shares[piece].assign(classes, 0.0);
      counts[piece].assign(classes, 0);
      for (auto [option, isAllowed] : enumerate(allowed[piece]))
        counts[piece][classOf(kind, int(piece), int(option))] += isAllowed;
    }
    for (auto &column : columns)
      if (double value = master->solution(column.index); value > 1e-9)
        for (auto [piece, option] : zip(components[column.component].pieces(), column.options))
          shares[piece][classOf(kind, piece, option)] += value;
    for (auto [piece, of] : enumerate(shares)) {
      int all = std::accumulate(counts[piece].begin(), counts[piece].end(), 0);
      for (auto [value, share] : enumerate(of)) {
        double away = std::min(share, 1 - share);
        // Where a piece has only this class left, the rest of its share is an artificial column's: a child would be the
        // node itself, and so would its child.
        if (away > integral && counts[piece][value] < all)
          found.push_back({kind, away, share, int(piece), int(value)});
      }
    }
  }
  llvm::stable_sort(found, [](const Branching &a, const Branching &b) { return a.weight > b.weight; });
  return found;
}

std::array<BranchAndPrice::Node, 2> BranchAndPrice::childrenOf(const Node &node, const Branching &branching) const {
  bool upperIsNearer = branching.solution - std::floor(branching.solution) > 0.5;
  std::array<Node, 2> children{node, node};
  for (bool upper : {false, true}) {
    Node &child = children[upper == upperIsNearer];
    if (branching.kind == Branching::Kind::Count) {
      auto &[least, most] = child.counts[branching.index];
      (upper ? least : most) = upper ? std::ceil(branching.solution) : std::floor(branching.solution);
      continue;
    }
    Decision decision{branching.index, {}};
    for (size_t option = 0; option < program.options[branching.index].size(); ++option)
      decision.allowed.push_back((classOf(branching.kind, branching.index, int(option)) == branching.value) == upper);
    child.decisions.push_back(std::move(decision));
  }
  return children;
}

bool BranchAndPrice::branch(const Node &node, std::vector<Node> &children) {
  std::vector<Branching> candidates = branchings(node);
  if (candidates.empty())
    return false;
  if (candidates.size() > branchingsTried)
    candidates.resize(branchingsTried);
  // Strong branching, over the known columns.
  std::array<Node, 2> taken;
  double best = -1, before = master->objective();
  for (const Branching &candidate : candidates) {
    std::array<Node, 2> tried = childrenOf(node, candidate);
    double score = 0;
    if (candidates.size() > 1 && secondsLeft() > 0) {
      double rises[2];
      for (int side : {0, 1}) {
        enter(tried[side], allowedIn(tried[side]));
        rises[side] = master->solve() ? std::min(master->objective() - before, objectiveInProgram) : objectiveInProgram;
      }
      score = std::max(rises[0], 1e-6) * std::max(rises[1], 1e-6);
    }
    if (score > best)
      best = score, taken = std::move(tried);
  }
  for (Node &child : taken)
    children.push_back(std::move(child));
  return true;
}

//===----------------------------------------------------------------------------------------------------------===//
// The tree
//===----------------------------------------------------------------------------------------------------------===//

bool BranchAndPrice::findAnyPlan(int nodes) {
  if (owner.bestObjective() == unlimited) {
    BranchAndPrice search(program, owner, deadline, relativeGap, /*anyPlan=*/true);
    double bound = search.run(nodes);
    nodesSolved += search.nodesSolved, scarce = search.scarce;
    if (bound == unlimited)
      return false;
  }
  addBest();
  return true;
}

double BranchAndPrice::run(int mostNodes) {
  Clock::time_point begin = Clock::now();
  Node root;
  root.bound = -unlimited;
  for (auto &row : shared)
    root.counts.push_back({0, row.most});
  addBest();
  bool isPlan;
  // A first plan comes before bounds, which take long where times count.
  if (owner.bestObjective() == unlimited && !anyPlan) {
    Node first = root;
    solveNode(first, roundsOfFirstPlan);
    owner.offer(assignmentOfSolution(isPlan));
    if (owner.bestObjective() == unlimited && first.bound < unlimited)
      dive(first);
    if (!findAnyPlan(/*nodes=*/1))
      return unlimited;
  }
  solveNode(root);
  rootSeconds = std::chrono::duration<double>(Clock::now() - begin).count();
  rootBound = anyPlan ? -unlimited : root.bound / scale;
  if (root.bound == unlimited)
    return owner.bestObjective();
  std::vector<Node> open;
  double lowest = root.bound, unresolved = unlimited;
  auto ended = [&] { return lowest >= cutoff() || secondsLeft() <= 0 || nodesSolved >= mostNodes; };
  if (std::vector<int> assignment = assignmentOfSolution(isPlan); isPlan)
    owner.offer(assignment);
  if (!ended())
    dive(root);
  if (!ended())
    combine(root, std::clamp(secondsLeft() * 0.1, 0.05, 2.0));
  int nodesForAnyPlan = nodesForAnyPlanAtFirst;
  if (!anyPlan && !ended() && !findAnyPlan(nodesForAnyPlan))
    return unlimited;
  double eliminatedAt = unlimited;
  int nodesAtDive = nodesSolved;
  auto tryEliminate = [&] {
    // Eliminates again only after the gap between bound and plan has become a good deal smaller.
    double room = owner.bestObjective() * scale - root.bound;
    if (owner.bestObjective() == unlimited || room > 0.8 * eliminatedAt)
      return;
    eliminatedAt = room;
    eliminate(root);
  };
  std::optional<Node> next = root;
  auto higher = [](const Node &a, const Node &b) { return a.bound > b.bound; };
  auto push = [&](Node node) {
    open.push_back(std::move(node));
    std::push_heap(open.begin(), open.end(), higher);
  };
  while (!ended()) {
    tryEliminate();
    if (!next) {
      if (open.empty())
        break;
      std::pop_heap(open.begin(), open.end(), higher);
      next = std::move(open.back());
      open.pop_back();
    }
    Node node = std::move(*next);
    next.reset();
    if (node.bound < cutoff())
      solveNode(node);
    if (secondsLeft() <= 0) {
      push(std::move(node));
      break;
    }
    if (node.bound < cutoff()) {
      if (std::vector<int> assignment = assignmentOfSolution(isPlan); isPlan)
        owner.offer(assignment);
      if (nodesSolved >= nodesAtDive + nodesBetweenDives) {
        Node copy = node;
        dive(node);
        if (!anyPlan && owner.bestObjective() == unlimited && !ended()) {
          nodesForAnyPlan = std::min(2 * nodesForAnyPlan, mostNodesForAnyPlan);
          if (!findAnyPlan(nodesForAnyPlan))
            return unlimited;
        }
        nodesAtDive = nodesSolved;
        solveNode(copy);
      }
      if (columns.size() > combinedColumns + combinedColumns / 2 + 50)
        combine(node, std::clamp(secondsLeft() * 0.02, 0.05, 1.0));
    }
    // Continues with the child nearer to the linear program's solution; the other is queued.
    std::vector<Node> children;
    if (node.bound < cutoff()) {
      if (branch(node, children)) {
        next = std::move(children.back());
        push(std::move(children.front()));
      } else if (any_of(components, [](Component &component) { return component.searchLonger(); })) {
        // The solution is a plan, but searches that gave up left its bound below its cost.
        next = std::move(node);
      } else {
        // The solution is a plan, but it violates a constraint that no row expresses, or costs more than the bound of a
        // search that gave up.
        unresolved = std::min(unresolved, node.bound);
      }
    }
    lowest =
        std::min({cutoff(), unresolved, next ? next->bound : unlimited, open.empty() ? unlimited : open.front().bound});
  }
  if (!open.empty())
    lowest = std::min(lowest, open.front().bound);
  else if (!next)
    lowest = std::min(cutoff(), unresolved);
  if (anyPlan)
    return owner.bestObjective() == unlimited && lowest >= cutoff() ? unlimited : -unlimited;
  return std::min(lowest / scale, owner.bestObjective());
}

} // namespace intarsia::plan
