//===- TensorEmitter.cpp - Elements of tensors on demand --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/TensorEmitter.h"
#include "lib/Kernel/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::kernel {

static bool anyLane(ArrayRef<Index> at) {
  return llvm::any_of(at, [](const Index &index) { return index.lane; });
}

Code::MemoKey TensorEmitter::keyOf(Value tensor, ArrayRef<Index> at, int64_t width) {
  Code::MemoKey key{tensor.getAsOpaquePointer(), {}};
  for (const Index &index : at)
    key.second.push_back({index.base.getAsOpaquePointer(), index.lane});
  key.second.push_back({nullptr, width});
  return key;
}

Value TensorEmitter::remembered(Value tensor, ArrayRef<Index> at, int64_t width) {
  Code::MemoKey key = keyOf(tensor, at, width);
  for (auto &level : llvm::reverse(code->memo))
    if (auto it = level.find(key); it != level.end())
      return it->second;
  return nullptr;
}

void TensorEmitter::remember(Value tensor, ArrayRef<Index> at, int64_t width, Value element) {
  code->memo.back()[keyOf(tensor, at, width)] = element;
}

Element TensorEmitter::evaluateInside(Value tensor, ArrayRef<Index> at, const llvm::SmallBitVector &isComputed,
                                      int64_t width) {
  if (isComputed.none())
    return evaluate(tensor, at, width);
  Value isInside;
  for (unsigned d : isComputed.set_bits()) {
    Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, at[d].base, body.sizeOf(tensor, d));
    isInside = isInside ? arith::AndIOp::create(b, loc, isInside, here).getResult() : here;
  }
  Indices inside(at.begin(), at.end());
  for (unsigned d : isComputed.set_bits())
    inside[d].base = arith::SelectOp::create(b, loc, isInside, at[d].base, constant(0));
  Element element = evaluate(tensor, inside, width);
  if (failed(element))
    return failure();
  return orOutside(isInside, *element, width);
}

std::optional<Value> TensorEmitter::gatherInside(Value tensor, ArrayRef<Value> at,
                                                 const llvm::SmallBitVector &isComputed, int64_t width) {
  auto source = body.storage.find(tensor);
  if (!code->instructions.gathers || at.empty() || source == body.storage.end() || bound.count(tensor) ||
      weights.panelsOf(tensor))
    return std::nullopt;
  const Storage &storage = source->second;
  Type stored = MemoryEmitter::storedType(storage.elementType);
  unsigned bits = stored.getIntOrFloatBitWidth();
  if ((bits != 32 && bits != 64) || stored != memory.computeType(storage.elementType))
    return std::nullopt;
  Value offset, isInside;
  for (auto [d, index] : llvm::enumerate(at)) {
    Value step = index;
    if (!matchPattern(storage.strides[d], m_One()))
      step = arith::MulIOp::create(b, loc, index, splat(storage.strides[d], width));
    offset = offset ? arith::AddIOp::create(b, loc, offset, step).getResult() : step;
    if (!isComputed[d])
      continue;
    Value size = splat(body.sizeOf(tensor, unsigned(d)), width);
    Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index, size);
    isInside = isInside ? arith::AndIOp::create(b, loc, isInside, here).getResult() : here;
  }
  if (isInside)
    offset = arith::SelectOp::create(b, loc, isInside, offset, splat(constant(0), width));
  Type pointers = VectorType::get({width}, storage.pointer.getType());
  Value addresses = LLVM::GEPOp::create(b, loc, pointers, stored, storage.pointer, ArrayRef<LLVM::GEPArg>{offset});
  Value all = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(VectorType::get({width}, b.getI1Type()), true));
  auto type = cast<VectorType>(vectorOf(stored, width));
  Value elements = LLVM::masked_gather::create(b, loc, type, addresses, all, /*pass_thru=*/ValueRange(), bits / 8);
  return isInside ? orOutside(isInside, elements, width) : elements;
}

