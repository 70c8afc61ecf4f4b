//===- WeightFormats.cpp - The formats that users name -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize/Quantize.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/Quantize/MixedInputs.h"
#include "lib/Quantize/BlockCodec.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace intarsia {

namespace {
struct NamedFormat {
  llvm::StringLiteral name;
  nn::BlockElement element;
  nn::BlockScale scale;
  int64_t block;
  bool takesGroup;
};
} // namespace

// Most tools for CPUs use groups of 32 with f16 scales (4.5 bits a weight); MXFP4 and NVFP4 fix their groups. FP8 has a
// scale for each row, as most checkpoints in FP8 have (compressed-tensors, "FP8_DYNAMIC"): matrix instructions add up a
// whole row before it is scaled.
static constexpr NamedFormat formats[] = {
    {"int4", nn::BlockElement::I4, nn::BlockScale::F16, 32, true},
    {"int4-asymmetric", nn::BlockElement::U4, nn::BlockScale::F16, 32, true},
    {"int5", nn::BlockElement::I5, nn::BlockScale::F16, 32, true},
    {"int6", nn::BlockElement::I6, nn::BlockScale::F16, 32, true},
    {"int8", nn::BlockElement::I8, nn::BlockScale::F16, 32, true},
    {"ternary", nn::BlockElement::Ternary, nn::BlockScale::F16, 32, true},
    {"fp8", nn::BlockElement::E4M3, nn::BlockScale::F32, 0, false},
    {"mxfp4", nn::BlockElement::E2M1, nn::BlockScale::E8M0, 32, false},
    {"nvfp4", nn::BlockElement::E2M1, nn::BlockScale::E4M3, 16, false},
};

namespace {
struct NamedPart {
  llvm::StringLiteral name;
  bool isSensitive; ///< true if it has int6 when other weights have 4 bits or fewer
};
} // namespace

static constexpr NamedPart parts[] = {{"linears", false}, {"experts", false}, {"lm_head", true}, {"embedding", true}};

std::string weightFormatNames() {
  std::string integers, others;
  for (const NamedFormat &format : formats)
    (format.takesGroup ? integers : others) += (format.name + ", ").str();
  integers.resize(integers.size() - 2);
  others.resize(others.size() - 2);
  return integers + " (also with groups: int4-g64, int4-g128, int4-channel), " + others + " and none";
}

llvm::Expected<nn::BlockFormatAttr> parseWeightFormat(llvm::StringRef name, MLIRContext *context) {
  constexpr llvm::StringLiteral asymmetric = "int4-asymmetric";
  auto [base, group] = name.starts_with(asymmetric)
                           ? std::pair(name.take_front(asymmetric.size()), name.drop_front(asymmetric.size()))
                           : name.split('-');
  bool isJoined = base != asymmetric || group.empty() || group.consume_front("-");
  const NamedFormat *format = llvm::find_if(formats, [&](const NamedFormat &known) { return known.name == base; });
  auto unknown = [&](const llvm::Twine &why) {
    return llvm::createStringError("unknown weight format '" + name + "'" + why + ": the formats are " +
                                   weightFormatNames());
  };
  if (format == std::end(formats) || !isJoined)
    return unknown("");
  int64_t block = format->block;
  if (!group.empty() || name.ends_with("-")) {
    if (!format->takesGroup)
      return unknown(", " + base + " has " +
                     (block ? "blocks of " + llvm::Twine(block).str() : "a scale for each row"));
    if (group == "channel" && haveZeroPoints(format->element))
      return unknown(", zero points are those of groups of 32, 64 or 128");
    if (group == "channel")
      block = 0;
    else if (!group.consume_front("g") || group.getAsInteger(10, block) || (block != 32 && block != 64 && block != 128))
      return unknown("");
  }
  context->getOrLoadDialect<nn::NnDialect>();
  return nn::BlockFormatAttr::get(context, format->element, format->scale, block, /*axis=*/1);
}

std::string weightFormatName(nn::BlockFormatAttr format) {
  const NamedFormat *named = llvm::find_if(formats, [&](const NamedFormat &known) {
    return known.element == format.getElement() && known.scale == format.getScale();
  });
  assert(named != std::end(formats) && "is no format of weights");
  if (!named->takesGroup || format.getBlock() == named->block)
    return named->name.str();
  return (named->name + (format.getBlock() ? "-g" + llvm::Twine(format.getBlock()) : "-channel")).str();
}

