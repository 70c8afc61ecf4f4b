//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "TimedChain.h"
#include "Convolution.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace intarsia::plan {

/// Cases take time and memory in proportion; outcomes beyond these are replaced by the fastest.
constexpr size_t mostCases = 8, mostOutcomes = 4;
/// Combinations of options of a fork.
constexpr size_t mostCombinations = 6000;
/// Points of the grid where many random times are added, whose sum is smooth, and where only few are or none is.
constexpr size_t pointsOfSmooth = 256, pointsOfLumpy = 768;
constexpr double fewestRandomOfSmooth = 3;

TimedChain::TimedChain(const Program &program, ArrayRef<int> pieces, ArrayRef<int> agents, const Bound &bound,
                       double margin)
    : margin(margin), program(program), bound(bound), linear(true), transfers(program.pairs.size()),
      edgesAround(program.options.size()) {
  probabilities = {1};
  std::vector<Case> cases;
  if (bound.agent >= 0) {
    agent = &program.problem.agents[bound.agent];
    linear = !agent->level.percentile;
    level = agent->level.percentile.value_or(1);
    std::vector<Scenario> scenarios(1);
    if (!linear)
      findCases(scenarios);
    for (const Scenario &scenario : scenarios)
      cases.push_back(pathOf(scenario));
    findForks(cases);
  }
  findSteps(pieces, agents);
  findAround();
  for (auto [index, of] : enumerate(cases))
    for (auto [edgeIndex, factor] : of.edges) {
      const Edge &edge = program.problem.edges[edgeIndex];
      for (int pairIndex : program.pairsOf[edge.from]) {
        const Pair &pair = program.pairs[pairIndex];
        if (pair.from != std::min(edge.from, edge.to) || pair.to != std::max(edge.from, edge.to))
          continue;
        auto &tables = transfers[pairIndex];
        tables.resize(cases.size(), std::vector<double>(pair.cost.size(), 0.0));
        for (int a = 0; a < pair.fromGroups; ++a)
          for (int b = 0; b < pair.toGroups; ++b)
            tables[index][size_t(a) * pair.toGroups + b] +=
                factor * (edge.from < edge.to ? program.edgeMs(edgeIndex, a, b) : program.edgeMs(edgeIndex, b, a));
      }
    }
  linear ? addUp(cases) : discretize(cases);
}

/// Adds steps of single pieces to those of forks. They are in the order of the agents' trees, in which neighbors are
/// near each other.
void TimedChain::findSteps(ArrayRef<int> pieces, ArrayRef<int> agents) {
  std::set<int> left(pieces.begin(), pieces.end());
  for (const Step &step : steps)
    for (int piece : step.pieces)
      left.erase(piece);
  std::vector<Step> forks = std::move(steps);
  steps.clear();
  auto walk = [&](auto &self, const Agent &of, int index) -> void {
    const Region &region = of.regions[index];
    for (int child : region.children)
      self(self, of, child);
    if (region.kind != Region::Kind::Piece)
      return;
    for (const Step &fork : forks)
      if (&of == agent && fork.pieces.front() == region.piece)
        steps.push_back(fork);
    if (left.erase(region.piece))
      steps.push_back({{region.piece}});
  };
  if (agent)
    walk(walk, *agent, agent->root);
  for (int other : agents)
    if (other != bound.agent)
      walk(walk, program.problem.agents[other], program.problem.agents[other].root);
  for (int piece : left)
    steps.push_back({{piece}});
}

