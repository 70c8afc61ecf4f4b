//===- Pipeline.cpp - The partition phase, pass by pass ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Rt.h"
#include "intarsia/Partition/Partition.h"
#include "mlir/Pass/PassRegistry.h"

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Partition/Passes.h.inc"
} // namespace intarsia::partition

using namespace mlir;
using namespace intarsia;

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
  if (options.world > 1 && options.kind == PartitionKind::Auto) {
    partition::PartitionSearchOptions given;
    given.world = options.world;
    given.speeds.assign(options.speeds.begin(), options.speeds.end());
    given.memory = options.rankMemory;
    pipeline.addPass(partition::createPartitionSearch(given));
    return;
  }
  if (options.world > 1 && options.kind == PartitionKind::Pipeline) {
    partition::PartitionPipelineOptions given;
    given.world = options.world;
    given.speeds.assign(options.speeds.begin(), options.speeds.end());
    pipeline.addPass(partition::createPartitionPipeline(given));
  } else if (options.world > 1) {
    partition::PartitionShardOptions given;
    given.world = options.world;
    given.speeds.assign(options.speeds.begin(), options.speeds.end());
    pipeline.addPass(partition::createPartitionShard(given));
  }
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  ListOption<std::string> placements{*this, "places", llvm::cl::desc("Which ops run where: GLOB=@device")};
  Option<std::string> gpuMemory{*this, "gpu-memory", llvm::cl::desc("The most memory of the GPU: 8GB")};
  Option<int64_t> world{*this, "world", llvm::cl::desc("Number of ranks"), llvm::cl::init(1)};
  Option<bool> stages{*this, "stages", llvm::cl::desc("Give ranks whole layers"), llvm::cl::init(false)};
  ListOption<double> speeds{*this, "speeds", llvm::cl::desc("Speed of each rank against the others")};
};
} // namespace

void intarsia::registerPartitionPasses() {
  partition::registerPartitionPasses();
  PassPipelineRegistration<PipelineOptions>(
      "intarsia-partition", "The partition phase: ops get their devices",
      [](OpPassManager &pipeline, const PipelineOptions &given) {
        buildPartitionPipeline(pipeline, {{given.placements.begin(), given.placements.end()},
                                          given.gpuMemory,
                                          given.world,
                                          given.stages ? PartitionKind::Pipeline : PartitionKind::Tensor,
                                          "",
                                          {given.speeds.begin(), given.speeds.end()}});
      });
}
