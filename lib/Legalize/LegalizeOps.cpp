//===- LegalizeOps.cpp - Decomposes ops that are made of others --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "dialects/Nn/Ops/Constants/Constants.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include <cmath>

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZEOPS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

/// linalg.softmax: maximum, exponentials, sum, quotient, in f32 at least. Upstream starts maxnumf from NaN; maximumf is
/// used here because it is one instruction, and NaN among the elements gives NaN all the same.
struct DecomposeSoftmax : OpRewritePattern<linalg::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  using Body = function_ref<Value(OpBuilder &, Location, ValueRange)>;

  LogicalResult matchAndRewrite(linalg::SoftmaxOp op, PatternRewriter &rewriter) const override {
    if (!op.hasPureTensorSemantics() || !isa<FloatType>(op.getInputOperandType().getElementType()))
      return failure();
    Value input = op.getInput();
    Value largest = reduce(
        op, input, -std::numeric_limits<double>::infinity(), rewriter,
        [](OpBuilder &b, Location at, ValueRange v) -> Value { return arith::MaximumFOp::create(b, at, v[0], v[1]); });
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, op.getLoc(), input);
    Value wide = tensor::EmptyOp::create(rewriter, op.getLoc(), sizes, computedIn(op));
    Value exponentials =
        combine(op, input, largest, wide, rewriter, [](OpBuilder &b, Location at, ValueRange v) -> Value {
          return math::ExpOp::create(b, at, arith::SubFOp::create(b, at, v[0], v[1]));
        });
    Value sum = reduce(op, exponentials, 0.0, rewriter, [](OpBuilder &b, Location at, ValueRange v) -> Value {
      return arith::AddFOp::create(b, at, v[0], v[1]);
    });
    rewriter.replaceOp(op, combine(op, exponentials, sum, op.getOutput(), rewriter,
                                   [](OpBuilder &b, Location at, ValueRange v) -> Value {
                                     return arith::DivFOp::create(b, at, v[0], v[1]);
                                   }));
    return success();
  }

private:
  static FloatType computedIn(linalg::SoftmaxOp op) {
    auto element = cast<FloatType>(op.getInputOperandType().getElementType());
    return element.getWidth() < 32 ? FloatType(Float32Type::get(op.getContext())) : element;
  }

  static AffineMap withoutDimension(linalg::SoftmaxOp op, OpBuilder &builder) {
    return builder.getMultiDimIdentityMap(op.getInputOperandRank()).dropResult(op.getDimension());
  }

  static Value generic(linalg::SoftmaxOp op, ValueRange inputs, Value init, ArrayRef<AffineMap> maps,
                       utils::IteratorType ofDimension, OpBuilder &builder, Body body) {
    SmallVector<utils::IteratorType> iterators(op.getInputOperandRank(), utils::IteratorType::parallel);
    iterators[op.getDimension()] = ofDimension;
    Type wide = computedIn(op), result = getElementTypeOrSelf(init);
    auto build = [&](OpBuilder &inner, Location at, ValueRange values) {
      SmallVector<Value> widened;
      for (Value value : values)
        widened.push_back(value.getType() == wide ? value : arith::ExtFOp::create(inner, at, wide, value).getResult());
      Value computed = body(inner, at, widened);
      if (computed.getType() != result)
        computed = arith::TruncFOp::create(inner, at, result, computed);
      linalg::YieldOp::create(inner, at, computed);
    };
    return linalg::GenericOp::create(builder, op.getLoc(), TypeRange{init.getType()}, inputs, ValueRange{init}, maps,
                                     iterators, build)
        .getResult(0);
  }

  static Value reduce(linalg::SoftmaxOp op, Value input, double start, OpBuilder &builder, Body body) {
    Location location = op.getLoc();
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, location, op.getInput());
    sizes.erase(sizes.begin() + op.getDimension());
    Value constant = arith::ConstantOp::create(builder, location, builder.getFloatAttr(computedIn(op), start));
    Value empty = tensor::EmptyOp::create(builder, location, sizes, computedIn(op));
    Value init = linalg::FillOp::create(builder, location, constant, empty).getResult(0);
    return generic(op, input, init,
                   {builder.getMultiDimIdentityMap(op.getInputOperandRank()), withoutDimension(op, builder)},
                   utils::IteratorType::reduction, builder, body);
  }

  static Value combine(linalg::SoftmaxOp op, Value input, Value reduced, Value init, OpBuilder &builder, Body body) {
    AffineMap identity = builder.getMultiDimIdentityMap(op.getInputOperandRank());
    return generic(op, {input, reduced}, init, {identity, withoutDimension(op, builder), identity},
                   utils::IteratorType::parallel, builder, body);
  }
};

