//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Block formats, exactly: scales and quantized values as nn.quantize describes them, dequantized values as
// nn.dequantize does.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/MixedBlocks.h"
#include "dialects/Nn/Ops/References.h"
#include "dialects/Nn/RowScales.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;
using namespace intarsia::reference;

namespace {
/// The blocks of one tensor: which block an element is in, and the elements of a block.
struct Blocks {
  Blocks(ReferenceBuilder &builder, BlockFormatAttr format, ArrayRef<OpFoldResult> sizes)
      : format(format), sizes(sizes), axis(format.getAxis()), rank(sizes.size()) {
    scaleSizes = this->sizes;
    if (format.getBlock() == 0) {
      block = sizes[axis];
      scaleSizes[axis] = builder.getIndexAttr(1);
      return;
    }
    block = builder.getIndexAttr(format.getBlock());
    if (std::optional<int64_t> size = getConstantIntValue(sizes[axis])) {
      scaleSizes[axis] = builder.getIndexAttr(llvm::divideCeil(*size, format.getBlock()));
    } else {
      Value blockSize = arith::ConstantIndexOp::create(builder, format.getBlock());
      scaleSizes[axis] = arith::CeilDivUIOp::create(builder, cast<Value>(sizes[axis]), blockSize).getResult();
    }
  }

  /// In a loop over elements: the indices of the scale.
  SmallVector<Value> scaleIndices(ScalarBuilder &b) const {
    SmallVector<Value> indices = loopIndices(b);
    indices[axis] =
        format.getBlock() == 0 ? b.index(0) : arith::DivUIOp::create(b, indices[axis], b.index(block)).getResult();
    return indices;
  }

  /// Folds the elements of each block, from `initial`. `body` gets the element as f32, whether the block has it (the
  /// last block may be short), and the value so far.
  Value reduce(ReferenceBuilder &builder, Value input, float initial,
               llvm::function_ref<Value(ScalarBuilder &, Value, Value, Value)> body) const {
    // A tensor that is never read gives the loop inside a block its length.
    Value window = builder.empty(block, builder.getI1Type());
    return builder.reduceF32(scaleSizes, 1, initial, {{window, builder.map(rank + 1, {rank})}},
                             [&](ScalarBuilder &b, ValueRange v) {
                               SmallVector<Value> indices = loopIndices(b);
                               Value inBlock = linalg::IndexOp::create(b, rank);
                               Value start = arith::MulIOp::create(b, indices[axis], b.index(block));
                               Value position = arith::AddIOp::create(b, start, inBlock);
                               Value size = b.index(sizes[axis]);
                               Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, size);
                               Value last = arith::SubIOp::create(b, size, b.index(1));
                               indices[axis] = b.select(isThere, position, last);
                               Value element = b.widen(tensor::ExtractOp::create(b, input, indices));
                               return body(b, element, isThere, v[1]);
                             });
  }

  /// In a loop over elements or scales: the scale of the tensor, or of the row along the axis.
  Value tensorScaleAt(ScalarBuilder &b, Value tensorScale, bool ofRows) const {
    SmallVector<Value> indices;
    if (ofRows) {
      indices = loopIndices(b);
      indices[axis] = b.index(0);
    }
    return tensor::ExtractOp::create(b, tensorScale, indices);
  }

  SmallVector<Value> loopIndices(ScalarBuilder &b) const {
    SmallVector<Value> indices;
    for (unsigned dimension = 0; dimension != rank; ++dimension)
      indices.push_back(linalg::IndexOp::create(b, dimension));
    return indices;
  }

  BlockFormatAttr format;
  reference::MixedSizes sizes, scaleSizes;
  OpFoldResult block;
  unsigned axis, rank;
};
} // namespace

//===-- Encodings ----------------------------------------------------------------------------------------------===//

/// Every value that the elements of a format can have, by encoding; null for integers.
static Value buildElementTable(ReferenceBuilder &builder, BlockElement element) {
  unsigned bits = storageBits(element);
  if (const FloatFormat *format = getFloatElement(element))
    bits = format->bits;
  else if (element != BlockElement::NF4)
    return {};
  SmallVector<float> values;
  for (unsigned encoding = 0; encoding != 1u << bits; ++encoding)
    values.push_back(decodeElement(element, encoding));
  return builder.table(values);
}

