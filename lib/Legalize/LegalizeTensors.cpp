//===- LegalizeTensors.cpp - Tensors that are put together -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "intarsia/Analysis/Assertions.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZETENSORS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

SmallVector<Value> dynamicSizes(OpBuilder &builder, Location location, RankedTensorType type,
                                ArrayRef<OpFoldResult> sizes) {
  SmallVector<Value> result;
  for (auto [dimension, size] : llvm::enumerate(sizes))
    if (type.isDynamicDim(dimension))
      result.push_back(getValueOrCreateConstantIndexOp(builder, location, size));
  return result;
}

/// A generic op without inputs that computes each element of a tensor from its position.
Value generate(OpBuilder &builder, Location location, RankedTensorType type, ArrayRef<OpFoldResult> sizes,
               function_ref<Value(OpBuilder &, ArrayRef<Value>)> element) {
  Value empty = tensor::EmptyOp::create(builder, location, type, dynamicSizes(builder, location, type, sizes));
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  auto op = linalg::GenericOp::create(builder, location, TypeRange{type}, ValueRange{}, ValueRange{empty},
                                      ArrayRef{builder.getMultiDimIdentityMap(type.getRank())}, iterators,
                                      [&](OpBuilder &inner, Location at, ValueRange) {
                                        SmallVector<Value> position;
                                        for (int64_t d = 0; d < type.getRank(); ++d)
                                          position.push_back(linalg::IndexOp::create(inner, at, d));
                                        linalg::YieldOp::create(inner, at, element(inner, position));
                                      });
  return op.getResult(0);
}

/// Part of a tensor along one dimension.
Value part(OpBuilder &builder, Location location, Value source, int64_t dimension, OpFoldResult offset,
           OpFoldResult size) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, location, source);
  SmallVector<OpFoldResult> offsets(sizes.size(), builder.getIndexAttr(0)),
      strides(sizes.size(), builder.getIndexAttr(1));
  offsets[dimension] = offset;
  sizes[dimension] = size;
  return tensor::ExtractSliceOp::create(builder, location, source, offsets, sizes, strides);
}

/// Returns the size of a dimension, as its tensor.empty has it if there is one.
OpFoldResult sizeOf(OpBuilder &builder, Location location, Value tensor, int64_t dimension) {
  while (auto op = tensor.getDefiningOp<DestinationStyleOpInterface>())
    tensor = op.getTiedOpOperand(cast<OpResult>(tensor))->get();
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
    return empty.getMixedSizes()[dimension];
  return tensor::getMixedSize(builder, location, tensor, dimension);
}

/// True if two sizes are equal: a number, a value, or the same dimension of one tensor.
bool isSame(OpFoldResult a, OpFoldResult b) {
  if (isEqualConstantIntOrValue(a, b))
    return true;
  auto dimensionOf = [](OpFoldResult size) {
    auto value = dyn_cast<Value>(size);
    return value ? value.getDefiningOp<tensor::DimOp>() : tensor::DimOp();
  };
  tensor::DimOp x = dimensionOf(a), y = dimensionOf(b);
  return x && y && x.getSource() == y.getSource() && x.getConstantIndex() &&
         x.getConstantIndex() == y.getConstantIndex();
}

/// Emits arith.addi or arith.subi on sizes; a number where both are numbers.
template <typename Op> OpFoldResult combine(OpBuilder &builder, Location location, OpFoldResult a, OpFoldResult b) {
  if (std::optional<int64_t> x = getConstantIntValue(a), y = getConstantIntValue(b); x && y)
    return builder.getIndexAttr(std::is_same_v<Op, arith::AddIOp> ? *x + *y : *x - *y);
  return Op::create(builder, location, getValueOrCreateConstantIndexOp(builder, location, a),
                    getValueOrCreateConstantIndexOp(builder, location, b))
      .getResult();
}

