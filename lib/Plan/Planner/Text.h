//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Output of users' names, labels and paths, which may have any bytes, to JSON and to a terminal.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_DRIVER_TEXT_H
#define INTARSIA_LIB_PLAN_DRIVER_TEXT_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <optional>

namespace intarsia::plan {

/// Returns a text as JSON; invalid UTF-8 becomes U+FFFD, as json::Value takes only valid UTF-8.
llvm::json::Value asJson(llvm::StringRef text);
/// Returns null for infinity, which JSON does not have.
llvm::json::Value asJson(double figure);
inline llvm::json::Value asJson(int64_t count) { return count; }
template <typename T> llvm::json::Value asJson(const std::optional<T> &value) {
  return value ? asJson(*value) : nullptr;
}
/// Returns null for an empty text.
llvm::json::Value orNull(llvm::StringRef text);
/// Returns what `make` makes of each element.
template <typename Range, typename Make> llvm::json::Array arrayOf(Range &&range, Make make) {
  llvm::json::Array array;
  for (auto &&element : range)
    array.push_back(make(element));
  return array;
}
llvm::json::Array asJson(const std::vector<std::string> &texts);

/// Reads a file of JSON. The error names the file and says what is wrong with it.
struct JsonFile {
  std::string text;
  llvm::json::Value value = nullptr;
};
llvm::Expected<JsonFile> readJson(const std::string &file);

/// Returns the bytes of the UTF-8 character at the beginning of a non-empty text; 0 if there is none.
size_t characterBytes(llvm::StringRef text);

/// Returns a text for a terminal: control characters and invalid UTF-8 are written as MLIR does, "\09" and "\FF". Line
/// ends can be kept.
std::string printable(llvm::StringRef text, bool keepsLines = false);

/// Prints columns padded to their widest entry; those after the first `leftColumns` are aligned right.
void printTable(llvm::raw_ostream &out, std::vector<std::vector<std::string>> rows, size_t leftColumns);

/// Returns a number with that many significant digits: 95, 99.9, 0.0121.
std::string digits(double value, int count = 6);
/// Returns "0.71 ms", "421 ms", "10.0 s", "12.4 min"; "–" for infinity.
std::string duration(double milliseconds);
/// Returns a number, whole or with three or more significant digits, grouped: "20", "0.0427", "9.57", "12,345".
std::string number(double value);

} // namespace intarsia::plan

#endif
