//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Dominance.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <numeric>

using namespace llvm;

namespace intarsia::plan {

bool noSlower(const Stage &a, const Stage &b, bool spreads) {
  // For a stage with nothing after its first output, the first output has the spread instead.
  if (spreads && (a.restMs > 0) != (b.restMs > 0))
    return false;
  return a.waitProbability <= b.waitProbability &&
         a.waitIfPositiveMs * a.waitProbability <= b.waitIfPositiveMs * b.waitProbability &&
         (a.waitProbability == 0 || a.waitIfPositiveMs <= b.waitIfPositiveMs) && a.firstMs <= b.firstMs &&
         a.restMs <= b.restMs;
}

void dropDominated(std::vector<Option> &all, const Piece &piece, bool timed, size_t resources) {
  // Only options of one class can replace each other: same group, same pool, and both or neither with a time after the
  // first output. A stage without a rest spreads its first output instead.
  using Class = std::tuple<int, int, bool>;
  bool spreads = piece.shape.kind != Shape::Kind::Deterministic;
  // An option is dominated where no figure of another is above its own; the other also precedes it in lexicographic
  // order of the figures.
  size_t width = 1 + resources + (timed ? 5 : 0);
  std::vector<double> figures(all.size() * width, 0.0);
  auto figuresOf = [&](size_t option) { return ArrayRef(figures).slice(option * width, width); };
  for (auto [index, option] : enumerate(all)) {
    double *of = figures.data() + index * width;
    of[0] = option.cost;
    for (auto [resource, amount] : option.uses)
      of[1 + resource] = amount;
    const Stage &stage = option.stage;
    if (timed)
      llvm::copy(std::initializer_list<double>{stage.waitProbability, stage.waitProbability * stage.waitIfPositiveMs,
                                               stage.waitProbability > 0 ? stage.waitIfPositiveMs : 0.0, stage.firstMs,
                                               stage.restMs},
                 of + 1 + resources);
  }
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::sort(order, [&](size_t a, size_t b) {
    ArrayRef<double> left = figuresOf(a), right = figuresOf(b);
    auto [atLeft, atRight] = std::mismatch(left.begin(), left.end(), right.begin());
    return atLeft == left.end() ? a < b : *atLeft < *atRight;
  });
  std::map<Class, std::vector<size_t>> kept;
  std::vector<bool> dropped(all.size());
  for (size_t index : order) {
    const Option &option = all[index];
    auto &better =
        kept[{option.group, piece.candidates[option.choice].pool, timed && spreads && option.stage.restMs > 0}];
    dropped[index] = llvm::any_of(better, [&](size_t other) {
      return llvm::all_of(llvm::zip(figuresOf(other), figuresOf(index)),
                          [](auto pair) { return std::get<0>(pair) <= std::get<1>(pair); });
    });
    if (!dropped[index])
      better.push_back(index);
  }
  size_t next = 0;
  llvm::erase_if(all, [&](const Option &) { return dropped[next++]; });
}

} // namespace intarsia::plan
