//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/KernelShapes.h"
#include "intarsia/Analysis/GatheredRows.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

std::optional<KernelRoot> fuse::kernelRootOf(Operation *op) {
  if (auto root = dyn_cast<KernelRootOpInterface>(op))
    return root.getKernelRoot();
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op); slice && isGatheredRows(slice))
    return std::nullopt;
  if (isa<tensor::ExtractSliceOp, tensor::ConcatOp, linalg::FillOp, tensor::SplatOp>(op) || isElementwise(op) ||
      isParallelGeneric(op))
    return KernelRoot::Rows;
  if (isa<linalg::GenericOp>(op))
    return KernelRoot::Generic;
  return std::nullopt;
}

bool fuse::isElementwise(Operation *op) {
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect, nn::NnDialect>(op->getDialect()) &&
         op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

bool fuse::isParallelGeneric(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic->getNumResults() == 1 && generic.getNumParallelLoops() == generic.getNumLoops() &&
         llvm::all_of(generic.getIndexingMapsArray(),
                      [](AffineMap map) { return map.isProjectedPermutation(/*allowZeroInResults=*/true); }) &&
         generic.getMatchingIndexingMap(generic.getDpsInitOperand(0)).isPermutation();
}

bool fuse::isReduction(Operation *op) {
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  return linalgOp && linalgOp.getNumReductionLoops() > 0;
}

bool fuse::isNorm(Operation *op) { return isa<NormOpInterface>(op); }
bool fuse::isRowWise(Operation *op) { return isa<RowwiseOpInterface>(op); }
bool fuse::isReshape(Operation *op) { return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op); }

/// True if a slice takes all of the source's dimension.
static bool takesAll(tensor::ExtractSliceOp slice, unsigned dim) {
  if (!isConstantIntValue(slice.getMixedOffsets()[dim], 0))
    return false;
  int64_t source = slice.getSourceType().getDimSize(dim);
  OpFoldResult size = slice.getMixedSizes()[dim];
  if (auto constant = getConstantIntValue(size))
    return *constant == source;
  return false;
}

bool fuse::isOuterSlice(Operation *op) {
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
  if (!slice || !slice.hasUnitStride() || slice.getType().getRank() == 0 || isGatheredRows(slice))
    return false;
  unsigned last = slice.getSourceType().getRank() - 1;
  return takesAll(slice, last) && !slice.getDroppedDims().test(last);
}

bool fuse::isLastDimSlice(Operation *op, const WorkModel &work) {
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
  if (!slice || !slice.hasUnitStride() || slice.getType().getRank() != slice.getSourceType().getRank())
    return false;
  ArrayRef<AffineExpr> source = work.sizes(slice.getSource()), result = work.sizes(slice.getResult());
  for (unsigned dim = 0, last = source.size() - 1; dim != last; ++dim)
    if (source[dim] != result[dim] || !isConstantIntValue(slice.getMixedOffsets()[dim], 0))
      return false;
  return getConstantIntValue(slice.getMixedOffsets().back()) && getConstantIntValue(slice.getMixedSizes().back());
}

bool fuse::isOuterReshape(Operation *op) {
  SmallVector<ReassociationIndices> groups;
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    groups = expand.getReassociationIndices();
  else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    groups = collapse.getReassociationIndices();
  else
    return false;
  return !groups.empty() && groups.back().size() == 1;
}

/// Operands that a kernel reads as stored weights or tables.
static bool isStored(OpOperand &use) {
  auto user = dyn_cast<StoredOperandOpInterface>(use.getOwner());
  return user && user.getStoredOperand(use.getOperandNumber()) != StoredOperand::None;
}

/// Matrices that a kernel reads where they lie.
static bool isMatrix(OpOperand &use) {
  return isa<nn::MatmulOp>(use.getOwner()) && isa<RankedTensorType>(use.get().getType());
}

/// Scalars that groups clone are few steps from a constant: a scale, its reciprocal, a cast, a fill with it. The walk
/// visits what several steps share once for each, so its depth is bounded.
static constexpr unsigned largestScalarDepth = 8;

