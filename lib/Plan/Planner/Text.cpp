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

} // namespace intarsia::plan
