//===- LegalizeTmTensor.cpp - What torch-mlir writes beside linalg -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/TmTensor/TmTensor.h"
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZETMTENSOR
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;

namespace {

using Body = function_ref<Value(OpBuilder &, Location, ValueRange)>;

Value number(OpBuilder &builder, Location location, int64_t value) {
  return arith::ConstantIndexOp::create(builder, location, value);
}

Value emptyLike(OpBuilder &builder, Location location, Value shaped, Type element) {
  return tensor::EmptyOp::create(builder, location, tensor::getMixedSizes(builder, location, shaped), element);
}

/// A generic op whose body gets the elements of inputs and outputs.
Value generic(OpBuilder &builder, Location location, ValueRange inputs, Value init, ArrayRef<AffineMap> maps,
              ArrayRef<utils::IteratorType> iterators, Body body) {
  return linalg::GenericOp::create(builder, location, TypeRange{init.getType()}, inputs, ValueRange{init}, maps,
                                   iterators,
                                   [&](OpBuilder &inner, Location at, ValueRange values) {
                                     linalg::YieldOp::create(inner, at, body(inner, at, values));
                                   })
      .getResult(0);
}

/// Reads an element at an index that is inside by what computed it.
Value read(OpBuilder &builder, Location location, Value tensor, ValueRange position) {
  auto extract = tensor::ExtractOp::create(builder, location, tensor, position);
  extract->setAttr(legalize::insideAttr, builder.getUnitAttr());
  return extract;
}

/// Inlines the region of an op for given elements.
Value inlined(Block &region, ValueRange elements, OpBuilder &builder) {
  IRMapping mapping;
  mapping.map(region.getArguments(), elements);
  for (Operation &op : region.without_terminator())
    builder.clone(op, mapping);
  return mapping.lookupOrDefault(region.getTerminator()->getOperand(0));
}

/// tm_tensor.scan becomes nn.cumulate, between transposes where it is not along the last dimension.
struct LowerScan : OpRewritePattern<tm_tensor::ScanOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Returns what the region of a scan combines its two arguments by; none if that is no kind of nn.cumulate.
  static std::optional<vector::CombiningKind> kindOf(tm_tensor::ScanOp op) {
    Block &body = op.getRegion().front();
    Operation *combine = body.getTerminator()->getOperand(0).getDefiningOp();
    bool isWhole = combine && combine == &body.front() && combine->getNumOperands() == 2 &&
                   combine->getOperand(0) != combine->getOperand(1) &&
                   llvm::all_of(combine->getOperands(), llvm::IsaPred<BlockArgument>);
    return isWhole ? linalg::getCombinerOpKind(combine) : std::nullopt;
  }

  /// Returns why a scan is not rewritten; empty if it is.
  static StringRef refused(tm_tensor::ScanOp op) {
    if (!kindOf(op))
      return "has a region that is no sum, product, minimum, maximum or bitwise op of its two arguments";
    bool isDynamic = cast<RankedTensorType>(op.getInputs()[0].getType()).isDynamicDim(op.getDimension());
    return isDynamic && !op.getResult(1).use_empty()
               ? "is along a dynamic dimension, and its second result is read; read the last element of the first one"
               : "";
  }

