//===- TensorEmitter.cpp - Elements of tensors on demand --------------------------------------------------------===//
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

static bool anyLane(ArrayRef<Index> at) {
  return llvm::any_of(at, [](const Index &index) { return index.lane; });
}

Value TensorEmitter::evaluate(Value tensor, ArrayRef<Index> indices, int64_t width) {
  // The lanes are equal: one scalar for all.
  if (width > 1 && !anyLane(indices))
    return splat(evaluate(tensor, indices, 1), width);
  // A scalar has no lanes; what it is made of may have lanes of its own (a sum along a dimension).
  Indices at(indices.begin(), indices.end());
  if (width == 1)
    for (Index &index : at)
      index.lane = false;

  MemoKey key{tensor.getAsOpaquePointer(), {}};
  for (const Index &index : at)
    key.second.push_back({index.base.getAsOpaquePointer(), index.lane});
  key.second.push_back({nullptr, width});
  for (auto &level : llvm::reverse(memo))
    if (auto it = level.find(key); it != level.end())
      return it->second;

  Value result;
  if (auto it = bound.find(tensor); it != bound.end()) {
    ElementFn element = it->second;
    result = element(at, width);
  } else if (auto it = storage.find(tensor); it != storage.end()) {
    Storage source = it->second;
    if (isStoredAsCodes(tensor)) {
      result = width == 1 ? evaluateCode(tensor, at[0].base, at[1].base) : evaluatePerLane(tensor, at, width);
      memo.back()[key] = result;
      return result;
    }
    // Neighbouring lanes must be neighbours in memory.
    bool contiguous =
        width == 1 || llvm::none_of(ArrayRef<Index>(at).drop_back(), [](const Index &index) { return index.lane; });
    result = contiguous ? load(source, at, width) : evaluatePerLane(tensor, at, width);
  } else if (Operation *op = tensor.getDefiningOp()) {
    result = evaluateOp(op, tensor, at, width);
  } else {
    (void)unsupported(kernel, "a value without a source");
  }
  if (!result) {
    Type type = computeType(cast<RankedTensorType>(tensor.getType()).getElementType());
    result = arith::ConstantOp::create(b, loc, b.getZeroAttr(vectorOf(type, width)));
  }
  memo.back()[key] = result;
  return result;
}

Value TensorEmitter::evaluatePerLane(Value tensor, ArrayRef<Index> at, int64_t width) {
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < width; ++lane) {
    Indices scalar;
    for (const Index &index : at)
      scalar.push_back({index.lane ? add(index.base, constant(lane)) : index.base, false});
    lanes.push_back(evaluate(tensor, scalar, 1));
  }
  return vector::FromElementsOp::create(b, loc, VectorType::get({width}, lanes[0].getType()), lanes);
}

Value TensorEmitter::evaluateInside(Value tensor, ArrayRef<Index> at, const llvm::SmallBitVector &isComputed,
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
  Value element = evaluate(tensor, inside, width);
  Type type = getElementTypeOrSelf(element.getType());
  Value outside;
  if (isa<FloatType>(type))
    outside = floatConstant(std::numeric_limits<double>::quiet_NaN(), type, width);
  else
    outside = splat(arith::ConstantOp::create(
                        b, loc, b.getIntegerAttr(type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth()))),
                    width);
  return arith::SelectOp::create(b, loc, isInside, element, outside);
}

