//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Simulation.h"
#include "lib/Plan/Solver/Figures.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace intarsia::plan {
namespace {

/// xoshiro256++ (Blackman and Vigna, 2019).
class Random {
public:
  explicit Random(uint64_t seed) {
    for (uint64_t &word : state) {
      uint64_t z = seed += 0x9e3779b97f4a7c15;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }
  /// In (0, 1).
  double unit() {
    auto rotate = [](uint64_t value, int by) { return (value << by) | (value >> (64 - by)); };
    uint64_t result = rotate(state[0] + state[3], 23) + state[0], shifted = state[1] << 17;
    state[2] ^= state[0], state[3] ^= state[1], state[1] ^= state[2], state[0] ^= state[3];
    state[2] ^= shifted, state[3] = rotate(state[3], 45);
    return (double(result >> 11) + 0.5) * 0x1.0p-53;
  }
  double exponential() { return -std::log(unit()); }
  double normal() { return std::sqrt(2 * exponential()) * std::cos(2 * M_PI * unit()); }

private:
  uint64_t state[4];
};

class Sampler {
public:
  explicit Sampler(const Shape &shape) : kind(shape.kind) {
    if (kind == Shape::Kind::Lognormal)
      deviation = shape.logarithmDeviation();
    if (kind == Shape::Kind::Atoms)
      atoms = shape.discretized().atoms();
  }
  double draw(Random &random) const {
    switch (kind) {
    case Shape::Kind::Deterministic:
      return 1;
    case Shape::Kind::Exponential:
      return random.exponential();
    case Shape::Kind::Lognormal:
      return std::exp(deviation * random.normal() - deviation * deviation / 2);
    case Shape::Kind::Atoms: {
      double level = random.unit();
      for (auto [value, probability] : atoms)
        if ((level -= probability) < 0)
          return value;
      return atoms.back().first;
    }
    }
    return 1;
  }

private:
  Shape::Kind kind;
  double deviation = 0;
  std::vector<std::pair<double, double>> atoms;
};

struct ArcOut {
  int to;    ///< node
  int edges; ///< list of edges, an index
  bool streaming;
};

/// A region, or a copy of one inside a map: at most one activation of it exists in a request at a time.
struct Node {
  Region::Kind kind;
  int region, piece = -1, parent = -1;
  int position = 0; ///< among the parent's children
  double scale = 1, laterScale = 1;
  int entry = -1, back = -1; ///< lists of edges
  std::vector<int> children;
  std::vector<ArcOut> outs;
  int needs = 0;     ///< arcs that must arrive before it starts
  int streamsIn = 0; ///< arcs that must end before it ends
  bool streamsOut = false;
  std::vector<std::pair<int, double>> counts;
  std::vector<double> probabilities;
};

struct Program {
  std::vector<Node> nodes;
  int root = 0;
};

enum class What : uint8_t { Arrival, Enter, First, Done, Replica, Start, FinishToken };

struct Event {
  double time;
  uint32_t sequence; ///< equal times in order of creation
  int32_t request;   ///< or agent, or replica
  int32_t node;      ///< or version
  What what;
  bool operator<(const Event &other) const {
    return time != other.time ? time < other.time : int32_t(sequence - other.sequence) < 0;
  }
};

/// A heap of degree four in one array.
class EventQueue {
public:
  bool empty() const { return heap.empty(); }
  void push(double time, What what, int request, int node) {
    Event event{time, next++, request, node, what};
    size_t at = heap.size();
    heap.push_back(event);
    while (at > 0) {
      size_t parent = (at - 1) / 4;
      if (!(event < heap[parent]))
        break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = event;
  }
  Event pop() {
    Event top = heap.front(), last = heap.back();
    heap.pop_back();
    if (!heap.empty()) {
      size_t at = 0, size = heap.size();
      for (;;) {
        size_t first = 4 * at + 1;
        if (first >= size)
          break;
        size_t least = first, end = std::min(first + 4, size);
        for (size_t child = first + 1; child < end; ++child)
          if (heap[child] < heap[least])
            least = child;
        if (!(heap[least] < last))
          break;
        heap[at] = heap[least];
        at = least;
      }
      heap[at] = last;
    }
    return top;
  }

private:
  std::vector<Event> heap;
  uint32_t next = 0;
};

/// First in, first out, in one array that grows by doubling.
class Waiting {
public:
  struct Entry {
    double since;
    int32_t request, node;
  };
  bool empty() const { return head == tail; }
  void push(Entry entry) {
    if (tail - head == entries.size()) {
      std::vector<Entry> larger(std::max<size_t>(16, entries.size() * 2));
      for (size_t i = head; i < tail; ++i)
        larger[i - head] = entries[i & (entries.size() - 1)];
      tail -= head, head = 0;
      entries.swap(larger);
    }
    entries[tail++ & (entries.size() - 1)] = entry;
  }
  Entry pop() { return entries[head++ & (entries.size() - 1)]; }

private:
  std::vector<Entry> entries;
  size_t head = 0, tail = 0;
};

struct Job {
  double remaining; ///< milliseconds at full occupancy
  double work;
  double started;
  int32_t request, node;
};

struct Replica {
  int piece;
  int version = 0;
  double touched = 0;
  std::vector<Job> jobs;
};

struct Station {
  const Choice *choice;
  Sampler sampler;
  double first, rest, alone, full;
  bool outside;  ///< a service without an end of its capacity
  bool variable; ///< its times depend on occupancy
  int slots;
  int64_t replicas, freeSlots;
  std::vector<int> members; ///< replicas (global numbers), if variable
  Waiting waiting;
  double failure = 0;
  double waitSum = 0, serviceSum = 0, busySum = 0;
  int64_t executions = 0;
  std::vector<float> tokens;
};

SimulationReport::Percentiles percentilesOf(std::vector<float> &values) {
  SimulationReport::Percentiles result;
  if (values.empty())
    return result;
  double sum = 0;
  for (float value : values)
    sum += value;
  result.mean = sum / values.size();
  std::sort(values.begin(), values.end());
  auto at = [&](double level) {
    return values[std::min(values.size() - 1, size_t(std::ceil(level * values.size())) - 1)];
  };
  result.p50 = at(0.5), result.p90 = at(0.9), result.p95 = at(0.95), result.p99 = at(0.99);
  return result;
}

class Simulator {
public:
  Simulator(const PlacementProblem &problem, const Placements &placements, const SimulationOptions &options)
      : problem(problem), placements(placements), options(options), figures(problem), random(options.seed) {
    for (auto [index, piece] : enumerate(problem.pieces)) {
      const Choice &choice = piece.menu[placements[index].choice];
      double first = choice.firstOutputMs.value_or(choice.milliseconds);
      // A stricter limit than slots and times give is a longer time.
      double full = std::max(choice.milliseconds, choice.slots * 1000.0 / sustainedPerSecond(choice));
      double alone = choice.millisecondsAlone.value_or(choice.milliseconds);
      bool outside = choice.devicesPerReplica == 0 && !choice.executionsPerSecond;
      Station station{&choice,
                      Sampler(piece.shape),
                      first,
                      choice.milliseconds - first,
                      alone,
                      full,
                      outside,
                      !outside && choice.slots > 1 && alone != full,
                      choice.slots,
                      placements[index].replicas,
                      placements[index].replicas * choice.slots,
                      {},
                      {}};
      if (station.variable)
        for (int64_t i = 0; i < station.replicas; ++i) {
          station.members.push_back(int(replicas.size()));
          replicas.push_back({int(index)});
          replicas.back().jobs.reserve(choice.slots);
        }
      stations.push_back(std::move(station));
    }
    for (auto [piece, probability] : options.failures)
      stations[piece].failure = probability;
    for (auto [index, edge] : enumerate(problem.edges)) {
      Transfer transfer = figures.transfer(int(index), placements[edge.from].choice, placements[edge.to].choice);
      transfers.push_back(transfer);
      double occupied = transfer.link < 0 ? 0 : edge.bytes * 1e-6 / problem.links[transfer.link].gigabytesPerSecond;
      occupiedMs.push_back(std::min(occupied, transfer.ms));
    }
    linkFreeAt.assign(problem.links.size(), 0.0);
    linkBusy.assign(problem.links.size(), 0.0);
    for (auto &agent : problem.agents) {
      programs.emplace_back();
      programs.back().root = compile(programs.back(), agent, agent.root, -1, 0);
      largest = std::max(largest, programs.back().nodes.size());
    }
    endToEnd.resize(problem.agents.size());
    firstOutputs.resize(problem.agents.size());
  }

