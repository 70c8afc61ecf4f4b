//===- GgmlTypes.h - Element types of GGUF files ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table that the parser, the decoder and #nn.ggml_type share. Numbers and sizes are those of GGMLQuantizationType
// and GGML_QUANT_SIZES in the `gguf` package.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_GGMLTYPES_H
#define INTARSIA_LIB_FORMATS_GGMLTYPES_H

#include <cstdint>
#include <string_view>

namespace intarsia {

/// A tensor is rows of blocks; a block holds `elements` values in `bytes` bytes.
struct GgmlType {
  std::string_view name;    ///< as ggml prints it
  std::string_view keyword; ///< in IR: #nn.ggml_type<q4_k>
  uint32_t number;          ///< in files
  uint32_t elements, bytes; ///< of a block
  bool isDecoded;           ///< true if gguf::decodeBlocks supports it
};

inline constexpr GgmlType ggmlTypes[] = {
    {"F32", "f32", 0, 1, 4, true},
    {"F16", "f16", 1, 1, 2, true},
    {"Q4_0", "q4_0", 2, 32, 18, true},
    {"Q4_1", "q4_1", 3, 32, 20, true},
    {"Q5_0", "q5_0", 6, 32, 22, true},
    {"Q5_1", "q5_1", 7, 32, 24, true},
    {"Q8_0", "q8_0", 8, 32, 34, true},
    {"Q8_1", "q8_1", 9, 32, 40, false},
    {"Q2_K", "q2_k", 10, 256, 84, true},
    {"Q3_K", "q3_k", 11, 256, 110, true},
    {"Q4_K", "q4_k", 12, 256, 144, true},
    {"Q5_K", "q5_k", 13, 256, 176, true},
    {"Q6_K", "q6_k", 14, 256, 210, true},
    {"Q8_K", "q8_k", 15, 256, 292, false},
    {"IQ2_XXS", "iq2_xxs", 16, 256, 66, true},
    {"IQ2_XS", "iq2_xs", 17, 256, 74, true},
    {"IQ3_XXS", "iq3_xxs", 18, 256, 98, true},
    {"IQ1_S", "iq1_s", 19, 256, 50, true},
    {"IQ4_NL", "iq4_nl", 20, 32, 18, true},
    {"IQ3_S", "iq3_s", 21, 256, 110, true},
    {"IQ2_S", "iq2_s", 22, 256, 82, true},
    {"IQ4_XS", "iq4_xs", 23, 256, 136, true},
    {"I8", "i8", 24, 1, 1, false},
    {"I16", "i16", 25, 1, 2, false},
    {"I32", "i32", 26, 1, 4, false},
    {"I64", "i64", 27, 1, 8, false},
    {"F64", "f64", 28, 1, 8, false},
    {"IQ1_M", "iq1_m", 29, 256, 56, true},
    {"BF16", "bf16", 30, 1, 2, true},
    {"TQ1_0", "tq1_0", 34, 256, 54, true},
    {"TQ2_0", "tq2_0", 35, 256, 66, true},
    {"MXFP4", "mxfp4", 39, 32, 17, true},
    {"NVFP4", "nvfp4", 40, 64, 36, true},
    {"Q1_0", "q1_0", 41, 128, 18, false},
};

/// Returns the type of a number; null if ggml does not use the number.
constexpr const GgmlType *ggmlTypeOf(uint32_t number) {
  for (const GgmlType &type : ggmlTypes)
    if (type.number == number)
      return &type;
  return nullptr;
}

/// Returns the type of a name in IR.
constexpr const GgmlType *ggmlTypeOf(std::string_view keyword) {
  for (const GgmlType &type : ggmlTypes)
    if (type.keyword == keyword)
      return &type;
  return nullptr;
}

} // namespace intarsia

#endif
