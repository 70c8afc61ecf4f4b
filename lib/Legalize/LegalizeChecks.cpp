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
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "intarsia/Analysis/ControlFlow.h"
#include "intarsia/Analysis/LoopSizes.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <cmath>

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZECHECKS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;

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

/// Bounds of an integer, both included.
struct Interval {
  int64_t low, high;
};

/// Bounds of a float that is no NaN.
struct FloatInterval {
  double low, high;
};

/// What integers of bodies, and the elements of tensors that bodies read, are proven to be within.
class Intervals {
public:
  explicit Intervals(const SymbolicSizes &sizes) : sizes(sizes) {}

  /// Returns the bounds of an integer, or of all elements of a tensor of integers.
  Interval of(Value value) {
    Type element = getElementTypeOrSelf(value.getType());
    unsigned width = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
    if (width > 64 || left == 0)
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    --left;
    Interval all{APInt::getSignedMinValue(width).getSExtValue(), APInt::getSignedMaxValue(width).getSExtValue()};
    auto within = [&](std::optional<int64_t> low, std::optional<int64_t> high) {
      return low && high && *low >= all.low && *high <= all.high ? Interval{*low, *high} : all;
    };
    if (APInt constant; matchPattern(value, m_ConstantInt(&constant)))
      return {constant.getSExtValue(), constant.getSExtValue()};
    if (DenseIntElementsAttr constants; matchPattern(value, m_Constant(&constants)) && !constants.empty()) {
      Interval found{all.high, all.low};
      for (const APInt &number : constants.getValues<APInt>())
        found = {std::min(found.low, number.getSExtValue()), std::max(found.high, number.getSExtValue())};
      return found;
    }
    if (std::optional<Value> source = elementsOf(value))
      return of(*source);
    Operation *definition = value.getDefiningOp();
    if (!definition)
      return all;
    if (auto loop = dyn_cast<linalg::IndexOp>(definition)) {
      AffineExpr count = sizeOfLoop(loop->getParentOfType<linalg::LinalgOp>(), loop.getDim(), sizes);
      return {0, count ? std::max<int64_t>(sizes.range(count).high - 1, 0) : all.high};
    }
    if (isa<arith::IndexCastOp, arith::ExtSIOp>(definition)) {
      Interval inner = of(definition->getOperand(0));
      return within(inner.low, inner.high);
    }
    if (isa<arith::FPToSIOp>(definition)) {
      std::optional<FloatInterval> inner = ofFloat(definition->getOperand(0));
      if (inner && inner->low >= -0x1p31 && inner->high <= 0x1p31)
        return within(int64_t(inner->low), int64_t(inner->high));
      return all;
    }
    if (auto select = dyn_cast<arith::SelectOp>(definition)) {
      // Other compilers take numbers below zero from the end: `x < 0 ? x + size : x`.
      auto compare = select.getCondition().getDefiningOp<arith::CmpIOp>();
      if (compare && compare.getPredicate() == arith::CmpIPredicate::slt &&
          of(compare.getLhs()).low >= of(compare.getRhs()).high)
        return of(select.getFalseValue());
      Interval a = of(select.getTrueValue()), b = of(select.getFalseValue());
      return {std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    if (definition->getNumOperands() != 2 || definition->getOperand(0).getType() != value.getType())
      return all;
    Interval a = of(definition->getOperand(0)), b = of(definition->getOperand(1));
    return llvm::TypeSwitch<Operation *, Interval>(definition)
        .Case([&](arith::AddIOp) { return within(llvm::checkedAdd(a.low, b.low), llvm::checkedAdd(a.high, b.high)); })
        .Case([&](arith::SubIOp) { return within(llvm::checkedSub(a.low, b.high), llvm::checkedSub(a.high, b.low)); })
        .Case([&](arith::MulIOp) {
          std::optional<int64_t> corners[] = {llvm::checkedMul(a.low, b.low), llvm::checkedMul(a.low, b.high),
                                              llvm::checkedMul(a.high, b.low), llvm::checkedMul(a.high, b.high)};
          if (!llvm::all_of(corners, [](std::optional<int64_t> corner) { return corner.has_value(); }))
            return all;
          return within(*std::min_element(std::begin(corners), std::end(corners)),
                        *std::max_element(std::begin(corners), std::end(corners)));
        })
        .Case([&](arith::MaxSIOp) { return Interval{std::max(a.low, b.low), std::max(a.high, b.high)}; })
        .Case([&](arith::MinSIOp) { return Interval{std::min(a.low, b.low), std::min(a.high, b.high)}; })
        .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(
            [&](auto) { return a.low >= 0 && b.low > 0 ? Interval{a.low / b.high, a.high / b.low} : all; })
        .Case<arith::RemSIOp, arith::RemUIOp>(
            [&](auto) { return a.low >= 0 && b.low > 0 ? Interval{0, std::min(a.high, b.high - 1)} : all; })
        .Default([&](Operation *) { return all; });
  }

private:
  /// Returns the value that has all elements of a tensor or of what a body is given: another tensor, or what the body
  /// of the op that computes them yields.
  static std::optional<Value> elementsOf(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto op = dyn_cast<linalg::LinalgOp>(argument.getOwner()->getParentOp());
      OpOperand *operand = op ? op.getMatchingOpOperand(argument) : nullptr;
      if (!operand || op.isDpsInit(operand))
        return std::nullopt;
      return operand->get();
    }
    Operation *definition = value.getDefiningOp();
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp, tensor::ExtractSliceOp, tensor::SplatOp>(
            definition))
      return definition->getOperand(0);
    if (auto fill = dyn_cast<linalg::FillOp>(definition))
      return fill.getInputs()[0];
    auto op = dyn_cast<linalg::LinalgOp>(definition);
    if (!op || op.getNumReductionLoops())
      return std::nullopt;
    return op.getBlock()->getTerminator()->getOperand(cast<OpResult>(value).getResultNumber());
  }

