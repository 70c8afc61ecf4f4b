//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Local search at the prices of a component: moves of one piece, and of two linked ones to one pool, judged on the
// grid.
//===----------------------------------------------------------------------------------------------------------===//
#include "Component.h"
#include "Convolution.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Options that moves of two pieces try: of each group so many of the cheapest and of the fastest.
constexpr size_t triedOfGroup = 2;
/// The grid is a little too fast where it leaves out transfers around forks. Where the judged time then breaks its
/// bound, the search is repeated for a higher level.
constexpr int attempts = 4;

class Component::Moves {
public:
  Moves(Component &search, double level)
      : search(search), chain(*search.chain), level(level), size(chain.size()), taken(search.assignment) {
    // The last point of the grid lies beyond the bound by the margin; this place lies before it.
    double last = double(chain.points) - (chain.isSmooth() ? 0.5 : 1.0);
    double place = last * (1 - chain.margin) / (1 + chain.margin) - (chain.isSmooth() ? 0.5 : 0.0);
    limit = std::min(size_t(std::max(place, 0.0)), chain.points - 2);
    shareOfNext = chain.isSmooth() ? place - double(limit) : 0;
    candidates.resize(taken.size());
    for (int piece : search.order) {
      std::map<int, std::vector<int>> groups;
      for (auto [index, option] : enumerate(search.program.options[piece]))
        if (search.allowed[piece][index] && search.optionCosts[piece][index] < unlimited)
          groups[option.group].push_back(int(index));
      for (auto &[group, options] : groups) {
        auto choose = [&, piece = piece, &options = options](auto figure) {
          size_t count = std::min(triedOfGroup, options.size());
          std::partial_sort(options.begin(), options.begin() + count, options.end(),
                            [&](int a, int b) { return figure(a) < figure(b); });
          for (int option : ArrayRef(options).take_front(count))
            if (!is_contained(candidates[piece], option))
              candidates[piece].push_back(option);
        };
        choose([&, piece = piece](int option) { return search.optionCosts[piece][option]; });
        choose([&, piece = piece](int option) { return search.program.options[piece][option].stage.meanMs(); });
      }
    }
  }

  /// Moves until nothing helps; returns true if the time then keeps its bound on the grid.
  bool run() {
    refresh();
    cost = search.costOf(taken);
    probability = evaluate(rest(-1, -1), Function(size, 1.0f).data());
    while (Clock::now() < search.deadline && (moveOne() || moveTwo()))
      ;
    return probability >= level && cost < unlimited;
  }

  const std::vector<int> &options() const { return taken; }

private:
  using Function = std::vector<float>;
  Component &search;
  const TimedChain &chain;
  double level;
  size_t size, limit;
  double shareOfNext;     ///< of the point after the limit
  std::vector<int> taken; ///< by piece of the program
  std::vector<std::vector<int>> candidates;
  std::vector<Function> functions; ///< by step
  double cost = 0, probability = 0;

  Function functionOf(size_t step) const {
    const TimedChain::Step &of = chain.steps[step];
    Function product(size, 1.0f);
    for (int piece : of.pieces)
      for (auto [to, factor] : zip(product, ArrayRef(chain.timeOf(piece, taken[piece]), size)))
        to *= factor;
    Function sum = product, density(size), next(size);
    chain.toDensity(product.data(), density.data());
    for (int copy = 1; copy < of.copies; ++copy) {
      chain.add(density.data(), sum.data(), next.data());
      std::swap(sum, next);
    }
    return sum;
  }

  void refresh() {
    functions.clear();
    for (size_t step = 0; step < chain.steps.size(); ++step)
      functions.push_back(functionOf(step));
  }

  /// Returns the density of the sum of all steps but two.
  Function rest(int without, int withoutToo) const {
    Function sum(size, 1.0f), density(size), next(size);
    for (auto [step, function] : enumerate(functions))
      if (int(step) != without && int(step) != withoutToo) {
        chain.toDensity(function.data(), density.data());
        chain.add(density.data(), sum.data(), next.data());
        std::swap(sum, next);
      }
    chain.toDensity(sum.data(), density.data());
    return density;
  }

  /// Returns the probability that the time is within its bound: `density` is that of all steps but those of `function`.
  double evaluate(const Function &density, const float *function) const {
    std::vector<double> ms(chain.probabilities.size(), 0.0);
    search.addTransfers(taken, ms);
    double sum = 0;
    for (auto [number, share] : enumerate(chain.probabilities)) {
      const float *own = density.data() + number * chain.points, *other = function + number * chain.points;
      auto at = [&](size_t point) {
        return chain.shiftedAt(point, ms[number], [&](size_t of) { return convolvedAt(own, other, of); });
      };
      sum += share * ((1 - shareOfNext) * at(limit) + (shareOfNext > 0 ? shareOfNext * at(limit + 1) : 0));
    }
    return sum;
  }

  /// Returns true if a plan of these figures is better than the present one.
  bool isBetter(double newCost, double newProbability) const {
    if (newCost == unlimited || newProbability >= level)
      return newCost < unlimited && (probability < level || newCost < cost - 1e-12 * std::abs(cost));
    return probability < level && newProbability > probability + 1e-7;
  }
  bool mayHelp(double newCost) const {
    return newCost < unlimited && (probability < level || newCost < cost - 1e-12 * std::abs(cost));
  }

