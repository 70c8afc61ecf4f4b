//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The fuse phase: nn ops become nn.group regions, one for each kernel-to-be, chosen by cost.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_FUSE_FUSE_H
#define INTARSIA_FUSE_FUSE_H

#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace intarsia {

struct FuseOptions {
  std::string explainFile;       ///< where the decisions go as JSON; empty: nowhere
  std::vector<std::string> flip; ///< ids of decisions to take the other way; '*' matches any text
};

/// Appends the phase to a pipeline on modules: groups are formed, decisions recorded, the result verified.
void buildFusePipeline(mlir::OpPassManager &pipeline, const FuseOptions &options);

/// Registers the passes of the phase and the pipeline --intarsia-fuse.
void registerFusePasses();

} // namespace intarsia

#endif
