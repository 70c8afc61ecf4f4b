//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Computes the longest paths of Latency.cpp again, with the times at which each part of a request begins and ends.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Schedule.h"
#include "Evaluate.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

namespace intarsia::plan {

using Kind = Region::Kind;

namespace {
constexpr size_t mostListed = 2000;

/// A region's run from `begin` to `end`.
struct Span {
  double begin = 0, end = 0;
  double first = 0;   ///< Piece: first output
  int execution = -1; ///< Piece: index in the schedule; -1: not listed
  std::vector<Span> parts;

  /// Dag: the child whose end is the dag's end. Child of a dag: the sibling it waits for longest (`previous`), whether
  /// only for its first output, and the streaming sibling that delays its end (`stretchedBy`).
  int last = -1, previous = -1, stretchedBy = -1;
  bool previousStreams = false;
};

class Scheduler {
public:
  Scheduler(const Figures &figures, const Placements &placements, const Agent &agent)
      : figures(figures), placements(placements), agent(agent), taken(agent.regions.size()) {
    for (auto [index, placed] : llvm::enumerate(placements))
      stages.push_back(figures.stage(int(index), placed.choice, placed.replicas));
  }

  Schedule run() {
    Span all = place(agent.root, {});
    markCritical(all);
    schedule.endMs = all.end;
    return std::move(schedule);
  }

private:
  const Figures &figures;
  const Placements &placements;
  const Agent &agent;
  std::vector<Stage> stages;
  std::vector<std::vector<int>> taken; ///< by region and case of a branch: number of times taken
  Schedule schedule;

  /// Position and time of a region's run.
  struct At {
    double sent = 0, begin = 0;
    bool later = false; ///< true for all turns but the first
    int turn = 0, copies = 1;
  };

  double largestEdge(const std::vector<int> &edges) const {
    double largest = 0;
    for (int edge : edges) {
      const Edge &between = figures.problem.edges[edge];
      largest =
          std::max(largest, figures.transfer(edge, placements[between.from].choice, placements[between.to].choice).ms);
    }
    return largest;
  }

  Span place(int index, const At &at) {
    const Region &region = agent.regions[index];
    switch (region.kind) {
    case Kind::Piece:
      return placeExecution(index, at);
    case Kind::Dag:
      return placeDag(region, at);
    case Kind::Branch:
      return around(place(region.children[nextCase(index)], at), at);
    case Kind::Loop:
      return placeLoop(region, at);
    case Kind::Map: {
      At inside = at;
      inside.copies *= int(roundedMean(region));
      return inside.copies ? around(place(region.children[0], inside), at) : Span{at.begin, at.begin};
    }
    }
    return {};
  }

  static Span around(Span part, const At &at) {
    Span span{at.begin, part.end};
    span.parts.push_back(std::move(part));
    return span;
  }

  static int64_t roundedMean(const Region &region) {
    double mean = 0;
    for (auto [count, probability] : region.counts)
      mean += count * probability;
    return std::llround(mean);
  }

  int nextCase(int index) {
    const Region &region = agent.regions[index];
    std::vector<int> &before = taken[index];
    before.resize(region.children.size());
    int runs = 1;
    for (int times : before)
      runs += times;
    int next = 0;
    auto behind = [&](int child) { return region.probabilities[child] * runs - before[child]; };
    for (int child = 1; child < int(before.size()); ++child)
      if (behind(child) > behind(next) + 1e-9)
        next = child;
    ++before[next];
    return next;
  }

  Span placeExecution(int index, const At &at) {
    const Region &region = agent.regions[index];
    ExecutionTime time = executionTimeOf(region, stages[region.piece], at.later);
    Execution execution{index, at.turn, at.copies, at.sent};
    execution.arrivedMs = at.begin + largestEdge(region.entryEdges);
    execution.servedMs = execution.arrivedMs + time.waitMs;
    execution.firstMs = execution.servedMs + time.firstMs;
    execution.endMs = execution.firstMs + time.restMs;
    Span span{at.begin, execution.endMs, execution.firstMs};
    if (schedule.executions.size() < mostListed) {
      span.execution = int(schedule.executions.size());
      schedule.executions.push_back(execution);
    } else {
      ++schedule.notListed;
    }
    return span;
  }

