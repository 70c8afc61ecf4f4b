//===- Prepacking.cpp - Tensors that are made when weights are packed ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Prepacking.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::nn {

static bool isReshape(Operation *op) {
  return isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op);
}

bool isIdentityTranspose(Operation *op) {
  auto transpose = dyn_cast_if_present<linalg::TransposeOp>(op);
  return transpose && llvm::equal(transpose.getPermutation(), llvm::seq<int64_t>(0, transpose.getPermutation().size()));
}

Value reshapeSource(Value value) {
  while (isReshape(value.getDefiningOp()) || isIdentityTranspose(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Returns true if one of the ops that a tensor is made by is such.
static bool isMadeWith(Value value, llvm::function_ref<bool(Operation *)> isSuch) {
  SmallVector<Value> worklist = {value};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !seen.insert(next).second)
      continue;
    if (isSuch(op))
      return true;
    llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

static BlockFormatAttrInterface formatOf(Value value);

static bool isTranspose(Operation *op) { return isa<linalg::TransposeOp>(op) && !isIdentityTranspose(op); }

Value transposeSource(Value value) {
  value = reshapeSource(value);
  while (auto transpose = value.getDefiningOp<linalg::TransposeOp>())
    value = reshapeSource(transpose.getInput());
  return value;
}

WeightOp storedWeight(Value value) {
  if (auto dequantize = value.getDefiningOp<DequantizeOp>())
    value = transposeSource(dequantize.getQuantized());
  return value.getDefiningOp<WeightOp>();
}

using Why = std::optional<std::string>;

static Why whyNot(linalg::TransposeOp op) {
  if (isIdentityTranspose(op))
    return std::nullopt;
  bool keepsRows = op.getPermutation().back() == op.getInput().getType().getRank() - 1;
  if (keepsRows || reshapeSource(op.getInput()).getDefiningOp<WeightOp>())
    return std::nullopt;
  return "only a tensor of an archive can be transposed at compile time; of concatenated, quantized and dequantized "
         "ones rows can be moved";
}

static Why whyNot(tensor::ConcatOp op) {
  // Elements follow one another as soon as nothing lies outside the concatenated dimension.
  for (Value part : op.getInputs())
    if (llvm::any_of(typeOf(part).getShape().take_front(op.getDim()), [](int64_t size) { return size != 1; }))
      return "weights are concatenated at compile time along their outermost dimension only";
  return std::nullopt;
}

/// Returns why values cannot be quantized when weights are packed.
static Why whyNot(QuantizeOp op) {
  int64_t rank = typeOf(op.getInput()).getRank();
  if (op.getWideBlocks())
    return "blocks of 8 and of 4 bits are for what a model computes, not for weights";
  if (op.getUnitScale())
    return "unit scales are for what a model computes, not for weights";
  auto isConstant = [](Value value) { return !value || value.getDefiningOp<arith::ConstantOp>(); };
  if (!isConstant(op.getChannels()) || !isConstant(op.getFactors()))
    return "channels and factors of a weight that is quantized at compile time are constants";
  // Panels have zero points of integers without a sign.
  bool isOffset = op.getFormat().getElement() == BlockElement::U4 || op.getFormat().getElement() == BlockElement::U8;
  if (rank < 2 || !op.getFormat().hasBlocksInRows(rank) || (op.getZeroPoints() && !isOffset) || op.hasRowScales() ||
      isMadeWith(op.getInput(), llvm::IsaPred<QuantizeOp>) || !isMadeWith(op.getInput(), llvm::IsaPred<WeightOp>))
    return "only matrices of an archive are quantized at compile time, once, along their last dimension and without "
           "scales of rows, integers with a sign also without zero points";
  return std::nullopt;
}

static Why whyNot(DequantizeOp op) {
  if (auto quantize = op.getQuantized().getDefiningOp<QuantizeOp>()) {
    if (op.getScales() != quantize.getScales() || op.getZeroPoints() != quantize.getZeroPoints() ||
        op.getTensorScale() != quantize.getTensorScale() || op.getFormat() != quantize.getFormat())
      return "what is dequantized at compile time must be what one nn.quantize gives, or what an archive holds";
    if (!op.getType().getElementType().isF32())
      return "weights that are quantized at compile time are dequantized to f32 only";
    return std::nullopt;
  }
  if (!storedWeight(op.getResult()) || (op.getScales() && !storedWeight(reshapeSource(op.getScales()))))
    return "what is dequantized at compile time must be what one nn.quantize gives, or what an archive holds";
  if (isa<ArchiveFormatAttr>(op.getFormat()))
    return std::nullopt; // whose operands are weights
  if (op.getZeroPoints() || op.getTensorScale() || !op.getFormat().hasBlocksInRows(op.getType().getRank()))
    return "quantized values of an archive are dequantized at compile time along their last dimension, without zero "
           "points and without a scale of the tensor";
  Type element = op.getType().getElementType();
  if (!element.isF32() && !element.isBF16())
    return "quantized values of an archive are dequantized at compile time to f32 and bf16 only";
  return std::nullopt;
}

/// Returns why a part of a tensor cannot be taken when weights are packed.
static Why whyNot(tensor::ExtractSliceOp op) {
  RankedTensorType source = op.getSourceType(), type = op.getType();
  if (!op.hasUnitStride() || source.getRank() != type.getRank() ||
      !llvm::all_of(op.getStaticOffsets(), [](int64_t at) { return !ShapedType::isDynamic(at); }))
    return "parts of weights are taken at compile time along dimensions that stay, without gaps, at constant offsets";
  int64_t cuts = 0;
  for (int64_t dimension = 0; dimension < source.getRank(); ++dimension)
    cuts += source.getDimSize(dimension) != type.getDimSize(dimension);
  if (cuts > 1)
    return "parts of weights are taken at compile time along one dimension";
  if (source.getRank() == 0 || source.getShape().back() == type.getShape().back())
    return std::nullopt;
  BlockFormatAttrInterface format = formatOf(op.getSource());
  if (!format && isMadeWith(op.getSource(), llvm::IsaPred<DequantizeOp>))
    return "a part of the features of several formats cannot be taken at compile time";
  int64_t block = format ? format.getBlockElements() : 1, begin = op.getStaticOffsets().back();
  int64_t end = begin + type.getShape().back();
  if (block > 1 && (begin % block != 0 || (end % block != 0 && end != source.getShape().back())))
    return "a part of a quantized weight begins and ends with blocks of " + std::to_string(block) + " features";
  return std::nullopt;
}

/// Reshapes do not move elements, but the packer moves the rows of quantized tensors as they are, which the new shape
/// does not tell. Other ops see such a reshape as a view.
static Why whyNotReshaped(Value source, RankedTensorType type) {
  RankedTensorType before = typeOf(source);
  if (before.getShape() == type.getShape())
    return std::nullopt;
  bool keepsRows = type.getRank() && before.getRank() && type.getShape().back() == before.getShape().back();
  auto hasScales = [](Operation *op) {
    auto dequantize = dyn_cast<DequantizeOp>(op);
    return dequantize && dequantize.getScales();
  };
  bool isQuantized = isMadeWith(source, llvm::IsaPred<QuantizeOp, DequantizeOp>);
  if ((isQuantized && isMadeWith(source, isTranspose)) || (isMadeWith(source, hasScales) && !keepsRows))
    return "a weight that is quantized keeps its rows at compile time, and one that is transposed too its shape";
  return std::nullopt;
}

std::optional<std::string> whyNotPrepacked(Operation *op) {
  for (Type type : op->getResultTypes())
    if (auto ranked = dyn_cast<RankedTensorType>(type); !ranked || !ranked.hasStaticShape())
      return "it does not make a tensor of static shape";
  return llvm::TypeSwitch<Operation *, Why>(op)
      .Case<WeightOp, tensor::EmptyOp>([](auto) { return std::nullopt; })
      .Case([](arith::ConstantOp constant) {
        return isa<DenseElementsAttr>(constant.getValue()) ? Why()
                                                           : "the constant's data is not held as dense elements";
      })
      .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
          [](auto view) { return whyNotReshaped(view.getSrc(), typeOf(view.getResult())); })
      .Case([](tensor::CastOp view) { return whyNotReshaped(view.getSource(), typeOf(view.getDest())); })
      .Case<linalg::TransposeOp, tensor::ConcatOp, tensor::ExtractSliceOp, QuantizeOp, DequantizeOp>(
          [](auto op) { return whyNot(op); })
      .Default([](Operation *) { return "the packer has no rows for it"; });
}

/// Returns true for ops that recipes are made of, in some form.
static bool isInRecipes(Operation *op) {
  return isa<WeightOp, arith::ConstantOp, QuantizeOp, DequantizeOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp,
             tensor::CastOp, tensor::ConcatOp, tensor::ExtractSliceOp, linalg::TransposeOp>(op);
}

static bool isPrepacked(Value value, std::string *reason, DenseSet<Value> &known) {
  Operation *op = value.getDefiningOp();
  if (!op || !isInRecipes(op) || !isa<RankedTensorType>(value.getType()))
    return false;
  if (!known.insert(value).second)
    return true;
  // A transposition's destination is only there for its shape.
  for (Value operand : isa<linalg::TransposeOp>(op) ? op->getOperands().take_front() : op->getOperands())
    if (!isPrepacked(operand, reason, known))
      return false;
  std::optional<std::string> why = whyNotPrepacked(op);
  if (why && reason)
    *reason = *why;
  return !why;
}

bool isPrepacked(Value value, std::string *reason) {
  // Values of nn.quantize are parts of a tensor and not one.
  if (value.getDefiningOp<QuantizeOp>())
    return false;
  DenseSet<Value> known;
  return isPrepacked(value, reason, known);
}

/// Returns the format that the rows of a tensor are dequantized from, wherever these are moved to.
static BlockFormatAttrInterface formatOf(Value value) {
  value = reshapeSource(value);
  Operation *op = value.getDefiningOp();
  if (!op) // an argument
    return nullptr;
  if (auto dequantize = dyn_cast<DequantizeOp>(op))
    return dequantize.getFormat();
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op))
    return formatOf(transpose.getInput());
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return formatOf(slice.getSource());
  auto concat = dyn_cast<tensor::ConcatOp>(op);
  if (!concat)
    return nullptr;
  BlockFormatAttrInterface format = formatOf(concat.getInputs().front());
  int64_t elements = typeOf(value).getShape().back();
  bool isOne = format && llvm::all_of(concat.getInputs().drop_front(), [&](Value part) {
                 BlockFormatAttrInterface other = formatOf(part);
                 return other && other.getRowFormat(elements) == format.getRowFormat(elements);
               });
  return isOne ? format : nullptr;
}

