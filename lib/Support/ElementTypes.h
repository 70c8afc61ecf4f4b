//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Names of the number formats that models are served in: in agents and placements (`precision`), in plans, and in the
// catalogue, which lists peaks of devices by them.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_ELEMENTTYPES_H
#define INTARSIA_LIB_SUPPORT_ELEMENTTYPES_H

#include <string_view>

namespace intarsia {

/// Element types of weights: two bytes are f16 or bf16, one is fp8 or int8, half of one is fp4 or int4.
inline constexpr std::string_view elementTypes[] = {"f32", "f16", "bf16", "fp8", "int8", "fp4", "int4"};

} // namespace intarsia

#endif
