//===- TensorSource.h - Tensors of a recipe, read a run at a time -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The packer interprets the recipe of an rt.constant as a tree: each op is a source, which reads the elements that it
// is asked for from the sources of its operands. Nothing is larger in memory than the run that is read. Sources do not
// change while they are read, so that several threads may read one.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_TENSORSOURCE_H
#define INTARSIA_LIB_WEIGHTS_TENSORSOURCE_H

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/TensorStorage.h"
#include "lib/Formats/GgmlTypes.h"
#include "lib/Formats/Safetensors.h"
#include "lib/Quantize/BlockCodec.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <vector>

namespace intarsia::weights {

using rt::QuantizedTarget;
using rt::StoredRun;
using rt::TensorStorage;

/// Elements of a tensor by their row-major index: `first`, `first + stride`, …
struct Run {
  int64_t first, count, stride = 1;
};

/// The tensor of an archive that has an element, and where it stands there: its index in a tensor of `shape`.
struct Origin {
  const ArchiveTensor *tensor;
  std::vector<int64_t> shape;
  int64_t element;

  /// Returns "[1, 2, 3]".
  std::string indices() const;
};

class TensorSource {
public:
  TensorSource(std::vector<int64_t> shape, llvm::StringRef dtype, unsigned elementBytes);
  virtual ~TensorSource() = default;

  const std::vector<int64_t> &shape() const { return sizes; }
  /// Name of the element type in the safetensors format. Values of 4 bits are "U4" and read as bytes.
  llvm::StringRef dtype() const { return elementType; }
  /// Bytes of an element as it is read.
  unsigned elementBytes() const { return bytesOfElement; }
  int64_t elements() const { return count; }

