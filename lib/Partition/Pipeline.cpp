//===- Pipeline.cpp - The partition phase, pass by pass ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Rt.h"
#include "intarsia/Partition/Partition.h"
#include "mlir/Pass/PassRegistry.h"
#include <numeric>

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Partition/Passes.h.inc"
} // namespace intarsia::partition

using namespace mlir;
using namespace intarsia;

llvm::Error intarsia::parsePartition(StringRef text, PartitionOptions &options) {
  if (text == "auto") {
    options.stages = 0;
    return llvm::Error::success();
  }
  auto refuse = [&](const Twine &why) {
    return llvm::createStringError(
        "--partition=" + text + ": " + why +
        "; it is tensor, pipeline, expert, context, data, several of them with numbers, as in pipeline:2,tensor:2, "
        "sequence beside tensor or expert, heads beside context, interleaved or breadth-first beside pipeline, with "
        "how "
        "many stages a rank has, or auto");
  };
  struct Degree {
    StringRef name;
    bool isGiven = false;
    int64_t ranks = 1;
  };
  Degree degrees[] = {{"pipeline"}, {"context"}, {"data"}, {"expert"}, {"tensor"}};
  Degree *open = nullptr; // the one without a number
  int64_t product = 1;
  for (StringRef item : llvm::split(text, ',')) {
    auto [name, number] = item.split(':');
    if (name == "sequence") {
      if (item.contains(':'))
        return refuse("sequence has no number: it is over the ranks that share layers");
      if (options.sequence)
        return refuse("sequence is given twice");
      options.sequence = true;
      continue;
    }
    if (item == "heads") {
      if (options.heads)
        return refuse("heads is given twice");
      options.heads = true;
      continue;
    }
    if (name == "interleaved" || name == "breadth-first") {
      if (options.turns > 1)
        return refuse("how many stages a rank has is given twice");
      options.turns = 2;
      options.isBreadthFirst = name == "breadth-first";
      if (item.contains(':') &&
          (number.getAsInteger(10, options.turns) || options.turns < 2 || options.turns > mostRanks))
        return refuse("'" + number + "' is not a number of stages of a rank, which are two or more: pipeline has one");
      continue;
    }
    auto *degree = llvm::find_if(degrees, [&](const Degree &each) { return each.name == name; });
    if (degree == std::end(degrees))
      return refuse("'" + name + "' is not known");
    if (degree->isGiven)
      return refuse(name + " is given twice");
    degree->isGiven = true;
    if (!item.contains(':')) {
      if (open)
        return refuse(open->name + " or " + name + " needs a number");
      open = degree;
    } else if (number.getAsInteger(10, degree->ranks) || degree->ranks < 1 || degree->ranks > mostRanks) {
      return refuse("'" + number + "' is not a number of ranks");
    } else {
      product *= degree->ranks;
    }
  }
  bool hasOthers =
      llvm::any_of(degrees, [&](const Degree &degree) { return degree.isGiven != (&degree == &degrees[1]); });
  if (options.heads && (hasOthers || options.sequence))
    return refuse("heads is about ranks that share the tokens of a call, and have all weights: give it beside context "
                  "alone");
  if (options.sequence && !open && !degrees[4].isGiven) {
    degrees[4].isGiven = true; // the ranks that are left
    open = &degrees[4];
  }
  if (options.turns > 1 && !open && !degrees[0].isGiven) {
    degrees[0].isGiven = true; // the ranks that are left
    open = &degrees[0];
  }
  if (open) {
    open->ranks = std::max<int64_t>(options.world / product, 1);
    product *= open->ranks;
  }
  if (product != options.world)
    return refuse("--world=" + Twine(options.world) + " has another number of ranks");
  if (llvm::count_if(ArrayRef(degrees).take_front(3), [](const Degree &degree) { return degree.ranks > 1; }) > 1)
    return refuse("pipeline, context and data are not carried out together; each of them goes with expert and tensor");
  if (options.turns > 1 && degrees[0].ranks == 1)
    return refuse("interleaved and breadth-first are about the stages of a pipeline: give pipeline more than one rank");
  if (options.sequence && degrees[3].ranks * degrees[4].ranks == 1)
    return refuse("sequence is about norms between layers that ranks share: give tensor or expert more than one rank");
  options.stages = degrees[0].ranks;
  options.context = degrees[1].ranks;
  options.data = degrees[2].ranks;
  options.experts = degrees[3].ranks;
  return llvm::Error::success();
}

std::string intarsia::partitionText(const PartitionOptions &options) {
  if (options.stages == 0)
    return "auto";
  int64_t others = options.stages * options.context * options.data * options.experts;
  std::pair<StringRef, int64_t> degrees[] = {{"pipeline", options.stages},
                                             {"context", options.context},
                                             {"data", options.data},
                                             {"expert", options.experts},
                                             {"tensor", options.world / others}};
  std::string text;
  for (auto [name, ranks] : degrees) {
    if (ranks == options.world) {
      text = name;
      break;
    }
    if (ranks > 1)
      text += (text.empty() ? "" : ",") + (name + ":" + Twine(ranks)).str();
  }
  if (options.turns > 1)
    text += ((options.isBreadthFirst ? ",breadth-first:" : ",interleaved:") + Twine(options.turns)).str();
  return text + (options.sequence ? ",sequence" : "") + (options.heads ? ",heads" : "");
}

