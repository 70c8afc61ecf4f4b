//===- QuantizeInputsOfBlocks.cpp - Quantizes what is multiplied by weights in blocks ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/Prepacking.h"
#include "dialects/Nn/RowScales.h"
#include "intarsia/Quantize/Quantize.h"
#include "lib/Quantize/BlockCodec.h"
#include "lib/Quantize/QuantizedInputs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL_QUANTIZEINPUTSOFBLOCKS
#define GEN_PASS_DEF_QUANTIZEINPUTSOFBLOCKS
#include "lib/Quantize/Passes.h.inc"

Value quantizeAndDequantize(OpBuilder &builder, Location location, Value input, nn::BlockFormatAttr format,
                            Type element, bool areRows) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> scaleShape(type.getShape());
  scaleShape[format.getAxis()] = format.getBlockCount(scaleShape[format.getAxis()]);
  Type values = type.clone(format.getStorageType()), scales = RankedTensorType::get(scaleShape, format.getScaleType());
  SmallVector<int64_t> rowShape;
  if (areRows) {
    rowShape.assign(type.getShape().begin(), type.getShape().end());
    rowShape[format.getAxis()] = 1;
  }
  Type tensorScale = format.hasTensorScale() ? RankedTensorType::get(rowShape, builder.getF32Type()) : Type();
  Type zeroPoints =
      haveZeroPoints(format) ? RankedTensorType::get(scaleShape, format.getStorageType()) : RankedTensorType();
  auto quantize = nn::QuantizeOp::create(builder, location, values, scales, zeroPoints, tensorScale, input,
                                         /*channels=*/Value(), /*factors=*/Value(), format,
                                         /*wide_blocks=*/IntegerAttr(), /*unit_scale=*/UnitAttr());
  return nn::DequantizeOp::create(builder, location, type.clone(element), quantize.getQuantized(), quantize.getScales(),
                                  quantize.getZeroPoints(), quantize.getTensorScale(), /*group_indices=*/Value(),
                                  /*codebook=*/Value(), format);
}

/// Channels of a position that are multiplied together: those of pictures, of which there are three, would need windows
/// in other places, and are few.
static constexpr int64_t channelsTogether = 4;

ContractionOpInterface asProductToQuantize(Operation *op) {
  if (ContractionOpInterface linear = asProductWithWeight(op))
    return linear;
  auto product = dyn_cast_if_present<ContractionOpInterface>(op);
  if (!product || product.getLeftRead() != LeftRead::Window || !product.hasStoredRight() || !product.givesSums())
    return nullptr;
  // The matrix is [channels of the result, positions and channels of a window], and all channels read the same.
  ContractionMaps maps = product.getMaps();
  AffineExpr column = maps.right.getNumResults() == 2 ? maps.right.getResult(0) : AffineExpr();
  bool isPlain = isa_and_nonnull<AffineDimExpr>(column) && maps.result.getResults().back() == column &&
                 llvm::all_of(maps.result.getResults(), llvm::IsaPred<AffineDimExpr>) &&
                 llvm::none_of(maps.left.getResults(), [&](AffineExpr index) {
                   return index.isFunctionOfDim(cast<AffineDimExpr>(column).getPosition());
                 });
  int64_t channels = cast<RankedTensorType>(product.getLeft().getType()).getShape().back();
  return isPlain && channels != ShapedType::kDynamic && channels % channelsTogether == 0 ? product : nullptr;
}

/// Larger blocks for weights of fewer than 8 bits save a multiplication for each block's sums, as in ggml's K types
/// (block_q8_K). Their error is small beside that of the weights (docs/quantization.md), but not beside that of weights
/// with 8 bits.
static constexpr int64_t blockOfFewBits = 256, blockOfEightBits = 32;
/// Those of models without caches: shorter ones lose less, and are scaled more often (docs/decisions, 40).
static constexpr int64_t wideBlock = 256;

/// Returns the format of activations with so many dimensions.
static nn::BlockFormatAttr activationFormat(MLIRContext *context, int64_t block, int64_t rank) {
  return nn::BlockFormatAttr::get(context, nn::BlockElement::I8, nn::BlockScale::F32, block, rank - 1);
}

void QuantizedInputs::quantizeIntermediate(nn::ExpertsOp experts) {
  experts.setIntermediateFormatAttr(activationFormat(experts.getContext(), /*block=*/32, /*rank=*/2));
}

void QuantizedInputs::quantize(OpOperand &left, int64_t block) {
  auto type = cast<RankedTensorType>(left.get().getType());
  int64_t rank = type.getRank();
  if (rank != 0 && block == 0 && type.getShape().back() > nn::mostFeaturesOfRowScale)
    block = blockOfEightBits;
  if (rank != 0)
    quantize(left, activationFormat(left.get().getContext(), block, rank));
}

