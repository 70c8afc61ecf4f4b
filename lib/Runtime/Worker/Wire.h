//===- Wire.h - How messages between a worker and its front end are written ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A message is a header, two u32: the bytes of its body and its kind. In bodies numbers are little-endian and follow
// one another without padding; a list or a text is its count, a u32, and its elements. A body has nothing behind its
// last field. One function lists the fields of a message (Messages.h), for the reader and the writer alike.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_WORKER_WIRE_H
#define INTARSIA_RUNTIME_WORKER_WIRE_H

#include "lib/Support/Status.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace intarsia::runtime {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in memory");

template <typename Value>
concept WireNumber = std::is_integral_v<Value> || std::is_floating_point_v<Value>;

/// Reads the fields of a body. The first problem is kept, fields behind it are left as they are.
class WireReader {
public:
  WireReader(const uint8_t *data, size_t bytes) : at_(data), end_(data + bytes) {}

  template <WireNumber Value> void operator()(const char *name, Value &value) {
    if (take(name, sizeof(value)))
      std::memcpy(&value, at_ - sizeof(value), sizeof(value));
  }
  void operator()(const char *name, std::string &text) {
    uint32_t count = countOf(name, 1);
    if (take(name, count))
      text.assign(reinterpret_cast<const char *>(at_ - count), count);
  }
  template <WireNumber Value> void operator()(const char *name, std::vector<Value> &values) {
    uint32_t count = countOf(name, sizeof(Value));
    size_t bytes = count * sizeof(Value);
    if (!take(name, bytes))
      return;
    values.resize(count);
    if (count)
      std::memcpy(values.data(), at_ - bytes, bytes);
  }
  template <typename Element>
    requires(!WireNumber<Element>)
  void operator()(const char *name, std::vector<Element> &elements) {
    uint32_t count = countOf(name, Element::leastBytes);
    elements.clear();
    for (uint32_t i = 0; i < count && status_.ok(); ++i)
      elements.emplace_back().fields(*this);
  }

  /// Returns what is wrong with the body; to be called after its last field.
  Status finish() {
    if (status_.ok() && at_ != end_)
      status_ = error(ITX_CORRUPT, "%zu bytes are left behind the last field", size_t(end_ - at_));
    return status_;
  }

private:
  bool take(const char *name, size_t bytes) {
    if (!status_.ok())
      return false;
    if (size_t(end_ - at_) < bytes) {
      status_ = error(ITX_CORRUPT, "the body ends within '%s'", name);
      return false;
    }
    at_ += bytes;
    return true;
  }
  /// Reads a count of elements that have at least so many bytes each. Memory is taken only for what has come.
  uint32_t countOf(const char *name, size_t elementBytes) {
    uint32_t count = 0;
    (*this)(name, count);
    if (status_.ok() && count > size_t(end_ - at_) / elementBytes)
      status_ = error(ITX_CORRUPT, "'%s' has %u elements, the body ends before", name, count);
    return status_.ok() ? count : 0;
  }

  const uint8_t *at_, *end_;
  Status status_;
};

/// Writes the fields of a body behind the header of its message.
class WireWriter {
public:
  explicit WireWriter(uint32_t kind) {
    uint32_t header[2] = {0, kind};
    append(header, sizeof(header));
  }

  template <WireNumber Value> void operator()(const char *, const Value &value) { append(&value, sizeof(value)); }
  void operator()(const char *name, const std::string &text) {
    (*this)(name, uint32_t(text.size()));
    append(text.data(), text.size());
  }
  template <WireNumber Value> void operator()(const char *name, const std::vector<Value> &values) {
    (*this)(name, uint32_t(values.size()));
    append(values.data(), values.size() * sizeof(Value));
  }
  template <typename Element>
    requires(!WireNumber<Element>)
  void operator()(const char *name, std::vector<Element> &elements) {
    (*this)(name, uint32_t(elements.size()));
    for (Element &element : elements)
      element.fields(*this);
  }

  /// Returns the message.
  std::string finish() {
    uint32_t bytes = uint32_t(bytes_.size() - 2 * sizeof(uint32_t));
    std::memcpy(bytes_.data(), &bytes, sizeof(bytes));
    return std::move(bytes_);
  }

private:
  void append(const void *data, size_t bytes) { bytes_.append(static_cast<const char *>(data), bytes); }

  std::string bytes_;
};

} // namespace intarsia::runtime

#endif
