//===- QuantizedCheckpoint.cpp - Weights that other tools quantized ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

#include "dialects/Nn/BlockFormats.h"
#include "lib/Formats/FloatFormats.h"
#include "lib/Support/Status.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

using namespace mlir;
using llvm::StringRef;
using llvm::support::endian::read16le;
using llvm::support::endian::read32le;

namespace intarsia::importer {

std::unique_ptr<QuantizedCheckpoint> QuantizedCheckpoint::open(const Config &settings, const WeightArchive &archive,
                                                               MLIRContext *context) {
  static constexpr std::pair<StringRef, decltype(&openGptq)> tools[] = {{"awq", openAwq},
                                                                        {"bitnet", openBitNet},
                                                                        {"bitsandbytes", openBitsandbytes},
                                                                        {"compressed-tensors", openCompressedTensors},
                                                                        {"fp8", openFp8},
                                                                        {"gptq", openGptq},
                                                                        {"torchao", openTorchAo}};
  std::string method = settings.string("quant_method", "");
  llvm::SmallVector<StringRef> known;
  for (const auto &[name, make] : tools) {
    known.push_back(name);
    if (name != method)
      continue;
    std::unique_ptr<QuantizedCheckpoint> checkpoint = make(settings, archive, context);
    if (!settings.sink().any())
      checkpoint->checkQuantized();
    return checkpoint;
  }
  if (settings.has("quant_method"))
    settings.refuse("quant_method", method, known);
  else
    settings.report("has no quant_method; supported: " + llvm::join(known, ", "));
  return nullptr;
}

void QuantizedCheckpoint::checkQuantized() {
  if (!llvm::any_of(archive.keys(""), [&](StringRef key) { return key.ends_with(scaleSuffix()); }))
    report("says " + settings.string("quant_method", "") + ", but no tensor's name ends in '" + scaleSuffix() +
           "': remove the setting if the weights are not quantized");
}

std::optional<QuantizedMatrix> QuantizedCheckpoint::find(StringRef module, const Extent &outputs,
                                                         const Extent &inputs) {
  if (settings.sink().any() || !holds(module))
    return std::nullopt;
  std::optional<QuantizedMatrix> matrix = read({module, outputs, inputs});
  return settings.sink().any() ? std::nullopt : matrix;
}

//===-- Tensors -------------------------------------------------------------------------------------------------===//

static Type elementTypeOf(StringRef dtype, MLIRContext *context) {
  if (dtype == "F32")
    return Float32Type::get(context);
  if (dtype == "F16")
    return Float16Type::get(context);
  if (dtype == "BF16")
    return BFloat16Type::get(context);
  if (dtype == "F8_E4M3")
    return Float8E4M3FNType::get(context);
  return IntegerType::get(context, safetensorsBits(std::string_view(dtype.data(), dtype.size())));
}

std::optional<QuantizedMatrix::Part> QuantizedCheckpoint::part(const std::string &key, llvm::ArrayRef<StringRef> types,
                                                               std::optional<llvm::ArrayRef<int64_t>> shape) {
  std::optional<WeightArchive::Tensor> tensor = archive.find(key);
  Errors &errors = settings.sink();
  std::string implied = settings.name() + (shape ? " and config.json imply " + shapeText(*shape) : " implies it");
  if (!tensor) {
    errors.report(archive.missing(key) + ", which " + settings.name() + " implies; is the download complete?");
    return std::nullopt;
  }
  const ArchiveTensor &entry = *tensor->entry;
  if (!llvm::is_contained(types, StringRef(entry.dtype))) {
    errors.report(tensor->file->name + ": tensor '" + key + "' is of dtype " + entry.dtype + ", " + settings.name() +
                  " implies " + llvm::join(types, " or "));
    return std::nullopt;
  }
  if (shape && llvm::ArrayRef<int64_t>(entry.shape) != *shape) {
    errors.report(tensor->file->name + ": tensor '" + key + "' is " + shapeText(entry.shape) + ", " + implied);
    return std::nullopt;
  }
  return QuantizedMatrix::Part{*tensor, RankedTensorType::get(entry.shape, elementTypeOf(entry.dtype, context))};
}

bool QuantizedCheckpoint::checkMultiple(const Request &request, const Extent &extent, int64_t of, StringRef what) {
  if (extent.size % of == 0)
    return true;
  report("'" + request.module + "' has " + llvm::Twine(extent.size) + " features" +
         (extent.setting.empty() ? "" : " (" + extent.setting.str() + ")") + ", no multiple of the " + llvm::Twine(of) +
         " " + what);
  return false;
}

bool QuantizedCheckpoint::isZero(const WeightArchive::Tensor &tensor) {
  StringRef bytes(static_cast<const char *>(tensor.entry->data), tensor.entry->bytes());
  return llvm::all_of(bytes, [](char byte) { return byte == 0; });
}

bool QuantizedCheckpoint::areAll(const WeightArchive::Tensor &tensor, unsigned bits, unsigned value) {
  uint32_t word = 0;
  for (unsigned shift = 0; shift < 32; shift += bits)
    word |= value << shift;
  const auto *bytes = static_cast<const char *>(tensor.entry->data);
  for (uint64_t at = 0; at != tensor.entry->bytes(); at += sizeof(word))
    if (read32le(bytes + at) != word)
      return false;
  return true;
}

bool QuantizedCheckpoint::readGroupIndices(QuantizedMatrix &matrix, const std::string &key, const Request &request,
                                           Scheme &scheme, bool areEqual) {
  int64_t inputs = request.inputs.size, groups = scheme.group ? llvm::divideCeil(inputs, scheme.group) : 1;
  std::optional<QuantizedMatrix::Part> indices = part(key, {"I32"}, llvm::ArrayRef<int64_t>{inputs});
  if (!indices)
    return false;
  const auto *bytes = static_cast<const char *>(indices->tensor.entry->data);
  std::vector<int64_t> sizes(groups);
  bool isInOrder = true;
  for (int64_t input = 0; input != inputs; ++input) {
    auto index = static_cast<int32_t>(read32le(bytes + 4 * input));
    if (index < 0 || index >= groups) {
      settings.sink().report(indices->tensor.file->name + ": tensor '" + key + "' has " + llvm::Twine(index) + " at [" +
                             llvm::Twine(input) + "], the groups of " + llvm::Twine(inputs) +
                             " input features are 0 to " + llvm::Twine(groups - 1));
      return false;
    }
    ++sizes[index];
    isInOrder &= index == (scheme.group ? input / scheme.group : 0);
  }
  if (isInOrder)
    return true;
  if (areEqual && !llvm::all_of(sizes, [&](int64_t size) { return size == scheme.group; })) {
    settings.sink().report(indices->tensor.file->name + ": tensor '" + key + "' has groups of several sizes, " +
                           settings.name() + " says " + llvm::Twine(scheme.group));
    return false;
  }
  matrix.groupIndices = indices;
  scheme.whyDecoded = "groups of input features are in the order of their activations";
  return true;
}

//===-- Formats -------------------------------------------------------------------------------------------------===//

/// Returns true if all scales of a tensor are numbers of f16.
static bool fitF16(const ArchiveTensor &scales) {
  const auto *bytes = static_cast<const char *>(scales.data);
  bool isF32 = scales.dtype == "F32";
  for (uint64_t at = 0, step = isF32 ? 4 : 2; at != scales.bytes(); at += step) {
    float scale = isF32 ? llvm::bit_cast<float>(read32le(bytes + at)) : decodeBf16(read16le(bytes + at));
    if (decodeF16(encodeF16(scale)) != scale)
      return false;
  }
  return true;
}

nn::BlockScale QuantizedCheckpoint::keptScaleOf(StringRef dtype, const Scheme &scheme) {
  if (scheme.scaleDivisor != 1 || scheme.scaleOffset != 0)
    return nn::BlockScale::F32;
  if (dtype == "F16")
    return nn::BlockScale::F16;
  if (!scalesFitF16)
    scalesFitF16 = llvm::all_of(archive.keys(""), [&](StringRef key) {
      const ArchiveTensor &entry = *archive.find(key)->entry;
      return !key.ends_with(scaleSuffix()) || (entry.dtype != "F32" && entry.dtype != "BF16") || fitF16(entry);
    });
  return *scalesFitF16 ? nn::BlockScale::F16 : dtype == "BF16" ? nn::BlockScale::BF16 : nn::BlockScale::F32;
}

nn::BlockFormatAttr QuantizedCheckpoint::keptFormatOf(const QuantizedMatrix &matrix, const Scheme &scheme,
                                                      std::string &whyNot) {
  auto formatOf = [&](nn::BlockElement element, nn::BlockScale scale, int64_t block) {
    return nn::BlockFormatAttr::get(context, element, scale, block, /*axis=*/1);
  };
  whyNot = scheme.whyDecoded;
  if (!whyNot.empty())
    return nullptr;
  if (scheme.element == nn::BlockElement::Ternary) {
    // The packer computes scales of floats, and reciprocals, in f32.
    bool isComputed = scheme.inverse || !matrix.scales.tensor.entry;
    return formatOf(scheme.element,
                    isComputed ? nn::BlockScale::F32 : keptScaleOf(matrix.scales.tensor.entry->dtype, scheme), 0);
  }
  StringRef scaleType = matrix.scales.tensor.entry->dtype;
  if (scheme.element == nn::BlockElement::E2M1) // whose blocks are those of the format
    return formatOf(scheme.element, scaleType == "F8_E4M3" ? nn::BlockScale::E4M3 : nn::BlockScale::E8M0, scheme.group);
  if (scheme.rows > 1) {
    whyNot = "scales are those of blocks of rows";
    return nullptr;
  }
  if (scheme.element == nn::BlockElement::E4M3) {
    if (!scheme.group)
      return formatOf(scheme.element, nn::BlockScale::F32, 0);
    whyNot = "scales of FP8 are those of groups";
    return nullptr;
  }
  // The largest blocks that kernels are tested with and that groups consist of.
  int64_t block = 0;
  if (scheme.group)
    for (int64_t smaller : {32, 64, 128})
      block = scheme.group % smaller == 0 ? smaller : block;
  if (scheme.group && !block) {
    whyNot = "groups are of " + std::to_string(scheme.group) + " input features";
    return nullptr;
  }
  // Kernels multiply scales by zero points, which f32 holds exactly for scales of 16 bits.
  bool isAsymmetric = matrix.zeroPoints && scheme.element == nn::BlockElement::U4;
  if (isAsymmetric && block && keptScaleOf(scaleType, scheme) != nn::BlockScale::F32)
    return formatOf(scheme.element, keptScaleOf(scaleType, scheme), block);
  nn::IntegerElement stored = *nn::getIntegerElement(scheme.element);
  int64_t lowest = stored.lowest - (matrix.zeroPoints ? stored.highest : scheme.zero);
  int64_t highest = stored.highest - (matrix.zeroPoints ? 0 : scheme.zero);
  for (nn::BlockElement element :
       {nn::BlockElement::I4, nn::BlockElement::I5, nn::BlockElement::I6, nn::BlockElement::I8}) {
    nn::IntegerElement integer = *nn::getIntegerElement(element);
    if (integer.lowest <= lowest && highest <= integer.highest)
      return formatOf(element, keptScaleOf(scaleType, scheme), block);
  }
  whyNot = "zero points of " + std::to_string(stored.bits) + " bits make values of " + std::to_string(stored.bits + 1) +
           " bits";
  return nullptr;
}

/// Returns the name that --quantize has for a format: "int4-g128".
static std::string nameOf(nn::BlockFormatAttr format) {
  if (format.getElement() == nn::BlockElement::E4M3)
    return "fp8";
  if (format.getElement() == nn::BlockElement::E2M1)
    return format.getScale() == nn::BlockScale::E8M0 ? "mxfp4" : "nvfp4";
  bool isTernary = format.getElement() == nn::BlockElement::Ternary;
  bool isAsymmetric = format.getElement() == nn::BlockElement::U4;
  std::string name = isAsymmetric ? "int4-asymmetric"
                     : isTernary  ? "ternary"
                                  : "int" + std::to_string(nn::elementBits(format.getElement()));
  if (format.getBlock() != 32)
    name += format.getBlock() ? "-g" + std::to_string(format.getBlock()) : "-channel";
  if (format.getScale() != nn::BlockScale::F16)
    name += (" with scales in " + nn::stringifyBlockScale(format.getScale())).str();
  return name;
}

void QuantizedCheckpoint::setFormat(QuantizedMatrix &matrix, const Scheme &scheme) {
  std::string whyNot;
  nn::BlockFormatAttr format = keptFormatOf(matrix, scheme, whyNot);
  ++(format ? kept[nameOf(format)] : decoded[whyNot]);
  auto number = [&](float value, float byDefault) {
    return value == byDefault ? FloatAttr() : FloatAttr::get(Float32Type::get(context), value);
  };
  matrix.format =
      nn::ArchiveFormatAttr::get(context, scheme.order, scheme.element, scheme.group, scheme.rows, scheme.zero,
                                 scheme.inverse, number(scheme.scaleDivisor, 1), number(scheme.scaleOffset, 0), format);
}

//===-- Remarks -------------------------------------------------------------------------------------------------===//

void QuantizedCheckpoint::remark(const llvm::Twine &text) {
  std::string whole = settings.name() + ": " + text.str();
  if (!llvm::is_contained(remarkTexts, whole))
    remarkTexts.push_back(whole);
}

void QuantizedCheckpoint::remarkUnknown(const Config &section, llvm::ArrayRef<StringRef> known) {
  for (const auto &[key, value] : *section.value().getAsObject())
    if (!llvm::is_contained(known, StringRef(key)))
      remark("the setting '" + StringRef(key) + "' is not known and has no effect");
}

std::vector<std::string> QuantizedCheckpoint::remarks() const {
  std::vector<std::string> result = remarkTexts;
  std::string method = settings.name() + ": " + settings.string("quant_method", "") + ": ";
  for (const auto &[format, number] : kept)
    result.push_back(method + "matrices kept at their bits, as " + format + ": " + std::to_string(number));
  for (const auto &[reason, number] : decoded)
    result.push_back(method + "matrices dequantized to f32, which --quantize can quantize again: " +
                     std::to_string(number) + ", because " + reason);
  return result;
}

} // namespace intarsia::importer
