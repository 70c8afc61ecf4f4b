//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "TimedSearch.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace intarsia::plan {

/// Slowest times over those of the slowest options and of one transfer on each edge.
constexpr double slowestFactor = 3;
/// Labels to compare one with.
constexpr size_t mostComparisons = 300;
/// States of a table; beyond these it does not distinguish all pieces.
constexpr int mostStates = 600;

TimedSearch::TimedSearch(const Program &program, ArrayRef<int> pieces, ArrayRef<int> agents, ArrayRef<double> mostMs,
                         Clock::time_point deadline)
    : program(program), deadline(deadline), pieces(pieces), agents(agents), positionOf(program.options.size(), -1),
      groupsTaken(program.options.size(), -1), assignment(program.options.size(), 0) {
  for (auto [position, piece] : enumerate(pieces))
    positionOf[piece] = int(position);
  // The time that bounds most: the objective's, else the one that the cheapest options exceed most.
  std::vector<int> cheapest(program.options.size(), 0), slowest = cheapest;
  for (int piece : pieces) {
    auto &all = program.options[piece];
    auto find = [&](auto figure) {
      return int(llvm::max_element(all, [&](auto &a, auto &b) { return figure(a) < figure(b); }) - all.begin());
    };
    cheapest[piece] = find([&](const Option &option) { return -program.relaxedCost(option, piece); });
    slowest[piece] = find([](const Option &option) { return option.stage.meanMs(); });
  }
  // Where nothing bounds a time that is the objective, the slowest plan does; transfers may be part of loops.
  double transfersMs = 0;
  for (auto [index, edge] : enumerate(program.problem.edges)) {
    double most = 0;
    for (int from = 0; from < program.groups[edge.from]; ++from)
      for (int to = 0; to < program.groups[edge.to]; ++to)
        most = std::max(most, program.edgeMs(int(index), from, to));
    transfersMs += most;
  }
  struct Bound {
    int agent;
    Measure measure;
    double most;
    bool counts; ///< in the objective
  };
  std::vector<Bound> bounds;
  for (int agent : agents) {
    const ServiceLevel &level = program.problem.agents[agent].level;
    bool counts = program.latencyWeights[agent] > 0;
    if (double most = std::min(level.endToEndMs, mostMs[agent]); most < unlimited || counts)
      bounds.push_back({agent, Measure::EndToEnd, most, counts});
    if (level.firstOutputMs < unlimited)
      bounds.push_back({agent, Measure::FirstOutput, level.firstOutputMs, false});
  }
  // An evaluation may take seconds: none is made where there is nothing to choose.
  auto excessOf = [&](const Bound &bound) {
    if (bounds.size() == 1)
      return 1.0;
    return (bound.counts ? 1e6 : 0) +
           (bound.most < unlimited ? program.msOf(bound.agent, bound.measure, cheapest) / bound.most : 1);
  };
  Bound worst = bounds.front();
  double worstExcess = -1;
  for (const Bound &bound : bounds)
    if (double excess = excessOf(bound); excess > worstExcess)
      worst = bound, worstExcess = excess;
  if (worst.most == unlimited)
    worst.most = slowestFactor * (program.msOf(worst.agent, worst.measure, slowest) + transfersMs);
  isAlone = bounds.size() <= 1;
  weight = worst.counts ? program.latencyWeights[worst.agent] : 0;
  chain = std::make_unique<TimedChain>(program, pieces, worst.agent, worst.measure, worst.most);
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
  double level = chain->level - TimedChain::roomOfSums;
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
  std::map<std::pair<int, int>, std::vector<std::pair<double, std::vector<float>>>> known; // by step and state
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
      // Another label in the same groups that cost no more and is never later leaves at least as much to what remains.
      // Only sums of many random times are compared, which the grid does not make equal.
      if (isAlone && chain->isSmooth()) {
        auto &others = known[{child.step, state}];
        bool isDominated = any_of(others, [&](const auto &other) {
          return other.first <= cost &&
                 std::equal(function.begin(), function.end(), other.second.begin(), std::less_equal<float>());
        });
        if (isDominated)
          continue;
        if (others.size() < mostComparisons)
          others.push_back({cost, function});
      }
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
