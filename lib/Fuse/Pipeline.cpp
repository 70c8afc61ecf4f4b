//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Fuse/Fuse.h"
#include "lib/Fuse/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace intarsia::fuse {
#define GEN_PASS_REGISTRATION
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

/// Options of a pass that decides.
template <typename Options> static Options deciding(const FuseOptions &options) {
  Options result;
  result.flip.assign(options.flip.begin(), options.flip.end());
  return result;
}

void intarsia::buildFusePipeline(OpPassManager &pipeline, const FuseOptions &options) {
  pipeline.addPass(createFuseComputeAtLoad(deciding<FuseComputeAtLoadOptions>(options)));
  OpPassManager &wholeFunctions = pipeline.nest<func::FuncOp>();
  wholeFunctions.addPass(createCanonicalizerPass());
  wholeFunctions.addPass(createFuseExpandOps()); // to loops of the host among others
  pipeline.addPass(createFuseOutlineRegions());
  OpPassManager &functions = pipeline.nest<func::FuncOp>();
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createFuseCanonicalize());
  functions.addPass(createFuseLayouts(deciding<FuseLayoutsOptions>(options)));
  functions.addPass(createFuseSplitReductions());
  functions.addPass(createCSEPass());

  functions.addPass(createFuseSharedInputLinears(deciding<FuseSharedInputLinearsOptions>(options)));
  functions.addPass(createFuseAttention(deciding<FuseAttentionOptions>(options)));
  functions.addPass(createFuseEpilogues(deciding<FuseEpiloguesOptions>(options)));
  functions.addPass(createFuseEmbeddings(deciding<FuseEmbeddingsOptions>(options)));
  functions.addPass(createFuseElementwise(deciding<FuseElementwiseOptions>(options)));
  functions.addPass(createFuseWrapRemaining());
  functions.addPass(createFuseNarrowResults());
  functions.addPass(createFuseQuantizeResults());
  functions.addPass(createCSEPass());

  FuseRecordDecisionsOptions record = deciding<FuseRecordDecisionsOptions>(options);
  record.file = options.explainFile;
  pipeline.addPass(createFuseRecordDecisions(record));
  pipeline.addPass(createFuseInlineRegions());
  pipeline.nest<func::FuncOp>().addPass(createFuseVerify());
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> explain{*this, "explain", llvm::cl::desc("Write the decisions to this file as JSON")};
  ListOption<std::string> flip{*this, "flip", llvm::cl::desc("Decisions to take the other way, by id")};
};
} // namespace

void intarsia::registerFusePasses() {
  fuse::registerFusePasses();
  PassPipelineRegistration<PipelineOptions>("intarsia-fuse",
                                            "The fuse phase: nn ops become groups, one for each kernel-to-be",
                                            [](OpPassManager &pipeline, const PipelineOptions &given) {
                                              FuseOptions options;
                                              options.explainFile = given.explain;
                                              options.flip.assign(given.flip.begin(), given.flip.end());
                                              buildFusePipeline(pipeline, options);
                                            });
}
