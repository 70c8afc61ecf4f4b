//===- BlockPanels.cpp - How the codes of a quantized weight lie in memory --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/BlockPanels.h"

#include "dialects/Nn/BlockFormats.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>
#include <numeric>

namespace intarsia {

static constexpr int64_t lineBytes = 64;

std::optional<BlockPanels> BlockPanels::of(nn::BlockFormatAttr format, int64_t depth) {
  using nn::BlockElement;
  if (format.getAxis() != 1 || depth <= 0)
    return std::nullopt;
  switch (format.getElement()) {
  case BlockElement::I4:
  case BlockElement::I8:
  case BlockElement::E2M1:
  case BlockElement::Ternary:
    break;
  default:
    return std::nullopt;
  }
  BlockPanels result;
  result.format = format;
  result.depth = depth;
  result.codeBits = nn::codeBits(format.getElement());
  result.scaleBytes = format.getScaleType().getIntOrFloatBitWidth() / 8;
  result.block = format.getBlock();
  if (result.block == 0) {
    result.unitDepth = stepDepth;
    result.unitScaleBytes = 0;
    result.headBytes = llvm::alignTo(rows * result.scaleBytes, lineBytes);
  } else {
    if (result.block % stepDepth != 0 && stepDepth % result.block != 0)
      return std::nullopt;
    int64_t bytesOfBlock = rows * result.scaleBytes;
    int64_t blocks = std::lcm(bytesOfBlock, lineBytes) / bytesOfBlock;
    result.unitDepth = std::lcm(result.block * blocks, stepDepth);
    result.unitScaleBytes = result.unitDepth / result.block * bytesOfBlock;
    result.headBytes = format.hasTensorScale() ? rows * int64_t(sizeof(float)) : 0;
  }
  result.unitBytes = result.unitScaleBytes + result.unitDepth / stepDepth * result.stepBytes();
  result.units = llvm::divideCeil(depth, result.unitDepth);
  return result;
}

int64_t BlockPanels::codeOffset() const {
  switch (format.getElement()) {
  case nn::BlockElement::I8:
    return 128;
  case nn::BlockElement::E2M1:
    return 0;
  default:
    return 8;
  }
}

int64_t BlockPanels::stepBegin(int64_t step) const {
  int64_t stepsOfUnit = unitDepth / stepDepth;
  return headBytes + step / stepsOfUnit * unitBytes + unitScaleBytes + step % stepsOfUnit * stepBytes();
}

int64_t BlockPanels::scalesBegin(int64_t step) const {
  if (block == 0)
    return 0;
  int64_t stepsOfUnit = unitDepth / stepDepth;
  return headBytes + step / stepsOfUnit * unitBytes + step % stepsOfUnit * stepDepth / block * rows * scaleBytes;
}

void BlockPanels::clear(uint8_t *panel) const {
  std::memset(panel, 0, panelBytes());
  uint8_t zero = codeBits == 4 ? uint8_t(codeOffset() * 0x11) : uint8_t(codeOffset());
  for (int64_t step = 0; step < steps(); ++step)
    std::memset(panel + stepBegin(step), zero, stepBytes());
}

void BlockPanels::store(llvm::ArrayRef<uint8_t> codes, llvm::ArrayRef<uint8_t> scales, float tensorScale, int64_t row,
                        uint8_t *panel) const {
  if (block == 0) {
    std::memcpy(panel + row * scaleBytes, scales.data(), scaleBytes);
  } else {
    for (int64_t number = 0, k = 0; k < depth; ++number, k += block) {
      int64_t unit = k / unitDepth, blockOfUnit = k % unitDepth / block;
      std::memcpy(panel + headBytes + unit * unitBytes + (blockOfUnit * rows + row) * scaleBytes,
                  scales.data() + number * scaleBytes, scaleBytes);
    }
    if (headBytes)
      std::memcpy(panel + row * sizeof(float), &tensorScale, sizeof(float));
  }
  uint8_t offset = codeOffset(), mask = codeBits == 4 ? 0x0F : 0xFF;
  uint8_t step[stepDepth];
  for (int64_t number = 0; number * stepDepth < depth; ++number) {
    int64_t count = std::min(stepDepth, depth - number * stepDepth);
    for (int64_t k = 0; k < count; ++k)
      step[k] = (codes[number * stepDepth + k] + offset) & mask;
    for (int64_t k = count; k < stepDepth; ++k)
      step[k] = offset & mask;
    uint8_t *target = panel + stepBegin(number) + row / 16 * (stepBytes() / 2) + row % 16 * 4;
    if (codeBits == 8) {
      for (int64_t line = 0; line < 8; ++line)
        std::memcpy(target + line * lineBytes, step + 4 * line, 4);
      continue;
    }
    for (int64_t line = 0; line < 4; ++line) {
      uint32_t low, high;
      std::memcpy(&low, step + 4 * line, 4);
      std::memcpy(&high, step + 16 + 4 * line, 4);
      low |= high << 4; // bytes below 16: nothing is carried from one to the next
      std::memcpy(target + line * lineBytes, &low, 4);
    }
  }
}

} // namespace intarsia
