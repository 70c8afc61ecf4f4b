//===- Pipeline.cpp - The lower phase, pass by pass --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Lower/Lower.h"
#include "lib/Lower/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace intarsia {
namespace lower {
#define GEN_PASS_REGISTRATION
#include "lib/Lower/Passes.h.inc"
} // namespace lower

void buildLowerPipeline(mlir::OpPassManager &manager) {
  manager.addPass(lower::createLowerGroupsToKernels());
  manager.addNestedPass<mlir::func::FuncOp>(lower::createLowerPlanBuffers());
  manager.addPass(lower::createLowerVerify());
}

void buildLowerVerification(mlir::OpPassManager &manager) { manager.addPass(lower::createLowerVerify()); }

void registerLowerPasses() {
  lower::registerLowerPasses();
  mlir::PassPipelineRegistration<>("intarsia-lower", "The lower phase: groups become kernels and a host program",
                                   buildLowerPipeline);
}

} // namespace intarsia
