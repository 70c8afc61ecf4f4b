//===- RankTimes.cpp - What a module that is split over ranks takes ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/RankTimes.h"

#include "dialects/Rt/Turns.h"
#include "intarsia/Analysis/FunctionCaches.h"
#include "intarsia/Analysis/GatheredRows.h"
#include "intarsia/Cost/Cost.h"
#include "lib/Partition/KernelTimes.h"
#include "lib/Partition/Layers.h"
#include "lib/Partition/RankLoad.h"
#include "lib/Support/StageOrder.h"
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

/// When the ranks are done with something, and the most that one of them has spent in exchanges or waiting by then.
struct Moment {
  double us = 0, exchangesUs = 0;

  Moment operator-(const Moment &earlier) const { return {us - earlier.us, exchangesUs - earlier.exchangesUs}; }
  Moment operator+(const Moment &more) const { return {us + more.us, exchangesUs + more.exchangesUs}; }
  Moment operator*(double count) const { return {us * count, exchangesUs * count}; }
};

/// The functions of all ranks that stand for one function of the model, and the work of their ops. Ranks that have
/// equal parts of the same layers do the same work, which is looked at once.
class Family {
public:
  Family(ArrayRef<func::FuncOp> functions, const target::Device &device, const CatalogueDevice *measured)
      : functions(functions) {
    std::map<std::vector<const void *>, size_t> known;
    for (size_t number = 0; number < functions.size(); ++number) {
      func::FuncOp function = functions[number];
      SmallVector<Operation *> ops;
      for (Operation &op : function.front())
        if (isa_and_nonnull<shard::ShardDialect>(op.getDialect()) || isWork(&op))
          ops.push_back(&op);
      auto [same, isNew] = known.try_emplace(workOf(function, ops), number);
      if (isNew)
        times.try_emplace(function, std::make_unique<KernelTimes>(function, device, measured));
      else
        for (auto [op, first] : llvm::zip_equal(ops, bodies[same->second]))
          firsts[op] = first;
      firstFunctions[function] = functions[same->second];
      bodies.push_back(std::move(ops));
    }
  }

  ArrayRef<func::FuncOp> all() const { return functions; }
  /// Ops that run or exchange something, of each function.
  ArrayRef<SmallVector<Operation *>> ops() const { return bodies; }
  /// Returns the op, or one of another rank that does the same work.
  Operation *firstOf(Operation *op) const {
    Operation *first = firsts.lookup(op);
    return first ? first : op;
  }
  func::FuncOp firstOf(func::FuncOp function) const { return firstFunctions.lookup(function); }
  const KernelTimes &timesOf(Operation *op) const { return *times.find(firstOf(op)->getParentOp())->second; }
  const WorkModel &modelOf(func::FuncOp function) const { return times.find(firstOf(function))->second->model(); }

  /// Lets the functions be called with other sizes.
  void expect(const CallSizes &sizes) {
    for (func::FuncOp function : functions)
      expectSizes(function, sizes);
    for (auto &[function, known] : times)
      known->readExpected(cast<func::FuncOp>(function));
  }

  /// Adds what had no measured times.
  void addNotMeasured(llvm::StringSet<> &names) const {
    for (const auto &[function, known] : times)
      for (const auto &name : known->notMeasured())
        names.insert(name.getKey());
  }

private:
  /// Returns all that the work of a function depends on: where its ops stand in the model, their types, and the ops
  /// that compute sizes. It does not say which part of a weight a rank has.
  static std::vector<const void *> workOf(func::FuncOp function, ArrayRef<Operation *> ops) {
    std::vector<const void *> work;
    auto addTypes = [&](TypeRange types) {
      for (Type type : types)
        work.push_back(type.getAsOpaquePointer());
    };
    for (Operation *op : ops) {
      work.push_back(op->getName().getAsOpaquePointer());
      work.push_back(op->getLoc().getAsOpaquePointer());
      addTypes(op->getOperandTypes());
      addTypes(op->getResultTypes());
    }
    for (Operation &op : function.front())
      if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op); slice && !slice.getType().hasStaticShape())
        work.push_back(slice.getStaticSizesAttr().getAsOpaquePointer());
      else if (op.getNumResults() == 1 && op.getResult(0).getType().isIntOrIndex())
        llvm::append_values(work, op.getName().getAsOpaquePointer(), op.getAttrDictionary().getAsOpaquePointer());
    return work;
  }

  ArrayRef<func::FuncOp> functions;
  std::vector<SmallVector<Operation *>> bodies;
  DenseMap<Operation *, Operation *> firsts;
  DenseMap<Operation *, func::FuncOp> firstFunctions;
  DenseMap<Operation *, std::unique_ptr<KernelTimes>> times; ///< by function
};

