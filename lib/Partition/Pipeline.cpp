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

llvm::Expected<int64_t> intarsia::parsePartition(StringRef text, int64_t world) {
  if (text == "auto")
    return 0;
  int64_t stages = 0, ranksOfStage = 0; // 0: not given
  auto refuse = [&](const Twine &why) {
    return llvm::createStringError("--partition=" + text + ": " + why +
                                   "; it is tensor, pipeline, both with a number, as in pipeline:2,tensor:2, or auto");
  };
  bool isTensor = false, isPipeline = false;
  for (StringRef item : llvm::split(text, ',')) {
    auto [name, number] = item.split(':');
    bool &isKnown = name == "tensor" ? isTensor : isPipeline;
    int64_t &degree = name == "tensor" ? ranksOfStage : stages;
    if (name != "tensor" && name != "pipeline")
      return refuse("'" + name + "' is not known");
    if (isKnown)
      return refuse(name + " is given twice");
    isKnown = true;
    if (item.contains(':') && (number.getAsInteger(10, degree) || degree < 1))
      return refuse("'" + number + "' is not a number of ranks");
  }
  if (!isPipeline)
    stages = 1;
  if (!isTensor)
    ranksOfStage = 1;
  if (stages == 0 && ranksOfStage == 0)
    return refuse("one of the two needs a number");
  if (stages == 0)
    stages = world / ranksOfStage;
  if (ranksOfStage == 0)
    ranksOfStage = world / stages;
  if (stages * ranksOfStage != world)
    return refuse("--world=" + Twine(world) + " has another number of ranks");
  return stages;
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
}

void intarsia::addRankPartition(OpPassManager &pipeline, const PartitionOptions &options) {
  if (options.world > 1 && options.stages == 0) {
    partition::PartitionSearchOptions given;
    given.world = options.world;
    given.speeds.assign(options.speeds.begin(), options.speeds.end());
    given.memory = options.rankMemory;
    pipeline.addPass(partition::createPartitionSearch(given));
    return;
  }
  int64_t ranksOfStage = options.world / std::max<int64_t>(options.stages, 1);
  if (options.stages > 1) {
    partition::PartitionPipelineOptions given;
    given.world = options.stages;
    for (size_t first = 0; first < options.speeds.size(); first += ranksOfStage)
      given.speeds.push_back(
          std::accumulate(options.speeds.begin() + first, options.speeds.begin() + first + ranksOfStage, 0.0));
    pipeline.addPass(partition::createPartitionPipeline(given));
  }
  if (ranksOfStage > 1) {
    partition::PartitionShardOptions given;
    given.world = ranksOfStage;
    given.speeds.assign(options.speeds.begin(), options.speeds.end());
    pipeline.addPass(partition::createPartitionShard(given));
  }
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  ListOption<std::string> placements{*this, "places", llvm::cl::desc("Which ops run where: GLOB=@device")};
  Option<std::string> gpuMemory{*this, "gpu-memory", llvm::cl::desc("The most memory of the GPU: 8GB")};
  Option<int64_t> world{*this, "world", llvm::cl::desc("Number of ranks"), llvm::cl::init(1)};
  Option<int64_t> stages{*this, "stages", llvm::cl::desc("Parts of neighbouring layers"), llvm::cl::init(1)};
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
                                                             "",
                                                             {given.speeds.begin(), given.speeds.end()}});
                                            });
}
