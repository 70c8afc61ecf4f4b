//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Pieces of a placement problem: the work of each execution, and the candidates: the ways to run it.
//===----------------------------------------------------------------------------------------------------------===//
#include "ProblemBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

//===----------------------------------------------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------------------------------------------===//

Error ProblemBuilder::addPiece(Group &group) {
  const wf::Task &first = taskOf(group.members.front());
  const wf::Graph &graph = graphs[group.members.front().graph];
  Piece piece;
  piece.name = first.name;
  if (group.members.size() > 1) {
    std::string subject = first.model >= 0 ? graph.models[first.model].name + "." + wf::nameOf(first.kind) : first.name;
    piece.name = formatv("{0} ({1} tasks)", subject, group.members.size());
  }
  // Makes the name unique: two groups of one model (pinned apart) would have the same.
  while (llvm::any_of(result.problem.pieces, [&](const Piece &other) { return other.name == piece.name; }))
    piece.name += "'";
  piece.location = first.location;
  Expected<Candidates> candidates = isOutside(first) ? outsideCandidates(group) : deviceCandidates(group);
  if (!candidates)
    return createStringError((first.location.empty() ? "" : first.location + ": ") + "task '" + first.name +
                             "': " + toString(candidates.takeError()));
  for (const std::string &refusal : candidates->refusals)
    notes.insert(refusal);
  if (!anyRate)
    for (auto [choice, meaning] : llvm::zip(candidates->choices, candidates->meanings)) {
      int devices = meaning.aggregate ? meaning.devices() : choice.devicesPerReplica;
      double deviceSeconds =
          choice.millisecondsAlone.value_or(choice.milliseconds) / 1000 * devices * choice.deviceShare;
      choice.dollarsPerExecution += deviceSeconds / 3600 * result.problem.pools[choice.pool].dollarsPerDeviceHour;
      choice.joulesPerExecution += deviceSeconds * result.problem.pools[choice.pool].busyWatts;
    }
  std::vector<std::pair<Amount, double>> amounts;
  for (const Member &member : group.members) {
    const wf::Task &task = taskOf(member);
    const Amount &amount = isOutside(task)              ? *task.latencyMs
                           : task.kind == Kind::Prefill ? task.prompt.newTokens
                           : task.kind == Kind::Decode  ? task.output.amount
                           : !task.inputs.empty()       ? task.inputs.front().amount
                                                        : task.output.amount;
    // Shapes have mean 1: the scales of members are in their regions.
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
  if (Error error = pin(piece, *candidates, first, graph))
    return error;
  piece.candidates = std::move(candidates->choices);
  group.piece = int(result.problem.pieces.size());
  for (const Member &member : group.members)
    result.pieceOfTask[member.graph][member.task] = group.piece;
  result.works.push_back(group.work);
  result.problem.pieces.push_back(std::move(piece));
  result.meanings.push_back(std::move(candidates->meanings));
  return Error::success();
}

Error ProblemBuilder::refusePlacement(const wf::Task &task, const wf::Graph &graph) {
  const char *said = task.placement ? "place" : !task.together.empty() ? "together" : nullptr;
  if (!said)
    return Error::success();
  std::string what = task.tool >= 0     ? "tool '" + graph.tools[task.tool].name + "'"
                     : task.memory >= 0 ? "memory '" + graph.memories[task.memory].name + "'"
                     : task.index >= 0  ? "index '" + graph.indexes[task.index].name + "'"
                                        : "function '" + task.function + "'";
  return createStringError(
      (task.location.empty() ? "" : task.location + ": ") +
      formatv("task '{0}' has '{1}', but {2} runs outside the fleet, for as long as is said of it; "
              "leave out '{1}'",
              task.name, said, what)
          .str());
}

Error ProblemBuilder::pin(Piece &piece, Candidates &candidates, const wf::Task &task, const wf::Graph &graph) {
  if (isOutside(task))
    return refusePlacement(task, graph);
  if (!task.placement)
    return Error::success();
  const wf::FixedPlacement &placement = *task.placement;
  auto pool = llvm::find_if(fleet.pools, [&](const FleetPool &candidate) { return candidate.name == placement.pool; });
  std::string where =
      (task.location.empty() ? "" : task.location + ": ") + "task '" + task.name + "' is placed on @" + placement.pool;
  if (pool == fleet.pools.end() || (!placement.system.empty() && placement.system != fleet.name)) {
    std::vector<std::string> names;
    for (const FleetPool &candidate : fleet.pools)
      names.push_back(candidate.name);
    return createStringError(where + ", which fleet.system @" + fleet.name + " does not have" +
                             nearestNames(placement.pool, names));
  }
  piece.pinnedPool = int(pool - fleet.pools.begin());
  if (placement.pinsPoolOnly)
    return Error::success();
  // An aggregated prefill is in the replicas of its decode, whose number is pinned there.
  bool isGuest = placement.aggregated && task.kind != Kind::Decode;
  if (!isGuest)
    piece.pinnedReplicas = placement.replicas;
  const wf::FixedPlacement *ofDecode = nullptr;
  if (task.kind == Kind::Prefill && task.pair >= 0 && graph.tasks[task.pair].placement)
    ofDecode = &*graph.tasks[task.pair].placement;
  std::optional<int64_t> hosts;
  if (ofDecode && ofDecode->aggregated)
    hosts = ofDecode->replicas;
  if (isGuest && task.kind == Kind::Prefill && task.pair >= 0 && placement.replicas != hosts) {
    auto said = [](std::optional<int64_t> replicas) { return replicas ? std::to_string(*replicas) : "not said"; };
    return createStringError(where + ", aggregated: its replicas are " + said(placement.replicas) + ", those of '" +
                             graph.tasks[task.pair].name + "' are " + said(hosts) +
                             ", and they are the same replicas; say the same number in both");
  }
  // A language model that is placed as a whole has the batch of its decode; the batch of its prefill follows from it.
  bool anyBatch =
      task.kind == Kind::Prefill && (placement.batch == 1 || (ofDecode && textOf(*ofDecode) == textOf(placement)));
  candidates.keep([&](size_t at) {
    const ChoiceMeaning &meaning = candidates.meanings[at];
    return candidates.choices[at].pool == *piece.pinnedPool && meaning.tensor == placement.tensor &&
           meaning.pipeline == placement.pipeline && meaning.expert == placement.expert &&
           meaning.data == placement.data && meaning.parts == placement.parts &&
           (anyBatch || meaning.batch == placement.batch) &&
           (placement.precision.empty() || meaning.precision == placement.precision) &&
           placement.aggregated == (meaning.aggregate > 0);
  });
  if (candidates.choices.empty())
    return createStringError(
        where + formatv(" with tensor {0}, pipeline {1}, expert {2}, data {3}, parts {4}, batch {5}{6}{7}, "
                        "which does not fit there or is not offered; give the pool alone and "
                        "the planner chooses the rest",
                        placement.tensor, placement.pipeline, placement.expert, placement.data, placement.parts,
                        placement.batch, placement.precision.empty() ? "" : ", " + placement.precision,
                        placement.aggregated ? ", aggregated" : "")
                    .str());
  return Error::success();
}

Expected<Candidates> ProblemBuilder::outsideCandidates(Group &group) {
  const wf::Task &first = taskOf(group.members.front());
  const wf::Graph &graph = graphs[group.members.front().graph];
  // A failed call is repeated: 1 / (1 - p) calls on average.
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
    name = graph.memories[first.memory].name;
    if (concurrency && first.background) {
      concurrency.reset();
      unsure.insert("memory '" + name + "': writes that nothing waits for are not counted in its 'concurrency'");
    }
  }
  double ms = first.background ? 0 : mean(group, [&](const Member &m) { return taskOf(m).latencyMs->mean(); }) * calls;
  for (Member &member : group.members)
    member.scale = ms > 0 ? taskOf(member).latencyMs->mean() * calls / ms : 1;
  Candidates candidates;
  Choice choice;
  choice.milliseconds = std::max(ms, 1e-6);
  choice.dollarsPerExecution = dollars;
  ChoiceMeaning meaning;
  meaning.outside = true;
  if (concurrency) {
    choice.pool = addOutsidePool("outside:" + name, 1);
    choice.devicesPerReplica = 1;
    choice.slots = int(std::clamp<int64_t>(*concurrency, 1, 1000000));
  } else {
    choice.pool = outside();
  }
  candidates.add(choice, meaning, result.problem.pools[choice.pool].name);
  return candidates;
}