Value TensorEmitter::evaluateConcat(tensor::ConcatOp op, ArrayRef<Index> at, int64_t width) {
  uint64_t dim = op.getDim();
  if (at[dim].lane && width > 1)
    return evaluatePerLane(op.getResult(), at, width);
  Type type = vectorOf(computeType(op.getResultType().getElementType()), width);
  // A chain of scf.if: below the end of this operand, it is it; else the rest, with the index moved down.
  std::function<Value(unsigned, Value)> select = [&](unsigned operand, Value index) -> Value {
    Indices inner(at.begin(), at.end());
    inner[dim].base = index;
    if (operand + 1 == op.getInputs().size())
      return evaluate(op.getInputs()[operand], inner, width);
    Value extent = size(sizes.of(op.getInputs()[operand])[dim]);
    auto branch = scf::IfOp::create(b, loc, TypeRange{type}, less(index, extent), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    memo.emplace_back();
    Value here = evaluate(op.getInputs()[operand], inner, width);
    memo.pop_back();
    scf::YieldOp::create(b, loc, here);
    b.setInsertionPointToEnd(branch.elseBlock());
    memo.emplace_back();
    Value rest = select(operand + 1, sub(index, extent));
    memo.pop_back();
    scf::YieldOp::create(b, loc, rest);
    return branch.getResult(0);
  };
  return select(0, at[dim].base);
}

Value TensorEmitter::evaluateRope(nn::RopeOp op, ArrayRef<Index> at, int64_t width) {
  int64_t half = cast<RankedTensorType>(op.getFrequencies().getType()).getDimSize(0);
  const Index &feature = at.back();
  bool lanesElsewhere = llvm::any_of(at.drop_back(), [](const Index &index) { return index.lane; });
  // A vector lies in one of three parts: first of a pair, second of a pair, not rotated. Otherwise one by one.
  if (width > 1 && (op.getInterleaved() || lanesElsewhere || half % width != 0))
    return evaluatePerLane(op.getResult(), at, width);
  Type f32 = b.getF32Type();
  auto elementAt = [&](Value index) {
    Indices indices(at.begin(), at.end());
    indices.back().base = index;
    return evaluate(op.getInput(), indices, width);
  };
  // x * cos + sign * partner * sin, at the frequency of the pair.
  auto rotated = [&](Value pair, Value partner, double sign) -> Value {
    Value position = arith::SIToFPOp::create(b, loc, f32, evaluate(op.getPositions(), at.drop_back(2), 1));
    Value angle = arith::MulFOp::create(b, loc, splat(position, width),
                                        evaluate(op.getFrequencies(), {Index{pair, feature.lane}}, width));
    Value factor = floatConstant(op.getAttentionFactor().convertToDouble(), f32, width);
    Value signedFactor = floatConstant(sign * op.getAttentionFactor().convertToDouble(), f32, width);
    Value cosine = arith::MulFOp::create(b, loc, emitCos(b, loc, angle), factor);
    Value sine = arith::MulFOp::create(b, loc, emitSin(b, loc, angle), signedFactor);
    Value kept = arith::MulFOp::create(b, loc, elementAt(feature.base), cosine);
    return arith::AddFOp::create(b, loc, kept, arith::MulFOp::create(b, loc, elementAt(partner), sine));
  };
  auto choose = [&](Value condition, function_ref<Value()> yes, function_ref<Value()> no) -> Value {
    auto branch = scf::IfOp::create(b, loc, TypeRange{vectorOf(f32, width)}, condition, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    for (auto [block, emit] : {std::pair(branch.thenBlock(), yes), std::pair(branch.elseBlock(), no)}) {
      b.setInsertionPointToEnd(block);
      memo.emplace_back();
      Value value = emit();
      memo.pop_back();
      scf::YieldOp::create(b, loc, value);
    }
    return branch.getResult(0);
  };
  Value i = feature.base, middle = constant(half), end = constant(2 * half);
  if (op.getInterleaved()) {
    Value pair = div(i, constant(2)), even = mul(pair, constant(2));
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, i, even);
    return choose(
        less(i, end),
        [&] {
          return choose(
              isFirst, [&] { return rotated(pair, add(i, constant(1)), -1.0); },
              [&] { return rotated(pair, sub(i, constant(1)), 1.0); });
        },
        [&] { return elementAt(i); });
  }
  return choose(
      less(i, middle), [&] { return rotated(i, add(i, middle), -1.0); },
      [&] {
        return choose(
            less(i, end), [&] { return rotated(sub(i, middle), sub(i, middle), 1.0); }, [&] { return elementAt(i); });
      });
}

Value TensorEmitter::evaluateSlice(tensor::ExtractSliceOp slice, ArrayRef<Index> at, int64_t width) {
  Indices source;
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  unsigned next = 0;
  for (int64_t d = 0; d < slice.getSourceType().getRank(); ++d) {
    Value offset = indexValue(slice.getMixedOffsets()[d]);
    if (dropped[d]) {
      source.push_back({offset});
      continue;
    }
    const Index &index = at[next++];
    Value stride = indexValue(slice.getMixedStrides()[d]);
    if (index.lane && width > 1 && !matchPattern(stride, m_One()))
      return evaluatePerLane(slice.getResult(), at, width);
    source.push_back({add(offset, mul(index.base, stride)), index.lane});
  }
  return evaluate(slice.getSource(), source, width);
}

Value TensorEmitter::evaluateExpand(tensor::ExpandShapeOp expand, ArrayRef<Index> at, int64_t width) {
  Indices source;
  ArrayRef<AffineExpr> extents = sizes.of(expand.getResult());
  for (auto &group : expand.getReassociationIndices()) {
    Index index{constant(0)};
    for (int64_t d : group) {
      if (at[d].lane && width > 1 && d != group.back() && extents[d] != getAffineConstantExpr(1, b.getContext()))
        return evaluatePerLane(expand.getResult(), at, width);
      index.base = add(d == group.front() ? index.base : mul(index.base, size(extents[d])), at[d].base);
      index.lane |= at[d].lane;
    }
    source.push_back(index);
  }
  return evaluate(expand.getSrc(), source, width);
}

Value TensorEmitter::evaluateCollapse(tensor::CollapseShapeOp collapse, ArrayRef<Index> at, int64_t width) {
  Indices source;
  ArrayRef<AffineExpr> extents = sizes.of(collapse.getSrc());
  for (auto [d, group] : llvm::enumerate(collapse.getReassociationIndices())) {
    const Index &index = at[d];
    ArrayRef<AffineExpr> groupExtents = extents.slice(group.front(), group.size());
    bool lane = index.lane && width > 1;
    if (lane && group.size() > 1) {
      // The lanes stay in one innermost row if it is a whole number of vectors, and vectors start at multiples.
      auto inner = dyn_cast<AffineConstantExpr>(groupExtents.back());
      if (!inner || inner.getValue() % width != 0)
        return evaluatePerLane(collapse.getResult(), at, width);
    }
    for (auto [i, part] : llvm::enumerate(delinearize(index.base, groupExtents)))
      source.push_back({part, lane && i + 1 == group.size()});
  }
  return evaluate(collapse.getSrc(), source, width);
}

Value TensorEmitter::evaluateOp(Operation *op, Value tensor, ArrayRef<Index> at, int64_t width) {
  auto resultType = cast<RankedTensorType>(tensor.getType());
  Type type = computeType(resultType.getElementType());

  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constantOp.getValue());
    if (!elements || !elements.isSplat()) {
      (void)unsupported(op, "a table inside a kernel");
      return nullptr;
    }
    if (isa<FloatType>(type))
      return floatConstant(elements.getSplatValue<APFloat>().convertToDouble(), type, width);
    int64_t value = elements.getSplatValue<APInt>().getSExtValue();
    Value scalar = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
    return splat(scalar, width);
  }
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return evaluateLinalg(linalgOp, tensor, at, width);
  if (isa<nn::GeluOp, nn::SiluOp, nn::ReluOp, nn::TanhOp, nn::SigmoidOp>(op)) {
    Value x = evaluate(op->getOperand(0), at, width);
    return TypeSwitch<Operation *, Value>(op)
        .Case([&](nn::GeluOp gelu) { return emitGelu(b, loc, x, gelu.getForm()); })
        .Case([&](nn::SiluOp) { return emitSilu(b, loc, x); })
        .Case([&](nn::TanhOp) { return emitTanh(b, loc, x); })
        .Case([&](nn::SigmoidOp) { return emitSigmoid(b, loc, x); })
        // maximumf keeps NaN, as the op says.
        .Case(
            [&](nn::ReluOp) -> Value { return arith::MaximumFOp::create(b, loc, x, floatConstant(0.0, type, width)); });
  }
  if (auto embedding = dyn_cast<nn::EmbeddingOp>(op)) {
    if (llvm::any_of(at.drop_back(), [](const Index &index) { return index.lane; }) && width > 1)
      return evaluatePerLane(tensor, at, width);
    Value row = evaluate(embedding.getIndices(), at.drop_back(), 1);
    if (row.getType() != b.getI64Type())
      row = arith::ExtSIOp::create(b, loc, b.getI64Type(), row);
    llvm::SmallBitVector isComputed(2);
    isComputed.set(0);
    return evaluateInside(embedding.getTable(), {Index{row}, at.back()}, isComputed, width);
  }
  if (auto rope = dyn_cast<nn::RopeOp>(op))
    return evaluateRope(rope, at, width);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return evaluateSlice(slice, at, width);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return evaluateExpand(expand, at, width);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return evaluateCollapse(collapse, at, width);
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return evaluate(cast.getSource(), at, width);
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return evaluateConcat(concat, at, width);
  if (auto splatOp = dyn_cast<tensor::SplatOp>(op)) {
    if (auto value = splatOp.getInput().getDefiningOp<arith::ConstantOp>()) {
      if (isa<FloatType>(type))
        return floatConstant(cast<FloatAttr>(value.getValue()).getValueAsDouble(), type, width);
      Value scalar =
          arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, cast<IntegerAttr>(value.getValue()).getInt()));
      return splat(scalar, width);
    }
  }
  if (isa<tensor::EmptyOp>(op))
    return nullptr; // whatever is read there does not matter: zero
  if (OpTrait::hasElementwiseMappableTraits(op)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isa<RankedTensorType>(operand.getType()) ? evaluate(operand, at, width) : operand);
    return emitElementwise(op, operands, width);
  }
  (void)unsupported(op, "no kernel shape computes it");
  return nullptr;
}

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
  // What upstream would send to libm, and casts whose types differ once everything narrow is computed in f32.
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