/// The functions of a family, run together. Ranks with several turns have a function for each of them; the family has
/// those of one turn behind those of another.
class Walk {
public:
  Walk(const Family &family, const target::Device &device, ArrayRef<double> speeds, const RankLinks &links)
      : family(family), device(device), speeds(speeds), links(links), bodies(family.ops()) {
    ArrayRef<func::FuncOp> functions = family.all();
    if (auto given = functions.front()->getAttrOfType<IntegerAttr>(rt::stagesAttr))
      stages = given.getInt();
    turns = rt::turnOf(functions.front()).second;
    auto order = functions.front()->getAttrOfType<StringAttr>(rt::orderAttr);
    isBreadthFirst = order && order.getValue() == "breadth-first";
    programs.resize(functions.size() / turns);
    ranks.resize(programs.size());
  }

  /// Makes one call; returns its time.
  Moment call() {
    if (turns > 1)
      return callsInTurns(1, 1, /*givesAllResults=*/true);
    for (auto [rank, body] : llvm::enumerate(bodies))
      for (Operation *op : body)
        programs[rank].push_back(op);
    return run();
  }

  /// Makes so many calls, one behind the other, and takes the results of the last; returns their time.
  Moment calls(int64_t count) {
    // The slowest stage sets the pace once all of them have something to do.
    int64_t followed = std::min(count, 2 * stages + 1);
    Moment before, all;
    for (int64_t number = 0; number < followed; ++number) {
      for (auto [rank, body] : llvm::enumerate(bodies))
        for (Operation *op : body)
          if (!isResultBroadcast(op))
            programs[rank].push_back(op);
      before = std::exchange(all, run());
    }
    Moment others = (all - before) * double(count - followed);
    for (auto [rank, body] : llvm::enumerate(bodies))
      addResultBroadcasts(rank);
    return run() + others;
  }

  /// Makes so many calls, one behind the other, each of so many parts, which ranks with several stages each compute in
  /// the order of the runtime (lib/Runtime/Core/StageCalls.h). They take the results of all calls, or of the last;
  /// returns the time of all.
  Moment callsInTurns(int64_t count, int64_t parts, bool givesAllResults) {
    constexpr int64_t most = 4; // from the second on they take as long
    int64_t followed = std::min(count, most);
    std::vector<StageTurn> order = stageOrder(parts, stages, turns, isBreadthFirst);
    Moment before, all;
    for (int64_t number = 0; number < followed; ++number) {
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        for (const StageTurn &item : order)
          for (Operation *op : bodies[size_t(item.turn) * ranks.size() + rank])
            if (!isResultBroadcast(op))
              programs[rank].push_back(op);
        if (givesAllResults || number + 1 == followed)
          addResultBroadcasts(rank);
      }
      before = std::exchange(all, run());
    }
    return all + (all - before) * double(count - followed);
  }

  /// Makes a call for each of so many parts of the sequences, again and again; returns the time from one call of a part
  /// to its next one. Ranks take part in broadcasts of results when the runtime does
  /// (lib/Runtime/Core/CallCollective.cpp).
  Moment steps(int64_t parts) {
    if (stages == 1)
      return call();
    constexpr int64_t rounds = 8, measured = 4;          // the first ones fill the pipeline
    std::vector<std::deque<int64_t>> late(ranks.size()); // calls whose broadcasts a rank has not taken part in
    SmallVector<Moment> moments;
    for (int64_t round = 0; round < rounds; ++round) {
      for (int64_t number = round * parts; number < (round + 1) * parts; ++number)
        for (size_t rank = 0; rank < ranks.size(); ++rank) {
          finishBroadcasts(rank, late[rank], number - parts); // the program waits for the logits of the part
          addStep(rank, number, late[rank]);
        }
      moments.push_back(run());
    }
    return (moments[rounds - 1] - moments[rounds - 1 - measured]) * (1.0 / measured);
  }