Expected<Candidates> ProblemBuilder::deviceCandidates(Group &group) {
  const wf::Task &first = taskOf(group.members.front());
  if (first.kind == Kind::Prefill || first.kind == Kind::Decode)
    return languageModelCandidates(group);
  return otherCandidates(group);
}

/// Number of quantiles for the second moment of a prompt's length.
constexpr int quantilesOfAmount = 50;

Error ProblemBuilder::deriveShapes() {
  for (const wf::Graph &graph : graphs)
    for (const wf::Task &task : graph.tasks) {
      if (task.kind != Kind::Prefill && task.kind != Kind::Decode)
        continue;
      const wf::Model &model = graph.models[task.model];
      if (!model.shape.empty() || result.derivedShapes.count(model.name))
        continue;
      std::string where =
          (task.location.empty() ? "" : task.location + ": ") + "task '" + task.name + "': model '" + model.name + "'";
      if (!model.parameters || !model.kvBytesPerToken)
        return createStringError(
            where +
            (!model.module.empty() && !model.parameters
                 ? " is compiled: '" + model.module +
                       "' does not say the sizes of its layers; name the directory that it "
                       "was compiled from with 'shape'"
                 : " has no shape, which the time of its layers and caches follows from; name one of the catalogue, or "
                   "a directory with a config.json, with 'shape', or give 'parameters' and 'kv_bytes_per_token'"));
      Expected<ModelShape> shape = ModelShape::ofParameters(model.name, *model.parameters, *model.kvBytesPerToken);
      if (!shape)
        return createStringError(where + ": " + toString(shape.takeError()));
      unsure.insert(
          formatv("model '{0}': taken for a dense decoder of {1} layers of {2} and a vocabulary of {3}, as its "
                  "parameters and its cache do not say",
                  model.name, shape->layers, shape->hidden, shape->vocabulary));
      result.derivedShapes.emplace(model.name, std::move(*shape));
    }
  return Error::success();
}

