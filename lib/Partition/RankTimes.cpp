//===- RankTimes.cpp - What a module that is split over ranks takes ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/RankTimes.h"

#include "intarsia/Analysis/FunctionCaches.h"
#include "intarsia/Analysis/GatheredRows.h"
#include "intarsia/Cost/Cost.h"
#include "lib/Partition/Layers.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <cmath>
#include <deque>
#include <map>

using namespace mlir;

namespace intarsia::partition {
namespace {

/// The functions of all ranks that stand for one function of the model, run together.
class Walk {
public:
  Walk(ArrayRef<func::FuncOp> functions, const target::Device &device, ArrayRef<double> speeds, const RankLinks &links)
      : device(device), speeds(speeds), links(links) {
    for (func::FuncOp function : functions) {
      models.push_back(std::make_unique<WorkModel>(function));
      SmallVector<Operation *> ops;
      for (Operation &op : function.front())
        if (isa_and_nonnull<shard::ShardDialect>(op.getDialect()) || isWork(&op))
          ops.push_back(&op);
      programs.push_back(std::move(ops));
    }
    ranks.resize(functions.size());
  }

  /// Adds to the times; stops where ranks wait for each other, which the verifier of exchanges refuses later.
  void run(RankTimes &times) {
    bool moves = true;
    while (moves) {
      moves = false;
      for (size_t rank = 0; rank < ranks.size(); ++rank)
        while (ranks[rank].next < programs[rank].size() && step(rank))
          moves = true;
      moves |= exchangeAll();
    }
    double last = 0, exchanges = 0;
    for (const Rank &rank : ranks) {
      last = std::max(last, rank.us);
      exchanges = std::max(exchanges, rank.exchangesUs);
    }
    times.us += last;
    times.exchangesUs += exchanges;
  }

private:
  struct Rank {
    size_t next = 0; ///< op of its program
    double us = 0, exchangesUs = 0;
  };

  void waitUntil(size_t rank, double us) {
    if (us > ranks[rank].us)
      ranks[rank].exchangesUs += us - ranks[rank].us;
    ranks[rank].us = std::max(ranks[rank].us, us);
  }

  /// Runs the next op of a rank; returns false if it waits for others.
  bool step(size_t rank) {
    Operation *op = programs[rank][ranks[rank].next];
    if (auto send = dyn_cast<shard::SendOp>(op)) {
      double bytes = models[rank]->bytes(send.getInput());
      size_t receiver = rowOf(rank, op)[send.getDestination().front()];
      bool isOnHost = links.hostOf(rank) == links.hostOf(receiver);
      double us = isOnHost ? links.memory.microseconds(bytes) : networkOf(rank, op).microseconds(bytes);
      messages[{rank, receiver}].push_back(ranks[rank].us + us);
    } else if (auto receive = dyn_cast<shard::RecvOp>(op)) {
      size_t sender = rowOf(rank, op)[receive.getSource()->front()];
      std::deque<double> &queue = messages[{sender, rank}];
      if (queue.empty())
        return false;
      waitUntil(rank, queue.front());
      queue.pop_front();
    } else if (isa_and_nonnull<shard::ShardDialect>(op->getDialect())) {
      return false;
    } else {
      double us = device.model->microseconds(models[rank]->work(rootOf(op), op));
      ranks[rank].us += us / speeds[rank];
    }
    ++ranks[rank].next;
    return true;
  }

  /// Returns the exchange that a rank has come to, in which all of its row take part; null if it has come to none.
  Operation *exchangeOf(size_t rank) const {
    if (ranks[rank].next == programs[rank].size())
      return nullptr;
    Operation *op = programs[rank][ranks[rank].next];
    bool isExchange = isa_and_nonnull<shard::ShardDialect>(op->getDialect()) && !isa<shard::SendOp, shard::RecvOp>(op);
    return isExchange ? op : nullptr;
  }

  /// The ranks that an op of a rank is about: those of a row along its axis of the grid.
  SmallVector<int64_t> rowOf(size_t rank, Operation *op) const {
    return rt::rowOfRanks(int64_t(rank), shapeOf(op), op->getAttrOfType<DenseI16ArrayAttr>("grid_axes")[0]);
  }

