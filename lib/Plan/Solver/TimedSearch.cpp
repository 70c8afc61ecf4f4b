//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "TimedSearch.h"
#include "Dominance.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

/// Entries of a table: finer amounts take time in proportion and raise the bound little.
constexpr int mostEntries = 40;
/// States of a table; beyond these it does not distinguish all pieces.
constexpr int mostStates = 600;
constexpr double roomOfSums = TimedChain::roomOfSums;

TimedSearch::TimedSearch(const Program &program, ArrayRef<int> pieces, ArrayRef<int> agents, ArrayRef<double> mostMs,
                         Clock::time_point deadline)
    : program(program), deadline(deadline), pieces(pieces), agents(agents), positionOf(program.options.size(), -1),
      groupsTaken(program.options.size(), -1), assignment(program.options.size(), 0) {
  for (auto [position, piece] : enumerate(pieces))
    positionOf[piece] = int(position);
  // The time that bounds most: the objective's, else the one that the cheapest options exceed most.
  std::vector<int> cheapest(program.options.size(), 0);
  for (int piece : pieces)
    cheapest[piece] = int(llvm::min_element(program.options[piece], [&](const Option &a, const Option &b) {
                            return program.relaxedCost(a, piece) < program.relaxedCost(b, piece);
                          }) -
                          program.options[piece].begin());
  double worst = -1;
  int worstAgent = agents.front(), bounds = 0;
  Measure worstMeasure = Measure::EndToEnd;
  double worstMs = 1;
  for (int agent : agents) {
    const ServiceLevel &level = program.problem.agents[agent].level;
    for (auto [measure, bound] : {std::pair(Measure::EndToEnd, level.endToEndMs),
                                  std::pair(Measure::FirstOutput, level.firstOutputMs)}) {
      bool counts = measure == Measure::EndToEnd && program.latencyWeights[agent] > 0;
      double most = std::min(bound, measure == Measure::EndToEnd ? mostMs[agent] : unlimited);
      if (most == unlimited && !counts)
        continue;
      ++bounds;
      double ms = program.msOf(agent, measure, cheapest);
      double excess = (counts ? 1e6 : 0) + (most < unlimited ? ms / most : 1);
      if (excess > worst)
        worst = excess, worstAgent = agent, worstMeasure = measure, worstMs = most < unlimited ? most : 2 * ms;
    }
  }
  isAlone = bounds <= 1;
  weight = worstMeasure == Measure::EndToEnd ? program.latencyWeights[worstAgent] : 0;
  chain = std::make_unique<TimedChain>(program, pieces, worstAgent, worstMeasure, worstMs);
  planSteps();
}

void TimedSearch::planSteps() {
  steps.resize(chain->steps.size() + 1);
  std::vector<int> stepOf(program.options.size(), -1);
  for (auto [index, step] : enumerate(chain->steps))
    for (int piece : step.pieces)
      stepOf[piece] = int(index);
  auto lastUse = [&](int piece) {
    int last = -1;
    for (int pair : program.pairsOf[piece])
      last = std::max({last, stepOf[program.pairs[pair].from], stepOf[program.pairs[pair].to]});
    return last;
  };
  std::vector<int> frontier;
  for (auto [index, step] : enumerate(steps)) {
    erase_if(frontier, [&](int piece) { return lastUse(piece) < int(index); });
    auto statesOf = [&] {
      double states = 1;
      for (int piece : frontier)
        states *= program.groups[piece];
      return states;
    };
    // Tables that do not distinguish a piece take the best of its groups.
    while (statesOf() > mostStates)
      frontier.erase(llvm::max_element(frontier, [&](int a, int b) { return program.groups[a] < program.groups[b]; }));
    step.frontier = frontier;
    step.strides.resize(frontier.size());
    for (size_t of = frontier.size(); of-- > 0; step.states *= program.groups[frontier[of]])
      step.strides[of] = step.states;
    if (index == chain->steps.size())
      break;
    for (int piece : chain->steps[index].pieces) {
      for (int pair : program.pairsOf[piece]) {
        bool ownIsFrom = program.pairs[pair].from == piece;
        int other = ownIsFrom ? program.pairs[pair].to : program.pairs[pair].from;
        if (stepOf[other] < int(index) || (stepOf[other] == int(index) && other < piece))
          step.links.push_back({pair, other, piece, ownIsFrom});
      }
      frontier.push_back(piece);
    }
  }
}

