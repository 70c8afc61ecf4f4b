//===- Bufferize.cpp - Tensors of references become memory ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Reference/Reference.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::reference {
#define GEN_PASS_DEF_REFERENCEBUFFERIZE
#include "lib/Reference/Passes.h.inc"

namespace {
struct Bufferize : impl::ReferenceBufferizeBase<Bufferize> {
  void getDependentDialects(DialectRegistry &registry) const override {
    ReferenceBufferizeBase::getDependentDialects(registry);
    registerReferenceModels(registry);
  }

  void runOnOperation() override {
    bufferization::OneShotBufferizationOptions options;
    options.bufferAlignment = 0; // that of malloc
    options.memCpyFn = [](OpBuilder &builder, Location location, Value from, Value to) {
      // memref.copy of a view would be a call of MLIR's own library.
      linalg::CopyOp::create(builder, location, from, to);
      return success();
    };
    getOperation()->walk(dropEmptyParts);
    bufferization::BufferizationState state;
    if (failed(bufferization::runOneShotBufferize(getOperation(), options, state)))
      return signalPassFailure();
    // tensor.concat does not ask the options.
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](memref::CopyOp copy) {
      rewriter.setInsertionPoint(copy);
      rewriter.replaceOpWithNewOp<linalg::CopyOp>(copy, copy.getSource(), copy.getTarget());
    });
    getOperation()->walk([&](memref::ExpandShapeOp expand) {
      rewriter.setInsertionPoint(expand);
      expandSizes(rewriter, expand);
    });
    getOperation()->walk([](func::FuncOp function) { freeAtEnd(function); });
  }

  /// Leaves out parts without elements: a view of one would begin at the end of what it is a view of, which memref
  /// refuses.
  static void dropEmptyParts(tensor::ConcatOp concat) {
    auto isEmpty = [](Value tensor) { return llvm::is_contained(cast<ShapedType>(tensor.getType()).getShape(), 0); };
    IRRewriter rewriter(concat);
    RankedTensorType type = concat.getResultType();
    SmallVector<Value> parts(llvm::make_filter_range(concat.getInputs(), [&](Value part) { return !isEmpty(part); }));
    if (parts.size() == concat.getInputs().size())
      return;
    if (!parts.empty()) {
      rewriter.replaceOpWithNewOp<tensor::ConcatOp>(concat, type, concat.getDim(), parts);
      return;
    }
    ReifiedRankedShapedTypeDims sizes;
    if (succeeded(concat.reifyResultShapes(rewriter, sizes)))
      rewriter.replaceOpWithNewOp<tensor::EmptyOp>(concat, sizes.front(), type.getElementType());
  }

  /// Writes a view with several sizes of a call in the place of one, which MLIR's expand-strided-metadata does not
  /// expand, with its strides.
  static void expandSizes(RewriterBase &rewriter, memref::ExpandShapeOp expand) {
    MemRefType type = expand.getResultType();
    auto groups = expand.getReassociationIndices();
    if (llvm::all_of(groups, [&](ArrayRef<int64_t> group) {
          return llvm::count_if(group, [&](int64_t dimension) { return type.isDynamicDim(dimension); }) < 2;
        }))
      return;
    Location location = expand.getLoc();
    auto source = memref::ExtractStridedMetadataOp::create(rewriter, location, expand.getSrc());
    SmallVector<OpFoldResult> sizes = expand.getMixedOutputShape(), strides(sizes.size());
    auto [staticStrides, staticOffset] = type.getStridesAndOffset();
    for (auto [stride, group] : llvm::zip_equal(source.getStrides(), groups)) {
      Value step = stride;
      for (int64_t dimension : llvm::reverse(group)) {
        bool isKnown = !ShapedType::isDynamic(staticStrides[dimension]);
        strides[dimension] = isKnown ? OpFoldResult(rewriter.getIndexAttr(staticStrides[dimension])) : step;
        Value size = getValueOrCreateConstantIndexOp(rewriter, location, sizes[dimension]);
        step = arith::MulIOp::create(rewriter, location, step, size);
      }
    }
    OpFoldResult offset = source.getOffset();
    if (!ShapedType::isDynamic(staticOffset))
      offset = rewriter.getIndexAttr(staticOffset);
    rewriter.replaceOpWithNewOp<memref::ReinterpretCastOp>(expand, type, source.getBaseBuffer(), offset, sizes,
                                                           strides);
  }

  /// A reference is one block, and loops allocate nothing: what it allocates can be freed at its end.
  static void freeAtEnd(func::FuncOp function) {
    if (function.isExternal())
      return;
    Operation *terminator = function.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    for (auto allocation : function.getBody().front().getOps<memref::AllocOp>())
      memref::DeallocOp::create(builder, allocation.getLoc(), allocation);
  }
};
} // namespace
} // namespace intarsia::reference
