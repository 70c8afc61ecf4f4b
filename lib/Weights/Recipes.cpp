//===- Recipes.cpp - The recipe of a constant as a tree of sources ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/Recipes.h"

#include "dialects/Nn/Prepacking.h"
#include "lib/Weights/ArchiveMatrix.h"
#include "lib/Weights/PermutedTensor.h"
#include "lib/Weights/ScaledTensor.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using llvm::createStringError;
using llvm::Expected;

namespace intarsia::weights {
namespace {

std::vector<int64_t> shapeOf(Value value) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return {shape.begin(), shape.end()};
}

unsigned elementBytesOf(Value value) {
  return llvm::divideCeil(cast<RankedTensorType>(value.getType()).getElementTypeBitWidth(), 8);
}

StringRef dtypeOf(Value value) { return safetensorsDtype(getElementTypeOrSelf(value.getType())); }

std::vector<char> dataOf(DenseElementsAttr value) {
  std::vector<char> data;
  int64_t elements = value.getNumElements();
  if (value.getElementType().isInteger(1)) {
    for (bool bit : value.getValues<bool>())
      data.push_back(bit);
    return data;
  }
  ArrayRef<char> raw = value.getRawData();
  if (!value.isSplat())
    return std::vector<char>(raw.begin(), raw.end());
  for (int64_t i = 0; i < elements; ++i)
    data.insert(data.end(), raw.begin(), raw.end());
  return data;
}

/// Returns the product of sizes, nullopt if it does not fit in 64 bits.
std::optional<int64_t> productOf(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    if (llvm::MulOverflow(product, size, product))
      return std::nullopt;
  return product;
}

/// Makes the sources of the ops of one recipe, operands before their users.
class Reader {
public:
  Reader(rt::ConstantOp constant, Archives &archives) : constant(constant), archives(archives) {}

  Expected<Recipe> read() {
    for (Operation &op : constant.getRecipe().front().without_terminator()) {
      if (isa<tensor::EmptyOp>(op))
        continue; // what a transposition is written to
      Expected<SharedSource> source = sourceOf(op);
      if (!source)
        return source.takeError();
      sources[op.getResult(0)] = std::move(*source);
    }
    recipe.source = sources.lookup(constant.getTensor());
    for (const ArchiveTensor *tensor : recipe.tensors)
      recipe.name += (recipe.name.empty() ? "" : "+") + tensor->name;
    if (recipe.tensors.empty())
      recipe.name = constant.getSymName().str();
    recipe.name += part;
    if (isTransposed)
      recipe.name += ".transposed";
    if (isDecoded)
      recipe.name += ".decoded";
    else if (isReordered)
      recipe.name += ".reordered";
    if (isPermuted)
      recipe.name += ".permuted";
    if (isScaled)
      recipe.name += ".scaled";
    return std::move(recipe);
  }

private:
  Expected<SharedSource> sourceOf(Operation &op) {
    return llvm::TypeSwitch<Operation *, Expected<SharedSource>>(&op)
        .Case<nn::WeightOp, arith::ConstantOp, nn::QuantizeOp, nn::DequantizeOp, tensor::ConcatOp,
              tensor::ExtractSliceOp, linalg::TransposeOp>([&](auto op) { return make(op); })
        .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>([&](Operation *view) -> SharedSource {
          return std::make_shared<ReshapedTensor>(sources.lookup(view->getOperand(0)), shapeOf(view->getResult(0)));
        })
        .Default([](Operation *other) -> Expected<SharedSource> {
          return createStringError("the packer cannot interpret '" + other->getName().getStringRef() + "'");
        });
  }

  Expected<SharedSource> make(nn::WeightOp op) {
    auto tensor = findWeight(op, archives);
    if (!tensor)
      return tensor.takeError();
    recipe.tensors.push_back(*tensor);
    if (isHeldByModule(op)) {
      recipe.hasConstants = true;
      return std::make_shared<HeldTensor>(*tensor, shapeOf(op), dtypeOf(op), elementBytesOf(op));
    }
    if (getElementTypeOrSelf(op.getType()).isInteger(4))
      return std::make_shared<PackedTensor>(*tensor, shapeOf(op));
    return std::make_shared<StoredTensor>(*tensor, shapeOf(op), dtypeOf(op), elementBytesOf(op));
  }

  Expected<SharedSource> make(arith::ConstantOp op) {
    recipe.hasConstants = true;
    return std::make_shared<ConstantTensor>(constant.getSymName().str(), shapeOf(op), dtypeOf(op), elementBytesOf(op),
                                            dataOf(cast<DenseElementsAttr>(op.getValue())));
  }

