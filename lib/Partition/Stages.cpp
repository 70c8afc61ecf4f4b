//===- Stages.cpp - Layers in a row of ranks ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/Stages.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Turns.h"
#include "lib/Partition/Layers.h"
#include "lib/Partition/RankFunction.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"
#include <limits>

using namespace mlir;

namespace intarsia::partition {

namespace {

/// Where a row of layers is cut, and how good that is.
struct LayerCut {
  double cost = 0;
  SmallVector<unsigned> begins;
};

/// Returns the cut with the least cost: of each stage that of its time, which `combine` adds to that of the stages
/// before.
template <typename CostOf, typename Combine>
LayerCut cheapestCut(ArrayRef<double> layerTimes, ArrayRef<double> speeds, CostOf costOf, Combine combine) {
  size_t layers = layerTimes.size(), count = speeds.size();
  SmallVector<double> before = {0};
  for (double time : layerTimes)
    before.push_back(before.back() + time);
  // least[s][n]: of the first n layers in the first s + 1 stages; begins[s][n]: where the last of these begins.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(count, std::vector<double>(layers + 1, never));
  std::vector<std::vector<unsigned>> begins(count, std::vector<unsigned>(layers + 1, 0));
  for (size_t end = 1; end <= layers; ++end)
    least[0][end] = costOf(before[end] / speeds[0]);
  for (size_t stage = 1; stage < count; ++stage)
    for (size_t end = stage + 1; end <= layers; ++end)
      for (size_t begin = stage; begin < end; ++begin) {
        double cost = combine(least[stage - 1][begin], costOf((before[end] - before[begin]) / speeds[stage]));
        if (cost < least[stage][end]) {
          least[stage][end] = cost;
          begins[stage][end] = begin;
        }
      }
  LayerCut result = {least[count - 1][layers], SmallVector<unsigned>(count)};
  size_t end = layers;
  for (size_t stage = count; stage-- > 1;)
    end = result.begins[stage] = begins[stage][end];
  return result;
}

} // namespace

SmallVector<unsigned> cutIntoStages(ArrayRef<double> layerTimes, ArrayRef<double> speeds) {
  double slowest = cheapestCut(
                       layerTimes, speeds, [](double time) { return time; },
                       [](double left, double right) { return std::max(left, right); })
                       .cost;
  // The sum of squares is least where stages are as even as they can be.
  constexpr double never = std::numeric_limits<double>::infinity();
  return cheapestCut(
             layerTimes, speeds, [&](double time) { return time > slowest * (1 + 1e-9) ? never : time * time; },
             std::plus<double>())
      .begins;
}

/// The values that an op reads, in its regions too.
static SmallVector<Value> operandsOf(Operation *op) {
  SmallVector<Value> values(op->getOperands());
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  values.append(captured.begin(), captured.end());
  return values;
}

StageOfOps::StageOfOps(func::FuncOp function, llvm::function_ref<int64_t(Operation *)> stageOf) {
  // What a value is computed from through views and the like; `visit` returns false to stop.
  auto isFree = [&](auto &self, Value value) -> bool {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getOwner()->getParentOp() != function ||
             !function.getArgAttr(argument.getArgNumber(), "nn.state");
    Operation *op = value.getDefiningOp();
    if (auto known = stages.find(op); known != stages.end())
      return known->second == everywhere;
    return !isa<nn::WeightOp>(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return self(self, operand); });
  };
  auto addReader = [&](auto &self, Value value, int64_t stage) -> void {
    Operation *op = value.getDefiningOp();
    if (!op || !function.front().findAncestorOpInBlock(*op))
      return;
    if (stages.contains(op))
      return void(readers[value].insert(stage));
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()) && !isa<tensor::DimOp>(op))
        self(self, operand, stage);
  };
  for (Operation &op : function.front()) {
    if (!isWork(&op))
      continue;
    SmallVector<Value> operands = operandsOf(&op);
    bool isEverywhere = llvm::all_of(operands, [&](Value operand) { return isFree(isFree, operand); });
    int64_t stage = stages[&op] = isEverywhere ? everywhere : stageOf(&op);
    for (Value operand : operands)
      addReader(addReader, operand, stage);
  }
}

std::optional<int64_t> StageOfOps::lookup(Operation *op) const {
  auto found = stages.find(op);
  return found == stages.end() ? std::nullopt : std::optional(found->second);
}

ArrayRef<int64_t> StageOfOps::readersOf(Value value) const {
  auto found = readers.find(value);
  return found == readers.end() ? ArrayRef<int64_t>() : found->second.getArrayRef();
}

