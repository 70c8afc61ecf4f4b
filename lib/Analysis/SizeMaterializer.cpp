//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SizeMaterializer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace intarsia;

Value SizeMaterializer::get(OpBuilder &builder, Location location, AffineExpr expression) {
  if (Value value = values.lookup(expression))
    return value;
  Value value = known(expression);
  if (!value)
    value = make(builder, location, expression);
  if (value)
    values[expression] = value;
  return value;
}

Value SizeMaterializer::make(OpBuilder &builder, Location location, AffineExpr expression) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(type, constant.getValue()));
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary)
    return nullptr;
  Value left = get(builder, location, binary.getLHS()), right = get(builder, location, binary.getRHS());
  if (!left || !right)
    return nullptr;
  switch (expression.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(builder, location, left, right);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(builder, location, left, right);
  case AffineExprKind::FloorDiv:
    return arith::FloorDivSIOp::create(builder, location, left, right);
  case AffineExprKind::CeilDiv:
    return arith::CeilDivSIOp::create(builder, location, left, right);
  default: {
    // arith has no op for the non-negative remainder.
    Value whole = get(builder, location, binary.getLHS().floorDiv(binary.getRHS()));
    Value multiple = arith::MulIOp::create(builder, location, whole, right);
    return arith::SubIOp::create(builder, location, left, multiple);
  }
  }
}
