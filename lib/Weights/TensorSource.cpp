//===- TensorSource.cpp - Tensors of a recipe, read a run at a time -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/TensorSource.h"

#include "lib/Formats/DecodeBlocks.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Weights/WeightItem.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using llvm::ArrayRef;
using llvm::createStringError;
using llvm::Expected;
using llvm::MutableArrayRef;

namespace intarsia::weights {
namespace {

/// Memory of a row on the stack, if the row is short.
template <typename T> using RowBuffer = llvm::SmallVector<T, 2048>;

/// An element of an archive, where a tensor may begin at any byte.
template <typename T> struct __attribute__((packed, may_alias)) Loose {
  T value;
};
template <typename T> const Loose<T> *looseElements(const void *data) { return static_cast<const Loose<T> *>(data); }

template <typename T> void gather(StoredRun run, int64_t count, char *to) {
  const Loose<T> *from = looseElements<T>(run.data);
  auto *target = reinterpret_cast<Loose<T> *>(to);
  for (int64_t i = 0; i < count; ++i)
    target[i].value = from[i * run.stride].value;
}

template <typename T> void widen(StoredRun run, MutableArrayRef<float> to) {
  const Loose<T> *from = looseElements<T>(run.data);
  for (size_t i = 0; i < to.size(); ++i, from += run.stride) {
    if constexpr (std::is_same_v<T, uint16_t>) // bf16
      to[i] = decodeBf16(from->value);
    else
      to[i] = float(from->value);
  }
}

/// Makes elements of rows that are made as a whole, as F32 or BF16.
Expected<StoredRun> readByRows(const TensorSource &source, Run run, char *scratch,
                               llvm::function_ref<llvm::Error(int64_t first, MutableArrayRef<float>)> makeRow) {
  if (run.stride != 1)
    return createStringError("a quantized tensor is read by its columns, which the packer cannot do");
  int64_t columns = source.granule();
  RowBuffer<float> row;
  row.resize_for_overwrite(columns);
  for (int64_t done = 0; done < run.count;) {
    int64_t skipped = (run.first + done) % columns, count = std::min(run.count - done, columns - skipped);
    if (llvm::Error error = makeRow(run.first + done - skipped, row))
      return std::move(error);
    char *to = scratch + done * source.elementBytes();
    if (source.dtype() == "F32")
      std::memcpy(to, row.data() + skipped, count * sizeof(float));
    else
      for (int64_t i = 0; i < count; ++i)
        reinterpret_cast<Loose<uint16_t> *>(to)[i].value = encodeBf16(row[skipped + i]);
    done += count;
  }
  return StoredRun{scratch};
}

} // namespace

void gatherElements(StoredRun run, int64_t count, unsigned elementBytes, char *to) {
  if (run.stride == 1) {
    if (run.data != to)
      std::memcpy(to, run.data, count * elementBytes);
    return;
  }
  switch (elementBytes) {
  case 1:
    return gather<uint8_t>(run, count, to);
  case 2:
    return gather<uint16_t>(run, count, to);
  case 4:
    return gather<uint32_t>(run, count, to);
  default:
    return gather<uint64_t>(run, count, to);
  }
}

std::string Origin::indices() const {
  std::vector<int64_t> result;
  int64_t rest = element;
  for (int64_t size : llvm::reverse(shape)) {
    result.insert(result.begin(), rest % size);
    rest /= size;
  }
  return shapeText(result);
}

//===-- TensorSource --------------------------------------------------------------------------------------------===//

TensorSource::TensorSource(std::vector<int64_t> shape, llvm::StringRef dtype, unsigned elementBytes)
    : sizes(std::move(shape)), elementType(dtype), bytesOfElement(elementBytes),
      count(ShapedType::getNumElements(sizes)) {}

llvm::Error TensorSource::readFloats(Run run, MutableArrayRef<float> values) const {
  RowBuffer<char> scratch;
  char *memory = reinterpret_cast<char *>(values.data());
  if (dtype() != "F32") {
    scratch.resize_for_overwrite(run.count * elementBytes());
    memory = scratch.data();
  }
  Expected<StoredRun> stored = read(run, memory);
  if (!stored)
    return stored.takeError();
  if (dtype() == "F32")
    gatherElements(*stored, run.count, sizeof(float), memory);
  else if (dtype() == "BF16")
    widen<uint16_t>(*stored, values);
  else
    widen<_Float16>(*stored, values);
  return llvm::Error::success();
}

llvm::Error TensorSource::storeQuantized(int64_t first, int64_t, const QuantizedTarget &) const {
  Origin origin = originOf(first);
  return createStringError("tensor '" + origin.tensor->name +
                           "' is stored as quantized values, which it does not have");
}

//===-- Tensors of archives and constants -----------------------------------------------------------------------===//

Expected<StoredRun> StoredTensor::read(Run run, char *) const {
  return StoredRun{static_cast<const char *>(tensor->data) + run.first * elementBytes(), run.stride};
}

void StoredTensor::drop(int64_t first, int64_t count) const {
  dropPages(static_cast<const char *>(tensor->data) + first * elementBytes(), count * elementBytes());
}

Expected<StoredRun> PackedTensor::read(Run run, char *scratch) const {
  const auto *bytes = static_cast<const uint8_t *>(tensor->data);
  if (run.stride == 1 && run.first % 2 == 0 && run.count % 2 == 0) {
    bytes += run.first / 2;
    for (int64_t i = 0; i < run.count / 2; ++i) {
      scratch[2 * i] = char(bytes[i] & 15);
      scratch[2 * i + 1] = char(bytes[i] >> 4);
    }
    return StoredRun{scratch};
  }
  for (int64_t i = 0, at = run.first; i < run.count; ++i, at += run.stride)
    scratch[i] = char(bytes[at / 2] >> (at % 2 * 4) & 15);
  return StoredRun{scratch};
}

void PackedTensor::drop(int64_t first, int64_t count) const {
  dropPages(static_cast<const char *>(tensor->data) + first / 2, count / 2);
}

ConstantTensor::ConstantTensor(std::string name, std::vector<int64_t> shape, llvm::StringRef dtype,
                               unsigned elementBytes, std::vector<char> data)
    : StoredTensor(&entry, shape, dtype, elementBytes), bytes(std::move(data)) {
  entry.name = std::move(name);
  entry.dtype = dtype.str();
  entry.shape = std::move(shape);
  entry.end = bytes.size();
  entry.data = bytes.data();
}

//===-- Concatenation and transposition -------------------------------------------------------------------------===//

ConcatenatedTensor::ConcatenatedTensor(std::vector<SharedSource> parts, std::vector<int64_t> shape)
    : TensorSource(std::move(shape), parts.front()->dtype(), parts.front()->elementBytes()), parts(std::move(parts)) {}

const TensorSource &ConcatenatedTensor::partOf(int64_t &element) const {
  auto part = parts.begin();
  for (; part + 1 != parts.end() && element >= (*part)->elements(); ++part)
    element -= (*part)->elements();
  return **part;
}

Expected<StoredRun> ConcatenatedTensor::read(Run run, char *scratch) const {
  for (int64_t done = 0; done < run.count;) {
    int64_t first = run.first + done * run.stride;
    const TensorSource &part = partOf(first);
    int64_t inPart = llvm::divideCeil(part.elements() - first, run.stride), count = std::min(run.count - done, inPart);
    Expected<StoredRun> stored = part.read({first, count, run.stride}, scratch + done * elementBytes());
    if (!stored || count == run.count)
      return stored;
    gatherElements(*stored, count, elementBytes(), scratch + done * elementBytes());
    done += count;
  }
  return StoredRun{scratch};
}

int64_t ConcatenatedTensor::granule() const {
  int64_t largest = 1;
  for (const SharedSource &part : parts)
    largest = std::max(largest, part->granule());
  return largest;
}

llvm::Error ConcatenatedTensor::storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const {
  const TensorSource &part = partOf(first);
  return part.storeQuantized(first, columns, target);
}

Origin ConcatenatedTensor::originOf(int64_t element) const {
  const TensorSource &part = partOf(element);
  return part.originOf(element);
}

void ConcatenatedTensor::drop(int64_t first, int64_t count) const {
  int64_t begin = 0;
  for (const SharedSource &part : parts) {
    int64_t from = std::max(first, begin), to = std::min(first + count, begin + part->elements());
    if (from < to)
      part->drop(from - begin, to - from);
    begin += part->elements();
  }
}

SlicedTensor::SlicedTensor(SharedSource source, int64_t dimension, int64_t offset, std::vector<int64_t> shape,
                           int64_t blockElements)
    : TensorSource(std::move(shape), source->dtype(), source->elementBytes()), input(std::move(source)),
      cutsRows(dimension + 1 == int64_t(this->shape().size())), blockElements(blockElements) {
  ArrayRef<int64_t> behind = ArrayRef(this->shape()).drop_front(dimension + 1);
  int64_t inner = ShapedType::getNumElements(behind);
  run = std::max<int64_t>(1, this->shape()[dimension] * inner);
  inputRun = input->shape()[dimension] * inner;
  begin = offset * inner;
}

Expected<StoredRun> SlicedTensor::read(Run wanted, char *scratch) const {
  for (int64_t done = 0; done < wanted.count;) {
    int64_t first = wanted.first + done * wanted.stride;
    int64_t inRun = llvm::divideCeil(run - first % run, wanted.stride), count = std::min(wanted.count - done, inRun);
    Expected<StoredRun> stored =
        input->read({inputElement(first), count, wanted.stride}, scratch + done * elementBytes());
    if (!stored || count == wanted.count)
      return stored;
    gatherElements(*stored, count, elementBytes(), scratch + done * elementBytes());
    done += count;
  }
  return StoredRun{scratch};
}

int64_t SlicedTensor::granule() const {
  return cutsRows && input->granule() > 1 ? std::max<int64_t>(1, shape().back()) : input->granule();
}

namespace {
/// Stores those values of a row that a slice has.
class StorageOfSlice : public TensorStorage {
public:
  StorageOfSlice(const TensorStorage &storage, int64_t begin, int64_t columns, int64_t blockElements)
      : storage(storage), begin(begin), columns(columns), block(blockElements) {}

