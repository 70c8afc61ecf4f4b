//===- QuantizeSegment.cpp - A part of a model that calibration runs on its own ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/LayerNames.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "lib/Quantize/LinearInputs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZESEGMENT
#include "lib/Quantize/Passes.h.inc"

namespace {
/// Returns where the segments of a block begin: the first of them, each layer behind the first, and what follows the
/// last layer.
SmallVector<Operation *> findSegments(Block &block) {
  SmallVector<Operation *> begins = {&block.front()};
  llvm::StringSet<> seen;
  Operation *last = nullptr;
  for (Operation &op : block) {
    std::string layer = numberedLayerName(&op);
    if (layer.empty())
      continue;
    if (seen.insert(layer).second && seen.size() > 1)
      begins.push_back(&op);
    last = &op;
  }
  if (last)
    begins.push_back(last->getNextNode());
  return begins;
}

/// Builds the function of one segment.
class SegmentBuilder {
public:
  /// Weights of linears are those of the archive `decoded`, unless that is null. With `hasWeightArguments` weights are
  /// arguments, but for those whose keys are `kept`, and what the function gives is a result.
  SegmentBuilder(func::FuncOp function, Operation *begin, Operation *end, FlatSymbolRefAttr decoded,
                 bool hasWeightArguments, ArrayRef<std::string> kept)
      : function(function), builder(function.getContext()), sizes(function), decoded(decoded),
        hasWeightArguments(hasWeightArguments), kept(llvm::from_range, kept) {
    segment = func::FuncOp::create(function.getLoc(), function.getName(), builder.getFunctionType({}, {}));
    block = segment.addEntryBlock();
    builder.setInsertionPointToEnd(block);
    for (auto [number, op] : llvm::enumerate(function.front()))
      numbers[&op] = number;
    first = numbers.lookup(begin);
    last = numbers.lookup(end);
    if (decoded)
      for (const LinearInput &input : inputsOfLinears(function))
        for (ContractionOpInterface linear : input.linears)
          if (isInside(linear))
            decodedWeights.insert(linear.getRight());
  }

  func::FuncOp build(int64_t segmentCount) {
    for (Operation &op : function.front())
      if (isInside(&op))
        copy(op);
    for (const LinearInput &input : inputsOfLinears(function, /*convolutions=*/true))
      if (isInside(input.linears.front()))
        addResult(mapping.lookup(input.value), inputsPrefix.str() + nameOf(input.linears.front()));
    for (Operation &op : function.front())
      for (Value result : op.getResults())
        if (numberOf(&op) < last && isStored(result) && isTakenBehind(result)) {
          if (isInside(&op))
            addResult(mapping.lookup(result), nameOfValue(result));
          else
            passed.push_back(builder.getStringAttr(nameOfValue(result)));
        }
    if (hasWeightArguments)
      addFunctionResults();
    addStates();
    func::ReturnOp::create(builder, function.getLoc(), results);
    finish(segmentCount);
    return segment;
  }

private:
  unsigned numberOf(Operation *op) { return numbers.lookup(function.front().findAncestorOpInBlock(*op)); }
  bool isInside(Operation *op) { return numberOf(op) >= first && numberOf(op) < last; }
  bool isBehind(Operation *op) { return numberOf(op) >= last && !isa<func::ReturnOp>(op); }
  /// True if a segment behind this one takes a value, also where it makes a size of it again.
  bool isTakenBehind(Value value) {
    if (auto known = takenBehind.find(value); known != takenBehind.end())
      return known->second;
    bool isTaken = llvm::any_of(value.getUsers(), [&](Operation *nested) {
      Operation *user = function.front().findAncestorOpInBlock(*nested);
      return isBehind(user) ||
             llvm::any_of(user->getResults(), [&](Value result) { return !isStored(result) && isTakenBehind(result); });
    });
    takenBehind[value] = isTaken;
    return isTaken;
  }
  /// False for what each segment makes for itself: weights, constants and sizes.
  static bool isStored(Value value) {
    return isa<RankedTensorType>(value.getType()) && !value.getDefiningOp<nn::WeightOp>() &&
           !value.getDefiningOp()->hasTrait<OpTrait::ConstantLike>();
  }
  std::string nameOfValue(Value value) {
    return "value." + std::to_string(numberOf(value.getDefiningOp())) + "." +
           std::to_string(cast<OpResult>(value).getResultNumber());
  }

