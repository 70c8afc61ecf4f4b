//===- LegalizeDivisions.cpp - Divisions of integers by any number -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// MLIR leaves divisions by zero undefined, and those of the least integer by -1. Some processors end the program then.
// Here they have the results of NumPy: a quotient and a remainder by zero are 0, and quotients wrap.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "mlir/IR/Matchers.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZEDIVISIONS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

bool isSigned(Operation *op) {
  return isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
}

bool isRemainder(Operation *op) { return isa<arith::RemSIOp, arith::RemUIOp>(op); }

bool isDivision(Operation *op) { return isSigned(op) || isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp>(op); }

/// True for a constant without zeros, and without -1 if the division has a sign.
bool isHarmless(Value divisor, bool hasSign) {
  auto isGood = [&](const APInt &number) { return !number.isZero() && !(hasSign && number.isAllOnes()); };
  if (APInt number; matchPattern(divisor, m_ConstantInt(&number)))
    return isGood(number);
  DenseIntElementsAttr numbers;
  return matchPattern(divisor, m_Constant(&numbers)) && llvm::all_of(numbers.getValues<APInt>(), isGood);
}

class Guard {
public:
  explicit Guard(Operation *op) : op(op), builder(op), location(op->getLoc()) {}

  /// Divides by 1 where the divisor is harmful, and selects the result there.
  void run() {
    Value divisor = op->getOperand(1), zero = constant(0), one = constant(1);
    Value isZero = equal(divisor, zero), isMinusOne, isHarmful = isZero;
    if (isSigned(op)) {
      isMinusOne = equal(divisor, constant(-1));
      isHarmful = arith::OrIOp::create(builder, location, isZero, isMinusOne);
    }
    op->setOperand(1, select(isHarmful, one, divisor));
    if (isRemainder(op))
      return; // by 1 it is 0, as it is by -1
    builder.setInsertionPointAfter(op);
    Value quotient = op->getResult(0), result = select(isZero, zero, quotient);
    if (isMinusOne)
      result = select(isMinusOne, arith::SubIOp::create(builder, location, zero, op->getOperand(0)), result);
    quotient.replaceUsesWithIf(result, [&](OpOperand &use) { return use.getOwner() != first; });
  }

private:
  Value constant(int64_t number) {
    Type type = op->getResult(0).getType();
    return intarsia::legalize::constantLike(
        builder, location, type, builder.getIntegerAttr(getElementTypeOrSelf(type), number), op->getOperand(0));
  }

  Value equal(Value a, Value b) { return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, a, b); }

  Value select(Value condition, Value yes, Value no) {
    auto result = arith::SelectOp::create(builder, location, condition, yes, no);
    if (!first && no == op->getResult(0))
      first = result;
    return result;
  }

  Operation *op;
  OpBuilder builder;
  Location location;
  Operation *first = nullptr; ///< reads the quotient by 1
};

struct LegalizeDivisions : intarsia::legalize::impl::LegalizeDivisionsBase<LegalizeDivisions> {
  void runOnOperation() override {
    SmallVector<Operation *> divisions;
    getOperation().walk([&](Operation *op) {
      // Indices outside of bodies are sizes and what the host computes, which it checks. Other scalars become tensors
      // (LegalizeScalars.cpp).
      bool isInBody = op->getParentOfType<linalg::LinalgOp>() || op->getParentOfType<tensor::GenerateOp>();
      bool isOfHost = !isInBody && op->getNumResults() == 1 && op->getResult(0).getType().isIndex();
      // Kernels refuse constants of more than 64 bits, and there is no division of so many either.
      auto isWide = [](Operation *op) {
        auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(op->getResult(0).getType()));
        return type && type.getWidth() > 64;
      };
      if (isDivision(op) && !isOfHost && !isWide(op) && !isHarmless(op->getOperand(1), isSigned(op)))
        divisions.push_back(op);
    });
    for (Operation *op : divisions)
      Guard(op).run();
  }
};
} // namespace
