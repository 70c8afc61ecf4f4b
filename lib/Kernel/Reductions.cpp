//===- Reductions.cpp - What a linalg op combines, and how it reads ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/Reductions.h"

#include "dialects/Interfaces/ScalarBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"

using namespace mlir;

namespace intarsia::kernel {

/// Returns how an op combines. Of maxnumf and minnumf lanes have no neutral element: one that starts with NaN is NaN if
/// all elements are.
static std::optional<Combination> combinationOf(Operation *op) {
  std::optional<Combination> kind = linalg::getCombinerOpKind(op);
  return kind == Combination::MAXNUMF || kind == Combination::MINNUMF ? std::nullopt : kind;
}

std::optional<SmallVector<Reduction>> reductionsOf(linalg::LinalgOp op) {
  SmallVector<Reduction> reductions;
  Operation *terminator = op.getBlock()->getTerminator();
  for (auto [running, yielded] : llvm::zip_equal(op.getRegionOutputArgs(), terminator->getOperands())) {
    Operation *combiner = yielded.getDefiningOp();
    if (!combiner || combiner->getBlock() != op.getBlock() || !yielded.hasOneUse() || !running.hasOneUse() ||
        *running.getUsers().begin() != combiner)
      return std::nullopt;
    std::optional<Combination> kind = combinationOf(combiner);
    if (!kind)
      return std::nullopt;
    reductions.push_back({*kind, running.getType()});
  }
  return reductions;
}

/// How an element replaces the one that runs.
struct Replacement {
  bool isLarger;
  bool takesEqual;
};

/// Returns when a condition says that `element` replaces `running`.
static std::optional<Replacement> replacementOf(Value condition, Value element, Value running) {
  Value left, right;
  bool isLarger = false, takesEqual = false;
  if (auto compare = condition.getDefiningOp<arith::CmpFOp>()) {
    left = compare.getLhs(), right = compare.getRhs();
    switch (compare.getPredicate()) {
    case arith::CmpFPredicate::OGT:
      isLarger = true;
      break;
    case arith::CmpFPredicate::OGE:
      isLarger = takesEqual = true;
      break;
    case arith::CmpFPredicate::OLT:
      break;
    case arith::CmpFPredicate::OLE:
      takesEqual = true;
      break;
    default:
      return std::nullopt;
    }
  } else if (auto compare = condition.getDefiningOp<arith::CmpIOp>()) {
    left = compare.getLhs(), right = compare.getRhs();
    switch (compare.getPredicate()) {
    case arith::CmpIPredicate::sgt:
      isLarger = true;
      break;
    case arith::CmpIPredicate::sge:
      isLarger = takesEqual = true;
      break;
    case arith::CmpIPredicate::slt:
      break;
    case arith::CmpIPredicate::sle:
      takesEqual = true;
      break;
    default:
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  if (left == element && right == running)
    return Replacement{isLarger, takesEqual};
  if (left == running && right == element)
    return Replacement{!isLarger, takesEqual};
  return std::nullopt;
}

/// True if a value is the index of a loop as an integer that holds all positions: loops have fewer than 2^31 turns
/// where positions are 32 bits, or these are wrong in order too.
static bool isPosition(Value value, unsigned loop) {
  while (auto cast = value.getDefiningOp<arith::IndexCastOp>()) {
    if (value.getType().isInteger() && value.getType().getIntOrFloatBitWidth() < 32)
      return false;
    value = cast.getIn();
  }
  auto index = value.getDefiningOp<linalg::IndexOp>();
  return index && index.getDim() == loop;
}

std::optional<PositionSearch> positionSearchOf(linalg::LinalgOp op) {
  if (op.getNumDpsInits() != 2 || op.getNumReductionLoops() != 1)
    return std::nullopt;
  unsigned loop = 0;
  for (auto [d, kind] : llvm::enumerate(op.getIteratorTypesArray()))
    if (kind == utils::IteratorType::reduction)
      loop = d;
  Operation *terminator = op.getBlock()->getTerminator();
  for (unsigned value : {0u, 1u}) {
    unsigned position = 1 - value;
    BlockArgument running = op.getRegionOutputArgs()[value], at = op.getRegionOutputArgs()[position];
    auto taken = terminator->getOperand(position).getDefiningOp<arith::SelectOp>();
    if (!taken || !isa<IntegerType>(at.getType()) || taken.getFalseValue() != at || !at.hasOneUse() ||
        !isPosition(taken.getTrueValue(), loop))
      continue;
    // The element is what the running one is combined with, and compared with.
    Operation *better = terminator->getOperand(value).getDefiningOp();
    if (!better || better->getBlock() != op.getBlock())
      continue;
    std::optional<Combination> kind;
    Value element;
    if (auto select = dyn_cast<arith::SelectOp>(better)) {
      // No comparison with a NaN takes it.
      element = select.getTrueValue();
      std::optional<Replacement> when = replacementOf(select.getCondition(), element, running);
      if (select.getFalseValue() != running || !when)
        continue;
      bool isFloat = isa<FloatType>(running.getType());
      kind = when->isLarger ? (isFloat ? Combination::MAXIMUMF : Combination::MAXSI)
                            : (isFloat ? Combination::MINIMUMF : Combination::MINSI);
    } else {
      kind = combinationOf(better);
      if (better->getNumOperands() != 2 || !llvm::is_contained(better->getOperands(), running))
        continue;
      element = better->getOperand(better->getOperand(0) == running ? 1 : 0);
    }
    if (!kind)
      continue;
    std::optional<Replacement> when = replacementOf(taken.getCondition(), element, running);
    bool isLargest = *kind == Combination::MAXIMUMF || *kind == Combination::MAXSI;
    bool isSmallest = *kind == Combination::MINIMUMF || *kind == Combination::MINSI;
    // Elements do not depend on what runs.
    bool isOfInputs = true;
    if (Operation *definition = element.getDefiningOp(); definition && definition->getBlock() == op.getBlock()) {
      SetVector<Operation *> slice;
      slice.insert(definition);
      for (unsigned i = 0; i < slice.size(); ++i)
        for (Value operand : slice[i]->getOperands()) {
          isOfInputs &= operand != running && operand != at;
          if (Operation *next = operand.getDefiningOp(); next && next->getBlock() == op.getBlock())
            slice.insert(next);
        }
    }
    // Where the last of equal elements counts, so does whether an element is equal to the start.
    if (!when || when->takesEqual || !isOfInputs || !(isLargest || isSmallest) || when->isLarger != isLargest)
      continue;
    return PositionSearch{*kind, value, position};
  }
  return std::nullopt;
}

std::optional<unsigned> neighbouringReduction(linalg::LinalgOp op) {
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  auto isReduced = [&](AffineExpr expression, unsigned loop) {
    return kinds[loop] == utils::IteratorType::reduction && expression.isFunctionOfDim(loop);
  };
  std::optional<unsigned> found;
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    if (!isa<RankedTensorType>(input->get().getType()) || map.getNumResults() == 0)
      continue;
    bool readsReduced = llvm::any_of(llvm::seq(op.getNumLoops()), [&](unsigned loop) {
      return llvm::any_of(map.getResults(), [&](AffineExpr expression) { return isReduced(expression, loop); });
    });
    if (!readsReduced)
      continue;
    auto last = dyn_cast<AffineDimExpr>(map.getResults().back());
    if (!last || kinds[last.getPosition()] != utils::IteratorType::reduction)
      return std::nullopt;
    if (found && *found != last.getPosition())
      return std::nullopt;
    found = last.getPosition();
  }
  return found;
}

/// Returns a constant, or a vector of it.
static TypedAttr attributeOf(TypedAttr scalar, int64_t width) {
  return width == 1 ? scalar : DenseElementsAttr::get(VectorType::get({width}, scalar.getType()), Attribute(scalar));
}

SmallVector<Value> neutral(OpBuilder &b, Location loc, ArrayRef<Reduction> reductions, int64_t width) {
  SmallVector<Value> values;
  for (const Reduction &reduction : reductions)
    values.push_back(
        arith::ConstantOp::create(b, loc, attributeOf(neutralElement(reduction.kind, reduction.type), width)));
  return values;
}

SmallVector<Value> combine(OpBuilder &b, Location loc, ArrayRef<Reduction> reductions, ValueRange left,
                           ValueRange right) {
  SmallVector<Value> values;
  for (auto [reduction, a, c] : llvm::zip_equal(reductions, left, right))
    values.push_back(vector::makeArithReduction(b, loc, reduction.kind, a, c));
  return values;
}

SmallVector<Value> combineLanes(OpBuilder &b, Location loc, ArrayRef<Reduction> reductions, ValueRange vectors) {
  SmallVector<Value> values;
  for (auto [reduction, vector] : llvm::zip_equal(reductions, vectors)) {
    bool isRounded =
        isa<FloatType>(reduction.type) && (reduction.kind == Combination::ADD || reduction.kind == Combination::MUL);
    values.push_back(vector::ReductionOp::create(
        b, loc, reduction.kind, vector, isRounded ? arith::FastMathFlags::reassoc : arith::FastMathFlags::none));
  }
  return values;
}

} // namespace intarsia::kernel
