//===- BlockPanels.cpp - How the values of a quantized weight lie in memory -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/BlockPanels.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Formats/DecodeBlocks.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>
#include <numeric>

using namespace mlir;

namespace intarsia {

static constexpr int64_t lineBytes = 64;

std::optional<BlockPanels> BlockPanels::of(BlockFormatAttrInterface format, int64_t depth, int64_t width) {
  std::optional<QuantizedBlocks> blocks = format ? format.getQuantizedBlocks() : std::nullopt;
  if (!blocks || !format.hasBlocksInRows(/*rank=*/2))
    return std::nullopt;
  bool fits = !blocks->block || blocks->block % stepDepth == 0 || stepDepth % blocks->block == 0;
  if (!fits || depth <= 0 || width <= 0 || width % lineRows != 0)
    return std::nullopt;
  BlockPanels result;
  static_cast<QuantizedBlocks &>(result) = *blocks;
  result.hasZeroPoints = result.hasMinima && !format.getFileBlocks();
  result.width = width;
  result.computeSizes(depth);
  return result;
}

void BlockPanels::computeSizes(int64_t k) {
  depth = k;
  scaleBytes = nn::scaleBytes(scale);
  headBytes = hasTensorScale ? width * int64_t(sizeof(float)) : 0;
  if (scaleBits) {
    unitDepth = superBlock;
    int64_t blocks = superBlock / block;
    unitScaleBytes = integersBegin() + width * (scaleBits == 6 ? blocks + blocks / 2 : blocks);
    unitScaleBytes = llvm::alignTo(unitScaleBytes, alignment());
  } else if (block == 0) {
    unitDepth = stepDepth;
    unitScaleBytes = 0;
    headBytes = llvm::alignTo(width * scaleBytes, alignment());
  } else {
    int64_t bytesOfBlock = width * scaleBytes;
    int64_t blocks = std::lcm(bytesOfBlock, alignment()) / bytesOfBlock;
    unitDepth = std::lcm(block * blocks, stepDepth);
    unitScaleBytes = unitDepth / block * bytesOfBlock * (hasMinima ? 2 : 1);
  }
  unitBytes = unitScaleBytes + unitDepth / stepDepth * stepBytes();
  units = llvm::divideCeil(depth, unitDepth);
}

int64_t BlockPanels::stepBegin(int64_t step) const {
  int64_t stepsOfUnit = unitDepth / stepDepth;
  return headBytes + step / stepsOfUnit * unitBytes + unitScaleBytes + step % stepsOfUnit * stepBytes();
}

void BlockPanels::clear(uint8_t *panel) const {
  std::memset(panel, 0, panelBytes());
  if (!integerOffset)
    return;
  uint8_t zeros[stepDepth];
  std::memset(zeros, integerOffset, stepDepth);
  for (int64_t step = 0; step < steps(); ++step)
    for (int64_t row = 0; row < width; ++row)
      storeStep(zeros, step, row, panel);
}

void BlockPanels::storeStep(const uint8_t *quantized, int64_t step, int64_t row, uint8_t *panel) const {
  uint8_t *target = panel + stepBegin(step) + row / lineRows * (stepBytes() * lineRows / width) + row % lineRows * 4;
  auto line = [&](int64_t number, auto byteOf) {
    for (int64_t byte = 0; byte < 4; ++byte)
      target[number * lineBytes + byte] = byteOf(byte);
  };
  if (elementBits == 8) {
    for (int64_t word = 0; word < words; ++word)
      std::memcpy(target + word * lineBytes, quantized + 4 * word, 4);
    return;
  }
  for (int64_t i = 0; i < lowLines(); ++i)
    line(i, [&](int64_t byte) { return (quantized[4 * i + byte] & 15) | quantized[16 + 4 * i + byte] << 4; });
  int64_t ofWord = highBits(), wordsOfLine = ofWord ? 8 / ofWord : words;
  for (int64_t first = 0; ofWord && first < words; first += wordsOfLine)
    line(lowLines() + first / wordsOfLine, [&](int64_t byte) {
      unsigned bits = 0;
      for (int64_t p = 0; p < std::min(wordsOfLine, words - first); ++p)
        bits |= quantized[4 * (first + p) + byte] >> highBegin() << (ofWord * p);
      return bits;
    });
}

void BlockPanels::storeZeroPoint(uint8_t zeroPoint, int64_t scaleOffset, uint8_t *unit) const {
  // An integer of 8 bits is exact in each of these types.
  float negated = -static_cast<float>(zeroPoint);
  uint8_t *target = unit + minimaBegin() + scaleOffset;
  if (scale == nn::BlockScale::F32)
    return llvm::support::endian::write32le(target, llvm::bit_cast<uint32_t>(negated));
  llvm::support::endian::write16le(target, scale == nn::BlockScale::F16 ? encodeF16(negated) : encodeBf16(negated));
}

void BlockPanels::store(llvm::ArrayRef<uint8_t> quantized, llvm::ArrayRef<uint8_t> scales, float tensorScale,
                        int64_t row, uint8_t *panel) const {
  if (block == 0) {
    std::memcpy(panel + row * scaleBytes, scales.data(), scaleBytes);
  } else {
    llvm::ArrayRef<uint8_t> zeroPoints = scales.drop_front(llvm::divideCeil(depth, block) * scaleBytes);
    for (int64_t number = 0, k = 0; k < depth; ++number, k += block) {
      int64_t unit = k / unitDepth, blockOfUnit = k % unitDepth / block;
      int64_t offset = (blockOfUnit * width + row) * scaleBytes;
      uint8_t *ofUnit = panel + headBytes + unit * unitBytes;
      std::memcpy(ofUnit + offset, scales.data() + number * scaleBytes, scaleBytes);
      if (!zeroPoints.empty())
        storeZeroPoint(zeroPoints[number], offset, ofUnit);
    }
    if (hasTensorScale)
      std::memcpy(panel + row * sizeof(float), &tensorScale, sizeof(float));
  }
  auto mask = static_cast<uint8_t>((1u << elementBits) - 1);
  uint8_t step[stepDepth];
  for (int64_t number = 0; number * stepDepth < depth; ++number) {
    int64_t count = std::min(stepDepth, depth - number * stepDepth);
    for (int64_t k = 0; k < count; ++k)
      step[k] = (quantized[number * stepDepth + k] + integerOffset) & mask;
    for (int64_t k = count; k < stepDepth; ++k)
      step[k] = integerOffset & mask;
    storeStep(step, number, row, panel);
  }
}

void BlockPanels::store(const gguf::BlockParts &parts, int64_t number, int64_t row, uint8_t *panel) const {
  int64_t elements = scaleBits ? superBlock : block, k = number * elements;
  uint8_t *unit = panel + headBytes + k / unitDepth * unitBytes;
  int64_t scaleOffset = (k % unitDepth / elements * width + row) * scaleBytes;
  std::memcpy(unit + scaleOffset, &parts.scale, scaleBytes);
  if (hasMinima)
    std::memcpy(unit + minimaBegin() + scaleOffset, &parts.minimum, scaleBytes);
  uint8_t *integers = unit + integersBegin();
  for (int64_t i = 0; scaleBits && i < superBlock / block; ++i) {
    if (scaleBits == 8) {
      integers[i * width + row] = parts.scales[i];
      continue;
    }
    uint8_t *high = integers + (superBlock / block + i / 2) * width + row;
    integers[i * width + row] = (parts.scales[i] & 15) | parts.minima[i] << 4;
    *high |= (parts.scales[i] >> 4 | parts.minima[i] >> 4 << 2) << (i % 2 * 4);
  }
  for (int64_t step = 0; step < elements / stepDepth; ++step)
    storeStep(parts.quantized + step * stepDepth, k / stepDepth + step, row, panel);
}

} // namespace intarsia
