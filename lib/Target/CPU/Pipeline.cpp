//===- Pipeline.cpp - From kernels to LLVM, pass by pass --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/Pipeline.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace intarsia::target {
#define GEN_PASS_DECL
#include "lib/Target/Passes.h.inc"
} // namespace intarsia::target

namespace intarsia {
void cpu::buildLowerToLlvm(OpPassManager &manager) {
  manager.addPass(createCSEPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void cpu::buildEmission(OpPassManager &manager, const CpuVariant &variant) {
  manager.addPass(target::createTargetCpuEmitKernels({variant.spec}));
  buildPreparation(manager, variant);
}

void cpu::buildPreparation(OpPassManager &manager, const CpuVariant &variant) {
  manager.addPass(target::createTargetExpandDivisions());
  if (!variant.fusedMultiplyAdd)
    manager.addPass(target::createTargetCpuSplitFusedMultiplyAdd());
}

} // namespace intarsia