  /// Returns the bounds of a float; nullopt if it may be NaN.
  std::optional<FloatInterval> ofFloat(Value value) {
    if (left == 0)
      return std::nullopt;
    --left;
    if (APFloat constant(0.0); matchPattern(value, m_ConstantFloat(&constant))) {
      bool losesInfo = false;
      constant.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
      double number = constant.convertToDouble();
      return std::isnan(number) ? std::nullopt : std::optional(FloatInterval{number, number});
    }
    Operation *definition = value.getDefiningOp();
    if (!definition)
      return std::nullopt;
    if (isa<arith::SIToFPOp>(definition)) {
      // A float holds all integers of as many bits as its significand.
      Interval inner = of(definition->getOperand(0));
      auto type = dyn_cast<FloatType>(definition->getResult(0).getType());
      int64_t largest = type ? int64_t(1) << std::min(type.getFPMantissaWidth(), 53u) : 0;
      if (inner.low < -largest || inner.high > largest)
        return std::nullopt;
      return FloatInterval{double(inner.low), double(inner.high)};
    }
    if (isa<math::FloorOp>(definition)) {
      std::optional<FloatInterval> inner = ofFloat(definition->getOperand(0));
      return inner ? std::optional(FloatInterval{std::floor(inner->low), std::floor(inner->high)}) : inner;
    }
    if (!isa<arith::MaximumFOp, arith::MinimumFOp, arith::DivFOp, arith::MulFOp>(definition))
      return std::nullopt;
    std::optional<FloatInterval> a = ofFloat(definition->getOperand(0)), b = ofFloat(definition->getOperand(1));
    if (!a || !b)
      return std::nullopt;
    if (isa<arith::MaximumFOp>(definition))
      return FloatInterval{std::max(a->low, b->low), std::max(a->high, b->high)};
    if (isa<arith::MinimumFOp>(definition))
      return FloatInterval{std::min(a->low, b->low), std::min(a->high, b->high)};
    // Numbers that are not negative, so that products and quotients grow with the first. 2 is for what is rounded.
    bool isQuotient = isa<arith::DivFOp>(definition);
    if (a->low < 0 || !(b->low > 0) || std::isinf(a->high) || std::isinf(b->high))
      return std::nullopt;
    return FloatInterval{0, 2 * (isQuotient ? a->high / b->low : a->high * b->high)};
  }

