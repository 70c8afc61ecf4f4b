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

#include <algorithm>
#include <cstdint>
#include <cstring>
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
  /// True if the current field, one of repeated numbers, has any number of them in one piece.
  bool isPacked() const { return reader.wire_type() == protozero::pbf_wire_type::length_delimited; }
  /// Adds the numbers of a repeated field, which stand one by one or packed.
  void integers(std::vector<int64_t> &values) {
    if (!isPacked())
      return values.push_back(integer());
    for (int64_t value : reader.get_packed_int64())
      values.push_back(value);
  }
  /// Returns how many numbers the current field of integers has.
  uint64_t integerCount() const {
    if (!isPacked())
      return 1;
    Message copy = *this;
    std::string_view packed = copy.text();
    return uint64_t(std::count_if(packed.begin(), packed.end(), [](char c) { return (c & 0x80) == 0; }));
  }
  /// Adds the low bytes of each number of a repeated field.
  void integerBytes(std::vector<uint8_t> &values, unsigned bytes) {
    auto add = [&](int64_t value) {
      uint8_t all[sizeof(value)];
      std::memcpy(all, &value, sizeof(value));
      values.insert(values.end(), all, all + bytes);
    };
    if (!isPacked())
      return add(integer());
    values.reserve(values.size() + bytes * integerCount());
    for (int64_t value : reader.get_packed_int64())
      add(value);
  }
  /// Adds the bytes of a repeated field of floats; they are the file's where all are packed in one piece.
  void reals(std::vector<std::string_view> &pieces, unsigned bytes) {
    if (isPacked()) {
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

/// Counts the memory that a model takes beside its tensors. A message of two bytes takes a hundred times as many in
/// memory; a file may take so much, and as much again as it has bytes.
class Budget {
public:
  explicit Budget(uint64_t fileBytes) : left(mostBytes + fileBytes) {}

  /// Counts memory that is about to be taken.
  void take(uint64_t bytes) {
    if (bytes > left)
      throw Malformed{"the nodes, values and numbers of the model take more than " + std::to_string(mostBytes >> 20) +
                      " MiB beside the bytes of the file"};
    left -= bytes;
  }
  /// Makes room for elements that are counted before they are read.
  template <typename T> void reserve(std::vector<T> &list, uint64_t count) {
    take(count * sizeof(T));
    list.reserve(count);
  }
  /// Adds an element to a list, which takes twice its memory where it has no room.
  template <typename T> T &add(std::vector<T> &list) {
    if (list.size() == list.capacity())
      take(std::max<uint64_t>(1, list.size()) * sizeof(T));
    return list.emplace_back();
  }
  void addText(Message &message, std::vector<std::string_view> &list) { add(list) = message.text(); }
  void addIntegers(Message &message, std::vector<int64_t> &list) {
    take(2 * sizeof(int64_t) * message.integerCount());
    message.integers(list);
  }
  /// Adds the low bytes of integers.
  void addElements(Message &message, std::vector<uint8_t> &list, unsigned bytes) {
    take((message.isPacked() ? 1 : 2) * bytes * message.integerCount());
    message.integerBytes(list, bytes);
  }
  /// Adds a piece of packed numbers, or one number; those take as much again when they are joined.
  void addReals(Message &message, std::vector<std::string_view> &pieces, unsigned bytes) {
    take(2 * sizeof(std::string_view) + 2 * bytes);
    message.reals(pieces, bytes);
  }

private:
  static constexpr uint64_t mostBytes = 48ull << 20;

  uint64_t left;
};

/// Packs elements of 6 bits that lie in bytes as raw data has them, the first in the lowest bits.
inline void pack(std::vector<uint8_t> &bytes) {
  constexpr size_t bits = 6;
  std::vector<uint8_t> packed((bytes.size() * bits + 7) / 8);
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto element = uint16_t((bytes[i] & 0x3F) << i * bits % 8);
    packed[i * bits / 8] |= uint8_t(element);
    if (element > 0xFF)
      packed[i * bits / 8 + 1] |= uint8_t(element >> 8);
  }
  bytes = std::move(packed);
}

} // namespace intarsia::onnx

#endif
