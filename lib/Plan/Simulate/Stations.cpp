//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The path of an execution through its piece: the queue, a replica, the other executions in it, failures.
//===----------------------------------------------------------------------------------------------------------===//
#include "Simulator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace intarsia::plan {

/// Largest number of starts of one execution. Its chance to end is hardly better the next time, so a simulation could
/// go on without end.
constexpr int mostStarts = 1000;

void Simulator::addStation(size_t index) {
  const Piece &piece = problem.pieces[index];
  const Choice &choice = piece.candidates[placements[index].choice];
  double first = choice.firstOutputMs.value_or(choice.milliseconds);
  Station station{&choice, &piece, Sampler(piece.shape), first, choice.milliseconds - first};
  station.outside = choice.devicesPerReplica == 0 && !choice.executionsPerSecond;
  station.replicas = placements[index].replicas;
  if (choice.turnMs > 0)
    for (const Edge &edge : problem.edges)
      if (!edge.sameReplicas.empty() && edge.from == int(index) && station.turn == 0) {
        station.outside = false;
        station.turn = choice.turnMs;
        station.replicas = placements[edge.to].replicas;
        station.turnsFreeAt.assign(station.replicas, 0.0);
      }
  station.freeSlots = station.replicas * choice.slots;
  station.limited = std::isfinite(choice.cacheTokens);
  double alone = choice.millisecondsAlone.value_or(choice.milliseconds), sustained = sustainedPerSecond(choice);
  station.pace.assign(choice.slots + 1, 1.0);
  for (int busy = 1; busy <= choice.slots && !station.outside && station.turn == 0 && choice.milliseconds > 0; ++busy) {
    double share = choice.slots > 1 ? double(busy - 1) / (choice.slots - 1) : 1;
    // A rate limit stricter than slots and times is a longer time.
    double ms = std::max(alone + (choice.milliseconds - alone) * share, busy * 1000.0 / sustained);
    station.pace[busy] = ms / choice.milliseconds;
  }
  station.pace[0] = station.pace.back();
  bool fails = !options.deviceFailures.empty() && choice.devicesPerReplica > 0 &&
               std::isfinite(options.deviceFailures[choice.pool].hoursBetween);
  station.byReplica = !station.outside && station.turn == 0 &&
                      (station.limited || fails ||
                       llvm::any_of(station.pace, [&](double pace) { return pace != station.pace.back(); }));
  if (station.byReplica)
    for (int64_t i = 0; i < station.replicas; ++i) {
      station.members.push_back(int(replicas.size()));
      replicas.push_back({int(index)});
      replicas.back().jobs.reserve(choice.slots);
    }
  stations.push_back(std::move(station));
  if (fails)
    for (int member : stations.back().members)
      scheduleFailure(member);
}

double Simulator::tokensOf(const Station &station, const Waiting &entry) const {
  return station.piece->heldTokens + station.piece->writtenTokens * entry.drawn * scaleOf(entry.request, entry.node);
}

bool Simulator::takes(const Station &station, const Waiting &entry, int &replica) const {
  if (station.outside)
    return true;
  if (station.freeSlots == 0)
    return false;
  if (!station.byReplica)
    return true;
  replica = -1;
  double tokens = station.limited ? tokensOf(station, entry) : 0;
  for (int member : station.members) {
    const Replica &candidate = replicas[member];
    if (candidate.down || candidate.jobs.size() >= size_t(station.choice->slots) ||
        (replica >= 0 && candidate.jobs.size() >= replicas[replica].jobs.size()))
      continue;
    // An execution that fits in no replica gets one for itself.
    if (station.limited && !candidate.jobs.empty() && candidate.heldTokens + tokens > station.choice->cacheTokens)
      continue;
    replica = member;
  }
  return replica >= 0;
}

void Simulator::enter(int request, int index) {
  Station &station = stations[nodeOf(request, index).piece];
  Waiting entry{now, station.sampler.draw(random), request, index};
  station.turn > 0 ? serveInTurn(station, entry) : join(station, entry);
}

void Simulator::join(Station &station, const Waiting &entry) {
  int replica = -1;
  if (station.waiting.empty() && takes(station, entry, replica))
    serve(entry, replica);
  else
    station.waiting.push_back(entry);
}

void Simulator::serveWaiting(Station &station) {
  int replica = -1;
  while (!station.waiting.empty() && takes(station, station.waiting.front(), replica)) {
    Waiting first = station.waiting.front();
    station.waiting.pop_front();
    serve(first, replica);
  }
}

Simulator::Times Simulator::begin(Station &station, const Waiting &entry, double at) {
  const Node &node = nodeOf(entry.request, entry.node);
  const NodeState &own = state(entry.request, entry.node);
  double scale = scaleOf(entry.request, entry.node);
  ++station.executions;
  station.waitSum += at - entry.since;
  dollars += station.choice->dollarsPerExecution * scale;
  return {station.first * scale * (station.rest <= 0 ? entry.drawn : 1), station.rest * scale * entry.drawn,
          !own.gaveFirst && (node.streamsOut || (own.output && !requests[entry.request].sawFirst))};
}

