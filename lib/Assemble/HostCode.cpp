//===- HostCode.cpp - Host programs as LLVM IR -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/HostCode.h"

#include "dialects/Rt/Rt.h"
#include "intarsia/module_abi.h"
#include "lib/Formats/ArtifactFormat.h"
#include "lib/Support/Hash.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include <map>
#include <set>

using namespace mlir;
using llvm::createStringError;

namespace intarsia::assemble {

ModuleTables::ModuleTables(ModuleOp module) {
  for (rt::DeviceOp device : module.getOps<rt::DeviceOp>()) {
    deviceNumbers[device.getSymName()] = devices.size();
    devices.push_back(device.getSymName().str());
  }
  for (Operation &op : module.getOps()) {
    if (auto kernel = dyn_cast<rt::KernelOp>(op)) {
      kernelNumbers[kernel.getSymName()] = kernels.size();
      kernels.push_back(kernel.getSymName().str());
      kernelDevices.push_back(kernel.getDevice() ? deviceNumbers.lookup(*kernel.getDevice()) : 0);
    } else if (auto constant = dyn_cast<rt::ConstantOp>(op)) {
      constantNumbers.try_emplace(constant.getSymName(), constantNumbers.size());
    } else if (isa<func::FuncOp>(op)) {
      functions.push_back(&op);
    }
  }
  module.walk([&](rt::DispatchOp dispatch) {
    StringRef label = labelOf(dispatch);
    if (labelNumbers.try_emplace(label, labels.size()).second)
      labels.push_back(label.str());
  });
  std::vector<std::set<int>> memories(constantNumbers.size());
  module.walk([&](rt::ConstantDataOp data) {
    memories[constantNumbers.lookup(data.getConstant())].insert(memoryOf(data.getType()));
  });
  for (auto [constant, uses] : llvm::enumerate(memories)) {
    if (uses.empty())
      uses.insert(-1);
    for (int device : uses)
      weights.push_back({static_cast<unsigned>(constant), device});
  }
}

int ModuleTables::memoryOf(Type buffer) const {
  FlatSymbolRefAttr device = rt::memoryDeviceOf(buffer);
  return device ? static_cast<int>(deviceNumbers.lookup(device.getValue())) : -1;
}

unsigned ModuleTables::weightNumber(Operation *op) const {
  auto data = cast<rt::ConstantDataOp>(op);
  unsigned constant = constantNumbers.lookup(data.getConstant());
  int device = memoryOf(data.getType());
  auto found =
      llvm::find_if(weights, [&](const WeightUse &use) { return use.constant == constant && use.device == device; });
  return found - weights.begin();
}

StringRef ModuleTables::labelOf(Operation *op) {
  auto dispatch = cast<rt::DispatchOp>(op);
  return dispatch.getLabel().value_or(dispatch.getKernel());
}

namespace {

/// Positions in itx_host_api.
enum { checkFunction, prepareFunction, dispatchFunction, copyFunction, waitFunction, refuseFunction };

/// An array on the stack that is filled before each call. The host interface copies its contents if it keeps them.
class CallArray {
public:
  CallArray(llvm::IRBuilder<> &builder, llvm::Type *type, unsigned length)
      : builder(builder), type(type), array(builder.CreateAlloca(type, builder.getInt32(std::max(length, 1u)))) {}
  llvm::Value *fill(ArrayRef<llvm::Value *> values) {
    for (auto [index, value] : llvm::enumerate(values))
      builder.CreateStore(value, builder.CreateConstInBoundsGEP1_32(type, array, index));
    return array;
  }
  llvm::Value *load(unsigned index) {
    return builder.CreateLoad(type, builder.CreateConstInBoundsGEP1_32(type, array, index));
  }

private:
  llvm::IRBuilder<> &builder;
  llvm::Type *type;
  llvm::AllocaInst *array;
};

class HostFunction {
public:
  HostFunction(func::FuncOp source, const ModuleTables &tables, llvm::Module &target, unsigned number)
      : source(source), tables(tables), context(target.getContext()), builder(context) {
    pointer = builder.getPtrTy();
    auto *type = llvm::FunctionType::get(builder.getInt32Ty(), {pointer, pointer, pointer, pointer, pointer}, false);
    function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "itx_function" + Twine(number), target);
    function->addFnAttr(llvm::Attribute::NoUnwind);
  }

