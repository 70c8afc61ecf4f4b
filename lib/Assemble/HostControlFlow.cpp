//===- HostControlFlow.cpp - Branches and loops of host functions ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/HostFunction.h"

using namespace mlir;

namespace intarsia::assemble {

/// Loads an integer from memory of the host. Booleans take a byte, in which any other number than 0 is true.
llvm::Value *HostFunction::loadElement(memref::LoadOp load) {
  llvm::Value *offset = builder.getInt64(0);
  ArrayRef<int64_t> shape = load.getMemRefType().getShape();
  for (auto [size, index] : llvm::zip_equal(shape, load.getIndices()))
    // No other index than 0 comes before a dynamic size.
    offset = builder.CreateAdd(builder.CreateMul(offset, builder.getInt64(ShapedType::isDynamic(size) ? 0 : size)),
                               values.lookup(index));
  bool isBoolean = load.getType().isInteger(1);
  llvm::Type *stored = isBoolean ? builder.getInt8Ty() : typeOf(load.getResult());
  llvm::Value *address = builder.CreateInBoundsGEP(stored, values.lookup(load.getMemRef()), offset);
  llvm::Value *value = builder.CreateLoad(stored, address);
  return isBoolean ? builder.CreateIsNotNull(value) : value;
}

llvm::Error HostFunction::translateIf(scf::IfOp op) {
  llvm::BasicBlock *thenBlock = newBlock(), *end = newBlock(), *elseBlock = op.elseBlock() ? newBlock() : end;
  builder.CreateCondBr(values.lookup(op.getCondition()), thenBlock, elseBlock);
  SmallVector<std::pair<llvm::BasicBlock *, SmallVector<llvm::Value *>>> given;
  for (auto [block, into] : {std::pair(op.thenBlock(), thenBlock), {op.elseBlock(), elseBlock}}) {
    if (!block)
      continue;
    builder.SetInsertPoint(into);
    if (llvm::Error error = translateBlock(*block))
      return error;
    given.push_back({builder.GetInsertBlock(), all(block->getTerminator()->getOperands())});
    builder.CreateBr(end);
  }
  builder.SetInsertPoint(end);
  for (auto [number, result] : llvm::enumerate(op.getResults())) {
    llvm::PHINode *value = builder.CreatePHI(typeOf(result), given.size());
    for (auto &[block, list] : given)
      value->addIncoming(list[number], block);
    values[result] = value;
  }
  return llvm::Error::success();
}

/// Emits the values that a loop carries at the beginning of its header, which `before` leads to.
SmallVector<llvm::PHINode *> HostFunction::carry(ValueRange arguments, ValueRange inits, llvm::BasicBlock *before) {
  SmallVector<llvm::PHINode *> carried;
  for (auto [argument, init] : llvm::zip_equal(arguments, inits)) {
    carried.push_back(builder.CreatePHI(typeOf(argument), 2));
    carried.back()->addIncoming(values.lookup(init), before);
    values[argument] = carried.back();
  }
  return carried;
}

/// Asks in each pass of a loop whether the call goes on, so that a loop that never ends can be left.
void HostFunction::mayBeCancelled() {
  llvm::Value *failed = call(waitFunction, builder.getInt32Ty(), {theCall, builder.getInt64(0)});
  returnIf(builder.CreateIsNotNull(failed));
}

llvm::Error HostFunction::translateFor(scf::ForOp op) {
  SmallVector<llvm::Value *> bounds = all({op.getLowerBound(), op.getUpperBound(), op.getStep()});
  for (auto [bound, value] : llvm::zip_equal(op->getOperands().take_front(3), bounds))
    if ((overflow = overflows.lookup(bound)))
      refuseIf(overflow, ITX_SIZE_OF_WORKSPACE, 0, value);
  // The number of iterations fits whatever the bounds are; the last of them plus a step may not.
  llvm::Type *type = bounds[0]->getType();
  llvm::Value *zero = llvm::ConstantInt::get(type, 0), *one = llvm::ConstantInt::get(type, 1);
  llvm::Value *isEmpty =
      op.getUnsignedCmp() ? builder.CreateICmpUGE(bounds[0], bounds[1]) : builder.CreateICmpSGE(bounds[0], bounds[1]);
  llvm::Value *distance = builder.CreateSub(builder.CreateSub(bounds[1], bounds[0]), one);
  llvm::Value *count =
      builder.CreateSelect(isEmpty, zero, builder.CreateAdd(builder.CreateUDiv(distance, bounds[2]), one));
  llvm::BasicBlock *before = builder.GetInsertBlock(), *header = newBlock(), *body = newBlock(), *end = newBlock();
  builder.CreateBr(header);
  builder.SetInsertPoint(header);
  llvm::PHINode *number = builder.CreatePHI(type, 2);
  number->addIncoming(zero, before);
  SmallVector<llvm::PHINode *> carried = carry(op.getRegionIterArgs(), op.getInitArgs(), before);
  builder.CreateCondBr(builder.CreateICmpULT(number, count), body, end);
  builder.SetInsertPoint(body);
  mayBeCancelled();
  values[op.getInductionVar()] = builder.CreateAdd(bounds[0], builder.CreateMul(number, bounds[2]));
  if (llvm::Error error = translateBlock(*op.getBody()))
    return error;
  number->addIncoming(builder.CreateAdd(number, one), builder.GetInsertBlock());
  for (auto [value, next] : llvm::zip_equal(carried, op.getYieldedValues()))
    value->addIncoming(values.lookup(next), builder.GetInsertBlock());
  builder.CreateBr(header);
  builder.SetInsertPoint(end);
  for (auto [result, value] : llvm::zip_equal(op.getResults(), carried))
    values[result] = value;
  return llvm::Error::success();
}

llvm::Error HostFunction::translateWhile(scf::WhileOp op) {
  llvm::BasicBlock *before = builder.GetInsertBlock(), *header = newBlock(), *body = newBlock(), *end = newBlock();
  builder.CreateBr(header);
  builder.SetInsertPoint(header);
  SmallVector<llvm::PHINode *> carried = carry(op.getBeforeArguments(), op.getInits(), before);
  mayBeCancelled();
  if (llvm::Error error = translateBlock(*op.getBeforeBody()))
    return error;
  scf::ConditionOp condition = op.getConditionOp();
  builder.CreateCondBr(values.lookup(condition.getCondition()), body, end);
  for (auto [argument, result, value] : llvm::zip_equal(op.getAfterArguments(), op.getResults(), condition.getArgs()))
    values[argument] = values[result] = values.lookup(value);
  builder.SetInsertPoint(body);
  if (llvm::Error error = translateBlock(*op.getAfterBody()))
    return error;
  for (auto [value, next] : llvm::zip_equal(carried, op.getYieldOp().getOperands()))
    value->addIncoming(values.lookup(next), builder.GetInsertBlock());
  builder.CreateBr(header);
  builder.SetInsertPoint(end);
  return llvm::Error::success();
}

} // namespace intarsia::assemble
