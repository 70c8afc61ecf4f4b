//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/InputRanges.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Analysis/ControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::lower {
namespace {

/// True for ops that change the shape or the width of integers, and not their values.
bool keepsValues(Operation *op) {
  return isa_and_nonnull<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, arith::ExtSIOp,
                         arith::ExtUIOp>(op);
}

/// The origins of the integers of a tensor.
class IntegerSources {
public:
  /// Collects the sources of all elements of a tensor. Truncation changes no integer that is a valid index, and makes
  /// an index of others: it is looked through where the kernel guards its indices.
  IntegerSources(Value tensor, bool throughTruncation) : throughTruncation(throughTruncation) { add(tensor); }

  SmallVector<BlockArgument> inputs; ///< of the function: all of their elements are among the integers
  int64_t least = 0, largest = 0;    ///< of the constants among them, and 0
  bool areComputed = false;          ///< true if there are other integers than those of inputs and constants

private:
  void add(Value value) {
    if (!seen.insert(value).second)
      return;
    if (SmallVector<Value> sources = sourcesOf(value); !sources.empty())
      return addAll(sources);
    if (auto argument = dyn_cast<BlockArgument>(value))
      return addArgument(argument);
    Operation *op = value.getDefiningOp();
    DenseIntElementsAttr constant;
    if (auto group = dyn_cast<nn::GroupOp>(op))
      add(group.getBodyBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()));
    else if (keepsValues(op) || (throughTruncation && isa<arith::TruncIOp>(op)))
      add(op->getOperand(0));
    else if (isa<tensor::ConcatOp>(op)) // slices are not looked through: what they leave out need be no index
      addAll(op->getOperands());
    else if (matchPattern(value, m_Constant(&constant)))
      addConstant(constant);
    else
      areComputed = true;
  }

  void addAll(ValueRange values) {
    for (Value value : values)
      add(value);
  }

  void addArgument(BlockArgument argument) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto group = dyn_cast<nn::GroupOp>(parent))
      add(group.getInputs()[argument.getArgNumber()]);
    else if (isa<func::FuncOp>(parent))
      inputs.push_back(argument);
    else
      areComputed = true;
  }

  void addConstant(DenseIntElementsAttr constant) {
    for (const APInt &value : constant.getValues<APInt>()) {
      least = std::min(least, value.getSExtValue());
      largest = std::max(largest, value.getSExtValue());
      if (constant.isSplat())
        break;
    }
  }

  bool throughTruncation;
  DenseSet<Value> seen;
};

/// Lets calls be checked for an input that kernels use as rows of a table, and guard.
LogicalResult limitArgument(func::FuncOp function, BlockArgument argument, int64_t rows, Operation *op) {
  unsigned number = argument.getArgNumber();
  auto given = function.getArgAttrOfType<StringAttr>(number, "nn.name");
  std::string name = given ? given.str() : "arg" + std::to_string(number);
  if (auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(number, "nn.range")) {
    if (range[0] >= 0 && range[1] <= rows)
      return success();
    return op->emitError() << "input '" << name << "' has nn.range [" << range[0] << ", " << range[1]
                           << "), and is an index of the table of '" << op->getName() << "', which has " << rows
                           << " rows; let the range be inside [0, " << rows << ")";
  }
  if (auto byDefault = function.getArgAttrOfType<IntegerAttr>(number, "nn.default"))
    if (int64_t index = nn::numberOf(byDefault); index < 0 || index >= rows)
      return op->emitError() << "input '" << name << "' has nn.default " << index
                             << ", and is an index of the table of '" << op->getName() << "', which has " << rows
                             << " rows";
  function.setArgAttr(number, "nn.range", Builder(function).getDenseI64ArrayAttr({0, rows}));
  return success();
}

/// A limit of integers: a number, or a number of times a size that the call decides.
struct Limit {
  int64_t factor;
  AffineExpr size; ///< a symbol; null: the factor is the limit
};

/// Returns a limit that an input can be checked for; nullopt for other expressions.
std::optional<Limit> limitOf(AffineExpr expression) {
  if (auto number = dyn_cast<AffineConstantExpr>(expression))
    return Limit{number.getValue(), nullptr};
  Limit limit{1, nullptr};
  if (auto product = dyn_cast<AffineBinaryOpExpr>(expression); product && product.getKind() == AffineExprKind::Mul)
    if (auto factor = dyn_cast<AffineConstantExpr>(product.getRHS())) {
      limit.factor = factor.getValue();
      expression = product.getLHS();
    }
  if (!isa<AffineSymbolExpr>(expression))
    return std::nullopt;
  limit.size = expression;
  return limit;
}