/// Returns elements where a condition holds; NaN or the least integer where it does not.
Value TensorEmitter::orOutside(Value isInside, Value elements, int64_t width) {
  Type type = getElementTypeOrSelf(elements.getType());
  Value outside;
  if (isa<FloatType>(type))
    outside = floatConstant(std::numeric_limits<double>::quiet_NaN(), type, width);
  else
    outside = splat(arith::ConstantOp::create(
                        b, loc, b.getIntegerAttr(type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth()))),
                    width);
  return arith::SelectOp::create(b, loc, isInside, elements, outside);
}

LogicalResult TensorEmitter::reduceTogether(Value tensor, ArrayRef<Place> places) {
  Operation *op = tensor.getDefiningOp();
  if (!op || bound.count(tensor) || body.storage.count(tensor) || llvm::any_of(places, [&](const Place &place) {
        return place.width == 1 || !anyLane(place.at) || remembered(tensor, place.at, place.width);
      }))
    return success();
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return reduceTogether(cast.getSource(), places);
  auto nest = dyn_cast<linalg::LinalgOp>(op);
  if (!nest && OpTrait::hasElementwiseMappableTraits(op)) {
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()) && failed(reduceTogether(operand, places)))
        return failure();
    return success();
  }
  if (!nest)
    return success();
  unsigned result = cast<OpResult>(tensor).getResultNumber();
  if (nest.getNumReductionLoops() != 0)
    return linalgOps.reduceTogether(nest, result, places);
  // Only where indices stay what they are will an element be asked for at the place it is remembered for.
  AffineMap written = nest.getMatchingIndexingMap(nest.getDpsInitOperand(result));
  for (OpOperand *operand : nest.getDpsInputOperands()) {
    AffineMap read = nest.getMatchingIndexingMap(operand);
    if (!isa<RankedTensorType>(operand->get().getType()) || !written.isPermutation() || !read.isProjectedPermutation())
      continue;
    AffineMap fromResult = read.compose(inversePermutation(written));
    SmallVector<Place> ofOperand;
    for (const Place &place : places) {
      ofOperand.push_back({{}, place.width});
      for (AffineExpr expression : fromResult.getResults())
        ofOperand.back().at.push_back(place.at[cast<AffineDimExpr>(expression).getPosition()]);
    }
    if (failed(reduceTogether(operand->get(), ofOperand)))
      return failure();
  }
  return success();
}

Element TensorEmitter::evaluate(Value tensor, ArrayRef<Index> indices, int64_t width) {
  // The lanes are equal: one scalar for all.
  if (width > 1 && !anyLane(indices)) {
    Element scalar = evaluate(tensor, indices, 1);
    return failed(scalar) ? scalar : splat(*scalar, width);
  }
  // A scalar has no lanes; what it is made of may have lanes of its own (a sum along a dimension).
  Indices at(indices.begin(), indices.end());
  if (width == 1)
    for (Index &index : at)
      index.lane = false;

  if (Value element = remembered(tensor, at, width))
    return element;
  Element result = evaluateAnew(tensor, at, width);
  if (succeeded(result))
    remember(tensor, at, width, *result);
  return result;
}

/// Evaluates an element that was not emitted yet.
Element TensorEmitter::evaluateAnew(Value tensor, ArrayRef<Index> at, int64_t width) {
  if (auto it = bound.find(tensor); it != bound.end()) {
    ElementFn element = it->second;
    return element(at, width);
  }
  if (auto it = body.storage.find(tensor); it != body.storage.end()) {
    Storage source = it->second;
    if (weights.panelsOf(tensor))
      return width == 1 ? Element(weights.dequantize(tensor, at[0].base, at[1].base, 1))
                        : evaluatePerLane(tensor, at, width);
    // Neighbouring lanes must be neighbours in memory.
    bool contiguous = width == 1 || llvm::none_of(at.drop_back(), [](const Index &index) { return index.lane; });
    return contiguous ? Element(load(source, at, width)) : evaluatePerLane(tensor, at, width);
  }
  if (Operation *op = tensor.getDefiningOp())
    return evaluateOp(op, tensor, at, width);
  return body.refuse(body.kernel, "a value without a source");
}

