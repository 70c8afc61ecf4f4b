//===- PartitionSequence.cpp - Norms and residuals on some rows for each rank -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Rt.h"
#include "lib/Partition/RankFunction.h"
#include "lib/Partition/SequenceRegions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONSEQUENCE
#include "lib/Partition/Passes.h.inc"

namespace {

struct PartitionSequence : impl::PartitionSequenceBase<PartitionSequence> {
  using PartitionSequenceBase::PartitionSequenceBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto grid = module.lookupSymbol<shard::GridOp>(gridName);
    SequenceRegions::Counts counts;
    std::string why;
    for (auto function : module.getOps<func::FuncOp>()) {
      std::optional<int64_t> rank = stageOf(function);
      if (!grid || !rank || function.isExternal() || !function.getBody().hasOneBlock())
        continue;
      SequenceRegions regions(function, grid.getShape(), *rank);
      regions.build();
      if (why.empty())
        why = regions.why();
      counts.add(regions.counts());
    }
    if (counts.sums == 0) {
      module.emitError() << "--partition=" << text.getValue() << ": sequence: "
                         << (why.empty() ? "no norm or sum reads what ranks that share layers add up" : why)
                         << "; leave sequence out";
      return signalPassFailure();
    }
    auto plural = [](int64_t count, StringRef what) {
      return llvm::formatv("{0} {1}{2}", count, what, count == 1 ? "" : "s").str();
    };
    module.emitRemark() << llvm::formatv("sequence over {0} ranks: each has 1/{0} of the rows in {1} and {2} beside "
                                         "them; {3} of parts give{4} a rank its "
                                         "rows, {5} bring{6} all rows together",
                                         counts.ranks, plural(counts.norms, "norm"), plural(counts.others, "op"),
                                         plural(counts.sums, "sum"), counts.sums == 1 ? "s" : "",
                                         plural(counts.gathers, "gather"), counts.gathers == 1 ? "s" : "");
  }
};

} // namespace
} // namespace intarsia::partition
