//===- Fp8.cpp - Weights in FP8 with scales of blocks -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// As DeepSeek-V3 publishes its weights (inference/kernel.py, weight_dequant), and transformers its "fp8": a scale for
// each block of 128 x 128, "weight_scale_inv", which values are multiplied by; or without blocks one for a tensor,
// "weight_scale".
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/QuantizedCheckpoint.h"

using namespace mlir;
using llvm::StringRef;

namespace intarsia::importer {
namespace {

class Fp8 : public QuantizedCheckpoint {
public:
  using QuantizedCheckpoint::QuantizedCheckpoint;

  void readSettings() {
    if (std::string format = settings.string("fmt", "e4m3"); format != "e4m3" && format != "float8_e4m3fn")
      settings.refuse("fmt", format, {"e4m3"});
    remark("activation_scheme '" + settings.string("activation_scheme", "dynamic") +
           "' has no effect: --quantize-activations says how inputs of linears are multiplied");
    if (settings.has("weight_block_size")) {
      std::vector<double> sizes = settings.numbers("weight_block_size", 1, 1 << 20);
      if (sizes.size() != 2)
        return report("weight_block_size is no list of two numbers");
      rows = int64_t(sizes[0]);
      group = int64_t(sizes[1]);
    }
    remarkUnknown(settings, {"activation_scheme", "fmt", "ignored_layers", "modules_to_not_convert", "quant_method",
                             "scale_fmt", "weight_block_size"});
  }

protected:
  StringRef scaleSuffix() const override { return rows ? ".weight_scale_inv" : ".weight_scale"; }

  bool holds(StringRef module) const override {
    std::optional<WeightArchive::Tensor> weight = archive.find((module + ".weight").str());
    return weight && StringRef(weight->entry->dtype).starts_with("F8_");
  }

  std::optional<QuantizedMatrix> read(const Request &request) override {
    int64_t outputs = request.outputs.size, inputs = request.inputs.size;
    std::optional<QuantizedMatrix::Part> values =
        part(request.key("weight"), {"F8_E4M3"}, llvm::ArrayRef<int64_t>{outputs, inputs});
    std::string key = (request.module + scaleSuffix()).str();
    std::optional<llvm::ArrayRef<int64_t>> shape;
    int64_t blocks[2] = {int64_t(llvm::divideCeil(outputs, std::max<int64_t>(rows, 1))),
                         int64_t(llvm::divideCeil(inputs, std::max<int64_t>(group, 1)))};
    if (rows)
      shape = llvm::ArrayRef<int64_t>(blocks);
    std::optional<QuantizedMatrix::Part> scales = part(key, {"F32", "BF16", "F16", "F8_E8M0"}, shape);
    if (!values || !scales)
      return std::nullopt;
    if (!rows && scales->type.getNumElements() != 1) {
      settings.sink().report(scales->tensor.file->name + ": tensor '" + key + "' has " +
                             llvm::Twine(scales->type.getNumElements()) +
                             " scales, without weight_block_size one is expected");
      return std::nullopt;
    }
    QuantizedMatrix matrix{*values, *scales};
    setFormat(matrix,
              {.order = nn::ArchiveOrder::Rows, .element = nn::BlockElement::E4M3, .group = group, .rows = rows});
    return matrix;
  }

private:
  int64_t rows = 0, group = 0; // of a block; 0: one scale for a tensor
};

} // namespace

std::unique_ptr<QuantizedCheckpoint> openFp8(const Config &settings, const WeightArchive &archive,
                                             MLIRContext *context) {
  auto checkpoint = std::make_unique<Fp8>(settings, archive, context);
  checkpoint->readSettings();
  return checkpoint;
}

} // namespace intarsia::importer
