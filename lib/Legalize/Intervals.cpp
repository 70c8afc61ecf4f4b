//===- Intervals.cpp - Bounds of integers that bodies compute -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Intervals.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Analysis/LoopSizes.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <cmath>

using namespace mlir;

namespace intarsia::legalize {

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

Interval Intervals::of(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  unsigned width = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  if (width > 64 || left == 0)
    return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  --left;
  Interval all{APInt::getSignedMinValue(width).getSExtValue(), APInt::getSignedMaxValue(width).getSExtValue()};
  auto within = [&](std::optional<int64_t> low, std::optional<int64_t> high) {
    return low && high && *low >= all.low && *high <= all.high ? Interval{*low, *high} : all;
  };
  if (auto known = assumed.find(value); known != assumed.end())
    return known->second;
  if (APInt constant; matchPattern(value, m_ConstantInt(&constant)))
    return {constant.getSExtValue(), constant.getSExtValue()};
  if (DenseIntElementsAttr constants; matchPattern(value, m_Constant(&constants)) && !constants.empty()) {
    Interval found{all.high, all.low};
    for (const APInt &number : constants.getValues<APInt>())
      found = {std::min(found.low, number.getSExtValue()), std::max(found.high, number.getSExtValue())};
    return found;
  }
  if (AffineExpr size = value.getType().isIndex() ? sizes.ofIndex(value) : AffineExpr(); sizes.isKnown(size))
    return {sizes.range(size).low, sizes.range(size).high};
  if (std::optional<Value> source = elementsOf(value))
    return of(*source);
  Operation *definition = value.getDefiningOp();
  if (!definition)
    return all;
  if (auto reduction = dyn_cast<linalg::LinalgOp>(definition))
    return ofReduction(reduction, cast<OpResult>(value).getResultNumber(), all);
  if (auto candidates = dyn_cast<nn::CandidatesOp>(definition))
    return {0, candidates.getLogits().getType().getShape().back() - 1};
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

Interval Intervals::ofReduction(linalg::LinalgOp op, unsigned result, Interval all) {
  auto united = [](Interval a, Interval b) { return Interval{std::min(a.low, b.low), std::max(a.high, b.high)}; };
  if (!op.getNumReductionLoops() || !op.hasPureTensorSemantics())
    return all;
  Value kept = op.getRegionOutputArgs()[result], next = op.getBlock()->getTerminator()->getOperand(result);
  Interval before = of(op.getDpsInits()[result]);
  assumed[kept] = before;
  before = united(before, of(next));
  assumed[kept] = before;
  Interval after = united(before, of(next));
  assumed.erase(kept);
  return after.low == before.low && after.high == before.high ? before : all;
}

std::optional<FloatInterval> Intervals::ofFloat(Value value) {
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

} // namespace intarsia::legalize
