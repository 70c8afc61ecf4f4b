//===- TensorArithmetic.cpp - Elements of elementwise and linalg ops ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/TensorEmitter.h"
#include "lib/Target/CPU/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::cpu {

//===-- Elementwise -------------------------------------------------------------------------------------------===//

Value TensorEmitter::emitElementwise(Operation *op, ArrayRef<Value> operands, int64_t width) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  Type type = vectorOf(computeType(element), width);
  Value x = operands.empty() ? Value() : operands[0];

  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    if (auto value = dyn_cast<FloatAttr>(constantOp.getValue()))
      return floatConstant(value.getValueAsDouble(), computeType(element), width);
    Value scalar = arith::ConstantOp::create(
        b, loc, b.getIntegerAttr(computeType(element), cast<IntegerAttr>(constantOp.getValue()).getInt()));
    return splat(scalar, width);
  }
  // Ops that upstream would send to libm, and casts whose types differ once everything narrow is computed in f32.
  if (isa<math::ExpOp, math::ErfOp, math::TanhOp, math::LogOp, math::SinOp, math::CosOp, math::RsqrtOp>(op) &&
      element.isF64()) {
    (void)unsupported(
        op, "its polynomials are for f32; cast to f32 before it and back after it (arith.truncf, arith.extf)");
    return nullptr;
  }
  if (isa<math::FloorOp, math::CeilOp, math::TruncOp, math::RoundEvenOp>(op) && !config.rounds) {
    (void)unsupported(op,
                      "a variant for processors without SSE4.1 has no instruction for it; add +sse4.1 to the target or "
                      "compile for cpu:x86-64-v2 or newer");
    return nullptr;
  }
  if (isa<arith::RemFOp>(op)) {
    (void)unsupported(op,
                      "processors have no instruction for the remainder of floats; compute it as a - b * trunc(a / b)");
    return nullptr;
  }
  if (isa<math::ExpOp>(op))
    return emitExp(b, loc, x);
  if (isa<math::ErfOp>(op))
    return emitErf(b, loc, x);
  if (isa<math::TanhOp>(op))
    return emitTanh(b, loc, x);
  if (isa<math::LogOp>(op))
    return emitLog(b, loc, x);
  if (isa<math::SinOp>(op))
    return emitSin(b, loc, x);
  if (isa<math::CosOp>(op))
    return emitCos(b, loc, x);
  if (isa<math::RsqrtOp>(op))
    return emitRsqrt(b, loc, x);
  if (isa<math::MathDialect>(op->getDialect()) &&
      !isa<math::SqrtOp, math::AbsFOp, math::AbsIOp, math::FmaOp, math::FloorOp, math::CeilOp, math::RoundEvenOp,
           math::TruncOp, math::CopySignOp>(op)) {
    (void)unsupported(op, "the cpu target has no polynomial for it");
    return nullptr;
  }
  if (isa<arith::ExtFOp>(op))
    return x.getType() == type ? x : arith::ExtFOp::create(b, loc, type, x).getResult();
  if (isa<arith::TruncFOp>(op)) {
    if (element != computeType(element) && getElementTypeOrSelf(op->getOperand(0).getType()).isF64()) {
      (void)unsupported(op,
                        "processors have no instruction from f64 to floats narrower than f32; cast to f32 first, which "
                        "rounds a second time");
      return nullptr;
    }
    if (element != computeType(element))
      return widen(narrow(x, element, width), computeType(element), width);
    return x.getType() == type ? x : arith::TruncFOp::create(b, loc, type, x).getResult();
  }
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
    unsigned from = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
    unsigned to = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
    if (from == to)
      return x;
    if (from > to)
      return arith::TruncIOp::create(b, loc, type, x);
    if (isa<arith::IndexCastOp>(op))
      return arith::ExtSIOp::create(b, loc, type, x);
    return arith::ExtUIOp::create(b, loc, type, x);
  }

  SmallVector<Value> arguments(operands);
  OperationState state(loc, op->getName());
  if (isa<arith::SelectOp>(op) && width > 1)
    for (Value &argument : arguments)
      if (!isa<VectorType>(argument.getType()))
        argument = splat(argument, width);
  state.addOperands(arguments);
  state.addTypes(type);
  state.attributes = op->getDiscardableAttrDictionary();
  state.propertiesAttr = op->getPropertiesAsAttribute();
  Operation *created = b.create(state);
  return created->getResult(0);
}

