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

/// Marks a cf.assert whose condition compares two sizes, in place of an op that needs it: the message is the name of
/// that op. It is a constraint of the sizes of the call (SymbolicSizes), as the ops' own are.
inline constexpr llvm::StringLiteral assertsSizeAttr = "fuse.asserts_size";

} // namespace intarsia

#endif
