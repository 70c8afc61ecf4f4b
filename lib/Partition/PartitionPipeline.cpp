//===- PartitionPipeline.cpp - Functions become stages of a pipeline ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Rt/DeviceConfigurations.h"
#include "dialects/Rt/Turns.h"
#include "intarsia/Partition/Partition.h"
#include "lib/Partition/KernelTimes.h"
#include "lib/Partition/Layers.h"
#include "lib/Partition/RankFunction.h"
#include "lib/Partition/RankLoad.h"
#include "lib/Partition/Stages.h"
#include "lib/Support/StageOrder.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/FormatVariadic.h"

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
    if (turns < 1 || turns > mostRanks || (order != "interleaved" && order != "breadth-first")) {
      getOperation().emitError() << "partition-pipeline: " << turns.getValue() << " stages of a rank in the order '"
                                 << order << "'; there are 1 to " << mostRanks << ", interleaved or breadth-first";
      return signalPassFailure();
    }
    FailureOr<target::Device> device = target::deviceOf(functions.front());
    if (failed(device))
      return signalPassFailure();
    FailureOr<std::shared_ptr<const CatalogueDevice>> measured = rankFigures(module, figures, *device);
    if (failed(measured))
      return signalPassFailure();
    FailureOr<Layers> layers = Layers::read(module, *device, *device, measured->get());
    if (failed(layers) || failed(chooseStages(*layers)))
      return signalPassFailure();
    remarkNotMeasured(module, figures, layers->notMeasured(), *device);
    SymbolTable symbols(module);
    for (func::FuncOp function : functions)
      if (failed(split(function, symbols)))
        return signalPassFailure();
    OpBuilder builder(module.getBody(), module.getBody()->begin());
    shard::GridOp::create(builder, module.getLoc(), gridName, ArrayRef<int64_t>(int64_t(world)));
  }

