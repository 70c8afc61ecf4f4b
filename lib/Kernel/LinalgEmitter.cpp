//===- LinalgEmitter.cpp - Elements of linalg ops ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/LinalgEmitter.h"
#include "intarsia/Analysis/LoopSizes.h"
#include "lib/Kernel/Reads.h"

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
      Element element = emitExtract(op, extract, values, iteration, width);
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

/// True if a value of a body is not the same in all lanes.
static bool differsByLane(linalg::LinalgOp op, Value value, ArrayRef<Index> iteration) {
  llvm::SetVector<Value> open;
  open.insert(value);
  for (unsigned i = 0; i < open.size(); ++i) {
    if (auto argument = dyn_cast<BlockArgument>(open[i]); argument && argument.getOwner() == op.getBlock()) {
      AffineMap map = op.getMatchingIndexingMap(op.getMatchingOpOperand(argument));
      for (auto [loop, index] : llvm::enumerate(iteration))
        if (index.lane && map.isFunctionOfDim(loop))
          return true;
      continue;
    }
    Operation *definition = open[i].getDefiningOp();
    if (auto index = dyn_cast_or_null<linalg::IndexOp>(definition); index && iteration[index.getDim()].lane)
      return true;
    if (definition && definition->getBlock() == op.getBlock())
      open.insert(definition->operand_begin(), definition->operand_end());
  }
  return false;
}

/// Emits elements of a tensor at indices of the body: neighbours where only the last index runs along the lanes, and is
/// theirs; else each lane at its own address.
Element LinalgEmitter::emitExtract(linalg::LinalgOp op, tensor::ExtractOp extract, BodyValues &values,
                                   ArrayRef<Index> iteration, int64_t width) {
  // Loops and sizes are checked once a call (SizeConstraints.cpp), what comes from data here.
  FailureOr<SmallVector<Value>> indices = valuesOf(extract.getIndices(), values, width);
  if (failed(indices))
    return failure();
  llvm::SmallBitVector isComputed(indices->size());
  for (auto [d, index] : llvm::enumerate(extract.getIndices()))
    isComputed[d] = !index.getDefiningOp<linalg::IndexOp>() && !body.sizes.ofIndex(index);
  auto scalarAt = [&](int64_t lane) {
    Indices at;
    for (Value index : *indices)
      at.push_back({width == 1 ? index : vector::ExtractOp::create(b, loc, index, lane).getResult()});
    return at;
  };
  if (width == 1)
    return tensors.evaluateInside(extract.getTensor(), scalarAt(0), isComputed, 1);
  auto differs = [&](Value index) { return differsByLane(op, index, iteration); };
  if (!indices->empty() && llvm::none_of(extract.getIndices().drop_back(), differs)) {
    Value last = extract.getIndices().back();
    auto loop = last.getDefiningOp<linalg::IndexOp>();
    if (!differs(last) || (loop && loop->getBlock() == op.getBlock())) {
      Indices at = scalarAt(0);
      if (differs(last))
        at.back() = iteration[loop.getDim()];
      return tensors.evaluateInside(extract.getTensor(), at, isComputed, width);
    }
  }
  if (std::optional<Value> gathered = tensors.gatherInside(extract.getTensor(), *indices, isComputed, width))
    return *gathered;
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < width; ++lane) {
    Element element = tensors.evaluateInside(extract.getTensor(), scalarAt(lane), isComputed, 1);
    if (failed(element))
      return failure();
    lanes.push_back(*element);
  }
  return vector::FromElementsOp::create(b, loc, VectorType::get({width}, lanes[0].getType()), lanes).getResult();
}

