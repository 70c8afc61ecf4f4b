//===- MicrosoftBlocks.cpp - Matrices with a scale for each block of features -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. A weight of the file stays
// there, and #nn.archive_format says how it is read when weights are packed, in a block format that has the same values
// if there is one. Ops dequantize other weights, when a model is loaded or in each call (fuse-compute-at-load).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/MicrosoftBlocks.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Import/Onnx/Ops/ExactProducts.h"
#include "lib/Import/Onnx/Ops/MicrosoftActivations.h"
#include "lib/Import/Onnx/Ops/Positions.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

//===-- Weights of the file -----------------------------------------------------------------------------------===//

/// Returns how scales are kept: in f16 if it holds all of them.
nn::BlockScale keptScale(const Tensor &scales) {
  if (scales.type == DataType::Float16)
    return nn::BlockScale::F16;
  bool isSingle = scales.type == DataType::Float;
  for (uint64_t at = 0, step = isSingle ? 4 : 2; at + step <= scales.bytes; at += step) {
    float scale = isSingle ? llvm::bit_cast<float>(llvm::support::endian::read32le(scales.data + at))
                           : decodeBf16(llvm::support::endian::read16le(scales.data + at));
    if (decodeF16(encodeF16(scale)) != scale)
      return isSingle ? nn::BlockScale::F32 : nn::BlockScale::BF16;
  }
  return nn::BlockScale::F16;
}

/// Returns the block format that kernels multiply and that has all values; null if there is none.
nn::BlockFormatAttr keptFormat(MLIRContext *context, const BlockMatrix &matrix, nn::BlockScale scale) {
  int64_t block = 0;
  if (matrix.block)
    for (int64_t smaller : {32, 64, 128})
      block = matrix.block % smaller == 0 ? smaller : block;
  if ((matrix.block && !block) || matrix.groupIndices)
    return nullptr;
  auto formatOf = [&](nn::BlockElement element) {
    return nn::BlockFormatAttr::get(context, element, scale, block, /*axis=*/1);
  };
  // Kernels multiply scales by zero points, which f32 holds exactly for scales of 16 bits.
  if (matrix.zeros && matrix.bits <= 4 && block && scale != nn::BlockScale::F32)
    return formatOf(nn::BlockElement::U4);
  int64_t most = (1 << matrix.bits) - 1, middle = 1 << (matrix.bits - 1);
  int64_t lowest = matrix.zeros ? -most : -middle, highest = matrix.zeros ? most : most - middle;
  for (nn::BlockElement element : {nn::BlockElement::I4, nn::BlockElement::I5, nn::BlockElement::I8}) {
    nn::IntegerElement integer = *nn::getIntegerElement(element);
    if (integer.lowest <= lowest && highest <= integer.highest)
      return formatOf(element);
  }
  return nullptr;
}

/// True if tensors of the file have as many elements as a matrix needs. Others are refused by what computes with them.
bool fits(const BlockMatrix &matrix) {
  auto has = [](const GraphValue *value, int64_t count) {
    return !value || !value->stored || value->stored->elements() == count;
  };
  int64_t groups = matrix.groups(), rows = matrix.outputs;
  int64_t columns = matrix.block ? groups * matrix.block : matrix.inputs;
  int64_t zeros = matrix.zeros && isFloat(matrix.zeros->type) ? groups : llvm::divideCeil(groups, 8 / matrix.bits);
  return has(matrix.values, rows * columns * matrix.bits / 8) && has(matrix.scales, rows * groups) &&
         has(matrix.zeros, rows * zeros) && has(matrix.groupIndices, columns);
}

/// Returns how many of a tensor's first dimensions count rows, as those of experts and of their outputs do; 0 if none
/// do.
size_t dimensionsOfRows(const Tensor &tensor, int64_t rows) {
  int64_t count = 1;
  for (auto [number, size] : llvm::enumerate(tensor.dims))
    if ((count *= size) == rows)
      return number + 1;
  return 0;
}

