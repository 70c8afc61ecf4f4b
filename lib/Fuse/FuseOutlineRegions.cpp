//===- FuseOutlineRegions.cpp - Bodies of control flow become functions -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SymbolicSizes.h"
#include "lib/Fuse/Fuser.h"
#include "lib/Fuse/Outside.h"
#include "lib/Fuse/Regions.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringSet.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEOUTLINEREGIONS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {

/// Outlines the regions of one function.
class Outliner {
public:
  Outliner(func::FuncOp function, SymbolTable &symbols)
      : function(function), symbols(symbols), sizes(function), builder(function.getContext()) {}

  void outline(ArrayRef<Operation *> ops) {
    for (Operation *op : ops)
      for (Region &region : op->getRegions())
        if (!region.empty() && !region.front().without_terminator().empty())
          outline(*op, region);
  }

private:
  void outline(Operation &op, Region &region);
  void sink(Block &block);
  Value clone(Value value, IRMapping &copies);
  func::FuncOp makeFunction(Operation &op, ArrayRef<Value> inputs, TypeRange results);
  ArrayRef<AffineExpr> sizesOf(Value value) const;
  ArrayAttr namesOf(Value value);

  func::FuncOp function;
  SymbolTable &symbols;
  SymbolicSizes sizes;
  OpBuilder builder;
  DenseMap<AffineExpr, std::string> names; // of sizes that are no symbol
  DenseMap<Value, Value> origins;          // of values of outlined functions: the value whose sizes they have
};

/// True for what a region has a copy of: what is known at compile time, sizes, integers computed from constants.
bool isSunk(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && (isCompileTime(value) || isa<tensor::DimOp>(op)))
    return true;
  if (!op)
    return false;
  return isa_and_nonnull<arith::ArithDialect>(op->getDialect()) && value.getType().isIntOrIndex() &&
         llvm::all_of(op->getOperands(), isSunk);
}

Value Outliner::clone(Value value, IRMapping &copies) {
  if (Value known = copies.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    if (operand.getDefiningOp() && !(isa<tensor::DimOp>(op) && isa<TensorType>(operand.getType())))
      clone(operand, copies);
  builder.clone(*op, copies);
  return copies.lookup(value);
}

/// Copies into a block what it reads from outside and what costs nothing there.
void Outliner::sink(Block &block) {
  builder.setInsertionPointToStart(&block);
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(*block.getParent(), captured);
  IRMapping copies;
  for (Value value : captured)
    if (isSunk(value))
      replaceAllUsesInRegionWith(value, clone(value, copies), *block.getParent());
}

/// Returns the sizes of a value, also of one that an outlined function gives or takes.
ArrayRef<AffineExpr> Outliner::sizesOf(Value value) const {
  Value origin = origins.lookup(value);
  return sizes.of(origin ? origin : value);
}

/// The names of a value's sizes as those of an argument, so that the function knows which are equal.
ArrayAttr Outliner::namesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.hasStaticShape())
    return nullptr;
  ArrayRef<AffineExpr> expressions = sizesOf(value);
  SmallVector<Attribute> texts;
  for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
    AffineExpr expression = dimension < expressions.size() ? expressions[dimension] : AffineExpr();
    if (!ShapedType::isDynamic(size) || !expression || !sizes.isKnown(expression)) {
      texts.push_back(builder.getStringAttr(""));
    } else if (isa<AffineSymbolExpr>(expression)) {
      texts.push_back(builder.getStringAttr(sizes.toString(expression)));
    } else {
      auto [entry, isNew] = names.try_emplace(expression);
      if (isNew)
        entry->second = "size." + std::to_string(names.size());
      texts.push_back(builder.getStringAttr(entry->second));
    }
  }
  return builder.getArrayAttr(texts);
}

func::FuncOp Outliner::makeFunction(Operation &op, ArrayRef<Value> inputs, TypeRange results) {
  builder.setInsertionPointAfter(function);
  std::string name = (function.getSymName() + "." + op.getName().stripDialect()).str();
  auto type = builder.getFunctionType(ValueRange(inputs).getTypes(), results);
  auto outlined = func::FuncOp::create(builder, op.getLoc(), name, type);
  outlined.setPrivate();
  outlined->setAttr(outlinedAttr, FlatSymbolRefAttr::get(function.getSymNameAttr()));
  if (Attribute device = function->getAttr(rt::deviceAttr))
    outlined->setAttr(rt::deviceAttr, device);
  symbols.insert(outlined, ++function->getIterator());
  llvm::StringSet<> named;
  llvm::SetVector<Attribute> empty; // sizes that may be 0
  for (auto [index, input] : llvm::enumerate(inputs))
    if (ArrayAttr texts = namesOf(input)) {
      outlined.setArgAttr(index, "nn.sizes", texts);
      for (StringRef text : texts.getAsValueRange<StringAttr>())
        named.insert(text);
      for (auto [dimension, size] : llvm::enumerate(sizesOf(input)))
        if (size && !isa<AffineConstantExpr>(size) && sizes.range(size).low < 1) {
          auto name = cast<StringAttr>(texts[dimension]);
          empty.insert(name.empty() ? builder.getStringAttr("arg" + Twine(index) + "." + Twine(dimension)) : name);
        }
    }
  for (StringRef what : {"nn.size_limits", "nn.expected_sizes"})
    if (auto given = function->getAttrOfType<DictionaryAttr>(what)) {
      SmallVector<NamedAttribute> kept;
      llvm::copy_if(given, std::back_inserter(kept),
                    [&](NamedAttribute entry) { return named.contains(entry.getName().getValue()); });
      if (!kept.empty())
        outlined->setAttr(what, builder.getDictionaryAttr(kept));
    }
  if (!empty.empty())
    outlined->setAttr("nn.empty_sizes", builder.getArrayAttr(empty.getArrayRef()));
  return outlined;
}