  llvm::Error build();
  /// Returns an itx_function_entry.
  llvm::Constant *entry();

private:
  llvm::Error translateBlock(Block &block);
  llvm::Error translate(Operation &op);
  llvm::Error translateIf(scf::IfOp op);
  llvm::Error translateFor(scf::ForOp op);
  llvm::Error translateWhile(scf::WhileOp op);
  SmallVector<llvm::PHINode *> carry(ValueRange arguments, ValueRange inits, llvm::BasicBlock *before);
  llvm::Value *loadElement(memref::LoadOp load);
  llvm::Error prepare();
  llvm::Error testSizes();
  llvm::Value *arithmetic(Operation &op);
  llvm::Value *integerArithmetic(Operation &op);
  llvm::BasicBlock *newBlock() { return llvm::BasicBlock::Create(context, "", function); }
  llvm::Type *typeOf(Value integer) {
    Type type = integer.getType();
    return builder.getIntNTy(type.isIndex() ? 64 : type.getIntOrFloatBitWidth());
  }
  llvm::Value *exact(llvm::Intrinsic::ID operation, llvm::Value *left, llvm::Value *right);
  llvm::Value *positive(llvm::Value *divisor);
  llvm::Value *notNegative(llvm::Value *dividend);
  llvm::Value *floorDivide(llvm::Value *dividend, llvm::Value *divisor);
  void testSize(Value size, unsigned owner, unsigned index);
  llvm::Expected<llvm::Value *> testBytes(MemRefType type, ValueRange dynamicSizes, unsigned owner, unsigned index);
  llvm::Error testEnd(memref::ViewOp view);
  void refuseIf(llvm::Value *failed, unsigned owner, unsigned index, llvm::Value *size);
  void returnIf(llvm::Value *failed, llvm::function_ref<void()> before = [] {});
  llvm::Value *call(unsigned position, llvm::Type *result, ArrayRef<llvm::Value *> arguments);
  SmallVector<llvm::Value *> all(ValueRange list) {
    return llvm::map_to_vector(list, [&](Value value) { return values.lookup(value); });
  }
  /// Returns the sizes of a memref, static and dynamic.
  SmallVector<llvm::Value *> sizesOf(MemRefType type, ValueRange dynamicSizes) {
    SmallVector<llvm::Value *> sizes;
    auto next = dynamicSizes.begin();
    for (int64_t size : type.getShape())
      sizes.push_back(ShapedType::isDynamic(size) ? values.lookup(*next++) : builder.getInt64(size));
    return sizes;
  }

  func::FuncOp source;
  const ModuleTables &tables;
  llvm::LLVMContext &context;
  llvm::IRBuilder<> builder;
  llvm::PointerType *pointer;
  llvm::Function *function;
  llvm::Value *api, *theCall, *symbols, *inputs, *weights;
  DenseMap<Value, llvm::Value *> values;
  DenseMap<Value, llvm::Value *> overflows; // for numbers that may not fit in 64 bits: true if they do not
  llvm::Value *overflow = nullptr;          // the same for the current number; null if it always fits
  DenseSet<Value> testedSizes;
  using Bytes = std::pair<int64_t, std::vector<void *>>; // bytes of the static part, and dynamic sizes
  std::map<Bytes, llvm::Value *> testedBytes;
  DenseSet<std::pair<Value, llvm::Value *>> testedEnds; // (offset of a view, its bytes)
  std::optional<CallArray> buffers, sizes, events, outputSizes, outputs, workspaceBytes, workspaces;
  bool isPrepared = false;
  unsigned checks = 0; // checks translated so far, which is the next one's index in the manifest
};

llvm::Value *HostFunction::call(unsigned position, llvm::Type *result, ArrayRef<llvm::Value *> arguments) {
  SmallVector<llvm::Type *> types = llvm::map_to_vector(arguments, [](llvm::Value *value) { return value->getType(); });
  llvm::Value *callee = builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_32(pointer, api, position));
  return builder.CreateCall(llvm::FunctionType::get(result, types, false), callee, arguments);
}

