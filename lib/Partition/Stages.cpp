//===- Stages.cpp - Layers in a row of ranks ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Partition/Stages.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "lib/Partition/Layers.h"
#include "lib/Partition/RankFunction.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"
#include <limits>

using namespace mlir;

namespace intarsia::partition {

SmallVector<unsigned> cutIntoStages(ArrayRef<double> layerTimes, ArrayRef<double> speeds) {
  size_t layers = layerTimes.size(), count = speeds.size();
  SmallVector<double> before = {0};
  for (double time : layerTimes)
    before.push_back(before.back() + time);
  // slowest[s][n]: of the first n layers in the first s + 1 stages; begins[s][n]: where the last of these begins.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> slowest(count, std::vector<double>(layers + 1, never));
  std::vector<std::vector<unsigned>> begins(count, std::vector<unsigned>(layers + 1, 0));
  for (size_t end = 1; end <= layers; ++end)
    slowest[0][end] = before[end] / speeds[0];
  for (size_t stage = 1; stage < count; ++stage)
    for (size_t end = stage + 1; end <= layers; ++end)
      for (size_t begin = stage; begin < end; ++begin) {
        double time = std::max(slowest[stage - 1][begin], (before[end] - before[begin]) / speeds[stage]);
        if (time < slowest[stage][end]) {
          slowest[stage][end] = time;
          begins[stage][end] = begin;
        }
      }
  SmallVector<unsigned> result(count);
  size_t end = layers;
  for (size_t stage = count; stage-- > 1;)
    end = result[stage] = begins[stage][end];
  return result;
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

func::FuncOp StageFunction::build() {
  result = makeRankFunction(source, stage);
  Block *block = builder.createBlock(&result.getBody());
  for (BlockArgument argument : source.getArguments())
    mapping.map(argument, block->addArgument(argument.getType(), argument.getLoc()));
  builder.setInsertionPointToEnd(block);
  for (Operation &op : source.front().without_terminator()) {
    std::optional<int64_t> owner = stages.lookup(&op);
    if (!owner)
      continue;
    if (*owner == stage || *owner == StageOfOps::everywhere)
      copy(op);
    for (Value value : op.getResults())
      exchange(value, *owner);
  }
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

/// Passes a value on from stage to stage, up to the last that reads it. All of this is in the order of the program on
/// all ranks, so that the earliest that is not done yet can always be done. A stage gets data from the one before it
/// alone: see itx_cache_step_start, whose calls overlap.
void StageFunction::exchange(Value value, int64_t owner) {
  if (owner == StageOfOps::everywhere)
    return;
  int64_t last = owner;
  for (int64_t reader : stages.readersOf(value))
    last = std::max(last, reader);
  if (stage < owner || stage > last)
    return;
  const SmallVector<shard::GridAxis, 1> axes = {0};
  if (stage > owner)
    mapping.map(value, shard::RecvOp::create(builder, value.getLoc(), value.getType(), gridName, axes, emptyLike(value),
                                             builder.getDenseI64ArrayAttr(stage - 1), ValueRange()));
  if (stage < last) {
    Value sent = mapping.lookup(value);
    shard::SendOp::create(builder, value.getLoc(), sent.getType(), gridName, axes, sent, ArrayRef<int64_t>{stage + 1},
                          ValueRange());
  }
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

int64_t StageFunction::ownerOf(Value value) const {
  Operation *op = value.getDefiningOp();
  while (op && !stages.lookup(op)) {
    auto operand = llvm::find_if(op->getOperands(), [](Value each) { return isa<RankedTensorType>(each.getType()); });
    op = operand == op->operand_end() ? nullptr : (*operand).getDefiningOp();
  }
  return op ? *stages.lookup(op) : StageOfOps::everywhere;
}

/// Results go from the stage that computes them to all ranks.
void StageFunction::finish(Operation *end) {
  SmallVector<Value> returned;
  for (auto [number, value] : llvm::enumerate(end->getOperands())) {
    int64_t owner = ownerOf(value);
    if (source.getResultAttr(number, "nn.state")) {
      bool isForeign = owner != stage && owner != StageOfOps::everywhere;
      returned.push_back(isForeign ? Value() : local(value));
    } else if (owner == StageOfOps::everywhere) {
      returned.push_back(local(value));
    } else {
      Value given = owner == stage ? local(value) : emptyLike(value);
      returned.push_back(shard::BroadcastOp::create(builder, value.getLoc(), value.getType(), gridName,
                                                    ArrayRef<shard::GridAxis>{0}, given, ArrayRef<int64_t>{owner},
                                                    ValueRange()));
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
}

} // namespace intarsia::partition
