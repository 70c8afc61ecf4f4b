//===- PartitionMessages.cpp - Messages of sums over ranks in 8 bits ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Rt.h"
#include "intarsia/Cost/Cost.h"
#include "lib/Partition/RankFunction.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace intarsia::partition {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_PARTITIONMESSAGES
#include "lib/Partition/Passes.h.inc"

namespace {

/// Bytes of a block of 32 elements in f32 and in a message (lib/Runtime/Collectives/Int8Messages.h).
constexpr double plainBytes = 128, roundedBytes = 36;

struct PartitionMessages : impl::PartitionMessagesBase<PartitionMessages> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t sums = 0;
    double bytes = 0;
    for (auto function : module.getOps<func::FuncOp>()) {
      // All ranks have the same sums, but those of other stages.
      if (function.isExternal() || !stageOf(function))
        continue;
      WorkModel work(function);
      int64_t own = 0;
      double ownBytes = 0;
      function.walk([&](Operation *op) {
        auto reduce = dyn_cast<shard::AllReduceOp>(op);
        bool isSum = isa<shard::ReduceScatterOp>(op) || (reduce && reduce.getReduction() == shard::ReductionKind::Sum);
        if (!isSum || !cast<RankedTensorType>(op->getOperand(0).getType()).getElementType().isF32())
          return;
        ++own;
        ownBytes += 4 * work.elements(op->getOperand(0));
      });
      if (own > sums) {
        sums = own;
        bytes = ownBytes;
      }
    }
    auto grid = module.lookupSymbol<shard::GridOp>(gridName);
    if (!grid || sums == 0) {
      module.emitError() << "--rank-messages=int8: ranks add up no f32: it is for --partition=tensor, expert and what "
                            "goes with them; leave it out";
      return signalPassFailure();
    }
    Builder builder(&getContext());
    grid->setAttr(rt::messagesAttr, builder.getStringAttr("int8"));
    double rounded = bytes * roundedBytes / plainBytes;
    auto field = [&](StringRef name, int64_t value) {
      return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
    };
    module->setAttr(rt::messagesAttr,
                    builder.getArrayAttr({builder.getDictionaryAttr(
                        {builder.getNamedAttr("messages", builder.getStringAttr("int8")), field("sums", sums),
                         field("f32_bytes", int64_t(bytes)), field("int8_bytes", int64_t(rounded))})}));
    module.emitRemark() << llvm::formatv("messages between hosts in 8 bits: {0} sum{1} of a rank, {2:f1} KB instead of "
                                         "{3:f1} KB at the expected sizes; nothing is rounded on one host",
                                         sums, sums == 1 ? "" : "s", rounded / 1e3, bytes / 1e3);
  }
};

} // namespace
} // namespace intarsia::partition
