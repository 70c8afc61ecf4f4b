//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Figures.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace intarsia::plan {

Bill &Bill::operator+=(const Bill &other) {
  dollarsPerHour += other.dollarsPerHour, watts += other.watts, gramsPerHour += other.gramsPerHour;
  peakWatts += other.peakWatts, dollarsPerRequest += other.dollarsPerRequest;
  joulesPerRequest += other.joulesPerRequest, gramsPerRequest += other.gramsPerRequest;
  return *this;
}

Bill Bill::scaled(double factor) const {
  return {dollarsPerHour * factor,    watts * factor,
          gramsPerHour * factor,      peakWatts * factor,
          dollarsPerRequest * factor, joulesPerRequest * factor,
          gramsPerRequest * factor};
}

double Bill::of(Objective objective) const {
  switch (objective) {
  case Objective::DollarsPerRequest:
    return dollarsPerRequest;
  case Objective::DollarsPerHour:
    return dollarsPerHour;
  case Objective::JoulesPerRequest:
    return joulesPerRequest;
  case Objective::GramsPerRequest:
    return gramsPerRequest;
  case Objective::Latency:
    return 0;
  }
  return 0;
}

Figures::Figures(const PlacementProblem &problem) : problem(problem) {
  size_t pieceCount = problem.pieces.size(), poolCount = problem.pools.size();
  latencies.reserve(problem.agents.size());
  for (auto &agent : problem.agents) {
    latencies.emplace_back(agent);
    requestsPerSecond += agent.requestsPerSecond;
  }
  loads.resize(pieceCount);
  workPerRequest.resize(pieceCount);
  transfersPerRequest.resize(problem.edges.size());
  transfersPerSecond.resize(problem.edges.size());
  tokenMsLimits.assign(pieceCount, unlimited);
  std::vector<Work::OfPiece> rates(pieceCount), shares(pieceCount);
  for (auto &agent : problem.agents) {
    double weight = requestsPerSecond > 0 ? agent.requestsPerSecond / requestsPerSecond : 1.0 / problem.agents.size();
    weights.push_back(weight);
    Work work = expectedWork(problem, agent);
    for (size_t piece = 0; piece < pieceCount; ++piece) {
      auto &of = work.pieces[piece];
      rates[piece].executions += agent.requestsPerSecond * of.executions;
      rates[piece].scaled += agent.requestsPerSecond * of.scaled;
      rates[piece].squaredScaled += agent.requestsPerSecond * of.squaredScaled;
      workPerRequest[piece] += weight * of.scaled;
      if (of.executions > 0)
        tokenMsLimits[piece] = std::min(tokenMsLimits[piece], agent.level.tokenMs);
    }
    for (size_t edge = 0; edge < problem.edges.size(); ++edge) {
      transfersPerRequest[edge] += weight * work.transfers[edge];
      transfersPerSecond[edge] += agent.requestsPerSecond * work.transfers[edge];
    }
  }
  latencyWeights = weights;
  if (problem.latencyAgent >= 0)
    for (size_t agent = 0; agent < latencyWeights.size(); ++agent)
      latencyWeights[agent] = int(agent) == problem.latencyAgent;
  for (size_t piece = 0; piece < pieceCount; ++piece)
    if (rates[piece].executions > 0)
      loads[piece] = {rates[piece].executions, rates[piece].scaled / rates[piece].executions,
                      rates[piece].squaredScaled / rates[piece].executions};
  for (auto [load, piece] : llvm::zip(loads, problem.pieces))
    load.headroom = piece.pinnedReplicas ? 0 : piece.headroom;
  findHosts();
  linkOf.assign(poolCount * poolCount, -1);
  for (auto [index, link] : llvm::enumerate(problem.links))
    for (auto [from, to] : link.pairs)
      linkOf[from * poolCount + to] = int(index);
}

void Figures::findHosts() {
  for (const Piece &piece : problem.pieces)
    hosts.emplace_back(piece.candidates.size(), 0);
  for (const Edge &edge : problem.edges)
    for (int kind : edge.sameReplicas) {
      const Piece &host = problem.pieces[edge.to];
      int64_t least = 0;
      for (auto [choice, of] : llvm::zip(host.candidates, edge.toKinds))
        if (of == kind && choice.devicesPerReplica > 0) {
          int64_t replicas = host.pinnedReplicas.value_or(smallestReplicas(choice, loads[edge.to]));
          least = least ? std::min(least, replicas) : replicas;
        }
      for (auto [choice, of] : llvm::enumerate(edge.fromKinds))
        if (int64_t &known = hosts[edge.from][choice]; of == kind)
          known = known ? std::min(known, least) : least;
    }
}

