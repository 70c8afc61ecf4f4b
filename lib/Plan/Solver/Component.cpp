//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Component.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include <cmath>
#include <random>

using namespace llvm;

namespace intarsia::plan {

/// Labels of a search: at first, and at most; of one whose chain is linear, which take little time.
constexpr size_t labelsAtFirst = 500, mostLabels = 10'000'000, labelsOfLinear = 100'000;
/// Slowest times over those of the slowest options and of one transfer on each edge.
constexpr double slowestFactor = 3;
/// Margin of a chain before it is measured, by so many assignments, and what is added to twice the most that was
/// measured: splits make sums longer, by 5e-5 to 9e-4 of the bound; where they count for the lower point nothing does.
constexpr double firstMargin = 1e-2, leastMargin = 1e-4, leastMarginOfLumpy = 1e-7;
constexpr int samplesOfMargin = 12;
/// Labels to compare one with.
constexpr size_t mostComparisons = 300;
/// Entries for the steps before one, of which each is continued by all combinations: more keep out few more options.
constexpr int mostEntriesBefore = 10;
/// States of a table; beyond these it does not distinguish all pieces.
constexpr int mostStates = 600;

std::vector<std::vector<int>> componentsOf(const Program &program) {
  size_t pieces = program.options.size();
  IntEqClasses connected{unsigned(pieces)};
  for (auto &pair : program.pairs)
    connected.join(pair.from, pair.to);
  for (const LatencyCheck &check : program.checks)
    for (int piece : program.piecesOf(check.agent))
      connected.join(piece, program.piecesOf(check.agent).front());
  connected.compress();
  std::vector<std::vector<int>> components(connected.getNumClasses());
  for (size_t piece = 0; piece < pieces; ++piece)
    components[connected[unsigned(piece)]].push_back(int(piece));
  return components;
}

Component::Component(const Program &program, std::vector<int> pieces, ArrayRef<double> mostMs,
                     Clock::time_point deadline)
    : program(program), deadline(deadline), order(std::move(pieces)), positionOf(program.options.size(), -1),
      groupsTaken(program.options.size(), -1), assignment(program.options.size(), 0) {
  for (auto [position, piece] : enumerate(order))
    positionOf[piece] = int(position);
  for (int agent = 0; agent < int(program.problem.agents.size()); ++agent)
    if (any_of(program.piecesOf(agent), [&](int piece) { return positionOf[piece] >= 0; }))
      agents.push_back(agent);
  // The time that bounds most: the objective's, else the one that the cheapest options exceed most.
  std::vector<int> cheapest(program.options.size(), 0), slowest = cheapest;
  for (int piece : order) {
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
  using Bound = TimedChain::Bound;
  std::vector<Bound> bounds;
  for (int agent : agents) {
    const ServiceLevel &level = program.problem.agents[agent].level;
    if (double most = std::min(level.endToEndMs, mostMs[agent]); most < unlimited || program.latencyWeights[agent] > 0)
      bounds.push_back({agent, Measure::EndToEnd, most});
    if (level.firstOutputMs < unlimited)
      bounds.push_back({agent, Measure::FirstOutput, level.firstOutputMs});
  }
  // An evaluation may take seconds: none is made where there is nothing to choose.
  auto excessOf = [&](const Bound &bound) {
    if (bounds.size() == 1)
      return 1.0;
    return (bound.measure == Measure::EndToEnd && program.latencyWeights[bound.agent] > 0 ? 1e6 : 0) +
           (bound.most < unlimited ? program.msOf(bound.agent, bound.measure, cheapest) / bound.most : 1);
  };
  double worstExcess = -1;
  for (const Bound &of : bounds)
    if (double excess = excessOf(of); excess > worstExcess)
      bound = of, worstExcess = excess;
  if (bound.agent >= 0 && bound.most == unlimited)
    bound.most = slowestFactor * (program.msOf(bound.agent, bound.measure, slowest) + transfersMs);
  isAlone = bounds.size() <= 1;
  if (bound.agent >= 0 && bound.measure == Measure::EndToEnd)
    weight = program.latencyWeights[bound.agent];
  chain = std::make_unique<TimedChain>(program, order, agents, bound, firstMargin);
  labels = chain->isLinear() ? labelsOfLinear : labelsAtFirst;
  planSteps();
}

void Component::planSteps() {
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
  std::vector<int> frontier, compared;
  for (auto [index, step] : enumerate(steps)) {
    for (auto *pieces : {&frontier, &compared})
      erase_if(*pieces, [&](int piece) { return lastUse(piece) < int(index); });
    auto statesOf = [&] {
      double states = 1;
      for (int piece : frontier)
        states *= program.groups[piece];
      return states;
    };
    step.compared = compared;
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
      frontier.push_back(piece), compared.push_back(piece);
    }
  }
}

double Component::chainMs() {
  std::vector<float> density(chain->size(), 0.0f), function(chain->size());
  for (size_t number = 0; number < chain->probabilities.size(); ++number)
    density[number * chain->points] = 1;
  llvm::fill(groupsTaken, -1);
  for (int piece : order)
    groupsTaken[piece] = program.options[piece][assignment[piece]].group;
  takeKnownTransfers(0, density, int(chain->steps.size()), function);
  auto probability = [&](size_t point) {
    double sum = 0;
    for (auto [number, share] : enumerate(chain->probabilities))
      sum += share * function[number * chain->points + point];
    return sum;
  };
  for (size_t point = 0; point < chain->points; ++point)
    if (probability(point) >= chain->level - TimedChain::roomOfSums)
      return chain->timeAt(point, probability);
  return unlimited;
}

void Component::measureMargin() {
  isMeasured = true;
  if (chain->isLinear() || all_of(order, [&](int piece) { return program.options[piece].size() == 1; }))
    return;
  std::mt19937 random(1);
  double latest = 0;
  for (int sample = 0; sample < samplesOfMargin; ++sample) {
    if (Clock::now() >= deadline)
      return;
    // The fastest options, and as many others at random as the bound allows.
    double ms = unlimited;
    for (double share = 1; ms == unlimited && share > 0; share = share > 0.05 ? share / 2 : 0) {
      for (int piece : order) {
        auto &all = program.options[piece];
        auto fastest = llvm::min_element(
            all, [](const Option &a, const Option &b) { return a.stage.meanMs() < b.stage.meanMs(); });
        bool takesOther = random() % 1000 < 1000 * share;
        assignment[piece] = takesOther ? int(random() % all.size()) : int(fastest - all.begin());
      }
      ms = chainMs();
    }
    if (ms < unlimited)
      latest = std::max(latest, (ms - program.msOf(bound.agent, bound.measure, assignment)) / bound.most);
  }
  double least = chain->isSmooth() ? leastMargin : leastMarginOfLumpy;
  chain = std::make_unique<TimedChain>(program, order, agents, bound, least + 2 * latest);
}

double Component::latencyOf(ArrayRef<int> whole) {
  std::string key;
  for (int piece : order)
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

void Component::markAlive(double below, std::vector<std::vector<uint8_t>> &alive) {
  if (chain->isLinear())
    return markCheap(below, alive);
  auto release = make_scope_exit([&] { dropSums(); });
  if (!completions(below)) {
    for (auto &of : alive)
      llvm::fill(of, 1);
    return;
  }
  size_t size = chain->size();
  std::vector<Entry> nothing(1, {0.0, std::vector<float>(size, 1.0f)});
  std::vector<std::vector<Entry>> entries{std::move(nothing)};
  std::vector<float> sum(size);
  std::vector<double> ms(chain->probabilities.size());
  for (size_t index = 0; index + 1 < steps.size(); ++index) {
    StepHere &step = steps[index], &next = steps[index + 1];
    const std::vector<int> &own = chain->steps[index].pieces;
    std::vector<std::vector<Entry>> buckets(next.states);
    for (int state = 0; state < step.states; ++state)
      for (const Entry &entry : entries[state]) {
        if (Clock::now() >= deadline) {
          for (auto &of : alive)
            llvm::fill(of, 1);
          return;
        }
        Label before{0, entry.cost, 0, int(index), {}, std::vector<float>(size), {}, {}};
        chain->toDensity(entry.function.data(), before.density.data());
        for (auto [number, combination] : enumerate(step.combinations)) {
          auto isAlive = [&](auto of) { return alive[positionOf[std::get<0>(of)]][std::get<1>(of)] != 0; };
          bool isDominated = combination.dominator >= 0; // who continues its dominator does no worse
          if (isDominated && all_of(zip(own, combination.options), isAlive))
            continue;
          double total = entry.cost + combination.cost + linkedAt(index, state, combination, ms);
          int then = stateOf(next);
          double least = this->before[index + 1][then].cost, room = below - after[index + 1][then].cost;
          if (!(total < room) || completedThrough(before, number, total, ms, then, below) == unlimited)
            continue;
          for (auto [piece, option] : zip(own, combination.options))
            alive[positionOf[piece]][option] = 1;
          if (isDominated)
            continue;
          chain->add(before.density.data(), combination.time, sum.data());
          chain->shift(ms, sum);
          auto &into = buckets[then];
          if (into.empty())
            into.resize(mostEntriesBefore, {unlimited, {}});
          Entry &bucket =
              into[std::clamp(int((total - least) / (room - least) * mostEntriesBefore), 0, mostEntriesBefore - 1)];
          bucket.cost = std::min(bucket.cost, total);
          bucket.function.resize(size, 0.0f);
          for (auto [to, from] : zip(bucket.function, sum))
            to = std::max(to, from);
        }
      }
    entries.assign(next.states, {});
    for (auto [of, into] : zip(entries, buckets))
      for (Entry &bucket : into)
        if (!bucket.function.empty())
          of.push_back(std::move(bucket));
  }
}

void Component::markCheap(double below, std::vector<std::vector<uint8_t>> &alive) {
  priceTime();
  before = leastOf(true, 1, price);
  for (size_t index = 0; index + 1 < steps.size(); ++index) {
    const StepHere &step = steps[index];
    for (int state = 0; state < step.states; ++state)
      for (const Combination &combination : step.combinations) {
        const Way &way = step.ways[size_t(state) * step.kinds.size() + combination.kind];
        // The cost of the steps before has the price of their time in it.
        double cost = before[index][state].cost + combination.cost + way.cost;
        Label through{0, cost, combination.ms + way.ms, int(index) + 1, {}, {}, {}, {}};
        if (completed(through, way.next, below) < unlimited)
          for (auto [piece, option] : zip(chain->steps[index].pieces, combination.options))
            alive[positionOf[piece]][option] = 1;
      }
  }
}

Component::Result Component::minimize(double below, bool exactly) {
  Result result;
  if (!chain->isLinear()) {
    // A bound takes much longer than a plan, and less with one.
    if (!exactly || below == unlimited)
      if (std::optional<Found> found = improved(); found && found->cost < below) {
        below = found->cost;
        result.found.push_back(std::move(*found));
      }
    result.bound = -unlimited;
    if (!exactly)
      return result;
  }
  Result searched = search(below);
  result.bound = searched.bound;
  append_range(result.found, searched.found);
  return result;
}

bool Component::searchLonger() {
  if (chain->isLinear() || labels > mostLabels)
    return false;
  labels *= 8;
  return true;
}

std::vector<int> Component::pairsInside() const {
  std::vector<int> inside;
  for (auto [index, pair] : enumerate(program.pairs))
    if (positionOf[pair.from] >= 0 && positionOf[pair.to] >= 0)
      inside.push_back(int(index));
  return inside;
}

/// Returns whether a distribution function is at or above another one everywhere.
static bool isNoLater(const std::vector<float> &one, const std::vector<float> &other) {
  for (size_t point = 8; point < one.size(); point += 16) // most pairs differ in many places
    if (one[point] < other[point])
      return false;
  return std::equal(one.begin(), one.end(), other.begin(), std::greater_equal<float>());
}

bool Component::isSetAside(Comparisons &comparisons, Label &label, const std::vector<float> &function) const {
  std::vector<int> groups;
  for (int piece : steps[label.step].compared)
    groups.push_back(program.options[piece][label.options[positionOf[piece]]].group);
  auto &others = comparisons.alike[{label.step, std::move(groups)}];
  erase_if(others, [&](int other) { return comparisons.known[other].misleads; });
  double room = chain->isLinear() ? chain->roomBefore(label.step) : 0;
  for (int index : others)
    if (Known &other = comparisons.known[index];
        other.cost <= label.cost && other.ms + room <= label.ms && isNoLater(other.function, function)) {
      label.density.clear();
      other.aside.push_back({std::move(label), function});
      return true;
    }
  if (others.size() < mostComparisons) {
    label.known.push_back(int(comparisons.known.size()));
    others.push_back(label.known.back());
    comparisons.known.push_back({label.cost, label.ms, function, {}, false});
  }
  return false;
}

void Component::takeKnownTransfers(int from, const std::vector<float> &density, int to,
                                   std::vector<float> &function) const {
  std::vector<double> ms(chain->probabilities.size(), 0.0);
  std::vector<float> own(density.size()), sum = density;
  std::vector<int> options;
  for (int index = from; index < to; ++index) {
    options.clear();
    for (int piece : chain->steps[index].pieces)
      options.push_back(assignment[piece]);
    linked(steps[index], &ms);
    chain->timeOfStep(index, options, own.data(), assignment);
    chain->add(sum.data(), own.data(), function.data());
    if (index + 1 < to)
      chain->toDensity(function.data(), sum.data());
  }
  chain->shift(ms, function);
}

std::vector<Component::Label> Component::reopened(Comparisons &comparisons, const Label &label, double below) const {
  for (int index : label.known)
    comparisons.known[index].misleads = true;
  std::vector<Label> again;
  for (int index : label.known)
    for (Aside &aside : std::exchange(comparisons.known[index].aside, {}))
      if (aside.label.bound < below && !isSetAside(comparisons, aside.label, aside.function)) {
        aside.label.density.resize(chain->size());
        chain->toDensity(aside.function.data(), aside.label.density.data());
        again.push_back(std::move(aside.label));
      }
  return again;
}

Component::Result Component::search(double below) {
  Result result;
  result.bound = below;
  priceTime();
  if (!(after[0][0].cost - (price > leastPrice ? (price - leastPrice) * bound.most : 0) < below))
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
      below += perMs * weight * bound.most * 1.01; // the grid reaches a little farther
  }
  auto release = make_scope_exit([&] { dropSums(); });
  if (!completions(below)) {
    result.bound = std::min(result.bound, after[0][0].cost);
    return result;
  }
  size_t size = chain->size(), points = chain->points;
  auto worse = [](const Label &a, const Label &b) { return a.bound > b.bound; };
  std::vector<Label> open;
  Label start{0, 0, 0, 0, std::vector<int>(order.size(), -1), std::vector<float>(size, 0.0f), {}, {}};
  for (size_t number = 0; number < chain->probabilities.size(); ++number)
    start.density[number * points] = 1;
  start.bound = completed(start, 0, below);
  if (start.bound == unlimited)
    return result;
  open.push_back(std::move(start));
  std::vector<float> function(size);
  std::vector<double> ms(chain->probabilities.size());
  std::optional<Label> next;
  Comparisons comparisons;
  // Only sums of many random times are compared, which the grid does not make equal.
  bool compares = chain->isLinear() || (isAlone && chain->isSmooth());
  double leastOpen = unlimited;
  for (size_t visited = 0;; ++visited) {
    if (!next) {
      if (open.empty() || open.front().bound >= below)
        break;
      // Where no assignment is known the first one is needed, however long that takes.
      bool isEnough = visited >= labels && (isBounded || !result.found.empty());
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
      for (auto [position, piece] : enumerate(order))
        assignment[piece] = label.options[position];
      double latency = latencyOf(assignment);
      double cost = latency == unlimited ? unlimited : label.cost + perMs * latency;
      if (cost < below) {
        below = cost;
        result.found.push_back({cost, label.options});
      }
      // The plan may take longer than the chain says: then labels that it made unnecessary are searched after all.
      double expected = chain->isLinear() ? label.cost + leastPrice * label.ms : label.bound;
      if (cost > expected + 1e-9 * std::abs(expected))
        for (Label &again : reopened(comparisons, label, below)) {
          open.push_back(std::move(again));
          std::push_heap(open.begin(), open.end(), worse);
        }
      continue;
    }
    StepHere &step = steps[label.step];
    const std::vector<int> &own = chain->steps[label.step].pieces;
    llvm::fill(groupsTaken, -1);
    for (auto [piece, option] : zip(order, label.options))
      if (option >= 0)
        groupsTaken[piece] = program.options[piece][option].group;
    // The time of a fork is known in full when the steps around it are.
    auto forksMs = [&](bool withOwn) {
      double sum = 0;
      for (int fork : chain->isLinear() ? chain->forksAround(label.step) : ArrayRef<int>())
        sum += withOwn || fork < label.step ? chain->msOfFork(fork, assignment) : 0;
      return sum;
    };
    for (auto [position, piece] : enumerate(order))
      assignment[piece] = label.options[position];
    double forksBefore = forksMs(false);
    // A child needs a new distribution from the fork on only if its pieces make longer transfers around it known: this
    // sum then grows.
    ArrayRef<int> forks = chain->isLinear() ? ArrayRef<int>() : chain->forksAround(label.step);
    auto moreAround = [&] {
      double sum = 0;
      for (int fork : forks)
        for (int piece : chain->steps[fork].pieces)
          sum += assignment[piece] >= 0 ? chain->moreAround(piece, assignment) : 0;
      return sum;
    };
    for (int piece : own)
      assignment[piece] = -1;
    double moreBefore = moreAround();
    const BeforeFork *from = label.forks.get();
    std::shared_ptr<const BeforeFork> ofChildren = label.forks;
    if (!chain->isLinear() && own.size() > 1)
      ofChildren = std::make_shared<const BeforeFork>(BeforeFork{label.step, label.density, label.forks});
    if (!forks.empty())
      for (from = ofChildren.get(); from->step > chain->restartOf(label.step);)
        from = from->earlier.get();
    std::vector<Label> children;
    std::vector<uint8_t> isOpen(step.combinations.size());
    for (auto [number, combination] : enumerate(step.combinations)) {
      if (combination.dominator >= 0 && !isOpen[combination.dominator])
        continue;
      for (auto [piece, option] : zip(own, combination.options)) {
        groupsTaken[piece] = program.options[piece][option].group;
        assignment[piece] = option;
      }
      llvm::fill(ms, 0.0);
      double cost = label.cost + combination.cost + linked(step, &ms);
      double forks = forksMs(true) - forksBefore;
      double later = label.ms + ms[0] + forks + (own.size() == 1 || !chain->isLinear() ? combination.ms : 0);
      int state = stateOf(steps[label.step + 1]);
      if (!(cost + after[label.step + 1][state].cost < below) && !chain->isLinear())
        continue;
      double continued = chain->isLinear() ? completed({0, cost, later, label.step + 1, {}, {}, {}, {}}, state, below)
                                           : completedThrough(label, number, cost, ms, state, below);
      continued = std::max(label.bound, continued);
      if (!(continued < below))
        continue;
      Label child{continued, cost, later, label.step + 1, label.options, {}, label.known, ofChildren};
      isOpen[number] = 1; // with the least transfers, as dominators are compared
      child.density.resize(size);
      if (moreAround() > moreBefore + 1e-9) {
        takeKnownTransfers(from->step, from->density, label.step + 1, function);
        chain->toDensity(function.data(), child.density.data());
        child.bound = std::max(child.bound, completed(child, state, below));
        if (!(child.bound < below))
          continue;
      } else {
        chain->add(label.density.data(), combination.time, function.data());
        if (!chain->isLinear())
          chain->shift(ms, function);
        chain->toDensity(function.data(), child.density.data());
      }
      for (auto [piece, option] : zip(own, combination.options))
        child.options[positionOf[piece]] = option;
      if (!compares || !isSetAside(comparisons, child, function))
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
