//===- LeastCostTest.cpp - Tests of lib/Fuse/LeastCost ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/LeastCost.h"

#include <gtest/gtest.h>
#include <random>

using namespace intarsia::fuse;

namespace {
/// Random costs on edges and variables, which are summed here once more.
struct Graph {
  LeastCost problem;
  std::vector<unsigned> counts;
  struct Edge {
    unsigned first, second;
    std::vector<double> costs;
  };
  std::vector<Edge> edges;
  std::vector<std::vector<double>> own;
  std::mt19937 random;

  explicit Graph(unsigned seed) : random(seed) {}

  void addVariable(unsigned labels) {
    counts.push_back(labels);
    problem.addVariable(labels);
    own.push_back(numbers(labels));
    problem.addCost(unsigned(counts.size() - 1), own.back());
  }
  void addEdge(unsigned first, unsigned second) {
    edges.push_back({first, second, numbers(counts[first] * counts[second])});
    problem.addCost(first, second, edges.back().costs);
  }
  /// One in five is not allowed.
  std::vector<double> numbers(unsigned count) {
    std::vector<double> result;
    for (unsigned i = 0; i < count; ++i)
      result.push_back(random() % 5 ? double(random() % 100) : LeastCost::infinity);
    return result;
  }
  double sum(llvm::ArrayRef<unsigned> labels) const {
    double sum = 0;
    for (unsigned variable = 0; variable < counts.size(); ++variable)
      sum += own[variable][labels[variable]];
    for (const Edge &edge : edges)
      sum += edge.costs[labels[edge.first] * counts[edge.second] + labels[edge.second]];
    return sum;
  }
  double leastOfAll(const LeastCost::Allowed &allowed) const {
    double least = LeastCost::infinity;
    llvm::SmallVector<unsigned> labels(counts.size(), 0);
    for (bool more = true; more;) {
      bool isAllowed = true;
      for (unsigned variable = 0; variable < counts.size(); ++variable)
        isAllowed &= allowed[variable] >> labels[variable] & 1;
      if (isAllowed)
        least = std::min(least, sum(labels));
      more = false;
      for (unsigned variable = 0; variable < counts.size() && !more; ++variable) {
        more = ++labels[variable] < counts[variable];
        if (!more)
          labels[variable] = 0;
      }
    }
    return least;
  }
};
} // namespace

TEST(LeastCost, isLeastOfAllLabels) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Graph graph(seed);
    unsigned size = 2 + graph.random() % 6;
    for (unsigned i = 0; i < size; ++i)
      graph.addVariable(1 + graph.random() % 4);
    for (unsigned i = 1; i < size; ++i)
      graph.addEdge(graph.random() % i, i); // a tree
    for (unsigned more = graph.random() % 5; more; --more)
      if (unsigned first = graph.random() % size, second = graph.random() % size; first != second)
        graph.addEdge(first, second);
    LeastCost::Allowed allowed = graph.problem.everything();
    if (seed % 2)
      allowed[graph.random() % size] &= 1 + 4;
    LeastCost::Solution solution = graph.problem.solve(graph.problem.around({0}), allowed);
    EXPECT_EQ(solution.cost, graph.leastOfAll(allowed)) << seed;
    if (!std::isinf(solution.cost))
      EXPECT_EQ(solution.cost, graph.sum(solution.labels)) << seed;
  }
}

TEST(LeastCost, solvesLongChains) {
  LeastCost problem;
  for (unsigned i = 0; i < 500; ++i) {
    problem.addVariable(3);
    if (i) // the next label, or a cost
      problem.addCost(i - 1, i, {1, 0, 1, 1, 1, 0, 0, 1, 1});
  }
  LeastCost::Solution solution = problem.solve(problem.around({250}), problem.everything());
  EXPECT_EQ(solution.cost, 0);
  EXPECT_EQ((solution.labels[499] + 3 - solution.labels[0]) % 3, 499u % 3);
}

TEST(LeastCost, solvesAPartWithTheRestAsItIs) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Graph graph(seed);
    for (unsigned i = 0; i < 7; ++i) {
      graph.addVariable(3);
      if (i)
        graph.addEdge(i - 1, i);
    }
    llvm::SmallVector<unsigned> part = graph.problem.around({3}, 3);
    EXPECT_EQ(part, (llvm::SmallVector<unsigned>{3, 2, 4}));
    LeastCost::Allowed allowed = graph.problem.everything();
    for (unsigned other : {0, 1, 5, 6})
      allowed[other] = 1;
    LeastCost::Solution solution = graph.problem.solve(part, allowed);
    // All costs but those that no variable of the part has.
    double others = 0;
    for (unsigned other : {0, 1, 5, 6})
      others += graph.own[other][0];
    others += graph.edges[0].costs[0] + graph.edges[5].costs[0];
    if (!std::isinf(others))
      EXPECT_EQ(solution.cost + others, graph.leastOfAll(allowed)) << seed;
  }
}

TEST(LeastCost, leavesOtherComponentsAlone) {
  LeastCost problem;
  for (unsigned i = 0; i < 4; ++i)
    problem.addCost(problem.addVariable(2), {1, 0});
  problem.addCost(0, 2, {0, 5, 5, 0});
  EXPECT_EQ(problem.around({2}), (llvm::SmallVector<unsigned>{2, 0}));
  LeastCost::Solution solution = problem.solve(problem.around({2}), problem.everything());
  EXPECT_EQ(solution.cost, 0);
  EXPECT_EQ(solution.labels, (LeastCost::Labels{1, 0, 1, 0}));
}

// All pairs of 20 variables of 6 labels would need a table of 6^19 entries.
TEST(LeastCost, keepsFirstLabelsWhereTablesWouldBeTooLarge) {
  LeastCost problem;
  for (unsigned i = 0; i < 20; ++i) {
    problem.addVariable(6);
    for (unsigned other = 0; other < i; ++other) {
      std::vector<double> costs(36, 1);
      for (unsigned label = 0; label < 6; ++label)
        costs[label * 7] = 0; // equal labels
      problem.addCost(other, i, costs);
    }
  }
  LeastCost::Solution solution = problem.solve(problem.around({0}), problem.everything());
  EXPECT_EQ(solution.cost, 0);
  EXPECT_EQ(solution.labels, LeastCost::Labels(20, 0));
}