void QuantizedInputs::quantizeToFloats(OpOperand &left, nn::BlockFormatAttr weights) {
  int64_t rank = cast<RankedTensorType>(left.get().getType()).getRank();
  quantize(left, nn::BlockFormatAttr::get(weights.getContext(), weights.getElement(), weights.getScale(),
                                          weights.getBlock(), rank - 1));
}

void QuantizedInputs::quantize(OpOperand &operand, nn::BlockFormatAttr format) {
  Value input = operand.get();
  auto type = cast<RankedTensorType>(input.getType());
  if (input.getDefiningOp<nn::DequantizeOp>())
    return;
  Value &result = inputs[{input, format}];
  if (!result) {
    OpBuilder builder(input.getContext());
    builder.setInsertionPointAfterValue(input);
    result = quantizeAndDequantize(builder, operand.getOwner()->getLoc(), input, format, type.getElementType(),
                                   /*areRows=*/true);
  }
  operand.set(result);
}

int64_t inputBlockBeside(nn::BlockFormatAttr format, llvm::StringRef activations) {
  if (haveFewScales(activations) && format.getElement() == nn::BlockElement::I8 && format.getBlock() == 0)
    return activations == tokenScales ? 0 : wideBlock;
  return nn::elementBits(format.getElement()) < 8 ? blockOfFewBits : blockOfEightBits;
}

bool movesRows(Operation *op) {
  if (auto transpose = dyn_cast_if_present<linalg::TransposeOp>(op))
    return transpose.getPermutation().back() == transpose.getInput().getType().getRank() - 1;
  if (!isa_and_nonnull<tensor::ConcatOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return false;
  auto rowOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape().back(); };
  return cast<RankedTensorType>(op->getResult(0).getType()).getRank() > 1 &&
         rowOf(op->getResult(0)) == rowOf(op->getOperand(0));
}

/// Returns the format of a weight that an archive holds quantized, if kernels can multiply its values by integers; null
/// for others.
static BlockFormatAttrInterface storedFormatOf(Value weight) {
  auto dequantize = weight.getDefiningOp<nn::DequantizeOp>();
  if (!dequantize || !nn::storedWeight(weight) || !dequantize.getFormat().hasIntegerValues())
    return nullptr;
  return dequantize.getFormat().getRowFormat(dequantize.getType().getShape().back());
}

/// Returns true if a weight consists of matrices of one such format. `format` is the one found before, or null.
static bool isQuantizedInArchive(Value weight, BlockFormatAttrInterface &format) {
  if (BlockFormatAttrInterface found = storedFormatOf(weight)) {
    if (!format)
      format = found;
    return format == found;
  }
  Operation *op = weight.getDefiningOp();
  if (!movesRows(op))
    return false;
  auto parts = isa<linalg::TransposeOp>(op) ? op->getOperands().take_front() : op->getOperands();
  return llvm::all_of(parts, [&](Value part) { return isQuantizedInArchive(part, format); });
}

/// Returns how many features of a linear's input share a scale.
static int64_t inputBlockOf(Value weight, BlockFormatAttrInterface format, StringRef activations) {
  // Blocks of the input are as long as blocks of the weight, as in ggml (block_q8_0, block_q8_K).
  if (!isa<nn::ArchiveFormatAttr>(weight.getDefiningOp<nn::DequantizeOp>().getFormat()))
    return format.getBlockElements();
  return inputBlockBeside(cast<nn::BlockFormatAttr>(format), activations);
}

namespace {
struct QuantizeInputsOfBlocks : impl::QuantizeInputsOfBlocksBase<QuantizeInputsOfBlocks> {
  using QuantizeInputsOfBlocksBase::QuantizeInputsOfBlocksBase;

  void runOnOperation() override {
    QuantizedInputs inputs;
    getOperation().walk([&](Operation *op) {
      ContractionOpInterface linear = asProductWithWeight(op);
      if (BlockFormatAttrInterface format = linear ? storedFormatOf(linear.getRight()) : nullptr)
        inputs.quantize(linear.getLeftOperand(), inputBlockOf(linear.getRight(), format, activations));
    });
    getOperation().walk([&](nn::ExpertsOp experts) {
      BlockFormatAttrInterface gateUp, down;
      if (isQuantizedInArchive(experts.getGateUp(), gateUp))
        inputs.quantize(experts);
      if (isQuantizedInArchive(experts.getDown(), down))
        QuantizedInputs::quantizeIntermediate(experts);
    });
  }
};
} // namespace
} // namespace intarsia::quantize
