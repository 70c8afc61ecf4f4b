//===- WeightExpression.cpp - What is known of a tensor ahead of time --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/WeightExpression.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Quantize/BlockPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::lower {
namespace {

std::optional<WeightExpression> ofTranspose(linalg::TransposeOp op, std::string &reason) {
  auto input = weightExpressionOf(op.getInput(), reason);
  if (!input)
    return std::nullopt;
  if (llvm::equal(op.getPermutation(), llvm::seq<int64_t>(0, input->type.getRank())))
    return input;
  bool isJoined = input->keys.size() != (input->mxfp4 ? 2 : 1);
  bool keepsRows = op.getPermutation().back() == input->type.getRank() - 1;
  bool movesRowsOnly = isJoined || input->format || (!input->blocks.empty() && input->blocks.front());
  if (input->transposed || (movesRowsOnly && !keepsRows)) {
    reason =
        "only a tensor of an archive can be transposed ahead of time; of joined, rounded and decoded ones rows can "
        "be moved";
    return std::nullopt;
  }
  if (input->type.getRank() == 2 && op.getInput().getDefiningOp<nn::WeightOp>() && !input->mxfp4) {
    input->transposed = true;
  } else {
    SmallVector<int64_t> before(input->strides);
    if (before.empty())
      before = computeSuffixProduct(input->type.getShape());
    input->strides.clear();
    for (int64_t dimension : op.getPermutation())
      input->strides.push_back(before[dimension]);
  }
  input->type = cast<RankedTensorType>(op->getResult(0).getType());
  return input;
}

std::optional<WeightExpression> ofConcat(tensor::ConcatOp op, std::string &reason) {
  WeightExpression whole;
  whole.type = cast<RankedTensorType>(op.getType());
  for (Value operand : op.getInputs()) {
    auto part = weightExpressionOf(operand, reason);
    if (!part)
      return std::nullopt;
    // Bytes follow one another as soon as nothing lies outside the joined dimension.
    if (llvm::any_of(part->type.getShape().take_front(op.getDim()), [](int64_t size) { return size != 1; })) {
      reason = "weights are joined ahead of time along their outermost dimension only";
      return std::nullopt;
    }
    if (part->mxfp4 && op.getInputs().size() > 1) {
      reason = "weights in MXFP4 are not joined ahead of time";
      return std::nullopt;
    }
    if (!part->strides.empty() && op.getInputs().size() > 1) {
      reason = "weights that are joined must be matrices, if they are transposed";
      return std::nullopt;
    }
    if (part->value) {
      reason = "weights are joined ahead of time with weights, not with constants";
      return std::nullopt;
    }
    if (!whole.keys.empty() && (part->transposed != whole.transposed || part->format != whole.format)) {
      reason = part->format == whole.format ? "weights that are joined must be all transposed or none"
                                            : "weights that are joined must be of one format";
      return std::nullopt;
    }
    whole.transposed = part->transposed;
    whole.format = part->format;
    whole.strides = part->strides;
    whole.mxfp4 = part->mxfp4;
    whole.archives.append(part->archives);
    whole.keys.append(part->keys);
    whole.blocks.append(part->blocks);
  }
  return whole;
}

std::optional<WeightExpression> ofDequantize(nn::DequantizeOp op, std::string &reason) {
  auto quantize = op.getCodes().getDefiningOp<nn::QuantizeOp>();
  if (!quantize || op.getScales() != quantize.getScales() || op.getZeroPoints() != quantize.getZeroPoints() ||
      op.getTensorScale() != quantize.getTensorScale() || op.getFormat() != quantize.getFormat()) {
    reason = "what is dequantized ahead of time must be what one nn.quantize gives";
    return std::nullopt;
  }
  auto input = weightExpressionOf(quantize.getInput(), reason);
  if (!input)
    return std::nullopt;
  nn::BlockFormatAttr format = quantize.getFormat();
  int64_t rank = input->type.getRank();
  if (rank < 2 || input->value || input->format || input->mxfp4 || format.getAxis() != rank - 1 ||
      quantize.getZeroPoints()) {
    reason = "only matrices of an archive are quantized ahead of time, along their last dimension and without zero "
             "points, and none that is stored in MXFP4";
    return std::nullopt;
  }
  // The matrices of a tensor are quantized one by one, so the format is that of one matrix.
  input->format = nn::BlockFormatAttr::get(format.getContext(), format.getElement(), format.getScale(),
                                           format.getBlock(), /*axis=*/1);
  input->type = cast<RankedTensorType>(op.getType());
  return input;
}

std::optional<WeightExpression> reshaped(Value source, Type type, std::string &reason) {
  auto input = weightExpressionOf(source, reason);
  auto shape = dyn_cast<RankedTensorType>(type);
  if (!input || !shape || !shape.hasStaticShape())
    return std::nullopt;
  bool keepsRows = shape.getRank() && input->type.getRank() && shape.getShape().back() == input->type.getShape().back();
  if ((input->transposed || !input->strides.empty() || (input->format && !keepsRows)) &&
      shape.getShape() != input->type.getShape()) {
    // The packer transposes and rounds rows, which the new shape does not tell. Others see the reshape as a view.
    reason = "a weight that is transposed ahead of time keeps its shape, one that is quantized its rows";
    return std::nullopt;
  }
  if (input->value)
    input->value = input->value.reshape(shape);
  input->type = shape;
  return input;
}

std::optional<WeightExpression> ofBlocks(nn::DequantizeBlocksOp op, std::string &reason) {
  auto input = weightExpressionOf(op.getBlocks(), reason);
  if (!input || !op.getType().hasStaticShape() || input->value || input->transposed) {
    reason = "blocks are decoded ahead of time as archives hold them";
    return std::nullopt;
  }
  input->blocks.assign(input->keys.size(), op.getFormat());
  input->type = cast<RankedTensorType>(op.getType());
  return input;
}

} // namespace