struct LowerPack : OpRewritePattern<linalg::PackOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::PackOp op, PatternRewriter &rewriter) const override {
    return linalg::lowerPack(rewriter, op);
  }
};

struct LowerUnpack : OpRewritePattern<linalg::UnPackOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::UnPackOp op, PatternRewriter &rewriter) const override {
    return linalg::lowerUnPack(rewriter, op);
  }
};

/// The product of integers in two halves, by one of twice the width.
template <typename Op, typename Extend> struct WidenProduct : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Type type = op.getLow().getType(), element = getElementTypeOrSelf(type);
    unsigned width = element.getIntOrFloatBitWidth();
    if (!element.isInteger() || width > 32)
      return failure();
    Location location = op.getLoc();
    Type wideElement = rewriter.getIntegerType(std::max(8u, 2 * width)); // memory holds no narrower ones
    auto shaped = dyn_cast<RankedTensorType>(type);
    Type wide = shaped ? Type(shaped.clone(wideElement)) : wideElement;
    if (isa<ShapedType>(type) && !shaped)
      return failure();
    Value half = intarsia::legalize::constantLike(rewriter, location, wide, rewriter.getIntegerAttr(wideElement, width),
                                                  op.getLhs());
    Value product = arith::MulIOp::create(rewriter, location, Extend::create(rewriter, location, wide, op.getLhs()),
                                          Extend::create(rewriter, location, wide, op.getRhs()));
    Value high = arith::ShRUIOp::create(rewriter, location, product, half);
    rewriter.replaceOp(op, {arith::TruncIOp::create(rewriter, location, type, product),
                            arith::TruncIOp::create(rewriter, location, type, high)});
    return success();
  }
};

/// The sum of integers with its carry: the sum is less than a summand where there is one.
struct ExpandCarry : OpRewritePattern<arith::AddUIExtendedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddUIExtendedOp op, PatternRewriter &rewriter) const override {
    Value sum = arith::AddIOp::create(rewriter, op.getLoc(), op.getLhs(), op.getRhs());
    Value carry = arith::CmpIOp::create(rewriter, op.getLoc(), arith::CmpIPredicate::ult, sum, op.getLhs());
    rewriter.replaceOp(op, {sum, carry});
    return success();
  }
};