SmallVector<Value> TensorEmitter::emitBody(linalg::LinalgOp op, ArrayRef<Value> arguments, ArrayRef<Index> iteration,
                                           int64_t width) {
  DenseMap<Value, Value> values;
  for (auto [argument, value] : llvm::zip(op.getBlock()->getArguments(), arguments))
    values[argument] = value;
  auto lookup = [&](Value value) -> Value {
    if (auto it = values.find(value); it != values.end())
      return it->second;
    // A scalar from outside the body: a constant, or an index that is a function of sizes.
    if (Operation *definition = value.getDefiningOp()) {
      if (isa<arith::ConstantOp>(definition))
        return values[value] = emitElementwise(definition, {}, width);
      if (AffineExpr expression = value.getType().isIndex() ? sizes.ofIndex(value) : AffineExpr())
        return values[value] = splat(size(expression), width);
      (void)unsupported(definition, "a scalar that is no constant");
    }
    return values[value] = arith::ConstantOp::create(
               b, loc, b.getZeroAttr(vectorOf(computeType(getElementTypeOrSelf(value.getType())), width)));
  };
  for (Operation &inner : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      const Index &at = iteration[index.getDim()];
      Value value = splat(at.base, width);
      if (at.lane && width > 1) {
        SmallVector<int64_t> lanes = llvm::to_vector(llvm::seq<int64_t>(0, width));
        Value iota = arith::ConstantOp::create(b, loc, b.getI64VectorAttr(lanes));
        value = arith::AddIOp::create(b, loc, value, iota);
      }
      values[index.getResult()] = value;
      continue;
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      // Loops and sizes are checked once a call (SizeConstraints.cpp), what comes from data here.
      SmallVector<Value> indices;
      llvm::SmallBitVector isComputed(extract.getIndices().size());
      for (auto [d, index] : llvm::enumerate(extract.getIndices())) {
        indices.push_back(lookup(index));
        isComputed[d] = !index.getDefiningOp<linalg::IndexOp>() && !sizes.ofIndex(index);
      }
      SmallVector<Value> lanes;
      for (int64_t lane = 0; lane < width; ++lane) {
        Indices at;
        for (Value index : indices)
          at.push_back({width == 1 ? index : vector::ExtractOp::create(b, loc, index, lane).getResult()});
        lanes.push_back(evaluateInside(extract.getTensor(), at, isComputed, 1));
      }
      values[extract.getResult()] =
          width == 1
              ? lanes[0]
              : vector::FromElementsOp::create(b, loc, VectorType::get({width}, lanes[0].getType()), lanes).getResult();
      continue;
    }
    if (inner.getNumResults() != 1 || inner.getNumRegions() != 0) {
      (void)unsupported(&inner, "it stands in the body of a linalg op");
      return SmallVector<Value>(op.getBlock()->getTerminator()->getNumOperands());
    }
    SmallVector<Value> operands;
    for (Value operand : inner.getOperands())
      operands.push_back(lookup(operand));
    values[inner.getResult(0)] = emitElementwise(&inner, operands, width);
  }
  SmallVector<Value> results;
  for (Value value : op.getBlock()->getTerminator()->getOperands())
    results.push_back(lookup(value));
  return results;
}

/// The op that combines the running value with the rest, if the body is `running = op(running, f(inputs))`.
static Operation *reductionCombiner(linalg::LinalgOp op, unsigned result) {
  Value yielded = op.getBlock()->getTerminator()->getOperand(result);
  Operation *combiner = yielded.getDefiningOp();
  BlockArgument running = op.getRegionOutputArgs()[result];
  if (!combiner || combiner->getNumOperands() != 2 || !running.hasOneUse() || *running.getUsers().begin() != combiner)
    return nullptr;
  return isa<arith::AddFOp, arith::MaximumFOp, arith::MaxNumFOp>(combiner) ? combiner : nullptr;
}

/// Returns the size of a loop from the first operand that has it.
AffineExpr TensorEmitter::sizeOfLoop(linalg::LinalgOp op, unsigned loop) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [d, expression] : llvm::enumerate(map.getResults()))
      if (expression == getAffineDimExpr(loop, b.getContext()))
        return sizes.of(operand.get())[d];
  }
  (void)unsupported(op, "a loop whose size no operand gives");
  return getAffineConstantExpr(1, b.getContext());
}

