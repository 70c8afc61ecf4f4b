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
#include <numeric>

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
    return getOperation().emitError() << "--partition=" << kind.getValue() << (heads ? ",heads" : "") << ": '"
                                      << function.getSymName() << "' " << why;
  }

  /// Returns why ranks cannot have some heads of each cache; nullopt if they can.
  std::optional<std::string> whyNotByHeads(func::FuncOp function) const {
    DenseSet<Value> caches;
    std::optional<std::string> why;
    auto check = [&](Value value, StringRef what) {
      int64_t count = cast<RankedTensorType>(value.getType()).getDimSize(1), most = std::gcd(count, int64_t(world));
      if (count % world != 0 && !why)
        why = llvm::formatv("has {0} heads of {1}, which {2} ranks cannot share evenly{3}", count, what,
                            world.getValue(), most > 1 ? llvm::formatv("; {0} can", most).str() : "");
    };
    for (Operation &op : function.front()) {
      if (auto append = dyn_cast<nn::CacheAppendOp>(op)) {
        caches.insert(append.getCache().begin(), append.getCache().end());
        check(append.getRows(), "keys");
      } else if (auto attention = dyn_cast<nn::CachedAttentionOp>(op)) {
        check(attention.getQuery(), "queries");
      }
    }
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), "nn.state") && !caches.contains(argument) && !why) {
        auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name");
        why = "keeps '" + (name ? name.str() : "") + "', which is no cache of heads";
      }
    return why;
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
    if (heads)
      if (std::optional<std::string> why = whyNotByHeads(function))
        return refuse(function, *why);
    Rows rows(function);
    if (llvm::none_of(function.getArguments(), [&](BlockArgument argument) { return rows.dimensionOf(argument) == 0; }))
      return refuse(function, "has no input whose first size is open, so that no rows can be shared");
    for (Operation &op : function.front()) {
      if (!isWork(&op) || isa<nn::CacheAppendOp>(op) || rows.isOfInputs(op.getResult(0)))
        continue;
      bool readsRows = llvm::any_of(op.getOperands(), [&](Value operand) { return rows.has(operand); });
      bool isOfHeads = heads && isa<nn::CachedAttentionOp>(op);
      std::optional<std::string> why = readsRows && !isOfHeads ? rows.whyNotRowWise(&op) : std::nullopt;
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
      func::FuncOp local = RowsFunction(function, rows, rank, world, heads).build();
      symbols.insert(local, after);
      if (rank == 0) {
        local.walk([&](shard::AllGatherOp) { ++gatherCount; });
        local.walk([&](shard::AllToAllOp) { ++exchangeCount; });
      }
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
    if (heads)
      text = llvm::formatv(
          "{0},heads of {1} ranks: each computes 1/{1} of the rows of a call in {2} op{3}, and attention of "
          "all rows by 1/{1} of the heads, whose caches it has; {4} exchanges between them",
          kind.getValue(), world.getValue(), opCount, opCount == 1 ? "" : "s", exchangeCount);
    if (!reasons.empty()) {
      text += "; computed by each rank: " + reasons.front();
      if (reasons.size() > 1)
        text += " and " + std::to_string(reasons.size() - 1) + " more";
    }
    getOperation().emitRemark() << text;
  }

  int64_t opCount = 0, gatherCount = 0, exchangeCount = 0;
  SmallVector<std::string> reasons; // why something is computed by each rank
};

} // namespace
} // namespace intarsia::partition
