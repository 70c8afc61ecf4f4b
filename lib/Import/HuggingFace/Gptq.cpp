//===- Gptq.cpp - Weights quantized by GPTQ's and AWQ's tools -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Both store words `qweight` and `qzeros` of 32 bits and `scales`; GPTQ packs along input features and AWQ along output
// features. Sources: AutoGPTQ, auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py; GPTQModel,
// gptqmodel/nn_modules/qlinear/torch.py and utils/model.py (convert_gptq_v1_to_v2_format); AutoAWQ,
// awq/modules/linear/gemm.py and awq/utils/packing_utils.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

using namespace mlir;
using llvm::StringRef;

namespace intarsia::importer {
namespace {

/// A checkpoint of GPTQ or AWQ: both store words of integers, scales and zero points.
class WordsAndScales : public QuantizedCheckpoint {
public:
  using QuantizedCheckpoint::QuantizedCheckpoint;

protected:
  StringRef scaleSuffix() const override { return ".scales"; }
  bool holds(StringRef module) const override { return archive.find((module + ".qweight").str()).has_value(); }

  void readGroupSize() {
    group = settings.integer("group_size", 128, -1);
    if (group == 0)
      report("group_size is 0, expected -1 or a positive number");
    group = std::max<int64_t>(group, 0);
  }

  /// Returns the number of groups of a matrix; reports words that are not full.
  std::optional<int64_t> countGroups(const Request &request, int64_t perWord) {
    if (!checkMultiple(request, request.inputs, perWord, "integers in a word") ||
        !checkMultiple(request, request.outputs, perWord, "integers in a word"))
      return std::nullopt;
    return group ? llvm::divideCeil(request.inputs.size, group) : 1;
  }

  /// Reads scales and zero points. Zero points that are all half of the range become the format's zero.
  std::optional<QuantizedMatrix> readParts(const Request &request, llvm::ArrayRef<int64_t> shape, int64_t groups,
                                           Scheme &scheme) {
    int64_t outputs = request.outputs.size, perWord = 32 / bits, half = int64_t(1) << (bits - 1);
    std::optional<QuantizedMatrix::Part> values = part(request.key("qweight"), {"I32"}, shape);
    std::optional<QuantizedMatrix::Part> scales =
        part(request.key("scales"), {"F16", "BF16", "F32"}, llvm::ArrayRef<int64_t>{groups, outputs});
    std::optional<QuantizedMatrix::Part> zeros =
        part(request.key("qzeros"), {"I32"}, llvm::ArrayRef<int64_t>{groups, outputs / perWord});
    if (!values || !scales || !zeros)
      return std::nullopt;
    QuantizedMatrix matrix{*values, *scales};
    if (areAll(zeros->tensor, bits, half - scheme.zero))
      scheme.zero = half;
    else
      matrix.zeroPoints = zeros;
    return matrix;
  }

  int64_t bits = 4, group = 128;
};

class Gptq : public WordsAndScales {
public:
  using WordsAndScales::WordsAndScales;

  void readSettings() {
    bits = settings.integer("bits", 4, 1, 32);
    if (bits != 4 && bits != 8)
      settings.refuse("bits", std::to_string(bits), {"4", "8"});
    readGroupSize();
    statedGroup = group;
    hasActivationOrder = settings.flag("desc_act", false);
    StringRef setting = settings.spelling("checkpoint_format", "format"); // the second is GPTQModel's
    if (std::string format = settings.string(setting, "gptq"); format == "gptq_v2")
      storedZero = 0;
    else if (format != "gptq")
      settings.refuse(setting, format, {"gptq", "gptq_v2"});
    if (std::string type = settings.string("pack_dtype", "int32"); type != "int32")
      settings.refuse("pack_dtype", type, {"int32"});
    settings.refuseIfSet("is_marlin_format", "its words are ordered for one kind of GPU; save it as 'gptq'");
    if (std::optional<Config> dynamic = settings.section("dynamic"))
      readRules(*dynamic);
    settings.refuseIfSet("adapter", "merge it into the model");
    remarkUnknown(settings, {"adapter",
                             "backend",
                             "batch_size",
                             "bits",
                             "block_name_to_quantize",
                             "cache_block_outputs",
                             "checkpoint_format",
                             "damp_percent",
                             "dataset",
                             "desc_act",
                             "dynamic",
                             "exllama_config",
                             "format",
                             "group_size",
                             "is_marlin_format",
                             "lm_head",
                             "max_input_length",
                             "meta",
                             "model_file_base_name",
                             "model_name_or_path",
                             "model_seqlen",
                             "module_name_preceding_first_block",
                             "modules_in_block_to_quantize",
                             "pack_dtype",
                             "pad_token_id",
                             "quant_method",
                             "static_groups",
                             "sym",
                             "tokenizer",
                             "true_sequential",
                             "use_cuda_fp16",
                             "use_exllama"});
  }

protected:
  std::optional<QuantizedMatrix> read(const Request &request) override {
    if (hasRules && !readSizes(request))
      return std::nullopt;
    int64_t perWord = 32 / bits;
    std::optional<int64_t> groups = countGroups(request, perWord);
    if (!groups)
      return std::nullopt;
    Scheme scheme = {.order = nn::ArchiveOrder::Columns,
                     .element = bits == 4 ? nn::BlockElement::U4 : nn::BlockElement::U8,
                     .group = group,
                     .zero = storedZero};
    std::optional<QuantizedMatrix> matrix =
        readParts(request, {request.inputs.size / perWord, request.outputs.size}, *groups, scheme);
    std::string indices = request.key("g_idx");
    if (!matrix || ((hasActivationOrder || archive.find(indices)) &&
                    !readGroupIndices(*matrix, indices, request, scheme, /*areEqual=*/false)))
      return std::nullopt;
    setFormat(*matrix, scheme);
    return matrix;
  }

private:
  /// Reads GPTQModel's rules for modules by pattern. "-:PATTERN" leaves modules out, "PATTERN" and "+:PATTERN" give
  /// them other settings. Tensors show which rule a module is under, so that patterns are not read.
  void readRules(const Config &rules) {
    hasRules = true;
    for (const auto &[pattern, value] : *rules.value().getAsObject()) {
      std::optional<Config> rule = rules.section(pattern);
      if (!rule || StringRef(pattern).starts_with("-:"))
        continue;
      for (const auto &[key, setting] : *rule->value().getAsObject())
        if (StringRef name(key);
            !llvm::is_contained({StringRef("bits"), StringRef("group_size"), StringRef("sym"), StringRef("desc_act"),
                                 StringRef("damp_percent"), StringRef("damp_auto_increment"), StringRef("mse")},
                                name))
          rule->report("the setting '" + name + "' is not supported in a rule");
    }
  }