/// Returns the weight of a matrix that lies in the file; null if a part is not in the file, or if a row is not a whole
/// number of words.
Value storedMatrix(NodeContext &node, const BlockMatrix &matrix) {
  int64_t perWord = 32 / std::max<int64_t>(matrix.bits, 4), groups = matrix.groups();
  int64_t columns = matrix.block ? groups * matrix.block : matrix.inputs;
  if (columns % perWord != 0 || columns % (8 / matrix.bits) != 0 || !fits(matrix))
    return {};
  Builder builder(node.graph.context());
  auto isHere = [&](const GraphValue *value, DataType type) { return value->stored && value->stored->type == type; };
  if (!isHere(matrix.values, DataType::Uint8) || !matrix.scales->stored || !isComputedByNn(matrix.scales->type) ||
      (matrix.zeros && !isHere(matrix.zeros, DataType::Uint8)) ||
      (matrix.groupIndices && !isHere(matrix.groupIndices, DataType::Int32)))
    return {};
  const OnnxWeights &archive = node.graph.archive();
  auto weightOf = [&](const GraphValue *value, Type element, llvm::ArrayRef<int64_t> shape) -> Value {
    auto tensor = archive.find(value->stored->key);
    if (!tensor)
      return {};
    // The words of a row are the bytes of the dimensions behind those that count rows.
    llvm::SmallVector<int64_t> stored(value->stored->dims.begin(), value->stored->dims.end());
    if (element.isInteger(32) && value->stored->type == DataType::Uint8) {
      stored.truncate(dimensionsOfRows(*value->stored, shape.front()));
      stored.push_back(shape.back());
    }
    Value weight = node.ir().rawWeight(node.at, *tensor, RankedTensorType::get(stored, element));
    return node.ir().reshape(node.at, weight, shape);
  };
  bool isNarrow = matrix.bits == 2;
  int64_t rows = matrix.outputs;
  if (!isNarrow && dimensionsOfRows(*matrix.values->stored, rows) == 0)
    return {};
  importer::QuantizedParts parts;
  parts.values = isNarrow ? weightOf(matrix.values, builder.getI8Type(), {rows, columns / 8, 2})
                          : weightOf(matrix.values, builder.getI32Type(), {rows, columns / perWord});
  parts.scales = weightOf(matrix.scales, node.irType(matrix.scales->type), {rows, groups});
  if (matrix.zeros)
    parts.zeroPoints =
        weightOf(matrix.zeros, builder.getI8Type(), {rows, int64_t(llvm::divideCeil(groups, 8 / matrix.bits))});
  if (matrix.groupIndices)
    parts.groupIndices = weightOf(matrix.groupIndices, builder.getI32Type(), {columns});
  if (!parts.values || !parts.scales)
    return {};
  auto format = nn::ArchiveFormatAttr::get(
      node.graph.context(), nn::ArchiveOrder::Rows, matrix.bits == 8 ? nn::BlockElement::U8 : nn::BlockElement::U4,
      matrix.block, /*rows=*/1, /*zero=*/matrix.zeros ? 0 : int64_t(1) << (matrix.bits - 1), /*inverse=*/false,
      FloatAttr(), FloatAttr(), keptFormat(node.graph.context(), matrix, keptScale(*matrix.scales->stored)));
  return node.ir().dequantize(node.at, parts, RankedTensorType::get({rows, columns}, builder.getF32Type()), format);
}

//===-- Weights that ops dequantize ---------------------------------------------------------------------------===//

