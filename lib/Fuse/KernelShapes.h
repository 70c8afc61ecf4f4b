//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Ops that a kernel of each kind can hold. The passes decide what is worth it; this says what is possible.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_KERNELSHAPES_H
#define INTARSIA_LIB_FUSE_KERNELSHAPES_H

#include "intarsia/Cost/Cost.h"
#include "lib/Fuse/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace intarsia::fuse {

/// The kind of kernel that computes the op alone; nothing if there is none.
std::optional<KernelRoot> kernelRootOf(mlir::Operation *op);
/// One of nn's elementwise functions, or an elementwise arith/math op on tensors.
bool isElementwise(mlir::Operation *op);
/// linalg.generic with one result that only copies, broadcasts, transposes and computes element by element.
bool isParallelGeneric(mlir::Operation *op);
/// linalg op that sums, multiplies, … over a dimension.
bool isReduction(mlir::Operation *op);
/// An op that only needs the mean and deviation of whole rows, or of parts of them.
bool isNorm(mlir::Operation *op);
/// An op that works on whole rows: a norm or softmax.
bool isRowWise(mlir::Operation *op);
/// expand_shape or collapse_shape: other sizes for the same bytes.
bool isReshape(mlir::Operation *op);
/// extract_slice with unit strides that takes whole rows of the last dimension.
bool isOuterSlice(mlir::Operation *op);
/// extract_slice with unit strides that takes a part of the last dimension and all of the others.
bool isLastDimSlice(mlir::Operation *op, const WorkModel &work);
/// Reshape that leaves the last dimension alone.
bool isOuterReshape(mlir::Operation *op);

/// Cloned into each group that uses it instead of being an operand: scalars, splats, tensor.empty, fills with those,
/// index arithmetic. `user` is who reads it: weights, scales and tables stay operands even if they are splats.
bool isCloned(mlir::OpOperand &use);

/// Values from outside that the regions of an op read: canonicalization moves constants out of linalg.generic.
llvm::SetVector<mlir::Value> capturedValues(mlir::Operation *op);

/// True if all operands and captured values of an op that are neither tensors nor sizes can be cloned into a group.
bool hasOnlyCloneableScalars(mlir::Operation *op, const WorkModel &work);

/// True if the op, with `inside` telling which operands are computed by the same kernel, works element by element on
/// tensors of exactly these sizes. Operands from outside may have the same sizes, or be broadcast: along the last
/// dimension only with `lastDimOnly` (what a GEMM's epilogue reads), else any way. Says why not.
bool isElementwiseOver(mlir::Operation *op, mlir::ArrayRef<mlir::AffineExpr> sizes, bool lastDimOnly,
                       llvm::function_ref<bool(mlir::Value)> inside, const WorkModel &work, std::string &whyNot);

} // namespace intarsia::fuse

#endif
