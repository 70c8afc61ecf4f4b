//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Builds the placement problem: pools with prices, pieces with their candidates, edges with bytes and regions with
// scales.
//===----------------------------------------------------------------------------------------------------------===//
#include "ProblemBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Idle power as a share of the data sheet's power. No vendor publishes it; an assumption, listed as such.
constexpr double idleShareOfWatts = 0.15;

Expected<BuiltProblem> ProblemBuilder::run() {
  result.problem.objective = options.objective;
  result.problem.wattsCap = fleet.wattsCap;
  anyRate = llvm::any_of(graphs, [](const wf::Graph &graph) { return graph.sla.requestsPerSecond > 0; });
  if (fleet.pools.empty())
    return createStringError("fleet.system @" + fleet.name + " is empty: add a fleet.pool");
  if (options.efficiency)
    unsure.insert("times: by the figures of '" + options.efficiency->file + "', not by measured ones");
  if (Error error = addPools())
    return std::move(error);
  if (Error error = deriveShapes())
    return std::move(error);
  groupTasks();
  for (Group &group : groups)
    if (Error error = addPiece(group))
      return std::move(error);
  dropPrecisions();
  addLinks();
  for (size_t graph = 0; graph < graphs.size(); ++graph)
    addAgent(graph);
  addGroups();
  if (Error error = result.problem.validate())
    return std::move(error);
  result.unsure.assign(unsure.begin(), unsure.end());
  result.notes.assign(notes.begin(), notes.end());
  return std::move(result);
}

//===----------------------------------------------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------------------------------------------===//

Error ProblemBuilder::addPools() {
  if (options.objective == Objective::GramsPerRequest && !fleet.gramsPerKilowattHour)
    return createStringError(
        "fleet.system @" + fleet.name +
        " has no 'grams_per_kilowatt_hour', without which no plan is better in carbon dioxide than "
        "another: write fleet.system @" +
        fleet.name + " attributes {grams_per_kilowatt_hour = …}, or ask for --objective=energy");
  std::vector<std::string> empty; // pools of which availability leaves no whole device
  for (const FleetPool &from : fleet.pools) {
    Pool pool;
    pool.name = from.name;
    pool.device = from.device.name;
    pool.target = from.device.target;
    pool.devices = int64_t(std::floor(from.count * from.availability + 1e-9));
    if (pool.devices == 0)
      empty.push_back(
          formatv("pool @{0}: 'availability' {1:F3} of 'count' {2} is no whole device; leave 'availability' "
                  "out, or count more devices",
                  from.name, from.availability, from.count));
    // Any wafers share a model by the network between systems.
    pool.devicesPerNode = from.device.wafer.empty() ? from.perNode : 1;
    pool.wholeNodes = from.wholeNodes;
    pool.gramsPerKilowattHour = fleet.gramsPerKilowattHour.value_or(0);
    if (Error error = addWatts(pool, from.device))
      return error;
    Expected<double> price = priceOf(from);
    if (!price)
      return createStringError("pool @" + from.name + ": " + toString(price.takeError()) +
                               "; give the pool a price: price #fleet.rental<dollars_per_hour = …>");
    pool.dollarsPerDeviceHour = *price;
    for (const std::string &figure : from.device.unsureFigures())
      unsure.insert(from.device.name + ": " + figure);
    result.problem.pools.push_back(std::move(pool));
  }
  if (empty.size() == fleet.pools.size())
    return createStringError("fleet.system @" + fleet.name + " has no device to plan with\n  " +
                             llvm::join(empty, "\n  "));
  notes.insert(empty.begin(), empty.end());
  unsure.insert(formatv("idle power: taken as {0:P0} of the watts of each device", idleShareOfWatts).str());
  result.fleetPools = fleet.pools.size();
  return Error::success();
}

Error ProblemBuilder::addWatts(Pool &pool, const CatalogueDevice &device) {
  bool matters = options.objective == Objective::JoulesPerRequest || options.objective == Objective::GramsPerRequest ||
                 fleet.wattsCap < unlimited;
  if (!device.watts && !matters) {
    unsure.insert(device.name + ": no figure of its watts, so power and energy are without it");
    return Error::success();
  }
  Expected<double> watts = device.need(device.watts, "watts");
  if (!watts)
    return watts.takeError();
  pool.busyWatts = *watts;
  pool.idleWatts = idleShareOfWatts * *watts;
  return Error::success();
}

Expected<double> ProblemBuilder::priceOf(const FleetPool &pool) {
  if (pool.rentalDollarsPerHour)
    return *pool.rentalDollarsPerHour;
  if (pool.owned)
    return pool.device.ownedPerHour(*pool.owned);
  Expected<double> rental = pool.device.rentalPerHour();
  if (rental)
    return rental;
  consumeError(rental.takeError());
  return pool.device.ownedPerHour();
}

int ProblemBuilder::outside() {
  if (outsidePool < 0)
    outsidePool = addOutsidePool("outside", 0);
  return outsidePool;
}

int ProblemBuilder::addOutsidePool(const std::string &name, int64_t devices) {
  Pool pool;
  pool.name = name;
  pool.devices = devices;
  pool.isService = devices > 0;
  result.problem.pools.push_back(pool);
  return int(result.problem.pools.size()) - 1;
}

//===----------------------------------------------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------------------------------------------===//

std::string ProblemBuilder::textOf(const std::optional<wf::FixedPlacement> &placement) {
  if (!placement)
    return "";
  return formatv("{0}/{1}/{2}/{3}/{4}/{5}/{6}/{7}/{8}/{9}/{10}", placement->pool, placement->tensor,
                 placement->pipeline, placement->expert, placement->data, placement->replicas, placement->batch,
                 placement->precision, placement->pinsPoolOnly, placement->parts, placement->aggregated);
}

