//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Helpers of verifiers, size inference and work of ops (Ops/*/*.cpp).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_OPS_SHARED_H
#define INTARSIA_DIALECTS_NN_OPS_SHARED_H

#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Verify.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

namespace intarsia::nn {

using SizesRange = llvm::ArrayRef<llvm::SmallVector<mlir::AffineExpr>>;

//===-- Types and sizes ------------------------------------------------------------------------------------------===//

/// Returns the type with the last dimension replaced, or without change if it has none.
inline mlir::RankedTensorType withLastSize(mlir::RankedTensorType type, int64_t size) {
  llvm::SmallVector<int64_t> shape(type.getShape());
  if (!shape.empty())
    shape.back() = size;
  return mlir::RankedTensorType::get(shape, type.getElementType());
}

/// Defines the result's type and sizes of an op whose result is like its first operand.
#define INTARSIA_RESULT_LIKE_FIRST(Op)                                                                                 \
  mlir::LogicalResult Op::inferReturnTypes(mlir::MLIRContext *, std::optional<mlir::Location>,                         \
                                           mlir::ValueRange operands, mlir::DictionaryAttr, mlir::OpaqueProperties,    \
                                           mlir::RegionRange, llvm::SmallVectorImpl<mlir::Type> &results) {            \
    results.push_back(operands.front().getType());                                                                     \
    return mlir::success();                                                                                            \
  }                                                                                                                    \
  llvm::SmallVector<intarsia::Sizes> Op::inferResultSizes(intarsia::nn::SizesRange sizes) { return {sizes[0]}; }

/// Defines that no sizes of an op's operands must be equal.
#define INTARSIA_NO_EQUAL_SIZES(Op)                                                                                    \
  intarsia::SizePairs Op::getEqualSizes(intarsia::nn::SizesRange) { return {}; }

//===-- Work -----------------------------------------------------------------------------------------------------===//

/// Returns so many operations and transcendental evaluations for each element of a tensor. Counts follow the formula in
/// the op's description; divisions, square roots and comparisons are one operation each.
inline Work workOfElements(mlir::Operation *op, llvm::ArrayRef<mlir::AffineExpr> sizes, int64_t flops,
                           int64_t transcendentals) {
  mlir::AffineExpr count = elementCount(op->getContext(), sizes);
  return {count * flops, count * transcendentals};
}

//===-- Kernels --------------------------------------------------------------------------------------------------===//

/// Returns the map from so many loops to these.
inline mlir::AffineMap mapTo(llvm::ArrayRef<unsigned> loops, unsigned count, mlir::MLIRContext *context) {
  return mlir::AffineMap::getMultiDimMapWithTargets(count, loops, context);
}

/// Returns the rows behind an operand that is read row by row: one that is dequantized from values which nn.quantize
/// gives is quantized where it is read.
RowInput rowInputOf(mlir::Value operand);

//===-- Folders --------------------------------------------------------------------------------------------------===//

/// Folded constants are held in the IR, weights never are: 4096 elements are the biases and tables of a layer, a tenth
/// of the smallest weight matrix of an encoder (384 x 384 in MiniLM).
inline constexpr int64_t largestFoldedTensor = 4096;

/// Returns true for floats that are all zero.
inline bool isSplatZero(mlir::Attribute attribute) {
  auto elements = llvm::dyn_cast_if_present<mlir::DenseFPElementsAttr>(attribute);
  return elements && elements.isSplat() && elements.getSplatValue<mlir::APFloat>().isZero();
}

/// Takes a bias of zeros off an op.
template <typename Op> struct DropZeroBias : mlir::OpRewritePattern<Op> {
  using mlir::OpRewritePattern<Op>::OpRewritePattern;

  mlir::LogicalResult matchAndRewrite(Op op, mlir::PatternRewriter &rewriter) const override {
    if (!op.getBias() || !mlir::matchPattern(op.getBias(), mlir::m_AnyZeroFloat()))
      return rewriter.notifyMatchFailure(op, "bias is not constant zero");
    rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().clear(); });
    return mlir::success();
  }
};

} // namespace intarsia::nn

#endif
