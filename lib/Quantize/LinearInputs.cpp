//===- LinearInputs.cpp - What linears with weights of the model multiply ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/LinearInputs.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace intarsia {

/// Returns the weight of an archive that a linear multiplies, as it is stored or as it will be quantized.
static nn::WeightOp weightOf(nn::LinearOp linear) {
  Value weight = linear.getWeight();
  if (auto dequantize = weight.getDefiningOp<nn::DequantizeOp>())
    if (auto quantize = dequantize.getQuantized().getDefiningOp<nn::QuantizeOp>())
      weight = quantize.getInput();
  return weight.getDefiningOp<nn::WeightOp>();
}

std::vector<LinearInput> inputsOfLinears(func::FuncOp function) {
  llvm::MapVector<Value, SmallVector<nn::LinearOp>> linears;
  // Linears of branches and loops compute what not every call computes.
  for (auto linear : function.front().getOps<nn::LinearOp>()) {
    bool isStatic = cast<RankedTensorType>(linear.getInput().getType()).getShape().back() != ShapedType::kDynamic;
    if (weightOf(linear) && isStatic && llvm::none_of(linear->getUsers(), llvm::IsaPred<nn::RouteOp>))
      linears[linear.getInput()].push_back(linear);
  }
  std::vector<LinearInput> inputs;
  for (auto &[value, readers] : linears)
    inputs.push_back({value, std::move(readers)});
  return inputs;
}

std::string nameOf(nn::LinearOp linear) {
  auto location = linear.getLoc()->findInstanceOf<NameLoc>();
  return location ? location.getName().str() : std::string();
}

} // namespace intarsia