llvm::Expected<llvm::StringMap<PartFormat>> parsePartFormats(const QuantizeOptions &options, MLIRContext *context) {
  auto whole = parseWeightFormat(options.format, context);
  if (!whole)
    return whole.takeError();
  // Inputs with few scales are multiplied by weights with one for each output feature.
  bool byChannel = haveFewScales(options.activations);
  auto defaultOf = [&](const NamedPart &part) {
    if (byChannel && part.name == "linears" && options.format == "int8")
      return PartFormat{llvm::cantFail(parseWeightFormat("int8-channel", context)), "int8-channel"};
    bool isWidened = part.isSensitive && nn::elementBits(whole->getElement()) <= 4;
    return isWidened ? PartFormat{llvm::cantFail(parseWeightFormat("int6", context)), "int6"}
                     : PartFormat{*whole, options.format};
  };
  llvm::StringMap<PartFormat> result;
  if (options.parts.empty())
    for (const NamedPart &part : parts)
      result[part.name] = defaultOf(part);
  for (llvm::StringRef given : options.parts) {
    auto [name, format] = given.split('=');
    const NamedPart *part = llvm::find_if(parts, [&](const NamedPart &known) { return known.name == name; });
    if (part == std::end(parts)) {
      auto names = llvm::map_range(parts, [](const NamedPart &known) { return known.name.str(); });
      return llvm::createStringError("unknown part '" + name + "' to quantize: the parts are " +
                                     llvm::join(names, ", ") + ", each alone or with a format: lm_head=int8");
    }
    auto [entry, isNew] = result.try_emplace(name, defaultOf(*part));
    if (!isNew)
      return llvm::createStringError("part '" + name + "' to quantize is named twice");
    if (format.empty() && !given.contains('='))
      continue;
    if (format == "none")
      return llvm::createStringError("part '" + name +
                                     "' has the format none: leave it out of --quantize-parts to keep it as it is");
    if (byChannel && name == "linears" && format == "int8")
      format = "int8-channel";
    auto own = parseWeightFormat(format, context);
    if (!own)
      return llvm::createStringError("part '" + name + "': " + llvm::toString(own.takeError()));
    entry->second = {*own, format.str(), /*isNamed=*/true};
  }
  return result;
}

llvm::Expected<llvm::StringMap<nn::BlockFormatAttr>> parseTensorFormats(llvm::ArrayRef<std::string> tensors,
                                                                        MLIRContext *context) {
  llvm::StringMap<nn::BlockFormatAttr> result;
  for (llvm::StringRef given : tensors) {
    auto [key, name] = given.rsplit('=');
    if (key.empty() || name.empty())
      return llvm::createStringError("'" + given + "' names no format of a tensor: KEY=FORMAT does");
    nn::BlockFormatAttr format;
    if (name != "none") {
      auto parsed = parseWeightFormat(name, context);
      if (!parsed)
        return llvm::createStringError("tensor '" + key + "': " + llvm::toString(parsed.takeError()));
      format = *parsed;
    }
    if (!result.try_emplace(key, format).second)
      return llvm::createStringError("the format of tensor '" + key + "' is named twice");
  }
  return result;
}

llvm::Error checkMatmulPrecision(llvm::StringRef precision) {
  static constexpr llvm::StringLiteral known[] = {"stored", "f32", "tf32", "bf16", "f16"};
  if (llvm::is_contained(known, precision))
    return llvm::Error::success();
  return llvm::createStringError("unknown precision of matrix multiplications '" + precision +
                                 "': f32, tf32, bf16, f16 and stored are possible");
}

llvm::Error checkAttention(llvm::StringRef attention) {
  if (attention == "8" || attention == "16")
    return llvm::Error::success();
  return llvm::createStringError("unknown bits of attention '" + attention +
                                 "': 8 (integers with a scale for each row of a head) and 16 (as --matmul-precision "
                                 "says) are possible");
}

/// Formats of weights that the inputs of linears may have too.
static constexpr llvm::StringLiteral inputFormats[] = {"fp8", "mxfp4", "nvfp4"};

