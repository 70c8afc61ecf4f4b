//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
//
// Collects the conditions of ops on sizes, unites symbols that must be equal, and keeps the conditions to check.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/ControlFlow.h"
#include "intarsia/Analysis/SymbolicSizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace intarsia;

using Relation = SizeConstraint::Relation;

//===-- Branches ------------------------------------------------------------------------------------------------===//

Block *intarsia::branchOf(const SizeConstraint &constraint) {
  // Memory of all branches is planned for each call, so that no size may be negative.
  if (constraint.relation == Relation::AtMost && constraint.left == 0)
    return nullptr;
  Block *branch = nullptr;
  for (Block *block = constraint.op ? constraint.op->getBlock() : nullptr; block;
       block = block->getParentOp()->getBlock()) {
    Operation *parent = block->getParentOp();
    if (isa<scf::IfOp>(parent))
      branch = branch ? branch : block;
    else if (isa<FunctionOpInterface>(parent))
      break;
    else if (!isControlFlow(parent))
      branch = nullptr; // control flow of a kernel
  }
  return branch;
}

//===-- Needs of ops -------------------------------------------------------------------------------------------===//

void SymbolicSizes::require(Relation relation, AffineExpr left, AffineExpr right, Operation *op) {
  auto known = [&](AffineExpr size) {
    return size ? normalize(size) : symbol("?" + std::to_string(unknowns++), /*isGiven=*/false);
  };
  SizeConstraint constraint{relation, known(left), known(right), op};
  if (constraint.left == constraint.right)
    return;
  if (relation == Relation::AtMost && range(normalize(constraint.right - constraint.left)).low >= 0)
    return;
  bool isThere = llvm::any_of(required, [&](const SizeConstraint &other) {
    if (other.relation != relation || other.left != constraint.left || other.right != constraint.right)
      return false;
    Block *needed = branchOf(other);
    return !needed || needed == branchOf(constraint);
  });
  if (!isThere)
    required.push_back(constraint);
}

void SymbolicSizes::requireEqual(AffineExpr left, AffineExpr right, Operation *op) {
  require(Relation::Equal, left, right, op);
}

void SymbolicSizes::requireAtMost(AffineExpr left, AffineExpr right, Operation *op) {
  require(Relation::AtMost, left, right, op);
}

/// Returns the largest value of an indexing expression over loops of these sizes; null if it can decrease during a
/// loop.
static AffineExpr largestIndex(AffineExpr expression, ArrayRef<AffineExpr> loops) {
  if (isa<AffineConstantExpr>(expression))
    return expression;
  if (auto dim = dyn_cast<AffineDimExpr>(expression))
    return loops[dim.getPosition()] ? loops[dim.getPosition()] - 1 : AffineExpr();
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary)
    return nullptr;
  AffineExpr left = largestIndex(binary.getLHS(), loops), right = largestIndex(binary.getRHS(), loops);
  if (!left || !right)
    return nullptr;
  if (binary.getKind() == AffineExprKind::Add)
    return left + right;
  auto factor = dyn_cast<AffineConstantExpr>(right);
  return binary.getKind() == AffineExprKind::Mul && factor && factor.getValue() >= 0 ? left * right : AffineExpr();
}

/// Requires that dimensions which a loop runs along have its size, and that other positions lie inside the operand.
void SymbolicSizes::requireOfLoops(linalg::LinalgOp op) {
  SmallVector<AffineExpr> loops(op.getNumLoops());
  auto forEachSize = [&](llvm::function_ref<void(AffineExpr, AffineExpr)> visitSize) {
    for (OpOperand &operand : op->getOpOperands())
      if (isa<RankedTensorType>(operand.get().getType()))
        for (auto [index, size] :
             llvm::zip_equal(op.getMatchingIndexingMap(&operand).getResults(), Sizes(of(operand.get()))))
          visitSize(index, size);
  };
  forEachSize([&](AffineExpr index, AffineExpr size) {
    auto dim = dyn_cast<AffineDimExpr>(index);
    if (!dim)
      return;
    AffineExpr &loop = loops[dim.getPosition()];
    if (loop)
      requireEqual(loop, size, op);
    else
      loop = size;
  });
  AffineExpr zero = getAffineConstantExpr(0, context);
  forEachSize([&](AffineExpr index, AffineExpr size) {
    if (isa<AffineDimExpr>(index))
      return;
    AffineExpr most = largestIndex(index, loops);
    requireAtMost(most ? most + 1 : AffineExpr(), size, op);
  });
  // A dimension that is read at positions from data has an element, unless a loop has no iteration: 1 floordiv (x + 1)
  // is 1 where x is 0, and 0 where it is more.
  AffineExpr one = getAffineConstantExpr(1, context), iterations = one;
  for (AffineExpr loop : loops)
    if (loop && !isa<AffineConstantExpr>(loop) && isKnown(loop))
      iterations = normalize(iterations * loop);
  AffineExpr least = range(iterations).low < 1 ? one - one.floorDiv(iterations + 1) : one;
  auto isLoop = [&](AffineExpr size) {
    return llvm::any_of(loops, [&](AffineExpr loop) { return loop && normalize(loop) == size; });
  };
  // The kernel checks positions that are computed from data.
  op.getBlock()->walk([&](tensor::ExtractOp extract) {
    for (auto [index, size] : llvm::zip_equal(extract.getIndices(), Sizes(of(extract.getTensor())))) {
      if (auto loop = index.getDefiningOp<linalg::IndexOp>()) {
        requireAtMost(loops[loop.getDim()], size, extract);
      } else if (AffineExpr position = ofIndex(index)) {
        requireAtMost(zero, position, extract);
        requireAtMost(position + 1, size, extract);
      } else if (!isLoop(size)) {
        requireAtMost(least, size, extract);
      }
    }
  });
}