void intarsia::buildPartitionPipeline(OpPassManager &pipeline, const PartitionOptions &options) {
  if (!options.placements.empty()) {
    partition::PartitionPlaceOptions given;
    given.placements.assign(options.placements.begin(), options.placements.end());
    pipeline.addPass(partition::createPartitionPlace(given));
  }
  if (!options.gpuMemory.empty()) {
    partition::PartitionFitOptions given;
    given.memory = options.gpuMemory;
    pipeline.addPass(partition::createPartitionFit(given));
  }
  pipeline.addPass(partition::createPartitionAddCandidates());
  pipeline.addPass(partition::createPartitionAlternatives());
  pipeline.addPass(partition::createPartitionLayOutCaches());
  addRankPartition(pipeline, options);
  if (options.roundsMessages)
    pipeline.addPass(partition::createPartitionMessages());
}

void intarsia::addRankPartition(OpPassManager &pipeline, const PartitionOptions &options) {
  if ((options.world > 1 && options.stages == 0) || !options.rankLoad.empty()) {
    partition::PartitionSearchOptions given;
    given.world = options.world;
    given.partition = partitionText(options);
    given.speeds.assign(options.speeds.begin(), options.speeds.end());
    given.memory = options.rankMemory;
    given.hosts.assign(options.hosts.begin(), options.hosts.end());
    given.network = options.network;
    given.messages = options.roundsMessages;
    given.loadOption = options.rankLoad;
    given.figures = options.figures;
    pipeline.addPass(partition::createPartitionSearch(given));
    return;
  }
  int64_t rows = options.context * options.data;
  int64_t ranksOfStage = options.world / (std::max<int64_t>(options.stages, 1) * rows);
  if (rows > 1) {
    partition::PartitionRowsOptions given;
    given.world = rows;
    given.kind = options.context > 1 ? "context" : "data";
    given.heads = options.heads;
    pipeline.addPass(partition::createPartitionRows(given));
  }
  if (options.stages > 1) {
    partition::PartitionPipelineOptions given;
    given.world = options.stages;
    given.turns = options.turns;
    given.order = options.isBreadthFirst ? "breadth-first" : "interleaved";
    given.text = partitionText(options);
    given.figures = options.figures;
    for (size_t first = 0; first < options.speeds.size(); first += ranksOfStage)
      given.speeds.push_back(
          std::accumulate(options.speeds.begin() + first, options.speeds.begin() + first + ranksOfStage, 0.0));
    pipeline.addPass(partition::createPartitionPipeline(given));
  }
  if (ranksOfStage > 1) {
    partition::PartitionShardOptions given;
    given.world = ranksOfStage;
    given.experts = options.experts;
    given.text = partitionText(options);
    given.speeds.assign(options.speeds.begin(), options.speeds.end());
    pipeline.addPass(partition::createPartitionShard(given));
    if (options.sequence)
      pipeline.addPass(partition::createPartitionSequence({given.text}));
  }
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  ListOption<std::string> placements{*this, "places", llvm::cl::desc("Which ops run where: GLOB=@device")};
  Option<std::string> gpuMemory{*this, "gpu-memory", llvm::cl::desc("The most memory of the GPU: 8GB")};
  Option<int64_t> world{*this, "world", llvm::cl::desc("Number of ranks"), llvm::cl::init(1)};
  Option<int64_t> stages{*this, "stages", llvm::cl::desc("Parts of neighbouring layers"), llvm::cl::init(1)};
  Option<int64_t> turns{*this, "turns", llvm::cl::desc("Stages of each rank"), llvm::cl::init(1)};
  Option<bool> breadthFirst{*this, "breadth-first", llvm::cl::desc("All parts of a call in each turn"),
                            llvm::cl::init(false)};
  Option<int64_t> experts{*this, "experts", llvm::cl::desc("Groups of ranks with different experts"),
                          llvm::cl::init(1)};
  Option<int64_t> context{*this, "context", llvm::cl::desc("Parts of the tokens of a call"), llvm::cl::init(1)};
  Option<int64_t> data{*this, "data", llvm::cl::desc("Parts of the examples of a batch"), llvm::cl::init(1)};
  Option<bool> sequence{*this, "sequence", llvm::cl::desc("Norms of each rank by rows"), llvm::cl::init(false)};
  Option<bool> heads{*this, "heads", llvm::cl::desc("Attention of each rank by heads"), llvm::cl::init(false)};
  ListOption<double> speeds{*this, "speeds", llvm::cl::desc("Speed of each rank against the others")};
};
} // namespace

void intarsia::registerPartitionPasses() {
  partition::registerPartitionPasses();
  PassPipelineRegistration<PipelineOptions>("intarsia-partition", "The partition phase: ops get their devices",
                                            [](OpPassManager &pipeline, const PipelineOptions &given) {
                                              buildPartitionPipeline(
                                                  pipeline, {{given.placements.begin(), given.placements.end()},
                                                             given.gpuMemory,
                                                             given.world,
                                                             given.stages,
                                                             given.turns,
                                                             given.breadthFirst,
                                                             given.experts,
                                                             given.context,
                                                             given.data,
                                                             given.sequence,
                                                             given.heads,
                                                             "",
                                                             {},
                                                             "",
                                                             {given.speeds.begin(), given.speeds.end()}});
                                            });
}
