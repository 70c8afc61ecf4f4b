//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Flows between pieces, the links that carry them, and the order in which an agent runs the pieces.
//===----------------------------------------------------------------------------------------------------------===//
#include "ProblemBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Networks between requests and tools are not in the fleet; their time is part of the tool's own latency.
constexpr double outsideGBps = 1e6;

//===----------------------------------------------------------------------------------------------------------===//
// Links and edges
//===----------------------------------------------------------------------------------------------------------===//

void ProblemBuilder::addLinks() {
  std::map<std::string, int> wires;
  for (const FleetLink &from : fleet.links) {
    auto add = [&](std::vector<std::pair<int, int>> pairs, const std::string &suffix) {
      Link link;
      link.name = fleet.pools[from.from].name + " to " + fleet.pools[from.to].name + suffix;
      link.pairs = std::move(pairs);
      link.gigabytesPerSecond = from.gigabytesPerSecond;
      link.microseconds = from.microseconds;
      link.dollarsPerGigabyte = from.dollarsPerGigabyte;
      result.problem.links.push_back(std::move(link));
    };
    std::vector<std::pair<int, int>> pairs{{from.from, from.to}};
    if (!from.oneWay && from.from != from.to)
      pairs.push_back({from.to, from.from});
    if (from.shared.empty()) {
      for (auto [position, pair] : llvm::enumerate(pairs))
        add({pair}, position ? " (back)" : "");
      continue;
    }
    auto [wire, inserted] = wires.try_emplace(from.shared, result.problem.links.size());
    if (inserted) {
      add(pairs, "");
      result.problem.links.back().name = from.shared;
    } else {
      Link &known = result.problem.links[wire->second];
      known.pairs.insert(known.pairs.end(), pairs.begin(), pairs.end());
      known.microseconds = std::max(known.microseconds, from.microseconds);
      known.gigabytesPerSecond = std::min(known.gigabytesPerSecond, from.gigabytesPerSecond);
    }
  }
  int pools = int(result.problem.pools.size());
  if (size_t(pools) == result.fleetPools)
    return;
  Link link;
  link.name = "outside";
  link.gigabytesPerSecond = outsideGBps;
  for (int a = 0; a < pools; ++a)
    for (int b = 0; b < pools; ++b)
      if (a != b && std::max(a, b) >= int(result.fleetPools))
        link.pairs.push_back({a, b});
  result.problem.links.push_back(std::move(link));
}

double ProblemBuilder::bytesOf(const wf::Graph &graph, const wf::Edge &edge) {
  if (edge.bytes && edge.flow != wf::Flow::Cache)
    return *edge.bytes;
  double amount = edge.amount.amount.mean();
  const wf::Task &consumer = graph.tasks[edge.to];
  int model = consumer.model >= 0 ? consumer.model : graph.tasks[edge.from].model;
  bool hasShape =
      model >= 0 && (!graph.models[model].shape.empty() || result.derivedShapes.count(graph.models[model].name));
  if (hasShape) {
    // The candidates exist, so the shape is known. Features are vectors of the consumer's width.
    const ModelShape &shape = *llvm::cantFail(modelShapeOf(graph.models[model]));
    if (edge.flow == wf::Flow::Cache)
      return shape.cachedElements(amount) * intarsia::bytesOf(llvm::cantFail(cacheOf(graph.models[model]))) +
             shape.stateBytes();
    return amount * shape.hidden * bytesOf16;
  }
  notes.insert("what flows from '" + graph.tasks[edge.from].name + "' to '" + consumer.name +
               "' has no size in bytes and is taken as none");
  return 0;
}

double ProblemBuilder::valuesTogether(const wf::Graph &graph, ArrayRef<int> regionOfTask, const wf::Edge &edge) {
  std::set<int> aroundConsumer;
  for (int region = regionOfTask[edge.to]; region >= 0; region = graph.regions[region].parent)
    aroundConsumer.insert(region);
  double values = 1;
  for (int inner = regionOfTask[edge.from]; !aroundConsumer.count(graph.regions[inner].parent);) {
    int outer = graph.regions[inner].parent;
    const wf::Region &region = graph.regions[outer];
    if (region.kind == wf::Region::Kind::Branch) {
      values *= region.probabilities[llvm::find(region.children, inner) - region.children.begin()];
    } else if (region.kind == wf::Region::Kind::Loop || region.kind == wf::Region::Kind::Map) {
      double runs = 0;
      for (auto [count, probability] : region.counts)
        runs += double(count) * probability;
      values *= runs;
    }
    inner = outer;
  }
  return std::max(1.0, values);
}

void ProblemBuilder::keepKinds(Edge &flow) const {
  std::map<std::pair<int, std::string>, int> known; // of aggregates each is a kind, of all others each precision
  auto kindsOf = [&](int piece) {
    std::vector<int> kinds;
    for (const ChoiceMeaning &meaning : result.meanings[piece])
      kinds.push_back(
          known.try_emplace({meaning.aggregate, meaning.aggregate ? "" : meaning.precision}, int(known.size()))
              .first->second);
    return kinds;
  };
  std::vector<int> from = kindsOf(flow.from), to = kindsOf(flow.to);
  // Kinds stay empty if all choices match: kinds that distinguish choices keep the solver from pruning.
  if (known.size() == 1 && known.begin()->first.first == 0)
    return;
  flow.fromKinds = std::move(from), flow.toKinds = std::move(to);
  for (auto &[what, kind] : known)
    if (what.first)
      flow.sameReplicas.push_back(kind);
}

