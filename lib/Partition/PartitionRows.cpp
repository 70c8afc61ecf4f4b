//===- PartitionRows.cpp - Functions become parts of calls -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "lib/Partition/Layers.h"
#include "lib/Partition/RankFunction.h"
#include "lib/Partition/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONROWS
#include "lib/Partition/Passes.h.inc"

namespace {

struct PartitionRows : impl::PartitionRowsBase<PartitionRows> {
  using PartitionRowsBase::PartitionRowsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (world < 2)
      return;
    SmallVector<func::FuncOp> functions = functionsWithWeights(module);
    SymbolTable symbols(module);
    for (func::FuncOp function : functions)
      if (failed(split(function, symbols)))
        return signalPassFailure();
    if (functions.empty())
      return;
    OpBuilder builder(module.getBody(), module.getBody()->begin());
    shard::GridOp::create(builder, module.getLoc(), gridName, ArrayRef<int64_t>(int64_t(world)));
    report();
  }

private:
  LogicalResult refuse(func::FuncOp function, const Twine &why) {
    return getOperation().emitError() << "--partition=" << kind.getValue() << ": '" << function.getSymName() << "' "
                                      << why;
  }

  LogicalResult split(func::FuncOp function, SymbolTable &symbols) {
    bool hasStates = false;
    for (unsigned number = 0; number < function.getNumArguments(); ++number)
      hasStates |= bool(function.getArgAttr(number, "nn.state"));
    if (hasStates && kind == "data")
      return refuse(function, "keeps caches of sequences, so that ranks share the tokens of a call: use context");
    if (!hasStates && kind == "context")
      return refuse(function, "keeps no caches of a context, so that ranks share the examples of a batch: use data");
    if (!function.getBody().hasOneBlock() ||
        llvm::any_of(function.front(), [](Operation &op) { return isa<RegionBranchOpInterface>(op); }))
      return refuse(function, "has control flow, which is not split by rows");
    Rows rows(function);
    if (llvm::none_of(function.getArguments(), [&](BlockArgument argument) { return rows.dimensionOf(argument) == 0; }))
      return refuse(function, "has no input whose first size is open, so that no rows can be shared");
    for (Operation &op : function.front()) {
      if (!isWork(&op) || isa<nn::CacheAppendOp>(op) || rows.isOfInputs(op.getResult(0)))
        continue;
      bool readsRows = llvm::any_of(op.getOperands(), [&](Value operand) { return rows.has(operand); });
      std::optional<std::string> why = readsRows ? rows.whyNotRowWise(&op) : std::nullopt;
      if (why)
        reasons.push_back(*why);
      else if (readsRows)
        ++opCount;
    }
    if (opCount == 0)
      return refuse(function,
                    "has nothing that can be split by rows" + (reasons.empty() ? "" : ": " + reasons.front()));
    auto after = std::next(function->getIterator());
    for (int64_t rank = 0; rank < world; ++rank) {
      func::FuncOp local = RowsFunction(function, rows, rank, world).build();
      symbols.insert(local, after);
      if (rank == 0)
        local.walk([&](shard::AllGatherOp) { ++gatherCount; });
    }
    symbols.erase(function);
    return success();
  }

  void report() {
    std::string text = llvm::formatv(
        "{0} of {1} ranks: each computes 1/{1} of the rows of a call in {2} op{3}; {4} gather{5} all rows "
        "for caches and results",
        kind.getValue(), world.getValue(), opCount, opCount == 1 ? "" : "s", gatherCount,
        gatherCount == 1 ? " brings" : "s bring");
    if (!reasons.empty()) {
      text += "; computed by each rank: " + reasons.front();
      if (reasons.size() > 1)
        text += " and " + std::to_string(reasons.size() - 1) + " more";
    }
    getOperation().emitRemark() << text;
  }

  int64_t opCount = 0, gatherCount = 0;
  SmallVector<std::string> reasons; // why something is computed by each rank
};

} // namespace
} // namespace intarsia::partition
