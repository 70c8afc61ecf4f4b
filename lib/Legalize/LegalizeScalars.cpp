//===- LegalizeScalars.cpp - Scalars of a call as tensors that kernels read --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZESCALARS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;

namespace {

/// Turns scalar arguments into tensors without dimensions.
void takeArguments(func::FuncOp function) {
  if (function.isExternal())
    return;
  Block &entry = function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(&entry);
  SmallVector<Type> types(function.getFunctionType().getInputs());
  for (BlockArgument argument : entry.getArguments()) {
    Type scalar = argument.getType();
    if (!scalar.isIntOrFloat())
      continue;
    types[argument.getArgNumber()] = RankedTensorType::get({}, scalar);
    argument.setType(types[argument.getArgNumber()]);
    auto element = tensor::ExtractOp::create(builder, argument.getLoc(), argument, ValueRange{});
    argument.replaceAllUsesExcept(element.getResult(), element);
  }
  function.setFunctionType(builder.getFunctionType(types, function.getFunctionType().getResults()));
}

/// Scalars of the host program as tensors without dimensions.
class ScalarTensors {
public:
  explicit ScalarTensors(IRRewriter &rewriter) : rewriter(rewriter) {}

  /// Returns the tensor of a scalar that is an element of a tensor, or is computed from one; null otherwise.
  Value of(Value scalar) { return !scalar.getType().isIndex() && hasElement(scalar) ? make(scalar) : Value(); }

  /// True if an integer, also an index, is computed from elements of tensors outside of bodies.
  bool isComputed(Value number) {
    Operation *op = number.getDefiningOp();
    if (number.getType().isIndex())
      return isOfHost(op) && isElementwise(op) &&
             llvm::any_of(op->getOperands(), [&](Value operand) { return isComputed(operand); });
    return hasElement(number);
  }

  /// Returns the tensor of any scalar.
  Value ofAny(Value scalar, Operation *before) {
    if (Value tensor = of(scalar))
      return tensor;
    rewriter.setInsertionPoint(before);
    return fromOutside(scalar, before->getLoc());
  }

private:
  static bool isOfHost(Operation *op) { return op && !isa_and_nonnull<linalg::LinalgOp>(op->getParentOp()); }
  static bool isElementwise(Operation *op) {
    return op && op->getNumResults() == 1 && op->getNumRegions() == 0 && OpTrait::hasElementwiseMappableTraits(op);
  }

  bool hasElement(Value scalar) {
    Operation *op = scalar.getDefiningOp();
    if (!isOfHost(op))
      return false;
    if (isa<tensor::ExtractOp>(op))
      return true;
    auto [known, isNew] = elements.try_emplace(scalar, false);
    if (!isNew || !isElementwise(op))
      return known->second;
    bool has = llvm::any_of(op->getOperands(), [&](Value operand) { return hasElement(operand); });
    return elements[scalar] = has;
  }

