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

/// Divides integers by any number: a quotient and a remainder by zero are 0, and quotients wrap, as in kernels
/// (LegalizeDivisions.cpp).
llvm::Value *HostFunction::divide(Operation &op, llvm::Value *dividend, llvm::Value *divisor) {
  llvm::Type *type = dividend->getType();
  bool hasSign = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  bool isRemainder = isa<arith::RemSIOp, arith::RemUIOp>(op);
  llvm::Value *zero = llvm::ConstantInt::get(type, 0), *one = llvm::ConstantInt::get(type, 1);
  if (type->isIntegerTy(1)) // 1 is the least one, and -1
    return isRemainder ? zero : builder.CreateAnd(dividend, divisor);
  llvm::Value *isZero = builder.CreateICmpEQ(divisor, zero), *isHarmful = isZero;
  llvm::Value *isMinusOne = builder.CreateICmpEQ(divisor, llvm::ConstantInt::getAllOnesValue(type));
  if (hasSign)
    isHarmful = builder.CreateOr(isZero, isMinusOne);
  if (op.getResult(0).getType().isIndex()) {
    // No size is what a division by zero gives, or an unsigned one of a negative number.
    llvm::Value *isWrong = isZero;
    if (!hasSign)
      isWrong = builder.CreateOr(isWrong, builder.CreateICmpSLT(builder.CreateOr(dividend, divisor), zero));
    overflow = overflow ? builder.CreateOr(overflow, isWrong) : isWrong;
  }
  divisor = builder.CreateSelect(isHarmful, one, divisor);
  llvm::Value *quotient = hasSign ? builder.CreateSDiv(dividend, divisor) : builder.CreateUDiv(dividend, divisor);
  llvm::Value *remainder = hasSign ? builder.CreateSRem(dividend, divisor) : builder.CreateURem(dividend, divisor);
  if (isRemainder)
    return remainder; // by 1 it is 0, as it is by 0 and -1
  llvm::Value *isRounded = builder.CreateICmpNE(remainder, zero);
  auto isNegative = [&](llvm::Value *number) { return builder.CreateICmpSLT(number, zero); };
  if (hasSign) { // which rounds to zero: down where the exact quotient is positive
    llvm::Value *isBelowZero = builder.CreateXor(isNegative(dividend), isNegative(divisor));
    isRounded =
        builder.CreateAnd(isRounded, isa<arith::FloorDivSIOp>(op) ? isBelowZero : builder.CreateNot(isBelowZero));
  }
  if (isa<arith::FloorDivSIOp>(op))
    quotient = builder.CreateSub(quotient, builder.CreateZExt(isRounded, type));
  else if (isa<arith::CeilDivSIOp, arith::CeilDivUIOp>(op))
    quotient = builder.CreateAdd(quotient, builder.CreateZExt(isRounded, type));
  if (hasSign)
    quotient = builder.CreateSelect(isMinusOne, builder.CreateNeg(dividend), quotient);
  return builder.CreateSelect(isZero, zero, quotient);
}

/// Shifts an integer by any number, taken without a sign: by its bits or more, nothing but the sign is left.
llvm::Value *HostFunction::shift(Operation &op, llvm::Value *value, llvm::Value *amount) {
  llvm::Type *type = value->getType();
  llvm::Value *last = llvm::ConstantInt::get(type, type->getIntegerBitWidth() - 1);
  llvm::Value *isBeyond = builder.CreateICmpUGT(amount, last);
  amount = builder.CreateSelect(isBeyond, last, amount);
  if (isa<arith::ShRSIOp>(op))
    return builder.CreateAShr(value, amount);
  llvm::Value *shifted = isa<arith::ShLIOp>(op) ? builder.CreateShl(value, amount) : builder.CreateLShr(value, amount);
  return builder.CreateSelect(isBeyond, llvm::ConstantInt::get(type, 0), shifted);
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

/// Computes an integer, which wraps around as integers of its type do. Returns null for ops that it does not know.
llvm::Value *HostFunction::integerArithmetic(Operation &op) {
  SmallVector<llvm::Value *> operands = all(op.getOperands());
  llvm::Type *type = typeOf(op.getResult(0));
  auto binary = [&](llvm::Intrinsic::ID operation) {
    return builder.CreateBinaryIntrinsic(operation, operands[0], operands[1]);
  };
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
      .Case<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
            arith::CeilDivUIOp>([&](auto) { return divide(op, operands[0], operands[1]); })
      .Case<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>([&](auto) { return shift(op, operands[0], operands[1]); })
      .Case([&](arith::AndIOp) { return builder.CreateAnd(operands[0], operands[1]); })
      .Case([&](arith::OrIOp) { return builder.CreateOr(operands[0], operands[1]); })
      .Case([&](arith::XOrIOp) { return builder.CreateXor(operands[0], operands[1]); })
      .Case([&](arith::MaxSIOp) { return binary(llvm::Intrinsic::smax); })
      .Case([&](arith::MinSIOp) { return binary(llvm::Intrinsic::smin); })
      .Case([&](arith::MaxUIOp) { return binary(llvm::Intrinsic::umax); })
      .Case([&](arith::MinUIOp) { return binary(llvm::Intrinsic::umin); })
      .Case<arith::ExtSIOp, arith::IndexCastOp>([&](auto) { return builder.CreateSExtOrTrunc(operands[0], type); })
      .Case<arith::ExtUIOp, arith::TruncIOp, arith::IndexCastUIOp>(
          [&](auto) { return builder.CreateZExtOrTrunc(operands[0], type); })
      .Default([](Operation *) { return nullptr; });
}

/// Computes a number from others, and sets `overflow`: sums, differences and products of sizes must fit.
llvm::Value *HostFunction::arithmetic(Operation &op) {
  overflow = nullptr;
  if (!op.getResult(0).getType().isIndex() || isa<arith::SelectOp, arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return integerArithmetic(op);
  SmallVector<llvm::Value *> operands = all(op.getOperands());
  for (Value operand : op.getOperands())
    if (llvm::Value *other = overflows.lookup(operand))
      overflow = overflow ? builder.CreateOr(overflow, other) : other;
  return llvm::TypeSwitch<Operation *, llvm::Value *>(&op)
      .Case([&](arith::AddIOp) { return exact(llvm::Intrinsic::sadd_with_overflow, operands[0], operands[1]); })
      .Case([&](arith::SubIOp) { return exact(llvm::Intrinsic::ssub_with_overflow, operands[0], operands[1]); })
      .Case([&](arith::MulIOp) { return exact(llvm::Intrinsic::smul_with_overflow, operands[0], operands[1]); })
      .Default([&](Operation *) { return integerArithmetic(op); });
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