  SimulationReport run() {
    if (options.arrivals.empty()) {
      for (auto [agent, of] : enumerate(problem.agents))
        if (of.requestsPerSecond > 0)
          events.push(random.exponential() / of.requestsPerSecond * 1000, What::Arrival, int(agent), 0);
    } else {
      events.push(options.arrivals[0].first, What::Arrival, options.arrivals[0].second, 0);
    }
    target = options.arrivals.empty() ? options.requests : int64_t(options.arrivals.size());
    warmup = target / 10;
    int64_t count = 0;
    while (!events.empty()) {
      Event event = events.pop();
      now = event.time;
      ++count;
      switch (event.what) {
      case What::Arrival:
        arrive(event.request);
        break;
      case What::Enter:
        enter(event.request, event.node);
        break;
      case What::First:
        firstOutput(event.request, event.node);
        break;
      case What::Done:
        done(event.request, event.node);
        break;
      case What::Replica:
        if (replicas[event.request].version == event.node)
          completeIn(event.request);
        break;
      case What::Start:
        if (--pending(event.request, event.node) == 0)
          start(event.request, event.node);
        break;
      case What::FinishToken:
        finishToken(event.request, event.node);
        break;
      }
    }
    SimulationReport report;
    report.events = count;
    double measured = lastArrival - measuredFrom;
    report.simulatedSeconds = now / 1000;
    report.requestsPerSecond = measured > 0 ? (target - warmup) / measured * 1000 : 0;
    for (auto [index, agent] : enumerate(problem.agents)) {
      SimulationReport::OfAgent of;
      of.requests = int64_t(endToEnd[index].size());
      of.endToEndMs = percentilesOf(endToEnd[index]);
      of.firstOutputMs = percentilesOf(firstOutputs[index]);
      of.atLevel = of.endToEndMs.mean;
      if (agent.level.percentile && !endToEnd[index].empty())
        of.atLevel = endToEnd[index][std::min(endToEnd[index].size() - 1,
                                              size_t(*agent.level.percentile * endToEnd[index].size()))];
      report.agents.push_back(of);
    }
    for (auto &station : stations) {
      SimulationReport::OfPiece of;
      of.executions = station.executions;
      if (station.executions) {
        of.meanWaitMs = station.waitSum / station.executions;
        of.meanServiceMs = station.serviceSum / station.executions;
      }
      if (!station.outside)
        of.utilization = station.busySum / (now * station.replicas * station.slots);
      of.tokenMs = percentilesOf(station.tokens);
      report.pieces.push_back(of);
    }
    for (double busy : linkBusy)
      report.linkUtilization.push_back(busy / now);
    Evaluation evaluation = evaluate(problem, placements);
    report.dollarsPerHour = evaluation.dollarsPerHour;
    report.dollarsPerRequest =
        report.requestsPerSecond > 0 ? evaluation.dollarsPerHour / 3600 / report.requestsPerSecond : 0;
    return report;
  }

private:
  int listOf(const std::vector<int> &edges) {
    if (edges.empty())
      return -1;
    lists.push_back(edges);
    return int(lists.size()) - 1;
  }

