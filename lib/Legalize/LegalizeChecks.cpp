//===- LegalizeChecks.cpp - What a call is checked for while it runs ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Kernels cannot end a call. What the body of a linalg op asserts, and the indices that it computes from data, are
// computed once more by a reduction to one number, which the host asserts when the block has run. The reduction has
// only the loops that the number depends on: that of rows that are gathered reads the row numbers, not the rows.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/IndexChecks.h"
#include "lib/Legalize/Intervals.h"
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Analysis/Assertions.h"
#include "intarsia/Analysis/LoopSizes.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZECHECKS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;
using intarsia::legalize::assertNumber;
using intarsia::legalize::Interval;
using intarsia::legalize::Intervals;

namespace {

/// scf.if in bodies of linalg ops: both sides are computed, and one is taken.
struct BranchToSelect : OpRewritePattern<scf::IfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::IfOp op, PatternRewriter &rewriter) const override {
    if (!op->getParentOfType<linalg::LinalgOp>() || op.getElseRegion().empty() || op.getNumResults() == 0)
      return failure();
    // Kernels guard elements, and divisions have a result for any divisor (LegalizeDivisions.cpp).
    auto mayBeComputed = [](Operation &inner) {
      return isa<tensor::ExtractOp>(inner) ||
             (inner.getNumRegions() == 0 && (isPure(&inner) || isa<arith::ArithDialect>(inner.getDialect())));
    };
    for (Block *block : {op.thenBlock(), op.elseBlock()})
      if (!llvm::all_of(block->without_terminator(), mayBeComputed))
        return failure();
    SmallVector<Value> yes(op.thenYield().getOperands()), no(op.elseYield().getOperands());
    for (Block *block : {op.thenBlock(), op.elseBlock()}) {
      rewriter.eraseOp(block->getTerminator());
      rewriter.inlineBlockBefore(block, op);
    }
    SmallVector<Value> results;
    for (auto [a, b] : llvm::zip_equal(yes, no))
      results.push_back(arith::SelectOp::create(rewriter, op.getLoc(), op.getCondition(), a, b));
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// An integer that a body computes, and what it must be.
struct Check {
  Operation *op; ///< of the body, which needs it
  Value number;  ///< of the body: an index, or a condition
  Value tensor;  ///< that the index is of; null for a condition
  int64_t dimension = 0;
};

/// Makes the checks of one linalg op.
class BodyChecks {
public:
  BodyChecks(linalg::LinalgOp op, const SymbolicSizes &sizes) : op(op), sizes(sizes), builder(op) {}

