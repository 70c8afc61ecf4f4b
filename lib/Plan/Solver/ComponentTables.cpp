//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The tables of a component: what remaining steps may take for what is spent on them.
//===----------------------------------------------------------------------------------------------------------===//
#include "Component.h"
#include "Convolution.h"
#include "Dominance.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

/// Prices of time that are tried; any price gives a bound.
constexpr int mostPrices = 50;

void Component::combine(StepHere &step, size_t index) {
  const TimedChain::Step &of = chain->steps[index];
  step.combinations.clear(), step.functions.clear(), step.kinds.clear();
  size_t size = chain->size();
  std::vector<int> taken(of.pieces.size());
  struct Mixed {
    double cost;
    std::vector<int> options, groups;
    double ms = 0;
  };
  std::vector<Mixed> all;
  auto walk = [&](auto &self, size_t at, double cost) -> void {
    if (at == of.pieces.size()) {
      Mixed mixed{cost, taken, {}};
      for (auto [piece, option] : zip(of.pieces, taken)) {
        mixed.groups.push_back(program.options[piece][option].group);
        if (chain->isLinear())
          mixed.ms = std::max(mixed.ms, of.copies * chain->msOf(piece, option));
      }
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
  std::map<std::vector<int>, std::pair<int, std::vector<size_t>>> kept; // its kind, and combinations
  std::vector<float> function(size);
  for (Mixed &mixed : all) {
    chain->timeOfStep(int(index), mixed.options, function.data());
    auto &[kind, before] = kept.try_emplace(mixed.groups, int(kept.size()), std::vector<size_t>()).first->second;
    if (before.empty())
      step.kinds.push_back(mixed.groups);
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
      if (step.combinations[other].dominator >= 0 || step.combinations[other].ms > mixed.ms)
        return false;
      const float *better = step.functions[other].data();
      for (size_t point = 0; point < size; ++point)
        if (better[point] < function[point] - 1e-7f)
          return false;
      return true;
    };
    // In a fork of a linear chain it depends on the transfers around it which one is later.
    auto dominator = chain->isLinear() && of.pieces.size() > 1 ? before.end() : find_if(before, isNoLater);
    int which = dominator == before.end() ? -1 : int(*dominator);
    before.push_back(step.functions.size());
    step.functions.push_back(function);
    step.combinations.push_back({mixed.cost, std::move(mixed.options), nullptr, mixed.ms, kind, which});
  }
  for (auto [combination, function] : zip(step.combinations, step.functions))
    combination.time = function.data();
}

void Component::setPrices(const std::vector<std::vector<double>> &optionCostsOfAll,
                          const std::vector<std::vector<double>> &pairCostsOfAll,
                          const std::vector<std::vector<uint8_t>> &allowedOfAll, double perMsOfAll) {
  optionCosts = optionCostsOfAll, pairCosts = pairCostsOfAll, allowed = allowedOfAll, perMs = perMsOfAll;
  if (!isMeasured)
    measureMargin();
  for (size_t index = 0; index + 1 < steps.size(); ++index)
    combine(steps[index], index);
  findWays();
  leastPrice = price = chain->isLinear() ? perMs * weight : 0;
  before = leastOf(true, 1, price), after = leastOf(false, 1, price);
  if (bound.most < unlimited && chain->isLinear())
    fastest = leastOf(false, 0, 1);
}

void Component::enter(const StepHere &step, int state) {
  for (auto [piece, stride] : zip(step.frontier, step.strides))
    groupsTaken[piece] = state / stride % program.groups[piece];
}

int Component::stateOf(const StepHere &step) const {
  int state = 0;
  for (auto [piece, stride] : zip(step.frontier, step.strides))
    state += stride * groupsTaken[piece];
  return state;
}

double Component::linked(const StepHere &step, std::vector<double> *ms) const {
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

double Component::linkedAt(size_t index, int state, const Combination &combination, std::vector<double> &ms) {
  llvm::fill(groupsTaken, -1);
  enter(steps[index], state);
  for (auto [piece, option] : zip(chain->steps[index].pieces, combination.options))
    groupsTaken[piece] = program.options[piece][option].group;
  llvm::fill(ms, 0.0);
  return linked(steps[index], &ms);
}

void Component::findWays() {
  std::vector<double> ms(chain->probabilities.size());
  for (size_t index = 0; index + 1 < steps.size(); ++index) {
    StepHere &step = steps[index];
    step.ways.clear();
    for (int state = 0; state < step.states; ++state)
      for (const std::vector<int> &groups : step.kinds) {
        llvm::fill(groupsTaken, -1);
        enter(step, state);
        for (auto [piece, group] : zip(chain->steps[index].pieces, groups))
          groupsTaken[piece] = group;
        llvm::fill(ms, 0.0);
        double cost = linked(step, &ms);
        step.ways.push_back({cost, ms[0], stateOf(steps[index + 1])});
      }
  }
}

std::vector<std::vector<Component::Least>> Component::leastOf(bool before, double ofCost, double ofMs) const {
  std::vector<std::vector<Least>> all;
  for (const StepHere &step : steps)
    all.emplace_back(step.states);
  llvm::fill(before ? all.front() : all.back(), Least{0, 0});
  for (size_t number = 0; number + 1 < steps.size(); ++number) {
    size_t index = before ? number : steps.size() - 2 - number;
    const StepHere &step = steps[index];
    std::vector<Least> own(step.kinds.size());
    for (const Combination &combination : step.combinations)
      if (double cost = ofCost * combination.cost + ofMs * combination.ms; cost < own[combination.kind].cost)
        own[combination.kind] = {cost, combination.ms};
    const Way *way = step.ways.data();
    for (int state = 0; state < step.states; ++state)
      for (const Least &of : own) {
        const Least &from = before ? all[index][state] : all[index + 1][way->next];
        Least &into = before ? all[index + 1][way->next] : all[index][state];
        double cost = from.cost + of.cost + ofCost * way->cost + ofMs * way->ms;
        if (way->cost < unlimited && cost < into.cost)
          into = {cost, from.ms + of.ms + way->ms};
        ++way;
      }
  }
  return all;
}

void Component::priceTime() {
  if (fastest.empty() || exceeds(fastest[0][0].cost, bound.most) || after[0][0].ms <= bound.most ||
      after[0][0].cost == unlimited)
    return;
  // Lines of two assignments, one that takes too long and one that does not.
  Least slow = after[0][0], fast;
  slow.cost -= price * slow.ms;
  fast = slow;
  price = std::max({price / 2, std::abs(slow.cost) / std::max(bound.most, 1e-6) / 4, 1e-9});
  for (int step = 0; step < mostPrices && fast.ms > bound.most; ++step) {
    slow = fast;
    price *= 4;
    after = leastOf(false, 1, price);
    fast = after[0][0];
    fast.cost -= price * fast.ms;
  }
  for (int step = 0; step < mostPrices && slow.ms > fast.ms; ++step) {
    price = (fast.cost - slow.cost) / (slow.ms - fast.ms);
    after = leastOf(false, 1, price);
    Least between = after[0][0];
    if (between.cost >= (fast.cost + price * fast.ms) - 1e-12 * std::abs(between.cost))
      break;
    between.cost -= price * between.ms;
    (between.ms > bound.most ? slow : fast) = between;
  }
}

bool Component::completions(double below) {
  if (chain->isLinear())
    return true; // least costs are the bounds
  size_t size = chain->size(), points = chain->points, cases = chain->probabilities.size();
  steps.back().entries.assign(steps.back().states, {{0.0, std::vector<float>(size, 1.0f)}});
  std::vector<float> density, shifted(points);
  std::vector<double> ms(cases);
  for (size_t index = steps.size() - 1; index-- > 0;) {
    StepHere &step = steps[index], &next = steps[index + 1];
    step.entries.assign(step.states, {});
    std::vector<std::vector<Entry>> buckets(step.states);
    step.sums.assign(step.combinations.size(), {});
    for (auto [chosen, combination] : enumerate(step.combinations)) {
      if (combination.dominator >= 0)
        continue;
      if (Clock::now() >= deadline)
        return false;
      density.clear();
      for (int state = 0; state < step.states; ++state) {
        double room = below - before[index][state].cost;
        if (!(after[index][state].cost < room))
          continue;
        double cost = combination.cost + linkedAt(index, state, combination, ms);
        int then = stateOf(next);
        if (!(cost + after[index + 1][then].cost < room))
          continue;
        double least = after[index][state].cost, unit = (room - least) / mostEntries;
        auto &into = buckets[state];
        if (into.empty())
          into.resize(mostEntries, {unlimited, {}});
        for (auto [which, entry] : enumerate(next.entries[then])) {
          double total = cost + entry.cost;
          if (!(total < room))
            break;
          const std::vector<float> &sum = sumOf(index, chosen, then, which, density);
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
      if (sumsKept * size > mostOfSums) {
        for (auto &ofState : step.sums[chosen])
          sumsKept -= size_t(count_if(ofState, [](const std::vector<float> &sum) { return !sum.empty(); }));
        step.sums[chosen] = {};
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
          for (auto [now, cheaper] : zip(bucket.function, of.back().function)) {
            better |= now > cheaper + 1e-6f;
            now = std::max(now, cheaper);
          }
        if (better)
          of.push_back(std::move(bucket));
      }
  }
  return true;
}

double Component::probabilityAt(const float *density, const float *function, size_t point) const {
  double all = 0;
  for (double share : chain->probabilities) {
    all += share * convolvedAt(density, function, point);
    density += chain->points, function += chain->points;
  }
  return all;
}

double Component::completed(const Label &label, int state, double below) const {
  double cost = label.cost;
  if (chain->isLinear()) {
    if (bound.most < unlimited && exceeds(label.ms + fastest[label.step][state].cost, bound.most))
      return unlimited;
    cost += price * label.ms + after[label.step][state].cost;
    cost -= price > leastPrice ? (price - leastPrice) * bound.most : 0;
    return cost < below ? cost : unlimited;
  }
  const std::vector<Entry> &entries = steps[label.step].entries[state];
  return completed(cost, label.step, state, below, [&](size_t entry, size_t point) {
    return probabilityAt(label.density.data(), entries[entry].function.data(), point);
  });
}

double Component::completed(double cost, int step, int state, double below,
                            function_ref<double(size_t, size_t)> probability) const {
  const std::vector<Entry> &entries = steps[step].entries[state];
  double level = chain->level - TimedChain::roomOfSums;
  size_t last = chain->points - 1;
  // Functions rise with the cost. Where even the last entry that a label can pay is too late, none does, as for most.
  size_t low = 0, high = entries.size();
  while (high > 0 && !(cost + entries[high - 1].cost < below))
    --high;
  if (high == 0 || probability(--high, last) < level)
    return unlimited;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (probability(middle, last) >= level)
      high = middle;
    else
      low = middle + 1;
  }
  double best = below;
  for (size_t at = low; at < entries.size() && cost + entries[at].cost < best; ++at) {
    if (weight == 0)
      return cost + entries[at].cost;
    size_t least = 0, most = last;
    while (least < most) {
      size_t middle = (least + most) / 2;
      if (probability(at, middle) >= level)
        most = middle;
      else
        least = middle + 1;
    }
    double ms = chain->timeAt(least, [&](size_t point) { return probability(at, point); });
    best = std::min(best, cost + entries[at].cost + perMs * weight * std::max(0.0, ms - chain->mostLate()));
  }
  return best < below ? best : unlimited;
}

const std::vector<float> &Component::sumOf(size_t index, size_t number, int state, size_t entry,
                                           std::vector<float> &density) {
  const StepHere &step = steps[index];
  steps[index].sums.resize(step.combinations.size());
  auto &of = steps[index].sums[number];
  const std::vector<Entry> &entries = steps[index + 1].entries[state];
  of.resize(steps[index + 1].states);
  of[state].resize(entries.size());
  std::vector<float> &sum = of[state][entry];
  if (sum.empty()) {
    if (density.empty()) {
      density.resize(chain->size());
      chain->toDensity(step.combinations[number].time, density.data());
    }
    sum.resize(chain->size());
    chain->add(density.data(), entries[entry].function.data(), sum.data());
    ++sumsKept;
  }
  return sum;
}

void Component::dropSums() {
  for (StepHere &step : steps)
    step.sums = {};
  sumsKept = 0;
}

double Component::completedThrough(const Label &label, size_t number, double cost, ArrayRef<double> ms, int state,
                                   double below) {
  size_t points = chain->points;
  std::vector<float> combination;
  if (sumsKept * chain->size() > mostOfSums)
    dropSums();
  return completed(cost, label.step + 1, state, below, [&](size_t entry, size_t point) {
    const float *sum = sumOf(label.step, number, state, entry, combination).data(), *density = label.density.data();
    double all = 0;
    for (auto [share, by] : zip(chain->probabilities, ms)) {
      all += share * chain->shiftedAt(point, by, [&](size_t at) { return convolvedAt(density, sum, at); });
      density += points, sum += points;
    }
    return all;
  });
}

} // namespace intarsia::plan
