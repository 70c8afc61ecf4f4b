//===- Pipeline.cpp - From tensors to LLVM, pass by pass ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Reference/Reference.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace intarsia {
namespace reference {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Reference/Passes.h.inc"

void buildReferenceBuffers(OpPassManager &manager) {
  manager.addPass(createLowerNnToReference());
  manager.addPass(createConvertElementwiseToLinalgPass());
  manager.addPass(createReferenceBufferize());
}

void buildReferenceLoops(OpPassManager &manager) {
  buildReferenceBuffers(manager);
  manager.addNestedPass<func::FuncOp>(bufferization::createOptimizeAllocationLivenessPass());
  manager.addNestedPass<func::FuncOp>(createReferenceSumsToLoops());
  manager.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
}

void buildReferenceLowering(OpPassManager &manager) {
  manager.addPass(memref::createExpandStridedMetadataPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(createReferenceWidenMath());
  math::MathExpandOpsPassOptions expanded;
  expanded.opMnemonics = {"fpowi"};
  manager.addNestedPass<func::FuncOp>(math::createMathExpandOpsPass(expanded));
  arith::ArithEmulateUnsupportedFloatsOptions narrow;
  narrow.sourceTypeStrs = {"bf16", "f16", "f8E4M3FN", "f8E5M2"};
  narrow.targetTypeStr = "f64";
  manager.addPass(arith::createArithEmulateUnsupportedFloats(narrow));
  manager.addPass(createReferenceExpandFloats());
  manager.addPass(arith::createArithExpandOpsPass());
  manager.addPass(createConvertMathToFuncs()); // powers of integers
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createConvertMathToLibmPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createFinalizeMemRefToLLVMConversionPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}
} // namespace reference

void registerReferencePasses() {
  reference::registerReferencePasses();
  PassPipelineRegistration<>("reference-to-loops", "References of nn ops become loops over memory",
                             reference::buildReferenceLoops);
  PassPipelineRegistration<>("reference-to-llvm", "Loops of references become the LLVM dialect",
                             reference::buildReferenceLowering);
}

} // namespace intarsia