Expected<const ModelShape *> ProblemBuilder::modelShapeOf(const wf::Model &model) const {
  auto derived = result.derivedShapes.find(model.name);
  if (model.shape.empty() && derived != result.derivedShapes.end())
    return &derived->second;
  Expected<const ModelShape *> shape = findShape(model.shape);
  if (!shape)
    return createStringError("model '" + model.name + "': " + toString(shape.takeError()));
  return shape;
}

Expected<NumberFormat> ProblemBuilder::cacheOf(const wf::Model &model) {
  return model.cache.empty() || model.cache == "f16" ? NumberFormat::BF16 : parseNumberFormat(model.cache);
}

static double meanSquare(const Amount &amount) {
  double sum = 0;
  for (int i = 0; i < quantilesOfAmount; ++i) {
    double value = amount.quantile((i + 0.5) / quantilesOfAmount);
    sum += value * value / quantilesOfAmount;
  }
  return sum;
}

Expected<DecoderWork> ProblemBuilder::decoderWorkOf(const Group &group) const {
  const wf::Task &first = taskOf(group.members.front());
  const wf::Model &model = graphs[group.members.front().graph].models[first.model];
  DecoderWork work;
  work.model = model.name;
  work.precisions = model.precisions;
  std::pair<const char *, std::optional<double>> figures[] = {{"parameters", model.parameters},
                                                              {"flops_per_unit", model.flopsPerUnit},
                                                              {"flops_per_output", model.flopsPerOutput},
                                                              {"kv_bytes_per_token", model.kvBytesPerToken}};
  for (auto [name, figure] : figures)
    if (figure && !model.shape.empty())
      return createStringError(
          formatv("model '{0}' has '{1}' beside the shape {2}, from which that of a language model "
                  "follows; leave out '{1}'",
                  model.name, name, model.shape)
              .str());
  Expected<const ModelShape *> shape = modelShapeOf(model);
  if (!shape)
    return shape.takeError();
  work.shape = *shape;
  Expected<NumberFormat> cache = cacheOf(model);
  if (!cache)
    return cache.takeError();
  work.cache = *cache;
  work.decodes = first.kind == Kind::Decode;
  work.prunes = !first.placement || first.placement->pinsPoolOnly;
  if (work.decodes) {
    work.contextTokens = mean(group, [&](const Member &m) { return taskOf(m).contextTokens.mean(); });
    work.writtenTokens = mean(group, [&](const Member &m) { return taskOf(m).output.amount.mean(); });
    double square = mean(group, [&](const Member &m) { return meanSquare(taskOf(m).output.amount); });
    work.squaredWritten =
        work.writtenTokens > 0 ? std::max(1.0, square / (work.writtenTokens * work.writtenTokens)) : 1;
    for (const Member &member : group.members) {
      if (taskOf(member).answers) {
        work.promised = true;
        work.tokenMsBound = std::min(work.tokenMsBound, graphs[member.graph].sla.tbtMs);
      }
    }
    for (auto [index, graph] : llvm::enumerate(graphs))
      for (const wf::Edge &edge : graph.edges)
        if (edge.streaming && edge.every && edge.from >= 0 &&
            &groups[memberOf.at({int(index), edge.from}).first] == &group)
          work.every = std::max(work.every.value_or(0), edge.every->amount.mean());
  } else {
    work.newTokens = mean(group, [&](const Member &m) { return taskOf(m).prompt.newTokens.mean(); });
    work.cachedTokens = mean(group, [&](const Member &m) { return taskOf(m).prompt.cachedTokens.mean(); });
    double square = mean(group, [&](const Member &m) { return meanSquare(taskOf(m).prompt.newTokens); });
    work.squaredPrompt = work.newTokens > 0 ? std::max(1.0, square / (work.newTokens * work.newTokens)) : 1;
    work.generatedTokens = mean(group, [&](const Member &m) { return taskOf(m).prompt.generatedTokens.mean(); });
  }
  return work;
}