//===-- Memory ------------------------------------------------------------------------------------------------===//

/// Offset in elements of lane 0. A row that is walked in order is addressed by its number: no division comes back in.
Value TensorEmitter::address(const Storage &storage, ArrayRef<Index> at) {
  if (at.empty())
    return constant(0);
  if (currentRow && storage.dense && at.size() == currentRow->prefix.size() + 1) {
    bool same = true;
    for (auto [index, prefix, expected, actual] :
         llvm::zip(at.drop_back(), currentRow->prefix, currentRow->sizes, ArrayRef(storage.sizes).drop_back()))
      same &= index.base == prefix && !index.lane && expected == actual;
    if (same && at.size() > 1)
      return add(mul(currentRow->flat, storage.strides[at.size() - 2]), at.back().base);
  }
  Value offset = constant(0);
  for (auto [index, stride] : llvm::zip(at, storage.strides))
    offset = add(offset, mul(index.base, stride));
  return offset;
}

Value TensorEmitter::load(const Storage &storage, ArrayRef<Index> at, int64_t width) {
  return loadAt(storage.pointer, address(storage, at), storage.elementType, width);
}

void TensorEmitter::store(Value value, const Storage &storage, ArrayRef<Index> at, int64_t width) {
  storeAt(value, storage.pointer, address(storage, at), storage.elementType, width);
}

