//===- LinalgEmitter.cpp - Elements of linalg ops ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/LinalgEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {

Element LinalgEmitter::evaluateInside(Value tensor, ArrayRef<Index> at, const llvm::SmallBitVector &isComputed,
                                      int64_t width) {
  if (isComputed.none())
    return evaluate(tensor, at, width);
  Value isInside;
  for (unsigned d : isComputed.set_bits()) {
    Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at[d].base, size(sizes.of(tensor)[d]));
    isInside = isInside ? arith::AndIOp::create(b, loc, isInside, here).getResult() : here;
  }
  Indices inside(at.begin(), at.end());
  for (unsigned d : isComputed.set_bits())
    inside[d].base = arith::SelectOp::create(b, loc, isInside, at[d].base, constant(0));
  Element element = evaluate(tensor, inside, width);
  if (failed(element))
    return failure();
  Type type = getElementTypeOrSelf(element->getType());
  Value outside;
  if (isa<FloatType>(type))
    outside = floatConstant(std::numeric_limits<double>::quiet_NaN(), type, width);
  else
    outside = splat(arith::ConstantOp::create(
                        b, loc, b.getIntegerAttr(type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth()))),
                    width);
  return arith::SelectOp::create(b, loc, isInside, *element, outside).getResult();
}

FailureOr<SmallVector<Value>> LinalgEmitter::emitBody(linalg::LinalgOp op, ArrayRef<Value> arguments,
                                                      ArrayRef<Index> iteration, int64_t width) {
  DenseMap<Value, Value> values;
  for (auto [argument, value] : llvm::zip(op.getBlock()->getArguments(), arguments))
    values[argument] = value;
  for (Operation &inner : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      values[index.getResult()] = emitIndex(iteration[index.getDim()], width);
      continue;
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      Element element = emitExtract(extract, values, width);
      if (failed(element))
        return failure();
      values[extract.getResult()] = *element;
      continue;
    }
    if (inner.getNumResults() != 1 || inner.getNumRegions() != 0)
      return unsupported(&inner, "it stands in the body of a linalg op");
    FailureOr<SmallVector<Value>> operands = valuesOf(inner.getOperands(), values, width);
    if (failed(operands))
      return failure();
    Element element = emitElementwise(&inner, *operands, width);
    if (failed(element))
      return failure();
    values[inner.getResult(0)] = *element;
  }
  return valuesOf(op.getBlock()->getTerminator()->getOperands(), values, width);
}

/// Returns what values of a body were emitted as. Scalars from outside of it are constants, or indices that are
/// functions of sizes.
FailureOr<SmallVector<Value>> LinalgEmitter::valuesOf(ValueRange range, BodyValues &values, int64_t width) {
  SmallVector<Value> result;
  for (Value value : range) {
    if (auto it = values.find(value); it != values.end()) {
      result.push_back(it->second);
      continue;
    }
    Operation *definition = value.getDefiningOp();
    if (definition && isa<arith::ConstantOp>(definition)) {
      Element element = emitElementwise(definition, {}, width);
      if (failed(element))
        return failure();
      values[value] = *element;
    } else if (value.getType().isIndex() && isKnown(sizes.ofIndex(value))) {
      values[value] = splat(size(sizes.ofIndex(value)), width);
    } else {
      return unsupported(definition ? definition : kernel.getOperation(), "a scalar that is no constant");
    }
    result.push_back(values[value]);
  }
  return result;
}

/// Emits the indices of a loop's iterations.
Value LinalgEmitter::emitIndex(const Index &at, int64_t width) {
  Value value = splat(at.base, width);
  if (!at.lane || width == 1)
    return value;
  SmallVector<int64_t> lanes = llvm::to_vector(llvm::seq<int64_t>(0, width));
  Value iota = arith::ConstantOp::create(b, loc, b.getI64VectorAttr(lanes));
  return arith::AddIOp::create(b, loc, value, iota);
}

/// Emits elements of a tensor at indices of the body, lane by lane.
Element LinalgEmitter::emitExtract(tensor::ExtractOp extract, BodyValues &values, int64_t width) {
  // Loops and sizes are checked once a call (SizeConstraints.cpp), what comes from data here.
  FailureOr<SmallVector<Value>> indices = valuesOf(extract.getIndices(), values, width);
  if (failed(indices))
    return failure();
  llvm::SmallBitVector isComputed(indices->size());
  for (auto [d, index] : llvm::enumerate(extract.getIndices()))
    isComputed[d] = !index.getDefiningOp<linalg::IndexOp>() && !sizes.ofIndex(index);
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < width; ++lane) {
    Indices at;
    for (Value index : *indices)
      at.push_back({width == 1 ? index : vector::ExtractOp::create(b, loc, index, lane).getResult()});
    Element element = evaluateInside(extract.getTensor(), at, isComputed, 1);
    if (failed(element))
      return failure();
    lanes.push_back(*element);
  }
  if (width == 1)
    return lanes[0];
  return vector::FromElementsOp::create(b, loc, VectorType::get({width}, lanes[0].getType()), lanes).getResult();
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
FailureOr<AffineExpr> LinalgEmitter::sizeOfLoop(linalg::LinalgOp op, unsigned loop) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [d, expression] : llvm::enumerate(map.getResults()))
      if (expression == getAffineDimExpr(loop, b.getContext()))
        return sizes.of(operand.get())[d];
  }
  return unsupported(op, "a loop whose size no operand gives");
}