  LogicalResult matchAndRewrite(tm_tensor::ScanOp op, PatternRewriter &rewriter) const override {
    if (!refused(op).empty())
      return failure();
    vector::CombiningKind kind = *kindOf(op);
    Location location = op.getLoc();
    Value input = op.getInputs()[0], start = op.getOutputs()[1];
    auto type = cast<RankedTensorType>(input.getType());
    int64_t dimension = op.getDimension(), rank = type.getRank();
    SmallVector<int64_t> swapped = llvm::to_vector(llvm::seq(rank));
    std::swap(swapped[dimension], swapped[rank - 1]);
    auto transposed = [&](Value value) -> Value {
      if (dimension == rank - 1)
        return value;
      SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, location, value);
      applyPermutationToVector(sizes, swapped);
      Value empty = tensor::EmptyOp::create(rewriter, location, sizes, type.getElementType());
      return linalg::TransposeOp::create(rewriter, location, value, empty, swapped).getResult()[0];
    };
    bool isExclusive = !op.getInclusive();
    Value rows = transposed(input);
    Value result = transposed(nn::CumulateOp::create(rewriter, location, rows, kind, isExclusive, /*reverse=*/false));
    auto combined = [&](ValueRange values, Value like, AffineMap ofStart) {
      AffineMap identity = rewriter.getMultiDimIdentityMap(cast<RankedTensorType>(like.getType()).getRank());
      SmallVector<utils::IteratorType> parallel(identity.getNumDims(), utils::IteratorType::parallel);
      return generic(rewriter, location, values, emptyLike(rewriter, location, like, type.getElementType()),
                     {ofStart, identity, identity}, parallel, [&](OpBuilder &inner, Location, ValueRange elements) {
                       return inlined(op.getRegion().front(), elements.take_front(2), inner);
                     });
    };
    // An exclusive scan begins with what its second output holds.
    AffineMap ofRow = rewriter.getMultiDimIdentityMap(rank).dropResult(dimension);
    if (isExclusive)
      result = combined({start, result}, result, ofRow);
    // The last element of each row, or what the output holds where rows have none.
    Value last = start;
    if (int64_t length = type.getDimSize(dimension); length != 0 && !op.getResult(1).use_empty()) {
      SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, location, result);
      SmallVector<OpFoldResult> offsets(rank, rewriter.getIndexAttr(0)), strides(rank, rewriter.getIndexAttr(1));
      offsets[dimension] = rewriter.getIndexAttr(length - 1);
      sizes[dimension] = rewriter.getIndexAttr(1);
      last = tensor::ExtractSliceOp::create(rewriter, location, cast<RankedTensorType>(start.getType()), result,
                                            offsets, sizes, strides);
    }
    rewriter.replaceOp(op, {result, last});
    return success();
  }
};

/// tm_tensor.sort becomes nn.sort of its first tensor, whose indices say what is read of each. Equal elements keep
/// their order, and NaN is larger than all numbers.
struct LowerSort : OpRewritePattern<tm_tensor::SortOp> {
  using OpRewritePattern::OpRewritePattern;

  /// How elements are compared: the first one of the outputs, descending or ascending.
  struct Order {
    bool isDescending, isFloat, isUnsigned = false;
  };

  static std::optional<Order> orderOf(tm_tensor::SortOp op) {
    Block &body = op.getRegion().front();
    Operation *compare = body.getTerminator()->getOperand(0).getDefiningOp();
    if (!compare || compare != &body.front() || compare->getNumOperands() != 2)
      return std::nullopt;
    BlockArgument a = body.getArgument(0), b = body.getArgument(1);
    bool isSwapped = compare->getOperand(0) == b && compare->getOperand(1) == a;
    if (!isSwapped && !(compare->getOperand(0) == a && compare->getOperand(1) == b))
      return std::nullopt;
    if (auto floats = dyn_cast<arith::CmpFOp>(compare)) {
      using P = arith::CmpFPredicate;
      bool isGreater = llvm::is_contained({P::OGT, P::OGE, P::UGT, P::UGE}, floats.getPredicate());
      if (!isGreater && !llvm::is_contained({P::OLT, P::OLE, P::ULT, P::ULE}, floats.getPredicate()))
        return std::nullopt;
      return Order{isGreater != isSwapped, true};
    }
    auto integers = dyn_cast<arith::CmpIOp>(compare);
    if (!integers)
      return std::nullopt;
    using P = arith::CmpIPredicate;
    bool isGreater = llvm::is_contained({P::sgt, P::sge, P::ugt, P::uge}, integers.getPredicate());
    if (!isGreater && !llvm::is_contained({P::slt, P::sle, P::ult, P::ule}, integers.getPredicate()))
      return std::nullopt;
    return Order{isGreater != isSwapped, false,
                 llvm::is_contained({P::ugt, P::uge, P::ult, P::ule}, integers.getPredicate())};
  }

  static StringRef refused(tm_tensor::SortOp op) {
    return orderOf(op) ? "" : "has a region that is no comparison of its first two arguments by size";
  }

