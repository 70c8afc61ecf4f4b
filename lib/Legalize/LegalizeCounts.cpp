//===- LegalizeCounts.cpp - Sizes that a call computes ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// All phases know sizes as expressions of those of arguments. A size that is an element of a tensor ends a function
// here: the rest becomes a function of its own, whose arguments are those of the function, its results, and for each
// such size a tensor that has it. The runtime calls one after the other, so that memory, launches and checks of the
// rest are those of any call: nothing is computed that the size leaves out.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZECOUNTS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;

namespace {

/// Returns the operands of an op that are sizes of its result.
SmallVector<Value> sizesOf(Operation *op) {
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return llvm::to_vector(slice.getSizes());
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return llvm::to_vector(empty.getDynamicSizes());
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return llvm::to_vector(splat.getDynamicSizes());
  if (auto generate = dyn_cast<tensor::GenerateOp>(op))
    return llvm::to_vector(generate.getDynamicExtents());
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return llvm::to_vector(expand.getOutputShape());
  if (auto pad = dyn_cast<tensor::PadOp>(op)) {
    SmallVector<Value> sizes(pad.getLow());
    llvm::append_range(sizes, pad.getHigh());
    return sizes;
  }
  return {};
}

/// Finds the elements of tensors, and the integers that a call gives, that an integer is computed from.
void findElements(Value integer, llvm::SetVector<Value> &elements) {
  Operation *op = integer.getDefiningOp();
  bool isGiven = !op && isa<func::FuncOp>(integer.getParentBlock()->getParentOp());
  if (isGiven || isa_and_nonnull<tensor::ExtractOp>(op))
    elements.insert(integer);
  else if (op && isa<arith::ArithDialect>(op->getDialect()))
    for (Value operand : op->getOperands())
      findElements(operand, elements);
}

/// Splits one function.
class Splitter {
public:
  explicit Splitter(func::FuncOp function) : function(function), body(function.getBody().front()) {}

  /// Splits the function where a size is first an element of a tensor. `rest` is null if there is none.
  LogicalResult split(func::FuncOp &rest) {
    Operation *first = nullptr;
    WalkResult nested = function.walk([&](Operation *op) -> WalkResult {
      llvm::SetVector<Value> found;
      for (Value size : sizesOf(op))
        findElements(size, found);
      if (found.empty() || (first && op->getBlock() == &body))
        return WalkResult::advance();
      if (op->getBlock() != &body)
        return op->emitError() << "'" << op->getName()
                               << "' has a size that is an element of a tensor, inside of control flow: such sizes are "
                                  "compiled where a function is a straight line; bring the op out of the region, or "
                                  "keep a tensor of the largest size there";
      if (function->hasAttr("nn.runs_at_load"))
        return op->emitError() << "'" << op->getName()
                               << "' has a size that is an element of a tensor, in a function that runs at load";
      first = op;
      elements = found;
      return WalkResult::advance();
    });
    if (nested.wasInterrupted())
      return failure();
    if (first)
      rest = makeRest(first);
    return success();
  }

private:
  /// The rest begins with `first`.
  func::FuncOp makeRest(Operation *first) {
    Location location = function.getLoc();
    OpBuilder builder(function);
    SymbolicSizes sizes(function);
    for (Operation *op = first; op; op = op->getNextNode())
      moved.push_back(op);
    DenseSet<Operation *> isMoved(moved.begin(), moved.end());

    // What the rest reads: integers are computed again, from sizes and from elements, tensors are passed.
    for (Operation *op : moved) {
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          need(operand, isMoved);
      });
    }
    SmallVector<Value> passed(tensors.begin(), tensors.end()), results = passed;
    builder.setInsertionPoint(first);
    SmallVector<Value> counts;
    for (Value element : elements) { // as tensors without dimensions
      Type i64 = builder.getI64Type();
      auto extract = element.getDefiningOp<tensor::ExtractOp>();
      if (extract && extract.getTensor().getType() == RankedTensorType::get({}, i64)) {
        counts.push_back(extract.getTensor());
        continue;
      }
      Value wide = element;
      if (wide.getType() != i64)
        wide = wide.getType().isIndex() ? arith::IndexCastOp::create(builder, element.getLoc(), i64, wide).getResult()
                                        : arith::ExtSIOp::create(builder, element.getLoc(), i64, wide).getResult();
      counts.push_back(tensor::FromElementsOp::create(builder, element.getLoc(), RankedTensorType::get({}, i64), wide));
    }
    llvm::append_range(results, counts);

