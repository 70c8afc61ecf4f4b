//===- ExternalData.cpp - Data of tensors beside an ONNX file
//------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/ExternalData.h"

#include "lib/Formats/Onnx/Wire.h"
#include <optional>
#include <set>

namespace intarsia::onnx {

void readExternal(ExternalFiles *files, const std::vector<std::pair<std::string_view, std::string_view>> &entries,
                  Tensor &tensor) {
  std::string_view location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  std::set<std::string_view> seen;
  for (const auto &[key, value] : entries) {
    if (!seen.insert(key).second)
      throw Malformed{"external data has the key " + quoted(key) + " twice"};
    if (key == "location")
      location = value;
    if (key != "offset" && key != "length")
      continue;
    uint64_t number = 0;
    bool isNumber = !value.empty() && value.size() <= 19;
    for (char c : value.substr(0, 19)) {
      isNumber &= c >= '0' && c <= '9';
      number = number * 10 + uint64_t(c - '0');
    }
    if (!isNumber)
      throw Malformed{"external data has the " + std::string(key) + " " + quoted(value)};
    if (key == "offset")
      offset = number;
    else
      length = number;
  }
  if (!files)
    throw Malformed{"has external data"};
  const MappedFile *file = nullptr;
  if (Status status = files->open(location, file); !status.ok())
    throw Malformed{status.message()};
  if (offset > file->size() || (length && *length > file->size() - offset))
    throw Malformed{"external data " + quoted(location) + " has " + std::to_string(file->size()) + " bytes, " +
                    (length ? std::to_string(*length) + " from " : "those from ") + std::to_string(offset) +
                    " on are wanted"};
  tensor.data = file->data() + offset;
  tensor.bytes = length ? *length : file->size() - offset;
}

} // namespace intarsia::onnx
