//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Output of users' names and labels: the input may be any bytes, which terminals and JSON do not all accept.
//===----------------------------------------------------------------------------------------------------------===//
#include "Text.h"
#include "lib/Support/Nesting.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Unicode.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

json::Value asJson(StringRef text) { return json::Value(json::fixUTF8(text)); }

json::Value asJson(double figure) { return std::isfinite(figure) ? json::Value(figure) : json::Value(nullptr); }

json::Value orNull(StringRef text) { return text.empty() ? json::Value(nullptr) : asJson(text); }

json::Array asJson(const std::vector<std::string> &texts) {
  return arrayOf(texts, [](StringRef text) { return asJson(text); });
}

Expected<JsonFile> readJson(const std::string &file) {
  auto buffer = MemoryBuffer::getFile(file, /*IsText=*/true);
  if (!buffer)
    return createStringError("cannot read '" + file + "': " + buffer.getError().message());
  JsonFile read{(*buffer)->getBuffer().str()};
  if (deeperJson(read.text))
    return createStringError("'" + file + "' is nested deeper than " + Twine(deepestJson) + " levels");
  Expected<json::Value> value = json::parse(read.text);
  if (!value)
    return createStringError("'" + file + "' is not JSON: " + toString(value.takeError()));
  read.value = std::move(*value);
  return read;
}

size_t characterBytes(StringRef text) {
  size_t bytes = getNumBytesForUTF8(UTF8(text.front()));
  auto begin = reinterpret_cast<const UTF8 *>(text.data());
  return bytes <= text.size() && isLegalUTF8Sequence(begin, begin + bytes) ? bytes : 0;
}

std::string printable(StringRef text, bool keepsLines) {
  std::string result;
  while (!text.empty()) {
    size_t bytes = characterBytes(text);
    auto first = uint8_t(text.front());
    // U+0080 to U+009F are control characters too.
    bool isControl = first < ' ' || first == 0x7f || (bytes == 2 && first == 0xC2 && uint8_t(text[1]) < 0xA0);
    size_t length = std::max<size_t>(bytes, 1);
    if ((bytes == 0 || isControl) && !(keepsLines && first == '\n'))
      for (char byte : text.take_front(length))
        result += "\\" + utohexstr(uint8_t(byte), /*LowerCase=*/false, /*Width=*/2);
    else
      result += text.take_front(length);
    text = text.drop_front(length);
  }
  return result;
}

/// Returns the width on a terminal, where a character may have more bytes than columns.
static size_t columnsOf(StringRef text) { return size_t(std::max(0, sys::unicode::columnWidthUTF8(text))); }

void printTable(raw_ostream &out, std::vector<std::vector<std::string>> rows, size_t leftColumns) {
  std::vector<size_t> widths(rows.front().size());
  for (auto &row : rows)
    for (auto [width, cell] : zip(widths, row)) {
      cell = printable(cell);
      width = std::max(width, columnsOf(cell));
    }
  for (auto &row : rows) {
    std::string line;
    for (auto [column, cell] : enumerate(row)) {
      std::string padding(widths[column] - columnsOf(cell), ' ');
      line += (column ? "  " : "") + (column < leftColumns ? cell + padding : padding + cell);
    }
    out << StringRef(line).rtrim() << '\n';
  }
}

static std::string printed(const char *how, int digits, double value) {
  std::string text;
  raw_string_ostream(text) << format(how, digits, value);
  return text;
}

std::string digits(double value, int count) { return printed("%.*g", count, value); }

std::string number(double value) {
  if (!std::isfinite(value))
    return "–";
  if (value == 0)
    return "0";
  double magnitude = std::abs(value);
  if (magnitude < 1e-4)
    return printed("%.*e", 2, value);
  int digits = value == std::round(value) ? 0 : std::clamp(2 - int(std::floor(std::log10(magnitude) + 1e-12)), 0, 6);
  std::string text = printed("%.*f", digits, value);
  size_t whole = std::min(text.find('.'), text.size());
  for (size_t at = whole; at > (value < 0 ? 4u : 3u); at -= 3)
    text.insert(at - 3, ",");
  return text;
}

std::string duration(double milliseconds) {
  if (!std::isfinite(milliseconds))
    return "–";
  if (std::abs(milliseconds) < 0.001)
    return "0 ms";
  if (std::abs(milliseconds) < 1000)
    return number(milliseconds) + " ms";
  if (std::abs(milliseconds) < 180e3)
    return number(milliseconds / 1000) + " s";
  return number(milliseconds / 60e3) + " min";
}

} // namespace intarsia::plan