/// tensor.pad with one value: fills are concatenated with the source, dimension by dimension.
struct PadToConcat : OpRewritePattern<tensor::PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::PadOp op, PatternRewriter &rewriter) const override {
    Value padding = op.getConstantPaddingValue();
    auto isNegative = [](OpFoldResult size) { return getConstantIntValue(size).value_or(0) < 0; };
    if (!padding || llvm::any_of(op.getMixedLowPad(), isNegative) || llvm::any_of(op.getMixedHighPad(), isNegative))
      return failure();
    // The value may be a constant inside the op's region, which is erased with the op.
    if (Operation *inside = padding.getDefiningOp(); inside && op->isAncestor(inside))
      padding = rewriter.clone(*inside)->getResult(0);
    Location location = op.getLoc();
    Value result = op.getSource();
    SmallVector<int64_t> shape(op.getSourceType().getShape());
    auto fill = [&](int64_t dimension, OpFoldResult size) -> Value {
      SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, location, result);
      sizes[dimension] = size;
      auto empty = tensor::EmptyOp::create(rewriter, location, sizes, op.getSourceType().getElementType());
      return linalg::FillOp::create(rewriter, location, padding, empty.getResult()).getResult(0);
    };
    for (auto [dimension, low, high] : llvm::enumerate(op.getMixedLowPad(), op.getMixedHighPad())) {
      SmallVector<Value> pieces;
      if (!isConstantIntValue(low, 0))
        pieces.push_back(fill(dimension, low));
      pieces.push_back(result);
      if (!isConstantIntValue(high, 0))
        pieces.push_back(fill(dimension, high));
      shape[dimension] = op.getResultType().getDimSize(dimension);
      if (pieces.size() > 1)
        result = tensor::ConcatOp::create(
            rewriter, location, RankedTensorType::get(shape, op.getSourceType().getElementType()), dimension, pieces);
    }
    if (result.getType() != op.getType())
      result = tensor::CastOp::create(rewriter, location, op.getType(), result);
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// True if an integer does not follow from sizes: it is read from a tensor, an argument, or a loop's counter.
bool isData(OpFoldResult number) {
  auto value = dyn_cast<Value>(number);
  llvm::SetVector<Value> open;
  if (value)
    open.insert(value);
  for (unsigned i = 0; i < open.size(); ++i) {
    Operation *op = open[i].getDefiningOp();
    if (!op || isa<tensor::ExtractOp>(op))
      return true;
    if (isa_and_nonnull<arith::ArithDialect>(op->getDialect()))
      open.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// The source of a slice that is inserted, with the dimensions of size 1 that it lacks; null if these cannot be told.
Value wholeSource(tensor::InsertSliceOp op, PatternRewriter &rewriter) {
  Value source = op.getSource();
  auto wide = RankedTensorType::get(op.getStaticSizes(), op.getType().getElementType());
  if (wide.getRank() == op.getSourceType().getRank())
    return source;
  std::optional<SmallVector<ReassociationIndices>> groups = getReassociationIndicesForReshape(op.getSourceType(), wide);
  if (!groups)
    return nullptr;
  return tensor::ExpandShapeOp::create(rewriter, op.getLoc(), wide, source, *groups, op.getMixedSizes());
}

bool isEmpty(tensor::InsertSliceOp op) {
  return llvm::any_of(op.getMixedSizes(), [](OpFoldResult size) { return isConstantIntValue(size, 0); });
}

/// Asserts that an index is less than a limit.
void assertBelow(OpBuilder &builder, Operation *op, Value index, Value limit, unsigned dimension) {
  Value isInside = arith::CmpIOp::create(builder, op->getLoc(), arith::CmpIPredicate::ult, index, limit);
  auto assertion =
      cf::AssertOp::create(builder, op->getLoc(), isInside,
                           ("index of '" + op->getName().getStringRef() + "' in dimension " + Twine(dimension)).str());
  assertion->setAttr(intarsia::assertsIndexAttr, builder.getUnitAttr());
}

/// How far a slice reaches in each dimension.
SmallVector<Value> reachesOf(OpBuilder &builder, Location location, ArrayRef<OpFoldResult> sizes,
                             ArrayRef<int64_t> strides) {
  SmallVector<Value> reaches;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    OpFoldResult steps = combine<arith::SubIOp>(builder, location, size, builder.getIndexAttr(1));
    Value last = getValueOrCreateConstantIndexOp(builder, location, steps);
    if (stride != 1)
      last = arith::MulIOp::create(builder, location, last,
                                   arith::ConstantIndexOp::create(builder, location, stride).getResult());
    reaches.push_back(arith::AddIOp::create(builder, location, last,
                                            arith::ConstantIndexOp::create(builder, location, 1).getResult()));
  }
  return reaches;
}

/// True for a slice that is inside of a dimension in every call.
bool isInside(OpFoldResult offset, OpFoldResult size, int64_t stride, OpFoldResult whole) {
  if (isConstantIntValue(offset, 0) && stride == 1 && isSame(size, whole))
    return true;
  std::optional<int64_t> begin = getConstantIntValue(offset), count = getConstantIntValue(size),
                         end = getConstantIntValue(whole);
  return begin && count && end && *begin >= 0 && *begin + (*count - 1) * stride < *end;
}

/// Asserts that a slice is inside of a tensor in each dimension.
void assertInside(OpBuilder &builder, Operation *op, ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes,
                  ArrayRef<int64_t> strides, ArrayRef<Value> reaches, ArrayRef<OpFoldResult> whole) {
  Location location = op->getLoc();
  for (auto [dimension, offset] : llvm::enumerate(offsets)) {
    if (isInside(offset, sizes[dimension], strides[dimension], whole[dimension]))
      continue;
    Value size = getValueOrCreateConstantIndexOp(builder, location, whole[dimension]);
    Value begin = getValueOrCreateConstantIndexOp(builder, location, offset);
    Value one = arith::ConstantIndexOp::create(builder, location, 1);
    if (isData(offset)) {
      Value room = arith::SubIOp::create(builder, location, size, reaches[dimension]);
      assertBelow(builder, op, begin, arith::AddIOp::create(builder, location, room, one), dimension);
      continue;
    }
    // Offsets that follow from sizes are right or wrong for all calls of these sizes: the last element says more.
    if (!getConstantIntValue(offset))
      assertBelow(builder, op, begin, size, dimension);
    Value end = arith::AddIOp::create(builder, location, begin, reaches[dimension]);
    assertBelow(builder, op, arith::SubIOp::create(builder, location, end, one), size, dimension);
  }
}

/// Asserts that the source of a slice that is inserted has the sizes of the slice.
void assertSizes(OpBuilder &builder, tensor::InsertSliceOp op, Value source) {
  for (auto [dimension, size] : llvm::enumerate(op.getMixedSizes())) {
    OpFoldResult own = tensor::getMixedSize(builder, op.getLoc(), source, dimension);
    if (isSame(own, size))
      continue;
    Value isEqual = arith::CmpIOp::create(builder, op.getLoc(), arith::CmpIPredicate::eq,
                                          getValueOrCreateConstantIndexOp(builder, op.getLoc(), own),
                                          getValueOrCreateConstantIndexOp(builder, op.getLoc(), size));
    cf::AssertOp::create(builder, op.getLoc(), isEqual,
                         "the source of 'tensor.insert_slice' has the slice's size in dimension " +
                             std::to_string(dimension));
  }
}

/// True if an integer is computed from elements of tensors and integer arguments of the function: kernels can read
/// these, and neither the counter of a loop nor a scalar argument of type index, which no call passes.
bool isReadByKernels(OpFoldResult number) {
  llvm::SetVector<Value> open;
  if (auto value = dyn_cast<Value>(number))
    open.insert(value);
  for (unsigned i = 0; i < open.size(); ++i) {
    Operation *op = open[i].getDefiningOp();
    if (!op &&
        (open[i].getType().isIndex() || !isa<func::FuncOp>(cast<BlockArgument>(open[i]).getOwner()->getParentOp())))
      return false;
    if (op && isa<arith::ArithDialect>(op->getDialect()))
      open.insert(op->operand_begin(), op->operand_end());
    else if (op && !isa<tensor::ExtractOp, tensor::DimOp>(op))
      return false;
  }
  return true;
}

/// tensor.extract_slice at an offset that is data: each element is read at its place behind the offset.
struct ExtractSliceToGeneric : OpRewritePattern<tensor::ExtractSliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::ExtractSliceOp op, PatternRewriter &rewriter) const override {
    SmallVector<OpFoldResult> offsets = op.getMixedOffsets();
    auto strides = getConstantIntValues(op.getMixedStrides());
    if (llvm::none_of(offsets, isData) || !llvm::all_of(offsets, isReadByKernels) ||
        llvm::any_of(op.getMixedSizes(), isData) ||
        llvm::any_of(op.getMixedSizes(), [](OpFoldResult size) { return isConstantIntValue(size, 0); }))
      return failure();
    if (!strides || llvm::any_of(*strides, [](int64_t stride) { return stride < 1; }))
      return rewriter.notifyMatchFailure(op, "a stride is not a positive constant");
    Location location = op.getLoc();
    assertInside(rewriter, op, offsets, op.getMixedSizes(), *strides,
                 reachesOf(rewriter, location, op.getMixedSizes(), *strides),
                 tensor::getMixedSizes(rewriter, location, op.getSource()));
    llvm::SmallBitVector dropped = op.getDroppedDims();
    SmallVector<OpFoldResult> sizes;
    for (auto [dimension, size] : llvm::enumerate(op.getMixedSizes()))
      if (!dropped[dimension])
        sizes.push_back(size);
    auto element = [&](OpBuilder &builder, ArrayRef<Value> position) -> Value {
      SmallVector<Value> at;
      for (auto [dimension, offset] : llvm::enumerate(offsets)) {
        Value begin = getValueOrCreateConstantIndexOp(builder, location, offset);
        if (dropped[dimension]) {
          at.push_back(begin);
          continue;
        }
        Value steps = position.front();
        position = position.drop_front();
        if (int64_t stride = (*strides)[dimension]; stride != 1)
          steps = arith::MulIOp::create(builder, location, steps,
                                        arith::ConstantIndexOp::create(builder, location, stride).getResult());
        at.push_back(
            isConstantIntValue(offset, 0) ? steps : arith::AddIOp::create(builder, location, begin, steps).getResult());
      }
      auto extract = tensor::ExtractOp::create(builder, location, op.getSource(), at);
      extract->setAttr(intarsia::legalize::insideAttr, builder.getUnitAttr());
      return extract;
    };
    rewriter.replaceOp(op, generate(rewriter, location, op.getType(), sizes, element));
    return success();
  }
};