Stage Figures::stage(int piece, int choice, int64_t replicas) const {
  return stage(piece, choice, problem.pieces[piece].candidates[choice], replicas);
}

Stage Figures::stage(int piece, int choice, const Choice &times, int64_t replicas) const {
  if (times.turnProbability > 0 && times.devicesPerReplica == 0)
    replicas = std::max<int64_t>(hosts[piece][choice], 1);
  return stageUnderLoad(times, problem.pieces[piece].shape, replicas, loads[piece], problem.queueing);
}

double Figures::footprint(const Choice &choice) const {
  if (choice.deviceShare < 1)
    return choice.deviceShare;
  int64_t devices = choice.devicesPerReplica, node = problem.pools[choice.pool].devicesPerNode;
  if (devices == 0)
    return 0;
  if (devices >= node)
    return double((devices + node - 1) / node * node);
  while (node % devices)
    ++devices;
  return double(devices);
}

Transfer Figures::transfer(int edgeIndex, int fromChoice, int toChoice) const {
  const Edge &edge = problem.edges[edgeIndex];
  if (!edge.fromKinds.empty()) {
    int kind = edge.fromKinds[fromChoice];
    if (kind == edge.toKinds[toChoice] && llvm::is_contained(edge.sameReplicas, kind))
      return {};
    if (kind != edge.toKinds[toChoice] && !edge.mixesKinds)
      return {0, 0, 0, -1, true};
  }
  int from = problem.pieces[edge.from].candidates[fromChoice].pool,
      to = problem.pieces[edge.to].candidates[toChoice].pool;
  int link = linkOf[from * problem.pools.size() + to];
  if (link < 0)
    return {0, 0, 0, -1, from != to};
  const Link &figures = problem.links[link];
  double gigabytes = edge.bytes * 1e-9;
  return {figures.microseconds / 1000 + gigabytes / figures.gigabytesPerSecond * 1000,
          gigabytes * figures.dollarsPerGigabyte, gigabytes * figures.joulesPerGigabyte, link, false};
}

Bill Figures::billOf(double dollarsPerHour, double watts, double gramsPerKilowattHour) const {
  Bill bill;
  double perRequest = requestsPerSecond > 0 ? 1 / requestsPerSecond : 0;
  bill.dollarsPerHour = dollarsPerHour, bill.watts = watts;
  bill.gramsPerHour = watts / 1000 * gramsPerKilowattHour;
  bill.dollarsPerRequest = dollarsPerHour / 3600 * perRequest;
  bill.joulesPerRequest = watts * perRequest;
  bill.gramsPerRequest = bill.gramsPerHour / 3600 * perRequest;
  return bill;
}

Bill Figures::bill(int piece, const Choice &choice, const Stage &stage, int64_t replicas) const {
  const Pool &pool = problem.pools[choice.pool];
  double devices = footprint(choice) * double(replicas);
  double held = !pool.paidByPart && (pool.wholeNodes || choice.deviceShare < 1) ? 0 : devices;
  double spread = pool.busyWatts - pool.idleWatts;
  double perRequest = workPerRequest[piece], perSecond = loads[piece].perSecond * loads[piece].meanScale;
  Bill bill = billOf(held * pool.dollarsPerDeviceHour + perSecond * 3600 * choice.dollarsPerExecution,
                     held * pool.idleWatts + devices * spread * stage.busyShare + perSecond * choice.joulesPerExecution,
                     pool.gramsPerKilowattHour);
  if (requestsPerSecond <= 0) {
    bill.dollarsPerRequest = perRequest * choice.dollarsPerExecution;
    bill.joulesPerRequest = perRequest * choice.joulesPerExecution;
    bill.gramsPerRequest = bill.joulesPerRequest / 3.6e6 * pool.gramsPerKilowattHour;
  }
  bill.peakWatts = held * pool.idleWatts + devices * spread + perSecond * choice.joulesPerExecution;
  return bill;
}

Bill Figures::bill(int edge, const Transfer &transfer) const {
  double perSecond = transfersPerSecond[edge];
  Bill bill = billOf(perSecond * 3600 * transfer.dollars, perSecond * transfer.joules, 0);
  if (requestsPerSecond <= 0) {
    bill.dollarsPerRequest = transfersPerRequest[edge] * transfer.dollars;
    bill.joulesPerRequest = transfersPerRequest[edge] * transfer.joules;
  }
  bill.peakWatts = bill.watts;
  return bill;
}

Bill Figures::billOfHeld(const Pool &pool, int64_t devices) const {
  if (pool.paidByPart)
    return {};
  Bill bill =
      billOf(double(devices) * pool.dollarsPerDeviceHour, double(devices) * pool.idleWatts, pool.gramsPerKilowattHour);
  bill.peakWatts = bill.watts;
  return bill;
}

} // namespace intarsia::plan
