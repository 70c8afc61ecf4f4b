//===- MathImports.cpp - C's mathematics library for kernels that run on the host ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/MathImports.h"

#include <math.h>
#include <string_view>

namespace intarsia::runtime {

namespace {
struct Import {
  std::string_view name;
  void *function;
};
} // namespace

/// A function on double and the one on float, whose name ends in f.
#define UNARY(name)                                                                                                    \
  {#name, reinterpret_cast<void *>(static_cast<double (*)(double)>(::name))}, {                                        \
    #name "f", reinterpret_cast<void *>(static_cast<float (*)(float)>(::name##f))                                      \
  }
#define BINARY(name)                                                                                                   \
  {#name, reinterpret_cast<void *>(static_cast<double (*)(double, double)>(::name))}, {                                \
    #name "f", reinterpret_cast<void *>(static_cast<float (*)(float, float)>(::name##f))                               \
  }
#define TERNARY(name)                                                                                                  \
  {#name, reinterpret_cast<void *>(static_cast<double (*)(double, double, double)>(::name))}, {                        \
    #name "f", reinterpret_cast<void *>(static_cast<float (*)(float, float, float)>(::name##f))                        \
  }

/// What MLIR's lowering to C's mathematics library calls, and what LLVM makes of intrinsics that a processor lacks.
void *findMathFunction(const std::string &name) {
  static const Import imports[] = {
      UNARY(acos),  UNARY(acosh),     UNARY(asin),   UNARY(asinh),  UNARY(atan),       UNARY(atanh),
      UNARY(cbrt),  UNARY(ceil),      UNARY(cos),    UNARY(cosh),   UNARY(erf),        UNARY(erfc),
      UNARY(exp),   UNARY(exp2),      UNARY(expm1),  UNARY(fabs),   UNARY(floor),      UNARY(lgamma),
      UNARY(log),   UNARY(log10),     UNARY(log1p),  UNARY(log2),   UNARY(nearbyint),  UNARY(rint),
      UNARY(round), UNARY(roundeven), UNARY(sin),    UNARY(sinh),   UNARY(sqrt),       UNARY(tan),
      UNARY(tanh),  UNARY(tgamma),    UNARY(trunc),  BINARY(atan2), BINARY(copysign),  BINARY(fmax),
      BINARY(fmin), BINARY(fmod),     BINARY(hypot), BINARY(pow),   BINARY(remainder), TERNARY(fma),
  };
  for (const Import &import : imports)
    if (import.name == name)
      return import.function;
  return nullptr;
}

} // namespace intarsia::runtime