/// True if an index is computed from an element of a tensor.
static bool isRead(Value index, unsigned depth = 0) {
  Operation *op = index.getDefiningOp();
  if (!op || depth > largestScalarDepth || isa<tensor::DimOp>(op))
    return false;
  return isa<tensor::ExtractOp>(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) { return isRead(operand, depth + 1); });
}

static bool isCloneableValue(Value value, unsigned depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > largestScalarDepth)
    return false;
  if (op->hasTrait<OpTrait::ConstantLike>()) {
    SplatElementsAttr splat;
    return !isa<RankedTensorType>(value.getType()) || matchPattern(value, m_Constant(&splat));
  }
  if (isa<tensor::EmptyOp>(op))
    return llvm::none_of(op->getOperands(), [](Value size) { return isRead(size); });
  if (auto fill = dyn_cast<linalg::FillOp>(op))
    return isCloneableValue(fill.getInputs()[0], depth + 1) && isCloneableValue(fill.getOutputs()[0], depth + 1);
  if (isa<tensor::SplatOp>(op))
    return isCloneableValue(op->getOperand(0), depth + 1);
  // Scalars that are computed from scalars.
  return op->getNumResults() == 1 && value.getType().isIntOrIndexOrFloat() && isPure(op) && op->getNumRegions() == 0 &&
         !isa<tensor::ExtractOp>(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
           return operand.getType().isIndex() || isCloneableValue(operand, depth + 1);
         });
}

bool fuse::isCloned(OpOperand &use) {
  return use.get().getType().isIndex() || (!isStored(use) && !isMatrix(use) && isCloneableValue(use.get()));
}

llvm::SetVector<Value> fuse::capturedValues(Operation *op) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  return captured;
}

bool fuse::hasOnlyCloneableScalars(Operation *op, const WorkModel &work) {
  for (Value captured : capturedValues(op))
    if (!isa<RankedTensorType>(captured.getType()) && !isCloneableValue(captured) &&
        !(captured.getType().isIndex() && work.indexSize(captured)))
      return false;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &use) {
    Type type = use.get().getType();
    if (isa<RankedTensorType>(type))
      return true;
    return type.isIndex() ? bool(work.indexSize(use.get())) || isCloneableValue(use.get()) : isCloned(use);
  });
}

bool fuse::isElementwiseOver(Operation *op, ArrayRef<AffineExpr> sizes, bool lastDimOnly,
                             llvm::function_ref<bool(Value)> inside, const WorkModel &work, std::string &whyNot) {
  if (!isElementwise(op) && !isParallelGeneric(op)) {
    whyNot = "not elementwise";
    return false;
  }
  if (work.sizes(op->getResult(0)) != sizes) {
    whyNot = "result has other sizes";
    return false;
  }
  if (!hasOnlyCloneableScalars(op, work)) {
    whyNot = "a scalar operand is computed from tensors";
    return false;
  }
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return true;
  if (!generic.getMatchingIndexingMap(generic.getDpsInitOperand(0)).isIdentity()) {
    whyNot = "result is transposed";
    return false;
  }
  if (generic.payloadUsesValueFromOperand(generic.getDpsInitOperand(0))) {
    whyNot = "accumulates into an existing tensor";
    return false;
  }
  if (llvm::any_of(capturedValues(op), [](Value value) { return isa<RankedTensorType>(value.getType()); })) {
    whyNot = "reads a tensor at computed positions";
    return false;
  }
  if (lastDimOnly && generic.hasIndexSemantics()) {
    whyNot = "reads its position";
    return false;
  }
  unsigned rank = generic.getNumLoops();
  for (OpOperand *use : generic.getDpsInputOperands()) {
    AffineMap map = generic.getMatchingIndexingMap(use);
    if (map.isIdentity() || map.getNumResults() == 0)
      continue;
    if (inside(use->get())) {
      whyNot = "reads a value of the kernel at another position";
      return false;
    }
    bool lastDim = map.getNumResults() == 1 && rank && map.getResult(0) == getAffineDimExpr(rank - 1, op->getContext());
    if (lastDimOnly && !lastDim) {
      whyNot = "an operand is broadcast along other dimensions than the last";
      return false;
    }
  }
  return true;
}