  static ArrayRef<int64_t> shapeOf(Operation *op) {
    auto name = op->getAttrOfType<FlatSymbolRefAttr>("grid");
    return SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(op, name).getShape();
  }

  /// The network as one of the rows sees it that leave the rank's host for an exchange: they share its adapter.
  Link networkOf(size_t rank, Operation *op) const {
    int64_t leaving = 0, host = links.hostOf(int64_t(rank));
    for (size_t first = 0; first < ranks.size(); ++first) {
      SmallVector<int64_t> row = rowOf(first, op);
      auto isHere = [&](int64_t member) { return links.hostOf(member) == host; };
      leaving += row.front() == int64_t(first) && llvm::any_of(row, isHere) && !llvm::all_of(row, isHere);
    }
    return {links.network.alphaUs, links.network.gigabytesPerSecond / double(std::max<int64_t>(leaving, 1))};
  }

  /// Runs the exchanges that all ranks of a row have come to; returns false if there is none.
  bool exchangeAll() {
    bool isAny = false;
    for (size_t first = 0; first < ranks.size(); ++first) {
      Operation *op = exchangeOf(first);
      SmallVector<int64_t> row = op ? rowOf(first, op) : SmallVector<int64_t>();
      if (row.empty() || row.front() != int64_t(first))
        continue;
      bool areThere = llvm::all_of(row, [&](int64_t rank) {
        Operation *own = exchangeOf(rank);
        return own && rowOf(rank, own) == row;
      });
      if (!areThere)
        continue;
      double latest = 0, time = exchangeUs(op, row, *models[first]);
      for (int64_t rank : row)
        latest = std::max(latest, ranks[rank].us);
      for (int64_t rank : row) {
        waitUntil(rank, latest + time);
        ++ranks[rank].next;
      }
      isAny = true;
    }
    return isAny;
  }

  double exchangeUs(Operation *op, ArrayRef<int64_t> row, const WorkModel &model) const {
    std::map<int64_t, double> members; // by host
    for (int64_t rank : row)
      ++members[links.hostOf(rank)];
    double most = 0; // ranks of a host
    for (auto [host, count] : members)
      most = std::max(most, count);
    double us = most > 1 ? onHostUs(op, most, model) : 0;
    return members.size() == 1 ? us : us + betweenHostsUs(op, row, double(members.size()), most, model);
  }

  /// Bytes of what all ranks have after an exchange, or of the sum that each gets a part of; 0 if nothing is exchanged.
  static double bytesOf(Operation *op, const WorkModel &model) {
    if (auto gather = dyn_cast<shard::AllGatherOp>(op)) {
      tensor::ExtractSliceOp rows = gatheredRowsOf(gather);
      if (rows && model.bytes(rows.getResult()) == model.bytes(gather.getInput()))
        return 0; // one row is on each rank
    }
    return model.bytes(isa<shard::ReduceScatterOp>(op) ? op->getOperand(0) : op->getResult(0));
  }

  double onHostUs(Operation *op, double count, const WorkModel &model) const {
    double bytes = bytesOf(op, model);
    if (isa<shard::AllReduceOp>(op))
      return fastestAllReduceUs(count, bytes, links.memory);
    if (isa<shard::AllGatherOp, shard::ReduceScatterOp, shard::AllToAllOp>(op)) // the same steps, some with sums
      return bytes == 0 ? 0 : allGatherUs(count, bytes, links.memory);
    return std::ceil(std::log2(count)) * links.memory.microseconds(bytes); // a tree of messages
  }