void SymbolicSizes::requireOfSlice(tensor::ExtractSliceOp slice) {
  AffineExpr zero = getAffineConstantExpr(0, context);
  for (auto [offset, size, stride, source] : llvm::zip_equal(slice.getMixedOffsets(), slice.getMixedSizes(),
                                                             slice.getMixedStrides(), Sizes(of(slice.getSource())))) {
    AffineExpr begin = expressionOf(offset), count = expressionOf(size), step = expressionOf(stride);
    requireAtMost(zero, begin, slice);
    if (isConstantIntValue(stride, 1)) {
      requireAtMost(begin && count ? begin + count : AffineExpr(), source, slice);
      continue;
    }
    requireAtMost(zero, step, slice);
    requireAtMost(begin && count && step ? begin + (count - 1) * step + 1 : AffineExpr(), source, slice);
  }
}

/// Requires what an assertion about sizes says: one is at most the other, or less.
void SymbolicSizes::requireOfAssertion(cf::AssertOp op) {
  auto compare = op.getArg().getDefiningOp<arith::CmpIOp>();
  if (!compare)
    return;
  AffineExpr left = ofIndex(compare.getLhs()), right = ofIndex(compare.getRhs());
  using Predicate = arith::CmpIPredicate;
  switch (compare.getPredicate()) {
  case Predicate::ule:
  case Predicate::sle:
    return requireAtMost(left, right, op);
  case Predicate::uge:
  case Predicate::sge:
    return requireAtMost(right, left, op);
  case Predicate::ult:
  case Predicate::slt:
    return requireAtMost(left ? left + 1 : left, right, op);
  case Predicate::ugt:
  case Predicate::sgt:
    return requireAtMost(right ? right + 1 : right, left, op);
  default:
    return;
  }
}

//===-- What follows from them ---------------------------------------------------------------------------------===//

/// Replaces symbols that conditions make equal to another symbol or a number. Returns true if it replaced any; the
/// expressions must then be recomputed.
bool SymbolicSizes::replaceEqualSymbols() {
  size_t before = replaced.size();
  for (const SizeConstraint &constraint : required) {
    AffineExpr difference = normalize((constraint.left - constraint.right).replaceSymbols(representative));
    if (constraint.relation != Relation::Equal || !isKnown(difference))
      continue;
    std::optional<Solution> solution = solve(difference);
    if (!solution)
      continue;
    auto [from, by] = *solution;
    if (branchOf(constraint))
      continue; // calls that do not take the branch may have other sizes
    if (auto other = dyn_cast<AffineSymbolExpr>(by)) {
      // The name that the user gave stays, or the first of two.
      unsigned a = from.getPosition(), b = other.getPosition();
      if (isNameGiven[a] != isNameGiven[b] ? isNameGiven[a] : a < b) {
        by = from;
        from = other;
      }
    }
    for (AffineExpr &size : representative)
      if (size == from)
        size = by;
    if (auto other = dyn_cast<AffineSymbolExpr>(by); other && !emptySymbols.test(from.getPosition()))
      emptySymbols.reset(other.getPosition());
    replaced.push_back({from.getPosition(), by, constraint.op});
  }
  for (Replacement &replacement : replaced)
    replacement.by = replacement.by.replaceSymbols(representative);
  return replaced.size() != before;
}

/// Merges the limits of united symbols, and turns conditions that only bound a symbol into limits.
void SymbolicSizes::settleLimits(Operation *function) {
  auto lower = [&](unsigned symbol, int64_t limit) {
    limits[symbol] = std::min(limits[symbol].value_or(limit), limit);
  };
  for (const Replacement &replacement : replaced) {
    std::optional<int64_t> own = limits[replacement.symbol];
    if (!own)
      continue;
    if (auto other = dyn_cast<AffineSymbolExpr>(replacement.by))
      lower(other.getPosition(), *own);
    else
      requireAtMost(replacement.by, getAffineConstantExpr(*own, context), function);
  }
  for (const SizeConstraint &constraint : required) {
    AffineExpr difference = normalize(constraint.right - constraint.left);
    if (constraint.relation != Relation::AtMost || !isKnown(difference) || branchOf(constraint))
      continue;
    if (std::optional<std::pair<unsigned, int64_t>> limit = largest(difference))
      lower(limit->first, limit->second);
  }
  llvm::erase_if(required, [&](const SizeConstraint &constraint) {
    return constraint.relation == Relation::AtMost && range(normalize(constraint.right - constraint.left)).low >= 0;
  });
}

bool SymbolicSizes::isPossible(const SizeConstraint &constraint) const {
  SizeRange difference = range(normalize(constraint.right - constraint.left));
  return difference.high >= 0 && (constraint.relation == Relation::AtMost || difference.low <= 0);
}

std::optional<int64_t> SymbolicSizes::limit(unsigned symbol) const {
  return symbol < limits.size() ? limits[symbol] : std::nullopt;
}