private:
  int64_t stageCount() const { return world * turns; }
  bool isBreadthFirst() const { return order == "breadth-first"; }

  LogicalResult chooseStages(const Layers &layers) {
    int64_t count = int64_t(layers.all().size());
    if (count < world)
      return getOperation().emitError() << "--world=" << world.getValue() << " --partition=" << text
                                        << ": the model has " << count << " layers, so that at most " << count
                                        << " ranks have one each";
    if (count < stageCount())
      return getOperation().emitError() << "--world=" << world.getValue() << " --partition=" << text
                                        << ": the model has " << count << " layers, so that each of "
                                        << world.getValue() << " ranks has at most " << count / world << " stages";
    SmallVector<double> times;
    for (const Layer &layer : layers.all())
      times.push_back(layer.hostUs);
    SmallVector<double> ranks(speeds.begin(), speeds.end());
    ranks.resize(world, 1.0);
    SmallVector<double> ofStages;
    for (int64_t stage = 0; stage < stageCount(); ++stage)
      ofStages.push_back(ranks[stage % world]);
    SmallVector<unsigned> begins = wantedStages(layers);
    if (begins.empty())
      begins = cutIntoStages(times, ofStages);
    begins.push_back(unsigned(count));
    std::vector<double> taken(stageCount(), 0);
    for (int64_t stage = 0; stage < stageCount(); ++stage)
      for (unsigned layer = begins[stage]; layer < begins[stage + 1]; ++layer) {
        taken[stage] += times[layer] / ranks[stage % world];
        for (Operation *op : layers.all()[layer].ops)
          stages[op] = stage;
      }
    report(layers, begins, taken);
    return success();
  }

  /// Returns the first layer of each stage as the model has them; none if it does not say, or otherwise than can be: a
  /// stage is neighbouring layers, and each rank has one.
  SmallVector<unsigned> wantedStages(const Layers &layers) {
    SmallVector<unsigned> begins = {0};
    std::string why;
    bool any = false;
    for (auto [number, layer] : llvm::enumerate(layers.all()))
      for (Operation *op : layer.ops) {
        auto wanted = op->getAttrOfType<IntegerAttr>(rt::wantedStageAttr);
        op->removeAttr(rt::wantedStageAttr);
        if (!wanted)
          continue;
        any = true;
        int64_t stage = wanted.getInt(), current = int64_t(begins.size()) - 1;
        if (stage == current + 1 && number > begins.back())
          begins.push_back(unsigned(number));
        else if (stage != current && why.empty())
          why = llvm::formatv("'{0}' is in stage {1}, and layers before it, or a part of it, in stage {2}", layer.name,
                              stage, current);
      }
    if (!any)
      return {};
    if (why.empty() && int64_t(begins.size()) != stageCount())
      why = llvm::formatv("the model has {0} stages, --partition={1} has {2}", begins.size(), text.getValue(),
                          stageCount());
    getOperation()->setAttr(rt::stagesOverruledAttr, StringAttr::get(&getContext(), why));
    return why.empty() ? begins : SmallVector<unsigned>();
  }

  /// Says what each rank has, and for how much of the time of a prompt it waits for others.
  void report(const Layers &layers, ArrayRef<unsigned> begins, const std::vector<double> &taken) {
    constexpr int64_t prompt = 512;
    int64_t part = turns > 1 ? partInTurns(prompt, 1, world, turns) : promptPart(prompt, world);
    int64_t parts = llvm::divideCeil(prompt, part);
    double all = stageOrderTime(stageOrder(parts, world, turns, isBreadthFirst()), taken, world);
    std::string said = llvm::formatv("pipeline of {0} ranks", world.getValue());
    if (turns > 1)
      said += llvm::formatv(" with {0} stages each, {1}", turns.getValue(), order.getValue());
    for (int64_t rank = 0; rank < world; ++rank) {
      double ofRank = 0;
      said += llvm::formatv("\n  rank {0}:", rank);
      for (int64_t stage = rank; stage < stageCount(); stage += world) {
        ofRank += taken[stage];
        said +=
            llvm::formatv(" {0} to {1},", layers.all()[begins[stage]].name, layers.all()[begins[stage + 1] - 1].name);
      }
      said += llvm::formatv(" {0:f1} us for each kernel alone", ofRank);
      if (all > 0 && hasState(getOperation()))
        said += llvm::formatv(", idle for {0:f0} % of a prompt of {1} tokens in parts of {2}",
                              100 * (1 - double(parts) * ofRank / all), prompt, part);
    }
    getOperation().emitRemark() << said;
  }

  LogicalResult split(func::FuncOp function, SymbolTable &symbols) {
    StageOfOps ofOps(function, [&](Operation *op) { return stages.lookup(op); });
    if (turns > 1 && failed(checkTurns(function, ofOps)))
      return failure();
    auto after = std::next(function->getIterator());
    Builder builder(&getContext());
    function->setAttr(rt::stagesAttr, builder.getI64IntegerAttr(world));
    if (turns > 1) {
      function->setAttr(rt::turnsAttr, builder.getI64IntegerAttr(turns));
      function->setAttr(rt::orderAttr, builder.getStringAttr(order));
    }
    for (int64_t stage = 0; stage < stageCount(); ++stage)
      symbols.insert(StageFunction(function, ofOps, stage, world, turns).build(), after);
    symbols.erase(function);
    return success();
  }

  /// Refuses functions that the runtime does not call in parts.
  LogicalResult checkTurns(func::FuncOp function, const StageOfOps &ofOps) {
    if (!hasState(function))
      return function.emitError()
             << "--partition=" << text << ": '" << function.getSymName()
             << "' keeps no caches, so that a call is computed in one piece, for which several stages "
                "of a rank gain nothing: use pipeline alone";
    for (auto [number, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
      if (int64_t owner = ofOps.ownerOf(value);
          !function.getResultAttr(number, "nn.state") && owner >= 0 && owner + 1 != stageCount())
        return function.emitError() << "--partition=" << text << ": result " << number << " of '"
                                    << function.getSymName() << "' is computed by stage " << owner + 1 << " of "
                                    << stageCount() << ", and only the last one gives results: use pipeline alone";
    return success();
  }

  DenseMap<Operation *, int64_t> stages;
};

} // namespace
} // namespace intarsia::partition