/// Returns a vector of an operand where the loops have the indices `loops`.
Value TensorEmitter::evaluateOperand(linalg::LinalgOp op, OpOperand &operand, ArrayRef<Index> loops, int64_t lanes) {
  if (!isa<RankedTensorType>(operand.get().getType())) {
    if (Operation *definition = operand.get().getDefiningOp(); definition && isa<arith::ConstantOp>(definition))
      return emitElementwise(definition, {}, lanes);
    (void)unsupported(op, "a scalar operand that is no constant");
    return nullptr;
  }
  AffineMap map = op.getMatchingIndexingMap(&operand);
  Indices indices;
  for (AffineExpr expression : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expression)) {
      indices.push_back(loops[dim.getPosition()]);
    } else if (auto value = dyn_cast<AffineConstantExpr>(expression)) {
      indices.push_back({constant(value.getValue())});
    } else {
      (void)unsupported(op, "an indexing map with arithmetic");
      indices.push_back({constant(0)});
    }
  }
  return evaluate(operand.get(), indices, lanes);
}

Value TensorEmitter::evaluateLinalg(linalg::LinalgOp op, Value tensor, ArrayRef<Index> at, int64_t width) {
  unsigned result = cast<OpResult>(tensor).getResultNumber();
  OpOperand *init = op.getDpsInitOperand(result);
  AffineMap outputMap = op.getMatchingIndexingMap(init);
  if (!outputMap.isProjectedPermutation()) {
    (void)unsupported(op, "its result is written through a map that is no permutation");
    return nullptr;
  }
  Indices iteration(op.getNumLoops(), Index{constant(0)});
  for (auto [d, expression] : llvm::enumerate(outputMap.getResults()))
    iteration[cast<AffineDimExpr>(expression).getPosition()] = at[d];

  // Sizes of the loops that are summed over.
  SmallVector<unsigned> reductions;
  for (auto [d, type] : llvm::enumerate(op.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      reductions.push_back(d);
  auto bodyAt = [&](ArrayRef<Index> loops, ValueRange running, int64_t lanes) {
    SmallVector<Value> arguments;
    for (OpOperand *operand : op.getDpsInputOperands())
      arguments.push_back(evaluateOperand(op, *operand, loops, lanes));
    for (unsigned i = 0; i < static_cast<unsigned>(op.getNumDpsInits()); ++i) {
      OpOperand *other = op.getDpsInitOperand(i);
      if (i == result && !running.empty())
        arguments.push_back(running[0]);
      else if (!op.payloadUsesValueFromOperand(other))
        arguments.push_back(Value());
      else
        arguments.push_back(evaluateOperand(op, *other, loops, lanes));
    }
    return emitBody(op, arguments, loops, lanes)[result];
  };

  if (reductions.empty())
    return bodyAt(iteration, {}, width);
  if (op.getNumDpsInits() != 1) {
    (void)unsupported(op, "a reduction with several results");
    return nullptr;
  }
  Value start = evaluateOperand(op, *init, iteration, width);

  // One scalar along one dimension: the lanes run along what is reduced.
  if (Operation *combiner = reductionCombiner(op, result); combiner && width == 1 && reductions.size() == 1) {
    bool maximum = !isa<arith::AddFOp>(combiner);
    Type type = start.getType();
    Value partial = reduce(size(sizeOfLoop(op, reductions[0])), maximum, type, [&](Value i, int64_t lanes) {
      Indices loops(iteration);
      loops[reductions[0]] = {i, true};
      Value neutral = floatConstant(maximum ? -std::numeric_limits<double>::infinity() : 0.0, type, lanes);
      return bodyAt(loops, neutral, lanes);
    });
    if (maximum)
      return arith::MaximumFOp::create(b, loc, start, partial);
    return arith::AddFOp::create(b, loc, start, partial);
  }

  std::function<Value(unsigned, Value, Indices)> nest = [&](unsigned depth, Value running, Indices loops) -> Value {
    if (depth == reductions.size())
      return bodyAt(loops, running, width);
    return forLoop(constant(0), size(sizeOfLoop(op, reductions[depth])), constant(1), running,
                   [&](Value iv, ValueRange carried) {
                     Indices inner(loops);
                     inner[reductions[depth]] = {iv};
                     return SmallVector<Value>{nest(depth + 1, carried[0], inner)};
                   })[0];
  };
  return nest(0, start, iteration);
}

Value TensorEmitter::integerAt(Value tensor, ArrayRef<Index> at) {
  Value value = evaluate(tensor, at, 1);
  return value.getType().isInteger(64) ? value : arith::ExtSIOp::create(b, loc, b.getI64Type(), value).getResult();
}

} // namespace intarsia::cpu
