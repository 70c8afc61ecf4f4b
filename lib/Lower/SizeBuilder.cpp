//===- SizeBuilder.cpp - Sizes as values of the host program
//---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/SizeBuilder.h"

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::lower {

Value SizeBuilder::valueOf(AffineExpr expression) {
  if (Value known = values.lookup(expression))
    return known;
  Location location = builder.getInsertionPoint()->getLoc();
  auto binary = [&]() {
    auto op = cast<AffineBinaryOpExpr>(expression);
    return std::pair(valueOf(op.getLHS()), valueOf(op.getRHS()));
  };
  Value value;
  switch (expression.getKind()) {
  case AffineExprKind::Constant:
    value = arith::ConstantIndexOp::create(builder, location, cast<AffineConstantExpr>(expression).getValue());
    break;
  case AffineExprKind::SymbolId:
    value = rt::SymbolOp::create(builder, location, builder.getIndexType(),
                                 builder.getStringAttr(names[cast<AffineSymbolExpr>(expression).getPosition()]));
    break;
  case AffineExprKind::DimId:
    llvm_unreachable("sizes are expressions over symbols");
  case AffineExprKind::Add: {
    auto [left, right] = binary();
    value = arith::AddIOp::create(builder, location, left, right);
    break;
  }
  case AffineExprKind::Mul: {
    auto [left, right] = binary();
    value = arith::MulIOp::create(builder, location, left, right);
    break;
  }
  case AffineExprKind::Mod: {
    auto [left, right] = binary(); // sizes are not negative
    value = arith::RemSIOp::create(builder, location, left, right);
    break;
  }
  case AffineExprKind::FloorDiv: {
    auto [left, right] = binary();
    value = arith::FloorDivSIOp::create(builder, location, left, right);
    break;
  }
  case AffineExprKind::CeilDiv: {
    auto [left, right] = binary();
    value = arith::CeilDivSIOp::create(builder, location, left, right);
    break;
  }
  }
  return values[expression] = value;
}

std::string SizeBuilder::textOf(AffineExpr expression) const {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return std::to_string(constant.getValue());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression))
    return names[symbol.getPosition()];
  auto op = cast<AffineBinaryOpExpr>(expression);
  auto operandText = [&](AffineExpr operand) {
    bool isSum = operand.getKind() == AffineExprKind::Add && expression.getKind() != AffineExprKind::Add;
    return isSum ? "(" + textOf(operand) + ")" : textOf(operand);
  };
  const char *symbol = "";
  switch (expression.getKind()) {
  case AffineExprKind::Add:
    symbol = " + ";
    break;
  case AffineExprKind::Mul:
    symbol = " * ";
    break;
  case AffineExprKind::Mod:
    symbol = " mod ";
    break;
  case AffineExprKind::FloorDiv:
    symbol = " floordiv ";
    break;
  default:
    symbol = " ceildiv ";
    break;
  }
  return operandText(op.getLHS()) + symbol + operandText(op.getRHS());
}

} // namespace intarsia::lower
