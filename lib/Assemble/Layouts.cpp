//===- Layouts.cpp - Tensors as layouts store them ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/Layouts.h"

#include "intarsia/Quantize/BlockPanels.h"
#include "lib/Assemble/PackWeights.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::createStringError;

namespace intarsia::assemble {

std::optional<int64_t> productOf(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    if (llvm::MulOverflow(product, size, product))
      return std::nullopt;
  return product;
}

namespace {

/// Rows one after another.
class RowMajorStorage : public TensorStorage {
public:
  RowMajorStorage(RankedTensorType type, StringRef elementType) {
    dtype = elementType.str();
    shape.assign(type.getShape().begin(), type.getShape().end());
    isInOrder = true;
    pieces = type.getNumElements();
    pieceBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  }
  Rows rowsOf(int64_t piece) const override { return {piece, piece + 1}; }
  void storeRows(ArrayRef<StoredRun>, char *) const override { llvm_unreachable("elements are stored in order"); }
};

/// An element of an archive, where a tensor may begin at any byte.
template <typename T> struct __attribute__((packed, may_alias)) Loose {
  T value;
};

/// Panels of rows, column by column.
class PanelStorage : public TensorStorage {
public:
  /// The sizes of the panels of all matrices of `type` are within 64 bits.
  PanelStorage(RankedTensorType type, StringRef elementType, int64_t width, int64_t slices)
      : width(width), slices(slices), columns(type.getShape().back()), matrixRows(type.getShape()[type.getRank() - 2]),
        elementBytes(llvm::divideCeil(type.getElementTypeBitWidth(), 8)) {
    ArrayRef<int64_t> leading = type.getShape().drop_back(2);
    panelsOfMatrix = llvm::divideCeil(matrixRows, width);
    pieces = ShapedType::getNumElements(leading) * panelsOfMatrix;
    pieceBytes = columns * width * elementBytes;
    dtype = elementType.str();
    shape.assign(leading.begin(), leading.end());
    llvm::append_values(shape, panelsOfMatrix, columns, width);
    suffix = ".panels" + std::to_string(width) + (slices > 1 ? "x" + std::to_string(slices) : "");
  }

  Rows rowsOf(int64_t piece) const override {
    // Panels of slices alternate: the first of each, then the second of each.
    int64_t panel = piece % slices * (pieces / slices) + piece / slices;
    int64_t matrix = panel / panelsOfMatrix * matrixRows, row = panel % panelsOfMatrix * width;
    return {matrix + row, matrix + std::min(row + width, matrixRows)};
  }

  void storeRows(ArrayRef<StoredRun> rows, char *piece) const override {
    switch (elementBytes) {
    case 1:
      return interleave<uint8_t>(rows, piece);
    case 2:
      return interleave<uint16_t>(rows, piece);
    case 4:
      return interleave<uint32_t>(rows, piece);
    default:
      return interleave<uint64_t>(rows, piece);
    }
  }

private:
  template <typename T> void interleave(ArrayRef<StoredRun> rows, char *piece) const {
    // Transposes sixteen columns at a time: whole cache lines of each row, and a target that fits the first-level
    // cache. Neighbouring rows of a transposed tensor are neighbours in memory, which is read column by column.
    constexpr int64_t block = 16;
    auto *panel = reinterpret_cast<T *>(piece);
    bool areTransposed = !rows.empty() && rows.front().stride != 1;
    for (int64_t begin = 0; begin < columns && !areTransposed; begin += block) {
      int64_t end = std::min(begin + block, columns);
      for (size_t row = 0; row < rows.size(); ++row)
        for (int64_t column = begin; column < end; ++column)
          panel[column * width + row] = reinterpret_cast<const Loose<T> *>(rows[row].data)[column].value;
    }
    for (int64_t column = 0; column < columns && areTransposed; ++column)
      for (size_t row = 0; row < rows.size(); ++row)
        panel[column * width + row] =
            reinterpret_cast<const Loose<T> *>(rows[row].data)[column * rows[row].stride].value;
  }

  int64_t width, slices, columns, matrixRows, panelsOfMatrix;
  unsigned elementBytes;
};

/// Panels of quantized values and scales.
class QuantizedPanelStorage : public PanelStorage {
public:
  QuantizedPanelStorage(RankedTensorType type, rt::LayoutAttr layout, const BlockPanels &panels)
      : PanelStorage(type, "U8", layout.getWidth(), layout.getSlices()), panels(panels) {
    isQuantized = true;
    pieceBytes = panels.panelBytes();
    shape = {pieces, pieceBytes};
    suffix += "." + cast<BlockFormatAttrInterface>(layout.getFormat()).getName();
  }
  void clear(char *piece) const override { panels.clear(reinterpret_cast<uint8_t *>(piece)); }
  void storeQuantized(ArrayRef<uint8_t> values, ArrayRef<uint8_t> scales, float tensorScale, int64_t row,
                      char *piece) const override {
    panels.store(values, scales, tensorScale, row, reinterpret_cast<uint8_t *>(piece));
  }
  void storeBlock(const gguf::BlockParts &parts, int64_t number, int64_t row, char *piece) const override {
    panels.store(parts, number, row, reinterpret_cast<uint8_t *>(piece));
  }

private:
  BlockPanels panels;
};

} // namespace

llvm::Expected<std::unique_ptr<TensorStorage>> makeStorage(rt::LayoutAttr layout, RankedTensorType type,
                                                           StringRef dtype) {
  if (layout.getKind() == rt::LayoutKind::RowMajor)
    return std::make_unique<RowMajorStorage>(type, dtype);
  int64_t width = layout.getWidth();
  SmallVector<int64_t> sizes(type.getShape());
  sizes.push_back(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  int64_t &rows = sizes[type.getRank() - 2];
  if (rows > std::numeric_limits<int64_t>::max() - width)
    return createStringError(typeText(dtype, type.getShape()) + " has more rows than panels can hold");
  rows = llvm::alignTo(rows, width);
  if (!productOf(sizes))
    return createStringError(typeText(dtype, type.getShape()) + " has more bytes in panels of " + Twine(width) +
                             " than 64 bits hold");
  if (!layout.getFormat())
    return std::make_unique<PanelStorage>(type, dtype, width, layout.getSlices());
  std::optional<BlockPanels> panels = BlockPanels::of(layout.getFormat(), type.getShape().back(), width);
  if (!panels)
    return createStringError("no panels of " + Twine(width) + " hold its format");
  return std::make_unique<QuantizedPanelStorage>(type, layout, *panels);
}

} // namespace intarsia::assemble