Element TensorEmitter::evaluatePerLane(Value tensor, ArrayRef<Index> at, int64_t width) {
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < width; ++lane) {
    Indices scalar;
    for (const Index &index : at)
      scalar.push_back({index.lane ? add(index.base, constant(lane)) : index.base, false});
    Element element = evaluate(tensor, scalar, 1);
    if (failed(element))
      return failure();
    lanes.push_back(*element);
  }
  return vector::FromElementsOp::create(b, loc, VectorType::get({width}, lanes[0].getType()), lanes).getResult();
}

Element TensorEmitter::choose(Value condition, Type type, function_ref<Element()> yes, function_ref<Element()> no) {
  auto branch = [](function_ref<Element()> emit) -> Values {
    Element element = emit();
    if (failed(element))
      return failure();
    return SmallVector<Value>{*element};
  };
  Values chosen = ifElse(condition, type, [&] { return branch(yes); }, [&] { return branch(no); });
  return failed(chosen) ? Element(failure()) : Element((*chosen)[0]);
}

Element TensorEmitter::evaluateConcat(tensor::ConcatOp op, ArrayRef<Index> at, int64_t width) {
  uint64_t dim = op.getDim();
  if (at[dim].lane && width > 1)
    return evaluatePerLane(op.getResult(), at, width);
  Type type = vectorOf(memory.computeType(op.getResultType().getElementType()), width);
  // A chain of scf.if: below the end of this operand, it is it; else the rest, with the index moved down.
  std::function<Element(unsigned, Value)> select = [&](unsigned operand, Value index) -> Element {
    Indices inner(at.begin(), at.end());
    inner[dim].base = index;
    if (operand + 1 == op.getInputs().size())
      return evaluate(op.getInputs()[operand], inner, width);
    Value extent = body.sizeOf(op.getInputs()[operand], dim);
    return choose(
        less(index, extent), type, [&] { return evaluate(op.getInputs()[operand], inner, width); },
        [&] { return select(operand + 1, sub(index, extent)); });
  };
  return select(0, at[dim].base);
}

Element TensorEmitter::evaluateRope(nn::RopeOp op, ArrayRef<Index> at, int64_t width) {
  int64_t half = cast<RankedTensorType>(op.getFrequencies().getType()).getDimSize(0);
  const Index &feature = at.back();
  bool lanesElsewhere = llvm::any_of(at.drop_back(), [](const Index &index) { return index.lane; });
  // A vector lies in one of three parts: first of a pair, second of a pair, not rotated. Otherwise one by one.
  if (width > 1 && (op.getInterleaved() || lanesElsewhere || half % width != 0))
    return evaluatePerLane(op.getResult(), at, width);
  Type type = vectorOf(b.getF32Type(), width);
  Value i = feature.base, middle = constant(half), end = constant(2 * half);
  auto same = [&] { return evaluate(op.getInput(), at, width); };
  if (op.getInterleaved()) {
    Value pair = div(i, constant(2)), even = mul(pair, constant(2));
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, i, even);
    auto rotated = [&] {
      return choose(
          isFirst, type, [&] { return rotate(op, at, width, pair, add(i, constant(1)), -1.0); },
          [&] { return rotate(op, at, width, pair, sub(i, constant(1)), 1.0); });
    };
    return choose(less(i, end), type, rotated, same);
  }
  auto others = [&] {
    auto second = [&] { return rotate(op, at, width, sub(i, middle), sub(i, middle), 1.0); };
    return choose(less(i, end), type, second, same);
  };
  return choose(less(i, middle), type, [&] { return rotate(op, at, width, i, add(i, middle), -1.0); }, others);
}

