//===- Pipeline.cpp - The target phase, pass by pass -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/Pipeline.h"
#include "intarsia/Target/Target.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace intarsia {
namespace target {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Target/Passes.h.inc"
} // namespace target

void buildTargetPipeline(mlir::OpPassManager &manager) {
  manager.addPass(target::createTargetCompileKernels());
  manager.addPass(target::createTargetVerify());
}

void buildTargetVerification(mlir::OpPassManager &manager) { manager.addPass(target::createTargetVerify()); }

void registerTargetPasses() {
  target::registerTargetPasses();
  mlir::PassPipelineRegistration<>("intarsia-target", "The target phase: kernels become objects", buildTargetPipeline);
  mlir::PassPipelineRegistration<>("target-cpu-lower-to-llvm", "Loops over vectors become the LLVM dialect",
                                   cpu::buildLowerToLlvm);
}

} // namespace intarsia
