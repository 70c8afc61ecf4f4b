//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/SymbolicSizes.h"
#include "lib/Fuse/Fuser.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSECANONICALIZE
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// Computes sizes at the start of a function from the dimensions of its arguments.
class SizesOfArguments {
public:
  SizesOfArguments(func::FuncOp function, const SymbolicSizes &sizes)
      : function(function), sizes(sizes), builder(function.getContext()) {
    builder.setInsertionPointToStart(&function.getBody().front());
  }

  /// Null if the size is not a function of the arguments' sizes.
  Value get(AffineExpr size) {
    auto known = values.find(size);
    if (known != values.end())
      return known->second;
    Value value = make(size);
    values[size] = value;
    return value;
  }

private:
  Value make(AffineExpr size) {
    Location loc = function.getLoc();
    if (auto constant = dyn_cast<AffineConstantExpr>(size))
      return arith::ConstantIndexOp::create(builder, loc, constant.getValue());
    if (auto binary = dyn_cast<AffineBinaryOpExpr>(size)) {
      Value left = get(binary.getLHS()), right = get(binary.getRHS());
      if (!left || !right)
        return nullptr;
      switch (binary.getKind()) {
      case AffineExprKind::Add:
        return arith::AddIOp::create(builder, loc, left, right);
      case AffineExprKind::Mul:
        return arith::MulIOp::create(builder, loc, left, right);
      case AffineExprKind::FloorDiv:
        return arith::DivUIOp::create(builder, loc, left, right);
      case AffineExprKind::CeilDiv:
        return arith::CeilDivUIOp::create(builder, loc, left, right);
      default:
        return arith::RemUIOp::create(builder, loc, left, right);
      }
    }
    for (BlockArgument argument : function.getArguments()) {
      if (!isa<RankedTensorType>(argument.getType()))
        continue;
      for (auto [position, expression] : llvm::enumerate(sizes.of(argument)))
        if (expression == size)
          return tensor::DimOp::create(builder, loc, argument, position);
    }
    return nullptr;
  }

  func::FuncOp function;
  const SymbolicSizes &sizes;
  OpBuilder builder;
  llvm::DenseMap<AffineExpr, Value> values;
};

/// Transposed weights stay as they are: they are packed ahead of time.
bool isNamed(Operation &op) {
  return !isa<linalg::GenericOp, linalg::FillOp>(op) && op.getNumResults() > 0 && !isCompileTime(op.getResult(0));
}

struct FuseCanonicalize : fuse::impl::FuseCanonicalizeBase<FuseCanonicalize> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    IRRewriter rewriter(&getContext());
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
    SizesOfArguments arguments(function, sizes);
    for (tensor::DimOp dim : dims) {
      AffineExpr size = sizes.ofIndex(dim.getResult());
      if (!size || !sizes.isKnown(size))
        continue;
      if (Value value = arguments.get(size))
        rewriter.replaceAllUsesWith(dim.getResult(), value);
    }
    eraseDeadOps(function.getBody().front());
  }
};
} // namespace