/// Returns integers of `bits` that lie in bytes along the last dimension, the first in the lowest bits, one in a byte.
Value unpacked(NodeContext &node, Value bytes, int64_t bits) {
  if (bits == 8)
    return bytes;
  Shape shape = node.graph.shapeOf(node.at, bytes), split(shape), whole(shape);
  split.push_back(8 / bits);
  whole.back() = node.compute(importer::SizeOp::Multiply, shape.back(), 8 / bits);
  auto dims = llvm::to_vector<4>(llvm::seq<unsigned>(0, shape.size()));
  unsigned last = shape.size();
  Type byte = node.ops().getI8Type();
  Value parts = node.ir().elementwise(
      node.at, byte, split, {{bytes, dims}}, [&](OpBuilder &b, Location at, ValueRange v) -> Value {
        Value number = arith::IndexCastOp::create(b, at, byte, linalg::IndexOp::create(b, at, last));
        Value shift = arith::MulIOp::create(b, at, number, arith::ConstantOp::create(b, at, b.getI8IntegerAttr(bits)));
        Value mask = arith::ConstantOp::create(b, at, b.getI8IntegerAttr((1 << bits) - 1));
        return arith::AndIOp::create(b, at, arith::ShRUIOp::create(b, at, v[0], shift), mask);
      });
  node.graph.setShape(parts, split);
  return node.reshaped(parts, whole);
}

/// Returns a tensor in another shape; refuses one that has another number of elements.
Value shaped(NodeContext &node, Value tensor, llvm::ArrayRef<int64_t> shape, llvm::StringRef name) {
  auto type = tensorType(tensor);
  if (type.hasStaticShape() && type.getNumElements() == ShapedType::getNumElements(shape))
    return node.reshaped(tensor, Shape(shape.begin(), shape.end()));
  node.refuse("input '" + name + "' does not have " + llvm::Twine(ShapedType::getNumElements(shape)) + " elements");
  return node.filled(Shape(shape.begin(), shape.end()), node.ops().getZeroAttr(type.getElementType()));
}

/// Returns the matrix [outputs, columns of whole blocks] in f32.
Value computedMatrix(NodeContext &node, const BlockMatrix &matrix) {
  int64_t groups = matrix.groups(), rows = matrix.outputs, perByte = 8 / matrix.bits;
  int64_t columns = matrix.block ? groups * matrix.block : matrix.inputs;
  if (matrix.groupIndices) {
    node.refuse("input 'g_idx' is imported for weights that lie in the file, of whole words in each row");
    return {};
  }
  if (columns % perByte != 0) {
    node.refuse("a row has " + llvm::Twine(columns) + " values, no whole bytes");
    return {};
  }
  auto tensorOf = [&](GraphValue *value) { return node.graph.tensorOf(node.at, *value); };
  Value bytes = shaped(node, tensorOf(matrix.values), {rows, columns / perByte}, "B");
  Value scales = shaped(node, tensorOf(matrix.scales), {rows, groups, 1}, "scales");
  Value values = node.reshaped(unpacked(node, bytes, matrix.bits), {rows, groups, columns / groups});
  DataType ofScale = matrix.scales->type;
  bool areFloats = matrix.zeros && isFloat(matrix.zeros->type);
  Value zeros;
  if (areFloats) {
    zeros = node.cast(shaped(node, tensorOf(matrix.zeros), {rows, groups, 1}, "zero_points"), matrix.zeros->type,
                      DataType::Float);
  } else if (matrix.zeros) {
    int64_t packed = llvm::divideCeil(groups, perByte);
    Value all = unpacked(node, shaped(node, tensorOf(matrix.zeros), {rows, packed}, "zero_points"), matrix.bits);
    if (packed * perByte != groups)
      all = node.sliced(all, 1, 0, groups);
    zeros = node.cast(node.reshaped(all, {rows, groups, 1}), DataType::Uint8, DataType::Float);
  } else {
    zeros = node.filled({}, node.ops().getF32FloatAttr(float(1 << (matrix.bits - 1))));
  }
  if (node.isRefused())
    return {};
  Type f32 = node.ops().getF32Type();
  Value result = node.broadcast({values, node.cast(scales, ofScale, DataType::Float), zeros}, f32,
                                [&](OpBuilder &b, Location at, ValueRange v) -> Value {
                                  Value moved =
                                      arith::SubFOp::create(b, at, arith::UIToFPOp::create(b, at, f32, v[0]), v[2]);
                                  return arith::MulFOp::create(b, at, moved, v[1]);
                                });
  return node.isRefused() ? Value() : node.reshaped(result, {rows, columns});
}

} // namespace

