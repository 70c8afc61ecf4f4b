//===- Bitsandbytes.cpp - Weights quantized by bitsandbytes -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Values of 4 bits index a codebook (NF4 or FP4), 64 that follow one another share a scale, and 256 scales may be bytes
// of a codebook themselves. Values of 8 bits have a scale for each row. Sources: bitsandbytes, functional.py
// (QuantState, int8_vectorwise_dequant) and backends/default/ops.py; transformers, quantizers/quantizer_bnb_4bit.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

using namespace mlir;
using llvm::StringRef;

namespace intarsia::importer {
namespace {

constexpr StringRef stateSuffixes[] = {"weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4"};

class Bitsandbytes : public QuantizedCheckpoint {
public:
  using QuantizedCheckpoint::QuantizedCheckpoint;

  void readSettings() {
    is4Bit = settings.flag("load_in_4bit", false);
    if (!is4Bit && !settings.flag("load_in_8bit", false))
      return report("has neither load_in_4bit nor load_in_8bit");
    if (std::string storage = settings.string("bnb_4bit_quant_storage", "uint8"); is4Bit && storage != "uint8")
      settings.refuse("bnb_4bit_quant_storage", storage, {"uint8"});
    if (!is4Bit && settings.has("llm_int8_threshold"))
      remark("llm_int8_threshold has no effect: --quantize-activations says how inputs of linears are multiplied");
    remarkUnknown(settings, {"_load_in_4bit", "_load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage",
                             "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "llm_int8_enable_fp32_cpu_offload",
                             "llm_int8_has_fp16_weight", "llm_int8_skip_modules", "llm_int8_threshold", "load_in_4bit",
                             "load_in_8bit", "modules_to_not_convert", "quant_method"});
  }

protected:
  StringRef scaleSuffix() const override { return is4Bit ? ".weight.absmax" : ".SCB"; }
  bool holds(StringRef module) const override { return archive.find((module + scaleSuffix()).str()).has_value(); }

  std::optional<QuantizedMatrix> read(const Request &request) override {
    return is4Bit ? read4Bits(request) : read8Bits(request);
  }

private:
  std::optional<QuantizedMatrix> read8Bits(const Request &request) {
    int64_t outputs = request.outputs.size;
    std::optional<QuantizedMatrix::Part> values =
        part(request.key("weight"), {"I8"}, llvm::ArrayRef<int64_t>{outputs, request.inputs.size});
    std::optional<QuantizedMatrix::Part> scales = part(request.key("SCB"), {"F32"}, llvm::ArrayRef<int64_t>{outputs});
    if (!values || !scales)
      return std::nullopt;
    QuantizedMatrix matrix{*values, *scales};
    // The largest magnitude of a row is stored, which the integer 127 stands for.
    setFormat(matrix, {.order = nn::ArchiveOrder::Rows, .element = nn::BlockElement::I8, .scaleDivisor = 127});
    return matrix;
  }

  /// Returns the settings that a matrix of 4 bits has as the text of a tensor.
  std::optional<Config> readState(const Request &request) {
    for (StringRef suffix : stateSuffixes)
      if (std::optional<WeightArchive::Tensor> tensor = archive.find(request.key(suffix))) {
        StringRef text(static_cast<const char *>(tensor->entry->data), tensor->entry->bytes());
        std::string where = tensor->file->name + ": tensor '" + tensor->entry->name + "'";
        llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
        if (!parsed) {
          settings.sink().report(where + ": " + llvm::toString(parsed.takeError()));
          return std::nullopt;
        }
        if (const llvm::json::Object *object = parsed->getAsObject())
          return Config::of(*object, where, settings.sink());
        settings.sink().report(where + " is no JSON object");
        return std::nullopt;
      }
    settings.sink().report(archive.name() + ": has no tensor '" + request.key(stateSuffixes[0]) + "', which " +
                           settings.name() + " implies; is the download complete?");
    return std::nullopt;
  }

