//===- Rewrite.h - Rewrites that leave other ops alone ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LEGALIZE_REWRITE_H
#define INTARSIA_LIB_LEGALIZE_REWRITE_H

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace intarsia::legalize {

/// Names the op that the user wrote, on a tensor.extract that a rewrite has made of it.
inline constexpr llvm::StringLiteral writtenAsAttr = "legalize.written_as";

/// Applies patterns until none matches. Nothing is folded: ops that no pattern matches stay as the user wrote them,
/// unless they are dead.
inline mlir::LogicalResult rewrite(mlir::Operation *root, mlir::RewritePatternSet &&patterns) {
  mlir::GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false).setRegionSimplificationLevel(
      mlir::GreedySimplifyRegionLevel::Disabled);
  return mlir::applyPatternsGreedily(root, std::move(patterns), config);
}

} // namespace intarsia::legalize

#endif