void Outliner::outline(Operation &op, Region &region) {
  Block &block = region.front();
  sink(block);
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(region, captured);
  SmallVector<Value> inputs(block.getArguments().begin(), block.getArguments().end());
  inputs.append(captured.begin(), captured.end());
  Operation *terminator = block.getTerminator();
  // Values that come in from elsewhere leave without the function.
  llvm::SetVector<Value> results;
  for (Value value : terminator->getOperands())
    if (value.getParentBlock() == &block && !isa<BlockArgument>(value))
      results.insert(value);
  func::FuncOp outlined = makeFunction(op, inputs, ValueRange(results.getArrayRef()).getTypes());
  Block *body = outlined.addEntryBlock();
  body->getOperations().splice(body->end(), block.getOperations(), block.begin(), terminator->getIterator());
  for (auto [input, argument] : llvm::zip_equal(inputs, body->getArguments())) {
    argument.setLoc(input.getLoc());
    Value origin = origins.lookup(input);
    origins[argument] = origin ? origin : input;
    replaceAllUsesInRegionWith(input, argument, outlined.getBody());
  }
  builder.setInsertionPointToEnd(body);
  func::ReturnOp::create(builder, op.getLoc(), results.getArrayRef());
  builder.setInsertionPoint(terminator);
  auto call = func::CallOp::create(builder, op.getLoc(), outlined, inputs);
  for (auto [value, result] : llvm::zip_equal(results, call.getResults())) {
    terminator->replaceUsesOfWith(value, result);
    Value origin = origins.lookup(value);
    origins[result] = origin ? origin : value;
  }
}

/// Refuses ops on tensors that take an integer which only the host knows while it runs: kernels are given sizes.
LogicalResult checkScalars(func::FuncOp function) {
  DenseSet<Value> known; // integers of the running host program
  WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
    bool isSelect = isa<arith::SelectOp>(op) && isa<TensorType>(op->getResult(0).getType()); // becomes a branch
    bool isHosts = isControlFlow(op) || op->hasTrait<OpTrait::IsTerminator>() || isSelect || isa<cf::AssertOp>(op);
    bool isScalar =
        op->getNumResults() && llvm::all_of(op->getResultTypes(), [](Type type) { return type.isIntOrIndex(); });
    auto isRunning = [&](Value operand) { return known.contains(operand); };
    if (isControlFlow(op))
      for (Region &region : op->getRegions())
        for (BlockArgument argument : region.getArguments())
          if (!isa<TensorType>(argument.getType()))
            known.insert(argument);
    if (isHosts || isa<tensor::ExtractOp>(op) || (isScalar && llvm::any_of(op->getOperands(), isRunning))) {
      for (Value value : op->getResults())
        if (!isa<TensorType>(value.getType()))
          known.insert(value);
    } else if (llvm::any_of(op->getOperands(), isRunning)) {
      return op->emitError() << "'" << op->getName()
                             << "' takes a number that the host computes while it runs, such as a loop's counter; "
                                "kernels take tensors: carry the number as a tensor";
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      auto isFixed = [](Value index) { return getConstantIntValue(index).has_value(); };
      if (!extract.getType().isIntOrIndex() || !llvm::all_of(extract.getIndices(), isFixed))
        return op->emitError() << "'tensor.extract' reads " << extract.getType()
                               << (extract.getType().isIntOrIndex() ? " at an index that is no constant"
                                                                    : ": the host computes with integers alone")
                               << "; compute it in a tensor";
    }
    // Ops inside of these run on the device.
    return isa<nn::GroupOp>(op) || (op->getNumRegions() && !isHosts && !isa<func::FuncOp>(op)) ? WalkResult::skip()
                                                                                               : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

struct FuseOutlineRegions : fuse::impl::FuseOutlineRegionsBase<FuseOutlineRegions> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(outlinedAttr)) {
        function.emitError() << "function '" << function.getSymName() << "' has '" << outlinedAttr
                             << "', which marks the bodies of control flow while the fuse phase runs; take it away";
        return signalPassFailure();
      }
    std::optional<SymbolTable> symbols;
    for (func::FuncOp function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      SmallVector<Operation *> ops; // those within others first
      function.walk([&](Operation *op) {
        if (isControlFlow(op))
          ops.push_back(op);
      });
      if (ops.empty())
        continue;
      if (failed(checkScalars(function)))
        return signalPassFailure();
      if (!symbols)
        symbols.emplace(getOperation());
      Outliner(function, *symbols).outline(ops);
    }
  }
};
} // namespace