double Simulator::serveAt(Station &station, const Waiting &entry, double at) {
  Times of = begin(station, entry, at);
  double pace = station.pace.back(), service = (of.first + of.rest) * pace;
  station.serviceSum += service;
  const Request &request = requests[entry.request];
  if (station.choice->tokenMs > 0 && request.counted)
    tokens[request.agent].push_back(float(station.choice->tokenMs * pace));
  if (of.asks)
    events.push(at + of.first * pace, What::First, entry.request, entry.node);
  events.push(at + service, What::Done, entry.request, entry.node);
  return service;
}

void Simulator::serveInTurn(Station &station, const Waiting &entry) {
  double &freeAt = station.turnsFreeAt[size_t(random.unit() * double(station.replicas))];
  double at = std::max(now, freeAt), turn = station.turn * scaleOf(entry.request, entry.node) * entry.drawn;
  freeAt = at + turn;
  station.busySum += turn;
  serveAt(station, entry, at);
}

void Simulator::serve(const Waiting &entry, int replicaIndex) {
  Station &station = stations[nodeOf(entry.request, entry.node).piece];
  if (!station.outside)
    --station.freeSlots;
  if (!station.byReplica) {
    station.busySum += serveAt(station, entry, now);
    return;
  }
  auto [first, rest, asks] = begin(station, entry, now);
  Replica &replica = replicas[replicaIndex];
  advance(replica);
  replica.jobs.push_back({replica.served + (asks ? first : first + rest), first + rest, now, entry.drawn,
                          asks ? rest : -1, entry.request, entry.node, entry.starts + 1});
  if (station.limited)
    replica.heldTokens += tokensOf(station, entry);
  reschedule(replicaIndex);
}

void Simulator::advance(Replica &replica) {
  if (!replica.jobs.empty()) {
    replica.served += (now - replica.touched) / pace(replica);
    stations[replica.piece].busySum += (now - replica.touched) * replica.jobs.size();
  }
  replica.touched = now;
}

void Simulator::reschedule(int index) {
  Replica &replica = replicas[index];
  ++replica.version;
  if (replica.jobs.empty()) {
    replica.served = 0;
    return;
  }
  replica.next = 0;
  for (size_t i = 1; i < replica.jobs.size(); ++i)
    if (replica.jobs[i].due < replica.jobs[replica.next].due)
      replica.next = i;
  double left = std::max(0.0, replica.jobs[replica.next].due - replica.served);
  events.push(now + left * pace(replica), What::Replica, index, replica.version);
}

/// Schedules the next event of a replica: as it slows down and speeds up, the first output comes when the work before
/// it is done.
void Simulator::nextIn(int index) {
  Replica &replica = replicas[index];
  advance(replica);
  Job &next = replica.jobs[replica.next];
  if (next.afterFirst > 0) {
    next.due += next.afterFirst;
    next.afterFirst = -1;
    int request = next.request, node = next.node;
    reschedule(index);
    return firstOutput(request, node);
  }
  Job job = next;
  next = replica.jobs.back();
  replica.jobs.pop_back();
  Station &station = stations[replica.piece];
  station.serviceSum += now - job.started;
  if (station.limited)
    replica.heldTokens -= tokensOf(station, {job.started, job.drawn, job.request, job.node});
  const Request &request = requests[job.request];
  if (station.choice->tokenMs > 0 && job.work > 0 && request.counted)
    tokens[request.agent].push_back(float(station.choice->tokenMs * (now - job.started) / job.work));
  reschedule(index);
  if (job.afterFirst == 0)
    firstOutput(job.request, job.node);
  done(job.request, job.node);
}

void Simulator::done(int request, int index) {
  Station &station = stations[nodeOf(request, index).piece];
  if (!station.outside && station.turn == 0) {
    ++station.freeSlots;
    serveWaiting(station);
  }
  finishToken(request, index);
}

//===-- Failures of devices -----------------------------------------------------------------------------------===//

void Simulator::scheduleFailure(int replica) {
  const Choice &choice = *stations[replicas[replica].piece].choice;
  double hours = options.deviceFailures[choice.pool].hoursBetween / choice.devicesPerReplica;
  events.push(now + random.exponential() * hours * millisecondsPerHour, What::Failure, replica, 0);
}

void Simulator::fail(int index) {
  Replica &replica = replicas[index];
  Station &station = stations[replica.piece];
  ++deviceFailures;
  advance(replica);
  std::vector<Job> lost;
  lost.swap(replica.jobs);
  replica.jobs.reserve(station.choice->slots);
  replica.heldTokens = 0;
  replica.down = true;
  ++replica.version;
  station.freeSlots -= station.choice->slots - int64_t(lost.size());
  double hours = options.deviceFailures[station.choice->pool].hoursToRepair;
  events.push(now + random.exponential() * hours * millisecondsPerHour, What::Repair, index, 0);
  for (const Job &job : lost) {
    ++interrupted;
    station.serviceSum += now - job.started;
    if (job.starts >= mostStarts)
      endless = llvm::formatv("piece '{0}': an execution of {1:f1} s was started {2} times and failures of devices "
                              "ended it each time; let them fail less often",
                              station.piece->name, job.work / 1000, mostStarts);
    join(station, {now, job.drawn, job.request, job.node, job.starts});
  }
}

void Simulator::repair(int index) {
  Replica &replica = replicas[index];
  Station &station = stations[replica.piece];
  replica.down = false;
  replica.touched = now;
  station.freeSlots += station.choice->slots;
  scheduleFailure(index);
  serveWaiting(station);
}

} // namespace intarsia::plan
