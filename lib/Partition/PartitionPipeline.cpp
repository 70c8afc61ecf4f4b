//===- PartitionPipeline.cpp - Functions become stages of a pipeline ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "lib/Partition/Layers.h"
#include "lib/Partition/RankFunction.h"
#include "lib/Partition/Stages.h"
#include "lib/Support/PromptParts.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONPIPELINE
#include "lib/Partition/Passes.h.inc"

namespace {

struct PartitionPipeline : impl::PartitionPipelineBase<PartitionPipeline> {
  using PartitionPipelineBase::PartitionPipelineBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (world < 2)
      return;
    SmallVector<func::FuncOp> functions = functionsWithWeights(module);
    if (functions.empty())
      return;
    FailureOr<target::Device> device = target::deviceOf(functions.front());
    if (failed(device))
      return signalPassFailure();
    FailureOr<Layers> layers = Layers::read(module, *device, *device);
    if (failed(layers) || failed(chooseStages(*layers)))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (func::FuncOp function : functions)
      split(function, symbols);
    OpBuilder builder(module.getBody(), module.getBody()->begin());
    shard::GridOp::create(builder, module.getLoc(), gridName, ArrayRef<int64_t>(int64_t(world)));
  }

private:
  LogicalResult chooseStages(const Layers &layers) {
    size_t count = layers.all().size();
    if (count < size_t(world))
      return getOperation().emitError() << "--world=" << world.getValue() << " --partition=pipeline: the model has "
                                        << count << " layers, so that at most " << count << " ranks have one each";
    SmallVector<double> times;
    for (const Layer &layer : layers.all())
      times.push_back(layer.hostUs);
    SmallVector<double> ranks(speeds.begin(), speeds.end());
    ranks.resize(world, 1.0);
    SmallVector<unsigned> begins = cutIntoStages(times, ranks);
    begins.push_back(count);
    SmallVector<double> ofRanks(world, 0);
    for (int64_t stage = 0; stage < world; ++stage)
      for (unsigned layer = begins[stage]; layer < begins[stage + 1]; ++layer) {
        ofRanks[stage] += times[layer] / ranks[stage];
        for (Operation *op : layers.all()[layer].ops)
          stages[op] = stage;
      }
    // The slowest stage sets the pace of the parts of a prompt; the first part also has to pass through all stages.
    constexpr int64_t prompt = 512;
    int64_t part = promptPart(prompt, world), parts = llvm::divideCeil(prompt, part);
    double all = std::accumulate(ofRanks.begin(), ofRanks.end(), 0.0) + (parts - 1) * *llvm::max_element(ofRanks);
    std::string text = llvm::formatv("pipeline of {0} ranks", world.getValue());
    for (int64_t stage = 0; stage < world; ++stage) {
      text += llvm::formatv("\n  rank {0}: {1} to {2}, {3:f1} us for each kernel alone", stage,
                            layers.all()[begins[stage]].name, layers.all()[begins[stage + 1] - 1].name, ofRanks[stage]);
      if (all > 0 && hasState(getOperation()))
        text += llvm::formatv(", idle for {0:f0} % of a prompt of {1} tokens in parts of {2}",
                              100 * (1 - double(parts) * ofRanks[stage] / all), prompt, part);
    }
    getOperation().emitRemark() << text;
    return success();
  }

  void split(func::FuncOp function, SymbolTable &symbols) {
    StageOfOps ofOps(function, [&](Operation *op) { return stages.lookup(op); });
    auto after = std::next(function->getIterator());
    function->setAttr(rt::stagesAttr, Builder(&getContext()).getI64IntegerAttr(world));
    for (int64_t rank = 0; rank < world; ++rank)
      symbols.insert(StageFunction(function, ofOps, rank).build(), after);
    symbols.erase(function);
  }

  DenseMap<Operation *, int64_t> stages;
};

} // namespace
} // namespace intarsia::partition