  const SymbolicSizes &sizes;
  unsigned left = 4096; ///< values that are still looked at
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
    op.getBlock()->walk([&](tensor::ExtractOp extract) {
      if (extract->hasAttr(legalize::insideAttr))
        return;
      for (auto [dimension, index] : llvm::enumerate(extract.getIndices()))
        if (needsCheck(index, extract, dimension))
          checks.push_back({extract, index, extract.getTensor(), int64_t(dimension)});
    });
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
  //===-- What is known before a call -----------------------------------------------------------------------===//

  Value beforeCasts(Value value) const {
    while (auto *cast = value.getDefiningOp()) {
      if (!isa<arith::IndexCastOp, arith::ExtSIOp>(cast))
        break;
      value = cast->getOperand(0);
    }
    return value;
  }

  bool isInBody(Value value) const { return op->isAncestor(value.getParentRegion()->getParentOp()); }

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

  /// True for an index that the size constraints of a call do not cover (SizeConstraints.cpp), and that may be outside.
  bool needsCheck(Value index, tensor::ExtractOp extract, unsigned dimension) const {
    if (index.getDefiningOp<linalg::IndexOp>() || sizes.ofIndex(index) || (!isInBody(index) && !isDataOfHost(index)))
      return false;
    return !isInside(index, sizes.of(extract.getTensor())[dimension]);
  }

  /// True if an index is proven to be in [0, size).
  bool isInside(Value index, AffineExpr size) const {
    index = beforeCasts(index);
    if (auto select = index.getDefiningOp<arith::SelectOp>();
        select && isInside(select.getTrueValue(), size) && isInside(select.getFalseValue(), size))
      return true;
    if (!sizes.isKnown(size))
      return false;
    if (auto loop = index.getDefiningOp<linalg::IndexOp>())
      if (AffineExpr count = sizeOfLoop(op, loop.getDim(), sizes); count && sizes.isKnown(count))
        return sizes.range(SymbolicSizes::normalize(size - count)).low >= 0;
    Interval known = Intervals(sizes).of(index);
    return known.low >= 0 && known.high < sizes.range(size).low;
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

  /// The branches in the body that lead to an op, outermost first, each with the side that it is on.
  SmallVector<std::pair<scf::IfOp, bool>> pathTo(Operation *inner) const {
    SmallVector<std::pair<scf::IfOp, bool>> path;
    for (Operation *at = inner; at->getParentOp() != op.getOperation(); at = at->getParentOp())
      if (auto branch = dyn_cast<scf::IfOp>(at->getParentOp()))
        path.push_back({branch, at->getParentRegion() == &branch.getThenRegion()});
    std::reverse(path.begin(), path.end());
    return path;
  }

  LogicalResult add(const Check &check) {
    if (check.tensor && limitsInput(check))
      return success();
    SmallVector<std::pair<scf::IfOp, bool>> path = pathTo(check.op);
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
  LogicalResult emit(const Check &check, ArrayRef<std::pair<scf::IfOp, bool>> path, const DenseSet<Operation *> &wanted,
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
    if (check.tensor)
      limit = arith::IndexCastOp::create(
          builder, location, i64, tensor::DimOp::create(builder, location, check.tensor, check.dimension).getResult());
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
        else
          inner.clone(*needed, mapping);
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
    Value number = tensor::ExtractOp::create(builder, location, worst, ValueRange{});
    arith::CmpIPredicate predicate = check.tensor ? arith::CmpIPredicate::ult : arith::CmpIPredicate::eq;
    Value isGood = arith::CmpIOp::create(builder, location, predicate, number, check.tensor ? limit : zero);
    std::string message;
    if (auto assertion = dyn_cast<cf::AssertOp>(check.op))
      message = assertion.getMsg().str();
    else
      message = ("index of '" + nameOf(check.op) + "' in dimension " + Twine(check.dimension)).str();
    cf::AssertOp::create(builder, location, isGood, message);
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

struct LegalizeChecks : legalize::impl::LegalizeChecksBase<LegalizeChecks> {
  void runOnOperation() override {
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) {
      WalkResult found = op.getBlock()->walk(
          [](Operation *inner) { return WalkResult(failure(isa<tensor::ExtractOp, cf::AssertOp>(inner))); });
      if (found.wasInterrupted() && op.hasPureTensorSemantics())
        ops.push_back(op);
    });
    if (!ops.empty()) {
      SymbolicSizes sizes(getOperation());
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
