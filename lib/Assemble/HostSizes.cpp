//===- HostSizes.cpp - Sizes and other integers of host functions ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/HostFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::createStringError;

namespace intarsia::assemble {

/// Computes a sum, difference or product, and adds its overflow to `overflow`.
llvm::Value *HostFunction::exact(llvm::Intrinsic::ID operation, llvm::Value *left, llvm::Value *right) {
  llvm::Value *result = builder.CreateBinaryIntrinsic(operation, left, right);
  llvm::Value *own = builder.CreateExtractValue(result, 1);
  overflow = overflow ? builder.CreateOr(overflow, own) : own;
  return builder.CreateExtractValue(result, 0);
}

/// Returns a divisor that the processor can divide by. If a computed divisor is not positive, the quotient counts as an
/// overflow.
llvm::Value *HostFunction::positive(llvm::Value *divisor) {
  if (auto *constant = dyn_cast<llvm::ConstantInt>(divisor); constant && constant->getSExtValue() > 0)
    return divisor;
  llvm::Value *isWrong = builder.CreateICmpSLE(divisor, builder.getInt64(0));
  overflow = overflow ? builder.CreateOr(overflow, isWrong) : isWrong;
  return builder.CreateSelect(isWrong, builder.getInt64(1), divisor);
}

/// Returns the dividend of an op that rounds to zero or takes unsigned integers. If it is negative, the result counts
/// as an overflow.
llvm::Value *HostFunction::notNegative(llvm::Value *dividend) {
  if (auto *constant = dyn_cast<llvm::ConstantInt>(dividend); constant && !constant->isNegative())
    return dividend;
  llvm::Value *isWrong = builder.CreateICmpSLT(dividend, builder.getInt64(0));
  overflow = overflow ? builder.CreateOr(overflow, isWrong) : isWrong;
  return dividend;
}

/// Returns the quotient rounded down: the truncated quotient, less one if a negative dividend leaves a remainder.
llvm::Value *HostFunction::floorDivide(llvm::Value *dividend, llvm::Value *divisor) {
  llvm::Value *zero = builder.getInt64(0);
  llvm::Value *quotient = builder.CreateSDiv(dividend, divisor), *remainder = builder.CreateSRem(dividend, divisor);
  return builder.CreateSub(quotient, builder.CreateZExt(builder.CreateICmpSLT(remainder, zero), builder.getInt64Ty()));
}

/// Returns LLVM's name of a comparison.
static llvm::CmpInst::Predicate predicateOf(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return llvm::CmpInst::ICMP_EQ;
  case arith::CmpIPredicate::ne:
    return llvm::CmpInst::ICMP_NE;
  case arith::CmpIPredicate::slt:
    return llvm::CmpInst::ICMP_SLT;
  case arith::CmpIPredicate::sle:
    return llvm::CmpInst::ICMP_SLE;
  case arith::CmpIPredicate::sgt:
    return llvm::CmpInst::ICMP_SGT;
  case arith::CmpIPredicate::sge:
    return llvm::CmpInst::ICMP_SGE;
  case arith::CmpIPredicate::ult:
    return llvm::CmpInst::ICMP_ULT;
  case arith::CmpIPredicate::ule:
    return llvm::CmpInst::ICMP_ULE;
  case arith::CmpIPredicate::ugt:
    return llvm::CmpInst::ICMP_UGT;
  case arith::CmpIPredicate::uge:
    return llvm::CmpInst::ICMP_UGE;
  }
  llvm_unreachable("all predicates are there");
}

/// Computes an integer that is no size: it wraps around, as integers of its type do. Returns null for ops that it does
/// not know.
llvm::Value *HostFunction::integerArithmetic(Operation &op) {
  SmallVector<llvm::Value *> operands = all(op.getOperands());
  llvm::Type *type = typeOf(op.getResult(0));
  return llvm::TypeSwitch<Operation *, llvm::Value *>(&op)
      .Case([&](arith::ConstantOp constant) -> llvm::Value * {
        auto value = dyn_cast<IntegerAttr>(constant.getValue());
        return value ? llvm::ConstantInt::get(type, value.getValue()) : nullptr;
      })
      .Case([&](arith::CmpIOp compare) {
        return builder.CreateICmp(predicateOf(compare.getPredicate()), operands[0], operands[1]);
      })
      .Case([&](arith::SelectOp) { return builder.CreateSelect(operands[0], operands[1], operands[2]); })
      .Case([&](arith::AddIOp) { return builder.CreateAdd(operands[0], operands[1]); })
      .Case([&](arith::SubIOp) { return builder.CreateSub(operands[0], operands[1]); })
      .Case([&](arith::MulIOp) { return builder.CreateMul(operands[0], operands[1]); })
      .Case([&](arith::AndIOp) { return builder.CreateAnd(operands[0], operands[1]); })
      .Case([&](arith::OrIOp) { return builder.CreateOr(operands[0], operands[1]); })
      .Case([&](arith::XOrIOp) { return builder.CreateXor(operands[0], operands[1]); })
      .Case<arith::ExtSIOp, arith::IndexCastOp>([&](auto) { return builder.CreateSExtOrTrunc(operands[0], type); })
      .Case<arith::ExtUIOp, arith::TruncIOp, arith::IndexCastUIOp>(
          [&](auto) { return builder.CreateZExtOrTrunc(operands[0], type); })
      .Default([](Operation *) { return nullptr; });
}