/// tensor.insert_slice with strides, or at an offset that is data: each position is compared with the ends of the
/// slice.
struct InsertSliceToGeneric : OpRewritePattern<tensor::InsertSliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::InsertSliceOp op, PatternRewriter &rewriter) const override {
    if (isEmpty(op) || (op.hasUnitStride() && llvm::none_of(op.getMixedOffsets(), isData)) ||
        llvm::any_of(op.getMixedSizes(), isData))
      return failure();
    auto strides = getConstantIntValues(op.getMixedStrides());
    if (!strides || llvm::any_of(*strides, [](int64_t stride) { return stride < 1; }))
      return rewriter.notifyMatchFailure(op, "a stride is not a positive constant");
    Value source = wholeSource(op, rewriter);
    if (!source)
      return failure();
    Location location = op.getLoc();
    auto number = [&](OpBuilder &builder, int64_t value) -> Value {
      return arith::ConstantIndexOp::create(builder, location, value);
    };
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, location, op.getDest());
    SmallVector<Value> reaches = reachesOf(rewriter, location, op.getMixedSizes(), *strides);
    assertInside(rewriter, op, op.getMixedOffsets(), op.getMixedSizes(), *strides, reaches, sizes);
    assertSizes(rewriter, op, source);
    auto element = [&](OpBuilder &builder, ArrayRef<Value> position) -> Value {
      Value isInside = arith::ConstantOp::create(builder, location, builder.getBoolAttr(true));
      SmallVector<Value> within;
      for (auto [here, offset, reach, stride] : llvm::zip_equal(position, op.getMixedOffsets(), reaches, *strides)) {
        Value begin = getValueOrCreateConstantIndexOp(builder, location, offset);
        Value distance = arith::SubIOp::create(builder, location, here, begin);
        // A number below zero is a large one without its sign.
        Value isHere = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, distance, reach);
        isInside = arith::AndIOp::create(builder, location, isInside, isHere);
        if (stride != 1) {
          Value step = number(builder, stride);
          Value rest = arith::RemUIOp::create(builder, location, distance, step);
          Value isStep = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, rest, number(builder, 0));
          isInside = arith::AndIOp::create(builder, location, isInside, isStep);
          distance = arith::DivUIOp::create(builder, location, distance, step);
        }
        within.push_back(distance);
      }
      return scf::IfOp::create(
                 builder, location, isInside,
                 [&](OpBuilder &inner, Location at) {
                   auto given = tensor::ExtractOp::create(inner, at, source, within);
                   given->setAttr(intarsia::legalize::insideAttr, inner.getUnitAttr());
                   scf::YieldOp::create(inner, at, given.getResult());
                 },
                 [&](OpBuilder &inner, Location at) {
                   Value old = tensor::ExtractOp::create(inner, at, op.getDest(), position);
                   scf::YieldOp::create(inner, at, old);
                 })
          .getResult(0);
    };
    rewriter.replaceOp(op, generate(rewriter, location, op.getType(), sizes, element));
    return success();
  }
};