  std::optional<QuantizedMatrix> read4Bits(const Request &request) {
    int64_t outputs = request.outputs.size, inputs = request.inputs.size;
    std::optional<Config> state = readState(request);
    if (!state)
      return std::nullopt;
    int64_t block = state->integer("blocksize", 64, 2);
    if (std::vector<double> shape = state->numbers("shape", 1, 1 << 30);
        shape != std::vector<double>{double(outputs), double(inputs)}) {
      state->report("says another shape than config.json, which implies " +
                    shapeText(llvm::ArrayRef<int64_t>{outputs, inputs}));
      return std::nullopt;
    }
    if (!checkMultiple(request, request.inputs, block, "values that share a scale"))
      return std::nullopt;
    int64_t blocks = outputs * (inputs / block);
    bool isNested = state->has("nested_blocksize");
    std::optional<QuantizedMatrix::Part> values =
        part(request.key("weight"), {"U8"}, llvm::ArrayRef<int64_t>{outputs * inputs / 2, 1});
    std::optional<QuantizedMatrix::Part> codebook =
        part(request.key("weight.quant_map"), {"F32"}, llvm::ArrayRef<int64_t>{16});
    std::optional<QuantizedMatrix::Part> scales = part(
        request.key("weight.absmax"), {isNested ? StringRef("U8") : StringRef("F32")}, llvm::ArrayRef<int64_t>{blocks});
    if (!values || !codebook || !scales)
      return std::nullopt;
    values->type = RankedTensorType::get({outputs, inputs / 2}, values->type.getElementType());
    Scheme scheme = {.order = nn::ArchiveOrder::HighFirst,
                     .element = nn::BlockElement::U4,
                     .group = block,
                     .whyDecoded = "no kernel multiplies values of a codebook"};
    QuantizedMatrix matrix{*values, *scales};
    matrix.codebook = codebook;
    if (isNested && !readNestedScales(request, *state, matrix, scheme))
      return std::nullopt;
    setFormat(matrix, scheme);
    return matrix;
  }

  bool readNestedScales(const Request &request, const Config &state, QuantizedMatrix &matrix, Scheme &scheme) {
    int64_t scales = matrix.scales.type.getNumElements(), block = state.integer("nested_blocksize", 256);
    std::optional<QuantizedMatrix::Part> nested =
        part(request.key("weight.nested_absmax"), {"F32"},
             llvm::ArrayRef<int64_t>{int64_t(llvm::divideCeil(scales, block))});
    std::optional<QuantizedMatrix::Part> codebook =
        part(request.key("weight.nested_quant_map"), {"F32"}, llvm::ArrayRef<int64_t>{256});
    if (!nested || !codebook)
      return false;
    scheme.scaleOffset = static_cast<float>(state.number("nested_offset", 0, -1e30, 1e30));
    matrix.nestedScales = std::make_shared<QuantizedMatrix>(QuantizedMatrix{matrix.scales, *nested});
    matrix.nestedScales->values.type = RankedTensorType::get({1, scales}, matrix.scales.type.getElementType());
    matrix.nestedScales->codebook = codebook;
    matrix.nestedScales->format = nn::ArchiveFormatAttr::get(
        context, nn::ArchiveOrder::Rows, nn::BlockElement::I8, block, /*rows=*/1, /*zero=*/0,
        /*inverse=*/false, /*scaleDivisor=*/FloatAttr(), /*scaleOffset=*/FloatAttr(), /*kept=*/nn::BlockFormatAttr());
    return true;
  }

  bool is4Bit = true;
};

} // namespace

std::unique_ptr<QuantizedCheckpoint> openBitsandbytes(const Config &settings, const WeightArchive &archive,
                                                      MLIRContext *context) {
  auto checkpoint = std::make_unique<Bitsandbytes>(settings, archive, context);
  checkpoint->readSettings();
  return checkpoint;
}

} // namespace intarsia::importer