/// Computes a number from others, and sets `overflow`.
llvm::Value *HostFunction::arithmetic(Operation &op) {
  overflow = nullptr;
  if (!op.getResult(0).getType().isIndex() || isa<arith::SelectOp, arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return integerArithmetic(op);
  SmallVector<llvm::Value *> operands = all(op.getOperands());
  for (Value operand : op.getOperands())
    if (llvm::Value *other = overflows.lookup(operand))
      overflow = overflow ? builder.CreateOr(overflow, other) : other;
  return llvm::TypeSwitch<Operation *, llvm::Value *>(&op)
      .Case([&](arith::ConstantOp constant) {
        auto value = dyn_cast<IntegerAttr>(constant.getValue());
        return value ? builder.getInt64(value.getInt()) : nullptr;
      })
      .Case([&](arith::AddIOp) { return exact(llvm::Intrinsic::sadd_with_overflow, operands[0], operands[1]); })
      .Case([&](arith::SubIOp) { return exact(llvm::Intrinsic::ssub_with_overflow, operands[0], operands[1]); })
      .Case([&](arith::MulIOp) { return exact(llvm::Intrinsic::smul_with_overflow, operands[0], operands[1]); })
      .Case([&](arith::DivUIOp) { return builder.CreateUDiv(notNegative(operands[0]), positive(operands[1])); })
      .Case([&](arith::DivSIOp) { return builder.CreateSDiv(notNegative(operands[0]), positive(operands[1])); })
      .Case([&](arith::RemUIOp) { return builder.CreateURem(notNegative(operands[0]), positive(operands[1])); })
      .Case([&](arith::RemSIOp) { return builder.CreateSRem(notNegative(operands[0]), positive(operands[1])); })
      .Case([&](arith::FloorDivSIOp) { return floorDivide(operands[0], positive(operands[1])); })
      .Case([&](arith::CeilDivSIOp) {
        llvm::Value *negated = exact(llvm::Intrinsic::ssub_with_overflow, builder.getInt64(0), operands[0]);
        return builder.CreateNeg(floorDivide(negated, positive(operands[1])));
      })
      .Case([&](arith::MaxSIOp) {
        return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smax, operands[0], operands[1]);
      })
      .Case([&](arith::MinSIOp) {
        return builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, operands[0], operands[1]);
      })
      .Default([](Operation *) { return nullptr; });
}

/// Refuses a size that is negative or does not fit in 64 bits. Each size is tested once.
void HostFunction::testSize(Value size, unsigned owner, unsigned index) {
  llvm::Value *value = values.lookup(size);
  auto *constant = dyn_cast<llvm::ConstantInt>(value);
  if ((constant && !constant->isNegative()) || !testedSizes.insert(size).second)
    return;
  overflow = overflows.lookup(size);
  llvm::Value *failed = builder.CreateICmpSLT(value, builder.getInt64(0));
  refuseIf(overflow ? builder.CreateOr(failed, overflow) : failed, owner, index, value);
}

/// Returns the bytes of a buffer, and refuses it if they do not fit in 64 bits. Buffers of equal sizes are tested once.
llvm::Expected<llvm::Value *> HostFunction::testBytes(MemRefType type, ValueRange dynamicSizes, unsigned owner,
                                                      unsigned index) {
  int64_t staticBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size) && llvm::MulOverflow(staticBytes, size, staticBytes))
      return createStringError("function '" + source.getName() + "': the bytes of a buffer do not fit in 64 bits");
  auto key = llvm::map_to_vector<0>(dynamicSizes, [](Value size) { return size.getAsOpaquePointer(); });
  llvm::Value *&bytes = testedBytes[{staticBytes, std::vector<void *>(key.begin(), key.end())}];
  if (bytes)
    return bytes;
  overflow = nullptr;
  bytes = builder.getInt64(staticBytes);
  for (llvm::Value *size : all(dynamicSizes))
    bytes = exact(llvm::Intrinsic::smul_with_overflow, bytes, size);
  if (overflow)
    refuseIf(overflow, owner, index, bytes);
  return bytes;
}