/// The remainder of floats as C's fmod has it, exactly, in f64: steps subtract multiples of the divisor times 2^k,
/// whose factors have at most 28 bits, so that no product is rounded. The largest quotient of f32 is below 2^278.
struct ExpandRemainder : OpRewritePattern<arith::RemFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::RemFOp op, PatternRewriter &rewriter) const override {
    Type type = op.getType();
    auto shaped = dyn_cast<RankedTensorType>(type);
    if (getElementTypeOrSelf(type).getIntOrFloatBitWidth() > 32 || (isa<ShapedType>(type) && !shaped))
      return failure();
    Location location = op.getLoc();
    Type f32 = rewriter.getF32Type(), f64 = rewriter.getF64Type();
    Type single = shaped ? Type(shaped.clone(f32)) : f32, wide = shaped ? Type(shaped.clone(f64)) : f64;
    auto widened = [&](Value value) -> Value { // processors have no instruction from narrower floats to f64
      if (type != single)
        value = arith::ExtFOp::create(rewriter, location, single, value);
      return arith::ExtFOp::create(rewriter, location, wide, value);
    };
    auto constant = [&](double number) {
      return intarsia::legalize::constantLike(rewriter, location, wide, rewriter.getFloatAttr(f64, number),
                                              op.getLhs());
    };
    Value left = widened(op.getLhs()), right = widened(op.getRhs());
    Value rest = math::AbsFOp::create(rewriter, location, left),
          divisor = math::AbsFOp::create(rewriter, location, right);
    Value zero = constant(0);
    for (int exponent = 252; exponent >= 0; exponent -= 28) {
      Value multiple = arith::MulFOp::create(rewriter, location, divisor, constant(std::ldexp(1.0, exponent)));
      Value quotient = math::TruncOp::create(rewriter, location,
                                             arith::DivFOp::create(rewriter, location, rest, multiple).getResult());
      Value product = arith::MulFOp::create(rewriter, location, quotient, multiple);
      Value less = arith::SubFOp::create(rewriter, location, rest, product);
      // A quotient that was rounded up to the next number is one too large.
      Value isBelow = arith::CmpFOp::create(rewriter, location, arith::CmpFPredicate::OLT, less, zero);
      Value more = arith::AddFOp::create(rewriter, location, less, multiple);
      rest = arith::SelectOp::create(rewriter, location, isBelow, more, less);
    }
    Value result = math::CopySignOp::create(rewriter, location, rest, left);
    Value isInfinite = arith::CmpFOp::create(rewriter, location, arith::CmpFPredicate::OEQ, divisor,
                                             constant(std::numeric_limits<double>::infinity()));
    Value isFinite = arith::CmpFOp::create(rewriter, location, arith::CmpFPredicate::OLT,
                                           math::AbsFOp::create(rewriter, location, left).getResult(),
                                           constant(std::numeric_limits<double>::infinity()));
    Value isWhole = arith::AndIOp::create(rewriter, location, isInfinite, isFinite);
    result = arith::SelectOp::create(rewriter, location, isWhole, left, result);
    result = arith::TruncFOp::create(rewriter, location, single, result); // which holds it
    rewriter.replaceOp(op,
                       type == single ? result : arith::TruncFOp::create(rewriter, location, type, result).getResult());
    return success();
  }
};

/// True if a resource has the bytes of a type.
bool hasBytes(DenseResourceElementsAttr resource) {
  AsmResourceBlob *blob = resource.getRawHandle().getBlob();
  auto type = cast<ShapedType>(resource.getType());
  bool isSplat = false;
  return blob && DenseElementsAttr::isValidRawBuffer(type, blob->getData(), isSplat) &&
         (!isSplat || type.getNumElements() == 1);
}

/// Returns the elements of a resource of i1 that has a byte for each, 0 or 1, as arrays of other programs have them;
/// nullopt for other resources.
std::optional<SmallVector<bool>> boolsInBytes(DenseResourceElementsAttr resource) {
  AsmResourceBlob *blob = resource.getRawHandle().getBlob();
  auto type = cast<ShapedType>(resource.getType());
  if (!blob || !type.getElementType().isInteger(1) || int64_t(blob->getData().size()) != type.getNumElements() ||
      llvm::any_of(blob->getData(), [](char byte) { return byte != 0 && byte != 1; }))
    return std::nullopt;
  return llvm::map_to_vector(blob->getData(), [](char byte) { return byte == 1; });
}

/// Larger ones stay as they are, and become weights (LegalizeConstants.cpp). Those of many bits may be indices, which
/// checks look at (LegalizeChecks.cpp): up to a million of them.
bool staysConstant(ShapedType type) {
  std::optional<int64_t> bytes = intarsia::nn::storedBytes(type);
  bool mayBeIndices = type.getElementType().isSignlessInteger() && type.getElementTypeBitWidth() >= 32;
  return !bytes || *bytes < (mayBeIndices ? 8 << 20 : intarsia::nn::leastWeightBytes);
}

/// Turns dense_resource constants into dense ones.
struct TakeResource : OpRewritePattern<arith::ConstantOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ConstantOp op, PatternRewriter &rewriter) const override {
    auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue());
    if (!resource)
      return failure();
    auto type = cast<ShapedType>(resource.getType());
    if (!staysConstant(type))
      return failure();
    if (std::optional<SmallVector<bool>> bools = boolsInBytes(resource)) {
      rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, DenseElementsAttr::get(type, ArrayRef<bool>(*bools)));
      return success();
    }
    if (!hasBytes(resource))
      return failure();
    ArrayRef<char> bytes = resource.getRawHandle().getBlob()->getData();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, DenseElementsAttr::getFromRawBuffer(type, bytes));
    return success();
  }
};