/// Returns x * cos + sign * partner * sin, at the frequency of the pair.
Element TensorEmitter::rotate(nn::RopeOp op, ArrayRef<Index> at, int64_t width, Value pair, Value partner,
                              double sign) {
  Type f32 = b.getF32Type();
  Element integer = evaluate(op.getPositions(), at.drop_back(2), 1);
  if (failed(integer))
    return failure();
  Value position = splat(arith::SIToFPOp::create(b, loc, f32, *integer), width);
  Element frequency = evaluate(op.getFrequencies(), {Index{pair, at.back().lane}}, width);
  if (failed(frequency))
    return failure();
  Value angle = arith::MulFOp::create(b, loc, position, *frequency);
  Value factor = floatConstant(op.getAttentionFactor().convertToDouble(), f32, width);
  Value signedFactor = floatConstant(sign * op.getAttentionFactor().convertToDouble(), f32, width);
  Value cosine = arith::MulFOp::create(b, loc, emitCos(b, loc, angle), factor);
  Value sine = arith::MulFOp::create(b, loc, emitSin(b, loc, angle), signedFactor);
  Element own = evaluate(op.getInput(), at, width);
  if (failed(own))
    return failure();
  Value kept = arith::MulFOp::create(b, loc, *own, cosine);
  Indices ofPartner(at.begin(), at.end());
  ofPartner.back().base = partner;
  Element other = evaluate(op.getInput(), ofPartner, width);
  if (failed(other))
    return failure();
  return arith::AddFOp::create(b, loc, kept, arith::MulFOp::create(b, loc, *other, sine)).getResult();
}

Element TensorEmitter::evaluateSlice(tensor::ExtractSliceOp slice, ArrayRef<Index> at, int64_t width) {
  Indices source;
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  unsigned next = 0;
  for (int64_t d = 0; d < slice.getSourceType().getRank(); ++d) {
    Element offset = body.indexValue(slice.getMixedOffsets()[d]);
    if (failed(offset))
      return failure();
    if (dropped[d]) {
      source.push_back({*offset});
      continue;
    }
    const Index &index = at[next++];
    Element stride = body.indexValue(slice.getMixedStrides()[d]);
    if (failed(stride))
      return failure();
    if (index.lane && width > 1 && !matchPattern(*stride, m_One()))
      return evaluatePerLane(slice.getResult(), at, width);
    source.push_back({add(*offset, mul(index.base, *stride)), index.lane});
  }
  return evaluate(slice.getSource(), source, width);
}

Element TensorEmitter::evaluateExpand(tensor::ExpandShapeOp expand, ArrayRef<Index> at, int64_t width) {
  Indices source;
  ArrayRef<AffineExpr> extents = body.sizes.of(expand.getResult());
  for (auto &group : expand.getReassociationIndices()) {
    Index index{constant(0)};
    for (int64_t d : group) {
      if (at[d].lane && width > 1 && d != group.back() && extents[d] != getAffineConstantExpr(1, b.getContext()))
        return evaluatePerLane(expand.getResult(), at, width);
      index.base = add(d == group.front() ? index.base : mul(index.base, body.size(extents[d])), at[d].base);
      index.lane |= at[d].lane;
    }
    source.push_back(index);
  }
  return evaluate(expand.getSrc(), source, width);
}

Element TensorEmitter::evaluateCollapse(tensor::CollapseShapeOp collapse, ArrayRef<Index> at, int64_t width) {
  Indices source;
  ArrayRef<AffineExpr> extents = body.sizes.of(collapse.getSrc());
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
    for (auto [i, part] : llvm::enumerate(body.delinearize(index.base, groupExtents)))
      source.push_back({part, lane && i + 1 == group.size()});
  }
  return evaluate(collapse.getSrc(), source, width);
}