void TimedChain::findCases(std::vector<Scenario> &scenarios) {
  Scenario &nothing = scenarios.front();
  nothing.branchTaken.assign(agent->regions.size(), -2);
  nothing.count.assign(agent->regions.size(), 0);
  std::vector<int> single; // regions that run exactly once: their outcomes are independent
  auto walk = [&](auto &self, int index, bool once) -> void {
    const Region &region = agent->regions[index];
    if (region.kind == Region::Kind::Loop || region.kind == Region::Kind::Map) {
      nothing.count[index] = std::numeric_limits<int>::max();
      for (auto [turns, probability] : region.counts)
        if (probability > 0)
          nothing.count[index] = std::min(nothing.count[index], turns);
    }
    if (once)
      single.push_back(index);
    for (int child : region.children)
      self(self, child, once && region.kind == Region::Kind::Dag);
  };
  walk(walk, agent->root, true);
  for (int index : single) {
    const Region &region = agent->regions[index];
    std::vector<std::pair<int, double>> outcomes;
    if (region.kind == Region::Kind::Branch) {
      for (auto [taken, probability] : enumerate(region.probabilities))
        if (probability > 0)
          outcomes.push_back({int(taken), probability});
    } else if (region.kind == Region::Kind::Loop || region.kind == Region::Kind::Map) {
      auto counts = region.counts;
      llvm::sort(counts);
      erase_if(counts, [](auto &count) { return count.second <= 0; });
      // Several counts together are as fast as their least.
      double sum = 0;
      for (auto [turns, probability] : counts) {
        if (outcomes.empty() || sum >= double(outcomes.size()) / mostOutcomes)
          outcomes.push_back({turns, 0});
        outcomes.back().second += probability;
        sum += probability;
      }
    }
    if (outcomes.size() < 2 || outcomes.size() * scenarios.size() > mostCases) {
      if (outcomes.size() == 1 && region.kind == Region::Kind::Branch)
        for (Scenario &scenario : scenarios)
          scenario.branchTaken[index] = outcomes.front().first;
      continue;
    }
    std::vector<Scenario> more;
    std::vector<double> probable;
    for (auto [scenario, of] : zip(scenarios, probabilities))
      for (auto [outcome, probability] : outcomes) {
        more.push_back(scenario);
        (region.kind == Region::Kind::Branch ? more.back().branchTaken : more.back().count)[index] = outcome;
        probable.push_back(of * probability);
      }
    scenarios = std::move(more), probabilities = std::move(probable);
  }
}

TimedChain::Case TimedChain::pathOf(const Scenario &scenario) const {
  // The path is that of the mean times of all options; any path is a lower bound.
  std::vector<Stage> mean(program.options.size());
  for (auto [stage, all] : zip(mean, program.options))
    for (const Option &option : all) {
      stage.firstMs += (option.stage.firstMs + option.stage.waitMs()) / double(all.size());
      stage.restMs += option.stage.restMs / double(all.size());
    }
  PathTerms terms;
  program.figures.latencies[bound.agent].linear(
      bound.measure, scenario,
      [&](int region, bool later) {
        return executionTimeOf(agent->regions[region], mean[agent->regions[region].piece], later);
      },
      [](int) { return 1e-9; }, &terms);
  Case result;
  result.terms.resize(program.options.size());
  result.edges = terms.edges;
  for (const PathTerms::Execution &execution : terms.executions) {
    auto &of = result.terms[agent->regions[execution.region].piece];
    const ExecutionTime &factors = execution.factors;
    // Only nominal times have numbers of copies that are not whole, as expectations.
    auto add = [&](ExecutionPart part, double copies) {
      if (copies > 1e-12)
        of.push_back({execution.region, execution.later, part, copies});
    };
    double whole = std::min({factors.waitMs, factors.firstMs, factors.restMs});
    double waits = std::min(factors.waitMs, factors.firstMs) - whole;
    add(ExecutionPart::Whole, whole);
    add(ExecutionPart::WaitAndFirst, waits);
    add(ExecutionPart::First, factors.firstMs - whole - waits);
    add(ExecutionPart::Rest, factors.restMs - whole);
  }
  return result;
}

