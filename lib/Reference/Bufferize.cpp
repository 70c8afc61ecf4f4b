//===- Bufferize.cpp - Tensors of references become memory ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Reference/Reference.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
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
    bufferization::BufferizationState state;
    if (failed(bufferization::runOneShotBufferize(getOperation(), options, state)))
      return signalPassFailure();
    // tensor.concat does not ask the options.
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](memref::CopyOp copy) {
      rewriter.setInsertionPoint(copy);
      rewriter.replaceOpWithNewOp<linalg::CopyOp>(copy, copy.getSource(), copy.getTarget());
    });
    getOperation()->walk([](func::FuncOp function) { freeAtEnd(function); });
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