struct TakeAllocation : OpRewritePattern<bufferization::AllocTensorOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(bufferization::AllocTensorOp op, PatternRewriter &rewriter) const override {
    if (Value copy = op.getCopy())
      rewriter.replaceOp(op, copy);
    else
      rewriter.replaceOpWithNewOp<tensor::EmptyOp>(op, op.getType(), op.getDynamicSizes());
    return success();
  }
};

/// Replaces poison by zero; any value is allowed.
struct TakePoison : OpRewritePattern<ub::PoisonOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ub::PoisonOp op, PatternRewriter &rewriter) const override {
    auto shaped = dyn_cast<RankedTensorType>(op.getType());
    if (!getElementTypeOrSelf(op.getType()).isIntOrIndexOrFloat() ||
        (isa<ShapedType>(op.getType()) && !(shaped && shaped.hasStaticShape())))
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, cast<TypedAttr>(rewriter.getZeroAttr(op.getType())));
    return success();
  }
};

struct DropAssertion : OpRewritePattern<cf::AssertOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(cf::AssertOp op, PatternRewriter &rewriter) const override {
    if (!matchPattern(op.getArg(), m_One()))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

/// True where the size of a tensor is compared with zero, which no size is below.
struct FoldSizeAtLeastZero : OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::CmpIOp op, PatternRewriter &rewriter) const override {
    Value left = op.getLhs();
    while (auto cast = left.getDefiningOp<arith::IndexCastOp>())
      left = cast.getIn();
    if (op.getPredicate() != arith::CmpIPredicate::sge || !left.getDefiningOp<tensor::DimOp>() ||
        !matchPattern(op.getRhs(), m_Zero()))
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, rewriter.getBoolAttr(true));
    return success();
  }
};

/// affine.apply, min and max become arithmetic.
template <typename Op, typename Combine> struct ExpandAffine : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    AffineMap map = op.getAffineMap();
    ValueRange operands = op->getOperands();
    std::optional<SmallVector<Value, 8>> values = affine::expandAffineMap(rewriter, op.getLoc(), map, operands);
    if (!values)
      return failure();
    Value result = values->front();
    for (Value value : ArrayRef(*values).drop_front())
      result = Combine::create(rewriter, op.getLoc(), result, value);
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// scf.index_switch becomes nested scf.if.
struct SwitchToBranches : OpRewritePattern<scf::IndexSwitchOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::IndexSwitchOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> results;
    OpBuilder::InsertionGuard guard(rewriter);
    auto move = [&](Block &from, Block *to) { rewriter.inlineBlockBefore(&from, to, to->end()); };
    Operation *outermost = nullptr;
    for (unsigned i = 0; i < op.getNumCases(); ++i) {
      Value number = arith::ConstantIndexOp::create(rewriter, op.getLoc(), op.getCases()[i]);
      Value isCase = arith::CmpIOp::create(rewriter, op.getLoc(), arith::CmpIPredicate::eq, op.getArg(), number);
      auto branch = scf::IfOp::create(rewriter, op.getLoc(), op.getResultTypes(), isCase, /*addThenBlock=*/true,
                                      /*addElseBlock=*/true);
      if (outermost)
        scf::YieldOp::create(rewriter, op.getLoc(), branch.getResults());
      else
        outermost = branch;
      for (Block *block : {branch.thenBlock(), branch.elseBlock()})
        if (!block->empty())
          rewriter.eraseOp(block->getTerminator());
      move(op.getCaseBlock(i), branch.thenBlock());
      rewriter.setInsertionPointToEnd(branch.elseBlock());
    }
    if (!outermost)
      return failure();
    move(op.getDefaultBlock(), rewriter.getInsertionBlock());
    rewriter.replaceOp(op, outermost->getResults());
    return success();
  }
};

