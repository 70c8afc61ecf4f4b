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
  Walk(ArrayRef<func::FuncOp> functions, const target::Device &device, ArrayRef<double> speeds, const Link &link)
      : device(device), speeds(speeds), link(link) {
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
      messages[{rank, receiver}].push_back(ranks[rank].us + link.microseconds(bytes));
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
    auto grid = SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(op, op->getAttrOfType<FlatSymbolRefAttr>("grid"));
    return rt::rowOfRanks(int64_t(rank), grid.getShape(), op->getAttrOfType<DenseI16ArrayAttr>("grid_axes")[0]);
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
      double latest = 0, time = exchangeUs(op, double(row.size()), *models[first]);
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

  double exchangeUs(Operation *op, double count, const WorkModel &model) const {
    double bytes = model.bytes(op->getResult(0));
    if (isa<shard::AllReduceOp>(op))
      return fastestAllReduceUs(count, bytes, link);
    if (auto gather = dyn_cast<shard::AllGatherOp>(op)) {
      tensor::ExtractSliceOp rows = gatheredRowsOf(gather);
      bool haveAll = rows && model.bytes(rows.getResult()) == model.bytes(gather.getInput());
      return haveAll ? 0 : allGatherUs(count, bytes, link); // one row is on each rank
    }
    if (isa<shard::ReduceScatterOp>(op))
      return allGatherUs(count, model.bytes(op->getOperand(0)), link); // the same steps, with sums
    return std::ceil(std::log2(count)) * link.microseconds(bytes);     // a tree of messages
  }

  const target::Device &device;
  ArrayRef<double> speeds;
  const Link &link;
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

RankTimes timesOfRanks(ModuleOp module, const target::Device &device, ArrayRef<double> speeds, const Link &link) {
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
    Walk(functions, device, speeds, link).run(times);
  times.fullestBytes = *llvm::max_element(bytes);
  return times;
}

} // namespace intarsia::partition
