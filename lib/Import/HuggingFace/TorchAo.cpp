//===- TorchAo.cpp - Weights quantized by torchao -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A weight is a tensor of integers or floats of 8 bits, scales and, of integers, zero points: `(q - zero) * scale`.
// Sources: torchao 0.18, prototype/safetensors/safetensors_support.py (names),
// quantization/quantize_/workflows/{int8/int8_tensor,intx/intx_unpacked_to_int8_tensor,float8/float8_tensor}.py
// (shapes), quantization/quant_primitives.py (dequantize_affine).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

using namespace mlir;
using llvm::StringRef;

namespace intarsia::importer {
namespace {

/// Ways to quantize whose weights have a byte for each value.
constexpr StringRef types[] = {"Int8WeightOnlyConfig",   "Int8DynamicActivationInt8WeightConfig",
                               "IntxWeightOnlyConfig",   "Int8DynamicActivationIntxWeightConfig",
                               "Float8WeightOnlyConfig", "Float8DynamicActivationFloat8WeightConfig"};

class TorchAo : public QuantizedCheckpoint {
public:
  using QuantizedCheckpoint::QuantizedCheckpoint;

  void readSettings() {
    remarkUnknown(settings, {"include_input_output_embeddings", "modules_to_not_convert", "quant_method", "quant_type",
                             "quant_type_kwargs", "untie_embedding_weights"});
    std::optional<Config> type = settings.section("quant_type");
    if (type)
      type = type->section("default");
    if (!type)
      return report("quant_type has no 'default'");
    std::string name = type->string("_type", "");
    if (!llvm::is_contained(types, StringRef(name)))
      return type->refuse("_type", name, types);
    if (name.find("DynamicActivation") != std::string::npos)
      remark(name + ": --quantize-activations says how inputs of linears are multiplied");
  }

protected:
  StringRef scaleSuffix() const override { return "._weight_scale"; }
  bool holds(StringRef module) const override { return archive.find((module + "._weight_qdata").str()).has_value(); }

  std::optional<QuantizedMatrix> read(const Request &request) override {
    int64_t outputs = request.outputs.size, inputs = request.inputs.size;
    std::optional<QuantizedMatrix::Part> values =
        part(request.key("_weight_qdata"), {"I8", "F8_E4M3"}, llvm::ArrayRef<int64_t>{outputs, inputs});
    std::optional<QuantizedMatrix::Part> scales =
        part(request.key("_weight_scale"), {"F32", "BF16", "F16"}, std::nullopt);
    if (!values || !scales)
      return std::nullopt;
    llvm::ArrayRef<int64_t> shape = scales->type.getShape();
    bool isMatrix = shape.size() == 2 && (shape[0] == outputs || shape[0] == 1) && inputs % shape[1] == 0;
    if (!isMatrix && scales->type.getNumElements() != 1) {
      settings.sink().report(scales->tensor.file->name + ": tensor '" + scales->tensor.entry->name + "' is " +
                             shapeText(shape) + ", scales of groups of rows are expected, " +
                             shapeText(llvm::ArrayRef<int64_t>{outputs, inputs}) + " values have them");
      return std::nullopt;
    }
    int64_t groups = isMatrix ? shape[1] : 1;
    bool isFloat = values->tensor.entry->dtype == "F8_E4M3";
    Scheme scheme = {.order = nn::ArchiveOrder::Rows,
                     .element = isFloat ? nn::BlockElement::E4M3 : nn::BlockElement::I8,
                     .group = groups == 1 ? 0 : inputs / groups,
                     .rows = isMatrix && shape[0] == outputs ? 1 : 0};
    QuantizedMatrix matrix{*values, *scales};
    if (!isFloat && !readZeroPoints(request, groups, matrix, scheme))
      return std::nullopt;
    setFormat(matrix, scheme);
    return matrix;
  }

private:
  /// Reads zero points unless all are 0. Reports others than integers of 8 bits.
  bool readZeroPoints(const Request &request, int64_t groups, QuantizedMatrix &matrix, const Scheme &scheme) {
    std::string key = request.key("_weight_zero_point");
    if (!archive.find(key)) // torchao leaves them out where they are 0
      return true;
    std::optional<QuantizedMatrix::Part> zeros = part(key, {"I8", "F32", "BF16", "F16"}, std::nullopt);
    if (!zeros)
      return false;
    if (isZero(zeros->tensor))
      return true;
    if (zeros->tensor.entry->dtype == "I8" && scheme.rows == 1 &&
        zeros->type.getNumElements() == request.outputs.size * groups) {
      zeros->type = RankedTensorType::get({request.outputs.size, groups}, zeros->type.getElementType());
      matrix.zeroPoints = zeros;
      return true;
    }
    settings.sink().report(zeros->tensor.file->name + ": tensor '" + key + "' has zero points of " +
                           zeros->tensor.entry->dtype + " " + shapeText(zeros->type.getShape()) +
                           ", which are not supported; supported: I8, one for each scale of a row");
    return false;
  }
};

} // namespace

std::unique_ptr<QuantizedCheckpoint> openTorchAo(const Config &settings, const WeightArchive &archive,
                                                 MLIRContext *context) {
  auto checkpoint = std::make_unique<TorchAo>(settings, archive, context);
  checkpoint->readSettings();
  return checkpoint;
}

} // namespace intarsia::importer
