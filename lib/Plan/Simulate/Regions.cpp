//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The path of a request through its agent: branches, loops, maps, and transfers between tasks.
//===----------------------------------------------------------------------------------------------------------===//
#include "Simulator.h"

namespace intarsia::plan {

int Simulator::listOf(const std::vector<int> &edges) {
  if (edges.empty())
    return -1;
  lists.push_back(edges);
  return int(lists.size()) - 1;
}

int Simulator::compile(Program &program, const Agent &agent, int index, int parent, int position) {
  const Region &region = agent.regions[index];
  int node = int(program.nodes.size());
  program.nodes.push_back(
      {region.kind, index, region.piece, parent, position, region.timeScale, region.laterTurnScale});
  program.nodes[node].entry = listOf(region.entryEdges);
  program.nodes[node].back = listOf(region.backEdges);
  program.nodes[node].counts = region.counts;
  program.nodes[node].probabilities = region.probabilities;
  int copies = 1;
  if (region.kind == Region::Kind::Map)
    for (auto [count, probability] : region.counts)
      copies = std::max(copies, count);
  std::vector<int> children;
  for (int copy = 0; copy < copies; ++copy)
    for (int child : region.children)
      children.push_back(compile(program, agent, child, node, int(children.size())));
  for (auto &arc : region.arcs) {
    int from = children[arc.from], to = children[arc.to];
    bool streams = arc.streaming && program.nodes[from].kind == Region::Kind::Piece;
    program.nodes[from].outs.push_back({to, listOf(arc.edges), streams});
    program.nodes[from].streamsOut |= streams;
    ++program.nodes[to].needs;
    program.nodes[to].streamsIn += streams;
  }
  program.nodes[node].children = std::move(children);
  return node;
}

double Simulator::after(int list) {
  if (list < 0)
    return now;
  double last = now;
  for (int edge : lists[list]) {
    const Transfer &transfer = transfers[edge];
    dollars += transfer.dollars;
    double end = now + transfer.ms;
    if (transfer.link >= 0) {
      double begin = std::max(now, linkFreeAt[transfer.link]);
      linkFreeAt[transfer.link] = begin + occupiedMs[edge];
      linkBusy[transfer.link] += occupiedMs[edge];
      end = begin + transfer.ms;
    }
    last = std::max(last, end);
  }
  return last;
}

void Simulator::arrive(int agent) {
  bool counted = arrived >= warmup;
  if (arrived == warmup)
    measuredFrom = now;
  lastArrival = now;
  ++arrived;
  if (arrived < target) {
    if (options.arrivals.empty())
      events.push(now + random.exponential() / problem.agents[agent].requestsPerSecond * 1000, What::Arrival, agent, 0);
    else
      events.push(options.arrivals[arrived].first, What::Arrival, options.arrivals[arrived].second, 0);
  } else if (options.arrivals.empty() && arrived > target) {
    return; // another agent's next arrival, after the last request that counts
  }
  int request;
  if (free.empty()) {
    request = int(requests.size());
    requests.emplace_back();
    states.resize(states.size() + largest);
  } else {
    request = free.back();
    free.pop_back();
  }
  ++active;
  requests[request] = {now, agent, counted, false};
  NodeState &root = state(request, programs[agent].root);
  root.later = 0, root.output = 1, root.tokens = 1;
  start(request, programs[agent].root);
}

template <typename Parts> size_t Simulator::drawFrom(const Parts &probabilities) {
  double level = random.unit();
  for (size_t i = 0; i + 1 < probabilities.size(); ++i)
    if ((level -= probabilities[i]) < 0)
      return i;
  return probabilities.size() - 1;
}
int Simulator::drawCount(const std::vector<std::pair<int, double>> &counts) {
  double level = random.unit();
  for (auto [count, probability] : counts)
    if ((level -= probability) < 0)
      return count;
  return counts.back().first;
}

void Simulator::startChild(int request, int node, int child, bool output) {
  NodeState &own = state(request, child);
  own.later = state(request, node).later;
  own.output = output;
  own.tokens = 1;
  start(request, child);
}

void Simulator::start(int request, int index) {
  const Node &node = nodeOf(request, index);
  NodeState &own = state(request, index);
  switch (node.kind) {
  case Region::Kind::Piece: {
    own.gaveFirst = 0; // resets the state of the previous request in this slot
    double at = after(node.entry);
    if (at > now)
      events.push(at, What::Enter, request, index);
    else
      enter(request, index);
    return;
  }
  case Region::Kind::Dag: {
    own.pending = int(node.children.size());
    bool later = own.later, output = own.output;
    for (int child : node.children) {
      NodeState &of = state(request, child);
      of.pending = nodeOf(request, child).needs;
      of.later = later;
      of.output = output && child == node.children.back();
      of.tokens = 1 + nodeOf(request, child).streamsIn;
    }
    for (int child : node.children)
      if (nodeOf(request, child).needs == 0)
        start(request, child);
    return;
  }
  case Region::Kind::Branch:
    startChild(request, index, node.children[drawFrom(node.probabilities)], own.output);
    return;
  case Region::Kind::Loop:
    own.turns = drawCount(node.counts);
    if (own.turns == 0)
      return finishToken(request, index);
    {
      NodeState &child = state(request, node.children[0]);
      child.later = 0, child.tokens = 1;
      child.output = own.output && own.turns == 1;
    }
    return start(request, node.children[0]);
  case Region::Kind::Map: {
    int copies = drawCount(node.counts);
    own.pending = copies;
    if (copies == 0)
      return finishToken(request, index);
    for (int copy = 0; copy < copies; ++copy)
      startChild(request, index, node.children[copy], false);
    return;
  }
  }
}

void Simulator::firstOutput(int request, int index) {
  const Node &node = nodeOf(request, index);
  state(request, index).gaveFirst = 1;
  recordFirst(request, index);
  if (node.streamsOut)
    for (auto &out : node.outs)
      if (out.streaming)
        events.push(after(out.edges), What::Start, request, out.to);
}

void Simulator::recordFirst(int request, int index) {
  Request &of = requests[request];
  if (!state(request, index).output || of.sawFirst)
    return;
  of.sawFirst = true;
  if (of.counted)
    firstOutputs[of.agent].push_back(float(now - of.arrived));
}

void Simulator::finishToken(int request, int index) {
  if (--state(request, index).tokens == 0)
    finish(request, index);
}

void Simulator::finish(int request, int index) {
  const Node &node = nodeOf(request, index);
  if (node.kind == Region::Kind::Map)
    recordFirst(request, index);
  if (node.parent < 0) {
    Request &of = requests[request];
    if (of.counted)
      endToEnd[of.agent].push_back(float(now - of.arrived));
    free.push_back(request);
    --active;
    return;
  }
  NodeState &parent = state(request, node.parent);
  const Node &parentNode = nodeOf(request, node.parent);
  switch (parentNode.kind) {
  case Region::Kind::Dag:
    for (auto &out : node.outs) {
      if (!out.streaming) {
        double at = after(out.edges);
        if (at > now)
          events.push(at, What::Start, request, out.to);
        else if (--pending(request, out.to) == 0)
          start(request, out.to);
        continue;
      }
      // The last chunk goes through the consumer's own first output before it is finished.
      const Node &to = nodeOf(request, out.to);
      double chunk = to.kind == Region::Kind::Piece
                         ? stations[to.piece].first * to.scale * (state(request, out.to).later ? to.laterScale : 1)
                         : 0;
      double transfer = 0;
      if (out.edges >= 0)
        for (int edge : lists[out.edges])
          transfer = std::max(transfer, transfers[edge].ms);
      events.push(now + transfer + chunk, What::FinishToken, request, out.to);
    }
    if (--parent.pending == 0)
      finishToken(request, node.parent);
    return;
  case Region::Kind::Branch:
    return finishToken(request, node.parent);
  case Region::Kind::Loop: {
    if (--parent.turns == 0)
      return finishToken(request, node.parent);
    NodeState &own = state(request, index);
    own.later = 1, own.tokens = 1;
    own.output = parent.output && parent.turns == 1;
    double at = after(parentNode.back);
    own.pending = 1;
    events.push(at, What::Start, request, index);
    return;
  }
  case Region::Kind::Map:
    if (--parent.pending == 0)
      finishToken(request, node.parent);
    return;
  case Region::Kind::Piece:
    return;
  }
}

} // namespace intarsia::plan
