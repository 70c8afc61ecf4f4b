//===- LinalgEmitter.cpp - Elements of linalg ops ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/LinalgEmitter.h"

#include "lib/Kernel/TensorEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {

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
      return body.refuse(&inner, "it stands in the body of a linalg op");
    FailureOr<SmallVector<Value>> operands = valuesOf(inner.getOperands(), values, width);
    if (failed(operands))
      return failure();
    Element element = arithmetic.emitElementwise(&inner, *operands, width);
    if (failed(element))
      return failure();
    values[inner.getResult(0)] = *element;
  }
  return valuesOf(op.getBlock()->getTerminator()->getOperands(), values, width);
}

/// Returns what values of a body were emitted as. Scalars from outside of it are constants, indices that are functions
/// of sizes, and what is computed from those.
FailureOr<SmallVector<Value>> LinalgEmitter::valuesOf(ValueRange range, BodyValues &values, int64_t width) {
  SmallVector<Value> result;
  for (Value value : range) {
    if (auto it = values.find(value); it != values.end()) {
      result.push_back(it->second);
      continue;
    }
    Operation *definition = value.getDefiningOp();
    if (definition && isa<arith::ConstantOp>(definition)) {
      Element element = arithmetic.emitElementwise(definition, {}, width);
      if (failed(element))
        return failure();
      values[value] = *element;
    } else if (value.getType().isIndex() && body.isKnown(body.sizes.ofIndex(value))) {
      values[value] = splat(body.size(body.sizes.ofIndex(value)), width);
    } else if (definition && OpTrait::hasElementwiseMappableTraits(definition) && definition->getNumResults() == 1) {
      FailureOr<SmallVector<Value>> operands = valuesOf(definition->getOperands(), values, width);
      Element element =
          failed(operands) ? Element(failure()) : arithmetic.emitElementwise(definition, *operands, width);
      if (failed(element))
        return failure();
      values[value] = *element;
    } else {
      return body.refuse(definition ? definition : body.kernel.getOperation(), "a scalar that is no constant");
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
    isComputed[d] = !index.getDefiningOp<linalg::IndexOp>() && !body.sizes.ofIndex(index);
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < width; ++lane) {
    Indices at;
    for (Value index : *indices)
      at.push_back({width == 1 ? index : vector::ExtractOp::create(b, loc, index, lane).getResult()});
    Element element = tensors.evaluateInside(extract.getTensor(), at, isComputed, 1);
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
  return isa<arith::AddFOp, arith::MaximumFOp>(combiner) ? combiner : nullptr;
}

/// Returns the size of a loop from the first operand that has it.
FailureOr<AffineExpr> LinalgEmitter::sizeOfLoop(linalg::LinalgOp op, unsigned loop) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [d, expression] : llvm::enumerate(map.getResults()))
      if (expression == getAffineDimExpr(loop, b.getContext()))
        return body.sizes.of(operand.get())[d];
  }
  return body.refuse(op, "a loop whose size no operand gives");
}

/// Returns what an indexing map has for a dimension. Lanes stay where they are neighbours, that is where the loop along
/// which they run is added once; without a base if they are not neighbours.
FailureOr<Index> LinalgEmitter::evaluateIndex(linalg::LinalgOp op, AffineExpr expression, ArrayRef<Index> loops) {
  if (auto dim = dyn_cast<AffineDimExpr>(expression))
    return loops[dim.getPosition()];
  if (auto value = dyn_cast<AffineConstantExpr>(expression))
    return Index{constant(value.getValue())};
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary || (binary.getKind() != AffineExprKind::Add && binary.getKind() != AffineExprKind::Mul))
    return body.refuse(op, "an indexing map with a symbol or a division");
  FailureOr<Index> left = evaluateIndex(op, binary.getLHS(), loops), right = evaluateIndex(op, binary.getRHS(), loops);
  if (failed(left) || failed(right))
    return failure();
  bool isSum = binary.getKind() == AffineExprKind::Add;
  if (!left->base || !right->base)
    return Index{nullptr};
  if (isSum ? left->lane && right->lane : left->lane || right->lane)
    return Index{nullptr};
  return Index{isSum ? add(left->base, right->base) : mul(left->base, right->base), left->lane || right->lane};
}

/// Returns a vector of an operand where the loops have the indices `loops`.
Element LinalgEmitter::evaluateOperand(linalg::LinalgOp op, OpOperand &operand, ArrayRef<Index> loops, int64_t lanes) {
  if (!isa<RankedTensorType>(operand.get().getType())) {
    if (Operation *definition = operand.get().getDefiningOp(); definition && isa<arith::ConstantOp>(definition))
      return arithmetic.emitElementwise(definition, {}, lanes);
    return body.refuse(op, "a scalar operand that is no constant");
  }
  AffineMap map = op.getMatchingIndexingMap(&operand);
  Indices indices;
  for (AffineExpr expression : map.getResults()) {
    FailureOr<Index> index = evaluateIndex(op, expression, loops);
    if (failed(index))
      return failure();
    if (index->base) {
      indices.push_back(*index);
      continue;
    }
    // Lanes that lie apart are read one after the other.
    SmallVector<Value> elements;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Indices one(loops);
      for (Index &loop : one)
        loop = {loop.lane ? add(loop.base, constant(lane)) : loop.base};
      Element element = evaluateOperand(op, operand, one, 1);
      if (failed(element))
        return failure();
      elements.push_back(*element);
    }
    if (lanes == 1)
      return elements[0];
    return vector::FromElementsOp::create(b, loc, VectorType::get({lanes}, elements[0].getType()), elements)
        .getResult();
  }
  return tensors.evaluate(operand.get(), indices, lanes);
}