  LogicalResult run() {
    SmallVector<Check> checks;
    SmallVector<std::pair<tensor::ExtractOp, unsigned>> guarded;
    WalkResult walked = op.getBlock()->walk([&](tensor::ExtractOp extract) -> WalkResult {
      if (extract.getTensor().getType().getNumDynamicDims() == 0 && extract.getTensor().getType().getNumElements() == 0)
        return extract.emitError() << "'" << nameOf(extract) << "' reads an element of "
                                   << extract.getTensor().getType() << ", which has none";
      Path path = pathTo(extract);
      for (auto [dimension, index] : llvm::enumerate(extract.getIndices())) {
        AffineExpr size = sizes.of(extract.getTensor())[dimension];
        // The size constraints of a call cover these (SizeConstraints.cpp), but not only where a branch reads them.
        bool isOfSizes = index.getDefiningOp<linalg::IndexOp>() || sizes.ofIndex(index);
        if (isOfSizes ? path.empty() || isInside(index, size) : !isInBody(index) && !isDataOfHost(index))
          continue;
        if (!path.empty() && isOfLoops(index) && !isInside(index, size))
          guarded.push_back({extract, dimension});
        if (!extract->hasAttr(legalize::insideAttr) && !isInside(index, size, path))
          checks.push_back({extract, index, extract.getTensor(), int64_t(dimension)});
      }
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
    for (auto [extract, dimension] : guarded)
      clamp(extract, dimension);
    SmallVector<cf::AssertOp> assertions;
    op.getBlock()->walk([&](cf::AssertOp assertion) { assertions.push_back(assertion); });
    for (cf::AssertOp assertion : assertions)
      if (!isOfCheckedIndex(assertion))
        checks.push_back({assertion, assertion.getArg(), Value()});
    for (const Check &check : checks)
      if (failed(add(check)))
        return failure();
    for (cf::AssertOp assertion : assertions)
      assertion.erase();
    return success();
  }

private:
  /// The branches in the body that lead to an op, outermost first, each with the side that it is on.
  using Path = SmallVector<std::pair<scf::IfOp, bool>>;

  Path pathTo(Operation *inner) const {
    Path path;
    for (Operation *at = inner; at->getParentOp() != op.getOperation(); at = at->getParentOp())
      if (auto branch = dyn_cast<scf::IfOp>(at->getParentOp()))
        path.push_back({branch, at->getParentRegion() == &branch.getThenRegion()});
    std::reverse(path.begin(), path.end());
    return path;
  }

  //===-- What is known before a call -----------------------------------------------------------------------===//

  /// Returns the integer that casts keep the value of.
  Value beforeCasts(Value value) const {
    auto width = [](Value of) { return of.getType().isIndex() ? 64 : of.getType().getIntOrFloatBitWidth(); };
    while (auto *cast = value.getDefiningOp()) {
      if (!isa<arith::IndexCastOp, arith::ExtSIOp>(cast) || width(cast->getOperand(0)) > width(value))
        break;
      value = cast->getOperand(0);
    }
    return value;
  }

  bool isInBody(Value value) const { return op->isAncestor(value.getParentRegion()->getParentOp()); }

  /// True for an index that is computed from loops and sizes alone, which simplifications may make a loop.
  bool isOfLoops(Value index) const {
    llvm::SetVector<Value> open;
    open.insert(index);
    for (unsigned i = 0; i < open.size(); ++i) {
      Operation *definition = open[i].getDefiningOp();
      if (isa_and_nonnull<linalg::IndexOp>(definition) || sizes.ofIndex(open[i]))
        continue;
      if (!definition || !isa_and_nonnull<arith::ArithDialect>(definition->getDialect()))
        return false;
      open.insert(definition->operand_begin(), definition->operand_end());
    }
    return true;
  }

  /// True for a value from outside of the body that is computed from elements of tensors and integers of the call.
  static bool isDataOfHost(Value value) {
    llvm::SetVector<Value> open;
    open.insert(value);
    for (unsigned i = 0; i < open.size(); ++i) {
      Operation *definition = open[i].getDefiningOp();
      if (!definition) {
        bool isOfCall = isa<func::FuncOp>(cast<BlockArgument>(open[i]).getOwner()->getParentOp());
        if (!isOfCall || open[i].getType().isIndex())
          return false;
      } else if (isa_and_nonnull<arith::ArithDialect>(definition->getDialect())) {
        open.insert(definition->operand_begin(), definition->operand_end());
      } else if (!isa<tensor::ExtractOp, tensor::DimOp>(definition)) {
        return false;
      }
    }
    return true;
  }

  /// Returns the bounds of an index that is read where branches lead to.
  Interval boundsOf(Value index, const Path &path) const {
    Interval bounds = Intervals(sizes).of(index);
    auto narrow = [&](arith::CmpIPredicate predicate, Value other) {
      using P = arith::CmpIPredicate;
      Interval limit = Intervals(sizes).of(other);
      // Without a sign, numbers below zero are larger than all others.
      if ((predicate == P::ult || predicate == P::ule) && limit.low >= 0)
        bounds = {std::max<int64_t>(bounds.low, 0), std::min(bounds.high, limit.high - (predicate == P::ult))};
      else if (predicate == P::slt || predicate == P::sle)
        bounds.high = std::min(bounds.high, limit.high - (predicate == P::slt && limit.high > INT64_MIN));
      else if (predicate == P::sgt || predicate == P::sge)
        bounds.low = std::max(bounds.low, limit.low + (predicate == P::sgt && limit.low < INT64_MAX));
      else if (predicate == P::eq)
        bounds = {std::max(bounds.low, limit.low), std::min(bounds.high, limit.high)};
      return false;
    };
    for (auto [branch, isThen] : path)
      anySays(branch.getCondition(), isThen, index, narrow);
    return bounds;
  }

  /// True if branches compare an index with a number that is no larger than a size.
  bool isBelow(Value index, AffineExpr size, const Path &path) const {
    auto compares = [&](arith::CmpIPredicate predicate, Value other) {
      using P = arith::CmpIPredicate;
      AffineExpr limit = sizes.ofIndex(beforeCasts(other));
      if (!sizes.isKnown(limit) || !sizes.isKnown(size))
        return false;
      int64_t room = sizes.range(SymbolicSizes::normalize(size - limit)).low;
      return ((predicate == P::ult || predicate == P::slt) && room >= 0) ||
             ((predicate == P::ule || predicate == P::sle) && room > 0);
    };
    return llvm::any_of(path, [&](std::pair<scf::IfOp, bool> step) {
      return anySays(step.first.getCondition(), step.second, index, compares);
    });
  }

  /// Calls a function with what a condition that holds, or that does not, says of an index: a comparison, and what it
  /// is compared with. Returns true as soon as the function does.
  bool anySays(Value condition, bool holds, Value index,
               function_ref<bool(arith::CmpIPredicate, Value)> function) const {
    Operation *definition = condition.getDefiningOp();
    if (isa_and_nonnull<arith::AndIOp, arith::OrIOp>(definition) && isa<arith::AndIOp>(definition) == holds)
      return anySays(definition->getOperand(0), holds, index, function) ||
             anySays(definition->getOperand(1), holds, index, function);
    auto compare = dyn_cast_or_null<arith::CmpIOp>(definition);
    if (!compare)
      return false;
    arith::CmpIPredicate predicate = holds ? compare.getPredicate() : arith::invertPredicate(compare.getPredicate());
    if (beforeCasts(compare.getLhs()) == index)
      return function(predicate, compare.getRhs());
    return beforeCasts(compare.getRhs()) == index && function(swapped(predicate), compare.getLhs());
  }

  static arith::CmpIPredicate swapped(arith::CmpIPredicate predicate) {
    using P = arith::CmpIPredicate;
    switch (predicate) {
    case P::slt:
      return P::sgt;
    case P::sle:
      return P::sge;
    case P::sgt:
      return P::slt;
    case P::sge:
      return P::sle;
    case P::ult:
      return P::ugt;
    case P::ule:
      return P::uge;
    case P::ugt:
      return P::ult;
    case P::uge:
      return P::ule;
    default:
      return predicate;
    }
  }

  /// True if an index is proven to be in [0, size) where branches lead to.
  bool isInside(Value index, AffineExpr size, const Path &path = {}) const {
    index = beforeCasts(index);
    if (auto select = index.getDefiningOp<arith::SelectOp>();
        select && isInside(select.getTrueValue(), size, path) && isInside(select.getFalseValue(), size, path))
      return true;
    if (!sizes.isKnown(size))
      return false;
    if (auto loop = index.getDefiningOp<linalg::IndexOp>())
      if (AffineExpr count = sizeOfLoop(op, loop.getDim(), sizes); count && sizes.isKnown(count))
        if (sizes.range(SymbolicSizes::normalize(size - count)).low >= 0)
          return true;
    Interval known = boundsOf(index, path);
    return known.low >= 0 && (known.high < sizes.range(size).low || isBelow(index, size, path));
  }

  /// Keeps an index inside of its tensor: a branch reads it only where it is.
  void clamp(tensor::ExtractOp extract, unsigned dimension) {
    Location location = extract.getLoc();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op);
    Value size = getValueOrCreateConstantIndexOp(
        builder, location, tensor::getMixedSize(builder, location, extract.getTensor(), dimension));
    Value one = arith::ConstantIndexOp::create(builder, location, 1);
    Value last = arith::SubIOp::create(builder, location, size, one);
    builder.setInsertionPoint(extract);
    Value index = extract.getIndices()[dimension];
    extract.getIndicesMutable()[dimension].set(arith::MinSIOp::create(builder, location, index, last));
  }

  /// True for `index < size` and `index >= 0` of an index that a tensor.extract of the same block has, which is checked
  /// for both: other compilers write such assertions before it.
  bool isOfCheckedIndex(cf::AssertOp assertion) const {
    auto compare = assertion.getArg().getDefiningOp<arith::CmpIOp>();
    if (!compare)
      return false;
    std::optional<int64_t> limit = getConstantIntValue(compare.getRhs());
    bool isLow = compare.getPredicate() == arith::CmpIPredicate::sge && limit == 0;
    bool isHigh = limit && (compare.getPredicate() == arith::CmpIPredicate::slt ||
                            compare.getPredicate() == arith::CmpIPredicate::ult);
    for (auto extract : assertion->getBlock()->getOps<tensor::ExtractOp>())
      for (auto [dimension, index] : llvm::enumerate(extract.getIndices()))
        if (beforeCasts(index) == beforeCasts(compare.getLhs()) &&
            (isLow || (isHigh && extract.getTensor().getType().getDimSize(dimension) == limit)))
          return true;
    return false;
  }

  //===-- What the host asserts -----------------------------------------------------------------------------===//

  LogicalResult add(const Check &check) {
    if (check.tensor && limitsInput(check))
      return success();
    Path path = pathTo(check.op);
    // What the number depends on, in the order of the body.
    llvm::SetVector<Value> open;
    open.insert(check.number);
    for (auto [branch, _] : path)
      open.insert(branch.getCondition());
    DenseSet<Operation *> wanted;
    llvm::SmallBitVector loops(op.getNumLoops()), arguments(op->getNumOperands());
    for (unsigned i = 0; i < open.size(); ++i) {
      if (auto argument = dyn_cast<BlockArgument>(open[i])) {
        if (argument.getOwner() != op.getBlock())
          continue;
        OpOperand *operand = op.getMatchingOpOperand(argument);
        if (op.isDpsInit(operand) && op.getNumReductionLoops())
          return check.op->emitError()
                 << "'" << check.op->getName() << "' " << (check.tensor ? "has an index" : "asserts a condition")
                 << " that depends on what a reduction has accumulated: such a one cannot be checked";
        arguments.set(operand->getOperandNumber());
        for (AffineExpr index : op.getMatchingIndexingMap(operand).getResults())
          index.walk([&](AffineExpr part) {
            if (auto loop = dyn_cast<AffineDimExpr>(part))
              loops.set(loop.getPosition());
          });
        continue;
      }
      Operation *definition = open[i].getDefiningOp();
      if (!op->isProperAncestor(definition) || !wanted.insert(definition).second)
        continue;
      if (auto loop = dyn_cast<linalg::IndexOp>(definition))
        loops.set(loop.getDim());
      definition->walk([&](Operation *inner) {
        if (auto loop = dyn_cast<linalg::IndexOp>(inner))
          loops.set(loop.getDim());
        open.insert(inner->operand_begin(), inner->operand_end());
      });
    }
    return emit(check, path, wanted, loops, arguments);
  }

  /// Lets calls be checked before they start, for an input whose elements are all indices.
  bool limitsInput(const Check &check) {
    auto argument = dyn_cast<BlockArgument>(beforeCasts(check.number));
    auto function = dyn_cast<func::FuncOp>(op->getParentOp());
    int64_t limit = cast<RankedTensorType>(check.tensor.getType()).getDimSize(check.dimension);
    if (!argument || !function || argument.getOwner() != op.getBlock() || !pathTo(check.op).empty() ||
        ShapedType::isDynamic(limit))
      return false;
    OpOperand *operand = op.getMatchingOpOperand(argument);
    auto input = dyn_cast<BlockArgument>(operand->get());
    if (!input || !op.getMatchingIndexingMap(operand).isProjectedPermutation() || !isa<TensorType>(input.getType()))
      return false;
    auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(input.getArgNumber(), "nn.range");
    if (function.getArgAttr(input.getArgNumber(), "nn.default") || (range && range[0] >= limit))
      return false;
    // Ranges say what is beyond them, which narrow integers cannot hold.
    if (argument.getType().isIndex())
      return false;
    unsigned width = argument.getType().getIntOrFloatBitWidth();
    if (width < 64 && limit > APInt::getSignedMaxValue(width).getSExtValue())
      return false;
    int64_t low = range ? std::max<int64_t>(range[0], 0) : 0, high = range ? std::min(range[1], limit) : limit;
    if (high <= low)
      return false;
    function.setArgAttr(input.getArgNumber(), "nn.range", builder.getDenseI64ArrayAttr({low, high}));
    return true;
  }

  /// Emits the reduction, and what the host asserts of its result.
  LogicalResult emit(const Check &check, const Path &path, const DenseSet<Operation *> &wanted,
                     const llvm::SmallBitVector &loops, const llvm::SmallBitVector &arguments) {
    Location location = check.op->getLoc();
    builder.setInsertionPoint(op->getBlock()->getTerminator());
    MLIRContext *context = builder.getContext();
    SmallVector<AffineExpr> renumbered(op.getNumLoops());
    unsigned count = 0;
    for (unsigned loop : loops.set_bits())
      renumbered[loop] = getAffineDimExpr(count++, context);
    SmallVector<Value> inputs;
    SmallVector<AffineMap> maps;
    SmallVector<unsigned> operands;
    llvm::SmallBitVector hasSize(count);
    for (unsigned number : arguments.set_bits()) {
      OpOperand &operand = op->getOpOperand(number);
      operands.push_back(number);
      inputs.push_back(operand.get());
      maps.push_back(op.getMatchingIndexingMap(&operand).replaceDimsAndSymbols(renumbered, {}, count, 0));
      for (AffineExpr index : maps.back().getResults())
        if (auto loop = dyn_cast<AffineDimExpr>(index))
          hasSize.set(loop.getPosition());
    }
    Type i64 = builder.getI64Type();
    Value zero = arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(0));
    if (!hasSize.all()) { // a tensor that says how often loops run
      SmallVector<Range> ranges = op.createLoopRanges(builder, op.getLoc());
      SmallVector<OpFoldResult> shape;
      for (unsigned loop : loops.set_bits())
        shape.push_back(ranges[loop].size);
      Value empty = tensor::EmptyOp::create(builder, location, shape, i64);
      inputs.push_back(linalg::FillOp::create(builder, location, zero, empty).getResult(0));
      maps.push_back(builder.getMultiDimIdentityMap(count));
    }
    Value limit;
    if (check.tensor) {
      Value size = tensor::DimOp::create(builder, location, check.tensor, check.dimension);
      if (sizes.range(sizes.of(check.tensor)[check.dimension]).low < 1) {
        // The tensor may be empty. The check then permits index 0, as if there were one element; the size constraints
        // of the call refuse a loop that would read it.
        Value one = arith::ConstantIndexOp::create(builder, location, 1);
        Value more = arith::AddIOp::create(builder, location, size, one);
        size = arith::AddIOp::create(builder, location, size, arith::DivUIOp::create(builder, location, one, more));
      }
      limit = arith::IndexCastOp::create(builder, location, i64, size);
    }
    Value empty = tensor::EmptyOp::create(builder, location, ArrayRef<int64_t>(), i64);
    Value init = linalg::FillOp::create(builder, location, zero, empty).getResult(0);
    maps.push_back(AffineMap::get(count, 0, context));
    SmallVector<utils::IteratorType> iterators(count, utils::IteratorType::reduction);
    auto body = [&](OpBuilder &inner, Location at, ValueRange values) {
      IRMapping mapping;
      for (auto [number, value] : llvm::zip(operands, values))
        mapping.map(op.getMatchingBlockArgument(&op->getOpOperand(number)), value);
      op.getBlock()->walk<WalkOrder::PreOrder>([&](Operation *needed) {
        if (!wanted.contains(needed))
          return WalkResult::advance();
        if (auto loop = dyn_cast<linalg::IndexOp>(needed))
          mapping.map(loop.getResult(),
                      linalg::IndexOp::create(inner, at, cast<AffineDimExpr>(renumbered[loop.getDim()]).getPosition())
                          .getResult());
        else // what it asserts has a check of its own
          inner.clone(*needed, mapping)->walk([](cf::AssertOp assertion) { assertion.erase(); });
        return WalkResult::skip();
      });
      Value number = mapping.lookupOrDefault(check.number);
      // The largest without a sign: numbers below zero are the largest.
      if (check.tensor) {
        if (number.getType() != i64)
          number = arith::IndexCastOp::create(inner, at, i64, number);
      } else {
        Value isWrong = arith::XOrIOp::create(
            inner, at, number, arith::ConstantOp::create(inner, at, inner.getBoolAttr(true)).getResult());
        number = arith::ExtUIOp::create(inner, at, i64, isWrong);
      }
      for (auto [branch, isThen] : path) {
        Value condition = mapping.lookupOrDefault(branch.getCondition());
        number = arith::SelectOp::create(inner, at, condition, isThen ? number : zero, isThen ? zero : number);
      }
      linalg::YieldOp::create(inner, at, arith::MaxUIOp::create(inner, at, number, values.back()).getResult());
    };
    Value worst = linalg::GenericOp::create(builder, location, TypeRange{init.getType()}, inputs, ValueRange{init},
                                            maps, iterators, body)
                      .getResult(0);
    if (auto assertion = dyn_cast<cf::AssertOp>(check.op))
      assertNumber(builder, location, worst, limit, assertion.getMsg());
    else
      assertNumber(builder, location, worst, limit,
                   "index of '" + nameOf(check.op) + "' in dimension " + Twine(check.dimension));
    return success();
  }

