//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/SizeMaterializer.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "lib/Fuse/Fuser.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSECANONICALIZE
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// Transposed weights stay as they are: they are prepacked.
bool isNamed(Operation &op) {
  return !isa<linalg::GenericOp, linalg::FillOp>(op) && op.getNumResults() > 0 && !isCompileTime(op.getResult(0));
}

/// True for a scalar that the host computes while it runs, not from sizes and constants alone.
bool isOfTheHost(Value value) {
  if (isa<TensorType>(value.getType()))
    return false;
  Operation *op = value.getDefiningOp();
  return !op || isa<tensor::ExtractOp>(op) || op->getNumRegions() || isa<func::CallOp>(op) ||
         llvm::any_of(op->getOperands(), isOfTheHost);
}

struct FuseCanonicalize : fuse::impl::FuseCanonicalizeBase<FuseCanonicalize> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    IRRewriter rewriter(&getContext());
    branchInsteadOfSelect(function.getBody().front(), rewriter);
    SmallVector<linalg::LinalgOp> named;
    SmallVector<tensor::DimOp> dims;
    for (Operation &op : function.getBody().front()) {
      if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op); linalgOp && isNamed(op))
        named.push_back(linalgOp);
      else if (auto dim = dyn_cast<tensor::DimOp>(op))
        dims.push_back(dim);
    }
    for (linalg::LinalgOp op : named) {
      rewriter.setInsertionPoint(op);
      if (failed(linalg::generalizeNamedOp(rewriter, op))) {
        op->emitError() << "'" << op->getName() << "' has no form as linalg.generic";
        return signalPassFailure();
      }
    }

    SymbolicSizes sizes(function);
    OpBuilder builder(&getContext());
    builder.setInsertionPointToStart(&function.getBody().front());
    SizeMaterializer arguments(builder.getIndexType(), [&](AffineExpr size) -> Value {
      for (BlockArgument argument : function.getArguments())
        if (isa<AffineSymbolExpr>(size) && isa<RankedTensorType>(argument.getType()))
          for (auto [position, expression] : llvm::enumerate(sizes.of(argument)))
            if (expression == size)
              return tensor::DimOp::create(builder, function.getLoc(), argument, position);
      return nullptr;
    });
    for (tensor::DimOp dim : dims) {
      AffineExpr size = sizes.ofIndex(dim.getResult());
      if (!size || !sizes.isKnown(size))
        continue;
      if (Value value = arguments.get(builder, function.getLoc(), size))
        rewriter.replaceAllUsesWith(dim.getResult(), value);
    }
    eraseDeadOps(function.getBody().front());
  }

  /// A choice between tensors by what the host knows when it runs is a branch: kernels do not get that number. MLIR's
  /// canonicalizer makes a select of a branch without work.
  static void branchInsteadOfSelect(Block &block, IRRewriter &rewriter) {
    for (auto select : llvm::make_early_inc_range(block.getOps<arith::SelectOp>())) {
      if (!isa<TensorType>(select.getType()) || isa<ShapedType>(select.getCondition().getType()) ||
          !isOfTheHost(select.getCondition()))
        continue;
      rewriter.setInsertionPoint(select);
      auto yield = [](Value value) {
        return [value](OpBuilder &builder, Location location) { scf::YieldOp::create(builder, location, value); };
      };
      auto branch = scf::IfOp::create(rewriter, select.getLoc(), select.getCondition(), yield(select.getTrueValue()),
                                      yield(select.getFalseValue()));
      rewriter.replaceOp(select, branch);
    }
  }
};
} // namespace
