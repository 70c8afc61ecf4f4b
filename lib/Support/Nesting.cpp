//===- Nesting.cpp -----------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Nesting.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <utility>
#include <vector>

namespace intarsia {

static TextPosition positionOf(std::string_view text, size_t offset) {
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

std::optional<TextPosition> deeperJson(std::string_view text, size_t deepest) {
  size_t depth = 0;
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    if (c == '"') {
      at = endOfString(text, at);
      continue;
    }
    if ((c == '{' || c == '[') && ++depth > deepest)
      return positionOf(text, at);
    if ((c == '}' || c == ']') && depth > 0)
      --depth;
    ++at;
  }
  return std::nullopt;
}

namespace {
/// Reads MLIR text token by token. Where the meaning of a character is ambiguous it counts opening but not closing
/// brackets: its stack is as deep as the parser's or deeper, until an enclosing bracket closes.
class MlirScan {
public:
  MlirScan(std::string_view text, size_t deepest) : text(text), deepest(deepest) {}

  std::optional<TextPosition> run() {
    while (at < text.size() && !isTooDeep)
      readToken();
    return isTooDeep ? std::optional(positionOf(text, tokenStart)) : std::nullopt;
  }

private:
  struct Open {
    char bracket;
    size_t operators = 0; ///< since the last comma
  };

  std::string_view text;
  size_t deepest;
  size_t at = 0, tokenStart = 0;
  bool isTooDeep = false;
  std::vector<Open> open;
  size_t depth = 0;           ///< brackets and operators of `open`
  bool isContinued = false;   ///< an attribute or a type follows the last token
  std::string_view defined;   ///< the alias that is being defined, or empty
  size_t definitionDepth = 0; ///< depth at the beginning of the definition
  std::unordered_map<std::string_view, size_t> depthOfAlias;

  char ahead(size_t distance) const { return at + distance < text.size() ? text[at + distance] : '\0'; }

  /// Reads and returns the characters from `at` on that are letters, digits or in `others`.
  std::string_view readWord(std::string_view others) {
    size_t start = at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || contains(others, text[at])))
      ++at;
    return text.substr(start, at - start);
  }

  static bool contains(std::string_view characters, char c) { return characters.find(c) != std::string_view::npos; }

  void reach(size_t reached) {
    isTooDeep |= reached > deepest;
    if (!defined.empty() && reached > definitionDepth) {
      size_t &known = depthOfAlias[defined];
      known = std::max(known, reached - definitionDepth);
    }
  }

  void push(char bracket) {
    open.push_back({bracket});
    reach(++depth);
  }

  /// Closes the last open `bracket` and everything opened inside it. A `>` may also be a comparison, so it closes only
  /// the innermost bracket.
  void close(char bracket) {
    auto isIts = [&](const Open &entry) { return entry.bracket == bracket; };
    auto last = std::find_if(open.rbegin(), open.rend(), isIts);
    if (last == open.rend() || (bracket == '<' && last != open.rbegin()))
      return;
    for (size_t left = size_t(open.rend() - last) - 1; open.size() > left; open.pop_back())
      depth -= 1 + open.back().operators;
  }

  void countOperator() {
    // Constants in regions have signs and no commas, and no affine expression is in braces alone.
    if (open.empty() || open.back().bracket == '{')
      return;
    ++open.back().operators;
    reach(++depth);
  }

  void readComment() {
    bool mayBeBody = std::any_of(open.begin(), open.end(), [](const Open &entry) { return entry.bracket == '<'; });
    for (; at < text.size() && text[at] != '\n' && !isTooDeep; ++at)
      if (mayBeBody && contains("([{<", text[at])) {
        tokenStart = at;
        push(text[at]);
      }
  }

  /// Reads an alias: its definition if `=` follows, else a use.
  void readAlias() {
    ++at;
    std::string_view name = readWord("$._-");
    name = text.substr(tokenStart, name.size() + 1);
    size_t after = text.find_first_not_of(" \t\r\n", at);
    if (after != std::string_view::npos && text[after] == '=') {
      defined = name;
      definitionDepth = depth;
      depthOfAlias[name] = 0;
    } else if (auto known = depthOfAlias.find(name); known != depthOfAlias.end() && name != defined) {
      reach(depth + known->second);
    }
  }

  /// Ends the definition of an alias, if one is complete, when an op begins.
  void endDefinition() {
    if (!isContinued && depth <= definitionDepth)
      defined = {};
  }

  void readToken() {
    tokenStart = at;
    char c = text[at];
    if (contains(" \t\r\n", c)) {
      ++at;
      return;
    }
    if (c == '/' && ahead(1) == '/') {
      readComment();
      return;
    }
    bool continues = false;
    if (c == '"') {
      endDefinition();
      at = endOfString(text, at);
    } else if (c == '#' || c == '!') {
      readAlias();
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      endDefinition();
      std::string_view word = readWord("_.$");
      if (word == "mod" || word == "floordiv" || word == "ceildiv")
        countOperator();
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      readWord("_.");
    } else {
      continues = readPunctuation(c);
    }
    isContinued = continues;
  }

  /// Returns true if an attribute or a type follows.
  bool readPunctuation(char c) {
    if (c == '-' && ahead(1) == '>') {
      at += 2;
      return true;
    }
    // The parser may read `<=` as the beginning of a body, but never `>=` as the end of one.
    bool isClosing = c != '>' || (ahead(1) != '=' && (at == 0 || text[at - 1] != '-'));
    ++at;
    if (contains("([{<", c))
      push(c);
    else if (contains(")]}>", c) && isClosing)
      close(c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<');
    else if (contains("+-*", c))
      countOperator();
    else if (c == ',' && !open.empty())
      depth -= std::exchange(open.back().operators, 0);
    else if (c == '%')
      endDefinition();
    return c == '=' || c == ':';
  }
};
} // namespace

std::optional<TextPosition> deeperMlir(std::string_view text, size_t deepest) { return MlirScan(text, deepest).run(); }

} // namespace intarsia
