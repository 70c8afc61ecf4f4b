//===- PanelReaders.cpp - Elements of weights in panels -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ScalarBuilder.h"
#include "dialects/Nn/BlockFormats.h"
#include "dialects/Rt/BlockPanels.h"
#include "dialects/Rt/Rt.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::rt {
namespace {

/// The panels of a tensor of matrices.
struct Panels {
  Panels(RankedTensorType type, PanelsAttr layout)
      : width(layout.getWidth()), slices(layout.getSlices()), rows(type.getDimSize(type.getRank() - 2)),
        perMatrix(llvm::divideCeil(rows, width)) {}

  /// Returns the panel of its matrix that a row is in. Panels of slices alternate: the first of each, then the second
  /// of each.
  Integer panelOf(Integer row) const {
    Integer panel = row / width;
    int64_t perSlice = rows / width / slices;
    return slices == 1 ? panel : panel % perSlice * slices + panel / perSlice;
  }

  int64_t width, slices;
  int64_t rows, perMatrix; ///< rows and panels of a matrix
};

/// Reads the values of panels: `[…, panels, K, width]`.
class PanelReader : public TensorReader {
public:
  PanelReader(Panels panels, Value storage) : panels(panels), storage(storage) {}

  Value buildElement(ScalarBuilder &b, ArrayRef<Integer> indices) const override {
    SmallVector<Value> at(indices.drop_back(2));
    Integer row = indices[indices.size() - 2];
    llvm::append_values(at, Value(panels.panelOf(row)), Value(indices.back()), Value(row % panels.width));
    return tensor::ExtractOp::create(b, storage, at);
  }

private:
  Panels panels;
  Value storage;
};

/// Dequantizes panels of quantized values, of which dialects/Rt/BlockPanels.h has the layout.
class QuantizedRows {
public:
  QuantizedRows(ScalarBuilder &builder, const BlockPanels &panels, Value bytes) : panels(panels), bytes(bytes) {
    SmallVector<float> values;
    const FloatFormat *format = panels.floatFormat();
    for (unsigned bits = 0; format && bits != 1u << format->bits; ++bits)
      values.push_back(decodeFloat(*format, bits));
    if (format)
      elements = builder.table(values);
    values.clear();
    bool isSmall = panels.scale == nn::BlockScale::E4M3 || panels.scale == nn::BlockScale::E8M0;
    for (unsigned bits = 0; isSmall && bits != 256; ++bits)
      values.push_back(nn::decodeScale(panels.scale, bits));
    if (isSmall)
      scales = builder.table(values);
  }

  /// Builds the dequantized value of a row of the panel that begins at byte `panel`.
  Value value(ScalarBuilder &b, Integer panel, Integer row, Integer k) const {
    Integer unit = panel + panels.headBytes + k / panels.unitDepth * panels.unitBytes;
    Integer stored = storedAt(b, panel, row, k);
    Value element = panels.floatFormat() ? b.lookUp(elements, stored) : b.toFloat(stored - panels.integerOffset);
    if (panels.block == 0)
      return b.mul(scaleAt(b, panel + row * panels.scaleBytes), element);
    Integer block = k % panels.unitDepth / panels.block;
    if (panels.scaleBits)
      return withIntegerScale(b, unit, row, block, element);
    Integer offset = (block * panels.width + row) * panels.scaleBytes;
    Value scale = scaleAt(b, unit + offset);
    if (panels.hasTensorScale)
      scale = b.mul(scale, floatAt(b, panel + row * int64_t(sizeof(float))));
    if (panels.hasZeroPoints)
      return b.mul(scale, b.add(element, scaleAt(b, unit + panels.minimaBegin() + offset)));
    Value scaled = b.mul(scale, element);
    return panels.hasMinima ? b.add(scaled, scaleAt(b, unit + panels.minimaBegin() + offset)) : scaled;
  }

private:
  Integer byte(ScalarBuilder &b, Integer offset) const {
    return b.toIndexUnsigned(tensor::ExtractOp::create(b, bytes, ValueRange{offset}));
  }
  Integer twoBytes(ScalarBuilder &b, Integer offset) const { return byte(b, offset) | byte(b, offset + 1) << 8; }
  Value floatAt(ScalarBuilder &b, Integer offset) const {
    Integer bits = twoBytes(b, offset) | twoBytes(b, offset + 2) << 16;
    return b.fromBits(arith::IndexCastOp::create(b, b.getI32Type(), bits));
  }

  Value scaleAt(ScalarBuilder &b, Integer offset) const {
    switch (panels.scale) {
    case nn::BlockScale::F32:
      return floatAt(b, offset);
    case nn::BlockScale::F16:
      return b.halfToFloat(twoBytes(b, offset));
    case nn::BlockScale::BF16:
      return b.fromBits(arith::IndexCastOp::create(b, b.getI32Type(), twoBytes(b, offset) << 16));
    case nn::BlockScale::E8M0:
    case nn::BlockScale::E4M3:
      return b.lookUp(scales, byte(b, offset));
    }
    llvm_unreachable("unknown scale");
  }

