//===- StoredWeights.cpp - Weights as they lie in memory ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Reference/StoredWeights.h"

#include "dialects/Rt/BlockPanels.h"

using namespace mlir;

namespace intarsia::reference {
namespace {

/// The panel that a row of a matrix is in, and its index there.
struct PanelRow {
  Integer panel, row;
};

/// Panels of slices alternate: the first of each, then the second of each.
PanelRow panelRowOf(Integer row, int64_t rows, rt::PanelsAttr layout) {
  Integer panel = row / layout.getWidth();
  if (layout.getSlices() > 1) {
    int64_t panelsOfSlice = rows / layout.getWidth() / layout.getSlices();
    panel = panel % panelsOfSlice * layout.getSlices() + panel / panelsOfSlice;
  }
  return {panel, row % layout.getWidth()};
}

/// Dequantizes panels of quantized values, of which dialects/Rt/BlockPanels.h has the layout.
class PanelReader {
public:
  PanelReader(ReferenceBuilder &builder, const BlockPanels &panels, Value bytes) : panels(panels), bytes(bytes) {
    SmallVector<float> values;
    for (unsigned bits = 0; panels.isE2M1 && bits != 16; ++bits)
      values.push_back(nn::decodeElement(nn::BlockElement::E2M1, bits));
    if (panels.isE2M1)
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
    Value element = panels.isE2M1 ? b.lookUp(elements, stored) : b.toFloat(stored - panels.integerOffset);
    if (panels.block == 0)
      return b.mul(scaleAt(b, panel + row * panels.scaleBytes), element);
    Integer block = k % panels.unitDepth / panels.block;
    if (panels.scaleBits)
      return withIntegerScale(b, unit, row, block, element);
    Integer offset = (block * panels.width + row) * panels.scaleBytes;
    Value scale = scaleAt(b, unit + offset);
    if (panels.hasTensorScale)
      scale = b.mul(scale, floatAt(b, panel + row * int64_t(sizeof(float))));
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
    constexpr int64_t half = BlockPanels::words / 2;
    Integer low = byte(b, begin + word % half * lineBytes) >> (word / half * 4) & 15;
    int64_t highBits = panels.elementBits - 4;
    if (highBits == 0)
      return low;
    int64_t wordsOfLine = 8 / highBits;
    Integer line = byte(b, begin + (word / wordsOfLine + half) * lineBytes);
    Integer high = line >> (word % wordsOfLine * highBits) & ((1 << highBits) - 1);
    return low | high << 4;
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

std::optional<BlockPanels> panelsOf(RankedTensorType weight, rt::PanelsAttr layout) {
  return BlockPanels::of(layout.getFormat(), weight.getShape().back(), layout.getWidth());
}

int64_t panelCount(RankedTensorType weight, rt::PanelsAttr layout) {
  return llvm::divideCeil(weight.getDimSize(weight.getRank() - 2), layout.getWidth());
}

} // namespace

RankedTensorType storageTypeOf(RankedTensorType weight, rt::LayoutAttrInterface stored) {
  if (isa<rt::RowMajorAttr>(stored))
    return weight;
  auto layout = dyn_cast<rt::PanelsAttr>(stored);
  if (!layout)
    return {};
  ArrayRef<int64_t> leading = weight.getShape().drop_back(2);
  int64_t panels = panelCount(weight, layout);
  if (layout.getFormat()) {
    std::optional<BlockPanels> quantized = panelsOf(weight, layout);
    if (!quantized)
      return {};
    int64_t bytes = ShapedType::getNumElements(leading) * panels * quantized->panelBytes();
    return RankedTensorType::get(bytes, IntegerType::get(weight.getContext(), 8));
  }
  SmallVector<int64_t> shape(leading);
  llvm::append_values(shape, panels, weight.getShape().back(), layout.getWidth());
  return RankedTensorType::get(shape, weight.getElementType());
}

Value buildStoredWeight(ReferenceBuilder &builder, Value storage, RankedTensorType weight,
                        rt::LayoutAttrInterface stored) {
  auto layout = dyn_cast<rt::PanelsAttr>(stored);
  if (!layout)
    return storage; // row-major
  unsigned rank = weight.getRank();
  MixedSizes sizes;
  for (int64_t size : weight.getShape())
    sizes.push_back(builder.getIndexAttr(size));
  int64_t rows = weight.getDimSize(rank - 2), panels = panelCount(weight, layout);
  if (!layout.getFormat())
    return builder.parallel(sizes, weight.getElementType(), {}, [&](ScalarBuilder &b, ValueRange) {
      PanelRow at = panelRowOf(b.indexOf(rank - 2), rows, layout);
      SmallVector<Value> indices;
      for (unsigned dimension = 0; dimension + 2 != rank; ++dimension)
        indices.push_back(b.indexOf(dimension));
      llvm::append_values(indices, Value(at.panel), Value(b.indexOf(rank - 1)), Value(at.row));
      return tensor::ExtractOp::create(b, storage, indices).getResult();
    });
  PanelReader reader(builder, *panelsOf(weight, layout), storage);
  int64_t panelBytes = panelsOf(weight, layout)->panelBytes();
  return builder.parallel(sizes, weight.getElementType(), {}, [&](ScalarBuilder &b, ValueRange) {
    PanelRow at = panelRowOf(b.indexOf(rank - 2), rows, layout);
    Integer matrix = 0;
    for (unsigned dimension = 0; dimension + 2 != rank; ++dimension) {
      Integer index = b.indexOf(dimension);
      matrix = dimension == 0 ? index : matrix * weight.getDimSize(dimension) + index;
    }
    Integer panel = rank == 2 ? at.panel : matrix * panels + at.panel;
    return b.narrow(reader.value(b, panel * panelBytes, at.row, b.indexOf(rank - 1)), weight.getElementType());
  });
}

} // namespace intarsia::reference
