//===- BitNet.cpp - Ternary weights of BitNet b1.58 ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// As transformers reads them (integrations/bitnet.py): a byte holds the values of four output features, a quarter of
// all of them apart, and a matrix has one scale. AutoBitLinear multiplies values by it, BitLinear divides them. In the
// quantization mode "online" the archive holds floats, which the model rounds each time it runs.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

using namespace mlir;
using llvm::StringRef;

namespace intarsia::importer {
namespace {

/// Output features whose values share a byte.
constexpr int64_t valuesOfByte = 4;

class BitNet : public QuantizedCheckpoint {
public:
  using QuantizedCheckpoint::QuantizedCheckpoint;

  void readSettings() {
    std::string linear = settings.string("linear_class", "bitlinear"),
                mode = settings.string("quantization_mode", "offline");
    if (linear != "bitlinear" && linear != "autobitlinear")
      settings.refuse("linear_class", linear, {"autobitlinear", "bitlinear"});
    if (mode != "offline" && mode != "online")
      settings.refuse("quantization_mode", mode, {"offline", "online"});
    // BitLinear has no other mode.
    isOnline = mode == "online" && linear == "autobitlinear";
    divides = linear == "bitlinear";
    settings.refuseIfSet("use_rms_norm", "a norm before each linear is not imported");
    if (settings.has("modules_to_not_convert"))
      excluded = settings.strings("modules_to_not_convert");
    remark("inputs of linears are quantized as --quantize-activations says: 8 gives each token a scale for 256 "
           "features, where the model has one for all of them");
    remarkUnknown(settings, {"linear_class", "modules_to_not_convert", "quant_method", "quantization_mode",
                             "rms_norm_eps", "use_rms_norm"});
  }

protected:
  StringRef scaleSuffix() const override { return isOnline ? ".weight" : ".weight_scale"; }

  bool holds(StringRef module) const override {
    std::optional<WeightArchive::Tensor> weight = archive.find((module + ".weight").str());
    if (!weight)
      return false;
    // A scale says that the matrix is ternary whatever its type, which read() refuses if it is no U8.
    if (!isOnline)
      return weight->entry->dtype == "U8" || archive.find((module + ".weight_scale").str());
    // transformers converts all linears but those that are named, and the head.
    bool isLinear = StringRef(module).ends_with("_proj");
    return isLinear && llvm::none_of(excluded, [&](StringRef name) { return module.contains(name); });
  }

  std::optional<QuantizedMatrix> read(const Request &request) override {
    int64_t outputs = request.outputs.size, inputs = request.inputs.size;
    Scheme scheme = {.order = nn::ArchiveOrder::Quarters, .element = nn::BlockElement::Ternary, .rows = 0, .zero = 1};
    if (isOnline) {
      std::optional<QuantizedMatrix::Part> values =
          part(request.key("weight"), {"F32", "BF16", "F16"}, llvm::ArrayRef<int64_t>{outputs, inputs});
      if (!values)
        return std::nullopt;
      scheme.order = nn::ArchiveOrder::Rows;
      QuantizedMatrix matrix{*values, {}};
      setFormat(matrix, scheme);
      return matrix;
    }
    if (!checkMultiple(request, request.outputs, valuesOfByte, "values of a byte"))
      return std::nullopt;
    std::optional<QuantizedMatrix::Part> values =
        part(request.key("weight"), {"U8"}, llvm::ArrayRef<int64_t>{outputs / valuesOfByte, inputs});
    std::string key = request.key("weight_scale");
    std::optional<QuantizedMatrix::Part> scale = part(key, {"F32", "BF16", "F16"}, std::nullopt);
    if (!values || !scale)
      return std::nullopt;
    if (scale->type.getNumElements() != 1) {
      settings.sink().report(scale->tensor.file->name + ": tensor '" + key + "' has " +
                             llvm::Twine(scale->type.getNumElements()) + " scales, a ternary matrix has one");
      return std::nullopt;
    }
    QuantizedMatrix matrix{*values, *scale};
    scheme.inverse = divides;
    setFormat(matrix, scheme);
    return matrix;
  }

private:
  bool isOnline = false, divides = false;
  llvm::SmallVector<std::string> excluded;
};

} // namespace

std::unique_ptr<QuantizedCheckpoint> openBitNet(const Config &settings, const WeightArchive &archive,
                                                MLIRContext *context) {
  auto checkpoint = std::make_unique<BitNet>(settings, archive, context);
  checkpoint->readSettings();
  return checkpoint;
}

} // namespace intarsia::importer
