//===- FuseExpandOps.cpp - Ops without a kernel as loops ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ReferenceBuilder.h"
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/RowScales.h"
#include "intarsia/Analysis/Assertions.h"
#include "intarsia/Analysis/ControlFlow.h"
#include "lib/Fuse/LinearInputs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEEXPANDOPS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
struct FuseExpandOps : fuse::impl::FuseExpandOpsBase<FuseExpandOps> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](KernelRootOpInterface op) { ops.push_back(op); });
    IRRewriter rewriter(&getContext());
    while (!ops.empty()) { // loops may hold ops that have a kernel where the whole has none
      Operation *op = ops.pop_back_val();
      FailureOr<target::Device> device = target::deviceOf(op);
      if (failed(device))
        return signalPassFailure();
      auto written = dyn_cast<ReferenceOpInterface>(op);
      if (!written || device->target->hasKernel(op))
        continue;
      if (dequantizeBefore(op, rewriter, ops))
        ops.push_back(op); // a kernel may read floats
      else
        expand(written, rewriter, ops);
    }
  }

  /// Lets an op whose kernels do not multiply quantized values read what loops dequantize. Returns false if its input
  /// is not quantized.
  static bool dequantizeBefore(Operation *op, IRRewriter &rewriter, SmallVectorImpl<Operation *> &ops) {
    if (!hasQuantizedInput(op))
      return false;
    auto quantization = cast<RowInputOpInterface>(op).getRowInput().quantization;
    rewriter.setInsertionPoint(op);
    IRMapping mapping;
    SmallVector<ReferenceOpInterface> copies;
    for (Operation *part : llvm::reverse(quantization))
      copies.push_back(cast<ReferenceOpInterface>(rewriter.clone(*part, mapping)));
    Value read = quantization.front()->getResult(0);
    op->replaceUsesOfWith(read, mapping.lookup(read));
    for (Operation *part : quantization)
      if (part->use_empty())
        rewriter.eraseOp(part);
    for (ReferenceOpInterface copy : copies) {
      copy->removeAttr(nn::replacesInputAttr); // which no other op has
      expand(copy, rewriter, ops);
    }
    if (auto conv = dyn_cast<nn::ConvOp>(op))
      readFloats(conv.getWeightMutable(), rewriter);
    return true;
  }

  /// Lets a convolution of floats read the floats that a weight of an archive means: its kernels have no others.
  static void readFloats(OpOperand &weight, IRRewriter &rewriter) {
    auto dequantize = weight.get().getDefiningOp<nn::DequantizeOp>();
    auto format = dequantize ? dyn_cast<nn::ArchiveFormatAttr>(dequantize.getFormat()) : nullptr;
    if (!format || !format.getKept())
      return;
    rewriter.setInsertionPoint(dequantize);
    auto decoded = cast<nn::DequantizeOp>(rewriter.clone(*dequantize));
    decoded.setFormatAttr(nn::ArchiveFormatAttr::get(
        format.getContext(), format.getOrder(), format.getElement(), format.getGroup(), format.getRows(),
        format.getZero(), format.getInverse(), format.getScaleDivisor(), format.getScaleOffset(), /*kept=*/nullptr));
    weight.set(decoded);
  }

  /// Gives attributes to an op, and to those within if the host runs them. Ops of nn among them are added to `ops`.
  static void annotate(Operation *op, DictionaryAttr attributes, SmallVectorImpl<Operation *> &ops) {
    op->setDiscardableAttrs(attributes);
    if (isa<KernelRootOpInterface>(op))
      ops.push_back(op);
    if (isControlFlow(op))
      for (Region &region : op->getRegions())
        for (Operation &inner : region.getOps())
          annotate(&inner, attributes, ops);
  }

  /// Asserts what an op needs of the sizes of its operands: its loops do not. A window that does not fit into an image
  /// would give a result without elements.
  static void assertLeastSizes(SizeOpInterface op, IRRewriter &rewriter) {
    SmallVector<std::pair<Value, int64_t>> dimensions; // of the symbols
    SmallVector<Sizes> sizes;
    for (Value operand : op->getOperands()) {
      Sizes &ofOperand = sizes.emplace_back();
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      for (auto [dimension, size] : llvm::enumerate(type ? type.getShape() : ArrayRef<int64_t>())) {
        bool isDynamic = ShapedType::isDynamic(size);
        ofOperand.push_back(isDynamic ? rewriter.getAffineSymbolExpr(dimensions.size())
                                      : rewriter.getAffineConstantExpr(size));
        if (isDynamic)
          dimensions.push_back({operand, dimension});
      }
    }
    for (auto [least, size] : op.getLeastSizes(sizes)) {
      auto symbol = dyn_cast<AffineSymbolExpr>(size);
      auto number = dyn_cast<AffineConstantExpr>(least);
      if (!symbol || !number)
        continue; // ops need constants of dynamic sizes, and verifiers compare constants
      auto [operand, dimension] = dimensions[symbol.getPosition()];
      Location at = op->getLoc();
      Value given = tensor::DimOp::create(rewriter, at, operand, dimension);
      Value needed = arith::ConstantIndexOp::create(rewriter, at, number.getValue());
      Value isMet = arith::CmpIOp::create(rewriter, at, arith::CmpIPredicate::sge, given, needed);
      auto assertion = cf::AssertOp::create(rewriter, at, isMet, op->getName().getStringRef());
      assertion->setAttr(assertsSizeAttr, rewriter.getUnitAttr());
    }
  }

  /// Replaces an op by its loops, which have the attributes of the op. Ops of nn among them are added to `ops`.
  static void expand(ReferenceOpInterface op, IRRewriter &rewriter, SmallVectorImpl<Operation *> &ops) {
    rewriter.setInsertionPoint(op);
    if (auto sized = dyn_cast<SizeOpInterface>(op.getOperation()))
      assertLeastSizes(sized, rewriter);
    Operation *before = op->getPrevNode();
    reference::ReferenceBuilder builder(op->getLoc(), rewriter);
    builder.sumType = builder.getF32Type();
    SmallVector<Value> values = builder.castToResults(op.buildReference(builder), op);
    for (Operation *made = op->getPrevNode(); made && made != before; made = made->getPrevNode())
      annotate(made, op->getDiscardableAttrDictionary(), ops);
    rewriter.replaceOp(op, values);
  }
};
} // namespace