bool isPartOfPrepacked(Operation *op) {
  return isa<WeightOp, QuantizeOp>(op) && llvm::all_of(op->getUsers(), [](Operation *user) {
           return isa<DequantizeOp>(user) && isPrepacked(user->getResult(0));
         });
}

Attribute storedFormOf(Value value) {
  value = reshapeSource(value);
  if (auto weight = value.getDefiningOp<WeightOp>())
    return TypeAttr::get(weight.getType().getElementType());
  if (auto slice = value.getDefiningOp<tensor::ExtractSliceOp>())
    return storedFormOf(slice.getSource());
  auto dequantize = value.getDefiningOp<DequantizeOp>();
  if (!dequantize)
    return nullptr;
  auto quantize = dequantize.getQuantized().getDefiningOp<QuantizeOp>();
  Attribute source = storedFormOf(quantize ? quantize.getInput() : dequantize.getQuantized());
  if (!source)
    return nullptr;
  auto element = TypeAttr::get(dequantize.getType().getElementType());
  return ArrayAttr::get(value.getContext(), {element, dequantize.getFormat(), source});
}

BlockFormatAttrInterface quantizedFormatOf(Value value) {
  RankedTensorType type = typeOf(value);
  BlockFormatAttrInterface format = type.getRank() < 2 ? nullptr : formatOf(value);
  return format ? format.getRowFormat(type.getShape().back()) : nullptr;
}

} // namespace intarsia::nn
