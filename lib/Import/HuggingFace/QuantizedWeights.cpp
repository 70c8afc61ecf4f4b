//===- QuantizedWeights.cpp - Matrices that other tools quantized, as ops -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/GraphBuilder.h"
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

using namespace mlir;

namespace intarsia::importer {

Value GraphBuilder::quantizedWeight(llvm::StringRef name, llvm::ArrayRef<Extent> shape) {
  if (!quantized || shape.size() != 2 || !name.ends_with(".weight"))
    return {};
  std::string module = path(name.drop_back(llvm::StringRef(".weight").size()));
  std::optional<QuantizedMatrix> matrix = quantized->find(module, shape[0], shape[1]);
  if (!matrix)
    return {};
  return dequantized(name, *matrix, {shape[0].size, shape[1].size});
}

Value GraphBuilder::dequantized(llvm::StringRef name, const QuantizedMatrix &matrix, llvm::ArrayRef<int64_t> shape) {
  Location at = location(name);
  auto read = [&](const std::optional<QuantizedMatrix::Part> &part) -> Value {
    if (!part || !part->tensor.entry)
      return {};
    auto stored = RankedTensorType::get(part->tensor.shape(), part->type.getElementType());
    return reshape(at, rawWeight(at, part->tensor, stored), part->type.getShape());
  };
  // One after another, so that ops stand in this order.
  QuantizedParts parts{read(matrix.values)};
  parts.scales = matrix.nestedScales ? dequantized(name, *matrix.nestedScales, {1, matrix.scales.type.getNumElements()})
                                     : read(matrix.scales);
  parts.zeroPoints = read(matrix.zeroPoints);
  parts.tensorScale = read(matrix.tensorScale);
  parts.groupIndices = read(matrix.groupIndices);
  parts.codebook = read(matrix.codebook);
  return dequantize(at, parts, RankedTensorType::get(shape, builder.getF32Type()), matrix.format);
}

} // namespace intarsia::importer