  /// The tensor of an index is one of integers of 64 bits.
  Value make(Value scalar) {
    if (Value tensor = tensors.lookup(scalar))
      return tensor;
    Operation *op = scalar.getDefiningOp();
    OpBuilder::InsertionGuard guard(rewriter);
    Value tensor;
    if (auto extract = dyn_cast_or_null<tensor::ExtractOp>(op)) {
      rewriter.setInsertionPoint(op);
      tensor = sliceOf(extract);
    } else {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands()) {
        Value inner = hasElement(operand) ? make(operand) : Value();
        rewriter.setInsertionPoint(op);
        operands.push_back(inner ? inner : fromOutside(operand, op->getLoc()));
        if (!operands.back())
          return nullptr;
      }
      auto type = RankedTensorType::get({}, stored(scalar.getType()));
      if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
        tensor = castTo(type, operands[0], isa<arith::IndexCastOp>(op));
      } else {
        OperationState state(op->getLoc(), op->getName(), operands, type,
                             op->getDiscardableAttrDictionary().getValue());
        state.propertiesAttr = op->getPropertiesAsAttribute();
        tensor = rewriter.create(state)->getResult(0);
      }
    }
    return tensors[scalar] = tensor;
  }

  Type stored(Type scalar) { return scalar.isIndex() ? Type(rewriter.getI64Type()) : scalar; }

  Value castTo(RankedTensorType type, Value tensor, bool hasSign) {
    unsigned from = getElementTypeOrSelf(tensor).getIntOrFloatBitWidth(), to = type.getElementTypeBitWidth();
    if (from == to)
      return tensor;
    if (from > to)
      return arith::TruncIOp::create(rewriter, tensor.getLoc(), type, tensor);
    if (hasSign)
      return arith::ExtSIOp::create(rewriter, tensor.getLoc(), type, tensor);
    return arith::ExtUIOp::create(rewriter, tensor.getLoc(), type, tensor);
  }

  Value sliceOf(tensor::ExtractOp extract) {
    auto type = cast<RankedTensorType>(extract.getTensor().getType());
    if (type.getRank() == 0)
      return extract.getTensor();
    SmallVector<OpFoldResult> offsets, ones(type.getRank(), rewriter.getIndexAttr(1));
    for (Value index : extract.getIndices()) {
      std::optional<int64_t> constant = getConstantIntValue(index);
      if (!constant)
        return nullptr;
      offsets.push_back(rewriter.getIndexAttr(*constant));
    }
    return tensor::ExtractSliceOp::create(rewriter, extract.getLoc(), RankedTensorType::get({}, type.getElementType()),
                                          extract.getTensor(), offsets, ones, ones);
  }

  /// A tensor of a constant, or of what is computed from sizes.
  Value fromOutside(Value scalar, Location location) {
    if (!scalar.getType().isIntOrIndexOrFloat())
      return nullptr;
    auto type = RankedTensorType::get({}, stored(scalar.getType()));
    if (APInt number; scalar.getType().isIndex() && matchPattern(scalar, m_ConstantInt(&number)))
      return arith::ConstantOp::create(rewriter, location, DenseElementsAttr::get(type, number));
    if (scalar.getType().isIndex())
      scalar = arith::IndexCastOp::create(rewriter, location, rewriter.getI64Type(), scalar);
    TypedAttr constant;
    if (matchPattern(scalar, m_Constant(&constant)))
      return arith::ConstantOp::create(rewriter, location, DenseElementsAttr::get(type, Attribute(constant)));
    Value empty = tensor::EmptyOp::create(rewriter, location, type, ValueRange{});
    return linalg::GenericOp::create(
               rewriter, location, TypeRange{type}, ValueRange{}, ValueRange{empty},
               ArrayRef{rewriter.getMultiDimIdentityMap(0)}, ArrayRef<utils::IteratorType>{},
               [&](OpBuilder &inner, Location at, ValueRange) { linalg::YieldOp::create(inner, at, scalar); })
        .getResult(0);
  }

  IRRewriter &rewriter;
  DenseMap<Value, bool> elements; ///< whether a scalar is computed from elements of tensors
  DenseMap<Value, Value> tensors;
};

/// A tensor of one element all over.
void broadcast(Operation *op, Value element, Value init, IRRewriter &rewriter) {
  SmallVector<int64_t> dimensions =
      llvm::to_vector(llvm::seq<int64_t>(0, cast<RankedTensorType>(init.getType()).getRank()));
  if (dimensions.empty())
    rewriter.replaceOp(op, element);
  else
    rewriter.replaceOp(op,
                       linalg::BroadcastOp::create(rewriter, op->getLoc(), element, init, dimensions)->getResults());
}

/// Clones indices that are computed from elements of tensors into the body of an op that reads them: there are no
/// tensors of indices.
void takeIndices(linalg::GenericOp op, ScalarTensors &scalars, IRRewriter &rewriter) {
  for (bool any = true; any;) {
    any = false;
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op.getRegion(), captured);
    for (Value value : captured) {
      if (!value.getType().isIndex() || !scalars.isComputed(value))
        continue;
      rewriter.setInsertionPointToStart(&op.getRegion().front());
      Value inside = rewriter.clone(*value.getDefiningOp())->getResult(0);
      replaceAllUsesInRegionWith(value, inside, op.getRegion());
      any = true;
    }
  }
}