  /// Returns the time of an exchange between hosts. The first rank of each host takes part in it and gives the result
  /// to the others of its host (lib/Runtime/Collectives/HostOperations.cpp).
  double betweenHostsUs(Operation *op, ArrayRef<int64_t> row, double hosts, double most, const WorkModel &model) const {
    double bytes = bytesOf(op, model);
    if (bytes == 0)
      return 0;
    Link network = networkOf(row.front(), op);
    for (int64_t rank : row) // the adapter that most share
      if (Link other = networkOf(rank, op); other.gigabytesPerSecond < network.gigabytesPerSecond)
        network = other;
    double others = hosts - 1, share = most / double(row.size());
    double after = most > 1 ? std::ceil(std::log2(most)) * links.memory.microseconds(bytes) : 0;
    bool isSum = isa<shard::AllReduceOp, shard::ReduceScatterOp>(op);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    double sent = isSum && links.roundsMessages && type.getElementType().isF32() ? bytes * 36 / 128 : bytes;
    if (isa<shard::AllReduceOp>(op)) // short ones go to all hosts at once, others by pieces
      return after + (bytes <= mostBytesAtOnce ? network.microseconds(others * sent)
                                               : 2 * network.microseconds(others / hosts * sent));
    if (isa<shard::AllToAllOp>(op)) // each rank sends its parts itself
      return most > 1 ? after + network.microseconds(others / hosts * most * sent)
                      : network.microseconds(others / hosts * sent);
    if (isa<shard::ReduceScatterOp>(op))
      return after + network.microseconds(others / hosts * sent);
    if (isa<shard::AllGatherOp>(op)) // each host sends its part to the others
      return after + network.microseconds(others * share * sent);
    return after + network.microseconds(others * sent);
  }

  /// Up to so many bytes hosts send each other all of what they add up (HostOperations.cpp).
  static constexpr double mostBytesAtOnce = 65536;

  const target::Device &device;
  ArrayRef<double> speeds;
  const RankLinks &links;
  std::vector<std::unique_ptr<WorkModel>> models;
  std::vector<SmallVector<Operation *>> programs;
  std::vector<Rank> ranks;
  std::map<std::pair<size_t, size_t>, std::deque<double>> messages; ///< by sender and receiver: when they are there
};

/// Returns the bytes that are stored for a function: operands of ops that run, known at compile time, as they are
/// packed.
double weightBytes(func::FuncOp function) {
  WorkModel model(function);
  DenseSet<Value> stored;
  double bytes = 0;
  for (Operation &op : function.front())
    if (isWork(&op))
      for (Value operand : op.getOperands())
        if (isa<RankedTensorType>(operand.getType()) && isCompileTime(operand) && stored.insert(operand).second)
          bytes += model.bytes(operand);
  return bytes;
}

/// Caches of one sequence with as many tokens as positions may count.
double cacheBytes(func::FuncOp function) {
  int64_t tokens = 1;
  for (unsigned number = 0; number < function.getNumArguments(); ++number)
    if (auto name = function.getArgAttrOfType<StringAttr>(number, "nn.name"); name && name.getValue() == "positions")
      if (auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(number, "nn.range"))
        tokens = range[1];
  FailureOr<SmallVector<FunctionCache>> caches = findCaches(function);
  if (failed(caches))
    return 0;
  double bytes = 0;
  for (const FunctionCache &cache : *caches)
    for (Value tensor : cache.tensors) {
      auto type = cast<RankedTensorType>(tensor.getType());
      double elements = 1;
      for (int64_t size : type.getShape())
        elements *= ShapedType::isDynamic(size)
                        ? double(llvm::divideCeil(tokens, std::max<int64_t>(cache.format.getPage(), 1)))
                        : double(size);
      bytes += elements * type.getElementTypeBitWidth() / 8;
    }
  return bytes;
}

} // namespace

RankTimes timesOfRanks(ModuleOp module, const target::Device &device, ArrayRef<double> speeds, const RankLinks &links) {
  RankTimes times;
  llvm::MapVector<Attribute, SmallVector<func::FuncOp>> families;
  SmallVector<double> bytes(speeds.size(), 0);
  for (auto function : module.getOps<func::FuncOp>()) {
    auto rank = function->getAttrOfType<IntegerAttr>("rt.rank");
    if (function.isExternal())
      continue;
    SmallVector<func::FuncOp> &family =
        families[rank ? function->getAttr("rt.alternative") : Attribute(function.getSymNameAttr())];
    family.push_back(function);
    for (auto [number, sum] : llvm::enumerate(bytes))
      if (!rank || rank.getInt() == int64_t(number))
        sum += weightBytes(function) + cacheBytes(function);
  }
  for (auto &[name, functions] : families)
    Walk(functions, device, speeds, links).run(times);
  times.fullestBytes = *llvm::max_element(bytes);
  return times;
}

} // namespace intarsia::partition
