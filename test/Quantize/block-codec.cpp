//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// intarsia-block-codec ELEMENT SCALE BLOCK ZERO_POINTS ROW_SIZE: reads rows of f32 from standard input, encodes them in
// that format, and writes to standard output: the tensor scale as f32; then quantized values, scales, zero points and
// decoded values, each for all rows. Python compares them with independent implementations.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/BlockCodec.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdio>

using namespace intarsia;

static bool write(const void *bytes, size_t size) { return std::fwrite(bytes, 1, size, stdout) == size; }

int main(int argc, char **argv) {
  std::optional<nn::BlockElement> element = argc == 6 ? nn::symbolizeBlockElement(argv[1]) : std::nullopt;
  std::optional<nn::BlockScale> scale = argc == 6 ? nn::symbolizeBlockScale(argv[2]) : std::nullopt;
  int64_t block = 0, zeroPointsWanted = 0, rowSize = 0;
  if (!element || !scale || !llvm::to_integer(argv[3], block) || !llvm::to_integer(argv[4], zeroPointsWanted) ||
      !llvm::to_integer(argv[5], rowSize) || block < 0 || rowSize <= 0) {
    std::fprintf(stderr, "usage: intarsia-block-codec ELEMENT SCALE BLOCK ZERO_POINTS ROW_SIZE <rows >results\n");
    return 2;
  }
  std::vector<float> values;
  std::vector<float> buffer(1 << 16);
  while (size_t count = std::fread(buffer.data(), sizeof(float), buffer.size(), stdin))
    values.insert(values.end(), buffer.begin(), buffer.begin() + count);

  BlockCodec codec(*element, *scale, block, zeroPointsWanted != 0);
  size_t width = static_cast<size_t>(rowSize), rows = values.size() / width, blocks = codec.blockCount(width);
  size_t scaleBytes = blocks * codec.scaleBytes(), pointBytes = zeroPointsWanted ? blocks : 0;
  float tensorScale = BlockCodec::tensorScaleOf(BlockCodec::largestMagnitude(values));
  std::vector<uint8_t> quantized(rows * width), scales(rows * scaleBytes), zeroPoints(rows * pointBytes);
  std::vector<float> decoded(rows * width);
  for (size_t row = 0; row != rows; ++row) {
    auto part = [row](auto &all, size_t size) { return llvm::MutableArrayRef(all).slice(row * size, size); };
    llvm::ArrayRef<float> inputs = part(values, width);
    if (std::optional<size_t> bad = codec.encodeRow(inputs, tensorScale, part(quantized, width),
                                                    part(scales, scaleBytes), part(zeroPoints, pointBytes))) {
      std::fprintf(stderr, "value %zu of row %zu is %g\n", *bad, row, static_cast<double>(inputs[*bad]));
      return 1;
    }
    codec.decodeRow(part(quantized, width), part(scales, scaleBytes), part(zeroPoints, pointBytes), tensorScale,
                    part(decoded, width));
  }
  bool isWritten = write(&tensorScale, sizeof(float)) && write(quantized.data(), quantized.size()) &&
                   write(scales.data(), scales.size()) && write(zeroPoints.data(), zeroPoints.size()) &&
                   write(decoded.data(), decoded.size() * sizeof(float)) && std::fflush(stdout) == 0;
  return isWritten ? 0 : 1;
}