  bool moveOne() {
    bool moved = false;
    for (auto [step, of] : enumerate(chain.steps)) {
      Function density = rest(int(step), -1);
      for (int piece : of.pieces) {
        int best = taken[piece];
        for (size_t option = 0; option < search.program.options[piece].size(); ++option) {
          if (!search.allowed[piece][option] || search.optionCosts[piece][option] == unlimited)
            continue;
          taken[piece] = int(option);
          double newCost = search.costOf(taken);
          if (mayHelp(newCost)) {
            Function own = functionOf(step);
            if (double now = evaluate(density, own.data()); isBetter(newCost, now)) {
              best = int(option), cost = newCost, probability = now, moved = true;
            }
          }
        }
        taken[piece] = best;
        functions[step] = functionOf(step);
      }
    }
    return moved;
  }

  bool moveTwo() {
    bool moved = false;
    std::vector<int> stepOf(taken.size(), -1);
    for (auto [step, of] : enumerate(chain.steps))
      for (int piece : of.pieces)
        stepOf[piece] = int(step);
    Function density(size), sum(size);
    for (const Pair &pair : search.program.pairs) {
      int one = pair.from, other = pair.to;
      if (stepOf[one] < 0 || stepOf[other] < 0)
        continue;
      bool isFork = stepOf[one] == stepOf[other];
      Function others = rest(stepOf[one], stepOf[other]);
      int bestOne = taken[one], bestOther = taken[other];
      auto poolOf = [&](int piece, int option) {
        return search.program.problem.pieces[piece].candidates[search.program.options[piece][option].choice].pool;
      };
      for (int a : candidates[one]) {
        bool hasDensity = false;
        for (int b : candidates[other]) {
          if (poolOf(one, a) != poolOf(other, b))
            continue;
          taken[one] = a, taken[other] = b;
          double newCost = search.costOf(taken);
          if (!mayHelp(newCost))
            continue;
          Function own;
          if (isFork) {
            own = functionOf(stepOf[one]);
          } else {
            if (!hasDensity)
              chain.toDensity(functionOf(stepOf[one]).data(), density.data());
            hasDensity = true;
            chain.add(density.data(), functionOf(stepOf[other]).data(), sum.data());
            own = sum;
          }
          if (double now = evaluate(others, own.data()); isBetter(newCost, now))
            bestOne = a, bestOther = b, cost = newCost, probability = now, moved = true;
        }
      }
      taken[one] = bestOne, taken[other] = bestOther;
      functions[stepOf[one]] = functionOf(stepOf[one]);
      functions[stepOf[other]] = functionOf(stepOf[other]);
    }
    return moved;
  }
};

void Component::addTransfers(ArrayRef<int> options, std::vector<double> &ms) const {
  auto groupOf = [&](int piece) { return program.options[piece][options[piece]].group; };
  for (auto [index, pair] : enumerate(program.pairs))
    for (auto [total, table] : zip(ms, chain->transfersOf(int(index))))
      total += table[size_t(groupOf(pair.from)) * pair.toGroups + groupOf(pair.to)];
}

double Component::costOf(ArrayRef<int> options) const {
  double sum = 0;
  auto groupOf = [&](int piece) { return program.options[piece][options[piece]].group; };
  for (int piece : order) {
    sum += allowed[piece][options[piece]] ? optionCosts[piece][options[piece]] : unlimited;
    for (int index : program.pairsOf[piece])
      if (const Pair &pair = program.pairs[index]; pair.from == piece)
        sum += pairCosts[index][size_t(groupOf(pair.from)) * pair.toGroups + groupOf(pair.to)];
  }
  return sum;
}

std::optional<Component::Found> Component::improved() {
  // Begins with the assignment that costs least of those that are known, else with the fastest options.
  const std::vector<int> *start = nullptr;
  double least = unlimited;
  for (const std::vector<int> &known : plans) {
    for (auto [position, piece] : enumerate(order))
      assignment[piece] = known[position];
    if (double cost = costOf(assignment); cost < least)
      least = cost, start = &known;
  }
  for (auto [position, piece] : enumerate(order)) {
    if (start) {
      assignment[piece] = (*start)[position];
      continue;
    }
    double fastest = unlimited;
    for (auto [index, option] : enumerate(program.options[piece]))
      if (allowed[piece][index] && optionCosts[piece][index] < unlimited && option.stage.meanMs() < fastest)
        fastest = option.stage.meanMs(), assignment[piece] = int(index);
    if (fastest == unlimited)
      return std::nullopt;
  }
  double level = chain->level;
  for (int attempt = 0; attempt < attempts; ++attempt, level += (1 - level) / 8) {
    Moves moves(*this, level);
    if (!moves.run())
      return std::nullopt;
    std::vector<int> taken = moves.options();
    assignment = taken;
    if (Clock::now() >= deadline)
      return std::nullopt; // judging a long agent may take seconds
    if (double latency = latencyOf(taken); latency < unlimited) {
      Found found{costOf(taken) + perMs * latency, {}};
      for (int piece : order)
        found.options.push_back(taken[piece]);
      return found;
    }
  }
  return std::nullopt;
}

} // namespace intarsia::plan
