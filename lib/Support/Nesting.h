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

/// The deepest MLIR that is read. On a stack of 8 MB LLVM 22.1 survives 2,100 nested ops in their generic form, which
/// have two brackets each, 4,000 modules, 6,100 `!llvm.struct<(`, 6,500 dictionaries, 7,000 arrays or affine
/// parentheses and 15,000 of other types. The phases of Intarsia print up to 18 levels, and 32 in generic form.
inline constexpr size_t deepestMlir = 256;

/// The line and the column of a byte, from 1.
struct TextPosition {
  size_t line, column;
};

/// Returns the first bracket of JSON text that is nested deeper than `deepest`. Brackets in strings are not counted;
/// text that is not JSON is only measured up to where a parser stops.
std::optional<TextPosition> deeperJson(std::string_view text, size_t deepest = deepestJson);

/// Returns the first position in MLIR text that is nested deeper than `deepest`. Operators of affine expressions count
/// like brackets, until a comma or the end of the enclosing bracket; an alias (`#name`, `!name`) counts with the depth
/// of its definition: parsers and printers recurse for them too. Brackets in strings and comments are not counted,
/// except opening ones in a comment inside <>, which the parser may read as the body of an attribute.
std::optional<TextPosition> deeperMlir(std::string_view text, size_t deepest = deepestMlir);

} // namespace intarsia

#endif
