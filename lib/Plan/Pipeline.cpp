//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Plan.h"
#include "lib/Plan/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace intarsia::plan {
#define GEN_PASS_REGISTRATION
#include "lib/Plan/Passes.h.inc"
} // namespace intarsia::plan

using namespace mlir;
using namespace intarsia;
using namespace intarsia::plan;

void intarsia::buildDecomposePipeline(OpPassManager &pipeline) {
  pipeline.addPass(createPlanInlineCalls());
  pipeline.addPass(createCanonicalizerPass());
  pipeline.addPass(createPlanDecomposeMultimodal());
  pipeline.addPass(createPlanDecomposeLlm());
  pipeline.addPass(createPlanDecomposeRetrieve());
  // CSE embeds equal queries once and encodes equal images once; tasks that may answer differently stay.
  pipeline.addPass(createCSEPass());
  pipeline.addPass(createPlanExpectedWork());
}

void intarsia::registerPlanPasses() {
  plan::registerPlanPasses();
  PassPipelineRegistration<>("plan-decompose", "Tasks of agent graphs become pieces with their expected work",
                             [](OpPassManager &pipeline) { buildDecomposePipeline(pipeline); });
}
