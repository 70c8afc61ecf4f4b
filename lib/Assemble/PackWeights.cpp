//===- PackWeights.cpp - Weights as kernels read them ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/PackWeights.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Assemble.h"
#include "intarsia/BlockPanels.h"
#include "intarsia/module_abi.h"
#include "lib/Assemble/Mxfp4.h"
#include "lib/Import/Gguf/DecodeBlocks.h"
#include "lib/Quantize/BlockCodec.h"
#include "lib/Runtime/Core/Hash.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace mlir;
using intarsia::runtime::SafetensorsEntry;
using intarsia::runtime::SafetensorsFile;
using llvm::createStringError;

namespace intarsia::assemble {

static constexpr llvm::StringLiteral producerKey = "packed_by", producerValue = "intarsia", ownerKey = "artifact";

llvm::StringRef safetensorsDtype(Type type) {
  return llvm::TypeSwitch<Type, StringRef>(type)
      .Case([](Float64Type) { return "F64"; })
      .Case([](Float32Type) { return "F32"; })
      .Case([](Float16Type) { return "F16"; })
      .Case([](BFloat16Type) { return "BF16"; })
      .Case([](Float8E4M3FNType) { return "F8_E4M3"; })
      .Case([](Float8E5M2Type) { return "F8_E5M2"; })
      .Case([](IntegerType integer) -> StringRef {
        bool isUnsigned = integer.isUnsigned();
        switch (integer.getWidth()) {
        case 1:
          return "BOOL";
        case 8:
          return isUnsigned ? "U8" : "I8";
        case 16:
          return isUnsigned ? "U16" : "I16";
        case 32:
          return isUnsigned ? "U32" : "I32";
        case 64:
          return isUnsigned ? "U64" : "I64";
        default:
          return "";
        }
      })
      .Default([](Type) { return ""; });
}

std::optional<std::string> ownerOfPackedArchive(const std::string &path) {
  std::unique_ptr<SafetensorsFile> file;
  if (!SafetensorsFile::open(path, file).ok())
    return std::nullopt;
  const auto &metadata = file->metadata();
  auto producer = metadata.find(producerKey.str()), owner = metadata.find(ownerKey.str());
  if (producer == metadata.end() || producer->second != producerValue)
    return std::nullopt;
  return owner == metadata.end() ? "" : owner->second;
}

llvm::Expected<std::unique_ptr<Archive>> Archive::open(const std::string &path) {
  auto archive = std::make_unique<Archive>();
  bool isGguf = StringRef(path).ends_with(".gguf");
  runtime::Status status =
      isGguf ? gguf::File::open(path, path, archive->gguf) : SafetensorsFile::open(path, archive->safetensors);
  if (!status.ok())
    return createStringError(status.message());
  // Read ahead in large steps: tensors are read once, from their beginning to their end.
  const uint8_t *data = isGguf ? archive->gguf->data() : archive->safetensors->data();
  uint64_t bytes = isGguf ? archive->gguf->size() : archive->safetensors->size();
  madvise(const_cast<uint8_t *>(data), bytes, MADV_SEQUENTIAL);
  return archive;
}

const SafetensorsEntry *Archive::find(StringRef key) const {
  std::string_view name(key.data(), key.size());
  if (!gguf)
    return safetensors->find(name);
  const gguf::Tensor *tensor = gguf->find(name);
  return tensor ? &tensor->raw : nullptr;
}

llvm::Expected<Archive *> Archives::open(FlatSymbolRefAttr archive) {
  std::unique_ptr<Archive> &file = files[archive.getValue()];
  if (file)
    return file.get();
  auto op = SymbolTable::lookupNearestSymbolFrom<nn::ArchiveOp>(module, archive);
  if (!op)
    return createStringError("the module has no nn.archive @" + archive.getValue());
  SmallString<128> path(directory);
  llvm::sys::path::append(path, op.getFile());
  auto opened = Archive::open(path.str().str());
  if (!opened)
    return opened.takeError();
  file = std::move(*opened);
  return file.get();
}

llvm::Expected<const SafetensorsEntry *> Archives::find(FlatSymbolRefAttr archive, StringAttr key) {
  auto file = open(archive);
  if (!file)
    return file.takeError();
  const SafetensorsEntry *entry = (*file)->find(key.getValue());
  if (!entry)
    return createStringError((*file)->name() + ": has no tensor '" + key.getValue() +
                             "', which the model reads (it has " + Twine((*file)->tensorCount()) + " tensors)");
  return entry;
}

namespace {

/// A tensor of the packed file.
struct Item {
  std::string name, dtype;
  std::vector<int64_t> fileShape;
  unsigned elementBytes = 0;
  std::vector<const SafetensorsEntry *> parts;
  std::vector<const GgmlType *> blocks;        // of the parts that are decoded, null for others; empty if none is
  std::vector<char> data;                      // of constants that the IR holds
  std::shared_ptr<SafetensorsEntry> dataEntry; // the part that is `data`
  bool transposed = false;
  int64_t panelWidth = 0;              // 0: row-major
  int64_t rows = 0, columns = 0;       // of the whole, for panels; of the parts, if transposed
  int64_t matrixRows = 0;              // of one of the matrices, for panels
  std::vector<int64_t> shape, strides; // of the elements in the joined parts, if they lie in another order
  nn::BlockFormatAttr format;          // the numbers are rounded to it
  bool isCoded = false;                // codes and scales are stored, else the numbers that they mean
  std::vector<float> tensorScales;     // of each part, where the format has them
  bool mxfp4 = false;                  // the parts are blocks and scales; strides are there too
  bool isReordered() const { return transposed || !strides.empty(); }
  uint64_t bytes = 0, begin = 0; // in the packed file
};

/// A piece of the packed file that one thread makes: bytes of an item, or its panels, from `first` to `last`.
struct Unit {
  const Item *item = nullptr;
  uint64_t first = 0, last = 0;
  uint64_t fileOffset = 0, bytes = 0;
};

constexpr uint64_t unitBytes = 2 << 20; // about what a core's second-level cache holds

template <typename T>
void interleaveRows(const std::vector<const T *> &rows, int64_t columns, int64_t width, T *panel) {
  // Sixteen columns at a time: whole cache lines of each row, and a target that stays in the first-level cache.
  constexpr int64_t block = 16;
  for (int64_t begin = 0; begin < columns; begin += block) {
    int64_t end = std::min(begin + block, columns);
    for (size_t row = 0; row < rows.size(); ++row)
      for (int64_t column = begin; column < end; ++column)
        panel[column * width + row] = rows[row][column];
  }
}

/// The type of the blocks that a part is decoded from; null for parts that hold numbers.
const GgmlType *blocksOf(const Item &item, size_t part) { return item.blocks.empty() ? nullptr : item.blocks[part]; }

/// Bytes of an element as the archive has it.
unsigned sourceBytes(const Item &item) {
  return !item.format ? item.elementBytes : item.parts.front()->dtype == "F32" ? 4 : 2;
}

uint64_t elementsOf(const Item &item, size_t part) {
  uint64_t bytes = item.parts[part]->bytes();
  const GgmlType *type = blocksOf(item, part);
  return type ? bytes / type->bytes * type->elements : bytes / sourceBytes(item);
}

/// The number of the part that holds a row of the whole, and the row's number in it.
std::pair<size_t, int64_t> partOfRow(const Item &item, int64_t row) {
  for (size_t part = 0; part < item.parts.size(); ++part) {
    int64_t rows = elementsOf(item, part) / item.columns;
    if (row < rows)
      return {part, row};
    row -= rows;
  }
  llvm_unreachable("rows of the parts were counted");
}

/// A row of an item with strides, whose elements are strides.back() apart; `decoded` is memory for one.
template <typename T> const T *stridedRow(const Item &item, int64_t row, T *decoded) {
  int64_t offset = 0;
  for (size_t dimension = item.shape.size() - 1; dimension-- > 0; row /= item.shape[dimension])
    offset += row % item.shape[dimension] * item.strides[dimension];
  if constexpr (std::is_same_v<T, uint16_t>)
    if (item.mxfp4)
      return decodeMxfp4(item.parts[0]->data, item.parts[1]->data, offset, item.columns, decoded);
  auto part = item.parts.begin();
  for (; part + 1 != item.parts.end() && offset >= int64_t((*part)->bytes() / sizeof(T)); ++part)
    offset -= (*part)->bytes() / sizeof(T);
  return static_cast<const T *>((*part)->data) + offset;
}

/// Rows of the whole before a panel: those of a matrix begin a panel of their own.
int64_t rowsBefore(const Item &item, uint64_t panel) {
  int64_t panelsOfMatrix = llvm::divideCeil(item.matrixRows, item.panelWidth);
  int64_t matrix = panel / panelsOfMatrix, inside = panel % panelsOfMatrix;
  return matrix * item.matrixRows + inside * item.panelWidth;
}

/// Drops pages of a mapped source that nothing reads again.
void dropPages(const void *data, uint64_t bytes) {
  uintptr_t page = sysconf(_SC_PAGESIZE), begin = llvm::alignTo(reinterpret_cast<uintptr_t>(data), page);
  uintptr_t end = llvm::alignDown(reinterpret_cast<uintptr_t>(data) + bytes, page);
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

template <typename T> void makePanels(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  buffer.assign(unit.bytes, 0);
  T *panel = reinterpret_cast<T *>(buffer.data());
  for (uint64_t number = unit.first; number < unit.last; ++number, panel += item.panelWidth * item.columns) {
    int64_t firstRow = rowsBefore(item, number);
    int64_t lastRow = std::min(firstRow + item.panelWidth, rowsBefore(item, number + 1));
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

/// Elements [first, first + count) of an item with blocks, as f32; their sources are not read again.
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

/// What a unit of an item with blocks stores.
void makeDecoded(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  buffer.assign(unit.bytes, 0);
  float *target = reinterpret_cast<float *>(buffer.data());
  if (!item.panelWidth)
    return decode(item, unit.first / sizeof(float), unit.bytes / sizeof(float), target);
  std::vector<float> numbers(item.panelWidth * item.columns);
  for (uint64_t number = unit.first; number < unit.last; ++number, target += numbers.size()) {
    int64_t firstRow = rowsBefore(item, number);
    int64_t lastRow = std::min(firstRow + item.panelWidth, rowsBefore(item, number + 1));
    decode(item, firstRow * item.columns, (lastRow - firstRow) * item.columns, numbers.data());
    std::vector<const float *> rows;
    for (int64_t row = 0; row < lastRow - firstRow; ++row)
      rows.push_back(numbers.data() + row * item.columns);
    interleaveRows<float>(rows, item.columns, item.panelWidth, target);
  }
}

/// A row of a part as f32. `columns` apart from one another where the matrix is transposed.
template <typename T>
void readRow(const SafetensorsEntry &part, int64_t row, bool transposed, MutableArrayRef<float> to) {
  int64_t stride = transposed ? part.shape[1] : 1;
  const T *from = static_cast<const T *>(part.data) + (transposed ? row : row * int64_t(to.size()));
  for (size_t column = 0; column < to.size(); ++column, from += stride) {
    if constexpr (std::is_same_v<T, uint16_t>) // bf16
      to[column] = llvm::bit_cast<float>(uint32_t(*from) << 16);
    else
      to[column] = float(*from);
  }
}

void readRow(const Item &item, size_t number, int64_t row, MutableArrayRef<float> to) {
  const SafetensorsEntry &part = *item.parts[number];
  if (const GgmlType *type = blocksOf(item, number))
    return gguf::decodeElements(*type, static_cast<const char *>(part.data), row * to.size(), to.size(), to.data());
  if (part.dtype == "F32")
    return readRow<float>(part, row, item.transposed, to);
  if (part.dtype == "BF16")
    return readRow<uint16_t>(part, row, item.transposed, to);
  readRow<_Float16>(part, row, item.transposed, to);
}

/// What a failed encoding says: which number of which tensor has no code.
std::string withoutCode(const Item &item, size_t part, int64_t row, int64_t column, float value) {
  std::string format;
  llvm::raw_string_ostream(format) << item.format;
  std::pair<int64_t, int64_t> place(row, column);
  if (item.transposed)
    std::swap(place.first, place.second);
  return llvm::formatv(
      "tensor '{0}' has {1} at [{2}, {3}], which has no code in {4}; leave the tensor as it is or mend "
      "the weights",
      item.parts[part]->name, value, place.first, place.second, format);
}

/// The scale of each part of an item whose format has one for the tensor.
llvm::Error findTensorScales(Item &item) {
  std::vector<float> numbers(item.columns);
  for (size_t part = 0; part < item.parts.size(); ++part) {
    float largest = 0;
    int64_t rows = elementsOf(item, part) / item.columns;
    for (int64_t row = 0; row < rows; ++row) {
      readRow(item, part, row, numbers);
      float magnitude = BlockCodec::largestMagnitude(numbers);
      if (!std::isfinite(magnitude)) {
        int64_t column = llvm::find_if(numbers, [](float x) { return !std::isfinite(x); }) - numbers.begin();
        return createStringError(withoutCode(item, part, row, column, numbers[column]));
      }
      largest = std::max(largest, magnitude);
    }
    item.tensorScales.push_back(BlockCodec::tensorScaleOf(largest));
  }
  return llvm::Error::success();
}

/// Panels of codes, or rows or panels of the numbers that codes mean. Gives what is wrong, empty if nothing is.
std::string makeRounded(const Unit &unit, std::vector<char> &buffer) {
  const Item &item = *unit.item;
  BlockCodec codec(item.format);
  std::vector<float> numbers(item.columns);
  std::vector<uint8_t> codes(item.columns), scales(codec.blockCount(item.columns) * codec.scaleBytes());
  buffer.assign(unit.bytes, 0);
  std::optional<BlockPanels> panels;
  if (item.isCoded)
    panels = BlockPanels::of(item.format, item.columns);
  int64_t rowsOfStep = item.panelWidth ? item.panelWidth : 1;
  auto *target = reinterpret_cast<uint8_t *>(buffer.data());
  for (uint64_t number = unit.first; number < unit.last; ++number) {
    if (item.isCoded)
      panels->clear(target);
    for (int64_t row = 0; row < rowsOfStep && int64_t(number) * rowsOfStep + row < item.rows; ++row) {
      auto [part, partRow] = partOfRow(item, number * rowsOfStep + row);
      float tensorScale = item.tensorScales.empty() ? 1.0f : item.tensorScales[part];
      readRow(item, part, partRow, numbers);
      if (std::optional<size_t> wrong = codec.encodeRow(numbers, tensorScale, codes, scales))
        return withoutCode(item, part, partRow, *wrong, numbers[*wrong]);
      if (item.isCoded) {
        panels->store(codes, scales, tensorScale, row, target);
        continue;
      }
      codec.decodeRow(codes, scales, {}, tensorScale, numbers);
      auto *to = reinterpret_cast<float *>(target);
      for (int64_t column = 0; column < item.columns; ++column)
        to[column * rowsOfStep + row] = numbers[column];
    }
    target += item.isCoded ? panels->panelBytes() : rowsOfStep * item.columns * int64_t(sizeof(float));
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

/// Bytes [first, last) of an item that is stored as its parts are.
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

bool isZero(StringRef bytes) {
  return bytes.empty() || (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

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

/// "i4-f16-32".
std::string nameOf(nn::BlockFormatAttr format) {
  return (nn::stringifyBlockElement(format.getElement()) + "-" + nn::stringifyBlockScale(format.getScale()) + "-" +
          Twine(format.getBlock()))
      .str();
}

} // namespace

struct WeightPacker::State {
  explicit State(ModuleOp module, StringRef directory) : archives(module, directory) {}
  Archives archives;
  std::vector<Item> items; // in the order of the module
  llvm::StringSet<> names;
  std::map<std::string_view, std::set<const SafetensorsEntry *>> decoded; // tensors by their type

  llvm::Error add(rt::ConstantOp constant);
  std::string header(llvm::StringRef owner, std::vector<Item> &padding);
};

llvm::Error WeightPacker::State::add(rt::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  Item item;
  item.dtype = safetensorsDtype(type.getElementType()).str();
  if (item.dtype.empty())
    return createStringError("constant '" + constant.getSymName() + "' has elements that archives do not hold");
  item.elementBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  item.transposed = constant.getTransposed();
  item.mxfp4 = constant.getMxfp4();
  item.format = dyn_cast_or_null<nn::BlockFormatAttr>(constant.getFormatAttr());
  uint64_t wanted = type.getNumElements() * item.elementBytes;

  if (constant.getValue()) {
    auto value = dyn_cast<DenseElementsAttr>(*constant.getValue());
    if (!value)
      return createStringError("constant '" + constant.getSymName() + "': its data is not held as dense elements");
    item.name = constant.getSymName().str();
    item.data = dataOf(value);
    item.dataEntry = std::make_shared<SafetensorsEntry>();
    item.dataEntry->name = item.name;
    item.dataEntry->dtype = item.dtype;
    item.dataEntry->shape.assign(type.getShape().begin(), type.getShape().end());
    item.dataEntry->end = item.data.size();
    item.dataEntry->data = item.data.data();
    item.parts.push_back(item.dataEntry.get());
  } else {
    uint64_t bytes = 0;
    for (Attribute type : constant.getBlocks().value_or(ArrayAttr::get(constant.getContext(), {}))) {
      auto blocks = dyn_cast<nn::GgmlTypeAttr>(type);
      item.blocks.push_back(blocks ? &blocks.getType() : nullptr);
    }
    for (auto [archive, key] : llvm::zip_equal(constant.getArchivesAttr().getAsRange<FlatSymbolRefAttr>(),
                                               constant.getKeys().getAsRange<StringAttr>())) {
      auto entry = archives.find(archive, key);
      if (!entry)
        return entry.takeError();
      const GgmlType *blocks = blocksOf(item, item.parts.size());
      bool isFloat = llvm::is_contained({"F32", "F16", "BF16"}, (*entry)->dtype);
      StringRef stored = blocks ? "I8" : item.mxfp4 ? "U8" : StringRef(item.dtype);
      if (item.format && !blocks ? !isFloat : (*entry)->dtype != stored)
        return createStringError("tensor '" + key.getValue() + "' is " + typeText((*entry)->dtype, (*entry)->shape) +
                                 " in its archive, the model reads it as " + stored);
      if ((item.transposed || item.format) && (*entry)->shape.size() != 2)
        return createStringError("tensor '" + key.getValue() + "' is " + typeText((*entry)->dtype, (*entry)->shape) +
                                 " in its archive, the model reads a matrix");
      item.name += (item.name.empty() ? "" : "+") + key.getValue().str();
      item.parts.push_back(*entry);
      bytes += elementsOf(item, item.parts.size() - 1) * item.elementBytes;
      if (blocks && !item.format)
        decoded[blocks->name].insert(*entry);
    }
    if (item.mxfp4) // bf16 for four bits each; a byte of scale for each block
      bytes = item.parts[1]->bytes() * mxfp4Block * 2 == wanted ? item.parts[0]->bytes() * 4 : 0;
    if (bytes != wanted)
      return createStringError("tensor '" + item.name + "' is " +
                               typeText(item.parts.front()->dtype, item.parts.front()->shape) +
                               (item.parts.size() > 1 ? " and more" : "") + " in its archive, the model reads " +
                               typeText(item.dtype, type.getShape()) + "; are the weights from another model?");
  }
  if (item.transposed)
    item.name += ".transposed";
  if (constant.getStrides() || item.mxfp4) {
    item.name += item.mxfp4 ? ".decoded" : ".reordered";
    SmallVector<int64_t> inOrder = computeSuffixProduct(type.getShape());
    ArrayRef<int64_t> strides = constant.getStrides().value_or(ArrayRef<int64_t>(inOrder));
    item.strides.assign(strides.begin(), strides.end());
    item.shape.assign(type.getShape().begin(), type.getShape().end());
    item.columns = item.shape.back();
    // Rows are read from blocks, or from one of several tensors.
    int64_t unit = std::max<int64_t>(item.mxfp4 ? mxfp4Block : item.parts.size() > 1 ? item.columns : 1, 1);
    auto isWhole = [&](int64_t elements) { return elements % unit == 0; };
    bool areWhole = isWhole(item.columns) && strides.back() == 1 && llvm::all_of(strides.drop_back(), isWhole);
    for (const SafetensorsEntry *part : item.parts)
      areWhole &= item.mxfp4 || isWhole(part->bytes() / item.elementBytes);
    if (unit > 1 && !areWhole)
      return createStringError("constant '" + constant.getSymName() + "' has rows spread over blocks or tensors");
  }
  item.fileShape.assign(type.getShape().begin(), type.getShape().end());
  item.bytes = wanted;
  bool isMatrix = type.getRank() == 2;
  if (isMatrix) {
    item.rows = type.getDimSize(0);
    item.columns = type.getDimSize(1);
  }
  item.matrixRows = item.rows;
  if (constant.getLayout().getKind() == rt::LayoutKind::Panels) {
    item.panelWidth = constant.getLayout().getWidth();
    item.name += ".panels" + std::to_string(item.panelWidth);
    ArrayRef<int64_t> leading = type.getShape().drop_back(2);
    int64_t matrices = ShapedType::getNumElements(leading);
    item.columns = type.getShape().back();
    item.matrixRows = type.getShape().drop_back().back();
    item.rows = matrices * item.matrixRows;
    int64_t panels = llvm::divideCeil(item.matrixRows, item.panelWidth);
    item.fileShape.assign(leading.begin(), leading.end());
    llvm::append_values(item.fileShape, panels, item.columns, item.panelWidth);
    item.bytes = uint64_t(matrices) * panels * item.columns * item.panelWidth * item.elementBytes;
  }
  if (auto format = item.format) {
    if (constant.getLayout().getFormat()) {
      auto panels = BlockPanels::of(format, item.columns);
      if (!panels || item.panelWidth != BlockPanels::rows)
        return createStringError("constant '" + constant.getSymName() + "': no panels hold its format");
      item.isCoded = true;
      item.name += "." + nameOf(format);
      item.dtype = "U8";
      item.elementBytes = 1;
      item.fileShape = {int64_t(llvm::divideCeil(item.rows, item.panelWidth)), panels->panelBytes()};
      item.bytes = uint64_t(item.fileShape[0]) * item.fileShape[1];
    }
    if (format.hasTensorScale())
      if (llvm::Error error = findTensorScales(item))
        return error;
  }
  if (item.transposed && !isMatrix)
    return createStringError("constant '" + constant.getSymName() + "' is transposed, which needs a matrix, and is " +
                             typeText(item.dtype, type.getShape()) +
                             "; reshape the weight where it is used, not where it is stored");
  if ((item.panelWidth || item.transposed) && item.columns && item.strides.empty()) {
    for (auto [number, part] : llvm::enumerate(item.parts))
      if (elementsOf(item, number) % item.columns || (item.transposed && part->shape[0] != item.columns))
        return createStringError("tensor '" + part->name + "' is " + typeText(part->dtype, part->shape) +
                                 " in its archive, the model reads rows of " + Twine(item.columns));
  }
  std::string name = item.name;
  for (unsigned count = 2; !names.insert(item.name).second; ++count)
    item.name = name + "." + std::to_string(count);
  items.push_back(std::move(item));
  return llvm::Error::success();
}

/// Places the items and returns the file's first bytes: the header's length and the header. A reader of safetensors may
/// ask for tensors without gaps, so gaps are tensors too.
std::string WeightPacker::State::header(llvm::StringRef owner, std::vector<Item> &padding) {
  uint64_t offset = 0;
  for (Item &item : items) {
    item.begin = offset;
    offset += item.bytes;
    if (uint64_t gap = llvm::offsetToAlignment(offset, llvm::Align(ITX_BUFFER_ALIGNMENT))) {
      Item filler;
      filler.name = "padding." + std::to_string(padding.size());
      filler.dtype = "U8";
      filler.fileShape = {int64_t(gap)};
      filler.data.resize(gap);
      filler.bytes = gap;
      filler.begin = offset;
      padding.push_back(std::move(filler));
      offset += gap;
    }
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  json.object([&] {
    json.attributeObject("__metadata__", [&] {
      json.attribute(producerKey, producerValue);
      if (!owner.empty())
        json.attribute(ownerKey, llvm::json::fixUTF8(owner));
    });
    for (const std::vector<Item> *list : {&items, &padding}) {
      for (const Item &item : *list) {
        json.attributeObject(item.name, [&] {
          json.attribute("dtype", item.dtype);
          json.attributeArray("shape", [&] {
            for (int64_t size : item.fileShape)
              json.value(size);
          });
          json.attributeArray("data_offsets", [&] {
            json.value(item.begin);
            json.value(item.begin + item.bytes);
          });
        });
      }
    }
  });
  text.append(llvm::offsetToAlignment(text.size() + 8, llvm::Align(ITX_BUFFER_ALIGNMENT)), ' ');
  uint64_t length = text.size();
  std::string result(8, '\0');
  for (unsigned byte = 0; byte < 8; ++byte)
    result[byte] = char(length >> (8 * byte));
  return result + text;
}

WeightPacker::WeightPacker() = default;
WeightPacker::WeightPacker(WeightPacker &&) = default;
WeightPacker::~WeightPacker() = default;
bool WeightPacker::empty() const { return state->items.empty(); }

llvm::Expected<WeightPacker> WeightPacker::create(ModuleOp module, StringRef archiveDirectory) {
  WeightPacker packer;
  packer.state = std::make_unique<State>(module, archiveDirectory);
  for (auto constant : module.getOps<rt::ConstantOp>())
    if (llvm::Error error = packer.state->add(constant))
      return error;
  std::string decoded;
  size_t count = 0;
  for (const auto &[type, tensors] : packer.state->decoded) {
    decoded += (count ? ", " : "") + std::to_string(tensors.size()) + " " + std::string(type);
    count += tensors.size();
  }
  if (count)
    emitRemark(module.getLoc()) << count << (count == 1 ? " tensor is" : " tensors are")
                                << " stored decoded to f32, which no kernel reads as blocks: " << decoded;
  return packer;
}

llvm::Expected<PackedWeights> WeightPacker::write(const std::string &path, llvm::StringRef owner, unsigned threads) {
  PackedWeights result;
  for (const Item &item : state->items)
    result.tensors.push_back(item.name);
  std::vector<Item> padding;
  std::string header = state->header(owner, padding);

  std::vector<const Item *> placed;
  for (const Item &item : state->items)
    placed.push_back(&item);
  for (const Item &item : padding)
    placed.push_back(&item);
  llvm::stable_sort(placed, [](const Item *a, const Item *b) { return a->begin < b->begin; });
  std::vector<Unit> units;
  uint64_t dataBytes = 0;
  for (const Item *item : placed) {
    uint64_t stepBytes = 1, steps = item->bytes; // bytes, rows or panels: what a unit is counted in
    if (item->panelWidth || item->isReordered() || item->format) {
      stepBytes = item->isCoded ? item->fileShape[1]
                                : (item->panelWidth ? item->panelWidth : 1) * item->columns * item->elementBytes;
      steps = stepBytes ? item->bytes / stepBytes : 0;
    }
    if (steps * stepBytes != item->bytes)
      return createStringError("tensor '" + item->name + "': its panels or rows are " + Twine(steps * stepBytes) +
                               " bytes, its place in the packed weights is " + Twine(item->bytes));
    uint64_t stride = std::max<uint64_t>(1, unitBytes / std::max<uint64_t>(stepBytes, 1));
    for (uint64_t first = 0; first < steps; first += stride) {
      uint64_t last = std::min(steps, first + stride);
      units.push_back({item, first, last, header.size() + item->begin + first * stepBytes, (last - first) * stepBytes});
    }
    dataBytes = item->begin + item->bytes;
  }
  result.bytes = header.size() + dataBytes;
  result.headerHash = runtime::hashTextOf(header.data(), header.size());

  int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  auto failed = [&](int code) {
    return createStringError(path + ": cannot write the packed weights (" + Twine(result.bytes) +
                             " bytes): " + llvm::sys::StrError(code));
  };
  if (file < 0)
    return failed(errno);
  std::atomic<int> errorCode = 0;
  auto store = [&](StringRef bytes, uint64_t offset) {
    while (!bytes.empty() && !errorCode) {
      ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
      if (written < 0 && errno != EINTR)
        errorCode = errno;
      if (written > 0) {
        bytes = bytes.drop_front(written);
        offset += written;
      }
    }
  };
  if (::ftruncate(file, result.bytes) != 0)
    errorCode = errno;
  store(header, 0);
  runtime::Hasher hasher;
  hasher.update(header.data(), header.size());

  // Units are made in any order and hashed in the order of the file.
  std::atomic<size_t> next = 0;
  size_t hashed = 0;
  std::mutex mutex;
  std::condition_variable turn;
  std::string problem; // of a number that has no code
  auto work = [&] {
    std::vector<char> buffer;
    for (size_t number; (number = next++) < units.size();) {
      const Unit &unit = units[number];
      const Item &item = *unit.item;
      StringRef bytes;
      if (item.format) {
        if (std::string wrong = makeRounded(unit, buffer); !wrong.empty()) {
          std::lock_guard lock(mutex);
          if (problem.empty())
            problem = wrong;
        }
      } else if (!item.blocks.empty())
        makeDecoded(unit, buffer);
      else if (item.panelWidth)
        withElement<Panels>(item.elementBytes, unit, buffer);
      else if (item.isReordered())
        withElement<ReorderedRows>(item.elementBytes, unit, buffer);
      bool isMade = item.panelWidth || item.isReordered() || item.format || !item.blocks.empty();
      bytes = isMade ? StringRef(buffer.data(), buffer.size()) : copyBytes(unit, buffer);
      if (!isZero(bytes))
        store(bytes, unit.fileOffset);
      {
        std::unique_lock lock(mutex);
        turn.wait(lock, [&] { return hashed == number; });
        hasher.update(bytes.data(), bytes.size());
        ++hashed;
      }
      turn.notify_all();
      if (item.parts.empty() || item.dataEntry || item.isReordered() || !item.blocks.empty())
        continue; // nothing mapped, or read across, or dropped already
      // What this unit read of the sources: rows of panels, rows or bytes.
      uint64_t rowBytes = item.columns * sourceBytes(item), partBegin = 0;
      auto bytesBefore = [&](uint64_t step) {
        return item.panelWidth ? rowsBefore(item, step) * rowBytes : item.format ? step * rowBytes : step;
      };
      uint64_t firstRead = bytesBefore(unit.first), lastRead = bytesBefore(unit.last);
      for (const SafetensorsEntry *part : item.parts) {
        uint64_t partEnd = partBegin + part->bytes();
        uint64_t begin = std::max(firstRead, partBegin), end = std::min(lastRead, partEnd);
        if (begin < end)
          dropPages(static_cast<const char *>(part->data) + (begin - partBegin), end - begin);
        partBegin = partEnd;
      }
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::min<size_t>(threads, units.size()); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (::close(file) != 0 && !errorCode)
    errorCode = errno;
  if (!problem.empty())
    return createStringError(problem);
  if (errorCode)
    return failed(errorCode);
  result.hash = runtime::hashText(hasher.finish());
  return result;
}

} // namespace intarsia::assemble
