//===- Nesting.h - How deeply text is nested ---------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Parsers of JSON and of MLIR recurse once or more for each bracket, without a limit: a file of opening brackets
// overflows their stack. These scans take linear time, need no stack, and are made before such a parser sees the text.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_NESTING_H
#define INTARSIA_LIB_SUPPORT_NESTING_H

#include <cstddef>
#include <optional>
#include <string_view>

namespace intarsia {

/// The deepest JSON that is read. Settings of models, plans and manifests nest less than ten levels.
inline constexpr size_t deepestJson = 64;

/// The line and the column of a byte, from 1.
struct TextPlace {
  size_t line, column;
};

/// Returns the first bracket of JSON text that is nested deeper than `deepest`. Brackets in strings are not counted;
/// text that is not JSON is only measured up to where a parser stops.
std::optional<TextPlace> deeperJson(std::string_view text, size_t deepest = deepestJson);

} // namespace intarsia

#endif