Expected<Candidates> ProblemBuilder::languageModelCandidates(Group &group) {
  Expected<DecoderWork> work = decoderWorkOf(group);
  if (!work)
    return work.takeError();
  group.work = {work->shape, work->newTokens, work->cachedTokens, work->contextTokens, work->writtenTokens, 0};
  Expected<Candidates> candidates = decoderCandidates(*work, fleet, options);
  if (!candidates)
    return candidates;
  if (work->cache != NumberFormat::BF16 && work->cache != NumberFormat::FP8)
    unsure.insert("model '" + work->model +
                  "': no engine was measured with a cache of this format; it is priced by its "
                  "bytes");
  std::set<int> pools;
  for (auto [choice, meaning] : llvm::zip(candidates->choices, candidates->meanings)) {
    if (!pools.insert(choice.pool).second)
      continue;
    Expected<ServingCost> cost = decoderCost(*work, fleet, options, choice, meaning);
    if (!cost)
      return cost.takeError();
    if (!cost->carriedOver().empty())
      unsure.insert(fleet.pools[choice.pool].device.name + ": " + cost->carriedOver());
  }
  candidates = scaleMembers(group, *work, std::move(*candidates));
  if (!candidates)
    return candidates;
  if (const Group *partner = partnerOf(group)) {
    Expected<DecoderWork> other = decoderWorkOf(*partner);
    if (!other)
      return other.takeError();
    AggregatedCandidates both =
        aggregatedCandidates(work->decodes ? *other : *work, work->decodes ? *work : *other, fleet, options);
    Candidates &own = work->decodes ? both.decode : both.prefill;
    llvm::append_range(candidates->choices, own.choices);
    llvm::append_range(candidates->meanings, own.meanings);
  }
  return candidates;
}

Expected<Candidates> ProblemBuilder::scaleMembers(Group &group, const DecoderWork &work, Candidates candidates) {
  if (work.decodes) {
    for (Member &member : group.members)
      member.scale = std::max(taskOf(member).output.amount.mean() - 1, 1.0) / std::max(work.writtenTokens - 1, 1.0);
    return std::move(candidates);
  }
  Expected<ServingCost> cost =
      decoderCost(work, fleet, options, candidates.choices.front(), candidates.meanings.front());
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
    // Later runs share one scale: their mean, each weighted by the probability that a loop reaches it.
    std::vector<double> scales, reached(task.promptByRun.size(), 1.0);
    for (const wf::Prompt &prompt : task.promptByRun)
      scales.push_back(scaleOf(prompt));
    if (const wf::Region *loop = loopAround(member)) {
      std::vector<double> ends(scales.size(), 0.0);
      for (auto [count, probability] : loop->counts)
        if (count >= 1 && count <= int64_t(ends.size()))
          ends[count - 1] += probability;
      for (size_t run = 1; run < reached.size(); ++run)
        reached[run] = reached[run - 1] - ends[run - 1];
    }
    double firstScale = scales.front(), weighted = 0, weight = 0, sum = 0;
    for (size_t run = 1; run < scales.size(); ++run)
      weighted += reached[run] * scales[run], weight += reached[run], sum += scales[run];
    double later = weight > 1e-9 ? weighted / weight : sum / double(scales.size() - 1);
    member.scale = firstScale;
    member.laterScale = later / firstScale;
  }
  return std::move(candidates);
}

const wf::Region *ProblemBuilder::loopAround(const Member &member) const {
  const wf::Graph &graph = graphs[member.graph];
  for (const wf::Region &region : graph.regions)
    if (region.kind == wf::Region::Kind::Task && region.task == member.task)
      for (int up = region.parent; up >= 0; up = graph.regions[up].parent)
        if (graph.regions[up].kind == wf::Region::Kind::Loop)
          return &graph.regions[up];
  return nullptr;
}