Value blockMatrix(NodeContext &node, const BlockMatrix &matrix) {
  Value stored = storedMatrix(node, matrix);
  return stored ? stored : computedMatrix(node, matrix);
}

bool checkBlocks(NodeContext &node, BlockMatrix &matrix) {
  if (matrix.bits != 2 && matrix.bits != 4 && matrix.bits != 8)
    node.refuse("attribute 'bits' is " + llvm::Twine(matrix.bits) + ", must be 2, 4 or 8");
  if (matrix.block && (matrix.block < 16 || matrix.block > (1 << 20) || !llvm::isPowerOf2_64(matrix.block)))
    node.refuse("attribute 'block_size' is " + llvm::Twine(matrix.block) + ", must be a power of two from 16 on");
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (matrix.outputs < 1 || matrix.inputs < 1 || matrix.outputs > most || matrix.inputs > most ||
      matrix.outputs * matrix.inputs > most * 65536)
    node.refuse("a weight is of " + llvm::Twine(matrix.outputs) + " times " + llvm::Twine(matrix.inputs));
  return !node.isRefused();
}

namespace {

/// Drops group indices that are those of blocks in their order.
GraphValue *groupIndices(NodeContext &node, size_t input, int64_t inputs, int64_t block) {
  if (!node.has(input))
    return nullptr;
  GraphValue &indices = node.input(input);
  const Tensor *stored = indices.stored;
  if (!stored || stored->type != DataType::Int32)
    return &indices;
  if (stored->elements() != inputs) {
    node.refuse("input 'g_idx' has " + llvm::Twine(stored->elements()) + " elements, must have " + llvm::Twine(inputs));
    return nullptr;
  }
  for (int64_t at = 0; at < int64_t(stored->bytes / 4); ++at)
    if (int32_t(llvm::support::endian::read32le(stored->data + 4 * at)) != std::min(at, inputs - 1) / block &&
        at < inputs)
      return &indices;
  return nullptr;
}

/// Rows of the input are multiplied in f32, and rounded at the end. `accuracy_level`, a least precision of these
/// products, is not read: --quantize-activations says what linears are multiplied in.
void matMulNBits(NodeContext &node) {
  BlockMatrix matrix{node.integer("N", 0), node.integer("K", 0), node.integer("bits", 4),
                     node.integer("block_size", 0)};
  if (matrix.block == 0)
    node.refuse("attribute 'block_size' is missing");
  for (size_t input : {1, 2})
    if (!node.has(input))
      node.refuse("has no input " + llvm::Twine(input));
  if (int64_t packed = node.integer("weight_prepacked", 0))
    node.refuse("attribute 'weight_prepacked' is " + llvm::Twine(packed) + ", which is for one kind of GPU");
  DataType type = node.typeOf(0);
  Value input = node.tensor(0);
  if (!checkBlocks(node, matrix) || !node.isComputed(0) || !node.isOf(1, isUint8, "uint8") || !node.isComputed(2) ||
      !node.areOneType({0, 2, 5}))
    return;
  matrix.values = &node.input(1);
  matrix.scales = &node.input(2);
  matrix.zeros = node.has(3) ? &node.input(3) : nullptr;
  if (matrix.zeros && !isUint8(matrix.zeros->type) && !node.areOneType({0, 3}))
    return;
  matrix.groupIndices = groupIndices(node, 4, matrix.inputs, matrix.block);
  Shape shape = node.graph.shapeOf(node.at, input);
  if (shape.empty() || (!shape.back().isDynamic() && shape.back().value != matrix.inputs))
    return node.refuse("the input does not have " + llvm::Twine(matrix.inputs) + " features");
  Value bias = node.has(5) ? node.cast(node.tensor(5), type, DataType::Float) : Value();
  if (bias && (tensorType(bias).getRank() != 1 || tensorType(bias).getDimSize(0) != matrix.outputs))
    return node.refuse("the bias does not have " + llvm::Twine(matrix.outputs) + " elements");
  Value weight = blockMatrix(node, matrix);
  if (!weight)
    return;
  // A last block that is not full goes on with features that are zero.
  input = node.cast(input, type, DataType::Float);
  if (int64_t more = tensorType(weight).getDimSize(1) - matrix.inputs; more > 0) {
    Shape rest(shape);
    rest.back() = more;
    std::optional<Value> whole =
        node.joined({input, node.filled(rest, node.ops().getF32FloatAttr(0))}, int64_t(shape.size()) - 1);
    if (!whole)
      return;
    input = *whole;
  }
  if (isConstant(weight)) {
    bool takesBias = !bias || isConstant(bias);
    Value product = node.ir().linear(node.at, input, weight, takesBias ? bias : Value());
    shape.back() = matrix.outputs;
    node.graph.setShape(product, shape);
    Value sum = takesBias ? product : sumOf(node, {product, bias}, DataType::Float);
    return node.isRefused() ? void() : node.result(node.cast(sum, DataType::Float, type));
  }
  std::optional<Value> product = matrixProduct(node, input, node.transposed(weight, {1, 0}), DataType::Float);
  if (!product || node.isRefused())
    return;
  node.result(node.cast(sumOf(node, {*product, bias}, DataType::Float), DataType::Float, type));
}

//===-- Tables ------------------------------------------------------------------------------------------------===//

/// Rows of a table whose features lie in bytes, and are dequantized as they are read.
void gatherBytes(NodeContext &node, int64_t bits, int64_t block, int64_t quantizeAxis) {
  Shape shape = node.shapeOf(0);
  auto rank = int64_t(shape.size());
  DataType type = node.typeOf(2);
  if (!isStatic(shape) || rank < 2)
    return node.refuse("the table has sizes that are not known, or fewer than 2 dimensions");
  int64_t features = shape.back().value * (8 / bits);
  // Scales and zero points are those of the same rows; zero points of several features lie in a byte.
  Shape ofScales = shape, ofZeros;
  ofScales.back() = features;
  ofScales[quantizeAxis] = int64_t(llvm::divideCeil(ofScales[quantizeAxis].value, block));
  ofZeros = ofScales;
  ofZeros.back() = int64_t(llvm::divideCeil(ofZeros.back().value, 8 / bits));
  for (auto [input, wanted] : {std::pair<size_t, Shape &>(2, ofScales), {3, ofZeros}}) {
    Shape own = node.has(input) ? node.shapeOf(input) : wanted;
    bool isSame = own.size() == wanted.size();
    for (auto [one, other] : llvm::zip(own, wanted))
      isSame &= node.graph.areEqual(one, other);
    if (!isSame)
      return node.refuse("input " + llvm::Twine(input) + " does not go with blocks of " + llvm::Twine(block) +
                         " in a table of " + llvm::Twine(features) + " features");
  }
  BlockMatrix matrix{
      shape[0].value, features, bits, block, &node.input(0), &node.input(2), node.has(3) ? &node.input(3) : nullptr};
  // A matrix whose blocks lie along its rows stays in the file.
  if (rank == 2 && quantizeAxis == 1 && features % block == 0 && checkBlocks(node, matrix))
    if (Value table = node.input(0).stored ? storedMatrix(node, matrix) : Value()) {
      Value rows = Part(node, "Gather").with(table, DataType::Float).with(node.input(1)).build();
      return rows ? node.result(0, node.cast(rows, DataType::Float, type), type) : void();
    }
  if (node.isRefused())
    return;
  int64_t moved = node.rankOf(1) - 1;
  auto rowsOf = [&](size_t input) -> Value {
    return Part(node, "Gather").with(node.input(input)).with(node.input(1)).build();
  };
  Value values = rowsOf(0), scales = rowsOf(2), zeros = node.has(3) ? rowsOf(3) : Value();
  if (node.isRefused())
    return;
  values = unpacked(node, values, bits);
  if (zeros) {
    zeros = unpacked(node, zeros, bits);
    if (ofZeros.back().value * (8 / bits) != ofScales.back().value)
      zeros = node.sliced(zeros, tensorType(zeros).getRank() - 1, 0, ofScales.back());
  } else {
    zeros = node.filled(node.graph.shapeOf(node.at, scales), node.ops().getI8IntegerAttr(int8_t(1 << (bits - 1))));
  }
  Value result = Part(node, "DequantizeLinear")
                     .with(values, DataType::Uint8)
                     .with(scales, type)
                     .with(zeros, DataType::Uint8)
                     .set("axis", quantizeAxis + moved)
                     .set("block_size", block)
                     .build();
  if (result)
    node.result(0, result, type);
}

void gatherBlockQuantized(NodeContext &node) {
  int64_t block = node.integer("block_size", 128), bits = node.integer("bits", 4);
  int64_t rank = node.rankOf(0), gatherAxis = node.axis(node.integer("gather_axis", 0), rank, "gather_axis");
  int64_t quantizeAxis = node.axis(node.integer("quantize_axis", 1), rank, "quantize_axis");
  DataType type = node.typeOf(2), ofData = node.typeOf(0);
  if (!node.isOf(1, isIndex, "int32 or int64") || !node.isComputed(2) || !node.areOneType({0, 3}) || !node.has(0) ||
      !node.has(1) || !node.has(2) || node.isRefused())
    return node.refuse("an input is missing");
  if (bits != 2 && bits != 4 && bits != 8)
    return node.refuse("attribute 'bits' is " + llvm::Twine(bits) + ", must be 2, 4 or 8");
  bool isEightBitFloat = isSmallFloat(ofData) && bitsOf(ofData) == 8;
  if ((block != 0 || !isEightBitFloat) && (block < 16 || block > (1 << 20) || !llvm::isPowerOf2_64(block)))
    return node.refuse("attribute 'block_size' is " + llvm::Twine(block) + ", must be a power of two from 16 on");
  if (isUint8(ofData)) {
    if (gatherAxis != 0 || quantizeAxis == 0)
      return node.refuse("attribute 'gather_axis' must be 0 for uint8, and 'quantize_axis' another one");
    return gatherBytes(node, bits, block, quantizeAxis);
  }
  Part dequantize(node, "DequantizeLinear");
  dequantize.with(node.input(0)).with(node.input(2));
  if (node.has(3))
    dequantize.with(node.input(3));
  Value table = dequantize.set("axis", quantizeAxis).set("block_size", block).build();
  if (!table)
    return;
  if (Value result = Part(node, "Gather").with(table, type).with(node.input(1)).set("axis", gatherAxis).build())
    node.result(0, result, type);
}

//===-- Codebooks ---------------------------------------------------------------------------------------------===//

/// The values of patterns of 4 bits: FP4 and NF4 of bitsandbytes (arXiv 2305.14314, appendix E, for the second).
llvm::ArrayRef<float> codebookOf(int64_t kind) {
  static const float fp4[] = {0.0f,  0.0052083333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                              -0.0f, -0.0052083333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
  return kind == 0 ? llvm::ArrayRef<float>(fp4) : nn::getNf4Values();
}

/// Returns the weight [outputs, inputs], whose blocks may go from one row into the next.
Value ofCodebook(NodeContext &node, const BlockMatrix &matrix, Value table) {
  int64_t elements = matrix.outputs * matrix.inputs, block = matrix.block, count = llvm::divideCeil(elements, block);
  Value bytes = shaped(node, node.tensor(1), {int64_t(llvm::divideCeil(elements, 2))}, "B");
  Value scales = node.cast(shaped(node, node.tensor(2), {count}, "absmax"), node.typeOf(2), DataType::Float);
  Value flat = node.ir().elementwise(
      node.at, node.ops().getF32Type(), {elements}, {}, [&](OpBuilder &b, Location at, ValueRange) -> Value {
        auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, at, value); };
        Value element = linalg::IndexOp::create(b, at, 0);
        Value byte =
            tensor::ExtractOp::create(b, at, bytes, arith::DivUIOp::create(b, at, element, constant(2)).getResult());
        Value wide = arith::IndexCastUIOp::create(b, at, b.getIndexType(), byte);
        Value isSecond = arith::RemUIOp::create(b, at, element, constant(2));
        Value shift = arith::SubIOp::create(b, at, constant(4), arith::MulIOp::create(b, at, isSecond, constant(4)));
        Value pattern = arith::AndIOp::create(b, at, arith::ShRUIOp::create(b, at, wide, shift), constant(15));
        // The index is in the table, which is seen of clamped indices: a call need not check it.
        pattern = clampedTo(b, at, pattern, b.getIndexAttr(16));
        Value value = tensor::ExtractOp::create(b, at, table, pattern);
        Value scale = tensor::ExtractOp::create(b, at, scales,
                                                arith::DivUIOp::create(b, at, element, constant(block)).getResult());
        return arith::MulFOp::create(b, at, value, scale);
      });
  node.graph.setShape(flat, {elements});
  return node.reshaped(flat, {matrix.outputs, matrix.inputs});
}

