//===- HostCollectives.cpp - What ranks do together in host programs ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/HostProgram.h"
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

/// Returns all ranks of a world, `first` before the others.
SmallVector<int64_t> ranksFrom(int64_t first, int64_t world) {
  SmallVector<int64_t> ranks = {first};
  for (int64_t rank = 0; rank < world; ++rank)
    if (rank != first)
      ranks.push_back(rank);
  return ranks;
}

/// Returns what an op of the shard dialect is on a rank; nullopt for what ranks cannot do.
std::optional<Exchange> exchangeOf(Operation *op, int64_t rank, int64_t world) {
  using Result = std::optional<Exchange>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](shard::AllReduceOp reduce) -> Result {
        if (reduce.getReduction() == shard::ReductionKind::Sum)
          return Exchange{rt::CollectiveKind::AllReduce, ranksFrom(0, world)};
        if (reduce.getReduction() == shard::ReductionKind::Max)
          return Exchange{rt::CollectiveKind::AllReduceMax, ranksFrom(0, world)};
        return std::nullopt;
      })
      .Case([&](shard::AllGatherOp gather) -> Result {
        if (!gather.getGatherAxis().isZero())
          return std::nullopt;
        return Exchange{rt::CollectiveKind::AllGather, ranksFrom(0, world)};
      })
      .Case([&](shard::BroadcastOp broadcast) -> Result {
        if (broadcast.getRoot().size() != 1 || !broadcast.getRootDynamic().empty())
          return std::nullopt;
        int64_t root = broadcast.getRoot().front();
        return Exchange{rt::CollectiveKind::Broadcast, ranksFrom(root, world), rank == root};
      })
      .Case([&](shard::SendOp send) -> Result {
        if (send.getDestination().size() != 1 || !send.getDestinationDynamic().empty())
          return std::nullopt;
        return Exchange{rt::CollectiveKind::Send, {rank, send.getDestination().front()}, true, false};
      })
      .Case([&](shard::RecvOp receive) -> Result {
        if (!receive.getSource() || receive.getSource()->size() != 1 || !receive.getSourceDynamic().empty())
          return std::nullopt;
        return Exchange{rt::CollectiveKind::Receive, {receive.getSource()->front(), rank}, false};
      })
      .Default(std::nullopt);
}

} // namespace

/// Builds an op of the shard dialect: its buffers are in the memory of the host.
LogicalResult HostProgram::runTogether(Operation *op) {
  auto gridName = op->getAttrOfType<FlatSymbolRefAttr>("grid");
  auto grid = gridName ? SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(source, gridName) : shard::GridOp();
  auto axes = op->getAttrOfType<DenseI16ArrayAttr>("grid_axes");
  auto rank = source->getAttrOfType<IntegerAttr>(rt::rankAttr);
  std::optional<Exchange> exchange;
  if (grid && grid.getShape().size() == 1 && axes && axes.size() == 1)
    exchange = exchangeOf(op, rank ? rank.getInt() : 0, grid.getShape().front());
  if (!exchange)
    return op->emitOpError()
           << "is nothing that ranks do together: that is a sum or maximum over all of them, a gather "
              "along the first dimension, a broadcast, and what one sends to another";
  Value input = op->getOperand(0), result = op->getResult(0), from, to;
  SmallVector<Value> after;
  if (exchange->hasSource) {
    FailureOr<Value> buffer = bufferOf(input, Attribute());
    if (failed(buffer))
      return failure();
    from = *buffer;
    if (Value event = events.lookup({viewRoot(input), Attribute()}))
      after.push_back(event);
  }
  if (exchange->hasDestination)
    to = makeBuffer(result, Attribute());
  std::string label = labelOf(op->getLoc());
  Value event =
      rt::CollectiveOp::create(builder, op->getLoc(), rt::EventType::get(builder.getContext()), exchange->kind,
                               exchange->ranks, after, dynamicSizes(exchange->hasSource ? input : result), from, to,
                               label.empty() ? StringAttr() : builder.getStringAttr(label));
  order.add(event, after);
  homes[result] = Attribute();
  buffers[{result, Attribute()}] = to ? to : from;
  events[{result, Attribute()}] = event;
  return success();
}

} // namespace intarsia::lower