bool quantizesInputsTo(llvm::StringRef activations, nn::BlockFormatAttr weights) {
  const NamedFormat *format =
      llvm::find_if(formats, [&](const NamedFormat &known) { return known.name == activations; });
  return format != std::end(formats) && llvm::is_contained(inputFormats, activations) &&
         weights.getElement() == format->element && weights.getScale() == format->scale &&
         weights.getBlock() == format->block;
}

llvm::Error checkActivations(llvm::StringRef activations) {
  if (activations == "8" || haveFewScales(activations) || activations == "16" || activations == mixedActivations ||
      llvm::is_contained(inputFormats, activations))
    return llvm::Error::success();
  return llvm::createStringError(
      "unknown activations '" + activations +
      "': they are 8 (integers of 8 bits), 8-wide, 8-token (with a scale for 256 "
      "features or for each token, beside int8 weights with one for each output), 8-static (the same "
      "with scales found by `intarsia quantize`), fmpq "
      "(blocks of 8 and of 4 bits, chosen by `intarsia quantize`), fp8 "
      "(E4M3), mxfp4 or nvfp4 (E2M1, with scales of "
      "blocks), or 16 (as they are)");
}

/// Returns an error if no input is quantized as the user asks for, for the weights that are multiplied by them.
static llvm::Error checkActivationsOf(const llvm::StringMap<PartFormat> &formats, llvm::StringRef activations) {
  bool areFloats = llvm::is_contained(inputFormats, activations);
  auto isMultiplied = [&](const llvm::StringMapEntry<PartFormat> &part) {
    nn::BlockFormatAttr format = part.second.format;
    if (areFloats)
      return (part.first() == "linears" || part.first() == "lm_head") && quantizesInputsTo(activations, format);
    return part.first() != "embedding" && format.hasIntegerValues();
  };
  if (activations.empty() || activations == "16" || llvm::any_of(formats, isMultiplied))
    return llvm::Error::success();
  if (areFloats)
    return llvm::createStringError("--quantize-activations=" + activations + " is for linears whose weights are in " +
                                   activations + ", and none are: give --quantize=" + activations);
  return llvm::createStringError("--quantize-activations=" + activations +
                                 " multiplies integers of 8 bits, which do not hold the values "
                                 "of weights in fp8: leave it "
                                 "out, or quantize weights to int8");
}

llvm::Error checkQuantizeOptions(const QuantizeOptions &options) {
  if (options.format == "auto")
    return llvm::createStringError(
        "--quantize=auto chooses formats by what they lose on a text, which takes a step of "
        "its own: `intarsia quantize MODEL -o DIRECTORY --quantize=auto "
        "--calibration=TEXT.txt --bits=4.25` (or --size, --max-loss, --faster-than) writes a "
        "model directory, and this program compiles that for any target");
  if (llvm::Error error = checkCacheFormats(options.caches))
    return error;
  if (llvm::Error error = checkMatmulPrecision(options.matmulPrecision))
    return error;
  if (llvm::Error error = options.attention.empty() ? llvm::Error::success() : checkAttention(options.attention))
    return error;
  if (llvm::Error error = options.activations.empty() ? llvm::Error::success() : checkActivations(options.activations))
    return error;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  if (llvm::Error error = parseTensorFormats(options.tensors, &context).takeError())
    return error;
  if (llvm::Error error = parseMixedInputs(options.inputs).takeError())
    return error;
  if (llvm::Error error = parseStaticInputs(options.staticInputs).takeError())
    return error;
  // Which inputs are quantized follows from tensors that no part names.
  if (options.format == "none" && options.parts.empty() && !options.tensors.empty())
    return llvm::Error::success();
  if (options.format == "none" && options.parts.empty())
    return checkActivationsOf({}, llvm::is_contained(inputFormats, options.activations) ? options.activations : "");
  if (options.format == "none")
    return llvm::createStringError("parts to quantize are named, but no format: give --quantize");
  llvm::Expected<llvm::StringMap<PartFormat>> formats = parsePartFormats(options, &context);
  if (!formats || !options.tensors.empty())
    return formats.takeError();
  return checkActivationsOf(*formats, options.activations);
}

} // namespace intarsia