  /// Returns elements, which lie in the archive or in `scratch`: run.count elements that are written if needed. An
  /// error names a value that its format cannot hold.
  virtual llvm::Expected<StoredRun> read(Run run, char *scratch) const = 0;
  /// Reads elements of F32, F16 or BF16 as f32.
  llvm::Error readFloats(Run run, llvm::MutableArrayRef<float> values) const;
  /// Number of elements in a row of which none can be made without the others; 1 if each can be.
  virtual int64_t granule() const { return 1; }
  /// Stores the quantized values of a row that begins at an element. Only for sources whose rows are quantized.
  virtual llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const;
  virtual Origin originOf(int64_t element) const = 0;
  /// Says that elements are not read again.
  virtual void drop(int64_t first, int64_t count) const {}

private:
  std::vector<int64_t> sizes;
  llvm::StringRef elementType;
  unsigned bytesOfElement;
  int64_t count;
};

using SharedSource = std::shared_ptr<const TensorSource>;

/// A tensor as an archive, or the IR, holds it.
class StoredTensor : public TensorSource {
public:
  StoredTensor(const ArchiveTensor *tensor, std::vector<int64_t> shape, llvm::StringRef dtype, unsigned elementBytes)
      : TensorSource(std::move(shape), dtype, elementBytes), tensor(tensor) {}
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  Origin originOf(int64_t element) const override { return {tensor, shape(), element}; }
  void drop(int64_t first, int64_t count) const override;

protected:
  const ArchiveTensor *tensor;
};

/// A tensor in memory that stays.
class HeldTensor : public StoredTensor {
public:
  using StoredTensor::StoredTensor;
  void drop(int64_t, int64_t) const override {}
};

/// Values of 4 bits, two in a byte, the lower four bits first.
class PackedTensor : public StoredTensor {
public:
  PackedTensor(const ArchiveTensor *tensor, std::vector<int64_t> shape)
      : StoredTensor(tensor, std::move(shape), "U4", /*elementBytes=*/1) {}
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  void drop(int64_t first, int64_t count) const override;
};

/// Data that the IR holds.
class ConstantTensor : public StoredTensor {
public:
  ConstantTensor(std::string name, std::vector<int64_t> shape, llvm::StringRef dtype, unsigned elementBytes,
                 std::vector<char> data);
  void drop(int64_t, int64_t) const override {}

private:
  ArchiveTensor entry;
  std::vector<char> bytes;
};

/// The elements of another source in another shape.
class ReshapedTensor : public TensorSource {
public:
  ReshapedTensor(SharedSource input, std::vector<int64_t> shape)
      : TensorSource(std::move(shape), input->dtype(), input->elementBytes()), input(std::move(input)) {}
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override { return input->read(run, scratch); }
  int64_t granule() const override { return input->granule(); }
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override {
    return input->storeQuantized(first, columns, target);
  }
  Origin originOf(int64_t element) const override { return input->originOf(element); }
  void drop(int64_t first, int64_t count) const override { input->drop(first, count); }

private:
  SharedSource input;
};

/// Tensors one after another.
class ConcatenatedTensor : public TensorSource {
public:
  ConcatenatedTensor(std::vector<SharedSource> parts, std::vector<int64_t> shape);
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  int64_t granule() const override;
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override;
  Origin originOf(int64_t element) const override;
  void drop(int64_t first, int64_t count) const override;

private:
  /// Returns the part that holds an element, and makes the index one of that part.
  const TensorSource &partOf(int64_t &element) const;
  std::vector<SharedSource> parts;
};

/// A part of another source along one of its dimensions.
class SlicedTensor : public TensorSource {
public:
  /// Takes the elements from `offset` on of a dimension. `blockElements` is the number of elements that share a scale,
  /// if rows of the input are stored as quantized values; 0 if all of a row do.
  SlicedTensor(SharedSource input, int64_t dimension, int64_t offset, std::vector<int64_t> shape,
               int64_t blockElements);
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  int64_t granule() const override;
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override;
  Origin originOf(int64_t element) const override { return input->originOf(inputElement(element)); }
  void drop(int64_t first, int64_t count) const override;

private:
  int64_t inputElement(int64_t element) const { return element / run * inputRun + begin + element % run; }
  SharedSource input;
  bool cutsRows;                // the dimension is the last one
  int64_t run, inputRun, begin; // elements that lie side by side here, those of the input, where the first ones begin
  int64_t blockElements;
};

class TransposedTensor : public TensorSource {
public:
  TransposedTensor(SharedSource input, llvm::ArrayRef<int64_t> permutation);
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override {
    return input->storeQuantized(inputElement(first), columns, target);
  }
  /// Returns the indices in the archive.
  Origin originOf(int64_t element) const override { return input->originOf(inputElement(element)); }
  int64_t granule() const override { return std::max<int64_t>(1, shape().back()); }
  /// All columns share pages, so that these are dropped after the last ones.
  void drop(int64_t first, int64_t count) const override {
    if (first + count == elements())
      input->drop(0, input->elements());
  }

private:
  int64_t inputElement(int64_t element) const;
  SharedSource input;
  std::vector<int64_t> strides; // of the input's elements, by dimension of the result
};

/// Blocks of a type of ggml, dequantized to f32.
class DequantizedBlocks : public TensorSource {
public:
  DequantizedBlocks(SharedSource blocks, const GgmlType &type, std::vector<int64_t> shape)
      : TensorSource(std::move(shape), "F32", sizeof(float)), blocks(std::move(blocks)), type(type) {}
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override;
  Origin originOf(int64_t element) const override;
  void drop(int64_t first, int64_t count) const override;

private:
  int64_t byteOf(int64_t element) const { return element / type.elements * type.bytes; }
  SharedSource blocks;
  const GgmlType &type;
};

/// Quantized values and scales of two tensors, dequantized to f32 or bf16. Blocks are along the last dimension.
class DequantizedTensor : public TensorSource {
public:
  DequantizedTensor(SharedSource values, SharedSource scales, nn::BlockFormatAttr format, llvm::StringRef dtype);
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override;
  Origin originOf(int64_t element) const override { return values->originOf(element); }
  int64_t granule() const override { return std::max<int64_t>(1, shape().back()); }
  void drop(int64_t first, int64_t count) const override;

private:
  SharedSource values, scales;
  BlockCodec codec;
};

/// Rows that are quantized to a format, and dequantized where they are read as values.
class QuantizedTensor : public TensorSource {
public:
  /// Reads all of the input if the format has a scale for each tensor. An error names a value without one.
  static llvm::Expected<SharedSource> create(SharedSource input, nn::BlockFormatAttr format, bool withZeroPoints);
  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override;
  int64_t granule() const override { return std::max<int64_t>(1, shape().back()); }
  Origin originOf(int64_t element) const override { return input->originOf(element); }
  void drop(int64_t first, int64_t count) const override { input->drop(first, count); }

private:
  QuantizedTensor(SharedSource input, nn::BlockFormatAttr format, bool withZeroPoints);
  llvm::Error findTensorScales();
  llvm::Error notQuantizable(int64_t element, float value) const;
  float tensorScaleOf(int64_t element) const;

  SharedSource input;
  nn::BlockFormatAttr format;
  BlockCodec codec;
  std::map<const ArchiveTensor *, float> tensorScales; // of each tensor of an archive, if the format has one
};

} // namespace intarsia::weights

#endif
