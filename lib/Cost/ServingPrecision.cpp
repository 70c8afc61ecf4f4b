//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Engines and formats of elements by name, and the precision that engines use for a checkpoint.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ServingCost.h"
#include "llvm/Support/ErrorHandling.h"

using namespace llvm;
using namespace intarsia;

static Error refuse(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

Expected<ServingEngine> intarsia::parseServingEngine(StringRef name) {
  for (int i = 0; i < servingEngines; ++i)
    if (servingEngineName(ServingEngine(i)) == name)
      return ServingEngine(i);
  return refuse("no figures of serving engine '" + name + "'; there are trtllm, vllm, sglang, splitwise");
}

StringRef intarsia::servingEngineName(ServingEngine engine) {
  static constexpr StringRef names[] = {"trtllm", "vllm", "sglang", "splitwise"};
  return names[int(engine)];
}

static constexpr std::pair<StringRef, NumberFormat> formats[] = {
    {"bf16", NumberFormat::BF16}, {"fp8", NumberFormat::FP8},   {"int8", NumberFormat::INT8},
    {"fp4", NumberFormat::FP4},   {"int4", NumberFormat::INT4}, {"f32", NumberFormat::F32}};

Expected<NumberFormat> intarsia::parseNumberFormat(StringRef name) {
  for (auto &[known, format] : formats)
    if (known == name)
      return format;
  return refuse("no number format '" + name + "'; there are bf16, fp8, int8, fp4, int4, f32");
}

StringRef intarsia::numberFormatName(NumberFormat format) { return formats[int(format)].first; }

double intarsia::bytesOf(NumberFormat format) {
  switch (format) {
  case NumberFormat::F32:
    return 4;
  case NumberFormat::BF16:
    return 2;
  case NumberFormat::FP8:
  case NumberFormat::INT8:
    return 1;
  case NumberFormat::FP4:
  case NumberFormat::INT4:
    return 0.5 + 1.0 / 16;
  }
  llvm_unreachable("all formats are listed");
}

ServingPrecision intarsia::usualPrecision(const ModelShape &shape, const CatalogueDevice &device, NumberFormat weights,
                                          NumberFormat cache) {
  ServingPrecision precision;
  precision.weights = weights;
  precision.attention = isFourBit(weights) && shape.experts ? NumberFormat::BF16 : weights;
  precision.cache = cache;
  bool computes = weights != NumberFormat::INT4 && device.peakTflops.count(numberFormatName(weights).str());
  precision.compute = computes ? weights : NumberFormat::BF16;
  return precision;
}
