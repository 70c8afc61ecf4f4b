//===- FuseNarrowResults.cpp - Results that are stored as they are multiplied -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSENARROWRESULTS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// Finds what a value is rounded to wherever it is read.
class Readers {
public:
  /// Follows a value. Fails if something reads it as it is, or two readers round it to different types.
  LogicalResult follow(Value value) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<tensor::DimOp>(user))
        continue;
      if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(user)) {
        views.push_back(user->getResult(0));
        if (failed(follow(user->getResult(0))))
          return failure();
        continue;
      }
      if (auto group = dyn_cast<nn::GroupOp>(user)) {
        BlockArgument inside = group.getBodyBlock().getArgument(use.getOperandNumber());
        arguments.push_back(inside);
        if (failed(follow(inside)))
          return failure();
        continue;
      }
      ContractionOpInterface product = asProductWithWeight(user);
      Type precision = product && use.get() == product.getLeft() ? product.getPrecision().value_or(Type()) : Type();
      if (!precision || (type && type != precision))
        return failure();
      type = precision;
      products.push_back(product);
    }
    return success();
  }

  Type type;                            ///< null if nothing reads the value
  SmallVector<Value> views;             ///< reshapes of it, inside and outside of groups
  SmallVector<BlockArgument> arguments; ///< of groups that read it
  SmallVector<ContractionOpInterface> products;
};

struct FuseNarrowResults : fuse::impl::FuseNarrowResultsBase<FuseNarrowResults> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    WalkResult found = function.walk([](ContractionOpInterface product) {
      return product.getPrecision() ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (!found.wasInterrupted())
      return;
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    auto targetOf = [&](Operation *op) -> const target::Target & {
      return *devices->lookup(op->getAttr(rt::deviceAttr)).target;
    };
    function.walk([&](nn::GroupOp group) {
      if (group.getRoot() != KernelRoot::Rows && group.getRoot() != KernelRoot::Linear)
        return;
      for (OpResult result : group.getResults()) {
        Readers readers;
        if (!getElementTypeOrSelf(result).isF32() || failed(readers.follow(result)) || !readers.type ||
            readers.type.getIntOrFloatBitWidth() != 16)
          continue;
        if (llvm::all_of(readers.products, [&](ContractionOpInterface product) {
              return targetOf(product->getParentOfType<nn::GroupOp>()).multipliesIn(readers.type);
            }))
          narrow(group, result, readers);
      }
    });
  }

  static void narrow(nn::GroupOp group, OpResult result, const Readers &readers) {
    auto narrowed = [&](Value value) { return cast<RankedTensorType>(value.getType()).clone(readers.type); };
    Operation *yield = group.getBodyBlock().getTerminator();
    OpBuilder builder(yield);
    OpOperand &yielded = yield->getOpOperand(result.getResultNumber());
    yielded.set(arith::TruncFOp::create(builder, group.getLoc(), narrowed(yielded.get()), yielded.get()));
    result.setType(narrowed(result));
    for (Value view : readers.views)
      view.setType(narrowed(view));
    for (BlockArgument argument : readers.arguments)
      argument.setType(narrowed(argument));
    // A product widens what it reads, and rounds it to the same value again.
    for (ContractionOpInterface product : readers.products) {
      builder.setInsertionPoint(product);
      auto wide = cast<RankedTensorType>(product.getLeft().getType()).clone(builder.getF32Type());
      product.getLeftOperand().assign(arith::ExtFOp::create(builder, product.getLoc(), wide, product.getLeft()));
    }
  }
};
} // namespace
