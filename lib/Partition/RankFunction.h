//===- RankFunction.h - The part of a function that one rank runs -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_RANKFUNCTION_H
#define INTARSIA_LIB_PARTITION_RANKFUNCTION_H

#include "dialects/Nn/Nn.h"
#include "lib/Partition/Cuts.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/IRMapping.h"

namespace intarsia::partition {

/// The shard.grid of a split module: its ranks, in one row, or a row for each stage of a pipeline.
inline constexpr llvm::StringLiteral gridName = "world";

/// How ranks share an op that gives whole results of parts.
struct Part {
  enum Kind {
    InputFeatures, ///< each multiplies some features, and results are added (arXiv 1909.08053, section 3)
    OutputFeatures ///< each computes some features, and results are gathered
  } kind;
  llvm::SmallVector<Range> ranges;  ///< of input features, by rank
  llvm::SmallVector<Range> experts; ///< that a rank has, by rank; empty: it has parts of all of them
};

/// Returns the functions of a module that have a body with weights.
llvm::SmallVector<mlir::func::FuncOp> functionsWithWeights(mlir::ModuleOp module);

/// True if a function of a module keeps state, such as the caches of a language model.
bool hasState(mlir::ModuleOp module);

/// Returns the stage that a function is, if it is one.
std::optional<int64_t> stageOf(mlir::func::FuncOp function);

/// Returns the function of a rank of the world, without a body yet.
mlir::func::FuncOp makeRankFunction(mlir::func::FuncOp source, int64_t rank);

/// The heads of a cache that a rank has: from `first` on, of `all` of the model.
struct CacheHeads {
  mlir::StringAttr name;
  int64_t first, all;
};

/// Notes them in the metadata of a rank's function: its artifact says them, so that caches can be handed over to ranks
/// with others.
void noteCacheHeads(mlir::func::FuncOp local, llvm::ArrayRef<CacheHeads> caches);

/// Returns a type with another size of one dimension.
mlir::RankedTensorType withSize(mlir::RankedTensorType type, int64_t dimension, int64_t size);

/// Returns a part of a tensor that weights are packed from.
mlir::Value partOf(mlir::OpBuilder &builder, mlir::Value tensor, int64_t dimension, Range range);

/// Builds the function of one rank: a copy with the parts of the rank, and collectives where parts become whole.
class RankFunction {
public:
  /// `rank` is one of `world` that share the function. If it is a stage's, its own ranks are a row of the grid.
  RankFunction(mlir::func::FuncOp source, const CutValues &values, const llvm::DenseMap<mlir::Operation *, Part> &parts,
               int64_t rank, int64_t world)
      : source(source), values(values), parts(parts), rank(rank), world(world), builder(source.getContext()) {}

  mlir::func::FuncOp build();

private:
  void copy(mlir::Operation &op);
  void copyCut(mlir::Operation &op);
  void addParts(ContractionOpInterface product, const Part &part);
  void addParts(nn::ExpertsOp experts, const Part &part);
  mlir::Value indicesAmong(mlir::Value indices, Range own, int64_t all);
  void gatherParts(ContractionOpInterface product);
  mlir::Value allReduce(mlir::Value partial);
  /// The axis of the grid along which the ranks lie.
  llvm::SmallVector<mlir::shard::GridAxis, 1> axes() const { return {mlir::shard::GridAxis(stageOf(source) ? 1 : 0)}; }
  mlir::Value localOf(mlir::Value value, const Cut &cut);
  mlir::Type localType(mlir::Value value) const;
  void setTypes();
  void noteHeads();

  mlir::func::FuncOp source;
  const CutValues &values;
  const llvm::DenseMap<mlir::Operation *, Part> &parts;
  int64_t rank, world;
  mlir::OpBuilder builder;
  mlir::func::FuncOp local;
  mlir::IRMapping mapping;
};

} // namespace intarsia::partition

#endif