llvm::Error HostFunction::build() {
  auto argument = function->arg_begin();
  for (llvm::Value **value : {&api, &theCall, &symbols, &inputs, &weights})
    *value = &*argument++;
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  size_t mostBuffers = 0, mostSizes = 0, mostEvents = 0, outputRanks = 0, outputCount = 0;
  Block &body = source.getBody().front();
  source.walk([&](Operation *op) {
    if (auto dispatch = dyn_cast<rt::DispatchOp>(op)) {
      mostBuffers = std::max<size_t>(mostBuffers, dispatch.getInputs().size() + dispatch.getOutputs().size());
      mostSizes = std::max<size_t>(mostSizes, dispatch.getSizes().size());
      mostEvents = std::max<size_t>(mostEvents, dispatch.getAfter().size());
    } else if (auto copy = dyn_cast<rt::CopyOp>(op)) {
      mostEvents = std::max<size_t>(mostEvents, copy.getAfter().size());
    } else if (auto output = dyn_cast<rt::OutputOp>(op)) {
      outputRanks += cast<MemRefType>(output.getType()).getRank();
      ++outputCount;
    }
  });
  buffers.emplace(builder, pointer, mostBuffers);
  sizes.emplace(builder, builder.getInt64Ty(), mostSizes);
  events.emplace(builder, builder.getInt64Ty(), mostEvents);
  outputSizes.emplace(builder, builder.getInt64Ty(), outputRanks);
  outputs.emplace(builder, pointer, outputCount);
  workspaceBytes.emplace(builder, builder.getInt64Ty(), tables.devices.size() + 1);
  workspaces.emplace(builder, pointer, tables.devices.size() + 1);
  for (BlockArgument input : body.getArguments())
    values[input] =
        builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_32(pointer, inputs, input.getArgNumber()));
  return translateBlock(body);
}

llvm::Error HostFunction::translateBlock(Block &block) {
  for (Operation &op : block)
    if (llvm::Error error = translate(op))
      return error;
  return llvm::Error::success();
}

llvm::Constant *HostFunction::entry() {
  uint32_t ranges = 0, belows = 0, outputSizes = 0;
  for (unsigned number = 0; number != source.getNumArguments(); ++number) {
    ranges += bool(source.getArgAttr(number, "nn.range"));
    belows += bool(source.getArgAttr(number, "nn.below"));
  }
  auto results = source->getAttrOfType<ArrayAttr>(rt::hostResultsAttr);
  for (auto result : results.getAsRange<DictionaryAttr>())
    outputSizes += cast<ShapedType>(result.getAs<TypeAttr>("type").getValue()).getRank();
  SmallVector<llvm::Constant *> fields = {function};
  for (uint32_t count : {uint32_t(source->getAttrOfType<ArrayAttr>(rt::hostSymbolsAttr).size()), uint32_t(checks),
                         uint32_t(source.getNumArguments()), ranges, belows, uint32_t(results.size()), outputSizes})
    fields.push_back(builder.getInt32(count));
  return llvm::ConstantStruct::getAnon(fields);
}

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

/// Returns the dividend of an op that rounds to zero or takes unsigned numbers. If it is negative, the result counts as
/// an overflow.
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

/// Emits: if the condition holds, run the code of `before` and return 1.
void HostFunction::returnIf(llvm::Value *failed, llvm::function_ref<void()> before) {
  llvm::BasicBlock *end = newBlock(), *next = newBlock();
  builder.CreateCondBr(failed, end, next);
  builder.SetInsertPoint(end);
  before();
  builder.CreateRet(builder.getInt32(1));
  builder.SetInsertPoint(next);
}

