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

/// Marks a cf.assert that compares an index with the size of its dimension: its error shows both numbers. The error of
/// an assertion without this attribute is the message that the user wrote.
inline constexpr llvm::StringLiteral assertsIndexAttr = "legalize.asserts_index";

} // namespace intarsia

#endif
