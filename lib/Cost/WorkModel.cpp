//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Prepacking.h"
#include "intarsia/Cost/Cost.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include <algorithm>

using namespace mlir;
using namespace intarsia;

bool intarsia::isCompileTime(Value value) {
  value = nn::reshapeSource(value);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto group = dyn_cast<nn::GroupOp>(argument.getOwner()->getParentOp());
    return group && isCompileTime(group.getInputs()[argument.getArgNumber()]);
  }
  Operation *op = value.getDefiningOp();
  if (isa<nn::QuantizeOp>(op))
    return !op->use_empty() && nn::isPartOfPrepacked(op);
  return op->hasTrait<OpTrait::ConstantLike>() || nn::isPrepacked(value);
}

/// Returns true for functions whose polynomial takes about as long as that of exp.
static bool isTranscendental(Operation *op) {
  return isa_and_nonnull<math::MathDialect>(op->getDialect()) &&
         !isa<math::AbsFOp, math::AbsIOp, math::FmaOp, math::SqrtOp, math::RsqrtOp, math::FloorOp, math::CeilOp,
              math::RoundOp, math::RoundEvenOp, math::TruncOp, math::CopySignOp, math::ClampFOp>(op);
}

WorkModel::WorkModel(FunctionOpInterface function) : analysis(function) { readExpected(function); }

void WorkModel::readExpected(FunctionOpInterface function) {
  expectedValues.clear();
  auto given = function->getAttrOfType<DictionaryAttr>("nn.expected_sizes");
  auto limits = function->getAttrOfType<DictionaryAttr>("nn.size_limits");
  for (const std::string &name : analysis.names()) {
    int64_t value = name == "sequence" ? 128 : 1;
    if (limits)
      if (auto limit = limits.getAs<IntegerAttr>(name))
        value = std::min(value, limit.getInt());
    if (given)
      if (auto size = given.getAs<IntegerAttr>(name))
        value = size.getInt();
    expectedValues.push_back(value);
  }
}

ArrayRef<AffineExpr> WorkModel::sizes(Value value) const {
  auto found = overrides.find(value);
  return found != overrides.end() ? ArrayRef<AffineExpr>(found->second) : analysis.of(value);
}

AffineExpr WorkModel::indexSize(Value value) const { return analysis.ofIndex(value); }

void WorkModel::replaced(Value before, Value after) {
  Sizes copy(sizes(before));
  overrides[after] = std::move(copy);
}

double WorkModel::evaluate(AffineExpr expression) const {
  return expression ? double(SymbolicSizes::evaluate(expression, expectedValues)) : 0;
}

int64_t WorkModel::elements(Value value) const {
  int64_t count = 1;
  for (AffineExpr size : sizes(value))
    count *= SymbolicSizes::evaluate(size, expectedValues);
  return count;
}

double WorkModel::bytes(Value value) const {
  // A weight of quantized values is stored, and read, in that form, whatever its shape; so are concatenations of them.
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<nn::DequantizeOp, tensor::ConcatOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op) &&
      isCompileTime(value)) {
    double stored = 0;
    for (Value part : op->getOperands())
      stored += bytes(part);
    return stored;
  }
  if (auto transpose = dyn_cast_if_present<linalg::TransposeOp>(op); transpose && isCompileTime(value))
    return bytes(transpose.getInput());
  // The part of a weight that a rank has is stored as the whole weight would be.
  if (auto slice = dyn_cast_if_present<tensor::ExtractSliceOp>(op); slice && isCompileTime(value))
    return bytes(slice.getSource()) * double(elements(value)) /
           double(std::max<int64_t>(elements(slice.getSource()), 1));
  Type element = cast<ShapedType>(value.getType()).getElementType();
  int64_t bits = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  return double(llvm::divideCeil(elements(value) * (bits == 1 ? 8 : bits), 8));
}

/// Adds what the op computes; bytes are counted at the kernel's border, not here.
void WorkModel::add(Operation *op, KernelWork &work) const {
  if (auto cost = dyn_cast<CostOpInterface>(op)) {
    SmallVector<Sizes> operandSizes, resultSizes;
    for (Value operand : op->getOperands())
      operandSizes.emplace_back(isa<ShapedType>(operand.getType()) ? Sizes(sizes(operand)) : Sizes());
    for (Value result : op->getResults())
      resultSizes.emplace_back(sizes(result));
    Work asked = cost.getWork(operandSizes, resultSizes);
    work.flops += evaluate(asked.flops);
    work.transcendentals += evaluate(asked.transcendentals);
    return;
  }
  if (auto generic = dyn_cast<linalg::LinalgOp>(op)) {
    // The iteration space is the product of the loop ranges; each is a dimension of some operand.
    double points = 1;
    SmallVector<AffineExpr> ranges(generic.getNumLoops());
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      AffineMap map = generic.getMatchingIndexingMap(&operand);
      for (auto [position, expression] : llvm::enumerate(map.getResults()))
        if (auto dim = dyn_cast<AffineDimExpr>(expression))
          ranges[dim.getPosition()] = sizes(operand.get())[position];
    }
    for (AffineExpr range : ranges)
      points *= range ? evaluate(range) : 1;
    for (Operation &inner : generic.getBlock()->without_terminator()) {
      if (isTranscendental(&inner))
        work.transcendentals += points;
      else
        work.flops += points;
    }
    return;
  }
  if (op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 &&
      isa<RankedTensorType>(op->getResult(0).getType())) {
    double points = double(elements(op->getResult(0)));
    (isTranscendental(op) ? work.transcendentals : work.flops) += points;
  }
}

