//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Latency.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace intarsia::plan {

using Kind = Region::Kind;
using Takes = Network::Takes;

/// Drops transfers that no plan can be late by: another one takes at least as long, as it has the same edges and more,
/// and begins no sooner and ends no later. A task that reads the texts of all before it waits for the last of them; the
/// others came while that one was written. Each transfer that stands for another one spans less than that, so the
/// longest stay.
static void dropImplied(Network &network, const Region &region) {
  std::vector<std::vector<const Network::Arc *>> outs(network.vertices), ins(network.vertices);
  for (const Network::Arc &arc : network.arcs)
    outs[arc.from].push_back(&arc), ins[arc.to].push_back(&arc);
  std::vector<llvm::BitVector> reached(network.vertices); // by vertex: itself and those after it
  for (int vertex : llvm::reverse(network.order)) {
    reached[vertex].resize(network.vertices);
    reached[vertex].set(vertex);
    for (const Network::Arc *arc : outs[vertex])
      reached[vertex] |= reached[arc->to];
  }
  auto edgesOf = [&](const Network::Arc &arc) -> const std::vector<int> & { return region.arcs[arc.arc].edges; };
  auto covers = [&](const Network::Arc &one, const Network::Arc &other) {
    return &one != &other && one.takes == Takes::Transfer &&
           llvm::all_of(edgesOf(other), [&](int edge) { return llvm::is_contained(edgesOf(one), edge); });
  };
  auto isImplied = [&](const Network::Arc &arc) {
    if (arc.takes != Takes::Transfer)
      return false;
    return llvm::any_of(outs[arc.from],
                        [&](const Network::Arc *sooner) {
                          return sooner->to != arc.to && reached[sooner->to].test(arc.to) && covers(*sooner, arc);
                        }) ||
           llvm::any_of(ins[arc.to], [&](const Network::Arc *later) {
             return later->from != arc.from && reached[arc.from].test(later->from) && covers(*later, arc);
           });
  };
  std::vector<Network::Arc> kept;
  llvm::copy_if(network.arcs, std::back_inserter(kept), [&](const Network::Arc &arc) { return !isImplied(arc); });
  network.arcs = std::move(kept);
}

static Network buildNetwork(const Agent &agent, const Region &region, bool toFirst) {
  Network network;
  int count = int(region.children.size());
  std::vector<bool> splits(count), hasPredecessor(count), hasSuccessor(count);
  auto isExecution = [&](int child) { return agent.regions[region.children[child]].kind == Kind::Piece; };
  for (auto &arc : region.arcs) {
    hasPredecessor[arc.to] = hasSuccessor[arc.from] = true;
    if (arc.streaming && isExecution(arc.from))
      splits[arc.from] = true;
  }
  // Vertices: source, sink, then begin, first output and end of each child.
  auto begin = [](int child) { return 2 + 3 * child; };
  auto first = [](int child) { return 3 + 3 * child; };
  auto end = [](int child) { return 4 + 3 * child; };
  int last = count - 1;
  network.vertices = 2 + 3 * count;
  network.source = 0, network.sink = 1;
  network.order.push_back(0);
  // A child's begin depends on earlier children only, so the order of children is topological.
  for (int child = 0; child < count; ++child)
    for (int vertex : {begin(child), first(child), end(child)})
      network.order.push_back(vertex);
  network.order.push_back(1);
  for (int child = 0; child < count; ++child) {
    if (!hasPredecessor[child])
      network.arcs.push_back({0, begin(child), Takes::Nothing});
    bool asked = toFirst && child == last;
    if (splits[child] || asked)
      network.arcs.push_back({begin(child), first(child), Takes::First, child});
    if (asked) {
      network.arcs.push_back({first(child), 1, Takes::Nothing});
      continue;
    }
    if (splits[child])
      network.arcs.push_back({first(child), end(child), Takes::Rest, child});
    else
      network.arcs.push_back({begin(child), end(child), Takes::Whole, child});
    if (!hasSuccessor[child] && !toFirst)
      network.arcs.push_back({end(child), 1, Takes::Nothing});
  }
  for (auto [index, arc] : llvm::enumerate(region.arcs)) {
    bool streams = arc.streaming && isExecution(arc.from);
    network.arcs.push_back({streams ? first(arc.from) : end(arc.from), begin(arc.to), Takes::Transfer, -1, int(index)});
    if (streams && !(toFirst && arc.to == last))
      network.arcs.push_back({end(arc.from), end(arc.to), Takes::TransferAndFirst, arc.to, int(index)});
  }
  // Sorts arcs by their start, and drops vertices that the sink does not depend on.
  std::vector<int> position(network.vertices);
  for (auto [index, vertex] : llvm::enumerate(network.order))
    position[vertex] = int(index);
  llvm::stable_sort(network.arcs,
                    [&](const Network::Arc &a, const Network::Arc &b) { return position[a.from] < position[b.from]; });
  std::vector<bool> needed(network.vertices);
  needed[network.sink] = true;
  for (const Network::Arc &arc : llvm::reverse(network.arcs))
    if (needed[arc.to])
      needed[arc.from] = true;
  llvm::erase_if(network.arcs, [&](const Network::Arc &arc) { return !needed[arc.to] || !needed[arc.from]; });
  dropImplied(network, region);
  return network;
}