  void copy(Operation &op) {
    if (isa<nn::WeightOp>(op))
      return; // where it is read
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (!op.isAncestor(operand.getParentRegion()->getParentOp()) ||
            operand.getParentRegion() == op.getParentRegion())
          resolve(operand);
    });
    builder.clone(op, mapping);
  }

  /// Makes a value of the function known to the segment.
  void resolve(Value value) {
    if (mapping.contains(value))
      return;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned number = argument.getArgNumber();
      arguments[number] = block->getNumArguments();
      addArgument(value, function.getArgAttrDict(number));
      return;
    }
    Operation *op = value.getDefiningOp();
    if (decodedWeights.contains(value)) {
      auto weight = cast<nn::WeightOp>(op);
      auto type = cast<RankedTensorType>(value.getType()).clone(builder.getF32Type());
      mapping.map(value, nn::WeightOp::create(builder, value.getLoc(), type, decoded, weight.getKeyAttr()));
    } else if (auto weight = dyn_cast<nn::WeightOp>(op);
               weight && hasWeightArguments && !kept.contains(weight.getKey())) {
      addWeight(weight);
    } else if (isStored(value)) {
      SmallVector<Attribute> names;
      for (AffineExpr size : sizes.of(value)) {
        auto symbol = dyn_cast_if_present<AffineSymbolExpr>(size);
        names.push_back(builder.getStringAttr(symbol ? sizes.names()[symbol.getPosition()] : ""));
      }
      addArgument(value,
                  builder.getDictionaryAttr({builder.getNamedAttr("nn.name", builder.getStringAttr(nameOfValue(value))),
                                             builder.getNamedAttr("nn.sizes", builder.getArrayAttr(names))}));
    } else {
      for (Value operand : op->getOperands())
        resolve(operand);
      builder.clone(*op, mapping);
    }
  }

  /// Makes a weight an argument.
  void addWeight(nn::WeightOp weight) {
    StringAttr name = builder.getStringAttr(weightsPrefix + weight.getKey());
    addArgument(weight, builder.getDictionaryAttr(builder.getNamedAttr("nn.name", name)));
    // Decoded values of a quantized matrix, which 16 bits do not hold, may be passed.
    bool isMatrix = llvm::all_of(weight->getUses(), [&](OpOperand &use) {
      ContractionOpInterface linear = asProductWithWeight(use.getOwner());
      return !isInside(use.getOwner()) ||
             (linear && use.get() == linear.getRight() && getElementTypeOrSelf(linear.getLeft().getType()).isF32());
    });
    if (isMatrix)
      block->getArguments().back().setType(cast<RankedTensorType>(weight.getType()).clone(builder.getF32Type()));
  }

  void addArgument(Value value, DictionaryAttr attributes) {
    mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
    argumentAttributes.push_back(attributes);
  }

  void addResult(Value value, std::string name, NamedAttrList attributes = {}) {
    results.push_back(value);
    attributes.set("nn.name", builder.getStringAttr(name));
    resultAttributes.push_back(attributes.getDictionary(builder.getContext()));
  }

  /// Adds the results of the function that are no states and that the segment computes.
  void addFunctionResults() {
    for (auto [number, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
      if (value.getDefiningOp() && isInside(value.getDefiningOp()) &&
          !function.getResultAttrOfType<IntegerAttr>(number, "nn.state"))
        if (auto name = function.getResultAttrOfType<StringAttr>(number, "nn.name"))
          addResult(mapping.lookup(value), name.str());
  }

  /// Returns the name of a state after the call; without one that of the state before, and without that its number.
  std::string nameOfState(unsigned result, unsigned argument) {
    if (auto name = function.getResultAttrOfType<StringAttr>(result, "nn.name"))
      return name.str();
    auto name = function.getArgAttrOfType<StringAttr>(argument, "nn.name");
    return name ? name.str() : "state." + std::to_string(argument);
  }

  /// States that the segment updates stay its states.
  void addStates() {
    Operation *terminator = function.front().getTerminator();
    for (auto [number, value] : llvm::enumerate(terminator->getOperands())) {
      auto state = function.getResultAttrOfType<IntegerAttr>(number, "nn.state");
      if (!state || !arguments.contains(state.getInt()))
        continue;
      NamedAttrList attributes;
      attributes.set("nn.state", builder.getI64IntegerAttr(arguments.lookup(state.getInt())));
      addResult(mapping.lookup(value), nameOfState(number, state.getInt()), attributes);
    }
  }

  void finish(int64_t segmentCount) {
    SmallVector<Type> resultTypes(ValueRange(results).getTypes());
    segment.setType(builder.getFunctionType(block->getArgumentTypes(), resultTypes));
    segment.setAllArgAttrs(argumentAttributes);
    segment.setAllResultAttrs(resultAttributes);
    NamedAttrList metadata;
    auto namesOf = [&](bool convolutions) {
      SmallVector<Attribute> names;
      for (const LinearInput &input : inputsOfLinears(function, convolutions))
        for (ContractionOpInterface linear : input.linears)
          if (isInside(linear))
            names.push_back(builder.getStringAttr(nameOf(linear)));
      return builder.getArrayAttr(names);
    };
    ArrayAttr ofLinears = namesOf(/*convolutions=*/false), ofProducts = namesOf(/*convolutions=*/true);
    metadata.set("linears", ofLinears);
    if (ofProducts.size() != ofLinears.size())
      metadata.set("products", ofProducts);
    metadata.set("passed", builder.getArrayAttr(passed));
    metadata.set("segments", builder.getI64IntegerAttr(segmentCount));
    segment->setAttr("nn.metadata", metadata.getDictionary(builder.getContext()));
    keepLimits();
  }

  /// Keeps what the function says of sizes that arguments of the segment have.
  void keepLimits() {
    DenseSet<Attribute> names;
    for (DictionaryAttr attributes : argumentAttributes)
      if (auto sizes = attributes ? attributes.getAs<ArrayAttr>("nn.sizes") : ArrayAttr())
        names.insert(sizes.begin(), sizes.end());
    if (auto limits = function->getAttrOfType<DictionaryAttr>("nn.size_limits")) {
      NamedAttrList kept;
      for (NamedAttribute limit : limits)
        if (names.contains(limit.getName()))
          kept.append(limit);
      if (!kept.empty())
        segment->setAttr("nn.size_limits", kept.getDictionary(builder.getContext()));
    }
    if (auto empty = function->getAttrOfType<ArrayAttr>("nn.empty_sizes")) {
      SmallVector<Attribute> kept(empty.begin(), empty.end());
      llvm::erase_if(kept, [&](Attribute name) { return !names.contains(name); });
      if (!kept.empty())
        segment->setAttr("nn.empty_sizes", builder.getArrayAttr(kept));
    }
  }

  func::FuncOp function, segment;
  OpBuilder builder;
  SymbolicSizes sizes;
  FlatSymbolRefAttr decoded;
  bool hasWeightArguments;
  llvm::StringSet<> kept;
  DenseSet<Value> decodedWeights;
  Block *block;
  IRMapping mapping;
  DenseMap<Operation *, unsigned> numbers;
  DenseMap<Value, bool> takenBehind;
  unsigned first, last;
  DenseMap<int64_t, int64_t> arguments; // of the function → of the segment
  SmallVector<DictionaryAttr> argumentAttributes, resultAttributes;
  SmallVector<Value> results;
  SmallVector<Attribute> passed; // values of earlier segments that later ones take
};

struct QuantizeSegment : impl::QuantizeSegmentBase<QuantizeSegment> {
  using QuantizeSegmentBase::QuantizeSegmentBase;

  void runOnOperation() override {
    FlatSymbolRefAttr decoded;
    if (!weights.empty()) {
      OpBuilder builder(getOperation().getBody(), getOperation().getBody()->begin());
      auto archive = nn::ArchiveOp::create(builder, getOperation().getLoc(), builder.getStringAttr("decoded"),
                                           builder.getStringAttr(weights));
      decoded = FlatSymbolRefAttr::get(SymbolTable(getOperation()).insert(archive));
    }
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (function.isExternal())
        continue;
      SmallVector<Operation *> begins = findSegments(function.front());
      if (segment < 0 || segment >= int64_t(begins.size())) {
        function.emitError() << "'" << function.getName() << "' has segments 0 to " << begins.size() - 1 << ", not "
                             << segment.getValue();
        return signalPassFailure();
      }
      Operation *end = segment + 1 < int64_t(begins.size()) ? begins[segment + 1] : function.front().getTerminator();
      func::FuncOp built = SegmentBuilder(function, begins[segment], end, decoded, arguments,
                                          std::vector<std::string>(kept.begin(), kept.end()))
                               .build(begins.size());
      function->getBlock()->getOperations().insert(function->getIterator(), built);
      function.erase();
    }
  }
};
} // namespace
} // namespace intarsia::quantize
