//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Output of users' names and labels: the input may be any bytes, which terminals and JSON do not all accept.
//===----------------------------------------------------------------------------------------------------------===//
#include "Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

json::Value asJson(StringRef text) { return json::Value(json::fixUTF8(text)); }

json::Array asJson(const std::vector<std::string> &texts) {
  json::Array array;
  for (const std::string &text : texts)
    array.push_back(asJson(text));
  return array;
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

static std::string printed(const char *how, int digits, double value) {
  std::string text;
  raw_string_ostream(text) << format(how, digits, value);
  return text;
}

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