//===----------------------------------------------------------------------------------------------------------===//
// Agents
//===----------------------------------------------------------------------------------------------------------===//

int ProblemBuilder::nothing() {
  if (nothingPiece < 0) {
    Piece piece;
    piece.name = "nothing";
    Candidates candidates;
    Choice choice;
    choice.pool = outside();
    choice.milliseconds = 1e-6;
    ChoiceMeaning meaning;
    meaning.outside = true;
    candidates.add(choice, meaning, "outside");
    piece.candidates = candidates.choices;
    nothingPiece = int(result.problem.pieces.size());
    result.problem.pieces.push_back(piece);
    result.works.emplace_back();
    result.meanings.push_back(candidates.meanings);
  }
  return nothingPiece;
}

void ProblemBuilder::addAgent(size_t index) {
  const wf::Graph &graph = graphs[index];
  Agent agent;
  agent.name = graph.name;
  agent.requestsPerSecond = graph.sla.requestsPerSecond;
  agent.level = {graph.sla.latencyMs, graph.sla.ttftMs, graph.sla.tbtMs, graph.sla.percentile};
  agent.root = graph.root;
  std::vector<int> edgeOf(graph.edges.size(), -1), regionOfTask(graph.tasks.size());
  for (auto [position, region] : llvm::enumerate(graph.regions))
    if (region.kind == wf::Region::Kind::Task)
      regionOfTask[region.task] = int(position);
  // Flows between the same pieces, of as many bytes, cost the same in every plan. One stands for all: where each task
  // reads the texts of all before it, there are as many as pairs of tasks.
  std::map<std::tuple<int, int, wf::Flow, double>, std::pair<int, int>> alike; // to the edge, and how many
  for (auto [position, edge] : llvm::enumerate(graph.edges)) {
    if (edge.from < 0 || edge.to < 0)
      continue;
    const wf::Task &from = graph.tasks[edge.from], &to = graph.tasks[edge.to];
    Edge flow;
    flow.from = result.pieceOfTask[index][edge.from];
    flow.to = result.pieceOfTask[index][edge.to];
    flow.bytes = bytesOf(graph, edge) * (edge.loop < 0 ? valuesTogether(graph, regionOfTask, edge) : 1);
    auto [known, inserted] =
        alike.try_emplace({flow.from, flow.to, edge.flow, flow.bytes}, int(result.problem.edges.size()), 0);
    edgeOf[position] = known->second.first;
    ++known->second.second;
    if (!inserted)
      continue;
    flow.name = formatv("{0} from '{1}' to '{2}'", wf::nameOf(edge.flow), from.name, to.name);
    if (edge.flow == wf::Flow::Cache)
      keepKinds(flow);
    result.problem.edges.push_back(std::move(flow));
  }
  for (auto [edge, count] : llvm::make_second_range(alike))
    if (count > 1)
      result.problem.edges[edge].name += formatv(", and {0} like it", count - 1);
  auto mapped = [&](const std::vector<int> &edges) {
    std::vector<int> known;
    for (int edge : edges)
      if (edgeOf[edge] >= 0)
        known.push_back(edgeOf[edge]);
    return known;
  };
  agent.regions.resize(graph.regions.size());
  for (auto [position, from] : llvm::enumerate(graph.regions)) {
    Region region;
    region.kind = Region::Kind(int(from.kind));
    region.children = from.children;
    region.entryEdges = mapped(from.entryEdges);
    region.backEdges = mapped(from.backEdges);
    region.probabilities = from.probabilities;
    for (const wf::Region::Arc &arc : from.arcs)
      region.arcs.push_back({arc.from, arc.to, mapped(arc.edges), arc.streaming});
    for (auto [count, probability] : from.counts)
      region.counts.push_back({int(std::min<int64_t>(count, 100000)), probability});
    if (from.kind == wf::Region::Kind::Task) {
      auto [group, member] = memberOf[{int(index), from.task}];
      region.piece = groups[group].piece;
      region.timeScale = groups[group].members[member].scale;
      region.laterTurnScale = groups[group].members[member].laterScale;
    }
    agent.regions[position] = std::move(region);
  }
  for (size_t position = 0; position < graph.regions.size(); ++position) {
    const wf::Region &from = graph.regions[position];
    if (from.kind == wf::Region::Kind::Dag && from.children.empty()) {
      agent.regions[position].children = {int(agent.regions.size())};
      agent.regions.push_back(Region::execution(nothing()));
    }
    if (from.kind == wf::Region::Kind::Map && from.concurrency)
      inRounds(agent, int(position), *from.concurrency);
  }
  result.problem.agents.push_back(std::move(agent));
}

void ProblemBuilder::inRounds(Agent &agent, int map, int64_t most) {
  std::map<int, double> rounds;
  bool needed = false;
  for (auto [count, probability] : agent.regions[map].counts) {
    rounds[int((count + most - 1) / most)] += probability;
    needed |= count > most;
  }
  if (!needed)
    return;
  Region inner = agent.regions[map];
  inner.counts = {{int(most), 1.0}};
  Region &outer = agent.regions[map];
  outer.kind = Region::Kind::Loop;
  outer.children = {int(agent.regions.size())};
  outer.counts.assign(rounds.begin(), rounds.end());
  agent.regions.push_back(std::move(inner));
}

} // namespace intarsia::plan
