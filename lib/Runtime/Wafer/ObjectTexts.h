//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// These tables hold the names that objects have for the enumerators of programs and views.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_OBJECTTEXTS_H
#define INTARSIA_LIB_RUNTIME_WAFER_OBJECTTEXTS_H

namespace intarsia::wafer {

// Texts of enumerators, by their number.
inline constexpr const char *axes[] = {"none", "x", "y"};
inline constexpr const char *skews[] = {"none", "rows", "columns"};
inline constexpr const char *viewKinds[] = {"strided",     "gathered", "heads", "positions",
                                            "frequencies", "cache",    "codes", "scales"};
inline constexpr const char *ops[] = {"send", "receive", "forward", "await", "compute", "repeat"};
inline constexpr const char *computations[] = {
    "zero", "copy",        "add",   "multiply",        "exp",    "silu",   "gelu",    "gelu_tanh",  "relu", "tanh",
    "sum",  "sum_squares", "scale", "shift",           "affine", "rsqrt",  "largest", "reciprocal", "mask", "take",
    "put",  "collect",     "gemm",  "gemm_transposed", "gemv",   "rotate", "decode"};

} // namespace intarsia::wafer

#endif
