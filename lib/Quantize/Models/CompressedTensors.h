//===- CompressedTensors.h - Quantized matrices as compressed-tensors stores them --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_QUANTIZE_MODELS_COMPRESSEDTENSORS_H
#define INTARSIA_LIB_QUANTIZE_MODELS_COMPRESSEDTENSORS_H

#include "dialects/Nn/Nn.h"
#include "lib/Support/File.h"
#include "lib/Support/Json.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>
#include <vector>

namespace intarsia::quantize {

/// Returns true if integers lie in more bits than they have, since compressed-tensors has no layout of their own for
/// them: ternary values in 4, those of 5 and 6 bits in 8. A file beside the archive names their format.
bool isStoredWider(nn::BlockElement element);

/// Returns why compressed-tensors has no format for the values of a matrix; empty if it has one.
std::string whyNotCompressed(nn::BlockFormatAttr format, mlir::Type matrix);

/// Returns "int4, a scale in f16 for 32".
std::string describe(nn::BlockFormatAttr format);

/// The tensors that stand for one matrix [rows, columns].
///
/// - i4, i8, ternary as i4, and i5 and i6 as i8: weight_packed I32 [rows, words] holds value + 8 or value + 128, the
/// first value in the lowest bits;
///   weight_scale F16 [rows, blocks]; weight_shape I64 [2].
/// - u4: the same with the values as they are, and weight_zero_point I32 [rows / 8, blocks], the first row in the
/// lowest
///   bits.
/// - mxfp4: weight_packed U8 [rows, columns / 2] holds the first value in the lower half; weight_scale U8
///   [rows, blocks].
/// - nvfp4: weight_packed is as in mxfp4; weight_scale F8_E4M3 [rows, blocks]; weight_global_scale F32 [1] divides.
/// - fp8: weight F8_E4M3 [rows, columns]; weight_scale F32 [rows, 1].
class CompressedMatrix {
public:
  struct Part {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::vector<uint8_t> data; // empty before allocate()
    uint64_t size = 0;         // in bytes
    uint64_t bytes() const { return size; }
  };

  CompressedMatrix(nn::BlockFormatAttr format, int64_t rows, int64_t columns);
  const std::vector<Part> &parts() const { return tensors; }
  uint64_t bytes() const;

  /// The scale of NVFP4's matrix: a power of two, whose inverse the file holds exactly.
  float tensorScale = 1;
  void chooseTensorScale(float largestMagnitude);

  /// Makes room for the rows, once the scale of the matrix is chosen.
  void allocate();
  /// Stores a row as a BlockCodec gives it. Calls for rows of different eights may run at the same time: the zero
  /// points of eight rows lie in a word.
  void store(int64_t row, llvm::ArrayRef<uint8_t> quantized, llvm::ArrayRef<uint8_t> scales,
             llvm::ArrayRef<uint8_t> zeroPoints);
  Status write(OutputFile &file) const;

private:
  void add(std::string name, std::string dtype, std::vector<int64_t> shape, unsigned elementBytes);

  nn::BlockFormatAttr format;
  int64_t rows, columns;
  unsigned bits; // of a value in a word or byte
  std::vector<Part> tensors;
};

/// Returns "quantization_config" of config.json for modules with their formats.
Json compressedTensorsConfig(llvm::ArrayRef<std::pair<std::string, nn::BlockFormatAttr>> modules);

} // namespace intarsia::quantize

#endif