void TimedChain::findForks(std::vector<Case> &cases) {
  std::vector<int> uses(program.options.size(), 0), edgeUses(program.problem.edges.size(), 0);
  auto count = [&](ArrayRef<int> edges) {
    for (int edge : edges)
      ++edgeUses[edge];
  };
  for (const Region &region : agent->regions) {
    if (region.kind == Region::Kind::Piece)
      ++uses[region.piece];
    count(region.entryEdges), count(region.backEdges);
    for (const Region::Arc &arc : region.arcs)
      count(arc.edges);
  }
  for (const Region &dag : agent->regions) {
    if (dag.kind != Region::Kind::Dag)
      continue;
    std::map<std::pair<std::vector<int>, std::vector<int>>, std::vector<int>> alike; // children by their neighbors
    for (auto [child, index] : enumerate(dag.children)) {
      const Region &region = agent->regions[index];
      if (region.kind != Region::Kind::Piece || uses[region.piece] != 1 || region.laterTurnScale != 1)
        continue;
      std::pair<std::vector<int>, std::vector<int>> around;
      bool plain = all_of(region.entryEdges, [&](int edge) { return edgeUses[edge] == 1; });
      for (const Region::Arc &arc : dag.arcs) {
        if (arc.from != int(child) && arc.to != int(child))
          continue;
        (arc.to == int(child) ? around.first : around.second).push_back(arc.to == int(child) ? arc.from : arc.to);
        plain &= !arc.streaming && all_of(arc.edges, [&](int edge) { return edgeUses[edge] == 1; });
      }
      if (plain && around.first.size() <= 1 && around.second.size() <= 1)
        alike[around].push_back(int(child));
    }
    for (auto &[around, children] : alike) {
      if (children.size() < 2)
        continue;
      Step step;
      size_t combinations = 1;
      std::vector<int> regions;
      for (int child : children) {
        int piece = agent->regions[dag.children[child]].piece;
        if (combinations * program.options[piece].size() > mostCombinations)
          break;
        combinations *= program.options[piece].size();
        step.pieces.push_back(piece);
        regions.push_back(dag.children[child]);
      }
      // In every case one of them is on the path as a whole and so many times, or none is.
      int copies = 0;
      bool holds = step.pieces.size() > 1;
      std::vector<int> of(cases.size(), 0);
      for (auto [sum, one] : zip(of, cases))
        for (int piece : step.pieces)
          for (const Term &term : one.terms[piece]) {
            holds &= term.part == ExecutionPart::Whole && std::abs(term.copies - std::round(term.copies)) < 1e-9;
            sum += int(std::lround(term.copies));
          }
      for (int sum : of) {
        holds &= sum == 0 || copies == 0 || sum == copies;
        copies = std::max(copies, sum);
      }
      if (!holds || copies == 0)
        continue;
      step.copies = copies;
      for (int sum : of)
        step.runs.push_back(sum > 0);
      for (auto [piece, region, child] : zip(step.pieces, regions, children)) {
        auto &edges = edgesAround[piece];
        append_range(edges, agent->regions[region].entryEdges);
        for (const Region::Arc &arc : dag.arcs)
          if (arc.from == child || arc.to == child)
            append_range(edges, arc.edges);
        for (auto [sum, one] : zip(of, cases)) {
          erase_if(one.edges, [&](auto &edge) { return is_contained(edges, edge.first); });
          one.terms[piece].clear();
          if (sum > 0)
            one.terms[piece].push_back({region, false, ExecutionPart::Whole, 1});
        }
      }
      steps.push_back(std::move(step));
    }
  }
  leastAround.resize(program.options.size());
  for (const Step &step : steps)
    for (int piece : step.pieces)
      for (int group = 0; group < program.groups[piece]; ++group)
        leastAround[piece].push_back(transfersAround(piece, group));
}

double TimedChain::transfersAround(int piece, int group, ArrayRef<int> assignment, bool longest) const {
  // Transfers in and out follow each other; of several at once the slowest counts.
  double in = 0, out = 0;
  for (int index : edgesAround[piece]) {
    const Edge &edge = program.problem.edges[index];
    int other = edge.from == piece ? edge.to : edge.from;
    auto msTo = [&](int of) {
      return edge.from == piece ? program.edgeMs(index, group, of) : program.edgeMs(index, of, group);
    };
    double own = longest ? 0 : unlimited;
    if (!assignment.empty() && assignment[other] >= 0)
      own = msTo(program.options[other][assignment[other]].group);
    else
      for (int of = 0; of < program.groups[other]; ++of)
        own = longest ? std::max(own, msTo(of)) : std::min(own, msTo(of));
    double &side = edge.from == piece ? out : in;
    side = std::max(side, own);
  }
  return in + out;
}

double TimedChain::moreAround(int piece, ArrayRef<int> assignment) const {
  int group = program.options[piece][assignment[piece]].group;
  return transfersAround(piece, group, assignment) - leastAround[piece][group];
}

double TimedChain::msOfFork(int step, ArrayRef<int> assignment) const {
  double ms = 0;
  for (int piece : steps[step].pieces)
    ms = std::max(ms, steps[step].copies * (msOf(piece, assignment[piece]) + moreAround(piece, assignment)));
  return ms;
}

static double partOf(const ExecutionTime &ms, ExecutionPart part) {
  return (part == ExecutionPart::Whole || part == ExecutionPart::WaitAndFirst ? ms.waitMs : 0) +
         (part == ExecutionPart::Rest ? 0 : ms.firstMs) +
         (part == ExecutionPart::Whole || part == ExecutionPart::Rest ? ms.restMs : 0);
}

void TimedChain::putOnGrid(const Distribution &time, float *function) const {
  std::fill(function, function + points, 0.0f);
  for (auto [ms, probability] : time.atoms()) {
    double position = ms / pointMs + (splits ? 0 : 1e-9);
    if (!(position < double(points)))
      continue;
    size_t point = size_t(position);
    double share = splits ? position - double(point) : 0;
    function[point] += float(probability * (1 - share));
    if (point + 1 < points)
      function[point + 1] += float(probability * share);
  }
  for (size_t point = 1; point < points; ++point)
    function[point] += function[point - 1];
}