static Value buildScaleTable(ReferenceBuilder &builder, BlockScale scale) {
  if (scale != BlockScale::E4M3)
    return {};
  SmallVector<float> values;
  for (unsigned encoding = 0; encoding != 256; ++encoding)
    values.push_back(decodeScale(scale, encoding));
  return builder.table(values);
}

/// An i4 or i8 encoding, taken without sign, as i32.
static Value buildUnsigned(ScalarBuilder &b, Value encoding) {
  return arith::ExtUIOp::create(b, b.getI32Type(), encoding);
}

static Value buildDecode(ScalarBuilder &b, BlockElement element, Value table, Value encoding) {
  if (table)
    return b.lookUp(table, b.toIndexUnsigned(encoding));
  if (getIntegerElement(element)->isSigned)
    return arith::SIToFPOp::create(b, b.getF32Type(), encoding);
  return arith::UIToFPOp::create(b, b.getF32Type(), encoding);
}

static Value buildDecodeScale(ScalarBuilder &b, BlockScale scale, Value table, Value stored) {
  if (scale == BlockScale::E4M3)
    return b.lookUp(table, b.toIndexUnsigned(stored));
  if (scale != BlockScale::E8M0)
    return b.widen(stored);
  // The exponent field of an f32, but for 2^-127, which is a subnormal there, and NaN.
  Value encoding = buildUnsigned(b, stored);
  auto isEncoding = [&](int32_t value) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, encoding, b.i32(value));
  };
  Value bits = arith::ShLIOp::create(b, encoding, b.i32(23));
  bits = b.select(isEncoding(0), b.i32(0x00400000), bits);
  return b.fromBits(b.select(isEncoding(255), b.i32(0x7FC00000), bits));
}

Value reference::buildEncodeFloat(ScalarBuilder &b, const FloatFormat &format, Value value) {
  int32_t mantissa = format.mantissaBits, smallest = format.smallestExponent + 127;
  Value isNan = b.isNan(value);
  Value clamped = b.select(isNan, b.f32(0), b.min(b.abs(value), b.f32(format.largest)));
  // Below 2^smallest the step between neighbouring values stops shrinking.
  Value exponent = arith::ShRUIOp::create(b, b.bits(clamped), b.i32(23));
  exponent = arith::MaxSIOp::create(b, exponent, b.i32(smallest));
  // Multiplying by 1 / step is exact; the count of steps then carries into the exponent by itself when rounding does.
  Value inverseStep = arith::SubIOp::create(b, b.i32(254 + mantissa), exponent);
  inverseStep = b.fromBits(arith::ShLIOp::create(b, inverseStep, b.i32(23)));
  Value steps = math::RoundEvenOp::create(b, b.mul(clamped, inverseStep));
  Value offset = arith::ShLIOp::create(b, arith::SubIOp::create(b, exponent, b.i32(smallest)), b.i32(mantissa));
  Value magnitude = arith::AddIOp::create(b, arith::FPToSIOp::create(b, b.getI32Type(), steps), offset);
  Value sign = arith::ShRUIOp::create(b, b.bits(value), b.i32(31));
  sign = arith::ShLIOp::create(b, sign, b.i32(format.bits - 1));
  // A format without NaN has zero instead. The sign of a NaN depends on the machine, so it is not kept.
  Value encoding = arith::OrIOp::create(b, magnitude, sign);
  return b.select(isNan, b.i32(std::max(format.nan, 0)), encoding);
}

/// The nearest of the 16 values; half way between two the one with the even encoding.
static Value buildEncodeNf4(ScalarBuilder &b, Value value) {
  ArrayRef<float> values = getNf4Values();
  Value encoding = b.i32(0);
  for (unsigned lower = 0; lower != 15; ++lower) {
    auto predicate = lower % 2 == 0 ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OGE;
    // Midpoints are rounded to f32 as bitsandbytes has them.
    float middle = static_cast<float>((double(values[lower]) + double(values[lower + 1])) / 2);
    Value isAbove = arith::CmpFOp::create(b, predicate, value, b.f32(middle));
    encoding = arith::AddIOp::create(b, encoding, arith::ExtUIOp::create(b, b.getI32Type(), isAbove));
  }
  return b.select(b.isNan(value), b.i32(7), encoding);
}

