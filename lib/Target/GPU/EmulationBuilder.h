//===- EmulationBuilder.h - Calls of the emulator in a module ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_EMULATIONBUILDER_H
#define INTARSIA_LIB_TARGET_GPU_EMULATIONBUILDER_H

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include <map>
#include <string>

namespace intarsia::gpu {

/// Builds code of the host for what only GPUs have: calls of the emulator's functions.
class EmulationBuilder {
public:
  explicit EmulationBuilder(llvm::Module &module) : module(module), context(module.getContext()), builder(context) {}

  /// Returns the result of a call of an emulator's function.
  llvm::CallInst *callImport(llvm::StringRef name, llvm::Type *result, llvm::ArrayRef<llvm::Value *> arguments);
  /// Returns memory of the thread for a value of a type.
  llvm::AllocaInst *memoryFor(llvm::Type *type);
  /// Returns memory that holds values one after the other, which all have one type.
  llvm::AllocaInst *spill(llvm::ArrayRef<llvm::Value *> values);

  llvm::Module &module;
  llvm::LLVMContext &context;
  llvm::IRBuilder<> builder;
  std::map<std::string, bool> imports; // in the order of names, so that bytes depend on input alone
};

/// Replaces assembly: matrix instructions of four warps, what orders them, and what is a function of the emulator by
/// itself. Returns false if it is none of these.
bool replaceAssembly(EmulationBuilder &emulation, llvm::CallInst &call);

} // namespace intarsia::gpu

#endif
