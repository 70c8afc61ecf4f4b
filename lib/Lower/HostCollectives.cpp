//===- HostCollectives.cpp - What ranks do together in host programs ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Turns.h"
#include "intarsia/Analysis/GatheredRows.h"
#include "lib/Lower/HostProgram.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::lower {
namespace {

/// What the ranks of a group do, and which of its two sides this rank has.
struct Exchange {
  rt::CollectiveKind kind;
  SmallVector<int64_t> ranks;
  bool hasSource = true, hasDestination = true;
};

/// Returns what an op of the shard dialect is on a rank, together with others of a row of ranks; nullopt for what
/// ranks cannot do.
std::optional<Exchange> exchangeOf(Operation *op, int64_t rank, ArrayRef<int64_t> row) {
  SmallVector<int64_t> all(row);
  using Result = std::optional<Exchange>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](shard::AllReduceOp reduce) -> Result {
        if (reduce.getReduction() == shard::ReductionKind::Sum)
          return Exchange{rt::CollectiveKind::AllReduce, all};
        if (reduce.getReduction() == shard::ReductionKind::Max)
          return Exchange{rt::CollectiveKind::AllReduceMax, all};
        return std::nullopt;
      })
      .Case([&](shard::AllGatherOp gather) -> Result {
        if (!gather.getGatherAxis().isZero())
          return std::nullopt;
        bool isOfRows = gatheredRowsOf(gather) != nullptr;
        return Exchange{isOfRows ? rt::CollectiveKind::AllGatherRows : rt::CollectiveKind::AllGather, all};
      })
      .Case([&](shard::ReduceScatterOp scatter) -> Result {
        if (!scatter.getScatterAxis().isZero() || scatter.getReduction() != shard::ReductionKind::Sum)
          return std::nullopt;
        return Exchange{rt::CollectiveKind::ReduceScatterRows, all};
      })
      .Case([&](shard::AllToAllOp exchange) -> Result {
        if (!exchange.getSplitAxis().isZero() || !exchange.getConcatAxis().isZero())
          return std::nullopt;
        return Exchange{rt::CollectiveKind::AllToAll, all};
      })
      .Case([&](shard::BroadcastOp broadcast) -> Result {
        if (broadcast.getRoot().size() != 1 || !broadcast.getRootDynamic().empty())
          return std::nullopt;
        auto root = all.begin() + broadcast.getRoot().front();
        bool isRoot = *root == rank;
        std::rotate(all.begin(), root, root + 1); // the root comes first
        // The same on all ranks: each of their functions returns it (Stages.cpp).
        bool isResult = llvm::all_of(broadcast->getUsers(), llvm::IsaPred<func::ReturnOp>);
        return Exchange{isResult ? rt::CollectiveKind::BroadcastResult : rt::CollectiveKind::Broadcast, all, isRoot};
      })
      .Case([&](shard::SendOp send) -> Result {
        if (send.getDestination().size() != 1 || !send.getDestinationDynamic().empty())
          return std::nullopt;
        return Exchange{rt::CollectiveKind::Send, {rank, row[send.getDestination().front()]}, true, false};
      })
      .Case([&](shard::RecvOp receive) -> Result {
        if (!receive.getSource() || receive.getSource()->size() != 1 || !receive.getSourceDynamic().empty())
          return std::nullopt;
        return Exchange{rt::CollectiveKind::Receive, {row[receive.getSource()->front()], rank}, false};
      })
      .Default(std::nullopt);
}

} // namespace

/// Returns the device in whose memory ranks exchange what an op of the shard dialect is about; null for the host's. It
/// is a device that runs all of the function, so that the ranks of a group have the same answer: what one of them
/// computes and what another reads is then on their devices. Results of the function are exchanged where callers take
/// them.
DeviceUse *HostProgram::exchangingDevice(Operation *op) {
  if (!onlyDevice || isa<shard::BroadcastOp>(op))
    return nullptr;
  // Where ranks have several stages, the last rank may send a message later. It keeps a copy in memory of the host.
  if (isa<shard::SendOp, shard::RecvOp>(op))
    return rt::turnOf(source).second == 1 ? onlyDevice : nullptr;
  Value result = op->getResult(0);
  if (auto gather = dyn_cast<shard::AllGatherOp>(op))
    if (tensor::ExtractSliceOp rows = gatheredRowsOf(gather))
      result = rows;
  auto isRead = [](Value value, auto &isRead) -> bool {
    return llvm::any_of(value.getUsers(), [&](Operation *user) -> bool {
      return isa<nn::GroupOp>(user) || isa_and_nonnull<shard::ShardDialect>(user->getDialect()) ||
             (isView(*user) && isRead(user->getResult(0), isRead));
    });
  };
  return isRead(result, isRead) ? onlyDevice : nullptr;
}

/// Builds an op of the shard dialect.
LogicalResult HostProgram::runTogether(Operation *op) {
  auto gridName = op->getAttrOfType<FlatSymbolRefAttr>("grid");
  auto grid = gridName ? SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(source, gridName) : shard::GridOp();
  auto axes = op->getAttrOfType<DenseI16ArrayAttr>("grid_axes");
  auto rank = source->getAttrOfType<IntegerAttr>(rt::rankAttr);
  std::optional<Exchange> exchange;
  if (grid && axes && axes.size() == 1) {
    int64_t own = rank ? rank.getInt() : 0;
    exchange = exchangeOf(op, own, rt::rowOfRanks(own, grid.getShape(), axes[0]));
  }
  if (!exchange)
    return op->emitOpError()
           << "is nothing that ranks do together: that is a sum or maximum over a row of them, a sum of which "
              "each gets some rows, a gather or an exchange along the first dimension, a broadcast, and what one sends "
              "to another";
  Value input = op->getOperand(0), result = op->getResult(0), from, to;
  if (grid->hasAttr(rt::messagesAttr) && cast<RankedTensorType>(input.getType()).getElementType().isF32()) {
    if (exchange->kind == rt::CollectiveKind::AllReduce)
      exchange->kind = rt::CollectiveKind::AllReduceInt8;
    if (exchange->kind == rt::CollectiveKind::ReduceScatterRows)
      exchange->kind = rt::CollectiveKind::ReduceScatterRowsInt8;
  }
  bool gathersRows = exchange->kind == rt::CollectiveKind::AllGatherRows;
  if (gathersRows)
    result = gatheredRowsOf(cast<shard::AllGatherOp>(op));
  DeviceUse *device = exchangingDevice(op);
  Attribute memory = device ? device->memory : Attribute();
  SmallVector<Value> after;
  if (exchange->hasSource) {
    FailureOr<Value> buffer = bufferOf(input, memory);
    if (failed(buffer))
      return failure();
    from = *buffer;
    if (Value event = events.lookup({viewRoot(input), memory}))
      after.push_back(event);
  }
  if (exchange->hasDestination && !(to = buffers.lookup({result, memory})))
    to = makeBuffer(result, memory);
  std::string label = labelOf(op->getLoc());
  Value event = rt::CollectiveOp::create(builder, op->getLoc(), rt::EventType::get(builder.getContext()),
                                         exchange->kind, exchange->ranks, device ? device->queue : Value(), after,
                                         dynamicSizes(exchange->hasSource && !gathersRows ? input : result), from, to,
                                         label.empty() ? StringAttr() : builder.getStringAttr(label));
  order.add(event, after);
  homes[result] = memory;
  buffers[{result, memory}] = to ? to : from;
  events[{result, memory}] = event;
  return success();
}

} // namespace intarsia::lower