double TimedSearch::latencyOf(ArrayRef<int> whole) {
  std::string key;
  for (int piece : pieces)
    key.append(reinterpret_cast<const char *>(&whole[piece]), sizeof(int));
  auto [known, inserted] = latencies.try_emplace(std::move(key), 0.0);
  if (!inserted)
    return known->second;
  double sum = 0;
  for (int agent : agents) {
    const ServiceLevel &level = program.problem.agents[agent].level;
    double share = program.latencyWeights[agent];
    if (share > 0 || level.endToEndMs < unlimited) {
      double ms = program.msOf(agent, Measure::EndToEnd, whole);
      sum += share > 0 ? share * ms : 0;
      if (exceeds(ms, level.endToEndMs))
        return known->second = unlimited;
    }
    if (level.firstOutputMs < unlimited &&
        exceeds(program.msOf(agent, Measure::FirstOutput, whole), level.firstOutputMs) &&
        exceeds(program.msOf(agent, Measure::EndToEnd, whole), level.firstOutputMs))
      return known->second = unlimited;
  }
  return known->second = sum;
}

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
  // Of combinations in the same groups one is enough that costs no more and is never later. Bounds need only those
  // that are not later on the grid either.
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

double TimedSearch::probabilityAt(const float *density, const float *function, size_t point) const {
  double all = 0;
  for (double share : chain->probabilities) {
    float sum = 0;
    for (size_t at = 0; at <= point; ++at)
      sum += density[at] * function[point - at];
    all += share * sum;
    density += chain->points, function += chain->points;
  }
  return all;
}

double TimedSearch::completed(const std::vector<float> &density, double cost, const StepHere &step, int state,
                              double below) const {
  const auto &entries = step.entries[state];
  double level = chain->level - roomOfSums;
  auto holds = [&](const Entry &entry, size_t point) {
    return probabilityAt(density.data(), entry.function.data(), point) >= level;
  };
  size_t last = chain->points - 1;
  // Functions rise with the cost.
  size_t low = 0, high = entries.size();
  while (low < high && cost + entries[low].cost < below) {
    size_t middle = (low + high) / 2;
    if (holds(entries[middle], last))
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
      if (holds(entries[at], middle))
        most = middle;
      else
        least = middle + 1;
    }
    best = std::min(best, cost + entries[at].cost + perMs * weight * chain->timeAt(least, [&](size_t point) {
      return probabilityAt(density.data(), entries[at].function.data(), point);
    }));
  }
  return best < below ? best : unlimited;
}

double TimedSearch::costOnGrid(double cost, double below) const {
  size_t size = chain->size(), points = chain->points;
  std::vector<float> function(size, 1.0f), density(size), sum(size), step(size), shifted(size);
  auto shiftBy = [&](std::vector<float> &of, ArrayRef<double> ms) {
    for (auto [number, by] : enumerate(ms))
      if (by > 0) {
        chain->shift(of.data() + number * points, by, shifted.data());
        std::copy_n(shifted.begin(), points, of.begin() + number * points);
      }
  };
  for (const TimedChain::Step &of : chain->steps) {
    llvm::fill(step, 1.0f);
    for (int piece : of.pieces) {
      std::vector<float> own(size);
      std::copy_n(chain->timeOf(piece, assignment[piece]), size, own.begin());
      if (of.pieces.size() > 1) {
        // Cases without the fork have no transfers either.
        std::vector<double> more(chain->probabilities.size(), chain->moreAround(piece, assignment));
        for (size_t number = 0; number < more.size(); ++number)
          more[number] *= own[number * points] < 1;
        shiftBy(own, more);
      }
      for (auto [product, factor] : zip(step, own))
        product *= factor;
    }
    chain->toDensity(step.data(), density.data());
    for (int copy = 0; copy < of.copies; ++copy) {
      chain->add(density.data(), function.data(), sum.data());
      std::swap(function, sum);
    }
  }
  std::vector<double> ms(chain->probabilities.size(), 0.0);
  addTransfers(assignment, ms);
  shiftBy(function, ms);
  chain->toDensity(function.data(), density.data());
  return completed(density, cost, steps.back(), 0, below);
}