  LogicalResult matchAndRewrite(tm_tensor::SortOp op, PatternRewriter &rewriter) const override {
    std::optional<Order> order = orderOf(op);
    if (!order)
      return failure();
    int64_t size = cast<RankedTensorType>(op.getOutputs()[0].getType()).getDimSize(op.getDimension());
    if (ShapedType::isStatic(size) && size < 2) {
      rewriter.replaceOp(op, op.getOutputs());
      return success();
    }
    Location location = op.getLoc();
    Value first = op.getOutputs()[0];
    int64_t rank = cast<RankedTensorType>(first.getType()).getRank(), dimension = op.getDimension();
    AffineMap identity = rewriter.getMultiDimIdentityMap(rank);
    SmallVector<utils::IteratorType> parallel(rank, utils::IteratorType::parallel);
    // nn.sort takes integers with a sign, and bits without one: the highest bit is the sign.
    Value keys = first;
    Type element = cast<RankedTensorType>(first.getType()).getElementType();
    if (!order->isFloat && order->isUnsigned != element.isInteger(1))
      keys = generic(rewriter, location, {first}, emptyLike(rewriter, location, first, element), {identity, identity},
                     parallel, [&](OpBuilder &b, Location at, ValueRange values) -> Value {
                       APInt sign = APInt::getSignMask(element.getIntOrFloatBitWidth());
                       Value bit = arith::ConstantOp::create(b, at, b.getIntegerAttr(element, sign));
                       return arith::XOrIOp::create(b, at, values[0], bit);
                     });
    auto sorted = nn::SortOp::create(rewriter, location, keys, dimension, order->isDescending);
    SmallVector<Value> results;
    for (Value output : op.getOutputs()) {
      Type element = cast<RankedTensorType>(output.getType()).getElementType();
      results.push_back(generic(rewriter, location, {sorted.getIndices()},
                                emptyLike(rewriter, location, output, element), {identity, identity}, parallel,
                                [&](OpBuilder &b, Location at, ValueRange values) -> Value {
                                  SmallVector<Value> position;
                                  for (int64_t d = 0; d < rank; ++d)
                                    position.push_back(linalg::IndexOp::create(b, at, d));
                                  position[dimension] = arith::IndexCastOp::create(b, at, b.getIndexType(), values[0]);
                                  return read(b, at, output, position);
                                }));
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// tm_tensor.scatter: each element of the original goes through all updates, in their order.
struct LowerScatter : OpRewritePattern<tm_tensor::ScatterOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tm_tensor::ScatterOp op, PatternRewriter &rewriter) const override {
    Location location = op.getLoc();
    Value updates = op.getInputs()[0], indices = op.getInputs()[1], original = op.getOutputs()[0];
    int64_t rank = cast<RankedTensorType>(original.getType()).getRank();
    int64_t sliceRank = cast<RankedTensorType>(updates.getType()).getRank() - 1;
    SmallVector<std::optional<unsigned>> column(rank);
    for (auto [number, dimension] : llvm::enumerate(op.getDimensionMap()))
      column[dimension] = number;
    // How far slices reach, and how far the original does.
    SmallVector<Value> reach(rank), whole(rank);
    for (int64_t d = 0; d < rank; ++d) {
      whole[d] = tensor::DimOp::create(rewriter, location, original, d);
      int64_t sliceDimension = d - (rank - sliceRank);
      reach[d] = sliceDimension < 0
                     ? number(rewriter, location, 1)
                     : tensor::DimOp::create(rewriter, location, updates, sliceDimension + 1).getResult();
    }
    auto require = [&](arith::CmpIPredicate relation, Value a, Value b, const Twine &message) {
      if (getConstantIntValue(a) && getConstantIntValue(b))
        return; // by the verifier
      Value holds = arith::CmpIOp::create(rewriter, location, relation, a, b);
      cf::AssertOp::create(rewriter, location, holds, message.str());
    };
    auto sizeOf = [&](Value tensor, int64_t dimension) {
      return getValueOrCreateConstantIndexOp(rewriter, location,
                                             tensor::getMixedSize(rewriter, location, tensor, dimension));
    };
    require(arith::CmpIPredicate::eq, sizeOf(updates, 0), sizeOf(indices, 0),
            "'tm_tensor.scatter' has an index for each update");
    for (int64_t d = rank - sliceRank; d < rank; ++d)
      require(arith::CmpIPredicate::sle, sizeOf(updates, d - (rank - sliceRank) + 1), sizeOf(original, d),
              "slices of 'tm_tensor.scatter' are no larger than the original in dimension " + Twine(d));
    // A body that gives nothing but assertions: each slice is inside.
    Type i64 = rewriter.getI64Type(), index = rewriter.getIndexType();
    auto at = [&](OpBuilder &b, Value update, unsigned number) -> Value {
      Value read = tensor::ExtractOp::create(b, location, indices,
                                             ValueRange{update, arith::ConstantIndexOp::create(b, location, number)});
      return read.getType().isIndex() ? read : arith::IndexCastOp::create(b, location, index, read).getResult();
    };
    MLIRContext *context = op.getContext();
    SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
    iterators.push_back(utils::IteratorType::reduction);
    AffineMap element = rewriter.getMultiDimIdentityMap(rank + 1).dropResult(rank);
    // Says how often the last loop runs.
    Value counts =
        tensor::EmptyOp::create(rewriter, location, tensor::getMixedSizes(rewriter, location, indices).front(), i64);
    Value zero = arith::ConstantOp::create(rewriter, location, rewriter.getI64IntegerAttr(0));
    counts = linalg::FillOp::create(rewriter, location, zero, counts).getResult(0);
    AffineMap ofUpdate = AffineMap::get(rank + 1, 0, getAffineDimExpr(rank, context));
    auto body = [&](OpBuilder &b, Location, ValueRange values) -> Value {
      Value update = linalg::IndexOp::create(b, location, rank), isHit;
      SmallVector<Value> position{update};
      for (int64_t d = 0; d < rank; ++d) {
        Value distance = linalg::IndexOp::create(b, location, d);
        if (column[d]) {
          Value begin = at(b, update, *column[d]);
          Value room = arith::AddIOp::create(b, location, arith::SubIOp::create(b, location, whole[d], reach[d]),
                                             number(b, location, 1));
          room = arith::MaxSIOp::create(b, location, room, number(b, location, 0)); // there is none for longer slices
          cf::AssertOp::create(b, location, arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, begin, room),
                               ("index of '" + op->getName().getStringRef() + "' in dimension " + Twine(d)).str());
          distance = arith::SubIOp::create(b, location, distance, begin);
        }
        Value isHere = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, distance, reach[d]);
        isHit = isHit ? arith::AndIOp::create(b, location, isHit, isHere).getResult() : isHere;
        if (d >= rank - sliceRank)
          position.push_back(distance);
      }
      if (!isHit)
        isHit = arith::ConstantOp::create(b, location, b.getBoolAttr(true));
      return scf::IfOp::create(
                 b, location, isHit,
                 [&](OpBuilder &inner, Location there) {
                   Value given = read(inner, there, updates, position);
                   scf::YieldOp::create(inner, there, inlined(op.getRegion().front(), {given, values[1]}, inner));
                 },
                 [&](OpBuilder &inner, Location there) { scf::YieldOp::create(inner, there, values[1]); })
          .getResult(0);
    };
    rewriter.replaceOp(op, generic(rewriter, location, {counts}, original, {ofUpdate, element}, iterators, body));
    return success();
  }
};

struct LegalizeTmTensor : legalize::impl::LegalizeTmTensorBase<LegalizeTmTensor> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<LowerScan, LowerSort, LowerScatter>(&getContext());
    if (failed(legalize::rewrite(getOperation(), std::move(patterns))))
      return signalPassFailure();
    WalkResult result = getOperation().walk([](Operation *op) -> WalkResult {
      StringRef why;
      if (auto scan = dyn_cast<tm_tensor::ScanOp>(op))
        why = LowerScan::refused(scan);
      else if (auto sort = dyn_cast<tm_tensor::SortOp>(op))
        why = LowerSort::refused(sort);
      if (why.empty())
        return WalkResult::advance();
      return op->emitError() << "'" << op->getName() << "' " << why;
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
