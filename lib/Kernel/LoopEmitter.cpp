//===- LoopEmitter.cpp - Index arithmetic and loops -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/LoopEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {

Type LoopEmitter::vectorOf(Type element, int64_t width) {
  return width == 1 ? element : VectorType::get({width}, element);
}

Value LoopEmitter::constant(int64_t value) {
  Value &cached = code->constants[value];
  if (!cached) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(code->prologueEnd->getBlock());
    cached = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  }
  return cached;
}

static std::optional<int64_t> constantOf(Value value) {
  APInt result;
  if (matchPattern(value, m_ConstantInt(&result)))
    return result.getSExtValue();
  return std::nullopt;
}

Value LoopEmitter::add(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(*x + *y);
  if (x && *x == 0)
    return c;
  if (y && *y == 0)
    return a;
  return arith::AddIOp::create(b, loc, a, c);
}

Value LoopEmitter::sub(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(*x - *y);
  if (y && *y == 0)
    return a;
  return arith::SubIOp::create(b, loc, a, c);
}

Value LoopEmitter::mul(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(*x * *y);
  if ((x && *x == 0) || (y && *y == 0))
    return constant(0);
  if (x && *x == 1)
    return c;
  if (y && *y == 1)
    return a;
  return arith::MulIOp::create(b, loc, a, c);
}

// Sizes and indices are never negative, so unsigned division is right, and it is the cheaper one.
Value LoopEmitter::div(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y && *y != 0)
    return constant(*x / *y);
  if (y && *y == 1)
    return a;
  return arith::DivUIOp::create(b, loc, a, c);
}

Value LoopEmitter::rem(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y && *y != 0)
    return constant(*x % *y);
  if (y && *y == 1)
    return constant(0);
  return arith::RemUIOp::create(b, loc, a, c);
}

Value LoopEmitter::ceilDiv(Value a, Value c) { return div(add(a, sub(c, constant(1))), c); }

Value LoopEmitter::min(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(std::min(*x, *y));
  return arith::MinSIOp::create(b, loc, a, c);
}

Value LoopEmitter::max(Value a, Value c) {
  auto x = constantOf(a), y = constantOf(c);
  if (x && y)
    return constant(std::max(*x, *y));
  return arith::MaxSIOp::create(b, loc, a, c);
}

Value LoopEmitter::less(Value a, Value c) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, a, c); }

Value LoopEmitter::equal(Value a, Value c) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, a, c); }

Value LoopEmitter::select(Value condition, Value yes, Value no) {
  return arith::SelectOp::create(b, loc, condition, yes, no);
}

Value LoopEmitter::floatConstant(double value, Type type, int64_t width) {
  Attribute scalar = b.getFloatAttr(type, value);
  if (width == 1)
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(scalar));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(VectorType::get({width}, type), scalar));
}

Value LoopEmitter::word(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(value)));
}

Value LoopEmitter::splat(Value scalar, int64_t width) {
  if (width == 1)
    return scalar;
  return vector::BroadcastOp::create(b, loc, VectorType::get({width}, scalar.getType()), scalar);
}

FailureOr<SmallVector<Value>>
LoopEmitter::emitLoop(Value begin, Value end, Value step, ValueRange inits,
                      function_ref<FailureOr<SmallVector<Value>>(Value, ValueRange)> emitBody) {
  auto loop = scf::ForOp::create(b, loc, begin, end, step, inits);
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  if (!block->empty() && block->mightHaveTerminator())
    b.setInsertionPoint(block->getTerminator());
  else
    b.setInsertionPointToEnd(block);
  code->memo.emplace_back();
  FailureOr<SmallVector<Value>> results = emitBody(loop.getInductionVar(), loop.getRegionIterArgs());
  code->memo.pop_back();
  if (failed(results))
    return failure();
  if (!inits.empty())
    scf::YieldOp::create(b, loc, *results);
  return SmallVector<Value>(loop.getResults());
}

LogicalResult LoopEmitter::emitIf(Value condition, function_ref<LogicalResult()> then,
                                  function_ref<LogicalResult()> otherwise) {
  auto op = scf::IfOp::create(b, loc, TypeRange{}, condition, /*withElseRegion=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(b);
  auto emitBranch = [&](Block *block, function_ref<LogicalResult()> branch) {
    b.setInsertionPoint(block->getTerminator());
    code->memo.emplace_back();
    LogicalResult result = branch();
    code->memo.pop_back();
    return result;
  };
  if (failed(emitBranch(op.thenBlock(), then)))
    return failure();
  return otherwise ? emitBranch(op.elseBlock(), otherwise) : success();
}

Values LoopEmitter::ifElse(Value condition, TypeRange types, function_ref<Values()> then,
                           function_ref<Values()> otherwise) {
  auto branch = scf::IfOp::create(b, loc, types, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  for (auto [block, emit] : {std::pair(branch.thenBlock(), then), std::pair(branch.elseBlock(), otherwise)}) {
    b.setInsertionPointToEnd(block);
    code->memo.emplace_back();
    Values values = emit();
    code->memo.pop_back();
    if (failed(values))
      return failure();
    scf::YieldOp::create(b, loc, *values);
  }
  return SmallVector<Value>(branch.getResults());
}

} // namespace intarsia::kernel
