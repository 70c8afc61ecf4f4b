//===- PlanPrecision.h - Precisions of plans as options of the compiler -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_PLANPRECISION_H
#define INTARSIA_LIB_SUPPORT_PLANPRECISION_H

#include <string_view>

namespace intarsia {

/// A precision of plans, and the values of --quantize and --matmul-precision that make it.
struct PlanPrecision {
  std::string_view name, format, matmul;
};
inline constexpr PlanPrecision planPrecisions[] = {
    {"f32", "none", "f32"},     {"f16", "none", "f16"},     {"bf16", "none", "bf16"},   {"fp8", "fp8", "stored"},
    {"int8", "int8", "stored"}, {"int4", "int4", "stored"}, {"fp4", "nvfp4", "stored"},
};
/// Returns null for a name that is none.
constexpr const PlanPrecision *findPlanPrecision(std::string_view name) {
  for (const PlanPrecision &each : planPrecisions)
    if (each.name == name)
      return &each;
  return nullptr;
}

} // namespace intarsia

#endif