/// tensor.insert_slice: the parts before and behind the slice are concatenated with it, dimension by dimension.
struct InsertSliceToConcat : OpRewritePattern<tensor::InsertSliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::InsertSliceOp op, PatternRewriter &rewriter) const override {
    if (!op.hasUnitStride() || llvm::any_of(op.getMixedOffsets(), isData) || llvm::any_of(op.getMixedSizes(), isData))
      return failure();
    Location location = op.getLoc();
    if (isEmpty(op)) {
      rewriter.replaceOp(op, op.getDest());
      return success();
    }
    Value source = wholeSource(op, rewriter);
    if (!source)
      return failure();
    Value result = insert(rewriter, op, source, op.getDest(), 0);
    if (result.getType() != op.getType())
      result = tensor::CastOp::create(rewriter, location, op.getType(), result);
    rewriter.replaceOp(op, result);
    return success();
  }

private:
  static Value insert(PatternRewriter &rewriter, tensor::InsertSliceOp op, Value source, Value dest,
                      int64_t dimension) {
    if (dimension == op.getType().getRank())
      return source;
    Location location = op.getLoc();
    OpFoldResult offset = op.getMixedOffsets()[dimension], size = op.getMixedSizes()[dimension];
    OpFoldResult whole = sizeOf(rewriter, location, dest, dimension);
    bool beginsThere = isConstantIntValue(offset, 0);
    if (beginsThere && isSame(size, whole))
      return insert(rewriter, op, source, dest, dimension + 1);
    OpFoldResult end = combine<arith::AddIOp>(rewriter, location, offset, size);
    Value middle = part(rewriter, location, dest, dimension, offset, size);
    SmallVector<Value> pieces;
    if (!beginsThere)
      pieces.push_back(part(rewriter, location, dest, dimension, rewriter.getIndexAttr(0), offset));
    pieces.push_back(insert(rewriter, op, source, middle, dimension + 1));
    if (!isSame(end, whole))
      pieces.push_back(
          part(rewriter, location, dest, dimension, end, combine<arith::SubIOp>(rewriter, location, whole, end)));
    if (pieces.size() == 1)
      return pieces[0];
    return tensor::ConcatOp::create(rewriter, location, cast<RankedTensorType>(dest.getType()), dimension, pieces);
  }
};

