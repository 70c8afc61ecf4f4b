//===- FunctionEmitter.cpp - The skeletons of both functions of a kernel ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/FunctionEmitter.h"

#include "intarsia/module_abi.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::cpu {

void FunctionEmitter::refuseOverflow() {
  kernel.getBody().walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (isa<RankedTensorType>(result.getType()))
        for (AffineExpr expression : sizes.of(result))
          if (isa<AffineBinaryOpExpr>(expression) && isKnown(expression))
            size(expression);
  });
  Value overflow;
  Type pair = LLVM::LLVMStructType::getLiteral(b.getContext(), {b.getI64Type(), b.getI1Type()});
  for (Operation &each : llvm::make_early_inc_range(operation.getBody().front())) {
    Operation *op = &each;
    if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
      continue;
    b.setInsertionPoint(op);
    Value left = op->getOperand(0), right = op->getOperand(1), both;
    if (isa<arith::AddIOp>(op))
      both = make<LLVM::SAddWithOverflowOp>(pair, left, right);
    else if (isa<arith::SubIOp>(op))
      both = make<LLVM::SSubWithOverflowOp>(pair, left, right);
    else
      both = make<LLVM::SMulWithOverflowOp>(pair, left, right);
    Value result = make<LLVM::ExtractValueOp>(both, 0), own = make<LLVM::ExtractValueOp>(both, 1);
    overflow = overflow ? make<arith::OrIOp>(overflow, own).getResult() : own;
    // Something may be divided by it.
    op->replaceAllUsesWith(ValueRange{select(own, constant(1), result)});
    op->erase();
  }
  b.setInsertionPoint(operation.getBody().front().getTerminator());
  if (overflow)
    ifThen(overflow, [&] { setSlot(ITX_PLAN_WORKSPACE_BYTES, constant(-1)); });
}

LogicalResult refuse(rt::KernelOp kernel, Operation *op, const Twine &reason) {
  return kernel::refuse("cpu", kernel, op, reason);
}

static func::FuncOp makeFunction(OpBuilder &b, Location loc, ModuleOp module, StringRef name, ArrayRef<Type> inputs) {
  b.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

void FunctionEmitter::beginLaunch(ModuleOp module, StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  operation = makeFunction(b, loc, module, name, {pointer, b.getI64Type(), pointer});
  sizesPointer = operation.getArgument(0);
  threads = operation.getArgument(1);
  launchPointer = operation.getArgument(2);
  beginFunction(make<func::ReturnOp>());
}

void FunctionEmitter::beginRun(ModuleOp module, StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  operation = makeFunction(b, loc, module, name, {pointer, b.getI64Type(), b.getI64Type(), pointer});
  workspaceBytes = getAffineConstantExpr(0, b.getContext());

  Value arguments = operation.getArgument(0);
  auto field = [&](int32_t index) -> Value {
    Value address = make<LLVM::GEPOp>(pointer, pointer, arguments, ArrayRef<LLVM::GEPArg>{index});
    return make<LLVM::LoadOp>(pointer, address);
  };
  Value buffers = field(0);
  sizesPointer = field(1);
  launchPointer = field(2);
  sharedPointer = field(3);
  tileBegin = operation.getArgument(1);
  tileEnd = operation.getArgument(2);
  workspace = operation.getArgument(3);
  threads = nullptr;

  beginFunction(make<func::ReturnOp>());
  for (unsigned index = 0; index != kernel.getNumArguments() + kernel.getResultTypes().size(); ++index) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(code->prologueEnd);
    Value address = make<LLVM::GEPOp>(pointer, pointer, buffers, ArrayRef<LLVM::GEPArg>{int32_t(index)});
    addBuffer(index, make<LLVM::LoadOp>(pointer, address));
  }
}

void FunctionEmitter::setSlot(int64_t slot, Value value) {
  make<LLVM::StoreOp>(value, memory.at(launchPointer, constant(slot), b.getI64Type()));
}

Value FunctionEmitter::slot(int64_t slot) {
  return make<LLVM::LoadOp>(b.getI64Type(), memory.at(launchPointer, constant(slot), b.getI64Type()));
}

Value FunctionEmitter::scratch(AffineExpr bytes) {
  OpBuilder::InsertionGuard guard(b);
  Value offset = size(workspaceBytes);
  b.setInsertionPoint(code->prologueEnd);
  Value result = memory.at(workspace, offset, b.getI8Type());
  workspaceBytes = workspaceBytes + bytes.ceilDiv(ITX_BUFFER_ALIGNMENT) * ITX_BUFFER_ALIGNMENT;
  return result;
}

Value FunctionEmitter::emitSize(int64_t position) {
  return make<LLVM::LoadOp>(b.getI64Type(), memory.at(sizesPointer, constant(position), b.getI64Type()));
}

} // namespace intarsia::cpu