  /// The quantized value as it is stored, without sign.
  Integer storedAt(ScalarBuilder &b, Integer panel, Integer row, Integer k) const {
    constexpr int64_t lineBytes = 64, bytesOfWord = 4;
    int64_t stepsOfUnit = panels.unitDepth / BlockPanels::stepDepth;
    Integer step = k / BlockPanels::stepDepth, inStep = k % BlockPanels::stepDepth;
    Integer begin = panel + (panels.headBytes + panels.unitScaleBytes) + step / stepsOfUnit * panels.unitBytes +
                    step % stepsOfUnit * panels.stepBytes();
    Integer word = inStep / bytesOfWord;
    begin = begin + row / BlockPanels::lineRows * (lineBytes * panels.elementBits) +
            row % BlockPanels::lineRows * bytesOfWord + inStep % bytesOfWord;
    if (panels.elementBits == 8)
      return byte(b, begin + word * lineBytes);
    auto low = [&] {
      constexpr int64_t half = BlockPanels::words / 2;
      return byte(b, begin + word % half * lineBytes) >> (word / half * 4) & 15;
    };
    int64_t highBits = panels.highBits();
    if (highBits == 0)
      return low();
    int64_t wordsOfLine = 8 / highBits;
    Integer line = byte(b, begin + (word / wordsOfLine + panels.lowLines()) * lineBytes);
    Integer high = line >> (word % wordsOfLine * highBits) & ((1 << highBits) - 1);
    return panels.lowLines() ? low() | high << panels.highBegin() : high;
  }

  /// Blocks whose scales, and minima, are integers times those of the unit.
  Value withIntegerScale(ScalarBuilder &b, Integer unit, Integer row, Integer block, Value element) const {
    Value ofUnit = scaleAt(b, unit + row * panels.scaleBytes);
    Integer integers = unit + panels.integersBegin();
    Integer first = byte(b, integers + block * panels.width + row);
    if (panels.scaleBits == 8)
      return b.mul(b.mul(ofUnit, b.toFloat((first ^ 128) - 128)), element);
    int64_t blocks = BlockPanels::superBlock / panels.block;
    Integer upper = byte(b, integers + (block / 2 + blocks) * panels.width + row) >> (block % 2 * 4);
    Value minimum = scaleAt(b, unit + panels.minimaBegin() + row * panels.scaleBytes);
    Value scale = b.mul(ofUnit, b.toFloat((first & 15) | (upper & 3) << 4));
    minimum = b.mul(minimum, b.toFloat(first >> 4 | (upper >> 2 & 3) << 4));
    return b.sub(b.mul(scale, element), minimum);
  }

  BlockPanels panels;
  Value bytes;
  Value elements, scales; ///< tables of values by bit pattern; null where the format needs none
};

/// Reads the values that panels of quantized ones mean; their bytes are one after another.
class QuantizedPanelReader : public TensorReader {
public:
  QuantizedPanelReader(ScalarBuilder &builder, RankedTensorType type, Panels panels, const BlockPanels &layout,
                       Value storage)
      : type(type), panels(panels), panelBytes(layout.panelBytes()), quantized(builder, layout, storage) {}

  Value buildElement(ScalarBuilder &b, ArrayRef<Integer> indices) const override {
    Integer row = indices[indices.size() - 2], panel = panels.panelOf(row);
    Integer rowOfPanel = row % panels.width, matrix = indices.front();
    for (size_t dimension = 1; dimension + 2 < indices.size(); ++dimension)
      matrix = matrix * type.getDimSize(dimension) + indices[dimension];
    if (indices.size() > 2)
      panel = matrix * panels.perMatrix + panel;
    return b.narrow(quantized.value(b, panel * panelBytes, rowOfPanel, indices.back()), type.getElementType());
  }

private:
  RankedTensorType type;
  Panels panels;
  int64_t panelBytes;
  QuantizedRows quantized;
};

std::optional<BlockPanels> blockPanelsOf(RankedTensorType type, PanelsAttr layout) {
  return BlockPanels::of(layout.getFormat(), type.getShape().back(), layout.getWidth());
}

} // namespace

RankedTensorType PanelsAttr::getStorageType(RankedTensorType type) const {
  SmallVector<int64_t> shape(type.getShape().drop_back(2));
  int64_t panels = Panels(type, *this).perMatrix;
  if (!getFormat()) {
    llvm::append_values(shape, panels, type.getShape().back(), getWidth());
    return type.clone(shape);
  }
  std::optional<BlockPanels> layout = blockPanelsOf(type, *this);
  if (!layout)
    return nullptr;
  int64_t bytes = ShapedType::getNumElements(shape) * panels * layout->panelBytes();
  return RankedTensorType::get(bytes, IntegerType::get(getContext(), 8));
}

std::unique_ptr<TensorReader> PanelsAttr::makeReader(ScalarBuilder &builder, Value storage,
                                                     RankedTensorType type) const {
  Panels panels(type, *this);
  if (!getFormat())
    return std::make_unique<PanelReader>(panels, storage);
  return std::make_unique<QuantizedPanelReader>(builder, type, panels, *blockPanelsOf(type, *this), storage);
}

} // namespace intarsia::rt