/// Returns true for a state of the function, such as a cache, or its next value.
static bool isState(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto group = dyn_cast<nn::GroupOp>(parent))
      return isState(group.getInputs()[argument.getArgNumber()]);
    auto function = dyn_cast<FunctionOpInterface>(parent);
    return function && function.getArgAttr(argument.getArgNumber(), "nn.state");
  }
  return isa<InPlaceOpInterface>(value.getDefiningOp());
}

/// Returns the bytes that an op in place is given to update its states with; no more of these is read or written.
static double updateBytes(const WorkModel &model, InPlaceOpInterface op) {
  llvm::SmallPtrSet<OpOperand *, 4> updated;
  for (unsigned result = 0; result < op->getNumResults(); ++result)
    updated.insert(&op.getUpdatedOperand(result));
  double bytes = 0;
  for (OpOperand &operand : op->getOpOperands())
    if (!updated.contains(&operand) && isa<RankedTensorType>(operand.get().getType()))
      bytes += model.bytes(operand.get());
  return bytes;
}

KernelWork WorkModel::work(KernelRoot root, ArrayRef<Operation *> ops) const {
  KernelWork work;
  work.root = root;
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  llvm::SmallDenseMap<Value, double> read; // bytes of each outside value that are actually read
  double written = 0;
  bool hasProduct = llvm::any_of(ops, [](Operation *op) {
    auto contraction = dyn_cast<ContractionOpInterface>(op);
    return contraction && contraction.givesSums();
  });
  for (Operation *op : ops)
    // Linears that share an input are one product; other pairs are not described and cost what their flops do.
    if (std::optional<MatrixWork> found = matrixWork(op)) {
      if (work.matrix && !work.matrix->addColumns(*found)) {
        work.matrix = std::nullopt;
        break;
      }
      if (!work.matrix)
        work.matrix = found;
    }
  for (Operation *op : ops) {
    double flopsBefore = work.flops;
    add(op, work);
    // The finish has tiles and a rate of its own: its operations do not count as the product's.
    if (hasProduct && isa<RowwiseOpInterface>(op)) {
      work.finishElements += double(elements(op->getResult(0)));
      work.flops = flopsBefore;
    }
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (!isa<RankedTensorType>(value.getType()) || isa<tensor::DimOp>(op) || value.getDefiningOp<tensor::EmptyOp>() ||
          (value.getDefiningOp() && inside.contains(value.getDefiningOp())))
        continue;
      SplatElementsAttr splat;
      if (matchPattern(value, m_Constant(&splat)))
        continue;
      double bytes = this->bytes(value);
      // A lookup in a table, or a slice, reads only the requested rows.
      auto stored = dyn_cast<StoredOperandOpInterface>(op);
      bool isTable = stored && stored.getStoredOperand(operand.getOperandNumber()) == StoredOperand::Table;
      if (isTable || isa<tensor::ExtractSliceOp>(op))
        bytes = std::min(bytes, this->bytes(op->getResult(0)));
      if (isa<InPlaceOpInterface>(op))
        bytes = std::min(bytes, updateBytes(*this, cast<InPlaceOpInterface>(op)));
      double &most = read[value];
      most = std::max(most, bytes);
    }
    for (Value result : op->getResults()) {
      bool leaves = llvm::any_of(result.getUsers(),
                                 [&](Operation *user) { return !inside.contains(user) && !isa<tensor::DimOp>(user); });
      if (leaves && isa<RankedTensorType>(result.getType()))
        written += isa<InPlaceOpInterface>(op)
                       ? std::min(bytes(result), updateBytes(*this, cast<InPlaceOpInterface>(op)))
                       : bytes(result);
    }
  }
  work.activationBytes = written;
  for (auto &[value, bytes] : read)
    // States are read once a call from memory, as weights are.
    (isCompileTime(value) || isState(value) ? work.weightBytes : work.activationBytes) += bytes;
  return work;
}