  int compile(Program &program, const Agent &agent, int index, int parent, int position) {
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
      bool streams = arc.streaming && program.nodes[from].kind == Region::Kind::Leaf;
      program.nodes[from].outs.push_back({to, listOf(arc.edges), streams});
      program.nodes[from].streamsOut |= streams;
      ++program.nodes[to].needs;
      program.nodes[to].streamsIn += streams;
    }
    program.nodes[node].children = std::move(children);
    return node;
  }

  // State of a request: agent and arrival, and for each node a counter, tokens until its end, and flags.
  struct Request {
    double arrived;
    int agent;
    bool counted, sawFirst;
  };
  struct NodeState {
    int32_t pending, tokens, turns;
    uint8_t later, output;
  };
  NodeState &state(int request, int node) { return states[size_t(request) * largest + node]; }
  int32_t &pending(int request, int node) { return state(request, node).pending; }
  const Node &nodeOf(int request, int node) const { return programs[requests[request].agent].nodes[node]; }

  double after(int list) {
    if (list < 0)
      return now;
    double last = now;
    for (int edge : lists[list]) {
      const Transfer &transfer = transfers[edge];
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

  void arrive(int agent) {
    bool counted = arrived >= warmup;
    if (arrived == warmup)
      measuredFrom = now;
    lastArrival = now;
    ++arrived;
    if (arrived < target) {
      if (options.arrivals.empty())
        events.push(now + random.exponential() / problem.agents[agent].requestsPerSecond * 1000, What::Arrival, agent,
                    0);
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
    requests[request] = {now, agent, counted, false};
    NodeState &root = state(request, programs[agent].root);
    root.later = 0, root.output = 1, root.tokens = 1;
    start(request, programs[agent].root);
  }

  template <typename Parts> size_t drawFrom(const Parts &probabilities) {
    double level = random.unit();
    for (size_t i = 0; i + 1 < probabilities.size(); ++i)
      if ((level -= probabilities[i]) < 0)
        return i;
    return probabilities.size() - 1;
  }
  int drawCount(const std::vector<std::pair<int, double>> &counts) {
    double level = random.unit();
    for (auto [count, probability] : counts)
      if ((level -= probability) < 0)
        return count;
    return counts.back().first;
  }

  void startChild(int request, int node, int child, bool output) {
    NodeState &own = state(request, child);
    own.later = state(request, node).later;
    own.output = output;
    own.tokens = 1;
    start(request, child);
  }

  void start(int request, int index) {
    const Node &node = nodeOf(request, index);
    NodeState &own = state(request, index);
    switch (node.kind) {
    case Region::Kind::Leaf: {
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

  void enter(int request, int index) {
    Station &station = stations[nodeOf(request, index).piece];
    if (!station.outside && station.freeSlots == 0)
      return station.waiting.push({now, request, index});
    serve(request, index, now);
  }

  void serve(int request, int index, double since) {
    const Node &node = nodeOf(request, index);
    Station &station = stations[node.piece];
    NodeState &own = state(request, index);
    double scale = node.scale * (own.later ? node.laterScale : 1), drawn = station.sampler.draw(random);
    double first = station.first * scale, rest = station.rest * scale * drawn;
    if (station.rest <= 0)
      first *= drawn;
    bool asks = node.streamsOut || (own.output && !requests[request].sawFirst);
    ++station.executions;
    station.waitSum += now - since;
    if (!station.outside)
      --station.freeSlots;
    if (!station.variable) {
      double stretch =
          station.outside || station.choice->milliseconds <= 0 ? 1 : station.full / station.choice->milliseconds;
      double service = (first + rest) * stretch;
      station.serviceSum += service;
      station.busySum += service;
      if (station.choice->tokenMs > 0 && requests[request].counted)
        station.tokens.push_back(float(station.choice->tokenMs));
      if (asks)
        events.push(now + first * stretch, What::First, request, index);
      events.push(now + service, What::Done, request, index);
      return;
    }
    int best = station.members[0];
    for (int member : station.members)
      if (replicas[member].jobs.size() < replicas[best].jobs.size())
        best = member;
    Replica &replica = replicas[best];
    advance(replica);
    replica.jobs.push_back({first + rest, first + rest, now, request, index});
    if (asks)
      events.push(now + first * pace(replica), What::First, request, index);
    reschedule(best);
  }

  /// Milliseconds that a millisecond of work at full occupancy takes now.
  double pace(const Replica &replica) const {
    const Station &station = stations[replica.piece];
    double occupancy = double(replica.jobs.size());
    double ms = station.alone + (station.full - station.alone) * (occupancy - 1) / (station.slots - 1);
    return ms / station.choice->milliseconds;
  }
  void advance(Replica &replica) {
    if (!replica.jobs.empty()) {
      double passed = (now - replica.touched) / pace(replica);
      for (Job &job : replica.jobs)
        job.remaining -= passed;
      stations[replica.piece].busySum += (now - replica.touched) * replica.jobs.size();
    }
    replica.touched = now;
  }
  void reschedule(int index) {
    Replica &replica = replicas[index];
    ++replica.version;
    if (replica.jobs.empty())
      return;
    double least = replica.jobs[0].remaining;
    for (Job &job : replica.jobs)
      least = std::min(least, job.remaining);
    events.push(now + std::max(0.0, least) * pace(replica), What::Replica, index, replica.version);
  }
  void completeIn(int index) {
    Replica &replica = replicas[index];
    advance(replica);
    size_t ended = 0;
    for (size_t i = 1; i < replica.jobs.size(); ++i)
      if (replica.jobs[i].remaining < replica.jobs[ended].remaining)
        ended = i;
    Job job = replica.jobs[ended];
    replica.jobs[ended] = replica.jobs.back();
    replica.jobs.pop_back();
    Station &station = stations[replica.piece];
    station.serviceSum += now - job.started;
    if (station.choice->tokenMs > 0 && job.work > 0 && requests[job.request].counted)
      station.tokens.push_back(float(station.choice->tokenMs * (now - job.started) / job.work));
    reschedule(index);
    done(job.request, job.node);
  }

  void firstOutput(int request, int index) {
    const Node &node = nodeOf(request, index);
    recordFirst(request, index);
    if (node.streamsOut)
      for (auto &out : node.outs)
        if (out.streaming)
          events.push(after(out.edges), What::Start, request, out.to);
  }

  void recordFirst(int request, int index) {
    Request &of = requests[request];
    if (!state(request, index).output || of.sawFirst)
      return;
    of.sawFirst = true;
    if (of.counted)
      firstOutputs[of.agent].push_back(float(now - of.arrived));
  }

  void done(int request, int index) {
    Station &station = stations[nodeOf(request, index).piece];
    if (!station.outside) {
      ++station.freeSlots;
      if (!station.waiting.empty()) {
        auto next = station.waiting.pop();
        serve(next.request, next.node, next.since);
      }
    }
    if (station.failure > 0 && random.unit() < station.failure)
      return enter(request, index);
    finishToken(request, index);
  }

  void finishToken(int request, int index) {
    if (--state(request, index).tokens == 0)
      finish(request, index);
  }

  void finish(int request, int index) {
    const Node &node = nodeOf(request, index);
    if (node.kind == Region::Kind::Map)
      recordFirst(request, index);
    if (node.parent < 0) {
      Request &of = requests[request];
      if (of.counted)
        endToEnd[of.agent].push_back(float(now - of.arrived));
      free.push_back(request);
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
        // The last chunk has the consumer's own first step before it is through.
        const Node &to = nodeOf(request, out.to);
        double chunk = to.kind == Region::Kind::Leaf
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
    case Region::Kind::Leaf:
      return;
    }
  }

  const PlacementProblem &problem;
  const Placements &placements;
  const SimulationOptions &options;
  Figures figures;
  Random random;
  EventQueue events;
  double now = 0, measuredFrom = 0, lastArrival = 0;
  std::vector<Station> stations;
  std::vector<Replica> replicas;
  std::vector<Transfer> transfers;
  std::vector<double> occupiedMs, linkFreeAt, linkBusy;
  std::vector<std::vector<int>> lists;
  std::vector<Program> programs;
  size_t largest = 0;
  std::vector<Request> requests;
  std::vector<NodeState> states;
  std::vector<int> free;
  std::vector<std::vector<float>> endToEnd, firstOutputs;
  int64_t arrived = 0, target = 0, warmup = 0;
};
} // namespace

Expected<SimulationReport> simulate(const PlacementProblem &problem, const Placements &placements,
                                    const SimulationOptions &options) {
  if (Error error = problem.validate())
    return std::move(error);
  if (placements.size() != problem.pieces.size())
    return createStringError(
        formatv("the plan places {0} pieces, the problem has {1}", placements.size(), problem.pieces.size()));
  Figures figures(problem);
  for (auto [index, piece] : enumerate(problem.pieces)) {
    auto [choice, replicas] = placements[index];
    if (choice < 0 || choice >= int(piece.menu.size()))
      return createStringError(
          formatv("the plan places '{0}' by choice {1}, its menu has {2}", piece.name, choice, piece.menu.size()));
    if (options.arrivals.empty() && replicas < smallestReplicas(piece.menu[choice], figures.loads[index]))
      return createStringError(formatv("piece '{0}': {1} replicas do not sustain its load; {2} do", piece.name,
                                       replicas, smallestReplicas(piece.menu[choice], figures.loads[index])));
  }
  for (auto [index, edge] : enumerate(problem.edges))
    if (figures.transfer(int(index), placements[edge.from].choice, placements[edge.to].choice).forbidden)
      return createStringError(formatv("edge '{0}': no way between the placements of its ends", edge.name));
  if (options.arrivals.empty() && figures.requestsPerSecond <= 0)
    return createStringError("no agent has requests per second: give rates or recorded arrivals");
  if (options.requests < 1)
    return createStringError("a simulation of no request");
  double before = 0;
  for (auto [time, agent] : options.arrivals) {
    if (!(time >= before) || !std::isfinite(time))
      return createStringError(formatv("recorded arrivals are not in order: {0} ms after {1} ms", time, before));
    if (agent < 0 || agent >= int(problem.agents.size()))
      return createStringError(
          formatv("a recorded arrival is of agent {0}, there are {1}", agent, problem.agents.size()));
    before = time;
  }
  for (auto [piece, probability] : options.failures)
    if (piece < 0 || piece >= int(problem.pieces.size()) || !(probability >= 0 && probability < 1))
      return createStringError(
          formatv("failures of piece {0} with probability {1}: pieces are 0 to {2}, probabilities from 0 "
                  "to below 1",
                  piece, probability, problem.pieces.size() - 1));
  return Simulator(problem, placements, options).run();
}

} // namespace intarsia::plan
