//===- ArchiveMatrix.cpp - Quantized matrices of other tools, read row by row -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/ArchiveMatrix.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Weights/WeightItem.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <cstring>

// A fused multiply-add would round once instead of twice.
#pragma STDC FP_CONTRACT OFF

using namespace mlir;
using llvm::ArrayRef;
using llvm::createStringError;
using llvm::Expected;
using llvm::MutableArrayRef;

namespace intarsia::weights {
namespace {

/// Bits 4 s to 4 s + 3 of a word of AWQ hold the output feature featureOfSlot[s] of eight; this is the inverse. Source:
/// `order_map` of AutoAWQ's WQLinear_GEMM.from_linear (awq/modules/linear/gemm.py).
constexpr int64_t slotOfFeature[8] = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t wordAt(const char *bytes) { return llvm::support::endian::read32le(bytes); }

} // namespace

ArchiveMatrix::ArchiveMatrix(Parts tensors, nn::ArchiveFormatAttr format, std::vector<int64_t> shape)
    : TensorSource(std::move(shape), "F32", sizeof(float)), parts(std::move(tensors)), order(format.getOrder()),
      element(format.getElement()), outputs(this->shape()[0]), inputs(this->shape()[1]), group(format.getGroup()),
      rows(format.getRows()), groups(format.getGroups(inputs)), perWord(format.getValuesOfWord()),
      zero(format.getZero()), bits(format.getBits()), storedBits(bits),
      isInteger(nn::getIntegerElement(element).has_value()), hasRows(format.hasRows()), isInverse(format.getInverse()),
      isRounded(element == nn::BlockElement::Ternary && order == nn::ArchiveOrder::Rows) {
  // Four values in a byte are of 2 bits, although their format has 4.
  if (order == nn::ArchiveOrder::Rows && element == nn::BlockElement::U4 && parts.values->elementBytes() == 1) {
    storedBits = 2;
    perWord = 4;
  }
  for (unsigned pattern = 0; pattern != 256; ++pattern)
    elementValues[pattern] = nn::decodeElement(element, pattern);
  if (FloatAttr divisor = format.getScaleDivisor())
    scaleDivisor = divisor.getValue().convertToFloat();
  if (FloatAttr offset = format.getScaleOffset())
    scaleOffset = offset.getValue().convertToFloat();
  if (nn::BlockFormatAttr kept = format.getKept()) {
    keptScale = kept.getScale();
    keptElement = kept.getElement();
    keptBlock = kept.getBlock();
  }
}

Expected<SharedSource> ArchiveMatrix::create(Parts parts, nn::ArchiveFormatAttr format, std::vector<int64_t> shape) {
  std::shared_ptr<ArchiveMatrix> matrix(new ArchiveMatrix(std::move(parts), format, std::move(shape)));
  if (llvm::Error error = matrix->readTensorScale())
    return std::move(error);
  if (llvm::Error error = matrix->readGroupIndices())
    return std::move(error);
  if (llvm::Error error = matrix->readCodebook())
    return std::move(error);
  if (llvm::Error error = matrix->isRounded ? matrix->computeScale() : llvm::Error::success())
    return std::move(error);
  return matrix;
}

llvm::Error ArchiveMatrix::readTensorScale() {
  if (!parts.tensorScale)
    return llvm::Error::success();
  llvm::SmallVector<char, 4> bytes;
  if (llvm::Error error = readElements(parts.tensorScale, {0, 1}, bytes))
    return error;
  tensorScale = llvm::bit_cast<float>(wordAt(bytes.data()));
  if (tensorScale > 0 && std::isfinite(tensorScale) && std::isfinite(1.0f / tensorScale))
    return llvm::Error::success();
  return createStringError(llvm::formatv("tensor '{0}' is {1}, which scales are divided by; are the weights damaged?",
                                         parts.tensorScale->originOf(0).tensor->name, tensorScale));
}

llvm::Error ArchiveMatrix::readGroupIndices() {
  if (!parts.groupIndices)
    return llvm::Error::success();
  llvm::SmallVector<char> bytes;
  if (llvm::Error error = readElements(parts.groupIndices, {0, inputs}, bytes))
    return error;
  for (int64_t input = 0; input != inputs; ++input) {
    indices.push_back(static_cast<int32_t>(wordAt(bytes.data() + 4 * input)));
    if (indices.back() < 0 || indices.back() >= groups)
      return createStringError(llvm::formatv("tensor '{0}' has {1} at [{2}], groups are 0 to {3}",
                                             parts.groupIndices->originOf(0).tensor->name, indices.back(), input,
                                             groups - 1));
  }
  return llvm::Error::success();
}

llvm::Error ArchiveMatrix::readCodebook() {
  if (!parts.codebook)
    return llvm::Error::success();
  if (llvm::Error error =
          parts.codebook->readFloats({0, parts.codebook->elements()}, {elementValues.data(), size_t(1) << bits}))
    return error;
  for (unsigned pattern = 0; pattern != 1u << bits; ++pattern)
    if (!std::isfinite(elementValues[pattern]))
      return createStringError(llvm::formatv("tensor '{0}' has {1} at [{2}]; are the weights damaged?",
                                             parts.codebook->originOf(0).tensor->name, elementValues[pattern],
                                             pattern));
  return llvm::Error::success();
}

llvm::Error ArchiveMatrix::computeScale() {
  // WeightQuant of integrations/bitnet.py of transformers: the mean magnitude, at least 1e-5. torch adds f32 in an
  // order of its own; f64 is nearer to the exact sum.
  constexpr float least = 1e-5f;
  llvm::SmallVector<float, 2048> values(inputs);
  double sum = 0.0;
  for (int64_t row = 0; row != outputs; ++row) {
    if (llvm::Error error = parts.values->readFloats({row * inputs, inputs}, values))
      return error;
    for (auto [input, value] : llvm::enumerate(values)) {
      if (!std::isfinite(value)) {
        Origin origin = parts.values->originOf(row * inputs + int64_t(input));
        return createStringError(llvm::formatv("tensor '{0}' has {1} at {2}; are the weights damaged?",
                                               origin.tensor->name, value, origin.indices()));
      }
      sum += std::fabs(value);
    }
  }
  inverseScale = 1.0f / std::max(static_cast<float>(sum / (double(outputs) * double(inputs))), least);
  roundedScale = 1.0f / inverseScale;
  return llvm::Error::success();
}

llvm::Error ArchiveMatrix::readElements(const SharedSource &tensor, Run run, llvm::SmallVectorImpl<char> &bytes) const {
  bytes.resize_for_overwrite(run.count * tensor->elementBytes());
  Expected<StoredRun> stored = tensor->read(run, bytes.data());
  if (!stored)
    return stored.takeError();
  gatherElements(*stored, run.count, tensor->elementBytes(), bytes.data());
  return llvm::Error::success();
}

//===-- Rows ----------------------------------------------------------------------------------------------------===//

int64_t ArchiveMatrix::slotOf(int64_t row) const {
  if (order == nn::ArchiveOrder::Quarters)
    return row / (outputs / perWord);
  return order == nn::ArchiveOrder::Interleaved ? slotOfFeature[row % perWord] : row % perWord;
}

llvm::Error ArchiveMatrix::readPatterns(int64_t row, int64_t first, MutableArrayRef<uint8_t> patterns) const {
  int64_t words = inputs / perWord;
  uint32_t mask = (1u << bits) - 1;
  llvm::SmallVector<char, 8192> bytes;
  switch (order) {
  case nn::ArchiveOrder::Rows:
  case nn::ArchiveOrder::HighFirst: {
    Run run = {row * words + first / perWord, int64_t(patterns.size()) / perWord};
    if (isRounded) {
      llvm::SmallVector<float, 2048> values(patterns.size());
      if (llvm::Error error = parts.values->readFloats(run, values))
        return error;
      llvm::transform(values, patterns.begin(), [&](float value) {
        float rounded = std::nearbyint(value * inverseScale);
        return static_cast<uint8_t>(std::clamp(rounded, -1.0f, 1.0f) + 1.0f);
      });
      return llvm::Error::success();
    }
    if (llvm::Error error = readElements(parts.values, run, bytes))
      return error;
    if (bits == 8) {
      std::memcpy(patterns.data(), bytes.data(), patterns.size());
      return llvm::Error::success();
    }
    if (storedBits == 2) {
      for (size_t value = 0; value != patterns.size(); ++value)
        patterns[value] = static_cast<uint8_t>(bytes[value / 4]) >> (2 * (value % 4)) & 3;
      return llvm::Error::success();
    }
    // Words are little-endian, so that the values of any word follow one another in its bytes.
    unsigned high = order == nn::ArchiveOrder::Rows;
    for (size_t byte = 0; byte != bytes.size(); ++byte) {
      patterns[2 * byte + 1 - high] = bytes[byte] & 15;
      patterns[2 * byte + high] = static_cast<uint8_t>(bytes[byte]) >> 4;
    }
    return llvm::Error::success();
  }
  case nn::ArchiveOrder::Columns:
    if (llvm::Error error = readElements(parts.values, {row, words, outputs}, bytes))
      return error;
    for (int64_t input = 0; input != inputs; ++input)
      patterns[input] = wordAt(bytes.data() + 4 * (input / perWord)) >> (bits * (input % perWord)) & mask;
    return llvm::Error::success();
  case nn::ArchiveOrder::Interleaved:
    if (llvm::Error error = readElements(parts.values, {row / perWord, inputs, outputs / perWord}, bytes))
      return error;
    for (int64_t input = 0; input != inputs; ++input)
      patterns[input] = wordAt(bytes.data() + 4 * input) >> (bits * slotOf(row)) & mask;
    return llvm::Error::success();
  case nn::ArchiveOrder::Quarters:
    if (llvm::Error error = readElements(parts.values, {row % (outputs / perWord) * inputs, inputs}, bytes))
      return error;
    for (int64_t input = 0; input != inputs; ++input)
      patterns[input] = static_cast<uint8_t>(bytes[input]) >> (bits * slotOf(row)) & mask;
    return llvm::Error::success();
  }
  llvm_unreachable("unknown order");
}

llvm::Error ArchiveMatrix::readRow(int64_t row, int64_t first, int64_t count, Row &result) const {
  int64_t last = inputs;
  if (hasRows) {
    result.firstInput = first / perWord * perWord;
    last = llvm::alignTo(first + count, perWord);
  }
  result.patterns.resize_for_overwrite(last - result.firstInput);
  if (llvm::Error error = readPatterns(row, result.firstInput, result.patterns))
    return error;
  if (isRounded) {
    result.scales.assign(1, roundedScale);
    result.zeros.assign(1, zero);
    return llvm::Error::success();
  }
  int64_t lastGroup = groups;
  if (hasRows && indices.empty()) {
    result.firstGroup = groupOf(result.firstInput);
    lastGroup = groupOf(last - 1) + 1;
  }
  if (llvm::Error error = readScales(row, lastGroup - result.firstGroup, result))
    return error;
  return readZeros(row, result);
}

llvm::Error ArchiveMatrix::readScales(int64_t row, int64_t count, Row &result) const {
  bool isByRow = hasRows || order == nn::ArchiveOrder::Quarters;
  Run run = isByRow ? Run{(rows ? row / rows : 0) * groups + result.firstGroup, count} : Run{row, groups, outputs};
  result.scales.assign(count, 1.0f);
  if (!parts.scales)
    return llvm::Error::success();
  StringRef dtype = parts.scales->dtype();
  if (dtype == "F32" || dtype == "F16" || dtype == "BF16") {
    if (llvm::Error error = parts.scales->readFloats(run, result.scales))
      return error;
  } else {
    llvm::SmallVector<char, 512> bytes;
    if (llvm::Error error = readElements(parts.scales, run, bytes))
      return error;
    nn::BlockScale type = dtype == "F8_E4M3" ? nn::BlockScale::E4M3 : nn::BlockScale::E8M0;
    for (int64_t number = 0; number != count; ++number)
      result.scales[number] = nn::decodeScale(type, static_cast<uint8_t>(bytes[number]));
  }
  for (auto [number, scale] : llvm::enumerate(result.scales)) {
    scale = scale / scaleDivisor + scaleOffset;
    if (!std::isfinite(scale))
      return wrongScale(row, result.firstGroup + number, "that is not finite");
    if (isInverse && !std::isfinite(1.0f / scale))
      return wrongScale(row, number, llvm::formatv("{0}, which values are divided by", scale).str());
    if (isInverse)
      scale = 1.0f / scale;
    if (parts.tensorScale)
      scale /= tensorScale;
  }
  return llvm::Error::success();
}

llvm::Error ArchiveMatrix::readZeros(int64_t row, Row &result) const {
  int64_t count = result.scales.size();
  result.zeros.assign(count, zero);
  if (!parts.zeroPoints)
    return llvm::Error::success();
  llvm::SmallVector<char, 512> bytes;
  if (bits == 8 && perWord == 1) {
    if (llvm::Error error = readElements(parts.zeroPoints, {row * groups + result.firstGroup, count}, bytes))
      return error;
    llvm::copy(llvm::map_range(bytes, [](char zero) { return static_cast<int8_t>(zero); }), result.zeros.begin());
    return llvm::Error::success();
  }
  if (parts.zeroPoints->elementBytes() == 1) {
    // Bytes along the groups of a row, the first group in the lowest bits.
    int64_t perByte = 8 / storedBits, rowBytes = llvm::divideCeil(groups, perByte), begin = result.firstGroup / perByte;
    int64_t end = llvm::divideCeil(result.firstGroup + count, perByte);
    if (llvm::Error error = readElements(parts.zeroPoints, {row * rowBytes + begin, end - begin}, bytes))
      return error;
    for (int64_t number = 0; number != count; ++number) {
      int64_t group = result.firstGroup + number;
      unsigned byte = static_cast<uint8_t>(bytes[group / perByte - begin]);
      result.zeros[number] = int(byte >> (storedBits * (group % perByte)) & ((1u << storedBits) - 1)) + zero;
    }
    return llvm::Error::success();
  }
  int64_t word = row / perWord;
  Run run = hasRows ? Run{word * groups + result.firstGroup, count}
                    : Run{word, groups, int64_t(llvm::divideCeil(outputs, perWord))};
  if (llvm::Error error = readElements(parts.zeroPoints, run, bytes))
    return error;
  // GPTQ stores zero points minus one, modulo the number of integers.
  int mask = (1 << bits) - 1;
  for (int64_t number = 0; number != count; ++number)
    result.zeros[number] = (int(wordAt(bytes.data() + 4 * number) >> (bits * slotOf(row)) & mask) + zero) & mask;
  return llvm::Error::success();
}

llvm::Error ArchiveMatrix::wrongScale(int64_t row, int64_t number, const Twine &what) const {
  return createStringError("tensor '" + parts.scales->originOf(0).tensor->name + "' has a scale " + what +
                           ", for group " + Twine(number) + " of row " + Twine(row) + " of '" +
                           parts.values->originOf(0).tensor->name + "'; are the weights damaged?");
}

Expected<StoredRun> ArchiveMatrix::read(Run run, char *scratch) const {
  if (run.stride != 1)
    return createStringError("a quantized tensor is read by its columns, which the packer cannot do");
  auto *target = reinterpret_cast<float *>(scratch);
  for (int64_t done = 0; done < run.count;) {
    int64_t row = (run.first + done) / inputs, input = (run.first + done) % inputs;
    int64_t count = std::min(run.count - done, inputs - input);
    Row contents;
    if (llvm::Error error = readRow(row, input, count, contents))
      return std::move(error);
    for (int64_t last = input + count; input != last;) {
      int64_t number = groupOf(input) - contents.firstGroup, end = std::min(last, endOfGroup(input));
      float scale = contents.scales[number], zero = static_cast<float>(contents.zeros[number]);
      for (; input != end; ++input)
        target[done++] = scale * (elementValues[contents.patterns[input - contents.firstInput]] - zero);
    }
  }
  return StoredRun{scratch};
}

llvm::Error ArchiveMatrix::appendScale(const Row &row, int64_t number, int64_t group,
                                       llvm::SmallVectorImpl<uint8_t> &bytes) const {
  float scale = row.scales[group];
  auto append = [&](auto pattern) {
    for (unsigned byte = 0; byte != sizeof(pattern); ++byte)
      bytes.push_back(static_cast<uint8_t>(pattern >> (8 * byte)));
    return llvm::Error::success();
  };
  switch (keptScale) {
  case nn::BlockScale::F32:
    return append(llvm::bit_cast<uint32_t>(scale));
  case nn::BlockScale::F16:
  case nn::BlockScale::BF16: {
    bool isF16 = keptScale == nn::BlockScale::F16;
    uint16_t pattern = isF16 ? encodeF16(scale) : encodeBf16(scale);
    if ((isF16 ? decodeF16(pattern) : decodeBf16(pattern)) != scale)
      return wrongScale(number, group, llvm::formatv("{0} that is no {1}", scale, isF16 ? "f16" : "bf16").str());
    return append(pattern);
  }
  case nn::BlockScale::E4M3:
  case nn::BlockScale::E8M0: {
    llvm::SmallVector<char, 1> stored;
    if (llvm::Error error = readElements(parts.scales, {number * groups + group, 1}, stored))
      return error;
    // Kernels read scales in E4M3 as numbers without a sign.
    if (keptScale == nn::BlockScale::E4M3 && (stored[0] & 0x80))
      return wrongScale(number, group, llvm::formatv("{0} that is negative", scale).str());
    bytes.push_back(static_cast<uint8_t>(stored[0]));
    return llvm::Error::success();
  }
  }
  llvm_unreachable("unknown scale");
}

llvm::Error ArchiveMatrix::storeQuantized(int64_t first, int64_t columns, const QuantizedTarget &target) const {
  int64_t number = first / columns;
  Row row;
  if (llvm::Error error = readRow(number, 0, inputs, row))
    return error;
  llvm::SmallVector<uint8_t, 512> scales;
  int64_t blocks = keptBlock ? llvm::divideCeil(inputs, keptBlock) : 1;
  for (int64_t block = 0; block != blocks; ++block)
    if (llvm::Error error = appendScale(row, number, groupOf(block * keptBlock), scales))
      return error;
  std::optional<nn::IntegerElement> kept = isInteger ? nn::getIntegerElement(keptElement) : std::nullopt;
  bool keepsZeros = haveZeroPoints(keptElement);
  for (int64_t block = 0; keepsZeros && block != blocks; ++block)
    scales.push_back(static_cast<uint8_t>(row.zeros[groupOf(block * keptBlock)]));
  for (int64_t input = 0; isInteger && !keepsZeros && input != inputs;) {
    int zero = row.zeros[groupOf(input)];
    for (int64_t end = std::min(inputs, endOfGroup(input)); input != end; ++input) {
      int value = (element == nn::BlockElement::I8 ? int(int8_t(row.patterns[input])) : row.patterns[input]) - zero;
      if (value < kept->lowest || value > kept->highest)
        return createStringError(llvm::formatv("tensor '{0}' has {1} at {2}, which {3} does not hold; are the weights "
                                               "damaged?",
                                               parts.values->originOf(0).tensor->name, value,
                                               originOf(first + input).indices(),
                                               nn::stringifyBlockElement(keptElement)));
      row.patterns[input] = static_cast<uint8_t>(value);
    }
  }
  for (int64_t input = 0; !isInteger && input != inputs; ++input) {
    if (!std::isnan(elementValues[row.patterns[input]]))
      continue;
    Origin origin = originOf(first + input);
    return createStringError(
        llvm::formatv("tensor '{0}' has NaN at {1}; are the weights damaged?", origin.tensor->name, origin.indices()));
  }
  target.storage.storeQuantized(row.patterns, scales, 1.0f / tensorScale, target.row, target.piece);
  return llvm::Error::success();
}

Origin ArchiveMatrix::originOf(int64_t element) const {
  int64_t row = element / inputs, input = element % inputs;
  switch (order) {
  case nn::ArchiveOrder::Rows:
  case nn::ArchiveOrder::HighFirst:
    return parts.values->originOf(element / perWord);
  case nn::ArchiveOrder::Columns:
    return parts.values->originOf(input / perWord * outputs + row);
  case nn::ArchiveOrder::Interleaved:
    return parts.values->originOf(input * (outputs / perWord) + row / perWord);
  case nn::ArchiveOrder::Quarters:
    return parts.values->originOf(row % (outputs / perWord) * inputs + input);
  }
  llvm_unreachable("unknown order");
}

void ArchiveMatrix::drop(int64_t first, int64_t count) const {
  // Rows of the other orders lie beside one another.
  if (hasRows)
    parts.values->drop(first / perWord, count / perWord);
}

} // namespace intarsia::weights
