//===- HostFunction.h - One host function as LLVM IR -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_HOSTFUNCTION_H
#define INTARSIA_LIB_ASSEMBLE_HOSTFUNCTION_H

#include "dialects/Rt/Rt.h"
#include "intarsia/module_abi.h"
#include "lib/Assemble/HostCode.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include <map>
#include <optional>

namespace intarsia::assemble {

using namespace mlir;

/// Positions in itx_host_api.
enum {
  checkFunction,
  prepareFunction,
  dispatchFunction,
  copyFunction,
  waitFunction,
  refuseFunction,
  checkIndicesFunction,
  collectiveFunction
};

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

/// Translates one function of a host program: ops in HostFunction.cpp, sizes in HostSizes.cpp, control flow in
/// HostControlFlow.cpp.
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
  void translateCheck(rt::CheckIndicesOp check);
  llvm::Error translateIf(scf::IfOp op);
  void mayBeCancelled();
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
  llvm::Value *divide(Operation &op, llvm::Value *dividend, llvm::Value *divisor);
  llvm::Value *shift(Operation &op, llvm::Value *value, llvm::Value *amount);
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
  DenseMap<Value, llvm::Value *> overflows; // for integers that may not fit in 64 bits: true if they do not
  llvm::Value *overflow = nullptr;          // the same for the current integer; null if it always fits
  DenseSet<Value> testedSizes;
  using Bytes = std::pair<int64_t, std::vector<void *>>; // bytes of the static part, and dynamic sizes
  std::map<Bytes, llvm::Value *> testedBytes;
  DenseSet<std::pair<Value, llvm::Value *>> testedEnds; // (offset of a view, its bytes)
  std::optional<CallArray> buffers, sizes, events, outputSizes, outputs, workspaceBytes, workspaces;
  bool isPrepared = false;
  unsigned checks = 0; // checks translated so far, which is the next one's index in the manifest
};

} // namespace intarsia::assemble

#endif