Expected<Candidates> ProblemBuilder::otherCandidates(Group &group) {
  const wf::Task &first = taskOf(group.members.front());
  const wf::Graph &graph = graphs[group.members.front().graph];
  RooflineWork work;
  if (first.kind == Kind::Search) {
    const wf::Index &index = graph.indexes[first.index];
    work.what = "index '" + index.name + "'";
    work.heldBytes = double(index.vectors) * index.bytesPerVector;
    work.readBytes = work.heldBytes * index.visited;
    return sharedCandidates(work);
  }
  const wf::Model &model = graph.models[first.model];
  work.what = "model '" + model.name + "'";
  work.precisions = model.precisions;
  const ModelShape *shape = nullptr;
  if (!model.shape.empty()) {
    Expected<const ModelShape *> found = modelShapeOf(model);
    if (!found)
      return found.takeError();
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
  work.units = mean(group, [&](const Member &member) {
    double inputs = 0;
    for (const wf::Quantity &input : taskOf(member).inputs)
      inputs += input.amount.mean();
    return inputs;
  });
  group.work.units = work.units;
  // A model that runs once for each output unit reads its weights each time.
  if (model.flopsPerOutput)
    work.passes = 1 + mean(group, [&](const Member &member) { return taskOf(member).output.amount.mean(); });
  for (Member &member : group.members)
    member.scale = work.flops > 0 ? flops(member) / work.flops : 1;
  for (const wf::Edge &edge : graph.edges)
    if (edge.to == group.members.front().task && edge.streaming && edge.every && edge.amount.amount.mean() > 0)
      work.firstShare = edge.every->amount.mean() / edge.amount.amount.mean();
  for (const FleetPool &pool : fleet.pools)
    if (!pool.device.serving && pool.device.wafer.empty() && pool.device.generation != "hopper" &&
        pool.device.generation != "blackwell")
      unsure.insert(pool.device.name + ": efficiencies of small models carried over from GPUs of other generations");
  return sharedCandidates(work);
}

Expected<Candidates> ProblemBuilder::sharedCandidates(const RooflineWork &work) {
  Expected<Candidates> candidates = rooflineCandidates(work, fleet, options);
  if (candidates)
    for (const Choice &choice : candidates->choices)
      if (choice.deviceShare < 1)
        unsure.insert(fleet.pools[choice.pool].device.name +
                      ": a share of a device taken to have that share of its bandwidth and of its speed");
  return candidates;
}

void ProblemBuilder::dropPrecisions() {
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
        if (worse != better && replaces(pieces, better, worse)) {
          kept.erase(worse);
          for (int piece : pieces)
            dropPrecision(piece, worse);
          break;
        }
  }
}

bool ProblemBuilder::replaces(const std::vector<int> &pieces, const std::string &better,
                              const std::string &worse) const {
  auto candidatesOf = [&](int piece) {
    return Candidates{result.problem.pieces[piece].candidates, result.meanings[piece], {}};
  };
  for (const Group &group : groups) {
    if (!llvm::is_contained(pieces, group.piece))
      continue;
    Candidates candidates = candidatesOf(group.piece);
    const Group *partner = partnerOf(group);
    Candidates other = partner ? candidatesOf(partner->piece) : Candidates();
    for (auto [choice, meaning] : llvm::zip(candidates.choices, candidates.meanings)) {
      if (meaning.precision != worse)
        continue;
      bool found = false;
      for (size_t a = 0; a < candidates.choices.size() && !found; ++a) {
        int aggregate = candidates.meanings[a].aggregate;
        if (candidates.meanings[a].precision != better || (aggregate > 0) != (meaning.aggregate > 0))
          continue;
        // An aggregate is replaced with everything that belongs to it.
        found = aggregate ? candidates.noWorseAggregate(aggregate, meaning.aggregate) &&
                                other.noWorseAggregate(aggregate, meaning.aggregate)
                          : noWorse(candidates.choices[a], choice);
      }
      if (!found)
        return false;
    }
  }
  return true;
}

void ProblemBuilder::dropPrecision(int piece, const std::string &precision) {
  Candidates of{std::move(result.problem.pieces[piece].candidates), std::move(result.meanings[piece]), {}};
  of.keep([&](size_t at) { return of.meanings[at].precision != precision; });
  result.problem.pieces[piece].candidates = std::move(of.choices);
  result.meanings[piece] = std::move(of.meanings);
}

} // namespace intarsia::plan