  Rows rowsOf(int64_t piece) const override { return storage.rowsOf(piece); }
  void storeRows(ArrayRef<StoredRun> rows, char *piece) const override { storage.storeRows(rows, piece); }
  void storeQuantized(ArrayRef<uint8_t> values, ArrayRef<uint8_t> scales, float tensorScale, int64_t row,
                      char *piece) const override {
    if (block != 0) {
      size_t scaleBytes = scales.size() / llvm::divideCeil(values.size(), block);
      scales = scales.slice(begin / block * scaleBytes, llvm::divideCeil(columns, block) * scaleBytes);
    }
    storage.storeQuantized(values.slice(begin, columns), scales, tensorScale, row, piece);
  }
  void storeBlock(const gguf::BlockParts &parts, int64_t number, int64_t row, char *piece) const override {
    int64_t first = begin / block, last = first + llvm::divideCeil(columns, block);
    if (number >= first && number < last)
      storage.storeBlock(parts, number - first, row, piece);
  }

private:
  const TensorStorage &storage;
  int64_t begin, columns, block;
};
} // namespace

llvm::Error SlicedTensor::storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const {
  if (!cutsRows)
    return input->storeQuantized(inputElement(first), columns, target);
  StorageOfSlice part(target.storage, begin, columns, blockElements);
  return input->storeQuantized(first / run * inputRun, inputRun, {part, target.row, target.piece});
}

void SlicedTensor::drop(int64_t first, int64_t count) const {
  if (count > 0 && first / run == (first + count - 1) / run)
    input->drop(inputElement(first), count);
}

static std::vector<int64_t> permuted(ArrayRef<int64_t> sizes, ArrayRef<int64_t> permutation) {
  std::vector<int64_t> result;
  for (int64_t dimension : permutation)
    result.push_back(sizes[dimension]);
  return result;
}

TransposedTensor::TransposedTensor(SharedSource source, ArrayRef<int64_t> permutation)
    : TensorSource(permuted(source->shape(), permutation), source->dtype(), source->elementBytes()),
      input(std::move(source)) {
  strides = permuted(computeSuffixProduct(ArrayRef<int64_t>(input->shape())), permutation);
}

int64_t TransposedTensor::inputElement(int64_t element) const {
  int64_t result = 0;
  for (size_t dimension = shape().size(); dimension-- > 0; element /= shape()[dimension])
    result += element % shape()[dimension] * strides[dimension];
  return result;
}

Expected<StoredRun> TransposedTensor::read(Run run, char *scratch) const {
  int64_t columns = granule();
  for (int64_t done = 0; done < run.count;) {
    int64_t first = run.first + done * run.stride, inRow = llvm::divideCeil(columns - first % columns, run.stride);
    int64_t count = std::min(run.count - done, inRow);
    Expected<StoredRun> stored =
        input->read({inputElement(first), count, run.stride * strides.back()}, scratch + done * elementBytes());
    if (!stored || count == run.count)
      return stored;
    gatherElements(*stored, count, elementBytes(), scratch + done * elementBytes());
    done += count;
  }
  return StoredRun{scratch};
}

//===-- Quantized values ----------------------------------------------------------------------------------------===//

Expected<StoredRun> DequantizedBlocks::read(Run run, char *scratch) const {
  if (run.stride != 1)
    return createStringError("a tensor of " + llvm::StringRef(type.name) +
                             " is read by its columns, which the packer cannot do");
  if (!run.count)
    return StoredRun{scratch};
  int64_t first = byteOf(run.first), last = byteOf(run.first + run.count - 1) + type.bytes;
  RowBuffer<char> memory; // for blocks that do not lie in one piece
  memory.resize_for_overwrite(last - first);
  Expected<StoredRun> stored = blocks->read({first, last - first}, memory.data());
  if (stored) {
    gguf::decodeElements(type, stored->data, run.first % type.elements, run.count, reinterpret_cast<float *>(scratch));
    stored->data = scratch;
  }
  return stored;
}

llvm::Error DequantizedBlocks::storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const {
  RowBuffer<char> memory;
  memory.resize_for_overwrite(byteOf(columns));
  Expected<StoredRun> stored = blocks->read({byteOf(first), byteOf(columns)}, memory.data());
  if (!stored)
    return stored.takeError();
  gguf::TakeApart takeApart = gguf::partsOf(type);
  gguf::BlockParts parts;
  auto *block = reinterpret_cast<const uint8_t *>(stored->data);
  for (int64_t number = 0; number < columns / type.elements; ++number, block += type.bytes) {
    takeApart(block, parts);
    constexpr uint16_t exponent = 0x7c00; // exponent bits of f16, all set in NaN and infinity
    bool isE8M0 = type.name == "MXFP4";
    if (isE8M0 ? parts.scale == 255 : (parts.scale & exponent) == exponent || (parts.minimum & exponent) == exponent) {
      Origin origin = originOf(first);
      return createStringError(llvm::formatv(
          "tensor '{0}' has a block in row {1} whose scale{2}, so that its values are not finite; are the weights "
          "damaged?",
          origin.tensor->name, origin.element / columns, isE8M0 ? " is 255" : " or minimum is NaN or infinite"));
    }
    target.storage.storeBlock(parts, number, target.row, target.piece);
  }
  return llvm::Error::success();
}

Origin DequantizedBlocks::originOf(int64_t element) const {
  Origin origin = blocks->originOf(byteOf(element));
  if (!origin.shape.empty())
    origin.shape.back() = origin.shape.back() / type.bytes * type.elements;
  origin.element = origin.element / type.bytes * type.elements + element % type.elements;
  return origin;
}

void DequantizedBlocks::drop(int64_t first, int64_t count) const {
  blocks->drop(byteOf(first), byteOf(first + count) - byteOf(first));
}

DequantizedTensor::DequantizedTensor(SharedSource values, SharedSource scales, nn::BlockFormatAttr format,
                                     llvm::StringRef dtype)
    : TensorSource(values->shape(), dtype, dtype == "F32" ? 4 : 2), values(std::move(values)),
      scales(std::move(scales)), codec(format) {}

Expected<StoredRun> DequantizedTensor::read(Run run, char *scratch) const {
  int64_t columns = granule(), blocks = codec.blockCount(columns);
  RowBuffer<char> memory, scaleMemory;
  memory.resize_for_overwrite(columns);
  scaleMemory.resize_for_overwrite(blocks * codec.scaleBytes());
  return readByRows(*this, run, scratch, [&](int64_t first, MutableArrayRef<float> row) -> llvm::Error {
    Expected<StoredRun> rowValues = values->read({first, columns}, memory.data());
    if (!rowValues)
      return rowValues.takeError();
    Expected<StoredRun> rowScales = scales->read({first / columns * blocks, blocks}, scaleMemory.data());
    if (!rowScales)
      return rowScales.takeError();
    codec.decodeRow({reinterpret_cast<const uint8_t *>(rowValues->data), size_t(columns)},
                    {reinterpret_cast<const uint8_t *>(rowScales->data), size_t(blocks) * codec.scaleBytes()},
                    /*zeroPoints=*/{}, /*tensorScale=*/1.0f, row);
    return llvm::Error::success();
  });
}

llvm::Error DequantizedTensor::storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const {
  int64_t blocks = codec.blockCount(columns), row = first / columns;
  RowBuffer<char> memory, scaleMemory;
  memory.resize_for_overwrite(columns);
  scaleMemory.resize_for_overwrite(blocks * codec.scaleBytes());
  Expected<StoredRun> rowValues = values->read({first, columns}, memory.data());
  if (!rowValues)
    return rowValues.takeError();
  Expected<StoredRun> rowScales = scales->read({row * blocks, blocks}, scaleMemory.data());
  if (!rowScales)
    return rowScales.takeError();
  ArrayRef bytes(reinterpret_cast<const uint8_t *>(rowScales->data), blocks * codec.scaleBytes());
  if (codec.scaleBytes() == 1 && llvm::is_contained(bytes, 255))
    return createStringError(
        llvm::formatv("tensor '{0}' has a scale 255 (NaN in MXFP4) for row {1} of '{2}'; are the weights damaged?",
                      scales->originOf(row * blocks).tensor->name, row, values->originOf(first).tensor->name));
  target.storage.storeQuantized({reinterpret_cast<const uint8_t *>(rowValues->data), size_t(columns)}, bytes,
                                /*tensorScale=*/1.0f, target.row, target.piece);
  return llvm::Error::success();
}

void DequantizedTensor::drop(int64_t first, int64_t count) const {
  int64_t columns = granule(), blocks = codec.blockCount(columns);
  values->drop(first, count);
  scales->drop(first / columns * blocks, count / columns * blocks);
}

QuantizedTensor::QuantizedTensor(SharedSource source, nn::BlockFormatAttr format, bool withZeroPoints)
    : TensorSource(source->shape(), "F32", sizeof(float)), input(std::move(source)), format(format),
      codec(format, withZeroPoints) {}

Expected<SharedSource> QuantizedTensor::create(SharedSource input, nn::BlockFormatAttr format, bool withZeroPoints) {
  std::shared_ptr<QuantizedTensor> source(new QuantizedTensor(std::move(input), format, withZeroPoints));
  if (format.hasTensorScale())
    if (llvm::Error error = source->findTensorScales())
      return std::move(error);
  return source;
}

llvm::Error QuantizedTensor::findTensorScales() {
  std::vector<float> row(granule());
  for (int64_t first = 0; first < elements(); first += granule()) {
    if (llvm::Error error = input->readFloats({first, granule()}, row))
      return error;
    float magnitude = BlockCodec::largestMagnitude(row);
    if (!std::isfinite(magnitude)) {
      auto wrong = llvm::find_if(row, [](float x) { return !std::isfinite(x); });
      return notQuantizable(first + (wrong - row.begin()), *wrong);
    }
    float &largest = tensorScales[originOf(first).tensor];
    largest = std::max(largest, magnitude);
  }
  for (auto &[tensor, scale] : tensorScales)
    scale = BlockCodec::tensorScaleOf(scale);
  return llvm::Error::success();
}

llvm::Error QuantizedTensor::notQuantizable(int64_t element, float value) const {
  Origin origin = originOf(element);
  return createStringError(llvm::formatv(
      "tensor '{0}' has {1} at {2}, which {3} cannot represent; leave the tensor as it is or mend the weights",
      origin.tensor->name, value, origin.indices(), format.getName()));
}

float QuantizedTensor::tensorScaleOf(int64_t element) const {
  return tensorScales.empty() ? 1.0f : tensorScales.at(originOf(element).tensor);
}

Expected<StoredRun> QuantizedTensor::read(Run run, char *scratch) const {
  int64_t columns = granule();
  RowBuffer<uint8_t> values, scales, zeroPoints;
  values.resize_for_overwrite(columns);
  scales.resize_for_overwrite(codec.blockCount(columns) * codec.scaleBytes());
  zeroPoints.resize_for_overwrite(codec.zeroPointCount(columns));
  return readByRows(*this, run, scratch, [&](int64_t first, MutableArrayRef<float> row) -> llvm::Error {
    float tensorScale = tensorScaleOf(first);
    if (llvm::Error error = input->readFloats({first, columns}, row))
      return error;
    if (std::optional<size_t> wrong = codec.encodeRow(row, tensorScale, values, scales, zeroPoints))
      return notQuantizable(first + *wrong, row[*wrong]);
    codec.decodeRow(values, scales, zeroPoints, tensorScale, row);
    return llvm::Error::success();
  });
}

llvm::Error QuantizedTensor::storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const {
  RowBuffer<float> row;
  RowBuffer<uint8_t> values, scales;
  row.resize_for_overwrite(columns);
  values.resize_for_overwrite(columns);
  size_t scaleBytes = codec.blockCount(columns) * codec.scaleBytes();
  scales.resize_for_overwrite(scaleBytes + codec.zeroPointCount(columns));
  MutableArrayRef<uint8_t> all(scales);
  float tensorScale = tensorScaleOf(first);
  if (llvm::Error error = input->readFloats({first, columns}, row))
    return error;
  if (std::optional<size_t> wrong =
          codec.encodeRow(row, tensorScale, values, all.take_front(scaleBytes), all.drop_front(scaleBytes)))
    return notQuantizable(first + *wrong, row[*wrong]);
  target.storage.storeQuantized(values, scales, tensorScale, target.row, target.piece);
  return llvm::Error::success();
}

} // namespace intarsia::weights
