//===- Pipeline.cpp - Passes that take IR of other compilers -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Legalize/Legalize.h"
#include "lib/Legalize/Passes.h"

#include "dialects/TmTensor/TmTensor.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Pass/PassRegistry.h"

namespace intarsia::legalize {
#define GEN_PASS_REGISTRATION
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

void intarsia::buildLegalizePipeline(OpPassManager &pipeline, bool isOfPhase) {
  pipeline.addPass(legalize::createLegalizeFunctions());
  if (isOfPhase)
    return;
  OpPassManager &functions = pipeline.nest<func::FuncOp>();
  functions.addPass(legalize::createLegalizeIndices());
  functions.addPass(legalize::createLegalizeLoops());
  functions.addPass(legalize::createLegalizeOps());
  pipeline.addPass(legalize::createLegalizeGlobals());
  pipeline.addPass(legalize::createLegalizeCounts());
  OpPassManager &stateless = pipeline.nest<func::FuncOp>();
  stateless.addPass(legalize::createLegalizeOps()); // initial values may be resources
  stateless.addPass(legalize::createLegalizeTmTensor());
  stateless.addPass(legalize::createLegalizeDivisions());
  stateless.addPass(legalize::createLegalizeTensors());
  stateless.addPass(legalize::createLegalizeMaps());
  stateless.addPass(legalize::createLegalizeChecks());
  stateless.addPass(legalize::createLegalizeReductions());
  stateless.addPass(legalize::createLegalizeNn());
  pipeline.addPass(legalize::createLegalizeScalars());
  pipeline.addPass(legalize::createLegalizeConstants());
}

void intarsia::registerLegalizeDialects(DialectRegistry &registry) {
  registry.insert<affine::AffineDialect, bufferization::BufferizationDialect, cf::ControlFlowDialect,
                  ml_program::MLProgramDialect, tm_tensor::TmTensorDialect, ub::UBDialect>();
}

void intarsia::registerLegalizePasses() {
  legalize::registerLegalizePasses();
  PassPipelineRegistration<>("intarsia-legalize", "IR of other compilers becomes what the phases know",
                             [](OpPassManager &pipeline) { buildLegalizePipeline(pipeline); });
}
