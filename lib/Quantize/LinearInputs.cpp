//===- LinearInputs.cpp - What linears with weights of the model multiply ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/LinearInputs.h"

#include "lib/Quantize/CalibratedInputs.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace intarsia {

/// Returns the weight of an archive that a linear multiplies, as it is stored or as it will be quantized.
static nn::WeightOp weightOf(ContractionOpInterface linear) {
  Value weight = linear.getRight();
  if (auto dequantize = weight.getDefiningOp<nn::DequantizeOp>())
    if (auto quantize = dequantize.getQuantized().getDefiningOp<nn::QuantizeOp>())
      weight = quantize.getInput();
  return weight.getDefiningOp<nn::WeightOp>();
}

std::vector<LinearInput> inputsOfLinears(func::FuncOp function, bool convolutions) {
  llvm::MapVector<Value, SmallVector<ContractionOpInterface>> linears;
  // Linears of branches and loops compute what not every call computes.
  for (Operation &op : function.front()) {
    ContractionOpInterface linear = asProductWithWeight(&op), product = linear;
    if (!linear && convolutions)
      product = quantize::asProductToQuantize(&op);
    if (!product || !(linear ? weightOf(linear) : quantize::weightOf(product)) ||
        llvm::any_of(op.getUsers(), llvm::IsaPred<nn::RouteOp>))
      continue;
    if (cast<RankedTensorType>(product.getLeft().getType()).getShape().back() != ShapedType::kDynamic)
      linears[product.getLeft()].push_back(product);
  }
  std::vector<LinearInput> inputs;
  for (auto &[value, readers] : linears) {
    llvm::stable_sort(readers, [](ContractionOpInterface a, ContractionOpInterface b) {
      return !quantize::multipliesWindows(a) && quantize::multipliesWindows(b);
    });
    inputs.push_back({value, std::move(readers)});
  }
  return inputs;
}

std::string nameOf(Operation *linear) {
  auto location = linear->getLoc()->findInstanceOf<NameLoc>();
  return location ? location.getName().str() : std::string();
}

} // namespace intarsia
