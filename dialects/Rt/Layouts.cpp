//===- Layouts.cpp - Layouts of weights ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ScalarBuilder.h"
#include "dialects/Rt/BlockPanels.h"
#include "dialects/Rt/Rt.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace intarsia::rt {
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

/// Reads rows one after another.
class RowMajorReader : public TensorReader {
public:
  explicit RowMajorReader(Value storage) : storage(storage) {}
  Value buildElement(ScalarBuilder &b, ArrayRef<Integer> indices) const override {
    return tensor::ExtractOp::create(b, storage, SmallVector<Value>(indices));
  }

private:
  Value storage;
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
  QuantizedPanelStorage(RankedTensorType type, PanelsAttr layout, const BlockPanels &panels)
      : PanelStorage(type, "U8", layout.getWidth(), layout.getSlices()), panels(panels) {
    isQuantized = true;
    pieceBytes = panels.panelBytes();
    shape = {pieces, pieceBytes};
    suffix += "." + layout.getFormat().getName();
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

/// Values of 32 bits that the 32 registers of AVX-512 hold: no kernel keeps the sums of more columns in registers.
constexpr int64_t maximalPanelWidth = 512;

/// Returns true if the product of sizes fits in 64 bits.
bool canBeCounted(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  return llvm::none_of(sizes, [&](int64_t size) { return llvm::MulOverflow(product, size, product); });
}

LogicalResult verifyRank(Operation *op, const Twine &where, ShapedType type) {
  if (type.hasRank())
    return success();
  return op->emitOpError() << "layout of " << where << " stands on " << type << ", which has no dimensions";
}

} // namespace

LogicalResult RowMajorAttr::verifyType(Operation *op, const Twine &where, ShapedType type) const {
  return verifyRank(op, where, type);
}

llvm::Expected<std::unique_ptr<TensorStorage>> RowMajorAttr::makeStorage(RankedTensorType type, StringRef dtype) const {
  return std::make_unique<RowMajorStorage>(type, dtype);
}

std::unique_ptr<TensorReader> RowMajorAttr::makeReader(ScalarBuilder &, Value storage, RankedTensorType) const {
  return std::make_unique<RowMajorReader>(storage);
}

LogicalResult PanelsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t width, int64_t slices,
                                 BlockFormatAttrInterface) {
  if (width < 1 || width > maximalPanelWidth)
    return emitError() << "layout panels has width " << width << ", must be from 1 to " << maximalPanelWidth;
  if (slices < 1)
    return emitError() << "layout panels is in " << slices << " slices, must be in one or several";
  return success();
}

LogicalResult PanelsAttr::verifyType(Operation *op, const Twine &where, ShapedType type) const {
  if (failed(verifyRank(op, where, type)))
    return failure();
  if (type.getRank() < 2)
    return op->emitOpError() << "layout of " << where << " is panels, which needs at least rank 2, " << type
                             << " has rank " << type.getRank();
  if (getSlices() > 1 && (type.getRank() != 2 || type.getDimSize(0) % getWidth() != 0 ||
                          type.getDimSize(0) / getWidth() % getSlices() != 0))
    return op->emitOpError() << "layout of " << where << " is in " << getSlices()
                             << " slices of whole panels, which the rows of " << type << " are not";
  return success();
}

llvm::Expected<std::unique_ptr<TensorStorage>> PanelsAttr::makeStorage(RankedTensorType type, StringRef dtype) const {
  SmallVector<int64_t> sizes(type.getShape());
  sizes.push_back(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  int64_t &rows = sizes[type.getRank() - 2];
  bool canBeAligned = rows <= std::numeric_limits<int64_t>::max() - getWidth();
  rows = canBeAligned ? llvm::alignTo(rows, getWidth()) : rows;
  if (!canBeAligned || !canBeCounted(sizes))
    return llvm::createStringError("has more bytes in panels of " + Twine(getWidth()) + " than 64 bits hold");
  if (!getFormat())
    return std::make_unique<PanelStorage>(type, dtype, getWidth(), getSlices());
  std::optional<BlockPanels> panels = BlockPanels::of(getFormat(), type.getShape().back(), getWidth());
  if (!panels)
    return llvm::createStringError("no panels of " + Twine(getWidth()) + " hold values in " + getFormat().getName());
  return std::make_unique<QuantizedPanelStorage>(type, *this, *panels);
}

} // namespace intarsia::rt
