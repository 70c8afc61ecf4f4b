//===- ArchiveMatrix.h - Quantized matrices of other tools, read row by row ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_ARCHIVEMATRIX_H
#define INTARSIA_LIB_WEIGHTS_ARCHIVEMATRIX_H

#include "lib/Weights/TensorSource.h"
#include <array>

namespace intarsia::weights {

/// A matrix that another tool quantized (#nn.archive_format), dequantized to f32, or stored in the block format that
/// keeps its values.
class ArchiveMatrix : public TensorSource {
public:
  /// The tensors of the archive; null where the matrix has none.
  struct Parts {
    SharedSource values, scales, zeroPoints, tensorScale, groupIndices, codebook;
  };
  /// Reads the scale of the tensor, the group indices and the codebook. An error names a value that has no meaning.
  static llvm::Expected<SharedSource> create(Parts parts, nn::ArchiveFormatAttr format, std::vector<int64_t> shape);

  llvm::Expected<StoredRun> read(Run run, char *scratch) const override;
  llvm::Error storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const override;
  /// Returns the word that holds an element.
  Origin originOf(int64_t element) const override;
  int64_t granule() const override { return inputs; }
  void drop(int64_t first, int64_t count) const override;

private:
  ArchiveMatrix(Parts parts, nn::ArchiveFormatAttr format, std::vector<int64_t> shape);
  llvm::Error readTensorScale();
  llvm::Error readGroupIndices();
  llvm::Error readCodebook();
  /// Computes the scale of floats that are rounded to ternary values.
  llvm::Error computeScale();

  /// Contents of a part of a row: the bit pattern of each value, and scale and zero of each group.
  struct Row {
    int64_t firstInput = 0, firstGroup = 0;
    llvm::SmallVector<uint8_t, 2048> patterns;
    llvm::SmallVector<float, 128> scales;
    llvm::SmallVector<int, 128> zeros;
  };
  /// Reads the part of a row that holds some inputs; the whole row where rows lie beside one another.
  llvm::Error readRow(int64_t row, int64_t first, int64_t count, Row &result) const;
  llvm::Error readPatterns(int64_t row, int64_t first, llvm::MutableArrayRef<uint8_t> patterns) const;
  llvm::Error readScales(int64_t row, int64_t count, Row &result) const;
  llvm::Error readZeros(int64_t row, Row &result) const;
  /// Reads elements of a tensor of the archive as they are stored, one after another.
  llvm::Error readElements(const SharedSource &tensor, Run run, llvm::SmallVectorImpl<char> &bytes) const;
  /// Appends the bytes of the scale of a group as the kept format stores it.
  llvm::Error appendScale(const Row &row, int64_t number, int64_t group, llvm::SmallVectorImpl<uint8_t> &bytes) const;
  int64_t groupOf(int64_t input) const { return !indices.empty() ? indices[input] : group ? input / group : 0; }
  /// Returns the input feature behind the last one, from `input` on, that is in the same group.
  int64_t endOfGroup(int64_t input) const {
    return !indices.empty() ? input + 1 : group ? (input / group + 1) * group : inputs;
  }
  /// Returns the slot of output feature `row` in a word that holds several of them.
  int64_t slotOf(int64_t row) const;
  /// Returns the error of a scale of a row.
  llvm::Error wrongScale(int64_t row, int64_t group, const llvm::Twine &what) const;

  Parts parts;
  nn::ArchiveOrder order;
  nn::BlockElement element;
  int64_t outputs, inputs, group, rows, groups, perWord;
  int zero;
  unsigned bits, storedBits; ///< of a value, and as the archive has it
  bool isInteger, hasRows, isInverse, isRounded;
  float scaleDivisor = 1.0f, scaleOffset = 0.0f;
  nn::BlockScale keptScale = nn::BlockScale::F32;
  nn::BlockElement keptElement = nn::BlockElement::I8;
  int64_t keptBlock = 0;
  float tensorScale = 1.0f;
  float inverseScale = 0.0f;    ///< what floats that are rounded to ternary values are multiplied by before
  float roundedScale = 0.0f;    ///< and their values after it
  std::vector<int32_t> indices; // groups of input features, if they are given
  std::array<float, 256> elementValues = {}; // of each bit pattern
};

} // namespace intarsia::weights

#endif
