//===- CompressedTensors.cpp - Quantized matrices as compressed-tensors stores them ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/Models/CompressedTensors.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Quantize/BlockCodec.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <cstring>

using namespace mlir;

namespace intarsia::quantize {
using nn::BlockElement;
using nn::BlockScale;

namespace {
bool isInteger(nn::BlockFormatAttr format) {
  return format.getElement() == BlockElement::I4 || format.getElement() == BlockElement::I8 || haveZeroPoints(format) ||
         isStoredWider(format.getElement());
}
bool isMxfp4(nn::BlockFormatAttr format) {
  return format.getElement() == BlockElement::E2M1 && format.getScale() == BlockScale::E8M0;
}
bool isNvfp4(nn::BlockFormatAttr format) {
  return format.getElement() == BlockElement::E2M1 && format.getScale() == BlockScale::E4M3;
}

/// Rows whose zero points of 4 bits lie in a word of 32.
constexpr int64_t kRowsOfWord = 8;

/// Returns the integers that narrower ones lie in: of 4 or of 8 bits.
BlockElement storedElement(BlockElement element) {
  return nn::storageBits(element) == 4 ? BlockElement::I4 : BlockElement::I8;
}

/// Names of the layouts in compressed-tensors.
std::string layoutOf(nn::BlockFormatAttr format) {
  return isInteger(format) ? "pack-quantized"
         : isMxfp4(format) ? "mxfp4-pack-quantized"
         : isNvfp4(format) ? "nvfp4-pack-quantized"
                           : "float-quantized";
}
} // namespace

bool isStoredWider(BlockElement element) {
  return element == BlockElement::Ternary || element == BlockElement::I5 || element == BlockElement::I6;
}

std::string whyNotCompressed(nn::BlockFormatAttr format, Type matrix) {
  int64_t columns = cast<RankedTensorType>(matrix).getShape().back();
  bool isKnown = (isInteger(format) && format.getScale() == BlockScale::F16) || isMxfp4(format) || isNvfp4(format) ||
                 nn::isScaledByRows(format);
  if (!isKnown)
    return "compressed-tensors has no format for '" + describe(format) +
           "': integers with any block, ternary, mxfp4, nvfp4 and fp8 can be written";
  if (format.getBlock() && columns % format.getBlock() != 0)
    return llvm::formatv("has {0} columns, which are no whole blocks of {1}, as compressed-tensors wants them", columns,
                         format.getBlock());
  return "";
}

std::string describe(nn::BlockFormatAttr format) {
  std::string block = format.getBlock() ? std::to_string(format.getBlock()) : "a row";
  return llvm::formatv("{0}, {1} for {2}", nn::stringifyBlockElement(format.getElement()),
                       nn::stringifyBlockScale(format.getScale()), block);
}

CompressedMatrix::CompressedMatrix(nn::BlockFormatAttr format, int64_t rows, int64_t columns)
    : format(format), rows(rows), columns(columns), bits(nn::storageBits(format.getElement())) {
  int64_t blocks = format.getBlockCount(columns);
  if (isInteger(format)) {
    add("weight_packed", "I32", {rows, int64_t(llvm::divideCeil(columns * bits, 32))}, 4);
    add("weight_scale", "F16", {rows, blocks}, 2);
    add("weight_shape", "I64", {2}, 8);
    if (haveZeroPoints(format))
      add("weight_zero_point", "I32", {int64_t(llvm::divideCeil(rows, kRowsOfWord)), blocks}, 4);
  } else if (nn::isScaledByRows(format)) {
    add("weight", "F8_E4M3", {rows, columns}, 1);
    add("weight_scale", "F32", {rows, 1}, 4);
  } else {
    add("weight_packed", "U8", {rows, columns / 2}, 1);
    add("weight_scale", isMxfp4(format) ? "U8" : "F8_E4M3", {rows, blocks}, 1);
    if (isNvfp4(format))
      add("weight_global_scale", "F32", {1}, 4);
  }
}

void CompressedMatrix::add(std::string name, std::string dtype, std::vector<int64_t> shape, unsigned elementBytes) {
  uint64_t size = elementBytes;
  for (int64_t extent : shape)
    size *= extent;
  tensors.push_back({std::move(name), std::move(dtype), std::move(shape), {}, size});
}

uint64_t CompressedMatrix::bytes() const {
  uint64_t sum = 0;
  for (const Part &part : tensors)
    sum += part.bytes();
  return sum;
}

void CompressedMatrix::allocate() {
  for (Part &part : tensors)
    part.data.assign(part.size, 0);
  if (isInteger(format)) {
    int64_t shape[2] = {rows, columns};
    std::memcpy(tensors[2].data.data(), shape, sizeof(shape));
  }
  if (isNvfp4(format)) {
    float inverse = 1 / tensorScale;
    std::memcpy(tensors[2].data.data(), &inverse, sizeof(inverse));
  }
}

void CompressedMatrix::chooseTensorScale(float largestMagnitude) {
  if (largestMagnitude > 0 && std::isfinite(largestMagnitude))
    tensorScale = std::exp2(std::ceil(std::log2(largestMagnitude / (448.0f * 6.0f))));
}

void CompressedMatrix::store(int64_t row, ArrayRef<uint8_t> quantized, ArrayRef<uint8_t> scales,
                             ArrayRef<uint8_t> zeroPoints) {
  Part &values = tensors[0], &scaleTensor = tensors[1];
  size_t rowBytes = values.bytes() / rows;
  uint8_t *to = values.data.data() + row * rowBytes;
  // Integers are stored without sign, above the lowest one.
  uint8_t offset = isInteger(format) && !haveZeroPoints(format) ? 1 << (bits - 1) : 0;
  for (auto [block, zero] : llvm::enumerate(zeroPoints)) {
    uint8_t *word = tensors[3].data.data() + (row / kRowsOfWord * zeroPoints.size() + block) * sizeof(uint32_t);
    word[row % kRowsOfWord / 2] |= zero << (row % 2 * 4);
  }
  for (size_t at = 0; at < quantized.size(); ++at) {
    uint8_t pattern = quantized[at] ^ offset;
    if (bits == 4)
      to[at / 2] |= (pattern & 15) << (at % 2 * 4);
    else
      to[at] = pattern;
  }
  llvm::copy(scales, scaleTensor.data.begin() + row * scales.size());
}

Status CompressedMatrix::write(OutputFile &file) const {
  for (const Part &part : tensors)
    if (Status status = file.write(part.data.data(), part.data.size()); !status.ok())
      return status;
  return {};
}

Json compressedTensorsConfig(ArrayRef<std::pair<std::string, nn::BlockFormatAttr>> modules) {
  llvm::MapVector<Attribute, std::vector<std::string>> groups;
  for (const auto &[name, format] : modules)
    groups[isStoredWider(format.getElement())
               ? nn::BlockFormatAttr::get(format.getContext(), storedElement(format.getElement()), format.getScale(),
                                          format.getBlock(), format.getAxis())
               : format]
        .push_back(name);
  Json configGroups = Json::object();
  std::string layout;
  for (const auto &[attribute, names] : groups) {
    auto format = cast<nn::BlockFormatAttr>(attribute);
    std::string own = layoutOf(format);
    layout = layout.empty() || layout == own ? own : "mixed-precision";
    Json weights = {{"num_bits", nn::elementBits(format.getElement())},
                    {"type", isInteger(format) ? "int" : "float"},
                    {"symmetric", !haveZeroPoints(format)},
                    {"dynamic", false},
                    {"strategy", isNvfp4(format)     ? "tensor_group"
                                 : format.getBlock() ? "group"
                                                     : "channel"},
                    {"group_size", nullptr}};
    if (format.getBlock())
      weights["group_size"] = format.getBlock();
    configGroups["group_" + std::to_string(configGroups.size())] = {{"targets", names},
                                                                    {"weights", weights},
                                                                    {"input_activations", nullptr},
                                                                    {"output_activations", nullptr},
                                                                    {"format", own}};
  }
  return {{"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"},
          {"format", layout},
          {"config_groups", configGroups},
          {"ignore", Json::array()},
          {"kv_cache_scheme", nullptr}};
}

} // namespace intarsia::quantize
