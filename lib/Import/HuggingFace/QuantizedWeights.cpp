//===- QuantizedWeights.cpp - Matrices that other tools quantized, as ops -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/GraphBuilder.h"
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace intarsia::importer {

/// Returns a tensor of static shape in another shape with as many elements.
static Value reshaped(OpBuilder &builder, Value value, RankedTensorType type) {
  auto before = cast<RankedTensorType>(value.getType());
  if (before == type)
    return value;
  auto allOf = [](RankedTensorType type) {
    return llvm::SmallVector<ReassociationIndices>{llvm::to_vector<2>(llvm::seq<int64_t>(0, type.getRank()))};
  };
  if (before.getRank() != 1)
    value = tensor::CollapseShapeOp::create(builder, value.getLoc(), value, allOf(before));
  if (type.getRank() == 1)
    return value;
  return tensor::ExpandShapeOp::create(builder, value.getLoc(), type, value, allOf(type));
}

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
  auto read = [&](const std::optional<QuantizedMatrix::Part> &part) -> Value {
    if (!part || !part->tensor.entry)
      return {};
    auto stored = RankedTensorType::get(part->tensor.shape(), part->type.getElementType());
    Value weight = nn::WeightOp::create(builder, location(name), stored, archiveSymbol(*part->tensor.file),
                                        builder.getStringAttr(part->tensor.entry->name));
    return reshaped(builder, weight, part->type);
  };
  // One after another, so that ops stand in this order.
  Value values = read(matrix.values);
  Value scales = matrix.nestedScales ? dequantized(name, *matrix.nestedScales, {1, matrix.scales.type.getNumElements()})
                                     : read(matrix.scales);
  Value zeroPoints = read(matrix.zeroPoints), tensorScale = read(matrix.tensorScale);
  Value groupIndices = read(matrix.groupIndices), codebook = read(matrix.codebook);
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  return nn::DequantizeOp::create(builder, location(name), type, values, scales, zeroPoints, tensorScale, groupIndices,
                                  codebook, matrix.format);
}

} // namespace intarsia::importer
