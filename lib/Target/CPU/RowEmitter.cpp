//===- RowEmitter.cpp - What the elements of a row share: norms, softmax, reductions ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/RowEmitter.h"
#include "lib/Target/CPU/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::cpu {

void RowEmitter::prepareNorm(Operation *op, const RowScope &row) {
  Value input = op->getOperand(0);
  AffineExpr featureSize = sizes.of(input).back();
  Value features = size(featureSize);
  Type f32 = b.getF32Type();
  auto at = [&](Value i) {
    Indices indices;
    for (Value prefix : row.prefix)
      indices.push_back({prefix});
    indices.push_back({i, true});
    return indices;
  };
  // The row is read several times: computed once into scratch, unless it lies in memory as f32 already.
  auto inMemory = storage.find(input);
  bool direct = inMemory != storage.end() && inMemory->second.elementType.isF32();
  Value scratchRow;
  if (!direct)
    scratchRow = scratch(featureSize * 4);
  auto element = [&](Value i, int64_t width) -> Value {
    if (direct)
      return evaluate(input, at(i), width);
    return loadAt(scratchRow, i, f32, width);
  };
  auto first = [&](Value i, int64_t width) -> Value {
    Value x = evaluate(input, at(i), width);
    if (!direct)
      storeAt(x, scratchRow, i, f32, width);
    return x;
  };
  Value scalarFeatures = arith::UIToFPOp::create(b, loc, f32, features);

  if (auto softmax = dyn_cast<nn::SoftmaxOp>(op)) {
    if (direct)
      scratchRow = scratch(featureSize * 4);
    Value largest = reduce(features, true, f32, first);
    // A row of -inf: exp(-inf - 0) gives zeros, and so does their quotient by a sum that is kept from zero.
    Value lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, 1);
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, largest, lowest);
    largest = arith::SelectOp::create(b, loc, none, floatConstant(0.0, f32, 1), largest);
    Value sum = reduce(features, false, f32, [&](Value i, int64_t width) -> Value {
      Value shifted = arith::SubFOp::create(b, loc, element(i, width), splat(largest, width));
      Value e = emitExpNonPositive(b, loc, shifted);
      storeAt(e, scratchRow, i, f32, width);
      return e;
    });
    Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, sum, floatConstant(0.0, f32, 1));
    sum = arith::SelectOp::create(b, loc, isZero, floatConstant(1.0, f32, 1), sum);
    Value inverse = arith::DivFOp::create(b, loc, floatConstant(1.0, f32, 1), sum);
    bound[softmax.getResult()] = [=, this](ArrayRef<Index> indices, int64_t width) -> Value {
      return arith::MulFOp::create(b, loc, loadAt(scratchRow, indices.back().base, b.getF32Type(), width),
                                   splat(inverse, width));
    };
    return;
  }

  auto layerNorm = dyn_cast<nn::LayerNormOp>(op);
  Value mean;
  if (layerNorm) {
    Value sum = reduce(features, false, f32, first);
    mean = arith::DivFOp::create(b, loc, sum, scalarFeatures);
  }
  Value squares = reduce(features, false, f32, [&](Value i, int64_t width) -> Value {
    Value x = layerNorm ? element(i, width) : first(i, width);
    if (mean)
      x = arith::SubFOp::create(b, loc, x, splat(mean, width));
    return arith::MulFOp::create(b, loc, x, x);
  });
  Value epsilon = floatConstant(
      (layerNorm ? layerNorm.getEpsilon() : cast<nn::RmsNormOp>(op).getEpsilon()).convertToDouble(), f32, 1);
  Value variance = arith::AddFOp::create(b, loc, arith::DivFOp::create(b, loc, squares, scalarFeatures), epsilon);
  Value inverse = emitRsqrt(b, loc, variance);
  Value scale = op->getOperand(1);
  Value bias = layerNorm ? layerNorm.getBias() : Value();
  SmallVector<Value> prefix(row.prefix);
  bound[op->getResult(0)] = [=, this](ArrayRef<Index> indices, int64_t width) -> Value {
    Value x = direct ? evaluate(input, indices, width) : loadAt(scratchRow, indices.back().base, b.getF32Type(), width);
    if (mean)
      x = arith::SubFOp::create(b, loc, x, splat(mean, width));
    x = arith::MulFOp::create(b, loc, x, splat(inverse, width));
    Indices feature{{indices.back().base, true}};
    x = arith::MulFOp::create(b, loc, x, evaluate(scale, feature, width));
    if (bias)
      x = arith::AddFOp::create(b, loc, x, evaluate(bias, feature, width));
    return x;
  };
}

void RowEmitter::prepareRow(const RowScope &row, ArrayRef<Value> roots) {
  // The ops that the roots need are found backwards and prepared in the order of the kernel's body.
  DenseSet<Operation *> needed;
  SmallVector<Value> worklist(roots);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || bound.count(value) || storage.count(value) || !needed.insert(op).second)
      continue;
    llvm::append_range(worklist, op->getOperands());
  }
  for (Operation &op : kernel.getBody().front()) {
    if (!needed.count(&op))
      continue;
    if (isa<RowwiseOpInterface>(op)) {
      ArrayRef<AffineExpr> extents = sizes.of(op.getResult(0));
      if (extents.drop_back() != ArrayRef<AffineExpr>(row.sizes)) {
        (void)unsupported(&op, "its rows are not the rows of the kernel's result");
        return;
      }
      prepareNorm(&op, row);
      continue;
    }
    // A reduction that is the same for the whole row is computed once.
    auto reduction = dyn_cast<linalg::LinalgOp>(op);
    if (!reduction || reduction.getNumReductionLoops() == 0 || op.getNumResults() != 1)
      continue;
    ArrayRef<AffineExpr> extents = sizes.of(op.getResult(0));
    if (extents.size() > row.sizes.size() || extents != ArrayRef<AffineExpr>(row.sizes).take_front(extents.size()))
      continue;
    Indices at;
    for (Value prefix : ArrayRef(row.prefix).take_front(extents.size()))
      at.push_back({prefix});
    evaluate(op.getResult(0), at, 1); // remembered for the row
  }
}

void RowEmitter::emitRow(const RowScope &row, ArrayRef<unsigned> indices) {
  auto savedBound = bound;
  const RowScope *savedRow = currentRow;
  currentRow = &row;
  SmallVector<Value> roots;
  for (unsigned i : indices)
    roots.push_back(yielded(i));
  prepareRow(row, roots);
  auto at = [&](Value i) {
    Indices result;
    for (Value prefix : row.prefix)
      result.push_back({prefix});
    result.push_back({i, true});
    return result;
  };
  // Outputs of one length are computed together: what they share is computed once.
  SmallVector<unsigned> rest(indices.begin(), indices.end());
  while (!rest.empty()) {
    AffineExpr length = sizes.of(yielded(rest.front())).back();
    SmallVector<unsigned> together, others;
    for (unsigned i : rest)
      (sizes.of(yielded(i)).back() == length ? together : others).push_back(i);
    vectorLoop(size(length), [&](Value i, int64_t width) {
      memo.emplace_back();
      for (unsigned output : together)
        store(evaluate(yielded(output), at(i), width), outputs[output], at(i), width);
      memo.pop_back();
    });
    rest = others;
  }
  currentRow = savedRow;
  bound = savedBound;
}

} // namespace intarsia::cpu