struct GenerateToGeneric : OpRewritePattern<tensor::GenerateOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::GenerateOp op, PatternRewriter &rewriter) const override {
    Block &body = op.getBody().front();
    auto element = [&](OpBuilder &builder, ArrayRef<Value> position) {
      IRMapping mapping;
      mapping.map(body.getArguments(), position);
      for (Operation &inner : body.without_terminator())
        builder.clone(inner, mapping);
      return mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
    };
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<OpFoldResult> sizes = getMixedValues(type.getShape(), op.getDynamicExtents(), rewriter);
    rewriter.replaceOp(op, generate(rewriter, op.getLoc(), type, sizes, element));
    return success();
  }
};

/// tensor.gather: each element is read at its index in the source.
struct GatherToGeneric : OpRewritePattern<tensor::GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::GatherOp op, PatternRewriter &rewriter) const override {
    Location location = op.getLoc();
    RankedTensorType type = op.getResultType();
    int64_t batch = op.getIndicesType().getRank() - 1, rank = op.getSourceType().getRank();
    bool keepsOnes = type.getRank() == batch + rank;
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, location, op.getIndices());
    sizes.pop_back();
    SmallVector<bool> isGathered(rank, false);
    for (int64_t dimension : op.getGatherDims())
      isGathered[dimension] = true;
    for (int64_t dimension = 0; dimension < rank; ++dimension)
      if (!isGathered[dimension])
        sizes.push_back(tensor::getMixedSize(rewriter, location, op.getSource(), dimension));
      else if (keepsOnes)
        sizes.push_back(rewriter.getIndexAttr(1));
    auto element = [&](OpBuilder &builder, ArrayRef<Value> position) -> Value {
      SmallVector<Value> at(rank);
      for (auto [column, dimension] : llvm::enumerate(op.getGatherDims())) {
        SmallVector<Value> where(position.take_front(batch));
        where.push_back(arith::ConstantIndexOp::create(builder, location, column));
        Value index = tensor::ExtractOp::create(builder, location, op.getIndices(), where);
        if (!index.getType().isIndex())
          index = arith::IndexCastOp::create(builder, location, builder.getIndexType(), index);
        at[dimension] = index;
      }
      ArrayRef<Value> rest = position.drop_front(batch);
      for (int64_t dimension = 0; dimension < rank; ++dimension) {
        if (!isGathered[dimension])
          at[dimension] = rest.front();
        if (!isGathered[dimension] || keepsOnes)
          rest = rest.drop_front();
      }
      auto extract = tensor::ExtractOp::create(builder, location, op.getSource(), at);
      extract->setAttr(intarsia::legalize::writtenAsAttr, builder.getStringAttr(op->getName().getStringRef()));
      return extract;
    };
    rewriter.replaceOp(op, generate(rewriter, location, type, sizes, element));
    return success();
  }
};