    // Arguments of the rest: those that callers give, the results, what has the sizes, globals.
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    IRMapping mapping;
    SmallVector<Value> order; // the value that each argument stands for; null for sizes
    auto add = [&](Value value, Type type, ArrayRef<NamedAttribute> list) {
      order.push_back(value);
      types.push_back(type);
      attributes.push_back(builder.getDictionaryAttr(list));
    };
    auto isGlobal = [&](BlockArgument argument) {
      return bool(function.getArgAttr(argument.getArgNumber(), "nn.global"));
    };
    // Sizes keep their names, also those that only this function has given them.
    auto namesOf = [&](Value tensor) -> ArrayAttr {
      std::vector<std::string> texts;
      auto type = cast<RankedTensorType>(tensor.getType());
      for (auto [dimension, size] : llvm::enumerate(sizes.of(tensor)))
        texts.push_back(type.isDynamicDim(dimension) && isa<AffineSymbolExpr>(size) && sizes.isKnown(size)
                            ? sizes.toString(size)
                            : "");
      return builder.getStrArrayAttr(SmallVector<StringRef>(texts.begin(), texts.end()));
    };
    auto addArgument = [&](BlockArgument argument) {
      NamedAttrList list(function.getArgAttrDict(argument.getArgNumber()));
      if (isa<RankedTensorType>(argument.getType()))
        list.set("nn.sizes", namesOf(argument));
      list.erase("nn.size_from"); // it is passed on like any other
      add(argument, argument.getType(), list);
    };
    for (BlockArgument argument : function.getArguments())
      if (!isGlobal(argument))
        addArgument(argument);
    for (Value result : results)
      add(result, result.getType(), {builder.getNamedAttr("nn.sizes", namesOf(result))});
    unsigned counted = 0;
    for (unsigned number = 0; number != elements.size(); ++number) {
      std::string name;
      do
        name = "count" + std::to_string(counted++);
      while (llvm::is_contained(sizes.names(), name));
      add(Value(), RankedTensorType::get({ShapedType::kDynamic}, builder.getI8Type()),
          {builder.getNamedAttr("nn.size_from", builder.getI64IntegerAttr(passed.size() + number)),
           builder.getNamedAttr("nn.name", builder.getStringAttr("@" + name)),
           builder.getNamedAttr("nn.sizes", builder.getStrArrayAttr({StringRef(name)}))});
    }
    for (BlockArgument argument : function.getArguments())
      if (isGlobal(argument))
        addArgument(argument);

    // The rest, which has the results of the whole.
    builder.setInsertionPointAfter(function);
    auto rest = func::FuncOp::create(builder, location, (function.getSymName() + ".rest").str(),
                                     builder.getFunctionType(types, function.getResultTypes()));
    for (NamedAttribute attribute : function->getDiscardableAttrs())
      rest->setAttr(attribute.getName(), attribute.getValue());
    SymbolTable(function->getParentOfType<ModuleOp>()).insert(rest);
    rest->setAttr("nn.continues", FlatSymbolRefAttr::get(function.getSymNameAttr()));
    rest.setAllArgAttrs(attributes);
    if (ArrayAttr own = function.getAllResultAttrs())
      rest.setAllResultAttrs(own);
    Block *block = rest.addEntryBlock();
    unsigned carrier = 0;
    builder.setInsertionPointToStart(block);
    for (auto [argument, value] : llvm::zip_equal(block->getArguments(), order)) {
      if (value) {
        if (!mapping.contains(value))
          mapping.map(value, argument);
        continue;
      }
      Value element = elements[carrier++];
      Value size = tensor::DimOp::create(builder, element.getLoc(), argument, 0);
      if (!element.getType().isIndex())
        size = arith::IndexCastOp::create(builder, element.getLoc(), element.getType(), size);
      mapping.map(element, size);
    }
    for (Operation *op : scalars)
      if (!elements.contains(op->getResult(0)))
        builder.clone(*op, mapping);
    for (Operation *op : moved)
      builder.clone(*op, mapping);

    for (Operation *op : llvm::reverse(moved))
      op->erase();
    builder.setInsertionPointToEnd(&body);
    func::ReturnOp::create(builder, location, results);
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
    function.removeResAttrsAttr();
    return rest;
  }

  /// Notes a value that the rest reads: integers with the ops that compute them, in their order, tensors as they are.
  void need(Value value, const DenseSet<Operation *> &isMoved) {
    Operation *op = value.getDefiningOp();
    Operation *outer = op ? body.findAncestorOpInBlock(*op) : nullptr;
    if (!op || isMoved.contains(outer) || scalars.contains(op))
      return; // arguments are passed as they are
    if (op->getBlock() != &body)
      return; // of a region that moves too
    bool isComputedAgain = isa<arith::ConstantOp, tensor::DimOp, tensor::EmptyOp>(op) ||
                           (isa<arith::ArithDialect>(op->getDialect()) && !isa<TensorType>(value.getType())) ||
                           isa<tensor::ExtractOp>(op);
    if (!isComputedAgain) {
      if (isa<RankedTensorType>(value.getType()))
        tensors.insert(value);
      return;
    }
    if (!elements.contains(value))
      for (Value operand : op->getOperands())
        need(operand, isMoved);
    scalars.insert(op);
  }

  func::FuncOp function;
  Block &body;
  llvm::SetVector<Value> elements; ///< of tensors, which are sizes
  SmallVector<Operation *> moved;
  llvm::SetVector<Operation *> scalars; ///< ops before that are computed again, operands first
  llvm::SetVector<Value> tensors;       ///< that the rest reads
};

struct LegalizeCounts : legalize::impl::LegalizeCountsBase<LegalizeCounts> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> open(getOperation().getOps<func::FuncOp>());
    while (!open.empty()) {
      func::FuncOp function = open.pop_back_val(), rest;
      if (function.isExternal() || !function.getBody().hasOneBlock())
        continue;
      if (failed(Splitter(function).split(rest)))
        return signalPassFailure();
      if (rest)
        open.push_back(rest);
    }
  }
};
} // namespace