void TimedChain::addTerm(const Term &term, const Stage &stage, float *function) const {
  const Region &region = agent->regions[term.region];
  std::vector<float> own(points), density(points), sum(points);
  auto plus = [&](const std::vector<float> &one, float *other) {
    toDensity(one.data(), density.data(), 1);
    add(density.data(), other, sum.data(), 1);
    std::copy(sum.begin(), sum.end(), other);
  };
  // Sums on the grid are much faster than exact ones.
  Stage served = stage;
  served.waitProbability = 0;
  double scale = region.timeScale * (term.later ? region.laterTurnScale : 1);
  Distribution service = durationOf(served, program.problem.pieces[region.piece].shape, scale, term.part);
  int64_t copies = std::lround(term.copies);
  if (service.isPoint() && stage.waitProbability == 0) {
    service = service.scaled(double(copies));
    copies = 1;
  }
  putOnGrid(service, own.data());
  bool waits = term.part == ExecutionPart::Whole || term.part == ExecutionPart::WaitAndFirst;
  if (Distribution wait = Distribution::exponentialTail(stage.waitProbability, stage.waitIfPositiveMs);
      waits && !wait.isPoint()) {
    std::vector<float> tail(points);
    putOnGrid(wait, tail.data());
    plus(tail, own.data());
  }
  for (int64_t left = copies; left > 0; left /= 2) {
    if (left % 2)
      plus(own, function);
    if (left > 1)
      plus(std::vector<float>(own), own.data());
  }
}

double TimedChain::transfersOfPiece(const Case &one, int piece, int group) const {
  double ms = one.terms[piece].empty() ? 0 : transfersAround(piece, group);
  for (auto [edge, factor] : one.edges)
    if (program.problem.edges[edge].from == piece && program.problem.edges[edge].to == piece)
      ms += factor * program.edgeMs(edge, group, group);
  return ms;
}

/// Returns true if data flows between a piece and one of a fork.
bool TimedChain::isAround(const Step &fork, int piece) const {
  return any_of(fork.pieces, [&](int of) {
    return any_of(edgesAround[of], [&](int index) {
      const Edge &edge = program.problem.edges[index];
      return edge.from == piece || edge.to == piece;
    });
  });
}

void TimedChain::findAround() {
  around.resize(steps.size());
  for (auto [index, step] : enumerate(steps)) {
    if (step.pieces.size() == 1)
      continue;
    for (size_t other = index; other < steps.size(); ++other)
      if (other == index || any_of(steps[other].pieces, [&](int piece) { return isAround(step, piece); }))
        around[other].push_back(int(index));
  }
  // Forks before that are followed by one more with transfers to or from this step change with it.
  for (auto [index, forks] : enumerate(around)) {
    int first = forks.empty() ? int(index) : forks.front();
    for (int fork = first; fork-- > 0;)
      for (size_t other = first; other < steps.size(); ++other)
        if (is_contained(around[other], fork))
          first = fork;
    restarts.push_back(first);
  }
}

/// Sets the milliseconds of a linear chain, which has one case, or none if no time counts.
void TimedChain::addUp(ArrayRef<Case> cases) {
  points = 1;
  times.resize(program.options.size());
  milliseconds.resize(program.options.size());
  rooms.assign(steps.size() + 1, 0.0);
  for (auto [index, step] : enumerate(steps)) {
    double most = 0;
    for (int piece : step.pieces) {
      times[piece].assign(program.options[piece].size(), 1.0f);
      for (const Option &option : program.options[piece]) {
        double ms = 0;
        for (const Case &one : cases) {
          ms += transfersOfPiece(one, piece, option.group);
          for (const Term &term : one.terms[piece])
            ms +=
                term.copies * partOf(executionTimeOf(agent->regions[term.region], option.stage, term.later), term.part);
        }
        milliseconds[piece].push_back(ms);
        most = std::max(most, transfersAround(piece, option.group, {}, true) - transfersAround(piece, option.group));
      }
    }
    if (step.pieces.size() == 1)
      continue;
    size_t last = steps.size() - 1;
    while (!is_contained(around[last], int(index)))
      --last;
    for (size_t before = index + 1; before <= last; ++before)
      rooms[before] += step.copies * most;
  }
}