/// tensor.insert of a scalar.
struct InsertToGeneric : OpRewritePattern<tensor::InsertOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::InsertOp op, PatternRewriter &rewriter) const override {
    Location location = op.getLoc();
    auto type = cast<RankedTensorType>(op.getType());
    for (auto [dimension, index] : llvm::enumerate(op.getIndices()))
      if (isData(index))
        assertBelow(rewriter, op, index, tensor::DimOp::create(rewriter, location, op.getDest(), dimension), dimension);
    auto element = [&](OpBuilder &builder, ArrayRef<Value> position) -> Value {
      Value old = tensor::ExtractOp::create(builder, location, op.getDest(), position);
      Value isHere = arith::ConstantOp::create(builder, location, builder.getBoolAttr(true));
      for (auto [here, wanted] : llvm::zip_equal(position, op.getIndices()))
        isHere =
            arith::AndIOp::create(builder, location, isHere,
                                  arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, here, wanted));
      return arith::SelectOp::create(builder, location, isHere, op.getScalar(), old);
    };
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, location, op.getDest());
    rewriter.replaceOp(op, generate(rewriter, location, type, sizes, element));
    return success();
  }
};

/// tensor.from_elements: each position selects its element.
struct FromElementsToGeneric : OpRewritePattern<tensor::FromElementsOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tensor::FromElementsOp op, PatternRewriter &rewriter) const override {
    Location location = op.getLoc();
    auto type = cast<RankedTensorType>(op.getType());
    if (type.getNumElements() == 0)
      return failure();
    auto element = [&](OpBuilder &builder, ArrayRef<Value> position) -> Value {
      Value flat = arith::ConstantIndexOp::create(builder, location, 0);
      for (auto [index, size] : llvm::zip_equal(position, type.getShape()))
        flat = arith::AddIOp::create(
            builder, location,
            arith::MulIOp::create(builder, location, flat, arith::ConstantIndexOp::create(builder, location, size)),
            index);
      Value result = op.getElements().back();
      for (int64_t i = static_cast<int64_t>(op.getElements().size()) - 2; i >= 0; --i) {
        Value isHere = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, flat,
                                             arith::ConstantIndexOp::create(builder, location, i));
        result = arith::SelectOp::create(builder, location, isHere, op.getElements()[i], result);
      }
      return result;
    };
    SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(rewriter.getContext(), type.getShape());
    rewriter.replaceOp(op, generate(rewriter, location, type, sizes, element));
    return success();
  }
};

struct LegalizeTensors : intarsia::legalize::impl::LegalizeTensorsBase<LegalizeTensors> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<PadToConcat, ExtractSliceToGeneric, InsertSliceToConcat, InsertSliceToGeneric, GenerateToGeneric,
                 GatherToGeneric, InsertToGeneric, FromElementsToGeneric>(&getContext());
    if (failed(intarsia::legalize::rewrite(getOperation(), std::move(patterns))) || failed(refuse()))
      return signalPassFailure();
    placeEmpties();
  }

  /// Gives regions that write an empty tensor from outside one of their own: it has nothing that they could read.
  void placeEmpties() {
    SmallVector<tensor::EmptyOp> empties;
    getOperation().walk([&](tensor::EmptyOp empty) { empties.push_back(empty); });
    for (tensor::EmptyOp empty : empties)
      for (OpOperand &use : llvm::make_early_inc_range(empty->getUses()))
        if (use.getOwner()->getBlock() != empty->getBlock())
          use.set(OpBuilder(use.getOwner()).clone(*empty)->getResult(0));
  }

  /// Refuses sizes that are data: buffers are planned before a call's kernels run.
  LogicalResult refuse() {
    WalkResult result = getOperation().walk([](Operation *op) -> WalkResult {
      if (isa<tensor::EmptyOp, tensor::SplatOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
            return operand.getType().isIndex() && isData(OpFoldResult(operand));
          }))
        return op->emitError()
               << "a size of '" << op->getName()
               << "' is read from a tensor or an argument: sizes must follow from the sizes of arguments";
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }
};
} // namespace