std::set<int> ProblemBuilder::usersTasks(const wf::Graph &graph, int task) {
  const wf::Task &of = graph.tasks[task];
  std::set<int> users;
  if (of.kind == Kind::Encode)
    for (const wf::Edge &edge : graph.edges)
      if (edge.from == task && edge.to >= 0 && graph.tasks[edge.to].kind == Kind::Prefill &&
          graph.tasks[edge.to].apart == of.apart)
        users.merge(usersTasks(graph, edge.to));
  if (!users.empty())
    return users;
  return {of.pair >= 0 ? std::min(task, of.pair) : task};
}

std::string ProblemBuilder::keyOf(const wf::Graph &graph, const wf::Task &task, int unique) const {
  std::string placement = textOf(task.placement);
  std::string what;
  if (task.model >= 0)
    what = graph.models[task.model].name;
  else if (task.tool >= 0)
    what = graph.tools[task.tool].name;
  else if (task.memory >= 0)
    what = graph.memories[task.memory].name;
  else if (task.index >= 0)
    what = graph.indexes[task.index].name;
  else
    what = "#" + std::to_string(unique); // functions of the user take their own time each
  // A task that is apart from others with the same demand has replicas of its own.
  std::string apart = isOutside(task) ? "" : task.apart;
  if (!apart.empty())
    apart += formatv(" {0} {1}", graph.name, *usersTasks(graph, int(&task - graph.tasks.data())).begin());
  // Reads and writes of a memory share its limit of simultaneous operations.
  bool isLimited = task.memory >= 0 && graph.memories[task.memory].concurrency && !task.background;
  return formatv("{0} {1} {2} {3} {4} {5}", isLimited ? "memory" : nameOf(task.kind), what, placement, task.together,
                 apart, task.background);
}

void ProblemBuilder::groupTasks() {
  std::map<std::string, int> known;
  int unique = 0;
  for (auto [g, graph] : llvm::enumerate(graphs)) {
    result.pieceOfTask.emplace_back(graph.tasks.size(), -1);
    for (auto [t, task] : llvm::enumerate(graph.tasks)) {
      std::string key = keyOf(graph, task, unique++);
      auto [entry, inserted] = known.try_emplace(key, groups.size());
      if (inserted)
        groups.push_back({key, {}});
      Group &group = groups[entry->second];
      memberOf[{int(g), int(t)}] = {entry->second, int(group.members.size())};
      double rate = anyRate ? graph.sla.requestsPerSecond : 1;
      group.members.push_back({int(g), int(t), rate * task.executions});
    }
  }
}

const ProblemBuilder::Group *ProblemBuilder::partnerOf(const Group &group) const {
  const Group *partner = nullptr;
  // The pairing must be one to one: a decode in a case, or after a loop, runs less often than its prefill.
  auto pairOf = [&](const Member &member) -> const Group * {
    const wf::Task &task = taskOf(member);
    if (task.pair < 0)
      return nullptr;
    const wf::Task &other = graphs[member.graph].tasks[task.pair];
    bool oneToOne = &graphs[member.graph].tasks[other.pair] == &task &&
                    std::abs(task.executions - other.executions) <= 1e-9 * task.executions;
    return oneToOne ? &groups[memberOf.at({member.graph, task.pair}).first] : nullptr;
  };
  for (const Member &member : group.members) {
    const Group *of = pairOf(member);
    if (!of || (partner && of != partner))
      return nullptr;
    partner = of;
  }
  return llvm::all_of(partner->members, [&](const Member &member) { return pairOf(member) == &group; }) ? partner
                                                                                                        : nullptr;
}

//===----------------------------------------------------------------------------------------------------------===//
// Groups of placement
//===----------------------------------------------------------------------------------------------------------===//

void ProblemBuilder::addGroups() {
  std::map<std::string, std::set<int>> together;
  std::map<std::string, std::vector<std::pair<int, std::set<std::pair<int, int>>>>> apart; ///< (piece, user's tasks)
  for (auto [g, graph] : llvm::enumerate(graphs))
    for (auto [t, task] : llvm::enumerate(graph.tasks)) {
      if (isOutside(task))
        continue;
      int piece = result.pieceOfTask[g][t];
      if (!task.together.empty())
        together[task.together].insert(piece);
      if (task.apart.empty())
        continue;
      std::set<std::pair<int, int>> users;
      for (int user : usersTasks(graph, int(t)))
        users.insert({int(g), user});
      apart[task.apart].push_back({piece, std::move(users)});
    }
  auto ofOneTask = [](auto &a, auto &b) {
    return llvm::any_of(a.second, [&](auto &user) { return b.second.count(user) > 0; });
  };
  for (auto &[name, pieces] : together)
    result.problem.together.emplace_back(pieces.begin(), pieces.end());
  std::set<std::pair<int, int>> known;
  for (auto &[name, entries] : apart)
    for (auto &a : entries)
      for (auto &b : entries)
        if (a.first < b.first && !ofOneTask(a, b) && known.insert({a.first, b.first}).second)
          result.problem.apart.push_back({a.first, b.first});
}

Expected<BuiltProblem> buildProblem(const std::vector<wf::Graph> &graphs, const Fleet &fleet,
                                    const CandidateOptions &options) {
  return ProblemBuilder(graphs, fleet, options).run();
}

} // namespace intarsia::plan
