//===- Nesting.cpp -----------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Nesting.h"

#include <algorithm>

namespace intarsia {

static TextPlace placeOf(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, offset);
  size_t lineStart = before.rfind('\n') + 1; // npos + 1 is 0
  return {1 + size_t(std::count(before.begin(), before.end(), '\n')), 1 + offset - lineStart};
}

/// Returns the offset behind the string that begins at `quote`.
static size_t endOfString(std::string_view text, size_t quote) {
  size_t end = quote + 1;
  while (end < text.size() && text[end] != '"')
    end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

std::optional<TextPlace> deeperJson(std::string_view text, size_t deepest) {
  size_t depth = 0;
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    if (c == '"') {
      at = endOfString(text, at);
      continue;
    }
    if ((c == '{' || c == '[') && ++depth > deepest)
      return placeOf(text, at);
    if ((c == '}' || c == ']') && depth > 0)
      --depth;
    ++at;
  }
  return std::nullopt;
}

} // namespace intarsia