int64_t StageOfOps::ownerOf(Value value) const {
  Operation *op = value.getDefiningOp();
  while (op && !lookup(op)) {
    auto operand = llvm::find_if(op->getOperands(), [](Value each) { return isa<RankedTensorType>(each.getType()); });
    op = operand == op->operand_end() ? nullptr : (*operand).getDefiningOp();
  }
  return op ? *lookup(op) : everywhere;
}

/// Gives the function of a rank its name and its attributes as the stage of one of its turns.
static func::FuncOp makeStageFunction(func::FuncOp source, int64_t stage, int64_t ranks, int64_t turns) {
  int64_t turn = stage / ranks;
  std::string suffix = rt::turnSuffix(turn, turns);
  StringRef standsFor = rt::wholeName(source);
  std::string name = source.getSymName().str() + suffix;
  func::FuncOp result = makeRankFunction(source, stage % ranks);
  if (turns == 1)
    return result;
  Builder builder(source.getContext());
  result.setSymName(name + ".rank" + std::to_string(stage % ranks));
  result->setAttr(rt::alternativeAttr, builder.getStringAttr(standsFor + suffix));
  result->setAttr(rt::turnAttr, builder.getI64IntegerAttr(turn));
  return result;
}

func::FuncOp StageFunction::build() {
  result = makeStageFunction(source, stage, ranks, turns);
  Block *block = builder.createBlock(&result.getBody());
  for (BlockArgument argument : source.getArguments())
    mapping.map(argument, block->addArgument(argument.getType(), argument.getLoc()));
  builder.setInsertionPointToEnd(block);
  forEachExchanged([&](Value value, int64_t owner, int64_t last) {
    if (owner < stage && stage <= last)
      receive(value);
  });
  for (Operation &op : source.front().without_terminator()) {
    std::optional<int64_t> owner = stages.lookup(&op);
    if (owner == stage || owner == StageOfOps::everywhere)
      copy(op);
  }
  forEachExchanged([&](Value value, int64_t owner, int64_t last) {
    if (owner <= stage && stage < last)
      send(value);
  });
  finish(source.front().getTerminator());
  eraseForeignStates();
  return result;
}

/// Copies an op, and before it the views, weights and sizes that it reads.
void StageFunction::copy(Operation &op) {
  for (Value operand : operandsOf(&op))
    local(operand);
  builder.clone(op, mapping);
}

/// Calls `action(value, owner, last)` for each value that goes from the stage that computes it to later ones, up to the
/// last that reads it, in the order of the program, which is the same on all ranks. A stage gets data from the one
/// before it alone, which passes on what comes from stages before that: see itx_cache_step_start, whose calls overlap.
template <typename Action> void StageFunction::forEachExchanged(Action action) {
  for (Operation &op : source.front().without_terminator()) {
    std::optional<int64_t> owner = stages.lookup(&op);
    if (!owner || *owner == StageOfOps::everywhere)
      continue;
    for (Value value : op.getResults()) {
      int64_t last = *owner;
      for (int64_t reader : stages.readersOf(value))
        last = std::max(last, reader);
      action(value, *owner, last);
    }
  }
}

void StageFunction::receive(Value value) {
  int64_t from = (stage - 1) % ranks;
  mapping.map(value,
              shard::RecvOp::create(builder, value.getLoc(), value.getType(), gridName, ArrayRef<shard::GridAxis>{0},
                                    emptyLike(value), builder.getDenseI64ArrayAttr(from), ValueRange()));
}

void StageFunction::send(Value value) {
  Value sent = mapping.lookup(value);
  shard::SendOp::create(builder, value.getLoc(), sent.getType(), gridName, ArrayRef<shard::GridAxis>{0}, sent,
                        ArrayRef<int64_t>{(stage + 1) % ranks}, ValueRange());
}

/// Returns the value on this rank; what is wherever it is read is copied.
Value StageFunction::local(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || !source.front().findAncestorOpInBlock(*op))
    return value; // of an op that is copied as a whole
  Value copied;
  if (value.getType().isIndex() && isa<tensor::DimOp>(op))
    copied = sizeValues.get(builder, value.getLoc(), sizes.ofIndex(value));
  if (!copied) {
    copy(*op);
    return mapping.lookup(value);
  }
  mapping.map(value, copied);
  return copied;
}

Value StageFunction::emptyLike(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<OpFoldResult> extents;
  for (auto [size, expression] : llvm::zip_equal(type.getShape(), sizes.of(value)))
    extents.push_back(ShapedType::isDynamic(size) ? OpFoldResult(sizeValues.get(builder, value.getLoc(), expression))
                                                  : builder.getIndexAttr(size));
  return tensor::EmptyOp::create(builder, value.getLoc(), extents, type.getElementType());
}

