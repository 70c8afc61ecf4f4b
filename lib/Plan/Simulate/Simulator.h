//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The simulation: its state, and the effect of each event. Regions.cpp has the path of a request through its agent,
// Stations.cpp that of an execution through the replicas of its piece.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_SIMULATE_SIMULATOR_H
#define INTARSIA_PLAN_SIMULATE_SIMULATOR_H

#include "Events.h"
#include "Random.h"
#include "intarsia/Plan/Simulation.h"
#include "lib/Plan/Solver/Figures.h"
#include <deque>

namespace intarsia::plan {

constexpr double millisecondsPerHour = 3.6e6;

struct ArcOut {
  int to;    ///< node
  int edges; ///< index of a list of edges
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
  int needs = 0;     ///< number of arcs that must arrive before it starts
  int streamsIn = 0; ///< number of arcs that must end before it ends
  bool streamsOut = false;
  std::vector<std::pair<int, double>> counts;
  std::vector<double> probabilities;
};

struct Program {
  std::vector<Node> nodes;
  int root = 0;
};

/// An execution in a replica.
struct Job {
  double due; ///< value of its replica's `served` at its first output, or at its end
  double work;
  double started;
  double drawn;
  double afterFirst; ///< time that remains after the first output; negative: no first output is due
  int32_t request, node;
  int32_t starts; ///< number of starts, including this one
};

struct Replica {
  int piece;
  int version = 0; ///< version of the next event for one of its jobs; older events are void
  bool down = false;
  size_t next = 0; ///< index of the job of this event
  double touched = 0;
  double served = 0; ///< milliseconds at the chosen candidate's pace, for each job present the whole time
  double heldTokens = 0;
  std::vector<Job> jobs;
};

/// A piece.
struct Station {
  const Choice *choice;
  const Piece *piece;
  Sampler sampler;
  double first, rest;
  /// Milliseconds that a millisecond of the candidate takes, by the number of executions in a replica.
  std::vector<double> pace;
  bool outside;    ///< a service of unlimited capacity
  bool byReplica;  ///< replicas are simulated one by one: their pace, their cache or their failures matter
  bool limited;    ///< limited by the capacity of caches
  double turn = 0; ///< in the replicas of another piece: time for which an execution keeps the next one waiting
  std::vector<double> turnsFreeAt; ///< by these replicas: when the next one may start
  int64_t replicas, freeSlots;
  std::vector<int> members;    ///< global numbers of the replicas, if they are simulated
  std::deque<Waiting> waiting; ///< first in, first out
  double waitSum = 0, serviceSum = 0, busySum = 0;
  int64_t executions = 0;
};

class Simulator {
public:
  Simulator(const PlacementProblem &problem, const Placements &placements, const SimulationOptions &options);
  llvm::Expected<SimulationReport> run();

private:
  struct Request {
    double arrived;
    int agent;
    bool counted, sawFirst;
  };
  /// State of a node in a request.
  struct NodeState {
    int32_t pending, tokens, turns;
    uint8_t later, output, gaveFirst;
  };

  // Regions.cpp
  int listOf(const std::vector<int> &edges);
  int compile(Program &program, const Agent &agent, int index, int parent, int position);
  void arrive(int agent);
  double after(int list);
  template <typename Parts> size_t drawFrom(const Parts &probabilities);
  int drawCount(const std::vector<std::pair<int, double>> &counts);
  void startChild(int request, int node, int child, bool output);
  void start(int request, int index);
  void firstOutput(int request, int index);
  void recordFirst(int request, int index);
  void finishToken(int request, int index);
  void finish(int request, int index);

  // Stations.cpp
  void addStation(size_t index);
  void enter(int request, int index);
  void join(Station &station, const Waiting &entry);
  /// Returns true if a replica takes the execution now; `replica` is its number, if replicas are simulated.
  bool takes(const Station &station, const Waiting &entry, int &replica) const;
  double tokensOf(const Station &station, const Waiting &entry) const;
  /// Serves an execution, in a replica if these are simulated.
  void serve(const Waiting &entry, int replica);
  /// Serves an execution in the replicas of another piece, once those before it in its replica have had their turns.
  void serveInTurn(Station &station, const Waiting &entry);
  /// Times of an execution, and whether its first output is asked for.
  struct Times {
    double first, rest;
    bool asks;
  };
  /// Counts an execution that begins then.
  Times begin(Station &station, const Waiting &entry, double at);
  /// Plans the events of an execution that begins then and that no other slows down; returns its time.
  double serveAt(Station &station, const Waiting &entry, double at);
  void serveWaiting(Station &station);
  double pace(const Replica &replica) const { return stations[replica.piece].pace[replica.jobs.size()]; }
  void advance(Replica &replica);
  void reschedule(int index);
  void nextIn(int index);
  void done(int request, int index);
  void scheduleFailure(int replica);
  void fail(int replica);
  void repair(int replica);

  void tellOf(SimulationReport &report);
  double devicesPerHour() const;
  void dispatch(const Event &event);
  NodeState &state(int request, int node) { return states[size_t(request) * largest + node]; }
  int32_t &pending(int request, int node) { return state(request, node).pending; }
  const Node &nodeOf(int request, int node) const { return programs[requests[request].agent].nodes[node]; }
  double scaleOf(int request, int node) const {
    const Node &of = nodeOf(request, node);
    return of.scale * (states[size_t(request) * largest + node].later ? of.laterScale : 1);
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
  /// States of nodes, for each request as many as the largest agent has nodes.
  std::vector<NodeState> states;
  std::vector<int> free;
  std::vector<std::vector<float>> endToEnd, firstOutputs, tokens; ///< by agent
  int64_t arrived = 0, target = 0, warmup = 0, active = 0;
  int64_t deviceFailures = 0, interrupted = 0;
  double dollars = 0;  ///< cost of executions and transfers
  std::string endless; ///< message about an endless execution, if there is one
};

} // namespace intarsia::plan

#endif
