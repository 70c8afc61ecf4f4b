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

/// The place of a row of a matrix in its panels.
struct RowPlace {
  Integer panel, row;
};

/// Panels of slices alternate: the first of each, then the second of each.
RowPlace placeOf(Integer row, int64_t rows, rt::PanelsAttr layout) {
  Integer panel = row / layout.getWidth();
  if (layout.getSlices() > 1) {
    int64_t panelsOfSlice = rows / layout.getWidth() / layout.getSlices();
    panel = panel % panelsOfSlice * layout.getSlices() + panel / panelsOfSlice;
  }
  return {panel, row % layout.getWidth()};
}

/// Reads the numbers of panels of codes, of which dialects/Rt/BlockPanels.h has the layout.
class CodeReader {
public:
  CodeReader(ReferenceBuilder &builder, const BlockPanels &panels, Value bytes) : panels(panels), bytes(bytes) {
    SmallVector<float> numbers;
    for (unsigned code = 0; panels.isE2M1 && code != 16; ++code)
      numbers.push_back(nn::decodeElement(nn::BlockElement::E2M1, code));
    if (panels.isE2M1)
      elements = builder.table(numbers);
    numbers.clear();
    bool isSmall = panels.scale == nn::BlockScale::E4M3 || panels.scale == nn::BlockScale::E8M0;
    for (unsigned code = 0; isSmall && code != 256; ++code)
      numbers.push_back(nn::decodeScale(panels.scale, code));
    if (isSmall)
      scales = builder.table(numbers);
  }

  /// Builds the number of a row of the panel that begins at byte `panel`.
  Value number(ScalarBuilder &b, Integer panel, Integer row, Integer k) const {
    Integer unit = panel + panels.headBytes + k / panels.unitDepth * panels.unitBytes;
    Value number;
    Integer code = codeAt(b, panel, row, k);
    number = panels.isE2M1 ? b.lookUp(elements, code) : b.toFloat(code - panels.codeOffset);
    if (panels.block == 0)
      return b.mul(scaleAt(b, panel + row * panels.scaleBytes), number);
    Integer block = k % panels.unitDepth / panels.block;
    if (panels.scaleBits)
      return withIntegerScale(b, unit, row, block, number);
    Integer place = (block * panels.width + row) * panels.scaleBytes;
    Value scale = scaleAt(b, unit + place);
    if (panels.hasTensorScale)
      scale = b.mul(scale, floatAt(b, panel + row * int64_t(sizeof(float))));
    number = b.mul(scale, number);
    return panels.hasMinima ? b.add(number, scaleAt(b, unit + panels.minimaBegin() + place)) : number;
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

  Integer codeAt(ScalarBuilder &b, Integer panel, Integer row, Integer k) const {
    constexpr int64_t lineBytes = 64, bytesOfWord = 4;
    int64_t stepsOfUnit = panels.unitDepth / BlockPanels::stepDepth;
    Integer step = k / BlockPanels::stepDepth, inStep = k % BlockPanels::stepDepth;
    Integer begin = panel + (panels.headBytes + panels.unitScaleBytes) + step / stepsOfUnit * panels.unitBytes +
                    step % stepsOfUnit * panels.stepBytes();
    Integer word = inStep / bytesOfWord;
    begin = begin + row / BlockPanels::lineRows * (lineBytes * panels.codeBits) +
            row % BlockPanels::lineRows * bytesOfWord + inStep % bytesOfWord;
    if (panels.codeBits == 8)
      return byte(b, begin + word * lineBytes);
    constexpr int64_t half = BlockPanels::words / 2;
    Integer low = byte(b, begin + word % half * lineBytes) >> (word / half * 4) & 15;
    int64_t highBits = panels.codeBits - 4;
    if (highBits == 0)
      return low;
    int64_t wordsOfLine = 8 / highBits;
    Integer line = byte(b, begin + (word / wordsOfLine + half) * lineBytes);
    Integer high = line >> (word % wordsOfLine * highBits) & ((1 << highBits) - 1);
    return low | high << 4;
  }

  /// Blocks whose scales, and minima, are integers times those of the unit.
  Value withIntegerScale(ScalarBuilder &b, Integer unit, Integer row, Integer block, Value number) const {
    Value ofUnit = scaleAt(b, unit + row * panels.scaleBytes);
    Integer integers = unit + panels.integersBegin();
    Integer first = byte(b, integers + block * panels.width + row);
    if (panels.scaleBits == 8)
      return b.mul(b.mul(ofUnit, b.toFloat((first ^ 128) - 128)), number);
    int64_t blocks = BlockPanels::superBlock / panels.block;
    Integer upper = byte(b, integers + (block / 2 + blocks) * panels.width + row) >> (block % 2 * 4);
    Value minimum = scaleAt(b, unit + panels.minimaBegin() + row * panels.scaleBytes);
    Value scale = b.mul(ofUnit, b.toFloat((first & 15) | (upper & 3) << 4));
    minimum = b.mul(minimum, b.toFloat(first >> 4 | (upper >> 2 & 3) << 4));
    return b.sub(b.mul(scale, number), minimum);
  }

  BlockPanels panels;
  Value bytes;
  Value elements, scales; ///< tables of numbers by code; null where the format needs none
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
    std::optional<BlockPanels> codes = panelsOf(weight, layout);
    if (!codes)
      return {};
    int64_t bytes = ShapedType::getNumElements(leading) * panels * codes->panelBytes();
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
      RowPlace place = placeOf(b.place(rank - 2), rows, layout);
      SmallVector<Value> indices;
      for (unsigned dimension = 0; dimension + 2 != rank; ++dimension)
        indices.push_back(b.place(dimension));
      llvm::append_values(indices, Value(place.panel), Value(b.place(rank - 1)), Value(place.row));
      return tensor::ExtractOp::create(b, storage, indices).getResult();
    });
  CodeReader reader(builder, *panelsOf(weight, layout), storage);
  int64_t panelBytes = panelsOf(weight, layout)->panelBytes();
  return builder.parallel(sizes, weight.getElementType(), {}, [&](ScalarBuilder &b, ValueRange) {
    RowPlace place = placeOf(b.place(rank - 2), rows, layout);
    Integer matrix = 0;
    for (unsigned dimension = 0; dimension + 2 != rank; ++dimension) {
      Integer index = b.place(dimension);
      matrix = dimension == 0 ? index : matrix * weight.getDimSize(dimension) + index;
    }
    Integer panel = rank == 2 ? place.panel : matrix * panels + place.panel;
    return b.narrow(reader.number(b, panel * panelBytes, place.row, b.place(rank - 1)), weight.getElementType());
  });
}

} // namespace intarsia::reference