/// Returns the probability of at least one turn, of exactly one, and the mean number.
static std::array<double, 3> turnsOf(const Region &region) {
  double some = 0, one = 0, mean = 0;
  for (auto [count, probability] : region.counts) {
    some += count > 0 ? probability : 0;
    one += count == 1 ? probability : 0;
    mean += count * probability;
  }
  return {some, one, mean};
}

AgentLatency::AgentLatency(const Agent &agent) : agent(agent), networks(agent.regions.size() * 2) {
  for (auto &region : agent.regions)
    turns.push_back(turnsOf(region));
  for (auto [index, region] : llvm::enumerate(agent.regions))
    if (region.kind == Kind::Dag)
      for (bool toFirst : {false, true})
        networks[index * 2 + toFirst] = buildNetwork(agent, region, toFirst);
}

struct AgentLatency::Walk {
  const AgentLatency &latency;
  const Scenario &scenario;
  ExecutionTimes executionTimes;
  EdgeTime edgeTime;
  /// Known values by region, later turn, and whether to the first output.
  std::vector<double> values = std::vector<double>(latency.agent.regions.size() * 4, -1.0);

  std::array<double, 3> turnsAt(int index) const {
    int fixed = scenario.count.empty() ? -1 : scenario.count[index];
    if (fixed < 0)
      return latency.turns[index];
    return {fixed > 0 ? 1.0 : 0.0, fixed == 1 ? 1.0 : 0.0, double(fixed)};
  }
  int takenAt(int index) const { return scenario.branchTaken.empty() ? -1 : scenario.branchTaken[index]; }

  double largestEdge(const std::vector<int> &edges, int *which = nullptr) const {
    double largest = 0;
    for (int edge : edges)
      if (double time = edgeTime(edge); time > largest) {
        largest = time;
        if (which)
          *which = edge;
      }
    return largest;
  }

  double arcTime(const Region &region, const Network::Arc &arc, bool later) {
    double time = arc.arc >= 0 ? largestEdge(region.arcs[arc.arc].edges) : 0;
    int child = arc.child >= 0 ? region.children[arc.child] : -1;
    switch (arc.takes) {
    case Takes::Whole:
      return value(child, later, false);
    case Takes::First:
      return value(child, later, true);
    case Takes::Rest:
      return value(child, later, false) - value(child, later, true);
    case Takes::TransferAndFirst:
      // A composite child ends no sooner than the output that streams into it: only executions of pieces have a first
      // output of their own here.
      return time + (latency.agent.regions[child].kind == Kind::Piece ? executionTimes(child, later).firstMs : 0);
    default:
      return time;
    }
  }

  std::vector<double> vertexTimes(const Region &region, const Network &network, bool later) {
    std::vector<double> times(network.vertices, -1.0);
    times[network.source] = 0;
    for (auto &arc : network.arcs)
      if (times[arc.from] >= 0)
        times[arc.to] = std::max(times[arc.to], times[arc.from] + arcTime(region, arc, later));
    return times;
  }

  double value(int index, bool later, bool toFirst) {
    double &known = values[index * 4 + later * 2 + toFirst];
    if (known >= 0)
      return known;
    double result = compute(index, later, toFirst);
    return values[index * 4 + later * 2 + toFirst] = result;
  }

