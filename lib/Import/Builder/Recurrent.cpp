//===- Recurrent.cpp - Recurrent layers ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"

using namespace mlir;

namespace intarsia::importer {

llvm::SmallVector<Value> ModuleBuilder::recurrent(Location at, Value input, const RecurrentLayer &layer) {
  // Weights after one another stay as they are stored: the packer reads one after the other.
  auto all = [&](llvm::ArrayRef<Value> ofDirections) -> Value {
    if (ofDirections.empty())
      return nullptr;
    return ofDirections.size() == 1 ? ofDirections.front() : concat(at, ofDirections, 0);
  };
  Value gates = linear(at, input, all(layer.inputWeights), all(layer.inputBiases));
  llvm::SmallVector<Attribute> activations;
  for (nn::RecurrentActivation activation : layer.activations)
    activations.push_back(nn::RecurrentActivationAttr::get(builder.getContext(), activation));
  auto op = nn::RecurrentOp::create(
      builder, at, gates, all(layer.recurrentWeights), all(layer.recurrentBiases), layer.initialHidden,
      layer.initialCell, all(layer.peepholes), layer.lengths, layer.kind, layer.direction,
      layer.gateOrder.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(layer.gateOrder),
      activations.empty() ? ArrayAttr() : builder.getArrayAttr(activations),
      layer.alphas.empty() ? DenseF32ArrayAttr() : builder.getDenseF32ArrayAttr(layer.alphas),
      layer.betas.empty() ? DenseF32ArrayAttr() : builder.getDenseF32ArrayAttr(layer.betas),
      layer.clip ? builder.getF32FloatAttr(*layer.clip) : FloatAttr(), layer.isCoupled, layer.linearBeforeReset,
      layer.sequenceFirst);
  return llvm::SmallVector<Value>(op->getResults());
}

} // namespace intarsia::importer
