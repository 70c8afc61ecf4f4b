//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Pools with prices, pieces with menus, edges with bytes and regions with scales: the placement problem.
//===----------------------------------------------------------------------------------------------------------===//
#include "Menus.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace llvm;

namespace intarsia::plan {
namespace wf = workflow;
using wf::Kind;

/// Of what a data sheet says of power, what an idle device draws. No vendor publishes it; an assumption, listed as
/// such.
constexpr double idleShareOfWatts = 0.15;
/// Requests reach tools over networks that are not in the fleet; what that takes is part of the tool's own latency.
constexpr double outsideGBps = 1e6;

namespace {
class ProblemBuilder {
public:
  ProblemBuilder(const std::vector<wf::Graph> &graphs, const Fleet &fleet, const MenuOptions &options)
      : graphs(graphs), fleet(fleet), options(options) {}

  Expected<BuiltProblem> run() {
    result.problem.objective = options.objective;
    result.problem.wattsCap = fleet.wattsCap;
    anyRate = llvm::any_of(graphs, [](const wf::Graph &graph) { return graph.sla.requestsPerSecond > 0; });
    if (fleet.pools.empty())
      return createStringError("fleet.system @" + fleet.name + " is empty: add a fleet.pool");
    if (options.efficiency)
      unsure.insert("times: by the figures of '" + options.efficiency->file + "', not by measured ones");
    if (Error error = addPools())
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

private:
  struct Member {
    int graph, task;
    double executionsPerSecond; ///< or, without rates, in a request
    double scale = 1, laterScale = 1;
  };
  /// Tasks that share a piece.
  struct Group {
    std::string key;
    std::vector<Member> members;
    int piece = -1;
  };

  const std::vector<wf::Graph> &graphs;
  const Fleet &fleet;
  const MenuOptions &options;
  BuiltProblem result;
  std::vector<Group> groups;
  std::map<std::pair<int, int>, std::pair<int, int>> memberOf; ///< (graph, task) to (group, member)
  std::set<std::string> unsure, notes;
  bool anyRate = false;
  int outsidePool = -1, nothingPiece = -1;

  const wf::Task &taskOf(const Member &member) const { return graphs[member.graph].tasks[member.task]; }

  //===-- Pools -----------------------------------------------------------------------------------------------===//

  Error addPools() {
    for (const FleetPool &from : fleet.pools) {
      Pool pool;
      pool.name = from.name;
      pool.devices = int64_t(std::floor(from.count * from.availability + 1e-9));
      pool.devicesPerNode = from.perNode;
      pool.wholeNodes = from.wholeNodes;
      pool.gramsPerKilowattHour = fleet.gramsPerKilowattHour;
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
    unsure.insert(formatv("idle power: taken as {0:P0} of the watts of each device", idleShareOfWatts).str());
    result.fleetPools = fleet.pools.size();
    return Error::success();
  }

  /// A device without a figure has no part in the plan's power, where nothing is asked of that.
  Error addWatts(Pool &pool, const CatalogueDevice &device) {
    bool matters = options.objective == Objective::JoulesPerRequest ||
                   options.objective == Objective::GramsPerRequest || fleet.wattsCap < unlimited;
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

  /// Of the pool, else rental by the catalogue, else owned with the usual terms.
  Expected<double> priceOf(const FleetPool &pool) {
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

  int outside() {
    if (outsidePool < 0)
      outsidePool = addOutsidePool("outside", 0);
    return outsidePool;
  }

  int addOutsidePool(const std::string &name, int64_t devices) {
    Pool pool;
    pool.name = name;
    pool.devices = devices;
    result.problem.pools.push_back(pool);
    return int(result.problem.pools.size()) - 1;
  }

  //===-- Groups ----------------------------------------------------------------------------------------------===//

  static bool isOutside(const wf::Task &task) { return task.latencyMs.has_value(); }

  std::string keyOf(const wf::Graph &graph, const wf::Task &task, int unique) const {
    std::string place;
    if (task.place) {
      const wf::Place &where = *task.place;
      place = formatv("{0}/{1}/{2}/{3}/{4}/{5}/{6}/{7}/{8}", where.pool, where.tensor, where.pipeline, where.expert,
                      where.data, where.replicas, where.batch, where.precision, where.pinsPoolOnly);
    }
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
    return formatv("{0} {1} {2} {3} {4} {5}", nameOf(task.kind), what, place, task.together, task.apart,
                   task.background);
  }

  void groupTasks() {
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

  /// Mean over the executions of all members.
  template <typename Function> double mean(const Group &group, Function figure) const {
    double sum = 0, weight = 0;
    for (const Member &member : group.members) {
      double of = std::max(member.executionsPerSecond, 1e-12);
      sum += of * figure(member);
      weight += of;
    }
    return sum / weight;
  }

  //===-- Pieces ----------------------------------------------------------------------------------------------===//

  Error addPiece(Group &group) {
    const wf::Task &first = taskOf(group.members.front());
    const wf::Graph &graph = graphs[group.members.front().graph];
    Piece piece;
    piece.name = first.name;
    if (group.members.size() > 1) {
      std::string subject =
          first.model >= 0 ? graph.models[first.model].name + "." + wf::nameOf(first.kind) : first.name;
      piece.name = formatv("{0} ({1} tasks)", subject, group.members.size());
    }
    // Two groups of one model (pinned apart) would have one name.
    while (llvm::any_of(result.problem.pieces, [&](const Piece &other) { return other.name == piece.name; }))
      piece.name += "'";
    piece.location = first.location;
    Expected<Menu> menu = isOutside(first) ? outsideMenu(group) : deviceMenu(group);
    if (!menu)
      return createStringError((first.location.empty() ? "" : first.location + ": ") + "task '" + first.name +
                               "': " + toString(menu.takeError()));
    for (const std::string &refusal : menu->refusals)
      notes.insert(refusal);
    piece.menu = std::move(menu->choices);
    if (!anyRate)
      for (Choice &choice : piece.menu)
        choice.dollarsPerExecution += choice.millisecondsAlone.value_or(choice.milliseconds) / 3.6e6 *
                                      choice.devicesPerReplica * result.problem.pools[choice.pool].dollarsPerDeviceHour;
    std::vector<std::pair<Amount, double>> amounts;
    for (const Member &member : group.members) {
      const wf::Task &task = taskOf(member);
      const Amount &amount = isOutside(task)              ? *task.latencyMs
                             : task.kind == Kind::Prefill ? task.prompt.newTokens
                             : task.kind == Kind::Decode  ? task.output.amount
                             : !task.inputs.empty()       ? task.inputs.front().amount
                                                          : task.output.amount;
      // Of an execution of mean size: members differ in scale, which stands in their regions.
      if (amount.mean() > 0)
        amounts.push_back({amount.scaled(1 / amount.mean()), std::max(member.executionsPerSecond, 1e-12)});
    }
    if (!amounts.empty() && first.kind != Kind::Search)
      piece.shape = shapeOf(amounts);
    if (first.tool >= 0 && graph.tools[first.tool].failureProbability > 0)
      piece.shape = repeated(piece.shape, graph.tools[first.tool].failureProbability);
    if (first.kind == Kind::Decode) {
      piece.heldTokens = mean(group, [&](const Member &m) { return taskOf(m).contextTokens.mean(); });
      piece.writtenTokens = mean(group, [&](const Member &m) { return taskOf(m).output.amount.mean(); });
    }
    if (Error error = pin(piece, *menu, first))
      return error;
    group.piece = int(result.problem.pieces.size());
    for (const Member &member : group.members)
      result.pieceOfTask[member.graph][member.task] = group.piece;
    result.problem.pieces.push_back(std::move(piece));
    result.meanings.push_back(std::move(menu->meanings));
    return Error::success();
  }

  /// Leaves on the menu what a placement by hand allows.
  Error pin(Piece &piece, Menu &menu, const wf::Task &task) {
    if (!task.place || isOutside(task))
      return Error::success();
    const wf::Place &place = *task.place;
    auto pool = llvm::find_if(fleet.pools, [&](const FleetPool &candidate) { return candidate.name == place.pool; });
    std::string where =
        (task.location.empty() ? "" : task.location + ": ") + "task '" + task.name + "' is placed on @" + place.pool;
    if (pool == fleet.pools.end() || (!place.system.empty() && place.system != fleet.name)) {
      std::vector<std::string> names;
      for (const FleetPool &candidate : fleet.pools)
        names.push_back(candidate.name);
      return createStringError(where + ", which fleet.system @" + fleet.name + " does not have" +
                               nearestNames(place.pool, names));
    }
    piece.pinnedPool = int(pool - fleet.pools.begin());
    if (place.pinsPoolOnly)
      return Error::success();
    std::vector<Choice> choices;
    std::vector<ChoiceMeaning> meanings;
    for (auto [choice, meaning] : llvm::zip(piece.menu, menu.meanings))
      if (choice.pool == *piece.pinnedPool && meaning.tensor == place.tensor && meaning.pipeline == place.pipeline &&
          meaning.expert == place.expert && meaning.data == place.data &&
          (meaning.batch == place.batch || task.kind == Kind::Prefill) &&
          (place.precision.empty() || meaning.precision == place.precision)) {
        choices.push_back(choice);
        meanings.push_back(meaning);
      }
    if (choices.empty())
      return createStringError(where + formatv(" with tensor {0}, pipeline {1}, expert {2}, data {3}, batch {4}{5}, "
                                               "which does not fit there or is not offered; give the pool alone and "
                                               "the planner chooses the rest",
                                               place.tensor, place.pipeline, place.expert, place.data, place.batch,
                                               place.precision.empty() ? "" : ", " + place.precision)
                                           .str());
    piece.menu = std::move(choices);
    menu.meanings = std::move(meanings);
    return Error::success();
  }

  Expected<Menu> outsideMenu(Group &group) {
    const wf::Task &first = taskOf(group.members.front());
    const wf::Graph &graph = graphs[group.members.front().graph];
    // A failed call is made again: 1 / (1 - p) calls on average.
    double calls = 1, dollars = 0;
    std::optional<int64_t> concurrency;
    std::string name = first.name;
    if (first.tool >= 0) {
      const wf::Tool &tool = graph.tools[first.tool];
      calls = 1 / (1 - tool.failureProbability);
      dollars = tool.dollarsPerCall * calls;
      concurrency = tool.concurrency;
      name = tool.name;
    } else if (first.memory >= 0) {
      concurrency = graph.memories[first.memory].concurrency;
      name = graph.memories[first.memory].name + "." + wf::nameOf(first.kind);
    }
    double ms =
        first.background ? 0 : mean(group, [&](const Member &m) { return taskOf(m).latencyMs->mean(); }) * calls;
    for (Member &member : group.members)
      member.scale = ms > 0 ? taskOf(member).latencyMs->mean() * calls / ms : 1;
    Menu menu;
    Choice choice;
    choice.milliseconds = std::max(ms, 1e-6);
    choice.dollarsPerExecution = dollars;
    ChoiceMeaning meaning;
    meaning.outside = true;
    if (concurrency && !first.background) {
      choice.pool = addOutsidePool("outside:" + name, 1);
      choice.devicesPerReplica = 1;
      choice.slots = int(std::clamp<int64_t>(*concurrency, 1, 1000000));
    } else {
      choice.pool = outside();
    }
    menu.add(choice, meaning, result.problem.pools[choice.pool].name);
    return menu;
  }

  Expected<Menu> deviceMenu(Group &group) {
    const wf::Task &first = taskOf(group.members.front());
    if (first.kind == Kind::Prefill || first.kind == Kind::Decode)
      return languageModelMenu(group);
    return otherMenu(group);
  }

  Expected<Menu> languageModelMenu(Group &group) {
    const wf::Task &first = taskOf(group.members.front());
    const wf::Model &model = graphs[group.members.front().graph].models[first.model];
    DecoderWork work;
    work.model = model.name;
    work.precisions = model.precisions;
    if (model.shape.empty())
      return createStringError("model '" + model.name +
                               "' has no shape, which the time of its layers and caches follows "
                               "from; name one of the catalogue with 'shape'");
    Expected<const ModelShape *> shape = findShape(model.shape);
    if (!shape)
      return createStringError("model '" + model.name + "': " + toString(shape.takeError()));
    work.shape = *shape;
    work.decodes = first.kind == Kind::Decode;
    work.prunes = !first.place || first.place->pinsPoolOnly;
    if (work.decodes) {
      work.contextTokens = mean(group, [&](const Member &m) { return taskOf(m).contextTokens.mean(); });
      work.writtenTokens = mean(group, [&](const Member &m) { return taskOf(m).output.amount.mean(); });
      for (const Member &member : group.members) {
        if (taskOf(member).answers) {
          work.promised = true;
          work.tokenMsBound = std::min(work.tokenMsBound, graphs[member.graph].sla.tbtMs);
        }
        for (const wf::Edge &edge : graphs[member.graph].edges)
          if (edge.from == member.task && edge.streaming && edge.every)
            work.every = std::max(work.every.value_or(0), edge.every->amount.mean());
      }
    } else {
      work.newTokens = mean(group, [&](const Member &m) { return taskOf(m).prompt.newTokens.mean(); });
      work.cachedTokens = mean(group, [&](const Member &m) { return taskOf(m).prompt.cachedTokens.mean(); });
    }
    Expected<Menu> menu = decoderMenu(work, fleet, options);
    if (!menu)
      return menu;
    std::set<int> pools;
    for (auto [choice, meaning] : llvm::zip(menu->choices, menu->meanings)) {
      if (!pools.insert(choice.pool).second)
        continue;
      Expected<ServingCost> cost = decoderCost(work, fleet, options, choice, meaning);
      if (!cost)
        return cost.takeError();
      if (!cost->carriedOver().empty())
        unsure.insert(fleet.pools[choice.pool].device.name + ": " + cost->carriedOver());
    }
    return scaleMembers(group, work, std::move(*menu));
  }

  /// Time of each member over that of the mean, on the first choice of the menu.
  Expected<Menu> scaleMembers(Group &group, const DecoderWork &work, Menu menu) {
    if (work.decodes) {
      for (Member &member : group.members)
        member.scale = std::max(taskOf(member).output.amount.mean() - 1, 1.0) / std::max(work.writtenTokens - 1, 1.0);
      return std::move(menu);
    }
    Expected<ServingCost> cost = decoderCost(work, fleet, options, menu.choices.front(), menu.meanings.front());
    if (!cost)
      return cost.takeError();
    double whole = prefillMs(*cost, work.newTokens, work.cachedTokens);
    auto scaleOf = [&](const wf::Prompt &prompt) {
      return prefillMs(*cost, prompt.newTokens.mean(), prompt.cachedTokens.mean()) / whole;
    };
    for (Member &member : group.members) {
      const wf::Task &task = taskOf(member);
      member.scale = scaleOf(task.prompt);
      if (task.promptByRun.size() < 2)
        continue;
      // Runs after the first, each as often as a loop of these runs gets there, have the mean that is left.
      double firstScale = scaleOf(task.promptByRun.front()), sum = 0;
      for (size_t run = 1; run < task.promptByRun.size(); ++run)
        sum += scaleOf(task.promptByRun[run]);
      double later = sum / (task.promptByRun.size() - 1);
      if (const wf::Region *loop = loopAround(member)) {
        double weighted = 0, weight = 0, reached = 1;
        for (size_t run = 0; run < task.promptByRun.size(); ++run) {
          if (run > 0)
            weighted += reached * scaleOf(task.promptByRun[run]), weight += reached;
          for (auto [count, probability] : loop->counts)
            if (count == int64_t(run) + 1)
              reached -= probability;
        }
        if (weight > 1e-9)
          later = weighted / weight;
      }
      member.scale = firstScale;
      member.laterScale = later / firstScale;
    }
    return std::move(menu);
  }

  const wf::Region *loopAround(const Member &member) const {
    const wf::Graph &graph = graphs[member.graph];
    for (const wf::Region &leaf : graph.regions)
      if (leaf.kind == wf::Region::Kind::Leaf && leaf.task == member.task)
        for (int up = leaf.parent; up >= 0; up = graph.regions[up].parent)
          if (graph.regions[up].kind == wf::Region::Kind::Loop)
            return &graph.regions[up];
    return nullptr;
  }

  Expected<Menu> otherMenu(Group &group) {
    const wf::Task &first = taskOf(group.members.front());
    const wf::Graph &graph = graphs[group.members.front().graph];
    RooflineWork work;
    if (first.kind == Kind::Search) {
      const wf::Index &index = graph.indexes[first.index];
      work.what = "index '" + index.name + "'";
      work.heldBytes = double(index.vectors) * index.bytesPerVector;
      work.readBytes = work.heldBytes * index.visited;
      return rooflineMenu(work, fleet, options);
    }
    const wf::Model &model = graph.models[first.model];
    work.what = "model '" + model.name + "'";
    work.precisions = model.precisions;
    const ModelShape *shape = nullptr;
    if (!model.shape.empty()) {
      Expected<const ModelShape *> found = findShape(model.shape);
      if (!found)
        return createStringError(work.what + ": " + toString(found.takeError()));
      shape = *found;
    }
    if (!model.parameters && !shape)
      return createStringError(work.what + " has neither 'parameters' nor a 'shape' of the catalogue");
    work.parameters = model.parameters ? *model.parameters : shape->parameters();
    double perUnit = model.flopsPerUnit.value_or(2 * work.parameters), perOutput = model.flopsPerOutput.value_or(0);
    auto flops = [&](const Member &member) {
      const wf::Task &task = taskOf(member);
      double inputs = 0;
      for (const wf::Quantity &input : task.inputs)
        inputs += input.amount.mean();
      return perUnit * inputs + perOutput * task.output.amount.mean();
    };
    work.flops = mean(group, flops);
    // A model that works for each unit that it gives reads its weights each time.
    if (model.flopsPerOutput)
      work.passes = 1 + mean(group, [&](const Member &member) { return taskOf(member).output.amount.mean(); });
    for (Member &member : group.members)
      member.scale = work.flops > 0 ? flops(member) / work.flops : 1;
    for (const wf::Edge &edge : graph.edges)
      if (edge.to == group.members.front().task && edge.streaming && edge.every && edge.amount.amount.mean() > 0)
        work.firstShare = edge.every->amount.mean() / edge.amount.amount.mean();
    for (const FleetPool &pool : fleet.pools)
      if (pool.device.generation != "hopper" && pool.device.generation != "blackwell")
        unsure.insert(pool.device.name + ": efficiencies of small models carried over from GPUs of other generations");
    return rooflineMenu(work, fleet, options);
  }

  /// A precision goes where another is no worse on each pool for all pieces of the model: fewer bits, mostly. What is
  /// left must agree between the pieces of a model, which is costly to solve.
  void dropPrecisions() {
    std::map<std::string, std::vector<int>> piecesOf;
    for (const Group &group : groups) {
      const wf::Task &first = taskOf(group.members.front());
      if (first.kind == Kind::Prefill || first.kind == Kind::Decode)
        piecesOf[graphs[group.members.front().graph].models[first.model].name].push_back(group.piece);
    }
    for (auto &[model, pieces] : piecesOf) {
      std::set<std::string> precisions;
      for (int piece : pieces)
        for (const ChoiceMeaning &meaning : result.meanings[piece])
          precisions.insert(meaning.precision);
      std::set<std::string> kept = precisions;
      for (const std::string &worse : precisions)
        for (const std::string &better : kept)
          if (worse != better && llvm::all_of(pieces, [&](int piece) { return replaces(piece, better, worse); })) {
            kept.erase(worse);
            for (int piece : pieces)
              dropPrecision(piece, worse);
            break;
          }
    }
  }

  bool replaces(int piece, const std::string &better, const std::string &worse) const {
    const std::vector<Choice> &menu = result.problem.pieces[piece].menu;
    const std::vector<ChoiceMeaning> &meanings = result.meanings[piece];
    for (size_t b = 0; b < menu.size(); ++b) {
      if (meanings[b].precision != worse)
        continue;
      bool found = false;
      for (size_t a = 0; a < menu.size() && !found; ++a)
        found = meanings[a].precision == better && noWorse(menu[a], menu[b]);
      if (!found)
        return false;
    }
    return true;
  }

  void dropPrecision(int piece, const std::string &precision) {
    std::vector<Choice> menu;
    std::vector<ChoiceMeaning> meanings;
    for (auto [choice, meaning] : llvm::zip(result.problem.pieces[piece].menu, result.meanings[piece]))
      if (meaning.precision != precision) {
        menu.push_back(choice);
        meanings.push_back(meaning);
      }
    result.problem.pieces[piece].menu = std::move(menu);
    result.meanings[piece] = std::move(meanings);
  }

  //===-- Links and edges -------------------------------------------------------------------------------------===//

  void addLinks() {
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

  double bytesOf(const wf::Graph &graph, const wf::Edge &edge) {
    if (edge.bytes)
      return *edge.bytes;
    double amount = edge.amount.amount.mean();
    const wf::Task &reader = graph.tasks[edge.to];
    int model = reader.model >= 0 ? reader.model : graph.tasks[edge.from].model;
    if (model >= 0 && !graph.models[model].shape.empty()) {
      // Menus have been made, so the shape is known. Caches are in 16 bits, as they assume; features are vectors of the
      // reader's width.
      const ModelShape &shape = *llvm::cantFail(findShape(graph.models[model].shape));
      if (edge.flow == wf::Flow::Cache)
        return shape.cachedNumbers(amount) * bytesOf16 + shape.stateBytes();
      return amount * shape.hidden * bytesOf16;
    }
    notes.insert("what flows from '" + graph.tasks[edge.from].name + "' to '" + reader.name +
                 "' has no size in bytes and is taken as none");
    return 0;
  }
  static constexpr double bytesOf16 = 2;

  /// A cache is read by the weights that wrote it: those of another precision are another model. Left unsaid where it
  /// cannot happen: exceptions keep the solver from pruning.
  void forbidOtherPrecisions(Edge &flow) {
    for (auto [from, wrote] : llvm::enumerate(result.meanings[flow.from]))
      for (auto [to, reads] : llvm::enumerate(result.meanings[flow.to]))
        if (wrote.precision != reads.precision) {
          EdgeException exception;
          exception.fromChoice = int(from);
          exception.toChoice = int(to);
          exception.forbidden = true;
          flow.exceptions.push_back(exception);
        }
  }

  //===-- Agents ----------------------------------------------------------------------------------------------===//

  int nothing() {
    if (nothingPiece < 0) {
      Piece piece;
      piece.name = "nothing";
      Menu menu;
      Choice choice;
      choice.pool = outside();
      choice.milliseconds = 1e-6;
      ChoiceMeaning meaning;
      meaning.outside = true;
      menu.add(choice, meaning, "outside");
      piece.menu = menu.choices;
      nothingPiece = int(result.problem.pieces.size());
      result.problem.pieces.push_back(piece);
      result.meanings.push_back(menu.meanings);
    }
    return nothingPiece;
  }

  void addAgent(size_t index) {
    const wf::Graph &graph = graphs[index];
    Agent agent;
    agent.name = graph.name;
    agent.requestsPerSecond = graph.sla.requestsPerSecond;
    agent.level = {graph.sla.latencyMs, graph.sla.ttftMs, graph.sla.tbtMs, graph.sla.percentile};
    agent.root = graph.root;
    std::vector<int> edgeOf(graph.edges.size(), -1);
    for (auto [position, edge] : llvm::enumerate(graph.edges)) {
      if (edge.from < 0 || edge.to < 0)
        continue;
      const wf::Task &from = graph.tasks[edge.from], &to = graph.tasks[edge.to];
      Edge flow;
      flow.name = formatv("{0} from '{1}' to '{2}'", wf::nameOf(edge.flow), from.name, to.name);
      flow.from = result.pieceOfTask[index][edge.from];
      flow.to = result.pieceOfTask[index][edge.to];
      // The values of all executions of a map or loop before it flow to one execution of what is behind.
      double several = edge.loop < 0 ? std::max(1.0, from.executions / std::max(to.executions, 1e-12)) : 1;
      flow.bytes = bytesOf(graph, edge) * several;
      if (edge.flow == wf::Flow::Cache)
        forbidOtherPrecisions(flow);
      edgeOf[position] = int(result.problem.edges.size());
      result.problem.edges.push_back(std::move(flow));
    }
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
      if (from.kind == wf::Region::Kind::Leaf) {
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
        agent.regions.push_back(Region::leaf(nothing()));
      }
      if (from.kind == wf::Region::Kind::Map && from.concurrency)
        inRounds(agent, int(position), *from.concurrency);
    }
    result.problem.agents.push_back(std::move(agent));
  }

  /// A map of which only `most` items run at once is a loop over full rounds of them: at most one round too much work.
  static void inRounds(Agent &agent, int map, int64_t most) {
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

  //===-- Groups of placement -----------------------------------------------------------------------------------===//

  void addGroups() {
    std::map<std::string, std::set<int>> together;
    std::map<std::string, std::vector<std::pair<int, int>>> apart; ///< (piece, user's task)
    for (auto [g, graph] : llvm::enumerate(graphs))
      for (auto [t, task] : llvm::enumerate(graph.tasks)) {
        if (isOutside(task))
          continue;
        int piece = result.pieceOfTask[g][t];
        if (!task.together.empty())
          together[task.together].insert(piece);
        int user = task.pair >= 0 ? std::min<int>(t, task.pair) : int(t);
        if (!task.apart.empty())
          apart[task.apart].push_back({piece, int(g) * 1000000 + user});
      }
    for (auto &[name, pieces] : together)
      result.problem.together.emplace_back(pieces.begin(), pieces.end());
    std::set<std::pair<int, int>> known;
    for (auto &[name, entries] : apart)
      for (auto &a : entries)
        for (auto &b : entries)
          if (a.first < b.first && a.second != b.second && known.insert({a.first, b.first}).second)
            result.problem.apart.push_back({a.first, b.first});
  }
};
} // namespace

Expected<BuiltProblem> buildProblem(const std::vector<wf::Graph> &graphs, const Fleet &fleet,
                                    const MenuOptions &options) {
  return ProblemBuilder(graphs, fleet, options).run();
}

} // namespace intarsia::plan
