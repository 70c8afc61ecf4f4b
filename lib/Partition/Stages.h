//===- Stages.h - Layers in a row of ranks ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_STAGES_H
#define INTARSIA_LIB_PARTITION_STAGES_H

#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace intarsia::partition {

/// Cuts a row of layers into stages, one for each speed, none of them empty: returns where each begins. The slowest
/// stage takes as little time as it can, its layers' time divided by its speed; of the cuts with such a slowest stage
/// it is the most even one. There are at least as many layers as speeds.
llvm::SmallVector<unsigned> cutIntoStages(llvm::ArrayRef<double> layerTimes, llvm::ArrayRef<double> speeds);

/// The stage of each op that computes something; `everywhere` for what every rank computes itself.
class StageOfOps {
public:
  static constexpr int64_t everywhere = -1;

  /// Reads the stage of each op from `stageOf`. What is computed of inputs alone, without weights and states, is
  /// computed everywhere.
  StageOfOps(mlir::func::FuncOp function, llvm::function_ref<int64_t(mlir::Operation *)> stageOf);
  /// Returns nullopt for views, weights, constants and sizes, which are wherever they are read.
  std::optional<int64_t> lookup(mlir::Operation *op) const;
  /// The stage that computes what a value is, or is a view of.
  int64_t ownerOf(mlir::Value value) const;
  /// The stages that read a value, in its own or another shape.
  llvm::ArrayRef<int64_t> readersOf(mlir::Value value) const;

private:
  llvm::DenseMap<mlir::Operation *, int64_t> stages;
  llvm::DenseMap<mlir::Value, llvm::SmallSetVector<int64_t, 4>> readers;
};

/// Builds the function of one stage: its ops, with what it gets from stages before it and sends to those behind it.
/// Everything is received before anything is computed, and sent when all of it is: ranks that form a circle then make
/// their exchanges in one order (StageCalls.h). Where `ranks` have several stages each, stage s is of rank s mod ranks.
/// All ranks return all results, in the function of their last stage; states are those of the stage alone.
class StageFunction {
public:
  StageFunction(mlir::func::FuncOp source, const StageOfOps &stages, int64_t stage, int64_t ranks, int64_t turns)
      : source(source), stages(stages), stage(stage), ranks(ranks), turns(turns), sizes(source),
        builder(source.getContext()),
        sizeValues(builder.getIndexType(), [this](mlir::AffineExpr size) { return symbolValue(size); }) {}

  mlir::func::FuncOp build();

private:
  void copy(mlir::Operation &op);
  template <typename Action> void forEachExchanged(Action action);
  void receive(mlir::Value value);
  void send(mlir::Value value);
  mlir::Value local(mlir::Value value);
  mlir::Value emptyLike(mlir::Value value);
  mlir::Value symbolValue(mlir::AffineExpr size);
  void finish(mlir::Operation *end);
  void eraseForeignStates();
  void dropForeignSizes();
  mlir::func::FuncOp source;
  const StageOfOps &stages;
  int64_t stage, ranks, turns;
  SymbolicSizes sizes;
  mlir::OpBuilder builder;
  SizeMaterializer sizeValues;
  mlir::func::FuncOp result;
  mlir::IRMapping mapping;
};

} // namespace intarsia::partition

#endif
