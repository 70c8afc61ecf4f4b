//===- Rewrite.h - Rewrites that leave other ops alone ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_LEGALIZE_REWRITE_H
#define INTARSIA_LIB_LEGALIZE_REWRITE_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace intarsia::legalize {

/// Names the op that the user wrote, on a tensor.extract that a rewrite has made of it.
inline constexpr llvm::StringLiteral writtenAsAttr = "legalize.written_as";

/// Says of a tensor.extract that its indices are inside of its tensor by what computed them.
inline constexpr llvm::StringLiteral insideAttr = "legalize.inside";

/// Emits a constant of a scalar's type or of a ranked tensor's, whose dynamic sizes are those of a tensor of its shape.
inline mlir::Value constantLike(mlir::OpBuilder &builder, mlir::Location location, mlir::Type type,
                                mlir::TypedAttr element, mlir::Value like) {
  auto shaped = llvm::dyn_cast<mlir::RankedTensorType>(type);
  if (!shaped)
    return mlir::arith::ConstantOp::create(builder, location, element);
  if (shaped.hasStaticShape())
    return mlir::arith::ConstantOp::create(builder, location,
                                           mlir::DenseElementsAttr::get(shaped, mlir::Attribute(element)));
  llvm::SmallVector<mlir::Value> sizes;
  for (int64_t dimension = 0; dimension < shaped.getRank(); ++dimension)
    if (shaped.isDynamicDim(dimension))
      sizes.push_back(mlir::tensor::DimOp::create(builder, location, like, dimension));
  mlir::Value scalar = mlir::arith::ConstantOp::create(builder, location, element);
  return mlir::tensor::SplatOp::create(builder, location, scalar, shaped, sizes);
}

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
