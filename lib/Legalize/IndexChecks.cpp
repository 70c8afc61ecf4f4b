//===- IndexChecks.cpp - Checks of operands that are indices ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/IndexChecks.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Analysis/Assertions.h"
#include "intarsia/Analysis/ControlFlow.h"
#include "lib/Legalize/Intervals.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace intarsia;
using intarsia::legalize::Interval;
using intarsia::legalize::Intervals;

void legalize::assertNumber(OpBuilder &builder, Location location, Value computed, Value limit, const Twine &message) {
  Value number = tensor::ExtractOp::create(builder, location, computed, ValueRange{});
  Value bound = limit ? limit : arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(0)).getResult();
  arith::CmpIPredicate predicate = limit ? arith::CmpIPredicate::ult : arith::CmpIPredicate::eq;
  Value isGood = arith::CmpIOp::create(builder, location, predicate, number, bound);
  auto assertion = cf::AssertOp::create(builder, location, isGood, message.str());
  if (limit)
    assertion->setAttr(assertsIndexAttr, builder.getUnitAttr());
}

namespace {

/// Checks one operand.
class IndexChecks {
public:
  IndexChecks(Operation *op, const IndexOperand &index, const SymbolicSizes &sizes)
      : op(op), index(index), indices(op->getOperand(index.operand)), sizes(sizes) {}

  void run() {
    if (isInside())
      return;
    OpBuilder builder(op->getBlock()->getTerminator());
    Location location = op->getLoc();
    Type i64 = builder.getI64Type();
    int64_t rank = cast<RankedTensorType>(indices.getType()).getRank();
    Value zero = arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(0));
    Value empty = tensor::EmptyOp::create(builder, location, ArrayRef<int64_t>(), i64);
    Value init = linalg::FillOp::create(builder, location, zero, empty).getResult(0);
    SmallVector<AffineMap> maps = {builder.getMultiDimIdentityMap(rank), AffineMap::get(rank, 0, op->getContext())};
    SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::reduction);
    auto body = [&](OpBuilder &inner, Location at, ValueRange values) {
      Value number = values[0];
      if (number.getType() != i64)
        number = arith::ExtSIOp::create(inner, at, i64, number);
      linalg::YieldOp::create(inner, at, arith::MaxUIOp::create(inner, at, number, values[1]).getResult());
    };
    Value worst = linalg::GenericOp::create(builder, location, TypeRange{init.getType()}, ValueRange{indices},
                                            ValueRange{init}, maps, iterators, body)
                      .getResult(0);
    Value limit = arith::IndexCastOp::create(builder, location, i64, limitOf(builder));
    legalize::assertNumber(builder, location, worst, limit, message());
  }

private:
  std::string message() const {
    std::string name = ("index of '" + op->getName().getStringRef() + "' in ").str();
    return name + (isa<nn::EmbeddingOp>(op) ? "dimension 0" : ("its " + index.name).str());
  }

  /// False if the op is written as loops, which do not say which of their inputs are indices.
  bool hasKernel() const {
    auto root = dyn_cast<KernelRootOpInterface>(op);
    return root && root.getKernelRoot() != KernelRoot::Generic;
  }

  /// The size of an operand that is the limit.
  Value limitOf(OpBuilder &builder) const {
    Location location = op->getLoc();
    for (Value operand : op->getOperands())
      for (auto [dimension, size] : llvm::enumerate(Sizes(sizes.of(operand))))
        if (size == index.limit)
          return getValueOrCreateConstantIndexOp(builder, location,
                                                 tensor::getMixedSize(builder, location, operand, dimension));
    llvm_unreachable("indices are those of an operand");
  }

  /// True if no integer that kernels compute is outside.
  bool isInside() const {
    int64_t least = sizes.isKnown(index.limit) ? sizes.range(index.limit).low : 0;
    llvm::SetVector<Value> open;
    open.insert(indices);
    for (unsigned i = 0; i < open.size(); ++i) {
      if (SmallVector<Value> sources = sourcesOf(open[i]); !sources.empty()) {
        open.insert(sources.begin(), sources.end());
        continue;
      }
      Operation *definition = open[i].getDefiningOp();
      // Such calls are refused before they start.
      bool isInput = !definition && isa<func::FuncOp>(cast<BlockArgument>(open[i]).getOwner()->getParentOp());
      if (isInput && hasKernel())
        continue;
      if (isa_and_nonnull<tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ConcatOp,
                          arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(definition)) {
        for (Value operand : definition->getOperands())
          if (isa<TensorType>(operand.getType()))
            open.insert(operand);
        continue;
      }
      Interval known = Intervals(sizes).of(open[i]);
      if (known.low < 0 || known.high >= least)
        return false;
    }
    return true;
  }

  Operation *op;
  IndexOperand index;
  Value indices;
  const SymbolicSizes &sizes;
};
} // namespace

void legalize::checkIndexOperands(IndexOperandOpInterface op, const SymbolicSizes &sizes) {
  auto sizesOf = [&](Value operand) { return Sizes(sizes.of(operand)); };
  for (const IndexOperand &index : op.getIndexOperands(llvm::map_to_vector(op->getOperands(), sizesOf)))
    if (index.isGuarded && index.limit) // sizes of some blocks are not known
      IndexChecks(op, index, sizes).run();
}