/// Emits: if `failed` holds, tell the runtime why and return. A non-negative size is then too large.
void HostFunction::refuseIf(llvm::Value *failed, unsigned owner, unsigned index, llvm::Value *size) {
  returnIf(failed, [&] {
    llvm::Value *told = overflow ? builder.CreateSelect(overflow, builder.getInt64(INT64_MAX), size) : size;
    call(refuseFunction, builder.getVoidTy(), {theCall, builder.getInt32(owner), builder.getInt32(index), told});
  });
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
    if (isa<rt::OutputOp, rt::DispatchOp, rt::CopyOp, memref::ViewOp>(op))
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
      index = tables.labelNumbers.lookup(ModuleTables::labelOf(launch));
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
        .Case([&](rt::CopyOp copy) {
          sizes = copy.getSizes();
          buffer = cast<MemRefType>(copy.getSource().getType());
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

/// Asks once for all results and the workspaces, as soon as all their sizes are known.
llvm::Error HostFunction::prepare() {
  if (isPrepared)
    return llvm::Error::success();
  isPrepared = true;
  if (llvm::Error error = testSizes())
    return error;
  Block &body = source.getBody().front();
  // The memory of the host comes first, then those of the devices.
  SmallVector<llvm::Value *> bytes(tables.devices.size() + 1, builder.getInt64(0));
  SmallVector<rt::OutputOp> outputOps(body.getOps<rt::OutputOp>());
  llvm::sort(outputOps, [](rt::OutputOp a, rt::OutputOp b) { return a.getIndex() < b.getIndex(); });
  SmallVector<llvm::Value *> allSizes;
  for (rt::OutputOp output : outputOps)
    allSizes.append(sizesOf(cast<MemRefType>(output.getType()), output.getSizes()));
  auto workspaceOps = body.getOps<rt::WorkspaceOp>();
  for (rt::WorkspaceOp workspace : workspaceOps)
    bytes[tables.memoryOf(workspace.getType()) + 1] = values.lookup(workspace.getBytes());
  llvm::Value *failed = call(
      prepareFunction, builder.getInt32Ty(),
      {theCall, workspaceBytes->fill(bytes), outputSizes->fill(allSizes), outputs->fill({}), workspaces->fill({})});
  returnIf(builder.CreateIsNotNull(failed));
  for (auto [number, output] : llvm::enumerate(outputOps))
    values[output.getResult()] = outputs->load(number);
  for (rt::WorkspaceOp workspace : workspaceOps)
    values[workspace.getResult()] = workspaces->load(tables.memoryOf(workspace.getType()) + 1);
  return llvm::Error::success();
}

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

llvm::Error HostFunction::translate(Operation &op) {
  bool usesBuffers = isa<rt::OutputOp, rt::WorkspaceOp, rt::DispatchOp, rt::CopyOp, memref::LoadOp, scf::IfOp,
                         scf::ForOp, scf::WhileOp, func::ReturnOp>(op);
  if (usesBuffers)
    if (llvm::Error error = prepare())
      return error;
  auto afterOf = [&](ValueRange after) -> std::pair<llvm::Value *, llvm::Value *> {
    return {events->fill(all(after)), builder.getInt32(after.size())};
  };
  return llvm::TypeSwitch<Operation *, llvm::Error>(&op)
      .Case([&](rt::SymbolOp symbol) {
        auto names = source->getAttrOfType<ArrayAttr>(rt::hostSymbolsAttr);
        auto position = llvm::find(names, Attribute(symbol.getNameAttr())) - names.begin();
        values[symbol.getResult()] = builder.CreateLoad(
            builder.getInt64Ty(), builder.CreateConstInBoundsGEP1_32(builder.getInt64Ty(), symbols, position));
        testedSizes.insert(symbol.getResult()); // by the runtime
        return llvm::Error::success();
      })
      .Case([&](rt::CheckOp check) {
        std::pair<Value, unsigned> sides[] = {{check.getLeft(), ITX_SIZE_OF_LEFT},
                                              {check.getRight(), ITX_SIZE_OF_RIGHT}};
        for (auto [side, owner] : sides)
          if ((overflow = overflows.lookup(side)))
            refuseIf(overflow, owner, checks, values.lookup(side));
        llvm::Value *result = call(
            checkFunction, builder.getInt32Ty(),
            {theCall, builder.getInt32(checks++), values.lookup(check.getLeft()), values.lookup(check.getRight())});
        returnIf(builder.CreateIsNotNull(result));
        return llvm::Error::success();
      })
      .Case([&](rt::GetQueueOp queue) {
        values[queue.getResult()] = builder.getInt32(queue.getIndex());
        return llvm::Error::success();
      })
      .Case([&](rt::ConstantDataOp data) {
        unsigned position = tables.weightNumber(data);
        values[data.getResult()] =
            builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_32(pointer, weights, position));
        return llvm::Error::success();
      })
      .Case<rt::OutputOp, rt::WorkspaceOp>([&](auto) { return llvm::Error::success(); })
      .Case([&](memref::ViewOp view) {
        values[view.getResult()] = builder.CreateInBoundsGEP(builder.getInt8Ty(), values.lookup(view.getSource()),
                                                             values.lookup(view.getByteShift()));
        return llvm::Error::success();
      })
      .Case<memref::ExpandShapeOp, memref::CollapseShapeOp, memref::CastOp>([&](auto view) {
        values[view->getResult(0)] = values.lookup(view->getOperand(0));
        return llvm::Error::success();
      })
      .Case([&](rt::DispatchOp dispatch) {
        SmallVector<llvm::Value *> pointers = all(dispatch.getInputs());
        pointers.append(all(dispatch.getOutputs()));
        auto [after, afterCount] = afterOf(dispatch.getAfter());
        values[dispatch.getEvent()] =
            call(dispatchFunction, builder.getInt64Ty(),
                 {theCall, values.lookup(dispatch.getQueue()),
                  builder.getInt32(tables.kernelNumbers.lookup(dispatch.getKernel())),
                  builder.getInt32(tables.labelNumbers.lookup(ModuleTables::labelOf(dispatch))),
                  buffers->fill(pointers), builder.getInt32(pointers.size()), sizes->fill(all(dispatch.getSizes())),
                  builder.getInt32(dispatch.getSizes().size()), after, afterCount});
        return llvm::Error::success();
      })
      .Case([&](rt::CopyOp copy) {
        auto type = cast<MemRefType>(copy.getSource().getType());
        llvm::Value *bytes = builder.getInt64(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
        for (llvm::Value *size : sizesOf(type, copy.getSizes()))
          bytes = builder.CreateMul(bytes, size);
        auto [after, afterCount] = afterOf(copy.getAfter());
        unsigned device = tables.deviceNumbers.lookup(copy.getQueue().getType().getDevice().getValue());
        unsigned memories = (rt::memoryDeviceOf(copy.getDestination().getType()) ? ITX_COPY_DESTINATION_ON_DEVICE : 0) +
                            (rt::memoryDeviceOf(type) ? ITX_COPY_SOURCE_ON_DEVICE : 0);
        values[copy.getEvent()] = call(copyFunction, builder.getInt64Ty(),
                                       {theCall, builder.getInt32(device), values.lookup(copy.getQueue()),
                                        values.lookup(copy.getDestination()), values.lookup(copy.getSource()), bytes,
                                        builder.getInt32(memories), after, afterCount});
        return llvm::Error::success();
      })
      .Case([&](rt::WaitOp wait) {
        // A loop that goes on by what failed work has not written might not end.
        bool mayRepeat = wait->getParentOp() != source;
        for (Value event : wait.getEvents()) {
          llvm::Value *failed = call(waitFunction, builder.getInt32Ty(), {theCall, values.lookup(event)});
          if (mayRepeat)
            returnIf(builder.CreateIsNotNull(failed));
        }
        return llvm::Error::success();
      })
      .Case([&](memref::LoadOp load) {
        values[load.getResult()] = loadElement(load);
        return llvm::Error::success();
      })
      .Case([&](scf::IfOp branch) { return translateIf(branch); })
      .Case([&](scf::ForOp loop) { return translateFor(loop); })
      .Case([&](scf::WhileOp loop) { return translateWhile(loop); })
      .Case<scf::YieldOp, scf::ConditionOp>([&](auto) { return llvm::Error::success(); })
      .Case([&](func::ReturnOp) {
        builder.CreateRet(builder.getInt32(0));
        return llvm::Error::success();
      })
      .Default([&](Operation *) -> llvm::Error {
        llvm::Value *value = op.getNumResults() == 1 ? arithmetic(op) : nullptr;
        if (!value)
          return createStringError("function '" + source.getName() + "': no host code for '" +
                                   op.getName().getStringRef() + "'");
        values[op.getResult(0)] = value;
        if (overflow)
          overflows[op.getResult(0)] = overflow;
        return llvm::Error::success();
      });
}

/// Adds a section with these bytes, which the linker keeps.
void addSection(llvm::Module &target, StringRef section, StringRef bytes, llvm::Align alignment) {
  auto *data = llvm::ConstantDataArray::getString(target.getContext(), bytes, /*AddNull=*/false);
  auto *global = new llvm::GlobalVariable(target, data->getType(), /*isConstant=*/true,
                                          llvm::GlobalValue::InternalLinkage, data, section.drop_front());
  global->setSection(section);
  global->setAlignment(alignment);
  llvm::appendToUsed(target, {global});
}

void addDescriptor(llvm::Module &target, const ModuleTables &tables, ArrayRef<llvm::Constant *> functions,
                   const KernelCode &kernels, StringRef manifest) {
  llvm::LLVMContext &context = target.getContext();
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *number = llvm::Type::getInt32Ty(context);
  auto external = [&](const Twine &name) {
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
    auto *function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, target);
    function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    function->setDSOLocal(true);
    return function;
  };
  SmallVector<llvm::Constant *> entries; // itx_kernel_entry is two pointers
  for (unsigned variant = 0; variant < kernels.variants; ++variant)
    for (unsigned kernel = 0; kernel < tables.kernels.size(); ++kernel)
      for (StringRef part : {"plan", "run"})
        entries.push_back(kernels.isHostCode[tables.kernelDevices[kernel]]
                              ? external("itx_k" + Twine(kernel) + "_v" + Twine(variant) + "_" + part)
                              : static_cast<llvm::Constant *>(llvm::ConstantPointerNull::get(pointer)));
  SmallVector<llvm::Constant *> objects; // itx_object is a pointer and 64 bits
  for (ArrayRef<char> object : kernels.objects) {
    auto *data = llvm::ConstantDataArray::getString(context, StringRef(object.data(), object.size()), false);
    auto *global = new llvm::GlobalVariable(target, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::InternalLinkage, data, "itx_object");
    global->setAlignment(llvm::Align(64));
    objects.push_back(llvm::ConstantStruct::getAnon(
        {global, llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), object.size())}));
  }
  auto table = [&](ArrayRef<llvm::Constant *> list, const char *name) {
    auto *type = llvm::ArrayType::get(list.empty() ? pointer : list.front()->getType(), list.size());
    return new llvm::GlobalVariable(target, type, /*isConstant=*/true, llvm::GlobalValue::InternalLinkage,
                                    llvm::ConstantArray::get(type, list), name);
  };
  auto constant = [&](uint32_t value) { return llvm::ConstantInt::get(number, value); };
  Hash128 hash = hashBytes(manifest.data(), manifest.size());
  auto *descriptor = llvm::ConstantStruct::getAnon(
      {constant(ITX_MODULE_ABI_VERSION), constant(kernels.variants), constant(tables.kernels.size()),
       constant(functions.size()), constant(tables.weights.size()), constant(tables.labels.size()),
       constant(tables.devices.size()), constant(objects.size()), table(entries, "itx_kernels"),
       table(functions, "itx_functions"), table(objects, "itx_objects"),
       llvm::ConstantDataArray::get(context, ArrayRef<uint8_t>(hash))});
  new llvm::GlobalVariable(target, descriptor->getType(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           descriptor, ITX_MODULE_SYMBOL);
}

} // namespace