void TimedSearch::markAlive(double below, std::vector<std::vector<uint8_t>> &alive) {
  if (!completions(below)) {
    for (auto &of : alive)
      llvm::fill(of, 1);
    return;
  }
  size_t size = chain->size(), points = chain->points;
  std::vector<Entry> nothing(1, {0.0, std::vector<float>(size, 1.0f)});
  std::vector<std::vector<Entry>> entries{std::move(nothing)};
  std::vector<float> density(size), sum(size), shifted(points), sumDensity(size);
  std::vector<double> ms(chain->probabilities.size());
  for (size_t index = 0; index + 1 < steps.size(); ++index) {
    StepHere &step = steps[index], &next = steps[index + 1];
    const std::vector<int> &own = chain->steps[index].pieces;
    std::vector<std::vector<Entry>> buckets(next.states);
    for (const Combination &combination : step.combinations) {
      chain->toDensity(combination.time, density.data());
      for (int state = 0; state < step.states; ++state) {
        llvm::fill(groupsTaken, -1);
        enter(step, state);
        for (auto [piece, option] : zip(own, combination.options))
          groupsTaken[piece] = program.options[piece][option].group;
        llvm::fill(ms, 0.0);
        double cost = combination.cost + linked(step, &ms);
        int then = stateOf(next);
        double least = next.leastBefore[then], room = below - next.leastAfter[then];
        auto &into = buckets[then];
        for (const Entry &entry : entries[state]) {
          double total = cost + entry.cost;
          if (!(total < room))
            break;
          chain->add(density.data(), entry.function.data(), sum.data());
          for (size_t number = 0; number < ms.size(); ++number)
            if (ms[number] > 0) {
              chain->shift(sum.data() + number * points, ms[number], shifted.data());
              std::copy(shifted.begin(), shifted.end(), sum.begin() + number * points);
            }
          chain->toDensity(sum.data(), sumDensity.data());
          if (completed(sumDensity, total, next, then, below) == unlimited)
            continue;
          for (auto [piece, option] : zip(own, combination.options))
            alive[positionOf[piece]][option] = 1;
          if (into.empty())
            into.resize(mostEntries, {unlimited, {}});
          Entry &bucket = into[std::clamp(int((total - least) / (room - least) * mostEntries), 0, mostEntries - 1)];
          bucket.cost = std::min(bucket.cost, total);
          bucket.function.resize(size, 0.0f);
          for (auto [to, from] : zip(bucket.function, sum))
            to = std::max(to, from);
        }
      }
    }
    entries.assign(next.states, {});
    for (auto [of, into] : zip(entries, buckets))
      for (Entry &bucket : into)
        if (!bucket.function.empty())
          of.push_back(std::move(bucket));
  }
}