/// Returns a vector of an operand where the loops have the indices `loops`.
Element LinalgEmitter::evaluateOperand(linalg::LinalgOp op, OpOperand &operand, ArrayRef<Index> loops, int64_t lanes) {
  if (!isa<RankedTensorType>(operand.get().getType())) {
    if (Operation *definition = operand.get().getDefiningOp(); definition && isa<arith::ConstantOp>(definition))
      return emitElementwise(definition, {}, lanes);
    return unsupported(op, "a scalar operand that is no constant");
  }
  AffineMap map = op.getMatchingIndexingMap(&operand);
  Indices indices;
  for (AffineExpr expression : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expression))
      indices.push_back(loops[dim.getPosition()]);
    else if (auto value = dyn_cast<AffineConstantExpr>(expression))
      indices.push_back({constant(value.getValue())});
    else
      return unsupported(op, "an indexing map with arithmetic");
  }
  return evaluate(operand.get(), indices, lanes);
}

Element LinalgEmitter::evaluateLinalg(linalg::LinalgOp op, Value tensor, ArrayRef<Index> at, int64_t width) {
  unsigned result = cast<OpResult>(tensor).getResultNumber();
  OpOperand *init = op.getDpsInitOperand(result);
  AffineMap outputMap = op.getMatchingIndexingMap(init);
  if (!outputMap.isProjectedPermutation())
    return unsupported(op, "its result is written through a map that is no permutation");
  Indices iteration(op.getNumLoops(), Index{constant(0)});
  for (auto [d, expression] : llvm::enumerate(outputMap.getResults()))
    iteration[cast<AffineDimExpr>(expression).getPosition()] = at[d];

  // Sizes of the loops that are summed over.
  SmallVector<unsigned> reductions;
  for (auto [d, type] : llvm::enumerate(op.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      reductions.push_back(d);
  if (reductions.empty())
    return evaluateBody(op, result, iteration, {}, width);
  if (op.getNumDpsInits() != 1)
    return unsupported(op, "a reduction with several results");
  Element start = evaluateOperand(op, *init, iteration, width);
  if (failed(start))
    return failure();
  // One scalar along one dimension: the lanes run along what is reduced.
  if (Operation *combiner = reductionCombiner(op, result); combiner && width == 1 && reductions.size() == 1)
    return reduceAlongLanes(op, *start, iteration, reductions[0], !isa<arith::AddFOp>(combiner));
  return reduceInLoops(op, *start, iteration, reductions, width);
}

/// Returns a result of the body at an iteration, with `running` for a result that is reduced.
Element LinalgEmitter::evaluateBody(linalg::LinalgOp op, unsigned result, ArrayRef<Index> loops, ValueRange running,
                                    int64_t lanes) {
  SmallVector<Value> arguments;
  auto push = [&](OpOperand &operand) -> LogicalResult {
    Element element = evaluateOperand(op, operand, loops, lanes);
    if (succeeded(element))
      arguments.push_back(*element);
    return element;
  };
  for (OpOperand *operand : op.getDpsInputOperands())
    if (failed(push(*operand)))
      return failure();
  for (unsigned i = 0; i < static_cast<unsigned>(op.getNumDpsInits()); ++i) {
    OpOperand *other = op.getDpsInitOperand(i);
    if (i == result && !running.empty())
      arguments.push_back(running[0]);
    else if (!op.payloadUsesValueFromOperand(other))
      arguments.push_back(Value());
    else if (failed(push(*other)))
      return failure();
  }
  FailureOr<SmallVector<Value>> yielded = emitBody(op, arguments, loops, lanes);
  if (failed(yielded))
    return failure();
  return (*yielded)[result];
}

/// Reduces along one loop to a scalar.
Element LinalgEmitter::reduceAlongLanes(linalg::LinalgOp op, Value start, ArrayRef<Index> iteration, unsigned loop,
                                        bool maximum) {
  Type type = start.getType();
  FailureOr<AffineExpr> extent = sizeOfLoop(op, loop);
  if (failed(extent))
    return failure();
  Element partial = reduce(size(*extent), maximum, type, [&](Value i, int64_t lanes) {
    Indices loops(iteration);
    loops[loop] = {i, true};
    Value neutral = floatConstant(maximum ? -std::numeric_limits<double>::infinity() : 0.0, type, lanes);
    return evaluateBody(op, 0, loops, neutral, lanes);
  });
  if (failed(partial))
    return failure();
  if (maximum)
    return arith::MaximumFOp::create(b, loc, start, *partial).getResult();
  return arith::AddFOp::create(b, loc, start, *partial).getResult();
}

/// Reduces along all `reductions`, one loop in the other.
Element LinalgEmitter::reduceInLoops(linalg::LinalgOp op, Value running, ArrayRef<Index> loops,
                                     ArrayRef<unsigned> reductions, int64_t width) {
  if (reductions.empty())
    return evaluateBody(op, 0, loops, running, width);
  FailureOr<AffineExpr> extent = sizeOfLoop(op, reductions.front());
  if (failed(extent))
    return failure();
  auto result = forLoop(constant(0), size(*extent), constant(1), running,
                        [&](Value iv, ValueRange carried) -> FailureOr<SmallVector<Value>> {
                          Indices inner(loops);
                          inner[reductions.front()] = {iv};
                          Element next = reduceInLoops(op, carried[0], inner, reductions.drop_front(), width);
                          if (failed(next))
                            return failure();
                          return SmallVector<Value>{*next};
                        });
  if (failed(result))
    return failure();
  return (*result)[0];
}

} // namespace intarsia::kernel