llvm::Expected<std::vector<char>> compileHostCode(ModuleOp module, const ModuleTables &tables,
                                                  const KernelCode &kernels, StringRef manifest,
                                                  llvm::TargetMachine &machine) {
  llvm::LLVMContext context;
  llvm::Module target("intarsia", context);
  target.setTargetTriple(machine.getTargetTriple());
  target.setDataLayout(machine.createDataLayout());
  target.setPICLevel(llvm::PICLevel::BigPIC);
  SmallVector<llvm::Constant *> functions;
  for (auto [number, op] : llvm::enumerate(tables.functions)) {
    HostFunction function(cast<func::FuncOp>(op), tables, target, number);
    if (llvm::Error error = function.build())
      return error;
    functions.push_back(function.entry());
  }
  addDescriptor(target, tables, functions, kernels, manifest);
  ArtifactHeader header = {}; // filled in when the file is complete
  std::copy(std::begin(artifactMagic), std::end(artifactMagic), header.magic);
  addSection(target, artifactHeaderSection, StringRef(reinterpret_cast<const char *>(&header), sizeof(header)),
             llvm::Align(64));
  addSection(target, artifactManifestSection, manifest, llvm::Align(1));

  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(target, &stream))
    return createStringError("host code does not verify: " + problem);
  // The code is one long block of stores and calls: with optimisation it takes ten times as long to compile (60 ms for
  // MiniLM) and is not measurably faster.
  machine.setOptLevel(llvm::CodeGenOptLevel::None);
  SmallVector<char> object;
  llvm::raw_svector_ostream output(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, output, nullptr, llvm::CodeGenFileType::ObjectFile))
    return createStringError("the target " + machine.getTargetTriple().str() + " emits no objects");
  passes.run(target);
  return std::vector<char>(object.begin(), object.end());
}

} // namespace intarsia::assemble