  double compute(int index, bool later, bool toFirst) {
    const Region &region = latency.agent.regions[index];
    switch (region.kind) {
    case Kind::Piece: {
      ExecutionTime time = executionTimes(index, later);
      return largestEdge(region.entryEdges) + time.waitMs + time.firstMs + (toFirst ? 0 : time.restMs);
    }
    case Kind::Dag: {
      const Network &network = latency.network(index, toFirst);
      return vertexTimes(region, network, later)[network.sink];
    }
    case Kind::Branch: {
      if (int taken = takenAt(index); taken != -1)
        return taken < 0 ? 0 : value(region.children[taken], later, toFirst);
      double sum = 0;
      for (auto [child, probability] : llvm::zip(region.children, region.probabilities))
        sum += probability * value(child, later, toFirst);
      return sum;
    }
    case Kind::Loop: {
      auto [some, one, mean] = turnsAt(index);
      int child = region.children[0];
      double back = largestEdge(region.backEdges);
      double first = value(child, false, false), next = mean > some ? back + value(child, true, false) : 0;
      if (!toFirst)
        return some * first + (mean - some) * next;
      double several = some - one;
      return one * value(child, false, true) +
             (several > 0 ? several * (first + back + value(child, true, true)) + (mean - some - several) * next : 0);
    }
    case Kind::Map: {
      double some = turnsAt(index)[0];
      return some * value(region.children[0], later, false);
    }
    }
    return 0;
  }

  // The linear function along the longest path.
  std::map<std::pair<int, bool>, ExecutionTime> executionFactors;
  std::map<int, double> edgeFactors;

  void addEdges(const std::vector<int> &edges, double factor) {
    int which = -1;
    if (largestEdge(edges, &which) > 0)
      edgeFactors[which] += factor;
  }

  void trace(int index, bool later, bool toFirst, double factor) {
    if (factor == 0)
      return;
    const Region &region = latency.agent.regions[index];
    switch (region.kind) {
    case Kind::Piece: {
      addEdges(region.entryEdges, factor);
      ExecutionTime &factors = executionFactors[{index, later}];
      factors.waitMs += factor;
      factors.firstMs += factor;
      factors.restMs += toFirst ? 0 : factor;
      return;
    }
    case Kind::Dag: {
      const Network &network = latency.network(index, toFirst);
      std::vector<double> times = vertexTimes(region, network, later);
      for (int vertex = network.sink; vertex != network.source;) {
        const Network::Arc *critical = nullptr;
        for (auto &arc : network.arcs)
          if (arc.to == vertex && times[arc.from] >= 0 &&
              times[arc.from] + arcTime(region, arc, later) >= times[vertex] - 1e-12 * (1 + times[vertex]))
            critical = &arc;
        int child = critical->child >= 0 ? region.children[critical->child] : -1;
        if (critical->arc >= 0)
          addEdges(region.arcs[critical->arc].edges, factor);
        if (critical->takes == Takes::Whole || critical->takes == Takes::First) {
          trace(child, later, critical->takes == Takes::First, factor);
        } else if (critical->takes == Takes::Rest) {
          executionFactors[{child, later}].restMs += factor;
        } else if (critical->takes == Takes::TransferAndFirst && latency.agent.regions[child].kind == Kind::Piece) {
          executionFactors[{child, later}].firstMs += factor;
        }
        vertex = critical->from;
      }
      return;
    }
    case Kind::Branch:
      if (int taken = takenAt(index); taken != -1)
        return taken < 0 ? void() : trace(region.children[taken], later, toFirst, factor);
      for (auto [child, probability] : llvm::zip(region.children, region.probabilities))
        trace(child, later, toFirst, factor * probability);
      return;
    case Kind::Loop: {
      auto [some, one, mean] = turnsAt(index);
      int child = region.children[0];
      if (!toFirst) {
        trace(child, false, false, factor * some);
        trace(child, true, false, factor * (mean - some));
        addEdges(region.backEdges, factor * (mean - some));
        return;
      }
      double several = some - one;
      trace(child, false, true, factor * one);
      trace(child, false, false, factor * several);
      trace(child, true, true, factor * several);
      if (several > 0) {
        trace(child, true, false, factor * (mean - some - several));
        addEdges(region.backEdges, factor * (mean - some));
      }
      return;
    }
    case Kind::Map:
      trace(region.children[0], later, false, factor * turnsAt(index)[0]);
      return;
    }
  }
};

double AgentLatency::linear(Measure measure, const Scenario &scenario, ExecutionTimes executionTimes, EdgeTime edgeTime,
                            PathTerms *terms) const {
  Walk walk{*this, scenario, executionTimes, edgeTime};
  bool toFirst = measure == Measure::FirstOutput;
  double result = walk.value(agent.root, false, toFirst);
  if (terms) {
    walk.trace(agent.root, false, toFirst, 1);
    terms->executions.clear();
    for (auto &[execution, factors] : walk.executionFactors)
      terms->executions.push_back({execution.first, execution.second, factors});
    terms->edges.assign(walk.edgeFactors.begin(), walk.edgeFactors.end());
  }
  return result;
}