std::optional<WeightExpression> weightExpressionOf(Value value, std::string &reason) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, std::optional<WeightExpression>>(op)
      .Case([&](nn::WeightOp weight) {
        WeightExpression result;
        result.archives.push_back(weight.getArchiveAttr());
        result.keys.push_back(weight.getKeyAttr());
        result.blocks.push_back(Attribute());
        if (weight.getMxfp4Scales()) {
          result.archives.push_back(weight.getScalesArchiveAttr());
          result.keys.push_back(weight.getMxfp4ScalesAttr());
          result.mxfp4 = true;
        }
        result.type = cast<RankedTensorType>(weight.getType());
        return std::optional(result);
      })
      .Case([&](arith::ConstantOp constant) -> std::optional<WeightExpression> {
        auto type = dyn_cast<RankedTensorType>(constant.getType());
        if (!type)
          return std::nullopt;
        WeightExpression result;
        result.type = type;
        result.value = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!result.value) {
          reason = "the constant's data is not held as dense elements";
          return std::nullopt;
        }
        return result;
      })
      .Case([&](tensor::ExpandShapeOp view) { return reshaped(view.getSrc(), view.getType(), reason); })
      .Case([&](tensor::CollapseShapeOp view) { return reshaped(view.getSrc(), view.getType(), reason); })
      .Case([&](tensor::CastOp view) {
        // A cast to a dynamic shape is a view at run time, its data is that of the source.
        return cast<RankedTensorType>(view.getType()).hasStaticShape()
                   ? reshaped(view.getSource(), view.getType(), reason)
                   : std::nullopt;
      })
      .Case([&](nn::DequantizeBlocksOp blocks) { return ofBlocks(blocks, reason); })
      .Case([&](tensor::ConcatOp concat) { return ofConcat(concat, reason); })
      .Case([&](nn::DequantizeOp dequantize) { return ofDequantize(dequantize, reason); })
      .Case([&](linalg::TransposeOp transpose) { return ofTranspose(transpose, reason); })
      .Default([](Operation *) { return std::nullopt; });
}

Attribute codedFormatOf(const WeightExpression &expression) {
  if (expression.type.getRank() < 2)
    return nullptr;
  Attribute format = expression.format;
  int64_t depth = expression.type.getShape().back();
  if (!format && !expression.blocks.empty() && llvm::all_equal(expression.blocks)) {
    auto type = dyn_cast_or_null<nn::GgmlTypeAttr>(expression.blocks.front());
    if (expression.mxfp4)
      type = nn::GgmlTypeAttr::get(expression.type.getContext(), "mxfp4");
    auto isWhole = [&](int64_t elements) { return elements % type.getType().elements == 0; };
    // Blocks that do not begin with a row, or lie across rows.
    ArrayRef<int64_t> strides = expression.strides;
    if (!type || !isWhole(depth) || (!strides.empty() && !llvm::all_of(strides.drop_back(), isWhole)))
      return nullptr;
    format = type.getFormat();
  }
  return format && BlockPanels::of(format, depth) ? format : nullptr;
}

} // namespace intarsia::lower