TimedSearch::Result TimedSearch::minimize(double below, size_t mostLabels) {
  Result result;
  result.bound = below;
  if (!(steps.front().leastAfter[0] < below))
    return result;
  bool isBounded = below < unlimited;
  if (!isBounded) {
    // Some cost that every assignment stays under.
    below = 1;
    for (const StepHere &step : steps) {
      double most = 0;
      for (const Combination &combination : step.combinations)
        most = std::max(most, std::abs(combination.cost));
      for (const Link &link : step.links)
        for (double cost : pairCosts[link.pair])
          most += cost < unlimited ? std::abs(cost) : 0;
      below += most;
    }
    if (weight > 0)
      below += perMs * weight * chain->pointMs * double(chain->points);
  }
  if (!completions(below)) {
    result.bound = std::min(result.bound, steps.front().leastAfter[0]);
    return result;
  }
  size_t size = chain->size(), points = chain->points;
  auto worse = [](const Label &a, const Label &b) { return a.bound > b.bound; };
  std::vector<Label> open;
  Label start{0, 0, 0, std::vector<int>(pieces.size(), -1), std::vector<float>(size, 0.0f)};
  for (size_t number = 0; number < chain->probabilities.size(); ++number)
    start.density[number * points] = 1;
  start.bound = completed(start.density, 0, steps.front(), 0, below);
  if (start.bound == unlimited)
    return result;
  open.push_back(std::move(start));
  std::vector<float> function(size), shifted(points);
  std::vector<double> ms(chain->probabilities.size());
  std::optional<Label> next;
  double leastOpen = unlimited;
  for (size_t labels = 0;; ++labels) {
    if (!next) {
      if (open.empty() || open.front().bound >= below)
        break;
      // Where no assignment is known the first one is needed, however long that takes.
      bool isEnough = labels >= mostLabels && (isBounded || !result.found.empty());
      if (isEnough || Clock::now() >= deadline) {
        leastOpen = open.front().bound;
        break;
      }
      std::pop_heap(open.begin(), open.end(), worse);
      next = std::move(open.back());
      open.pop_back();
    }
    Label label = std::move(*next);
    next.reset();
    if (label.bound >= below)
      continue;
    if (label.step + 1 == int(steps.size())) {
      for (auto [position, piece] : enumerate(pieces))
        assignment[piece] = label.options[position];
      // Judging exactly takes a hundred times as long.
      if (costOnGrid(label.cost, below) == unlimited)
        continue;
      double latency = latencyOf(assignment);
      if (latency == unlimited)
        continue;
      double cost = label.cost + perMs * latency;
      if (cost < below) {
        below = cost;
        result.found.push_back({cost, label.options});
      }
      continue;
    }
    StepHere &step = steps[label.step], &after = steps[label.step + 1];
    const std::vector<int> &own = chain->steps[label.step].pieces;
    llvm::fill(groupsTaken, -1);
    for (auto [piece, option] : zip(pieces, label.options))
      if (option >= 0)
        groupsTaken[piece] = program.options[piece][option].group;
    std::vector<Label> children;
    std::vector<uint8_t> isOpen(step.combinations.size());
    for (auto [number, combination] : enumerate(step.combinations)) {
      if (combination.dominator >= 0 && !isOpen[combination.dominator])
        continue;
      for (auto [piece, option] : zip(own, combination.options))
        groupsTaken[piece] = program.options[piece][option].group;
      llvm::fill(ms, 0.0);
      double cost = label.cost + combination.cost + linked(step, &ms);
      int state = stateOf(after);
      if (!(cost + after.leastAfter[state] < below))
        continue;
      chain->add(label.density.data(), combination.time, function.data());
      for (auto [of, by] : enumerate(ms))
        if (by > 0) {
          chain->shift(function.data() + of * points, by, shifted.data());
          std::copy(shifted.begin(), shifted.end(), function.begin() + of * points);
        }
      Label child{0, cost, label.step + 1, label.options, std::vector<float>(size)};
      chain->toDensity(function.data(), child.density.data());
      child.bound = std::max(label.bound, completed(child.density, cost, after, state, below));
      if (!(child.bound < below))
        continue;
      isOpen[number] = 1;
      for (auto [piece, option] : zip(own, combination.options))
        child.options[positionOf[piece]] = option;
      children.push_back(std::move(child));
    }
    // Goes on with the best of the new labels: plans are found by following one to its end.
    auto best = llvm::min_element(children, [](const Label &a, const Label &b) { return a.bound < b.bound; });
    for (auto child = children.begin(); child != children.end(); ++child) {
      if (child == best) {
        next = std::move(*child);
        continue;
      }
      open.push_back(std::move(*child));
      std::push_heap(open.begin(), open.end(), worse);
    }
  }
  result.bound = !isBounded && result.found.empty() && leastOpen == unlimited ? unlimited : std::min(below, leastOpen);
  return result;
}

} // namespace intarsia::plan