  /// The name that the user has written for an op.
  static StringRef nameOf(Operation *op) {
    auto written = op->getAttrOfType<StringAttr>(legalize::writtenAsAttr);
    return written ? written.getValue() : op->getName().getStringRef();
  }

  mutable linalg::LinalgOp op; // whose members are not const
  const SymbolicSizes &sizes;
  OpBuilder builder;
};

/// Replaces an op whose body never runs: results without elements have nothing to be computed, and those of reductions
/// are what they began as.
bool replaceEmptyLoops(linalg::LinalgOp op) {
  if (!llvm::is_contained(op.getStaticLoopRanges(), 0))
    return false;
  OpBuilder builder(op);
  for (auto [result, init] : llvm::zip_equal(op->getResults(), op.getDpsInits())) {
    auto type = cast<RankedTensorType>(result.getType());
    if (llvm::is_contained(type.getShape(), 0)) {
      Value zero = arith::ConstantOp::create(builder, op.getLoc(), builder.getZeroAttr(type.getElementType()));
      init = linalg::FillOp::create(builder, op.getLoc(), zero, init).getResult(0);
    }
    result.replaceAllUsesWith(init);
  }
  op.erase();
  return true;
}

struct LegalizeChecks : legalize::impl::LegalizeChecksBase<LegalizeChecks> {
  void runOnOperation() override {
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) {
      WalkResult found = op.getBlock()->walk(
          [](Operation *inner) { return WalkResult(failure(isa<tensor::ExtractOp, cf::AssertOp>(inner))); });
      if (found.wasInterrupted() && op.hasPureTensorSemantics())
        ops.push_back(op);
    });
    llvm::erase_if(ops, replaceEmptyLoops);
    SmallVector<IndexOperandOpInterface> readers;
    getOperation().walk([&](IndexOperandOpInterface op) { readers.push_back(op); });
    if (!ops.empty() || !readers.empty()) {
      SymbolicSizes sizes(getOperation());
      for (IndexOperandOpInterface op : readers)
        legalize::checkIndexOperands(op, sizes);
      for (linalg::LinalgOp op : ops)
        if (failed(BodyChecks(op, sizes).run()))
          return signalPassFailure();
    }
    getOperation().walk([](tensor::ExtractOp op) {
      op->removeDiscardableAttr(legalize::writtenAsAttr);
      op->removeDiscardableAttr(legalize::insideAttr);
    });
    RewritePatternSet patterns(&getContext());
    patterns.add<BranchToSelect>(&getContext());
    if (failed(legalize::rewrite(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