  /// Reads bits and the size of groups from the shapes of a module's tensors.
  bool readSizes(const Request &request) {
    std::optional<QuantizedMatrix::Part> values = part(request.key("qweight"), {"I32"}, std::nullopt);
    std::optional<QuantizedMatrix::Part> scales = part(request.key("scales"), {"F16", "BF16", "F32"}, std::nullopt);
    if (!values || !scales)
      return false;
    int64_t inputs = request.inputs.size;
    bits = values->type.getRank() == 2 ? values->type.getDimSize(0) * 32 / inputs : 0;
    int64_t groups = scales->type.getRank() == 2 ? scales->type.getDimSize(0) : 0;
    if ((bits != 4 && bits != 8) || groups <= 0) {
      settings.sink().report(values->tensor.file->name + ": '" + request.key("qweight") + "' is " +
                             shapeText(values->type.getShape()) + " and '" + request.key("scales") + "' " +
                             shapeText(scales->type.getShape()) + ", which matrices of " + llvm::Twine(inputs) +
                             " input features with 4 or 8 bits do not have");
      return false;
    }
    bool isStated = statedGroup && int64_t(llvm::divideCeil(inputs, statedGroup)) == groups;
    group = groups == 1 ? 0 : isStated ? statedGroup : llvm::divideCeil(inputs, groups);
    return true;
  }

  bool hasActivationOrder = false, hasRules = false;
  int64_t statedGroup = 0;
  int64_t storedZero = 1; // what zero points are stored without
};

class Awq : public WordsAndScales {
public:
  using WordsAndScales::WordsAndScales;

  void readSettings() {
    if (int64_t given = settings.integer("bits", 4, 1, 32); given != 4)
      settings.refuse("bits", std::to_string(given), {"4"});
    readGroupSize();
    if (std::string version = StringRef(settings.string("version", "gemm")).lower(); version != "gemm")
      settings.refuse("version", version, {"gemm"});
    remarkUnknown(settings, {"backend", "bits", "do_fuse", "exllama_config", "fuse_max_seq_len", "group_size",
                             "modules_to_fuse", "modules_to_not_convert", "quant_method", "version", "zero_point"});
  }

protected:
  std::optional<QuantizedMatrix> read(const Request &request) override {
    std::optional<int64_t> groups = countGroups(request, /*perWord=*/8);
    if (!groups)
      return std::nullopt;
    Scheme scheme = {.order = nn::ArchiveOrder::Interleaved, .element = nn::BlockElement::U4, .group = group};
    std::optional<QuantizedMatrix> matrix =
        readParts(request, {request.inputs.size, request.outputs.size / 8}, *groups, scheme);
    if (matrix)
      setFormat(*matrix, scheme);
    return matrix;
  }
};

} // namespace

std::unique_ptr<QuantizedCheckpoint> openGptq(const Config &settings, const WeightArchive &archive,
                                              MLIRContext *context) {
  auto checkpoint = std::make_unique<Gptq>(settings, archive, context);
  checkpoint->readSettings();
  return checkpoint;
}

std::unique_ptr<QuantizedCheckpoint> openAwq(const Config &settings, const WeightArchive &archive,
                                             MLIRContext *context) {
  auto checkpoint = std::make_unique<Awq>(settings, archive, context);
  checkpoint->readSettings();
  return checkpoint;
}

} // namespace intarsia::importer