namespace {
/// An arc of a network while series and parallel parts are merged.
struct TimedArc {
  int from, to;
  Distribution time;
};

/// Drops arcs of a fixed time, transfers, where another way between their ends takes as long in any case. What is left
/// is more often series-parallel. As in dropImplied, what stands for an arc spans less.
void dropShorter(const Network &network, std::vector<TimedArc> &arcs) {
  std::vector<std::vector<int>> outs(network.vertices);
  for (auto [index, arc] : llvm::enumerate(arcs))
    outs[arc.from].push_back(int(index));
  std::vector<int> position(network.vertices);
  for (auto [index, vertex] : llvm::enumerate(network.order))
    position[vertex] = int(index);
  std::vector<bool> drops(arcs.size());
  std::vector<double> least(network.vertices), through(network.vertices);
  for (int from : network.order) {
    int last = -1; // in the order
    for (int arc : outs[from])
      if (arcs[arc].time.isPoint())
        last = std::max(last, position[arcs[arc].to]);
    if (outs[from].size() < 2 || last < 0)
      continue;
    // Times from here that are reached in any case: by all ways, and by those through another vertex.
    std::fill(least.begin(), least.end(), -1.0);
    std::fill(through.begin(), through.end(), -1.0);
    least[from] = 0;
    for (int at = position[from]; at <= last; ++at) {
      int vertex = network.order[at];
      if (least[vertex] < 0)
        continue;
      for (int index : outs[vertex]) {
        const TimedArc &arc = arcs[index];
        double time = least[vertex] + arc.time.minimum();
        least[arc.to] = std::max(least[arc.to], time);
        if (vertex != from)
          through[arc.to] = std::max(through[arc.to], time);
      }
    }
    for (int index : outs[from])
      drops[index] = arcs[index].time.isPoint() && through[arcs[index].to] >= arcs[index].time.minimum();
  }
  size_t kept = 0;
  for (size_t index = 0; index < arcs.size(); ++index)
    if (!drops[index])
      std::swap(arcs[kept++], arcs[index]);
  arcs.resize(kept);
}

Distribution reduceNetwork(const Network &network, std::vector<TimedArc> arcs, bool &exact) {
  dropShorter(network, arcs);
  for (bool changed = true; changed && arcs.size() > 1;) {
    changed = false;
    for (size_t i = 0; i < arcs.size(); ++i)
      for (size_t j = i + 1; j < arcs.size();)
        if (arcs[i].from == arcs[j].from && arcs[i].to == arcs[j].to) {
          arcs[i].time = arcs[i].time.maximumWith(arcs[j].time);
          arcs.erase(arcs.begin() + j);
          changed = true;
        } else {
          ++j;
        }
    std::vector<int> ins(network.vertices), outs(network.vertices);
    for (auto &arc : arcs)
      ++outs[arc.from], ++ins[arc.to];
    for (int vertex : network.order) {
      if (vertex == network.source || vertex == network.sink || ins[vertex] != 1 || outs[vertex] != 1)
        continue;
      auto in = llvm::find_if(arcs, [&](const TimedArc &arc) { return arc.to == vertex; });
      auto out = llvm::find_if(arcs, [&](const TimedArc &arc) { return arc.from == vertex; });
      in->time = in->time.plus(out->time);
      in->to = out->to;
      arcs.erase(out);
      changed = true;
    }
  }
  if (arcs.size() == 1)
    return arcs[0].time;
  bool random = false;
  std::vector<std::optional<Distribution>> times(network.vertices);
  times[network.source] = Distribution();
  for (int vertex : network.order)
    for (auto &arc : arcs)
      if (arc.to == vertex && times[arc.from]) {
        Distribution reached = times[arc.from]->plus(arc.time);
        random |= !reached.isPoint();
        times[vertex] = times[vertex] ? times[vertex]->maximumWith(reached) : reached;
      }
  exact &= !random;
  return *times[network.sink];
}
} // namespace

