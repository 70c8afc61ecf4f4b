//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The tables of a TimedSearch: what remaining steps may take for what is spent on them.
//===----------------------------------------------------------------------------------------------------------===//
#include "Dominance.h"
#include "TimedSearch.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

void TimedSearch::combine(StepHere &step, size_t index) {
  const TimedChain::Step &of = chain->steps[index];
  step.combinations.clear(), step.functions.clear();
  size_t size = chain->size();
  std::vector<int> taken(of.pieces.size());
  struct Mixed {
    double cost;
    std::vector<int> options, groups;
  };
  std::vector<Mixed> all;
  auto walk = [&](auto &self, size_t at, double cost) -> void {
    if (at == of.pieces.size()) {
      Mixed mixed{cost, taken, {}};
      for (auto [piece, option] : zip(of.pieces, taken))
        mixed.groups.push_back(program.options[piece][option].group);
      all.push_back(std::move(mixed));
      return;
    }
    int piece = of.pieces[at];
    for (size_t option = 0; option < program.options[piece].size(); ++option)
      if (allowed[piece][option] && optionCosts[piece][option] < unlimited) {
        taken[at] = int(option);
        self(self, at + 1, cost + optionCosts[piece][option]);
      }
  };
  walk(walk, 0, 0);
  llvm::stable_sort(all, [](const Mixed &a, const Mixed &b) { return a.cost < b.cost; });
  // A combination is dropped if another one in the same groups costs no more and each of its stages is no slower. If
  // another one is only no later on the grid, it is kept for plans, but bounds leave it out (`dominator`).
  std::map<std::vector<int>, std::vector<size_t>> kept;
  std::vector<float> function(size), density(size), sum(size);
  for (Mixed &mixed : all) {
    std::copy_n(chain->timeOf(of.pieces[0], mixed.options[0]), size, function.begin());
    for (size_t at = 1; at < of.pieces.size(); ++at) {
      const float *other = chain->timeOf(of.pieces[at], mixed.options[at]);
      for (size_t point = 0; point < size; ++point)
        function[point] *= other[point];
    }
    if (of.copies > 1) {
      std::vector<float> one = function;
      chain->toDensity(one.data(), density.data());
      for (int copy = 1; copy < of.copies; ++copy) {
        chain->add(density.data(), function.data(), sum.data());
        function = sum;
      }
    }
    auto &before = kept[mixed.groups];
    auto isNoSlower = [&](size_t other) {
      return all_of(zip(of.pieces, step.combinations[other].options, mixed.options), [&](auto options) {
        auto [piece, theirs, own] = options;
        return noSlower(program.options[piece][theirs].stage, program.options[piece][own].stage,
                        program.problem.pieces[piece].shape.kind != Shape::Kind::Deterministic);
      });
    };
    if (any_of(before, isNoSlower))
      continue;
    auto isNoLater = [&](size_t other) {
      if (step.combinations[other].dominator >= 0)
        return false;
      const float *better = step.functions[other].data();
      for (size_t point = 0; point < size; ++point)
        if (better[point] < function[point] - 1e-7f)
          return false;
      return true;
    };
    auto dominator = find_if(before, isNoLater);
    int which = dominator == before.end() ? -1 : int(*dominator);
    before.push_back(step.functions.size());
    step.functions.push_back(function);
    step.combinations.push_back({mixed.cost, std::move(mixed.options), nullptr, which});
  }
  for (auto [combination, function] : zip(step.combinations, step.functions))
    combination.time = function.data();
}

void TimedSearch::setPrices(const std::vector<std::vector<double>> &optionCostsOfAll,
                            const std::vector<std::vector<double>> &pairCostsOfAll,
                            const std::vector<std::vector<uint8_t>> &allowedOfAll, double perMsOfAll) {
  optionCosts = optionCostsOfAll, pairCosts = pairCostsOfAll, allowed = allowedOfAll, perMs = perMsOfAll;
  for (size_t index = 0; index + 1 < steps.size(); ++index)
    combine(steps[index], index);
  leastCosts();
}

void TimedSearch::enter(const StepHere &step, int state) {
  for (auto [piece, stride] : zip(step.frontier, step.strides))
    groupsTaken[piece] = state / stride % program.groups[piece];
}

int TimedSearch::stateOf(const StepHere &step) const {
  int state = 0;
  for (auto [piece, stride] : zip(step.frontier, step.strides))
    state += stride * groupsTaken[piece];
  return state;
}

double TimedSearch::linked(const StepHere &step, std::vector<double> *ms) const {
  double cost = 0;
  for (const Link &link : step.links) {
    const Pair &pair = program.pairs[link.pair];
    int own = groupsTaken[link.own], other = groupsTaken[link.other];
    auto at = [&](int of) {
      return link.ownIsFrom ? size_t(own) * pair.toGroups + of : size_t(of) * pair.toGroups + own;
    };
    auto &transfers = chain->transfersOf(link.pair);
    auto leastOf = [&](const std::vector<double> &table) {
      double least = unlimited;
      for (int of = 0; of < (link.ownIsFrom ? pair.toGroups : pair.fromGroups); ++of)
        least = std::min(least, table[at(of)]);
      return least;
    };
    cost += other >= 0 ? pairCosts[link.pair][at(other)] : leastOf(pairCosts[link.pair]);
    if (ms && !transfers.empty())
      for (auto [sum, table] : zip(*ms, transfers))
        sum += other >= 0 ? table[at(other)] : leastOf(table);
  }
  return cost;
}