/// Values of a codebook times a scale for each block of the weight, whose elements lie in a row, two in a byte with the
/// first in the higher bits.
void matMulBnb4(NodeContext &node) {
  int64_t outputs = node.integer("N", 0), inputs = node.integer("K", 0), block = node.integer("block_size", 0);
  int64_t kind = node.integer("quant_type", -1);
  bool isTurned = node.integer("transB", 1) != 0;
  BlockMatrix sizes{outputs, inputs, 4, block};
  if (kind != 0 && kind != 1)
    node.refuse("attribute 'quant_type' is " + llvm::Twine(kind) + ", must be 0 or 1");
  if (block == 0)
    node.refuse("attribute 'block_size' is missing");
  DataType type = node.typeOf(0);
  Value input = node.tensor(0);
  for (size_t number : {1, 2})
    if (!node.has(number))
      node.refuse("has no input " + llvm::Twine(number));
  if (!checkBlocks(node, sizes) || !node.isComputed(0) || !node.isOf(1, isUint8, "uint8") || !node.isComputed(2) ||
      node.isRefused())
    return;
  auto tableType = RankedTensorType::get({16}, node.ops().getF32Type());
  Value table = arith::ConstantOp::create(node.ops(), node.at, DenseElementsAttr::get(tableType, codebookOf(kind)));
  Value weight = ofCodebook(node, sizes, table);
  if (node.isRefused())
    return;
  std::optional<Value> product = matrixProduct(node, node.cast(input, type, DataType::Float),
                                               isTurned ? node.transposed(weight, {1, 0}) : weight, DataType::Float);
  if (product && !node.isRefused())
    node.result(node.cast(*product, DataType::Float, type));
}

} // namespace

llvm::ArrayRef<OpRow> microsoftBlockOps() {
  static const OpRow rows[] = {
      {"com.microsoft", "MatMulNBits", 1, matMulNBits},
      {"com.microsoft", "GatherBlockQuantized", 1, gatherBlockQuantized, Takes::Elements},
      {"com.microsoft", "MatMulBnb4", 1, matMulBnb4},
  };
  return rows;
}

} // namespace intarsia::onnx