  Span placeDag(const Region &region, const At &at) {
    Span dag{at.begin, at.begin};
    std::vector<bool> precedes(region.children.size());
    std::vector<std::vector<const Region::Arc *>> into(region.children.size());
    for (const Region::Arc &arc : region.arcs)
      into[arc.to].push_back(&arc);
    for (auto [position, child] : llvm::enumerate(region.children)) {
      At start = at;
      Span own;
      auto streams = [&](const Region::Arc &arc) {
        return arc.streaming && agent.regions[region.children[arc.from]].kind == Kind::Piece;
      };
      for (const Region::Arc *each : into[position]) {
        const Region::Arc &arc = *each;
        precedes[arc.from] = true;
        double sent = streams(arc) ? dag.parts[arc.from].first : dag.parts[arc.from].end;
        double arrived = sent + largestEdge(arc.edges);
        if (own.previous < 0 || arrived > start.begin)
          start.sent = sent, start.begin = arrived, own.previous = arc.from, own.previousStreams = streams(arc);
      }
      int previous = own.previous;
      bool previousStreams = own.previousStreams;
      own = place(child, start);
      own.previous = previous, own.previousStreams = previousStreams;
      // As in the network of Latency.cpp, the consumer of a stream ends its own first output after the stream's end.
      const Region &inside = agent.regions[child];
      double firstMs = inside.kind == Kind::Piece ? executionTimeOf(inside, stages[inside.piece], at.later).firstMs : 0;
      for (const Region::Arc *arc : into[position])
        if (streams(*arc))
          if (double end = dag.parts[arc->from].end + largestEdge(arc->edges) + firstMs; end > own.end) {
            own.end = end, own.stretchedBy = arc->from;
            if (own.execution >= 0)
              schedule.executions[own.execution].endMs = end;
          }
      dag.parts.push_back(std::move(own));
    }
    for (auto [position, part] : llvm::enumerate(dag.parts))
      if (!precedes[position] && (dag.last < 0 || part.end > dag.end))
        dag.end = part.end, dag.last = int(position);
    return dag;
  }

  Span placeLoop(const Region &region, const At &at) {
    Span loop{at.begin, at.begin};
    double back = largestEdge(region.backEdges);
    int64_t turns = roundedMean(region);
    for (int64_t turn = 0; turn < turns; ++turn) {
      At inside = at;
      inside.turn = int(turn), inside.later = turn > 0;
      if (turn > 0)
        inside.sent = loop.end, inside.begin = loop.end + back;
      int64_t notListed = schedule.notListed;
      Span part = place(region.children[0], inside);
      loop.end = part.end;
      loop.parts.push_back(std::move(part));
      // For turns that are not listed the time of one turn is enough.
      if (notListed != schedule.notListed && turn > 0) {
        int64_t left = turns - 1 - turn;
        loop.end += double(left) * (loop.end - inside.begin + back);
        schedule.notListed += left * (schedule.notListed - notListed);
        break;
      }
    }
    return loop;
  }

  void markCritical(const Span &span) {
    if (span.execution >= 0)
      schedule.executions[span.execution].critical = true;
    if (span.last < 0) {
      for (const Span &part : span.parts)
        markCritical(part);
      return;
    }
    bool toEnd = true; // to the end of `at`, or to its first output
    for (int at = span.last; at >= 0;) {
      const Span &part = span.parts[at];
      markCritical(part);
      if (toEnd && part.stretchedBy >= 0) {
        at = part.stretchedBy;
      } else {
        toEnd = !part.previousStreams;
        at = part.previous;
      }
    }
  }
};
} // namespace

Schedule scheduleOf(const PlacementProblem &problem, const Placements &placements, int agent) {
  return Scheduler(Figures(problem), placements, problem.agents[agent]).run();
}

} // namespace intarsia::plan