static Value buildEncodeInteger(ScalarBuilder &b, const IntegerElement &format, Value value) {
  Value number = b.select(b.isNan(value), b.f32(0), value);
  number = b.min(b.max(number, b.f32(format.lowest)), b.f32(format.highest));
  return arith::FPToSIOp::create(b, b.getI32Type(), number);
}

static Value buildStore(ScalarBuilder &b, Value encoding, Type type) {
  return arith::TruncIOp::create(b, type, encoding);
}

/// `value / scale`, zero where the scale is.
static Value buildRatio(ScalarBuilder &b, Value value, Value scale) {
  return b.select(b.isEqual(scale, b.f32(0)), b.f32(0), b.div(value, scale));
}

//===-- Dequantize ---------------------------------------------------------------------------------------------===//

SmallVector<Value> DequantizeOp::buildReference(ReferenceBuilder &builder) {
  if (const GgmlType *type = getFormat().getFileBlocks())
    return {buildDequantizedBlocks(builder, getQuantized(), *type)};
  auto format = cast<BlockFormatAttr>(getFormat());
  MixedSizes sizes = builder.sizesOf(getQuantized());
  Blocks blocks(builder, format, sizes);
  Value elementTable = buildElementTable(builder, format.getElement());
  Value scaleTable = buildScaleTable(builder, format.getScale());
  bool hasRowScales = this->hasRowScales();
  Type element = cast<RankedTensorType>(getType()).getElementType();
  return {builder.parallel(sizes, element, {{getQuantized(), builder.identity(sizes.size())}},
                           [&](ScalarBuilder &b, ValueRange v) {
                             SmallVector<Value> indices = blocks.scaleIndices(b);
                             Value scale = tensor::ExtractOp::create(b, getScales(), indices);
                             scale = buildDecodeScale(b, format.getScale(), scaleTable, scale);
                             if (getTensorScale())
                               scale = b.mul(scale, blocks.tensorScaleAt(b, getTensorScale(), hasRowScales));
                             Value number = buildDecode(b, format.getElement(), elementTable, v[0]);
                             if (getZeroPoints()) {
                               Value zeroPoint = tensor::ExtractOp::create(b, getZeroPoints(), indices);
                               number = b.sub(number, buildDecode(b, format.getElement(), elementTable, zeroPoint));
                             }
                             return b.narrow(b.mul(scale, number), element);
                           })};
}

//===-- Quantize -----------------------------------------------------------------------------------------------===//

/// Largest magnitude of each block, as f32; NaN if the block has one.
static Value buildLargest(ReferenceBuilder &builder, const Blocks &blocks, Value input) {
  return blocks.reduce(builder, input, 0.0f,
                       [](ScalarBuilder &b, Value x, Value, Value soFar) { return b.max(b.abs(x), soFar); });
}

/// The scales of ternary blocks, as f32: the mean magnitude, then steps of Lloyd's iteration.
static Value buildTernaryScales(ReferenceBuilder &builder, const Blocks &blocks, Value input) {
  AffineMap identity = builder.identity(blocks.rank);
  Value scales;
  for (int step = 0; step <= ternaryScaleSteps; ++step) {
    // The sum, or the count, of magnitudes that the scale so far does not round to zero; first of all.
    auto reduce = [&](bool counts) {
      return blocks.reduce(builder, input, 0.0f, [&](ScalarBuilder &b, Value x, Value isThere, Value soFar) {
        Value isCounted = isThere, magnitude = b.abs(x);
        if (scales) {
          Value scale = tensor::ExtractOp::create(b, scales, blocks.loopIndices(b));
          Value isAbove = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, magnitude, b.mul(scale, b.f32(0.5f)));
          isCounted = arith::AndIOp::create(b, isThere, isAbove);
        }
        return b.add(soFar, b.select(isCounted, counts ? b.f32(1) : magnitude, b.f32(0)));
      });
    };
    Value sums = reduce(false), counts = reduce(true);
    SmallVector<std::pair<Value, AffineMap>> inputs = {{sums, identity}, {counts, identity}};
    if (scales)
      inputs.push_back({scales, identity});
    bool isFirst = step == 0;
    scales =
        builder.parallel(blocks.scaleSizes, builder.getF32Type(), inputs, [&](ScalarBuilder &b, ValueRange v) -> Value {
          Value mean = b.div(v[0], v[1]);
          return isFirst ? mean : b.select(b.isEqual(v[1], b.f32(0)), v[2], mean);
        });
  }
  return scales;
}