void TimedChain::timeOfStep(int index, ArrayRef<int> options, float *function, ArrayRef<int> assignment) const {
  const Step &step = steps[index];
  std::fill(function, function + size(), 1.0f);
  std::vector<float> shifted(points);
  for (auto [piece, option] : zip(step.pieces, options)) {
    double more = assignment.empty() || step.pieces.size() == 1 ? 0 : moreAround(piece, assignment);
    for (size_t number = 0; number < probabilities.size(); ++number) {
      const float *own = timeOf(piece, option) + number * points;
      if (more > 0 && step.runs[number]) {
        shift(own, more, shifted.data());
        own = shifted.data();
      }
      float *to = function + number * points;
      for (size_t point = 0; point < points; ++point)
        to[point] *= own[point];
    }
  }
  if (step.copies == 1)
    return;
  std::vector<float> density(size()), sum(size());
  toDensity(function, density.data());
  for (int copy = 1; copy < step.copies; ++copy) {
    add(density.data(), function, sum.data());
    std::copy(sum.begin(), sum.end(), function);
  }
}

void TimedChain::discretize(ArrayRef<Case> cases) {
  double random = unlimited; // copies of random times, in the case with fewest
  for (const Case &one : cases) {
    double own = 0;
    for (auto [piece, terms] : enumerate(one.terms))
      for (const Term &term : terms)
        if (Shape::Kind kind = program.problem.pieces[piece].shape.kind;
            kind == Shape::Kind::Lognormal || kind == Shape::Kind::Exponential)
          own += term.copies;
    random = std::min(random, own);
  }
  splits = random >= fewestRandomOfSmooth;
  points = splits ? pointsOfSmooth : pointsOfLumpy;
  pointMs = std::max(bound.most * (1 + margin) + 2e-7, 1e-9) / (double(points) - (splits ? 0.5 : 1.0));
  times.resize(program.options.size());
  for (const Step &step : steps)
    for (int piece : step.pieces) {
      auto &all = program.options[piece];
      times[piece].resize(all.size() * size());
      for (auto [index, option] : enumerate(all)) {
        float *to = times[piece].data() + index * size();
        for (auto [number, one] : enumerate(cases)) {
          float *function = to + number * points;
          putOnGrid(Distribution::point(transfersOfPiece(one, piece, option.group)), function);
          for (const Term &term : one.terms[piece])
            addTerm(term, option.stage, function);
        }
      }
    }
}

void TimedChain::toDensity(const float *function, float *density, size_t cases) const {
  for (size_t number = 0; number < cases; ++number, function += points, density += points) {
    density[0] = function[0];
    for (size_t point = 1; point < points; ++point)
      density[point] = function[point] - function[point - 1];
  }
}

double TimedChain::timeAt(size_t point, function_ref<double(size_t)> probabilityAt) const {
  if (!splits || point == 0)
    return double(point) * pointMs;
  double before = probabilityAt(point - 1), here = probabilityAt(point);
  double share = here > before ? std::clamp((level - roomOfSums - before) / (here - before), 0.0, 1.0) : 0;
  return (double(point) - 0.5 + share) * pointMs;
}

void TimedChain::add(const float *density, const float *function, float *sum, size_t cases) const {
  for (size_t number = 0; number < cases; ++number)
    convolve(density + number * points, function + number * points, sum + number * points, points);
}

void TimedChain::shift(const float *function, double ms, float *shifted) const {
  double position = ms / pointMs + (splits ? 0 : 1e-9);
  if (!(position < double(points))) {
    std::fill(shifted, shifted + points, 0.0f);
    return;
  }
  size_t by = size_t(position);
  float share = splits ? float(position - double(by)) : 0;
  std::fill(shifted, shifted + by, 0.0f);
  if (share == 0) {
    std::copy(function, function + points - by, shifted + by);
    return;
  }
  shifted[by] = (1 - share) * function[0];
  for (size_t point = by + 1; point < points; ++point)
    shifted[point] = (1 - share) * function[point - by] + share * function[point - by - 1];
}

double TimedChain::shiftedAt(size_t point, double ms, function_ref<double(size_t)> functionAt) const {
  if (ms == 0)
    return functionAt(point);
  double position = ms / pointMs + (splits ? 0 : 1e-9);
  if (!(position < double(points)))
    return 0;
  size_t by = size_t(position);
  double share = splits ? position - double(by) : 0;
  double value = point < by ? 0 : (1 - share) * functionAt(point - by);
  return share == 0 || point < by + 1 ? value : value + share * functionAt(point - by - 1);
}

void TimedChain::shift(ArrayRef<double> ms, std::vector<float> &function) const {
  std::vector<float> shifted(points);
  for (auto [number, by] : enumerate(ms))
    if (by > 0) {
      shift(function.data() + number * points, by, shifted.data());
      std::copy(shifted.begin(), shifted.end(), function.begin() + number * points);
    }
}

} // namespace intarsia::plan