  Expected<SharedSource> make(nn::QuantizeOp op) {
    recipe.isQuantized = true;
    SharedSource input = sources.lookup(op.getInput());
    if (Value channels = op.getChannels()) {
      auto order = channels.getDefiningOp<arith::ConstantOp>();
      if (!order)
        return createStringError("constant '" + constant.getSymName() + "': channels are no constant");
      isPermuted = true;
      std::vector<int64_t> numbers;
      for (const APInt &channel : cast<DenseIntElementsAttr>(order.getValue()))
        numbers.push_back(channel.getSExtValue());
      input = std::make_shared<PermutedTensor>(input, std::move(numbers));
    }
    if (Value factors = op.getFactors()) {
      auto numbers = factors.getDefiningOp<arith::ConstantOp>();
      if (!numbers)
        return createStringError("constant '" + constant.getSymName() + "': factors are no constant");
      isScaled = true;
      auto values = cast<DenseFPElementsAttr>(numbers.getValue()).getValues<float>();
      input = std::make_shared<ScaledTensor>(input, std::vector<float>(values.begin(), values.end()));
    }
    return QuantizedTensor::create(input, op.getFormat(), /*withZeroPoints=*/bool(op.getZeroPoints()));
  }

  Expected<SharedSource> make(nn::DequantizeOp op) {
    SharedSource values = sources.lookup(op.getQuantized());
    if (op.getQuantized().getDefiningOp<nn::QuantizeOp>())
      return values; // whose source gives dequantized values where these are asked for
    if (const GgmlType *type = op.getFormat().getFileBlocks()) {
      recipe.blocks.emplace_back(values->originOf(0).tensor, type);
      return std::make_shared<DequantizedBlocks>(values, *type, shapeOf(op));
    }
    isDecoded = !constant.getLayout().getFormat();
    if (auto format = dyn_cast<nn::ArchiveFormatAttr>(op.getFormat())) {
      auto sourceOf = [&](Value operand) { return operand ? sources.lookup(operand) : nullptr; };
      return ArchiveMatrix::create({values, sourceOf(op.getScales()), sourceOf(op.getZeroPoints()),
                                    sourceOf(op.getTensorScale()), sourceOf(op.getGroupIndices()),
                                    sourceOf(op.getCodebook())},
                                   format, shapeOf(op));
    }
    auto format = dyn_cast<nn::BlockFormatAttr>(op.getFormat());
    if (!format)
      return createStringError("constant '" + constant.getSymName() + "': the packer cannot dequantize values of " +
                               op.getFormat().getName());
    return std::make_shared<DequantizedTensor>(values, sources.lookup(op.getScales()), format, dtypeOf(op));
  }

  Expected<SharedSource> make(tensor::ConcatOp op) {
    std::vector<SharedSource> parts;
    for (Value part : op.getInputs())
      parts.push_back(sources.lookup(part));
    return std::make_shared<ConcatenatedTensor>(std::move(parts), shapeOf(op));
  }

  Expected<SharedSource> make(tensor::ExtractSliceOp op) {
    SharedSource input = sources.lookup(op.getSource());
    std::vector<int64_t> shape = shapeOf(op);
    auto [own, whole] = std::mismatch(shape.begin(), shape.end(), input->shape().begin());
    if (own == shape.end())
      return input;
    int64_t dimension = own - shape.begin(), offset = op.getStaticOffsets()[dimension];
    part += "." + std::to_string(offset) + "-" + std::to_string(offset + *own);
    BlockFormatAttrInterface format = constant.getLayout().getFormat();
    return std::make_shared<SlicedTensor>(input, dimension, offset, std::move(shape),
                                          format ? format.getBlockElements() : 0);
  }

  Expected<SharedSource> make(linalg::TransposeOp op) {
    SharedSource input = sources.lookup(op.getInput());
    if (nn::isIdentityTranspose(op))
      return input;
    bool isStoredMatrix = input->shape().size() == 2 && op.getInput().getDefiningOp<nn::WeightOp>();
    (isStoredMatrix ? isTransposed : isReordered) = true;
    return std::make_shared<TransposedTensor>(input, op.getPermutation());
  }

  rt::ConstantOp constant;
  Archives &archives;
  Recipe recipe;
  DenseMap<Value, SharedSource> sources;
  std::string part; // of the tensors: ".128-256" if a part of one is taken
  bool isTransposed = false, isReordered = false, isDecoded = false, isPermuted = false, isScaled = false;
};

} // namespace

Expected<Recipe> readRecipe(rt::ConstantOp constant, Archives &archives) {
  for (Operation &op : constant.getRecipe().front().without_terminator())
    for (Value value : op.getResults()) {
      if (!getElementTypeOrSelf(value.getType()).isIntOrFloat())
        return createStringError("constant '" + constant.getSymName() + "' has elements that archives do not hold");
      SmallVector<int64_t> sizes(cast<RankedTensorType>(value.getType()).getShape());
      sizes.push_back(elementBytesOf(value));
      if (!productOf(sizes))
        return createStringError("constant '" + constant.getSymName() + "' is " +
                                 typeText(dtypeOf(value), ArrayRef(sizes).drop_back()) +
                                 ", which has more bytes than 64 bits hold");
    }
  return Reader(constant, archives).read();
}

} // namespace intarsia::weights
