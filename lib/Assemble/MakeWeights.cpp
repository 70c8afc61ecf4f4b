//===- MakeWeights.cpp - Numbers of archives in the order of kernels ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/WeightItem.h"

#include "intarsia/Quantize/BlockPanels.h"
#include "lib/Assemble/Mxfp4.h"
#include "lib/Formats/DecodeBlocks.h"
#include "lib/Quantize/BlockCodec.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using llvm::createStringError;

namespace intarsia::assemble {

const GgmlType *blocksOf(const Item &item, size_t part) { return item.blocks.empty() ? nullptr : item.blocks[part]; }

unsigned sourceBytes(const Item &item) {
  return !item.format ? item.elementBytes : item.parts.front()->dtype == "F32" ? 4 : 2;
}

uint64_t elementsOf(const Item &item, size_t part) {
  uint64_t bytes = item.parts[part]->bytes();
  const GgmlType *type = blocksOf(item, part);
  return type ? bytes / type->bytes * type->elements : bytes / sourceBytes(item);
}

int64_t rowsBefore(const Item &item, uint64_t panel) {
  int64_t panelsOfMatrix = llvm::divideCeil(item.matrixRows, item.panelWidth);
  int64_t matrix = panel / panelsOfMatrix, inside = panel % panelsOfMatrix;
  return matrix * item.matrixRows + inside * item.panelWidth;
}

uint64_t panelStoredAs(const Item &item, uint64_t number) {
  if (item.slices == 1)
    return number;
  return number % item.slices * (item.rows / item.panelWidth / item.slices) + number / item.slices;
}

void dropPages(const void *data, uint64_t bytes) {
  uintptr_t page = sysconf(_SC_PAGESIZE), begin = llvm::alignTo(reinterpret_cast<uintptr_t>(data), page);
  uintptr_t end = llvm::alignDown(reinterpret_cast<uintptr_t>(data) + bytes, page);
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

std::string nameOf(Attribute attribute) {
  if (auto type = dyn_cast<nn::GgmlTypeAttr>(attribute))
    return type.getKeyword().str();
  auto format = cast<nn::BlockFormatAttr>(attribute);
  return (nn::stringifyBlockElement(format.getElement()) + "-" + nn::stringifyBlockScale(format.getScale()) + "-" +
          Twine(format.getBlock()))
      .str();
}

namespace {

template <typename T>
void interleaveRows(const std::vector<const T *> &rows, int64_t columns, int64_t width, T *panel) {
  // Transposes sixteen columns at a time: whole cache lines of each row, and a target that fits the first-level cache.
  constexpr int64_t block = 16;
  for (int64_t begin = 0; begin < columns; begin += block) {
    int64_t end = std::min(begin + block, columns);
    for (size_t row = 0; row < rows.size(); ++row)
      for (int64_t column = begin; column < end; ++column)
        panel[column * width + row] = rows[row][column];
  }
}

/// Returns the index of the part that holds a row of the item, and the row's index in that part.
std::pair<size_t, int64_t> partOfRow(const Item &item, int64_t row) {
  for (size_t part = 0; part < item.parts.size(); ++part) {
    int64_t rows = elementsOf(item, part) / item.columns;
    if (row < rows)
      return {part, row};
    row -= rows;
  }
  llvm_unreachable("rows of the parts were counted");
}

/// Returns the offset of a row of an item with strides in the concatenated parts, in elements.
int64_t stridedOffset(const Item &item, int64_t row) {
  int64_t offset = 0;
  for (size_t dimension = item.shape.size() - 1; dimension-- > 0; row /= item.shape[dimension])
    offset += row % item.shape[dimension] * item.strides[dimension];
  return offset;
}

/// Returns a row of an item with strides; its elements are strides.back() apart. `decoded` is memory for one row.
template <typename T> const T *stridedRow(const Item &item, int64_t row, T *decoded) {
  int64_t offset = stridedOffset(item, row);
  if constexpr (std::is_same_v<T, uint16_t>)
    if (item.mxfp4)
      return decodeMxfp4(item.parts[0]->data, item.parts[1]->data, offset, item.columns, decoded);
  auto part = item.parts.begin();
  for (; part + 1 != item.parts.end() && offset >= int64_t((*part)->bytes() / sizeof(T)); ++part)
    offset -= (*part)->bytes() / sizeof(T);
  return static_cast<const T *>((*part)->data) + offset;
}

template <typename T> void makePanels(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  buffer.assign(unit.bytes, 0);
  T *panel = reinterpret_cast<T *>(buffer.data());
  for (uint64_t number = unit.first; number < unit.last; ++number, panel += item.panelWidth * item.columns) {
    uint64_t stored = panelStoredAs(item, number);
    int64_t firstRow = rowsBefore(item, stored);
    int64_t lastRow = std::min(firstRow + item.panelWidth, rowsBefore(item, stored + 1));
    if (!item.strides.empty()) {
      std::vector<const T *> rows;
      std::vector<T> decoded(item.mxfp4 ? item.panelWidth * item.columns : 0);
      for (int64_t row = firstRow; row < lastRow; ++row)
        rows.push_back(stridedRow(item, row, decoded.data() + (item.mxfp4 ? (row - firstRow) * item.columns : 0)));
      for (int64_t column = 0; column < item.columns; ++column)
        for (size_t row = 0; row < rows.size(); ++row)
          panel[column * item.panelWidth + row] = rows[row][column * item.strides.back()];
      continue;
    }
    if (!item.transposed) {
      std::vector<const T *> rows;
      for (int64_t row = firstRow; row < lastRow; ++row) {
        auto [part, partRow] = partOfRow(item, row);
        rows.push_back(static_cast<const T *>(item.parts[part]->data) + partRow * item.columns);
      }
      interleaveRows<T>(rows, item.columns, item.panelWidth, panel);
      continue;
    }
    for (int64_t row = firstRow; row < lastRow; ++row) {
      auto [part, partRow] = partOfRow(item, row);
      int64_t partRows = item.parts[part]->shape[1];
      const T *source = static_cast<const T *>(item.parts[part]->data) + partRow;
      for (int64_t column = 0; column < item.columns; ++column)
        panel[column * item.panelWidth + (row - firstRow)] = source[column * partRows];
    }
  }
}

template <typename T> void makeReorderedRows(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  buffer.resize(unit.bytes);
  T *target = reinterpret_cast<T *>(buffer.data());
  for (uint64_t row = unit.first; row < unit.last; ++row, target += item.columns) {
    if (!item.strides.empty()) {
      const T *source = stridedRow(item, row, target);
      for (int64_t column = 0; column < item.columns; ++column)
        target[column] = source[column * item.strides.back()];
      continue;
    }
    auto [part, partRow] = partOfRow(item, row);
    int64_t partRows = item.parts[part]->shape[1];
    const T *source = static_cast<const T *>(item.parts[part]->data) + partRow;
    for (int64_t column = 0; column < item.columns; ++column)
      target[column] = source[column * partRows];
  }
}

/// Decodes elements [first, first + count) of an item with blocks to f32, and drops their sources, which are not read
/// again.
void decode(const Item &item, uint64_t first, uint64_t count, float *values) {
  uint64_t partBegin = 0;
  for (size_t part = 0; part < item.parts.size(); ++part) {
    uint64_t partEnd = partBegin + elementsOf(item, part);
    uint64_t begin = std::max(first, partBegin), end = std::min(first + count, partEnd);
    if (begin < end) {
      constexpr GgmlType plain = *ggmlTypeOf("f32");
      const GgmlType *blocks = blocksOf(item, part);
      const GgmlType &type = blocks ? *blocks : plain;
      const char *source = static_cast<const char *>(item.parts[part]->data);
      gguf::decodeElements(type, source, begin - partBegin, end - begin, values + (begin - first));
      uint64_t firstByte = (begin - partBegin) / type.elements * type.bytes;
      dropPages(source + firstByte, (end - partBegin) / type.elements * type.bytes - firstByte);
    }
    partBegin = partEnd;
  }
}

/// The location of a row's elements: the part, the first element and the stride, in elements of the part.
struct RowPlace {
  size_t part;
  int64_t first, stride = 1;
};

RowPlace placeOfRow(const Item &item, int64_t row) {
  if (!item.strides.empty()) {
    RowPlace place{0, stridedOffset(item, row), item.strides.back()};
    for (int64_t count; place.part + 1 < item.parts.size() && !item.mxfp4; ++place.part, place.first -= count)
      if (count = elementsOf(item, place.part); place.first < count)
        break;
    return place;
  }
  auto [part, partRow] = partOfRow(item, row);
  if (item.transposed)
    return {part, partRow, item.parts[part]->shape[1]};
  return {part, partRow * item.columns};
}

/// Reads a row as f32.
template <typename T> void readRow(const void *data, const RowPlace &place, MutableArrayRef<float> to) {
  const T *from = static_cast<const T *>(data) + place.first;
  for (size_t column = 0; column < to.size(); ++column, from += place.stride) {
    if constexpr (std::is_same_v<T, uint16_t>) // bf16
      to[column] = llvm::bit_cast<float>(uint32_t(*from) << 16);
    else
      to[column] = float(*from);
  }
}

void readRow(const Item &item, const RowPlace &place, MutableArrayRef<float> to) {
  const SafetensorsEntry &part = *item.parts[place.part];
  if (const GgmlType *type = blocksOf(item, place.part))
    return gguf::decodeElements(*type, static_cast<const char *>(part.data), place.first, to.size(), to.data());
  if (part.dtype == "F32")
    return readRow<float>(part.data, place, to);
  if (part.dtype == "BF16")
    return readRow<uint16_t>(part.data, place, to);
  readRow<_Float16>(part.data, place, to);
}

/// Makes a unit of an item with blocks.
void makeDecoded(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  buffer.assign(unit.bytes, 0);
  float *target = reinterpret_cast<float *>(buffer.data());
  if (!item.panelWidth && !item.strides.empty()) {
    for (uint64_t row = unit.first; row < unit.last; ++row, target += item.columns)
      readRow(item, placeOfRow(item, row), {target, size_t(item.columns)});
    return;
  }
  if (!item.panelWidth)
    return decode(item, unit.first / sizeof(float), unit.bytes / sizeof(float), target);
  std::vector<float> numbers(item.panelWidth * item.columns);
  for (uint64_t number = unit.first; number < unit.last; ++number, target += numbers.size()) {
    uint64_t stored = panelStoredAs(item, number);
    int64_t firstRow = rowsBefore(item, stored);
    int64_t lastRow = std::min(firstRow + item.panelWidth, rowsBefore(item, stored + 1));
    if (item.strides.empty())
      decode(item, firstRow * item.columns, (lastRow - firstRow) * item.columns, numbers.data());
    std::vector<const float *> rows;
    for (int64_t row = 0; row < lastRow - firstRow; ++row) {
      rows.push_back(numbers.data() + row * item.columns);
      if (!item.strides.empty())
        readRow(item, placeOfRow(item, firstRow + row), {numbers.data() + row * item.columns, size_t(item.columns)});
    }
    interleaveRows<float>(rows, item.columns, item.panelWidth, target);
  }
}

/// Returns the indices of an element of a part, "[1, 2, 3]"; blocks count as their elements.
std::string indicesOf(const Item &item, size_t part, int64_t element) {
  std::vector<int64_t> shape = item.parts[part]->shape, indices;
  if (const GgmlType *type = blocksOf(item, part); type && !shape.empty())
    shape.back() = shape.back() / type->bytes * type->elements;
  for (int64_t size : llvm::reverse(shape)) {
    indices.insert(indices.begin(), element % size);
    element /= size;
  }
  return shapeText(indices);
}

/// Returns the message of a failed encoding: it names the tensor and the value that has no code.
std::string withoutCode(const Item &item, const RowPlace &place, int64_t column, float value) {
  return llvm::formatv("tensor '{0}' has {1} at {2}, which has no code in {3}; leave the tensor as it is or mend "
                       "the weights",
                       item.parts[place.part]->name, value,
                       indicesOf(item, place.part, place.first + column * place.stride), nameOf(item.format));
}

/// Makes panels of codes, or rows or panels of dequantized values. Returns an error message, empty on success.
std::string makeRounded(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  BlockCodec codec(item.format);
  std::vector<float> numbers(item.columns);
  std::vector<uint8_t> codes(item.columns), scales(codec.blockCount(item.columns) * codec.scaleBytes());
  buffer.assign(unit.bytes, 0);
  const std::optional<BlockPanels> &panels = item.coded;
  int64_t rowsOfStep = item.panelWidth ? item.panelWidth : 1;
  auto *target = reinterpret_cast<uint8_t *>(buffer.data());
  for (uint64_t number = unit.first; number < unit.last; ++number) {
    if (item.coded)
      panels->clear(target);
    uint64_t stored = panelStoredAs(item, number);
    int64_t firstRow = item.panelWidth ? rowsBefore(item, stored) : number;
    int64_t rows = item.panelWidth ? std::min(rowsOfStep, rowsBefore(item, stored + 1) - firstRow) : 1;
    for (int64_t row = 0; row < rows; ++row) {
      RowPlace place = placeOfRow(item, firstRow + row);
      float tensorScale = item.tensorScales.empty() ? 1.0f : item.tensorScales[place.part];
      readRow(item, place, numbers);
      if (std::optional<size_t> wrong = codec.encodeRow(numbers, tensorScale, codes, scales))
        return withoutCode(item, place, *wrong, numbers[*wrong]);
      if (item.coded) {
        panels->store(codes, scales, tensorScale, row, target);
        continue;
      }
      codec.decodeRow(codes, scales, {}, tensorScale, numbers);
      auto *to = reinterpret_cast<float *>(target);
      for (int64_t column = 0; column < item.columns; ++column)
        to[column * rowsOfStep + row] = numbers[column];
    }
    target += item.coded ? panels->panelBytes() : rowsOfStep * item.columns * int64_t(sizeof(float));
  }
  return {};
}

/// Reads codes and scales of a row of a weight that an archive holds in MXFP4. Returns true if a scale is NaN.
bool readMxfp4(const Item &item, int64_t first, MutableArrayRef<uint8_t> codes, MutableArrayRef<uint8_t> scales) {
  const auto *bytes = static_cast<const uint8_t *>(item.parts[0]->data) + first / 2;
  for (size_t i = 0; i < codes.size(); i += 2, ++bytes) {
    codes[i] = *bytes & 15;
    codes[i + 1] = *bytes >> 4;
  }
  std::memcpy(scales.data(), static_cast<const uint8_t *>(item.parts[1]->data) + first / mxfp4Block, scales.size());
  return llvm::is_contained(scales, 255);
}

/// Makes panels of the codes and scales in the parts' blocks.
std::string makeTransferred(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  const BlockPanels &panels = *item.coded;
  buffer.assign(unit.bytes, 0);
  auto *target = reinterpret_cast<uint8_t *>(buffer.data());
  std::vector<uint8_t> codes(item.mxfp4 ? item.columns : 0), scales(codes.size() / mxfp4Block);
  gguf::BlockParts parts;
  for (uint64_t number = unit.first; number < unit.last; ++number, target += panels.panelBytes()) {
    panels.clear(target);
    uint64_t stored = panelStoredAs(item, number);
    int64_t firstRow = rowsBefore(item, stored);
    int64_t rows = std::min(panels.width, rowsBefore(item, stored + 1) - firstRow);
    for (int64_t row = 0; row < rows; ++row) {
      RowPlace place = placeOfRow(item, firstRow + row);
      size_t part = place.part;
      if (item.mxfp4) {
        if (readMxfp4(item, place.first, codes, scales))
          return llvm::formatv(
              "tensor '{0}' has a scale 255 (NaN in MXFP4) for row {1} of '{2}'; are the weights damaged?",
              item.parts[1]->name, place.first / item.columns, item.parts[0]->name);
        panels.store(codes, scales, 1.0f, row, target);
        continue;
      }
      int64_t partRow = place.first / item.columns;
      const GgmlType &type = *blocksOf(item, part);
      gguf::TakeApart takeApart = gguf::partsOf(type);
      int64_t blocks = item.columns / type.elements;
      auto *block = static_cast<const uint8_t *>(item.parts[part]->data) + partRow * blocks * type.bytes;
      for (int64_t i = 0; i < blocks; ++i, block += type.bytes) {
        takeApart(block, parts);
        constexpr uint16_t exponent = 0x7c00; // exponent bits of f16, all set in NaN and infinity
        bool isE8M0 = panels.scale == nn::BlockScale::E8M0;
        if (isE8M0 ? parts.scale == 255
                   : (parts.scale & exponent) == exponent || (parts.minimum & exponent) == exponent)
          return llvm::formatv(
              "tensor '{0}' has a block in row {1} whose scale{2}, so that its values are not finite; are the "
              "weights damaged?",
              item.parts[part]->name, partRow, isE8M0 ? " is 255" : " or minimum is NaN or infinite");
        panels.store(parts, i, row, target);
      }
    }
  }
  return {};
}

template <template <typename> typename Body, typename... Args> void withElement(unsigned bytes, Args &&...args) {
  switch (bytes) {
  case 1:
    return Body<uint8_t>()(args...);
  case 2:
    return Body<uint16_t>()(args...);
  case 4:
    return Body<uint32_t>()(args...);
  default:
    return Body<uint64_t>()(args...);
  }
}
template <typename T> struct Panels {
  void operator()(const Unit &unit, std::vector<char> &buffer) { makePanels<T>(unit, buffer); }
};
template <typename T> struct ReorderedRows {
  void operator()(const Unit &unit, std::vector<char> &buffer) { makeReorderedRows<T>(unit, buffer); }
};

/// Returns bytes [first, last) of an item that is stored like its parts.
StringRef copyBytes(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  if (item.parts.empty())
    return StringRef(item.data.data() + unit.first, unit.bytes);
  buffer.clear();
  uint64_t partBegin = 0;
  for (const SafetensorsEntry *part : item.parts) {
    uint64_t partEnd = partBegin + part->bytes();
    uint64_t begin = std::max(unit.first, partBegin), end = std::min(unit.last, partEnd);
    if (begin < end) {
      const char *source = static_cast<const char *>(part->data) + (begin - partBegin);
      if (end - begin == unit.bytes)
        return StringRef(source, unit.bytes);
      buffer.insert(buffer.end(), source, source + (end - begin));
    }
    partBegin = partEnd;
  }
  return StringRef(buffer.data(), buffer.size());
}

} // namespace

llvm::Error findTensorScales(Item &item) {
  std::vector<float> numbers(item.columns), largest(item.parts.size());
  for (int64_t row = 0; row < item.rows; ++row) {
    RowPlace place = placeOfRow(item, row);
    readRow(item, place, numbers);
    float magnitude = BlockCodec::largestMagnitude(numbers);
    if (!std::isfinite(magnitude)) {
      int64_t column = llvm::find_if(numbers, [](float x) { return !std::isfinite(x); }) - numbers.begin();
      return createStringError(withoutCode(item, place, column, numbers[column]));
    }
    largest[place.part] = std::max(largest[place.part], magnitude);
  }
  for (float magnitude : largest)
    item.tensorScales.push_back(BlockCodec::tensorScaleOf(magnitude));
  return llvm::Error::success();
}

llvm::Expected<StringRef> makeUnit(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  if (item.format || item.coded) {
    if (std::string wrong = item.format ? makeRounded(unit, buffer) : makeTransferred(unit, buffer); !wrong.empty())
      return createStringError(wrong);
  } else if (!item.blocks.empty()) {
    makeDecoded(unit, buffer);
  } else if (item.panelWidth) {
    withElement<Panels>(item.elementBytes, unit, buffer);
  } else if (item.isReordered()) {
    withElement<ReorderedRows>(item.elementBytes, unit, buffer);
  } else {
    return copyBytes(unit, buffer);
  }
  return StringRef(buffer.data(), buffer.size());
}

} // namespace intarsia::assemble