private:
  struct Rank {
    size_t next = 0; ///< op of its program
    double us = 0, exchangesUs = 0;
  };

  static bool isResultBroadcast(Operation *op) {
    return isa<shard::BroadcastOp>(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<func::ReturnOp>);
  }

  void addResultBroadcasts(size_t rank) {
    llvm::copy_if(bodies[size_t(turns - 1) * ranks.size() + rank], std::back_inserter(programs[rank]),
                  isResultBroadcast);
  }

  void finishBroadcasts(size_t rank, std::deque<int64_t> &late, int64_t last) {
    for (; !late.empty() && late.front() <= last; late.pop_front())
      addResultBroadcasts(rank);
  }

  /// Lets a rank make its part of a call. The last stage broadcasts results at its end, the others do so later.
  void addStep(size_t rank, int64_t number, std::deque<int64_t> &late) {
    int64_t behind = stages - 1 - int64_t(rank) * stages / int64_t(ranks.size());
    for (Operation *op : bodies[rank]) {
      if (isResultBroadcast(op))
        continue;
      if (isa<shard::SendOp>(op))
        finishBroadcasts(rank, late, number - behind);
      programs[rank].push_back(op);
    }
    late.push_back(number);
    if (behind == 0)
      finishBroadcasts(rank, late, number);
  }

  /// Runs what the programs have; stops where ranks wait for each other, which the verifier of exchanges refuses later.
  Moment run() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (size_t rank = 0; rank < ranks.size(); ++rank)
        while (ranks[rank].next < programs[rank].size() && step(rank))
          moves = true;
      moves |= exchangeAll();
    }
    Moment last;
    for (const Rank &rank : ranks) {
      last.us = std::max(last.us, rank.us);
      last.exchangesUs = std::max(last.exchangesUs, rank.exchangesUs);
    }
    return last;
  }

  const WorkModel &modelOf(Operation *op) const { return family.timesOf(op).model(); }

  void waitUntil(size_t rank, double us) {
    if (us > ranks[rank].us)
      ranks[rank].exchangesUs += us - ranks[rank].us;
    ranks[rank].us = std::max(ranks[rank].us, us);
  }

  /// Runs the next op of a rank; returns false if it waits for others.
  bool step(size_t rank) {
    Operation *op = programs[rank][ranks[rank].next];
    if (auto send = dyn_cast<shard::SendOp>(op)) {
      double bytes = modelOf(op).bytes(cast<shard::SendOp>(family.firstOf(op)).getInput());
      size_t receiver = rowOf(rank, op)[send.getDestination().front()];
      bool isOnHost = links.hostOf(rank) == links.hostOf(receiver);
      double us = isOnHost ? messageUs(bytes) : networkOf(rank, op).microseconds(bytes);
      messages[{rank, receiver}].push_back(ranks[rank].us + us);
    } else if (auto receive = dyn_cast<shard::RecvOp>(op)) {
      size_t sender = rowOf(rank, op)[receive.getSource()->front()];
      std::deque<double> &queue = messages[{sender, rank}];
      if (queue.empty())
        return false;
      waitUntil(rank, queue.front());
      queue.pop_front();
    } else if (isResultBroadcast(op) && isSentAtOnce(rank, op)) {
      return broadcastResult(rank, cast<shard::BroadcastOp>(op));
    } else if (isa_and_nonnull<shard::ShardDialect>(op->getDialect())) {
      return false;
    } else {
      Operation *first = family.firstOf(op);
      auto [known, isNew] = kernelUs.try_emplace(first, 0);
      if (isNew)
        known->second = family.timesOf(first).microseconds(first);
      ranks[rank].us += known->second / speeds[rank];
    }
    ++ranks[rank].next;
    return true;
  }

  /// True if the rank that broadcasts a result need not wait for those that read it: they are on other hosts, and
  /// connections take as much. In memory of a host all ranks wait for each other (SharedOperations.cpp).
  bool isSentAtOnce(size_t rank, Operation *op) {
    auto [known, isNew] = sentAtOnce.try_emplace(op, false);
    if (!isNew)
      return known->second;
    llvm::SmallDenseSet<int64_t> hosts;
    ArrayRef<int64_t> row = rowOf(rank, op);
    for (int64_t member : row)
      hosts.insert(links.hostOf(member));
    double bytes = modelOf(op).bytes(family.firstOf(op)->getResult(0));
    return known->second = hosts.size() == row.size() && bytes <= mostBytesUnread;
  }

  /// Sends a result to all of a row, or gets it; returns false if it is not there yet.
  bool broadcastResult(size_t rank, shard::BroadcastOp op) {
    ArrayRef<int64_t> row = rowOf(rank, op);
    auto root = size_t(row[op.getRoot().front()]);
    if (rank == root) {
      double us = exchangeTime(op, row);
      for (int64_t member : row)
        if (size_t(member) != root)
          messages[{root, size_t(member)}].push_back(ranks[rank].us + us);
    } else {
      std::deque<double> &queue = messages[{root, rank}];
      if (queue.empty())
        return false;
      waitUntil(rank, queue.front());
      queue.pop_front();
    }
    ++ranks[rank].next;
    return true;
  }

  /// Returns the exchange that a rank has come to, in which all of its row take part; null if it has come to none.
  Operation *exchangeOf(size_t rank) {
    if (ranks[rank].next == programs[rank].size())
      return nullptr;
    Operation *op = programs[rank][ranks[rank].next];
    bool isExchange = isa_and_nonnull<shard::ShardDialect>(op->getDialect()) &&
                      !isa<shard::SendOp, shard::RecvOp>(op) && !(isResultBroadcast(op) && isSentAtOnce(rank, op));
    return isExchange ? op : nullptr;
  }

  /// The ranks that an op of a rank is about: those of a row along its axis of the grid.
  ArrayRef<int64_t> rowOf(size_t rank, Operation *op) const {
    int16_t axis = op->getAttrOfType<DenseI16ArrayAttr>("grid_axes")[0];
    auto [known, isNew] = rows.try_emplace({rank, axis});
    if (isNew)
      known->second = rt::rowOfRanks(int64_t(rank), shapeOf(op), axis);
    return known->second;
  }

  static ArrayRef<int64_t> shapeOf(Operation *op) {
    auto name = op->getAttrOfType<FlatSymbolRefAttr>("grid");
    return SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(op, name).getShape();
  }

  /// The network as one of the rows sees it that leave the rank's host for an exchange: they share its adapter.
  Link networkOf(size_t rank, Operation *op) const {
    int64_t leaving = 0, host = links.hostOf(int64_t(rank));
    for (size_t first = 0; first < ranks.size(); ++first) {
      ArrayRef<int64_t> row = rowOf(first, op);
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
      ArrayRef<int64_t> row = op ? rowOf(first, op) : ArrayRef<int64_t>();
      if (row.empty() || row.front() != int64_t(first))
        continue;
      bool areThere = llvm::all_of(row, [&](int64_t rank) {
        Operation *own = exchangeOf(rank);
        return own && rowOf(rank, own) == row;
      });
      if (!areThere)
        continue;
      double latest = 0, time = exchangeTime(op, row);
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

  double exchangeTime(Operation *op, ArrayRef<int64_t> row) {
    auto [known, isNew] = exchangesUs.try_emplace(op, 0);
    if (isNew)
      known->second = exchangeUs(family.firstOf(op), row, modelOf(op));
    return known->second;
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

  double messageUs(double bytes) const {
    std::optional<double> us = device.model->gpu ? device.model->gpu->messageUs(bytes) : std::nullopt;
    return us.value_or(links.memory.microseconds(bytes));
  }

  double onHostUs(Operation *op, double count, const WorkModel &model) const {
    double bytes = bytesOf(op, model);
    const std::optional<GpuCosts> &gpu = device.model->gpu;
    if (isa<shard::AllReduceOp>(op))
      return (gpu ? gpu->allReduceUs(count, bytes) : std::nullopt)
          .value_or(fastestAllReduceUs(count, bytes, links.memory));
    if (isa<shard::AllGatherOp, shard::ReduceScatterOp, shard::AllToAllOp>(op)) // the same steps, some with sums
      return bytes == 0
                 ? 0
                 : (gpu ? gpu->gatherUs(count, bytes) : std::nullopt).value_or(allGatherUs(count, bytes, links.memory));
    return std::ceil(std::log2(count)) * links.memory.microseconds(bytes); // results, a tree of messages
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
  /// Up to so many bytes the buffers of a connection are sure to take.
  static constexpr double mostBytesUnread = 131072;

  const Family &family;
  const target::Device &device;
  ArrayRef<double> speeds;
  const RankLinks &links;
  int64_t stages = 1, turns = 1;
  bool isBreadthFirst = false;
  ArrayRef<SmallVector<Operation *>> bodies;      ///< of the functions
  std::vector<SmallVector<Operation *>> programs; ///< of the ranks: of all calls that are made
  DenseMap<Operation *, double> kernelUs, exchangesUs;
  DenseMap<Operation *, bool> sentAtOnce;
  mutable std::map<std::pair<size_t, int16_t>, SmallVector<int64_t>> rows; ///< by rank and axis of the grid
  std::vector<Rank> ranks;
  std::map<std::pair<size_t, size_t>, std::deque<double>> messages; ///< by sender and receiver: when they are there
};

/// Returns the bytes that are stored for a function: operands of ops that run, known at compile time, as they are
/// packed.
double weightBytes(func::FuncOp function, const WorkModel &model) {
  DenseSet<Value> stored;
  double bytes = 0;
  for (Operation &op : function.front())
    if (isWork(&op))
      for (Value operand : op.getOperands())
        if (isa<RankedTensorType>(operand.getType()) && isCompileTime(operand) && stored.insert(operand).second)
          bytes += model.bytes(operand);
  return bytes;
}

/// Caches of the sequences of a load, or of one, with as many tokens as positions may count.
double cacheBytes(func::FuncOp function, const RankLoad &load) {
  int64_t tokens = load.hasLength ? load.prompt + load.tokens : std::max<int64_t>(mostTokens(function), 1);
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
  return bytes * double(load.sequences);
}

/// Adds what a family of functions with caches takes for a load.
void addLoad(RankTimes &times, const RankLoad &load, Family &family, llvm::function_ref<Walk()> walk) {
  func::FuncOp function = family.all().front();
  auto given = function->getAttrOfType<IntegerAttr>(rt::stagesAttr);
  int64_t stages = given ? given.getInt() : 1, turns = rt::turnOf(function).second;
  Moment prompts, tokens;
  if (int64_t count = load.sequences * load.prompt; count && turns > 1) {
    int64_t ofCall = std::min(count, mostTokensInTurns);
    int64_t part = partInTurns(ofCall, llvm::divideCeil(ofCall, load.prompt), stages, turns);
    family.expect(sizesOfPromptPart(load, part));
    prompts = walk().callsInTurns(llvm::divideCeil(count, ofCall), llvm::divideCeil(ofCall, part), false);
  } else if (count) {
    int64_t part = std::min(promptPart(count, stages), count);
    family.expect(sizesOfPromptPart(load, part));
    prompts = walk().calls(llvm::divideCeil(count, part));
  }
  if (load.tokens > 0 && turns > 1) {
    int64_t part = partInTurns(load.sequences, load.sequences, stages, turns);
    family.expect(sizesOfStep(load, part));
    tokens = walk().callsInTurns(load.tokens, llvm::divideCeil(load.sequences, part), true);
  } else if (load.tokens > 0) {
    int64_t parts = std::min(stages, load.sequences);
    family.expect(sizesOfStep(load, llvm::divideCeil(load.sequences, parts)));
    tokens = walk().steps(parts) * double(load.tokens);
  }
  times.promptsUs += prompts.us;
  times.tokensUs += tokens.us;
  times.us += prompts.us + tokens.us;
  times.exchangesUs += prompts.exchangesUs + tokens.exchangesUs;
}

} // namespace

RankTimes timesOfRanks(ModuleOp module, const target::Device &device, const CatalogueDevice *measured,
                       ArrayRef<double> speeds, const RankLinks &links, const std::optional<RankLoad> &load) {
  RankTimes times;
  llvm::MapVector<StringRef, SmallVector<func::FuncOp>> families;
  SmallVector<double> bytes(speeds.size(), 0);
  for (auto function : module.getOps<func::FuncOp>()) {
    auto rank = function->getAttrOfType<IntegerAttr>("rt.rank");
    if (function.isExternal())
      continue;
    families[rank ? rt::wholeName(function) : function.getSymName()].push_back(function);
  }
  for (auto &[name, functions] : families) {
    Family family(functions, device, measured);
    DenseMap<Operation *, double> bytesOf; // of functions that stand for others
    for (func::FuncOp function : functions) {
      auto [known, isNew] = bytesOf.try_emplace(family.firstOf(function), 0);
      if (isNew)
        known->second =
            weightBytes(function, family.modelOf(function)) + cacheBytes(function, load.value_or(RankLoad()));
      auto rank = function->getAttrOfType<IntegerAttr>("rt.rank");
      for (auto [number, sum] : llvm::enumerate(bytes))
        if (!rank || rank.getInt() == int64_t(number))
          sum += known->second;
    }
    auto walk = [&] { return Walk(family, device, speeds, links); };
    if (load && llvm::any_of(functions, [](func::FuncOp function) { return hasState(function); })) {
      addLoad(times, *load, family, walk);
    } else {
      Moment time = walk().call();
      times.us += time.us;
      times.exchangesUs += time.exchangesUs;
    }
    family.addNotMeasured(times.notMeasured);
  }
  times.fullestBytes = *llvm::max_element(bytes);
  return times;
}

} // namespace intarsia::partition