/// Makes scalars from outside of a body operands of the op, and scalar operands tensors.
void takeCaptured(linalg::GenericOp op, ScalarTensors &scalars, IRRewriter &rewriter) {
  for (OpOperand *operand : op.getDpsInputOperands())
    if (Value tensor = operand->get().getType().isIntOrFloat() ? scalars.of(operand->get()) : Value())
      rewriter.modifyOpInPlace(op, [&] { operand->set(tensor); });
  takeIndices(op, scalars, rewriter);
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op.getRegion(), captured);
  for (Value value : captured) {
    Value tensor = scalars.of(value);
    if (!tensor)
      continue;
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    unsigned inputs = op.getNumDpsInputs();
    maps.insert(maps.begin() + inputs, AffineMap::get(op.getNumLoops(), 0, rewriter.getContext()));
    rewriter.modifyOpInPlace(op, [&] {
      op.getInputsMutable().append(tensor);
      op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
      BlockArgument argument = op.getRegion().front().insertArgument(inputs, value.getType(), value.getLoc());
      replaceAllUsesInRegionWith(value, argument, op.getRegion());
    });
  }
}

/// Gives named ops that read such scalars the form of linalg.generic, whose operands can be added to.
void takeCaptured(linalg::LinalgOp op, ScalarTensors &scalars, IRRewriter &rewriter) {
  if (!op.hasPureTensorSemantics())
    return;
  auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
  if (!generic) {
    llvm::SetVector<Value> read;
    getUsedValuesDefinedAbove(op->getRegions(), read);
    for (OpOperand *operand : op.getDpsInputOperands())
      read.insert(operand->get());
    if (llvm::none_of(read,
                      [&](Value value) { return !isa<ShapedType>(value.getType()) && scalars.isComputed(value); }))
      return;
    rewriter.setInsertionPoint(op);
    FailureOr<linalg::GenericOp> made = linalg::generalizeNamedOp(rewriter, op);
    if (failed(made))
      return;
    generic = *made;
  }
  takeCaptured(generic, scalars, rewriter);
}

/// Turns scalar results into tensors without dimensions.
void takeResults(func::FuncOp function, ScalarTensors &scalars, IRRewriter &rewriter) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return;
  auto end = dyn_cast<func::ReturnOp>(function.getBody().front().getTerminator());
  if (!end)
    return;
  SmallVector<Type> types(function.getFunctionType().getResults());
  for (OpOperand &operand : end->getOpOperands())
    if (operand.get().getType().isIntOrFloat())
      if (Value tensor = scalars.ofAny(operand.get(), end)) {
        types[operand.getOperandNumber()] = tensor.getType();
        operand.set(tensor);
      }
  function.setFunctionType(rewriter.getFunctionType(function.getFunctionType().getInputs(), types));
}

/// Erases scalars that nothing reads any more.
void eraseDeadScalars(func::FuncOp function) {
  function.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    bool isScalar = op->getNumResults() == 1 && op->getResult(0).getType().isIntOrFloat();
    if (isScalar && isOpTriviallyDead(op))
      op->erase();
  });
}

struct LegalizeScalars : intarsia::legalize::impl::LegalizeScalarsBase<LegalizeScalars> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      takeArguments(function);
      ScalarTensors scalars(rewriter);
      function.walk([&](Operation *op) {
        rewriter.setInsertionPoint(op);
        if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
          if (Value element = scalars.of(splat.getInput())) {
            rewriter.setInsertionPoint(op);
            Value empty = tensor::EmptyOp::create(rewriter, op->getLoc(), splat.getType(), splat.getDynamicSizes());
            broadcast(op, element, empty, rewriter);
          }
        } else if (auto fill = dyn_cast<linalg::FillOp>(op)) {
          if (Value element = scalars.of(fill.getInputs()[0]); element && fill.getNumResults() == 1) {
            rewriter.setInsertionPoint(op);
            broadcast(op, element, fill.getOutputs()[0], rewriter);
          }
        } else if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
          takeCaptured(linalgOp, scalars, rewriter);
        }
      });
      takeResults(function, scalars, rewriter);
      eraseDeadScalars(function);
    }
  }
};
} // namespace
