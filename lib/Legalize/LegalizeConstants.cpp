//===- LegalizeConstants.cpp - Large constants become weights ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Legalize/Passes.h"

#include "dialects/Nn/Ops/Constants/Constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace intarsia::legalize {
#define GEN_PASS_DEF_LEGALIZECONSTANTS
#include "lib/Legalize/Passes.h.inc"
} // namespace intarsia::legalize

using namespace mlir;
using namespace intarsia;

/// True for a constant that is large enough for a weight, and that archives hold. What weights are quantized by while a
/// model is compiled, factors and orders of their channels, stays.
static bool isLarge(arith::ConstantOp constant) {
  auto elements = dyn_cast<ElementsAttr>(constant.getValue());
  if (!elements || !isa<RankedTensorType>(constant.getType()) || constant.use_empty())
    return false;
  if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); dense && dense.isSplat())
    return false;
  if (llvm::any_of(constant->getUsers(), llvm::IsaPred<nn::QuantizeOp, nn::DequantizeOp>))
    return false;
  return nn::storedBytes(elements.getShapedType()).value_or(0) >= nn::leastWeightBytes;
}

namespace {
struct LegalizeConstants : legalize::impl::LegalizeConstantsBase<LegalizeConstants> {
  void runOnOperation() override {
    nn::ConstantsBuilder tensors(getOperation());
    SmallVector<std::pair<arith::ConstantOp, StringAttr>> taken;
    getOperation().walk([&](arith::ConstantOp constant) {
      if (!isLarge(constant))
        return;
      if (auto resource = dyn_cast<DenseResourceElementsAttr>(constant.getValue()))
        taken.emplace_back(constant, tensors.add(resource));
      else if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()))
        taken.emplace_back(constant, tensors.add(dense));
    });
    if (taken.empty())
      return;
    FlatSymbolRefAttr archive = tensors.finish();
    for (auto [constant, key] : taken) {
      Operation *outermost = constant;
      for (Operation *parent = constant->getParentOp(); parent; parent = parent->getParentOp())
        if (isa<linalg::LinalgOp>(parent)) // kernels get tensors as operands
          outermost = parent;
      OpBuilder builder(outermost);
      constant.replaceAllUsesWith(
          nn::WeightOp::create(builder, constant.getLoc(), constant.getType(), archive, key).getResult());
      constant.erase();
    }
  }
};
} // namespace