void TimedSearch::leastCosts() {
  for (StepHere &step : steps) {
    step.leastBefore.assign(step.states, unlimited);
    step.leastAfter.assign(step.states, unlimited);
  }
  steps.front().leastBefore[0] = 0;
  steps.back().leastAfter.assign(steps.back().states, 0.0);
  auto forAll = [&](size_t index, auto use) {
    StepHere &step = steps[index], &next = steps[index + 1];
    const std::vector<int> &own = chain->steps[index].pieces;
    // Only the cheapest combination of the same groups counts here.
    std::map<std::vector<int>, double> least;
    for (const Combination &combination : step.combinations) {
      std::vector<int> groups;
      for (auto [piece, option] : zip(own, combination.options))
        groups.push_back(program.options[piece][option].group);
      least.try_emplace(std::move(groups), combination.cost);
    }
    for (int state = 0; state < step.states; ++state) {
      llvm::fill(groupsTaken, -1);
      enter(step, state);
      for (auto &[groups, cost] : least) {
        for (auto [piece, group] : zip(own, groups))
          groupsTaken[piece] = group;
        double sum = cost + linked(step, nullptr);
        if (sum < unlimited)
          use(step, state, next, stateOf(next), sum);
        for (int piece : own)
          groupsTaken[piece] = -1;
      }
    }
  };
  for (size_t index = 0; index + 1 < steps.size(); ++index)
    forAll(index, [](StepHere &step, int state, StepHere &next, int then, double cost) {
      next.leastBefore[then] = std::min(next.leastBefore[then], step.leastBefore[state] + cost);
    });
  for (size_t index = steps.size() - 1; index-- > 0;)
    forAll(index, [](StepHere &step, int state, StepHere &next, int then, double cost) {
      step.leastAfter[state] = std::min(step.leastAfter[state], next.leastAfter[then] + cost);
    });
}

bool TimedSearch::completions(double below) {
  size_t size = chain->size(), points = chain->points, cases = chain->probabilities.size();
  steps.back().entries.assign(steps.back().states, {{0.0, std::vector<float>(size, 1.0f)}});
  std::vector<float> density(size), shifted(points);
  std::vector<double> ms(cases);
  for (size_t index = steps.size() - 1; index-- > 0;) {
    StepHere &step = steps[index], &next = steps[index + 1];
    const std::vector<int> &own = chain->steps[index].pieces;
    step.entries.assign(step.states, {});
    std::vector<std::vector<Entry>> buckets(step.states);
    // Sums for states of the next step, once asked for.
    std::vector<std::vector<std::vector<float>>> sums(next.states);
    for (const Combination &combination : step.combinations) {
      if (combination.dominator >= 0)
        continue;
      if (Clock::now() >= deadline)
        return false;
      for (auto &of : sums)
        of.clear();
      bool hasDensity = false;
      for (int state = 0; state < step.states; ++state) {
        double room = below - step.leastBefore[state];
        if (!(step.leastAfter[state] < room))
          continue;
        llvm::fill(groupsTaken, -1);
        enter(step, state);
        for (auto [piece, option] : zip(own, combination.options))
          groupsTaken[piece] = program.options[piece][option].group;
        llvm::fill(ms, 0.0);
        double cost = combination.cost + linked(step, &ms);
        int then = stateOf(next);
        if (!(cost + next.leastAfter[then] < room))
          continue;
        auto &of = sums[then];
        of.resize(next.entries[then].size());
        double least = step.leastAfter[state], unit = (room - least) / mostEntries;
        auto &into = buckets[state];
        if (into.empty())
          into.resize(mostEntries, {unlimited, {}});
        for (auto [entry, sum] : zip(next.entries[then], of)) {
          double total = cost + entry.cost;
          if (!(total < room))
            break;
          if (sum.empty()) {
            if (!hasDensity)
              chain->toDensity(combination.time, density.data());
            hasDensity = true;
            sum.resize(size);
            chain->add(density.data(), entry.function.data(), sum.data());
          }
          Entry &bucket = into[std::clamp(int((total - least) / unit), 0, mostEntries - 1)];
          bucket.cost = std::min(bucket.cost, total);
          bucket.function.resize(size, 0.0f);
          for (size_t number = 0; number < cases; ++number) {
            const float *from = sum.data() + number * points;
            if (ms[number] > 0) {
              chain->shift(from, ms[number], shifted.data());
              from = shifted.data();
            }
            float *to = bucket.function.data() + number * points;
            for (size_t point = 0; point < points; ++point)
              to[point] = std::max(to[point], from[point]);
          }
        }
      }
    }
    // Who may spend more may also spend less.
    for (int state = 0; state < step.states; ++state)
      for (Entry &bucket : buckets[state]) {
        if (bucket.function.empty())
          continue;
        auto &of = step.entries[state];
        bool better = of.empty();
        if (!better)
          for (auto [now, before] : zip(bucket.function, of.back().function)) {
            better |= now > before + 1e-6f;
            now = std::max(now, before);
          }
        if (better)
          of.push_back(std::move(bucket));
      }
  }
  return true;
}

} // namespace intarsia::plan
