//===- EmulationBuilder.cpp - Calls of the emulator in a module --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/EmulationBuilder.h"

using namespace llvm;

namespace intarsia::gpu {

/// Functions of the C library, which the runtime has for code on the host.
static bool isMath(StringRef name) { return name == "fma" || name == "fmaf" || name == "exp2f"; }

CallInst *EmulationBuilder::callImport(StringRef name, Type *result, ArrayRef<Value *> arguments) {
  SmallVector<Type *> types;
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  auto *type = FunctionType::get(result, types, false);
  std::string imported = isMath(name) ? name.str() : ("itx_emulated_" + name).str();
  FunctionCallee callee = module.getOrInsertFunction(imported, type);
  imports[imported];
  CallInst *call = builder.CreateCall(callee, arguments);
  // Messages of the emulator tell call sites apart.
  call->setTailCallKind(CallInst::TCK_NoTail);
  return call;
}

AllocaInst *EmulationBuilder::memoryFor(Type *type) {
  IRBuilderBase::InsertPointGuard guard(builder);
  Function *function = builder.GetInsertBlock()->getParent();
  builder.SetInsertPoint(&*function->getEntryBlock().getFirstInsertionPt());
  return builder.CreateAlloca(type);
}

AllocaInst *EmulationBuilder::spill(ArrayRef<Value *> values) {
  Type *type = values.front()->getType();
  AllocaInst *memory = memoryFor(ArrayType::get(type, values.size()));
  for (auto [i, value] : enumerate(values))
    builder.CreateStore(value, builder.CreateConstInBoundsGEP1_64(type, memory, i));
  return memory;
}

} // namespace intarsia::gpu