/// Largest magnitude of the whole tensor, or of each row, divided by that of an E2M1 element times an E4M3 scale.
static Value buildTensorScale(ReferenceBuilder &builder, QuantizeOp op) {
  Value input = op.getInput();
  unsigned rank = cast<RankedTensorType>(input.getType()).getRank();
  reference::MixedSizes sizes;
  Value largest;
  if (op.hasRowScales()) {
    // One block is as long as a row.
    auto rows = BlockFormatAttr::get(op.getContext(), BlockElement::E4M3, BlockScale::F32, /*block=*/0,
                                     op.getFormat().getAxis());
    Blocks blocks(builder, rows, builder.sizesOf(input));
    largest = buildLargest(builder, blocks, input);
    sizes = blocks.scaleSizes;
  } else {
    largest = builder.reduceF32({}, rank, 0.0f, {{input, builder.identity(rank)}},
                                [](ScalarBuilder &b, ValueRange v) { return b.max(b.abs(b.widen(v[0])), v[1]); });
  }
  return builder.parallel(sizes, builder.getF32Type(), {{largest, builder.identity(unsigned(sizes.size()))}},
                          [](ScalarBuilder &b, ValueRange v) { return b.div(v[0], b.f32(448.0f * 6.0f)); });
}

/// The scale of a block in the way that it is stored, from its f32 value (for E8M0 from the largest magnitude).
static Value buildStoreScale(ScalarBuilder &b, BlockFormatAttr format, Value value) {
  if (format.getScale() == BlockScale::E4M3)
    return buildStore(b, reference::buildEncodeFloat(b, *getFloatElement(BlockElement::E4M3), value), b.getI8Type());
  if (format.getScale() != BlockScale::E8M0)
    return b.narrow(value, format.getScaleType());
  int32_t largestExponent = std::ilogb(getFloatElement(format.getElement())->largest);
  Value exponent = arith::ShRUIOp::create(b, b.bits(value), b.i32(23));
  Value isFinite = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, exponent, b.i32(255));
  Value encoding = arith::SubIOp::create(b, exponent, b.i32(largestExponent));
  encoding = arith::MaxSIOp::create(b, encoding, b.i32(0));
  return buildStore(b, b.select(isFinite, encoding, b.i32(255)), b.getI8Type());
}

/// Returns a tensor whose features along an axis are those of another one in the order that channels say.
static Value buildPermuted(ReferenceBuilder &builder, const Blocks &blocks, Value input, Value channels) {
  Type type = cast<RankedTensorType>(input.getType()).getElementType();
  return builder.parallel(blocks.sizes, type, {{channels, builder.map(blocks.rank, {blocks.axis})}},
                          [&](ScalarBuilder &b, ValueRange v) {
                            SmallVector<Value> indices = blocks.loopIndices(b);
                            indices[blocks.axis] = arith::IndexCastOp::create(b, b.getIndexType(), v[0]);
                            return tensor::ExtractOp::create(b, input, indices).getResult();
                          });
}

/// Returns a tensor whose features along an axis are those of another one times factors, in f32.
static Value buildScaled(ReferenceBuilder &builder, const Blocks &blocks, Value input, Value factors) {
  return builder.parallel(blocks.sizes, builder.getF32Type(),
                          {{input, builder.identity(blocks.rank)}, {factors, builder.map(blocks.rank, {blocks.axis})}},
                          [](ScalarBuilder &b, ValueRange v) { return b.mul(b.widen(v[0]), v[1]); });
}

