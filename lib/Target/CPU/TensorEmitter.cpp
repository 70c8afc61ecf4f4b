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