/// scf.execute_region is what its block computes; LegalizeFunctions has made one block of several.
struct InlineExecuteRegion : OpRewritePattern<scf::ExecuteRegionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::ExecuteRegionOp op, PatternRewriter &rewriter) const override {
    if (!op.getRegion().hasOneBlock())
      return failure();
    Block &block = op.getRegion().front();
    SmallVector<Value> results(block.getTerminator()->getOperands());
    rewriter.eraseOp(block.getTerminator());
    rewriter.inlineBlockBefore(&block, op);
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// Floats that scf.if gives become tensors without dimensions: the host passes integers and tensors.
struct TensorsOfBranches : OpRewritePattern<scf::IfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::IfOp op, PatternRewriter &rewriter) const override {
    auto isFloat = [](Type type) { return isa<FloatType>(type); };
    if (llvm::none_of(op.getResultTypes(), isFloat) || op->getParentOfType<linalg::LinalgOp>() ||
        op->getParentOfType<tensor::GenerateOp>())
      return failure();
    SmallVector<Type> types = llvm::map_to_vector(
        op.getResultTypes(), [&](Type type) -> Type { return isFloat(type) ? RankedTensorType::get({}, type) : type; });
    auto branch = scf::IfOp::create(rewriter, op.getLoc(), types, op.getCondition(), /*addThenBlock=*/false,
                                    /*addElseBlock=*/false);
    for (auto [from, to] : llvm::zip_equal(op->getRegions(), branch->getRegions())) {
      rewriter.inlineRegionBefore(from, to, to.begin());
      Operation *yield = to.front().getTerminator();
      rewriter.setInsertionPoint(yield);
      for (OpOperand &value : yield->getOpOperands())
        if (isFloat(value.get().getType())) {
          Value tensor = tensor::FromElementsOp::create(rewriter, op.getLoc(),
                                                        RankedTensorType::get({}, value.get().getType()), value.get());
          rewriter.modifyOpInPlace(yield, [&] { value.set(tensor); });
        }
    }
    rewriter.setInsertionPointAfter(branch);
    SmallVector<Value> results;
    for (auto [old, result] : llvm::zip_equal(op.getResults(), branch.getResults()))
      results.push_back(isFloat(old.getType())
                            ? tensor::ExtractOp::create(rewriter, op.getLoc(), result, ValueRange{}).getResult()
                            : result);
    rewriter.replaceOp(op, results);
    return success();
  }
};

struct LegalizeOps : intarsia::legalize::impl::LegalizeOpsBase<LegalizeOps> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<DecomposeSoftmax, LowerPack, LowerUnpack, WidenProduct<arith::MulSIExtendedOp, arith::ExtSIOp>,
                 WidenProduct<arith::MulUIExtendedOp, arith::ExtUIOp>, ExpandCarry, ExpandRemainder, TakeResource,
                 TakeAllocation, TakePoison, DropAssertion, FoldSizeAtLeastZero, SwitchToBranches, InlineExecuteRegion,
                 TensorsOfBranches, ExpandAffine<affine::AffineApplyOp, arith::AddIOp>,
                 ExpandAffine<affine::AffineMinOp, arith::MinSIOp>, ExpandAffine<affine::AffineMaxOp, arith::MaxSIOp>>(
        &getContext());
    if (failed(intarsia::legalize::rewrite(getOperation(), std::move(patterns))) || failed(refuse()))
      signalPassFailure();
  }

  /// Refuses what would be wrong if it stayed.
  LogicalResult refuse() {
    WalkResult result = getOperation().walk([](Operation *op) -> WalkResult {
      if (auto constant = dyn_cast<arith::ConstantOp>(op))
        if (auto resource = dyn_cast<DenseResourceElementsAttr>(constant.getValue())) {
          AsmResourceBlob *blob = resource.getRawHandle().getBlob();
          std::string name = ("the resource '" + resource.getRawHandle().getKey() + "' ").str();
          if (!blob)
            return op->emitError() << name << "of a constant is not in the file";
          auto type = cast<ShapedType>(resource.getType());
          if (!staysConstant(type) && (hasBytes(resource) || boolsInBytes(resource)))
            return WalkResult::advance();
          return op->emitError() << name << "has " << blob->getData().size() << " bytes, " << type << " needs "
                                 << llvm::divideCeil(type.getNumElements() * type.getElementTypeBitWidth(), 8);
        }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }
};
} // namespace