/// Returns the size of a loop. Fails with a message if no operand gives it.
FailureOr<AffineExpr> LinalgEmitter::sizeOfLoop(linalg::LinalgOp op, unsigned loop) {
  if (AffineExpr size = intarsia::sizeOfLoop(op, loop, body.sizes))
    return size;
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

/// Returns every second, third or fourth element of a tensor in memory, from vectors that overlap by one element, so
/// that nothing behind the last one is read. Fails without a message where lanes lie in another way.
Element LinalgEmitter::evaluateApart(linalg::LinalgOp op, OpOperand &operand, ArrayRef<Index> loops, int64_t lanes) {
  constexpr int64_t largestStep = 4;
  AffineMap map = op.getMatchingIndexingMap(&operand);
  auto lane = llvm::find_if(loops, [](const Index &loop) { return loop.lane; });
  if (lane == loops.end() || !isa<BlockArgument>(operand.get()) || map.getNumResults() == 0)
    return failure();
  unsigned dim = lane - loops.begin();
  AffineExpr last = map.getResults().back(), here = getAffineDimExpr(dim, b.getContext());
  auto step = dyn_cast<AffineConstantExpr>(
      simplifyAffineExpr(last.replace(here, here + 1) - last, map.getNumDims(), map.getNumSymbols()));
  if (!step || step.getValue() < 2 || step.getValue() > std::min(largestStep, lanes - 1) ||
      map.dropResult(map.getNumResults() - 1).isFunctionOfDim(dim))
    return failure();
  Indices first(loops), at;
  first[dim].lane = false;
  for (AffineExpr expression : map.getResults()) {
    FailureOr<Index> index = evaluateIndex(op, expression, first);
    if (failed(index) || !index->base)
      return failure();
    at.push_back(*index);
  }
  Value begin = at.back().base, result;
  for (int64_t part = 0; part != step.getValue(); ++part) {
    at.back() = {add(begin, constant(part * (lanes - 1))), true};
    Element element = tensors.evaluate(operand.get(), at, lanes);
    if (failed(element))
      return failure();
    if (part == 0) {
      result = *element;
      continue;
    }
    // Lane l is element l * step, which the vector has that begins next before it.
    SmallVector<int64_t> mask;
    for (int64_t l = 0; l != lanes; ++l) {
      int64_t wanted = l * step.getValue(), of = std::min(wanted / (lanes - 1), step.getValue() - 1);
      bool isHere = of == part;
      mask.push_back(isHere ? lanes + wanted - part * (lanes - 1) : part == 1 ? wanted % lanes : l);
    }
    result = vector::ShuffleOp::create(b, loc, result, *element, mask);
  }
  return result;
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
    if (Element element = evaluateApart(op, operand, loops, lanes); succeeded(element))
      return element;
    // Other lanes that lie apart are read one after the other.
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

static SmallVector<unsigned> reducedLoops(linalg::LinalgOp op) {
  SmallVector<unsigned> reductions;
  for (auto [d, type] : llvm::enumerate(op.getIteratorTypesArray()))
    if (type == utils::IteratorType::reduction)
      reductions.push_back(d);
  return reductions;
}

/// Returns the loops' indices where a result is written at `at`; 0 for those that are reduced.
FailureOr<Indices> LinalgEmitter::iterationOf(linalg::LinalgOp op, unsigned result, ArrayRef<Index> at) {
  AffineMap written = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  if (!written.isProjectedPermutation())
    return body.refuse(op, "its result is written through a map that is no permutation");
  Indices iteration(op.getNumLoops(), Index{constant(0)});
  for (auto [d, expression] : llvm::enumerate(written.getResults()))
    iteration[cast<AffineDimExpr>(expression).getPosition()] = at[d];
  return iteration;
}

/// Returns what the reductions of an op begin with, for all its results.
LinalgEmitter::Elements LinalgEmitter::startsOf(linalg::LinalgOp op, unsigned result, ArrayRef<Index> iteration,
                                                int64_t width) {
  AffineMap written = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  SmallVector<Value> starts;
  for (OpOperand &other : op.getDpsInitsMutable()) {
    if (op.getMatchingIndexingMap(&other) != written)
      return body.refuse(op, "a reduction whose results have dimensions in different orders");
    Element start = evaluateOperand(op, other, iteration, width);
    if (failed(start))
      return failure();
    starts.push_back(*start);
  }
  return starts;
}

Element LinalgEmitter::evaluateLinalg(linalg::LinalgOp op, Value tensor, ArrayRef<Index> at, int64_t width) {
  unsigned result = cast<OpResult>(tensor).getResultNumber();
  FailureOr<Indices> loops = iterationOf(op, result, at);
  if (failed(loops))
    return failure();
  Indices &iteration = *loops;
  SmallVector<unsigned> reductions = reducedLoops(op);
  if (reductions.empty()) {
    Elements results = evaluateBody(op, iteration, {}, width);
    return failed(results) ? Element(failure()) : (*results)[result];
  }
  Elements initial = startsOf(op, result, iteration, width);
  if (failed(initial))
    return failure();
  SmallVector<Value> &starts = *initial;
  Elements results = failure();
  std::optional<unsigned> inner = width == 1 ? neighbouringReduction(op) : std::nullopt;
  std::optional<SmallVector<Reduction>> combined = reductionsOf(op);
  std::optional<PositionSearch> search = positionSearchOf(op);
  if (width == 1 && combined && (inner || (reductions.size() == 1 && starts.size() == 1))) {
    // A scalar: the lanes run along what is reduced, in the type that elements are computed in.
    for (auto [reduction, start] : llvm::zip_equal(*combined, starts))
      reduction.type = start.getType();
    unsigned loop = inner.value_or(reductions.front()), outermost = loop;
    llvm::erase(reductions, loop);
    FailureOr<AffineExpr> count = sizeOfLoop(op, loop);
    if (failed(count))
      return failure();
    // Loops over what lies one behind the other are one loop.
    while (!reductions.empty() && walkAsOne(op, reductions.back(), outermost)) {
      outermost = reductions.pop_back_val();
      count = *count * *sizeOfLoop(op, outermost);
    }
    results = reduceAlongLanes(op, starts, iteration, reductions, {loop, *count}, *combined);
  } else if (inner && search && code->instructions.lanes > 1) {
    results = findAlongLanes(op, starts, iteration, *inner, *search);
  } else {
    results = reduceInLoops(op, starts, iteration, reductions, width);
  }
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

/// True if two loops may be walked as one: wherever elements are read, those of the inner loop lie behind each other,
/// and behind them those of the next iteration of the outer one.
bool LinalgEmitter::walkAsOne(linalg::LinalgOp op, unsigned outer, unsigned inner) {
  FailureOr<AffineExpr> count = sizeOfLoop(op, inner);
  if (op.hasIndexSemantics() || failed(count) || failed(sizeOfLoop(op, outer)))
    return false;
  return llvm::all_of(op.getDpsInputOperands(), [&](OpOperand *input) {
    AffineMap map = op.getMatchingIndexingMap(input);
    std::optional<unsigned> of;
    for (unsigned d = 0; d != map.getNumResults(); ++d) {
      if (!map.getResult(d).isFunctionOfDim(outer) && !map.getResult(d).isFunctionOfDim(inner))
        continue;
      if (of || d + 1 == map.getNumResults() || map.getResult(d) != getAffineDimExpr(outer, b.getContext()) ||
          map.getResult(d + 1) != getAffineDimExpr(inner, b.getContext()) ||
          body.sizes.of(input->get())[d + 1] != *count)
        return false;
      of = d++;
    }
    return !of || areOneDimension(readsOf(input->get(), body.sizes), *of, body.sizes.of(input->get()), body.sizes);
  });
}

/// Reduces along all loops of `outer`, one in the other, and innermost along `inner`, of which a vector holds
/// neighbouring iterations. Returns scalars.
LinalgEmitter::Elements LinalgEmitter::reduceAlongLanes(linalg::LinalgOp op, ValueRange running, ArrayRef<Index> loops,
                                                        ArrayRef<unsigned> outer, std::pair<unsigned, AffineExpr> inner,
                                                        ArrayRef<Reduction> reductions) {
  if (!outer.empty()) {
    FailureOr<AffineExpr> extent = sizeOfLoop(op, outer.front());
    if (failed(extent))
      return failure();
    return forLoop(constant(0), body.size(*extent), constant(1), running,
                   [&](Value iv, ValueRange carried) -> Elements {
                     Indices next(loops);
                     next[outer.front()] = {iv};
                     return reduceAlongLanes(op, carried, next, outer.drop_front(), inner, reductions);
                   });
  }
  Elements partial =
      code->rowLoops->emitReductions(body.size(inner.second), reductions, [&](Value i, int64_t lanes) -> Elements {
        Indices next(loops);
        next[inner.first] = {i, true};
        // The body alone: what it is combined with changes nothing. Adding -0.0 does not, adding 0.0 makes 0.0 of -0.0.
        SmallVector<Value> nothing = neutral(b, loc, reductions, lanes);
        for (auto [value, reduction] : llvm::zip_equal(nothing, reductions))
          if (reduction.kind == Combination::ADD && isa<FloatType>(reduction.type))
            value = floatConstant(-0.0, reduction.type, lanes);
        return evaluateBody(op, next, nothing, lanes);
      });
  if (failed(partial))
    return failure();
  return combine(b, loc, reductions, running, *partial);
}

/// Finds the largest or smallest element along a loop, and where it is. Returns scalars.
LinalgEmitter::Elements LinalgEmitter::findAlongLanes(linalg::LinalgOp op, ValueRange start, ArrayRef<Index> loops,
                                                      unsigned loop, const PositionSearch &search) {
  FailureOr<AffineExpr> extent = sizeOfLoop(op, loop);
  if (failed(extent))
    return failure();
  Value count = body.size(*extent), lanes = constant(code->instructions.lanes), whole = mul(div(count, lanes), lanes);
  auto find = [&](Value begin, Value end, int64_t width, ValueRange from) {
    return forLoop(begin, end, constant(width), from, [&](Value i, ValueRange running) -> Elements {
      Indices inner(loops);
      inner[loop] = {i, true};
      return evaluateBody(op, inner, running, width);
    });
  };
  SmallVector<Value> splats;
  for (Value value : start)
    splats.push_back(splat(value, code->instructions.lanes));
  Elements ofLanes = find(constant(0), whole, code->instructions.lanes, splats);
  if (failed(ofLanes))
    return failure();
  // Of lanes with the same element the first position counts.
  Reduction ofValues{search.kind, start[search.value].getType()};
  Reduction ofPositions{Combination::MINSI, start[search.position].getType()};
  Value best = combineLanes(b, loc, ofValues, (*ofLanes)[search.value])[0];
  Value hasBest;
  if (isa<FloatType>(best.getType()))
    hasBest = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, (*ofLanes)[search.value],
                                    splat(best, code->instructions.lanes));
  else
    hasBest = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, (*ofLanes)[search.value],
                                    splat(best, code->instructions.lanes));
  Value others = neutral(b, loc, ofPositions, code->instructions.lanes)[0];
  Value candidates = arith::SelectOp::create(b, loc, hasBest, (*ofLanes)[search.position], others);
  SmallVector<Value> found(2);
  found[search.value] = best;
  found[search.position] = combineLanes(b, loc, ofPositions, candidates)[0];
  if (isa<FloatType>(best.getType())) {
    // With a NaN in the row the position depends on the order of the elements.
    Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, best, best);
    Elements inOrder = ifElse(
        isNan, ValueRange(found).getTypes(), [&] { return find(constant(0), whole, 1, start); },
        [&] { return Elements(found); });
    if (failed(inOrder))
      return failure();
    found = *inOrder;
  }
  return find(whole, count, 1, found);
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

LogicalResult LinalgEmitter::reduceTogether(linalg::LinalgOp op, unsigned result, ArrayRef<Place> places) {
  SmallVector<Place> iterations;
  SmallVector<Value> starts;
  for (const Place &place : places) {
    FailureOr<Indices> iteration = iterationOf(op, result, place.at);
    Elements start = failed(iteration) ? Elements(failure()) : startsOf(op, result, *iteration, place.width);
    if (failed(start))
      return failure();
    iterations.push_back({*iteration, place.width});
    llvm::append_range(starts, *start);
  }
  Elements results = reduceTogether(op, starts, iterations, reducedLoops(op));
  if (failed(results))
    return failure();
  ArrayRef<Value> left(*results);
  for (const Place &place : places) {
    for (auto [value, element] : llvm::zip_equal(op->getResults(), left.take_front(op->getNumResults())))
      tensors.remember(value, place.at, place.width, element);
    left = left.drop_front(op->getNumResults());
  }
  return success();
}

LinalgEmitter::Elements LinalgEmitter::reduceTogether(linalg::LinalgOp op, ValueRange running,
                                                      ArrayRef<Place> iterations, ArrayRef<unsigned> reductions) {
  if (reductions.empty()) {
    SmallVector<Value> results;
    for (const Place &place : iterations) {
      Elements elements = evaluateBody(op, place.at, running.slice(results.size(), op->getNumResults()), place.width);
      if (failed(elements))
        return failure();
      llvm::append_range(results, *elements);
    }
    return results;
  }
  FailureOr<AffineExpr> extent = sizeOfLoop(op, reductions.front());
  if (failed(extent))
    return failure();
  return forLoop(constant(0), body.size(*extent), constant(1), running, [&](Value iv, ValueRange carried) -> Elements {
    SmallVector<Place> inner(iterations);
    for (Place &place : inner)
      place.at[reductions.front()] = {iv};
    return reduceTogether(op, carried, inner, reductions.drop_front());
  });
}

} // namespace intarsia::kernel
