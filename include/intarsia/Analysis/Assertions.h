//===- Assertions.h - How assertions are told --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_ASSERTIONS_H
#define INTARSIA_ANALYSIS_ASSERTIONS_H

#include "llvm/ADT/StringRef.h"

namespace intarsia {

/// Says of a cf.assert that it compares an index with the size of its dimension, both of which an error shows. What the
/// user asserts has the user's message alone.
inline constexpr llvm::StringLiteral assertsIndexAttr = "legalize.asserts_index";

} // namespace intarsia

#endif
