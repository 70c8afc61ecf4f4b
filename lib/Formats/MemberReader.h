//===- MemberReader.h - Members of JSON objects from outside, checked ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_MEMBERREADER_H
#define INTARSIA_LIB_FORMATS_MEMBERREADER_H

#include "lib/Support/Json.h"

#include <string>
#include <vector>

namespace intarsia {

/// Reads members of JSON objects and keeps the first error. Each function returns an empty value after an error, so
/// that callers check `status` once.
class MemberReader {
public:
  /// `name` starts each message.
  explicit MemberReader(std::string name) : name_(std::move(name)) {}

  Status status;

  /// Keeps an error, ITX_CORRUPT, unless there was one before.
  void fail(const std::string &what) {
    if (status.ok())
      status = {ITX_CORRUPT, name_ + ": " + what};
  }

  /// Returns a member; null if it is missing.
  const Json *member(const Json &object, const char *key, bool required = true) {
    auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end() || found->is_null()) {
      if (required)
        fail(std::string("'") + key + "' is missing");
      return nullptr;
    }
    return &*found;
  }

  std::string text(const Json &object, const char *key, bool required = true) {
    const Json *value = member(object, key, required);
    if (!value)
      return {};
    if (!value->is_string()) {
      fail(std::string("'") + key + "' is not a string");
      return {};
    }
    return value->get<std::string>();
  }

  /// Reads a number that fits in 64 bits with a sign. Returns false, after an error, if it is none.
  bool integer(const Json &value, const char *what, int64_t &result) {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX))) {
      fail(std::string(what) + " is not an integer");
      return false;
    }
    result = value.get<int64_t>();
    return true;
  }

  /// Returns an array member; an empty one if it is missing and not required.
  const Json &array(const Json &object, const char *key, bool required = true) {
    static const Json empty = Json::array();
    const Json *value = member(object, key, required);
    if (!value)
      return empty;
    if (!value->is_array()) {
      fail(std::string("'") + key + "' is not an array");
      return empty;
    }
    return *value;
  }

  std::vector<std::string> texts(const Json &object, const char *key, bool required = true) {
    std::vector<std::string> result;
    for (const Json &item : array(object, key, required)) {
      if (!item.is_string())
        fail(std::string("'") + key + "' holds something that is not a string");
      else
        result.push_back(item.get<std::string>());
    }
    return result;
  }

private:
  std::string name_;
};

} // namespace intarsia

#endif