Element LinalgEmitter::evaluateLinalg(linalg::LinalgOp op, Value tensor, ArrayRef<Index> at, int64_t width) {
  unsigned result = cast<OpResult>(tensor).getResultNumber();
  OpOperand *init = op.getDpsInitOperand(result);
  AffineMap outputMap = op.getMatchingIndexingMap(init);
  if (!outputMap.isProjectedPermutation())
    return body.refuse(op, "its result is written through a map that is no permutation");
  Indices iteration(op.getNumLoops(), Index{constant(0)});
  for (auto [d, expression] : llvm::enumerate(outputMap.getResults()))
    iteration[cast<AffineDimExpr>(expression).getPosition()] = at[d];

  // Sizes of the loops that are summed over.
  SmallVector<unsigned> reductions;
  for (auto [d, type] : llvm::enumerate(op.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      reductions.push_back(d);
  if (reductions.empty()) {
    Elements results = evaluateBody(op, iteration, {}, width);
    return failed(results) ? Element(failure()) : (*results)[result];
  }
  SmallVector<Value> starts;
  for (OpOperand &other : op.getDpsInitsMutable()) {
    if (op.getMatchingIndexingMap(&other) != outputMap)
      return body.refuse(op, "a reduction whose results have dimensions in different orders");
    Element start = evaluateOperand(op, other, iteration, width);
    if (failed(start))
      return failure();
    starts.push_back(*start);
  }
  // One scalar along one dimension: the lanes run along what is reduced.
  if (Operation *combiner = reductionCombiner(op, result);
      combiner && width == 1 && reductions.size() == 1 && starts.size() == 1)
    return reduceAlongLanes(op, starts[0], iteration, reductions[0], !isa<arith::AddFOp>(combiner));
  Elements results = reduceInLoops(op, starts, iteration, reductions, width);
  if (failed(results))
    return failure();
  for (auto [other, element] : llvm::zip_equal(op->getResults(), *results))
    tensors.remember(other, at, width, element);
  return (*results)[result];
}

/// Returns the results of the body at an iteration, with `running` for those that are reduced.
LinalgEmitter::Elements LinalgEmitter::evaluateBody(linalg::LinalgOp op, ArrayRef<Index> loops, ValueRange running,
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
    if (!running.empty())
      arguments.push_back(running[i]);
    else if (!op.payloadUsesValueFromOperand(other))
      arguments.push_back(Value());
    else if (failed(push(*other)))
      return failure();
  }
  return emitBody(op, arguments, loops, lanes);
}

/// Reduces along one loop to a scalar.
Element LinalgEmitter::reduceAlongLanes(linalg::LinalgOp op, Value start, ArrayRef<Index> iteration, unsigned loop,
                                        bool maximum) {
  Type type = start.getType();
  FailureOr<AffineExpr> extent = sizeOfLoop(op, loop);
  if (failed(extent))
    return failure();
  Element partial = reduce(body.size(*extent), maximum, type, [&](Value i, int64_t lanes) {
    Indices loops(iteration);
    loops[loop] = {i, true};
    Value neutral = floatConstant(maximum ? -std::numeric_limits<double>::infinity() : 0.0, type, lanes);
    Elements results = evaluateBody(op, loops, neutral, lanes);
    return failed(results) ? Element(failure()) : Element((*results)[0]);
  });
  if (failed(partial))
    return failure();
  if (maximum)
    return arith::MaximumFOp::create(b, loc, start, *partial).getResult();
  return arith::AddFOp::create(b, loc, start, *partial).getResult();
}

/// Reduces along all `reductions`, one loop in the other, all results side by side.
LinalgEmitter::Elements LinalgEmitter::reduceInLoops(linalg::LinalgOp op, ValueRange running, ArrayRef<Index> loops,
                                                     ArrayRef<unsigned> reductions, int64_t width) {
  if (reductions.empty())
    return evaluateBody(op, loops, running, width);
  FailureOr<AffineExpr> extent = sizeOfLoop(op, reductions.front());
  if (failed(extent))
    return failure();
  return forLoop(constant(0), body.size(*extent), constant(1), running, [&](Value iv, ValueRange carried) -> Elements {
    Indices inner(loops);
    inner[reductions.front()] = {iv};
    return reduceInLoops(op, carried, inner, reductions.drop_front(), width);
  });
}

} // namespace intarsia::kernel
