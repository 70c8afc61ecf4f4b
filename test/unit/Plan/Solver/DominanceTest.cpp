//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Options that others dominate, by comparing each with each.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/Solver/Dominance.h"
#include <gtest/gtest.h>
#include <random>

using namespace intarsia::plan;

namespace {

double amountOf(const Option &option, int resource) {
  for (auto [which, amount] : option.uses)
    if (which == resource)
      return amount;
  return 0;
}

bool dominates(const Option &a, const Option &b, const Piece &piece, bool timed, int resources) {
  if (a.group != b.group || piece.candidates[a.choice].pool != piece.candidates[b.choice].pool || a.cost > b.cost)
    return false;
  for (int resource = 0; resource < resources; ++resource)
    if (amountOf(a, resource) > amountOf(b, resource))
      return false;
  return !timed || noSlower(a.stage, b.stage, piece.shape.kind != Shape::Kind::Deterministic);
}

TEST(PlanDominance, dropsWhatPairsSay) {
  std::mt19937_64 engine(1);
  auto draw = [&](int most) { return int(engine() % (most + 1)); };
  constexpr int resources = 3;
  int kept = 0, all = 0;
  for (int instance = 0; instance < 400; ++instance) {
    Piece piece;
    if (draw(1))
      piece.shape = Shape::exponential();
    bool timed = draw(3) > 0;
    for (int i = 0; i < 4; ++i) {
      piece.candidates.emplace_back();
      piece.candidates.back().pool = i / 2;
    }
    // Few values, so that many are equal; the number of replicas says which is which.
    std::vector<Option> options;
    for (int i = 0, count = draw(40); i < count; ++i) {
      Option option{.choice = draw(3), .replicas = i, .cost = double(draw(3)), .group = draw(1), .devices = 1};
      for (int resource = 0; resource < resources; ++resource)
        if (int amount = draw(2))
          option.uses.push_back({resource, double(amount)});
      option.stage.waitProbability = draw(2) / 2.0;
      option.stage.waitIfPositiveMs = option.stage.waitProbability > 0 || draw(1) ? 1 + draw(1) : 0;
      option.stage.firstMs = draw(1);
      option.stage.restMs = draw(2);
      options.push_back(std::move(option));
    }
    std::vector<int64_t> expected;
    for (size_t i = 0; i < options.size(); ++i) {
      bool isDropped = false;
      for (size_t j = 0; j < options.size(); ++j)
        isDropped |= i != j && dominates(options[j], options[i], piece, timed, resources) &&
                     (j < i || !dominates(options[i], options[j], piece, timed, resources));
      if (!isDropped)
        expected.push_back(options[i].replicas);
    }
    all += int(options.size()), kept += int(expected.size());
    dropDominated(options, piece, timed, resources);
    std::vector<int64_t> found;
    for (const Option &option : options)
      found.push_back(option.replicas);
    EXPECT_EQ(found, expected) << instance;
  }
  EXPECT_GT(kept, all / 10);
  EXPECT_LT(kept, all * 9 / 10);
}

} // namespace