/// Refuses a view that is not inside the workspace.
llvm::Error HostFunction::testEnd(memref::ViewOp view) {
  Value shift = view.getByteShift();
  if (!values.lookup(shift))
    return createStringError("function '" + source.getName() + "': an offset is computed after the buffers are made");
  testSize(shift, ITX_SIZE_OF_WORKSPACE, 0);
  llvm::Expected<llvm::Value *> bytes = testBytes(view.getType(), view.getSizes(), ITX_SIZE_OF_WORKSPACE, 0);
  if (!bytes)
    return bytes.takeError();
  if (!testedEnds.insert({shift, *bytes}).second)
    return llvm::Error::success();
  overflow = nullptr;
  llvm::Value *end = exact(llvm::Intrinsic::sadd_with_overflow, values.lookup(shift), *bytes);
  llvm::Value *workspace = values.lookup(view.getSource().getDefiningOp<rt::WorkspaceOp>().getBytes());
  refuseIf(builder.CreateOr(overflow, builder.CreateICmpSGT(end, workspace)), ITX_SIZE_OF_WORKSPACE, 0, end);
  return llvm::Error::success();
}

/// Returns the first launch that uses a buffer, through any views of it; null if none does.
static Operation *firstLaunch(Value buffer) {
  Operation *first = nullptr;
  for (Operation *user : buffer.getUsers()) {
    Operation *launch = isa<rt::DispatchOp>(user)        ? user
                        : isa<ViewLikeOpInterface>(user) ? firstLaunch(user->getResult(0))
                                                         : nullptr;
    if (launch && (!first || (launch->getBlock() == first->getBlock() && launch->isBeforeInBlock(first))))
      first = launch;
  }
  return first;
}

/// Tests all sizes before anything is made or started. The workspace comes last, since an error in one of its buffers
/// says more.
llvm::Error HostFunction::testSizes() {
  SmallVector<Operation *> order;
  Block &body = source.getBody().front();
  source.walk([&](Operation *op) {
    if (isa<rt::OutputOp, rt::DispatchOp, rt::CopyOp, rt::CollectiveOp, rt::CheckIndicesOp, memref::ViewOp>(op))
      order.push_back(op);
  });
  for (rt::WorkspaceOp workspace : body.getOps<rt::WorkspaceOp>())
    order.push_back(workspace);
  for (Operation *op : order) {
    SmallVector<Value> sizes;
    MemRefType buffer; // buffer whose bytes are tested too; the runtime computes the bytes of results
    unsigned owner = ITX_SIZE_OF_WORKSPACE, index = 0;
    auto belongsTo = [&](Operation *launch) {
      owner = ITX_SIZE_OF_LAUNCH;
      index = tables.labelIndices.lookup(ModuleTables::labelOf(launch));
    };
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](rt::OutputOp output) {
          sizes = output.getSizes();
          owner = ITX_SIZE_OF_OUTPUT;
          index = output.getIndex();
        })
        .Case([&](rt::DispatchOp dispatch) {
          sizes = dispatch.getSizes();
          belongsTo(dispatch);
        })
        .Case([&](rt::CollectiveOp collective) {
          sizes = collective.getSizes();
          buffer = cast<MemRefType>(collective.getSized().getType());
          belongsTo(collective);
        })
        .Case([&](rt::CopyOp copy) {
          sizes = copy.getSizes();
          buffer = cast<MemRefType>(copy.getSource().getType());
        })
        .Case([&](rt::CheckIndicesOp check) {
          sizes = check.getSizes();
          buffer = cast<MemRefType>(check.getIndices().getType());
        })
        .Case([&](memref::ViewOp view) {
          sizes = view.getSizes();
          buffer = view.getType();
          if (Operation *launch = firstLaunch(view))
            belongsTo(launch);
        })
        .Case([&](rt::WorkspaceOp workspace) { sizes = {workspace.getBytes()}; });
    for (Value size : sizes)
      if (!values.lookup(size))
        return createStringError("function '" + source.getName() + "': a size is computed after the buffers are made");
    for (Value size : sizes)
      testSize(size, owner, index);
    if (buffer)
      if (llvm::Expected<llvm::Value *> bytes = testBytes(buffer, sizes, owner, index); !bytes)
        return bytes.takeError();
  }
  for (memref::ViewOp view : body.getOps<memref::ViewOp>())
    if (llvm::Error error = testEnd(view))
      return error;
  return llvm::Error::success();
}

} // namespace intarsia::assemble