std::optional<Storage> TensorEmitter::view(Value tensor) {
  if (auto it = storage.find(tensor); it != storage.end())
    return it->second;
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return std::nullopt;
  Sizes resultSizes(sizes.of(tensor).begin(), sizes.of(tensor).end());
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return view(cast.getSource());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    std::optional<Storage> source = view(slice.getSource());
    if (!source)
      return std::nullopt;
    Storage result = *source;
    result.strides.clear();
    result.sizes = resultSizes;
    result.dense = false;
    Value offset = constant(0);
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (int64_t d = 0; d < slice.getSourceType().getRank(); ++d) {
      offset = add(offset, mul(indexValue(slice.getMixedOffsets()[d]), source->strides[d]));
      if (!dropped[d])
        result.strides.push_back(mul(source->strides[d], indexValue(slice.getMixedStrides()[d])));
    }
    result.pointer = offsetPointer(source->pointer, offset, source->elementType);
    return result;
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    std::optional<Storage> source = view(expand.getSrc());
    if (!source)
      return std::nullopt;
    Storage result = *source;
    result.strides.assign(resultSizes.size(), Value());
    result.sizes = resultSizes;
    for (auto [d, group] : llvm::enumerate(expand.getReassociationIndices())) {
      Value stride = source->strides[d];
      for (int64_t inner : llvm::reverse(group)) {
        result.strides[inner] = stride;
        if (inner != group.front())
          stride = mul(stride, size(resultSizes[inner]));
      }
    }
    return result;
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    std::optional<Storage> source = view(collapse.getSrc());
    if (!source)
      return std::nullopt;
    Storage result = *source;
    result.strides.clear();
    result.sizes = resultSizes;
    for (auto &group : collapse.getReassociationIndices()) {
      SmallVector<int64_t> wide;
      for (int64_t d : group)
        if (source->sizes[d] != getAffineConstantExpr(1, b.getContext()))
          wide.push_back(d);
      if (!source->dense && wide.size() > 1)
        return std::nullopt;
      result.strides.push_back(source->strides[wide.empty() ? group.back() : wide.back()]);
    }
    return result;
  }
  return std::nullopt;
}

TensorEmitter::RowScope TensorEmitter::makeRow(Value flat, ArrayRef<AffineExpr> leading) {
  RowScope row;
  row.flat = flat;
  row.sizes.assign(leading.begin(), leading.end());
  row.prefix = delinearize(flat, leading);
  return row;
}

} // namespace intarsia::cpu