/// Returns a ratio brought to the range of integers of 8 bits; NaN becomes the lowest.
static Value buildSaturated(ScalarBuilder &b, Value ratio) {
  Value highest = b.f32(highestKnown), lowest = b.f32(lowestKnown);
  auto isAbove = [&](Value x, Value y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, y).getResult();
  };
  return b.select(isAbove(ratio, lowest), b.select(isAbove(highest, ratio), ratio, highest), lowest);
}

/// Returns the integer, or the element, that the largest magnitude of a block becomes, in a loop over scales.
static Value buildQuantizedLargest(ScalarBuilder &b, const Blocks &blocks, QuantizeOp op) {
  std::optional<int64_t> firstNarrow = op.firstNarrowBlock();
  if (!firstNarrow)
    return b.f32(quantizedLargest(op.getFormat().getElement()));
  Value isWide =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, blocks.loopIndices(b)[blocks.axis], b.index(*firstNarrow));
  return b.select(isWide, b.f32(largestOfWideBlock), b.f32(largestOfNarrowBlock));
}

SmallVector<Value> QuantizeOp::buildReference(ReferenceBuilder &builder) {
  BlockFormatAttr format = getFormat();
  BlockElement element = format.getElement();
  Value input = getInput();
  MixedSizes sizes = builder.sizesOf(input);
  unsigned rank = sizes.size();
  Blocks blocks(builder, format, sizes);
  if (Value channels = getChannels())
    input = buildPermuted(builder, blocks, input, channels);
  if (Value factors = getFactors())
    input = buildScaled(builder, blocks, input, factors);
  AffineMap identity = builder.identity(rank);
  Type valueType = format.getStorageType();
  std::optional<IntegerElement> integer = getIntegerElement(element);
  const FloatFormat *small = getFloatElement(element);

  // The contents of the blocks of each scale, then the scales.
  Value tensorScale = getTensorScale() ? buildTensorScale(builder, *this) : Value();
  bool hasRowScales = this->hasRowScales();
  Value scales, zeroPoints;
  Value scaleTable = buildScaleTable(builder, format.getScale());
  auto decodeScale = [&](ScalarBuilder &b, Value stored) {
    Value scale = buildDecodeScale(b, format.getScale(), scaleTable, stored);
    return tensorScale ? b.mul(scale, blocks.tensorScaleAt(b, tensorScale, hasRowScales)) : scale;
  };
  if (getZeroPoints()) {
    Value low = blocks.reduce(builder, input, 0.0f,
                              [](ScalarBuilder &b, Value x, Value, Value soFar) { return b.min(x, soFar); });
    Value high = blocks.reduce(builder, input, 0.0f,
                               [](ScalarBuilder &b, Value x, Value, Value soFar) { return b.max(x, soFar); });
    scales = builder.parallel(blocks.scaleSizes, format.getScaleType(), {{low, identity}, {high, identity}},
                              [&](ScalarBuilder &b, ValueRange v) {
                                Value range = b.f32(integer->highest - integer->lowest);
                                return buildStoreScale(b, format, b.div(b.sub(v[1], v[0]), range));
                              });
    zeroPoints = builder.parallel(
        blocks.scaleSizes, valueType, {{low, identity}, {scales, identity}}, [&](ScalarBuilder &b, ValueRange v) {
          Value scale = b.widen(v[1]);
          Value point = b.sub(b.f32(integer->lowest), b.div(v[0], scale));
          point = b.select(b.isEqual(scale, b.f32(0)), b.f32(0), math::RoundEvenOp::create(b, point));
          return buildStore(b, buildEncodeInteger(b, *integer, point), valueType);
        });
  } else if (getUnitScale()) {
    scales = builder.parallel(blocks.scaleSizes, format.getScaleType(), {},
                              [&](ScalarBuilder &b, ValueRange) { return b.f32(1); });
  } else if (element == BlockElement::Ternary) {
    scales = builder.parallel(blocks.scaleSizes, format.getScaleType(),
                              {{buildTernaryScales(builder, blocks, input), identity}},
                              [&](ScalarBuilder &b, ValueRange v) { return buildStoreScale(b, format, v[0]); });
  } else {
    Value largest = buildLargest(builder, blocks, input);
    Value low = !hasSignedScales(element)
                    ? largest
                    : blocks.reduce(builder, input, 0.0f,
                                    [](ScalarBuilder &b, Value x, Value, Value soFar) { return b.min(x, soFar); });
    auto scalesTimes = [&](float factor) {
      return builder.parallel(blocks.scaleSizes, format.getScaleType(), {{largest, identity}, {low, identity}},
                              [&](ScalarBuilder &b, ValueRange v) {
                                if (format.getScale() == BlockScale::E8M0)
                                  return buildStoreScale(b, format, v[0]);
                                Value scale = b.div(v[0], buildQuantizedLargest(b, blocks, *this));
                                if (hasSignedScales(element))
                                  scale =
                                      b.select(b.isEqual(v[1], b.sub(b.f32(0), v[0])), b.sub(b.f32(0), scale), scale);
                                scale = b.mul(scale, b.f32(factor));
                                if (tensorScale)
                                  scale = buildRatio(b, scale, blocks.tensorScaleAt(b, tensorScale, hasRowScales));
                                return buildStoreScale(b, format, scale);
                              });
    };
    ArrayRef<float> factors = scaleFactors(element, format.getScale());
    if (hasRowScales)
      factors = factors.front();
    scales = scalesTimes(factors.front());
    Value elementTable = buildElementTable(builder, element);
    auto errorsOf = [&](Value candidates) {
      return blocks.reduce(builder, input, 0.0f, [&](ScalarBuilder &b, Value x, Value isThere, Value soFar) {
        Value stored = tensor::ExtractOp::create(b, candidates, blocks.loopIndices(b));
        Value scale = decodeScale(b, stored), ratio = buildRatio(b, x, scale);
        Value encoding = small ? buildEncodeFloat(b, *small, ratio)
                               : buildEncodeInteger(b, *integer, math::RoundEvenOp::create(b, ratio));
        Value number = buildDecode(b, element, elementTable, buildStore(b, encoding, valueType));
        Value difference = b.sub(x, b.mul(scale, number));
        return b.add(soFar, b.select(isThere, b.mul(difference, difference), b.f32(0)));
      });
    };
    Value errors = factors.size() > 1 ? errorsOf(scales) : Value();
    for (float factor : factors.drop_front()) {
      Value others = scalesTimes(factor), otherErrors = errorsOf(others);
      auto pick = [&](Value values, Value otherValues, Type type) {
        return builder.parallel(
            blocks.scaleSizes, type,
            {{values, identity}, {otherValues, identity}, {errors, identity}, {otherErrors, identity}},
            [&](ScalarBuilder &b, ValueRange v) {
              return b.select(arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, v[3], v[2]), v[1], v[0]);
            });
      };
      scales = pick(scales, others, format.getScaleType());
      errors = pick(errors, otherErrors, builder.getF32Type());
    }
  }

  Value quantized = builder.parallel(sizes, valueType, {{input, identity}}, [&](ScalarBuilder &b, ValueRange v) {
    SmallVector<Value> indices = blocks.scaleIndices(b);
    Value scale = decodeScale(b, tensor::ExtractOp::create(b, scales, indices));
    Value ratio = getUnitScale() ? buildSaturated(b, b.widen(v[0])) : buildRatio(b, b.widen(v[0]), scale);
    if (small)
      return buildStore(b, buildEncodeFloat(b, *small, ratio), valueType);
    if (element == BlockElement::NF4)
      return buildStore(b, buildEncodeNf4(b, ratio), valueType);
    Value number = math::RoundEvenOp::create(b, ratio);
    if (zeroPoints)
      number = b.add(number, buildDecode(b, element, {}, tensor::ExtractOp::create(b, zeroPoints, indices)));
    return buildStore(b, buildEncodeInteger(b, *integer, number), valueType);
  });

  SmallVector<Value> results = {quantized, scales};
  if (zeroPoints)
    results.push_back(zeroPoints);
  if (tensorScale)
    results.push_back(tensorScale);
  return results;
}