Element TensorEmitter::evaluateOp(Operation *op, Value tensor, ArrayRef<Index> at, int64_t width) {
  auto resultType = cast<RankedTensorType>(tensor.getType());
  Type type = memory.computeType(resultType.getElementType());

  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constantOp.getValue());
    if (!elements || !elements.isSplat())
      return body.refuse(op, "a table inside a kernel");
    if (isa<FloatType>(type))
      return floatConstant(elements.getSplatValue<APFloat>().convertToDouble(), type, width);
    APInt value = elements.getSplatValue<APInt>();
    if (!value.isSignedIntN(64))
      return body.refuse(op, "integers have at most 64 bits");
    Value scalar = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value.getSExtValue()));
    return splat(scalar, width);
  }
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return linalgOps.evaluateLinalg(linalgOp, tensor, at, width);
  if (isa<nn::GeluOp, nn::SiluOp, nn::ReluOp, nn::TanhOp, nn::SigmoidOp>(op)) {
    Element x = evaluate(op->getOperand(0), at, width);
    return failed(x) ? x : arithmetic.emitActivation(op, *x, type, width);
  }
  if (auto embedding = dyn_cast<nn::EmbeddingOp>(op)) {
    if (llvm::any_of(at.drop_back(), [](const Index &index) { return index.lane; }) && width > 1)
      return evaluatePerLane(tensor, at, width);
    Element row = integerAt(embedding.getIndices(), at.drop_back());
    if (failed(row))
      return failure();
    llvm::SmallBitVector isComputed(2);
    isComputed.set(0);
    return evaluateInside(embedding.getTable(), {Index{*row}, at.back()}, isComputed, width);
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
      const APInt &integer = cast<IntegerAttr>(value.getValue()).getValue();
      if (!integer.isSignedIntN(64))
        return body.refuse(op, "integers have at most 64 bits");
      Value scalar = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, integer.getSExtValue()));
      return splat(scalar, width);
    }
  }
  // Whatever is read there does not matter: zero.
  if (isa<tensor::EmptyOp>(op))
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(vectorOf(type, width))).getResult();
  if (OpTrait::hasElementwiseMappableTraits(op)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      Element element = isa<RankedTensorType>(operand.getType()) ? evaluate(operand, at, width) : Element(operand);
      if (failed(element))
        return failure();
      operands.push_back(*element);
    }
    return arithmetic.emitElementwise(op, operands, width);
  }
  return body.refuse(op, "no kernel shape computes it");
}

Element TensorEmitter::integerAt(Value tensor, ArrayRef<Index> at) {
  Element value = evaluate(tensor, at, 1);
  if (failed(value) || value->getType().isInteger(64))
    return value;
  return arith::ExtSIOp::create(b, loc, b.getI64Type(), *value).getResult();
}

//===-- Memory ------------------------------------------------------------------------------------------------===//

/// Offset in elements of lane 0. A row that is walked in order is addressed by its index: no division comes back in.
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
  return memory.load(storage.pointer, address(storage, at), storage.elementType, width);
}

void TensorEmitter::store(Value value, const Storage &storage, ArrayRef<Index> at, int64_t width) {
  memory.store(value, storage.pointer, address(storage, at), storage.elementType, width);
}

void TensorEmitter::storeResult(Value elements, Value result, ArrayRef<Index> at, int64_t width) {
  for (unsigned output = 0; output != body.outputs.size(); ++output)
    if (body.yielded(output) == result)
      store(elements, body.outputs[output], at, width);
}

LogicalResult TensorEmitter::storeOutputs(ArrayRef<unsigned> outputs, ArrayRef<Index> at, int64_t width) {
  for (unsigned output : outputs) {
    Element element = evaluate(body.yielded(output), at, width);
    if (failed(element))
      return failure();
    store(*element, body.outputs[output], at, width);
  }
  return success();
}

LogicalResult TensorEmitter::storeOutputs(ArrayRef<Index> at, int64_t width) {
  return storeOutputs(llvm::to_vector(llvm::seq<unsigned>(0, body.outputs.size())), at, width);
}