/// The value of a symbol is a size of an input, which all ranks have.
Value StageFunction::symbolValue(AffineExpr size) {
  auto symbol = dyn_cast<AffineSymbolExpr>(size);
  std::optional<SymbolicSizes::Origin> origin =
      symbol ? sizes.origin(symbol.getPosition()) : std::optional<SymbolicSizes::Origin>();
  if (!origin)
    return nullptr;
  return tensor::DimOp::create(builder, source.getLoc(), result.getArgument(origin->argument), origin->dimension);
}

/// Results go from the stage that computes them to all ranks. Where these have several stages, the last one computes
/// all results.
void StageFunction::finish(Operation *end) {
  SmallVector<Value> returned;
  for (auto [number, value] : llvm::enumerate(end->getOperands())) {
    int64_t owner = stages.ownerOf(value);
    if (!source.getResultAttr(number, "nn.state") && stage / ranks + 1 != turns) {
      returned.push_back(Value()); // the function of the last turn gives it
    } else if (source.getResultAttr(number, "nn.state")) {
      bool isForeign = owner != stage && owner != StageOfOps::everywhere;
      returned.push_back(isForeign ? Value() : local(value));
    } else if (owner == StageOfOps::everywhere) {
      returned.push_back(local(value));
    } else {
      Value given = owner == stage ? local(value) : emptyLike(value);
      returned.push_back(shard::BroadcastOp::create(builder, value.getLoc(), value.getType(), gridName,
                                                    ArrayRef<shard::GridAxis>{0}, given,
                                                    ArrayRef<int64_t>{owner % ranks}, ValueRange()));
    }
  }
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Value> kept;
  for (auto [number, value] : llvm::enumerate(returned))
    if (value) {
      kept.push_back(value);
      attributes.push_back(source.getResultAttrDict(number));
    }
  func::ReturnOp::create(builder, end->getLoc(), kept);
  result.setFunctionType(builder.getFunctionType(result.front().getArgumentTypes(), ValueRange(kept).getTypes()));
  result.setAllResultAttrs(attributes);
}

/// States that the stage does not use are those of other ranks.
void StageFunction::eraseForeignStates() {
  Block &block = result.front();
  llvm::BitVector foreign(block.getNumArguments());
  SmallVector<int64_t> numbers;
  int64_t next = 0;
  for (BlockArgument argument : block.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (result.getArgAttr(number, "nn.state") && argument.use_empty())
      foreign.set(number);
    numbers.push_back(foreign.test(number) ? -1 : next++);
  }
  for (unsigned number = 0; number < result.getNumResults(); ++number)
    if (auto state = result.getResultAttrOfType<IntegerAttr>(number, "nn.state"))
      result.setResultAttr(number, "nn.state", builder.getI64IntegerAttr(numbers[state.getInt()]));
  SmallVector<DictionaryAttr> attributes;
  for (unsigned number = 0; number < block.getNumArguments(); ++number)
    if (!foreign.test(number))
      attributes.push_back(result.getArgAttrDict(number));
  block.eraseArguments(foreign);
  result.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), result.getResultTypes()));
  result.setAllArgAttrs(attributes);
  dropForeignSizes();
}

/// Takes sizes of states that the stage does not have out of what the function says about sizes.
void StageFunction::dropForeignSizes() {
  DenseSet<Attribute> known;
  for (unsigned number = 0; number < result.getNumArguments(); ++number)
    if (auto names = result.getArgAttrOfType<ArrayAttr>(number, "nn.sizes"))
      known.insert(names.begin(), names.end());
  for (StringRef attribute : {"nn.size_limits", "nn.expected_sizes"})
    if (auto values = result->getAttrOfType<DictionaryAttr>(attribute)) {
      SmallVector<NamedAttribute> kept(values.begin(), values.end());
      llvm::erase_if(kept, [&](NamedAttribute value) { return !known.contains(value.getName()); });
      result->setAttr(attribute, builder.getDictionaryAttr(kept));
    }
  if (auto empty = result->getAttrOfType<ArrayAttr>("nn.empty_sizes")) {
    SmallVector<Attribute> kept(empty.begin(), empty.end());
    llvm::erase_if(kept, [&](Attribute name) { return !known.contains(name); });
    result->setAttr("nn.empty_sizes", builder.getArrayAttr(kept));
  }
}

} // namespace intarsia::partition