/// Lets calls be checked for an input whose values must be less than a limit, which is `least` at least.
LogicalResult limitInput(func::FuncOp function, BlockArgument argument, const Limit &limit, int64_t least,
                         const SymbolicSizes &sizes, Operation *op) {
  unsigned number = argument.getArgNumber();
  Builder builder(function);
  if (auto byDefault = function.getArgAttrOfType<IntegerAttr>(number, "nn.default"))
    if (int64_t index = nn::numberOf(byDefault); index < 0 || index >= least)
      return op->emitOpError() << "input " << number << " is an index, and its nn.default " << index
                               << " need not be less than the limit of the call";
  auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(number, "nn.range");
  if (!limit.size) {
    int64_t low = range ? std::max<int64_t>(range[0], 0) : 0, high = range ? range[1] : limit.factor;
    function.setArgAttr(number, "nn.range", builder.getDenseI64ArrayAttr({low, std::min(limit.factor, high)}));
    return success();
  }
  auto below =
      builder.getArrayAttr({builder.getI64IntegerAttr(limit.factor),
                            builder.getStringAttr(sizes.names()[cast<AffineSymbolExpr>(limit.size).getPosition()])});
  if (Attribute given = function.getArgAttr(number, "nn.below"); given && given != below)
    return op->emitOpError() << "needs input " << number << " to be below " << below << ", another op below " << given;
  function.setArgAttr(number, "nn.below", below);
  if (range && range[0] < 0)
    return op->emitOpError() << "input " << number << " is an index, and its nn.range begins below 0";
  if (!range)
    function.setArgAttr(number, "nn.range", builder.getDenseI64ArrayAttr({0, std::numeric_limits<int64_t>::max()}));
  return success();
}

/// Lets calls be checked for indices that inputs hold, and notes those that the host must check while it runs.
LogicalResult limitIndices(func::FuncOp function, const SymbolicSizes &sizes, Operation *op, const IndexOperand &index,
                           ComputedIndices &computed) {
  AffineExpr expression = SymbolicSizes::normalize(index.limit);
  std::optional<Limit> limit = limitOf(expression);
  Value value = op->getOperand(index.operand);
  IntegerSources sources(value, /*throughTruncation=*/false);
  int64_t least = sizes.range(expression).low;
  bool hasGoodConstants = sources.least >= 0 && sources.largest < least;
  if (limit && !sources.areComputed && hasGoodConstants) {
    for (BlockArgument argument : sources.inputs)
      if (failed(limitInput(function, argument, *limit, least, sizes, op)))
        return failure();
    return success();
  }
  while (keepsValues(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(value);
  auto group = argument ? dyn_cast<nn::GroupOp>(argument.getOwner()->getParentOp()) : nn::GroupOp();
  if (!group)
    return op->emitOpError() << index.name << " are computed in the kernel that uses them as indices; let another "
                             << "kernel compute them, so that the host can check them";
  if (!sizes.isKnown(expression))
    return op->emitOpError() << index.name << " must be less than " << sizes.toString(expression)
                             << ", which is not a function of the sizes of the inputs";
  computed[group].push_back({op, argument.getArgNumber(), index.name, expression});
  return success();
}

/// Says on the function how many tokens a page has: one page table serves all caches.
LogicalResult setPageTokens(func::FuncOp function, Operation *op, nn::CacheFormatAttr format) {
  if (format.isOpen())
    return op->emitOpError() << "is of a cache " << format
                             << ", whose pages have no size yet; run the partition phase first";
  auto known = function->getAttrOfType<IntegerAttr>("nn.page_tokens");
  if (known && known.getInt() != format.getPage())
    return op->emitOpError() << "is of a cache with pages of " << format.getPage() << " tokens, the function has pages "
                             << "of " << known.getInt() << ": one page table serves all caches";
  function->setAttr("nn.page_tokens", Builder(function).getI64IntegerAttr(format.getPage()));
  return success();
}

} // namespace

FailureOr<ComputedIndices> inferInputRanges(func::FuncOp function, const SymbolicSizes &sizes) {
  struct Use {
    Operation *op;
    IndexOperand index;
  };
  SmallVector<Use> guarded, others;
  WalkResult walked = function.walk([&](Operation *op) -> WalkResult {
    auto indexed = dyn_cast<IndexOperandOpInterface>(op);
    if (!indexed)
      return WalkResult::advance();
    for (NamedAttribute attribute : op->getAttrs())
      if (auto format = dyn_cast<nn::CacheFormatAttr>(attribute.getValue());
          format && failed(setPageTokens(function, op, format)))
        return failure();
    auto sizesOf = [&](Value operand) { return Sizes(sizes.of(operand)); };
    for (const IndexOperand &index : indexed.getIndexOperands(llvm::map_to_vector(op->getOperands(), sizesOf)))
      (index.isGuarded ? guarded : others).push_back({op, index});
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  // The smallest table of each argument without a range decides.
  llvm::erase_if(guarded, [](const Use &use) { return !isa<AffineConstantExpr>(use.index.limit); });
  auto rowsOf = [](const Use &use) { return cast<AffineConstantExpr>(use.index.limit).getValue(); };
  llvm::stable_sort(guarded, [&](const Use &a, const Use &b) { return rowsOf(a) < rowsOf(b); });
  for (const Use &use : guarded)
    for (BlockArgument argument : IntegerSources(use.op->getOperand(use.index.operand), true).inputs)
      if (failed(limitArgument(function, argument, rowsOf(use), use.op)))
        return failure();
  ComputedIndices computed;
  bool failedAny = false;
  for (const Use &use : others)
    failedAny |= failed(limitIndices(function, sizes, use.op, use.index, computed));
  if (failedAny)
    return failure();
  return computed;
}

} // namespace intarsia::lower