std::optional<bool> TensorEmitter::densityOf(Value tensor) {
  if (auto known = body.storage.find(tensor); known != body.storage.end())
    return known->second.dense;
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return tensor.getParentBlock() == &body.kernel.getBody().front() ? std::optional(true) : std::nullopt;
  if (isa<tensor::CastOp, tensor::ExpandShapeOp>(op))
    return densityOf(op->getOperand(0));
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    auto isSize = [&](Value index) { return body.isKnown(body.sizes.ofIndex(index)); };
    bool isView = llvm::all_of(slice.getOffsets(), isSize) && llvm::all_of(slice.getStrides(), isSize) &&
                  densityOf(slice.getSource());
    return isView ? std::optional(false) : std::nullopt;
  }
  auto collapse = dyn_cast<tensor::CollapseShapeOp>(op);
  std::optional<bool> density = collapse ? densityOf(collapse.getSrc()) : std::nullopt;
  if (!density || *density)
    return density;
  auto isWide = [&](int64_t d) { return body.sizes.of(collapse.getSrc())[d] != b.getAffineConstantExpr(1); };
  for (auto &group : collapse.getReassociationIndices())
    if (llvm::count_if(group, isWide) > 1)
      return std::nullopt;
  return density;
}

std::optional<Storage> TensorEmitter::view(Value tensor) {
  return densityOf(tensor) ? std::optional(viewOf(tensor)) : std::nullopt;
}

/// Returns where a tensor lies that densityOf() has found in memory.
Storage TensorEmitter::viewOf(Value tensor) {
  if (auto it = body.storage.find(tensor); it != body.storage.end())
    return it->second;
  Operation *op = tensor.getDefiningOp();
  Storage result = viewOf(op->getOperand(0));
  if (isa<tensor::CastOp>(op))
    return result;
  SmallVector<Value> strides = std::exchange(result.strides, {});
  Sizes sizes = std::exchange(result.sizes, Sizes(body.sizes.of(tensor)));
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    result.dense = false;
    Value offset = constant(0);
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (int64_t d = 0; d < slice.getSourceType().getRank(); ++d) {
      offset = add(offset, mul(*body.indexValue(slice.getMixedOffsets()[d]), strides[d]));
      if (!dropped[d])
        result.strides.push_back(mul(strides[d], *body.indexValue(slice.getMixedStrides()[d])));
    }
    result.pointer = memory.at(result.pointer, offset, result.elementType);
    return result;
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    result.strides.assign(result.sizes.size(), Value());
    for (auto [d, group] : llvm::enumerate(expand.getReassociationIndices())) {
      Value stride = strides[d];
      for (int64_t inner : llvm::reverse(group)) {
        result.strides[inner] = stride;
        if (inner != group.front())
          stride = mul(stride, body.size(result.sizes[inner]));
      }
    }
    return result;
  }
  for (auto &group : cast<tensor::CollapseShapeOp>(op).getReassociationIndices()) {
    auto isWide = [&](int64_t d) { return sizes[d] != b.getAffineConstantExpr(1); };
    auto last = llvm::find_if(llvm::reverse(group), isWide);
    result.strides.push_back(strides[last == group.rend() ? group.back() : *last]);
  }
  return result;
}

RowScope TensorEmitter::makeRow(Value flat, ArrayRef<AffineExpr> leading) {
  RowScope row;
  row.flat = flat;
  row.sizes.assign(leading.begin(), leading.end());
  row.prefix = body.delinearize(flat, leading);
  return row;
}

RowScope TensorEmitter::makeRow(ArrayRef<Value> prefix, ArrayRef<AffineExpr> leading) {
  RowScope row;
  row.prefix.assign(prefix.begin(), prefix.end());
  row.sizes.assign(leading.begin(), leading.end());
  row.flat = constant(0);
  for (auto [index, size] : llvm::zip_equal(row.prefix, row.sizes))
    row.flat = add(mul(row.flat, body.size(size)), index);
  return row;
}

} // namespace intarsia::kernel