Distribution AgentLatency::distribution(Measure measure, ExecutionDistribution execution, EdgeTime edgeTime,
                                        bool &exact) const {
  std::map<std::tuple<int, bool, bool>, Distribution> known;
  auto largestEdge = [&](const std::vector<int> &edges) {
    double largest = 0;
    for (int edge : edges)
      largest = std::max(largest, edgeTime(edge));
    return largest;
  };
  auto compute = [&](auto &self, int index, bool later, bool toFirst) -> Distribution {
    if (auto found = known.find({index, later, toFirst}); found != known.end())
      return found->second;
    const Region &region = agent.regions[index];
    Distribution result;
    switch (region.kind) {
    case Kind::Piece:
      result = execution(index, later, toFirst ? ExecutionPart::WaitAndFirst : ExecutionPart::Whole)
                   .shifted(largestEdge(region.entryEdges));
      break;
    case Kind::Dag: {
      const Network &net = network(index, toFirst);
      std::vector<TimedArc> arcs;
      for (auto &arc : net.arcs) {
        double transfer = arc.arc >= 0 ? largestEdge(region.arcs[arc.arc].edges) : 0;
        int child = arc.child >= 0 ? region.children[arc.child] : -1;
        Distribution time = Distribution::point(transfer);
        if (arc.takes == Takes::Whole || arc.takes == Takes::First) {
          time = self(self, child, later, arc.takes == Takes::First);
        } else if (arc.takes == Takes::Rest) {
          time = execution(child, later, ExecutionPart::Rest);
        } else if (arc.takes == Takes::TransferAndFirst && agent.regions[child].kind == Kind::Piece) {
          time = execution(child, later, ExecutionPart::First).shifted(transfer);
        }
        arcs.push_back({arc.from, arc.to, std::move(time)});
      }
      result = reduceNetwork(net, std::move(arcs), exact);
      break;
    }
    case Kind::Branch: {
      std::vector<std::pair<Distribution, double>> parts;
      for (auto [child, probability] : llvm::zip(region.children, region.probabilities))
        if (probability > 0)
          parts.push_back({self(self, child, later, toFirst), probability});
      result = Distribution::mixture(parts);
      break;
    }
    case Kind::Loop: {
      int child = region.children[0];
      double back = largestEdge(region.backEdges);
      auto [some, one, mean] = turns[index];
      std::vector<std::pair<Distribution, double>> parts;
      if (some < 1)
        parts.push_back({Distribution(), 1 - some});
      if (one > 0)
        parts.push_back({self(self, child, false, toFirst), one});
      // All turns but the first and the last.
      std::vector<std::pair<int64_t, double>> between;
      for (auto [count, probability] : region.counts)
        if (count > 1 && probability > 0)
          between.push_back({count - 2, probability / (some - one)});
      if (!between.empty())
        parts.push_back({self(self, child, false, false)
                             .plus(self(self, child, true, false).shifted(back).sumOf(std::move(between)))
                             .plus(self(self, child, true, toFirst))
                             .shifted(back),
                         some - one});
      result = Distribution::mixture(parts);
      break;
    }
    case Kind::Map: {
      Distribution one = self(self, region.children[0], later, false);
      std::vector<std::pair<Distribution, double>> parts;
      for (auto [count, probability] : region.counts)
        if (probability > 0)
          parts.push_back({count ? one.maximumOf(count) : Distribution(), probability});
      result = Distribution::mixture(parts);
      break;
    }
    }
    known.emplace(std::make_tuple(index, later, toFirst), result);
    return result;
  };
  return compute(compute, agent.root, false, measure == Measure::FirstOutput);
}

Work expectedWork(const PlacementProblem &problem, const Agent &agent) {
  Work work;
  work.pieces.resize(problem.pieces.size());
  work.transfers.resize(problem.edges.size());
  auto addEdges = [&](const std::vector<int> &edges, double times) {
    for (int edge : edges)
      work.transfers[edge] += times;
  };
  // `firstShare`: the share of `times` that is in the first turn of the innermost loop.
  auto walk = [&](auto &self, int index, double times, double firstShare) -> void {
    const Region &region = agent.regions[index];
    switch (region.kind) {
    case Kind::Piece: {
      auto &piece = work.pieces[region.piece];
      double laterScale = region.timeScale * region.laterTurnScale;
      piece.executions += times;
      piece.scaled += times * (firstShare * region.timeScale + (1 - firstShare) * laterScale);
      piece.squaredScaled +=
          times * (firstShare * region.timeScale * region.timeScale + (1 - firstShare) * laterScale * laterScale);
      addEdges(region.entryEdges, times);
      return;
    }
    case Kind::Dag:
      for (auto &arc : region.arcs)
        addEdges(arc.edges, times);
      for (int child : region.children)
        self(self, child, times, firstShare);
      return;
    case Kind::Branch:
      for (auto [child, probability] : llvm::zip(region.children, region.probabilities))
        self(self, child, times * probability, firstShare);
      return;
    case Kind::Loop: {
      auto [some, one, mean] = turnsOf(region);
      addEdges(region.backEdges, times * (mean - some));
      if (mean > 0)
        self(self, region.children[0], times * mean, some / mean);
      return;
    }
    case Kind::Map:
      self(self, region.children[0], times * turnsOf(region)[2], firstShare);
      return;
    }
  };
  walk(walk, agent.root, 1, 1);
  return work;
}

} // namespace intarsia::plan
