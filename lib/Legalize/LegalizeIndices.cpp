//===- LegalizeIndices.cpp - Elements of index as integers --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Memory has no elements of type index, and calls pass none. They are integers of 64 bits here; bodies and the host
// cast those that they read.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"
#include "lib/Legalize/Rewrite.h"

#include "dialects/TmTensor/TmTensor.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/DialectResourceBlobManager.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZEINDICES
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;

namespace {

RankedTensorType tensorOfIndices(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getElementType().isIndex() ? tensor : RankedTensorType();
}

bool hasIndices(Operation *op) {
  auto isOfIndices = [](Type type) { return bool(tensorOfIndices(type)); };
  return llvm::any_of(op->getOperandTypes(), isOfIndices) || llvm::any_of(op->getResultTypes(), isOfIndices);
}

struct LegalizeIndices : legalize::impl::LegalizeIndicesBase<LegalizeIndices> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    IRRewriter rewriter(&getContext());
    i64 = rewriter.getI64Type();
    SmallVector<Operation *> ops;
    WalkResult walked = function.walk([&](Operation *op) -> WalkResult {
      if (!hasIndices(op))
        return WalkResult::advance();
      if (!isa<arith::ArithDialect, bufferization::BufferizationDialect, func::FuncDialect, linalg::LinalgDialect,
               scf::SCFDialect, tensor::TensorDialect, tm_tensor::TmTensorDialect, ub::UBDialect>(op->getDialect()))
        return op->emitError() << "'" << op->getName() << "' of elements of 'index' is not compiled: use i64";
      auto named = dyn_cast<linalg::LinalgOp>(op);
      if (named && !isa<linalg::GenericOp>(op)) { // whose bodies have casts then
        rewriter.setInsertionPoint(op);
        FailureOr<linalg::GenericOp> generic = linalg::generalizeNamedOp(rewriter, named);
        if (failed(generic))
          return op->emitError() << "'" << op->getName() << "' of elements of 'index' is not compiled: use i64";
        op = *generic;
      }
      ops.push_back(op);
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return signalPassFailure();
    function.walk([&](Operation *op) {
      for (Value result : op->getResults())
        changeType(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            changeType(argument);
    });
    for (Operation *op : ops)
      adapt(op, rewriter);
    adaptSignature(function, rewriter);
  }

private:
  void changeType(Value value) {
    if (RankedTensorType type = tensorOfIndices(value.getType()))
      value.setType(type.clone(i64));
  }

  /// Lets a value that was an index be an integer, which all that read it cast.
  void castAfter(Value value, OpBuilder &builder) {
    value.setType(i64);
    auto index = arith::IndexCastOp::create(builder, value.getLoc(), builder.getIndexType(), value);
    value.replaceAllUsesExcept(index, index);
  }

  void castBefore(OpOperand &operand, OpBuilder &builder) {
    if (!operand.get().getType().isIndex())
      return;
    builder.setInsertionPoint(operand.getOwner());
    operand.set(arith::IndexCastOp::create(builder, operand.getOwner()->getLoc(), i64, operand.get()));
  }

  /// Casts elements that a region gets and gives.
  void castElements(Block &block, llvm::function_ref<bool(BlockArgument)> isElement, OpBuilder &builder) {
    builder.setInsertionPointToStart(&block);
    for (BlockArgument argument : block.getArguments())
      if (argument.getType().isIndex() && isElement(argument))
        castAfter(argument, builder);
    for (OpOperand &operand : block.getTerminator()->getOpOperands())
      castBefore(operand, builder);
  }

  /// Adapts an op whose tensors have changed from indices to integers.
  void adapt(Operation *op, IRRewriter &rewriter) {
    rewriter.setInsertionPointAfter(op);
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto elements = dyn_cast<DenseIntElementsAttr>(constant.getValue()))
        constant.setValueAttr(elements.mapValues(i64, [](const APInt &number) { return number; }));
      else if (auto resource = dyn_cast<DenseResourceElementsAttr>(constant.getValue()))
        constant.setValueAttr(
            DenseResourceElementsAttr::get(cast<ShapedType>(constant.getType()), resource.getRawHandle()));
    } else if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
      replaceCast(op, rewriter);
    } else if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      castAfter(extract.getResult(), rewriter);
    } else if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      auto isElement = [&](BlockArgument argument) {
        return isa<RankedTensorType>(generic.getMatchingOpOperand(argument)->get().getType());
      };
      castElements(*generic.getBody(), isElement, rewriter);
    } else if (isa<tm_tensor::ScanOp, tm_tensor::SortOp, tm_tensor::ScatterOp>(op)) {
      castElements(op->getRegion(0).front(), [](BlockArgument) { return true; }, rewriter);
    } else if (isa<tensor::GenerateOp, tensor::PadOp>(op)) {
      for (OpOperand &operand : op->getRegion(0).front().getTerminator()->getOpOperands())
        castBefore(operand, rewriter);
    } else if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
      castBefore(splat.getInputMutable(), rewriter);
    } else if (auto insert = dyn_cast<tensor::InsertOp>(op)) {
      castBefore(insert.getScalarMutable(), rewriter);
    } else if (isa<tensor::FromElementsOp>(op)) {
      for (OpOperand &operand : op->getOpOperands())
        castBefore(operand, rewriter);
    }
  }

  /// A cast to or from indices becomes one to or from integers of 64 bits.
  void replaceCast(Operation *op, IRRewriter &rewriter) {
    Value source = op->getOperand(0);
    Type type = op->getResult(0).getType();
    unsigned from = getElementTypeOrSelf(source).getIntOrFloatBitWidth(),
             to = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
    if (from > to)
      source = arith::TruncIOp::create(rewriter, op->getLoc(), type, source);
    else if (from < to && isa<arith::IndexCastOp>(op))
      source = arith::ExtSIOp::create(rewriter, op->getLoc(), type, source);
    else if (from < to)
      source = arith::ExtUIOp::create(rewriter, op->getLoc(), type, source);
    rewriter.replaceOp(op, source);
  }

  void adaptSignature(func::FuncOp function, OpBuilder &builder) {
    Block &entry = function.getBody().front();
    builder.setInsertionPointToStart(&entry);
    for (BlockArgument argument : entry.getArguments())
      if (argument.getType().isIndex())
        castAfter(argument, builder);
    Operation *end = entry.getTerminator();
    for (OpOperand &operand : end->getOpOperands())
      castBefore(operand, builder);
    function.setFunctionType(builder.getFunctionType(entry.getArgumentTypes(), end->getOperandTypes()));
  }

  Type i64;
};
} // namespace
