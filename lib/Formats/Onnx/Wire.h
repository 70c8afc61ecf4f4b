//===- Wire.h - Fields of protobuf messages -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Wire format: https://protobuf.dev/programming-guides/encoding.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ONNX_WIRE_H
#define INTARSIA_LIB_FORMATS_ONNX_WIRE_H

#include "lib/Formats/Onnx/OnnxModel.h"

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace intarsia::onnx {

/// What is wrong with a file. It does not leave the reader.
struct Malformed {
  std::string what;
};

inline std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

/// One message of the file: a field after the other. Values are asked for by the type that they must have.
class Message {
public:
  explicit Message(std::string_view bytes) : reader(bytes.data(), bytes.size()) {}

  bool next() { return reader.next(); }
  unsigned field() const { return reader.tag(); }
  void skip() { reader.skip(); }

  std::string_view text() {
    expect(protozero::pbf_wire_type::length_delimited);
    protozero::data_view view = reader.get_view();
    return {view.data(), view.size()};
  }
  Message message() { return Message(text()); }
  int64_t integer() {
    expect(protozero::pbf_wire_type::varint);
    return reader.get_int64();
  }
  int32_t number32() { return int32_t(integer()); }
  float real() {
    expect(protozero::pbf_wire_type::fixed32);
    return reader.get_float();
  }
  /// Adds the numbers of a repeated field, which stand one by one or packed.
  void integers(std::vector<int64_t> &values) {
    if (reader.wire_type() != protozero::pbf_wire_type::length_delimited)
      return values.push_back(integer());
    for (int64_t value : reader.get_packed_int64())
      values.push_back(value);
  }
  /// Adds the bytes of a repeated field of floats; they are the file's where all are packed in one piece.
  void reals(std::vector<std::string_view> &pieces, unsigned bytes) {
    if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
      pieces.push_back(text());
      if (pieces.back().size() % bytes != 0)
        throw Malformed{"packed numbers of " + std::to_string(bytes) + " bytes each have " +
                        std::to_string(pieces.back().size()) + " bytes"};
      return;
    }
    expect(bytes == 4 ? protozero::pbf_wire_type::fixed32 : protozero::pbf_wire_type::fixed64);
    const char *begin = reader.data().data();
    reader.skip();
    pieces.emplace_back(begin, bytes);
  }

private:
  void expect(protozero::pbf_wire_type type) const {
    if (reader.wire_type() != type)
      throw Malformed{"field " + std::to_string(reader.tag()) + " has wire type " +
                      std::to_string(unsigned(reader.wire_type())) + ", its wire type is " +
                      std::to_string(unsigned(type))};
  }

  protozero::pbf_reader reader;
};

} // namespace intarsia::onnx

#endif
